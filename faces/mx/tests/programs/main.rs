//! C programs over the shared object as it is installed: one process, two, and two hosts.

use std::io::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use packhorse::SharedSecret;
use packhorse_mx::survey::{self, Ask, Board, State};

use stage::{Hosts, Running, Scratch, ip};

mod stage;
mod symbols;

#[test]
fn one_process_finds_all_as_mx_has_it() {
    let scratch = Scratch::new("alone");
    let program = scratch.compile("alone", false);
    Running::start(scratch.command(&program, None)).expect_success();
}

#[test]
fn calls_from_inside_other_calls_and_to_what_is_over_are_answered() {
    let scratch = Scratch::new("inside");
    let program = scratch.compile("inside", false);
    Running::start(scratch.command(&program, None)).expect_success();
}

#[test]
fn open_mx_is_there_under_its_own_names() {
    let scratch = Scratch::new("omx");
    let program = scratch.compile("omx", false);
    Running::start(scratch.command(&program, None)).expect_success();
}

#[test]
fn a_word_that_came_behind_data_means_that_the_data_is_there() {
    let Some(hosts) = Hosts::new() else { return };
    // Frames are as short as on a wire.
    assert!(ip(&format!("-n {} link set lo mtu 1500", hosts.0[0])));
    let scratch = Scratch::new("behind");
    let program = scratch.compile("behind", false);
    let mut command = scratch.command(&program, Some(&hosts.0[0]));
    command.env("PACKHORSE_MX_BOARDS", "lo").env("PACKHORSE_LINK", "udp");
    command.env("PACKHORSE_FAULTS", "loss=20000,seed=5");
    Running::start(command).expect_success();
}

/// Runs a program to its end: how, and what it said on both outputs.
fn outcome(mut command: Command) -> (ExitStatus, String) {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn failures_are_told_to_the_handler_there_is_and_end_the_process_where_there_is_none() {
    let scratch = Scratch::new("errors");
    let program = scratch.compile("errors", false);
    let run = |word: &str, env: Option<(&str, &str)>| {
        let mut command = scratch.command(&program, None);
        command.arg(word).envs(env);
        outcome(command)
    };
    let (status, said) = run("told", None);
    assert!(status.success(), "{said}");
    for (word, call) in [("call", "mx_open_endpoint"), ("status", "mx_wait")] {
        let (status, said) = run(word, None);
        assert_eq!(status.code(), Some(255), "{word}: {said}");
        assert!(said.contains(call) && said.contains("fatal"), "{word}: {said}");
        for name in ["OMX_FATAL_ERRORS", "MX_ERRORS_ARE_FATAL"] {
            let (status, said) = run(word, Some((name, "0")));
            assert!(status.success() && said.contains("went on"), "{word}, {name}=0: {said}");
        }
    }
    let (status, said) = run("nonsense", None);
    assert!(!status.success() && said.contains("MX_RECV_FINISHED"), "{said}");
}

#[test]
fn the_environment_says_what_mx_and_open_mx_let_it_say() {
    let scratch = Scratch::new("environment");
    let program = scratch.compile("environment", false);
    let run = |words: &[&str], env: &[(&str, &str)]| {
        let mut command = scratch.command(&program, None);
        command.args(words).envs(env.iter().copied());
        let (status, said) = outcome(command);
        assert!(status.success(), "{words:?} {env:?}: {said}");
        said
    };
    run(&["eager", "32768"], &[]);
    run(&["eager", "1000"], &[("OMX_RNDV_THRESHOLD", "1000")]);
    run(&["eager", "128"], &[("OMX_RNDV_THRESHOLD", "1")]);
    run(&["eager", "32768"], &[("OMX_RNDV_THRESHOLD", "1000000")]);
    run(&["any", "207"], &[("OMX_ANY_ENDPOINT", "207")]);
    run(&["contexts", "10", "20"], &[("OMX_CTXIDS", "10,20")]);
    let is_verbose = |env: &[(&str, &str)]| run(&["verbose", "0"], env).contains("no such board");
    assert!(!is_verbose(&[]));
    assert!(is_verbose(&[("OMX_VERBOSE", "1")]) && is_verbose(&[("MX_VERBOSE", "1")]));
    // Open-MX's name goes first, and MX's can be ignored.
    assert!(!is_verbose(&[("OMX_VERBOSE", "0"), ("MX_VERBOSE", "1")]));
    assert!(!is_verbose(&[("OMX_IGNORE_MX_ENV", "1"), ("MX_VERBOSE", "1")]));
}

#[test]
fn endpoints_spread_over_the_boards_and_leave_out_one_that_lost_its_address() {
    let Some(hosts) = Hosts::new() else { return };
    let [a, b] = &hosts.0;
    assert!(ip(&format!("-n {a} link add m1 type veth peer name m1 netns {b}")));
    assert!(ip(&format!("-n {a} address add 10.98.0.1/24 broadcast + dev m1")));
    assert!(ip(&format!("-n {a} link set m1 up")) && ip(&format!("-n {b} link set m1 up")));
    let scratch = Scratch::new("boards");
    let program = scratch.compile("boards", false);
    Running::start(scratch.command(&program, Some(a))).expect_success();
}

#[test]
fn a_program_that_finds_the_library_by_its_name_does_so_too() {
    let scratch = Scratch::new("by-name");
    // Which names those are: Open-MX's, MX's, and the one by which MPICH's configure asks whether it is there.
    for name in ["libopen-mx.so.0", "libopen-mx.so", "libmyriexpress.so", "libmx.so"] {
        assert!(scratch.path.join(name).exists(), "{name}");
    }
    let program = scratch.compile("alone", true);
    Running::start(scratch.command(&program, None)).expect_success();
}

/// A library that has nothing but the names and versions of MX's symbols, under this name: what a program was linked with elsewhere.
fn make_elsewhere(scratch: &Scratch, soname: &str) -> PathBuf {
    let folder = scratch.path.join("elsewhere");
    std::fs::create_dir_all(&folder).unwrap();
    let ours = scratch.path.join("libopen-mx.so.0");
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(ours).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut source = String::new();
    for line in listed.lines() {
        let mut words = line.split_whitespace().skip(1);
        let (kind, name) = (words.next().unwrap(), words.next().unwrap());
        let name = name.split('@').next().unwrap();
        match kind {
            "T" => source.push_str(&format!("void {name}(void) {{ __builtin_trap(); }}\n")),
            "D" => source.push_str(&format!("void *{name};\n")),
            _ => {}
        }
    }
    let (source, map) = (
        scratch.write("elsewhere.c", &source),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("mx.map"),
    );
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-w", "-o"]).arg(folder.join("libmyriexpress.so")).arg(source);
    cc.arg(format!("-Wl,-soname,{soname}")).arg(format!("-Wl,--version-script={}", map.display()));
    assert!(cc.status().unwrap().success());
    folder
}

#[test]
fn a_program_that_was_linked_elsewhere_runs_with_the_path_alone() {
    let scratch = Scratch::new("elsewhere");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // As native MX recorded it, and as Open-MX did.
    for soname in ["libmyriexpress.so", "libopen-mx.so.0"] {
        let folder = make_elsewhere(&scratch, soname);
        let program = scratch.path.join(format!("linked-{soname}"));
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-w", "-o"]).arg(&program).arg(root.join("tests/c/alone.c"));
        cc.arg("-I").arg(root.join("include")).arg("-L").arg(&folder);
        assert!(cc.args(["-lmyriexpress", "-lpthread"]).status().unwrap().success());
        std::fs::remove_dir_all(&folder).unwrap();
        Running::start(scratch.command(&program, None)).expect_success();
    }
}

#[test]
fn two_processes_of_a_host_talk() {
    let scratch = Scratch::new("pair");
    let program = scratch.compile("pair", false);
    for without_shared in ["0", "1"] {
        let env = ("OMX_DISABLE_SHARED", without_shared);
        let mut serve = scratch.command(&program, None);
        let mut serve = Running::start({
            serve.arg("serve").env(env.0, env.1);
            serve
        });
        assert_eq!(serve.read_line(), "ready\n");
        let mut taken = scratch.command(&program, None);
        taken.arg("taken");
        Running::start(taken).expect_success();
        let mut ask = scratch.command(&program, None);
        ask.arg("localhost").env(env.0, env.1);
        Running::start(ask).expect_success();
        serve.expect_success();
    }
}

#[test]
fn what_nobody_took_when_a_peer_closed_ends_as_closed() {
    let scratch = Scratch::new("closed");
    let program = scratch.compile("pair", false);
    for without_shared in ["0", "1"] {
        let mut serve = scratch.command(&program, None);
        serve.arg("close").env("OMX_DISABLE_SHARED", without_shared);
        let mut serve = Running::start(serve);
        assert_eq!(serve.read_line(), "ready\n");
        let mut ask = scratch.command(&program, None);
        ask.args(["localhost", "closed"]).env("OMX_DISABLE_SHARED", without_shared);
        Running::start(ask).expect_success();
        serve.expect_success();
    }
}

/// What another process sees of the endpoint that this one has open on loopback.
fn seen(process: u64) -> Option<Vec<(&'static str, u64)>> {
    let board = Board {
        interface: "lo".into(),
        nic_id: 0,
        ip: "127.0.0.1".parse().unwrap(),
        prefix: 8,
        is_loopback: true,
        name: "localhost".into(),
    };
    let open = survey::endpoints(&board, Ask::Counters).unwrap();
    open.into_iter().find_map(|open| match open.state {
        State::Told { process: owner, counters } if owner == process => Some(counters),
        _ => None,
    })
}

#[test]
fn open_endpoints_tell_another_process_who_has_them_and_what_they_counted() {
    let scratch = Scratch::new("telling");
    let program = scratch.compile("pair", false);
    let mut serve = scratch.command(&program, None);
    serve.arg("serve");
    let mut serve = Running::start(serve);
    assert_eq!(serve.read_line(), "ready\n");
    let children = format!("/proc/{0}/task/{0}/children", serve.0.id());
    let process = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
    let counters = seen(process).expect("its endpoint is open");
    assert!(counters.contains(&("messages_in", 0)) && counters.len() == 16, "{counters:?}");
    let mut ask = scratch.command(&program, None);
    ask.arg("localhost");
    Running::start(ask).expect_success();
    serve.expect_success();
    assert_eq!(seen(process), None);
}

#[test]
fn what_is_sent_to_a_peer_that_was_killed_ends_and_says_so() {
    let scratch = Scratch::new("dead");
    let program = scratch.compile("pair", false);
    // Before anything was sent to it, and after.
    for (without_shared, words) in ["0", "1"]
        .into_iter()
        .flat_map(|it| [(it, &["localhost", "dead"][..]), (it, &["localhost", "dead", "met"])])
    {
        let mut serve = scratch.command(&program, None);
        serve.arg("serve").env("OMX_DISABLE_SHARED", without_shared);
        let mut serve = Running::start(serve);
        assert_eq!(serve.read_line(), "ready\n");
        let mut ask = scratch.command(&program, None);
        ask.args(words).env("OMX_DISABLE_SHARED", without_shared);
        let mut ask = Running::start(ask);
        assert_eq!(ask.read_line(), "connected\n");
        serve.kill();
        ask.0.stdin.as_mut().unwrap().write_all(b"x\n").unwrap();
        ask.expect_success();
    }
}

#[test]
fn what_is_sent_to_another_host_ends_as_closed_or_as_unreachable_by_what_became_of_it() {
    let Some(hosts) = Hosts::new() else { return };
    let scratch = Scratch::new("lost");
    let program = scratch.compile("pair", false);
    let name = format!("{}:0", hosts.0[0]);
    for (words, is_killed) in
        [(&["dead"][..], true), (&["dead", "met"], true), (&["nowhere"], false)]
    {
        let mut serve = scratch.command(&program, Some(&hosts.0[0]));
        serve.arg("serve");
        let mut serve = Running::start(serve);
        assert_eq!(serve.read_line(), "ready\n");
        let mut ask = scratch.command(&program, Some(&hosts.0[1]));
        // What a user has who is not root: by raw Ethernet nobody refuses anything, and a killed peer is a silent one.
        ask.arg(&name).args(words).env("PACKHORSE_LINK", "udp,tcp");
        let mut ask = Running::start(ask);
        assert_eq!(ask.read_line(), "connected\n");
        match is_killed {
            true => serve.kill(),
            false => assert!(ip(&format!("-n {} link set m0 down", hosts.0[0]))),
        }
        ask.0.stdin.as_mut().unwrap().write_all(b"x\n").unwrap();
        ask.expect_success();
    }
}

#[test]
fn a_table_with_nonsense_in_it_and_boards_that_are_none_are_explained() {
    let scratch = Scratch::new("nonsense");
    let program = scratch.compile("pair", false);
    let table = scratch.write("hosts", "# hosts\nnode1 0 02:00:00:00:00 10.0.0.1\n");
    let noise = scratch.path.join("noise");
    std::fs::write(&noise, [0xff, 0xfe, 0, b'\n']).unwrap();
    // What is wrong with the table or the boards, `mx_init` says; with other settings, the call that opens an endpoint.
    for (name, value, said, code) in [
        ("PACKHORSE_MX_HOSTS", table.to_str().unwrap(), "line 2", 2),
        ("PACKHORSE_MX_HOSTS", noise.to_str().unwrap(), "PACKHORSE_MX_HOSTS", 2),
        ("PACKHORSE_MX_HOSTS", scratch.path.to_str().unwrap(), "PACKHORSE_MX_HOSTS", 2),
        ("PACKHORSE_MX_HOSTS", "/nowhere/at/all", "PACKHORSE_MX_HOSTS", 2),
        ("PACKHORSE_MX_BOARDS", "eth77", "there are", 8),
        ("OMX_CTXIDS", "many", "BITS,SHIFT", 26),
        ("PACKHORSE_LINGER_S", "long", "PACKHORSE_LINGER_S", 15),
        ("PACKHORSE_SECRET_FILE", "/nowhere/at/all", "PACKHORSE_SECRET_FILE", 15),
    ] {
        let mut command = scratch.command(&program, None);
        command.arg("serve").env(name, value);
        let (status, error) = outcome(command);
        assert!(!status.success() && error.contains(said), "{name}={value}: {error}");
        assert!(error.contains(&format!("returned {code} ")), "{name}={value}: {error}");
    }
}

#[test]
fn hosts_of_one_segment_find_each_other_with_no_set_up() {
    let Some(hosts) = Hosts::new() else { return };
    let scratch = Scratch::new("segment");
    let program = scratch.compile("pair", false);
    let name = format!("{}:0", hosts.0[0]);
    let mut serve = scratch.command(&program, Some(&hosts.0[0]));
    serve.arg("serve");
    let mut serve = Running::start(serve);
    assert_eq!(serve.read_line(), "ready\n");
    let mut ask = scratch.command(&program, Some(&hosts.0[1]));
    ask.arg(&name);
    Running::start(ask).expect_success();
    serve.expect_success();
}

#[test]
fn a_table_leads_where_there_is_no_broadcast() {
    let Some(hosts) = Hosts::new() else { return };
    let scratch = Scratch::new("table");
    let program = scratch.compile("pair", false);
    let table = scratch.write("hosts", "far 0 02:00:00:00:99:01 10.97.0.1\n");
    // Nobody answers questions there: they are dropped on their way.
    assert!(ip(&format!("-n {} route add blackhole 10.97.0.255", hosts.0[1])));
    let mut serve = scratch.command(&program, Some(&hosts.0[0]));
    serve.arg("serve");
    let mut serve = Running::start(serve);
    assert_eq!(serve.read_line(), "ready\n");
    let mut nobody = scratch.command(&program, Some(&hosts.0[1]));
    nobody.args(["far:0", "nobody"]);
    Running::start(nobody).expect_success();
    let mut ask = scratch.command(&program, Some(&hosts.0[1]));
    ask.arg("far:0").env("PACKHORSE_MX_HOSTS", &table);
    Running::start(ask).expect_success();
    serve.expect_success();
}

/// Answers every question on the segment: that board is here. Whoever is told so finds somebody else's endpoint.
#[test]
fn a_liar_of_the_segment() {
    let Ok(here) = std::env::var("PACKHORSE_MX_LIAR") else { return };
    let here: Ipv4Addr = here.parse().unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 62_207)).unwrap();
    println!("ready");
    let mut letter = [0; 144];
    loop {
        let (len, from) = socket.recv_from(&mut letter).unwrap();
        assert_eq!(len, letter.len(), "a question");
        letter[6] = 2;
        letter[24..32].copy_from_slice(&0x0200_0000_9907_u64.to_be_bytes());
        letter[40..56].copy_from_slice(&here.to_ipv6_mapped().octets());
        let check = SharedSecret::from([0; 16]).check(&letter[..136]);
        letter[136..].copy_from_slice(&check.to_be_bytes());
        socket.send_to(&letter, from).unwrap();
    }
}

#[test]
fn an_answer_or_a_table_that_leads_to_another_board_is_not_believed() {
    let Some(hosts) = Hosts::new() else { return };
    let scratch = Scratch::new("liar");
    let program = scratch.compile("pair", false);
    let mut serve = scratch.command(&program, Some(&hosts.0[0]));
    // Nobody but the liar answers: the port of questions is its own.
    let mut liar = scratch.command(&std::env::current_exe().unwrap(), Some(&hosts.0[0]));
    liar.args(["a_liar_of_the_segment", "--exact", "--nocapture"]);
    let mut liar = Running::start({
        liar.env("PACKHORSE_MX_LIAR", "10.97.0.1");
        liar
    });
    while liar.read_line() != "ready\n" {}
    serve.arg("serve");
    let mut serve = Running::start(serve);
    assert_eq!(serve.read_line(), "ready\n");
    let mut ask = scratch.command(&program, Some(&hosts.0[1]));
    ask.args(["somebody:0", "wrong"]);
    Running::start(ask).expect_success();
    let table = scratch.write("hosts", "far 0 02:00:00:00:99:07 10.97.0.1\n");
    let mut ask = scratch.command(&program, Some(&hosts.0[1]));
    ask.args(["far:0", "wrong"]).env("PACKHORSE_MX_HOSTS", &table);
    Running::start(ask).expect_success();
    serve.kill();
    liar.kill();
}

#[test]
fn a_shared_secret_closes_it_to_others() {
    let Some(hosts) = Hosts::new() else { return };
    let scratch = Scratch::new("secret");
    let program = scratch.compile("pair", false);
    let (ours, theirs) = (scratch.secret("ours", "a"), scratch.secret("theirs", "b"));
    let table = scratch.write("hosts", "far 0 02:00:00:00:99:01 10.97.0.1\n");
    let mut serve = scratch.command(&program, Some(&hosts.0[0]));
    serve.arg("serve").env("PACKHORSE_SECRET_FILE", &ours);
    let mut serve = Running::start(serve);
    assert_eq!(serve.read_line(), "ready\n");
    let name = format!("{}:0", hosts.0[0]);
    let mut stranger = scratch.command(&program, Some(&hosts.0[1]));
    stranger.args([&name, "nobody"]);
    Running::start(stranger).expect_success(); // questions of strangers are not answered
    for secret in [None, Some(&theirs)] {
        let mut stranger = scratch.command(&program, Some(&hosts.0[1]));
        stranger.args(["far:0", "locked"]).env("PACKHORSE_MX_HOSTS", &table);
        stranger.envs(secret.map(|path| ("PACKHORSE_SECRET_FILE", path)));
        Running::start(stranger).expect_success();
    }
    let mut ask = scratch.command(&program, Some(&hosts.0[1]));
    ask.arg(&name).env("PACKHORSE_SECRET_FILE", &ours);
    Running::start(ask).expect_success();
    serve.expect_success();
}
