//! Frames into the rings of peers.
//!
//! A ring that is full says "not now", which holds up everything behind it, whoever that is for. That is right for a peer
//! that takes frames out as fast as it can. For one that has taken nothing for a while frames are kept here, more than the
//! protocol ever sends without an answer; what is more than that, from whoever heeds no window, is lost in the end.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use super::letters::{
    KNOCK, MARK_FRAME, MARK_TRAIN, Offer, RANGE_COUNT_MAX, TRAIN_COUNT_MAX, TRAIN_LEN_MAX,
    is_tellable, train_head, train_record_len,
};
use super::{PEER_COUNT_MAX, Shm, Use, locate};
use crate::burst::{Frame, Piece, Train};
use crate::mem::Table;
use crate::ring::{Broken, Lines as _, Producer, Word};
use crate::sys::shm::{Mapping, SocketName, put_user};
use crate::{Burst, Cause, Locator, Notice};

/// Offers that their receivers had no room for yet. Each holds a descriptor.
const PENDING_COUNT_MAX: usize = 4;
/// A batch of this many bytes is published before it is complete, so that the receiver can begin.
const BATCH_LEN_MAX: usize = 8 << 10;
/// A frame that is sent by itself is shown while it is written from this length on, so that both ends copy at once,
const GROW_LEN_MIN: usize = 8 << 10;
/// and each time by so much more.
const GROW_LEN: usize = 4 << 10;
/// Payload below this goes through the ring: a read from another process costs as much as copying so much twice.
const TELL_LEN_MIN: u64 = 32 << 10;
/// When nothing was taken out of a full ring for so long, frames are kept.
const SPILL_AFTER: Duration = Duration::from_micros(300);
/// So many bytes of them: twice what the protocol ever has on its way to one peer by a link that never loses a frame (PROTOCOL
/// §6.3), so that this one does not.
const SPILL_LEN_MAX: usize = 8 << 20;
/// When nothing was taken out for so long, those beyond are lost: whoever sends that much asks for no answers.
const LOSE_AFTER: Duration = Duration::from_secs(1);

/// What the reader left in the ring about reading our memory.
pub(super) const NOTE_CAN_READ: u32 = 1;
pub(super) const NOTE_CANNOT_READ: u32 = 2;

/// A peer to send to.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) name: u64,
    to: Locator,
    pub(super) ring: Producer<Mapping>,
    /// Until the peer was told of the ring.
    pending: Option<OwnedFd>,
    /// Since when nothing was taken out of a full ring, and what had been taken by then.
    stuck: Option<(Instant, u64)>,
    spill: VecDeque<Vec<u8>>,
    spill_len: usize,
    /// Something was put into the ring and its reader not yet looked after.
    is_touched: bool,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Put {
    Done,
    /// There is no room.
    Full,
    /// Its payload is not there any more.
    Void,
    /// The peer is cut off.
    Gone,
}

/// What became of a frame that was kept, or of several.
enum Taken {
    Some(usize),
    Later,
}

impl Output {
    pub(super) fn socket(&self) -> SocketName {
        locate::socket_name(self.name)
    }

    /// Whether frames for it were refused or kept because its ring is full.
    pub(super) fn waits_for_room(&self) -> bool {
        self.stuck.is_some() || !self.spill.is_empty()
    }

    /// Asks its reader for a knock. False: there is room already.
    pub(super) fn ask_for_room(&mut self) -> Result<bool, Broken> {
        self.ring.want_room()
    }

    #[inline]
    fn put_bytes(&mut self, bytes: &[u8]) -> Put {
        match self.ring.reserve(MARK_FRAME, bytes.len()) {
            Ok(Some(mut slot)) => {
                slot.put(bytes);
                slot.commit();
                Put::Done
            }
            Ok(None) => Put::Full,
            Err(Broken) => Put::Gone,
        }
    }

    /// Publishes what was put into the ring. True: its reader must be woken.
    #[inline]
    fn finish(&mut self) -> bool {
        self.is_touched = false;
        self.ring.publish();
        let must_wake = self.ring.must_wake();
        self.ring.prepare(); // when the reader has what it waits for
        must_wake
    }

    fn put_frame(&mut self, burst: &Burst, frame: &Frame, memory: &Table) -> Put {
        let mut slot = match self.ring.reserve(MARK_FRAME, frame.len as usize) {
            Ok(Some(slot)) => slot,
            Ok(None) => return Put::Full,
            Err(Broken) => return Put::Gone,
        };
        for piece in burst.pieces(frame) {
            match *piece {
                Piece::Head { .. } => slot.put(burst.head_bytes(piece)),
                Piece::User { id, offset, len } => {
                    if !put_user(&mut slot, memory, id, offset, len) {
                        return Put::Void;
                    }
                }
            }
        }
        slot.commit();
        self.is_touched = true;
        if self.ring.batch_len() >= BATCH_LEN_MAX {
            self.ring.publish();
        }
        Put::Done
    }

    /// Heads, and where the payload is. `Void`: it cannot be told.
    fn put_train(&mut self, heads: &[u8], train: &Train, memory: &Table) -> Put {
        let mut ranges = [(0_u64, 0_u64); RANGE_COUNT_MAX];
        let mut count = 0;
        let len = train.payload_of(train.count as usize);
        let is_there = memory.get(train.id).is_some_and(|lent| {
            lent.for_each(train.offset, len, |part| {
                if part.len() > 0 {
                    let range = (part.ptr().expose_provenance() as u64, part.len() as u64);
                    ranges.get_mut(count).into_iter().for_each(|place| *place = range);
                    count += 1;
                }
            })
        });
        let record_len = train_record_len(train, count);
        if !is_there || count > RANGE_COUNT_MAX || record_len > self.ring.record_len_max() {
            return Put::Void;
        }
        let mut slot = match self.ring.reserve(MARK_TRAIN, record_len) {
            Ok(Some(slot)) => slot,
            Ok(None) => return Put::Full,
            Err(Broken) => return Put::Gone,
        };
        slot.put(&train_head(train, count));
        for (at, len) in &ranges[..count] {
            slot.put(&at.to_le_bytes());
            slot.put(&len.to_le_bytes());
        }
        slot.put(heads);
        slot.commit();
        self.is_touched = true;
        self.ring.publish(); // there is much to do for its reader
        Put::Done
    }

    /// How long the reader has taken nothing out of its full ring.
    fn stuck_for(&mut self) -> Duration {
        let (now, head) = (Instant::now(), self.ring.store().head());
        match self.stuck {
            Some((since, before)) if before == head => now - since,
            _ => {
                self.stuck = Some((now, head));
                Duration::ZERO
            }
        }
    }

    /// Moves kept frames into the ring, as far as there is room. False: it is cut off.
    fn unspill(&mut self) -> bool {
        while let Some(frame) = self.spill.pop_front() {
            match self.put_bytes(&frame) {
                Put::Done => self.spill_len -= frame.len(),
                // Put back in both cases: whoever forgets this peer counts it among those that have kept frames.
                put => {
                    self.spill.push_front(frame);
                    return put != Put::Gone;
                }
            }
        }
        true
    }
}

/// Sending.
impl Shm {
    /// Sends one frame, if nothing stands in its way.
    #[inline]
    pub(super) fn send_one(&mut self, to: &Locator, bytes: &[u8]) -> bool {
        let Some(index) = self.known_output(to) else { return false };
        let output = &mut self.outputs[index];
        let may_go = !output.waits_for_room() && bytes.len() <= self.about.frame_len_max;
        if !may_go || output.put_bytes(bytes) != Put::Done {
            return false;
        }
        self.after_one_put(index)
    }

    /// Sends one frame whose head and payload lie apart, if nothing stands in its way.
    #[inline]
    pub(super) fn send_in_two(&mut self, to: &Locator, head: &[u8], payload: &[u8]) -> bool {
        let Some(index) = self.known_output(to) else { return false };
        let output = &mut self.outputs[index];
        let len = head.len() + payload.len();
        if output.waits_for_room() || len > self.about.frame_len_max {
            return false;
        }
        let Ok(Some(mut slot)) = output.ring.reserve(MARK_FRAME, len) else { return false };
        slot.put(head);
        if len < GROW_LEN_MIN {
            slot.put(payload);
        } else {
            for part in payload.chunks(GROW_LEN) {
                slot.put(part);
                slot.show();
            }
        }
        slot.commit();
        self.after_one_put(index)
    }

    /// A frame was put into the ring by itself.
    #[inline]
    fn after_one_put(&mut self, index: usize) -> bool {
        self.counters.frames_out += 1;
        if self.outputs[index].finish() {
            self.knock(index);
        }
        true
    }

    /// Sends as much as there is room for: how many frames were taken.
    pub(super) fn send_all(&mut self, burst: &Burst, first: usize, memory: &mut Table) -> usize {
        if self.spilling_count > 0 {
            self.unspill();
        }
        let (count, mut at) = (burst.len(), first);
        while at < count {
            let taken = match burst.train_at(at) {
                Some((to, heads, train)) => self.send_train(to, heads, &train, burst, at, memory),
                None => self.send_frames(burst, at, memory),
            };
            match taken {
                Taken::Some(count) => at += count,
                Taken::Later => {
                    self.counters.send_blocked += 1;
                    break;
                }
            }
        }
        self.finish_touched();
        at - first
    }

    /// Frames from number `at` on, up to the next that may be of a train.
    fn send_frames(&mut self, burst: &Burst, at: usize, memory: &mut Table) -> Taken {
        let mut count = 0;
        for frame in burst.frames(at) {
            let may_be_train =
                matches!(burst.pieces(&frame), [Piece::Head { .. }, Piece::User { .. }]);
            if count > 0 && may_be_train {
                break;
            }
            match self.send_frame(burst, &frame, memory) {
                Taken::Some(_) => count += 1,
                Taken::Later if count > 0 => break,
                Taken::Later => return Taken::Later,
            }
        }
        Taken::Some(count)
    }

    fn send_frame(&mut self, burst: &Burst, frame: &Frame, memory: &mut Table) -> Taken {
        if frame.len as usize > self.about.frame_len_max || frame.len == 0 {
            self.counters.send_failed += 1;
            return Taken::Some(1);
        }
        let Some(index) = self.output_for(&frame.to) else {
            self.counters.send_failed += 1;
            return Taken::Some(1);
        };
        let output = &mut self.outputs[index];
        if !output.spill.is_empty() {
            return self.spill(index, burst, frame, memory);
        }
        match output.put_frame(burst, frame, memory) {
            Put::Done => {
                output.stuck = None;
                self.counters.frames_out += 1;
            }
            Put::Full if output.stuck_for() >= SPILL_AFTER => {
                return self.spill(index, burst, frame, memory);
            }
            Put::Full => return Taken::Later,
            Put::Void => self.counters.void_frames += 1,
            Put::Gone => {
                let name = output.name;
                self.ban(name);
            }
        }
        Taken::Some(1)
    }

    /// Keeps a frame for a peer whose ring stays full, or at last loses it.
    #[cold]
    fn spill(&mut self, index: usize, burst: &Burst, frame: &Frame, memory: &Table) -> Taken {
        let output = &mut self.outputs[index];
        if output.spill_len + frame.len as usize > SPILL_LEN_MAX {
            if output.stuck_for() < LOSE_AFTER {
                return Taken::Later;
            }
            self.counters.send_failed += 1;
            return Taken::Some(1);
        }
        let mut bytes = Vec::with_capacity(frame.len as usize);
        let is_whole = burst.pieces(frame).iter().all(|piece| match *piece {
            Piece::Head { .. } => {
                bytes.extend_from_slice(burst.head_bytes(piece));
                true
            }
            Piece::User { id, offset, len } => {
                memory.copy_out(id, offset, len as usize, &mut bytes)
            }
        });
        if !is_whole {
            self.counters.void_frames += 1;
        } else {
            self.counters.send_spilled += 1;
            self.spilling_count += usize::from(output.spill.is_empty());
            output.spill_len += bytes.len();
            output.spill.push_back(bytes);
        }
        Taken::Some(1)
    }

    /// As much of a train as its ring has room for: told of, where its receiver can read our memory, else frame by frame.
    fn send_train(
        &mut self,
        to: &Locator,
        heads: &[u8],
        train: &Train,
        burst: &Burst,
        at: usize,
        memory: &mut Table,
    ) -> Taken {
        if let Some(index) = self.output_for(to)
            && self.can_tell(index)
        {
            let train = first_of(train);
            let heads = &heads[..train.count as usize * train.head_len as usize];
            let is_long = train.payload_of(train.count as usize) >= TELL_LEN_MIN;
            let output = &mut self.outputs[index];
            let put = match is_long && is_tellable(&train) {
                true => output.put_train(heads, &train, memory),
                false => Put::Void,
            };
            match put {
                Put::Done => {
                    output.stuck = None;
                    self.counters.frames_out += u64::from(train.count);
                    self.counters.trains_out += 1;
                    return Taken::Some(train.count as usize);
                }
                Put::Full if output.stuck_for() < SPILL_AFTER => return Taken::Later,
                Put::Gone => {
                    let name = output.name;
                    self.ban(name);
                    return Taken::Some(train.count as usize);
                }
                Put::Full | Put::Void => {}
            }
        }
        let mut count = 0;
        for frame in burst.frames(at).take(train.count as usize) {
            match self.send_frame(burst, &frame, memory) {
                Taken::Some(_) => count += 1,
                Taken::Later if count > 0 => break,
                Taken::Later => return Taken::Later,
            }
        }
        Taken::Some(count)
    }

    /// Whether the peer reads our memory.
    pub(super) fn is_readable_by(&self, index: usize) -> bool {
        self.config.cma == Use::Auto
            && self.outputs[index].ring.store().word(Word::Note) == NOTE_CAN_READ
    }

    /// Whether a train may be told of.
    fn can_tell(&self, index: usize) -> bool {
        self.about.train_count_max > 0
            && self.outputs[index].spill.is_empty()
            && self.is_readable_by(index)
    }

    /// Publishes what was put into a ring; its reader is woken if it sleeps.
    fn finish(&mut self, index: usize) {
        if self.outputs[index].finish() {
            self.knock(index);
        }
    }

    /// Publishes what was put into rings, of all of them; readers that sleep are woken.
    fn finish_touched(&mut self) {
        for index in (0..self.outputs.len()).rev() {
            if self.outputs[index].is_touched {
                self.finish(index);
            }
        }
    }

    #[cold]
    fn knock(&mut self, index: usize) {
        let output = &self.outputs[index];
        self.knock_at(output.name);
    }

    /// Wakes who sleeps there. What cannot be delivered for want of room need not be: there is something to wake up for.
    pub(super) fn knock_at(&mut self, name: u64) {
        self.counters.knocks_out += 1;
        let sent = self.post.send(&locate::socket_name(name), &KNOCK, None);
        if sent.is_err_and(|error| is_nobody(&error)) {
            self.on_nobody(name);
        }
    }

    /// The output to a place; made, if there is none yet. `None`: nothing can be sent there.
    #[inline]
    pub(super) fn output_for(&mut self, to: &Locator) -> Option<usize> {
        self.known_output(to).or_else(|| self.make_output(to))
    }

    /// The output to a place, if there is one.
    #[inline]
    fn known_output(&mut self, to: &Locator) -> Option<usize> {
        let is_same = self.outputs.get(self.output_last).is_some_and(|output| output.to == *to);
        if is_same { Some(self.output_last) } else { self.find_output(to) }
    }

    #[inline(never)]
    fn find_output(&mut self, to: &Locator) -> Option<usize> {
        // First contact may know a peer by its card; it has one ring all the same.
        let name = self.name_here(to)?;
        let index = self.outputs.iter().position(|output| output.name == name)?;
        self.output_last = index;
        Some(index)
    }

    #[cold]
    fn make_output(&mut self, to: &Locator) -> Option<usize> {
        let name = self.name_here(to).filter(|name| !self.banned.contains(name));
        let is_there = |name: u64| self.post.ask(&locate::socket_name(name)).is_ok();
        let Some(name) = name.filter(|&name| is_there(name)) else {
            match name.filter(|&name| self.inputs.iter().any(|input| input.name == name)) {
                // It was there: it has died, which is told when all it left behind was read.
                Some(name) => self.on_nobody(name),
                None => self.notice(Notice::Unreachable { to: *to, cause: Cause::Void }),
            }
            return None;
        };
        let pending_count = self.outputs.iter().filter(|output| output.pending.is_some()).count();
        if self.outputs.len() == PEER_COUNT_MAX || pending_count == PENDING_COUNT_MAX {
            return None;
        }
        let (mapping, fd) = match Mapping::create(self.config.ring_len) {
            Ok(made) => made,
            Err(error) => {
                self.say(|| format!("no memory could be made for a peer: {error}"));
                return None;
            }
        };
        let ring = mapping.into_producer();
        self.outputs.push(Output {
            name,
            to: locate::to_locator(self.host, name),
            ring,
            pending: Some(fd),
            stuck: None,
            spill: VecDeque::new(),
            spill_len: 0,
            is_touched: false,
        });
        self.output_last = self.outputs.len() - 1;
        self.offer_again(self.output_last).then_some(self.output_last)
    }

    /// Tells a peer of its ring. False: it is not there, and forgotten.
    fn offer_again(&mut self, index: usize) -> bool {
        let output = &mut self.outputs[index];
        let proof_at = output.ring.store().proof_at();
        let offer = Offer { ring_len: self.config.ring_len, proof_at };
        let Some(fd) = &output.pending else { return true };
        match self.post.send(&output.socket(), &offer.to_bytes(), Some(fd.as_fd())) {
            Ok(()) => {
                output.pending = None;
                self.counters.offers_out += 1;
                true
            }
            Err(error) if is_nobody(&error) => {
                let name = output.name;
                self.on_nobody(name);
                false
            }
            // Its queue is full, or the system is short of something. What is in the ring waits.
            Err(_) => true,
        }
    }

    /// Offers that could not be delivered, frames that were kept. Called now and then.
    pub(super) fn retry_outputs(&mut self) {
        for index in (0..self.outputs.len()).rev() {
            self.offer_again(index);
        }
        if self.spilling_count > 0 {
            self.unspill();
        }
    }

    /// Frames that were kept, into rings that have room again.
    #[cold]
    pub(super) fn unspill(&mut self) {
        for index in (0..self.outputs.len()).rev() {
            let output = &mut self.outputs[index];
            if output.spill.is_empty() {
                continue;
            }
            if !output.unspill() {
                let name = output.name;
                self.ban(name);
                continue;
            }
            if output.spill.is_empty() {
                output.stuck = None;
                self.spilling_count -= 1;
            }
            self.finish(index);
        }
    }

    pub(super) fn forget_output(&mut self, name: u64) {
        if let Some(index) = self.outputs.iter().position(|output| output.name == name) {
            let output = self.outputs.swap_remove(index);
            self.spilling_count -= usize::from(!output.spill.is_empty());
        }
    }
}

/// As much of a train as can be told of at once.
fn first_of(train: &Train) -> Train {
    let count_max = (TRAIN_LEN_MAX / (train.payload_len as usize).max(1)).min(TRAIN_COUNT_MAX);
    let count = (train.count as usize).min(count_max.max(1));
    let is_whole = count == train.count as usize;
    let last_len = if is_whole { train.last_len } else { train.payload_len };
    Train { count: count as u32, last_len, ..*train }
}

/// Whether a letter came back because nobody has that name.
pub(super) fn is_nobody(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECONNREFUSED)
}

/// What a hostile peer could do.
#[cfg(test)]
impl Output {
    /// Writes over the lines.
    pub(super) fn scribble(&mut self, at: usize, bytes: &[u8]) {
        self.ring.scribble(at, bytes);
    }

    /// Writes where the next header will be.
    pub(super) fn scribble_header(&mut self, header: u64) {
        let at = self.ring.next_at();
        self.scribble(at, &header.to_le_bytes());
    }

    /// As if the ring were not in this memory any more.
    pub(super) fn forge_proof(&mut self) {
        self.ring.store().set_proof([0; 16]);
    }

    /// As if its reader had said so.
    pub(super) fn pretend_can_read(&mut self) {
        self.ring.store().set_word(Word::Note, NOTE_CAN_READ);
    }
}
