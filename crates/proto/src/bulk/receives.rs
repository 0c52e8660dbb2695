//! Receives: those that are posted, those that messages arrive into, and the places of transfers.
//!
//! PROTOCOL §9. Where a message goes in a receive, when a receive is full and when it is over is decided here. Which message it takes the matcher
//! decides; who finds a receive full takes it out of the matcher's lists (`Entry`).

use core::ops::Index;

use crate::base::api::{List, RecvSpec, Use};
use crate::base::slab::Slab;
use crate::base::types::{BufId, PeerId, ReqId};
use crate::matching::EntryId;

/// A posted receive.
#[derive(Debug)]
pub(crate) struct Receive {
    /// The only peer it takes messages of, if it names one.
    pub(crate) source: Option<PeerId>,
    pub(crate) buf: BufId,
    pub(crate) len: u64,
    /// Where the next message goes.
    offset: u64,
    pub(crate) user: u64,
    /// Its place in the posted lists, while posted.
    entry: Option<EntryId>,
    pub(crate) list: List,
    uses: Use,
    header_only: bool,
    /// Of the priority list, for one message and its bytes: what most receives are.
    pub(crate) is_simple: bool,
    /// Not posted: the place of a one-sided transfer.
    is_transfer: bool,
    /// Messages arriving into it, and (overflow) lying in it.
    in_use_count: u32,
}

impl Receive {
    #[inline(always)]
    fn new(spec: &RecvSpec, entry: Option<EntryId>) -> Self {
        Self {
            source: spec.criteria.source,
            buf: spec.buf,
            len: spec.len,
            offset: 0,
            user: spec.user,
            entry,
            list: spec.list,
            uses: spec.uses,
            header_only: spec.header_only,
            is_simple: spec.list == List::Priority && spec.uses == Use::Once && !spec.header_only,
            is_transfer: false,
            in_use_count: 0,
        }
    }

    fn for_claim(source: PeerId, buf: BufId, len: u64, user: u64) -> Self {
        Self {
            source: Some(source),
            buf,
            len,
            offset: 0,
            user,
            entry: None,
            list: List::Priority,
            uses: Use::Once,
            header_only: false,
            is_simple: true,
            is_transfer: false,
            in_use_count: 0,
        }
    }

    /// The place of a put or a get: no receive at all, but its bytes arrive as those of one.
    fn for_transfer(source: PeerId, buf: BufId, owner: u64) -> Self {
        Self {
            source: Some(source),
            buf,
            len: 0,
            offset: 0,
            user: owner,
            entry: None,
            list: List::Priority,
            uses: Use::Once,
            header_only: false,
            is_simple: false,
            is_transfer: true,
            in_use_count: 1,
        }
    }

    pub(crate) fn is_once(&self) -> bool {
        self.uses == Use::Once
    }

    /// It is in the lists of the matcher.
    pub(crate) fn is_posted(&self) -> bool {
        self.entry.is_some()
    }

    /// Messages arrive into it, or lie in it.
    pub(crate) fn is_in_use(&self) -> bool {
        self.in_use_count > 0
    }

    /// Whether an entry used many times has too little room for another message.
    pub(crate) fn is_full(&self) -> bool {
        match self.uses {
            Use::Once => self.in_use_count > 0,
            Use::Many { free_len_min } => self.len - self.offset < free_len_min.max(1),
        }
    }
}

/// Where a message goes in its receive's memory.
pub(crate) struct Fit {
    pub(crate) receive: u32,
    pub(crate) offset: u64,
    pub(crate) cap: u64,
    pub(crate) list: List,
}

/// A receive that a message was bound to, which is over.
pub(crate) struct Unbound {
    pub(crate) req: ReqId,
    pub(crate) user: u64,
    pub(crate) source: Option<PeerId>,
    /// The receive was for one message, and is over with it. One for many may be (`take_if_done`).
    pub(crate) is_over: bool,
}

/// All receives of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Receives {
    table: Slab<Receive>,
}

/// To look at.
impl Index<u32> for Receives {
    type Output = Receive;

    #[inline(always)]
    fn index(&self, slot: u32) -> &Receive {
        &self.table[slot]
    }
}

impl Receives {
    /// A receive is posted; `enter` puts it into the matcher's lists.
    #[inline(always)]
    pub(crate) fn post(&mut self, spec: &RecvSpec, enter: impl FnOnce(u32) -> EntryId) -> ReqId {
        let slot = self.table.next_slot();
        let entry = enter(slot);
        ReqId(self.table.put(slot, Receive::new(spec, Some(entry))))
    }

    /// A receive that takes what is here already, before it is in any list.
    pub(crate) fn open(&mut self, spec: &RecvSpec) -> (u32, ReqId) {
        let (slot, key) = self.table.insert_keyed(Receive::new(spec, None));
        (slot, ReqId(key))
    }

    /// Such a receive is in a list now.
    pub(crate) fn on_listed(&mut self, slot: u32, entry: EntryId) {
        self.table[slot].entry = Some(entry);
    }

    /// A receive for a message of this peer that was claimed.
    pub(crate) fn open_for_claim(
        &mut self,
        source: PeerId,
        buf: BufId,
        len: u64,
        user: u64,
    ) -> (u32, ReqId) {
        let receive = Receive::for_claim(source, buf, len, user);
        let (slot, key) = self.table.insert_keyed(receive);
        (slot, ReqId(key))
    }

    /// The place of a put or a get.
    pub(super) fn open_for_transfer(&mut self, source: PeerId, buf: BufId, owner: u64) -> u32 {
        self.table.insert(Receive::for_transfer(source, buf, owner))
    }

    /// The name of a receive that is over before it would be kept.
    #[inline(always)]
    pub(crate) fn pass(&mut self) -> ReqId {
        ReqId(self.table.pass_key())
    }

    /// The receive of a request, if it is not over.
    pub(crate) fn find(&self, req: ReqId) -> Option<u32> {
        self.table.lookup(req.0).filter(|&slot| !self.table[slot].is_transfer)
    }

    /// A message of this length is bound to a receive: its place there. An entry: the receive takes no more, and leaves the lists.
    #[inline(always)]
    pub(crate) fn bind(&mut self, slot: u32, total: u64) -> (Fit, Option<EntryId>) {
        let receive = &mut self.table[slot];
        let offset = receive.offset;
        let cap = if receive.header_only { 0 } else { total.min(receive.len - offset) };
        receive.in_use_count += 1;
        let list = receive.list;
        if let Use::Many { .. } = receive.uses {
            receive.offset += cap;
        }
        let full = if receive.is_full() { receive.entry.take() } else { None };
        (Fit { receive: slot, offset, cap, list }, full)
    }

    /// A message that has no bytes for it is bound to a receive, or the receive is not to end meanwhile.
    pub(crate) fn keep(&mut self, slot: u32) {
        self.table[slot].in_use_count += 1;
    }

    /// A message that was bound to a receive is over, or the receive may end again.
    #[inline(always)]
    pub(crate) fn unbind(&mut self, slot: u32) -> Unbound {
        let req = ReqId(self.table.key(slot));
        let receive = &mut self.table[slot];
        receive.in_use_count -= 1;
        let (user, source, is_over) = (receive.user, receive.source, receive.uses == Use::Once);
        if is_over {
            self.table.remove(slot);
        }
        Unbound { req, user, source, is_over }
    }

    /// A receive for many messages that is full, and into which nothing arrives any more, is over.
    pub(crate) fn take_if_done(&mut self, slot: u32) -> Option<(ReqId, Receive)> {
        let receive = &self.table[slot];
        let is_done = receive.entry.is_none() && receive.in_use_count == 0 && receive.is_full();
        is_done.then(|| self.take(slot))
    }

    /// A receive is over.
    #[inline(always)]
    pub(crate) fn take(&mut self, slot: u32) -> (ReqId, Receive) {
        let (key, receive) = self.table.remove_keyed(slot);
        (ReqId(key), receive)
    }

    /// A receive for many messages takes no more. An entry: it was in the lists.
    pub(crate) fn fill_up(&mut self, slot: u32) -> Option<EntryId> {
        self.table[slot].uses = Use::Many { free_len_min: u64::MAX };
        self.leave(slot)
    }

    /// A receive leaves the lists, if it is in them.
    pub(crate) fn leave(&mut self, slot: u32) -> Option<EntryId> {
        self.table[slot].entry.take()
    }

    /// All that are not the places of transfers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (ReqId, &Receive)> {
        let receives = self.table.iter().filter(|(_, receive)| !receive.is_transfer);
        receives.map(|(slot, receive)| (ReqId(self.table.key(slot)), receive))
    }

    /// How many there are, with the places of transfers.
    pub(crate) fn count(&self) -> u32 {
        self.table.len()
    }
}
