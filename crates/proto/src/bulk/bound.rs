//! Messages that have a receive: bytes go to its memory until none is missing.
//!
//! PROTOCOL §8.1, §8.7, §9.2. What of a message is here already is placed when it is bound; what is missing is awaited (eager), granted (large), or fetched.
//! A message bound to an overflow entry lies there, until a receive claims it.

use crate::base::api::List;
use crate::base::gaps::GapSet;
use crate::base::slab::NONE;
use crate::base::types::{Instant, Memory, Place};
use crate::bulk::Bulk;
use crate::bulk::arrival::{Arrival, Progress, Stage};
use crate::bulk::receives::Fit;
use crate::wire::MessageHead;

/// Where the bytes of a message go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// The receive or overflow entry, or NONE.
    pub(crate) receive: u32,
    /// The receive that waits for a message in an overflow entry, or NONE.
    pub(crate) claimant: u32,
    pub(crate) offset: u64,
    /// How many bytes of it are wanted.
    pub(crate) cap: u64,
}

impl Bound {
    const NOWHERE: Self = Self { receive: NONE, claimant: NONE, offset: 0, cap: 0 };
}

impl Bulk {
    /// A held message got its receive: what is here goes there, the rest will be placed, granted or fetched. True: nothing is missing.
    pub(crate) fn bind(
        &mut self,
        now: Instant,
        slot: u32,
        fit: &Fit,
        memory: &mut impl Memory,
    ) -> bool {
        let arrival = &mut self.arrivals[slot];
        arrival.stage = Stage::Arriving;
        let (hold, index) = (core::mem::replace(&mut arrival.hold, NONE), arrival.progress);
        if hold != NONE {
            self.place_held(hold, index, fit, memory);
        }
        self.uncharge(slot);
        if index == NONE {
            let progress = Progress::held(GapSet::default(), 0, now);
            self.arrivals[slot].progress = self.progress.insert(progress);
        }
        self.aim(now, slot, fit)
    }

    /// Held bytes go to the memory of their receive, and are held no more.
    fn place_held(&mut self, hold: u32, index: u32, fit: &Fit, memory: &mut impl Memory) {
        let buf = self.receives[fit.receive].buf;
        let bytes = self.held.bytes(hold);
        let end = (bytes.len() as u64).min(fit.cap);
        let mut from = 0;
        let gaps = (index != NONE).then(|| &self.progress[index].gaps);
        let past_the_end = core::iter::once((end, end));
        for (gap_start, gap_end) in gaps.iter().flat_map(|gaps| gaps.iter()).chain(past_the_end) {
            let to = gap_start.min(end);
            if from < to {
                let piece = &bytes[from as usize..to as usize];
                memory.place(Place { buf, offset: fit.offset + from }, piece);
                self.peers.counters.bytes_placed += to - from;
            }
            from = from.max(gap_end);
        }
        self.held.release(hold);
    }

    /// Directs the missing bytes of a message to its receive. True: there are none.
    fn aim(&mut self, now: Instant, slot: u32, fit: &Fit) -> bool {
        let total = self.arrivals[slot].total;
        let progress = &mut self.progress[self.arrivals[slot].progress];
        progress.receive = fit.receive;
        progress.offset = fit.offset;
        progress.cap = fit.cap;
        progress.progressed_at = now;
        progress.gaps.fill(fit.cap, total, &mut |_, _| ());
        if progress.gaps.is_empty() {
            return true;
        }
        if self.arrivals[slot].is_large {
            let ahead_to = progress.ahead_to;
            self.start_grants(now, slot, ahead_to);
        }
        false
    }

    /// A message of several frames, or an announced one, found its receive with its first record.
    pub(crate) fn begin_bound(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        fit: &Fit,
    ) -> u32 {
        let mut arrival = Arrival::new(self.peers.rows[row].peer(), head, Stage::Arriving);
        if arrival.is_large {
            self.peers.counters.rendezvous_in += 1;
        }
        if fit.list == List::Overflow {
            arrival.stage = Stage::Unexpected;
            arrival.in_overflow = true;
            arrival.charged = true;
            self.held.charge(&mut self.peers.counters);
        }
        let progress = Progress { told: self.told.take(), ..Progress::bound(fit, now) };
        self.insert_bound(arrival, progress)
    }

    /// The first record of such a message is in its place: if bytes of a large one are missing, they are granted or fetched. By its key, for it may be over.
    pub(crate) fn go_on_with_bound(
        &mut self,
        now: Instant,
        key: u64,
        row: u32,
        head: &MessageHead,
    ) {
        let is_missing = |&slot: &u32| self.arrivals[slot].is_large && !self.is_whole(slot);
        if let Some(slot) = self.arrivals.lookup(key).filter(is_missing) {
            self.start_grants(now, slot, self.taken_ahead(row, head));
        }
    }

    /// A message that the peer holds back is bound to a receive, out of turn (PROTOCOL §7.6): it comes by grants. Whether it has any bytes.
    pub(crate) fn begin_pulled(
        &mut self,
        now: Instant,
        row: u32,
        head: &MessageHead,
        fit: &Fit,
    ) -> (u32, bool) {
        let mut arrival = Arrival::new(self.peers.rows[row].peer(), head, Stage::Arriving);
        arrival.is_large = true;
        let slot = self.insert_bound(arrival, Progress::bound(fit, now));
        if fit.cap > 0 {
            self.start_grants(now, slot, 0);
        }
        (slot, fit.cap > 0)
    }

    fn insert_bound(&mut self, mut arrival: Arrival, progress: Progress) -> u32 {
        arrival.progress = self.progress.insert(progress);
        let slot = self.insert_arrival(arrival);
        self.map(slot);
        slot
    }

    /// No byte of an arrival is missing that is wanted.
    pub(crate) fn is_whole(&self, slot: u32) -> bool {
        match self.arrivals[slot].progress {
            NONE => true,
            index => self.progress[index].gaps.is_empty(),
        }
    }

    /// Where the bytes of a message go.
    #[inline]
    pub(crate) fn bound_of(&self, slot: u32) -> Bound {
        self.progress.get(self.arrivals[slot].progress).map_or(Bound::NOWHERE, |progress| {
            let &Progress { receive, claimant, offset, cap, .. } = progress;
            Bound { receive, claimant, offset, cap }
        })
    }

    /// A message that is bound to this receive, or lies in this overflow entry.
    pub(crate) fn first_bound_to(&self, receive: u32) -> Option<u32> {
        let is_bound = |slot: u32| {
            let Bound { receive: place, claimant, .. } = self.bound_of(slot);
            place == receive || claimant == receive
        };
        self.arrivals.iter().map(|(slot, _)| slot).find(|&slot| is_bound(slot))
    }
}

/// In an overflow entry.
impl Bulk {
    /// A receive claims a message that lies in an overflow entry. True: the message is whole.
    pub(crate) fn claim_overflow(&mut self, slot: u32, claimant: u32) -> bool {
        let progress = &mut self.progress[self.arrivals[slot].progress];
        progress.claimant = claimant;
        progress.gaps.is_empty()
    }

    /// That receive is over before the message.
    pub(crate) fn unclaim_overflow(&mut self, slot: u32) {
        self.progress[self.arrivals[slot].progress].claimant = NONE;
    }

    /// All of a large message lies in an overflow entry: nothing more is granted.
    pub(crate) fn end_large_overflow(&mut self, slot: u32) {
        self.stop_grants(slot);
        self.arrivals[slot].is_large = false;
    }
}
