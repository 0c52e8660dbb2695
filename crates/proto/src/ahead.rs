//! Large messages, their first bytes ahead of the grant.
//!
//! PROTOCOL §8.9. A grant costs a round trip, and where the receive is posted already it tells nothing new. So the first bytes
//! of a large message follow its announcement at once, which says how many: matched on the spot, they count as granted.
//! Otherwise they are dropped, and granted like all others when their time comes; from that the sender learns that this
//! peer is not that quick, and asks first for a while. Longer messages of those that go unasked (§7.9) do the same when some of them is
//! lost: where many send to one, its socket holds so many at most.

use crate::ack::expand;
use crate::arrival::{Verdict, lane_key};
use crate::endpoint::Endpoint;
use crate::peer::NO_MESSAGE;
use crate::post::{Outgoing, Parts};
use crate::slab::NONE;
use crate::types::Instant;
use crate::wire::Lane;

/// What is ahead of its grant and not over, to all peers together: so many times what one message may have. Where all send to all,
/// no receiver gets more than that on average.
const SHARE_COUNT: u64 = 4;
/// Who has more than so many times what goes ahead asks first: beside all its data one round trip is little, and the grants that
/// follow bytes sent ahead come in the midst of them (1 MB over `udp` took a tenth longer).
const PARTLY_COUNT: u64 = 2;
/// Messages that ask first after bytes were sent in vain; twice as many each time.
const PAUSE_MAX: u8 = 64;

/// What was said of a message of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// Nothing, if it is a large one.
    No,
    /// That it comes up to here without a grant.
    Yes { ahead_to: u32 },
    /// The same, and the peer has granted some of it.
    Known { ahead_to: u32, in_vain: bool },
}

impl Announced {
    /// The peer knows it, and does not refuse it any more.
    pub(crate) fn is_known(self) -> bool {
        matches!(self, Self::Known { .. })
    }

    pub(crate) fn ahead_to(self) -> u64 {
        match self {
            Self::No => 0,
            Self::Yes { ahead_to } | Self::Known { ahead_to, .. } => ahead_to.into(),
        }
    }
}

/// What may go to a peer without a grant.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Bytes of announced messages that go wholly ahead.
    whole_len: u32,
    /// Announced messages that need a grant: while there are any, their peer grants them first.
    asking_count: u32,
    /// Messages that ask first from now on, and how many did so the last time.
    pause_count: u8,
    last_pause_count: u8,
}

impl Ahead {
    /// A large message is announced: how much of it goes ahead, at most `len_max` bytes.
    fn choose(&mut self, total: u64, len_max: u32, sum: u64) -> u32 {
        let most = u64::from(len_max);
        let may_go = total <= most || (self.whole_len == 0 && total <= PARTLY_COUNT * most);
        let is_free = may_go && sum + total.min(most) <= SHARE_COUNT * most;
        if len_max == 0 || self.asking_count > 0 || !is_free {
            return 0;
        }
        if self.pause_count > 0 {
            self.pause_count -= 1;
            return 0;
        }
        total.min(most) as u32
    }

    /// Notes a message as announced; `sum` is what is ahead to all peers. True unless it was before: its announcement was lost, and says the same again.
    pub(crate) fn announce(&mut self, send: &mut Outgoing, len_max: u32, sum: &mut u64) -> bool {
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

    /// The peer grants a message from `offset` on.
    pub(crate) fn on_granted(&mut self, send: &mut Outgoing, offset: u64) {
        if let Announced::Yes { ahead_to } = send.announced {
            let in_vain = offset < ahead_to.into();
            send.announced = Announced::Known { ahead_to, in_vain };
            if in_vain {
                self.pause();
            }
        }
    }

    /// Whether the next message that may go unasked had better ask: some of an earlier one was sent in vain.
    pub(crate) fn asks_first(&mut self) -> bool {
        let is_pause = self.pause_count > 0;
        self.pause_count = self.pause_count.saturating_sub(1);
        is_pause
    }

    /// Some of a message that nobody had asked for was lost.
    pub(crate) fn on_lost(&mut self) {
        if self.pause_count == 0 {
            self.pause();
        }
    }

    fn pause(&mut self) {
        self.last_pause_count = (2 * self.last_pause_count).clamp(1, PAUSE_MAX);
        self.pause_count = self.last_pause_count;
    }

    /// A message is over. `was_sure`: it would have gone unasked whatever happened before.
    pub(crate) fn on_ended(&mut self, send: &Outgoing, was_sure: bool, sum: &mut u64) {
        self.forget(send, sum);
        match send.announced {
            Announced::No if !was_sure && self.pause_count == 0 => {
                self.last_pause_count = 0; // unasked, and it got through
            }
            Announced::No | Announced::Known { in_vain: true, .. } => {}
            Announced::Yes { ahead_to: 0 } | Announced::Known { ahead_to: 0, .. } => {}
            Announced::Yes { .. } | Announced::Known { .. } => self.last_pause_count = 0,
        }
    }

    /// A message is refused, and will be announced again.
    pub(crate) fn on_refused(&mut self, send: &mut Outgoing, sum: &mut u64) {
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

/// As a sender.
impl Endpoint {
    /// An announcement leaves: the first bytes follow it.
    pub(crate) fn send_ahead(&mut self, slot: u32) {
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
impl Endpoint {
    /// A message was matched as it was announced: what comes ahead counts as granted, if the budget has room for it.
    pub(crate) fn grant_ahead(&mut self, now: Instant, slot: u32, ahead_to: u64) {
        let (row, index) = (self.arrivals[slot].row, self.arrivals[slot].progress);
        let progress = &mut self.progress[index];
        let start = progress.granted_to;
        let end = ahead_to.min(self.settings.ahead_len.into()).min(progress.cap);
        let len = end.saturating_sub(start);
        if len == 0 || len > self.grants.room(slot) {
            return;
        }
        progress.granted_to = end;
        progress.progressed_at = now;
        let missing = progress.gaps.missing_within(start, end);
        self.counters.granted_ahead += 1;
        self.grants.on_granted(slot, len);
        self.grants.on_arrived(slot, len - missing);
        self.judge_readiness(slot);
        if self.rows[row].granting == slot && self.grants.remaining_of(slot) == 0 {
            self.pass_turn(row, now + self.settings.initial_rtt_ns);
        }
    }

    /// How far an announced message may be taken ahead: not at all if some of it came before its announcement, and is gone.
    pub(crate) fn taken_ahead(&self, row: u32, message: u32, ahead_to: u64) -> u64 {
        let this = &self.rows[row];
        if expand(message, this.message_in) < this.ahead_missed_to { 0 } else { ahead_to }
    }

    /// Data of a message that is not arriving: it has ended, or waits for a receive, or its announcement is late.
    pub(crate) fn on_data_of_none(&mut self, row: u32, lane: Lane, message: u32) -> Verdict {
        let this = &mut self.rows[row];
        let number = expand(message, this.message_in);
        let is_late = lane == Lane::Message
            && number >= this.message_in
            && this.refused_from == NO_MESSAGE
            && !self.by_number.contains_key(&lane_key(lane, row, message));
        if is_late {
            this.ahead_missed_to = this.ahead_missed_to.max(number + 1);
        }
        Verdict::Accepted
    }
}
