//! Programs in virtual time: how often each of them is put to sleep.

use super::*;

const MS: u64 = 1_000_000;
/// An empty look, as UDP has it.
const LOOK_NS: u64 = 300;
/// Around it, in an MPI library that waits.
const WAITING_NS: u64 = 60;
/// What `MPI_Test` does beyond that, without any work.
const TESTING_NS: u64 = 20;

/// Somebody who asks, and the clock.
struct Program {
    asking: Asking,
    now: Instant,
    stir: Stir,
    doze_count: u64,
    slept_ns: u64,
    step_count: u64,
    /// Others have the core for so long each time.
    crowd_ns: u64,
    /// For so long others had it in all.
    lost_ns: u64,
    first_doze_at: Option<Instant>,
}

/// A thread's clocks at a moment.
struct At {
    now: Instant,
    own_ns: u64,
}

impl Clocks for At {
    fn now(&self) -> Instant {
        self.now
    }

    fn own_ns(&self) -> u64 {
        self.own_ns
    }
}

impl Default for Program {
    fn default() -> Self {
        Self {
            asking: Asking::default(),
            now: Instant(0),
            stir: Stir::default(),
            doze_count: 0,
            slept_ns: 0,
            step_count: 0,
            crowd_ns: 0,
            lost_ns: 0,
            first_doze_at: None,
        }
    }
}

impl Program {
    fn clocks(&self) -> At {
        At { now: self.now, own_ns: self.now.0 - self.lost_ns }
    }

    /// Others have its core for so long.
    fn lose(&mut self, ns: u64) {
        (self.now, self.lost_ns) = (self.now + ns, self.lost_ns + ns);
    }

    fn look(&mut self) {
        let (time, _) = self.asking.begin(&self.clocks());
        self.now = self.now + LOOK_NS;
        let now = self.now;
        match self.asking.on_nothing(time, &self.clocks()) {
            Advice::GoOn => {}
            Advice::StepAside => {
                self.step_count += 1;
                self.now = self.now + 400;
                self.lose(self.crowd_ns);
                self.asking.on_back(now, self.now);
            }
            Advice::Doze if self.asking.may_doze(self.stir) => {
                self.first_doze_at.get_or_insert(now);
                (self.doze_count, self.slept_ns) = (self.doze_count + 1, self.slept_ns + DOZE_NS);
                self.lose(DOZE_NS);
                self.asking.on_woken(&self.clocks());
            }
            Advice::Doze => {}
        }
    }

    /// Looks for so long, with `outside(number)` ns between the looks.
    fn run(&mut self, for_ns: u64, outside: impl Fn(u64) -> u64) {
        let until = self.now + for_ns;
        for number in 0.. {
            self.look();
            self.now = self.now + outside(number);
            if self.now >= until {
                break;
            }
        }
    }

    /// One that has waited in its MPI before, as all have, for a moment.
    fn that_waited() -> Self {
        let mut program = Self::default();
        program.run(MS / 100, |_| WAITING_NS);
        program.asking.on_something();
        program
    }
}

#[test]
fn who_only_waits_dozes_after_half_a_second_for_most_of_the_time() {
    let mut program = Program::that_waited();
    let began_at = program.now;
    program.run(10_000 * MS, |_| WAITING_NS);
    let spun_ns = program.first_doze_at.expect("it waits for long") - began_at;
    assert!((CALM_NS..CALM_NS * 5 / 4).contains(&spun_ns), "{spun_ns}");
    let used_percent = 100 - program.slept_ns / (100 * MS);
    assert!((15..30).contains(&used_percent), "{used_percent} %");
}

#[test]
fn who_is_to_spin_for_longer_dozes_later() {
    let mut program = Program { asking: Asking::new(2_000 * MS, 0), ..Program::default() };
    program.run(1_900 * MS, |_| WAITING_NS);
    assert_eq!(program.doze_count, 0);
    program.run(600 * MS, |_| WAITING_NS);
    assert!(program.doze_count > 0);
}

#[test]
fn who_works_between_its_looks_never_dozes() {
    for work_ns in [20, 100, 1_000, 10_000, 1_000_000] {
        let mut program = Program::that_waited();
        program.run(5_000 * MS, |_| WAITING_NS + TESTING_NS + work_ns);
        assert_eq!(program.doze_count, 0, "{work_ns} ns of work");
    }
}

/// On a busy core others have it for as long as the program itself.
#[test]
fn time_that_others_took_was_not_spent_working() {
    let mut program = Program::that_waited();
    for _ in 0..2_000 {
        program.run(3 * MS, |_| WAITING_NS);
        program.lose(3 * MS);
    }
    assert!(program.slept_ns > 2_000 * MS, "{} ms", program.slept_ns / MS);
}

#[test]
fn a_loop_that_is_longer_than_any_library_s_is_none() {
    for outside_ns in [OUTSIDE_NS_MAX * 4 / 3, 1_000, 10_000] {
        let mut program = Program::default();
        program.run(5_000 * MS, |_| outside_ns);
        assert_eq!(program.doze_count, 0, "{outside_ns} ns");
    }
}

/// `(every, work_ns)`: in one of so many looks.
#[test]
fn who_works_now_and_then_never_dozes() {
    for (every, work_ns) in [(4, 2_000), (50, 5_000), (1_000, 25_000), (10_000, 1_000_000)] {
        let mut program = Program::that_waited();
        program.run(5_000 * MS, |number| match number % every {
            0 => WAITING_NS + work_ns,
            _ => WAITING_NS,
        });
        assert_eq!(program.doze_count, 0, "{work_ns} ns of work in one of {every} looks");
    }
}

#[test]
fn interrupts_do_not_keep_a_waiting_program_awake() {
    let mut program = Program::that_waited();
    // Of 4 µs each millisecond, and of 30 µs each 100.
    program.run(10_000 * MS, |number| match number {
        _ if number % 300_000 == 0 => 30_000,
        _ if number % 3_000 == 0 => 4_000,
        _ => WAITING_NS,
    });
    assert!(program.slept_ns > 6_000 * MS, "{} ms", program.slept_ns / MS);
}

#[test]
fn a_post_or_an_end_keeps_everybody_awake_for_as_long_again() {
    let mut program = Program::that_waited();
    program.run(1_000 * MS, |_| WAITING_NS);
    let before = program.doze_count;
    assert!(before > 0);
    program.stir[0] += 1; // by another thread
    program.run(400 * MS, |_| WAITING_NS);
    assert_eq!(program.doze_count, before);
    program.run(400 * MS, |_| WAITING_NS);
    let before = program.doze_count;
    assert!(before > 0);
    program.asking.on_something();
    program.run(400 * MS, |_| WAITING_NS);
    assert_eq!(program.doze_count, before);
}

#[test]
fn who_begins_to_work_after_a_long_wait_loses_one_doze_at_most() {
    let mut program = Program::that_waited();
    program.run(3_000 * MS, |_| WAITING_NS);
    let before = program.doze_count;
    assert!(before > 1_000);
    program.run(3_000 * MS, |_| WAITING_NS + TESTING_NS + 20);
    assert!(program.doze_count <= before + 1, "{} more", program.doze_count - before);
}

#[test]
fn signs_of_life_do_not_end_a_long_wait() {
    let mut program = Program::that_waited();
    for _ in 0..100 {
        program.run(100 * MS, |_| WAITING_NS);
        program.asking.on_work();
    }
    assert!(program.slept_ns > 6_000 * MS, "{} ms", program.slept_ns / MS);
}

#[test]
fn who_waits_steps_aside_and_who_works_does_not() {
    let mut program = Program::that_waited();
    program.run(10 * MS, |_| WAITING_NS);
    assert!((500..1_200).contains(&program.step_count), "{}", program.step_count);
    for work_ns in [20, 500, 1_000, 10_000, 100_000] {
        let mut program = Program::that_waited();
        program.run(MS, |_| WAITING_NS + TESTING_NS + work_ns);
        let before = program.step_count;
        program.run(900 * MS, |_| WAITING_NS + TESTING_NS + work_ns);
        assert_eq!(program.step_count, before, "{work_ns} ns of work");
    }
}

#[test]
fn who_steps_aside_wrongly_has_a_third_of_a_crowded_core() {
    let mut program = Program { crowd_ns: 3 * MS, ..Program::default() };
    program.run(3_000 * MS, |_| WAITING_NS + TESTING_NS + 20); // it never waited: nobody knows that it does not
    let aside_ns = program.step_count * program.crowd_ns;
    assert!(program.step_count > 100 && aside_ns <= 2_010 * MS, "{} ms", aside_ns / MS);
}

#[test]
fn who_waits_and_shares_its_core_has_it_for_a_few_looks_at_a_time() {
    // Beside one that computes, and beside one that waits as well.
    for crowd_ns in [3 * MS, 5_000] {
        let mut program = Program { now: Instant(17 * MS), ..Program::default() }; // behind the first trial
        for _ in 0..4 {
            program.asking.sharing.on_waited(Way::Keep, 20 * MS);
            program.asking.sharing.on_waited(Way::Share, 1);
        }
        program.crowd_ns = crowd_ns;
        let began_at = program.now;
        for _ in 0..4 {
            program.run(12 * MS, |_| WAITING_NS);
            program.asking.on_something(); // and it goes on
        }
        let own_ns = (program.now - began_at) - program.step_count * crowd_ns;
        let of_each_ns = own_ns / program.step_count;
        assert!(of_each_ns < 4_000, "{of_each_ns} ns in each of {} steps", program.step_count);
    }
}

/// A clock that counts who reads it.
struct Counted<'a> {
    now: Instant,
    reads: &'a std::cell::Cell<u32>,
}

impl Clocks for Counted<'_> {
    fn now(&self) -> Instant {
        self.reads.set(self.reads.get() + 1);
        self.now
    }

    fn own_ns(&self) -> u64 {
        self.reads.set(self.reads.get() + 1);
        self.now.0
    }
}

#[test]
fn the_clock_is_read_in_a_fourth_of_the_looks_and_twice_for_a_sample() {
    let (mut asking, mut now, reads) = (Asking::new(0, 0), Instant(0), std::cell::Cell::new(0));
    for number in 0..1_000 {
        let (time, is_late) = asking.begin(&Counted { now, reads: &reads });
        assert_eq!(is_late, time != now);
        now = now + LOOK_NS;
        if asking.on_nothing(time, &Counted { now, reads: &reads }) == Advice::StepAside {
            asking.on_back(now, now);
        }
        now = now + WAITING_NS;
        if number == 7 {
            assert_eq!(reads.get(), 2, "3 µs in vain");
        }
    }
    assert!(reads.get() < 400, "{}", reads.get());
}
