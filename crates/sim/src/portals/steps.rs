//! What applications do in a run of Portals, but for operations on others: interfaces, entries, searches, counters, queues.

use std::collections::VecDeque;

use packhorse_link::sim::{NodeId, Rng};
use packhorse_proto::portals::codes::{entry, interface, portal};
use packhorse_proto::portals::{
    Count, EntrySpec, Portals, PortalsError, PortalsLimits, SearchKind,
};
use packhorse_proto::{BufId, List};

use super::ledger::Stage;
use super::model::{At, Ni, Portal};
use super::told::{Counter, Due, Queue};
use super::{Lent, Run};
use crate::draw::PERCENT;

/// Most portals of an interface.
pub(super) const PORTAL_COUNT_MAX: u64 = 3;

/// What a node is called on an interface.
pub(super) fn own(ni: u8, node: usize) -> u64 {
    match ni & interface::LOGICAL {
        0 => (100 + node as u64 / 2) | (7 + node as u64 % 2) << 32,
        _ => node as u64,
    }
}

/// For whom its requests come.
pub(super) fn uid(node: usize) -> u32 {
    1000 + node as u32 % 2
}

fn draw_limits(rng: &mut Rng) -> PortalsLimits {
    let mut limits = PortalsLimits::default();
    let is_small = |rng: &mut Rng| rng.chance(25 * PERCENT);
    if is_small(rng) {
        limits.header_count_max = rng.range(0..=4) as u32;
    }
    if is_small(rng) {
        limits.entry_count_max = rng.range(2..=12) as u32;
    }
    if is_small(rng) {
        limits.list_count_max = rng.range(1..=6) as u32;
    }
    if is_small(rng) {
        limits.trigger_count_max = rng.range(0..=3) as u32;
    }
    limits
}

/// Lengths of entries and operations: some of nothing, most short, some long enough to be granted.
pub(super) fn draw_len(rng: &mut Rng) -> u64 {
    match rng.below(100) {
        0..5 => 0,
        5..60 => rng.range(1..=64),
        60..80 => rng.range(1..=960),
        80..95 => rng.range(900..=4000),
        _ => rng.range(4000..=40_000),
    }
}

/// Start of life: interfaces, queues, counters, portals.
impl Run {
    pub(super) fn set_up(&mut self, index: usize) {
        self.portals_of(index).keep_witness();
        for ni in self.nis {
            let limits = draw_limits(&mut self.rng);
            self.portals_of(index).open(ni, limits, own(ni, index), uid(index));
            let (portals, registers) = (Vec::new(), [0; 3]);
            self.processes[index].model.nis.push(Ni { ni, limits, portals, registers });
            for _ in 0..self.rng.range(1..=2) {
                let small = self.rng.range(1..=12);
                let count_max = if self.rng.chance(20 * PERCENT) { small } else { 10_000 };
                let handle = self.portals_of(index).add_queue(ni, count_max).expect("room");
                let (count_max, events, has_lost) = (count_max as usize, VecDeque::new(), false);
                let queue = Queue { ni, handle, count_max, events, has_lost };
                self.processes[index].model.queues.push(queue);
            }
            for _ in 0..self.rng.range(1..=3) {
                let handle = self.portals_of(index).add_counter(ni).expect("room");
                let (count, waiting, is_freed) = (Count::default(), Vec::new(), false);
                let counter = Counter { ni, handle, count, waiting, is_freed };
                self.processes[index].model.counters.push(counter);
            }
            for _ in 0..self.rng.range(1..=PORTAL_COUNT_MAX) {
                self.add_portal(index, ni);
            }
        }
    }

    fn add_portal(&mut self, index: usize, ni: u8) {
        let has_flow_control = self.rng.chance(40 * PERCENT);
        let is_told = has_flow_control || self.rng.chance(90 * PERCENT);
        let queue = self.any_queue(index, ni).filter(|_| is_told);
        let mut options = if has_flow_control { portal::FLOWCTRL } else { 0 };
        if self.rng.chance(5 * PERCENT) {
            options |= portal::ALLOC_DISABLED;
        }
        let handle = queue.map(|queue| self.processes[index].model.queues[queue].handle);
        let added = self.portals_of(index).add_portal(ni, options, handle, None);
        let portals = &mut self.processes[index].model.ni_mut(ni).portals;
        let expected = portals.len() as u32;
        portals.push(Portal::new(options, queue));
        if added != Ok(expected) {
            self.violation(index, format!("portal {expected} became {added:?}"));
        }
    }

    pub(super) fn portals_of(&mut self, index: usize) -> &mut Portals {
        self.world.portals(NodeId(index as u32))
    }

    pub(super) fn any_queue(&mut self, index: usize, ni: u8) -> Option<usize> {
        let queues = self.processes[index].model.queues.iter().enumerate();
        let of_ni: Vec<usize> =
            queues.filter(|(_, queue)| queue.ni == ni).map(|(number, _)| number).collect();
        (!of_ni.is_empty()).then(|| *self.rng.pick(&of_ni))
    }

    pub(super) fn any_counter(&mut self, index: usize, ni: u8) -> Option<usize> {
        let counters = self.processes[index].model.counters.iter().enumerate();
        let of_ni = counters.filter(|(_, counter)| counter.ni == ni && !counter.is_freed);
        let of_ni: Vec<usize> = of_ni.map(|(number, _)| number).collect();
        (!of_ni.is_empty()).then(|| *self.rng.pick(&of_ni))
    }
}

/// Steps.
impl Run {
    pub(super) fn step(&mut self) {
        let able: Vec<usize> = (0..self.processes.len())
            .filter(|&index| {
                self.processes[index].is_up && !self.world.is_paused(NodeId(index as u32))
            })
            .collect();
        if able.is_empty() {
            return;
        }
        let index = *self.rng.pick(&able);
        let ni = *self.rng.pick(&self.nis);
        match self.rng.below(100) {
            0..28 => self.append(index, ni),
            28..72 => self.begin(index, ni),
            72..77 => self.search(index, ni),
            77..82 => self.unlink(index),
            82..88 => self.enable(index, ni),
            88..92 => self.read(index),
            92..95 => self.count(index, ni),
            95..98 => self.trigger_count(index, ni),
            98 => self.cancel(index, ni),
            _ => self.release(index),
        }
        self.after_call(index);
    }

    /// What was made due begins, and everything is looked at.
    fn after_call(&mut self, index: usize) {
        let now = self.world.now();
        self.world.endpoint_mut(NodeId(index as u32)).run_portals(now);
        self.look_at(index);
        self.world.flush();
        self.look();
    }

    fn draw_options(&mut self, ni: u8) -> u32 {
        let rng = &mut self.rng;
        let mut options = match rng.below(20) {
            0 => entry::OP_PUT,
            1 => entry::OP_GET,
            2 => 0,
            _ => entry::OP_PUT | entry::OP_GET,
        };
        let mut perhaps = |percent: u32, option: u32| {
            if rng.chance(percent * PERCENT) {
                options |= option;
            }
        };
        perhaps(45, entry::USE_ONCE);
        perhaps(5, entry::UNEXPECTED_HDR_DISABLE);
        perhaps(10, entry::EVENT_LINK_DISABLE);
        perhaps(10, entry::EVENT_COMM_DISABLE);
        perhaps(5, entry::EVENT_FLOWCTRL_DISABLE);
        perhaps(5, entry::EVENT_SUCCESS_DISABLE);
        perhaps(5, entry::EVENT_OVER_DISABLE);
        perhaps(8, entry::EVENT_UNLINK_DISABLE);
        perhaps(40, entry::EVENT_CT_COMM);
        perhaps(40, entry::EVENT_CT_OVERFLOW);
        perhaps(15, entry::EVENT_CT_BYTES);
        if ni & interface::MATCHING != 0 {
            perhaps(30, entry::MANAGE_LOCAL);
            perhaps(15, entry::NO_TRUNCATE);
            perhaps(5, entry::MAY_ALIGN);
            perhaps(10, entry::LOCAL_INC_UH_RLENGTH);
        }
        options
    }

    /// An entry, or what a search looks for; with the counter's number in the model.
    fn draw_entry(&mut self, index: usize, ni: u8) -> (EntrySpec, Option<usize>) {
        let options = self.draw_options(ni);
        let counter = self.any_counter(index, ni).filter(|_| self.rng.chance(70 * PERCENT));
        let from = self.rng.below(self.processes.len() as u64) as usize;
        let from = own(ni, from);
        let rng = &mut self.rng;
        let user = 1 + rng.below(1 << 30);
        let spec = EntrySpec {
            start: user << 32,
            buf: BufId(u64::MAX),
            len: draw_len(rng),
            is_whole: false,
            options,
            counter: counter.map(|counter| self.processes[index].model.counters[counter].handle),
            uid: rng.chance(8 * PERCENT).then(|| 1000 + rng.below(2) as u32),
            node: rng.chance(25 * PERCENT).then_some(from as u32),
            process: rng.chance(25 * PERCENT).then_some((from >> 32) as u32),
            bits: rng.below(4),
            ignore: *rng.pick(&[0, 0, 1, 3, u64::MAX]),
            min_free: *rng.pick(&[0, 1, 8, 40, 2000]),
            user,
        };
        (spec, counter)
    }

    fn any_portal(&mut self, index: usize, ni: u8) -> u32 {
        let count = self.processes[index].model.ni(ni).portals.len() as u64;
        self.rng.below(count) as u32
    }

    fn append(&mut self, index: usize, ni: u8) {
        let (mut spec, counter) = self.draw_entry(index, ni);
        let portal = self.any_portal(index, ni);
        let list = if self.rng.chance(65 * PERCENT) { List::Priority } else { List::Overflow };
        let segments = if self.rng.chance(20 * PERCENT) { self.rng.range(2..=5) } else { 1 };
        if segments > 1 {
            spec.options |= entry::IOVEC;
        }
        let trigger = self.draw_trigger(index, ni, 6);
        self.note(index, || format!("appends to {ni}/{portal} {list:?}, {trigger:?}: {spec:?}"));
        let node = NodeId(index as u32);
        spec.buf = self.world.memory(node).add_region_of(spec.len, segments as usize);
        let handle = trigger.map(|(counter, threshold)| {
            (self.processes[index].model.counters[counter].handle, threshold)
        });
        let portals = self.world.portals(node);
        let added = match handle {
            None => portals.append(ni, portal, list, spec),
            Some((counter, threshold)) => {
                portals.append_at((ni, portal), list, spec, counter, threshold)
            }
        };
        let process = &mut self.processes[index];
        let has_room = process.model.has_room(ni, portal, list);
        let mut expected = if has_room { Ok(()) } else { Err(PortalsError::NoSpace) };
        if has_room {
            let handle = added.unwrap_or(u32::MAX);
            let entry = process.model.add_entry((ni, portal, list), spec, counter, handle);
            process.lent.push((spec.buf, Lent::Entry(entry)));
            match trigger {
                None => process.model.link(entry),
                Some((counter, threshold)) => {
                    if !process.model.wait_for(counter, threshold, Due::Link(entry)) {
                        expected = Err(PortalsError::NoSpace);
                        process.model.drop_entry(entry);
                        process.lent.pop();
                    }
                }
            }
        }
        if added.map(|_| ()) != expected {
            self.violation(index, format!("an append was {added:?}, not {expected:?}"));
        }
        if added.is_err() {
            self.world.memory(node).end(spec.buf);
        }
    }

    /// So many percent wait for a counter.
    pub(super) fn draw_trigger(
        &mut self,
        index: usize,
        ni: u8,
        percent: u32,
    ) -> Option<(usize, u64)> {
        if !self.rng.chance(percent * PERCENT) {
            return None;
        }
        let counter = self.any_counter(index, ni)?;
        let threshold = match self.rng.below(10) {
            0 => self.rng.range(0..=3000),
            _ => {
                self.processes[index].model.counters[counter].count.success + self.rng.range(0..=4)
            }
        };
        Some((counter, threshold))
    }

    fn search(&mut self, index: usize, ni: u8) {
        let (spec, counter) = self.draw_entry(index, ni);
        let portal = self.any_portal(index, ni);
        let kind =
            if self.rng.chance(50 * PERCENT) { SearchKind::Only } else { SearchKind::Delete };
        self.note(index, || format!("searches {ni}/{portal} {kind:?}: {spec:?}"));
        let searched = self.portals_of(index).search(ni, portal, kind, spec);
        self.processes[index].model.search((ni, portal), kind, &spec, counter);
        if searched.is_err() {
            self.violation(index, format!("a search was {searched:?}"));
        }
    }

    fn unlink(&mut self, index: usize) {
        let count = self.processes[index].model.entries.len();
        if count == 0 {
            return;
        }
        let entry = self.rng.below(count as u64) as usize;
        let this = &self.processes[index].model.entries[entry];
        // The handle of a thing that is gone comes again after 256 others in its place.
        let (ni, handle, is_new) = (this.ni, this.handle, count - entry < 200);
        if !is_new {
            return;
        }
        if let Some((counter, threshold)) = self.draw_trigger(index, ni, 20) {
            return self.unlink_later(index, entry, counter, threshold);
        }
        self.note(index, || format!("unlinks entry {entry}"));
        let done = self.portals_of(index).unlink(handle);
        let expected = self.processes[index].model.unlink(entry);
        if done != expected {
            let user = self.processes[index].model.entries[entry].spec.user;
            self.violation(index, format!("unlinking {user} was {done:?}, not {expected:?}"));
        }
    }

    fn unlink_later(&mut self, index: usize, entry: usize, counter: usize, threshold: u64) {
        let model = &mut self.processes[index].model;
        let (handle, trigger) = (model.entries[entry].handle, model.counters[counter].handle);
        let is_there = model.entries[entry].at != At::Gone;
        let expected = match is_there {
            false => Err(PortalsError::Invalid),
            true if model.wait_for(counter, threshold, Due::Unlink(entry)) => Ok(()),
            true => Err(PortalsError::NoSpace),
        };
        let done = self.portals_of(index).unlink_at(handle, trigger, threshold);
        if done != expected {
            self.violation(index, format!("to unlink later was {done:?}, not {expected:?}"));
        }
    }

    fn enable(&mut self, index: usize, ni: u8) {
        let portal = self.any_portal(index, ni);
        let is_enabled = self.rng.chance(80 * PERCENT);
        self.note(index, || format!("enables {ni}/{portal}: {is_enabled}"));
        let done = self.portals_of(index).enable_portal(ni, portal, is_enabled);
        self.processes[index].model.enable(ni, portal, is_enabled);
        if done.is_err() {
            self.violation(index, format!("a portal was {done:?}"));
        }
    }

    fn read(&mut self, index: usize) {
        let count = self.processes[index].model.queues.len() as u64;
        let queue = self.rng.below(count) as usize;
        self.read_queue(index, queue);
    }

    fn draw_count(&mut self) -> Count {
        let amount = self.rng.range(0..=3);
        let (success, failure) =
            if self.rng.chance(70 * PERCENT) { (amount, 0) } else { (0, amount) };
        Count { success, failure }
    }

    fn count(&mut self, index: usize, ni: u8) {
        let Some(counter) = self.any_counter(index, ni) else { return };
        let (count, is_set) = (self.draw_count(), self.rng.chance(30 * PERCENT));
        self.note(index, || format!("counts {counter}, set {is_set}: {count:?}"));
        let model = &mut self.processes[index].model;
        let (handle, old) = (model.counters[counter].handle, model.counters[counter].count);
        let sum = Count {
            success: old.success.wrapping_add(count.success),
            failure: old.failure.wrapping_add(count.failure),
        };
        model.set_count(counter, if is_set { count } else { sum });
        let portals = self.portals_of(index);
        let done = match is_set {
            true => portals.set_count(handle, count),
            false => portals.add_count(handle, count),
        };
        if done.is_err() {
            self.violation(index, format!("counting was {done:?}"));
        }
    }

    fn trigger_count(&mut self, index: usize, ni: u8) {
        let Some((trigger, threshold)) = self.draw_trigger(index, ni, 100) else { return };
        let Some(counter) = self.any_counter(index, ni) else { return };
        let (count, is_set) = (self.draw_count(), self.rng.chance(25 * PERCENT));
        self.note(index, || {
            format!("at {threshold} of {trigger} counts {counter}, set {is_set}: {count:?}")
        });
        let model = &mut self.processes[index].model;
        let due = if is_set { Due::Set(counter, count) } else { Due::Add(counter, count) };
        let expected = match model.wait_for(trigger, threshold, due) {
            true => Ok(()),
            false => Err(PortalsError::NoSpace),
        };
        let (of, by) = (model.counters[counter].handle, model.counters[trigger].handle);
        let portals = self.portals_of(index);
        let done = match is_set {
            true => portals.set_count_at(of, count, by, threshold),
            false => portals.add_count_at(of, count, by, threshold),
        };
        if done != expected {
            self.violation(index, format!("to count later was {done:?}, not {expected:?}"));
        }
    }

    /// What waits for a counter is dropped, perhaps with the counter.
    fn cancel(&mut self, index: usize, ni: u8) {
        let Some(counter) = self.any_counter(index, ni) else { return };
        let is_freed = self.rng.chance(30 * PERCENT);
        self.note(index, || format!("cancels what waits for {counter}, frees: {is_freed}"));
        let model = &mut self.processes[index].model;
        let handle = model.counters[counter].handle;
        for id in model.cancel_waiting(counter) {
            self.ledger.ops[id as usize].stage = Stage::Over;
        }
        model.counters[counter].is_freed = is_freed;
        let portals = self.portals_of(index);
        let done = match is_freed {
            true => portals.free_counter(handle),
            false => portals.cancel_triggers(handle),
        };
        let is_gone = self.portals_of(index).count(handle).is_err();
        if done.is_err() || is_gone != is_freed {
            self.violation(index, format!("cancelling was {done:?}"));
        }
    }
}
