use super::*;
use alloc::vec;
use proptest::prelude::*;

/// Sixteen frames.
const GRANT_LEN: u64 = 16 * 1400;

fn smallest_first() -> Grants {
    Grants::new(GrantPolicy::SmallestFirst, 160 << 10)
}

/// Grants once to whoever is next, and the bytes arrive at once.
fn serve(grants: &mut Grants) -> Option<u32> {
    let slot = grants.next()?;
    let len = GRANT_LEN.min(grants.remaining_of(slot)).min(grants.room());
    grants.on_granted(slot, len);
    grants.on_arrived(slot, len);
    Some(slot)
}

/// Serves `count` equal messages to their end. The longest that one waited for its next grant, in turns:
/// while more than its last grant was left, and at all.
fn longest_waits(mut grants: Grants, count: u32, len: u64) -> (u64, u64) {
    (0..count).for_each(|slot| grants.start(slot, len));
    let mut served_at = vec![0; count as usize];
    let (mut steady, mut at_all) = (0, 0);
    for turn in 1.. {
        let Some(slot) = serve(&mut grants) else { break };
        let wait = turn - core::mem::replace(&mut served_at[slot as usize], turn);
        at_all = at_all.max(wait);
        if grants.remaining_of(slot) >= GRANT_LEN {
            steady = steady.max(wait);
        }
    }
    assert!((0..count).all(|slot| grants.remaining_of(slot) == 0));
    (steady, at_all)
}

#[test]
fn equals_are_served_in_turn_to_their_end() {
    for policy in [GrantPolicy::SmallestFirst, GrantPolicy::RoundRobin] {
        for grant_count in [1, 2, 3, 47, 48, 500, 3000] {
            let grants = Grants::new(policy, 160 << 10);
            let (_, wait) = longest_waits(grants, 64, grant_count * GRANT_LEN);
            assert!(wait <= 64, "{policy:?}, {grant_count} grants each: waited {wait} turns");
        }
    }
}

#[test]
fn only_the_last_grant_goes_before_its_turn() {
    for len in [(1 << 15) + 1, 1 << 16, (1 << 20) + 100, 1 << 20, (1 << 20) - 100, 10 << 20] {
        let (steady, at_all) = longest_waits(smallest_first(), 64, len);
        assert!(steady <= 64, "length {len}: waited {steady} turns");
        assert!(at_all < 2 * 64, "length {len}: waited {at_all} turns");
    }
}

#[test]
fn small_messages_overtake_large_ones() {
    let mut grants = smallest_first();
    grants.start(0, 1 << 30);
    grants.start(1, 1 << 28);
    for _ in 0..20 {
        serve(&mut grants);
    }
    grants.start(2, 3 * GRANT_LEN);
    let turns = (1..).take_while(|_| {
        serve(&mut grants);
        grants.remaining_of(2) > 0
    });
    assert!(turns.count() < 4, "three grants, and perhaps one for the oldest");
}

#[test]
fn the_oldest_has_its_share_under_a_flood_of_small_ones() {
    let mut grants = smallest_first();
    grants.start(0, 1 << 30);
    for slot in 1..10 {
        grants.start(slot, GRANT_LEN);
    }
    let mut share = 0;
    for _ in 0..800 {
        let slot = serve(&mut grants).unwrap();
        share += u32::from(slot == 0);
        if grants.remaining_of(slot) == 0 {
            grants.stop(slot);
            grants.start(slot, GRANT_LEN);
        }
    }
    assert_eq!(share, 100);
}

#[test]
fn the_share_passes_to_the_oldest_that_is_ready() {
    let mut grants = smallest_first();
    grants.start(5, 1 << 30);
    grants.start(3, 1 << 29);
    grants.start(4, 1 << 16);
    grants.set_ready(5, false);
    let served = |grants: &mut Grants| {
        (0..8).filter_map(|_| grants.next().inspect(|&slot| grants.on_granted(slot, 1))).last()
    };
    assert_eq!(served(&mut grants), Some(3));
    grants.set_ready(5, true);
    assert_eq!(served(&mut grants), Some(5), "by start, not by when it became ready");
}

#[test]
fn round_robin_knows_no_sizes() {
    let mut grants = Grants::new(GrantPolicy::RoundRobin, 1 << 20);
    [1 << 30, 50_000, 1 << 40].iter().zip(0..).for_each(|(&len, slot)| grants.start(slot, len));
    let served: Vec<_> = (0..9).filter_map(|_| serve(&mut grants)).collect();
    assert_eq!(served, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_full_budget_grants_nobody_and_a_stop_frees_it() {
    let mut grants = Grants::new(GrantPolicy::SmallestFirst, 1000);
    grants.start(0, 5000);
    grants.start(1, 5000);
    grants.on_granted(0, 600);
    grants.on_granted(1, grants.room());
    assert_eq!((grants.next(), grants.room(), grants.open_of(1)), (None, 0, 400));
    grants.stop(0);
    grants.stop(0);
    grants.stop(77);
    assert_eq!((grants.next(), grants.open_len(), grants.open_of(0)), (Some(1), 400, 0));
    grants.on_arrived(0, 600);
    grants.on_arrived(1, 9999);
    assert_eq!(grants.open_len(), 0, "ungranted bytes and bytes of the dead count for nothing");
}

#[test]
fn what_did_not_come_is_granted_again() {
    let mut grants = smallest_first();
    grants.start(0, 3000);
    grants.on_granted(0, 3000);
    assert_eq!((grants.next(), grants.remaining_of(0)), (None, 0));
    grants.on_arrived(0, 1000);
    grants.add_remaining(0, 2000);
    assert_eq!((grants.next(), grants.remaining_of(0), grants.open_len()), (Some(0), 2000, 0));
}

#[test]
fn a_full_budget_does_not_hold_up_those_that_need_none() {
    let mut budgets = Budgets::new(GrantPolicy::SmallestFirst, 1000);
    budgets.start(0, 5000, false);
    budgets.on_granted(0, 1000);
    assert_eq!(budgets.next(), None);
    budgets.start(1, 5000, true);
    assert_eq!((budgets.next(), budgets.room(0)), (Some(1), 0));
    budgets.on_granted(1, 5000);
    assert_eq!((budgets.next(), budgets.open_of(1), budgets.remaining_of(1)), (None, 5000, 0));
    budgets.stop(1);
    assert_eq!((budgets.open_of(0), budgets.open_of(1)), (1000, 0));
}

#[test]
fn slots_are_used_again_without_allocating() {
    let mut grants = smallest_first();
    (0..10).for_each(|slot| grants.start(slot, 1 << 20));
    let capacity = grants.sharers.capacity();
    for slot in (0..1000).map(|turn| turn % 10) {
        grants.stop(slot);
        grants.start(slot, 1 << 20);
        serve(&mut grants);
    }
    assert_eq!(grants.sharers.capacity(), capacity);
}

/// Slots of the model test.
const COUNT: u32 = 6;

#[derive(Clone, Debug)]
enum Op {
    Start(u32, u64),
    Ready(u32, bool),
    Grant(u64),
    Arrived(u32, u64),
    Regrant(u32, u64),
    Stop(u32),
}

fn op() -> impl Strategy<Value = Op> {
    let len = || (0..24_u32, 0..=u64::MAX).prop_map(|(bits, value)| value & ((1 << bits) - 1));
    prop_oneof![
        3 => (0..COUNT, len()).prop_map(|(slot, len)| Op::Start(slot, len)),
        3 => (0..COUNT, any::<bool>()).prop_map(|(slot, ready)| Op::Ready(slot, ready)),
        9 => len().prop_map(Op::Grant),
        4 => (0..COUNT, len()).prop_map(|(slot, len)| Op::Arrived(slot, len)),
        2 => (0..COUNT, len()).prop_map(|(slot, len)| Op::Regrant(slot, len)),
        1 => (0..COUNT).prop_map(Op::Stop),
    ]
}

#[derive(Clone, Debug, Default)]
struct ModelMessage {
    started_at: u64,
    queued_at: u64,
    remaining: u64,
    open: u64,
    ready: bool,
}

impl ModelMessage {
    fn is_queued(&self) -> bool {
        self.ready && self.remaining > 0
    }
}

/// The rules of granting, applied by looking at every message each time: the model that `Grants` must agree with.
struct Model {
    policy: GrantPolicy,
    open_len_max: u64,
    messages: Vec<Option<ModelMessage>>,
    clock: u64,
    granted_count: u64,
}

impl Model {
    fn class_of(&self, message: &ModelMessage) -> u32 {
        match self.policy {
            GrantPolicy::SmallestFirst => message.remaining.ilog2(),
            GrantPolicy::RoundRobin => 0,
        }
    }

    fn queued(&self) -> impl Iterator<Item = (u32, &ModelMessage)> {
        (0..).zip(&self.messages).filter_map(|(slot, message)| {
            message.as_ref().filter(|message| message.is_queued()).map(|message| (slot, message))
        })
    }

    fn open_len(&self) -> u64 {
        self.messages.iter().flatten().map(|message| message.open).sum()
    }

    fn next(&self) -> Option<u32> {
        if self.open_len() >= self.open_len_max {
            return None;
        }
        let low = self.queued().map(|(_, message)| self.class_of(message)).min()?;
        let in_turn = |message: &ModelMessage| self.class_of(message) <= low + 1;
        let oldest = self.queued().min_by_key(|(_, message)| message.started_at)?;
        if self.granted_count % 8 == 7 && !in_turn(oldest.1) {
            return Some(oldest.0);
        }
        let turn = self.queued().filter(|(_, message)| in_turn(message));
        turn.min_by_key(|(_, message)| message.queued_at).map(|(slot, _)| slot)
    }

    /// Changes a message; it goes to the back if it was not queued, or changed its class, or was `served`.
    fn change(&mut self, slot: u32, served: bool, change: impl FnOnce(&mut ModelMessage)) {
        let Some(mut message) = self.messages[slot as usize].take() else { return };
        let before = message.is_queued().then(|| self.class_of(&message));
        change(&mut message);
        if served || !message.is_queued() || before != Some(self.class_of(&message)) {
            self.clock += 1;
            message.queued_at = self.clock;
        }
        self.messages[slot as usize] = Some(message);
    }

    fn step(&mut self, grants: &mut Grants, op: Op) {
        match op {
            Op::Start(slot, len) if self.messages[slot as usize].is_none() => {
                self.clock += 1;
                self.messages[slot as usize] = Some(ModelMessage {
                    started_at: self.clock,
                    queued_at: self.clock,
                    remaining: len,
                    open: 0,
                    ready: true,
                });
                grants.start(slot, len);
            }
            Op::Ready(slot, ready) => {
                self.change(slot, false, |message| message.ready = ready);
                grants.set_ready(slot, ready);
            }
            Op::Grant(len_max) => {
                let Some(slot) = self.next() else { return };
                let len = grants.remaining_of(slot).min(grants.room()).min(len_max);
                self.granted_count += 1;
                self.change(slot, true, |message| {
                    message.remaining -= len;
                    message.open += len;
                });
                grants.on_granted(slot, len);
            }
            Op::Arrived(slot, len) => {
                self.change(slot, false, |message| message.open -= len.min(message.open));
                grants.on_arrived(slot, len);
            }
            Op::Regrant(slot, len) if self.messages[slot as usize].is_some() => {
                self.change(slot, false, |message| {
                    message.remaining += len;
                    message.open -= len.min(message.open);
                });
                grants.add_remaining(slot, len);
            }
            Op::Stop(slot) => {
                self.messages[slot as usize] = None;
                grants.stop(slot);
            }
            Op::Start(..) | Op::Regrant(..) => {}
        }
    }
}

/// Every message that can be granted is in the queue of its class and nowhere else; queues are in order.
fn check_lists(grants: &Grants, model: &Model) {
    let mut seen = Vec::new();
    for (class, list) in grants.classes.iter().enumerate() {
        assert_eq!(list.head != NONE, grants.occupied >> class & 1 == 1);
        let (mut slot, mut last, mut stamp_min) = (list.head, NONE, 0);
        while slot != NONE {
            let sharer = &grants.sharers[slot as usize];
            let link = sharer.links[Order::Turn as usize];
            assert_eq!((link.prev, sharer.class), (last, Some(class as u8)));
            assert_eq!(grants.class_of(sharer.remaining), class as u8);
            assert!(sharer.stamp >= stamp_min, "class {class} out of order");
            stamp_min = sharer.stamp + 1;
            seen.push(slot);
            (last, slot) = (slot, link.next);
        }
        assert_eq!(list.tail, last);
    }
    seen.sort_unstable();
    assert_eq!(seen, model.queued().map(|(slot, _)| slot).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn grants_agree_with_a_naive_model(
        by_size in any::<bool>(),
        open_len_max in 1..1_u64 << 22,
        ops in prop::collection::vec(op(), 1..150),
    ) {
        let policy =
            if by_size { GrantPolicy::SmallestFirst } else { GrantPolicy::RoundRobin };
        let mut grants = Grants::new(policy, open_len_max);
        let messages = vec![None; COUNT as usize];
        let mut model = Model { policy, open_len_max, messages, clock: 0, granted_count: 0 };
        for op in ops {
            model.step(&mut grants, op);
            prop_assert_eq!(grants.next(), model.next());
            prop_assert_eq!(grants.open_len(), model.open_len());
            prop_assert!(grants.open_len() <= open_len_max);
            prop_assert_eq!(grants.room(), open_len_max - grants.open_len());
            for (slot, message) in (0..).zip(&model.messages) {
                let expected = message.as_ref().map_or((0, 0), |m| (m.open, m.remaining));
                prop_assert_eq!((grants.open_of(slot), grants.remaining_of(slot)), expected);
            }
            check_lists(&grants, &model);
        }
    }
}
