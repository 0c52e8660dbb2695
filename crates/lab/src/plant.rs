//! Processors, buses and wires: each does one thing at a time, the others wait in order.
//!
//! A *job* goes from part to part, a stage each. The host is special: the application's own stages are *calm*; the system's go
//! first and interrupt them, as interrupts do.

use std::collections::VecDeque;

/// A part of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The core of the application.
    Host,
    /// The core of interrupts; the same where there is one only.
    Irq,
    /// The card's processor, for what arrives.
    CardIn,
    /// The card's processor, for what leaves; the same where there is one only.
    CardOut,
    /// Between host and card.
    Bus,
    /// The copy engine.
    Engine,
    /// To the peer.
    Wire,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Host, Self::Irq, Self::CardIn, Self::CardOut, Self::Bus, Self::Engine, Self::Wire];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Irq => "interrupts' core",
            Self::CardIn => "card",
            Self::CardOut => "card (sending)",
            Self::Bus => "bus",
            Self::Engine => "copy engine",
            Self::Wire => "wire",
        }
    }
}

/// Names a job.
pub(crate) type JobId = usize;

/// What a part is doing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) job: JobId,
    pub(crate) since: u64,
    pub(crate) until: u64,
    is_calm: bool,
}

/// A job in line.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    job: JobId,
    ns: u64,
    /// Its time is for the protocol, not the application's own, and was not counted yet.
    is_counted: bool,
}

/// One part.
#[derive(Debug, Default)]
pub(crate) struct Server {
    urgent: VecDeque<Waiting>,
    calm: VecDeque<Waiting>,
    pub(crate) running: Option<Running>,
    /// Counts starts: the end of a job that was interrupted means nothing.
    pub(crate) epoch: u64,
    /// For the system and the protocol; the application's own time is not in it.
    pub(crate) busy_ns: u64,
}

impl Server {
    /// Puts a job in line: of the application's own, or of the protocol; a calm one lets others go first.
    pub(crate) fn add(&mut self, job: JobId, ns: u64, is_calm: bool, is_own: bool) {
        let line = if is_calm { &mut self.calm } else { &mut self.urgent };
        line.push_back(Waiting { job, ns, is_counted: !is_own });
    }

    /// Nobody is served or waits, but perhaps the application.
    pub(crate) fn is_quiet(&self) -> bool {
        self.urgent.is_empty() && self.running.is_none_or(|running| running.is_calm)
    }

    /// When all that waits would be done, if nothing else came.
    pub(crate) fn backlog_ns(&self, now: u64) -> u64 {
        let running = self.running.map_or(0, |running| running.until.saturating_sub(now));
        running + self.urgent.iter().map(|waiting| waiting.ns).sum::<u64>()
    }

    /// Interrupts the application for what is urgent: what is left of its job waits. What was done of it.
    pub(crate) fn interrupt(&mut self, now: u64) -> Option<Running> {
        let running = self.running.filter(|running| running.is_calm)?;
        if self.urgent.is_empty() {
            return None;
        }
        self.running = None;
        let ns = running.until - now;
        self.calm.push_front(Waiting { job: running.job, ns, is_counted: false });
        Some(Running { until: now, ..running })
    }

    /// Starts the next job, if the part is free.
    pub(crate) fn start(&mut self, now: u64) -> Option<Running> {
        if self.running.is_some() {
            return None;
        }
        let (next, is_calm) = match self.urgent.pop_front() {
            Some(next) => (next, false),
            None => (self.calm.pop_front()?, true),
        };
        let Waiting { job, ns, is_counted } = next;
        self.epoch += 1;
        if is_counted {
            self.busy_ns += ns;
        }
        self.running = Some(Running { job, since: now, until: now + ns, is_calm });
        self.running
    }

    /// Its job is done.
    pub(crate) fn finish(&mut self) -> Option<Running> {
        self.running.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_interrupts_the_application() {
        let mut host = Server::default();
        host.add(0, 100, true, true);
        assert_eq!(host.start(0).unwrap().until, 100);
        assert!(host.interrupt(30).is_none(), "nothing is urgent");
        host.add(1, 10, false, false);
        assert_eq!(host.interrupt(30).unwrap().until, 30);
        assert_eq!(host.start(30).unwrap().job, 1);
        assert_eq!(host.busy_ns, 10);
        assert_eq!(host.backlog_ns(30), 10);
        host.finish();
        let rest = host.start(40).unwrap();
        assert_eq!((rest.job, rest.until), (0, 110), "70 of 100 were left");
        assert!(host.is_quiet());
    }
}
