//! Large messages in both directions at a time.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use packhorse::{Placement, raw};
use packhorse_engine::{Config, Engine, Outcome};
use packhorse_link::tcp::{FRAME_LEN_MAX, Tcp, TcpConfig};

fn open() -> Arc<Engine> {
    let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let link = Tcp::open(&TcpConfig { bind, ..TcpConfig::default() }).unwrap();
    let mut config = Config { placement: Placement::Inline, ..Config::default() };
    config.settings.frame_len_max = FRAME_LEN_MAX as u16;
    // More than one turn sends.
    config.limits.grant_len_max = 4 << 20;
    (config.settings.grant_len, config.settings.grant_ahead_len) = (2 << 20, 2 << 20);
    (config.settings.payload_check, config.check_all) = (false, false);
    Engine::open(config, vec![Box::new(link)]).unwrap()
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 31 + seed * 7 + (at >> 8)) & 0xff) as u8).collect()
}

/// Frames that were handed to the link in trains, whether it has sent them since or not.
fn train_frames(engine: &Engine) -> u64 {
    let mut found = None;
    engine.each_counter(|name, value| {
        if name == "frames_in_trains" {
            found = Some(value);
        }
    });
    found.unwrap()
}

/// Whoever sends all that is granted to it before it looks finds the other's announcement late, and the other waits for its grant all that time.
#[test]
fn who_sends_looks_now_and_then_whether_the_other_wants_to() {
    const LEN: usize = 8 << 20;
    let engines = [open(), open()];
    let mut requests = Vec::new();
    for (own, other) in [(0, 1), (1, 0)] {
        let engine = &engines[own];
        let peer = engine.add_peer(engines[other].address()).unwrap();
        let (space, tag) = (raw::Space(0), raw::Tag(1));
        let criteria = raw::Criteria { space, tag, ignore: 0, source: Some(peer) };
        let (list, uses) = (raw::List::Priority, raw::Use::Once);
        let recv = raw::Recv { criteria, list, uses, header_only: false };
        let send = raw::Send { peer, space, tag, immediate: None, until_matched: false };
        let received = engine.recv(recv, vec![0; LEN].into()).unwrap();
        let sent = engine.send(send, pattern(LEN, own).into()).unwrap();
        requests.push((received, sent));
    }
    let (start, mut most_count) = (Instant::now(), 0);
    let is_over = |own: usize| {
        let (received, sent) = requests[own];
        engines[own].is_over(received) && engines[own].is_over(sent)
    };
    while !(is_over(0) && is_over(1)) {
        assert!(start.elapsed() < Duration::from_secs(60), "they wait for each other");
        for engine in &engines {
            let before = train_frames(engine);
            engine.turn();
            most_count = most_count.max(train_frames(engine) - before);
        }
    }
    for (own, &(received, sent)) in requests.iter().enumerate() {
        let received = engines[own].test(received).unwrap();
        assert!(matches!(received.outcome, Outcome::Received { result: Ok(()), .. }));
        assert!(received.memory.unwrap().into_vec() == pattern(LEN, 1 - own));
        assert!(engines[own].test(sent).is_some());
    }
    // Of some 63 000 bytes each.
    assert!((2..=8).contains(&most_count), "{most_count} frames in a turn");
    engines.iter().for_each(|engine| engine.stop());
}
