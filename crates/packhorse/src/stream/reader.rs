//! A message as its handler sees it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use packhorse_engine::{Engine, StreamRead};
use packhorse_link::loan::{self, Loan};
use packhorse_proto::{StreamBreak, StreamId};

use super::lent;
use super::message::Message;
use crate::endpoint::Peer;
use crate::error::Error;

/// A message that arrives, to be taken apart by its handler. Dropped, the rest of it is thrown away.
///
/// It is read inside its handler: handlers are what extraction polls.
#[derive(Debug)]
pub struct Stream {
    engine: Arc<Engine>,
    id: StreamId,
    sender: Peer,
}

impl Stream {
    pub(super) fn new(engine: Arc<Engine>, id: StreamId, sender: Peer) -> Self {
        Self { engine, id, sender }
    }

    /// Who sent it.
    pub fn sender(&self) -> Peer {
        self.sender
    }

    /// Receives as many bytes as the buffer has room for; fewer only if the message ends before. How many that were.
    pub fn receive<'a>(&'a mut self, buffer: &'a mut [u8]) -> Receive<'a> {
        Receive { least_len: buffer.len(), stream: self, buffer, filled_len: 0 }
    }

    /// Receives what there is, up to the length of the buffer, and waits only while there is nothing. 0: the message has ended.
    pub fn receive_some<'a>(&'a mut self, buffer: &'a mut [u8]) -> Receive<'a> {
        Receive { least_len: buffer.len().min(1), stream: self, buffer, filled_len: 0 }
    }

    /// Passes over so many bytes; fewer only if the message ends before. How many that were.
    pub fn skip(&mut self, len: usize) -> Skip<'_> {
        Skip { stream: self, wanted_len: len, skipped_len: 0 }
    }

    /// Begins a message, to the sender of this one or to another peer.
    pub fn begin(&self, peer: Peer, handler: u16) -> Result<Message, Error> {
        Message::begin(&self.engine, peer, handler)
    }

    /// Takes what is lent on this thread, if it is of this stream; or asks to be polled later. `None`: nothing is lent.
    fn borrow(&self, take: impl FnOnce(&Loan<'_>, u64) -> bool) -> Option<()> {
        loan::borrowed(|loan| {
            let is_whole = take(loan, self.id.0);
            loan.set_waiting(!is_whole);
            if is_whole {
                // What follows in the handler runs when the engine is not locked.
                loan.ask_for_poll();
            }
        })
    }
}

/// How much was read so far, and how it goes on.
fn conclude(read_len: usize, state: StreamRead, peer: Peer) -> Poll<Result<usize, Error>> {
    match state {
        StreamRead::Whole | StreamRead::End => Poll::Ready(Ok(read_len)),
        StreamRead::Wait | StreamRead::Enough | StreamRead::Told => Poll::Pending,
        StreamRead::Broken(StreamBreak::GivenUp) => {
            Poll::Ready(Err(Error::CancelledByPeer { peer: name(peer) }))
        }
        StreamRead::Broken(StreamBreak::Gone(Some(reason))) => {
            Poll::Ready(Err(Error::Gone { peer: name(peer), reason, tried: Vec::new() }))
        }
        StreamRead::Broken(StreamBreak::Gone(None)) => {
            Poll::Ready(Err(Error::PeerClosed { peer: name(peer) }))
        }
        StreamRead::Void => Poll::Ready(Err(Error::Closed)),
    }
}

fn name(peer: Peer) -> String {
    format!("peer number {}", peer.id.0)
}

/// The end of [`Stream::receive`] and [`Stream::receive_some`].
#[must_use = "nothing is received until it is awaited"]
#[derive(Debug)]
pub struct Receive<'a> {
    stream: &'a mut Stream,
    buffer: &'a mut [u8],
    filled_len: usize,
    /// It is over with so many bytes.
    least_len: usize,
}

impl Future for Receive<'_> {
    type Output = Result<usize, Error>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { stream, buffer, filled_len, least_len } = &mut *self;
        let id = stream.id.0;
        let handed = loan::handed(id, |loan| {
            *filled_len += loan.take(id, &mut buffer[*filled_len..]);
            *filled_len >= *least_len || loan.is_whole()
        });
        if handed == Some(true) {
            return Poll::Ready(Ok(*filled_len));
        }
        let borrowed = stream.borrow(|loan, id| {
            *filled_len += loan.take(id, &mut buffer[*filled_len..]);
            *filled_len >= *least_len
        });
        if borrowed.is_some() {
            return Poll::Pending;
        }
        if *filled_len > 0 && *filled_len >= *least_len {
            return Poll::Ready(Ok(*filled_len)); // of a frame that was lent
        }
        let state = loop {
            let rest = &mut buffer[*filled_len..];
            let mut at = 0;
            let (read_len, state) = stream.engine.read_stream(stream.id, rest.len(), |bytes| {
                rest[at..at + bytes.len()].copy_from_slice(bytes);
                at += bytes.len();
            });
            *filled_len += read_len;
            if state != StreamRead::Told {
                break state;
            }
            *filled_len += lent::read_told(&stream.engine, stream.id, &mut rest[read_len..]);
        };
        if *filled_len > 0 && *filled_len >= *least_len {
            return Poll::Ready(Ok(*filled_len));
        }
        conclude(*filled_len, state, stream.sender)
    }
}

/// The end of [`Stream::skip`].
#[must_use = "nothing is skipped until it is awaited"]
#[derive(Debug)]
pub struct Skip<'a> {
    stream: &'a mut Stream,
    wanted_len: usize,
    skipped_len: usize,
}

impl Future for Skip<'_> {
    type Output = Result<usize, Error>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { stream, wanted_len, skipped_len } = &mut *self;
        let id = stream.id.0;
        let handed = loan::handed(id, |loan| {
            *skipped_len += loan.skip(id, *wanted_len - *skipped_len);
            *skipped_len == *wanted_len || loan.is_whole()
        });
        if handed == Some(true) {
            return Poll::Ready(Ok(*skipped_len));
        }
        let borrowed = stream.borrow(|loan, id| {
            *skipped_len += loan.skip(id, *wanted_len - *skipped_len);
            *skipped_len == *wanted_len
        });
        if borrowed.is_some() {
            return Poll::Pending;
        }
        let state = loop {
            let rest_len = *wanted_len - *skipped_len;
            let (read_len, state) = stream.engine.read_stream(stream.id, rest_len, |_| ());
            *skipped_len += read_len;
            if state != StreamRead::Told {
                break state;
            }
            *skipped_len += stream.engine.skip_told(stream.id, rest_len - read_len);
        };
        conclude(*skipped_len, state, stream.sender)
    }
}
