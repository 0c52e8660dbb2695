//! Copy offload: payload of large messages is copied by two threads.
//!
//! Where frames arrive whole (raw Ethernet, links without trains) their payload is copied to its place while they are read.
//! With copy offload the rules are told that it is there, and it is noted instead ([`Later`]); at the end of the burst whoever
//! drives copies it together with a second thread (`link::Copier`). The wait is at the last frame of the burst, before its frames
//! are the link's again, and before anybody is told of an end. So a job borrows its frame, and the compiler sees to it.
//!
//! Whatever reads memory, or writes to it at once, first has all that was noted copied: order is kept.
//!
//! It is off unless asked for: two processes on two cores have no third to copy on (docs/measured/offload.md).

use packhorse_link::mem::{Copy, UserMemory};
use packhorse_proto::Place;

use crate::translate::memory_of;

/// Whether a second thread copies payload of large messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyOffload {
    /// No.
    #[default]
    Off,
    /// Where there are cores enough: bursts of 128 KB and more, if the machine has more than two.
    Auto,
    /// Where so many bytes come in one burst of frames.
    From(usize),
}

/// A burst shorter than this is copied in the time it takes to wake a thread (`packhorse bench copies`).
const AUTO_LEN_MIN: usize = 128 << 10;
/// With fewer, whoever sends and whoever receives have none to spare.
const AUTO_CORE_COUNT_MIN: usize = 3;

impl CopyOffload {
    /// Bytes of a burst from which on it is done; `None`: never.
    pub(crate) fn len_min(self) -> Option<usize> {
        let core_count = || std::thread::available_parallelism().map_or(1, usize::from);
        match self {
            Self::Off => None,
            Self::Auto => (core_count() >= AUTO_CORE_COUNT_MIN).then_some(AUTO_LEN_MIN),
            Self::From(len) => Some(len.max(1)),
        }
    }
}

/// Shorter payload is copied at once: noting it costs as much.
const NOTED_LEN_MIN: usize = 512;

/// Copies of a burst that wait for its end.
#[derive(Debug, Default)]
pub(crate) struct Later<'f> {
    /// The frame that is read now.
    pub(crate) frame: &'f [u8],
    pub(crate) copies: Vec<Copy<'f>>,
}

impl<'f> Later<'f> {
    /// Notes bytes of the frame. False: they are not worth it, or no part of the frame, and lie there only now.
    pub(crate) fn note(&mut self, to: Place, bytes: &[u8]) -> bool {
        if bytes.len() < NOTED_LEN_MIN {
            return false;
        }
        let start = bytes.as_ptr().addr().wrapping_sub(self.frame.as_ptr().addr());
        let Some(part) = start.checked_add(bytes.len()).and_then(|end| self.frame.get(start..end))
        else {
            return false;
        };
        self.copies.push(Copy { id: memory_of(to.buf), offset: to.offset, bytes: part });
        true
    }

    /// All that was noted, now.
    #[inline]
    pub(crate) fn settle(&mut self, memory: &mut impl UserMemory) {
        self.copies.drain(..).for_each(|copy| memory.place(copy.id, copy.offset, copy.bytes));
    }
}

#[cfg(test)]
mod tests {
    use packhorse_link::mem::Table;

    use super::*;
    use crate::translate::buf_of;

    #[test]
    fn only_what_stays_is_noted_and_all_of_it_is_copied() {
        let frame: Vec<u8> = (0..9000_u32).map(|at| (at % 251) as u8).collect();
        let elsewhere = frame.clone();
        let mut table = Table::default();
        let id = table.insert(vec![0; 9000].into());
        let to = Place { buf: buf_of(id), offset: 0 };
        let mut later = Later { frame: &frame, copies: Vec::new() };
        assert!(!later.note(to, &frame[..NOTED_LEN_MIN - 1]), "short");
        assert!(!later.note(to, &elsewhere[..4000]), "gone after the call");
        assert!(later.note(to, &frame[40..8040]));
        assert_eq!(later.copies[0].bytes, &frame[40..8040]);
        later.settle(&mut table);
        assert!(later.copies.is_empty());
        assert_eq!(table.remove(id).unwrap().into_vec()[..8000], frame[40..8040]);
    }

    #[test]
    fn off_means_never_and_auto_asks_for_cores() {
        assert_eq!(CopyOffload::Off.len_min(), None);
        assert_eq!(CopyOffload::From(0).len_min(), Some(1));
        let has_cores = std::thread::available_parallelism().unwrap().get() >= AUTO_CORE_COUNT_MIN;
        assert_eq!(CopyOffload::Auto.len_min().is_some(), has_cores);
    }
}
