//! What it costs to be there: processor time of a process that does nothing, or waits for what does not come.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{AGAIN, hear, tell};
use crate::courier::Courier;
use crate::cpu::{CpuTime, process_time};
use crate::figures::{Figure, Figures};
use crate::system::{Job, Outcome};
use crate::variant::Rest;

/// What follows a greeting (acknowledgements, a helper that looks closely for a while) is not idleness yet.
const SETTLE: Duration = Duration::from_millis(100);

/// The active side rests.
pub(super) fn rest(job: &Job, courier: &mut dyn Courier) -> Result<Outcome> {
    let is_receiving = job.variant.rest == Some(Rest::Receive);
    thread::sleep(SETTLE);
    let (start, before, cpu) = (Instant::now(), process_time(), CpuTime::now());
    if is_receiving {
        hear(courier)?;
    } else {
        thread::sleep(Duration::from_secs_f64(job.seconds));
    }
    let (elapsed, spent) = (start.elapsed(), process_time().saturating_sub(before));
    let cpu = CpuTime::now().since(cpu);
    if !is_receiving {
        hear(courier)?;
    }
    let share = spent.as_secs_f64() / elapsed.as_secs_f64();
    Ok(Outcome {
        elapsed_ns: elapsed.as_nanos() as u64,
        cpu: Some(cpu),
        figures: Figures::of([(Figure::ProcessShare, share)]),
        ..Outcome::default()
    })
}

/// The passive side is as quiet, and speaks when the time is over.
pub(super) fn wake_other(job: &Job, courier: &mut dyn Courier) -> Result<Outcome> {
    thread::sleep(SETTLE + Duration::from_secs_f64(job.seconds));
    tell(courier, AGAIN)?;
    Ok(Outcome::default())
}
