//! Portals 4 in C: matching, counting and triggered operations that run where the protocol runs, also while the application computes.
//!
//! ```text
//!   a program linked with libportals.so.4
//!        │ PtlPut, PtlMEAppend, PtlEQWait …
//!        ▼
//!      calls   the C boundary: pointers become values, values become return codes
//!        ▼
//!      interfaces   table   descriptors   entries   counters   queues   moves      one file per object of the interface
//!        ▼
//!      packhorse   lists, matching, events, counters and triggers are the core's: PROTOCOL §17
//! ```
//!
//! A thin translation. What things look like to C is `abi`; `codes` has the one table from our errors to return codes. What is `unsafe` is
//! in `calls`, `memory` and `long`. Panics end the process with their message: they cannot cross into C.
//!
//! The shared object is made by `link.sh`, which shows `Ptl*` and nothing else. docs/portals.md says how it is used.

pub mod abi;
pub mod calls;
mod codes;
mod counters;
mod descriptors;
mod entries;
mod handles;
mod interfaces;
mod limits;
mod long;
mod memory;
mod moves;
mod queues;
mod table;
