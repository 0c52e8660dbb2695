//! What interfaces on top need of a queue: to be rung, to wait for what nobody took, to take back what nothing came for.

use std::time::Duration;

use packhorse::raw::{self, Completions, Criteria, Kind, List, Notify, Recv, Space, Tag, Use};
use packhorse::{Endpoint, SharedSecret};

fn wanted(tag: u64) -> Criteria {
    Criteria { space: Space(0), tag: Tag(tag), ignore: 0, source: None }
}

fn recv(tag: u64) -> Recv {
    Recv { criteria: wanted(tag), list: List::Priority, uses: Use::Once, header_only: false }
}

fn open() -> (Endpoint, Completions) {
    let endpoint = Endpoint::local().unwrap();
    let completions = raw::engine(&endpoint).completions(64);
    (endpoint, completions)
}

fn notify(completions: &Completions, context: u64) -> Notify {
    Notify { queue: completions.id(), context, only_errors: false }
}

#[test]
fn a_rung_queue_wakes_its_reader() {
    let (endpoint, mut completions) = open();
    let notify = notify(&completions, 77);
    let ringer = endpoint.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(5)); // the reader may sleep by then, or not: both must do
        raw::engine(&ringer).ring(notify);
    });
    assert!(completions.wait(None));
    assert_eq!(completions.poll().map(|entry| entry.context), Some(77));
    assert!(completions.poll().is_none());
    thread.join().unwrap();
}

#[test]
fn a_wait_ends_with_a_message_that_nobody_took() {
    let (endpoint, mut completions) = open();
    let sender = Endpoint::local().unwrap();
    let to = sender.peer(&endpoint.address()).unwrap();
    assert!(!completions.wait_or_find(&wanted(5), Some(Duration::from_millis(1))));
    sender.send_copy(to, 5, b"who takes me?").unwrap();
    assert!(completions.wait_or_find(&wanted(5), None));
    assert!(completions.poll().is_none(), "it is found, not told");
    assert_eq!(raw::engine(&endpoint).probe(&wanted(5)).unwrap().len, 13);
}

#[test]
fn a_receive_is_taken_back_only_if_nothing_came_for_it() {
    let (endpoint, mut completions) = open();
    let engine = raw::engine(&endpoint);
    for context in [1, 2] {
        let notify = notify(&completions, context);
        engine.recv_queued(notify, recv(context), vec![0; 8].into()).unwrap();
    }
    assert!(engine.cancel_unbound_queued(completions.id(), 1));
    assert!(!engine.cancel_unbound_queued(completions.id(), 1), "it has ended");
    let entry = completions.poll().unwrap();
    assert!(entry.context == 1 && entry.result.is_err() && entry.kind == Kind::Unlinked);
    let to = endpoint.peer(&endpoint.address()).unwrap();
    endpoint.send_copy(to, 2, b"taken").unwrap();
    assert!(completions.wait(None));
    assert!(!engine.cancel_unbound_queued(completions.id(), 2), "its message came");
    assert!(completions.poll().is_some_and(|entry| entry.context == 2 && entry.result.is_ok()));
}

#[test]
fn peers_know_an_endpoint_by_what_its_interface_says() {
    let known = Endpoint::builder().bind([127, 0, 0, 1]).known_as(0x4d58_0001).open().unwrap();
    let (other, _completions) = open();
    assert_eq!(known.address().identity.endpoint, 0x4d58_0001);
    assert_eq!(known.address().identity.host, other.address().identity.host);
    let to = known.peer(&other.address()).unwrap();
    known.send_copy(to, 1, b"").unwrap();
    let came = other.recv(packhorse::Wanted::tag(1), vec![0; 1]).wait().unwrap();
    let peer = raw::peer_id(came.envelope.source);
    let identity = raw::engine(&other).identity_of(peer).unwrap();
    assert_eq!(identity, known.address().identity);
}

#[test]
fn checks_differ_with_secret_and_bytes() {
    let (one, other) = (SharedSecret::from([1; 16]), SharedSecret::from([2; 16]));
    assert_eq!(one.check(b"who?"), one.check(b"who?"));
    assert_ne!(one.check(b"who?"), other.check(b"who?"));
    assert_ne!(one.check(b"who?"), one.check(b"who!"));
}
