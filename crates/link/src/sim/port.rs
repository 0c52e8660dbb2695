//! A port of the simulated network as a link.
//!
//! It holds frames between two steps of the network: whoever owns the network puts what was delivered into the inbox
//! before the engine's turn, and takes the outbox to the network after it. Frames that came together from one
//! place are handed over together, as a system hands over a train; on request payload lands where the engine expects it,
//! and now and then where it does not.

use std::io;
use std::os::fd::BorrowedFd;

use super::told::{Teller, Told};
use super::{Delivery, Rng, network};
use crate::mem::{MemoryId, UserMemory};
use crate::{
    About, Arrived, Burst, Front, InMemory, Landed, Landing, Link, Locator, Notice, Reliability,
    SHORT_LEN_MAX, Telling,
};

/// So many landings in a million are not where they were expected.
const ASTRAY_PPM: u32 = 60_000;

/// So many long frames in a million are still written when they are looked at,
const GROWS_PPM: u32 = 400_000;
/// and of these so many are not written on as long as anybody follows.
const HALTS_PPM: u32 = 300_000;

/// Frames of one length (the last may be shorter) that came together, one after another.
#[derive(Debug, Default)]
struct Batch {
    from: Locator,
    whole: Vec<u8>,
    stride: usize,
    /// Frames before this one were taken, as they landed.
    first: usize,
    /// Heads of what landed.
    heads: Vec<u8>,
    head_len: usize,
    landed: Option<Landed>,
}

impl Batch {
    fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.whole.chunks(self.stride.max(1))
    }

    /// Lets payload land as far as the frames look as expected, and says behind which byte.
    fn land<M: UserMemory>(&mut self, landing: &Landing, memory: &mut M) -> u64 {
        let (mut offset, mut left) = (landing.offset, landing.len);
        let mut landed = Landed { offset, count: 0, last_len: 0 };
        let mut heads = std::mem::take(&mut self.heads);
        heads.clear();
        for frame in self.frames() {
            let Some((head, payload)) = frame.split_at_checked(landing.head_len) else { break };
            let len = payload.len() as u64;
            if len > left.min(landing.payload_len as u64) {
                break; // its end would be in the spill
            }
            heads.extend_from_slice(head);
            memory.place(landing.id, offset, payload);
            (offset, left) = (offset + len, left - len);
            landed = Landed { count: landed.count + 1, last_len: payload.len(), ..landed };
            if payload.len() < landing.payload_len {
                break;
            }
        }
        self.heads = heads;
        self.head_len = landing.head_len;
        self.landed = Some(landed).filter(|landed| landed.count > 0);
        offset - landing.offset
    }

    /// What comes behind the frames that landed.
    fn split_rest(&mut self) -> Option<Self> {
        let landed_len = self.landed?.count * self.stride;
        if landed_len >= self.whole.len() {
            return None;
        }
        let whole = self.whole.split_off(landed_len);
        Some(Self { from: self.from, whole, stride: self.stride, ..Self::default() })
    }
}

/// A link to the simulated network.
#[derive(Debug)]
pub struct SimPort {
    about: About,
    locator: Locator,
    /// Takes every locator for one that it reaches.
    is_naive: bool,
    /// Frames to send, with where to.
    pub outbox: Vec<(Locator, Vec<u8>)>,
    inbox: Vec<Delivery>,
    arrivals: Vec<Batch>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    astray: Rng,
    /// It tells where bytes are.
    pub(super) teller: Option<Teller>,
}

impl SimPort {
    /// A port that is reached there. `lands`: payload lands before its frame is read.
    pub fn new(locator: Locator, frame_len_max: usize, lands: bool, seed: &Rng) -> Self {
        let about = About {
            kind: "sim",
            frame_len_max,
            train_len_max: 0,
            train_count_max: 0,
            reliability: Reliability::Lossy,
            is_checked: false,
            is_private: false,
            can_land: lands,
            backlog_len_max: u64::MAX,
        };
        Self {
            about,
            locator,
            is_naive: false,
            outbox: Vec::new(),
            inbox: Vec::new(),
            arrivals: Vec::new(),
            spare: Vec::new(),
            astray: seed.fork("landing"),
            teller: None,
        }
    }

    /// Knows nothing of networks: finds out by trying.
    #[must_use]
    pub fn naive(self) -> Self {
        Self { is_naive: true, ..self }
    }

    /// Says that it never loses a frame and that nobody else can write to it: for networks of which that is true.
    #[must_use]
    pub fn reliable(mut self) -> Self {
        self.about.reliability = Reliability::Ordered { may_break: false };
        self.about.is_private = true;
        self
    }

    /// Tells of large messages instead of sending them, as memory that is shared lets one do.
    #[must_use]
    pub fn telling(mut self, told: &Told, seed: &Rng) -> Self {
        self.teller = Some(Teller::new(told, seed));
        self
    }

    /// Says that its frames go by streams, which must be opened and may break: for networks of which that is true.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.about.reliability = Reliability::Ordered { may_break: true };
        self
    }

    /// Says that it sends trains so long.
    #[must_use]
    pub fn with_trains(mut self, count_max: usize, len_max: usize) -> Self {
        (self.about.train_count_max, self.about.train_len_max) = (count_max, len_max);
        self
    }

    /// A frame arrived. Its buffer is taken; the delivery keeps another.
    pub fn deliver(&mut self, delivery: &mut Delivery) {
        let spare = Delivery { bytes: self.spare.pop().unwrap_or_default(), ..Delivery::default() };
        self.inbox.push(std::mem::replace(delivery, spare));
    }

    /// Whether frames wait to be received.
    pub fn has_arrivals(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// A frame of the outbox was sent: its buffer can be used again.
    pub fn reuse(&mut self, mut frame: Vec<u8>) {
        frame.clear();
        self.spare.push(frame);
    }

    /// Joins what waits in the inbox to batches.
    fn gather(&mut self) {
        for mut batch in self.arrivals.drain(..) {
            batch.whole.clear();
            self.spare.push(batch.whole);
        }
        for delivery in self.inbox.drain(..) {
            let Delivery { from, bytes, .. } = delivery;
            if let Some(last) = self.arrivals.last_mut()
                && last.from == from
                && last.whole.len() % last.stride == 0
                && bytes.len() <= last.stride
            {
                last.whole.extend_from_slice(&bytes);
                self.spare.push(bytes);
                continue;
            }
            let stride = bytes.len().max(1);
            self.arrivals.push(Batch { from, whole: bytes, stride, ..Batch::default() });
        }
    }

    fn land_all<M: UserMemory>(&mut self, landing: &Landing, memory: &mut M) {
        let mut here = *landing;
        if self.astray.chance(ASTRAY_PPM) {
            here = behind(&here, here.payload_len as u64);
        }
        let mut index = 0;
        while index < self.arrivals.len() && here.len > 0 {
            let used = self.arrivals[index].land(&here, memory);
            here = behind(&here, used);
            if let Some(rest) = self.arrivals[index].split_rest() {
                self.arrivals.insert(index + 1, rest);
                index += 1; // it did not look as expected
            }
            index += 1;
        }
    }
}

fn behind(landing: &Landing, len: u64) -> Landing {
    let len = len.min(landing.len);
    Landing { offset: landing.offset + len, len: landing.len - len, ..*landing }
}

impl<M: UserMemory> Link<M> for SimPort {
    fn about(&self) -> &About {
        &self.about
    }

    fn locator(&self) -> Locator {
        self.locator
    }

    fn may_reach(&mut self, to: &Locator) -> bool {
        network(to).is_some_and(|network| self.is_naive || network == self.locator[2])
    }

    fn frame_len_to(&mut self, _: &Locator) -> usize {
        self.about.frame_len_max
    }

    /// No two ports share a wire that they know of.
    fn card_to(&mut self, _: &Locator) -> u32 {
        0
    }

    fn send(&mut self, burst: &Burst, first: usize, memory: &mut M) -> io::Result<usize> {
        for frame in burst.frames(first) {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            burst.gather(&frame, memory, &mut bytes);
            self.outbox.push((frame.to, bytes));
        }
        Ok(burst.len() - first)
    }

    /// All frames wait in the outbox, in the order of their bursts. What nobody loses may as well be taken before its burst.
    fn send_now(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool {
        let is_taken = self.about.is_private && frames.len() <= stride;
        if is_taken {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(frames);
            self.outbox.push((*to, bytes));
        }
        is_taken
    }

    fn receive(&mut self, landing: Option<&Landing>, memory: &mut M) -> io::Result<usize> {
        self.gather();
        if let Some(landing) = landing
            && !self.arrivals.is_empty()
        {
            self.land_all(landing, memory);
        }
        Ok(self.arrivals.len())
    }

    fn in_memory(&mut self) -> Option<&mut dyn InMemory<M>> {
        if self.about.is_private { Some(self) } else { None }
    }

    fn arrived(&self, index: usize) -> Arrived<'_> {
        let batch = &self.arrivals[index];
        let (bytes, stride) = match batch.landed {
            Some(_) => (&batch.heads[..], batch.head_len),
            None => (&batch.whole[batch.first * batch.stride..], batch.stride),
        };
        Arrived { from: batch.from, bytes, stride, landed: batch.landed }
    }

    fn is_costly_to_ask(&self) -> bool {
        false
    }

    fn lift(&mut self, index: usize, first: usize, _memory: &mut M) {
        // The frames are still whole here: what lies in the memory is a copy.
        let batch = &mut self.arrivals[index];
        batch.first = first;
        batch.landed = None;
    }

    fn telling(&mut self) -> Option<&mut dyn Telling<M>> {
        self.teller.is_some().then_some(self)
    }

    /// It sends frame by frame.
    fn set_trains(&mut self, _: bool) {}

    /// What befalls frames, the owner of the network tells the endpoint.
    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }

    fn poll_remark(&mut self) -> Option<String> {
        None
    }

    /// In virtual time nobody sleeps.
    fn arm(&mut self) -> bool {
        true
    }

    fn disarm(&mut self) {}

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The network counts.
    fn each_counter(&self, _: &mut dyn FnMut(&'static str, u64)) {}
}

/// Of what stands for memory.
impl<M: UserMemory> InMemory<M> for SimPort {
    fn put(&mut self, to: &Locator, head: &[u8], payload: &[u8]) -> bool {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(payload);
        self.outbox.push((*to, bytes));
        true
    }

    fn look(&mut self, out: &mut [u8; SHORT_LEN_MAX]) -> Option<Front> {
        let Delivery { from, bytes, .. } = self.inbox.first()?;
        let (from, len) = (*from, bytes.len());
        let shown = len.min(out.len());
        out[..shown].copy_from_slice(&bytes[..shown]);
        if shown == len {
            let bytes = self.inbox.remove(0).bytes;
            self.spare.push(bytes);
        }
        // A long one is still written now and then, when it is first looked at.
        let is_whole = shown == len || !self.astray.chance(GROWS_PPM);
        Some(Front { from, len, has_more: !self.inbox.is_empty(), is_whole })
    }

    fn follow(&mut self, skip: usize, to: MemoryId, len: usize, memory: &mut M) -> bool {
        let is_halted = self.astray.chance(HALTS_PPM);
        let bytes = &self.inbox[0].bytes[skip..skip + len];
        memory.place(to, 0, if is_halted { &bytes[..len / 2] } else { bytes });
        !is_halted
    }

    fn take(&mut self, skip: usize, to: MemoryId, len: usize, memory: &mut M) -> bool {
        let bytes = self.inbox.remove(0).bytes;
        memory.place(to, 0, &bytes[skip..skip + len]);
        self.spare.push(bytes);
        !self.inbox.is_empty()
    }
}
