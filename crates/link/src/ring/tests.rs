//! The ring against a queue, against a hostile other side, between threads; its orderings in every order (loom).

use std::collections::VecDeque;

use super::*;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

fn put<S: Deref<Target: Lines>>(ring: &mut Producer<S>, mark: u8, bytes: &[u8]) -> bool {
    let Some(mut slot) = ring.reserve(mark, bytes.len()).expect("not broken") else { return false };
    let (a, b) = bytes.split_at(bytes.len() / 2);
    slot.put(a);
    slot.put(b);
    slot.commit();
    if mark.is_multiple_of(3) {
        ring.prepare();
    }
    true
}

fn take<S: Deref<Target: Lines>>(ring: &mut Consumer<S>) -> Option<(u8, Vec<u8>)> {
    let (record, must_wake) = take_waking(ring)?;
    assert!(!must_wake, "nobody waits for room");
    Some(record)
}

/// Takes a record, and says whether the writer must be woken.
fn take_waking<S: Deref<Target: Lines>>(ring: &mut Consumer<S>) -> Option<((u8, Vec<u8>), bool)> {
    let record = ring.peek().expect("not broken")?;
    let mut bytes = vec![0; record.len()];
    let middle = record.len() / 3;
    let (a, b) = bytes.split_at_mut(middle);
    record.copy(middle, b);
    record.copy(0, a);
    Some(((record.mark, bytes), record.take()))
}

#[test]
fn does_what_a_queue_does() {
    for seed in 1..=200 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let line_count = LINE_COUNT_MIN + random.below(60);
        let (mut writer, mut reader) = channel(line_count);
        let len_max = writer.record_len_max();
        // What was written, what of it was published, what was read.
        let (mut written, mut published) = (VecDeque::new(), VecDeque::new());
        for step in 0..2000 {
            let what = format!("seed {seed} step {step}");
            match random.below(8) {
                0..=2 => {
                    let len = match random.below(4) {
                        0 => len_max - random.below(3),
                        1 => random.below(len_max + 1),
                        _ => random.below(130.min(len_max)),
                    };
                    let record = (random.next() as u8, random.bytes(len));
                    if put(&mut writer, record.0, &record.1) {
                        written.push_back(record);
                    } else {
                        assert!(
                            !written.is_empty()
                                || !published.is_empty()
                                || reader.taken > reader.released,
                            "{what}: full for nothing"
                        );
                    }
                }
                3 => drop(writer.reserve(7, random.below(len_max)).unwrap()),
                4 => {
                    writer.publish();
                    published.append(&mut written);
                }
                _ => {
                    assert_eq!(reader.is_empty(), published.is_empty(), "{what}");
                    assert_eq!(take(&mut reader), published.pop_front(), "{what}");
                }
            }
        }
    }
}

#[test]
fn what_the_reader_holds_back_never_stops_the_longest_record() {
    let (mut writer, mut reader) = channel(61);
    let long = vec![9; writer.record_len_max()];
    for len in (0..long.len()).chain((0..long.len()).rev()) {
        for bytes in [&long[..len], &long] {
            assert!(put(&mut writer, 0, bytes), "{len}");
            writer.publish();
            assert_eq!(take(&mut reader).unwrap().1, bytes);
        }
    }
}

#[test]
fn a_batch_is_seen_at_once() {
    let (mut writer, mut reader) = channel(32);
    for n in 0..3 {
        assert!(put(&mut writer, n, &[n; 20]));
        assert!(reader.is_empty());
    }
    assert_eq!(writer.batch_len(), 3 * LINE_LEN);
    writer.publish();
    assert_eq!(writer.batch_len(), 0);
    for n in 0..3 {
        assert_eq!(take(&mut reader), Some((n, vec![n; 20])));
    }
    assert_eq!(take(&mut reader), None);
}

#[test]
fn what_looks_like_a_header_in_an_old_payload_is_none() {
    let (mut writer, mut reader) = channel(16);
    let header = header_of(KIND_RECORD, 1, 8).to_le_bytes();
    for round in 0..100_u8 {
        // Eight bytes behind each header, so that one stands at the start of every further line.
        let bytes: Vec<u8> = header.iter().copied().cycle().take(writer.record_len_max()).collect();
        assert!(put(&mut writer, 0, &bytes));
        assert!(put(&mut writer, round, b""));
        writer.publish();
        assert_eq!(take(&mut reader), Some((0, bytes)));
        assert_eq!(take(&mut reader), Some((round, vec![])));
        assert_eq!(take(&mut reader), None);
        assert!(!reader.release());
    }
}

#[test]
fn a_scribbled_header_breaks_the_reader_and_no_more() {
    let record = |len: usize| header_of(KIND_RECORD, 0, len);
    let max = record_len_max(16);
    let bad = [
        1,
        u64::MAX,
        3 << 40,
        record(max + 1),
        record(u32::MAX as usize),
        record(1) | GROWS,
        record(max) | GROWS,
        record(max) | 1 << 48,
        record(max) | GROWS | (max as u64 / UNIT_LEN as u64 + 1) << 48,
        record(max + 1) | GROWS | 1 << 48,
        header_of(KIND_PAD, 0, 300) | GROWS | 1 << 48,
        header_of(KIND_PAD, 0, 0),
    ];
    for header in bad {
        let (writer, mut reader) = channel(16);
        writer.store().set_header(0, header);
        assert_eq!(reader.peek().err(), Some(Broken), "{header:#x}");
        assert!(reader.growing().is_none(), "{header:#x}");
    }
    // Beyond the end; and a pad that no record can have been too long for.
    let bytes = vec![0; max];
    for header in [record(max), header_of(KIND_PAD, 0, 0)] {
        let (mut writer, mut reader) = channel(16);
        for bytes in [&bytes[..], &bytes, &bytes, b""] {
            assert!(put(&mut writer, 0, bytes));
            writer.publish();
            take(&mut reader);
        }
        assert_eq!(reader.index, 13);
        writer.store().set_header(13, header);
        writer.store().set_header(0, header);
        assert_eq!(reader.peek().err(), Some(Broken), "{header:#x}");
    }
    let (mut writer, mut reader) = channel(16);
    assert!(put(&mut writer, 0, &bytes));
    writer.publish();
    take(&mut reader);
    writer.store().set_header(4, header_of(KIND_PAD, 0, 0));
    assert_eq!(reader.peek().err(), Some(Broken));
}

#[test]
fn a_scribbled_head_breaks_the_writer_and_no_more() {
    for head in [100, u64::MAX, 1 << 40] {
        let (mut writer, reader) = channel(16);
        let bytes = vec![0; writer.record_len_max()];
        while put(&mut writer, 0, &bytes) {}
        reader.store().set_head(head);
        assert!(writer.reserve(0, bytes.len()).is_err(), "{head}");
    }
    let (mut writer, mut reader) = channel(16);
    for _ in 0..12 {
        assert!(put(&mut writer, 0, &[0; 100]));
        writer.publish();
        take(&mut reader);
        assert!(!reader.release());
    }
    reader.store().set_head(0);
    let mut broke = false;
    for _ in 0..12 {
        broke |= writer
            .reserve(0, 100)
            .map(|slot| {
                slot.map(|mut slot| {
                    slot.put(&[0; 100]);
                    slot.commit();
                })
            })
            .is_err();
    }
    assert!(broke, "it went backwards");
}

/// Lines of which a quarter is a record of some units.
const LONG: usize = 128;

#[test]
fn a_record_is_seen_growing_and_not_taken_before_it_is_whole() {
    let (mut writer, mut reader) = channel(LONG);
    let bytes = Random(9).bytes(writer.record_len_max());
    for _ in 0..10 {
        let Some(mut slot) = writer.reserve(7, bytes.len()).unwrap() else { panic!("it is empty") };
        let is_in_one_piece = slot.pad == 0;
        assert!(!reader.has_begun());
        for (at, part) in bytes.chunks(UNIT_LEN).enumerate().take(bytes.len() / UNIT_LEN) {
            slot.put(part);
            slot.show();
            assert!(reader.is_empty() && reader.peek().unwrap().is_none(), "not for all");
            if !is_in_one_piece {
                assert!(!reader.has_begun(), "a pad would have to be shown before it");
                continue;
            }
            let end = (at + 1) * UNIT_LEN;
            assert_eq!(reader.grown(bytes.len()), Some(end));
            assert_eq!(reader.grown(bytes.len() - 1), None, "that is another");
            let (record, there_len) = reader.growing().expect("it is shown");
            let mut seen = vec![0; there_len];
            record.copy(0, &mut seen);
            assert!((record.mark, record.len(), there_len) == (7, bytes.len(), end));
            assert!(seen == bytes[..end]);
        }
        slot.put(&bytes[bytes.len() / UNIT_LEN * UNIT_LEN..]);
        slot.commit();
        writer.publish();
        assert!(reader.growing().is_none() && !reader.is_empty());
        assert_eq!(take(&mut reader), Some((7, bytes.clone())));
    }
}

/// What was not published before a record would be passed over if that were shown.
#[test]
fn a_record_behind_others_of_its_batch_is_not_shown() {
    let (mut writer, mut reader) = channel(LONG);
    assert!(put(&mut writer, 1, b"first"));
    let mut slot = writer.reserve(2, 2 * UNIT_LEN).unwrap().expect("room");
    slot.put(&[5; 2 * UNIT_LEN]);
    slot.show();
    slot.commit();
    assert!(!reader.has_begun());
    writer.publish();
    assert_eq!(take(&mut reader), Some((1, b"first".to_vec())));
    assert_eq!(take(&mut reader), Some((2, vec![5; 2 * UNIT_LEN])));
}

/// Whoever is at the other end writes anything anywhere: errors, but no panic and no end to the work.
#[test]
fn random_scribbling_ends_in_an_error_or_in_nonsense() {
    for seed in 1..=300 {
        let mut random = Random(0x2545_f491_4f6c_dd1d_u64.wrapping_mul(seed));
        let (mut writer, mut reader) = channel(16 + random.below(20));
        let count = writer.line_count;
        for _ in 0..500 {
            let header = match random.below(4) {
                0 => random.next(),
                1 if random.below(2) == 0 => header_of(KIND_PAD, 0, random.below(4)),
                1 => header_of(KIND_RECORD, 0, random.below(600)) | GROWS | 1 << 48,
                _ => header_of(KIND_RECORD, random.next() as u8, random.below(16 * LINE_LEN)),
            };
            let line = random.below(count);
            writer.store().set_header(line, header);
            if random.below(4) == 0 {
                reader.store().set_head(random.next() >> random.below(64));
            }
            if let Some((record, there_len)) = reader.growing() {
                record.copy(0, &mut vec![0; there_len]);
            }
            if let Ok(Some(record)) = reader.peek() {
                let mut out = vec![0; record.len()];
                writer.store().set_header(record.ring.index, random.next());
                record.copy(0, &mut out);
                let _ = record.take();
            }
            if let Ok(Some(mut slot)) = writer.reserve(1, 70) {
                slot.put(&[0; 70]);
                slot.commit();
                writer.publish();
                writer.must_wake();
            }
        }
    }
}

#[test]
fn a_sleeper_is_woken_once() {
    let (mut writer, mut reader) = channel(16);
    assert!(put(&mut writer, 0, b"awake"));
    writer.publish();
    assert!(!writer.must_wake());
    take(&mut reader);
    reader.set_sleeping(true);
    reader.store().fence();
    assert!(reader.is_empty());
    assert!(put(&mut writer, 0, b"asleep"));
    writer.publish();
    assert!(writer.must_wake() && !writer.must_wake());
    reader.set_sleeping(true);
    reader.set_sleeping(false);
    assert!(!writer.must_wake());
}

#[test]
fn a_writer_that_waits_for_room_is_woken() {
    let (mut writer, mut reader) = channel(16);
    assert_eq!(writer.want_room(), Ok(false), "there is room");
    while put(&mut writer, 0, &[0; 100]) {}
    writer.publish();
    assert_eq!(writer.want_room(), Ok(true));
    let mut woken = (0..4).map(|_| take_waking(&mut reader).unwrap().1);
    assert!(woken.by_ref().take(2).eq([false, true]), "when a quarter came together");
    assert!(woken.eq([false, false]), "once");
}

#[test]
fn threads_pass_records() {
    const COUNT: u32 = if cfg!(miri) { 200 } else { 100_000 };
    let (mut writer, mut reader) = channel(40);
    let len_of = |n: u32| n as usize * 7 % 300;
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let mut bytes = vec![0; 512];
            for n in 0..COUNT {
                bytes[..300].fill(n as u8);
                while !put(&mut writer, (n >> 8) as u8, &bytes[..len_of(n)]) {
                    writer.publish();
                    std::thread::yield_now();
                }
                if n % 3 == 0 {
                    writer.publish();
                }
            }
            writer.publish();
        });
        for n in 0..COUNT {
            let (mark, bytes) = loop {
                match take(&mut reader) {
                    Some(record) => break record,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!((mark, bytes.len()), ((n >> 8) as u8, len_of(n)));
            assert!(bytes.iter().all(|&byte| byte == n as u8), "record {n}");
        }
    });
}

/// Two threads that sleep whenever there is nothing to do: a missed knock would leave both asleep.
#[test]
fn threads_wake_each_other() {
    use std::sync::mpsc;
    use std::time::Duration;
    const COUNT: u32 = if cfg!(miri) { 100 } else { 20_000 };
    let patience = Duration::from_secs(60);
    let (mut writer, mut reader) = channel(16);
    let (to_reader, at_reader) = mpsc::channel();
    let (to_writer, at_writer) = mpsc::channel();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            for n in 0..COUNT {
                while !put(&mut writer, n as u8, &[n as u8; 90]) {
                    if writer.want_room().unwrap() {
                        at_writer.recv_timeout(patience).expect("a knock when there is room");
                    }
                }
                writer.publish();
                if writer.must_wake() {
                    to_reader.send(()).unwrap();
                }
            }
        });
        for n in 0..COUNT {
            let (record, must_wake) = loop {
                if let Some(record) = take_waking(&mut reader) {
                    break record;
                }
                reader.set_sleeping(true);
                reader.store().fence();
                if reader.is_empty() {
                    at_reader.recv_timeout(patience).expect("a knock when there is a record");
                }
                reader.set_sleeping(false);
            };
            assert_eq!(record, (n as u8, vec![n as u8; 90]));
            if must_wake {
                let _ = to_writer.send(());
            }
        }
    });
}

/// All orders of two threads, and all values that their loads may see: `RUSTFLAGS="--cfg loom"`.
#[cfg(loom)]
mod all_orders {
    use std::ptr;

    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    use loom::thread;

    use super::*;

    /// Lines that notice races: on the first word of each as payload, and on the rest.
    struct Watched {
        headers: Vec<AtomicU64>,
        firsts: Vec<UnsafeCell<u64>>,
        rests: Vec<UnsafeCell<u64>>,
        head: AtomicU64,
        words: [AtomicU32; 3],
    }

    impl Watched {
        fn new(line_count: usize) -> Self {
            Self {
                headers: (0..line_count).map(|_| AtomicU64::new(0)).collect(),
                firsts: (0..line_count).map(|_| UnsafeCell::new(0)).collect(),
                rests: (0..line_count).map(|_| UnsafeCell::new(0)).collect(),
                head: AtomicU64::new(0),
                words: [AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)],
            }
        }

        /// The cells of a range; what matters is who touches them, and one value for each.
        fn each(&self, at: usize, len: usize, mut f: impl FnMut(&UnsafeCell<u64>)) {
            let mut here = at;
            while here < at + len {
                let (line, inner) = (here / LINE_LEN, here % LINE_LEN);
                let until = if inner < HEADER_LEN { HEADER_LEN } else { LINE_LEN };
                f(if inner < HEADER_LEN { &self.firsts[line] } else { &self.rests[line] });
                here = line * LINE_LEN + until;
            }
        }
    }

    impl Lines for Watched {
        fn line_count(&self) -> usize {
            self.headers.len()
        }
        fn header(&self, line: usize) -> u64 {
            // As payload it must not be written while somebody looks whether it is a header.
            self.firsts[line].with(|_| ());
            self.headers[line].load(SEE)
        }
        fn set_header(&self, line: usize, word: u64) {
            self.headers[line].store(word, HINT);
        }
        fn publish_header(&self, line: usize, word: u64) {
            self.headers[line].store(word, SHOW);
        }
        fn head(&self) -> u64 {
            self.head.load(SEE)
        }
        fn set_head(&self, head: u64) {
            self.head.store(head, SHOW);
        }
        fn word(&self, word: Word) -> u32 {
            self.words[word as usize].load(HINT)
        }
        fn set_word(&self, word: Word, value: u32) {
            self.words[word as usize].store(value, HINT);
        }
        fn fence(&self) {
            fence(Ordering::SeqCst);
        }
        unsafe fn write(&self, at: usize, from: *const u8, len: usize) {
            if len > 0 {
                // SAFETY: not empty, so a byte is there.
                let value = u64::from(unsafe { *from });
                // SAFETY: loom passes a pointer to its cell.
                self.each(at, len, |cell| cell.with_mut(|place| unsafe { *place = value }));
            }
            // An old payload must not be taken for a header.
            for line in at.div_ceil(LINE_LEN)..(at + len).div_ceil(LINE_LEN) {
                self.headers[line].store(header_of(KIND_RECORD, 99, 1), Ordering::Relaxed);
            }
        }
        unsafe fn read(&self, at: usize, to: *mut u8, len: usize) {
            let mut value = 0;
            // SAFETY: loom passes a pointer to its cell.
            self.each(at, len, |cell| value = cell.with(|place| unsafe { *place }));
            // SAFETY: `to` is valid for `len` bytes.
            unsafe { ptr::write_bytes(to, value as u8, len) };
        }
    }

    fn ends(line_count: usize) -> (Producer<Arc<Watched>>, Consumer<Arc<Watched>>) {
        let lines = Arc::new(Watched::new(line_count));
        // SAFETY: one of each.
        unsafe { (Producer::new(Arc::clone(&lines)), Consumer::new(lines)) }
    }

    fn pass(lens: &'static [usize], batch: usize) {
        loom::model(move || {
            let (mut writer, mut reader) = ends(16);
            let thread = thread::spawn(move || {
                for (n, &len) in lens.iter().enumerate() {
                    while !put(&mut writer, n as u8, &vec![n as u8 + 1; len]) {
                        writer.publish();
                        thread::yield_now();
                    }
                    if (n + 1) % batch == 0 {
                        writer.publish();
                    }
                }
                writer.publish();
            });
            for (n, &len) in lens.iter().enumerate() {
                let record = loop {
                    match take(&mut reader) {
                        Some(record) => break record,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(record, (n as u8, vec![n as u8 + 1; len]));
            }
            thread.join().unwrap();
        });
    }

    #[test]
    fn records_are_published_with_their_bytes() {
        pass(&[8, 100, 0], 1);
        pass(&[8, 100, 8], 2);
    }

    /// What is shown of a record was written before it was shown.
    #[test]
    fn a_record_grows_with_its_bytes() {
        loom::model(|| {
            let (mut writer, mut reader) = ends(40);
            let len = 2 * UNIT_LEN;
            let thread = thread::spawn(move || {
                let mut slot = writer.reserve(1, len).unwrap().expect("room");
                for part in 1..=2 {
                    slot.put(&[part; UNIT_LEN]);
                    slot.show();
                }
                slot.commit();
                writer.publish();
            });
            let mut done = 0;
            while reader.is_empty() {
                if let Some((record, there_len)) = reader.growing()
                    && there_len > done
                {
                    // One unit at a time: what is read at once has one value here.
                    for at in (done..there_len).step_by(UNIT_LEN) {
                        let mut seen = vec![0; UNIT_LEN];
                        record.copy(at, &mut seen);
                        assert_eq!(usize::from(seen[0]), at / UNIT_LEN + 1);
                    }
                    done = there_len;
                }
                thread::yield_now();
            }
            assert_eq!(take(&mut reader).expect("whole").1.len(), len);
            thread.join().unwrap();
        });
    }

    /// More than a lap: pads, and lines that were used before.
    #[test]
    fn lines_are_used_again_when_they_were_read() {
        pass(&[200, 200, 200, 200, 200], 5);
        pass(&[240, 8, 240, 240, 100], 5);
    }

    /// A missed knock is a deadlock, which loom finds.
    #[test]
    fn a_reader_that_sleeps_is_woken() {
        loom::model(|| {
            let (mut writer, mut reader) = ends(16);
            let knock = Arc::new((loom::sync::Mutex::new(0), loom::sync::Condvar::new()));
            let other = Arc::clone(&knock);
            let thread = thread::spawn(move || {
                for n in 0..2 {
                    assert!(put(&mut writer, n, b"x"));
                    writer.publish();
                    if writer.must_wake() {
                        *other.0.lock().unwrap() += 1;
                        other.1.notify_one();
                    }
                }
            });
            for _ in 0..2 {
                while take(&mut reader).is_none() {
                    reader.set_sleeping(true);
                    reader.store().fence();
                    if reader.is_empty() {
                        let mut count = knock.0.lock().unwrap();
                        while *count == 0 {
                            count = knock.1.wait(count).unwrap();
                        }
                        *count -= 1;
                    }
                    reader.set_sleeping(false);
                }
            }
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_writer_that_waits_for_room_is_woken() {
        loom::model(|| {
            let (mut writer, mut reader) = ends(16);
            for _ in 0..4 {
                assert!(put(&mut writer, 0, &[1; 160]));
            }
            writer.publish();
            let knock = Arc::new((loom::sync::Mutex::new(0), loom::sync::Condvar::new()));
            let other = Arc::clone(&knock);
            let thread = thread::spawn(move || {
                while !put(&mut writer, 0, &[1; 200]) {
                    if writer.want_room().unwrap() {
                        let mut count = other.0.lock().unwrap();
                        while *count == 0 {
                            count = other.1.wait(count).unwrap();
                        }
                        *count -= 1;
                    }
                }
            });
            for _ in 0..4 {
                if take_waking(&mut reader).unwrap().1 {
                    *knock.0.lock().unwrap() += 1;
                    knock.1.notify_one();
                }
            }
            thread.join().unwrap();
        });
    }
}
