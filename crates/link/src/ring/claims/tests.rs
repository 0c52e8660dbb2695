//! Pieces are copied once and by somebody, whatever the other does; the orderings in every order (loom).

use super::*;

const WORK: Work = Work { to: 0x1000, offset: 77, len: 1_000_000, word: 9 };

#[cfg(not(loom))]
mod one_thread {
    use super::*;
    use crate::ring::Heap;

    fn board() -> Heap {
        Heap::new(16)
    }

    /// Each byte of it is in one of these pieces, once.
    fn assert_whole(len: u64, mut pieces: Vec<Range<u64>>) {
        pieces.sort_by_key(|piece| piece.start);
        let mut end = 0;
        for piece in pieces {
            assert!(piece.start == end && piece.end > end, "{piece:?} behind {end} of {len}");
            end = piece.end;
        }
        assert_eq!(end, len);
    }

    #[test]
    fn every_piece_is_claimed_once() {
        let (heap, mut serial, mut random) = (board(), Serial::default(), 1_u64);
        let board = heap.block();
        for round in 0..2000_u64 {
            let len = 1 + round * round * 7 % 3_000_000;
            let work = Work { len, offset: round, ..WORK };
            let mut offered = Offered::new(board, &mut serial, work).unwrap();
            let (mut pieces, mut helped) = (Vec::new(), 0);
            loop {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
                if random >> 40 & 3 == 0
                    && let Some(mut task) = Task::find(board)
                {
                    assert_eq!(task.work(), work);
                    pieces.push(task.claim().unwrap());
                    task.end(true);
                    helped += 1;
                }
                match offered.next_piece().unwrap() {
                    Some(piece) => pieces.push(piece),
                    None => break,
                }
            }
            assert_eq!(offered.other(), Ok(Other::Done));
            assert_eq!(offered.is_shared(), helped > 0);
            assert_whole(len, pieces);
            assert!(Task::find(board).is_none(), "nothing is left");
            drop(offered);
            assert!(Task::find(board).is_none(), "it is over");
        }
        let empty = Work { len: 0, ..WORK };
        assert!(Offered::new(board, &mut serial, empty).is_none());
        let endless = Work { len: u64::MAX, ..WORK };
        assert!(Offered::new(board, &mut serial, endless).is_none());
    }

    #[test]
    fn what_the_other_claimed_is_waited_for_and_what_it_failed_at_is_told() {
        let (heap, mut serial) = (board(), Serial::default());
        let board = heap.block();
        let mut offered = Offered::new(board, &mut serial, WORK).unwrap();
        let mut task = Task::find(board).unwrap();
        let (last, last_but_one) = (task.claim().unwrap(), task.claim().unwrap());
        assert!(last.end == WORK.len && last_but_one.end == last.start);
        offered.stop().unwrap();
        assert_eq!(task.claim(), None);
        assert_eq!(offered.other(), Ok(Other::Copying));
        task.end(false);
        assert_eq!(offered.other(), Ok(Other::FailedFrom(last_but_one.start)));
        drop(offered);
        // What is left of one says nothing of the next.
        let mut next = Offered::new(board, &mut serial, WORK).unwrap();
        assert_eq!(task.claim(), None, "another offer is not its own");
        next.stop().unwrap();
        assert_eq!(next.other(), Ok(Other::Done));
    }

    #[test]
    fn an_end_of_long_ago_says_nothing_when_numbers_begin_anew() {
        let (heap, mut serial) = (board(), Serial(4));
        let board = heap.block();
        let offered = Offered::new(board, &mut serial, WORK).unwrap();
        let mut task = Task::find(board).unwrap();
        task.claim().unwrap();
        task.end(true);
        drop(offered);
        serial.0 = SERIAL_MASK;
        drop(Offered::new(board, &mut serial, WORK).unwrap());
        serial.0 = 4;
        let mut offered = Offered::new(board, &mut serial, WORK).unwrap();
        Task::find(board).unwrap().claim().unwrap();
        offered.stop().unwrap();
        assert_eq!(offered.other(), Ok(Other::Copying));
    }

    #[test]
    fn a_claim_that_cannot_be_is_broken_and_ends() {
        let heap = board();
        let board = heap.block();
        let lies: [fn(u64) -> u64; 6] = [
            |claim| claim | CLOSED,
            |claim| claim + (1 << SERIAL_SHIFT),
            |claim| claim + (1 << FRONT_SHIFT),
            |claim| claim - 1,
            |claim| claim | COUNT_MASK,
            |_| 0,
        ];
        for lie in lies {
            let mut serial = Serial(10);
            let mut offered = Offered::new(board, &mut serial, WORK).unwrap();
            offered.next_piece().unwrap();
            Task::find(board).unwrap().claim().unwrap();
            assert_eq!(offered.other(), Ok(Other::Copying));
            let claim = board.load(Slot::Claim, Ordering::Relaxed);
            board.store(Slot::Claim, lie(claim), Ordering::Relaxed);
            assert_eq!(offered.next_piece(), Err(Broken));
            assert_eq!(offered.stop(), Err(Broken));
            assert_eq!(offered.other(), Err(Broken));
        }
        let mut offered = Offered::new(board, &mut Serial(10), WORK).unwrap();
        Task::find(board).unwrap().claim().unwrap();
        offered.stop().unwrap();
        board.store(Slot::Done, 11 << 32 | 2, Ordering::Relaxed);
        assert_eq!(offered.other(), Err(Broken), "more than it claimed");
    }

    #[test]
    fn an_offer_that_cannot_be_is_not_taken_up() {
        let heap = board();
        let board = heap.block();
        assert!(Task::find(board).is_none(), "nothing was offered yet");
        for len in [0, 1, u64::MAX, u64::MAX - 5, 1 << 40] {
            for counts in [0, COUNT_MASK, COUNT_MASK << FRONT_SHIFT, 1 << FRONT_SHIFT | 1] {
                board.store(Slot::Len, len, Ordering::Relaxed);
                board.store(Slot::Claim, 3 << SERIAL_SHIFT | counts, Ordering::Relaxed);
                let piece = Task::find(board).and_then(|mut task| task.claim());
                assert!(piece.is_none_or(|piece| piece.start < piece.end && piece.end <= len));
            }
        }
    }
}

/// All orders of two threads, and all values that their loads may see: `RUSTFLAGS="--cfg loom"`.
#[cfg(loom)]
mod all_orders {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, fence};
    use loom::thread;

    use super::*;

    /// The words, and the places of two pieces: loom tells if two copy to one at a time, or one looks at what another copies.
    #[derive(Default)]
    struct Watched {
        words: [AtomicU64; 6],
        pieces: [UnsafeCell<u64>; 2],
    }

    impl Board for Watched {
        fn load(&self, slot: Slot, order: Ordering) -> u64 {
            self.words[slot as usize].load(order)
        }
        fn store(&self, slot: Slot, value: u64, order: Ordering) {
            self.words[slot as usize].store(value, order);
        }
        fn change(&self, from: u64, to: u64) -> bool {
            let claim = &self.words[Slot::Claim as usize];
            claim.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        }
        fn barrier(&self, order: Ordering) {
            fence(order);
        }
    }

    fn copy(board: &Watched, piece: &Range<u64>, value: u64) {
        let place = &board.pieces[usize::from(piece.start > 0)];
        // SAFETY: loom passes a pointer to its cell, and tells who is there at the same time.
        place.with_mut(|place| unsafe { *place = value });
    }

    /// Two offers, of one piece and of two, and one who helps when it comes by: with the work that the claim is about, and nobody reads a piece
    /// before it is copied.
    #[test]
    fn both_copy_what_is_offered_and_neither_twice() {
        // Without a bound it takes hours; with two an end that is told, or looked at, without its order is found. Barriers that are missing are not: loom has whoever
        // changes a word see all that was stored there before in its order of steps.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let board = Arc::new(Watched::default());
            let other = Arc::clone(&board);
            let helper = thread::spawn(move || {
                let Some(mut task) = Task::find(&*other) else { return };
                while let Some(piece) = task.claim() {
                    copy(&other, &piece, task.work().word);
                    task.end(true);
                }
            });
            let mut serial = Serial::default();
            for word in [1, 2] {
                let work = Work { len: word * PIECE_LEN_MIN, word, ..WORK };
                let mut offered = Offered::new(&*board, &mut serial, work).unwrap();
                while let Some(piece) = offered.next_piece().unwrap() {
                    copy(&board, &piece, word);
                }
                while offered.other() == Ok(Other::Copying) {
                    thread::yield_now();
                }
                for place in &board.pieces[..word as usize] {
                    // SAFETY: loom passes a pointer to its cell.
                    place.with(|place| assert_eq!(unsafe { *place }, word));
                }
            }
            helper.join().unwrap();
        });
    }
}
