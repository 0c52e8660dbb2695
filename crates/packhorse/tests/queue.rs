//! Completion queues, over loopback.

use std::time::Duration;

use packhorse::queue::{Ended, Kind, Queue};
use packhorse::{Builder, Endpoint, Error, Peer, Placement, SendOptions, Wanted};

/// What has not happened by then does not happen, on a machine with much to do either.
const PATIENCE: Duration = Duration::from_secs(60);

fn pair(placement: Placement, link: &str) -> (Endpoint, Endpoint, Peer) {
    let open = || {
        let builder = Builder::plain().bind([127, 0, 0, 1]).placement(placement).links(link);
        builder.linger(Duration::from_millis(200)).open().unwrap()
    };
    let (a, b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    (a, b, to_b)
}

fn all_pairs() -> impl Iterator<Item = (Endpoint, Endpoint, Peer)> {
    let placements = [Placement::Inline, Placement::Thread].into_iter();
    placements.flat_map(|placement| ["udp", "shm"].map(|link| pair(placement, link)))
}

/// The next end, while both sides are turned.
fn next(queue: &mut Queue, other: &Endpoint) -> Ended {
    let start = std::time::Instant::now();
    loop {
        if let Some(ended) = queue.test() {
            return ended;
        }
        other.turn();
        assert!(start.elapsed() < PATIENCE, "no end");
    }
}

#[test]
fn every_end_is_told_once_in_order_and_gives_its_buffer_back() {
    const COUNT: u64 = 300; // many times what the ring holds
    for (a, b, to_b) in all_pairs() {
        let (mut sends, mut recvs) = (a.queue(8), b.queue(8));
        for context in 0..COUNT {
            recvs.recv(Wanted::tag(context), vec![0; 3000], context).unwrap();
        }
        for context in 0..COUNT {
            let len = context as usize * 7;
            sends.send(to_b, context, vec![context as u8; len], 1000 + context).unwrap();
        }
        // Nobody reads while they end: nearly all spill.
        let start = std::time::Instant::now();
        while b.counters().iter().any(|(name, value)| name == "requests_pending" && *value > 0) {
            a.turn();
            b.turn();
            assert!(start.elapsed() < PATIENCE, "no end");
        }
        for context in 0..COUNT {
            let ended = next(&mut recvs, &a);
            assert_eq!(
                (ended.context, ended.kind, ended.placed_len),
                (context, Kind::Received, context * 7)
            );
            ended.result.as_ref().unwrap();
            let envelope = ended.envelope.unwrap();
            assert_eq!((envelope.tag, envelope.len), (context, context * 7));
            let buffer: Vec<u8> = recvs.buffer(&ended).unwrap();
            assert_eq!(buffer, vec![context as u8; context as usize * 7]);
            assert!(recvs.buffer::<Vec<u8>>(&ended).is_none(), "only once");
            assert!(ended.at <= b.clock());
        }
        let mut contexts: Vec<_> =
            (0..COUNT).map(|_| next(&mut sends, &b)).map(|it| it.context).collect();
        contexts.sort_unstable();
        assert!(contexts.into_iter().eq(1000..1000 + COUNT));
        assert!(sends.is_empty() && recvs.is_empty() && recvs.test().is_none());
    }
}

/// A halo exchange finds the messages of several neighbours at once. A turn for those behind the first would cost more than they do.
#[test]
fn messages_that_wait_together_are_had_in_one_look() {
    for len in [64, 4096, 24_000] {
        five_messages_are_had_in_one_look(len);
    }
}

fn five_messages_are_had_in_one_look(len: usize) {
    const COUNT: u64 = 5;
    let (a, b, to_b) = pair(Placement::Inline, "shm");
    let (mut queue, bytes) = (b.queue(16), vec![7; len]);
    let turns = || b.counters().iter().find(|(name, _)| *name == "turns").unwrap().1;
    let start = std::time::Instant::now();
    // A turn that is late is due before the next message: on a machine with much to do that may happen at any time.
    loop {
        for tag in 0..COUNT {
            queue.recv(Wanted::tag(tag), vec![0; len], tag).unwrap();
        }
        b.turn();
        for tag in 0..COUNT {
            a.send_copy(to_b, tag, &bytes).unwrap();
        }
        let before = turns();
        let first = queue.test();
        let others: Vec<_> = (1..COUNT).map_while(|_| queue.poll()).collect(); // drives nothing
        let is_one_look = first.is_some() && others.len() as u64 == COUNT - 1;
        if is_one_look && turns() == before {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "of {len} bytes: it took {} turns", turns() - before);
        for _ in u64::from(first.is_some()) + others.len() as u64..COUNT {
            next(&mut queue, &a).result.unwrap();
        }
    }
}

/// Who only tests looks once: what several peers sent before is to be found by that, also if it is more than is had without a turn.
#[test]
fn one_look_finds_what_several_peers_sent() {
    const COUNT: u64 = 20;
    let (a, b, to_b) = pair(Placement::Inline, "shm");
    let others = [(); 2].map(|()| {
        let (other, _, _) = pair(Placement::Inline, "shm");
        let to_b = other.peer(&b.address()).unwrap();
        (other, to_b)
    });
    let senders: Vec<_> = others.iter().map(|(from, to)| (from, *to)).chain([(&a, to_b)]).collect();
    let mut queue = b.queue(16);
    let pending = || b.counters().iter().find(|(name, _)| *name == "requests_pending").unwrap().1;
    let start = std::time::Instant::now();
    // First contact, and what its ends leave behind, take some rounds.
    loop {
        for tag in 0..COUNT * senders.len() as u64 {
            queue.recv(Wanted::tag(tag), vec![0; 64], tag).unwrap();
        }
        let mut tags = 0..;
        for (from, to_b) in &senders {
            for tag in tags.by_ref().take(COUNT as usize) {
                from.send_copy(*to_b, tag, &[7; 64]).unwrap();
            }
            from.turn();
        }
        let first = queue.test();
        if pending() == 0 {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{} were left behind", pending());
        let left_count = COUNT * senders.len() as u64 - u64::from(first.is_some());
        for _ in 0..left_count {
            while queue.is_empty() {
                b.turn();
                senders.iter().for_each(|(from, _)| _ = from.turn());
            }
            next(&mut queue, &a).result.unwrap();
        }
    }
}

/// Who reads a long message from where it is holds the lock for the time of it. Others that want the lock have it before the next is read.
#[test]
fn of_long_messages_that_wait_together_one_look_reads_one() {
    const LEN: usize = 1 << 20; // as much as a turn reads
    let (a, b, to_b) = pair(Placement::Inline, "shm");
    let (mut sends, mut recvs) = (a.queue(16), b.queue(16));
    let turns = || b.counters().into_iter().find(|(name, _)| name == "turns").unwrap().1;
    let mut look_count = 0;
    for _ in 0..20 {
        for tag in 0..4 {
            recvs.recv(Wanted::tag(tag), vec![0; LEN], tag).unwrap();
        }
        let buffers = [(); 4].map(|()| vec![7; LEN]); // before the turn: soon after one no other is due
        b.turn();
        for (tag, buffer) in (0..).zip(buffers) {
            sends.send(to_b, tag, buffer, tag).unwrap();
        }
        for _ in 0..4 {
            let (ended, has_turned) = loop {
                let turn_count = turns();
                match recvs.test() {
                    Some(ended) => break (ended, turns() != turn_count),
                    None => _ = a.turn(),
                }
            };
            ended.result.unwrap();
            assert_eq!(ended.placed_len, LEN as u64);
            // On a machine that is busy a turn may be due by then, which reads one, too.
            assert!(recvs.is_empty() || has_turned, "the look read two");
            look_count += u32::from(!has_turned);
        }
        for _ in 0..4 {
            next(&mut sends, &b).result.unwrap();
        }
    }
    assert!(look_count > 0);
}

#[test]
fn a_reader_that_waits_drives_and_a_thread_beside_it_posts() {
    for link in ["udp", "shm"] {
        let (a, b, to_b) = pair(Placement::Thread, link);
        let mut queue = b.queue(16);
        let poster = queue.poster();
        let tags = 0..200_u64;
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for tag in tags.clone() {
                    poster.recv(Wanted::tag(tag), vec![0; 64], tag).unwrap();
                    a.send(to_b, tag, vec![1; 64]).wait().unwrap();
                }
            });
            for tag in tags.clone() {
                let ended = queue.wait(Some(PATIENCE)).expect("an end");
                assert_eq!(ended.context, tag);
                ended.result.unwrap();
            }
        });
        assert!(queue.wait(Some(Duration::from_millis(20))).is_none(), "the time is over");
    }
}

#[test]
fn success_that_was_not_asked_for_is_not_told_but_failure_is() {
    let (a, b, to_b) = pair(Placement::Thread, "udp");
    let mut queue = a.queue(8);
    let quiet = SendOptions::default();
    queue.send_with(to_b, 1, vec![0; 10], quiet, (1, true)).unwrap();
    queue.send_with(to_b, 2, vec![0; 10], quiet, (2, false)).unwrap();
    assert_eq!(next(&mut queue, &b).context, 2, "the first was not told");
    // One that waits for a match which will not come, and is cancelled.
    let matched = SendOptions { until_matched: true, ..quiet };
    queue.send_with(to_b, 3, vec![7; 10], matched, (3, true)).unwrap();
    assert_eq!(queue.cancel(3), 1);
    assert_eq!(queue.cancel(3), 0, "it has ended");
    let ended = next(&mut queue, &b);
    assert_eq!(ended.context, 3);
    assert!(matches!(ended.result, Err(Error::Cancelled)), "{:?}", ended.result);
    assert_eq!(queue.buffer::<Vec<u8>>(&ended), Some(vec![7; 10]));
    let lent = a.counters().into_iter().find(|(name, _)| name == "memory_lent");
    assert_eq!(lent.unwrap().1, 0);
}

#[test]
fn receives_are_cancelled_by_context_and_with_their_queue() {
    let (a, b, to_b) = pair(Placement::Thread, "udp");
    let mut queue = b.queue(8);
    for context in [5, 6, 5] {
        queue.recv(Wanted::tag(1), vec![0; 10], context).unwrap();
    }
    assert_eq!(queue.cancel(5), 2);
    for _ in 0..2 {
        let ended = queue.wait(Some(PATIENCE)).expect("an end");
        assert_eq!((ended.context, ended.kind, ended.peer), (5, Kind::Unlinked, None));
        assert!(matches!(ended.result, Err(Error::Cancelled)));
        assert_eq!(queue.buffer::<Vec<u8>>(&ended).unwrap().len(), 10);
    }
    drop(queue);
    let pending =
        || b.counters().into_iter().find(|(name, _)| name == "requests_pending").unwrap().1;
    assert_eq!(pending(), 0, "the last went with its queue");
    a.send(to_b, 1, vec![1; 4]).wait().unwrap();
    assert_eq!(b.recv(Wanted::tag(1), vec![0; 10]).wait().unwrap().buffer, [1; 4]);
}

#[test]
fn an_endpoint_that_closes_ends_what_is_in_its_queues() {
    let (a, b, to_b) = pair(Placement::Thread, "udp");
    let mut queue = b.queue(8);
    queue.recv(Wanted::tag(1), vec![0; 10], 1).unwrap();
    queue.recv(Wanted::tag(2), vec![0; 2], 2).unwrap();
    a.send(to_b, 2, vec![0; 10]).wait().unwrap();
    let ended = queue.wait(Some(PATIENCE)).expect("an end");
    assert!(
        matches!(ended.result, Err(Error::Truncated { len: 10, room: 2 })),
        "{:?}",
        ended.result
    );
    b.close(Duration::from_millis(100));
    let ended = queue.wait(Some(PATIENCE)).expect("an end");
    assert_eq!(ended.context, 1);
    assert!(matches!(ended.result, Err(Error::Closed)), "{:?}", ended.result);
    assert!(matches!(queue.recv(Wanted::tag(3), vec![0; 2], 3).unwrap_err().error, Error::Closed));
}

/// What faces do: entries used many times, overflow entries and their contexts, by the engine's own words.
#[test]
fn entries_used_many_times_and_overflow_entries_tell_of_each_message() {
    use packhorse::raw;
    let (a, b, to_b) = pair(Placement::Thread, "udp");
    let engine = raw::engine(&b);
    let mut queue = engine.completions(64);
    let queue_id = queue.id();
    let mut wait = || {
        assert!(queue.wait(Some(PATIENCE)), "nothing");
        queue.poll().unwrap()
    };
    let criteria =
        raw::Criteria { space: raw::Space(0), tag: raw::Tag(4), ignore: 3, source: None };
    let many = raw::Recv {
        criteria,
        list: raw::List::Overflow,
        uses: raw::Use::Many { free_len_min: 10 },
        header_only: false,
    };
    let notify = |context| raw::Notify { queue: queue_id, context, only_errors: false };
    engine.recv_queued(notify(77), many, vec![0; 25].into()).unwrap();
    a.send(to_b, 4, vec![4; 8]).wait().unwrap();
    a.send(to_b, 5, vec![5; 8]).wait().unwrap(); // now it is full
    // Receives that come late find their messages there, and learn in whose memory. When none is left, it is unlinked.
    let once = |tag| raw::Recv {
        criteria: raw::Criteria { tag: raw::Tag(tag), ignore: 0, ..criteria },
        list: raw::List::Priority,
        uses: raw::Use::Once,
        ..many
    };
    for (tag, offset) in [(5, 8), (4, 0)] {
        engine.recv_queued(notify(78), once(tag), vec![0; 8].into()).unwrap();
        let entry = wait();
        assert_eq!((entry.context, entry.kind, entry.tag.0), (78, Kind::Overflowed, tag));
        assert_eq!((entry.overflow_context, entry.offset, entry.placed_len), (77, offset, 8));
    }
    let unlinked = wait();
    assert_eq!((unlinked.context, unlinked.kind, unlinked.result), (77, Kind::Unlinked, Ok(())));
    assert!(unlinked.is_last && unlinked.has_memory);
    let memory = engine.take_memory(unlinked.request).unwrap().into_vec();
    assert_eq!((&memory[..8], &memory[8..16]), (&[4; 8][..], &[5; 8][..]));
    // In the priority list each message is told as it comes.
    let many = raw::Recv { list: raw::List::Priority, ..many };
    engine.recv_queued(notify(79), many, vec![0; 40].into()).unwrap();
    a.send(to_b, 6, vec![6; 8]).wait().unwrap();
    let told = wait();
    assert_eq!((told.context, told.offset, told.placed_len, told.is_last), (79, 0, 8, false));
    assert_eq!(engine.cancel_queued(queue_id, 79), 1);
    assert!(wait().is_last);
}

/// An event loop as others have it: it knows the descriptor, and sleeps on nothing else.
#[test]
fn an_event_loop_sleeps_on_the_wake_descriptor() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    for (a, b, to_b) in all_pairs() {
        let mut queue = b.queue(8);
        let sleep = || {
            let mut fds = [PollFd::from_borrowed_fd(b.wake_fd(), PollFlags::IN)];
            let longest = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
            assert!(poll(&mut fds, Some(&longest)).unwrap() > 0, "slept through it");
        };
        std::thread::scope(|threads| {
            let sender = threads.spawn(|| {
                for tag in 0..30 {
                    std::thread::sleep(Duration::from_millis(3));
                    a.send(to_b, tag, vec![1; 100_000 * (tag as usize % 2) + 1]).wait().unwrap();
                }
            });
            // First by a queue, then by a request that is tested.
            for tag in 0..15 {
                queue.recv(Wanted::tag(tag), vec![0; 100_001], tag).unwrap();
                let ended = loop {
                    match queue.test() {
                        Some(ended) => break ended,
                        None if queue.arm() => sleep(),
                        None => {}
                    }
                };
                assert_eq!(ended.context, tag);
                ended.result.unwrap();
            }
            for tag in 15..30 {
                let mut coming = b.recv(Wanted::tag(tag), vec![0; 100_001]);
                loop {
                    let is_armed = b.arm();
                    match coming.test() {
                        Some(received) => break assert_eq!(received.unwrap().envelope.tag, tag),
                        None if is_armed => sleep(),
                        None => {}
                    }
                }
            }
            // The last send waits for its acknowledgement.
            let start = std::time::Instant::now();
            while !sender.is_finished() {
                b.turn();
                assert!(start.elapsed() < PATIENCE, "the last send is not acknowledged");
            }
        });
    }
}

/// Posts that meet somebody in a turn are left for him: in order, and none is lost.
#[test]
fn posts_from_many_threads_meet_a_driver_and_keep_their_order() {
    const COUNT: u64 = 3000;
    for link in ["udp", "shm"] {
        let (a, b, to_b) = pair(Placement::Thread, link);
        let (mut sends, mut recvs) = (a.queue(256), b.queue(256));
        let posters = [sends.poster(), sends.poster()];
        std::thread::scope(|threads| {
            for (poster, tag) in posters.into_iter().zip([1, 2]) {
                let recvs = recvs.poster();
                threads.spawn(move || {
                    for number in 0..COUNT {
                        recvs.recv(Wanted::tag(tag), vec![0; 2000], tag << 32 | number).unwrap();
                        let len = if number % 16 == 0 { 2000 } else { 8 };
                        poster.send(to_b, tag, vec![number as u8; len], number).unwrap();
                    }
                });
            }
            threads.spawn(|| {
                for _ in 0..2 * COUNT {
                    let ended = sends.wait(Some(PATIENCE)).expect("an end");
                    ended.result.unwrap();
                }
            });
            let mut next = [0; 3];
            for _ in 0..2 * COUNT {
                let ended = recvs.wait(Some(PATIENCE)).expect("an end");
                let tag = ended.envelope.unwrap().tag as usize;
                assert_eq!(
                    ended.context,
                    (tag as u64) << 32 | next[tag],
                    "in the order of posting"
                );
                let buffer: Vec<u8> = recvs.buffer(&ended).unwrap();
                assert!(
                    buffer.iter().all(|&byte| byte == next[tag] as u8),
                    "in the order of sending"
                );
                next[tag] += 1;
            }
        });
        let left = |endpoint: &Endpoint| {
            endpoint.counters().into_iter().find(|(name, _)| name == "posts_left").unwrap().1
        };
        println!("{link}: {} and {} posts were left for others", left(&a), left(&b));
    }
}

#[test]
fn a_post_to_a_peer_that_was_forgotten_is_refused_there_or_in_the_queue() {
    let (a, _b, to_b) = pair(Placement::Thread, "udp");
    let mut queue = a.queue(8);
    a.forget(to_b);
    for _ in 0..100 {
        let error = match queue.send(to_b, 1, vec![1; 8], 5) {
            Err(failed) => failed.error,
            Ok(()) => {
                let ended = queue.wait(Some(PATIENCE)).expect("an end");
                assert_eq!((ended.context, queue.buffer(&ended)), (5, Some(vec![1; 8])));
                ended.result.unwrap_err()
            }
        };
        assert!(matches!(error, Error::UnknownPeer), "{error:?}");
    }
}

/// A peer can send messages of no bytes for ever, and each is an entry: what an unread queue holds is bounded all the same.
#[test]
fn an_entry_used_many_times_is_unlinked_before_its_queue_grows_without_end() {
    use packhorse::raw;
    const MANY: u64 = 150_000; // a late turn alone may take thousands
    let (a, b, to_b) = pair(Placement::Thread, "shm");
    let engine = raw::engine(&b);
    let mut queue = engine.completions(16);
    let criteria =
        raw::Criteria { space: raw::Space(0), tag: raw::Tag(1), ignore: 0, source: None };
    let uses = raw::Use::Many { free_len_min: 0 };
    let recv = raw::Recv { criteria, list: raw::List::Priority, uses, header_only: false };
    let notify = raw::Notify { queue: queue.id(), context: 1, only_errors: false };
    engine.recv_queued(notify, recv, vec![0; 8].into()).unwrap();
    for _ in 0..MANY {
        a.send_copy(to_b, 1, &[]).unwrap();
    }
    let pending = || b.counters().into_iter().find(|it| it.0 == "requests_pending").unwrap().1;
    let start = std::time::Instant::now();
    while pending() > 0 {
        assert!(start.elapsed() < PATIENCE, "the entry is still there");
        std::thread::sleep(Duration::from_millis(1));
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
    assert!((1 << 16..MANY).contains(&told), "{told} messages were told");
    // Those that came later wait for another receive.
    for _ in told..MANY {
        b.recv(Wanted::tag(1), Vec::<u8>::new()).wait().unwrap();
    }
}

#[test]
fn what_the_reader_ends_itself_comes_behind_what_others_ended() {
    use packhorse::raw;
    for link in ["udp", "shm"] {
        let (a, b, to_b) = pair(Placement::Inline, link);
        let mut queue = raw::engine(&b).completions(8);
        let criteria =
            raw::Criteria { space: raw::Space(0), tag: raw::Tag(7), ignore: 0, source: None };
        let recv = raw::Recv {
            criteria,
            list: raw::List::Priority,
            uses: raw::Use::Once,
            header_only: false,
        };
        for context in 0..60 {
            let notify = raw::Notify { queue: queue.id(), context, only_errors: false };
            raw::engine(&b).recv_queued(notify, recv, vec![0; 10].into()).unwrap();
        }
        let mut seen = Vec::new();
        let began = std::time::Instant::now();
        for round in 0.. {
            if round < 60 {
                a.send_copy(to_b, 7, b"one").unwrap();
            }
            a.turn();
            if round % 3 == 0 {
                b.turn(); // what it ends goes through the ring
            }
            if round % 5 == 0 {
                queue.drain(|entry| seen.push(entry.context));
            } else if round % 2 == 0 {
                seen.extend(queue.poll_or_doze().map(|entry| entry.context));
                assert!(queue.is_empty() || !queue.arm(), "no sleep before all is read");
            }
            if seen.len() == 60 {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{} ends", seen.len());
        }
        assert!(seen.into_iter().eq(0..60));
    }
}

/// How often somebody slept.
fn sleep_count(endpoint: &Endpoint) -> u64 {
    let counters = endpoint.counters();
    counters.iter().find(|(name, _)| name == "sleeps").expect("a counter").1
}

#[test]
fn who_works_between_its_looks_is_never_put_to_sleep() {
    use packhorse::raw;
    for (a, b, to_b) in all_pairs() {
        let mut queue = raw::engine(&b).completions(8);
        let notify = raw::Notify { queue: queue.id(), context: 5, only_errors: false };
        let (space, tag) = (raw::Space(0), raw::Tag(7));
        let criteria = raw::Criteria { space, tag, ignore: 0, source: None };
        let recv = raw::Recv {
            criteria,
            list: raw::List::Priority,
            uses: raw::Use::Once,
            header_only: false,
        };
        raw::engine(&b).recv_queued(notify, recv, vec![0; 10].into()).unwrap();
        let before = sleep_count(&b);
        for number in 0..20_000_u64 {
            assert!(queue.poll_or_doze().is_none());
            std::hint::black_box((0..200).fold(number, |sum, n| sum ^ std::hint::black_box(n)));
        }
        assert_eq!(sleep_count(&b), before, "in 20000 looks with work between them");
        let began = std::time::Instant::now();
        a.send_copy(to_b, 7, b"at last").unwrap();
        let entry = loop {
            a.turn();
            if let Some(entry) = queue.poll_or_doze() {
                break entry;
            }
            assert!(began.elapsed() < PATIENCE, "no end");
        };
        assert_eq!((entry.context, entry.placed_len), (5, 7));
    }
}
