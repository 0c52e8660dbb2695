//! How a run ends: the network heals, everybody drains, all must come to its end; then everybody leaves.

use packhorse_link::sim::{Directions, NodeId, Who};
use packhorse_proto::{Event, Instant, MS, SECOND};

use super::Player;
use crate::oracle::Oracle;
use crate::scenario::{Recv, Wanted};
use crate::undo::heal_network;

/// After healing everything must end within this.
const PATIENCE_NS: u64 = 200 * SECOND;
/// What only an exception explains is waited for this long.
const GRACE_NS: u64 = 5 * SECOND;
/// Posted wildcards per node and space while draining.
const DRAIN_DEPTH: usize = 2;
/// Where there is an adversary, whose messages may take those and never end, more are posted when nothing was heard for so long.
const CALM_NS: u64 = 100 * MS;
/// Closing takes no longer than it was told to linger, but for what a helper leaves to the application.
const CLOSE_NS: u64 = 10 * MS;

impl Player<'_> {
    pub(super) fn heal(&mut self) {
        if self.has_failed() {
            return;
        }
        while let Some(undo) = self.undos.pop() {
            self.undo(undo);
        }
        self.note(|| "the network is healed; everybody drains".into());
        heal_network(&mut self.world, self.scenario);
    }

    pub(super) fn drain(&mut self) {
        self.is_draining = true;
        for node in 0..self.scenario.nodes.len() as u8 {
            for space in 0..self.spaces {
                self.drain_held(node, space);
                for _ in 0..DRAIN_DEPTH {
                    self.drain_one(node, space);
                }
            }
        }
        self.await_all_settled();
    }

    fn await_all_settled(&mut self) {
        let deadline = self.world.now() + PATIENCE_NS;
        let mut known = None;
        while !self.has_failed() {
            self.world.flush();
            self.see_events();
            let is_calm = self.world.now().since_ns(self.last_event_at) > GRACE_NS;
            // Only an event, or long calm, can change the answer.
            let news = Some((self.event_count, is_calm));
            if std::mem::replace(&mut known, news) != news && self.oracle.all_settled(!is_calm) {
                break;
            }
            self.drain_more();
            let moment = self.world.now() + 100 * MS;
            self.turn(moment.min(deadline));
            if self.world.now() >= deadline {
                let waiting = self.oracle.unsettled();
                let count = waiting.len();
                let few: Vec<_> = waiting.into_iter().take(5).collect();
                self.oracle.violation(format!("stuck: {count} messages wait; {}", few.join("; ")));
            }
        }
    }

    /// Receives that an adversary's messages were bound to, and that never end, are replaced.
    fn drain_more(&mut self) {
        let now = self.world.now();
        let since = self.last_event_at.max(self.drained_at);
        if self.scenario.adversary.is_none() || now.since_ns(since) < CALM_NS {
            return;
        }
        self.drained_at = now;
        for node in 0..self.scenario.nodes.len() as u8 {
            (0..self.spaces).for_each(|space| self.drain_one(node, space));
        }
    }

    /// What nobody waits for any more because only the adversary could end it: each call returns at once.
    fn give_adversary_up(&mut self) {
        let Some(adversary) = self.scenario.adversary else { return };
        for label in self.oracle.open_with(adversary.node) {
            let Some((node, _)) = self.oracle.is_open(label) else { continue };
            if self.oracle.is_working(node) {
                self.cancel(node, label);
            }
        }
        if !adversary.is_forgotten {
            return;
        }
        let (id, all) = (NodeId(adversary.node.into()), [Who::Any]);
        self.note(|| "the adversary is cut off, and forgotten".into());
        self.world.net().partition(&[Who::Node(id)], &all, Directions::Both);
        self.renewal_at = Instant::NEVER;
        for node in 0..adversary.node {
            if self.oracle.is_working(node) {
                self.oracle.on_forget(node, adversary.node);
                self.world.forget(NodeId(node.into()), id);
            }
        }
        self.world.flush();
        self.see_events();
    }

    /// All is received, so no budget may be in use; where a peer was lost, what it left half said may be held for long.
    fn await_nothing_held(&mut self) {
        let deadline = self.world.now() + GRACE_NS;
        let holders = |player: &Self| -> Vec<NodeId> {
            let is_asked = |node: &NodeId| !player.scenario.is_adversary(node.0 as u8);
            let nodes = player.world.node_ids().filter(is_asked);
            let is_free = |node: NodeId| {
                let endpoint = player.world.endpoint(node);
                // Answers to a peer that moved unawares and has nothing more to say are kept until it is gone.
                let is_done = endpoint.served() == (0, 0) || player.has_moved_unawares;
                endpoint.held() == (0, 0) && is_done
            };
            nodes.filter(|&node| !is_free(node)).collect()
        };
        let is_asked = self.scenario.adversary.is_none_or(|adversary| adversary.is_forgotten);
        while is_asked
            && self.oracle.is_nobody_lost()
            && !self.has_failed()
            && !holders(self).is_empty()
        {
            let moment = self.world.now() + MS;
            self.turn(moment.min(deadline));
            self.see_events();
            if self.world.now() >= deadline {
                for node in holders(self) {
                    let (len, count) = self.world.endpoint(node).held();
                    let served = self.world.endpoint(node).served();
                    self.oracle.violation(format!(
                        "node {} holds {len} bytes, {count} envelopes, {served:?} of nothing",
                        node.0
                    ));
                }
            }
        }
    }

    /// What operations have left in the memory of who lives.
    fn look_at_regions(&mut self) {
        for node in 0..self.scenario.nodes.len() as u8 {
            let regions = self.world.memory(NodeId(node.into())).regions();
            if self.oracle.is_working(node) && !regions.is_empty() {
                self.oracle.check_regions(&mut self.world, node, &regions);
            }
        }
    }

    /// Takes what lies in the unexpected list.
    fn drain_held(&mut self, node: u8, space: u8) {
        let wanted = Wanted::anything(space);
        while self.oracle.is_working(node) && !self.has_failed() {
            let criteria = self.criteria(node, &wanted);
            let Some((claim, envelope)) = self.world.claim(NodeId(node.into()), &criteria) else {
                break;
            };
            let label = self.take_label();
            self.recv_claimed(node, label, &wanted, claim, envelope.len.min(64 << 10));
        }
    }

    pub(super) fn take_label(&mut self) -> u32 {
        self.next_label += 1;
        self.next_label - 1
    }

    fn drain_one(&mut self, node: u8, space: u8) {
        if !self.oracle.is_working(node) || self.has_failed() {
            return;
        }
        let caps = &self.scenario.drain_caps;
        let cap = caps[self.drain_count % caps.len()];
        self.drain_count += 1;
        let label = self.take_label();
        self.recv(
            node,
            &Recv {
                label,
                wanted: Wanted::anything(space),
                cap,
                segments: 1,
                is_overflow: false,
                many_free_min: None,
                is_header_only: false,
            },
        );
    }

    /// A drain that was used is posted again.
    pub(super) fn refill(&mut self, node: u8, event: Event) {
        let (Event::Received { user, envelope, .. } | Event::Overflowed { user, envelope, .. }) =
            event
        else {
            return;
        };
        let is_posted_drain = user >= self.first_drain.into() && self.oracle.is_posted(user as u32);
        if is_posted_drain {
            self.drain_one(node, envelope.space.0);
        }
    }

    /// Cancels what nobody sent for, closes all, and waits for the last to close.
    pub(super) fn part(&mut self) {
        if self.has_failed() {
            return;
        }
        self.give_adversary_up();
        self.await_nothing_held();
        self.look_at_regions();
        self.is_draining = false;
        self.world.flush();
        self.see_events();
        self.is_ending = true;
        self.oracle.on_quiet();
        for label in self.oracle.open_receives() {
            let (node, _) = self.oracle.is_open(label).expect("open");
            if self.oracle.is_working(node) {
                self.cancel(node, label);
            }
        }
        self.world.flush();
        self.see_events();
        let nodes = 0..self.scenario.nodes.len() as u8;
        let nodes = nodes.filter(|&node| !self.scenario.is_adversary(node));
        let nodes: Vec<u8> = nodes.collect();
        for &node in &nodes {
            if self.oracle.is_working(node) {
                self.close(node);
                let apart = u64::from(node) * 7_000 % 50_000;
                self.turn_to(self.world.now().0 + apart);
            }
        }
        let linger_ns = self.scenario.nodes.iter().map(|node| node.settings.linger_ns).max();
        let deadline = self.world.now() + linger_ns.unwrap_or(0) + CLOSE_NS;
        let is_over = |oracle: &Oracle, node: u8| oracle.is_closed(node) || oracle.is_dead(node);
        while !self.has_failed() && !nodes.iter().all(|&node| is_over(&self.oracle, node)) {
            self.turn(deadline);
            self.see_events();
            if self.world.now() >= deadline {
                let open: Vec<_> =
                    nodes.iter().filter(|&&node| !is_over(&self.oracle, node)).collect();
                self.oracle.violation(format!("stuck: nodes {open:?} do not close"));
            }
        }
    }
}
