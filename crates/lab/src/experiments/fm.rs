//! Fast Messages: what a library can do when it does everything.

use anyhow::Result;

use crate::figure::{Finding, Meant, Target, interpolate};
use crate::machine::Machine;
use crate::machines::Bench;
use crate::measure;
use crate::placement::Placement;

const LIBRARY: Placement = Placement::ALL_LIBRARY;
const SIZES: [u64; 10] = [16, 32, 64, 128, 256, 512, 1024, 2048, 8192, 32_768];
const MB: f64 = 1e6;

fn curve(machine: &Machine, sizes: &[u64]) -> Result<Vec<(f64, f64)>> {
    sizes
        .iter()
        .map(|&len| Ok((len as f64, measure::stream(machine, LIBRARY, len, 16)?.rate / MB)))
        .collect()
}

/// The length at which half of the peak is reached.
fn half_power(points: &[(f64, f64)]) -> f64 {
    let peak = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let by_rate: Vec<_> = points.iter().map(|&(len, rate)| (rate, len)).collect();
    interpolate(&by_rate, peak / 2.0)
}

pub(super) fn figure1(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("fm")?;
    let mut found = Finding {
        name: "fm-fig1",
        title: "Fast Messages, Figure 1: 125 µs of overhead a message, on 100 Mb/s and 1 Gb/s",
        machine: "fm",
        about: "The whole overhead is put on the sender's frame; all other costs of the machine stay. Frames of 1500 bytes, a message each: streams would put several into one, which UDP does not.",
        x: "message, bytes",
        y: "MB/s",
        is_log: true,
        ..Finding::default()
    };
    for (name, rate) in [("100 Mb/s", 100e6 / 8.0), ("1 Gb/s", 1e9 / 8.0)] {
        let machine = machine
            .with("host.frame_out", 125_000.0)
            .with("host.copy", 0.0)
            .with("wire.rate", rate)
            .with("wire.mtu", 1500.0)
            .with("proto.streams", 0.0)
            .with("proto.eager", 1500.0);
        let points = curve(&machine, &[16, 64, 128, 256, 512, 1024, 1400])?;
        let at_256 = interpolate(&points, 256.0);
        found.targets.push(
            Target::new(format!("{name}, 256 bytes"), "MB/s", 2.05, "fast-messages 53", at_256)
                .meant(Meant::AtMost),
        );
        found.curve(name, points);
    }
    let (slow, fast) = (&found.curves[0].points, &found.curves[1].points);
    let gain = fast[3].1 / slow[3].1;
    found.order("a wire ten times as fast hardly helps messages of 256 bytes", gain < 1.3);
    Ok(found)
}

/// Figure 3's curves: each has the costs of the one before it, and some more.
fn steps(machine: &Machine) -> [(&'static str, Machine); 4] {
    let unpaid = |machine: &Machine, costs: &[&str]| {
        costs.iter().fold(machine.clone(), |machine, cost| machine.with(cost, 0.0))
    };
    let buffers = ["host.short_copies_in"];
    let flow = ["host.control"];
    let bus = ["host.copy", "bus.setup", "bus.rate", "host.frame_in", "host.frame_out"];
    let managed = unpaid(machine, &buffers);
    // Acknowledgements and credit still come: the protocol would stop without them. They cost the host nothing.
    let moved = unpaid(&managed, &flow);
    let linked = unpaid(&moved, &bus);
    [
        ("the link alone", linked),
        ("and the bus", moved),
        ("and flow control", managed),
        ("and buffers: all of it", machine.clone()),
    ]
}

pub(super) fn figure3(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("fm")?;
    let mut found = Finding {
        name: "fm-fig3",
        title: "Fast Messages, Figure 3: the price of each step",
        machine: "fm",
        about: "The paper's curves are FM 1 on an older host, with packets of 128 bytes, and its text gives no numbers for them but those of the whole; here they are steps of FM 2, and only what the text says of them is asked, over all lengths: at 64 bytes flow control costs 29 %, because fewer messages share a frame, else up to 1.",
        x: "message, bytes",
        y: "MB/s",
        is_log: true,
        ..Finding::default()
    };
    let mut all = Vec::new();
    for (name, machine) in steps(&machine) {
        let points = curve(&machine, &SIZES)?;
        all.push(points.clone());
        found.curve(name, points);
    }
    // What is left of a step's rate when the next is added, over all lengths. At single lengths more or fewer messages may share a frame.
    let left = |step: usize| {
        let pairs = all[step + 1].iter().zip(&all[step]);
        pairs.map(|(more, less)| more.1 / less.1).sum::<f64>() / all[step].len() as f64
    };
    found
        .order("moving data across the bus adds to the overhead (fast-messages 89)", left(0) < 0.8);
    found.order(
        "flow control does not substantially degrade performance (fast-messages 89)",
        left(1) > 0.9,
    );
    found.order("buffers cost less than the bus (fast-messages 89)", left(2) > left(0));
    Ok(found)
}

pub(super) fn figure5(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("fm")?;
    let mut found = Finding {
        name: "fm-fig5",
        title: "Fast Messages, Figure 5: FM 2 on a 200 MHz Pentium Pro",
        machine: "fm",
        about: "A stream of messages, sixteen under way, and half of a ping-pong.",
        x: "message, bytes",
        y: "MB/s",
        is_log: true,
        ..Finding::default()
    };
    let points = curve(&machine, &SIZES)?;
    let peak = points.iter().map(|point| point.1).fold(0.0, f64::max);
    found.targets = vec![
        Target::new(
            "latency",
            "µs",
            11.0,
            "fast-messages 214",
            measure::pingpong(&machine, LIBRARY, 4)? / 1e3,
        )
        .given(),
        Target::new("peak", "MB/s", 77.0, "fast-messages 214", peak).given(),
        Target::new(
            "half of the peak at",
            "bytes",
            256.0,
            "fast-messages 214",
            half_power(&points),
        )
        .meant(Meant::AtMost),
    ];
    found.mark("FM 2", 32_768.0, 77.0);
    found.curve("FM 2", points);
    Ok(found)
}

pub(super) fn figure6(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("fm")?;
    // MPI on top: its calls and headers, and no copy more.
    let mpi = machine
        .with("host.post_send", 4_700.0)
        .with("host.post_recv", 3_400.0)
        .with("host.poll", 1_000.0);
    // MPI on FM 1: messages are assembled before they are sent, staged and copied when they arrive (fast-messages 112), and buffered once
    // more because FM 1 presents them before the application is prepared (114). On its host memory was copied about as fast as bytes
    // went to the card.
    let copies = |name: &str, more: f64| machine.value(name) + more;
    let staged = mpi
        .with("host.short_copies_out", copies("host.short_copies_out", 1.0))
        .with("host.short_copies_in", copies("host.short_copies_in", 3.0));
    let mut found = Finding {
        name: "fm-fig6",
        title: "Fast Messages, Figures 4 and 6: MPI over FM, with staging buffers and without",
        machine: "fm",
        about: "What MPI's calls cost is fitted on the 17 µs; the rates are predicted. FM 1 ran on another host: only the share is compared.",
        x: "message, bytes",
        y: "% of FM",
        is_log: true,
        ..Finding::default()
    };
    let bare = curve(&machine, &SIZES)?;
    let peak = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    let (over, copied) = (curve(&mpi, &SIZES)?, curve(&staged, &SIZES)?);
    let share = |points: &[(f64, f64)]| {
        points.iter().zip(&bare).map(|(a, b)| (a.0, a.1 / b.1 * 100.0)).collect::<Vec<_>>()
    };
    let (over_share, copied_share) = (share(&over), share(&copied));
    found.targets = vec![
        Target::new(
            "latency of MPI",
            "µs",
            17.0,
            "fast-messages 216",
            measure::pingpong(&mpi, LIBRARY, 4)? / 1e3,
        )
        .given(),
        Target::new("peak of MPI", "MB/s", 70.0, "fast-messages 216", peak(&over)),
        Target::new("share of FM, at most", "%", 90.0, "fast-messages 216", peak(&over_share)),
        Target::new(
            "share of FM with staging buffers, at most",
            "%",
            35.0,
            "fast-messages 95",
            peak(&copied_share),
        )
        .because(
            "one copy more at the sender and three at the receiver are all that the model adds",
        ),
    ];
    found.order(
        "without staging buffers MPI keeps far more of FM",
        peak(&over_share) > 1.5 * peak(&copied_share),
    );
    found.mark("MPI on FM 2", 32_768.0, 90.0);
    found.mark("with staging buffers (FM 1)", 32_768.0, 35.0);
    found.curve("MPI on FM 2", over_share);
    found.curve("with staging buffers (FM 1)", copied_share);
    Ok(found)
}
