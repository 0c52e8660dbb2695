//! What each layer promises, over real sockets: bytes, matching, and copies by counter.

#![forbid(unsafe_code)]

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use packhorse::{Endpoint, Peer, Placement};
use packhorse_layers::array::SharedArray;
use packhorse_layers::socket::{Read, Socket};
use packhorse_layers::{ContiguousShim, Received, Shim, StreamShim};

const LONGEST: Duration = Duration::from_secs(30);

fn open() -> Endpoint {
    let builder = Endpoint::builder().links("udp").bind(Ipv4Addr::LOCALHOST);
    builder.placement(Placement::Inline).linger(Duration::from_millis(100)).open().unwrap()
}

/// Two endpoints, and what each calls the other.
fn pair() -> (Endpoint, Endpoint, Peer, Peer) {
    let (a, b) = (open(), open());
    let (b_of_a, a_of_b) = (a.peer(&b.address()).unwrap(), b.peer(&a.address()).unwrap());
    (a, b, b_of_a, a_of_b)
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (seed * 31 + at * 7 + at / 251) as u8).collect()
}

fn count(endpoint: &Endpoint, name: &str) -> u64 {
    endpoint.counters().into_iter().find(|(each, _)| each == name).expect("a counter").1
}

/// Extracts at both until there is something.
#[track_caller]
fn until<T>(a: &Endpoint, b: &Endpoint, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        a.streams().extract(usize::MAX).unwrap();
        b.streams().extract(usize::MAX).unwrap();
        assert!(began.elapsed() < LONGEST, "nothing comes any more");
    }
}

fn text_of(received: &Received) -> &[u8] {
    &received.buffer[..received.len]
}

/// Receives that wait, receives that come late, two tags, lengths around a frame.
fn try_shim(a: &Endpoint, b: &Endpoint, to_b: Peer, from: &dyn Shim, to: &dyn Shim) {
    for (round, len) in [0, 1, 16, 1000, 20_000, 60_000].into_iter().enumerate() {
        to.post(1, vec![0; len]);
        from.send(to_b, 1, &pattern(round, len)).unwrap();
        from.send(to_b, 2, &pattern(round + 1, len)).unwrap();
        let first = until(a, b, || to.try_take());
        assert_eq!((first.tag, text_of(&first)), (1, &*pattern(round, len)));
        // Of tag 2 nobody knew: it waits.
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(5) {
            b.streams().extract(usize::MAX).unwrap();
        }
        to.post(2, vec![0; len]);
        let second = until(a, b, || to.try_take());
        assert_eq!((second.tag, text_of(&second)), (2, &*pattern(round + 1, len)));
    }
}

#[test]
fn both_shims_match_receives() {
    let (a, b, to_b, _) = pair();
    let (from, to) = (ContiguousShim::new(&a), ContiguousShim::new(&b));
    try_shim(&a, &b, to_b, &from, &to);
    let (from, to) = (StreamShim::new(&a), StreamShim::new(&b));
    try_shim(&a, &b, to_b, &from, &to);
}

/// Sends so many messages, each to a receive that waits: copies at the sender, copies at the receiver.
fn copies_of(
    from: &dyn Shim,
    to: &dyn Shim,
    (a, b, to_b): (&Endpoint, &Endpoint, Peer),
) -> [u64; 4] {
    for round in 0..100 {
        to.post(7, vec![0; 30_000]);
        from.send(to_b, 7, &pattern(round, 30_000)).unwrap();
        let received = until(a, b, || to.try_take());
        assert_eq!(text_of(&received), &*pattern(round, 30_000));
    }
    let (from, to) = (from.copies(), to.copies());
    [from.assembling(), from.staging(), to.assembling(), to.staging()]
}

#[test]
fn contiguous_calls_cost_one_assembling_and_one_staging_copy_and_streams_none() {
    let (a, b, to_b, _) = pair();
    let (from, to) = (ContiguousShim::new(&a), ContiguousShim::new(&b));
    assert_eq!(copies_of(&from, &to, (&a, &b, to_b)), [100, 0, 0, 100]);
    let (from, to) = (StreamShim::new(&a), StreamShim::new(&b));
    assert_eq!(copies_of(&from, &to, (&a, &b, to_b)), [0, 0, 0, 0]);
}

#[test]
fn read_that_waits_gets_its_bytes_without_staging() {
    let (a, b, to_b, to_a) = pair();
    let (mut near, far) = (Socket::new(&a, to_b, 80), Socket::new(&b, to_a, 80));
    // The first byte makes the two known to each other, and starts the handler.
    near.write(b"!").unwrap();
    far.read(vec![0; 10]);
    assert_eq!(until(&a, &b, || far.try_take()).len, 1);
    let held_before = count(&b, "stream_bytes_held");
    let lent_before = count(&b, "stream_bytes_lent");
    for round in 0..200 {
        far.read(vec![0; 1000]);
        b.streams().extract(usize::MAX).unwrap(); // its handler waits for bytes now
        near.write(&pattern(round, 500)).unwrap();
        let Read { buffer, len } = until(&a, &b, || far.try_take());
        assert_eq!(buffer[..len], pattern(round, 500));
    }
    assert_eq!(count(&b, "stream_bytes_held"), held_before, "nothing was staged");
    assert_eq!(count(&b, "stream_bytes_lent"), lent_before + 100_000);
}

#[test]
fn socket_is_a_stream_of_bytes_both_ways_with_an_end() {
    let (a, b, to_b, to_a) = pair();
    let (mut near, mut far) = (Socket::new(&a, to_b, 80), Socket::new(&b, to_a, 80));
    near.write(b"what is ").unwrap();
    near.write(b"the time?").unwrap();
    near.shut_down().unwrap();
    let mut got = Vec::new();
    loop {
        far.read(vec![0; 3]);
        let Read { buffer, len } = until(&a, &b, || far.try_take());
        if len == 0 {
            break;
        }
        got.extend_from_slice(&buffer[..len]);
    }
    assert_eq!(got, b"what is the time?");
    far.write(b"late").unwrap();
    near.read(vec![0; 100]);
    assert_eq!(until(&a, &b, || near.try_take()).len, 4);
    far.shut_down().unwrap();
    near.read(vec![0; 100]);
    assert_eq!(until(&a, &b, || near.try_take()).len, 0);
}

#[test]
fn shared_array_is_put_to_and_got_from() {
    let (a, b, to_b, _) = pair();
    let (near, far) = (SharedArray::new(&a, 100_000), SharedArray::new(&b, 100_000));
    near.put(to_b, 10, &pattern(1, 50_000)).unwrap();
    near.put(to_b, 99_999, &[7]).unwrap();
    near.put(to_b, 99_999, &[7, 8]).unwrap(); // beyond the end: nothing comes of it
    until(&a, &b, || (far.put_count() == 2).then_some(()));
    assert_eq!(far.load(10, 50_000), Some(pattern(1, 50_000)));
    assert_eq!(far.load(99_998, 2), Some(vec![0, 7]));
    assert_eq!(far.load(99_999, 2), None);
    let number = near.get(to_b, 4000, 20_000).unwrap();
    let got = until(&a, &b, || near.try_got(number));
    assert_eq!(got, pattern(1, 50_000)[3990..23_990]);
}
