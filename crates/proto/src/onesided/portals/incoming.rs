//! A request arrives: which entry takes it, where its bytes go, and what is told when they are there.

use super::codes::{entry, event, fail};
use super::entries::{Header, source_of};
use super::{NOTHING, Portals, PortalsEvent, Witnessed};
use crate::base::api::List;
use crate::base::sabotage::Sabotage;
use crate::base::types::Place;
use crate::wire::OutcomeRepr;

/// What a request asks for, as far as entries care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Bytes come.
    Put,
    /// Bytes go.
    Get,
    /// Elements are computed with.
    Atomic,
    /// And what was there goes back.
    FetchAtomic,
}

impl Asked {
    fn event(self) -> u8 {
        match self {
            Self::Put => event::PUT,
            Self::Get => event::GET,
            Self::Atomic => event::ATOMIC,
            Self::FetchAtomic => event::FETCH_ATOMIC,
        }
    }

    /// What an entry must be open for.
    fn wants(self) -> u32 {
        match self {
            Self::Put | Self::Atomic => entry::OP_PUT,
            Self::Get => entry::OP_GET,
            Self::FetchAtomic => entry::OP_PUT | entry::OP_GET,
        }
    }
}

/// A request of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// To which of the four interfaces.
    pub ni: u8,
    /// Which portal.
    pub portal: u32,
    /// What it asks for.
    pub asked: Asked,
    /// Match bits.
    pub bits: u64,
    /// What the initiator says that it is.
    pub initiator: u64,
    /// For whom it says that it comes.
    pub uid: u32,
    /// Bytes.
    pub len: u64,
    /// Where in the entry.
    pub offset: u64,
    /// 64 bits beside them.
    pub header: u64,
    /// The atomic operation.
    pub op: u8,
    /// Its elements.
    pub datatype: u8,
    /// The request is of a peer that the application named, or that has the endpoint's address.
    pub is_trusted: bool,
}

/// A message that an entry took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) delivery: u32,
    /// Where its bytes are to go, or are.
    pub(crate) place: Place,
    pub(crate) len: u64,
    /// Where in the entry.
    pub(crate) offset: u64,
    pub(crate) list: u8,
    /// The entry is all of the address space: ask before it is touched.
    pub(crate) is_whole: bool,
    /// All of it, where it was to go, by the priority list: its sender need only hear that it is over.
    pub(crate) is_as_asked: bool,
}

/// A message whose bytes are moving.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) ni: u8,
    portal: u32,
    entry: u32,
    header: u32,
    event: PortalsEvent,
    /// Where in the entry.
    offset: u64,
    /// What acknowledgement is wanted.
    ack: u8,
}

/// Which register counts a refusal.
const DROPS: usize = 0;
const PERMISSIONS: usize = 1;
const OPERATIONS: usize = 2;

impl Portals {
    /// Which entry takes a request, if one does. From here on no other message can have what it takes.
    pub(crate) fn arrive(&mut self, incoming: &Incoming) -> Result<Taken, u8> {
        let found = self.find_place(incoming);
        let delivery = found.ok().map(|taken| taken.delivery);
        self.bear(Witnessed::Arrived(*incoming, delivery));
        found
    }

    fn find_place(&mut self, incoming: &Incoming) -> Result<Taken, u8> {
        let &Incoming { ni, portal, .. } = incoming;
        if self.interface(ni).is_err() {
            return Err(fail::DROPPED);
        }
        let Some(this) = self.portal(ni, portal) else {
            return Err(self.refuse(ni, DROPS, fail::DROPPED));
        };
        if !this.is_enabled && !self.saboteur.makes(Sabotage::DisabledPortalTakes) {
            return Err(self.refuse(ni, DROPS, fail::PT_DISABLED));
        }
        let Some((slot, list)) = self.find_entry(incoming) else {
            let is_stopped = self.stop_portal(ni, portal, true);
            let answer = if is_stopped { fail::PT_DISABLED } else { fail::DROPPED };
            return Err(self.refuse(ni, DROPS, answer));
        };
        let spec = self.entries[slot].spec;
        if spec.uid.is_some_and(|uid| uid != incoming.uid)
            || (spec.is_whole && !incoming.is_trusted)
        {
            return Err(self.refuse(ni, PERMISSIONS, fail::PERM_VIOLATION));
        }
        let wants = incoming.asked.wants();
        if spec.options & wants != wants {
            return Err(self.refuse(ni, OPERATIONS, fail::OP_VIOLATION));
        }
        let keeps_header =
            list == List::Overflow && spec.options & entry::UNEXPECTED_HDR_DISABLE == 0;
        let keeps_header = keeps_header && !self.saboteur.makes(Sabotage::HeaderForgotten);
        if keeps_header && !self.has_header_room(ni, portal) {
            let is_told = spec.options & entry::EVENT_FLOWCTRL_DISABLE == 0;
            let is_stopped = self.stop_portal(ni, portal, is_told);
            let answer = if is_stopped { fail::PT_DISABLED } else { fail::DROPPED };
            return Err(self.refuse(ni, DROPS, answer));
        }
        Ok(self.take(incoming, slot, list, keeps_header))
    }

    fn refuse(&mut self, ni: u8, register: usize, answer: u8) -> u8 {
        if let Ok(interface) = self.interface_mut(ni) {
            interface.registers[register] += 1;
        }
        answer
    }

    fn has_header_room(&self, ni: u8, portal: u32) -> bool {
        let (Ok(interface), Some(this)) = (self.interface(ni), self.portal(ni, portal)) else {
            return false;
        };
        this.header_count < interface.limits.header_count_max
    }

    /// The first entry that matches: of the priority list, else of the overflow list.
    fn find_entry(&mut self, incoming: &Incoming) -> Option<(u32, List)> {
        let &Incoming { ni, portal, bits, offset, len, initiator, .. } = incoming;
        let source = source_of(ni, initiator);
        let is_reversed = self.saboteur.makes(Sabotage::OverflowListFirst);
        let cuts = self.saboteur.makes(Sabotage::CutAllTheSame);
        let interface = self.interfaces[usize::from(ni)].as_mut()?;
        let matcher = &mut interface.portals.get_mut(portal as usize)?.as_mut()?.matcher;
        let entries = &self.entries;
        let lists = match is_reversed {
            false => [List::Priority, List::Overflow],
            true => [List::Overflow, List::Priority],
        };
        for list in lists {
            let Some((id, slot)) = matcher.find_portal(list, bits, source) else { continue };
            let fits = |slot: u32| {
                let this = &entries[slot];
                cuts || !this.spec.is_too_long(this.local_offset, offset, len)
            };
            if fits(slot) {
                return Some((slot, list));
            }
            // Only an entry that does not cut passes a message on: then those behind it are looked at, one by one.
            let behind = matcher.posted_portals(id, list, bits, source);
            if let Some(slot) = behind.into_iter().find(|&slot| fits(slot)) {
                return Some((slot, list));
            }
        }
        None
    }

    /// An entry takes a message.
    fn take(&mut self, incoming: &Incoming, slot: u32, list: List, keeps_header: bool) -> Taken {
        let &Incoming {
            ni, portal, asked, bits, initiator, uid, len, header, op, datatype, ..
        } = incoming;
        let stays = self.saboteur.makes(Sabotage::LocalOffsetStays);
        let is_used_twice = self.saboteur.makes(Sabotage::EntryUsedTwice);
        let goes_on = self.saboteur.makes(Sabotage::MinFreeIgnored);
        let this = &mut self.entries[slot];
        let is_local = this.spec.options & entry::MANAGE_LOCAL != 0;
        let offset = if is_local { this.local_offset } else { incoming.offset };
        let moved_len = len.min(this.spec.len.saturating_sub(offset));
        if is_local && !stays {
            this.local_offset += moved_len;
        }
        let is_over = (this.spec.options & entry::USE_ONCE != 0 && !is_used_twice)
            || (this.spec.is_used_up(this.local_offset) && !goes_on);
        this.busy_count += 1;
        let shift = if this.spec.options & entry::IOVEC != 0 { 0 } else { offset };
        let event = PortalsEvent {
            kind: asked.event(),
            start: this.spec.start.wrapping_add(shift),
            user: this.spec.user,
            header,
            bits,
            asked_len: len,
            moved_len,
            offset: incoming.offset,
            initiator,
            uid,
            portal,
            list: list as u8,
            fail: fail::OK,
            op,
            datatype,
        };
        let (buf, is_whole) = (this.buf, this.spec.is_whole);
        if is_over {
            this.owes_unlink = true;
            self.take_off(slot);
        }
        let header = if keeps_header { self.keep_header(incoming, slot, event) } else { NOTHING };
        if let Some(this) = self.portal_mut(ni, portal) {
            this.busy_count += 1;
        }
        let delivery = self.deliveries.insert(Delivery {
            ni,
            portal,
            entry: slot,
            header,
            event,
            offset,
            ack: 0,
        });
        let place = Place { buf, offset };
        let is_there = offset == incoming.offset && list == List::Priority;
        let (len, is_as_asked) = (moved_len, is_there && moved_len == incoming.len);
        Taken { delivery, place, len, offset, list: list as u8, is_whole, is_as_asked }
    }

    fn keep_header(&mut self, incoming: &Incoming, entry: u32, event: PortalsEvent) -> u32 {
        let &Incoming { ni, portal, bits, initiator, .. } = incoming;
        let source = source_of(ni, initiator);
        let token = self.headers.next_slot();
        let Some(this) = self.portal_mut(ni, portal) else { return NOTHING };
        let held = this.matcher.hold_portal(bits, source, token);
        this.header_count += 1;
        self.entries[entry].header_count += 1;
        self.headers.insert(Header::new((ni, portal), entry, event, held))
    }

    /// The bytes of a message are where they belong, or will not get there.
    pub(crate) fn delivered(&mut self, delivery: u32, failed: u8) {
        let Delivery { ni, portal, entry: slot, header, mut event, .. } =
            self.deliveries.remove(delivery);
        self.bear(Witnessed::Delivered(delivery, failed));
        event.fail = failed;
        let queue = match self.portal_mut(ni, portal) {
            Some(this) => {
                this.busy_count -= 1;
                this.queue
            }
            None => None,
        };
        let this = &mut self.entries[slot];
        this.busy_count -= 1;
        let (options, counter) = (this.spec.options, this.counter);
        let is_silent = options & entry::EVENT_COMM_DISABLE != 0
            || (failed == fail::OK && options & entry::EVENT_SUCCESS_DISABLE != 0);
        if !is_silent {
            self.tell(queue, event);
        }
        if options & entry::EVENT_CT_COMM != 0 {
            let amount = if options & entry::EVENT_CT_BYTES != 0 { event.moved_len } else { 1 };
            self.tally(counter, failed, amount);
        }
        // Told before the header is: whoever found that already hears of both in their order.
        let owes = self.entries[slot].owes_unlink;
        if owes {
            self.tell_unlinked(slot);
        }
        if header != NOTHING {
            let this = &mut self.headers[header];
            (this.is_ready, this.event.fail) = (true, failed);
            self.tell_claimed(header);
        }
        if self.entries.get(slot).is_some() {
            self.retire(slot);
        }
        self.tell_stop(ni, portal);
    }

    /// That an entry was used up is told behind its last message.
    fn tell_unlinked(&mut self, slot: u32) {
        let this = &mut self.entries[slot];
        if this.busy_count > 0 {
            return;
        }
        this.owes_unlink = false;
        let (ni, portal, user) = (this.ni, this.portal, this.spec.user);
        if this.spec.options & entry::EVENT_UNLINK_DISABLE == 0 {
            let queue = self.portal(ni, portal).and_then(|this| this.queue);
            let kind = event::AUTO_UNLINK;
            self.tell(queue, PortalsEvent { kind, portal, user, ..PortalsEvent::default() });
        }
    }

    /// What acknowledgement a message wants.
    pub(crate) fn set_ack(&mut self, delivery: u32, ack: u8) {
        self.deliveries[delivery].ack = ack;
    }

    /// That, and what is answered when its bytes are there.
    pub(crate) fn answer_of(&self, delivery: u32) -> (u8, OutcomeRepr) {
        let Delivery { event, offset, ack, .. } = &self.deliveries[delivery];
        let (list, moved_len, offset) = (event.list, event.moved_len, *offset);
        (*ack, OutcomeRepr { fail: fail::OK, list, moved_len, offset, follows: false })
    }

    /// Where an interface's deliveries are.
    pub(crate) fn deliveries_of(&self, ni: u8) -> alloc::vec::Vec<u32> {
        super::slots(&self.deliveries, |delivery| delivery.ni == ni)
    }

    /// Whether a slot names a message whose bytes are moving.
    pub(crate) fn is_moving(&self, delivery: u32) -> bool {
        self.deliveries.get(delivery).is_some()
    }
}
