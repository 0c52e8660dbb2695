//! What can go wrong, told so that one knows what to do.

use std::fmt;
use std::io;
use std::time::Duration;

use packhorse_proto::{Failure, GoneReason, PeerError, PostError};

/// Why something did not work. Errors about a peer name it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A link could not be opened; the text says which and what to do.
    Link(String),
    /// A setting makes no sense.
    Setting(String),
    /// The system refused something.
    System {
        /// What was tried.
        what: &'static str,
        /// Its answer.
        error: io::Error,
    },
    /// The endpoint knows as many peers as it may.
    TooManyPeers {
        /// `Limits::peer_count_max`.
        count_max: u32,
    },
    /// No such peer: it was forgotten, or belongs to another endpoint.
    UnknownPeer,
    /// The endpoint is closing or closed.
    Closed,
    /// The request was cancelled here.
    Cancelled,
    /// The peer withdrew its side of the message.
    CancelledByPeer {
        /// Who.
        peer: String,
    },
    /// The peer is gone; the message may or may not have arrived.
    Gone {
        /// Who.
        peer: String,
        /// On what evidence.
        reason: GoneReason,
        /// If it never answered: the pairs that were tried, and what became of each.
        tried: Vec<String>,
    },
    /// The peer closed its endpoint before it accepted the message.
    PeerClosed {
        /// Who.
        peer: String,
    },
    /// The message was longer than the buffer. What fits was received.
    Truncated {
        /// The message's length.
        len: u64,
        /// The buffer's.
        room: u64,
    },
    /// More pieces than a request may have.
    TooManySegments {
        /// So many were given.
        count: usize,
        /// So many are possible.
        count_max: usize,
    },
    /// A copied message must be short.
    TooLongToCopy {
        /// The longest.
        len_max: u64,
    },
    /// The resend pool is full: peers have not accepted what was copied before. Wait, or send without copying.
    PoolFull,
    /// Shared memory cannot be received into.
    ReadOnly,
    /// It did not happen in time. The request goes on.
    TimedOut {
        /// After so long.
        after: Duration,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(text) | Self::Setting(text) => f.write_str(text),
            Self::System { what, error } => write!(f, "{what} failed: {error}"),
            Self::TooManyPeers { count_max } => write!(
                f,
                "this endpoint knows {count_max} peers and may know no more; raise Limits::peer_count_max or forget some"
            ),
            Self::UnknownPeer => f.write_str("no such peer: it was forgotten, or belongs to another endpoint"),
            Self::Closed => f.write_str("this endpoint is closed"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::CancelledByPeer { peer } => write!(f, "{peer} cancelled its side of the message"),
            Self::Gone { peer, reason, tried } => {
                write!(f, "{peer} is gone: {}", why(*reason))?;
                if !tried.is_empty() {
                    write!(f, "; tried: {}", tried.join("; "))?;
                }
                Ok(())
            }
            Self::PeerClosed { peer } => {
                write!(f, "{peer} closed its endpoint before it accepted the message")
            }
            Self::Truncated { len, room } => write!(
                f,
                "the message has {len} bytes, the buffer {room}: post a longer buffer, or probe for the length first"
            ),
            Self::TooManySegments { count, count_max } => {
                write!(f, "{count} segments are too many for one request, {count_max} are possible")
            }
            Self::TooLongToCopy { len_max } => {
                write!(f, "only messages up to {len_max} bytes are copied; send it with a buffer of its own")
            }
            Self::PoolFull => f.write_str(
                "the peers have not accepted what was copied for them before; wait, or send without copying",
            ),
            Self::ReadOnly => f.write_str("an Arc<[u8]> is shared and cannot be received into; use a Vec"),
            Self::TimedOut { after } => write!(f, "not within {after:?}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The evidence, and what to do about it.
fn why(reason: GoneReason) -> &'static str {
    match reason {
        GoneReason::Unreachable => {
            "the network says nobody is there; is it running, and is its UDP port open to this host?"
        }
        GoneReason::Reset => {
            "it does not know this association any more: it was restarted or closed"
        }
        GoneReason::Restarted => "it was restarted; messages from now on go to its new life",
        GoneReason::Died => "its process died",
        GoneReason::Silent => {
            "it did not answer for too long; is it stopped, or does a firewall block the UDP port there for what comes in, or the one here for its answers?"
        }
        GoneReason::Unanswered => {
            "nothing of it ever came; is it running, is the address the one it has now, and does a firewall block its UDP port for what comes in, or the one here for its answers?"
        }
        GoneReason::Version => "it speaks no version of the protocol that this program speaks",
    }
}

impl Error {
    /// A request ended with this; `peer` names its peer.
    pub(crate) fn from_failure<T: Into<Blame>>(failure: Failure, peer: impl FnOnce() -> T) -> Self {
        let peer = || peer().into();
        match failure {
            Failure::Cancelled => Self::Cancelled,
            Failure::CancelledByPeer => Self::CancelledByPeer { peer: peer().name },
            Failure::Gone(reason) => {
                let Blame { name: peer, tried } = peer();
                let was_asked = matches!(reason, GoneReason::Unreachable | GoneReason::Unanswered);
                Self::Gone { peer, reason, tried: if was_asked { tried } else { Vec::new() } }
            }
            Failure::Closed => Self::PeerClosed { peer: peer().name },
            Failure::Closing => Self::Closed,
        }
    }
}

/// The peer that an error is about.
#[derive(Debug, Default)]
pub(crate) struct Blame {
    pub(crate) name: String,
    /// How first contact with it was tried.
    pub(crate) tried: Vec<String>,
}

impl From<String> for Blame {
    fn from(name: String) -> Self {
        Self { name, tried: Vec::new() }
    }
}

impl From<&str> for Blame {
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}

impl From<PostError> for Error {
    fn from(error: PostError) -> Self {
        match error {
            PostError::Closing => Self::Closed,
            PostError::UnknownPeer | PostError::UnknownHandle => Self::UnknownPeer,
            PostError::PoolFull => Self::PoolFull,
            PostError::TooLong { len_max } => Self::TooLongToCopy { len_max },
        }
    }
}

impl From<PeerError> for Error {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::TooMany { count_max } => Self::TooManyPeers { count_max },
            PeerError::Closing => Self::Closed,
        }
    }
}

impl From<packhorse_engine::OpenError> for Error {
    fn from(error: packhorse_engine::OpenError) -> Self {
        use packhorse_engine::OpenError;
        match error {
            OpenError::Settings(error) => Self::Setting(error.to_string()),
            OpenError::NoLink => Self::Link("an endpoint needs at least one link".into()),
            OpenError::System { what, error } => Self::System { what, error },
        }
    }
}

/// A request that failed, with its buffer.
pub struct Failed<B> {
    /// Why.
    pub error: Error,
    /// The buffer; for a receive with whatever had arrived.
    pub buffer: Option<B>,
}

impl<B> fmt::Debug for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<B> fmt::Display for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<B> std::error::Error for Failed<B> {}

impl<B> From<Failed<B>> for Error {
    fn from(failed: Failed<B>) -> Self {
        failed.error
    }
}
