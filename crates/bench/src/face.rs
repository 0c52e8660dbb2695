//! The MX face as a program of MX meets it: the same patterns as over the native interface (`ours`), through the functions of MX.
//!
//! Links, placement and lengths in flight are those of `ours`, so that the difference is what the face costs.

use anyhow::{Context, Result, anyhow, bail};
use packhorse_mx::caller::Caller;

use crate::ours::{self, DATA, LOOK_EVERY, STOP};
use crate::system::{Control, Job, Outcome, Pattern, Role, Rounds, System, Tally};

/// All bits of a tag count.
const EXACT: u64 = u64::MAX;
const ANY: u64 = 0;
/// A wait that nothing ends is an error after this, in milliseconds.
const WAIT_MS: u32 = 10_000;
const LOOK_MS: u32 = 1_000;

/// Packhorse through MX.
#[derive(Clone, Copy, Debug)]
pub struct Mx;

impl System for Mx {
    fn name(&self) -> &'static str {
        "packhorse-mx"
    }

    fn is_usual(&self, _: bool) -> bool {
        false
    }

    /// Its two sides find each other by a broadcast, or by a table that nobody wrote.
    fn can_be_apart(&self) -> bool {
        false
    }

    fn can_be_in_namespaces(&self) -> bool {
        true
    }

    fn run(&self, job: &Job, control: &mut dyn Control) -> Result<Outcome> {
        let mut caller = meet(job, control)?;
        let played = match (job.pattern, job.role) {
            (Pattern::PingPong, Role::Active) => ping(&mut caller, job),
            (Pattern::PingPong, Role::Passive) => pong(&mut caller, job),
            (_, Role::Active) => pour(&mut caller, job),
            (_, Role::Passive) => count(&mut caller, job),
        };
        played.map_err(|why| anyhow!("MX: {why:#}"))
    }
}

/// Opens an endpoint and connects to the other side's.
fn meet(job: &Job, control: &mut dyn Control) -> Result<Caller> {
    ours::builder(job)?; // nonsense is told in words of its own
    let builder = || ours::builder(job).expect("made before");
    let slot_count = ours::depth(job) + 2;
    let opened = Caller::open(job.bind, &builder, (slot_count, job.bytes));
    let mut caller = opened.map_err(anyhow::Error::msg)?;
    let (nic_id, index) = caller.place().map_err(anyhow::Error::msg)?;
    let theirs = control.exchange(&format!("{nic_id} {index}"))?;
    let place = theirs
        .split_once(' ')
        .and_then(|(nic_id, index)| Some((nic_id.parse().ok()?, index.parse().ok()?)));
    let place = place.with_context(|| format!("{theirs:?} is no place of an endpoint"))?;
    caller.connect(place).map_err(anyhow::Error::msg)?;
    Ok(caller)
}

fn ended(caller: &mut Caller, slot: usize) -> Result<u64> {
    match caller.wait(slot, WAIT_MS).map_err(anyhow::Error::msg)? {
        Some(ended) => Ok(ended.tag),
        None => bail!("nothing came from the other side"),
    }
}

fn posted(result: Result<(), String>) -> Result<()> {
    result.map_err(anyhow::Error::msg)
}

/// Buffers: what leaves, and what comes.
const OUT: usize = 0;
const BACK: usize = 1;

fn ping(caller: &mut Caller, job: &Job) -> Result<Outcome> {
    let mut round = || -> Result<()> {
        posted(caller.send(OUT, job.bytes, DATA))?;
        posted(caller.recv(BACK, DATA, EXACT))?;
        ended(caller, BACK)?;
        ended(caller, OUT).map(drop)
    };
    // The first round trip makes the two known to each other; it is not measured.
    round()?;
    let mut rounds = Rounds::begin(job);
    loop {
        round()?;
        if !rounds.lap() {
            break;
        }
    }
    posted(caller.send(OUT, 1, STOP))?;
    ended(caller, OUT)?;
    Ok(rounds.finish())
}

fn pong(caller: &mut Caller, job: &Job) -> Result<Outcome> {
    posted(caller.recv(BACK, 0, ANY))?;
    loop {
        if ended(caller, BACK)? == STOP {
            return Ok(Outcome::default());
        }
        posted(caller.send(OUT, job.bytes, DATA))?;
        posted(caller.recv(BACK, 0, ANY))?;
        ended(caller, OUT)?;
    }
}

/// Sends until told to stop.
fn pour(caller: &mut Caller, job: &Job) -> Result<Outcome> {
    let depth = ours::depth(job);
    let stop = depth;
    posted(caller.recv(stop, STOP, EXACT))?;
    (0..depth).try_for_each(|slot| posted(caller.send(slot, job.bytes, DATA)))?;
    let mut slot = 0;
    for count in 1_usize.. {
        // Who has measured enough closes its endpoint, and what is under way to it fails.
        match caller.wait(slot, WAIT_MS) {
            Ok(Some(_)) => {}
            Ok(None) => bail!("the other side takes nothing"),
            Err(_) if caller.wait(stop, LOOK_MS).is_ok_and(|word| word.is_some()) => break,
            Err(why) => bail!("{why}"),
        }
        posted(caller.send(slot, job.bytes, DATA))?;
        slot = (slot + 1) % depth;
        if count.is_multiple_of(LOOK_EVERY)
            && caller.test(stop).map_err(anyhow::Error::msg)?.is_some()
        {
            break;
        }
    }
    Ok(Outcome::default())
}

/// Receives until it has measured long enough.
fn count(caller: &mut Caller, job: &Job) -> Result<Outcome> {
    let depth = ours::depth(job) + 1;
    (0..depth).try_for_each(|slot| posted(caller.recv(slot, DATA, EXACT)))?;
    let mut tally = Tally::new(job);
    let mut slot = 0;
    loop {
        let message = loop {
            match caller.wait(slot, LOOK_MS).map_err(anyhow::Error::msg)? {
                Some(message) => break message,
                None => tally.idle()?,
            }
        };
        let goes_on = tally.add(message.len.into(), 1);
        if !goes_on {
            break;
        }
        posted(caller.recv(slot, DATA, EXACT))?;
        slot = (slot + 1) % depth;
    }
    // The free buffer: the others wait for messages that may still come.
    posted(caller.send(slot, 1, STOP))?;
    ended(caller, slot)?;
    tally.finish()
}
