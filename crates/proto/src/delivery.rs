//! One path: which packets are on their way by it, which arrived, how long a round trip takes and how much may be in flight.
//!
//! What a packet carried is *content* ([`content`]): names of things that their owners know. Here it is only kept, and handed back when it
//! was accepted or lost.

pub(crate) mod ack;
pub(crate) mod content;
pub(crate) mod credit;
pub(crate) mod frame;
pub(crate) mod path;
pub(crate) mod rate;
pub(crate) mod rtt;
pub(crate) mod sent;
pub(crate) mod window;
