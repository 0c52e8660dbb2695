//! What a process has of Portals, written down plainly: vectors that are looked through (PROTOCOL §17, the rules B.1 to B.6).
//!
//! The model is told what only the endpoint can know: in which order requests came in, when bytes were in their place, when answers
//! were there. All else it finds by itself: which entry takes what, where the bytes go, what is told, counted and set off.

use std::collections::{BTreeMap, VecDeque};

use packhorse_proto::List;
use packhorse_proto::portals::codes::{entry, event, fail, interface, portal};
use packhorse_proto::portals::{
    Asked, EntrySpec, Incoming, ORDERED_LEN_MAX, PortalsEvent, PortalsLimits,
};

use super::bytes::{Image, Span, computed, known};
use super::ledger::{Ledger, Outcome};
use super::told::{Counter, Due, Queue, stopped_event};

mod lists;

/// One of the four interfaces.
#[derive(Clone, Debug)]
pub(super) struct Ni {
    pub(super) ni: u8,
    pub(super) limits: PortalsLimits,
    pub(super) portals: Vec<Portal>,
    /// Messages dropped, permissions violated, operations violated.
    pub(super) registers: [u64; 3],
}

/// An index of the portal table.
#[derive(Clone, Debug)]
pub(super) struct Portal {
    pub(super) options: u32,
    pub(super) queue: Option<usize>,
    pub(super) is_enabled: bool,
    owes_stop: bool,
}

impl Portal {
    pub(super) fn new(options: u32, queue: Option<usize>) -> Self {
        let is_enabled = options & portal::ALLOC_DISABLED == 0;
        Self { options, queue, is_enabled, owes_stop: false }
    }
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Waits for a counter.
    Waits,
    /// In its list, the how-manieth that was linked.
    Linked(u64),
    /// Off its list; something still refers to it.
    Off,
    /// Nothing does.
    Gone,
}

/// An entry.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) ni: u8,
    pub(super) portal: u32,
    pub(super) list: List,
    pub(super) spec: EntrySpec,
    pub(super) counter: Option<usize>,
    pub(super) handle: u32,
    pub(super) at: At,
    local: u64,
    owes_unlink: bool,
    pub(super) image: Image,
    /// Its memory was looked at since it last changed.
    pub(super) is_seen: bool,
}

/// The header of a message in an overflow entry.
#[derive(Clone, Debug)]
struct Header {
    id: u64,
    ni: u8,
    portal: u32,
    entry: usize,
    event: PortalsEvent,
    is_ready: bool,
    /// Who found it before its bytes were there.
    claim: Option<Claim>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    queue: Option<usize>,
    user: u64,
    options: u32,
    counter: Option<usize>,
    ends: bool,
}

/// A message whose bytes are moving.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) op: usize,
    ni: u8,
    portal: u32,
    entry: usize,
    span: Span,
    /// Its bytes come, or go, after it was matched.
    is_long: bool,
    header: Option<u64>,
    event: PortalsEvent,
}

/// All that a process has.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) nis: Vec<Ni>,
    pub(super) entries: Vec<Entry>,
    pub(super) queues: Vec<Queue>,
    pub(super) counters: Vec<Counter>,
    pub(super) due: VecDeque<Due>,
    pub(super) flights: BTreeMap<u32, Flight>,
    /// Oldest first.
    headers: Vec<Header>,
    header_serial: u64,
    link_serial: u64,
}

fn has(spec: &EntrySpec, option: u32) -> bool {
    spec.options & option != 0
}

/// B.2: the source and the bits. An entry of an interface without matching takes everything.
fn takes(ni: u8, spec: &EntrySpec, bits: u64, initiator: u64) -> bool {
    if ni & interface::MATCHING == 0 {
        return true;
    }
    let is_logical = ni & interface::LOGICAL != 0;
    let (node, process) = (initiator as u32, (initiator >> 32) as u32);
    let is_from = spec.node.is_none_or(|wanted| wanted == node)
        && (is_logical || spec.process.is_none_or(|wanted| wanted == process));
    is_from && (bits ^ spec.bits) & !spec.ignore == 0
}

/// B.2: with `NO_TRUNCATE` all of it must fit.
fn fits(spec: &EntrySpec, local: u64, offset: u64, len: u64) -> bool {
    let at = if has(spec, entry::MANAGE_LOCAL) { local } else { offset };
    !has(spec, entry::NO_TRUNCATE) || at.saturating_add(len) <= spec.len
}

/// B.1, step 9.
fn is_short(spec: &EntrySpec, local: u64) -> bool {
    has(spec, entry::MANAGE_LOCAL) && spec.min_free != 0 && spec.len - local < spec.min_free
}

fn plain(kind: u8, portal: u32, user: u64) -> PortalsEvent {
    PortalsEvent { kind, portal, user, ..PortalsEvent::default() }
}

impl Model {
    pub(super) fn ni(&self, ni: u8) -> &Ni {
        self.nis.iter().find(|this| this.ni == ni).expect("an open interface")
    }

    pub(super) fn ni_mut(&mut self, ni: u8) -> &mut Ni {
        self.nis.iter_mut().find(|this| this.ni == ni).expect("an open interface")
    }

    fn portal_mut(&mut self, ni: u8, portal: u32) -> &mut Portal {
        &mut self.ni_mut(ni).portals[portal as usize]
    }

    fn queue_of(&self, ni: u8, portal: u32) -> Option<usize> {
        self.ni(ni).portals[portal as usize].queue
    }

    fn is_busy(&self, entry: usize) -> bool {
        self.flights.values().any(|flight| flight.entry == entry)
    }

    /// Whether messages are moving at a portal.
    pub(super) fn is_portal_busy(&self, ni: u8, portal: u32) -> bool {
        self.flights.values().any(|flight| (flight.ni, flight.portal) == (ni, portal))
    }

    fn header_count(&self, entry: usize) -> usize {
        self.headers.iter().filter(|header| header.entry == entry).count()
    }

    /// The entries of a list, in the order of linking.
    fn list(&self, ni: u8, portal: u32, list: List) -> Vec<usize> {
        let mut linked: Vec<(u64, usize)> = Vec::new();
        for (index, this) in self.entries.iter().enumerate() {
            if let At::Linked(serial) = this.at
                && (this.ni, this.portal, this.list) == (ni, portal, list)
            {
                linked.push((serial, index));
            }
        }
        linked.sort_unstable();
        linked.into_iter().map(|(_, index)| index).collect()
    }
}

/// A request comes in.
impl Model {
    pub(super) fn arrive(
        &mut self,
        incoming: &Incoming,
        (id, ledger): (usize, &mut Ledger),
        delivery: Option<u32>,
    ) -> Result<(), String> {
        match (self.judge(incoming), delivery) {
            (Ok(entry), Some(delivery)) => {
                self.take(incoming, entry, (id, ledger), delivery);
                Ok(())
            }
            (Err(fail), None) => {
                let op = &mut ledger.ops[id];
                op.outcome = Some(Outcome { fail, ..Outcome::default() });
                op.is_delivered = true;
                Ok(())
            }
            (Ok(entry), None) => {
                let user = self.entries[entry].spec.user;
                Err(format!("operation {id} was refused, and entry {user} would have taken it"))
            }
            (Err(fail), Some(_)) => {
                Err(format!("operation {id} was taken, and was to fail with {fail}"))
            }
        }
    }

    /// Which entry takes it, or why none does.
    fn judge(&mut self, incoming: &Incoming) -> Result<usize, u8> {
        let &Incoming { ni, portal, bits, initiator, offset, len, .. } = incoming;
        let Some(this) = self.ni(ni).portals.get(portal as usize) else {
            return Err(self.refuse(ni, 0, fail::DROPPED));
        };
        if !this.is_enabled {
            return Err(self.refuse(ni, 0, fail::PT_DISABLED));
        }
        let of = |list: List| {
            self.list(ni, portal, list).into_iter().find(|&index| {
                let this = &self.entries[index];
                takes(ni, &this.spec, bits, initiator) && fits(&this.spec, this.local, offset, len)
            })
        };
        let Some(index) = of(List::Priority).or_else(|| of(List::Overflow)) else {
            return Err(self.cannot(ni, portal, true));
        };
        let spec = self.entries[index].spec;
        if spec.uid.is_some_and(|uid| uid != incoming.uid) {
            return Err(self.refuse(ni, 1, fail::PERM_VIOLATION));
        }
        let (puts, gets) = (has(&spec, entry::OP_PUT), has(&spec, entry::OP_GET));
        let is_open = match incoming.asked {
            Asked::Put | Asked::Atomic => puts,
            Asked::Get => gets,
            Asked::FetchAtomic => puts && gets,
        };
        if !is_open {
            return Err(self.refuse(ni, 2, fail::OP_VIOLATION));
        }
        if self.keeps_header(index) && !self.has_header_room(ni, portal) {
            let is_told = !has(&spec, entry::EVENT_FLOWCTRL_DISABLE);
            return Err(self.cannot(ni, portal, is_told));
        }
        Ok(index)
    }

    fn keeps_header(&self, index: usize) -> bool {
        let this = &self.entries[index];
        this.list == List::Overflow && !has(&this.spec, entry::UNEXPECTED_HDR_DISABLE)
    }

    fn has_header_room(&self, ni: u8, portal: u32) -> bool {
        let listed = self
            .headers
            .iter()
            .filter(|header| (header.ni, header.portal) == (ni, portal) && header.claim.is_none());
        listed.count() < self.ni(ni).limits.header_count_max as usize
    }

    fn refuse(&mut self, ni: u8, register: usize, fail: u8) -> u8 {
        self.ni_mut(ni).registers[register] += 1;
        fail
    }

    /// Nobody, or no room, for a message: flow control stops the portal.
    fn cannot(&mut self, ni: u8, index: u32, is_told: bool) -> u8 {
        let this = self.portal_mut(ni, index);
        if this.options & portal::FLOWCTRL == 0 {
            return self.refuse(ni, 0, fail::DROPPED);
        }
        (this.is_enabled, this.owes_stop) = (false, is_told);
        self.tell_stop(ni, index);
        self.refuse(ni, 0, fail::PT_DISABLED)
    }

    fn tell_stop(&mut self, ni: u8, portal: u32) {
        let is_busy = self.is_portal_busy(ni, portal);
        let this = self.portal_mut(ni, portal);
        if this.owes_stop && !is_busy {
            this.owes_stop = false;
            let queue = this.queue;
            self.tell(queue, stopped_event(portal));
        }
    }

    fn take(
        &mut self,
        incoming: &Incoming,
        index: usize,
        (id, ledger): (usize, &mut Ledger),
        delivery: u32,
    ) {
        let &Incoming { ni, portal, bits, initiator, uid, len, header, .. } = incoming;
        let keeps = self.keeps_header(index);
        let this = &mut self.entries[index];
        let spec = this.spec;
        let is_local = has(&spec, entry::MANAGE_LOCAL);
        let at = if is_local { this.local } else { incoming.offset };
        let moved_len = len.min(spec.len.saturating_sub(at));
        if is_local {
            this.local += moved_len;
        }
        if has(&spec, entry::USE_ONCE) || is_short(&spec, this.local) {
            (this.at, this.owes_unlink) = (At::Off, true);
        }
        let kind = match incoming.asked {
            Asked::Put => event::PUT,
            Asked::Get => event::GET,
            Asked::Atomic => event::ATOMIC,
            Asked::FetchAtomic => event::FETCH_ATOMIC,
        };
        let shift = if has(&spec, entry::IOVEC) { 0 } else { at };
        let event = PortalsEvent {
            kind,
            start: spec.start.wrapping_add(shift),
            user: spec.user,
            header,
            bits,
            asked_len: len,
            moved_len,
            offset: incoming.offset,
            initiator,
            uid,
            portal,
            list: this.list as u8,
            fail: fail::OK,
            op: incoming.op,
            datatype: incoming.datatype,
        };
        let list = this.list as u8;
        let header = keeps.then(|| self.keep_header((ni, portal), index, event));
        let is_long = matches!(incoming.asked, Asked::Put | Asked::Get) && len > ORDERED_LEN_MAX;
        let span = Span { at, len: moved_len };
        ledger.ops[id].outcome = Some(Outcome { fail: fail::OK, len: moved_len, offset: at, list });
        let flight = Flight { op: id, ni, portal, entry: index, span, is_long, header, event };
        self.move_bytes(&flight, ledger);
        self.flights.insert(delivery, flight);
    }

    fn keep_header(&mut self, (ni, portal): (u8, u32), entry: usize, event: PortalsEvent) -> u64 {
        let id = self.header_serial;
        self.header_serial += 1;
        self.headers.push(Header { id, ni, portal, entry, event, is_ready: false, claim: None });
        id
    }
}

/// Bytes.
impl Model {
    /// What a request does to the memory that it was matched with, or will have done.
    fn move_bytes(&mut self, flight: &Flight, ledger: &mut Ledger) {
        let (span, op) = (flight.span, &ledger.ops[flight.op]);
        let there =
            if span.len > 0 { self.entries[flight.entry].image.read(span) } else { Vec::new() };
        let after = match flight.event.kind {
            event::PUT if flight.is_long => None,
            event::PUT => Some(known(&op.bytes(span.len))),
            event::GET => None,
            _ => {
                let given = op.bytes(span.len);
                Some(computed(op.kind, (op.op, op.datatype), &there, &given, op.operand))
            }
        };
        if op.fetches() {
            ledger.ops[flight.op].result = there;
        }
        let is_written = after.is_some() || flight.event.kind == event::PUT;
        if is_written {
            self.stain(flight, ledger);
        }
        let this = &mut self.entries[flight.entry];
        this.is_seen = false;
        if let Some(bytes) = after {
            this.image.write(span, &bytes);
            self.forget_contested(flight);
        }
        // Somebody's bytes are still coming to where this reads from.
        if self.is_contested(flight) {
            ledger.ops[flight.op].is_stained = true;
        }
    }

    fn others<'a>(&'a self, flight: &'a Flight) -> impl Iterator<Item = &'a Flight> {
        self.flights.values().filter(move |other| {
            other.is_long && other.entry == flight.entry && other.span.meets(flight.span)
        })
    }

    /// Longer operations that meet these bytes do not know any more what they find or leave.
    fn stain(&self, flight: &Flight, ledger: &mut Ledger) {
        for other in self.others(flight) {
            ledger.ops[other.op].is_stained = true;
        }
    }

    fn is_contested(&self, flight: &Flight) -> bool {
        self.others(flight).any(|other| other.event.kind == event::PUT)
    }

    fn forget_contested(&mut self, flight: &Flight) {
        if self.is_contested(flight) {
            self.entries[flight.entry].image.forget(flight.span);
        }
    }

    /// The parts of an entry's memory that bytes are still coming to.
    pub(super) fn coming(&self, entry: usize) -> Vec<Span> {
        let coming = self.flights.values().filter(|flight| {
            flight.is_long && flight.entry == entry && flight.event.kind == event::PUT
        });
        coming.map(|flight| flight.span).collect()
    }

    /// The bytes of a message are where they belong, or will not get there.
    pub(super) fn delivered(
        &mut self,
        delivery: u32,
        failed: u8,
        ledger: &mut Ledger,
    ) -> Result<(), String> {
        let Some(flight) = self.flights.remove(&delivery) else {
            return Err(format!("bytes of nothing were delivered ({delivery})"));
        };
        let op = &mut ledger.ops[flight.op];
        op.is_delivered = failed == fail::OK;
        if failed != fail::OK && ledger.nobody_may_go {
            return Err(format!("operation {} broke off, and nobody was lost", flight.op));
        }
        if flight.is_long && flight.event.kind == event::PUT {
            let is_known = failed == fail::OK && !op.is_stained;
            let bytes = op.bytes(flight.span.len);
            let this = &mut self.entries[flight.entry];
            this.is_seen = false;
            match is_known {
                true => this.image.write(flight.span, &known(&bytes)),
                false => this.image.forget(flight.span),
            }
            // What comes into the same place after this one is not known either.
            self.stain(&flight, ledger);
        }
        self.tell_delivered(&flight, failed);
        Ok(())
    }

    /// B.1, step 11; then what found the header, and who is free now.
    fn tell_delivered(&mut self, flight: &Flight, failed: u8) {
        let &Flight { ni, portal, entry: index, mut event, .. } = flight;
        event.fail = failed;
        let queue = self.queue_of(ni, portal);
        let Entry { spec, counter, .. } = &self.entries[index];
        let (spec, counter) = (*spec, *counter);
        let is_silent = has(&spec, entry::EVENT_COMM_DISABLE)
            || (failed == fail::OK && has(&spec, entry::EVENT_SUCCESS_DISABLE));
        if !is_silent {
            self.tell(queue, event);
        }
        if has(&spec, entry::EVENT_CT_COMM) {
            let in_bytes = has(&spec, entry::EVENT_CT_BYTES);
            self.tally(counter, failed, if in_bytes { event.moved_len } else { 1 });
        }
        if !self.is_busy(index) && std::mem::take(&mut self.entries[index].owes_unlink) {
            self.tell_unlink(index);
        }
        if let Some(id) = flight.header
            && let Some(header) = self.headers.iter_mut().find(|header| header.id == id)
        {
            (header.is_ready, header.event.fail) = (true, failed);
            self.tell_claimed(id);
        }
        self.retire(index);
        self.tell_stop(ni, portal);
    }

    fn tell_unlink(&mut self, index: usize) {
        let Entry { ni, portal, spec, .. } = self.entries[index];
        if !has(&spec, entry::EVENT_UNLINK_DISABLE) {
            let queue = self.queue_of(ni, portal);
            self.tell(queue, plain(event::AUTO_UNLINK, portal, spec.user));
        }
    }

    /// An entry that is off its list, and that nothing refers to any more.
    fn retire(&mut self, index: usize) {
        if self.entries[index].at != At::Off || self.is_busy(index) || self.header_count(index) > 0
        {
            return;
        }
        let Entry { ni, portal, list, spec, .. } = self.entries[index];
        if list == List::Overflow && !has(&spec, entry::EVENT_UNLINK_DISABLE) {
            let queue = self.queue_of(ni, portal);
            self.tell(queue, plain(event::AUTO_FREE, portal, spec.user));
        }
        self.drop_entry(index);
    }

    pub(super) fn drop_entry(&mut self, index: usize) {
        self.entries[index].at = At::Gone;
    }
}
