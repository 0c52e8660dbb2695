//! A link for tests of links around a link: remembers what was sent, and shows what it was told to.

use std::io;
use std::os::fd::BorrowedFd;

use crate::mem::UserMemory;
use crate::{About, Arrived, Burst, Landed, Landing, Link, Locator, Notice, Reliability, Telling};

/// What arrives: from where, bytes, stride, what landed.
pub(crate) type Arriving = (Locator, Vec<u8>, usize, Option<Landed>);

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) about: About,
    pub(crate) locator: Locator,
    /// Frames taken of one burst at most.
    pub(crate) take_max: usize,
    pub(crate) sent: Vec<(Locator, Vec<u8>)>,
    pub(crate) arriving: Vec<Arriving>,
}

impl Default for Script {
    fn default() -> Self {
        let about = About {
            kind: "script",
            frame_len_max: 1500,
            train_len_max: 0,
            train_count_max: 0,
            reliability: Reliability::Ordered { may_break: false },
            is_checked: true,
            is_private: false,
            can_land: true,
            backlog_len_max: 1 << 20,
        };
        Self {
            about,
            locator: [9; 24],
            take_max: usize::MAX,
            sent: Vec::new(),
            arriving: Vec::new(),
        }
    }
}

impl<M: UserMemory> Link<M> for Script {
    fn about(&self) -> &About {
        &self.about
    }

    fn locator(&self) -> Locator {
        self.locator
    }

    fn may_reach(&mut self, _: &Locator) -> bool {
        true
    }

    fn frame_len_to(&mut self, _: &Locator) -> usize {
        self.about.frame_len_max
    }

    fn card_to(&mut self, _: &Locator) -> u32 {
        0
    }

    fn send(&mut self, burst: &Burst, first: usize, memory: &mut M) -> io::Result<usize> {
        for frame in burst.frames(first).take(self.take_max) {
            let mut bytes = Vec::new();
            burst.gather(&frame, memory, &mut bytes);
            self.sent.push((frame.to, bytes));
        }
        Ok((burst.len() - first).min(self.take_max))
    }

    fn send_now(&mut self, _: &Locator, _: &[u8], _: usize) -> bool {
        false
    }

    fn receive(&mut self, _: Option<&Landing>, _: &mut M) -> io::Result<usize> {
        Ok(self.arriving.len())
    }

    fn arrived(&self, index: usize) -> Arrived<'_> {
        let (from, bytes, stride, landed) = &self.arriving[index];
        Arrived { from: *from, bytes, stride: *stride, landed: *landed }
    }

    fn is_costly_to_ask(&self) -> bool {
        false
    }

    fn lift(&mut self, _: usize, _: usize, _: &mut M) {}

    fn telling(&mut self) -> Option<&mut dyn Telling<M>> {
        None
    }

    fn set_trains(&mut self, _: bool) {}

    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }

    fn poll_remark(&mut self) -> Option<String> {
        None
    }

    fn arm(&mut self) -> bool {
        true
    }

    fn disarm(&mut self) {}

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn each_counter(&self, _: &mut dyn FnMut(&'static str, u64)) {}
}
