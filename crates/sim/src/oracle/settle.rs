//! What must have happened to a message, and when it may be missing.

use packhorse_proto::Envelope;

use super::{Message, Oracle, Receive, Standing, order};
use crate::scenario::How;

impl Oracle {
    /// Whether everything that must happen to a message has happened. `strictly`: also where an exception might apply.
    fn is_settled(&self, message: &Message, strictly: bool) -> bool {
        let is_beset = self.is_beset(message.from, message.to);
        if is_beset || !self.is_same_life(message.from, message.from_life) {
            return true;
        }
        if message.how != How::Copied {
            match message.result {
                None => return false,
                Some(Err(_)) => return true,
                Some(Ok(())) => {}
            }
        }
        message.taken.is_some()
            || self.may_be_lost(message)
            || !strictly && self.may_be_swallowed(message)
    }

    /// The receiver died or left since, or a copied message met the end of its association.
    fn may_be_lost(&self, message: &Message) -> bool {
        let to = &self.standings[usize::from(message.to)];
        let receiver_left = to.life != message.to_life || to.is_leaving;
        let sender = &self.standings[usize::from(message.from)];
        let lost_copy = message.how == How::Copied
            && (self.broken[self.pair(message.from, message.to)] || sender.closed == Some(false));
        let forgotten = |&(node, other, at): &(u8, u8, u64)| {
            (node, other) == (message.to, message.from) && message.posted < at
        };
        receiver_left || lost_copy || self.forgets.iter().any(forgotten)
    }

    /// A receive that might have had this message was cancelled after it was sent: an entry for many, which does not
    /// say what it swallowed, or one that did in words that fit this message.
    fn may_be_swallowed(&self, message: &Message) -> bool {
        let like = |(node, envelope): &(u8, Envelope)| {
            let meant = (message.to, message.space, message.tag, message.immediate, message.len);
            (*node, envelope.space.0, envelope.tag.0, envelope.immediate, envelope.len) == meant
        };
        let with_entry = |receive: &Receive| {
            receive.node == message.to
                && (receive.is_many || receive.is_overflow)
                && receive.cancelled.is_some_and(|at| at > message.posted)
                && receive.wanted.admits(message.space, message.tag, message.from)
        };
        self.swallowed.iter().any(like) || self.receives.iter().flatten().any(with_entry)
    }

    /// Whether every message has come to its end; `strictly` as above.
    pub(crate) fn all_settled(&mut self, strictly: bool) -> bool {
        while let Some(&label) = self.waiting.last() {
            let message = self.messages[label as usize].as_ref().expect("posted");
            if !self.is_settled(message, strictly) {
                return false;
            }
            self.waiting.pop();
        }
        !self.open_operations().any(|it| !self.is_beset(it.from, it.to))
    }

    /// Who still waits for what.
    pub(crate) fn unsettled(&self) -> Vec<String> {
        let messages =
            self.waiting.iter().filter_map(|&label| self.messages[label as usize].as_ref());
        let open = messages.filter(|message| !self.is_settled(message, false));
        let operations = self.open_operations().filter(|it| !self.is_beset(it.from, it.to));
        let operations = operations.map(|it| format!("{it:?}"));
        operations.chain(open.map(|message| {
            let (event, taken) = (message.result, message.taken.is_some());
            format!(
                "message #{} {}→{} space {} tag {:#x} {} bytes {:?}: event {event:?}, received {taken}",
                message.label, message.from, message.to, message.space, message.tag, message.len, message.how
            )
        }))
        .collect()
    }

    /// Everything has come to rest: what is cancelled from now on was free all the time.
    pub(crate) fn on_quiet(&mut self) {
        self.quiet_since = self.tick();
        self.ends_well = self.nobody_may_go && self.adversary.is_none() && self.is_nobody_lost();
    }

    /// Whether everybody who ever was is there, and nobody lost another; but for the adversary.
    pub(crate) fn is_nobody_lost(&self) -> bool {
        let is_first_life = |standing: &Standing| standing.life == 0 && !standing.is_leaving;
        let nodes = (0..self.standings.len() as u8).filter(|&node| self.adversary != Some(node));
        nodes.clone().all(|node| is_first_life(&self.standings[usize::from(node)]))
            && !nodes.clone().any(|a| nodes.clone().any(|b| self.broken[self.pair(a, b)]))
    }

    /// Receives of living nodes that have not ended.
    pub(crate) fn open_receives(&self) -> Vec<u32> {
        let open = |receive: &&Receive| {
            receive.ended.is_none()
                && receive.cancelled.is_none()
                && self.is_same_life(receive.node, receive.life)
        };
        self.receives.iter().flatten().filter(open).map(|receive| receive.label).collect()
    }

    /// A sender that waits for the match is told what its receiver took (PROTOCOL §8.6); another that, or that all was taken.
    fn told_wrongly(message: &Message) -> Option<String> {
        let taken = message.taken.filter(|taken| taken.is_whole)?;
        message.result?.ok()?;
        let is_all_said = message.how != How::Matched && message.told_len == message.len;
        (message.told_len != taken.placed_len && !is_all_said).then(|| {
            format!(
                "message #{}: its receiver took {} bytes, its sender was told {}",
                message.label, taken.placed_len, message.told_len
            )
        })
    }

    /// Everything is over: what is missing, and was the order right?
    pub(crate) fn finish(&mut self) {
        let mut wrong = Vec::new();
        for message in self.messages.iter().flatten() {
            if !self.is_settled(message, false) {
                wrong.push(format!(
                    "message #{} was lost: {:?} {:?}",
                    message.label, message.how, message.result
                ));
            }
            if self.is_beset(message.from, message.to) {
                continue;
            }
            if let (Some(taken), Some(Ok(()))) = (&message.taken, message.result)
                && !taken.is_whole
                && self.receive(taken.receive).cancelled.is_none()
                && self.standings[usize::from(message.to)].closed.is_none()
            {
                wrong.push(format!(
                    "message #{} was reported well and broke off at its receiver",
                    message.label
                ));
            }
            wrong.extend(Self::told_wrongly(message));
        }
        for receive in self.receives.iter().flatten() {
            let is_asked = self.adversary != Some(receive.node);
            if is_asked && receive.ended.is_none() && self.is_same_life(receive.node, receive.life)
            {
                wrong.push(format!("receive #{} never ended", receive.label));
            }
        }
        wrong.extend(
            self.open_operations()
                .filter(|it| self.adversary != Some(it.from))
                .map(|it| format!("operation #{} never ended", it.label)),
        );
        wrong.extend(order::check(self));
        wrong.into_iter().for_each(|what| self.violation(what));
    }
}
