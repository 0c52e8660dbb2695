//! The baton alone: how ticks grow, who wakes whom; and the hand-over in every order of two threads (loom).

use super::*;

#[cfg(not(loom))]
mod alone {
    use super::*;

    const NOW: Instant = Instant(1 << 40);
    const LATER: Instant = Instant(NOW.0 + GRACE_NS);

    fn present() -> (Baton, Notes) {
        let baton = Baton::default();
        assert_eq!(baton.resume(), Errand::Unpark);
        (baton, Notes::default())
    }

    #[test]
    fn a_program_that_computes_is_relieved_after_one_short_tick() {
        let (baton, mut notes) = present();
        assert_eq!(baton.on_turn(NOW, true), Errand::None);
        assert_eq!(baton.look(NOW, &mut notes), Look::Aside(NEAR_TICK_MIN));
        assert_eq!(baton.look(LATER, &mut notes), Look::Drive);
        assert!(baton.begin_driving());
        // It comes back, and goes again.
        assert_eq!(baton.on_enter(), Errand::Knock);
        assert_eq!(baton.on_exit(NOW, true, false), Errand::None);
        assert_eq!(baton.look(NOW, &mut notes), Look::Aside(NEAR_TICK_MIN));
        assert_eq!(baton.look(LATER, &mut notes), Look::Drive);
    }

    #[test]
    fn ticks_grow_beside_a_program_at_work_and_shrink_when_it_has_waited_long() {
        let (baton, mut notes) = present();
        let mut look = || {
            let _ = baton.on_turn(NOW, true);
            baton.look(NOW, &mut notes)
        };
        for _ in 0..SHORT_TICK_COUNT {
            assert_eq!(look(), Look::Aside(NEAR_TICK_MIN));
        }
        assert_eq!(look(), Look::Aside(2 * NEAR_TICK_MIN));
        assert_eq!((look(), look()), (Look::Aside(NEAR_TICK_MAX), Look::Aside(NEAR_TICK_MAX)));
        let _ = baton.on_enter();
        assert_eq!(baton.on_exit(NOW, true, true), Errand::Unpark);
        assert_eq!(baton.look(NOW, &mut notes), Look::Aside(NEAR_TICK_MIN));
    }

    #[test]
    fn ticks_are_long_beside_one_who_asks_in_vain() {
        let (baton, mut notes) = present();
        baton.be_patient(true);
        for _ in 0..10 {
            assert_eq!(baton.on_turn(NOW, true), Errand::None);
            assert_eq!(baton.look(NOW, &mut notes), Look::Aside(PATIENT_TICK));
        }
        // He has what he waited for, and computes.
        baton.be_patient(false);
        assert_eq!(baton.look(LATER, &mut notes), Look::Drive);
    }

    #[test]
    fn a_helper_with_nothing_to_do_goes_away_and_a_post_brings_it_back() {
        let (baton, mut notes) = present();
        let _ = baton.on_enter(); // somebody waits, so that it does not drive
        let mut longest = Duration::ZERO;
        for _ in 0..100 {
            match baton.look(NOW, &mut notes) {
                Look::Aside(pause) => longest = longest.max(pause),
                other => panic!("{other:?} beside a thread that waits"),
            }
        }
        assert_eq!(longest, AWAY_TICK_MAX);
        assert_eq!(baton.on_pending(true), Errand::Unpark);
        assert_eq!(baton.on_pending(true), Errand::None, "said once");
        assert_eq!(baton.look(NOW, &mut notes), Look::Aside(NEAR_TICK_MIN));
        assert!(baton.is_near());
    }

    #[test]
    fn a_pause_ends_only_by_resuming() {
        let (baton, mut notes) = present();
        assert_eq!(baton.look(NOW, &mut notes), Look::Drive);
        assert!(baton.begin_driving());
        assert_eq!(baton.pause(), Errand::Knock);
        assert!(!baton.begin_driving() && !baton.is_driving());
        assert_eq!(baton.on_enter(), Errand::None);
        assert_eq!(baton.on_exit(NOW, true, true), Errand::None);
        baton.stop_driving();
        assert_eq!(baton.look(NOW, &mut notes), Look::Pause);
        assert_eq!(baton.resume(), Errand::Unpark);
        assert!(matches!(baton.look(NOW, &mut notes), Look::Aside(_)));
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
            let _ = world.baton.on_enter(); // so that it stands aside: what is tried is the way to sleep
            let post = thread::spawn(move || other.run(other.baton.on_pending(true)));
            loop {
                match world.baton.look(Instant(GRACE_NS), &mut notes) {
                    Look::Aside(Duration::ZERO) => {}
                    Look::Aside(_) if world.baton.is_near() => break,
                    Look::Aside(_) => world.parked.wait(),
                    other => panic!("{other:?}"),
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
            let waits = thread::spawn(move || other.run(other.baton.on_enter()));
            if world.baton.begin_driving() {
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
            if world.baton.begin_driving() {
                world.knock.wait();
            }
            pauses.join().unwrap();
            world.baton.stop_driving();
            assert_eq!(world.baton.look(Instant(GRACE_NS), &mut notes), Look::Pause);
        });
    }
}
