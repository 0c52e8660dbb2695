//! Time passes.
//!
//! PROTOCOL §4.2, §5.4, §6.2, §6.4. Each row has at most one live entry in the timer heap: the moment it wants to be looked
//! at, which may be too early but never too late. Looking at a row does what is due and arms it again. Sending a packet
//! therefore costs a comparison, not a heap operation. Delayed acknowledgements all wait equally long, so a queue serves.

use crate::base::api::GoneReason;
use crate::base::limits::MS;
use crate::base::types::{Instant, Locator, Memory, PeerId};
use crate::endpoint::Endpoint;
use crate::peers::pairs::short_len;
use crate::peers::rows::Phase;

/// So late a first probe may be where nobody is awake: longer than the system's clock takes to tick, which costs nothing.
const FIRST_PROBE_LATE_NS: u64 = 4 * MS;

impl Endpoint {
    /// When `on_timeout` should be called next. It may turn out that nothing was due.
    pub fn next_timeout(&self) -> Instant {
        let mut at = self.peers().timers.wake_at();
        if self.aside.is_empty() {
            at = at.min(self.bulk().regrants_at()).min(self.messages.asks_at());
        }
        match self.peers().closing_look_at() {
            None if !self.messages.has_orphans() => at,
            _ if self.peers().is_closed() => Instant::NEVER,
            Some(look_at) if !self.messages.has_orphans() => at.min(look_at),
            _ => Instant(0),
        }
    }

    /// When something is to be done next, for a driver that sleeps until then. Acknowledgements that have left with something else meanwhile do not count, nor
    /// does the haste of a first probe (PROTOCOL §6.4): both are some microseconds away, and where a timer must be set in
    /// the host of a virtual machine that alone takes as long as the answer.
    pub fn next_timeout_for_sleep(&mut self, now: Instant) -> Instant {
        self.peers_mut().timers.wake_for_first();
        let at = self.next_timeout();
        let timers = &self.peers().timers;
        let Some(rows) = timers.rows_if_few().filter(|_| !self.peers().is_closing()) else {
            return at;
        };
        let others = self
            .bulk()
            .regrants_at()
            .min(self.messages.asks_at())
            .min(timers.ack_at())
            .min(timers.strangers_at());
        if at < timers.wake_at() || at == others {
            return at; // it is something else
        }
        let patient = now + FIRST_PROBE_LATE_NS;
        let at_of = |(at, row): (Instant, u32)| match self.peers().is_patient(row) {
            true => at.max(patient),
            false => at,
        };
        rows.map(at_of).fold(others, Instant::min)
    }

    /// What the endpoint waits for, and until when: for those who ask why it wakes.
    pub fn timeouts(&self) -> [(&'static str, Instant); 7] {
        let or_never = |at: Option<Instant>| {
            at.filter(|_| !self.peers().is_closed()).unwrap_or(Instant::NEVER)
        };
        [
            ("peers", or_never(Some(self.peers().timers.row_at()))),
            ("acks", or_never(Some(self.peers().timers.ack_at()))),
            ("strangers", or_never(Some(self.peers().timers.strangers_at()))),
            ("grants", or_never(Some(self.bulk().regrants_at()))),
            ("queries", or_never(Some(self.messages.asks_at()))),
            ("orphans", or_never((self.messages.has_orphans()).then_some(Instant(0)))),
            ("linger", or_never(self.peers().closing_look_at())),
        ]
    }

    /// Does what is due. Frames that have arrived must be handed in first: after a late turn (a stopped process, a
    /// suspended machine) the answer to a probe may be waiting in the link.
    pub fn on_timeout(&mut self, now: Instant, memory: &mut impl Memory) {
        if self.peers().is_closed() {
            return;
        }
        self.messages.deliver_orphans(now, memory);
        while let Some(row) = self.peers_mut().timers.next_ack(now) {
            self.peers_mut().on_ack_timer(now, row);
        }
        while let Some(row) = self.peers_mut().next_due_row(now) {
            self.on_row_timer(now, row);
        }
        self.peers_mut().forget_old_timers();
        if self.peers().timers.strangers_at() <= now {
            self.messages.bulk.peers.tend_strangers(now, &mut self.streams);
        }
        self.peers_mut().timers.wake_for_first();
        // What was granted, or asked for, may lie aside: nobody asks again before that was looked through.
        if self.aside.is_empty() {
            self.bulk_mut().regrant_if_due(now);
            self.messages.ask_if_due(now);
        }
        self.on_closing_time(now);
    }

    fn on_row_timer(&mut self, now: Instant, row: u32) {
        let is_expecting = self.streams.is_expecting(row);
        if !self.peers_mut().wakes_for(row, is_expecting) {
            return;
        }
        let ended = match self.peers().rows[row].phase() {
            Phase::Idle => return,
            Phase::Hello => self.peers_mut().tend_contact(now, row),
            Phase::Echo | Phase::Joined => self.tend_paths(now, row, is_expecting),
        };
        match ended {
            Some(reason) => self.end_association(now, row, Some(reason)),
            None => self.peers_mut().arm_for_next(now, row, is_expecting),
        }
    }

    /// Packets on their way: lost, or overdue. And the peer: alive? A reason: not any more.
    fn tend_paths(&mut self, now: Instant, row: u32, is_expecting: bool) -> Option<GoneReason> {
        for index in 0..self.peers().path_count(row) {
            if !self.bulk_mut().tend_flight(now, row, index) {
                continue;
            }
            self.settle_lost(row);
            let ended = self.peers_mut().tend_probe(now, row, index);
            self.settle_lost(row);
            if ended.is_some() {
                return ended;
            }
        }
        self.peers_mut().tend_calm(now, row, is_expecting);
        None
    }

    /// The link says that longer frames do not pass on the way there (PROTOCOL §6.6).
    pub fn on_too_long(&mut self, link: u8, locator: &Locator, frame_len_max: usize) {
        let frame_len_max = short_len(frame_len_max);
        self.peers_mut().change_paths(link, locator, |path| path.limit_frame_len(frame_len_max));
    }

    /// The driver knows that the peer's process is dead.
    pub fn on_peer_died(&mut self, now: Instant, peer: PeerId) {
        if self.peers().rows.known(peer).is_some_and(|row| row.is_in_contact()) {
            self.end_association(now, peer.row(), Some(GoneReason::Died));
        }
    }
}
