//! Threads of ours take no signals: those belong to the application.

use std::mem::MaybeUninit;

/// Calls `f` with all signals blocked for this thread. A thread that it starts inherits that, from its first instruction on.
pub fn with_signals_blocked<R>(f: impl FnOnce() -> R) -> R {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both are ours and of the type these calls fill; `all` is filled by the first. They cannot fail with such arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
    }
    /// Undoes it even if `f` panics.
    struct Restore(libc::sigset_t);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: a mask that the system gave; the old one is not asked for.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
        }
    }
    // SAFETY: filled by the call above.
    let _restore = Restore(unsafe { before.assume_init() });
    f()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("SigBlk:")).unwrap();
        line.trim_start_matches("SigBlk:").trim().to_owned()
    }

    #[test]
    fn a_thread_started_so_takes_none_and_its_parent_does_again() {
        let before = blocked();
        let child = with_signals_blocked(|| std::thread::spawn(blocked)).join().unwrap();
        assert_eq!(blocked(), before);
        // All but the few the system and the C library keep for themselves.
        assert!(child.starts_with("fffffff") && child.ends_with("feff"), "{child}");
    }
}
