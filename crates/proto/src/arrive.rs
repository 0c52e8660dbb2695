//! A message arrives and finds its receive, or a receive its message.
//!
//! PROTOCOL §7.1-§7.4, §8.1, §9. Messages of a peer are matched in the order of their numbers. The common case, a
//! whole message in turn whose receive is posted, touches nothing but the matcher and the receive: no `Arrival` is made.
//! Everything else becomes an `Arrival`:
//!
//! ```text
//!            ahead of its turn          in turn, no receive
//!                 Early ───────turn──────▶ Unexpected ──claim──▶ Claimed
//!                   │                          │                   │
//!                   └──────────▶ Arriving ◀────┴───────────────────┘      (matched, bytes still missing)
//!                                   │
//!                            finished: removed, or Lapsed while its number is still ahead of the turn
//! ```

use crate::ack::expand;
use crate::api::{Envelope, Event, Failure, GoneReason, List, RecvSpec, Use};
use crate::content::Content;
use crate::endpoint::Endpoint;
use crate::gaps::GapSet;
use crate::matching::{EntryId, HeldId};
use crate::peer::{Notice, Phase};
use crate::sabotage::Sabotage;
use crate::slab::NONE;
use crate::types::{BufId, Criteria, Instant, Memory, PeerId, Place, ReqId, Space, Tag};
use crate::wire::{Class, DONE_CANCELLED, DONE_MATCHED, DONE_OK, MessageHead};

/// Holes a fragmented message may have; a sender that sends in order makes one per lost frame.
const GAP_COUNT_MAX: usize = 512;

/// Whether a record may be acknowledged (PROTOCOL §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    Refused,
}

/// Where an arrival stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Ahead of its turn.
    Early,
    /// In the unexpected list.
    Unexpected,
    /// Taken out of it by the application.
    Claimed,
    /// Claimed, but its sender went before it was whole.
    Orphaned(GoneReason),
    /// Matched; bytes are missing.
    Arriving,
    /// Over before its turn came; only the number is remembered.
    Lapsed,
}

/// A message that is not simply over.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) tag: Tag,
    immediate: u64,
    pub(crate) total: u64,
    pub(crate) row: u32,
    /// Low half of its number.
    pub(crate) message: u32,
    /// Slot of the held payload, or NONE.
    pub(crate) hold: u32,
    /// Slot of `Progress` while bytes are missing (or an overflow entry holds it).
    pub(crate) progress: u32,
    held_id: Option<HeldId>,
    pub(crate) space: Space,
    pub(crate) stage: Stage,
    has_immediate: bool,
    pub(crate) wants_match: bool,
    pub(crate) is_large: bool,
    /// Counts against the envelope budget.
    charged: bool,
    /// Its bytes lie in an overflow entry.
    pub(crate) in_overflow: bool,
}

/// An arrival with missing bytes.
#[derive(Debug)]
pub(crate) struct Progress {
    /// What is missing of the bytes that are wanted.
    pub(crate) gaps: GapSet,
    /// The receive it goes to, or NONE while held.
    pub(crate) receive: u32,
    /// Where in the receive's memory it starts.
    pub(crate) offset: u64,
    /// How many bytes are wanted.
    pub(crate) cap: u64,
    /// Grants were given up to here.
    pub(crate) granted_to: u64,
    pub(crate) progressed_at: Instant,
    /// A priority receive that matched it while it lies in an overflow entry, or NONE.
    claimant: u32,
}

/// A posted receive.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) criteria: Criteria,
    buf: BufId,
    len: u64,
    /// Where the next message goes.
    offset: u64,
    pub(crate) user: u64,
    /// Its place in the posted lists, while posted.
    pub(crate) entry: Option<EntryId>,
    list: List,
    uses: Use,
    header_only: bool,
    /// Messages arriving into it, and (overflow) lying in it.
    pub(crate) in_use_count: u32,
}

impl Receive {
    pub(crate) fn new(spec: &RecvSpec) -> Self {
        Self {
            criteria: spec.criteria,
            buf: spec.buf,
            len: spec.len,
            offset: 0,
            user: spec.user,
            entry: None,
            list: spec.list,
            uses: spec.uses,
            header_only: spec.header_only,
            in_use_count: 0,
        }
    }

    pub(crate) fn for_claim(arrival: &Arrival, buf: BufId, len: u64, user: u64) -> Self {
        let source = Some(PeerId(arrival.row));
        let criteria = Criteria { space: arrival.space, tag: arrival.tag, ignore: 0, source };
        Self {
            criteria,
            buf,
            len,
            offset: 0,
            user,
            entry: None,
            list: List::Priority,
            uses: Use::Once,
            header_only: false,
            in_use_count: 0,
        }
    }

    pub(crate) fn is_once(&self) -> bool {
        self.uses == Use::Once
    }

    /// Whether an entry used many times has too little room for another message.
    pub(crate) fn is_full(&self) -> bool {
        match self.uses {
            Use::Once => self.in_use_count > 0,
            Use::Many { free_len_min } => self.len - self.offset < free_len_min.max(1),
        }
    }
}

impl Arrival {
    fn new(row: u32, head: &MessageHead, stage: Stage) -> Self {
        Self {
            tag: head.tag,
            immediate: head.immediate.unwrap_or(0),
            total: head.total,
            row,
            message: head.message,
            hold: NONE,
            progress: NONE,
            held_id: None,
            space: head.space,
            stage,
            has_immediate: head.immediate.is_some(),
            wants_match: head.wants_match,
            is_large: head.class == Class::Rts,
            charged: false,
            in_overflow: false,
        }
    }

    pub(crate) fn envelope(&self) -> Envelope {
        Envelope {
            source: PeerId(self.row),
            space: self.space,
            tag: self.tag,
            immediate: self.has_immediate.then_some(self.immediate),
            len: self.total,
        }
    }
}

/// The key of a message in `Endpoint::by_number`.
pub(crate) fn number_key(row: u32, message: u32) -> u64 {
    u64::from(row) << 32 | u64::from(message)
}

/// Payload bytes that must be held for a message without a receive: none for a large one.
fn held_len(head: &MessageHead) -> u64 {
    if head.class == Class::Rts { 0 } else { head.total }
}

/// Where a message goes in its receive's memory.
struct Fit {
    receive: u32,
    offset: u64,
    cap: u64,
    list: List,
}

impl Endpoint {
    /// A record of a message.
    #[inline]
    pub(crate) fn on_message(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        let this = &self.rows[row];
        let number = expand(head.message, this.message_in);
        if number >= this.refused_from {
            return Verdict::Refused; // the refusal is content of its own and is repeated by itself
        }
        if this.arrival_count > 0
            && let Some(&slot) = self.by_number.get(&number_key(row, head.message))
        {
            return self.on_known(now, slot, head, body, memory);
        }
        if number < self.rows[row].message_in && !self.saboteur.makes(Sabotage::DuplicateAccepted) {
            self.counters.messages_duplicate += 1;
            return Verdict::Accepted;
        }
        if number > self.rows[row].message_in && !self.saboteur.makes(Sabotage::MatcherIgnoresOrder)
        {
            return self.on_early(now, row, number, head, body);
        }
        self.on_in_turn(now, row, number, head, body, memory)
    }

    #[inline]
    fn on_in_turn(
        &mut self,
        now: Instant,
        row: u32,
        number: u64,
        head: &MessageHead,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        let Some((entry, token)) = self.matcher.find(head.space, head.tag, PeerId(row)) else {
            return self.on_unexpected(now, row, number, head, body, memory);
        };
        if self.receives[token].list == List::Overflow && !self.has_envelope() {
            self.refuse(now, row, number, 0);
            return Verdict::Refused;
        }
        let fit = self.take_entry(entry, token, head.total);
        self.count_turn(row);
        if head.class == Class::Eager && fit.list == List::Priority {
            let placed = &body[..fit.cap as usize];
            self.place(memory, fit.receive, fit.offset, placed);
            let envelope = Envelope {
                source: PeerId(row),
                space: head.space,
                tag: head.tag,
                immediate: head.immediate,
                len: head.total,
            };
            self.report_received(fit.receive, envelope, fit.offset, fit.cap, Ok(()));
            if head.wants_match {
                self.notify_done(row, head.message, DONE_MATCHED);
            }
        } else {
            self.start_arrival(now, row, head, body, fit, memory);
        }
        if self.rows[row].arrival_count > 0 {
            self.follow_turn(now, row, memory);
        }
        Verdict::Accepted
    }

    /// A message has its turn. Counted before it is looked at, so that it is not taken for one ahead of its turn.
    #[inline]
    fn count_turn(&mut self, row: u32) {
        self.counters.messages_in += 1;
        self.rows[row].message_in += 1;
    }

    /// Messages that waited for the turn to come to them.
    pub(crate) fn follow_turn(&mut self, now: Instant, row: u32, memory: &mut impl Memory) {
        loop {
            let message_in = self.rows[row].message_in;
            let Some(&slot) = self.by_number.get(&number_key(row, message_in as u32)) else {
                break;
            };
            self.count_turn(row);
            match self.arrivals[slot].stage {
                Stage::Early => self.on_turn(now, slot, memory),
                Stage::Lapsed => self.remove_arrival(slot),
                // Taken out of turn and still arriving.
                Stage::Arriving | Stage::Unexpected | Stage::Claimed | Stage::Orphaned(_) => {}
            }
        }
        if self.rows[row].message_in > self.rows[row].refused_from {
            self.recall_rows(now);
        }
    }

    /// A message that came early: its turn is now.
    pub(crate) fn on_turn(&mut self, now: Instant, slot: u32, memory: &mut impl Memory) {
        let arrival = &self.arrivals[slot];
        match self.matcher.find_in(List::Priority, arrival.space, arrival.tag, PeerId(arrival.row))
        {
            Some((entry, token)) => {
                let fit = self.take_entry(entry, token, self.arrivals[slot].total);
                self.fill_receive(now, slot, fit, memory);
            }
            None => {
                self.arrivals[slot].stage = Stage::Unexpected;
                self.list_unexpected(slot);
                if self.arrivals[slot].progress == NONE {
                    self.unmap(slot);
                }
            }
        }
    }

    fn on_unexpected(
        &mut self,
        now: Instant,
        row: u32,
        number: u64,
        head: &MessageHead,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        if self.closing.is_some() {
            // Nobody will receive it any more: eager messages are accepted and dropped, large ones sent back.
            if head.class == Class::Rts {
                self.notify_done(row, head.message, DONE_CANCELLED);
            }
            self.count_turn(row);
            self.follow_turn(now, row, memory);
            return Verdict::Accepted;
        }
        let Some(slot) = self.hold(now, row, head, body, Stage::Unexpected) else {
            self.refuse(now, row, number, held_len(head));
            return Verdict::Refused;
        };
        self.counters.messages_unexpected += 1;
        self.list_unexpected(slot);
        if self.arrivals[slot].progress != NONE {
            self.map(slot);
        }
        self.count_turn(row);
        if self.rows[row].arrival_count > 0 {
            self.follow_turn(now, row, memory);
        }
        Verdict::Accepted
    }

    fn on_early(
        &mut self,
        now: Instant,
        row: u32,
        number: u64,
        head: &MessageHead,
        body: &[u8],
    ) -> Verdict {
        let Some(slot) = self.hold(now, row, head, body, Stage::Early) else {
            self.refuse(now, row, number, held_len(head));
            return Verdict::Refused;
        };
        self.counters.messages_early += 1;
        self.map(slot);
        Verdict::Accepted
    }

    /// A further record of a message under way, or a copy of one.
    fn on_known(
        &mut self,
        now: Instant,
        slot: u32,
        head: &MessageHead,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        if self.arrivals[slot].progress == NONE || self.arrivals[slot].stage == Stage::Lapsed {
            self.counters.messages_duplicate += 1;
            return Verdict::Accepted;
        }
        self.absorb(now, slot, u64::from(head.offset), body, memory)
    }

    /// Takes bytes of a message under way. Bytes that are there already, or not wanted, are ignored.
    pub(crate) fn absorb(
        &mut self,
        now: Instant,
        slot: u32,
        offset: u64,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        let arrival = &self.arrivals[slot];
        let (hold, index) = (arrival.hold, arrival.progress);
        let progress = &mut self.progress[index];
        if progress.gaps.gap_count() >= GAP_COUNT_MAX
            && progress.gaps.first_gap().is_none_or(|gap| gap.0 != offset)
        {
            return Verdict::Refused; // no honest sender is here; an honest one would send it again
        }
        let limit = if progress.receive == NONE && hold != NONE {
            self.held.bytes(hold).len() as u64
        } else {
            progress.cap
        };
        let end = (offset + body.len() as u64).min(limit);
        let target = (progress.receive != NONE)
            .then(|| (self.receives[progress.receive].buf, progress.offset));
        if target.is_none() && hold == NONE {
            return Verdict::Accepted; // announced without room for first bytes: they will be granted
        }
        let held = &mut self.held;
        let (granted_to, mut granted_len) = (progress.granted_to, 0);
        let mut new = |from: u64, to: u64| {
            granted_len += to.min(granted_to).saturating_sub(from);
            let bytes = &body[(from - offset) as usize..(to - offset) as usize];
            match target {
                Some((buf, base)) => memory.place(Place { buf, offset: base + from }, bytes),
                None => held.bytes_mut(hold)[from as usize..to as usize].copy_from_slice(bytes),
            }
        };
        let new_len = if offset < end { progress.gaps.fill(offset, end, &mut new) } else { 0 };
        if new_len > 0 {
            progress.progressed_at = now;
            self.counters.bytes_placed += new_len;
            self.grants.on_arrived(slot, granted_len);
        }
        if self.progress[index].gaps.is_empty() {
            self.on_whole(now, slot);
        }
        Verdict::Accepted
    }

    /// No byte is missing any more.
    fn on_whole(&mut self, now: Instant, slot: u32) {
        let arrival = &self.arrivals[slot];
        match arrival.stage {
            Stage::Arriving => self.finish_arrival(now, slot),
            Stage::Unexpected if arrival.in_overflow => self.on_overflow_whole(now, slot),
            Stage::Early | Stage::Unexpected | Stage::Claimed => {
                if !arrival.is_large {
                    let index = core::mem::replace(&mut self.arrivals[slot].progress, NONE);
                    self.progress.remove(index);
                    if self.arrivals[slot].stage != Stage::Early {
                        self.unmap(slot);
                    }
                }
            }
            Stage::Lapsed | Stage::Orphaned(_) => {}
        }
    }

    /// Makes an arrival for a message without a receive, within the budgets; `None` if there is no room.
    fn hold(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        body: &[u8],
        stage: Stage,
    ) -> Option<u32> {
        if !self.has_envelope() {
            return None;
        }
        let mut arrival = Arrival::new(row, head, stage);
        let whole = head.class == Class::Eager;
        // A large message is announced even if its first bytes find no room (PROTOCOL §8.1).
        let hold_len =
            if arrival.is_large { body.len() } else { usize::try_from(head.total).ok()? };
        match self.held.try_reserve(hold_len) {
            Some(hold) => {
                let at = head.offset as usize;
                self.held.bytes_mut(hold)[at..at + body.len()].copy_from_slice(body);
                arrival.hold = hold;
            }
            None if arrival.is_large => {}
            None => return None,
        }
        if !whole {
            let mut gaps = GapSet::whole(head.total);
            if arrival.hold != NONE {
                let start = u64::from(head.offset);
                gaps.fill(start, start + body.len() as u64, &mut |_, _| ());
            }
            if !gaps.is_empty() || arrival.is_large {
                arrival.progress = self.progress.insert(Progress::held(gaps, head.total, now));
            }
        }
        arrival.charged = true;
        self.envelope_count += 1;
        self.counters.envelope_count_peak =
            self.counters.envelope_count_peak.max(u64::from(self.envelope_count));
        self.counters.held_len_peak = self.held.peak_len();
        if arrival.is_large {
            self.counters.rendezvous_in += 1;
        }
        Some(self.arrivals.insert(arrival))
    }

    fn has_envelope(&self) -> bool {
        self.envelope_count < self.limits.envelope_count_max
    }

    fn list_unexpected(&mut self, slot: u32) {
        let arrival = &self.arrivals[slot];
        let held_id = self.matcher.hold(arrival.space, arrival.tag, PeerId(arrival.row), slot);
        self.arrivals[slot].held_id = Some(held_id);
    }

    /// Takes an arrival out of the unexpected list.
    pub(crate) fn take_held(&mut self, slot: u32) {
        if let Some(held_id) = self.arrivals[slot].held_id.take() {
            self.matcher.release(held_id);
        }
    }

    /// An entry matched: reserves the place of one message in it and unlinks it when it is used up.
    #[inline]
    fn take_entry(&mut self, entry: EntryId, token: u32, total: u64) -> Fit {
        let receive = &mut self.receives[token];
        let offset = receive.offset;
        let cap = if receive.header_only { 0 } else { total.min(receive.len - offset) };
        receive.in_use_count += 1;
        let list = receive.list;
        if let Use::Many { .. } = receive.uses {
            receive.offset += cap;
        }
        if receive.is_full() {
            receive.entry = None;
            self.unpost(token, entry);
        }
        Fit { receive: token, offset, cap, list }
    }

    /// A receive that is not posted takes an arrival: from the unexpected list, or claimed.
    pub(crate) fn match_arrival(
        &mut self,
        now: Instant,
        slot: u32,
        receive: u32,
        memory: &mut impl Memory,
    ) {
        if let Stage::Orphaned(reason) = self.arrivals[slot].stage {
            let envelope = self.arrivals[slot].envelope();
            self.receives[receive].in_use_count += 1;
            self.remove_arrival(slot);
            self.report_received(receive, envelope, 0, 0, Err(Failure::Gone(reason)));
            return;
        }
        if self.arrivals[slot].in_overflow {
            self.match_overflow(now, slot, receive);
            return;
        }
        let this = &mut self.receives[receive];
        let offset = this.offset;
        let cap =
            if this.header_only { 0 } else { self.arrivals[slot].total.min(this.len - offset) };
        this.in_use_count += 1;
        if let Use::Many { .. } = this.uses {
            this.offset += cap;
        }
        let list = this.list;
        self.fill_receive(now, slot, Fit { receive, offset, cap, list }, memory);
    }

    /// An arrival got its receive: what is here goes there, the rest will be placed or granted.
    fn fill_receive(&mut self, now: Instant, slot: u32, fit: Fit, memory: &mut impl Memory) {
        let arrival = &mut self.arrivals[slot];
        arrival.stage = Stage::Arriving;
        let (hold, index) = (core::mem::replace(&mut arrival.hold, NONE), arrival.progress);
        let buf = self.receives[fit.receive].buf;
        if hold != NONE {
            let bytes = self.held.bytes(hold);
            let end = (bytes.len() as u64).min(fit.cap);
            let mut from = 0;
            let gaps = (index != NONE).then(|| &self.progress[index].gaps);
            let past_the_end = core::iter::once((end, end));
            for (gap_start, gap_end) in gaps.iter().flat_map(|gaps| gaps.iter()).chain(past_the_end)
            {
                let to = gap_start.min(end);
                if from < to {
                    memory.place(
                        Place { buf, offset: fit.offset + from },
                        &bytes[from as usize..to as usize],
                    );
                    self.counters.bytes_placed += to - from;
                }
                from = from.max(gap_end);
            }
            self.held.release(hold);
        }
        self.uncharge(slot);
        if index == NONE {
            let progress = Progress::held(GapSet::default(), 0, now);
            self.arrivals[slot].progress = self.progress.insert(progress);
        }
        self.aim(now, slot, &fit);
        self.recall_rows(now);
    }

    /// Directs an arrival's missing bytes to its receive.
    fn aim(&mut self, now: Instant, slot: u32, fit: &Fit) {
        let total = self.arrivals[slot].total;
        let progress = &mut self.progress[self.arrivals[slot].progress];
        progress.receive = fit.receive;
        progress.offset = fit.offset;
        progress.cap = fit.cap;
        progress.progressed_at = now;
        progress.gaps.fill(fit.cap, total, &mut |_, _| ());
        if progress.gaps.is_empty() {
            self.on_whole(now, slot);
        } else if self.arrivals[slot].is_large {
            self.start_grants(now, slot);
        }
    }

    /// A message of several frames found its receive with its first record.
    fn start_arrival(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        body: &[u8],
        fit: Fit,
        memory: &mut impl Memory,
    ) {
        let mut arrival = Arrival::new(row, head, Stage::Arriving);
        if arrival.is_large {
            self.counters.rendezvous_in += 1;
        }
        let in_overflow = fit.list == List::Overflow;
        if in_overflow {
            arrival.stage = Stage::Unexpected;
            arrival.in_overflow = true;
            arrival.charged = true;
            self.envelope_count += 1;
        }
        let progress = Progress {
            receive: fit.receive,
            offset: fit.offset,
            cap: fit.cap,
            ..Progress::held(GapSet::whole(fit.cap), fit.cap, now)
        };
        arrival.progress = self.progress.insert(progress);
        let slot = self.arrivals.insert(arrival);
        self.map(slot);
        if in_overflow {
            self.list_unexpected(slot);
        }
        if self.progress[self.arrivals[slot].progress].gaps.is_empty() {
            self.on_whole(now, slot);
            return;
        }
        let serial = self.arrivals.serial(slot);
        self.absorb(now, slot, u64::from(head.offset), body, memory);
        if self.arrivals.holds(slot, serial) {
            let arrival = &self.arrivals[slot];
            if arrival.is_large && !self.progress[arrival.progress].gaps.is_empty() {
                self.start_grants(now, slot);
            }
        }
    }

    /// Binds a message the peer holds back to a receive, out of turn (PROTOCOL §7.6). It will come by grants.
    pub(crate) fn start_pulled(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        entry: EntryId,
        receive: u32,
    ) {
        let fit = self.take_entry(entry, receive, head.total);
        let progress = Progress {
            receive: fit.receive,
            offset: fit.offset,
            cap: fit.cap,
            ..Progress::held(GapSet::whole(fit.cap), fit.cap, now)
        };
        let mut arrival = Arrival::new(row, head, Stage::Arriving);
        arrival.is_large = true;
        arrival.progress = self.progress.insert(progress);
        let slot = self.arrivals.insert(arrival);
        self.map(slot);
        if fit.cap == 0 {
            self.on_whole(now, slot);
        } else {
            self.start_grants(now, slot);
        }
    }

    /// Binds an early message to a receive, out of turn (PROTOCOL §7.6).
    pub(crate) fn match_early(
        &mut self,
        now: Instant,
        slot: u32,
        entry: EntryId,
        receive: u32,
        memory: &mut impl Memory,
    ) {
        let fit = self.take_entry(entry, receive, self.arrivals[slot].total);
        self.fill_receive(now, slot, fit, memory);
    }

    /// Every wanted byte is in the receive's memory.
    fn finish_arrival(&mut self, now: Instant, slot: u32) {
        let arrival = &self.arrivals[slot];
        let (row, message, envelope) = (arrival.row, arrival.message, arrival.envelope());
        let status = match (arrival.is_large, arrival.wants_match) {
            (true, _) => Some(DONE_OK),
            (false, true) => Some(DONE_MATCHED),
            (false, false) => None,
        };
        let progress = &self.progress[arrival.progress];
        let (receive, offset, cap) = (progress.receive, progress.offset, progress.cap);
        self.end_arrival(now, slot);
        self.report_received(receive, envelope, offset, cap, Ok(()));
        if let Some(status) = status {
            self.notify_done(row, message, status);
        }
    }

    /// The arrival is over: removed, or remembered by number while its turn has not come.
    pub(crate) fn end_arrival(&mut self, now: Instant, slot: u32) {
        self.stop_grants(slot);
        self.take_held(slot);
        let arrival = &mut self.arrivals[slot];
        let (hold, progress) = (arrival.hold, arrival.progress);
        (arrival.hold, arrival.progress) = (NONE, NONE);
        if hold != NONE {
            self.held.release(hold);
        }
        if progress != NONE {
            self.progress.remove(progress);
        }
        self.uncharge(slot);
        let (row, message) = (self.arrivals[slot].row, self.arrivals[slot].message);
        let message_in = self.rows[row].message_in;
        if expand(message, message_in) >= message_in
            && self.by_number.get(&number_key(row, message)) == Some(&slot)
        {
            // Ahead of its turn: its number must not be taken for new when the turn comes.
            self.arrivals[slot].stage = Stage::Lapsed;
        } else {
            self.remove_arrival(slot);
        }
        self.recall_rows(now);
    }

    fn uncharge(&mut self, slot: u32) {
        if self.arrivals[slot].charged && !self.saboteur.makes(Sabotage::CreditNeverReturned) {
            self.arrivals[slot].charged = false;
            self.envelope_count -= 1;
        }
    }

    pub(crate) fn remove_arrival(&mut self, slot: u32) {
        self.unmap(slot);
        self.uncharge(slot);
        let arrival = self.arrivals.remove(slot);
        if arrival.hold != NONE {
            self.held.release(arrival.hold);
        }
        if arrival.progress != NONE {
            self.progress.remove(arrival.progress);
        }
    }

    pub(crate) fn map(&mut self, slot: u32) {
        let arrival = &self.arrivals[slot];
        self.rows[arrival.row].arrival_count += 1;
        self.by_number.insert(number_key(arrival.row, arrival.message), slot);
    }

    pub(crate) fn unmap(&mut self, slot: u32) {
        let arrival = &self.arrivals[slot];
        let key = number_key(arrival.row, arrival.message);
        if self.by_number.get(&key) == Some(&slot) {
            self.by_number.remove(&key);
            self.rows[arrival.row].arrival_count -= 1;
        }
    }

    /// Tells the application that a receive took a message.
    #[inline]
    fn report_received(
        &mut self,
        slot: u32,
        envelope: Envelope,
        offset: u64,
        placed_len: u64,
        result: Result<(), Failure>,
    ) {
        let req = ReqId(self.receives.key(slot));
        let receive = &mut self.receives[slot];
        receive.in_use_count -= 1;
        let user = receive.user;
        self.events.push_back(Event::Received { req, user, envelope, offset, placed_len, result });
        if receive.uses == Use::Once {
            self.receives.remove(slot);
        } else {
            self.end_if_done(slot);
        }
    }

    /// An entry used many times ends when it is full and nothing arrives into it any more.
    pub(crate) fn end_if_done(&mut self, slot: u32) {
        let receive = &self.receives[slot];
        if receive.entry.is_none() && receive.in_use_count == 0 && receive.is_full() {
            let req = ReqId(self.receives.key(slot));
            let receive = self.receives.remove(slot);
            self.events.push_back(Event::Unlinked { req, user: receive.user, failure: None });
        }
    }

    #[inline]
    fn place(&mut self, memory: &mut impl Memory, receive: u32, offset: u64, bytes: &[u8]) {
        let buf = self.receives[receive].buf;
        let len = bytes.len()
            - usize::from(self.saboteur.makes(Sabotage::TruncatedCopy) && !bytes.is_empty());
        self.counters.bytes_placed += len as u64;
        memory.place(Place { buf, offset }, &bytes[..len]);
    }

    pub(crate) fn notify_done(&mut self, row: u32, message: u32, status: u8) {
        self.notify(row, Content::Done { message, status });
    }

    /// Queues a notice to a peer that has an association.
    pub(crate) fn notify(&mut self, row: u32, content: Content) {
        if self.rows[row].phase == Phase::Idle {
            return; // nobody is there to hear it
        }
        let active = self.activate(row);
        self.actives[active].control.push_back(Notice::Content(content));
        self.make_ready(row);
    }
}

impl Progress {
    fn held(gaps: GapSet, cap: u64, now: Instant) -> Self {
        Self {
            gaps,
            receive: NONE,
            offset: 0,
            cap,
            granted_to: 0,
            progressed_at: now,
            claimant: NONE,
        }
    }
}

/// Overflow entries: messages lie in their memory until a priority receive matches them (Portals' overflow list).
impl Endpoint {
    /// A priority receive matched a message in an overflow entry.
    fn match_overflow(&mut self, now: Instant, slot: u32, receive: u32) {
        let index = self.arrivals[slot].progress;
        self.progress[index].claimant = receive;
        self.receives[receive].in_use_count += 1;
        if self.progress[index].gaps.is_empty() {
            self.finish_overflow(now, slot);
        }
    }

    fn on_overflow_whole(&mut self, now: Instant, slot: u32) {
        let arrival = &self.arrivals[slot];
        if arrival.is_large {
            let (row, message) = (arrival.row, arrival.message);
            self.stop_grants(slot);
            self.notify_done(row, message, DONE_OK);
            self.arrivals[slot].is_large = false;
        }
        if self.progress[self.arrivals[slot].progress].claimant != NONE {
            self.finish_overflow(now, slot);
        }
    }

    fn finish_overflow(&mut self, now: Instant, slot: u32) {
        let arrival = &self.arrivals[slot];
        let (row, message, envelope, wants_match) =
            (arrival.row, arrival.message, arrival.envelope(), arrival.wants_match);
        let progress = &self.progress[arrival.progress];
        let (overflow, claimant, offset, placed_len) =
            (progress.receive, progress.claimant, progress.offset, progress.cap);
        self.end_arrival(now, slot);
        if wants_match {
            self.notify_done(row, message, DONE_MATCHED);
        }
        let req = ReqId(self.receives.key(claimant));
        let overflow_user = self.receives[overflow].user;
        let user = self.receives[claimant].user;
        self.events.push_back(Event::Overflowed {
            req,
            user,
            envelope,
            overflow_user,
            offset,
            placed_len,
        });
        self.receives[claimant].in_use_count -= 1;
        if self.receives[claimant].uses == Use::Once {
            self.receives.remove(claimant);
        } else {
            self.end_if_done(claimant);
        }
        self.leave_overflow(overflow);
    }

    /// A message has left an overflow entry's memory.
    fn leave_overflow(&mut self, overflow: u32) {
        self.receives[overflow].in_use_count -= 1;
        if self.receives[overflow].uses == Use::Once {
            let req = ReqId(self.receives.key(overflow));
            let user = self.receives.remove(overflow).user;
            self.events.push_back(Event::Unlinked { req, user, failure: None });
        } else {
            self.end_if_done(overflow);
        }
    }
}

/// Ends that are not the good one.
impl Endpoint {
    /// The receive is cancelled: whatever arrives into it, or lies in it, has no place any more.
    /// Tells the last one.
    pub(crate) fn abandon_arrivals_of(&mut self, now: Instant, receive: u32) -> Option<Envelope> {
        let mut swallowed = None;
        if self.receives[receive].in_use_count == 0 {
            return swallowed;
        }
        loop {
            let found = self.arrivals.iter().find_map(|(slot, arrival)| {
                let progress =
                    (arrival.progress != NONE).then(|| &self.progress[arrival.progress])?;
                (progress.receive == receive || progress.claimant == receive)
                    .then_some((slot, progress.claimant))
            });
            let Some((slot, claimant)) = found else { break };
            swallowed = Some(self.arrivals[slot].envelope());
            if claimant == receive {
                // Bound, though its bytes go to an overflow entry: spent all the same. (Back in the list it would
                // stand behind younger ones.)
                let index = self.arrivals[slot].progress;
                let overflow = self.progress[index].receive;
                self.progress[index].claimant = NONE;
                self.abandon_arrival(now, slot, DONE_CANCELLED);
                self.leave_overflow(overflow);
            } else {
                self.abandon_arrival(now, slot, DONE_CANCELLED);
            }
        }
        swallowed
    }

    /// Gives a message up and tells its sender, if that one waits to hear.
    fn abandon_arrival(&mut self, now: Instant, slot: u32, status: u8) {
        let arrival = &self.arrivals[slot];
        let (row, message) = (arrival.row, arrival.message);
        let tell = arrival.is_large || arrival.wants_match;
        let claimant = match arrival.progress {
            NONE => NONE,
            index => self.progress[index].claimant,
        };
        let envelope = arrival.envelope();
        self.end_arrival(now, slot);
        if claimant != NONE {
            self.report_received(claimant, envelope, 0, 0, Err(Failure::Cancelled));
        }
        if tell {
            self.notify_done(row, message, status);
        }
    }

    /// The application discards a claimed message. For the sender it counts as received.
    pub(crate) fn forget_claimed(&mut self, now: Instant, slot: u32) {
        if let Stage::Orphaned(_) = self.arrivals[slot].stage {
            self.remove_arrival(slot);
            return;
        }
        let status = if self.arrivals[slot].is_large { DONE_OK } else { DONE_MATCHED };
        self.abandon_arrival(now, slot, status);
    }

    /// The sender cancelled message `message` (PROTOCOL §7.8).
    pub(crate) fn on_cancel(
        &mut self,
        now: Instant,
        row: u32,
        message: u32,
        memory: &mut impl Memory,
    ) -> Verdict {
        let number = expand(message, self.rows[row].message_in);
        match self.by_number.get(&number_key(row, message)).copied() {
            Some(slot) => self.cancel_arrival(now, slot, Failure::CancelledByPeer),
            None if number < self.rows[row].message_in => {}
            None => {
                // Its number must still be counted when its turn comes.
                let head = MessageHead {
                    class: Class::Eager,
                    space: Space(0),
                    message,
                    tag: Tag(0),
                    offset: 0,
                    total: 0,
                    immediate: None,
                    wants_match: false,
                    len: 0,
                };
                let slot = self.arrivals.insert(Arrival::new(row, &head, Stage::Lapsed));
                self.map(slot);
            }
        }
        self.follow_turn(now, row, memory);
        Verdict::Accepted
    }

    fn cancel_arrival(&mut self, now: Instant, slot: u32, failure: Failure) {
        let arrival = &self.arrivals[slot];
        match arrival.stage {
            Stage::Lapsed | Stage::Orphaned(_) => {}
            // Whole and held: it was accepted before the cancel, and stays.
            Stage::Early | Stage::Unexpected | Stage::Claimed if arrival.progress == NONE => {}
            Stage::Unexpected
                if arrival.in_overflow && self.progress[arrival.progress].gaps.is_empty() => {}
            Stage::Claimed => self.arrivals[slot].stage = Stage::Orphaned(GoneReason::Reset),
            Stage::Early | Stage::Unexpected | Stage::Arriving => {
                self.fail_arrival(now, slot, failure)
            }
        }
    }

    /// Ends an incomplete arrival; a receive it was bound to ends with `failure`.
    pub(crate) fn fail_arrival(&mut self, now: Instant, slot: u32, failure: Failure) {
        let arrival = &self.arrivals[slot];
        let envelope = arrival.envelope();
        let bound = match arrival.progress {
            NONE => (NONE, NONE, 0),
            index => {
                let progress = &self.progress[index];
                (progress.receive, progress.claimant, progress.offset)
            }
        };
        let in_overflow = arrival.in_overflow;
        self.end_arrival(now, slot);
        let (receive, claimant, offset) = bound;
        if claimant != NONE {
            self.report_received(claimant, envelope, 0, 0, Err(failure));
        }
        if receive != NONE {
            if in_overflow {
                self.leave_overflow(receive);
            } else {
                self.report_received(receive, envelope, offset, 0, Err(failure));
            }
        }
    }
}
