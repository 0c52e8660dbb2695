//! Where the futures of handlers live: one pool for each handler, used again and again.
//!
//! A future must not move once it was polled, so each has a box of its own; a box that is empty again takes the next future. In
//! the steady state a message allocates nothing.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::reader::Stream;
use crate::endpoint::Peer;

/// The messages under way of one handler.
pub(super) trait Pool: Send {
    /// Calls the handler for a message; where its future is.
    fn start(&mut self, sender: Peer, stream: Stream) -> u32;

    /// Polls it.
    fn poll(&mut self, slot: u32, context: &mut Context<'_>) -> Poll<()>;

    /// Drops it.
    fn end(&mut self, slot: u32);

    /// Whether none is under way.
    fn is_empty(&self) -> bool;
}

/// A pool for the futures one function makes.
pub(super) struct TypedPool<F, Fut> {
    handler: F,
    futures: Vec<Pin<Box<Option<Fut>>>>,
    vacant: Vec<u32>,
}

impl<F, Fut> TypedPool<F, Fut> {
    pub(super) fn new(handler: F) -> Self {
        Self { handler, futures: Vec::new(), vacant: Vec::new() }
    }
}

impl<F, Fut> Pool for TypedPool<F, Fut>
where
    F: FnMut(Peer, Stream) -> Fut + Send,
    Fut: Future<Output = ()> + Send,
{
    fn start(&mut self, sender: Peer, stream: Stream) -> u32 {
        let future = (self.handler)(sender, stream);
        match self.vacant.pop() {
            Some(slot) => {
                self.futures[slot as usize].as_mut().set(Some(future));
                slot
            }
            None => {
                self.futures.push(Box::pin(Some(future)));
                self.futures.len() as u32 - 1
            }
        }
    }

    fn poll(&mut self, slot: u32, context: &mut Context<'_>) -> Poll<()> {
        match self.futures[slot as usize].as_mut().as_pin_mut() {
            Some(future) => future.poll(context),
            None => Poll::Ready(()),
        }
    }

    fn end(&mut self, slot: u32) {
        // Listed first: if the future panics while it is dropped, its box is empty all the same.
        self.vacant.push(slot);
        self.futures[slot as usize].as_mut().set(None);
    }

    fn is_empty(&self) -> bool {
        self.vacant.len() == self.futures.len()
    }
}
