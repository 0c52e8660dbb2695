//! The protocol by directed scenarios: each test is a claim of PROTOCOL.md, shown on whole endpoints over a wire that
//! loses, doubles, delays and alters exactly the frames it is told to. Random scenarios are the simulator's affair.
//!
//! One program rather than one per chapter: they share the wire (`net`), and linking is what takes long.

mod ahead;
mod aside;
mod chunks;
mod contact;
mod ends;
mod faces;
mod farewell;
mod fetch;
mod fragments;
mod given;
mod hostile;
mod identity;
mod large;
mod lookup;
mod messages;
mod net;
mod obstacles;
mod one_by_one;
mod onesided;
mod paths;
mod portals;
mod reliability;
mod strangers;
mod streams;
mod told;
mod trains;
mod turns;
