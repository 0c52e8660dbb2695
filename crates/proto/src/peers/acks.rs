//! Acknowledgements that wait, and what they ride on.

use crate::delivery::ack::AckHead;
use crate::delivery::content::Content;
use crate::delivery::credit::Share;
use crate::delivery::path::Path;
use crate::peers::Peers;
use crate::peers::rows::{Active, Notice};
use crate::peers::timers::Timers;
use crate::wire::{AckRepr, DONE_OK, LONE_HEAD_LEN_MAX};
use crate::{Counters, Instant};

/// The acknowledgement that was pending on a path leaves.
#[inline(always)]
pub(crate) fn note_ack_sent(
    path: &mut Path,
    row: u32,
    timers: &mut Timers,
    counters: &mut Counters,
) {
    timers.disarm_ack(path.ack_due(), row);
    path.on_ack_sent();
    counters.acks_out += 1;
}

impl Peers {
    /// From now on one acknowledgement collects so many frames, from 1 to 256.
    pub(crate) fn set_ack_every(&mut self, count: u32) {
        self.settings.set_ack_every(count);
    }

    /// The acknowledgement that was pending on this path went with a frame that was given to its link.
    #[inline]
    pub(crate) fn on_ack_given(&mut self, row: u32, of: u8) {
        let active = &mut self.actives[self.rows[row].active];
        let acked = &mut active.paths[usize::from(of)];
        note_ack_sent(acked, row, &mut self.timers, &mut self.counters);
    }
}

/// An Ack of the path of this number, if it has no holes to tell of.
#[inline(always)]
pub(crate) fn plain_ack(now: Instant, index: u8, path: &Path, share: Share) -> Option<AckRepr> {
    let AckHead { largest, first_len, delay_ns, .. } = path.received().ack_without_holes(now)?;
    let credit_len = path.credit_of(share);
    Some(AckRepr { path: index, largest: largest as u32, first_len, delay_ns, credit_len })
}

/// How soon a frame wants to be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    None,
    Soon,
    AtOnce,
}

impl Active {
    /// Something that came is to be acknowledged, at once or later.
    #[inline(always)]
    pub(crate) fn owes_ack(&self) -> bool {
        self.paths.iter().any(|path| path.owes_ack())
    }

    /// Which path's acknowledgement a message by this path takes with it: one that is due, else that of its own path, else any that is
    /// pending; the others wait for their time. `None`: two are due, and only one can ride (PROTOCOL §10.5).
    #[inline(always)]
    pub(crate) fn ack_to_ride(&self, index: u8) -> Option<Option<u8>> {
        let is_owing = self.paths[usize::from(index)].owes_ack();
        if self.paths.len() == 1 {
            Some(is_owing.then_some(index))
        } else {
            self.ack_of_many(index)
        }
    }

    /// Which path's acknowledgement a message takes with it, where there are several paths (`ack_to_ride`).
    #[inline(never)]
    pub(crate) fn ack_of_many(&self, index: u8) -> Option<Option<u8>> {
        let owing = || (0_u8..).zip(self.paths.iter()).filter(|(_, path)| path.owes_ack());
        let mut due = owing().filter(|(_, path)| path.is_ack_urgent()).map(|it| it.0);
        let (first, second) = (due.next(), due.next());
        let own = || owing().find(|&(of, _)| of == index).or_else(|| owing().next()).map(|it| it.0);
        second.is_none().then(|| first.or_else(own))
    }

    /// The stream, for a message that is worth it; else the main path, or for one that is longer than its frames that of the longest.
    fn clear_path_of_many(&self, now: Instant, len: u64) -> Option<u8> {
        if !self.are_paths_calm_but_for_acks(now) {
            return None;
        }
        if let Some(stream) = self.choose_stream(len) {
            return Some(stream as u8);
        }
        let main = self.main;
        let room = usize::from(self.paths[usize::from(main)].frame_len()) - LONE_HEAD_LEN_MAX;
        if len as usize <= room { Some(main) } else { self.path_of_longest() }
    }

    /// The path for a small message, if nothing at all waits before it.
    #[inline(always)]
    pub(crate) fn clear_path(&self, now: Instant, len: u64) -> Option<u8> {
        let index = self.calm_path(now, len)?;
        self.is_clear().then_some(index)
    }

    /// The path for a small message, if none wants anything for itself but an acknowledgement.
    #[inline(always)]
    fn calm_path(&self, now: Instant, len: u64) -> Option<u8> {
        let index = if self.paths.len() == 1 { 0 } else { self.clear_path_of_many(now, len)? };
        let path: &Path = &self.paths[usize::from(index)];
        (!path.wants_ping() && path.has_window()).then_some(index)
    }

    /// Nothing at all waits to leave, but perhaps an acknowledgement.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        !self.line.has_more() && self.is_only_messages()
    }
}

impl Active {
    /// The path for the word that a large message was taken, if that is the first notice to be sent and neither messages nor data wait; the message, and how
    /// much of it was taken. Notices behind it may leave in another way: none of them is about that message.
    pub(crate) fn clear_path_of_end(&self, now: Instant) -> Option<(u8, u32, u64)> {
        let &Notice::Content(Content::Done { message, status: DONE_OK, placed_len }) =
            self.control.front()?
        else {
            return None;
        };
        let is_more = self.line.has_more() || self.line.has_lost() || self.welcome || self.ping;
        let index = if is_more { return None } else { self.calm_path(now, 0)? };
        Some((index, message, placed_len))
    }

    /// The path is open, and nothing waits but messages and perhaps an acknowledgement.
    #[inline(always)]
    pub(crate) fn is_plain(&self, index: usize) -> bool {
        let path = &self.paths[index];
        self.line.has_unsent() && self.is_only_messages() && !path.wants_ping() && path.has_window()
    }

    /// The only path, or the main one if no other wants anything; and neither wants it itself.
    #[inline]
    pub(crate) fn quick_path(&self, now: Instant) -> Option<u8> {
        let index = if self.paths.len() == 1 { 0 } else { self.undisturbed_path(now)? };
        (!self.paths[usize::from(index)].wants_ping()).then_some(index)
    }

    /// The main path, if no other wants anything.
    #[inline(never)]
    fn undisturbed_path(&self, now: Instant) -> Option<u8> {
        let main = usize::from(self.main);
        let is_calm = |path: &Path| {
            !path.is_ack_urgent()
                && !path.is_probe_due()
                && path.challenge_deadline() > now
                && (!path.is_usable() || path.frame_probe_due(now).is_none())
        };
        let mut others = self.paths.iter().enumerate().filter(|&(index, _)| index != main);
        others.all(|(_, path)| is_calm(path)).then_some(self.main)
    }

    /// Nothing of this row goes before messages and data, but for acknowledgements and paths that want something.
    #[inline]
    pub(crate) fn is_only_messages(&self) -> bool {
        self.control.is_empty() && !self.line.has_lost() && !(self.welcome || self.ping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::api::LinkTraits;
    use crate::base::limits::{MS, Settings};
    use crate::base::types::Locator;
    use crate::delivery::path::Standing;

    /// An only path is the one, whichever is the main one of several.
    #[test]
    fn a_small_message_takes_the_main_path() {
        let traits = LinkTraits::unknown(&Settings::default());
        let mut active = Active::new(0);
        for count in 1..=3_u8 {
            let path = Path::new(count - 1, Locator::default(), Standing::Proven, &traits, MS);
            active.paths.push(path);
            for main in 0..count {
                active.main = main;
                assert_eq!(active.clear_path(Instant(1), 8), Some(main), "of {count}");
            }
        }
        active.paths[0].ask_for_life();
        assert_eq!(active.clear_path(Instant(1), 8), None, "another has to ask first");
    }
}
