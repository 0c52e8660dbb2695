//! Whatever record is written is read as it was; whatever else comes is refused or read without panic.

use super::*;
use crate::wire::layout::unpair;
use proptest::collection::vec as vec_of;
use proptest::prelude::*;

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
                assert_eq!(view.who(), hello.who);
                assert_eq!(view.address(SECRET), Ok(hello.address));
                assert_eq!(view.locators(SECRET).collect::<Vec<_>>(), *locators);
            }
            (Self::Welcome(welcome, locators), Record::Welcome(view)) => {
                let told = if welcome.address.is_some() { FLAG_ADDRESS } else { 0 };
                let who = Introduction { flags: welcome.who.flags | told, ..welcome.who };
                assert_eq!(view.who(), who);
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
        Record::Outcome { .. } => OUTCOME_HEAD_LEN,
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
    let class =
        prop_oneof![Just(Class::Eager), Just(Class::Fragment), Just(Class::Rts), Just(Class::Told)];
    let numbers = (any::<u8>(), any::<u32>(), any::<u64>(), any::<u32>(), any::<u64>());
    (class, numbers, any::<Option<u64>>(), any::<bool>(), 0..600_u16).prop_map(
        |(class, (space, message, tag, offset, total), immediate, wants_match, len)| {
            let len = if class == Class::Told { WHEREABOUTS_LEN as u16 } else { len };
            let body_len = u64::from(len);
            let (offset, total) = match class {
                Class::Eager => (0, body_len),
                Class::Fragment => {
                    let total = (total >> 32).clamp(body_len.max(1), u64::from(u32::MAX));
                    (offset.min((total - body_len) as u32), total)
                }
                Class::Rts => (0, (total & TOTAL_MAX).max(body_len)),
                Class::Told => (0, total & TOTAL_MAX),
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
                4 => Record::Done { message, status: a, placed_len: x },
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
                16 => {
                    let (moved_len, offset, list, follows) = (x, y, order as u8, none);
                    let answer = OutcomeRepr { fail: a, list, moved_len, offset, follows };
                    Record::Outcome { number: message, answer }
                }
                _ => Record::PathResponse { path: a, nonce: x },
            };
            let has_body = matches!(
                record,
                Record::Pad | Record::Data { .. } | Record::Reply { .. } | Record::Outcome { .. }
            );
            Sample::Plain(record, if has_body { len } else { 0 })
        },
    )
}

fn any_request() -> impl Strategy<Value = Sample> {
    let numbers = (any::<u32>(), any::<[u64; 3]>(), any::<u32>(), any::<[u8; 2]>());
    (0..7_u8, numbers, any::<Option<u64>>(), any::<bool>(), 0..600_u16).prop_map(
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
                4 | 5 => {
                    let kinds = [
                        MatchedKind::Put,
                        MatchedKind::Ask,
                        MatchedKind::Get,
                        MatchedKind::Atomic,
                        MatchedKind::Fetch,
                    ];
                    let kind = kinds[usize::from(op) % kinds.len()];
                    let len =
                        if matches!(kind, MatchedKind::Ask | MatchedKind::Get) { 0 } else { len };
                    let total = if len == 0 { wide } else { len.into() };
                    let total = if len == 0 && !matches!(kind, MatchedKind::Ask | MatchedKind::Get)
                    {
                        0
                    } else {
                        total
                    };
                    let operand = immediate.map(|word| [word, wide, 0, key]);
                    let matched = Matched {
                        kind,
                        ni: op & 3,
                        ack: datatype,
                        op,
                        datatype,
                        len,
                        portal: narrow,
                        uid: number,
                        total,
                        header: key,
                        initiator: target,
                        operand,
                    };
                    (Action::Matched(matched), len)
                }
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
                        who: Introduction {
                            flags,
                            versions,
                            frame_len_max,
                            incarnation,
                            id,
                            nonce,
                        },
                        address,
                        locators: &[],
                    };
                    Sample::Hello(hello, locators)
                }
                1 => {
                    let address = told.then_some(address);
                    let flags = flags & !FLAG_ADDRESS;
                    let welcome = WelcomeRepr {
                        who: Introduction {
                            flags,
                            versions,
                            frame_len_max,
                            id,
                            nonce,
                            incarnation,
                        },
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
