//! Bytes of messages and transfers under way, in both directions: what is granted, sent, landed and fetched.

use crate::base::pool::BytePool;
use crate::base::seeded::Seeded;
use crate::base::slab::Slab;
use crate::bulk::arrival::Cursor;
use crate::bulk::arrival::{Arrival, Progress};
use crate::bulk::grants::Budgets;
use crate::bulk::held::Held;
use crate::bulk::outgoing::{Outgoing, Parts};
use crate::bulk::receives::Receives;
use crate::delivery::content::Content;
use crate::peers::Peers;
use crate::{Instant, Limits, Whereabouts};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashMap;

pub(crate) mod acked;
pub(crate) mod ahead;
pub(crate) mod arrival;
pub(crate) mod bound;
pub(crate) mod copied;
pub(crate) mod fetch;
pub(crate) mod filling;
pub(crate) mod fragments;
pub(crate) mod framed;
pub(crate) mod grants;
pub(crate) mod held;
pub(crate) mod holding;
pub(crate) mod landing;
pub(crate) mod large;
pub(crate) mod lone;
pub(crate) mod outgoing;
pub(crate) mod output;
pub(crate) mod post;
pub(crate) mod quick_out;
pub(crate) mod receives;
pub(crate) mod refused;
pub(crate) mod settled;
pub(crate) mod train;
pub(crate) mod transfer;

/// What is under way in both directions, on top of the peers it is exchanged with.
#[derive(Debug)]
pub(crate) struct Bulk {
    pub(crate) peers: Peers,
    outgoing: Slab<Outgoing>,
    parts: Slab<Parts>,
    /// Sends that expect a Grant or a Done, by row and number.
    sends_by_number: HashMap<u64, u32, Seeded>,
    copied: BytePool,
    pub(crate) receives: Receives,
    arrivals: Slab<Arrival>,
    progress: Slab<Progress>,
    /// Messages under way by row and number: those before their turn, incomplete, or large.
    by_number: HashMap<u64, u32, Seeded>,
    pub(crate) held: Held,
    grants: Budgets,
    /// Arrivals that are granted, for the repeat of lost grants.
    granting: Vec<u32>,
    /// Up to here a message goes unasked whatever happens: the least that a setting says.
    surely_unasked_len: u64,
    /// Matched messages that are to be fetched: slot and serial.
    fetches: VecDeque<(u32, u32)>,
    /// What the announcement at hand says of where its message is.
    told: Option<Whereabouts>,
    regrant_at: Instant,
    /// For each link: where data came last.
    cursors: Box<[Cursor]>,
    /// Perhaps a row that is ready has granted data to send; if not, `poll_train` need not look.
    may_train: bool,
    /// Bytes of messages of ours, to all peers, that go ahead of their grant (PROTOCOL §8.9).
    ahead_sum: u64,
    /// Contents of an Ack that is being read which are not simply over; empty otherwise.
    accepted: Vec<Content>,
}

impl Bulk {
    pub(crate) fn new(peers: Peers, limits: &Limits, seed: u64) -> Self {
        let (settings, links) = (&peers.settings, peers.links.count());
        Self {
            outgoing: Slab::default(),
            parts: Slab::default(),
            sends_by_number: HashMap::with_hasher(Seeded(seed)),
            copied: BytePool::new(limits.copied_len_max),
            receives: Receives::default(),
            arrivals: Slab::default(),
            progress: Slab::default(),
            by_number: HashMap::with_hasher(Seeded(seed)),
            held: Held::new(limits),
            grants: Budgets::new(settings.grant_policy, limits.grant_len_max),
            granting: Vec::new(),
            surely_unasked_len: u64::from(
                settings.eager_sure_len_max.min(settings.fetch_len_min.saturating_sub(1)),
            ),
            fetches: VecDeque::new(),
            told: None,
            regrant_at: Instant::NEVER,
            cursors: alloc::vec![Cursor::NOWHERE; links].into_boxed_slice(),
            may_train: false,
            ahead_sum: 0,
            accepted: Vec::new(),
            peers,
        }
    }
}
