//! In which order the ends of one peer's messages are told, where the setting says that it matters.
//!
//! PROTOCOL §9.5. A message of several frames may be whole after a later one, which its sender, whose messages are complete at once, takes for the
//! word that the earlier is there. So the end of a later message is kept while bytes of an earlier one are missing that left unasked. What is kept is
//! one event for each receive that is over: the application's own doing bounds it.

use alloc::collections::VecDeque;

use hashbrown::HashMap;

use crate::base::api::{Event, Failure};
use crate::base::seeded::Seeded;
use crate::base::types::ReqId;
use crate::peers::events::Events;

/// Messages of a peer from the first of which bytes are missing on, by number: what is kept, or nothing as long as bytes are missing.
type Line = VecDeque<(u64, Option<Event>)>;

/// The ends that are not told yet, by row.
#[derive(Debug)]
pub(crate) struct Ends {
    in_order: bool,
    lines: HashMap<u32, Line, Seeded>,
}

impl Ends {
    pub(crate) fn new(in_order: bool, seed: u64) -> Self {
        Self { in_order, lines: HashMap::with_hasher(Seeded(seed)) }
    }

    /// No end is kept, and none has to be.
    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.lines.is_empty()
    }

    /// Bytes of a message are missing that left unasked, and its receive waits for them.
    #[inline]
    pub(crate) fn await_end(&mut self, row: u32, number: u64) {
        if self.in_order {
            let line = self.lines.entry(row).or_default();
            let at = line.partition_point(|&(other, _)| other < number);
            line.insert(at, (number, None));
        }
    }

    /// A message ended: tells it, or keeps it until those before it have ended.
    #[inline]
    pub(crate) fn on_end(&mut self, row: u32, number: u64, event: Event, events: &mut Events) {
        let line = if self.is_idle() { None } else { self.lines.get_mut(&row) };
        let Some(line) = line.filter(|line| line.front().is_some_and(|first| first.0 <= number))
        else {
            return events.tell(event);
        };
        let at = line.partition_point(|&(other, _)| other < number);
        match line.get_mut(at).filter(|(other, _)| *other == number) {
            Some((_, kept)) => *kept = Some(event),
            None => line.insert(at, (number, Some(event))),
        }
    }

    /// A message is over, whether its end was told or not: those behind it that waited for it alone are told.
    #[inline]
    pub(crate) fn on_over(&mut self, row: u32, number: u64, events: &mut Events) {
        if self.is_idle() {
            return;
        }
        let Some(line) = self.lines.get_mut(&row) else { return };
        let at = line.partition_point(|&(other, _)| other < number);
        if line.get(at).is_some_and(|(other, kept)| *other == number && kept.is_none()) {
            line.remove(at);
        }
        while let Some(event) = line.front_mut().and_then(|(_, kept)| kept.take()) {
            line.pop_front();
            events.tell(event);
        }
        if line.is_empty() {
            self.lines.remove(&row);
        }
    }

    /// A receive whose end is kept is cancelled, as one into which its message arrives still. False: there is none of this name.
    pub(crate) fn cancel(&mut self, of: ReqId, events: &mut Events) -> bool {
        let is_it =
            |kept: &Option<Event>| matches!(kept, Some(Event::Received { req, .. }) if *req == of);
        let kept = self.lines.values_mut().find_map(|line| {
            let at = line.iter().position(|(_, kept)| is_it(kept))?;
            line.remove(at)?.1
        });
        let Some(Event::Received { req, user, envelope, offset, .. }) = kept else { return false };
        let (placed_len, result) = (0, Err(Failure::Cancelled));
        events.tell(Event::Received { req, user, envelope, offset, placed_len, result });
        true
    }
}
