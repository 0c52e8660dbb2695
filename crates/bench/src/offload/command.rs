//! The arguments of the offload patterns, and what is measured with them: cases and contenders.

use anyhow::Result;
use clap::{Args, value_parser};

use super::sheets;
use crate::command::Setup;
use crate::plan::{Case, Contender, Plan};
use crate::row::OURS;
use crate::sizes::Sizes;
use crate::system::{Pattern, System};
use crate::variant::{Bound, Computing, Cores, Manner, Rest, Variant};
use crate::{SYSTEMS, system};

/// Units of work between polls, where none are asked for: the paper's 10 to 10⁷, and one of about 4 ms.
const SLICES: &[u64] = &[10, 100, 1_000, 10_000, 100_000, 1_000_000, 3_000_000, 10_000_000];
const AVAILABILITY_SIZES: &[usize] = &[10 << 10, 32 << 10, 1 << 20];
const DOUBLE_SIZES: &[usize] = &[
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
];
const OVERLAP_SIZES: &[usize] =
    &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
const POSTS_SIZES: &[usize] = &[8, 10 << 10];
const LOADS: &[u8] = &[0, 25, 50, 75, 90];
const WAITING_SIZES: &[usize] = &[8];

/// Time and repetitions where none are asked for.
pub(crate) const SECONDS: f64 = 0.3;
pub(crate) const REPS: usize = 3;

/// `bench availability`.
#[derive(Clone, Debug, Args)]
pub struct AvailabilityArgs {
    #[command(flatten)]
    pub(crate) setup: Setup,
    /// Units of work between two polls, about 1.5 ns each; without it 10 to 10⁷.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    slices: Vec<u64>,
    #[command(flatten)]
    switches: Switches,
}

/// Packhorse's switches of offload, tried beside each other.
#[derive(Clone, Debug, Default, Args)]
pub struct Switches {
    /// What Packhorse's helper may do while the application computes: none, receive, send, both.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = ["none", "receive", "send", "both"])]
    offload: Vec<String>,
    /// Frames still missing when a receiver grants more, of the hundreds that a grant has; several with commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    grant_ahead: Vec<u32>,
}

/// `bench doublebuf`.
#[derive(Clone, Debug, Args)]
pub struct DoubleBufArgs {
    #[command(flatten)]
    pub(crate) setup: Setup,
    /// The slow side: producer, consumer, or both in turn without it.
    #[arg(long, value_name = "SIDE", value_enum, value_delimiter = ',')]
    bound: Vec<Bound>,
    /// Rate of the slow side alone, in MB/s; the other is three times as fast.
    #[arg(long, value_name = "MB/S", default_value_t = 1000, value_parser = value_parser!(u64).range(1..=100_000))]
    rate: u64,
    /// The consumer says when a buffer is free and the producer waits for that, as in the paper's Figure 7.
    #[arg(long)]
    cts: bool,
}

/// `bench overlap`.
#[derive(Clone, Debug, Args)]
pub struct OverlapArgs {
    #[command(flatten)]
    pub(crate) setup: Setup,
    /// Who computes: sender, receiver, or all (both sides, on all cores); each in turn without it.
    #[arg(long, value_name = "WHO", value_enum, value_delimiter = ',')]
    computing: Vec<Computing>,
}

/// `bench posts`.
#[derive(Clone, Debug, Args)]
pub struct PostsArgs {
    #[command(flatten)]
    pub(crate) setup: Setup,
    /// Percent of its time that the application wants for its own work.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = value_parser!(u8).range(0..=99))]
    loads: Vec<u8>,
}

/// `bench waiting`.
#[derive(Clone, Debug, Args)]
pub struct WaitingArgs {
    #[command(flatten)]
    pub(crate) setup: Setup,
    /// Where the two processes run: apart (a core each), or one (both on one core); both in turn without it.
    #[arg(long, value_name = "HOW", value_enum, value_delimiter = ',')]
    cores: Vec<Cores>,
}

/// `bench idle`.
#[derive(Clone, Debug, Args)]
pub struct IdleArgs {
    #[command(flatten)]
    pub(crate) setup: Setup,
    /// What is done meanwhile: idle (nothing), or receive (a blocking one); both in turn without it.
    #[arg(long, value_name = "HOW", value_enum, value_delimiter = ',')]
    rest: Vec<Rest>,
}

fn or_all<T: Copy>(given: &[T], all: &[T]) -> Vec<T> {
    if given.is_empty() { all.to_vec() } else { given.to_vec() }
}

/// A case for each length and each variant.
fn cases(setup: &Setup, (pattern, sizes): (Pattern, &[usize]), variants: &[Variant]) -> Vec<Case> {
    let sizes = setup.bytes.as_ref().map_or(sizes, |sizes| &sizes.0);
    let each = |&bytes| variants.iter().map(move |&variant| Case { pattern, bytes, variant });
    sizes.iter().flat_map(each).collect()
}

/// Who takes part in a pattern: Packhorse with each placement, then all others that can.
fn contenders(setup: &Setup, pattern: Pattern) -> Vec<Contender> {
    let is_near = setup.peer.is_none();
    let usual = || {
        let suits = |system: &&&dyn System| {
            system.is_usual_in(pattern, setup.two_hosts) && (is_near || system.can_be_apart())
        };
        SYSTEMS.iter().filter(suits).map(|system| system.name().to_owned()).collect()
    };
    let names: Vec<String> = if setup.systems.is_empty() { usual() } else { setup.systems.clone() };
    let placements: Vec<&str> = match setup.placement.as_slice() {
        [] => vec!["inline", "thread"],
        given => given.iter().map(String::as_str).collect(),
    };
    let mut all = Vec::new();
    for name in &names {
        let placements = if name == OURS { placements.as_slice() } else { &[""] };
        all.extend(placements.iter().map(|placement| Contender::new(name, placement)));
    }
    for one in &mut all {
        one.only = vec![pattern];
    }
    all
}

/// Cases and contenders of one pattern: a part of a plan.
#[derive(Clone, Debug)]
pub struct Part {
    /// The lines of its tables.
    pub cases: Vec<Case>,
    /// Who takes part in it.
    pub contenders: Vec<Contender>,
}

impl AvailabilityArgs {
    /// With everything as usual.
    pub fn usual(setup: Setup) -> Self {
        Self { setup, slices: Vec::new(), switches: Switches::usual() }
    }

    fn part(&self) -> Part {
        let slices = or_all(&self.slices, SLICES);
        let variants: Vec<_> = slices
            .iter()
            .map(|&slice| Variant { slice: Some(slice), ..Variant::default() })
            .collect();
        let pattern = Pattern::Availability;
        let contenders = self.switches.apply(contenders(&self.setup, pattern));
        Part { cases: cases(&self.setup, (pattern, AVAILABILITY_SIZES), &variants), contenders }
    }
}

impl Switches {
    /// Each switch; both is what there is without one.
    fn usual() -> Self {
        let offload = ["", "none", "receive", "send"].map(str::to_owned).to_vec();
        Self { offload, grant_ahead: Vec::new() }
    }

    /// Each of Packhorse's contenders with a helper, once for each switch that was asked for.
    fn apply(&self, contenders: Vec<Contender>) -> Vec<Contender> {
        let mut all = Vec::new();
        for one in contenders {
            if one.system == OURS && one.placement == "thread" {
                all.extend(
                    self.manners(&one.manner).map(|manner| Contender { manner, ..one.clone() }),
                );
            } else {
                all.push(one);
            }
        }
        all
    }

    /// Each switch with each number of frames; as it is where none was asked for.
    fn manners(&self, plain: &Manner) -> impl Iterator<Item = Manner> {
        let offloads = some_or_none(&self.offload).into_iter();
        let offloads = offloads.map(|switch| switch.filter(|switch| !switch.is_empty()));
        let aheads = some_or_none(&self.grant_ahead);
        offloads.flat_map(move |offload| {
            let plain = plain.clone();
            let set = move |grant_ahead| Manner {
                offload: offload.clone(),
                grant_ahead,
                ..plain.clone()
            };
            aheads.clone().into_iter().map(set)
        })
    }
}

fn some_or_none<T: Clone>(given: &[T]) -> Vec<Option<T>> {
    if given.is_empty() { vec![None] } else { given.iter().cloned().map(Some).collect() }
}

impl DoubleBufArgs {
    /// With everything as usual.
    pub fn usual(setup: Setup) -> Self {
        Self { setup, bound: Vec::new(), rate: 1000, cts: false }
    }

    fn part(&self) -> Part {
        let bounds = or_all(&self.bound, &[Bound::Producer, Bound::Consumer]);
        let variants: Vec<_> = bounds
            .iter()
            .map(|&bound| Variant { bound: Some(bound), ..Variant::default() })
            .collect();
        let pattern = Pattern::DoubleBuf;
        let mut contenders = contenders(&self.setup, pattern);
        // Beside a face stand Packhorse's own interface, TCP, and Open MPI over both.
        let beside = self.setup.face.iter().flat_map(|face| [face.as_str(), "openmpi-packhorse"]);
        contenders.extend(beside.map(|name| {
            let only = vec![pattern];
            Contender { only, ..Contender::new(name, "") }
        }));
        for one in &mut contenders {
            one.manner.slow_rate = Some(self.rate * 1_000_000);
            one.manner.clear_to_send = self.cts;
        }
        Part { cases: cases(&self.setup, (pattern, DOUBLE_SIZES), &variants), contenders }
    }
}

impl OverlapArgs {
    /// With everything as usual.
    pub fn usual(setup: Setup) -> Self {
        Self { setup, computing: Vec::new() }
    }

    fn part(&self) -> Part {
        let all = [Computing::Sender, Computing::Receiver, Computing::All];
        let variants: Vec<_> = or_all(&self.computing, &all)
            .iter()
            .map(|&computing| Variant { computing: Some(computing), ..Variant::default() })
            .collect();
        let pattern = Pattern::Overlap;
        let cases = cases(&self.setup, (pattern, OVERLAP_SIZES), &variants);
        Part { cases, contenders: contenders(&self.setup, pattern) }
    }
}

impl PostsArgs {
    /// With everything as usual.
    pub fn usual(setup: Setup) -> Self {
        Self { setup, loads: Vec::new() }
    }

    fn part(&self) -> Part {
        let variants: Vec<_> = or_all(&self.loads, LOADS)
            .iter()
            .map(|&load| Variant { load: Some(load), ..Variant::default() })
            .collect();
        let cases = cases(&self.setup, (Pattern::Posts, POSTS_SIZES), &variants);
        Part { cases, contenders: contenders(&self.setup, Pattern::Posts) }
    }
}

impl IdleArgs {
    /// With everything as usual.
    pub fn usual(setup: Setup) -> Self {
        Self { setup, rest: Vec::new() }
    }

    fn part(&self) -> Part {
        let variants: Vec<_> = or_all(&self.rest, &[Rest::Idle, Rest::Receive])
            .iter()
            .map(|&rest| Variant { rest: Some(rest), ..Variant::default() })
            .collect();
        // Nothing is sent but words; the length only names the case.
        let cases = cases(&self.setup, (Pattern::Idle, &[8]), &variants);
        Part { cases, contenders: contenders(&self.setup, Pattern::Idle) }
    }
}

impl WaitingArgs {
    /// With everything as usual.
    pub fn usual(setup: Setup) -> Self {
        Self { setup, cores: Vec::new() }
    }

    fn part(&self) -> Part {
        let pattern = Pattern::Waiting;
        let variants: Vec<_> = or_all(&self.cores, &[Cores::Apart, Cores::One])
            .iter()
            .map(|&cores| Variant { cores: Some(cores), ..Variant::default() })
            .collect();
        let mut contenders = contenders(&self.setup, pattern);
        let can_sleep = |one: &&Contender| system(&one.system).is_some_and(|s| s.can_sleep());
        let asleep: Vec<_> = contenders
            .iter()
            .filter(can_sleep)
            .map(|one| {
                let manner = Manner { asleep: true, ..one.manner.clone() };
                Contender { manner, ..one.clone() }
            })
            .collect();
        contenders.extend(asleep);
        Part { cases: cases(&self.setup, (pattern, WAITING_SIZES), &variants), contenders }
    }
}

/// One of the patterns of offload, as it was asked for.
#[derive(Clone, Debug)]
pub enum Asked<'a> {
    /// `bench availability`.
    Availability(&'a AvailabilityArgs),
    /// `bench doublebuf`.
    DoubleBuf(&'a DoubleBufArgs),
    /// `bench overlap`.
    Overlap(&'a OverlapArgs),
    /// `bench posts`.
    Posts(&'a PostsArgs),
    /// `bench waiting`.
    Waiting(&'a WaitingArgs),
    /// `bench idle`.
    Idle(&'a IdleArgs),
}

impl Asked<'_> {
    fn setup(&self) -> &Setup {
        match self {
            Self::Availability(args) => &args.setup,
            Self::DoubleBuf(args) => &args.setup,
            Self::Overlap(args) => &args.setup,
            Self::Posts(args) => &args.setup,
            Self::Waiting(args) => &args.setup,
            Self::Idle(args) => &args.setup,
        }
    }

    /// What is measured.
    pub fn part(&self) -> Part {
        match self {
            Self::Availability(args) => args.part(),
            Self::DoubleBuf(args) => args.part(),
            Self::Overlap(args) => args.part(),
            Self::Posts(args) => args.part(),
            Self::Waiting(args) => args.part(),
            Self::Idle(args) => args.part(),
        }
    }

    /// The plan of this pattern alone.
    fn plan(&self) -> Plan {
        let reps = if matches!(self, Self::Idle(_)) { 2 } else { REPS };
        let Part { cases, contenders } = self.part();
        Plan { contenders, ..self.setup().plan(cases, SECONDS, reps) }
    }

    /// Measures and shows.
    pub fn run(&self) -> Result<()> {
        let faces: &[&str] = if matches!(self, Self::DoubleBuf(_)) { &["portals"] } else { &[] };
        self.setup().check_face("this", faces)?;
        let findings = self.setup().measure(self.plan())?;
        print!("{}", sheets::text(&findings.rows));
        Ok(())
    }
}

/// All patterns of offload with everything as usual; with `is_quick` only what stands for each.
pub fn everything(setup: &Setup, is_quick: bool) -> Vec<Part> {
    let two_hosts = setup.two_hosts;
    let setup = || setup.clone();
    let mut availability = AvailabilityArgs::usual(setup());
    let (mut posts, mut small) = (PostsArgs::usual(setup()), setup());
    if is_quick {
        availability.slices = vec![1_000, 100_000, 3_000_000];
        posts.loads = vec![0, 75];
        small.bytes = small.bytes.or(Some(Sizes(vec![64 << 10, 1 << 20])));
        availability.setup = Setup { bytes: Some(Sizes(vec![1 << 20])), ..setup() };
    }
    let double_buffer = DoubleBufArgs::usual(small.clone());
    let (overlap, waiting) =
        (OverlapArgs::usual(small), WaitingArgs::usual(Setup { bytes: None, ..setup() }));
    let idle = IdleArgs::usual(Setup { bytes: None, ..setup() });
    [
        Asked::Availability(&availability),
        Asked::DoubleBuf(&double_buffer),
        Asked::Overlap(&overlap),
        Asked::Posts(&posts),
        Asked::Waiting(&waiting),
        Asked::Idle(&idle),
    ]
    .map(|asked| {
        let mut part = asked.part();
        // Those that were named take part in what they can play.
        let can_play = |one: &Contender| {
            let plays = |pattern: &Pattern| {
                system(&one.system).is_some_and(|known| known.can_play(*pattern, two_hosts))
            };
            one.only.iter().all(plays)
        };
        part.contenders.retain(can_play);
        part
    })
    .into()
}
