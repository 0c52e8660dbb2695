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
//! Each module may name those that stand before it, and none behind it: `cargo xtask check` reads this list.
//!
//! ```text
//!   names, translate, post, entry           how requests and queues are called; what can be posted; what a queue says of an end
//!   time, costly, drawn                     how seldom the clock is read, and a link that costs a system call is asked; random words
//!   home, lending, copies, lent             frames to oneself; who is lent bytes of streams; copies by a second thread; memory as the rules see it
//!   known, pairs                            what the process has learned of ways between hosts; which links are tried to a peer
//!   duties, watch, counters                 what the helper may do; whether trains get through; what is counted
//!   core                                    a turn; core/receive, core/send, core/oneself: its parts; core/look: turns that find nothing; core/quick: one message without a turn
//!   requests, queue, regions, commands      requests that can be waited for; completion queues; exposed memory; posts that wait for nobody
//!   inner                                   what the lock protects, and what is done under it: inner/turns, inner/posts, inner/queued …
//!   doze, baton, helper                     sleeping on the links; who drives when nobody waits; the helper's thread
//!   attend                                  somebody above who is called by the helper when something ended
//!   bell, crowd, looks, sharing, asking     a descriptor for event loops; whether to spin; calls that do not wait: which ask the links, or may sleep
//!   engine                                  the lock; engine/posts, engine/beside, engine/queued, engine/peers, engine/closing
//!   waiting                                 whoever waits, drives: it spins, then sleeps; waiting/asked and waiting/vain: calls that do not wait
//!   streams, onesided, portals              the engine's calls for streams, for one-sided operations and for Portals
//!   arming, completions                     sleeping in a loop of one's own; the reader of a queue
//!   helping, opening                        what the helper does; how all of it is opened
//!   door, seeking                           found by host and number: a thread that answers, and sockets to ask by; apart from all else
//!   slow                                    a link for tests
//! ```
#![forbid(unsafe_code)]

mod arming;
mod asking;
mod attend;
mod baton;
mod bell;
mod commands;
mod completions;
mod copies;
mod core;
mod costly;
mod counters;
mod crowd;
pub mod door;
mod doze;
mod drawn;
mod duties;
mod engine;
mod entry;
mod helper;
mod helping;
mod home;
mod inner;
mod known;
mod lending;
mod lent;
mod looks;
mod names;
mod onesided;
mod opening;
mod pairs;
mod portals;
mod post;
mod queue;
mod regions;
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

pub use completions::Completions;
pub use copies::CopyOffload;
pub use core::{Core, OpenError, QuickLook};
pub use counters::Counters;
pub use drawn::host_identity;
pub use duties::Offload;
pub use engine::{Config, Engine, Placement};
pub use entry::{Entry, Kind, Trouble};
pub use helper::HelperCpus;
pub use lending::{Extract, Extractable, Lender};
pub use lent::{Lent, set_long_numbers};
pub use names::{Notify, QueueId, RequestId};
pub use onesided::{Atomic, Exposure, Put, Unexposed};
pub use pairs::{Asked, Fate, Reject, Rejected};
pub use post::{Recv, Refused, Send};
pub use regions::{Watcher, Written};
pub use requests::{Arrival, Completion, Outcome};
pub use streams::StreamRead;
