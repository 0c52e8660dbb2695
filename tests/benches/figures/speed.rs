//! One sender, one receiver: how much of the line, how soon.

use packhorse_proto::{Limits, SECOND, Settings, Tag};

use crate::stage::{Stage, payload_rate};
use crate::{Bound, Figure};

/// A megabyte, as the papers count.
const MB: u64 = 1_000_000;

/// Goodput of a stream of 1 MB messages, two under way, after the first `skip`.
fn stream(loss_ppm: u32, settings: &Settings) -> f64 {
    let (skip, count) = (50, 450);
    let mut stage = Stage::new(2, loss_ppm, &Limits::default(), settings);
    let (a, b) = (stage.nodes[0], stage.nodes[1]);
    let mut started = stage.world.now();
    for message in 0..count + 2 {
        if message < count {
            stage.sink(b, Some(a), message, MB);
            stage.world.send(a, b, Tag(message), MB);
        }
        if message >= 2 {
            stage.receive(1, 10 * SECOND);
        }
        if message == skip + 1 {
            started = stage.world.now();
        }
    }
    let ns = stage.world.now() - started;
    ((count - skip) * MB) as f64 / (ns as f64 / 1e9)
}

/// Goodput without loss and with it.
pub(crate) fn goodput() -> Vec<Figure> {
    let share = |loss_ppm| 100.0 * stream(loss_ppm, &Settings::default()) / payload_rate();
    [
        ("without loss", 0, 95.0),
        ("0.1 % of frames lost", 1_000, 95.0),
        ("1 % of frames lost", 10_000, 80.0),
    ]
    .map(|(title, ppm, least)| Figure::new(title, share(ppm), "%", Bound::Least(least)))
    .to_vec()
}

/// One long message with the next grant sent when `ahead` frames of the last are missing.
fn long_message(ahead: u32, len: u64) -> f64 {
    let settings = Settings { grant_ahead: ahead, ..Settings::default() };
    let mut stage = Stage::new(2, 0, &Limits::default(), &settings);
    let (a, b) = (stage.nodes[0], stage.nodes[1]);
    stage.acquaint(a, b);
    let started = stage.world.now();
    stage.sink(b, Some(a), 1, len);
    stage.world.send(a, b, Tag(1), len);
    stage.receive(1, 10 * SECOND);
    len as f64 / ((stage.world.now() - started) as f64 / 1e9)
}

/// The bubbles between grants, and how they vanish.
pub(crate) fn bubbles() -> Vec<Figure> {
    let default = Settings::default().grant_ahead;
    let aheads = [0, 1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, default];
    let shares = aheads.map(|ahead| 100.0 * long_message(ahead, 20 * MB) / payload_rate());
    let mut figures: Vec<Figure> = aheads
        .iter()
        .zip(shares)
        .map(|(ahead, share)| Figure::new(format!("{ahead} frames ahead"), share, "%", Bound::Free))
        .collect();
    let last = figures.last_mut().expect("not empty");
    last.title += " (default)";
    last.bound = Bound::Least(94.0);
    let steps = shares.windows(2).map(|pair| pair[0] - pair[1]);
    let backwards = steps.fold(0.0, f64::max);
    figures.push(Figure::new(
        "widest step backwards on the way up",
        backwards,
        "%",
        Bound::Most(1.0),
    ));
    figures
}

/// Latency of 8 bytes on an idle network and beside a transfer that fills it, in round trips of the idle one.
pub(crate) fn beside() -> Vec<Figure> {
    let mut stage = Stage::new(2, 0, &Limits::default(), &Settings::default());
    let (a, b) = (stage.nodes[0], stage.nodes[1]);
    stage.acquaint(a, b);
    let one_way = |stage: &mut Stage, tag: u64| {
        stage.sink(b, Some(a), tag, 8);
        let posted = stage.world.now();
        stage.world.send(a, b, Tag(tag), 8);
        stage.receive(1, SECOND);
        (stage.world.now() - posted) as f64
    };
    let round_trip = 2.0 * (0..10).map(|tag| one_way(&mut stage, tag)).fold(0.0, f64::max);
    stage.sink(b, Some(a), 1_000, 1_000 * MB);
    stage.world.send(a, b, Tag(1_000), 1_000 * MB);
    stage.world.run_for(5_000_000);
    let mut times: Vec<f64> = (0..200)
        .map(|tag| {
            stage.world.run_for(37_000);
            one_way(&mut stage, tag)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    vec![
        Figure::new("round trip of 8 bytes, idle", round_trip / 1e3, "µs", Bound::Free),
        Figure::new(
            "one way beside the transfer, median",
            times[100] / round_trip,
            "trips",
            Bound::Free,
        ),
        Figure::new(
            "one way beside the transfer, longest of 200",
            times[199] / round_trip,
            "trips",
            Bound::Most(3.0),
        ),
    ]
}

/// Lengths beyond 32 bits.
pub(crate) fn five_gib() -> Vec<Figure> {
    let len = 5 << 30;
    let share = 100.0 * long_message(Settings::default().grant_ahead, len) / payload_rate();
    vec![Figure::new("arrives, at % of the line's payload rate", share, "%", Bound::Least(90.0))]
}
