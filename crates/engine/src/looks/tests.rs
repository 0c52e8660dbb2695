//! Programs of both kinds, in made-up ticks, and what the rule makes of their looks.

use super::*;

/// What asking takes, what a look takes that does not ask, and what lies between two looks of an MPI library that waits.
const COST: u64 = 1_200;
const SKIPPED: u64 = 60;
const WAITING_GAP: u64 = 350;
/// A program that tests every microsecond.
const WORK: u64 = 2_500;

/// A program that looks.
#[derive(Default)]
struct Program {
    looks: Looks,
    now: u64,
    ask_count: u64,
    /// When it asked last, and the longest it went without.
    asked_at: u64,
    unasked_max: u64,
}

impl Program {
    /// One that has looked in vain for long, working as much between its looks.
    fn long_quiet(gap: u64) -> Self {
        let mut program = Self { now: 1 << 40, ..Self::default() };
        (0..10_000).for_each(|_| _ = program.look(gap, false));
        (program.ask_count, program.asked_at, program.unasked_max) = (0, program.now, 0);
        program
    }

    /// Looks until one of them asks, or does not: one of the next few does.
    fn until_ask_is(&mut self, asks: bool, gap: u64, has_come: bool) {
        let found = (0..1000).any(|_| self.look(gap, has_come) == asks);
        assert!(found, "no look of a thousand {}", if asks { "asks" } else { "leaves it" });
    }

    /// Works for so long and looks; whether the look asked. `has_come`: asking finds something.
    fn look(&mut self, gap: u64, has_come: bool) -> bool {
        self.now += gap;
        let Some(look) = self.looks.begin_at(self.now) else {
            self.now += SKIPPED;
            self.looks.left_at.store(self.now, Ordering::Relaxed);
            return false;
        };
        self.unasked_max = self.unasked_max.max(self.now - self.asked_at);
        self.now += COST;
        self.looks.end_at(&look, self.now, has_come);
        (self.ask_count, self.asked_at) = (self.ask_count + 1, self.now);
        true
    }
}

#[test]
fn who_waits_asks_with_every_look() {
    for gap in [0, 20, WAITING_GAP, COST / COST_TO_GAP] {
        let mut program = Program::long_quiet(gap);
        assert!((0..10_000).all(|_| program.look(gap, false)), "a gap of {gap}");
    }
}

#[test]
fn a_wait_that_does_something_else_now_and_then_asks_with_most_looks() {
    let mut program = Program::long_quiet(WAITING_GAP);
    let gap = |round: u64| if round.is_multiple_of(8) { 20 * WAITING_GAP } else { WAITING_GAP };
    let count = (0..8_000).filter(|&round| program.look(gap(round), false)).count();
    assert!(count > 4_000, "{count} of 8000");
}

/// A peek that asks, and a read of the queue behind it that does.
#[test]
fn two_looks_in_a_row_are_no_wait() {
    let mut program = Program::long_quiet(WORK);
    let gaps = [WORK, WAITING_GAP / 2];
    assert!((0..10_000).filter(|round| program.look(gaps[round % 2], false)).count() < 1000);
}

#[test]
fn who_works_gives_a_twentieth_of_its_time_for_looks_that_ask() {
    for gap in [600, WORK, 4 * WORK] {
        let mut program = Program::long_quiet(gap);
        let began = program.now;
        (0..10_000).for_each(|_| _ = program.look(gap, false));
        let share = program.ask_count * COST * 100 / (program.now - began);
        assert!((3..=5).contains(&share), "{share} % with gaps of {gap}");
        assert!(program.unasked_max <= UNASKED_MAX.min(COST_SHARE * COST) + gap, "{gap}");
    }
}

#[test]
fn who_looks_seldom_asks_with_every_look() {
    let mut program = Program::long_quiet(UNASKED_MAX);
    assert!((0..1000).all(|_| program.look(UNASKED_MAX, false)));
}

#[test]
fn what_comes_is_found_late_by_a_sixteenth_of_the_quiet_before_it() {
    for quiet in [10_000, 100_000, 1_000_000, 100_000_000] {
        let mut program = Program::long_quiet(WORK);
        program.until_ask_is(true, WORK, true); // something came
        let came_at = program.now + quiet;
        while program.now < came_at {
            program.look(WORK, false);
        }
        program.until_ask_is(true, WORK, true);
        let late = program.now - COST - came_at;
        let late_max = (quiet + late) / QUIET_SHARE + 2 * (WORK + COST);
        assert!(late <= late_max, "{late} of {late_max} after {quiet}");
    }
}

#[test]
fn a_post_makes_the_next_look_ask_and_quiet_begin_anew() {
    let mut program = Program::long_quiet(WORK);
    program.until_ask_is(false, WORK, false);
    program.looks.on_post();
    for round in 0..5 {
        assert!(program.look(WORK, false), "look {round} after the post");
    }
    assert!((0..1000).any(|_| !program.look(WORK, false)), "not for ever");
}

#[test]
fn who_begins_to_wait_after_long_work_asks_with_every_look_after_a_few() {
    let mut program = Program::long_quiet(WORK);
    program.until_ask_is(false, WORK, false);
    (0..10).for_each(|_| _ = program.look(WAITING_GAP, false)); // within two microseconds
    assert!((0..100).all(|_| program.look(WAITING_GAP, false)));
}

/// However long it lies, a short wait's look asks: the answer of a peer takes some microseconds.
#[test]
fn after_a_post_every_look_asks_for_as_long_as_an_answer_takes() {
    let mut program = Program::long_quiet(WORK);
    program.looks.on_post();
    let posted_at = program.now;
    while program.now - posted_at < QUIET_SHARE * COST {
        assert!(program.look(WAITING_GAP * 2, false));
    }
}

#[test]
fn a_look_that_took_long_by_chance_changes_the_next_one_only() {
    let mut program = Program::long_quiet(WORK);
    program.until_ask_is(true, WORK, false);
    program.looks.cost.store(10_000_000, Ordering::Relaxed); // another thread had the core meanwhile
    assert!(program.look(WORK, false), "for all that is known the gap is short");
    assert!((0..UNASKED_MAX / WORK + 3).any(|_| !program.look(WORK, false)));
}
