//! Loops made for the machine at hand.

/// Something to compute. `run` must be `#[inline(always)]`, with all it calls: then it is compiled anew where it is used.
pub trait Work {
    /// What comes of it.
    type Out;

    /// Computes it.
    fn run(self) -> Self::Out;
}

/// Runs the work with the widest registers the machine has.
#[inline]
pub fn run<W: Work>(work: W) -> W::Out {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has what the function is compiled for, as was just asked.
        return unsafe { run_avx2(work) };
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<W: Work>(work: W) -> W::Out {
    work.run()
}

#[cfg(test)]
mod tests {
    use super::{Work, run};

    struct Sum<'a>(&'a [u64]);

    impl Work for Sum<'_> {
        type Out = u64;

        #[inline(always)]
        fn run(self) -> u64 {
            self.0.iter().sum()
        }
    }

    #[test]
    fn the_work_is_done() {
        assert_eq!(run(Sum(&[1, 2, 3, 4, 5])), 15);
    }
}
