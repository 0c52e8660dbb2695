//! `extract(n)` keeps its measure, whatever is sent.

use std::sync::atomic::AtomicBool;

use super::*;
use proptest::prelude::*;

/// Set when the thread that has it panics.
struct OnPanic<'a>(&'a AtomicBool);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        self.0.store(std::thread::panicking(), Ordering::Relaxed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// `extract(n)` never handles more than n rounded up to a packet, whatever pieces are sent and received.
    #[test]
    fn extract_keeps_its_measure(
        lens in proptest::collection::vec((0..60_000_usize, 1..30_000_usize), 1..8),
        measures in proptest::collection::vec(0..40_000_usize, 1..8),
    ) {
        let (a, b, to_b) = pair();
        let read_len = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(AtomicUsize::new(0));
        for (number, &(_, piece_len)) in lens.iter().enumerate() {
            let (read_len, ended) = (Arc::clone(&read_len), Arc::clone(&ended));
            b.streams().register(number as u16, move |_, mut stream| {
                let (read_len, ended) = (Arc::clone(&read_len), Arc::clone(&ended));
                async move {
                    let mut piece = vec![0; piece_len];
                    loop {
                        let len = stream.receive(&mut piece).await.unwrap();
                        read_len.fetch_add(len, Ordering::Relaxed);
                        if len < piece_len {
                            break;
                        }
                    }
                    ended.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let is_over = || ended.load(Ordering::Relaxed) == lens.len();
        let has_failed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (number, &(len, _)) in lens.iter().enumerate() {
                    a.streams().send(to_b, number as u16, &[&pattern(1, len)]).unwrap();
                }
                while !is_over() && !has_failed.load(Ordering::Relaxed) {
                    a.turn();
                }
            });
            // Whatever is found wrong here, the sender must hear of it: nobody else ends its thread.
            let _alarm = OnPanic(&has_failed);
            let began = Instant::now();
            for &measure in measures.iter().cycle() {
                if is_over() {
                    break;
                }
                let before = read_len.load(Ordering::Relaxed);
                let extracted = b.streams().extract(measure).unwrap();
                let read_len = read_len.load(Ordering::Relaxed) - before;
                assert!(extracted.bytes < (measure + PACKET_LEN_MAX) as u64);
                // Rests of packets that were counted before may be read, too: less than one for each message.
                assert!(read_len < measure + PACKET_LEN_MAX * (1 + lens.len()));
                b.streams().extract(1).unwrap(); // a measure of 0 handles nothing
                assert!(began.elapsed() < LONGEST);
            }
        });
        prop_assert_eq!(read_len.load(Ordering::Relaxed), lens.iter().map(|each| each.0).sum::<usize>());
    }
}
