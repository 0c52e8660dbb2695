//! The program across a control connection: `serve` and `--peer`, and all that can go wrong with them.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use packhorse::{Address, Endpoint};
use packhorse_bench::row::Findings;
use packhorse_link::udp;

/// As the parser of addresses does, only the other way round.
fn address_at(place: SocketAddr) -> Address {
    let mut address = Endpoint::local().expect("an endpoint").address();
    address.locator.0 = udp::to_locator(place);
    address
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What has not happened by then does not happen, on a machine with much to do either.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs it to its end; it fails with status 2 and says all of these words.
fn fails(args: &[&str], words: &[&str]) {
    fails_with(command(args), words);
}

fn fails_with(mut command: Command, words: &[&str]) {
    let start = Instant::now();
    let output = command.output().expect("the program starts");
    check_failure(&output, words);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

fn check_failure(output: &Output, words: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    for word in words {
        assert!(error.contains(word), "{word:?}: {error}");
    }
}

/// A server that dies with the test.
struct Server {
    child: Child,
    address: String,
    log: Receiver<String>,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let all = [&["serve", "--bind", "127.0.0.1"][..], args].concat();
        let mut child = command(&all).spawn().expect("the program starts");
        let log = lines(child.stdout.take().expect("a pipe"));
        let mut server = Self { child, address: String::new(), log };
        server.address = server.wait_for("ph1:");
        server
    }

    /// The next line of its log with these words.
    fn wait_for(&self, words: &str) -> String {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            match self.log.recv_timeout(Duration::from_secs(1)) {
                Ok(line) if line.contains(words) => return line,
                _ => {}
            }
        }
        panic!("the server did not say {words:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok(); // it may have been killed by the test
        self.child.wait().ok();
    }
}

fn lines(out: ChildStdout) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

#[test]
fn all_systems_are_measured_against_a_server() {
    let server = Server::start(&["--ports", "47310-47319"]);
    for pattern in ["pingpong", "stream", "rate"] {
        let args = ["bench", pattern, "--peer", &server.address, "--bytes", "1000"];
        let short = ["--seconds", "0.05", "--reps", "1", "--json", "/dev/stdout"];
        let output = command(&[&args[..], &short].concat()).output().expect("the program starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{pattern}: {error}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!text.contains(&server.address), "the address is a secret: {text}");
        let from = text.find("{\n").expect("rows");
        let mut rows = serde_json::Deserializer::from_str(&text[from..]).into_iter::<Findings>();
        let findings = rows.next().expect("findings").expect("as promised");
        assert_eq!(findings.rows.len(), 3, "{findings:?}");
        assert_eq!(findings.machine.peer.as_deref(), Some("127.0.0.1"));
        server.wait_for("3 measurements, done");
    }
}

#[test]
fn address_that_is_none_is_an_error() {
    fails(&["bench", "pingpong", "--peer", "nonsense"], &["nonsense", "ph1:"]);
    let whole = address_at("127.0.0.1:9".parse().expect("a place")).to_string();
    fails(&["compare", "--quick", "--peer", &whole[..50]], &["86 characters"]);
    let mut damaged = whole.clone().into_bytes();
    damaged[20] ^= 1;
    let damaged = String::from_utf8(damaged).expect("text");
    fails(&["bench", "rate", "--peer", &damaged], &["Packhorse address"]);
    fails(&["bench", "rate", "--peer", &whole, "--two-hosts"], &["--two-hosts"]);
}

#[test]
fn nobody_there_is_told_without_waiting_for_silence() {
    let port = {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.local_addr().expect("bound")
    };
    let address = address_at(port).to_string();
    let number = format!("UDP port {}", port.port());
    // Told, not found out by silence.
    let words = ["no server at UDP port", "127.0.0.1", &number, "What to check"];
    fails(&["bench", "pingpong", "--peer", &address], &words);
}

/// A port whose packets vanish: what a firewall does.
#[test]
fn blocked_port_is_named_with_direction_and_host() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let place = silent.local_addr().expect("bound");
    let address = address_at(place).to_string();
    let number = format!("UDP port {}", place.port());
    let words = ["no answer from 127.0.0.1", &number, "in: ", "out: ", "answers back"];
    fails(&["bench", "pingpong", "--peer", &address], &words);
}

#[test]
fn server_that_is_killed_is_named() {
    let mut server = Server::start(&[]);
    let args = ["bench", "stream", "--seconds", "60", "--systems", "packhorse", "--peer"];
    let client = command(&[&args[..], &[&server.address]].concat()).spawn().expect("it starts");
    server.wait_for("first measurement"); // it has the server's answer by then
    server.child.kill().expect("it runs");
    let output = client.wait_with_output().expect("it ends");
    check_failure(&output, &["lost the server at 127.0.0.1:", "in the middle"]);
}

#[test]
fn client_that_is_killed_makes_room_and_another_is_told_to_wait() {
    let server = Server::start(&[]);
    let args = ["bench", "stream", "--seconds", "60", "--systems", "tcp", "--peer"];
    let args = [&args[..], &[&server.address]].concat();
    let mut client = command(&args).spawn().expect("it starts");
    server.wait_for("begins");
    fails(&args, &["measuring with 127.0.0.1 just now", "try again"]);
    client.kill().expect("it runs");
    client.wait().expect("it was started");
    server.wait_for("given up");
}

#[test]
fn measurements_without_bounds_are_refused() {
    let server = Server::start(&[]);
    let peer = server.address.as_str();
    fails(&["bench", "stream", "--seconds", "3600", "--peer", peer], &["60 s at most"]);
    fails(&["bench", "stream", "--bytes", "1G", "--peer", peer], &["up to 64 MB"]);
}

#[test]
fn ports_in_use_are_named() {
    // Ports of its own for this test; if another program has them, so much the better.
    let held: Vec<_> = (47320..=47323).map(|port| UdpSocket::bind(("127.0.0.1", port))).collect();
    let args = ["serve", "--bind", "127.0.0.1", "--ports", "47320-47323"];
    fails(&args, &["47320", "47323", "in use"]);
    drop(held);
    fails(&["serve", "--ports", "7000"], &["7000-7009"]);
    fails(&["serve", "--bind", "192.0.2.77"], &["192.0.2.77"]);
    fails(&["serve", "--bind", "here"], &["here"]);
}

#[test]
fn unknown_setting_in_the_environment_is_named() {
    for args in [&["serve"][..], &["bench", "pingpong"]] {
        let mut command = command(args);
        command.env("PACKHORSE_PLACEMNT", "inline");
        fails_with(command, &["PACKHORSE_PLACEMNT", "PACKHORSE_PLACEMENT"]);
    }
    let mut command = command(&["compare", "--quick"]);
    command.env("PACKHORSE_PORTS", "9-1");
    fails_with(command, &["PACKHORSE_PORTS=9-1"]);
}

#[test]
fn info_shows_links_and_settings() {
    let mut command = command(&["info"]);
    let output = command.env("PACKHORSE_SPIN_US", "77").output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    for words in ["kernel ", "link udp: frames", "by default: link auto", "PACKHORSE_LINK"] {
        assert!(text.contains(words), "{words:?}: {text}");
    }
    let line = text.lines().find(|line| line.contains("PACKHORSE_SPIN_US")).expect("its line");
    assert!(line.contains("77"), "{line}");
}

/// As a user without rights, in a user namespace that allows no further ones.
#[test]
fn no_namespaces_for_two_hosts_says_what_to_do() {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && echo 0 > /proc/sys/user/max_net_namespaces && exec \"$@\"";
    let unshare = ["--user", "--map-root-user", "sh", "-c", script, "sh"];
    let program = env!("CARGO_BIN_EXE_packhorse");
    let mut child = Command::new("unshare")
        .args(unshare)
        .args([program, "bench", "pingpong", "--two-hosts"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare is part of every Linux system");
    let mut error = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut error).expect("text");
    child.wait().expect("it was started");
    if error.contains("unshare:") {
        // Already no namespaces here: then the program itself must say so.
        let output = command(&["bench", "pingpong", "--two-hosts"]).output().expect("it starts");
        error = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    assert!(error.contains("What to do") && error.contains("sudo"), "{error}");
}

#[test]
fn paths_to_a_server_are_shown_with_reasons() {
    let server = Server::start(&[]);
    for (link, words) in [
        ("udp:lo", &["in use: small messages, and data; round trip", "frames of"][..]),
        ("udp", &["in use: small messages", "udp "]),
    ] {
        let output = command(&["paths", &server.address, "--link", link]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        for word in words {
            assert!(text.contains(word), "{link}: {word:?}: {text}");
        }
    }
    fails(&["paths", &server.address, "--link", "udp:nosuch0"], &["matches nothing", "lo 127."]);
    fails(&["paths", "nonsense"], &["nonsense"]);
}

/// What a command that ends well says.
fn says(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn server_with_a_number_is_found_and_measured_against() {
    let server = Server::start(&["--name", "871"]);
    server.wait_for("or --peer HOST:871: it is found by that number (UDP port 62311)");
    server.wait_for("whoever asks for the number may measure");
    let text = says(&mut command(&["find", "localhost", "871"]));
    for words in [
        "number 871 at localhost (UDP port 62311) answered from 127.0.0.1 after",
        "it says \"packhorse serve\"",
    ] {
        assert!(text.contains(words), "{words:?}: {text}");
    }
    assert!(!text.contains("ph1:"), "the address is a secret: {text}");
    assert_eq!(
        says(&mut command(&["find", "127.0.0.1", "871", "--address"])).trim(),
        server.address
    );
    let args = ["bench", "pingpong", "--peer", "127.0.0.1:871", "--systems", "packhorse"];
    let short = ["--bytes", "1000", "--seconds", "0.05", "--reps", "1"];
    says(&mut command(&[&args[..], &short].concat()));
    server.wait_for("1 measurement, done");
    assert!(says(&mut command(&["paths", "127.0.0.1:871", "--link", "udp"])).contains("in use"));
    let words = ["number 871 (UDP port 62311) is in use by user", "packhorse", "choose another"];
    fails(&["serve", "--bind", "127.0.0.1", "--name", "871"], &words);
}

#[test]
fn what_is_not_found_is_told_with_the_reason() {
    let path = std::env::temp_dir().join(format!("packhorse-serve-secret-{}", std::process::id()));
    let file = path.to_str().expect("text");
    let make = "umask 077; od -An -tx1 -N16 /dev/urandom | tr -d ' \\n' > \"$1\"";
    let made = Command::new("sh").args(["-c", make, "sh", file]).status().expect("a shell");
    assert!(made.success());
    let serve = ["serve", "--bind", "127.0.0.1", "--name", "872"];
    let mut child = command(&serve).env("PACKHORSE_SECRET_FILE", file).spawn().expect("it starts");
    let log = lines(child.stdout.take().expect("a pipe"));
    let mut server = Server { child, address: String::new(), log };
    server.address = server.wait_for("ph1:");
    server.wait_for("whoever has the address or the secret may measure");
    fails(
        &["find", "127.0.0.1", "872"],
        &["872", "only to holders of a secret", "PACKHORSE_SECRET_FILE"],
    );
    let found =
        says(&mut command(&["find", "127.0.0.1", "872", "--secret-file", file, "--address"]));
    assert_eq!(found.trim(), server.address);
    let by_environment =
        says(command(&["find", "127.0.0.1", "872"]).env("PACKHORSE_SECRET_FILE", file));
    assert!(by_environment.contains("answered from 127.0.0.1"), "{by_environment}");
    fails(
        &["find", "127.0.0.1", "873"],
        &["number 873 at 127.0.0.1", "nobody there has that number"],
    );
    fails(&["find", "no..host", "7"], &["number 7 at no..host", "no such host"]);
    fails(&["bench", "rate", "--peer", "127.0.0.1:873"], &["nobody there has that number"]);
    fails(&["find", "127.0.0.1", "65536"], &["65536"]);
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .expect("ours");
    fails(&["find", "127.0.0.1", "872", "--secret-file", file], &["chmod 600", "mode 644"]);
    std::fs::remove_file(&path).expect("it was made");
}

/// Where only TCP passes: both sides are told so by the same setting. What no two machines can talk by is refused with what to do.
#[test]
fn a_server_by_tcp_is_measured_against_and_one_without_a_port_says_what_to_do() {
    let set = |mut command: Command, link: &str| {
        command.env("PACKHORSE_LINK", link);
        command
    };
    let args = ["serve", "--bind", "127.0.0.1", "--name", "872"];
    let mut child = set(command(&args), "tcp").spawn().expect("the program starts");
    let log = lines(child.stdout.take().expect("a pipe"));
    let mut server = Server { child, address: String::new(), log };
    let line = server.wait_for("serving on ");
    assert!(line.contains("serving on TCP port ") && !line.contains("UDP"), "{line}");
    server.address = server.wait_for("ph1:");
    let short = ["--systems", "packhorse", "--bytes", "1000", "--seconds", "0.05", "--reps", "1"];
    for (peer, link) in [(server.address.as_str(), "tcp"), ("127.0.0.1:872", "auto")] {
        let args = ["bench", "pingpong", "--peer", peer];
        says(&mut set(command(&[&args[..], &short].concat()), link));
        server.wait_for("1 measurement, done");
    }
    let mut of_one_host = set(command(&["serve"]), "shm");
    of_one_host.env("PACKHORSE_DISCOVER", "0");
    fails_with(of_one_host, &["no port of IP", "PACKHORSE_LINK", "udp", "leave it unset"]);
}
