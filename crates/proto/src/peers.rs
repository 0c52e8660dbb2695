//! Peers: who they are, how they become peers, which ways lead to them, and how they are forgotten.

use crate::base::ring::Ring;
use crate::base::sabotage::Saboteur;
use crate::base::slab::Slab;
use crate::delivery::content::Content;
use crate::peers::kept::{Closing, Forgotten, Reply};
use crate::peers::rows::{Active, Rows};
use crate::seal::{Pass, TrainChecks, pass_of, train_checks};
use crate::{
    Counters, Event, Identity, Instant, Limits, LinkTraits, Locator, NewLocators, Opening, PeerId,
    Secret, Settings,
};
use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

pub(crate) mod acks;
pub(crate) mod allowance;
pub(crate) mod choice;
pub(crate) mod clock;
pub(crate) mod contact;
pub(crate) mod contest;
pub(crate) mod farewell;
pub(crate) mod kept;
pub(crate) mod obstacle;
pub(crate) mod output;
pub(crate) mod pairs;
pub(crate) mod received;
pub(crate) mod rows;
pub(crate) mod seals;
pub(crate) mod sending;
pub(crate) mod side;
pub(crate) mod strangers;
pub(crate) mod table;

/// All peers of an endpoint, and what they share: who this endpoint is, its links, its timers, what it tells.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) secret: Secret,
    pub(crate) identity: Identity,
    pub(crate) incarnation: u64,
    pub(crate) locators: Vec<Locator>,
    /// What is known of each local link.
    pub(crate) links: Box<[LinkTraits]>,
    /// Those that only their two ends can write to, and what those ends may say there instead of a check (PROTOCOL §14.6).
    pub(crate) private_links: u64,
    pub(crate) pass: Pass,
    /// How the machine at hand computes the marks of trains.
    pub(crate) train_checks: TrainChecks,
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    /// Key of this life: cookies, nonces and ids are drawn from it.
    pub(crate) key: Secret,
    pub(crate) draw_count: u64,
    /// Move when a row is forgotten, so that no older cookie of its peer is good any more (PROTOCOL §3.5). Empty until then.
    pub(crate) forgotten_counts: Vec<u32>,
    /// Forgotten peers and the ids they last had: they may not have heard.
    pub(crate) forgotten: VecDeque<Forgotten>,
    pub(crate) rows: Rows,
    /// Rows that the application named.
    pub(crate) named_count: u32,
    /// When idle strangers must be looked at (`strangers`). May be earlier.
    pub(crate) tend_at: Instant,
    /// Rows that are not idle.
    pub(crate) association_count: u32,
    pub(crate) actives: Slab<Box<Active>>,
    #[expect(clippy::vec_box, reason = "boxes move between here and `actives` as they are")]
    pub(crate) spare: Vec<Box<Active>>,
    pub(crate) replies: VecDeque<Reply>,
    /// A packet came whose number has a high half. Before that nobody looks for one (`Endpoint::base_of`).
    pub(crate) has_high: bool,
    pub(crate) events: Ring<Event>,
    pub(crate) timers: BinaryHeap<Reverse<(Instant, u32)>>,
    pub(crate) ack_timers: Ring<(Instant, u32)>,
    /// Not later than the first of both kinds of timers. May be earlier: it is looked up again when time is up.
    pub(crate) wake_at: Instant,
    /// Contents of an Ack that is being read which are not simply over; empty otherwise.
    pub(crate) accepted: Vec<Content>,
    /// Contents of packets that were lost, until their owners are told; empty otherwise.
    pub(crate) lost: Vec<Content>,
    /// Paths not yet shown by `poll_new_path`.
    pub(crate) new_paths: VecDeque<(u8, Locator)>,
    pub(crate) path_news: VecDeque<PeerId>,
    /// One of these two may not be empty.
    pub(crate) has_news: bool,
    /// Peers not yet shown by `poll_new_locators`.
    pub(crate) new_locators: VecDeque<NewLocators>,
    pub(crate) closing: Option<Closing>,
    pub(crate) closed: bool,
    pub(crate) counters: Counters,
    pub(crate) saboteur: Saboteur,
    /// Takes no quick way, so that a test can hold the general ones against them.
    #[cfg(test)]
    pub(crate) is_thorough: bool,
}

impl Peers {
    pub(crate) fn new(opening: Opening, limits: Limits, settings: Settings) -> Self {
        let links = opening.locators.len();
        let [first, second, third, fourth] = opening.entropy;
        let key = Secret([first, second]);
        let traits = LinkTraits::unknown(&settings);
        Self {
            secret: opening.secret,
            identity: opening.identity,
            incarnation: third | 1,
            locators: opening.locators,
            links: alloc::vec![traits; links].into_boxed_slice(),
            private_links: 0,
            pass: pass_of(&opening.secret),
            train_checks,
            settings,
            limits,
            key,
            draw_count: 0,
            forgotten_counts: Vec::new(),
            forgotten: VecDeque::new(),
            rows: Rows::new(fourth),
            named_count: 0,
            tend_at: Instant::NEVER,
            association_count: 0,
            actives: Slab::default(),
            spare: Vec::new(),
            replies: VecDeque::new(),
            has_high: false,
            events: Ring::new(),
            timers: BinaryHeap::new(),
            ack_timers: Ring::new(),
            wake_at: Instant::NEVER,
            accepted: Vec::new(),
            lost: Vec::new(),
            new_paths: VecDeque::new(),
            path_news: VecDeque::new(),
            has_news: false,
            new_locators: VecDeque::new(),
            closing: None,
            closed: false,
            counters: Counters::default(),
            saboteur: Saboteur::default(),
            #[cfg(test)]
            is_thorough: false,
        }
    }
}
