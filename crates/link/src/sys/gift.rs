//! Descriptors that other processes sent, asked for or not.
//!
//! To close a descriptor can take for ever: a socket that lingers, a file of a file system in user space whose owner does not answer. Any process of the
//! host may send one. So what arrives is a [`Gift`], and what is dropped as a gift is closed by a thread that has nothing else to do. Only memory, which
//! closes at once, is taken out of it (`Mapping::of_stranger`).

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use super::signals::with_signals_blocked;

/// A descriptor of an unknown kind.
#[derive(Debug)]
pub(crate) struct Gift {
    fd: Option<OwnedFd>,
    closer: Arc<Closer>,
}

/// Closes gifts. Its thread is started for the first of them, and ends when the last holder is gone.
#[derive(Debug, Default)]
pub(crate) struct Closer {
    /// `None`: the system gave no thread.
    thread: OnceLock<Option<Sender<OwnedFd>>>,
    /// Gifts that are not closed yet. Relaxed: a number, which orders nothing.
    unclosed_count: Arc<AtomicUsize>,
}

impl Closer {
    pub(crate) fn unclosed_count(&self) -> usize {
        self.unclosed_count.load(Ordering::Relaxed)
    }

    fn close(&self, fd: OwnedFd) {
        self.unclosed_count.fetch_add(1, Ordering::Relaxed);
        match self.thread.get_or_init(|| self.start()) {
            // The thread takes all that is sent before it ends.
            Some(thread) => drop(thread.send(fd)),
            // Without a thread the descriptor stays open, which costs less than to wait for its owner.
            None => std::mem::forget(fd),
        }
    }

    fn start(&self) -> Option<Sender<OwnedFd>> {
        let (sender, receiver): (_, Receiver<OwnedFd>) = channel();
        let unclosed_count = Arc::clone(&self.unclosed_count);
        let close_all = move || {
            for fd in receiver {
                drop(fd);
                unclosed_count.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let builder = std::thread::Builder::new().name("packhorse-close".into());
        with_signals_blocked(|| builder.spawn(close_all)).ok().map(|_| sender)
    }
}

impl Gift {
    pub(crate) fn new(fd: OwnedFd, closer: &Arc<Closer>) -> Self {
        Self { fd: Some(fd), closer: Arc::clone(closer) }
    }

    /// The descriptor, to whoever knows that closing it takes no time.
    pub(super) fn open(mut self) -> OwnedFd {
        self.fd.take().expect("taken out only here and in `drop`")
    }
}

impl AsRawFd for Gift {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_ref().expect("taken out only where the gift ends").as_raw_fd()
    }
}

impl Drop for Gift {
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take() {
            self.closer.close(fd);
        }
    }
}
