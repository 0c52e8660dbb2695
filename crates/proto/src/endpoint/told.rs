//! Large messages of one host whose announcement and end are given to the link, as short messages are.
//!
//! PROTOCOL §7.10, §8.10. Where a receiver reads a message from its sender's memory, two short frames go with it: Told says where it is, Done that it was
//! read. A link in memory keeps both until they are taken, so neither needs a packet number, an acknowledgement or a timer.
//!
//! ```text
//!   prepare_told ──▶ the driver's link takes head and whereabouts ──▶ on_told_given
//!                                    take_given: Told ──▶ the driver reads ──▶ on_told_read
//!                                       prepare_done ──▶ the driver's link takes it ──▶ on_note_given
//!   take_given: Ended ◀──────────────────────┘  └─ it does not: on_done_kept, Done goes as any other
//! ```
//!
//! A message that the general way took, because it came before its receive, say, ends so, too: `prepare_end`, `on_end_given`.
//!
//! Unlike a message that was given, what was announced is its sender's until Done: it may be refused, and is then announced again as any other.

use crate::base::api::{Envelope, Event, Payload, SendSpec};
use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::base::types::{BufId, Instant, Locator, PeerId, Place, ReqId, Space};
use crate::bulk::outgoing::check_len;
use crate::bulk::settled;
use crate::endpoint::Endpoint;
use crate::messages::take::Received;
use crate::peers::rows::{Active, Row};
use crate::seal::Pass;
use crate::wire::{
    DONE_OK, NOTE_HEAD_LEN_MAX, NoteRepr, NoteView, TOTAL_MAX, WHEREABOUTS_LEN, Whereabouts,
};

/// A frame without payload whose head is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenNote {
    /// Which local link.
    pub link: u8,
    /// Where to.
    pub to: Locator,
    /// Bytes of the head.
    pub head_len: usize,
    peer: PeerId,
    /// An acknowledgement goes with it: of which path.
    acked: Option<u8>,
}

/// What became of a frame that may be one that was given to its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// Its message lies in the memory of its receive. There is no event of it, and a driver has nothing else to do for it.
    Received(Received),
    /// Only the first bytes of the frame were shown. Its message is received, as soon as the driver has placed the payload: so many bytes of the
    /// frame are before it.
    Begun(Received, BufId, usize),
    /// A large message is announced, and its receive waits for it. Nothing has changed yet: the driver reads the message to its place and says so by
    /// `on_told_read`, before anything else; or, if it cannot, hands the frame to `on_frame`.
    Told(Told),
    /// The frame said that a send is over. There is no event of it, and a driver has nothing else to do for it.
    Ended(Ended),
    /// The frame was a chunk of a stream. There is no event of it; its stream may be ready, and there may be something to send.
    Chunk,
    /// The message was taken otherwise: there may be events, and something to send.
    Otherwise,
    /// The message is not as simple as that, and nothing has changed: its frame is for `on_frame`.
    No,
}

/// A large message that is announced, and the receive that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Where its sender says that it is.
    pub whereabouts: Whereabouts,
    buf: BufId,
    /// So many bytes of it have room there.
    pub len: u64,
    row: u32,
    message: u32,
    envelope: Envelope,
}

impl Told {
    /// Where its bytes go.
    pub fn place(&self) -> Place {
        Place { buf: self.buf, offset: 0 }
    }
}

/// A send that is over, well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The send.
    pub req: ReqId,
    /// What its poster calls it.
    pub user: u64,
    /// Who took it.
    pub peer: PeerId,
    /// Bytes that were taken.
    pub placed_len: u64,
}

impl From<Ended> for Event {
    fn from(it: Ended) -> Self {
        let Ended { req, user, peer, placed_len } = it;
        Self::Sent { req, user, peer, placed_len, result: Ok(()) }
    }
}

/// As the sender of the message.
impl Endpoint {
    /// Writes the head of the frame that announces a message which its receiver may read. Nothing is changed: if the driver can say where the message is, and
    /// the link takes head and whereabouts at once, the driver says so by `on_told_given` before anything else; if not, or if this is `None`, it posts the message.
    #[inline]
    pub fn prepare_told(
        &self,
        now: Instant,
        spec: &SendSpec<'_>,
        head: &mut [u8; NOTE_HEAD_LEN_MAX],
    ) -> Option<GivenNote> {
        if spec.space == Space::STREAMS {
            return None; // refused by `post_send`
        }
        self.prepare_told_in(now, spec, head)
    }

    /// The same in whatever space.
    #[inline]
    pub(crate) fn prepare_told_in(
        &self,
        now: Instant,
        spec: &SendSpec<'_>,
        head: &mut [u8; NOTE_HEAD_LEN_MAX],
    ) -> Option<GivenNote> {
        let Payload::InPlace { len, .. } = spec.payload else { return None };
        let is_long = len >= u64::from(self.peers().settings.fetch_len_min);
        if !is_long || spec.until_matched {
            return None;
        }
        let (this, active) = self.bulk().joined_of_post(spec)?;
        let index = active.clear_path(now, WHEREABOUTS_LEN as u64)?;
        if !active.paths[usize::from(index)].can_fetch() {
            return None;
        }
        this.cost_of(this.numbers.next_out(), WHEREABOUTS_LEN as u32, active.credit)?;
        check_len(len, TOTAL_MAX).ok()?;
        let note = NoteRepr::Told {
            space: spec.space,
            message: this.numbers.next_out() as u32,
            tag: spec.tag,
            total: len,
            immediate: spec.immediate,
        };
        self.write_note(now, (this, active), index, note, head)
    }

    /// The link has taken the announcement: the message is posted.
    #[inline]
    pub fn on_told_given(&mut self, spec: &SendSpec<'_>, given: &GivenNote) -> ReqId {
        self.on_note_given(given);
        let Payload::InPlace { buf, len } = spec.payload else {
            unreachable!("only such a message is announced so")
        };
        self.bulk_mut().post_announced(spec, (buf, len))
    }

    /// The end of a send, as a link in memory brought it.
    #[inline]
    fn take_done(&mut self, row: u32, message: u32, placed_len: u64) -> Taken {
        let bulk = &mut self.messages.bulk;
        let active = bulk.peers.active_of(row);
        // Nothing waits that its end may set free.
        let is_alone = active.is_clear();
        let Some(ended) = is_alone.then(|| bulk.take_ended(row, message)).flatten() else {
            return Taken::No;
        };
        let settled::Ended { req, user, peer, total } = ended;
        bulk.peers.counters.frames_in += 1;
        Taken::Ended(Ended { req, user, peer, placed_len: placed_len.min(total) })
    }
}

/// As its receiver.
impl Endpoint {
    /// A frame without payload of a link in memory.
    #[inline]
    pub(crate) fn take_note(
        &mut self,
        now: Instant,
        link: u8,
        from: &Locator,
        (bytes, len): (&[u8], usize),
    ) -> Taken {
        let Some(view) = NoteView::read(bytes).filter(|_| bytes.len() == len) else {
            return Taken::No;
        };
        // An Ack is for the general way; and so is all that is not from a peer who may give.
        if view.has_ack() || !view.is_passed(*self.peers().own_pass()) {
            return Taken::No;
        }
        let Some(row) = self.peers().giver_of(link, from, &view.header()) else {
            return Taken::No;
        };
        self.messages.bulk.peers.note_heard(now, row);
        match (view.note(), view.whereabouts()) {
            (NoteRepr::Told { space: Space::STREAMS, .. }, Some(whereabouts)) => {
                self.take_told_chunk(now, row, view.note(), &whereabouts)
            }
            (NoteRepr::Told { .. }, Some(whereabouts)) => {
                self.foresee_told(row, view.note(), whereabouts).map_or(Taken::No, Taken::Told)
            }
            (NoteRepr::Done { message, placed_len }, _) => self.take_done(row, message, placed_len),
            _ => Taken::No,
        }
    }

    /// The receive of an announced message whose turn it is, if that is as simple as most are. Nothing is changed.
    fn foresee_told(&mut self, row: u32, note: NoteRepr, whereabouts: Whereabouts) -> Option<Told> {
        let NoteRepr::Told { space, message, tag, total, immediate } = note else { return None };
        let peers = self.peers();
        let this = &peers.rows[row];
        if !this.is_next(message) || peers.is_closing() {
            return None;
        }
        let source = this.peer();
        let receive = self.messages.foresee(space, tag, source)?;
        let envelope = Envelope { source, space, tag, immediate, len: total };
        let (buf, len) = (receive.buf, receive.len.min(total));
        receive.is_simple.then_some(Told { whereabouts, buf, len, row, message, envelope })
    }

    /// The driver has read an announced message to its place, and nothing was changed since it was told of it: the message is received.
    #[inline]
    pub fn on_told_read(&mut self, told: &Told) -> Received {
        let &Told { row, message, envelope, len, .. } = told;
        let received = self
            .messages
            .take_announced(row, message, envelope)
            .expect("it was foreseen, and nothing was changed");
        let counters = &mut self.peers_mut().counters;
        counters.frames_in += 1;
        counters.messages_in += 1;
        counters.rendezvous_in += 1;
        counters.bytes_placed += len;
        counters.bytes_fetched += len;
        received
    }

    /// Writes the head of the frame that tells its sender so, if that may be given to the link now. Nothing is changed: if the link takes it the driver says
    /// so by `on_note_given`, and if not, or if this is `None`, by `on_done_kept`.
    #[inline]
    pub fn prepare_done(
        &self,
        now: Instant,
        told: &Told,
        head: &mut [u8; NOTE_HEAD_LEN_MAX],
    ) -> Option<GivenNote> {
        let peers = self.peers();
        let this = &peers.rows[told.row];
        let active = peers.actives.of(this)?;
        let index = active.clear_path(now, 0)?;
        if peers.saboteur.makes(Sabotage::CutNotTold) {
            return None;
        }
        let note = NoteRepr::Done { message: told.message, placed_len: told.len };
        self.write_note(now, (this, active), index, note, head)
    }

    /// Done could not be given: it goes as any other.
    #[cold]
    pub fn on_done_kept(&mut self, told: &Told) {
        let len = match self.peers().saboteur.makes(Sabotage::CutNotTold) {
            true => told.envelope.len,
            false => told.len,
        };
        self.peers_mut().notify_done(told.row, told.message, DONE_OK, len);
    }
}

/// As its receiver, where the general way has taken the message.
impl Endpoint {
    /// Writes the head of the frame that tells the sender of a large message that it is over, if that is the next to be said to the peer whose turn it is, and
    /// may be given to the link. Nothing is changed: if the link takes it the driver says so by `on_end_given`; if not the frame goes as any other.
    ///
    /// Were it numbered it would have to be acknowledged. The acknowledgement would ride on the next announcement, which is for the general way then, as would
    /// be its end: two that send each other large messages would number every other frame for ever.
    #[inline(never)]
    pub fn prepare_end(
        &self,
        now: Instant,
        head: &mut [u8; NOTE_HEAD_LEN_MAX],
    ) -> Option<GivenNote> {
        let peers = self.peers();
        let row = peers.rows.first_ready();
        if row == NONE || peers.has_replies() || peers.is_closed() {
            return None;
        }
        let this = &peers.rows[row];
        let active = peers.actives.of(this)?;
        let (index, message, placed_len) = active.clear_path_of_end(now)?;
        self.write_note(now, (this, active), index, NoteRepr::Done { message, placed_len }, head)
    }

    /// The link has taken that frame.
    #[inline]
    pub fn on_end_given(&mut self, given: &GivenNote) {
        let row = given.peer.row();
        let peers = self.peers_mut();
        peers.active_of_mut(row).take_notice();
        if let Some(of) = given.acked {
            peers.on_ack_given(row, of);
        }
        peers.counters.frames_out += 1;
        peers.counters.notes_given += 1;
        if peers.is_spent(row) {
            peers.rows.leave_ready();
        }
    }
}

/// As either.
impl Endpoint {
    /// Writes a frame without payload that may be given to the link of this path, on which nothing waits.
    #[inline(always)]
    pub(crate) fn write_note(
        &self,
        now: Instant,
        (this, active): (&Row, &Active),
        index: u8,
        note: NoteRepr,
        head: &mut [u8; NOTE_HEAD_LEN_MAX],
    ) -> Option<GivenNote> {
        let path = &active.paths[usize::from(index)];
        if !path.may_be_given() || !this.is_joined() {
            return None;
        }
        let ack = self.bulk().riding_ack(now, active, index)?;
        let header = this.header(0, index);
        let head_len = note.write(head, header, ack.as_ref(), Pass(path.pass()));
        let (peer, acked) = (this.peer(), ack.map(|ack| ack.path));
        Some(GivenNote { link: path.link(), to: *path.locator(), head_len, peer, acked })
    }

    /// The link has taken such a frame.
    #[inline]
    pub fn on_note_given(&mut self, given: &GivenNote) {
        self.peers_mut().counters.frames_out += 1;
        self.peers_mut().counters.notes_given += 1;
        if let Some(of) = given.acked {
            self.on_given_ack(given.peer.row(), of);
        }
    }
}
