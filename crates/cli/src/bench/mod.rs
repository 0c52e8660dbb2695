//! Measuring: systems beside their rivals, in two processes, interleaved and repeated.
//!
//! ```text
//! command ─▶ runner ─▶ pair ══ two processes ══ peer ─▶ System::run (rival/, ours)
//!               │       └─ or one, and `packhorse serve` on another machine (remote)
//!               │
//!               └─▶ rows ─▶ ratios ─▶ tables, JSON, the HTML page
//! ```
//!
//! The patterns of offload are in [`offload`], each written once for all systems but Open MPI, whose program is in C.
//!
//! To add a system: implement [`system::System`] in a file of its own and name it in [`SYSTEMS`].

pub mod command;
pub mod courier;
pub mod cpu;
pub mod figures;
pub mod layers;
pub mod offload;
mod our_courier;
pub mod ours;
pub mod pair;
pub mod peer;
pub mod plan;
pub mod process;
pub mod ratio;
pub mod remote;
pub mod row;
pub mod runner;
pub mod sizes;
pub mod system;
pub mod table;
pub mod variant;
pub mod work;

use crate::rival::{Bare, BarePacket, OpenMpi, Tcp, XdpBare};
use layers::Layer;
use ours::Ours;
use system::System;

/// Everything that can be measured, in the order of the tables.
pub const SYSTEMS: &[&dyn System] = &[
    &Bare,
    &BarePacket,
    &XdpBare,
    &Ours,
    &Layer::BARE,
    &Layer::CONTIGUOUS,
    &Layer::STREAMED,
    &Tcp,
    &OpenMpi::SHM,
    &OpenMpi::TCP,
];

/// The system of this name.
pub fn system(name: &str) -> Option<&'static dyn System> {
    SYSTEMS.iter().copied().find(|system| system.name() == name)
}
