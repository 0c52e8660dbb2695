//! PROTOCOL §10.2, §10.5, §14.6, §16.6: links of different kinds to one peer: reliable, private, with trains, a stream, on one card.

use super::*;

const SURE: Reliability = Reliability::Ordered { may_break: false };
const STREAM: Reliability = Reliability::Ordered { may_break: true };

#[test]
fn reliable_link_takes_everything() {
    let mut net = Net::of(&[
        Plan { more_links: 1, ..Plan::default() },
        Plan { more_links: 1, ..Plan::default() },
    ]);
    for node in [A, B] {
        let traits = LinkTraits { reliability: SURE, ..PLAIN };
        net.ep(node).set_link(1, traits);
    }
    net.delay_ns[1] = 2 * DELAY_NS;
    net.join(A, B);
    net.run_for(100 * MS);
    net.log.clear();
    let recv = net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 0, 8);
    net.send(A, B, 1, 1 << 20);
    net.settle();
    net.assert_got(B, recv, 1, 1 << 20);
    assert!(net.log.iter().all(|sight| sight.link == 1), "slower, but it never loses");
}

/// Two nodes with a reliable link beside a common one, by which they have met; the first frames of the reliable one get lost if `is_deaf`.
fn meeting_by_the_common_link(is_deaf: bool) -> (Net, Recv) {
    let plan = Plan { more_links: 1, ..Plan::default() };
    let mut net = Net::of(&[plan.clone(), plan]);
    for node in [A, B] {
        net.ep(node).set_link(1, LinkTraits { reliability: SURE, ..PLAIN });
    }
    net.delay_ns[1] = 20 * MS; // its other end is looked at late
    net.drop_where(move |sight| sight.link == 1 && is_deaf);
    let small = net.recv(B, tagged(0), 8);
    let large = net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 0, 8);
    net.run_until(|net| net.got(B, small).is_some());
    net.run_for(MS); // both have named their links, and ask by them
    (net, large)
}

/// §10.2. What is announced meanwhile would go by the common link to its end.
#[test]
fn announced_messages_wait_for_the_answer_of_a_reliable_link() {
    let (mut net, recv) = meeting_by_the_common_link(false);
    net.log.clear();
    net.send(A, B, 1, 1 << 20);
    net.settle();
    net.assert_got(B, recv, 1, 1 << 20);
    assert_eq!(on_link(&net, 0, Kind::Rts) + on_link(&net, 0, Kind::Data), 0);
}

/// §10.2. Shared memory may be told of that is not shared.
#[test]
fn a_reliable_link_that_never_answers_holds_announced_messages_up_for_a_moment_only() {
    let (mut net, recv) = meeting_by_the_common_link(true);
    net.send(A, B, 1, 1 << 20);
    let began = net.now;
    net.run_until(|net| net.got(B, recv).is_some());
    assert!(net.now - began < 300 * MS, "{} ms", (net.now - began) / MS);
}

/// Two nodes that can write to each other by a link of their own, beside a common one. `private`: who knows that of it.
fn beside_a_private_link(private: &[usize]) -> Net {
    let plan = Plan { more_links: 1, ..Plan::default() };
    let mut net = Net::of(&[plan.clone(), plan]);
    for node in [A, B] {
        let traits = LinkTraits { reliability: SURE, is_private: private.contains(&node), ..PLAIN };
        net.ep(node).set_link(1, traits);
    }
    net.join(A, B);
    net.run_for(100 * MS);
    net.log.clear();
    net
}

/// Two small messages from A to B; the frames that they went in.
fn two_small_ones(net: &mut Net) -> Vec<(u8, Locator, Vec<u8>)> {
    for tag in [1, 2] {
        let recv = net.recv(B, tagged(tag), 8);
        net.send(A, B, tag, 8);
        net.run_for(10 * MS);
        net.assert_got(B, recv, tag, 8);
    }
    let sent = net.log.iter().filter(|sight| sight.from == A && sight.bytes.len() >= 48);
    sent.map(|sight| (sight.link, sight.source, sight.bytes.clone())).collect()
}

/// §14.6.
#[test]
fn by_a_private_link_messages_carry_the_pass_and_by_no_other() {
    let mut net = beside_a_private_link(&[A, B]);
    let frames = two_small_ones(&mut net);
    let [(1, source, first), (1, _, second)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(first[..8], second[..8], "two frames, one pass");
    // The next one, made of what was seen: by the other link it is nobody's.
    let mut next = second.clone();
    next[16] += 1;
    next[28] += 1;
    let unkeyed_before = net.ep(B).counters().frames_unkeyed;
    let recv = net.recv(B, tagged(2), 8);
    net.inject(B, *source, &next);
    assert_eq!(net.ep(B).counters().frames_unkeyed, unkeyed_before + 1);
    // With a wrong pass it is nobody's by that link either; with the right one it is A's.
    let Node { ep, ram, .. } = &mut net.nodes[B];
    next[0] ^= 1;
    ep.on_frame(net.now, 1, *source, &next, ram);
    assert_eq!(ep.counters().frames_unkeyed, unkeyed_before + 2);
    next[0] ^= 1;
    ep.on_frame(net.now, 1, *source, &next, ram);
    assert_eq!(ep.counters().frames_unkeyed, unkeyed_before + 2);
    net.run_for(MS);
    net.assert_got(B, recv, 2, 8);
}

/// §14.6: who has a link around its link that may damage frames takes no pass, and gets none.
#[test]
fn whoever_takes_no_pass_gets_none() {
    for private in [&[A][..], &[B], &[]] {
        let mut net = beside_a_private_link(private);
        let frames = two_small_ones(&mut net);
        let [(1, _, first), (1, _, second)] = &frames[..] else { panic!("{frames:?}") };
        assert_ne!(first[..8], second[..8], "private for {private:?}: each has its own check");
    }
}

/// Two nodes that have met, with a quick link and a slower one that sends trains, over this card.
fn beside_trains(card: u16) -> Net {
    let plan = Plan { more_links: 1, ..Plan::default() };
    let mut net = Net::of(&[plan.clone(), plan]);
    net.card = card;
    for node in [A, B] {
        let traits = LinkTraits { train_len_max: 65_000, ..PLAIN };
        net.ep(node).set_link(1, traits);
    }
    net.delay_ns[1] = 2 * DELAY_NS;
    net.join(A, B);
    net.run_for(100 * MS);
    net.log.clear();
    net
}

/// Short messages and long ones, there and back: the first packets of a path, which are acknowledged at once, are behind it.
fn use_both_ways(net: &mut Net, len: usize) {
    for tag in 0..4 {
        for (from, to) in [(A, B), (B, A)] {
            let recvs = [8, len].map(|len| net.recv(to, tagged(tag), len));
            net.send(from, to, tag, 8);
            net.send(from, to, tag, len);
            net.run_until(|net| recvs.iter().all(|&recv| net.got(to, recv).is_some()));
        }
    }
    net.run_for(MS); // all is acknowledged
}

/// §5.4: one of them rides on it, the other has time.
#[test]
fn an_answer_leaves_as_one_train_though_two_paths_wait_to_be_acknowledged() {
    const LEN: usize = 16_000;
    let mut net = beside_trains(0);
    net.train_count_max = 44;
    use_both_ways(&mut net, LEN);
    let recvs = [LEN, 8].map(|len| net.recv(B, tagged(9), len));
    net.send(A, B, 9, LEN);
    net.run_for(DELAY_NS);
    net.send(A, B, 9, 8); // it arrives when the train does
    net.run_until(|net| recvs.iter().all(|&recv| net.got(B, recv).is_some()));
    let before = net.count(A, "frames_together");
    let back = net.recv(A, tagged(10), LEN);
    net.send(B, A, 10, LEN);
    net.run_until(|net| net.got(A, back).is_some());
    net.assert_got(A, back, 10, LEN);
    assert_eq!(net.count(A, "frames_together") - before, 12, "all of its frames, in one go");
}

/// §10.2, §10.5: by raw Ethernet, say, a small message is quicker, and by UDP a train is.
#[test]
fn messages_of_several_frames_take_a_link_that_sends_trains() {
    let mut net = beside_trains(0);
    for (tag, len) in (0..).zip([8, 16_000, 8, 60_000, 3_000]) {
        let recv = net.recv(B, tagged(tag), len);
        net.send(A, B, tag, len);
        net.run_for(10 * MS);
        net.assert_got(B, recv, tag, len);
    }
    assert_eq!((on_link(&net, 0, Kind::Eager), on_link(&net, 1, Kind::Eager)), (2, 0));
    for kind in [Kind::Fragment, Kind::Rts] {
        assert_eq!(on_link(&net, 0, kind), 0, "{kind:?}");
        assert!(on_link(&net, 1, kind) > 0, "{kind:?}");
    }
}

/// §10.2: behind one wire there is nothing to gain by another link, and what overtakes is held until its turn.
#[test]
fn messages_wait_for_their_link_rather_than_take_another_over_the_same_card() {
    const COUNT: u64 = 400;
    for (len, own_link) in [(4_000, 1), (1_000, 0)] {
        let mut net = beside_trains(7);
        let receives: Vec<_> = (0..COUNT).map(|tag| net.recv(B, tagged(tag), len)).collect();
        (0..COUNT).for_each(|tag| {
            net.send(A, B, tag, len);
        });
        net.run_for(SECOND);
        for (tag, recv) in (0..).zip(receives) {
            net.assert_got(B, recv, tag, len);
        }
        let kind = if len > 1_500 { Kind::Fragment } else { Kind::Eager };
        assert_eq!(on_link(&net, 1 - own_link, kind), 0, "{len} bytes by the other link");
        assert_eq!(net.count(B, "messages_early"), 0, "{len} bytes");
    }
}

/// Two nodes with a link of trains and one that is a stream, over one card.
fn beside_a_stream() -> Net {
    beside_a_stream_as(Plan { more_links: 1, ..Plan::default() })
}

fn beside_a_stream_as(plan: Plan) -> Net {
    let mut net = Net::of(&[plan.clone(), plan]);
    net.card = 7;
    for (node, link) in [(A, 0), (A, 1), (B, 0), (B, 1)] {
        let traits = LinkTraits {
            frame_len_max: if link == 1 { 63_000 } else { 1472 },
            reliability: if link == 1 { STREAM } else { PLAIN.reliability },
            train_len_max: 65_000,
            ..PLAIN
        };
        net.ep(node).set_link(link, traits);
    }
    net
}

/// §16.6: it is opened when there is bulk, and carries nothing else; nor does what answers it.
#[test]
fn a_stream_is_opened_for_bulk_and_carries_nothing_else() {
    let mut net = beside_a_stream();
    net.join(A, B);
    for (tag, len) in (0..).zip([8, 3_000, 16_000]) {
        let recv = net.recv(B, tagged(tag), len);
        net.send(A, B, tag, len);
        net.run_for(10 * MS);
        net.assert_got(B, recv, tag, len);
    }
    net.run_for(SECOND);
    assert!(net.log.iter().all(|sight| sight.link == 0), "nobody needs the stream");
    let state = infos(&mut net, A, B)[1].state;
    assert_eq!(state, PathState::Dormant);
    for tag in 10..14 {
        let recv = net.recv(B, tagged(tag), 1 << 20);
        net.send(A, B, tag, 1 << 20);
        net.run_for(100 * MS);
        net.assert_got(B, recv, tag, 1 << 20);
    }
    assert!(matches!(infos(&mut net, A, B)[1].state, PathState::Proven { is_main: false, .. }));
    net.log.clear();
    for (tag, len) in (20..).zip([8, 3_000, 16_000, 1 << 20]) {
        let recv = net.recv(B, tagged(tag), len);
        net.send(A, B, tag, len);
        net.run_for(10 * MS);
        net.assert_got(B, recv, tag, len);
    }
    let by_stream = |kind| on_link(&net, 1, kind);
    assert_eq!([Kind::Eager, Kind::Fragment, Kind::Ack].map(by_stream), [0; 3]);
    assert_eq!((on_link(&net, 0, Kind::Data), on_link(&net, 0, Kind::Rts)), (0, 0));
    assert!(by_stream(Kind::Data) > 0 && by_stream(Kind::Rts) == 1);
}

/// §16.6: 32 KB and more go by a stream though nobody asks for them, and take along what is to be acknowledged.
#[test]
fn long_messages_that_go_unasked_take_a_stream() {
    let plan = Plan::with(|settings, _| settings.eager_len_max = 65_536);
    let mut net = beside_a_stream_as(Plan { more_links: 1, ..plan });
    net.join(A, B);
    let mut tag = 0;
    let mut round = |net: &mut Net, len| {
        for (from, to) in [(A, B), (B, A)] {
            tag += 1;
            let recv = net.recv(to, tagged(tag), len);
            net.send(from, to, tag, len);
            net.run_until(|net| net.got(to, recv).is_some());
            net.assert_got(to, recv, tag, len);
        }
    };
    round(&mut net, 40_000);
    net.run_for(SECOND);
    net.log.clear();
    for len in [40_000, 64_000, 31_000, 40_000] {
        round(&mut net, len);
    }
    net.run_for(SECOND);
    let len_by = |link| -> usize {
        let sights = net.log.iter().filter(|sight| sight.link == link);
        sights.map(|sight| sight.bytes.len()).sum()
    };
    assert!((62_000..66_000).contains(&len_by(0)), "31 000 bytes each way: {}", len_by(0));
    assert!((288_000..304_000).contains(&len_by(1)), "all that was longer: {}", len_by(1));
    let alone = net.log.iter().filter(|sight| sight.bytes.len() < 100).count();
    assert_eq!(alone, 1, "of the last message only, which nothing followed");
}

/// §16.6: where nothing waits before it, such a message leaves with its post: copied once, as the frame that is sent.
#[test]
fn a_long_message_leaves_by_its_stream_with_its_post() {
    let plan = Plan::with(|settings, _| {
        (settings.eager_len_max, settings.frame_len_max) = (65_536, 63_000);
    });
    let mut net = beside_a_stream_as(Plan { more_links: 1, ..plan });
    net.join(A, B);
    let recv = net.recv(B, tagged(1), 40_000);
    net.send(A, B, 1, 40_000);
    net.run_for(SECOND);
    net.assert_got(B, recv, 1, 40_000);
    for (tag, len, link) in [(2, 40_000, Some(1)), (3, 33_000, Some(1)), (4, 32_000, None)] {
        let recv = net.recv(B, tagged(tag), len);
        let (bytes, peer) = (pattern(tag, len), net.peer(A, B));
        let spec = SendSpec { peer, payload: Payload::Copied(&bytes), ..net.spec(A, B, tag, len) };
        let left_by = net.post_lone(A, &spec);
        assert_eq!(left_by, link, "{len} bytes");
        if left_by.is_some() {
            net.run_until(|net| net.got(B, recv).is_some());
            net.assert_got(B, recv, tag, len);
        }
    }
}

/// §10.5: the message is acknowledged itself, so it does not matter by which way the acknowledgement goes.
#[test]
fn a_small_message_takes_along_what_another_path_waits_to_acknowledge() {
    let mut net = beside_trains(0);
    net.train_count_max = 44;
    use_both_ways(&mut net, 16_000);
    let recv = net.recv(B, tagged(1), 16_000);
    net.send(A, B, 1, 16_000); // by the link that sends trains
    net.run_until(|net| net.got(B, recv).is_some());
    net.log.clear();
    let back = net.recv(A, tagged(2), 8);
    net.send(B, A, 2, 8); // by the other
    net.run_until(|net| net.got(A, back).is_some());
    net.run_for(10 * MS);
    let sent = net.log.iter().filter(|sight| sight.from == B);
    let sent: Vec<_> = sent.map(|sight| (sight.link, sight.bytes.len())).collect();
    assert_eq!(sent, [(0, 72)], "message and acknowledgement in one frame");
}

/// §16.6: where datagrams stop passing, what nobody needed is needed.
#[test]
fn a_stream_that_was_never_needed_is_opened_when_nothing_else_answers() {
    let mut net = beside_a_stream();
    net.join(A, B);
    net.run_for(SECOND);
    net.drop_where(|sight| sight.link == 0);
    let recv = net.recv(B, tagged(1), 100);
    net.send(A, B, 1, 100);
    net.run_for(10 * SECOND);
    net.assert_got(B, recv, 1, 100);
}

/// Two links over one card.
fn over_one_card() -> Net {
    let plan = Plan { more_links: 1, ..Plan::default() };
    let mut net = Net::of(&[plan.clone(), plan]);
    net.card = 7;
    net.join(A, B);
    net.run_for(100 * MS);
    net.log.clear();
    net
}

#[test]
fn links_over_one_card_are_not_striped() {
    let mut net = over_one_card();
    let recv = net.recv(B, tagged(1), 1 << 20);
    net.send(A, B, 1, 1 << 20);
    net.settle();
    net.assert_got(B, recv, 1, 1 << 20);
    let shares = [on_link(&net, 0, Kind::Data), on_link(&net, 1, Kind::Data)];
    assert!(shares[0] > 0 && shares[1] == 0, "{shares:?}");
    let states = infos(&mut net, A, B).into_iter().map(|info| info.state);
    let yields_data = |state| matches!(state, PathState::Proven { yields_data: true, .. });
    assert_eq!(states.map(yields_data).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn data_changes_over_when_its_link_is_cut() {
    let mut net = over_one_card();
    let recv = net.recv(B, tagged(1), 2 << 20);
    net.send(A, B, 1, 2 << 20);
    net.run_for(3 * RTT_NS);
    cut(&mut net, 0);
    net.run_until(|net| net.got(B, recv).is_some());
    net.assert_got(B, recv, 1, 2 << 20);
    assert!(on_link(&net, 1, Kind::Data) > 0);
}

#[test]
fn idle_path_that_became_quicker_is_noticed() {
    let mut net = over_one_card();
    net.delay_ns[1] = DELAY_NS / 4;
    for _ in 0..5_000 {
        net.recv(B, tagged(1), 8);
        net.send(A, B, 1, 8);
        net.run_for(3 * RTT_NS);
    }
    let asked = on_link(&net, 1, Kind::Ping);
    assert!(asked < 200, "{asked} questions beside 5000 messages");
    net.log.clear();
    net.recv(B, tagged(1), 8);
    net.send(A, B, 1, 8);
    net.run_for(3 * RTT_NS);
    assert_eq!((on_link(&net, 0, Kind::Eager), on_link(&net, 1, Kind::Eager)), (0, 1));
}
