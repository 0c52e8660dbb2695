//! What must hold of frames: every record survives its bytes, nothing else does.

use super::layout::{First, Word, kind, pair, unpair};
use super::*;
use crate::siphash::mask;
use crate::types::{Address, AddressError, Identity, Locator, Secret, Space, Tag};
use alloc::vec;
use alloc::vec::Vec;
use proptest::collection::vec as vec_of;
use proptest::prelude::*;

const SECRET: Secret = Secret([0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210]);
const HEADER: Header =
    Header { to: 0x0807_0605_0403_0201, packet: 0x0C0B_0A09, path: 0x0D, form: VERSION };

/// A record with what it borrows.
#[derive(Clone, Debug)]
enum Sample {
    /// Borrows nothing; a body so long if it has one.
    Plain(Record<'static>, u16),
    Ack(AckRepr, Vec<(u32, u32)>),
    Hello(HelloRepr<'static>, Vec<Locator>),
    Welcome(WelcomeRepr<'static>, Vec<Locator>),
}

impl Sample {
    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Plain(record, len) => assert!(writer.record(record, *len)),
            Self::Ack(ack, pairs) => writer.ack(ack, pairs),
            Self::Hello(hello, locators) => writer.hello(&HelloRepr { locators, ..*hello }, SECRET),
            Self::Welcome(welcome, locators) => {
                writer.welcome(&WelcomeRepr { locators, ..*welcome }, SECRET);
            }
        }
    }

    /// The length of the head by the table of PROTOCOL §2.
    fn head_len(&self) -> usize {
        match self {
            Self::Plain(record, _) => plain_head_len(record),
            Self::Ack(_, pairs) => ack_head_len(pairs.len()),
            Self::Hello(_, locators) => hello_head_len(locators.len()),
            Self::Welcome(welcome, locators) => {
                welcome_head_len(locators.len(), welcome.address.is_some())
            }
        }
    }

    /// What was read is written as the sample was, if it can be.
    fn assert_written_again(&self, record: Record<'_>) {
        let (mut first, mut again) = (Vec::new(), Vec::new());
        self.write(&mut Writer::begin(&mut first, HEADER));
        let is_masked = matches!(self, Self::Hello(..) | Self::Welcome(..));
        let mut writer = Writer::begin(&mut again, HEADER);
        assert_eq!(writer.record(&record, self.body_len() as u16), !is_masked);
        assert!(if is_masked { writer.is_empty() } else { first == again }, "{self:?}");
    }

    fn body_len(&self) -> usize {
        match self {
            Self::Plain(_, len) => usize::from(*len),
            _ => 0,
        }
    }

    fn assert_reads_as(&self, record: Record<'_>) {
        match (self, record) {
            (Self::Plain(expected, _), record) => assert_eq!(record, *expected),
            (Self::Ack(ack, pairs), Record::Ack(view)) => {
                let read: Vec<_> =
                    view.pairs.iter().map(|word| unpair(u64::from_le_bytes(*word))).collect();
                assert_eq!((view.repr(), &read), (*ack, pairs));
            }
            (Self::Hello(hello, locators), Record::Hello(view)) => {
                assert_eq!((view.flags(), view.versions()), (hello.flags, hello.versions));
                assert_eq!(
                    (view.frame_len_max(), view.incarnation()),
                    (hello.frame_len_max, hello.incarnation)
                );
                assert_eq!((view.id(), view.nonce()), (hello.id, hello.nonce));
                assert_eq!(view.address(SECRET), Ok(hello.address));
                assert_eq!(view.locators(SECRET).collect::<Vec<_>>(), *locators);
            }
            (Self::Welcome(welcome, locators), Record::Welcome(view)) => {
                let told = if welcome.address.is_some() { FLAG_ADDRESS } else { 0 };
                assert_eq!(
                    (view.flags(), view.versions()),
                    (welcome.flags | told, welcome.versions)
                );
                assert_eq!(
                    (view.frame_len_max(), view.incarnation()),
                    (welcome.frame_len_max, welcome.incarnation)
                );
                assert_eq!((view.id(), view.nonce()), (welcome.id, welcome.nonce));
                assert_eq!(view.address(SECRET), Ok(welcome.address));
                assert_eq!(view.locators(SECRET).collect::<Vec<_>>(), *locators);
            }
            (sample, record) => panic!("{sample:?} was read as {record:?}"),
        }
    }
}

fn plain_head_len(record: &Record<'_>) -> usize {
    match record {
        Record::Check { .. } => CHECK_HEAD_LEN,
        Record::Ping => PING_HEAD_LEN,
        Record::Pad => PAD_HEAD_LEN,
        Record::Message(head) => head.head_len(),
        Record::Grant { .. } => GRANT_HEAD_LEN,
        Record::Data { .. } => DATA_HEAD_LEN,
        Record::Done { .. } => DONE_HEAD_LEN,
        Record::Cancel { .. } => CANCEL_HEAD_LEN,
        Record::Refuse { .. } | Record::Recall { .. } => TURN_HEAD_LEN,
        Record::Query { .. } => QUERY_HEAD_LEN,
        Record::StreamCredit { .. } => STREAM_CREDIT_HEAD_LEN,
        Record::Found(_) => FOUND_HEAD_LEN,
        Record::Request(head) => head.head_len(),
        Record::Reply { .. } | Record::Replied { .. } => REPLY_HEAD_LEN,
        Record::End { .. } => END_HEAD_LEN,
        Record::Challenge { .. } => CHALLENGE_HEAD_LEN,
        Record::Echo { .. } => ECHO_HEAD_LEN,
        Record::Reset { .. } => RESET_HEAD_LEN,
        Record::Goodbye { .. } => GOODBYE_HEAD_LEN,
        Record::Versions { .. } => VERSIONS_HEAD_LEN,
        Record::PathChallenge { .. } | Record::PathResponse { .. } => PATH_HEAD_LEN,
        Record::Ack(_) | Record::Hello(_) | Record::Welcome(_) => unreachable!("they borrow"),
    }
}

fn any_message() -> impl Strategy<Value = Sample> {
    let class = prop_oneof![Just(Class::Eager), Just(Class::Fragment), Just(Class::Rts)];
    let numbers = (any::<u8>(), any::<u32>(), any::<u64>(), any::<u32>(), any::<u64>());
    (class, numbers, any::<Option<u64>>(), any::<bool>(), 0..600_u16).prop_map(
        |(class, (space, message, tag, offset, total), immediate, wants_match, len)| {
            let body_len = u64::from(len);
            let (offset, total) = match class {
                Class::Eager => (0, body_len),
                Class::Fragment => {
                    let total = (total >> 32).clamp(body_len.max(1), u64::from(u32::MAX));
                    (offset.min((total - body_len) as u32), total)
                }
                Class::Rts => (0, (total & TOTAL_MAX).max(body_len)),
            };
            let (space, tag) = (Space(space), Tag(tag));
            let head = MessageHead {
                class,
                space,
                message,
                tag,
                offset,
                total,
                immediate,
                wants_match,
                len,
                ahead: if class == Class::Rts { message as u16 } else { 0 },
            };
            Sample::Plain(Record::Message(head), len)
        },
    )
}

fn any_control() -> impl Strategy<Value = Sample> {
    let numbers = (any::<u8>(), any::<u16>(), any::<u32>(), any::<u32>(), any::<[u64; 3]>());
    (0..17_u8, numbers, any::<Option<u64>>(), any::<bool>(), 0..600_u16).prop_map(
        |(which, (a, order, message, query, [x, y, z]), immediate, none, len)| {
            let (space, tag) = (Space(a), Tag(x));
            let lane = [Lane::Message, Lane::Put, Lane::Get][usize::from(a) % 3];
            let record = match which {
                0 => Record::Ping,
                1 => Record::Pad,
                2 => Record::Grant { lane, message, offset: x.min(u64::MAX - y), len: y },
                3 => Record::Data { lane, message, offset: x.min(u64::MAX - u64::from(len)) },
                4 => Record::Done { message, status: a },
                5 => Record::Cancel { message },
                6 => Record::Refuse { message, order },
                7 => Record::Recall { message, order },
                8 => Record::Query { query, space, tag, ignore: y },
                9 => Record::Found(FoundRepr {
                    query,
                    space,
                    tag,
                    message,
                    total: z,
                    immediate,
                    none,
                }),
                10 => Record::Goodbye { message },
                11 => Record::PathChallenge { path: a, nonce: x },
                12 => Record::Reply { number: message, status: a },
                13 => Record::Replied { first: message, count: order.max(1) },
                14 => Record::End { number: message },
                15 => Record::StreamCredit { limit: x },
                _ => Record::PathResponse { path: a, nonce: x },
            };
            let has_body =
                matches!(record, Record::Pad | Record::Data { .. } | Record::Reply { .. });
            Sample::Plain(record, if has_body { len } else { 0 })
        },
    )
}

fn any_request() -> impl Strategy<Value = Sample> {
    let numbers = (any::<u32>(), any::<[u64; 3]>(), any::<u32>(), any::<[u8; 2]>());
    (0..5_u8, numbers, any::<Option<u64>>(), any::<bool>(), 0..600_u16).prop_map(
        |(which, (number, [key, target, wide], narrow, [op, datatype]), immediate, fetch, len)| {
            let (action, body_len) = match which {
                0 => (Action::Put { immediate, len }, len),
                1 => {
                    let total = narrow.max(len.max(1).into());
                    let offset = (wide as u32).min(total - u32::from(len));
                    (Action::Part { offset, total, immediate, len }, len)
                }
                2 => (Action::Ask { total: wide, immediate }, 0),
                3 => (Action::Get { total: wide }, 0),
                _ => (Action::Atomic { op, datatype, fetch, total: narrow, len }, len),
            };
            let head = RequestHead { number, key, target, action };
            Sample::Plain(Record::Request(head), body_len)
        },
    )
}

fn any_ack() -> impl Strategy<Value = Sample> {
    let numbers = (any::<u8>(), any::<u32>(), 1..=u32::MAX, any::<u32>(), any::<u32>());
    let pairs = vec_of((1..=u32::MAX, 1..=u32::MAX), 0..=ACK_RANGE_COUNT_MAX);
    (numbers, pairs).prop_map(|((path, largest, first_len, delay_ns, credit_len), pairs)| {
        Sample::Ack(AckRepr { path, largest, first_len, delay_ns, credit_len }, pairs)
    })
}

fn address_of(secret: [u64; 2], host: u64, endpoint: u64) -> Address {
    let locator = Locator([host as u8; 24]);
    let has_helper = endpoint % 2 == 1;
    Address { secret: Secret(secret), identity: Identity { host, endpoint }, locator, has_helper }
}

fn any_contact() -> impl Strategy<Value = Sample> {
    let bytes = (0..6_u8, any::<u8>(), any::<u8>(), any::<u16>());
    let locators = vec_of(any::<[u8; 24]>().prop_map(Locator), 0..=LOCATOR_COUNT_MAX);
    (bytes, any::<[u64; 3]>(), any::<[u64; 4]>(), any::<bool>(), locators).prop_map(
        |(
            (which, flags, versions, frame_len_max),
            [x, y, z],
            [k0, k1, host, endpoint],
            told,
            locators,
        )| {
            let address = address_of([k0, k1], host, endpoint);
            let (incarnation, id, nonce) = (x, y, z);
            let plain = |record| Sample::Plain(record, 0);
            match which {
                0 => {
                    let hello = HelloRepr {
                        flags,
                        versions,
                        frame_len_max,
                        incarnation,
                        id,
                        nonce,
                        address,
                        locators: &[],
                    };
                    Sample::Hello(hello, locators)
                }
                1 => {
                    let address = told.then_some(address);
                    let flags = flags & !FLAG_ADDRESS;
                    let welcome = WelcomeRepr {
                        flags,
                        versions,
                        frame_len_max,
                        id,
                        nonce,
                        incarnation,
                        locators: &[],
                        address,
                    };
                    Sample::Welcome(welcome, locators)
                }
                2 => plain(Record::Challenge { flags, versions, nonce, cookie: y, incarnation }),
                3 => plain(Record::Echo { cookie: x }),
                4 => plain(Record::Reset { id }),
                _ => plain(Record::Versions { min: flags, max: versions, nonce }),
            }
        },
    )
}

fn any_sample() -> impl Strategy<Value = Sample> {
    prop_oneof![any_message(), any_control(), any_request(), any_ack(), any_contact()]
}

fn body(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// A sealed frame of heads written by `heads` and so many bytes of body.
fn frame(heads: impl FnOnce(&mut Writer<'_>), body_len: usize) -> Vec<u8> {
    let mut bytes = vec![0xEE; 5];
    heads(&mut Writer::begin(&mut bytes, HEADER));
    seal(&mut bytes, body_len, SECRET, None);
    bytes.extend(body(body_len));
    bytes
}

fn eager(len: u16) -> MessageHead {
    MessageHead {
        class: Class::Eager,
        space: Space(2),
        message: 0x2423_2221,
        tag: Tag(0x3837_3635_3433_3231),
        offset: 0,
        total: u64::from(len),
        immediate: None,
        wants_match: false,
        len,
        ahead: 0,
    }
}

/// Whether a frame of these heads and so long a body validates; its records are read in any case.
fn verdict(heads: impl FnOnce(&mut Writer<'_>), body_len: usize) -> Result<usize, FrameError> {
    let bytes = frame(heads, body_len);
    let frame = FrameView::open(SECRET, &bytes).expect("rightly sealed");
    let (mut count, mut len) = (0, 0);
    for (_, body) in frame.records() {
        (count, len) = (count + 1, len + body.len());
    }
    let verdict = frame.validate();
    if let Ok(valid_count) = verdict {
        assert_eq!((valid_count, body_len), (count, len), "validated but not read to the end");
    }
    verdict
}

#[test]
fn lone_small_message_costs_forty_bytes() {
    let bytes = frame(|writer| writer.message(&eager(8)), 8);
    assert_eq!(bytes.len(), 40 + 8);
    let two = frame(|writer| [7, 8].into_iter().for_each(|len| writer.message(&eager(len))), 15);
    assert_eq!(two.len(), 40 + 16 + 15);
}

#[test]
fn bytes_stand_where_the_protocol_says() {
    let fragment = MessageHead {
        class: Class::Fragment,
        offset: 0x4443_4241,
        total: 0x6463_6261,
        immediate: Some(0x5857_5655_5453_5251),
        wants_match: true,
        ..eager(3)
    };
    let bytes = frame(|writer| writer.message(&fragment), 3);
    assert_eq!(bytes[8..24], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 32, 0, 13, 1]);
    assert_eq!(bytes[24..32], [0x17, 2, 3, 0, 0x21, 0x22, 0x23, 0x24]);
    assert_eq!(bytes[32..40], *b"12345678");
    assert_eq!(bytes[40..56], *b"ABCDabcdQRSTUVWX");
    assert_eq!(bytes[56..], [0, 1, 2]);
    let check = crate::siphash::siphash13(SECRET, &bytes[8..56], 59);
    assert_eq!(bytes[..8], check.to_le_bytes());

    let ack = AckRepr { path: 3, largest: 9, first_len: 4, delay_ns: 5, credit_len: 6 };
    let bytes = frame(|writer| writer.ack(&ack, &[(7, 8)]), 0);
    assert_eq!(bytes[24..28], [2, 3, 1, 0]);
    assert_eq!(u32s(&bytes[28..]), [9, 4, 5, 6, 0, 7, 8]);

    let (space, tag, immediate) = (Space(5), Tag(10), Some(12));
    let found = FoundRepr { query: 8, space, tag, message: 9, total: 11, immediate, none: true };
    let bytes = frame(|writer| writer.found(&found), 0);
    assert_eq!(bytes[24..28], [0x27, 5, 3, 0]);
    assert_eq!(u32s(&bytes[28..]), [8, 9, 0, 10, 0, 11, 0, 12, 0]);
}

fn u32s(bytes: &[u8]) -> Vec<u32> {
    let (words, rest) = bytes.as_chunks();
    assert!(rest.is_empty());
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

fn hello(locators: &[Locator]) -> HelloRepr<'_> {
    HelloRepr {
        flags: FLAG_HELPER,
        versions: 0x12,
        frame_len_max: 0x0504,
        incarnation: 6,
        id: 7,
        nonce: 8,
        address: address_of([0x5353_5353_5353_5353; 2], 1, 2),
        locators,
    }
}

#[test]
fn introductions_are_masked_and_only_the_receiver_reads_them() {
    let locators = [Locator([0x55; 24]), Locator([0xAA; 24])];
    let bytes = frame(|writer| writer.hello(&hello(&locators), SECRET), 0);
    assert_eq!(bytes[24..32], [0x30, FLAG_HELPER, 0x12, 2, 4, 5, 0, 0]);
    assert_eq!(u32s(&bytes[32..56]), [6, 0, 7, 0, 8, 0]);
    let mut clear = hello(&[]).address.encode().to_vec();
    clear.extend(locators.iter().flat_map(|locator| locator.0));
    mask(SECRET, 8, &mut clear);
    assert_eq!(bytes[56..], clear);
    assert!(!bytes.windows(8).any(|window| window == [0x53; 8]), "the secret is in the clear");

    let frame = FrameView::open(SECRET, &bytes).unwrap();
    let Some((Record::Hello(view), _)) = frame.records().next() else { panic!("no Hello") };
    assert_eq!(view.address(SECRET), Ok(hello(&[]).address));
    assert_eq!(view.address(Secret::PUBLIC), Err(AddressError::Check));
}

#[test]
fn every_flipped_bit_of_header_and_heads_is_refused() {
    let bytes = frame(
        |writer| {
            writer.hello(&hello(&[]), SECRET);
            writer.message(&eager(11));
        },
        11,
    );
    for bit in 0..8 * (bytes.len() - 11) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = FrameView::open(SECRET, &damaged).expect_err("a damaged frame");
        assert!(matches!(error, FrameError::Check | FrameError::Short), "bit {bit}: {error:?}");
    }
}

#[test]
fn other_lengths_and_other_secrets_are_refused() {
    let bytes = frame(|writer| writer.message(&eager(11)), 11);
    assert!(FrameView::open(SECRET, &bytes).is_ok());
    for len in 0..bytes.len() {
        assert!(FrameView::open(SECRET, &bytes[..len]).is_err(), "cut to {len}");
        assert_eq!(FrameView::form(&bytes[..len]).is_some(), len >= HEADER_LEN);
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(FrameView::open(SECRET, &longer), Err(FrameError::Check));
    assert_eq!(FrameView::open(Secret::PUBLIC, &bytes), Err(FrameError::Check));
    assert_eq!(FrameView::open(SECRET, &bytes[..HEADER_LEN + 15]), Err(FrameError::Short));
    assert_eq!(FrameView::form(&bytes), Some(VERSION));
}

#[test]
fn sum_of_the_bodies_is_put_in_by_seal() {
    let mut head = Vec::new();
    let mut writer = Writer::begin(&mut head, HEADER);
    assert!(writer.is_empty());
    writer.check();
    writer.message(&eager(0));
    assert_eq!((writer.is_empty(), writer.len()), (false, head.len()));
    assert!(wants_crc(&head) && !wants_crc(&head[..HEADER_LEN]));
    seal(&mut head, 0, SECRET, Some(0x0403_0201));
    assert_eq!(head[24..32], [1, 0, 0, 0, 1, 2, 3, 4]);
    let frame = FrameView::open(SECRET, &head).unwrap();
    assert_eq!((frame.crc(), frame.validate()), (Some(0x0403_0201), Ok(2)));

    let mut head = Vec::new();
    Writer::begin(&mut head, HEADER).message(&eager(0));
    assert!(!wants_crc(&head));
    seal(&mut head, 0, SECRET, Some(7));
    let frame = FrameView::open(SECRET, &head).unwrap();
    assert_eq!((frame.crc(), frame.validate()), (None, Ok(1)), "nowhere to put a sum");
}

#[test]
fn what_breaks_a_rule_is_malformed() {
    let bad = Err(FrameError::Malformed);
    let fragment = |offset, total, len| {
        let head = MessageHead { class: Class::Fragment, offset, total, ..eager(len) };
        verdict(|writer| writer.message(&head), len.into())
    };
    let rts = |total, len| {
        let head = MessageHead { class: Class::Rts, total, ahead: u16::MAX, ..eager(len) };
        verdict(|writer| writer.message(&head), len.into())
    };
    let raw =
        |words: &[u64]| verdict(|writer| words.iter().for_each(|&word| writer.put([word])), 0);
    assert_eq!(verdict(|_| (), 0), bad, "no record");
    let is_known =
        |kind: &u8| matches!(kind, 1..=4 | 0x10..=0x1B | 0x20..=0x27 | 0x30..=0x38 | 0x40..=0x4A);
    for kind in (0..=255).filter(|kind| !is_known(kind)) {
        assert_eq!(raw(&[First::word(kind, 0, 0, 0), 0, 0, 0, 0]), bad, "kind {kind:#x}");
    }
    for kind in [kind::GRANT, kind::DATA] {
        let words = [First::word(kind, 3, 0, 0), 0, 0];
        let len = if kind == kind::GRANT { 3 } else { 2 };
        assert_eq!(raw(&words[..len]), bad, "no such lane");
    }
    let part = |offset, total, len| {
        let action = Action::Part { offset, total, immediate: None, len };
        let head = RequestHead { number: 1, key: 2, target: u64::MAX, action };
        verdict(|writer| writer.request(&head), len.into())
    };
    assert_eq!((part(0, 5, 5), part(2, 5, 3)), (Ok(1), Ok(1)), "wherever it should go");
    assert_eq!((part(3, 5, 3), part(0, 0, 0), part(u32::MAX, 5, 1)), (bad, bad, bad));
    assert_eq!(raw(&[First::word(kind::REPLIED, 0, 0, 7)]), bad, "nothing to tell");
    assert_eq!(verdict(|writer| writer.message(&eager(8)), 7), bad, "a byte too few");
    assert_eq!(verdict(|writer| writer.message(&eager(8)), 9), bad, "a byte nobody owns");
    assert_eq!(verdict(|writer| writer.ping(), 1), bad);
    let late = |writer: &mut Writer<'_>| {
        writer.ping();
        writer.put([First::word(kind::CHECK, 0, 0, 0)]);
    };
    assert_eq!(verdict(late, 0), bad, "a late Check");

    assert_eq!((fragment(0, 5, 5), fragment(2, 5, 3)), (Ok(1), Ok(1)));
    assert_eq!((fragment(3, 5, 3), fragment(u32::MAX, 5, 3)), (bad, bad));
    assert_eq!((fragment(0, 4, 5), fragment(0, 0, 0)), (bad, bad));
    assert_eq!((rts(5, 5), rts(TOTAL_MAX, 0), rts(4, 5)), (Ok(1), Ok(1), bad));

    let range = |offset, len| verdict(|writer| writer.grant(Lane::Get, 1, offset, len), 0);
    assert_eq!((range(u64::MAX, 0), range(u64::MAX, 1)), (Ok(1), bad));
    let data = |offset| verdict(|writer| writer.data(Lane::Put, 1, 2, offset), 2);
    assert_eq!((data(u64::MAX - 2), data(u64::MAX - 1)), (Ok(1), bad));
}

#[test]
fn counts_that_are_too_large_or_do_not_fit_are_malformed() {
    let bad = Err(FrameError::Malformed);
    let head = |first: u64, word_count: usize| {
        let words = move |writer: &mut Writer<'_>| {
            writer.put([first]);
            (1..word_count).for_each(|_| writer.put([pair(1, 1)]));
        };
        verdict(words, 0)
    };
    let ack = |count: u16| First::word(kind::ACK, 0, count, 9);
    assert_eq!((head(ack(0), 3), head(ack(32), 35)), (Ok(1), Ok(1)));
    assert_eq!((head(ack(33), 36), head(ack(2), 4), head(ack(0), 2)), (bad, bad, bad));
    let ack_of = |first_len, pairs: &[(u32, u32)]| {
        let ack = AckRepr { path: 0, largest: 9, first_len, delay_ns: 0, credit_len: 0 };
        verdict(|writer| writer.ack(&ack, pairs), 0)
    };
    assert_eq!((ack_of(1, &[(1, 1)]), ack_of(0, &[])), (Ok(1), bad));
    assert_eq!((ack_of(1, &[(0, 1)]), ack_of(1, &[(1, 0)])), (bad, bad));

    let contact = |kind, flags, count: u16| First::word(kind, flags, count << 8, 0);
    let words = |count: usize| (hello_head_len(count) / 8, welcome_head_len(count, true) / 8);
    assert_eq!(head(contact(kind::HELLO, 0, 8), words(8).0), Ok(1));
    assert_eq!(head(contact(kind::HELLO, 0, 9), words(9).0), bad);
    assert_eq!(head(contact(kind::HELLO, 0, 1), words(1).0 - 1), bad);
    assert_eq!(head(contact(kind::WELCOME, FLAG_ADDRESS, 8), words(8).1), Ok(1));
    assert_eq!(head(contact(kind::WELCOME, FLAG_ADDRESS, 9), words(9).1), bad);
    assert_eq!(head(contact(kind::WELCOME, FLAG_ADDRESS, 0), 4), bad);
    assert_eq!(head(contact(kind::WELCOME, 0, 0), 4), Ok(1));
}

#[test]
fn ack_ranges_go_down_to_packet_one_and_no_further() {
    let ranges = |largest: u64, first_len: u32, pairs: &[(u32, u32)]| {
        let ack =
            AckRepr { path: 0, largest: largest as u32, first_len, delay_ns: 0, credit_len: 0 };
        let words: Vec<Word> =
            pairs.iter().map(|&(skip, take)| pair(skip, take).to_le_bytes()).collect();
        AckView { repr: ack, pairs: &words }.ranges(largest).collect::<Vec<_>>()
    };
    assert_eq!(ranges(1, 1, &[]), [(1, 1)]);
    assert_eq!(ranges(10, 3, &[(2, 4), (1, 1)]), [(8, 10), (2, 5)], "the last pair would end at 0");
    assert_eq!(ranges(10, 3, &[(2, 3), (1, 1)]), [(8, 10), (3, 5), (1, 1)]);
    assert_eq!(ranges(10, 10, &[(1, 1)]), [(1, 10)]);
    assert_eq!(ranges(10, 11, &[(1, 1)]), [], "the first range would start at 0");
    assert_eq!(ranges(10, 1, &[(u32::MAX, 1), (1, 1)]), [(10, 10)]);
    assert_eq!(ranges(10, 1, &[(1, u32::MAX), (1, 1)]), [(10, 10)]);
    assert_eq!(ranges(0, 1, &[]), []);
    assert_eq!(ranges(10, 0, &[(1, 1)]), [], "never validated");
    let high = u64::from(u32::MAX) + 2;
    assert_eq!(ranges(high, u32::MAX, &[(1, 1)]), [(3, high), (1, 1)]);
    assert_eq!(
        ranges(u64::MAX, 1, &[(1, 1)]),
        [(u64::MAX, u64::MAX), (u64::MAX - 2, u64::MAX - 2)]
    );
}

proptest! {
    #[test]
    fn records_round_trip(samples in vec_of(any_sample(), 1..8), crc: Option<u32>) {
        let mut bytes = Vec::new();
        let mut writer = Writer::begin(&mut bytes, HEADER);
        if crc.is_some() {
            writer.check();
        }
        for sample in &samples {
            let before = writer.len();
            sample.write(&mut writer);
            prop_assert_eq!(writer.len() - before, sample.head_len(), "{:?}", sample);
        }
        let bodies = body(samples.iter().map(Sample::body_len).sum());
        seal(&mut bytes, bodies.len(), SECRET, crc);
        bytes.extend(&bodies);

        let frame = FrameView::open(SECRET, &bytes).unwrap();
        prop_assert_eq!(frame.header, HEADER);
        prop_assert_eq!(frame.crc(), crc);
        prop_assert_eq!(frame.validate(), Ok(samples.len() + usize::from(crc.is_some())));
        let mut records = frame.records();
        if let Some(crc) = crc {
            prop_assert_eq!(records.next(), Some((Record::Check { crc }, &[][..])));
        }
        let mut bodies = &bodies[..];
        for sample in &samples {
            let (record, body) = records.next().unwrap();
            sample.assert_reads_as(record);
            sample.assert_written_again(record);
            let expected = bodies.split_off(..sample.body_len()).unwrap();
            prop_assert_eq!(body, expected);
        }
        prop_assert_eq!(records.next(), None);
    }

    #[test]
    fn random_bytes_are_refused(bytes in vec_of(any::<u8>(), 0..200)) {
        FrameView::form(&bytes);
        prop_assert!(FrameView::open(SECRET, &bytes).is_err());
    }

    /// Rightly keyed nonsense: first words of known kinds with small numbers, so that much of it is nearly right.
    #[test]
    fn keyed_nonsense_is_read_without_panic(
        heads in vec_of((0..0x58_u8, any::<u8>(), 0..12_u16, any::<u32>()), 0..60),
        noise in vec_of(any::<u64>(), 0..8),
        body_len in 0..40_usize,
    ) {
        let mut bytes = Vec::new();
        let mut writer = Writer::begin(&mut bytes, HEADER);
        heads.iter().for_each(|&(kind, a, b, c)| writer.put([First::word(kind, a, b << (c % 9), c)]));
        noise.iter().for_each(|&word| writer.put([word]));
        seal(&mut bytes, body_len, SECRET, None);
        bytes.extend(body(body_len));
        let frame = FrameView::open(SECRET, &bytes).unwrap();
        let mut seen = 0;
        for (record, _) in frame.records() {
            seen += 1;
            match record {
                Record::Ack(ack) => {
                    let mut top = 1 + u64::from(ack.largest());
                    for (low, high) in ack.ranges(ack.largest().into()) {
                        prop_assert!(1 <= low && low <= high && high < top);
                        top = low;
                    }
                }
                Record::Hello(hello) => {
                    let _ = hello.address(SECRET);
                    prop_assert!(hello.locators(SECRET).count() <= LOCATOR_COUNT_MAX);
                }
                Record::Welcome(welcome) => {
                    let _ = welcome.address(SECRET);
                    prop_assert!(welcome.locators(SECRET).count() <= LOCATOR_COUNT_MAX);
                }
                _ => {}
            }
        }
        if let Ok(count) = frame.validate() {
            prop_assert_eq!(count, seen);
        }
    }
}

/// PROTOCOL §14.6.
#[test]
fn a_pass_is_a_word_of_its_secret_alone() {
    let eager =
        EagerRepr { space: Space(7), message: 9, tag: Tag(0xABCD), wants_match: false, len: 8 };
    let (pass, other) = (pass_of(&SECRET), pass_of(&Secret::PUBLIC));
    assert!(pass != other && pass != SECRET.0[0] && pass != SECRET.0[1]);
    let mut frame = Vec::new();
    write_lone_eager(&mut frame, HEADER, eager, Proof::Pass(pass));
    frame.resize(LONE_EAGER_LEN + 8, 5);
    let lone = LoneView::<LONE>::read(&frame).expect("its shape");
    assert!(lone.is_proven(Proof::Pass(pass), 0) && !lone.is_proven(Proof::Pass(other), 0));
    assert!(!lone.is_proven(Proof::Keyed(&SECRET), 0) && FrameView::open(SECRET, &frame).is_err());
}

#[test]
fn lone_message_is_written_and_read_as_by_the_general_rules() {
    for (wants_match, len) in [(false, 8), (true, 0), (false, 1000)] {
        let (space, tag) = (Space(7), Tag(0xABCD));
        let eager = EagerRepr { space, message: 9, tag, wants_match, len };
        let (mut frame, mut general) = (Vec::new(), Vec::new());
        write_lone_eager(&mut frame, HEADER, eager, Proof::Keyed(&SECRET));
        Writer::begin(&mut general, HEADER).eager(eager, None);
        seal(&mut general, usize::from(len), SECRET, None);
        assert_eq!(frame, general);
        frame.resize(LONE_EAGER_LEN + usize::from(len), 5);
        let lone = LoneView::<LONE>::read(&frame).expect("its shape");
        assert!(
            lone.is_proven(Proof::Keyed(&SECRET), 0)
                && !lone.is_proven(Proof::Keyed(&Secret::PUBLIC), 0)
        );
        let view = FrameView::open(SECRET, &frame).expect("keyed");
        let LoneMessage { header, head, body } = lone.message(0);
        assert_eq!((lone.view(0), header), (view, view.header));
        assert_eq!(view.lone_eager(), Some((head.head(), body)));
        let is_taken = |bytes: &[u8]| {
            LoneView::<LONE>::read(bytes)
                .is_some_and(|lone| lone.is_proven(Proof::Keyed(&SECRET), 0))
        };
        assert!(!is_taken(&frame[..frame.len() - 1]) && !is_taken(&[&frame[..], &[0]].concat()));
        for bit in 0..8 * LONE_EAGER_LEN {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_taken(&damaged), "bit {bit}");
        }
    }
}

#[test]
fn a_frame_with_an_ack_and_a_message_is_written_as_the_writer_writes_it() {
    let eager = EagerRepr { space: Space(9), message: 7, tag: Tag(!3), wants_match: true, len: 5 };
    let ack = AckRepr { path: 2, largest: 9, first_len: 8, delay_ns: 1, credit_len: u32::MAX };
    let (mut quick, mut frame) = (Vec::new(), Vec::new());
    write_acked_eager(&mut quick, HEADER, &ack, eager, Proof::Keyed(&SECRET));
    let mut writer = Writer::begin(&mut frame, HEADER);
    writer.ack(&ack, &[]);
    writer.eager(eager, None);
    seal(&mut frame, 5, SECRET, None);
    assert_eq!((quick.len(), quick), (ACKED_EAGER_LEN, frame));
}

/// One shape of `LoneView` against the general rules.
fn is_read_as_by_the_general_rules<const N: usize>(frame: &[u8], ack: Option<AckRepr>) {
    let lone = LoneView::<N>::read(frame).expect("its shape");
    assert!(
        lone.is_proven(Proof::Keyed(&SECRET), 0)
            && !lone.is_proven(Proof::Keyed(&Secret::PUBLIC), 0)
    );
    let view = FrameView::open(SECRET, frame).expect("keyed");
    let LoneMessage { header, head, body } = lone.message(0);
    assert_eq!((lone.view(0), header, lone.ack()), (view, view.header, ack));
    let plain = view.plain().expect("plain as well");
    assert_eq!(plain.messages().collect::<Vec<_>>(), [(head, body)]);
    let is_taken = |bytes: &[u8]| {
        LoneView::<N>::read(bytes).is_some_and(|it| it.is_proven(Proof::Keyed(&SECRET), 0))
    };
    assert!(!is_taken(&frame[..frame.len() - 1]) && !is_taken(&[frame, &[0]].concat()));
    for bit in 0..8 * N * 8 {
        let mut damaged = frame.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_taken(&damaged), "bit {bit}");
    }
}

#[test]
fn lone_frames_are_written_in_place_and_read_as_by_the_general_rules() {
    let eager = EagerRepr { space: Space(9), message: 7, tag: Tag(!3), wants_match: true, len: 5 };
    let ack = AckRepr { path: 2, largest: 9, first_len: 8, delay_ns: 1, credit_len: u32::MAX };
    for (ack, immediate) in
        [(None, None), (None, Some(3)), (Some(ack), None), (Some(ack), Some(u64::MAX))]
    {
        let mut place = [0xEE; LONE_HEAD_LEN_MAX];
        let words = (eager, immediate);
        let len = write_lone_at(&mut place, HEADER, ack.as_ref(), words, Proof::Keyed(&SECRET));
        let mut general = Vec::new();
        let mut writer = Writer::begin(&mut general, HEADER);
        if let Some(ack) = &ack {
            writer.ack(ack, &[]);
        }
        writer.eager(eager, immediate);
        seal(&mut general, 5, SECRET, None);
        assert_eq!(place[..len], general);
        let frame = [&general[..], b"hello"].concat();
        match (ack, immediate) {
            (None, None) => is_read_as_by_the_general_rules::<LONE>(&frame, ack),
            (None, Some(_)) => is_read_as_by_the_general_rules::<LONE_IMMEDIATE>(&frame, ack),
            (Some(_), None) => is_read_as_by_the_general_rules::<ACKED>(&frame, ack),
            (Some(_), Some(_)) => is_read_as_by_the_general_rules::<ACKED_IMMEDIATE>(&frame, ack),
        }
    }
}

#[test]
fn plain_frames_are_found_and_others_are_not() {
    let eager = EagerRepr { space: Space(1), message: 2, tag: Tag(3), wants_match: false, len: 4 };
    let after = EagerRepr { message: 3, wants_match: true, len: 2, ..eager };
    let ack = AckRepr { path: 0, largest: 9, first_len: 9, delay_ns: 1, credit_len: 2 };
    let frame = |is_checked: bool, write: &dyn Fn(&mut Writer<'_>), body: &[u8]| {
        let mut frame = Vec::new();
        let mut writer = Writer::begin(&mut frame, HEADER);
        if is_checked {
            writer.check();
        }
        write(&mut writer);
        seal(&mut frame, body.len(), SECRET, Some(77));
        [&frame[..], body].concat()
    };
    for (is_checked, acks, messages) in [
        (false, 0, 1),
        (true, 0, 1),
        (false, 1, 0),
        (true, 1, 0),
        (false, 1, 1),
        (true, 1, 1),
        (false, 0, 2),
        (true, 1, 2),
    ] {
        let write = |writer: &mut Writer<'_>| {
            for _ in 0..acks {
                writer.ack(&ack, &[]);
            }
            for (eager, immediate) in [(eager, None), (after, Some(7))].into_iter().take(messages) {
                writer.eager(eager, immediate);
            }
        };
        let body = &b"fouris"[..[0, 4, 6][messages]];
        let bytes = frame(is_checked, &write, body);
        let view = FrameView::open(SECRET, &bytes).expect("keyed");
        let plain = view.plain().expect("plain");
        assert_eq!(plain.crc, is_checked.then_some(77));
        assert_eq!(plain.ack.map(|ack| ack.repr()), (acks > 0).then_some(ack));
        assert_eq!((plain.is_ack_only(), plain.body), (messages == 0, body));
        let told: Vec<_> = view
            .records()
            .filter_map(|(record, body)| match record {
                Record::Message(head) => Some((head, body)),
                _ => None,
            })
            .collect();
        let messages = plain.messages().map(|(head, body)| (head.head(), body));
        assert_eq!(messages.collect::<Vec<_>>(), told);
        assert!(view.validate().is_ok());
    }
    type Write<'a> = &'a dyn Fn(&mut Writer<'_>);
    let others: [(Write<'_>, &[u8]); 8] = [
        (&|writer| writer.ack(&ack, &[(1, 2)]), b""),
        (&|writer| writer.ack(&AckRepr { first_len: 0, ..ack }, &[]), b""),
        (&|writer| [(); 2].into_iter().for_each(|()| writer.ack(&ack, &[])), b""),
        (&|writer| writer.eager(eager, Some(1)), b"three"),
        (&|writer| writer.eager(eager, None), b"three"),
        (&|writer| writer.ping(), b""),
        (&|writer| writer.data(Lane::Message, 1, 4, 0), b"four"),
        (&|_| (), b""),
    ];
    for (write, body) in others {
        for is_checked in [false, true] {
            let bytes = frame(is_checked, write, body);
            assert_eq!(FrameView::open(SECRET, &bytes).expect("keyed").plain(), None);
        }
    }
}
