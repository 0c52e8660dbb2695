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
#![forbid(unsafe_code)]

mod asking;
mod baton;
mod bell;
mod commands;
mod copies;
mod core;
mod costly;
mod counters;
mod crowd;
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
mod queue;
mod requests;
mod sharing;
#[cfg(test)]
mod slow;
mod streams;
mod time;
mod waiting;
mod watch;

pub use copies::CopyOffload;
pub use core::{Core, OpenError};
pub use counters::Counters;
pub use duties::Offload;
pub use engine::{Config, Engine, Placement, Recv, Refused, Send};
pub use entry::{Entry, Kind, Trouble};
pub use helper::HelperCpus;
pub use lent::Lent;
pub use onesided::{Atomic, Exposure, Put, Unexposed, Written};
pub use pairs::{Asked, Fate, Reject, Rejected};
pub use queue::{Completions, Notify, QueueId};
pub use requests::{Arrival, Completion, Outcome, RequestId};
pub use streams::{Extract, Extractable, Lender, StreamRead};
