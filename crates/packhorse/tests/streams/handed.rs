//! First chunks that are handed to new handlers: with the bytes in hand and no lock held a handler may do whatever it likes.

use super::*;

fn over_memory() -> (Endpoint, Endpoint, Peer) {
    let open = || open_with("shm", Placement::Inline);
    let (a, b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    // They know each other, so that what follows comes in frames as long as they may be.
    a.streams().send(to_b, u16::MAX, &[]).unwrap();
    extract_until(&a, &b, || b.streams().unhandled_count() == 1);
    (0..1000).for_each(|_| {
        a.turn();
        b.turn();
    });
    (a, b, to_b)
}

/// What was handed over or lent, and what was held.
fn copies(endpoint: &Endpoint) -> (u64, u64) {
    (count(endpoint, "stream_bytes_lent"), count(endpoint, "stream_bytes_held"))
}

#[test]
fn short_messages_go_to_their_handlers_and_are_not_held() {
    for (len, is_held) in [(0, false), (8, false), (1000, false), (16 << 10, false), (16_385, true)]
    {
        let (a, b, to_b) = over_memory();
        let got = register_collector(&b, 1, 100);
        for number in 0..50 {
            a.streams().send(to_b, 1, &[&pattern(number, len)]).unwrap();
            extract_until(&a, &b, || got.lock().unwrap().len() as u64 == number + 1);
            assert_eq!(got.lock().unwrap()[number as usize], pattern(number, len));
        }
        let all = 50 * len as u64;
        assert_eq!(copies(&b), if is_held { (0, all) } else { (all, 0) }, "{len}");
        assert_eq!(count(&b, "held_len"), 0, "nothing is left of them");
    }
}

#[test]
fn whoever_waits_is_handed_them_too() {
    let (a, b, to_b) = over_memory();
    let got = register_collector(&b, 1, 3);
    let waits = std::thread::spawn(move || {
        let mut all = packhorse::stream::Extracted::default();
        while got.lock().unwrap().len() < 100 {
            let one = b.streams().extract_wait(1, LONGEST).unwrap();
            assert!(one.bytes <= 8, "one packet, as was asked: {one:?}");
            all.started += one.started;
            all.ended += one.ended;
            all.bytes += one.bytes;
        }
        (all, copies(&b))
    });
    for number in 0..100 {
        a.streams().send(to_b, 1, &[&pattern(number, 8)]).unwrap();
    }
    while !waits.is_finished() {
        a.turn();
    }
    let (all, (lent_len, held_len)) = waits.join().unwrap();
    assert_eq!((all.started, all.ended, all.bytes), (100, 100, 800));
    assert_eq!(lent_len + held_len, 800);
}

/// While it has its first bytes a handler calls the engine, waits for something else, reads late, or passes over them.
#[test]
fn a_handler_does_what_it_likes_with_its_first_bytes_in_hand() {
    let (a, b, to_b) = over_memory();
    let to_a = b.peer(&a.address()).unwrap();
    let got = Arc::new(Mutex::new(Vec::new()));
    let gate = Arc::new(gate::Gate::default());
    let (seen, opened) = (Arc::clone(&got), Arc::clone(&gate));
    let engine = b.clone();
    b.streams().register(1, move |sender, mut stream| {
        let (seen, opened, engine) = (Arc::clone(&seen), Arc::clone(&opened), engine.clone());
        async move {
            engine.streams().send(to_a, 2, &[b"in between"]).unwrap();
            let mut bytes = [0; 20];
            assert_eq!(stream.receive(&mut bytes[..3]).await.unwrap(), 3);
            engine.turn();
            let mut answer = stream.begin(sender, 2).unwrap();
            answer.send(&bytes[..3]).unwrap();
            answer.end().unwrap();
            opened.wait().await;
            assert_eq!(stream.skip(2).await.unwrap(), 2);
            let some = stream.receive_some(&mut bytes[3..]).await.unwrap();
            assert_eq!(some, 3);
            assert_eq!(stream.receive(&mut [0; 5]).await.unwrap(), 0, "that was all");
            seen.lock().unwrap().push(bytes[..6].to_vec());
        }
    });
    let answers = register_collector(&a, 2, 100);
    for _ in 0..3 {
        a.streams().send(to_b, 1, &[b"abcdefgh"]).unwrap();
    }
    extract_until(&a, &b, || {
        a.streams().extract(usize::MAX).unwrap();
        answers.lock().unwrap().len() == 6
    });
    assert_eq!((got.lock().unwrap().len(), copies(&b)), (0, (9, 15)), "what is not read is held");
    gate.open();
    extract_until(&a, &b, || got.lock().unwrap().len() == 3);
    assert_eq!(*got.lock().unwrap(), [b"abcfgh"; 3]);
    b.streams().extract(0).unwrap();
    assert_eq!(count(&b, "held_len"), 0);
    b.clone().close(Duration::from_secs(1)); // its handler owns a handle
}

/// A gate that futures wait at.
mod gate {
    use std::future::poll_fn;
    use std::sync::Mutex;
    use std::task::{Poll, Waker};

    #[derive(Default)]
    pub(super) struct Gate(Mutex<(bool, Vec<Waker>)>);

    impl Gate {
        pub(super) fn open(&self) {
            let mut this = self.0.lock().unwrap();
            this.0 = true;
            this.1.drain(..).for_each(Waker::wake);
        }

        pub(super) async fn wait(&self) {
            poll_fn(|context| {
                let mut this = self.0.lock().unwrap();
                if this.0 {
                    return Poll::Ready(());
                }
                this.1.push(context.waker().clone());
                Poll::Pending
            })
            .await;
        }
    }
}

#[test]
fn the_first_bytes_of_a_long_message_are_handed_over_and_the_next_lent() {
    let (a, b, to_b) = over_memory();
    let got = register_collector(&b, 1, 1000);
    let mut message = a.streams().begin(to_b, 1).unwrap();
    for part in 0..5 {
        message.send(&pattern(part, 3000)).unwrap();
        assert!(message.flush().unwrap());
        (0..1000).for_each(|_| {
            a.turn();
            b.streams().extract(usize::MAX).unwrap();
        });
    }
    message.end().unwrap();
    extract_until(&a, &b, || !got.lock().unwrap().is_empty());
    let wanted: Vec<u8> = (0..5).flat_map(|part| pattern(part, 3000)).collect();
    assert_eq!(got.lock().unwrap()[0], wanted);
    let (lent_len, held_len) = copies(&b);
    assert_eq!(lent_len + held_len, 15_000);
    // Of each next one what a receive waits for, and the rest of it when that was taken.
    assert!(lent_len >= 3000 + 4 * 1000, "{lent_len} lent, {held_len} held");
}

#[test]
fn a_handler_that_panics_or_returns_with_its_first_bytes_in_hand_leaves_nothing() {
    let (a, b, to_b) = over_memory();
    b.streams().register(1, |_, mut stream| async move {
        let mut byte = [0];
        stream.receive(&mut byte).await.unwrap();
        assert!(byte[0] != 13, "thirteen");
    });
    b.streams().register(2, |_, _| {
        assert!(std::env::args().count() == 0, "before there is a future");
        async {}
    });
    let got = register_collector(&b, 3, 100);
    for (handler, byte) in [(1, 13), (2, 0), (1, 12), (99, 0)] {
        a.streams().send(to_b, handler, &[&[byte], &[7; 500]]).unwrap();
    }
    a.streams().send(to_b, 3, &[b"still there"]).unwrap();
    extract_until(&a, &b, || !got.lock().unwrap().is_empty());
    let said: Vec<String> = b.streams().take_panics().into_iter().map(|panic| panic.what).collect();
    assert_eq!(said, ["thirteen", "before there is a future"]);
    assert_eq!(b.streams().unhandled_count(), 2);
    b.streams().extract(0).unwrap();
    assert_eq!(count(&b, "held_len"), 0);
}

/// Streams of one sender start in their order, whether they were handed over or waited.
#[test]
fn handlers_start_in_order_whatever_way_their_messages_came() {
    let (a, b, to_b) = over_memory();
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    b.streams().register(1, move |_, mut stream| {
        let seen = Arc::clone(&seen);
        async move {
            let mut number = [0; 4];
            stream.receive(&mut number).await.unwrap();
            seen.lock().unwrap().push(u32::from_le_bytes(number));
        }
    });
    for round in 0..200_u32 {
        for number in 7 * round..7 * round + 7 {
            let rest = vec![0; if number % 5 == 0 { 20_000 } else { number as usize % 300 }];
            a.streams().send(to_b, 1, &[&number.to_le_bytes(), &rest]).unwrap();
        }
        match round % 3 {
            0 => drop(b.streams().extract(60_000).unwrap()),
            1 => drop(b.turn()),
            _ => drop(b.streams().extract_wait(80_000, Duration::ZERO).unwrap()),
        }
    }
    extract_until(&a, &b, || order.lock().unwrap().len() == 1400);
    assert_eq!(*order.lock().unwrap(), (0..1400).collect::<Vec<_>>());
    let (lent_len, held_len) = copies(&b);
    assert!(lent_len > 0 && held_len > 0, "both ways: {lent_len}, {held_len}");
}
