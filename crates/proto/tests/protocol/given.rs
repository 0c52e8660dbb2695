//! §7.10: copied messages that are given to a link which keeps them.

use packhorse_proto::*;

use crate::net::*;

/// Two nodes that share memory, who know each other; the second holds so many messages.
fn pair(envelope_count_max: u32) -> Net {
    let tight = Plan::with(|_, limits| limits.envelope_count_max = envelope_count_max);
    let mut net = Net::of(&[Plan::default(), tight]);
    let reliability = Reliability::Ordered { may_break: false };
    for node in [A, B] {
        net.ep(node).set_link(0, LinkTraits { reliability, is_private: true, ..PLAIN });
    }
    net.join(A, B);
    net.settle();
    net.log.clear();
    net
}

/// The frame of a copied message from A to B, if it may be given.
fn frame(net: &mut Net, tag: u64) -> Option<(Given, Vec<u8>)> {
    frame_from(net, A, tag)
}

fn frame_from(net: &mut Net, from: usize, tag: u64) -> Option<(Given, Vec<u8>)> {
    frame_between(net, from, B, tag)
}

fn frame_between(net: &mut Net, from: usize, to: usize, tag: u64) -> Option<(Given, Vec<u8>)> {
    frame_of(net, from, to, tag, 8)
}

fn frame_of(
    net: &mut Net,
    from: usize,
    to: usize,
    tag: u64,
    len: usize,
) -> Option<(Given, Vec<u8>)> {
    let (peer, now) = (net.peer(from, to), net.now);
    let bytes = pattern(tag, len);
    let spec = SendSpec {
        peer,
        space: Space(0),
        tag: Tag(tag),
        immediate: None,
        payload: Payload::Copied(&bytes),
        until_matched: false,
        user: tag,
    };
    let mut head = [0; wire::LONE_HEAD_LEN_MAX];
    let given = net.ep(from).prepare_given(now, &spec, &mut head)?;
    Some((given, [&head[..given.head_len], &bytes].concat()))
}

/// Gives a message to the link, which hands it to B at once.
fn give(net: &mut Net, tag: u64) -> bool {
    let Some((given, frame)) = frame(net, tag) else { return false };
    let counts =
        |net: &Net| ["messages_out", "messages_given", "frames_out"].map(|name| net.count(A, name));
    let before = counts(net);
    net.ep(A).on_given(&given);
    assert_eq!(counts(net), before.map(|count| count + 1));
    hand_over(net, &frame);
    true
}

fn hand_over(net: &mut Net, frame: &[u8]) {
    hand_over_from(net, A, frame);
}

fn hand_over_from(net: &mut Net, from: usize, frame: &[u8]) {
    hand_over_between(net, from, B, frame);
}

fn hand_over_between(net: &mut Net, from: usize, to: usize, frame: &[u8]) {
    let source = net.nodes[from].locators[0];
    let Node { ep, ram, .. } = &mut net.nodes[to];
    ep.on_frame(net.now, 0, source, frame, ram);
}

/// Until nothing waits that would keep a message from being given.
fn awake(net: &mut Net) {
    awake_from(net, A);
}

fn awake_from(net: &mut Net, from: usize) {
    let recv = net.recv(B, tagged(u64::MAX), 8);
    net.send(from, B, u64::MAX, 8);
    net.run_for(MS);
    net.assert_got(B, recv, u64::MAX, 8);
    net.log.clear();
}

#[test]
fn what_was_given_is_not_acknowledged() {
    let mut net = pair(1000);
    awake(&mut net);
    let recv = net.recv(B, tagged(1), 8);
    assert!(give(&mut net, 1) && give(&mut net, 2));
    net.run_for(MS);
    net.assert_got(B, recv, 1, 8);
    let recv = net.recv(B, tagged(2), 8);
    net.run_for(MS);
    net.assert_got(B, recv, 2, 8);
    assert!(net.log.iter().all(|sight| sight.from != B), "nothing is said to it");
    assert_eq!(net.count(A, "messages_given"), 2);
}

/// Two that answer each other: the first message is numbered, and who answers it owes an acknowledgement. It goes with the answer, which is given
/// all the same; were it numbered for that, so would be the answer to it, and all that follow.
#[test]
fn an_acknowledgement_that_waits_goes_with_what_is_given() {
    let mut net = pair(1000);
    awake(&mut net);
    let recv = net.recv(A, tagged(1), 8);
    let send = net.send(A, B, 2, 8);
    let asked = net.recv(B, tagged(2), 8);
    let before = net.count(B, "messages_in");
    net.run_until(|net| net.count(B, "messages_in") > before);
    net.assert_got(B, asked, 2, 8);
    assert_eq!(net.sent(A, send), None, "nobody acknowledged it yet");
    net.log.clear();
    let (given, frame) =
        frame_between(&mut net, B, A, 1).expect("nothing waits but the acknowledgement");
    assert_eq!(given.head_len, wire::ACKED_EAGER_LEN);
    net.ep(B).on_given(&given);
    hand_over_between(&mut net, B, A, &frame);
    net.assert_got(A, recv, 1, 8);
    assert_eq!(net.sent(A, send), Some(Ok(())), "the answer says that it came");
    net.run_for(10 * MS);
    assert!(net.log.is_empty(), "nothing is left to be said: {:?}", net.log);
}

/// Where the low half of the packet number is in a frame.
const PACKET_AT: usize = 16;

/// A third node that shares memory with B writes nonsense into what it gives: B then expects high numbers, of that node and of no other.
#[test]
fn high_numbers_of_one_peer_leave_what_another_gives_as_it_is() {
    let mut net = Net::of(&[Plan::default(), Plan::default(), Plan::default()]);
    let reliability = Reliability::Ordered { may_break: false };
    for node in [A, B, C] {
        net.ep(node).set_link(0, LinkTraits { reliability, is_private: true, ..PLAIN });
    }
    net.join(A, B);
    net.join(C, B);
    net.settle();
    for node in [A, C] {
        awake_from(&mut net, node);
    }
    let (_, mut high) = frame_from(&mut net, C, 1).expect("nothing waits before it");
    high[PACKET_AT + 3] |= 0x80;
    hand_over_from(&mut net, C, &high);
    // What A gives has no number. If B took the zero for 2^32, it would expect all that A sends from there on.
    let given = net.recv(B, tagged(7), 8);
    assert!(give(&mut net, 7));
    net.run_for(MS);
    net.assert_got(B, given, 7, 8);
    let numbered = net.recv(B, tagged(8), 8);
    net.send(A, B, 8, 8);
    net.run_for(MS);
    net.assert_got(B, numbered, 8, 8);
    assert_eq!(net.count(B, "frames_unkeyed"), 0);
}

#[test]
fn what_a_link_did_not_take_changes_nothing() {
    let mut net = pair(1000);
    awake(&mut net);
    let first = frame(&mut net, 1).unwrap();
    assert_eq!(frame(&mut net, 1).unwrap(), first, "it was not posted");
    let recv = net.recv(B, tagged(3), 8);
    net.send(A, B, 3, 8);
    net.run_for(MS);
    net.assert_got(B, recv, 3, 8);
}

#[test]
fn numbered_and_given_ones_keep_their_order() {
    let mut net = pair(1000);
    awake(&mut net);
    for tag in 0..20 {
        match tag % 3 {
            0 => drop(net.send(A, B, 100, 8)),
            _ if give(&mut net, 100) => {}
            _ => drop(net.send(A, B, 100, 8)),
        }
        net.run_for(if tag % 2 == 0 { MS } else { 0 });
    }
    net.run_for(MS);
    let recvs: Vec<_> = (0..20).map(|_| net.recv(B, tagged(100), 8)).collect();
    net.settle();
    recvs.iter().for_each(|&recv| net.assert_got(B, recv, 100, 8));
    assert!(net.count(A, "messages_given") > 5);
}

#[test]
fn what_was_given_is_taken_beyond_the_budgets_and_its_sender_stopped() {
    let mut net = pair(4);
    awake(&mut net);
    // All of them are in the link before B looks.
    let mut frames = Vec::new();
    for tag in 0..10 {
        let (given, frame) = frame(&mut net, tag).expect("nobody has refused anything yet");
        net.ep(A).on_given(&given);
        frames.push(frame);
    }
    frames.iter().for_each(|frame| hand_over(&mut net, frame));
    assert_eq!(net.ep(B).held().1, 10, "all are held");
    net.run_for(MS);
    assert_eq!(net.count(B, "refusals"), 1);
    assert!(frame(&mut net, 10).is_none(), "it was told to stop");
    net.send(A, B, 10, 8);
    net.run_for(MS);
    for tag in 0..=10 {
        let recv = net.recv(B, tagged(tag), 8);
        net.settle();
        net.assert_got(B, recv, tag, 8);
    }
    awake(&mut net);
    assert!(give(&mut net, 11), "it was called again");
}

#[test]
fn what_was_given_behind_a_refused_message_does_not_hide_it() {
    let mut net = pair(4);
    awake(&mut net);
    // The room is used up and one message is taken beyond it, so B refuses what follows: a message that A keeps.
    (0..5).for_each(|tag| assert!(give(&mut net, tag)));
    net.send(A, B, 5, 8);
    net.pump();
    net.freeze(A);
    net.run_for(MS);
    // A has not read the refusal and gives more, which B holds before their turn: they alone take all of its room.
    (6..11).for_each(|tag| assert!(give(&mut net, tag)));
    net.thaw(A);
    net.run_for(MS);
    assert_eq!((net.count(B, "refusals"), net.ep(B).held().1), (1, 10));
    for tag in 0..11 {
        let recv = net.recv(B, tagged(tag), 8);
        net.run_for(100 * MS);
        net.assert_got(B, recv, tag, 8);
    }
}

#[test]
fn who_is_not_alone_with_its_peer_is_given_nothing() {
    let mut net = Net::joined();
    awake(&mut net);
    assert!(frame(&mut net, 1).is_none(), "a link that loses frames");
    let mut net = pair(1000);
    awake(&mut net);
    let (_, bytes) = frame(&mut net, 1).unwrap();
    let recv = net.recv(B, tagged(1), 8);
    // By a link that others can write to it is nobody's.
    net.ep(B).set_link(0, PLAIN);
    let unkeyed = net.ep(B).counters().frames_unkeyed;
    hand_over(&mut net, &bytes);
    assert_eq!(net.ep(B).counters().frames_unkeyed, unkeyed + 1);
    assert!(net.ep(B).cancel(Instant(0), recv.req), "and nothing came");
}

/// What B makes of a frame of which it sees the first bytes.
fn take_begun(net: &mut Net, frame: &[u8], shown_len: usize) -> (Option<Foreseen>, Taken) {
    let from = net.nodes[A].locators[0];
    let begun = (&frame[..shown_len], frame.len());
    let Node { ep, ram, .. } = &mut net.nodes[B];
    let foreseen = ep.foresee_given(0, &from, begun);
    (foreseen, ep.take_given(net.now, 0, &from, begun, ram))
}

#[test]
fn a_long_message_is_received_by_its_first_bytes() {
    let mut net = pair(1000);
    awake(&mut net);
    // As long as its memory; longer; and into memory of a receive that names nobody.
    for (tag, room, is_directed) in [(1, 1000, true), (2, 300, true), (3, 1000, false)] {
        let recv = match is_directed {
            true => net.recv_from(B, A, tag, room),
            false => net.recv(B, tagged(tag), room),
        };
        let (given, frame) = frame_of(&mut net, A, B, tag, 1000).expect("it may be given");
        net.ep(A).on_given(&given);
        let (foreseen, taken) = take_begun(&mut net, &frame, 256);
        let skip = frame.len() - 1000;
        let place = Foreseen { buf: recv.buf, skip, len: room };
        assert_eq!(foreseen, is_directed.then_some(place), "only if nobody else's may come there");
        let Taken::Begun(received, buf, before) = taken else { panic!("{taken:?}") };
        assert_eq!((received.req, buf, before), (recv.req, recv.buf, skip));
        assert_eq!((received.envelope.len, received.placed_len), (1000, room as u64));
        assert!(
            net.bytes(B, recv.buf).iter().all(|&byte| byte == 0xEE),
            "it is the driver's to place"
        );
    }
    assert_eq!(net.count(B, "messages_begun"), 3);
    net.drain(B);
    let told = net.nodes[B].events.iter().filter(|event| match event {
        Event::Received { envelope, .. } => envelope.len == 1000,
        _ => false,
    });
    assert_eq!(told.count(), 0, "there are no events of them");
}

#[test]
fn a_long_message_that_nobody_waits_for_is_wanted_whole() {
    let mut net = pair(1000);
    awake(&mut net);
    let (given, frame) = frame_of(&mut net, A, B, 1, 1000).expect("it may be given");
    net.ep(A).on_given(&given);
    let (before, held) = (net.count(B, "frames_in"), net.nodes[B].ep.held());
    assert_eq!(take_begun(&mut net, &frame, 256), (None, Taken::No));
    assert_eq!((net.count(B, "frames_in"), net.nodes[B].ep.held()), (before, held));
    hand_over(&mut net, &frame);
    let recv = net.recv(B, tagged(1), 1000);
    net.assert_got(B, recv, 1, 1000);
    assert_eq!(net.count(B, "frames_in"), before + 1);
}

/// The next message, but not before its turn, nor from elsewhere, nor by another link.
#[test]
fn what_is_foreseen_is_what_will_be_taken() {
    let mut net = pair(1000);
    awake(&mut net);
    net.recv_from(B, A, 1, 1000);
    let (given, first) = frame_of(&mut net, A, B, 1, 1000).expect("it may be given");
    net.ep(A).on_given(&given);
    let (_, second) = frame_of(&mut net, A, B, 1, 1000).expect("it may be given");
    let from = net.nodes[A].locators[0];
    let elsewhere = net.nodes[B].locators[0];
    let mut forged = first.clone();
    forged[0] ^= 1; // the pass
    let ep = &mut net.nodes[B].ep;
    let mut foresee = |link, from, frame: &[u8]| {
        ep.foresee_given(link, from, (&frame[..256], frame.len())).is_some()
    };
    assert!(foresee(0, &from, &first));
    assert!(!foresee(0, &from, &second), "it is not its turn");
    assert!(!foresee(0, &elsewhere, &first) && !foresee(1, &from, &first));
    assert!(!foresee(0, &from, &forged));
    assert!(foresee(0, &from, &first), "nothing was changed by asking");
}

/// A message that waited for company would leave with a number, and be acknowledged, and so would all behind it.
#[test]
fn nothing_waits_for_company_where_messages_are_given() {
    for is_private in [true, false] {
        let mut net = if is_private { pair(1000) } else { Net::joined() };
        awake(&mut net);
        net.send(A, B, 1, 8);
        net.pump();
        let peer = net.peer(A, B);
        assert_eq!(net.ep(A).is_busy(peer), !is_private, "a numbered one is under way");
    }
}
