//! One direction between two ports: its rules, its order, and the dice.
//!
//! What befalls the k-th frame of a pair is a function of the seed, the pair, the kind of fault and k.
//! Nothing is drawn from a common stream: traffic elsewhere, or a fault switched on or off, changes
//! no other frame's fate, and a scenario cut down to its core still fails the same way.

use super::address::Port;
use super::conditions::Ruling;
use super::rng::Rng;
use super::trace::Reason;

/// At most this many bits of a corrupted frame are flipped.
const FLIPS_MAX: usize = 8;

/// Independent dice, one for each kind of fault.
#[derive(Debug)]
struct Dice {
    loss: Rng,
    burst: Rng,
    jitter: Rng,
    reorder: Rng,
    duplicate: Rng,
    corrupt: Rng,
    truncate: Rng,
    stream: Rng,
}

/// How long a frame takes through shared memory.
const SURE_NS: u64 = 200;
/// How often a stream breaks and stalls, for each frame; how long each may last.
const BREAK_PPM: u32 = 10_000;
const REOPEN_NS_MAX: u64 = 60_000_000;
const STALL_PPM: u32 = 5_000;
const STALL_NS_MAX: u64 = 5_000_000;

/// Frames from one port to another.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) from: Port,
    pub(super) to: Port,
    pub(super) ruling: Ruling,
    dice: Dice,
    /// Frames sent so far: the next one's place in the order.
    sent_count: u64,
    /// In the bad state of `Conditions::burst`.
    is_bad: bool,
    /// No frame that keeps the order arrives before this.
    latest_ns: u64,
    /// One more than the highest place delivered.
    delivered_end: u64,
    /// Of a stream: when it is open again after its last break, and one more than the last place in what broke.
    opens_ns: u64,
    broken_end: u64,
}

/// One copy of one frame of a pair: the number its dice are thrown with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Throw(u64);

impl Throw {
    pub(super) fn new(order: u64, is_copy: bool) -> Self {
        Self(order * 2 + u64::from(is_copy))
    }

    fn rng(self, die: &Rng) -> Rng {
        die.fork_n(self.0)
    }

    /// A number in `0..=max`, thrown only if there is a choice.
    fn up_to(self, die: &Rng, max: u64) -> u64 {
        if max == 0 { 0 } else { self.rng(die).range(0..=max) }
    }

    fn chance(self, die: &Rng, ppm: u32) -> bool {
        ppm > 0 && self.rng(die).chance(ppm)
    }
}

impl Pair {
    pub(super) fn new(seed: &Rng, from: Port, to: Port, ruling: Ruling) -> Self {
        let place = |port: Port| u64::from(port.node) << 8 | u64::from(port.port);
        let rng = seed.fork_n(place(from)).fork_n(place(to));
        let dice = Dice {
            loss: rng.fork("loss"),
            burst: rng.fork("burst"),
            jitter: rng.fork("jitter"),
            reorder: rng.fork("reorder"),
            duplicate: rng.fork("duplicate"),
            corrupt: rng.fork("corrupt"),
            truncate: rng.fork("truncate"),
            stream: rng.fork("stream"),
        };
        Self {
            from,
            to,
            ruling,
            dice,
            sent_count: 0,
            is_bad: false,
            latest_ns: 0,
            delivered_end: 0,
            opens_ns: 0,
            broken_end: 0,
        }
    }

    /// Another frame is sent: its place in the order.
    pub(super) fn on_send(&mut self) -> u64 {
        self.sent_count += 1;
        self.sent_count - 1
    }

    /// Whether, and why, the network loses this frame.
    pub(super) fn loses(&mut self, order: u64, len: usize) -> Option<Reason> {
        let throw = Throw::new(order, false);
        let in_burst = self.loses_in_burst(throw);
        let conditions = &self.ruling.conditions;
        if self.ruling.is_cut {
            Some(Reason::Partition)
        } else if len as u64 > u64::from(conditions.frame_len_max) {
            Some(Reason::Mtu)
        } else if in_burst {
            Some(Reason::Burst)
        } else if throw.chance(&self.dice.loss, conditions.loss_ppm) {
            Some(Reason::Random)
        } else {
            None
        }
    }

    fn loses_in_burst(&mut self, throw: Throw) -> bool {
        let Some(burst) = self.ruling.conditions.burst else {
            self.is_bad = false;
            return false;
        };
        let mut rng = throw.rng(&self.dice.burst);
        self.is_bad =
            if self.is_bad { !rng.chance(burst.leave_ppm) } else { rng.chance(burst.enter_ppm) };
        self.is_bad && rng.chance(burst.loss_ppm)
    }

    pub(super) fn duplicates(&self, throw: Throw) -> bool {
        throw.chance(&self.dice.duplicate, self.ruling.conditions.duplicate_ppm)
    }

    /// Cuts the end off, perhaps; gives the length it had.
    pub(super) fn truncate(&self, throw: Throw, bytes: &mut Vec<u8>) -> Option<u32> {
        if bytes.is_empty()
            || !throw.chance(&self.dice.truncate, self.ruling.conditions.truncate_ppm)
        {
            return None;
        }
        let len = bytes.len();
        // Another label, for the first number of this throw was the one that decided.
        bytes.truncate(throw.rng(&self.dice.truncate).fork("where").below(len as u64) as usize);
        Some(len as u32)
    }

    /// Flips 1 to 8 bits, perhaps; gives their count. All different, so that none is flipped back.
    pub(super) fn corrupt(&self, throw: Throw, bytes: &mut [u8]) -> Option<u32> {
        if bytes.is_empty() || !throw.chance(&self.dice.corrupt, self.ruling.conditions.corrupt_ppm)
        {
            return None;
        }
        let mut rng = throw.rng(&self.dice.corrupt).fork("where");
        let count = rng.range(1..=FLIPS_MAX as u64) as usize;
        let mut flipped = [u64::MAX; FLIPS_MAX];
        let mut done = 0;
        while done < count {
            let bit = rng.below(bytes.len() as u64 * 8); // at least as many as FLIPS_MAX: this ends
            if !flipped[..done].contains(&bit) {
                flipped[done] = bit;
                done += 1;
                bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
        }
        Some(count as u32)
    }

    /// For how long `reorder_ppm` holds the frame back.
    pub(super) fn held_back_ns(&self, throw: Throw) -> u64 {
        let conditions = &self.ruling.conditions;
        if conditions.reorder_ns == 0 || !throw.chance(&self.dice.reorder, conditions.reorder_ppm) {
            return 0;
        }
        throw.rng(&self.dice.reorder).fork("long").range(1..=conditions.reorder_ns)
    }

    /// How much later than the original a copy arrives.
    pub(super) fn copy_late_ns(&self, throw: Throw) -> u64 {
        throw.up_to(&self.dice.duplicate, self.ruling.conditions.duplicate_ns)
    }

    /// When a frame that starts to fly now is at the other end. Who keeps the order arrives no
    /// earlier than those before; who is held back (`late_ns`) detains nobody.
    pub(super) fn lands_at(&mut self, throw: Throw, now_ns: u64, late_ns: u64) -> u64 {
        let conditions = &self.ruling.conditions;
        let jitter_ns = throw.up_to(&self.dice.jitter, conditions.jitter_ns);
        let flight_ns = conditions.delay_ns.saturating_add(jitter_ns);
        let lands_ns = now_ns.saturating_add(flight_ns).max(self.latest_ns);
        if late_ns == 0 {
            self.latest_ns = lands_ns;
        }
        lands_ns.saturating_add(late_ns) // for ever is a delay, too
    }

    /// When a frame through shared memory arrives.
    pub(super) fn lands_surely_at(&mut self, now_ns: u64) -> u64 {
        self.latest_ns = self.latest_ns.max(now_ns.saturating_add(SURE_NS));
        self.latest_ns
    }

    /// When a frame by a stream arrives; `None` if the stream breaks at it, or is not open.
    pub(super) fn lands_in_stream_at(&mut self, order: u64, now_ns: u64) -> Option<u64> {
        let mut rng = Throw::new(order, false).rng(&self.dice.stream);
        if now_ns < self.opens_ns {
            return None;
        }
        if rng.chance(BREAK_PPM) {
            self.opens_ns = now_ns.saturating_add(rng.range(1..=REOPEN_NS_MAX));
            self.broken_end = order + 1;
            return None;
        }
        let stall_ns = if rng.chance(STALL_PPM) { rng.range(0..=STALL_NS_MAX) } else { 0 };
        let flight_ns = self.ruling.conditions.delay_ns.saturating_add(stall_ns);
        self.latest_ns = self.latest_ns.max(now_ns.saturating_add(flight_ns));
        Some(self.latest_ns)
    }

    /// Whether the stream broke since this frame was put into it.
    pub(super) fn is_broken_behind(&self, order: u64) -> bool {
        order < self.broken_end
    }

    /// A frame is handed over: did a later one come before it?
    pub(super) fn on_delivered(&mut self, order: u64) -> bool {
        let is_late = order < self.delivered_end;
        self.delivered_end = self.delivered_end.max(order + 1);
        is_late
    }
}
