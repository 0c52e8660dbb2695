//! The common frames, out and in: whole small messages between peers who know each other, and their acknowledgements, with
//! nothing else waiting.
//!
//! These functions do what `output` and `input` would do, without asking for all that could be but is not: what must not
//! be so is asked first, in one place, and whoever says no has changed nothing. A row, its active record and its path
//! are looked up once, and everything is done on the borrowed parts. That is why they are apart: one can hold them
//! against the general rules, which stand in the module named at each step.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::ack::{AckHead, expand};
use crate::api::{Counters, Envelope, Event, Piece, TxFrame};
use crate::arrival::{Receive, Verdict};
use crate::content::Content;
use crate::credit::{Credit, Share};
use crate::endpoint::Endpoint;
use crate::input::Origin;
use crate::matching::Matcher;
use crate::output::{start, start_sealed};
use crate::path::Path;
use crate::peer::{Active, Phase, Row, Rows, row_of_id};
use crate::pool::BytePool;
use crate::post::{Line, Outgoing, SendStage, send_req};
use crate::ring::Ring;
use crate::sabotage::Sabotage;
use crate::sent::Run;
use crate::slab::{NONE, Slab};
use crate::turns::eager_cost;
use crate::types::{Instant, Locator, Memory, PeerId, Place, ReqId, Space, Tag};
use crate::wire::{
    self, ACKED_EAGER_LEN, AckRepr, AckView, CHECK_HEAD_LEN, EagerWords, HEADER_LEN, Header,
    LONE_EAGER_LEN, LoneMessage, LoneView, PlainView, Writer, ack_head_len, eager_head_len,
};

impl Endpoint {
    /// Whether frames may take the quick ways. While it closes an endpoint looks at more than they do.
    #[inline(always)]
    pub(crate) fn may_be_quick(&self) -> bool {
        #[cfg(test)]
        if self.is_thorough {
            return false;
        }
        self.closing.is_none()
    }
}

/// Out.
impl Endpoint {
    /// A frame of whole messages to a joined peer over its only path, or the main one while no other wants anything
    /// (`Endpoint::write_packet`).
    #[inline(always)]
    pub(crate) fn write_quick(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        self.write_lone(now, row, None, tx)
    }

    /// The same for a peer with several paths. Apart, so that the only path of the others is a constant.
    #[inline(never)]
    fn write_quick_main(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let active = &self.actives[self.rows[row].active];
        let Some(main) = active.undisturbed_path(now) else { return false };
        self.write_lone(now, row, Some(main), tx)
    }

    /// On this path, or if there is only one on that.
    #[inline(always)]
    fn write_lone(&mut self, now: Instant, row: u32, main: Option<u8>, tx: &mut TxFrame) -> bool {
        let this = &mut self.rows[row];
        let Some(active) = self.actives.get_mut(this.active) else { return false };
        let active = &mut **active;
        let index = match main {
            Some(main) => main,
            None if active.paths.len() == 1 => 0,
            None => return self.write_quick_main(now, row, tx),
        };
        if this.phase != Phase::Joined || !active.is_plain(usize::from(index)) {
            return false;
        }
        let (slot, path) = (active.unsent, &mut active.paths[usize::from(index)]);
        let (serial, send) = self.outgoing.get_with_serial(slot);
        if send.next != NONE || send.immediate.is_some() || path.payload_check {
            return self.write_plain(now, row, index, tx);
        }
        if path.ack_pending_count > 0 {
            return self.write_answer(now, row, index, tx);
        }
        let Some(cost) = may_go(send, this, active.credit) else { return false };
        let len = send.total as u32;
        let frame_len = LONE_EAGER_LEN + len as usize;
        if frame_len > usize::from(path.frame_len) {
            return false;
        }
        start_sealed(tx, path.link, &path.locator);
        let packet = path.flight.next_packet();
        let header = Header { to: this.remote_id, packet, path: index, form: this.version };
        wire::write_lone_eager(&mut tx.head, header, send.eager(), this.proof(path));
        if len > 0 {
            tx.body.push(Piece { source: send.source(0), len });
        }
        tx.body_len = len as usize;
        send.stage = SendStage::Sent;
        active.credit.on_sent(cost);
        active.unsent = NONE;
        let is_spent = active.granted.is_empty(); // plain, and nothing left: it need not be asked again
        let content = Content::Message { slot, serial, offset: 0, len };
        let look_at = path.on_sent_one(now, content, frame_len as u16, &self.settings);
        let timer_at = this.timer_at;
        self.after_packet((row, timer_at), look_at, is_spent);
        true
    }

    /// The same for one simple message with an acknowledgement that is pending. The row is plain.
    #[inline(never)]
    fn write_answer(&mut self, now: Instant, row: u32, index: u8, tx: &mut TxFrame) -> bool {
        let share = self.credit_for_peers();
        let this = &mut self.rows[row];
        let active = &mut **self.actives.get_mut(this.active).expect("plain");
        let path = &mut active.paths[usize::from(index)];
        let slot = active.unsent;
        let (serial, send) = self.outgoing.get_with_serial(slot);
        let Some(cost) = may_go(send, this, active.credit) else { return false };
        let len = send.total as u32;
        let frame_len = ACKED_EAGER_LEN + len as usize;
        if frame_len > usize::from(path.frame_len) || self.saboteur.makes(Sabotage::AckOneTooHigh) {
            return false;
        }
        let Some(ack) = plain_ack(now, index, path, share) else {
            return false;
        };
        start_sealed(tx, path.link, &path.locator);
        let packet = path.flight.next_packet();
        let header = Header { to: this.remote_id, packet, path: index, form: this.version };
        wire::write_acked_eager(&mut tx.head, header, &ack, send.eager(), this.proof(path));
        if len > 0 {
            tx.body.push(Piece { source: send.source(0), len });
        }
        tx.body_len = len as usize;
        send.stage = SendStage::Sent;
        active.credit.on_sent(cost);
        active.unsent = NONE;
        let is_spent = active.granted.is_empty();
        let content = Content::Message { slot, serial, offset: 0, len };
        let look_at = path.on_sent_one(now, content, frame_len as u16, &self.settings);
        note_ack_sent(path, row, &mut self.ack_timers, &mut self.counters);
        let timer_at = this.timer_at;
        self.after_packet((row, timer_at), look_at, is_spent);
        true
    }

    /// The same for several messages, or one that is not quite as simple, with or without an acknowledgement. The row is
    /// plain.
    #[inline(never)]
    fn write_plain(&mut self, now: Instant, row: u32, index: u8, tx: &mut TxFrame) -> bool {
        let share = self.credit_for_peers();
        let this = &mut self.rows[row];
        let active = &mut **self.actives.get_mut(this.active).expect("plain");
        let path = &mut active.paths[usize::from(index)];
        let is_checked = path.payload_check;
        let ack = match path.ack_pending_count {
            0 => None,
            _ => plain_ack(now, index, path, share),
        };
        let has_ack = ack.is_some();
        if has_ack != (path.ack_pending_count > 0)
            || has_ack && self.saboteur.makes(Sabotage::AckOneTooHigh)
        {
            return false;
        }
        // Whether anything can go is asked before anything is changed.
        let send = &self.outgoing[active.unsent];
        if may_go(send, this, active.credit).is_none() {
            return false;
        }
        // Only now: a large message may be longer than can be added to.
        let len = HEADER_LEN
            + usize::from(is_checked) * CHECK_HEAD_LEN
            + usize::from(has_ack) * ack_head_len(0)
            + eager_head_len(send.immediate.is_some())
            + send.total as usize;
        if len > usize::from(path.frame_len) {
            return false;
        }
        let packet = path.flight.next_packet();
        start(tx, path.link, &path.locator, this.secret, packet);
        let header = Header { to: this.remote_id, packet, path: index, form: this.version };
        let mut writer = Writer::begin(&mut tx.head, header);
        if is_checked {
            writer.check();
        }
        if let Some(ack) = &ack {
            writer.ack(ack, &[]);
        }
        tx.body_len =
            write_run(&mut writer, &mut tx.body, this, (active, index), &mut self.outgoing);
        let is_spent = active.unsent == NONE && active.granted.is_empty();
        let path = &mut active.paths[usize::from(index)];
        let look_at = path.on_sent(now, (tx.head.len() + tx.body_len) as u16, &self.settings);
        if has_ack {
            note_ack_sent(path, row, &mut self.ack_timers, &mut self.counters);
        }
        let timer_at = this.timer_at;
        self.after_packet((row, timer_at), look_at, is_spent);
        true
    }

    /// A frame that is nothing but an acknowledgement without holes (`Endpoint::write_acks`).
    #[inline(never)]
    pub(crate) fn write_quick_ack(&mut self, now: Instant, row: u32, tx: &mut TxFrame) -> bool {
        let share = self.credit_for_peers();
        let this = &mut self.rows[row];
        let Some(active) = self.actives.get_mut(this.active) else { return false };
        let active = &mut **active;
        let is_alone = active.unsent == NONE && active.is_only_messages();
        let Some(index) = active.quick_path(now).filter(|_| is_alone) else { return false };
        let path = &mut active.paths[usize::from(index)];
        if this.phase != Phase::Joined
            || !path.ack_at_once
            || path.back != index
            || self.saboteur.makes(Sabotage::AckOneTooHigh)
        {
            return false;
        }
        let Some(ack) = plain_ack(now, index, path, share) else {
            return false;
        };
        let packet = path.flight.next_packet();
        start(tx, path.link, &path.locator, this.secret, packet);
        let header = Header { to: this.remote_id, packet, path: index, form: this.version };
        let mut writer = Writer::begin(&mut tx.head, header);
        if path.payload_check {
            writer.check();
        }
        writer.ack(&ack, &[]);
        path.flight.on_sent(now, tx.head.len() as u16); // elicits nothing: nobody looks for it
        note_ack_sent(path, row, &mut self.ack_timers, &mut self.counters);
        let (timer_at, is_spent) = (this.timer_at, active.granted.is_empty());
        self.after_packet((row, timer_at), Instant::NEVER, is_spent);
        true
    }

    /// A packet of this row has left: it is counted, the row is looked at in time for it, and passes its turn on if it has nothing
    /// more to send. `timer_at` is the row's, which the caller has at hand.
    #[inline(always)]
    pub(crate) fn after_packet(
        &mut self,
        (row, timer_at): (u32, Instant),
        look_at: Instant,
        is_spent: bool,
    ) {
        self.counters.frames_out += 1;
        if look_at < timer_at {
            self.arm(look_at, row);
        }
        if is_spent {
            self.rows.leave_ready();
        }
    }
}

/// The acknowledgement that was pending on a path leaves. Its timer need not go off, if nobody's came after it.
#[inline(always)]
pub(crate) fn note_ack_sent(
    path: &mut Path,
    row: u32,
    timers: &mut Ring<(Instant, u32)>,
    counters: &mut Counters,
) {
    if timers.back() == Some(&(path.ack_due, row)) {
        timers.end = timers.end.wrapping_sub(1);
    }
    path.on_ack_sent();
    counters.acks_out += 1;
}

/// An Ack of the path of this number, if it has no holes to tell of.
#[inline(always)]
pub(crate) fn plain_ack(now: Instant, index: u8, path: &Path, share: Share) -> Option<AckRepr> {
    let AckHead { largest, first_len, delay_ns, .. } = path.received.ack_without_holes(now)?;
    let credit_len = share.by(path.is_reliable);
    Some(AckRepr { path: index, largest: largest as u32, first_len, delay_ns, credit_len })
}

/// As many whole messages as may go and fit, of which there is one at least; the length of their payload.
#[inline(always)]
fn write_run(
    writer: &mut Writer<'_>,
    body: &mut Vec<Piece>,
    this: &Row,
    (active, index): (&mut Active, u8),
    outgoing: &mut Slab<Outgoing>,
) -> usize {
    let path = &mut active.paths[usize::from(index)];
    let frame_len = usize::from(path.frame_len);
    let mut body_len = 0;
    let (mut slot, mut credit) = (active.unsent, active.credit);
    while slot != NONE {
        let (serial, send) = outgoing.get_with_serial(slot);
        let Some(cost) = may_go(send, this, credit) else { break };
        let len = send.total as u32;
        let head_len = eager_head_len(send.immediate.is_some());
        if writer.len() + body_len + head_len + len as usize > frame_len {
            break;
        }
        writer.eager(send.eager(), send.immediate);
        if len > 0 {
            body.push(Piece { source: send.source(0), len });
        }
        send.stage = SendStage::Sent;
        path.flight.add(Content::Message { slot, serial, offset: 0, len });
        body_len += len as usize;
        credit.on_sent(cost);
        slot = send.next;
    }
    active.unsent = slot;
    active.credit = credit;
    body_len
}

/// What a message costs of the peer's credit, if it goes in one piece and may go now (`Endpoint::write_message`).
#[inline(always)]
fn may_go(send: &Outgoing, this: &Row, credit: Credit) -> Option<u64> {
    let cost = eager_cost(send.total as u32);
    let is_whole = !send.is_large && send.parts == NONE && send.stage == SendStage::Waiting;
    (is_whole && credit.allows(cost) && send.message < this.held_from).then_some(cost)
}

/// In.
impl Endpoint {
    /// A frame that is one whole small message and the next in order (`Endpoint::on_row_frame`). False if it is not that.
    #[inline(always)]
    pub(crate) fn on_quick(
        &mut self,
        now: Instant,
        link: u8,
        from: &Locator,
        lone: LoneMessage<'_>,
        memory: &mut impl Memory,
    ) -> bool {
        let LoneMessage { header, head, body } = lone;
        let row = row_of_id(header.to);
        let heard = hear(now, &mut self.rows, &mut self.actives, header, link, from);
        let Some((this, path)) = heard else { return false };
        self.counters.frames_in += 1;
        let mut takers = Takers {
            matcher: &mut self.matcher,
            receives: &mut self.receives,
            events: &mut self.events,
        };
        let taken = match self.saboteur.makes(Sabotage::TruncatedCopy) {
            true => Err(Miss::Other),
            false => takers.take(this, head, body, memory),
        };
        let placed_len = match taken {
            Ok(placed_len) => placed_len,
            Err(miss) => {
                if self.on_missed(now, row, miss, head, body, memory) == Verdict::Accepted {
                    self.note_next(now, row, header.path, 1);
                }
                return true;
            }
        };
        self.counters.messages_in += 1;
        self.counters.bytes_placed += placed_len;
        let due = path.on_next(now, 1, &self.settings);
        self.see_to_ack(row, due);
        true
    }

    /// A whole message that was not simply taken (`Endpoint::on_message`).
    #[inline(never)]
    fn on_missed(
        &mut self,
        now: Instant,
        row: u32,
        miss: Miss,
        head: EagerWords,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Verdict {
        match miss {
            Miss::Unexpected => {
                let number = self.rows[row].message_in;
                self.on_unexpected(now, row, number, &head.head(), body, memory)
            }
            Miss::Other => self.on_message(now, row, &head.head(), body, memory),
        }
    }

    /// A frame that is an Ack and one whole small message and the next in order (`Endpoint::on_row_frame`). False if it is
    /// not that.
    #[inline(always)]
    pub(crate) fn on_quick_answer<const N: usize>(
        &mut self,
        now: Instant,
        origin: &Origin,
        (acked, base): (&LoneView<'_, N>, u64),
        memory: &mut impl Memory,
    ) -> bool {
        let LoneMessage { header, head, body } = acked.message(base);
        let row = row_of_id(header.to);
        let (link, from) = (origin.link, &origin.from);
        let heard = hear(now, &mut self.rows, &mut self.actives, header, link, from);
        let Some((this, _)) = heard else { return false };
        let active_slot = this.active;
        self.counters.frames_in += 1;
        if let Some(ack) = acked.ack()
            && !self.on_ack_of_only(now, active_slot, &ack)
        {
            self.on_ack(now, row, &AckView::from(ack));
        }
        let verdict = match self.take_next(row, head, body, memory) {
            Ok(()) => Verdict::Accepted,
            Err(miss) => self.on_missed(now, row, miss, head, body, memory),
        };
        if verdict == Verdict::Accepted {
            self.note_next(now, row, header.path, 1);
        }
        true
    }

    /// An Ack of the only packet in flight, with a message that is over when it is accepted, and nothing else waiting
    /// (`Endpoint::on_ack`). False, and nothing changed, if it is not that.
    #[inline(never)]
    fn on_ack_of_only(&mut self, now: Instant, active_slot: u32, ack: &AckRepr) -> bool {
        let active = &mut **self.actives.get_mut(active_slot).expect("heard of");
        let is_one_of_several = active.paths.len() > 1;
        let Some(path) = active.paths.get_mut(usize::from(ack.path)) else { return false };
        let in_flight = path.flight.bytes_in_flight();
        let last = expand(ack.largest, path.flight.next_packet());
        let Some((first, last)) = ack.range(last) else { return false };
        if active.first != active.last || !path.flight.has_only(first, last) {
            return false;
        }
        let Some(Content::Message { slot, serial, len, .. }) = path.flight.only_content() else {
            return false;
        };
        if slot != active.first || active.unsent != NONE {
            return false;
        }
        let ends = |send: &Outgoing| send.ends_when_accepted(len);
        let Some(send) = self.outgoing.remove_if(slot, serial, ends) else { return false };
        let acked = path.flight.take_only(last);
        self.counters.acks_in += 1;
        (active.first, active.last) = (NONE, NONE);
        active.credit.on_settled(eager_cost(len));
        active.credit.on_told(ack.credit_len);
        send.tell_end(send_req(slot, serial), Ok(()), &mut self.copied, &mut self.events);
        path.on_acked(now, &acked, ack.delay_ns, in_flight);
        let is_asked = is_one_of_several
            && !path.is_reliable
            && active.on_measured(now, usize::from(ack.path));
        if is_asked || active.has_content() || !active.granted.is_empty() {
            self.rows.make_ready(send.row); // what waited for window or credit
        }
        true
    }

    /// A plain frame that is the next in order (`Endpoint::on_row_frame`). False if it is not that, or damaged.
    #[inline(always)]
    pub(crate) fn on_plain(
        &mut self,
        now: Instant,
        origin: &Origin,
        plain: &PlainView<'_>,
        memory: &mut impl Memory,
    ) -> bool {
        let PlainView { header, crc, ack, .. } = *plain;
        let row = row_of_id(header.to);
        if crc.is_some_and(|crc| memory.crc32c(0, plain.body) != crc) {
            return false;
        }
        let (link, from) = (origin.link, &origin.from);
        if hear(now, &mut self.rows, &mut self.actives, header, link, from).is_none() {
            return false;
        }
        self.counters.frames_in += 1;
        if let Some(ack) = &ack {
            self.on_ack(now, row, ack);
        }
        if plain.is_ack_only() {
            let path = &mut self.actives[self.rows[row].active].paths[usize::from(header.path)];
            path.received.record_next(now); // nobody waits for its acknowledgement
            return true;
        }
        let mut all = Verdict::Accepted;
        let mut message_count = 0;
        for (head, body) in plain.messages() {
            message_count += 1;
            if let Err(miss) = self.take_next(row, head, body, memory)
                && self.on_missed(now, row, miss, head, body, memory) == Verdict::Refused
            {
                all = Verdict::Refused;
            }
        }
        if all == Verdict::Accepted {
            self.note_next(now, row, header.path, message_count);
        }
        true
    }

    /// One of several messages in a frame, if it is as simple as can be. Apart, for the registers it needs.
    #[inline(never)]
    fn take_next(
        &mut self,
        row: u32,
        head: EagerWords,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Result<(), Miss> {
        if self.saboteur.makes(Sabotage::TruncatedCopy) {
            return Err(Miss::Other);
        }
        let mut takers = Takers {
            matcher: &mut self.matcher,
            receives: &mut self.receives,
            events: &mut self.events,
        };
        let placed_len = takers.take(&mut self.rows[row], head, body, memory)?;
        self.counters.messages_in += 1;
        self.counters.bytes_placed += placed_len;
        Ok(())
    }

    /// Counts the packet that was expected as received (`Endpoint::note_received`).
    #[inline]
    fn note_next(&mut self, now: Instant, row: u32, path: u8, message_count: u64) {
        let path = &mut self.actives[self.rows[row].active].paths[usize::from(path)];
        let due = path.on_next(now, message_count, &self.settings);
        self.see_to_ack(row, due);
    }
}

/// The row a frame is for and the path it came over, if the row is joined and awake and the frame is the next of that path.
/// Then the peer was heard.
#[inline(always)]
pub(crate) fn hear<'a>(
    now: Instant,
    rows: &'a mut Rows,
    actives: &'a mut Slab<Box<Active>>,
    header: Header,
    link: u8,
    from: &Locator,
) -> Option<(&'a mut Row, &'a mut Path)> {
    let this = rows.get_any_mut(row_of_id(header.to))?;
    // A row keeps no version that we do not speak.
    if this.local_id != header.to || this.phase != Phase::Joined || this.version != header.form {
        return None;
    }
    let active = &mut **actives.get_mut(this.active)?;
    let path = active.paths.get_mut(usize::from(header.path))?;
    // The whole number: the check was verified with this high half, which may not be the next packet's. An unnumbered frame's
    // is 0, which is never next.
    if header.packet != path.received.largest() + 1
        || path.source != *from
        || path.source_link != link
    {
        return None;
    }
    this.heard_at = now;
    active.welcome = false; // the peer has joined
    Some((this, path))
}

/// Why a message was not handed to a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// It is its turn, and no receive that is posted takes it.
    Unexpected,
    /// There is more to it.
    Other,
}

/// What it takes to hand a message to its receive.
pub(crate) struct Takers<'a> {
    pub(crate) matcher: &'a mut Matcher,
    pub(crate) receives: &'a mut Slab<Receive>,
    pub(crate) events: &'a mut Ring<Event>,
}

impl Takers<'_> {
    /// A whole message whose turn it is goes to a receive that is posted and waits for just one (`Endpoint::on_message`,
    /// `take_entry`). How many bytes were placed; nothing changed if it does not.
    #[inline(always)]
    fn take(
        &mut self,
        this: &mut Row,
        head: EagerWords,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Result<u64, Miss> {
        if head.wants_match() {
            return Err(Miss::Other);
        }
        let token = self.receive_for(this, head.message(), (head.space(), head.tag()))?;
        let (key, receive) = self.receives.remove_keyed(token);
        let placed_len = receive.len.min(body.len() as u64);
        memory.place(Place { buf: receive.buf, offset: 0 }, &body[..placed_len as usize]);
        let envelope = Envelope {
            source: this.peer,
            space: head.space(),
            tag: head.tag(),
            immediate: head.immediate(),
            len: body.len() as u64,
        };
        self.tell(this, (ReqId(key), &receive), envelope, placed_len);
        Ok(placed_len)
    }

    /// The receive that takes the message with this number, if that is whole and its turn is now. It is not posted any more.
    #[inline(always)]
    pub(crate) fn receive_for(
        &mut self,
        this: &Row,
        message: u32,
        (space, tag): (Space, Tag),
    ) -> Result<u32, Miss> {
        if this.message_in as u32 != message
            || this.message_in >= this.refused_from
            || this.arrival_count != 0
        {
            return Err(Miss::Other);
        }
        if space == Space::STREAMS {
            return Err(Miss::Unexpected); // nobody posts receives there
        }
        match self.matcher.first_for(space, tag, this.peer) {
            Some(token) if self.receives[token].is_simple => {
                self.matcher.unlink_first();
                Ok(token)
            }
            _ => find(self.matcher, self.receives, (space, tag), this.peer),
        }
    }

    /// The message whose turn it is lies in the memory of its receive, which is over.
    #[inline(always)]
    pub(crate) fn tell(
        &mut self,
        this: &mut Row,
        (req, receive): (ReqId, &Receive),
        envelope: Envelope,
        placed_len: u64,
    ) {
        let (user, result) = (receive.user, Ok(()));
        self.events.push_back(Event::Received {
            req,
            user,
            envelope,
            offset: 0,
            placed_len,
            result,
        });
        this.message_in += 1;
        if receive.source.is_some() {
            this.directed_count -= 1;
        }
    }
}

/// The receive for a message, if it is not the first posted.
#[inline(never)]
fn find(
    matcher: &mut Matcher,
    receives: &Slab<Receive>,
    (space, tag): (Space, Tag),
    source: PeerId,
) -> Result<u32, Miss> {
    let found = matcher.find(space, tag, source);
    let (entry, token) = found.ok_or(Miss::Unexpected)?;
    if !receives[token].is_simple {
        return Err(Miss::Other);
    }
    matcher.unlink_found(entry);
    Ok(token)
}

impl Endpoint {
    /// The peer says what it received.
    #[inline]
    pub(crate) fn on_ack(&mut self, now: Instant, row: u32, ack: &AckView<'_>) {
        if !self.may_be_quick() {
            return self.on_other_ack(now, row, ack);
        }
        let active_slot = self.rows[row].active;
        let active = &mut **self.actives.get_mut(active_slot).expect("heard of");
        let path_index = usize::from(ack.path());
        let Some(path) = active.paths.get_mut(path_index) else {
            return self.on_other_ack(now, row, ack);
        };
        let in_flight_before = path.flight.bytes_in_flight();
        let last = expand(ack.largest(), path.flight.next_packet());
        let settled = match ack.repr().range(last) {
            Some((first, last)) if ack.has_no_holes() => path.flight.on_ack_of_front(first, last),
            _ => None,
        };
        let Some((acked, run)) = settled else {
            return self.on_other_ack(now, row, ack);
        };
        self.counters.acks_in += 1;
        active.credit.on_told(ack.credit_len());
        if acked.count == 0 {
            return; // told before
        }
        self.end_run(active_slot, path_index, run);
        if !self.accepted.is_empty() {
            self.on_contents_acked(now, row, path_index);
        }
        self.after_ack(now, row, path_index, &acked, ack.delay_ns(), in_flight_before);
    }

    /// What a run of acknowledged packets carried was accepted.
    #[inline(never)]
    fn end_run(&mut self, active_slot: u32, path_index: usize, run: Run) {
        let active = &mut **self.actives.get_mut(active_slot).expect("heard of");
        let flight = &active.paths[path_index].flight;
        let mut accepted = Accepted {
            outgoing: &mut self.outgoing,
            events: &mut self.events,
            copied: &mut self.copied,
            line: Line {
                first: &mut active.first,
                last: &mut active.last,
                unsent: &mut active.unsent,
            },
            credit: &mut active.credit,
            others: &mut self.accepted,
        };
        let mut at = run.start;
        while at != run.end {
            let (mut content, mut more_at, mut more_count) = flight.content(at);
            loop {
                if !accepted.end_simple(content) {
                    accepted.keep(content);
                }
                if more_count == 0 {
                    break;
                }
                content = flight.more(more_at);
                more_at = more_at.wrapping_add(1);
                more_count -= 1;
            }
            at = at.wrapping_add(1);
        }
    }

    /// An Ack with holes, or one that tells nothing new.
    #[inline(never)]
    fn on_other_ack(&mut self, now: Instant, row: u32, ack: &AckView<'_>) {
        self.counters.acks_in += 1;
        let active = &mut **self.actives.get_mut(self.rows[row].active).expect("heard of");
        let path_index = usize::from(ack.path());
        let Some(path) = active.paths.get_mut(path_index) else { return };
        let in_flight_before = path.flight.bytes_in_flight();
        let largest = expand(ack.largest(), path.flight.next_packet());
        let accepted = &mut self.accepted;
        let result = path.flight.on_ack(ack.ranges(largest), &mut |content| accepted.push(content));
        active.credit.on_told(ack.credit_len());
        self.on_contents_acked(now, row, path_index);
        match result {
            Ok(acked) if acked.count > 0 => {
                self.after_ack(now, row, path_index, &acked, ack.delay_ns(), in_flight_before);
            }
            Ok(_) => {}
            Err(_) => self.counters.frames_malformed += 1,
        }
    }
}

/// Who hears what an Ack accepted.
struct Accepted<'a> {
    outgoing: &'a mut Slab<Outgoing>,
    events: &'a mut Ring<Event>,
    copied: &'a mut BytePool,
    line: Line<'a>,
    credit: &'a mut Credit,
    /// What there is more to, and all behind it, so that the order stays.
    others: &'a mut Vec<Content>,
}

impl Accepted<'_> {
    /// For later, unless it is nothing.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, content: &Content) {
        if !matches!(content, Content::Void) {
            self.others.push(*content);
        }
    }

    /// A message that went in one piece and is over when it is accepted was accepted (`Endpoint::end_send`).
    #[inline(always)]
    fn end_simple(&mut self, content: &Content) -> bool {
        let Content::Message { slot, serial, len, .. } = *content else { return false };
        if !self.others.is_empty() {
            return false;
        }
        let ends = |send: &Outgoing| send.ends_when_accepted(len);
        let Some(send) = self.outgoing.remove_if(slot, serial, ends) else { return false };
        self.credit.on_settled(eager_cost(len));
        self.line.unlink(slot, &send, self.outgoing);
        send.tell_end(send_req(slot, serial), Ok(()), self.copied, self.events);
        true
    }
}

impl Active {
    /// The path is open, and nothing waits but messages and perhaps an acknowledgement.
    #[inline(always)]
    fn is_plain(&self, index: usize) -> bool {
        let path = &self.paths[index];
        self.unsent != NONE && self.is_only_messages() && !path.wants_ping() && path.has_window()
    }

    /// The only path, or the main one if no other wants anything; and neither wants it itself.
    #[inline]
    fn quick_path(&self, now: Instant) -> Option<u8> {
        let index = if self.paths.len() == 1 { 0 } else { self.undisturbed_path(now)? };
        (!self.paths[usize::from(index)].wants_ping()).then_some(index)
    }

    /// The main path, if no other wants anything.
    #[inline(never)]
    pub(crate) fn undisturbed_path(&self, now: Instant) -> Option<u8> {
        let main = usize::from(self.main);
        let is_calm = |path: &Path| {
            !path.ack_at_once
                && !path.probe_now
                && path.challenge_deadline() > now
                && (!path.is_usable() || path.frame_probe_due(now).is_none())
        };
        let mut others = self.paths.iter().enumerate().filter(|&(index, _)| index != main);
        others.all(|(_, path)| is_calm(path)).then_some(self.main)
    }

    /// Nothing waits but messages and acknowledgements.
    #[inline]
    pub(crate) fn is_only_messages(&self) -> bool {
        self.control.is_empty() && self.resend.is_empty() && !(self.welcome || self.ping)
    }
}

#[cfg(test)]
mod tests;
