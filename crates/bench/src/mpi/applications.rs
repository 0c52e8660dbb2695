//! `packhorse compare --mpi --applications`: does a program get quicker or slower (`applications/*.c`)?
//!
//! Small benchmarks flatter: a program computes between its messages, on cores that a transport would like to have, too. So the inner loops
//! of four programs are timed, as a user would run them (defaults, not bound to cores), over Packhorse with both placements and over
//! the MPI's own transports, one after the other in each repetition; and what of that was inside MPI. Beside them stands the loop of the RMPP paper (its Figure 9), which
//! works until its message is there: bandwidth times the share of the processor left for the work, the best of some lengths of work.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Result, ensure};

use super::Launcher;
use super::contender::{Contender, PLACEMENTS, Way};
use super::measure::{Bench, MpiArgs, Part, core_count};
use super::row::MpiRow;
use crate::command::Setup;
use crate::ratio::Spread;
use crate::sizes::show_bytes;
use crate::table::{show_ns, show_ratio};

const SOURCE: &str = concat!(
    include_str!("common.c"),
    include_str!("applications/begin.c"),
    include_str!("applications/cg.c"),
    include_str!("applications/mg.c"),
    include_str!("applications/ft.c"),
    include_str!("applications/is.c"),
    include_str!("applications/kernels.c"),
    include_str!("applications/rmpp.c"),
    include_str!("applications/main.c"),
);

/// The kernels, and the length that says how large each is (`applications/begin.c`).
const KERNELS: [(&str, usize); 4] =
    [("cg", 56_000), ("mg", 16 << 10), ("ft", 512 << 10), ("is", 2 << 20)];
/// What the rows end with that tell the time a kernel spent inside MPI.
const INSIDE: &str = "/mpi";
/// What the rows of RMPP's loop begin with; the ns of work between two looks follow.
pub(super) const RMPP: &str = "rmpp/";
const WORK_NS: [u64; 6] = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000];
/// Lengths of its messages, and how many times its TCP's effective bandwidth is promised.
const LOOPS: [(usize, f64); 2] = [(32 << 10, 1.2), (1 << 20, 2.0)];

const LINKS: [&str; 2] = ["auto", "udp"];
const SECONDS: f64 = 0.3;
const REPS: u16 = 5;
const QUICK_REPS: u16 = 3;

/// Promised of every kernel, and of their mean: its time ÷ its time over the MPI's own transport.
const RATIO_MAX: f64 = 1.0;
const MEAN_MAX: f64 = 0.97;
/// Promised of the default placement: its time ÷ its time without a helper.
const PLACEMENT_MAX: f64 = 1.02;

/// Whether a row is one of these.
pub fn is_application(row: &MpiRow) -> bool {
    Subject::all().iter().any(|subject| subject.has(row))
}

/// Measures all; says which contender is at work.
pub fn run(args: &MpiArgs, setup: &Setup, is_quick: bool) -> Result<Vec<MpiRow>> {
    ensure!(
        setup.bytes.is_none(),
        "the programs of --applications have messages of their own lengths: leave --bytes out"
    );
    // Without --applications, --ranks is about collective operations only.
    let wished = args.ranks.filter(|_| args.applications).map(usize::from);
    let rank_count = rank_count(core_count(), args.ranks_per_core.unwrap_or(1).into(), wished)?;
    let is_crowded = rank_count > core_count();
    let bench = Bench::new(args, setup, SOURCE, &LINKS, |launcher, links, is_two_hosts| {
        contenders(launcher, links, is_two_hosts, is_crowded)
    })?;
    let kernels = KERNELS.iter().map(|(name, bytes)| format!("{name}:{bytes}"));
    let loops = LOOPS.iter().flat_map(|&(bytes, _)| {
        WORK_NS.iter().map(move |work_ns| format!("{RMPP}{work_ns}:{bytes}"))
    });
    let part = Part { rank_count, cases: kernels.chain(loops).collect() };
    let reps = setup.reps.unwrap_or(if is_quick { QUICK_REPS } else { REPS });
    bench.measure_all(&[part], reps, setup.seconds.unwrap_or(SECONDS))
}

/// The transform wants a power of two.
fn rank_count(cores: usize, ranks_per_core: usize, wished: Option<usize>) -> Result<usize> {
    let Some(wished) = wished else {
        let most = (cores * ranks_per_core).max(2);
        return Ok(1 << most.ilog2());
    };
    ensure!(
        wished >= 2 && wished.is_power_of_two(),
        "--applications need 2, 4, 8, … ranks; --ranks {wished} is none of these"
    );
    Ok(wished)
}

/// Packhorse with both placements, and the MPI's own.
fn contenders(
    launcher: &Launcher,
    links: &[String],
    is_two_hosts: bool,
    is_crowded: bool,
) -> Vec<Contender> {
    let mut all = Vec::new();
    for mut contender in Contender::all_of(launcher, links, is_two_hosts) {
        match contender.way {
            Way::Packhorse(_) => all.extend(contender.placed()),
            Way::FabricTcp => {}
            Way::OwnTcp | Way::OwnShm | Way::Usual => {
                if is_crowded {
                    // Open MPI does so by itself where it knows that the cores do not suffice. A list of hosts does not tell it.
                    contender.settings.push(("OMPI_MCA_mpi_yield_when_idle", "1"));
                }
                all.push(contender);
            }
        }
    }
    all
}

/// What a line of the table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// A kernel, in ns an iteration.
    Kernel(&'static str),
    /// The part of a kernel's time that was spent inside MPI, in ns an iteration: of the rank that spent least there, for the others also waited for it.
    Inside(&'static str),
    /// RMPP's loop with messages of this length, in bytes a second: the best length of work.
    Loop(usize),
}

impl Subject {
    fn all() -> Vec<Self> {
        let kernels = KERNELS.iter().map(|&(name, _)| Self::Kernel(name));
        let inside = KERNELS.iter().map(|&(name, _)| Self::Inside(name));
        kernels.chain(inside).chain(LOOPS.iter().map(|&(bytes, _)| Self::Loop(bytes))).collect()
    }

    fn name(self) -> String {
        match self {
            Self::Kernel(name) => name.to_owned(),
            Self::Inside(name) => format!("{name} in MPI"),
            Self::Loop(bytes) => format!("rmpp {}", show_bytes(bytes)),
        }
    }

    fn has(self, row: &MpiRow) -> bool {
        match self {
            Self::Kernel(name) => row.bench == name,
            Self::Inside(name) => row.bench.strip_suffix(INSIDE) == Some(name),
            Self::Loop(bytes) => row.bench.starts_with(RMPP) && row.bytes == bytes,
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Kernel(_) | Self::Inside(_) => format!("{:.1}", value / 1e3),
            Self::Loop(_) => format!("{:.0}", value / 1e6),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Kernel(_) | Self::Inside(_) => "µs",
            Self::Loop(_) => "MB/s",
        }
    }
}

/// An MPI over something, with so many ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Runner<'a> {
    system: &'a str,
    ranks: usize,
}

impl Runner<'_> {
    /// All that occur, in the order in which they were measured.
    fn all(rows: &[MpiRow]) -> Vec<Runner<'_>> {
        let mut all = Vec::new();
        for row in rows.iter().filter(|row| is_application(row)) {
            let runner = Runner { system: &row.system, ranks: row.ranks };
            if !all.contains(&runner) {
                all.push(runner);
            }
        }
        all
    }

    fn is_ours(self) -> bool {
        self.system.contains("-packhorse")
    }

    /// One value for each repetition; of several lengths of work the best.
    fn values(self, rows: &[MpiRow], subject: Subject) -> BTreeMap<usize, f64> {
        let mut values: BTreeMap<usize, f64> = BTreeMap::new();
        let is_its = |row: &&MpiRow| row.system == self.system && row.ranks == self.ranks;
        for row in rows.iter().filter(is_its).filter(|row| subject.has(row)) {
            let best = values.entry(row.rep).or_insert(row.value);
            *best = best.max(row.value);
        }
        values
    }

    /// Divided by another's in each repetition that both have.
    fn ratios(self, other: &str, rows: &[MpiRow], subject: Subject) -> BTreeMap<usize, f64> {
        let other = Runner { system: other, ranks: self.ranks }.values(rows, subject);
        let own = self.values(rows, subject);
        own.into_iter().filter_map(|(rep, value)| Some((rep, value / other.get(&rep)?))).collect()
    }

    /// Divided by the same MPI's own transport.
    fn to_own(self, rows: &[MpiRow], subject: Subject) -> BTreeMap<usize, f64> {
        match Contender::base_of(self.system).filter(|base| base != self.system) {
            Some(base) => self.ratios(&base, rows, subject),
            None => BTreeMap::new(),
        }
    }

    /// With a helper, divided by without.
    fn to_inline(self, rows: &[MpiRow], subject: Subject) -> Option<Spread> {
        let [thread, inline] = PLACEMENTS;
        let twin = format!("{}{inline}", self.system.strip_suffix(thread)?);
        Spread::of(self.ratios(&twin, rows, subject).into_values())
    }

    /// The geometric mean of the kernels' ratios, in each repetition that has all of them.
    fn mean(self, rows: &[MpiRow]) -> Option<Spread> {
        let all = KERNELS.map(|(name, _)| self.to_own(rows, Subject::Kernel(name)));
        let of = |rep: &usize| -> Option<f64> {
            let logs = all.iter().map(|ratios| Some(ratios.get(rep)?.ln()));
            Some((logs.sum::<Option<f64>>()? / all.len() as f64).exp())
        };
        Spread::of(all[0].keys().filter_map(of))
    }

    /// Over which links its messages went; their shares change from repetition to repetition.
    fn links(self, rows: &[MpiRow]) -> Option<String> {
        let is_its = |row: &&MpiRow| row.system == self.system && row.ranks == self.ranks;
        let told = rows.iter().filter(is_its).filter_map(|row| row.link.as_deref());
        let kinds = told.flat_map(|link| link.split(", ")).filter_map(|one| one.split(' ').next());
        let kinds: BTreeSet<&str> = kinds.collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        let who = format!("{}, {} ranks", self.system, self.ranks);
        (!kinds.is_empty()).then(|| format!("{who}: went over {}", kinds.join(" and ")))
    }

    /// The length of work at which the loop was at its best, by the median of its repetitions.
    fn peak_ns(self, rows: &[MpiRow], bytes: usize) -> Option<u64> {
        let at = |work_ns: u64| {
            let bench = format!("{RMPP}{work_ns}");
            let is_it = |row: &&MpiRow| {
                (row.system.as_str(), row.ranks) == (self.system, self.ranks)
                    && row.bench == bench
                    && row.bytes == bytes
            };
            Spread::of(rows.iter().filter(is_it).map(|row| row.value)).map(|spread| spread.median)
        };
        let all = WORK_NS.into_iter().filter_map(|work_ns| Some((work_ns, at(work_ns)?)));
        all.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(work_ns, _)| work_ns)
    }
}

const HEADING: &str = "
kernels: time of an iteration, and what of it one rank was inside MPI (the one that waited least), less is better; rmpp: bandwidth × availability at the best length of work, more is better
subject    ranks  system                            median (min..max)                 ÷ the MPI's own (min..max)  thread ÷ inline
";

/// The table and what it means, for a terminal.
pub fn tables(rows: &[MpiRow]) -> String {
    let mut text = HEADING.to_owned();
    let runners = Runner::all(rows);
    for subject in Subject::all() {
        for &runner in &runners {
            if let Some(line) = line(rows, subject, runner) {
                writeln!(text, "{}", line.trim_end()).expect("text grows");
            }
        }
    }
    for runner in &runners {
        if let Some(mean) = runner.mean(rows) {
            let (name, ranks, mean) = (runner.system, runner.ranks, show_ratio(mean));
            writeln!(text, "{:<10} {ranks:>5}  {name:<32}  {:<32}  {mean}", "mean", "")
                .expect("text grows");
        }
    }
    let ours = runners.iter().filter(|runner| runner.is_ours());
    for said in ours.flat_map(|runner| verdict(rows, *runner).into_iter().chain(runner.links(rows)))
    {
        writeln!(text, "{said}").expect("text grows");
    }
    text
}

fn line(rows: &[MpiRow], subject: Subject, runner: Runner<'_>) -> Option<String> {
    let spread = Spread::of(runner.values(rows, subject).into_values())?;
    let [median, min, max] = [spread.median, spread.min, spread.max].map(|v| subject.show(v));
    let peak = match subject {
        Subject::Loop(bytes) => runner.peak_ns(rows, bytes),
        Subject::Kernel(_) | Subject::Inside(_) => None,
    };
    let peak = peak.map_or(String::new(), |ns| format!(" at {}", show_ns(ns as f64)));
    let value = format!("{median} {} ({min}..{max}){peak}", subject.unit());
    let to_own = Spread::of(runner.to_own(rows, subject).into_values());
    let to_own = to_own.map_or(String::new(), show_ratio);
    let to_inline = runner.to_inline(rows, subject).map_or(String::new(), show_ratio);
    let (name, ranks, system) = (subject.name(), runner.ranks, runner.system);
    Some(format!("{name:<10} {ranks:>5}  {system:<32}  {value:<32}  {to_own:<26}  {to_inline}"))
}

/// What is kept of what is promised, and what is not.
fn verdict(rows: &[MpiRow], runner: Runner<'_>) -> Vec<String> {
    let Some(base) = Contender::base_of(runner.system) else { return Vec::new() };
    let Some(mean) = runner.mean(rows) else { return Vec::new() };
    let listed = |limit: f64, ratio: &dyn Fn(Subject) -> Option<f64>| -> String {
        let above = KERNELS.iter().filter_map(|&(name, _)| {
            let ratio = ratio(Subject::Kernel(name)).filter(|&ratio| ratio > limit)?;
            Some(format!("{name} {ratio:.2}"))
        });
        let above: Vec<String> = above.collect();
        if above.is_empty() { "none".to_owned() } else { above.join(", ") }
    };
    let to_own = |subject| {
        Spread::of(runner.to_own(rows, subject).into_values()).map(|spread| spread.median)
    };
    let who = format!("{}, {} ranks", runner.system, runner.ranks);
    let slower = listed(RATIO_MAX, &to_own);
    let mut lines = vec![format!(
        "{who}: mean {:.2} × {base} (promised {MEAN_MAX}), above {RATIO_MAX:.2}: {slower}",
        mean.median
    )];
    if KERNELS.iter().any(|&(name, _)| runner.to_inline(rows, Subject::Kernel(name)).is_some()) {
        let to_inline = |subject| runner.to_inline(rows, subject).map(|spread| spread.median);
        let slower = listed(PLACEMENT_MAX, &to_inline);
        lines.push(format!("{who}: thread ÷ inline above {PLACEMENT_MAX}: {slower}"));
    }
    let loops = LOOPS.iter().filter_map(|&(bytes, least)| {
        let ratio = to_own(Subject::Loop(bytes))?;
        let name = Subject::Loop(bytes).name();
        Some(format!("{name} {ratio:.2} × {base} (promised {least})"))
    });
    let loops: Vec<String> = loops.collect();
    if !loops.is_empty() {
        lines.push(format!("{who}: {}", loops.join(", ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::Family;
    use super::*;

    fn row(bench: &str, bytes: usize, system: &str, rep: usize, value: f64) -> MpiRow {
        let (bench, system) = (bench.to_owned(), system.to_owned());
        MpiRow { bench, system, bytes, ranks: 2, rep, value, link: None }
    }

    fn names(is_two_hosts: bool, is_crowded: bool) -> Vec<Contender> {
        let launcher = Launcher { program: "mpirun".into(), family: Some(Family::OpenMpi4) };
        let links = LINKS.map(str::to_owned);
        contenders(&launcher, &links, is_two_hosts, is_crowded)
    }

    #[test]
    fn both_placements_of_each_link_meet_the_mpi_s_own() {
        let all: Vec<String> = names(false, false).into_iter().map(|one| one.name).collect();
        assert_eq!(
            all,
            [
                "openmpi4-packhorse-thread",
                "openmpi4-packhorse-inline",
                "openmpi4-packhorse-udp-thread",
                "openmpi4-packhorse-udp-inline",
                "openmpi4-tcp",
                "openmpi4-shm"
            ]
        );
        assert!(names(true, false).iter().all(|one| one.name != "openmpi4-shm"));
    }

    #[test]
    fn where_cores_are_few_the_mpi_s_own_gives_its_core_away() {
        let has_it = |one: &Contender| {
            let variables = one.variables(None, true).unwrap_or_default();
            variables.iter().any(|(name, _)| name == "OMPI_MCA_mpi_yield_when_idle")
        };
        let own = |all: Vec<Contender>| all.into_iter().find(|one| one.name == "openmpi4-tcp");
        assert!(own(names(true, true)).is_some_and(|one| has_it(&one)));
        assert!(own(names(true, false)).is_some_and(|one| !has_it(&one)));
        let ours = |one: &&Contender| matches!(one.way, Way::Packhorse(_));
        assert!(names(true, true).iter().filter(ours).all(|one| one.settings.len() == 1));
    }

    #[test]
    fn ranks_are_a_power_of_two() {
        let counts = [(1, 1), (2, 1), (2, 2), (6, 1)].map(|(c, n)| rank_count(c, n, None).unwrap());
        assert_eq!(counts, [2, 2, 4, 4]);
        assert_eq!(rank_count(2, 1, Some(8)).unwrap(), 8);
        for wrong in [0, 1, 3] {
            let error = rank_count(2, 1, Some(wrong)).unwrap_err().to_string();
            assert!(error.contains(&format!("--ranks {wrong}")), "{error}");
        }
    }

    /// Two repetitions; in the second the machine was twice as slow. What is slower than TCP is named, the mean is geometric.
    #[test]
    fn what_is_slower_than_promised_is_named() {
        let mut rows = Vec::new();
        for (rep, slow) in [(0, 1.0), (1, 2.0)] {
            for (name, ratio) in [("cg", 2.0), ("mg", 0.5), ("ft", 1.0), ("is", 1.0)] {
                rows.push(row(name, 8, "openmpi4-packhorse-thread", rep, 1e6 * ratio * slow));
                rows.push(row(name, 8, "openmpi4-packhorse-inline", rep, 1e6 * slow));
                rows.push(row(name, 8, "openmpi4-tcp", rep, 1e6 * slow));
            }
            for (work, ours) in [("rmpp/1000", 100e6), ("rmpp/10000", 300e6)] {
                rows.push(row(work, 32 << 10, "openmpi4-packhorse-thread", rep, ours / slow));
                rows.push(row(work, 32 << 10, "openmpi4-tcp", rep, 200e6 / slow));
            }
        }
        rows.push(row("cg/mpi", 8, "openmpi4-packhorse-thread", 0, 3e5));
        rows.push(row("cg/mpi", 8, "openmpi4-tcp", 0, 2e5));
        rows[0].link = Some("udp (98 %), packet (2 %)".into());
        rows.push(row("pingpong", 8, "openmpi4-tcp", 0, 1.0));
        let text = tables(&rows);
        assert!(text.contains("3000.0 µs (2000.0..4000.0)"), "{text}");
        assert!(text.contains("mean 1.00 × openmpi4-tcp (promised 0.97), above 1.00: cg 2.00\n"));
        assert!(text.contains("cg in MPI ") && text.contains("1.50 (1.50..1.50)"), "{text}");
        assert!(text.contains("thread ÷ inline above 1.02: cg 2.00\n"), "{text}");
        assert!(text.contains("rmpp 32K 1.50 × openmpi4-tcp (promised 1.2)\n"), "{text}");
        assert!(text.contains("225 MB/s (150..300) at 10.00 µs"), "{text}");
        assert!(text.contains("thread, 2 ranks: went over packet and udp\n"), "{text}");
        assert_eq!(rows.iter().filter(|row| is_application(row)).count(), rows.len() - 1);
    }

    #[test]
    fn a_repetition_without_its_rival_is_left_out() {
        let rows = [
            row("cg", 8, "openmpi4-packhorse-thread", 0, 1e6),
            row("cg", 8, "openmpi4-packhorse-thread", 1, 9e6),
            row("cg", 8, "openmpi4-tcp", 0, 2e6),
        ];
        let text = tables(&rows);
        assert!(text.contains("0.50 (0.50..0.50)"), "{text}");
        assert!(!text.contains("mean"), "one of four kernels is no mean: {text}");
    }
}
