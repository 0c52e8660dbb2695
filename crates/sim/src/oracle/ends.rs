//! The order in which ends of one peer's messages are told (PROTOCOL §9.5).
//!
//! Whose receive was posted before a later message was, that message has found it before the later one's turn: if it leaves unasked, its end is told
//! first. Not so where messages were refused, for those find their receives in any order (PROTOCOL §7.6).

use std::collections::HashMap;

use packhorse_link::sim::NodeId;
use packhorse_proto::Settings;

use super::{Oracle, Receive};
use crate::world::World;

/// What must be known of nodes, and of what was told.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Of each node: whether ends are told in order, and up to which length its own messages leave unasked.
    rules: Vec<(bool, u64)>,
    /// By sender and receiver: when the latest message was posted of those whose ends were told.
    latest: HashMap<(u8, u8), u64>,
}

impl Oracle {
    /// What the nodes are set to.
    pub(crate) fn know<'a>(&mut self, settings: impl Iterator<Item = &'a Settings>) {
        let unasked = |it: &Settings| {
            it.eager_len_max.min(it.eager_sure_len_max).min(it.fetch_len_min.saturating_sub(1))
        };
        self.ends.rules = settings.map(|it| (it.ends_in_order, unasked(it).into())).collect();
    }

    /// The end of message `id` is told, whole, for this receive.
    pub(super) fn check_end(&mut self, world: &World, node: u8, id: u32, receive: &Receive) {
        let Some(Some(message)) = self.messages.get(id as usize) else { return };
        let rules = (
            self.ends.rules.get(usize::from(node)),
            self.ends.rules.get(usize::from(message.from)),
        );
        let (Some(&(true, _)), Some(&(_, unasked_len))) = rules else { return };
        if !self.nobody_may_go || receive.is_many || receive.is_overflow {
            return;
        }
        let (posted, len, pair) = (message.posted, message.len, (message.from, node));
        let latest = self.ends.latest.entry(pair).or_default();
        let is_late = receive.posted < *latest && posted < *latest && len <= unasked_len;
        *latest = posted.max(*latest);
        if is_late && world.endpoint(NodeId(node.into())).counters().refusals == 0 {
            self.violation(format!("the end of message #{id} was told behind that of a later one"));
        }
    }
}
