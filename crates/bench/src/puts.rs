//! Packhorse's own puts: memory that the other side exposes is written there, and its owner is told.
//!
//! The patterns are those of `ours`, with a put in place of a message: beside it stands what a face makes of puts. A put is over when its bytes are
//! in their place, and the same bytes are put again only then.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result};
use packhorse::{Access, Endpoint, Peer, Peers, Putting, Region, Remote};

use crate::ours::{self, DATA, LOOK_EVERY, STOP};
use crate::system::{Control, Job, Outcome, Pattern, Role, Rounds, System, Tally};

/// Where the other side's bytes go, and where its word goes that ends a stream.
const BYTES_KEY: u64 = 1;
const WORD_KEY: u64 = 2;
/// A wait that nothing ends is an error after this.
const WAIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_secs(1);

/// Puts of Packhorse.
#[derive(Clone, Copy, Debug)]
pub struct Puts;

/// One side: what it exposes, and what the other does.
struct Side {
    endpoint: Endpoint,
    bytes: Region<Vec<u8>>,
    word: Region<Vec<u8>>,
    peer: Peer,
}

impl System for Puts {
    fn name(&self) -> &'static str {
        "packhorse-puts"
    }

    fn is_usual(&self, _: bool) -> bool {
        false // beside a face
    }

    fn can_play(&self, pattern: Pattern, _: bool) -> bool {
        matches!(pattern, Pattern::PingPong | Pattern::Stream)
    }

    fn run(&self, job: &Job, control: &mut dyn Control) -> Result<Outcome> {
        let side = Side::meet(job, control)?;
        match (job.pattern, job.role) {
            (Pattern::PingPong, Role::Active) => side.ping(job),
            (Pattern::PingPong, Role::Passive) => side.pong(job),
            (_, Role::Active) => side.pour(job),
            (_, Role::Passive) => side.count(job),
        }
    }
}

impl Side {
    /// Opens an endpoint, exposes its memory and finds the other side's.
    fn meet(job: &Job, control: &mut dyn Control) -> Result<Self> {
        let endpoint = ours::open(job, job.bind)?;
        let expose = |len: usize, key| {
            endpoint
                .expose_to(Peers::Any, vec![0; len], key, Access::ALL)
                .map_err(|failed| failed.error)
        };
        let bytes = expose(job.bytes * ours::depth(job), BYTES_KEY)?;
        let word = expose(1, WORD_KEY)?;
        let theirs = control.exchange(&endpoint.address().to_string())?;
        let theirs = theirs.parse().with_context(|| format!("{theirs:?} is no address"))?;
        let peer = endpoint.peer(&theirs)?;
        Ok(Self { endpoint, bytes, word, peer })
    }

    fn put(&self, to: Remote, buffer: Vec<u8>, word: u64) -> Putting<Vec<u8>> {
        self.endpoint.put_with_immediate(to, buffer, word)
    }

    fn to_bytes(&self) -> Remote {
        self.peer.memory(BYTES_KEY)
    }

    /// The word that came with the next put.
    fn written(&self) -> Result<u64> {
        let written = self.bytes.wait_written(Some(WAIT));
        Ok(written.context("nothing came from the other side")?.immediate)
    }

    fn ping(&self, job: &Job) -> Result<Outcome> {
        let mut out = vec![1; job.bytes];
        let round = |out: Vec<u8>| -> Result<Vec<u8>> {
            let going = self.put(self.to_bytes(), out, DATA);
            self.written()?;
            Ok(going.wait().map_err(|failed| failed.error)?)
        };
        // The first round trip makes the two known to each other; it is not measured.
        out = round(out)?;
        let mut rounds = Rounds::begin(job);
        loop {
            out = round(out)?;
            if !rounds.lap() {
                break;
            }
        }
        self.put(self.to_bytes(), out, STOP).wait().map_err(|failed| failed.error)?;
        Ok(rounds.finish())
    }

    fn pong(&self, job: &Job) -> Result<Outcome> {
        let mut out = vec![1; job.bytes];
        loop {
            if self.written()? == STOP {
                return Ok(Outcome::default());
            }
            out = self.put(self.to_bytes(), out, DATA).wait().map_err(|failed| failed.error)?;
        }
    }

    /// Puts until told to stop, each into a place of its own.
    fn pour(&self, job: &Job) -> Result<Outcome> {
        let post = |slot: usize, buffer| {
            self.put(self.to_bytes().at((slot * job.bytes) as u64), buffer, DATA)
        };
        let depth = ours::depth(job);
        let mut going: VecDeque<_> =
            (0..depth).map(|slot| (slot, post(slot, vec![1; job.bytes]))).collect();
        let mut count = 0;
        while let Some((slot, oldest)) = going.pop_front() {
            let buffer = match oldest.wait() {
                Ok(buffer) => buffer,
                // Who has measured enough withdraws its memory.
                Err(_) if self.word.wait_written(Some(LOOK)).is_some() => break,
                Err(failed) => return Err(failed.error.into()),
            };
            going.push_back((slot, post(slot, buffer)));
            count += 1;
            if count % LOOK_EVERY == 0 && self.word.written().is_some() {
                break;
            }
        }
        going.iter().for_each(|(_, putting)| _ = putting.cancel());
        Ok(Outcome::default())
    }

    /// Counts what is put here until it has measured long enough.
    fn count(&self, job: &Job) -> Result<Outcome> {
        let mut tally = Tally::new(job);
        loop {
            match self.bytes.wait_written(Some(LOOK)) {
                Some(written) if !tally.add(written.len, 1) => break,
                Some(_) => {}
                None => tally.idle()?,
            }
        }
        let word = self.peer.memory(WORD_KEY);
        self.put(word, vec![1], STOP).wait().map_err(|failed| failed.error)?;
        tally.finish()
    }
}
