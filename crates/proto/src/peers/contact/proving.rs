//! Ways and versions of a peer that has joined, or is about to: what proves a path, and which version both speak.

use super::*;
use crate::peers::Peers;

impl Peers {
    /// PROTOCOL §3.10. A row whose contact is over, and why.
    pub(crate) fn on_other_version(
        &mut self,
        now: Instant,
        origin: Origin,
        view: &FrameView<'_>,
    ) -> Option<(u32, GoneReason)> {
        let mut records = view
            .records()
            .map(|(record, _)| record)
            .filter(|record| !matches!(record, Record::Check { .. }));
        if let Some(Record::Hello(hello)) = records.next()
            && let Ok(address) = hello.address(self.key_of(view))
        {
            let version = hello.who().versions >> 4;
            self.reply_to(
                origin,
                &address,
                &hello,
                version,
                ReplyRecord::Versions { nonce: hello.who().nonce },
            );
        } else if let Some(Record::Versions { min, max, nonce }) =
            view.records().map(|(record, _)| record).next()
        {
            // The answer comes in the lowest version its sender speaks, which may be none of ours.
            let row = crate::peers::rows::row_of_id(view.header.to);
            if self
                .rows
                .get(row)
                .is_some_and(|this| this.local_id == view.header.to && this.phase == Phase::Hello)
            {
                return Some((row, self.on_versions(now, row, min, max, nonce)?));
            }
        }
        None
    }

    /// A reason: there is none that both speak.
    pub(super) fn on_versions(
        &mut self,
        now: Instant,
        row: u32,
        min: u8,
        max: u8,
        nonce: u64,
    ) -> Option<GoneReason> {
        let active = self.rows[row].active;
        if self.rows[row].phase != Phase::Hello || nonce != self.actives[active].contact.nonce {
            return None;
        }
        let best = max.min(self.settings.versions.1);
        if best < min.max(self.settings.versions.0) {
            return Some(GoneReason::Version);
        }
        if self.rows[row].version != best {
            self.rows[row].version = best;
            self.rows[row].on_heard(now); // it lives, and the asking begins anew
            self.actives[active].contact.hello_at = now;
            self.actives[active].contact.hello_count = 0;
            self.make_ready(row);
        }
        None
    }

    /// A frame without a packet number, on a living association. `None` if it was a numbered frame after all; else why it ends the
    /// association, if it does.
    pub(crate) fn on_unnumbered(
        &mut self,
        now: Instant,
        origin: Origin,
        row: u32,
        view: &FrameView<'_>,
    ) -> Option<Option<GoneReason>> {
        let mut records = view
            .records()
            .map(|(record, _)| record)
            .filter(|record| !matches!(record, Record::Check { .. }));
        match records.next() {
            Some(Record::Challenge { nonce, incarnation, .. }) => {
                // The answer to a probe's Hello: it does not know us any more.
                let active = self.rows[row].active;
                if nonce == self.actives[active].contact.nonce && nonce != 0 {
                    let other_life = self.rows[row].incarnation != incarnation;
                    self.counters.resets_in += 1;
                    let reason = if other_life { GoneReason::Restarted } else { GoneReason::Reset };
                    return Some(Some(reason));
                }
            }
            Some(Record::Reset { id }) => return Some(self.on_reset(row, id)),
            Some(Record::PathChallenge { path, nonce }) => {
                self.reply_by(row, path, origin, ReplyRecord::PathResponse { nonce });
            }
            Some(Record::PathResponse { path, nonce }) => {
                self.on_path_response(now, row, path, nonce)
            }
            Some(Record::Hello(_)) => {} // a repeated first Hello, or a probe's: the association is known
            Some(Record::Versions { .. }) => {}
            _ => return None,
        }
        Some(None)
    }

    pub(crate) fn challenge_path(&mut self, row: u32, path: u8, origin: Origin, nonce: u64) {
        self.reply_by(row, path, origin, ReplyRecord::PathChallenge { nonce });
    }

    /// A lone answer to a known peer, the way that its frame came.
    fn reply_by(&mut self, row: u32, path: u8, origin: Origin, record: ReplyRecord) {
        let this = &self.rows[row];
        self.reply(Reply {
            link: origin.link,
            locator: origin.from,
            secret: this.secret,
            to: this.remote_id,
            version: this.version,
            path,
            record,
        });
    }

    pub(super) fn on_path_response(&mut self, now: Instant, row: u32, path: u8, nonce: u64) {
        let (active, index) = (self.rows[row].active, usize::from(path));
        let Some(path) = self.actives[active].paths.get_mut(index) else { return };
        if let Some(candidate) = path.candidate().filter(|candidate| candidate.nonce == nonce) {
            path.take_candidate();
            self.counters.locators_changed += 1;
            let traits = self.traits_of(candidate.link, self.rows[row].frame_len_max);
            self.actives[active].paths[index].move_to(candidate.link, candidate.locator, &traits);
            self.show_path(candidate.link, candidate.locator);
        } else if path.is_answer(nonce) {
            if path.standing() == Standing::Left {
                self.counters.paths_regained += 1;
            }
            path.on_proven(now);
            self.tell_path_news(row);
        }
        self.refit(row);
        self.make_ready(row);
    }

    pub(crate) fn on_rebound(&mut self, now: Instant, link: u8, locator: Locator) {
        let Some(own) = self.locators.get_mut(usize::from(link)) else { return };
        *own = locator;
        let joined: alloc::vec::Vec<u32> =
            self.rows.ids().filter(|&row| self.rows[row].phase == Phase::Joined).collect();
        for row in joined {
            let active = self.activate(row);
            self.actives[active].ask();
            self.make_ready(row);
            self.arm(now, row);
        }
    }
}
