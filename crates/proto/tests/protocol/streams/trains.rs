//! Streams over links that send trains (12.1): chunks as long as these, shown a packet at a time.

use super::*;

/// Two that know each other, over a link that sends trains of such frames.
fn with_trains_of(frame_len_max: u16) -> Net {
    let mut net = Net::pair(|settings, _| {
        settings.eager_len_max = 64 << 10;
        settings.frame_len_max = frame_len_max;
    });
    net.train_count_max = 44;
    let traits = LinkTraits { train_len_max: 65_000, frame_len_max, ..PLAIN };
    for node in [A, B] {
        net.ep(node).set_link(0, traits);
    }
    net.join(A, B);
    net.log.clear();
    net
}

fn with_trains() -> Net {
    with_trains_of(PLAIN.frame_len_max)
}

/// A stream that has begun, at both its ends.
fn begun(net: &mut Net) -> (OutStreamId, StreamId) {
    let peer = net.peer(A, B);
    let now = net.now;
    let id = net.ep(A).begin_stream(peer, 1).unwrap();
    net.ep(A).flush_stream(now, id).unwrap();
    net.run_until(|net| net.ep(B).has_ready_stream()); // neither rests
    let (stream, _) = ready(net, B)[0];
    (id, stream)
}

#[test]
fn a_long_piece_leaves_as_trains_and_is_lent_frame_by_frame() {
    for wanted in [0, 1, 9000, 30_000] {
        let mut net = with_trains();
        let (id, stream) = begun(&mut net);
        let bytes = pattern(1, 30_000);
        if wanted > 0 {
            net.nodes[B].ram.readers.insert(stream, (wanted, vec![]));
            net.ep(B).await_stream(stream);
        }
        let now = net.now;
        assert_eq!(net.ep(A).write_stream(now, id, &bytes), Ok(bytes.len()));
        net.ep(A).end_stream(now, id).unwrap();
        net.settle();
        assert_eq!(net.count(A, "messages_out"), net.count(B, "messages_in"));
        assert_eq!(net.count(B, "frames_together"), 22, "one chunk, taken in one go");
        if wanted > 0 {
            assert_eq!(net.nodes[B].ram.readers[&stream].1, bytes[..wanted]);
        }
        assert_eq!(net.count(B, "stream_bytes_lent"), wanted as u64);
        assert_eq!(net.count(B, "stream_bytes_held"), (bytes.len() - wanted) as u64);
        assert_eq!(read(&mut net, B, stream, usize::MAX), bytes[wanted..]);
        assert_eq!(front(&mut net, B, stream), StreamFront::End);
        assert_eq!(net.ep(B).held(), (0, 0));
    }
}

/// Whoever reads a packet more than he asked for (12.5) is never shown more than a packet, however long the frame.
#[test]
fn a_long_frame_is_lent_packet_by_packet() {
    let mut net = with_trains_of(60_000);
    let bytes = pattern(2, 30_000);
    // Frames are short until longer ones were tried: the longest comes last.
    while net.nodes[B].ram.shown_len_max < 16 << 10 {
        let (id, stream) = begun(&mut net);
        net.nodes[B].ram.readers.insert(stream, (bytes.len(), vec![]));
        net.ep(B).await_stream(stream);
        let now = net.now;
        assert_eq!(net.ep(A).write_stream(now, id, &bytes), Ok(bytes.len()));
        net.ep(A).end_stream(now, id).unwrap();
        net.settle();
        assert_eq!(net.nodes[B].ram.readers[&stream].1, bytes);
    }
    assert_eq!(net.nodes[B].ram.shown_len_max, 16 << 10);
}

#[test]
fn a_train_that_loses_a_frame_is_put_together() {
    let mut net = with_trains();
    let (id, stream) = begun(&mut net);
    let bytes = pattern(1, 60_000);
    net.drop_next(A, Kind::Fragment);
    let now = net.now;
    net.ep(A).write_stream(now, id, &bytes).unwrap();
    net.ep(A).end_stream(now, id).unwrap();
    net.settle();
    assert_eq!(read(&mut net, B, stream, usize::MAX), bytes);
    assert_eq!(front(&mut net, B, stream), StreamFront::End);
}

#[test]
fn a_long_chunk_is_shown_a_packet_at_a_time() {
    let mut net = with_trains();
    let (id, stream) = begun(&mut net);
    let now = net.now;
    net.ep(A).write_stream(now, id, &pattern(1, 40_000)).unwrap();
    net.ep(A).end_stream(now, id).unwrap();
    net.settle();
    let mut shown = vec![];
    while let StreamFront::Bytes { bytes, is_fresh } = front(&mut net, B, stream) {
        let len = bytes.len();
        assert!(is_fresh);
        shown.push(len);
        let now = net.now;
        net.ep(B).consume_stream(now, stream, len - 1);
        assert!(matches!(
            front(&mut net, B, stream),
            StreamFront::Bytes { bytes: [_], is_fresh: false }
        ));
        net.ep(B).consume_stream(now, stream, 1);
    }
    assert_eq!(shown, [16_384, 16_384, 40_000 - 2 * 16_384]);
}

#[test]
fn pieces_do_not_wait_until_a_train_is_full() {
    let mut net = with_trains();
    let (id, stream) = begun(&mut net);
    let bytes = pattern(1, 30_000);
    for piece in bytes.chunks(10_000) {
        let now = net.now;
        net.ep(A).write_stream(now, id, piece).unwrap();
        net.settle();
    }
    assert_eq!(
        read(&mut net, B, stream, usize::MAX),
        bytes[..20_000],
        "a packet and what was over"
    );
    let now = net.now;
    net.ep(A).end_stream(now, id).unwrap();
    net.settle();
    assert_eq!(read(&mut net, B, stream, usize::MAX), bytes[20_000..]);
}
