//! What is left of the processor: the patterns of the offload papers, each written once for every [`Courier`].
//!
//! ```text
//!  availability  active:  post k sends and receives, work a slice, poll, post again …     passive: answers each message
//!  doublebuf     active:  fill A, send A, fill B, send B …                                passive: empties A, B …
//!  overlap       active:  post, compute without any call, wait                            passive: waits (or computes too)
//!  posts         active:  5 receives, 5 sends, work, wait for all                         passive: the same
//!  idle          active:  nothing, or a receive that waits                                passive: nothing, then a message
//! ```
//!
//! The active side measures, but for `doublebuf`, where what arrived counts. Before anything is measured both sides time
//! their work in turn, while the other sleeps. Definitions are those of docs/design.md §10, repeated at each figure.

pub mod availability;
pub mod command;
mod conclude;
pub mod copies;
pub mod doublebuf;
pub mod idle;
pub mod overlap;
pub mod posts;
pub mod promises;
pub mod sheets;

use anyhow::{Result, bail, ensure};

use crate::courier::Courier;
use crate::system::{Control, Job, Outcome, Pattern, Role};
use crate::work::Work;

/// Length of the words that the two sides say to each other between measurements.
const WORD_LEN: usize = 8;
/// Word: no more.
const END: u64 = 0;
/// Word: once more, or whatever else the pattern says.
const AGAIN: u64 = 1;

/// Plays one role of a pattern of offload.
pub fn play(job: &Job, courier: &mut dyn Courier, control: &mut dyn Control) -> Result<Outcome> {
    if job.pattern == Pattern::DoubleBuf {
        return doublebuf::play(job, courier, control);
    }
    let work = in_turn(job.role, control, Work::calibrate)?;
    greet(courier, job.role)?;
    match (job.pattern, job.role) {
        (Pattern::Availability, Role::Active) => availability::work(job, courier, work),
        (Pattern::Availability, Role::Passive) => availability::answer(job, courier),
        (Pattern::Overlap, Role::Active) => overlap::measure(job, courier, work),
        (Pattern::Overlap, Role::Passive) => overlap::attend(job, courier, work),
        (Pattern::Posts, Role::Active) => posts::measure(job, courier, work),
        (Pattern::Posts, Role::Passive) => posts::attend(job, courier, work),
        (Pattern::Idle, Role::Active) => idle::rest(job, courier),
        (Pattern::Idle, Role::Passive) => idle::wake_other(job, courier),
        (pattern, _) => bail!("{} is not played by couriers", pattern.name()),
    }
}

/// Does something that wants a quiet machine: first the active side, then the passive, each while the other sleeps.
fn in_turn<T>(role: Role, control: &mut dyn Control, action: impl FnOnce() -> T) -> Result<T> {
    if role == Role::Passive {
        control.exchange("after you")?;
    }
    let result = action();
    if role == Role::Active {
        control.exchange("your turn")?;
    }
    control.exchange("ready")?;
    Ok(result)
}

/// The first messages make the two known to each other; they are not measured.
fn greet(courier: &mut dyn Courier, role: Role) -> Result<()> {
    match role {
        Role::Active => {
            tell(courier, AGAIN)?;
            hear(courier).map(drop)
        }
        Role::Passive => {
            hear(courier)?;
            tell(courier, AGAIN)
        }
    }
}

/// Says a word to the other side. Nothing else may be under way in that direction.
fn tell(courier: &mut dyn Courier, word: u64) -> Result<()> {
    courier.send(word.to_le_bytes().to_vec())?;
    courier.wait_sent().map(drop)
}

/// Hears a word of the other side. No receive may be posted.
fn hear(courier: &mut dyn Courier) -> Result<u64> {
    courier.recv(vec![0; WORD_LEN])?;
    word_of(&courier.wait_received()?)
}

/// The word at the beginning of a message.
fn word_of(message: &[u8]) -> Result<u64> {
    let word = message.first_chunk::<WORD_LEN>();
    ensure!(word.is_some(), "a message of {} bytes has no room for a word", message.len());
    Ok(word.map_or(0, |word| u64::from_le_bytes(*word)))
}

/// Puts a word at the beginning of a message; one that is too short for it keeps as much as fits.
fn put_word(message: &mut [u8], word: u64) {
    let len = message.len().min(WORD_LEN);
    message[..len].copy_from_slice(&word.to_le_bytes()[..len]);
}

/// Messages under way at once in [`Pattern::Availability`]: four at least, sixteen at most, and as long together as 1 MB and as
/// what the fastest link here moves in a slice. With fewer a long slice would measure their number.
pub(crate) fn depth(job: &Job) -> usize {
    let slice_len = job.variant.slice.unwrap_or(0).saturating_mul(BYTES_PER_UNIT);
    let len = usize::try_from(slice_len).unwrap_or(usize::MAX).max(1 << 20);
    (len / job.bytes.max(1)).clamp(4, 16)
}

/// A unit of work takes about 1.5 ns, in which 4 GB/s are as much.
const BYTES_PER_UNIT: u64 = 6;
