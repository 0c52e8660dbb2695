//! The XDP link between two hosts that are network namespaces joined by a veth pair, made and removed by each test.
//!
//! A namespace is entered by a process, so each end is this test program again, started with `ip netns exec` and told its
//! role in the environment. Needs root, iproute2 and util-linux; `cargo xtask test` says where that is missing.

mod hosts;
mod raw;
mod roles;

use std::time::Duration;

use hosts::{Hosts, ROLE, Role};

/// What a child does; alone it does nothing.
#[test]
#[ignore = "is a part of the others"]
fn role() {
    if let Ok(role) = std::env::var(ROLE) {
        roles::play(&role);
    }
}

/// An echo on host 1, and how it described itself.
fn echo(hosts: &Hosts, options: &str) -> (Role, String, String) {
    let mut echo = hosts.start(1, &format!("echo {options}"));
    let state = echo.wait_for("state");
    let locator = echo.wait_for("ready");
    (echo, locator, state)
}

/// Frames of all lengths there and back.
fn exchange(hosts: &Hosts, locator: &str, options: &str) -> String {
    let mut exchange = hosts.start(0, &format!("exchange {locator} {options}"));
    let report = exchange.wait_for("exchanged");
    exchange.end();
    report
}

#[test]
#[ignore = "needs root and iproute2"]
fn frames_of_all_lengths_are_exchanged() {
    for (mtu, joined) in [(1500, false), (3400, false), (9000, true)] {
        let hosts = Hosts::new(mtu, 1);
        let (echo, locator, state) = echo(&hosts, "");
        assert!(state.contains("driver veth"), "{state}");
        assert!(state.contains("native, copy, 1 queue;"), "{state}");
        assert!(state.contains("no zero-copy: veth cannot do it"), "{state}");
        let report = exchange(&hosts, &locator, "");
        println!("mtu {mtu}: {report}");
        assert!(report.starts_with(&format!("{} lengths", mtu - 12)), "{report}");
        assert_eq!(report.contains(" joined_in 0 "), !joined, "{report}");
        assert!(report.contains(" bad_descriptors 0 "), "{report}");
        assert!(report.contains(" kernel_rx_dropped 0 "), "{report}");
        echo.end();
    }
}

#[test]
#[ignore = "needs root and iproute2"]
fn frames_are_exchanged_in_generic_mode() {
    for mtu in [1500, 9000] {
        let hosts = Hosts::new(mtu, 1);
        let (echo, locator, state) = echo(&hosts, "generic");
        assert!(state.contains("generic, copy"), "{state}");
        assert!(state.contains("not native: generic mode was asked for"), "{state}");
        let link = hosts.interface(1);
        assert!(link.contains("xdpgeneric"), "{link}");
        exchange(&hosts, &locator, "generic");
        echo.end();
    }
}

#[test]
#[ignore = "needs root and iproute2"]
fn frames_are_exchanged_with_busy_polling() {
    let hosts = Hosts::new(1500, 1);
    let (echo, locator, state) = echo(&hosts, "busy");
    assert!(state.contains("busy-polled"), "{state}");
    exchange(&hosts, &locator, "busy");
    echo.end();
}

/// A veth keeps the queue: what leaves by queue 3 arrives in queue 3. The link sends by the number of the peer.
#[test]
#[ignore = "needs root, iproute2 and ethtool"]
fn all_queues_are_received_from() {
    let hosts = Hosts::new(1500, 4);
    for number in 4..8 {
        let (echo, locator, state) = echo(&hosts, &format!("number={number}"));
        assert!(state.contains("4 queues"), "{state}");
        exchange(&hosts, &locator, &format!("number={}", number + 1));
        let counts = hosts.run(1, "ethtool -S eth0").stdout;
        let counts = String::from_utf8(counts).unwrap();
        let name = format!("rx_queue_{}_xdp_redirect:", number % 4);
        let line = counts.lines().find_map(|line| line.trim().strip_prefix(&name));
        let count: usize = line.unwrap_or_else(|| panic!("{counts}")).trim().parse().unwrap();
        assert!(count >= 1488, "{name} {count}");
        echo.end();
    }
}

#[test]
#[ignore = "needs root and iproute2"]
fn a_sleeper_is_woken() {
    for queue_count in [1, 4] {
        let hosts = Hosts::new(1500, queue_count);
        let (echo, locator, _) = echo(&hosts, "sleepy");
        exchange(&hosts, &locator, "sleepy");
        echo.end();
    }
}

#[test]
#[ignore = "needs root and iproute2"]
fn everything_else_passes() {
    for options in ["", "generic"] {
        let hosts = Hosts::new(1500, 1);
        let tcp = |ip: &str| {
            let mut server = hosts.start(1, "tcp-server");
            let port = server.wait_for("ready");
            hosts.start(0, &format!("tcp-client {ip}:{port}")).end();
            server.end();
        };
        let (echo, locator, _) = echo(&hosts, options);
        let mut other = hosts.start(0, &format!("echo {options}"));
        other.wait_for("ready");
        tcp("10.98.0.2");
        tcp("[fd98::2]");
        // Not installed everywhere, and the neighbours' protocols were needed above already.
        if std::process::Command::new("ping").arg("-V").output().is_ok() {
            let output = hosts.run(0, "ping -c 3 -i 0.2 10.98.0.2");
            assert!(output.status.success(), "{output:?}");
        }
        other.end();
        exchange(&hosts, &locator, options);
        echo.end();
        tcp("10.98.0.2");
    }
}

#[test]
#[ignore = "needs root and iproute2"]
fn packets_of_others_are_understood_and_left_to_them() {
    for options in ["", "generic"] {
        let hosts = Hosts::new(1500, 1);
        let (echo, locator, _) = echo(&hosts, options);
        // An AF_PACKET socket beside the link on host 1 hears what is not for the link, and nothing else.
        let mut neighbour = hosts.start(1, "overhear 99");
        neighbour.wait_for("ready");
        let mut packet = hosts.start(0, &format!("packet {locator} 99"));
        packet.wait_for("exchanged");
        packet.end();
        assert_eq!(neighbour.wait_for("heard"), "3 for 99, 1 tagged");
        neighbour.end();
        echo.end();
    }
}

#[test]
#[ignore = "needs root and iproute2"]
fn a_second_owner_is_told_who_the_first_is() {
    let hosts = Hosts::new(1500, 1);
    let (echo, locator, _) = echo(&hosts, "");
    let mut second = hosts.start(1, "refused");
    let text = second.wait_for("refused");
    second.end();
    assert!(text.contains("eth0 has an XDP program already: \"packhorse\""), "{text}");
    assert!(text.contains("another Packhorse endpoint"), "{text}");
    assert!(text.contains(&format!("held by process {}", echo.child.id())), "{text}");
    assert!(text.contains("use `packet` or `udp`"), "{text}");
    exchange(&hosts, &locator, "");
    echo.end();
    let again = hosts.start(1, "echo");
    again.end();
}

#[test]
#[ignore = "needs root and iproute2"]
fn a_foreign_program_is_left_alone() {
    let hosts = Hosts::new(1500, 1);
    let mut foreign = hosts.start(1, "foreign");
    foreign.wait_for("ready");
    for options in ["", "generic"] {
        let mut second = hosts.start(1, &format!("refused {options}"));
        let text = second.wait_for("refused");
        second.end();
        assert!(text.contains("\"foreign\", not of Packhorse (program "), "{text}");
        assert!(text.contains(&format!("held by process {}", foreign.child.id())), "{text}");
        assert!(text.contains("use `packet` or `udp`"), "{text}");
    }
    assert!(hosts.interface(1).contains("prog/xdp"), "still there");
    foreign.end();
}

#[test]
#[ignore = "needs root and iproute2"]
fn what_is_required_and_cannot_be_had_is_an_error() {
    let hosts = Hosts::new(1500, 1);
    for (options, words) in [
        ("zerocopy", "zero-copy is required on eth0 and cannot be had: veth cannot do it"),
        ("native generic", "native XDP is required on eth0 and cannot be had: generic mode was"),
        ("interface=eth7", "there is no interface \"eth7\" in this network namespace; there are: "),
        ("interface=lo", "lo is not an Ethernet interface"),
    ] {
        let mut role = hosts.start(1, &format!("refused {options}"));
        let text = role.wait_for("refused");
        assert!(text.contains(words), "{text}");
        role.end();
        hosts.assert_free(1);
    }
    hosts::ip(&format!("-n {} link set eth0 down", hosts.names[1]));
    let mut role = hosts.start(1, "refused");
    assert!(role.wait_for("refused").contains("eth0 is down; bring it up"));
    role.end();
}

#[test]
#[ignore = "needs root and iproute2"]
fn nothing_is_left_of_an_owner_that_was_killed() {
    let hosts = Hosts::new(1500, 2);
    for _ in 0..5 {
        let (mut echo, locator, _) = echo(&hosts, "");
        exchange(&hosts, &locator, "short");
        let link = hosts.interface(1);
        assert!(link.contains("prog/xdp") && link.contains("packhorse"), "{link}");
        echo.child.kill().unwrap(); // SIGKILL
        echo.child.wait().unwrap();
        hosts.assert_free(1);
    }
    let (echo, locator, _) = echo(&hosts, "");
    exchange(&hosts, &locator, "short");
    echo.end();
}

/// While it opens, runs, or is about to end: the moments are spread over all of it.
#[test]
#[ignore = "needs root and iproute2"]
fn nothing_is_left_of_an_owner_that_was_killed_at_any_moment() {
    let hosts = Hosts::new(1500, 2);
    let mut seen = 0;
    for moment in 0..100 {
        let mut echo = hosts.start(1, "echo");
        std::thread::sleep(Duration::from_micros(moment * 800));
        let link = hosts.interface(1);
        seen += usize::from(link.contains("prog/xdp"));
        echo.child.kill().unwrap(); // SIGKILL
        echo.child.wait().unwrap();
        hosts.assert_free(1);
    }
    println!("{seen} of 100 had the interface when they were looked at");
    let (echo, locator, _) = echo(&hosts, "");
    exchange(&hosts, &locator, "short");
    echo.end();
}

#[test]
#[ignore = "needs root and iproute2"]
fn without_rights_it_says_which() {
    let hosts = Hosts::new(1500, 1);
    let mut role = hosts.start_unprivileged(1, "refused");
    let text = role.wait_for("refused");
    role.end();
    assert!(text.contains("no permission for xdp on eth0 (opening an AF_XDP socket)"), "{text}");
    assert!(text.contains("lacks CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF"), "{text}");
    assert!(text.contains("`sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep "), "{text}");
}

#[test]
#[ignore = "needs root and iproute2"]
fn with_some_rights_it_says_which_are_missing() {
    let hosts = Hosts::new(1500, 1);
    let mut role = hosts.start_with(1, "refused", "+net_raw", None);
    let text = role.wait_for("refused");
    role.end();
    assert!(text.contains("(making the map of sockets)"), "{text}");
    assert!(text.contains("lacks CAP_NET_ADMIN, CAP_BPF"), "{text}");
    hosts.assert_free(1);
}

/// As with `setcap` on the program, for a user who may not pin much memory.
#[test]
#[ignore = "needs root and iproute2"]
fn with_all_rights_and_little_memory_it_makes_do() {
    let (hosts, rights) = (Hosts::new(1500, 1), "+net_raw,+net_admin,+bpf");
    let mut echo = hosts.start_with(1, "echo", rights, Some(3 << 20));
    let state = echo.wait_for("state");
    assert!(state.contains(" frames instead of 2048: no more memory may be pinned"), "{state}");
    let locator = echo.wait_for("ready");
    exchange(&hosts, &locator, "");
    echo.end();
    let mut role = hosts.start_with(1, "refused", rights, Some(64 << 10));
    let text = role.wait_for("refused");
    role.end();
    assert!(
        text.contains("may not pin 512 KiB of memory; raise the limit (`ulimit -l 512`)"),
        "{text}"
    );
}

/// What a receiver does not take is lost, and nothing else: all frames come back into use.
#[test]
#[ignore = "needs root and iproute2"]
fn a_flood_is_survived() {
    for mtu in [1500, 9000] {
        let hosts = Hosts::new(mtu, 1);
        let mut sleeper = hosts.start(1, "sleeper");
        let locator = sleeper.wait_for("ready");
        let mut flood = hosts.start(0, &format!("flood {locator}"));
        println!("mtu {mtu}: {}", flood.wait_for("flooded"));
        sleeper.wake();
        println!("mtu {mtu}: {}", sleeper.wait_for("woke"));
        flood.wait_for("over");
        flood.end();
        exchange(&hosts, &locator, "short");
        sleeper.end();
    }
}

/// A process with rights opens and ends; one without has the link.
#[test]
#[ignore = "needs root and iproute2"]
fn an_opener_with_rights_hands_the_link_to_a_user_without() {
    for (mtu, queue_count) in [(1500, 1), (9000, 4)] {
        let hosts = Hosts::new(mtu, queue_count);
        let mut user = hosts.start_unprivileged(1, "user");
        let name = user.wait_for("listens");
        let opener = hosts.start(1, &format!("opener {name}"));
        opener.end();
        let state = user.wait_for("state");
        assert!(state.contains("native, copy"), "{state}");
        let locator = user.wait_for("ready");
        let report = exchange(&hosts, &locator, "");
        println!("mtu {mtu}, {queue_count} queues: {report}");
        user.child.kill().unwrap();
        user.child.wait().unwrap();
        hosts.assert_free(1);
    }
}

/// Frames that cannot leave are lost, not held, and the link is of use again afterwards.
#[test]
#[ignore = "needs root and iproute2"]
fn an_interface_that_goes_down_comes_back() {
    let hosts = Hosts::new(1500, 1);
    let (echo, locator, _) = echo(&hosts, "");
    let mut role = hosts.start(0, &format!("down {locator} {}", hosts.names[0]));
    let report = role.wait_for("survived");
    println!("{report}");
    role.end();
    echo.end();
}
