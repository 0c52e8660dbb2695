//! Several ways to one peer: equal rails, unequal ones, one that is pulled.

use packhorse_link::sim::{Conditions, Directions, Line, NodeId, Who};
use packhorse_proto::{MS, SECOND, Tag};
use packhorse_sim::world::{PortSpec, Spec, World};

use crate::stage::Stage;
use crate::{Bound, Figure};

/// A megabyte, as the papers count.
const MB: u64 = 1_000_000;
/// Time of flight.
const DELAY_NS: u64 = 10_000;

/// Two nodes joined by rails of these rates, each a network of its own.
fn stage(rates_mbps: &[u64]) -> Stage {
    let mut world = World::new(17);
    let networks = 0..rates_mbps.len() as u8;
    let port_specs = networks.map(|network| PortSpec { network, ..PortSpec::default() }).collect();
    let spec = Spec { ports: rates_mbps.len() as u8, port_specs, ..Spec::default() };
    let nodes: Vec<NodeId> = (0..2).map(|_| world.add_node(spec.clone())).collect();
    let conditions = Conditions { delay_ns: DELAY_NS, ..Conditions::PERFECT };
    world.net().set_conditions(Who::Any, Who::Any, conditions);
    for &node in &nodes {
        for (port, &mbps) in (0..).zip(rates_mbps) {
            let line = Line { rate_bps: mbps * 1_000_000, queue_len_max: 512 << 10 };
            world.net().set_egress(node.port(port), line);
            world.net().set_ingress(node.port(port), line);
        }
    }
    let mut stage = Stage { world, nodes };
    let (a, b) = (stage.nodes[0], stage.nodes[1]);
    stage.acquaint(a, b);
    stage.world.run_for(100 * MS);
    stage
}

/// Bytes per second of messages sent one after another, the first ones not counted.
fn rate(stage: &mut Stage, len: u64, count: u64) -> f64 {
    let (a, b) = (stage.nodes[0], stage.nodes[1]);
    let skip = 4;
    let mut started = stage.world.now();
    for message in 0..count + skip {
        if message == skip {
            started = stage.world.now();
        }
        stage.sink(b, Some(a), message, len);
        stage.world.send(a, b, Tag(message), len);
        stage.receive(1, 10 * SECOND);
    }
    (len * count) as f64 / ((stage.world.now() - started) as f64 / 1e9)
}

fn ratio(rates_mbps: &[u64], to_mbps: u64, len: u64, count: u64) -> f64 {
    rate(&mut stage(rates_mbps), len, count) / rate(&mut stage(&[to_mbps]), len, count)
}

/// What further rails are worth.
pub(crate) fn rails() -> Vec<Figure> {
    let unequal = |len: u64, count| ratio(&[1_000, 100], 1_000, len, count);
    let mut figures = vec![
        ("1 Gb/s twice, 1 MB, to one", ratio(&[1_000, 1_000], 1_000, MB, 40), 1.8),
        ("1 Gb/s twice, 20 MB, to one", ratio(&[1_000, 1_000], 1_000, 20 * MB, 4), 1.8),
        ("10 Gb/s twice, 20 MB, to one", ratio(&[10_000, 10_000], 10_000, 20 * MB, 10), 1.8),
        ("1 Gb/s four times, 20 MB, to one", ratio(&[1_000; 4], 1_000, 20 * MB, 4), 3.6),
        ("1 Gb/s + 100 Mb/s, 100 KB, to the fast alone", unequal(MB / 10, 100), 1.0),
        ("1 Gb/s + 100 Mb/s, 1 MB, to the fast alone", unequal(MB, 40), 1.0),
        ("1 Gb/s + 100 Mb/s, 20 MB, to the fast alone", unequal(20 * MB, 4), 1.0),
        (
            "100 Mb/s first + 1 Gb/s, 1 MB, to the fast alone",
            ratio(&[100, 1_000], 1_000, MB, 40),
            1.0,
        ),
    ]
    .into_iter()
    .map(|(title, value, least)| Figure::new(title, value, "×", Bound::Least(least)))
    .collect::<Vec<_>>();
    figures.extend(pulled());
    figures
}

/// One of two rails is pulled in the middle of a transfer, and put back.
fn pulled() -> Vec<Figure> {
    let len = 20 * MB;
    let whole_ns = len as f64 / rate(&mut stage(&[1_000]), len, 2) * 1e9;
    let mut stage = stage(&[1_000, 1_000]);
    let (a, b) = (stage.nodes[0], stage.nodes[1]);
    let before = rate(&mut stage, len, 4);
    stage.sink(b, Some(a), 100, len);
    stage.world.send(a, b, Tag(100), len);
    let started = stage.world.now();
    stage.world.run_for(20 * MS);
    let cut = stage.world.net().partition(&[Who::Port(a.port(1))], &[Who::Any], Directions::Both);
    stage.receive(1, 10 * SECOND);
    let took_ns = (stage.world.now() - started) as f64;
    stage.world.run_for(5 * SECOND);
    stage.world.net().heal(cut);
    stage.world.run_for(5 * SECOND);
    let after = rate(&mut stage, len, 4);
    vec![
        Figure::new(
            "20 MB, one of two pulled after 20 ms, to one rail's time",
            took_ns / whole_ns,
            "×",
            Bound::Most(1.0),
        ),
        Figure::new(
            "put back: the rate to the one before",
            after / before,
            "×",
            Bound::Least(0.95),
        ),
    ]
}
