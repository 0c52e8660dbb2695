//! Those who have less than they claim: the secret, or the identity.
//!
//! Another user of the host who knows all of an address but its secret: port, shared-memory name, identity, key and range of
//! exposed memory. What he puts goes nowhere, and is counted.
//!
//! He is this test program again, started by root under a user id that owns nothing; where root does not run the tests, under our own,
//! which the secret holds against just as well. With the secret the same program does write: it is nothing else that stops it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use packhorse::raw::{Denial, Failure, Memory, Remote};
use packhorse::{Access, Address, Builder, Endpoint, Peers, Placement, Wanted};
use packhorse_engine::{Config, Engine, Outcome};
use packhorse_link::udp::{Udp, UdpConfig};
use packhorse_proto::{Identity, OperationKind};

const VICTIM: &str = "PACKHORSE_FORGED_VICTIM";
const LINK: &str = "PACKHORSE_FORGED_LINK";
const KEY: u64 = 0xFEED;
const NOBODY: u32 = 65_534;
/// One frame, and one that goes by grants.
const LENS: [usize; 2] = [64, 300_000];
/// Seconds for which he waits for the end of his puts.
const PATIENCE_S: &str = "PACKHORSE_FORGED_PATIENCE_S";

/// A copy of this program that every user may start, whoever owns the folder it was built in.
struct Program(PathBuf);

impl Program {
    fn new(name: &str) -> Self {
        let program = Self(
            std::env::temp_dir().join(format!("packhorse-forged-{name}-{}", std::process::id())),
        );
        // Another process copies it: what other tests start meanwhile would inherit our descriptor, and the system runs no file that
        // somebody has open for writing.
        let copied =
            Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program.0).status();
        assert!(copied.unwrap().success());
        fs::set_permissions(&program.0, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    /// Lets somebody else put into the memory behind this address; whether he says that he did. Who must be let in may need long on
    /// a busy machine; who must not be is not let in sooner there.
    fn puts(&self, address: &Address, link: &str, patience_s: u64) -> bool {
        let mut other = Command::new(&self.0);
        other.args(["--exact", "somebody_else", "--ignored", "--nocapture"]).current_dir("/");
        other.env(VICTIM, address.to_string()).env(LINK, link);
        other.env(PATIENCE_S, patience_s.to_string());
        if rustix::process::geteuid().is_root() {
            other.uid(NOBODY).gid(NOBODY);
        }
        let output = other.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains("it came to "), "{output:?}");
        said.contains("it came to 2 puts")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok(); // a test that failed early may not have made it
    }
}

fn open(link: &str) -> Endpoint {
    let builder = Builder::plain().bind([127, 0, 0, 1]).placement(Placement::Thread);
    builder.links(link).linger(Duration::from_millis(100)).open().unwrap()
}

/// What somebody else does; alone it does nothing.
#[test]
#[ignore = "is a part of the others"]
fn somebody_else() {
    let (Ok(victim), Ok(link)) = (std::env::var(VICTIM), std::env::var(LINK)) else { return };
    let endpoint = open(&link);
    let there = endpoint.peer(&victim.parse().unwrap()).unwrap().memory(KEY);
    let patience_s = std::env::var(PATIENCE_S).unwrap().parse().unwrap();
    let patience = Duration::from_secs(patience_s);
    let mut puts = LENS.map(|len| endpoint.put(there, vec![0xEE; len]));
    let ended = puts.iter_mut().map(|put| put.wait_timeout(patience));
    let count = ended.filter(|end| matches!(end, Some(Ok(_)))).count();
    println!("it came to {count} puts");
}

fn unkeyed_count(endpoint: &Endpoint) -> u64 {
    let counters = endpoint.counters();
    counters.iter().find(|(name, _)| name == "frames_unkeyed").map_or(0, |&(_, count)| count)
}

#[test]
fn who_knows_all_but_the_secret_writes_nothing() {
    let program = Program::new("put");
    let len = LENS[1];
    for link in ["udp", "shm"] {
        let victim = open(link);
        let region = victim.expose(vec![7; len], KEY, Access::ALL).unwrap();
        let mut forged = victim.address();
        forged.secret.0[0] ^= 1;
        assert!(!program.puts(&forged, link, 2), "{link}: forged puts ended well");
        assert!(region.read(0, len).unwrap() == vec![7; len], "{link}: the memory was touched");
        assert!(unkeyed_count(&victim) > 0, "{link}: nothing of his came as far as the check");
        assert!(program.puts(&victim.address(), link, 60), "{link}: with the secret he may");
        assert!(region.read(0, len).unwrap() == vec![0xEE; len], "{link}: and does");
    }
}

/// Long enough for a loaded machine.
const GENEROUS: Duration = Duration::from_secs(60);

/// An endpoint that calls itself what another is called, with a secret of its own: the identity is not secret.
fn impostor(of: Identity) -> std::sync::Arc<Engine> {
    let config = Config { placement: Placement::Thread, identity: Some(of), ..Config::default() };
    let udp = UdpConfig { bind: ([127, 0, 0, 1], 0).into(), ..UdpConfig::default() };
    Engine::open(config, vec![Box::new(Udp::open(&udp).unwrap())]).unwrap()
}

/// What a read of the victim's memory comes to.
fn read_by(engine: &Engine, victim: &Address) -> Outcome {
    let peer = engine.add_peer(victim).unwrap();
    let from = Remote { peer, key: KEY, offset: 0 };
    let get = engine.get(from, Memory::from(vec![0; 64]), None).unwrap();
    engine.wait(get, Some(GENEROUS)).expect("an answer").outcome
}

#[test]
fn who_calls_himself_what_a_named_peer_is_called_gets_nothing_of_it() {
    let (victim, friend) = (open("udp"), open("udp"));
    let _region = victim
        .expose_to(Peers::Named, vec![7; 64], KEY, Access::ALL)
        .map_err(|failed| failed.error)
        .unwrap();
    let named = victim.peer(&friend.address()).unwrap();
    let to_victim = friend.peer(&victim.address()).unwrap();
    // Something between the two that must not be disturbed: a receive from the friend alone.
    let mut waiting = victim.recv(Wanted::tag(1).from(named), vec![0; 8]);
    friend.send_copy(to_victim, 2, b"hello").unwrap();
    let mut first = victim.recv(Wanted::tag(2), vec![0; 8]);
    assert_eq!(first.wait_timeout(GENEROUS).unwrap().unwrap().envelope.source, named);

    let impostor = impostor(friend.address().identity);
    let outcome = read_by(&impostor, &victim.address());
    let denied = matches!(
        outcome,
        Outcome::Operated {
            kind: OperationKind::Get,
            result: Err(Failure::Denied(Denial::NoKey)),
            ..
        }
    );
    assert!(denied, "{outcome:?}");
    assert!(waiting.test().is_none(), "the friend has neither sent nor left");
    friend.send_copy(to_victim, 1, b"still me").unwrap();
    assert_eq!(waiting.wait_timeout(GENEROUS).unwrap().unwrap().buffer, b"still me");
    let mut read = friend.get(to_victim.memory(KEY), vec![0; 64]);
    assert_eq!(read.wait_timeout(GENEROUS).unwrap().unwrap(), vec![7; 64]);
}
