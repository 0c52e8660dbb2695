//! Who is granted next.
//!
//! Many senders want to send large messages to one receiver, and what they send meets at its last cable. So the
//! receiver keeps the sum of granted, not arrived bytes (*open* bytes) within a budget (PROTOCOL §8.3) and chooses
//! whom to grant (§8.4): small remaining lengths first, since then most wait least; but near-equals in turn, and
//! sometimes the oldest, so that nobody waits for ever. What was granted and does not come for long counts no more: else a
//! peer that announces and sends nothing would keep all others waiting.
//!
//! ```text
//! class   14          15               16    17          remaining length in [2^class, 2^(class + 1))
//!         m3 -> m9    m1 -> m7 -> m4         m2
//!         '---- these take turns ---'        waits, but is granted one in eight if it is the oldest
//! ```
//!
//! Why two classes are served as one: equal messages are granted in turn, and the first to fall below a power of
//! two would otherwise be alone in the lowest class and be served to its end, while its equals wait just above the
//! boundary. With the class above counted as equal this cannot happen while at least two grants remain: one grant
//! then takes a message down by one class at most. Only a message's last grant may go before its turn.
//!
//! The oldest gets its eighth only while it is not in turn anyway. Given to one of 64 equals, it put that one two
//! classes ahead, to be served alone to its end: with 3000 grants each the others waited 821 turns, now 64.
//!
//! A turn is a place in a queue: who is granted or becomes ready goes to the back. Each class is a queue in the order
//! of such stamps, so the least recent of two classes is the elder of two heads. All is O(1) with intrusive lists,
//! but for the oldest: every eighth choice walks past the messages that started earlier and cannot be granted now.
//! These have open bytes, so the budget bounds their number.

use alloc::vec::Vec;

use crate::base::limits::GrantPolicy;

/// One grant in this many goes to the oldest message.
const OLDEST_EVERY: u8 = 8;

/// Classes: a remaining length has 64 bits.
const CLASS_COUNT: usize = 64;

/// No slot.
const NONE: u32 = u32::MAX;

/// A list's neighbours of a sharer.
#[derive(Clone, Copy, Debug)]
struct Neighbours {
    prev: u32,
    next: u32,
}

const UNLINKED: Neighbours = Neighbours { prev: NONE, next: NONE };

/// The two lists a message can be in.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Its class, by stamp: only while it can be granted.
    Turn,
    /// All messages, by start.
    Age,
}

/// A message that has its share of the grants, or a slot without one.
#[derive(Clone, Debug)]
struct Sharer {
    /// Bytes still to be granted.
    remaining: u64,
    /// Bytes granted and not arrived.
    open: u64,
    /// Of these, those that count against the budget: all, but for what was waited for in vain.
    counted: u64,
    /// When it joined the queue of its class.
    stamp: u64,
    links: [Neighbours; 2],
    /// The class in whose queue it is, if it is in one.
    class: Option<u8>,
    /// Between `start` and `stop`.
    started: bool,
    /// Its own rule allows another grant.
    ready: bool,
}

const VACANT: Sharer = Sharer {
    remaining: 0,
    open: 0,
    counted: 0,
    stamp: 0,
    links: [UNLINKED; 2],
    class: None,
    started: false,
    ready: false,
};

/// A list through the sharers.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

impl List {
    const EMPTY: Self = Self { head: NONE, tail: NONE };

    fn push_back(&mut self, sharers: &mut [Sharer], order: Order, slot: u32) {
        sharers[slot as usize].links[order as usize] = Neighbours { prev: self.tail, next: NONE };
        match self.tail {
            NONE => self.head = slot,
            tail => sharers[tail as usize].links[order as usize].next = slot,
        }
        self.tail = slot;
    }

    fn unlink(&mut self, sharers: &mut [Sharer], order: Order, slot: u32) {
        let Neighbours { prev, next } = sharers[slot as usize].links[order as usize];
        match prev {
            NONE => self.head = next,
            prev => sharers[prev as usize].links[order as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => sharers[next as usize].links[order as usize].prev = prev,
        }
    }
}

/// Shares the budget of open bytes among the messages that are arriving. A message is named by its slot: small
/// numbers, used again.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    policy: GrantPolicy,
    open_len: u64,
    open_len_max: u64,
    sharers: Vec<Sharer>,
    /// The queues; all but the first stay empty under `RoundRobin`.
    classes: [List; CLASS_COUNT],
    /// Bit c: class c is not empty.
    occupied: u64,
    /// Every started message.
    ages: List,
    /// The next to join a queue gets this.
    stamp_next: u64,
    /// Grants since the oldest had its share.
    since_oldest: u8,
}

impl Grants {
    /// No messages, and a budget for the bytes granted and not arrived.
    pub(crate) fn new(policy: GrantPolicy, open_len_max: u64) -> Self {
        Self {
            policy,
            open_len: 0,
            open_len_max,
            sharers: Vec::new(),
            classes: [List::EMPTY; CLASS_COUNT],
            occupied: 0,
            ages: List::EMPTY,
            stamp_next: 0,
            since_oldest: 0,
        }
    }

    /// A message matched and wants `remaining` bytes granted. It starts ready.
    pub(crate) fn start(&mut self, slot: u32, remaining: u64) {
        let index = slot as usize;
        if index >= self.sharers.len() {
            self.sharers.resize(index + 1, VACANT);
        }
        assert!(!self.sharers[index].started, "slot {slot} started twice");
        self.sharers[index] = Sharer { remaining, started: true, ready: true, ..VACANT };
        self.ages.push_back(&mut self.sharers, Order::Age, slot);
        self.enqueue(slot);
    }

    /// Whether the message's own rule (grants in flight, bytes ahead; PROTOCOL §8.2) allows another grant.
    pub(super) fn set_ready(&mut self, slot: u32, ready: bool) {
        let Some(sharer) = self.sharer_mut(slot) else { return };
        if sharer.ready == ready {
            return; // who waits keeps its place
        }
        sharer.ready = ready;
        if ready {
            self.enqueue(slot);
        } else {
            self.dequeue(slot);
        }
    }

    /// The arrivals to grant now: at most `room` bytes, then told to `on_granted`. Nobody if nobody is ready or the budget
    /// is used up.
    pub(crate) fn next(&self) -> Option<u32> {
        if self.occupied == 0 || self.open_len >= self.open_len_max {
            return None;
        }
        let low = self.occupied.trailing_zeros() as usize;
        if self.policy == GrantPolicy::SmallestFirst && self.since_oldest + 1 == OLDEST_EVERY {
            let (oldest, class) = self.oldest_ready();
            // In turn anyway, it needs no share. Given one, it would get ahead of its equals, fall two classes
            // below them, and then be served alone to its end.
            if usize::from(class) > low + 1 {
                return Some(oldest);
            }
        }
        let stamp_of = |slot: u32| self.sharers[slot as usize].stamp;
        let head = self.classes[low].head;
        match self.classes.get(low + 1) {
            Some(above) if above.head != NONE && stamp_of(above.head) < stamp_of(head) => {
                Some(above.head)
            }
            _ => Some(head),
        }
    }

    /// Bytes that may be granted now, over all messages.
    pub(super) fn room(&self) -> u64 {
        self.open_len_max.saturating_sub(self.open_len)
    }

    /// `len` bytes were granted to a message: it goes to the back of its turn.
    pub(super) fn on_granted(&mut self, slot: u32, len: u64) {
        debug_assert!(len <= self.room(), "granted {len}, room {}", self.room());
        self.since_oldest = (self.since_oldest + 1) % OLDEST_EVERY;
        self.dequeue(slot);
        let Some(sharer) = self.sharer_mut(slot) else { panic!("granted to vacant slot {slot}") };
        debug_assert!(len <= sharer.remaining, "granted {len} of {}", sharer.remaining);
        sharer.remaining = sharer.remaining.saturating_sub(len);
        sharer.open += len;
        sharer.counted += len;
        self.open_len += len;
        self.enqueue(slot);
    }

    /// `len` new bytes arrived. Bytes that nobody granted (first bytes) may be among them, so this never takes more
    /// than the message has open.
    pub(super) fn on_arrived(&mut self, slot: u32, len: u64) {
        let Some(sharer) = self.sharer_mut(slot) else { return };
        let closed = len.min(sharer.open);
        sharer.open -= closed;
        // What was waited for in vain comes last.
        let closed = closed.min(sharer.counted);
        sharer.counted -= closed;
        self.open_len -= closed;
    }

    /// What a message has open was waited for in vain. Its sender may never send it, and others need the room.
    pub(super) fn on_overdue(&mut self, slot: u32) {
        let Some(sharer) = self.sharer_mut(slot) else { return };
        let overdue = core::mem::take(&mut sharer.counted);
        self.open_len -= overdue;
    }

    /// `len` bytes were granted, did not come and are to be granted again: they are no longer open.
    #[cfg(test)]
    pub(crate) fn add_remaining(&mut self, slot: u32, len: u64) {
        let Some(sharer) = self.sharer_mut(slot) else { panic!("regranted to vacant slot {slot}") };
        sharer.remaining += len;
        self.on_arrived(slot, len);
        let sharer = &self.sharers[slot as usize];
        // In the same class it keeps its place.
        if sharer.class != Some(self.class_of(sharer.remaining)) {
            self.dequeue(slot);
            self.enqueue(slot);
        }
    }

    /// A message is finished or cancelled: its open bytes return to the budget. A slot without a message is left.
    pub(crate) fn stop(&mut self, slot: u32) {
        let Some(sharer) = self.sharer_mut(slot) else { return };
        let counted = sharer.counted;
        self.open_len -= counted;
        self.dequeue(slot);
        self.ages.unlink(&mut self.sharers, Order::Age, slot);
        self.sharers[slot as usize] = VACANT;
    }

    /// Bytes granted, not arrived and not overdue, over all messages.
    #[cfg(test)]
    pub(crate) fn open_len(&self) -> u64 {
        self.open_len
    }

    /// Bytes granted to a message and not arrived.
    pub(super) fn open_of(&self, slot: u32) -> u64 {
        self.sharers.get(slot as usize).map_or(0, |sharer| sharer.open)
    }

    /// Whether a message has more to be granted, and its own rule did not allow it when last judged.
    #[inline]
    pub(crate) fn is_waiting(&self, slot: u32) -> bool {
        self.sharers.get(slot as usize).is_some_and(|sharer| !sharer.ready && sharer.remaining > 0)
    }

    /// Bytes of a message still to be granted.
    pub(super) fn remaining_of(&self, slot: u32) -> u64 {
        self.sharers.get(slot as usize).map_or(0, |sharer| sharer.remaining)
    }

    #[inline(always)]
    fn has(&self, slot: u32) -> bool {
        self.sharers.get(slot as usize).is_some_and(|sharer| sharer.started)
    }

    fn sharer_mut(&mut self, slot: u32) -> Option<&mut Sharer> {
        self.sharers.get_mut(slot as usize).filter(|sharer| sharer.started)
    }

    fn class_of(&self, remaining: u64) -> u8 {
        match self.policy {
            GrantPolicy::SmallestFirst => remaining.max(1).ilog2() as u8,
            GrantPolicy::RoundRobin => 0,
        }
    }

    /// The message that started first of those that can be granted, and its class. There is one.
    fn oldest_ready(&self) -> (u32, u8) {
        let mut slot = self.ages.head;
        loop {
            let sharer = &self.sharers[slot as usize];
            match sharer.class {
                Some(class) => return (slot, class),
                None => slot = sharer.links[Order::Age as usize].next,
            }
        }
    }

    /// Puts a message at the back of its class, if it can be granted.
    fn enqueue(&mut self, slot: u32) {
        let class = self.class_of(self.sharers[slot as usize].remaining);
        let sharer = &mut self.sharers[slot as usize];
        if !sharer.ready || sharer.remaining == 0 {
            return;
        }
        sharer.class = Some(class);
        sharer.stamp = self.stamp_next;
        self.stamp_next += 1;
        self.classes[usize::from(class)].push_back(&mut self.sharers, Order::Turn, slot);
        self.occupied |= 1 << class;
    }

    /// Takes a message out of its class, if it is in one.
    fn dequeue(&mut self, slot: u32) {
        let Some(sharer) = self.sharer_mut(slot) else { return };
        let Some(class) = sharer.class.take() else { return };
        let list = &mut self.classes[usize::from(class)];
        list.unlink(&mut self.sharers, Order::Turn, slot);
        if list.head == NONE {
            self.occupied &= !(1 << class);
        }
    }
}

/// The messages that share the budget, and those that need none: what comes by a link that never loses a frame waits at
/// its sender, not in a socket (PROTOCOL §8.3).
#[derive(Clone, Debug)]
pub(crate) struct Budgets {
    shared: Grants,
    free: Grants,
}

impl Budgets {
    pub(crate) fn new(policy: GrantPolicy, open_len_max: u64) -> Self {
        Self { shared: Grants::new(policy, open_len_max), free: Grants::new(policy, u64::MAX) }
    }

    #[inline(always)]
    fn of(&self, slot: u32) -> &Grants {
        if self.free.has(slot) { &self.free } else { &self.shared }
    }

    #[inline(always)]
    fn of_mut(&mut self, slot: u32) -> &mut Grants {
        if self.free.has(slot) { &mut self.free } else { &mut self.shared }
    }

    pub(crate) fn start(&mut self, slot: u32, remaining: u64, is_free: bool) {
        let budget = if is_free { &mut self.free } else { &mut self.shared };
        budget.start(slot, remaining);
    }

    /// Whether the message needs none of the budget.
    #[inline]
    pub(crate) fn is_free(&self, slot: u32) -> bool {
        self.free.has(slot)
    }

    pub(super) fn set_ready(&mut self, slot: u32, ready: bool) {
        self.of_mut(slot).set_ready(slot, ready);
    }

    pub(crate) fn next(&self) -> Option<u32> {
        self.shared.next().or_else(|| self.free.next())
    }

    /// Bytes that may be granted to this message now.
    pub(super) fn room(&self, slot: u32) -> u64 {
        self.of(slot).room()
    }

    pub(super) fn on_granted(&mut self, slot: u32, len: u64) {
        self.of_mut(slot).on_granted(slot, len);
    }

    pub(super) fn on_arrived(&mut self, slot: u32, len: u64) {
        self.of_mut(slot).on_arrived(slot, len);
    }

    pub(super) fn on_overdue(&mut self, slot: u32) {
        self.of_mut(slot).on_overdue(slot);
    }

    pub(crate) fn stop(&mut self, slot: u32) {
        self.of_mut(slot).stop(slot);
    }

    pub(super) fn open_of(&self, slot: u32) -> u64 {
        self.of(slot).open_of(slot)
    }

    #[inline]
    pub(crate) fn is_waiting(&self, slot: u32) -> bool {
        self.of(slot).is_waiting(slot)
    }

    pub(super) fn remaining_of(&self, slot: u32) -> u64 {
        self.of(slot).remaining_of(slot)
    }
}

#[cfg(test)]
mod tests;
