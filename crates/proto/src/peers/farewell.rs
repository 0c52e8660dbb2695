//! An endpoint on its way out, and what is remembered of peers that were forgotten.

use alloc::vec::Vec;

use crate::base::sabotage::Sabotage;
use crate::base::slab::NONE;
use crate::delivery::content::Content;
use crate::delivery::credit::CreditRest;
use crate::peers::Peers;
use crate::peers::kept::{Closing, Forgotten, Idle, Reply, ReplyRecord};
use crate::peers::rows::{Farewell, Phase, Row};
use crate::{Event, GoneReason, Instant, Unaccepted};

/// Forgotten peers whose last id is remembered, so that one who has not heard does not begin again under the same id.
pub(crate) const FORGOTTEN_COUNT_MAX: usize = 64;

impl Peers {
    /// The rows of peers with whom there is an association, or is to be one.
    pub(crate) fn rows_in_contact(&self) -> Vec<u32> {
        self.rows.ids().filter(|&row| self.rows[row].phase != Phase::Idle).collect()
    }

    /// Whether we said goodbye to a peer.
    pub(crate) fn has_said_goodbye(&self, row: u32) -> bool {
        let active = self.actives.get(self.rows[row].active);
        active.is_some_and(|active| active.goodbye == Farewell::Said)
    }

    /// Says goodbye to a peer who is there, once.
    pub(crate) fn say_goodbye(&mut self, row: u32) {
        if !self.has_said_goodbye(row) {
            self.active_of_mut(row).goodbye = Farewell::Said;
            self.notify(row, Content::Goodbye);
        }
    }

    /// A goodbye is answered with a reset of what it ends: the leaver need not wait for an acknowledgement of a row
    /// that is no more, and a repeated goodbye gets the same answer (PROTOCOL §3.8).
    pub(crate) fn answer_goodbye(&mut self, row: u32) {
        let this = &self.rows[row];
        let active = &self.actives[this.active];
        let path = &active.paths[usize::from(active.main)];
        self.reply(Reply {
            link: path.link(),
            locator: *path.locator(),
            secret: this.secret,
            to: this.remote_id,
            version: this.version,
            path: 0,
            record: ReplyRecord::Reset { id: this.local_id },
        });
    }

    /// The peer may not have heard that its association is over.
    pub(crate) fn remember_forgotten(&mut self, forgotten: Forgotten) {
        if self.forgotten.len() >= FORGOTTEN_COUNT_MAX {
            self.forgotten.pop_front();
        }
        self.forgotten.push_back(forgotten);
    }

    /// A row has no association any more; what hung on it has ended.
    pub(crate) fn end_row(&mut self, now: Instant, row: u32, reason: Option<GoneReason>) {
        let was_joined = self.rows[row].phase == Phase::Joined;
        self.association_count -= 1;
        let this = &mut self.rows[row];
        this.phase = Phase::Idle;
        if this.remote_id != 0 {
            this.ended_id = this.remote_id;
        }
        this.numbers.recall();
        this.numbers.hold_none_back();
        this.credit = CreditRest::INITIAL;
        this.rest = None;
        this.more_rest = None;
        let active = core::mem::replace(&mut this.active, NONE);
        if active != NONE {
            let mut active = self.actives.leave(active);
            active.clear();
            self.actives.keep(active);
        }
        // Who said goodbye knows that it is over; others may not.
        self.note_idle(now, row, if reason.is_none() { Idle::Departed } else { Idle::Gone });
        if was_joined {
            self.counters.left += 1;
        }
        if was_joined || reason.is_some() {
            self.events.tell(Event::Left { peer: self.rows[row].peer, reason });
        }
    }
}

impl Peers {
    /// A row is free for another, and what it was is remembered.
    pub(crate) fn forget_row(&mut self, row: u32) {
        let &Row { identity, secret, ended_id: id, is_named, .. } = &self.rows[row];
        self.count_forgotten(identity);
        self.remember_forgotten(Forgotten { identity, secret, id });
        self.named_count -= u32::from(is_named);
        self.rows.remove(row);
    }
}

/// How far the endpoint's own end has come.
impl Peers {
    /// The endpoint takes nothing new any more.
    #[inline(always)]
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// The endpoint has ended.
    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The endpoint lingers from now on. False: it does so already.
    pub(crate) fn begin_closing(&mut self, now: Instant) -> bool {
        let until = now + self.settings.linger_ns;
        let is_new = self.closing.is_none();
        if is_new {
            self.closing = Some(Closing { until, look_at: until, given_up: Vec::new() });
        }
        is_new
    }

    /// When to look next how far it is, if it is closing.
    pub(crate) fn closing_look_at(&self) -> Option<Instant> {
        self.closing.as_ref().map(|closing| closing.look_at)
    }

    /// If nothing else happens it is not looked at before its time is up. False: it is not closing, or closed.
    pub(crate) fn linger(&mut self) -> bool {
        let Some(closing) = self.closing.as_mut().filter(|_| !self.closed) else { return false };
        closing.look_at = closing.until;
        true
    }

    /// A lone answer left: perhaps it was the last word.
    pub(crate) fn look_at_closing(&mut self, now: Instant) {
        if let Some(closing) = self.closing.as_mut().filter(|_| self.replies.is_empty()) {
            closing.look_at = now;
        }
    }

    /// Its time is up, or nobody is left. Answers that wait to be sent (to another's goodbye) are the last words.
    pub(crate) fn may_end(&self, now: Instant) -> bool {
        let is_late = self.closing.as_ref().is_some_and(|closing| now >= closing.until);
        let is_late = is_late && !self.saboteur.makes(Sabotage::LingersForEver);
        is_late || self.association_count == 0 && self.replies.is_empty()
    }

    /// What had not been accepted when it ended, once it has.
    pub(crate) fn given_up(&self) -> Option<&[Unaccepted]> {
        self.closing.as_ref().filter(|_| self.closed).map(|closing| &*closing.given_up)
    }

    /// The endpoint ends, and gives this up. `clean`: all was accepted.
    pub(crate) fn end_closing(&mut self, given_up: Vec<Unaccepted>, clean: bool) {
        if let Some(closing) = &mut self.closing {
            closing.given_up = given_up;
        }
        self.closed = true;
        self.events.tell(Event::Closed { clean });
    }
}
