//! Events, held against the books.

use packhorse_link::sim::NodeId;
use packhorse_proto::{Envelope, Event, Failure, GoneReason, PeerId, ReqId};

use super::operations::Told;
use super::{Oracle, Receive, Taken};
use crate::scenario::{How, NAME_SHIFT};
use crate::world::World;

impl Oracle {
    /// An application saw an event.
    pub(crate) fn on_event(&mut self, world: &mut World, node: u8, event: Event) {
        self.tick();
        let before = self.violations.len();
        self.see(world, node, event);
        if self.adversary == Some(node) {
            self.violations.truncate(before); // whoever keeps no promises is promised nothing
        }
    }

    fn see(&mut self, world: &mut World, node: u8, event: Event) {
        match event {
            Event::Sent { .. } => self.on_sent(world, node, event),
            Event::Received { .. } => self.on_received(world, node, event),
            Event::Overflowed { .. } => self.on_overflowed(world, node, event),
            Event::Unlinked { req, user, failure, .. } => {
                self.on_unlinked(world, node, req, user, failure)
            }
            // Of copied sends the books hold only that they arrive once at most.
            Event::Lost { .. } => {}
            Event::Joined { peer } => self.on_joined(world, node, peer),
            Event::Left { peer, reason } => self.on_left(world, node, peer, reason),
            Event::Closed { clean } => self.on_closed(node, clean),
            Event::Operated { req, user, peer, result, .. } => {
                self.on_operated(world, node, (req, user, peer), result);
            }
            // No region of the simulator's tells of all.
            Event::Used { .. } => {}
            Event::Written { user, peer, offset, len, immediate, .. } => {
                self.on_written(world, node, Told { user, peer, offset, len, immediate });
            }
        }
    }

    fn on_closed(&mut self, node: u8, clean: bool) {
        let standing = &mut self.standings[usize::from(node)];
        if !standing.is_leaving || standing.closed.is_some() {
            return self.violation(format!("node {node}: Closed without close, or twice"));
        }
        standing.closed = Some(clean);
        if clean && standing.gave_up {
            self.violation(format!("node {node} closed clean, but gave sends up"));
        }
        if !clean && self.ends_well {
            self.violation(format!("node {node} did not close clean, but all was well"));
        }
    }

    /// A peer can join only if it is not there.
    fn on_joined(&mut self, world: &mut World, node: u8, peer: PeerId) {
        let Some(other) = world.node_of(NodeId(node.into()), peer) else {
            return self
                .violation(format!("node {node} was joined by {peer:?}, whom nobody knows"));
        };
        let together = &mut self.standings[usize::from(node)].together;
        let bit = 1 << other.0;
        if std::mem::replace(together, *together | bit) & bit != 0 {
            self.violation(format!("node {node} was joined by node {} twice", other.0));
        }
    }

    fn on_left(&mut self, world: &mut World, node: u8, peer: PeerId, reason: Option<GoneReason>) {
        let Some(other) = world.node_of(NodeId(node.into()), peer) else {
            return self.violation(format!("node {node} lost {peer:?}, whom nobody knows"));
        };
        self.standings[usize::from(node)].together &= !(1 << other.0);
        let Some(reason) = reason else { return };
        let other = other.0 as u8;
        let pair = self.pair(node, other);
        self.broken[pair] = true;
        if self.needs_reason(node, other) && !self.standings[usize::from(other)].is_leaving {
            self.violation(format!(
                "node {node} lost node {other} ({reason:?}), but nothing happened to it"
            ));
        }
    }

    fn on_sent(&mut self, world: &mut World, node: u8, event: Event) {
        let Event::Sent { req, user, peer, placed_len, result } = event else { return };
        let Some(Some(message)) = self.messages.get_mut(user as usize) else {
            return self.violation(format!("node {node}: Sent for #{user}, which is no send"));
        };
        let to = world.node_of(NodeId(node.into()), peer);
        let is_ours =
            (message.from, message.req) == (node, req) && to == Some(NodeId(message.to.into()));
        if !is_ours || message.how == How::Copied {
            return self.violation(format!(
                "node {node}: Sent for send #{user} of another request or peer"
            ));
        }
        if let Some(before) = message.result {
            return self
                .violation(format!("send #{user} ended twice: {before:?}, then {result:?}"));
        }
        let to = message.to;
        (message.result, message.told_len) = (Some(result), placed_len);
        if !message.cancelled {
            world.memory(NodeId(node.into())).end(message.buf.expect("in place"));
        }
        let cancelled = message.cancelled;
        if cancelled != (result == Err(Failure::Cancelled)) {
            self.violation(format!("send #{user}: cancelled is {cancelled}, result {result:?}"));
        }
        if let Err(failure) = result {
            self.failed_count += 1;
            self.standings[usize::from(node)].gave_up |= failure == Failure::Closing;
            if self.needs_reason(node, to)
                && !matches!(failure, Failure::Cancelled | Failure::CancelledByPeer)
            {
                self.violation(format!(
                    "send #{user} failed ({failure:?}), but nothing happened to its peer"
                ));
            }
        }
    }

    /// The open receive an event speaks of.
    fn receive_of(&mut self, node: u8, req: ReqId, user: u64, what: &str) -> Option<u32> {
        let found = self.receives.get(user as usize).and_then(Option::as_ref);
        let wrong = match found {
            None => "which is no receive",
            Some(receive) if (receive.node, receive.req) != (node, req) => "of another request",
            Some(receive) if receive.ended.is_some() => "which has ended",
            Some(_) => return Some(user as u32),
        };
        self.violation(format!("node {node}: {what} for #{user}, {wrong}"));
        None
    }

    pub(super) fn receive(&self, label: u32) -> &Receive {
        self.receives[label as usize].as_ref().expect("a receive")
    }

    pub(super) fn receive_mut(&mut self, label: u32) -> &mut Receive {
        self.receives[label as usize].as_mut().expect("a receive")
    }

    /// The number an envelope shows.
    pub(crate) fn named(&self, envelope: &Envelope) -> Option<u32> {
        let by_tag = self.is_named_by_tag.then_some((envelope.tag.0 >> NAME_SHIFT) as u32);
        by_tag.or(envelope.immediate.map(|number| number as u32))
    }

    fn on_received(&mut self, world: &mut World, node: u8, event: Event) {
        let Event::Received { req, user, envelope, offset, placed_len, result } = event else {
            return;
        };
        let Some(label) = self.receive_of(node, req, user, "Received") else { return };
        let source = world.node_of(NodeId(node.into()), envelope.source).map(|it| it.0 as u8);
        let (at, memory) = (self.clock, world.memory(NodeId(node.into())));
        let receive = self.receive_mut(label);
        receive.took_count += 1;
        if !receive.is_many {
            receive.ended = Some(at);
        }
        if receive.cancelled.is_some() {
            return self.on_swallowed(world, node, label, &envelope, result);
        }
        let (buf, cap) = (receive.buf, receive.cap);
        let id = self.named(&envelope).or_else(|| memory.named(buf, offset, placed_len));
        if result.is_ok() {
            let room =
                if self.receive(label).is_header_only { 0 } else { cap.saturating_sub(offset) };
            if placed_len != envelope.len.min(room) {
                self.violation(format!(
                    "receive #{label}: {placed_len} bytes of {} placed in {room}",
                    envelope.len
                ));
            }
            let Some(id) = id else {
                return self.violation(format!(
                    "receive #{label} got bytes that are no message: {envelope:?}"
                ));
            };
            if let Err(what) = memory.verify(buf, offset, placed_len, id) {
                self.violation(format!("receive #{label}: {what}"));
            }
            if !self.receive(label).is_many
                && let Err(what) = memory.verify_blank(buf, placed_len, cap - placed_len)
            {
                self.violation(format!("receive #{label}: {what}"));
            }
        } else if source.is_none_or(|source| self.needs_reason(node, source))
            && self.nobody_may_go
            && !matches!(result, Err(Failure::CancelledByPeer | Failure::Cancelled))
        {
            self.violation(format!(
                "receive #{label} broke off ({result:?}), but nothing happened to its peer"
            ));
        }
        if !self.receive(label).is_many {
            memory.end(buf);
        }
        // An overflow entry that ends with a message in it says so beside the receive that had claimed the message.
        let is_second_word = self.receive(label).is_overflow && result.is_err();
        if let (Some(id), false) = (id, is_second_word) {
            let is_whole = result.is_ok();
            if is_whole {
                self.check_end(world, node, id, &self.receive(label).clone());
            }
            let taken = self.taken(node, label, offset, placed_len, is_whole);
            self.take(world, node, id, &envelope, taken);
        }
    }

    /// A receive was cancelled while a message arrived into it: that one is gone.
    fn on_swallowed(
        &mut self,
        world: &mut World,
        node: u8,
        label: u32,
        envelope: &Envelope,
        result: Result<(), Failure>,
    ) {
        if result != Err(Failure::Cancelled) {
            self.violation(format!("receive #{label} was cancelled and then received: {result:?}"));
        }
        if self.receive(label).is_overflow {
            return; // its claimant, if there was one, has its own event; else `may_be_swallowed` knows
        }
        match self.named(envelope) {
            Some(id) => {
                let taken = self.taken(node, label, 0, 0, false);
                self.take(world, node, id, envelope, taken);
            }
            None => self.swallowed.push((node, *envelope)),
        }
    }

    fn on_overflowed(&mut self, world: &mut World, node: u8, event: Event) {
        let Event::Overflowed { req, user, envelope, overflow_user, offset, placed_len } = event
        else {
            return;
        };
        let Some(label) = self.receive_of(node, req, user, "Overflowed") else { return };
        let at = self.clock;
        let receive = self.receive_mut(label);
        receive.took_count += 1;
        let (buf, is_many, is_overflow) = (receive.buf, receive.is_many, receive.is_overflow);
        if !is_many {
            receive.ended = Some(at);
        }
        if is_overflow {
            return self.violation(format!("overflow entry #{label} took from an overflow entry"));
        }
        let Some(Some(entry)) = self.receives.get(overflow_user as usize) else {
            return self.violation(format!("receive #{label}: no overflow entry #{overflow_user}"));
        };
        let (entry_buf, entry_cap) = (entry.buf, entry.cap);
        let memory = world.memory(NodeId(node.into()));
        if !is_many {
            if let Err(what) = memory.verify_blank(
                buf,
                0,
                self.receives[label as usize].as_ref().map_or(0, |r| r.cap),
            ) {
                self.violation(format!("receive #{label}, message in overflow: {what}"));
            }
            memory.end(buf);
        }
        if placed_len != envelope.len.min(entry_cap.saturating_sub(offset)) {
            self.violation(format!(
                "overflow #{overflow_user}: {placed_len} bytes of {} at {offset}",
                envelope.len
            ));
        }
        let Some(id) =
            self.named(&envelope).or_else(|| memory.named(entry_buf, offset, placed_len))
        else {
            return; // the entry's memory was taken back meanwhile, and the envelope alone does not tell
        };
        if let Err(what) = memory.verify(entry_buf, offset, placed_len, id) {
            self.violation(format!("overflow #{overflow_user}: {what}"));
        }
        let offset = if is_many { Taken::NO_OFFSET } else { 0 };
        let taken = self.taken(node, label, offset, placed_len, true);
        self.take(world, node, id, &envelope, taken);
    }

    /// What a node took, in its life now.
    pub(crate) fn taken(
        &self,
        node: u8,
        receive: u32,
        offset: u64,
        placed_len: u64,
        is_whole: bool,
    ) -> Taken {
        let life = self.standings[usize::from(node)].life;
        Taken { receive, offset, placed_len, life, is_whole }
    }

    /// A message was received: is it one of ours, for this node, whole, admitted, and the first time?
    pub(crate) fn take(
        &mut self,
        world: &mut World,
        node: u8,
        id: u32,
        envelope: &Envelope,
        taken: Taken,
    ) {
        let source =
            world.node_of(NodeId(node.into()), envelope.source).map(|source| source.0 as u8);
        let label = taken.receive;
        let wanted = self.receive(label).wanted;
        let Some(Some(message)) = self.messages.get_mut(id as usize) else {
            return self
                .violation(format!("receive #{label} got message #{id}, which nobody sent"));
        };
        let seen =
            (node, source, envelope.space.0, envelope.tag.0, envelope.immediate, envelope.len);
        let meant = (
            message.to,
            Some(message.from),
            message.space,
            message.tag,
            message.immediate,
            message.len,
        );
        let admitted = wanted.admits(message.space, message.tag, message.from);
        let before = message.taken.replace(taken);
        if seen != meant {
            self.violation(format!(
                "receive #{label} got message #{id} as {seen:?}, sent as {meant:?}"
            ));
        }
        if !admitted {
            self.violation(format!(
                "receive #{label} does not admit message #{id}: {wanted:?}, {meant:?}"
            ));
        }
        if let Some(before) = before {
            self.violation(format!(
                "message #{id} was received twice: by #{} and #{label}",
                before.receive
            ));
        }
        if taken.is_whole {
            self.whole_count += 1;
        }
    }

    fn on_unlinked(
        &mut self,
        world: &mut World,
        node: u8,
        req: ReqId,
        user: u64,
        failure: Option<Failure>,
    ) {
        let Some(label) = self.receive_of(node, req, user, "Unlinked") else { return };
        let at = self.clock;
        let is_leaving = self.standings[usize::from(node)].is_leaving;
        let source = self.receive(label).wanted.source;
        let nobody_may_go =
            self.nobody_may_go && self.adversary.is_none_or(|it| source != Some(it));
        let receive = self.receive_mut(label);
        receive.ended = Some(at);
        let is_cancelled = receive.cancelled.is_some();
        let sound = match failure {
            None => (receive.is_many || receive.is_overflow) && !is_cancelled,
            Some(Failure::Cancelled) => is_cancelled,
            Some(Failure::Closing) => is_leaving && !is_cancelled,
            Some(Failure::Gone(_)) => {
                receive.wanted.source.is_some() && !is_cancelled && !nobody_may_go
            }
            Some(_) => !is_cancelled && !nobody_may_go,
        };
        if !is_cancelled {
            let buf = receive.buf;
            world.memory(NodeId(node.into())).end(buf);
        }
        if !sound {
            self.violation(format!("receive #{label} ended without reason: {failure:?}"));
        }
    }
}
