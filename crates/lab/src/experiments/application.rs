//! Application offload: double buffering over a library that must be called, and over matching that need not be.

use anyhow::Result;

use crate::figure::{Finding, Gantt, Meant, Target};
use crate::machine::Machine;
use crate::machines::Bench;
use crate::measure;
use crate::placement::Placement;

const SIZES: [u64; 8] = [2_048, 4_096, 7_168, 10_240, 16_384, 24_576, 32_768, 65_536];
/// Portals matches a message as it arrives, so that MPI need not announce it; MPI over GM does (application-offload 324).
fn of(machine: &Machine, placement: Placement) -> Machine {
    match placement {
        Placement::HOST => machine.with("proto.eager", 1_048_576.0),
        _ => machine.clone(),
    }
}

const SYSTEMS: [(&str, Placement); 2] = [
    ("Portals: matched in the system", Placement::HOST),
    ("GM: matched when called", Placement::LIBRARY),
];

pub(super) fn table1(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("rmpp")?;
    let mut found = Finding {
        name: "app-table1",
        title: "Application offload, Table 1: time between frames of 1500 bytes",
        machine: "rmpp",
        about: "The model's wire without what is around a frame, as the paper counts.",
        ..Finding::default()
    };
    for (rate, paper) in [(10e6, 1200.0), (100e6, 120.0), (1e9, 12.0), (10e9, 1.2)] {
        let machine = machine.with("wire.rate", rate / 8.0).with("wire.extra", 0.0);
        let ours = crate::costs::Costs::of(&machine).wire(1500) as f64 / 1e3;
        let what = format!("{} Mb/s", rate / 1e6);
        found.targets.push(Target::new(what, "µs", paper, "application-offload 203", ours).given());
    }
    Ok(found)
}

pub(super) fn figure8(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("portals")?;
    let rates = (43e6, 123e6);
    let mut found = Finding {
        name: "app-fig8",
        title: "Application offload, Figure 8: double buffering, bounded by the producer",
        machine: "portals",
        about: "The producer alone makes 43 MB/s, the consumer alone takes 123. The consumer's word that a buffer is free is a message, as in Figure 7.",
        x: "buffer, bytes",
        y: "MB/s",
        is_log: true,
        ..Finding::default()
    };
    let mut at_ten = Vec::new();
    for (name, placement) in SYSTEMS {
        let machine = of(&machine, placement);
        let stream = measure::stream(&machine, placement, 1 << 20, 2)?.rate / 1e6;
        let paper = if placement == Placement::HOST { 50.0 } else { 80.0 };
        found.targets.push(
            Target::new(
                format!("{name}, network"),
                "MB/s",
                paper,
                "application-offload 528",
                stream,
            )
            .meant(Meant::AtLeast)
            .given(),
        );
        let mut points = Vec::new();
        for len in SIZES {
            points.push((
                len as f64,
                measure::double_buffer(&machine, placement, len, rates)?.rate / 1e6,
            ));
        }
        at_ten.push(points[3].1);
        found.curve(name, points);
        found.gantts.push(Gantt {
            title: format!("{name}, buffers of 10 KB (Figures 9 and 10)"),
            spans: measure::traced_double_buffer(&machine, placement, 10_240, rates)?,
        });
    }
    let (portals, gm) = (at_ten[0], at_ten[1]);
    found.targets.push(
        Target::new("Portals, at 10 KB", "MB/s", 38.0, "application-offload 534", portals).given(),
    );
    found.targets.push(Target::new("GM, at 10 KB", "MB/s", 32.0, "application-offload 535", gm));
    found.targets.push(Target::new(
        "Portals by GM, at 10 KB",
        "×",
        1.15,
        "application-offload 508",
        portals / gm,
    ));
    found.order("Portals is ahead at 10 KB", portals > gm);
    found.order(
        "Portals is near the producer's rate, GM is not",
        portals > 0.81 * 43.0 && gm < 0.81 * 43.0,
    );
    found.mark(SYSTEMS[0].0, 10_240.0, 38.0);
    found.mark(SYSTEMS[1].0, 10_240.0, 32.0);
    Ok(found)
}

pub(super) fn figure11(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("portals")?;
    let rates = (160e6, 40e6);
    let mut found = Finding {
        name: "app-fig11",
        title: "Application offload, Figures 11 to 13: bounded by the consumer",
        machine: "portals",
        about: "The producer alone makes 160 MB/s, the consumer alone takes 40. The consumer's own rate, while it sums, is measured too (Figures 12 and 13).",
        x: "buffer, bytes",
        y: "MB/s",
        is_log: true,
        ..Finding::default()
    };
    let mut all = Vec::new();
    for (name, placement) in SYSTEMS {
        let machine = of(&machine, placement);
        let (mut points, mut own) = (Vec::new(), Vec::new());
        for len in SIZES {
            let made = measure::double_buffer(&machine, placement, len, rates)?;
            points.push((len as f64, made.rate / 1e6));
            own.push((len as f64, made.consumer_rate / 1e6));
        }
        all.push((points[3].1, points[3].1 / own[3].1));
        found.curve(name, points);
        found.curve(format!("{name}: the consumer while it sums"), own);
    }
    let ((portals, portals_share), (gm, gm_share)) = (all[0], all[1]);
    found.order(
        "GM is ahead: Portals goes through the system (application-offload 607)",
        gm > portals,
    );
    found.order(
        "Portals is within 15 % of its consumer's rate (application-offload 622)",
        portals_share > 0.85,
    );
    found.order("GM is further from its own (application-offload 627)", gm_share < portals_share);
    Ok(found)
}
