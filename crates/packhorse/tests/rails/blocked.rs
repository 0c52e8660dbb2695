//! Networks that let only one of UDP and TCP pass.

use std::process::Command;

use crate::hosts::{Hosts, run};
use crate::{meet, pour};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// From now on neither host gets a packet of this protocol by its first cable.
fn block(hosts: &Hosts, protocol: u8) {
    for name in &hosts.names {
        run(&format!("tc -n {name} qdisc add dev r0 clsact"));
        // The protocol is byte 9 of the IP header, behind 14 of Ethernet; 2 drops the packet, -1 lets it pass.
        let program = format!("4,48 0 0 23,21 0 1 {protocol},6 0 0 2,6 0 0 4294967295");
        let mut filter = Command::new("tc");
        filter.args(["-n", name, "filter", "add", "dev", "r0", "ingress", "protocol", "ip", "bpf"]);
        let output = filter.args(["bytecode", &program, "direct-action"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
#[ignore = "needs root and iproute2"]
fn where_datagrams_do_not_pass_streams_carry_everything() {
    let hosts = Hosts::new(&[0], false);
    block(&hosts, UDP);
    let mut ends = meet(&hosts, "tcp");
    for (len, count) in [(8, 100), (20_000, 50), (1_000_000, 20)] {
        pour(&mut ends, len, count);
    }
}

#[test]
#[ignore = "needs root and iproute2"]
fn where_streams_do_not_pass_datagrams_carry_everything() {
    let hosts = Hosts::new(&[0], false);
    block(&hosts, TCP);
    let mut ends = meet(&hosts, "udp,tcp");
    for (len, count) in [(8, 100), (20_000, 50), (1_000_000, 20)] {
        pour(&mut ends, len, count);
    }
}

/// Between two that had no need for a stream until then.
#[test]
#[ignore = "needs root and iproute2"]
fn datagrams_that_stop_passing_are_replaced_by_streams() {
    let hosts = Hosts::new(&[0], false);
    let mut ends = meet(&hosts, "udp,tcp");
    pour(&mut ends, 8, 100);
    block(&hosts, UDP);
    for (len, count) in [(8, 20), (20_000, 10), (1_000_000, 5)] {
        pour(&mut ends, len, count);
    }
}
