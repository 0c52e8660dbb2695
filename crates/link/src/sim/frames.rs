//! Frames under way and the agenda of what happens to them next.
//!
//! Frames sit in slots that are used again, buffers and all: once a run has seen its greatest crowd,
//! nothing is allocated any more. The agenda is a heap of (time, serial number); the number makes
//! the order of simultaneous events, and so the whole run, a matter of the seed alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a frame on the agenda does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Reaches the queue of its trunk.
    Trunk,
    /// Reaches the queue of the receiver's line.
    Ingress,
    /// Reaches the receiving port.
    Arrive,
    /// Was at the port already, while its node was paused.
    Resume,
    /// Is lost at a dead node; this is the report of it, reaching the sender.
    Report,
}

/// A frame under way.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    pub(super) number: u64,
    /// Its place among the frames of its pair.
    pub(super) order: u64,
    /// Which pair, by index.
    pub(super) pair: u32,
    /// Generations of the two locators when it was sent, and as it was addressed.
    pub(super) from_generation: u32,
    pub(super) to_generation: u32,
    pub(super) is_copy: bool,
    /// An intercept wants a second one.
    pub(super) wants_copy: bool,
    /// An intercept wants it this much later.
    pub(super) late_ns: u64,
}

/// A frame's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FrameSlot(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at_ns: u64,
    serial: u64,
    slot: FrameSlot,
    step: Step,
}

/// All frames under way.
#[derive(Debug, Default)]
pub(super) struct Frames {
    slots: Vec<Frame>,
    free: Vec<FrameSlot>,
    agenda: BinaryHeap<Reverse<Due>>,
    serial: u64,
}

impl Frames {
    /// A slot whose frame holds these bytes; its other fields are the last user's until they are set.
    pub(super) fn take(&mut self, bytes: &[u8]) -> FrameSlot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Frame::default());
            FrameSlot(
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 frames under way"),
            )
        });
        let frame = self.get_mut(slot);
        frame.bytes.clear();
        frame.bytes.extend_from_slice(bytes);
        slot
    }

    /// A second slot with the same frame.
    pub(super) fn take_copy(&mut self, slot: FrameSlot) -> FrameSlot {
        let copy = self.take(&[]);
        let [from, to] = self
            .slots
            .get_disjoint_mut([slot.0 as usize, copy.0 as usize])
            .expect("a fresh slot is another one");
        let mut bytes = std::mem::take(&mut to.bytes);
        bytes.extend_from_slice(&from.bytes);
        *to = Frame { bytes, ..*from };
        copy
    }

    pub(super) fn give_back(&mut self, slot: FrameSlot) {
        self.free.push(slot);
    }

    pub(super) fn get(&self, slot: FrameSlot) -> &Frame {
        &self.slots[slot.0 as usize]
    }

    pub(super) fn get_mut(&mut self, slot: FrameSlot) -> &mut Frame {
        &mut self.slots[slot.0 as usize]
    }

    pub(super) fn schedule(&mut self, at_ns: u64, slot: FrameSlot, step: Step) {
        self.serial += 1;
        self.agenda.push(Reverse(Due { at_ns, serial: self.serial, slot, step }));
    }

    pub(super) fn next_at(&self) -> Option<u64> {
        self.agenda.peek().map(|due| due.0.at_ns)
    }

    /// The next step that is due.
    pub(super) fn pop(&mut self, now_ns: u64) -> Option<(u64, FrameSlot, Step)> {
        if self.next_at()? > now_ns {
            return None;
        }
        self.agenda.pop().map(|Reverse(due)| (due.at_ns, due.slot, due.step))
    }

    /// Slots ever made: the greatest crowd.
    #[cfg(test)]
    pub(super) fn slot_count(&self) -> usize {
        self.slots.len()
    }
}
