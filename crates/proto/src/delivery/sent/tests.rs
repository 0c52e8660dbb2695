//! Packets in flight against a naive model, and claims one by one.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::wire::DATA_FRAME_HEAD_LEN;

const FRAME: u16 = 1_000;

fn content(query: u32) -> Content {
    Content::Query { query }
}

/// Sends packets, one content each, named after the packet; one nanosecond apart.
fn flight(count: u64) -> Flight {
    let mut flight = Flight::new(1);
    for n in 1..=count {
        flight.add(content(n as u32));
        assert_eq!(flight.on_sent(Instant(n), FRAME), n);
    }
    flight
}

fn ack(flight: &mut Flight, ranges: &[(u64, u64)]) -> (Result<Acked, Forged>, Vec<Content>) {
    let mut contents = Vec::new();
    let result = flight.on_ack(ranges.iter().copied(), &mut |content| contents.push(content));
    (result, cut(contents))
}

fn lose(flight: &mut Flight, now: u64, loss_delay_ns: u64) -> (Lost, Vec<Content>) {
    let mut contents = Vec::new();
    let lost =
        flight.detect_lost(Instant(now), loss_delay_ns, &mut |content| contents.push(content));
    (lost, cut(contents))
}

/// Payload of the frames of a train.
const PAYLOAD: u32 = FRAME as u32 - DATA_FRAME_HEAD_LEN as u32;

/// What runs carried, frame by frame.
fn cut(contents: Vec<Content>) -> Vec<Content> {
    let mut pieces = Vec::new();
    for content in contents {
        let Content::Data { slot, serial, offset, len } = content else {
            pieces.push(content);
            continue;
        };
        for start in (0..len).step_by(PAYLOAD as usize) {
            let (offset, len) = (offset + u64::from(start), PAYLOAD.min(len - start));
            pieces.push(Content::Data { slot, serial, offset, len });
        }
    }
    pieces
}

/// Data of a message, long enough for any run.
fn data(serial: u32, len: u32) -> Content {
    Content::Data { slot: 7, serial, offset: u64::from(serial) << 32, len }
}

/// Sends a train of so many frames, the last with so much payload.
fn send_run(flight: &mut Flight, now: Instant, serial: u32, count: u16, last_len: u32) {
    let len = u32::from(count - 1) * PAYLOAD + last_len;
    let frame_len = if count == 1 { DATA_FRAME_HEAD_LEN as u16 + last_len as u16 } else { FRAME };
    let lens = (DATA_FRAME_HEAD_LEN as u16, frame_len);
    flight.on_sent_run(now, data(serial, len), lens, count);
}

#[test]
fn run_is_cut_where_an_ack_or_a_loss_ends_in_it() {
    let mut flight = Flight::new(1);
    send_run(&mut flight, Instant(1), 5, 40, 10);
    assert_eq!((flight.packets.end, flight.packet_count()), (1, 40));
    assert_eq!(flight.bytes_in_flight(), 39 * u64::from(FRAME) + 50);
    let (acked, contents) = ack(&mut flight, &[(1, 10)]);
    let acked = acked.unwrap();
    assert_eq!((acked.count, acked.bytes, contents.len()), (10, 10_000, 10));
    assert_eq!(acked.largest_newly, Some((10, Instant(1))));
    let (acked, contents) = ack(&mut flight, &[(15, 20)]);
    assert_eq!((acked.unwrap().count, contents[0]), (6, cut(vec![data(5, 15 * PAYLOAD)])[14]));
    let mut lost = Vec::new();
    let sum = flight.detect_lost(Instant(2), 100, &mut |content| lost.push(content));
    let range = Content::Data {
        slot: 7,
        serial: 5,
        offset: (5 << 32) + 10 * u64::from(PAYLOAD),
        len: 4 * PAYLOAD,
    };
    assert_eq!((sum.count, lost), (4, vec![range]), "one range is lost, not four");
    let (acked, _) = ack(&mut flight, &[(11, 40)]);
    assert_eq!((acked.unwrap().bytes, flight.is_empty()), (19_050, true));
}

#[test]
fn acked_packets_hand_over_their_contents_once() {
    let mut flight = flight(4);
    let (acked, contents) = ack(&mut flight, &[(3, 3), (1, 1)]);
    let expected = Acked {
        bytes: 2_000,
        count: 2,
        largest_newly: Some((3, Instant(3))),
        frame_len_max: FRAME,
    };
    assert_eq!((acked, contents), (Ok(expected), vec![content(3), content(1)]));
    assert_eq!((flight.bytes_in_flight(), flight.packet_count()), (2_000, 2));
    assert_eq!(flight.oldest_sent_at(), Instant(2));
    let (acked, contents) = ack(&mut flight, &[(1, 3)]);
    let expected = Acked { largest_newly: None, bytes: 1_000, count: 1, ..expected };
    assert_eq!((acked, contents), (Ok(expected), vec![content(2)]), "3 was acked before");
}

#[test]
fn forged_ack_changes_nothing() {
    let mut flight = flight(3);
    for range in [(4, 4), (1, 4), (1, u64::MAX)] {
        assert_eq!(ack(&mut flight, &[range]), (Err(Forged), vec![]));
    }
    assert_eq!(flight.packet_count(), 3);
    assert_eq!(lose(&mut flight, 1_000, 1).0, Lost::default(), "nor is anything lost by it");
    assert_eq!(ack(&mut flight, &[]), (Ok(Acked::default()), vec![]));
}

#[test]
fn packets_without_contents_are_numbered_and_not_kept() {
    let mut flight = Flight::new(7);
    assert_eq!(flight.on_sent(Instant(1), FRAME), 7);
    assert!(flight.is_empty());
    assert_eq!(flight.last_sent_at(), Instant::NEVER);
    flight.add(content(8));
    assert_eq!(flight.building_count(), 1);
    assert_eq!(flight.on_sent(Instant(2), FRAME), 8);
    for n in 9..2_000 {
        assert_eq!(flight.on_sent(Instant(n), FRAME), n);
    }
    assert_eq!((flight.packets.end, flight.bytes_in_flight()), (1, 1_000));
    assert_eq!(flight.last_sent_at(), Instant(2));
    let (acked, contents) = ack(&mut flight, &[(7, 1_999)]);
    assert_eq!(contents, [content(8)]);
    assert_eq!(acked.unwrap().largest_newly, None, "an Ack's round trip may include any delay");
}

#[test]
fn third_packet_after_it_ends_the_wait() {
    let mut flight = flight(5);
    ack(&mut flight, &[(3, 3)]).0.unwrap();
    assert_eq!(lose(&mut flight, 5, 100).0.count, 0, "reordering is forgiven");
    ack(&mut flight, &[(4, 4)]).0.unwrap();
    let (lost, contents) = lose(&mut flight, 5, 100);
    assert_eq!((lost.count, lost.bytes, lost.newest_sent_at), (1, 1_000, Instant(1)));
    assert_eq!(contents, [content(1)]);
    assert_eq!(ack(&mut flight, &[(1, 1)]), (Ok(Acked::default()), vec![]), "too late");
}

#[test]
fn age_counts_only_below_the_largest_acked() {
    let mut flight = flight(3);
    assert_eq!(flight.loss_deadline(100), Instant::NEVER);
    ack(&mut flight, &[(2, 2)]).0.unwrap();
    assert_eq!(flight.loss_deadline(100), Instant(101));
    assert_eq!(lose(&mut flight, 100, 100).0.count, 0);
    assert_eq!(lose(&mut flight, 101, 100).1, [content(1)]);
    assert_eq!(flight.loss_deadline(100), Instant::NEVER, "nothing later than 3 is acked");
    assert_eq!(lose(&mut flight, 10_000, 100).0, Lost::default());
}

#[test]
fn ack_of_a_pure_ack_shows_losses_too() {
    let mut flight = flight(1);
    flight.on_sent(Instant(2), FRAME);
    ack(&mut flight, &[(2, 2)]).0.unwrap();
    assert_eq!(flight.loss_deadline(100), Instant(101));
}

#[test]
fn round_is_as_long_as_the_flight_of_the_lost_packet() {
    // The first of a burst, told early: what is in flight counts.
    let mut burst = flight(100);
    ack(&mut burst, &[(2, 4)]).0.unwrap();
    assert_eq!(lose(&mut burst, 200, 1_000).0.round_count, 97);
    // The last but one, told when nothing else is left: what was settled meanwhile counts.
    let mut tail = flight(32);
    ack(&mut tail, &[(1, 30)]).0.unwrap();
    ack(&mut tail, &[(32, 32)]).0.unwrap();
    assert_eq!(lose(&mut tail, 2_000, 1_000).0.round_count, 32);
}

#[test]
fn voided_packets_are_neither_acked_nor_lost() {
    let mut flight = flight(3);
    flight.add(content(1));
    flight.add(content(40));
    flight.on_sent(Instant(4), FRAME);
    flight.add(content(1)); // being built
    flight.void(&mut |content| *content == Content::Query { query: 1 });
    assert_eq!((flight.packet_count(), flight.bytes_in_flight()), (3, 3_000));
    assert_eq!((flight.oldest_sent_at(), flight.building_count()), (Instant(2), 1));
    let (acked, contents) = ack(&mut flight, &[(4, 4), (1, 1)]);
    assert_eq!((acked.unwrap().count, contents), (1, vec![content(40)]));
    assert_eq!(lose(&mut flight, 4, 0).1, [content(2), content(3)]);
    flight.on_sent(Instant(5), FRAME);
    assert_eq!(ack(&mut flight, &[(5, 5)]).1, [], "void before it was sent");
    assert!(flight.is_empty());
}

#[test]
fn abandoned_flight_gives_everything_back() {
    let mut flight = flight(4);
    ack(&mut flight, &[(2, 2)]).0.unwrap();
    flight.add(content(5));
    let mut contents = Vec::new();
    assert_eq!(flight.abandon(&mut |content| contents.push(content)), 3);
    assert_eq!(contents, [content(1), content(3), content(4)]);
    assert_eq!((flight.bytes_in_flight(), flight.oldest_sent_at()), (0, Instant::NEVER));
    assert_eq!(flight.on_sent(Instant(5), FRAME), 5);
    assert_eq!(ack(&mut flight, &[(1, 5)]).1, [content(5)]);
}

#[test]
fn steady_state_does_not_allocate() {
    let mut flight = flight(72);
    let slot_counts = |flight: &Flight| (flight.packets.slots.len(), flight.more.slots.len());
    let mut settled_count = 0;
    for n in 73..20_000u64 {
        flight.add(content(n as u32));
        flight.add(Content::Ping);
        flight.on_sent(Instant(n), FRAME);
        if n % 8 == 0 {
            // Eight at a time, 56 behind; of every second eight the first is lost.
            let first = if n % 16 == 0 { n - 62 } else { 1 };
            let mut settled = ack(&mut flight, &[(first, n - 56)]).1;
            settled.extend(lose(&mut flight, n, 1_000).1);
            settled_count += settled.iter().filter(|content| **content != Content::Ping).count();
            assert_eq!((settled_count as u64, flight.packet_count()), (n - 56, 56));
        }
    }
    assert_eq!(slot_counts(&flight), (128, 64));
}

/// What `Flight` does, kept as a map of the packets that are outstanding: the model looks at every packet every time.
#[derive(Default)]
struct Model {
    outstanding: BTreeMap<u64, ModelPacket>,
    building: Vec<Content>,
    next_packet: u64,
    largest_acked: u64,
    settled_count: u32,
    last_sent_at: Instant,
}

struct ModelPacket {
    sent_at: Instant,
    frame_len: u16,
    settled_count: u32,
    contents: Vec<Content>,
}

impl Model {
    fn on_sent(&mut self, now: Instant, frame_len: u16) {
        self.next_packet += 1;
        if !self.building.is_empty() {
            let contents = core::mem::take(&mut self.building);
            let settled_count = self.settled_count;
            let packet = ModelPacket { sent_at: now, frame_len, settled_count, contents };
            self.outstanding.insert(self.next_packet, packet);
            self.last_sent_at = now;
        }
    }

    fn take(&mut self, number: u64, out: &mut Vec<Content>) -> Option<ModelPacket> {
        let packet = self.outstanding.remove(&number)?;
        self.settled_count += 1;
        out.extend(packet.contents.iter().filter(|content| **content != Content::Void));
        Some(packet)
    }

    fn on_ack(&mut self, ranges: &[(u64, u64)]) -> (Result<Acked, Forged>, Vec<Content>) {
        let (mut acked, mut contents) = (Acked::default(), Vec::new());
        let largest = ranges[0].1;
        if largest > self.next_packet {
            return (Err(Forged), contents);
        }
        self.largest_acked = self.largest_acked.max(largest);
        for &(first, last) in ranges {
            for number in first..=last {
                let Some(packet) = self.take(number, &mut contents) else { continue };
                acked.bytes += u64::from(packet.frame_len);
                acked.count += 1;
                acked.frame_len_max = acked.frame_len_max.max(packet.frame_len);
                if number == largest {
                    acked.largest_newly = Some((number, packet.sent_at));
                }
            }
        }
        (Ok(acked), contents)
    }

    fn detect_lost(&mut self, now: Instant, delay_ns: u64) -> (Lost, Vec<Content>) {
        let (mut lost, mut contents) = (Lost::default(), Vec::new());
        let count_before = self.outstanding.len() as u32;
        let mut settled_count = None;
        for number in 1..self.largest_acked {
            let Some(packet) = self.outstanding.get(&number) else { continue };
            if self.largest_acked - number < 3 && now.0 < packet.sent_at.0 + delay_ns {
                continue;
            }
            let packet = self.take(number, &mut contents).unwrap();
            settled_count.get_or_insert(packet.settled_count);
            lost.bytes += u64::from(packet.frame_len);
            lost.count += 1;
            lost.frame_len_max = lost.frame_len_max.max(packet.frame_len);
            lost.newest_sent_at = lost.newest_sent_at.max(packet.sent_at);
        }
        if let Some(settled_count) = settled_count {
            lost.round_count = count_before.max(self.settled_count - settled_count);
        }
        (lost, contents)
    }

    fn void(&mut self, matches: impl Fn(&Content) -> bool) {
        let void = |contents: &mut Vec<Content>| {
            for content in contents.iter_mut().filter(|content| matches(content)) {
                *content = Content::Void;
            }
        };
        void(&mut self.building);
        self.outstanding.values_mut().for_each(|packet| void(&mut packet.contents));
        self.outstanding
            .retain(|_, packet| packet.contents.iter().any(|content| *content != Content::Void));
    }

    fn loss_deadline(&self, delay_ns: u64) -> Instant {
        let below = self.outstanding.iter().filter(|(number, _)| **number < self.largest_acked);
        below.map(|(_, packet)| packet.sent_at + delay_ns).min().unwrap_or(Instant::NEVER)
    }

    fn assert_same(&self, flight: &Flight) {
        let packets = || self.outstanding.values();
        assert_eq!(flight.next_packet(), self.next_packet + 1);
        assert_eq!(flight.building_count(), self.building.len());
        assert_eq!(flight.packet_count() as usize, self.outstanding.len());
        assert_eq!(flight.is_empty(), self.outstanding.is_empty());
        let bytes: u64 = packets().map(|packet| u64::from(packet.frame_len)).sum();
        assert_eq!(flight.bytes_in_flight(), bytes);
        let oldest_at = packets().map(|packet| packet.sent_at).min().unwrap_or(Instant::NEVER);
        assert_eq!(flight.oldest_sent_at(), oldest_at);
        let last_at = if flight.is_empty() { Instant::NEVER } else { self.last_sent_at };
        assert_eq!(flight.last_sent_at(), last_at);
        assert_eq!(flight.loss_deadline(50), self.loss_deadline(50));
        assert!(flight.packets.front().is_none_or(|packet| packet.is_outstanding()));
        if flight.is_empty() {
            assert_eq!(flight.more.start, flight.building_more_start(), "nothing is kept");
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add {
        is_void: bool,
    },
    Send {
        frame_len: u16,
    },
    Train {
        count: u16,
        last_len: u32,
    },
    /// Of the newest packets but `back`, those whose bit is set; and all before them.
    Ack {
        back: u64,
        bits: u32,
        is_all_before: bool,
    },
    Forge {
        beyond: u64,
    },
    Detect,
    Wait {
        ns: u64,
    },
    Void {
        modulus: u32,
    },
    Abandon,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => prop::bool::weighted(0.1).prop_map(|is_void| Step::Add { is_void }),
        20 => (1..2_000u16).prop_map(|frame_len| Step::Send { frame_len }),
        6 => (1..70u16, 1..=PAYLOAD).prop_map(|(count, last_len)| Step::Train { count, last_len }),
        6 => (0..20u64, any::<u32>(), any::<bool>())
            .prop_map(|(back, bits, is_all_before)| Step::Ack { back, bits, is_all_before }),
        1 => (0..3u64).prop_map(|beyond| Step::Forge { beyond }),
        4 => Just(Step::Detect),
        4 => (0..40u64).prop_map(|ns| Step::Wait { ns }),
        1 => (1..6u32).prop_map(|modulus| Step::Void { modulus }),
        1 => Just(Step::Abandon),
    ]
}

/// The ranges of an Ack of the numbers below `end`; none if no number is named.
fn ranges_of(end: u64, bits: u32, is_all_before: bool) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in (1..end).rev() {
        let bit = end - 1 - number;
        if if bit < 32 { bits >> bit & 1 == 0 } else { !is_all_before } {
            continue;
        }
        match ranges.last_mut() {
            Some((first, _)) if *first == number + 1 => *first = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

/// One step on both; their answers must be the same.
fn both(flight: &mut Flight, model: &mut Model, now: &mut Instant, serial: u32, step: Step) {
    match step {
        Step::Add { is_void } => {
            let content = if is_void { Content::Void } else { content(serial) };
            flight.add(content);
            model.building.push(content);
        }
        Step::Send { frame_len } => {
            flight.on_sent(*now, frame_len);
            model.on_sent(*now, frame_len);
        }
        Step::Train { count, last_len } if flight.building_count() == 0 => {
            send_run(flight, *now, serial, count, last_len);
            let len = u32::from(count - 1) * PAYLOAD + last_len;
            for piece in cut(vec![data(serial, len)]) {
                let Content::Data { len, .. } = piece else { unreachable!("data") };
                model.building.push(piece);
                model.on_sent(*now, (len as usize + DATA_FRAME_HEAD_LEN) as u16);
            }
        }
        Step::Train { .. } => {}
        Step::Ack { back, bits, is_all_before } => {
            let end = flight.next_packet().saturating_sub(back);
            let ranges = ranges_of(end, bits, is_all_before);
            if !ranges.is_empty() {
                assert_eq!(ack(flight, &ranges), model.on_ack(&ranges));
            }
        }
        Step::Forge { beyond } => {
            let ranges = [(1, flight.next_packet() + beyond)];
            assert_eq!(ack(flight, &ranges), (Err(Forged), vec![]));
        }
        Step::Detect => assert_eq!(lose(flight, now.0, 50), model.detect_lost(*now, 50)),
        Step::Wait { ns } => *now = *now + ns,
        Step::Void { modulus } => {
            let matches = |content: &Content| match content {
                Content::Query { query } => query % modulus == 0,
                _ => false,
            };
            flight.void(&mut |content| matches(content));
            model.void(matches);
        }
        Step::Abandon => {
            let (mut given, mut expected) = (Vec::new(), Vec::new());
            let count = flight.abandon(&mut |content| given.push(content));
            assert_eq!(count as usize, model.outstanding.len());
            for number in 1..flight.next_packet() {
                model.take(number, &mut expected);
            }
            assert_eq!(cut(given), expected);
        }
    }
}

proptest! {
       #[test]
       fn flight_agrees_with_a_map(steps in prop::collection::vec(step(), 1..400)) {
           let (mut flight, mut model, mut now) = (Flight::new(1), Model::default(), Instant(0));
           // Positions wrap on the way.
           for ends in [
               [&mut flight.packets.start, &mut flight.packets.end],
               [&mut flight.more.start, &mut flight.more.end],
           ] {
               for end in ends {
*end = u32::MAX - 20;
}
           }
           for (serial, step) in steps.into_iter().enumerate() {
               both(&mut flight, &mut model, &mut now, serial as u32, step);
               model.assert_same(&flight);
           }
       }
   }
