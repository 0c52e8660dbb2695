//! A message of some frames that arrived together is taken in one go.
//!
//! PROTOCOL §10.5. All its frames are checked in one pass, and then it is what a message of one frame is to `quick`: its receive is found, its
//! bytes are placed, its packets are noted. Nothing is kept of it on the way, for nothing of it is missing. Whoever says no has changed
//! nothing, and the frames are looked at one by one.

use crate::base::sabotage::Sabotage;
use crate::base::types::{Instant, Locator, Memory, Space};
use crate::bulk::arrival::Stage;
use crate::endpoint::Endpoint;
use crate::messages::take::Miss;
use crate::peers::rows::row_of_id;
use crate::wire::{self, AckView, FragmentsRepr, TrainRepr};

/// The receive or stream that a message goes to.
enum Taker {
    /// A receive that was posted.
    Receive(u32),
    /// Whoever posts one: it lies in its arrival.
    Later,
    /// A stream, of which it is a chunk.
    Stream,
}

impl Endpoint {
    /// Frames that arrived together, as for `on_fragments`: if they are all of a message whose turn it is, how many they are; else none.
    pub(crate) fn on_whole_message(
        &mut self,
        now: Instant,
        link: u8,
        from: &Locator,
        frames: &[u8],
        stride: usize,
        memory: &mut impl Memory,
    ) -> usize {
        let Some(train) = self.expect_whole(link, from, frames, stride) else { return 0 };
        let count = train.count;
        let peers = &self.peers();
        let is_right = count == wire::agreeing_fragments(frames, &train, &peers.own_seal());
        let row = row_of_id(train.header.to);
        let bodies = Bodies { frames, stride, train: &train };
        let Some(taker) = is_right.then(|| self.taker_of(row, &bodies)).flatten() else { return 0 };
        self.peers_mut().hear(now, train.header, link, from);
        self.peers_mut().counters.frames_in += count as u64;
        self.peers_mut().counters.frames_together += count as u64;
        if let Some(ack) = train.ack {
            self.on_ack(now, row, &AckView::from(ack));
        }
        match taker {
            Taker::Receive(token) => {
                self.peers_mut().counters.messages_in += 1;
                self.messages.place_pieces((row, token), &train.head, bodies.iter(), memory);
            }
            Taker::Later => {
                self.peers_mut().counters.messages_unexpected += 1;
                self.messages.count_turn(row);
            }
            Taker::Stream => {
                if !self.streams.on_whole_chunk(
                    &mut self.messages,
                    now,
                    row,
                    &train.head,
                    bodies.iter(),
                    memory,
                ) {
                    return count; // not noted, so not acknowledged: it will come again
                }
                self.after_chunk(now, row, memory);
            }
        }
        self.peers_mut().note_fragments(now, row, &train.header, count as u64);
        count
    }

    /// What these frames are if they are a message that may be next, not verified; its packet number is whole.
    fn expect_whole(
        &self,
        link: u8,
        from: &Locator,
        frames: &[u8],
        stride: usize,
    ) -> Option<FragmentsRepr> {
        let mut train = wire::whole_message(frames, stride)?;
        let (header, head) = (&mut train.header, &train.head);
        let (this, path, packet) = self.peers().path_of(header, link, from)?;
        header.packet = packet;
        let is_next = packet == path.received().largest() + 1
            && train.count as u64 <= TrainRepr::count_to_wrap(packet)
            && this.numbers.is_next(head.message);
        let may_be = is_next
            && !head.wants_match // who waits for it is told: there is more to that
            && self.peers().may_be_quick()
            && !self.peers().saboteur.makes(Sabotage::TruncatedCopy);
        may_be.then_some(train)
    }

    /// The receive for a message that is what it says, or a place for it until there is one. `None` if there is more to it.
    fn taker_of(&mut self, row: u32, bodies: &Bodies<'_>) -> Option<Taker> {
        let head = &bodies.train.head;
        match self.messages.receive_for(row, head) {
            Ok(token) => Some(Taker::Receive(token)),
            Err(Miss::Unexpected) if head.space == Space::STREAMS => {
                self.bulk().held.has_room_for(head.total as usize).then_some(Taker::Stream)
            }
            Err(Miss::Unexpected) if self.bulk().held.has_envelope() => {
                let slot =
                    self.bulk_mut().hold_whole(row, head, bodies.iter(), Stage::Unexpected)?;
                self.messages.list_unexpected(slot);
                Some(Taker::Later)
            }
            Err(_) => None,
        }
    }
}

/// The payload of frames that are all of a message.
struct Bodies<'a> {
    frames: &'a [u8],
    stride: usize,
    train: &'a FragmentsRepr,
}

impl<'a> Bodies<'a> {
    fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let (train, mut left) = (self.train, self.train.count);
        self.frames.chunks(self.stride).map(move |frame| {
            left -= 1;
            let is_last = left == 0;
            &frame[if is_last { train.last_head_len() } else { train.frame_head_len() }..]
        })
    }
}
