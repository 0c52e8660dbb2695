//! Time passes for peers: timers of rows, probes, silence and rest.
//!
//! PROTOCOL §4.2, §5.4, §6.2, §6.4. Each row has at most one live entry in the timer heap: the moment it wants to be looked
//! at, which may be too early but never too late. Looking at a row does what is due and arms it again. Sending a packet
//! therefore costs a comparison, not a heap operation. Delayed acknowledgements all wait equally long, so a queue serves.

use crate::base::slab::NONE;
use crate::delivery::path::{AckDue, Path};
use crate::peers::Peers;
use crate::peers::rows::{Farewell, Phase, Row};
use crate::{GoneReason, Instant, MS, SECOND, Sabotage};

impl Peers {
    /// Whether all that a row's timer can be about is a first probe, or is never in haste. Old timers have all the time.
    pub(crate) fn is_patient(&self, row: u32) -> bool {
        let Some(this) = self.rows.get(row) else { return true };
        if this.active == NONE || this.phase != Phase::Joined {
            return false;
        }
        self.actives[this.active]
            .paths
            .iter()
            .all(|path| path.probe_count() == 0 && path.flight().loss_deadline(0) == Instant::NEVER)
    }

    /// An acknowledgement leaves in its time.
    #[inline(always)]
    pub(crate) fn see_to_ack(&mut self, row: u32, due: AckDue) {
        match due {
            AckDue::Now => self.rows.make_ready(row),
            AckDue::At(at) => self.timers.arm_ack(at, row),
            AckDue::Known => {}
        }
    }

    /// A row that is armed anew for an earlier time leaves its old entry behind, for up to a second: a thousand and more of one
    /// busy row. They are swept out when there are more of them than of the others.
    pub(crate) fn forget_old_timers(&mut self) {
        let rows = &self.rows;
        let is_live = |at: Instant, row: u32| rows.get(row).is_some_and(|it| it.timer_at == at);
        self.timers.forget_old(rows.len(), is_live);
    }

    /// The row wants to be looked at no later than `at`.
    #[inline]
    pub(crate) fn arm(&mut self, at: Instant, row: u32) {
        let this = &mut self.rows[row];
        if at < this.timer_at {
            this.timer_at = at;
            self.timers.arm_row(at, row);
        }
    }

    /// A row that is to be looked at now; from now on it has no timer.
    pub(crate) fn next_due_row(&mut self, now: Instant) -> Option<u32> {
        while let Some((at, row)) = self.timers.next_row(now) {
            // Another row may have its place by now, or it was armed anew.
            let is_live = self.rows.get(row).is_some_and(|this| this.timer_at == at);
            if is_live {
                self.rows[row].timer_at = Instant::NEVER;
                return Some(row);
            }
        }
        None
    }

    /// Something is in flight where nothing was, or the oldest in flight is another: the row is looked at in time for
    /// it. What follows on the same path changes nothing about that.
    pub(crate) fn arm_flight(&mut self, row: u32, index: usize) {
        let path = &self.active_of(row).paths[index];
        let deadline = path.flight_deadline(self.settings.ack_delay_ns);
        self.arm(deadline, row);
    }

    pub(crate) fn on_ack_timer(&mut self, now: Instant, row: u32) {
        let Some(active) =
            self.rows.get(row).map(|this| this.active).filter(|&active| active != NONE)
        else {
            return;
        };
        let mut due = false;
        for path in self.actives[active].paths.iter_mut() {
            due |= path.urge_ack(now);
        }
        if due {
            self.make_ready(row);
        }
    }

    /// Hello went unanswered: again, or no more.
    pub(crate) fn tend_contact(&mut self, now: Instant, row: u32) -> Option<GoneReason> {
        let this = &self.rows[row];
        let contact = &self.actives[this.active].contact;
        // One without a helper may have other things to do than to answer.
        let after_ns = match this.has_helper {
            true => self.settings.contact_after_ns.min(self.settings.gone_after_ns),
            false => self.settings.gone_after_ns,
        };
        if now.since_ns(this.heard_at) >= after_ns
            && contact.hello_count >= GONE_PROBE_COUNT * contact.way_count()
        {
            return Some(contact.reason_or(GoneReason::Unanswered));
        }
        self.make_ready(row);
        None
    }

    /// Nothing was acknowledged for a probe time.
    fn on_probe_time(&mut self, now: Instant, row: u32, index: usize) -> Option<GoneReason> {
        let this = &self.rows[row];
        let gone_after_ns = self.gone_after_ns(this);
        if this.silent_from <= this.heard_at {
            // The first probe since it was heard: an idle peer is not a silent one, silence begins with the question.
            self.rows[row].silent_from = now;
        }
        let this = &self.rows[row];
        let silent_ns = now.since_ns(this.silent_from);
        let active = this.active;
        let others = self.actives[active]
            .paths
            .iter()
            .enumerate()
            .any(|(other, path)| other != index && path.is_usable());
        let said_goodbye = self.actives[active].goodbye == Farewell::Said;
        let path = &mut self.actives[active].paths[index];
        // A goodbye that nobody answers is not worth a minute: its last answer may be the one that was lost.
        if path.probe_count() >= GONE_PROBE_COUNT && (said_goodbye || silent_ns >= gone_after_ns) {
            return Some(GoneReason::Silent);
        }
        if self.saboteur.makes(Sabotage::TimerNotRearmed) && path.probe_count() > 0 {
            path.pretend_probed(GONE_PROBE_COUNT);
            return None;
        }
        path.on_probe_time(now);
        self.counters.probes += 1;
        // Two probes in a row may find a process that does not run just now; a path that fell silent stays so.
        if path.probe_count() > 1 && silent_ns >= COLLAPSE_NS {
            path.collapse_window();
        }
        let is_silent_for_long = path.probe_count() >= LEAVE_PROBE_COUNT;
        if is_silent_for_long && self.actives[active].wake_streams() {
            self.make_ready(row);
        }
        let path = &mut self.actives[active].paths[index];
        if is_silent_for_long && others && path.is_usable() {
            let is_silent = path.probe_count() == LEAVE_PROBE_COUNT
                || path.others_were_asked_since(self.rows[row].heard_at);
            match is_silent {
                true => self.ask_others(now, row, index),
                false => self.leave_path(now, row, index),
            }
        }
        self.make_ready(row);
        None
    }

    /// Nobody answers by a path. Either it is dead, or nobody drives the peer, which computes: the other paths tell.
    fn ask_others(&mut self, now: Instant, row: u32, index: usize) {
        let paths = &mut self.active_of_mut(row).paths;
        paths[index].on_others_asked(now);
        let is_idle =
            |path: &Path| path.is_usable() && !path.is_probe_due() && path.flight().is_empty();
        let others = paths.iter_mut().enumerate().filter(|(other, _)| *other != index);
        for (_, path) in others.filter(|(_, path)| is_idle(path)) {
            path.ask_for_round_trip();
        }
    }

    /// A silent path is left while others work; what it carried goes elsewhere (PROTOCOL §6.5).
    pub(crate) fn leave_path(&mut self, now: Instant, row: u32, index: usize) {
        let active = self.rows[row].active;
        let pause_ns = 2 * self.settings.initial_rtt_ns;
        let path = &mut self.actives[active].paths[index];
        let is_forgotten = path.forgets_lost(&self.saboteur);
        let mut flight = path.leave(now, pause_ns);
        self.counters.paths_lost += 1;
        let lost = &mut self.lost;
        let count = flight.abandon(&mut |content| {
            if !is_forgotten {
                lost.push(content);
            }
        });
        self.counters.packets_lost += u64::from(count);
        self.refit(row);
    }

    fn gone_after_ns(&self, row: &Row) -> u64 {
        if row.has_helper {
            self.settings.gone_after_ns
        } else {
            self.settings.gone_after_inline_ns
        }
    }

    /// Asks a peer that owes us something and was not heard for long.
    fn tend_silence(&mut self, now: Instant, row: u32, is_expecting: bool) {
        if self.is_owed(row, is_expecting) && now >= self.ping_at(row) {
            let active = self.active_of_mut(row);
            if active.paths.iter().all(|path| path.flight().is_empty()) {
                active.ask();
                self.make_ready(row);
            }
        }
    }

    fn ping_at(&self, row: u32) -> Instant {
        let this = &self.rows[row];
        this.heard_at + self.gone_after_ns(this) / 4
    }

    /// Something of the peer's is waited for (PROTOCOL §4.2). `is_expecting`: by a part above.
    fn is_owed(&self, row: u32, is_expecting: bool) -> bool {
        let this = &self.rows[row];
        let sending = this.active != NONE && !self.actives[this.active].line.is_empty();
        let side = self.actives.get(this.active).and_then(|active| active.side.as_ref());
        let operating = side.is_some_and(|side| side.is_operating());
        sending || operating || this.ties.are_waiting() || is_expecting
    }

    fn tend_idleness(&mut self, now: Instant, row: u32, is_expecting: bool) {
        let active = self.rows[row].active;
        // A record that has just been made does not know since when.
        if !self.actives[active].is_quiet()
            || self.rows[row].numbers.refused_from().is_some()
            || self.actives[active].idle_since == Instant(0)
        {
            self.actives[active].idle_since = now;
        } else if now.since_ns(self.actives[active].idle_since) >= REST_AFTER_NS
            && self.rows[row].phase == Phase::Joined
        {
            let has_hope = self.actives[active].paths.iter().any(|path| path.is_hopeful());
            if !has_hope && !self.rows[row].is_ready && !self.is_owed(row, is_expecting) {
                self.rest(now, row);
            }
        }
    }

    /// When the row must be looked at next.
    fn row_deadline(&self, now: Instant, row: u32, is_expecting: bool) -> Instant {
        let this = &self.rows[row];
        let active = &self.actives[this.active];
        if this.phase == Phase::Hello {
            return active.contact.hello_at.max(now + 1);
        }
        let mut at = now + REST_AFTER_NS;
        for path in active.paths.iter() {
            at = at.min(path.flight_deadline(self.settings.ack_delay_ns));
            if path.is_usable() && this.phase == Phase::Joined {
                at = at.min(path.frame_probe_at());
            }
            at = at.min(path.challenge_deadline().max(now + 1));
        }
        let waiting = active.ping || active.paths.iter().any(|path| !path.flight().is_empty());
        if !waiting && self.is_owed(row, is_expecting) {
            at = at.min(self.ping_at(row)); // else an answer is under way, or its probe
        }
        // A saboteur who does not look for losses must not be asked at every tick either.
        let pause_ns = if self.saboteur.makes(Sabotage::LossNeverDetected) { MS } else { 1 };
        at.max(now + pause_ns)
    }

    /// Whether a timer of this row has somebody to wake. At rest only a directed receive or an open stream can want something of the
    /// peer: to know whether it lives.
    pub(crate) fn wakes_for(&mut self, row: u32, is_expecting: bool) -> bool {
        if self.rows[row].active == NONE {
            if self.rows[row].phase == Phase::Idle || !self.is_owed(row, is_expecting) {
                return false;
            }
            self.activate(row);
        }
        true
    }

    pub(crate) fn path_count(&self, row: u32) -> usize {
        self.active_of(row).paths.len()
    }

    /// What is in flight by a path: is some of it lost? That is left in `lost`. `None`: nothing is in flight.
    pub(crate) fn tend_flight(&mut self, now: Instant, row: u32, index: usize) -> Option<bool> {
        let path = &self.active_of(row).paths[index];
        if path.flight().is_empty() {
            return None;
        }
        let is_due = path.flight().loss_deadline(path.rtt().loss_delay_ns()) <= now
            && !self.saboteur.makes(Sabotage::LossNeverDetected);
        Some(is_due && self.detect_lost(now, row, index))
    }

    /// Is what is in flight by a path overdue?
    pub(crate) fn tend_probe(
        &mut self,
        now: Instant,
        row: u32,
        index: usize,
    ) -> Option<GoneReason> {
        let path = &self.active_of(row).paths[index];
        match path.probe_deadline(self.settings.ack_delay_ns) <= now {
            true => self.on_probe_time(now, row, index),
            false => None,
        }
    }

    /// What else a row wants when time has passed.
    pub(crate) fn tend_calm(&mut self, now: Instant, row: u32, is_expecting: bool) {
        let probing = |path: &Path| path.is_usable() && path.frame_probe_due(now).is_some();
        let mut paths = self.active_of(row).paths.iter();
        if paths.any(|path| path.wants_challenge(now) || probing(path)) {
            self.make_ready(row);
        }
        self.tend_silence(now, row, is_expecting);
        self.tend_idleness(now, row, is_expecting);
    }

    /// The row is looked at again in time.
    pub(crate) fn arm_for_next(&mut self, now: Instant, row: u32, is_expecting: bool) {
        if self.rows[row].phase != Phase::Idle && self.rows[row].active != NONE {
            let next = self.row_deadline(now, row, is_expecting);
            self.arm(next, row);
        }
    }
}

/// Unanswered probes before silence may end an association.
pub(crate) const GONE_PROBE_COUNT: u32 = 5;

/// Silence after which unanswered probes mean that the path's window is void.
pub(crate) const COLLAPSE_NS: u64 = 20 * MS;

/// Unanswered probes before a path is left for another.
pub(crate) const LEAVE_PROBE_COUNT: u32 = 3;

/// A quiet row's active record is put away after this.
pub(crate) const REST_AFTER_NS: u64 = SECOND;
