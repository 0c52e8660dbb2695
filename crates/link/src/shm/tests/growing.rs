//! Frames that are seen while they are written (PROTOCOL §14.8).

use super::*;
use crate::shm::letters::MARK_FRAME;

#[test]
fn a_frame_is_followed_while_it_is_written() {
    let (mut a, mut b) = (open_as_usual(), open_as_usual());
    introduce(&mut a, &mut b);
    let (to, len) = (b.locator(), 60_000);
    let (mut memory, mut followed) = (Table::default(), 0);
    let until = Instant::now() + PATIENCE;
    // Until it was seen growing, which takes two cores at one time.
    for round in 0.. {
        let payload = pattern(len, round);
        let head = pattern(HEAD_LEN, round);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| assert!(a.put(&to, &head, &payload)));
            let id = memory.insert(vec![0; len].into());
            let mut shown = [0; SHORT_LEN_MAX];
            let front = loop {
                if let Some(front) = b.look(&mut shown) {
                    break front;
                }
            };
            assert!(shown[..HEAD_LEN] == head && front.len == HEAD_LEN + len);
            let mut missing_len = len;
            if !front.is_whole {
                if b.follow(HEAD_LEN, id, len, &mut memory) {
                    (followed, missing_len) = (followed + 1, 0);
                } else {
                    writer.join().unwrap();
                    assert!(b.look(&mut shown).expect("it is there").is_whole);
                }
            }
            b.take(HEAD_LEN, id, missing_len, &mut memory);
            assert!(memory.remove(id).expect("it was lent").into_vec() == payload, "round {round}");
        });
        if followed > 3 {
            return;
        }
        assert!(Instant::now() < until, "never seen growing in {round} rounds");
    }
}

/// Who follows has its engine locked: a writer that stops, or shows little by little, must not hold it for long, nor again and again.
#[test]
fn a_frame_whose_writer_halts_is_not_followed_again() {
    let (mut a, mut b) = (open_as_usual(), open_as_usual());
    introduce(&mut a, &mut b);
    let len = 60_000;
    let (mut memory, payload) = (Table::default(), pattern(len, 1));
    let id = memory.insert(vec![0; len].into());
    let mut slot = a.outputs[0].ring.reserve(MARK_FRAME, len).unwrap().unwrap();
    slot.put(&payload[..8192]);
    slot.show();
    let mut shown = [0; SHORT_LEN_MAX];
    let front = b.look(&mut shown).expect("it has begun");
    assert!(!front.is_whole && front.len == len);
    assert!(!b.follow(0, id, len, &mut memory), "its writer has come to a halt");
    slot.put(&payload[8192..16_384]);
    slot.show();
    assert!(b.look(&mut shown).is_none(), "it is waited for like any other");
    slot.put(&payload[16_384..]);
    slot.commit();
    a.outputs[0].ring.publish();
    assert!(b.look(&mut shown).expect("it is there").is_whole);
    b.take(0, id, len, &mut memory);
    assert!(memory.remove(id).expect("it was lent").into_vec() == payload);
    // The next one is followed as ever: until it halts.
    let mut slot = a.outputs[0].ring.reserve(MARK_FRAME, len).unwrap().unwrap();
    slot.put(&payload[..8192]);
    slot.show();
    assert!(!b.look(&mut shown).expect("it has begun").is_whole);
}
