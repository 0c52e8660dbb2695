//! Endpoints that are found by host and number, over loopback: by whom, by whom not, and what those who are not learn.

use std::error::Error as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use packhorse::{
    Access, Builder, Endpoint, Error, Greeting, LookUp, NotFound, Number, Peers, Placement,
    Reception, SharedSecret, Wanted,
};
use packhorse_proto::wire::{FindRepr, FindView, LOOKUP_LEN, NamedRepr, NamedView};
use packhorse_proto::{Address, Secret};

/// What has not happened by then does not happen, on a machine with much to do either.
const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: [u8; 16] = *b"sixteen bytes !!";

fn secret(bytes: [u8; 16]) -> SharedSecret {
    bytes.into()
}

/// The words of the protocol's secret that has these bytes.
fn key(bytes: [u8; 16]) -> Secret {
    let (words, _) = bytes.as_chunks();
    Secret([u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])])
}

fn greeting(text: &str) -> Greeting {
    let mut greeting = Greeting::default();
    greeting[..text.len()].copy_from_slice(text.as_bytes());
    greeting
}

fn local() -> Builder {
    Builder::plain().bind([127, 0, 0, 1]).links("udp")
}

fn client() -> Endpoint {
    local().open().unwrap()
}

/// A server at the first number from `first` on that is free. Each test has a hundred of its own.
fn serve(first: u16, open: impl Fn() -> Builder) -> (Endpoint, u16) {
    for number in first..first + 100 {
        match open().named(number).open() {
            Err(Error::NumberInUse { .. }) => {}
            other => return (other.unwrap(), number),
        }
    }
    panic!("no number is free from {first} on");
}

fn exchange(client: &Endpoint, peer: packhorse::Peer, server: &Endpoint, len: usize) {
    let coming = server.recv(Wanted::tag(4), vec![0; len]);
    let going = client.send(peer, 4, vec![7; len]);
    let message = coming.wait().unwrap();
    going.wait().unwrap();
    assert!(message.buffer == vec![7; len]);
    // And back, to somebody that the server was never told of.
    let coming = client.recv(Wanted::tag(5), vec![0; 8]);
    server.send(message.envelope.source, 5, vec![8; 8]).wait().unwrap();
    assert_eq!(coming.wait().unwrap().buffer, [8; 8]);
}

fn why(found: Result<packhorse::Found, Error>) -> NotFound {
    match found {
        Err(Error::NotFound { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_is_found_by_its_number_and_spoken_to() {
    let (server, number) = serve(20_000, || local().greeting(greeting("kv 1")));
    assert_eq!(server.number(), Some(number));
    for host in ["127.0.0.1", "localhost"] {
        let client = client();
        let found = client.find(host, number).timeout(PATIENCE).wait().unwrap();
        assert_eq!((found.greeting, found.address), (greeting("kv 1"), server.address()));
        assert!(client.name_of(found.peer).contains(&format!("number {number} at {host}")));
        exchange(&client, found.peer, &server, 100_000);
    }
    assert_eq!(client().number(), None);
}

#[test]
fn small_numbers_have_ports_that_take_no_rights() {
    let (server, number) = serve(700, local);
    assert!(server.number() == Some(number) && number < 1024);
    let port = Number::new(number).port();
    assert_eq!(port, 61_440 + number);
    // The port itself is another way to write the number.
    for number in [number, port] {
        let found = client().find("127.0.0.1", number).timeout(PATIENCE).wait().unwrap();
        assert_eq!(found.address, server.address());
    }
}

#[test]
fn a_server_at_all_addresses_is_found_by_ipv4_and_ipv6() {
    let (server, number) = serve(20_100, || Builder::plain().links("udp"));
    for host in ["127.0.0.1", "127.0.0.5", "::1", "[::1]"] {
        if host.contains(':') && UdpSocket::bind("[::1]:0").is_err() {
            println!("no IPv6 here");
            continue;
        }
        let answer = LookUp::new(host, number).timeout(PATIENCE).wait().unwrap();
        assert_eq!(answer.address, server.address(), "{host}");
        assert_eq!(
            answer.from.to_string(),
            format!("{}:{number}", if host == "::1" { "[::1]" } else { host })
        );
    }
}

#[test]
fn a_look_up_is_a_future() {
    let (server, number) = serve(20_200, local);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = client();
        let (one, two) =
            tokio::join!(client.find("127.0.0.1", number), client.find("localhost", number));
        assert_eq!(one.unwrap().peer, two.unwrap().peer, "the same endpoint is the same peer");
        drop(client.find("127.0.0.1", number)); // never asked
        let nobody = client.find("127.0.0.1", number + 50).timeout(PATIENCE).await;
        assert!(matches!(why(nobody), NotFound::NoSuchNumber));
    });
    drop(server);
}

#[test]
fn errors_tell_whether_host_number_or_secret_is_wrong() {
    let (open, open_number) = serve(20_300, local);
    let (_locked, locked_number) = serve(20_400, || local().secret(secret(SECRET)));
    let client = client();
    let find = |host: &str, number, secret| {
        client.find(host, number).secret(secret).timeout(PATIENCE).wait()
    };
    // No resolver is asked for a name with an empty part.
    let error = why(find("no..such..host", open_number, None));
    assert!(matches!(error, NotFound::UnknownHost { .. }), "{error:?}");
    let error = find("no..such..host", open_number, None).unwrap_err();
    assert!(error.to_string().contains("no such host (") && error.source().is_none(), "{error}");
    let error = why(find("127.0.0.1", 20_399, None));
    assert!(matches!(error, NotFound::NoSuchNumber), "{error:?}");
    let other = Some(secret([3; 16]));
    for (number, given) in [(locked_number, None), (locked_number, other), (open_number, other)] {
        let error = why(find("127.0.0.1", number, given));
        let is_given = given.is_some();
        assert!(
            matches!(error, NotFound::WrongSecret { is_given: told } if told == is_given),
            "{error:?}"
        );
        assert!(error.to_string().contains("PACKHORSE_SECRET_FILE"), "{error}");
    }
    assert!(find("127.0.0.1", locked_number, Some(secret(SECRET))).is_ok());
    // Whoever has the port and knows no look-ups says nothing.
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = mute.local_addr().unwrap().port();
    let found = client.find("127.0.0.1", port).timeout(Duration::from_millis(50)).wait();
    assert!(matches!(why(found), NotFound::Silent { error: None, .. }));
    drop(open);
}

#[test]
fn an_endpoint_looks_with_the_secret_it_was_opened_with() {
    let path = std::env::temp_dir().join(format!("packhorse-named-{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(file.write(true).create_new(true), 0o600);
    let digits: String = SECRET.iter().map(|byte| format!("{byte:02x}")).collect();
    file.open(&path).unwrap().write_all(digits.as_bytes()).unwrap();
    let with_file = || local().set("PACKHORSE_SECRET_FILE", path.to_str().unwrap());
    let (server, number) = serve(20_500, with_file);
    let client = with_file().open().unwrap();
    let found = client.find("127.0.0.1", number).timeout(PATIENCE).wait().unwrap();
    exchange(&client, found.peer, &server, 1_000);
    let error = self::client().find("127.0.0.1", number).timeout(PATIENCE).wait();
    assert!(matches!(why(error), NotFound::WrongSecret { is_given: false }));
    std::fs::remove_file(&path).unwrap();
    let error = with_file().open().unwrap_err().to_string();
    assert!(error.contains("PACKHORSE_SECRET_FILE") && error.contains("od -An"), "{error}");
}

#[test]
fn the_application_sees_who_asks_and_may_refuse() {
    let receive = |asker: &Greeting| match asker == &greeting("v2") {
        true => Reception::Welcome(greeting("welcome")),
        false => Reception::Refuse(greeting("v2 only")),
    };
    let (_server, number) = serve(20_600, || local().greeter(receive));
    let client = client();
    let found = client.find("127.0.0.1", number).greeting(greeting("v2")).timeout(PATIENCE).wait();
    assert_eq!(found.unwrap().greeting, greeting("welcome"));
    let error = client.find("127.0.0.1", number).greeting(greeting("v1")).timeout(PATIENCE).wait();
    let text = error.as_ref().unwrap_err().to_string();
    assert!(
        matches!(why(error), NotFound::Closed { greeting: said } if said == greeting("v2 only"))
    );
    assert!(text.contains(r#""v2 only""#) && text.contains("127.0.0.1"), "{text}");
}

#[test]
fn who_computes_is_found() {
    let (server, number) = serve(20_700, || local().placement(Placement::Inline));
    // Nobody turns the server from here on.
    let answer = LookUp::new("127.0.0.1", number).timeout(PATIENCE).wait().unwrap();
    assert_eq!(answer.address, server.address());
}

#[test]
fn a_number_has_one_owner_and_is_free_when_that_ends() {
    let (first, number) = serve(20_800, local);
    let error = local().named(number).open().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::NumberInUse { .. }), "{text}");
    let process = format!("process {} (", std::process::id());
    for words in ["in use by user ", &process, "choose another", &format!("number {number} ")] {
        assert!(text.contains(words), "{words:?}: {text}");
    }
    // Nor at all addresses, while somebody has one.
    assert!(matches!(Builder::plain().named(number).open(), Err(Error::NumberInUse { .. })));
    let nobody_starts = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    drop(first);
    let second = local().named(number).open().expect("free at once");
    drop(nobody_starts);
    let found = client().find("127.0.0.1", number).timeout(PATIENCE).wait().unwrap();
    assert_eq!(found.address, second.address());
}

#[test]
fn of_several_numbers_the_first_that_is_free_is_taken() {
    let numbers = 21_500_u16..21_600;
    let open = || local().named_one_of(numbers.clone()).open().unwrap();
    let servers = [open(), open(), open()];
    let taken: Vec<u16> = servers.iter().filter_map(Endpoint::number).collect();
    assert!(taken.len() == 3 && taken.is_sorted() && numbers.contains(&taken[2]), "{taken:?}");
    for (server, &number) in servers.iter().zip(&taken) {
        let found = client().find("127.0.0.1", number).timeout(PATIENCE).wait().unwrap();
        assert_eq!(found.address, server.address());
    }
    // If none is free the error is about the last.
    let error = local().named_one_of(taken.clone()).open().unwrap_err();
    assert!(matches!(error, Error::NumberInUse { number, .. } if number == taken[2]), "{error}");
}

/// Taken by who starts a process, and by who expects that a number is free: what is being started has copies of all our descriptors
/// until it becomes the program that it is to be.
static STARTING: Mutex<()> = Mutex::new(());

/// Set in a process that only serves: its number.
const VICTIM: &str = "PACKHORSE_TEST_NUMBER";

/// A process of its own that has this number, and says its address.
fn start_victim(number: u16) -> (Child, String) {
    let mut victim = Command::new(std::env::current_exe().unwrap());
    let name = "a_number_of_a_killed_process_is_free_at_once";
    victim.args(["--exact", name, "--nocapture"]).env(VICTIM, number.to_string());
    let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut victim = victim.stdout(Stdio::piped()).spawn().unwrap();
    drop(starting);
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let address = lines.find_map(|line| line.find("ph1:").map(|at| line[at..].to_owned()));
    (victim, address.expect("it serves"))
}

#[test]
fn a_number_of_a_killed_process_is_free_at_once() {
    if let Ok(number) = std::env::var(VICTIM) {
        let server = local().named(number.parse::<u16>().unwrap()).open().unwrap();
        println!("{}", server.address());
        loop {
            std::thread::park();
        }
    }
    let (free, number) = serve(20_900, local);
    drop(free);
    let (mut victim, address) = start_victim(number);
    let found = client().find("127.0.0.1", number).timeout(PATIENCE).wait().unwrap();
    assert_eq!(found.address.to_string(), address);
    let text = local().named(number).open().unwrap_err().to_string();
    assert!(text.contains(&format!("process {} (", victim.id())), "{text}");
    victim.kill().unwrap(); // SIGKILL
    victim.wait().unwrap();
    let next = local().named(number).open().expect("free at once");
    let found = client().find("127.0.0.1", number).timeout(PATIENCE).wait().unwrap();
    assert_eq!(found.address, next.address());
}

/// A user who is not this one, for root to be.
const NOBODY: u32 = 65534;

/// Set in a process of another user, who wants this number, and says what came of it.
const RIVAL: &str = "PACKHORSE_TEST_RIVAL";

/// The other user's word on a number: that it is in use, and by whom.
fn word_of_rival(number: u16) -> std::io::Result<String> {
    use std::os::unix::process::CommandExt as _;
    let mut rival = Command::new(std::env::current_exe().unwrap());
    rival.args(["--exact", "two_users_do_not_get_one_number", "--nocapture"]).uid(NOBODY);
    let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let output = rival.env(RIVAL, number.to_string()).output();
    drop(starting);
    Ok(String::from_utf8_lossy(&output?.stdout).into_owned())
}

#[test]
fn two_users_do_not_get_one_number() {
    if let Ok(number) = std::env::var(RIVAL) {
        // Where `bind` to one address would not help either: the whole host is wanted, and one address of it.
        for builder in [local(), Builder::plain().links("udp")] {
            let error = builder.named(number.parse::<u16>().unwrap()).open().unwrap_err();
            println!("rival: {error}");
        }
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can be another user");
        return;
    }
    let (owner, number) = serve(21_600, local);
    let said = match word_of_rival(number) {
        Ok(said) => said,
        // Not a file that everybody may run.
        Err(error) => return eprintln!("left out: {error}"),
    };
    let words: Vec<&str> = said.lines().filter(|line| line.contains("rival: ")).collect();
    assert_eq!(words.len(), 2, "{said}");
    for line in words {
        assert!(line.contains(&format!("number {number} ")), "{line}");
        assert!(line.contains("in use by user root"), "{line}");
    }
    // The first still has it, and its clients find it.
    let found = client().find("127.0.0.1", number).timeout(PATIENCE).wait().unwrap();
    assert_eq!(found.address, owner.address());
}

#[test]
fn who_found_a_server_may_not_use_its_memory_unless_everybody_may() {
    let (server, number) = serve(21_000, local);
    let any = server.expose(vec![0; 8], 1, Access::ALL).unwrap();
    let everybody = server.expose_to(Peers::Everybody, vec![0; 8], 2, Access::ALL).unwrap();
    let client = client();
    let peer = client.find("127.0.0.1", number).timeout(PATIENCE).wait().unwrap().peer;
    let denied = client.put(peer.memory(1), vec![1; 8]).wait().unwrap_err();
    assert!(matches!(denied.error, Error::Denied { .. }), "{denied}");
    client.put(peer.memory(2), vec![2; 8]).wait().unwrap();
    assert_eq!((any.read(0, 8).unwrap(), everybody.read(0, 8).unwrap()), (vec![0; 8], vec![2; 8]));
    server.peer(&client.address()).unwrap();
    client.put(peer.memory(1), vec![1; 8]).wait().unwrap();
    assert_eq!(any.read(0, 8).unwrap(), [1; 8]);
}

/// A socket that speaks to a door without any help of ours.
fn raw(number: u16) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", Number::new(number).port())).unwrap();
    socket
}

fn question(number: u16, nonce: u64, secret: Secret) -> [u8; LOOKUP_LEN] {
    let greeting = Greeting::default();
    FindRepr { versions: 0x11, number, nonce: [nonce, 1], greeting }.write(secret)
}

/// The next answer. There is one: it is asked for again until it comes.
fn answer(socket: &UdpSocket, question: &[u8]) -> Vec<u8> {
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut room = [0; 1000];
    for _ in 0..300 {
        socket.send(question).unwrap();
        if let Ok(len) = socket.recv(&mut room) {
            return room[..len].to_vec();
        }
    }
    panic!("no answer");
}

#[test]
fn a_recorded_question_gets_nothing_that_can_be_read() {
    let (server, number) = serve(21_100, || local().secret(secret(SECRET)));
    let question = question(number, 77, key(SECRET)); // as it was recorded
    let thief = raw(number);
    let answers = [answer(&thief, &question), answer(&raw(number), &question)];
    let clear = server.address().encode();
    for frame in &answers {
        assert_eq!(frame.len(), question.len(), "no longer than the question");
        let shows = |word: &[u8]| word != [0; 8] && frame.windows(8).any(|at| at == word);
        assert!(!clear.chunks(8).any(shows));
        let view = NamedView::read(frame).unwrap();
        assert_eq!(view.content(Secret::PUBLIC).0, None);
        assert_eq!(view.content(key(SECRET)).0, Some(server.address()), "it is in there");
    }
    assert!(answers[0][56..].iter().zip(&answers[1][56..]).filter(|(a, b)| a == b).count() < 20);
}

#[test]
fn what_is_forged_or_reflected_gets_no_address() {
    let (server, number) = serve(21_200, || local().secret(secret(SECRET)));
    let thief = raw(number);
    for secret in [Secret::PUBLIC, key([4; 16])] {
        let refusal = answer(&thief, &question(number, 1, secret));
        let view = NamedView::read(&refusal).unwrap();
        assert_eq!((view.code(), refusal.len()), (2, LOOKUP_LEN));
        assert!(view.is_keyed(Secret::PUBLIC) && view.content(Secret::PUBLIC).0.is_none());
    }
    // An answer of its own, sent back to it, and other things that are no questions.
    let address: Address = server.address();
    let reflected = NamedRepr {
        code: 0,
        number,
        versions: 0x11,
        nonce: [1, 1],
        salt: 1,
        address: Some(address),
        greeting: Greeting::default(),
    };
    let mut long = question(number, 2, key(SECRET)).to_vec();
    long.push(0);
    for nonsense in [&reflected.write(key(SECRET))[..], &long, &long[..151], b"", b"who?"] {
        thief.send(nonsense).unwrap();
    }
    // What comes next is the answer to this: nonsense got none.
    let honest = question(number, 3, key(SECRET));
    let nonce = NamedView::read(&answer(&thief, &honest)).unwrap().nonce();
    assert_eq!(nonce, FindView::read(&honest).unwrap().nonce());
}

#[test]
fn a_flood_at_the_door_harms_no_transfer_and_nobody_s_search_for_long() {
    let (server, number) = serve(21_300, local);
    let client = client();
    let peer = client.find("127.0.0.1", number).timeout(PATIENCE).wait().unwrap().peer;
    let (is_over, sent) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = raw(number);
            let right = question(number, 9, Secret::PUBLIC);
            while !is_over.load(Ordering::Relaxed) {
                let _ = socket.send(&right);
                sent.fetch_add(1, Ordering::Relaxed);
            }
        });
        while sent.load(Ordering::Relaxed) < 20_000 {
            exchange(&client, peer, &server, 300_000);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let found = client.find("127.0.0.1", number).timeout(PATIENCE).wait().unwrap();
    assert_eq!(found.address, server.address());
    let answers = server.counters().iter().find(|it| it.0 == "door_answers").map(|it| it.1);
    assert!(
        answers > Some(1) && answers <= Some(u64::from(sent.into_inner()) + 200),
        "{answers:?}"
    );
}

#[test]
fn clients_that_come_and_go_find_the_server_each_time() {
    let limits = packhorse::Limits { peer_count_max: 8, ..packhorse::Limits::default() };
    let (server, number) = serve(21_400, || local().limits(limits.clone()));
    for round in 0..50 {
        let client = client();
        let found = client.find("127.0.0.1", number).timeout(PATIENCE).wait().unwrap();
        exchange(&client, found.peer, &server, 100);
        assert_eq!(found.address, server.address(), "round {round}");
    }
    let counters = server.counters();
    let count = |name: &str| counters.iter().find(|it| it.0 == name).map(|it| it.1);
    assert!(
        count("door_answers") >= Some(50) && count("strangers_forgotten") >= Some(42),
        "{counters:?}"
    );
}
