//! Peers that make entries without end for a queue that nobody reads: they wait, and nothing is lost.

use std::ptr::null_mut;
use std::time::{Duration, Instant};

use packhorse_fi::abi::*;

use crate::application::{Loaded, Node, Read, close, counted};
use crate::one_sided::{Leaked, one_sided};

/// As many as are sent; and as many as a queue may hold of them and some more: those under way when it was full, which is what a socket
/// holds if the receiver was kept from its core. What is left behind a full queue is fewer than that.
const COUNT: usize = 220_000;
const HELD_COUNT_MAX: usize = (1 << 16) + 100_000;
/// After so many calls without news the sender is held to wait. (If it merely is slow, the test finds less than it could.)
const QUIET_COUNT_MAX: usize = 500;

/// A sender and a receiver, which is driven by reading its counter and so without reading its queue.
struct Pair {
    a: Node,
    b: Node,
    to_b: u64,
    counter: Obj,
}

impl Pair {
    fn new() -> Self {
        let loaded = Loaded::new();
        let info = loaded.getinfo(version(1, 17), Some(&one_sided)).unwrap();
        let (a, mut b) = (loaded.node(&one_sided), loaded.disabled_node(info));
        let counter = b.counter(flag::RECV, kind::WAIT_NONE);
        b.enable();
        let to_b = a.insert(&b.name).unwrap();
        b.insert(&a.name).unwrap();
        Self { a, b, to_b, counter }
    }

    fn close(self) {
        assert_eq!((close(self.b.ep), close(self.counter)), (0, 0));
        for object in [self.b.av, self.b.cq, self.b.domain, self.b.fabric] {
            assert_eq!(close(object), 0);
        }
        self.a.close();
    }
}

#[test]
fn writes_with_data_wait_until_the_target_reads_of_those_before() {
    let pair = Pair::new();
    let (a, b) = (&pair.a, &pair.b);
    let (window, out) = (Leaked::new(&[0; 8]), Leaked::new(&[1; 8]));
    let mr = b.register(&window, flag::REMOTE_WRITE, 5).unwrap();
    let (mut posted, mut done_count, mut quiet_count) = (0, 0, 0);
    while done_count <= HELD_COUNT_MAX && quiet_count < QUIET_COUNT_MAX {
        for _ in 0..(COUNT - posted).min(1000) {
            // SAFETY: an open endpoint with its own table, and memory that stays.
            let status = unsafe {
                let (write, buf) = (a.rma().writedata, out.0.cast_const().cast());
                write(a.ep, buf, 8, null_mut(), posted as u64, pair.to_b, 0, 5, null_mut())
            };
            assert_eq!(status, 0);
            posted += 1;
        }
        let news = a.read_some(64).unwrap().len();
        done_count += news;
        quiet_count = if news > 0 || posted < COUNT { 0 } else { quiet_count + 1 };
        counted(pair.counter); // gives b time, and reads nothing
    }
    assert!(done_count <= HELD_COUNT_MAX, "{done_count} were told, and nobody read");
    let until = Instant::now() + Duration::from_secs(120);
    let mut told = 0;
    while told < COUNT {
        assert!(Instant::now() < until, "{told} of {COUNT}");
        for entry in b.read_some(64).unwrap() {
            assert_eq!(entry.data, told as u64, "each once, in order");
            told += 1;
        }
        done_count += a.read_some(64).unwrap().len();
    }
    while done_count < COUNT {
        assert!(Instant::now() < until, "{done_count} of {COUNT}");
        done_count += a.read_some(64).unwrap().len();
    }
    assert!(b.read().is_none(), "none came twice");
    assert_eq!(close(mr), 0);
    pair.close();
}

#[test]
fn a_buffer_for_many_messages_is_given_back_when_nobody_reads_of_them() {
    let pair = Pair::new();
    let (a, b) = (&pair.a, &pair.b);
    b.recvmsg(4096, 1, flag::MULTI_RECV | flag::COMPLETION);
    let mut posted = 0;
    while counted(pair.counter) as usize <= HELD_COUNT_MAX && (posted as usize) < COUNT {
        // SAFETY: an open endpoint with its own table, and no bytes.
        let status = unsafe { (a.msg().injectdata)(a.ep, std::ptr::null(), 0, posted, pair.to_b) };
        posted += u64::from(status == 0);
        assert!(a.read().is_none());
    }
    let (mut told, mut told_of_one) = (0, 0);
    let until = Instant::now() + Duration::from_secs(120);
    while told < posted {
        assert!(Instant::now() < until, "{told} of {posted}");
        match b.read() {
            Some(Read::Done(entry)) if entry.flags & flag::MULTI_RECV != 0 => {
                b.recvmsg(4096, 1, flag::MULTI_RECV | flag::COMPLETION);
                told_of_one = 0;
            }
            Some(Read::Done(entry)) => {
                assert_eq!(entry.data, told, "each once, in order");
                told += 1;
                told_of_one += 1;
                assert!(told_of_one <= HELD_COUNT_MAX, "the buffer was not given back");
            }
            Some(failed) => panic!("{failed:?}"),
            None => assert!(a.read().is_none()),
        }
    }
    pair.close();
}
