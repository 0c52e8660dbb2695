//! Streams: messages handed over piece by piece (Fast Messages).
//!
//! A message goes to a *handler* of a peer. Its sender gives it in pieces, of any size and number, and need not know how long it
//! will be; pieces leave as frames fill. At its receiver each message has a logical thread of its own: the handler, an async
//! function, which takes the message apart in pieces of *its* choice and is set aside whenever it has to wait for more.
//!
//! ```
//! use packhorse::Endpoint;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (a, b) = (Endpoint::local()?, Endpoint::local()?);
//! let to_b = a.peer(&b.address())?;
//!
//! let (told, ended) = std::sync::mpsc::channel();
//! b.streams().register(7, move |_sender, mut stream| {
//!     let told = told.clone();
//!     async move {
//!         let mut header = [0; 4]; // first the header, which says where the payload is to go …
//!         stream.receive(&mut header).await.unwrap();
//!         let mut payload = vec![0; u32::from_le_bytes(header) as usize];
//!         stream.receive(&mut payload).await.unwrap(); // … then the payload, straight to its place
//!         told.send(payload).unwrap();
//!     }
//! });
//!
//! let mut message = a.streams().begin(to_b, 7)?;
//! message.send(&9_u32.to_le_bytes())?;
//! message.send(b"nine ")?;
//! message.send(b"byte")?;
//! message.end()?;
//!
//! // Handlers run in here and nowhere else; the application says when, and how much.
//! let payload = loop {
//!     b.streams().extract(usize::MAX)?;
//!     match ended.try_recv() {
//!         Ok(payload) => break payload,
//!         Err(_) => continue,
//!     }
//! };
//! assert_eq!(payload, b"nine byte");
//! # Ok(())
//! # }
//! ```
//!
//! # Who waits for whom
//!
//! Sending never runs a handler and never extracts. What arrives and was not extracted is held, of each sender up to
//! [`Limits::stream_len_max`](crate::Limits); then that sender waits, and only that one. A handler that waits for something else
//! than its stream is set aside like any other, and its sender with it.
//!
//! Messages between two endpoints start their handlers in the order they were begun. Handlers of many messages, of one sender or
//! of many, are under way at once.
//!
//! # Copies
//!
//! A `receive` that waits when its bytes arrive, in a turn that [`Streams::extract`] makes, gets them straight from the frame: the
//! handler is polled with the frame in hand (counter `stream_bytes_lent`). What comes earlier is held meanwhile (counter
//! `stream_bytes_held`).
//!
//! At the sender a piece is copied into frames-to-be, because it is its owner's again when `send` returns; of a long one (512 KB)
//! only the end is, and [`Message::send`] returns when the rest was accepted. A receiver on the same host reads a long one where it is, straight to where
//! its handler wants it (counter `stream_bytes_read`), and `send` returns when all was read; a receiver that does something else than to extract
//! meanwhile has it sent instead.

mod extractor;
mod handlers;
mod lent;
mod message;
mod reader;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use packhorse_engine::Engine;
use packhorse_link::loan;

use crate::endpoint::{Endpoint, Peer};
use crate::error::Error;

use extractor::Extractor;
use handlers::{Pool, TypedPool};
pub use message::{Message, SendPiece};
pub use reader::{Receive, Skip, Stream};

/// Panics of handlers that are remembered until somebody asks.
const PANIC_COUNT_MAX: usize = 64;
/// What one extraction handles at most: it returns, however much comes.
const EXTRACTED_LEN_MAX: u64 = 16 << 20;
/// Handlers that may be under way at once, unless told otherwise.
const HANDLER_COUNT_MAX: usize = 1 << 16;

/// A handler that panicked. Its message was thrown away, nothing else was touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerPanic {
    /// Whose message it was.
    pub sender: Peer,
    /// The handler.
    pub handler: u16,
    /// What it said.
    pub what: String,
}

/// What an extraction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    /// Bytes that were handled: packets that handlers began to read, each counted whole.
    pub bytes: u64,
    /// Handlers that were started.
    pub started: usize,
    /// Handlers that came to their end, well or not.
    pub ended: usize,
}

impl Extracted {
    /// Nothing happened.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What all handles of an endpoint's streams share.
pub(crate) struct Common {
    pub(crate) engine: Arc<Engine>,
    /// Out while an extraction is under way.
    extractor: Mutex<Option<Box<Extractor>>>,
    /// The thread that extracts, or 0.
    extracting: AtomicUsize,
    /// Handlers that were registered since the last extraction.
    registered: Mutex<Vec<(u16, Box<dyn Pool>)>>,
    has_registered: AtomicBool,
    woken: Arc<extractor::Woken>,
    panics: Mutex<VecDeque<HandlerPanic>>,
    /// Messages for handlers that nobody registered.
    unhandled_count: AtomicU64,
    handler_count_max: AtomicUsize,
}

impl Common {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        let woken = Arc::new(extractor::Woken::new(Arc::clone(&engine)));
        Self {
            extractor: Mutex::new(Some(Box::new(Extractor::new(Arc::clone(&engine), &woken)))),
            extracting: AtomicUsize::new(0),
            registered: Mutex::default(),
            has_registered: AtomicBool::new(false),
            woken,
            panics: Mutex::default(),
            unhandled_count: AtomicU64::new(0),
            handler_count_max: AtomicUsize::new(HANDLER_COUNT_MAX),
            engine,
        }
    }

    /// Drops all handlers: they may hold handles of the endpoint.
    pub(crate) fn clear(&self) {
        drop(lock(&self.extractor).take());
        lock(&self.registered).clear();
    }

    pub(crate) fn on_panic(&self, panic: HandlerPanic) {
        let mut panics = lock(&self.panics);
        if panics.len() == PANIC_COUNT_MAX {
            panics.pop_front();
        }
        panics.push_back(panic);
    }

    pub(crate) fn count_unhandled(&self) {
        self.unhandled_count.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn take_registered(&self, extractor: &mut Extractor) {
        if self.has_registered.load(Ordering::Relaxed)
            && self.has_registered.swap(false, Ordering::Acquire)
        {
            for (number, pool) in lock(&self.registered).drain(..) {
                extractor.set_pool(number, pool);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks this thread as the one that extracts, until dropped.
struct Extracting<'a> {
    common: &'a Common,
    extractor: MutexGuard<'a, Option<Box<Extractor>>>,
}

impl<'a> Extracting<'a> {
    fn enter(common: &'a Common) -> Result<Self, Error> {
        let this_thread = loan::this_thread();
        if common.extracting.load(Ordering::Relaxed) == this_thread {
            return Err(Error::InHandler);
        }
        let extractor = lock(&common.extractor);
        common.extracting.store(this_thread, Ordering::Relaxed);
        Ok(Self { common, extractor })
    }

    /// Runs handlers with what is here, and after a turn, if it is to make one, with what came.
    fn run(&mut self, bytes_max: usize, is_turning: bool) -> Result<Extracted, Error> {
        let mut extractor = self.extractor.take().ok_or(Error::Closed)?;
        self.common.take_registered(&mut extractor);
        let len_max = (bytes_max as u64).min(EXTRACTED_LEN_MAX);
        let (extractor, extracted) = extractor.run(self.common, len_max, is_turning);
        *self.extractor = Some(extractor);
        Ok(extracted)
    }

    /// Whether only the engine can have something to run handlers with.
    fn is_idle(&self) -> bool {
        self.extractor.as_ref().is_some_and(|extractor| extractor.is_idle())
    }

    /// Waits until there is something to run handlers with. They are lent what arrives meanwhile.
    fn wait(&mut self, bytes_max: usize, longest: Duration) -> Result<Extracted, Error> {
        let mut extractor = self.extractor.take().ok_or(Error::Closed)?;
        self.common.take_registered(&mut extractor);
        let len_max = (bytes_max as u64).min(EXTRACTED_LEN_MAX);
        let (extractor, extracted) = extractor.wait(self.common, len_max, longest);
        *self.extractor = Some(extractor);
        Ok(extracted)
    }
}

impl Drop for Extracting<'_> {
    fn drop(&mut self) {
        self.common.extracting.store(0, Ordering::Relaxed);
    }
}

/// The streams of an endpoint ([`Endpoint::streams`]).
#[derive(Clone)]
pub struct Streams {
    endpoint: Endpoint,
    common: Arc<Common>,
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Streams {
    pub(crate) fn new(endpoint: Endpoint, common: Arc<Common>) -> Self {
        Self { endpoint, common }
    }

    /// Registers the handler with this number: an async function of the sender and the message. It replaces an earlier one for
    /// messages that start from now on; those under way go on as they began.
    ///
    /// A handler that owns a handle of its own endpoint keeps it alive until the endpoint is closed; to begin messages inside a
    /// handler use [`Stream::begin`].
    pub fn register<F, Fut>(&self, number: u16, handler: F)
    where
        F: FnMut(Peer, Stream) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let pool = Box::new(TypedPool::new(handler));
        lock(&self.common.registered).push((number, pool));
        self.common.has_registered.store(true, Ordering::Release);
    }

    /// Begins a message to a handler of a peer.
    pub fn begin(&self, peer: Peer, handler: u16) -> Result<Message, Error> {
        Message::begin(&self.common.engine, peer, handler)
    }

    /// Sends a whole message: begins it, sends these pieces, ends it. Cheaper than one call for each.
    pub fn send(&self, peer: Peer, handler: u16, pieces: &[&[u8]]) -> Result<(), Error> {
        message::send_whole(&self.common.engine, peer, handler, pieces)
    }

    /// Runs handlers with what is here, and makes one turn for what arrives. Handles at most `bytes_max` bytes, rounded up to
    /// a packet, and returns; what is left waits for the next call. It returns though messages keep coming: one extraction
    /// handles 16 MB and 65 536 news at most, whatever was asked for. Inside a handler it is [`Error::InHandler`].
    pub fn extract(&self, bytes_max: usize) -> Result<Extracted, Error> {
        let mut extracting = Extracting::enter(&self.common)?;
        extracting.run(bytes_max, true)
    }

    /// Waits until there is something to extract, so long at most, and extracts it.
    pub fn extract_wait(&self, bytes_max: usize, longest: Duration) -> Result<Extracted, Error> {
        let mut extracting = Extracting::enter(&self.common)?;
        if !extracting.is_idle() {
            let extracted = extracting.run(bytes_max, false)?; // the wait makes its own turns
            if !extracted.is_nothing() {
                return Ok(extracted);
            }
        }
        extracting.wait(bytes_max, longest)
    }

    /// Ends when there is something to extract: for tasks of an executor that extract.
    pub async fn extractable(&self) {
        std::future::poll_fn(|context| self.common.engine.poll_extractable(context)).await;
    }

    /// Waits until every message that was ended has left, so long at most; true if all have. They leave by themselves when
    /// there is credit, but not from an endpoint that is closed.
    pub fn drain(&self, longest: Duration) -> bool {
        self.common.engine.drain_streams(longest)
    }

    /// Handlers that panicked since this was asked last, the latest 64.
    pub fn take_panics(&self) -> Vec<HandlerPanic> {
        lock(&self.common.panics).drain(..).collect()
    }

    /// Messages that were thrown away because nobody had registered their handler.
    pub fn unhandled_count(&self) -> u64 {
        self.common.unhandled_count.load(Ordering::Relaxed)
    }

    /// At most so many handlers are under way at once; messages beyond wait to start, and count as not extracted.
    pub fn set_handler_count_max(&self, count_max: usize) {
        self.common.handler_count_max.store(count_max.max(1), Ordering::Relaxed);
    }
}
