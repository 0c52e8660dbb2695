//! What the network does to frames between two ports, and how such rules are looked up.
//!
//! Conditions and routes are lists of rules `(from, to, value)` of which the last that fits a pair counts;
//! of the cuts any that fits does. A pair looks its rules up once, and again only after some rule was
//! changed, so lists may be long and nothing is searched per frame.

use super::address::{NodeId, Port};
use super::wire::TrunkId;

/// How frames fare on the way from one port to another. Probabilities are parts per million.
///
/// In the order in which a frame meets them: it is lost, or found too long; repeated; and then each
/// copy for itself is truncated, corrupted, delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Time of flight, beside what queues and rates add.
    pub delay_ns: u64,
    /// Up to this much more, drawn evenly per frame. Frames still arrive in order, as they do behind
    /// a queue: only `reorder_ppm` breaks the order.
    pub jitter_ns: u64,
    /// Frames lost one by one.
    pub loss_ppm: u32,
    /// Frames lost in bursts, beside that.
    pub burst: Option<Burst>,
    /// Frames that arrive twice.
    pub duplicate_ppm: u32,
    /// The second copy arrives up to this much later.
    pub duplicate_ns: u64,
    /// Frames held back while later ones pass.
    pub reorder_ppm: u32,
    /// For up to this long.
    pub reorder_ns: u64,
    /// Frames with 1 to 8 flipped bits.
    pub corrupt_ppm: u32,
    /// Frames that lose their end, at least a byte.
    pub truncate_ppm: u32,
    /// Frames longer than this (as given to `send`) vanish without a word: a black hole.
    pub frame_len_max: u32,
}

impl Conditions {
    /// A network that only takes its time: 5 µs, as behind one switch.
    pub const PERFECT: Self = Self {
        delay_ns: 5_000,
        jitter_ns: 0,
        loss_ppm: 0,
        burst: None,
        duplicate_ppm: 0,
        duplicate_ns: 0,
        reorder_ppm: 0,
        reorder_ns: 0,
        corrupt_ppm: 0,
        truncate_ppm: 0,
        frame_len_max: u32::MAX,
    };
}

impl Default for Conditions {
    fn default() -> Self {
        Self::PERFECT
    }
}

/// Losses in bursts, after Gilbert and Elliott: each frame may move the pair between a good state, in
/// which this loses nothing, and a bad one. A burst lasts 10^6 / `leave_ppm` frames on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// From good to bad, per frame.
    pub enter_ppm: u32,
    /// From bad to good, per frame.
    pub leave_ppm: u32,
    /// Frames lost while bad.
    pub loss_ppm: u32,
}

/// The ports that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Every port.
    Any,
    /// All ports of a node.
    Node(NodeId),
    /// One port.
    Port(Port),
}

impl Who {
    /// Whether the rule is about this port.
    pub fn includes(self, port: Port) -> bool {
        match self {
            Self::Any => true,
            Self::Node(node) => node.0 == port.node,
            Self::Port(one) => one == port,
        }
    }
}

impl From<NodeId> for Who {
    fn from(node: NodeId) -> Self {
        Self::Node(node)
    }
}

impl From<Port> for Who {
    fn from(port: Port) -> Self {
        Self::Port(port)
    }
}

/// Which ways a partition cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directions {
    /// Frames from the first side to the second.
    One,
    /// These frames and their answers.
    Both,
}

/// A partition, to be healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CutId(pub(super) u32);

#[derive(Debug)]
struct Cut {
    id: CutId,
    from: Vec<Who>,
    to: Vec<Who>,
    way: Directions,
}

impl Cut {
    fn separates(&self, from: Port, to: Port) -> bool {
        let among = |side: &[Who], port| side.iter().any(|who| who.includes(port));
        let there = among(&self.from, from) && among(&self.to, to);
        there || (self.way == Directions::Both && among(&self.from, to) && among(&self.to, from))
    }
}

/// What the rules come to for one pair of ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruling {
    /// The `epoch` in which this was looked up.
    pub(super) epoch: u64,
    pub(super) conditions: Conditions,
    pub(super) trunk: Option<TrunkId>,
    pub(super) is_cut: bool,
}

/// All rules of a network.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// Moves whenever a rule does.
    pub(super) epoch: u64,
    conditions: Vec<(Who, Who, Conditions)>,
    trunks: Vec<(Who, Who, Option<TrunkId>)>,
    cuts: Vec<Cut>,
    cuts_made: u32,
}

impl Rules {
    pub(super) fn set_conditions(&mut self, from: Who, to: Who, conditions: Conditions) {
        self.epoch += 1;
        push(&mut self.conditions, from, to, conditions);
    }

    pub(super) fn set_trunk(&mut self, from: Who, to: Who, trunk: Option<TrunkId>) {
        self.epoch += 1;
        push(&mut self.trunks, from, to, trunk);
    }

    pub(super) fn cut(&mut self, from: &[Who], to: &[Who], way: Directions) -> CutId {
        self.epoch += 1;
        self.cuts_made += 1;
        let id = CutId(self.cuts_made);
        self.cuts.push(Cut { id, from: from.to_vec(), to: to.to_vec(), way });
        id
    }

    pub(super) fn heal(&mut self, id: CutId) -> bool {
        self.epoch += 1;
        let count = self.cuts.len();
        self.cuts.retain(|cut| cut.id != id);
        self.cuts.len() < count
    }

    pub(super) fn heal_all(&mut self) {
        self.epoch += 1;
        self.cuts.clear();
    }

    pub(super) fn conditions(&self, from: Port, to: Port) -> Conditions {
        last(&self.conditions, from, to).unwrap_or_default()
    }

    pub(super) fn rule(&self, from: Port, to: Port) -> Ruling {
        Ruling {
            epoch: self.epoch,
            conditions: self.conditions(from, to),
            trunk: last(&self.trunks, from, to).flatten(),
            is_cut: self.cuts.iter().any(|cut| cut.separates(from, to)),
        }
    }
}

/// Adds a rule; a former one about the same ports goes, else long runs would grow the list, and one
/// about everybody replaces all.
fn push<T>(rules: &mut Vec<(Who, Who, T)>, from: Who, to: Who, value: T) {
    let everybody = from == Who::Any && to == Who::Any;
    rules.retain(|rule| !everybody && (rule.0, rule.1) != (from, to));
    rules.push((from, to, value));
}

fn last<T: Copy>(rules: &[(Who, Who, T)], from: Port, to: Port) -> Option<T> {
    rules.iter().rev().find(|rule| rule.0.includes(from) && rule.1.includes(to)).map(|rule| rule.2)
}
