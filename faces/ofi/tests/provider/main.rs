//! The provider as an object: loaded, asked, opened, used and closed through its tables.

mod application;
mod closing;
mod events;
mod flood;
mod named;
mod nonsense;
mod one_sided;
mod refusals;
mod triggered;

use std::ptr::null_mut;

use application::{
    Hints, Loaded, Node, Read, bytes_at, close, counted, read_event, rings, set_counter,
    wait_counted, write_event,
};
use packhorse_fi::abi::{ADDR_UNSPEC, code, command, flag, kind, order, version};

/// What Open MPI asks for.
fn like_mpi(hints: &mut Hints) {
    hints.caps = flag::TAGGED
        | flag::MSG
        | flag::LOCAL_COMM
        | flag::REMOTE_COMM
        | flag::DIRECTED_RECV
        | flag::MULTI_RECV;
    hints.ep.kind = kind::EP_RDM;
    hints.domain.threading = kind::THREAD_DOMAIN;
    hints.domain.resource_mgmt = kind::RM_ENABLED;
    hints.domain.cq_data_size = 4;
    (hints.tx.msg_order, hints.rx.msg_order) = (order::SAS, order::SAS);
    (hints.tx.op_flags, hints.rx.op_flags) = (flag::COMPLETION, flag::COMPLETION);
}

/// Two nodes that know each other; and what each calls the other.
fn pair() -> (Node, Node, u64, u64) {
    let loaded = Loaded::new();
    let (a, b) = (loaded.node(&like_mpi), loaded.node(&like_mpi));
    let (to_b, to_a) = (a.insert(&b.name).unwrap(), b.insert(&a.name).unwrap());
    (a, b, to_b, to_a)
}

const TAG: (u64, u64) = (7, 0);

#[test]
fn the_library_gets_a_provider_it_can_register() {
    let loaded = Loaded::new();
    let provider = loaded.provider();
    assert!(provider.fi_version >= version(2, 6));
    assert_eq!(provider.context[5], 1, "no layering over us");
    assert_eq!(provider.context.len(), 32);
}

#[test]
fn getinfo_answers_whoever_asks() {
    let loaded = Loaded::new();
    for api in [0, version(1, 5), version(1, 17), version(2, 5)] {
        let info = loaded.getinfo(api, None).unwrap();
        assert_ne!(info.caps & flag::TAGGED, 0);
        assert_eq!(info.mode, 0);
    }
    let info = loaded.getinfo(version(1, 17), Some(&like_mpi)).unwrap();
    // SAFETY: whole, as `getinfo` made it.
    let (domain, tx) = unsafe { (&*info.domain_attr, &*info.tx_attr) };
    assert_eq!(domain.threading, kind::THREAD_DOMAIN, "MPICH wants it echoed");
    assert_eq!((domain.mr_mode, tx.op_flags), (0, flag::COMPLETION));
    let connected = |hints: &mut Hints| hints.ep.kind = 1;
    let refused = loaded.getinfo(version(1, 17), Some(&connected)).err();
    assert_eq!(refused, Some(-libc::ENODATA));
}

/// What is longer than what goes without announcement is announced, however its sender wants it completed.
#[test]
fn messages_longer_than_eager_ones_may_be_complete_with_their_post() {
    let test = "messages_longer_than_eager_ones_may_be_complete_with_their_post";
    if !closing::is_run_with(test, "PACKHORSE_EAGER", "4K") {
        return;
    }
    let loaded = Loaded::new();
    let at_once = |hints: &mut Hints| {
        like_mpi(hints);
        hints.tx.op_flags |= flag::INJECT_COMPLETE;
    };
    let (a, b) = (loaded.node(&at_once), loaded.node(&like_mpi));
    let (to_b, to_a) = (a.insert(&b.name).unwrap(), b.insert(&a.name).unwrap());
    for len in [4 << 10, (4 << 10) + 1, 12 << 10] {
        let bytes: &[u8] = (0..len).map(|at| (at / 7) as u8).collect::<Vec<_>>().leak();
        let bufs = [1, 2].map(|context| b.trecv(len, to_a, TAG, context));
        a.tsend(bytes, None, to_b, 7, 3);
        let table = a.tagged();
        // SAFETY: an open endpoint with its own table, and bytes that live on.
        let status = unsafe { (table.inject)(a.ep, bytes.as_ptr().cast(), len, to_b, 7) };
        assert_eq!(status, 0, "{len} bytes injected");
        for buf in bufs {
            let received = loop {
                if let Some(Read::Done(entry)) = a.read() {
                    assert_eq!(entry.op_context as usize, 3, "only the send is told of");
                }
                match b.read() {
                    Some(Read::Done(entry)) => break entry,
                    Some(failed) => panic!("{failed:?}"),
                    None => {}
                }
            };
            assert_eq!(received.len, len);
            assert_eq!(bytes_at(buf, len), bytes);
        }
    }
    a.close();
    b.close();
}

/// A call of an MPI that only tests reads the queue once, and must find what its peer sent before: also if it is the first read behind one that found
/// something.
#[test]
fn one_read_finds_what_waits_in_memory() {
    let test = "one_read_finds_what_waits_in_memory";
    if !closing::is_run_with(test, "PACKHORSE_PLACEMENT", "inline") {
        return;
    }
    let (a, b, to_b, to_a) = pair();
    for context in 1..=20 {
        b.trecv(8, to_a, TAG, context);
        b.trecv(8, to_a, TAG, 100 + context);
        a.tsend(b"first", None, to_b, 7, 0);
        loop {
            while a.read().is_some() {} // nobody else drives it
            match b.read() {
                Some(Read::Done(entry)) if entry.op_context as usize == context => break,
                None => {}
                Some(other) => panic!("{other:?}"),
            }
        }
        a.tsend(b"second", None, to_b, 7, 0);
        while a.read().is_some() {}
        std::thread::sleep(std::time::Duration::from_micros(100)); // longer than any hint lasts
        match b.read() {
            Some(Read::Done(entry)) => assert_eq!(entry.op_context as usize, 100 + context),
            other => panic!("round {context}: {other:?}"),
        }
    }
    // They are left open: who closes would wait for the other, which nobody drives, and this process ends here.
}

#[test]
fn a_tagged_message_arrives_with_its_data() {
    let (a, b, to_b, to_a) = pair();
    let buf = b.trecv(100, to_a, TAG, 0xB);
    a.tsend(b"over the hills", Some(u64::MAX - 1), to_b, 7, 0xA);
    let received = b.wait_done();
    assert_eq!(received.op_context as usize, 0xB);
    assert_eq!(received.flags, flag::TAGGED | flag::RECV | flag::REMOTE_CQ_DATA);
    assert_eq!((received.len, received.tag, received.data), (14, 7, u64::MAX - 1));
    assert_eq!(bytes_at(buf, 14), b"over the hills");
    let sent = a.wait_done();
    assert_eq!((sent.op_context as usize, sent.flags), (0xA, flag::TAGGED | flag::SEND));
    [a, b].into_iter().for_each(Node::close);
}

/// Contexts in the order in which the queue tells of them, read so many at a time; a failed one as itself and 1000.
fn contexts(node: &Node, count: usize, at_a_time: usize) -> Vec<usize> {
    let mut all = Vec::new();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while all.len() < count && std::time::Instant::now() < until {
        match node.read_some(at_a_time) {
            Ok(entries) => all.extend(entries.iter().map(|entry| entry.op_context as usize)),
            Err(failed) => all.push(failed.op_context as usize + 1000),
        }
    }
    all
}

#[test]
fn entries_keep_their_order_around_one_that_failed_and_whatever_there_is_room_for() {
    for at_a_time in [1, 3, 100] {
        let (a, b, to_b, to_a) = pair();
        for context in 0..64 {
            let len = if context % 10 == 5 { 1 } else { 100 }; // too short for what comes
            b.trecv(len, to_a, TAG, context);
        }
        (0..64).for_each(|_| a.tinject(b"more than one", to_b, 7));
        let expected = (0..64).map(|it| if it % 10 == 5 { it + 1000 } else { it });
        assert!(contexts(&b, 64, at_a_time).into_iter().eq(expected));
        [a, b].into_iter().for_each(Node::close);
    }
}

#[test]
fn a_short_message_to_oneself_is_complete_with_its_post() {
    let node = Loaded::new().node(&like_mpi);
    let to_itself = node.insert(&node.name).unwrap();
    node.tsend(b"note to self", Some(5), to_itself, 7, 0xA);
    // The first look at the queue finds it, before the message had time to come back.
    let sent = node.read().expect("an entry at once");
    assert!(matches!(sent, Read::Done(entry) if entry.op_context as usize == 0xA));
    let buf = node.trecv(100, to_itself, TAG, 0xB);
    let received = node.wait_done();
    assert_eq!((received.op_context as usize, received.len, received.data), (0xB, 12, 5));
    assert_eq!(bytes_at(buf, 12), b"note to self");
    node.close();
}

/// Through shared memory a message is out of its sender's hands with its post: the first look at the queue finds it, though its receiver was given no time.
#[test]
fn a_long_message_on_this_host_is_complete_with_its_post() {
    let (a, b, to_b, to_a) = pair();
    let bytes: &[u8] = (0..20_000).map(|at| (at / 7) as u8).collect::<Vec<_>>().leak();
    // The first ones find the way, and are told of by their receiver.
    let is_at_once = (0..200).any(|context| {
        let buf = b.trecv(bytes.len(), to_a, TAG, context);
        a.tsend(bytes, None, to_b, 7, context);
        let first = a.read();
        assert_eq!(b.wait_done().len, bytes.len());
        assert_eq!(bytes_at(buf, bytes.len()), bytes);
        let sent = match first {
            Some(Read::Done(entry)) => entry,
            Some(failed) => panic!("{failed:?}"),
            None => a.wait_done(),
        };
        assert_eq!(sent.op_context as usize, context, "each is told of once");
        first.is_some()
    });
    assert!(is_at_once, "none of 200");
    [a, b].into_iter().for_each(Node::close);
}

#[test]
fn tagged_and_untagged_messages_do_not_match_each_other() {
    let (a, b, to_b, _) = pair();
    a.send(b"untagged", to_b, 1);
    let tagged = b.trecv(100, ADDR_UNSPEC, (0, u64::MAX), 2);
    a.tinject(b"tagged", to_b, 9);
    let received = b.wait_done();
    assert_eq!((received.op_context as usize, received.len), (2, 6));
    assert_eq!(bytes_at(tagged, 6), b"tagged");
    let untagged = b.recvmsg(100, 3, flag::COMPLETION);
    let received = b.wait_done();
    assert_eq!((received.op_context as usize, received.flags), (3, flag::MSG | flag::RECV));
    assert_eq!(bytes_at(untagged, 8), b"untagged");
    [a, b].into_iter().for_each(Node::close);
}

#[test]
fn success_is_told_only_where_it_was_asked_for() {
    let (a, b, to_b, _) = pair();
    // Neither the injected send nor the receive without FI_COMPLETION leave an entry; the one behind them does.
    let (status, silent) = b.trecvmsg(10, 7, 1, 0);
    assert_eq!(status, 0);
    b.trecv(10, ADDR_UNSPEC, TAG, 2);
    a.tinject(b"one", to_b, 7);
    a.tinject(b"two", to_b, 7);
    assert_eq!(b.wait_done().op_context as usize, 2);
    assert_eq!(bytes_at(silent, 3), b"one");
    assert!(a.read().is_none() && b.read().is_none());
    [a, b].into_iter().for_each(Node::close);
}

#[test]
fn a_message_too_long_is_cut_and_told_as_an_error() {
    let (a, b, to_b, _) = pair();
    let buf = b.trecv(4, ADDR_UNSPEC, TAG, 5);
    a.tsend(b"longer than four", Some(3), to_b, 7, 6);
    let Read::Failed { entry, err, olen, why } = b.wait() else { panic!("it fits not") };
    assert_eq!((err, olen, entry.len), (code::ETRUNC, 12, 4));
    assert_eq!((entry.op_context as usize, entry.tag, entry.data), (5, 7, 3));
    assert!(why.contains("longer"), "{why}");
    assert_eq!(bytes_at(buf, 4), b"long");
    assert_eq!(a.wait_done().op_context as usize, 6, "the sender's part went well");
    [a, b].into_iter().for_each(Node::close);
}

#[test]
fn a_cancelled_receive_says_so() {
    let (a, b, to_b, _) = pair();
    b.trecv(4, ADDR_UNSPEC, TAG, 5);
    b.cancel(5);
    let Read::Failed { entry, err, .. } = b.wait() else { panic!("it was cancelled") };
    assert_eq!((err, entry.op_context as usize), (libc::ECANCELED, 5));
    b.cancel(5); // nothing of that name: no harm
    let later = b.trecv(4, ADDR_UNSPEC, TAG, 6);
    a.tinject(b"late", to_b, 7);
    assert_eq!(b.wait_done().op_context as usize, 6);
    assert_eq!(bytes_at(later, 4), b"late");
    [a, b].into_iter().for_each(Node::close);
}

#[test]
fn a_buffer_for_many_messages_takes_them_and_is_given_back() {
    let (a, b, to_b, _) = pair();
    b.set_free_len_min(4);
    let buf = b.recvmsg(10, 5, flag::MULTI_RECV | flag::COMPLETION);
    a.send(b"one", to_b, 1);
    a.send(b"seven", to_b, 2);
    for (text, at) in [("one", 0), ("seven", 3)] {
        let entry = b.wait_done();
        assert_eq!((entry.op_context as usize, entry.flags), (5, flag::MSG | flag::RECV));
        assert_eq!(entry.buf as usize, buf as usize + at);
        assert_eq!(bytes_at(entry.buf.cast(), entry.len), text.as_bytes());
    }
    let release = b.wait_done();
    assert_eq!((release.op_context as usize, release.flags), (5, flag::MULTI_RECV));
    // Intel MPI cancels its buffers at the end, and waits until each says so.
    b.recvmsg(10, 6, flag::MULTI_RECV);
    b.cancel(6);
    let Read::Failed { err, .. } = b.wait() else { panic!("it was cancelled") };
    assert_eq!(err, libc::ECANCELED);
    [a, b].into_iter().for_each(Node::close);
}

#[test]
fn messages_are_looked_at_set_aside_and_thrown_away() {
    let (a, b, to_b, _) = pair();
    let peek = flag::PEEK | flag::COMPLETION;
    assert_eq!(b.trecvmsg(0, 7, 1, peek).0, 0);
    let Read::Failed { entry, err, .. } = b.wait() else { panic!("nothing was sent") };
    assert_eq!((err, entry.op_context as usize), (libc::ENOMSG, 1));

    a.tinject(b"aside", to_b, 7);
    a.tinject(b"away", to_b, 8);
    let found = loop {
        b.trecvmsg(0, 7, 2, peek | flag::CLAIM);
        if let Read::Done(entry) = b.wait() {
            break entry;
        }
    };
    assert_eq!((found.len, found.tag, found.op_context as usize), (5, 7, 2));
    b.trecvmsg(0, 7, 3, peek);
    assert!(matches!(b.wait(), Read::Failed { .. }), "nobody else finds what was set aside");
    let (status, buf) = b.trecvmsg(10, 0, 2, flag::CLAIM | flag::COMPLETION);
    assert_eq!((status, b.wait_done().len), (0, 5));
    assert_eq!(bytes_at(buf, 5), b"aside");
    assert_eq!(b.trecvmsg(10, 0, 2, flag::CLAIM).0, -(libc::EINVAL as isize), "claimed once");

    while matches!((b.trecvmsg(0, 8, 4, peek | flag::DISCARD), b.wait()).1, Read::Failed { .. }) {}
    b.trecvmsg(0, 8, 5, peek);
    assert!(matches!(b.wait(), Read::Failed { .. }), "it was thrown away");
    // What was set aside and is thrown away then is told of as it was found.
    a.tinject(b"later", to_b, 9);
    while matches!((b.trecvmsg(0, 9, 6, peek | flag::CLAIM), b.wait()).1, Read::Failed { .. }) {}
    assert_eq!(b.trecvmsg(0, 9, 6, flag::CLAIM | flag::DISCARD | flag::COMPLETION).0, 0);
    let thrown = b.wait_done();
    assert_eq!((thrown.tag, thrown.op_context as usize), (9, 6));
    [a, b].into_iter().for_each(Node::close);
}

#[test]
fn receives_from_one_peer_take_only_its_messages() {
    let (a, b, to_b, _) = pair();
    let loaded = Loaded::new();
    let c = loaded.node(&like_mpi);
    let (c_to_b, b_to_c) = (c.insert(&b.name).unwrap(), b.insert(&c.name).unwrap());
    let from_c = b.trecv(10, b_to_c, TAG, 1);
    let from_any = b.trecv(10, ADDR_UNSPEC, TAG, 2);
    a.tinject(b"a", to_b, 7);
    assert_eq!(b.wait_done().op_context as usize, 2);
    c.tinject(b"c", c_to_b, 7);
    assert_eq!(b.wait_done().op_context as usize, 1);
    assert_eq!((bytes_at(from_any, 1), bytes_at(from_c, 1)), (&b"a"[..], &b"c"[..]));
    [a, b, c].into_iter().for_each(Node::close);
}

#[test]
fn counters_count_what_is_injected_too() {
    let loaded = Loaded::new();
    let info = loaded.getinfo(version(1, 17), Some(&like_mpi)).unwrap();
    let mut a = loaded.disabled_node(info);
    let (sends, receives) =
        (a.counter(flag::SEND, kind::WAIT_NONE), a.counter(flag::RECV, kind::WAIT_NONE));
    a.enable();
    let to_self = a.insert(&a.name.clone()).unwrap();
    a.trecv(10, ADDR_UNSPEC, TAG, 1);
    a.trecv(10, ADDR_UNSPEC, TAG, 2);
    a.tinject(b"one", to_self, 7);
    a.tsend(b"two", None, to_self, 7, 3);
    assert_eq!(wait_counted(receives, 2, 10_000), 0);
    assert_eq!(wait_counted(sends, 2, 10_000), 0);
    assert_eq!((counted(sends), counted(receives)), (2, 2));
    assert_eq!(wait_counted(sends, 3, 20), -libc::ETIMEDOUT);
    assert_eq!(close(sends), -libc::EBUSY);
    assert_eq!(close(a.ep), 0);
    for object in [sends, receives, a.av, a.cq, a.domain, a.fabric] {
        assert_eq!(close(object), 0);
    }
}

#[test]
fn what_is_in_use_cannot_be_closed() {
    let loaded = Loaded::new();
    let a = loaded.node(&like_mpi);
    for object in [a.fabric, a.domain, a.cq, a.av] {
        assert_eq!(close(object), -libc::EBUSY);
    }
    a.close();
}

#[test]
fn addresses_are_inserted_removed_and_used_again() {
    let (a, b, to_b, to_a) = pair();
    assert_eq!(a.insert(&[1; 64]), Err(u64::MAX), "no address");
    assert_eq!(a.remove(to_b), 0);
    assert_eq!(a.remove(to_b), -libc::EINVAL);
    assert_eq!(a.insert(&b.name), Ok(to_b), "the lowest free number");
    b.trecv(10, to_a, TAG, 1);
    a.tinject(b"again", to_b, 7);
    assert_eq!(b.wait_done().len, 5);
    [a, b].into_iter().for_each(Node::close);
}

#[test]
fn an_endpoint_must_be_enabled_and_says_how_long_its_name_is() {
    let loaded = Loaded::new();
    let info = loaded.getinfo(version(1, 17), Some(&like_mpi)).unwrap();
    let mut a = loaded.disabled_node(info);
    let mut len = 64;
    assert_eq!(a.getname(&mut len), -code::EOPBADSTATE);
    assert_eq!(a.control(command::ENABLE), 0);
    len = 0;
    assert_eq!(a.getname(&mut len), -code::ETOOSMALL);
    assert_eq!(len, 64);
    assert_eq!(a.control(99), -libc::ENOSYS);
    a.close();
}

#[test]
fn waiting_ends_when_the_time_is_over_or_something_came() {
    let (a, b, to_b, _) = pair();
    assert_eq!(b.sread(10), -(libc::EAGAIN as isize));
    b.trecv(10, ADDR_UNSPEC, TAG, 1);
    a.tinject(b"wake", to_b, 7);
    assert_eq!(b.sread(10_000), 1);
    [a, b].into_iter().for_each(Node::close);
}

/// How often this thread gave up its core to sleep.
fn sleep_count() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("a line of it").trim().parse().expect("a number")
}

#[test]
fn a_look_between_two_pieces_of_work_does_not_sleep() {
    let (a, b, _, _) = pair();
    b.trecv(10, ADDR_UNSPEC, TAG, 1);
    let before = sleep_count();
    for number in 0..10_000_u64 {
        assert!(b.read().is_none());
        std::hint::black_box((0..100).fold(number, |sum, n| sum ^ std::hint::black_box(n)));
    }
    // A few for locks that a helper has; a look that sleeps after a while in vain does so thousands of times.
    let slept = sleep_count() - before;
    assert!(slept < 500, "{slept} times in 10000 looks");
    [a, b].into_iter().for_each(Node::close);
}

#[test]
fn the_queues_descriptor_tells_when_to_ask() {
    let (a, b, to_b, _) = pair();
    b.trecv(10, ADDR_UNSPEC, TAG, 1);
    while b.trywait(b.cq) == -libc::EAGAIN {
        assert!(b.read().is_none());
    }
    assert!(!rings(b.cq, 20), "nothing was sent");
    a.tinject(b"wake", to_b, 7);
    assert!(rings(b.cq, 10_000));
    assert_eq!(b.wait_done().len, 4);
    [a, b].into_iter().for_each(Node::close);
}

#[test]
fn a_counters_descriptor_tells_when_to_read_it() {
    let loaded = Loaded::new();
    let info = loaded.getinfo(version(1, 17), Some(&like_mpi)).unwrap();
    let (a, mut b) = (loaded.node(&like_mpi), loaded.disabled_node(info));
    let receives = b.counter(flag::RECV, kind::WAIT_FD);
    b.enable();
    let (to_b, _) = (a.insert(&b.name).unwrap(), b.insert(&a.name).unwrap());
    b.trecv(10, ADDR_UNSPEC, TAG, 1);
    while b.trywait(receives) == -libc::EAGAIN {
        assert_eq!(counted(receives), 0);
    }
    assert!(!rings(receives, 20), "nothing was sent");
    a.tinject(b"wake", to_b, 7);
    assert!(rings(receives, 10_000));
    b.wait_done();
    assert_eq!(b.trywait(receives), -libc::EAGAIN, "it has counted on since it was read");
    assert_eq!(counted(receives), 1);
    assert_eq!((close(b.ep), close(receives)), (0, 0));
    for object in [b.av, b.cq, b.domain, b.fabric] {
        assert_eq!(close(object), 0);
    }
    a.close();
}

/// One thread sleeps on the descriptor, another posts what is complete with the post.
#[test]
fn the_queues_descriptor_tells_of_what_no_engine_has_news_of() {
    let (a, b, to_b, _) = pair();
    let peek = flag::PEEK | flag::COMPLETION;
    while a.trywait(a.cq) == -libc::EAGAIN {
        assert!(a.read().is_none());
    }
    assert!(!rings(a.cq, 0));
    assert_eq!(a.trecvmsg(0, 7, 1, peek).0, 0);
    assert!(rings(a.cq, 0), "nothing was found, and an entry says so");
    assert!(matches!(a.wait(), Read::Failed { err: libc::ENOMSG, .. }));
    while a.trywait(a.cq) == -libc::EAGAIN {
        assert!(a.read().is_none());
    }
    assert!(!rings(a.cq, 0), "what was read is not told of again");
    let to_a = a.insert(&a.name).unwrap();
    a.tsend(b"to itself", None, to_a, 7, 1);
    assert!(rings(a.cq, 0));
    assert_eq!(a.wait_done().flags, flag::TAGGED | flag::SEND);
    b.trecv(10, ADDR_UNSPEC, TAG, 1);
    a.tinject(b"and on", to_b, 7);
    assert_eq!(b.wait_done().len, 6);
    [a, b].into_iter().for_each(Node::close);
}

/// One thread sleeps on the queue's descriptor; another goes to sleep on that of a counter of the same endpoint, and takes from the engine
/// what had woken the first.
#[test]
fn a_descriptor_rings_on_though_another_thread_took_the_news() {
    let loaded = Loaded::new();
    let info = loaded.getinfo(version(1, 17), Some(&like_mpi)).unwrap();
    let (a, mut b) = (loaded.node(&like_mpi), loaded.disabled_node(info));
    let sends = b.counter(flag::SEND, kind::WAIT_FD);
    b.enable();
    let (to_b, _) = (a.insert(&b.name).unwrap(), b.insert(&a.name).unwrap());
    b.trecv(10, ADDR_UNSPEC, TAG, 1);
    while b.trywait(b.cq) == -libc::EAGAIN {
        assert!(b.read().is_none());
    }
    a.tinject(b"wake", to_b, 7);
    assert!(rings(b.cq, 30_000));
    while b.trywait(sends) == -libc::EAGAIN {
        assert_eq!(counted(sends), 0);
    }
    assert!(rings(b.cq, 0), "its entry has not been read");
    assert_eq!(b.wait_done().len, 4);
    set_counter(sends, 3);
    assert!(rings(sends, 0) && counted(sends) == 3);
    assert_eq!((close(b.ep), close(sends)), (0, 0));
    for object in [b.av, b.cq, b.domain, b.fabric] {
        assert_eq!(close(object), 0);
    }
    a.close();
}

#[test]
fn an_event_queues_descriptor_is_readable_while_there_are_events() {
    let a = Loaded::new().node(&like_mpi);
    let eq = a.event_queue(kind::WAIT_FD);
    assert!(a.trywait(eq) == 0 && !rings(eq, 0));
    (1..=2).for_each(|number| write_event(eq, number));
    assert!(a.trywait(eq) == -libc::EAGAIN && rings(eq, 0));
    assert_eq!((read_event(eq), rings(eq, 0)), (Some(1), true));
    assert_eq!((read_event(eq), rings(eq, 0)), (Some(2), false));
    assert_eq!(read_event(eq), None);
    assert_eq!(close(eq), 0);
    a.close();
}

#[test]
fn an_injected_message_survives_the_close_behind_it() {
    let (a, b, to_b, _) = pair();
    let buf = b.trecv(10, ADDR_UNSPEC, TAG, 1);
    a.tinject(b"farewell", to_b, 7);
    a.close();
    assert_eq!(b.wait_done().len, 8);
    assert_eq!(bytes_at(buf, 8), b"farewell");
    b.close();
}

#[test]
fn what_is_not_there_says_so() {
    let loaded = Loaded::new();
    let a = loaded.node(&like_mpi);
    // SAFETY: an open endpoint with its own table; nothing is looked at.
    let bind_nothing =
        unsafe { ((*(*a.ep).ops).ops_open)(a.ep, null_mut(), 0, null_mut(), null_mut()) };
    assert_eq!(bind_nothing, -libc::ENOSYS);
    a.close();
}

#[test]
fn an_injected_message_that_nobody_accepts_is_told_without_a_context() {
    let (a, b, to_b, _) = pair();
    b.close();
    a.tinject(b"anybody there?", to_b, 7);
    let Read::Failed { entry, err, why, .. } = a.wait() else { panic!("nobody accepted it") };
    assert_eq!((entry.op_context, entry.tag), (null_mut(), 7));
    assert_eq!(entry.flags, flag::TAGGED | flag::SEND);
    assert!(err == libc::EHOSTUNREACH || err == libc::ETIMEDOUT, "{err}: {why}");
    a.close();
}
