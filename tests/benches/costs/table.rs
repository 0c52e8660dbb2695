//! The report, and what must hold.

use std::fmt::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};

use crate::callgrind::{profile, total};
use crate::hop;
use crate::owners::{Bill, Guarantee, Owners};
use crate::portals;
use crate::scenarios::{LONE, MASKS, STREAMS, Stream};

/// Instructions an 8-byte message should cost at each side. A target: missing it is told, not failed.
const LONE_TARGET: f64 = 500.0;
/// What it did cost when last measured, and a twentieth: more is a step back, and fails.
const SENDER_MAX: f64 = 926.0;
const RECEIVER_MAX: f64 = 790.0;
/// What matching among 10 000 may cost, as a multiple of matching among 10.
const GROWTH_MAX: f64 = 1.2;
/// Another compiler than the one that wrote `tests/costs.txt` may need so much more.
const OTHER_COMPILER: f64 = 1.15;
/// Messages counted: a multiple of everything that happens every so often (acks, bursts).
const COUNT: usize = 4_096;
/// Payload of a full frame of data.
const DATA_LEN: f64 = 1432.0;
/// Large messages are long.
const LARGE_COUNT: usize = 16;

/// Cost of one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides {
    sender: f64,
    receiver: f64,
}

/// Everything counted.
#[derive(Debug)]
pub(crate) struct Figures {
    streams: Vec<(Stream, Sides)>,
    frame: Sides,
    /// By guarantee: sender, receiver.
    price: Vec<(Guarantee, Sides)>,
    functions: Vec<(String, Sides)>,
    matching: Vec<Growth>,
    /// Puts of Portals, by list: at the sender, and at the receiver among few entries and many.
    puts: Vec<(&'static str, f64, Growth)>,
    /// The steps of a whole hop: all that is called in it.
    hop: Vec<(&'static str, f64)>,
    fetched: Vec<(&'static str, f64)>,
    streamed: Vec<(&'static str, f64)>,
}

/// Matching among few and among many.
#[derive(Debug)]
struct Growth {
    list: &'static str,
    library: &'static str,
    few: f64,
    many: f64,
}

/// Counts everything.
pub(crate) fn measure() -> Result<Figures> {
    let count_of = |stream: &Stream| if stream.len > 100_000 { LARGE_COUNT } else { COUNT };
    let streams = STREAMS.iter().flat_map(|stream| {
        ["at_sender", "at_receiver"]
            .map(|inside| (stream.name.to_owned(), count_of(stream), inside))
    });
    let frame =
        ["at_frame_sender", "at_frame_receiver"].map(|inside| ("frame".to_owned(), COUNT, inside));
    let matching = matchings().flat_map(|(list, mask)| {
        [10, 10_000].map(|entries| (format!("match-{list}-{mask}-{entries}"), COUNT, "at_matcher"))
    });
    let hop = hop::STEPS.map(|(inside, _)| ("hop".to_owned(), COUNT, inside));
    let fetched = hop::FETCHED.map(|(inside, _)| ("fetched".to_owned(), COUNT, inside));
    let streamed = hop::STREAMED.map(|(inside, _)| ("streamed".to_owned(), COUNT, inside));
    let hop = hop.into_iter().chain(fetched).chain(streamed);
    let puts = portals::LISTS.into_iter().flat_map(|(list, _)| {
        [(10, "at_sender"), (10, "at_receiver"), (10_000, "at_receiver")]
            .map(|(entries, inside)| (format!("portals-{list}-{entries}"), COUNT, inside))
    });
    let wanted: Vec<Wanted> = streams.chain(frame).chain(matching).chain(hop).chain(puts).collect();
    let mut costs = costs(&wanted)?.into_iter();
    let mut next = || costs.next().context("a cost for each that is wanted");
    let mut streams = Vec::new();
    for stream in STREAMS {
        streams.push((*stream, Sides { sender: next()?, receiver: next()? }));
    }
    let frame = Sides { sender: next()?, receiver: next()? };
    let mut matching = Vec::new();
    for (list, mask) in matchings() {
        matching.push(Growth { list, library: MASKS[mask].0, few: next()?, many: next()? });
    }
    let mut hop = Vec::new();
    for (_, title) in hop::STEPS {
        hop.push((title, next()?));
    }
    let mut fetched = Vec::new();
    for (_, title) in hop::FETCHED {
        fetched.push((title, next()?));
    }
    let mut streamed = Vec::new();
    for (_, title) in hop::STREAMED {
        streamed.push((title, next()?));
    }
    let mut puts = Vec::new();
    for (list, title) in portals::LISTS {
        let sender = next()?;
        puts.push((
            title,
            sender,
            Growth { list, library: "Portals", few: next()?, many: next()? },
        ));
    }
    let (sender, receiver) = (price("at_sender")?, price("at_receiver")?);
    let of = |bill: &Bill, part: Guarantee| {
        bill.parts.get(&part).map_or(0.0, |&n| n as f64 / COUNT as f64)
    };
    let price = Guarantee::ALL
        .map(|part| (part, Sides { sender: of(&sender, part), receiver: of(&receiver, part) }));
    let functions = functions(&sender, &receiver);
    let price = price.to_vec();
    Ok(Figures { streams, frame, price, functions, matching, puts, hop, fetched, streamed })
}

/// Lists that are matched against, and which mask.
fn matchings() -> impl Iterator<Item = (&'static str, usize)> {
    let lists = ["posted", "shuffled", "unexpected"];
    lists.into_iter().flat_map(|list| (0..MASKS.len()).map(move |mask| (list, mask)))
}

/// A scenario, how many messages of it, and inside which functions they are counted.
type Wanted = (String, usize, &'static str);

/// What each of these costs, in their order. As many are counted at a time as there are cores: a count is not a time.
fn costs(wanted: &[Wanted]) -> Result<Vec<f64>> {
    let core_count = std::thread::available_parallelism()?.get();
    let next = AtomicUsize::new(0);
    let count_some = || {
        let mut counted = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((scenario, count, inside)) = wanted.get(at) else { return Ok(counted) };
            counted.push((at, cost(scenario, *count, inside)?));
        }
    };
    let mut all = std::thread::scope(|threads| {
        let workers: Vec<_> = (0..core_count).map(|_| threads.spawn(count_some)).collect();
        let counted = workers.into_iter().map(|worker| worker.join().expect("it does not panic"));
        counted.collect::<Result<Vec<Vec<_>>>>().map(|counted| counted.concat())
    })?;
    all.sort_by_key(|&(at, _)| at);
    Ok(all.into_iter().map(|(_, cost)| cost).collect())
}

/// Instructions of one message: what twice as many cost more.
fn cost(scenario: &str, count: usize, inside: &str) -> Result<f64> {
    let once = total(&profile(scenario, count, inside)?)?;
    let twice = total(&profile(scenario, 2 * count, inside)?)?;
    Ok((twice - once) as f64 / count as f64)
}

/// The bill of `COUNT` lone messages at one side.
fn price(inside: &str) -> Result<Bill> {
    let mut owners = Owners::load()?;
    let once = owners.bill(&profile(LONE.name, COUNT, inside)?)?;
    let mut twice = owners.bill(&profile(LONE.name, 2 * COUNT, inside)?)?;
    for (part, count) in &once.parts {
        *twice.parts.entry(*part).or_default() -= count;
    }
    for (function, count) in &once.functions {
        *twice.functions.entry(function.clone()).or_default() -= count;
    }
    Ok(twice)
}

/// Functions that cost at least an instruction per message, dearest first.
fn functions(sender: &Bill, receiver: &Bill) -> Vec<(String, Sides)> {
    let names: std::collections::BTreeSet<_> =
        sender.functions.keys().chain(receiver.functions.keys()).collect();
    let of = |bill: &Bill, name| bill.functions.get(name).map_or(0.0, |&n| n as f64 / COUNT as f64);
    let mut all: Vec<(String, Sides)> = names
        .into_iter()
        .map(|name| {
            let short = name.1.rsplit("::").next().unwrap_or("").to_owned();
            let sides = Sides { sender: of(sender, name), receiver: of(receiver, name) };
            (format!("{} {short}", name.0), sides)
        })
        .filter(|(_, sides)| sides.sender + sides.receiver >= 1.0)
        .collect();
    all.sort_by(|a, b| (b.1.sender + b.1.receiver).total_cmp(&(a.1.sender + a.1.receiver)));
    all
}

/// The compiler, as the table names it: the one that runs in this folder, hence the one that built this.
pub(crate) fn compiler() -> Result<String> {
    let output =
        Command::new("rustc").arg("--version").output().context("rustc could not be started")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The table as it is kept.
pub(crate) fn shown(figures: &Figures, tools: &str) -> String {
    let mut out = String::new();
    let _ =
        writeln!(out, "Instructions per message, by cargo bench -p packhorse-tests --bench costs");
    let _ = writeln!(out, "{tools}, release profile, {}", std::env::consts::ARCH);
    heading(&mut out, "A message", &["sender", "receiver"]);
    for (stream, sides) in &figures.streams {
        row(&mut out, stream.title, sides);
        if stream.trains {
            let frame_count = (stream.len as f64 / DATA_LEN).ceil();
            let Sides { sender, receiver } = *sides;
            let each = Sides { sender: sender / frame_count, receiver: receiver / frame_count };
            row(&mut out, "for each of its frames", &each);
        }
    }
    heading(
        &mut out,
        "The price of each guarantee (8 bytes, alone in its frame)",
        &["sender", "receiver"],
    );
    let mut sum = Sides { sender: 0.0, receiver: 0.0 };
    for (part, sides) in &figures.price {
        row(&mut out, part.title(), sides);
        sum = Sides { sender: sum.sender + sides.sender, receiver: sum.receiver + sides.receiver };
    }
    row(&mut out, "in all", &sum);
    let own = figures.price.last().expect("the measuring calls come last").1;
    let without = Sides { sender: sum.sender - own.sender, receiver: sum.receiver - own.receiver };
    row(&mut out, "in all, the measuring calls left out: at most 500", &without);
    row(
        &mut out,
        "for comparison: a frame written and read with nothing around it",
        &figures.frame,
    );
    heading(
        &mut out,
        "8 bytes from endpoint to endpoint over shared memory, all that is called",
        &[],
    );
    for (title, count) in &figures.hop {
        let _ = writeln!(out, "{title:<64} {:>9.0}", rounded(*count));
    }
    let whole: f64 = figures.hop.iter().map(|(_, count)| count).sum();
    let _ = writeln!(out, "{:<64} {:>9.0}", "in all: at most 1800", rounded(whole));
    heading(&mut out, "The same as a stream, with its handler", &[]);
    for (title, count) in &figures.streamed {
        let _ = writeln!(out, "{title:<64} {:>9.0}", rounded(*count));
    }
    heading(&mut out, "64 KB from endpoint to endpoint, fetched, all that is called", &[]);
    for (title, count) in &figures.fetched {
        let _ = writeln!(out, "{title:<64} {:>9.0}", rounded(*count));
    }
    heading(&mut out, "Matching, post to match", &["among 10", "10 000", "ratio"]);
    for growth in &figures.matching {
        let ratio = growth.many / growth.few;
        let title = format!("{}, masks of {}", growth.list, growth.library);
        let _ = writeln!(out, "{title:<64} {:>9.1} {:>9.1} {ratio:>9.2}", growth.few, growth.many);
    }
    heading(
        &mut out,
        "A put of Portals, 8 bytes, acknowledged: entries",
        &["sender", "among 10", "10 000", "ratio"],
    );
    for (title, sender, growth) in &figures.puts {
        let ratio = growth.many / growth.few;
        let Growth { few, many, .. } = growth;
        let _ = writeln!(out, "{title:<64} {sender:>9.1} {few:>9.1} {many:>9.1} {ratio:>9.2}");
    }
    heading(
        &mut out,
        "Where they are spent (8 bytes, alone in its frame)",
        &["sender", "receiver"],
    );
    for (name, sides) in &figures.functions {
        row(&mut out, name, sides);
    }
    out
}

/// What depends on the clock is told to the hundred.
fn rounded(count: f64) -> f64 {
    (count / 100.0).round() * 100.0
}

fn heading(out: &mut String, title: &str, columns: &[&str]) {
    let _ = write!(out, "\n{title:<64}");
    for column in columns {
        let _ = write!(out, " {column:>9}");
    }
    let _ = writeln!(out, "\n{:-<84}", "");
}

fn row(out: &mut String, title: &str, sides: &Sides) {
    let _ = writeln!(out, "{title:<64} {:>9.1} {:>9.1}", sides.sender, sides.receiver);
}

/// Fails if a bound is passed.
pub(crate) fn judge(figures: &Figures, same_compiler: bool) -> Result<()> {
    let slack = if same_compiler { 1.0 } else { OTHER_COMPILER };
    let mut wrong = Vec::new();
    let (_, lone) =
        figures.streams.iter().find(|(stream, _)| stream.name == LONE.name).expect("counted");
    let (_, own) = figures.price.last().expect("the measuring calls come last");
    let sides = [
        ("sender", lone.sender - own.sender, SENDER_MAX),
        ("receiver", lone.receiver - own.receiver, RECEIVER_MAX),
    ];
    println!();
    for (side, count, kept) in sides {
        let verdict = if count <= LONE_TARGET { "met" } else { "missed" };
        println!("an 8-byte message at its {side}: {count:.0}, target {LONE_TARGET:.0}: {verdict}");
        if count > kept * slack {
            wrong.push(format!(
                "an 8-byte message costs its {side} {count:.0} instructions, {kept:.0} were enough"
            ));
        }
    }
    let puts = figures.puts.iter().map(|(.., growth)| growth);
    for growth in figures.matching.iter().chain(puts) {
        let ratio = growth.many / growth.few;
        if ratio > GROWTH_MAX {
            let Growth { list, library, .. } = growth;
            wrong.push(format!(
                "matching among 10 000 {list} ({library}) costs {ratio:.2} × among 10"
            ));
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("; "));
    }
    println!(
        "no dearer than before (× {slack} for this compiler), × {GROWTH_MAX} at most from 10 to 10 000 entries"
    );
    Ok(())
}
