//! Counters, and what waits for them.
//!
//! A trigger fires when successes and failures together reach its threshold. All that one step sets off goes in the order in which it was
//! posted, behind what is due already.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::codes::fail;
use super::{Portals, PortalsError, THING_COUNT_MAX, Witnessed, handle_of, slot_of};
use crate::base::sabotage::Sabotage;

/// What a counter says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// What went well: operations, or their bytes.
    pub success: u64,
    /// What did not: operations.
    pub failure: u64,
}

/// A counter.
#[derive(Debug)]
pub(super) struct Counter {
    pub(super) ni: u8,
    count: Count,
    /// By threshold, then by age.
    pub(super) triggers: BTreeMap<(u64, u64), Due>,
}

/// Something to be done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    /// An operation begins: it waits in the slot that it will have while it is under way.
    Move { ni: u8, launch: u32 },
    /// A counter moves.
    Add { ni: u8, counter: u64, more: Count },
    /// A counter is set.
    Set { ni: u8, counter: u64, count: Count },
    /// An entry is linked.
    Link { ni: u8, entry: u64 },
    /// An entry is unlinked, if nothing uses it.
    Unlink { ni: u8, entry: u64 },
}

/// What is due is copied from where it waits to where it is done: an operation has some hundred bytes, and each put would copy them four times.
const _: () = assert!(size_of::<Due>() <= 40);

impl Counter {
    fn reached(&self) -> u64 {
        reached_by(self.count)
    }
}

/// What thresholds are compared with.
fn reached_by(count: Count) -> u64 {
    count.success.saturating_add(count.failure)
}

impl Due {
    pub(super) fn ni(&self) -> u8 {
        match self {
            Self::Move { ni, .. }
            | Self::Add { ni, .. }
            | Self::Set { ni, .. }
            | Self::Link { ni, .. }
            | Self::Unlink { ni, .. } => *ni,
        }
    }
}

impl Portals {
    /// A counter, at zero.
    pub fn add_counter(&mut self, ni: u8) -> Result<u32, PortalsError> {
        let interface = self.interface_mut(ni)?;
        if interface.counter_count >= interface.limits.counter_count_max.min(THING_COUNT_MAX) {
            return Err(PortalsError::NoSpace);
        }
        interface.counter_count += 1;
        let counter = Counter { ni, count: Count::default(), triggers: BTreeMap::new() };
        let slot = self.counters.insert(counter);
        Ok(handle_of(&self.counters, slot))
    }

    /// Frees a counter, whoever names it; what waits for it is dropped.
    pub fn free_counter(&mut self, handle: u32) -> Result<(), PortalsError> {
        self.cancel_triggers(handle)?;
        let slot = slot_of(&self.counters, handle).ok_or(PortalsError::Invalid)?;
        let ni = self.counters.remove(slot).ni;
        self.interface_mut(ni)?.counter_count -= 1;
        self.is_stirred = true;
        Ok(())
    }

    /// Drops what waits for a counter.
    pub fn cancel_triggers(&mut self, handle: u32) -> Result<(), PortalsError> {
        let slot = slot_of(&self.counters, handle).ok_or(PortalsError::Invalid)?;
        let triggers = core::mem::take(&mut self.counters[slot].triggers);
        for due in triggers.into_values() {
            match due {
                Due::Move { launch, .. } => self.drop_waiting(launch),
                Due::Link { entry, .. } => self.cancel_link(entry),
                Due::Add { .. } | Due::Set { .. } | Due::Unlink { .. } => {}
            }
        }
        Ok(())
    }

    /// What a counter says.
    pub fn count(&self, handle: u32) -> Result<Count, PortalsError> {
        let slot = slot_of(&self.counters, handle).ok_or(PortalsError::Invalid)?;
        Ok(self.counters[slot].count)
    }

    /// The interface of a counter.
    pub fn counter_interface(&self, handle: u32) -> Option<u8> {
        Some(self.counters[slot_of(&self.counters, handle)?].ni)
    }

    /// Sets a counter.
    pub fn set_count(&mut self, handle: u32, count: Count) -> Result<(), PortalsError> {
        let slot = slot_of(&self.counters, handle).ok_or(PortalsError::Invalid)?;
        self.store_count(slot, count);
        Ok(())
    }

    /// Moves a counter.
    pub fn add_count(&mut self, handle: u32, more: Count) -> Result<(), PortalsError> {
        let slot = slot_of(&self.counters, handle).ok_or(PortalsError::Invalid)?;
        self.move_count(slot, more);
        Ok(())
    }

    /// Moves a counter when another has reached its threshold.
    pub fn add_count_at(
        &mut self,
        handle: u32,
        more: Count,
        trigger: u32,
        threshold: u64,
    ) -> Result<(), PortalsError> {
        let (ni, counter) = self.triggered(handle, trigger)?;
        self.add_trigger(trigger, threshold, Due::Add { ni, counter, more })
    }

    /// Sets a counter when another has reached its threshold.
    pub fn set_count_at(
        &mut self,
        handle: u32,
        count: Count,
        trigger: u32,
        threshold: u64,
    ) -> Result<(), PortalsError> {
        let (ni, counter) = self.triggered(handle, trigger)?;
        self.add_trigger(trigger, threshold, Due::Set { ni, counter, count })
    }

    /// A counter that another is to move: both of one interface.
    fn triggered(&self, handle: u32, trigger: u32) -> Result<(u8, u64), PortalsError> {
        let slot = slot_of(&self.counters, handle).ok_or(PortalsError::Invalid)?;
        let ni = self.counters[slot].ni;
        if self.counter_interface(trigger) != Some(ni) {
            return Err(PortalsError::Invalid);
        }
        Ok((ni, self.counters.key(slot)))
    }

    /// Waits for a counter; if that has come so far, it is due at once.
    pub(super) fn add_trigger(
        &mut self,
        trigger: u32,
        threshold: u64,
        due: Due,
    ) -> Result<(), PortalsError> {
        let slot = slot_of(&self.counters, trigger).ok_or(PortalsError::Invalid)?;
        let ni = self.counters[slot].ni;
        let most = self.interface(ni)?.limits.trigger_count_max;
        let counter = &mut self.counters[slot];
        // What need not wait takes no room.
        if counter.reached() < threshold && counter.triggers.len() >= most as usize {
            return Err(PortalsError::NoSpace);
        }
        let serial = self.trigger_serial;
        self.trigger_serial += 1;
        self.is_work_left = true;
        counter.triggers.insert((threshold, serial), due);
        self.fire(slot);
        Ok(())
    }

    /// The key by which a counter of this interface is named inside.
    pub(super) fn counter_key(
        &self,
        ni: u8,
        handle: Option<u32>,
    ) -> Result<Option<u64>, PortalsError> {
        let Some(handle) = handle else { return Ok(None) };
        let slot = slot_of(&self.counters, handle).filter(|&slot| self.counters[slot].ni == ni);
        slot.map(|slot| Some(self.counters.key(slot))).ok_or(PortalsError::Invalid)
    }

    /// Counts an operation that ended so, if somebody does.
    pub(super) fn tally(&mut self, counter: Option<u64>, failed: u8, amount: u64) {
        let Some(slot) = counter.and_then(|key| self.counters.lookup(key)) else { return };
        let more = if failed == fail::OK {
            Count { success: amount, failure: 0 }
        } else {
            Count { success: 0, failure: 1 }
        };
        self.move_count(slot, more);
    }

    fn move_count(&mut self, slot: u32, more: Count) {
        let Count { success, failure } = self.counters[slot].count;
        let success = success.wrapping_add(more.success);
        self.store_count(slot, Count { success, failure: failure.wrapping_add(more.failure) });
    }

    fn store_count(&mut self, slot: u32, count: Count) {
        self.counters[slot].count = count;
        self.is_stirred = true;
        self.fire(slot);
    }

    /// What has waited for a counter to come so far becomes due, in the order in which it was posted.
    fn fire(&mut self, slot: u32) {
        let Counter { count, triggers, .. } = &mut self.counters[slot];
        if triggers.is_empty() {
            return;
        }
        let reached = reached_by(*count);
        let waiting = match reached.checked_add(1) {
            Some(beyond) => triggers.split_off(&(beyond, 0)),
            None => BTreeMap::new(),
        };
        let fired = core::mem::replace(triggers, waiting);
        let mut fired: Vec<(u64, Due)> =
            fired.into_iter().map(|((_, serial), due)| (serial, due)).collect();
        fired.sort_unstable_by_key(|&(serial, _)| serial);
        if self.saboteur.makes(Sabotage::TriggerFiresAgain) {
            let adds = fired.iter().filter(|(_, due)| matches!(due, Due::Add { .. }));
            self.due.extend(adds.map(|(_, due)| *due));
        }
        self.due.extend(fired.into_iter().map(|(_, due)| due));
    }

    /// Whether something may be due; whoever keeps a model is told when nothing is.
    #[inline]
    pub(crate) fn may_have_due(&self) -> bool {
        !self.due.is_empty() || self.witness.is_some()
    }

    /// The slot of the next operation that is due; counters that are due move on the way.
    pub(crate) fn next_due(&mut self) -> Option<u32> {
        loop {
            let Some(due) = self.due.pop_front() else {
                self.bear(Witnessed::Settled);
                return None;
            };
            match due {
                Due::Move { launch, .. } => return Some(launch),
                Due::Add { counter, more, .. } => {
                    if let Some(slot) = self.counters.lookup(counter) {
                        self.move_count(slot, more);
                    }
                }
                Due::Link { entry, .. } => self.link_due(entry, true),
                Due::Unlink { entry, .. } => self.link_due(entry, false),
                Due::Set { counter, count, .. } => {
                    if let Some(slot) = self.counters.lookup(counter) {
                        self.store_count(slot, count);
                    }
                }
            }
        }
    }
}
