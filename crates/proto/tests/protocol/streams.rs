//! PROTOCOL §12: streams: chunks, order of beginnings, credit, lending, ends.

mod trains;

use packhorse_proto::*;

use crate::net::*;

/// Begins a stream, gives it these pieces as far as they are taken, and ends it.
fn send(net: &mut Net, from: usize, to: usize, handler: u16, pieces: &[&[u8]]) -> usize {
    let peer = net.peer(from, to);
    let now = net.now;
    let ep = net.ep(from);
    let id = ep.begin_stream(peer, handler).unwrap();
    let taken = pieces.iter().map(|piece| ep.write_stream(now, id, piece).unwrap()).sum();
    ep.end_stream(now, id).unwrap();
    taken
}

/// Reads up to so many bytes that are here now.
fn read(net: &mut Net, at: usize, id: StreamId, len_max: usize) -> Vec<u8> {
    let now = net.now;
    let ep = net.ep(at);
    let mut all = vec![];
    while all.len() < len_max {
        let StreamFront::Bytes { bytes, .. } = ep.stream_front(now, id) else { break };
        let len = bytes.len().min(len_max - all.len());
        all.extend_from_slice(&bytes[..len]);
        ep.consume_stream(now, id, len);
    }
    all
}

fn ready(net: &mut Net, at: usize) -> Vec<(StreamId, StreamInfo)> {
    std::iter::from_fn(|| net.ep(at).poll_ready_stream()).collect()
}

fn front(net: &mut Net, at: usize, id: StreamId) -> StreamFront<'_> {
    let now = net.now;
    net.ep(at).stream_front(now, id)
}

#[test]
fn pieces_of_any_size_arrive_as_one_stream() {
    for len in [0, 1, 100, 1424, 1425, 5000, 40_000] {
        let mut net = Net::joined();
        let bytes = pattern(3, len);
        let pieces: Vec<&[u8]> = bytes.chunks(777).collect();
        assert_eq!(send(&mut net, A, B, 5, &pieces), len);
        net.settle();
        let news = ready(&mut net, B);
        let source = net.peer(B, A);
        assert_eq!(news.len(), 1, "{len} bytes");
        assert_eq!(news[0].1, StreamInfo { source, handler: 5 });
        let id = news[0].0;
        assert_eq!(read(&mut net, B, id, usize::MAX), bytes);
        assert_eq!(front(&mut net, B, id), StreamFront::End);
        let now = net.now;
        net.ep(B).close_stream(now, id);
        assert_eq!(net.ep(B).stream_counts(), (0, 0));
        assert_eq!(net.ep(B).held(), (0, 0));
    }
}

#[test]
fn long_message_is_on_the_wire_before_it_is_complete() {
    let mut net = Net::joined();
    let peer = net.peer(A, B);
    let now = net.now;
    let id = net.ep(A).begin_stream(peer, 1).unwrap();
    net.ep(A).write_stream(now, id, &pattern(1, 10_000)).unwrap();
    net.settle();
    let (stream, _) = ready(&mut net, B)[0];
    assert_eq!(read(&mut net, B, stream, usize::MAX), pattern(1, 10_000)[..7 * 1424]);
    assert_eq!(front(&mut net, B, stream), StreamFront::Empty);
    let now = net.now;
    assert_eq!(net.ep(A).flush_stream(now, id), Ok(true));
    net.settle();
    assert_eq!(read(&mut net, B, stream, usize::MAX), pattern(1, 10_000)[7 * 1424..]);
}

#[test]
fn first_contact_carries_streams() {
    let mut net = Net::new(2);
    send(&mut net, A, B, 9, &[&pattern(2, 3000)]);
    net.settle();
    let (id, _) = ready(&mut net, B)[0];
    assert_eq!(read(&mut net, B, id, usize::MAX), pattern(2, 3000));
    assert_eq!(front(&mut net, B, id), StreamFront::End);
}

#[test]
fn streams_show_themselves_in_the_order_they_were_begun() {
    let mut net = Net::joined();
    let peer = net.peer(A, B);
    let now = net.now;
    let begun: Vec<_> =
        (0..4).map(|handler| net.ep(A).begin_stream(peer, handler).unwrap()).collect();
    // The last one is ended first; the first is given up without a byte.
    for &at in &[3, 1, 2] {
        net.ep(A).write_stream(now, begun[at], &pattern(at as u64, 10)).unwrap();
        net.ep(A).end_stream(now, begun[at]).unwrap();
    }
    net.ep(A).give_up_stream(now, begun[0]).unwrap();
    net.settle();
    let news = ready(&mut net, B);
    assert_eq!(news.iter().map(|(_, info)| info.handler).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(front(&mut net, B, news[0].0), StreamFront::Broken(StreamBreak::GivenUp));
    for (at, (stream, _)) in news.iter().enumerate().skip(1) {
        assert_eq!(read(&mut net, B, *stream, usize::MAX), pattern(at as u64, 10));
    }
}

#[test]
fn lost_doubled_and_late_chunks_make_no_difference() {
    for fate in 0..3 {
        let mut net = Net::joined();
        match fate {
            0 => net.drop_next(A, Kind::Eager),
            1 => net.double_next(A, Kind::Eager),
            _ => net.delay_next(A, Kind::Eager, 10 * MS),
        }
        send(&mut net, A, B, 1, &[&pattern(1, 20_000)]);
        send(&mut net, A, B, 2, &[&pattern(2, 50)]);
        net.settle();
        let news = ready(&mut net, B);
        assert_eq!(news.iter().map(|(_, info)| info.handler).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(read(&mut net, B, news[0].0, usize::MAX), pattern(1, 20_000));
        assert_eq!(front(&mut net, B, news[0].0), StreamFront::End);
        assert_eq!(read(&mut net, B, news[1].0, usize::MAX), pattern(2, 50));
    }
}

#[test]
fn sender_fills_its_credit_and_goes_on_when_the_reader_reads() {
    let window = 20_000;
    let mut net = Net::pair(|_, limits| limits.stream_len_max = window);
    net.join(A, B);
    let peer = net.peer(A, B);
    let bytes = pattern(7, 300_000);
    let id = net.ep(A).begin_stream(peer, 1).unwrap();
    let (mut sent_len, mut got, mut stream) = (0, vec![], None);
    for round in 0..1000 {
        let now = net.now;
        sent_len += net.ep(A).write_stream(now, id, &bytes[sent_len..]).unwrap();
        net.run_for(MS);
        let (held_len, _) = net.ep(B).held();
        assert!(held_len <= 2 * (64 << 10) + 4096, "{held_len} held: classes at most double it");
        stream = stream.or_else(|| ready(&mut net, B).first().map(|news| news.0));
        if round < 5 {
            // Nobody reads: what was sent is what may be sent before a word of credit, and the chunk being filled.
            assert!((60_000..64 << 10).contains(&(sent_len - 1424)), "{sent_len}");
            continue;
        }
        let Some(stream) = stream else { continue };
        got.extend(read(&mut net, B, stream, 3000));
        if sent_len == bytes.len() {
            break;
        }
    }
    let now = net.now;
    net.ep(A).end_stream(now, id).unwrap();
    for _ in 0..1000 {
        net.run_for(MS);
        got.extend(read(&mut net, B, stream.unwrap(), 3000));
    }
    assert_eq!(got, bytes);
    assert_eq!(front(&mut net, B, stream.unwrap()), StreamFront::End);
}

#[test]
fn stalled_stream_stops_its_own_sender_only() {
    let mut net = Net::new(3);
    net.join(A, B);
    net.join(C, B);
    let (a_to_b, c_to_b) = (net.peer(A, B), net.peer(C, B));
    let now = net.now;
    let stalled = net.ep(A).begin_stream(a_to_b, 1).unwrap();
    let stalled_len = net.ep(A).write_stream(now, stalled, &pattern(1, 1 << 20)).unwrap();
    assert!(stalled_len < 100_000);
    let flowing = net.ep(C).begin_stream(c_to_b, 2).unwrap();
    let bytes = pattern(2, 1 << 20);
    let (mut sent_len, mut got) = (0, vec![]);
    let mut stream = None;
    for _ in 0..200 {
        let now = net.now;
        sent_len += net.ep(C).write_stream(now, flowing, &bytes[sent_len..]).unwrap();
        net.run_for(MS);
        for (id, info) in ready(&mut net, B) {
            if info.handler == 2 {
                stream = Some(id);
            }
        }
        got.extend(stream.map_or(vec![], |id| read(&mut net, B, id, usize::MAX)));
    }
    assert_eq!(sent_len, bytes.len());
    assert!(got.len() > bytes.len() - 2000, "all but the chunk that is not full");
    let now = net.now;
    let more_len = net.ep(A).write_stream(now, stalled, &pattern(1, 1 << 20)).unwrap();
    assert!(stalled_len + more_len < (256 << 10) + 4096, "{stalled_len} {more_len}");
}

#[test]
fn lost_credit_is_told_again() {
    let mut net = Net::joined();
    net.drop_next(B, Kind::StreamCredit);
    let peer = net.peer(A, B);
    let id = net.ep(A).begin_stream(peer, 1).unwrap();
    let bytes = pattern(1, 400_000);
    let (mut sent_len, mut got) = (0, vec![]);
    let mut stream = None;
    for _ in 0..400 {
        let now = net.now;
        sent_len += net.ep(A).write_stream(now, id, &bytes[sent_len..]).unwrap();
        net.run_for(MS);
        stream = stream.or_else(|| ready(&mut net, B).first().map(|news| news.0));
        got.extend(stream.map_or(vec![], |id| read(&mut net, B, id, usize::MAX)));
    }
    assert_eq!(sent_len, bytes.len());
    assert_eq!(got, bytes[..got.len()]);
    assert!(net.seen(B, Kind::StreamCredit) > 1);
}

#[test]
fn reader_that_waits_is_lent_the_frame() {
    let mut net = Net::joined();
    let peer = net.peer(A, B);
    let now = net.now;
    let id = net.ep(A).begin_stream(peer, 1).unwrap();
    net.ep(A).flush_stream(now, id).unwrap();
    net.settle();
    let (stream, _) = ready(&mut net, B)[0];
    let bytes = pattern(1, 12_000);
    net.nodes[B].ram.readers.insert(stream, (9000, vec![]));
    net.ep(B).await_stream(stream);
    let now = net.now;
    net.ep(A).write_stream(now, id, &bytes).unwrap();
    net.ep(A).end_stream(now, id).unwrap();
    net.settle();
    assert_eq!(net.nodes[B].ram.readers[&stream].1, bytes[..9000]);
    assert_eq!(net.count(B, "stream_bytes_lent"), 9000);
    assert_eq!(net.count(B, "stream_bytes_held"), 3000, "what nobody waited for");
    assert_eq!(read(&mut net, B, stream, usize::MAX), bytes[9000..]);
    assert_eq!(front(&mut net, B, stream), StreamFront::End);
}

#[test]
fn closed_stream_gives_its_credit_back_and_leaves_nothing() {
    let mut net = Net::joined();
    let peer = net.peer(A, B);
    let id = net.ep(A).begin_stream(peer, 1).unwrap();
    let bytes = pattern(1, 1 << 20);
    let mut sent_len = 0;
    for _ in 0..400 {
        let now = net.now;
        sent_len += net.ep(A).write_stream(now, id, &bytes[sent_len..]).unwrap();
        net.run_for(MS);
        for (stream, _) in ready(&mut net, B) {
            let now = net.now;
            net.ep(B).close_stream(now, stream);
        }
    }
    assert_eq!(sent_len, bytes.len(), "the rest is dropped, and dropping makes room");
    let now = net.now;
    net.ep(A).end_stream(now, id).unwrap();
    net.settle();
    assert_eq!((net.ep(B).stream_counts(), net.ep(B).held()), ((0, 0), (0, 0)));
}

#[test]
fn whoever_sent_streams_and_is_owed_nothing_rests() {
    let mut net = Net::joined();
    send(&mut net, A, B, 1, &[&pattern(1, 3000)]);
    net.settle();
    let (stream, _) = ready(&mut net, B)[0];
    assert_eq!(read(&mut net, B, stream, usize::MAX), pattern(1, 3000));
    let now = net.now;
    net.ep(B).close_stream(now, stream);
    net.run_for(60 * SECOND);
    assert_eq!(net.ep(A).next_timeout(), Instant::NEVER);
}

#[test]
fn ends_that_wait_for_credit_leave_by_themselves() {
    let mut net = Net::joined();
    let piece = pattern(1, 1000);
    let (peer, now) = (net.peer(A, B), net.now);
    let ids: Vec<OutStreamId> =
        (0..200).map(|handler| net.ep(A).begin_stream(peer, handler).unwrap()).collect();
    for &id in &ids {
        assert_eq!(net.ep(A).write_stream(now, id, &piece), Ok(1000), "it fills no chunk");
    }
    for id in ids {
        net.ep(A).end_stream(now, id).expect("an end never waits");
    }
    let late = net.ep(A).begin_stream(peer, 200).unwrap();
    assert_eq!(net.ep(A).write_stream(now, late, &piece), Ok(0), "those go first");
    net.settle();
    assert!(net.ep(A).waiting_stream_count() > 100);
    let mut handlers = vec![];
    for _ in 0..100 {
        for (stream, info) in ready(&mut net, B) {
            assert_eq!(read(&mut net, B, stream, usize::MAX), piece);
            handlers.push(info.handler);
            let now = net.now;
            net.ep(B).close_stream(now, stream);
        }
        net.run_for(MS);
    }
    assert_eq!(handlers, (0..200).collect::<Vec<_>>());
    assert_eq!(net.ep(A).waiting_stream_count(), 0);
    let now = net.now;
    assert_eq!(net.ep(A).write_stream(now, late, &piece), Ok(1000));
}

#[test]
fn full_budget_refuses_and_recalls_chunks_like_any_message() {
    let mut net = Net::pair(|settings, limits| {
        settings.eager_len_max = 4096;
        limits.held_len_max = 16 << 10;
    });
    net.join(A, B);
    send(&mut net, A, B, 1, &[&pattern(1, 40_000)]);
    net.run_for(20 * MS);
    assert!(net.count(B, "refusals") > 0);
    let (stream, _) = ready(&mut net, B)[0];
    let mut got = vec![];
    for _ in 0..400 {
        got.extend(read(&mut net, B, stream, usize::MAX));
        net.run_for(MS);
    }
    assert_eq!(got, pattern(1, 40_000));
    assert_eq!(front(&mut net, B, stream), StreamFront::End);
}

#[test]
fn sender_that_is_gone_breaks_its_streams_and_a_new_life_begins_anew() {
    let mut net = Net::joined();
    let peer = net.peer(A, B);
    let now = net.now;
    let id = net.ep(A).begin_stream(peer, 1).unwrap();
    net.ep(A).write_stream(now, id, &pattern(1, 5000)).unwrap();
    send(&mut net, A, B, 2, &[&pattern(2, 100)]);
    net.settle();
    let news = ready(&mut net, B);
    net.restart(A);
    send(&mut net, A, B, 3, &[&pattern(3, 100)]);
    net.settle();
    assert_eq!(read(&mut net, B, news[0].0, usize::MAX), pattern(1, 5000)[..3 * 1424]);
    let gone = StreamBreak::Gone(Some(GoneReason::Restarted));
    assert_eq!(front(&mut net, B, news[0].0), StreamFront::Broken(gone));
    assert_eq!(read(&mut net, B, news[1].0, usize::MAX), pattern(2, 100), "what is whole stays");
    assert_eq!(front(&mut net, B, news[1].0), StreamFront::End);
    let anew = ready(&mut net, B);
    let of_three = anew.iter().find(|(_, info)| info.handler == 3).unwrap().0;
    assert_eq!(read(&mut net, B, of_three, usize::MAX), pattern(3, 100));
}

#[test]
fn messages_may_not_use_the_space_of_streams() {
    let mut net = Net::joined();
    let now = net.now;
    let spec = SendSpec { space: Space::STREAMS, ..net.spec(A, B, 1, 8) };
    assert_eq!(net.ep(A).post_send(now, spec), Err(PostError::ReservedSpace));
    let criteria = Criteria { space: Space::STREAMS, ..anything() };
    let spec = net.recv_spec(A, criteria, 8);
    let Node { ep, ram, .. } = &mut net.nodes[A];
    assert_eq!(ep.post_recv(now, spec, ram), Err(PostError::ReservedSpace));
}

#[test]
fn what_is_left_of_a_former_life_gives_the_next_one_no_credit() {
    let mut net = Net::pair(|_, limits| limits.stream_len_max = 4000);
    net.join(A, B);
    send(&mut net, A, B, 1, &[&pattern(1, 60_000)]);
    net.run_for(10 * MS);
    let (old, _) = ready(&mut net, B)[0];
    net.restart(A);
    let (b_of_a, now) = (net.peer(B, A), net.now);
    net.ep(B).on_peer_died(now, b_of_a);
    assert!(!read(&mut net, B, old, usize::MAX).is_empty(), "what is whole stays readable");
    // More than is allowed at first: it goes on only if B tells A how far.
    let (peer, now) = (net.peer(A, B), net.now);
    let id = net.ep(A).begin_stream(peer, 2).unwrap();
    let bytes = pattern(2, 200_000);
    let mut sent_len = net.ep(A).write_stream(now, id, &bytes).unwrap();
    let mut got_len = 0;
    for _ in 0..1000 {
        net.run_for(MS);
        for (stream, _) in ready(&mut net, B) {
            got_len += read(&mut net, B, stream, usize::MAX).len();
        }
        let now = net.now;
        sent_len += net.ep(A).write_stream(now, id, &bytes[sent_len..]).unwrap();
    }
    assert_eq!(sent_len, bytes.len());
    assert!(got_len > 190_000, "{got_len}");
}

#[test]
fn chunk_behind_an_empty_one_ahead_of_its_turn_is_shown() {
    let mut net = Net::joined();
    let peer = net.peer(A, B);
    let now = net.now;
    net.drop_next(A, Kind::Eager);
    send(&mut net, A, B, 1, &[&pattern(1, 10)]);
    net.pump();
    // Begun, empty, while the first is missing; then all of it.
    let id = net.ep(A).begin_stream(peer, 2).unwrap();
    net.ep(A).flush_stream(now, id).unwrap();
    net.ep(A).write_stream(now, id, &pattern(2, 100)).unwrap();
    net.ep(A).end_stream(now, id).unwrap();
    net.settle();
    let news = ready(&mut net, B);
    assert_eq!(read(&mut net, B, news[0].0, usize::MAX), pattern(1, 10));
    assert_eq!(read(&mut net, B, news[1].0, usize::MAX), pattern(2, 100));
    assert_eq!(front(&mut net, B, news[1].0), StreamFront::End);
}

#[test]
fn sender_that_dies_without_a_word_breaks_its_open_streams() {
    let mut net = Net::pair(|settings, _| {
        (settings.gone_after_ns, settings.gone_after_inline_ns) = (5 * SECOND, 10 * SECOND);
    });
    net.join(A, B);
    let peer = net.peer(A, B);
    let now = net.now;
    let id = net.ep(A).begin_stream(peer, 1).unwrap();
    net.ep(A).write_stream(now, id, &pattern(1, 2000)).unwrap();
    net.run_for(10 * MS);
    let (stream, _) = ready(&mut net, B)[0];
    net.kill(A);
    net.run_for(60 * SECOND);
    assert_eq!(read(&mut net, B, stream, usize::MAX), pattern(1, 2000)[..1424]);
    let gone = StreamBreak::Gone(Some(GoneReason::Silent));
    assert_eq!(front(&mut net, B, stream), StreamFront::Broken(gone));
}

#[test]
fn reader_hears_that_fragments_of_an_end_will_not_come() {
    let mut net = Net::joined();
    send(&mut net, A, B, 1, &[&pattern(1, 1400)]);
    // Written for one frame, it leaves in two that are shorter; the second is lost.
    let to_b = net.nodes[B].locators[0];
    net.ep(A).on_too_long(0, &to_b, usize::from(FRAME_LEN_FLOOR));
    net.rule(1, |sight| sight.has(Kind::Fragment), Fate::Delay(0));
    net.drop_each(A, Kind::Fragment);
    net.run_for(MS);
    let (stream, _) = ready(&mut net, B)[0];
    assert_eq!(front(&mut net, B, stream), StreamFront::Empty);
    let (a_of_b, now) = (net.peer(B, A), net.now);
    net.ep(B).on_peer_died(now, a_of_b);
    assert_eq!(ready(&mut net, B).first().map(|news| news.0), Some(stream), "it is to look again");
    assert!(matches!(front(&mut net, B, stream), StreamFront::Broken(StreamBreak::Gone(_))));
}

#[test]
fn chunks_refused_ahead_of_their_turn_are_called_when_those_before_were_lent() {
    let tight = Plan::with(|_, limits| limits.envelope_count_max = 1024);
    let mut net = Net::of(&[Plan::default(), tight, Plan::default()]);
    net.join(C, B);
    net.join(A, B);
    let (peer, now) = (net.peer(A, B), net.now);
    let id = net.ep(A).begin_stream(peer, 1).unwrap();
    net.ep(A).flush_stream(now, id).unwrap();
    net.run_for(MS);
    let (stream, _) = ready(&mut net, B)[0];
    assert_eq!(front(&mut net, B, stream), StreamFront::Empty);
    // Half of the envelopes are taken by messages that nobody receives: nothing is held before its turn any more.
    (0..512).for_each(|tag| _ = net.send(C, B, tag, 8));
    net.run_for(10 * MS);
    assert_eq!(net.ep(B).held().1, 512);
    let bytes = pattern(1, 3 * 1424);
    net.nodes[B].ram.readers.insert(stream, (bytes.len(), vec![]));
    net.ep(B).await_stream(stream);
    net.drop_next(A, Kind::Eager);
    let now = net.now;
    assert_eq!(net.ep(A).write_stream(now, id, &bytes), Ok(bytes.len()));
    net.ep(A).flush_stream(now, id).unwrap();
    net.run_for(5 * SECOND);
    assert!(net.count(B, "refusals") > 0);
    assert_eq!(net.count(B, "stream_bytes_held"), 0, "what is lent frees no room");
    assert!(net.nodes[B].ram.readers[&stream].1 == bytes);
}

#[test]
fn who_waits_for_credit_hears_of_its_receivers_death() {
    let mut net = Net::pair(|settings, _| {
        (settings.gone_after_ns, settings.gone_after_inline_ns) = (5 * SECOND, 10 * SECOND);
    });
    net.join(A, B);
    let (peer, now) = (net.peer(A, B), net.now);
    let id = net.ep(A).begin_stream(peer, 1).unwrap();
    let bytes = pattern(1, 1 << 20);
    let sent_len = net.ep(A).write_stream(now, id, &bytes).unwrap();
    net.run_for(SECOND);
    let now = net.now;
    assert_eq!(net.ep(A).write_stream(now, id, &bytes[sent_len..]), Ok(0), "its credit is spent");
    net.kill(B); // all that was sent is acknowledged: nobody owes A anything but credit
    net.run_for(60 * SECOND);
    assert_eq!(net.left(A), [Some(GoneReason::Silent)]);
    let now = net.now;
    assert_eq!(net.ep(A).write_stream(now, id, &[1]), Err(StreamError::Gone));
}

#[test]
fn receiver_that_is_gone_ends_what_was_begun_for_it() {
    let mut net = Net::joined();
    let peer = net.peer(A, B);
    let now = net.now;
    let id = net.ep(A).begin_stream(peer, 1).unwrap();
    net.ep(A).write_stream(now, id, &pattern(1, 5000)).unwrap();
    net.settle();
    net.restart(B);
    let now = net.now;
    net.ep(A).write_stream(now, id, &pattern(1, 5000)).unwrap();
    net.run_for(5 * SECOND);
    let now = net.now;
    assert_eq!(net.ep(A).write_stream(now, id, &[1]), Err(StreamError::Gone));
    assert_eq!(net.ep(A).end_stream(now, id), Err(StreamError::Gone));
    assert_eq!(net.ep(A).write_stream(now, id, &[1]), Err(StreamError::Ended));
}

#[test]
fn short_stream_is_one_chunk_in_its_turn_or_nothing() {
    let mut net = Net::joined();
    let (peer, now) = (net.peer(A, B), net.now);
    assert!(!net.ep(A).send_short_stream(now, peer, 1, &[&[0; 100_000]]), "more than a chunk");
    let open = net.ep(A).begin_stream(peer, 1).unwrap();
    assert!(!net.ep(A).send_short_stream(now, peer, 2, &[b"early"]), "one was begun before");
    net.ep(A).write_stream(now, open, b"first").unwrap();
    assert_eq!(net.ep(A).flush_stream(now, open), Ok(true));
    assert!(net.ep(A).send_short_stream(now, peer, 2, &[b"sho", b"", b"rt"]));
    net.ep(A).end_stream(now, open).unwrap();
    net.settle();
    for ((id, info), (handler, wanted)) in
        ready(&mut net, B).into_iter().zip([(1, b"first"), (2, b"short")])
    {
        assert_eq!(info.handler, handler);
        assert_eq!(read(&mut net, B, id, usize::MAX), wanted);
        assert_eq!(front(&mut net, B, id), StreamFront::End);
    }
    assert_eq!(net.ep(A).stream_counts().1, 0, "nothing is kept of a short one");
}

#[test]
fn short_streams_end_with_credit_and_whoever_waits_hears_of_more() {
    let mut net = Net::joined();
    let (peer, now) = (net.peer(A, B), net.now);
    let is_sent = |net: &mut Net| net.ep(A).send_short_stream(now, peer, 3, &[&[7; 1000]]);
    let count = (0..10_000).take_while(|_| is_sent(&mut net)).count();
    assert!((1..10_000).contains(&count), "{count}");
    net.settle();
    net.ep(A).take_credit_news();
    let news = ready(&mut net, B);
    assert_eq!(news.len(), count);
    for (id, _) in news {
        assert_eq!(read(&mut net, B, id, usize::MAX), [7; 1000]);
        let now = net.now;
        net.ep(B).close_stream(now, id);
    }
    net.settle();
    assert!(net.ep(A).take_credit_news(), "credit came");
    assert!(!net.ep(A).take_credit_news(), "that was told");
    assert!(is_sent(&mut net));
}

#[test]
fn chunks_leave_from_where_they_lie_in_order_with_copied_ones() {
    let mut net = Net::joined();
    let (peer, now) = (net.peer(A, B), net.now);
    let id = net.ep(A).begin_stream(peer, 4).unwrap();
    net.ep(A).write_stream(now, id, b"copied, ").unwrap();
    let len = net.ep(A).stream_chunk_len(id).unwrap();
    let (bytes, user) = (pattern(6, len), 77);
    let buf = net.lend(A, bytes.clone());
    let lying = (buf, len as u32);
    let req = net.ep(A).write_stream_in_place(now, id, lying, user).unwrap().expect("credit");
    net.ep(A).write_stream(now, id, b", more").unwrap();
    net.ep(A).end_stream(now, id).unwrap();
    net.settle();
    let (stream, _) = ready(&mut net, B)[0];
    let wanted = [b"copied, ", &bytes[..], b", more"].concat();
    assert_eq!(read(&mut net, B, stream, usize::MAX), wanted);
    assert_eq!(front(&mut net, B, stream), StreamFront::End);
    assert_eq!(net.sent(A, req), Some(Ok(())), "its memory is free again");
    let now = net.now;
    assert_eq!(net.ep(A).write_stream_in_place(now, id, lying, user), Err(StreamError::Ended));
    assert_eq!(net.ep(A).stream_chunk_len(id), Err(StreamError::Ended));
}
