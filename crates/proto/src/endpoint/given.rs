//! Copied messages whose copy is the link's own.
//!
//! PROTOCOL §7.10. A copied message is complete with its post, and the copy is kept until the peer has accepted it. Where a link never loses a frame
//! and has no other writers than its two ends, what it has taken *is* that copy: it stays there until the peer takes it out. So such a message is given
//! to the link and forgotten. Its frame has no packet number and is not acknowledged; there is no record of it, no timer, and no second copy.
//!
//! ```text
//!   prepare_given ──▶ head ──▶ the driver's link takes it, whole and now ──▶ on_given: it has a number, and that is all
//!                                 └─ it does not: nothing was changed, the message is posted as any other
//! ```
//!
//! What was given cannot be refused, for nobody would send it again: the receiver takes it beyond its budgets if it must, and stops the sender (§7.5). So
//! what it holds beyond them is what a link holds.

use crate::base::api::Verdict;
use crate::base::api::{Payload, SendSpec};
use crate::base::sabotage::Sabotage;
use crate::base::types::{BufId, Instant, Locator, Memory, PeerId, Place, Space};
use crate::delivery::path::Origin;
use crate::endpoint::Endpoint;
use crate::endpoint::told::Taken;
use crate::messages::take::Miss;
use crate::peers::rows::{Row, row_of_id};
use crate::wire::{
    self, ACKED_EAGER_LEN, Class, EagerRepr, EagerWords, FrameView, LONE, LONE_EAGER_LEN,
    LONE_HEAD_LEN_MAX, LONE_IMMEDIATE, LoneMessage, LoneView, Record,
};

/// Longer ones are kept: an Eager cannot say how long they are.
pub const GIVEN_LEN_MAX: u64 = u16::MAX as u64;

/// A frame whose head is written, of a message that is not posted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Which local link.
    pub link: u8,
    /// Where to.
    pub to: Locator,
    /// Bytes of the head; the payload follows.
    pub head_len: usize,
    peer: PeerId,
    /// An acknowledgement goes with it: of which path.
    acked: Option<u8>,
}

/// Where payload will go ([`Endpoint::foresee_given`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// The memory of its receive; to its beginning.
    pub buf: BufId,
    /// Bytes of the frame before it.
    pub skip: usize,
    /// So many bytes of it.
    pub len: usize,
}

/// As a sender.
impl Endpoint {
    /// Writes the head of the frame of a copied message that may be given to its link. Nothing is changed: if the link takes the frame, all of it and at
    /// once, the driver says so by `on_given` before anything else; if not, or if this is `None`, it posts the message.
    #[inline]
    pub fn prepare_given(
        &self,
        now: Instant,
        spec: &SendSpec<'_>,
        head: &mut [u8; LONE_HEAD_LEN_MAX],
    ) -> Option<Given> {
        let Payload::Copied(bytes) = spec.payload else { return None };
        if spec.space == Space::STREAMS {
            return None; // refused by `post_send`
        }
        self.prepare_given_of(now, spec, bytes.len() as u64, head)
    }

    /// The same for a message of so many bytes, wherever they lie.
    #[inline(always)]
    pub(crate) fn prepare_given_of(
        &self,
        now: Instant,
        spec: &SendSpec<'_>,
        len: u64,
        head: &mut [u8; LONE_HEAD_LEN_MAX],
    ) -> Option<Given> {
        if len > GIVEN_LEN_MAX {
            return None;
        }
        let (this, active) = self.bulk().peer_of_post(spec, len)?;
        if active.main_path().pass() == 0 {
            return None; // as by all links but those in memory
        }
        let index = active.clear_path(now, len)?;
        let path = &active.paths[usize::from(index)];
        if !path.may_be_given()
            || this.cost_of(this.numbers.next_out(), len as u32, active.credit).is_none()
        {
            return None;
        }
        // An acknowledgement that waits goes with it. Were the message numbered for that, its receiver would owe one in turn, and two that
        // answer each other would number all their messages for ever.
        let ack = self.bulk().riding_ack(now, active, index)?;
        let head_len = if ack.is_some() { ACKED_EAGER_LEN } else { LONE_EAGER_LEN };
        let head_len = head_len + 8 * usize::from(spec.immediate.is_some());
        if head_len + len as usize > usize::from(path.frame_len()) {
            return None;
        }
        let header = this.header(0, index);
        let eager = EagerRepr {
            space: spec.space,
            message: this.numbers.next_out() as u32,
            tag: spec.tag,
            wants_match: false,
            len: len as u16,
        };
        let words = (eager, spec.immediate);
        wire::write_lone_at(head, header, ack.as_ref(), words, &Row::seal_of_given(path));
        let acked = ack.map(|ack| ack.path);
        Some(Given { link: path.link(), to: *path.locator(), head_len, peer: spec.peer, acked })
    }

    /// The link has taken the frame.
    #[inline]
    pub fn on_given(&mut self, given: &Given) {
        self.peers_mut().rows[given.peer.row()].numbers.post();
        self.peers_mut().counters.messages_out += 1;
        self.peers_mut().counters.messages_given += 1;
        self.peers_mut().counters.frames_out += 1;
        if let Some(of) = given.acked {
            self.on_given_ack(given.peer.row(), of);
        }
    }

    /// The acknowledgement that was pending on this path went with it.
    #[inline(never)]
    pub(crate) fn on_given_ack(&mut self, row: u32, of: u8) {
        let peers = self.peers_mut();
        peers.on_ack_given(row, of);
        if peers.rows.first_ready() == row {
            peers.rows.leave_ready(); // it had an acknowledgement to send, and nothing else
        }
    }
}

/// As a receiver.
impl Endpoint {
    /// A frame of the commonest shape that is proven and not the next of its path: it was given to its link, or it is looked at as any other.
    #[inline(never)]
    pub(crate) fn on_not_next<const N: usize>(
        &mut self,
        now: Instant,
        origin: Origin,
        bytes: &[u8],
        base: u64,
        memory: &mut impl Memory,
    ) {
        let Some(lone) = LoneView::<N>::read(bytes) else { return };
        let message = lone.message(base);
        let is_taken = message.header.packet == 0
            && self.peers().may_be_quick()
            && self.on_quick_given(now, origin.link, &origin.from, message, memory);
        if !is_taken {
            self.on_any_frame(now, origin, lone.view(base), memory);
        }
    }

    /// A message that was given to a link, the common way (`Endpoint::on_given_frame` is the general one). False: it is not as simple as that.
    #[inline]
    fn on_quick_given(
        &mut self,
        now: Instant,
        link: u8,
        from: &Locator,
        lone: LoneMessage<'_>,
        memory: &mut impl Memory,
    ) -> bool {
        match self.take_lone_given(now, link, from, lone, 0, memory) {
            Taken::Received(received) => {
                self.peers_mut().events.tell(received.into());
                true
            }
            Taken::No => false,
            _ => true,
        }
    }

    /// A frame of a link in memory, for a driver that asks for one at a time and does not turn for it. Its length is `len`, of which `bytes` are
    /// all or the first.
    #[inline]
    pub fn take_given(
        &mut self,
        now: Instant,
        link: u8,
        from: &Locator,
        (bytes, len): (&[u8], usize),
        memory: &mut impl Memory,
    ) -> Taken {
        let peers = self.peers();
        // What happened before is told before.
        if peers.is_closed()
            || !peers.may_be_quick()
            || !peers.events.is_empty()
            || self.messages.has_orphans()
        {
            return Taken::No;
        }
        let message = self.given_in::<LONE>(bytes, len);
        match message.or_else(|| self.given_in::<LONE_IMMEDIATE>(bytes, len)) {
            Some(lone) => {
                let missing_len = len - bytes.len();
                self.take_lone_given(now, link, from, lone, missing_len, memory)
            }
            None => self.take_note(now, link, from, (bytes, len)),
        }
    }

    /// Where the payload of such a frame will go, and how many bytes of it: for a driver that sees its first bytes while the rest is still written.
    /// Nothing is changed. Only a receive that names the sender: if that message does not come after all, none of another sender
    /// does, and what was placed for it is in nobody's way.
    pub fn foresee_given(
        &mut self,
        link: u8,
        from: &Locator,
        (bytes, len): (&[u8], usize),
    ) -> Option<Foreseen> {
        let message = self.given_in::<LONE>(bytes, len);
        let lone = message.or_else(|| self.given_in::<LONE_IMMEDIATE>(bytes, len))?;
        let LoneMessage { header, head, .. } = lone;
        let peers = &self.messages.bulk.peers;
        let this = peers.rows.get_any(row_of_id(header.to)).filter(|this| this.is_of(&header))?;
        let active = peers.actives.of(this)?;
        let path = active.paths.get(usize::from(header.path));
        if !peers.links.is_private(link) || path.is_none_or(|path| !path.comes_from(link, from)) {
            return None;
        }
        let is_next = this.is_next(head.message()) && !head.wants_match();
        let source = this.peer();
        if !is_next || head.space() == Space::STREAMS {
            return None;
        }
        let receive = self.messages.first_for(head.space(), head.tag(), source)?;
        let skip = head.len_before_body();
        let len = receive.len.min((len - skip) as u64) as usize;
        let is_sure = receive.is_simple && receive.source.is_some();
        is_sure.then_some(Foreseen { buf: receive.buf, skip, len })
    }

    /// The message in a frame without a number that has our pass. (Whether it came by a link where a pass is enough is still to be asked.)
    #[inline(always)]
    fn given_in<'a, const N: usize>(&self, bytes: &'a [u8], len: usize) -> Option<LoneMessage<'a>> {
        let lone = LoneView::<N>::read_begun(bytes, len)?;
        let is_given = lone.is_low_zero() && lone.is_proven(self.peers().own_pass(), 0);
        is_given.then(|| lone.message(0))
    }

    /// `missing_len`: so many bytes at the end of the payload were not shown.
    #[inline(always)]
    fn take_lone_given(
        &mut self,
        now: Instant,
        link: u8,
        from: &Locator,
        lone: LoneMessage<'_>,
        missing_len: usize,
        memory: &mut impl Memory,
    ) -> Taken {
        let LoneMessage { header, head, body } = lone;
        if self.peers().saboteur.makes(Sabotage::TruncatedCopy) {
            return Taken::No;
        }
        let Some(row) = self.peers().giver_of(link, from, &header) else { return Taken::No };
        self.messages.bulk.peers.note_heard(now, row);
        let is_chunk = head.space() == Space::STREAMS;
        if is_chunk && missing_len == 0 && self.hand_over_given(now, row, head, body, memory) {
            return Taken::Chunk;
        }
        match self.messages.take_untold(row, head, body.len() + missing_len) {
            Ok((received, buf)) => {
                let counters = &mut self.peers_mut().counters;
                counters.frames_in += 1;
                counters.messages_in += 1;
                counters.bytes_placed += received.placed_len;
                if missing_len > 0 {
                    counters.messages_begun += 1;
                    return Taken::Begun(received, buf, head.len_before_body());
                }
                memory.place(Place { buf, offset: 0 }, &body[..received.placed_len as usize]);
                Taken::Received(received)
            }
            // Whoever keeps it wants all of it.
            Err(_) if missing_len > 0 => Taken::No,
            Err(miss) => {
                self.peers_mut().counters.frames_in += 1;
                self.take_missed(now, row, miss, head, body, memory);
                let is_alone = is_chunk && self.peers().events.is_empty();
                if is_alone { Taken::Chunk } else { Taken::Otherwise }
            }
        }
    }

    /// A message that was given to a link, where something is not as usual: its row rests, say, or the endpoint is about to close. False: it is no such frame.
    pub(crate) fn on_given_frame(
        &mut self,
        now: Instant,
        link: u8,
        row: u32,
        view: &FrameView<'_>,
        memory: &mut impl Memory,
    ) -> bool {
        if !self.peers().links.is_private(link) {
            return false;
        }
        let (mut is_given, mut ack) = (false, None);
        for (record, body) in view.records() {
            match record {
                Record::Ack(it) if !is_given => {
                    ack = Some(it);
                    continue;
                }
                Record::Message(head) if matches!(head.class, Class::Eager | Class::Told) => {}
                Record::Done { .. } => {}
                _ => break,
            }
            is_given = true;
            if let Some(ack) = ack.take() {
                self.on_ack(now, row, &ack);
            }
            match record {
                Record::Message(head) if head.class == Class::Eager => {
                    self.take_surely(now, row, head.message, |endpoint| {
                        endpoint.on_message(now, row, &head, body, memory)
                    });
                }
                // Its sender has it still, and announces it again if it is refused.
                Record::Message(head) => {
                    let _ = self.on_message(now, row, &head, body, memory);
                }
                Record::Done { message, status, placed_len } => {
                    self.bulk_mut().on_done(row, message, status, placed_len);
                }
                _ => {}
            }
        }
        is_given
    }

    fn take_missed(
        &mut self,
        now: Instant,
        row: u32,
        miss: Miss,
        head: EagerWords,
        body: &[u8],
        memory: &mut impl Memory,
    ) {
        self.take_surely(now, row, head.message(), |endpoint| {
            endpoint.on_missed(now, row, miss, head, body, memory)
        });
    }

    /// Takes a message that nobody would send again, beyond the budgets if need be. Then its sender is stopped.
    fn take_surely(
        &mut self,
        now: Instant,
        row: u32,
        message: u32,
        take: impl FnOnce(&mut Self) -> Verdict,
    ) {
        if self.peers().saboteur.makes(Sabotage::TakenBeforeAcceptance) {
            return;
        }
        let this = &mut self.peers_mut().rows[row];
        let number = this.numbers.whole(message);
        // What is refused are messages that the sender keeps, and this one it does not keep. But if a message before this one is refused, the refusal
        // stays there: the sender holds that message back until it is recalled or asked for (§7.6).
        this.numbers.take_surely(number);
        self.bulk_mut().held.set_takes_all(true);
        take(self);
        self.bulk_mut().held.set_takes_all(false);
        let is_over = self.bulk().held.is_beyond();
        let this = &self.peers().rows[row];
        if is_over && this.is_joined() && this.numbers.refused_from().is_none() {
            let from = this.numbers.next_in().max(number + 1);
            self.messages.refuse(now, row, from, 0);
        }
    }
}
