//! §12.5 to §12.7: chunks of streams that are given to a link in memory, first ones that are handed to who extracts, and pieces that it is told of.

use packhorse_proto::*;

use crate::net::*;
use crate::told;

const LEN: usize = 50_000;
/// What stands for the whereabouts of a piece.
const WHERE: [u8; wire::WHEREABOUTS_LEN] = [7; _];

/// Two nodes that share memory and may read each other's, the second of which holds so many messages. A stream has passed, and the first word of credit behind it.
fn pair(envelope_count_max: u32) -> Net {
    pair_with(|limits| limits.envelope_count_max = envelope_count_max)
}

fn pair_with(change: impl FnOnce(&mut Limits)) -> Net {
    let mut net = told::pair_with(change);
    let frame = short(&mut net, 0, &[]);
    assert_eq!(take(&mut net, &frame), Taken::Chunk);
    let (stream, _) = net.ep(B).poll_ready_stream().unwrap();
    assert_eq!(front(&mut net, stream), StreamFront::End);
    let now = net.now;
    net.ep(B).close_stream(now, stream);
    net.run_for(10 * MS);
    net.log.clear();
    net
}

/// A whole short stream from A, given to its link; its frame.
fn short(net: &mut Net, handler: u16, bytes: &[u8]) -> Vec<u8> {
    let (to, now) = ((net.peer(A, B), handler), net.now);
    let mut head = [0; wire::LONE_HEAD_LEN_MAX];
    let chunk = net.ep(A).prepare_short_stream(now, to, bytes.len(), &mut head);
    let chunk = chunk.expect("nothing stands in its way");
    net.ep(A).on_chunk_given(now, &chunk);
    [&head[..chunk.given.head_len], bytes].concat()
}

/// The next chunk of a stream from A, given to its link; its frame.
fn chunk(net: &mut Net, id: OutStreamId, bytes: &[u8], ends: Option<bool>) -> Vec<u8> {
    let now = net.now;
    let mut head = [0; wire::LONE_HEAD_LEN_MAX];
    let chunk = net.ep(A).prepare_chunk(now, id, Some(bytes.len()), ends, &mut head);
    let chunk = chunk.expect("nothing stands in its way");
    net.ep(A).on_chunk_given(now, &chunk);
    [&head[..chunk.given.head_len], bytes].concat()
}

/// A piece of a stream from A of which its link is told; its frame.
fn tell(net: &mut Net, id: OutStreamId) -> Option<(ReqId, Vec<u8>)> {
    let buf = net.lend(A, pattern(7, LEN));
    let now = net.now;
    let mut head = [0; wire::NOTE_HEAD_LEN_MAX];
    let told = net.ep(A).prepare_told_chunk(now, id, (buf, LEN as u64), 7, &mut head)?;
    let req = net.ep(A).on_told_chunk_given(now, &told);
    Some((req, [&head[..told.note.head_len], &WHERE].concat()))
}

fn take(net: &mut Net, frame: &[u8]) -> Taken {
    let source = net.nodes[A].locators[0];
    let Node { ep, ram, .. } = &mut net.nodes[B];
    ep.take_given(net.now, 0, &source, (frame, frame.len()), ram)
}

/// As a driver whose look takes no frames one by one.
fn hand_over(net: &mut Net, to: usize, frame: &[u8]) {
    let source = net.nodes[1 - to].locators[0];
    let Node { ep, ram, .. } = &mut net.nodes[to];
    ep.on_frame(net.now, 0, source, frame, ram);
}

fn front(net: &mut Net, id: StreamId) -> StreamFront<'_> {
    let now = net.now;
    net.ep(B).stream_front(now, id)
}

fn consume(net: &mut Net, id: StreamId, len: usize) {
    let now = net.now;
    net.ep(B).consume_stream(now, id, len);
}

/// The word that a piece is over, given to B's link and handed to A: how many bytes A hears were read.
fn hear_end(net: &mut Net) -> Option<u64> {
    let now = net.now;
    let mut head = [0; wire::NOTE_HEAD_LEN_MAX];
    let note = net.ep(B).prepare_told_end(now, &mut head)?;
    net.ep(B).on_told_end_given(&note);
    hand_over(net, A, &head[..note.head_len]);
    read_len(net)
}

/// How many bytes of its piece A was told that were read.
fn read_len(net: &mut Net) -> Option<u64> {
    while let Some(event) = net.ep(A).poll_event() {
        if let Event::Sent { user: 7, placed_len, result: Ok(()), .. } = event {
            return Some(placed_len);
        }
    }
    None
}

/// A stream that was begun, and shown to its reader.
fn begun(net: &mut Net) -> (OutStreamId, StreamId) {
    let peer = net.peer(A, B);
    let id = net.ep(A).begin_stream(peer, 3).unwrap();
    assert_eq!(tell(net, id), None, "what is told of does not begin a stream");
    let frame = chunk(net, id, &[], None);
    assert_eq!(take(net, &frame), Taken::Chunk);
    let (stream, info) = net.ep(B).poll_ready_stream().unwrap();
    assert_eq!(info.handler, 3);
    (id, stream)
}

#[test]
fn short_streams_are_given_without_a_packet() {
    let mut net = pair(1000);
    let frames: Vec<_> = (0..3).map(|n| short(&mut net, n, &pattern(n.into(), 40))).collect();
    frames.iter().for_each(|frame| assert_eq!(take(&mut net, frame), Taken::Chunk));
    for n in 0..3 {
        let (stream, info) = net.ep(B).poll_ready_stream().unwrap();
        assert_eq!(info.handler, n);
        let StreamFront::Bytes { bytes, .. } = front(&mut net, stream) else { panic!("{n}") };
        assert_eq!(bytes, pattern(n.into(), 40));
        consume(&mut net, stream, 40);
        assert_eq!(front(&mut net, stream), StreamFront::End);
    }
    net.run_for(100 * MS);
    assert!(net.log.is_empty(), "nothing to acknowledge, nothing to repeat");
}

/// Nobody would send them again. (Without it the bytes vanish, and the stream has a hole that nobody notices.)
#[test]
fn what_was_given_is_held_beyond_the_budgets_and_its_sender_stopped() {
    let mut net = pair_with(|limits| limits.held_len_max = 40_000);
    let bytes = |n: u16| pattern(n.into(), 1000);
    let frames: Vec<_> = (0..60).map(|n| short(&mut net, n, &bytes(n))).collect();
    frames.iter().for_each(|frame| hand_over(&mut net, B, frame));
    net.run_for(MS);
    let (to, now) = ((net.peer(A, B), 9), net.now);
    let mut head = [0; wire::LONE_HEAD_LEN_MAX];
    assert!(net.ep(A).prepare_short_stream(now, to, 1, &mut head).is_none(), "it was refused");
    for n in 0..60 {
        let (stream, info) = net.ep(B).poll_ready_stream().unwrap();
        assert_eq!(info.handler, n);
        let StreamFront::Bytes { bytes, .. } = front(&mut net, stream) else { panic!("{n}") };
        assert_eq!(bytes, pattern(n.into(), 1000));
        consume(&mut net, stream, 1000);
        let now = net.now;
        net.ep(B).close_stream(now, stream);
    }
    net.run_for(10 * MS);
    let now = net.now;
    assert!(net.ep(A).prepare_short_stream(now, to, 1, &mut head).is_some(), "and recalled");
}

/// A chunk before its turn is held, too, where half of the room is taken: nobody would send it again.
#[test]
fn what_was_given_before_its_turn_is_held_beyond_the_budgets() {
    let mut net = pair(4);
    let frames: Vec<_> = (0..6).map(|n| short(&mut net, n, &pattern(n.into(), 40))).collect();
    frames[1..].iter().for_each(|frame| hand_over(&mut net, B, frame));
    assert_eq!(net.ep(B).poll_ready_stream(), None, "the first has not come");
    hand_over(&mut net, B, &frames[0]);
    let handlers: Vec<u16> = std::iter::from_fn(|| net.ep(B).poll_ready_stream())
        .map(|(_, info)| info.handler)
        .collect();
    assert_eq!(handlers, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_piece_is_read_where_it_is_as_its_reader_likes() {
    let mut net = pair(1000);
    let (id, stream) = begun(&mut net);
    let frame = chunk(&mut net, id, &pattern(1, 100), None);
    assert_eq!(take(&mut net, &frame), Taken::Chunk);
    let (_, told) = tell(&mut net, id).expect("nothing stands in its way");
    assert_eq!(take(&mut net, &told), Taken::Chunk);
    assert!(matches!(front(&mut net, stream), StreamFront::Bytes { .. }), "in its place");
    consume(&mut net, stream, 100);
    for offset in [0, 10_000, 20_000, 30_000, 40_000] {
        assert_eq!(hear_end(&mut net), None, "it is not over");
        let StreamFront::Told(it) = front(&mut net, stream) else { panic!("{offset}") };
        assert_eq!((it.offset, it.len), (offset, LEN as u64 - offset));
        assert_eq!(it.whereabouts, WHERE);
        consume(&mut net, stream, 10_000);
    }
    assert_eq!(front(&mut net, stream), StreamFront::Empty);
    assert_eq!(hear_end(&mut net), Some(LEN as u64));
    let end = chunk(&mut net, id, &[], Some(true));
    assert_eq!(take(&mut net, &end), Taken::Chunk);
    assert_eq!(front(&mut net, stream), StreamFront::End);
    assert_eq!(net.count(B, "stream_bytes_held"), 100, "nothing else was held");
    net.run_for(100 * MS);
    assert!(net.log.is_empty(), "nothing to acknowledge, nothing to repeat");
}

#[test]
fn what_cannot_be_read_is_sent_and_takes_its_place() {
    let mut net = pair(1000);
    let (id, stream) = begun(&mut net);
    let (_, told) = tell(&mut net, id).expect("nothing stands in its way");
    assert_eq!(take(&mut net, &told), Taken::Chunk);
    consume_told(&mut net, stream, 20_000);
    net.ep(B).decline_stream_front(stream);
    assert_eq!(front(&mut net, stream), StreamFront::Empty);
    assert_eq!(hear_end(&mut net), Some(20_000));
    let rest = chunk(&mut net, id, &pattern(8, 500), Some(true));
    assert_eq!(take(&mut net, &rest), Taken::Chunk);
    let StreamFront::Bytes { bytes, .. } = front(&mut net, stream) else { panic!("it was sent") };
    assert_eq!(bytes, pattern(8, 500));
    consume(&mut net, stream, 500);
    assert_eq!(front(&mut net, stream), StreamFront::End);
}

fn consume_told(net: &mut Net, stream: StreamId, len: usize) {
    assert!(matches!(front(net, stream), StreamFront::Told(_)));
    consume(net, stream, len);
}

#[test]
fn where_nobody_extracts_the_sender_is_asked_for_the_bytes() {
    let mut net = pair(1000);
    let (id, stream) = begun(&mut net);
    let (_, told) = tell(&mut net, id).expect("nothing stands in its way");
    hand_over(&mut net, B, &told); // the general way
    assert!(net.ep(B).has_told_chunks());
    net.ep(B).decline_told_chunks();
    assert!(!net.ep(B).has_told_chunks());
    net.run_for(MS); // no link is given the word: it goes with a number
    assert_eq!(read_len(&mut net), Some(0));
    assert_eq!(front(&mut net, stream), StreamFront::Empty);
    assert_eq!(net.ep(B).held().1, 0, "its place is given back when somebody looks");
}

#[test]
fn who_wants_no_more_has_read_all() {
    let mut net = pair(1000);
    let (id, stream) = begun(&mut net);
    let (_, told) = tell(&mut net, id).expect("nothing stands in its way");
    assert_eq!(take(&mut net, &told), Taken::Chunk);
    let now = net.now;
    net.ep(B).close_stream(now, stream);
    assert_eq!(hear_end(&mut net), Some(LEN as u64), "nothing is left to send");
    let (_, told) = tell(&mut net, id).expect("nothing stands in its way");
    assert_eq!(take(&mut net, &told), Taken::Chunk);
    assert_eq!(hear_end(&mut net), Some(LEN as u64), "nor of another");
}

#[test]
fn credit_is_for_what_is_held_and_comes_back() {
    let mut net = pair(1000);
    let (id, stream) = begun(&mut net);
    for _ in 0..6000 {
        let told = tell(&mut net, id).or_else(|| {
            net.run_for(10 * MS); // something waited to leave
            tell(&mut net, id)
        });
        let (_, told) = told.expect("there is credit");
        assert_eq!(take(&mut net, &told), Taken::Chunk);
        consume_told(&mut net, stream, LEN);
        // A word of credit that waits has it wait behind it, and go as any other.
        let heard = hear_end(&mut net).or_else(|| {
            net.run_for(MS);
            read_len(&mut net)
        });
        assert_eq!(heard, Some(LEN as u64));
    }
}

#[test]
fn a_sender_that_is_gone_takes_what_it_told_of_with_it() {
    let mut net = pair(1000);
    let (id, stream) = begun(&mut net);
    let before = chunk(&mut net, id, &pattern(1, 100), None);
    let (_, told) = tell(&mut net, id).expect("nothing stands in its way");
    // Whoever sends more before the end of that breaks the rules, and harms himself.
    let behind = chunk(&mut net, id, &pattern(2, 100), Some(true));
    for frame in [before, told, behind] {
        assert_eq!(take(&mut net, &frame), Taken::Chunk);
    }
    let (a_of_b, now) = (net.peer(B, A), net.now);
    net.ep(B).on_peer_died(now, a_of_b);
    let StreamFront::Bytes { bytes, .. } = front(&mut net, stream) else { panic!("held") };
    assert_eq!(bytes, pattern(1, 100));
    consume(&mut net, stream, 100);
    assert!(matches!(front(&mut net, stream), StreamFront::Broken(StreamBreak::Gone(_))));
    assert!(!net.ep(B).has_told_chunks());
    net.ep(B).close_stream(now, stream);
    assert_eq!((net.ep(B).stream_counts(), net.ep(B).held()), ((0, 0), (0, 0)));
}

#[test]
fn the_next_association_hears_of_no_end_of_the_one_before() {
    let mut net = pair(1000);
    let (id, stream) = begun(&mut net);
    let (_, told) = tell(&mut net, id).expect("nothing stands in its way");
    assert_eq!(take(&mut net, &told), Taken::Chunk);
    consume_told(&mut net, stream, LEN);
    let (a_of_b, now) = (net.peer(B, A), net.now);
    net.ep(B).on_peer_died(now, a_of_b);
    let recv = net.recv(A, tagged(5), 8);
    net.send(B, A, 5, 8);
    net.run_for(10 * SECOND);
    net.assert_got(A, recv, 5, 8);
    assert_eq!(net.seen(B, Kind::Done), 0);
    assert_eq!(hear_end(&mut net), None);
}

#[test]
fn a_piece_told_of_before_its_turn_waits_for_it() {
    let mut net = pair(1000);
    let (id, stream) = begun(&mut net);
    let first = chunk(&mut net, id, &pattern(1, 100), None);
    let (_, told) = tell(&mut net, id).expect("nothing stands in its way");
    hand_over(&mut net, B, &told);
    assert_eq!(front(&mut net, stream), StreamFront::Empty);
    hand_over(&mut net, B, &first);
    assert!(matches!(front(&mut net, stream), StreamFront::Bytes { .. }));
    consume(&mut net, stream, 100);
    consume_told(&mut net, stream, LEN);
    assert_eq!(hear_end(&mut net), Some(LEN as u64));
    assert_eq!(net.ep(B).held(), (0, 0));
}

/// The reader's envelopes are all in use: the piece is asked for at once, and refused by nobody.
#[test]
fn without_an_envelope_nothing_is_told() {
    let mut net = pair(4);
    let (id, stream) = begun(&mut net);
    for _ in 0..4 {
        let before = chunk(&mut net, id, &pattern(1, 100), None);
        assert_eq!(take(&mut net, &before), Taken::Chunk);
    }
    let (_, told) = tell(&mut net, id).expect("nothing stands in its way");
    assert_eq!(take(&mut net, &told), Taken::Chunk);
    assert_eq!(hear_end(&mut net), Some(0));
    (0..4).for_each(|_| consume(&mut net, stream, 100));
    assert_eq!(front(&mut net, stream), StreamFront::Empty);
}

/// A pair whose second node extracts, and takes streams that begin.
fn extracting() -> Net {
    let mut net = pair(1000);
    net.nodes[B].ram.takes_new = true;
    net
}

/// What B was handed over last.
fn handed(net: &mut Net) -> Handed {
    let handed = net.nodes[B].ram.handed.pop_front();
    handed.expect("a stream that was handed over")
}

fn close(net: &mut Net, id: StreamId) {
    let now = net.now;
    net.ep(B).close_stream(now, id);
}

/// What is next in a stream is this, and is read.
#[track_caller]
fn read(net: &mut Net, id: StreamId, wanted: &[u8]) {
    let StreamFront::Bytes { bytes, is_fresh } = front(net, id) else { panic!("held") };
    assert_eq!((bytes, is_fresh), (wanted, true));
    consume(net, id, wanted.len());
}

#[test]
fn a_whole_stream_is_handed_over_and_nothing_of_it_held() {
    let mut net = extracting();
    for n in 0..3 {
        let frame = short(&mut net, n, &pattern(n.into(), 40));
        assert_eq!(take(&mut net, &frame), Taken::Chunk);
    }
    assert_eq!(net.ep(B).poll_ready_stream(), None);
    assert_eq!((net.ep(B).held(), net.ep(B).stream_counts()), ((0, 0), (3, 0)));
    for n in 0..3 {
        let Handed { id, info, bytes, is_whole } = handed(&mut net);
        assert_eq!((info.handler, is_whole, bytes), (n, true, pattern(n.into(), 40)));
        assert_eq!(info.source, net.peer(B, A));
        close(&mut net, id);
    }
    assert_eq!(net.ep(B).stream_counts(), (0, 0));
    assert_eq!((net.count(B, "stream_bytes_lent"), net.count(B, "stream_bytes_held")), (120, 0));
    net.run_for(100 * MS);
    assert!(net.log.is_empty(), "nothing to acknowledge, nothing to repeat");
}

#[test]
fn by_the_general_way_streams_are_handed_over_too() {
    let mut net = extracting();
    let frame = short(&mut net, 5, b"general");
    hand_over(&mut net, B, &frame);
    assert_eq!(handed(&mut net).bytes, b"general");
    let peer = net.peer(A, B);
    let now = net.now;
    assert!(net.ep(A).send_short_stream(now, peer, 6, &[b"by ", b"packet"])); // is acknowledged
    net.run_for(10 * MS);
    assert_eq!(handed(&mut net).bytes, b"by packet");
}

#[test]
fn what_the_reader_of_a_first_chunk_leaves_is_held() {
    let mut net = extracting();
    let bytes = pattern(1, 40);
    let frame = short(&mut net, 0, &bytes);
    assert_eq!(take(&mut net, &frame), Taken::Chunk);
    let id = handed(&mut net).id;
    assert_eq!(front(&mut net, id), StreamFront::Empty, "who has it has not said what he reads");
    consume(&mut net, id, 40);
    net.ep(B).keep_handed(id, &bytes[30..]);
    assert_eq!(net.ep(B).poll_ready_stream(), None, "its reader knows of it");
    read(&mut net, id, &bytes[30..]);
    assert_eq!(front(&mut net, id), StreamFront::End);
    assert_eq!((net.count(B, "stream_bytes_lent"), net.count(B, "stream_bytes_held")), (30, 10));
    net.ep(B).keep_handed(id, b"said twice");
    assert_eq!(front(&mut net, id), StreamFront::End);
    close(&mut net, id);
    net.ep(B).keep_handed(id, b"of one that is closed");
    assert_eq!((net.ep(B).held(), net.ep(B).stream_counts()), ((0, 0), (0, 0)));
}

#[test]
fn who_asked_for_more_meanwhile_hears_of_the_rest() {
    let mut net = extracting();
    for rest in [&b"rest"[..], b""] {
        let frame = short(&mut net, 0, b"the rest");
        assert_eq!(take(&mut net, &frame), Taken::Chunk);
        let id = handed(&mut net).id;
        net.ep(B).await_stream(id);
        net.ep(B).keep_handed(id, rest);
        assert_eq!(net.ep(B).poll_ready_stream().map(|(ready, _)| ready), Some(id));
        close(&mut net, id);
    }
}

#[test]
fn streams_that_were_begun_before_start_before() {
    let mut net = extracting();
    let frames: Vec<_> = (0..4).map(|n| short(&mut net, n, &[])).collect();
    net.nodes[B].ram.takes_new = false;
    assert_eq!(take(&mut net, &frames[0]), Taken::Chunk);
    net.nodes[B].ram.takes_new = true;
    assert_eq!(take(&mut net, &frames[1]), Taken::Chunk);
    assert!(net.nodes[B].ram.handed.is_empty(), "the first has not started");
    for n in 0..2 {
        assert_eq!(net.ep(B).poll_ready_stream().unwrap().1.handler, n);
    }
    // The third comes before its turn, and is behind the second still.
    hand_over(&mut net, B, &frames[3]);
    assert!(net.nodes[B].ram.handed.is_empty(), "the third has not come");
    hand_over(&mut net, B, &frames[2]);
    assert_eq!(handed(&mut net).info.handler, 2);
    assert_eq!(net.ep(B).poll_ready_stream().unwrap().1.handler, 3);
}

#[test]
fn what_was_given_up_is_not_handed_over() {
    let mut net = extracting();
    let peer = net.peer(A, B);
    let id = net.ep(A).begin_stream(peer, 1).unwrap();
    let broken = chunk(&mut net, id, b"no", Some(false));
    assert_eq!(take(&mut net, &broken), Taken::Chunk);
    let (stream, _) = net.ep(B).poll_ready_stream().unwrap();
    read(&mut net, stream, b"no");
    assert_eq!(front(&mut net, stream), StreamFront::Broken(StreamBreak::GivenUp));
}

#[test]
fn what_follows_a_first_chunk_stands_behind_its_rest() {
    let mut net = extracting();
    let peer = net.peer(A, B);
    let id = net.ep(A).begin_stream(peer, 1).unwrap();
    let frames = [
        chunk(&mut net, id, b"first", None),
        chunk(&mut net, id, b"second", None),
        chunk(&mut net, id, b"third", Some(true)),
    ];
    for frame in frames {
        assert_eq!(take(&mut net, &frame), Taken::Chunk);
    }
    let Handed { id, bytes, is_whole, .. } = handed(&mut net);
    assert_eq!((&bytes[..], is_whole), (&b"first"[..], false));
    assert_eq!(front(&mut net, id), StreamFront::Empty, "not before the rest of the first");
    net.ep(B).keep_handed(id, b"st");
    for wanted in [&b"st"[..], b"second", b"third"] {
        read(&mut net, id, wanted);
    }
    assert_eq!(front(&mut net, id), StreamFront::End);
}

#[test]
fn who_has_read_a_first_chunk_and_waits_is_lent_the_next() {
    let mut net = extracting();
    let peer = net.peer(A, B);
    let sent = net.ep(A).begin_stream(peer, 1).unwrap();
    let frames = [b"first ", b"second"].map(|bytes| chunk(&mut net, sent, &bytes[..], None));
    assert_eq!(take(&mut net, &frames[0]), Taken::Chunk);
    let id = handed(&mut net).id;
    net.nodes[B].ram.readers.insert(id, (6, Vec::new()));
    assert_eq!(front(&mut net, id), StreamFront::Empty);
    net.ep(B).await_stream(id);
    net.ep(B).keep_handed(id, &[]);
    assert_eq!(net.ep(B).poll_ready_stream(), None, "there is nothing yet");
    assert_eq!(take(&mut net, &frames[1]), Taken::Chunk);
    assert_eq!(net.nodes[B].ram.readers[&id].1, b"second");
    assert_eq!(net.ep(B).held(), (0, 0));
}

/// As if they had not been handed over: what one peer makes us hold stays bounded.
#[test]
fn what_is_not_read_of_first_chunks_stops_its_sender() {
    let mut net = extracting();
    let stream_len_max = Limits::default().stream_len_max;
    let (bytes, mut kept, mut head) = (pattern(3, 15_000), Vec::new(), [0; _]);
    let (to, mut tries) = ((net.peer(A, B), 1), 0);
    while tries < 2 {
        let now = net.now;
        if net.ep(A).prepare_short_stream(now, to, bytes.len(), &mut head).is_none() {
            net.run_for(10 * MS); // a word of credit waits, or none will come
            tries += 1;
            continue;
        }
        let frame = short(&mut net, 1, &bytes);
        hand_over(&mut net, B, &frame);
        let id = handed(&mut net).id;
        net.ep(B).keep_handed(id, &bytes);
        kept.push(id);
        tries = 0;
    }
    let (held_len, _) = net.ep(B).held();
    let bound = stream_len_max.max(64 << 10) + 2 * (16 << 10);
    assert!(kept.len() as u64 * 15_000 <= bound, "{} of {held_len}, {bound}", kept.len());
    for id in kept {
        close(&mut net, id);
    }
    net.run_for(10 * MS);
    let now = net.now;
    assert!(net.ep(A).prepare_short_stream(now, to, 1, &mut head).is_some(), "and goes on");
}

#[test]
fn a_sender_that_is_gone_leaves_what_was_handed_over() {
    let mut net = extracting();
    let peer = net.peer(A, B);
    let open = net.ep(A).begin_stream(peer, 1).unwrap();
    let frames = [chunk(&mut net, open, b"open", None), short(&mut net, 2, b"whole")];
    for frame in frames {
        assert_eq!(take(&mut net, &frame), Taken::Chunk);
    }
    let ids = [handed(&mut net).id, handed(&mut net).id];
    let (a_of_b, now) = (net.peer(B, A), net.now);
    net.ep(B).on_peer_died(now, a_of_b);
    for id in ids {
        net.ep(B).keep_handed(id, b"rest");
        read(&mut net, id, b"rest");
    }
    assert!(matches!(front(&mut net, ids[0]), StreamFront::Broken(StreamBreak::Gone(_))));
    assert_eq!(front(&mut net, ids[1]), StreamFront::End);
    ids.into_iter().for_each(|id| close(&mut net, id));
    assert_eq!((net.ep(B).stream_counts(), net.ep(B).held()), ((0, 0), (0, 0)));
}

/// There was room when it was handed over; others have taken it since. Nobody sends it again.
#[test]
fn a_rest_is_held_beyond_the_budgets() {
    let mut net = pair(4);
    net.nodes[B].ram.takes_new = true;
    let frames: Vec<_> = (0..8).map(|n| short(&mut net, n, b"bytes")).collect();
    for frame in frames {
        assert_eq!(take(&mut net, &frame), Taken::Chunk);
    }
    let ids: Vec<_> = (0..8).map(|_| handed(&mut net).id).collect();
    ids.iter().for_each(|&id| net.ep(B).keep_handed(id, b"tes"));
    assert_eq!(net.ep(B).held().1, 8);
    for id in ids {
        read(&mut net, id, b"tes");
        close(&mut net, id);
    }
    assert_eq!((net.ep(B).stream_counts(), net.ep(B).held()), ((0, 0), (0, 0)));
}
