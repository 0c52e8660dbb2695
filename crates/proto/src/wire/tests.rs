//! What must hold of frames: every record survives its bytes, nothing else does.

mod samples;
mod usual;

use super::layout::{First, Word, kind, pair};
use super::*;
use crate::base::secret::Secret;
use crate::base::siphash::mask;
use crate::base::types::{Address, AddressError, Identity, Locator, Space, Tag};
use alloc::vec;
use alloc::vec::Vec;

const SECRET: Secret = Secret([0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210]);
const HEADER: Header =
    Header { to: 0x0807_0605_0403_0201, packet: 0x0C0B_0A09, path: 0x0D, form: VERSION };

fn address_of(secret: [u64; 2], host: u64, endpoint: u64) -> Address {
    let locator = Locator([host as u8; 24]);
    let has_helper = endpoint % 2 == 1;
    Address { secret: Secret(secret), identity: Identity { host, endpoint }, locator, has_helper }
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
    let check = crate::base::siphash::siphash13(SECRET, &bytes[8..56], 59);
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
        who: Introduction {
            flags: FLAG_HELPER,
            versions: 0x12,
            frame_len_max: 0x0504,
            incarnation: 6,
            id: 7,
            nonce: 8,
        },
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
