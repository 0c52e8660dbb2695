//! Peers that were entered as places: they are looked up beside the application, and what is posted to them meanwhile waits.
//!
//! ```text
//!   fi_av_insert ──▶ Sought, asked for at once ──▶ found: what waits is posted, in its order; from then on a peer as any other
//!   fi_send … ─────▶ waits behind what waits ────▶ not found: an error entry each, which names host and number; the next post asks again
//! ```
//!
//! No call waits for an answer, but the close of an endpoint that has sends among what waits. Questions are asked by a few threads
//! of the process, which end when there are no more.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use packhorse::raw::{PeerId, with_signals_blocked};
use packhorse::{Address, Error};

use crate::abi::flag;
use crate::cq::{Done, Trouble};
use crate::errors;
use crate::log::{Level, Subsystem, say};
use crate::op::Op;
use crate::place::Place;
use crate::port::{Port, lock};

/// Places that are asked for at the same time; a host that is silent keeps one of these busy for 5 s.
const THREAD_COUNT_MAX: usize = 16;
/// So long an endpoint that closes waits for answers: somewhat longer than a host that is silent takes.
const CLOSE_WAIT: Duration = Duration::from_secs(6);

/// What posts an operation, once there is somebody to post it to.
type Post = dyn FnOnce(&Port, PeerId, Op) -> isize + Send;

/// An operation that waits for its peer.
struct Later {
    op: Op,
    post: Box<Post>,
}

/// A place that is not found yet.
struct Sought {
    place: Place,
    /// Told from an earlier one with the same number.
    serial: u64,
    /// A question is under way, or waits for a thread.
    is_asked: bool,
    waiting: VecDeque<Later>,
}

/// The places of an endpoint that are not found yet.
#[derive(Default)]
pub(crate) struct Search {
    sought: Mutex<State>,
    /// Something was found, or was not.
    changed: Condvar,
    pub(crate) desk: Arc<Desk>,
}

#[derive(Default)]
struct State {
    by_number: HashMap<u64, Sought>,
    serial: u64,
}

/// Where answers are handed in. They are as long as the endpoint is open: who has the lock has the endpoint, and gives it back before the
/// lock, so that what the endpoint was bound to is free when it is closed.
#[derive(Default)]
pub(crate) struct Desk(Mutex<Weak<Port>>);

impl Desk {
    /// Does something with the endpoint, if it is open.
    pub(crate) fn with(&self, act: impl FnOnce(&Port)) {
        let desk = lock(&self.0);
        if let Some(port) = desk.upgrade() {
            act(&port);
        }
    }
}

/// A place that is to be asked for.
struct Question {
    desk: Arc<Desk>,
    number: u64,
    serial: u64,
    place: Place,
}

struct Questions {
    waiting: VecDeque<Question>,
    /// Whose threads are counted.
    process: u32,
    thread_count: usize,
}

static QUESTIONS: Mutex<Questions> = Mutex::new(Questions::NONE);

impl Questions {
    const NONE: Self = Self { waiting: VecDeque::new(), process: 0, thread_count: 0 };

    /// Whether this process may have one more thread, which is counted.
    fn may_start(&mut self, process: u32) -> bool {
        if self.process != process {
            (self.process, self.thread_count) = (process, 0); // a child has none of its parent's
        }
        let may_start = self.thread_count < THREAD_COUNT_MAX;
        self.thread_count += usize::from(may_start);
        may_start
    }
}

impl Question {
    /// Asks, and hands the answer in.
    fn settle(self) {
        if lock(&self.desk.0).strong_count() == 0 {
            return; // its endpoint was closed
        }
        let answer = self.place.look_up();
        self.desk.with(|port| port.on_answer(self.number, self.serial, answer));
    }
}

/// Has a question asked, before all others if somebody waits for it.
fn ask(question: Question, is_urgent: bool) {
    let mut all = lock(&QUESTIONS);
    match is_urgent {
        true => all.waiting.push_front(question),
        false => all.waiting.push_back(question),
    }
    if !all.may_start(std::process::id()) {
        return;
    }
    drop(all);
    if start(answer_all).is_err() {
        answer_all(); // no thread is to be had: this one waits, for lack of another
    }
}

/// Starts a thread, which takes no signals: those are the application's.
fn start<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> io::Result<JoinHandle<R>> {
    let thread = std::thread::Builder::new().name("packhorse-find".into()).stack_size(256 << 10);
    with_signals_blocked(|| thread.spawn(run))
}

/// Asks for all that waits.
fn answer_all() {
    loop {
        let mut all = lock(&QUESTIONS);
        let Some(question) = all.waiting.pop_front() else {
            all.thread_count -= 1;
            return;
        };
        drop(all);
        question.settle();
    }
}

/// Somebody waits for a question now that may not have had its turn.
fn hasten(desk: &Arc<Desk>, number: u64) {
    let mut all = lock(&QUESTIONS);
    let is_it = |it: &Question| it.number == number && Arc::ptr_eq(&it.desk, desk);
    if let Some(question) =
        all.waiting.iter().position(is_it).and_then(|index| all.waiting.remove(index))
    {
        all.waiting.push_front(question);
    }
}

impl Search {
    /// Answers go to this endpoint.
    pub(crate) fn begin(&self, port: &Arc<Port>) {
        *lock(&self.desk.0) = Arc::downgrade(port);
    }

    fn question(&self, number: u64, sought: &Sought) -> Question {
        let (desk, place) = (Arc::clone(&self.desk), sought.place.clone());
        Question { desk, number, serial: sought.serial, place }
    }
}

impl Port {
    /// A place got a number.
    pub(crate) fn add_place(&self, number: u64, place: Place) {
        let mut state = lock(&self.search.sought);
        state.serial += 1;
        let (serial, waiting) = (state.serial, VecDeque::new());
        let sought = Sought { place, serial, is_asked: true, waiting };
        let question = self.search.question(number, &sought);
        state.by_number.insert(number, sought);
        drop(state);
        // Though nobody waits: what the peer does to memory of ours it may do only when it is known.
        ask(question, false);
    }

    /// Its number is free again; what waits for it is cancelled.
    pub(crate) fn forget_place(&self, number: u64) {
        let sought = lock(&self.search.sought).by_number.remove(&number);
        for later in sought.into_iter().flat_map(|sought| sought.waiting) {
            self.fail(&later.op, libc::ECANCELED, errors::CANCELLED);
        }
        self.search.changed.notify_all();
    }

    /// Posts something to a peer: now, or when it is found.
    #[inline]
    pub(crate) fn to_peer(
        &self,
        number: u64,
        op: Op,
        post: impl FnOnce(&Self, PeerId, Op) -> isize + Send + 'static,
    ) -> isize {
        match self.peer(number) {
            Ok(peer) => post(self, peer, op),
            Err(code) => self.put_off(number, op, code, post),
        }
    }

    /// What is posted to a peer that is not known: it waits, if the peer is being looked for; else it is refused with this code.
    #[cold]
    pub(crate) fn put_off(
        &self,
        number: u64,
        op: Op,
        code: i32,
        post: impl FnOnce(&Self, PeerId, Op) -> isize + Send + 'static,
    ) -> isize {
        let mut state = lock(&self.search.sought);
        let Some(sought) = state.by_number.get_mut(&number) else {
            drop(state);
            // It may have been found since.
            return self.peer(number).map_or(-(code as isize), |peer| post(self, peer, op));
        };
        let is_first = sought.waiting.is_empty();
        sought.waiting.push_back(Later { op, post: Box::new(post) });
        let is_asked = std::mem::replace(&mut sought.is_asked, true);
        let question = (!is_asked).then(|| self.search.question(number, sought));
        drop(state);
        match question {
            Some(question) => ask(question, true),
            None if is_first => hasten(&self.search.desk, number),
            None => {}
        }
        0
    }

    /// Whether a number is that of a place that is being looked for.
    pub(crate) fn is_sought(&self, number: u64) -> bool {
        lock(&self.search.sought).by_number.contains_key(&number)
    }

    /// A place was found, or was not.
    fn on_answer(&self, number: u64, serial: u64, answer: Result<Address, Error>) {
        let mut state = lock(&self.search.sought);
        let sought = state.by_number.get_mut(&number).filter(|sought| sought.serial == serial);
        let Some(sought) = sought else { return };
        sought.is_asked = false;
        let waiting = std::mem::take(&mut sought.waiting);
        match answer.and_then(|address| self.name_peer(number, &address)) {
            Ok(peer) => {
                for Later { op, post } in waiting {
                    let status = post(self, peer, op.clone());
                    if status != 0 {
                        self.fail(&op, -status as i32, errors::REFUSED);
                    }
                }
                // Only now, and with the lock: nothing overtakes what waited.
                self.enter_peer(number, peer);
                state.by_number.remove(&number);
            }
            Err(error) => {
                // Nobody waits: the application may have entered it before it is there.
                let level = if waiting.is_empty() { Level::Info } else { Level::Warn };
                say(level, Subsystem::Addresses, || error.to_string());
                let (code, reason) = errors::not_found(&error);
                waiting.iter().for_each(|later| self.fail(&later.op, code, reason));
            }
        }
        drop(state);
        self.search.changed.notify_all();
    }

    /// An operation that was accepted comes to nothing.
    pub(crate) fn fail(&self, op: &Op, code: i32, reason: i32) {
        self.count_operation(op, false);
        let trouble = Some(Trouble { code, reason, excess_len: 0 });
        self.tell(Done { context: op.context, flags: op.flags, trouble, ..Done::default() });
    }

    /// Cancels a receive that waits for its peer to be found; false if there is none.
    pub(crate) fn cancel_put_off(&self, context: usize) -> bool {
        let mut state = lock(&self.search.sought);
        let is_it = |later: &Later| later.op.context == context && later.op.flags & flag::RECV != 0;
        let later = state.by_number.values_mut().find_map(|sought| {
            let index = sought.waiting.iter().position(is_it)?;
            sought.waiting.remove(index)
        });
        drop(state);
        if let Some(later) = &later {
            self.fail(&later.op, libc::ECANCELED, errors::CANCELLED);
        }
        later.is_some()
    }

    /// Waits until what was sent to places that are being looked for was posted, or came to nothing; how much was neither in the time
    /// there is. No answer comes afterwards.
    pub(crate) fn end_search(&self) -> usize {
        let until = Instant::now() + CLOSE_WAIT;
        let mut state = lock(&self.search.sought);
        let is_sent = |later: &&Later| later.op.flags & flag::RECV == 0;
        let left_count = loop {
            let sought = state.by_number.values();
            let count = sought.map(|it| it.waiting.iter().filter(is_sent).count()).sum();
            let left = until.saturating_duration_since(Instant::now());
            if count == 0 || left.is_zero() {
                break count;
            }
            let woken = self.search.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(state);
        // Who hands an answer in has this lock first, and then the other.
        *lock(&self.search.desk.0) = Weak::new();
        lock(&self.search.sought).by_number.clear();
        left_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_no_signals() {
        let blocked = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        let in_thread = start(blocked).unwrap().join().unwrap();
        for signal in [libc::SIGTERM, libc::SIGALRM, libc::SIGUSR1, libc::SIGCHLD] {
            assert!(in_thread & 1 << (signal - 1) != 0, "{signal}");
        }
    }

    #[test]
    fn a_child_has_none_of_its_parent_s_threads() {
        let mut questions = Questions::NONE;
        assert_eq!((0..20).filter(|_| questions.may_start(7)).count(), THREAD_COUNT_MAX);
        assert!(questions.may_start(8), "fork copies the count, and no thread");
        assert_eq!(questions.thread_count, 1);
    }
}
