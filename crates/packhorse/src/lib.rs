//! Message passing over ordinary Ethernet.
//!
//! An [`Endpoint`] sends messages to peers and receives messages from them. A message has a *tag* of 64 bits; a receive says
//! which tags it takes, and from whom. Matching, moving and completing happen while your program computes.
//!
//! ```
//! use packhorse::{Endpoint, Wanted};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (a, b) = (Endpoint::local()?, Endpoint::local()?);
//! // An address is what you copy from one machine to the other; it parses and prints.
//! let text = b.address().to_string();
//! let to_b = a.peer(&text.parse()?)?;
//!
//! let coming = b.recv(Wanted::tag(7), vec![0; 100]);
//! a.send(to_b, 7, b"five minutes".to_vec()).wait()?;
//! let message = coming.wait()?;
//! assert_eq!(message.buffer, b"five minutes");
//! assert_eq!(message.envelope.tag, 7);
//! # Ok(())
//! # }
//! ```
//!
//! # Buffers
//!
//! A request owns its buffer until it ends, and gives it back then: nothing can go away under a frame that is just
//! arriving, and no `unsafe` is asked of you. [`Endpoint::scope`] lends slices of your own instead. [`Endpoint::send_copy`] takes a copy of
//! a short message and leaves nothing to wait for.
//!
//! # Waiting
//!
//! Each request can be waited for ([`Sending::wait`]), asked ([`Sending::test`]) or awaited: it is a future for any executor.
//! A thread that waits drives the endpoint itself; when none does, a helper thread does ([`Placement::Thread`], the default).
//! With [`Placement::Inline`] there is none, and progress is made inside your calls only; a future of such an endpoint
//! drives it whenever it is polled and asks to be polled again at once, so prefer `Thread` with an executor.
//!
//! Dropping a pending receive cancels it; dropping a pending send lets it go on. Dropping the last handle of an endpoint
//! closes it: it waits until what was sent is accepted, [`Builder::linger`] at most. Leaking any of them is sound.
//!
//! Of many requests one learns the ends best in one place: a completion [`queue`].
//!
//! # Found by name
//!
//! An address is a capability, handed over by whoever starts both sides. A server is found by its host and a number instead, where its
//! owner asks for that: [`Builder::named`], [`Endpoint::find`].
//!
//! # Memory of others
//!
//! An endpoint can expose memory ([`Endpoint::expose`]) that peers read, write and compute with by themselves: see [`onesided`].
//!
//! # Errors
//!
//! Errors name the peer and say what to do. A peer that does not answer is *silent*, which is no error; it is *gone* on
//! evidence (unreachable, restarted, closed) or after a long time (see [`Builder::gone_after`]).
//!
//! # Reading the code
//!
//! `endpoint`, `request` and `buffer` are what most programs use, `builder` how an endpoint is set; `select` reads a choice of
//! links, `links` opens them. The rest is one file for each thing an endpoint can do; [`raw`] is for those who build another
//! interface on top. What happens below is in `packhorse-engine`.

mod buffer;
mod builder;
mod endpoint;
mod error;
mod find;
mod left;
mod links;
mod many;
mod named;
pub mod onesided;
mod owner;
mod paths;
pub mod quantity;
pub mod queue;
pub mod raw;
mod request;
mod scope;
mod secret;
mod seek;
mod select;
pub mod stream;
mod wanted;

pub use buffer::Buffer;
pub use builder::Builder;
pub use endpoint::{Claimed, Endpoint, Peer, SendOptions};
pub use error::{Error, Failed, NotFound};
pub use find::{Answer, Find, Found, LookUp, address_of};
pub use links::kinds;
pub use many::{Many, Piece};
pub use onesided::{Peers, Region, Remote};
pub use packhorse_engine::{CopyOffload, HelperCpus, Offload, Placement};
pub use packhorse_link::faults::Faults;
pub use packhorse_link::packet::PacketError;
pub use packhorse_link::shm::ShmError;
pub use packhorse_link::tcp::TcpError;
pub use packhorse_link::udp::UdpError;
pub use packhorse_link::xdp::XdpError;
pub use packhorse_link::{About, LinkError, show as show_locator};
pub use packhorse_proto::lookup::{GREETING_LEN, Greeting, Number, Reception};
pub use packhorse_proto::{
    Access, Address, AddressError, AtomicOp, Datatype, Denial, Limits, Settings, SettingsError,
};
pub use paths::{Path, State as PathState};
pub use request::{Getting, Putting, Received, Receiving, Sending};
pub use scope::{Scope, ScopedReceiving, ScopedSending};
pub use secret::SharedSecret;
pub use seek::{Host, Search};
pub use select::{KindInfo, LinkChoice};
pub use wanted::{Envelope, Wanted};
