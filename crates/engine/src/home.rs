//! Frames to the endpoint itself: they turn around here, whatever its links are.
//!
//! A frame that leaves by an Ethernet card does not come back; a datagram does, after two system calls, if nothing loses it. Neither is
//! of use to one who speaks to itself: in memory nothing is lost, late or overtaken. The rules know nothing of it; to them these are
//! frames of a link, which came from where they went. No link counts them, and no capture has them.

use std::collections::VecDeque;

use packhorse_link::mem::UserMemory;
use packhorse_link::{Burst, Link, Locator};

/// Memory of so many frames is kept for the next ones.
const SPARE_COUNT_MAX: usize = 64;

/// What turns around.
#[derive(Debug, Default)]
pub(crate) struct Home {
    /// Where the endpoint is, by link.
    locators: Vec<Locator>,
    /// Filled as that of a link.
    pub(crate) burst: Burst,
    frames: VecDeque<(u8, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
}

impl Home {
    pub(crate) fn new<M, L: Link<M>>(links: &[L]) -> Self {
        Self { locators: links.iter().map(Link::locator).collect(), ..Self::default() }
    }

    /// Whether a frame by this link to there turns around. To the endpoint's other locators no link is asked to send (`pairs`).
    #[inline]
    pub(crate) fn takes(&self, link: u8, to: &Locator) -> bool {
        self.locators[usize::from(link)] == *to
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
            let link = self.locators.iter().position(|locator| *locator == frame.to).unwrap_or(0);
            let mut bytes = self.spare.pop().unwrap_or_default();
            self.burst.gather(&frame, memory, &mut bytes);
            self.frames.push_back((link as u8, bytes));
        }
        self.burst.clear();
        count
    }

    /// The next frame: by which link it came, and from where.
    pub(crate) fn next(&mut self) -> Option<(u8, Locator, Vec<u8>)> {
        let (link, bytes) = self.frames.pop_front()?;
        Some((link, self.locators[usize::from(link)], bytes))
    }

    /// Takes a frame's memory back.
    pub(crate) fn reuse(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_COUNT_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}
