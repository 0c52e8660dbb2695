//! Scenarios from seeds.
//!
//! Each concern has a generator of its own, forked from the seed by name, so that a change in one leaves the others
//! as they were. The weights aim at what `run` counts: each kind of trouble in a good part of the runs, and lean runs,
//! because a thousand different ones find more than one long one.

use packhorse_link::sim::{Burst, Conditions, Line, Rng, STREAM_NETWORK, SURE_NETWORK};
use packhorse_proto::{GrantPolicy, Limits, MS, SECOND, Settings};

use crate::onesided;
use crate::scenario::{Action, Cut, NodePlan, Scenario, Step};
use crate::traffic;
use crate::world::PortSpec;

/// Short for parts per million: percent.
pub(crate) const PERCENT: u32 = 10_000;
const US: u64 = 1_000;

/// What the other parts need to know of the network.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Nodes.
    pub(crate) node_count: u8,
    /// Steps happen before this.
    pub(crate) horizon_ns: u64,
    /// Messages are numbered by their tags.
    pub(crate) is_named_by_tag: bool,
    /// Each node's knobs.
    pub(crate) settings: Vec<Settings>,
}

/// The scenario of a seed.
pub fn draw(seed: u64) -> Scenario {
    let root = Rng::new(seed);
    let mut rng = root.fork("topology");
    let node_count = draw_node_count(&mut rng);
    let weather = draw_weather(&mut root.fork("weather"));
    let line = draw_line(&mut root.fork("line"));
    let corrupts = weather.corrupt_ppm > 0 || rng.chance(10 * PERCENT);
    let nodes = draw_nodes(&root, node_count, corrupts);
    let horizon_ns =
        (weather.delay_ns + weather.jitter_ns) * rng.range(5..=60) + rng.range(100 * US..=20 * MS);
    let frame = Frame {
        node_count,
        horizon_ns,
        is_named_by_tag: rng.chance(60 * PERCENT),
        settings: nodes.iter().map(|node| node.settings.clone()).collect(),
    };
    let mut steps = traffic::draw(&root, &frame);
    draw_faults(&mut root.fork("faults"), &frame, &nodes, corrupts, &mut steps);
    let label_count =
        steps.iter().filter_map(|step| step.action.label()).max().map_or(0, |it| it + 1);
    onesided::draw(&root, &frame, label_count, &mut steps);
    steps.sort_by_key(|step| step.at_ns);
    let mut scenario = Scenario {
        seed,
        nodes,
        weather,
        line,
        tells_unreachable: rng.chance(30 * PERCENT),
        is_named_by_tag: frame.is_named_by_tag,
        steps,
        heal_at_ns: 0,
        drain_caps: Vec::new(),
        adversary: None,
    };
    scenario.heal_at_ns = heal_at_ns(&scenario, horizon_ns);
    scenario.drain_caps = draw_drain(&mut rng, &scenario);
    scenario
}

fn draw_node_count(rng: &mut Rng) -> u8 {
    let count = match rng.below(100) {
        0..40 => 2,
        40..60 => 3,
        60..95 => rng.range(4..=6),
        _ => rng.range(7..=16),
    };
    count as u8
}

fn draw_weather(rng: &mut Rng) -> Conditions {
    let mut weather = Conditions { delay_ns: draw_delay_ns(rng), ..Conditions::PERFECT };
    if rng.chance(50 * PERCENT) {
        weather.jitter_ns = rng.below(weather.delay_ns + 1);
    }
    if rng.chance(10 * PERCENT) {
        weather.frame_len_max = *rng.pick(&[1200, 1201, 1300, 1471, 1500, 4000]);
    }
    if rng.chance(20 * PERCENT) {
        return weather; // fine: only limits, restarts and cancels stir
    }
    worsen(rng, &mut weather);
    weather
}

fn draw_delay_ns(rng: &mut Rng) -> u64 {
    match rng.below(100) {
        0..50 => rng.range(US..=50 * US),
        50..85 => rng.range(50 * US..=MS),
        _ => rng.range(MS..=20 * MS),
    }
}

/// Adds some of the network's vices.
fn worsen(rng: &mut Rng, weather: &mut Conditions) {
    let round_trip = 2 * (weather.delay_ns + weather.jitter_ns);
    if rng.chance(60 * PERCENT) {
        weather.loss_ppm = *rng.pick(&[1_000, 10_000, 20_000, 50_000, 100_000, 200_000]);
    }
    if rng.chance(15 * PERCENT) {
        let (enter_ppm, leave_ppm) =
            (rng.range(500..=10_000) as u32, rng.range(20_000..=300_000) as u32);
        weather.burst =
            Some(Burst { enter_ppm, leave_ppm, loss_ppm: rng.range(500_000..=1_000_000) as u32 });
    }
    if rng.chance(40 * PERCENT) {
        weather.duplicate_ppm = *rng.pick(&[5_000, 50_000, 300_000]);
        weather.duplicate_ns = rng.below(*rng.clone().pick(&[1, 4, 20]) * round_trip + 1);
    }
    if rng.chance(40 * PERCENT) {
        weather.reorder_ppm = *rng.pick(&[5_000, 50_000, 300_000]);
        weather.reorder_ns = rng.below(*rng.clone().pick(&[1, 2, 8]) * round_trip + 1);
    }
    if rng.chance(15 * PERCENT) {
        weather.corrupt_ppm = *rng.pick(&[1_000, 10_000, 50_000]);
    }
    if rng.chance(15 * PERCENT) {
        weather.truncate_ppm = *rng.pick(&[1_000, 10_000, 50_000]);
    }
}

fn draw_line(rng: &mut Rng) -> Line {
    if rng.chance(65 * PERCENT) {
        return Line::INFINITE;
    }
    let rate_bps = *rng.pick(&[100_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000]);
    let queue_len_max = *rng.pick(&[8 << 10, 32 << 10, 128 << 10, 1 << 20]);
    Line { rate_bps, queue_len_max }
}

fn draw_nodes(root: &Rng, count: u8, corrupts: bool) -> Vec<NodePlan> {
    let mut rng = root.fork("settings");
    let shared = draw_settings(&mut rng, corrupts);
    let are_alike = rng.chance(60 * PERCENT);
    let are_open = rng.chance(8 * PERCENT);
    let ports_max = *rng.pick(&[1, 1, 1, 2, 2, 3]);
    let is_motley = rng.fork("motley").chance(60 * PERCENT);
    let have_memory = rng.fork("memory").chance(40 * PERCENT);
    // All on one host now and then, with nothing else between them, and with messages that fit a frame.
    let are_together = rng.fork("together").chance(10 * PERCENT);
    (0..count)
        .map(|name| {
            let mut rng = root.fork("node").fork_n(u64::from(name));
            let mut settings =
                if are_alike { shared.clone() } else { draw_settings(&mut rng, corrupts) };
            settings.has_helper = rng.chance(80 * PERCENT);
            settings.open_to_strangers = are_open && rng.chance(70 * PERCENT);
            settings.versions.1 = *rng.pick(&[1, 1, 1, 1, 1, 1, 2, 15]);
            let mut limits = draw_limits(&mut rng, &settings);
            let ports = if rng.chance(80 * PERCENT) { ports_max } else { rng.range(1..=ports_max) };
            let ports = if are_together { 1 } else { ports as u8 };
            let (port_specs, port_lines) = match is_motley && ports > 1 {
                _ if are_together => draw_memory(&mut settings),
                true => draw_ports(&mut rng.fork("ports"), ports, have_memory, &mut settings),
                false => (Vec::new(), Vec::new()),
            };
            let frame_len_max = u64::from(settings.frame_len_max);
            limits.held_len_max = limits.held_len_max.max(frame_len_max);
            limits.grant_len_max = limits.grant_len_max.max(frame_len_max);
            limits.unasked_len_max = limits.unasked_len_max.max(frame_len_max);
            NodePlan { name, ports, port_specs, port_lines, limits, settings }
        })
        .collect()
}

/// Memory that all share, and no other link.
fn draw_memory(settings: &mut Settings) -> (Vec<PortSpec>, Vec<Line>) {
    let frame_len_max = 16 << 10;
    (settings.frame_len_max, settings.eager_len_max) = (frame_len_max, frame_len_max.into());
    settings.payload_check = false; // nothing damages them
    let (network, is_reliable, is_stream) = (SURE_NETWORK, true, false);
    let spec = PortSpec { network, frame_len_max, knows_networks: true, is_reliable, is_stream };
    (vec![spec], Vec::new())
}

/// Links of different kinds in one endpoint: who reaches whom, how long frames may be, how fast they go.
fn draw_ports(
    rng: &mut Rng,
    count: u8,
    have_memory: bool,
    settings: &mut Settings,
) -> (Vec<PortSpec>, Vec<Line>) {
    let shares_memory = have_memory && rng.fork("memory").chance(85 * PERCENT);
    let knows_networks = rng.chance(70 * PERCENT);
    let mut specs: Vec<PortSpec> = (0..count)
        .map(|port| PortSpec {
            network: if port == 0 { 0 } else { rng.below(3) as u8 },
            frame_len_max: *rng.pick(&[1200, 1400, 1472, 1472, 4096, 8972, 16 << 10]),
            knows_networks,
            is_reliable: false,
            is_stream: false,
        })
        .collect();
    // Most nodes are on one host then, and share memory beside what else they have.
    if let Some(last) = specs.last_mut().filter(|_| shares_memory) {
        (last.network, last.is_reliable) = (SURE_NETWORK, true);
    }
    // Or most can open streams to each other.
    let has_streams = !have_memory && rng.fork("streams").chance(70 * PERCENT);
    if let Some(last) = specs.last_mut().filter(|_| has_streams) {
        (last.network, last.is_stream) = (STREAM_NETWORK, true);
    }
    settings.frame_len_max =
        specs.iter().map(|port| port.frame_len_max).max().unwrap_or(settings.frame_len_max);
    let lines = if rng.chance(50 * PERCENT) {
        (0..count).map(|_| draw_line(rng)).collect()
    } else {
        Vec::new()
    };
    (specs, lines)
}

fn draw_settings(rng: &mut Rng, corrupts: bool) -> Settings {
    let gone_after_ns = *rng.pick(&[SECOND, 2 * SECOND, 5 * SECOND]);
    Settings {
        eager_len_max: *rng.pick(&[0, 64, 256, 1000, 1400, 4096, 9000, 16 << 10, 32 << 10]),
        grant_packets: *rng.pick(&[1, 2, 8, 16, 32, 100]),
        grant_ahead: *rng.pick(&[0, 1, 4, 15, 32, 64]),
        grants_in_flight: *rng.pick(&[1, 2, 4, 8]),
        grant_policy: *rng.pick(&[
            GrantPolicy::SmallestFirst,
            GrantPolicy::SmallestFirst,
            GrantPolicy::RoundRobin,
        ]),
        ack_every: *rng.pick(&[1, 2, 3, 8, 8, 32]),
        ack_delay_ns: *rng.pick(&[0, 5 * US, 25 * US, 25 * US, 500 * US, 5 * MS]),
        payload_check: corrupts || rng.chance(50 * PERCENT),
        gone_after_ns,
        contact_after_ns: gone_after_ns,
        gone_after_inline_ns: 3 * gone_after_ns,
        linger_ns: *rng.pick(&[SECOND, 5 * SECOND, 30 * SECOND]),
        initial_rtt_ns: *rng.pick(&[100 * US, MS, 10 * MS]),
        frame_len_max: *rng.pick(&[1200, 1201, 1472, 1472, 1472, 1500, 4096, 8972]),
        // From a copy: what else is drawn of a seed stays as it was.
        eager_sure_len_max: *rng.clone().pick(&[u32::MAX, 0, 1400, 4096]),
        fetch_len_min: *rng.clone().pick(&[u32::MAX, 0, 64, 2000, 9000]),
        ends_in_order: rng.fork("ends").chance(30 * PERCENT),
        ahead_len: *rng.clone().pick(&[0, 0, 1, 1500, 9000, 64 << 10, 64 << 10, 1 << 20]),
        ..Settings::default()
    }
}

fn draw_limits(rng: &mut Rng, settings: &Settings) -> Limits {
    let mut limits = Limits::default();
    let held_floor = u64::from(settings.eager_len_max).max(u64::from(settings.frame_len_max));
    if rng.chance(35 * PERCENT) {
        limits.held_len_max = held_floor + rng.below(3 * held_floor);
    }
    if rng.chance(35 * PERCENT) {
        limits.envelope_count_max = rng.range(4..=40) as u32;
    }
    if rng.chance(30 * PERCENT) {
        limits.copied_len_max = rng.range(0..=32 << 10);
    }
    if rng.chance(30 * PERCENT) {
        limits.grant_len_max = u64::from(settings.frame_len_max) * rng.range(1..=20);
    }
    // From a copy: what else is drawn of a seed stays as it was.
    let mut rng = rng.fork("unasked");
    if rng.chance(30 * PERCENT) {
        limits.unasked_len_max = u64::from(settings.frame_len_max) * rng.range(1..=60);
    }
    limits
}

fn draw_faults(
    rng: &mut Rng,
    frame: &Frame,
    nodes: &[NodePlan],
    corrupts: bool,
    steps: &mut Vec<Step>,
) {
    let mut add = |rng: &mut Rng, action| {
        let (at_ns, node) =
            (rng.below(frame.horizon_ns), rng.below(u64::from(frame.node_count)) as u8);
        steps.push(Step { at_ns, node, action });
    };
    let short = |rng: &mut Rng| rng.below(frame.horizon_ns / 2 + 1);
    for _ in 0..draw_count(rng, 25, 3) {
        let action = Action::Cut(draw_cut(rng, frame, nodes));
        add(rng, action);
    }
    for _ in 0..draw_count(rng, 15, 3) {
        let mut conditions = Conditions { delay_ns: draw_delay_ns(rng), ..Conditions::PERFECT };
        worsen(rng, &mut conditions);
        if !corrupts {
            conditions.corrupt_ppm = 0;
        }
        let action = Action::Weather { conditions, for_ns: short(rng) };
        add(rng, action);
    }
    for _ in 0..draw_count(rng, 15, 3) {
        let action = Action::Pause { for_ns: short(rng) };
        add(rng, action);
    }
    for _ in 0..draw_count(rng, 15, 2) {
        let action = Action::Rebind { port: rng.below(3) as u8, is_told: rng.chance(60 * PERCENT) };
        add(rng, action);
    }
    for _ in 0..draw_count(rng, 15, 2) {
        let back_after_ns = Some(rng.below(frame.horizon_ns / 8 + 1));
        let action = Action::Kill { back_after_ns, is_told: rng.chance(20 * PERCENT) };
        add(rng, action);
    }
    if rng.chance(3 * PERCENT) {
        let action = Action::Kill { back_after_ns: None, is_told: rng.chance(30 * PERCENT) };
        add(rng, action);
    }
    if rng.chance(8 * PERCENT) {
        add(rng, Action::Close);
    }
    if rng.chance(5 * PERCENT) {
        let action = Action::Forget { peer: rng.below(u64::from(frame.node_count)) as u8 };
        add(rng, action);
    }
    if rng.chance(10 * PERCENT) {
        let action = Action::AckEvery(rng.range(1..=64) as u32);
        add(rng, action);
    }
}

/// How many of a kind of fault: mostly none, else one to a few.
fn draw_count(rng: &mut Rng, percent: u32, count_max: u64) -> u64 {
    if rng.chance(percent * PERCENT) { rng.range(1..=count_max) } else { 0 }
}

fn draw_cut(rng: &mut Rng, frame: &Frame, nodes: &[NodePlan]) -> Cut {
    let ports_max = nodes.iter().map(|node| node.ports).max().unwrap_or(1);
    let is_cable = ports_max > 1 && rng.chance(60 * PERCENT);
    let others = if rng.chance(50 * PERCENT) {
        (0..frame.node_count).filter(|_| rng.chance(50 * PERCENT)).collect()
    } else {
        Vec::new()
    };
    let way = rng.below(4);
    let outlasts_patience = rng.chance(8 * PERCENT);
    let for_ns = if outlasts_patience {
        rng.range(SECOND..=12 * SECOND)
    } else {
        rng.below(2 * frame.horizon_ns) + 1
    };
    Cut {
        port: is_cable.then(|| rng.below(u64::from(ports_max)) as u8),
        others,
        inward: way != 1,
        outward: way != 2,
        for_ns,
    }
}

/// After the last step and the last fault's own end.
fn heal_at_ns(scenario: &Scenario, horizon_ns: u64) -> u64 {
    let ends = scenario.steps.iter().map(|step| {
        let lasts_ns = match &step.action {
            Action::Cut(cut) => cut.for_ns,
            Action::Pause { for_ns } | Action::Weather { for_ns, .. } => *for_ns,
            Action::Kill { back_after_ns, .. } => back_after_ns.unwrap_or(0),
            _ => 0,
        };
        step.at_ns + lasts_ns
    });
    ends.max().unwrap_or(0).max(horizon_ns) + 1
}

fn draw_drain(rng: &mut Rng, scenario: &Scenario) -> Vec<u64> {
    let len_max = scenario.len_max();
    let least = if scenario.is_named_by_tag { 0 } else { crate::pattern::NAME_LEN };
    (0..rng.range(1..=4))
        .map(|_| match rng.below(100) {
            0..70 => rng.range(least..=least + 2000),
            70..95 => rng.range(least..=len_max.clamp(least, 16 << 10)),
            _ => len_max.clamp(least, 128 << 10),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_settings_are_sound() {
        for seed in 0..500 {
            for node in draw(seed).nodes {
                assert_eq!(node.settings.check(), Ok(()), "seed {seed}");
                assert_eq!(node.limits.check(&node.settings), Ok(()), "seed {seed}");
            }
        }
    }

    #[test]
    fn corruption_always_meets_a_payload_check() {
        for seed in 0..500 {
            let scenario = draw(seed);
            let corrupts = |step: &Step| matches!(&step.action, Action::Weather { conditions, .. } if conditions.corrupt_ppm > 0);
            if scenario.weather.corrupt_ppm > 0 || scenario.steps.iter().any(corrupts) {
                let is_safe = |node: &NodePlan| {
                    let has_memory_alone = !node.port_specs.is_empty()
                        && node.port_specs.iter().all(|port| port.is_reliable);
                    node.settings.payload_check || has_memory_alone
                };
                assert!(scenario.nodes.iter().all(is_safe), "seed {seed}");
            }
        }
    }

    #[test]
    fn labels_are_unique_and_steps_in_order() {
        for seed in 0..200 {
            let scenario = draw(seed);
            let mut labels: Vec<_> =
                scenario.steps.iter().filter_map(|step| step.action.label()).collect();
            let count = labels.len();
            labels.sort_unstable();
            labels.dedup();
            assert_eq!(labels.len(), count, "seed {seed}");
            assert!(scenario.steps.is_sorted_by_key(|step| step.at_ns));
        }
    }
}
