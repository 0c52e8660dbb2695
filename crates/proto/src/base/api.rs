//! What the driver and the endpoint say to each other: requests in, events and frames out.

use alloc::vec::Vec;

use crate::base::limits::Settings;
use crate::base::types::{BufId, Criteria, Identity, Locator, PeerId, ReqId, Space, Tag};

/// When a send is complete (PROTOCOL §7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Payload kept in the resend pool; the buffer is free on return.
    Copied,
    /// The peer's engine holds or placed it.
    Accepted,
    /// A receive took it.
    Matched,
}

/// Payload of a send.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Stays in the application's memory until the send completes.
    InPlace {
        /// The memory.
        buf: BufId,
        /// Its length.
        len: u64,
    },
    /// Copied now, into the resend pool; completes on return. If the pool is full the post is refused with
    /// `PostError::PoolFull` and the caller posts it in place.
    Copied(&'a [u8]),
}

/// A send to post.
#[derive(Clone, Copy, Debug)]
pub struct SendSpec<'a> {
    /// To whom.
    pub peer: PeerId,
    /// Matching space.
    pub space: Space,
    /// Match bits.
    pub tag: Tag,
    /// 64 bits beside the payload.
    pub immediate: Option<u64>,
    /// The bytes.
    pub payload: Payload<'a>,
    /// Tell only when matched; otherwise when accepted. Without effect on copied payload.
    pub until_matched: bool,
    /// Returned in the event.
    pub user: u64,
}

/// Which posted list (PROTOCOL §9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Searched first.
    Priority,
    /// Searched when nothing in the priority list matched.
    Overflow,
}

/// How often an entry is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// For one message.
    Once,
    /// For many, each placed behind the one before; unlinked when less than this is free.
    Many {
        /// Least free bytes for the entry to stay.
        free_len_min: u64,
    },
}

/// A receive to post.
#[derive(Clone, Copy, Debug)]
pub struct RecvSpec {
    /// What it takes.
    pub criteria: Criteria,
    /// Where to.
    pub buf: BufId,
    /// Length of the memory.
    pub len: u64,
    /// Priority or overflow.
    pub list: List,
    /// Once or many times.
    pub uses: Use,
    /// Take the envelope only: no byte is placed, the message counts as received.
    pub header_only: bool,
    /// Returned in the event.
    pub user: u64,
}

/// Why a request ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Cancelled by the application.
    Cancelled,
    /// The peer cancelled its side: a matched send was withdrawn, or a receive that was being filled.
    CancelledByPeer,
    /// The peer is gone.
    Gone(GoneReason),
    /// The peer said goodbye before accepting it.
    Closed,
    /// This endpoint was closed.
    Closing,
    /// The peer did not do it (one-sided operations).
    Denied(Denial),
}

/// On what evidence a peer is gone (PROTOCOL §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneReason {
    /// No path reaches it.
    Unreachable,
    /// The peer does not know the association.
    Reset,
    /// The peer lives again as a new incarnation.
    Restarted,
    /// Its process died, says the driver.
    Died,
    /// Its host says that nobody is there: it was closed, or its process has ended.
    Refused,
    /// The application has forgotten it.
    Forgotten,
    /// Silent for too long.
    Silent,
    /// The peer was asked by every link that may lead to it, and nothing of it ever came.
    Unanswered,
    /// The peer speaks no version that we speak.
    Version,
}

/// Why a frame did not reach its place, as a link was told (PROTOCOL §4.5). What the network says comes with what it quotes: the
/// beginning of the frame it speaks of, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle<'a> {
    /// The link will never get there: no such place, or it knows that nobody is there.
    Void,
    /// This host cannot send there now.
    Here,
    /// Somewhere on the way there is no way on.
    Way(&'a [u8]),
    /// The host there says that nobody has that port.
    Refused(&'a [u8]),
    /// The host there refused a stream, and showed that it speaks of ours.
    Closed,
}

/// The envelope of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// From whom.
    pub source: PeerId,
    /// Matching space.
    pub space: Space,
    /// Match bits.
    pub tag: Tag,
    /// 64 bits beside the payload.
    pub immediate: Option<u64>,
    /// Its whole length.
    pub len: u64,
}

/// The one-sided operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Bytes went into a peer's memory.
    Put,
    /// Bytes came out of a peer's memory.
    Get,
    /// A peer's memory was computed with.
    Atomic,
}

/// Something the application waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A send ended. Copied sends have no event, unless they fail (`Lost`).
    Sent {
        /// The request.
        req: ReqId,
        /// As posted.
        user: u64,
        /// To whom.
        peer: PeerId,
        /// Bytes that a receive took, less than were sent if it had less room: as the peer says where the end waits for its word
        /// (PROTOCOL §8.6), else all of them. 0 if the send failed.
        placed_len: u64,
        /// How.
        result: Result<(), Failure>,
    },
    /// A receive took a message to its end. For an entry used many times the request lives on until `Unlinked`.
    Received {
        /// The request.
        req: ReqId,
        /// As posted.
        user: u64,
        /// What came.
        envelope: Envelope,
        /// Where in the posted memory it starts (0 but for entries used many times; 0 too for a message that failed
        /// while it lay in an overflow entry).
        offset: u64,
        /// Bytes placed: less than `envelope.len` if truncated.
        placed_len: u64,
        /// Failed after the match: the sender cancelled, or is gone.
        result: Result<(), Failure>,
    },
    /// A priority receive matched a message that lies in an overflow entry's memory. Nothing was copied.
    Overflowed {
        /// The request that matched; complete, unless it is an entry used many times.
        req: ReqId,
        /// As posted.
        user: u64,
        /// What came.
        envelope: Envelope,
        /// The overflow entry's `user`.
        overflow_user: u64,
        /// Where in the overflow entry's memory.
        offset: u64,
        /// Bytes there.
        placed_len: u64,
    },
    /// A receive ended without a message, or an entry used many times was unlinked: full or cancelled.
    Unlinked {
        /// The request.
        req: ReqId,
        /// As posted.
        user: u64,
        /// The peer that it was to receive from, if it was one peer only.
        source: Option<PeerId>,
        /// `None`: full.
        failure: Option<Failure>,
    },
    /// A one-sided operation ended.
    Operated {
        /// The request.
        req: ReqId,
        /// As posted.
        user: u64,
        /// With whose memory.
        peer: PeerId,
        /// What it was.
        kind: OperationKind,
        /// Bytes it was about.
        len: u64,
        /// How. If well, its bytes are in their place.
        result: Result<(), Failure>,
    },
    /// A peer put something into a region, with an immediate; it is there.
    Written {
        /// Which region.
        region: RegionId,
        /// As exposed.
        user: u64,
        /// Who.
        peer: PeerId,
        /// Where in the region.
        offset: u64,
        /// How many bytes.
        len: u64,
        /// 64 bits beside them.
        immediate: u64,
    },
    /// A peer did something with a region that was exposed so that all is told (`RegionSpec::tells_all`); it is done. Puts with an immediate
    /// are told by `Written`.
    Used {
        /// Which region.
        region: RegionId,
        /// As exposed.
        user: u64,
        /// Who.
        peer: PeerId,
        /// A put, a get or an atomic operation; one that changes nothing counts as a get.
        kind: OperationKind,
        /// Where in the region.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
    /// A copied send, which was complete for the application when it was posted, failed.
    Lost {
        /// To whom.
        peer: PeerId,
        /// In which matching space.
        space: Space,
        /// Its match bits.
        tag: Tag,
        /// Its length.
        len: u64,
        /// Why.
        failure: Failure,
    },
    /// A peer verified itself: a new association.
    Joined {
        /// Who.
        peer: PeerId,
    },
    /// An association ended; its requests end with events of their own.
    Left {
        /// Who.
        peer: PeerId,
        /// Why; `None` after a goodbye.
        reason: Option<GoneReason>,
    },
    /// Closing is complete: everything accepted and said goodbye to, or given up.
    Closed {
        /// All messages were accepted.
        clean: bool,
    },
}

/// What one peer has not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unaccepted {
    /// Who.
    pub peer: PeerId,
    /// So many messages and operations,
    pub count: u64,
    /// of so many bytes together.
    pub len: u64,
}

/// Why a post was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The endpoint is closing.
    Closing,
    /// No such peer.
    UnknownPeer,
    /// The copied payload does not fit the resend pool now; post it in place.
    PoolFull,
    /// Copied payload is for eager messages only.
    TooLong {
        /// The longest.
        len_max: u64,
    },
    /// The handle names nothing (any more).
    UnknownHandle,
    /// There is no such atomic operation on such elements, they are too many, or operands are missing.
    BadAtomic,
    /// The matching space of streams is not for messages.
    ReservedSpace,
}

/// Why a peer could not be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerError {
    /// `Limits::peer_count_max` rows are in use.
    TooMany {
        /// The limit.
        count_max: u32,
    },
    /// The endpoint is closing.
    Closing,
}

/// A message taken out of the unexpected list by `claim`; to be received or discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim(pub u64);

/// Where the bytes of a piece of a frame's body are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the application's memory.
    User {
        /// Which.
        buf: BufId,
        /// From where.
        offset: u64,
    },
    /// In the endpoint's resend pool: `Endpoint::pooled` shows them.
    Pool {
        /// Slot.
        slot: u32,
        /// From where.
        offset: u32,
    },
    /// Nowhere yet: the driver asks its link where the first `len` bytes of this memory are, for the one that the frame goes to, and puts that in
    /// their place; zeros, if it cannot say.
    Whereabouts {
        /// Which memory.
        buf: BufId,
        /// Bytes of the message.
        len: u64,
    },
    /// Zeros.
    Zero,
}

/// A piece of a frame's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where its bytes are.
    pub source: Source,
    /// How many.
    pub len: u32,
}

/// A frame to send: header and heads as bytes, bodies as pieces to gather. Made once by the driver and used again.
///
/// With payload checks on, the `Check` record's sum is left for the driver, who reads the bytes anyway ([`TxFrame::wants_crc`]):
/// [`TxFrame::seal`] puts it in and seals the frame. A frame without one is sealed by the same call, if it was not as it was written.
#[derive(Clone, Debug, Default)]
pub struct TxFrame {
    /// Which local link.
    pub link: u8,
    /// Where to.
    pub to: Locator,
    /// Header and heads.
    pub head: Vec<u8>,
    /// Bodies.
    pub body: Vec<Piece>,
    /// Sum of the bodies' lengths.
    pub body_len: usize,
    /// The receiver's key, for `seal`; `None` if the frame was sealed as it was written.
    pub(crate) secret: Option<crate::base::secret::Secret>,
    /// The number of its packet; 0: it has none.
    pub(crate) packet: u64,
    /// Sealed as it was written.
    pub(crate) is_sealed: bool,
}

/// What the driver draws and knows when an endpoint opens.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The key peers must know.
    pub secret: crate::base::secret::Secret,
    /// Who this is.
    pub identity: Identity,
    /// Fresh randomness of this life: incarnation, cookie key, ids are drawn from it. Never the same twice.
    pub entropy: [u64; 4],
    /// One locator for each local link; the first goes into the address.
    pub locators: Vec<Locator>,
}

/// What may become of frames on their way by a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliability {
    /// Each may be lost, doubled, overtaken or damaged.
    Lossy,
    /// Frames arrive once, whole and in order.
    Ordered {
        /// Frames go as one stream, which must be opened first, and a break of which loses all that is in it: beside links that
        /// need no such thing it carries only what was announced, and is opened when there is some (PROTOCOL §16.6).
        may_break: bool,
    },
}

impl Reliability {
    /// No frame is ever lost.
    #[inline(always)]
    pub(crate) fn never_loses(self) -> bool {
        matches!(self, Self::Ordered { may_break: false })
    }

    /// Frames are not lost one by one.
    #[inline(always)]
    pub(crate) fn is_ordered(self) -> bool {
        matches!(self, Self::Ordered { .. })
    }

    /// A stream.
    #[inline(always)]
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Self::Ordered { may_break: true })
    }
}

/// What an endpoint must know of a local link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTraits {
    /// The longest frame it takes, header included.
    pub frame_len_max: u16,
    /// Sum the bodies of what leaves by it: it has no check of its own.
    pub payload_check: bool,
    /// What may become of frames.
    pub reliability: Reliability,
    /// Nobody but its two ends can write to it, and it says truly which end wrote a frame.
    pub is_private: bool,
    /// The driver of its receiver can read bytes from where their sender says that they are (`Endpoint::poll_fetch`).
    pub can_fetch: bool,
    /// Bytes of a train it takes in one go, where that is more than the driver's own bound.
    pub train_len_max: u32,
}

impl LinkTraits {
    /// Of a link of which nothing was said yet.
    pub(crate) fn unknown(settings: &Settings) -> Self {
        Self {
            frame_len_max: settings.frame_len_max,
            payload_check: settings.payload_check,
            reliability: Reliability::Lossy,
            is_private: false,
            can_fetch: false,
            train_len_max: 0,
        }
    }
}

/// Where a peer can be reached, as the endpoint has just learned. Whoever drives it says which of its links may lead there:
/// `Endpoint::set_contact_links` at first contact, `Endpoint::add_path` for each pair later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLocators {
    /// Who.
    pub peer: PeerId,
    /// First contact is about to be made with the one locator of its address; else it has joined, and these are its links'.
    pub is_contact: bool,
    /// Where, in the peer's order.
    pub locators: Vec<Locator>,
}

/// What the driver knows of a pair (own link, peer's locator) before anything was sent by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// The longest frame that can be sent there, header included.
    pub frame_len_max: usize,
    /// The card it leaves by, as the driver counts them; 0: not known. Links over one card are not striped (PROTOCOL §10.4).
    pub card: u16,
    /// Bytes per second it carried for others, where several links over one card were compared; 0: not known.
    pub rate: u64,
}

/// Why a path was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// The peer has not joined.
    NotJoined,
    /// There is one already by this link to this locator.
    Known,
    /// A peer has at most eight.
    TooMany,
    /// There is no such link.
    NoLink,
}

/// Where a path of ours stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// A stream that nothing needed yet: it is opened when something does.
    Dormant,
    /// Asked to prove itself this often, and not answered yet.
    Unproven {
        /// Challenges sent.
        asked_count: u32,
    },
    /// In use: for all that is small if `is_main`, for bulk unless `is_spare` or `yields_data`.
    Proven {
        /// The quickest: small messages and control go here.
        is_main: bool,
        /// Both its ends have another path, or a reliable one is there: used when those fail.
        is_spare: bool,
        /// Another link over the same card carries bulk: it is wider, or was not compared yet.
        yields_data: bool,
    },
    /// The path answered once and is silent now.
    Left,
}

/// What is known of one path to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// Its number.
    pub number: u8,
    /// By which local link.
    pub link: u8,
    /// To which of the peer's locators.
    pub locator: Locator,
    /// Where it stands.
    pub state: PathState,
    /// Mean round trip, if one was measured.
    pub rtt_ns: Option<u64>,
    /// Bytes per second it was seen to carry, if that was measured.
    pub rate: Option<u64>,
    /// The card it leaves by; 0: not known.
    pub card: u16,
    /// Longest frame used now.
    pub frame_len: u16,
}

/// An exposed region. Never reused while anybody can hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u64);

/// Why a peer did not do what was asked of its memory. Nothing was touched there, but by the parts of a put that came before
/// the region was withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The peer has no region with this key for us.
    NoKey,
    /// The range is not inside the region.
    Range,
    /// The region is not exposed for this.
    Access,
    /// The peer knows no such operation.
    Operation,
    /// The region was withdrawn meanwhile.
    Withdrawn,
}

/// Whether a record may be acknowledged (PROTOCOL §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    Refused,
}
