//! Messages from and to slices the caller keeps.
//!
//! The engine owns the memory of a request until it ends. A scope makes that true for borrowed memory: on its way out, by
//! return or by panic, it cancels what is still pending, and a cancelled request has given its memory back when `cancel`
//! returns. What the closure leaks or forgets does not matter: the scope itself keeps the list.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::time::Duration;

use packhorse_engine::{Completion, Outcome, RequestId};
use packhorse_link::mem::Memory;

use crate::endpoint::{Endpoint, Peer, SendOptions, once};
use crate::error::{Blame, Error};
use crate::wanted::{Envelope, Wanted};

/// Inside [`Endpoint::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    endpoint: &'scope Endpoint,
    open: RefCell<Vec<RequestId>>,
    // Invariant in both, as for scoped threads: a longer or shorter borrow must not pass for this one.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Ends what is open even if the closure panics.
struct Guard<'a, 'scope, 'env>(&'a Scope<'scope, 'env>);

impl Drop for Guard<'_, '_, '_> {
    fn drop(&mut self) {
        for id in self.0.open.borrow_mut().drain(..) {
            let engine = &self.0.endpoint.shared.engine;
            engine.cancel(id);
            // A send cannot always be cancelled (it may have been matched): it is waited for, and ends by acceptance or by
            // the peer's end. Without that the memory could not be given back.
            while engine.wait(id, Some(Duration::from_secs(1))).is_none() && !engine.is_over(id) {}
        }
    }
}

impl Endpoint {
    /// Sends from and receives into borrowed slices. What is pending when the closure ends is cancelled.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use packhorse::{Endpoint, Wanted};
    /// let (a, b) = (Endpoint::local()?, Endpoint::local()?);
    /// let to_b = a.peer(&b.address())?;
    /// let mut space = [0; 5];
    /// b.scope(|scope| {
    ///     let coming = scope.recv(Wanted::tag(1), &mut space);
    ///     a.send(to_b, 1, b"hello".to_vec()).wait()?;
    ///     coming.wait()
    /// })?;
    /// assert_eq!(&space, b"hello");
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<'env, R>(
        &self,
        f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> R {
        let scope = Scope {
            endpoint: self,
            open: RefCell::default(),
            scope: PhantomData,
            env: PhantomData,
        };
        let guard = Guard(&scope);
        let result = f(guard.0);
        drop(guard);
        result
    }
}

/// A send of a scope.
#[must_use = "a request can be waited for; what is pending when the scope ends is cancelled"]
pub struct ScopedSending<'scope> {
    endpoint: &'scope Endpoint,
    posted: Result<RequestId, Option<Error>>,
}

/// A receive of a scope.
#[must_use = "a request can be waited for; what is pending when the scope ends is cancelled"]
pub struct ScopedReceiving<'scope> {
    endpoint: &'scope Endpoint,
    posted: Result<RequestId, Option<Error>>,
    room: u64,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    fn keep(&self, id: RequestId) {
        let mut open = self.open.borrow_mut();
        if open.len() >= 64 && open.len().is_power_of_two() {
            open.retain(|&id| !self.endpoint.shared.engine.is_over(id));
        }
        open.push(id);
    }

    /// Sends these bytes.
    pub fn send(&'scope self, peer: Peer, tag: u64, bytes: &'env [u8]) -> ScopedSending<'scope> {
        self.send_with(peer, tag, &[bytes], SendOptions::default())
    }

    /// Sends these pieces as one message.
    pub fn send_with(
        &'scope self,
        peer: Peer,
        tag: u64,
        pieces: &[&'env [u8]],
        options: SendOptions,
    ) -> ScopedSending<'scope> {
        let raw: Vec<_> =
            pieces.iter().map(|piece| (piece.as_ptr().cast_mut(), piece.len())).collect();
        // SAFETY: the bytes are borrowed for 'env, which outlives the scope; `Guard` sees to it that the request has ended, and
        // its memory with it, before the scope is left. They are shared, and only read.
        let memory = unsafe { Memory::borrowed(&raw, false) };
        let posted = crate::endpoint::check_segments(&memory).and_then(|()| {
            let send = crate::endpoint::spec(peer, tag, options);
            self.endpoint.shared.engine.send(send, memory).map_err(|refused| refused.error.into())
        });
        if let Ok(id) = posted {
            self.keep(id);
        }
        ScopedSending { endpoint: self.endpoint, posted: posted.map_err(Some) }
    }

    /// Receives into these bytes.
    pub fn recv(&'scope self, wanted: Wanted, bytes: &'env mut [u8]) -> ScopedReceiving<'scope> {
        self.recv_scattered(wanted, &mut [bytes])
    }

    /// Receives into these pieces, in order.
    pub fn recv_scattered(
        &'scope self,
        wanted: Wanted,
        pieces: &mut [&'env mut [u8]],
    ) -> ScopedReceiving<'scope> {
        let raw: Vec<_> =
            pieces.iter_mut().map(|piece| (piece.as_mut_ptr(), piece.len())).collect();
        let room = raw.iter().map(|&(_, len)| len as u64).sum();
        // SAFETY: as above; and the bytes are borrowed exclusively for 'env, so nobody reads or writes them meanwhile.
        let memory = unsafe { Memory::borrowed(&raw, true) };
        let posted = crate::endpoint::check_segments(&memory).and_then(|()| {
            let recv = once(wanted);
            self.endpoint.shared.engine.recv(recv, memory).map_err(|refused| refused.error.into())
        });
        if let Ok(id) = posted {
            self.keep(id);
        }
        ScopedReceiving { endpoint: self.endpoint, posted: posted.map_err(Some), room }
    }
}

/// What came of it, or why it was not posted.
fn wait(
    endpoint: &Endpoint,
    posted: &mut Result<RequestId, Option<Error>>,
) -> Result<Completion, Error> {
    match posted {
        Ok(id) => endpoint.shared.engine.wait(*id, None).ok_or(Error::Closed),
        Err(error) => Err(error.take().unwrap_or(Error::Closed)),
    }
}

impl ScopedSending<'_> {
    /// Waits for the end.
    pub fn wait(mut self) -> Result<(), Error> {
        let completion = wait(self.endpoint, &mut self.posted)?;
        match completion.outcome {
            Outcome::Sent { result: Ok(()), .. } => Ok(()),
            Outcome::Sent { peer, result: Err(failure), .. } => {
                Err(Error::from_failure(failure, || self.endpoint.shared.blame(peer)))
            }
            Outcome::Refused { error } => Err(error.into()),
            _ => Err(Error::Closed),
        }
    }
}

impl ScopedReceiving<'_> {
    /// Waits for the end: the message's envelope; its bytes are where they were wanted.
    pub fn wait(mut self) -> Result<Envelope, Error> {
        let completion = wait(self.endpoint, &mut self.posted)?;
        let name = |peer| self.endpoint.shared.blame(peer);
        match completion.outcome {
            Outcome::Received { envelope, result: Err(failure), .. } => {
                Err(Error::from_failure(failure, || name(envelope.source)))
            }
            Outcome::Received { envelope, placed_len, .. } if placed_len < envelope.len => {
                Err(Error::Truncated { len: envelope.len, room: self.room })
            }
            Outcome::Received { envelope, .. } => Ok(envelope.into()),
            Outcome::Unlinked { source, failure: Some(failure) } => {
                Err(Error::from_failure(failure, || source.map_or_else(Blame::default, name)))
            }
            Outcome::Refused { error } => Err(error.into()),
            _ => Err(Error::Closed),
        }
    }
}
