//! The proof in simulation: whole endpoints on a network that loses, delays, doubles, reorders, damages and parts, in virtual time.
//!
//! ```text
//!   seed ── draw ──> Scenario ── player ──> World (endpoints, network, memory) ── calls and events ──> Oracle
//!                       │                                                                                │
//!                       └──────────────────────── shrink <── violation ──────────────────────────────────┘
//! ```
//!
//! A run is a function of its seed. The world turns the very [`Core`](packhorse_engine::Core) that applications turn, over the
//! simulated network of `packhorse_link` or, in real time, over real links. `packhorse sim` is its command line; tests and benches use
//! it without one.
//!
//! # Reading order
//!
//! ```text
//!   scenario, draw        what applications and network do in a run, and how that follows from a seed
//!   traffic, onesided     the parts of a drawing: messages, one-sided operations
//!   adversary             one node more, that keeps to the letter of the rules and helps nobody; adversary/filter: its frames
//!   world                 endpoints, network and clock; world/calls: what an application can do, world/turn: a moment
//!   memory, pattern       the application's memory, and bytes that tell a receiver whose they are
//!   player                a scenario played; player/posts, player/operate: its steps, player/ending: how it comes to rest
//!   undo                  how faults end, for player and portals/faults
//!   oracle                what may be seen, kept beside the endpoints; oracle/events, oracle/operations, oracle/order,
//!                         oracle/settle: its rules
//!   streams               what applications do with streams, and what must come of it: an oracle of their own
//!   portals               applications of Portals and their oracle: portals/steps, portals/moves: what applications do, portals/model, portals/told,
//!                         portals/bytes: what must come of it, portals/ledger: all operations, portals/faults: what befalls them
//!   run, stats, digest    many runs on all cores: what they met, and one number for all they did
//!   shrink                a scenario made smaller that still violates the same
//!   real, over            the scenarios' traffic over real links
//!   trace, story          one run shown; one that was made to be read
//! ```

#![forbid(unsafe_code)]

pub mod adversary;
pub mod digest;
mod draw;
pub mod memory;
pub mod onesided;
mod oracle;
pub mod over;
pub mod pattern;
mod player;
pub mod portals;
mod real;
pub mod run;
pub mod scenario;
pub mod shrink;
pub mod stats;
pub mod story;
pub mod streams;
pub mod trace;
mod traffic;
mod undo;
pub mod world;

pub use adversary::draw_beset;
pub use draw::draw;
pub use packhorse_link::sim::Rng;
pub use player::Outcome;
