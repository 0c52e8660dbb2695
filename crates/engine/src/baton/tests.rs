//! The baton alone: how ticks grow, who wakes whom; and the hand-over in every order of two threads (loom).

use super::*;

#[cfg(not(loom))]
mod alone {
    use super::*;

    const NOW: Instant = Instant(1 << 40);
    const LATER: Instant = Instant(NOW.0 + GRACE_NS);

    fn present() -> (Baton, Notes) {
        let baton = Baton::default();
        assert_eq!(baton.resume(), Errand::Knock);
        (baton, Notes::default())
    }

    /// One whose program always came back at once.
    fn beside_one_that_does_not_compute() -> (Baton, Notes) {
        let (baton, notes) = present();
        while baton.computes() {
            baton.on_turn(NOW, 0);
        }
        (baton, notes)
    }

    #[test]
    fn a_program_that_computes_is_relieved_when_something_comes() {
        let (baton, mut notes) = present();
        baton.on_enter(NOW, 0);
        baton.on_exit(NOW);
        assert!(baton.wants_to_listen() && baton.listen(), "the links must be armed");
        assert_eq!(baton.on_pending(true), Errand::None, "it will hear");
        baton.on_called(&mut notes);
        let short_grace = Duration::from_nanos(SHORT_GRACE_NS);
        assert_eq!(baton.look(NOW, &mut notes), Look::Aside(short_grace));
        assert_eq!(baton.look(NOW + SHORT_GRACE_NS, &mut notes), Look::Drive);
        assert!(baton.begin_driving() && baton.is_in_charge());
        assert_eq!(baton.look(NOW, &mut notes), Look::Drive, "until somebody comes");
        // It comes back, and goes again: the links are as they were.
        assert!(baton.listen());
        baton.on_enter(NOW, 0);
        assert!(!baton.is_in_charge());
        baton.on_exit(NOW);
        assert!(!baton.listen() && baton.is_in_charge());
    }

    #[test]
    fn a_program_that_comes_back_at_once_is_left_alone_for_a_while() {
        let (baton, mut notes) = beside_one_that_does_not_compute();
        assert!(!baton.wants_to_listen());
        assert_eq!(baton.on_pending(true), Errand::None);
        assert_eq!(baton.look(NOW, &mut notes), Look::Aside(NEAR_TICK_MIN));
        assert_eq!(baton.look(LATER, &mut notes), Look::Drive);
        assert!(baton.begin_driving());
        // It comes back, and goes again: the helper sleeps, and must be told.
        baton.on_enter(LATER, 0);
        baton.on_exit(LATER);
        assert_eq!(baton.on_pending(true), Errand::Knock);
        assert_eq!(baton.look(LATER, &mut notes), Look::Aside(NEAR_TICK_MIN));
        assert_eq!(baton.look(LATER + GRACE_NS, &mut notes), Look::Drive);
    }

    #[test]
    fn a_call_in_vain_changes_nothing() {
        let (baton, mut notes) = present();
        let _ = baton.listen();
        baton.on_enter(NOW, 0);
        baton.on_called(&mut notes);
        assert_eq!(baton.look(LATER, &mut notes), Look::Aside(NEAR_TICK_MIN));
        assert_eq!(baton.look(LATER, &mut notes), Look::Aside(NEAR_TICK_MIN));
        baton.on_exit(LATER);
        assert!(baton.listen(), "they fire once");
        assert_eq!(baton.call(), Errand::Knock);
        assert_eq!(baton.look(LATER + SHORT_GRACE_NS, &mut notes), Look::Drive);
    }

    #[test]
    fn ticks_grow_beside_a_program_at_work() {
        let (baton, mut notes) = beside_one_that_does_not_compute();
        let mut look = || {
            baton.on_turn(NOW, 0);
            let _ = baton.on_pending(true);
            baton.look(NOW, &mut notes)
        };
        for _ in 0..SHORT_TICK_COUNT {
            assert_eq!(look(), Look::Aside(NEAR_TICK_MIN));
        }
        assert_eq!(look(), Look::Aside(2 * NEAR_TICK_MIN));
        assert_eq!((look(), look()), (Look::Aside(NEAR_TICK_MAX), Look::Aside(NEAR_TICK_MAX)));
    }

    #[test]
    fn a_helper_with_nothing_to_do_goes_away_and_a_post_brings_it_back() {
        let (baton, mut notes) = beside_one_that_does_not_compute();
        baton.on_enter(NOW, 0); // somebody waits, so that it does not drive
        let mut longest = Duration::ZERO;
        for _ in 0..100 {
            match baton.look(NOW, &mut notes) {
                Look::Aside(pause) => longest = longest.max(pause),
                other => panic!("{other:?} beside a thread that waits"),
            }
        }
        assert_eq!(longest, AWAY_TICK_MAX);
        assert_eq!(baton.on_pending(true), Errand::Knock);
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
        baton.on_enter(NOW, 0);
        baton.on_exit(NOW);
        assert!(!baton.wants_to_listen());
        baton.stop_driving();
        assert_eq!(baton.look(NOW, &mut notes), Look::Pause);
        assert_eq!(baton.resume(), Errand::Knock);
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
        knock: Bell,
        /// The links have something.
        links: Bell,
    }

    impl World {
        fn run(&self, errand: Errand) {
            if errand == Errand::Knock {
                self.knock.ring();
            }
        }
    }

    const LATER: Instant = Instant(GRACE_NS);

    /// A helper that is away, and has looked before, beside a program that always came back at once.
    fn away() -> (Arc<World>, Notes) {
        let world = Arc::new(World::default());
        let _ = world.baton.resume();
        world.baton.is_armed.store(false, Ordering::SeqCst);
        while world.baton.computes() {
            world.baton.on_turn(Instant(0), 0);
        }
        let notes = Notes { quiet: NEAR_FOR, ..Notes::default() };
        world.baton.go(AWAY);
        (world, notes)
    }

    /// A post while the helper is about to look away for ever: it is woken, or notices by itself.
    #[test]
    fn a_post_brings_the_helper_near() {
        loom::model(|| {
            let (world, mut notes) = away();
            let other = Arc::clone(&world);
            world.baton.on_enter(Instant(0), 0); // so that it stands aside: what is tried is the way to sleep
            let post = thread::spawn(move || other.run(other.baton.on_pending(true)));
            loop {
                match world.baton.look(LATER, &mut notes) {
                    Look::Aside(Duration::ZERO) => {}
                    Look::Aside(_) if world.baton.is_near() => break,
                    Look::Aside(_) => world.knock.wait(),
                    other => panic!("{other:?}"),
                }
            }
            post.join().unwrap();
        });
    }

    /// A thread that begins to wait while the helper takes over: it does not drive beside it.
    #[test]
    fn a_thread_that_waits_is_never_beside_a_helper_that_drives() {
        loom::model(|| {
            let (world, _) = away();
            let other = Arc::clone(&world);
            let waits = thread::spawn(move || other.baton.on_enter(Instant(0), 0));
            let _ = world.baton.begin_driving();
            waits.join().unwrap();
            assert!(!world.baton.is_driving());
        });
    }

    /// A thread comes while the helper begins to drive and to sleep, and goes again with something pending: the helper learns of
    /// it, by a knock or because it still looks.
    #[test]
    fn what_a_thread_leaves_behind_is_not_forgotten() {
        loom::model(|| {
            let (world, _) = away();
            let other = Arc::clone(&world);
            let visit = thread::spawn(move || {
                other.baton.on_enter(Instant(0), 0);
                other.baton.on_exit(Instant(0));
                other.run(other.baton.on_pending(true));
            });
            let sleeps = world.baton.begin_driving();
            visit.join().unwrap();
            let is_known = !sleeps || world.baton.is_driving() || *world.knock.rung.lock().unwrap();
            assert!(is_known);
        });
    }

    /// A frame woke the helper beside a thread that leaves just then: either the helper finds that nobody drives, or the thread
    /// that the links must be armed again.
    #[test]
    fn one_of_both_sees_that_the_links_are_silent() {
        loom::model(|| {
            let world = Arc::new(World::default());
            let _ = world.baton.resume();
            let mut notes = Notes::default();
            world.baton.on_enter(Instant(0), 0);
            assert!(world.baton.listen()); // from before
            let other = Arc::clone(&world);
            let leaves = thread::spawn(move || {
                other.baton.on_exit(Instant(0));
                if other.baton.listen() {
                    other.links.ring(); // armed: what lies there is heard
                }
            });
            world.baton.on_called(&mut notes);
            match world.baton.look(Instant(SHORT_GRACE_NS), &mut notes) {
                Look::Drive => {}
                Look::Aside(_) => world.links.wait(),
                other => panic!("{other:?}"),
            }
            leaves.join().unwrap();
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
            assert_eq!(world.baton.look(LATER, &mut notes), Look::Pause);
        });
    }
}
