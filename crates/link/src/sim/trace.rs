//! What happened: events for whoever watches, counters, and one number for a whole run.

use std::fmt;

use super::address::Port;

/// Which frame an event or an intercept is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// When, in virtual time.
    pub at_ns: u64,
    /// Frames are numbered from 0 as they are sent; a duplicate has its original's number.
    pub number: u64,
    /// The sender.
    pub from: Port,
    /// The port addressed; `Port::NOWHERE` where the locator was none of ours.
    pub to: Port,
    /// The copy of a duplicated frame.
    pub is_copy: bool,
}

/// Something happened to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// To which, and when.
    pub frame: FrameInfo,
    /// What.
    pub what: What,
}

/// What can happen to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Given to the network.
    Sent,
    /// Handed to its receiver.
    Delivered,
    /// Gone.
    Dropped(Reason),
    /// A copy of it was made; later events tell the two apart by `is_copy`.
    Duplicated,
    /// This many of its bits were flipped.
    Corrupted(u32),
    /// Its end was cut off; it had this many bytes.
    Truncated(u32),
    /// It is held back for this long and may be overtaken.
    HeldBack(u64),
    /// Its sender learns that nobody lives where it went.
    Unreachable,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent => f.write_str("sent"),
            Self::Delivered => f.write_str("delivered"),
            Self::Dropped(reason) => write!(f, "dropped: {reason}"),
            Self::Duplicated => f.write_str("duplicated"),
            Self::Corrupted(count) => write!(f, "corrupted: {count} bits"),
            Self::Truncated(len) => write!(f, "truncated from {len} bytes"),
            Self::HeldBack(delay_ns) => write!(f, "held back for {delay_ns} ns"),
            Self::Unreachable => f.write_str("reported unreachable"),
        }
    }
}

/// Why a frame was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// `Conditions::loss_ppm`.
    Random,
    /// `Conditions::burst`.
    Burst,
    /// A full queue: egress, trunk, ingress, or that of a paused node.
    Queue,
    /// A partition, as it left or as it arrived.
    Partition,
    /// Longer than `Conditions::frame_len_max`.
    Mtu,
    /// The receiver, or the sender, is dead.
    Dead,
    /// The locator was its port's once.
    Moved,
    /// No locator of this network.
    Nowhere,
    /// An intercept said so.
    Intercepted,
    /// Its stream broke, or was not open again.
    Broken,
}

impl Reason {
    /// All there are, in the order of declaration.
    pub const ALL: [Self; 10] = [
        Self::Random,
        Self::Burst,
        Self::Queue,
        Self::Partition,
        Self::Mtu,
        Self::Dead,
        Self::Moved,
        Self::Nowhere,
        Self::Intercepted,
        Self::Broken,
    ];

    /// In two words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random loss",
            Self::Burst => "burst loss",
            Self::Queue => "full queue",
            Self::Partition => "partition",
            Self::Mtu => "too long",
            Self::Dead => "dead node",
            Self::Moved => "old address",
            Self::Nowhere => "no address",
            Self::Intercepted => "intercepted",
            Self::Broken => "broken stream",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an intercept decides about a frame being sent. What it does not drop still meets the
/// conditions of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Leave it alone.
    Pass,
    /// Lose it.
    Drop,
    /// Deliver it twice.
    Duplicate,
    /// Hold it for so many nanoseconds while others pass.
    Delay(u64),
    /// Flip this bit, counted over the frame from its first byte's lowest; beyond the end it wraps.
    Corrupt(u32),
}

/// Everything that happened, counted. At any time
/// `sent + duplicated == delivered + lost_total() + in flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames given to the network.
    pub sent_count: u64,
    /// Their bytes.
    pub sent_len: u64,
    /// Frames handed over, copies included.
    pub delivered_count: u64,
    /// Their bytes.
    pub delivered_len: u64,
    /// Copies made.
    pub duplicated_count: u64,
    /// Frames with flipped bits.
    pub corrupted_count: u64,
    /// Frames cut short.
    pub truncated_count: u64,
    /// Frames that went through shared memory.
    pub sure_count: u64,
    /// Frames by streams.
    pub streamed_count: u64,
    /// Frames held back by `reorder_ppm` or an intercept.
    pub held_back_count: u64,
    /// Frames delivered after one of the same pair that was sent later; copies do not count.
    pub reordered_count: u64,
    /// Reports to senders about dead nodes.
    pub unreachable_count: u64,
    lost: [u64; Reason::ALL.len()],
}

impl Counters {
    /// Frames lost for this reason.
    pub const fn lost(&self, reason: Reason) -> u64 {
        self.lost[reason as usize]
    }

    /// Frames lost.
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().sum()
    }
}

/// Watches a run; given the event and the frame's bytes at that moment.
pub type Observer = Box<dyn FnMut(&Event, &[u8])>;

/// Where all events pass.
pub(super) struct Trace {
    pub(super) counters: Counters,
    pub(super) hash: u64,
    pub(super) observer: Option<Observer>,
}

impl Trace {
    pub(super) fn new() -> Self {
        Self { counters: Counters::default(), hash: 0, observer: None }
    }

    pub(super) fn note(&mut self, frame: FrameInfo, what: What, bytes: &[u8]) {
        self.count(what, bytes.len() as u64);
        self.hash(&frame, what, bytes);
        if let Some(observer) = &mut self.observer {
            observer(&Event { frame, what }, bytes);
        }
    }

    fn count(&mut self, what: What, len: u64) {
        let counters = &mut self.counters;
        match what {
            What::Sent => {
                counters.sent_count += 1;
                counters.sent_len += len;
            }
            What::Delivered => {
                counters.delivered_count += 1;
                counters.delivered_len += len;
            }
            What::Dropped(reason) => counters.lost[reason as usize] += 1,
            What::Duplicated => counters.duplicated_count += 1,
            What::Corrupted(_) => counters.corrupted_count += 1,
            What::Truncated(_) => counters.truncated_count += 1,
            What::HeldBack(_) => counters.held_back_count += 1,
            What::Unreachable => counters.unreachable_count += 1,
        }
    }

    /// Times, ports, lengths and ends of the bytes: enough for two runs that part to show it soon, and
    /// cheap enough to be always on.
    fn hash(&mut self, frame: &FrameInfo, what: What, bytes: &[u8]) {
        let (code, detail) = match what {
            What::Sent => (1, 0),
            What::Delivered => (2, 0),
            What::Dropped(reason) => (3, reason as u64),
            What::Duplicated => (4, 0),
            What::Corrupted(count) => (5, u64::from(count)),
            What::Truncated(len) => (6, u64::from(len)),
            What::HeldBack(delay_ns) => (7, delay_ns),
            What::Unreachable => (8, 0),
        };
        let ports = u64::from(frame.from.node) << 32 | u64::from(frame.to.node);
        let small = u64::from(frame.from.port) << 16 | u64::from(frame.to.port) << 8 | code;
        for word in
            [frame.at_ns, frame.number, ports, small, detail, bytes.len() as u64, ends(bytes)]
        {
            self.hash = (self.hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
}

fn ends(bytes: &[u8]) -> u64 {
    let word = |slice: Option<&[u8; 8]>| slice.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    word(bytes.first_chunk()) ^ word(bytes.last_chunk()).rotate_left(32)
}
