//! PROTOCOL §1, §2: what is damaged, forged or senseless is counted and dropped; and no number is trusted.

use packhorse_proto::wire::{
    self, AckRepr, Class, EagerRepr, FoundRepr, Header, Lane, MessageHead,
};
use packhorse_proto::*;

use crate::net::*;

#[test]
fn damaged_header_or_head_is_dropped_unanswered() {
    let mut net = Net::joined();
    net.settle();
    net.hold_next(A, Kind::Eager);
    net.recv(B, tagged(1), 8);
    net.send(A, B, 1, 8);
    net.run_until(|net| net.held_count() > 0);
    net.kill(A);
    let frame = net.log.last().unwrap().clone();
    let before = net.count(B, "frames_unkeyed");
    let heads_len = frame.bytes.len() - 8;
    for at in 0..heads_len {
        for bit in 0..8 {
            let mut bytes = frame.bytes.clone();
            bytes[at] ^= 1 << bit;
            net.inject(B, frame.source, &bytes);
        }
    }
    for len in 0..frame.bytes.len() {
        net.inject(B, frame.source, &frame.bytes[..len]);
    }
    let longer = [&frame.bytes[..], &[0]].concat();
    net.inject(B, frame.source, &longer);
    let dropped = 8 * heads_len + frame.bytes.len() + 1;
    assert_eq!(net.count(B, "frames_unkeyed") - before, dropped as u64);
    let out = net.count(B, "frames_out");
    net.pump();
    assert_eq!((net.count(B, "frames_out"), net.count(B, "messages_in")), (out, 2));
    net.inject(B, frame.source, &frame.bytes);
    assert_eq!(net.count(B, "messages_in"), 3, "the right one is right");
}

#[test]
fn frame_that_makes_no_sense_is_malformed_and_unacknowledged() {
    let eager = |len: u16| MessageHead {
        class: Class::Eager,
        space: Space(0),
        message: 2,
        tag: Tag(1),
        offset: 0,
        total: u64::from(len),
        immediate: None,
        wants_match: false,
        len,
        ahead: 0,
    };
    let mut net = Net::joined();
    let before = net.count(B, "frames_in");
    net.forge(A, B, |_| (), &[]); // no record at all
    net.forge(A, B, |writer| writer.message(&eager(8)), &[0; 7]); // a body too short
    net.forge(A, B, |writer| writer.message(&eager(8)), &[0; 9]); // and too long
    let beyond = MessageHead { class: Class::Fragment, offset: 8, total: 8, ..eager(8) };
    net.forge(A, B, |writer| writer.message(&beyond), &[0; 8]);
    assert_eq!(net.count(B, "frames_malformed"), 4);
    assert_eq!(net.count(B, "frames_in"), before);
    let out = net.count(B, "frames_out");
    net.pump();
    assert_eq!(net.count(B, "frames_out"), out);
}

#[test]
fn first_contact_must_begin_with_a_hello_that_can_be_read() {
    let mut net = Net::new(2);
    let first = Header { to: 0, packet: 0, path: 0, form: 1 };
    net.forge_as(A, B, first, |writer| writer.ping(), &[]);
    assert_eq!(net.count(B, "frames_malformed"), 1);
    // Masked under another secret than ours: the address inside makes no sense.
    let address = net.nodes[A].ep.address();
    let hello = wire::HelloRepr {
        who: wire::Introduction {
            flags: 0,
            versions: 0x11,
            frame_len_max: 1472,
            incarnation: 5,
            id: 6,
            nonce: 7,
        },
        address,
        locators: &[],
    };
    net.forge_as(A, B, first, |writer| writer.hello(&hello, Secret([8, 9])), &[]);
    assert_eq!(net.count(B, "frames_malformed"), 2);
    net.pump();
    assert_eq!(net.count(B, "frames_out"), 0, "unanswered");
}

/// A joined pair that B's frames are forged for; afterwards it must still work.
fn survives(attack: impl FnOnce(&mut Net)) -> Net {
    let mut net = Net::joined();
    let busy = [net.send(A, B, 50, 8), net.send(A, B, 51, 200_000)];
    net.run_for(MS);
    attack(&mut net);
    net.run_for(MS);
    net.recv(B, tagged(50), 8);
    net.recv(B, tagged(51), 200_000);
    net.settle();
    for req in busy {
        let _ = net.sent(A, req);
    }
    net
}

#[test]
fn ack_of_packets_never_sent_is_not_believed() {
    let net = survives(|net| {
        for (path, largest, first_len) in
            [(0, 1 << 20, 1), (0, 5000, 5000), (9, 1, 1), (0, u32::MAX, u32::MAX)]
        {
            let ack = AckRepr { path, largest, first_len, delay_ns: 0, credit_len: u32::MAX };
            net.forge(B, A, |writer| writer.ack(&ack, &[]), &[]);
        }
        let ack = AckRepr { path: 0, largest: 3, first_len: 1, delay_ns: 0, credit_len: 0 };
        net.forge(B, A, |writer| writer.ack(&ack, &[(1, u32::MAX), (u32::MAX, 1)]), &[]);
    });
    assert!(net.count(A, "frames_malformed") > 0);
}

#[test]
fn senseless_notices_harm_nobody() {
    let mut net = survives(|net| {
        for message in [0, 1, 2, 3, 4, 1000, u32::MAX / 2, u32::MAX] {
            net.forge(B, A, |writer| writer.grant(Lane::Message, message, 0, u64::MAX), &[]);
            net.forge(B, A, |writer| writer.grant(Lane::Message, message, u64::MAX, 0), &[]);
            net.forge(B, A, |writer| writer.recall(message, 7), &[]);
            net.forge(A, B, |writer| writer.data(Lane::Message, message, 4, 12), &[1; 4]);
            let found = FoundRepr {
                query: message,
                space: Space(0),
                tag: Tag(50),
                message,
                total: 1 << 60,
                immediate: None,
                none: false,
            };
            net.forge(A, B, |writer| writer.found(&found), &[]);
            net.forge(B, A, |writer| writer.query(message, Space(0), Tag(9), 0), &[]);
        }
        for path in [0, 1, 255] {
            let to = net.id_used(A, B);
            let header = Header { to, packet: 77, path, form: 1 };
            net.forge_as(A, B, header, |writer| writer.ping(), &[]);
            let header = Header { packet: 0, ..header };
            net.forge_as(A, B, header, |writer| writer.path_challenge(path, 3), &[]);
            net.forge_as(A, B, header, |writer| writer.versions(1, 2, 3), &[]);
        }
    });
    let recv = net.recv(B, tagged(60), 8);
    net.send(A, B, 60, 8);
    net.settle();
    net.assert_got(B, recv, 60, 8);
}

#[test]
fn refusal_out_of_nowhere_can_be_recalled() {
    let mut net = survives(|net| {
        for (message, order) in [(2, 1), (0, 2), (u32::MAX, 3), (3, 2)] {
            net.forge(B, A, |writer| writer.refuse(message, order), &[]);
        }
        net.run_for(MS);
        net.forge(B, A, |writer| writer.recall(0, 4), &[]);
    });
    let recv = net.recv(B, tagged(60), 8);
    let req = net.send(A, B, 60, 8);
    net.settle();
    net.assert_got(B, recv, 60, 8);
    assert_eq!(net.sent(A, req), Some(Ok(())));
}

#[test]
fn done_and_cancel_of_unknown_messages_are_ignored() {
    let mut net = survives(|net| {
        for message in [0, 1, 77, u32::MAX] {
            net.forge(B, A, |writer| writer.done(message, 9, u64::MAX), &[]);
        }
        for message in [0, 1] {
            net.forge(A, B, |writer| writer.cancel(message), &[]);
        }
    });
    assert_eq!((net.left(A).len(), net.left(B).len()), (0, 0));
}

#[test]
fn fragment_of_one_message_cannot_write_outside_another() {
    let mut net = Net::joined();
    let recv = net.recv(B, tagged(1), 3000);
    let fragment = |offset, total, len: u16| MessageHead {
        class: Class::Fragment,
        space: Space(0),
        message: 2,
        tag: Tag(1),
        offset,
        total,
        immediate: None,
        wants_match: false,
        len,
        ahead: 0,
    };
    net.forge(A, B, |writer| writer.message(&fragment(0, 3000, 1000)), &[1; 1000]);
    // The same number with another length: what lies beyond the first claim is ignored.
    net.forge(A, B, |writer| writer.message(&fragment(5000, 6000, 1000)), &[2; 1000]);
    net.forge(A, B, |writer| writer.message(&fragment(2500, 6000, 1000)), &[3; 1000]);
    net.forge(A, B, |writer| writer.message(&fragment(1000, 3000, 1500)), &[4; 1500]);
    let got = net.got(B, recv).unwrap();
    assert_eq!((got.placed_len, got.envelope.len), (3000, 3000));
    let bytes = net.bytes(B, recv.buf);
    assert!(bytes[..1000] == [1; 1000] && bytes[2500..] == [3; 500]);
}

#[test]
fn fragments_with_too_many_holes_are_refused_until_they_are_filled() {
    let mut net = Net::joined();
    let total = 10_000;
    let recv = net.recv(B, tagged(1), total as usize);
    let byte = |at: u32| MessageHead {
        class: Class::Fragment,
        space: Space(0),
        message: 2,
        tag: Tag(1),
        offset: at,
        total: u64::from(total),
        immediate: None,
        wants_match: false,
        len: 1,
        ahead: 0,
    };
    for at in (0..total).step_by(2) {
        net.forge(A, B, |writer| writer.message(&byte(at)), &[7]);
    }
    assert!(net.nodes[B].ram.placed_len < 1000, "a bound on what holes may cost");
    for at in 0..total {
        net.forge(A, B, |writer| writer.message(&byte(at)), &[7]);
    }
    assert_eq!(net.got(B, recv).unwrap().placed_len, u64::from(total));
}

#[test]
fn answers_wait_in_a_queue_that_is_bounded() {
    let mut net = Net::new(2);
    net.send(A, B, 1, 8);
    net.hold_next(A, Kind::Hello);
    net.run_until(|net| net.held_count() > 0);
    let hello = net.log[0].clone();
    for _ in 0..1000 {
        net.inject(B, hello.source, &hello.bytes);
    }
    net.log.clear();
    net.pump();
    assert_eq!(net.seen(B, Kind::Challenge), 256);
}

#[test]
fn settings_that_make_no_sense_are_named() {
    let open = |settings: Settings, limits: Limits| {
        let opening = Opening {
            secret: Secret([1, 2]),
            identity: identity_of(A),
            entropy: [1, 2, 3, 4],
            locators: vec![Locator::default()],
        };
        Endpoint::open(opening, limits, settings, Instant(0)).err().map(|error| error.name)
    };
    let set = |change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        open(settings, Limits::default())
    };
    assert_eq!(set(&|_| ()), None);
    assert_eq!(set(&|s| s.frame_len_max = 1199), Some("frame_len_max"));
    assert_eq!(set(&|s| s.frame_len_max = 1200), None);
    assert_eq!(set(&|s| s.eager_len_max = (1 << 20) + 1), Some("eager_len_max"));
    assert_eq!(set(&|s| s.eager_len_max = 1 << 20), None);
    for (grant_packets, named) in [(0, Some("grant_packets")), (1, None), (4096, None)] {
        assert_eq!(set(&|s| s.grant_packets = grant_packets), named);
    }
    assert_eq!(set(&|s| s.grant_packets = 4097), Some("grant_packets"));
    for (count, named) in [(0, Some("grants_in_flight")), (1, None), (64, None)] {
        assert_eq!(set(&|s| s.grants_in_flight = count), named);
    }
    assert_eq!(set(&|s| s.grants_in_flight = 65), Some("grants_in_flight"));
    assert_eq!(set(&|s| s.ack_every = 257), Some("ack_every"));
    assert_eq!(set(&|s| s.ack_every = 256), None);
    assert_eq!(set(&|s| s.ack_delay_ns = SECOND + 1), Some("ack_delay_ns"));
    for (rtt_ns, named) in [(999, Some("initial_rtt_ns")), (1000, None), (10 * SECOND, None)] {
        assert_eq!(set(&|s| s.initial_rtt_ns = rtt_ns), named);
    }
    assert_eq!(set(&|s| s.initial_rtt_ns = 10 * SECOND + 1), Some("initial_rtt_ns"));
    for versions in [(0, 1), (2, 1), (1, 16)] {
        assert_eq!(set(&|s| s.versions = versions), Some("versions"));
    }
    let limit = |change: &dyn Fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        open(Settings::default(), limits)
    };
    assert_eq!(limit(&|l| l.held_len_max = (32 << 10) - 1), Some("held_len_max"));
    assert_eq!(limit(&|l| l.held_len_max = 32 << 10), None);
    assert_eq!(limit(&|l| l.envelope_count_max = 3), Some("envelope_count_max"));
    assert_eq!(limit(&|l| l.peer_count_max = 0), Some("peer_count_max"));
    assert_eq!(limit(&|l| l.peer_count_max = 1 << 23), Some("peer_count_max"));
    assert_eq!(limit(&|l| l.grant_len_max = 1471), Some("grant_len_max"));
}

#[test]
fn endpoint_says_what_it_waits_for() {
    let mut net = Net::new(2);
    net.send(A, B, 1, 8);
    net.pump();
    let timeouts = net.ep(A).timeouts();
    let next = timeouts.iter().map(|&(_, at)| at).min();
    assert_eq!(next, Some(net.ep(A).next_timeout()));
    assert!(timeouts.iter().any(|&(name, at)| name == "peers" && at != Instant::NEVER));
}

#[test]
fn numbers_of_cancelled_messages_are_held_within_bounds() {
    let tight = Plan::with(|_, limits| limits.envelope_count_max = 4);
    let mut net = Net::of(&[Plan::default(), tight]);
    net.join(A, B);
    for chunk in 0..12 {
        let write = |writer: &mut wire::Writer<'_>| {
            (0..8000).for_each(|number| writer.cancel(100 + chunk * 8000 + number));
        };
        net.forge(A, B, write, &[]);
    }
    // Of a cancelled number a message is a duplicate; of one that was not taken it is new, before its turn.
    let mut kind_of = |message| {
        let before = net.count(B, "messages_duplicate");
        let head = MessageHead { message, ..EARLY };
        net.forge(A, B, |writer| writer.message(&head), &[7; 4]);
        if net.count(B, "messages_duplicate") > before { "cancelled" } else { "new" }
    };
    assert_eq!((kind_of(100), kind_of(100 + 8 * 8000)), ("cancelled", "cancelled"));
    assert_eq!((kind_of(100 + 9 * 8000), kind_of(100 + 12 * 8000 - 1)), ("new", "new"));
}

const EARLY: MessageHead = MessageHead {
    class: Class::Eager,
    space: Space(0),
    message: 5,
    tag: Tag(1),
    offset: 0,
    total: 4,
    immediate: None,
    wants_match: false,
    len: 4,
    ahead: 0,
};

#[test]
fn second_copy_of_an_early_record_is_a_duplicate() {
    let mut net = Net::joined();
    let early = EARLY;
    for _ in 0..3 {
        net.forge(A, B, |writer| writer.message(&early), &[7; 4]);
    }
    assert_eq!((net.count(B, "messages_early"), net.count(B, "messages_duplicate")), (1, 2));
    assert_eq!(net.ep(B).held().1, 1);
    net.forge(A, B, |writer| writer.cancel(5), &[]); // whole and held: it stays
    assert_eq!(net.ep(B).held().1, 1);
    net.forge(A, B, |writer| writer.cancel(6), &[]);
    net.forge(A, B, |writer| writer.cancel(6), &[]); // twice is once
    let after = MessageHead { message: 6, ..early };
    net.forge(A, B, |writer| writer.message(&after), &[7; 4]);
    assert_eq!(net.count(B, "messages_duplicate"), 3, "withdrawn: not taken any more");
}

#[test]
fn repeated_announcement_without_room_for_its_bytes_is_harmless() {
    let tight = Plan::with(|_, limits| limits.held_len_max = 32 << 10);
    let mut net = Net::of(&[Plan::default(), tight]);
    net.join(A, B);
    net.send(A, B, 9, 32 << 10); // fills the budget
    net.settle();
    let rts = MessageHead {
        class: Class::Rts,
        space: Space(0),
        message: 3,
        tag: Tag(1),
        offset: 0,
        total: 100_000,
        immediate: None,
        wants_match: false,
        len: 1000,
        ahead: 0,
    };
    for _ in 0..2 {
        net.forge(A, B, |writer| writer.message(&rts), &[7; 1000]);
    }
    assert_eq!((net.count(B, "refusals"), net.count(B, "rendezvous_in")), (0, 1));
    assert_eq!(net.ep(B).probe(&tagged(1)).unwrap().len, 100_000);
}

#[test]
fn questions_faster_than_answers_are_dropped() {
    let mut net = Net::joined();
    net.send(A, B, 50, 8);
    net.log.clear();
    let write = |writer: &mut wire::Writer<'_>| {
        (0..2000).for_each(|query| writer.query(query, Space(0), Tag(9), 0));
    };
    net.forge(B, A, write, &[]);
    net.pump();
    let says = |sight: &&Sight| sight.says().iter().filter(|&&kind| kind == Kind::Found).count();
    let answers: usize = net.sights(A, Kind::Found).iter().map(says).sum();
    assert!(answers > 0 && answers < 2000, "{answers} answers to 2000 questions");
}

/// A introduces itself with eight places, of which seven are somebody else's: nobody there answers. B can send to all of them.
fn names_places_of_others(more_links: usize) -> Net {
    let mut a = Plan::with(|settings, _| settings.frame_len_max = 9_000);
    let b = Plan { more_links, ..a.clone() };
    a.more_links = 7;
    let mut net = Net::of(&[a, b]);
    net.reach = Some(Box::new(|_, link, _| (link == 0).then_some(9_000)));
    let own = net.nodes[A].locators[0];
    net.drop_where(move |sight| sight.from == B && sight.target != own);
    net
}

/// Bytes that B sent to places that never answered, and bytes that B got from A.
fn reflected(net: &Net) -> (usize, usize) {
    let own = net.nodes[A].locators[0];
    let sum = |of: &dyn Fn(&Sight) -> bool| -> usize {
        net.log.iter().filter(|sight| of(sight)).map(|sight| sight.bytes.len()).sum()
    };
    (sum(&|sight| sight.from == B && sight.target != own), sum(&|sight| sight.from == A))
}

#[test]
fn places_that_a_peer_names_get_no_more_than_three_times_what_it_sent() {
    let mut net = names_places_of_others(0);
    let recv = net.recv(B, tagged(1), 8);
    net.send(A, B, 1, 8);
    net.run_for(600 * SECOND);
    net.assert_got(B, recv, 1, 8);
    let (out, sent) = reflected(&net);
    assert!(out > 0, "they are asked");
    assert!(out <= 3 * sent, "{out} bytes to others for {sent} bytes");
    // A word now and then, between which both sides rest.
    for n in 0..200 {
        net.recv(B, tagged(2), 8);
        net.send(A, B, 2, 8);
        net.run_for((1 + n % 7) * SECOND);
        let (out, sent) = reflected(&net);
        assert!(out <= 3 * sent, "{out} bytes to others for {sent} bytes");
    }
    let longest = net.log.iter().filter(|sight| sight.from == B && sight.has(Kind::PathChallenge));
    assert!(longest.map(|sight| sight.bytes.len()).max() <= Some(40), "none is padded");
}

/// A question by a stream that is not there opens one: TCP asks six times, in packets of sixty bytes, before it gives up.
#[test]
fn streams_to_places_that_a_peer_names_are_bounded_by_what_it_sent() {
    const OPENING_LEN: usize = 6 * 60;
    let mut net = names_places_of_others(1);
    for node in [A, B] {
        let way = LinkTraits { frame_len_max: 9_000, train_len_max: 65_000, ..PLAIN };
        net.ep(node).set_link(0, way);
        let reliability = Reliability::Ordered { may_break: true };
        net.ep(node).set_link(1, LinkTraits { reliability, ..way });
    }
    let own = net.nodes[A].locators[0];
    net.reach = Some(Box::new(move |node, link, to| {
        ((*to == own) == (link == 0) && (node, link) != (A, 1)).then_some(9_000)
    }));
    for tag in 1..4 {
        let recv = net.recv(A, tagged(tag), 100_000);
        net.send(B, A, tag, 100_000);
        net.run_for(30 * SECOND);
        net.assert_got(A, recv, tag, 100_000);
        let opened = net.log.iter().filter(|sight| sight.from == B && sight.link == 1).count();
        let (_, sent) = reflected(&net);
        assert!(opened > 0, "they are asked");
        assert!(opened * OPENING_LEN <= 3 * sent, "{opened} streams to others for {sent} bytes");
    }
}

/// A message in the name of a joined peer: the next of A's to B.
const NEXT: MessageHead = MessageHead { message: 2, ..EARLY };

#[test]
fn who_sits_on_the_path_can_alter_a_body_that_is_not_summed() {
    // Not a virtue: bodies are not authenticated. SECURITY.md says so.
    let mut net = Net::joined();
    let recv = net.recv(B, tagged(1), 8);
    net.rule(
        1,
        |sight| sight.has(Kind::Eager),
        Fate::Alter(Box::new(|frame| {
            *frame.last_mut().unwrap() ^= 0xFF;
        })),
    );
    net.send(A, B, 1, 8);
    net.settle();
    let mut altered = pattern(1, 8);
    altered[7] ^= 0xFF;
    assert!(net.got(B, recv).is_some());
    assert_eq!(net.bytes(B, recv.buf), altered);
}

#[test]
fn holder_of_the_same_address_who_hears_the_frames_can_speak_for_another() {
    // Not a virtue either: all frames to an endpoint are keyed with its one secret.
    let mut net = Net::new(3);
    net.join(A, B);
    net.settle();
    let recv = net.recv_from(B, A, 1, 4);
    let heard = net.log.iter().rfind(|sight| sight.from == A && sight.to == Some(B)).unwrap();
    let header = Header { packet: heard.view().header.packet + 1, ..heard.view().header };
    net.forge_as(C, B, header, |writer| writer.message(&NEXT), &[7; 4]);
    assert!(net.got(B, recv).is_some());
}

#[test]
fn who_does_not_hear_the_frames_must_guess_the_association() {
    let mut net = Net::new(3);
    net.join(A, B);
    net.settle();
    let recv = net.recv(B, anything(), 4);
    let id = net.id_used(A, B);
    let out = net.count(B, "frames_out");
    for guess in 1..10_000_u64 {
        // The row is easy to guess, the 39 random bits above it are not.
        let to = id ^ guess.wrapping_mul(0x9E37_79B9_7F4A_7C15) << 25;
        let header = Header { to, packet: 5, path: 0, form: 1 };
        net.forge_as(C, B, header, |writer| writer.message(&NEXT), &[7; 4]);
    }
    net.pump();
    assert_eq!((net.got(B, recv), net.count(B, "frames_out")), (None, out), "no word, no hint");
    assert_eq!(net.left(B), []);
}

/// §1.1: whoever sets such a bit means something by it, encryption perhaps, that this version would read as plain bytes.
#[test]
fn frames_with_bits_that_mean_nothing_yet_are_dropped() {
    for bit in [0x20, 0x40, 0x80] {
        let mut net = Net::new(2);
        net.join(A, B);
        let recv = net.recv(B, anything(), 8);
        let to = net.id_used(A, B);
        let key = net.nodes[B].ep.address().secret;
        let before = net.count(B, "frames_unkeyed");
        let source = net.nodes[A].locators[0];
        let mut ping = vec![];
        wire::Writer::begin(&mut ping, Header { to, packet: 9, path: 0, form: 1 | bit }).ping();
        wire::seal(&mut ping, 0, key, None);
        net.inject(B, source, &ping);
        let eager =
            EagerRepr { space: Space(0), message: 0, tag: Tag(0), wants_match: false, len: 8 };
        let mut lone = vec![];
        let header = Header { to, packet: 10, path: 0, form: 1 | bit };
        wire::Writer::begin(&mut lone, header).eager(eager, None);
        wire::seal(&mut lone, 8, key, None);
        lone.extend([7; 8]);
        net.inject(B, source, &lone);
        assert_eq!(net.count(B, "frames_unkeyed"), before + 2, "bit {bit:#x}");
        assert!(net.got(B, recv).is_none());
    }
}
