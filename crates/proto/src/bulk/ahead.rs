//! Large messages, their first bytes ahead of the grant.
//!
//! PROTOCOL §8.9. A grant costs a round trip, and where the receive is posted already it tells nothing new. So the first bytes
//! of a large message follow its announcement at once, which says how many: matched before they are looked at, they count as granted.
//! Otherwise they are dropped, and granted like all others when their time comes; from that the sender learns that this
//! peer is not that quick, and asks first for a while. How many bytes go ahead the sender learns, too: a train at first, then as much as
//! the peer was seen to grant at a stroke. Longer messages of those that go unasked (§7.9) do the same when some of them is
//! lost: where many send to one, its socket holds so many at most.

use crate::base::api::Verdict;
use crate::base::slab::NONE;
use crate::base::types::Instant;
use crate::bulk::Bulk;
use crate::bulk::arrival::lane_key;
use crate::bulk::outgoing::{Announced, Outgoing, Parts};
use crate::peers::rows::Ahead;
use crate::wire::{AHEAD_UNIT, Lane, MessageHead};

/// What is ahead of its grant and not over, to all peers together: so many times `ahead_len`. Where all send to all, no receiver gets
/// more than that on average.
const SHARE_COUNT: u64 = 5;
/// Of a longer message than so many times what goes ahead, a single train does not: beside all its data one round trip is little, and the
/// grant for the rest comes when the train has left and its sender stands still already (1 MB over `udp` took a tenth longer). Several
/// trains keep the sender busy until the grant is there.
const PARTLY_COUNT: u64 = 2;
/// The most that an announcement can speak of.
const AHEAD_LEN_MAX: u64 = u16::MAX as u64 * AHEAD_UNIT;
/// Messages that ask first after bytes were sent in vain; twice as many each time.
const PAUSE_MAX: u8 = 64;

impl Ahead {
    /// A large message is announced: how much of it goes ahead. `len_max` bytes may, and more to a peer that was seen to take more.
    fn choose(&mut self, total: u64, len_max: u32, sum: u64) -> u32 {
        let (least, share) = (u64::from(len_max), share_len(len_max));
        let most = (u64::from(self.at_once) * AHEAD_UNIT)
            .clamp(least, share)
            .min(share.saturating_sub(sum));
        let len = total.min(most);
        let is_long = most >= PARTLY_COUNT * least || total <= PARTLY_COUNT * most;
        let is_worth_it = len == total || (most >= least && self.whole_len == 0 && is_long);
        if len_max == 0 || self.asking_count > 0 || !is_worth_it {
            return 0;
        }
        if self.pause_count > 0 {
            self.pause_count -= 1;
            return 0;
        }
        len as u32
    }

    /// Notes a message as announced; `sum` is what is ahead to all peers. True unless it was before: its announcement was lost, and says the same again.
    pub(super) fn announce(&mut self, send: &mut Outgoing, len_max: u32, sum: &mut u64) -> bool {
        if send.announced != Announced::No {
            return false;
        }
        let ahead_to = self.choose(send.total, len_max, *sum);
        *sum += u64::from(ahead_to);
        send.announced = Announced::Yes { ahead_to };
        match u64::from(ahead_to) == send.total {
            true => self.whole_len += ahead_to,
            false => self.asking_count += 1,
        }
        true
    }

    /// Notes a message as announced by a frame that was given to its link.
    #[inline]
    pub(super) fn announce_given(&mut self, send: &mut Outgoing) {
        send.announced = Announced::Given;
        self.asking_count += 1;
    }

    /// The peer grants a message from `offset` to `end`.
    pub(super) fn on_granted(&mut self, send: &mut Outgoing, offset: u64, end: u64) {
        if let Announced::Yes { .. } | Announced::Given = send.announced {
            let ahead_to = send.announced.ahead_to() as u32;
            // Of a message that ends there it says no more than that.
            let units = end.div_ceil(AHEAD_UNIT).min(u16::MAX.into()) as u16;
            if units > self.at_once || end < send.total {
                self.at_once = units;
            }
            let in_vain = offset < ahead_to.into();
            send.announced = Announced::Known { ahead_to, in_vain };
            if in_vain {
                self.pause();
            }
        }
    }

    /// Whether the next message that may go unasked had better ask: some of an earlier one was sent in vain.
    pub(super) fn asks_first(&mut self) -> bool {
        let is_pause = self.pause_count > 0;
        self.pause_count = self.pause_count.saturating_sub(1);
        is_pause
    }

    /// Whether messages ask first for a while. Unlike `asks_first` this counts no message.
    pub(super) fn is_pausing(&self) -> bool {
        self.pause_count > 0
    }

    /// Some of a message that nobody had asked for was lost.
    pub(super) fn on_lost(&mut self) {
        if self.pause_count == 0 {
            self.pause();
        }
    }

    fn pause(&mut self) {
        self.last_pause_count = (2 * self.last_pause_count).clamp(1, PAUSE_MAX);
        self.pause_count = self.last_pause_count;
    }

    /// A message is over. `was_sure`: it would have gone unasked whatever happened before.
    pub(super) fn on_ended(&mut self, send: &Outgoing, was_sure: bool, sum: &mut u64) {
        self.forget(send, sum);
        match send.announced {
            Announced::No if !was_sure && self.pause_count == 0 => {
                self.last_pause_count = 0; // unasked, and it got through
            }
            Announced::No | Announced::Given | Announced::Known { in_vain: true, .. } => {}
            Announced::Yes { ahead_to: 0 } | Announced::Known { ahead_to: 0, .. } => {}
            Announced::Yes { .. } | Announced::Known { .. } => self.last_pause_count = 0,
        }
    }

    /// A message is refused, and will be announced again.
    pub(super) fn on_refused(&mut self, send: &mut Outgoing, sum: &mut u64) {
        self.forget(send, sum);
        if send.announced.ahead_to() > 0 {
            self.pause();
        }
        send.announced = Announced::No;
    }

    fn forget(&mut self, send: &Outgoing, sum: &mut u64) {
        *sum -= send.announced.ahead_to();
        match send.announced {
            Announced::No => {}
            announced if announced.ahead_to() == send.total => {
                self.whole_len -= send.total as u32;
            }
            _ => self.asking_count -= 1,
        }
    }
}

/// What may be ahead to all peers together, and of one message at most.
fn share_len(ahead_len: u32) -> u64 {
    (SHARE_COUNT * u64::from(ahead_len)).min(AHEAD_LEN_MAX)
}

/// As a sender.
impl Bulk {
    /// An announcement leaves: the first bytes follow it.
    pub(super) fn send_ahead(&mut self, slot: u32) {
        let send = &mut self.outgoing[slot];
        let ahead_to = send.announced.ahead_to();
        if ahead_to == 0 {
            return;
        }
        if send.parts == NONE {
            send.parts = self.parts.insert(Parts::default());
        }
        self.parts[send.parts].unsent.add(0, ahead_to);
        self.queue_granted(slot);
    }
}

/// As a receiver.
impl Bulk {
    /// A message was matched, and nothing of what comes ahead of its grant was dropped: it counts as granted, if the budget has room for it.
    pub(super) fn grant_ahead(&mut self, now: Instant, slot: u32, ahead_to: u64) {
        let (row, index) = (self.arrivals[slot].row, self.arrivals[slot].progress);
        let progress = &mut self.progress[index];
        let start = progress.granted_to;
        let end = ahead_to.min(share_len(self.peers.settings.ahead_len)).min(progress.cap);
        let len = end.saturating_sub(start);
        if len == 0 || len > self.grants.room(slot) {
            return;
        }
        (progress.granted_to, progress.ahead_to) = (end, end);
        progress.progressed_at = now;
        let missing = progress.gaps.missing_within(start, end);
        self.peers.counters.granted_ahead += 1;
        self.grants.on_granted(slot, len);
        self.grants.on_arrived(slot, len - missing);
        self.judge_readiness(slot);
        if self.peers.rows[row].large.granting == slot && self.grants.remaining_of(slot) == 0 {
            self.pass_turn(row, now + self.peers.settings.initial_rtt_ns);
        }
    }

    /// How far an announced message may be taken ahead: not at all if some of it came before its announcement, and is gone.
    pub(super) fn taken_ahead(&self, row: u32, head: &MessageHead) -> u64 {
        let this = &self.peers.rows[row];
        match this.numbers.whole(head.message) < this.ahead_missed_to {
            true => 0,
            false => u64::from(head.ahead) * AHEAD_UNIT,
        }
    }

    /// Data of a message that is not arriving: it has ended, or waits for a receive, or its announcement is late. It is dropped, so the
    /// message must be granted from its beginning.
    pub(crate) fn on_data_of_none(&mut self, row: u32, lane: Lane, message: u32) -> Verdict {
        if lane != Lane::Message {
            return Verdict::Accepted;
        }
        let this = &mut self.peers.rows[row];
        let number = this.numbers.whole(message);
        match self.by_number.get(&lane_key(lane, row, message)) {
            Some(&slot) => {
                if let Some(progress) = self.progress.get_mut(self.arrivals[slot].progress) {
                    progress.ahead_to = 0;
                }
            }
            None if !this.numbers.is_past(number) && this.numbers.refused_from().is_none() => {
                this.ahead_missed_to = this.ahead_missed_to.max(number + 1);
            }
            None => {}
        }
        Verdict::Accepted
    }
}
