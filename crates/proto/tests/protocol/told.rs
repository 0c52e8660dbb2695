//! §7.10, §8.10: announcements and ends of large messages that are given to a link in memory.

use packhorse_proto::*;

use crate::net::*;

const LEN: usize = 20_000;

/// Two nodes that share memory and may read each other's, who know each other; the second holds so many messages.
fn pair(envelope_count_max: u32) -> Net {
    pair_with(|limits| limits.envelope_count_max = envelope_count_max)
}

/// Such nodes, the second with other limits.
pub(crate) fn pair_with(change: impl FnOnce(&mut Limits)) -> Net {
    let plain = || {
        Plan::with(|settings, limits| {
            settings.fetch_len_min = 8 << 10;
            limits.envelope_count_max = 1000;
        })
    };
    let mut other = plain();
    change(&mut other.limits);
    let mut net = Net::of(&[plain(), other]);
    let reliability = Reliability::Ordered { may_break: false };
    for node in [A, B] {
        let traits = LinkTraits { reliability, is_private: true, can_fetch: true, ..PLAIN };
        net.ep(node).set_link(0, traits);
    }
    net.join(A, B);
    net.settle();
    // A numbered packet each way, and nothing waits behind it.
    for (from, to) in [(A, B), (B, A)] {
        let recv = net.recv(to, tagged(u64::MAX), 8);
        net.send(from, to, u64::MAX, 8);
        net.run_for(MS);
        net.assert_got(to, recv, u64::MAX, 8);
        net.run_for(MS);
        net.drain(from); // what happened before is told before
    }
    net.log.clear();
    net
}

/// The message, announced to the link; its frame.
fn tell(net: &mut Net, from: usize, to: usize, tag: u64) -> Option<(ReqId, Vec<u8>)> {
    tell_in(net, Space(0), (from, to), tag)
}

fn tell_in(
    net: &mut Net,
    space: Space,
    (from, to): (usize, usize),
    tag: u64,
) -> Option<(ReqId, Vec<u8>)> {
    let (peer, now) = (net.peer(from, to), net.now);
    let buf = net.lend(from, pattern(tag, LEN));
    let payload = Payload::InPlace { buf, len: LEN as u64 };
    let (tag, user) = (Tag(tag), tag);
    let spec = SendSpec { peer, space, tag, immediate: None, payload, until_matched: false, user };
    let mut head = [0; wire::NOTE_HEAD_LEN_MAX];
    let given = net.ep(from).prepare_told(now, &spec, &mut head)?;
    let req = net.ep(from).on_told_given(&spec, &given);
    Some((req, [&head[..given.head_len], &[tag.0 as u8; wire::WHEREABOUTS_LEN]].concat()))
}

fn take(net: &mut Net, from: usize, to: usize, frame: &[u8]) -> Taken {
    let source = net.nodes[from].locators[0];
    let Node { ep, ram, .. } = &mut net.nodes[to];
    ep.take_given(net.now, 0, &source, (frame, frame.len()), ram)
}

/// As a driver whose look takes no frames one by one, or that could not read.
fn hand_over(net: &mut Net, from: usize, to: usize, frame: &[u8]) {
    let source = net.nodes[from].locators[0];
    let Node { ep, ram, .. } = &mut net.nodes[to];
    ep.on_frame(net.now, 0, source, frame, ram);
}

/// What a driver does with an announced message: reads it, and gives the link the frame that says so.
fn read(net: &mut Net, node: usize, told: &Told) -> (Received, Vec<u8>) {
    let (tag, now) = (u64::from(told.whereabouts[0]), net.now);
    net.nodes[node].ram.place(told.place(), &pattern(tag, told.len as usize));
    let received = net.ep(node).on_told_read(told);
    let mut head = [0; wire::NOTE_HEAD_LEN_MAX];
    let done = net.ep(node).prepare_done(now, told, &mut head).expect("nothing waits");
    net.ep(node).on_note_given(&done);
    (received, head[..done.head_len].to_vec())
}

#[test]
fn a_message_is_announced_read_and_ended_without_a_packet() {
    let mut net = pair(1000);
    for tag in 1..20 {
        let (from, to) = if tag % 2 == 0 { (A, B) } else { (B, A) };
        let room = if tag == 5 { 100 } else { LEN };
        let recv = net.recv(to, tagged(tag), room);
        let (req, frame) = tell(&mut net, from, to, tag).expect("it may be given");
        let Taken::Told(told) = take(&mut net, from, to, &frame) else { panic!("message {tag}") };
        assert_eq!((told.place().buf, told.len), (recv.buf, room as u64));
        let (received, done) = read(&mut net, to, &told);
        assert_eq!((received.req, received.placed_len), (recv.req, room as u64));
        assert_eq!(received.envelope.len, LEN as u64);
        assert_eq!(net.bytes(to, recv.buf), pattern(tag, room));
        let Taken::Ended(ended) = take(&mut net, to, from, &done) else { panic!("its end") };
        assert_eq!((ended.req, ended.user, ended.placed_len), (req, tag, room as u64));
        assert_eq!(take(&mut net, to, from, &done), Taken::No, "it is over");
    }
    net.run_for(MS);
    assert!(net.log.is_empty(), "nothing is acknowledged, nothing sent again: {:?}", net.log);
    let counts = |name| (net.count(A, name), net.count(B, name));
    assert_eq!(counts("notes_given"), (19, 19));
    assert_eq!(counts("rendezvous_in"), (10, 9));
}

#[test]
fn what_nobody_waits_for_yet_or_cannot_be_read_goes_the_general_way() {
    let mut net = pair(1000);
    let (req, frame) = tell(&mut net, A, B, 1).expect("it may be given");
    assert_eq!(take(&mut net, A, B, &frame), Taken::No, "there is no receive");
    hand_over(&mut net, A, B, &frame);
    let recv = net.recv(B, tagged(1), LEN);
    let now = net.now;
    let fetch = net.ep(B).poll_fetch(now, u64::MAX).expect("it is wanted now");
    assert_eq!((fetch.len, fetch.whereabouts), (LEN as u64, [1; wire::WHEREABOUTS_LEN]));
    net.ep(B).on_fetched(now, &fetch, false);
    net.settle();
    net.assert_got(B, recv, 1, LEN);
    assert_eq!(net.sent(A, req), Some(Ok(())));
    assert!(net.seen(A, Kind::Data) > 0, "it was granted");
}

/// As a driver behind a turn: each word that a message is over, given to its link.
fn ends(net: &mut Net, node: usize) -> Vec<Vec<u8>> {
    let now = net.now;
    std::iter::from_fn(|| {
        let mut head = [0; wire::NOTE_HEAD_LEN_MAX];
        let end = net.ep(node).prepare_end(now, &mut head)?;
        net.ep(node).on_end_given(&end);
        Some(head[..end.head_len].to_vec())
    })
    .collect()
}

#[test]
fn what_the_general_way_took_ends_without_a_packet() {
    let mut net = pair(1000);
    let told = [1, 2, 3].map(|tag| tell(&mut net, A, B, tag).expect("it may be given"));
    for (_, frame) in &told {
        hand_over(&mut net, A, B, frame); // there is no receive yet
    }
    let recvs = [1, 2, 3].map(|tag| net.recv(B, tagged(tag), LEN));
    let now = net.now;
    while let Some(fetch) = net.ep(B).poll_fetch(now, u64::MAX) {
        net.nodes[B].ram.place(fetch.to, &pattern(u64::from(fetch.whereabouts[0]), LEN));
        net.ep(B).on_fetched(now, &fetch, true);
    }
    let frames = ends(&mut net, B);
    assert_eq!(frames.len(), 3);
    for ((tag, (req, _)), (recv, frame)) in (1..).zip(told).zip(recvs.into_iter().zip(&frames)) {
        let Taken::Ended(ended) = take(&mut net, B, A, frame) else { panic!("end {tag}") };
        assert_eq!((ended.req, ended.placed_len), (req, LEN as u64));
        net.assert_got(B, recv, tag, LEN);
    }
    net.run_for(MS);
    assert!(net.log.is_empty(), "nothing is acknowledged, nothing sent again: {:?}", net.log);
    assert_eq!((net.count(A, "notes_given"), net.count(B, "notes_given")), (3, 3));
}

#[test]
fn an_end_that_something_else_waits_with_goes_with_it() {
    let mut net = pair(1000);
    let (req, frame) = tell(&mut net, A, B, 1).expect("it may be given");
    hand_over(&mut net, A, B, &frame);
    net.recv(B, tagged(1), LEN);
    let now = net.now;
    let fetch = net.ep(B).poll_fetch(now, u64::MAX).expect("it is wanted now");
    net.nodes[B].ram.place(fetch.to, &pattern(1, LEN));
    net.ep(B).on_fetched(now, &fetch, true);
    let (other, send) = (net.recv(A, tagged(2), 8), net.send(B, A, 2, 8));
    assert!(ends(&mut net, B).is_empty(), "a message waits, too");
    net.settle();
    net.assert_got(A, other, 2, 8);
    assert_eq!((net.sent(A, req), net.sent(B, send)), (Some(Ok(())), Some(Ok(()))));
}

#[test]
fn what_is_refused_is_announced_again() {
    let mut net = pair(4);
    let told = [1, 2, 3, 4, 5].map(|tag| tell(&mut net, A, B, tag).expect("it may be given"));
    for (_, frame) in &told {
        assert_eq!(take(&mut net, A, B, frame), Taken::No);
        hand_over(&mut net, A, B, frame);
    }
    assert_eq!(net.count(B, "refusals"), 1, "there is room for four");
    net.run_for(MS);
    assert!(tell(&mut net, A, B, 6).is_none(), "it waits behind what is refused");
    for (at, (req, _)) in told.iter().enumerate() {
        let tag = at as u64 + 1;
        let recv = net.recv(B, tagged(tag), LEN);
        net.run_for(10 * MS);
        let now = net.now;
        while let Some(fetch) = net.ep(B).poll_fetch(now, u64::MAX) {
            net.nodes[B].ram.place(fetch.to, &pattern(tag, LEN));
            net.ep(B).on_fetched(now, &fetch, true);
        }
        net.settle();
        net.assert_got(B, recv, tag, LEN);
        assert_eq!(net.sent(A, *req), Some(Ok(())), "message {tag}");
    }
}

/// Takes such messages: their receives, and what the driver reads for them.
fn take_read(net: &mut Net, tags: core::ops::RangeInclusive<u64>) -> Vec<Recv> {
    let recvs = tags.clone().map(|tag| net.recv(B, tagged(tag), LEN)).collect();
    let now = net.now;
    for tag in tags {
        let Some(fetch) = net.ep(B).poll_fetch(now, u64::MAX) else { break };
        net.nodes[B].ram.place(fetch.to, &pattern(tag, LEN));
        net.ep(B).on_fetched(now, &fetch, true);
    }
    recvs
}

/// The refusal and the recall are one matter, of which only the newest word is said: nothing tells the sender that the announcement was refused, and
/// since it had no packet nothing tells that it was lost.
#[test]
fn what_is_refused_is_announced_again_though_only_the_recall_is_heard() {
    let mut net = pair(4);
    let told = [1, 2, 3, 4, 5].map(|tag| tell(&mut net, A, B, tag).expect("it may be given"));
    for (_, frame) in &told {
        hand_over(&mut net, A, B, frame);
    }
    assert_eq!(net.count(B, "refusals"), 1, "there is room for four");
    take_read(&mut net, 1..=4);
    net.run_for(10 * MS);
    assert_eq!((net.count(B, "recalls"), net.count(B, "contents_resent")), (1, 0));
    let last = take_read(&mut net, 5..=5);
    net.settle();
    net.assert_got(B, last[0], 5, LEN);
    assert_eq!(net.sent(A, told[4].0), Some(Ok(())));
    assert_eq!(net.count(A, "contents_resent"), 0, "nothing of it was lost");
}

#[test]
fn an_acknowledgement_that_waits_goes_with_an_announcement_and_with_its_end() {
    let mut net = pair(1000);
    let asked = net.recv(B, tagged(7), 8);
    let send = net.send(A, B, 7, 8);
    let before = net.count(B, "messages_in");
    net.run_until(|net| net.count(B, "messages_in") > before);
    net.assert_got(B, asked, 7, 8);
    assert_eq!(net.sent(A, send), None, "nobody acknowledged it yet");
    let recv = net.recv(A, tagged(1), LEN);
    let (req, frame) = tell(&mut net, B, A, 1).expect("nothing waits but the acknowledgement");
    assert_eq!(take(&mut net, B, A, &frame), Taken::No, "the general way looks at it");
    hand_over(&mut net, B, A, &frame);
    assert_eq!(net.sent(A, send), Some(Ok(())));
    let now = net.now;
    let fetch = net.ep(A).poll_fetch(now, u64::MAX).expect("it was announced");
    net.nodes[A].ram.place(fetch.to, &pattern(1, LEN));
    net.ep(A).on_fetched(now, &fetch, true);
    net.settle();
    net.assert_got(A, recv, 1, LEN);
    assert_eq!(net.sent(B, req), Some(Ok(())));
}

#[test]
fn by_a_link_that_others_can_write_to_or_without_the_pass_it_is_nobodys() {
    let mut net = pair(1000);
    net.recv(B, tagged(1), LEN);
    let (req, frame) = tell(&mut net, A, B, 1).expect("it may be given");
    let Taken::Told(told) = take(&mut net, A, B, &frame) else { panic!("it is announced") };
    let (_, done) = read(&mut net, B, &told);
    for (from, to, frame) in [(A, B, &frame), (B, A, &done)] {
        let mut forged = frame.clone();
        forged[0] ^= 1;
        let unkeyed = net.count(to, "frames_unkeyed");
        assert_eq!(take(&mut net, from, to, &forged), Taken::No);
        hand_over(&mut net, from, to, &forged);
        assert_eq!(net.count(to, "frames_unkeyed"), unkeyed + 1);
        net.ep(to).set_link(0, PLAIN);
        assert_eq!(take(&mut net, from, to, frame), Taken::No);
        hand_over(&mut net, from, to, frame);
        assert_eq!(net.count(to, "frames_unkeyed"), unkeyed + 2);
    }
    assert_eq!(net.sent(A, req), None, "nobody ended it");
}

#[test]
fn the_space_of_streams_is_nobodys_to_announce_in() {
    let mut net = pair(1000);
    assert!(tell_in(&mut net, Space::STREAMS, (A, B), 1).is_none(), "`post_send` refuses it");
    assert!(tell_in(&mut net, Space(1), (A, B), 1).is_some());
}

#[test]
fn an_end_of_what_is_not_under_way_ends_nothing() {
    let mut net = pair(1000);
    net.recv(B, tagged(1), LEN);
    let (req, frame) = tell(&mut net, A, B, 1).expect("it may be given");
    let Taken::Told(told) = take(&mut net, A, B, &frame) else { panic!("it is announced") };
    let (_, done) = read(&mut net, B, &told);
    let now = net.now;
    assert!(net.ep(A).cancel(now, req));
    assert_eq!(take(&mut net, B, A, &done), Taken::No, "something waits: the general way");
    hand_over(&mut net, B, A, &done);
    net.settle();
    assert_eq!(net.count(A, "frames_malformed"), 0);
}
