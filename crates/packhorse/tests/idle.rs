//! An endpoint with nothing to do does nothing: counted in turns and sleeps, not in time. How much of a core that is,
//! `cargo run --release --example idle` prints.

use std::time::Duration;

use packhorse::{Builder, Endpoint, Placement, Wanted};

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
        std::thread::sleep(Duration::from_millis(500)); // acknowledgements, and the last look of a helper
        let before = [count(&a, "turns"), count(&b, "turns")];
        std::thread::sleep(Duration::from_secs(2));
        let turns = [count(&a, "turns") - before[0], count(&b, "turns") - before[1]];
        println!("{placement:?}: {turns:?} turns in two seconds");
        assert!(turns.iter().all(|&turns| turns < 200), "{placement:?}: {turns:?} turns");
    }
}

#[test]
fn a_thread_that_waits_for_nothing_sleeps() {
    for placement in [Placement::Inline, Placement::Thread] {
        let endpoint = Builder::plain().bind([127, 0, 0, 1]).placement(placement).open().unwrap();
        let mut never = endpoint.recv(Wanted::any(), vec![0; 8]);
        assert!(never.wait_timeout(Duration::from_millis(200)).is_none());
        let before = count(&endpoint, "turns");
        assert!(never.wait_timeout(Duration::from_secs(2)).is_none());
        let turns = count(&endpoint, "turns") - before;
        // It spins a moment before it sleeps: at a turn in a microsecond that is some thousand at most.
        println!("{placement:?}: {turns} turns in a wait of two seconds");
        assert!(turns < 20_000, "{placement:?}: {turns} turns");
    }
}
