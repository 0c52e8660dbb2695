//! What can go wrong, told so that one knows what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use packhorse_link::LinkError;
use packhorse_link::door::DoorError;
use packhorse_proto::lookup::Greeting;
use packhorse_proto::{
    Denial, ExposeError, Failure, GoneReason, PeerError, PostError, SettingsError,
};

/// Why something did not work. Errors about a peer name it. Exhaustive on purpose: a new way to fail must stop the table of
/// codes of each face from compiling.
#[derive(Debug)]
pub enum Error {
    /// A link could not be opened; its error says which and what to do. In a box, for it is longer than all others.
    Link(Box<LinkError>),
    /// An endpoint needs at least one link.
    NoLink,
    /// Frames cannot be written down there.
    Capture {
        /// The file.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A setting makes no sense.
    Setting(String),
    /// A setting or limit of the protocol is out of its range.
    OutOfRange(SettingsError),
    /// The system refused something.
    System {
        /// What was tried.
        what: &'static str,
        /// Its answer.
        error: io::Error,
    },
    /// A number could not be taken, though nobody else has it.
    Number {
        /// Which.
        number: u16,
        /// What was tried, and what the system said.
        error: DoorError,
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
    /// This process was forked from the one that opened the endpoint. Open another here.
    Inherited,
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
    /// The peer did not do what was asked of its memory; nothing was touched there.
    Denied {
        /// Who.
        peer: String,
        /// Why.
        denial: Denial,
    },
    /// There is no such atomic operation on such elements, or they are too many.
    BadAtomic,
    /// Matching space 255 belongs to streams.
    ReservedSpace,
    /// Another region of this endpoint has this key.
    KeyInUse,
    /// The region was withdrawn, or the range is not inside it.
    NoSuchRange,
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
    /// A stream was begun with a peer that is gone, or lives anew.
    BrokenOff {
        /// Who.
        peer: String,
    },
    /// Handlers of streams cannot extract: it is an extraction that runs them.
    InHandler,
    /// It did not happen in time. The request goes on.
    TimedOut {
        /// After so long.
        after: Duration,
    },
    /// Somebody else has the number that this endpoint was to be found by.
    NumberInUse {
        /// The number.
        number: u16,
        /// Its UDP port.
        port: u16,
        /// Who, if the system tells.
        owner: Option<String>,
    },
    /// No endpoint was found by its number.
    NotFound {
        /// Where it was looked for.
        host: String,
        /// The number.
        number: u16,
        /// Which of the two was wrong, or the secret.
        why: NotFound,
    },
}

/// Why an endpoint was not found by its number.
#[derive(Debug)]
pub enum NotFound {
    /// The host's name stands for no address.
    UnknownHost {
        /// What the resolver says.
        error: io::Error,
    },
    /// Nothing came from the host.
    Silent {
        /// For so long.
        after: Duration,
        /// It was asked at this UDP port.
        port: u16,
        /// What the system says, if questions could not leave.
        error: Option<io::Error>,
    },
    /// The host is there, and nobody there has the number.
    NoSuchNumber,
    /// The endpoint there wants another secret, or none.
    WrongSecret {
        /// One was given here.
        is_given: bool,
    },
    /// The application there does not let this one in, or is ending.
    Closed {
        /// What it says to that.
        greeting: Greeting,
    },
    /// No version of the protocol is spoken on both sides.
    Version,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(error) => error.fmt(f),
            Self::NoLink => f.write_str("an endpoint needs at least one link"),
            Self::Capture { file, error } => {
                write!(f, "cannot capture to {}: {error}", file.display())
            }
            Self::Setting(text) => f.write_str(text),
            Self::OutOfRange(error) => error.fmt(f),
            Self::System { what, error } => write!(f, "{what} failed: {error}"),
            Self::Number { number, error } => write!(f, "the number {number}: {error}"),
            Self::TooManyPeers { count_max } => write!(
                f,
                "this endpoint knows {count_max} peers and may know no more; raise Limits::peer_count_max or forget some"
            ),
            Self::UnknownPeer => f.write_str("no such peer: it was forgotten, or belongs to another endpoint"),
            Self::Closed => f.write_str("this endpoint is closed"),
            Self::Inherited => f.write_str(
                "this endpoint belongs to the process that this one was forked from; open another here",
            ),
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
            Self::Denied { peer, denial } => write!(f, "{peer} {}", why_denied(*denial)),
            Self::ReservedSpace => f.write_str(
                "matching space 255 belongs to streams; use one from 0 to 254 for messages",
            ),
            Self::BadAtomic => f.write_str(
                "no such atomic operation on such elements, or more than fit: 1024 bytes at once, 512 with something to compare",
            ),
            Self::KeyInUse => {
                f.write_str("another region of this endpoint has this key; choose another, or withdraw that one first")
            }
            Self::NoSuchRange => f.write_str("the region is withdrawn, or this range is not inside it"),
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
            Self::BrokenOff { peer } => {
                write!(f, "{peer} is gone, or was restarted, since this message was begun; begin another")
            }
            Self::InHandler => f.write_str(
                "extract was called inside a stream handler; return, or await: the extraction that runs it goes on by itself",
            ),
            Self::TimedOut { after } => write!(f, "not within {after:?}"),
            Self::NumberInUse { number, port, owner } => {
                let by = owner.as_ref().map(|owner| format!(" by {owner}")).unwrap_or_default();
                write!(f, "the number {number} (UDP port {port}) is in use{by}; end that, or choose another number")
            }
            Self::NotFound { host, number, why } => write!(f, "number {number} at {host}: {why}"),
        }
    }
}

/// What is told by the words of another error has that one's source: nothing is said twice.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Link(error) => error.source(),
            Self::Number { error, .. } => Some(error),
            Self::OutOfRange(error) => error.source(),
            Self::System { error, .. } | Self::Capture { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<LinkError> for Error {
    fn from(error: LinkError) -> Self {
        Self::Link(Box::new(error))
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownHost { error } => write!(f, "no such host ({error}); is its name right?"),
            Self::Silent { error: Some(error), .. } => {
                write!(f, "the host cannot be asked ({error}); is it the right one, and is there a way to it?")
            }
            Self::Silent { after, port, error: None } => write!(
                f,
                "the host did not answer within {after:?}; is it the right one, is it up, and does a firewall let UDP port {port} in there?"
            ),
            Self::NoSuchNumber => {
                f.write_str("the host is there, but nobody there has that number; is the server running, and is that its number?")
            }
            Self::WrongSecret { is_given: true } => f.write_str(
                "somebody has that number there, and not the secret that was given here (PACKHORSE_SECRET_FILE): both sides need the same, or none",
            ),
            Self::WrongSecret { is_given: false } => f.write_str(
                "somebody has that number there, and tells it only to holders of a secret: PACKHORSE_SECRET_FILE names a file with the same one",
            ),
            Self::Closed { greeting } => {
                f.write_str("the application there lets nobody in, or not this one")?;
                let said = String::from_utf8_lossy(greeting);
                let said = said.trim_end_matches('\0');
                let is_text = !said.is_empty() && said.chars().all(|c| !c.is_control() && c != '\u{FFFD}');
                if is_text { write!(f, ": it says {said:?}") } else { Ok(()) }
            }
            Self::Version => f.write_str("it speaks no version of the protocol that this program speaks"),
        }
    }
}

/// The evidence, and what to do about it.
fn why(reason: GoneReason) -> &'static str {
    match reason {
        GoneReason::Unreachable => {
            "no way leads there; is its host up, and does a link lead to it (packet and xdp lead to other hosts only)?"
        }
        GoneReason::Reset => {
            "it does not know this association any more: it was restarted or closed"
        }
        GoneReason::Restarted => "it was restarted; messages from now on go to its new life",
        GoneReason::Died => "its process died",
        GoneReason::Refused => {
            "its host says that nobody is there: it was closed, or its process has ended; if it runs, does a firewall refuse for it (udp: its port must be open to this host)?"
        }
        GoneReason::Forgotten => "it was forgotten here",
        GoneReason::Silent => {
            "it did not answer for too long; is it stopped, or does a firewall block the UDP port there for what comes in, or the one here for its answers?"
        }
        GoneReason::Unanswered => {
            "nothing of it ever came; is it running, is the address the one it has now, and does a firewall block its UDP port for what comes in, or the one here for its answers?"
        }
        GoneReason::Version => "it speaks no version of the protocol that this program speaks",
    }
}

/// What a peer did not do, and what to do about it.
fn why_denied(denial: Denial) -> &'static str {
    match denial {
        Denial::NoKey => {
            "exposes no memory under this key to this endpoint: is the key right, and is this endpoint among its peers?"
        }
        Denial::Range => "exposes less memory under this key than that: the range is not inside",
        Denial::Access => "does not expose the memory under this key for that",
        Denial::Operation => "knows no such operation",
        Denial::Withdrawn => "withdrew the memory meanwhile; some of it may have been written",
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
                let was_asked = matches!(
                    reason,
                    GoneReason::Unreachable | GoneReason::Refused | GoneReason::Unanswered
                );
                Self::Gone { peer, reason, tried: if was_asked { tried } else { Vec::new() } }
            }
            Failure::Closed => Self::PeerClosed { peer: peer().name },
            Failure::Closing => Self::Closed,
            Failure::Denied(denial) => Self::Denied { peer: peer().name, denial },
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
            PostError::BadAtomic => Self::BadAtomic,
            PostError::ReservedSpace => Self::ReservedSpace,
        }
    }
}

impl From<ExposeError> for Error {
    fn from(error: ExposeError) -> Self {
        match error {
            ExposeError::KeyInUse => Self::KeyInUse,
            ExposeError::Closing => Self::Closed,
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
            OpenError::Settings(error) => Self::OutOfRange(error),
            OpenError::NoLink => Self::NoLink,
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

impl<B> std::error::Error for Failed<B> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<B> From<Failed<B>> for Error {
    fn from(failed: Failed<B>) -> Self {
        failed.error
    }
}
