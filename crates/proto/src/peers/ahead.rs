//! How much of a message goes to a peer without a grant: what its sender has learned of that peer.
//!
//! PROTOCOL §8.9. The first bytes of a large message go ahead of its grant. If they came in vain (nothing was posted for them, and they were dropped), this
//! peer is not that quick, and the next messages ask first for a while. How many bytes go ahead is learned, too: a train at first, then as much as
//! the peer was seen to grant at a stroke. Longer messages of those that go unasked (§7.9) do the same when some of them is
//! lost: where many send to one, its socket holds so many at most.

use crate::wire::AHEAD_UNIT;

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

/// What was said of a message of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// Nothing, if it is a large one.
    No,
    /// That it comes up to here without a grant.
    Yes { ahead_to: u32 },
    /// That it is there, by a frame that was given to its link: no packet tells whether the peer accepted it.
    Given,
    /// That it comes up to here without a grant; and the peer has granted some of it.
    Known { ahead_to: u32, in_vain: bool },
}

impl Announced {
    /// The peer knows it, and does not refuse it any more.
    pub(crate) fn is_known(self) -> bool {
        matches!(self, Self::Known { .. })
    }

    pub(crate) fn ahead_to(self) -> u64 {
        match self {
            Self::No | Self::Given => 0,
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
    /// Up to here the peer took a message at a stroke: how far its first grant went, in units of `AHEAD_UNIT`. It has room for as much
    /// at a time.
    at_once: u16,
    /// Messages that ask first from now on, and how many did so the last time.
    pause_count: u8,
    last_pause_count: u8,
}

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
    pub(crate) fn announce(
        &mut self,
        (announced, total): (&mut Announced, u64),
        len_max: u32,
        sum: &mut u64,
    ) -> bool {
        if *announced != Announced::No {
            return false;
        }
        let ahead_to = self.choose(total, len_max, *sum);
        *sum += u64::from(ahead_to);
        *announced = Announced::Yes { ahead_to };
        match u64::from(ahead_to) == total {
            true => self.whole_len += ahead_to,
            false => self.asking_count += 1,
        }
        true
    }

    /// Notes a message as announced by a frame that was given to its link.
    #[inline]
    pub(crate) fn announce_given(&mut self, announced: &mut Announced) {
        *announced = Announced::Given;
        self.asking_count += 1;
    }

    /// The peer grants a message from `offset` to `end`.
    pub(crate) fn on_granted(
        &mut self,
        (announced, total): (&mut Announced, u64),
        offset: u64,
        end: u64,
    ) {
        if let Announced::Yes { .. } | Announced::Given = *announced {
            let ahead_to = announced.ahead_to() as u32;
            // Of a message that ends there it says no more than that.
            let units = end.div_ceil(AHEAD_UNIT).min(u16::MAX.into()) as u16;
            if units > self.at_once || end < total {
                self.at_once = units;
            }
            let in_vain = offset < ahead_to.into();
            *announced = Announced::Known { ahead_to, in_vain };
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

    /// Whether messages ask first for a while. Unlike `asks_first` this counts no message.
    pub(crate) fn is_pausing(&self) -> bool {
        self.pause_count > 0
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
    pub(crate) fn on_ended(
        &mut self,
        (announced, total): (Announced, u64),
        was_sure: bool,
        sum: &mut u64,
    ) {
        self.forget(announced, total, sum);
        match announced {
            Announced::No if !was_sure && self.pause_count == 0 => {
                self.last_pause_count = 0; // unasked, and it got through
            }
            Announced::No | Announced::Given | Announced::Known { in_vain: true, .. } => {}
            Announced::Yes { ahead_to: 0 } | Announced::Known { ahead_to: 0, .. } => {}
            Announced::Yes { .. } | Announced::Known { .. } => self.last_pause_count = 0,
        }
    }

    /// A message is refused, and will be announced again.
    pub(crate) fn on_refused(&mut self, (announced, total): (&mut Announced, u64), sum: &mut u64) {
        self.forget(*announced, total, sum);
        if announced.ahead_to() > 0 {
            self.pause();
        }
        *announced = Announced::No;
    }

    fn forget(&mut self, announced: Announced, total: u64, sum: &mut u64) {
        *sum -= announced.ahead_to();
        match announced {
            Announced::No => {}
            _ if announced.ahead_to() == total => self.whole_len -= total as u32,
            _ => self.asking_count -= 1,
        }
    }
}

/// What may be ahead to all peers together, and of one message at most.
pub(crate) fn share_len(ahead_len: u32) -> u64 {
    (SHARE_COUNT * u64::from(ahead_len)).min(AHEAD_LEN_MAX)
}
