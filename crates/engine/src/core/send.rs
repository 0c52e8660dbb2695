//! What a turn sends: frames and trains that the rules have ready, gathered into a burst for each link.
//!
//! A small message posted while nothing waits before it does not go through the bursts: its frame is written and leaves with the
//! post (`send_now`). What a link does not take now stays in its outbox, and no further frame is asked for until it is taken:
//! the rules hold what waits, not the links.

use packhorse_link::mem::UserMemory;
use packhorse_link::{Burst, Link, Locator, Reliability};
use packhorse_proto::{
    BufId, Instant, Lone, Payload, PeerId, PostError, ReqId, SendSpec, Source, Whereabouts, wire,
};

use super::Core;
use crate::home::{self, Home};
use crate::pairs::way_by;
use crate::translate::{memory_of, train_of};

/// Payload up to this is copied next to its head: a further piece for the system call costs more.
const COPY_LEN_MAX: u32 = 256;
/// A burst is sent when it has so many frames.
const BURST_COUNT_MAX: usize = 64;
/// A longer train is read by its receiver from our memory, this fast at least: it will not be heard of before.
const LARGE_BYTES_PER_NS: u64 = 4;
/// A send that is over, and was never entered: nobody finds it.
const GIVEN: ReqId = ReqId(u64::MAX);
/// Bursts per turn: a turn is bounded work.
const BURSTS_PER_TURN: usize = 8;
/// With so many bytes of granted data a turn has sent enough: what came meanwhile may be an announcement, whose sender waits for our grant. Two that
/// send to each other would do so one after the other otherwise.
const TURN_LEN_MAX: usize = 256_000;
/// For so long after a peer was met the ways to it are being asked for: some questions and answers, each of which may wait for whoever computes.
const SETTLING_NS: u64 = 100_000_000;

/// Frames on their way to one link.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    burst: Burst,
    /// The first frame of the burst that the link has not taken yet.
    first: usize,
}

impl<L: Link<M>, M: UserMemory> Core<L, M> {
    /// Posts a send; a small one leaves at once where nothing waits before it. Others leave with `transmit`.
    #[inline]
    pub fn post_send(&mut self, now: Instant, spec: SendSpec<'_>) -> Result<ReqId, PostError> {
        if let Some(req) = self.send_lone(now, &spec) {
            return Ok(req);
        }
        match spec.payload {
            Payload::Copied(bytes) if !self.is_blocked() => self.send_copied(now, spec, bytes),
            Payload::InPlace { buf, len } => match self.tell(now, &spec, buf, len) {
                Some(req) => Ok(req),
                None => self.endpoint.post_send(now, spec),
            },
            Payload::Copied(_) => self.endpoint.post_send(now, spec),
        }
    }

    /// Posts a message that its receiver may read, and gives its announcement to the link in memory. `None`: nothing was done.
    fn tell(&mut self, now: Instant, spec: &SendSpec<'_>, buf: BufId, len: u64) -> Option<ReqId> {
        if self.is_blocked() {
            return None;
        }
        let mut head = [0; wire::NOTE_HEAD_LEN_MAX];
        let given = self.endpoint.prepare_told(now, spec, &mut head)?;
        let whereabouts = self.whereabouts_for((given.link, &given.to.0), buf, len)?;
        let ring = self.links[usize::from(given.link)].in_memory()?;
        if !ring.put(&given.to.0, &head[..given.head_len], &whereabouts) {
            return None;
        }
        self.expect_answer(now, len);
        Some(self.endpoint.on_told_given(spec, &given))
    }

    /// Posts bytes that are to be copied. If they may leave now they do, as the frames that are kept of them.
    fn send_copied(
        &mut self,
        now: Instant,
        spec: SendSpec<'_>,
        bytes: &[u8],
    ) -> Result<ReqId, PostError> {
        let (req, is_written) =
            self.endpoint.post_copied(now, spec, self.train_max, &mut self.train)?;
        if !is_written {
            return Ok(req);
        }
        self.note_train();
        self.costly.on_sent(self.train.link);
        let Self { endpoint, train, home, outboxes, links, .. } = self;
        let to = &train.to.0;
        let stride = train.head_len + train.payload_len as usize;
        let has_left = !home.takes(train.link, to)
            && endpoint
                .copied_frames(req)
                .is_some_and(|frames| links[usize::from(train.link)].send_now(to, frames, stride));
        if !has_left {
            burst_for(home, outboxes, train.link, to).gathered(
                *to,
                train.frames(),
                |payload, out| out.extend_from_slice(&bytes[payload]),
            );
            self.flush();
        }
        Ok(req)
    }

    /// Posts a small send and has its frame leave. `None`: nothing was done.
    pub(crate) fn send_lone(&mut self, now: Instant, spec: &SendSpec<'_>) -> Option<ReqId> {
        self.end_quiet();
        // What is copied anyway goes so if it fits into a frame.
        let (len, len_max) = match spec.payload {
            Payload::InPlace { len, .. } => (len, u64::from(COPY_LEN_MAX)),
            Payload::Copied(bytes) => (bytes.len() as u64, u64::MAX),
        };
        if len > len_max || self.is_blocked() {
            return None;
        }
        let mut head = [0; wire::LONE_HEAD_LEN_MAX];
        if let Payload::Copied(bytes) = spec.payload
            && self.give(now, spec, bytes, &mut head)
        {
            return Some(GIVEN);
        }
        let lone = self.endpoint.post_lone(now, spec, &mut head)?;
        self.costly.on_sent(lone.link);
        self.counters.bytes_copied_out += len;
        if let Payload::InPlace { buf, len } = spec.payload {
            self.begin_lone(&head[..lone.head_len]);
            self.memory.gather(memory_of(buf), 0, len as usize, &mut self.scratch);
            self.finish_lone(&lone);
        } else if let Some(frame) = self.endpoint.lone_frame(&lone) {
            let Self { home, links, outboxes, .. } = self;
            if !has_left(home, links, outboxes, &lone, frame) {
                self.flush();
            }
        }
        Some(lone.req)
    }

    /// Gives a copied message to its link, or does nothing.
    pub(crate) fn give_or_leave(&mut self, now: Instant, spec: &SendSpec<'_>) -> bool {
        let Payload::Copied(bytes) = spec.payload else { return false };
        self.end_quiet();
        !self.is_blocked() && self.give(now, spec, bytes, &mut [0; wire::LONE_HEAD_LEN_MAX])
    }

    /// Gives a copied message to a link that keeps it for its peer, if there is one and it takes it now.
    #[inline]
    fn give(
        &mut self,
        now: Instant,
        spec: &SendSpec<'_>,
        bytes: &[u8],
        head: &mut [u8; wire::LONE_HEAD_LEN_MAX],
    ) -> bool {
        let Some(given) = self.endpoint.prepare_given(now, spec, head) else { return false };
        let (link, to) = (given.link, &given.to.0);
        let is_taken =
            is_taken_now(&self.home, &mut self.links, (link, to), &head[..given.head_len], bytes);
        if is_taken {
            self.endpoint.on_given(&given);
            self.counters.bytes_copied_out += bytes.len() as u64;
        }
        is_taken
    }

    /// Sends a short stream at once. False: nothing was done.
    pub fn send_short_stream(
        &mut self,
        now: Instant,
        peer: PeerId,
        handler: u16,
        pieces: &[&[u8]],
    ) -> bool {
        self.end_quiet();
        let len = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if !self.is_blocked() && self.give_short_stream(now, (peer, handler), pieces, len) {
            return true;
        }
        let mut head = [0; wire::LONE_HEAD_LEN_MAX];
        if len <= COPY_LEN_MAX as usize
            && !self.is_blocked()
            && let Some(lone) =
                self.endpoint.send_lone_stream(now, peer, handler, pieces, &mut head)
        {
            self.begin_lone(&head[..lone.head_len]);
            pieces.iter().for_each(|piece| self.scratch.extend_from_slice(piece));
            self.counters.bytes_copied_out += len as u64;
            self.finish_lone(&lone);
            return true;
        }
        self.endpoint.send_short_stream(now, peer, handler, pieces)
    }

    fn begin_lone(&mut self, head: &[u8]) {
        self.scratch.clear();
        self.scratch.extend_from_slice(head);
    }

    /// A lone frame is whole: it leaves.
    fn finish_lone(&mut self, lone: &Lone) {
        let Self { home, links, outboxes, scratch, .. } = self;
        if !has_left(home, links, outboxes, lone, scratch) {
            self.flush();
        }
    }

    /// Sends what there is to send, as far as the links take it.
    pub fn transmit(&mut self, now: Instant) -> usize {
        if self.links.is_empty() {
            return 0; // it was stopped: what its peers were still to be told stays here
        }
        self.end_quiet();
        if self.endpoint.has_told_ends() {
            self.give_told_ends(now);
        }
        while let Some(new) = self.endpoint.poll_new_locators() {
            self.pairs.answer(now, &new, &mut self.endpoint, &mut self.links);
            self.settling_until = now + SETTLING_NS;
        }
        while let Some(peer) = self.endpoint.poll_path_news() {
            self.pairs.remember(now, peer, &self.endpoint, &mut self.links);
        }
        while let Some((link, to)) = self.endpoint.poll_new_path() {
            if let Some(path) = self.links.get_mut(usize::from(link)) {
                self.endpoint.set_way(link, &to, &way_by(path, &to.0));
            }
        }
        let (mut sent, mut granted_len) = (0, 0);
        for _ in 0..BURSTS_PER_TURN {
            let is_full = self.fill(now, &mut granted_len);
            sent += self.flush();
            if !is_full || granted_len >= TURN_LEN_MAX {
                break;
            }
        }
        sent
    }

    /// Whether `transmit` may have something to do.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.endpoint.has_output() || !self.home.is_empty() || self.is_blocked()
    }

    /// Whether frames wait because a link took no more.
    pub fn is_blocked(&self) -> bool {
        self.outboxes.iter().any(|outbox| !outbox.burst.is_empty())
    }

    /// Asks the endpoint for frames, and counts the granted data among them. True: it may have more.
    fn fill(&mut self, now: Instant, granted_len: &mut usize) -> bool {
        if self.is_blocked() {
            return false;
        }
        let mut count = 0;
        while count < BURST_COUNT_MAX {
            let (count_max, len_max) = self.train_max;
            if count_max > 0 && self.endpoint.poll_train(now, count_max, len_max, &mut self.train) {
                self.put_train();
                self.note_train();
                count += self.train.count;
                let train_len = self.train.count * self.train.payload_len as usize;
                *granted_len += if self.train.is_unasked { 0 } else { train_len };
                if train_len > len_max {
                    let copy_ns = train_len as u64 / LARGE_BYTES_PER_NS;
                    self.answer_by = Instant(self.answer_by.0.max(now.0)) + copy_ns;
                    return true; // its receiver has enough to begin with
                }
                if *granted_len >= TURN_LEN_MAX {
                    return true;
                }
            } else if self.give_end(now) {
                count += 1;
            } else if self.endpoint.poll_transmit(now, &mut self.tx) {
                self.put_frame(now);
                count += 1;
            } else {
                return false;
            }
        }
        true
    }

    /// Counts the frames in `train`.
    fn note_train(&mut self) {
        if self.train.count > 1 {
            self.counters.frames_in_trains += self.train.count as u64;
        }
    }

    /// Adds `train` to its link's burst.
    fn put_train(&mut self) {
        let Self { train, home, outboxes, .. } = self;
        let burst = burst_for(home, outboxes, train.link, &train.to.0);
        let about = self.links[usize::from(train.link)].about();
        // Payload that is copied between its heads is one piece to the kernel, which is quicker than many short ones. Links that copy frames by
        // themselves, or have their receiver read them, want to know where it is, if all heads are alike. Frames of a stream are long.
        let is_alike = train.heads.len() == train.count * train.head_len;
        let is_lossy = about.reliability == Reliability::Lossy;
        let is_gathered = train.is_unasked && is_lossy && about.train_count_max > 1;
        match train.source {
            Source::User { buf, offset } if !is_alike && about.reliability.is_stream() => {
                for (head, payload) in train.frames() {
                    burst.begin(train.to.0);
                    burst.head(head);
                    burst.user(memory_of(buf), offset + payload.start as u64, payload.len() as u32);
                }
            }
            Source::User { buf, offset } if is_gathered || !is_alike => {
                self.counters.bytes_copied_out += train.len() as u64;
                let memory = &mut self.memory;
                burst.gathered(train.to.0, train.frames(), |payload, out| {
                    memory.gather(
                        memory_of(buf),
                        offset + payload.start as u64,
                        payload.len(),
                        out,
                    );
                });
            }
            Source::User { buf, offset } => {
                burst.train(train.to.0, &train.heads, train_of(train, buf, offset));
            }
            Source::Pool { slot, offset } => {
                let payload = &self.endpoint.pooled(slot)[offset as usize..];
                burst.gathered(train.to.0, train.frames(), |range, out| {
                    out.extend_from_slice(&payload[range]);
                });
            }
            Source::Whereabouts { .. } | Source::Zero => unreachable!("a train has payload"),
        }
    }

    /// Adds the frame in `tx` to its link's burst.
    fn put_frame(&mut self, now: Instant) {
        self.whereabouts.clear();
        for index in 0..self.tx.body.len() {
            if let Source::Whereabouts { buf, len } = self.tx.body[index].source {
                self.say_where(now, buf, len);
            }
        }
        let Self { tx, home, outboxes, .. } = self;
        let mut told = self.whereabouts.as_flattened();
        let burst = burst_for(home, outboxes, tx.link, &tx.to.0);
        burst.begin(tx.to.0);
        if tx.wants_crc() {
            // The sum goes into the head, so the body is read first; and what was read is what is sent.
            self.scratch.clear();
            for piece in &tx.body {
                let len = piece.len as usize;
                match piece.source {
                    Source::User { buf, offset } => {
                        self.counters.bytes_copied_out += len as u64;
                        self.memory.gather(memory_of(buf), offset, len, &mut self.scratch);
                    }
                    Source::Pool { slot, offset } => {
                        let start = offset as usize;
                        let bytes = &self.endpoint.pooled(slot)[start..start + len];
                        self.scratch.extend_from_slice(bytes);
                    }
                    Source::Whereabouts { .. } => {
                        let (next, rest) = told.split_at(len);
                        self.scratch.extend_from_slice(next);
                        told = rest;
                    }
                    Source::Zero => self.scratch.resize(self.scratch.len() + len, 0),
                }
            }
            tx.seal(crc32c::crc32c(&self.scratch));
            burst.head(&tx.head);
            burst.head(&self.scratch);
            return;
        }
        tx.seal(0);
        burst.head(&tx.head);
        for piece in &tx.body {
            match piece.source {
                Source::User { buf, offset } if piece.len <= COPY_LEN_MAX => {
                    self.counters.bytes_copied_out += u64::from(piece.len);
                    burst.copied(&mut self.memory, memory_of(buf), offset, piece.len as usize);
                }
                Source::User { buf, offset } => burst.user(memory_of(buf), offset, piece.len),
                Source::Pool { slot, offset } => {
                    let start = offset as usize;
                    let bytes = &self.endpoint.pooled(slot)[start..start + piece.len as usize];
                    burst.head(bytes);
                }
                Source::Whereabouts { .. } => {
                    let (next, rest) = told.split_at(piece.len as usize);
                    burst.head(next);
                    told = rest;
                }
                Source::Zero => burst.zeros(piece.len as usize),
            }
        }
    }

    /// The frame in `tx` announces a message that its receiver shall fetch: where it is.
    fn say_where(&mut self, now: Instant, buf: BufId, len: u64) {
        let told = self.whereabouts_for((self.tx.link, &{ self.tx.to.0 }), buf, len);
        self.whereabouts.push(told.unwrap_or([0; _]));
        if told.is_some() {
            self.expect_answer(now, len);
        }
    }

    /// Whether a peer was met just now, and the best way to it may not be known.
    pub(crate) fn is_settling(&self, now: Instant) -> bool {
        now < self.settling_until
    }

    /// Where a message is that a peer may read.
    pub(super) fn whereabouts_for(
        &mut self,
        (link, to): (u8, &Locator),
        buf: BufId,
        len: u64,
    ) -> Option<Whereabouts> {
        if self.home.takes(link, to) {
            return Some(home::whereabouts_of(memory_of(buf)));
        }
        let link = self.links[usize::from(link)].telling()?;
        link.tell(to, memory_of(buf), len, &mut self.memory)
    }

    /// A peer reads so many bytes of ours, and is not heard of before: who waits for that had better not sleep.
    pub(super) fn expect_answer(&mut self, now: Instant, len: u64) {
        self.answer_by = Instant(self.answer_by.0.max(now.0)) + len / LARGE_BYTES_PER_NS;
    }

    /// Hands the bursts to their links.
    fn flush(&mut self) -> usize {
        let mut sent = 0;
        if !self.home.burst.is_empty() {
            sent += self.home.turn_around(&mut self.memory);
        }
        for (link, outbox) in self.links.iter_mut().zip(&mut self.outboxes) {
            if outbox.burst.is_empty() {
                continue;
            }
            match link.send(&outbox.burst, outbox.first, &mut self.memory) {
                Ok(count) => {
                    outbox.first += count;
                    sent += count;
                }
                Err(_) => {
                    // What a link cannot send is lost, and the protocol repairs it or finds the peer gone.
                    self.counters.link_errors += 1;
                    outbox.first = outbox.burst.len();
                }
            }
            if outbox.first >= outbox.burst.len() {
                outbox.burst.clear();
                outbox.first = 0;
            } else {
                self.counters.sends_blocked += 1;
            }
        }
        sent
    }
}

/// Whether the link of this way takes a frame now, to keep it until its peer takes it out, as one in memory does. What goes to ourselves goes by no link.
#[inline]
pub(super) fn is_taken_now<L: Link<M>, M: UserMemory>(
    home: &Home,
    links: &mut [L],
    (link, to): (u8, &Locator),
    head: &[u8],
    body: &[u8],
) -> bool {
    !home.takes(link, to)
        && links[usize::from(link)].in_memory().is_some_and(|ring| ring.put(to, head, body))
}

/// A frame leaves now; false: it stands in a burst.
fn has_left<L: Link<M>, M: UserMemory>(
    home: &mut Home,
    links: &mut [L],
    outboxes: &mut [Outbox],
    lone: &Lone,
    frame: &[u8],
) -> bool {
    let to = &lone.to.0;
    let is_own = home.takes(lone.link, to);
    if !is_own && links[usize::from(lone.link)].send_now(to, frame, frame.len()) {
        return true;
    }
    let burst = burst_for(home, outboxes, lone.link, to);
    burst.begin(*to);
    burst.head(frame);
    false
}

/// Where a frame for this place goes: to ourselves, or to its link.
fn burst_for<'a>(
    home: &'a mut Home,
    outboxes: &'a mut [Outbox],
    link: u8,
    to: &Locator,
) -> &'a mut Burst {
    match home.takes(link, to) {
        true => &mut home.burst,
        false => &mut outboxes[usize::from(link)].burst,
    }
}
