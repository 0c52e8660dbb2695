//! Payload that lands in the application's memory, and what is lifted from there when it is the wrong one.

use super::*;
use crate::Landed;

/// Sends frames that carry `data` in payloads of `payload_len`, each behind a head that names its place.
fn stream_burst(to: Locator, id: MemoryId, len: usize, payload_len: usize) -> Burst {
    let mut burst = Burst::default();
    for at in (0..len).step_by(payload_len) {
        burst.begin(to);
        let mut head = [0xee; HEAD_LEN];
        head[..8].copy_from_slice(&(at as u64).to_le_bytes());
        burst.head(&head);
        burst.user(id, at as u64, payload_len.min(len - at) as u32);
    }
    burst
}

/// What a receiver like the engine does: checks heads, lifts what is wrong, then reads.
struct Receiver {
    memory: Table,
    id: MemoryId,
    payload_len: usize,
    len: usize,
    /// Next byte in order.
    next: usize,
    received: usize,
    landed: usize,
}

impl Receiver {
    fn new(buffer: Memory, payload_len: usize) -> Self {
        let (mut memory, len) = (Table::default(), buffer.len() as usize);
        let id = memory.insert(buffer);
        Self { memory, id, payload_len, len, next: 0, received: 0, landed: 0 }
    }

    fn landing(&self) -> Landing {
        Landing {
            id: self.id,
            offset: self.next as u64,
            len: (self.len - self.next) as u64,
            head_len: HEAD_LEN,
            payload_len: self.payload_len,
        }
    }

    fn turn(&mut self, link: &mut Udp, landing: Option<&Landing>) -> usize {
        let count = link.receive(landing, &mut self.memory).unwrap();
        for index in 0..count {
            let arrived = link.arrived(index);
            let Some(Landed { offset, .. }) = arrived.landed else { continue };
            let is_right = |(n, head): (usize, &[u8])| {
                offset_of(head) == offset as usize + n * self.payload_len
            };
            let right = arrived.heads().enumerate().take_while(|&pair| is_right(pair)).count();
            link.lift(index, right, &mut self.memory);
        }
        for index in 0..count {
            let arrived = link.arrived(index);
            if let Some(landed) = arrived.landed {
                let len = (landed.count - 1) * self.payload_len + landed.last_len;
                self.landed += len;
                self.received += len;
                self.next = self.next.max(landed.offset as usize + len);
                assert_eq!(arrived.heads().count(), landed.count);
            }
            for frame in arrived.whole(self.payload_len) {
                let at = offset_of(frame);
                assert_eq!(frame[8], 0xee);
                assert!(self.memory.copy_in(self.id, at as u64, &frame[HEAD_LEN..]));
                self.received += frame.len() - HEAD_LEN;
                self.next = self.next.max(at + frame.len() - HEAD_LEN);
            }
        }
        count
    }

    fn bytes(mut self) -> Vec<u8> {
        self.memory.remove(self.id).unwrap().into_vecs().concat()
    }
}

fn offset_of(head: &[u8]) -> usize {
    u64::from_le_bytes(head[..8].try_into().unwrap()) as usize
}

/// A stream of `len` bytes with a landing each time; payload that landed.
fn stream(a: &mut Udp, b: &mut Udp, len: usize, payload_len: usize, segments: usize) -> usize {
    let data = pattern(len, payload_len);
    let mut memory = Table::default();
    let id = memory.insert(data.clone().into());
    let burst = stream_burst(b.locator(), id, len, payload_len);
    let each = len.div_ceil(segments);
    let buffer: Vec<Vec<u8>> =
        (0..segments).map(|n| vec![0; each.min(len - (n * each).min(len))]).collect();
    let mut receiver = Receiver::new(buffer.into(), payload_len);
    let (mut at, until) = (0, Instant::now() + PATIENCE);
    while receiver.received < len {
        assert!(Instant::now() < until, "{} of {len} bytes", receiver.received);
        // No more at a time than the smallest backlog: nothing is lost on the loopback interface otherwise.
        let window = (at * payload_len).saturating_sub(receiver.received);
        if at < burst.len() && window < b.about().backlog_len_max as usize / 4 {
            at += a.send(&burst, at, &mut memory).unwrap();
        }
        let landing = receiver.landing();
        receiver.turn(b, Some(&landing));
    }
    let landed = receiver.landed;
    assert_eq!(receiver.received, len, "nothing twice");
    assert!(receiver.bytes() == data, "every byte in its place");
    landed
}

#[test]
fn a_stream_lands_in_trains() {
    let (mut a, mut b) = (open(), open());
    let len = 2_000_123;
    let landed = stream(&mut a, &mut b, len, 1432, 1);
    assert!(landed > len * 9 / 10, "{landed} of {len} landed");
    assert!(counter(&b, "landed_bytes") >= landed as u64);
}

#[test]
fn a_stream_lands_in_single_datagrams() {
    let config = UdpConfig { gro: Use::Off, ..UdpConfig::at("127.0.0.1:0".parse().unwrap()) };
    let (mut a, mut b) = (open(), Udp::open(&config).unwrap());
    a.set_trains(false);
    let len = 2_000_123;
    let landed = stream(&mut a, &mut b, len, 1432, 1);
    assert!(landed > len * 9 / 10, "{landed} of {len} landed");
}

#[test]
fn a_stream_lands_in_many_segments() {
    let (mut a, mut b) = (open(), open());
    let len = 500_001;
    let landed = stream(&mut a, &mut b, len, 1000, 999);
    assert!(landed > len * 9 / 10, "{landed} of {len} landed");
    let landed = stream(&mut a, &mut b, len, 8000, 10_000);
    assert!(landed > 0, "some of each train");
    let landed = stream(&mut a, &mut b, len, 8000, 100_000);
    assert_eq!(landed, 0, "more crumbs in a frame than the kernel takes");
}

/// What arrives at a landing of 10 frames of 1000 at offset 5000 of 20000 zeros.
fn land(sent: &Burst, sent_memory: &mut Table, to: &mut Udp, arrivals: usize) -> Receiver {
    let mut from = open();
    let receiver = Receiver { next: 5000, ..Receiver::new(vec![vec![0; 20_000]].into(), 1000) };
    send_all(&mut from, sent, sent_memory);
    let mut receiver = receiver;
    let landing = Landing { len: 10_000, ..receiver.landing() };
    to.recent = Recent { is_train: true, ..Recent::default() };
    assert_eq!(receiver.turn(to, Some(&landing)), arrivals);
    receiver
}

#[test]
fn a_right_landing_is_left_where_it_is() {
    let (mut b, mut memory) = (open(), Table::default());
    let id = memory.insert(pattern(20_000, 1).into());
    let mut burst = Burst::default();
    for at in (5000..8500).step_by(1000) {
        add_frame(&mut burst, b.locator(), at, id, at, if at == 8000 { 500 } else { 1000 });
    }
    let receiver = land(&burst, &mut memory, &mut b, 1);
    assert_eq!((receiver.landed, receiver.received), (3500, 3500));
    assert_eq!(counter(&b, "lifted_bytes"), 0);
    let bytes = receiver.bytes();
    assert!(bytes[5000..8500] == pattern(20_000, 1)[5000..8500]);
    assert!(bytes[..5000].iter().chain(&bytes[8500..]).all(|byte| *byte == 0));
}

fn add_frame(burst: &mut Burst, to: Locator, at: usize, id: MemoryId, from: usize, len: usize) {
    burst.begin(to);
    let mut head = [0xee; HEAD_LEN];
    head[..8].copy_from_slice(&(at as u64).to_le_bytes());
    burst.head(&head);
    burst.user(id, from as u64, len as u32);
}

#[test]
fn a_wrong_landing_is_lifted_whole() {
    let (mut b, mut memory) = (open(), Table::default());
    let data = pattern(20_000, 2);
    let id = memory.insert(data.clone().into());
    let mut burst = Burst::default();
    for at in (6000..9000).step_by(1000) {
        add_frame(&mut burst, b.locator(), at, id, at, 1000); // one further on than expected
    }
    let receiver = land(&burst, &mut memory, &mut b, 1);
    assert_eq!((receiver.landed, receiver.received), (0, 3000));
    assert_eq!(counter(&b, "lifted_bytes"), 3000);
    assert!(receiver.bytes()[6000..9000] == data[6000..9000]);
}

#[test]
fn a_landing_is_lifted_from_the_first_wrong_frame_on() {
    let (mut b, mut memory) = (open(), Table::default());
    let data = pattern(20_000, 3);
    let id = memory.insert(data.clone().into());
    let mut burst = Burst::default();
    for at in [5000, 6000, 8000, 7000] {
        add_frame(&mut burst, b.locator(), at, id, at, if at == 7000 { 300 } else { 1000 });
    }
    let receiver = land(&burst, &mut memory, &mut b, 1);
    assert_eq!((receiver.landed, receiver.received), (2000, 3300));
    let bytes = receiver.bytes();
    assert!(bytes[5000..7300] == data[5000..7300]);
    assert!(bytes[8000..9000] == data[8000..9000]);
}

#[test]
fn frames_beyond_what_was_expected_are_shown_whole() {
    let (mut b, mut memory) = (open(), Table::default());
    let data = pattern(20_000, 4);
    let id = memory.insert(data.clone().into());
    let mut burst = Burst::default();
    for at in (5000..18_500).step_by(1000) {
        add_frame(&mut burst, b.locator(), at, id, at, if at == 18_000 { 500 } else { 1000 });
    }
    let receiver = land(&burst, &mut memory, &mut b, 2);
    assert_eq!((receiver.landed, receiver.received), (10_000, 13_500));
    assert!(receiver.bytes()[5000..18_500] == data[5000..18_500]);
}

#[test]
fn a_last_frame_without_payload_is_shown_apart() {
    let (mut b, mut memory) = (open(), Table::default());
    let id = memory.insert(pattern(20_000, 4).into());
    let mut burst = Burst::default();
    for at in [5000, 6000] {
        add_frame(&mut burst, b.locator(), at, id, at, 1000);
    }
    add_frame(&mut burst, b.locator(), 0, id, 0, 0);
    let receiver = land(&burst, &mut memory, &mut b, 2);
    assert_eq!((receiver.landed, receiver.received), (2000, 2000));
    assert_eq!(b.arrived(1).bytes.len(), HEAD_LEN);
}

#[test]
fn frames_of_another_shape_leave_the_application_s_memory() {
    for (payload_len, count) in [(900, 5), (1001, 4), (3, 10), (65_000, 1)] {
        let (mut b, mut memory) = (open(), Table::default());
        let data = pattern(70_000, 5);
        let id = memory.insert(data.clone().into());
        let mut burst = Burst::default();
        for n in 0..count {
            add_frame(&mut burst, b.locator(), n * payload_len, id, n * payload_len, payload_len);
        }
        let mut from = open();
        send_all(&mut from, &burst, &mut memory);
        let mut table = Table::default();
        let place = table.insert(vec![0; 10_000].into());
        let landing =
            Landing { id: place, offset: 0, len: 10_000, head_len: 40, payload_len: 1000 };
        b.recent.is_train = true;
        assert_eq!(b.receive(Some(&landing), &mut table).unwrap(), 1);
        let arrived = b.arrived(0);
        assert_eq!(arrived.landed, None, "frames of {payload_len}");
        for (n, frame) in arrived.whole(0).enumerate() {
            assert_eq!(offset_of(frame), n * payload_len);
            assert!(frame[HEAD_LEN..] == data[n * payload_len..(n + 1) * payload_len]);
        }
        assert_eq!(arrived.whole(0).count(), count);
    }
}

#[test]
fn a_landing_in_memory_that_is_not_there_is_none() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    let shared: std::sync::Arc<[u8]> = vec![0; 5000].into();
    let (short, read_only) = (memory.insert(vec![0; 100].into()), memory.insert(shared.into()));
    for (id, head_len, payload_len) in [
        (short, 40, 1000),
        (read_only, 40, 1000),
        (MemoryId(77), 40, 1000),
        (short, 0, 10),
        (short, 10, 0),
        (short, 40, 70_000),
    ] {
        let landing = Landing { id, offset: 0, len: 5000, head_len, payload_len };
        send_all(&mut a, &burst_of(b.locator(), [&[9; 1040][..]]), &mut memory);
        let until = Instant::now() + PATIENCE;
        while b.receive(Some(&landing), &mut memory).unwrap() == 0 {
            assert!(Instant::now() < until);
        }
        assert_eq!((b.arrived(0).landed, b.arrived(0).bytes), (None, &[9; 1040][..]));
    }
}

#[test]
fn memory_given_back_before_the_lift_is_not_read() {
    let (mut b, mut memory) = (open(), Table::default());
    let id = memory.insert(pattern(20_000, 4).into());
    let mut burst = Burst::default();
    add_frame(&mut burst, b.locator(), 5000, id, 5000, 1000);
    let mut from = open();
    send_all(&mut from, &burst, &mut memory);
    let landing = Landing { id, offset: 0, len: 10_000, head_len: HEAD_LEN, payload_len: 1000 };
    assert_eq!(b.receive(Some(&landing), &mut memory).unwrap(), 1);
    assert!(b.arrived(0).landed.is_some());
    memory.remove(id);
    b.lift(0, 0, &mut memory);
    let arrived = b.arrived(0);
    assert_eq!((arrived.landed, arrived.bytes.len()), (None, 1040));
    assert!(arrived.bytes[HEAD_LEN..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_burst_larger_than_the_send_buffer_is_taken_in_parts_or_whole() {
    let config =
        UdpConfig { send_buffer_len: 4096, ..UdpConfig::at("127.0.0.1:0".parse().unwrap()) };
    let (mut a, mut b) = (Udp::open(&config).unwrap(), open());
    let landed = stream(&mut a, &mut b, 1_000_000, 1432, 1);
    assert!(landed > 0);
}

/// Somebody's message is expected in memory that its owner has unmapped; what others send comes, but for a datagram or two.
#[test]
fn memory_that_is_not_there_costs_others_next_to_nothing() {
    const COUNT: usize = 20;
    let (mut a, mut b) = (open(), open());
    let mut memory = Table::default();
    let id = memory.insert(Memory::unmapped(4000));
    let landing = Landing { id, offset: 0, len: 4000, head_len: HEAD_LEN, payload_len: 1000 };
    let (to, mut got) = (b.locator(), 0);
    for number in 0..COUNT {
        let frame = [number as u8; 700];
        send_all(&mut a, &burst_of(to, [&frame[..]]), &mut Table::default());
        let count = b.receive(Some(&landing), &mut memory).unwrap();
        got += (0..count).map(|index| b.arrived(index).whole(0).count()).sum::<usize>();
    }
    assert!(got + 2 >= COUNT, "{got} of {COUNT}");
}
