//! Portals 4: entries that wait for messages, what is told of them, and what they set off.
//!
//! PROTOCOL §17. A process hands its matching over: which message goes to which memory, what is counted then, and what is sent when a count
//! is reached. All of that is here and runs wherever the endpoint is turned, so also while the application computes.
//!
//! ```text
//!   Incoming ──▶ table ──▶ lists: priority, overflow ──▶ Taken: a place ──data──▶ delivered
//!                                        │ header                                    │
//!                                        ▼                                           ▼
//!                append, search ──▶ unexpected list                        events, counters ──▶ triggers ──▶ due
//!                                                                                                             │
//!   completed ◀── Outcome ◀── peer ◀── request ◀── launch (`carry`) ◀────────────────────────────────────────┘
//! ```
//!
//! This part owns its state and knows neither frames nor rows: `carry` joins it to one-sided operations (`operate`, `serve`), which carry
//! its requests. What follows from a step waits in `due` and is done in its order, so that a chain of triggers needs no stack.

pub(crate) mod arithmetic;
pub mod codes;
mod counters;
mod entries;
mod incoming;
mod moves;
mod queues;
mod table;
#[cfg(test)]
mod tests;
mod witness;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::base::limits::MATCHED_LEN_MAX;
use crate::base::sabotage::Saboteur;
use crate::base::slab::{NONE, Slab};
use crate::base::types::{BufId, PeerId};

pub use arithmetic::ATOMIC_LEN_MAX;
pub use counters::Count;
pub use entries::{EntrySpec, SearchKind, WILD};
pub(crate) use incoming::Taken;
pub use incoming::{Asked, Incoming};
pub(crate) use moves::Outcome;
pub use moves::{DescriptorSpec, IsThere, MoveKind, MoveSpec};
pub use queues::{PortalsEvent, Taken as TakenEvent};
pub use witness::Witnessed;

use codes::interface;
use counters::{Counter, Due};
use entries::{Entry, Header};
use incoming::Delivery;
use moves::{Descriptor, Launch};
use queues::Queue;
use table::Portal;

/// Why something is not done. The face has a code for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortalsError {
    /// A handle names nothing, or something of another interface; or an argument makes no sense.
    Invalid,
    /// A limit is reached.
    NoSpace,
    /// Something uses it.
    InUse,
    /// The index is taken, or its lists are not empty.
    PortalInUse,
    /// No index is free.
    PortalsFull,
    /// Flow control needs an event queue.
    QueueNeeded,
}

/// What an interface may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortalsLimits {
    /// Entries in all lists.
    pub entry_count_max: u32,
    /// Unexpected headers of one portal.
    pub header_count_max: u32,
    /// Memory descriptors.
    pub descriptor_count_max: u32,
    /// Counters.
    pub counter_count_max: u32,
    /// Event queues.
    pub queue_count_max: u32,
    /// The last index of the portal table.
    pub portal_max: u32,
    /// Entries of one list.
    pub list_count_max: u32,
    /// Triggers of one counter.
    pub trigger_count_max: u32,
}

impl Default for PortalsLimits {
    fn default() -> Self {
        Self {
            entry_count_max: 1024,
            header_count_max: 1024,
            descriptor_count_max: 1024,
            counter_count_max: 1024,
            queue_count_max: 1024,
            portal_max: 63,
            list_count_max: 1024,
            trigger_count_max: 1024,
        }
    }
}

/// One of the four interfaces.
#[derive(Debug)]
struct Interface {
    limits: PortalsLimits,
    /// What this process is called there, as its requests say it: a rank, or a nid and above it a pid.
    own: u64,
    /// For whom its requests come.
    uid: u32,
    portals: Vec<Option<Portal>>,
    entry_count: u32,
    descriptor_count: u32,
    counter_count: u32,
    queue_count: u32,
    /// Messages dropped, permissions violated, operations violated.
    registers: [u64; 3],
}

/// Everything of Portals that an endpoint has.
#[derive(Debug, Default)]
pub struct Portals {
    seed: u64,
    interfaces: [Option<Interface>; interface::COUNT],
    queues: Slab<Queue>,
    counters: Slab<Counter>,
    descriptors: Slab<Descriptor>,
    entries: Slab<Entry>,
    headers: Slab<Header>,
    deliveries: Slab<Delivery>,
    launches: Slab<Launch>,
    /// What is to be done, in this order.
    due: VecDeque<Due>,
    trigger_serial: u64,
    /// Memory that nobody uses any more, for the driver.
    freed: Vec<BufId>,
    /// Peers that the application named, and whose associations ended since somebody last asked.
    parted: Vec<PeerId>,
    /// Something was told or counted since the driver last asked.
    is_stirred: bool,
    /// And something was begun that goes on only while somebody drives.
    is_work_left: bool,
    /// To make mistakes, where a test wants them.
    pub(crate) saboteur: Saboteur,
    /// What came and went, where somebody keeps a model of it.
    witness: Option<Vec<Witnessed>>,
}

/// Bits of a handle that name a slot; above them some of its serial.
const SLOT_BITS: u32 = 21;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;
/// Most things of one kind: one slot is left out, so that no handle has all its bits set.
pub const THING_COUNT_MAX: u32 = SLOT_MASK - 1;
const SERIAL_MASK: u32 = 0xff;

/// The handle of a thing: 29 bits.
fn handle_of<T>(slab: &Slab<T>, slot: u32) -> u32 {
    (slab.serial(slot) & SERIAL_MASK) << SLOT_BITS | slot
}

/// The slot that a handle names, if it still does.
fn slot_of<T>(slab: &Slab<T>, handle: u32) -> Option<u32> {
    let slot = handle & SLOT_MASK;
    slab.get(slot)?;
    (handle >> SLOT_BITS == slab.serial(slot) & SERIAL_MASK).then_some(slot)
}

impl Portals {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Opens one of the four interfaces. `own` is what this process is called there; of a logical one it is told later.
    pub fn open(&mut self, ni: u8, limits: PortalsLimits, own: u64, uid: u32) {
        self.is_work_left = true;
        self.interfaces[usize::from(ni)] = Some(Interface {
            limits,
            own,
            uid,
            portals: Vec::new(),
            entry_count: 0,
            descriptor_count: 0,
            counter_count: 0,
            queue_count: 0,
            registers: [0; 3],
        });
    }

    /// What this process is called on an interface.
    pub fn set_own(&mut self, ni: u8, own: u64) {
        if let Some(interface) = &mut self.interfaces[usize::from(ni)] {
            interface.own = own;
        }
    }

    /// Whether any interface is open: then peers may come at any time.
    pub fn is_open(&self) -> bool {
        self.interfaces.iter().any(Option::is_some)
    }

    /// How often messages were dropped, permissions violated, operations violated.
    pub fn registers(&self, ni: u8) -> Option<[u64; 3]> {
        self.interfaces[usize::from(ni)].as_ref().map(|interface| interface.registers)
    }

    /// Operations of an interface that are not over, its own and those of peers.
    pub fn busy_count(&self, ni: u8) -> usize {
        let is_busy = |launch: &Launch| launch.has_begun && launch.of.spec.ni == ni;
        let launches = self.launches.iter().filter(|(_, launch)| is_busy(launch)).count();
        let deliveries = self.deliveries.iter().filter(|(_, delivery)| delivery.ni == ni).count();
        launches + deliveries
    }

    /// Closes an interface with all that it has. What is under way there was ended before (`Endpoint::close_portals`).
    pub(crate) fn close(&mut self, ni: u8) {
        self.interfaces[usize::from(ni)] = None;
        for slot in slots(&self.entries, |entry| entry.ni == ni) {
            let buf = self.entries.remove(slot).buf;
            self.freed.push(buf);
        }
        for slot in slots(&self.headers, |header| header.ni == ni) {
            self.headers.remove(slot);
        }
        let due = core::mem::take(&mut self.due).into_iter();
        let (mut never, due): (Vec<Due>, Vec<Due>) = due.partition(|due| due.ni() == ni);
        self.due = due.into();
        for slot in slots(&self.counters, |counter| counter.ni == ni) {
            never.extend(self.counters.remove(slot).triggers.into_values());
        }
        for due in never {
            if let Due::Move { launch, .. } = due {
                self.drop_waiting(launch);
            }
        }
        for slot in slots(&self.descriptors, |descriptor| descriptor.ni == ni) {
            let buf = self.descriptors.remove(slot).buf;
            self.freed.push(buf);
        }
        for slot in slots(&self.queues, |queue| queue.ni == ni) {
            self.queues.remove(slot);
        }
        self.is_stirred = true;
    }

    /// Memory that nobody uses any more.
    pub fn take_freed(&mut self) -> Option<BufId> {
        self.freed.pop()
    }

    /// An association with a peer that the application named has ended (PROTOCOL §17.10).
    pub(crate) fn part_with(&mut self, peer: PeerId) {
        if self.is_open() && !self.parted.contains(&peer) {
            self.parted.push(peer);
        }
    }

    /// Whether there are such peers.
    pub fn has_parted(&self) -> bool {
        !self.parted.is_empty()
    }

    /// Peers whose associations ended since this was last asked: whoever named them by a number asks whose that is now.
    pub fn take_parted(&mut self) -> Vec<PeerId> {
        core::mem::take(&mut self.parted)
    }

    /// Whether something was told or counted since this was last asked.
    pub fn take_stirred(&mut self) -> bool {
        core::mem::take(&mut self.is_stirred)
    }

    /// Whether something was begun since this was last asked that goes on only while somebody drives: an interface, to which peers come; a
    /// trigger; data that is to be granted.
    pub fn take_work_left(&mut self) -> bool {
        core::mem::take(&mut self.is_work_left)
    }

    fn interface(&self, ni: u8) -> Result<&Interface, PortalsError> {
        self.interfaces[usize::from(ni)].as_ref().ok_or(PortalsError::Invalid)
    }

    fn interface_mut(&mut self, ni: u8) -> Result<&mut Interface, PortalsError> {
        self.interfaces[usize::from(ni)].as_mut().ok_or(PortalsError::Invalid)
    }

    fn portal(&self, ni: u8, index: u32) -> Option<&Portal> {
        let interface = self.interfaces[usize::from(ni)].as_ref()?;
        interface.portals.get(index as usize)?.as_ref()
    }

    fn portal_mut(&mut self, ni: u8, index: u32) -> Option<&mut Portal> {
        let interface = self.interfaces[usize::from(ni)].as_mut()?;
        interface.portals.get_mut(index as usize)?.as_mut()
    }
}

fn slots<T>(slab: &Slab<T>, is_meant: impl Fn(&T) -> bool) -> Vec<u32> {
    slab.iter().filter(|(_, item)| is_meant(item)).map(|(slot, _)| slot).collect()
}

/// Bytes of an operation up to which its data is in order with that of others: what goes beside a request.
pub const ORDERED_LEN_MAX: u64 = MATCHED_LEN_MAX as u64;

/// No slot, where one may be named.
const NOTHING: u32 = NONE;
