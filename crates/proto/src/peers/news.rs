//! What is new about ways to peers, until the driver asks: whoever never asks misses nothing that must be known.

use alloc::collections::VecDeque;

use crate::base::api::NewLocators;
use crate::base::types::{Locator, PeerId};

/// Paths kept for `poll_new_path`.
const NEW_PATH_COUNT_MAX: usize = 256;
/// Peers kept for `poll_path_news`.
const PATH_NEWS_COUNT_MAX: usize = 64;
/// Peers kept for `poll_new_locators`.
const NEW_LOCATORS_COUNT_MAX: usize = 256;

/// News for the driver.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Paths that frames take from now on.
    paths: VecDeque<(u8, Locator)>,
    /// Peers of whose paths something is new.
    of_paths: VecDeque<PeerId>,
    /// Locators of which it is not known which links lead there.
    locators: VecDeque<NewLocators>,
    /// One of these may not be empty.
    is_any: bool,
}

impl News {
    /// Whether it is worth asking.
    #[inline(always)]
    pub(super) fn is_any(&self) -> bool {
        self.is_any
    }

    pub(super) fn add_path(&mut self, link: u8, locator: Locator) {
        if self.paths.len() < NEW_PATH_COUNT_MAX {
            self.paths.push_back((link, locator));
            self.is_any = true;
        }
    }

    pub(super) fn add_of_paths(&mut self, peer: PeerId) {
        if self.of_paths.len() < PATH_NEWS_COUNT_MAX {
            self.of_paths.push_back(peer);
            self.is_any = true;
        }
    }

    pub(super) fn add_locators(&mut self, new: NewLocators) {
        if self.locators.len() < NEW_LOCATORS_COUNT_MAX {
            self.locators.push_back(new);
            self.is_any = true;
        }
    }

    /// The driver asks for paths last of all.
    #[inline]
    pub(super) fn poll_path(&mut self) -> Option<(u8, Locator)> {
        let new = self.paths.pop_front();
        self.is_any = !self.paths.is_empty() || !self.locators.is_empty();
        new
    }

    #[inline]
    pub(super) fn poll_of_paths(&mut self) -> Option<PeerId> {
        self.of_paths.pop_front()
    }

    #[inline]
    pub(super) fn poll_locators(&mut self) -> Option<NewLocators> {
        self.locators.pop_front()
    }
}
