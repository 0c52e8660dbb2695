//! Messages, short or long, from a link in memory to their receives, without a turn.
//!
//! A turn costs several times what such a message does: it asks all links, lets timers fire, looks for what is to be sent. Where a message
//! was given to its link (PROTOCOL §7.10) it has none of that to do, not even an acknowledgement, and whoever waits for the message wants
//! it now. So a look tries this first:
//!
//! ```text
//!   turn ──▶ quick: nothing … quick: a message … quick: a message, and those behind it ──▶ turn
//!                                                   │ so many came in a row, a turn was long ago, a frame was none of these and has others behind it,
//!                                                   │ somebody sleeps on the links, or frames are kept for who may do more
//! ```
//!
//! What else a turn would have done is put off by that, for a fraction of a millisecond at most.

use packhorse_link::mem::UserMemory;
use packhorse_link::{Front, Link, SHORT_LEN_MAX};
use packhorse_proto::{BufId, Ended, Foreseen, Instant, Locator, Received, Taken, Told, wire};

use super::Core;
use super::fetch::PIECE_LEN_MAX;
use super::send::is_taken_now;
use crate::costly;
use crate::lent::lent;
use crate::translate::memory_of;

/// So many in a row, then a turn.
const COUNT_MAX: u32 = 16;
/// A turn is due after so long, behind one message at most: that late timers may be, and what comes by other links.
const TURN_NS_MAX: u64 = 200_000;

/// A thread that comes back from a computation looks at memory alone for so long, if all that came of late came by memory. For after so long an absence a
/// turn asks all links, and that takes longer than a message.
const GRACE_NS: u64 = 3_000;

/// Whether such a look may be made, and what it needs for that.
pub(super) struct Quick {
    /// The link in memory, if there is one.
    link: Option<usize>,
    /// What comes by any other link takes a system call to ask, so that `costly` knows of it.
    knows_of_others: bool,
    /// So many messages may be had so before the next turn.
    left_count: u32,
    /// Another frame stands behind the one that was looked at last.
    has_more: bool,
    /// When somebody came back from a computation, since the last turn; `None`: nobody did. Never: nobody may look at memory alone any more.
    back_at: Option<Instant>,
    frame: [u8; SHORT_LEN_MAX],
}

/// What such a look found.
#[derive(Debug)]
#[must_use]
pub enum QuickLook {
    /// Nothing, or nothing that is simple: ask in the usual way.
    Nothing,
    /// A message, which lies in the memory of its receive. There is no event of it.
    Received(Received),
    /// The end of a send, whose message its receiver has read. There is no event of it.
    Ended(Ended),
    /// A chunk of a stream, which may be ready now. There may be something to send, for the next turn.
    Chunk,
    /// A frame for which a turn was made: so much was done.
    Turned(usize),
}

impl Quick {
    pub(super) fn new<L: Link<M>, M: UserMemory>(links: &[L]) -> Self {
        let link = links.iter().position(|link| link.about().is_private);
        let is_known = |link: &L| link.about().is_private || link.is_costly_to_ask();
        Self {
            link,
            knows_of_others: links.iter().all(is_known),
            left_count: 0,
            has_more: false,
            back_at: Some(Instant(0)),
            frame: [0; SHORT_LEN_MAX],
        }
    }

    /// A turn was made by somebody who may do everything.
    #[inline]
    pub(super) fn begin(&mut self) {
        (self.left_count, self.back_at) = (COUNT_MAX, None);
    }

    /// A turn is due first.
    #[inline]
    pub(super) fn end(&mut self) {
        (self.left_count, self.back_at) = (0, Some(Instant(0)));
    }

    /// Whether somebody who comes back from a computation may still look at memory alone.
    #[inline]
    fn has_grace(&mut self, now: Instant) -> bool {
        self.link.is_some() && now.since_ns(*self.back_at.get_or_insert(now)) < GRACE_NS
    }
}

impl<L: Link<M>, M: UserMemory> Core<L, M> {
    /// Takes one short message without a turn, if there is one and nothing forbids it.
    #[inline]
    pub fn look_quickly(&mut self, now: Instant) -> QuickLook {
        let Some(link) = self.quick.link else { return QuickLook::Nothing };
        if self.quick.left_count == 0 && !self.may_look_at_memory_alone(now) {
            return QuickLook::Nothing;
        }
        let Some(ring) = self.links[link].in_memory() else { return QuickLook::Nothing };
        let Some(front) = ring.look(&mut self.quick.frame) else { return QuickLook::Nothing };
        let Front { from, len, has_more, is_whole } = front;
        let followed = if is_whole { None } else { Some(self.follow(link, &Locator(from), len)) };
        if followed == Some(None) {
            return QuickLook::Nothing;
        }
        self.quick.has_more = has_more;
        self.count_down(now);
        let (from, shown) = (Locator(from), &self.quick.frame[..len.min(SHORT_LEN_MAX)]);
        let copied = &mut self.counters.bytes_copied_in;
        let mut lent = lent(&mut self.memory, copied, self.loans.as_mut());
        match self.endpoint.take_given(now, link as u8, &from, (shown, len), &mut lent) {
            Taken::Received(received) => {
                self.costly.on_others(now);
                QuickLook::Received(received)
            }
            Taken::Begun(received, buf, skip) => {
                let is_there = followed == Some(Some(buf));
                let missing_len = if is_there { 0 } else { received.placed_len as usize };
                self.take_rest(now, link, buf, skip, missing_len);
                self.counters.bytes_copied_in += received.placed_len;
                QuickLook::Received(received)
            }
            Taken::Told(told) => self.take_told(now, link, &from, &told, len),
            Taken::Ended(ended) => {
                self.costly.on_others(now);
                QuickLook::Ended(ended)
            }
            Taken::Chunk => {
                self.costly.on_others(now);
                QuickLook::Chunk
            }
            Taken::Otherwise => self.turn_behind_short(now, link, &from, None),
            Taken::No if len > SHORT_LEN_MAX => {
                self.quick.end();
                QuickLook::Nothing // it is in the ring still, for the turn
            }
            Taken::No => self.turn_behind_short(now, link, &from, Some(len)),
        }
    }

    /// Reads an announced message to its place, and tells its sender so. What is long, or cannot be read, is for the turn.
    #[inline(never)]
    fn take_told(
        &mut self,
        now: Instant,
        link: usize,
        from: &Locator,
        told: &Told,
        frame_len: usize,
    ) -> QuickLook {
        let is_short = told.len <= PIECE_LEN_MAX;
        if !is_short || !self.read_told(link, from, &told.whereabouts, (0, told.place(), told.len))
        {
            return self.turn_behind_short(now, link, from, Some(frame_len));
        }
        // Up to a megabyte was read, with the lock held: what stands behind it is for the next look, which begins with a new time.
        self.quick.has_more = false;
        let received = self.endpoint.on_told_read(told);
        let mut head = [0; wire::NOTE_HEAD_LEN_MAX];
        let done = self.endpoint.prepare_done(now, told, &mut head).filter(|done| {
            let ring = self.links[usize::from(done.link)].in_memory();
            ring.is_some_and(|ring| ring.put(&done.to.0, &head[..done.head_len], &[]))
        });
        match done {
            Some(done) => self.endpoint.on_note_given(&done),
            None => {
                self.endpoint.on_done_kept(told);
                self.transmit(now);
            }
        }
        self.costly.on_others(now);
        QuickLook::Received(received)
    }

    /// Gives the word that a large message was taken to its link, if there is nothing else to say to its sender.
    #[inline]
    pub(super) fn give_end(&mut self, now: Instant) -> bool {
        self.quick.link.is_some() && self.endpoint.has_output() && self.give_end_to_link(now)
    }

    #[inline(never)]
    fn give_end_to_link(&mut self, now: Instant) -> bool {
        let mut head = [0; wire::NOTE_HEAD_LEN_MAX];
        let Some(end) = self.endpoint.prepare_end(now, &mut head) else { return false };
        let way = (end.link, &end.to.0);
        let is_taken = is_taken_now(&self.home, &mut self.links, way, &head[..end.head_len], &[]);
        if is_taken {
            self.endpoint.on_end_given(&end);
        }
        is_taken
    }

    /// Who comes back from a computation has this one first, and then turns.
    #[inline]
    fn count_down(&mut self, now: Instant) {
        let is_turn_due = now - self.turned_at > TURN_NS_MAX;
        match self.quick.left_count {
            0 => self.quick.end(), // it was had by grace
            _ if is_turn_due => self.quick.left_count = 0,
            ref mut count => *count -= 1,
        }
    }

    /// Whether a look behind a computation need not ask all links yet, and a turn that is due may wait that long.
    #[inline]
    pub(super) fn may_look_at_memory_alone(&mut self, now: Instant) -> bool {
        now - self.turned_at > costly::BUSY_NS
            && self.costly.is_memory_alone(now)
            && self.quick.has_grace(now)
    }

    /// Whether all that peers' programs sent of late came by memory.
    pub(crate) fn has_peers_here_alone(&self, now: Instant) -> bool {
        self.quick.link.is_some() && self.quick.knows_of_others && self.costly.is_memory_alone(now)
    }

    /// Copies the payload of a frame while it is still written. `None`: it is not known where to, or its writer has come to a halt.
    #[inline(never)]
    fn follow(&mut self, link: usize, from: &Locator, len: usize) -> Option<BufId> {
        let shown = (&self.quick.frame[..], len);
        let Foreseen { buf, skip, len } = self.endpoint.foresee_given(link as u8, from, shown)?;
        let ring = self.links[link].in_memory()?;
        ring.follow(skip, memory_of(buf), len, &mut self.memory).then_some(buf)
    }

    /// Takes a long frame; so much of its payload goes from the ring to its place.
    #[inline]
    fn take_rest(&mut self, now: Instant, link: usize, buf: BufId, skip: usize, len: usize) {
        if let Some(ring) = self.links[link].in_memory() {
            self.quick.has_more = ring.take(skip, memory_of(buf), len, &mut self.memory);
        }
        self.costly.on_others(now);
    }

    /// Whether the next message may be had so as well. If not a turn is due, and whoever leaves before it says what it leaves behind.
    #[inline]
    pub(crate) fn may_look_quickly(&self) -> bool {
        self.quick.left_count > 0
    }

    /// Whether something waits behind what the last look took.
    #[inline]
    pub(crate) fn has_more_in_memory(&self) -> bool {
        self.quick.has_more
    }

    /// Whether that may be had by a look as well.
    #[inline]
    pub(crate) fn has_quick_next(&self) -> bool {
        self.quick.has_more && self.may_look_quickly()
    }

    /// The rest of a turn for a short frame. `len`: it is still to be read, and so long. Those behind it are probably no simple messages either, and are
    /// taken together at less cost.
    #[inline(never)]
    fn turn_behind_short(
        &mut self,
        now: Instant,
        link: usize,
        from: &Locator,
        len: Option<usize>,
    ) -> QuickLook {
        self.begin_turn(now);
        let now = self.time.on_arrival(now);
        if let Some(len) = len {
            let copied = &mut self.counters.bytes_copied_in;
            let mut lent = lent(&mut self.memory, copied, self.loans.as_mut());
            let frame = &self.quick.frame[..len];
            self.endpoint.on_frame(now, link as u8, *from, frame, &mut lent);
        }
        self.costly.on_others(now);
        let work = self.finish_turn(1);
        self.time.end();
        if self.quick.has_more {
            self.quick.end();
        }
        QuickLook::Turned(work)
    }
}
