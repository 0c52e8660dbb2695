//! Memory that is lent, named, copied by one thread or two, and given back.

use super::*;

impl Memory {
    /// What an application lends that has unmapped it: the first page of the address space belongs to nobody.
    pub(crate) fn unmapped(len: usize) -> Self {
        let part = Part { ptr: NonNull::without_provenance(std::num::NonZero::<usize>::MIN), len };
        Self { parts: Parts::One(part), owner: Owner::Borrowed { is_writable: true } }
    }
}

#[test]
fn what_is_lent_comes_back() {
    let mut table = Table::default();
    let id = table.insert(vec![1, 2, 3, 4].into());
    assert!(table.copy_in(id, 1, &[7, 8]));
    let mut out = Vec::new();
    assert!(table.copy_out(id, 2, 2, &mut out));
    assert_eq!(out, [8, 4]);
    assert_eq!(table.remove(id).unwrap().into_vec(), [1, 7, 8, 4]);
    assert!(table.is_empty());
}

#[test]
fn a_void_name_or_range_touches_nothing() {
    let mut table = Table::default();
    let old = table.insert(vec![0; 4].into());
    table.remove(old);
    let new = table.insert(vec![0; 4].into());
    assert_ne!(old, new, "the slot is the same, the name is not");
    assert!(!table.copy_in(old, 0, &[1]));
    assert!(!table.copy_in(new, 3, &[1, 1]));
    assert!(!table.copy_in(new, u64::MAX, &[1]));
    assert!(!table.copy_out(new, 4, 1, &mut Vec::new()));
    assert!(table.remove(old).is_none());
    assert_eq!(table.remove(new).unwrap().into_vec(), [0; 4]);
}

#[test]
fn what_is_copied_between_two_fits_both_or_is_refused() {
    let mut table = Table::default();
    let bytes: Vec<u8> = (0..40).collect();
    let from =
        table.insert(vec![bytes[..7].to_vec(), bytes[7..20].to_vec(), bytes[20..].to_vec()].into());
    let to = table.insert(vec![vec![0; 11], vec![0; 29]].into());
    assert!(table.copy_between((from, 3), (to, 5), 30));
    let mut there = Vec::new();
    assert!(table.copy_out(to, 5, 30, &mut there));
    assert_eq!(there, bytes[3..33]);
    assert!(!table.copy_between((from, 11), (to, 0), 30), "beyond what is read");
    assert!(!table.copy_between((from, 0), (to, 11), 30), "beyond what is written");
    assert!(!table.copy_between((from, u64::MAX), (to, 0), 1));
    assert!(table.copy_between((from, 40), (to, 40), 0), "nothing is everywhere");
    table.remove(from);
    assert!(!table.copy_between((from, 0), (to, 0), 1), "given back");
    assert!(!table.copy_between((to, 0), (from, 0), 1), "given back");
}

/// Who sends to itself may receive where it sends from.
#[test]
fn what_is_copied_may_overlap_its_place() {
    let mut table = Table::default();
    let whole = table.insert((0..64).collect::<Vec<u8>>().into());
    assert!(table.copy_between((whole, 0), (whole, 8), 56));
    let expected: Vec<u8> = (0..8).chain(0..56).collect();
    assert_eq!(table.remove(whole).unwrap().into_vec(), expected);
}

#[test]
fn elements_are_updated_where_they_are_aligned_or_not() {
    let mut table = Table::default();
    let whole = table.insert(vec![0; 64].into());
    let cut = table.insert(vec![vec![0; 13], vec![0; 51]].into());
    for id in [whole, cut] {
        for (offset, width) in [(0, 1), (3, 2), (8, 4), (13, 8), (24, 8), (8, 16)] {
            let mut seen = Vec::new();
            table.update(id, offset, 16, width, &mut |bytes| {
                bytes.iter_mut().for_each(|byte| *byte += 1);
                true
            });
            table.update(id, offset, 16, width, &mut |bytes| {
                seen.extend_from_slice(bytes);
                bytes.fill(99);
                false // as it was
            });
            let mut there = Vec::new();
            assert!(table.copy_out(id, offset, 16, &mut there));
            assert_eq!(seen, there);
            assert!(there.iter().all(|&byte| (1..6).contains(&byte)));
        }
    }
    let mut sum = Vec::new();
    assert!(table.copy_out(whole, 0, 64, &mut sum));
    assert_eq!(sum.iter().map(|&byte| u32::from(byte)).sum::<u32>(), 6 * 16);
}

#[test]
fn segments_count_as_one() {
    let mut table = Table::default();
    let id = table.insert(vec![vec![0; 3], vec![], vec![0; 2]].into());
    assert!(table.copy_in(id, 1, &[1, 2, 3, 4]));
    let mut out = Vec::new();
    assert!(table.copy_out(id, 0, 5, &mut out));
    assert_eq!(out, [0, 1, 2, 3, 4]);
    assert_eq!(table.remove(id).unwrap().into_vecs(), [vec![0, 1, 2], vec![], vec![3, 4]]);
}

#[test]
fn what_two_threads_copy_is_what_one_would() {
    let source: Vec<u8> = (0..1 << 20).map(|at| (at * 31 + at / 253) as u8).collect();
    let mut copier = Copier::start(64 << 10, || {}).unwrap();
    // Whole; cut at odd places; with a gap; and two for the same bytes, where the later one must win.
    let in_rows = |lens: &[usize]| {
        let ends = lens.iter().scan(0, |end, len| {
            *end += len;
            Some((*end - len, *end))
        });
        ends.collect::<Vec<_>>()
    };
    let frames = in_rows(&[8900; 117]);
    let cases = [vec![(0, 1 << 20)], frames.clone(), vec![(5, 70_000), (70_001, 200_000)], {
        let mut twice = frames;
        twice.push((0, 100_000));
        twice
    }];
    for round in 0..50 {
        for (number, ranges) in cases.iter().enumerate() {
            let (mut by_two, mut by_one) = (Table::default(), Table::default());
            let memory = || vec![vec![0; 300_001], vec![0; (1 << 20) - 300_001]];
            let (two, one) = (by_two.insert(memory().into()), by_one.insert(memory().into()));
            let shifted = |&(start, end): &(usize, usize)| {
                let from = (start + number * 7) % (source.len() - (end - start) + 1);
                (start as u64, &source[from..from + end - start])
            };
            let copies: Vec<_> = ranges.iter().map(shifted).collect();
            let named = |id| move |&(offset, bytes)| Copy { id, offset, bytes };
            by_two.place_all(&copies.iter().map(named(two)).collect::<Vec<_>>(), &mut copier);
            copies.iter().for_each(|&(offset, bytes)| by_one.place(one, offset, bytes));
            let same = by_two.remove(two).unwrap().copied() == by_one.remove(one).unwrap().copied();
            assert!(same, "case {number}, round {round}");
        }
    }
    println!("the second thread copied {} MB", copier.helped_len() >> 20);
    assert!(copier.helped_len() > 0, "it never helped");
}

#[test]
fn short_batches_are_copied_alone() {
    let mut copier = Copier::start(1000, || {}).unwrap();
    let mut table = Table::default();
    let id = table.insert(vec![0; 999].into());
    table.place_all(&[Copy { id, offset: 0, bytes: &[1; 999] }], &mut copier);
    assert_eq!((table.remove(id).unwrap().into_vec(), copier.helped_len()), (vec![1; 999], 0));
}

#[test]
fn shared_memory_is_read_only_and_given_back() {
    let bytes: Arc<[u8]> = vec![5; 8].into();
    let mut table = Table::default();
    let id = table.insert(Arc::clone(&bytes).into());
    assert!(!table.copy_in(id, 0, &[1]));
    assert_eq!(Arc::strong_count(&bytes), 2);
    drop(table);
    assert_eq!(Arc::strong_count(&bytes), 1);
}

#[test]
fn borrowed_memory_is_written_in_place() {
    let mut bytes = [0_u8; 4];
    let mut table = Table::default();
    // SAFETY: `bytes` outlives the table's use of it and is not touched meanwhile.
    let memory = unsafe { Memory::borrowed(&[(bytes.as_mut_ptr(), 4)], true) };
    let id = table.insert(memory);
    assert!(table.copy_in(id, 0, &[9]));
    drop(table.remove(id));
    assert_eq!(bytes, [9, 0, 0, 0]);
    // SAFETY: a null pointer names no bytes.
    let nothing = unsafe { Memory::borrowed(&[(std::ptr::null_mut(), 10)], true) };
    assert!(nothing.is_empty());
}

#[test]
fn of_all_memory_what_is_gone_is_not_touched() {
    let mut table = Table::default();
    // SAFETY: used at the first page alone, where nobody has anything.
    let id = table.insert(unsafe { Memory::whole() });
    assert!(!table.copy_out(id, 8, 8, &mut Vec::new()) && !table.copy_in(id, 8, &[1; 8]));
    table.place(id, 8, &[1; 8]);
    table.update(id, 8, 8, 8, &mut |_| panic!("nothing is there"));
    assert!(!table.copy_between((id, 8), (id, 16), 8));
}
