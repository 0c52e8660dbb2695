//! The quick ways held against the general ones: two pairs of endpoints live the same life, one of them without any quick
//! way. Every byte they send, every event and every counter must be the same.

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::base::api::{List, Opening, Payload, RecvSpec, SendSpec, TxFrame, Use};
use crate::base::counters::Counters;
use crate::base::limits::Limits;
use crate::base::limits::Settings;
use crate::base::secret::Secret;
use crate::base::types::{BufId, Criteria, Identity, Space, Tag};
use crate::{Event, PeerId, Place, ReqId, wire};

const BUFFER_LEN: usize = 8 << 10;

/// Splitmix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }
}

/// Memory that notes what is placed where.
#[derive(Default)]
struct Noted(Vec<(Place, Vec<u8>)>);

impl Memory for Noted {
    fn place(&mut self, to: Place, bytes: &[u8]) {
        self.0.push((to, bytes.to_vec()));
    }

    fn update(&mut self, _: Place, _: usize, _: usize, _: &mut dyn FnMut(&mut [u8]) -> bool) {}

    fn crc32c(&self, crc: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(crc, |crc, &byte| crc.rotate_left(5) ^ u32::from(byte))
    }
}

/// All that can be seen of an endpoint's life.
#[derive(Default)]
struct Seen {
    frames: Vec<(Instant, Vec<u8>)>,
    events: Vec<Event>,
    memory: Noted,
}

struct Pair {
    now: Instant,
    endpoints: [Endpoint; 2],
    seen: [Seen; 2],
    peers: [PeerId; 2],
    requests: [Vec<ReqId>; 2],
    /// When, to whom, what.
    flying: Vec<(Instant, usize, Vec<u8>)>,
    /// Messages that left as they were posted.
    lone_count: usize,
}

fn locator(side: usize) -> Locator {
    Locator([side as u8 + 1; 24])
}

impl Pair {
    fn open(is_thorough: bool, payload_check: bool) -> Self {
        let mut endpoints = [0, 1].map(|side| {
            let number = side as u64 + 1;
            let opening = Opening {
                secret: Secret([number, 7]),
                identity: Identity { host: number, endpoint: 1 },
                entropy: [number, 2, 3, 4],
                locators: vec![locator(side)],
            };
            let limits =
                Limits { held_len_max: 64 << 10, envelope_count_max: 64, ..Limits::default() };
            let settings = Settings { payload_check, ..Settings::default() };
            let mut endpoint =
                Endpoint::open(opening, limits, settings, Instant(1)).expect("sound settings");
            endpoint.messages.bulk.peers.set_thorough(is_thorough);
            endpoint
        });
        let addresses = [0, 1].map(|side: usize| endpoints[side].address());
        let peers = [0, 1].map(|side: usize| {
            endpoints[side].add_peer(&addresses[1 - side]).expect("room for a row")
        });
        let (seen, requests) = (Default::default(), Default::default());
        Self { now: Instant(1), endpoints, seen, peers, requests, flying: vec![], lone_count: 0 }
    }

    /// Messages that go in one piece: with others the general way fills frames to the brim, the quick one does not.
    fn post_send(&mut self, side: usize, numbers: &mut Numbers) {
        let len = match numbers.below(12) {
            0 => 0,
            1 => 1400,
            _ => numbers.below(64),
        };
        let bytes = [7; 64];
        let payload = match numbers.below(6) {
            0 if len <= 64 => Payload::Copied(&bytes[..len as usize]),
            _ => Payload::InPlace { buf: BufId(numbers.below(100)), len },
        };
        let spec = SendSpec {
            peer: self.peers[side],
            space: Space(0),
            tag: Tag(numbers.below(4)),
            immediate: (numbers.below(8) == 0).then_some(5),
            payload,
            until_matched: numbers.below(8) == 0,
            user: numbers.below(1000),
        };
        // Some leave as they are posted; the general way to that is to post and to transmit.
        let leaves_at_once = numbers.below(3) == 0;
        let mut head = [0; wire::LONE_HEAD_LEN_MAX];
        let endpoint = &mut self.endpoints[side];
        match leaves_at_once.then(|| endpoint.post_lone(self.now, &spec, &mut head)).flatten() {
            Some(lone) => {
                assert_eq!((lone.link, lone.to), (0, locator(1 - side)));
                self.requests[side].push(lone.req);
                self.lone_count += 1;
                let mut bytes = head[..lone.head_len].to_vec();
                bytes.resize(lone.head_len + len as usize, 9);
                self.emit(side, bytes, numbers);
            }
            None => self.requests[side].extend(endpoint.post_send(self.now, spec)),
        }
        if leaves_at_once {
            self.transmit(side, numbers);
        }
    }

    /// A frame leaves. Some are lost, some come twice, some late.
    fn emit(&mut self, side: usize, bytes: Vec<u8>, numbers: &mut Numbers) {
        let now = self.now;
        self.seen[side].frames.push((now, bytes.clone()));
        let delay_ns = 5_000 + if numbers.below(40) == 0 { 60_000 } else { 0 };
        let count = [0, 2].get(numbers.below(60) as usize).copied().unwrap_or(1);
        for _ in 0..count {
            self.flying.push((now + delay_ns, 1 - side, bytes.clone()));
        }
    }

    fn transmit(&mut self, side: usize, numbers: &mut Numbers) {
        let mut tx = TxFrame::default();
        while self.endpoints[side].poll_transmit(self.now, &mut tx) {
            let body = vec![9; tx.body_len];
            let crc = if tx.wants_crc() { self.seen[side].memory.crc32c(0, &body) } else { 0 };
            tx.seal(crc);
            let mut bytes = tx.head.clone();
            bytes.extend(body);
            self.emit(side, bytes, numbers);
        }
    }

    fn post_recv(&mut self, side: usize, numbers: &mut Numbers) {
        let uses = match numbers.below(12) {
            0 => Use::Many { free_len_min: 100 },
            _ => Use::Once,
        };
        let spec = RecvSpec {
            criteria: Criteria {
                space: Space(0),
                tag: Tag(numbers.below(4)),
                ignore: if numbers.below(6) == 0 { u64::MAX } else { 0 },
                source: (numbers.below(2) == 0).then_some(self.peers[side]),
            },
            buf: BufId(numbers.below(1000)),
            len: [32, 64, BUFFER_LEN as u64][numbers.below(3) as usize],
            list: if numbers.below(20) == 0 { List::Overflow } else { List::Priority },
            uses,
            header_only: numbers.below(20) == 0,
            user: numbers.below(1000),
        };
        let memory = &mut self.seen[side].memory;
        self.requests[side].extend(self.endpoints[side].post_recv(self.now, spec, memory));
    }

    fn cancel(&mut self, side: usize, numbers: &mut Numbers) {
        let count = self.requests[side].len() as u64;
        if count > 0 {
            let req = self.requests[side][numbers.below(count) as usize];
            self.endpoints[side].cancel(self.now, req);
        }
    }

    /// A turn of a driver: what arrived, what is due, what leaves.
    fn turn(&mut self, side: usize, numbers: &mut Numbers) {
        let (endpoint, seen) = (&mut self.endpoints[side], &mut self.seen[side]);
        let now = self.now;
        let mut at = 0;
        while at < self.flying.len() {
            if self.flying[at].1 == side && self.flying[at].0 <= now {
                let (_, _, bytes) = self.flying.remove(at);
                endpoint.on_frame(now, 0, locator(1 - side), &bytes, &mut seen.memory);
            } else {
                at += 1;
            }
        }
        endpoint.on_timeout(now, &mut seen.memory);
        self.transmit(side, numbers);
        let (endpoint, seen) = (&mut self.endpoints[side], &mut self.seen[side]);
        while let Some(event) = endpoint.poll_event() {
            seen.events.push(event);
        }
    }

    /// The life that `seed` has written.
    fn live(mut self, seed: u64) -> ([Seen; 2], [Counters; 2], usize) {
        let mut numbers = Numbers(seed);
        for step in 0..600 {
            let side = numbers.below(2) as usize;
            let count = if numbers.below(10) == 0 { numbers.below(40) } else { numbers.below(2) };
            for _ in 0..count {
                self.post_send(side, &mut numbers);
                if numbers.below(4) != 0 {
                    self.post_recv(1 - side, &mut numbers);
                }
            }
            if numbers.below(30) == 0 {
                self.cancel(side, &mut numbers);
            }
            if step == 500 && numbers.below(4) == 0 {
                self.endpoints[side].close(self.now);
            }
            self.now = self.now + [1_000, 5_000, 5_000, 40_000][numbers.below(4) as usize];
            for side in [0, 1] {
                self.turn(side, &mut numbers);
            }
        }
        let counters = [0, 1].map(|side: usize| self.endpoints[side].counters().clone());
        (self.seen, counters, self.lone_count)
    }
}

#[test]
fn quick_ways_lead_where_the_general_ones_do() {
    for seed in 0..120 {
        let payload_check = seed % 4 == 0;
        let (quick, quick_counters, lone_count) = Pair::open(false, payload_check).live(seed);
        let (thorough, counters, _) = Pair::open(true, payload_check).live(seed);
        assert!(payload_check || lone_count > 5, "seed {seed}: {lone_count} left as posted");
        for side in [0, 1] {
            let (quick, thorough) = (&quick[side], &thorough[side]);
            for (at, (one, other)) in quick.frames.iter().zip(&thorough.frames).enumerate() {
                assert_eq!(one, other, "seed {seed}, side {side}, frame {at}");
            }
            assert_eq!(quick.frames.len(), thorough.frames.len(), "seed {seed}, side {side}");
            assert_eq!(quick.events, thorough.events, "seed {seed}, side {side}");
            assert!(quick.memory.0 == thorough.memory.0, "seed {seed}, side {side}");
            assert!(counters[side].messages_in > 20, "seed {seed}: nothing much happened");
        }
        assert_eq!(quick_counters, counters, "seed {seed}");
    }
}
