//! For tests: a link that keeps whoever asks it, so that a turn lasts as long as a test wants; or takes its time, or panics.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use packhorse_link::mem::Table;
use packhorse_link::{About, Arrived, Burst, Landing, Link, Locator, Notice, Reliability, Telling};

/// The way in, shared by the link and the test.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_shut: bool,
    is_somebody_inside: bool,
    is_armed: bool,
    panics: bool,
    takes: Duration,
    notice: Option<Notice>,
}

impl Gate {
    /// Keeps the next who asks; returns when somebody is kept.
    pub(crate) fn shut(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_shut = true;
        let waited = self.changed.wait_while(state, |state| !state.is_somebody_inside);
        drop(waited.unwrap());
    }

    /// Lets all go.
    pub(crate) fn open(&self) {
        self.state.lock().unwrap().is_shut = false;
        self.changed.notify_all();
    }

    /// Whether the link was told that somebody sleeps, and not since that nobody does.
    pub(crate) fn is_armed(&self) -> bool {
        self.state.lock().unwrap().is_armed
    }

    /// Whoever asks from now on panics.
    pub(crate) fn panic(&self) {
        self.state.lock().unwrap().panics = true;
    }

    /// From now on whoever asks is busy for so long.
    pub(crate) fn take(&self, time: Duration) {
        self.state.lock().unwrap().takes = time;
    }

    /// The link has this to tell.
    pub(crate) fn notice(&self, notice: Notice) {
        self.state.lock().unwrap().notice = Some(notice);
    }

    /// Whether it was told.
    pub(crate) fn is_told(&self) -> bool {
        self.state.lock().unwrap().notice.is_none()
    }

    fn pass(&self) {
        let begin = Instant::now();
        let mut state = self.state.lock().unwrap();
        if state.panics {
            drop(state);
            panic!("a link that panics, for a test");
        }
        if state.is_shut {
            state.is_somebody_inside = true;
            self.changed.notify_all();
            state = self.changed.wait_while(state, |state| state.is_shut).unwrap();
            state.is_somebody_inside = false;
        }
        while begin.elapsed() < state.takes {}
    }
}

/// Receives nothing, and what it sends is lost.
pub(crate) struct Slow {
    about: About,
    gate: Arc<Gate>,
    is_costly: bool,
}

impl Slow {
    pub(crate) fn new(gate: &Arc<Gate>) -> Box<Self> {
        let about = About {
            kind: "slow",
            frame_len_max: 1500,
            train_len_max: 0,
            train_count_max: 0,
            reliability: Reliability::Lossy,
            is_checked: true,
            is_private: false,
            can_land: false,
            backlog_len_max: 1 << 20,
        };
        Box::new(Self { about, gate: Arc::clone(gate), is_costly: false })
    }

    /// One that says that asking it takes a system call.
    pub(crate) fn costly(gate: &Arc<Gate>) -> Box<Self> {
        Box::new(Self { is_costly: true, ..*Self::new(gate) })
    }
}

impl Link for Slow {
    fn about(&self) -> &About {
        &self.about
    }

    fn locator(&self) -> Locator {
        [b'U'; 24]
    }

    fn may_reach(&mut self, _: &Locator) -> bool {
        true
    }

    fn frame_len_to(&mut self, _: &Locator) -> usize {
        self.about.frame_len_max
    }

    fn card_to(&mut self, _: &Locator) -> u32 {
        0
    }

    fn send(&mut self, burst: &Burst, first: usize, _: &mut Table) -> io::Result<usize> {
        Ok(burst.len() - first)
    }

    fn send_now(&mut self, _: &Locator, _: &[u8], _: usize) -> bool {
        false
    }

    fn receive(&mut self, _: Option<&Landing>, _: &mut Table) -> io::Result<usize> {
        self.gate.pass();
        Ok(0)
    }

    fn arrived(&self, index: usize) -> Arrived<'_> {
        unreachable!("nothing arrived, and number {index} was asked for")
    }

    fn is_costly_to_ask(&self) -> bool {
        self.is_costly
    }

    fn lift(&mut self, _: usize, _: usize, _: &mut Table) {}

    fn telling(&mut self) -> Option<&mut dyn Telling<Table>> {
        None
    }

    fn set_trains(&mut self, _: bool) {}

    fn poll_notice(&mut self) -> Option<Notice> {
        self.gate.state.lock().unwrap().notice.take()
    }

    fn poll_remark(&mut self) -> Option<String> {
        None
    }

    fn arm(&mut self) -> bool {
        self.gate.state.lock().unwrap().is_armed = true;
        true
    }

    fn disarm(&mut self) {
        self.gate.state.lock().unwrap().is_armed = false;
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn each_counter(&self, _: &mut dyn FnMut(&'static str, u64)) {}
}
