//! What is looked at now and then: letters, and whether peers are still there.

use std::time::{Duration, Instant};

use super::inputs::Input;
use super::letters::KNOCK;
use super::outputs::is_nobody;
use super::{Shm, locate};
use crate::Notice;
use crate::mem::Table;
use crate::sys::shm::is_over;

/// Calls of `receive` between two looks at the socket: a look costs as much as ten of them.
const CALLS_PER_LOOK: u32 = 512;
/// Letters of one look.
const LETTER_COUNT_MAX: usize = 64;
/// Between two looks whether peers are still there.
const PEERS_EVERY: Duration = Duration::from_millis(2);
/// Peers of one such look.
const PEERS_PER_LOOK: usize = 4;

/// When to look.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Calls until the next look.
    calls_left: u32,
    peers_at: Option<Instant>,
    /// Which peer was looked at last.
    peer: usize,
}

/// Whether its process has ended, as far as it can be seen from here.
fn is_orphaned(input: &Input) -> bool {
    input.pid > 0 && is_over(input.pid)
}

impl Watch {
    /// Counts a call.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        if self.calls_left == 0 {
            self.calls_left = CALLS_PER_LOOK;
            return true;
        }
        self.calls_left -= 1;
        false
    }

    /// The next call looks.
    pub(super) fn hurry(&mut self) {
        self.calls_left = 0;
    }
}

impl Shm {
    /// Reads letters, repeats what could not be done, looks after peers.
    #[cold]
    pub(super) fn attend(&mut self, memory: &mut Table) {
        let is_all = self.read_letters(memory);
        self.post.mind_gifts();
        self.retry_outputs();
        if !is_all {
            self.watch.hurry();
            return; // an offer of somebody who ended since may be among the rest
        }
        self.end_inputs();
        let now = Instant::now();
        if self.watch.peers_at.is_none_or(|at| now >= at) {
            self.watch.peers_at = Some(now + PEERS_EVERY);
            self.look_after_peers();
        }
    }

    /// Whether there are no more.
    fn read_letters(&mut self, memory: &mut Table) -> bool {
        for _ in 0..LETTER_COUNT_MAX {
            let Ok(Some(letter)) = self.post.receive() else { return true };
            self.counters.letters_in += 1;
            if *letter.bytes() != KNOCK {
                self.on_offer(letter, memory);
            }
        }
        false
    }

    fn look_after_peers(&mut self) {
        let count = self.outputs.len() + self.inputs.len();
        for _ in 0..PEERS_PER_LOOK.min(count) {
            let all = self.outputs.len() + self.inputs.len();
            if all == 0 {
                return;
            }
            self.watch.peer = (self.watch.peer + 1) % all;
            let (name, is_orphaned) = match self.watch.peer.checked_sub(self.outputs.len()) {
                None => (self.outputs[self.watch.peer].name, false),
                // A child that it forked may have its socket still.
                Some(input) => (self.inputs[input].name, is_orphaned(&self.inputs[input])),
            };
            let asked = self.post.ask(&locate::socket_name(name));
            if is_orphaned || asked.is_err_and(|error| is_nobody(&error)) {
                self.on_nobody(name);
            }
        }
    }

    /// No socket has that name any more, and none ever will: its process has ended. What it left in its ring is read first.
    #[cold]
    pub(super) fn on_nobody(&mut self, name: u64) {
        self.forget_output(name);
        match self.inputs.iter_mut().find(|input| input.name == name) {
            Some(input) => {
                input.end();
                self.watch.hurry();
            }
            None => self.mourn(name),
        }
    }

    /// Forgets those that have ended and left nothing more to read.
    fn end_inputs(&mut self) {
        for index in (0..self.inputs.len()).rev() {
            let input = &self.inputs[index];
            if input.ending.is_none() {
                continue;
            }
            if input.is_over() {
                let name = input.name;
                self.inputs.swap_remove(index);
                self.mourn(name);
            } else {
                self.watch.hurry();
            }
        }
    }

    fn mourn(&mut self, name: u64) {
        self.counters.peers_dead += 1;
        self.notice(Notice::Dead { to: locate::to_locator(self.host, name) });
    }
}
