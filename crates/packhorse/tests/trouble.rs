//! What can go wrong between two processes: each a clear error in bounded time, or no error at all.

use std::error::Error as _;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use packhorse::{
    Address, Builder, Endpoint, Error, LinkError, Placement, SettingsError, UdpError, Wanted,
};
use rustix::process::{Pid, Signal, kill_process};

/// What has not happened by then does not happen, on a machine with much to do either.
const PATIENCE: Duration = Duration::from_secs(60);

/// Set for the process that plays the other side.
const ROLE: &str = "TROUBLE_TEST_ROLE";

/// An echo in another process; killed when dropped.
struct Other {
    child: Child,
    address: Address,
    /// What it says after its address.
    lines: Receiver<String>,
}

impl Drop for Other {
    fn drop(&mut self) {
        self.child.kill().ok(); // perhaps it was killed before
        self.child.wait().ok();
    }
}

impl Other {
    /// `role`: `echo` answers each message; `half` posts a receive of 64 MB, takes some of it, says so, and stands still.
    fn start(role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "other_side", "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut all = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = all.find_map(|line| {
            let start = line.find("ph1:")?;
            line[start..].trim().parse().ok()
        });
        let (heard, lines) = mpsc::channel();
        std::thread::spawn(move || all.try_for_each(|line| heard.send(line)).ok());
        Self { address: address.expect("the other side printed its address"), child, lines }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Stops it, and returns when each of its threads has stopped.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let is_stopped = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        let tasks = format!("/proc/{}/task", self.child.id());
        while !std::fs::read_dir(&tasks).unwrap().map_while(Result::ok).all(is_stopped) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Not a test of its own: the other side of the others.
#[test]
fn other_side() {
    let Ok(role) = std::env::var(ROLE) else { return };
    if role == "half" {
        return take_some_and_stand_still();
    }
    let endpoint = Builder::plain().bind([127, 0, 0, 1]).open().unwrap();
    println!("{}", endpoint.address());
    loop {
        let message = endpoint.recv(Wanted::any(), vec![0; 1 << 20]).wait().unwrap();
        let peer = message.envelope.source;
        drop(endpoint.send(peer, message.envelope.tag, message.buffer));
    }
}

/// Nobody turns the endpoint from then on: however slow the sender is, its message does not end.
fn take_some_and_stand_still() {
    let builder = Builder::plain().bind([127, 0, 0, 1]).placement(Placement::Inline);
    let endpoint = builder.open().unwrap();
    println!("{}", endpoint.address());
    let _posted = endpoint.recv(Wanted::any(), vec![0; 64 << 20]);
    let has_some = |endpoint: &Endpoint| {
        let counters = endpoint.counters();
        let mut arrived = counters.iter().filter(|(name, _)| name.ends_with("_bytes_in"));
        arrived.any(|&(_, len)| len > 4 << 20)
    };
    while !has_some(&endpoint) {
        endpoint.turn();
    }
    println!("has some");
    std::thread::sleep(Duration::from_secs(600)); // it is killed
}

fn open(placement: Placement) -> Endpoint {
    let builder = Builder::plain().bind([127, 0, 0, 1]).placement(placement);
    builder.gone_after(Duration::from_secs(3)).linger(Duration::from_millis(200)).open().unwrap()
}

/// Where an endpoint is reached.
fn port_of(address: &Address) -> u16 {
    packhorse_link::udp::from_locator(&address.locator.0).unwrap().port()
}

const PLACEMENTS: [Placement; 2] = [Placement::Inline, Placement::Thread];

#[test]
fn a_peer_killed_in_the_middle_is_gone_and_named() {
    for placement in PLACEMENTS {
        let mut other = Other::start("half");
        let endpoint = open(placement);
        let peer = endpoint.peer(&other.address).unwrap();
        let mut going = endpoint.send(peer, 1, vec![7; 64 << 20]);
        let start = Instant::now();
        while other.lines.try_recv().is_err() {
            assert!(going.wait_timeout(Duration::from_millis(5)).is_none(), "all of it came");
            assert!(start.elapsed() < PATIENCE, "nothing of it comes");
        }
        other.child.kill().unwrap();
        other.child.wait().unwrap();
        let start = Instant::now();
        let failed = going.wait().unwrap_err();
        assert!(start.elapsed() < PATIENCE, "took {:?}", start.elapsed());
        assert!(matches!(failed.error, Error::Gone { .. }), "{failed}");
        assert!(failed.to_string().contains("127.0.0.1:"), "{failed}");
        assert_eq!(failed.buffer.unwrap().len(), 64 << 20, "the buffer comes back");
    }
}

#[test]
fn a_peer_that_is_stopped_is_silent_not_gone() {
    let other = Other::start("echo");
    let endpoint = Builder::plain().bind([127, 0, 0, 1]).open().unwrap();
    let peer = endpoint.peer(&other.address).unwrap();
    endpoint.send(peer, 1, vec![1; 10]).wait().unwrap();
    endpoint.recv(Wanted::tag(1), vec![0; 10]).wait().unwrap();
    other.stop();
    let mut answer = endpoint.recv(Wanted::tag(2), vec![0; 100_000]);
    let going = endpoint.send(peer, 2, vec![2; 100_000]);
    let pause = std::env::var("TROUBLE_PAUSE_S").ok().and_then(|s| s.parse().ok()).unwrap_or(4);
    assert!(answer.wait_timeout(Duration::from_secs(pause)).is_none());
    other.signal(Signal::CONT);
    assert_eq!(answer.wait().unwrap().buffer, [2; 100_000]);
    going.wait().unwrap();
}

#[test]
fn another_process_at_the_same_port_gets_nothing() {
    let (port, peer_address) = {
        let first = Builder::plain().bind([127, 0, 0, 1]).open().unwrap();
        (port_of(&first.address()), first.address())
    };
    let second = Builder::plain().bind([127, 0, 0, 1]).ports(port..=port).open().unwrap();
    let endpoint = open(Placement::Thread);
    let peer = endpoint.peer(&peer_address).unwrap();
    let failed = endpoint.send(peer, 1, vec![0; 10]).wait().unwrap_err();
    assert!(matches!(failed.error, Error::Gone { .. }), "{failed}");
    assert!(second.probe(Wanted::any()).is_none());
    let unkeyed = second.counters().into_iter().find(|(name, _)| name == "frames_unkeyed");
    assert!(unkeyed.unwrap().1 > 0);
}

#[test]
fn a_port_in_use_is_named() {
    let first = Builder::plain().bind([127, 0, 0, 1]).open().unwrap();
    let port = port_of(&first.address());
    let error = Builder::plain().bind([127, 0, 0, 1]).ports(port..=port).open().unwrap_err();
    assert!(error.to_string().contains(&port.to_string()), "{error}");
    let error = Builder::plain().bind([192, 0, 2, 77]).open().unwrap_err();
    assert!(error.to_string().contains("192.0.2.77"), "{error}");
}

#[test]
fn a_capture_that_cannot_be_written_is_named() {
    let error =
        Builder::plain().bind([127, 0, 0, 1]).capture("/nowhere/at/all.pcapng").open().unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all.pcapng"), "{error}");
}

#[test]
fn settings_without_sense_are_named() {
    let error = Builder::plain().settings(|settings| settings.ack_every = 0).open().unwrap_err();
    assert!(error.to_string().contains("ack_every"), "{error}");
}

#[test]
fn an_endpoint_dropped_with_requests_pending_ends_them() {
    for placement in PLACEMENTS {
        let other = Other::start("echo");
        let endpoint = open(placement);
        let peer = endpoint.peer(&other.address).unwrap();
        let coming = endpoint.recv(Wanted::tag(77).from(peer), vec![5; 10]);
        let start = Instant::now();
        drop(endpoint);
        let failed = coming.wait().unwrap_err();
        assert!(matches!(failed.error, Error::Closed), "{failed}");
        assert_eq!(failed.buffer.unwrap(), [5; 10]);
        assert!(start.elapsed() < PATIENCE);
    }
}

#[test]
fn what_is_leaked_does_no_harm() {
    let endpoint = open(Placement::Thread);
    let me = endpoint.peer(&endpoint.address()).unwrap();
    std::mem::forget(endpoint.recv(Wanted::tag(1), vec![0; 1000]));
    endpoint.send(me, 1, vec![1; 1000]).wait().unwrap();
    std::mem::forget(endpoint.send(me, 2, vec![1; 1 << 20]));
    std::mem::forget(endpoint.clone());
    let start = Instant::now();
    while endpoint.probe(Wanted::tag(2)).is_none() {
        assert!(start.elapsed() < PATIENCE, "what was posted is not announced");
    }
    drop(endpoint);
}

#[test]
fn closing_ends_every_request_in_the_time_given() {
    for placement in PLACEMENTS {
        let other = Other::start("echo");
        let builder = Builder::plain().bind([127, 0, 0, 1]).placement(placement);
        let endpoint = builder.open().unwrap();
        let peer = endpoint.peer(&other.address).unwrap();
        endpoint.send(peer, 1, vec![1; 10]).wait().unwrap();
        other.stop();
        let going = endpoint.send(peer, 2, vec![2; 1 << 20]);
        let start = Instant::now();
        assert!(!endpoint.clone().close(Duration::from_millis(300)), "nobody accepted it");
        assert!(start.elapsed() < PATIENCE, "took {:?}", start.elapsed());
        let failed = going.wait().unwrap_err();
        assert!(matches!(failed.error, Error::Closed), "{failed}");
        assert_eq!(failed.buffer.unwrap().len(), 1 << 20);
        assert!(
            endpoint.send(peer, 3, vec![3]).wait().is_err(),
            "it is closed for its clones, too"
        );
        other.signal(Signal::CONT);
    }
}

#[test]
fn a_blocked_port_is_an_error_that_names_both_ends() {
    // A socket that nobody reads stands for a firewall: frames vanish without a word.
    let hole = UdpSocket::bind("127.0.0.1:0").unwrap();
    let there = hole.local_addr().unwrap();
    let mut address = {
        let model = Builder::plain().bind([127, 0, 0, 1]).open().unwrap();
        model.address()
    };
    address.locator.0 = packhorse_link::udp::to_locator(there);
    let endpoint = open(Placement::Thread);
    let peer = endpoint.peer(&address).unwrap();
    let start = Instant::now();
    let failed = endpoint.send(peer, 1, vec![1; 10]).wait().unwrap_err();
    assert!(start.elapsed() < PATIENCE, "took {:?}", start.elapsed());
    let text = failed.to_string();
    let names = [there.to_string(), "(from 127.0.0.1:".into(), "firewall".into()];
    assert!(names.iter().all(|name| text.contains(name)), "{text}");
}

/// Its port is there, and whatever is sent to it vanishes: what a firewall makes of a host.
#[test]
fn who_never_answers_is_named_with_all_that_was_tried() {
    let address = Builder::plain().bind([127, 0, 0, 1]).open().unwrap().address();
    let _mute = UdpSocket::bind(("127.0.0.1", port_of(&address))).unwrap();
    let builder = Builder::plain().bind([127, 0, 0, 1]).linger(Duration::from_millis(200));
    let endpoint = builder.contact_after(Duration::from_millis(800)).open().unwrap();
    let peer = endpoint.peer(&address).unwrap();
    let start = Instant::now();
    let failed = endpoint.send(peer, 1, vec![0; 10]).wait().unwrap_err();
    let took = start.elapsed();
    assert!(took > Duration::from_millis(500) && took < PATIENCE, "{took:?}");
    let text = failed.to_string();
    let pair = format!(" to 127.0.0.1:{}: no answer", port_of(&address));
    assert!(text.contains("nothing of it ever came") && text.contains(&pair), "{text}");
    assert!(text.contains("tried: udp 127.0.0.1:"), "{text}");
}

#[test]
fn one_without_a_helper_may_answer_late() {
    let builder = Builder::plain().bind([127, 0, 0, 1]).placement(Placement::Inline);
    let computing = builder.open().unwrap();
    let endpoint = Builder::plain().bind([127, 0, 0, 1]);
    let endpoint = endpoint.contact_after(Duration::from_millis(200)).open().unwrap();
    let peer = endpoint.peer(&computing.address()).unwrap();
    let going = endpoint.send(peer, 1, vec![3; 10]);
    std::thread::sleep(Duration::from_millis(1500)); // nobody turns it meanwhile
    let got = computing.recv(Wanted::tag(1), vec![0; 10]).wait().unwrap();
    assert_eq!(got.buffer, [3; 10]);
    going.wait().unwrap();
}

/// Whoever opens an endpoint can tell reasons apart without reading words.
#[test]
fn what_cannot_be_opened_says_why_by_type() {
    let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let builder = Builder::plain().links("udp").bind(Ipv4Addr::LOCALHOST);
    let error = builder.clone().ports(port..=port).open().unwrap_err();
    let Error::Link(link) = &error else { panic!("{error}") };
    assert!(matches!(**link, LinkError::Udp(UdpError::PortsInUse { .. })), "{error}");
    assert_eq!(error.to_string(), link.to_string());
    assert!(error.source().is_none(), "all that is known is said");

    let error = builder.clone().capture("/nowhere/at/all.pcapng").open().unwrap_err();
    assert!(error.to_string().starts_with("cannot capture to /nowhere/at/all.pcapng: "), "{error}");
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::NotFound));

    let error = builder.settings(|settings| settings.ack_every = 0).open().unwrap_err();
    let Error::OutOfRange(SettingsError { name, .. }) = error else { panic!("{error}") };
    assert_eq!(name, "ack_every");
}

/// One thread closes the endpoint, another holds a clone and goes on as if nothing had happened.
#[test]
fn an_endpoint_that_was_closed_is_driven_in_vain_and_says_that_it_is_closed() {
    for placement in [Placement::Inline, Placement::Thread] {
        let nobody = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(); // swallows all
        let mut lost = Endpoint::local().unwrap().address();
        lost.locator.0 = packhorse_link::udp::to_locator(nobody.local_addr().unwrap());
        let builder = Builder::new().bind(Ipv4Addr::LOCALHOST);
        let endpoint = builder.placement(placement).open().unwrap();
        let peer = endpoint.peer(&lost).unwrap();
        let mut pending = endpoint.recv(Wanted::tag(1), vec![0; 10]);
        let unsent = endpoint.send(peer, 1, vec![0; 1 << 20]);
        assert!(!endpoint.clone().close(Duration::from_millis(20)), "nobody accepted it");
        let is_closed = |error: &Error| matches!(error, Error::Closed);
        assert!(is_closed(&pending.test().unwrap().unwrap_err().error), "{placement:?}");
        assert!(is_closed(&unsent.wait().unwrap_err().error), "{placement:?}");
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(100) {
            assert_eq!(endpoint.turn(), 0);
            assert!(endpoint.probe(Wanted::tag(1)).is_none());
        }
        assert!(is_closed(&endpoint.send(peer, 1, vec![0; 10]).wait().unwrap_err().error));
        assert!(is_closed(&endpoint.recv(Wanted::tag(1), vec![0; 10]).wait().unwrap_err().error));
        endpoint.notices();
    }
}
