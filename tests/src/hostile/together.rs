//! Frames that leave together and arrive together.
//!
//! Links hand over what arrived as bursts of trains: frames of one sender behind each other, all of one length but the last. The engine
//! has three ways to give them to an endpoint, and so has this world, in the same order (`core/receive.rs` of the engine):
//!
//! ```text
//!   inbox ──▶ burst ──▶ predict, scatter ──▶ on_landed ──▶ of what did not land: on_fragments while it takes some, else on_frame
//! ```
//!
//! Whoever sends chooses what a train looks like: the system joins what has one length, and a peer in shared memory says the lengths
//! itself. So the script draws trains whose frames are damaged, missing, doubled, or of another length than is said.

use packhorse_proto::{Landing, Locator, Source};

use super::{Flying, Party, World};
use crate::script::Script;

/// Frames the system joins at most, and bytes of a train.
const JOINED_COUNT_MAX: usize = 64;
const JOINED_LEN_MAX: usize = 65_000;
/// As in the engine: less is looked at frame by frame.
const FRAGMENT_LEN_MIN: usize = 512;

/// Frames of one sender that arrived as one.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub(super) from: Locator,
    /// One behind the other.
    pub(super) bytes: Vec<u8>,
    /// Length of each but perhaps the last. Never 0.
    pub(super) stride: usize,
}

/// What of a script went by the ways that take several frames at once: a test sees to it that they are gone at all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reached {
    /// Frames that left in trains.
    pub(super) sent_count: usize,
    /// Fragments taken together, and those of them that Mallory made.
    pub(super) together_count: usize,
    pub(super) forged_together_count: usize,
    /// Frames whose payload was where it was predicted, those of them that Mallory made, and frames that were lifted.
    pub(super) landed_count: usize,
    pub(super) forged_landed_count: usize,
    pub(super) lifted_count: usize,
}

impl World {
    /// Sends a train, if the endpoint has one. Its frames travel one by one: what joins them again is the receiver's system.
    pub(super) fn transmit_train(&mut self, at: usize) -> bool {
        let party = &mut self.parties[at];
        let train = &mut self.train;
        if !party.endpoint.poll_train(self.now, JOINED_COUNT_MAX, JOINED_LEN_MAX, train) {
            return false;
        }
        let (train, party) = (&self.train, &self.parties[at]);
        let (count, to) = (train.count, train.to);
        let mut frames = Vec::new();
        for (head, payload) in train.frames() {
            let mut frame = head.to_vec();
            match train.source {
                Source::User { buf, offset } => {
                    let start = offset + payload.start as u64;
                    party.ledger.check_read(buf, start, payload.len() as u64);
                    frame.resize(frame.len() + payload.len(), payload.start as u8);
                }
                Source::Pool { slot, offset } => {
                    let pooled = &party.endpoint.pooled(slot)[offset as usize..];
                    frame.extend_from_slice(&pooled[payload]);
                }
                Source::Whereabouts { .. } | Source::Zero => panic!("a train without payload"),
            }
            frames.push(frame);
        }
        self.reached.sent_count += count;
        frames.into_iter().for_each(|frame| self.set_out(at, frame, to));
        true
    }

    /// Everything that waits for an endpoint arrives, joined as a system joins it.
    pub(super) fn deliver_burst(&mut self, at: usize) {
        let mut burst: Vec<Joined> = Vec::new();
        for Flying { from, bytes } in std::mem::take(&mut self.parties[at].inbox) {
            match burst.last_mut().filter(|train| train.takes(&from, &bytes)) {
                Some(train) => train.bytes.extend_from_slice(&bytes),
                None => burst.push(Joined { from, stride: bytes.len().max(1), bytes }),
            }
        }
        self.now = self.now + 1_000;
        self.hand_over_burst(at, &burst, false);
    }

    /// Frames of one sender arrive as one, in a shape that no honest system would give them.
    pub(super) fn deliver_misshapen(&mut self, at: usize, script: &mut Script<'_>) {
        let Party { inbox, .. } = &mut self.parties[at];
        if inbox.is_empty() {
            return;
        }
        let (first, count_max) = (script.below(inbox.len()), 1 + script.below(32));
        let Some(Flying { from, bytes }) = inbox.remove(first) else { return };
        let mut frames = vec![bytes];
        while frames.len() < count_max
            && let Some(next) = inbox.get(first).filter(|next| next.from == from)
        {
            frames.push(next.bytes.clone());
            inbox.remove(first);
        }
        let stride = frames[0].len().max(1);
        let joined = misshapen(frames, Joined { from, bytes: Vec::new(), stride }, script);
        self.hand_over_burst(at, &[joined], false);
    }

    /// Hands over a burst as the engine does. Frames that Mallory made are counted apart.
    pub(super) fn hand_over_burst(&mut self, at: usize, burst: &[Joined], is_forged: bool) {
        for train in burst {
            self.tell(|| {
                let frames = train.bytes.chunks(train.stride);
                let said: Vec<_> = frames.map(|frame| self.mallory.read(frame)).collect();
                format!("party {at} gets together, by {}: {}", train.stride, said.join("; "))
            });
        }
        let taken = self.take_landed(at, burst, is_forged);
        for (train, taken) in burst.iter().zip(taken) {
            let rest = train.bytes.get(taken * train.stride..).unwrap_or_default();
            self.take_frames(at, train, rest, is_forged);
        }
        self.check(at);
    }

    /// Payload is scattered to where it is predicted; of how many frames of each train it was rightly there.
    fn take_landed(&mut self, at: usize, burst: &[Joined], is_forged: bool) -> Vec<usize> {
        let Party { endpoint, ledger, .. } = &mut self.parties[at];
        let Some(expected) = endpoint.predict(0) else { return vec![0; burst.len()] };
        // Whatever comes is written there, before anybody looks at it.
        ledger.check_landing(expected.buf, expected.offset, expected.len);
        let mut behind_len = 0;
        let mut landed = Vec::new();
        for train in burst {
            let here = expected.behind(behind_len);
            let (count, last_len) = train.fit(&here);
            landed.push((train, here, count, last_len));
            let full_len = count.saturating_sub(1) as u64 * u64::from(expected.payload_len);
            behind_len += full_len + u64::from(last_len);
        }
        let mut taken = Vec::new();
        for (train, here, count, last_len) in landed {
            let heads: Vec<u8> = train
                .bytes
                .chunks(train.stride)
                .take(count)
                .flat_map(|frame| &frame[..here.head_len])
                .copied()
                .collect();
            let right = match count {
                0 => 0, // nothing landed: nothing is shown
                _ => endpoint.on_landed(
                    self.now,
                    0,
                    &train.from,
                    &here,
                    &heads,
                    count,
                    last_len,
                    ledger,
                ),
            };
            assert!(right <= count, "{right} of {count} frames that landed were taken");
            self.reached.landed_count += right;
            self.reached.forged_landed_count += if is_forged { right } else { 0 };
            self.reached.lifted_count += count - right;
            taken.push(right);
        }
        taken
    }

    fn take_frames(&mut self, at: usize, train: &Joined, mut rest: &[u8], is_forged: bool) {
        let Party { endpoint, ledger, .. } = &mut self.parties[at];
        while !rest.is_empty() {
            if rest.len() >= FRAGMENT_LEN_MIN {
                let stride = train.stride;
                let joined = endpoint.on_fragments(self.now, 0, &train.from, rest, stride, ledger);
                assert!(joined <= rest.len().div_ceil(stride), "{joined} frames were taken");
                if joined > 0 {
                    self.reached.together_count += joined;
                    self.reached.forged_together_count += if is_forged { joined } else { 0 };
                    rest = &rest[rest.len().min(joined * stride)..];
                    continue;
                }
            }
            let frame;
            (frame, rest) = rest.split_at(rest.len().min(train.stride));
            endpoint.on_frame(self.now, 0, train.from, frame, ledger);
        }
    }
}

impl Joined {
    /// Whether a system would join a frame to these.
    fn takes(&self, from: &Locator, frame: &[u8]) -> bool {
        let is_open = self.bytes.len().is_multiple_of(self.stride);
        let has_room = self.bytes.len() + frame.len() <= JOINED_LEN_MAX
            && self.bytes.len() < JOINED_COUNT_MAX * self.stride;
        self.from == *from && is_open && has_room && frame.len() <= self.stride
    }

    /// Frames, from the first on, whose payload comes to lie where payload is expected, and how much the last of them has.
    fn fit(&self, expected: &Landing) -> (usize, u32) {
        let frame_len = expected.head_len + expected.payload_len as usize;
        let is_lone = self.bytes.len() <= self.stride && self.bytes.len() <= frame_len;
        let (mut count, mut last_len, mut room_len) = (0, 0, expected.len);
        if !is_lone && self.stride != frame_len {
            return (count, last_len);
        }
        for frame in self.bytes.chunks(self.stride) {
            let len = frame.len().saturating_sub(expected.head_len);
            if len == 0 || len as u64 > room_len {
                break;
            }
            (count, last_len, room_len) = (count + 1, len as u32, room_len - len as u64);
        }
        (count, last_len)
    }
}

/// Joins frames, and does something to them.
fn misshapen(mut frames: Vec<Vec<u8>>, into: Joined, script: &mut Script<'_>) -> Joined {
    let mut train = into;
    let fate = script.below(12);
    let victim = script.below(frames.len());
    match fate {
        0 => drop(frames.remove(victim)),
        1 => frames.insert(victim, frames[victim].clone()),
        2 => frames.rotate_left(victim),
        3 => {
            let frame = &mut frames[victim];
            let at = usize::from(script.half()) % frame.len().max(1);
            frame[at] ^= 1 << script.below(8);
        }
        4 => {
            let len = usize::from(script.half()) % frames[victim].len().max(1);
            frames[victim].truncate(len);
        }
        5 => train.from.0[20] ^= script.byte(),
        6 => train.stride = (train.stride + script.below(17)).saturating_sub(8).max(1),
        7 => train.stride = usize::from(script.half()).max(1),
        _ => {}
    }
    train.bytes = frames.concat();
    train
}
