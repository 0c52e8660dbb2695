//! Streams over real sockets: each sentence of `packhorse::stream`'s promise.

mod bounded;
mod crowds;
mod handed;
mod lent;

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

/// Or, where frames leave in trains, than this.
const TRAIN_LEN_MAX: usize = 60 << 10;

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
    // What it may send, counted from behind the first chunk, which was handed to the handler; the chunk that passes that; and the one that fills at the sender.
    let limit = Limits::default().stream_len_max as usize;
    assert!(stalled_len < limit + PACKET_LEN_MAX + 2 * TRAIN_LEN_MAX, "{stalled_len}");
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
