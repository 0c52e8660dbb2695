//! Streams over real sockets: each sentence of `packhorse::stream`'s promise.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use packhorse::stream::Stream;
use packhorse::{Endpoint, Error, Limits, Peer, Placement};

const LONGEST: Duration = Duration::from_secs(60);
/// So many turns of both sides without anything new: nothing new will come.
const TURNS_IN_VAIN: u32 = 10_000;

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (seed as usize).wrapping_mul(31).wrapping_add(at * 7 + at / 251) as u8)
        .collect()
}

/// Chunks are as long as frames, but never longer than this.
const PACKET_LEN_MAX: usize = 16 << 10;

fn open_with(links: &str, placement: Placement) -> Endpoint {
    // Dropped at the end of a test, with peers that nobody turns any more: nothing is left to wait for.
    open_lingering(links, placement, Duration::from_millis(200))
}

fn open_lingering(links: &str, placement: Placement, linger: Duration) -> Endpoint {
    let builder = Endpoint::builder().links(links).bind(std::net::Ipv4Addr::LOCALHOST);
    builder.placement(placement).linger(linger).open().unwrap()
}

fn open() -> Endpoint {
    open_with("udp", Placement::Inline)
}

fn pair() -> (Endpoint, Endpoint, Peer) {
    let (a, b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    (a, b, to_b)
}

fn count(endpoint: &Endpoint, name: &str) -> u64 {
    endpoint.counters().into_iter().find(|(each, _)| each == name).expect("a counter").1
}

/// Turns the sender and extracts at the receiver until `done`.
#[track_caller]
fn extract_until(a: &Endpoint, b: &Endpoint, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        a.turn();
        b.streams().extract(usize::MAX).unwrap();
        assert!(began.elapsed() < LONGEST, "nothing comes any more");
    }
}

/// Messages a handler has seen to their end.
type Got = Arc<Mutex<Vec<Vec<u8>>>>;

/// Receives whole messages in pieces of this length.
async fn collect(mut stream: Stream, piece_len: usize, got: Got) {
    let mut all = vec![];
    loop {
        let mut piece = vec![0; piece_len];
        let len = stream.receive(&mut piece).await.unwrap();
        all.extend_from_slice(&piece[..len]);
        if len < piece_len {
            break;
        }
    }
    got.lock().unwrap().push(all);
}

fn register_collector(endpoint: &Endpoint, number: u16, piece_len: usize) -> Got {
    let got = Got::default();
    let inner = Arc::clone(&got);
    endpoint.streams().register(number, move |_, stream| collect(stream, piece_len, inner.clone()));
    got
}

#[test]
fn sizes_need_not_agree() {
    let (a, b, to_b) = pair();
    for (number, (piece_len, taken_len)) in
        [(1, 1000), (1000, 1), (333, 777), (100_000, 64)].into_iter().enumerate()
    {
        let got = register_collector(&b, number as u16, taken_len);
        let bytes = pattern(number as u64, 5001);
        let mut message = a.streams().begin(to_b, number as u16).unwrap();
        bytes.chunks(piece_len).for_each(|piece| message.send(piece).unwrap());
        message.end().unwrap();
        extract_until(&a, &b, || !got.lock().unwrap().is_empty());
        assert_eq!(got.lock().unwrap()[0], bytes);
    }
}

#[test]
fn long_message_arrives_before_it_is_complete() {
    let (a, b, to_b) = pair();
    let seen = Arc::new(AtomicUsize::new(0));
    let inner = Arc::clone(&seen);
    b.streams().register(1, move |_, mut stream| {
        let seen = Arc::clone(&inner);
        async move {
            while stream.receive(&mut [0; 100]).await.unwrap() == 100 {
                seen.fetch_add(100, Ordering::Relaxed);
            }
        }
    });
    let mut message = a.streams().begin(to_b, 1).unwrap();
    message.send(&[1; 60_000]).unwrap();
    extract_until(&a, &b, || seen.load(Ordering::Relaxed) > 40_000);
    message.end().unwrap();
}

#[test]
fn receive_that_waits_gets_its_bytes_straight_from_the_frame() {
    const LEN: usize = 1_000_000;
    let (a, b, to_b) = pair();
    let got = Arc::new(Mutex::new(vec![]));
    let inner = Arc::clone(&got);
    let is_waiting = Arc::new(AtomicUsize::new(0));
    let waiting = Arc::clone(&is_waiting);
    b.streams().register(1, move |_, mut stream| {
        let (got, waiting) = (Arc::clone(&inner), Arc::clone(&waiting));
        async move {
            waiting.store(1, Ordering::Relaxed);
            let mut bytes = vec![0; LEN];
            assert_eq!(stream.receive(&mut bytes).await.unwrap(), LEN);
            *got.lock().unwrap() = bytes;
        }
    });
    let bytes = pattern(1, LEN);
    let mut message = a.streams().begin(to_b, 1).unwrap();
    message.flush().unwrap();
    extract_until(&a, &b, || is_waiting.load(Ordering::Relaxed) == 1);
    let mut sent_len = 0;
    while sent_len < LEN {
        sent_len += message.try_send(&bytes[sent_len..]).unwrap();
        a.turn();
        b.streams().extract(usize::MAX).unwrap();
    }
    message.end().unwrap();
    extract_until(&a, &b, || !got.lock().unwrap().is_empty());
    assert_eq!(*got.lock().unwrap(), bytes);
    assert_eq!(count(&b, "stream_bytes_lent"), LEN as u64);
    assert_eq!(count(&b, "stream_bytes_held"), 0, "no staging copy");
}

#[test]
fn skip_and_early_return_discard() {
    let (a, b, to_b) = pair();
    let got = Arc::new(Mutex::new(vec![]));
    let inner = Arc::clone(&got);
    b.streams().register(1, move |_, mut stream| {
        let got = Arc::clone(&inner);
        async move {
            assert_eq!(stream.skip(3000).await.unwrap(), 3000);
            let mut byte = [0];
            stream.receive(&mut byte).await.unwrap();
            got.lock().unwrap().push(byte[0]);
        } // the rest is not wanted
    });
    for round in 0..20 {
        let bytes = pattern(round, 200_000);
        let mut message = a.streams().begin(to_b, 1).unwrap();
        let mut sent_len = 0;
        while sent_len < bytes.len() {
            sent_len += message.try_send(&bytes[sent_len..]).unwrap();
            a.turn();
            b.streams().extract(usize::MAX).unwrap();
        }
        message.end().unwrap();
        extract_until(&a, &b, || got.lock().unwrap().len() > round as usize);
        assert_eq!(got.lock().unwrap()[round as usize], bytes[3000]);
    }
    extract_until(&a, &b, || count(&b, "held_len") == 0);
}

#[test]
fn handlers_start_in_the_order_their_messages_were_begun() {
    let (a, b, to_b) = pair();
    let order = Arc::new(Mutex::new(vec![]));
    for number in 0..8_u16 {
        let order = Arc::clone(&order);
        b.streams().register(number, move |_, _| {
            order.lock().unwrap().push(number);
            async {}
        });
    }
    let mut messages: Vec<_> = (0..8).map(|n| a.streams().begin(to_b, n).unwrap()).collect();
    for message in messages.iter_mut().rev() {
        message.send(b"late").unwrap();
    }
    messages.into_iter().rev().for_each(|message| message.end().unwrap());
    extract_until(&a, &b, || order.lock().unwrap().len() == 8);
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
}

#[test]
fn sends_never_run_a_handler_and_a_sender_fills_its_credit() {
    let (a, b, to_b) = pair();
    let to_a = b.peer(&a.address()).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for endpoint in [&a, &b] {
        let ran = Arc::clone(&ran);
        endpoint.streams().register(1, move |_, _| {
            ran.fetch_add(1, Ordering::Relaxed);
            async {}
        });
    }
    b.streams().send(to_a, 1, &[b"waiting at a"]).unwrap();
    let mut message = a.streams().begin(to_b, 1).unwrap();
    let bytes = vec![7; 1 << 20];
    let mut sent_len = 0;
    let (began, mut turns_in_vain) = (Instant::now(), 0);
    while sent_len < 60 << 10 || turns_in_vain < TURNS_IN_VAIN {
        let more = message.try_send(&bytes[sent_len..]).unwrap();
        sent_len += more;
        turns_in_vain = if more > 0 { 0 } else { turns_in_vain + 1 };
        a.turn();
        b.turn(); // progress, but no extraction
        assert!(began.elapsed() < LONGEST, "{sent_len}: not even what may be sent at first");
    }
    assert!((60 << 10..100 << 10).contains(&sent_len), "{sent_len}: what may be sent at first");
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    extract_until(&a, &b, || ran.load(Ordering::Relaxed) == 1);
    b.streams().extract(0).unwrap();
    let extracted = a.streams().extract_wait(usize::MAX, LONGEST).unwrap();
    assert_eq!(extracted.started, 1);
}

#[test]
fn blocking_send_waits_for_credit_that_another_thread_makes() {
    for links in ["udp", "shm", "auto"] {
        let (a, b) = (open_with(links, Placement::Thread), open_with(links, Placement::Thread));
        let to_b = a.peer(&b.address()).unwrap();
        let got = register_collector(&b, 1, 10_000);
        let bytes = pattern(3, 3_000_000);
        std::thread::scope(|scope| {
            scope.spawn(|| a.streams().send(to_b, 1, &[&bytes]).unwrap());
            let began = Instant::now();
            while got.lock().unwrap().is_empty() {
                b.streams().extract_wait(usize::MAX, Duration::from_millis(100)).unwrap();
                assert!(began.elapsed() < LONGEST, "over {links}");
            }
        });
        assert_eq!(got.lock().unwrap()[0], bytes);
    }
}

#[test]
fn handler_may_begin_messages_and_wait_for_credit() {
    let (a, b, to_b) = pair();
    // Everything comes back from b, piece by piece.
    b.streams().register(1, |sender, mut stream| async move {
        let mut back = stream.begin(sender, 2).unwrap();
        let mut piece = [0; 5000];
        loop {
            let len = stream.receive(&mut piece).await.unwrap();
            back.send_async(&piece[..len]).await.unwrap();
            if len < piece.len() {
                break;
            }
        }
        back.end().unwrap();
    });
    let got = register_collector(&a, 2, 999);
    let bytes = pattern(9, 1_000_000);
    let mut message = a.streams().begin(to_b, 1).unwrap();
    let (mut sent_len, mut round) = (0, 0_u32);
    let began = Instant::now();
    while sent_len < bytes.len() {
        sent_len += message.try_send(&bytes[sent_len..]).unwrap();
        b.streams().extract(usize::MAX).unwrap();
        round += 1;
        if round.is_multiple_of(100) {
            a.streams().extract(usize::MAX).unwrap(); // seldom: b runs out of credit
        }
        a.turn();
        assert!(began.elapsed() < LONGEST);
    }
    message.end().unwrap();
    let began = Instant::now();
    while got.lock().unwrap().is_empty() {
        a.streams().extract(usize::MAX).unwrap();
        b.streams().extract(usize::MAX).unwrap();
        assert!(began.elapsed() < LONGEST);
    }
    assert_eq!(got.lock().unwrap()[0], bytes);
}

#[test]
fn panic_is_contained_and_reported() {
    let (a, b, to_b) = pair();
    b.streams().register(1, |_, mut stream| async move {
        let mut byte = [0];
        stream.receive(&mut byte).await.unwrap();
        assert!(byte[0] != 13, "thirteen");
        let mut rest = [0; 5000];
        stream.receive(&mut rest).await.unwrap();
    });
    let got = register_collector(&b, 2, 100);
    a.streams().send(to_b, 1, &[&[13], &[0; 5000]]).unwrap();
    a.streams().send(to_b, 1, &[&[12], &[0; 5000]]).unwrap();
    a.streams().send(to_b, 2, &[b"still there"]).unwrap();
    extract_until(&a, &b, || !got.lock().unwrap().is_empty());
    let panics = b.streams().take_panics();
    assert_eq!(panics.len(), 1);
    assert_eq!((panics[0].handler, panics[0].what.as_str()), (1, "thirteen"));
    assert_eq!(got.lock().unwrap()[0], b"still there");
    extract_until(&a, &b, || count(&b, "held_len") == 0);
}

#[test]
fn extract_inside_a_handler_is_an_error() {
    let (a, b, to_b) = pair();
    let (told, tells) = std::sync::mpsc::channel();
    let streams = b.streams();
    b.streams().register(1, move |_, _| {
        told.send(streams.extract(1)).unwrap();
        async {}
    });
    a.streams().send(to_b, 1, &[b"x"]).unwrap();
    let mut result = None;
    extract_until(&a, &b, || {
        result = result.take().or(tells.try_recv().ok());
        result.is_some()
    });
    assert!(matches!(result, Some(Err(Error::InHandler))));
    b.clone().close(Duration::from_secs(1)); // the handler owns a handle: dropping would not close it
}

#[test]
fn message_without_a_handler_is_thrown_away_and_counted() {
    let (a, b, to_b) = pair();
    a.streams().send(to_b, 99, &[&[0; 100]]).unwrap();
    extract_until(&a, &b, || b.streams().unhandled_count() == 1);
    assert_eq!(count(&b, "held_len"), 0);
}

#[test]
fn dropped_message_breaks_off_at_its_handler() {
    let (a, b, to_b) = pair();
    let (told, tells) = std::sync::mpsc::channel();
    b.streams().register(1, move |_, mut stream| {
        let told = told.clone();
        async move {
            told.send(stream.receive(&mut [0; 100]).await).unwrap();
        }
    });
    let mut message = a.streams().begin(to_b, 1).unwrap();
    message.send(b"half of it").unwrap();
    drop(message);
    let mut result = None;
    extract_until(&a, &b, || {
        result = result.take().or(tells.try_recv().ok());
        result.is_some()
    });
    assert!(matches!(result, Some(Err(Error::CancelledByPeer { .. }))));
}

#[test]
fn sender_that_is_gone_ends_its_handlers_with_an_error() {
    let (a, b, to_b) = pair();
    let (told, tells) = std::sync::mpsc::channel();
    b.streams().register(1, move |_, mut stream| {
        let told = told.clone();
        async move {
            told.send(stream.receive(&mut [0; 100]).await).unwrap();
        }
    });
    let mut message = a.streams().begin(to_b, 1).unwrap();
    message.send(b"half of it").unwrap();
    message.flush().unwrap();
    std::mem::forget(message);
    for _ in 0..1000 {
        a.turn();
        b.streams().extract(usize::MAX).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(move || a.close(Duration::from_secs(5)));
        let result = loop {
            b.streams().extract(usize::MAX).unwrap();
            if let Ok(result) = tells.try_recv() {
                break result;
            }
        };
        assert!(matches!(result, Err(Error::PeerClosed { .. } | Error::Gone { .. })), "{result:?}");
    });
}

#[test]
fn stalled_handler_stops_only_its_own_sender() {
    let (a, b, a_to_b) = pair();
    let c = open();
    let c_to_b = c.peer(&b.address()).unwrap();
    b.streams().register(1, |_, _stream| async move {
        let _keep = _stream;
        std::future::pending::<()>().await;
    });
    let got = register_collector(&b, 2, 1000);
    let mut stalled = a.streams().begin(a_to_b, 1).unwrap();
    let bytes = pattern(1, 4 << 20);
    let mut flowing = c.streams().begin(c_to_b, 2).unwrap();
    let (mut stalled_len, mut sent_len) = (0, 0);
    let began = Instant::now();
    while sent_len < bytes.len() {
        stalled_len += stalled.try_send(&bytes[stalled_len..]).unwrap();
        sent_len += flowing.try_send(&bytes[sent_len..]).unwrap();
        a.turn();
        c.turn();
        b.streams().extract(usize::MAX).unwrap();
        assert!(began.elapsed() < LONGEST);
    }
    flowing.end().unwrap();
    extract_until(&c, &b, || !got.lock().unwrap().is_empty());
    assert_eq!(got.lock().unwrap()[0], bytes);
    let limit = Limits::default().stream_len_max as usize;
    assert!(stalled_len < limit + 2 * PACKET_LEN_MAX, "{stalled_len}");
}

/// What slow handlers have seen: by sender, the numbers of their messages in the order the handlers started and ended.
#[derive(Default)]
struct Seen {
    started: HashMap<u8, Vec<u32>>,
    ended: usize,
}

#[test]
fn thousand_interleaved_messages_of_eight_senders_through_slow_handlers() {
    const SENDERS: usize = 8;
    const EACH: u32 = 125;
    let b = open();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let inner = Arc::clone(&seen);
    b.streams().register(1, move |_, mut stream| {
        let seen = Arc::clone(&inner);
        async move {
            let mut head = [0; 9];
            stream.receive(&mut head).await.unwrap();
            let number = u32::from_le_bytes(head[1..5].try_into().unwrap());
            let len = u32::from_le_bytes(head[5..].try_into().unwrap()) as usize;
            seen.lock().unwrap().started.entry(head[0]).or_default().push(number);
            let mut bytes = vec![0; len];
            for piece in bytes.chunks_mut(700) {
                let mut polls = 0;
                std::future::poll_fn(|context| {
                    polls += 1;
                    context.waker().wake_by_ref();
                    if polls > 3 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
                })
                .await;
                assert_eq!(stream.receive(piece).await.unwrap(), piece.len());
            }
            assert_eq!(stream.receive(&mut [0]).await.unwrap(), 0, "that was all");
            assert_eq!(bytes, pattern(u64::from(head[0]) << 32 | u64::from(number), len));
            seen.lock().unwrap().ended += 1;
        }
    });
    let address = b.address();
    let held_max = std::thread::scope(|scope| {
        let send = |sender| scope.spawn(move || send_interleaved(sender, &address, EACH));
        let senders: Vec<_> = (0..SENDERS as u8).map(send).collect();
        let began = Instant::now();
        let mut held_max = 0;
        // Until they have left, too: what they sent last is to be acknowledged.
        let is_over = || seen.lock().unwrap().ended == SENDERS * EACH as usize;
        while !is_over() || senders.iter().any(|sender| !sender.is_finished()) {
            b.streams().extract(50_000).unwrap();
            held_max = held_max.max(count(&b, "held_len"));
            assert!(began.elapsed() < LONGEST, "{} ended", seen.lock().unwrap().ended);
        }
        held_max
    });
    assert_eq!(b.streams().take_panics(), []);
    for (sender, started) in &seen.lock().unwrap().started {
        assert_eq!(*started, (0..EACH).collect::<Vec<_>>(), "order of sender {sender}");
    }
    // A chunk of a frame costs the pool the next power of two: at most twice its bytes.
    let limit = SENDERS as u64 * 2 * (Limits::default().stream_len_max + 2 * PACKET_LEN_MAX as u64);
    assert!(held_max <= limit, "{held_max} held, {limit} allowed");
}

/// Ten messages open at a time, their pieces in turn.
fn send_interleaved(sender: u8, to: &packhorse::Address, count: u32) {
    let a = open_lingering("udp", Placement::Inline, LONGEST);
    let to_b = a.peer(to).unwrap();
    let mut open = std::collections::VecDeque::new();
    let mut number = 0;
    while number < count || !open.is_empty() {
        if number < count && open.len() < 10 {
            let len = (number as usize * 977 + usize::from(sender) * 311) % 9000;
            let bytes = pattern(u64::from(sender) << 32 | u64::from(number), len);
            let mut message = a.streams().begin(to_b, 1).unwrap();
            let mut head = vec![sender];
            head.extend(number.to_le_bytes());
            head.extend((len as u32).to_le_bytes());
            message.send(&head).unwrap();
            open.push_back((message, bytes, 0));
            number += 1;
        }
        let Some((mut message, bytes, from)) = open.pop_front() else { continue };
        let to = bytes.len().min(from + 600);
        message.send(&bytes[from..to]).unwrap();
        if to == bytes.len() {
            message.end().unwrap();
        } else {
            open.push_back((message, bytes, to));
        }
    }
    assert!(a.streams().drain(LONGEST));
    assert!(a.close(LONGEST));
}

#[test]
fn ten_thousand_live_handlers() {
    const COUNT: usize = 10_000;
    let (a, b, to_b) = pair();
    let ended = Arc::new(AtomicUsize::new(0));
    let inner = Arc::clone(&ended);
    b.streams().register(1, move |_, mut stream| {
        let ended = Arc::clone(&inner);
        async move {
            let mut bytes = [0; 16];
            assert_eq!(stream.receive(&mut bytes).await.unwrap(), 16);
            ended.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut started = 0;
    let mut messages = vec![];
    let before = resident_len();
    while started < COUNT {
        if messages.len() < COUNT {
            let mut message = a.streams().begin(to_b, 1).unwrap();
            message.send(&[1; 8]).unwrap();
            message.flush().unwrap();
            messages.push(message);
        }
        a.turn();
        started += b.streams().extract(usize::MAX).unwrap().started;
    }
    let each = (resident_len().saturating_sub(before)) / COUNT;
    println!("{COUNT} live handlers, about {each} bytes each (both sides)");
    assert!(each < 4096, "{each} bytes each");
    for mut message in messages {
        message.send(&[2; 8]).unwrap();
        message.end().unwrap();
        b.streams().extract(usize::MAX).unwrap();
    }
    extract_until(&a, &b, || ended.load(Ordering::Relaxed) == COUNT);
}

fn resident_len() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn too_many_handlers_wait_to_start() {
    let (a, b, to_b) = pair();
    b.streams().set_handler_count_max(3);
    let got = register_collector(&b, 1, 10);
    let mut messages: Vec<_> = (0..10).map(|_| a.streams().begin(to_b, 1).unwrap()).collect();
    messages.iter_mut().for_each(|message| assert!(message.flush().unwrap()));
    let (mut started, mut turns_in_vain) = (0, 0);
    let began = Instant::now();
    while started < 3 || turns_in_vain < TURNS_IN_VAIN {
        a.turn();
        let more = b.streams().extract(usize::MAX).unwrap().started;
        started += more;
        turns_in_vain = if more > 0 { 0 } else { turns_in_vain + 1 };
        assert!(began.elapsed() < LONGEST, "{started} started");
    }
    assert_eq!(started, 3);
    messages.into_iter().for_each(|message| message.end().unwrap());
    extract_until(&a, &b, || got.lock().unwrap().len() == 10);
}

#[test]
fn handler_awaits_a_tagged_message_beside_its_stream() {
    use packhorse::Wanted;
    let (a, b, to_b) = pair();
    let (told, tells) = std::sync::mpsc::channel();
    let inside = b.clone();
    b.streams().register(1, move |_, mut stream| {
        let (told, b) = (told.clone(), inside.clone());
        async move {
            let tagged = b.recv(Wanted::tag(5), vec![0; 10]);
            let mut bytes = [0; 3000];
            stream.receive(&mut bytes).await.unwrap();
            let tagged = tagged.await.unwrap();
            told.send((bytes[2999], tagged.buffer)).unwrap();
        }
    });
    let mut message = a.streams().begin(to_b, 1).unwrap();
    message.flush().unwrap();
    for _ in 0..100 {
        a.turn();
        b.streams().extract(usize::MAX).unwrap();
    }
    message.send(&[9; 3000]).unwrap();
    message.end().unwrap();
    a.send_copy(to_b, 5, b"tagged").unwrap();
    let mut result = None;
    extract_until(&a, &b, || {
        result = result.take().or(tells.try_recv().ok());
        result.is_some()
    });
    assert_eq!(result, Some((9, b"tagged".to_vec())));
    b.clone().close(Duration::from_secs(1));
}

mod bounded {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// `extract(n)` never handles more than n rounded up to a packet, whatever pieces are sent and received.
        #[test]
        fn extract_keeps_its_measure(
            lens in proptest::collection::vec((0..60_000_usize, 1..30_000_usize), 1..8),
            measures in proptest::collection::vec(0..40_000_usize, 1..8),
        ) {
            let (a, b, to_b) = pair();
            let read_len = Arc::new(AtomicUsize::new(0));
            let ended = Arc::new(AtomicUsize::new(0));
            for (number, &(_, piece_len)) in lens.iter().enumerate() {
                let (read_len, ended) = (Arc::clone(&read_len), Arc::clone(&ended));
                b.streams().register(number as u16, move |_, mut stream| {
                    let (read_len, ended) = (Arc::clone(&read_len), Arc::clone(&ended));
                    async move {
                        let mut piece = vec![0; piece_len];
                        loop {
                            let len = stream.receive(&mut piece).await.unwrap();
                            read_len.fetch_add(len, Ordering::Relaxed);
                            if len < piece_len {
                                break;
                            }
                        }
                        ended.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let is_over = || ended.load(Ordering::Relaxed) == lens.len();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for (number, &(len, _)) in lens.iter().enumerate() {
                        a.streams().send(to_b, number as u16, &[&pattern(1, len)]).unwrap();
                    }
                    while !is_over() {
                        a.turn();
                    }
                });
                let began = Instant::now();
                for &measure in measures.iter().cycle() {
                    if is_over() {
                        break;
                    }
                    let before = read_len.load(Ordering::Relaxed);
                    let extracted = b.streams().extract(measure).unwrap();
                    let read_len = read_len.load(Ordering::Relaxed) - before;
                    assert!(extracted.bytes < (measure + PACKET_LEN_MAX) as u64);
                    // Rests of packets that were counted before may be read, too: less than one for each message.
                    assert!(read_len < measure + PACKET_LEN_MAX * (1 + lens.len()));
                    b.streams().extract(1).unwrap(); // a measure of 0 handles nothing
                    assert!(began.elapsed() < LONGEST);
                }
            });
            prop_assert_eq!(read_len.load(Ordering::Relaxed), lens.iter().map(|each| each.0).sum::<usize>());
        }
    }
}

/// Several times the resend pool: whatever was accepted must have left it, alone or in bursts.
#[test]
fn short_messages_give_their_room_back() {
    let limits = Limits { copied_len_max: 64 << 10, ..Limits::default() };
    let builder = || Endpoint::builder().links("udp").bind(std::net::Ipv4Addr::LOCALHOST);
    let open = || builder().placement(Placement::Inline).limits(limits.clone()).open().unwrap();
    let (a, b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    let seen = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&seen);
    b.streams().register(1, move |_, mut stream| {
        let counted = Arc::clone(&counted);
        async move {
            let mut buffer = [0; 1000];
            assert_eq!(stream.receive(&mut buffer).await.unwrap(), 1000);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    for burst_len in [1, 20, 1, 7].into_iter().cycle().take(200) {
        let wanted = seen.load(Ordering::Relaxed) + burst_len;
        for _ in 0..burst_len {
            a.streams().send(to_b, 1, &[&[1; 600], &[2; 400]]).unwrap();
        }
        extract_until(&a, &b, || seen.load(Ordering::Relaxed) == wanted);
    }
}

/// What comes while `extract_wait` waits goes to the reader that waits for it, without a copy in between.
#[test]
fn waiting_readers_are_lent_what_comes() {
    // Without a helper at its reader all that comes comes while it extracts. The sender may be 256 KB ahead: of 500 KB that its
    // reader wants at a time the rest comes while it waits.
    let (a, b) = (open_with("udp", Placement::Thread), open_with("udp", Placement::Inline));
    let to_b = a.peer(&b.address()).unwrap();
    let got = register_collector(&b, 1, 500_000);
    let sent = pattern(3, 1_000_000);
    let sender = std::thread::spawn({
        let sent = sent.clone();
        move || {
            let mut message = a.streams().begin(to_b, 1).unwrap();
            message.send(&sent).unwrap();
            message.end().unwrap();
            a.streams().drain(LONGEST);
            a
        }
    });
    let began = Instant::now();
    while got.lock().unwrap().is_empty() {
        b.streams().extract_wait(usize::MAX, Duration::from_millis(100)).unwrap();
        assert!(began.elapsed() < LONGEST, "nothing comes any more");
    }
    assert!(got.lock().unwrap()[0] == sent);
    assert!(count(&b, "stream_bytes_lent") > 0);
    drop(sender.join().unwrap());
}

/// Long pieces are lent to the engine in parts, and go on from there: bytes and order are those of a copy.
#[test]
fn long_pieces_arrive_whole() {
    for links in ["udp", "shm"] {
        let open = || open_with(links, Placement::Thread);
        let (a, b) = (open(), open());
        let to_b = a.peer(&b.address()).unwrap();
        let got = Got::default();
        let collected = Arc::clone(&got);
        b.streams().register(1, move |_, stream| collect(stream, 300_001, Arc::clone(&collected)));
        let sent = pattern(5, 9_000_001);
        let sender = std::thread::spawn({
            let sent = sent.clone();
            move || {
                let mut message = a.streams().begin(to_b, 1).unwrap();
                // Short, just long enough, across several parts, short again: each behind what the one before has filled.
                let ends = [0, 77, 77 + (512 << 10), 8_900_000, 8_900_001, 9_000_001];
                for range in ends.windows(2) {
                    message.send(&sent[range[0]..range[1]]).unwrap();
                }
                message.end().unwrap();
                assert!(a.streams().drain(LONGEST));
                a
            }
        });
        let began = Instant::now();
        while got.lock().unwrap().is_empty() {
            b.streams().extract_wait(usize::MAX, Duration::from_millis(100)).unwrap();
            assert!(began.elapsed() < LONGEST, "nothing comes any more");
        }
        assert!(got.lock().unwrap()[0] == sent, "{links}");
        drop(sender.join().unwrap());
    }
}

/// The reader dies while a long piece is lent: the sender has it back, and an error.
#[test]
fn long_piece_comes_back_when_its_reader_goes() {
    let (a, b) = (open_with("udp", Placement::Thread), open_with("udp", Placement::Thread));
    let to_b = a.peer(&b.address()).unwrap();
    let closer = std::thread::spawn(move || {
        // Nobody extracts: when something of it has come, the sender waits for credit, or soon will.
        let began = Instant::now();
        while count(&b, "stream_bytes_held") == 0 {
            assert!(began.elapsed() < LONGEST, "nothing comes");
            std::thread::sleep(Duration::from_millis(1));
        }
        b.close(Duration::from_secs(1));
    });
    let piece = pattern(6, 3_000_000);
    let error = a.streams().send(to_b, 1, &[&piece]).unwrap_err();
    assert!(matches!(error, Error::BrokenOff { .. }), "{error}");
    closer.join().unwrap();
}
