//! What would offload be worth on a machine of the user's own?

use std::fmt::Write as _;

use anyhow::Result;

use crate::machine::{Machine, shown};
use crate::measure;
use crate::placement::{Doer, Placement};
use crate::plant::Part;
use crate::text::short;

/// Long messages, for the rate.
const LONG: u64 = 1 << 20;
/// A small one, for the latency.
const SMALL: u64 = 8;
/// Beside work: messages of this length, and work in pieces of so many nanoseconds.
const BESIDE_LEN: u64 = 64 << 10;
const BESIDE_PIECE_NS: u64 = 20_000;

/// One placement on a machine.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Which.
    pub placement: Placement,
    /// Bytes per second of long messages.
    pub rate: f64,
    /// Half a round trip of a small message, in nanoseconds.
    pub latency_ns: f64,
    /// The share of the processor left for work beside messages of 64 KB.
    pub availability: f64,
    /// That share times the rate of those messages.
    pub effective: f64,
    /// How busy each part of the sender and the receiver is, long messages.
    pub used: [[f64; 7]; 2],
}

impl Placed {
    /// The busiest part, whose it is and how busy.
    pub fn bottleneck(&self) -> (&'static str, Part, f64) {
        let mut most = ("sender", Part::Wire, 0.0);
        for (whose, used) in ["sender", "receiver"].into_iter().zip(self.used) {
            for (part, share) in Part::ALL.into_iter().zip(used) {
                if share > most.2 {
                    most = (whose, part, share);
                }
            }
        }
        most
    }
}

/// What became of a machine under each placement.
#[derive(Clone, Debug)]
pub struct Exploration {
    /// What the machine is.
    pub title: String,
    /// By placement.
    pub placed: Vec<Placed>,
}

/// Tries all placements that a machine has the parts for.
pub fn explore(machine: &Machine) -> Result<Exploration> {
    let has_engine = machine.value("engine.copy") > 0.0;
    let has_card = machine.value("card.data_in") > 0.0 || machine.value("card.data_out") > 0.0;
    let mut placed = Vec::new();
    for placement in Placement::ALL {
        let needs_card = placement.receive == Doer::Card;
        if (placement.engine && !has_engine) || (needs_card && !has_card) {
            continue;
        }
        let flow = measure::stream(machine, placement, LONG, 2)?;
        let beside = measure::work(machine, placement, BESIDE_LEN, BESIDE_PIECE_NS)?;
        placed.push(Placed {
            placement,
            rate: flow.rate,
            latency_ns: measure::pingpong(machine, placement, SMALL)?,
            availability: beside.availability,
            effective: beside.rate * beside.availability,
            used: flow.used,
        });
    }
    Ok(Exploration { title: machine.title.clone(), placed })
}

impl Exploration {
    /// As a table, with the answer.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.title);
        let _ = writeln!(
            text,
            "  {:<16} {:>10} {:>10} {:>13} {:>14}   bottleneck",
            "placement", "1 MB, MB/s", "8 B, µs", "availability", "effective MB/s"
        );
        for placed in &self.placed {
            let (whose, part, share) = placed.bottleneck();
            let _ = writeln!(
                text,
                "  {:<16} {:>10} {:>10} {:>11} % {:>14}   {whose}'s {} ({} %)",
                placed.placement.name,
                short(placed.rate / 1e6),
                short(placed.latency_ns / 1e3),
                short(placed.availability * 100.0),
                short(placed.effective / 1e6),
                part.name(),
                short(share * 100.0),
            );
        }
        text.push('\n');
        text.push_str(&self.busy());
        text.push_str(&self.answer());
        text
    }

    fn busy(&self) -> String {
        let mut text = format!("  {:<16} busy with long messages, %: sender │ receiver\n", "");
        for placed in &self.placed {
            let side = |used: [f64; 7]| {
                let parts = Part::ALL.into_iter().zip(used).filter(|(_, share)| *share >= 0.005);
                let parts: Vec<_> = parts
                    .map(|(part, share)| format!("{} {:.0}", part.name(), share * 100.0))
                    .collect();
                parts.join(", ")
            };
            let [sender, receiver] = placed.used.map(side);
            let _ = writeln!(text, "  {:<16} {sender} │ {receiver}", placed.placement.name);
        }
        text
    }

    /// Whether offload pays.
    pub fn answer(&self) -> String {
        let Some(host) = self.placed.iter().find(|placed| placed.placement == Placement::HOST)
        else {
            return String::new();
        };
        let others = self.placed.iter().filter(|placed| placed.placement.receive == Doer::Card);
        let better = |what: fn(&Placed) -> f64| {
            others
                .clone()
                .max_by(|a, b| what(a).total_cmp(&what(b)))
                .map(|best| (best, what(best) / what(host)))
        };
        let Some((fast, by_rate)) = better(|placed| placed.rate) else {
            return "\nThis machine's card runs no protocol (card.data_in and card.data_out are not given): nothing can be offloaded to it.\n".to_owned();
        };
        let Some((free, by_both)) = better(|placed| placed.effective) else { return String::new() };
        let word = |by: f64| match by {
            by if by >= 1.1 => "pays",
            by if by >= 0.95 => "makes little difference",
            _ => "does harm",
        };
        format!(
            "\nOffload {} for bandwidth alone: {} is {} times the host's.\nBeside work it {}: {} gives {} times the host's bandwidth × availability.\n",
            word(by_rate),
            fast.placement.name,
            short(by_rate),
            word(by_both),
            free.placement.name,
            short(by_both),
        )
    }
}

/// A machine's costs, with where they come from.
pub fn costs_text(machine: &Machine) -> String {
    let mut text = format!("{}\n", machine.title);
    for (key, cost) in machine.said() {
        let value = shown(key.unit, cost.value);
        let _ =
            writeln!(text, "  {:<22} {value:>12}  {:<8} {}", key.name, cost.how.word(), cost.why);
    }
    text
}
