//! PROTOCOL §10.5: the fragments of a message, taken together, do what they do one by one, whatever happens to them on the way.

use packhorse_proto::wire::{Class, Record};
use packhorse_proto::*;

use crate::net::*;

/// As long as UDP makes trains.
const TRAIN: usize = 44;
const FRAME_LEN: usize = 1472;
/// Payload of a frame with one fragment and nothing else.
const PAYLOAD_LEN: usize = FRAME_LEN - 24 - 24;
/// A message of twelve frames, the last of them short.
const LEN: usize = 11 * PAYLOAD_LEN + 100;

fn pair() -> Net {
    pair_with(TRAIN)
}

fn pair_with(train_count_max: usize) -> Net {
    let mut net = Net::new(2);
    net.train_count_max = train_count_max;
    net.join(A, B);
    net.log.clear();
    net
}

fn is_fragment(offset: usize) -> impl Fn(&Sight) -> bool {
    move |sight: &Sight| {
        sight.view().records().any(|(record, _)| {
            matches!(record, Record::Message(head)
                if head.class == Class::Fragment && head.offset as usize == offset)
        })
    }
}

/// What B counts as taken together.
fn together(net: &Net) -> u64 {
    net.count(B, "frames_together")
}

#[test]
fn fragments_together_are_fragments_one_by_one() {
    for immediate in [None, Some(77)] {
        for len in [1500, 2 * PAYLOAD_LEN, 2 * PAYLOAD_LEN + 1, LEN, 11 * PAYLOAD_LEN, 24 << 10] {
            let run = |count_max| {
                let mut net = pair_with(count_max);
                let recv = net.recv(B, tagged(1), len);
                let spec = SendSpec { immediate, ..net.spec(A, B, 1, len) };
                let req = net.post(A, spec);
                net.settle();
                net.assert_got(B, recv, 1, len);
                assert_eq!(net.got(B, recv).unwrap().envelope.immediate, immediate);
                assert_eq!(net.sent(A, req), Some(Ok(())));
                net
            };
            let (single, trains) = (run(0), run(TRAIN));
            let bytes = |net: &Net| -> Vec<Vec<u8>> {
                net.sights(A, Kind::Fragment).iter().map(|sight| sight.bytes.clone()).collect()
            };
            assert!(bytes(&single) == bytes(&trains), "the same frames, check and all");
            for name in ["frames_out", "frames_in", "bytes_placed", "messages_in", "packets_lost"] {
                for node in [A, B] {
                    assert_eq!(
                        single.count(node, name),
                        trains.count(node, name),
                        "{name} of {node}"
                    );
                }
            }
            assert_eq!(together(&single), 0);
            assert_eq!(together(&trains) as usize, bytes(&trains).len(), "in one go");
        }
    }
}

#[test]
fn fragments_of_copied_bytes_are_together_too() {
    let mut net = pair();
    let recv = net.recv(B, tagged(1), LEN);
    let (bytes, peer) = (pattern(1, LEN), net.peer(A, B));
    let spec = SendSpec { peer, payload: Payload::Copied(&bytes), ..net.spec(A, B, 1, LEN) };
    net.post(A, spec);
    net.settle();
    net.assert_got(B, recv, 1, LEN);
    assert_eq!(together(&net), 12);
}

#[test]
fn an_unexpected_message_is_held_and_found_whole() {
    let mut net = pair();
    let req = net.send(A, B, 1, LEN);
    net.settle();
    assert_eq!((together(&net), net.count(B, "bytes_placed")), (12, 16), "held, and acknowledged");
    assert_eq!(net.sent(A, req), Some(Ok(())));
    let recv = net.recv(B, tagged(1), LEN);
    net.settle();
    net.assert_got(B, recv, 1, LEN);
}

#[test]
fn of_a_claimed_message_it_can_be_told_whether_it_is_whole() {
    let mut net = pair_with(0);
    net.rule(1, is_fragment(0), Fate::Hold);
    net.send(A, B, 1, LEN);
    net.run_until(|net| net.ep(B).probe(&anything()).is_some());
    let (claim, _) = net.claim(B, &anything()).unwrap();
    assert!(!net.ep(B).is_whole(claim));
    net.settle();
    assert!(net.ep(B).is_whole(claim));
    let recv = net.recv_claimed(B, claim, LEN).unwrap();
    net.assert_got(B, recv, 1, LEN);
    assert!(!net.ep(B).is_whole(claim), "it is over");
}

#[test]
fn what_is_kept_as_frames_is_there_when_some_are_lost() {
    // The last frame has more to say if something is to be acknowledged.
    for (lost, is_owing) in [0, 1, 6, 12].into_iter().flat_map(|lost| [(lost, false), (lost, true)])
    {
        let mut net = acquainted();
        if is_owing {
            let recv = net.recv(A, tagged(9), 8);
            net.send(B, A, 9, 8);
            net.run_until(|net| net.got(A, recv).is_some());
        }
        net.rule(lost, |sight| sight.has(Kind::Fragment), Fate::Drop);
        let recv = net.recv(B, tagged(1), LEN);
        let (bytes, peer) = (pattern(1, LEN), net.peer(A, B));
        let spec = SendSpec { peer, payload: Payload::Copied(&bytes), ..net.spec(A, B, 1, LEN) };
        assert!(net.post_copied(A, spec));
        drop(bytes);
        net.settle();
        net.assert_got(B, recv, 1, LEN);
        assert_eq!(net.sights(A, Kind::Fragment).len(), 12 + lost);
    }
}

#[test]
fn what_cannot_leave_at_once_is_copied_and_waits() {
    for len_before in [8, LEN / 2] {
        let mut net = acquainted();
        let bytes = pattern(2, LEN);
        let recvs = [net.recv(B, tagged(1), len_before), net.recv(B, tagged(2), LEN)];
        net.send(A, B, 1, len_before); // goes first
        let peer = net.peer(A, B);
        let spec = SendSpec { peer, payload: Payload::Copied(&bytes), ..net.spec(A, B, 2, LEN) };
        assert!(!net.post_copied(A, spec));
        net.settle();
        net.assert_got(B, recvs[0], 1, len_before);
        net.assert_got(B, recvs[1], 2, LEN);
    }
}

/// A message goes there, and one of this length comes back.
fn answered(len: usize) -> Net {
    let mut net = acquainted();
    let before = net.count(A, "frames_together");
    let (there, back) = (net.recv(B, tagged(1), LEN), net.recv(A, tagged(2), len));
    net.send(A, B, 1, LEN);
    net.run_until(|net| net.got(B, there).is_some());
    net.send(B, A, 2, len);
    net.settle();
    net.assert_got(A, back, 2, len);
    let frame_count = net.sights(B, Kind::Fragment).len();
    assert_eq!(net.count(A, "frames_together") - before, frame_count as u64, "{len}: in one go");
    net
}

/// Two that have heard each other before, so that no frame says more than it must.
fn acquainted() -> Net {
    let mut net = pair();
    for (from, to) in [(A, B), (B, A)] {
        let recv = net.recv(to, tagged(3), 8);
        net.send(from, to, 3, 8);
        net.settle();
        net.assert_got(to, recv, 3, 8);
    }
    net.log.clear();
    net
}

#[test]
fn an_acknowledgement_rides_in_the_last_frame_of_the_answer() {
    let ack_len = wire::ack_head_len(0);
    for len in [1500, LEN, 3 * PAYLOAD_LEN - ack_len, 3 * PAYLOAD_LEN + 1] {
        let net = answered(len);
        let frames = net.sights(B, Kind::Fragment);
        let (last, others) = frames.split_last().expect("frames");
        for other in others {
            assert_eq!(other.says(), [Kind::Fragment], "{len}");
        }
        assert_eq!(last.says(), [Kind::Ack, Kind::Fragment], "{len}");
        assert_eq!(net.sights(B, Kind::Ack).len(), 1, "{len}: no other is needed");
        assert_eq!((net.count(A, "packets_lost"), net.count(A, "contents_resent")), (0, 0));
    }
}

#[test]
fn an_acknowledgement_without_room_in_the_last_frame_goes_behind() {
    for len in [3 * PAYLOAD_LEN, 3 * PAYLOAD_LEN - 1, 3 * PAYLOAD_LEN - wire::ack_head_len(0) + 1] {
        let net = answered(len);
        let frames = net.sights(B, Kind::Fragment);
        for frame in frames {
            assert_eq!(frame.says(), [Kind::Fragment], "{len}");
        }
        assert_eq!(net.sights(B, Kind::Ack).len(), 1, "{len}");
    }
}

#[test]
fn a_damaged_acknowledgement_in_the_last_frame_leaves_the_frames_before_it() {
    for byte in [0, 16, 20, 24, 25, 28, 32, 47, 48, 56] {
        let mut net = acquainted();
        let (there, back) = (net.recv(B, tagged(1), LEN), net.recv(A, tagged(2), LEN));
        let sent = net.send(A, B, 1, LEN);
        net.run_until(|net| net.got(B, there).is_some());
        let alter = Fate::Alter(Box::new(move |bytes: &mut Vec<u8>| bytes[byte] ^= 1));
        net.rule(1, |sight| sight.says() == [Kind::Ack, Kind::Fragment], alter);
        net.send(B, A, 2, LEN);
        net.settle();
        net.assert_got(A, back, 2, LEN);
        assert_eq!(net.sent(A, sent), Some(Ok(())));
        assert_eq!(net.count(A, "frames_unkeyed"), 1, "byte {byte}");
    }
}

#[test]
fn a_train_that_is_lost_as_a_whole_goes_again() {
    for lost in [12, 11, 3] {
        let mut net = pair();
        net.rule(lost, |sight| sight.has(Kind::Fragment), Fate::Drop);
        let recv = net.recv(B, tagged(1), LEN);
        let req = net.send(A, B, 1, LEN);
        net.settle();
        net.assert_got(B, recv, 1, LEN);
        assert_eq!(net.sent(A, req), Some(Ok(())), "{lost} frames");
        assert_eq!(net.count(B, "bytes_placed"), (LEN + 16) as u64);
        assert_eq!(
            net.sights(A, Kind::Fragment).len(),
            12 + lost,
            "what arrived is not sent again"
        );
    }
}

#[test]
fn what_a_receive_has_no_room_for_is_left_out() {
    for room in [1, PAYLOAD_LEN, PAYLOAD_LEN + 1, 5 * PAYLOAD_LEN, LEN - 1] {
        let mut net = pair();
        let recv = net.recv(B, tagged(1), room);
        let req = net.send(A, B, 1, LEN);
        net.settle();
        let got = net.got(B, recv).expect("ended");
        assert_eq!((got.placed_len, got.envelope.len), (room as u64, LEN as u64));
        assert!(net.bytes(B, recv.buf)[..room] == pattern(1, LEN)[..room]);
        assert_eq!(net.sent(A, req), Some(Ok(())));
    }
}

#[test]
fn a_lost_fragment_is_sent_again_and_the_others_are_not() {
    for lost in [0, 1, 2, 6, 10, 11] {
        let mut net = pair();
        net.rule(1, is_fragment(lost * PAYLOAD_LEN), Fate::Drop);
        let recv = net.recv(B, tagged(1), LEN);
        let req = net.send(A, B, 1, LEN);
        net.settle();
        net.assert_got(B, recv, 1, LEN);
        assert_eq!(net.sent(A, req), Some(Ok(())));
        assert_eq!(net.count(B, "bytes_placed"), (LEN + 16) as u64, "frame {lost}");
        assert_eq!(net.sights(A, Kind::Fragment).len(), 13, "frame {lost}: one more than twelve");
    }
}

#[test]
fn fragments_that_change_places_or_come_twice_count_once() {
    for at in [0, 1, 5, 11] {
        for (fate, count) in
            [(Fate::Delay(7 * US), 1), (Fate::Double(0), 1), (Fate::Double(5 * US), TRAIN)]
        {
            let mut net = pair();
            let before = net.count(B, "messages_in");
            let first = is_fragment(at * PAYLOAD_LEN);
            let is_all = count > 1;
            net.rule(count, move |sight| is_all && sight.has(Kind::Fragment) || first(sight), fate);
            let recv = net.recv(B, tagged(1), LEN);
            net.send(A, B, 1, LEN);
            net.settle();
            net.assert_got(B, recv, 1, LEN);
            assert_eq!(net.count(B, "bytes_placed"), (LEN + 16) as u64, "no byte counts twice");
            assert_eq!(net.count(B, "messages_in"), before + 1);
        }
    }
}

#[test]
fn a_damaged_fragment_is_dropped_and_those_before_it_count() {
    for byte in [0, 9, 16, 17, 20, 22, 23, 24, 25, 26, 28, 33, 40, 45] {
        let mut net = pair();
        let alter = Fate::Alter(Box::new(move |bytes: &mut Vec<u8>| bytes[byte] ^= 1));
        net.rule(1, is_fragment(5 * PAYLOAD_LEN), alter);
        let recv = net.recv(B, tagged(1), LEN);
        net.send(A, B, 1, LEN);
        net.settle();
        net.assert_got(B, recv, 1, LEN);
        assert_eq!(net.count(B, "frames_unkeyed"), 1, "byte {byte}");
        assert_eq!(net.count(B, "bytes_placed"), (LEN + 16) as u64);
    }
}

#[test]
fn a_receive_that_is_cancelled_in_the_midst_gets_no_byte_more() {
    let mut net = pair();
    net.rule(TRAIN, is_fragment(6 * PAYLOAD_LEN), Fate::Delay(900 * US));
    let recv = net.recv(B, tagged(1), LEN);
    let req = net.send(A, B, 1, LEN);
    net.run_until(|net| net.count(B, "bytes_placed") > 5 * PAYLOAD_LEN as u64);
    net.cancel(B, recv.req, recv.buf); // its memory is gone: a byte more would panic
    net.settle();
    assert_eq!(net.sent(A, req), Some(Ok(())), "accepted, as far as its sender knows");
}

#[test]
fn messages_behind_each_other_do_not_run_into_each_other() {
    let mut net = pair();
    let lens = [LEN, 3 * PAYLOAD_LEN, 4 * PAYLOAD_LEN, 10, LEN, 2 * PAYLOAD_LEN];
    let recvs: Vec<Recv> =
        lens.iter().zip(1..).map(|(&len, tag)| net.recv(B, tagged(tag), len)).collect();
    for (&len, tag) in lens.iter().zip(1..) {
        net.send(A, B, tag, len);
    }
    net.settle();
    for ((&len, tag), recv) in lens.iter().zip(1..).zip(recvs) {
        net.assert_got(B, recv, tag, len);
    }
    assert!(together(&net) > 20);
}

/// Messages of up to 4 KB go unasked whatever happens, those of up to 32 KB where that pays.
fn careful() -> Net {
    careful_over(Reliability::Lossy)
}

fn careful_over(reliability: Reliability) -> Net {
    let mut net = Net::pair(|settings, _| settings.eager_sure_len_max = 4 << 10);
    net.train_count_max = TRAIN;
    let traits = LinkTraits { reliability, ..PLAIN };
    for node in [A, B] {
        net.ep(node).set_link(0, traits);
    }
    net.join(A, B);
    net.log.clear();
    net
}

/// Sends a message that is awaited. Whether it was announced.
fn asks(net: &mut Net, tag: u64, len: usize) -> bool {
    let before = net.sights(A, Kind::Rts).len();
    let recv = net.recv(B, tagged(tag), len);
    net.send(A, B, tag, len);
    net.settle();
    net.assert_got(B, recv, tag, len);
    net.sights(A, Kind::Rts).len() > before
}

#[test]
fn after_a_loss_longer_messages_ask_first_for_a_while() {
    let mut net = careful();
    assert!(!asks(&mut net, 1, LEN));
    for pause in [1, 2, 4] {
        net.rule(1, is_fragment(3 * PAYLOAD_LEN), Fate::Drop);
        assert!(!asks(&mut net, 2, LEN), "this one is lost");
        for _ in 0..pause {
            assert!(!asks(&mut net, 3, 4 << 10), "short ones never ask");
            assert!(asks(&mut net, 4, LEN));
        }
    }
    assert!(!asks(&mut net, 5, LEN), "and this one gets through");
    net.rule(1, is_fragment(3 * PAYLOAD_LEN), Fate::Drop);
    assert!(!asks(&mut net, 6, LEN) && asks(&mut net, 7, LEN) && !asks(&mut net, 8, LEN), "anew");
}

#[test]
fn what_must_ask_first_is_not_copied() {
    let mut net = careful();
    let bytes = pattern(1, LEN);
    let post = |net: &mut Net| {
        let peer = net.peer(A, B);
        let spec = SendSpec { peer, payload: Payload::Copied(&bytes), ..net.spec(A, B, 1, LEN) };
        net.nodes[A].ep.post_send(net.now, spec).map(|_| ())
    };
    net.rule(1, is_fragment(3 * PAYLOAD_LEN), Fate::Drop);
    assert!(!asks(&mut net, 2, LEN));
    assert_eq!(post(&mut net), Err(PostError::PoolFull));
    assert_eq!(post(&mut net), Ok(()), "one asked, or would have");
    net.settle();
}

/// One that takes `room` bytes unasked from all senders together, and so many senders, whose numbers begin behind it.
fn crowd(sender_count: usize, room: u64) -> (Net, Vec<usize>) {
    let plan = Plan::with(|settings, limits| {
        settings.eager_sure_len_max = 4 << 10;
        limits.unasked_len_max = room;
    });
    let mut net = Net::of(&vec![plan; sender_count + 1]);
    net.train_count_max = TRAIN;
    let senders: Vec<usize> = (1..=sender_count).collect();
    for &sender in &senders {
        net.join(sender, A);
    }
    net.log.clear();
    (net, senders)
}

/// What each of these nodes announced so far.
fn announced(net: &Net, senders: &[usize]) -> Vec<usize> {
    senders.iter().map(|&sender| net.sights(sender, Kind::Rts).len()).collect()
}

#[test]
fn beyond_what_the_peers_links_hold_messages_ask() {
    let (mut net, senders) = crowd(1, 40_000);
    let recvs: Vec<_> = (1..=6).map(|tag| net.recv(A, tagged(tag), LEN)).collect();
    net.send(senders[0], A, 1, LEN);
    net.settle(); // from here on the sender knows
    let frames = |net: &Net| net.sights(senders[0], Kind::Fragment).len();
    let before = frames(&net);
    for tag in 2..=4 {
        net.send(senders[0], A, tag, LEN);
    }
    net.pump();
    assert_eq!(frames(&net) - before, 2 * 12, "two of three fit into 40 000 bytes, whole");
    net.send(senders[0], A, 5, LEN);
    net.settle();
    assert_eq!(announced(&net, &senders), [1], "one that is posted while those are on their way");
    net.send(senders[0], A, 6, LEN);
    net.settle();
    assert_eq!(announced(&net, &senders), [1], "there is room again");
    for (recv, tag) in recvs.into_iter().zip(1..) {
        net.assert_got(A, recv, tag, LEN);
    }
}

#[test]
fn many_senders_share_what_the_peers_links_hold() {
    let (mut net, senders) = crowd(8, 100_000);
    let mut recvs = vec![];
    for round in 0..2 {
        for &sender in &senders {
            let tag = (10 * round + sender) as u64;
            recvs.push((net.recv(A, tagged(tag), LEN), tag));
            net.send(sender, A, tag, LEN);
        }
        net.run_for(if round == 0 { 200_000 } else { 0 }); // all are active still, and know it
    }
    net.settle();
    let asked = announced(&net, &senders);
    assert!(asked.iter().sum::<usize>() >= 7, "12 500 bytes each: {asked:?}");
    for (recv, tag) in recvs {
        net.assert_got(A, recv, tag, LEN);
    }
}

#[test]
fn where_nothing_is_lost_longer_messages_ask_first() {
    let mut net = careful_over(Reliability::Ordered { may_break: false });
    assert!(!asks(&mut net, 1, 4 << 10) && asks(&mut net, 2, LEN));
}
