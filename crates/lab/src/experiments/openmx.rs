//! Open-MX: message passing in the system, on cards that only relay frames.

use anyhow::Result;

use crate::figure::{Finding, Gantt, Meant, Target};
use crate::machine::Machine;
use crate::machines::Bench;
use crate::measure;
use crate::placement::Placement;
use crate::plant::Part;

const MIB: f64 = 1_048_576.0;
const LONG: u64 = 4 << 20;
const SIZES: [u64; 10] =
    [1 << 10, 4 << 10, 16 << 10, 32_000, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, LONG];
/// Interrupts held back by the card, as it comes (275: "high interrupt coalescing delay").
const HELD_BACK_NS: f64 = 60_000.0;

/// IMB's ping-pong: MiB/s of a message by half its round.
fn rate(machine: &Machine, placement: Placement, len: u64) -> Result<f64> {
    Ok(len as f64 / measure::pingpong(machine, placement, len)? * 1e9 / MIB)
}

fn curve(machine: &Machine, placement: Placement) -> Result<Vec<(f64, f64)>> {
    SIZES.iter().map(|&len| Ok((len as f64, rate(machine, placement, len)?))).collect()
}

fn last(points: &[(f64, f64)]) -> f64 {
    points.last().map_or(0.0, |point| point.1)
}

pub(super) fn figure9(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("open-mx")?;
    let untuned = machine.with("host.interrupt_delay", HELD_BACK_NS);
    let mut found = Finding {
        name: "openmx-fig9",
        title: "Open-MX, Figure 9: ping-pong on 10 Gb/s",
        machine: "open-mx",
        about: "MPI ping-pong with copy offload, tuned and as it comes: then the card holds interrupts back for 60 µs (assumed). TCP took 13.2 µs, tuned (open-mx 277).",
        x: "message, bytes",
        y: "MiB/s",
        is_log: true,
        ..Finding::default()
    };
    let us = |machine: &Machine| {
        Ok::<_, anyhow::Error>(measure::pingpong(machine, Placement::ENGINE, 8)? / 1e3)
    };
    let (tuned_us, untuned_us) = (us(&machine)?, us(&untuned)?);
    found.targets = vec![
        Target::new("latency, tuned", "µs", 7.3, "open-mx 277", tuned_us).given(),
        Target::new("latency, as it comes", "µs", 70.0, "open-mx 277", untuned_us),
    ];
    found.order("below TCP's 13.2 µs", tuned_us < 13.2);
    let tuned = curve(&machine, Placement::ENGINE)?;
    let held = curve(&untuned, Placement::ENGINE)?;
    found.targets.push(
        Target::new("throughput, tuned by as it comes, at most", "×", 2.0, "open-mx 277", {
            let gains = tuned.iter().zip(&held).filter(|(tuned, _)| tuned.0 >= 65_536.0);
            gains.map(|(tuned, held)| tuned.1 / held.1).fold(0.0, f64::max)
        })
        .because("the model's card waits for its 60 µs also while a stream of frames arrives; the paper's delivered earlier then"),
    );
    found.curve("tuned", tuned);
    found.curve("as it comes", held);
    Ok(found)
}

/// Interrupts held back by the card of 1 Gb/s (275: without coalescing "it decreases the latency by about 20 µs").
const HELD_BACK_1G_NS: f64 = 20_000.0;

pub(super) fn figure9_1g(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("open-mx-1g")?;
    let untuned = machine.with("host.interrupt_delay", HELD_BACK_1G_NS);
    let mut found = Finding {
        name: "openmx-fig9-1g",
        title: "Open-MX, Figures 9 and 12: ping-pong on 1 Gb/s",
        machine: "open-mx-1g",
        about: "The same hosts with another card. Tuned, and as it comes: then the card holds interrupts back for the 20 µs that the paper saw. TCP took 50.5 µs, tuned 30.8 (open-mx 275).",
        x: "message, bytes",
        y: "MiB/s",
        is_log: true,
        ..Finding::default()
    };
    let us = |machine: &Machine| {
        Ok::<_, anyhow::Error>(measure::pingpong(machine, Placement::ENGINE, 8)? / 1e3)
    };
    let (tuned_us, untuned_us) = (us(&machine)?, us(&untuned)?);
    let tuned = curve(&machine, Placement::ENGINE)?;
    let held = curve(&untuned, Placement::ENGINE)?;
    let short = curve(&untuned.with("wire.mtu", 1500.0), Placement::ENGINE)?;
    let gain = tuned.iter().zip(&held).filter(|(tuned, _)| tuned.0 >= 65_536.0);
    let gain = gain.map(|(tuned, held)| tuned.1 / held.1).fold(0.0, f64::max);
    // What a wire of 1 Gb/s has for frames of 9000 bytes, with all that is around them.
    let capacity = 125e6 / MIB;
    found.targets = vec![
        Target::new("latency, tuned", "µs", 24.9, "open-mx 275", tuned_us).given(),
        Target::new("latency, as it comes", "µs", 44.6, "open-mx 275", untuned_us),
        Target::new("4 MB: the full wire", "MiB/s", capacity, "open-mx 275", last(&tuned)),
        Target::new("throughput, tuned by as it comes, at most", "×", 1.1, "open-mx 275", gain),
        Target::new(
            "9000 by 1500, 4 MB, as it comes",
            "×",
            1.03,
            "open-mx 350",
            last(&held) / last(&short),
        ),
    ];
    found.order(
        "below TCP's 30.8 µs, tuned, and 50.5 as it comes",
        tuned_us < 30.8 && untuned_us < 50.5,
    );
    found.curve("tuned", tuned);
    found.curve("as it comes", held);
    found.curve("as it comes, frames of 1500", short);
    Ok(found)
}

pub(super) fn figure10(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("open-mx")?;
    let mut found = Finding {
        name: "openmx-fig10",
        title: "Open-MX, Figure 10: copies by the host, none, and by the copy engine",
        machine: "open-mx",
        about: "Ping-pong, tuned. Native MX reached 1140 MiB/s (open-mx 303).",
        x: "message, bytes",
        y: "MiB/s",
        is_log: true,
        ..Finding::default()
    };
    let copies = curve(&machine, Placement::HOST)?;
    let free = curve(&machine.with("host.copies_in", 0.0), Placement::HOST)?;
    let engine = curve(&machine, Placement::ENGINE)?;
    found.targets = vec![
        Target::new("copies by the host", "MiB/s", 800.0, "open-mx 303", last(&copies)).given(),
        Target::new("copies ignored: line rate", "MiB/s", 1186.0, "open-mx 312", last(&free)),
        Target::new("copy engine: line rate", "MiB/s", 1186.0, "open-mx 314", last(&engine)),
    ];
    let gain = |at: usize| engine[at].1 / copies[at].1;
    found.targets.push(Target::new(
        "gain by the engine at 16 KB",
        "×",
        1.0,
        "open-mx 314",
        gain(2),
    ));
    found.order("the engine is worth most for long messages", gain(9) > gain(4) && gain(9) > 1.15);
    found.order("no gain below 32 KB", (0..4).all(|at| (gain(at) - 1.0).abs() < 0.05));
    found.mark("copies by the host", LONG as f64, 800.0);
    found.mark("native MX", LONG as f64, 1140.0);
    found.mark("copy engine", LONG as f64, 1186.0);
    found.curve("copies by the host", copies);
    found.curve("copies ignored", free);
    found.curve("copy engine", engine);
    for (title, placement) in [
        ("Figure 7: five packets received, copies by the host", Placement::HOST),
        ("Figure 8: five packets received, copies by the engine", Placement::ENGINE),
    ] {
        let spans = measure::traced_stream(&machine, placement, 5 * 8960)?;
        found.gantts.push(Gantt { title: title.to_owned(), spans });
    }
    Ok(found)
}

/// The share of a core that the receiver of a stream of synchronous messages uses.
fn load(machine: &Machine, placement: Placement, len: u64) -> Result<f64> {
    let flow = measure::stream(machine, placement, len, 1)?;
    let used = flow.used[1];
    let posts_ns = machine.value("host.post_recv")
        + machine.value("host.poll")
        + (len as f64 / 4096.0).ceil() * machine.value("host.post_page");
    let own = posts_ns * flow.rate / len as f64 / 1e9;
    Ok((used[Part::Irq as usize] + used[Part::Host as usize] + own) * 100.0)
}

pub(super) fn figure11(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("open-mx")?;
    let mut found = Finding {
        name: "openmx-fig11",
        title: "Open-MX, Figure 11: the receiver's processor in a stream of large messages",
        machine: "open-mx",
        about: "One message at a time. Library, driver and interrupt handler together.",
        x: "message, bytes",
        y: "% of a core",
        is_log: true,
        ..Finding::default()
    };
    let sizes = [32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, LONG];
    let mut all = Vec::new();
    for (name, placement) in
        [("copies by the host", Placement::HOST), ("copy engine", Placement::ENGINE)]
    {
        let points: Result<Vec<_>> =
            sizes.iter().map(|&len| Ok((len as f64, load(&machine, placement, len)?))).collect();
        let points = points?;
        all.push(points.clone());
        found.curve(name, points);
    }
    let (host, engine) = (&all[0], &all[1]);
    found.targets = vec![
        Target::new("32 KB, copies by the host", "%", 50.0, "open-mx 323", host[0].1),
        Target::new("32 KB, copy engine", "%", 42.0, "open-mx 323", engine[0].1),
        Target::new("4 MB, copies by the host", "%", 95.0, "open-mx 323", last(host)),
        Target::new("4 MB, copy engine", "%", 60.0, "open-mx 323", last(engine)),
    ];
    found.order(
        "the engine frees the processor at all lengths",
        host.iter().zip(engine).all(|(a, b)| b.1 < a.1),
    );
    found.mark("copies by the host", 32_768.0, 50.0);
    found.mark("copy engine", 32_768.0, 42.0);
    found.mark("copies by the host", LONG as f64, 95.0);
    found.mark("copy engine", LONG as f64, 60.0);
    Ok(found)
}

pub(super) fn table2(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("open-mx")?;
    let mut found = Finding {
        name: "openmx-table2",
        title: "Open-MX, Table 2: what the copy engine is worth, ping-pong of 4 MB",
        machine: "open-mx",
        about: "Throughput with the engine by throughput without. TCP gained nothing.",
        ..Finding::default()
    };
    for (mtu, delay, paper, line) in [
        (9000.0, 0.0, 1.322, "open-mx 332"),
        (9000.0, HELD_BACK_NS, 1.243, "open-mx 330"),
        (1500.0, 0.0, 1.007, "open-mx 336"),
        (1500.0, HELD_BACK_NS, 1.104, "open-mx 334"),
    ] {
        let machine = machine.with("wire.mtu", mtu).with("host.interrupt_delay", delay);
        let ours =
            rate(&machine, Placement::ENGINE, LONG)? / rate(&machine, Placement::HOST, LONG)?;
        let mode = if delay == 0.0 { "tuned" } else { "as it comes" };
        let reason = "the model's host copies 1460 bytes at 1.5 GB/s, 0.97 µs, and submits them in 0.35 µs or 0.7; the paper's gained nothing by that";
        found.targets.push(
            Target::new(format!("frames of {mtu} bytes, {mode}"), "×", paper, line, ours)
                .because(reason),
        );
    }
    let ours = |at: usize| found.targets[at].ours;
    let holds = ours(0) > ours(2);
    found.order("the engine is worth more with long frames", holds);
    Ok(found)
}

pub(super) fn figure12(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("open-mx")?;
    let mut found = Finding {
        name: "openmx-fig12",
        title: "Open-MX, Figure 12: frames of 1500 and of 9000 bytes",
        machine: "open-mx",
        about: "Ping-pong with copy offload, tuned. TCP hardly differs: its card cuts and joins (open-mx 352).",
        x: "message, bytes",
        y: "MiB/s",
        is_log: true,
        ..Finding::default()
    };
    let long = curve(&machine, Placement::ENGINE)?;
    let short = curve(&machine.with("wire.mtu", 1500.0), Placement::ENGINE)?;
    found.targets.push(
        Target::new("9000 by 1500, 4 MB", "×", 2.0, "open-mx 352", last(&long) / last(&short))
            .given(),
    );
    let longest = long.iter().zip(&short).filter(|(long, _)| long.0 >= 65_536.0);
    found
        .order("long frames are faster from 64 KB on", longest.into_iter().all(|(a, b)| a.1 > b.1));
    found.curve("9000", long);
    found.curve("1500", short);
    Ok(found)
}

/// MX's own protocol: packets of 4 KB, eight of them a block, four blocks.
fn compatible(machine: &Machine) -> Machine {
    machine.with("wire.mtu", 4136.0).with("proto.grant", 8.0).with("proto.ahead", 24.0)
}

pub(super) fn figure13(bench: &Bench) -> Result<Finding> {
    let machine = compatible(&bench.machine("open-mx")?);
    let mut found = Finding {
        name: "openmx-fig13",
        title: "Open-MX, Figure 13: one host with the protocol on its card, one without",
        machine: "open-mx",
        about: "Native MX is our own protocol on the card; the other host has it in the system, with the copy engine. Packets of 4 KB in blocks of eight, as MX has them.",
        x: "message, bytes",
        y: "% of both on the card",
        is_log: true,
        ..Finding::default()
    };
    let mut points = Vec::new();
    for len in SIZES.into_iter().filter(|&len| len >= 64 << 10) {
        let native = measure::pingpong(&machine, Placement::CARD, len)?;
        let mixed = measure::pingpong_of([&machine; 2], [Placement::CARD, Placement::ENGINE], len)?;
        points.push((len as f64, native / mixed * 100.0));
    }
    let least = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    found.targets = vec![
        Target::new("least", "%", 65.0, "open-mx 363", least).meant(Meant::AtLeast),
        Target::new("4 MB", "%", 90.0, "open-mx 363", last(&points)),
    ];
    found.mark("mixed", LONG as f64, 90.0);
    found.curve("mixed", points);
    Ok(found)
}

pub(super) fn figure14(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("open-mx")?;
    let mut found = Finding {
        name: "openmx-fig14",
        title: "Open-MX, Figure 14: larger packets and deeper blocks",
        machine: "open-mx",
        about: "Ping-pong with copy offload. Tuned, and with interrupts held back for 60 µs.",
        x: "message, bytes",
        y: "MiB/s",
        is_log: true,
        ..Finding::default()
    };
    let mut ends = Vec::new();
    for (mode, delay) in [("tuned", 0.0), ("as it comes", HELD_BACK_NS)] {
        let base = machine.with("host.interrupt_delay", delay);
        let small = compatible(&base);
        let deep = small.with("proto.grant", 32.0).with("proto.ahead", 96.0);
        for (name, machine) in [("4 KB, 8", &small), ("4 KB, 32", &deep), ("9000 B, 32", &base)] {
            let points = curve(machine, Placement::ENGINE)?;
            ends.push(points.clone());
            found.curve(format!("{mode}: {name}"), points);
        }
    }
    let gain = |more: usize, less: usize| {
        let long = ends[more].iter().zip(&ends[less]).filter(|(more, _)| more.0 >= 65_536.0);
        long.map(|(more, less)| more.1 / less.1).fold(0.0, f64::max)
    };
    found.order("larger packets help as it comes (open-mx 365)", gain(5, 4) > 1.03);
    found.order("larger packets help when tuned (open-mx 365)", gain(2, 1) > 1.03);
    found.order("deeper blocks help dramatically as it comes (open-mx 365)", gain(4, 3) > 1.3);
    found.order("and not as much when tuned (open-mx 365)", gain(1, 0) < gain(4, 3));
    Ok(found)
}
