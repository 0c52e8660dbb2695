//! What is asked of a shared memory link, and why it cannot be had.

use std::fmt;
use std::io;

use crate::{Locator, ring};

pub use crate::udp::Use;

/// The shortest ring with its control words.
pub(super) const RING_LEN_MIN: usize = 16 << 10;
/// The longest.
pub(super) const RING_LEN_MAX: usize = 1 << 20;
/// Rings are made of pages.
pub(super) const PAGE_LEN: usize = 4096;

/// What is asked of a shared memory link.
#[derive(Clone, Debug)]
pub struct ShmConfig {
    /// Memory shared with each peer for frames to it, in bytes: a multiple of 4096 from 16 KiB to 1 MiB. Frames are as long
    /// as a quarter of it, at most.
    pub ring_len: usize,
    /// Whether large payload is read straight from the sender's memory (`process_vm_readv`), where the system lets us;
    /// otherwise it goes through the rings. Off here keeps both this end and its peers from it.
    pub cma: Use,
    /// The locator of the endpoint's address, if that is one of raw Ethernet: by it peers of this host find the socket, who are not reached by
    /// their card.
    pub named_after: Option<Locator>,
}

impl Default for ShmConfig {
    fn default() -> Self {
        Self { ring_len: 256 << 10, cma: Use::Auto, named_after: None }
    }
}

impl ShmConfig {
    pub(super) fn check(&self) -> Result<(), ShmError> {
        if is_ring_len(self.ring_len) { Ok(()) } else { Err(ShmError::RingLen(self.ring_len)) }
    }

    /// The longest frame.
    pub(super) fn frame_len_max(&self) -> usize {
        let line_count = (self.ring_len - ring::CONTROL_LEN) / ring::LINE_LEN;
        ring::record_len_max(line_count)
    }
}

/// Whether a ring may be that long.
pub(super) fn is_ring_len(len: usize) -> bool {
    (RING_LEN_MIN..=RING_LEN_MAX).contains(&len) && len.is_multiple_of(PAGE_LEN)
}

/// Why a shared memory link could not be opened.
#[derive(Debug)]
pub enum ShmError {
    /// Rings cannot be that long.
    RingLen(usize),
    /// The descriptor handed in is no Unix datagram socket with a name of ours.
    NotOurs,
    /// Anything else.
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl fmt::Display for ShmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RingLen(len) => write!(
                f,
                "rings of {len} bytes cannot be made; give a multiple of {PAGE_LEN} from {RING_LEN_MIN} to {RING_LEN_MAX}"
            ),
            Self::NotOurs => write!(
                f,
                "the descriptor handed in is not a Unix datagram socket with an abstract name \
                 `packhorse-shm-` and 16 hexadecimal digits; bind it to such a name before handing it over"
            ),
            Self::System { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for ShmError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}
