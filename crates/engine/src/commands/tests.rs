//! What is left is found, in every order of two threads (loom); and a post beside a turn that lasts.

use super::*;

use crate::names::QueueId;
use crate::post::Send;
use packhorse_proto::{PeerId, Space, Tag};

fn send() -> Send {
    Send { peer: PeerId(0), space: Space(0), tag: Tag(0), immediate: None, until_matched: false }
}

fn command() -> Command {
    let notify = Notify { queue: QueueId(0), context: 0, only_errors: false };
    Command { told: Told::Queue(notify), post: Post::Send(send(), vec![1].into()) }
}

#[cfg(not(loom))]
mod alone {
    use std::sync::Arc;
    use std::time::Duration;

    use packhorse_proto::{Criteria, List, PostError, Use};

    use super::*;
    use crate::engine::{Config, Engine, Placement};
    use crate::post::Recv;
    use crate::requests::Outcome;
    use crate::slow::{Gate, Slow};

    #[test]
    fn what_is_left_during_a_turn_is_found_at_its_end() {
        let commands = Commands::default();
        commands.on_turn();
        assert!(commands.leave(command()), "he will come to it");
        assert!(commands.on_turned() && commands.may_have());
        assert!(!commands.leave(command()), "the turn is over: the poster must see to it himself");
        assert!(commands.pop().is_some() && commands.pop().is_some() && commands.pop().is_none());
        assert!(!commands.may_have() && !commands.on_turned());
    }

    fn recv() -> Recv {
        Recv {
            criteria: Criteria { space: Space(0), tag: Tag(0), ignore: 0, source: None },
            list: List::Priority,
            uses: Use::Once,
            header_only: false,
        }
    }

    /// An engine with somebody in a turn that lasts until the gate is opened, and names laid in.
    fn in_a_turn() -> (Arc<Engine>, Arc<Gate>) {
        let gate = Arc::new(Gate::default());
        let config = Config { placement: Placement::Thread, ..Config::default() };
        let engine = Engine::open(config, vec![Slow::new(&gate)]).unwrap();
        engine.commands.want();
        engine.commands.lay_in(&mut engine.lock().requests);
        gate.shut();
        assert!(engine.inner.try_lock().is_err());
        (engine, gate)
    }

    #[test]
    fn a_post_beside_a_turn_waits_for_nobody_and_is_made_at_its_end() {
        let (engine, gate) = in_a_turn();
        let first = engine.recv(recv(), vec![1; 8].into()).unwrap();
        let wrong = engine.send(send(), vec![2; 8].into()).unwrap(); // to a peer that nobody knows
        let last = engine.recv(recv(), vec![3; 8].into()).unwrap();
        assert!(engine.inner.try_lock().is_err(), "all that while the turn went on");
        gate.open();
        let completion = engine.wait(wrong, Some(Duration::from_secs(60))).expect("an end");
        assert_eq!(completion.outcome, Outcome::Refused { error: PostError::UnknownPeer });
        assert_eq!(completion.memory.unwrap().into_vec(), [2; 8]);
        for (id, byte) in [(first, 1), (last, 3)] {
            assert!(!engine.is_over(id) && engine.cancel(id));
            let memory = engine.test(id).expect("cancelled").memory;
            assert_eq!(memory.unwrap().into_vec(), [byte; 8]);
        }
        assert_eq!(engine.lock().core.counters().posts_left, 3);
        engine.stop();
    }

    #[test]
    fn who_finds_no_name_waits_and_the_next_finds_one() {
        let (engine, gate) = in_a_turn();
        let mut all: Vec<_> =
            (0..NAME_COUNT).map(|_| engine.recv(recv(), vec![0; 8].into()).unwrap()).collect();
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| engine.recv(recv(), vec![0; 8].into()).unwrap());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished(), "there was a name too many");
            gate.open();
            all.push(waiting.join().unwrap());
        });
        all.sort_unstable_by_key(|id| id.0);
        all.dedup();
        assert_eq!(all.len(), NAME_COUNT + 1, "each has its own");
        assert!(all.iter().all(|&id| engine.cancel(id)));
        assert!(engine.commands.name().is_some());
        engine.stop();
    }
}

/// One leaves a post while another's turn ends: it is the one or the other who makes it, never nobody.
#[cfg(loom)]
#[test]
fn all_orders() {
    loom::model(|| {
        let commands = loom::sync::Arc::new(Commands::default());
        commands.on_turn();
        let turning = loom::sync::Arc::clone(&commands);
        let turn = loom::thread::spawn(move || turning.on_turned() && turning.pop().is_some());
        let is_mine = !commands.leave(command());
        let is_made_by_turn = turn.join().unwrap();
        assert!(is_made_by_turn || (is_mine && commands.pop().is_some()), "nobody makes it");
    });
}
