//! A counter that is cheaper to read than the clock.

/// The processor's own counter where it has one that programs may read, else half nanoseconds of the system's clock: some two to five ticks in a
/// nanosecond. Only good to compare lengths of time: a thread that moves to another core may find the counter a little behind.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has the instruction, and it touches nothing.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the place is ours; every system has this clock.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
        2 * (time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::ticks;

    #[test]
    fn ticks_are_about_as_long_as_promised() {
        let (began, first) = (Instant::now(), ticks());
        while began.elapsed() < Duration::from_millis(50) {}
        let per_ns = (ticks() - first) as f64 / began.elapsed().as_nanos() as f64;
        // Wide: a slow machine's counter is slow.
        assert!((0.5..10.0).contains(&per_ns), "{per_ns} ticks in a nanosecond");
    }
}
