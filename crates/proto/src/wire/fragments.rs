//! Fragments of one message that follow each other: a train.
//!
//! PROTOCOL §10.5. A message of several frames that nobody asked for leaves as frames that are alike: a header and one Fragment each,
//! which has all that matching needs. From one to the next the packet number grows by one and the offset by the payload's length, and
//! only the last may be shorter. So they are written, checked and read as one thing:
//!
//! ```text
//!   word    0 check    1 to       2 packet, heads, path, form    3 Fragment, len, message    4 tag      5 offset, total    6 immediate
//!             differs    the same   packet + n                     the same                    the same   offset + n × len   the same
//! ```
//!
//! The last frame is mostly shorter than the others, and so has room for an acknowledgement before its Fragment: that rides there.

use alloc::vec::Vec;

use super::layout::{
    First, HEADER_LEN, Header, WORD_LEN, ack_head_len, base_of, fragment_head_len, kind, number,
    pair, unpair,
};
use super::record::{AckRepr, AckView, Class, MessageHead};
use super::train::Heads;
use super::write::seal_high;
use crate::base::types::{Space, Tag};
use crate::seal::Seal;

/// Fragments that follow each other, but for their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentsRepr {
    /// Header of the first frame.
    pub header: Header,
    /// Head of the first frame: a Fragment. Its `len` is that of each frame but the last.
    pub head: MessageHead,
    /// Bytes in the last.
    pub last_len: u16,
    /// Frames. Their numbers have the same high half (`TrainRepr::count_to_wrap`).
    pub count: usize,
    /// An acknowledgement without holes that the last frame has before its Fragment. It makes that no longer than the others.
    pub ack: Option<AckRepr>,
}

/// Bytes of header and heads of a frame with an Ack without holes and one Fragment, at most.
const ACKED_LEN_MAX: usize = HEADER_LEN + ack_head_len(0) + fragment_head_len(true);

impl FragmentsRepr {
    /// Bytes of a frame before its payload, but for the last.
    pub const fn frame_head_len(&self) -> usize {
        HEADER_LEN + self.head.head_len()
    }

    /// Bytes of the last frame before its payload.
    pub const fn last_head_len(&self) -> usize {
        self.frame_head_len() + if self.ack.is_some() { ack_head_len(0) } else { 0 }
    }

    /// Payload of the first `count` frames.
    pub fn len_of(&self, count: usize) -> u64 {
        let is_whole = count > 0 && count == self.count;
        let short_by = if is_whole { self.head.len - self.last_len } else { 0 };
        count as u64 * u64::from(self.head.len) - u64::from(short_by)
    }

    /// The last frame as a train of its own, if it is shorter than the others or has an acknowledgement.
    fn other_last(&self) -> Option<Self> {
        let is_other = self.last_len < self.head.len || self.ack.is_some();
        let at = self.count.checked_sub(1).filter(|_| is_other)?;
        let header = Header { packet: self.header.packet + at as u64, ..self.header };
        let offset = self.head.offset.wrapping_add(at as u32 * u32::from(self.head.len));
        let head = MessageHead { offset, len: self.last_len, ..self.head };
        Some(Self { header, head, last_len: self.last_len, count: 1, ack: self.ack })
    }

    /// The sealed head of a frame with this acknowledgement before the Fragment, and how long it is.
    fn acked_head(&self, ack: &AckRepr, seal: &impl Seal) -> ([u8; ACKED_LEN_MAX], usize) {
        let [to, last, first, tag, place] = self.words();
        let [one, two, three] = ack.words();
        let immediate = self.head.immediate.unwrap_or(0);
        let words = [0, to, last, one, two, three, first, tag, place, immediate];
        let mut out = [0; ACKED_LEN_MAX];
        for (slot, word) in out.as_chunks_mut::<WORD_LEN>().0.iter_mut().zip(words) {
            *slot = word.to_le_bytes();
        }
        let len = self.last_head_len();
        seal_high(&mut out[..len], self.head.len.into(), base_of(self.header.packet), seal, None);
        (out, len)
    }

    /// The words of the frames up to the immediate, without their checks.
    fn words(&self) -> [u64; 5] {
        let head = &self.head;
        let [_, to, last] = self.header.words();
        let last = last | (head.head_len() as u64) << 32;
        let wants_match = u8::from(head.wants_match) * kind::WANTS_MATCH;
        let with_immediate = u8::from(head.immediate.is_some()) * kind::WITH_IMMEDIATE;
        let kind = kind::FRAGMENT | wants_match | with_immediate;
        let first = First::word(kind, head.space.0, head.len, head.message);
        [to, last, first, head.tag.0, pair(head.offset, head.total as u32)]
    }

    fn plain(&self) -> Heads<5> {
        let base = base_of(self.header.packet);
        Heads { words: self.words(), payload_len: self.head.len, base }
    }

    fn with_immediate(&self, immediate: u64) -> Heads<6> {
        let [to, last, first, tag, place] = self.words();
        let words = [to, last, first, tag, place, immediate];
        Heads { words, payload_len: self.head.len, base: base_of(self.header.packet) }
    }

    fn write(&self, out: &mut [u8], seal: &impl Seal) {
        match self.head.immediate {
            None => self.plain().write(out, seal),
            Some(immediate) => self.with_immediate(immediate).write(out, seal),
        }
    }

    fn agreeing(&self, frames: &[u8], stride: usize, count: usize, seal: &impl Seal) -> usize {
        match self.head.immediate {
            None => self.plain().agreeing(frames, stride, count, seal),
            Some(immediate) => self.with_immediate(immediate).agreeing(frames, stride, count, seal),
        }
    }
}

/// Writes and seals the heads of fragments, one behind the other; what was in `out` is forgotten.
pub fn write_fragments(out: &mut Vec<u8>, train: &FragmentsRepr, seal: &impl Seal) {
    let last = train.other_last();
    let alike_count = train.count - usize::from(last.is_some());
    let alike_len = alike_count * train.frame_head_len();
    out.resize(alike_len + last.map_or(0, |last| last.last_head_len()), 0);
    let (alike, other) = out.split_at_mut(alike_len);
    train.write(alike, seal);
    match (last, train.ack) {
        (Some(last), Some(ack)) => {
            let (head, len) = last.acked_head(&ack, seal);
            other.copy_from_slice(&head[..len]);
        }
        (Some(last), None) => last.write(other, seal),
        (None, _) => {}
    }
}

/// What a frame says that is one Fragment and nothing else, not verified; of its packet number the low half. `None` if it is something else, or has
/// not the length it says.
pub fn lone_fragment(frame: &[u8]) -> Option<(Header, MessageHead)> {
    let (words, _) = frame.as_chunks::<WORD_LEN>();
    let [_, to, last, first, tag, place, ..] = words else { return None };
    let (last, first) = (number(last), First::read(*first));
    let bits = first.kind() ^ kind::FRAGMENT;
    let has_immediate = bits & kind::WITH_IMMEDIATE != 0;
    let (offset, total) = unpair(number(place));
    let head = MessageHead {
        class: Class::Fragment,
        space: Space(first.a()),
        message: first.c(),
        tag: Tag(number(tag)),
        offset,
        total: total.into(),
        immediate: if has_immediate { Some(number(words.get(6)?)) } else { None },
        wants_match: bits & kind::WANTS_MATCH != 0,
        len: first.b(),
        ahead: 0,
    };
    // No honest fragment is empty, and who counts how many fit into a gap divides by its length.
    let is_lone = bits & !(kind::WITH_IMMEDIATE | kind::WANTS_MATCH) == 0
        && head.len > 0
        && last >> 32 & 0xFFFF == head.head_len() as u64
        && frame.len() == HEADER_LEN + head.head_len() + usize::from(head.len);
    is_lone.then(|| (Header::read(number(to), last, 0), head))
}

/// How many of the frames that stand behind each other in `frames`, from the first on, are those of the train, rightly keyed. All are as
/// long as the first, but perhaps the last.
pub fn agreeing_fragments(frames: &[u8], train: &FragmentsRepr, seal: &impl Seal) -> usize {
    let stride = train.frame_head_len() + usize::from(train.head.len);
    let last = train.other_last();
    let alike_count = train.count - usize::from(last.is_some());
    let count = train.agreeing(frames, stride, alike_count, seal);
    let Some(last) = last.filter(|_| count == alike_count) else { return count };
    let rest = frames.get(count * stride..).unwrap_or_default();
    match train.ack {
        None => count + last.agreeing(rest, stride, 1, seal),
        Some(ack) => {
            let (head, len) = last.acked_head(&ack, seal);
            count + usize::from(rest.starts_with(&head[..len]))
        }
    }
}

/// What frames that stand behind each other say, each `stride` bytes long but for the last, if they are all of one message and nothing
/// else but perhaps an acknowledgement; not verified, of the packet number the low half. `None` if they are something else.
pub fn whole_message(frames: &[u8], stride: usize) -> Option<FragmentsRepr> {
    let (header, head) = lone_fragment(frames.get(..stride)?)?;
    let payload_len = u64::from(head.len);
    // A message that has only one frame is not cut, and one whose fragments are longer than itself has none.
    if head.offset != 0 || head.total <= payload_len || head.total > frames.len() as u64 {
        return None;
    }
    let before = (head.total - 1) / payload_len;
    let last_len = (head.total - before * payload_len) as u16;
    let last = frames.get(before as usize * stride..)?;
    let lone_len = HEADER_LEN + head.head_len() + usize::from(last_len);
    let ack = match last.len().checked_sub(lone_len)? {
        0 => None,
        len if len == ack_head_len(0) && last.len() <= stride => Some(ack_of(last)?),
        _ => return None,
    };
    Some(FragmentsRepr { header, head, last_len, count: before as usize + 1, ack })
}

/// The Ack without holes at the front of a frame.
fn ack_of(frame: &[u8]) -> Option<AckRepr> {
    let (words, _) = frame.as_chunks::<WORD_LEN>();
    let [_, _, _, first, lens, credit, ..] = words else { return None };
    let first = First::read(*first);
    let is_ack = first.kind() == kind::ACK && first.b() == 0;
    is_ack.then(|| AckView::without_pairs(first, number(lens), number(credit)).repr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::secret::Secret;
    use crate::wire::{TrainRepr, Writer, seal_high};
    use alloc::vec;
    use proptest::prelude::*;

    const KEY: Secret = Secret([0x1234_5678_9ABC_DEF0, 77]);

    /// A train's frames as they leave, with payload of sevens.
    fn frames_of(train: &FragmentsRepr) -> Vec<u8> {
        let mut heads = vec![9; 100];
        write_fragments(&mut heads, train, &KEY);
        let mut frames = Vec::new();
        let (last, others) = (train.count - 1, train.frame_head_len());
        for head in heads[..last * others].chunks(others) {
            frames.extend_from_slice(head);
            frames.resize(frames.len() + usize::from(train.head.len), 7);
        }
        frames.extend_from_slice(&heads[last * others..]);
        frames.resize(frames.len() + usize::from(train.last_len), 7);
        frames
    }

    fn count_of(frames: &[u8], train: &FragmentsRepr) -> usize {
        agreeing_fragments(frames, train, &KEY)
    }

    #[test]
    fn an_empty_fragment_is_left_to_who_looks_at_single_frames() {
        let header = Header { to: 7, packet: 9, path: 0, form: 1 };
        let head = MessageHead {
            class: Class::Fragment,
            space: Space(0),
            message: 3,
            tag: Tag(5),
            offset: 0,
            total: 4000,
            immediate: None,
            wants_match: false,
            len: 0,
            ahead: 0,
        };
        let mut frame = Vec::new();
        Writer::begin(&mut frame, header).message(&head);
        seal_high(&mut frame, 0, 0, &KEY, None);
        assert_eq!(lone_fragment(&frame), None);
        frame.push(7);
        assert_eq!(lone_fragment(&frame), None, "nor one that says so and has a byte");
    }

    proptest! {
        #[test]
        fn a_whole_message_is_known_by_its_frames(
            packet in 0..u64::from(u32::MAX) / 2, message: u32, payload_len in 40..3000_u16,
            total in 41..60_000_u32, immediate: Option<u64>, with_ack: bool, more in 1..100_usize,
        ) {
            let header = Header { to: 5, packet, path: 0, form: 1 };
            let head = MessageHead {
                class: Class::Fragment, space: Space(3), message, tag: Tag(9), offset: 0,
                total: total.into(), immediate, wants_match: false, len: payload_len, ahead: 0,
            };
            let count = total.div_ceil(payload_len.into()) as usize;
            let last_len = (total - (count as u32 - 1) * u32::from(payload_len)) as u16;
            let has_room = usize::from(last_len) + ack_head_len(0) <= usize::from(payload_len);
            let ack = (with_ack && has_room).then_some(AckRepr {
                path: 1, largest: message, first_len: 7, delay_ns: 8, credit_len: 9,
            });
            let train = FragmentsRepr { header, head, last_len, count, ack };
            let mut frames = frames_of(&train);
            let stride = train.frame_head_len() + usize::from(payload_len);
            let expected = (count > 1).then_some(train);
            prop_assert_eq!(whole_message(&frames, stride), expected);
            // Neither less nor more than the message.
            prop_assert_eq!(whole_message(&frames[..frames.len() - 1], stride), None);
            let more = more.min(stride);
            frames.resize(frames.len() + more, 7);
            let is_ack = more == ack_head_len(0) && ack.is_none();
            prop_assert!(is_ack || whole_message(&frames, stride).is_none());
        }

        #[test]
        fn heads_are_those_of_the_fragments_one_by_one(
            to: u64, packet in 0..u64::MAX / 2, path: u8, message: u32, tag: u64, space: u8,
            offset in 0..1_u32 << 20, payload_len in 1..3000_u16, short_by in 0..3000_u16,
            count in 1..100_usize, immediate: Option<u64>, wants_match: bool, total in 1_u32 << 21..u32::MAX,
            cut in 0..100_usize, bit in 0..8 * 48_usize, ack_path: Option<u8>,
        ) {
            let count = count.min(TrainRepr::count_to_wrap(packet) as usize);
            let last_len = payload_len.saturating_sub(short_by).max(1);
            let has_room = usize::from(last_len) + ack_head_len(0) <= usize::from(payload_len);
            let ack = ack_path.filter(|_| has_room).map(|path| AckRepr {
                path, largest: message, first_len: 7, delay_ns: tag as u32, credit_len: to as u32,
            });
            let header = Header { to, packet, path, form: 1 };
            let head = MessageHead {
                class: Class::Fragment, space: Space(space), message, tag: Tag(tag), offset,
                total: total.into(), immediate, wants_match, len: payload_len, ahead: 0,
            };
            let train = FragmentsRepr { header, head, last_len, count, ack };
            let frames = frames_of(&train);
            let stride = train.frame_head_len() + usize::from(payload_len);
            let mut sent_len = 0;
            for (at, frame) in frames.chunks(stride).enumerate() {
                let len = if at + 1 == count { last_len } else { payload_len };
                let header = Header { packet: packet + at as u64, ..header };
                let head = MessageHead { offset: offset + sent_len, len, ..head };
                let mut single = Vec::new();
                let mut writer = Writer::begin(&mut single, header);
                let rides = ack.filter(|_| at + 1 == count);
                if let Some(ack) = &rides {
                    writer.ack(ack, &[]);
                }
                writer.message(&head);
                seal_high(&mut single, len.into(), base_of(packet), &KEY, None);
                prop_assert_eq!(&frame[..single.len()], &single[..], "frame {}", at);
                sent_len += u32::from(len);
                if rides.is_some() {
                    prop_assert_eq!(lone_fragment(frame), None);
                    continue;
                }
                let low = Header { packet: header.packet & u64::from(u32::MAX), ..header };
                prop_assert_eq!(lone_fragment(frame), Some((low, head)));
                prop_assert_eq!(lone_fragment(&frame[..frame.len() - 1]), None);
            }
            prop_assert_eq!(train.len_of(count), u64::from(sent_len));
            prop_assert_eq!(count_of(&frames, &train), count);
            // What is cut off does not agree, nor what is behind a bit that differs.
            let cut = cut.min(count - 1);
            prop_assert_eq!(count_of(&frames[..cut * stride], &train), cut);
            let mut bad = frames;
            bad[cut * stride + bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(count_of(&bad, &train), cut);
        }
    }
}
