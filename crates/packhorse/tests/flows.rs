//! Several TCP streams to one peer (`PACKHORSE_TCP_STREAMS`), one of which breaks in the midst of a transfer: the bytes arrive whole, no request
//! fails, and a person is told (PROTOCOL §16.4, §16.6).
//!
//! Both endpoints are in this process, so the test finds their sockets among its own descriptors. It shuts one down that an endpoint opened, as
//! a router that forgets a flow would end it.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use packhorse::{Builder, Endpoint, Wanted};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

const STREAM_COUNT: usize = 3;
/// Streams that are broken while a message is on its way.
const BREAK_COUNT: usize = 6;
const LEN: usize = 16 << 20;
const TAG: u64 = 1;
/// The transfers take a second or two; a machine that is busy with other tests takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

fn open() -> Endpoint {
    let builder = Builder::plain().links("tcp").bind(Ipv4Addr::LOCALHOST);
    builder.tcp_streams(STREAM_COUNT as u8).open().unwrap()
}

fn pattern(seed: usize) -> Vec<u8> {
    (0..LEN).map(|at| (at * 31 + seed * 7 + at / 251) as u8).collect()
}

/// A second descriptor of each TCP socket of this process: those that listen, by their ports, and the others.
fn sockets() -> (HashSet<u16>, Vec<TcpStream>) {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let numbers = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| {
        let entry = entry.ok()?;
        let is_socket = std::fs::read_link(entry.path()).ok()?.to_str()?.starts_with("socket:");
        entry.file_name().to_str()?.parse().ok().filter(|_| is_socket)
    });
    let numbers: Vec<i32> = numbers.collect();
    let copies = numbers.into_iter().filter_map(|number| {
        let copy: OwnedFd = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).ok()?;
        Some(TcpStream::from(copy))
    });
    let (mut ports, mut streams) = (HashSet::new(), Vec::new());
    for socket in copies {
        match (socket.local_addr(), socket.peer_addr()) {
            (Ok(_), Ok(_)) => streams.push(socket),
            (Ok(here), Err(_)) => _ = ports.insert(here.port()),
            _ => {}
        }
    }
    (ports, streams)
}

/// The streams that were opened to this endpoint, by the end that opened them. `ports`: where it listens.
fn streams_to(ports: &HashSet<u16>) -> Vec<TcpStream> {
    let is_one =
        |socket: &TcpStream| socket.peer_addr().is_ok_and(|there| ports.contains(&there.port()));
    sockets().1.into_iter().filter(is_one).collect()
}

#[test]
fn a_stream_of_several_that_breaks_costs_no_message_and_is_told() {
    let a = open();
    let (ports_of_a, _) = sockets();
    let b = open();
    let ports: HashSet<u16> = sockets().0.difference(&ports_of_a).copied().collect();
    assert_eq!(ports.len(), STREAM_COUNT, "each stream has a port of its own");
    let to = a.peer(&b.address()).unwrap();
    let until = Instant::now() + PATIENCE;
    let (mut round, mut break_count) = (0, 0);
    while break_count < BREAK_COUNT {
        assert!(Instant::now() < until, "{break_count} streams broke in {round} rounds");
        round += 1;
        let bytes = pattern(round);
        let coming = b.recv(Wanted::tag(TAG), vec![0; LEN]);
        let mut going = a.send(to, TAG, bytes.clone());
        // A stream that broke is opened again a while later; until then messages go by those that are left.
        let streams = streams_to(&ports);
        let is_over = match going.test() {
            Some(sent) => sent.map(drop).map(|()| true),
            None if streams.len() < STREAM_COUNT => Ok(false),
            None => {
                streams[round % STREAM_COUNT].shutdown(Shutdown::Both).unwrap();
                break_count += 1;
                Ok(false)
            }
        };
        if !is_over.unwrap() {
            going.wait().unwrap();
        }
        assert!(coming.wait().unwrap().buffer == bytes, "bytes of round {round} differ");
    }
    let told = a.notices();
    let is_break = |text: &&String| text.contains("broke: what was in it is sent again");
    let told_count = told.iter().filter(is_break).count();
    assert!(told_count > 0, "nothing was told: {told:?}");
    println!("{break_count} streams broken in {round} rounds, {told_count} of them told");
}
