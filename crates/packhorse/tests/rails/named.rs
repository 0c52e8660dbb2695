//! A server with a number on a host with several addresses: it is found, and reached, by whichever of them was asked.

use packhorse::{Builder, LookUp, Wanted};

use crate::hosts::{Hosts, run};
use crate::{PATIENCE, TAG};

/// Takes one message after the other.
pub(crate) fn serve(links: &str, number: u16) {
    let server = Builder::plain().links(links).named(number).open().unwrap();
    println!("address {}", server.address());
    loop {
        server.recv(Wanted::tag(TAG), vec![0; 8]).wait().unwrap();
    }
}

/// Says where the answer came from, and whether what was found there can be spoken to.
pub(crate) fn find(links: &str, host: &str, number: u16) {
    let answer = LookUp::new(host, number).timeout(PATIENCE).wait().unwrap();
    println!("from {}", answer.from.ip());
    let client = Builder::plain().links(links).contact_after(PATIENCE).open().unwrap();
    let found = client.find(host, number).timeout(PATIENCE).wait().unwrap();
    client.send(found.peer, TAG, vec![0; 8]).wait().unwrap();
    println!("reached {}", client.name_of(found.peer));
}

/// The server's address names the card of the default route, to which the client has no way.
#[test]
#[ignore = "needs root and iproute2"]
fn a_server_is_reached_by_the_address_that_was_asked() {
    let hosts = Hosts::new(&[0, 0], false);
    let [a, b] = &hosts.names;
    run(&format!("ip -n {b} route add default via 10.98.0.1"));
    run(&format!("ip -n {a} link set r0 down"));
    // One more address that no card has: answers would leave from another.
    run(&format!("ip -n {b} address add 10.98.7.7/32 dev lo"));
    run(&format!("ip -n {a} route add 10.98.7.7 via 10.98.1.2"));
    let mut server = hosts.start(1, "named-serve udp 7");
    let address = server.hear("address ");
    for host in ["10.98.1.2", "10.98.7.7"] {
        let mut client = hosts.start(0, &format!("named-find udp {host} 7"));
        assert_eq!(client.hear("from "), host);
        let reached = client.hear("reached ");
        assert!(reached.contains(&format!("at {host}:")), "{reached}, of {address}");
    }
}

/// By IPv6, of whose addresses a host has several by itself.
#[test]
#[ignore = "needs root and iproute2"]
fn a_server_is_found_by_ipv6() {
    let hosts = Hosts::new(&[0], false);
    let [a, b] = &hosts.names;
    for (name, host) in [(a, 1), (b, 2)] {
        run(&format!("ip -n {name} address add fd98::{host}/64 dev r0 nodad"));
    }
    run(&format!("ip -n {b} address add fd98::7/64 dev r0 nodad"));
    run(&format!("ip -n {b} route add default via 10.98.0.1"));
    let mut server = hosts.start(1, "named-serve udp 7");
    server.hear("address ");
    for host in ["fd98::2", "fd98::7"] {
        let mut client = hosts.start(0, &format!("named-find udp {host} 7"));
        assert_eq!(client.hear("from "), host);
        client.hear("reached ");
    }
}
