//! The proof in simulation: `packhorse sim`.
//!
//! ```text
//!   seed ── draw ──> Scenario ── player ──> World (endpoints, network, memory) ── calls and events ──> Oracle
//!                       │                                                                                │
//!                       └──────────────────────── shrink <── violation ──────────────────────────────────┘
//! ```
//!
//! A run is a function of its seed. `run` makes many of them on all cores, `trace` shows one, `story` one that was made
//! to be read.

pub mod digest;
mod draw;
pub mod memory;
pub mod onesided;
mod oracle;
pub mod over;
pub mod pattern;
mod player;
mod real;
pub mod run;
pub mod scenario;
pub mod shrink;
pub mod stats;
pub mod story;
pub mod streams;
pub mod trace;
mod traffic;
pub mod world;

pub use draw::draw;
pub use player::Outcome;
