//! An endpoint with nothing to do does nothing: counted in turns and sleeps, not in time. How much of a core that is,
//! `cargo run --release --example idle` prints.
//!
//! When it has nothing to do, nobody can say: on a machine with much else to do the last acknowledgement and the last look of a helper come
//! late. So it is looked at until it has been quiet once, and one that turns without end never is.

use std::time::{Duration, Instant};

use packhorse::{Builder, Endpoint, Placement, Wanted};

/// For so long they are looked at.
const SPAN: Duration = Duration::from_secs(2);
/// What has not been quiet by then never is.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often these turned while `spend` let a span pass; it passes again while that is more than `turns_max` and patience lasts.
fn turns_until_quiet(endpoints: &[&Endpoint], turns_max: u64, mut spend: impl FnMut()) -> u64 {
    let began = Instant::now();
    loop {
        let turns = || endpoints.iter().map(|endpoint| count(endpoint, "turns")).sum::<u64>();
        let before = turns();
        spend();
        let turns = turns() - before;
        if turns <= turns_max || began.elapsed() > PATIENCE {
            return turns;
        }
    }
}

fn count(endpoint: &Endpoint, name: &str) -> u64 {
    endpoint.counters().iter().find(|(known, _)| known == name).unwrap().1
}

#[test]
fn an_idle_endpoint_hardly_ever_turns() {
    for placement in [Placement::Inline, Placement::Thread] {
        let open = || {
            let builder = Builder::plain().bind([127, 0, 0, 1]).placement(placement);
            builder.linger(Duration::from_millis(200)).open().unwrap()
        };
        let (a, b) = (open(), open());
        let peer = a.peer(&b.address()).unwrap();
        // They know each other, one owes nothing, the other waits for a message that does not come.
        let coming = b.recv(Wanted::tag(1), vec![0; 8]);
        std::thread::scope(|scope| {
            scope.spawn(|| coming.wait().unwrap());
            a.send(peer, 1, vec![1; 8]).wait().unwrap();
        });
        let _never = b.recv(Wanted::tag(2), vec![0; 8]);
        let turns = turns_until_quiet(&[&a, &b], 200, || std::thread::sleep(SPAN));
        println!("{placement:?}: {turns} turns in two seconds");
        assert!(turns <= 200, "{placement:?}: {turns} turns");
    }
}

#[test]
fn a_thread_that_waits_for_nothing_sleeps() {
    for placement in [Placement::Inline, Placement::Thread] {
        let endpoint = Builder::plain().bind([127, 0, 0, 1]).placement(placement).open().unwrap();
        let mut never = endpoint.recv(Wanted::any(), vec![0; 8]);
        // It spins a moment before it sleeps: at a turn in a microsecond that is some thousand at most.
        let turns = turns_until_quiet(&[&endpoint], 20_000, || {
            assert!(never.wait_timeout(SPAN).is_none());
        });
        println!("{placement:?}: {turns} turns in a wait of two seconds");
        assert!(turns <= 20_000, "{placement:?}: {turns} turns");
    }
}
