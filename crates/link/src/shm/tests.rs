//! Frames between links in one process. Between processes: `processes.rs`.

mod growing;
mod hostile;
mod many;
mod processes;

use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use super::*;
use crate::burst::Train;
use crate::mem::MemoryId;
use crate::sys::shm::is_readable;

const HEAD_LEN: usize = 40;
/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// With rings that are soon full.
pub(super) fn open() -> Shm {
    Shm::open(&ShmConfig { ring_len: 64 << 10, ..ShmConfig::default() }).unwrap()
}

fn open_as_usual() -> Shm {
    Shm::open(&ShmConfig::default()).unwrap()
}

pub(super) fn open_without_cma() -> Shm {
    Shm::open(&ShmConfig { cma: Use::Off, ..ShmConfig::default() }).unwrap()
}

pub(super) fn counter(link: &Shm, name: &str) -> u64 {
    let mut found = None;
    link.each_counter(&mut |known, value| {
        if known == name {
            found = Some(value);
        }
    });
    found.unwrap_or_else(|| panic!("no counter {name}"))
}

pub(super) fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 31 + seed * 7 + (at >> 8)) & 0xff) as u8).collect()
}

fn burst_of<'a>(to: Locator, frames: impl IntoIterator<Item = &'a [u8]>) -> Burst {
    let mut burst = Burst::default();
    for frame in frames {
        burst.begin(to);
        burst.head(frame);
    }
    burst
}

/// All frames that arrive until there are `count`, whole, with who sent them.
fn frames(link: &mut Shm, count: usize) -> Vec<(Locator, Vec<u8>)> {
    let mut memory = Table::default();
    let (mut found, until) = (Vec::new(), Instant::now() + PATIENCE);
    while found.len() < count {
        assert!(Instant::now() < until, "{} of {count} frames", found.len());
        for index in 0..link.receive(None, &mut memory).unwrap() {
            let arrived = link.arrived(index);
            assert_eq!(arrived.landed, None);
            found.extend(arrived.whole(0).map(|frame| (arrived.from, frame.to_vec())));
        }
    }
    found
}

/// Sends everything; the receiver may have to take frames out for that.
fn send_all(link: &mut Shm, burst: &Burst, memory: &mut Table) {
    let (mut at, until) = (0, Instant::now() + PATIENCE);
    while at < burst.len() {
        assert!(Instant::now() < until, "{at} of {} frames sent", burst.len());
        at += link.send(burst, at, memory).unwrap();
    }
}

/// Makes both directions, and settles what can be read.
pub(super) fn introduce(a: &mut Shm, b: &mut Shm) {
    let mut memory = Table::default();
    send_all(a, &burst_of(b.locator(), [&b"hello"[..]]), &mut memory);
    assert_eq!(frames(b, 1), [(a.locator(), b"hello".to_vec())]);
    send_all(b, &burst_of(a.locator(), [&b"back"[..]]), &mut memory);
    assert_eq!(frames(a, 1), [(b.locator(), b"back".to_vec())]);
}

/// Lets a link look at its letters and its peers.
fn attend(link: &mut Shm) {
    link.watch.hurry();
    assert_eq!(link.receive(None, &mut Table::default()).unwrap(), 0);
}

/// A process that another test starts has copies of all sockets until it becomes another program.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
}

fn notices(link: &mut Shm) -> Vec<Notice> {
    std::iter::from_fn(|| link.poll_notice()).collect()
}

#[test]
fn frames_of_all_sizes_go_both_ways_in_order() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    let max = a.about().frame_len_max;
    assert!(max > 16_000 && a.config.ring_len == 65_536);
    let lens = (1..200).chain([1000, 4088, 4096, 8000, max - 1, max, 1, max, 7]);
    for len in lens {
        let (out, back) = (pattern(len, len), pattern(len, 1));
        send_all(&mut a, &burst_of(b.locator(), [&out[..], &back[..1]]), &mut memory);
        assert_eq!(frames(&mut b, 2), [(a.locator(), out), (a.locator(), back[..1].to_vec())]);
        send_all(&mut b, &burst_of(a.locator(), [&back[..]]), &mut memory);
        assert_eq!(frames(&mut a, 1), [(b.locator(), back)]);
    }
    assert_eq!(counter(&a, "offers_out"), 1);
    assert_eq!((counter(&a, "knocks_out"), counter(&b, "knocks_out")), (0, 0), "nobody slept");
}

#[test]
fn payload_is_taken_from_the_applications_memory() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    let payload = pattern(3000, 3);
    let id = memory.insert(vec![payload[..100].to_vec(), payload[100..].to_vec()].into());
    let mut burst = Burst::default();
    burst.begin(b.locator());
    burst.head(b"head");
    burst.user(id, 50, 1000);
    burst.user(id, 0, 3);
    burst.begin(b.locator());
    burst.head(b"void");
    burst.user(id, 2999, 2);
    burst.begin(b.locator());
    burst.zeros(a.about().frame_len_max + 1);
    burst.begin(b.locator());
    burst.head(b"end");
    send_all(&mut a, &burst, &mut memory);
    let whole = [b"head", &payload[50..1050], &payload[..3]].concat();
    assert_eq!(frames(&mut b, 2), [(a.locator(), whole), (a.locator(), b"end".to_vec())]);
    assert_eq!((counter(&a, "void_frames"), counter(&a, "send_failed")), (1, 1));
}

/// A message of `len` bytes in one or two pieces, as a train from `a` to `b`.
struct Stream {
    payload: Vec<u8>,
    heads: Vec<u8>,
    burst: Burst,
    sender: Table,
    count: usize,
}

impl Stream {
    const PAYLOAD_LEN: usize = 10_000;

    fn new(to: Locator, len: usize, is_split: bool) -> Self {
        let payload = pattern(len, 5);
        let count = len.div_ceil(Self::PAYLOAD_LEN);
        let heads = pattern(HEAD_LEN * count, 9);
        let mut sender = Table::default();
        let id = match is_split {
            true => sender.insert(vec![payload[..777].to_vec(), payload[777..].to_vec()].into()),
            false => sender.insert(payload.clone().into()),
        };
        let mut burst = Burst::default();
        let last_len = (len - (count - 1) * Self::PAYLOAD_LEN) as u32;
        let (payload_len, head_len) = (Self::PAYLOAD_LEN as u32, HEAD_LEN as u32);
        let train = Train { count: count as u32, head_len, payload_len, last_len, id, offset: 0 };
        burst.train(to, &heads, train);
        Self { payload, heads, burst, sender, count }
    }

    fn frame(&self, number: usize) -> Vec<u8> {
        let start = number * Self::PAYLOAD_LEN;
        let end = self.payload.len().min(start + Self::PAYLOAD_LEN);
        [self.head(number), &self.payload[start..end]].concat()
    }

    fn head(&self, number: usize) -> &[u8] {
        &self.heads[number * HEAD_LEN..][..HEAD_LEN]
    }

    fn landing(&self, id: MemoryId, len: usize) -> Landing {
        let payload_len = Self::PAYLOAD_LEN;
        Landing { id, offset: 100, len: len as u64, head_len: HEAD_LEN, payload_len }
    }

    /// Sends it while `b` receives with what is left of a landing of `landing_len` bytes; how many frames landed.
    fn pass(&mut self, a: &mut Shm, b: &mut Shm, landing_len: usize) -> usize {
        let mut memory = Table::default();
        let id = memory.insert(vec![vec![0; 300], vec![0; self.payload.len()]].into());
        let (mut sent, mut seen, mut landed_count, mut landed_len) = (0, 0, 0, 0);
        let until = Instant::now() + PATIENCE;
        while seen < self.count {
            assert!(Instant::now() < until, "{seen} of {}", self.count);
            sent += a.send(&self.burst, sent, &mut self.sender).unwrap();
            let mut landing = self.landing(id, landing_len);
            (landing.offset, landing.len) =
                (landing.offset + landed_len, landing.len.saturating_sub(landed_len));
            for index in 0..b.receive(Some(&landing), &mut memory).unwrap() {
                let arrived = b.arrived(index);
                assert_eq!(arrived.from, a.locator());
                if let Some(landed) = arrived.landed {
                    for head in arrived.heads() {
                        assert_eq!(head, self.head(seen), "head {seen}");
                        seen += 1;
                    }
                    let len = (landed.count - 1) * Self::PAYLOAD_LEN + landed.last_len;
                    let mut bytes = Vec::new();
                    assert!(memory.copy_out(id, landed.offset, len, &mut bytes));
                    let start = landed.offset as usize - 100;
                    assert!(bytes == self.payload[start..start + len], "landed at {start}");
                    assert_eq!(landed.offset, 100 + landed_len);
                    (landed_count, landed_len) =
                        (landed_count + landed.count, landed_len + len as u64);
                } else {
                    for frame in arrived.whole(0) {
                        assert!(frame == self.frame(seen), "frame {seen}");
                        seen += 1;
                    }
                }
            }
        }
        let mut beyond = Vec::new();
        assert!(memory.copy_out(id, 0, 100, &mut beyond));
        let rest = (self.payload.len() + 200).saturating_sub(landing_len);
        assert!(memory.copy_out(id, (100 + landing_len) as u64, rest, &mut beyond));
        assert!(beyond.iter().all(|&byte| byte == 0), "nothing beyond the landing is touched");
        landed_count
    }
}

#[test]
fn trains_are_read_from_their_senders_memory() {
    for (is_split, len) in [(false, 200_000), (true, 40_001), (true, 36_000)] {
        let (mut a, mut b) = (open(), open());
        introduce(&mut a, &mut b);
        let mut stream = Stream::new(b.locator(), len, is_split);
        assert_eq!(stream.pass(&mut a, &mut b, len), stream.count);
        assert_eq!(counter(&a, "trains_out"), 1);
        assert_eq!(counter(&b, "landed_bytes"), len as u64);
        assert_eq!(stream.pass(&mut a, &mut b, 25_000), 2, "as many as have a place");
        assert_eq!(stream.pass(&mut a, &mut b, 10), 0);
        assert_eq!((counter(&b, "trains_in"), counter(&b, "lifted_bytes")), (3, 0));
    }
}

#[test]
fn trains_go_through_the_ring_where_either_side_forbids_reading() {
    for forbids in [(true, false), (false, true), (true, true)] {
        let open = |forbids| if forbids { open_without_cma() } else { open() };
        let (mut a, mut b) = (open(forbids.0), open(forbids.1));
        introduce(&mut a, &mut b);
        let mut stream = Stream::new(b.locator(), 200_700, true);
        assert_eq!(stream.pass(&mut a, &mut b, 200_700), stream.count);
        assert_eq!(stream.pass(&mut a, &mut b, 100_000), 10);
        assert_eq!(stream.pass(&mut a, &mut b, 0), 0);
        assert_eq!(counter(&a, "trains_out"), 0);
        assert!(counter(&a, "send_blocked") > 0, "it is more than the ring holds");
    }
}

#[test]
fn short_trains_and_switched_off_ones_go_through_the_ring() {
    let (mut a, mut b) = (open(), open());
    introduce(&mut a, &mut b);
    let mut short = Stream::new(b.locator(), 15_000, false);
    assert_eq!(short.pass(&mut a, &mut b, 15_000), 2);
    a.set_trains(false);
    assert_eq!((a.about().train_len_max, a.about().train_count_max), (0, 0));
    let mut long = Stream::new(b.locator(), 50_000, false);
    assert_eq!(long.pass(&mut a, &mut b, 50_000), 5);
    assert_eq!(counter(&a, "trains_out"), 0);
}

#[test]
fn longer_trains_than_can_be_told_of_are_cut() {
    let (mut a, mut b) = (open(), open());
    introduce(&mut a, &mut b);
    let len = 2 * TRAIN_LEN_MAX + 40_000;
    let mut stream = Stream::new(b.locator(), len, false);
    assert_eq!(stream.pass(&mut a, &mut b, len), stream.count);
    assert!(counter(&a, "trains_out") >= 3);
}

#[test]
fn what_landed_wrong_is_lifted() {
    for cma in [Use::Auto, Use::Off] {
        let config = ShmConfig { cma, ..ShmConfig::default() };
        let (mut a, mut b) = (Shm::open(&config).unwrap(), Shm::open(&config).unwrap());
        introduce(&mut a, &mut b);
        for first in [2, 0] {
            let mut stream = Stream::new(b.locator(), 34_000, false);
            let mut memory = Table::default();
            let id = memory.insert(vec![0; 35_000].into());
            send_all(&mut a, &stream.burst, &mut stream.sender);
            let landing = stream.landing(id, 34_000);
            assert_eq!(b.receive(Some(&landing), &mut memory).unwrap(), 1);
            assert_eq!(b.arrived(0).landed.unwrap().count, 4);
            b.lift(0, first, &mut memory);
            let arrived = b.arrived(0);
            assert_eq!(arrived.landed.map_or(0, |landed| landed.count), first);
            assert!(arrived.heads().enumerate().all(|(n, head)| head == stream.head(n)));
            let whole: Vec<_> = arrived.whole(Stream::PAYLOAD_LEN).map(<[u8]>::to_vec).collect();
            assert_eq!(whole, (first..4).map(|n| stream.frame(n)).collect::<Vec<_>>());
            if first == 0 {
                send_all(&mut a, &stream.burst, &mut stream.sender);
                b.receive(Some(&landing), &mut memory).unwrap();
                assert_eq!(b.arrived(0).landed, None, "once bitten");
            }
            frames_left(&mut b);
        }
    }
}

/// Takes what is left.
fn frames_left(link: &mut Shm) -> usize {
    let mut memory = Table::default();
    let mut count = 0;
    while link.receive(None, &mut memory).unwrap() > 0 {
        count += 1;
    }
    count
}

#[test]
fn a_landing_that_was_given_back_is_no_landing() {
    for cma in [Use::Auto, Use::Off] {
        let config = ShmConfig { cma, ..ShmConfig::default() };
        let (mut a, mut b) = (Shm::open(&config).unwrap(), Shm::open(&config).unwrap());
        introduce(&mut a, &mut b);
        let mut stream = Stream::new(b.locator(), 34_000, false);
        send_all(&mut a, &stream.burst, &mut stream.sender);
        let landing = stream.landing(MemoryId(12345), 34_000);
        let mut memory = Table::default();
        let mut seen = 0;
        for index in 0..b.receive(Some(&landing), &mut memory).unwrap() {
            for frame in b.arrived(index).whole(0) {
                assert_eq!(frame, stream.frame(seen));
                seen += 1;
            }
        }
        assert_eq!(seen, 4);
    }
}

#[test]
fn memory_that_is_gone_costs_one_train() {
    let (mut a, mut b) = (open(), open());
    introduce(&mut a, &mut b);
    let mut stream = Stream::new(b.locator(), 40_000, false);
    send_all(&mut a, &stream.burst, &mut stream.sender);
    // As if the sender had unmapped it: the address is changed to one where nothing can be.
    let ranges_at = 64 + 8 + 24; // behind the first frame's line: header, head of the record
    let bytes = 0x10_u64.to_le_bytes();
    a.outputs[0].scribble(ranges_at, &bytes);
    assert_eq!(b.receive(None, &mut Table::default()).unwrap(), 0);
    assert_eq!(counter(&b, "trains_lost"), 1);
    assert_eq!(stream.pass(&mut a, &mut b, 40_000), 4);
    assert_eq!(counter(&b, "trains_lost"), 1);
}

#[test]
fn a_full_ring_says_not_now_and_goes_on() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    introduce(&mut a, &mut b);
    let sent: Vec<Vec<u8>> = (0..400).map(|n| pattern(n * 37 % 3000 + 1, n)).collect();
    let burst = burst_of(b.locator(), sent.iter().map(|frame| &frame[..]));
    let (mut at, mut got) = (0, Vec::new());
    let until = Instant::now() + PATIENCE;
    while got.len() < sent.len() {
        assert!(Instant::now() < until);
        at += a.send(&burst, at, &mut memory).unwrap();
        let more = a.send(&burst, at, &mut memory).unwrap();
        assert!(more == 0 || at + more == sent.len() || counter(&a, "send_spilled") > 0);
        at += more;
        for index in 0..b.receive(None, &mut memory).unwrap() {
            got.extend(b.arrived(index).whole(0).map(<[u8]>::to_vec));
        }
        a.receive(None, &mut memory).unwrap(); // kept frames go on
    }
    assert_eq!(got, sent);
    assert!(counter(&a, "send_blocked") > 0);
}

#[test]
fn who_takes_nothing_out_holds_nobody_up() {
    let (mut a, mut stuck, mut other, mut memory) = (open(), open(), open(), Table::default());
    introduce(&mut a, &mut stuck);
    introduce(&mut a, &mut other);
    let sent: Vec<Vec<u8>> = (0..200).map(|n| pattern(1000, n)).collect();
    let mut burst = burst_of(stuck.locator(), sent.iter().map(|frame| &frame[..]));
    burst.begin(other.locator());
    burst.head(b"for another");
    send_all(&mut a, &burst, &mut memory);
    assert_eq!(frames(&mut other, 1)[0].1, b"for another");
    assert!(counter(&a, "send_spilled") > 100);
    // Some were kept; they come when there is room, in order.
    let mut got = Vec::new();
    while got.len() < sent.len() {
        got.extend(frames(&mut stuck, 1).into_iter().map(|(_, frame)| frame));
        a.receive(None, &mut memory).unwrap();
    }
    assert_eq!(got, sent);
    assert_eq!((a.spilling_count, counter(&a, "send_failed")), (0, 0));
    // More than is kept is lost, and counted.
    let long = pattern(16_000, 1);
    let burst = burst_of(stuck.locator(), (0..600).map(|_| &long[..]));
    send_all(&mut a, &burst, &mut memory);
    assert!(counter(&a, "send_failed") > 20);
}

#[test]
fn a_sleeper_is_woken_and_nobody_else() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    introduce(&mut a, &mut b);
    assert!(b.arm());
    assert!(!is_readable(b.wake_fd().unwrap(), 0));
    send_all(&mut a, &burst_of(b.locator(), [&b"wake"[..]]), &mut memory);
    send_all(&mut a, &burst_of(b.locator(), [&b"up"[..]]), &mut memory);
    assert_eq!(counter(&a, "knocks_out"), 1, "once");
    assert!(is_readable(b.wake_fd().unwrap(), 10_000));
    b.disarm();
    assert_eq!(frames(&mut b, 2)[1].1, b"up");
    assert!(!is_readable(b.wake_fd().unwrap(), 0), "the knock was read");
    send_all(&mut a, &burst_of(b.locator(), [&b"awake"[..]]), &mut memory);
    assert!(!b.arm(), "there is something already");
    b.disarm();
    assert_eq!(frames(&mut b, 1)[0].1, b"awake");
    assert_eq!(counter(&a, "knocks_out"), 1);
    // Strangers wake too: by their offer.
    let mut c = open();
    assert!(b.arm());
    send_all(&mut c, &burst_of(b.locator(), [&b"new"[..]]), &mut memory);
    assert!(is_readable(b.wake_fd().unwrap(), 10_000));
    b.disarm();
    assert_eq!(frames(&mut b, 1)[0].1, b"new");
}

#[test]
fn who_sleeps_for_want_of_room_is_woken() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    introduce(&mut a, &mut b);
    let frame = pattern(10_000, 1);
    let burst = burst_of(b.locator(), (0..8).map(|_| &frame[..]));
    let sent = a.send(&burst, 0, &mut memory).unwrap();
    assert!(sent < 8);
    assert!(a.arm());
    assert_eq!(frames(&mut b, sent).len(), sent);
    assert_eq!(counter(&b, "knocks_out"), 1);
    assert!(is_readable(a.wake_fd().unwrap(), 10_000));
    a.disarm();
    assert_eq!(a.receive(None, &mut memory).unwrap(), 0);
    assert!(a.send(&burst, sent, &mut memory).unwrap() > 0);
}

#[test]
fn only_who_is_here_may_be_reached() {
    let (mut a, b) = (open(), open());
    assert!(a.may_reach(&b.locator()) && a.may_reach(&a.locator()));
    let mut elsewhere = b.locator();
    elsewhere[8] ^= 1;
    let mut unknown = b.locator();
    unknown[16] ^= 1;
    let udp = crate::udp::to_locator("127.0.0.1:7".parse().unwrap());
    let to = b.locator();
    drop(b);
    wait_until(|| !a.may_reach(&to));
    for to in [elsewhere, unknown, udp, to, [0; 24]] {
        assert!(!a.may_reach(&to));
        assert_eq!(a.send(&burst_of(to, [&b"lost"[..]]), 0, &mut Table::default()).unwrap(), 1);
        assert_eq!(notices(&mut a), [Notice::Unreachable { to, cause: Cause::Void }]);
    }
    assert_eq!(counter(&a, "send_failed"), 5);
}

#[test]
fn a_link_can_be_its_own_peer() {
    let (mut a, mut memory) = (open(), Table::default());
    let burst = burst_of(a.locator(), [&b"me"[..]]);
    send_all(&mut a, &burst, &mut memory);
    assert_eq!(frames(&mut a, 1), [(a.locator(), b"me".to_vec())]);
}

#[test]
fn a_peer_that_closed_is_reported_once_after_its_last_frame() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    introduce(&mut a, &mut b);
    let to = b.locator();
    send_all(&mut b, &burst_of(a.locator(), [&b"last words"[..]]), &mut memory);
    drop(b);
    let until = Instant::now() + PATIENCE;
    let (mut words, mut seen) = (0, Vec::new());
    while seen.is_empty() {
        assert!(Instant::now() < until);
        a.watch.hurry();
        words += a.receive(None, &mut memory).unwrap();
        seen.extend(notices(&mut a));
    }
    assert_eq!((words, &seen[..]), (1, &[Notice::Dead { to }][..]));
    assert!(a.inputs.is_empty() && a.outputs.is_empty());
    std::thread::sleep(Duration::from_millis(5));
    attend(&mut a);
    assert_eq!(notices(&mut a), []);
    assert_eq!(counter(&a, "peers_dead"), 1);
}

#[test]
fn a_knock_at_a_closed_door_tells_that_nobody_is_there() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    introduce(&mut a, &mut b);
    assert!(b.arm());
    let to = b.locator();
    drop(b);
    wait_until(|| !a.may_reach(&to));
    send_all(&mut a, &burst_of(to, [&b"anybody?"[..]]), &mut memory);
    assert!(!a.arm(), "nobody sleeps before that is settled");
    a.disarm();
    attend(&mut a);
    assert!(!a.arm(), "nor before it is told");
    assert_eq!(notices(&mut a), [Notice::Dead { to }]);
    assert!(a.arm());
}

#[test]
fn a_socket_can_be_handed_in() {
    let name = b"packhorse-shm-00000000feedbeef";
    let addr = SocketAddr::from_abstract_name(name).unwrap();
    let fd = OwnedFd::from(UnixDatagram::bind_addr(&addr).unwrap());
    let (mut a, mut b) = (open(), Shm::from_fd(fd, &ShmConfig::default()).unwrap());
    assert_eq!(b.locator()[16..], 0xfeed_beef_u64.to_le_bytes());
    introduce(&mut a, &mut b);
    introduce(&mut b, &mut a);
}

#[test]
fn wrong_settings_and_sockets_are_refused_with_advice() {
    for ring_len in [0, 4096, 65_537, 2 << 20] {
        let refused = Shm::open(&ShmConfig { ring_len, ..ShmConfig::default() });
        assert!(refused.unwrap_err().to_string().contains("multiple of 4096"), "{ring_len}");
    }
    let wrong = [
        OwnedFd::from(UnixDatagram::unbound().unwrap()),
        OwnedFd::from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()),
        OwnedFd::from(std::fs::File::open("/dev/null").unwrap()),
    ];
    for fd in wrong {
        let error = Shm::from_fd(fd, &ShmConfig::default()).unwrap_err();
        assert!(matches!(error, ShmError::NotOurs), "{error}");
    }
}

#[test]
fn rings_of_other_lengths_work_together() {
    for lens in [(16 << 10, 1 << 20), (1 << 20, 64 << 10)] {
        let open = |ring_len| {
            Shm::open(&ShmConfig { ring_len, cma: Use::Off, ..ShmConfig::default() }).unwrap()
        };
        let (mut a, mut b, mut memory) = (open(lens.0), open(lens.1), Table::default());
        introduce(&mut a, &mut b);
        for (a, b) in [(&mut a, &mut b)] {
            let frame = pattern(a.about().frame_len_max, 3);
            for _ in 0..10 {
                send_all(a, &burst_of(b.locator(), [&frame[..]]), &mut memory);
                assert_eq!(frames(b, 1)[0].1, frame);
            }
        }
    }
}

#[test]
fn threads_stream_both_ways() {
    const COUNT: usize = 20_000;
    let (mut a, mut b) = (open(), open());
    introduce(&mut a, &mut b);
    let (to_a, to_b) = (a.locator(), b.locator());
    let done = std::sync::atomic::AtomicUsize::new(0);
    let run = |link: &mut Shm, to: Locator| {
        let mut memory = Table::default();
        let (mut sent, mut seen, until) = (0, 0_usize, Instant::now() + PATIENCE);
        // Until both have everything: frames that are kept go when there is room, if their sender is still there.
        while done.load(Ordering::Relaxed) < 2 {
            assert!(Instant::now() < until, "sent {sent} seen {seen}");
            let mut burst = Burst::default();
            for n in sent..COUNT.min(sent + 20) {
                burst.begin(to);
                burst.head(&n.to_le_bytes());
                burst.zeros(n * 13 % 500);
            }
            sent += link.send(&burst, 0, &mut memory).unwrap();
            for index in 0..link.receive(None, &mut memory).unwrap() {
                for frame in link.arrived(index).whole(0) {
                    assert_eq!(frame[..8], seen.to_le_bytes(), "{:?}", link.counters);
                    assert_eq!(frame.len(), 8 + seen * 13 % 500);
                    seen += 1;
                    done.fetch_add(usize::from(seen == COUNT), Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(|| run(&mut a, to_b));
        threads.spawn(|| run(&mut b, to_a));
    });
}

/// A frame by itself, whose payload goes from the ring to its place; long ones while they are written.
#[test]
fn one_frame_goes_from_memory_to_memory() {
    let (mut a, mut b) = (open_as_usual(), open_as_usual());
    introduce(&mut a, &mut b);
    let (head, mut shown) = (pattern(HEAD_LEN, 1), [0; SHORT_LEN_MAX]);
    assert_eq!(b.look(&mut shown), None);
    for len in [0, 100, SHORT_LEN_MAX - HEAD_LEN, SHORT_LEN_MAX, 5000, 16_000, 60_000] {
        let payload = pattern(len, 3);
        assert!(a.put(&b.locator(), &head, &payload));
        let front = b.look(&mut shown).expect("it is there");
        assert_eq!((front.from, front.len), (a.locator(), HEAD_LEN + len));
        assert!(front.is_whole, "its writer is done");
        let frame = [&head[..], &payload].concat();
        let shown_len = frame.len().min(SHORT_LEN_MAX);
        assert!(shown[..shown_len] == frame[..shown_len]);
        if frame.len() > SHORT_LEN_MAX {
            let mut memory = Table::default();
            let id = memory.insert(vec![9; len + 1].into());
            assert!(!b.take(HEAD_LEN, id, len - 1, &mut memory), "there is no other");
            let placed = memory.remove(id).expect("it was lent").into_vec();
            assert!(placed[..len - 1] == payload[..len - 1] && placed[len - 1..] == [9, 9]);
        }
        assert_eq!(b.look(&mut shown), None, "it was taken");
    }
    assert!(!a.put(&b.locator(), &head, &vec![0; a.about.frame_len_max]), "longer than a frame");
    assert!(!a.put(&[7; 24], &head, b"nobody"));
}
