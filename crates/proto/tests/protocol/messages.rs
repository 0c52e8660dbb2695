//! PROTOCOL §7.1-§7.4, §7.7, §7.8: classes of messages, order, levels, cancel, truncation.

use packhorse_proto::wire::Record;
use packhorse_proto::*;

use crate::net::*;

/// Lengths of every class: empty, small, a frame, fragments, the eager limit, large.
const LENGTHS: [usize; 9] = [0, 1, 8, 1000, 1424, 5000, 32 << 10, (32 << 10) + 1, 300_000];

#[test]
fn messages_of_every_class_arrive_expected_and_unexpected() {
    for expected in [true, false] {
        for payload_check in [true, false] {
            let mut net = Net::pair(|settings, _| settings.payload_check = payload_check);
            for (tag, &len) in LENGTHS.iter().enumerate() {
                let tag = tag as u64;
                let early = expected.then(|| net.recv(B, tagged(tag), len));
                let immediate = (tag % 2 == 1).then_some(tag << 40);
                let spec = SendSpec { immediate, ..net.spec(A, B, tag, len) };
                let req = net.post(A, spec);
                net.settle();
                let recv = early.unwrap_or_else(|| net.recv(B, tagged(tag), len));
                net.settle();
                net.assert_got(B, recv, tag, len);
                let source = net.peer(B, A);
                let envelope =
                    Envelope { source, space: Space(0), tag: Tag(tag), immediate, len: len as u64 };
                assert_eq!(net.got(B, recv).unwrap().envelope, envelope);
                assert_eq!(net.sent(A, req), Some(Ok(())), "{len} bytes, expected {expected}");
            }
            assert_eq!(net.ep(B).held(), (0, 0), "nothing is held any more");
        }
    }
}

#[test]
fn small_messages_share_frames() {
    let mut net = Net::joined();
    net.run_for(100 * MS);
    net.log.clear();
    for tag in 0..50 {
        net.send(A, B, tag, 8);
    }
    net.run_for(MS);
    let sights = net.sights(A, Kind::Eager);
    assert_eq!(sights.len(), 1);
    assert_eq!(sights[0].says().iter().filter(|&&kind| kind == Kind::Eager).count(), 50);
}

#[test]
fn message_that_fits_a_frame_is_not_cut() {
    let mut net = Net::joined();
    net.run_for(100 * MS);
    net.log.clear();
    for tag in 0..4 {
        net.send(A, B, tag, 900); // two do not fit one frame
    }
    net.run_for(MS);
    assert_eq!((net.seen(A, Kind::Eager), net.seen(A, Kind::Fragment)), (4, 0));
}

/// The lengths of all pieces, frame by frame, when messages of these lengths are sent at once and nobody receives.
fn pieces(lens: &[usize]) -> Vec<Vec<usize>> {
    let mut net = Net::joined();
    net.run_for(100 * MS);
    net.log.clear();
    for (tag, &len) in lens.iter().enumerate() {
        net.send(A, B, tag as u64, len);
    }
    net.run_for(MS);
    let lens_of = |sight: &Sight| -> Vec<usize> {
        let records = sight.view().records();
        let messages = records.filter(|(record, _)| matches!(record, Record::Message(_)));
        messages.map(|(_, body)| body.len()).collect()
    };
    let frames = net.log.iter().filter(|sight| sight.from == A).map(lens_of);
    frames.filter(|lens| !lens.is_empty()).collect()
}

#[test]
fn last_fragment_shares_its_frame_with_what_is_worth_it() {
    let full = 1472 - 24 - 24;
    let behind = full - 24; // what a fragment of no bytes leaves to one behind it
    assert_eq!(pieces(&[2000, 900]), [vec![full], vec![2000 - full], vec![900]], "900 fit a frame");
    // 64 bytes of the next are worth it, 63 are not.
    let (last, rest) = (behind - 64, 3000 - 2 * full);
    let lens = [vec![full], vec![last, 64], vec![full], vec![full], vec![rest - 64]];
    assert_eq!(pieces(&[full + last, 3000]), lens);
    let lens = [vec![full], vec![last + 1], vec![full], vec![full], vec![rest]];
    assert_eq!(pieces(&[full + last + 1, 3000]), lens);
    // The first bytes of a large message likewise.
    assert_eq!(pieces(&[full + last, 100_000]), [vec![full], vec![last, 64]]);
    assert_eq!(pieces(&[full + last + 1, 100_000]), [vec![full], vec![last + 1], vec![full]]);
}

#[test]
fn fragments_arrive_in_any_order() {
    for posted in [true, false] {
        let mut net = Net::joined();
        net.settle();
        net.delay_next(A, Kind::Fragment, 3 * US);
        net.delay_next(A, Kind::Fragment, 2 * US);
        net.delay_next(A, Kind::Fragment, 10 * MS);
        let early = posted.then(|| net.recv(B, tagged(1), 10_000));
        net.send(A, B, 1, 10_000);
        net.run_for(MS);
        let recv = early.unwrap_or_else(|| net.recv(B, tagged(1), 10_000));
        net.settle();
        net.assert_got(B, recv, 1, 10_000);
        assert_eq!(net.count(B, "messages_in"), 3);
    }
}

#[test]
fn lost_fragment_is_sent_again_alone() {
    let mut net = Net::joined();
    net.settle();
    net.log.clear();
    net.drop_next(A, Kind::Fragment);
    let recv = net.recv(B, tagged(1), 30_000);
    let req = net.send(A, B, 1, 30_000);
    net.settle();
    net.assert_got(B, recv, 1, 30_000);
    assert_eq!(net.sent(A, req), Some(Ok(())));
    assert_eq!(net.seen(A, Kind::Fragment), 30_000_usize.div_ceil(1416) + 1);
}

#[test]
fn message_is_matched_when_all_before_it_are_known() {
    let mut net = Net::joined();
    net.settle();
    let first = net.recv(B, anything(), 8);
    let second = net.recv(B, anything(), 8);
    net.hold_next(A, Kind::Eager);
    net.send(A, B, 1, 8);
    net.run_for(US);
    net.send(A, B, 2, 8);
    net.run_for(DELAY_NS + US);
    assert_eq!(net.count(B, "messages_early"), 1);
    assert_eq!((net.got(B, first), net.got(B, second)), (None, None), "not before its turn");
    assert_eq!(net.ep(B).held().1, 1, "held against the budget");
    net.release();
    net.settle();
    net.assert_got(B, first, 1, 8);
    net.assert_got(B, second, 2, 8);
    assert_eq!(net.ep(B).held(), (0, 0));
}

#[test]
fn order_holds_over_all_sizes() {
    let mut net = Net::joined();
    net.settle();
    let lengths = [100_000, 8, 20_000, 0, 1400, 50_000, 8];
    net.drop_next(A, Kind::Rts);
    let recvs: Vec<Recv> = lengths.iter().map(|_| net.recv(B, anything(), 100_000)).collect();
    for (tag, &len) in lengths.iter().enumerate() {
        net.send(A, B, tag as u64, len);
    }
    net.settle();
    for (tag, (&recv, &len)) in recvs.iter().zip(&lengths).enumerate() {
        net.assert_got(B, recv, tag as u64, len);
    }
}

#[test]
fn early_messages_of_every_class_wait_for_their_turn() {
    for len in [0, 8, 5000, 100_000] {
        for posted in [true, false] {
            let mut net = Net::joined();
            net.settle();
            net.hold_next(A, Kind::Eager);
            net.send(A, B, 1, 8);
            net.run_for(US);
            let early = posted.then(|| net.recv(B, tagged(2), len));
            let req = net.send(A, B, 2, len);
            net.run_for(DELAY_NS * 3);
            net.release();
            net.settle();
            let recv = early.unwrap_or_else(|| net.recv(B, tagged(2), len));
            net.settle();
            net.assert_got(B, recv, 2, len);
            assert_eq!(net.sent(A, req), Some(Ok(())), "{len} bytes, posted {posted}");
        }
    }
}

#[test]
fn record_of_a_taken_message_is_a_duplicate() {
    let mut net = Net::joined();
    net.settle();
    let recv = net.recv(B, tagged(1), 8);
    net.hold_next(A, Kind::Eager); // taken for lost, sent again, then it arrives too
    net.send(A, B, 1, 8);
    net.run_until(|net| net.got(B, recv).is_some());
    net.release();
    net.settle();
    assert_eq!(net.count(B, "messages_duplicate"), 1);
    net.assert_got(B, recv, 1, 8);
}

#[test]
fn record_of_an_early_message_is_a_duplicate_too() {
    let mut net = Net::joined();
    net.settle();
    net.hold_next(A, Kind::Eager);
    net.send(A, B, 1, 8);
    net.run_for(US);
    net.hold_next(A, Kind::Eager);
    net.send(A, B, 2, 8);
    net.run_for(US);
    net.drop_where(|sight| sight.from == A && sight.has(Kind::Eager) && sight.packet() < 9);
    net.mute(B);
    net.run_for(20 * MS);
    net.heal();
    net.release();
    net.settle();
    let (first, second) = (net.recv(B, anything(), 8), net.recv(B, anything(), 8));
    net.assert_got(B, first, 1, 8);
    net.assert_got(B, second, 2, 8);
}

#[test]
fn accepted_needs_no_receive_and_matched_does() {
    for len in [0, 8, 5000] {
        let mut net = Net::new(2);
        let accepted = net.send(A, B, 1, len);
        let matched = net.send_matched(A, B, 2, len);
        net.settle();
        assert_eq!(net.sent(A, accepted), Some(Ok(())));
        assert_eq!(net.sent(A, matched), None);
        net.recv(B, tagged(2), len);
        net.settle();
        assert_eq!(net.sent(A, matched), Some(Ok(())), "{len} bytes");
    }
}

#[test]
fn matched_completes_at_once_when_the_receive_waits() {
    for len in [0, 8, 5000, 100_000] {
        let mut net = Net::new(2);
        net.recv(B, tagged(2), len);
        let matched = net.send_matched(A, B, 2, len);
        net.settle();
        assert_eq!(net.sent(A, matched), Some(Ok(())), "{len} bytes");
    }
}

#[test]
fn large_send_completes_only_when_received() {
    let mut net = Net::new(2);
    let req = net.send(A, B, 1, 100_000);
    net.settle();
    assert_eq!(net.sent(A, req), None);
    net.recv(B, tagged(1), 100_000);
    net.settle();
    assert_eq!(net.sent(A, req), Some(Ok(())));
}

#[test]
fn lost_done_is_sent_again_and_completes_once() {
    for len in [8, 100_000] {
        let mut net = Net::new(2);
        net.drop_next(B, Kind::Done);
        net.recv(B, tagged(1), len);
        let req = net.send_matched(A, B, 1, len);
        net.settle();
        assert_eq!(net.sent(A, req), Some(Ok(())));
        assert_eq!(net.seen(B, Kind::Done), 2, "the lost one and its repeat");
    }
}

fn copied(peer: PeerId, tag: u64, bytes: &[u8]) -> SendSpec<'_> {
    SendSpec {
        peer,
        space: Space(0),
        tag: Tag(tag),
        immediate: None,
        payload: Payload::Copied(bytes),
        until_matched: true,
        user: 0,
    }
}

#[test]
fn copied_payload_is_the_callers_again_and_has_no_event() {
    let mut net = Net::new(2);
    let peer = net.peer(A, B);
    for (tag, len) in [(0, 0), (1, 8), (2, 32 << 10)] {
        let recv = net.recv(B, tagged(tag), len);
        net.drop_next(A, Kind::Eager); // the pool keeps it for the repeat
        let bytes = pattern(tag, len);
        let req = net.post(A, copied(peer, tag, &bytes));
        drop(bytes);
        assert!(!net.nodes[A].ep.cancel(net.now, req), "complete since its post");
        net.settle();
        net.assert_got(B, recv, tag, len);
        assert_eq!(net.sent(A, req), None);
    }
}

#[test]
fn resend_pool_pushes_back_and_is_given_back() {
    let small = Plan::with(|_, limits| limits.copied_len_max = 64 << 10);
    let mut net = Net::of(&[small, Plan::default()]);
    let peer = net.peer(A, B);
    let now = net.now;
    let bytes = pattern(1, 16 << 10);
    let too_long = pattern(1, (32 << 10) + 1);
    let error = net.ep(A).post_send(now, copied(peer, 1, &too_long)).unwrap_err();
    assert_eq!(error, PostError::TooLong { len_max: 32 << 10 });
    let post = |net: &mut Net| {
        (0..).take_while(|_| net.ep(A).post_send(now, copied(peer, 1, &bytes)).is_ok()).count()
    };
    let count = post(&mut net);
    assert!((2..=4).contains(&count), "{count} × 16 KB fit 64 KB");
    let error = net.ep(A).post_send(now, copied(peer, 1, &bytes)).unwrap_err();
    assert_eq!(error, PostError::PoolFull);
    net.settle();
    assert_eq!(net.count(B, "messages_in"), count as u64);
    assert_eq!(post(&mut net), count, "accepted: the room is back");
}

#[test]
fn truncated_messages_report_both_lengths() {
    for (len, room) in [(8, 3), (8, 0), (5000, 1500), (5000, 0), (100_000, 40_000), (100_000, 10)] {
        for posted in [true, false] {
            let mut net = Net::new(2);
            let early = posted.then(|| net.recv(B, tagged(1), room));
            let req = net.send_matched(A, B, 1, len);
            net.settle();
            let recv = early.unwrap_or_else(|| net.recv(B, tagged(1), room));
            net.settle();
            let got = net.got(B, recv).unwrap();
            assert_eq!(got.result, Ok(()), "{len} into {room}");
            assert_eq!((got.envelope.len, got.placed_len), (len as u64, room as u64));
            assert!(net.bytes(B, recv.buf) == &pattern(1, len)[..room]);
            assert_eq!(net.sent(A, req), Some(Ok(())));
            assert_eq!(net.ep(B).held(), (0, 0));
        }
    }
}

#[test]
fn truncation_grants_only_what_fits() {
    let mut net = Net::new(2);
    net.recv(B, tagged(1), 50_000);
    net.send(A, B, 1, 1 << 20);
    net.settle();
    let data = net.sights(A, Kind::Data).iter().map(|sight| sight.bytes.len()).sum::<usize>();
    assert!(data < 55_000, "{data} bytes for a receive of 50000");
}

#[test]
fn self_sends_of_every_class_arrive() {
    for posted in [true, false] {
        let mut net = Net::new(1);
        for (tag, &len) in LENGTHS.iter().enumerate() {
            let tag = tag as u64;
            let early = posted.then(|| net.recv_from(A, A, tag, len));
            let req = net.send_matched(A, A, tag, len);
            net.settle();
            let recv = early.unwrap_or_else(|| net.recv(A, tagged(tag), len));
            net.settle();
            net.assert_got(A, recv, tag, len);
            assert_eq!(net.sent(A, req), Some(Ok(())), "{len} bytes");
        }
        assert_eq!((net.seen(A, Kind::Hello), net.left(A).len()), (0, 0));
    }
}

#[test]
fn numbers_start_anew_with_each_association() {
    let mut net = Net::new(2);
    for life in 0..3 {
        let recv = net.recv(B, tagged(life), 8);
        net.send(A, B, life, 8);
        net.settle();
        net.assert_got(B, recv, life, 8);
        net.restart(A);
    }
}

// Cancel of a send (§7.8): the memory is the caller's at once, whatever is under way; `Net::cancel` takes it away.

fn buf_of(spec: &SendSpec<'_>) -> BufId {
    match spec.payload {
        Payload::InPlace { buf, .. } => buf,
        Payload::Copied(_) => panic!("in place"),
    }
}

/// Cancels a send `after_ns` its post; a second message follows. The turn must go on.
fn cancel_send(len: usize, posted: bool, after_ns: u64, lost: Option<(usize, Kind)>) {
    let told = format!("{len} bytes, posted {posted}, after {after_ns} ns, {lost:?} lost");
    let mut net = Net::joined();
    net.settle();
    if let Some((from, kind)) = lost {
        net.drop_next(from, kind);
    }
    let first = posted.then(|| net.recv(B, tagged(1), len));
    let last = net.recv(B, tagged(2), 8);
    let spec = SendSpec { until_matched: true, ..net.spec(A, B, 1, len) };
    let (req, buf) = (net.post(A, spec), buf_of(&spec));
    net.run_for(after_ns);
    let cancelled = net.cancel(A, req, buf);
    net.send(A, B, 2, 8);
    net.settle();
    net.assert_got(B, last, 2, 8);
    let sent = net.sent(A, req).expect("ended");
    assert_eq!(sent == Err(Failure::Cancelled), cancelled, "{told}");
    match first.and_then(|recv| net.got(B, recv)) {
        Some(got) if got.result.is_ok() => {
            let recv = first.unwrap();
            net.assert_got(B, recv, 1, len);
        }
        Some(got) => assert_eq!(got.result, Err(Failure::CancelledByPeer), "{told}"),
        None => assert!(cancelled, "{told}"),
    }
    if posted && net.got(B, first.unwrap()).is_none() {
        // It vanished before it was matched: the receive takes the next one.
        let spec = net.send(A, B, 1, len);
        net.settle();
        net.assert_got(B, first.unwrap(), 1, len);
        assert_eq!(net.sent(A, spec), Some(Ok(())));
    }
}

#[test]
fn send_is_cancelled_at_every_stage_and_the_turn_goes_on() {
    for len in [0, 8, 5000, 100_000, 1 << 20] {
        for posted in [true, false] {
            for after_ns in [0, US, DELAY_NS, RTT_NS, RTT_NS + DELAY_NS, 2 * RTT_NS, 100 * MS] {
                cancel_send(len, posted, after_ns, None);
            }
        }
    }
}

#[test]
fn cancel_itself_may_be_lost() {
    for len in [8, 5000, 100_000] {
        for after_ns in [0, US, RTT_NS + DELAY_NS] {
            cancel_send(len, true, after_ns, Some((A, Kind::Cancel)));
        }
    }
}

#[test]
fn cancel_fills_the_number_of_a_message_that_never_came() {
    for kind in [Kind::Eager, Kind::Fragment, Kind::Rts] {
        let len = [(Kind::Eager, 8), (Kind::Fragment, 5000), (Kind::Rts, 100_000)];
        let len = len.iter().find(|each| each.0 == kind).unwrap().1;
        let mut net = Net::joined();
        net.settle();
        let last = net.recv(B, anything(), 8);
        net.rule(10, move |sight| sight.from == A && sight.has(kind), Fate::Drop);
        let spec = net.spec(A, B, 1, len);
        let req = net.post(A, spec);
        net.run_for(US);
        assert!(net.cancel(A, req, buf_of(&spec)));
        net.heal();
        net.send(A, B, 2, 8);
        net.settle();
        net.assert_got(B, last, 2, 8);
        assert_eq!(net.ep(B).held(), (0, 0));
    }
}

#[test]
fn cancelled_message_that_was_held_whole_stays() {
    let mut net = Net::joined();
    net.settle();
    let spec = SendSpec { until_matched: true, ..net.spec(A, B, 1, 8) };
    let req = net.post(A, spec);
    net.settle();
    assert!(net.cancel(A, req, buf_of(&spec)));
    net.settle();
    let recv = net.recv(B, tagged(1), 8);
    net.assert_got(B, recv, 1, 8); // it was accepted before the cancel
}

#[test]
fn cancelled_large_message_vanishes_from_the_unexpected_list() {
    let mut net = Net::joined();
    let spec = net.spec(A, B, 1, 100_000);
    let req = net.post(A, spec);
    net.settle();
    assert!(net.ep(B).probe(&tagged(1)).is_some());
    assert!(net.cancel(A, req, buf_of(&spec)));
    net.settle();
    assert_eq!(net.ep(B).probe(&tagged(1)), None);
    assert_eq!(net.ep(B).held(), (0, 0));
}

#[test]
fn request_is_cancelled_once() {
    let mut net = Net::new(2);
    let spec = net.spec(A, B, 1, 8);
    let send = net.post(A, spec);
    let recv = net.recv(A, tagged(1), 8);
    for (req, buf) in [(send, buf_of(&spec)), (recv.req, recv.buf)] {
        assert!(net.cancel(A, req, buf));
        assert!(!net.cancel(A, req, buf));
    }
    assert_eq!(net.sent(A, send), Some(Err(Failure::Cancelled)));
    assert_eq!(net.unlinked(A, recv.req), Some(Some(Failure::Cancelled)));
}

// Cancel of a receive: unbound it is unlinked, bound it swallows its message.

#[test]
fn receive_is_cancelled_at_every_stage() {
    for len in [8, 5000, 100_000, 1 << 20] {
        for after_ns in [0, DELAY_NS, DELAY_NS + US, RTT_NS, 2 * RTT_NS, 3 * RTT_NS, 100 * MS] {
            let mut net = Net::joined();
            net.settle();
            let recv = net.recv(B, tagged(1), len);
            let next = net.recv(B, tagged(2), 8);
            let req = net.send_matched(A, B, 1, len);
            net.run_for(after_ns);
            let cancelled = net.cancel(B, recv.req, recv.buf);
            net.send(A, B, 2, 8);
            net.settle();
            net.assert_got(B, next, 2, 8);
            let told = format!("{len} bytes, after {after_ns} ns");
            match (net.got(B, recv), net.unlinked(B, recv.req)) {
                (Some(got), None) if cancelled => {
                    assert_eq!(got.result, Err(Failure::Cancelled), "{told}");
                    assert_eq!(net.sent(A, req), Some(Err(Failure::CancelledByPeer)), "{told}");
                }
                (Some(got), None) => {
                    assert_eq!(got.result, Ok(()), "{told}");
                    assert_eq!(net.sent(A, req), Some(Ok(())), "{told}");
                }
                (None, Some(failure)) => {
                    assert_eq!((cancelled, failure), (true, Some(Failure::Cancelled)), "{told}");
                    assert_eq!(net.sent(A, req), None, "{told}");
                    let later = net.recv(B, tagged(1), len);
                    net.settle();
                    net.assert_got(B, later, 1, len);
                }
                other => panic!("{other:?}, {told}"),
            }
        }
    }
}

#[test]
fn posts_name_a_peer_that_exists() {
    let mut net = Net::new(2);
    let spec = SendSpec { peer: PeerId(999), ..net.spec(A, B, 1, 8) };
    let now = net.now;
    assert_eq!(net.ep(A).post_send(now, spec), Err(PostError::UnknownPeer));
    let criteria = Criteria { source: Some(PeerId(999)), ..tagged(1) };
    let spec = net.recv_spec(A, criteria, 8);
    let Node { ep, ram, .. } = &mut net.nodes[A];
    assert_eq!(ep.post_recv(now, spec, ram), Err(PostError::UnknownPeer));
}

#[test]
fn spaces_do_not_mix() {
    let mut net = Net::new(2);
    let other = net.recv(B, Criteria { space: Space(2), ..anything() }, 8);
    let spec = SendSpec { space: Space(1), ..net.spec(A, B, 1, 8) };
    net.post(A, spec);
    net.settle();
    assert_eq!(net.got(B, other), None);
    let right = net.recv(B, Criteria { space: Space(1), ..anything() }, 8);
    net.assert_got(B, right, 1, 8);
}

#[test]
fn lost_records_of_what_was_granted_or_arrived_otherwise_are_not_repeated() {
    // The announcement's packet is taken for lost although it arrived and was granted.
    let mut net = Net::joined();
    net.settle();
    net.log.clear();
    net.rule(usize::MAX, |s| s.from == B && s.says() == [Kind::Ack], Fate::Drop);
    let recv = net.recv(B, tagged(1), 40_000);
    let req = net.send(A, B, 1, 40_000);
    net.run_for(3 * MS);
    net.heal();
    net.settle();
    net.assert_got(B, recv, 1, 40_000);
    assert_eq!(net.sent(A, req), Some(Ok(())));
    assert_eq!(net.seen(A, Kind::Rts), 1);
}

#[test]
fn longest_message_of_one_frame_fills_it_to_the_byte() {
    for (payload_check, immediate) in [(false, false), (true, false), (false, true), (true, true)] {
        let room = 1472 - 24 - 16 - 8 * usize::from(payload_check) - 8 * usize::from(immediate);
        for (len, fragments) in [(room - 1, 0), (room, 0), (room + 1, 2)] {
            for company in [false, true] {
                let mut net = Net::pair(|settings, _| settings.payload_check = payload_check);
                net.join(A, B);
                net.run_for(100 * MS);
                net.log.clear();
                if company {
                    net.send(A, B, 1, 8); // the frame it could share
                }
                let recv = net.recv(B, tagged(2), len);
                let immediate = immediate.then_some(7);
                let spec = SendSpec { immediate, ..net.spec(A, B, 2, len) };
                net.post(A, spec);
                net.run_for(MS);
                net.assert_got(B, recv, 2, len);
                let told = format!("{len} bytes, check {payload_check}, company {company}");
                assert_eq!(net.seen(A, Kind::Fragment), fragments, "{told}");
                let longest = net.log.iter().map(|sight| sight.bytes.len()).max().unwrap();
                assert_eq!(longest, if fragments > 0 { 1472 } else { 1472 - room + len }, "{told}");
            }
        }
    }
}

#[test]
fn burst_goes_to_the_receives_that_wait_and_the_rest_is_held_in_order() {
    let mut net = Net::joined();
    net.run_for(100 * MS);
    net.log.clear();
    let waiting: Vec<(u64, Recv)> =
        [5, 0, 3, 1].map(|tag| (tag, net.recv_from(B, A, tag, 8))).into();
    let mut sends: Vec<ReqId> = (0..5).map(|tag| net.send(A, B, tag, 8)).collect();
    sends.push(net.send_matched(A, B, 5, 8));
    sends.push(net.send(A, B, 2, 8));
    net.run_for(MS);
    assert_eq!(net.sights(A, Kind::Eager).len(), 1, "all in one frame");
    for (tag, recv) in waiting {
        net.assert_got(B, recv, tag, 8);
    }
    assert_eq!(net.count(B, "messages_unexpected"), 3);
    for (tag, len) in [(2, 8), (4, 8), (2, 4)] {
        let recv = net.recv(B, tagged(tag), len);
        let got = net.got(B, recv).expect("held");
        assert_eq!((got.envelope.len, got.placed_len), (8, len as u64));
        assert_eq!(net.bytes(B, recv.buf), &pattern(tag, 8)[..len]);
    }
    assert_eq!(net.ep(B).held(), (0, 0), "nothing is left behind");
    net.run_for(100 * MS);
    for send in sends {
        assert_eq!(net.sent(A, send), Some(Ok(())));
    }
}
