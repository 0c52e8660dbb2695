//! Completion queues: post many requests, learn of their ends in one place.
//!
//! ```
//! use packhorse::{Endpoint, Wanted};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (a, b) = (Endpoint::local()?, Endpoint::local()?);
//! let to_b = a.peer(&b.address())?;
//! let mut queue = b.queue(64);
//! for context in 0..3 {
//!     queue.recv(Wanted::tag(7), vec![0; 10], context)?;
//! }
//! a.send(to_b, 7, b"first".to_vec()).wait()?;
//! let ended = queue.wait(None).expect("without a limit there is an end");
//! assert_eq!((ended.context, ended.placed_len), (0, 5));
//! let buffer: Vec<u8> = queue.buffer(&ended).expect("given back once");
//! ended.result?;
//! assert_eq!(buffer, b"first");
//! # Ok(())
//! # }
//! ```
//!
//! A request is posted with a *context*, 64 bits of yours that come back with its end. An empty queue costs a single load to
//! ask, and nothing that was posted is ever lost: what the queue has no room for waits. Dropping a queue cancels its
//! receives; its sends go on.

use std::sync::Arc;
use std::time::Duration;

use packhorse_engine::{Completions, Entry, Notify, Put, QueueId, RequestId, Trouble};

pub use packhorse_engine::Kind;

use crate::buffer::Buffer;
use crate::endpoint::{
    Endpoint, Peer, SendOptions, Shared, check_segments, check_writable, once, spec,
};
use crate::error::{Blame, Error, Failed};
use crate::onesided::Remote;
use crate::wanted::{Envelope, Wanted};

/// A queue of ends. One thread reads; [`Queue::poster`] is for others to post to it.
pub struct Queue {
    poster: Poster,
    completions: Completions,
}

/// Posts to a queue, from any thread.
#[derive(Clone)]
pub struct Poster {
    shared: Arc<Shared>,
    queue: QueueId,
}

/// The end of a request.
#[derive(Debug)]
pub struct Ended {
    /// As posted.
    pub context: u64,
    /// What ended.
    pub kind: Kind,
    /// To whom, or from whom; `None` for a receive that took no message.
    pub peer: Option<Peer>,
    /// What a received message says of itself.
    pub envelope: Option<Envelope>,
    /// Bytes received; of a send, bytes that its receiver took: fewer than were sent if a large message, or one that waits for its match, was cut short.
    pub placed_len: u64,
    /// With what success. A message longer than its buffer is [`Error::Truncated`].
    pub result: Result<(), Error>,
    /// When the engine saw it end, on the endpoint's clock ([`Endpoint::clock`]).
    pub at: Duration,
    request: RequestId,
    has_memory: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Queue").field(&self.completions).finish()
    }
}

impl std::fmt::Debug for Poster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Poster").field(&self.queue).finish()
    }
}

impl Endpoint {
    /// A completion queue that holds about so many ends before asking costs more.
    pub fn queue(&self, count: usize) -> Queue {
        let completions = Completions::new(&self.shared.engine, count);
        let poster = Poster { shared: Arc::clone(&self.shared), queue: completions.id() };
        Queue { poster, completions }
    }

    /// Time since the endpoint opened: the clock that [`Ended::at`] is told by.
    pub fn clock(&self) -> Duration {
        Duration::from_nanos(self.shared.engine.now().0)
    }
}

impl Poster {
    fn notify(&self, context: u64, only_errors: bool) -> Notify {
        Notify { queue: self.queue, context, only_errors }
    }

    /// Sends a message.
    pub fn send<B: Buffer>(
        &self,
        peer: Peer,
        tag: u64,
        buffer: B,
        context: u64,
    ) -> Result<(), Failed<B>> {
        self.post_send(peer, tag, buffer, SendOptions::default(), self.notify(context, false))
    }

    /// Sends a message with options; with `only_errors` the queue hears of it only if it fails, and its buffer is dropped.
    pub fn send_with<B: Buffer>(
        &self,
        peer: Peer,
        tag: u64,
        buffer: B,
        options: SendOptions,
        (context, only_errors): (u64, bool),
    ) -> Result<(), Failed<B>> {
        self.post_send(peer, tag, buffer, options, self.notify(context, only_errors))
    }

    fn post_send<B: Buffer>(
        &self,
        peer: Peer,
        tag: u64,
        buffer: B,
        options: SendOptions,
        notify: Notify,
    ) -> Result<(), Failed<B>> {
        let memory = buffer.into_memory();
        if let Err(error) = check_segments(&memory) {
            return Err(Failed { error, buffer: Some(B::from_memory(memory)) });
        }
        let posted = self.shared.engine.send_queued(notify, spec(peer, tag, options), memory);
        posted.map_err(|refused| Failed {
            error: refused.error.into(),
            buffer: refused.memory.map(B::from_memory),
        })
    }

    /// Receives a message.
    pub fn recv<B: Buffer>(
        &self,
        wanted: Wanted,
        buffer: B,
        context: u64,
    ) -> Result<(), Failed<B>> {
        let memory = buffer.into_memory();
        if let Err(error) = check_segments(&memory).and_then(|()| check_writable(&memory)) {
            return Err(Failed { error, buffer: Some(B::from_memory(memory)) });
        }
        let notify = self.notify(context, false);
        let posted = self.shared.engine.recv_queued(notify, once(wanted), memory);
        posted.map_err(|refused| Failed {
            error: refused.error.into(),
            buffer: refused.memory.map(B::from_memory),
        })
    }

    /// Puts bytes into a peer's memory.
    pub fn put<B: Buffer>(&self, to: Remote, buffer: B, context: u64) -> Result<(), Failed<B>> {
        let memory = buffer.into_memory();
        if let Err(error) = check_segments(&memory) {
            return Err(Failed { error, buffer: Some(B::from_memory(memory)) });
        }
        let put = Put { to: to.to_proto(), immediate: None };
        let posted = self.shared.engine.put(put, memory, Some(self.notify(context, false)));
        posted.map(|_| ()).map_err(|refused| Failed {
            error: refused.error.into(),
            buffer: refused.memory.map(B::from_memory),
        })
    }

    /// Gets bytes out of a peer's memory: as many as the buffer has.
    pub fn get<B: Buffer>(&self, from: Remote, buffer: B, context: u64) -> Result<(), Failed<B>> {
        let memory = buffer.into_memory();
        if let Err(error) = check_segments(&memory).and_then(|()| check_writable(&memory)) {
            return Err(Failed { error, buffer: Some(B::from_memory(memory)) });
        }
        let notify = Some(self.notify(context, false));
        let posted = self.shared.engine.get(from.to_proto(), memory, notify);
        posted.map(|_| ()).map_err(|refused| Failed {
            error: refused.error.into(),
            buffer: refused.memory.map(B::from_memory),
        })
    }

    /// Cancels what was posted with this context; how many requests. Each ends at once, with [`Error::Cancelled`] in the queue.
    pub fn cancel(&self, context: u64) -> usize {
        self.shared.engine.cancel_queued(self.queue, context)
    }
}

/// A queue can be posted to directly.
impl std::ops::Deref for Queue {
    type Target = Poster;

    fn deref(&self) -> &Poster {
        &self.poster
    }
}

impl Queue {
    /// For other threads to post to it.
    pub fn poster(&self) -> Poster {
        self.poster.clone()
    }

    /// Whether nothing has ended since: one load.
    pub fn is_empty(&self) -> bool {
        self.completions.is_empty()
    }

    /// The next end, if there is one. Moves nothing: with [`Placement::Inline`](crate::Placement::Inline) use [`test`](Self::test).
    pub fn poll(&mut self) -> Option<Ended> {
        self.completions.poll().map(|entry| self.ended(entry))
    }

    /// The next end, if there is one; if not the endpoint is turned once, unless another thread does that just now.
    pub fn test(&mut self) -> Option<Ended> {
        self.completions.poll_and_drive().map(|entry| self.ended(entry))
    }

    /// Waits for the next end, so long at most, driving the endpoint meanwhile.
    pub fn wait(&mut self, longest: Option<Duration>) -> Option<Ended> {
        self.completions.wait(longest);
        self.poll()
    }

    /// Before sleeping on [`Endpoint::wake_fd`]: false if there is something to read already.
    pub fn arm(&mut self) -> bool {
        self.completions.arm()
    }

    /// The buffer of an ended request. Given back once; `None` after that, or after success that was not to be told.
    pub fn buffer<B: Buffer>(&self, ended: &Ended) -> Option<B> {
        if !ended.has_memory {
            return None;
        }
        let memory = self.shared.engine.take_memory(ended.request)?;
        let mut buffer = B::from_memory(memory);
        if ended.envelope.is_some() {
            buffer.cut(ended.placed_len);
        }
        Some(buffer)
    }

    fn ended(&self, entry: Entry) -> Ended {
        let blame = || entry.peer.map_or_else(Blame::default, |peer| self.shared.blame(peer));
        let result = match entry.result {
            // A send that was cut short succeeded: it is its receiver that lacks room, and is told so.
            Ok(()) if entry.placed_len < entry.len && entry.kind != Kind::Sent => {
                Err(Error::Truncated { len: entry.len, room: entry.placed_len })
            }
            Ok(()) => Ok(()),
            Err(Trouble::Failed(failure)) => Err(Error::from_failure(failure, blame)),
            Err(Trouble::Refused(error)) => Err(error.into()),
        };
        let peer = entry.peer.map(|id| Peer { id });
        let envelope = peer.filter(|_| entry.kind == Kind::Received).map(|source| Envelope {
            source,
            tag: entry.tag.0,
            immediate: entry.immediate,
            len: entry.len,
        });
        Ended {
            context: entry.context,
            kind: entry.kind,
            peer,
            envelope,
            placed_len: entry.placed_len,
            result,
            at: Duration::from_nanos(entry.at.0),
            request: entry.request,
            has_memory: entry.has_memory,
        }
    }
}
