//! The baton alone: how ticks grow, who wakes whom; and the hand-over in every order of two threads (loom).

use super::*;

/// What a look finds around it.
struct Found {
    is_pending: bool,
    patience: Option<Patience>,
}

impl Around for Found {
    fn is_pending(&self) -> bool {
        self.is_pending
    }

    fn patience(&self) -> Option<Patience> {
        self.patience
    }
}

/// Something was left behind; over a network.
const LEFT: Found = Found { is_pending: true, patience: Some(Patience::Usual) };

#[cfg(not(loom))]
mod alone {
    use super::*;

    const NOTHING: Found = Found { is_pending: false, ..LEFT };
    const HERE: Found = Found { is_pending: false, patience: Some(Patience::Long) };
    /// Somebody is inside.
    const UNKNOWN: Found = Found { is_pending: false, patience: None };

    const SECOND: u64 = 1_000_000_000;
    const NOW: Instant = Instant(1 << 40);
    const LATER: Instant = Instant(NOW.0 + GRACE_NS);

    fn present() -> (Baton, Notes) {
        let baton = Baton::default();
        assert_eq!(baton.resume(), Errand::Unpark);
        (baton, Notes::default())
    }

    fn after(fuse_count: u32) -> Instant {
        NOW + (FUSE * fuse_count).as_nanos() as u64
    }

    /// One whose program always came back at once, whatever it left.
    fn beside_one_that_waits() -> (Baton, Notes) {
        let (baton, notes) = present();
        for habit in &baton.habits {
            (0..VAIN_COUNT_MAX).for_each(|_| habit.learn(false));
        }
        (baton, notes)
    }

    #[test]
    fn a_program_that_computes_is_relieved_when_a_fuse_has_burnt() {
        let (baton, mut notes) = present();
        for _ in 0..10 {
            assert_eq!(baton.on_post(true), Errand::Unpark);
            assert_eq!(baton.on_post(true), Errand::None, "said once");
            assert_eq!(baton.look(NOW, &mut notes, &LEFT), Look::Aside(FUSE));
            assert_eq!(baton.look(after(1), &mut notes, &LEFT), Look::Drive(after(1)));
            assert!(baton.begin_driving(after(1)));
            assert_eq!(baton.on_post(true), Errand::None, "it drives");
            assert_eq!(baton.look(after(1), &mut notes, &LEFT), Look::GoOn);
            assert!(baton.go_on());
            // It comes back, and goes again.
            assert_eq!(baton.on_enter(after(1) + ABSENCE_NS_MIN), Errand::Knock);
            assert!(matches!(baton.look(NOW, &mut notes, &LEFT), Look::Aside(_)));
            assert_eq!(baton.on_exit(Instant(0), false, false), Errand::None);
        }
    }

    #[test]
    fn calls_light_the_fuse_anew_but_not_for_ever() {
        let (baton, mut notes) = present();
        assert_eq!(baton.on_post(false), Errand::Unpark);
        assert_eq!(baton.look(NOW, &mut notes, &LEFT), Look::Aside(FUSE));
        assert_eq!(
            baton.look(NOW + 1, &mut notes, &LEFT),
            Look::Aside(FUSE - Duration::from_nanos(1))
        );
        for count in 1..=FUSE_COUNT_MAX {
            assert_eq!(baton.on_post(false), Errand::None);
            assert_eq!(baton.look(after(count), &mut notes, &LEFT), Look::Aside(FUSE));
        }
        assert_eq!(baton.on_post(false), Errand::None);
        let end = after(FUSE_COUNT_MAX + 1);
        assert_eq!(baton.look(end, &mut notes, &LEFT), Look::Drive(end));
    }

    #[test]
    fn beside_a_program_that_waits_fuses_are_lit_a_few_times() {
        let (baton, mut notes) = present();
        let mut lit_count = 0;
        for round in 0..10 {
            lit_count += u32::from(baton.on_post(true) == Errand::Unpark);
            if round % 2 == 0 {
                let _ = baton.on_enter(NOW);
            }
            let _ = baton.look(NOW, &mut notes, &LEFT);
            let _ = baton.on_turn(NOW + 1, false);
            let _ = baton.look(after(1), &mut notes, &LEFT);
            if round % 2 == 0 {
                let _ = baton.on_exit(NOW, false, false);
            }
        }
        assert_eq!(lit_count, VAIN_COUNT_MAX);
        // Of short messages nothing is known yet.
        assert_eq!(baton.on_post(false), Errand::Unpark);
    }

    /// As MPI programs do: a short exchange, then a long message is left behind, all within a fuse.
    #[test]
    fn a_short_message_before_it_says_nothing_of_a_long_one() {
        let (baton, mut notes) = present();
        for round in 0..10 * u64::from(VAIN_COUNT_MAX) {
            let begin = NOW + round * 1_000_000_000;
            let at = |fuses: u32| begin + (FUSE * fuses).as_nanos() as u64;
            let is_lit = baton.on_post(false) == Errand::Unpark;
            assert!(!is_lit || baton.look(begin, &mut notes, &LEFT) == Look::Aside(FUSE));
            let _ = baton.on_turn(begin + 1, true); // it waits for the answer
            assert_eq!(
                baton.on_post(true) == Errand::Unpark,
                !is_lit,
                "who burns a fuse will look"
            );
            assert_eq!(baton.look(at(1), &mut notes, &LEFT), Look::Aside(FUSE));
            assert_eq!(baton.look(at(2), &mut notes, &LEFT), Look::Drive(at(2)));
            assert!(baton.begin_driving(at(2)));
            assert_eq!(baton.on_enter(at(2) + ABSENCE_NS_MIN), Errand::Knock);
            let _ = baton.look(at(3), &mut notes, &LEFT);
            assert_eq!(baton.on_exit(at(2) + ABSENCE_NS_MIN, false, false), Errand::None);
        }
    }

    #[test]
    fn who_is_back_at_once_had_not_gone_and_who_stays_away_had() {
        let (baton, mut notes) = present();
        let mut go_for = |absence_ns: u64| {
            let errand = baton.on_post(true);
            let (begin, mut now) = (NOW, NOW);
            while let Look::Aside(pause) = baton.look(now, &mut notes, &LEFT) {
                now = now + pause.as_nanos() as u64;
            }
            assert!(baton.begin_driving(now));
            assert_eq!(baton.on_enter(now + absence_ns), Errand::Knock);
            assert_eq!(baton.on_exit(Instant(0), false, false), Errand::None);
            (errand, now - begin)
        };
        for _ in 0..VAIN_COUNT_MAX {
            assert_eq!(go_for(ABSENCE_NS_MIN - 1), (Errand::Unpark, FUSE.as_nanos() as u64));
        }
        assert_eq!(go_for(ABSENCE_NS_MIN).0, Errand::None, "no longer");
        assert_eq!(go_for(0), (Errand::Unpark, FUSE.as_nanos() as u64));
    }

    /// A look that came late in its absence finds it out all the same.
    #[test]
    fn who_was_away_before_the_helper_came_had_gone_to_compute() {
        let (baton, mut notes) = beside_one_that_waits();
        let _ = baton.on_turn(NOW, true);
        assert_eq!(baton.on_post(true), Errand::None, "no fuse is lit for it");
        assert_eq!(baton.look(LATER, &mut notes, &LEFT), Look::Drive(NOW));
        assert!(baton.begin_driving(NOW));
        assert_eq!(baton.on_turn(LATER + 1, true), Errand::Knock);
        assert_eq!(baton.on_post(true), Errand::Unpark, "the next is relieved at once");
    }

    #[test]
    fn ticks_grow_beside_a_program_at_work_and_end_when_it_has_waited_long() {
        let (baton, mut notes) = beside_one_that_waits();
        let mut look = || {
            let _ = baton.on_call(NOW);
            baton.look(NOW, &mut notes, &LEFT)
        };
        for _ in 0..SHORT_TICK_COUNT {
            assert_eq!(look(), Look::Aside(NEAR_TICK_MIN));
        }
        assert_eq!(look(), Look::Aside(2 * NEAR_TICK_MIN));
        assert_eq!((look(), look()), (Look::Aside(NEAR_TICK_MAX), Look::Aside(NEAR_TICK_MAX)));
        let _ = baton.on_enter(NOW);
        assert_eq!(baton.on_exit(NOW, true, true), Errand::Unpark);
        assert_eq!(baton.look(NOW, &mut notes, &LEFT), Look::Aside(FUSE));
    }

    #[test]
    fn ticks_are_long_beside_one_who_asks_in_vain() {
        let (baton, mut notes) = beside_one_that_waits();
        baton.be_patient(true);
        for _ in 0..10 {
            assert_eq!(baton.on_turn(NOW, true), Errand::None);
            let Look::Aside(pause) = baton.look(NOW, &mut notes, &LEFT) else {
                panic!("somebody drives")
            };
            assert!(pause >= AWAY_TICK_MIN, "{pause:?}");
        }
        // He has what he waited for, and computes.
        baton.be_patient(false);
        assert_eq!(baton.look(LATER, &mut notes, &LEFT), Look::Drive(NOW));
    }

    #[test]
    fn a_helper_with_nothing_to_do_goes_away_and_a_post_brings_it_back() {
        let (baton, mut notes) = beside_one_that_waits();
        let _ = baton.on_enter(NOW); // somebody waits, so that it does not drive
        let mut longest = Duration::ZERO;
        for _ in 0..100 {
            match baton.look(NOW, &mut notes, &LEFT) {
                Look::Aside(pause) => longest = longest.max(pause),
                other => panic!("{other:?} beside a thread that waits"),
            }
        }
        assert_eq!(longest, AWAY_TICK_MAX);
        assert_eq!(baton.on_pending(true), Errand::Unpark);
        assert_eq!(baton.on_pending(true), Errand::None, "said once");
        let near = Look::Aside(NEAR_TICK_MAX); // all looks so far found somebody at work
        assert_eq!(baton.look(NOW, &mut notes, &LEFT), near);
        assert!(baton.is_near());
    }

    /// Ranks that exchange long messages and wait for them: every look takes time from one of them.
    #[test]
    fn beside_a_program_that_is_back_at_once_each_time_the_helper_looks_from_afar_only() {
        let (baton, mut notes) = beside_one_that_waits();
        let (mut now, mut look_count) = (NOW, 0);
        for _ in 0..100 {
            assert_eq!(baton.on_post(true), Errand::None);
            let until = now + AWAY_TICK_MAX.as_nanos() as u64;
            while now < until {
                assert_eq!(baton.on_turn(now, true), Errand::None);
                let Look::Aside(pause) = baton.look(now, &mut notes, &LEFT) else {
                    panic!("somebody drives")
                };
                (now, look_count) = (now + pause.as_nanos() as u64, look_count + 1);
            }
        }
        assert!(look_count < 120, "{look_count} looks in 100 times the longest pause");
        // One day it is not back: that is found out at the next look, and remembered.
        assert_eq!(baton.look(now + GRACE_NS, &mut notes, &LEFT), Look::Drive(now_of(&baton)));
        assert!(baton.begin_driving(now));
        assert_eq!(baton.on_turn(now + ABSENCE_NS_MIN, false), Errand::Knock);
        assert_eq!(baton.on_post(true), Errand::Unpark);
    }

    /// When somebody drove last.
    fn now_of(baton: &Baton) -> Instant {
        Instant(baton.driven_at_ns.load(Ordering::Relaxed))
    }

    /// With nothing left behind a long computation says nothing of those who leave long messages.
    #[test]
    fn who_computes_with_nothing_pending_is_not_taken_for_one_who_leaves_long_messages() {
        let (baton, mut notes) = beside_one_that_waits();
        assert_eq!(baton.on_post(true), Errand::None);
        let _ = baton.on_turn(NOW, false); // it waited for it
        let later = NOW + IDLE_GRACE_NS;
        assert_eq!(baton.look(later, &mut notes, &NOTHING), Look::Drive(NOW));
        assert!(baton.begin_driving(later));
        assert_eq!(baton.on_turn(later + SECOND, false), Errand::Knock);
        assert_eq!(baton.on_post(true), Errand::None, "no fuse is lit for it");
    }

    #[test]
    fn a_fuse_that_burns_down_when_all_has_ended_leads_to_nothing() {
        let (baton, mut notes) = present();
        assert_eq!(baton.on_post(true), Errand::Unpark);
        assert_eq!(baton.look(NOW, &mut notes, &NOTHING), Look::Aside(FUSE));
        assert!(matches!(baton.look(after(1), &mut notes, &NOTHING), Look::Aside(_)));
        assert!(!baton.is_driving());
        assert_eq!(baton.on_post(true), Errand::Unpark);
        assert_eq!(baton.look(after(1), &mut notes, &LEFT), Look::Aside(FUSE));
        assert_eq!(baton.look(after(2), &mut notes, &LEFT), Look::Drive(after(2)));
    }

    #[test]
    fn where_a_peer_was_just_met_the_helper_looks_often() {
        const MET: Found = Found { is_pending: false, patience: Some(Patience::Short) };
        let (baton, mut notes) = present();
        let mut now = NOW;
        let mut look = |around: &Found| {
            let _ = baton.on_look(now);
            let Look::Aside(pause) = baton.look(now, &mut notes, around) else {
                panic!("somebody drives")
            };
            now = now + pause.as_nanos() as u64;
            pause
        };
        for _ in 0..100 {
            assert!(look(&MET) <= SETTLING_TICK);
        }
        let pauses = [(); 3].map(|()| look(&HERE));
        assert_eq!(pauses, [4, 8, 16].map(Duration::from_millis));
        assert!(look(&MET) <= SETTLING_TICK, "another was met");
    }

    #[test]
    fn beside_a_program_with_peers_here_alone_the_helper_stays_afar() {
        let (baton, mut notes) = present();
        let mut now = NOW;
        let look = |now: &mut Instant, notes: &mut Notes, around: &Found| {
            let _ = baton.on_look(*now);
            let Look::Aside(pause) = baton.look(*now, notes, around) else {
                panic!("somebody drives")
            };
            assert!(!baton.is_near());
            *now = *now + pause.as_nanos() as u64;
            pause
        };
        let pauses = [(); 5].map(|()| look(&mut now, &mut notes, &HERE));
        assert_eq!(pauses, [4, 8, 16, 32, 32].map(Duration::from_millis));
        // It is called back for a long message, once, and looks sooner.
        assert_eq!((baton.on_post_afar(), baton.on_post_afar()), (Errand::Unpark, Errand::None));
        assert_eq!(look(&mut now, &mut notes, &UNKNOWN), AWAY_TICK_MIN);
        assert_eq!(baton.on_post_afar(), Errand::None, "that is soon enough");
        assert_eq!(look(&mut now, &mut notes, &HERE), AWAY_TICK_MIN);
        // Nobody comes for the message.
        let later = now + GRACE_NS;
        let left_here = Found { is_pending: true, ..HERE };
        assert!(matches!(baton.look(later, &mut notes, &left_here), Look::Drive(_)));
    }

    #[test]
    fn with_nothing_pending_there_is_no_haste() {
        let (baton, mut notes) = beside_one_that_waits();
        let _ = baton.on_turn(NOW, false);
        assert!(matches!(baton.look(LATER, &mut notes, &NOTHING), Look::Aside(_)));
        assert_eq!(baton.look(LATER, &mut notes, &LEFT), Look::Drive(NOW));
        assert_eq!(baton.look(NOW + IDLE_GRACE_NS, &mut notes, &NOTHING), Look::Drive(NOW));
    }

    #[test]
    fn who_took_over_and_went_again_is_not_overlooked() {
        let (baton, mut notes) = beside_one_that_waits();
        assert_eq!(baton.look(NOW, &mut notes, &LEFT), Look::Drive(Instant(0)));
        assert!(baton.begin_driving(NOW));
        assert_eq!(baton.look(NOW, &mut notes, &LEFT), Look::GoOn);
        assert_eq!(baton.on_turn(NOW, false), Errand::Knock, "between its look and its turn");
        assert!(!baton.go_on() && !baton.is_driving());
        assert!(matches!(baton.look(NOW + 1, &mut notes, &NOTHING), Look::Aside(_)));
    }

    #[test]
    fn a_pause_ends_only_by_resuming() {
        let (baton, mut notes) = present();
        assert_eq!(baton.look(NOW, &mut notes, &LEFT), Look::Drive(Instant(0)));
        assert!(baton.begin_driving(NOW));
        assert_eq!(baton.pause(), Errand::Knock);
        assert!(!baton.begin_driving(NOW) && !baton.is_driving());
        assert_eq!(baton.on_enter(NOW), Errand::None);
        assert_eq!(baton.on_exit(NOW, true, true), Errand::None);
        baton.stop_driving();
        assert_eq!(baton.look(NOW, &mut notes, &LEFT), Look::Pause);
        assert_eq!(baton.resume(), Errand::Unpark);
        assert!(matches!(baton.look(NOW, &mut notes, &LEFT), Look::Aside(_)));
    }
}

/// All orders of the helper and a thread of the application, and all values that their loads may see. Sleep without end is a
/// deadlock here, which loom finds: no pause of the helper ends by itself.
#[cfg(loom)]
mod all_orders {
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::*;

    /// Parking and knocking as the system does them: both are remembered.
    #[derive(Default)]
    struct Bell {
        rung: Mutex<bool>,
        changed: Condvar,
    }

    impl Bell {
        fn ring(&self) {
            *self.rung.lock().unwrap() = true;
            self.changed.notify_all();
        }

        fn wait(&self) {
            let mut rung = self.rung.lock().unwrap();
            while !*rung {
                rung = self.changed.wait(rung).unwrap();
            }
            *rung = false;
        }
    }

    #[derive(Default)]
    struct World {
        baton: Baton,
        parked: Bell,
        knock: Bell,
    }

    impl World {
        fn run(&self, errand: Errand) {
            match errand {
                Errand::None => {}
                Errand::Unpark => self.parked.ring(),
                Errand::Knock => self.knock.ring(),
            }
        }
    }

    /// A helper that is away, and has looked before.
    fn away() -> (Arc<World>, Notes) {
        let world = Arc::new(World::default());
        let _ = world.baton.resume();
        world.baton.is_armed.store(false, Ordering::SeqCst);
        let notes = Notes { quiet: NEAR_FOR, ..Notes::default() };
        world.baton.go(AWAY);
        (world, notes)
    }

    /// A post while the helper is about to look away for ever: it is unparked, or notices by itself.
    #[test]
    fn a_post_brings_the_helper_near() {
        loom::model(|| {
            let (world, mut notes) = away();
            let other = Arc::clone(&world);
            let _ = world.baton.on_enter(Instant(GRACE_NS)); // so that it stands aside: what is tried is the way to sleep
            let post = thread::spawn(move || other.run(other.baton.on_pending(true)));
            loop {
                match world.baton.look(Instant(GRACE_NS), &mut notes, &LEFT) {
                    Look::Aside(Duration::ZERO) => {}
                    Look::Aside(_) if world.baton.is_near() => break,
                    Look::Aside(_) => world.parked.wait(),
                    other => panic!("{other:?}"),
                }
            }
            post.join().unwrap();
        });
    }

    /// The same beside a program with peers here alone: it is unparked if it would stay away for long.
    #[test]
    fn a_long_message_brings_the_helper_back_from_afar() {
        loom::model(|| {
            let (world, mut notes) = away();
            notes.away_tick = AFAR_TICK_MAX;
            let other = Arc::clone(&world);
            let _ = world.baton.on_enter(Instant(GRACE_NS));
            let post = thread::spawn(move || other.run(other.baton.on_post_afar()));
            let here = Found { patience: Some(Patience::Long), ..LEFT };
            loop {
                match world.baton.look(Instant(GRACE_NS), &mut notes, &here) {
                    Look::Aside(Duration::ZERO) => {}
                    Look::Aside(pause) if pause <= AWAY_TICK_MAX => break,
                    Look::Aside(_) => world.parked.wait(),
                    other => panic!("{other:?}"),
                }
            }
            post.join().unwrap();
        });
    }

    /// Two posts, after either of which the poster may leave for long, while the helper is about to sleep: the helper looks at the fuse that they lit.
    #[test]
    fn a_fuse_is_always_looked_at() {
        loom::model(|| {
            let (world, mut notes) = away();
            let other = Arc::clone(&world);
            let post = thread::spawn(move || {
                other.run(other.baton.on_post(true));
                other.run(other.baton.on_post(true));
            });
            let mut now = Instant(0); // driven a moment ago
            while !matches!(world.baton.look(now, &mut notes, &LEFT), Look::Drive(_)) {
                match notes.lit {
                    Some((_, lit_at)) => now = lit_at + FUSE.as_nanos() as u64,
                    None => world.parked.wait(),
                }
            }
            post.join().unwrap();
        });
    }

    /// A thread that begins to wait while the helper takes over: the helper does not go on sleeping on the links.
    #[test]
    fn a_thread_that_waits_is_never_beside_a_helper_that_sleeps_on_the_links() {
        loom::model(|| {
            let (world, _) = away();
            let other = Arc::clone(&world);
            let waits = thread::spawn(move || other.run(other.baton.on_enter(Instant(GRACE_NS))));
            if world.baton.begin_driving(Instant(GRACE_NS)) {
                world.knock.wait(); // the links are silent
            }
            waits.join().unwrap();
            assert!(!world.baton.is_driving());
        });
    }

    /// A pause while the helper takes over ends its sleep, and it stays paused.
    #[test]
    fn a_pause_is_not_missed() {
        loom::model(|| {
            let (world, mut notes) = away();
            let other = Arc::clone(&world);
            let pauses = thread::spawn(move || other.run(other.baton.pause()));
            if world.baton.begin_driving(Instant(GRACE_NS)) {
                world.knock.wait();
            }
            pauses.join().unwrap();
            world.baton.stop_driving();
            assert_eq!(world.baton.look(Instant(GRACE_NS), &mut notes, &LEFT), Look::Pause);
        });
    }
}
