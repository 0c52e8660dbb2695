//! Requests: sends and receives that can be waited for, asked, awaited, cancelled, dropped.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use packhorse_engine::{Completion, Outcome, RequestId};

use crate::buffer::Buffer;
use crate::endpoint::Shared;
use crate::error::{Blame, Error, Failed};
use crate::wanted::Envelope;

/// The end of a receive.
#[derive(Debug)]
pub struct Received<B> {
    /// What the message says of itself.
    pub envelope: Envelope,
    /// The buffer, cut to what was received.
    pub buffer: B,
}

/// A request and what is known of it.
enum State {
    Open {
        shared: Arc<Shared>,
        id: RequestId,
    },
    /// It could not be posted.
    Refused(Error, Option<packhorse_link::mem::Memory>),
    /// Its end was taken.
    Over,
}

/// What both kinds have in common.
struct Request {
    state: State,
    is_receive: bool,
}

impl Request {
    fn id(&self) -> Option<RequestId> {
        match &self.state {
            State::Open { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// Marks it as over; what it was.
    fn finish(&mut self) -> Option<Arc<Shared>> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Open { shared, .. } => Some(shared),
            _ => None,
        }
    }

    fn take_refusal<B: Buffer>(&mut self) -> Option<Failed<B>> {
        match &self.state {
            State::Open { shared, .. } if shared.engine.is_here() => return None,
            State::Open { .. } => {
                std::mem::forget(self.finish()); // it is the parent's
                return Some(Failed { error: Error::Inherited, buffer: None });
            }
            State::Over => return None,
            State::Refused(..) => {}
        }
        match std::mem::replace(&mut self.state, State::Over) {
            State::Refused(error, memory) => {
                Some(Failed { error, buffer: memory.map(B::from_memory) })
            }
            _ => None,
        }
    }

    fn cancel(&self) -> bool {
        match &self.state {
            State::Open { shared, id } => shared.engine.cancel(*id),
            _ => false,
        }
    }

    fn test(&self) -> Option<Completion> {
        match &self.state {
            State::Open { shared, id } => shared.engine.test(*id),
            _ => None,
        }
    }

    fn wait(&self, longest: Option<Duration>) -> Option<Completion> {
        match &self.state {
            State::Open { shared, id } => shared.engine.wait(*id, longest),
            _ => None,
        }
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Completion> {
        match &self.state {
            State::Open { shared, id } => shared.engine.poll(*id, context),
            _ => Poll::Pending,
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let State::Open { shared, id } = &self.state {
            shared.engine.abandon(*id, self.is_receive);
        }
    }
}

macro_rules! request {
    ($(#[$doc:meta])* $name:ident, $output:ty) => {
        $(#[$doc])*
        #[must_use = "a request can be waited for; a dropped receive is cancelled"]
        pub struct $name<B: Buffer> {
            request: Request,
            buffer: PhantomData<fn() -> B>,
        }

        impl<B: Buffer> std::fmt::Debug for $name<B> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.request.id()).finish()
            }
        }

        impl<B: Buffer> $name<B> {
            pub(crate) fn open(shared: &Arc<Shared>, id: RequestId) -> Self {
                Self::with(State::Open { shared: Arc::clone(shared), id })
            }

            pub(crate) fn refused(error: Error, memory: Option<packhorse_link::mem::Memory>) -> Self {
                Self::with(State::Refused(error, memory))
            }

            fn with(state: State) -> Self {
                let is_receive = Self::IS_RECEIVE;
                Self { request: Request { state, is_receive }, buffer: PhantomData }
            }

            /// Waits for the end, driving the endpoint meanwhile.
            pub fn wait(mut self) -> Result<$output, Failed<B>> {
                if let Some(failed) = self.request.take_refusal() {
                    return Err(failed);
                }
                match self.request.wait(None) {
                    Some(completion) => self.conclude(completion),
                    None => Err(Failed { error: Error::Closed, buffer: None }),
                }
            }

            /// Waits so long at most; `None` if it has not ended by then. Then it goes on.
            pub fn wait_timeout(&mut self, longest: Duration) -> Option<Result<$output, Failed<B>>> {
                if let Some(failed) = self.request.take_refusal() {
                    return Some(Err(failed));
                }
                let completion = self.request.wait(Some(longest))?;
                Some(self.conclude(completion))
            }

            /// The end, if it has come; the endpoint is turned once.
            pub fn test(&mut self) -> Option<Result<$output, Failed<B>>> {
                if let Some(failed) = self.request.take_refusal() {
                    return Some(Err(failed));
                }
                let completion = self.request.test()?;
                Some(self.conclude(completion))
            }

            /// Cancels it; it ends at once, with [`Error::Cancelled`]. False if it had ended before.
            pub fn cancel(&self) -> bool {
                self.request.cancel()
            }
        }

        impl<B: Buffer> Future for $name<B> {
            type Output = Result<$output, Failed<B>>;

            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                if let Some(failed) = self.request.take_refusal() {
                    return Poll::Ready(Err(failed));
                }
                self.request.poll(context).map(|completion| self.conclude(completion))
            }
        }
    };
}

request! {
    /// A message on its way. Ends when the peer's engine has accepted it, or when a receive took it
    /// ([`SendOptions::until_matched`](crate::SendOptions)). Gives its buffer back.
    Sending, B
}

request! {
    /// A receive that is posted. Gives its buffer back, with the message in it.
    Receiving, Received<B>
}

request! {
    /// Bytes on their way into a peer's memory, or an atomic operation there. Ends when it is done there. Gives its buffer back.
    Putting, B
}

request! {
    /// Bytes on their way out of a peer's memory. Gives its buffer back, with the bytes in it.
    Getting, B
}

impl<B: Buffer> Putting<B> {
    const IS_RECEIVE: bool = false;

    fn conclude(&mut self, completion: Completion) -> Result<B, Failed<B>> {
        conclude_operation(self.request.finish(), completion)
    }
}

impl<B: Buffer> Getting<B> {
    const IS_RECEIVE: bool = true;

    fn conclude(&mut self, completion: Completion) -> Result<B, Failed<B>> {
        conclude_operation(self.request.finish(), completion)
    }
}

fn conclude_operation<B: Buffer>(
    shared: Option<Arc<Shared>>,
    completion: Completion,
) -> Result<B, Failed<B>> {
    let buffer = completion.memory.map(B::from_memory);
    let error = match completion.outcome {
        Outcome::Operated { result: Ok(()), .. } => {
            // What had no memory (an atomic operation that fetches nothing) gives none back.
            return Ok(buffer.unwrap_or_else(|| B::from_memory(Vec::<u8>::new().into())));
        }
        Outcome::Operated { peer, result: Err(failure), .. } => {
            Error::from_failure(failure, || blame(shared, peer))
        }
        Outcome::Unlinked { failure: Some(failure), .. } => {
            Error::from_failure(failure, String::new)
        }
        _ => Error::Closed,
    };
    Err(Failed { error, buffer })
}

impl<B: Buffer> Sending<B> {
    const IS_RECEIVE: bool = false;

    fn conclude(&mut self, completion: Completion) -> Result<B, Failed<B>> {
        let shared = self.request.finish();
        let buffer = completion.memory.map(B::from_memory);
        let error = match (completion.outcome, buffer) {
            (Outcome::Sent { result: Ok(()), .. }, Some(buffer)) => return Ok(buffer),
            (Outcome::Sent { peer, result: Err(failure), .. }, buffer) => {
                let error = Error::from_failure(failure, || blame(shared, peer));
                return Err(Failed { error, buffer });
            }
            (Outcome::Unlinked { failure: Some(failure), .. }, buffer) => {
                let error = Error::from_failure(failure, String::new);
                return Err(Failed { error, buffer });
            }
            (Outcome::Refused { error }, buffer) => {
                return Err(Failed { error: error.into(), buffer });
            }
            _ => Error::Closed,
        };
        Err(Failed { error, buffer: None })
    }
}

impl<B: Buffer> Receiving<B> {
    const IS_RECEIVE: bool = true;

    fn conclude(&mut self, completion: Completion) -> Result<Received<B>, Failed<B>> {
        let shared = self.request.finish();
        let room = completion.memory.as_ref().map_or(0, packhorse_link::mem::Memory::len);
        let mut buffer = completion.memory.map(B::from_memory);
        let error = match completion.outcome {
            Outcome::Received { envelope, placed_len, result } => {
                if let Some(buffer) = &mut buffer {
                    buffer.cut(placed_len);
                }
                let is_whole = placed_len == envelope.len;
                match (result, buffer) {
                    (Ok(()), Some(buffer)) if is_whole => {
                        return Ok(Received { envelope: envelope.into(), buffer });
                    }
                    (Ok(()), back) => {
                        let error = Error::Truncated { len: envelope.len, room };
                        return Err(Failed { error, buffer: back });
                    }
                    (Err(failure), back) => {
                        let error = Error::from_failure(failure, || blame(shared, envelope.source));
                        return Err(Failed { error, buffer: back });
                    }
                }
            }
            Outcome::Unlinked { source, failure: Some(failure) } => {
                Error::from_failure(failure, || {
                    source.map_or_else(Blame::default, |peer| blame(shared, peer))
                })
            }
            Outcome::Refused { error } => error.into(),
            _ => Error::Closed,
        };
        Err(Failed { error, buffer })
    }
}

fn blame(shared: Option<Arc<Shared>>, peer: packhorse_proto::PeerId) -> Blame {
    shared.map_or_else(Blame::default, |shared| shared.blame(peer))
}
