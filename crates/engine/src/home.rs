//! Frames to the endpoint itself, over links that do not hear themselves.
//!
//! A datagram to one's own address comes back; a frame that leaves by an Ethernet card does not. Who opened only such links
//! may send to itself all the same: its frames turn around here.

use std::collections::VecDeque;

use packhorse_link::mem::UserMemory;
use packhorse_link::{Burst, Link, Locator};

/// What turns around.
#[derive(Debug, Default)]
pub(crate) struct Home {
    /// Links that do not hear themselves, a bit for each.
    deaf: u8,
    locators: Vec<Locator>,
    /// Filled as that of a link.
    pub(crate) burst: Burst,
    frames: VecDeque<(u8, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
}

impl Home {
    pub(crate) fn new<M, L: Link<M>>(links: &mut [L]) -> Self {
        let mut home = Self::default();
        for (number, link) in links.iter_mut().enumerate() {
            let locator = link.locator();
            home.locators.push(locator);
            home.deaf |= u8::from(!link.may_reach(&locator)) << number;
        }
        home
    }

    /// Whether a frame by this link to there turns around.
    #[inline]
    pub(crate) fn takes(&self, link: u8, to: &Locator) -> bool {
        self.deaf >> link & 1 != 0 && self.locators[usize::from(link)] == *to
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
        bytes.clear();
        self.spare.push(bytes);
    }
}
