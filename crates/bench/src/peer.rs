//! One of the two processes that do the measuring: `packhorse peer`, started by the program itself.
//!
//! It takes orders from its standard input and answers on its standard output, one line of JSON each. It dies with
//! the process that started it, however that ends, and whatever network it made for itself goes with it.

use std::io::{self, BufRead, Write};
use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::hosts::{self, Wiring};
use crate::machine::InterfaceFacts;
use crate::offload;
use crate::remote::Hello;
use crate::rival::sys;
use crate::system::{Control, Job, Outcome, System};
use crate::variant::Cores;

/// Measure, as told on standard input. Not for people.
#[derive(Debug, Args)]
pub struct PeerArgs {
    /// Process that started this one; when it dies, so does this.
    #[arg(long)]
    pub parent: u32,
    /// Core to stay on.
    #[arg(long)]
    pub core: Option<usize>,
    /// Where to stand in the network: `here`, `apart`, `apart-as-user`, or the number of a process in whose user
    /// namespace to stand apart.
    #[arg(long, default_value = "here")]
    pub stand: hosts::Stand,
}

/// From the runner to a peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Make and address one end of the wire between the two.
    Wire(Wiring),
    /// Say what the interface with this address is like.
    Describe(IpAddr),
    /// Do this.
    Job(Box<Job>),
    /// What the other side said in the exchange.
    Line(String),
    /// A client asks a server to begin with it.
    Begin(Hello),
    /// Nothing: a client wonders whether its server is there.
    Poke,
    /// A client asks its server to end.
    End,
}

/// From a peer to the runner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// Ready for orders.
    Ready,
    /// The interface is like this.
    Facts(InterfaceFacts),
    /// For the other side, in the exchange.
    Line(String),
    /// The job is done.
    Outcome(Outcome),
    /// The job could not be done.
    Failed(String),
    /// A server does not begin with this client.
    Refused(String),
    /// A server is still there.
    Beat,
}

/// Lives until the orders end.
pub fn run(args: &PeerArgs) -> Result<()> {
    hosts::stand(args.stand)?;
    // Only now: entering a user namespace would forget the request.
    sys::die_with_parent(args.parent).context("cannot tie this process to its parent")?;
    if let Some(core) = args.core {
        sys::pin_to(core).with_context(|| format!("cannot stay on core {core}"))?;
    }
    answer(&Report::Ready)?;
    let mut line = String::new();
    while let Some(order) = next_order(&mut line)? {
        let result = match order {
            Order::Wire(wiring) => hosts::wire(&wiring).map(|()| Report::Ready),
            Order::Describe(address) => InterfaceFacts::of_address(address).map(Report::Facts),
            Order::Job(job) => run_job(&job).map(Report::Outcome),
            Order::Line(_) => continue, // of a job that failed on this side
            Order::Begin(_) | Order::Poke | Order::End => continue, // for servers
        };
        answer(&result.unwrap_or_else(|error| Report::Failed(format!("{error:#}"))))?;
    }
    Ok(())
}

fn run_job(job: &Job) -> Result<Outcome> {
    let Some(system) = crate::system(&job.system) else { bail!("no system {:?}", job.system) };
    let is_on_one = job.variant.cores == Some(Cores::One);
    let _pinned =
        is_on_one.then(|| sys::Pinned::to(0)).transpose().context("cannot stay on core 0")?;
    play(system, job, &mut Lines)
}

/// Plays one side of a job: the patterns of offload by the system's courier, all else by the system itself.
pub fn play(system: &dyn System, job: &Job, control: &mut dyn Control) -> Result<Outcome> {
    if job.pattern.is_by_courier()
        && let Some(mut courier) = system.courier(job, control)?
    {
        return offload::play(job, courier.as_mut(), control);
    }
    system.run(job, control)
}

fn next_order(line: &mut String) -> Result<Option<Order>> {
    line.clear();
    if io::stdin().lock().read_line(line)? == 0 {
        return Ok(None);
    }
    serde_json::from_str(line).map(Some).with_context(|| format!("no order: {line:?}"))
}

fn answer(answer: &Report) -> Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, answer)?;
    out.write_all(b"\n")?;
    out.flush().map_err(Into::into)
}

/// The exchange between two peers, by way of the runner.
struct Lines;

impl Control for Lines {
    fn exchange(&mut self, mine: &str) -> Result<String> {
        answer(&Report::Line(mine.to_owned()))?;
        match next_order(&mut String::new())? {
            Some(Order::Line(theirs)) => Ok(theirs),
            Some(order) => bail!("expected the other side's line, got {order:?}"),
            None => bail!("the runner is gone"),
        }
    }
}
