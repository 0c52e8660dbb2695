//! The rules of Packhorse, as a machine that does no I/O, has no clock and no threads.
//!
//! ```text
//!   posts ──▶ ┌──────────┐ ──▶ events          frames in:   Endpoint::on_frame
//!   frames ─▶ │ Endpoint │ ──▶ frames          frames out:  Endpoint::poll_transmit
//!   time ───▶ └──────────┘ ──▶ next timeout    bytes go where Memory puts them
//! ```
//!
//! Something else turns it: an application thread, a helper thread, a simulator; one day a daemon (docs/design.md §2).
//! The protocol is described in PROTOCOL.md, whose sections the modules cite. User memory is never touched here: the machine
//! names places ([`Place`]) and the driver's [`Memory`] puts bytes there.
//!
//! # The driver's contract
//!
//! - Whoever drives an endpoint posts requests, hands in frames ([`Endpoint::on_frame`]), says that time has passed
//!   ([`Endpoint::on_timeout`]), and asks for events ([`Endpoint::poll_event`]), frames ([`Endpoint::poll_transmit`]) and the
//!   moment at which to call again ([`Endpoint::next_timeout`]).
//! - A driver that can send many frames at once asks [`Endpoint::poll_train`] before `poll_transmit`: up to so many frames of
//!   granted data, or fragments of one message, sealed, whose payload is one range of one buffer. [`Endpoint::set_train_checks`]
//!   takes a function that computes the keyed checks of a train with the registers of the machine at hand.
//! - Before it receives, a driver may ask [`Endpoint::predict`] where data will probably go, have the system scatter payload
//!   there, and hand the heads to [`Endpoint::on_landed`], which says how many frames were what was predicted. The driver moves the
//!   others out and hands them to [`Endpoint::on_fragments`], if several came together, and what that does not take to `on_frame`.
//! - Where its links can, a driver asks [`Endpoint::poll_fetch`] which bytes to read from where their sender told that they are, reads them to
//!   their place, and says so ([`Endpoint::on_fetched`]). As a sender it replaces [`Source::Whereabouts`] by what its link says.
//! - Only links know where locators lead. A driver asks [`Endpoint::poll_new_locators`] before it polls frames, asks its links
//!   which of them may lead there, and answers with [`Endpoint::set_contact_links`] (first contact) or [`Endpoint::add_path`]
//!   (further pairs). [`Endpoint::set_link`] says what a link is like: its longest frame, whether bodies are to be summed, whether
//!   it ever loses a frame.
//! - What the *network* can make an endpoint hold is bounded by [`Limits`]; what the *application* posts grows by its own doing. In
//!   the steady state nothing is allocated (`tests/tests/allocations.rs` counts).
//!
//! # Reading order
//!
//! Folders are rooms, one above the other. A file names what stands in its own room and below, and nobody below `endpoint` knows the
//! [`Endpoint`]; `cargo xtask check` holds it so (`xtask/src/rooms.rs`). Each part has its own state and contains the one below it, or is
//! handed it; it takes what happened and returns what is to be done. What is behind a path, a peer, a timer or a budget only its own room touches; the tables of
//! messages under way are `Bulk`'s, and the rooms that contain it say what happened to which message, and may look at it.
//!
//! ```text
//!   base                  the nouns (types, api), bounds and settings (limits), what things are kept in (slab, ring, pool, gaps)
//!   seal                  the check of a frame: `Seal`; SipHash keyed with a secret, and the pass
//!   wire                  what a frame looks like: the only room that knows byte offsets
//!   lookup                how an endpoint is found by host and number: apart from all else
//!   delivery              one path: content, sent, ack, rtt, window, rate, credit; a frame that is being filled
//!   peers     `Peers`     rows, actives; table (wake, rest), contact (strangers become peers), strangers, farewell; paths, pairs, choice, contest
//!                         (several ways to one peer); timers, clock, received, output, acks, obstacle, allowance; links, news, events, chosen
//!                         (settings); of each peer: numbers, line (our messages, in order), ahead, notices, side (one-sided), ties (what hangs on
//!                         it); sending (may it go?), seals (whose key?), shown (what may be asked of a peer)
//!   matching              how a message finds its receive
//!   bulk      `Bulk`      outgoing: post, copied, framed, output, settled, refused: sends from their post to their end; lone, quick_out, acked:
//!                         the common ones at little cost; arrival, receives: holding, bound, filling: what arrives, without a receive and with
//!                         one; held (what we hold, and for how much there is room); large, grants, ahead, fetch (rendezvous); train,
//!                         fragments, landing (many frames at once); transfer (of one-sided operations)
//!   messages  `Messages`  which message goes to which receive: post, arrive, fill, take; overflow, abandon, turns, farewell
//!   onesided  `Onesided`  operate │ serve, region, atomic, transfer: at the asking side │ at the side that is asked; handed a `Bulk`; portals: operations with
//!                         matching at the target, events, counters and triggers
//!   streams   `Streams`   messages piece by piece; handed the `Messages`
//!   endpoint  `Endpoint`  what a driver sees, and routes: input, acked, data, output, clock, farewell, calls (the doors of single parts);
//!                         quick, given, told, whole, fragments: the common frames at little cost; aside
//!   base/sabotage, wraps  for tests: deliberate faults; numbers across their wrap
//! ```
//!
//! `quick`, `quick_out` and `lone` stand apart because they do for the common frames what the others do for all. They skip questions, not
//! rules: what may go, what is noted of a packet that leaves, and how a send ends stand once, in `credit`, `path` and
//! `outgoing`, and are inlined.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod base;
mod bulk;
mod delivery;
mod endpoint;
pub mod lookup;
pub mod matching;
mod messages;
mod onesided;
mod peers;
pub mod seal;
mod streams;
pub mod wire;
#[cfg(test)]
mod wraps;

pub use base::api::{
    Claim, Denial, Envelope, Event, Failure, GoneReason, Level, LinkTraits, List, NewLocators,
    Obstacle, Opening, OperationKind, PathError, PathInfo, PathState, Payload, PeerError, Piece,
    PostError, RecvSpec, RegionId, Reliability, SendSpec, Source, TxFrame, Unaccepted, Use, Way,
};
pub use base::counters::Counters;
pub use base::gaps::GapSet;
pub use base::limits::{
    FRAME_LEN_FLOOR, GrantPolicy, Limits, MS, REQUEST_LEN_MAX, SECOND, Settings, SettingsError,
};
pub use base::sabotage::Sabotage;
pub use base::secret::Secret;
pub use base::types::{
    ADDRESS_LEN, Address, AddressError, BufId, Criteria, Identity, Instant, Lending, Locator,
    LongNumbers, Memory, OutStreamId, PeerId, Place, ReqId, Space, StreamId, StreamInfo, Tag,
};
pub use bulk::fetch::Fetch;
pub use bulk::landing::Landing;
pub use bulk::lone::Lone;
pub use bulk::train::TxTrain;
pub use endpoint::Endpoint;
pub use endpoint::chunks::{GIVEN_CHUNK_LEN_MAX, GivenChunk, GivenTold};
pub use endpoint::given::{Foreseen, GIVEN_LEN_MAX, Given};
pub use endpoint::told::{Ended, GivenNote, Taken, Told};
pub use messages::take::Received;
pub use onesided::atomic::{AtomicOp, Datatype};
pub use onesided::operate::{AtomicSpec, GetSpec, PutSpec, atomic_len_max};
pub use onesided::portals;
pub use onesided::records::{Access, Permitted, RegionSpec, Remote};
pub use onesided::region::ExposeError;
pub use peers::pairs::PATH_COUNT_MAX;
pub use streams::outbound::StreamError;
pub use streams::records::ToldFront;
pub use streams::{PACKET_LEN, StreamBreak, StreamFront};
pub use wire::Whereabouts;
