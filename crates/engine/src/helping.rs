//! Placement `thread`: a helper that drives when nobody else does. When it does, the `baton` says.
//!
//! The helper holds the engine only while it looks or drives, so that an engine which nobody owns comes to its end.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use rustix::thread::sched_getcpu;

use crate::baton::{Around, Look, Notes, Patience};
use crate::duties::Offload;
use crate::engine::{Engine, Placement, broken};
use crate::helper::{EndsProcess, HelperCpus};

fn run(engine: &Weak<Engine>, cpus: &HelperCpus) {
    let _ends_process = EndsProcess;
    cpus.apply(None);
    // Ticks are meant as they are written: the default slack would double them.
    let _ = rustix::thread::set_current_timer_slack(Some(1_000.try_into().expect("not zero")));
    let (mut notes, mut core) = (Notes::default(), Core { cpus, avoided: None });
    while let Some(engine) = engine.upgrade() {
        if !engine.helper.on_look() {
            return;
        }
        // An application's thread panicked inside: others may sleep where only news would wake them.
        if engine.inner.is_poisoned() {
            broken();
        }
        let pause = match engine.helper.baton.look(engine.now(), &mut notes, &*engine) {
            Look::Aside(pause) => pause,
            Look::Pause => PAUSE,
            Look::Drive(away_since) => {
                core.keep_off(engine.helper.woken_from());
                if engine.helper.baton.begin_driving(away_since) {
                    engine.drive_as_helper();
                }
                Duration::ZERO
            }
            Look::GoOn => {
                if engine.helper.baton.go_on() {
                    engine.drive_as_helper();
                }
                Duration::ZERO
            }
        };
        drop(engine);
        if !pause.is_zero() {
            thread::park_timeout(pause);
        }
    }
}

/// Where the helper may run.
struct Core<'a> {
    cpus: &'a HelperCpus,
    avoided: Option<usize>,
}

impl Core<'_> {
    /// The helper takes over, and the application's thread was there last: on that core it would take the time it is to save,
    /// and where threads are bound the system leaves it there for as long as no core is idle. (MPI ranks on a core each, one
    /// of them waiting: one in four transfers was not hidden at all.) Asked once for each core the application turns up on.
    fn keep_off(&mut self, cpu: usize) {
        if cpu == sched_getcpu() && self.avoided != Some(cpu) {
            self.avoided = Some(cpu);
            self.cpus.apply(self.avoided);
        }
    }
}

impl Around for Engine {
    /// Whether anybody counts on being driven for, soon. Not while somebody is inside, who drives.
    fn is_pending(&self) -> bool {
        self.try_lock().is_some_and(|inner| {
            self.is_awaited(&inner) || self.needs_driver(&inner) || inner.core.has_work()
        })
    }

    fn patience(&self) -> Option<Patience> {
        let (inner, now) = (self.try_lock()?, self.now());
        Some(if inner.core.is_settling(now) {
            Patience::Short
        } else if self.lets_helper_stay_afar(&inner, now) {
            Patience::Long
        } else {
            Patience::Usual
        })
    }
}

/// With as many frames in hand as it may keep for the application the helper waits for it so long at a time.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// A paused helper looks this often whether its engine still lives.
const PAUSE: Duration = Duration::from_secs(1);

impl Engine {
    /// Changes who turns it: starts or resumes the helper, or lets it pause. What peers were told at first contact stays: they
    /// give one that was opened with a helper less time to answer, so a long pause is better opened without.
    pub fn set_placement(self: &Arc<Self>, placement: Placement) -> io::Result<()> {
        match placement {
            Placement::Thread if self.offload == Offload::None => Ok(()),
            Placement::Thread => self.start_helper(),
            Placement::Inline => {
                self.run_errand(self.helper.baton.pause());
                Ok(())
            }
        }
    }

    /// Starts the helper, or lets it go on.
    pub(crate) fn start_helper(self: &Arc<Self>) -> io::Result<()> {
        let (weak, cpus) = (Arc::downgrade(self), self.helper_cpus.clone());
        self.helper.start(move || run(&weak, &cpus))?;
        self.run_errand(self.helper.baton.resume());
        Ok(())
    }

    /// Drives until an application thread does, then returns; or for as long as there is work, then sleeps once.
    fn drive_as_helper(&self) {
        let mut inner = self.lock();
        if inner.is_dozing {
            self.helper.baton.stop_driving();
            return;
        }
        if inner.core.is_kept_full() {
            // Only the application can make room, and the links would not let it sleep.
            drop(inner);
            thread::park_timeout(FULL_PAUSE);
            return;
        }
        let now = self.now();
        let work = inner.turn_with(now, self.offload);
        inner.core.counters_mut().turns_of_helper += 1;
        let pause_ns = if work > 0 || !inner.core.arm() { 0 } else { inner.sleep_ns(now) };
        self.helper_doze.announce(now, pause_ns);
        self.release(inner);
        if self.attendance.attend() {
            return; // what the attendant posted may be due
        }
        if pause_ns > 0 {
            self.helper_doze.sleep(pause_ns);
            return;
        }
        // The lock is not fair: who stands there would not get it from one who takes it again at once.
        while self.wanted.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;

    use super::*;
    use crate::engine::Config;
    use crate::slow::{Gate, Slow};

    /// Set in the process that is to end.
    const VICTIM: &str = "PACKHORSE_TEST_VICTIM";

    #[test]
    fn a_helper_that_panics_ends_the_process_and_says_why() {
        let gate = Arc::new(Gate::default());
        if std::env::var_os(VICTIM).is_some() {
            let config = Config { placement: Placement::Thread, ..Config::default() };
            let _engine = Engine::open(config, vec![Slow::new(&gate)]).unwrap();
            gate.panic();
            loop {
                thread::park(); // for something that only the helper would bring about
            }
        }
        let name = "helping::tests::a_helper_that_panics_ends_the_process_and_says_why";
        let mut victim = Command::new(std::env::current_exe().unwrap());
        victim.args(["--exact", name, "--nocapture"]).env(VICTIM, "");
        victim.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        let mut victim = victim.spawn().unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while victim.try_wait().unwrap().is_none() {
            if std::time::Instant::now() > until {
                victim.kill().unwrap();
                panic!("it lives on after its helper panicked");
            }
            thread::sleep(Duration::from_millis(1));
        }
        let output = victim.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("for a test") && said.contains("so the process ends"), "{said}");
    }
}
