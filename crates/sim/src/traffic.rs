//! The application's part of a scenario: who sends what to whom, and how it is received.
//!
//! A few flows, each of one kind (scattered messages, a flood, many to one, a ring), share the run. Most messages get
//! a receive of their own somewhere around the time of the send, often one that others may take too; what nobody asked
//! for is drained in the end.

use packhorse_link::sim::Rng;

use crate::draw::{Frame, PERCENT};
use crate::pattern::NAME_LEN;
use crate::scenario::{Action, How, NAME_MASK, Recv, Send, Step, Then, Wanted};

/// Bits an MPI library would use for its tag; the rest below `NAME_SHIFT` are context and rank.
const TAG_MASK: u64 = 0xF_FFFF;
const RANK_SHIFT: u32 = 20;
const RANK_MASK: u64 = 0xFFF << RANK_SHIFT;

/// Habits of the applications of one scenario.
#[derive(Debug)]
struct Habits {
    spaces: u8,
    tags: u64,
    /// Bytes all messages together may have; then they become small.
    budget: u64,
    /// Percent of messages that are large.
    bulk: u32,
    len_max: u64,
    /// Percent of messages with a receive of their own.
    asked: u32,
    /// Percent of requests that are cancelled.
    cancelled: u32,
    /// Percent of receives without source, and without tag.
    any_source: u32,
    any_tag: u32,
    /// Percent of receives that look first.
    claimed: u32,
    /// Percent of receives that are entries for many messages, and envelope only.
    many: u32,
    header_only: u32,
    /// Percent of receives too short.
    short: u32,
    /// Percent of sends copied, of the others until matched.
    copied: u32,
    matched: u32,
    to_self: u32,
    overflow: bool,
}

/// Makes steps.
struct Drawer<'a> {
    rng: Rng,
    frame: &'a Frame,
    habits: Habits,
    steps: Vec<Step>,
    next_label: u32,
}

/// The traffic of a scenario.
pub(crate) fn draw(root: &Rng, frame: &Frame) -> Vec<Step> {
    let mut rng = root.fork("traffic");
    let habits = draw_habits(&mut rng, frame);
    let mut drawer = Drawer { rng, frame, habits, steps: Vec::new(), next_label: 0 };
    drawer.draw_entries();
    let count = match drawer.rng.below(100) {
        0..10 => drawer.rng.range(10..=150),
        10..85 => drawer.rng.range(200..=290),
        _ => drawer.rng.range(290..=900),
    };
    let flows = drawer.rng.range(1..=3);
    for _ in 0..flows {
        drawer.draw_flow(count / flows);
    }
    drawer.steps
}

fn draw_habits(rng: &mut Rng, frame: &Frame) -> Habits {
    let bulk = *rng.pick(&[0, 0, 1, 1, 2, 5, 20]);
    let is_huge = rng.chance(PERCENT);
    Habits {
        spaces: rng.range(1..=3) as u8,
        tags: rng.range(1..=6),
        budget: if is_huge { 8 << 20 } else { *rng.pick(&[50_000, 200_000, 400_000, 1_500_000]) },
        bulk,
        len_max: if is_huge { 4 << 20 } else { 300_000 },
        asked: *rng.pick(&[0, 50, 80, 95]),
        cancelled: *rng.pick(&[0, 0, 1, 5, 20]),
        any_source: *rng.pick(&[0, 10, 50]),
        any_tag: *rng.pick(&[0, 10, 50]),
        claimed: *rng.pick(&[0, 10, 30]),
        many: *rng.pick(&[0, 0, 0, 5]),
        header_only: if frame.is_named_by_tag { *rng.pick(&[0, 0, 5]) } else { 0 },
        short: *rng.pick(&[0, 5, 20]),
        copied: *rng.pick(&[0, 30, 60, 100]),
        matched: *rng.pick(&[0, 20, 50]),
        to_self: *rng.pick(&[0, 0, 5]),
        overflow: rng.chance(12 * PERCENT),
    }
}

impl Drawer<'_> {
    fn chance(&mut self, percent: u32) -> bool {
        self.rng.chance(percent * PERCENT)
    }

    fn label(&mut self) -> u32 {
        self.next_label += 1;
        self.next_label - 1
    }

    fn node(&mut self) -> u8 {
        self.rng.below(u64::from(self.frame.node_count)) as u8
    }

    fn other(&mut self, than: u8) -> u8 {
        if self.habits.to_self > 0 && self.chance(self.habits.to_self) {
            return than;
        }
        let step = self.rng.range(1..=u64::from(self.frame.node_count) - 1) as u8;
        (than + step) % self.frame.node_count
    }

    fn push(&mut self, at_ns: u64, node: u8, action: Action) {
        self.steps.push(Step { at_ns: at_ns.min(self.frame.horizon_ns), node, action });
    }

    /// Entries that stay for many messages, posted early.
    fn draw_entries(&mut self) {
        if !self.habits.overflow {
            return;
        }
        for node in 0..self.frame.node_count {
            for space in 0..self.habits.spaces {
                let at_ns = self.rng.below(self.frame.horizon_ns / 4 + 1);
                let (label, cap) = (self.label(), self.rng.range(4 << 10..=48 << 10));
                let recv = Recv {
                    label,
                    wanted: Wanted::anything(space),
                    cap,
                    segments: 1,
                    is_overflow: true,
                    many_free_min: self.chance(80).then(|| self.rng.range(NAME_LEN..=cap / 2)),
                    is_header_only: false,
                };
                self.push(at_ns, node, Action::Recv(recv));
            }
        }
    }

    fn draw_flow(&mut self, count: u64) {
        let horizon = self.frame.horizon_ns;
        let (start, kind) = (self.rng.below(horizon / 2), self.rng.below(100));
        let (a, b) = (self.node(), self.node());
        let stride = (horizon - start) / (count + 1);
        // A flood comes at once; what it floods posts late.
        let is_flood = kind < 25;
        for n in 0..count {
            let at_ns = if is_flood { start + n % 8 } else { start + stride * n };
            let (from, to) = match kind {
                0..25 => (a, if a == b { (a + 1) % self.frame.node_count } else { b }),
                25..40 => (self.other(b), b),
                40..55 => (
                    (n % u64::from(self.frame.node_count)) as u8,
                    ((n + 1) % u64::from(self.frame.node_count)) as u8,
                ),
                _ => {
                    let from = self.node();
                    (from, self.other(from))
                }
            };
            self.draw_message(at_ns, from, to, is_flood);
        }
    }

    fn draw_message(&mut self, at_ns: u64, from: u8, to: u8, is_flood: bool) {
        let send = self.draw_send(from, to, is_flood);
        let asked = self.chance(self.habits.asked);
        if asked {
            self.draw_receive(at_ns, from, &send, is_flood);
        }
        if self.chance(self.habits.cancelled) {
            let delay = self.rng.below(self.frame.horizon_ns / 4 + 1) >> self.rng.below(16);
            self.push(at_ns + delay, from, Action::Cancel { label: send.label });
        }
        self.push(at_ns, from, Action::Send(send));
    }

    fn draw_send(&mut self, from: u8, to: u8, is_flood: bool) -> Send {
        let settings = &self.frame.settings[usize::from(from)];
        let (eager_len_max, frame_len) =
            (u64::from(settings.eager_len_max), u64::from(settings.frame_len_max));
        let len =
            if is_flood { self.rng.below(65) } else { self.draw_len(eager_len_max, frame_len) };
        self.habits.budget = self.habits.budget.saturating_sub(len);
        let how = match () {
            () if len <= eager_len_max && self.chance(self.habits.copied) => How::Copied,
            () if self.chance(self.habits.matched) => How::Matched,
            () => How::Accepted,
        };
        let must_have_immediate = !self.frame.is_named_by_tag && len < NAME_LEN;
        let rank = u64::from(from) << RANK_SHIFT;
        Send {
            label: self.label(),
            to,
            space: self.rng.below(u64::from(self.habits.spaces)) as u8,
            tag: rank | self.rng.below(self.habits.tags),
            len,
            has_immediate: must_have_immediate || self.chance(30),
            how,
            segments: *self.rng.pick(&[0, 0, 0, 0, 1, 2, 5]),
        }
    }

    fn draw_len(&mut self, eager_len_max: u64, frame_len: u64) -> u64 {
        let rng = &mut self.rng;
        let small = *rng.pick(&[0, 1, 7, 8, 9, 64]);
        let len = match rng.below(100) {
            _ if rng.chance(self.habits.bulk * PERCENT) => {
                1 + (rng.below(self.habits.len_max) >> rng.below(6))
            }
            0..30 => small,
            30..65 => rng.below(257),
            65..80 => (frame_len * rng.range(1..=3)).saturating_sub(rng.below(120)),
            80..92 => (eager_len_max + 2).saturating_sub(rng.below(5)),
            _ => rng.below(12_000),
        };
        if len > self.habits.budget { small } else { len }
    }

    /// A receive meant for this message; others may take it, and it others.
    fn draw_receive(&mut self, at_ns: u64, from: u8, send: &Send, is_flood: bool) {
        let wanted = self.draw_wanted(from, send);
        let shift = self.rng.below(12);
        let apart = self.rng.below(self.frame.horizon_ns / 2 + 1) >> shift;
        let is_early = !is_flood && self.rng.chance(50 * PERCENT);
        let when = if is_early { at_ns.saturating_sub(apart) } else { at_ns + apart };
        let (label, cap) = (self.label(), self.draw_cap(send.len));
        if self.chance(self.habits.claimed) {
            let then = match self.rng.below(4) {
                0 => Then::Leave,
                1 => Then::Discard,
                _ => Then::Receive(cap),
            };
            return self.push(when, send.to, Action::Claim { label, wanted, then });
        }
        let many = self.chance(self.habits.many).then(|| self.rng.range(NAME_LEN..=500));
        let recv = Recv {
            label,
            wanted,
            cap: if many.is_some() { self.rng.range(1000..=20_000) } else { cap },
            segments: *self.rng.pick(&[1, 1, 1, 2, 4]),
            is_overflow: false,
            many_free_min: many,
            is_header_only: many.is_none() && self.chance(self.habits.header_only),
        };
        self.push(when, send.to, Action::Recv(recv));
        if self.chance(self.habits.cancelled) {
            let delay = self.rng.below(self.frame.horizon_ns / 4 + 1) >> self.rng.below(16);
            self.push(when + delay, send.to, Action::Cancel { label });
        }
    }

    /// As MPI libraries do: tag or any, source or any, some bits always ignored. What is ignored is set to anything.
    fn draw_wanted(&mut self, from: u8, send: &Send) -> Wanted {
        let named = if self.frame.is_named_by_tag { NAME_MASK } else { 0 };
        let mut ignore = named;
        let any_source = self.chance(self.habits.any_source);
        if any_source {
            ignore |= RANK_MASK;
        }
        if self.chance(self.habits.any_tag) {
            ignore |= TAG_MASK;
        }
        let noise = self.rng.next_u64() & ignore;
        let source = (!any_source).then_some(from);
        Wanted { space: send.space, tag: (send.tag & !ignore) | noise, ignore, source }
    }

    fn draw_cap(&mut self, len: u64) -> u64 {
        let least = if self.frame.is_named_by_tag { 0 } else { NAME_LEN };
        if self.chance(self.habits.short) {
            return self.rng.below(len + 1).max(least);
        }
        match self.rng.below(3) {
            0 => len.max(least),
            1 => len.max(least) + self.rng.below(100),
            _ => len.max(least) + self.rng.below(3000),
        }
    }
}
