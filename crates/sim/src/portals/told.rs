//! The model of what is told and counted, and what that sets off: event queues, counters, triggers (B.7 to B.9).

use std::collections::VecDeque;

use packhorse_proto::portals::codes::{ack, event, fail, md, portal};
use packhorse_proto::portals::{Count, PortalsEvent};

use super::ledger::{Op, Told};
use super::model::Model;

/// An event queue.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) ni: u8,
    pub(super) handle: u32,
    pub(super) count_max: usize,
    pub(super) events: VecDeque<PortalsEvent>,
    pub(super) has_lost: bool,
}

/// A counter, with what waits for it in the order of posting.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    pub(super) ni: u8,
    pub(super) handle: u32,
    pub(super) count: Count,
    pub(super) waiting: Vec<(u64, Due)>,
    pub(super) is_freed: bool,
}

/// Something to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The operation with this number begins.
    Move(u64),
    /// A counter moves, or is set.
    Add(usize, Count),
    Set(usize, Count),
    /// An entry is linked, or unlinked if nothing uses it.
    Link(usize),
    Unlink(usize),
}

impl Model {
    /// Tells an event. A full queue stops the portals that asked for that.
    pub(super) fn tell(&mut self, queue: Option<usize>, event: PortalsEvent) {
        let Some(queue) = queue else { return };
        self.push(queue, event);
        if self.queues[queue].events.len() >= self.queues[queue].count_max {
            self.stop_all(queue);
        }
    }

    fn push(&mut self, queue: usize, event: PortalsEvent) {
        // Each portal with flow control has a place of its own for the word that it was stopped.
        let ni = self.queues[queue].ni;
        let portals = self.ni(ni).portals.iter();
        let reserve = portals
            .filter(|this| this.options & portal::FLOWCTRL != 0 && this.queue == Some(queue))
            .count();
        let this = &mut self.queues[queue];
        if this.events.len() >= (this.count_max + reserve).max(1) {
            this.events.pop_front();
            this.has_lost = true;
        }
        this.events.push_back(event);
    }

    fn stop_all(&mut self, queue: usize) {
        let ni = self.queues[queue].ni;
        let mut stopped = Vec::new();
        for (index, this) in self.ni_mut(ni).portals.iter_mut().enumerate() {
            let is_meant = this.options & portal::FLOWCTRL != 0 && this.queue == Some(queue);
            if is_meant && this.is_enabled {
                this.is_enabled = false;
                stopped.push(index as u32);
            }
        }
        for portal in stopped {
            self.push(queue, stopped_event(portal));
        }
    }

    /// Counts something that ended so.
    pub(super) fn tally(&mut self, counter: Option<usize>, failed: u8, amount: u64) {
        let Some(counter) = counter else { return };
        let Count { success, failure } = self.counters[counter].count;
        let count = match failed {
            fail::OK => Count { success: success.wrapping_add(amount), failure },
            _ => Count { success, failure: failure + 1 },
        };
        self.set_count(counter, count);
    }

    pub(super) fn set_count(&mut self, counter: usize, count: Count) {
        if !self.counters[counter].is_freed {
            self.counters[counter].count = count;
            self.fire(counter);
        }
    }

    /// All whose threshold is reached, in the order of posting.
    fn fire(&mut self, counter: usize) {
        let this = &mut self.counters[counter];
        let reached = this.count.success.saturating_add(this.count.failure);
        let (fired, waiting) =
            std::mem::take(&mut this.waiting).into_iter().partition(|(at, _)| *at <= reached);
        this.waiting = waiting;
        let fired: Vec<(u64, Due)> = fired;
        self.due.extend(fired.into_iter().map(|(_, due)| due));
    }

    /// Whether something may wait for a counter: it does then, or is due.
    pub(super) fn wait_for(&mut self, counter: usize, threshold: u64, due: Due) -> bool {
        let most = self.ni(self.counters[counter].ni).limits.trigger_count_max as usize;
        let this = &mut self.counters[counter];
        let reached = this.count.success.saturating_add(this.count.failure);
        if reached < threshold && this.waiting.len() >= most {
            return false;
        }
        this.waiting.push((threshold, due));
        self.fire(counter);
        true
    }

    /// What waits for a counter never comes: operations and entries that were to be linked.
    pub(super) fn cancel_waiting(&mut self, counter: usize) -> Vec<u64> {
        let mut moves = Vec::new();
        for (_, due) in std::mem::take(&mut self.counters[counter].waiting) {
            match due {
                Due::Move(id) => moves.push(id),
                Due::Link(entry) => self.drop_entry(entry),
                Due::Add(..) | Due::Set(..) | Due::Unlink(_) => {}
            }
        }
        moves
    }

    /// The next operation that is due; what else is due before it is done.
    pub(super) fn next_due(&mut self) -> Option<u64> {
        loop {
            match self.due.pop_front()? {
                Due::Move(id) => return Some(id),
                Due::Add(counter, more) => {
                    let Count { success, failure } = self.counters[counter].count;
                    let success = success.wrapping_add(more.success);
                    let failure = failure.wrapping_add(more.failure);
                    self.set_count(counter, Count { success, failure });
                }
                Due::Set(counter, count) => self.set_count(counter, count),
                Due::Link(entry) => self.link(entry),
                Due::Unlink(entry) => {
                    let _ = self.unlink(entry);
                }
            }
        }
    }

    /// An operation of this process is over: what is told and counted, in its order.
    pub(super) fn ended(&mut self, op: &Op, id: u64, failed: Option<u8>) {
        let told = PortalsEvent { user: id, ..PortalsEvent::default() };
        if let Some(put) = op.put {
            let fail = failed.unwrap_or(fail::OK);
            let is_told = put.options & md::EVENT_SEND_DISABLE == 0;
            let event = PortalsEvent { kind: event::SEND, fail, moved_len: op.len, ..told };
            self.step(&put, is_told, md::EVENT_CT_SEND, event);
        }
        let outcome = op.outcome.unwrap_or_default();
        let answered = PortalsEvent {
            fail: failed.unwrap_or(outcome.fail),
            moved_len: outcome.len,
            offset: outcome.offset,
            list: outcome.list,
            ..told
        };
        if let Some(get) = op.get {
            let event = PortalsEvent { kind: event::REPLY, ..answered };
            return self.step(&get, true, md::EVENT_CT_REPLY, event);
        }
        let Some(put) = op.put else { return };
        let event = PortalsEvent { kind: event::ACK, ..answered };
        match op.ack {
            ack::FULL => self.step(&put, true, md::EVENT_CT_ACK, event),
            ack::COUNTED => self.step(&put, false, md::EVENT_CT_ACK, event),
            ack::OVER if put.options & md::EVENT_CT_ACK != 0 => {
                self.tally(put.counter, failed.unwrap_or(fail::OK), 1);
            }
            _ => {}
        }
    }

    fn step(&mut self, told: &Told, is_told: bool, counts: u32, event: PortalsEvent) {
        let is_silent = event.fail == fail::OK && told.options & md::EVENT_SUCCESS_DISABLE != 0;
        if is_told && !is_silent {
            self.tell(told.queue, event);
        }
        if told.options & counts != 0 {
            let in_bytes = told.options & md::EVENT_CT_BYTES != 0;
            self.tally(told.counter, event.fail, if in_bytes { event.moved_len } else { 1 });
        }
    }
}

pub(super) fn stopped_event(portal: u32) -> PortalsEvent {
    let (kind, fail) = (event::PT_DISABLED, fail::PT_DISABLED);
    PortalsEvent { kind, portal, fail, ..PortalsEvent::default() }
}

/// Whether both tell the same. Of a failure only what happened to whom is defined.
pub(super) fn is_same(model: &PortalsEvent, told: &PortalsEvent) -> bool {
    if model.fail == fail::OK {
        return model == told;
    }
    (model.kind, model.user, model.fail) == (told.kind, told.user, told.fail)
}
