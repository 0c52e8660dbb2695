//! PROTOCOL §4.5: what the network says of a frame is believed as far as it proves that it speaks of one.

use packhorse_proto::*;

use crate::net::*;

const UNREACHABLE: Failure = Failure::Gone(GoneReason::Unreachable);
const REFUSED: Failure = Failure::Gone(GoneReason::Refused);

/// What is said of a frame that was sent.
type Word = fn(&[u8]) -> Obstacle<'_>;

/// Lets time pass; of each frame that A sends, A is told this a round trip later.
fn run_told(net: &mut Net, ns: u64, word: Word) {
    run_told_of(net, ns, |_| (), word);
}

/// The same, of frames that were altered before they are quoted.
fn run_told_of(net: &mut Net, ns: u64, alter: fn(&mut Vec<u8>), word: Word) {
    let until = net.now + ns;
    let mut told = net.log.len();
    while net.now < until {
        net.run_for((2 * DELAY_NS).min(until.0 - net.now.0));
        while told < net.log.len() {
            let mut sight = net.log[told].clone();
            alter(&mut sight.bytes);
            told += 1;
            if sight.from == A {
                let now = net.now;
                net.ep(A).on_unreachable(now, sight.link, &sight.target, word(&sight.bytes));
            }
        }
    }
}

/// A and B know each other, A has something unanswered, and nothing passes between them.
fn cut_off() -> (Net, ReqId) {
    let mut net = Net::joined();
    net.drop_where(|_| true);
    let req = net.send(A, B, 1, 8);
    net.run_for(US);
    (net, req)
}

/// The way is there again: what was sent arrives, and nobody was given up.
#[track_caller]
fn assert_survived(mut net: Net, req: ReqId) {
    assert_eq!((net.left(A), net.sent(A, req)), (vec![], None));
    net.heal();
    let recv = net.recv(B, tagged(1), 8);
    net.run_for(3 * SECOND);
    net.assert_got(B, recv, 1, 8);
    assert_eq!(net.sent(A, req), Some(Ok(())));
}

#[test]
fn forged_words_end_nothing_and_make_few_questions() {
    let (mut quiet, _) = cut_off();
    quiet.run_for(10 * SECOND);
    let usual = quiet.log.len();

    let (mut net, req) = cut_off();
    let at = net.nodes[B].locators[0];
    let old = net.log.iter().find(|sight| sight.from == A).expect("a frame of ours").clone();
    // Who holds B's address can make frames that are rightly keyed; but not the id that A uses.
    let mut keyed = vec![];
    let header = wire::Header { to: 0x0123_4567, packet: old.packet() + 1, path: 0, form: 1 };
    wire::Writer::begin(&mut keyed, header).ping();
    wire::seal(&mut keyed, 0, old.key, None);
    let mut altered = net.log.last().expect("in flight").bytes.clone();
    altered[16] ^= 1; // another packet's number
    let junk = [0xAB; 300];
    let quotes: [&[u8]; 6] = [&[], &junk[..8], &junk, &old.bytes, &keyed, &altered];
    for n in 0..10_000 {
        net.run_for(MS);
        let now = net.now;
        let quote = quotes[n % quotes.len()];
        let word = if n % 3 == 0 { Obstacle::Way(quote) } else { Obstacle::Refused(quote) };
        net.ep(A).on_unreachable(now, 0, &at, word);
    }
    let more = net.log.len() - usual;
    assert!(more <= 50, "{more} frames more in 10 s");
    assert_survived(net, req);
}

#[test]
fn outage_of_six_seconds_is_survived_whoever_tells_of_it() {
    let words: [Word; 3] =
        [|_| Obstacle::Here, |bytes| Obstacle::Way(bytes), |_| Obstacle::Way(&[])];
    for word in words {
        let (mut net, req) = cut_off();
        run_told(&mut net, 6 * SECOND, word);
        assert_survived(net, req);
    }
}

#[test]
fn outage_that_lasts_ends_by_silence_and_not_before() {
    for word in [(|_| Obstacle::Here) as Word, |bytes| Obstacle::Way(bytes)] {
        let (mut net, req) = cut_off();
        run_told(&mut net, 59 * SECOND, word);
        assert_eq!(net.sent(A, req), None);
        run_told(&mut net, 4 * SECOND, word);
        assert_eq!(net.sent(A, req), Some(Err(Failure::Gone(GoneReason::Silent))));
    }
}

#[test]
fn host_that_refuses_our_frames_for_a_second_has_nobody_there() {
    let (mut net, req) = cut_off();
    run_told(&mut net, SECOND - MS, |bytes| Obstacle::Refused(bytes));
    assert_eq!(net.sent(A, req), None, "a firewall may be reloaded");
    run_told(&mut net, 2 * SECOND, |bytes| Obstacle::Refused(bytes));
    assert_eq!(net.sent(A, req), Some(Err(REFUSED)));
}

/// Whoever saw our frames knows ids and numbers; the check of the header shows that the quote is of one of ours.
#[test]
fn refusals_of_frames_that_are_not_rightly_keyed_are_hints() {
    let (mut net, req) = cut_off();
    run_told_of(&mut net, 5 * SECOND, |bytes| bytes[0] ^= 1, |bytes| Obstacle::Refused(bytes));
    assert_survived(net, req);
}

/// A peer whom nobody drives may compute for hours: by its streams alone nobody would learn that its process has ended.
#[test]
fn host_that_refuses_our_streams_for_a_second_has_nobody_there() {
    let (mut net, req) = cut_off();
    run_told(&mut net, SECOND - MS, |_| Obstacle::Closed);
    assert_eq!(net.sent(A, req), None, "it may be restarted");
    run_told(&mut net, 2 * SECOND, |_| Obstacle::Closed);
    assert_eq!(net.sent(A, req), Some(Err(REFUSED)));
}

#[test]
fn refusal_that_quotes_too_little_is_a_hint() {
    let (mut net, req) = cut_off();
    run_told(&mut net, 20 * SECOND, |bytes| Obstacle::Refused(&bytes[..bytes.len().min(31)]));
    assert_survived(net, req);
}

#[test]
fn refusals_of_a_peer_that_is_heard_count_for_nothing() {
    let mut net = Net::joined();
    for _ in 0..100 {
        net.send(A, B, 1, 8);
        net.pump();
        let sight = net.log.last().expect("sent").clone();
        let now = net.now;
        net.ep(A).on_unreachable(now, 0, &sight.target, Obstacle::Refused(&sight.bytes));
        net.run_for(100 * MS);
    }
    assert_eq!(net.left(A), []);
}

#[test]
fn one_word_of_our_own_hello_ends_first_contact_and_only_that() {
    let mut net = Net::new(3);
    let at = net.nodes[B].locators[0];
    net.kill(B);
    let recv = net.recv(C, tagged(1), 8);
    let (to_b, to_c) = (net.send(A, B, 1, 8), net.send(A, C, 1, 8));
    net.run_for(US); // both Hellos are on their way, over the same link
    let hello = net.log.iter().find(|sight| sight.target == at).expect("a Hello").bytes.clone();
    let other = net.log.iter().find(|sight| sight.target != at).expect("a Hello").bytes.clone();
    let mut altered = hello.clone();
    altered[40] ^= 1;
    let now = net.now;
    for quote in [&[][..], &hello[..24], &altered, &other] {
        net.ep(A).on_unreachable(now, 0, &at, Obstacle::Refused(quote));
        net.ep(A).on_unreachable(now, 0, &at, Obstacle::Way(quote));
    }
    assert_eq!(net.sent(A, to_b), None, "that was not our Hello");
    net.ep(A).on_unreachable(now, 0, &at, Obstacle::Refused(&hello));
    assert_eq!((net.sent(A, to_b), net.sent(A, to_c)), (Some(Err(REFUSED)), None));
    net.settle();
    assert_eq!(net.sent(A, to_c), Some(Ok(())));
    net.assert_got(C, recv, 1, 8);
}

/// That a stream was refused rules no link out, but it says what became of who never answers.
#[test]
fn first_contact_that_nobody_answers_ends_as_its_host_says() {
    for (word, reason) in [
        ((|_| Obstacle::Closed) as Word, GoneReason::Refused),
        (|_| Obstacle::Refused(&[]), GoneReason::Unanswered),
    ] {
        let mut net = Net::new(2);
        net.kill(B);
        let req = net.send(A, B, 1, 8);
        run_told(&mut net, 70 * SECOND, word);
        assert_eq!(net.sent(A, req), Some(Err(Failure::Gone(reason))));
    }
}

#[test]
fn what_our_own_link_knows_is_believed_while_something_is_unanswered() {
    let mut net = Net::new(2);
    let at = net.nodes[B].locators[0];
    let first = net.send(A, B, 1, 8);
    net.kill(B);
    net.run_for(MS);
    let now = net.now;
    net.ep(A).on_unreachable(now, 0, &at, Obstacle::Here);
    assert_eq!(net.sent(A, first), Some(Err(UNREACHABLE)), "in first contact");
    net.restart(B);
    net.join(A, B);
    let now = net.now;
    net.ep(A).on_unreachable(now, 0, &at, Obstacle::Void);
    assert_eq!(net.left(A), [], "nothing is unanswered: an old echo");
    net.kill(B);
    let second = net.send(A, B, 1, 8);
    net.run_for(US);
    let now = net.now;
    net.ep(A).on_unreachable(now, 1, &at, Obstacle::Void); // another link
    net.ep(A).on_unreachable(now, 0, &Locator([9; 24]), Obstacle::Void); // another place
    assert_eq!(net.sent(A, second), None);
    net.ep(A).on_unreachable(now, 0, &at, Obstacle::Void);
    assert_eq!(net.sent(A, second), Some(Err(UNREACHABLE)));
}

#[test]
fn stranger_is_refused_by_its_own_hello_only_though_everybody_knows_the_key() {
    let mut net = Net::new(2);
    net.kill(B);
    let address = Address { secret: Secret::PUBLIC, ..net.nodes[B].ep.address() };
    let peer = net.ep(A).add_peer(&address).expect("room");
    let spec = SendSpec { peer, ..net.spec(A, A, 7, 8) };
    let req = net.post(A, spec);
    net.run_for(US);
    let hello = net.log.last().expect("a Hello").clone();
    let mut forged = hello.bytes.clone();
    forged[48] ^= 1; // of the nonce
    let heads_len = forged.len();
    wire::seal(&mut forged[..heads_len], 0, Secret::PUBLIC, None);
    let now = net.now;
    net.ep(A).on_unreachable(now, 0, &hello.target, Obstacle::Refused(&forged));
    assert_eq!(net.sent(A, req), None);
    net.ep(A).on_unreachable(now, 0, &hello.target, Obstacle::Refused(&hello.bytes));
    assert_eq!(net.sent(A, req), Some(Err(REFUSED)));
}
