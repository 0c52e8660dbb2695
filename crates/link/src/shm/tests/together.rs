//! Long messages that both ends copy, between two threads: one fetches, the other was told of it and looks.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::ring::claims::{Board as _, Slot, TOGETHER_LEN_MIN, Task};
use crate::{Fetch, Whereabouts};

const LEN: usize = 300_000;

/// A sender that told `b` of memory, with that memory.
fn told(len: usize) -> (Shm, Shm, Table, MemoryId, Whereabouts) {
    let (mut a, mut b) = (open(), open());
    introduce(&mut a, &mut b);
    let mut memory = Table::default();
    let id = memory.insert(pattern(len, 3).into());
    let to = b.locator();
    let whereabouts = a.tell(&to, id, len as u64, &mut memory).expect("it can be read");
    (a, b, memory, id, whereabouts)
}

/// What `b` gets from number `offset` on.
fn fetched(
    b: &mut Shm,
    from: &Locator,
    whereabouts: &Whereabouts,
    offset: u64,
) -> io::Result<Vec<u8>> {
    let mut memory = Table::default();
    let len = LEN as u64 - offset;
    let id = memory.insert(vec![0; len as usize + 20].into());
    let fetch = Fetch { from, whereabouts, offset, id, range: 10..len + 10 };
    b.fetch(&fetch, &mut memory)?;
    let bytes = memory.remove(id).expect("it was lent").into_vec();
    let (before, rest) = bytes.split_at(10);
    let (bytes, behind) = rest.split_at(len as usize);
    assert!(before == [0; 10] && behind == [0; 10], "nothing beside the range is touched");
    Ok(bytes.to_vec())
}

/// Looks until it is told to stop; the link is given back.
fn looking(mut a: Shm, mut memory: Table, is_over: &AtomicBool) -> (Shm, Table) {
    while !is_over.load(Relaxed) {
        a.receive(None, &mut memory).unwrap();
    }
    (a, memory)
}

#[test]
fn who_looks_copies_what_it_was_told_of() {
    let (a, mut b, memory, _, told) = told(LEN);
    let (from, all, is_over) = (a.locator(), pattern(LEN, 3), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| looking(a, memory, &is_over));
        let until = Instant::now() + PATIENCE;
        // On one core it may take a while until both are at it.
        while counter(&b, "fetches_shared") < 20 {
            assert!(Instant::now() < until && !other.is_finished());
            for offset in [0, 1, 70_001, LEN as u64 - TOGETHER_LEN_MIN] {
                let bytes = fetched(&mut b, &from, &told, offset).unwrap();
                assert!(bytes == all[offset as usize..], "from {offset}");
            }
        }
        is_over.store(true, Relaxed);
        let (a, _memory) = other.join().unwrap();
        assert!(counter(&a, "pieces_helped") >= 20);
        assert!(counter(&a, "helped_bytes") < counter(&b, "fetched_bytes"));
    });
}

#[test]
fn what_is_short_or_in_pieces_is_copied_by_one() {
    let (mut a, mut b, mut memory, _, _) = told(LEN);
    let short = TOGETHER_LEN_MIN as usize - 1;
    let id = memory.insert(vec![1; short].into());
    let (to, from) = (b.locator(), a.locator());
    let word = a.tell(&to, id, short as u64, &mut memory).unwrap();
    let mut place = Table::default();
    let id = place.insert(vec![0; short].into());
    let fetch = Fetch { from: &from, whereabouts: &word, offset: 0, id, range: 0..short as u64 };
    b.fetch(&fetch, &mut place).unwrap();
    assert_eq!(b.inputs[0].ring.store().load(Slot::Len, Relaxed), 0, "no offer");
    let pieces = place.insert(vec![vec![0; LEN / 2], vec![0; LEN / 2]].into());
    let id = memory.insert(pattern(LEN, 4).into());
    let word = a.tell(&to, id, LEN as u64, &mut memory).unwrap();
    let range = 0..LEN as u64;
    let fetch = Fetch { from: &from, whereabouts: &word, offset: 0, id: pieces, range };
    b.fetch(&fetch, &mut place).unwrap();
    assert!(place.remove(pieces).unwrap().into_vecs().concat() == pattern(LEN, 4));
    assert_eq!(b.inputs[0].ring.store().load(Slot::Len, Relaxed), 0, "no offer");
}

/// An offer as `b` would make it, of whatever is said.
fn offer(b: &Shm, to: u64, (offset, len): (u64, u64), word: u64) {
    let board = &**b.inputs[0].ring.store();
    for (slot, value) in
        [(Slot::To, to), (Slot::Offset, offset), (Slot::Len, len), (Slot::Word, word)]
    {
        board.store(slot, value, Relaxed);
    }
    board.store(Slot::Claim, 5 << 40, Ordering::Release);
}

#[test]
fn only_what_was_told_and_is_lent_still_is_written() {
    let (mut a, b, mut memory, id, told) = told(LEN);
    let word = u64::from_le_bytes(told[8..16].try_into().unwrap());
    let mut place = vec![0_u8; LEN];
    let to = place.as_mut_ptr().expose_provenance() as u64;
    let len = LEN as u64;
    for (range, word) in [
        ((0, len + 1), word),
        ((1, len), word),
        ((u64::MAX, len), word),
        ((0, u64::MAX), word),
        ((0, len), word ^ 1),
        ((0, 0), word),
    ] {
        offer(&b, to, range, word);
        a.receive(None, &mut memory).unwrap();
        assert_eq!(counter(&a, "pieces_helped"), 0, "{range:?}");
    }
    offer(&b, u64::MAX - 5, (0, len), word);
    a.receive(None, &mut memory).unwrap();
    assert_eq!(counter(&a, "pieces_helped"), 0, "beyond all addresses");
    offer(&b, to, (0, len), word);
    a.receive(None, &mut memory).unwrap();
    assert!(place == pattern(LEN, 3), "that is what was told of");
    let helped = counter(&a, "pieces_helped");
    assert!(helped > 1);
    let _kept = memory.remove(id); // its bytes are where they were
    offer(&b, to, (0, len), word);
    a.receive(None, &mut memory).unwrap();
    assert_eq!(counter(&a, "pieces_helped"), helped, "it is not lent any more");
}

#[test]
fn where_the_system_forbids_it_its_receiver_copies_all() {
    let (mut a, mut b, mut memory, _, told) = told(LEN);
    let word = u64::from_le_bytes(told[8..16].try_into().unwrap());
    offer(&b, 0x1000, (0, LEN as u64), word); // nothing is there to be written to
    a.receive(None, &mut memory).unwrap();
    let board = &**b.inputs[0].ring.store();
    assert!(board.load(Slot::Done, Relaxed) & 1 << 31 != 0, "it says that it failed");
    offer(&b, 0x1000, (0, LEN as u64), word);
    a.receive(None, &mut memory).unwrap();
    let left = Task::find(&**b.inputs[0].ring.store());
    assert!(left.is_some(), "nobody tries again");
    assert!(fetched(&mut b, &a.locator(), &told, 0).unwrap() == pattern(LEN, 3));
}

/// A process of the same user that writes nonsense into the claims while they are made: the copy fails or is as good as its sender wants it, nobody waits, and
/// nothing beside the range is touched.
#[test]
fn scribbled_claims_hold_nobody_up() {
    for seed in 1..200_u64 {
        let (a, mut b, _memory, _, told) = told(LEN);
        let (from, is_over) = (a.locator(), AtomicBool::new(false));
        let board = **a.outputs[0].ring.store();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = seed;
                while !is_over.load(Relaxed) {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
                    let claim = board.load(Slot::Claim, Relaxed);
                    // In what is claimed mostly, so that some of it is believed; ends are told of all of it.
                    board.store(Slot::Claim, claim ^ 1 << (random >> 59), Relaxed);
                    board.store(Slot::Done, (claim >> 40) << 32 | 1 << 31, Relaxed);
                }
            });
            let _ = fetched(&mut b, &from, &told, 0);
            is_over.store(true, Relaxed);
        });
    }
}
