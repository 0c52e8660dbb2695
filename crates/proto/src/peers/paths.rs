//! The paths to one peer, by their numbers.
//!
//! A path keeps its number as long as the association lives, for both sides name it so (PROTOCOL §3.13). Paths come and go in this room alone; the rooms
//! above look at them, and tell each what was sent and what came by it.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use crate::delivery::path::Path;

/// The paths to a peer that is awake; eight at most.
#[derive(Debug, Default)]
pub(crate) struct Paths(Vec<Path>);

impl Paths {
    /// A further path: its number is how many there were.
    pub(super) fn push(&mut self, path: Path) {
        self.0.push(path);
    }

    /// The association is over, or rests.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Paths that were kept while the row rested.
    pub(super) fn extend(&mut self, paths: impl Iterator<Item = Path>) {
        self.0.extend(paths);
    }
}

impl Deref for Paths {
    type Target = [Path];

    #[inline(always)]
    fn deref(&self) -> &[Path] {
        &self.0
    }
}

impl DerefMut for Paths {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Path] {
        &mut self.0
    }
}
