//! Event queues: what is told to the application, oldest first.

use alloc::collections::VecDeque;

use super::codes::{event, portal};
use super::{Portals, PortalsError, THING_COUNT_MAX, handle_of, slot_of};

/// What an event says. Fields without a meaning for its kind are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortalsEvent {
    /// Which kind.
    pub kind: u8,
    /// Where the bytes are, as the application gave the memory's start.
    pub start: u64,
    /// As posted.
    pub user: u64,
    /// 64 bits beside the bytes.
    pub header: u64,
    /// Match bits of the message.
    pub bits: u64,
    /// Bytes it has.
    pub asked_len: u64,
    /// Bytes that were moved.
    pub moved_len: u64,
    /// At the target, where the initiator wanted it; at the initiator, where it went.
    pub offset: u64,
    /// Who asked: a rank, or a nid and above it a pid.
    pub initiator: u64,
    /// For whom, says the initiator.
    pub uid: u32,
    /// Which portal.
    pub portal: u32,
    /// Priority 0, overflow 1.
    pub list: u8,
    /// How it ended.
    pub fail: u8,
    /// The atomic operation.
    pub op: u8,
    /// Its elements.
    pub datatype: u8,
}

/// What was taken from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The event.
    pub event: PortalsEvent,
    /// Some before it are lost.
    pub has_lost: bool,
}

/// An event queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) ni: u8,
    count_max: usize,
    events: VecDeque<PortalsEvent>,
    has_lost: bool,
}

impl Portals {
    /// A queue with room for so many events.
    pub fn add_queue(&mut self, ni: u8, count_max: u64) -> Result<u32, PortalsError> {
        let interface = self.interface_mut(ni)?;
        let most = interface.limits.queue_count_max.min(THING_COUNT_MAX);
        let count_max = usize::try_from(count_max).map_err(|_| PortalsError::NoSpace)?;
        if interface.queue_count >= most {
            return Err(PortalsError::NoSpace);
        }
        interface.queue_count += 1;
        let queue = Queue { ni, count_max, events: VecDeque::new(), has_lost: false };
        let slot = self.queues.insert(queue);
        Ok(handle_of(&self.queues, slot))
    }

    /// Frees a queue, whoever still names it: nothing is told there any more.
    pub fn free_queue(&mut self, handle: u32) -> Result<(), PortalsError> {
        let slot = slot_of(&self.queues, handle).ok_or(PortalsError::Invalid)?;
        let ni = self.queues.remove(slot).ni;
        self.interface_mut(ni)?.queue_count -= 1;
        self.is_stirred = true;
        Ok(())
    }

    /// The interface of a queue.
    pub fn queue_interface(&self, handle: u32) -> Option<u8> {
        Some(self.queues[slot_of(&self.queues, handle)?].ni)
    }

    /// The next event of a queue, if there is one.
    pub fn take_event(&mut self, handle: u32) -> Result<Option<Taken>, PortalsError> {
        let slot = slot_of(&self.queues, handle).ok_or(PortalsError::Invalid)?;
        let queue = &mut self.queues[slot];
        let Some(event) = queue.events.pop_front() else { return Ok(None) };
        let has_lost = core::mem::take(&mut queue.has_lost);
        Ok(Some(Taken { event, has_lost }))
    }

    /// The key by which a queue of this interface is named inside; `None` is no queue.
    pub(super) fn queue_key(
        &self,
        ni: u8,
        handle: Option<u32>,
    ) -> Result<Option<u64>, PortalsError> {
        let Some(handle) = handle else { return Ok(None) };
        let slot = slot_of(&self.queues, handle).filter(|&slot| self.queues[slot].ni == ni);
        slot.map(|slot| Some(self.queues.key(slot))).ok_or(PortalsError::Invalid)
    }

    /// Tells an event. A full queue loses its oldest, and stops the portals that asked for that.
    pub(super) fn tell(&mut self, queue: Option<u64>, event: PortalsEvent) {
        let Some(slot) = queue.and_then(|key| self.queues.lookup(key)) else { return };
        self.push_event(slot, event);
        let this = &self.queues[slot];
        if this.events.len() >= this.count_max {
            self.stop_portals_of(slot);
        }
    }

    fn push_event(&mut self, slot: u32, event: PortalsEvent) {
        // Each portal with flow control has a place of its own for the word that it was stopped.
        let reserve_len = self.stoppable_count(slot);
        let this = &mut self.queues[slot];
        if this.events.len() >= this.count_max.saturating_add(reserve_len).max(1) {
            this.events.pop_front();
            this.has_lost = true;
        }
        this.events.push_back(event);
        self.is_stirred = true;
    }

    fn stoppable_count(&self, queue: u32) -> usize {
        let (ni, key) = (self.queues[queue].ni, self.queues.key(queue));
        let Ok(interface) = self.interface(ni) else { return 0 };
        let portals = interface.portals.iter().flatten();
        portals
            .filter(|this| this.options & portal::FLOWCTRL != 0 && this.queue == Some(key))
            .count()
    }

    /// A queue is full: what could fill it further is disabled, and told so at once.
    fn stop_portals_of(&mut self, queue: u32) {
        let (ni, key) = (self.queues[queue].ni, self.queues.key(queue));
        let Ok(interface) = self.interface_mut(ni) else { return };
        let mut stopped = alloc::vec::Vec::new();
        for (index, this) in interface.portals.iter_mut().enumerate() {
            if let Some(this) = this
                && this.is_enabled
                && this.options & portal::FLOWCTRL != 0
                && this.queue == Some(key)
            {
                this.is_enabled = false;
                stopped.push(index as u32);
            }
        }
        for portal in stopped {
            let fail = super::codes::fail::PT_DISABLED;
            let kind = event::PT_DISABLED;
            self.push_event(queue, PortalsEvent { kind, portal, fail, ..PortalsEvent::default() });
        }
    }
}
