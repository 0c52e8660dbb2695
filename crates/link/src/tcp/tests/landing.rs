//! Payload that lands, where it should and where it should not.

use super::*;
use crate::mem::MemoryId;
use crate::sim::Rng;

const HEAD_LEN: usize = 40;

/// What a test reads with: whole frames in order, whichever way they came.
#[derive(Default)]
struct Reader {
    memory: Table,
    frames: Vec<Vec<u8>>,
}

impl Reader {
    /// Receives once. `first` says from which of the frames that landed on they are lifted.
    fn receive(
        &mut self,
        link: &mut Tcp,
        landing: Option<&Landing>,
        mut first: impl FnMut(usize) -> usize,
    ) -> usize {
        let count = link.receive(landing, &mut self.memory).unwrap();
        let mut taken = 0;
        for index in 0..count {
            if let Some(landed) = link.arrived(index).landed {
                let first = first(landed.count);
                link.lift(index, first, &mut self.memory);
                taken += first;
            }
        }
        for index in 0..count {
            let arrived = link.arrived(index);
            let payload_len = landing.map_or(0, |landing| landing.payload_len);
            if let (Some(landed), Some(landing)) = (arrived.landed, landing) {
                assert_eq!(landed.count, arrived.heads().count());
                for (number, head) in arrived.heads().enumerate() {
                    let is_last = number + 1 == landed.count;
                    let len = if is_last { landed.last_len } else { payload_len };
                    let at = landed.offset + (number * payload_len) as u64;
                    let mut frame = head.to_vec();
                    assert!(self.memory.copy_out(landing.id, at, len, &mut frame));
                    self.frames.push(frame);
                }
            }
            self.frames.extend(arrived.whole(payload_len).map(<[u8]>::to_vec));
        }
        taken
    }
}

/// Frames of a message: each head another, payload behind each other.
fn message(count: usize, payload_len: usize, last_len: usize) -> (Vec<u8>, Vec<u8>) {
    (pattern(count * HEAD_LEN, 5), pattern((count - 1) * payload_len + last_len, 3))
}

#[test]
fn trains_from_the_application_s_memory_land_in_place() {
    let (count, payload_len, last_len) = (100, 61_960, 1234);
    let (heads, payload) = message(count, payload_len, last_len);
    for pieces in [1, 7] {
        let (mut a, mut b) = (open(), open());
        let mut source = Table::default();
        let id = source.insert(payload.clone().into());
        let mut reader = Reader::default();
        let cut = payload.len().div_ceil(pieces);
        let rooms: Vec<_> = payload.chunks(cut).map(|chunk| vec![0; chunk.len()]).collect();
        let place = reader.memory.insert(rooms.into());
        let (mut sent, mut got) = (0, 0);
        until("all of it", || {
            assert_eq!(counter(&a, "lost_frames"), 0);
            // Never more on its way than the link promises to hold.
            if sent < count && sent * payload_len <= got + 8 * payload_len {
                let more = (count - sent).min(8);
                let is_end = sent + more == count;
                let train = Train {
                    count: more as u32,
                    head_len: HEAD_LEN as u32,
                    payload_len: payload_len as u32,
                    last_len: if is_end { last_len } else { payload_len } as u32,
                    id,
                    offset: (sent * payload_len) as u64,
                };
                let mut burst = Burst::default();
                let heads = &heads[sent * HEAD_LEN..(sent + more) * HEAD_LEN];
                burst.train(b.locator(), heads, train);
                assert_eq!(a.send(&burst, 0, &mut source).unwrap(), more);
                sent += more;
            }
            a.receive(None, &mut source).unwrap();
            let landing = Landing {
                id: place,
                offset: got as u64,
                len: (payload.len() - got) as u64,
                head_len: HEAD_LEN,
                payload_len,
            };
            let taken = reader.receive(&mut b, Some(&landing), |count| count);
            got = payload.len().min(got + taken * payload_len);
            got == payload.len()
        });
        assert_eq!(counter(&b, "landed_bytes"), payload.len() as u64);
        assert_eq!(counter(&b, "lifted_bytes"), 0);
        assert_eq!(counter(&a, "lost_frames"), 0);
        assert!(reader.memory.remove(place).unwrap().copied() == payload);
        for (number, frame) in reader.frames.iter().enumerate() {
            assert_eq!(frame[..HEAD_LEN], heads[number * HEAD_LEN..(number + 1) * HEAD_LEN]);
        }
        println!(
            "{} calls to send, {} to receive",
            counter(&a, "calls_out"),
            counter(&b, "calls_in")
        );
    }
}

/// One end of a transfer between two threads: sends a message in trains, never more at a time than the link holds, as far as the
/// other end says what it got.
fn send_message(link: &mut Tcp, to: Locator, heads: &[u8], payload: &[u8], payload_len: usize) {
    let mut memory = Table::default();
    let id = memory.insert(payload.to_vec().into());
    let count = heads.len() / HEAD_LEN;
    let (mut sent, mut got) = (0, 0);
    until("all of it taken", || {
        let more = (count - sent).min(8);
        if more > 0 && sent * payload_len <= got + 8 * payload_len {
            let last_len = (payload.len() - sent * payload_len).min(more * payload_len);
            let train = Train {
                count: more as u32,
                head_len: HEAD_LEN as u32,
                payload_len: payload_len as u32,
                last_len: (last_len - (more - 1) * payload_len) as u32,
                id,
                offset: (sent * payload_len) as u64,
            };
            let mut burst = Burst::default();
            burst.train(to, &heads[sent * HEAD_LEN..(sent + more) * HEAD_LEN], train);
            assert_eq!(link.send(&burst, 0, &mut memory).unwrap(), more);
            sent += more;
        }
        for (_, frame) in frames_now(link) {
            got = u64::from_le_bytes(frame.try_into().unwrap()) as usize;
        }
        got == payload.len()
    });
    assert_eq!(counter(link, "lost_frames"), 0);
}

#[test]
fn two_threads_move_much_and_all_of_it_lands() {
    let (count, payload_len, last_len) = (600, 61_960, 777);
    let (heads, payload) = message(count, payload_len, last_len);
    let (mut a, mut b) = (open(), open());
    let (here, there) = (b.locator(), a.locator());
    let mut reader = Reader::default();
    let id = reader.memory.insert(vec![0; payload.len()].into());
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| send_message(&mut a, here, &heads, &payload, payload_len));
        let (mut got, mut unused) = (0, Table::default());
        until("all of it", || {
            let len = (payload.len() - got) as u64;
            let landing = Landing { id, offset: got as u64, len, head_len: HEAD_LEN, payload_len };
            let taken = reader.receive(&mut b, Some(&landing), |count| count);
            got = payload.len().min(got + taken * payload_len);
            reader.frames.clear();
            if taken > 0 {
                let told = burst_of(there, [&(got as u64).to_le_bytes()[..]]);
                assert_eq!(b.send(&told, 0, &mut unused).unwrap(), 1);
            }
            got == payload.len()
        });
        until("the last word gone", || frames_now(&mut b).is_empty() && !b.outgoing.is_waiting());
    });
    let took = begin.elapsed();
    assert_eq!(counter(&b, "landed_bytes"), payload.len() as u64);
    assert!(reader.memory.remove(id).unwrap().copied() == payload);
    let (calls, kept) = (counter(&b, "calls_in"), counter(&b, "bytes_in"));
    println!("{kept} bytes in {calls} calls, {took:?}, out {} calls", counter(&a, "calls_out"));
}

/// Writes bytes to a link and has each piece read before the next is written.
fn in_pieces(
    link: &mut Tcp,
    stream: &mut TcpStream,
    bytes: &[u8],
    mut len: impl FnMut() -> usize,
    mut receive: impl FnMut(&mut Tcp),
) {
    let mut rest = bytes;
    let mut read = counter(link, "bytes_in");
    while !rest.is_empty() {
        let (now, later) = rest.split_at(len().clamp(1, rest.len()));
        stream.write_all(now).unwrap();
        (rest, read) = (later, read + now.len() as u64);
        until("the piece", || {
            receive(link);
            counter(link, "bytes_in") == read
        });
    }
}

#[test]
fn payload_lands_however_the_stream_is_cut() {
    let (count, payload_len, last_len) = (9, 300, 200);
    let (heads, payload) = message(count, payload_len, last_len);
    let mut bytes = Vec::new();
    for (head, payload) in heads.chunks(HEAD_LEN).zip(payload.chunks(payload_len)) {
        bytes.extend(record(&[head, payload].concat()));
    }
    let lens = (1..10).chain(38..50).chain([170, 299, 300, 340, 343, 344, 345, 700, 5000]);
    for len in lens {
        let mut link = open();
        let mut stream = raw_stream(&mut link);
        let mut reader = Reader::default();
        let id = reader.memory.insert(vec![vec![0; 450], vec![0; payload.len() - 450]].into());
        let mut got = 0;
        in_pieces(
            &mut link,
            &mut stream,
            &bytes,
            || len,
            |link| {
                let rest = (payload.len() - got) as u64;
                let landing =
                    Landing { id, offset: got as u64, len: rest, head_len: HEAD_LEN, payload_len };
                let taken = reader.receive(link, Some(&landing), |count| count);
                got = payload.len().min(got + taken * payload_len);
            },
        );
        assert_eq!(counter(&link, "landed_bytes"), payload.len() as u64, "pieces of {len}");
        assert!(reader.memory.remove(id).unwrap().copied() == payload, "pieces of {len}");
        assert_eq!(reader.frames.len(), count);
    }
}

#[test]
fn a_record_begun_is_whole_though_its_place_is_given_back_or_written_to() {
    let payload = pattern(300, 1);
    let frame = [&pattern(HEAD_LEN, 2)[..], &payload].concat();
    for case in 0..4 {
        let mut link = open();
        let mut stream = raw_stream(&mut link);
        let mut reader = Reader::default();
        let id = reader.memory.insert(vec![7; 1000].into());
        let other = reader.memory.insert(vec![8; 1000].into());
        let landing = Landing { id, offset: 100, len: 600, head_len: HEAD_LEN, payload_len: 300 };
        let bytes = record(&frame);
        let (begin, end) = bytes.split_at(200);
        let whole = |count| count;
        in_pieces(
            &mut link,
            &mut stream,
            begin,
            || 200,
            |link| {
                reader.receive(link, Some(&landing), whole);
            },
        );
        let mut next = Some(landing);
        match case {
            0 => drop(reader.memory.remove(id)),
            1 => assert!(reader.memory.copy_in(id, 120, &[9; 50])), // another link, by a prediction of its own
            2 => next = Some(Landing { id: other, ..landing }),
            _ => next = None,
        }
        in_pieces(
            &mut link,
            &mut stream,
            end,
            || 200,
            |link| {
                reader.receive(link, next.as_ref(), whole);
            },
        );
        assert!(reader.frames == [&frame[..]], "case {case}");
        let landed = [0, 300, 300, 0][case];
        assert_eq!(counter(&link, "landed_bytes"), landed, "case {case}");
        if let Some(memory) = reader.memory.remove(id) {
            let bytes = memory.copied();
            let outside = bytes[..100].iter().chain(&bytes[700..]);
            assert!(outside.copied().eq([7; 400]), "case {case}");
        }
    }
}

/// What the model test draws: a landing that is right, or nearly, or not at all.
fn random_landing(rng: &mut Rng, right: Landing, ids: &[MemoryId]) -> Option<Landing> {
    let mut landing = right;
    match rng.below(20) {
        0 | 1 => return None,
        2 => landing.id = *rng.pick(ids),
        3 => landing.offset = rng.below(5000),
        4 => landing.payload_len = 1 + rng.below(500) as usize,
        5 => landing.head_len = 1 + rng.below(60) as usize,
        6 => landing.len = rng.below(2000),
        7 => landing.payload_len = FRAME_LEN_MAX + rng.below(2) as usize,
        _ => {}
    }
    Some(landing)
}

/// Memory that others may write to and take away.
struct Lent {
    ids: Vec<MemoryId>,
    before: Vec<Option<Vec<u8>>>,
}

impl Lent {
    fn new(memory: &mut Table) -> Self {
        let mut ids: Vec<_> = (0..3).map(|_| memory.insert(vec![0; LENT_LEN].into())).collect();
        // More pieces than a read has parts.
        ids.push(memory.insert(vec![vec![0; 3]; LENT_LEN.div_ceil(3)].into()));
        Self { ids, before: Vec::new() }
    }

    fn remember(&mut self, memory: &Table) {
        let show = |&id: &MemoryId| memory.get(id).map(|lent| lent.copied());
        self.before = self.ids.iter().map(show).collect();
    }

    /// Bytes that were written since, and that the landing does not name.
    fn stray_count(&self, memory: &Table, landing: Option<Landing>) -> usize {
        let strays = self.ids.iter().zip(&self.before).map(|(&id, before)| {
            let named = landing.filter(|landing| landing.id == id);
            let named = named.map_or(0..0, |it| it.offset as usize..(it.offset + it.len) as usize);
            let now = memory.get(id).map(|lent| lent.copied()).into_iter().flatten();
            let both = now.zip(before.iter().flatten()).enumerate();
            both.filter(|(at, (now, before))| now != *before && !named.contains(at)).count()
        });
        strays.sum()
    }

    /// Now and then somebody writes to memory that a record has begun to land in, or takes it away.
    fn meddle(&mut self, rng: &mut Rng, memory: &mut Table, right: &mut Landing) {
        match rng.below(30) {
            0 => {
                let at = rng.below(3000);
                memory.copy_in(right.id, at, &[rng.below(256) as u8; 900]);
            }
            1 => {
                memory.remove(right.id);
                let new = memory.insert(vec![0; LENT_LEN].into());
                *self.ids.iter_mut().find(|id| **id == right.id).unwrap() = new;
                right.id = if rng.below(2) == 0 { new } else { self.ids[1] };
            }
            _ => {}
        }
    }
}

const LENT_LEN: usize = 4000;

/// A random stream of records, cut at random, read with landings that are right or wrong, lifted or not, while others write to
/// the same memory and take it away. How many bytes landed, and how many were moved.
fn model(seed: u64) -> (u64, u64) {
    let rng = &mut Rng::new(seed);
    let (head_len, payload_len) = (1 + rng.below(50) as usize, 1 + rng.below(400) as usize);
    let mut sent = Vec::new();
    for number in 0..rng.range(1..=60) as usize {
        let usual = head_len + payload_len;
        let len = if rng.below(8) > 0 { usual } else { 1 + rng.below(900) as usize };
        sent.push(pattern(len, number * 13 + 1));
    }
    let bytes: Vec<u8> = sent.iter().flat_map(|frame| record(frame)).collect();
    let (mut link, mut reader) = (open(), Reader::default());
    let mut stream = raw_stream(&mut link);
    let mut lent = Lent::new(&mut reader.memory);
    let all = LENT_LEN as u64;
    let mut right = Landing { id: lent.ids[0], offset: 0, len: all, head_len, payload_len };
    let (mut draws, mut lens) = (rng.fork("receive"), rng.fork("lens"));
    let longest = *rng.pick(&[20, 200, 1000, 9000]);
    let piece_len = || 1 + lens.below(longest) as usize;
    in_pieces(&mut link, &mut stream, &bytes, piece_len, |link| {
        let landing = random_landing(&mut draws, right, &lent.ids);
        lent.remember(&reader.memory);
        let lifts = draws.below(4) == 0;
        let taken = reader.receive(link, landing.as_ref(), |count| {
            if lifts { draws.below(count as u64 + 1) as usize } else { count }
        });
        let stray_count = lent.stray_count(&reader.memory, landing);
        assert_eq!(stray_count, 0, "seed {seed}: bytes outside {landing:?} were written");
        if landing == Some(right) {
            right.offset += (taken * payload_len) as u64;
        }
        if right.offset + 500 > all || draws.below(50) == 0 {
            (right.offset, right.id) = (0, *draws.pick(&lent.ids));
        }
        right.len = all.saturating_sub(right.offset);
        lent.meddle(&mut draws, &mut reader.memory, &mut right);
    });
    let wrong = reader.frames.iter().zip(&sent).position(|(found, sent)| found != sent);
    assert_eq!((wrong, reader.frames.len()), (None, sent.len()), "seed {seed}");
    (counter(&link, "landed_bytes"), counter(&link, "lifted_bytes"))
}

#[test]
fn every_record_comes_out_as_it_was_sent() {
    let sums = (0..60).map(model).fold((0, 0), |sum, now| (sum.0 + now.0, sum.1 + now.1));
    println!("{} bytes landed, {} were moved", sums.0, sums.1);
    assert!(sums.0 > 50_000 && sums.1 > 20_000, "{sums:?}: landings were neither right nor wrong");
}
