//! What the workspace's tests share: endpoints joined without a network, and the bodies of the fuzz targets.
//!
//! ```text
//! node.rs     an endpoint, its memory and its wire; two of them joined by queues that allocate nothing once warm
//! script.rs   bytes read as decisions
//! frames.rs   body of the fuzz target `frame`: the parser and arbitrary bytes
//! doors.rs    body of the fuzz target `lookup`: a door, an asker, and whatever comes to them
//! hostile.rs  body of the fuzz target `endpoint`: whole endpoints, random commands, a network that lies
//! ledger.rs   the memory of a distrustful application: whose is it now, and may it be touched?
//! ```
//!
//! The bodies are here rather than in `fuzz/` so that an ordinary test on stable replays the corpus.

#![forbid(unsafe_code)]

pub mod doors;
pub mod frames;
pub mod hostile;
pub mod ledger;
pub mod node;
pub mod script;
