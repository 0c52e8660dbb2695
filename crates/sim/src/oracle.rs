//! What must be true, whatever the network does.
//!
//! The oracle sees what the applications see, their calls and events, and nothing of the protocol. It knows each
//! message by the number in its tag, immediate or payload and holds against the books:
//!
//! - every request ends exactly once, with the event its kind has, and not before its time;
//! - a message is received at most once, by a receive that admits it, with its own envelope and bytes;
//! - a send reported well is received (unless its receiver died, left or cancelled the receive that had it), a copied
//!   one too while nobody on either side lost the other;
//! - its sender is told how many bytes the receiver took, if it waits for the match;
//! - messages are matched in MPI order (`order`);
//! - their ends are told in order, where that is asked for (`ends`);
//! - one-sided operations happen once, in order, where they may (`operations`);
//! - nothing fails without a reason in the scenario.
//!
//! What it learns too late to say at once it says in `finish`.

use packhorse_link::sim::NodeId;
use packhorse_proto::{BufId, Envelope, Failure, ReqId};

use crate::scenario::{How, NAME_MASK, NAME_SHIFT, Wanted};
use crate::world::World;

mod ends;
mod events;
mod operations;
mod order;
mod settle;

use ends::Ends;
pub(crate) use operations::Operation;

/// Violations kept; the first is the one that matters.
const VIOLATION_COUNT_MAX: usize = 10;

/// A send, as it was posted and as it ended.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) label: u32,
    pub(crate) from: u8,
    pub(crate) from_life: u32,
    pub(crate) to: u8,
    pub(crate) to_life: u32,
    pub(crate) space: u8,
    /// As sent, number included.
    pub(crate) tag: u64,
    pub(crate) immediate: Option<u64>,
    pub(crate) len: u64,
    pub(crate) how: How,
    pub(crate) buf: Option<BufId>,
    pub(crate) req: ReqId,
    pub(crate) posted: u64,
    pub(crate) cancelled: bool,
    pub(crate) result: Option<Result<(), Failure>>,
    /// Bytes that its receiver took, as its sender is told.
    pub(crate) told_len: u64,
    pub(crate) taken: Option<Taken>,
}

/// How a message was received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// By which receive or claim.
    pub(crate) receive: u32,
    /// Where in its memory, as the event says: 0 too where it broke off in an overflow entry.
    pub(crate) offset: u64,
    /// Bytes that it took.
    pub(crate) placed_len: u64,
    /// In which life of the receiver.
    pub(crate) life: u32,
    /// Whole, not broken off by its sender.
    pub(crate) is_whole: bool,
}

impl Taken {
    /// Instead of an offset: taken by an entry for many from an overflow entry, so its memory does not show the order.
    pub(crate) const NO_OFFSET: u64 = u64::MAX;
}

/// A receive or claim.
#[derive(Clone, Debug)]
pub(crate) struct Receive {
    pub(crate) label: u32,
    pub(crate) node: u8,
    pub(crate) life: u32,
    pub(crate) wanted: Wanted,
    pub(crate) cap: u64,
    pub(crate) is_overflow: bool,
    pub(crate) is_many: bool,
    pub(crate) is_header_only: bool,
    /// Of a claimed message: served as it was made.
    pub(crate) is_claim: bool,
    pub(crate) buf: BufId,
    pub(crate) req: ReqId,
    pub(crate) posted: u64,
    pub(crate) cancelled: Option<u64>,
    pub(crate) ended: Option<u64>,
    pub(crate) took_count: u32,
}

/// What the oracle knows of a node.
#[derive(Clone, Debug, Default)]
struct Standing {
    life: u32,
    /// Closing, closed or dead in this life.
    is_leaving: bool,
    closed: Option<bool>,
    is_dead: bool,
    /// Nodes it is joined with, a bit for each.
    together: u64,
    /// A send ended because the node closed before it was accepted.
    gave_up: bool,
}

/// The books.
#[derive(Debug)]
pub(crate) struct Oracle {
    /// Counts calls and events: the order of everything.
    clock: u64,
    is_named_by_tag: bool,
    /// Losing a peer needs a reason: there is none in this scenario.
    nobody_may_go: bool,
    /// Nothing is promised between this node and the others but that nothing wrong is delivered.
    adversary: Option<u8>,
    pub(crate) messages: Vec<Option<Message>>,
    pub(crate) receives: Vec<Option<Receive>>,
    operations: Vec<Option<Operation>>,
    /// Labels of operations in the order of their posts.
    operation_order: Vec<u32>,
    /// Labels of messages in the order of their posts.
    pub(crate) post_order: Vec<u32>,
    standings: Vec<Standing>,
    /// Pairs whose association broke, by number of the lower node × count + the higher.
    broken: Vec<bool>,
    /// Who forgot whom, and when.
    forgets: Vec<(u8, u8, u64)>,
    /// Messages that may not be settled yet.
    waiting: Vec<u32>,
    violations: Vec<String>,
    ends: Ends,
    /// Envelopes of messages that went with a cancelled receive, where they do not name the message.
    swallowed: Vec<(u8, Envelope)>,
    /// When everything had come to rest; `u64::MAX` before.
    pub(crate) quiet_since: u64,
    /// And nobody had lost anybody, nor had a reason to.
    ends_well: bool,
    pub(crate) whole_count: u64,
    pub(crate) failed_count: u64,
}

impl Oracle {
    /// Empty books.
    pub(crate) fn new(
        node_count: usize,
        label_count: u32,
        is_named_by_tag: bool,
        nobody_may_go: bool,
    ) -> Self {
        Self {
            clock: 0,
            is_named_by_tag,
            nobody_may_go,
            adversary: None,
            messages: vec![None; label_count as usize],
            receives: vec![None; label_count as usize],
            operations: Vec::new(),
            operation_order: Vec::new(),
            post_order: Vec::new(),
            standings: vec![Standing::default(); node_count],
            broken: vec![false; node_count * node_count],
            forgets: Vec::new(),
            waiting: Vec::new(),
            violations: Vec::new(),
            ends: Ends::default(),
            swallowed: Vec::new(),
            quiet_since: u64::MAX,
            ends_well: false,
            whole_count: 0,
            failed_count: 0,
        }
    }

    /// This node keeps to the letter of the rules only.
    pub(crate) fn distrust(&mut self, node: u8) {
        self.adversary = Some(node);
    }

    /// Whether the adversary is one of two.
    fn is_beset(&self, a: u8, b: u8) -> bool {
        self.adversary.is_some_and(|adversary| [a, b].contains(&adversary))
    }

    /// Whether one of two that loses the other, or a message on the way, needs a reason, and the scenario has none.
    fn needs_reason(&self, a: u8, b: u8) -> bool {
        self.nobody_may_go && !self.is_beset(a, b)
    }

    /// Requests of the others that are open and that only the adversary could end.
    pub(crate) fn open_with(&self, adversary: u8) -> Vec<u32> {
        let sends = self.messages.iter().flatten().filter(|message| {
            let is_open = message.result.is_none() && message.how != How::Copied;
            is_open && !message.cancelled && message.to == adversary
        });
        let operations = self.open_operations().filter(|it| it.to == adversary && !it.cancelled);
        let labels = sends.map(|message| (message.from, message.label));
        let labels = labels.chain(operations.map(|it| (it.from, it.label)));
        labels.filter(|&(from, _)| from != adversary).map(|(_, label)| label).collect()
    }

    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(crate) fn violation(&mut self, what: String) {
        if self.violations.len() < VIOLATION_COUNT_MAX {
            self.violations.push(what);
        }
    }

    /// What was wrong so far.
    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
    }

    pub(crate) fn into_violations(self) -> Vec<String> {
        self.violations
    }

    /// A send was posted.
    pub(crate) fn on_send(&mut self, mut message: Message) {
        message.posted = self.tick();
        let label = message.label;
        self.post_order.push(label);
        self.waiting.push(label);
        let index = label as usize;
        if self.messages.len() <= index {
            self.messages.resize(index + 1, None);
        }
        self.messages[index] = Some(message);
    }

    /// A receive was posted, or a claim made.
    pub(crate) fn on_post(&mut self, mut receive: Receive) {
        receive.posted = self.tick();
        let index = receive.label as usize;
        if self.receives.len() <= index {
            self.receives.resize(index + 1, None);
        }
        self.receives[index] = Some(receive);
    }

    /// A request that has ended, or never was, needs no cancel.
    pub(crate) fn is_open(&self, label: u32) -> Option<(u8, ReqId)> {
        let index = label as usize;
        if let Some(message) = self.messages.get(index).and_then(Option::as_ref) {
            let alive = self.is_same_life(message.from, message.from_life);
            return (alive && message.how != How::Copied).then_some((message.from, message.req));
        }
        if let Some(Some(operation)) = self.operations.get(index) {
            let alive = self.is_same_life(operation.from, operation.from_life);
            return alive.then_some((operation.from, operation.req));
        }
        let receive = self.receives.get(index)?.as_ref()?;
        self.is_same_life(receive.node, receive.life).then_some((receive.node, receive.req))
    }

    /// `cancel` was called and said whether the request was still there. All events until now were seen, so it is there
    /// if and only if it has not ended; and then its memory is the application's again.
    pub(crate) fn on_cancel(&mut self, world: &mut World, label: u32, was_there: bool) {
        let at = self.tick();
        let index = label as usize;
        let (node, buf, is_open) = if let Some(Some(message)) = self.messages.get_mut(index) {
            message.cancelled |= was_there;
            (message.from, message.buf, message.result.is_none())
        } else if let Some(Some(operation)) = self.operations.get_mut(index) {
            operation.cancelled |= was_there;
            (operation.from, operation.buf, operation.result.is_none())
        } else if let Some(Some(receive)) = self.receives.get_mut(index) {
            receive.cancelled = receive.cancelled.or(was_there.then_some(at));
            (receive.node, Some(receive.buf), receive.ended.is_none())
        } else {
            return;
        };
        if was_there != is_open {
            self.violation(format!(
                "cancel of #{label} found it {was_there}, but it was open: {is_open}"
            ));
        }
        if let (true, Some(buf)) = (was_there, buf) {
            world.memory(NodeId(node.into())).end(buf);
        }
    }

    /// A cancelled request must have ended by now.
    pub(crate) fn has_ended(&self, label: u32) -> bool {
        let index = label as usize;
        let message = self.messages.get(index).and_then(Option::as_ref);
        let receive = self.receives.get(index).and_then(Option::as_ref);
        let operation = self.operations.get(index).and_then(Option::as_ref);
        message.is_none_or(|message| message.result.is_some())
            && operation.is_none_or(|operation| operation.result.is_some())
            && receive.is_none_or(|receive| receive.ended.is_some())
    }

    /// A node died; requests of its life end without events.
    pub(crate) fn on_kill(&mut self, node: u8) {
        let standing = &mut self.standings[usize::from(node)];
        (standing.is_leaving, standing.is_dead) = (true, true);
        self.tick();
    }

    /// A node lives again.
    pub(crate) fn on_revive(&mut self, node: u8) {
        let standing = &mut self.standings[usize::from(node)];
        *standing = Standing { life: standing.life + 1, ..Standing::default() };
        self.tick();
    }

    /// A node forgets another: what it holds of its messages goes too.
    pub(crate) fn on_forget(&mut self, node: u8, other: u8) {
        let (at, pair) = (self.tick(), self.pair(node, other));
        self.broken[pair] = true;
        self.forgets.push((node, other, at));
    }

    /// A node begins to close.
    pub(crate) fn on_close(&mut self, node: u8) {
        self.standings[usize::from(node)].is_leaving = true;
        self.tick();
    }

    /// Whether a node takes posts: neither dead nor closing.
    pub(crate) fn is_working(&self, node: u8) -> bool {
        !self.standings[usize::from(node)].is_leaving
    }

    /// Whether a node has closed in its present life.
    pub(crate) fn is_closed(&self, node: u8) -> bool {
        self.standings[usize::from(node)].closed.is_some()
    }

    /// Whether a node died and has not come back.
    pub(crate) fn is_dead(&self, node: u8) -> bool {
        self.standings[usize::from(node)].is_dead
    }

    /// A claimed message was discarded.
    pub(crate) fn end_claim(&mut self, label: u32) {
        let at = self.tick();
        self.receive_mut(label).ended = Some(at);
    }

    /// Whether a receive was posted, not claimed.
    pub(crate) fn is_posted(&self, label: u32) -> bool {
        let receive = self.receives.get(label as usize).and_then(Option::as_ref);
        receive.is_some_and(|receive| !receive.is_claim)
    }

    fn is_same_life(&self, node: u8, life: u32) -> bool {
        let standing = &self.standings[usize::from(node)];
        standing.life == life && !standing.is_dead
    }

    fn pair(&self, a: u8, b: u8) -> usize {
        usize::from(a.min(b)) * self.standings.len() + usize::from(a.max(b))
    }

    /// The tag a message with this label has.
    pub(crate) fn tag(is_named_by_tag: bool, label: u32, tag: u64) -> u64 {
        if is_named_by_tag { tag & !NAME_MASK | u64::from(label) << NAME_SHIFT } else { tag }
    }
}
