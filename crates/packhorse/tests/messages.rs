//! Two endpoints of one process, over loopback.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use packhorse::{
    Builder, Endpoint, Error, Faults, Path, PathState, Peer, Placement, SendOptions, Wanted,
};

/// Both placements, over sockets, over shared memory, and over what is found best.
fn pairs() -> impl Iterator<Item = (Endpoint, Endpoint, Peer)> {
    let placements = [Placement::Inline, Placement::Thread].into_iter();
    let all = placements.flat_map(|placement| ["udp", "shm", "auto"].map(|link| (placement, link)));
    all.map(|(placement, link)| {
        let open = || {
            let builder = Builder::plain().bind([127, 0, 0, 1]).placement(placement);
            let builder = builder.link(link.parse().unwrap());
            builder.linger(Duration::from_millis(200)).open().unwrap()
        };
        let (a, b) = (open(), open());
        let to_b = a.peer(&b.address()).unwrap();
        (a, b, to_b)
    })
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// Turns both, for an inline endpoint moves only inside calls.
fn drive(a: &Endpoint, b: &Endpoint, mut done: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        a.turn();
        b.turn();
        assert!(start.elapsed() < Duration::from_secs(60), "no end in a minute");
    }
}

#[test]
fn messages_of_all_sizes_arrive_whole() {
    for (a, b, to_b) in pairs() {
        for len in
            [0, 1, 8, 255, 1400, 1500, 9000, 32 << 10, (32 << 10) + 1, 100_000, 1 << 20, 5 << 20]
        {
            let mut coming = b.recv(Wanted::tag(len as u64), vec![0; len]);
            let mut going = a.send(to_b, len as u64, pattern(len));
            let (mut sent, mut received) = (None, None);
            drive(&a, &b, || {
                sent = sent.take().or_else(|| going.test());
                received = received.take().or_else(|| coming.test());
                sent.is_some() && received.is_some()
            });
            assert_eq!(sent.unwrap().unwrap(), pattern(len));
            let received = received.unwrap().unwrap();
            assert!(received.buffer == pattern(len), "{len} bytes differ");
            assert_eq!(received.envelope.len, len as u64);
        }
    }
}

#[test]
fn long_messages_are_shared_out_among_several_streams() {
    const COUNT: usize = 4;
    // With another link beside them, they wait until there is something long.
    for links in ["tcp", "udp,tcp"] {
        let open = || {
            let builder = Builder::plain().bind([127, 0, 0, 1]).links(links);
            builder.tcp_streams(COUNT as u8).linger(Duration::from_millis(200)).open().unwrap()
        };
        let (a, b) = (open(), open());
        let to_b = a.peer(&b.address()).unwrap();
        let (len, start) = (3 << 20, std::time::Instant::now());
        loop {
            let lens = (0..8).map(|tag| len + tag as usize);
            let coming: Vec<_> =
                (0..8).zip(lens).map(|(tag, len)| b.recv(Wanted::tag(tag), vec![0; len])).collect();
            let going: Vec<_> =
                (0..8).map(|tag| a.send(to_b, tag, pattern(len + tag as usize))).collect();
            for (tag, coming) in coming.into_iter().enumerate() {
                let received = coming.wait().unwrap();
                assert!(received.buffer == pattern(len + tag), "message {tag} differs");
            }
            going.into_iter().for_each(|going| drop(going.wait().unwrap()));
            let paths = a.paths(to_b);
            let carries = |path: &&Path| {
                let is_rail = matches!(path.state, PathState::Main | PathState::Rail);
                is_rail && path.link.starts_with("tcp")
            };
            let streams: Vec<&Path> = paths.iter().filter(carries).collect();
            let ends = |of: fn(&Path) -> &str| -> HashSet<&str> {
                streams.iter().map(|path| of(path)).collect()
            };
            let (here, there) = (ends(|path| &path.link), ends(|path| &path.to));
            // A stream is in use that has an end which none before it has (PROTOCOL §10.2). In which order they open is chance: where the first two share an
            // end there are more of them than ends on either side. Each end carries some.
            if (here.len(), there.len()) == (COUNT, COUNT) && streams.len() < 2 * COUNT {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{links}: {paths:#?}");
        }
    }
}

#[test]
fn segments_are_gathered_and_scattered() {
    for (a, b, to_b) in pairs() {
        let whole = pattern(300_000);
        let pieces: Vec<Vec<u8>> = whole.chunks(70_001).map(<[u8]>::to_vec).collect();
        let mut coming =
            b.recv(Wanted::tag(1), vec![vec![0; 3], vec![0; 200_000], vec![0; 150_000]]);
        let mut going = a.send(to_b, 1, pieces);
        let mut received = None;
        drive(&a, &b, || {
            received = received.take().or_else(|| coming.test());
            received.is_some()
        });
        assert_eq!(received.unwrap().unwrap().buffer.concat(), whole);
        drive(&a, &b, || going.test().is_some());
    }
}

#[test]
fn immediate_data_any_source_and_shared_buffers() {
    for (a, b, to_b) in pairs() {
        let shared: Arc<[u8]> = pattern(100).into();
        let options = SendOptions { immediate: Some(u64::MAX), ..SendOptions::default() };
        let going = a.send_with(to_b, 9, Arc::clone(&shared), options);
        let mut coming = b.recv(Wanted::any(), vec![0; 100]);
        let mut received = None;
        drive(&a, &b, || {
            received = received.take().or_else(|| coming.test());
            received.is_some()
        });
        let received = received.unwrap().unwrap();
        assert_eq!((received.envelope.immediate, received.envelope.tag), (Some(u64::MAX), 9));
        assert_eq!(received.buffer, &shared[..]);
        drop(going);
    }
}

#[test]
fn probe_and_claim_find_what_nobody_received() {
    for (a, b, to_b) in pairs() {
        a.send_copy(to_b, 4, b"four").unwrap();
        a.send_copy(to_b, 5, b"five").unwrap();
        drive(&a, &b, || b.probe(Wanted::tag(5)).is_some());
        let claimed = b.claim(Wanted::tag(4)).unwrap();
        assert_eq!(claimed.envelope.len, 4);
        assert!(b.probe(Wanted::tag(4)).is_none(), "claimed");
        assert_eq!(claimed.recv(vec![0; 4]).wait().unwrap().buffer, b"four");
        drop(b.claim(Wanted::tag(5)).unwrap());
        assert!(b.probe(Wanted::tag(5)).is_none(), "thrown away");
    }
}

#[test]
fn many_messages_share_a_buffer() {
    for (a, b, to_b) in pairs() {
        let mut many = b.recv_many(Wanted::any(), vec![0; 100], 10).unwrap();
        for number in 0..10 {
            a.send_copy(to_b, number, &[number as u8; 10]).unwrap();
        }
        let mut pieces = Vec::new();
        drive(&a, &b, || {
            pieces.extend(many.test().map(Result::unwrap));
            pieces.len() == 10
        });
        assert_eq!(pieces[3].envelope.tag, 3);
        assert_eq!((pieces[3].offset, pieces[3].len), (30, 10));
        let buffer = many.close();
        assert_eq!(&buffer[30..40], &[3; 10]);
    }
}

#[test]
fn too_long_a_message_is_truncated_and_says_so() {
    for (a, b, to_b) in pairs() {
        for len in [100, 200_000] {
            let mut coming = b.recv(Wanted::any(), vec![0; 10]);
            let going = a.send(to_b, 0, pattern(len));
            let mut received = None;
            drive(&a, &b, || {
                received = received.take().or_else(|| coming.test());
                received.is_some()
            });
            let failed = received.unwrap().unwrap_err();
            assert!(
                matches!(failed.error, Error::Truncated { len: l, room: 10 } if l == len as u64)
            );
            assert_eq!(failed.buffer.unwrap(), pattern(len)[..10]);
            drop(going);
        }
    }
}

#[test]
fn cancel_gives_the_buffer_back_at_once() {
    for (a, b, to_b) in pairs() {
        let receiving = b.recv(Wanted::tag(1), vec![7; 10]);
        assert!(receiving.cancel());
        let failed = receiving.wait().unwrap_err();
        assert!(matches!(failed.error, Error::Cancelled));
        assert_eq!(failed.buffer.unwrap(), [7; 10]);
        let sending = a.send(to_b, 1, pattern(1 << 20)); // announced, and nobody matches it
        a.turn();
        assert!(sending.cancel());
        assert_eq!(sending.wait().unwrap_err().buffer.unwrap().len(), 1 << 20);
    }
}

#[test]
fn a_scope_lends_slices_and_ends_what_is_left() {
    for (a, b, to_b) in pairs() {
        let mut space = vec![0; 50_000];
        let data = pattern(50_000);
        let (mut never, mut half) = ([0; 8], [1_u8; 4]);
        let other = b.clone();
        let result = std::thread::scope(|threads| {
            threads.spawn(|| a.scope(|scope| scope.send(to_b, 2, &data).wait().unwrap()));
            other.scope(|scope| {
                let _forgotten =
                    std::mem::ManuallyDrop::new(scope.recv(Wanted::tag(99), &mut never));
                drop(scope.recv(Wanted::tag(98), &mut half));
                scope.recv(Wanted::tag(2), &mut space).wait()
            })
        });
        assert_eq!(result.unwrap().len, 50_000);
        assert_eq!(space, data);
        assert_eq!((never, half), ([0; 8], [1; 4])); // ours again, and nobody wrote to it
        let pending =
            b.counters().into_iter().find(|(name, _)| name == "requests_pending").unwrap();
        assert_eq!(pending.1, 0);
    }
}

#[test]
fn waiting_threads_do_not_hinder_each_other() {
    let (a, b, to_b) = pairs().last().unwrap();
    std::thread::scope(|threads| {
        for tag in 0..8_u64 {
            let (a, b) = (a.clone(), b.clone());
            threads.spawn(move || {
                for round in 0..50 {
                    let len = (tag as usize * 7919 + round * 131) % 40_000;
                    let coming = b.recv(Wanted::tag(tag), vec![0; len]);
                    a.send(to_b, tag, pattern(len)).wait().unwrap();
                    assert_eq!(coming.wait().unwrap().buffer, pattern(len));
                }
            });
        }
    });
}

#[test]
fn a_send_to_oneself_is_ordinary() {
    for (a, _, _) in pairs() {
        let me = a.peer(&a.address()).unwrap();
        let coming = a.recv(Wanted::tag(1), vec![0; 100_000]);
        let going = a.send(me, 1, pattern(100_000));
        assert_eq!(coming.wait().unwrap().buffer, pattern(100_000));
        going.wait().unwrap();
    }
}

/// Every frame is lost, on all links: what goes to another does not arrive, what goes to oneself does.
#[test]
fn a_message_to_oneself_needs_no_link() {
    for (placement, link) in
        [(Placement::Inline, "udp"), (Placement::Thread, "shm"), (Placement::Thread, "auto")]
    {
        let open = || {
            let faults = Faults { loss_ppm: 1_000_000, ..Faults::default() };
            let builder = Builder::plain().bind([127, 0, 0, 1]).placement(placement).faults(faults);
            let builder = builder.link(link.parse().unwrap()).linger(Duration::ZERO);
            builder.open().unwrap()
        };
        let (a, b) = (open(), open());
        let (me, to_b) = (a.peer(&a.address()).unwrap(), a.peer(&b.address()).unwrap());
        let options = SendOptions { until_matched: true, ..SendOptions::default() };
        let mut to_another = a.send_with(to_b, 1, pattern(8), options);
        for len in [0, 8, 100_000, 16 << 20] {
            let coming = a.recv(Wanted::tag(1), vec![0; len]);
            let going = a.send_with(me, 1, pattern(len), options);
            assert!(coming.wait().unwrap().buffer == pattern(len), "{len} bytes over {link}");
            going.wait().unwrap();
        }
        assert!(to_another.test().is_none(), "{link} lost nothing");
        let counters = a.counters();
        let of = |wanted: &str| counters.iter().find(|(name, _)| name == wanted).unwrap().1;
        assert!(of("frames_to_self") > 0 && of("packets_lost") == 0, "{counters:?}");
    }
}

/// Neither cut into frames nor granted: its announcement turns around, and it is copied to its place.
#[test]
fn a_large_message_to_oneself_is_copied_once() {
    const LEN: usize = 5 << 20; // more than one turn copies
    for link in ["udp", "tcp", "shm", "auto"] {
        let builder = Builder::plain().bind([127, 0, 0, 1]).placement(Placement::Inline);
        let a = builder.link(link.parse().unwrap()).open().unwrap();
        let me = a.peer(&a.address()).unwrap();
        for is_expected in [true, false] {
            let mut going = None;
            if !is_expected {
                going = Some(a.send(me, 1, pattern(LEN)));
                a.turn();
            }
            let coming = a.recv(Wanted::tag(1), vec![0; LEN]);
            let going = going.unwrap_or_else(|| a.send(me, 1, pattern(LEN)));
            assert!(coming.wait().unwrap().buffer == pattern(LEN), "over {link}");
            going.wait().unwrap();
        }
        let short = a.recv(Wanted::tag(2), vec![0; 100_000]);
        let long = a.send(me, 2, pattern(LEN));
        let cut = short.wait().unwrap_err();
        assert!(cut.buffer == Some(pattern(100_000)), "over {link}");
        long.wait().unwrap();
        let counters = a.counters();
        let of = |wanted: &str| counters.iter().find(|(name, _)| name == wanted).unwrap().1;
        assert_eq!((of("bytes_fetched"), of("grants")), (2 * LEN as u64 + 100_000, 0), "{link}");
        assert!(of("frames_to_self") < 20, "{counters:?}");
    }
}

/// An application that asks once, and gives nobody else any time, knows of what it sent to itself.
#[test]
fn what_one_says_to_oneself_is_answered_in_the_same_turn() {
    let builder = Builder::plain().bind([127, 0, 0, 1]).placement(Placement::Inline);
    let a = builder.link("udp".parse().unwrap()).open().unwrap();
    let me = a.peer(&a.address()).unwrap();
    let options = SendOptions { until_matched: true, ..SendOptions::default() };
    for (tag, len) in (0..).zip([8, 8, 1000, 5000]) {
        let mut coming = a.recv(Wanted::tag(tag), vec![0; len]);
        let mut going = a.send_with(me, tag, pattern(len), options);
        if tag == 0 {
            going.wait().unwrap(); // first contact
            coming.wait().unwrap();
            continue;
        }
        let ends = (going.test(), coming.test());
        assert!(matches!(ends, (Some(Ok(_)), Some(Ok(_)))), "{len} bytes: {ends:?}");
    }
}

#[test]
fn futures_wake_on_any_executor() {
    for (a, b, to_b) in pairs() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let coming = b.recv(Wanted::tag(1), vec![0; 1 << 20]);
            let going = a.send(to_b, 1, pattern(1 << 20));
            let (sent, received) = tokio::join!(going, coming);
            sent.unwrap();
            assert!(received.unwrap().buffer == pattern(1 << 20));
            let endless = b.recv(Wanted::tag(2), vec![0; 1]);
            let timeout = tokio::time::timeout(Duration::from_millis(20), endless);
            assert!(timeout.await.is_err());
        });
    }
}

#[test]
fn pending_requests_end_when_the_endpoint_closes() {
    for (a, b, to_b) in pairs() {
        let coming = b.recv(Wanted::tag(1), vec![3; 10]);
        let going = a.send_with(
            to_b,
            2,
            pattern(10),
            SendOptions { until_matched: true, ..SendOptions::default() },
        );
        b.close(Duration::from_millis(50));
        let failed = coming.wait().unwrap_err();
        assert!(matches!(failed.error, Error::Closed), "{failed}");
        assert_eq!(failed.buffer.unwrap(), [3; 10]);
        a.close(Duration::from_millis(50));
        assert!(going.wait().is_err());
    }
}

#[test]
fn too_many_segments_are_refused() {
    let (a, b, to_b) = pairs().next().unwrap();
    let pieces = vec![vec![0_u8; 1]; 100_000];
    let failed = a.send(to_b, 1, pieces).wait().unwrap_err();
    assert!(failed.to_string().contains("100000 segments are too many"), "{failed}");
    assert_eq!(failed.buffer.unwrap().len(), 100_000);
    let shared: Arc<[u8]> = vec![0; 4].into();
    let failed = b.recv(Wanted::any(), shared).wait().unwrap_err();
    assert!(matches!(failed.error, Error::ReadOnly));
}

#[test]
fn nobody_at_the_address_is_an_error_that_names_it() {
    for placement in [Placement::Inline, Placement::Thread] {
        let builder = || Builder::plain().bind([127, 0, 0, 1]).placement(placement);
        let a = builder().linger(Duration::from_millis(100)).open().unwrap();
        let gone = builder().open().unwrap();
        let address = gone.address();
        drop(gone);
        let peer = a.peer(&address).unwrap();
        let failed = a.send(peer, 1, vec![1]).wait().unwrap_err();
        let text = failed.to_string();
        assert!(text.contains("127.0.0.1:") && text.contains("nobody is there"), "{text}");
    }
}
