//! Which guarantee does an instruction serve?
//!
//! Fast Messages gave the price of each guarantee by building the layer up and measuring each stage. A machine whose
//! guarantees share one pass over the frame cannot be built in stages, so the bill is split instead. Every instruction
//! executed belongs to the function of `proto` it was written in, also where that was inlined into another (the debug
//! information tells); what is done in a container (slab, ring) or in a library (copying) belongs to the place that asked
//! for it. A rule for each file or function says what it is for. The quick ways (`BY_LINE`) serve all guarantees at once:
//! there the line decides, by what it speaks of. Nothing is estimated: the parts add up to the whole.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use addr2line::Context;
use anyhow::Result;
use gimli::{Dwarf, EndianArcSlice, LittleEndian, SectionId};
use object::{Object as _, ObjectSection as _};

use crate::callgrind::{Cost, each_cost};

/// What instructions are spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Guarantee {
    /// Writing, sealing, checking and reading frames.
    Frame,
    /// Requests, events, finding the peer: what any interface needs.
    Requests,
    /// Packet numbers, acknowledgements, loss, time, congestion.
    Reliability,
    /// Message numbers and turns.
    Order,
    /// Budgets, credit, refusal.
    Credit,
    /// Which receive takes which message.
    Matching,
    /// The measuring program's own calls.
    Harness,
}

impl Guarantee {
    /// All that a message pays for, in the order of the table.
    pub(crate) const ALL: [Self; 7] = [
        Self::Frame,
        Self::Requests,
        Self::Reliability,
        Self::Order,
        Self::Credit,
        Self::Matching,
        Self::Harness,
    ];

    /// What the table calls it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Frame => "frame only: write, seal, check, read, place",
            Self::Requests => "+ requests: handles, events, rows",
            Self::Reliability => "+ reliability: packets, acks, loss, time",
            Self::Order => "+ order: message numbers, turns",
            Self::Credit => "+ credit: budgets, refusal",
            Self::Matching => "+ matching",
            Self::Harness => "+ the measuring calls themselves",
        }
    }
}

/// Rules, the first that fits counts: file or folder of `crates/proto/src`, part of the function's name, guarantee.
const RULES: &[(&str, &str, Guarantee)] = &[
    ("wire/", "", Guarantee::Frame),
    ("base/siphash.rs", "", Guarantee::Frame),
    ("seal.rs", "", Guarantee::Frame),
    ("seal/", "", Guarantee::Frame),
    ("base/api.rs", "", Guarantee::Frame),
    ("endpoint.rs", "seal", Guarantee::Frame),
    ("delivery/frame.rs", "", Guarantee::Frame),
    ("peers/output.rs", "write_ack", Guarantee::Reliability),
    ("bulk/output.rs", "credit", Guarantee::Credit),
    ("messages/fill.rs", "place", Guarantee::Frame),
    ("matching.rs", "", Guarantee::Matching),
    ("matching/", "", Guarantee::Matching),
    ("delivery/sent.rs", "", Guarantee::Reliability),
    ("delivery/sent/", "", Guarantee::Reliability),
    ("delivery/ack.rs", "", Guarantee::Reliability),
    ("delivery/rtt.rs", "", Guarantee::Reliability),
    ("delivery/window.rs", "", Guarantee::Reliability),
    ("delivery/path.rs", "", Guarantee::Reliability),
    ("delivery/path/", "", Guarantee::Reliability),
    ("delivery/content.rs", "", Guarantee::Reliability),
    ("endpoint/clock.rs", "", Guarantee::Reliability),
    ("peers/clock.rs", "", Guarantee::Reliability),
    ("peers/received.rs", "", Guarantee::Reliability),
    ("bulk/settled.rs", "", Guarantee::Reliability),
    ("base/pool.rs", "", Guarantee::Credit),
    ("messages/turns.rs", "", Guarantee::Credit),
    ("delivery/credit.rs", "", Guarantee::Credit),
    ("endpoint/input.rs", "turn", Guarantee::Order),
    ("endpoint/input.rs", "message", Guarantee::Order),
    ("messages/arrive.rs", "", Guarantee::Order),
    ("bulk/arrival.rs", "", Guarantee::Order),
    ("bulk/holding.rs", "", Guarantee::Order),
    ("peers/numbers.rs", "refuse", Guarantee::Credit),
    ("peers/numbers.rs", "hold", Guarantee::Credit),
    ("peers/numbers.rs", "", Guarantee::Order),
];

/// Files whose functions serve all guarantees at once: there the line decides.
const BY_LINE: [&str; 6] = [
    "endpoint/quick.rs",
    "bulk/quick_out.rs",
    "bulk/acked.rs",
    "endpoint/acked.rs",
    "messages/take.rs",
    "peers/acks.rs",
];

/// What a line of such a file speaks of; the first word that stands in it counts.
const WORDS: &[(&str, Guarantee)] = &[
    ("matcher", Guarantee::Matching),
    ("message_in", Guarantee::Order),
    ("refused_from", Guarantee::Credit),
    ("held_from", Guarantee::Credit),
    ("cost", Guarantee::Credit),
    ("credit", Guarantee::Credit),
    ("wire::", Guarantee::Frame),
    ("writer", Guarantee::Frame),
    ("tx.", Guarantee::Frame),
    ("start(", Guarantee::Frame),
    ("memory", Guarantee::Frame),
    ("crc", Guarantee::Frame),
    ("path", Guarantee::Reliability),
    ("packet", Guarantee::Reliability),
    ("flight", Guarantee::Reliability),
    ("ack", Guarantee::Reliability),
    ("heard_at", Guarantee::Reliability),
    ("header", Guarantee::Reliability),
    ("probe", Guarantee::Reliability),
    ("look_at", Guarantee::Reliability),
];

/// Containers, and methods that only read or write a field: they work for whoever calls them.
const CONTAINERS: &[(&str, &str)] = &[
    ("base/slab.rs", ""),
    ("base/ring.rs", ""),
    ("base/types.rs", ""),
    ("peers/rows.rs", "index"),
    ("peers/rows.rs", "get"),
    ("peers/rows.rs", "on_heard"),
    ("peers/chosen.rs", ""),
    ("peers/events.rs", ""),
    ("peers/shown.rs", ""),
    ("peers/paths.rs", ""),
    ("peers/ties.rs", ""),
];

/// Where instructions went: by guarantee, and by function for those who look closer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bill {
    /// By guarantee.
    pub(crate) parts: BTreeMap<Guarantee, u64>,
    /// By file and function.
    pub(crate) functions: BTreeMap<(String, String), u64>,
}

/// Reads the debug information of this program, and the lines of the files of `BY_LINE`.
pub(crate) struct Owners {
    debug: Context<Section>,
    lines: HashMap<&'static str, Vec<Guarantee>>,
    known: HashMap<u64, Option<CodeLine>>,
}

/// A line of a function of `proto`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CodeLine {
    file: String,
    function: String,
    line: usize,
}

impl Owners {
    /// Of the running program.
    pub(crate) fn load() -> Result<Self> {
        let program = std::env::current_exe()?;
        let debug = read_debug(&program)?;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/proto/src");
        let lines = |file| Ok((file, speaks_of(&std::fs::read_to_string(folder.join(file))?)));
        let lines = BY_LINE.into_iter().map(lines).collect::<Result<_>>()?;
        Ok(Self { debug, lines, known: HashMap::new() })
    }

    /// Splits the bill of one run.
    pub(crate) fn bill(&mut self, profile: &str) -> Result<Bill> {
        let mut bill = Bill::default();
        each_cost(profile, |cost| match cost {
            Cost::Own { address, count, ours } => {
                if let Some(place) = self.place(address, ours) {
                    self.add(&mut bill, &place, count);
                }
            }
            // What a library or a container does is done for its caller; what `proto` does is counted where it is done.
            Cost::Call { address, count, ours, callee_address, callee_ours } => {
                if self.place(callee_address, callee_ours).is_none()
                    && let Some(place) = self.place(address, ours)
                {
                    self.add(&mut bill, &place, count);
                }
            }
        })?;
        Ok(bill)
    }

    fn add(&self, bill: &mut Bill, place: &CodeLine, count: u64) {
        let CodeLine { file, function, line } = place;
        let is_of = |home: &str| file == home || home.ends_with('/') && file.starts_with(home);
        let fits = |rule: &&(&str, &str, Guarantee)| is_of(rule.0) && function.contains(rule.1);
        let guarantee = match (&**file, self.lines.get(&**file)) {
            ("sides.rs", _) => Guarantee::Harness,
            (_, Some(lines)) => lines.get(line - 1).copied().unwrap_or(Guarantee::Requests),
            _ => RULES.iter().find(fits).map_or(Guarantee::Requests, |rule| rule.2),
        };
        *bill.parts.entry(guarantee).or_default() += count;
        *bill.functions.entry((file.clone(), function.clone())).or_default() += count;
    }

    /// Where an instruction was written: in `proto` or `sides.rs`, the innermost place that is no container.
    fn place(&mut self, address: u64, ours: bool) -> Option<CodeLine> {
        if !ours {
            return None;
        }
        let debug = &self.debug;
        self.known.entry(address).or_insert_with(|| find_place(debug, address)).clone()
    }
}

/// A section of debug information.
type Section = EndianArcSlice<LittleEndian>;

fn read_debug(program: &Path) -> Result<Context<Section>> {
    let bytes = std::fs::read(program)?;
    let object = object::File::parse(&*bytes)?;
    let load = |id: SectionId| -> Result<Section> {
        let section = object.section_by_name(id.name());
        let data = section.and_then(|section| section.data().ok()).unwrap_or(&[]);
        Ok(Section::new(data.into(), LittleEndian))
    };
    Ok(Context::from_dwarf(Dwarf::load(load)?)?)
}

fn find_place(debug: &Context<Section>, address: u64) -> Option<CodeLine> {
    let mut frames = debug.find_frames(address).skip_all_loads().ok()?;
    while let Ok(Some(frame)) = frames.next() {
        let Some(location) = frame.location else { continue };
        let path = location.file.unwrap_or("");
        let file = match path.split_once("crates/proto/src/") {
            Some((_, file)) => file,
            None if path.ends_with("costs/sides.rs") => "sides.rs",
            None => continue,
        };
        let name = frame.function.as_ref().and_then(|function| function.demangle().ok());
        let function = name.map(|name| last_word(&name).to_owned()).unwrap_or_default();
        let contains = |(home, part): &(&str, &str)| file == *home && function.contains(part);
        if !CONTAINERS.iter().any(contains) {
            let line = location.line.unwrap_or(1).max(1) as usize;
            return Some(CodeLine { file: file.to_owned(), function, line });
        }
    }
    None
}

/// The function's own name, without where it lives.
fn last_word(path: &str) -> &str {
    path.trim_end_matches("::{{closure}}").rsplit("::").next().unwrap_or(path)
}

/// For each line what it speaks of. A line that names nothing goes with the one before, within its function.
fn speaks_of(text: &str) -> Vec<Guarantee> {
    let mut last = Guarantee::Requests;
    text.lines()
        .map(|line| {
            let code = line.split("//").next().unwrap_or("");
            if code.contains("fn ") || code.trim() == "}" {
                last = Guarantee::Requests;
            } else if let Some((_, guarantee)) = WORDS.iter().find(|(word, _)| code.contains(word))
            {
                last = *guarantee;
            } else if code.trim_end().ends_with(';') && code.contains("let ") {
                last = Guarantee::Requests; // a statement of its own
            }
            last
        })
        .collect()
}
