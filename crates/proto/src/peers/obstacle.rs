//! The network says that nobody is reached there.
//!
//! PROTOCOL §4.5. Such words come as ICMP messages that anybody can send who knows two addresses and two ports, from anywhere.
//! What nobody off the path can know is a frame of ours: its check is keyed, its numbers and ids are not to be guessed. So the
//! frame that a message quotes is compared with what is in flight:
//!
//! ```text
//!   a quote of something in flight there?  ── no ──▶ a hint: the peer is asked (a probe), seldom
//!        │ yes
//!        ├─ another path works ──▶ this one is left, and asked to prove itself
//!        ├─ no way to that host ─▶ an outage: a hint; only silence ends the association
//!        └─ refused by that host ▶ evidence: three such words, a second from the first to the last, nothing heard meanwhile
//! ```
//!
//! A stream that is refused needs no quote, for our own system asks for its proof: where no other path works, it counts as refused.
//!
//! Nothing is stored for that: the check of what is quoted is computed again with the secret we have for that peer.

use crate::base::api::{GoneReason, Obstacle};
use crate::base::limits::MS;
use crate::base::secret::Secret;
use crate::base::types::{Instant, Locator};
use crate::delivery::ack::expand;
use crate::delivery::path::Path;
use crate::peers::Peers;
use crate::peers::rows::Phase;
use crate::wire::{FORM_STRANGER, QuoteView, base_of};

/// A path is asked so often at most because of hints: whoever forges them shall not make us send.
const HINT_PAUSE_NS: u64 = 250 * MS;

/// What the word of an obstacle is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    /// Anybody may have said it.
    Hint,
    /// The frame did not go there, or did not get there: now.
    Outage,
    /// The host there refused this packet of ours.
    Refusal(u64),
    /// The link will never get there.
    End,
}

impl Peers {
    /// The link says that nobody is reached there. A reason: the association is over; contents of a path that was left are in `lost`.
    pub(crate) fn on_obstacle(
        &mut self,
        now: Instant,
        row: u32,
        (link, locator): (u8, &Locator),
        obstacle: Obstacle<'_>,
    ) -> Option<GoneReason> {
        match self.rows[row].phase {
            Phase::Hello => self.on_contact_obstacle(row, link, obstacle),
            _ => self.on_path_obstacle(now, row, (link, locator), obstacle),
        }
    }

    /// Nothing is known of the peer yet, so one word is enough: if it is our own host's, or about our own Hello.
    fn on_contact_obstacle(
        &mut self,
        row: u32,
        link: u8,
        obstacle: Obstacle<'_>,
    ) -> Option<GoneReason> {
        let is_believed = match obstacle {
            Obstacle::Void | Obstacle::Here => true,
            Obstacle::Way(quote) | Obstacle::Refused(quote) => self.is_hello_of(row, quote),
            Obstacle::Closed => false, // other links, or the next question, will tell
        };
        let is_of_host = matches!(obstacle, Obstacle::Refused(_)) && is_believed;
        let contact = &mut self.active_of_mut(row).contact;
        contact.is_refused |= is_of_host || obstacle == Obstacle::Closed;
        if !is_believed {
            return None;
        }
        // There may be other links to try.
        contact.links &= !(1 << link);
        if contact.links == 0 {
            return Some(contact.reason_or(GoneReason::Unreachable));
        }
        self.make_ready(row);
        None
    }

    fn on_path_obstacle(
        &mut self,
        now: Instant,
        row: u32,
        (link, locator): (u8, &Locator),
        obstacle: Obstacle<'_>,
    ) -> Option<GoneReason> {
        let active = self.active_of(row);
        let hit = |path: &Path| path.leads_to(link, locator) && !path.flight().is_empty();
        let index = active.paths.iter().position(hit)?;
        let worth = self.worth_of(row, index, obstacle);
        if worth != Worth::Hint && self.has_other(row, index) {
            self.leave_path(now, row, index);
            self.make_ready(row);
            self.arm(now, row);
            return None;
        }
        let reason = match worth {
            Worth::Hint | Worth::Outage => None,
            Worth::End => Some(GoneReason::Unreachable),
            Worth::Refusal(packet) => {
                let this = &self.rows[row];
                let refusals = &mut self.actives[this.active].refusals;
                refusals.on_refused(now, this.heard_at, packet).then_some(GoneReason::Refused)
            }
        };
        if reason.is_some() {
            return reason;
        }
        self.ask_for_hint(now, row, index);
        None
    }

    /// Whether another path to this peer works.
    fn has_other(&self, row: u32, index: usize) -> bool {
        let mut paths = self.active_of(row).paths.iter().enumerate();
        paths.any(|(other, path)| other != index && path.is_usable())
    }

    fn worth_of(&self, row: u32, index: usize, obstacle: Obstacle<'_>) -> Worth {
        match obstacle {
            Obstacle::Void => Worth::End,
            Obstacle::Here => Worth::Outage,
            Obstacle::Way(quote) => match self.quoted_packet(row, index, quote) {
                Some(_) => Worth::Outage,
                None => Worth::Hint,
            },
            Obstacle::Refused(quote) => {
                self.quoted_packet(row, index, quote).map_or(Worth::Hint, Worth::Refusal)
            }
            // A stream comes and goes (PROTOCOL §16.4): while another path works, its probes tell what became of the peer.
            Obstacle::Closed if self.has_other(row, index) => Worth::Hint,
            Obstacle::Closed => {
                let path = &self.active_of(row).paths[index];
                Worth::Refusal(path.flight().next_packet())
            }
        }
    }

    /// The packet in flight on this path of which this is a quote.
    fn quoted_packet(&self, row: u32, index: usize, quote: &[u8]) -> Option<u64> {
        let quote = QuoteView::read(quote)?;
        let (this, header) = (&self.rows[row], quote.header);
        let active = &self.actives[this.active];
        let is_joined = this.phase == Phase::Joined;
        let to = if is_joined { this.remote_id } else { 0 };
        let flight = active.paths[index].flight();
        let packet = expand(header.packet as u32, flight.next_packet());
        let is_of_us = header.to == to && usize::from(header.path) == index;
        if !is_of_us || !flight.holds(packet) {
            return None;
        }
        // Before it is welcomed the frame has no id of the peer's in it, but a Hello, whose nonce is not to be guessed either.
        let is_said =
            is_joined || quote.hello().is_some_and(|it| it.who().nonce == active.contact.nonce);
        let secret = self.secret_towards(row, header.form);
        (is_said && quote.is_sealed(&secret, base_of(packet))).then_some(packet)
    }

    /// Whether this quotes a Hello of the contact under way.
    fn is_hello_of(&self, row: u32, quote: &[u8]) -> bool {
        let Some(quote) = QuoteView::read(quote) else { return false };
        let (this, header) = (&self.rows[row], quote.header);
        let nonce = self.actives[this.active].contact.nonce;
        let is_it = |id: u64, said: u64| id == this.local_id && said == nonce;
        header.to == 0
            && quote.hello().is_some_and(|hello| is_it(hello.who().id, hello.who().nonce))
            && quote.is_sealed(&self.secret_towards(row, header.form), 0)
    }

    /// The key of our frames of this form to a peer.
    fn secret_towards(&self, row: u32, form: u8) -> Secret {
        if form & FORM_STRANGER != 0 { Secret::PUBLIC } else { self.rows[row].secret }
    }

    /// Something may be wrong on this path: the peer is asked. It counts for nothing if that goes unanswered; the probes that are
    /// due by themselves do.
    fn ask_for_hint(&mut self, now: Instant, row: u32, index: usize) {
        let path = &mut self.active_of_mut(row).paths[index];
        if !path.ask_for_hint(now, HINT_PAUSE_NS) {
            return;
        }
        self.counters.probes += 1;
        self.make_ready(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::kept::Refusals;

    #[test]
    fn three_refusals_of_different_packets_over_a_second_are_enough() {
        let (mut refusals, heard) = (Refusals::default(), Instant(5));
        let mut at = |ms: u64, packet| refusals.on_refused(Instant(10 + ms * MS), heard, packet);
        assert!(!at(0, 1) && !at(1, 2) && !at(2, 3), "in no time");
        assert!(!at(999, 4));
        assert!(at(1000, 5));
    }

    #[test]
    fn one_packet_that_is_refused_often_is_one_refusal() {
        let mut refusals = Refusals::default();
        let mut at =
            |ms: u64, packet| refusals.on_refused(Instant(10 + ms * MS), Instant(5), packet);
        assert!((0..2000).all(|ms| !at(ms, 7)) && !at(2001, 8));
        assert!(at(2002, 9));
    }

    #[test]
    fn whoever_is_heard_is_not_refused() {
        let mut refusals = Refusals::default();
        for n in 0..100 {
            let now = Instant(10 + n * 400 * MS);
            let heard_at = Instant(now.0 - now.0 % (800 * MS));
            assert!(!refusals.on_refused(now, heard_at, n), "refusal {n}");
        }
    }
}
