//! Rows that `packhorse bench --json` wrote, as curves and numbers beside the lab's.
//!
//! ```text
//!   bench availability             RMPP, Figures 10 and 11; with --grant-ahead none: Figure 8's grants have 16 packets, ours hundreds
//!   bench doublebuf                application offload, Figures 8 and 11
//!   bench posts                    EMP, Table 2 and Figure 6
//!   bench layers                   Fast Messages, Figures 5 and 6
//! ```
//!
//! Each value is the median of a run's repetitions. A paper's figure has one length; of the lengths that were measured the nearest to it
//! is taken, and named in the legend.

use anyhow::{Context, Result};
use serde_json::Value;

use packhorse_bench::figures::Figure;
use packhorse_bench::offload::sheets::{cases_of, contenders_of};
use packhorse_bench::plan::Case;
use packhorse_bench::ratio::{Metric, values};
use packhorse_bench::row::{Findings, Row};
use packhorse_bench::sizes::show_bytes;
use packhorse_bench::system::Pattern;
use packhorse_bench::variant::Bound;
use packhorse_lab::Today;

/// A file for `--today`: what bench wrote, or curves as docs/lab.md has them.
pub(crate) fn parse(text: &str) -> Result<Today> {
    let value: Value = serde_json::from_str(text).context("not JSON")?;
    if value.get("rows").is_none() {
        return Today::parse(text);
    }
    let findings: Findings = serde_json::from_value(value)
        .context("it has rows, but they are not what `packhorse bench --json` writes")?;
    let today = of_rows(&findings.rows);
    anyhow::ensure!(
        !today.is_empty(),
        "none of its rows belongs to an experiment; bench availability, doublebuf, posts and layers have some"
    );
    Ok(today)
}

fn of_rows(rows: &[Row]) -> Today {
    let mut today = Today::default();
    availability(rows, &mut today);
    double_buffer(rows, &mut today);
    posts(rows, &mut today);
    layers(rows, &mut today);
    today
}

const MB: f64 = 1e6;

/// The median of a case.
fn median(rows: &[Row], case: Case, contender: &str, metric: Metric) -> Option<f64> {
    values(rows, case, contender, metric).map(|spread| spread.median)
}

/// The measured length that is nearest to the paper's, by ratio.
fn nearest(cases: &[Case], len: usize) -> Option<usize> {
    let off = |bytes: usize| ((bytes.max(1) as f64) / len as f64).ln().abs();
    cases.iter().map(|case| case.bytes).min_by(|a, b| off(*a).total_cmp(&off(*b)))
}

/// A contender, its link and the length, as a legend says it.
fn named(rows: &[Row], contender: &str, bytes: usize) -> String {
    let of_it = |row: &&Row| row.label() == contender;
    let link = rows.iter().find(of_it).and_then(|row| row.link.as_ref());
    let link = link.map(|link| format!(" over {link}")).unwrap_or_default();
    match bytes {
        0 => format!("{contender}{link}"),
        _ => format!("{contender}{link}, {}", show_bytes(bytes)),
    }
}

/// A curve over the cases: x and y of each that has both.
fn curve(
    rows: &[Row],
    cases: &[Case],
    contender: &str,
    (x, x_unit): (Metric, f64),
    (y, y_unit): (Metric, f64),
) -> Vec<(f64, f64)> {
    let point = |&case: &Case| {
        let x = median(rows, case, contender, x)?;
        Some((x / x_unit, median(rows, case, contender, y)? / y_unit))
    };
    cases.iter().filter_map(point).collect()
}

/// Points of one contender over the length of messages.
fn by_length(rows: &[Row], cases: &[Case], contender: &str, y: Metric) -> Vec<(f64, f64)> {
    let point = |&case: &Case| Some((case.bytes as f64, median(rows, case, contender, y)? / MB));
    cases.iter().filter_map(point).collect()
}

fn add(today: &mut Today, experiment: &str, name: &str, points: Vec<(f64, f64)>) {
    if !points.is_empty() {
        today.curve(experiment, name, points);
    }
}

fn availability(rows: &[Row], today: &mut Today) {
    let mut cases = cases_of(rows, Pattern::Availability);
    let Some(bytes) = nearest(&cases, 32 << 10) else { return };
    cases.retain(|case| case.bytes == bytes);
    cases.sort_by_key(|case| case.variant.slice);
    for contender in contenders_of(rows, Pattern::Availability) {
        let is_ahead = |row: &Row| row.label() == contender && row.manner.grant_ahead.is_some();
        if rows.iter().any(is_ahead) {
            continue; // a setting that no figure has
        }
        let name = named(rows, &contender, bytes);
        let share = (Metric::Of(Figure::Availability), 0.01);
        let points = curve(rows, &cases, &contender, share, (Metric::Bandwidth, MB));
        add(today, "rmpp-fig10", &name, points);
        let slice = (Metric::Of(Figure::SliceNs), 1e3);
        let points = curve(rows, &cases, &contender, slice, (Metric::Effective, MB));
        add(today, "rmpp-fig11", &name, points);
    }
}

fn double_buffer(rows: &[Row], today: &mut Today) {
    let cases = cases_of(rows, Pattern::DoubleBuf);
    for (bound, experiment) in [(Bound::Producer, "app-fig8"), (Bound::Consumer, "app-fig11")] {
        let of_it = |case: &&Case| case.variant.bound == Some(bound);
        let cases: Vec<Case> = cases.iter().filter(of_it).copied().collect();
        for contender in contenders_of(rows, Pattern::DoubleBuf) {
            let name = named(rows, &contender, 0);
            add(today, experiment, &name, by_length(rows, &cases, &contender, Metric::Bandwidth));
            if bound == Bound::Consumer {
                let own = Metric::Of(Figure::ConsumerBytesPerS);
                let name = format!("{name}: the consumer while it sums");
                add(today, experiment, &name, by_length(rows, &cases, &contender, own));
            }
        }
    }
}

fn posts(rows: &[Row], today: &mut Today) {
    let mut cases = cases_of(rows, Pattern::Posts);
    let Some(bytes) = nearest(&cases, 10 << 10) else { return };
    cases.retain(|case| case.bytes == bytes);
    cases.sort_by_key(|case| case.variant.load);
    for contender in contenders_of(rows, Pattern::Posts) {
        let name = named(rows, &contender, bytes);
        let share = (Metric::Of(Figure::WorkShare), 0.01);
        // Sent and received bytes, as the paper counts them; bench counts one way.
        let points = curve(rows, &cases, &contender, share, (Metric::Bandwidth, 1e6 / 16.0));
        add(today, "emp-fig6", &name, points);
        // The most work: then communication is over before the wait, as in the paper's table.
        let Some(&most) = cases.last() else { continue };
        let numbers = [
            ("post transmit", Figure::PostSendNs),
            ("post receive", Figure::PostRecvNs),
            ("wait", Figure::WaitNs),
        ];
        let us = |figure| median(rows, most, &contender, Metric::Of(figure)).map(|ns| ns / 1e3);
        for (what, figure) in numbers {
            us(figure).into_iter().for_each(|us| today.number("emp-table2", &name, what, us));
        }
        let all: Option<f64> = numbers.iter().map(|(_, figure)| us(*figure)).sum();
        all.into_iter().for_each(|all| today.number("emp-table2", &name, "total", all));
    }
}

const STREAMS: &str = "packhorse-streams";
/// Message passing on streams, and on whole messages, as the lab's curves are called.
const SHIMS: [(&str, &str); 2] =
    [("packhorse-shim2", "messages on streams"), ("packhorse-shim1", "with staging buffers")];

fn layers(rows: &[Row], today: &mut Today) {
    let cases = cases_of(rows, Pattern::Stream);
    let bare = by_length(rows, &cases, STREAMS, Metric::Bandwidth);
    if bare.is_empty() {
        return;
    }
    let name = named(rows, STREAMS, 0);
    let peak = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    let latency = |contender: &str| {
        let case = cases_of(rows, Pattern::PingPong).into_iter().next()?;
        median(rows, case, contender, Metric::P50).map(|ns| ns / 1e3)
    };
    today.number("fm-fig5", &name, "peak", peak(&bare));
    latency(STREAMS).into_iter().for_each(|us| today.number("fm-fig5", &name, "latency", us));
    for (shim, called) in SHIMS {
        let over = by_length(rows, &cases, shim, Metric::Bandwidth);
        let of_bare = |&(len, rate): &(f64, f64)| {
            let bare = bare.iter().find(|point| point.0 == len)?.1;
            Some((len, rate / bare * 100.0))
        };
        let share: Vec<_> = over.iter().filter_map(of_bare).collect();
        if shim == SHIMS[0].0 && !over.is_empty() {
            today.number("fm-fig6", called, "peak of MPI", peak(&over));
            today.number("fm-fig6", called, "share of FM, at most", peak(&share));
            latency(shim)
                .into_iter()
                .for_each(|us| today.number("fm-fig6", called, "latency of MPI", us));
        } else if !share.is_empty() {
            let what = "share of FM with staging buffers, at most";
            today.number("fm-fig6", called, what, peak(&share));
        }
        add(today, "fm-fig6", called, share);
    }
    add(today, "fm-fig5", &name, bare);
}

#[cfg(test)]
mod tests {
    use packhorse_bench::machine::Machine;
    use serde_json::json;

    use super::*;

    /// A row as `--json` writes it, with what is special to its pattern.
    fn row(bench: &str, bytes: usize, rate: f64, more: Value) -> Value {
        let mut row = json!({
            "bench": bench, "system": "packhorse", "link": "udp", "placement": "thread",
            "mtu": 1500, "bytes": bytes, "rep": 0, "bytes_per_s": rate,
        });
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        row
    }

    fn today(rows: &[Value]) -> Today {
        let machine = serde_json::to_value(Machine::here()).unwrap();
        parse(&json!({ "machine": machine, "rows": rows }).to_string()).unwrap()
    }

    fn points(today: &Today, experiment: &str) -> Vec<(f64, f64)> {
        today.of(experiment).next().expect("a curve").points.clone()
    }

    #[test]
    fn rows_of_bench_become_curves_in_the_papers_units() {
        let slice = |slice: u64, ns: f64, availability: f64| json!({ "slice": slice, "slice_ns": ns, "availability": availability });
        let today = today(&[
            row("availability", 32 << 10, 2e9, slice(10, 1e3, 0.25)),
            row("availability", 32 << 10, 1e9, slice(100, 1e4, 0.5)),
            row("availability", 1 << 20, 9e9, slice(10, 1e3, 0.9)), // not the paper's length
            row("doublebuf", 4096, 3e6, json!({ "bound": "producer" })),
        ]);
        assert_eq!(points(&today, "rmpp-fig10"), [(25.0, 2000.0), (50.0, 1000.0)]);
        assert_eq!(points(&today, "rmpp-fig11"), [(1.0, 500.0), (10.0, 500.0)]);
        assert_eq!(points(&today, "app-fig8"), [(4096.0, 3.0)]);
        assert_eq!(today.of("app-fig11").count(), 0);
    }

    #[test]
    fn a_setting_that_no_figure_has_is_left_out() {
        let ahead = |frames: u32| json!({ "slice": 10, "slice_ns": 1e3, "availability": 0.5, "grant_ahead": frames });
        let posts = json!({ "load": 90, "work_share": 0.9, "post_send_ns": 2000.0, "post_recv_ns": 500.0, "wait_ns": 1500.0 });
        let today = today(&[
            row("availability", 1 << 20, 5e8, ahead(15)),
            row("availability", 1 << 20, 4e8, ahead(0)),
            row("posts", 10 << 10, 1e8, posts),
        ]);
        assert_eq!(
            today.of("rmpp-fig8").count(),
            0,
            "its grants had 16 packets, ours have hundreds"
        );
        assert_eq!(today.of("rmpp-fig10").count(), 0, "nor is each setting a curve of Figure 10");
        assert_eq!(points(&today, "emp-fig6"), [(90.0, 1600.0)]);
        let total: Vec<_> = today.numbers("emp-table2", "total").map(|(_, us)| us).collect();
        assert_eq!(total, [4.0]);
    }

    #[test]
    fn a_file_without_such_rows_is_refused() {
        let machine = serde_json::to_value(Machine::here()).unwrap();
        let text = json!({ "machine": machine, "rows": [] }).to_string();
        assert!(format!("{:#}", parse(&text).unwrap_err()).contains("none of its rows"));
        assert!(format!("{:#}", parse(r#"{"rows": 1}"#).unwrap_err()).contains("bench --json"));
    }
}
