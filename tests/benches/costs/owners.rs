//! Which guarantee does an instruction serve?
//!
//! Fast Messages gave the price of each guarantee by building the layer up and measuring each stage. A machine whose
//! guarantees share one pass over the frame cannot be built in stages, so the bill is split instead: every instruction
//! executed belongs to the function of `proto` it was written in, also where that was inlined into another (the debug
//! information tells), and what a library function does (copying, hashing) to the function that called it. A rule for
//! each function says what it is for. Nothing is estimated: the parts add up to the whole.

use std::collections::{BTreeMap, HashMap};

use addr2line::Loader;
use anyhow::{Result, anyhow};

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

/// Rules, the first that fits counts: file of `crates/proto/src`, part of the function's name, guarantee.
const RULES: &[(&str, &str, Guarantee)] = &[
    ("wire.rs", "", Guarantee::Frame),
    ("siphash.rs", "", Guarantee::Frame),
    ("api.rs", "", Guarantee::Frame),
    ("matching.rs", "", Guarantee::Matching),
    ("matching/index.rs", "", Guarantee::Matching),
    ("sent.rs", "", Guarantee::Reliability),
    ("ack.rs", "", Guarantee::Reliability),
    ("rtt.rs", "", Guarantee::Reliability),
    ("window.rs", "", Guarantee::Reliability),
    ("path.rs", "", Guarantee::Reliability),
    ("content.rs", "", Guarantee::Reliability),
    ("clock.rs", "", Guarantee::Reliability),
    ("pool.rs", "", Guarantee::Credit),
    ("turns.rs", "", Guarantee::Credit),
    ("endpoint.rs", "", Guarantee::Requests),
    ("post.rs", "", Guarantee::Requests),
    ("slab.rs", "", Guarantee::Requests),
    ("peer.rs", "", Guarantee::Requests),
    ("types.rs", "", Guarantee::Requests),
    ("arrive.rs", "", Guarantee::Order),
    ("input.rs", "", Guarantee::Reliability),
    ("output.rs", "", Guarantee::Reliability),
];

/// Where instructions went: by guarantee, and by function for those who look closer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bill {
    /// By guarantee.
    pub(crate) parts: BTreeMap<Guarantee, u64>,
    /// By file and function.
    pub(crate) functions: BTreeMap<(String, String), u64>,
}

/// Reads the debug information of this program.
pub(crate) struct Owners {
    loader: Loader,
    known: HashMap<u64, Option<Place>>,
}

/// A function of `proto`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    file: String,
    function: String,
}

impl Owners {
    /// Of the running program.
    pub(crate) fn load() -> Result<Self> {
        let program = std::env::current_exe()?;
        let loader = Loader::new(program).map_err(|error| anyhow!("debug information: {error}"))?;
        Ok(Self { loader, known: HashMap::new() })
    }

    /// Splits the bill of one run.
    pub(crate) fn bill(&mut self, profile: &str) -> Result<Bill> {
        let mut bill = Bill::default();
        each_cost(profile, |cost| match cost {
            Cost::Own { address, count, ours } => {
                if let Some(place) = self.place(address, ours) {
                    bill.add(&place, count);
                }
            }
            // What a library does is done for its caller; what `proto` does is counted where it is done.
            Cost::Call { address, count, ours, callee_address, callee_ours, .. } => {
                if self.place(callee_address, callee_ours).is_none()
                    && let Some(place) = self.place(address, ours)
                {
                    bill.add(&place, count);
                }
            }
        })?;
        Ok(bill)
    }

    /// The function of `proto` or of `sides.rs` an instruction was written in: the innermost, where several are inlined.
    fn place(&mut self, address: u64, ours: bool) -> Option<Place> {
        if !ours {
            return None;
        }
        let loader = &self.loader;
        self.known.entry(address).or_insert_with(|| find_place(loader, address)).clone()
    }
}

fn find_place(loader: &Loader, address: u64) -> Option<Place> {
    let mut frames = loader.find_frames(address).ok()?;
    while let Ok(Some(frame)) = frames.next() {
        let path = frame.location.as_ref().and_then(|location| location.file).unwrap_or("");
        let file = match path.split_once("crates/proto/src/") {
            Some((_, file)) => file,
            None if path.ends_with("costs/sides.rs") => "sides.rs",
            None => continue,
        };
        let name = frame.function.as_ref().and_then(|function| function.demangle().ok());
        let name = name.map(|name| name.into_owned()).unwrap_or_default();
        return Some(Place { file: file.to_owned(), function: name });
    }
    None
}

impl Bill {
    fn add(&mut self, place: &Place, count: u64) {
        let rule = RULES
            .iter()
            .find(|(file, part, _)| place.file == *file && place.function.contains(part));
        let guarantee = rule.map_or(Guarantee::Requests, |rule| rule.2);
        let guarantee = if place.file == "sides.rs" { Guarantee::Harness } else { guarantee };
        *self.parts.entry(guarantee).or_default() += count;
        *self.functions.entry((place.file.clone(), place.function.clone())).or_default() += count;
    }
}
