//! A way that is gone for a while, and a peer that is gone for good: the first is waited for, the second is noticed soon.

use std::time::Duration;

use packhorse::{Address, Builder, Error};
use packhorse_proto::GoneReason;

use crate::hosts::{Hosts, run};
use crate::{TAG, meet};

/// Longer than the system takes to say of a neighbour that it is not there.
const OUTAGE: Duration = Duration::from_secs(6);

/// Both ends are told at once by their own host, and again and again, that there is no way: one has lost its route, the other's
/// neighbour does not answer.
#[test]
#[ignore = "needs root and iproute2"]
fn outage_of_six_seconds_ends_nothing() {
    let hosts = Hosts::new(&[200], false);
    let host = &hosts.names[0];
    let cuts: [(String, String, Duration); 3] = [
        (format!("ip -n {host} link set r0 down"), format!("ip -n {host} link set r0 up"), OUTAGE),
        (
            format!("ip -n {host} route add unreachable 10.98.0.2/32"),
            format!("ip -n {host} route del unreachable 10.98.0.2/32"),
            Duration::from_secs(2),
        ),
        (
            format!("ip -n {host} route add prohibit 10.98.0.2/32"),
            format!("ip -n {host} route del prohibit 10.98.0.2/32"),
            Duration::from_secs(2),
        ),
    ];
    for (cut, mend, lasts) in cuts {
        let mut ends = meet(&hosts, "udp:r0");
        // Some seconds of data, so that something is unanswered on both sides when the way goes.
        ends[1].order("1000000 50");
        ends[0].order("1000000 50");
        let before = hosts.sent(0, 0);
        while hosts.sent(0, 0) < before + 1_000_000 {
            std::thread::yield_now();
        }
        run(&cut);
        std::thread::sleep(lasts); // the outage itself
        run(&mend);
        ends[0].hear("rate ");
        ends[1].hear("whole");
    }
}

/// Sends until the peer is gone, and says why.
pub(crate) fn mourn(links: &str, address: &Address) {
    let endpoint = Builder::plain().links(links).open().unwrap();
    let peer = endpoint.peer(address).unwrap();
    endpoint.send(peer, TAG, vec![0; 8]).wait().unwrap();
    println!("ready");
    let why = loop {
        match endpoint.send(peer, TAG, vec![0; 8]).wait().map_err(|failed| failed.error) {
            Ok(_) => std::thread::yield_now(),
            Err(Error::Gone { reason: GoneReason::Refused, .. }) => break "refused".into(),
            Err(error) => break error.to_string(),
        }
    };
    println!("gone: {why}");
}

#[test]
#[ignore = "needs root and iproute2"]
fn process_killed_on_another_host_is_noticed_by_its_hosts_word() {
    let hosts = Hosts::new(&[0], false);
    let mut receiver = hosts.start(1, "receive udp:r0");
    let address = receiver.hear("address ");
    let mut sender = hosts.start(0, &format!("mourn udp:r0 {address}"));
    sender.hear("ready");
    drop(receiver);
    // Silence would be another reason. How soon it is, the host's kernel says, which sends few such words a second.
    assert_eq!(sender.hear("gone: "), "refused");
}
