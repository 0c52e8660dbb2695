//! The papers' tables and figures.

use anyhow::Result;

use crate::figure::Finding;
use crate::machines::Bench;

mod application;
mod emp;
mod fm;
mod openmx;
pub(crate) mod rmpp;

/// A table or a figure of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    run: fn(&Bench) -> Result<Finding>,
}

impl Experiment {
    /// Runs it.
    pub fn run(&self, bench: &Bench) -> Result<Finding> {
        (self.run)(bench)
    }
}

const fn experiment(
    name: &'static str,
    about: &'static str,
    run: fn(&Bench) -> Result<Finding>,
) -> Experiment {
    Experiment { name, about, run }
}

const ALL: &[Experiment] = &[
    experiment("rmpp-fig7", "bandwidth by what is offloaded: 35, 50, 69 MB/s", rmpp::figure7),
    experiment(
        "rmpp-fig8",
        "the request for more, so many packets early: 69 to 88 MB/s",
        rmpp::figure8,
    ),
    experiment("rmpp-table2", "the bubble of 75 µs, step by step", rmpp::table2),
    experiment("rmpp-fig10", "bandwidth and availability beside work", rmpp::figure10),
    experiment("rmpp-fig11", "effective bandwidth: 13, 23, 36 MB/s", rmpp::figure11),
    experiment("rmpp-jumbo", "frames of 9000 bytes: 425 to 840 Mb/s", rmpp::jumbo),
    experiment("emp-fig5", "latency 23 and 36 µs, 880 Mb/s at 4 KB", emp::figure5),
    experiment("emp-table2", "what posts and the wait cost the host: 53, 9, 3 µs", emp::table2),
    experiment("emp-fig6", "throughput over the processor's share of work", emp::figure6),
    experiment("openmx-fig9", "ping-pong on 10 Gb/s: 7.3 µs", openmx::figure9),
    experiment("openmx-fig9-1g", "ping-pong on 1 Gb/s: 24.9 and 44.6 µs", openmx::figure9_1g),
    experiment(
        "openmx-fig10",
        "copies by the host, none, by the engine: 800 MiB/s to line rate",
        openmx::figure10,
    ),
    experiment("openmx-fig11", "the receiver's processor: 95 to 60 %", openmx::figure11),
    experiment("openmx-table2", "what the copy engine is worth", openmx::table2),
    experiment("openmx-fig12", "frames of 1500 and 9000 bytes: a factor of 2", openmx::figure12),
    experiment("openmx-fig13", "beside native MX: 65 to 90 %", openmx::figure13),
    experiment("openmx-fig14", "larger packets, deeper blocks", openmx::figure14),
    experiment("app-table1", "time between frames of 1500 bytes", application::table1),
    experiment(
        "app-fig8",
        "double buffering, bounded by the producer: 38 and 32 MB/s",
        application::figure8,
    ),
    experiment("app-fig11", "double buffering, bounded by the consumer", application::figure11),
    experiment("fm-fig1", "125 µs of overhead on 100 Mb/s and 1 Gb/s", fm::figure1),
    experiment("fm-fig3", "the price of each step: link, bus, flow control, buffers", fm::figure3),
    experiment("fm-fig5", "FM 2: 11 µs, 77 MB/s", fm::figure5),
    experiment("fm-fig6", "MPI over FM: 17 µs, 70 MB/s, up to 90 %", fm::figure6),
];

/// All experiments, in the papers' order.
pub fn all() -> &'static [Experiment] {
    ALL
}

/// The experiment with this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}
