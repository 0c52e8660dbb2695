//! Bytes lent to a future for the length of one poll.
//!
//! A future that waits for bytes cannot hand its buffer to anybody: it only borrows it. So the bytes go to the future: whoever
//! has them *lends* them while he polls it, and its innermost part, wherever it sits in the tree of futures, finds them here and
//! copies. `poll` takes no argument that could carry a borrow, so they travel beside it, in a variable of the thread.
//!
//! ```text
//!   lend(stream, bytes, || future.poll(…))          sets the loan, polls, takes the loan away
//!                            └─▶ … └─▶ borrowed(|loan| loan.take(stream, buffer))
//! ```
//!
//! Whoever lends a frame holds the engine's lock, and the future may do nothing but take. The first bytes of a stream are *handed over* instead: whoever has
//! them keeps them in memory of his own and holds no lock, so the future may go on with whatever it likes.

use std::cell::Cell;
use std::ptr;

/// Bytes of a stream, for as long as the call that lends them.
#[derive(Debug)]
pub struct Loan<'a> {
    stream: u64,
    bytes: &'a [u8],
    /// The engine is not locked meanwhile.
    is_handed: bool,
    /// Of what is handed over: there are no others behind it.
    is_whole: bool,
    taken_len: Cell<usize>,
    is_waiting: Cell<bool>,
    wants_poll: Cell<bool>,
}

/// What became of a loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repaid {
    /// So many bytes were taken, from the front.
    pub taken_len: usize,
    /// Whoever took them waits for more.
    pub is_waiting: bool,
    /// Somebody wants to be polled again when nothing is lent.
    pub wants_poll: bool,
}

thread_local! {
    static LOAN: Cell<*const Loan<'static>> = const { Cell::new(ptr::null()) };
}

impl Loan<'_> {
    /// Copies what is left into this buffer, if the loan is of this stream. How many bytes that were.
    pub fn take(&self, stream: u64, to: &mut [u8]) -> usize {
        let rest = self.rest(stream);
        let len = rest.len().min(to.len());
        to[..len].copy_from_slice(&rest[..len]);
        self.on_taken(len)
    }

    /// Passes over so many bytes at most, if the loan is of this stream.
    pub fn skip(&self, stream: u64, len_max: usize) -> usize {
        self.on_taken(self.rest(stream).len().min(len_max))
    }

    fn rest(&self, stream: u64) -> &[u8] {
        if stream == self.stream { &self.bytes[self.taken_len.get()..] } else { &[] }
    }

    fn on_taken(&self, len: usize) -> usize {
        self.taken_len.set(self.taken_len.get() + len);
        len
    }

    /// Whether the reader of the stream waits for more.
    pub fn set_waiting(&self, is_waiting: bool) {
        self.is_waiting.set(is_waiting);
    }

    /// Whether these are all bytes of the stream.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Asks to be polled again when nothing is lent: while something is, the engine is locked, and nobody can go on.
    pub fn ask_for_poll(&self) {
        self.wants_poll.set(true);
    }
}

/// Lends bytes to whatever `run` polls, with the engine locked.
pub fn lend(stream: u64, bytes: &[u8], run: impl FnOnce()) -> Repaid {
    lend_as((stream, bytes), (false, false), run)
}

/// Hands bytes over to whatever `run` polls, with no lock held; `is_whole`: they are all of the stream. How many were taken.
pub fn hand_over(stream: u64, bytes: &[u8], is_whole: bool, run: impl FnOnce()) -> usize {
    lend_as((stream, bytes), (true, is_whole), run).taken_len
}

#[inline]
fn lend_as(
    (stream, bytes): (u64, &[u8]),
    (is_handed, is_whole): (bool, bool),
    run: impl FnOnce(),
) -> Repaid {
    /// Puts the loan back that was there before, also when `run` panics.
    struct Restore(*const Loan<'static>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LOAN.set(self.0);
        }
    }

    let loan = Loan {
        stream,
        bytes,
        is_handed,
        is_whole,
        taken_len: Cell::new(0),
        is_waiting: Cell::new(false),
        wants_poll: Cell::new(false),
    };
    let restore = Restore(LOAN.replace(ptr::from_ref(&loan).cast()));
    run();
    drop(restore);
    let Loan { taken_len, is_waiting, wants_poll, .. } = loan;
    Repaid {
        taken_len: taken_len.get(),
        is_waiting: is_waiting.get(),
        wants_poll: wants_poll.get(),
    }
}

/// Calls `f` with what is lent on this thread now under the engine's lock, if anything is.
pub fn borrowed<R>(f: impl FnOnce(&Loan<'_>) -> R) -> Option<R> {
    with_loan(|loan| (!loan.is_handed).then(|| f(loan)))?
}

/// Calls `f` with what is handed over on this thread now, if it is of this stream.
#[inline]
pub fn handed<R>(stream: u64, f: impl FnOnce(&Loan<'_>) -> R) -> Option<R> {
    with_loan(|loan| (loan.is_handed && loan.stream == stream).then(|| f(loan)))?
}

#[inline]
fn with_loan<R>(f: impl FnOnce(&Loan<'_>) -> R) -> Option<R> {
    let loan = LOAN.get();
    // SAFETY: not null only between the two lines of `lend_as` that set and restore it, on this thread; so the loan it points to
    // lives on the stack of a call of `lend_as` below us, and is shared, never written but through its cells. The borrow ends
    // with `f`, which is given no lifetime it could keep it for.
    unsafe { loan.as_ref() }.map(f)
}

/// For futures that have nothing to do with what is lent: true if something is, and then they are polled again when it is not.
pub fn must_wait() -> bool {
    borrowed(|loan| loan.ask_for_poll()).is_some()
}

/// A number that no other living thread has.
pub fn this_thread() -> usize {
    LOAN.with(|loan| ptr::from_ref(loan).addr())
}

/// Whether something is lent on this thread now, and the engine locked for that.
#[inline]
pub fn is_lent() -> bool {
    borrowed(|_| ()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loan_is_seen_inside_and_nowhere_else() {
        assert!(!is_lent());
        let mut got = [0; 5];
        let repaid = lend(7, b"hello world", || {
            assert_eq!(borrowed(|loan| loan.take(8, &mut [0; 5])), Some(0), "another stream's");
            borrowed(|loan| {
                assert_eq!(loan.take(7, &mut got), 5);
                assert_eq!(loan.skip(7, 1), 1);
                loan.set_waiting(true);
            });
            std::thread::scope(|scope| scope.spawn(|| assert!(!is_lent())).join().unwrap());
        });
        assert_eq!((repaid.taken_len, repaid.is_waiting, &got), (6, true, b"hello"));
        assert!(!is_lent() && borrowed(|_| ()).is_none());
    }

    #[test]
    fn what_is_handed_over_is_for_its_stream_and_locks_nothing() {
        let mut got = [0; 5];
        let taken_len = hand_over(7, b"hello world", true, || {
            assert!(!is_lent() && !must_wait() && borrowed(|_| ()).is_none());
            assert!(handed(8, |_| ()).is_none(), "another stream's");
            assert_eq!(
                handed(7, |loan| (loan.take(7, &mut got), loan.is_whole())),
                Some((5, true))
            );
            lend(8, b"x", || assert!(is_lent() && handed(7, |_| ()).is_none()));
            assert!(!is_lent());
        });
        assert_eq!((taken_len, &got), (5, b"hello"));
        assert!(handed(7, |_| ()).is_none());
    }

    #[test]
    fn loan_ends_with_a_panic() {
        let panics = || lend(1, b"x", || panic!("inside"));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(!is_lent());
    }
}
