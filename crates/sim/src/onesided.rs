//! One-sided operations of a scenario: what applications do with each other's memory.
//!
//! Every node exposes the same regions, each made so that what happened there can be told afterwards:
//!
//! ```text
//!   PUTS      a range of its own for every put: its bytes are all there, or (if it failed) there or not
//!   CELLS     one for each initiator, who writes and reads it again and again: order, and no late copies
//!   COUNTER   everybody adds one: exactly once, and everybody fetches another number
//!   LIBRARY   a pattern, to be read and not written
//!   CLOSED    exposed to nobody
//! ```
//!
//! Drawn apart from all else, so that it changes no other draw.

use packhorse_link::sim::{NodeId, Rng};
use packhorse_proto::{Access, Denial, Permitted, RegionSpec};

use crate::draw::{Frame, PERCENT};
use crate::scenario::{Action, Scenario, Step};
use crate::world::World;

/// Keys of the regions.
pub const PUTS: u64 = 1;
/// See above.
pub const CELLS: u64 = 2;
/// See above.
pub const COUNTER: u64 = 3;
/// See above.
pub const LIBRARY: u64 = 4;
/// See above.
pub const CLOSED: u64 = 5;
/// Nobody has this one.
const NOBODYS: u64 = 99;

/// Bytes of a cell.
pub const CELL_LEN: u64 = 8 << 10;
/// Bytes of the library, which is the message with this number.
pub const LIBRARY_LEN: u64 = 150_000;
/// See above.
pub const LIBRARY_ID: u32 = 0xFFFF_FFF0;
/// Bytes that are small enough to be read in order.
const READ_LEN_MAX: u64 = 1024;
/// Bytes all puts and gets of a scenario together may have.
const BUDGET: u64 = 400_000;

/// A one-sided operation.
#[derive(Clone, Debug)]
pub struct Operate {
    /// Its name, and the number of what it puts.
    pub label: u32,
    /// With whose memory.
    pub to: u8,
    /// What.
    pub deed: Deed,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Fill a range of the target's that nobody else writes.
    Put {
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
        /// The target is told.
        has_immediate: bool,
        /// The bytes are copied.
        is_copied: bool,
    },
    /// Read from the library.
    Get {
        /// From where.
        offset: u64,
        /// How much.
        len: u64,
    },
    /// Write this much of one's cell.
    Write {
        /// How much: one length for all writes of one initiator to one target.
        len: u64,
    },
    /// Read that back.
    Read {
        /// So much of it.
        len: u64,
    },
    /// Add one to the counter and fetch what it was.
    Add,
    /// What the target must not do.
    Forbidden {
        /// What it must say.
        denial: Denial,
        /// How much would be put (or got, if it is `is_get`).
        len: u64,
        /// Read instead of written.
        is_get: bool,
    },
}

impl Deed {
    /// Where it is done: key and offset.
    pub fn place(&self, from: u8) -> (u64, u64) {
        match *self {
            Self::Put { offset, .. } => (PUTS, offset),
            Self::Get { offset, .. } => (LIBRARY, offset),
            Self::Write { .. } | Self::Read { .. } => (CELLS, u64::from(from) * CELL_LEN),
            Self::Add => (COUNTER, 0),
            Self::Forbidden { denial: Denial::Range, len, .. } => (LIBRARY, LIBRARY_LEN + 1 - len),
            Self::Forbidden { denial: Denial::Access, .. } => (LIBRARY, 0),
            Self::Forbidden { len, .. } => (if len % 2 == 0 { NOBODYS } else { CLOSED }, 0),
        }
    }
}

/// The one-sided operations of a scenario; labels from `next_label` on.
pub(crate) fn draw(root: &Rng, frame: &Frame, mut next_label: u32, steps: &mut Vec<Step>) {
    let mut rng = root.fork("onesided");
    if !rng.chance(30 * PERCENT) {
        return;
    }
    let count = rng.range(1..=120);
    let (mut budget, mut used) = (BUDGET, vec![0; usize::from(frame.node_count)]);
    let cancelled = *rng.pick(&[0, 0, 5, 20]);
    let salt = rng.next_u64();
    for _ in 0..count {
        let node = rng.below(u64::from(frame.node_count)) as u8;
        let to = rng.below(u64::from(frame.node_count)) as u8;
        let mut deed = draw_deed(&mut rng, frame, salt, (node, to));
        if let Deed::Put { offset, len, .. } = &mut deed {
            *len = (*len).min(budget);
            budget -= *len;
            *offset = used[usize::from(to)];
            used[usize::from(to)] += *len;
        }
        let at_ns = rng.below(frame.horizon_ns);
        let label = next_label;
        next_label += 1;
        steps.push(Step { at_ns, node, action: Action::Operate(Operate { label, to, deed }) });
        if rng.chance(cancelled * PERCENT) {
            let at_ns = at_ns + rng.below(frame.horizon_ns / 8 + 1);
            steps.push(Step { at_ns, node, action: Action::Cancel { label } });
        }
    }
}

fn draw_deed(rng: &mut Rng, frame: &Frame, salt: u64, (node, to): (u8, u8)) -> Deed {
    let len = match rng.below(10) {
        0..5 => rng.range(0..=64),
        5..7 => rng.range(900..=1500),
        7..9 => rng.range(0..=20_000),
        _ => rng.range(20_000..=100_000),
    };
    // In order only if it is not granted.
    let eager_len_max = u64::from(frame.settings[usize::from(node)].put_parts_len_max());
    let cell_len_max = eager_len_max.clamp(READ_LEN_MAX, CELL_LEN);
    let pair = u64::from(node) << 8 | u64::from(to);
    let cell_len = 1 + (salt ^ pair.wrapping_mul(0x9E37_79B9_7F4A_7C15)) % cell_len_max;
    match rng.below(100) {
        0..30 => Deed::Put {
            offset: 0,
            len,
            has_immediate: rng.chance(30 * PERCENT),
            is_copied: len <= eager_len_max && rng.chance(30 * PERCENT),
        },
        30..45 => {
            let len = len.min(LIBRARY_LEN);
            Deed::Get { offset: rng.range(0..=LIBRARY_LEN - len), len }
        }
        45..60 => Deed::Write { len: cell_len },
        60..70 => Deed::Read { len: cell_len.min(READ_LEN_MAX) },
        70..93 => Deed::Add,
        _ => {
            let denial = *rng.pick(&[Denial::NoKey, Denial::Range, Denial::Access]);
            let is_get = denial != Denial::Access && rng.chance(50 * PERCENT);
            // A put to the library fails for its access before anybody asks for its range.
            let is_get = is_get || denial == Denial::Range;
            Deed::Forbidden { denial, len, is_get }
        }
    }
}

/// Exposes what a node of this scenario exposes in each of its lives, if anybody operates at all.
pub(crate) fn expose(scenario: &Scenario, world: &mut World, node: NodeId) {
    let operations = || {
        scenario.steps.iter().filter_map(|step| match &step.action {
            Action::Operate(operate) => Some(operate),
            _ => None,
        })
    };
    if operations().next().is_none() {
        return;
    }
    let puts_len = scenario.puts_len(node.0 as u8);
    let cells_len = CELL_LEN * scenario.nodes.len() as u64;
    let regions = [
        (PUTS, puts_len, Access::ALL, Permitted::Everybody),
        (CELLS, cells_len, Access::ALL, Permitted::Everybody),
        (COUNTER, 8, Access::ALL, Permitted::Everybody),
        (LIBRARY, LIBRARY_LEN, Access::READ, Permitted::Everybody),
        (CLOSED, 200_000, Access::ALL, Permitted::Only(Vec::new())),
    ];
    for (key, len, access, permitted) in regions {
        let memory = world.memory(node);
        let buf = match key {
            LIBRARY => memory.add_library(LIBRARY_ID, len),
            _ => memory.add_region(len),
        };
        let spec = RegionSpec { key, buf, len, access, permitted, user: buf.0, tells_all: false };
        world.endpoint_mut(node).expose(spec).expect("keys differ");
    }
}
