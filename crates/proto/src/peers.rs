//! Peers: who they are, how they become peers, which ways lead to them, and how they are forgotten.

use crate::base::sabotage::Saboteur;
use crate::delivery::content::Content;
use crate::peers::actives::Actives;
use crate::peers::chosen::Chosen;
use crate::peers::events::Events;
use crate::peers::kept::{Closing, Forgotten, Reply};
use crate::peers::links::Links;
use crate::peers::news::News;
use crate::peers::rows::Rows;
use crate::peers::timers::Timers;
use crate::seal::{Pass, TrainChecks, pass_of, train_checks};
use crate::{Counters, Identity, Limits, LinkTraits, Locator, Opening, Secret, Settings};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub(crate) mod acks;
pub(crate) mod actives;
pub(crate) mod ahead;
pub(crate) mod allowance;
pub(crate) mod choice;
pub(crate) mod chosen;
pub(crate) mod clock;
pub(crate) mod contact;
pub(crate) mod contest;
pub(crate) mod events;
pub(crate) mod farewell;
pub(crate) mod kept;
pub(crate) mod line;
pub(crate) mod links;
pub(crate) mod news;
pub(crate) mod notices;
pub(crate) mod numbers;
pub(crate) mod obstacle;
pub(crate) mod output;
pub(crate) mod pairs;
pub(crate) mod paths;
pub(crate) mod received;
pub(crate) mod rows;
pub(crate) mod seals;
pub(crate) mod sending;
pub(crate) mod shown;
pub(crate) mod side;
pub(crate) mod strangers;
pub(crate) mod table;
pub(crate) mod ties;
pub(crate) mod timers;

/// All peers of an endpoint, and what they share: who this endpoint is, its links, its timers, what it tells. Rooms above may name those parts that
/// keep their own state.
#[derive(Debug)]
pub(crate) struct Peers {
    secret: Secret,
    identity: Identity,
    incarnation: u64,
    locators: Vec<Locator>,
    pub(crate) links: Links,
    /// What we take of a peer instead of a check, by links that only their two ends can write to (PROTOCOL §14.6).
    pass: Pass,
    /// How the machine at hand computes the marks of trains.
    train_checks: TrainChecks,
    pub(crate) settings: Chosen,
    peer_count_max: u32,
    /// Key of this life: cookies, nonces and ids are drawn from it.
    key: Secret,
    draw_count: u64,
    /// Move when a row is forgotten, so that no older cookie of its peer is good any more (PROTOCOL §3.5). Empty until then.
    forgotten_counts: Vec<u32>,
    /// Forgotten peers and the ids they last had: they may not have heard.
    forgotten: VecDeque<Forgotten>,
    pub(crate) rows: Rows,
    /// Rows that the application named.
    named_count: u32,
    /// Rows that are not idle.
    association_count: u32,
    pub(crate) actives: Actives,
    replies: VecDeque<Reply>,
    /// A packet came whose number has a high half. Before that nobody looks for one (`Peers::base_of`).
    has_high: bool,
    pub(crate) events: Events,
    pub(crate) timers: Timers,
    /// Contents of packets that were lost, until their owners are told; empty otherwise.
    lost: Vec<Content>,
    news: News,
    closing: Option<Closing>,
    closed: bool,
    /// Open: each room counts what happens there, and no rule asks for it.
    pub(crate) counters: Counters,
    pub(crate) saboteur: Saboteur,
    /// Takes no quick way, so that a test can hold the general ones against them.
    #[cfg(test)]
    is_thorough: bool,
}

impl Peers {
    pub(crate) fn new(opening: Opening, limits: &Limits, settings: Settings) -> Self {
        let links = opening.locators.len();
        let [first, second, third, fourth] = opening.entropy;
        let key = Secret([first, second]);
        let traits = LinkTraits::unknown(&settings);
        Self {
            secret: opening.secret,
            identity: opening.identity,
            incarnation: third | 1,
            locators: opening.locators,
            links: Links::new(links, traits),
            pass: pass_of(&opening.secret),
            train_checks,
            settings: Chosen::new(settings),
            peer_count_max: limits.peer_count_max,
            key,
            draw_count: 0,
            forgotten_counts: Vec::new(),
            forgotten: VecDeque::new(),
            rows: Rows::new(fourth),
            named_count: 0,
            association_count: 0,
            actives: Actives::default(),
            replies: VecDeque::new(),
            has_high: false,
            events: Events::new(),
            timers: Timers::new(),
            lost: Vec::new(),
            news: News::default(),
            closing: None,
            closed: false,
            counters: Counters::default(),
            saboteur: Saboteur::default(),
            #[cfg(test)]
            is_thorough: false,
        }
    }
}
