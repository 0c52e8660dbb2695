//! A link that misbehaves: any link, with frames lost, doubled, held back and damaged on their way out, from a seed.
//!
//! ```text
//!   burst ─▶ fate of each frame ─▶ own burst ─▶ inner link
//!                └ held back: behind a few others, or until somebody receives twice
//! ```
//!
//! Frames are copied: what is damaged must not be the application's memory. The same frames in the same order and the
//! same seed have the same fates, whatever the inner link takes at a time.

use std::io;
use std::str::FromStr;

use crate::around::Holds;
use crate::mem::UserMemory;
use crate::sim::rng::Rng;
use crate::{About, Around, Burst, InMemory, Landing, Link, Locator, Reliability};

/// Bits flipped in one frame at most.
const FLIP_COUNT_MAX: u64 = 8;

const MILLION: u32 = 1_000_000;

/// What goes wrong how often, in parts per million of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Where all randomness comes from.
    pub seed: u64,
    /// Lost.
    pub loss_ppm: u32,
    /// Sent twice.
    pub duplicate_ppm: u32,
    /// Held back.
    pub reorder_ppm: u32,
    /// At most so many frames overtake one that is held back.
    pub reorder_count_max: u32,
    /// Sent with flipped bits.
    pub corrupt_ppm: u32,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            seed: 0,
            loss_ppm: 0,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            reorder_count_max: 8,
            corrupt_ppm: 0,
        }
    }
}

/// `loss=10000,reorder=20000`: what goes wrong, and for how many frames of a million.
impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MUST: &str = "loss, duplicate, reorder, corrupt (of a million frames) or seed, each with = and a number, with commas between";
        let mut faults = Self::default();
        for part in text.split(',') {
            let wrong = || format!("{part}: must be {MUST}");
            let (name, value) = part.trim().split_once('=').ok_or_else(wrong)?;
            if name == "seed" {
                faults.seed = value.parse().map_err(|_| wrong())?;
                continue;
            }
            let ppm = value.parse().ok().filter(|&ppm| ppm <= MILLION).ok_or_else(wrong)?;
            match name {
                "loss" => faults.loss_ppm = ppm,
                "duplicate" => faults.duplicate_ppm = ppm,
                "reorder" => faults.reorder_ppm = ppm,
                "corrupt" => faults.corrupt_ppm = ppm,
                _ => return Err(wrong()),
            }
        }
        Ok(faults)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    lost: u64,
    duplicated: u64,
    held_back: u64,
    corrupted: u64,
}

/// A frame that others overtake.
#[derive(Debug)]
struct Held {
    to: Locator,
    bytes: Vec<u8>,
    /// Goes when so many more have passed.
    wait_count: u64,
    /// Was here when somebody received.
    is_seen: bool,
}

/// A link around a link.
#[derive(Debug)]
pub struct Faulty<L> {
    inner: L,
    about: About,
    faults: Faults,
    rng: Rng,
    /// What the inner link shall send, and how much of it it took.
    out: Burst,
    out_done: usize,
    held: Vec<Held>,
    /// The frame at hand, and room of frames that were held.
    bytes: Vec<u8>,
    counters: Counters,
}

impl<L> Faulty<L> {
    /// Lets `inner` misbehave.
    pub fn new<M: ?Sized>(inner: L, faults: Faults) -> Self
    where
        L: Link<M>,
    {
        let about = About {
            reliability: match inner.about().reliability {
                // A stream must be opened as before, and what is lost here is to its receiver what a break would have lost.
                it @ (Reliability::Lossy | Reliability::Ordered { may_break: true }) => it,
                Reliability::Ordered { may_break: false } => Reliability::Lossy,
            },
            is_checked: false,
            is_private: false,
            ..inner.about().clone()
        };
        Self {
            inner,
            about,
            faults,
            rng: Rng::new(faults.seed).fork("faulty link"),
            out: Burst::default(),
            out_done: 0,
            held: Vec::new(),
            bytes: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Other faults from now on; the seed stays.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Sends what the inner link did not take before; whether all is gone.
    fn flush<M: UserMemory>(&mut self, memory: &mut M) -> io::Result<bool>
    where
        L: Link<M>,
    {
        if self.out_done < self.out.len() {
            self.out_done += self.inner.send(&self.out, self.out_done, memory)?;
        }
        if self.out_done < self.out.len() {
            return Ok(false);
        }
        self.out.clear();
        self.out_done = 0;
        Ok(true)
    }

    /// Decides about the frame in `bytes`. Every frame draws as often, so that one fault more elsewhere changes nothing here.
    fn pass(&mut self, to: Locator) {
        let is_lost = self.rng.chance(self.faults.loss_ppm);
        let is_double = self.rng.chance(self.faults.duplicate_ppm);
        let is_damaged = self.rng.chance(self.faults.corrupt_ppm);
        let is_late = self.rng.chance(self.faults.reorder_ppm);
        let mut detail = Rng::new(self.rng.next_u64());
        self.let_go();
        if is_lost {
            self.counters.lost += 1;
            return;
        }
        if is_double {
            self.counters.duplicated += 1;
            self.put(to);
        }
        if is_damaged && !self.bytes.is_empty() {
            self.counters.corrupted += 1;
            for _ in 0..detail.range(1..=FLIP_COUNT_MAX) {
                let bit = detail.below(self.bytes.len() as u64 * 8);
                self.bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
        }
        if is_late && self.faults.reorder_count_max > 0 {
            self.counters.held_back += 1;
            let wait_count = detail.range(1..=u64::from(self.faults.reorder_count_max));
            let bytes = self.bytes.clone();
            self.held.push(Held { to, bytes, wait_count, is_seen: false });
        } else {
            self.put(to);
        }
    }

    fn put(&mut self, to: Locator) {
        self.out.begin(to);
        self.out.head(&self.bytes);
    }

    /// One more frame passes those that are held back.
    fn let_go(&mut self) {
        let out = &mut self.out;
        self.held.retain_mut(|held| {
            if held.wait_count > 0 {
                held.wait_count -= 1;
                return true;
            }
            out.begin(held.to);
            out.head(&held.bytes);
            false
        });
    }

    /// A receiver that looks for the second time is waiting: frames that were held back once are let go, and nothing more may overtake them.
    fn let_go_seen(&mut self) {
        let out = &mut self.out;
        self.held.retain_mut(|held| {
            if held.is_seen {
                out.begin(held.to);
                out.head(&held.bytes);
            }
            !std::mem::replace(&mut held.is_seen, true)
        });
    }
}

impl<L: Send> Holds for Faulty<L> {
    type Inside = L;

    fn inside(&self) -> &L {
        &self.inner
    }

    fn inside_mut(&mut self) -> &mut L {
        &mut self.inner
    }
}

impl<M: UserMemory, L: Link<M>> Around<M> for Faulty<L> {
    fn about_around(&self) -> &About {
        &self.about
    }

    fn send_around(&mut self, burst: &Burst, first: usize, memory: &mut M) -> io::Result<usize> {
        if !self.flush(memory)? {
            return Ok(0);
        }
        for frame in burst.frames(first) {
            self.bytes.clear();
            burst.gather(&frame, memory, &mut self.bytes);
            self.pass(frame.to);
        }
        self.flush(memory)?;
        Ok(burst.len() - first)
    }

    /// Every frame goes by `send`, where its fate is decided.
    fn send_now_around(&mut self, _: &Locator, _: &[u8], _: usize) -> bool {
        false
    }

    fn receive_around(&mut self, landing: Option<&Landing>, memory: &mut M) -> io::Result<usize> {
        if !self.held.is_empty() {
            self.let_go_seen();
        }
        self.flush(memory)?;
        let count = self.inner.receive(landing, memory)?;
        // What the inner link can do may change with what it sees.
        let inner = self.inner.about();
        self.about.backlog_len_max = inner.backlog_len_max;
        self.about.train_len_max = inner.train_len_max;
        self.about.train_count_max = inner.train_count_max;
        Ok(count)
    }

    /// Every frame must be seen.
    fn in_memory_around(&mut self) -> Option<&mut dyn InMemory<M>> {
        None
    }

    fn each_own_counter(&self, show: &mut dyn FnMut(&'static str, u64)) {
        show("faults_lost", self.counters.lost);
        show("faults_duplicated", self.counters.duplicated);
        show("faults_held_back", self.counters.held_back);
        show("faults_corrupted", self.counters.corrupted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Table;
    use crate::script::Script;

    fn numbered(count: u32) -> Burst {
        let mut burst = Burst::default();
        for n in 0..count {
            burst.begin([1; 24]);
            burst.head(&n.to_le_bytes());
            burst.head(&[0; 60]);
        }
        burst
    }

    fn sent(faults: Faults, count: u32, take_max: usize) -> Vec<Vec<u8>> {
        let mut link = Faulty::new::<Table>(Script { take_max, ..Script::default() }, faults);
        let (burst, mut memory, mut at) = (numbered(count), Table::default(), 0);
        while at < burst.len() {
            at += link.send(&burst, at, &mut memory).unwrap();
        }
        for _ in 0..burst.len() {
            link.receive(None, &mut memory).unwrap();
        }
        assert!(link.held.is_empty() && link.out.is_empty());
        let inner = std::mem::take(&mut link.inner);
        inner.sent.into_iter().map(|(_, bytes)| bytes).collect()
    }

    fn number(frame: &[u8]) -> u32 {
        u32::from_le_bytes(frame[..4].try_into().unwrap())
    }

    #[test]
    fn faults_are_read_from_a_text() {
        let faults: Faults = "loss=10000, reorder=20000,seed=9".parse().unwrap();
        assert_eq!((faults.loss_ppm, faults.reorder_ppm, faults.seed), (10_000, 20_000, 9));
        for wrong in ["", "loss", "loss=2000000", "luck=1", "loss=1,,"] {
            let complaint = wrong.parse::<Faults>().unwrap_err();
            assert!(complaint.contains("loss, duplicate, reorder, corrupt"), "{complaint}");
        }
    }

    #[test]
    fn without_faults_frames_are_what_they_were() {
        let numbers: Vec<u32> = sent(Faults::default(), 100, 7).iter().map(|f| number(f)).collect();
        assert!(numbers.iter().copied().eq(0..100));
    }

    #[test]
    fn faults_are_as_frequent_as_asked_and_replay() {
        let faults = Faults {
            seed: 3,
            loss_ppm: 100_000,
            duplicate_ppm: 50_000,
            reorder_ppm: 80_000,
            corrupt_ppm: 20_000,
            ..Faults::default()
        };
        let all = sent(faults, 10_000, usize::MAX);
        assert_eq!(all, sent(faults, 10_000, 3), "whatever the inner link takes");
        assert_ne!(all, sent(Faults { seed: 4, ..faults }, 10_000, usize::MAX));
        let clean = |frame: &&Vec<u8>| frame[4..].iter().all(|byte| *byte == 0);
        let damaged = all.iter().filter(|frame| !clean(frame)).count();
        assert!((100..300).contains(&damaged), "{damaged}");
        let mut numbers: Vec<u32> = all.iter().filter(clean).map(|f| number(f)).collect();
        let late = numbers.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!((400..1200).contains(&late), "{late}");
        numbers.sort_unstable();
        let count = numbers.len();
        numbers.dedup();
        assert!((300..700).contains(&(count - numbers.len())), "{}", count - numbers.len());
        assert!((8_600..9_100).contains(&numbers.len()), "{}", numbers.len());
    }

    #[test]
    fn a_held_frame_is_overtaken_by_a_few_only() {
        let faults = Faults { reorder_ppm: 200_000, reorder_count_max: 4, ..Faults::default() };
        let all = sent(faults, 2000, usize::MAX);
        let mut latest = 0;
        for frame in &all {
            let n = number(frame);
            // Those that overtake may themselves have been held, at most as long.
            assert!(n + 2 * 5 > latest, "{n} behind {latest}");
            latest = latest.max(n);
        }
        assert_eq!(all.len(), 2000);
    }

    #[test]
    fn what_it_says_of_itself() {
        let inner = Script::default();
        assert!(Link::<Table>::about(&inner).reliability.never_loses());
        let link = Faulty::new::<Table>(inner, Faults::default());
        let about = Link::<Table>::about(&link);
        assert_eq!(about.reliability, Reliability::Lossy);
        assert!(!about.is_checked && about.can_land);
    }
}
