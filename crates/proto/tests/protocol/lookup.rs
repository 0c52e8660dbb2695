//! PROTOCOL §3.16 to §3.19: an endpoint is found by its number, by those who may find it, and whoever lies learns nothing,
//! is believed in nothing, and costs no more than others.

use packhorse_proto::lookup::*;
use packhorse_proto::wire::{FindView, FrameView, NamedRepr, NamedView, Writer, seal};
use packhorse_proto::*;

const SECRET: Secret = Secret([0x5EC, 0x2E7]);
const OTHER: Secret = Secret([0x07, 0x4E2]);
const HERE: Number = Number::new(7);
/// One way.
const TRIP_NS: u64 = MS / 10;

fn address() -> Address {
    Address {
        secret: Secret([0xADD, 0x2E55]),
        identity: Identity { host: 1, endpoint: 2 },
        locator: Locator([3; 24]),
        has_helper: true,
    }
}

fn greeting(byte: u8) -> Greeting {
    [byte; GREETING_LEN]
}

fn door(secret: Option<Secret>) -> Door {
    Door::new(DoorSpec { number: HERE, secret, versions: (1, 1), entropy: [21, 22] })
}

fn asking(secret: Option<Secret>) -> Asking {
    asking_at(secret, HERE, Instant(0))
}

fn asking_at(secret: Option<Secret>, number: Number, now: Instant) -> Asking {
    let (greeting, entropy, until) = (greeting(1), [31, 32], now + 5 * SECOND);
    let spec = AskingSpec { number, secret, versions: (1, 1), greeting, entropy, until };
    Asking::new(spec, now)
}

fn welcome(_: &Greeting) -> Reception {
    Reception::Welcome(greeting(2))
}

/// What goes wrong on the way.
#[derive(Default)]
struct Way {
    lost_questions: u32,
    lost_answers: u32,
}

/// Whether there is one left; if so, it is taken.
fn one_of(count: &mut u32) -> bool {
    let is_left = *count > 0;
    *count -= u32::from(is_left);
    is_left
}

/// How a look-up ends, when, and after how many questions.
fn look_up(door: &mut Door, asking: &mut Asking, mut way: Way) -> (Finding, Instant, u32) {
    let (mut now, mut count) = (Instant(0), 0);
    loop {
        if let Some(question) = asking.poll_question(now) {
            count += 1;
            let is_lost = one_of(&mut way.lost_questions);
            let answer =
                (!is_lost).then(|| door.on_question(now + TRIP_NS, &question, &address(), welcome));
            if let Some(answer) = answer.flatten() {
                let is_lost = one_of(&mut way.lost_answers);
                let found = if is_lost { None } else { asking.on_answer(&answer) };
                if let Some(found) = found {
                    return (found, now + 2 * TRIP_NS, count);
                }
            }
        }
        now = asking.next_timeout();
        if let Some(found) = asking.on_timeout(now) {
            return (found, now, count);
        }
    }
}

const FOUND: Finding = Finding::Found(
    Address {
        secret: Secret([0xADD, 0x2E55]),
        identity: Identity { host: 1, endpoint: 2 },
        locator: Locator([3; 24]),
        has_helper: true,
    },
    [2; GREETING_LEN],
);

#[test]
fn who_may_find_an_endpoint_does_so_in_one_round_trip() {
    for secret in [None, Some(SECRET)] {
        let (mut door, mut asking) = (door(secret), asking(secret));
        let found = look_up(&mut door, &mut asking, Way::default());
        assert_eq!(found, (FOUND, Instant(2 * TRIP_NS), 1));
        assert_eq!((door.counters().questions, door.counters().answers), (1, 1));
    }
}

#[test]
fn lost_questions_and_answers_are_repeated() {
    for way in [(3, 0), (0, 3), (2, 2)] {
        let (lost_questions, lost_answers) = way;
        let lost = Way { lost_questions, lost_answers };
        let (found, at, count) = look_up(&mut door(Some(SECRET)), &mut asking(Some(SECRET)), lost);
        assert_eq!((found, count), (FOUND, lost_questions + lost_answers + 1), "{way:?}");
        assert!(at < Instant(SECOND), "{way:?}: {at:?}");
    }
}

#[test]
fn an_answer_to_an_earlier_question_is_good() {
    let (mut door, mut asking) = (door(None), asking(None));
    let first = asking.poll_question(Instant(0)).unwrap();
    let late = door.on_question(Instant(1), &first, &address(), welcome).unwrap();
    let now = asking.next_timeout();
    assert!(asking.poll_question(now).is_some_and(|second| second != first));
    assert_eq!(asking.on_answer(&late), Some(FOUND));
}

#[test]
fn nobody_there_is_told_when_the_time_is_over() {
    let mut asking = asking(None);
    let mut times = Vec::new();
    let mut now = Instant(0);
    while asking.on_timeout(now).is_none() {
        if asking.poll_question(now).is_some() {
            times.push(now);
        }
        now = asking.next_timeout();
    }
    assert_eq!(now, Instant(5 * SECOND), "not sooner");
    assert_eq!(asking.poll_question(now), None, "and then no more");
    let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses[..4], [20 * MS, 40 * MS, 80 * MS, 160 * MS]);
    assert!(pauses.iter().all(|&pause| pause <= SECOND) && times.len() < 12, "{pauses:?}");
}

#[test]
fn a_port_that_nobody_has_is_believed_after_three_questions() {
    let mut asking = asking(None);
    assert_eq!(asking.on_unreached(), None, "nothing was asked yet: that speaks of something else");
    for count in 1..=3 {
        let now = asking.next_timeout();
        assert!(asking.poll_question(now).is_some());
        let told = asking.on_unreached();
        assert_eq!(told, (count == 3).then_some(Finding::Nobody), "after {count}");
        if count < 3 {
            assert_eq!(asking.on_unreached(), None, "twice for one question is once");
        }
    }
}

#[test]
fn a_wrong_number_is_told_and_no_address() {
    for secret in [None, Some(SECRET)] {
        let mut asking = asking_at(secret, Number::new(8), Instant(0));
        let (found, _, count) = look_up(&mut door(secret), &mut asking, Way::default());
        assert_eq!(found, Finding::Refused(Refusal::NoSuchNumber, greeting(0)));
        assert_eq!(count, 1);
    }
}

#[test]
fn a_wrong_secret_is_told_and_no_address() {
    for (at_door, at_asker) in
        [(Some(SECRET), Some(OTHER)), (None, Some(SECRET)), (Some(SECRET), None)]
    {
        let mut door = door(at_door);
        let (found, _, count) = look_up(&mut door, &mut asking(at_asker), Way::default());
        assert_eq!(found, Finding::Refused(Refusal::WrongKey, greeting(0)));
        // Who has no secret has no better answer to wait for.
        assert_eq!(count, if at_asker.is_some() { REFUSAL_COUNT_MIN } else { 1 });
        assert_eq!((door.counters().wrong_keys, door.counters().answers), (count.into(), 0));
    }
}

#[test]
fn the_application_sees_the_asker_s_greeting_and_may_refuse() {
    let (mut door, mut asking) = (door(Some(SECRET)), asking(Some(SECRET)));
    let question = asking.poll_question(Instant(0)).unwrap();
    let mut seen = None;
    let answer = door.on_question(Instant(1), &question, &address(), |greeting_in| {
        seen = Some(*greeting_in);
        Reception::Refuse(greeting(9))
    });
    assert_eq!(seen, Some(greeting(1)));
    let found = asking.on_answer(&answer.unwrap());
    assert_eq!(found, Some(Finding::Refused(Refusal::Closed, greeting(9))));
    assert_eq!((door.counters().answers, door.counters().refusals), (0, 1));
}

#[test]
fn the_application_is_not_bothered_by_who_does_not_show_the_secret() {
    let (mut door, mut asking) = (door(Some(SECRET)), asking(Some(OTHER)));
    let question = asking.poll_question(Instant(0)).unwrap();
    let answer = door.on_question(Instant(1), &question, &address(), |_| panic!("asked"));
    assert!(answer.is_some());
}

#[test]
fn without_a_common_version_nobody_is_found() {
    let spec = DoorSpec { number: HERE, secret: None, versions: (2, 3), entropy: [1, 2] };
    let (found, ..) = look_up(&mut Door::new(spec), &mut asking(None), Way::default());
    assert_eq!(found, Finding::Refused(Refusal::Version, greeting(0)));
}

/// Somebody who has not the secret writes answers, with all that he sees in the question.
#[test]
fn forged_answers_are_not_believed() {
    let mut asking = asking(Some(SECRET));
    let question = asking.poll_question(Instant(0)).unwrap();
    let nonce = FindView::read(&question).unwrap().nonce();
    let forged = |code, nonce, key| {
        let (number, address) = (HERE.get(), Some(address()));
        NamedRepr { code, number, versions: 0x11, nonce, salt: 1, address, greeting: greeting(6) }
            .write(key)
    };
    for key in [Secret::PUBLIC, OTHER] {
        for code in 0..=255 {
            assert_eq!(asking.on_answer(&forged(code, nonce, key)), None, "code {code}");
        }
    }
    let sure = door(Some(SECRET)).on_question(Instant(1), &question, &address(), welcome).unwrap();
    assert_eq!(asking.on_answer(&sure), Some(FOUND), "the right answer still counts");
    // Without a secret what keeps a forger out is that he must have seen the question.
    let mut open = asking_at(None, HERE, Instant(0));
    let question = open.poll_question(Instant(0)).unwrap();
    let seen = FindView::read(&question).unwrap().nonce();
    assert_eq!(open.on_answer(&forged(0, [seen[0], seen[1] ^ 1], Secret::PUBLIC)), None);
    assert!(matches!(open.on_answer(&forged(0, seen, Secret::PUBLIC)), Some(Finding::Found(..))));
}

#[test]
fn one_forged_refusal_many_times_is_one_refusal() {
    let mut asking = asking(Some(SECRET));
    let question = asking.poll_question(Instant(0)).unwrap();
    let refusal = door(None).on_question(Instant(1), &question, &address(), welcome).unwrap();
    for _ in 0..100 {
        assert_eq!(asking.on_answer(&refusal), None);
    }
    let sure = door(Some(SECRET)).on_question(Instant(1), &question, &address(), welcome).unwrap();
    assert_eq!(asking.on_answer(&sure), Some(FOUND));
}

#[test]
fn a_replayed_answer_is_not_believed() {
    let (mut door, mut first) = (door(Some(SECRET)), asking(Some(SECRET)));
    let question = first.poll_question(Instant(0)).unwrap();
    let old = door.on_question(Instant(1), &question, &address(), welcome).unwrap();
    assert_eq!(first.on_answer(&old), Some(FOUND));
    let spec = AskingSpec {
        number: HERE,
        secret: Some(SECRET),
        versions: (1, 1),
        greeting: greeting(1),
        entropy: [33, 34],
        until: Instant(SECOND),
    };
    let mut second = Asking::new(spec, Instant(0));
    assert!(second.poll_question(Instant(0)).is_some());
    assert_eq!(second.on_answer(&old), None, "it answers another question");
}

/// Whoever replays a recorded question gets an answer he cannot read, under a mask that no other answer has: though the same
/// address is in both, nothing in them is alike.
#[test]
fn a_replayed_question_teaches_nothing() {
    let (mut door, mut asking) = (door(Some(SECRET)), asking(Some(SECRET)));
    let question = asking.poll_question(Instant(0)).unwrap();
    let one = door.on_question(Instant(1), &question, &address(), welcome).unwrap();
    let two = door.on_question(Instant(2), &question, &address(), welcome).unwrap();
    let masked = |frame: &LookupFrame| frame[56..].to_vec();
    let difference: Vec<u8> = masked(&one).iter().zip(masked(&two)).map(|(a, b)| a ^ b).collect();
    assert!(difference.chunks(8).all(|word| word != [0; 8]), "the same keystream");
    for frame in [&one, &two, &question] {
        let clear = address().encode();
        assert!(!clear.chunks(8).any(|word| frame.windows(8).any(|at| at == word)), "shown");
        assert!(!frame.windows(8).any(|at| at == [1; 8] || at == [2; 8]), "a greeting is shown");
    }
    for key in [Secret::PUBLIC, OTHER] {
        let view = NamedView::read(&one).unwrap();
        assert!(!view.is_keyed(key) && view.content(key).0.is_none());
    }
}

#[test]
fn what_is_reflected_is_dropped() {
    let (mut door, mut asking) = (door(Some(SECRET)), asking(Some(SECRET)));
    let question = asking.poll_question(Instant(0)).unwrap();
    assert_eq!(asking.on_answer(&question), None, "a question back to its asker");
    let answer = door.on_question(Instant(1), &question, &address(), welcome).unwrap();
    assert_eq!(door.on_question(Instant(2), &answer, &address(), welcome), None, "an answer back");
    assert_eq!(door.counters().malformed, 1);
}

#[test]
fn no_answer_is_longer_than_its_question_and_nonsense_gets_none() {
    let (mut door, mut asking) = (door(None), asking(None));
    let question = asking.poll_question(Instant(0)).unwrap();
    let answer = door.on_question(Instant(1), &question, &address(), welcome).unwrap();
    assert_eq!(answer.len(), question.len());
    let asked =
        |door: &mut Door, bytes: &[u8]| door.on_question(Instant(1), bytes, &address(), welcome);
    for len in 0..question.len() {
        assert_eq!(asked(&mut door, &question[..len]), None, "cut to {len}");
    }
    assert_eq!(asked(&mut door, &[&question[..], &[0]].concat()), None, "lengthened");
    // Frames that others of the protocol understand: a Hello would be such, a Ping is the shortest.
    let mut ping = Vec::new();
    let header = wire::Header { to: 0, packet: 0, path: 0, form: 0x11 };
    Writer::begin(&mut ping, header).ping();
    seal(&mut ping, 0, Secret::PUBLIC, None);
    assert!(FrameView::open(Secret::PUBLIC, &ping).is_ok());
    assert_eq!(asked(&mut door, &ping), None);
}

/// So many questions a second, whoever asks.
#[test]
fn a_flood_is_looked_at_within_bounds() {
    let mut door = door(Some(SECRET));
    let (right, wrong) = (asking(Some(SECRET)), asking(Some(OTHER)));
    let [right, wrong] = [right, wrong].map(|mut asking| asking.poll_question(Instant(0)).unwrap());
    let (mut answers, mut refusals) = (0, 0);
    for now in (0..SECOND).step_by(2_000) {
        // Half a million a second: 499 of 500 do not know the secret.
        let is_right = now % MS == 0;
        let question = if is_right { &right } else { &wrong };
        let answer = door.on_question(Instant(SECOND + now), question, &address(), welcome);
        *(if is_right { &mut answers } else { &mut refusals }) += u32::from(answer.is_some());
    }
    let counters = *door.counters();
    assert!((20_000..=21_100).contains(&counters.questions), "{counters:?}");
    assert!((1_000..=1_100).contains(&refusals), "{refusals} refusals");
    assert!(counters.dropped > 470_000 && counters.answers == answers.into(), "{counters:?}");
    // Whoever drives it need not read what would be dropped.
    let mut now = door.look_at();
    for _ in 0..100 {
        assert!(door.on_question(now, &right, &address(), welcome).is_some());
        now = door.look_at();
    }
    assert_eq!(door.counters().dropped, counters.dropped);
}
