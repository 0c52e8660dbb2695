//! One number for all that endpoints do: every frame they send, every event they tell, in order.
//!
//! Two builds that make the same of the same seeds behave alike: who changes how the protocol is written, and not what it does,
//! compares this number before and after (`packhorse sim --runs 10000 --from 1 --hash`). Frames count with their bytes, their
//! time, and the link they leave by, before the network does anything to them; frames that an endpoint sends to itself do not get
//! to a link, and show in what they cause.

use std::fmt::{self, Write as _};

use packhorse_link::Locator;
use packhorse_link::sim::Port;
use packhorse_proto::portals::PortalsEvent;
use packhorse_proto::{Event, Instant};

/// Odd, with bits all over: what changes low bits changes high ones.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of what it was told. One word more, less or different makes it another: each step maps different hashes to different ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// What it comes to.
    pub fn value(self) -> u64 {
        self.0
    }

    /// A frame leaves an endpoint.
    pub(crate) fn note_frame(&mut self, at: Instant, from: Port, to: &Locator, bytes: &[u8]) {
        self.word(at.0);
        self.word(u64::from(from.node) << 8 | u64::from(from.port));
        self.bytes(to);
        self.bytes(bytes);
    }

    /// An endpoint tells something.
    pub(crate) fn note_event(&mut self, at: Instant, node: u32, event: &Event) {
        self.word(at.0);
        self.word(u64::from(node));
        write!(self, "{event:?}").expect("a number takes all");
    }

    /// A queue of Portals tells something, or nothing.
    pub(crate) fn note_portals(&mut self, told: &Option<PortalsEvent>) {
        write!(self, "{told:?}").expect("a number takes all");
    }

    /// What another came to.
    pub(crate) fn note(&mut self, other: Self) {
        self.word(other.0);
    }

    /// Takes a run into a sum over many, in whatever order they end.
    pub(crate) fn add_run(&mut self, seed: u64, run: Self) {
        let mut both = Self(seed);
        both.word(run.0);
        both.word(seed);
        self.add(both);
    }

    /// Two sums become one.
    pub(crate) fn add(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.word(u64::from(*byte)));
    }

    fn word(&mut self, word: u64) {
        let mixed = (self.0.rotate_left(5) ^ word).wrapping_mul(FACTOR);
        self.0 = mixed ^ mixed >> 32;
    }
}

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use packhorse_link::sim::{Death, NodeId};
    use packhorse_proto::{MS, Tag};

    use super::*;
    use crate::world::{Spec, World};

    fn of_frames<const N: usize>(frames: [(u64, u8, &[u8]); N]) -> Digest {
        let mut digest = Digest::default();
        for (at, port, bytes) in frames {
            digest.note_frame(Instant(at), NodeId(0).port(port), &[7; 24], bytes);
        }
        digest
    }

    #[test]
    fn bytes_time_link_number_and_order_of_frames_all_count() {
        let usual = of_frames([(5, 0, b"one frame"), (9, 1, b"another")]);
        assert_eq!(usual, of_frames([(5, 0, b"one frame"), (9, 1, b"another")]));
        let others = [
            of_frames([(5, 0, b"one frame"), (9, 1, b"anotheR")]),
            of_frames([(5, 0, b"one frame"), (8, 1, b"another")]),
            of_frames([(5, 0, b"one frame"), (9, 0, b"another")]),
            of_frames([(9, 1, b"another"), (5, 0, b"one frame")]),
            of_frames([(5, 0, b"one frame")]),
            of_frames([(5, 0, b"one frame"), (9, 1, b"another"), (9, 1, b"")]),
        ];
        for (number, other) in others.iter().enumerate() {
            assert_ne!(*other, usual, "number {number}");
        }
    }

    /// A message with this tag is sent, to somebody who hears it or to nobody.
    fn digest_of(tag: u64, is_heard: bool) -> Digest {
        let mut world = World::new(3);
        let (a, b) = (world.add_node(Spec::default()), world.add_node(Spec::default()));
        world.recv(b, Some(a), Tag(1), 8);
        if !is_heard {
            world.kill(b, Death::Silent);
        }
        world.send(a, b, Tag(tag), 8);
        world.run_for(MS);
        world.digest()
    }

    #[test]
    fn one_different_frame_is_another_run() {
        assert_eq!(digest_of(1, true), digest_of(1, true));
        assert_ne!(digest_of(1, true), digest_of(2, true), "its tag differs");
        assert_ne!(digest_of(1, true), digest_of(1, false), "nobody answers");
    }

    #[test]
    fn an_event_counts_as_a_frame_does() {
        let event = Event::Closed { clean: true };
        let told = |node| {
            let mut digest = Digest::default();
            digest.note_event(Instant(1), node, &event);
            digest
        };
        assert_eq!(told(0), told(0));
        assert_ne!(told(0), told(1));
        assert_ne!(told(0), Digest::default());
    }
}
