//! Node 0 and others as threads, and strangers among them.

use std::thread::scope;

use super::*;

const SECRET: [u8; 32] = [42; 32];
/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(100);

/// A place that is free now.
fn place() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// What a node of such a job ends with; node 0 hosts.
fn meet(
    place: &str,
    count: usize,
    id: usize,
    key: [u8; 32],
    wait: Duration,
) -> Result<Vec<String>, String> {
    let (secret, until) = (Secret::new(key), Instant::now() + wait);
    let job = Job { place, count, secret: &secret, until };
    let address = format!("address-{id}");
    if id == 0 { host(&job, &address) } else { join(&job, id, &address) }
}

fn connected(place: &str) -> TcpStream {
    loop {
        match TcpStream::connect(place) {
            Ok(stream) => return stream,
            Err(_) => sleep(PAUSE),
        }
    }
}

/// All that comes until the other side hangs up.
fn all_of(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes); // a reset ends it as well
    bytes
}

#[test]
fn all_learn_all_addresses() {
    let place = place();
    let all: Vec<String> = (0..5).map(|id| format!("address-{id}")).collect();
    scope(|scope| {
        let place = &place;
        let nodes: Vec<_> =
            (0..5).rev().map(|id| scope.spawn(move || meet(place, 5, id, SECRET, LONG))).collect();
        for node in nodes {
            assert_eq!(node.join().unwrap().as_ref(), Ok(&all));
        }
    });
}

#[test]
fn strangers_learn_nothing_replace_nobody_and_hold_nobody_up() {
    let place = place();
    scope(|scope| {
        let place = &place;
        let host = scope.spawn(move || meet(place, 2, 0, SECRET, LONG));
        let silent = connected(place);
        let mut old = connected(place);
        old.write_all(b"1 mine\n").unwrap();
        let mut endless = connected(place);
        let _ = endless.write_all(&vec![b'1'; 1 << 20]); // it is hung up on
        let mut other = connected(place);
        let mut greeting = [0; GREETING_LEN];
        other.read_exact(&mut greeting).unwrap();
        other.write_all(&[&200_u32.to_le_bytes()[..], &[0; 200]].concat()).unwrap();
        let wrong = meet(place, 2, 1, [43; 32], LONG).unwrap_err();
        assert!(wrong.contains("another secret"), "{wrong}");
        let all = vec!["address-0".to_owned(), "address-1".to_owned()];
        assert_eq!(meet(place, 2, 1, SECRET, LONG), Ok(all.clone()));
        assert_eq!(host.join().unwrap(), Ok(all));
        for stranger in [silent, old, endless] {
            assert!(all_of(stranger).len() <= GREETING_LEN);
        }
        assert_eq!(all_of(other), [0; 4], "only that it does not know the secret");
    });
}

/// What was heard once is not believed again.
#[test]
fn a_recorded_call_is_not_taken() {
    let (secret, of_host, nonce) = (Secret::new(SECRET), [1; 16], [2; 16]);
    let call = Call { nonce, id: 1, count: 2, address: "address-1".into() };
    let sealed = secret.seal(&call_purpose(&of_host), &call.to_bytes()).unwrap();
    let opened = secret.open(&call_purpose(&of_host), &sealed).unwrap();
    assert_eq!(Call::from_bytes(&opened), Some(call));
    assert_eq!(secret.open(&call_purpose(&[3; 16]), &sealed), None);
    assert_eq!(secret.open(&answer_purpose(&of_host, &nonce), &sealed), None);
    for bytes in [&opened[..CALL_HEAD_LEN], &[&opened[..], b"\n"].concat(), &[0; 300], b""] {
        assert_eq!(Call::from_bytes(bytes), None);
    }
}

#[test]
fn a_node_gives_its_address_once_and_counts_must_agree() {
    let place = place();
    scope(|scope| {
        let place = &place;
        let host = scope.spawn(move || meet(place, 3, 0, SECRET, LONG));
        let one = scope.spawn(move || meet(place, 3, 1, SECRET, LONG));
        // One of two that are both node 1 is told so; which one depends on who came first.
        let twin = scope.spawn(move || meet(place, 3, 1, SECRET, LONG));
        let other = meet(place, 4, 2, SECRET, LONG).unwrap_err();
        assert!(other.contains("names 4 nodes, that of node 0 3"), "{other}");
        let none = meet(place, 3, 7, SECRET, LONG).unwrap_err();
        assert!(none.contains("no node 7"), "{none}");
        while !one.is_finished() && !twin.is_finished() {
            sleep(PAUSE);
        }
        assert!(meet(place, 3, 2, SECRET, LONG).is_ok());
        let ends = [one.join().unwrap(), twin.join().unwrap()];
        assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1, "{ends:?}");
        let why = ends.iter().find_map(|end| end.as_ref().err()).unwrap();
        assert!(why.contains("called already"), "{why}");
        assert!(host.join().unwrap().is_ok());
    });
}

#[test]
fn who_is_missing_is_named_to_all() {
    let place = place();
    scope(|scope| {
        let place = &place;
        let (secret, until) = (Secret::new(SECRET), Instant::now() + LONG);
        let job = Job { place, count: 4, secret: &secret, until };
        let listener = TcpListener::bind(place).unwrap();
        listener.set_nonblocking(true).unwrap();
        let one = scope.spawn(move || meet(place, 4, 1, SECRET, LONG));
        let mut table = Table::new(&job);
        while table.seats[0].is_none() {
            table.look(&listener);
        }
        let why = table.give_up();
        assert!(why.ends_with("no call of node 2, 3"), "{why}");
        assert_eq!(one.join().unwrap(), Err(why));
    });
    let host = meet(&place, 40, 0, SECRET, Duration::from_millis(1)).unwrap_err();
    assert!(host.contains("of node 1, 2, 3,") && host.ends_with("and 23 more"), "{host}");
    let alone = meet(&place, 4, 1, SECRET, Duration::from_millis(200)).unwrap_err();
    assert!(alone.contains("node 0 did not answer in time"), "{alone}");
}

/// More silent callers than node 0 listens to do not keep out who speaks.
#[test]
fn a_crowd_of_silent_callers_makes_way() {
    let place = place();
    scope(|scope| {
        let place = &place;
        let host = scope.spawn(move || meet(place, 2, 0, SECRET, LONG));
        let _crowd: Vec<TcpStream> = (0..CALLER_COUNT_MAX + 10).map(|_| connected(place)).collect();
        assert!(meet(place, 2, 1, SECRET, LONG).is_ok());
        assert!(host.join().unwrap().is_ok());
    });
}
