//! What leads to a peer, and what does not: for people who wonder.

use std::fmt;
use std::time::Duration;

use packhorse_engine::{Asked, Fate, Reject};
use packhorse_link::{About, Locator, are_alike, show};
use packhorse_proto::{PathInfo, PathState};

/// A pair of a link of ours and a place of the peer's: a path, or one that is not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Path {
    /// The link: its kind and where it is.
    pub link: String,
    /// The peer's place.
    pub to: String,
    /// What is made of it, and why.
    pub state: State,
    /// Mean round trip, if one was measured.
    pub round_trip: Option<Duration>,
    /// Bytes per second it was seen to carry. Measured only where there is another to compare it with.
    pub rate: Option<u64>,
    /// The longest frame it takes now.
    pub frame_len: Option<u16>,
}

/// What is made of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// The quickest: small messages take it, and data its share.
    Main,
    /// The quickest: small messages take it. Data goes by another link over the same card, which carries more.
    Quick,
    /// A rail: data takes its share.
    Rail,
    /// Works, but another link over the same card carries more, and another path is quicker.
    Yielding,
    /// Works, and is used when others fail: both its ends have another path, or a link that never loses leads there.
    Spare,
    /// A stream, not opened yet: it will be when there are long messages, or when nothing else answers.
    Dormant,
    /// Asked so often whether it leads to the peer, and not answered.
    Unproven {
        /// How often.
        asked_count: u32,
    },
    /// It worked once and is silent now; it is asked again and again.
    Silent,
    /// Not tried: the link knows no way there.
    NoWay,
    /// Not tried: there are enough.
    Enough,
    /// Not tried: another endpoint of this process has asked that host lately, this way, in vain.
    Unheard,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Main => f.write_str("in use: small messages, and data"),
            Self::Quick => f.write_str("in use: small messages"),
            Self::Rail => f.write_str("in use: data"),
            Self::Yielding => {
                f.write_str("ready: over the same card others are quicker, or carry more")
            }
            Self::Spare => f.write_str("spare: what it joins is joined by others already"),
            Self::Dormant => f.write_str("not open yet: for long messages, or if others fail"),
            Self::Unproven { asked_count } => {
                write!(
                    f,
                    "not in use: asked {asked_count} times whether the peer is there, no answer"
                )
            }
            Self::Silent => {
                f.write_str("left: answered once, silent now; taken back when it answers")
            }
            Self::NoWay => f.write_str("not tried: this link knows no way there"),
            Self::Enough => f.write_str("not tried: there are as many paths as there may be"),
            Self::Unheard => {
                f.write_str("not tried: that host did not answer this way a moment ago")
            }
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}: {}", self.link, self.to, self.state)?;
        if let Some(time) = self.round_trip {
            write!(f, "; round trip {:.1} µs", time.as_secs_f64() * 1e6)?;
        }
        if let Some(rate) = self.rate {
            write!(f, "; {:.1} MB/s", rate as f64 / 1e6)?;
        }
        match self.frame_len {
            Some(len) => write!(f, "; frames of {len} bytes"),
            None => Ok(()),
        }
    }
}

/// A link as people are shown it.
fn link_text(links: &[(About, Locator)], number: u8) -> String {
    match links.get(usize::from(number)) {
        Some((about, locator)) => format!("{} {}", about.kind, show(locator)),
        None => format!("link {number}"),
    }
}

/// First contact by one link, for an error; `None` where nobody would expect it to lead there.
pub(crate) fn tried_text(asked: &Asked, links: &[(About, Locator)]) -> Option<String> {
    let own = links.get(usize::from(asked.link)).map(|(_, locator)| locator);
    let what = match asked.fate {
        Fate::NoWay if !own.is_some_and(|own| are_alike(own, &asked.locator.0)) => return None,
        Fate::NoWay => "knows no way there",
        Fate::Unanswered => "no answer",
        Fate::Unreachable => "the network says nobody is there",
    };
    let (link, to) = (link_text(links, asked.link), show(&asked.locator.0));
    Some(format!("{link} to {to}: {what}"))
}

impl Path {
    pub(crate) fn tried(info: &PathInfo, links: &[(About, Locator)]) -> Self {
        let state = match info.state {
            PathState::Proven { is_main: true, yields_data: true, .. } => State::Quick,
            PathState::Proven { is_main: true, .. } => State::Main,
            PathState::Proven { is_spare: true, .. } => State::Spare,
            PathState::Proven { yields_data: true, .. } => State::Yielding,
            PathState::Proven { .. } => State::Rail,
            PathState::Dormant => State::Dormant,
            PathState::Unproven { asked_count } => State::Unproven { asked_count },
            PathState::Left => State::Silent,
        };
        let is_proven = matches!(info.state, PathState::Proven { .. });
        Self {
            link: link_text(links, info.link),
            to: show(&info.locator.0),
            state,
            round_trip: info.rtt_ns.map(Duration::from_nanos),
            rate: info.rate,
            frame_len: Some(info.frame_len).filter(|_| is_proven),
        }
    }

    pub(crate) fn rejected(
        rejected: &packhorse_engine::Rejected,
        links: &[(About, Locator)],
    ) -> Self {
        let state = match rejected.why {
            Reject::NoWay => State::NoWay,
            Reject::TooMany => State::Enough,
            Reject::Unheard => State::Unheard,
        };
        let link = link_text(links, rejected.link);
        let to = show(&rejected.locator.0);
        Self { link, to, state, round_trip: None, rate: None, frame_len: None }
    }
}
