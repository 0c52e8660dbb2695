//! One buffer for many messages.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use packhorse_engine::{Arrival, RequestId};

use crate::endpoint::Shared;
use crate::error::Error;
use crate::wanted::Envelope;

/// A receive that takes many messages, each placed behind the one before. Ends when the buffer is nearly full, or when it
/// is closed or dropped.
pub struct Many {
    shared: Arc<Shared>,
    id: RequestId,
}

/// A message in the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What it says of itself.
    pub envelope: Envelope,
    /// Where in the buffer it lies.
    pub offset: u64,
    /// How many bytes of it were placed.
    pub len: u64,
}

impl std::fmt::Debug for Many {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Many").field(&self.id).finish()
    }
}

impl Many {
    pub(crate) fn new(shared: &Arc<Shared>, id: RequestId) -> Self {
        Self { shared: Arc::clone(shared), id }
    }

    fn piece(&self, arrival: Arrival) -> Result<Piece, Error> {
        let Arrival { envelope, offset, placed_len, result } = arrival;
        match result {
            Ok(()) => Ok(Piece { envelope: envelope.into(), offset, len: placed_len }),
            Err(failure) => {
                Err(Error::from_failure(failure, || self.shared.blame(envelope.source)))
            }
        }
    }

    /// The next message, if one has come.
    pub fn test(&mut self) -> Option<Result<Piece, Error>> {
        self.shared.engine.test_arrival(self.id).map(|arrival| self.piece(arrival))
    }

    /// Waits for the next message; `None` when the buffer is full and all were taken, or the time is over.
    pub fn wait(&mut self, longest: Option<Duration>) -> Option<Result<Piece, Error>> {
        self.shared.engine.wait_arrival(self.id, longest).map(|arrival| self.piece(arrival))
    }

    /// The next message; `None` when the buffer is full and all were taken.
    pub async fn next(&mut self) -> Option<Result<Piece, Error>> {
        let arrival = poll_fn(|context| self.shared.engine.poll_arrival(self.id, context)).await;
        arrival.map(|arrival| self.piece(arrival))
    }

    /// A copy of a message's bytes, as long as the buffer is open; empty after that, see [`close`](Self::close).
    pub fn read(&self, piece: &Piece) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.shared.engine.read(self.id, piece.offset, piece.len as usize, &mut bytes);
        bytes
    }

    /// Takes no more messages and gives the buffer back.
    pub fn close(self) -> Vec<u8> {
        self.shared.engine.cancel(self.id);
        let completion = self.shared.engine.wait(self.id, Some(Duration::from_secs(5)));
        completion.and_then(|completion| completion.memory).map_or_else(Vec::new, |m| m.into_vec())
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        self.shared.engine.abandon(self.id, true);
    }
}
