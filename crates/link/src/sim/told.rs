//! Bytes that ports tell of instead of sending them: what `shm` does with memory of another process, in one process.
//!
//! A port that tells leaves a copy of the bytes where all ports of the network find it. So many copies are kept: who comes later for older
//! ones finds nothing, as one does whose system has forbidden to read, and must ask for them in another way; so does now and then one who comes in time.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Rng, SimPort};
use crate::mem::{MemoryId, UserMemory};
use crate::{Fetch, Locator, Telling, Whereabouts};

/// Messages that are kept.
const KEPT_COUNT_MAX: usize = 16;
/// So many in a million cannot be fetched.
const FAILED_PPM: u32 = 50_000;
/// So many in a million cannot be told of.
const UNTOLD_PPM: u32 = 50_000;

/// What all ports of a network told of.
#[derive(Clone, Debug, Default)]
pub struct Told(Arc<Mutex<Board>>);

#[derive(Debug, Default)]
struct Board {
    /// The number of the first that is kept.
    first: u64,
    kept: VecDeque<Vec<u8>>,
}

/// A port's part in it.
#[derive(Debug)]
pub(super) struct Teller {
    told: Told,
    chance: Rng,
}

impl Teller {
    pub(super) fn new(told: &Told, seed: &Rng) -> Self {
        Self { told: told.clone(), chance: seed.fork("telling") }
    }
}

impl<M: UserMemory> Telling<M> for SimPort {
    fn tell(&mut self, _: &Locator, id: MemoryId, len: u64, memory: &mut M) -> Option<Whereabouts> {
        let teller = self.teller.as_mut().filter(|_| len > 0)?;
        if teller.chance.chance(UNTOLD_PPM) {
            return None;
        }
        let mut board = teller.told.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = Vec::new();
        if board.kept.len() == KEPT_COUNT_MAX {
            bytes = board.kept.pop_front().unwrap_or_default();
            board.first += 1;
        }
        bytes.clear();
        memory.gather(id, 0, len as usize, &mut bytes);
        board.kept.push_back(bytes);
        let number = board.first + board.kept.len() as u64;
        let mut whereabouts = [0; 64];
        whereabouts[..8].copy_from_slice(&number.to_le_bytes());
        Some(whereabouts)
    }

    fn fetch(&mut self, fetch: &Fetch<'_>, memory: &mut M) -> io::Result<()> {
        let nothing = || io::Error::from(io::ErrorKind::NotFound);
        let teller = self.teller.as_mut().ok_or_else(nothing)?;
        if teller.chance.chance(FAILED_PPM) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let board = teller.told.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, _) = fetch.whereabouts.split_first_chunk().ok_or_else(nothing)?;
        let at = u64::from_le_bytes(*number).checked_sub(board.first + 1).ok_or_else(nothing)?;
        let bytes = board.kept.get(at as usize).ok_or_else(nothing)?;
        let len = fetch.range.end.saturating_sub(fetch.range.start);
        let start = usize::try_from(fetch.offset).map_err(|_| nothing())?;
        let end = start.checked_add(len as usize).ok_or_else(nothing)?;
        let wanted = bytes.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        memory.place(fetch.id, fetch.range.start, wanted);
        Ok(())
    }
}
