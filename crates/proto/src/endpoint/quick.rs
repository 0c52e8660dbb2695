//! The common frames, in: whole small messages between peers who know each other, and their acknowledgements, with nothing
//! else waiting. How they leave is in `quick_out`.
//!
//! These functions do what `output` and `input` would do, without asking for all that could be but is not: what must not
//! be so is asked first, in one place, and whoever says no has changed nothing. A row, its active record and its path
//! are looked up once, and everything is done on the borrowed parts. That is why they are apart: one can hold them
//! against the general rules, which stand in the module named at each step.

use alloc::boxed::Box;

use crate::base::api::{Envelope, Event};
use crate::base::ring::Ring;
use crate::base::sabotage::Sabotage;
use crate::base::slab::{NONE, Slab};
use crate::base::types::{Instant, Locator, Memory, PeerId, Place, ReqId, Space, Tag};
use crate::bulk::arrival::{Receive, Verdict};
use crate::bulk::outgoing::{Outgoing, send_req};
use crate::delivery::ack::expand;
use crate::delivery::content::Content;
use crate::delivery::path::Path;
use crate::endpoint::Endpoint;
use crate::endpoint::input::Origin;
use crate::matching::Matcher;
use crate::messages::turns::eager_cost;
use crate::peers::rows::{Active, Phase, Row, Rows, row_of_id};
use crate::wire::{AckRepr, AckView, EagerWords, Header, LoneMessage, LoneView, PlainView};

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
    pub(crate) fn on_missed(
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
        send.tell_end(send_req(slot, serial), Ok(send.total), &mut self.copied, &mut self.events);
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
    pub(crate) fn take(
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

#[cfg(test)]
mod tests;
