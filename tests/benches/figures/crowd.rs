//! Many senders, one receiver or one line: who gets what.

use std::cell::RefCell;
use std::rc::Rc;

use packhorse_link::sim::{Line, NodeId, Verdict};
use packhorse_proto::wire::{FrameView, Record};
use packhorse_proto::{Event, GrantPolicy, Limits, SECOND, Secret, Settings, Tag};

use crate::stage::{RATE_GBPS, Stage, payload_rate};
use crate::{Bound, Figure};

const MB: u64 = 1_000_000;
const SENDER_COUNT: usize = 64;

/// When each sender was last granted something, and the longest it waited.
#[derive(Clone, Debug, Default)]
struct Waits {
    last_ns: Vec<u64>,
    longest_ns: u64,
    done: Vec<bool>,
}

/// Watches the grants that leave the receiver. Counted for a sender from the start until its message is complete.
fn watch_grants(stage: &mut Stage, receiver: NodeId, senders: &[NodeId]) -> Rc<RefCell<Waits>> {
    let now = stage.world.now().0;
    let waits = Waits {
        last_ns: vec![now; senders.len()],
        longest_ns: 0,
        done: vec![false; senders.len()],
    };
    let waits = Rc::new(RefCell::new(waits));
    let secrets: Vec<Secret> =
        senders.iter().map(|&node| stage.world.address(node).secret).collect();
    let (senders, shared) = (senders.to_vec(), Rc::clone(&waits));
    stage.world.net().intercept(Box::new(move |info, bytes| {
        let to = senders.iter().position(|node| node.0 == info.to.node);
        if let Some(at) = to.filter(|_| info.from.node == receiver.0)
            && let Ok(view) = FrameView::open(secrets[at], bytes)
            && view
                .records()
                .any(|(record, _)| matches!(record, Record::Grant { .. } | Record::Done { .. }))
        {
            let mut waits = shared.borrow_mut();
            if !waits.done[at] {
                let waited = info.at_ns - waits.last_ns[at];
                waits.longest_ns = waits.longest_ns.max(waited);
            }
            waits.last_ns[at] = info.at_ns;
            waits.done[at] |=
                view.records().any(|(record, _)| matches!(record, Record::Done { .. }));
        }
        Verdict::Pass
    }));
    waits
}

/// 64 senders of a megabyte at once.
pub(crate) fn incast() -> Vec<Figure> {
    let mut stage = Stage::new(SENDER_COUNT + 1, 0, &Limits::default(), &Settings::default());
    let (receiver, senders) = (stage.nodes[0], stage.nodes[1..].to_vec());
    for &sender in &senders {
        stage.acquaint(sender, receiver);
    }
    let started = stage.world.now();
    let waits = watch_grants(&mut stage, receiver, &senders);
    for &sender in &senders {
        stage.sink(receiver, Some(sender), 1, MB);
        stage.world.send(sender, receiver, Tag(1), MB);
    }
    let done = stage.receive(SENDER_COUNT, 10 * SECOND);
    let last = done.iter().map(|&(_, _, at)| at - started).max().expect("all arrived");
    let ideal = (SENDER_COUNT as u64 * MB) as f64 / payload_rate() * 1e9;
    let waited = waits.borrow().longest_ns as f64 / 1e6;
    vec![
        Figure::new(
            "last finisher, as a multiple of the ideal",
            last as f64 / ideal,
            "×",
            Bound::Most(1.25),
        ),
        Figure::new("longest any sender went without a grant", waited, "ms", Bound::Most(2.0)),
    ]
}

/// Mean completion of messages of very different lengths under a policy.
fn mean_completion_ms(policy: GrantPolicy) -> f64 {
    let settings = Settings { grant_policy: policy, ..Settings::default() };
    let mut stage = Stage::new(SENDER_COUNT + 1, 0, &Limits::default(), &settings);
    let (receiver, senders) = (stage.nodes[0], stage.nodes[1..].to_vec());
    for &sender in &senders {
        stage.acquaint(sender, receiver);
    }
    let started = stage.world.now();
    for (at, &sender) in senders.iter().enumerate() {
        // Four decades in even steps, in an order that is not sorted.
        let step = at * 37 % SENDER_COUNT;
        let len = (1_000.0 * 10_f64.powf(4.0 * step as f64 / (SENDER_COUNT - 1) as f64)) as u64;
        stage.sink(receiver, Some(sender), 1, len);
        stage.world.send(sender, receiver, Tag(1), len);
    }
    let done = stage.receive(SENDER_COUNT, 60 * SECOND);
    let total: u64 = done.iter().map(|&(_, _, at)| at - started).sum();
    total as f64 / SENDER_COUNT as f64 / 1e6
}

/// Small first against everybody in turn.
pub(crate) fn mixed() -> Vec<Figure> {
    let in_turn = mean_completion_ms(GrantPolicy::RoundRobin);
    let small_first = mean_completion_ms(GrantPolicy::SmallestFirst);
    vec![
        Figure::new("everybody in turn", in_turn, "ms", Bound::Free),
        Figure::new("small remaining lengths first", small_first, "ms", Bound::Free),
        Figure::new(
            "the second as a part of the first",
            small_first / in_turn,
            "×",
            Bound::Most(0.99),
        ),
    ]
}

/// The larger share of two flows of equal length, from node 0 and 1 to `to`, while both run.
fn larger_share(mut stage: Stage, to: [NodeId; 2]) -> f64 {
    let senders = [stage.nodes[0], stage.nodes[1]];
    let len = 400 * MB;
    let mut bufs = [0; 2];
    for flow in 0..2 {
        stage.acquaint(senders[flow], to[flow]);
        bufs[flow] = stage.sink(to[flow], Some(senders[flow]), 1, len);
    }
    for flow in 0..2 {
        stage.world.send(senders[flow], to[flow], Tag(1), len);
        // The second comes late, to a line that is taken.
        stage.world.run_for(5_000_000);
    }
    let sunk = |stage: &mut Stage| {
        [0, 1].map(|flow: usize| {
            stage.world.memory(to[flow]).sunk_len(packhorse_proto::BufId(bufs[flow]))
        })
    };
    let before = sunk(&mut stage);
    stage.world.run_for(300_000_000);
    let after = sunk(&mut stage);
    while let Some((_, event)) = stage.world.next_event() {
        assert!(
            !matches!(event, Event::Received { user, .. } if bufs.contains(&user)),
            "a flow ended too soon"
        );
    }
    let moved = [0, 1].map(|flow: usize| (after[flow] - before[flow]) as f64);
    100.0 * moved[0].max(moved[1]) / (moved[0] + moved[1])
}

/// Two flows to one receiver, who shares by grants; and two that meet only on a line in between.
pub(crate) fn two_flows() -> Vec<Figure> {
    let stage = Stage::new(3, 0, &Limits::default(), &Settings::default());
    let to = [stage.nodes[2]; 2];
    let granted = larger_share(stage, to);
    let mut stage = Stage::new(4, 0, &Limits::default(), &Settings::default());
    let to = [stage.nodes[2], stage.nodes[3]];
    let trunk = stage.world.net().add_trunk(Line::gbps(RATE_GBPS, 512 << 10));
    for (from, to) in stage.nodes[..2].iter().zip(to) {
        stage.world.net().route(*from, to, Some(trunk));
    }
    let met = larger_share(stage, to);
    vec![
        Figure::new("to one receiver: the larger share", granted, "%", Bound::Most(60.0)),
        Figure::new(
            "to two receivers over one line: the larger share",
            met,
            "%",
            Bound::Most(60.0),
        ),
    ]
}
