//! The usual frames: written and read in a straight line as the general rules would write and read them.

use super::*;
use crate::seal::pass_of;

/// PROTOCOL §14.6.
#[test]
fn a_pass_is_a_word_of_its_secret_alone() {
    let eager =
        EagerRepr { space: Space(7), message: 9, tag: Tag(0xABCD), wants_match: false, len: 8 };
    let (pass, other) = (pass_of(&SECRET), pass_of(&Secret::PUBLIC));
    assert!(pass != other && pass.0 != SECRET.0[0] && pass.0 != SECRET.0[1]);
    let mut frame = Vec::new();
    write_lone_eager(&mut frame, HEADER, eager, &pass);
    frame.resize(LONE_EAGER_LEN + 8, 5);
    let lone = LoneView::<LONE>::read(&frame).expect("its shape");
    assert!(lone.is_proven(&pass, 0) && !lone.is_proven(&other, 0));
    assert!(!lone.is_proven(&SECRET, 0) && FrameView::open(SECRET, &frame).is_err());
}

#[test]
fn lone_message_is_written_and_read_as_by_the_general_rules() {
    for (wants_match, len) in [(false, 8), (true, 0), (false, 1000)] {
        let (space, tag) = (Space(7), Tag(0xABCD));
        let eager = EagerRepr { space, message: 9, tag, wants_match, len };
        let (mut frame, mut general) = (Vec::new(), Vec::new());
        write_lone_eager(&mut frame, HEADER, eager, &SECRET);
        Writer::begin(&mut general, HEADER).eager(eager, None);
        seal(&mut general, usize::from(len), SECRET, None);
        assert_eq!(frame, general);
        frame.resize(LONE_EAGER_LEN + usize::from(len), 5);
        let lone = LoneView::<LONE>::read(&frame).expect("its shape");
        assert!(lone.is_proven(&SECRET, 0) && !lone.is_proven(&Secret::PUBLIC, 0));
        let view = FrameView::open(SECRET, &frame).expect("keyed");
        let LoneMessage { header, head, body } = lone.message(0);
        assert_eq!((lone.view(0), header), (view, view.header));
        assert_eq!(view.lone_eager(), Some((head.head(), body)));
        let is_taken = |bytes: &[u8]| {
            LoneView::<LONE>::read(bytes).is_some_and(|lone| lone.is_proven(&SECRET, 0))
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
    write_acked_eager(&mut quick, HEADER, &ack, eager, &SECRET);
    let mut writer = Writer::begin(&mut frame, HEADER);
    writer.ack(&ack, &[]);
    writer.eager(eager, None);
    seal(&mut frame, 5, SECRET, None);
    assert_eq!((quick.len(), quick), (ACKED_EAGER_LEN, frame));
}

/// One shape of `LoneView` against the general rules.
fn is_read_as_by_the_general_rules<const N: usize>(frame: &[u8], ack: Option<AckRepr>) {
    let lone = LoneView::<N>::read(frame).expect("its shape");
    assert!(lone.is_proven(&SECRET, 0) && !lone.is_proven(&Secret::PUBLIC, 0));
    let view = FrameView::open(SECRET, frame).expect("keyed");
    let LoneMessage { header, head, body } = lone.message(0);
    assert_eq!((lone.view(0), header, lone.ack()), (view, view.header, ack));
    let plain = view.plain().expect("plain as well");
    assert_eq!(plain.messages().collect::<Vec<_>>(), [(head, body)]);
    let is_taken =
        |bytes: &[u8]| LoneView::<N>::read(bytes).is_some_and(|it| it.is_proven(&SECRET, 0));
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
        let len = write_lone_at(&mut place, HEADER, ack.as_ref(), words, &SECRET);
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
