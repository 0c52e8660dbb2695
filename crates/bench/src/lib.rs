//! Measuring: systems beside their rivals, in two processes, interleaved and repeated; and Packhorse under MPI libraries.
//!
//! ```text
//! command ─▶ runner ─▶ pair ══ two processes ══ peer ─▶ System::run (rival/, ours)
//!               │       └─ or one, and `packhorse serve` on another machine (remote, serve)
//!               │
//!               └─▶ rows ─▶ ratios ─▶ tables, JSON, the HTML page (report)
//! ```
//!
//! The patterns of offload are in [`offload`], each written once for all systems but Open MPI, whose program is in C. [`compare`] runs
//! everything at once and says what it means. [`mpi`] has `packhorse run`, `env` and `check` as well as `compare --mpi`: what tells an
//! MPI to use Packhorse also tells it what to be measured over.
//!
//! To add a system: implement [`system::System`] in a file of its own and name it in [`SYSTEMS`].
//!
//! # The command line
//!
//! The arguments of a measurement (clap's `Args`) stand here, beside it, and not in `packhorse-cli`. An argument, its default and its
//! help *are* what can be asked of the measurement, a plan is made from them in one step, and a mirror of them in another crate would
//! only be a second half of the same idea. The program `packhorse` names the commands and has the exit status. It must have the command
//! `peer` ([`peer::PeerArgs`]): a measurement starts the very program it runs in for its two sides ([`process`]).
//!
//! # Reading order
//!
//! ```text
//!   system, courier           the seams: what a system does for a pattern, and how a pattern of offload moves messages
//!   ours, our_courier         Packhorse behind them; layers: what is built on Fast Messages; puts: one-sided; portals: what its programs get
//!   rival                     the others; none shares code with Packhorse
//!   plan, variant, sizes      what is measured, in which manner, with which lengths
//!   process, peer, pair       two sides: started, given orders, heard; remote, serve: one of them on another machine
//!   hosts, machine            two namespaces joined by a wire; what the figures were measured on
//!   runner, row               a plan carried out: rows
//!   figures, cpu, work        what a row says; processor time; work whose length is known
//!   ratio, table, report      rows set beside each other, for people
//!   offload, compare, mpi     the patterns of offload; everything at once; MPI libraries
//!   command                   `packhorse bench`, and what it shares with `compare`
//! ```

#![deny(unsafe_code)] // not `forbid`: `rival::sys` and `rival::xdp_sys` make the raw calls

pub mod command;
pub mod compare;
pub mod courier;
pub mod cpu;
pub mod face;
pub mod figures;
pub mod hosts;
pub mod layers;
pub mod machine;
pub mod mpi;
pub mod offload;
mod our_courier;
pub mod ours;
pub mod pair;
pub mod peer;
pub mod plan;
pub mod portals;
pub mod process;
pub mod puts;
pub mod ratio;
pub mod remote;
pub mod report;
pub mod rival;
pub mod row;
pub mod runner;
pub mod serve;
pub mod sizes;
pub mod system;
pub mod table;
pub mod variant;
pub mod work;

use face::Mx;
use layers::Layer;
use ours::Ours;
use portals::Portals;
use puts::Puts;
use rival::{Bare, BarePacket, OpenMpi, Tcp, XdpBare};
use system::System;

/// Everything that can be measured, in the order of the tables.
pub const SYSTEMS: &[&dyn System] = &[
    &Bare,
    &BarePacket,
    &XdpBare,
    &Ours,
    &Mx,
    &Layer::BARE,
    &Layer::CONTIGUOUS,
    &Layer::STREAMED,
    &Puts,
    &Portals,
    &Tcp,
    &OpenMpi::SHM,
    &OpenMpi::TCP,
    &OpenMpi::PACKHORSE,
];

/// The system of this name.
pub fn system(name: &str) -> Option<&'static dyn System> {
    SYSTEMS.iter().copied().find(|system| system.name() == name)
}
