//! The body of the fuzz target `frame`: arbitrary bytes, raw and rightly keyed.
//!
//! Raw bytes hardly ever pass the keyed check, so the parser proper would never be reached: the same bytes are also
//! sealed as an attacker would who knows the address. Whatever validates must survive being written again.

use packhorse_proto::Secret;
use packhorse_proto::wire::{FrameView, HEADER_LEN, Record, Writer, seal};

const SECRET: Secret = Secret([0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210]);

/// Reads `bytes` as a frame in every way; panics if the parser contradicts itself.
pub fn frame(bytes: &[u8]) {
    let _ = FrameView::form(bytes);
    if let Ok(view) = FrameView::open(SECRET, bytes) {
        inspect(&view);
    }
    let Some((split, rest)) = bytes.split_first_chunk::<2>() else { return };
    let Some(heads_room) = rest.len().checked_sub(HEADER_LEN) else { return };
    let heads_len = (usize::from(u16::from_le_bytes(*split)) % (heads_room + 1)) & !7;
    let mut sealed = rest.to_vec();
    let (head, body) = sealed.split_at_mut(HEADER_LEN + heads_len);
    seal(head, body.len(), SECRET, None);
    let view = FrameView::open(SECRET, &sealed).expect("a sealed frame opens");
    inspect(&view);
    assert!(FrameView::open(Secret::PUBLIC, &sealed).is_err(), "opened with the wrong key");
}

fn inspect(view: &FrameView<'_>) {
    let records: Vec<_> = view.records().collect();
    let body_len: usize = records.iter().map(|(_, body)| body.len()).sum();
    assert!(body_len <= view.body.len(), "records claim bytes that are not there");
    // Only what validates is believed; of the rest it is enough that reading it does no harm.
    if let Ok(count) = view.validate() {
        for (record, body) in &records {
            look_into(record, body);
        }
        assert_eq!(
            (count, body_len),
            (records.len(), view.body.len()),
            "validate and records disagree"
        );
        write_again(view, &records);
    }
}

/// Asks a record everything that an endpoint may ask of it.
fn look_into(record: &Record<'_>, body: &[u8]) {
    match record {
        Record::Ack(ack) => {
            let mut above = u64::MAX;
            for (low, high) in ack.ranges(u64::from(ack.largest())) {
                assert!(
                    1 <= low && low <= high && high < above,
                    "ranges of an ack overlap or run upwards"
                );
                above = low;
            }
        }
        Record::Hello(hello) => {
            let _ = hello.address(SECRET);
            assert!(hello.locators(SECRET).count() <= 8);
        }
        Record::Welcome(welcome) => {
            let _ = welcome.address(SECRET);
            assert!(welcome.locators(SECRET).count() <= 8);
        }
        Record::Message(head) => {
            assert_eq!(usize::from(head.len), body.len());
            assert!(
                u64::from(head.offset) + u64::from(head.len) <= head.total,
                "a part beyond its whole"
            );
        }
        Record::Grant { offset, len, .. } => assert!(offset.checked_add(*len).is_some()),
        Record::Data { offset, .. } => assert!(offset.checked_add(body.len() as u64).is_some()),
        _ => {}
    }
}

/// Writes the records of a valid frame with `Writer`: reading that must give the same records.
fn write_again(view: &FrameView<'_>, records: &[(Record<'_>, &[u8])]) {
    let mut head = Vec::new();
    let mut writer = Writer::begin(&mut head, view.header);
    let all_written = records.iter().all(|(record, body)| writer.record(record, body.len() as u16));
    if !all_written {
        return; // a Hello or a Welcome is among them
    }
    seal(&mut head, view.body.len(), SECRET, view.crc());
    head.extend_from_slice(view.body);
    let copy = FrameView::open(SECRET, &head).expect("a written frame opens");
    assert_eq!(copy.header, view.header);
    assert_eq!(copy.validate(), Ok(records.len()));
    assert!(copy.records().eq(records.iter().copied()), "records changed in being written again");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::stretched;

    #[test]
    fn arbitrary_bytes_are_survived() {
        for seed in 0..2_000 {
            frame(&stretched(seed, 2 + (seed as usize * 7) % 400));
        }
    }
}
