//! Memory exposed to peers, over loopback: sockets, shared memory, and what is found best.

use std::time::Duration;

use packhorse::{
    Access, AtomicOp, Builder, Datatype, Denial, Endpoint, Error, Peer, Peers, Placement, queue,
};

/// What has not happened by then does not happen, on a machine with much to do either.
const PATIENCE: Duration = Duration::from_secs(60);

const KEY: u64 = 0xFEED;

fn open(placement: Placement, link: &str) -> Endpoint {
    let builder = Builder::plain().bind([127, 0, 0, 1]).placement(placement);
    let builder = builder.link(link.parse().unwrap());
    builder.linger(Duration::from_millis(200)).open().unwrap()
}

/// A target that is driven by its helper, and never asked to do anything.
fn pairs() -> impl Iterator<Item = (Endpoint, Endpoint, Peer)> {
    let placements = [Placement::Inline, Placement::Thread].into_iter();
    let all = placements.flat_map(|placement| ["udp", "shm", "auto"].map(|link| (placement, link)));
    all.map(|(placement, link)| {
        let (a, b) = (open(placement, link), open(Placement::Thread, link));
        let to_b = a.peer(&b.address()).unwrap();
        (a, b, to_b)
    })
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

#[test]
fn what_is_put_is_there_and_what_is_got_was_there() {
    for (a, b, to_b) in pairs() {
        let region = b.expose(vec![7; 6 << 20], KEY, Access::ALL).unwrap();
        let there = to_b.memory(KEY);
        for len in [0, 1, 8, 1024, 1400, 1500, 9000, 32 << 10, 100_000, 5 << 20] {
            let back = a.put(there.at(64), pattern(len)).wait().unwrap();
            assert_eq!(back.len(), len, "the buffer comes back");
            assert!(region.read(64, len).unwrap() == pattern(len), "{len} bytes put");
            assert_eq!(region.read(64 + len as u64, 1).unwrap(), [7], "and not one more");
            let got = a.get(there.at(64), vec![0; len]).wait().unwrap();
            assert!(got == pattern(len), "{len} bytes got");
            region.write(64, &vec![7; len]).unwrap();
        }
        let buffer = region.withdraw().unwrap();
        assert!(buffer == vec![7; 6 << 20], "given back");
    }
}

#[test]
fn a_passive_target_serves_what_is_large_without_a_call_of_its_own() {
    let (a, b) = (open(Placement::Thread, "udp"), open(Placement::Thread, "udp"));
    let there = a.peer(&b.address()).unwrap().memory(KEY);
    let _region = b.expose(pattern(16 << 20), KEY, Access::READ).unwrap();
    let got = a.get(there, vec![0; 16 << 20]).wait().unwrap();
    assert!(got == pattern(16 << 20));
}

#[test]
fn atomics_of_several_peers_lose_nothing() {
    let target = open(Placement::Thread, "udp");
    let region = target.expose(vec![0; 16], KEY, Access::ALL).unwrap();
    let address = target.address();
    let adders: Vec<_> = (0..3)
        .map(|_| {
            std::thread::spawn(move || {
                let adder = open(Placement::Inline, "udp");
                let there = adder.peer(&address).unwrap().memory(KEY).at(8);
                let one = 1_u64.to_le_bytes();
                let mut seen = Vec::new();
                for _ in 0..200 {
                    let before = adder.fetch(there, AtomicOp::Sum, Datatype::U64, &one).wait();
                    let before: [u8; 8] = before.unwrap().try_into().unwrap();
                    seen.push(u64::from_le_bytes(before));
                }
                seen
            })
        })
        .collect();
    let mut seen: Vec<u64> = adders.into_iter().flat_map(|it| it.join().unwrap()).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..600), "each saw another number");
    assert_eq!(region.read(8, 8).unwrap(), 600_u64.to_le_bytes());
    assert_eq!(region.read(0, 8).unwrap(), [0; 8]);
}

#[test]
fn swaps_compare_and_reads_read() {
    for (a, b, to_b) in pairs() {
        let region = b.expose(vec![0; 64], KEY, Access::ALL).unwrap();
        let there = to_b.memory(KEY).at(3); // aligned to nothing
        let number = |value: i32| value.to_le_bytes();
        a.atomic(there, AtomicOp::Write, Datatype::I32, &number(-5)).wait().unwrap();
        let swap = |compare: i32, new: i32| {
            let (op, of) = (AtomicOp::Cswap, Datatype::I32);
            a.compare(there, op, of, &number(new), &number(compare)).wait().unwrap()
        };
        assert_eq!(swap(1, 9), number(-5), "not what it was compared with");
        assert_eq!(swap(-5, 9), number(-5));
        let read = a.fetch(there, AtomicOp::Read, Datatype::I32, &[0; 4]).wait().unwrap();
        assert_eq!(read, number(9));
        assert_eq!(region.read(3, 4).unwrap(), number(9));
        let odd = a.atomic(there, AtomicOp::Bor, Datatype::F64, &[0; 8]).wait();
        assert!(matches!(odd.unwrap_err().error, Error::BadAtomic));
    }
}

#[test]
fn what_is_not_permitted_is_an_error_that_names_the_peer() {
    let (a, b) = (open(Placement::Thread, "udp"), open(Placement::Thread, "udp"));
    let to_b = a.peer(&b.address()).unwrap();
    let reader = b.expose(vec![7; 100], 1, Access::READ).unwrap();
    let named = b.expose_to(Peers::Named, vec![7; 100], 2, Access::ALL).unwrap();
    let twice = b.expose(vec![1; 5], 1, Access::ALL).unwrap_err();
    assert!(matches!(twice.error, Error::KeyInUse));
    assert_eq!(twice.buffer, Some(vec![1; 5]));
    let denial = |key, offset| {
        let failed = a.put(to_b.memory(key).at(offset), vec![1; 10]).wait().unwrap_err();
        assert_eq!(failed.buffer, Some(vec![1; 10]), "the buffer comes back");
        assert!(failed.error.to_string().contains("127.0.0.1"), "{}", failed.error);
        match failed.error {
            Error::Denied { denial, .. } => denial,
            other => panic!("{other}"),
        }
    };
    assert_eq!(denial(9, 0), Denial::NoKey);
    assert_eq!(denial(1, 0), Denial::Access);
    assert_eq!(denial(2, 0), Denial::NoKey, "b was never told of a");
    b.peer(&a.address()).unwrap();
    assert_eq!(denial(2, 91), Denial::Range);
    a.put(to_b.memory(2).at(90), vec![1; 10]).wait().unwrap();
    assert_eq!(reader.withdraw().unwrap(), vec![7; 100]);
    assert_eq!(named.read(0, 90).unwrap(), vec![7; 90]);
    assert_eq!(denial(1, 0), Denial::NoKey, "withdrawn");
}

#[test]
fn an_immediate_tells_the_owner() {
    for (a, b, to_b) in pairs() {
        let region = b.expose(vec![0; 200_000], KEY, Access::WRITE).unwrap();
        for (immediate, len) in [(1, 8), (2, 5000), (3, 100_000)] {
            a.put_with_immediate(to_b.memory(KEY).at(5), pattern(len), immediate).wait().unwrap();
            let written = region.wait_written(Some(PATIENCE)).unwrap();
            assert_eq!(
                (written.offset, written.len, written.immediate),
                (5, len as u64, immediate)
            );
            assert!(region.read(5, len).unwrap() == pattern(len));
        }
        assert_eq!(region.written(), None);
    }
}

#[test]
fn a_queue_is_told_of_operations() {
    let (a, b) = (open(Placement::Thread, "udp"), open(Placement::Thread, "udp"));
    let there = a.peer(&b.address()).unwrap().memory(KEY);
    let _region = b.expose(vec![9; 100_000], KEY, Access::READ).unwrap();
    let mut told = a.queue(16);
    told.get(there, vec![0; 50_000], 1).unwrap();
    told.put(there, vec![0; 8], 2).unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let ended = told.wait(Some(PATIENCE)).unwrap();
        let buffer: Vec<u8> = told.buffer(&ended).unwrap();
        seen.push((ended.context, ended.kind, ended.result.is_ok(), buffer.len()));
        if ended.context == 1 {
            assert!(buffer == vec![9; 50_000]);
        }
    }
    seen.sort_unstable_by_key(|it| it.0);
    assert_eq!(seen, [(1, queue::Kind::Got, true, 50_000), (2, queue::Kind::Put, false, 8)]);
}

#[test]
fn a_cancelled_get_gives_its_buffer_back_at_once() {
    let a = open(Placement::Thread, "udp");
    let b = open(Placement::Inline, "udp"); // nobody drives it: the get cannot end
    let there = a.peer(&b.address()).unwrap().memory(KEY);
    let _region = b.expose(vec![9; 1 << 20], KEY, Access::READ).unwrap();
    let getting = a.get(there, vec![1; 1 << 20]);
    assert!(getting.cancel());
    let failed = getting.wait().unwrap_err();
    assert!(matches!(failed.error, Error::Cancelled));
    assert_eq!(failed.buffer.unwrap().len(), 1 << 20);
}

#[test]
fn an_endpoint_operates_on_its_own_memory() {
    let a = open(Placement::Thread, "udp");
    let region = a.expose(vec![0; 1 << 20], KEY, Access::ALL).unwrap();
    let there = a.peer(&a.address()).unwrap().memory(KEY);
    for len in [8, 5000, 500_000] {
        a.put(there, pattern(len)).wait().unwrap();
        assert!(a.get(there, vec![0; len]).wait().unwrap() == pattern(len));
    }
    drop(region);
}

#[test]
fn a_peer_that_leaves_ends_what_is_asked_of_it() {
    let (a, b) = (open(Placement::Thread, "udp"), open(Placement::Thread, "udp"));
    let there = a.peer(&b.address()).unwrap().memory(KEY);
    let region = b.expose(vec![0; 100], KEY, Access::ALL).unwrap();
    a.put(there, vec![1; 8]).wait().unwrap();
    assert!(b.close(PATIENCE));
    assert_eq!(region.withdraw(), None, "closed with its endpoint");
    let late = a.put(there, vec![1; 8]).wait().unwrap_err();
    let is_gone = matches!(late.error, Error::Gone { .. } | Error::PeerClosed { .. });
    assert!(is_gone, "{}", late.error);
}

#[test]
fn puts_that_are_told_wait_until_somebody_asks_of_those_before() {
    const COUNT: u64 = 80_000; // more than are kept
    for link in ["udp", "shm"] {
        let (a, b) = (open(Placement::Thread, link), open(Placement::Thread, link));
        let there = a.peer(&b.address()).unwrap().memory(KEY);
        let region = b.expose(vec![0; 8], KEY, Access::ALL).unwrap();
        let puts: Vec<_> = (0..COUNT)
            .map(|number| a.put_with_immediate(there, number.to_le_bytes().to_vec(), number))
            .collect();
        let until = std::time::Instant::now() + Duration::from_secs(120);
        let is_held =
            || b.counters().iter().any(|(name, count)| name == "notices_held" && *count > 0);
        while !is_held() {
            assert!(std::time::Instant::now() < until, "{link}: nobody asked, and all were told");
            a.turn();
        }
        for number in 0..COUNT {
            let written = region.wait_written(Some(Duration::from_secs(60)));
            let written = written.unwrap_or_else(|| panic!("{link}: {number} was not told"));
            assert_eq!(written.immediate, number, "{link}: each once, in order");
        }
        puts.into_iter().for_each(|put| drop(put.wait().unwrap()));
        assert!(region.written().is_none());
    }
}
