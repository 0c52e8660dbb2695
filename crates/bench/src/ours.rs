//! Packhorse itself, through the API that users have.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use packhorse::{Builder, Endpoint, Peer, Placement, Receiving, Sending, Wanted};

use crate::courier::Courier;
use crate::our_courier::OurCourier;
use crate::system::{Control, Job, Outcome, Pattern, Role, Rounds, System, Tally};

/// Tags: data, and the word that ends it.
pub(crate) const DATA: u64 = 1;
pub(crate) const STOP: u64 = 2;
/// Messages of a stream on their way at once: enough that one is always being moved while another is announced.
const STREAM_LEN_IN_FLIGHT: usize = 1 << 20;
const STREAM_COUNT_MAX: usize = 16;
const STREAM_COUNT_MIN: usize = 2;
/// The setting of what a helper may do.
const OFFLOAD_SETTING: &str = "PACKHORSE_OFFLOAD";
const COPIES_SETTING: &str = "PACKHORSE_COPY_OFFLOAD";
/// A sender looks for the word that ends it so often.
pub(crate) const LOOK_EVERY: usize = 32;

/// Packhorse.
#[derive(Clone, Copy, Debug)]
pub struct Ours;

impl System for Ours {
    fn name(&self) -> &'static str {
        "packhorse"
    }

    fn can_play(&self, _: Pattern, _: bool) -> bool {
        true
    }

    fn can_sleep(&self) -> bool {
        true
    }

    fn run(&self, job: &Job, control: &mut dyn Control) -> Result<Outcome> {
        let (endpoint, peer) = meet(job, control)?;
        match (job.pattern.is_ping_pong(), job.role) {
            (true, Role::Active) => ping(&endpoint, peer, job),
            (true, Role::Passive) => pong(&endpoint, peer, job),
            (false, Role::Active) => pour(&endpoint, peer, job),
            (false, Role::Passive) => count(&endpoint, peer, job),
        }
    }

    fn courier(&self, job: &Job, control: &mut dyn Control) -> Result<Option<Box<dyn Courier>>> {
        let (endpoint, peer) = meet(job, control)?;
        Ok(Some(Box::new(OurCourier::new(endpoint, peer))))
    }
}

/// Opens an endpoint and finds the other side's.
pub(crate) fn meet(job: &Job, control: &mut dyn Control) -> Result<(Endpoint, Peer)> {
    let endpoint = open(job, job.bind)?;
    let theirs = control.exchange(&endpoint.address().to_string())?;
    let theirs = theirs.parse().with_context(|| format!("{theirs:?} is no address"))?;
    let peer = endpoint.peer(&theirs)?;
    Ok((endpoint, peer))
}

/// An endpoint as the job wants it.
pub fn open(job: &Job, bind: IpAddr) -> Result<Endpoint> {
    Ok(builder(job)?.bind(bind).open()?)
}

/// What such an endpoint is made from.
pub(crate) fn builder(job: &Job) -> Result<Builder> {
    let placement = match job.placement.as_str() {
        "inline" => Placement::Inline,
        "thread" | "" => Placement::Thread,
        other => bail!("no placement {other:?}; there are: inline, thread"),
    };
    let link = if job.link.is_empty() { "auto" } else { &job.link };
    let link = link.parse().map_err(anyhow::Error::msg)?;
    let mut builder = Builder::new().placement(placement).link(link);
    if let Some(ports) = &job.ports {
        builder = builder.ports(ports.clone());
    }
    if job.manner.asleep {
        builder = builder.spin(Duration::ZERO);
    }
    if let Some(switch) = &job.manner.offload {
        builder = builder.set(OFFLOAD_SETTING, switch);
    }
    if let Some(copies) = &job.manner.copies {
        builder = builder.set(COPIES_SETTING, copies);
    }
    if let Some(frames) = job.manner.grant_ahead {
        builder = builder.settings(|settings| settings.grant_ahead = frames);
    }
    let builder = builder.small_socket_buffers(job.unprivileged_buffers);
    Ok(builder.linger(Duration::from_millis(300)))
}

/// Up to this a ping-pong has its messages copied, as the rivals beside it do: kernel TCP, and MPI_Send. Longer ones are lent.
const COPIED_LEN_MAX: usize = 4 << 10;

/// A message of a ping-pong that was sent.
enum Going {
    Copied(Vec<u8>),
    Lent(Sending<Vec<u8>>),
}

impl Going {
    fn new(endpoint: &Endpoint, peer: Peer, out: Vec<u8>) -> Result<Self> {
        if out.len() > COPIED_LEN_MAX {
            return Ok(Self::Lent(endpoint.send(peer, DATA, out)));
        }
        endpoint.send_copy(peer, DATA, &out)?;
        Ok(Self::Copied(out))
    }

    /// Its bytes, when they are the sender's again.
    fn back(self) -> Result<Vec<u8>> {
        match self {
            Self::Copied(out) => Ok(out),
            Self::Lent(going) => Ok(going.wait()?),
        }
    }
}

fn ping(endpoint: &Endpoint, peer: Peer, job: &Job) -> Result<Outcome> {
    let (mut out, mut back) = (vec![1; job.bytes], vec![0; job.bytes]);
    // The first round trip makes the two known to each other; it is not measured.
    endpoint.send(peer, DATA, vec![0; job.bytes]).wait()?;
    endpoint.recv(Wanted::tag(DATA), vec![0; job.bytes]).wait()?;
    let mut rounds = Rounds::begin(job);
    loop {
        let going = Going::new(endpoint, peer, out)?;
        let coming = endpoint.recv(Wanted::tag(DATA), back);
        back = coming.wait()?.buffer;
        out = going.back()?;
        if !rounds.lap() {
            break;
        }
    }
    endpoint.send(peer, STOP, vec![0; 1]).wait()?;
    Ok(rounds.finish())
}

fn pong(endpoint: &Endpoint, peer: Peer, job: &Job) -> Result<Outcome> {
    let (mut buffer, mut out) = (vec![0; job.bytes], vec![1; job.bytes]);
    let mut coming = endpoint.recv(Wanted::any(), buffer);
    loop {
        let message = coming.wait()?;
        if message.envelope.tag == STOP {
            return Ok(Outcome::default());
        }
        let going = Going::new(endpoint, peer, out)?;
        buffer = message.buffer;
        buffer.resize(job.bytes, 0);
        coming = endpoint.recv(Wanted::any(), buffer);
        out = going.back()?;
    }
}

/// Messages on their way at once.
pub(crate) fn depth(job: &Job) -> usize {
    match job.pattern {
        Pattern::Rate => job.window.max(1),
        _ => (STREAM_LEN_IN_FLIGHT / job.bytes).clamp(STREAM_COUNT_MIN, STREAM_COUNT_MAX),
    }
}

/// Sends until told to stop.
fn pour(endpoint: &Endpoint, peer: Peer, job: &Job) -> Result<Outcome> {
    let mut stop = endpoint.recv(Wanted::tag(STOP).from(peer), vec![0; 1]);
    let mut going: VecDeque<_> =
        (0..depth(job)).map(|_| endpoint.send(peer, DATA, vec![1; job.bytes])).collect();
    let mut count = 0;
    while let Some(oldest) = going.pop_front() {
        let buffer = match oldest.wait() {
            Ok(buffer) => buffer,
            // Who has measured enough cancels its receives.
            Err(_) if stop.wait_timeout(Duration::from_secs(2)).is_some() => break,
            Err(failed) => return Err(failed.error.into()),
        };
        going.push_back(endpoint.send(peer, DATA, buffer));
        count += 1;
        if count % LOOK_EVERY == 0 && stop.test().is_some() {
            break;
        }
    }
    going.iter().for_each(|sending| _ = sending.cancel());
    Ok(Outcome::default())
}

/// Receives until it has measured long enough.
fn count(endpoint: &Endpoint, peer: Peer, job: &Job) -> Result<Outcome> {
    let post = |buffer: Vec<u8>| endpoint.recv(Wanted::tag(DATA).from(peer), buffer);
    let mut coming: VecDeque<Receiving<Vec<u8>>> =
        (0..depth(job) + 1).map(|_| post(vec![0; job.bytes])).collect();
    let mut tally = Tally::new(job);
    while let Some(mut oldest) = coming.pop_front() {
        let message = loop {
            match oldest.wait_timeout(Duration::from_secs(1)) {
                Some(message) => break message?,
                None => tally.idle()?,
            }
        };
        let goes_on = tally.add(message.buffer.len() as u64, 1);
        coming.push_back(post(message.buffer));
        if !goes_on {
            break;
        }
    }
    endpoint.send(peer, STOP, vec![0; 1]).wait()?;
    tally.finish()
}
