//! Posts that do not wait for whoever drives.
//!
//! ```text
//!   post ── lock free? ──▶ posted at once
//!     │ somebody is in a turn
//!     └──▶ left in the list ──▶ posted at the end of that turn, by whoever makes it
//! ```
//!
//! A turn may take tens of microseconds, moving somebody's large message; a thread that posts should not stand and wait for it.
//! It leaves a descriptor, with the memory it names, and goes on; a post that turns out to be wrong then becomes an entry of
//! its queue, or the end of its request. Whoever posts, cancels or closes first posts what was left, so that the calls of one
//! thread keep their order.
//!
//! **Names.** A post to no queue is asked for by name, and names are given under the lock. So whoever runs what was left lays in
//! some (`Requests::reserve`); who finds none waits for the lock after all.
//!
//! **Nothing is forgotten.** A thread that leaves a descriptor counts it and then looks whether the turn still goes on; the thread that turns says
//! that it does not and then looks at the count. Both in the one order of `SeqCst`: one of them sees the other
//! (`tests::all_orders`). If the turn is over the poster takes the lock, which nobody holds for long then. Turns say nothing
//! before somebody stood at the lock once: an endpoint of one thread pays for none of this.
//!
//! Descriptors move from thread to thread by value, with what they own. In memory shared with another process they would be
//! plain words in a ring, like completions, and name memory by region and offset; pointers mean nothing there.

use std::collections::VecDeque;

#[cfg(all(loom, test))]
use loom::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use std::sync::PoisonError;
#[cfg(not(all(loom, test)))]
use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::names::{Notify, RequestId};
use crate::post::Post;
use crate::requests::Requests;

/// Who learns what came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told {
    /// A queue.
    Queue(Notify),
    /// Whoever asks by this name, which was reserved.
    Asker(RequestId),
}

/// A post that was left.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) told: Told,
    pub(crate) post: Post,
}

/// Names laid in at most: so many posts of one turn need not wait.
const NAME_COUNT: usize = 64;

/// What was left, and whether somebody will come to it by himself.
#[derive(Debug)]
pub(crate) struct Commands {
    /// Somebody stood at the lock once, or posts to a queue.
    are_wanted: AtomicBool,
    is_turning: AtomicBool,
    count: AtomicUsize,
    list: Mutex<VecDeque<Command>>,
    names: Mutex<Vec<RequestId>>,
}

impl Default for Commands {
    fn default() -> Self {
        Self {
            are_wanted: AtomicBool::new(false),
            is_turning: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            list: Mutex::new(VecDeque::new()),
            names: Mutex::new(Vec::new()),
        }
    }
}

impl Commands {
    /// From now on turns say that they are made.
    #[cold]
    pub(crate) fn want(&self) {
        self.are_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether anybody ever left something, or would have.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.are_wanted.load(Ordering::Relaxed)
    }

    /// A turn begins. Relaxed: who does not see it yet takes the lock instead, and waits.
    pub(crate) fn on_turn(&self) {
        self.is_turning.store(true, Ordering::Relaxed);
    }

    /// A turn is over. True: something was left.
    pub(crate) fn on_turned(&self) -> bool {
        self.is_turning.store(false, Ordering::SeqCst);
        between();
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Whether somebody is in a turn, as far as one can tell without the lock.
    #[inline]
    pub(crate) fn is_turning(&self) -> bool {
        self.is_turning.load(Ordering::Relaxed)
    }

    /// Whether something may be there to be posted first.
    #[inline]
    pub(crate) fn may_have(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn pop(&self) -> Option<Command> {
        let command = self.list.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(command)
    }

    /// Leaves a descriptor. True: whoever turns will come to it.
    pub(crate) fn leave(&self, command: Command) -> bool {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push_back(command);
        self.count.fetch_add(1, Ordering::SeqCst);
        between();
        self.is_turning.load(Ordering::SeqCst)
    }

    pub(crate) fn name(&self) -> Option<RequestId> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Names for those who will leave something.
    #[cold]
    pub(crate) fn lay_in(&self, requests: &mut Requests) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = NAME_COUNT - names.len();
        names.extend((0..missing).map(|_| requests.reserve()));
    }
}

/// Between one's own word and the other's. The accesses around it are ordered by themselves; loom must be told.
#[inline]
fn between() {
    #[cfg(all(loom, test))]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests;
