//! Rows: one measurement each, as `--json` writes them. Fields that do not apply are left out.

use serde::{Deserialize, Serialize};

use crate::cpu::CpuTime;
use crate::figures::{Figure, Figures};
use crate::machine::Machine;
use crate::mpi::row::MpiRow;
use crate::plan::Case;
use crate::system::{Job, Latency, Outcome, Pattern};
use crate::variant::{Manner, Variant};

/// The system that all others are here to be compared with.
pub const OURS: &str = "packhorse";

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    pub bench: Pattern,
    /// Of which system.
    pub system: String,
    /// Over which link; TCP has none of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Where Packhorse's engine ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// Largest packet of the interface.
    pub mtu: usize,
    /// Length of a message.
    pub bytes: usize,
    /// Which repetition, from 0.
    pub rep: usize,
    /// Half round trips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_rtt_ns: Option<Latency>,
    /// Payload received a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
    /// Messages received a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_per_s: Option<f64>,
    /// Processor time of the whole machine for each 10⁹ bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s_per_gb: Option<f64>,
    /// Processor time for each 10⁹ bytes, by kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s_per_gb_by_kind: Option<CpuTime>,
    /// What the machine's processors did, in seconds a second, by kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_cores_by_kind: Option<CpuTime>,
    /// What a reader of the figures should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What the pattern was varied by.
    #[serde(flatten)]
    pub variant: Variant,
    /// How the system was set beyond that.
    #[serde(flatten)]
    pub manner: Manner,
    /// What the patterns of offload found.
    #[serde(flatten)]
    pub figures: Figures,
}

impl Row {
    /// From what the two sides saw.
    pub fn new(job: &Job, mtu: usize, rep: usize, active: Outcome, passive: Outcome) -> Self {
        let is_ours = job.system.starts_with(OURS);
        let has_link = is_ours || job.system == "bare";
        let seen = if job.pattern.is_measured_by_passive() { &passive } else { &active };
        let per_second = |count: u64| count as f64 * 1e9 / seen.elapsed_ns.max(1) as f64;
        let is_flow =
            !job.pattern.is_ping_pong() && !matches!(job.pattern, Pattern::Overlap | Pattern::Idle);
        let mut figures = active.figures.clone();
        figures.add(&passive.figures);
        let cores = seen.cpu.filter(|_| job.pattern.is_by_courier() && seen.elapsed_ns > 0);
        let cpu = seen.cpu.filter(|_| seen.bytes > 0).map(|cpu| cpu.per(seen.bytes as f64 / 1e9));
        Self {
            bench: job.pattern,
            system: job.system.clone(),
            link: has_link.then(|| job.link.clone()),
            placement: is_ours.then(|| job.placement.clone()),
            mtu,
            bytes: job.bytes,
            rep,
            half_rtt_ns: seen.half_rtt_ns,
            bytes_per_s: is_flow.then(|| per_second(seen.bytes)),
            messages_per_s: is_flow.then(|| per_second(seen.messages)),
            cpu_s_per_gb: cpu.map(CpuTime::total),
            cpu_s_per_gb_by_kind: cpu,
            cpu_cores_by_kind: cores.map(|cpu| cpu.per(seen.elapsed_ns as f64 / 1e9)),
            note: active.note.or(passive.note),
            variant: job.variant,
            // How it was arranged is of no interest afterwards.
            manner: Manner { shares_machine: false, other: None, ..job.manner.clone() },
            figures,
        }
    }

    /// The rate of the bare link is known: so is the limit of a double buffer.
    pub fn set_limit(&mut self, link: f64) {
        let alone = [Figure::ProducerAloneBytesPerS, Figure::ConsumerAloneBytesPerS];
        let alone = alone.into_iter().filter_map(|figure| self.figures.get(figure));
        let limit = alone.fold(link, f64::min);
        let both = [(Figure::LinkBytesPerS, link), (Figure::LimitBytesPerS, limit)];
        self.figures.add(&Figures::of(both));
    }

    /// The case it belongs to.
    pub fn case(&self) -> Case {
        Case { pattern: self.bench, bytes: self.bytes, variant: self.variant }
    }

    /// The line of a plot it belongs to: the system and, where that is of interest, how it was set.
    pub fn label(&self) -> String {
        let mut label = self.system.clone();
        if let Some(copies) = &self.manner.copies {
            label += &format!(" copies {copies}");
        }
        if Pattern::FLOWS.contains(&self.bench) {
            return label;
        }
        for word in [&self.placement, &self.manner.offload].into_iter().flatten() {
            label += " ";
            label += word;
        }
        if let Some(frames) = self.manner.grant_ahead {
            label += &format!(" ahead {frames}");
        }
        if self.manner.asleep {
            label += " asleep";
        }
        label
    }
}

/// Everything a run found, as `--json` writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// What it ran on.
    pub machine: Machine,
    /// One for each measurement.
    pub rows: Vec<Row>,
    /// One for each measurement under MPI.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mpi: Vec<MpiRow>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::system::example_job;

    pub(crate) fn example_row(bench: Pattern, system: &str, rep: usize, value: f64) -> Row {
        let job = Job { system: system.into(), ..example_job(bench, 1.0) };
        let latency = Latency { p50: value as u64, p99: 2 * value as u64, mean: value as u64 };
        let outcome = match bench {
            Pattern::PingPong => Outcome { half_rtt_ns: Some(latency), ..Outcome::default() },
            _ => Outcome {
                bytes: (value * 8.0) as u64,
                messages: value as u64,
                elapsed_ns: 1_000_000_000,
                ..Outcome::default()
            },
        };
        Row::new(&job, 1500, rep, outcome.clone(), outcome)
    }

    #[test]
    fn fields_that_do_not_apply_are_left_out() {
        let row = example_row(Pattern::PingPong, "tcp", 1, 3300.0);
        let json = serde_json::to_value(&row).unwrap();
        let mut keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["bench", "bytes", "half_rtt_ns", "mtu", "rep", "system"]);
        assert_eq!(json["bench"], "pingpong");
        assert_eq!(json["half_rtt_ns"]["p50"], 3300);
    }

    #[test]
    fn rows_survive_the_file() {
        let rows = vec![
            example_row(Pattern::Stream, "bare", 0, 1e6),
            example_row(Pattern::Rate, OURS, 2, 4e6),
        ];
        assert_eq!(rows[1].placement.as_deref(), Some("inline"));
        let findings = Findings { machine: Machine::here(), rows, ..Findings::default() };
        let text = serde_json::to_string(&findings).unwrap();
        assert_eq!(serde_json::from_str::<Findings>(&text).unwrap(), findings);
    }

    #[test]
    fn only_arrivals_count() {
        let job = example_job(Pattern::Stream, 1.0);
        let cpu = Some(CpuTime { user: 1.0, system: 2.0, softirq: 1.0 });
        let passive = Outcome {
            bytes: 2_000_000_000,
            messages: 10,
            elapsed_ns: 500_000_000,
            cpu,
            ..Outcome::default()
        };
        let active = Outcome { bytes: 99, note: Some("lossy".into()), ..Outcome::default() };
        let row = Row::new(&job, 1500, 0, active, passive);
        assert_eq!(row.bytes_per_s, Some(4e9));
        assert_eq!(row.messages_per_s, Some(20.0));
        assert_eq!(row.cpu_s_per_gb, Some(2.0));
        assert_eq!(row.note.as_deref(), Some("lossy"));
    }
}
