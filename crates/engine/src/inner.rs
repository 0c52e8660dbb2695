//! What the engine's lock protects: the core, requests, queues, and who waits.
//!
//! A turn and what comes of it is in `turns`, posts in `posts`, ends that a queue is told of in `queued`, exposed memory in `regions`, streams in
//! `streams`. Nothing here knows threads or the lock.

mod portals;
mod posts;
mod queued;
mod regions;
mod streams;
mod turns;

use std::sync::Arc;
use std::task::Waker;

use packhorse_link::Link;
use packhorse_link::mem::Table;
use packhorse_proto::Instant;

use crate::commands::Commands;
use crate::core::Core;
use crate::lending::Waiters;
use crate::names::Notify;
use crate::queue::Queues;
use crate::regions::Regions;
use crate::requests::Requests;

/// Nobody sleeps longer than this without a look: it bounds what a missed timer could cost.
const SLEEP_NS_MAX: u64 = 100_000_000;
/// Frames a link did not take are offered again after this.
const BLOCKED_NS: u64 = 20_000;

pub(crate) type DynCore = Core<Box<dyn Link>, Table>;

/// What the lock protects.
pub(crate) struct Inner {
    pub(crate) core: DynCore,
    pub(crate) requests: Requests,
    pub(crate) queues: Queues,
    pub(crate) commands: Arc<Commands>,
    /// Memory exposed to peers.
    pub(crate) regions: Regions,
    /// To be woken when the lock is free.
    pub(crate) wakers: Vec<Waker>,
    /// An application thread drives, and dozes at the moment.
    pub(crate) is_dozing: bool,
    /// Somebody sleeps, or is about to, in a loop of its own.
    pub(crate) is_bell_armed: bool,
    /// Threads that wait for another's driving.
    pub(crate) sleeper_count: u32,
    /// When a send was posted that did not wait for company.
    pub(crate) sent_at: Instant,
    /// The longest message posted since the helper was told.
    pub(crate) posted_len: u64,
    /// Sends in a row that were posted at once behind each other, to a peer to which something is on its way.
    pub(crate) burst_count: u32,
    /// Requests ended since the sleepers were told.
    pub(crate) has_news: bool,
    /// What `Closed` said.
    pub(crate) closed: Option<bool>,
    /// Nothing will happen any more: whoever waits goes.
    pub(crate) is_stopped: bool,
    /// Which queue is told of copied sends that fail.
    pub(crate) lost_notify: Option<Notify>,
    /// Notices of peers' writes that a reader took out of its queue are not taken from there (`Engine::hold_notices`).
    pub(crate) is_reader_full: bool,
    /// Peers' writes that would be told are refused.
    pub(crate) are_notices_held: bool,
    /// Who extracts streams, and who waits to send them.
    pub(crate) streams: Waiters,
}

impl Inner {
    /// With nothing posted, exposed or awaited.
    pub(crate) fn new(core: DynCore, commands: Arc<Commands>) -> Self {
        Self {
            core,
            requests: Requests::default(),
            queues: Queues::default(),
            commands,
            regions: Regions::default(),
            wakers: Vec::new(),
            is_dozing: false,
            is_bell_armed: false,
            sleeper_count: 0,
            sent_at: Instant(0),
            posted_len: 0,
            burst_count: 0,
            has_news: false,
            closed: None,
            is_stopped: false,
            lost_notify: None,
            is_reader_full: false,
            are_notices_held: false,
            streams: Waiters::default(),
        }
    }

    /// Whether others are to be told of what happened, or there may be somebody who sleeps.
    #[inline]
    pub(crate) fn concerns_others(&self) -> bool {
        self.has_news || self.is_dozing || self.is_bell_armed || !self.wakers.is_empty()
    }

    /// How long nothing needs to be done unless something arrives.
    pub(crate) fn sleep_ns(&mut self, now: Instant) -> u64 {
        let longest = if self.core.is_blocked() { BLOCKED_NS } else { SLEEP_NS_MAX };
        (self.core.next_timeout_for_sleep(now) - now).min(longest)
    }
}
