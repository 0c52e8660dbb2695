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
        // The clock is read before and behind each reading of the counter: a thread that is kept from running in between, for as long as
        // it may be, makes the longer time longer and the shorter one no shorter.
        let outer = Instant::now();
        let first = ticks();
        let inner = Instant::now();
        while inner.elapsed() < Duration::from_millis(50) {}
        let shorter = inner.elapsed();
        let count = (ticks() - first) as f64;
        let longer = outer.elapsed();
        let [most, least] = [shorter, longer].map(|time| count / time.as_nanos() as f64);
        // Wide: a slow machine's counter is slow.
        assert!(most > 0.5 && least < 10.0, "{least} to {most} ticks in a nanosecond");
    }
}
