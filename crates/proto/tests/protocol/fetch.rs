//! §8.10: messages that are announced with where they are, and fetched from there.

use packhorse_proto::*;

use crate::net::*;

/// Two nodes that share memory, who know each other.
fn pair() -> Net {
    let mut net = Net::pair(|settings, _| settings.fetch_len_min = 8 << 10);
    let reliability = Reliability::Ordered { may_break: false };
    for node in [A, B] {
        let traits = LinkTraits { reliability, is_private: true, can_fetch: true, ..PLAIN };
        net.ep(node).set_link(0, traits);
    }
    net.join(A, B);
    net.log.clear();
    net
}

fn next(net: &mut Net, len_max: u64) -> Option<Fetch> {
    let now = net.now;
    net.ep(B).poll_fetch(now, len_max)
}

/// What a driver does with it, whose link finds the bytes of message `tag` or does not.
fn fetch(net: &mut Net, fetch: &Fetch, tag: u64, is_there: bool) {
    let now = net.now;
    if is_there {
        let (from, to) = (fetch.offset as usize, (fetch.offset + fetch.len) as usize);
        let Place { buf, offset } = fetch.to;
        let bytes = pattern(tag, to)[from..].to_vec();
        net.nodes[B].ram.place(Place { buf, offset }, &bytes);
    }
    net.ep(B).on_fetched(now, fetch, is_there);
}

#[test]
fn a_message_is_fetched_in_pieces_and_nothing_is_granted() {
    let mut net = pair();
    let recv = net.recv(B, tagged(1), 100_000);
    let req = net.send(A, B, 1, 100_000);
    net.run_for(MS);
    assert_eq!(net.sights(A, Kind::Rts)[0].bytes.len(), 24 + 24 + 64, "it says where it is");
    for (offset, len) in [(0, 60_000), (60_000, 40_000)] {
        assert_eq!(net.sent(A, req), None);
        let piece = next(&mut net, 60_000).expect("bytes are missing");
        assert_eq!((piece.offset, piece.len), (offset, len));
        fetch(&mut net, &piece, 1, true);
    }
    assert_eq!(next(&mut net, 60_000), None);
    net.run_for(MS);
    net.assert_got(B, recv, 1, 100_000);
    assert_eq!(net.sent(A, req), Some(Ok(())));
    assert_eq!((net.count(B, "grants"), net.seen(A, Kind::Data)), (0, 0));
    assert_eq!(net.count(B, "bytes_fetched"), 100_000);
}

#[test]
fn short_ones_go_as_they_are_and_longer_ones_are_fetched() {
    let mut net = pair();
    for (tag, len) in [(1, (8 << 10) - 1), (2, 8 << 10)] {
        let recv = net.recv(B, tagged(tag), len);
        net.send(A, B, tag, len);
        net.run_for(MS);
        let piece = next(&mut net, u64::MAX);
        assert_eq!(piece.is_some(), tag == 2);
        piece.iter().for_each(|piece| fetch(&mut net, piece, tag, true));
        net.assert_got(B, recv, tag, len);
    }
}

#[test]
fn what_comes_before_its_receive_is_fetched_when_that_is_posted() {
    let mut net = pair();
    net.send(A, B, 1, 50_000);
    net.send(A, B, 2, 60_000);
    net.run_for(MS);
    assert_eq!(next(&mut net, u64::MAX), None, "nobody wants them yet");
    let recvs = [net.recv(B, tagged(2), 60_000), net.recv(B, tagged(1), 40_000)];
    for (tag, len) in [(2, 60_000), (1, 40_000)] {
        let piece = next(&mut net, u64::MAX).expect("matched");
        assert_eq!((piece.offset, piece.len), (0, len), "no more than there is room for");
        fetch(&mut net, &piece, tag, true);
    }
    net.run_for(MS);
    net.assert_got(B, recvs[0], 2, 60_000);
    assert_eq!(net.count(B, "bytes_fetched"), 100_000);
}

#[test]
fn what_cannot_be_fetched_is_granted_and_sent() {
    let mut net = pair();
    let recv = net.recv(B, tagged(1), 100_000);
    let req = net.send(A, B, 1, 100_000);
    net.run_for(MS);
    let piece = next(&mut net, 60_000).expect("bytes are missing");
    fetch(&mut net, &piece, 1, true);
    let piece = next(&mut net, 60_000).expect("bytes are missing");
    fetch(&mut net, &piece, 1, false);
    assert_eq!(next(&mut net, 60_000), None);
    net.settle();
    net.assert_got(B, recv, 1, 100_000);
    assert_eq!((net.sent(A, req), net.count(B, "fetches_failed")), (Some(Ok(())), 1));
    assert!(net.seen(A, Kind::Data) < 40_000 / 1000, "only what was missing");
}

#[test]
fn a_cancel_of_either_side_ends_it() {
    let mut net = pair();
    let recvs = [net.recv(B, tagged(1), 50_000), net.recv(B, tagged(2), 50_000)];
    let reqs = [net.send(A, B, 1, 50_000), net.send(A, B, 2, 50_000)];
    net.run_for(MS);
    let first = next(&mut net, 10_000).expect("the first");
    let now = net.now;
    assert!(net.ep(B).cancel(now, recvs[0].req));
    net.ep(B).on_fetched(now, &first, true);
    assert!(net.ep(A).cancel(now, reqs[1]));
    net.run_for(MS);
    assert_eq!(next(&mut net, 10_000), None, "nothing of either is wanted");
    assert_eq!(net.sent(A, reqs[0]), Some(Err(Failure::CancelledByPeer)));
    net.settle();
    // The next is fetched as if nothing had been.
    let recv = net.recv(B, tagged(3), 50_000);
    net.send(A, B, 3, 50_000);
    net.run_for(MS);
    let piece = next(&mut net, u64::MAX).expect("the third");
    fetch(&mut net, &piece, 3, true);
    net.assert_got(B, recv, 3, 50_000);
}

#[test]
fn several_take_turns() {
    let mut net = pair();
    let recvs = [1, 2].map(|tag| net.recv(B, tagged(tag), 20_000));
    for tag in [1, 2] {
        net.send(A, B, tag, 20_000);
    }
    net.run_for(MS);
    for tag in [1, 2, 1, 2] {
        let piece = next(&mut net, 10_000).expect("bytes are missing");
        fetch(&mut net, &piece, tag, true);
    }
    net.assert_got(B, recvs[0], 1, 20_000);
    net.assert_got(B, recvs[1], 2, 20_000);
}
