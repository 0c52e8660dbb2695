//! Frames to the endpoint itself: they turn around here, whatever its links are.
//!
//! A frame that leaves by an Ethernet card does not come back; a datagram does, after two system calls, if nothing loses it. Neither is
//! of use to one who speaks to itself: in memory nothing is lost, late or overtaken. To the rules these are frames of a link of which
//! they are told so, and which came from where they went. Of a large message its announcement turns around alone: it says where the message is, and that is
//! copied once, to its place. No link counts them, and no capture has them.

use std::collections::VecDeque;

use packhorse_link::mem::{MemoryId, UserMemory};
use packhorse_link::{Burst, Link, Locator};
use packhorse_proto::{LinkTraits, Reliability, Whereabouts};

/// Memory of so many frames is kept for the next ones.
const SPARE_COUNT_MAX: usize = 64;

/// Frames are so long: several pages go with one head, and `SPARE_COUNT_MAX` of them are a megabyte.
const FRAME_LEN_MAX: u16 = 16 << 10;

/// What the rules are told of the way to oneself. `payload_check`: as links are asked to.
pub(crate) fn traits(payload_check: bool) -> LinkTraits {
    LinkTraits {
        frame_len_max: FRAME_LEN_MAX,
        payload_check,
        reliability: Reliability::Ordered { may_break: false },
        is_private: true,
        can_fetch: true,
        train_len_max: 0,
    }
}

/// What says that a message to oneself is in this memory. It is a name, not an address: what is not lent any more is not read.
pub(crate) fn whereabouts_of(memory: MemoryId) -> Whereabouts {
    let mut bytes: Whereabouts = [0; _];
    bytes[..8].copy_from_slice(&memory.0.to_le_bytes());
    bytes[8] = IS_TOLD;
    bytes
}

/// In which memory a message to oneself is; `None`: that was not said.
pub(crate) fn told_by(whereabouts: &Whereabouts) -> Option<MemoryId> {
    let (name, rest) = whereabouts.split_first_chunk()?;
    (rest.first() == Some(&IS_TOLD)).then(|| MemoryId(u64::from_le_bytes(*name)))
}

/// Behind a name. All bytes are zero where nothing was said.
const IS_TOLD: u8 = 1;

/// What turns around.
#[derive(Debug, Default)]
pub(crate) struct Home {
    /// Where the endpoint is, or was: what it once said to itself goes on under the address of that time.
    locators: Vec<(u8, Locator)>,
    /// Filled as that of a link.
    pub(crate) burst: Burst,
    frames: VecDeque<(u8, Locator, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
}

impl Home {
    pub(crate) fn new<M, L: Link<M>>(links: &[L]) -> Self {
        let locators = (0..).zip(links.iter().map(Link::locator)).collect();
        Self { locators, ..Self::default() }
    }

    /// The endpoint is somewhere else now, as far as that link goes.
    pub(crate) fn on_rebound(&mut self, link: u8, locator: Locator) {
        if !self.takes(link, &locator) {
            self.locators.push((link, locator));
        }
    }

    /// Whether a frame by this link to there turns around. To the endpoint's other locators no link is asked to send (`pairs`).
    #[inline]
    pub(crate) fn takes(&self, link: u8, to: &Locator) -> bool {
        self.locators.iter().any(|own| own.0 == link && own.1 == *to)
    }

    /// Whether frames wait to be received.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// What was put into the burst turns around. Returns how many frames.
    pub(crate) fn turn_around(&mut self, memory: &mut impl UserMemory) -> usize {
        let count = self.burst.len();
        for frame in self.burst.frames(0) {
            let link = self.locators.iter().find(|own| own.1 == frame.to).map_or(0, |own| own.0);
            let mut bytes = self.spare.pop().unwrap_or_default();
            self.burst.gather(&frame, memory, &mut bytes);
            self.frames.push_back((link, frame.to, bytes));
        }
        self.burst.clear();
        count
    }

    /// The next frame: by which link it came, and from where.
    pub(crate) fn next(&mut self) -> Option<(u8, Locator, Vec<u8>)> {
        self.frames.pop_front()
    }

    /// Takes a frame's memory back.
    pub(crate) fn reuse(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_COUNT_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}
