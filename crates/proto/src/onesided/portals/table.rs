//! The portal table: indexes, their lists, and when they take no messages.

use super::codes::{event, fail, portal};
use super::{Portals, PortalsError, PortalsEvent};
use crate::base::sabotage::Sabotage;
use crate::matching::Matcher;

/// An entry of the portal table.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) options: u32,
    pub(super) queue: Option<u64>,
    pub(super) is_enabled: bool,
    /// Both lists and the unexpected headers; tokens are slots of `Portals::entries` and `Portals::headers`.
    pub(super) matcher: Matcher,
    /// Entries of the priority and of the overflow list.
    pub(super) list_counts: [u32; 2],
    pub(super) header_count: u32,
    /// Messages whose bytes are still moving.
    pub(super) busy_count: u32,
    /// The table entry was stopped, which is told when nothing moves any more.
    owes_stop: bool,
}

impl Portals {
    /// Allocates an index: this one, or the first that is free.
    pub fn add_portal(
        &mut self,
        ni: u8,
        options: u32,
        queue: Option<u32>,
        wanted: Option<u32>,
    ) -> Result<u32, PortalsError> {
        let queue = self.queue_key(ni, queue)?;
        let seed = self.seed;
        let interface = self.interface_mut(ni)?;
        if options & !portal::MASK != 0 {
            return Err(PortalsError::Invalid);
        }
        if options & portal::FLOWCTRL != 0 && queue.is_none() {
            return Err(PortalsError::QueueNeeded);
        }
        let portal_max = interface.limits.portal_max;
        let is_free = |portals: &[Option<Portal>], at: u32| {
            portals.get(at as usize).is_none_or(Option::is_none)
        };
        let index = match wanted {
            Some(index) if index > portal_max => return Err(PortalsError::Invalid),
            Some(index) if !is_free(&interface.portals, index) => {
                return Err(PortalsError::PortalInUse);
            }
            Some(index) => index,
            None => (0..=portal_max)
                .find(|&at| is_free(&interface.portals, at))
                .ok_or(PortalsError::PortalsFull)?,
        };
        if interface.portals.len() <= index as usize {
            interface.portals.resize_with(index as usize + 1, || None);
        }
        interface.portals[index as usize] = Some(Portal {
            options,
            queue,
            is_enabled: options & portal::ALLOC_DISABLED == 0,
            matcher: Matcher::new(seed ^ u64::from(index) << 8 ^ u64::from(ni)),
            list_counts: [0; 2],
            header_count: 0,
            busy_count: 0,
            owes_stop: false,
        });
        Ok(index)
    }

    /// Frees an index whose lists are empty.
    pub fn free_portal(&mut self, ni: u8, index: u32) -> Result<(), PortalsError> {
        let this = self.portal(ni, index).ok_or(PortalsError::Invalid)?;
        if this.list_counts != [0; 2] || this.busy_count > 0 {
            return Err(PortalsError::PortalInUse);
        }
        let headers =
            super::slots(&self.headers, |header| (header.ni, header.portal) == (ni, index));
        for slot in headers {
            self.drop_header(slot);
        }
        self.interface_mut(ni)?.portals[index as usize] = None;
        Ok(())
    }

    /// Takes messages again, or none from now on. False while some are still moving.
    pub fn enable_portal(
        &mut self,
        ni: u8,
        index: u32,
        is_enabled: bool,
    ) -> Result<(), PortalsError> {
        let this = self.portal_mut(ni, index).ok_or(PortalsError::Invalid)?;
        (this.is_enabled, this.owes_stop) = (is_enabled, false);
        Ok(())
    }

    /// Whether messages are still moving at an index.
    pub fn is_portal_busy(&self, ni: u8, index: u32) -> bool {
        self.portal(ni, index).is_some_and(|this| this.busy_count > 0)
    }

    /// Flow control: it cannot take a message, and takes none from here on. True if it has flow control.
    pub(super) fn stop_portal(&mut self, ni: u8, index: u32, is_told: bool) -> bool {
        let is_left = self.saboteur.makes(Sabotage::PortalNotStopped);
        let Some(this) = self.portal_mut(ni, index) else { return false };
        if this.options & portal::FLOWCTRL == 0 {
            return false;
        }
        if this.is_enabled && !is_left {
            (this.is_enabled, this.owes_stop) = (false, is_told);
            self.tell_stop(ni, index);
        }
        true
    }

    /// That it was stopped is told when nothing moves any more.
    pub(super) fn tell_stop(&mut self, ni: u8, portal: u32) {
        let Some(this) = self.portal_mut(ni, portal) else { return };
        if this.owes_stop && this.busy_count == 0 {
            this.owes_stop = false;
            let queue = this.queue;
            let (kind, fail) = (event::PT_DISABLED, fail::PT_DISABLED);
            self.tell(queue, PortalsEvent { kind, portal, fail, ..PortalsEvent::default() });
        }
    }
}
