//! Entries: appended, searched for what came before them, unlinked.

use super::codes::{entry, event, fail, interface};
use super::counters::Due;
use super::{NOTHING, Portals, PortalsError, PortalsEvent, THING_COUNT_MAX, handle_of, slot_of};
use crate::base::api::List;
use crate::base::sabotage::Sabotage;
use crate::base::types::BufId;
use crate::matching::{EntryId, HeldId, PortalSource, PortalWanted};

/// In place of a nid, a pid or a rank: any.
pub const WILD: Option<u32> = None;

/// An entry to append, or what a search looks for.
#[derive(Clone, Copy, Debug)]
pub struct EntrySpec {
    /// Where the memory begins, as the application calls it.
    pub start: u64,
    /// The memory.
    pub buf: BufId,
    /// Its length.
    pub len: u64,
    /// All of the address space: what is not there is answered, and strangers do not get at it.
    pub is_whole: bool,
    /// As in [`entry`].
    pub options: u32,
    /// The counter that counts what the entry does.
    pub counter: Option<u32>,
    /// The user that may use the entry; `None`: everybody.
    pub uid: Option<u32>,
    /// From which nid, or rank.
    pub node: Option<u32>,
    /// From which pid.
    pub process: Option<u32>,
    /// Match bits,
    pub bits: u64,
    /// but for these.
    pub ignore: u64,
    /// With `MANAGE_LOCAL`: unlinked when less is free; 0: never.
    pub min_free: u64,
    /// Returned in events.
    pub user: u64,
}

/// What a search does with what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchKind {
    /// Tells of it.
    Only,
    /// Takes it out.
    Delete,
}

/// An entry.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) ni: u8,
    pub(super) portal: u32,
    pub(super) list: List,
    pub(super) spec: EntrySpec,
    pub(super) buf: BufId,
    pub(super) counter: Option<u64>,
    /// With `MANAGE_LOCAL`: where the next message goes.
    pub(super) local_offset: u64,
    /// Its name in the matcher; `None` once it was unlinked.
    pub(super) linked: Option<EntryId>,
    /// That it was unlinked by itself is still to be told.
    pub(super) owes_unlink: bool,
    /// Messages whose bytes are moving.
    pub(super) busy_count: u32,
    /// Unexpected headers of messages that lie in it.
    pub(super) header_count: u32,
}

/// The header of a message that lies in an entry of the overflow list.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) ni: u8,
    pub(super) portal: u32,
    pub(super) entry: u32,
    pub(super) event: PortalsEvent,
    /// Its name in the matcher, until it was found.
    pub(super) held: Option<HeldId>,
    /// Its bytes are there.
    pub(super) is_ready: bool,
    /// Found before its bytes were there: to be told then.
    claim: Option<Claim>,
}

/// Who found a header.
#[derive(Clone, Copy, Debug)]
struct Claim {
    queue: Option<u64>,
    user: u64,
    options: u32,
    counter: Option<u64>,
    /// The entry that found it was used up by that.
    ends_entry: bool,
}

impl EntrySpec {
    fn has(&self, option: u32) -> bool {
        self.options & option != 0
    }

    /// What the matcher looks for. Entries of lists take everything.
    fn wanted(&self, ni: u8) -> PortalWanted {
        if ni & interface::MATCHING == 0 {
            return PortalWanted { bits: 0, ignore: u64::MAX, node: None, process: None };
        }
        let process = self.process.filter(|_| ni & interface::LOGICAL == 0);
        PortalWanted { bits: self.bits, ignore: self.ignore, node: self.node, process }
    }

    /// Whether a message of this length is too long for it, and must not be cut.
    pub(super) fn is_too_long(&self, local_offset: u64, offset: u64, len: u64) -> bool {
        let at = if self.has(entry::MANAGE_LOCAL) { local_offset } else { offset };
        self.has(entry::NO_TRUNCATE) && at.checked_add(len).is_none_or(|end| end > self.len)
    }

    /// Whether a locally managed entry has too little left.
    pub(super) fn is_used_up(&self, local_offset: u64) -> bool {
        self.has(entry::MANAGE_LOCAL)
            && self.min_free != 0
            && self.len.saturating_sub(local_offset) < self.min_free
    }
}

impl Header {
    pub(super) fn new(
        (ni, portal): (u8, u32),
        entry: u32,
        event: PortalsEvent,
        held: HeldId,
    ) -> Self {
        Self { ni, portal, entry, event, held: Some(held), is_ready: false, claim: None }
    }
}

/// Where a message comes from, as the matcher compares it.
pub(super) fn source_of(ni: u8, initiator: u64) -> PortalSource {
    let process = if ni & interface::LOGICAL == 0 { (initiator >> 32) as u32 } else { 0 };
    PortalSource { node: initiator as u32, process }
}

impl Portals {
    /// Appends an entry to a list. To the priority list: what came before it and fits is told now.
    pub fn append(
        &mut self,
        ni: u8,
        portal: u32,
        list: List,
        spec: EntrySpec,
    ) -> Result<u32, PortalsError> {
        let slot = self.add_entry(ni, portal, list, spec)?;
        let handle = handle_of(&self.entries, slot);
        self.link(slot);
        Ok(handle)
    }

    /// Appends an entry when a counter has reached a threshold; the entry's handle is known from now on.
    pub fn append_at(
        &mut self,
        (ni, portal): (u8, u32),
        list: List,
        spec: EntrySpec,
        trigger: u32,
        threshold: u64,
    ) -> Result<u32, PortalsError> {
        if self.counter_interface(trigger) != Some(ni) {
            return Err(PortalsError::Invalid);
        }
        let slot = self.add_entry(ni, portal, list, spec)?;
        let (entry, handle) = (self.entries.key(slot), handle_of(&self.entries, slot));
        let added = self.add_trigger(trigger, threshold, Due::Link { ni, entry });
        if added.is_err() {
            self.forget_entry(slot);
        }
        added.map(|()| handle)
    }

    /// Unlinks an entry when a counter has reached a threshold, if it is not in use then.
    pub fn unlink_at(
        &mut self,
        handle: u32,
        trigger: u32,
        threshold: u64,
    ) -> Result<(), PortalsError> {
        let slot = slot_of(&self.entries, handle).ok_or(PortalsError::Invalid)?;
        let ni = self.entries[slot].ni;
        if self.counter_interface(trigger) != Some(ni) {
            return Err(PortalsError::Invalid);
        }
        let entry = self.entries.key(slot);
        self.add_trigger(trigger, threshold, Due::Unlink { ni, entry })
    }

    /// What waited for a counter is linked, or unlinked.
    pub(super) fn link_due(&mut self, entry: u64, is_to_link: bool) {
        let Some(slot) = self.entries.lookup(entry) else { return };
        if is_to_link {
            self.link(slot);
        } else {
            let _ = self.unlink(handle_of(&self.entries, slot)); // in use: it stays
        }
    }

    /// An entry that waited for a counter is not to come any more.
    pub(super) fn cancel_link(&mut self, entry: u64) {
        if let Some(slot) = self.entries.lookup(entry) {
            self.drop_entry(slot);
        }
    }

    /// Makes an entry, which is in no list yet.
    fn add_entry(
        &mut self,
        ni: u8,
        portal: u32,
        list: List,
        spec: EntrySpec,
    ) -> Result<u32, PortalsError> {
        let counter = self.check_entry(ni, portal, &spec)?;
        let limits = self.interface(ni)?.limits;
        let this = self.portal(ni, portal).ok_or(PortalsError::Invalid)?;
        let is_list_full = this.list_counts[list as usize] >= limits.list_count_max;
        let interface = self.interface_mut(ni)?;
        let count_max = limits.entry_count_max.min(THING_COUNT_MAX);
        if is_list_full || interface.entry_count >= count_max {
            return Err(PortalsError::NoSpace);
        }
        interface.entry_count += 1;
        Ok(self.entries.insert(Entry {
            ni,
            portal,
            list,
            spec,
            buf: spec.buf,
            counter,
            local_offset: 0,
            linked: None,
            owes_unlink: false,
            busy_count: 0,
            header_count: 0,
        }))
    }

    /// Looks for what came before an entry, and puts it into its list unless that has used it up.
    fn link(&mut self, slot: u32) {
        let Entry { ni, portal, list, spec, .. } = self.entries[slot];
        if self.portal(ni, portal).is_none() || (list == List::Priority && self.look_back(slot)) {
            return self.drop_entry(slot);
        }
        let wanted = spec.wanted(ni);
        let Some(this) = self.portal_mut(ni, portal) else { return };
        let queue = this.queue;
        this.list_counts[list as usize] += 1;
        let linked = this.matcher.post_portal(list, &wanted, slot);
        self.entries[slot].linked = Some(linked);
        if !spec.has(entry::EVENT_LINK_DISABLE) {
            self.tell(queue, plain(event::LINK, portal, spec.user));
        }
    }

    /// Finds the headers that an entry of the priority list would have taken. True if they have used it up.
    fn look_back(&mut self, slot: u32) -> bool {
        let Entry { ni, portal, spec, counter, .. } = self.entries[slot];
        let queue = self.portal(ni, portal).and_then(|this| this.queue);
        let (user, options) = (spec.user, spec.options);
        let found = Claim { queue, user, options, counter, ends_entry: false };
        let mut local_offset: u64 = 0;
        while let Some(header) = self.find_header(ni, portal, &spec, local_offset) {
            let asked_len = self.headers[header].event.asked_len;
            let counts = spec.has(entry::LOCAL_INC_UH_RLENGTH);
            if counts {
                local_offset = local_offset.saturating_add(asked_len).min(spec.len);
            }
            let ends_entry = spec.has(entry::USE_ONCE) || (counts && spec.is_used_up(local_offset));
            self.claim_header(header, Claim { ends_entry, ..found }, portal);
            if ends_entry {
                return true;
            }
        }
        self.entries[slot].local_offset = local_offset;
        false
    }

    fn check_entry(
        &self,
        ni: u8,
        portal: u32,
        spec: &EntrySpec,
    ) -> Result<Option<u64>, PortalsError> {
        let is_matching = ni & interface::MATCHING != 0;
        let mask = if is_matching { entry::MATCH_MASK } else { entry::LIST_MASK };
        if spec.options & !mask != 0 || self.portal(ni, portal).is_none() {
            return Err(PortalsError::Invalid);
        }
        self.counter_key(ni, spec.counter)
    }

    /// Looks through the unexpected headers; tells of each that fits, or of the first.
    pub fn search(
        &mut self,
        ni: u8,
        portal: u32,
        kind: SearchKind,
        spec: EntrySpec,
    ) -> Result<(), PortalsError> {
        let counter = self.check_entry(ni, portal, &spec)?;
        let queue = self.portal(ni, portal).ok_or(PortalsError::Invalid)?.queue;
        let (user, options) = (spec.user, spec.options);
        let claim = Claim { queue, user, options, counter, ends_entry: false };
        let is_once = spec.has(entry::USE_ONCE);
        let mut found_count = 0u64;
        match kind {
            SearchKind::Delete => {
                while let Some(header) = self.find_header(ni, portal, &spec, 0) {
                    self.claim_header(header, claim, portal);
                    found_count += 1;
                    if is_once {
                        break;
                    }
                }
            }
            SearchKind::Only => {
                let fitting = self.fitting_headers(ni, portal, &spec, is_once);
                for &header in &fitting {
                    let event = self.headers[header].event;
                    let event = PortalsEvent { kind: event::SEARCH, user, list: 1, ..event };
                    self.tell(queue, event);
                    self.count_found(&claim, &event);
                }
                found_count = fitting.len() as u64;
            }
        }
        if found_count == 0 {
            let fail = fail::NO_MATCH;
            self.tell(queue, PortalsEvent { fail, ..plain(event::SEARCH, portal, user) });
        }
        if options & entry::EVENT_CT_OVERFLOW != 0 && (found_count == 0 || !is_once) {
            self.tally(counter, fail::NO_MATCH, 0);
        }
        Ok(())
    }

    /// The oldest header that fits.
    fn find_header(
        &mut self,
        ni: u8,
        portal: u32,
        spec: &EntrySpec,
        local_offset: u64,
    ) -> Option<u32> {
        let wanted = spec.wanted(ni);
        if spec.has(entry::NO_TRUNCATE) {
            // What is too long is passed over, which no index does.
            let headers = &self.headers;
            let this = self.interfaces[usize::from(ni)].as_ref()?;
            let matcher = &this.portals.get(portal as usize)?.as_ref()?.matcher;
            return matcher.held_portals(&wanted).find(|&slot| {
                let event = &headers[slot].event;
                !spec.is_too_long(local_offset, event.offset, event.asked_len)
            });
        }
        self.portal_mut(ni, portal)?.matcher.search_portal(&wanted)
    }

    /// All that fit, oldest first, or the first only.
    fn fitting_headers(
        &self,
        ni: u8,
        portal: u32,
        spec: &EntrySpec,
        is_once: bool,
    ) -> alloc::vec::Vec<u32> {
        let Some(this) = self.portal(ni, portal) else { return alloc::vec::Vec::new() };
        let wanted = spec.wanted(ni);
        let fitting = this.matcher.held_portals(&wanted).filter(|&slot| {
            let event = &self.headers[slot].event;
            !spec.is_too_long(0, event.offset, event.asked_len)
        });
        fitting.take(if is_once { 1 } else { usize::MAX }).collect()
    }

    /// Takes a header out of the list, and tells of it as soon as its bytes are there.
    fn claim_header(&mut self, slot: u32, claim: Claim, portal: u32) {
        let header = &mut self.headers[slot];
        let (ni, held) = (header.ni, header.held.take());
        header.claim = Some(claim);
        let is_ready = header.is_ready;
        if let Some(this) = self.portal_mut(ni, portal)
            && let Some(held) = held
        {
            this.matcher.release(held);
            this.header_count -= 1;
        }
        if is_ready {
            self.tell_claimed(slot);
        }
    }

    /// A header that was found has its bytes.
    pub(super) fn tell_claimed(&mut self, slot: u32) {
        let Some(claim) = self.headers[slot].claim else { return };
        let Header { event, portal, entry: lies_in, .. } = self.headers.remove(slot);
        let kind = event.kind + event::OVERFLOW;
        let is_ok = event.fail == fail::OK;
        let is_silent = claim.options & entry::EVENT_OVER_DISABLE != 0
            || (is_ok && claim.options & entry::EVENT_SUCCESS_DISABLE != 0);
        if !is_silent {
            self.tell(claim.queue, PortalsEvent { kind, user: claim.user, list: 1, ..event });
        }
        self.count_found(&claim, &event);
        self.entries[lies_in].header_count -= 1;
        self.retire(lies_in);
        if claim.ends_entry && claim.options & entry::EVENT_UNLINK_DISABLE == 0 {
            self.tell(claim.queue, plain(event::AUTO_UNLINK, portal, claim.user));
        }
    }

    /// Counts what was found; a message that broke off, as a failure.
    fn count_found(&mut self, claim: &Claim, found: &PortalsEvent) {
        if claim.options & entry::EVENT_CT_OVERFLOW != 0 {
            let in_bytes = claim.options & entry::EVENT_CT_BYTES != 0;
            self.tally(claim.counter, found.fail, if in_bytes { found.moved_len } else { 1 });
        }
    }

    /// A header is forgotten: its portal is.
    pub(super) fn drop_header(&mut self, slot: u32) {
        let Header { entry, .. } = self.headers.remove(slot);
        if self.entries.get(entry).is_some() {
            self.entries[entry].header_count -= 1;
            self.retire(entry);
        }
    }

    /// Unlinks an entry that nothing uses.
    pub fn unlink(&mut self, handle: u32) -> Result<(), PortalsError> {
        let slot = slot_of(&self.entries, handle).ok_or(PortalsError::Invalid)?;
        let this = &self.entries[slot];
        if this.busy_count > 0 {
            return Err(PortalsError::InUse);
        }
        if this.linked.is_none() {
            return Err(PortalsError::Invalid);
        }
        if this.header_count > 0 {
            return Err(PortalsError::InUse);
        }
        self.take_off(slot);
        self.drop_entry(slot);
        Ok(())
    }

    /// The interface of an entry, also of one that was unlinked and is not yet out of use.
    pub fn entry_interface(&self, handle: u32) -> Option<u8> {
        Some(self.entries[slot_of(&self.entries, handle)?].ni)
    }

    /// Takes an entry off its list: no message matches it any more.
    pub(super) fn take_off(&mut self, slot: u32) {
        let Entry { ni, portal, list, .. } = self.entries[slot];
        let Some(linked) = self.entries[slot].linked.take() else { return };
        if let Some(this) = self.portal_mut(ni, portal) {
            this.matcher.unlink(linked);
            this.list_counts[list as usize] -= 1;
        }
    }

    /// An entry that is off its list and not in use: it is told so, and forgotten when nothing refers to it.
    pub(super) fn retire(&mut self, slot: u32) {
        let this = &mut self.entries[slot];
        if this.linked.is_some() || this.busy_count > 0 {
            return;
        }
        let (ni, portal, user, list) = (this.ni, this.portal, this.spec.user, this.list);
        let (is_told, owes) =
            (!this.spec.has(entry::EVENT_UNLINK_DISABLE), core::mem::take(&mut this.owes_unlink));
        let is_free = this.header_count == 0;
        let queue = self.portal(ni, portal).and_then(|this| this.queue);
        if owes && is_told {
            self.tell(queue, plain(event::AUTO_UNLINK, portal, user));
        }
        if is_free {
            if list == List::Overflow && is_told && !self.saboteur.makes(Sabotage::FreeNotTold) {
                self.tell(queue, plain(event::AUTO_FREE, portal, user));
            }
            self.drop_entry(slot);
        }
    }

    fn drop_entry(&mut self, slot: u32) {
        let buf = self.entries[slot].buf;
        self.freed.push(buf);
        self.forget_entry(slot);
    }

    /// Forgets an entry whose memory is still the caller's.
    fn forget_entry(&mut self, slot: u32) {
        let ni = self.entries.remove(slot).ni;
        if let Ok(interface) = self.interface_mut(ni) {
            interface.entry_count -= 1;
        }
    }
}

/// An event that says only what happened where, and to whom.
fn plain(kind: u8, portal: u32, user: u64) -> PortalsEvent {
    PortalsEvent { kind, portal, user, ..PortalsEvent::default() }
}

const _: () = assert!(NOTHING == u32::MAX);
