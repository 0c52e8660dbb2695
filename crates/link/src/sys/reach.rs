//! Whether memory of this process is there, asked of the system instead of by touching it.

use std::io;

/// The smallest page there is: what is asked is widened to whole ones.
const PAGE_LEN: usize = 4096;
/// What is longer is looked up in the list of what is mapped, and not brought in: how long it is may be a peer's word.
const POPULATE_LEN_MAX: usize = 1 << 20;

/// Whether `len` bytes at `start` can be read, or written. Up to a megabyte of pages that are only promised are brought in by
/// the question.
pub(crate) fn reaches(start: usize, len: usize, writes: bool) -> bool {
    let Some(end) = start.checked_add(len) else { return false };
    let first = start / PAGE_LEN * PAGE_LEN;
    let Some(end) = end.checked_next_multiple_of(PAGE_LEN) else { return false };
    if end - first > POPULATE_LEN_MAX {
        return is_mapped(first, end, writes);
    }
    let advice = if writes { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    let place = std::ptr::without_provenance_mut(first);
    // SAFETY: this advice changes no contents; the system checks that the range is mapped and answers if it is not.
    let answer = unsafe { libc::madvise(place, end - first, advice) };
    if answer == 0 {
        return true;
    }
    // Systems before Linux 5.14 do not know the advice; and they say the same of a page that may not be written.
    let is_unknown = io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
    is_unknown && is_mapped(first, end, writes)
}

/// Whether the process may use these bytes, from the list of what is mapped.
fn is_mapped(start: usize, end: usize, writes: bool) -> bool {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return false };
    let mut at = start;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let Some((low, high)) = range.split_once('-') else { continue };
        let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        let (low, high) = (number(low), number(high));
        let is_open =
            rights.starts_with('r') && (!writes || rights.as_bytes().get(1) == Some(&b'w'));
        if low <= at && at < high && is_open {
            at = high;
        }
        if at >= end {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_promised_is_not_brought_in_because_somebody_names_it() {
        const LEN: usize = 256 << 20;
        let mut region = super::super::region::Region::new(LEN).unwrap();
        let base = region.ptr_at(0, LEN);
        assert!(reaches(base.addr(), LEN, true) && !reaches(base.addr(), 1 << 46, true));
        let mut pages = vec![0_u8; LEN / PAGE_LEN];
        // SAFETY: the system writes a byte for each page of the region.
        assert_eq!(unsafe { libc::mincore(base, LEN, pages.as_mut_ptr()) }, 0);
        assert_eq!(pages.iter().filter(|&&page| page & 1 == 1).count(), 0);
    }

    #[test]
    fn what_is_there_is_told_from_what_is_not() {
        let mut bytes = vec![7_u8; 3 * PAGE_LEN];
        let start = bytes.as_mut_ptr().addr();
        assert!(reaches(start, bytes.len(), false) && reaches(start, bytes.len(), true));
        assert!(!reaches(8, 8, false), "the first page belongs to nobody");
        assert!(!reaches(usize::MAX - 7, 8, false) && !reaches(usize::MAX, 2, true));
        let constant = "text in the program".as_ptr().addr();
        assert!(reaches(constant, 1, false) && !reaches(constant, 1, true));
        assert!(bytes.iter().all(|&byte| byte == 7), "asking changes nothing");
        assert!(is_mapped(start, start + 1, true) && !is_mapped(8, 16, false));
    }
}
