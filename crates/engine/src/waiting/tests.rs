//! Who waits drives, sleeps and is woken, over a link that a test can hold up.

use std::sync::Arc;
use std::task::Context;

use packhorse_proto::{Criteria, List, Space, Tag, Use};

use super::*;
use crate::completions::Completions;
use crate::engine::{Config, Placement};
use crate::post::Recv;
use crate::slow::{Gate, Slow};

fn open(placement: Placement, gate: &Arc<Gate>) -> Arc<Engine> {
    Engine::open(Config { placement, ..Config::default() }, vec![Slow::new(gate)]).unwrap()
}

fn recv(engine: &Engine) -> RequestId {
    let recv = Recv {
        criteria: Criteria { space: Space(0), tag: Tag(1), ignore: 0, source: None },
        list: List::Priority,
        uses: Use::Once,
        header_only: false,
    };
    engine.recv(recv, vec![0; 8].into()).unwrap()
}

#[test]
fn who_asks_does_not_stand_behind_a_helper_in_a_long_turn() {
    let gate = Arc::new(Gate::default());
    let engine = open(Placement::Thread, &gate);
    let id = recv(&engine);
    while !engine.helper.baton.is_driving() {
        std::thread::sleep(Duration::from_micros(100));
    }
    gate.shut(); // with the lock
    assert!(engine.inner.try_lock().is_err());
    std::thread::sleep(Duration::from_millis(1)); // it asks now and then, not in a loop
    assert!(engine.test(id).is_none(), "and nobody had to let it in");
    gate.open();
    assert!(engine.cancel(id) && engine.ended.may_have(id));
    assert!(engine.test(id).is_some());
    engine.stop();
}

#[test]
fn a_sleeper_does_not_knock_at_its_own_door() {
    let engine = open(Placement::Inline, &Arc::new(Gate::default()));
    engine.lock().has_news = true; // of a request that nobody waits for
    assert!(engine.drive(Some(Duration::from_millis(20)), 0, |_| None::<()>).is_none());
    assert_eq!(engine.lock().core.counters().sleeps, 1, "it slept through");
}

#[test]
fn after_a_panic_inside_nobody_waits_for_what_nobody_does() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let gate = Arc::new(Gate::default());
    let engine = open(Placement::Inline, &gate);
    let id = recv(&engine);
    let mut queue = Completions::new(&engine, 8);
    gate.panic();
    let said = |panic: Box<dyn std::any::Any + Send>| {
        panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).unwrap_or_default()
    };
    let panics = |call: &mut dyn FnMut()| {
        said(catch_unwind(AssertUnwindSafe(call)).expect_err("it went on"))
    };
    assert!(panics(&mut || _ = engine.turn()).contains("for a test"));
    for text in [
        panics(&mut || drop(engine.wait(id, None))),
        panics(&mut || drop(engine.test(id))),
        panics(&mut || _ = queue.poll_and_drive()),
        panics(&mut || _ = queue.wait(None)),
    ] {
        assert!(text.contains("another thread panicked inside this endpoint"), "{text}");
    }
    std::mem::forget((queue, engine)); // they would say so once more
}

#[test]
fn who_waits_for_a_queue_learns_that_the_engine_ended() {
    for placement in [Placement::Inline, Placement::Thread] {
        let engine = open(placement, &Arc::new(Gate::default()));
        let mut queue = Completions::new(&engine, 8);
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| queue.wait(None));
            while !engine.doze.is_asleep() {
                std::thread::yield_now();
            }
            engine.stop();
            assert!(!waiting.join().unwrap(), "and it was told nothing");
        });
        assert!(!queue.wait(None), "nor does it wait once more");
    }
}

#[test]
fn the_links_know_of_a_sleeper_though_another_turns() {
    let gate = Arc::new(Gate::default());
    let engine = open(Placement::Inline, &gate);
    let id = recv(&engine);
    let is_known = std::thread::scope(|threads| {
        threads.spawn(|| engine.wait(id, None));
        let mut inner = engine.lock();
        while !inner.is_dozing {
            drop(inner);
            std::thread::yield_now();
            inner = engine.lock();
        }
        inner.turn(engine.now()); // and the links are told that somebody looks
        engine.release(inner);
        // Who woke by himself meanwhile is going to look.
        let inner = engine.lock();
        let is_known = gate.is_armed() || !inner.is_dozing;
        drop(inner);
        assert!(engine.cancel(id));
        is_known
    });
    assert!(is_known, "a frame would wake nobody");
    engine.stop();
}

/// Turns that so many looks make, with work of this length before each.
fn turns_of(engine: &Engine, count: u64, work: Duration, mut look: impl FnMut()) -> u64 {
    let before = engine.lock().core.counters().turns;
    for _ in 0..count {
        let begin = std::time::Instant::now();
        while begin.elapsed() < work {}
        look();
    }
    engine.lock().core.counters().turns - before
}

/// Counts turns until they are as many as they should be: programs are told apart by nanoseconds, which a machine with other things to do
/// takes from either; but not each time, for a minute.
fn count_until(name: &str, is_right: impl Fn(u64) -> bool, mut count: impl FnMut() -> u64) {
    let began = std::time::Instant::now();
    loop {
        let turns = count();
        if is_right(turns) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{name}: {turns} looks turned");
    }
}

#[test]
fn looks_of_a_program_that_works_seldom_turn_and_those_of_one_that_waits_do() {
    const COUNT: u64 = 4000;
    let gate = Arc::new(Gate::default());
    let engine = open(Placement::Inline, &gate);
    gate.take(Duration::from_micros(2)); // about what a system call takes where it is dear
    let id = recv(&engine);
    let criteria = Criteria { space: Space(0), tag: Tag(2), ignore: 0, source: None };
    let (mut queue, mut other) = (Completions::new(&engine, 8), Completions::new(&engine, 8));
    let mut context = Context::from_waker(std::task::Waker::noop());
    let looks: [(&str, &mut dyn FnMut()); 6] = [
        ("test", &mut || assert!(engine.test(id).is_none())),
        ("probe", &mut || assert!(engine.probe(&criteria).is_none())),
        ("claim", &mut || assert!(engine.claim(&criteria).is_none())),
        ("poll", &mut || assert!(engine.poll(id, &mut context).is_pending())),
        ("poll_and_drive", &mut || assert!(queue.poll_and_drive().is_none())),
        ("drive_or_doze", &mut || assert!(!other.drive_or_doze())),
    ];
    for (name, look) in looks {
        let work = Duration::from_nanos(1500);
        let (few, most) = (COUNT / 2, COUNT * 9 / 10);
        count_until(
            &format!("{name}, work"),
            |turns| turns < few,
            || turns_of(&engine, COUNT, work, &mut *look),
        );
        count_until(
            &format!("{name}, no work"),
            |turns| turns > most,
            || turns_of(&engine, COUNT, Duration::ZERO, &mut *look),
        );
    }
    engine.stop();
}

#[test]
fn who_has_asked_in_vain_for_long_sleeps_on_the_links() {
    let engine = open(Placement::Inline, &Arc::new(Gate::default()));
    let mut completions = Completions::new(&engine, 8);
    let began = std::time::Instant::now();
    while engine.lock().core.counters().sleeps == 0 {
        for _ in 0..1000 {
            completions.asking.be_calm(); // as after half a second: other programs may disturb the calm
            assert!(completions.poll_or_doze().is_none());
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no sleep in 60 s");
    }
}
