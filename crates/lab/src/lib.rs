//! The papers' machines, in virtual time, with the same protocol in them.
//!
//! ```text
//!   machines/*.machine ──▶ costs ──┐
//!   app: what the program does ────┼──▶ world ──▶ marks, spans ──▶ experiments ──▶ figure: paper │ ours │ difference
//!   proto::Endpoint, one per host ─┘    charges each step to a processor, a bus, a card, a wire
//! ```
//!
//! Nothing here knows a rule of the protocol. The model drives [`packhorse_proto::Endpoint`] by its contract (`on_frame`, `poll_transmit`,
//! `poll_event`, posts, `next_timeout`), and asks of each frame only what it carries, to know what its handling costs and where a
//! [`Placement`] has it done.
//!
//! # Reading order
//!
//! ```text
//!   machine            what a machine is: costs, each with where it comes from
//!   placement          which step of the protocol runs where
//!   plant              processors, buses and wires: who is busy until when
//!   load, node         what a frame carries; an endpoint, its memory and its application
//!   streams            messages as streams of the protocol
//!   costs, ways        what each step costs on a machine; which steps a frame goes through
//!   world              the event loop
//!   app, apps          what an application may do; the papers' programs
//!   trace              spans: what each part did when
//!   measure            runs a program on a machine and reads the marks
//!   figure, text, page what an experiment found; in the terminal; as a page
//!   experiments, fit   the papers' tables and figures; fitted costs
//!   explore, today     a machine of the user's own; curves measured on real links
//! ```

#![forbid(unsafe_code)]

mod app;
mod apps;
mod costs;
mod experiments;
mod explore;
mod figure;
mod fit;
mod load;
mod machine;
mod machines;
mod measure;
mod node;
mod page;
mod placement;
mod plant;
mod streams;
#[cfg(test)]
mod tests;
mod text;
mod today;
mod trace;
mod ways;
mod world;

pub use experiments::{Experiment, all, find};
pub use explore::{Exploration, Placed, costs_text, explore};
pub use figure::{Curve, Finding, Gantt, Mark, Meant, TOLERANCE, Target};
pub use fit::{Fit, RMPP_EXPERIMENTS, RMPP_FITTED, fit_rmpp};
pub use machine::{Cost, How, KEYS, Key, Machine, Unit, shown};
pub use machines::{Bench, known};
pub use page::page;
pub use placement::{Doer, Placement};
pub use plant::Part;
pub use text::{committed, print};
pub use today::Today;
pub use trace::Span;
