//! A message as its sender sees it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use packhorse_engine::Engine;
use packhorse_proto::{OutStreamId, StreamError};

use super::lent::{self, LENT_LEN_MIN};
use crate::endpoint::Peer;
use crate::error::Error;

/// A message that is sent piece by piece. Dropped before its end, its handler is told that it broke off.
#[derive(Debug)]
pub struct Message {
    engine: Arc<Engine>,
    id: OutStreamId,
    peer: Peer,
    is_over: bool,
}

impl Message {
    pub(super) fn begin(engine: &Arc<Engine>, peer: Peer, handler: u16) -> Result<Self, Error> {
        let id = engine.begin_stream(peer.id, handler).map_err(|error| explain(error, peer))?;
        Ok(Self { engine: Arc::clone(engine), id, peer, is_over: false })
    }

    /// Sends a piece; it is yours again on return. Without credit of its receiver it waits, and drives the endpoint meanwhile,
    /// but runs no handler. Inside a handler, where waiting stops all others, [`Message::send_async`] is the better choice.
    pub fn send(&mut self, piece: &[u8]) -> Result<(), Error> {
        let sent = match piece.len() >= LENT_LEN_MIN {
            true => lent::send_long(&self.engine, self.peer.id, self.id, piece),
            false => self.engine.write_stream_all(self.peer.id, self.id, piece),
        };
        sent.map_err(|error| explain(error, self.peer))
    }

    /// Sends as much of a piece as credit allows now: so many bytes, perhaps none.
    pub fn try_send(&mut self, piece: &[u8]) -> Result<usize, Error> {
        let sent = self.engine.write_stream(self.peer.id, self.id, piece);
        sent.map_err(|error| explain(error, self.peer))
    }

    /// Sends a piece; waiting for credit is left to the executor, or to the extraction if this is inside a handler.
    pub fn send_async<'a>(&'a mut self, piece: &'a [u8]) -> SendPiece<'a> {
        SendPiece { message: self, piece, taken_len: 0 }
    }

    /// Lets what was sent so far leave, though it does not fill a frame. False if there is no credit for it now.
    pub fn flush(&mut self) -> Result<bool, Error> {
        self.engine.flush_stream(self.id).map_err(|error| explain(error, self.peer))
    }

    /// Ends the message. Never waits: its last bytes leave by themselves when there is credit.
    pub fn end(mut self) -> Result<(), Error> {
        self.is_over = true;
        let ended = self.engine.end_stream(self.peer.id, self.id, true);
        ended.map_err(|error| explain(error, self.peer))
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if !self.is_over {
            // If its peer is gone there is nobody to tell.
            let _ = self.engine.end_stream(self.peer.id, self.id, false);
        }
    }
}

/// The end of [`Message::send_async`].
#[must_use = "nothing is sent until it is awaited"]
#[derive(Debug)]
pub struct SendPiece<'a> {
    message: &'a mut Message,
    piece: &'a [u8],
    taken_len: usize,
}

impl Future for SendPiece<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { message, piece, taken_len } = &mut *self;
        let Message { engine, id, peer, .. } = &**message;
        let sent = engine.poll_write_stream(peer.id, *id, piece, taken_len, context);
        sent.map_err(|error| explain(error, *peer))
    }
}

/// Sends a message of these pieces. Waits for credit as [`Message::send`] does.
pub(super) fn send_whole(
    engine: &Arc<Engine>,
    peer: Peer,
    handler: u16,
    pieces: &[&[u8]],
) -> Result<(), Error> {
    if engine.send_short_stream(peer.id, handler, pieces) {
        return Ok(());
    }
    let mut message = Message::begin(engine, peer, handler)?;
    pieces.iter().try_for_each(|piece| message.send(piece))?;
    message.end()
}

fn explain(error: StreamError, peer: Peer) -> Error {
    match error {
        StreamError::Closing | StreamError::Ended => Error::Closed,
        StreamError::UnknownPeer => Error::UnknownPeer,
        StreamError::Gone => Error::BrokenOff { peer: format!("peer number {}", peer.id.0) },
    }
}
