//! Bytes that stay where they are until their receiver fetches them.
//!
//! ```text
//!   whereabouts   0  address of a word u64   8  that word u64   16  three ranges: address u64, length u64; unused ones are zeros
//! ```
//!
//! Their owner says where they are in his memory, and their receiver reads them from there once it knows where they belong: one copy, one
//! system call for a piece, and no frame at all. The word is what says that they were not taken back before they were read (`mem/notes`). Who may be read
//! is settled when a ring is taken, and seen again in each call by the word, which no other process has (PROTOCOL §14.3, §14.7).

use std::io;

use super::Shm;
use super::inputs::Trouble;
use crate::mem::{MemoryId, Table};
use crate::sys::shm::{Places, read_from};
use crate::{Fetch, Locator, Telling, Whereabouts};

/// Ranges that bytes may lie in. What lies in more is sent.
const RANGE_COUNT: usize = 3;

/// Where bytes are, in the memory of who told of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    word_at: u64,
    word: u64,
    /// Address and length; those of length 0 are none.
    ranges: [(u64, u64); RANGE_COUNT],
}

impl Told {
    fn to_bytes(self) -> Whereabouts {
        let mut bytes = [0; 64];
        let [a, b, c] = self.ranges;
        let words = [self.word_at, self.word, a.0, a.1, b.0, b.1, c.0, c.1];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &Whereabouts) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| u64::from_le_bytes(words[index]);
        let ranges = [(word(2), word(3)), (word(4), word(5)), (word(6), word(7))];
        Self { word_at: word(0), word: word(1), ranges }
    }

    /// The ranges of `len` bytes from number `offset` on. `None`: there are not so many.
    fn cut(&self, offset: u64, len: u64) -> Option<[(u64, u64); RANGE_COUNT]> {
        let (mut skip, mut left) = (offset, len);
        let mut ranges = [(0, 0); RANGE_COUNT];
        for (to, &(at, all_len)) in ranges.iter_mut().zip(&self.ranges) {
            let skipped = skip.min(all_len);
            let taken = left.min(all_len - skipped);
            *to = (at.checked_add(skipped)?, taken);
            (skip, left) = (skip - skipped, left - taken);
        }
        (left == 0).then_some(ranges)
    }
}

impl Telling<Table> for Shm {
    fn tell(
        &mut self,
        to: &Locator,
        id: MemoryId,
        len: u64,
        memory: &mut Table,
    ) -> Option<Whereabouts> {
        let index = self.output_for(to)?;
        if !self.is_readable_by(index) {
            return None;
        }
        let (mut ranges, mut count) = ([(0, 0); RANGE_COUNT], 0);
        let is_there = memory.get(id)?.for_each(0, len, |part| {
            if part.len() > 0 {
                let range = (part.ptr().expose_provenance() as u64, part.len() as u64);
                ranges.get_mut(count).into_iter().for_each(|place| *place = range);
                count += 1;
            }
        });
        if !is_there || count > RANGE_COUNT {
            return None;
        }
        let (word_at, word) = memory.note_told(id)?;
        self.counters.messages_told += 1;
        Some(Told { word_at: word_at as u64, word, ranges }.to_bytes())
    }

    fn fetch(&mut self, fetch: &Fetch<'_>, memory: &mut Table) -> io::Result<()> {
        let told = Told::from_bytes(fetch.whereabouts);
        let len = fetch.range.end.saturating_sub(fetch.range.start);
        let ranges = told.cut(fetch.offset, len).ok_or(io::ErrorKind::InvalidInput)?;
        let name = self.name_here(fetch.from).ok_or(io::ErrorKind::NotFound)?;
        let index = self.inputs.iter().position(|input| input.name == name);
        let index = index.ok_or(io::ErrorKind::NotFound)?;
        // Its sender was told so, and says nothing where its bytes are; or it is another's word.
        let source = self.inputs[index].source.ok_or(io::ErrorKind::PermissionDenied)?;
        let places = Places {
            user: Some((fetch.id, fetch.range.clone())),
            own: &[],
            still: Some((told.word_at, told.word)),
        };
        let ranges: &[_] = match ranges {
            [range, (_, 0), (_, 0)] => &[range],
            ref all => all,
        };
        let read = read_from(&source, ranges, &places, memory, self.intake.room());
        self.after_fetch(index, len, &read);
        read
    }
}

impl Shm {
    fn after_fetch(&mut self, index: usize, len: u64, read: &io::Result<()>) {
        match read {
            Ok(()) => {
                self.counters.fetches += 1;
                self.counters.fetched_bytes += len;
                self.counters.bytes_in += len;
            }
            Err(error) => {
                self.counters.fetches_failed += 1;
                // What is not there, or has no place here, is the fate of one message; all else will happen again.
                let is_once = matches!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof
                        | io::ErrorKind::NotFound
                        | io::ErrorKind::InvalidInput
                );
                if !is_once || error.raw_os_error().is_some() {
                    let again = io::Error::from(error.kind());
                    self.look_after(index, Some(Trouble::Unreadable(again)), false);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{counter, introduce, open, open_without_cma, pattern};
    use super::*;
    use crate::Link as _;

    #[test]
    fn what_is_told_is_understood_and_cut_right() {
        let ranges = [(100, 10), (u64::MAX - 5, 5), (500, 20)];
        let told = Told { word_at: 8, word: 9, ranges };
        assert_eq!(Told::from_bytes(&told.to_bytes()), told);
        assert_eq!(told.cut(0, 35), Some(ranges));
        assert_eq!(told.cut(3, 9), Some([(103, 7), (u64::MAX - 5, 2), (500, 0)]));
        assert_eq!(told.cut(12, 4), Some([(110, 0), (u64::MAX - 3, 3), (500, 1)]));
        assert_eq!(told.cut(15, 20), Some([(110, 0), (u64::MAX, 0), (500, 20)]));
        assert_eq!((told.cut(0, 36), told.cut(35, 1), told.cut(u64::MAX, 1)), (None, None, None));
        assert_eq!(Told::from_bytes(&[0; 64]).cut(0, 1), None, "nothing was told");
        let hostile = Told { word_at: 0, word: 0, ranges: [(u64::MAX, u64::MAX); RANGE_COUNT] };
        assert_eq!(hostile.cut(5, 5), None, "beyond all addresses");
    }

    /// Both links and a peer's memory of three pieces, one of them empty.
    fn pair() -> (Shm, Shm, Table, MemoryId) {
        let (mut a, mut b) = (open(), open());
        introduce(&mut a, &mut b);
        let mut memory = Table::default();
        let id = memory.insert(vec![pattern(5000, 1), Vec::new(), pattern(70_000, 2)].into());
        (a, b, memory, id)
    }

    /// What `b` gets of it.
    fn fetched(
        b: &mut Shm,
        from: &Locator,
        whereabouts: &Whereabouts,
        offset: u64,
        len: u64,
    ) -> io::Result<Vec<u8>> {
        let mut memory = Table::default();
        let id = memory.insert(vec![0; len as usize + 10].into());
        let fetch = Fetch { from, whereabouts, offset, id, range: 10..len + 10 };
        b.fetch(&fetch, &mut memory)?;
        let bytes = memory.remove(id).expect("it was lent").into_vec();
        assert!(bytes[..10] == [0; 10], "nothing before the range is touched");
        Ok(bytes[10..].to_vec())
    }

    #[test]
    fn bytes_are_fetched_from_where_they_are() {
        let (mut a, mut b, mut memory, id) = pair();
        let all = [pattern(5000, 1), pattern(70_000, 2)].concat();
        let told = a.tell(&b.locator(), id, 75_000, &mut memory).expect("it can be read");
        let from = a.locator();
        assert!(fetched(&mut b, &from, &told, 0, 75_000).unwrap() == all);
        assert!(fetched(&mut b, &from, &told, 4000, 3000).unwrap() == all[4000..7000]);
        assert!(fetched(&mut b, &from, &told, 74_999, 1).unwrap() == all[74_999..]);
        assert!(fetched(&mut b, &from, &told, 74_999, 2).is_err(), "there are not so many");
        assert_eq!((counter(&b, "fetches"), counter(&b, "fetched_bytes")), (3, 78_001));
        assert_eq!(a.tell(&b.locator(), id, 75_001, &mut memory), None, "it is not so long");
        let many = memory.insert((0..4).map(|_| vec![0; 10]).collect::<Vec<_>>().into());
        assert_eq!(a.tell(&b.locator(), many, 40, &mut memory), None, "in too many pieces");
        assert!(a.tell(&b.locator(), many, 30, &mut memory).is_some());
    }

    #[test]
    fn what_was_given_back_is_not_fetched_and_the_next_is() {
        let (mut a, mut b, mut memory, id) = pair();
        let told = a.tell(&b.locator(), id, 75_000, &mut memory).expect("it can be read");
        let _kept = memory.remove(id); // its bytes are where they were
        let from = a.locator();
        let error = fetched(&mut b, &from, &told, 0, 75_000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let id = memory.insert(pattern(9000, 3).into());
        let told = a.tell(&b.locator(), id, 9000, &mut memory).expect("it can be read still");
        assert!(fetched(&mut b, &from, &told, 0, 9000).unwrap() == pattern(9000, 3));
        assert_eq!(counter(&b, "fetches_failed"), 1);
    }

    /// A process has ended, and its number is another's: here, that of one whose bytes are where they were told of, but not the word.
    #[test]
    fn a_number_that_another_process_has_now_is_not_fetched_from() {
        let (mut a, mut b, mut memory, id) = pair();
        let (from, told) = (a.locator(), a.tell(&b.locator(), id, 75_000, &mut memory).unwrap());
        let other = Table::default().insert(vec![0; 8].into());
        assert_eq!(other, Table::default().insert(vec![0; 8].into()), "names alone are alike");
        let mut theirs = Told::from_bytes(&told);
        let mut lookalike = Table::default();
        let id = lookalike.insert(pattern(100, 1).into());
        (theirs.word_at, _) = lookalike.note_told(id).map(|(at, word)| (at as u64, word)).unwrap();
        let error = fetched(&mut b, &from, &theirs.to_bytes(), 0, 75_000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(
            fetched(&mut b, &from, &told, 0, 75_000).is_ok(),
            "the right one is believed still"
        );
    }

    #[test]
    fn nonsense_is_not_fetched_and_strangers_are_not_read() {
        let (mut a, mut b, mut memory, id) = pair();
        let told = a.tell(&b.locator(), id, 75_000, &mut memory).expect("it can be read");
        let from = a.locator();
        assert!(fetched(&mut b, &from, &[0; 64], 0, 1).is_err(), "nothing was told");
        assert!(fetched(&mut b, &[7; 24], &told, 0, 1).is_err(), "by nobody known");
        let ranges = [(0x1000, 100), (0, 0), (0, 0)];
        let void = Told { word_at: 0x2000, word: 1, ranges }.to_bytes();
        assert!(fetched(&mut b, &from, &void, 0, 100).is_err(), "no memory is there");
        assert!(fetched(&mut b, &from, &told, 0, 75_000).is_ok(), "it is believed still");
        let mut shy = open_without_cma();
        introduce(&mut a, &mut shy);
        assert_eq!(a.tell(&shy.locator(), id, 10, &mut memory), None, "it said that it cannot");
        assert!(shy.telling().is_none());
        assert!(fetched(&mut shy, &from, &told, 0, 10).is_err());
    }
}
