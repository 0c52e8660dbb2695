//! Joins the protocol to links, and decides who turns it.
//!
//! ```text
//!   application threads ── post, test, wait ──▶ ┌────────┐  turn(now)  ┌──────┐ ──▶ Endpoint (proto: the rules)
//!   helper thread ──────── drive ─────────────▶ │ Engine │ ──────────▶ │ Core │ ──▶ Link     (frames out and in)
//!                                               └────────┘             └──────┘ ──▶ memory   (lent by name)
//! ```
//!
//! [`Core`] is one endpoint, its links and its memory: no threads, no clock, so that the simulator turns the same one in
//! virtual time. [`Engine`] puts it behind a lock and adds requests that can be waited for. Whoever waits, drives; a helper
//! thread drives when nobody does (placement `thread`), or nobody (placement `inline`).
//!
//! # Reading order
//!
//! ```text
//!   core                     a turn; core/receive, core/send, core/oneself: its parts; core/look: turns that find nothing
//!   costly, time             how seldom a link that costs a system call is asked, and the clock is read
//!   pairs, known             which links are tried to a peer, and what the process has learned of ways between hosts
//!   home, lent, copies       frames to oneself; memory as the rules see it; copies by a second thread
//!   watch, counters          whether trains get through; what is counted
//!   engine, requests         the lock, and requests that can be waited for; engine/opening, engine/posts, engine/turns,
//!                            engine/peers, engine/closing: what is done under the lock
//!   onesided, streams        the same for one-sided operations and for streams
//!   commands                 posts that do not wait for whoever is in a turn
//!   queue, entry, bell       completion queues (queue/completions: their reader), and a descriptor for event loops
//!   waiting, doze, crowd     whoever waits, drives: it spins, then sleeps; at once where others want its core
//!   looks, asking, sharing   calls that do not wait: which ask the links, which may sleep, which step aside
//!   baton, helper, duties    who drives when nobody waits, and what the helper may do
//!   attend                   somebody above who is called by the helper when something ended
//!   door, seeking            found by host and number: a thread that answers, and sockets to ask by; apart from all else
//!   slow                     a link for tests
//! ```
#![forbid(unsafe_code)]

mod asking;
mod attend;
mod baton;
mod bell;
mod commands;
mod copies;
mod core;
mod costly;
mod counters;
mod crowd;
pub mod door;
mod doze;
mod duties;
mod engine;
mod entry;
mod helper;
mod home;
mod known;
mod lent;
mod looks;
mod onesided;
mod pairs;
mod portals;
mod queue;
mod requests;
pub mod seeking;
mod sharing;
#[cfg(test)]
mod slow;
mod streams;
mod time;
mod translate;
mod waiting;
mod watch;

pub use asking::Call;
pub use copies::CopyOffload;
pub use core::{Core, OpenError};
pub use counters::Counters;
pub use duties::Offload;
pub use engine::{Config, Engine, Placement, Recv, Refused, Send, host_identity};
pub use entry::{Entry, Kind, Trouble};
pub use helper::HelperCpus;
pub use lent::{Lent, set_long_numbers};
pub use onesided::{Atomic, Exposure, Put, Unexposed, Watcher, Written};
pub use pairs::{Asked, Fate, Reject, Rejected};
pub use queue::{Completions, Notify, QueueId};
pub use requests::{Arrival, Completion, Outcome, RequestId};
pub use streams::{Extract, Extractable, Lender, StreamRead};
