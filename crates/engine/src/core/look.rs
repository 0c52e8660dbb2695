//! Looks: turns that most likely find nothing.
//!
//! Whoever waits looks a million times a second, and nearly every look finds nothing. A turn that does nothing still goes through all a
//! turn may have to do: timers, output, frames kept for others, where payload may land. So a turn that did nothing notes until when the next
//! one will have none of that to do either, and until then, as long as nobody touches the rules, a look asks the links and nothing else:
//!
//! ```text
//!   turn did nothing ──▶ rest ──▶ ask: nothing, ask: nothing, ask: something came ──▶ turn with what came
//!                          ▲                      │ the next timer is due, somebody touched the rules,
//!                          │                      │ or it is time to ask for notices
//!                          └───────── turn ◀──────┘
//! ```

use packhorse_link::Link;
use packhorse_link::mem::UserMemory;
use packhorse_proto::Instant;

use super::Core;
use super::receive::TURNS_PER_NOTICE;
use crate::costly;
use crate::duties::Offload;

/// What a look found.
#[derive(Debug)]
#[must_use]
pub(crate) enum Looked {
    /// A turn may have something else to do.
    Turn,
    /// The links have nothing, and there was nothing else to do.
    Nothing,
    /// Something came: to be given to [`Core::turn_after`], before anything else.
    Something(Found),
}

/// So many arrivals by this link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    link: usize,
    count: usize,
}

impl<L: Link<M>, M: UserMemory> Core<L, M> {
    /// Asks the links, if that is all a turn would do.
    #[inline]
    pub(crate) fn ask(&mut self, now: Instant) -> Looked {
        let is_quiet = now < self.quiet_until
            && now - self.turned_at <= costly::BUSY_NS
            && !self.counters.turns.is_multiple_of(TURNS_PER_NOTICE);
        if !is_quiet {
            return Looked::Turn;
        }
        if let Some(found) = self.ask_links(now) {
            return Looked::Something(found);
        }
        self.counters.turns += 1;
        self.counters.turns_idle += 1;
        self.turned_at = now;
        Looked::Nothing
    }

    /// Asks behind a quick look that found nothing. Who comes back from a computation asks nobody else for a moment.
    #[inline]
    pub(crate) fn ask_behind_quick(&mut self, now: Instant) -> Looked {
        if self.may_look_at_memory_alone(now) {
            return Looked::Nothing;
        }
        self.ask(now)
    }

    /// The turn behind a question that was not answered by [`Looked::Nothing`]. `is_late`: the time is that of an earlier look (`time`).
    pub(crate) fn turn_after(&mut self, answer: &Looked, now: Instant, is_late: bool) -> usize {
        if is_late {
            self.time.be_old();
        }
        let work = match *answer {
            Looked::Something(Found { link, count }) => {
                self.begin_turn(now);
                let work = self.take_arrived(now, link, None, count, 0);
                self.finish_turn(work)
            }
            Looked::Turn | Looked::Nothing => self.turn(now),
        };
        self.time.end();
        work
    }

    /// A turn did nothing, and nobody touches the rules any more: until when the next one would have nothing to do but to ask.
    pub(crate) fn rest(&mut self) {
        // Without links, after its end, there is nothing to ask: looks end in turns that do nothing.
        let is_quiet = !self.links.is_empty()
            && !self.is_armed
            && self.duties == Offload::Both
            && self.kept.is_empty()
            && !self.has_work()
            && !self.endpoint.has_ready_stream()
            && !self.endpoint.has_told_chunks()
            && (0..self.links.len()).all(|link| !self.may_land(link));
        if is_quiet {
            self.quiet_until = self.endpoint.next_timeout();
        }
    }

    /// Somebody touches the rules, or the links.
    #[inline]
    pub(super) fn end_quiet(&mut self) {
        self.quiet_until = Instant(0);
    }

    /// As `receive` and `receive_some`, up to the first link that has something.
    #[inline]
    fn ask_links(&mut self, now: Instant) -> Option<Found> {
        let costly = if self.costly.are_all_asked { 0 } else { self.costly.set };
        for link in 0..self.links.len() {
            if costly >> link & 1 == 0
                && let Some(found) = self.ask_link(link)
            {
                self.costly.on_others(now);
                return Some(found);
            }
        }
        if costly == 0 {
            return None;
        }
        let link = self.costly.pick(now, false)?;
        let found = self.ask_link(link)?;
        self.costly.on_heard(now, link);
        Some(found)
    }

    #[inline]
    fn ask_link(&mut self, link: usize) -> Option<Found> {
        match self.links[link].receive(None, &mut self.memory) {
            Ok(0) => None,
            Ok(count) => Some(Found { link, count }),
            Err(_) => {
                self.counters.link_errors += 1;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use packhorse_link::Notice;
    use packhorse_proto::{Criteria, MS, Space, Tag};

    use super::*;
    use crate::engine::{Config, Engine, Placement};
    use crate::slow::{Gate, Slow};

    #[test]
    fn who_sleeps_between_two_turns_is_told_in_each_what_links_noticed() {
        let gate = Arc::new(Gate::default());
        let config = Config { placement: Placement::Inline, ..Config::default() };
        let engine = Engine::open(config, vec![Slow::new(&gate)]).unwrap();
        let mut inner = engine.lock();
        for number in 1..=3 {
            inner.turn(Instant(number));
            assert!(inner.core.arm());
            gate.notice(Notice::Dead { to: [b'U'; 24] });
            inner.turn(Instant(number)); // woken
            assert!(gate.is_told());
        }
        gate.notice(Notice::Dead { to: [b'U'; 24] });
        inner.turn(Instant(MS)); // not armed, and long after the last
        assert!(gate.is_told());
    }

    #[test]
    fn a_look_only_asks_until_something_else_may_be_to_do() {
        let gate = Arc::new(Gate::default());
        let config = Config { placement: Placement::Inline, ..Config::default() };
        let engine = Engine::open(config, vec![Slow::new(&gate)]).unwrap();
        let mut inner = engine.lock();
        let now = Instant(MS);
        let is_answered = |answer: Looked| matches!(answer, Looked::Nothing);
        assert!(!is_answered(inner.core.ask(now)), "nobody turned before");
        while inner.turn(now) > 0 {}
        assert!(is_answered(inner.core.ask(now)), "a turn did nothing");
        let turns = inner.core.counters().turns;
        assert_eq!(inner.look(now), 0);
        assert_eq!(inner.core.counters().turns, turns + 1, "a look counts as a turn");
        let criteria = Criteria { space: Space(0), tag: Tag(1), ignore: 0, source: None };
        assert!(inner.core.probe(&criteria).is_none());
        assert!(is_answered(inner.core.ask(now)), "who probes in vain touches nothing");
        inner.core.endpoint();
        assert!(!is_answered(inner.core.ask(now)), "somebody touched the rules");
        inner.turn(now);
        inner.core.arm();
        assert!(!is_answered(inner.core.ask(now)), "the links are to be told that nobody sleeps");
        inner.turn(now);
        assert!(!gate.is_armed() && is_answered(inner.core.ask(now)));
        assert!(
            !is_answered(inner.core.ask(now + costly::BUSY_NS + 1)),
            "the look before was long ago"
        );
        let turn_count = (0..10 * TURNS_PER_NOTICE).filter(|_| !is_answered(inner.core.ask(now)));
        assert!(turn_count.count() > 0, "links are asked for notices now and then");
        drop(inner);
        engine.stop();
    }

    #[test]
    fn who_looks_at_portals_touches_nothing() {
        let gate = Arc::new(Gate::default());
        let config = Config { placement: Placement::Inline, ..Config::default() };
        let engine = Engine::open(config, vec![Slow::new(&gate)]).unwrap();
        let looks: [fn(&Engine); 3] = [
            |engine| assert!(!engine.look_at_portals(|portals| portals.is_open())),
            |engine| assert!(engine.poll_portals(|_| Some(())).is_some()),
            |engine| assert!(engine.wait_portals(None, |_| Some(())).is_some()),
        ];
        let now = Instant(MS);
        for (number, look) in looks.into_iter().enumerate() {
            let mut inner = engine.lock();
            while inner.turn(now) > 0 {}
            drop(inner);
            look(&engine);
            assert!(matches!(engine.lock().core.ask(now), Looked::Nothing), "{number}");
        }
        engine.stop();
    }

    #[test]
    fn a_timer_ends_the_quiet() {
        let gate = Arc::new(Gate::default());
        let config = Config { placement: Placement::Inline, ..Config::default() };
        let engine = Engine::open(config, vec![Slow::new(&gate)]).unwrap();
        let mut inner = engine.lock();
        let now = Instant(MS);
        while inner.turn(now) > 0 {}
        inner.core.quiet_until = now + 1;
        assert!(matches!(inner.core.ask(now), Looked::Nothing));
        assert!(matches!(inner.core.ask(now + 1), Looked::Turn));
        drop(inner);
        engine.stop();
    }

    /// A link whose asking costs a system call is chosen by its number, whether it is still there or not.
    #[test]
    fn who_drives_an_engine_that_was_stopped_does_nothing() {
        let gate = Arc::new(Gate::default());
        let config = Config { placement: Placement::Inline, ..Config::default() };
        let (ring, socket) = (Slow::new(&gate), Slow::costly(&gate));
        let engine = Engine::open(config, vec![ring, socket]).unwrap();
        let criteria = Criteria { space: Space(0), tag: Tag(1), ignore: 0, source: None };
        while engine.turn() > 0 {}
        engine.close();
        engine.stop();
        for _ in 0..10 * TURNS_PER_NOTICE {
            assert_eq!(engine.turn(), 0);
            assert!(engine.probe(&criteria).is_none());
        }
        let mut inner = engine.lock();
        let work: usize = (0..1000).map(|ns| inner.look(Instant(MS + 10 * ns))).sum();
        assert_eq!(work, 0);
        let timers = inner.core.endpoint().next_timeout();
        inner.turn(timers + MS);
        inner.core.transmit(timers + 2 * MS);
    }
}
