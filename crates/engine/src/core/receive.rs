//! What a turn takes from the links: frames, payload that landed, notices.
//!
//! Links in memory are asked in every turn, those that cost a system call one after the other and less often (`costly`). Payload
//! that landed where it was predicted is taken first, all that landed wrong is moved out, and only then frames are read: a frame may
//! complete a message, and nobody may be told of one in whose buffer something lies wrong.

use packhorse_link::mem::UserMemory;
use packhorse_link::{Link, Notice};
use packhorse_proto::{Endpoint, Instant, Locator, wire};

use super::Core;
use crate::copies::Later;
use crate::duties::Offload;
use crate::lent::{Lent, lent};
use crate::translate::{landing_of, obstacle_of};

/// Lone frames received in one turn while granted data is expected.
const LONE_COUNT_MAX: usize = 8;
/// Shorter frames are no fragments.
const FRAGMENT_LEN_MIN: usize = 512;
/// Links that have nothing to receive are asked for notices every so many turns: within microseconds, where it spins. Where it sleeps, in each turn.
pub(super) const TURNS_PER_NOTICE: u64 = 32;
/// How often links are asked after a late turn.
const DRAIN_COUNT_MAX: usize = 256;
/// With so many events they are asked no more: whoever hands events out bounds what unread queues hold, and can do so only between two turns.
const DRAIN_EVENTS_MAX: usize = 1 << 14;

impl<L: Link<M>, M: UserMemory> Core<L, M> {
    /// Everything the links hold, after a late turn, but not more than can be handed out.
    pub(super) fn drain(&mut self, now: Instant) -> usize {
        let mut work = 0;
        for _ in 0..DRAIN_COUNT_MAX {
            if self.endpoint.event_count() > DRAIN_EVENTS_MAX {
                break;
            }
            match self.receive(now) {
                0 => break,
                some => work += some,
            }
        }
        work
    }

    /// Asks each link once.
    pub fn receive(&mut self, now: Instant) -> usize {
        (0..self.links.len()).map(|link| self.receive_from(now, link)).sum()
    }

    /// Asks the links in memory, and of the others one after the other until one has nothing: a turn that finds nothing
    /// costs one system call at most, and none if one was made a moment ago (docs/design.md §7).
    pub(super) fn receive_some(&mut self, now: Instant) -> usize {
        let mut work = 0;
        for link in 0..self.links.len() {
            if self.costly.set >> link & 1 == 0 {
                work += self.receive_from(now, link);
            }
        }
        let has_come = work > 0;
        for _ in 0..self.costly.set.count_ones() {
            let Some(link) = self.costly.pick(now, has_come) else { break };
            let got = self.receive_from(now, link);
            if got == 0 {
                break;
            }
            self.costly.on_heard(now, link);
            work += got;
        }
        work
    }

    /// Asks a link once; while granted data is expected, again behind each lone frame: announcements and ends of messages
    /// come between trains, and are answered together.
    fn receive_from(&mut self, now: Instant, index: usize) -> usize {
        let mut work = 0;
        for _ in 0..LONE_COUNT_MAX {
            let (more, is_expecting) = self.receive_once(now, index);
            work += more;
            if more != 1 || !is_expecting {
                break;
            }
        }
        work
    }

    /// Where payload that arrives by a link will probably go.
    fn expected(&self, index: usize) -> Option<packhorse_proto::Landing> {
        let may_land = self.links[index].about().can_land && self.duties.takes_data();
        if may_land { self.endpoint.predict(index as u8) } else { None }
    }

    /// Whether payload that arrives by a link may be scattered to its place.
    pub(super) fn may_land(&self, index: usize) -> bool {
        self.expected(index).is_some()
    }

    /// How much it did, and whether granted data was expected.
    fn receive_once(&mut self, now: Instant, index: usize) -> (usize, bool) {
        let expected = self.expected(index);
        let link = &mut self.links[index];
        let landing = expected.as_ref().map(landing_of);
        let count = match link.receive(landing.as_ref(), &mut self.memory) {
            Ok(count) => count,
            Err(_) => {
                self.counters.link_errors += 1;
                0
            }
        };
        let mut work = 0;
        // A spinning driver finds nothing most of the time, and need not ask for notices every time.
        if count > 0 {
            let payload_len = landing.map_or(0, |landing| landing.payload_len);
            work = self.take_arrived(now, index, expected.as_ref(), count, payload_len);
        } else if self.counters.turns.is_multiple_of(TURNS_PER_NOTICE) {
            work = self.take_notices(now, index);
        }
        (work, expected.is_some())
    }

    /// What a link has just received.
    pub(super) fn take_arrived(
        &mut self,
        now: Instant,
        index: usize,
        expected: Option<&packhorse_proto::Landing>,
        count: usize,
        payload_len: usize,
    ) -> usize {
        let now = self.time.on_arrival(now);
        let before = self.endpoint.content_in();
        let landed = expected.map_or(0, |it| self.take_landed(now, index, it, count));
        let work = landed + self.take_frames(now, index, count, payload_len);
        if self.endpoint.content_in() != before {
            self.costly.on_carried(now, index);
        }
        work + self.take_notices(now, index)
    }

    /// What the links have to tell. Of 32 turns of a driver that sleeps between two the last may come after seconds, behind the silence of a peer
    /// of whose death a link knew.
    pub(super) fn take_all_notices(&mut self, now: Instant) -> usize {
        (0..self.links.len()).map(|link| self.take_notices(now, link)).sum()
    }

    /// What a link has to tell.
    #[inline]
    fn take_notices(&mut self, now: Instant, index: usize) -> usize {
        let mut count = 0;
        while let Some(notice) = self.links[index].poll_notice() {
            if let Notice::Unreachable { to, .. } = &notice {
                self.pairs.on_unreachable(index as u8, to);
            }
            on_notice(&mut self.endpoint, now, index as u8, notice);
            count += 1;
        }
        count
    }

    /// Payload that lies where it was expected is taken; all that lies wrong is moved before any frame is read.
    fn take_landed(
        &mut self,
        now: Instant,
        index: usize,
        expected: &packhorse_proto::Landing,
        count: usize,
    ) -> usize {
        let link = &mut self.links[index];
        let mut lent = Lent {
            memory: &mut self.memory,
            copied: &mut self.counters.bytes_copied_in,
            loans: self.loans.as_mut(),
            later: None,
        };
        let mut work = 0;
        self.lifts.clear();
        for number in 0..count {
            let arrived = link.arrived(number);
            let Some(landed) = arrived.landed else { continue };
            let here = expected.behind(landed.offset.saturating_sub(expected.offset));
            let taken = self.endpoint.on_landed(
                now,
                index as u8,
                &Locator(arrived.from),
                &here,
                arrived.bytes,
                landed.count,
                landed.last_len as u32,
                &mut lent,
            );
            work += taken;
            if taken < landed.count {
                self.lifts.push((number, taken));
            }
        }
        for &(number, first) in &self.lifts {
            link.lift(number, first, &mut self.memory);
        }
        self.counters.landings_wrong += self.lifts.len() as u64;
        work
    }

    /// Frames that are whole: those that did not land, and those that were moved.
    fn take_frames(
        &mut self,
        now: Instant,
        index: usize,
        count: usize,
        payload_len: usize,
    ) -> usize {
        let link = &self.links[index];
        let mut lent = Lent {
            memory: &mut self.memory,
            copied: &mut self.counters.bytes_copied_in,
            loans: self.loans.as_mut(),
            later: self.copier.as_ref().map(|_| Later::default()),
        };
        let mut work = 0;
        // What others keep, or copy later, is looked at frame by frame.
        let may_join = self.duties == Offload::Both && lent.later.is_none();
        for number in 0..count {
            let arrived = link.arrived(number);
            let (mut rest, stride) = arrived.joined(payload_len);
            let from = Locator(arrived.from);
            while !rest.is_empty() {
                if may_join && rest.len() >= FRAGMENT_LEN_MIN {
                    let joined = self.endpoint.on_fragments(
                        now,
                        index as u8,
                        &from,
                        rest,
                        stride,
                        &mut lent,
                    );
                    if joined > 0 {
                        work += joined;
                        rest = &rest[rest.len().min(joined * stride)..];
                        continue;
                    }
                }
                let frame;
                (frame, rest) = rest.split_at(rest.len().min(stride));
                if self.duties != Offload::Both
                    && !self.duties.takes(wire::audience(frame))
                    && self.endpoint.put_aside(now, index as u8, &from, frame)
                {
                    self.kept.push(index as u8, frame);
                    continue;
                }
                if let Some(later) = &mut lent.later {
                    later.frame = frame;
                }
                self.endpoint.on_frame(now, index as u8, from, frame, &mut lent);
                work += 1;
            }
        }
        if let Some(copier) = &mut self.copier {
            lent.copy_noted(copier);
            self.counters.bytes_copied_beside = copier.helped_len();
        }
        work
    }

    /// What others had to leave.
    #[cold]
    pub(super) fn take_kept(&mut self, now: Instant) -> usize {
        let mut count = 0;
        while let Some((link, bytes)) = self.kept.pop() {
            let copied = &mut self.counters.bytes_copied_in;
            let mut lent = lent(&mut self.memory, copied, self.loans.as_mut());
            self.endpoint.on_aside(now, link, &bytes, &mut lent);
            self.kept.reuse(bytes);
            count += 1;
        }
        self.endpoint.end_aside();
        count
    }
}

fn on_notice(endpoint: &mut Endpoint, now: Instant, link: u8, notice: Notice) {
    match notice {
        Notice::Unreachable { to, cause } => {
            endpoint.on_unreachable(now, link, &Locator(to), obstacle_of(&cause));
        }
        Notice::Dead { to } => endpoint.on_dead(now, link, &Locator(to)),
        Notice::TooLong { to, frame_len_max } => {
            endpoint.on_too_long(link, &Locator(to), frame_len_max);
        }
    }
}
