//! Frames on their way out: heads as bytes, payload as places in the application's memory.
//!
//! A burst is made once and used again. The engine fills it, a link sends it; what is next to each other, goes to the
//! same place and has the same length a link may send as a train.

use std::ops::Range;

use crate::Locator;
use crate::mem::{MemoryId, UserMemory};

/// A piece of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// In the burst itself.
    Head {
        /// From where.
        at: u32,
        /// How many bytes.
        len: u32,
    },
    /// In the application's memory.
    User {
        /// Which.
        id: MemoryId,
        /// From where.
        offset: u64,
        /// How many bytes.
        len: u32,
    },
}

/// A frame of a burst.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Where to.
    pub to: Locator,
    /// Its length.
    pub len: u32,
    pieces: Pieces,
}

/// Where the pieces of a frame are.
#[derive(Clone, Copy, Debug)]
enum Pieces {
    /// Among all, from the first of these numbers to before the second.
    Listed(u32, u32),
    /// Of a train that is in the burst with all its bytes.
    One([Piece; 1]),
    /// Of a train: head and payload.
    Two([Piece; 2]),
}

/// Frames of equal length, one behind the other, heads and payload, all of it in the burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gathered {
    /// Frames.
    count: u32,
    /// Length of each but the last.
    frame_len: u32,
    /// Length of the last, not more.
    last_len: u32,
    /// Where the first begins.
    at: u32,
}

/// Frames of equal length, one behind the other, whose payload is one range of the application's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// Frames.
    pub count: u32,
    /// Bytes before the payload of each.
    pub head_len: u32,
    /// Payload of each but the last.
    pub payload_len: u32,
    /// Payload of the last, not more.
    pub last_len: u32,
    /// The memory.
    pub id: MemoryId,
    /// Where in it the payload starts.
    pub offset: u64,
}

impl Train {
    /// Length of a frame but the last.
    pub fn frame_len(&self) -> usize {
        self.head_len as usize + self.payload_len as usize
    }

    /// Payload of the first `count` frames.
    pub fn payload_of(&self, count: usize) -> u64 {
        let is_whole = count > 0 && count == self.count as usize;
        let short_by = if is_whole { self.payload_len - self.last_len } else { 0 };
        count as u64 * u64::from(self.payload_len) - u64::from(short_by)
    }
}

/// What stands in a burst.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Frame {
        len: u32,
        piece_start: u32,
        piece_end: u32,
    },
    /// With the place of its first head.
    Train(Train, u32),
    Gathered(Gathered),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    to: Locator,
    /// Number of its first frame.
    number: u32,
    kind: Kind,
}

/// Frames to send.
#[derive(Debug, Default)]
pub struct Burst {
    heads: Vec<u8>,
    pieces: Vec<Piece>,
    entries: Vec<Entry>,
    /// Frames in all.
    count: u32,
}

impl Burst {
    /// Forgets everything, keeps the room.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.pieces.clear();
        self.entries.clear();
        self.count = 0;
    }

    /// Starts the next frame.
    #[inline]
    pub fn begin(&mut self, to: Locator) {
        let start = self.pieces.len() as u32;
        let kind = Kind::Frame { len: 0, piece_start: start, piece_end: start };
        self.entries.push(Entry { to, number: self.count, kind });
        self.count += 1;
    }

    /// Adds a train with these heads.
    pub fn train(&mut self, to: Locator, heads: &[u8], train: Train) {
        assert!(
            train.head_len > 0
                && heads.len() == train.count as usize * train.head_len as usize
                && train.last_len <= train.payload_len,
            "{} bytes of heads for {train:?}",
            heads.len()
        );
        let at = self.heads.len() as u32;
        self.heads.extend_from_slice(heads);
        self.entries.push(Entry { to, number: self.count, kind: Kind::Train(train, at) });
        self.count += train.count;
    }

    /// Adds frames whose payload is copied now, each behind its head. All are as long as the first but the last, which is not longer. `copy`
    /// puts bytes of the payload behind what it is given.
    pub fn gathered<'a>(
        &mut self,
        to: Locator,
        frames: impl Iterator<Item = (&'a [u8], Range<usize>)>,
        mut copy: impl FnMut(Range<usize>, &mut Vec<u8>),
    ) {
        let at = self.heads.len();
        let (mut count, mut frame_len, mut last_len) = (0, 0, 0);
        for (head, payload) in frames {
            assert!(count == 0 || last_len == frame_len, "a frame behind a shorter one");
            last_len = head.len() + payload.len();
            frame_len = if count == 0 { last_len } else { frame_len };
            self.heads.extend_from_slice(head);
            copy(payload, &mut self.heads);
            count += 1;
        }
        let all = (count as usize).saturating_sub(1) * frame_len + last_len;
        assert!(
            last_len <= frame_len && self.heads.len() - at == all,
            "{count} frames of {frame_len} and one of {last_len} bytes"
        );
        let (frame_len, last_len, at) = (frame_len as u32, last_len as u32, at as u32);
        let kind = Kind::Gathered(Gathered { count, frame_len, last_len, at });
        self.entries.push(Entry { to, number: self.count, kind });
        self.count += count;
    }

    /// Adds bytes to the frame begun last.
    pub fn head(&mut self, bytes: &[u8]) {
        let at = self.heads.len() as u32;
        self.heads.extend_from_slice(bytes);
        self.add_head(at, bytes.len() as u32);
    }

    /// Adds bytes of the application's memory to the frame begun last, by copying them now.
    pub fn copied(&mut self, memory: &mut impl UserMemory, id: MemoryId, offset: u64, len: usize) {
        let at = self.heads.len() as u32;
        memory.gather(id, offset, len, &mut self.heads);
        self.add_head(at, len as u32);
    }

    /// Adds zeros to the frame begun last.
    pub fn zeros(&mut self, len: usize) {
        let at = self.heads.len() as u32;
        self.heads.resize(self.heads.len() + len, 0);
        self.add_head(at, len as u32);
    }

    /// Adds bytes of the application's memory to the frame begun last, by name.
    pub fn user(&mut self, id: MemoryId, offset: u64, len: u32) {
        self.pieces.push(Piece::User { id, offset, len });
        self.grow(len);
    }

    /// The frame begun last: its length, where its pieces start and end.
    fn last_frame(&mut self) -> Option<(&mut u32, u32, &mut u32)> {
        match &mut self.entries.last_mut()?.kind {
            Kind::Frame { len, piece_start, piece_end } => Some((len, *piece_start, piece_end)),
            Kind::Train(..) | Kind::Gathered(_) => None,
        }
    }

    fn add_head(&mut self, at: u32, more: u32) {
        let Some((frame_len, start, end)) = self.last_frame() else { return };
        *frame_len += more;
        let is_first = start == *end;
        if is_first || !self.lengthens_head(at, more) {
            self.pieces.push(Piece::Head { at, len: more });
            if let Some((_, _, end)) = self.last_frame() {
                *end += 1;
            }
        }
    }

    /// Makes the last piece longer, if that ends at `at`.
    fn lengthens_head(&mut self, at: u32, more: u32) -> bool {
        match self.pieces.last_mut() {
            Some(Piece::Head { at: start, len }) if *start + *len == at => {
                *len += more;
                true
            }
            _ => false,
        }
    }

    fn grow(&mut self, more: u32) {
        if let Some((len, _, end)) = self.last_frame() {
            *len += more;
            *end += 1;
        }
    }

    /// Where in `entries` a frame is: which, and how many of that entry are before it.
    fn find(&self, number: usize) -> (usize, usize) {
        let behind = self.entries.partition_point(|entry| entry.number as usize <= number);
        let at = behind.saturating_sub(1);
        (at, self.entries.get(at).map_or(0, |entry| number - entry.number as usize))
    }

    /// The frames from number `first` on, in order: those of trains one by one.
    pub fn frames(&self, first: usize) -> impl Iterator<Item = Frame> + '_ {
        let (at, inner) =
            if first < self.len() { self.find(first) } else { (self.entries.len(), 0) };
        self.entries[at..].iter().flat_map(|entry| entry.frames()).skip(inner)
    }

    /// The first frame from number `number` on; there must be one.
    pub fn frame(&self, number: usize) -> Frame {
        let (at, inner) = self.find(number);
        self.entries[at].frame(inner as u32)
    }

    /// What is left of a train from frame `number` on, if it is in one: where it goes, its heads, itself.
    pub fn train_at(&self, number: usize) -> Option<(&Locator, &[u8], Train)> {
        let (at, inner) = self.find(number);
        let entry = self.entries.get(at)?;
        let Kind::Train(train, head_at) = entry.kind else { return None };
        let rest = Train {
            count: train.count.checked_sub(inner as u32).filter(|&count| count > 0)?,
            offset: train.offset + inner as u64 * u64::from(train.payload_len),
            ..train
        };
        let start = head_at as usize + inner * train.head_len as usize;
        let heads = &self.heads[start..start + rest.count as usize * train.head_len as usize];
        Some((&entry.to, heads, rest))
    }

    /// The bytes of frame `first` and where it goes, if it is the last and all of it is in the burst.
    #[inline]
    pub fn lone(&self, first: usize) -> Option<(&Locator, &[u8])> {
        let entry = self.entries.last().filter(|entry| entry.number as usize == first)?;
        let Kind::Frame { piece_start, piece_end, .. } = entry.kind else { return None };
        match &self.pieces[piece_start as usize..piece_end as usize] {
            [piece @ Piece::Head { .. }] => Some((&entry.to, self.head_bytes(piece))),
            _ => None,
        }
    }

    /// The pieces of a frame.
    pub fn pieces<'a>(&'a self, frame: &'a Frame) -> &'a [Piece] {
        match &frame.pieces {
            Pieces::Listed(start, end) => &self.pieces[*start as usize..*end as usize],
            Pieces::One(one) => one,
            Pieces::Two(two) => two,
        }
    }

    /// The bytes of a head piece; none for another.
    pub fn head_bytes(&self, piece: &Piece) -> &[u8] {
        match *piece {
            Piece::Head { at, len } => &self.heads[at as usize..(at + len) as usize],
            Piece::User { .. } => &[],
        }
    }

    /// Appends the whole frame to `out`.
    pub fn gather(&self, frame: &Frame, memory: &mut impl UserMemory, out: &mut Vec<u8>) {
        for piece in self.pieces(frame) {
            match *piece {
                Piece::Head { .. } => out.extend_from_slice(self.head_bytes(piece)),
                Piece::User { id, offset, len } => memory.gather(id, offset, len as usize, out),
            }
        }
    }

    /// How many frames there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Entry {
    fn count(&self) -> u32 {
        match self.kind {
            Kind::Frame { .. } => 1,
            Kind::Train(train, _) => train.count,
            Kind::Gathered(train) => train.count,
        }
    }

    fn frames(&self) -> impl Iterator<Item = Frame> + '_ {
        (0..self.count()).map(|number| self.frame(number))
    }

    fn frame(&self, number: u32) -> Frame {
        match self.kind {
            Kind::Frame { len, piece_start, piece_end } => {
                Frame { to: self.to, len, pieces: Pieces::Listed(piece_start, piece_end) }
            }
            Kind::Train(train, at) => {
                let is_last = number + 1 == train.count;
                let len = if is_last { train.last_len } else { train.payload_len };
                let offset = train.offset + u64::from(number) * u64::from(train.payload_len);
                let head = Piece::Head { at: at + number * train.head_len, len: train.head_len };
                let two = [head, Piece::User { id: train.id, offset, len }];
                Frame { to: self.to, len: train.head_len + len, pieces: Pieces::Two(two) }
            }
            Kind::Gathered(train) => {
                let is_last = number + 1 == train.count;
                let len = if is_last { train.last_len } else { train.frame_len };
                let one = [Piece::Head { at: train.at + number * train.frame_len, len }];
                Frame { to: self.to, len, pieces: Pieces::One(one) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Table;

    #[test]
    fn frames_are_gathered_piece_by_piece() {
        let mut table = Table::default();
        let id = table.insert(vec![1, 2, 3, 4, 5].into());
        let mut burst = Burst::default();
        burst.begin([1; 24]);
        burst.head(b"ab");
        burst.head(b"c");
        burst.user(id, 1, 2);
        burst.begin([2; 24]);
        burst.head(b"d");
        burst.copied(&mut table, id, 3, 2);
        let frames: Vec<_> = burst.frames(0).collect();
        assert_eq!((frames[0].len, frames[1].len), (5, 3));
        assert_eq!(burst.pieces(&frames[0]).len(), 2, "neighbouring heads are one piece");
        let mut out = Vec::new();
        burst.gather(&frames[0], &mut table, &mut out);
        burst.gather(&frames[1], &mut table, &mut out);
        assert_eq!(out, [b'a', b'b', b'c', 2, 3, b'd', 4, 5]);
        burst.clear();
        assert!(burst.is_empty());
    }
    #[test]
    fn a_train_is_frames_too() {
        let mut table = Table::default();
        let id = table.insert((0..20).collect::<Vec<u8>>().into());
        let mut burst = Burst::default();
        burst.begin([1; 24]);
        burst.head(b"lone");
        let train = Train { count: 3, head_len: 2, payload_len: 4, last_len: 1, id, offset: 5 };
        burst.train([2; 24], b"aabbcc", train);
        burst.begin([3; 24]);
        burst.head(b"end");
        assert_eq!(burst.len(), 5);
        let mut gathered = |first: usize| -> Vec<Vec<u8>> {
            let frames = burst.frames(first).map(|frame| {
                let mut out = Vec::new();
                burst.gather(&frame, &mut table, &mut out);
                assert_eq!(frame.len as usize, out.len());
                out
            });
            frames.collect()
        };
        let all: [&[u8]; 5] =
            [b"lone", b"aa\x05\x06\x07\x08", b"bb\x09\x0a\x0b\x0c", b"cc\x0d", b"end"];
        for first in 0..=5 {
            assert_eq!(gathered(first), all[first..], "from {first}");
        }
        assert_eq!(burst.train_at(0), None);
        assert_eq!(burst.train_at(4), None);
        let (to, heads, rest) = burst.train_at(2).expect("in the train");
        assert_eq!((to, heads), (&[2; 24], &b"bbcc"[..]));
        assert_eq!(rest, Train { count: 2, offset: 9, ..train });
        assert_eq!((rest.payload_of(1), rest.payload_of(2)), (4, 5));
        assert_eq!(burst.lone(3), None);
        assert_eq!(burst.lone(4), Some((&[3; 24], &b"end"[..])));
        assert_eq!(burst.frame(3).len, 3);
    }

    #[test]
    fn a_gathered_train_is_frames_with_all_their_bytes() {
        let (mut table, payload) = (Table::default(), *b"0123456");
        let mut burst = Burst::default();
        burst.begin([1; 24]);
        burst.head(b"lone");
        let frames: [(&[u8], Range<usize>); 3] = [(b"aa", 0..3), (b"bb", 3..6), (b"ccc", 6..7)];
        burst.gathered([2; 24], frames.into_iter(), |range, out| {
            out.extend_from_slice(&payload[range]);
        });
        burst.begin([3; 24]);
        burst.head(b"end");
        let mut out: Vec<(Locator, Vec<u8>)> = Vec::new();
        for number in 0..burst.len() {
            let frame = burst.frame(number);
            let mut bytes = Vec::new();
            burst.gather(&frame, &mut table, &mut bytes);
            assert_eq!(bytes.len(), frame.len as usize);
            out.push((frame.to, bytes));
        }
        let expected: [(u8, &[u8]); 5] =
            [(1, b"lone"), (2, b"aa012"), (2, b"bb345"), (2, b"ccc6"), (3, b"end")];
        assert_eq!(out, expected.map(|(to, bytes)| ([to; 24], bytes.to_vec())));
        assert_eq!(burst.train_at(2), None, "its payload is nobody's memory");
    }
}
