//! Appending, searching, unlinking (B.4 to B.6).

use packhorse_proto::List;
use packhorse_proto::portals::codes::{entry, event, fail};
use packhorse_proto::portals::{EntrySpec, PortalsError, PortalsEvent, SearchKind};

use super::{At, Claim, Entry, Header, Model, fits, has, is_short, plain, takes};
use crate::portals::bytes::Image;

impl Model {
    /// Whether there is room for one more entry.
    pub(in crate::portals) fn has_room(&self, ni: u8, portal: u32, list: List) -> bool {
        let limits = self.ni(ni).limits;
        let alive = self.entries.iter().filter(|this| this.ni == ni && this.at != At::Gone);
        alive.count() < limits.entry_count_max as usize
            && self.list(ni, portal, list).len() < limits.list_count_max as usize
    }

    /// An entry, in no list yet.
    pub(in crate::portals) fn add_entry(
        &mut self,
        (ni, portal, list): (u8, u32, List),
        spec: EntrySpec,
        counter: Option<usize>,
        handle: u32,
    ) -> usize {
        let (at, image) = (At::Waits, Image::blank(spec.len));
        let (local, owes_unlink, is_seen) = (0, false, false);
        self.entries.push(Entry {
            ni,
            portal,
            list,
            spec,
            counter,
            handle,
            at,
            local,
            owes_unlink,
            image,
            is_seen,
        });
        self.entries.len() - 1
    }

    /// B.4.
    pub(in crate::portals) fn link(&mut self, index: usize) {
        if self.entries[index].at != At::Waits {
            return;
        }
        let Entry { ni, portal, list, spec, .. } = self.entries[index];
        if list == List::Priority && self.look_back(index) {
            return self.drop_entry(index);
        }
        self.entries[index].at = At::Linked(self.link_serial);
        self.link_serial += 1;
        if !has(&spec, entry::EVENT_LINK_DISABLE) {
            let queue = self.queue_of(ni, portal);
            self.tell(queue, plain(event::LINK, portal, spec.user));
        }
    }

    /// True: what came before it has used it up.
    fn look_back(&mut self, index: usize) -> bool {
        let Entry { ni, portal, spec, counter, .. } = self.entries[index];
        let queue = self.queue_of(ni, portal);
        let mut local = 0;
        while let Some(&id) = self.matching_headers(ni, portal, &spec, local).first() {
            let asked_len = self.header(id).event.asked_len;
            if has(&spec, entry::LOCAL_INC_UH_RLENGTH) {
                local = (local + asked_len).min(spec.len);
            }
            let ends = has(&spec, entry::USE_ONCE)
                || (has(&spec, entry::LOCAL_INC_UH_RLENGTH) && is_short(&spec, local));
            let (user, options) = (spec.user, spec.options);
            self.claim(id, Claim { queue, user, options, counter, ends });
            if ends {
                return true;
            }
        }
        self.entries[index].local = local;
        false
    }

    fn header(&self, id: u64) -> &Header {
        self.headers.iter().find(|header| header.id == id).expect("a header")
    }

    /// Those that nobody found yet and that fit, oldest first.
    fn matching_headers(&self, ni: u8, portal: u32, spec: &EntrySpec, local: u64) -> Vec<u64> {
        let matching = self.headers.iter().filter(|header| {
            let event = &header.event;
            (header.ni, header.portal) == (ni, portal)
                && header.claim.is_none()
                && takes(ni, spec, event.bits, event.initiator)
                && fits(spec, local, event.offset, event.asked_len)
        });
        matching.map(|header| header.id).collect()
    }

    fn claim(&mut self, id: u64, claim: Claim) {
        let header = self.headers.iter_mut().find(|header| header.id == id).expect("a header");
        header.claim = Some(claim);
        if header.is_ready {
            self.tell_claimed(id);
        }
    }

    /// A header that was found, and whose bytes are there, is told and leaves.
    pub(super) fn tell_claimed(&mut self, id: u64) {
        let Some(claim) = self.header(id).claim else { return };
        let place = self.headers.iter().position(|header| header.id == id).expect("a header");
        let Header { event, portal, entry: lies_in, .. } = self.headers.remove(place);
        let is_silent = claim.options & entry::EVENT_OVER_DISABLE != 0
            || (event.fail == fail::OK && claim.options & entry::EVENT_SUCCESS_DISABLE != 0);
        if !is_silent {
            let kind = event.kind + event::OVERFLOW;
            self.tell(claim.queue, PortalsEvent { kind, user: claim.user, list: 1, ..event });
        }
        self.count_found(&claim, &event);
        self.retire(lies_in);
        if claim.ends && claim.options & entry::EVENT_UNLINK_DISABLE == 0 {
            self.tell(claim.queue, plain(event::AUTO_UNLINK, portal, claim.user));
        }
    }

    fn count_found(&mut self, claim: &Claim, event: &PortalsEvent) {
        if claim.options & entry::EVENT_CT_OVERFLOW != 0 {
            let in_bytes = claim.options & entry::EVENT_CT_BYTES != 0;
            self.tally(claim.counter, event.fail, if in_bytes { event.moved_len } else { 1 });
        }
    }

    /// B.6.
    pub(in crate::portals) fn search(
        &mut self,
        (ni, portal): (u8, u32),
        kind: SearchKind,
        spec: &EntrySpec,
        counter: Option<usize>,
    ) {
        let queue = self.queue_of(ni, portal);
        let (user, options) = (spec.user, spec.options);
        let claim = Claim { queue, user, options, counter, ends: false };
        let is_once = has(spec, entry::USE_ONCE);
        let mut found = self.matching_headers(ni, portal, spec, 0);
        found.truncate(if is_once { 1 } else { usize::MAX });
        for &id in &found {
            match kind {
                SearchKind::Delete => self.claim(id, claim),
                SearchKind::Only => {
                    let event = self.header(id).event;
                    self.tell(queue, PortalsEvent { kind: event::SEARCH, user, list: 1, ..event });
                    self.count_found(&claim, &event);
                }
            }
        }
        if found.is_empty() {
            let fail = fail::NO_MATCH;
            self.tell(queue, PortalsEvent { fail, ..plain(event::SEARCH, portal, user) });
        }
        if options & entry::EVENT_CT_OVERFLOW != 0 && (found.is_empty() || !is_once) {
            self.tally(counter, fail::NO_MATCH, 0);
        }
    }

    /// B.5.
    pub(in crate::portals) fn unlink(&mut self, index: usize) -> Result<(), PortalsError> {
        let is_busy = self.is_busy(index);
        match self.entries[index].at {
            At::Gone => Err(PortalsError::Invalid),
            _ if is_busy => Err(PortalsError::InUse),
            At::Waits | At::Off => Err(PortalsError::Invalid),
            At::Linked(_) if self.header_count(index) > 0 => Err(PortalsError::InUse),
            At::Linked(_) => {
                self.drop_entry(index);
                Ok(())
            }
        }
    }

    /// The application lets messages in, or none.
    pub(in crate::portals) fn enable(&mut self, ni: u8, portal: u32, is_enabled: bool) {
        let this = self.portal_mut(ni, portal);
        (this.is_enabled, this.owes_stop) = (is_enabled, false);
    }
}
