//! Layers on Fast Messages, small enough to be read: what an upper layer pays for the interface below it.
//!
//! ```text
//!   message passing     contiguous: header and payload assembled, sent as one; received as one, copied to the receive
//!   (matched receives)  streamed:   header, then payload, straight from where it lies to where it is wanted
//!   shared array        array:      put and get on another's memory (Shmem)
//!   byte stream         socket:     reads that are posted before their bytes (Socket-FM)
//! ```
//!
//! The two ways of message passing do the same with the same matching (`matching`); only the interface below differs. Copies
//! are counted ([`Copies`]), so that a test can say how many there were. `packhorse bench layers` measures both.

#![forbid(unsafe_code)]

pub mod array;
pub mod contiguous;
mod matching;
pub mod socket;
pub mod streamed;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use packhorse::{Error, Peer};

pub use contiguous::ContiguousShim;
pub use matching::Received;
pub use streamed::StreamShim;

/// Copies that a layer made of payload, by itself: those of the system below are not among them.
#[derive(Debug, Default)]
pub struct Copies {
    assembling: AtomicU64,
    staging: AtomicU64,
}

impl Copies {
    /// To put a header in front of a payload.
    pub fn assembling(&self) -> u64 {
        self.assembling.load(Ordering::Relaxed)
    }

    /// From where a message was received to where it was wanted.
    pub fn staging(&self) -> u64 {
        self.staging.load(Ordering::Relaxed)
    }

    fn count_assembling(&self) {
        self.assembling.fetch_add(1, Ordering::Relaxed);
    }

    fn count_staging(&self) {
        self.staging.fetch_add(1, Ordering::Relaxed);
    }
}

/// Message passing with matched receives, however it is made.
pub trait Shim {
    /// Sends a message with a tag.
    fn send(&self, peer: Peer, tag: u64, payload: &[u8]) -> Result<(), Error>;

    /// Posts a receive: the next message with this tag goes to this buffer.
    fn post(&self, tag: u64, buffer: Vec<u8>);

    /// The oldest receive that is over, if there is one. Moves nothing: that is done by extracting.
    fn try_take(&self) -> Option<Received>;

    /// Copies that were made.
    fn copies(&self) -> &Copies;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
