//! Many messages and many handlers at once.

use std::collections::HashMap;

use super::*;

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
