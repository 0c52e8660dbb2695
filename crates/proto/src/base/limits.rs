//! What an endpoint may hold, and the papers' knobs.
//!
//! `Limits` bounds what the *network* can make us hold; the application's own posts are bounded only by itself.
//! `Settings` are the knobs the papers turned (RMPP's n and its early request, EMP's frames per acknowledgement,
//! Open-MX's block size). Both are plain values, checked once, when an endpoint opens.

/// Milliseconds in the clock's unit.
pub const MS: u64 = 1_000_000;
/// Seconds in the clock's unit.
pub const SECOND: u64 = 1_000 * MS;

/// Bounds on what the network can make an endpoint hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of payload of messages no receive has taken yet, all peers together.
    pub held_len_max: u64,
    /// Messages that are unexpected, before their turn or incomplete, all peers together.
    pub envelope_count_max: u32,
    /// Peers that the application may name; and of those that introduce themselves so many as are left of that number, the
    /// longest unused making room for the next (PROTOCOL §3.15).
    pub peer_count_max: u32,
    /// Bytes of copied payload waiting for acceptance (level *copied*); beyond it a send falls back to *accepted*.
    pub copied_len_max: u64,
    /// Granted bytes not yet arrived, all senders together (PROTOCOL §8.3).
    pub grant_len_max: u64,
    /// Bytes of messages that may be on their way here unasked by links that lose frames, all senders together: what those links hold for
    /// somebody who computes. Each sender is told its share (PROTOCOL §5.5).
    pub unasked_len_max: u64,
    /// Requests of one-sided operations that are held, under way or whose answers are not acknowledged, all peers together.
    pub request_count_max: u32,
    /// Bytes of such answers.
    pub result_len_max: u64,
    /// Bytes of streams that were sent here and not read yet, of one sender (PROTOCOL §12.3).
    pub stream_len_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            held_len_max: 64 << 20,
            envelope_count_max: 1 << 20,
            peer_count_max: 1 << 20,
            copied_len_max: 16 << 20,
            grant_len_max: 160 << 10,
            unasked_len_max: u64::MAX,
            request_count_max: 1 << 16,
            result_len_max: 4 << 20,
            stream_len_max: 256 << 10,
        }
    }
}

/// Who is granted next (PROTOCOL §8.4). Plain round robin exists to be compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantPolicy {
    /// Small remaining lengths first, near-equals in turn, a share for the oldest.
    SmallestFirst,
    /// Everybody in turn.
    RoundRobin,
}

/// The knobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Payload up to this goes eagerly; above it by rendezvous.
    pub eager_len_max: u32,
    /// Payload up to this goes eagerly whatever happens; beyond it only by links that lose frames, to peers that did not lose any of late
    /// (PROTOCOL §7.9).
    pub eager_sure_len_max: u32,
    /// Payload from this on that may be announced, and need not be copied at its post, is, to peers that can fetch it (PROTOCOL §8.10).
    pub fetch_len_min: u32,
    /// Frames per grant: RMPP 16, MX 8, Open-MX 32.
    pub grant_packets: u32,
    /// How many granted frames are still missing when the next grant goes out: RMPP's 0…15.
    pub grant_ahead: u32,
    /// Bytes per grant, whatever the length of a frame, which may differ from path to path; 0: `grant_packets` says.
    pub grant_len: u32,
    /// With `grant_len`: granted bytes still missing when the next grant goes out.
    pub grant_ahead_len: u32,
    /// With `grant_len`: bytes that links send in one go; a grant is whole trains if it can.
    pub grant_train_len: u32,
    /// Bytes per grant where a link that never loses a frame leads to the sender, and as many again ahead; 0: as elsewhere.
    pub grant_free_len: u32,
    /// Grants open per message: MX's 4.
    pub grants_in_flight: u32,
    /// Bytes of a large message that may follow its announcement without a grant, and up to five times as many where the peer is known to
    /// take them, and that are taken so (PROTOCOL §8.9); 0: none.
    pub ahead_len: u32,
    /// Who is granted next.
    pub grant_policy: GrantPolicy,
    /// Ack-eliciting frames per acknowledgement: EMP's collection of frames.
    pub ack_every: u32,
    /// An acknowledgement waits no longer than this.
    pub ack_delay_ns: u64,
    /// Of a peer's messages that leave unasked, ends are told in the order of their numbers (PROTOCOL §9.5).
    pub ends_in_order: bool,
    /// Sum bodies with CRC32C.
    pub payload_check: bool,
    /// Whether a helper drives this endpoint while the application computes; announced to peers.
    pub has_helper: bool,
    /// First contact with a peer whose address announces a helper: after so long without any answer it is not there.
    pub contact_after_ns: u64,
    /// Silence after which a peer that announced a helper is gone.
    pub gone_after_ns: u64,
    /// Silence after which a peer without a helper is gone: it may compute for long.
    pub gone_after_inline_ns: u64,
    /// Closing waits this long for acceptance.
    pub linger_ns: u64,
    /// Accept first contact from peers that know no secret.
    pub open_to_strangers: bool,
    /// Its address is told to whoever asks for its number (PROTOCOL §3.16).
    pub is_found: bool,
    /// Oldest and newest version spoken.
    pub versions: (u8, u8),
    /// Round trip assumed before the first measurement.
    pub initial_rtt_ns: u64,
    /// Longest frame the links take, header included.
    pub frame_len_max: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            eager_len_max: 32 << 10,
            eager_sure_len_max: u32::MAX,
            fetch_len_min: u32::MAX,
            grant_packets: 16,
            grant_ahead: 32,
            grant_len: 0,
            grant_ahead_len: 0,
            grant_train_len: 0,
            grant_free_len: 0,
            grants_in_flight: 4,
            ahead_len: 0,
            grant_policy: GrantPolicy::SmallestFirst,
            ack_every: 8,
            ack_delay_ns: 25_000,
            ends_in_order: false,
            payload_check: true,
            has_helper: true,
            gone_after_ns: 60 * SECOND,
            contact_after_ns: 8 * SECOND,
            gone_after_inline_ns: 4 * 3600 * SECOND,
            linger_ns: 30 * SECOND,
            open_to_strangers: false,
            is_found: false,
            versions: (1, 1),
            initial_rtt_ns: MS,
            frame_len_max: 1472,
        }
    }
}

/// The shortest frame a link must be able to carry: what a path falls back to (PROTOCOL §6.6).
pub const FRAME_LEN_FLOOR: u16 = 1200;

/// A setting that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// The field.
    pub name: &'static str,
    /// What it must be.
    pub must: &'static str,
}

impl core::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "setting {}: must be {}", self.name, self.must)
    }
}

impl core::error::Error for SettingsError {}

impl Settings {
    /// Puts up to this length go in parts, in order with what is before and behind them; longer ones ask first (PROTOCOL §11.4).
    pub fn put_parts_len_max(&self) -> u32 {
        self.eager_len_max.min(self.eager_sure_len_max)
    }

    /// Whether having the address says nothing of its holder (PROTOCOL §3.20).
    pub(crate) fn is_address_given(&self) -> bool {
        self.is_found || self.open_to_strangers
    }

    /// Checks what the rest of the code relies on.
    pub fn check(&self) -> Result<(), SettingsError> {
        let rules: [(&'static str, bool, &'static str); 9] = [
            ("frame_len_max", self.frame_len_max >= FRAME_LEN_FLOOR, "at least 1200"),
            ("eager_len_max", self.eager_len_max <= 1 << 20, "at most 1 MiB"),
            ("grant_packets", (1..=4096).contains(&self.grant_packets), "1 to 4096"),
            ("grants_in_flight", (1..=64).contains(&self.grants_in_flight), "1 to 64"),
            ("ahead_len", self.ahead_len <= 1 << 24, "at most 16 MiB"),
            ("ack_every", (1..=256).contains(&self.ack_every), "1 to 256"),
            ("ack_delay_ns", self.ack_delay_ns <= SECOND, "at most one second"),
            (
                "initial_rtt_ns",
                (1_000..=10 * SECOND).contains(&self.initial_rtt_ns),
                "one microsecond to ten seconds",
            ),
            (
                "versions",
                1 <= self.versions.0 && self.versions.0 <= self.versions.1 && self.versions.1 < 16,
                "1 ≤ oldest ≤ newest ≤ 15",
            ),
        ];
        match rules.iter().find(|(_, holds, _)| !holds) {
            Some(&(name, _, must)) => Err(SettingsError { name, must }),
            None => Ok(()),
        }
    }
}

impl Limits {
    /// Checks what the rest of the code relies on: progress must be possible within the limits.
    pub fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        let frame = u64::from(settings.frame_len_max);
        let rules: [(&'static str, bool, &'static str); 8] = [
            (
                "held_len_max",
                self.held_len_max >= u64::from(settings.eager_len_max).max(frame),
                "at least eager_len_max and a frame",
            ),
            ("envelope_count_max", self.envelope_count_max >= 4, "at least 4"),
            ("peer_count_max", (1..1 << 23).contains(&self.peer_count_max), "1 to 8388607"),
            ("grant_len_max", self.grant_len_max >= frame, "at least a frame"),
            ("unasked_len_max", self.unasked_len_max >= frame, "at least a frame"),
            ("request_count_max", self.request_count_max >= 1, "at least 1"),
            ("result_len_max", self.result_len_max >= REQUEST_LEN_MAX as u64, "at least 1024"),
            ("stream_len_max", self.stream_len_max >= 1024, "at least 1024"),
        ];
        match rules.iter().find(|(_, holds, _)| !holds) {
            Some(&(name, _, must)) => Err(SettingsError { name, must }),
            None => Ok(()),
        }
    }
}

/// Bytes beside a request or a reply at most, so that every one fits a frame of 1200 with an acknowledgement in it.
pub const REQUEST_LEN_MAX: usize = 1024;
/// Bytes beside a request of Portals at most: its head is longer.
pub(crate) const MATCHED_LEN_MAX: usize = 960;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_sound() {
        assert_eq!(Settings::default().check(), Ok(()));
        assert_eq!(Limits::default().check(&Settings::default()), Ok(()));
    }

    #[test]
    fn nonsense_is_named() {
        let no_acks = Settings { ack_every: 0, ..Settings::default() };
        assert_eq!(no_acks.check().unwrap_err().name, "ack_every");
        let backwards = Settings { versions: (2, 1), ..Settings::default() };
        assert_eq!(backwards.check().unwrap_err().name, "versions");
        let tiny = Limits { held_len_max: 10, ..Limits::default() };
        let error = tiny.check(&Settings::default()).unwrap_err();
        assert!(alloc::format!("{error}").contains("held_len_max: must be at least eager_len_max"));
    }
}
