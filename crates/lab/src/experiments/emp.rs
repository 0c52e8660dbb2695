//! EMP: the whole protocol on the card.

use anyhow::Result;

use crate::figure::{Finding, Gantt, Target};
use crate::machines::Bench;
use crate::measure;
use crate::placement::Placement;

const CARD: Placement = Placement::CARD;
/// The messages of Table 2 and Figure 6, and how many are posted at a time.
const BATCH_LEN: u64 = 10_240;
const BATCH_SIZE: u64 = 5;
/// What a call of MPI costs beside the library's own work: Table 2.
const MPI_POST_SEND_NS: f64 = 53_000.0 - 3.0 * 500.0;
const MPI_POST_RECV_NS: f64 = 9_000.0 - 3.0 * 500.0;

pub(super) fn figure5(bench: &Bench) -> Result<Finding> {
    let machine = bench.machine("emp")?;
    let mut found = Finding {
        name: "emp-fig5",
        title: "EMP, Figure 5: latency and bandwidth, frames of 1500 bytes",
        machine: "emp",
        about: "Half of a ping-pong, and one-way sends; everything on the card. Latency is drawn; the paper's steps are at the frame and at the page.",
        x: "message, bytes",
        y: "µs",
        ..Finding::default()
    };
    let latency = |len: u64| Ok::<_, anyhow::Error>(measure::pingpong(&machine, CARD, len)? / 1e3);
    let mut points = Vec::new();
    for len in [
        4, 256, 512, 1024, 1400, 1500, 1600, 2048, 2800, 3000, 3600, 4096, 4200, 4400, 5000, 6000,
        7000, 8000,
    ] {
        points.push((len as f64, latency(len)?));
    }
    let rate = measure::stream(&machine, CARD, 4096, 8)?.rate * 8e-6;
    found.targets = vec![
        Target::new("latency of 4 bytes", "µs", 23.0, "emp 208", latency(4)?).given(),
        Target::new("latency of 1500 bytes", "µs", 36.0, "emp 208", latency(1500)?)
            .because("our frame of 1500 bytes holds 1452 of the message, so a second frame follows; one full frame takes 37 µs"),
        Target::new("throughput of 4 KB messages", "Mb/s", 880.0, "emp 208", rate),
    ];
    // Steps: what 100 bytes more cost across a border, against what they cost beside it.
    let step = |at: u64| Ok::<_, anyhow::Error>(latency(at + 50)? - latency(at - 50)?);
    let (frame, page, plain) = (step(1460)?, step(4096)?, step(2300)?);
    found.order("a step at the frame's length", frame > 2.0 * plain);
    found.order("a step at the page's length", page > 1.2 * plain);
    found.order("throughput above TCP's 600 Mb/s (emp 182)", rate > 600.0);
    found.mark("EMP", 4.0, 23.0);
    found.mark("EMP", 1500.0, 36.0);
    found.curve("EMP", points);
    found.gantts.push(Gantt {
        title: "A message of 10 KB, everything on the card".to_owned(),
        spans: measure::traced_stream(&machine, CARD, BATCH_LEN)?,
    });
    Ok(found)
}

pub(super) fn table2(bench: &Bench) -> Result<Finding> {
    let machine = bench
        .machine("emp")?
        .with("host.post_send", MPI_POST_SEND_NS)
        .with("host.post_recv", MPI_POST_RECV_NS);
    let mut found = Finding {
        name: "emp-table2",
        title: "EMP, Table 2: microseconds per call, messages of 10 KB in batches of five",
        machine: "emp",
        about: "With work long enough that communication is over before the wait. What MPI's posts cost is the table's own; the wait is what is left for the host to do. TCP took 137, 4 and 126 µs, GM 66, 1 and 123 (emp 194).",
        ..Finding::default()
    };
    let round = measure::batch(&machine, CARD, BATCH_LEN, BATCH_SIZE, 3_000_000)?;
    let wait = round.wait / 1e3 * BATCH_SIZE as f64;
    found.targets = vec![
        Target::new("post transmit", "µs", 53.0, "emp 193", round.post_send / 1e3).given(),
        Target::new("post receive", "µs", 9.0, "emp 194", round.post_recv / 1e3).given(),
        Target::new("wait", "µs", 3.0, "emp 195", wait / 2.0),
        Target::new(
            "total",
            "µs",
            65.0,
            "emp 196",
            (round.post_send + round.post_recv) / 1e3 + wait / 2.0,
        ),
    ];
    found.order("the wait is the least of the three", wait / 2.0 < round.post_recv / 1e3);
    Ok(found)
}

pub(super) fn figure6(bench: &Bench) -> Result<Finding> {
    let machine = bench
        .machine("emp")?
        .with("host.post_send", MPI_POST_SEND_NS)
        .with("host.post_recv", MPI_POST_RECV_NS);
    // A message path through the library: it needs the host for what the card does in EMP, and copies.
    let host = machine
        .with("host.copy", 400e6)
        .with("host.frame_in", 2_000.0)
        .with("host.frame_out", 2_000.0);
    let mut found = Finding {
        name: "emp-fig6",
        title: "EMP, Figure 6: throughput over the share of the processor that computes, messages of 10 KB",
        machine: "emp",
        about: "Sent and received bytes by all the time of a round. Beside EMP our own protocol in a library that only works when it is called, as GM's matching did; its copies at 400 MB/s and 2 µs a frame are assumed.",
        x: "processor for work, %",
        y: "Mb/s",
        ..Finding::default()
    };
    let mut all = Vec::new();
    for (name, machine, placement) in
        [("EMP: on the card", &machine, CARD), ("in a library", &host, Placement::ALL_LIBRARY)]
    {
        let mut points = Vec::new();
        for work_us in [0, 50, 100, 150, 200, 300, 500, 1000, 2000, 4000] {
            let round = measure::batch(machine, placement, BATCH_LEN, BATCH_SIZE, work_us * 1000)?;
            points.push((round.work_share * 100.0, round.rate * 8e-6));
        }
        all.push(points.clone());
        found.curve(name, points);
    }
    let at = |points: &[(f64, f64)], share: f64| crate::figure::interpolate(points, share);
    let kept = |points: &[(f64, f64)]| at(points, 25.0) / points[0].1;
    found.order(
        "EMP stays flat while a quarter of the processor computes (emp 184)",
        kept(&all[0]) > 0.93,
    );
    found.order(
        "a library that must be called slopes from the start (emp 184)",
        kept(&all[1]) < kept(&all[0]) - 0.05,
    );
    found.order(
        "all fall in the end (emp 202)",
        all.iter().all(|points| points[points.len() - 1].1 < 0.5 * points[0].1),
    );
    Ok(found)
}
