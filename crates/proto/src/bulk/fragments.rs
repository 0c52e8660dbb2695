//! A message of some frames is one thing.
//!
//! PROTOCOL §10.5. What is longer than a frame and short enough to go unasked leaves as fragments. They are alike, so they are written,
//! noted, checked, placed and acknowledged as a train. Mostly all of a message goes in one train, with the acknowledgement that waits, and
//! arrives as one; then it is taken in one go (`whole`). Where that cannot be, the first frame goes as any frame does, with what else there
//! is to say, finds the message's receive, and the others follow it:
//!
//! ```text
//!   sender:    all frames, or the first (`output`) and then all others ─▶ their heads, one run in the flight
//!   receiver:  all frames (`whole`), or the first (`input`) and then all others ─▶ checks in one pass, bytes to their place, one gap
//!              filled, one packet run noted
//! ```
//!
//! What is here does for many frames what `output`, `endpoint/input` and `filling` do for one. Whoever says no has changed nothing, and they see to it.

use crate::base::limits::FRAME_LEN_FLOOR;
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Locator, Memory, Place};
use crate::bulk::Bulk;
use crate::bulk::arrival::{GAP_COUNT_MAX, Stage, number_key};
use crate::bulk::outgoing::SendStage;
use crate::bulk::train::{RUN_COUNT_MAX, TxTrain};
use crate::delivery::content::Content;
use crate::delivery::credit::eager_cost;
use crate::peers::acks::{note_ack_sent, plain_ack};
use crate::peers::choice::Next;
use crate::peers::rows::{Active, row_of_id};
use crate::wire::{self, AckRepr, Class, FragmentsRepr, Header, MessageHead, TrainRepr};

/// Shorter messages fit into any frame.
pub(crate) const FRAGMENTED_LEN_MIN: u64 = FRAME_LEN_FLOOR as u64 - 128;

/// Fragments that may leave now.
struct Plan {
    slot: u32,
    path: usize,
    start: u64,
    len: u64,
    payload_len: u16,
    count: u64,
    /// What rides in the last of them.
    ack: Option<AckRepr>,
}

/// As a sender.
impl Bulk {
    /// Fragments of the message whose turn it is, if nothing else goes before.
    pub(crate) fn write_fragments(
        &mut self,
        now: Instant,
        row: u32,
        count_max: u64,
        len_max: u64,
        train: &mut TxTrain,
    ) -> bool {
        let Some(plan) = self.plan_fragments(now, row, count_max, len_max) else { return false };
        self.start_fragments(now, row, &plan, train);
        true
    }

    fn plan_fragments(&self, now: Instant, row: u32, count_max: u64, len_max: u64) -> Option<Plan> {
        let this = &self.peers.rows[row];
        let active = self.peers.actives.of(this).filter(|_| this.is_joined())?;
        let send = self.outgoing.get(active.line.unsent())?;
        let may_go = !send.is_large
            && send.stage == SendStage::Waiting
            && !this.numbers.holds_back(send.message)
            && active.is_only_messages();
        if !may_go {
            return None;
        }
        let (start, end) = match self.parts.get(send.parts) {
            Some(parts) => parts.unsent.first_gap()?,
            None => (0, send.total),
        };
        let index = active.path_of_fragments(now, send.total)?;
        let path = &active.paths[index];
        let head_len = wire::HEADER_LEN + wire::fragment_head_len(send.immediate.is_some());
        let frame_len = u64::from(path.frame_len());
        let payload_len = frame_len - head_len as u64;
        let len_max = len_max.max(self.peers.links.of(path.link()).train_len_max.into());
        let wanted_count = (end - start).div_ceil(payload_len);
        let count = wanted_count
            .min(count_max)
            .min(len_max / frame_len)
            .min(RUN_COUNT_MAX)
            .min(TrainRepr::count_to_wrap(path.flight().next_packet()))
            .min(active.credit.room().div_ceil(payload_len))
            .min(path.free_window().div_ceil(frame_len));
        let plan = Plan {
            slot: active.line.unsent(),
            path: index,
            start,
            len: (end - start).min(count * payload_len),
            payload_len: payload_len as u16,
            count,
            ack: None,
        };
        if send.parts != NONE {
            return (count > 0 && !active.must_acknowledge()).then_some(plan);
        }
        let is_whole = count == wanted_count
            && count_max > 1
            && active.credit.allows(eager_cost(end as u32))
            && !send.fits_whole(usize::from(path.frame_len()) - wire::HEADER_LEN);
        if is_whole { self.with_ack(now, active, plan) } else { None }
    }

    /// All of a message leaves: what is to be acknowledged rides on it, of one path; others wait for their time. `None` if that cannot be,
    /// and must not wait.
    fn with_ack(&self, now: Instant, active: &Active, plan: Plan) -> Option<Plan> {
        let Some(index) = active.ack_to_ride(plan.path as u8)? else { return Some(plan) };
        if self.peers.saboteur.makes(Sabotage::AckOneTooHigh) {
            return None;
        }
        let path = &active.paths[usize::from(index)];
        let last_len = plan.len - (plan.count - 1) * u64::from(plan.payload_len);
        if last_len + wire::ack_head_len(0) as u64 > u64::from(plan.payload_len) {
            return (!path.is_ack_urgent()).then_some(plan);
        }
        let ack = plain_ack(now, index, path, self.credit_for_peers())?;
        Some(Plan { ack: Some(ack), ..plan })
    }

    fn start_fragments(&mut self, now: Instant, row: u32, plan: &Plan, train: &mut TxTrain) {
        let &Plan { slot, start, len, count, payload_len, .. } = plan;
        let this = &self.peers.rows[row];
        let path = &self.peers.actives[this.active()].paths[plan.path];
        let serial = self.outgoing.serial(slot);
        let send = &mut self.outgoing[slot];
        let last_len = (len - (count - 1) * u64::from(payload_len)) as u16;
        let repr = FragmentsRepr {
            header: this.header(path.flight().next_packet(), plan.path as u8),
            head: MessageHead {
                class: Class::Fragment,
                space: send.space,
                message: send.message as u32,
                tag: send.tag,
                offset: start as u32,
                total: send.total,
                immediate: send.immediate,
                wants_match: send.until_matched,
                len: payload_len,
                ahead: 0,
            },
            last_len,
            count: count as usize,
            ack: plan.ack,
        };
        wire::write_fragments(&mut train.heads, &repr, &self.peers.train_seal(this));
        (train.link, train.to) = (path.link(), *path.locator());
        (train.head_len, train.count) = (repr.frame_head_len(), repr.count);
        train.source = send.source(start);
        (train.payload_len, train.last_len) = (payload_len.into(), last_len.into());
        train.is_unasked = true;

        let active = &mut self.peers.actives[this.active()];
        // Of a message that goes in one train no parts are kept: if it is cut later it gets them then (`keep_parts`).
        let is_all = self.parts.get_mut(send.parts).is_none_or(|parts| {
            parts.unsent.take_front(len);
            parts.unsent.is_empty()
        });
        if is_all {
            send.stage = SendStage::Sent;
            active.line.on_sent_up_to(send.next);
        }
        active.credit.on_sent(eager_cost(len as u32));
        if let Some(ack) = plan.ack {
            let path = &mut active.paths[usize::from(ack.path)];
            note_ack_sent(path, row, &mut self.peers.timers, &mut self.peers.counters);
        }
        let content = Content::Message { slot, serial, offset: start as u32, len: len as u32 };
        let frame_len = train.head_len as u16 + if count == 1 { last_len } else { payload_len };
        self.on_train_sent(now, row, plan.path, content, (train.head_len as u16, frame_len), count);
    }
}

impl Active {
    /// The path fragments take, if no path wants anything else first but to acknowledge: one message goes one way, that of its first frame.
    fn path_of_fragments(&self, now: Instant, unsent_len: u64) -> Option<usize> {
        if !self.are_paths_calm_but_for_acks(now) {
            return None;
        }
        let index = self.choose_path(now, unsent_len, Next::Fragments)?;
        let path = &self.paths[index];
        let may_go = path.has_window() && !path.payload_check() && !path.has_long_frames();
        may_go.then_some(index)
    }
}

/// Fragments as they are expected to follow the first of them, and the message they belong to.
pub(crate) struct Expected {
    pub(crate) row: u32,
    pub(crate) slot: u32,
    pub(crate) train: FragmentsRepr,
}

/// As a receiver.
impl Bulk {
    /// What these frames are if they are fragments that are awaited. Everything that `on_frame` would ask is asked here, once, and what is
    /// not as usual is left to it.
    pub(crate) fn expect_fragments(
        &self,
        link: u8,
        from: &Locator,
        frames: &[u8],
        stride: usize,
    ) -> Option<Expected> {
        let (mut header, head) = wire::lone_fragment(frames.get(..stride)?)?;
        let row = row_of_id(header.to);
        let (this, path, packet) = self.peers.path_of(&header, link, from)?;
        header.packet = packet;
        if packet <= path.received().largest()
            || !this.ties.has_numbered()
            || this.numbers.refuses(this.numbers.whole(head.message))
        {
            return None;
        }
        let slot = *self.by_number.get(&number_key(row, head.message))?;
        let arrival = &self.arrivals[slot];
        let progress = self.progress.get(arrival.progress)?;
        let is_awaited = !arrival.is_large
            && arrival.stage != Stage::Lapsed
            && arrival.total == head.total
            && (progress.receive != NONE || arrival.hold != NONE);
        let offset = u64::from(head.offset);
        let gap = progress.gaps.missing_from(offset).filter(|gap| gap.0 == offset && is_awaited)?;
        let is_first_gap = progress.gaps.first_gap().is_some_and(|first| first.0 == offset);
        if progress.gaps.gap_count() >= GAP_COUNT_MAX && !is_first_gap {
            return None; // as in `absorb`
        }
        let train = self.fitting(header, head, frames.len(), stride, gap.1 - offset)?;
        Some(Expected { row, slot, train })
    }

    /// As many frames as are there, belong to the message, and have bytes of which all are missing.
    fn fitting(
        &self,
        header: Header,
        head: MessageHead,
        frames_len: usize,
        stride: usize,
        missing_len: u64,
    ) -> Option<FragmentsRepr> {
        let (last_len, count) = (head.len, frames_len / stride);
        let train = FragmentsRepr { header, head, last_len, count, ack: None };
        let payload_len = u64::from(head.len);
        let full_count = (missing_len / payload_len)
            .min(train.count as u64)
            .min(TrainRepr::count_to_wrap(header.packet)) as usize;
        // What is shorter than the others is the last that arrived, and ends the message.
        let short_len = (frames_len % stride).saturating_sub(train.frame_head_len()) as u64;
        let is_end = missing_len == full_count as u64 * payload_len + short_len;
        if short_len > 0 && is_end && full_count == train.count {
            return Some(FragmentsRepr {
                last_len: short_len as u16,
                count: full_count + 1,
                ..train
            });
        }
        (full_count > 0).then_some(FragmentsRepr { count: full_count, ..train })
    }
}

/// What arrived is taken.
impl Bulk {
    /// The first fragments of a train are what was expected: their bytes go to their place. True: none of the message is missing any more.
    pub(crate) fn take_fragments(
        &mut self,
        now: Instant,
        expected: &Expected,
        count: usize,
        (frames, stride): (&[u8], usize),
        memory: &mut impl Memory,
    ) -> bool {
        let &Expected { row, slot, ref train } = expected;
        let arrival = &self.arrivals[slot];
        let (hold, index) = (arrival.hold, arrival.progress);
        let progress = &mut self.progress[index];
        let (start, head_len) = (u64::from(train.head.offset), train.frame_head_len());
        let len = train.len_of(count);
        let bodies = frames.chunks(stride).take(count).map(|frame| &frame[head_len..]);
        if progress.receive != NONE {
            let (buf, mut offset) = (self.receives[progress.receive].buf, progress.offset + start);
            for body in bodies {
                memory.place(Place { buf, offset }, body);
                offset += body.len() as u64;
            }
            self.peers.counters.bytes_placed += len; // held bytes are placed later
        } else {
            let mut rest = &mut self.held.bytes_mut(hold)[start as usize..];
            for body in bodies {
                let (to, behind) = rest.split_at_mut(body.len());
                to.copy_from_slice(body);
                rest = behind;
            }
        }
        progress.gaps.fill(start, start + len, &mut |_, _| ());
        progress.progressed_at = now;
        let is_whole = progress.gaps.is_empty();
        self.peers.counters.frames_in += count as u64;
        self.peers.counters.frames_together += count as u64;
        self.peers.note_heard(now, row);
        is_whole
    }
}
