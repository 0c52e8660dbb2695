//! Letters of other users that bring descriptors: each is taken by a thread of its own.
//!
//! What has no place in the room of a call, or in the process's table of descriptors, the kernel closes before the call returns, and that may take for ever
//! (`gift`). So whoever drives only looks at such a letter, which closes nothing, and gives it to a thread that may wait:
//!
//! ```text
//!   look ──▶ no descriptors, or the own user's: taken at once
//!        └─▶ another user's ──▶ thread: takes one letter, with two descriptors at most ──▶ whoever drives, and a knock
//! ```
//!
//! As long as one of these threads is out nobody else takes letters, for nobody knows whether it has its own yet: they take those behind it, too.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::gift::Closer;
use super::letter::{Letter, Room, knock_at, read_letter};
use super::shm::SocketName;
use super::signals::with_signals_blocked;

/// A thread that has not come back by then waits for a descriptor to be closed, or never got a core: the next letter is another's.
const PATIENCE: Duration = Duration::from_millis(10);

/// Those who take letters.
#[derive(Debug)]
pub(crate) struct Takers {
    taken: (Sender<Option<Letter>>, Receiver<Option<Letter>>),
    /// Threads that are out, and since when the last one is.
    count: usize,
    since: Option<Instant>,
}

impl Takers {
    pub(crate) fn new() -> Self {
        Self { taken: channel(), count: 0, since: None }
    }

    /// Threads that have not come back.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// What one of them has brought.
    pub(crate) fn bring(&mut self) -> Option<Letter> {
        while let Ok(letter) = self.taken.1.try_recv() {
            self.count -= 1;
            if letter.is_some() {
                return letter;
            }
        }
        None
    }

    /// Whether the one that is out has had its time.
    pub(crate) fn is_late(&self) -> bool {
        self.since.is_none_or(|since| since.elapsed() >= PATIENCE)
    }

    /// Sends one for the next letter. If the system gives no thread, the letter waits.
    pub(crate) fn send(&mut self, fd: &Arc<OwnedFd>, own: SocketName, closer: &Arc<Closer>) {
        let (fd, closer, taken) = (Arc::clone(fd), Arc::clone(closer), self.taken.0.clone());
        let take = move || {
            let letter = read_letter(&fd, Room::Small, &closer).unwrap_or_default();
            let must_knock = letter.as_ref().is_some_and(|letter| !letter.gifts.is_empty());
            let _ = taken.send(letter); // nobody is there any more
            if must_knock {
                knock_at(&fd, &own);
            }
        };
        let builder = std::thread::Builder::new().name("packhorse-letter".into());
        if with_signals_blocked(|| builder.spawn(take)).is_ok() {
            (self.count, self.since) = (self.count + 1, Some(Instant::now()));
        }
    }
}
