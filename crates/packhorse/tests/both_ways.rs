//! Large messages in both directions at a time.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use packhorse::{Placement, raw};
use packhorse_engine::{Config, Engine, Outcome};
use packhorse_link::around::{Around, Holds};
use packhorse_link::tcp::{Tcp, TcpConfig};
use packhorse_link::{Burst, InMemory, Landing, Link, Locator, mem::Table};

/// Counts what is sent between two looks at what came.
struct Watched {
    inside: Tcp,
    since_look_len: usize,
    most_len: Arc<AtomicUsize>,
}

impl Watched {
    fn on_sent(&mut self, len: usize) {
        self.since_look_len += len;
        self.most_len.fetch_max(self.since_look_len, Ordering::Relaxed);
    }
}

impl Holds for Watched {
    type Inside = Tcp;

    fn inside(&self) -> &Tcp {
        &self.inside
    }

    fn inside_mut(&mut self) -> &mut Tcp {
        &mut self.inside
    }
}

impl Around<Table> for Watched {
    fn send_around(
        &mut self,
        burst: &Burst,
        first: usize,
        memory: &mut Table,
    ) -> io::Result<usize> {
        self.on_sent(burst.frames(first).map(|frame| frame.len as usize).sum());
        self.inside.send(burst, first, memory)
    }

    fn send_now_around(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool {
        self.on_sent(frames.len());
        Link::<Table>::send_now(&mut self.inside, to, frames, stride)
    }

    fn receive_around(
        &mut self,
        landing: Option<&Landing>,
        memory: &mut Table,
    ) -> io::Result<usize> {
        self.since_look_len = 0;
        self.inside.receive(landing, memory)
    }

    fn in_memory_around(&mut self) -> Option<&mut dyn InMemory<Table>> {
        None
    }
}

fn open(most_len: &Arc<AtomicUsize>) -> Arc<Engine> {
    let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let inside = Tcp::open(&TcpConfig { bind, ..TcpConfig::default() }).unwrap();
    let link = Watched { inside, since_look_len: 0, most_len: Arc::clone(most_len) };
    let mut config = Config { placement: Placement::Inline, ..Config::default() };
    // More than one turn sends.
    config.limits.grant_len_max = 4 << 20;
    (config.settings.grant_len, config.settings.grant_ahead_len) = (2 << 20, 2 << 20);
    (config.settings.payload_check, config.check_all) = (false, false);
    Engine::open(config, vec![Box::new(link)]).unwrap()
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 31 + seed * 7 + (at >> 8)) & 0xff) as u8).collect()
}

/// Whoever sends all that is granted to it before it looks finds the other's announcement late, and the other waits for its grant all that time.
#[test]
fn who_sends_looks_now_and_then_whether_the_other_wants_to() {
    const LEN: usize = 8 << 20;
    let most_len = Arc::new(AtomicUsize::new(0));
    let engines = [open(&most_len), open(&most_len)];
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
    let start = Instant::now();
    let is_over = |own: usize| {
        let (received, sent) = requests[own];
        engines[own].is_over(received) && engines[own].is_over(sent)
    };
    while !(is_over(0) && is_over(1)) {
        assert!(start.elapsed() < Duration::from_secs(60), "they wait for each other");
        engines.iter().for_each(|engine| {
            engine.turn();
        });
    }
    for (own, &(received, sent)) in requests.iter().enumerate() {
        let received = engines[own].test(received).unwrap();
        assert!(matches!(received.outcome, Outcome::Received { result: Ok(()), .. }));
        assert!(received.memory.unwrap().into_vec() == pattern(LEN, 1 - own));
        assert!(engines[own].test(sent).is_some());
    }
    let most_len = most_len.load(Ordering::Relaxed);
    assert!((100_000..500_000).contains(&most_len), "{most_len} bytes between two looks");
    engines.iter().for_each(|engine| engine.stop());
}
