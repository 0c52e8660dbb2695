//! Streams: messages that arrive piece by piece (Fast Messages 2.x), at their receiver.
//!
//! PROTOCOL §12. A stream travels as *chunks*: eager messages of the space [`Space::STREAMS`](crate::base::types::Space::STREAMS), each a frame or
//! a train of frames, so order, repair and budgets are those of any message. What is added here: which stream a chunk belongs to, the credit of each sender,
//! and lending.
//!
//! ```text
//!   chunk in its turn ──▶ its stream waits, nothing held before it ──▶ Memory::lend ──▶ straight to who waits
//!                    ├──▶ it begins a stream, and no other is ready ──▶ Memory::hand_over ──▶ to who extracts ──▶ keep_handed: what he did not read
//!                    └──▶ otherwise held ──▶ ready ──▶ stream_front, consume_stream ──▶ credit for its sender
//! ```
//!
//! What is held of one sender never exceeds the credit it was told (and one chunk): a stream nobody reads stops its own
//! sender and nobody else. How chunks leave is in `outbound`.

pub(crate) mod outbound;
pub(crate) mod records;

mod reading;
pub(crate) mod told;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashMap;

use crate::base::api::GoneReason;
use crate::base::limits::Limits;
use crate::base::ring::Ring;
use crate::base::sabotage::Sabotage;
use crate::base::seeded::Seeded;
use crate::base::slab::{NONE, Slab};
use crate::base::types::{Instant, Lending, Memory, PeerId, StreamId, StreamInfo, Tag};
use crate::bulk::arrival::{Stage, held_len};
use crate::delivery::content::Content;
use crate::messages::Messages;
use crate::peers::rows::Row;
use crate::peers::strangers::Tickets;
use crate::streams::records::{Outbound, ToldChunk, ToldEnd, ToldFront};
use crate::wire::{Class, MessageHead};

/// What a chunk costs its sender beside its bytes: also empty ones are bounded.
pub(crate) const CHUNK_COST: u64 = 64;
/// The most that is shown of a stream at once, and that whoever reads no more than so many bytes may read beyond them.
pub const PACKET_LEN: usize = 16 << 10;
/// What a sender may send before it was told anything.
pub(crate) const CREDIT_AT_FIRST: u64 = 64 << 10;

const BEGIN: u8 = 0x01;
const END: u8 = 0x02;
const BROKEN: u8 = 0x04;

/// The match bits of a chunk (PROTOCOL §12.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkTag {
    /// Which stream of its sender.
    pub(crate) number: u32,
    /// The handler that is to receive it.
    pub(crate) handler: u16,
    pub(crate) is_begin: bool,
    pub(crate) is_end: bool,
    /// The sender gave up in the middle.
    pub(crate) is_broken: bool,
}

impl ChunkTag {
    pub(crate) fn encode(self) -> Tag {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let flags =
            flag(self.is_begin, BEGIN) | flag(self.is_end, END) | flag(self.is_broken, BROKEN);
        Tag(u64::from(self.number) | u64::from(self.handler) << 32 | u64::from(flags) << 48)
    }

    pub(crate) fn decode(tag: Tag) -> Self {
        let flags = (tag.0 >> 48) as u8;
        Self {
            number: tag.0 as u32,
            handler: (tag.0 >> 32) as u16,
            is_begin: flags & BEGIN != 0,
            is_end: flags & END != 0,
            is_broken: flags & BROKEN != 0,
        }
    }
}

/// Why a stream ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamBreak {
    /// Its sender gave it up.
    GivenUp,
    /// Its sender is gone; without a reason: it said goodbye.
    Gone(Option<GoneReason>),
}

/// What is next in a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamFront<'a> {
    /// These bytes; more may be behind them.
    Bytes {
        /// What is left of the first packet: a chunk, or as much of a longer one as a packet has.
        bytes: &'a [u8],
        /// None of it was consumed yet.
        is_fresh: bool,
    },
    /// These bytes, where their sender told that they are.
    Told(ToldFront),
    /// Nothing yet.
    Empty,
    /// The end.
    End,
    /// The stream ended too early.
    Broken(StreamBreak),
    /// There is no such stream (any more).
    Void,
}

/// How a stream goes on behind what is held of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    Open,
    Ended,
    Broken(StreamBreak),
}

/// A stream that arrives.
#[derive(Debug)]
struct Inbound {
    source: PeerId,
    row: u32,
    /// The association it came with: credit of another is not given back for it.
    association: u64,
    number: u32,
    handler: u16,
    finish: Finish,
    /// Chunks held, in order.
    first: u32,
    last: u32,
    /// In `Streams::ready`.
    is_ready: bool,
    /// Somebody waits for bytes: those that come may be lent.
    is_waiting: bool,
    /// Nobody wants the rest.
    is_closed: bool,
    /// In `Streams::by_number`.
    is_mapped: bool,
    /// Bytes that were told of went with their sender.
    is_cut: bool,
    /// What the first chunk cost its sender, while whoever extracts has its bytes; otherwise 0.
    handed_cost: u32,
}

/// A chunk that is held.
#[derive(Debug)]
struct Chunk {
    /// Its bytes in the pool, or NONE while it is an arrival.
    hold: u32,
    /// The arrival while fragments are missing or were until now, or NONE.
    arrival: u32,
    arrival_serial: u32,
    /// Which of `Streams::told`, if its bytes are where its sender told, or NONE.
    told: u32,
    /// So many bytes were consumed.
    from: u32,
    /// What its sender is given back when it is over.
    cost: u32,
    next: u32,
}

/// Streams with one peer.
#[derive(Debug)]
pub(crate) struct PeerStreams {
    /// Costs of chunks sent, and how far that may go.
    pub(crate) sent_cost: u64,
    pub(crate) limit: u64,
    /// Costs of chunks consumed here, and how far the peer was told it may go.
    consumed_cost: u64,
    told_limit: u64,
    /// A StreamCredit waits to be written.
    is_telling: bool,
    /// Inbound streams whose end did not come yet: something is owed to us (PROTOCOL §4.2).
    open_count: u32,
    pub(crate) next_number: u32,
    /// Outbound streams that have not shown themselves, in the order they were begun.
    pub(crate) unbegun: VecDeque<u32>,
    /// Outbound streams that are over here and wait for credit.
    pub(crate) waiting: Ring<u32>,
}

impl PeerStreams {
    fn new() -> Self {
        Self {
            sent_cost: 0,
            limit: CREDIT_AT_FIRST,
            consumed_cost: 0,
            told_limit: CREDIT_AT_FIRST,
            is_telling: false,
            open_count: 0,
            next_number: 0,
            unbegun: VecDeque::new(),
            waiting: Ring::new(),
        }
    }
}

/// What was begun for a peer, or is not read to its end, keeps its row.
impl Tickets for Streams {
    fn holds(&self, row: u32) -> bool {
        self.has_any(row)
    }

    fn forget(&mut self, row: u32) {
        if let Some(peer) = self.peers.get_mut(row as usize) {
            *peer = PeerStreams::new();
        }
    }
}

/// All streams of an endpoint.
#[derive(Debug)]
pub(crate) struct Streams {
    /// What a peer's streams may cost before they are read (PROTOCOL §12.3).
    window: u64,
    inbound: Slab<Inbound>,
    by_number: HashMap<u64, u32, Seeded>,
    chunks: Slab<Chunk>,
    /// Chunks of these whose bytes are still with their senders.
    told: Slab<ToldChunk>,
    /// Ends of such chunks, to be told to their senders.
    pub(crate) told_ends: Ring<ToldEnd>,
    /// Streams with news for whoever reads them.
    ready: Ring<u64>,
    /// By row; as long as the last row that ever had a stream.
    peers: Vec<PeerStreams>,
    outbound: Slab<Outbound>,
    /// Credit came, or an association ended: who waits to send should look again.
    has_credit_news: bool,
}

impl Streams {
    pub(crate) fn new(limits: &Limits, seed: u64) -> Self {
        Self {
            window: limits.stream_len_max,
            inbound: Slab::default(),
            by_number: HashMap::with_hasher(Seeded(seed)),
            chunks: Slab::default(),
            told: Slab::default(),
            told_ends: Ring::new(),
            ready: Ring::new(),
            peers: Vec::new(),
            outbound: Slab::default(),
            has_credit_news: false,
        }
    }

    #[inline]
    pub(crate) fn peer(&mut self, row: u32) -> &mut PeerStreams {
        let index = row as usize;
        if self.peers.len() <= index {
            self.peers.resize_with(index + 1, PeerStreams::new);
        }
        &mut self.peers[index]
    }

    /// Whether something is owed by this peer: the end of a stream, or credit.
    pub(crate) fn is_expecting(&self, row: u32) -> bool {
        let is_owing = |peer: &PeerStreams| peer.open_count > 0 || peer.sent_cost >= peer.limit;
        self.peers.get(row as usize).is_some_and(is_owing)
    }

    /// Whether there are streams with this peer that were not read to their end or not ended.
    pub(crate) fn has_any(&self, row: u32) -> bool {
        self.inbound.iter().any(|(_, this)| this.row == row)
            || self.outbound.iter().any(|(_, this)| this.row == row)
    }

    fn find(&self, row: u32, number: u32) -> Option<u32> {
        self.by_number.get(&stream_key(row, number)).copied()
    }

    fn begin(&mut self, source: PeerId, association: u64, tag: ChunkTag, is_over: bool) -> u32 {
        let row = source.row();
        self.peer(row).open_count += u32::from(!is_over);
        let slot = self.inbound.insert(Inbound {
            source,
            row,
            association,
            number: tag.number,
            handler: tag.handler,
            finish: Finish::Open,
            first: NONE,
            last: NONE,
            is_ready: false,
            is_waiting: false,
            is_closed: false,
            is_mapped: !is_over,
            is_cut: false,
            handed_cost: 0,
        });
        if !is_over {
            self.by_number.insert(stream_key(row, tag.number), slot);
        }
        slot
    }

    fn unmap(&mut self, slot: u32) {
        let this = &mut self.inbound[slot];
        if core::mem::replace(&mut this.is_mapped, false) {
            self.by_number.remove(&stream_key(this.row, this.number));
            self.peers[this.row as usize].open_count -= 1;
        }
    }

    fn make_ready(&mut self, slot: u32) {
        let this = &mut self.inbound[slot];
        if !this.is_ready && !this.is_closed {
            this.is_ready = true;
            self.ready.push_back(self.inbound.key(slot));
        }
    }

    /// The stream goes on no further than what is held of it.
    fn finish(&mut self, slot: u32, finish: Finish) {
        if self.inbound[slot].finish == Finish::Open {
            self.inbound[slot].finish = finish;
        }
        self.unmap(slot);
        if self.inbound[slot].is_closed {
            self.inbound.remove(slot);
        }
    }

    fn push(&mut self, slot: u32, chunk: Chunk) {
        let index = self.chunks.insert(chunk);
        let this = &mut self.inbound[slot];
        match core::mem::replace(&mut this.last, index) {
            NONE => this.first = index,
            last => self.chunks[last].next = index,
        }
        self.make_ready(slot);
    }
}

fn stream_key(row: u32, number: u32) -> u64 {
    u64::from(row) << 32 | u64::from(number)
}

fn finish_of(tag: ChunkTag) -> Option<Finish> {
    if tag.is_broken {
        Some(Finish::Broken(StreamBreak::GivenUp))
    } else {
        tag.is_end.then_some(Finish::Ended)
    }
}

impl Streams {
    /// A chunk whose turn it is, or the first fragment of one. False: there is no room for it, and its sender is refused.
    pub(crate) fn on_chunk(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        row: u32,
        head: &MessageHead,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> bool {
        if matches!(head.class, Class::Rts | Class::Told) {
            let chunk = (ChunkTag::decode(head.tag), head.message, head.total);
            let whereabouts = if head.class == Class::Told { body.try_into().ok() } else { None };
            self.on_told_chunk(messages, row, chunk, whereabouts);
        } else if !self.take_chunk(messages, now, row, head, core::iter::once(body), memory) {
            let number = messages.bulk.peers.rows[row].numbers.next_in();
            messages.refuse(now, row, number, held_len(head));
            return false;
        }
        true
    }

    /// A chunk that came as a train, whole, in its turn. False: there is no room for it after all, and it counts as not arrived.
    pub(crate) fn on_whole_chunk<'a>(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        row: u32,
        head: &MessageHead,
        bodies: impl Iterator<Item = &'a [u8]> + Clone,
        memory: &mut impl Memory,
    ) -> bool {
        let head = MessageHead { class: Class::Eager, ..*head };
        self.take_chunk(messages, now, row, &head, bodies, memory)
    }

    /// A chunk begins a stream, goes on with one, or is nobody's. Its payload may lie in several pieces if all of it is here. False: there
    /// is no room.
    fn take_chunk<'a>(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        row: u32,
        head: &MessageHead,
        bodies: impl Iterator<Item = &'a [u8]> + Clone,
        memory: &mut impl Memory,
    ) -> bool {
        let tag = ChunkTag::decode(head.tag);
        let known = self.find(row, tag.number);
        if let Some(slot) = known.filter(|_| !tag.is_begin) {
            return self.take_further_chunk(messages, now, slot, tag, head, bodies, memory);
        }
        if known.is_none() && tag.is_begin {
            if !messages.bulk.held.has_room_for(head.total as usize) {
                return false;
            }
            let first = bodies.clone().next().unwrap_or_default();
            let is_here = head.class == Class::Eager && first.len() as u64 == head.total;
            if is_here && self.hand_over(messages, now, row, tag, first, memory) {
                return true;
            }
            let is_over = head.class == Class::Eager && finish_of(tag).is_some();
            let slot = self.begin_inbound(messages, now, row, tag, is_over);
            self.hold_chunk(messages, now, slot, tag, head, (bodies, 0));
            self.make_ready(slot);
        } else {
            // Of a stream that is over, or never was: nobody will read it, so its sender has its credit back.
            self.give_credit(messages, row, chunk_cost(head.total));
        }
        true
    }

    fn begin_inbound(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        row: u32,
        tag: ChunkTag,
        is_over: bool,
    ) -> u32 {
        if !is_over {
            messages.bulk.peers.look_after(now, row); // whoever reads it must hear of its sender's death
        }
        let this = &messages.bulk.peers.rows[row];
        self.begin(this.peer(), this.association(), tag, is_over)
    }

    /// A further chunk of a stream: lent, held or dropped. False: there is no room.
    #[expect(clippy::too_many_arguments, reason = "a chunk, and where it goes")]
    fn take_further_chunk<'a>(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        slot: u32,
        tag: ChunkTag,
        head: &MessageHead,
        bodies: impl Iterator<Item = &'a [u8]> + Clone,
        memory: &mut impl Memory,
    ) -> bool {
        let this = &self.inbound[slot];
        if this.is_closed {
            self.give_credit(messages, this.row, chunk_cost(head.total));
            if let Some(finish) = finish_of(tag) {
                self.finish(slot, finish);
            }
            return true;
        }
        // Whoever is lent the bytes may leave some: there must be room for these before he sees any.
        if !messages.bulk.held.has_room_for(head.total as usize) {
            return false;
        }
        let is_all_read = this.first == NONE && this.handed_cost == 0;
        let may_lend = this.is_waiting && is_all_read && head.class == Class::Eager;
        let mut taken_len =
            if may_lend { self.lend_chunk(messages, slot, bodies.clone(), memory) } else { 0 };
        if messages.bulk.peers.saboteur.makes(Sabotage::LentBytesHeldToo) {
            taken_len = 0;
        }
        self.hold_chunk(messages, now, slot, tag, head, (bodies, taken_len));
        true
    }

    /// Hands a stream that begins, with all bytes of its first chunk, to whoever extracts, if he takes it; false, and nothing is changed, if not. He starts it at
    /// once, so none that is ready may stand before it. The bytes count as read: what he does not read will count no more (`keep_handed`).
    pub(crate) fn hand_over(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        row: u32,
        tag: ChunkTag,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> bool {
        let saboteur = &messages.bulk.peers.saboteur;
        let is_first = self.ready.front().is_none() || saboteur.makes(Sabotage::HandedBeforeOthers);
        let is_simple = tag.is_begin && !tag.is_broken && body.len() <= PACKET_LEN;
        if !is_first || !is_simple || self.find(row, tag.number).is_some() {
            return false;
        }
        let slot = self.inbound.next_slot();
        let source = messages.bulk.peers.rows[row].peer();
        let (id, info) =
            (StreamId(self.inbound.key(slot)), StreamInfo { source, handler: tag.handler });
        if !memory.hand_over(id, info, body, tag.is_end) {
            return false;
        }
        let cost = chunk_cost(body.len() as u64);
        self.begin_inbound(messages, now, row, tag, tag.is_end);
        let this = &mut self.inbound[slot];
        this.handed_cost = cost as u32;
        if tag.is_end {
            this.finish = Finish::Ended; // it never was in `by_number`
        }
        messages.bulk.peers.counters.stream_bytes_lent += body.len() as u64;
        self.give_credit(messages, row, cost);
        true
    }

    /// Shows the pieces of a chunk to who waits for them, no more than a packet at once, until he has enough; how many bytes he took.
    fn lend_chunk<'a>(
        &mut self,
        messages: &mut Messages,
        slot: u32,
        bodies: impl Iterator<Item = &'a [u8]>,
        memory: &mut impl Memory,
    ) -> usize {
        let stream = StreamId(self.inbound.key(slot));
        let mut taken_len = 0;
        for body in bodies.flat_map(|body| body.chunks(PACKET_LEN)) {
            let lending: Lending = memory.lend(stream, body);
            let len = lending.taken_len.min(body.len());
            taken_len += len;
            self.inbound[slot].is_waiting = lending.is_waiting;
            if len < body.len() || !lending.is_waiting {
                break;
            }
        }
        messages.bulk.peers.counters.stream_bytes_lent += taken_len as u64;
        taken_len
    }

    /// Holds what is left of a chunk behind `taken_len`, and notes how the stream goes on. There is room.
    fn hold_chunk<'a>(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        slot: u32,
        tag: ChunkTag,
        head: &MessageHead,
        (mut bodies, taken_len): (impl Iterator<Item = &'a [u8]>, usize),
    ) {
        let row = self.inbound[slot].row;
        let cost = chunk_cost(head.total);
        if head.class == Class::Fragment {
            let body = bodies.next().unwrap_or_default();
            let arrival =
                messages.bulk.hold(now, row, head, body, Stage::Streamed).expect("there is room");
            self.push_arrival(messages, slot, arrival, cost);
        } else if (taken_len as u64) < head.total {
            let held_len = head.total as usize - taken_len;
            let hold = messages.bulk.hold_rest(held_len, taken_len, bodies);
            let hold = hold.expect("there is room");
            let (arrival, arrival_serial, from, cost) = (NONE, 0, 0, cost as u32);
            let (told, next) = (NONE, NONE);
            self.push(slot, Chunk { hold, arrival, arrival_serial, told, from, cost, next });
        } else {
            self.give_credit(messages, row, cost);
        }
        if let Some(finish) = finish_of(tag) {
            self.finish(slot, finish);
            self.make_ready(slot);
        }
    }

    /// A chunk that came before its turn: now it is its turn.
    pub(crate) fn on_chunk_turn(&mut self, messages: &mut Messages, now: Instant, arrival: u32) {
        if messages.bulk.arrival(arrival).is_large {
            return self.on_told_turn(messages, arrival);
        }
        let this = messages.bulk.arrival(arrival);
        let (row, cost, tag) = (this.row, chunk_cost(this.total), ChunkTag::decode(this.tag));
        messages.bulk.await_reader(arrival);
        let known = self.find(row, tag.number);
        let slot = match known {
            Some(slot) if !tag.is_begin && !self.inbound[slot].is_closed => slot,
            None if tag.is_begin => self.begin_inbound(messages, now, row, tag, false),
            _ => {
                messages.end_arrival(now, arrival);
                self.give_credit(messages, row, cost);
                if let (Some(slot), Some(finish)) = (known, finish_of(tag)) {
                    self.finish(slot, finish);
                }
                return;
            }
        };
        self.push_arrival(messages, slot, arrival, cost);
        if let Some(finish) = finish_of(tag) {
            self.finish(slot, finish);
        }
    }

    /// A chunk that was announced before its turn.
    fn on_told_turn(&mut self, messages: &mut Messages, arrival: u32) {
        let this = messages.bulk.arrival(arrival);
        let (row, chunk) = (this.row, (ChunkTag::decode(this.tag), this.message, this.total));
        let whereabouts = messages.bulk.whereabouts_of(arrival);
        messages.bulk.remove_arrival(arrival);
        self.on_told_chunk(messages, row, chunk, whereabouts.as_ref());
    }

    /// A chunk that is an arrival, whole or not, takes its place in its stream.
    fn push_arrival(&mut self, messages: &mut Messages, slot: u32, arrival: u32, cost: u64) {
        let arrival_serial = messages.bulk.arrival_serial(arrival);
        messages.bulk.name_stream(arrival, self.inbound.key(slot));
        let (hold, from, cost) = (NONE, 0, cost as u32);
        let (told, next) = (NONE, NONE);
        self.push(slot, Chunk { hold, arrival, arrival_serial, told, from, cost, next });
    }

    /// The last fragment of a chunk came.
    pub(crate) fn on_chunk_whole(&mut self, messages: &mut Messages, arrival: u32) {
        // Which stream it belongs to was noted when it had its turn.
        if let Some(slot) = self.inbound.lookup(messages.bulk.arrival(arrival).immediate) {
            self.make_ready(slot);
        }
    }

    /// So much of a sender's credit is free again. It is told when a quarter is.
    fn give_credit(&mut self, messages: &mut Messages, row: u32, cost: u64) {
        if messages.bulk.peers.saboteur.makes(Sabotage::StreamCreditNeverGiven) {
            return;
        }
        let window = self.window;
        let peer = self.peer(row);
        peer.consumed_cost += cost;
        let limit = peer.consumed_cost + window;
        if limit >= peer.told_limit + window / 4 && !peer.is_telling {
            peer.is_telling = true;
            messages.bulk.peers.notify(row, Content::StreamCredit);
        }
    }

    /// What to tell a sender of chunks now.
    pub(crate) fn tell_stream_limit(&mut self, row: u32) -> Option<u64> {
        let peer = self.peers.get_mut(row as usize)?;
        peer.is_telling = false;
        peer.told_limit = peer.told_limit.max(peer.consumed_cost + self.window);
        Some(peer.told_limit)
    }

    /// The association with a peer ended: what is whole stays readable, nothing follows it.
    pub(crate) fn end_streams(
        &mut self,
        messages: &mut Messages,
        now: Instant,
        row: u32,
        reason: Option<GoneReason>,
    ) {
        if self.peers.len() <= row as usize {
            return;
        }
        let of_row = |(slot, this): (u32, &Inbound)| (this.row == row).then_some(slot);
        let all: Vec<u32> = self.inbound.iter().filter_map(of_row).collect();
        for slot in all {
            // One whose end is here may still wait for fragments, which will not come now.
            self.make_ready(slot);
            self.cut_at_told(messages, now, slot);
            let this = &mut self.inbound[slot];
            if this.is_cut && this.finish == Finish::Ended {
                this.finish = Finish::Broken(StreamBreak::Gone(reason));
            }
            if this.is_mapped {
                self.finish(slot, Finish::Broken(StreamBreak::Gone(reason)));
            }
        }
        self.end_outbound(messages, row);
        let peer = &mut self.peers[row as usize];
        let (next_number, unbegun) = (peer.next_number, core::mem::take(&mut peer.unbegun));
        *peer = PeerStreams { next_number, unbegun, ..PeerStreams::new() };
        self.has_credit_news = true;
    }

    /// A peer is forgotten, and what was begun for it.
    pub(crate) fn forget_streams(&mut self, messages: &mut Messages, row: u32) {
        if let Some(peer) = self.peers.get_mut(row as usize) {
            *peer = PeerStreams::new();
            self.drop_outbound(messages, row);
        }
    }

    pub(crate) fn stream_counts(&self) -> (u32, u32) {
        (self.inbound.len(), self.chunks.len())
    }
}

/// What a chunk of this length costs (PROTOCOL §12.3).
pub(crate) fn chunk_cost(len: u64) -> u64 {
    len + CHUNK_COST
}
