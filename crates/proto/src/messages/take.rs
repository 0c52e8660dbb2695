//! A message that is as simple as can be goes to a receive that is as simple as can be.

use crate::base::ring::Ring;
use crate::bulk::receives::{Receive, Receives};
use crate::matching::Matcher;
use crate::peers::rows::Row;
use crate::wire::EagerWords;
use crate::{BufId, Envelope, Event, Memory, PeerId, Place, ReqId, Space, Tag};

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
pub(crate) struct Takers<'a> {
    pub(crate) matcher: &'a mut Matcher,
    pub(crate) receives: &'a mut Receives,
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
        let (received, buf) = self.take_untold(this, head, body.len())?;
        memory.place(Place { buf, offset: 0 }, &body[..received.placed_len as usize]);
        self.events.push_back(received.into());
        Ok(received.placed_len)
    }

    /// Hands a message of so many bytes to its receive, for a caller that tells of it in another way than by an event. Its payload is
    /// still to be placed in that memory, as much as is said to be.
    #[inline(always)]
    pub(crate) fn take_untold(
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
            source: this.peer,
            space: head.space(),
            tag: head.tag(),
            immediate: head.immediate(),
            len: len as u64,
        };
        Ok((end(this, (req, &receive), envelope, placed_len), receive.buf))
    }

    /// Hands an announced message to its receive; all of it that has room there lies there already.
    #[inline]
    pub(crate) fn take_announced(
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
    pub(crate) fn receive_for(
        &mut self,
        this: &Row,
        message: u32,
        (space, tag): (Space, Tag),
    ) -> Result<u32, Miss> {
        if this.numbers.next_in as u32 != message
            || this.numbers.next_in >= this.numbers.refused_from
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
        receive: (ReqId, &Receive),
        envelope: Envelope,
        placed_len: u64,
    ) {
        self.events.push_back(end(this, receive, envelope, placed_len).into());
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
    this.numbers.next_in += 1;
    if receive.source.is_some() {
        this.directed_count -= 1;
    }
    Received { req, user: receive.user, envelope, placed_len }
}

/// The receive for a message, if it is not the first posted.
#[inline(never)]
pub(crate) fn find(
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
