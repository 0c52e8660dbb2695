//! What an endpoint costs that has nothing to do: processor time over some seconds, in parts of a core.
//!
//! ```text
//! cargo run --release -p packhorse --example idle -- 10
//! ```

use std::time::{Duration, Instant};

use packhorse::{Builder, Placement, Wanted};
use rustix::time::{ClockId, clock_gettime};

/// Processor time of this process so far, all threads.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    for placement in [Placement::Inline, Placement::Thread] {
        let open = || Builder::plain().bind([127, 0, 0, 1]).placement(placement).open();
        let (a, b) = (open()?, open()?);
        let coming = b.recv(Wanted::tag(1), vec![0; 8]);
        let peer = a.peer(&b.address())?;
        std::thread::scope(|scope| {
            scope.spawn(|| coming.wait().map(drop));
            a.send(peer, 1, vec![1; 8]).wait().map(drop)
        })?;
        std::thread::sleep(Duration::from_millis(500)); // the last acknowledgements
        let (start, before) = (Instant::now(), used());
        std::thread::sleep(Duration::from_secs(seconds));
        let share = (used() - before).as_secs_f64() / start.elapsed().as_secs_f64();
        println!("{placement:?}: two idle endpoints use {:.3} % of a core", 100.0 * share);
    }
    Ok(())
}
