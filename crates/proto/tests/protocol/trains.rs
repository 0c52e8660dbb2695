//! PROTOCOL §8.8, §10.1: data as trains does what data frame by frame does, whatever happens to it on the way.

use packhorse_proto::wire::{Header, Lane, Record, TrainRepr};
use packhorse_proto::*;

use crate::net::*;

/// As long as UDP makes them.
const TRAIN: usize = 44;

fn pair() -> Net {
    let mut net = Net::new(2);
    net.train_count_max = TRAIN;
    net.join(A, B);
    net
}

/// Data frames of a node in the order they left: message, offset, length, packet.
fn data(net: &Net, from: usize) -> Vec<(u32, u64, usize, u64)> {
    let mut all = vec![];
    for sight in net.sights(from, Kind::Data) {
        for (record, body) in sight.view().records() {
            if let Record::Data { message, offset, .. } = record {
                all.push((message, offset, body.len(), sight.packet()));
            }
        }
    }
    all
}

fn is_data(offset: u64) -> impl Fn(&Sight) -> bool {
    move |sight: &Sight| {
        let here = |record| matches!(record, Record::Data { offset: at, .. } if at == offset);
        sight.view().records().any(|(record, _)| here(record))
    }
}

#[test]
fn train_is_its_frames_one_by_one() {
    let run = |count_max| {
        let mut net = pair();
        net.train_count_max = count_max;
        net.log.clear();
        let recv = net.recv(B, tagged(1), 300_001);
        let req = net.send(A, B, 1, 300_001);
        net.settle();
        net.assert_got(B, recv, 1, 300_001);
        assert_eq!(net.sent(A, req), Some(Ok(())));
        net
    };
    let (single, trains) = (run(0), run(TRAIN));
    // Beside trains acknowledgements wait longer (§5.4): there are fewer, and the numbers of packets are others.
    let frames = |net: &Net| -> Vec<(u32, u64, usize)> {
        data(net, A).into_iter().map(|(message, offset, len, _)| (message, offset, len)).collect()
    };
    assert_eq!(frames(&single), frames(&trains), "the same frames");
    for name in ["bytes_placed", "messages_in", "packets_lost"] {
        for node in [A, B] {
            assert_eq!(single.count(node, name), trains.count(node, name), "{name} of {node}");
        }
    }
    assert_eq!(single.count(B, "bytes_landed"), 0);
    let (landed, placed) = (trains.count(B, "bytes_landed"), trains.count(B, "bytes_placed"));
    assert!(landed + 2 * 1472 > placed, "{landed} of {placed}: all but the first bytes");
    assert!(trains.count(B, "acks_out") <= single.count(B, "acks_out"));
}

/// Of what is granted to one peer the message of which less is left goes first, from the next train on.
#[test]
fn a_short_message_overtakes_a_long_one_that_was_granted_before() {
    let mut net = Net::pair(|settings, limits| {
        (settings.grant_packets, settings.grants_in_flight) = (2000, 64);
        limits.grant_len_max = 64 << 20;
    });
    net.train_count_max = TRAIN;
    net.join(A, B);
    net.log.clear();
    let recvs =
        [(1, 2_000_000), (2, 200_000)].map(|(tag, len)| (tag, len, net.recv(B, tagged(tag), len)));
    for (tag, len, _) in recvs {
        net.send(A, B, tag, len);
    }
    net.settle();
    for (tag, len, recv) in recvs {
        net.assert_got(B, recv, tag, len);
    }
    let mut order: Vec<u32> = data(&net, A).into_iter().map(|(message, ..)| message).collect();
    order.dedup();
    let [long, short] = [order[0], order[0] + 1];
    assert_eq!(order, [long, short, long]);
}

#[test]
fn peers_take_turns_by_trains_or_by_sixteen_frames() {
    const LEN: usize = 2_000_000;
    for (count_max, turn) in [(0, 16), (3, 3)] {
        let mut net = Net::new(3);
        net.train_count_max = count_max;
        net.join(A, B);
        net.join(A, C);
        net.log.clear();
        let recvs = [B, C].map(|to| net.recv(to, tagged(1), LEN));
        for to in [B, C] {
            net.send(A, to, 1, LEN);
        }
        net.settle();
        let at_once = |net: &Net, at| -> Vec<usize> {
            let data = net.sights(A, Kind::Data).into_iter().filter(|sight| sight.at == at);
            data.filter_map(|sight| sight.to).collect()
        };
        let mut shared_count = 0;
        let mut times: Vec<Instant> = net.log.iter().map(|sight| sight.at).collect();
        times.dedup();
        for targets in times.into_iter().map(|at| at_once(&net, at)) {
            let count = |targets: &[usize], to| targets.iter().filter(|&&it| it == to).count();
            for len in 1..targets.len() {
                let [to_b, to_c] = [B, C].map(|to| count(&targets[..len], to));
                // As long as both have data that leaves at this moment, neither gets more than a turn ahead.
                if to_b < count(&targets, B) && to_c < count(&targets, C) {
                    assert!(to_b.abs_diff(to_c) <= turn, "{targets:?}");
                    shared_count += 1;
                }
            }
        }
        assert!(shared_count > 200, "both had data to send at the same time: {shared_count}");
        for (to, recv) in [B, C].into_iter().zip(recvs) {
            net.assert_got(to, recv, 1, LEN);
        }
    }
}

#[test]
fn loss_inside_a_train_ends_the_landing_and_is_repaired() {
    for lost in [0, 1, 7, 20, 42, 43] {
        let mut net = pair();
        net.log.clear();
        let first_bytes = 1472 - 24 - 24;
        let at = first_bytes + lost * (1472 - 40);
        net.rule(1, is_data(at), Fate::Drop);
        let recv = net.recv(B, tagged(1), 500_000);
        net.send(A, B, 1, 500_000);
        net.settle();
        net.assert_got(B, recv, 1, 500_000);
        let again = data(&net, A).iter().filter(|frame| frame.1 == at).count();
        assert_eq!(again, 2, "frame {lost}: sent again, once");
        assert_eq!(net.count(A, "packets_lost"), 1);
        assert_eq!(net.count(B, "bytes_placed"), 500_000 + 16);
        let landed = net.count(B, "bytes_landed");
        assert!(landed > 300_000, "{landed}: landing goes on behind the hole");
    }
}

#[test]
fn frames_that_change_places_are_taken_the_general_way() {
    let mut net = pair();
    net.rule(3, |sight| sight.has(Kind::Data), Fate::Delay(7 * US));
    net.rule(2, |sight| sight.has(Kind::Data), Fate::Double(0));
    let recv = net.recv(B, tagged(1), 400_000);
    net.send(A, B, 1, 400_000);
    net.settle();
    net.assert_got(B, recv, 1, 400_000);
    assert_eq!(net.count(B, "bytes_placed"), 400_016, "no byte counts twice");
}

#[test]
fn repeated_train_changes_nothing() {
    let mut net = pair();
    net.rule(TRAIN, |sight| sight.has(Kind::Data), Fate::Double(5 * US));
    let recv = net.recv(B, tagged(1), 400_000);
    net.send(A, B, 1, 400_000);
    net.settle();
    net.assert_got(B, recv, 1, 400_000);
    assert_eq!(net.count(B, "packets_duplicate"), TRAIN as u64);
    assert_eq!(net.count(B, "bytes_placed"), 400_016);
}

#[test]
fn damaged_frame_of_a_train_is_dropped_and_the_frames_before_it_count() {
    for byte in [0, 9, 16, 17, 20, 22, 23, 24, 26, 28, 33] {
        let mut net = pair();
        let at = 1472 - 24 - 24 + 5 * (1472 - 40);
        net.rule(1, is_data(at), Fate::Alter(Box::new(move |bytes| bytes[byte] ^= 1)));
        let recv = net.recv(B, tagged(1), 200_000);
        net.send(A, B, 1, 200_000);
        net.settle();
        net.assert_got(B, recv, 1, 200_000);
        assert_eq!(net.count(B, "frames_unkeyed"), 1, "byte {byte}");
        assert_eq!(net.count(B, "bytes_placed"), 200_016);
    }
}

#[test]
fn cancelled_receive_takes_no_landing() {
    let mut net = pair();
    let recv = net.recv(B, tagged(1), 1 << 20);
    let req = net.send(A, B, 1, 1 << 20);
    net.run_until(|net| net.count(B, "bytes_landed") > 200_000);
    net.pump();
    let landing = net.ep(B).predict(0).expect("more is granted");
    assert_eq!(landing.buf, recv.buf);
    net.cancel(B, recv.req, recv.buf);
    assert_eq!(net.ep(B).predict(0), None, "nobody may write there any more");
    let landed = net.count(B, "bytes_landed");
    let sight = net.sights(A, Kind::Data).last().map(|sight| sight.bytes.clone()).unwrap();
    let from = net.nodes[A].locators[0];
    let Node { ep, ram, .. } = &mut net.nodes[B];
    assert_eq!(ep.on_landed(net.now, 0, &from, &landing, &sight[..40], 1, 1432, ram), 0);
    net.settle(); // the net's memory fails the test if anything is written
    assert_eq!(net.count(B, "bytes_landed"), landed);
    assert_eq!(net.sent(A, req), Some(Err(Failure::CancelledByPeer)));
}

#[test]
fn truncated_receive_is_landed_to_its_end_and_no_further() {
    for len in [2_000, 50_000, 100_001] {
        let mut net = pair();
        let mut spec = net.recv_spec(B, tagged(1), len + 5_000);
        spec.len = len as u64;
        let recv = net.post_recv(B, spec);
        net.send(A, B, 1, 300_000);
        let until = net.now + SECOND;
        while net.step(until) {
            if let Some(landing) = net.ep(B).predict(0) {
                assert!(landing.offset + landing.len <= len as u64, "{landing:?}");
            }
        }
        let got = net.got(B, recv).unwrap();
        assert_eq!((got.placed_len, got.envelope.len), (len as u64, 300_000));
        let bytes = net.bytes(B, recv.buf);
        assert!(bytes[..len] == pattern(1, 300_000)[..len]);
        assert!(bytes[len..].iter().all(|&byte| byte == 0xEE), "not a byte beyond its end");
    }
}

#[test]
fn envelope_alone_is_never_landed() {
    let mut net = pair();
    let mut spec = net.recv_spec(B, tagged(1), 300_000);
    spec.header_only = true;
    let recv = net.post_recv(B, spec);
    net.send(A, B, 1, 300_000);
    let until = net.now + SECOND;
    while net.step(until) {
        assert_eq!(net.ep(B).predict(0), None);
    }
    assert_eq!(net.got(B, recv).unwrap().placed_len, 0);
}

#[test]
fn entry_used_many_times_is_landed_behind_what_it_holds() {
    let mut net = pair();
    let mut spec = net.recv_spec(B, anything(), 400_000);
    spec.uses = Use::Many { free_len_min: 1 };
    let recv = net.post_recv(B, spec);
    net.send(A, B, 1, 100);
    net.send(A, B, 2, 150_000);
    net.send(A, B, 3, 100_000);
    net.settle();
    let got = net.all_got(B, recv.req);
    let mut ends: Vec<_> = got.iter().map(|got| (got.envelope.tag.0, got.offset)).collect();
    ends.sort_unstable();
    assert_eq!(ends, [(1, 0), (2, 100), (3, 150_100)]);
    let bytes = net.bytes(B, recv.buf);
    assert!(
        bytes[100..150_100] == pattern(2, 150_000)
            && bytes[150_100..250_100] == pattern(3, 100_000)
    );
    let landed = net.count(B, "bytes_landed");
    assert!(landed > 100_000, "{landed}");
}

#[test]
fn two_senders_interleaved_land_each_in_its_own_memory() {
    let mut net = Net::new(3);
    net.train_count_max = 8;
    net.join(A, C);
    net.join(B, C);
    let first = net.recv_from(C, A, 1, 500_000);
    let second = net.recv_from(C, B, 2, 500_000);
    net.send(A, C, 1, 500_000);
    net.send(B, C, 2, 500_000);
    net.settle();
    net.assert_got(C, first, 1, 500_000);
    net.assert_got(C, second, 2, 500_000);
    assert!(net.count(C, "bytes_landed") > 100_000);
}

#[test]
fn two_messages_of_one_sender_land_one_after_the_other() {
    let mut net = pair();
    let recvs = [1, 2].map(|tag| net.recv(B, tagged(tag), 400_000));
    for tag in [1, 2] {
        net.send(A, B, tag, 400_000);
    }
    net.settle();
    for (recv, tag) in recvs.into_iter().zip([1, 2]) {
        net.assert_got(B, recv, tag, 400_000);
    }
    let frames = data(&net, A);
    let changes = frames.windows(2).filter(|two| two[0].0 != two[1].0).count();
    assert_eq!(changes, 1, "in {} frames: the first to its end, then the second", frames.len());
    let (landed, placed) = (net.count(B, "bytes_landed"), net.count(B, "bytes_placed"));
    assert!(landed + 6 * 1472 > placed, "{landed} of {placed}: the change costs next to nothing");
}

#[test]
fn small_messages_and_notices_go_before_a_train() {
    let mut net = pair();
    net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 1, 1 << 20);
    net.run_until(|net| net.count(B, "bytes_landed") > 300_000);
    let small = net.recv(B, tagged(2), 8);
    net.send(A, B, 2, 8);
    let mut train = TxTrain::default();
    let now = net.now;
    assert!(!net.ep(A).poll_train(now, 44, 64_000, &mut train), "not before the message");
    let start = net.now;
    net.run_until(|net| net.got(B, small).is_some());
    assert!(net.now - start <= DELAY_NS + US, "it waited for nothing");
}

#[test]
fn lone_answers_go_before_a_train() {
    let mut net = pair();
    net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 1, 1 << 20);
    net.run_until(|net| net.arrived.iter().any(|&(_, sight)| net.log[sight].has(Kind::Grant)));
    let header = Header { to: net.id_used(B, A), packet: 0, path: 0, form: 1 };
    net.forge_as(B, A, header, |writer| writer.path_challenge(0, 7), &[]);
    let (now, mut train) = (net.now, TxTrain::default());
    assert!(!net.ep(A).poll_train(now, 44, 64_000, &mut train), "not before the answer");
    let mut tx = TxFrame::default();
    assert!(net.ep(A).poll_transmit(now, &mut tx));
    assert!(net.ep(A).poll_train(now, 44, 64_000, &mut train));
}

#[test]
fn window_bounds_a_train() {
    let mut net = Net::pair(|settings, _| settings.grant_packets = 64);
    net.train_count_max = 1000;
    net.join(A, B);
    net.log.clear();
    net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 1, 1 << 20);
    net.run_until(|net| net.seen(A, Kind::Data) > 0);
    net.pump();
    let sent = net.seen(A, Kind::Data);
    assert!((32..=33).contains(&sent), "{sent} frames into a window of 32");
}

#[test]
fn train_over_a_checked_path_is_left_to_frames() {
    let mut net = Net::pair(|settings, _| settings.payload_check = true);
    net.train_count_max = TRAIN;
    let recv = net.recv(B, tagged(1), 200_000);
    net.send(A, B, 1, 200_000);
    let until = net.now + SECOND;
    while net.step(until) {
        assert_eq!(net.ep(B).predict(0), None, "sums come first");
    }
    net.assert_got(B, recv, 1, 200_000);
    assert_eq!(net.count(B, "bytes_landed"), 0);
}

/// A transfer to B, trains landed and more granted; what is predicted, and the header of A's next packet.
fn landing() -> (Net, Landing, Header) {
    let mut net = pair();
    net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 1, 1 << 20);
    net.run_until(|net| net.count(B, "bytes_landed") > 200_000);
    net.pump();
    let landing = net.ep(B).predict(0).expect("more is granted");
    let mut header = net.sights(A, Kind::Data).last().expect("data").view().header;
    header.packet += 1;
    (net, landing, header)
}

#[test]
fn train_longer_than_what_is_granted_is_taken_up_to_there() {
    let payload_len = 1432;
    for (beyond, last_len) in [(0, 1432), (0, 5), (1, 5), (1, 1432), (2, 1432)] {
        let (mut net, landing, header) = landing();
        assert_eq!(landing.len % u64::from(payload_len), 0, "whole frames are granted");
        let room_count = (landing.len / u64::from(payload_len)) as usize;
        let count = room_count + beyond;
        let (message, offset) = (data(&net, A)[0].0, landing.offset);
        let train = TrainRepr {
            header,
            lane: Lane::Message,
            message,
            offset,
            payload_len,
            last_len,
            count,
        };
        let (mut heads, secret) = (vec![], net.ep(B).address().secret);
        wire::write_train(&mut heads, &train, &secret);
        let (now, from) = (net.now, net.nodes[A].locators[0]);
        let Node { ep, ram, .. } = &mut net.nodes[B];
        let taken = ep.on_landed(now, 0, &from, &landing, &heads, count, last_len.into(), ram);
        assert_eq!(taken, room_count, "{count} frames, the last of {last_len} bytes");
    }
}

#[test]
fn nothing_is_predicted_where_no_path_comes_in() {
    let many = Plan { more_links: 2, ..Plan::default() };
    let mut net = Net::of(&[Plan::default(), many]);
    net.train_count_max = TRAIN;
    net.join(A, B);
    net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 1, 1 << 20);
    net.run_until(|net| net.count(B, "bytes_landed") > 200_000);
    assert!(net.ep(B).predict(0).is_some());
    assert_eq!(
        (net.ep(B).predict(1), net.ep(B).predict(2), net.ep(B).predict(3)),
        (None, None, None)
    );
}

#[test]
fn only_granted_bytes_are_predicted() {
    // Room for one of the senders at a time, so that the others are waiting with nothing granted.
    let narrow = Plan::with(|_, limits| limits.grant_len_max = 24_000);
    let mut net = Net::of(&vec![narrow; 6]);
    net.train_count_max = 8;
    let receiver = 5;
    for sender in 0..receiver {
        net.join(sender, receiver);
    }
    for sender in 0..receiver {
        net.recv_from(receiver, sender, 1, 300_000);
        net.send(sender, receiver, 1, 300_000);
    }
    let until = net.now + SECOND;
    while net.step(until) {
        if let Some(landing) = net.ep(receiver).predict(0) {
            assert!(landing.len > 0, "{landing:?}");
        }
    }
    assert!(net.count(receiver, "bytes_landed") > 500_000);
}

#[test]
fn landing_named_by_a_stale_association_is_refused() {
    let mut net = pair();
    net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 1, 1 << 20);
    net.run_until(|net| net.count(B, "bytes_landed") > 100_000);
    let landing = net.ep(B).predict(0).expect("more is granted");
    let heads = net.sights(A, Kind::Data).last().unwrap().bytes[..40].to_vec();
    let now = net.now;
    let elsewhere = Locator([9; 24]);
    let at_home = net.nodes[A].locators[0];
    let Node { ep, ram, .. } = &mut net.nodes[B];
    let mut try_landing = |from: &Locator, link, landing: &Landing, heads: &[u8], last_len| {
        ep.on_landed(now, link, from, landing, heads, 1, last_len, ram)
    };
    assert_eq!(try_landing(&elsewhere, 0, &landing, &heads, 1432), 0, "another locator");
    assert_eq!(try_landing(&at_home, 1, &landing, &heads, 1432), 0, "another link");
    assert_eq!(try_landing(&at_home, 0, &landing, &heads, 9_999), 0, "too long");
    assert_eq!(try_landing(&at_home, 0, &landing, &heads[..39], 1432), 0, "cut short");
    assert_eq!(try_landing(&at_home, 0, &landing, &[], 1432), 0, "nothing");
    let mut other = heads.clone();
    other[8] ^= 1;
    assert_eq!(try_landing(&at_home, 0, &landing, &other, 1432), 0, "another association");
    let mut far = landing;
    far.offset = u64::MAX;
    assert_eq!(try_landing(&at_home, 0, &far, &heads, 1432), 0, "nowhere");
    let mut odd = landing;
    odd.payload_len = 0;
    assert_eq!(try_landing(&at_home, 0, &odd, &heads, 0), 0, "no bytes");
}
