//! A scenario: everything one run does, as a value.
//!
//! Drawn whole from a seed (`draw`), played step by step (`player`), made smaller by leaving parts out (`shrink`).
//! For the last, parts refer to each other by label, never by position, and a fault carries its own end: any step
//! can be taken away and the rest still makes sense.

use std::fmt;

use packhorse_link::sim::{Conditions, CutId, Directions, Line, NodeId, Who};
use packhorse_proto::{Limits, Settings};

use crate::adversary::Adversary;
use crate::onesided::{Deed, Operate};
use crate::world::{PortSpec, World};

/// Tag bits that number the message where `Scenario::is_named_by_tag`; every criteria ignores them then.
pub const NAME_SHIFT: u32 = 40;
/// The bits above `NAME_SHIFT`.
pub const NAME_MASK: u64 = !0 << NAME_SHIFT;

/// One run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Where it was drawn from; chance during the run comes from it too.
    pub seed: u64,
    /// The endpoints.
    pub nodes: Vec<NodePlan>,
    /// The network until it is healed.
    pub weather: Conditions,
    /// The line of each port, out and in.
    pub line: Line,
    /// Whether the network tells senders that nobody lives where they send.
    pub tells_unreachable: bool,
    /// Messages carry their number in the tag's upper bits (else in the immediate or the payload).
    pub is_named_by_tag: bool,
    /// What happens, in order of time.
    pub steps: Vec<Step>,
    /// When faults end and every node drains what is left.
    pub heal_at_ns: u64,
    /// Capacities of the receives that drain, taken in turn.
    pub drain_caps: Vec<u64>,
    /// Who of the nodes keeps to the letter of the rules only.
    pub adversary: Option<Adversary>,
}

/// One endpoint.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Its letter is made of this, and its secrets; stays when other nodes are left out.
    pub name: u8,
    /// Local links.
    pub ports: u8,
    /// What they are like, where that is not as usual.
    pub port_specs: Vec<PortSpec>,
    /// Their lines, where these are not as everybody's.
    pub port_lines: Vec<Line>,
    /// What it may hold.
    pub limits: Limits,
    /// Its knobs.
    pub settings: Settings,
}

impl NodePlan {
    /// A, B, C …
    pub fn letter(&self) -> char {
        (b'A' + self.name % 26) as char
    }
}

/// Something that happens.
#[derive(Clone, Debug)]
pub struct Step {
    /// When.
    pub at_ns: u64,
    /// To whom.
    pub node: u8,
    /// What.
    pub action: Action,
}

/// What can happen.
#[derive(Clone, Debug)]
pub enum Action {
    /// Post a send.
    Send(Send),
    /// Post a receive.
    Recv(Recv),
    /// Operate on another's memory.
    Operate(Operate),
    /// Cancel the request with this label.
    Cancel {
        /// Which.
        label: u32,
    },
    /// Look, and perhaps take what was seen.
    Claim {
        /// Names the receive that may come of it.
        label: u32,
        /// What is looked for.
        wanted: Wanted,
        /// And then.
        then: Then,
    },
    /// Frames per acknowledgement from now on.
    AckEvery(u32),
    /// Say goodbye and leave.
    Close,
    /// Die without a word.
    Kill {
        /// Come back after this, as a new incarnation; or never.
        back_after_ns: Option<u64>,
        /// The driver tells the others (a process on the same host).
        is_told: bool,
    },
    /// Not turned for so long; frames wait.
    Pause {
        /// How long.
        for_ns: u64,
    },
    /// A port gets a new address.
    Rebind {
        /// Which.
        port: u8,
        /// The driver tells the endpoint.
        is_told: bool,
    },
    /// The application has no more to do with a peer, for now.
    Forget {
        /// Whom.
        peer: u8,
    },
    /// A partition.
    Cut(Cut),
    /// Other weather from this node to others, for a while.
    Weather {
        /// How frames fare.
        conditions: Conditions,
        /// For how long.
        for_ns: u64,
    },
}

/// A send.
#[derive(Clone, Debug)]
pub struct Send {
    /// Also the message's number.
    pub label: u32,
    /// To whom.
    pub to: u8,
    /// Matching space.
    pub space: u8,
    /// Match bits, below `NAME_SHIFT`.
    pub tag: u64,
    /// Bytes.
    pub len: u64,
    /// With immediate data (the label).
    pub has_immediate: bool,
    /// When it is complete.
    pub how: How,
    /// Pieces of real memory; 0: made on the fly.
    pub segments: u8,
}

/// How a send is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Into the resend pool.
    Copied,
    /// In place, until accepted.
    Accepted,
    /// In place, until matched.
    Matched,
}

/// What a receive or probe asks for, in terms of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The space.
    pub space: u8,
    /// The bits.
    pub tag: u64,
    /// Bits not compared.
    pub ignore: u64,
    /// From whom; `None`: anybody.
    pub source: Option<u8>,
}

impl Wanted {
    /// Everything in a space.
    pub const fn anything(space: u8) -> Self {
        Self { space, tag: 0, ignore: !0, source: None }
    }

    /// Whether a message satisfies it. The oracle's own reading of PROTOCOL §9.1.
    pub fn admits(&self, space: u8, tag: u64, source: u8) -> bool {
        let same_bits = (self.tag | self.ignore) == (tag | self.ignore);
        self.space == space && same_bits && (self.source.is_none() || self.source == Some(source))
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "space {}, ", self.space)?;
        match (self.ignore, self.tag & !self.ignore) {
            (u64::MAX, _) => f.write_str("any tag, ")?,
            (0, tag) => write!(f, "tag {tag:#x}, ")?,
            (ignore, tag) => write!(f, "tag {tag:#x} ignoring {ignore:#x}, ")?,
        }
        match self.source {
            Some(source) => write!(f, "from node {source}"),
            None => f.write_str("from anybody"),
        }
    }
}

/// A receive.
#[derive(Clone, Debug)]
pub struct Recv {
    /// Its name.
    pub label: u32,
    /// What it takes.
    pub wanted: Wanted,
    /// Bytes of room.
    pub cap: u64,
    /// Pieces of memory.
    pub segments: u8,
    /// In the overflow list.
    pub is_overflow: bool,
    /// Used many times, unlinked when less than this is free.
    pub many_free_min: Option<u64>,
    /// Envelope only.
    pub is_header_only: bool,
}

/// What follows a look at the unexpected list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing: a probe.
    Leave,
    /// Receive it, so many bytes at most.
    Receive(u64),
    /// Forget it.
    Discard,
}

/// A partition between this node and others.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Only this port of the node (a cable pulled), or all.
    pub port: Option<u8>,
    /// The other side; empty: everybody.
    pub others: Vec<u8>,
    /// Frames towards the node vanish.
    pub inward: bool,
    /// Frames from the node vanish.
    pub outward: bool,
    /// When it heals.
    pub for_ns: u64,
}

impl Cut {
    /// Cuts the node off, until what is returned is healed.
    pub(crate) fn begin(&self, world: &mut World, node: NodeId) -> CutId {
        let here = match self.port {
            Some(port) => Who::Port(node.port(port % world.port_count(node))),
            None => Who::Node(node),
        };
        let others: Vec<Who> = match &self.others[..] {
            [] => vec![Who::Any],
            others => others.iter().map(|&other| Who::Node(NodeId(other.into()))).collect(),
        };
        let (here, others) = (&[here][..], &others[..]);
        match (self.inward, self.outward) {
            (true, false) => world.net().partition(others, here, Directions::One),
            (false, true) => world.net().partition(here, others, Directions::One),
            (true, true) | (false, false) => world.net().partition(here, others, Directions::Both),
        }
    }
}

impl Scenario {
    /// What the applications do in it, with none of the fates of nodes and network: for real links, which have faults of
    /// their own. Damage is among them, so payload is checked.
    pub fn of_applications(&self) -> Self {
        let mut calm = self.clone();
        assert!(calm.adversary.is_none(), "its filter is in the simulated network");
        calm.steps.retain(|step| {
            let is_end = matches!(step.action, Action::Close | Action::Forget { .. });
            step.action.is_by_application() && !is_end
        });
        calm.weather = Conditions::PERFECT;
        calm.line = Line::INFINITE;
        for node in &mut calm.nodes {
            node.ports = 1;
            (node.port_specs, node.port_lines) = (Vec::new(), Vec::new());
            node.settings.payload_check = true;
        }
        calm
    }

    /// Messages posted.
    pub fn send_count(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.action, Action::Send(_))).count()
    }

    /// Matching spaces in use.
    pub(crate) fn space_count(&self) -> u8 {
        let space = |action: &Action| if let Action::Send(send) = action { send.space } else { 0 };
        self.steps.iter().map(|step| space(&step.action)).max().unwrap_or(0) + 1
    }

    /// Bytes of a node's memory that are put there.
    pub(crate) fn puts_len(&self, node: u8) -> u64 {
        let end = |step: &Step| match &step.action {
            Action::Operate(Operate { to, deed: Deed::Put { offset, len, .. }, .. })
                if *to == node =>
            {
                offset + len
            }
            _ => 0,
        };
        self.steps.iter().map(end).max().unwrap_or(0)
    }

    /// Whether a node is the adversary.
    pub(crate) fn is_adversary(&self, node: u8) -> bool {
        self.adversary.is_some_and(|adversary| adversary.node == node)
    }

    /// The longest message.
    pub fn len_max(&self) -> u64 {
        let len = |step: &Step| if let Action::Send(send) = &step.action { send.len } else { 0 };
        self.steps.iter().map(len).max().unwrap_or(0)
    }

    /// One more than the highest label.
    pub fn label_count(&self) -> u32 {
        self.steps.iter().filter_map(|step| step.action.label()).max().map_or(0, |label| label + 1)
    }
}

impl Action {
    /// The label of what is posted here.
    pub fn label(&self) -> Option<u32> {
        match self {
            Self::Send(send) => Some(send.label),
            Self::Recv(recv) => Some(recv.label),
            Self::Claim { label, .. } => Some(*label),
            Self::Operate(operate) => Some(operate.label),
            _ => None,
        }
    }

    /// Whether an application does it; the others happen to it.
    pub fn is_by_application(&self) -> bool {
        match self {
            Self::Send(_) | Self::Recv(_) | Self::Cancel { .. } | Self::Claim { .. } => true,
            Self::AckEvery(_) | Self::Close | Self::Forget { .. } | Self::Operate(_) => true,
            Self::Kill { .. } | Self::Pause { .. } | Self::Rebind { .. } => false,
            Self::Cut(_) | Self::Weather { .. } => false,
        }
    }

    /// The other nodes it speaks of.
    pub fn mentions(&self, node: u8) -> bool {
        match self {
            Self::Send(send) => send.to == node,
            Self::Recv(recv) => recv.wanted.source == Some(node),
            Self::Claim { wanted, .. } => wanted.source == Some(node),
            Self::Cut(cut) => cut.others.contains(&node),
            Self::Forget { peer } => *peer == node,
            Self::Operate(operate) => operate.to == node,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_reads_criteria_as_the_protocol_does() {
        let wanted = Wanted { space: 1, tag: 0b1010, ignore: 0b0011, source: Some(2) };
        assert!(wanted.admits(1, 0b1001, 2));
        assert!(!wanted.admits(1, 0b1110, 2));
        assert!(!wanted.admits(0, 0b1010, 2));
        assert!(!wanted.admits(1, 0b1010, 3));
        assert!(Wanted::anything(3).admits(3, !0, 9));
    }
}
