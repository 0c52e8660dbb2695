//! A message that is as simple as can be goes to a receive that is as simple as can be.

use crate::base::sabotage::Sabotage;
use crate::bulk::receives::{Receive, Receives};
use crate::matching::Matcher;
use crate::messages::Messages;
use crate::peers::actives::hear;
use crate::peers::events::Events;
use crate::peers::rows::{Row, row_of_id};
use crate::wire::{EagerWords, LoneMessage, MessageHead};
use crate::{BufId, Envelope, Event, Instant, Locator, Memory, PeerId, Place, ReqId, Space, Tag};

/// Why a message was not handed to a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// It is the message's turn, and no receive that is posted takes it.
    Unexpected,
    /// There is more to it.
    Other,
}

/// A message that lies in the memory of its receive, which is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The receive.
    pub req: ReqId,
    /// What its poster calls it.
    pub user: u64,
    /// The message.
    pub envelope: Envelope,
    /// Bytes that were placed; less than the message has if the memory was too short.
    pub placed_len: u64,
}

impl From<Received> for Event {
    #[inline(always)]
    fn from(it: Received) -> Self {
        let Received { req, user, envelope, placed_len } = it;
        Self::Received { req, user, envelope, offset: 0, placed_len, result: Ok(()) }
    }
}

/// What it takes to hand a message to its receive.
struct Takers<'a> {
    matcher: &'a mut Matcher,
    receives: &'a mut Receives,
    events: &'a mut Events,
}

/// The ways that common frames take.
impl Messages {
    /// A frame with one whole small message that is the next of its path: its peer was heard, and the message goes to its receive. `None`, and nothing
    /// changed: it is not that. A message that was missed is not acknowledged yet.
    #[inline(always)]
    pub(crate) fn hear_lone(
        &mut self,
        now: Instant,
        (link, from): (u8, &Locator),
        lone: LoneMessage<'_>,
        memory: &mut impl Memory,
    ) -> Option<Result<(), Miss>> {
        let LoneMessage { header, head, body } = lone;
        let peers = &mut self.bulk.peers;
        let (this, path) = hear(now, &mut peers.rows, &mut peers.actives, header, link, from)?;
        peers.counters.frames_in += 1;
        let mut takers = Takers {
            matcher: &mut self.matcher,
            receives: &mut self.bulk.receives,
            events: &mut peers.events,
        };
        let taken = match peers.saboteur.makes(Sabotage::TruncatedCopy) {
            true => Err(Miss::Other),
            false => takers.take(this, head, body, memory),
        };
        let placed_len = match taken {
            Ok(placed_len) => placed_len,
            Err(miss) => return Some(Err(miss)),
        };
        peers.counters.messages_in += 1;
        peers.counters.bytes_placed += placed_len;
        let due = path.on_next(now, 1, &peers.settings);
        peers.see_to_ack(row_of_id(header.to), due);
        Some(Ok(()))
    }

    /// One of several messages in a frame, if it is as simple as can be. Apart, for the registers it needs.
    #[inline(never)]
    pub(crate) fn take_next(
        &mut self,
        row: u32,
        head: EagerWords,
        body: &[u8],
        memory: &mut impl Memory,
    ) -> Result<(), Miss> {
        if self.bulk.peers.saboteur.makes(Sabotage::TruncatedCopy) {
            return Err(Miss::Other);
        }
        let (mut takers, this) = self.takers(row);
        let placed_len = takers.take(this, head, body, memory)?;
        self.bulk.peers.counters.messages_in += 1;
        self.bulk.peers.counters.bytes_placed += placed_len;
        Ok(())
    }

    /// A message of so many bytes that was given to a link goes to its receive; its payload is still to be placed there.
    #[inline(always)]
    pub(crate) fn take_untold(
        &mut self,
        row: u32,
        head: EagerWords,
        len: usize,
    ) -> Result<(Received, BufId), Miss> {
        let (mut takers, this) = self.takers(row);
        takers.take_untold(this, head, len)
    }

    /// An announced message goes to its receive; all of it that has room there lies there already.
    #[inline]
    pub(crate) fn take_announced(
        &mut self,
        row: u32,
        message: u32,
        envelope: Envelope,
    ) -> Result<Received, Miss> {
        let (mut takers, this) = self.takers(row);
        takers.take_announced(this, message, (envelope.space, envelope.tag), envelope)
    }

    /// The receive that takes the message with this number, if that is whole and its turn is now. It is not posted any more.
    pub(crate) fn receive_for(&mut self, row: u32, head: &MessageHead) -> Result<u32, Miss> {
        let (mut takers, this) = self.takers(row);
        takers.receive_for(this, head.message, (head.space, head.tag))
    }

    /// That receive takes a message that lies in pieces.
    pub(crate) fn place_pieces<'a>(
        &mut self,
        (row, token): (u32, u32),
        head: &MessageHead,
        bodies: impl Iterator<Item = &'a [u8]>,
        memory: &mut impl Memory,
    ) {
        let (req, receive) = self.bulk.receives.take(token);
        let placed_len = receive.len.min(head.total);
        let mut offset = 0;
        for body in bodies {
            let len = (placed_len - offset).min(body.len() as u64);
            if len == 0 {
                break; // the receive is shorter than the message
            }
            memory.place(Place { buf: receive.buf, offset }, &body[..len as usize]);
            offset += len;
        }
        let (mut takers, this) = self.takers(row);
        let envelope = Envelope {
            source: this.peer(),
            space: head.space,
            tag: head.tag,
            immediate: head.immediate,
            len: head.total,
        };
        takers.tell(this, (req, &receive), envelope, placed_len);
        self.bulk.peers.counters.bytes_placed += placed_len;
    }

    /// The receive that would take such a message, if it is the first that was posted of all that might. Nothing is changed.
    #[inline]
    pub(crate) fn first_for(&mut self, space: Space, tag: Tag, source: PeerId) -> Option<&Receive> {
        let token = self.matcher.first_for(space, tag, source)?;
        Some(&self.bulk.receives[token])
    }

    /// The receive that would take such a message. Nothing is changed.
    #[inline]
    pub(crate) fn foresee(&mut self, space: Space, tag: Tag, source: PeerId) -> Option<&Receive> {
        let (_, token) = self.matcher.find(space, tag, source)?;
        Some(&self.bulk.receives[token])
    }

    /// What it takes for a message of this row.
    #[inline(always)]
    fn takers(&mut self, row: u32) -> (Takers<'_>, &mut Row) {
        let Self { matcher, bulk, .. } = self;
        let takers =
            Takers { matcher, receives: &mut bulk.receives, events: &mut bulk.peers.events };
        (takers, &mut bulk.peers.rows[row])
    }
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
        let (received, buf) = self.take_untold(this, head, body.len())?;
        memory.place(Place { buf, offset: 0 }, &body[..received.placed_len as usize]);
        self.events.tell(received.into());
        Ok(received.placed_len)
    }

    /// Hands a message of so many bytes to its receive, for a caller that tells of it in another way than by an event. Its payload is
    /// still to be placed in that memory, as much as is said to be.
    #[inline(always)]
    fn take_untold(
        &mut self,
        this: &mut Row,
        head: EagerWords,
        len: usize,
    ) -> Result<(Received, BufId), Miss> {
        if head.wants_match() {
            return Err(Miss::Other);
        }
        let token = self.receive_for(this, head.message(), (head.space(), head.tag()))?;
        let (req, receive) = self.receives.take(token);
        let placed_len = receive.len.min(len as u64);
        let envelope = Envelope {
            source: this.peer(),
            space: head.space(),
            tag: head.tag(),
            immediate: head.immediate(),
            len: len as u64,
        };
        Ok((end(this, (req, &receive), envelope, placed_len), receive.buf))
    }

    /// Hands an announced message to its receive; all of it that has room there lies there already.
    #[inline]
    fn take_announced(
        &mut self,
        this: &mut Row,
        message: u32,
        wanted: (Space, Tag),
        envelope: Envelope,
    ) -> Result<Received, Miss> {
        let token = self.receive_for(this, message, wanted)?;
        let (req, receive) = self.receives.take(token);
        let placed_len = receive.len.min(envelope.len);
        Ok(end(this, (req, &receive), envelope, placed_len))
    }

    /// The receive that takes the message with this number, if that is whole and its turn is now. It is not posted any more.
    #[inline(always)]
    fn receive_for(
        &mut self,
        this: &Row,
        message: u32,
        (space, tag): (Space, Tag),
    ) -> Result<u32, Miss> {
        if !this.is_next(message) {
            return Err(Miss::Other);
        }
        if space == Space::STREAMS {
            return Err(Miss::Unexpected); // nobody posts receives there
        }
        match self.matcher.first_for(space, tag, this.peer()) {
            Some(token) if self.receives[token].is_simple => {
                self.matcher.unlink_first();
                Ok(token)
            }
            _ => find(self.matcher, self.receives, (space, tag), this.peer()),
        }
    }

    /// The message whose turn it is lies in the memory of its receive, which is over.
    #[inline(always)]
    fn tell(
        &mut self,
        this: &mut Row,
        receive: (ReqId, &Receive),
        envelope: Envelope,
        placed_len: u64,
    ) {
        self.events.tell(end(this, receive, envelope, placed_len).into());
    }
}

/// The next message is expected, and the receive is over.
#[inline(always)]
fn end(
    this: &mut Row,
    (req, receive): (ReqId, &Receive),
    envelope: Envelope,
    placed_len: u64,
) -> Received {
    this.numbers.pass_turn();
    if receive.source.is_some() {
        this.ties.on_directed_over();
    }
    Received { req, user: receive.user, envelope, placed_len }
}

/// The receive for a message, if it is not the first posted.
#[inline(never)]
fn find(
    matcher: &mut Matcher,
    receives: &Receives,
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
