//! Runs handlers: the only place where they are polled.
//!
//! ```text
//!   run:   streams with news ──▶ start or poll its handler          the engine is not locked: handlers may call it
//!   turn:  a frame arrives ─┬──▶ lend ──▶ poll, frame in hand       locked: only the waiting `receive` goes on, the rest waits
//!                           └──▶ hand over: it begins a stream      locked: its bytes are kept here
//!   run:   those that got what they wanted; new handlers, with the bytes in hand; other news
//! ```

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use packhorse_engine::{Engine, Extract, Extractable, Lender};
use packhorse_link::loan;
use packhorse_proto::{Lending, StreamId, StreamInfo};

use super::handlers::Pool;
use super::reader::Stream;
use super::{Common, Extracted, HandlerPanic, lock};
use crate::endpoint::Peer;

/// News that one extraction sees at most: it returns, however many messages come.
const NEWS_COUNT_MAX: usize = 1 << 16;

/// Bytes that are kept at once of streams that were handed over.
const HANDED_LEN_MAX: usize = 64 << 10;

/// Handlers that something else than their stream has woken.
pub(super) struct Woken {
    engine: Arc<Engine>,
    streams: Mutex<Vec<StreamId>>,
    /// There are some: to know it without the lock.
    is_some: AtomicBool,
    /// A thread sleeps until there are some.
    is_waited_for: AtomicBool,
}

impl Woken {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        let (is_some, is_waited_for) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { engine, streams: Mutex::default(), is_some, is_waited_for }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.is_some.load(Ordering::SeqCst)
    }

    fn push(&self, stream: StreamId) {
        let mut streams = lock(&self.streams);
        streams.push(stream);
        self.is_some.store(true, Ordering::SeqCst);
    }

    fn take(&self, into: &mut Vec<StreamId>) {
        let mut streams = lock(&self.streams);
        std::mem::swap(&mut *streams, into);
        self.is_some.store(false, Ordering::SeqCst);
    }

    /// A thread is about to look whether there are some, and then to sleep.
    pub(super) fn begin_wait(&self) {
        self.is_waited_for.store(true, Ordering::SeqCst);
    }

    /// Relaxed: whoever sees it late knocks in vain.
    pub(super) fn end_wait(&self) {
        self.is_waited_for.store(false, Ordering::Relaxed);
    }
}

/// Wakes one handler after the other: those that use the same place in `Extractor::live`.
struct HandlerWaker {
    stream: AtomicU64,
    is_woken: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for HandlerWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            let stream = StreamId(self.stream.load(Ordering::Acquire));
            self.woken.push(stream);
            if self.woken.is_waited_for.load(Ordering::SeqCst) {
                self.woken.engine.knock();
            }
        }
    }
}

/// A handler under way.
#[derive(Clone, Copy, Debug)]
struct Live {
    stream: StreamId,
    sender: Peer,
    handler: u16,
    /// Which of `Extractor::pools`.
    pool: u32,
    /// Its place there.
    slot: u32,
    /// It came to its end while a frame was lent; what is left is done when the engine is not locked.
    is_over: bool,
}

/// A stream that was handed over, and is to be started.
#[derive(Clone, Copy, Debug)]
struct Handed {
    stream: StreamId,
    info: StreamInfo,
    /// Where its bytes end in `Extractor::handed_bytes`. They begin where those of the one before it end.
    end: usize,
    is_whole: bool,
}

/// A place for a handler, found by its stream's place in the protocol.
struct HandlerPlace {
    live: Option<Live>,
    waker: Waker,
    state: Arc<HandlerWaker>,
}

/// All handlers of an endpoint.
pub(super) struct Extractor {
    engine: Arc<Engine>,
    woken: Arc<Woken>,
    /// By number of the handler: its newest pool.
    newest: Vec<Option<u32>>,
    /// `None` while it is used.
    pools: Vec<Option<Box<dyn Pool>>>,
    places: Vec<HandlerPlace>,
    live_count: usize,
    /// Messages that wait for a handler to end.
    unstarted: VecDeque<(StreamId, StreamInfo)>,
    /// Handlers to poll because of what was lent.
    again: Vec<StreamId>,
    /// Streams that were handed over, in their order, and their bytes.
    handed: Vec<Handed>,
    handed_bytes: Vec<u8>,
    /// So many may be.
    handed_count_max: usize,
    /// Handlers of these streams ended; the engine is told with the next call.
    closed: Vec<StreamId>,
    /// One of them may have left something: the engine is told in this extraction.
    must_tell: bool,
    /// Spare room for `Woken::streams`.
    awake: Vec<StreamId>,
    /// Panics under a loan, for `Common::on_panic`.
    panics: Vec<HandlerPanic>,
}

impl Extractor {
    pub(super) fn new(engine: Arc<Engine>, woken: &Arc<Woken>) -> Self {
        Self {
            engine,
            woken: Arc::clone(woken),
            newest: Vec::new(),
            pools: Vec::new(),
            places: Vec::new(),
            live_count: 0,
            unstarted: VecDeque::new(),
            again: Vec::new(),
            handed: Vec::new(),
            handed_bytes: Vec::new(),
            handed_count_max: 0,
            closed: Vec::new(),
            must_tell: false,
            awake: Vec::new(),
            panics: Vec::new(),
        }
    }

    /// The handler with this number is another from now on.
    pub(super) fn set_pool(&mut self, number: u16, pool: Box<dyn Pool>) {
        let index = usize::from(number);
        if self.newest.len() <= index {
            self.newest.resize(index + 1, None);
        }
        // The old one may have messages under way; if not, its place is free.
        let old = self.newest[index].map(|old| old as usize);
        match old.filter(|&old| self.pools[old].as_ref().is_some_and(|pool| pool.is_empty())) {
            Some(old) => self.pools[old] = Some(pool),
            None => {
                self.pools.push(Some(pool));
                self.newest[index] = Some(self.pools.len() as u32 - 1);
            }
        }
    }

    /// Nothing was put off, and no message waits for a handler to end.
    pub(super) fn is_idle(&self) -> bool {
        self.unstarted.is_empty() && self.again.is_empty() && self.panics.is_empty()
    }

    /// Runs handlers until nothing is left, or the extraction may handle no more. When nothing is left it makes a turn, once,
    /// if it is to, with frames lent to handlers that wait.
    pub(super) fn run(
        self: Box<Self>,
        common: &Common,
        len_max: u64,
        is_turning: bool,
    ) -> (Box<Self>, Extracted) {
        self.go_on(common, Some(len_max), is_turning, None)
    }

    /// Waits for something to run handlers with, so long at most, and runs them. What arrives meanwhile is lent to those that
    /// wait for it.
    pub(super) fn wait(
        mut self: Box<Self>,
        common: &Common,
        len_max: u64,
        longest: Duration,
    ) -> (Box<Self>, Extracted) {
        let engine = &common.engine;
        common.woken.begin_wait();
        let is_woken = || !common.woken.is_empty();
        let closed = self.begin_lending(common);
        let of = (len_max, &closed[..]);
        let (lender, first) = engine.wait_extractable(self, of, Some(longest), is_woken);
        common.woken.end_wait();
        let mut this = own(lender);
        this.closed = emptied(closed);
        this.go_on(common, None, false, first)
    }

    /// It is given away as a lender. The engine is to be told that these are closed.
    fn begin_lending(&mut self, common: &Common) -> Vec<StreamId> {
        let count_max = common.handler_count_max.load(Ordering::Relaxed);
        let is_free = self.unstarted.is_empty();
        self.handed_count_max = if is_free { count_max.saturating_sub(self.live_count) } else { 0 };
        self.take_closed()
    }

    fn take_closed(&mut self) -> Vec<StreamId> {
        self.must_tell = false;
        std::mem::take(&mut self.closed)
    }

    fn go_on(
        mut self: Box<Self>,
        common: &Common,
        begin: Option<u64>,
        is_turning: bool,
        first: Option<Extractable>,
    ) -> (Box<Self>, Extracted) {
        let engine = &common.engine;
        let mut extracted = Extracted::default();
        // What the wait found is all there was.
        let all_len = first.filter(|first| first.is_all).map(|first| first.handled_len);
        if let Some((stream, info)) = first.and_then(|first| first.next) {
            self.on_news(stream, info, common, &mut extracted);
        }
        let (mut begin, mut is_turned, mut news_count) = (begin, !is_turning, 0);
        loop {
            let has_run = self.run_known(common, &mut extracted);
            if let Some((stream, info)) = self.next_unstarted(common) {
                self.on_news(stream, info, common, &mut extracted);
                continue;
            }
            if let Some(handled_len) = all_len.filter(|_| !has_run && self.has_told_all()) {
                extracted.bytes = handled_len;
                return (self, extracted);
            }
            news_count += 1;
            let closed = self.begin_lending(common);
            let extract = Extract {
                begin: begin.take(),
                closed: &closed,
                is_enough: news_count > NEWS_COUNT_MAX,
                is_last: !has_run,
            };
            let found;
            if is_turned {
                found = engine.next_ready_stream(&extract);
            } else {
                let lender;
                (lender, is_turned, found) = engine.next_ready_stream_or_turn(&extract, self);
                self = own(lender);
            }
            self.closed = emptied(closed);
            match found.next {
                Some((stream, info)) => self.on_news(stream, info, common, &mut extracted),
                None if !has_run && !self.has_news() => {
                    extracted.bytes = found.handled_len;
                    return (self, extracted);
                }
                None => {}
            }
        }
    }

    /// Runs what is known to have something to do. True: some ended, so that others may start.
    fn run_known(&mut self, common: &Common, extracted: &mut Extracted) -> bool {
        for panic in self.panics.drain(..) {
            common.on_panic(panic);
        }
        while let Some(stream) = self.again.pop() {
            self.poll(stream, common, extracted);
        }
        if !self.handed.is_empty() {
            self.start_handed(common, extracted);
        }
        self.run_woken(common, extracted)
    }

    /// Nothing is known to be done, and the engine need not hear anything before the next extraction.
    fn has_told_all(&self) -> bool {
        !self.must_tell && !self.has_news() && self.woken.is_empty()
    }

    /// Starts the handlers of streams that were handed over, with the bytes in hand.
    fn start_handed(&mut self, common: &Common, extracted: &mut Extracted) {
        let mut handed = std::mem::take(&mut self.handed);
        let mut bytes = std::mem::take(&mut self.handed_bytes);
        let mut from = 0;
        for Handed { stream, info, end, is_whole } in handed.drain(..) {
            let first = &bytes[from..end];
            from = end;
            if self.may_start(common) {
                self.start(stream, info, Some((first, is_whole)), common, extracted);
            } else {
                self.keep(stream, first);
                self.unstarted.push_back((stream, info));
            }
        }
        bytes.clear();
        (self.handed, self.handed_bytes) = (handed, bytes);
    }

    /// The engine has back what is left of bytes that were handed over.
    fn keep(&mut self, stream: StreamId, rest: &[u8]) {
        self.engine.keep_handed(stream, rest);
        self.must_tell = true; // it may have news now
    }

    fn next_unstarted(&mut self, common: &Common) -> Option<(StreamId, StreamInfo)> {
        if self.unstarted.is_empty() || !self.may_start(common) {
            return None;
        }
        self.unstarted.pop_front()
    }

    fn may_start(&self, common: &Common) -> bool {
        self.live_count < common.handler_count_max.load(Ordering::Relaxed)
    }

    /// Polls those that were woken by now; those that wake themselves meanwhile wait for the next extraction.
    fn run_woken(&mut self, common: &Common, extracted: &mut Extracted) -> bool {
        if self.woken.is_empty() {
            return false;
        }
        let mut awake = std::mem::take(&mut self.awake);
        self.woken.take(&mut awake);
        let mut has_run = false;
        for stream in awake.drain(..) {
            if let Some(place) = self.place_of(stream) {
                place.state.is_woken.store(false, Ordering::Release);
                let before = extracted.ended;
                self.poll(stream, common, extracted);
                has_run |= extracted.ended > before;
            }
        }
        self.awake = awake;
        has_run
    }

    fn place_of(&mut self, stream: StreamId) -> Option<&mut HandlerPlace> {
        let place = self.places.get_mut(stream.0 as u32 as usize)?;
        place.live.is_some_and(|live| live.stream == stream).then_some(place)
    }

    fn on_news(
        &mut self,
        stream: StreamId,
        info: StreamInfo,
        common: &Common,
        extracted: &mut Extracted,
    ) {
        if self.place_of(stream).is_some() {
            self.poll(stream, common, extracted);
        } else if self.may_start(common) {
            self.start(stream, info, None, common, extracted);
        } else if !self.unstarted.iter().any(|&(other, _)| other == stream) {
            self.unstarted.push_back((stream, info));
        }
    }

    fn start(
        &mut self,
        stream: StreamId,
        info: StreamInfo,
        handed: Option<(&[u8], bool)>,
        common: &Common,
        extracted: &mut Extracted,
    ) {
        common.take_registered(self); // a handler may have registered another
        let StreamInfo { source, handler } = info;
        let Some(pool) = self.newest.get(usize::from(handler)).copied().flatten() else {
            common.count_unhandled();
            self.engine.close_stream(stream);
            return;
        };
        let sender = Peer { id: source };
        let reader = Stream::new(Arc::clone(&self.engine), stream, sender);
        let Some(futures) = &mut self.pools[pool as usize] else { return };
        let slot = match catch_unwind(AssertUnwindSafe(|| futures.start(sender, reader))) {
            Ok(slot) => slot,
            Err(panic) => {
                common.on_panic(HandlerPanic { sender, handler, what: what_of(&*panic) });
                self.engine.close_stream(stream);
                return;
            }
        };
        extracted.started += 1;
        self.live_count += 1;
        let live = Live { stream, sender, handler, pool, slot, is_over: false };
        self.put(live);
        match handed {
            Some(handed) => self.poll_handed(live, handed, common, extracted),
            None => self.poll(stream, common, extracted),
        }
    }

    /// Polls a new handler with the first bytes of its stream in hand. What it does not take the engine has back.
    fn poll_handed(
        &mut self,
        live: Live,
        (bytes, is_whole): (&[u8], bool),
        common: &Common,
        extracted: &mut Extracted,
    ) {
        let mut polled = Ok(Poll::Pending);
        let taken_len = loan::hand_over(live.stream.0, bytes, is_whole, || {
            polled = self.poll_future(live);
        });
        match polled {
            Ok(Poll::Pending) => return self.keep(live.stream, &bytes[taken_len..]),
            Ok(Poll::Ready(())) => {}
            Err(panic) => common.on_panic(panic),
        }
        self.end(live, is_whole, common);
        extracted.ended += 1;
    }

    fn put(&mut self, live: Live) {
        let index = live.stream.0 as u32 as usize;
        while self.places.len() <= index {
            let state = Arc::new(HandlerWaker {
                stream: AtomicU64::new(0),
                is_woken: AtomicBool::new(false),
                woken: Arc::clone(&self.woken),
            });
            self.places.push(HandlerPlace {
                live: None,
                waker: Waker::from(Arc::clone(&state)),
                state,
            });
        }
        let place = &mut self.places[index];
        place.state.stream.store(live.stream.0, Ordering::Release);
        place.state.is_woken.store(false, Ordering::Release);
        place.live = Some(live);
    }

    fn poll(&mut self, stream: StreamId, common: &Common, extracted: &mut Extracted) {
        let Some(live) = self.place_of(stream).and_then(|place| place.live) else { return };
        let is_over = live.is_over
            || match self.poll_future(live) {
                Ok(poll) => poll.is_ready(),
                Err(panic) => {
                    common.on_panic(panic);
                    true
                }
            };
        if is_over {
            self.end(live, false, common);
            extracted.ended += 1;
        }
    }

    fn poll_future(&mut self, live: Live) -> Result<Poll<()>, HandlerPanic> {
        let waker = &self.places[live.stream.0 as u32 as usize].waker;
        let mut context = Context::from_waker(waker);
        let pool = self.pools[live.pool as usize].as_mut().expect("in use");
        let polled = catch_unwind(AssertUnwindSafe(|| pool.poll(live.slot, &mut context)));
        polled.map_err(|panic| {
            let Live { sender, handler, .. } = live;
            HandlerPanic { sender, handler, what: what_of(&*panic) }
        })
    }

    /// The handler is over: what it owns goes, and what it left of its message. `is_whole`: the engine has nothing of that.
    fn end(&mut self, live: Live, is_whole: bool, common: &Common) {
        let Live { stream, sender, handler, pool, slot, .. } = live;
        self.places[stream.0 as u32 as usize].live = None;
        self.live_count -= 1;
        let pool = self.pools[pool as usize].as_mut().expect("in use");
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| pool.end(slot))) {
            common.on_panic(HandlerPanic { sender, handler, what: what_of(&*panic) });
        }
        // With the next call of the engine: one lock less. But of those of which it has something only one waits for that: their senders may need the room.
        if is_whole || !std::mem::replace(&mut self.must_tell, true) {
            self.closed.push(stream);
        } else {
            self.engine.close_stream(stream);
        }
    }
}

/// A list without its items, to be filled again.
fn emptied<T>(mut list: Vec<T>) -> Vec<T> {
    list.clear();
    list
}

/// The lender that was given away.
fn own(lender: Box<dyn Lender>) -> Box<Extractor> {
    let lender: Box<dyn Any> = lender;
    lender.downcast().expect("the engine gives back what it was given")
}

impl Lender for Extractor {
    fn lend(&mut self, stream: StreamId, bytes: &[u8]) -> Lending {
        let live = self.place_of(stream).and_then(|place| place.live);
        let Some(live) = live.filter(|live| !live.is_over) else {
            return Lending { taken_len: 0, is_waiting: false };
        };
        let mut is_over = false;
        let mut panic = None;
        let repaid = loan::lend(stream.0, bytes, || match self.poll_future(live) {
            Ok(poll) => is_over = poll.is_ready(),
            Err(what) => {
                is_over = true;
                panic = Some(what);
            }
        });
        self.panics.extend(panic);
        if is_over && let Some(HandlerPlace { live: Some(live), .. }) = self.place_of(stream) {
            live.is_over = true;
        }
        if is_over || repaid.wants_poll {
            self.again.push(stream);
        }
        Lending { taken_len: repaid.taken_len, is_waiting: repaid.is_waiting && !is_over }
    }

    fn hand_over(
        &mut self,
        stream: StreamId,
        info: StreamInfo,
        bytes: &[u8],
        is_whole: bool,
    ) -> bool {
        let end = self.handed_bytes.len() + bytes.len();
        let is_taken = self.handed.len() < self.handed_count_max && end <= HANDED_LEN_MAX;
        if is_taken {
            self.handed_bytes.extend_from_slice(bytes);
            self.handed.push(Handed { stream, info, end, is_whole });
        }
        is_taken
    }

    fn has_news(&self) -> bool {
        !self.again.is_empty() || !self.handed.is_empty() || !self.panics.is_empty()
    }
}

/// What a panic said.
fn what_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panicked".into())
}
