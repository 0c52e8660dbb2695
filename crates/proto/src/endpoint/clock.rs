//! Time passes.
//!
//! PROTOCOL §4.2, §5.4, §6.2, §6.4. Each row has at most one live entry in the timer heap: the moment it wants to be looked
//! at, which may be too early but never too late. Looking at a row does what is due and arms it again. Sending a packet
//! therefore costs a comparison, not a heap operation. Delayed acknowledgements all wait equally long, so a queue serves.

use core::cmp::Reverse;

use crate::base::api::GoneReason;
use crate::base::limits::{MS, SECOND};
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Locator, Memory, PeerId};
use crate::delivery::path::{AckDue, Path};
use crate::endpoint::Endpoint;
use crate::peers::pairs::short_len;
use crate::peers::rows::{Farewell, Phase, Row};

/// Unanswered probes before silence may end an association.
const GONE_PROBE_COUNT: u32 = 5;
/// Silence after which unanswered probes mean that the path's window is void.
const COLLAPSE_NS: u64 = 20 * MS;
/// Unanswered probes before a path is left for another.
const LEAVE_PROBE_COUNT: u32 = 3;
/// So late a first probe may be where nobody is awake: longer than the system's clock takes to tick, which costs nothing.
const FIRST_PROBE_LATE_NS: u64 = 4 * MS;
/// With more timers than this it is not worth asking which of them have time.
const PATIENT_COUNT_MAX: usize = 2 * OLD_TIMER_COUNT_MAX;
/// So many old timers are swept out by themselves.
const OLD_TIMER_COUNT_MAX: usize = 8;
/// A quiet row's active record is put away after this.
const REST_AFTER_NS: u64 = SECOND;

impl Endpoint {
    /// When `on_timeout` should be called next. It may turn out that nothing was due.
    pub fn next_timeout(&self) -> Instant {
        debug_assert!(self.wake_at <= self.first_timer(), "a timer would be missed");
        let mut at = self.wake_at;
        if self.aside.is_empty() {
            at = at.min(self.regrant_at).min(self.queries.at);
        }
        match &self.closing {
            None if self.orphans.is_empty() => at,
            _ if self.closed => Instant::NEVER,
            Some(closing) if self.orphans.is_empty() => at.min(closing.look_at),
            _ => Instant(0),
        }
    }

    /// The same, for one who sleeps until then. Acknowledgements that have left with something else meanwhile do not count, nor
    /// does the haste of a first probe (PROTOCOL §6.4): both are some microseconds away, and where a timer must be set in
    /// the host of a virtual machine that alone takes as long as the answer.
    pub fn next_timeout_for_sleep(&mut self, now: Instant) -> Instant {
        self.wake_at = self.first_timer();
        let at = self.next_timeout();
        if self.timers.len() > PATIENT_COUNT_MAX || self.closing.is_some() {
            return at;
        }
        let acks = self.ack_timers.front().map_or(Instant::NEVER, |&(at, _)| at);
        let others = self.regrant_at.min(self.queries.at).min(acks).min(self.tend_at);
        if at < self.wake_at || at == others {
            return at; // it is something else
        }
        let patient = now + FIRST_PROBE_LATE_NS;
        let at_of = |&Reverse((at, row)): &Reverse<(Instant, u32)>| match self.is_patient(row) {
            true => at.max(patient),
            false => at,
        };
        self.timers.iter().map(at_of).fold(others, Instant::min)
    }

    /// Whether all that a row's timer can be about is a first probe, or is never in haste. Old timers have all the time.
    fn is_patient(&self, row: u32) -> bool {
        let Some(this) = self.rows.get(row) else { return true };
        if this.active == NONE || this.phase != Phase::Joined {
            return false;
        }
        self.actives[this.active]
            .paths
            .iter()
            .all(|path| path.probe_count == 0 && path.flight.loss_deadline(0) == Instant::NEVER)
    }

    /// When the first timer of a row, of an acknowledgement or of idle strangers is due.
    fn first_timer(&self) -> Instant {
        let row = self.timers.peek().map_or(Instant::NEVER, |&Reverse((at, _))| at);
        self.ack_timers.front().map_or(row, |&(at, _)| row.min(at)).min(self.tend_at)
    }

    /// An acknowledgement leaves in its time.
    #[inline(always)]
    pub(crate) fn see_to_ack(&mut self, row: u32, due: AckDue) {
        match due {
            AckDue::Now => self.rows.make_ready(row),
            AckDue::At(at) => self.arm_ack(at, row),
            AckDue::Known => {}
        }
    }

    /// An acknowledgement must leave then; later than all that were told before.
    #[inline]
    fn arm_ack(&mut self, at: Instant, row: u32) {
        self.ack_timers.push_back((at, row));
        self.wake_at = self.wake_at.min(at);
    }

    /// What the endpoint waits for, and until when: for those who ask why it wakes.
    pub fn timeouts(&self) -> [(&'static str, Instant); 7] {
        let or_never = |at: Option<Instant>| at.filter(|_| !self.closed).unwrap_or(Instant::NEVER);
        [
            ("peers", or_never(self.timers.peek().map(|&Reverse((at, _))| at))),
            ("acks", or_never(self.ack_timers.front().map(|&(at, _)| at))),
            ("strangers", or_never(Some(self.tend_at))),
            ("grants", or_never(Some(self.regrant_at))),
            ("queries", or_never(Some(self.queries.at))),
            ("orphans", or_never((!self.orphans.is_empty()).then_some(Instant(0)))),
            ("linger", or_never(self.closing.as_ref().map(|closing| closing.look_at))),
        ]
    }

    /// Does what is due. Frames that have arrived must be handed in first: after a late turn (a stopped process, a
    /// suspended machine) the answer to a probe may be waiting in the link.
    pub fn on_timeout(&mut self, now: Instant, memory: &mut impl Memory) {
        if self.closed {
            return;
        }
        self.deliver_orphans(now, memory);
        while let Some(&(at, row)) = self.ack_timers.front()
            && at <= now
        {
            self.ack_timers.pop_front();
            self.on_ack_timer(now, row);
        }
        while let Some(&Reverse((at, row))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            if self.rows.get(row).is_some_and(|this| this.timer_at == at) {
                self.rows[row].timer_at = Instant::NEVER;
                self.on_row_timer(now, row);
            }
        }
        self.forget_old_timers();
        if self.tend_at <= now {
            self.tend_strangers(now);
        }
        self.wake_at = self.first_timer();
        // What was granted, or asked for, may lie aside: nobody asks again before that was looked through.
        if self.aside.is_empty() {
            if self.regrant_at <= now {
                self.regrant(now);
            }
            if self.queries.at <= now {
                self.ask_queries(now);
            }
        }
        self.on_closing_time(now);
    }

    /// A row that is armed anew for an earlier time leaves its old entry behind, for up to a second: a thousand and more of one
    /// busy row. They are swept out when there are more of them than of the others.
    fn forget_old_timers(&mut self) {
        if self.timers.len() > OLD_TIMER_COUNT_MAX + 2 * self.rows.len() {
            let rows = &self.rows;
            let is_live = |at: Instant, row: u32| rows.get(row).is_some_and(|it| it.timer_at == at);
            self.timers.retain(|&Reverse((at, row))| is_live(at, row));
        }
    }

    /// The row wants to be looked at no later than `at`.
    #[inline]
    pub(crate) fn arm(&mut self, at: Instant, row: u32) {
        let this = &mut self.rows[row];
        if at < this.timer_at {
            this.timer_at = at;
            self.wake_at = self.wake_at.min(at);
            self.timers.push(Reverse((at, row)));
        }
    }

    /// Something is in flight where nothing was, or the oldest in flight is another: the row is looked at in time for
    /// it. What follows on the same path changes nothing about that.
    pub(crate) fn arm_flight(&mut self, row: u32, index: usize) {
        let path = &self.actives[self.rows[row].active].paths[index];
        let deadline = path.flight_deadline(self.settings.ack_delay_ns);
        self.arm(deadline, row);
    }

    fn on_ack_timer(&mut self, now: Instant, row: u32) {
        let Some(active) =
            self.rows.get(row).map(|this| this.active).filter(|&active| active != NONE)
        else {
            return;
        };
        let mut due = false;
        for path in &mut self.actives[active].paths {
            if path.ack_due <= now && path.ack_pending_count > 0 {
                path.ack_at_once = true;
                due = true;
            }
        }
        if due {
            self.make_ready(row);
        }
    }

    fn on_row_timer(&mut self, now: Instant, row: u32) {
        if self.rows[row].active == NONE {
            // At rest. Only a directed receive or an open stream can want something of it: to know whether it lives.
            if self.rows[row].phase == Phase::Idle || !self.is_owed(row) {
                return;
            }
            self.activate(row);
        }
        match self.rows[row].phase {
            Phase::Idle => return,
            Phase::Hello => self.tend_contact(now, row),
            Phase::Echo | Phase::Joined => self.tend_paths(now, row),
        }
        if self.rows[row].phase == Phase::Idle || self.rows[row].active == NONE {
            return;
        }
        let next = self.row_deadline(now, row);
        self.arm(next, row);
    }

    /// Hello went unanswered: again, or no more.
    fn tend_contact(&mut self, now: Instant, row: u32) {
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
            self.end_association(now, row, Some(GoneReason::Unanswered));
        } else {
            self.make_ready(row);
        }
    }

    /// Packets on their way: lost, or overdue. And the peer: alive?
    fn tend_paths(&mut self, now: Instant, row: u32) {
        let active = self.rows[row].active;
        for index in 0..self.actives[active].paths.len() {
            let path = &self.actives[active].paths[index];
            if path.flight.is_empty() {
                continue;
            }
            if path.flight.loss_deadline(path.rtt.loss_delay_ns()) <= now
                && !self.saboteur.makes(Sabotage::LossNeverDetected)
            {
                self.detect_lost(now, row, index);
            }
            let path = &self.actives[active].paths[index];
            if path.probe_deadline(self.settings.ack_delay_ns) <= now {
                self.on_probe_time(now, row, index);
                if self.rows[row].phase == Phase::Idle {
                    return;
                }
            }
        }
        let probing = |path: &Path| path.is_usable() && path.frame_probe_due(now).is_some();
        let mut paths = self.actives[active].paths.iter();
        if paths.any(|path| path.wants_challenge(now) || probing(path)) {
            self.make_ready(row);
        }
        self.tend_silence(now, row);
        self.tend_idleness(now, row);
    }

    /// Nothing was acknowledged for a probe time.
    fn on_probe_time(&mut self, now: Instant, row: u32, index: usize) {
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
        if path.probe_count >= GONE_PROBE_COUNT && (said_goodbye || silent_ns >= gone_after_ns) {
            self.end_association(now, row, Some(GoneReason::Silent));
            return;
        }
        if self.saboteur.makes(Sabotage::TimerNotRearmed) && path.probe_count > 0 {
            path.probe_count = GONE_PROBE_COUNT;
            return;
        }
        path.probe_count += 1;
        (path.probe_now, path.is_refresh) = (true, false);
        path.progress_at = now;
        self.counters.probes += 1;
        // Two probes in a row may find a process that does not run just now; a path that fell silent stays so.
        if path.probe_count > 1 && silent_ns >= COLLAPSE_NS {
            path.window.on_probe_timeout_repeated();
        }
        let is_silent_for_long = path.probe_count >= LEAVE_PROBE_COUNT;
        if is_silent_for_long && self.actives[active].wake_streams() {
            self.make_ready(row);
        }
        let path = &mut self.actives[active].paths[index];
        if is_silent_for_long && others && path.is_usable() {
            let is_silent = path.probe_count == LEAVE_PROBE_COUNT
                || self.rows[row].heard_at <= path.others_asked_at;
            match is_silent {
                true => self.ask_others(now, row, index),
                false => self.leave_path(now, row, index),
            }
        }
        self.make_ready(row);
    }

    /// Nobody answers by a path. Either it is dead, or nobody drives the peer, which computes: the other paths tell.
    fn ask_others(&mut self, now: Instant, row: u32, index: usize) {
        let paths = &mut self.actives[self.rows[row].active].paths;
        paths[index].others_asked_at = now;
        let is_idle = |path: &Path| path.is_usable() && !path.probe_now && path.flight.is_empty();
        let others = paths.iter_mut().enumerate().filter(|(other, _)| *other != index);
        for (_, path) in others.filter(|(_, path)| is_idle(path)) {
            (path.probe_now, path.is_refresh) = (true, true);
        }
    }

    /// A silent path is left while others work; what it carried goes elsewhere (PROTOCOL §6.5).
    pub(crate) fn leave_path(&mut self, now: Instant, row: u32, index: usize) {
        let active = self.rows[row].active;
        let pause_ns = 2 * self.settings.initial_rtt_ns;
        let path = &mut self.actives[active].paths[index];
        let is_forgotten = path.is_stream && self.saboteur.makes(Sabotage::RangeLostAtBreak);
        let mut flight = path.leave(now, pause_ns);
        self.counters.paths_lost += 1;
        let count = flight.abandon(&mut |content| {
            if !is_forgotten {
                self.on_content_lost(row, content);
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
    fn tend_silence(&mut self, now: Instant, row: u32) {
        if self.is_owed(row) && now >= self.ping_at(row) {
            let active = &mut self.actives[self.rows[row].active];
            if active.paths.iter().all(|path| path.flight.is_empty()) {
                active.ping = true;
                self.make_ready(row);
            }
        }
    }

    fn ping_at(&self, row: u32) -> Instant {
        let this = &self.rows[row];
        this.heard_at + self.gone_after_ns(this) / 4
    }

    /// Something of the peer's is waited for (PROTOCOL §4.2).
    fn is_owed(&self, row: u32) -> bool {
        let this = &self.rows[row];
        let sending = this.active != NONE && self.actives[this.active].first != NONE;
        let side = self.actives.get(this.active).and_then(|active| active.side.as_ref());
        let operating = side.is_some_and(|side| side.operation_count > 0);
        let waiting = this.directed_count > 0 || this.arrival_count > 0;
        sending || operating || waiting || self.streams.is_expecting(row)
    }

    fn tend_idleness(&mut self, now: Instant, row: u32) {
        let active = self.rows[row].active;
        // A record that has just been made does not know since when.
        if !self.actives[active].is_quiet()
            || self.rows[row].refused_from != crate::peers::rows::NO_MESSAGE
            || self.actives[active].idle_since == Instant(0)
        {
            self.actives[active].idle_since = now;
        } else if now.since_ns(self.actives[active].idle_since) >= REST_AFTER_NS
            && self.rows[row].phase == Phase::Joined
        {
            let has_hope = self.actives[active].paths.iter().any(|path| path.is_hopeful());
            if !has_hope && !self.rows[row].is_ready && !self.is_owed(row) {
                self.rest(now, row);
            }
        }
    }

    /// When the row must be looked at next.
    fn row_deadline(&self, now: Instant, row: u32) -> Instant {
        let this = &self.rows[row];
        let active = &self.actives[this.active];
        if this.phase == Phase::Hello {
            return active.contact.hello_at.max(now + 1);
        }
        let mut at = now + REST_AFTER_NS;
        for path in &active.paths {
            at = at.min(path.flight_deadline(self.settings.ack_delay_ns));
            if path.is_usable() && this.phase == Phase::Joined {
                at = at.min(path.frame_probe_at());
            }
            at = at.min(path.challenge_deadline().max(now + 1));
        }
        let waiting = active.ping || active.paths.iter().any(|path| !path.flight.is_empty());
        if !waiting && self.is_owed(row) {
            at = at.min(self.ping_at(row)); // else an answer is under way, or its probe
        }
        // A saboteur who does not look for losses must not be asked at every tick either.
        let pause_ns = if self.saboteur.makes(Sabotage::LossNeverDetected) { MS } else { 1 };
        at.max(now + pause_ns)
    }

    /// The link says that longer frames do not pass on the way there (PROTOCOL §6.6).
    pub fn on_too_long(&mut self, link: u8, locator: &Locator, frame_len_max: usize) {
        let frame_len_max = short_len(frame_len_max);
        self.change_paths(link, locator, |path| path.limit_frame_len(frame_len_max));
    }

    /// The driver knows that the peer's process is dead.
    pub fn on_peer_died(&mut self, now: Instant, peer: PeerId) {
        if self.rows.known(peer).is_some_and(|row| row.phase != Phase::Idle) {
            self.end_association(now, peer.row(), Some(GoneReason::Died));
        }
    }
}
