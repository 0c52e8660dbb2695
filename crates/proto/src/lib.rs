//! The rules of Packhorse, as a machine that does no I/O, has no clock and no threads.
//!
//! ```text
//!   posts ──▶ ┌──────────┐ ──▶ events          frames in:   Endpoint::on_frame
//!   frames ─▶ │ Endpoint │ ──▶ frames          frames out:  Endpoint::poll_transmit
//!   time ───▶ └──────────┘ ──▶ next timeout    bytes go where Memory puts them
//! ```
//!
//! Something else turns it: an application thread, a helper thread, a daemon, a simulator (docs/design.md §2).
//! The protocol is described in PROTOCOL.md, whose sections the modules cite. User memory is never touched here: the machine
//! names places ([`Place`]) and the driver's [`Memory`] puts bytes there.
//!
//! Reading order: [`wire`] (what a frame looks like), `endpoint` (what an endpoint is made of), `input` (a frame
//! arrives), `arrive`, `fill` (a message finds its receive), `large` (grants), `output` (a frame leaves), `train` and
//! `landing` (the same for data, many frames at once), `operate`, `serve`, `region`, `transfer`, `atomic` (one-sided
//! operations), `contact` (how strangers become peers), `turns` (refusal, recall,
//! query), `clock` (timers).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod abandon;
mod ack;
mod ahead;
mod allowance;
mod api;
mod arrival;
mod arrive;
mod aside;
mod atomic;
mod choice;
mod clock;
mod contact;
mod content;
mod contest;
mod credit;
mod endpoint;
mod farewell;
mod fill;
mod fragments;
mod framed;
mod gaps;
mod grants;
mod input;
mod landing;
mod large;
mod limits;
mod lone;
pub mod matching;
mod obstacle;
mod operate;
mod output;
mod overflow;
mod pairs;
mod path;
mod peer;
mod pool;
mod post;
mod quick;
mod rate;
mod region;
mod ring;
mod rtt;
mod sabotage;
mod sent;
mod serve;
mod siphash;
mod slab;
mod strangers;
mod streams;
mod streams_out;
mod train;
mod transfer;
mod turns;
mod types;
mod whole;
mod window;
pub mod wire;
#[cfg(test)]
mod wraps;

pub use api::{
    Claim, Counters, Envelope, Event, Failure, GoneReason, Level, LinkTraits, List, NewLocators,
    Obstacle, Opening, OperationKind, PathError, PathInfo, PathState, Payload, PeerError, Piece,
    PostError, RecvSpec, SendSpec, Source, TxFrame, Unaccepted, Use, Way,
};
pub use atomic::{AtomicOp, Datatype};
pub use endpoint::Endpoint;
pub use gaps::GapSet;
pub use landing::Landing;
pub use limits::{FRAME_LEN_FLOOR, GrantPolicy, Limits, MS, SECOND, Settings, SettingsError};
pub use lone::Lone;
pub use operate::{AtomicSpec, GetSpec, PutSpec, REQUEST_LEN_MAX, Remote, atomic_len_max};
pub use pairs::PATH_COUNT_MAX;
pub use region::{Access, Denial, ExposeError, Permitted, RegionId, RegionSpec};
pub use sabotage::Sabotage;
pub use streams::{StreamBreak, StreamFront, StreamInfo};
pub use streams_out::StreamError;
pub use train::TxTrain;
pub use types::{
    ADDRESS_LEN, Address, AddressError, BufId, Criteria, Identity, Instant, Lending, Locator,
    Memory, OutStreamId, PeerId, Place, ReqId, Secret, Space, StreamId, Tag,
};
