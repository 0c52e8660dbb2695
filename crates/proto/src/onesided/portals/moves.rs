//! What the application asks of others: memory descriptors, operations that begin at once or when a counter says so, and how they end.

use super::codes::{ack, event, fail, md};
use super::counters::Due;
use super::{
    ORDERED_LEN_MAX, Portals, PortalsError, PortalsEvent, THING_COUNT_MAX, Witnessed, arithmetic,
    handle_of, slot_of,
};
use crate::base::api::List;
use crate::base::types::{BufId, PeerId, Place};

/// Memory to be used by operations of ours.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorSpec {
    /// The memory.
    pub buf: BufId,
    /// Its length.
    pub len: u64,
    /// As in [`md`].
    pub options: u32,
    /// The queue that is told.
    pub queue: Option<u32>,
    /// The counter that counts it.
    pub counter: Option<u32>,
    /// It is all of the address space, in which offsets are addresses: whom to ask whether there is memory, before an operation uses it.
    pub asks: Option<IsThere>,
}

/// Tells whether so many bytes can be read from an address on, or written.
pub type IsThere = fn(at: u64, len: u64, writes: bool) -> bool;

/// A memory descriptor.
#[derive(Debug)]
pub(super) struct Descriptor {
    pub(super) ni: u8,
    pub(super) buf: BufId,
    len: u64,
    options: u32,
    queue: Option<u64>,
    counter: Option<u64>,
    asks: Option<IsThere>,
    /// Operations and triggers that use it.
    busy_count: u32,
    is_released: bool,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveKind {
    /// Bytes go to the target.
    Put,
    /// Bytes come from there.
    Get,
    /// Elements there are computed with.
    Atomic,
    /// Elements there are computed with, and what was there comes back.
    FetchAtomic,
    /// Elements there are replaced, perhaps under a condition, and what was there comes back.
    Swap,
}

impl MoveKind {
    fn puts(self) -> bool {
        self != Self::Get
    }

    pub(super) fn fetches(self) -> bool {
        matches!(self, Self::Get | Self::FetchAtomic | Self::Swap)
    }
}

/// An operation to begin. `put` and `get` are descriptors and where in them; an operation has those it needs.
#[derive(Clone, Copy, Debug)]
pub struct MoveSpec {
    /// On which interface; that of its descriptors.
    pub ni: u8,
    /// What it does.
    pub kind: MoveKind,
    /// The target.
    pub peer: PeerId,
    /// Which portal there.
    pub portal: u32,
    /// Match bits.
    pub bits: u64,
    /// Where in what matches.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// 64 bits beside them.
    pub header: u64,
    /// Returned in events.
    pub user: u64,
    /// As in [`ack`].
    pub ack: u8,
    /// Where its bytes are.
    pub put: Option<(u32, u64)>,
    /// Where bytes go that come back.
    pub get: Option<(u32, u64)>,
    /// The atomic operation, and its elements, as Portals numbers them.
    pub op: u8,
    /// Its elements.
    pub datatype: u8,
    /// What a conditional or masked swap compares with.
    pub operand: [u64; 4],
    /// A copy of its bytes, to be freed with it: they may change in their place.
    pub copy: Option<BufId>,
}

/// A descriptor in use, which stays until it is let go: what else it says is read there. An operation is copied some times before it leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    slot: u32,
    pub(super) buf: BufId,
    pub(super) base: u64,
}

/// An operation that was accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(super) spec: MoveSpec,
    pub(super) put: Option<Used>,
    pub(super) get: Option<Used>,
}

/// An operation that is under way, or waits for its turn to begin.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) of: Move,
    pub(super) outcome: Outcome,
    pub(super) has_begun: bool,
}

/// What the target says of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) fail: u8,
    pub(crate) len: u64,
    pub(crate) offset: u64,
    pub(crate) list: u8,
}

impl Outcome {
    /// What is true of an operation of which its target says no more than that it is over (PROTOCOL §17.5).
    fn as_asked(spec: &MoveSpec) -> Self {
        Self { fail: fail::OK, len: spec.len, offset: spec.offset, list: List::Priority as u8 }
    }
}

impl Move {
    pub(crate) fn spec(&self) -> &MoveSpec {
        &self.spec
    }

    /// Where its bytes are.
    pub(crate) fn sent(&self) -> Place {
        match (self.spec.copy, self.put) {
            (Some(buf), _) => Place { buf, offset: 0 },
            (None, Some(Used { buf, base, .. })) => Place { buf, offset: base },
            (None, None) => Place { buf: BufId(u64::MAX), offset: 0 },
        }
    }

    fn for_each_used(&self, mut each: impl FnMut(Used)) {
        if let Some(put) = self.put {
            each(put);
        }
        if let Some(get) = self.get {
            each(get);
        }
    }

    /// Where bytes go that come back.
    pub(crate) fn fetched(&self) -> Option<Place> {
        self.get.map(|Used { buf, base, .. }| Place { buf, offset: base })
    }
}

impl Portals {
    /// An operation is about to be asked of its target.
    pub(crate) fn launch(&mut self, launch: u32) {
        let this = &mut self.launches[launch];
        this.has_begun = true;
        let user = this.of.spec.user;
        self.bear(Witnessed::Began(user));
    }

    /// Whether there is memory where an operation that is about to begin has its bytes, and where it wants those that come back.
    pub(crate) fn has_memory(&self, launch: u32) -> bool {
        let Move { spec, put, get } = &self.launches[launch].of;
        let is_there = |used: &Used, writes| match self.descriptors[used.slot].asks {
            Some(is_there) if spec.len > 0 => is_there(used.base, spec.len, writes),
            _ => true,
        };
        let put = put.as_ref().filter(|_| spec.copy.is_none());
        put.is_none_or(|put| is_there(put, false))
            && get.as_ref().is_none_or(|get| is_there(get, true))
    }

    /// An operation that never begins.
    pub(super) fn drop_waiting(&mut self, launch: u32) {
        let Launch { of, .. } = self.launches.remove(launch);
        self.let_go(&of);
    }

    /// An operation that is under way, or about to begin.
    pub(crate) fn launched(&self, launch: u32) -> &Move {
        &self.launches[launch].of
    }

    /// What the target said of it.
    pub(crate) fn set_outcome(&mut self, launch: u32, outcome: Outcome) {
        self.launches[launch].outcome = outcome;
    }

    /// What this process is called on an interface, and for whom it asks.
    pub(crate) fn own(&self, ni: u8) -> (u64, u32) {
        self.interface(ni).map_or((0, 0), |interface| (interface.own, interface.uid))
    }

    /// Binds memory for operations.
    pub fn add_descriptor(&mut self, ni: u8, spec: DescriptorSpec) -> Result<u32, PortalsError> {
        if spec.options & !md::MASK != 0 {
            return Err(PortalsError::Invalid);
        }
        let (queue, counter) =
            (self.queue_key(ni, spec.queue)?, self.counter_key(ni, spec.counter)?);
        let interface = self.interface_mut(ni)?;
        let most = interface.limits.descriptor_count_max.min(THING_COUNT_MAX);
        if interface.descriptor_count >= most {
            return Err(PortalsError::NoSpace);
        }
        interface.descriptor_count += 1;
        let DescriptorSpec { buf, len, options, asks, .. } = spec;
        let (busy_count, is_released) = (0, false);
        let this =
            Descriptor { ni, buf, len, options, queue, counter, asks, busy_count, is_released };
        let slot = self.descriptors.insert(this);
        Ok(handle_of(&self.descriptors, slot))
    }

    /// Releases a descriptor. What is under way goes on, and its memory is freed after it.
    pub fn release_descriptor(&mut self, handle: u32) -> Result<(), PortalsError> {
        let slot = self.descriptor_slot(handle)?;
        self.descriptors[slot].is_released = true;
        let ni = self.descriptors[slot].ni;
        self.interface_mut(ni)?.descriptor_count -= 1;
        self.free_descriptor(slot);
        Ok(())
    }

    /// The interface of a descriptor.
    pub fn descriptor_interface(&self, handle: u32) -> Option<u8> {
        Some(self.descriptors[self.descriptor_slot(handle).ok()?].ni)
    }

    /// Its memory and options.
    pub fn descriptor(&self, handle: u32) -> Option<(BufId, u32)> {
        let this = &self.descriptors[self.descriptor_slot(handle).ok()?];
        Some((this.buf, this.options))
    }

    fn descriptor_slot(&self, handle: u32) -> Result<u32, PortalsError> {
        let slot = slot_of(&self.descriptors, handle).ok_or(PortalsError::Invalid)?;
        if self.descriptors[slot].is_released { Err(PortalsError::Invalid) } else { Ok(slot) }
    }

    fn free_descriptor(&mut self, slot: u32) {
        let this = &self.descriptors[slot];
        if this.is_released && this.busy_count == 0 {
            let buf = self.descriptors.remove(slot).buf;
            self.freed.push(buf);
        }
    }

    /// Begins an operation: now, or when a counter reaches a threshold.
    pub fn begin(
        &mut self,
        spec: MoveSpec,
        trigger: Option<(u32, u64)>,
    ) -> Result<(), PortalsError> {
        let checked = self.check_move(&spec, trigger);
        let (put, get) = match checked {
            Ok(used) => used,
            Err(error) => {
                self.freed.extend(spec.copy);
                return Err(error);
            }
        };
        for used in [put, get].into_iter().flatten() {
            self.descriptors[used.slot].busy_count += 1;
        }
        self.is_work_left |= spec.len > ORDERED_LEN_MAX;
        let (ni, of, outcome) = (spec.ni, Move { spec, put, get }, Outcome::as_asked(&spec));
        let launch = self.launches.insert(Launch { of, outcome, has_begun: false });
        let due = Due::Move { ni, launch };
        let Some((counter, threshold)) = trigger else {
            self.due.push_back(due);
            return Ok(());
        };
        let added = self.add_trigger(counter, threshold, due);
        if added.is_err() {
            self.drop_waiting(launch);
        }
        added
    }

    fn check_move(
        &self,
        spec: &MoveSpec,
        trigger: Option<(u32, u64)>,
    ) -> Result<(Option<Used>, Option<Used>), PortalsError> {
        let put = self.use_descriptor(spec, spec.put)?;
        let get = self.use_descriptor(spec, spec.get)?;
        if put.is_some() != spec.kind.puts() || get.is_some() != spec.kind.fetches() {
            return Err(PortalsError::Invalid);
        }
        let is_atomic = !matches!(spec.kind, MoveKind::Put | MoveKind::Get);
        if is_atomic && !arithmetic::makes_sense(spec.kind, spec.op, spec.datatype, spec.len) {
            return Err(PortalsError::Invalid);
        }
        if let Some(used) = put.filter(|_| !spec.kind.fetches()) {
            let put = &self.descriptors[used.slot];
            let is_good = match spec.ack {
                ack::FULL => put.queue.is_some() && put.options & md::UNRELIABLE == 0,
                ack::COUNTED => put.counter.is_some(),
                other => matches!(other, ack::NONE | ack::OVER),
            };
            if !is_good {
                return Err(PortalsError::Invalid);
            }
        }
        if let Some((counter, _)) = trigger
            && self.counter_interface(counter) != Some(spec.ni)
        {
            return Err(PortalsError::Invalid);
        }
        Ok((put, get))
    }

    fn use_descriptor(
        &self,
        spec: &MoveSpec,
        wanted: Option<(u32, u64)>,
    ) -> Result<Option<Used>, PortalsError> {
        let Some((handle, base)) = wanted else { return Ok(None) };
        let slot = self.descriptor_slot(handle)?;
        let this = &self.descriptors[slot];
        if this.ni != spec.ni || base > this.len || spec.len > this.len - base {
            return Err(PortalsError::Invalid);
        }
        Ok(Some(Used { slot, buf: this.buf, base }))
    }

    /// An operation does not use its descriptors any more.
    pub(super) fn let_go(&mut self, of: &Move) {
        of.for_each_used(|used| {
            self.descriptors[used.slot].busy_count -= 1;
            self.free_descriptor(used.slot);
        });
        self.freed.extend(of.spec.copy);
    }

    /// An operation is over: its events, in their order, and its counts. `failed` is for one that never got an answer.
    pub(crate) fn completed(&mut self, launch: u32, failed: Option<u8>) {
        let Launch { of, outcome, .. } = self.launches.remove(launch);
        let (spec, answer) = (of.spec, failed.unwrap_or(outcome.fail));
        self.bear(Witnessed::Ended(spec.user, failed));
        let told = PortalsEvent { user: spec.user, ..PortalsEvent::default() };
        if let Some(put) = of.put {
            let fail = failed.unwrap_or(fail::OK);
            let is_told = self.descriptors[put.slot].options & md::EVENT_SEND_DISABLE == 0;
            let event = PortalsEvent { kind: event::SEND, fail, moved_len: spec.len, ..told };
            self.tell_of(put, is_told, md::EVENT_CT_SEND, spec.len, event);
        }
        let Outcome { len, offset, list, .. } = match failed {
            None => outcome,
            Some(_) => Outcome::default(),
        };
        let answered = PortalsEvent { fail: answer, moved_len: len, offset, list, ..told };
        if let Some(get) = of.get {
            let event = PortalsEvent { kind: event::REPLY, ..answered };
            self.tell_of(get, true, md::EVENT_CT_REPLY, len, event);
        } else if let Some(put) = of.put {
            let event = PortalsEvent { kind: event::ACK, ..answered };
            match spec.ack {
                ack::FULL => self.tell_of(put, true, md::EVENT_CT_ACK, len, event),
                ack::COUNTED => self.tell_of(put, false, md::EVENT_CT_ACK, len, event),
                ack::OVER => {
                    let &Descriptor { options, counter, .. } = &self.descriptors[put.slot];
                    // Over is over: it counts as one that went well, and as one.
                    if options & md::EVENT_CT_ACK != 0 {
                        self.tally(counter, failed.unwrap_or(fail::OK), 1);
                    }
                }
                _ => {}
            }
        }
        self.let_go(&of);
    }

    /// Tells and counts one step of an operation.
    fn tell_of(&mut self, used: Used, is_told: bool, counts: u32, len: u64, event: PortalsEvent) {
        let &Descriptor { options, queue, counter, .. } = &self.descriptors[used.slot];
        let is_silent = event.fail == fail::OK && options & md::EVENT_SUCCESS_DISABLE != 0;
        if is_told && !is_silent {
            self.tell(queue, event);
        }
        if options & counts != 0 {
            let amount = if options & md::EVENT_CT_BYTES != 0 { len } else { 1 };
            self.tally(counter, event.fail, amount);
        }
    }
}
