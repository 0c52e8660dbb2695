//! Bytes that are lent rather than copied: to the reader that waits, and to the engine that sends.

use super::*;

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

/// On one host a long piece is read from where it is, no more at a time than an extraction may handle, and none of it is held.
#[test]
fn a_long_piece_is_read_where_it_is_within_each_extraction() {
    const EXTRACTED_LEN: usize = 100_000;
    let (a, b) = (open_with("shm", Placement::Thread), open_with("shm", Placement::Inline));
    let to_b = a.peer(&b.address()).unwrap();
    let got = register_collector(&b, 1, 450_000);
    let sent = pattern(9, 3_000_001);
    let sender = std::thread::spawn({
        let sent = sent.clone();
        move || {
            a.streams().send(to_b, 1, &[&sent[..10], &sent[10..]]).unwrap();
            a.streams().drain(LONGEST);
            a
        }
    });
    let began = Instant::now();
    let mut most = 0;
    while got.lock().unwrap().is_empty() {
        let extracted =
            b.streams().extract_wait(EXTRACTED_LEN, Duration::from_millis(100)).unwrap();
        most = most.max(extracted.bytes);
        assert!(began.elapsed() < LONGEST, "nothing comes any more");
    }
    assert!(got.lock().unwrap()[0] == sent);
    assert!(most < (EXTRACTED_LEN + (16 << 10)) as u64, "{most} bytes in one extraction");
    if count(&b, "stream_chunks_told") > 0 {
        let (read, declined) =
            (count(&b, "stream_bytes_read"), count(&b, "stream_chunks_declined"));
        assert!(read == sent.len() as u64 - 10 || declined > 0, "{read} bytes were read");
    }
    drop(sender.join().unwrap());
}

/// A receiver that waits for something else than streams does not keep the sender waiting for what it could hold.
#[test]
fn who_waits_for_something_else_has_a_long_piece_sent() {
    let (a, b) = (open_with("shm", Placement::Inline), open_with("shm", Placement::Inline));
    let to_b = a.peer(&b.address()).unwrap();
    let got = register_collector(&b, 1, 100_000);
    let sent = pattern(9, 600_000);
    let sender = std::thread::spawn({
        let sent = sent.clone();
        move || {
            a.streams().send(to_b, 1, &[&sent]).unwrap();
            a.streams().drain(LONGEST);
            a
        }
    });
    let began = Instant::now();
    while count(&b, "stream_bytes_held") < 40_000 {
        let mut wanted = b.recv(packhorse::Wanted::tag(1), vec![0; 10]);
        let ended = wanted.wait_timeout(Duration::from_millis(10));
        assert!(ended.is_none(), "nobody sends that");
        assert!(began.elapsed() < LONGEST, "nothing is held");
    }
    while got.lock().unwrap().is_empty() {
        b.streams().extract_wait(usize::MAX, Duration::from_millis(100)).unwrap();
        assert!(began.elapsed() < LONGEST, "nothing comes any more");
    }
    assert!(got.lock().unwrap()[0] == sent);
    drop(sender.join().unwrap());
}

/// The reader dies while its sender waits for it to read: the sender has its piece back, and an error.
#[test]
fn a_piece_that_was_told_of_comes_back_when_its_reader_goes() {
    let (a, b) = (open_with("shm", Placement::Thread), open_with("shm", Placement::Thread));
    let to_b = a.peer(&b.address()).unwrap();
    let closer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        b.close(Duration::from_secs(1));
    });
    let piece = pattern(6, 3_000_000);
    let error = a.streams().send(to_b, 1, &[&piece]).unwrap_err();
    assert!(matches!(error, Error::BrokenOff { .. }), "{error}");
    closer.join().unwrap();
}
