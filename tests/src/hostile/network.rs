//! What the network, the clock and bad luck do, as the script says.

use packhorse_proto::{Instant, MS, Obstacle, SECOND};

use super::{Flying, Party, World, mallory};
use crate::script::Script;

impl World {
    /// Delivers one frame, perhaps damaged, perhaps twice, perhaps from elsewhere; or loses it.
    pub(super) fn deliver(&mut self, at: usize, script: &mut Script<'_>) {
        let party = &mut self.parties[at];
        if party.inbox.is_empty() {
            return;
        }
        let index = script.below(party.inbox.len());
        let Some(mut frame) = party.inbox.remove(index) else { return };
        let fate = script.below(8);
        match fate {
            0 => return,
            1 => party.inbox.push_back(frame.clone()),
            2 => {
                let at = usize::from(script.half()) % frame.bytes.len();
                frame.bytes[at] ^= 1 << script.below(8);
            }
            3 => frame.bytes.truncate(usize::from(script.half()) % frame.bytes.len()),
            4 => frame.from.0[20] ^= script.byte(),
            _ => {}
        }
        self.hand_over(at, &frame);
    }

    pub(super) fn deliver_all(&mut self, at: usize) {
        if self.joins {
            return self.deliver_burst(at);
        }
        for frame in std::mem::take(&mut self.parties[at].inbox) {
            self.hand_over(at, &frame);
            self.now = self.now + 1_000;
        }
    }

    /// Everything that is on its way arrives, and what that leads to sets out.
    pub(super) fn carry(&mut self) {
        for at in 0..self.parties.len() {
            self.deliver_all(at);
            self.transmit(at);
        }
    }

    pub(super) fn hand_over(&mut self, at: usize, frame: &Flying) {
        self.tell(|| format!("party {at} gets {}", self.mallory.read(&frame.bytes)));
        let Party { endpoint, ledger, .. } = &mut self.parties[at];
        endpoint.on_frame(self.now, 0, frame.from, &frame.bytes, ledger);
        self.check(at);
    }

    /// Mallory makes a frame of her own.
    pub(super) fn forge(&mut self, at: usize, script: &mut Script<'_>) {
        let from = self.parties[script.below(self.parties.len())].locator();
        let from = if script.byte() < 64 { mallory::LOCATOR } else { from };
        let Party { endpoint, .. } = &self.parties[at];
        let bytes = self.mallory.forge(&endpoint.address(), script);
        self.hand_over(at, &Flying { from, bytes });
    }

    /// Mallory makes frames that arrive as one.
    pub(super) fn forge_train(&mut self, at: usize, script: &mut Script<'_>) {
        let victim = self.parties[at].endpoint.address();
        let train = self.mallory.forge_train(&victim, script);
        self.hand_over_burst(at, &[train], true);
    }

    pub(super) fn replay(&mut self, at: usize, script: &mut Script<'_>) {
        if let Some(bytes) = self.mallory.remembered(script) {
            let from = self.parties[script.below(self.parties.len())].locator();
            self.hand_over(at, &Flying { from, bytes });
        }
    }

    pub(super) fn pass_time(&mut self, script: &mut Script<'_>) {
        let due =
            self.parties.iter().map(|party| party.endpoint.next_timeout()).min().expect("parties");
        self.now = match script.below(4) {
            0 => self.now + u64::from(script.half()) * 100,
            1 => self.now + u64::from(script.byte()) * 10 * MS,
            _ if due < Instant::NEVER => due.max(self.now),
            _ => self.now + SECOND,
        };
        self.fire();
    }

    pub(super) fn fire(&mut self) {
        for party in &mut self.parties {
            if party.endpoint.next_timeout() <= self.now {
                party.endpoint.on_timeout(self.now, &mut party.ledger);
            }
        }
    }

    /// Evidence from outside, and a restart.
    pub(super) fn misfortune(&mut self, at: usize, script: &mut Script<'_>) {
        let now = self.now;
        let other = self.parties[script.below(self.parties.len())].locator();
        self.tell(|| format!("misfortune befalls party {at}"));
        let party = &mut self.parties[at];
        match script.below(5) {
            0 => {
                let link = script.byte() & 1;
                // Whoever forges what the network says has seen frames, but not the one that is in flight now.
                let quote = self.mallory.remembered(script).unwrap_or_default();
                let obstacle = match script.below(4) {
                    0 => Obstacle::Void,
                    1 => Obstacle::Here,
                    2 => Obstacle::Way(&quote),
                    _ => Obstacle::Refused(&quote),
                };
                party.endpoint.on_unreachable(now, link, &other, obstacle);
            }
            1 => {
                let peer = party.peer(script);
                party.endpoint.on_peer_died(now, peer);
            }
            2 => {
                let peer = party.peer(script);
                party.endpoint.forget_peer(now, peer);
            }
            3 => party.endpoint.set_ack_every(u32::from(script.byte()).max(1)),
            _ => {
                *party =
                    Party::open(party.number, party.life + 1, &self.limits, &self.settings, now);
                self.introduce(at);
            }
        }
    }
}
