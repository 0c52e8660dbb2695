//! How long the calling thread may run at a stretch, and so how soon it runs when it is woken.
//!
//! The system serves those first whose stretch ends first. A thread that asks for short ones is let in beside others that
//! compute, and gives way to them as soon; its share of the core stays the same. Linux knows that from 6.12 on, and ignores the
//! wish before.

/// The system's `struct sched_attr`, as far as its first version went.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Asks for stretches of this length. False: the thread is scheduled otherwise, or the system does not want to; it goes on as before.
pub fn ask_for_slices(ns: u64) -> bool {
    let mut attr = SchedAttr::default();
    let len = size_of::<SchedAttr>() as u32;
    // SAFETY: the calling thread (0); `attr` is ours and has room for the `len` bytes that may be written.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut attr, len, 0) };
    if got != 0 || attr.policy != libc::SCHED_OTHER as u32 {
        return false;
    }
    (attr.size, attr.runtime_ns) = (len, ns);
    // SAFETY: the calling thread (0); `attr` says its own length and is only read.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attr, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_ask_for_short_slices() {
        let answer = std::thread::spawn(|| ask_for_slices(100_000)).join();
        assert!(answer.is_ok_and(|is_granted| is_granted));
    }
}
