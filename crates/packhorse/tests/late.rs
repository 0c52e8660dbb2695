//! A turn that comes late, from a peer that sends all the while.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use packhorse::{Builder, Endpoint, Placement, raw};
use packhorse_engine::{Completions, Config, Engine, Kind};
use packhorse_link::around::{Around, Holds};
use packhorse_link::shm::{Shm, ShmConfig};
use packhorse_link::{Burst, InMemory, Landing, Link, Locator, mem::Table};

/// Whenever it is asked for frames, the other endpoint turns first: as if that were on another core, and as quick.
struct Fed {
    inside: Shm,
    other: Arc<Endpoint>,
}

impl Holds for Fed {
    type Inside = Shm;

    fn inside(&self) -> &Shm {
        &self.inside
    }

    fn inside_mut(&mut self) -> &mut Shm {
        &mut self.inside
    }
}

impl Around<Table> for Fed {
    fn send_around(
        &mut self,
        burst: &Burst,
        first: usize,
        memory: &mut Table,
    ) -> io::Result<usize> {
        self.inside.send(burst, first, memory)
    }

    fn send_now_around(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool {
        Link::<Table>::send_now(&mut self.inside, to, frames, stride)
    }

    fn receive_around(
        &mut self,
        landing: Option<&Landing>,
        memory: &mut Table,
    ) -> io::Result<usize> {
        self.other.turn();
        self.inside.receive(landing, memory)
    }

    fn in_memory_around(&mut self) -> Option<&mut dyn InMemory<Table>> {
        None
    }
}

/// What an unread queue holds is bounded between two turns (`SPILL_COUNT_MAX`), so one turn must end, however much there is to take.
#[test]
fn it_takes_no_more_than_can_be_handed_out() {
    const MANY: u64 = 400_000;
    let open = || {
        let builder = Builder::plain().placement(Placement::Inline).links("shm");
        builder.linger(Duration::ZERO).open().unwrap()
    };
    let (a, silent) = (Arc::new(open()), open());
    let inside = Shm::open(&ShmConfig::default()).unwrap();
    let config = Config { placement: Placement::Inline, ..Config::default() };
    let b = Engine::open(config, vec![Box::new(Fed { inside, other: Arc::clone(&a) })]).unwrap();
    let to_b = a.peer(b.address()).unwrap();

    // Somebody who does not answer: a timer is due in some of the turns, and those take all there is before they blame anybody.
    let peer = b.add_peer(&silent.address()).unwrap();
    let get = b.get(raw::Remote { peer, key: 1, offset: 0 }, vec![0; 8].into(), None).unwrap();

    let mut queue = Completions::new(&b, 16);
    let criteria =
        raw::Criteria { space: raw::Space(0), tag: raw::Tag(1), ignore: 0, source: None };
    let uses = raw::Use::Many { free_len_min: 0 };
    let recv = raw::Recv { criteria, list: raw::List::Priority, uses, header_only: false };
    let notify = raw::Notify { queue: queue.id(), context: 1, only_errors: false };
    b.recv_queued(notify, recv, vec![0; 8].into()).unwrap();
    a.send_copy(to_b, 1, &[]).unwrap();
    while counter(&b, "messages_in") == 0 {
        b.turn();
    }
    for _ in 0..MANY {
        a.send_copy(to_b, 1, &[]).unwrap();
    }
    let start = Instant::now();
    while counter(&b, "requests_pending") > 1 {
        assert!(start.elapsed() < Duration::from_secs(60), "the entry is still there");
        std::thread::sleep(Duration::from_millis(40)); // each turn is late
        b.turn();
    }
    let mut told = 0;
    let last = loop {
        let entry = queue.poll().expect("nothing is lost: the last says that it is the last");
        if entry.is_last {
            break entry;
        }
        told += 1;
    };
    assert_eq!((last.kind, last.context), (Kind::Unlinked, 1));
    assert!((1 << 16..1 << 17).contains(&told), "{told} messages were told");
    b.cancel(get);
    b.stop();
}

fn counter(engine: &Engine, wanted: &str) -> u64 {
    let mut found = None;
    engine.each_counter(|name, value| {
        if name == wanted {
            found = Some(value);
        }
    });
    found.unwrap()
}
