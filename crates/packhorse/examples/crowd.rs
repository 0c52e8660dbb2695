//! Many senders, one receiver, sockets as an unprivileged user gets them: what comes unasked, and what is lost of it.
//!
//! All ends are in this process and meet over loopback, each sender with an endpoint and a thread of its own. All begin at once, round
//! after round; the receives are posted before. `ask` in the place of `unasked` has every message longer than 4 KB announced first, to be
//! compared with.
//!
//! ```text
//! cargo run --release -p packhorse --example crowd -- 64 128000 unasked
//! ```

use std::sync::Barrier;
use std::time::{Duration, Instant};

use packhorse::{Endpoint, Wanted};

const ROUND_COUNT: usize = 20;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn open(is_asking: bool) -> Result<Endpoint> {
    let builder = Endpoint::builder().links("udp").set("PACKHORSE_BIND", "127.0.0.1");
    let builder = if is_asking {
        builder.set("PACKHORSE_EAGER", "4K").set("PACKHORSE_AHEAD", "0")
    } else {
        builder
    };
    Ok(builder.small_socket_buffers(true).open()?)
}

fn count(endpoint: &Endpoint, name: &str) -> u64 {
    endpoint.counters().into_iter().find(|(is, _)| is == name).map_or(0, |(_, count)| count)
}

/// Takes one message from everybody, round after round; how long each round took.
fn receive(hub: &Endpoint, start: &Barrier, senders: usize, len: usize) -> Result<Vec<Duration>> {
    let mut rounds = Vec::new();
    for round in 0..ROUND_COUNT {
        let wanted = |at: usize| Wanted::tag((round * senders + at) as u64);
        let receives: Vec<_> = (0..senders).map(|at| hub.recv(wanted(at), vec![0; len])).collect();
        start.wait();
        let started = Instant::now();
        for (at, receive) in receives.into_iter().enumerate() {
            let message = receive.wait()?;
            assert!(message.buffer.len() == len && message.buffer.iter().all(|&it| it == at as u8));
        }
        rounds.push(started.elapsed());
    }
    Ok(rounds)
}

/// One message a round; packets lost.
fn send(
    at: usize,
    hub: &Endpoint,
    start: &Barrier,
    (senders, len): (usize, usize),
    is_asking: bool,
) -> Result<u64> {
    let endpoint = open(is_asking)?;
    let peer = endpoint.peer(&hub.address())?;
    for round in 0..ROUND_COUNT {
        start.wait();
        endpoint.send(peer, (round * senders + at) as u64, vec![at as u8; len]).wait()?;
    }
    Ok(count(&endpoint, "packets_lost"))
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = "how many senders (1 to 256), how many bytes, and `unasked` or `ask`";
    let [senders, len, way] = words.as_slice() else { return Err(usage.into()) };
    let (senders, len): (usize, usize) = (senders.parse()?, len.parse()?);
    if !(1..=256).contains(&senders) || !["unasked", "ask"].contains(&way.as_str()) {
        return Err(usage.into());
    }
    let is_asking = way == "ask";
    let hub = open(is_asking)?;
    let start = Barrier::new(senders + 1);
    let (mut rounds, lost) = std::thread::scope(|scope| -> Result<_> {
        let (hub, start) = (&hub, &start);
        let all: Vec<_> = (0..senders)
            .map(|at| scope.spawn(move || send(at, hub, start, (senders, len), is_asking)))
            .collect();
        let rounds = receive(hub, start, senders, len)?;
        let mut lost = 0;
        for one in all {
            lost += one.join().expect("no sender panics")?;
        }
        Ok((rounds, lost))
    })?;
    rounds.sort_unstable();
    println!(
        "{senders} senders of {len} bytes, {way}: a round {:.2} ms (median of {ROUND_COUNT}, {:.2}..{:.2}), {lost} packets lost, {} announced",
        rounds[rounds.len() / 2].as_secs_f64() * 1e3,
        rounds[0].as_secs_f64() * 1e3,
        rounds[rounds.len() - 1].as_secs_f64() * 1e3,
        count(&hub, "grants"),
    );
    Ok(())
}
