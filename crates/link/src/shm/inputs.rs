//! Frames out of the rings of peers.
//!
//! Each call looks at the rings that something came through lately, and at a few of the others in turn: with tens of peers
//! nothing there is still a handful of loads.

use std::io;
use std::time::Instant;

use super::intake::Intake;
use super::letters::{MARK_FRAME, MARK_TRAIN, Offer, TrainRecord};
use super::outputs::{NOTE_CAN_READ, NOTE_CANNOT_READ};
use super::{Counters, FOREIGN_COUNT_MAX, PEER_COUNT_MAX, Shm, Use, config, locate, trust};
use crate::mem::{MemoryId, Table};
use crate::ring::{Broken, Consumer, Lines as _, Word};
use crate::sys::gift::Gift;
use crate::sys::region::Region;
use crate::sys::shm::{Letter, Mapping, Places, Source, land, random, read_from};
use crate::{Front, Landing, Locator, SHORT_LEN_MAX, ticks};

/// Rings that every call looks at.
const HOT_COUNT: usize = 4;
/// Others that a call looks at.
const COLD_COUNT: usize = 2;
/// A ring that nothing came through for so many calls makes way for one that something came through.
const QUIET_TURNS: u64 = 64;
/// A frame that is still written is followed for so long, some 40 to 100 microseconds, several times what the longest takes: then its writer does
/// something else, or writes slowly on purpose.
const HALT_TICKS: u64 = 200_000;
/// Records of one ring in a call.
const RECORD_COUNT_MAX: usize = 32;

/// A peer to receive from.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) name: u64,
    pub(super) from: Locator,
    pub(super) ring: Consumer<Mapping>,
    pub(super) pid: libc::pid_t,
    /// The process whose memory payload is read from; `None`: payload comes by the ring.
    pub(super) source: Option<Source>,
    is_foreign: bool,
    /// Its process has ended, and what it left is still to be read: how many lines had been read by then.
    pub(super) ending: Option<u64>,
    /// The call in which something came last.
    active_at: u64,
    /// How many lines had been read before a frame whose writer came to a halt in the midst of it.
    halted_at: Option<u64>,
}

/// Why a ring is not read on, for now or for good.
pub(super) enum Trouble {
    /// Its writer wrote what cannot be.
    Broken,
    /// The memory of its writer cannot be read.
    Unreadable(io::Error),
}

/// A train whose payload is in its sender's memory. What cannot be read from there is lost.
fn read_train(
    input: &Input,
    bytes: &[u8],
    intake: &mut Intake,
    counters: &mut Counters,
    memory: &mut Table,
) -> Option<Trouble> {
    let Some(train) = TrainRecord::from_bytes(bytes) else { return Some(Trouble::Broken) };
    counters.trains_in += 1;
    let read = match &input.source {
        Some(source) => intake.take_train(source, &input.from, &train, memory),
        // Its sender was told so.
        None => Err(io::ErrorKind::PermissionDenied.into()),
    };
    let Err(error) = read else {
        counters.frames_in += train.count as u64;
        counters.bytes_in += (train.len + train.heads.len()) as u64;
        return None;
    };
    counters.trains_lost += 1;
    // Payload that is not there any more is the fate of one train; all else, a proof that is not there before all, will happen again.
    let is_once = error.kind() == io::ErrorKind::UnexpectedEof;
    (!is_once).then_some(Trouble::Unreadable(error))
}

impl Input {
    /// Its process has ended. What was said first counts.
    pub(super) fn end(&mut self) {
        self.ending.get_or_insert(self.ring.taken());
    }

    /// Whether its process has ended and left nothing more to read. More than all lines once it cannot have left: then the lines lead in a circle,
    /// which only a peer writes that scribbled, and nobody is there any more who would write the end.
    pub(super) fn is_over(&self) -> bool {
        let read_since = |before| self.ring.taken() - before;
        self.ending.is_some_and(|before| {
            self.ring.is_empty() || read_since(before) > self.ring.store().line_count() as u64
        })
    }

    /// Settles whose memory payload is read from, and leaves word for the sender.
    fn set_source(&mut self, source: Option<Source>) {
        let note = if source.is_some() { NOTE_CAN_READ } else { NOTE_CANNOT_READ };
        self.source = source;
        self.ring.store().set_word(Word::Note, note);
    }

    /// Leaves a proof in the ring, and tries to find it in the offerer's memory.
    fn try_source(&self, proof_at: u64, memory: &mut Table, room: &mut Region) -> Option<Source> {
        let proof = random().ok()?;
        self.ring.store().set_proof(proof);
        let source = Source { pid: self.pid, proof_at, proof };
        read_from(&source, &[], &Places::default(), memory, room).ok().map(|()| source)
    }
}

/// Receiving.
impl Shm {
    #[inline]
    pub(super) fn receive_some(
        &mut self,
        landing: Option<&Landing>,
        memory: &mut Table,
    ) -> io::Result<usize> {
        self.turn += 1;
        self.intake.begin(landing);
        if self.watch.is_due() {
            self.attend(memory);
        }
        if self.spilling_count > 0 {
            self.unspill();
        }
        let mut index = 0;
        // One that is cut off on the way leaves fewer, and its place to another, which is looked at next time.
        while index < self.inputs.len().min(HOT_COUNT) {
            if self.inputs[index].ring.has_begun() {
                self.take_from(index, memory);
            }
            index += 1;
        }
        if self.intake.is_full() {
            self.turn_inputs();
        } else if self.inputs.len() > HOT_COUNT {
            self.look_further(memory);
        }
        Ok(self.intake.count())
    }

    /// The first frame of the first of those rings that has something. What is no frame, or is wrong, is for `receive_some`.
    #[inline]
    pub(super) fn look_at_one(&mut self, out: &mut [u8; SHORT_LEN_MAX]) -> Option<Front> {
        let hot = self.inputs.iter_mut().take(HOT_COUNT).enumerate();
        let (index, input) = hot.into_iter().find(|(_, input)| input.ring.has_begun())?;
        let Ok(Some(record)) = input.ring.peek() else { return self.look_at_growing(index, out) };
        let len = record.len();
        if record.mark != MARK_FRAME || len == 0 {
            return None;
        }
        let from = input.from;
        let Some(whole) = out.get_mut(..len) else {
            record.copy(0, out);
            self.seen = (index, len);
            return Some(Front { from, len, has_more: false, is_whole: true });
        };
        record.copy(0, whole);
        let must_wake = record.take();
        let has_more = self.after_one(index, len, must_wake);
        Some(Front { from, len, has_more, is_whole: true })
    }

    /// The first bytes of a frame that its sender still writes, once as many are there as `out` has room for. The frame stays where it is.
    fn look_at_growing(&mut self, index: usize, out: &mut [u8; SHORT_LEN_MAX]) -> Option<Front> {
        let input = &mut self.inputs[index];
        // Its writer came to a halt before: nobody follows again, with the engine locked, what may stand still for long.
        if input.halted_at == Some(input.ring.taken()) {
            return None;
        }
        let (record, there_len) = input.ring.growing()?;
        if record.mark != MARK_FRAME || there_len < out.len() {
            return None;
        }
        record.copy(0, out);
        let len = record.len();
        self.seen = (index, len);
        Some(Front { from: input.from, len, has_more: false, is_whole: false })
    }

    /// Copies bytes of such a frame as they come.
    pub(super) fn follow_seen(
        &mut self,
        skip: usize,
        to: MemoryId,
        len: usize,
        memory: &mut Table,
    ) -> bool {
        let (index, frame_len) = self.seen;
        let Some(input) = self.inputs.get_mut(index) else { return false };
        let (mut done, since) = (skip, ticks());
        while let Some(there_len) = input.ring.grown(frame_len) {
            let end = there_len.min(skip + len);
            if end > done {
                let Some(record) = input.ring.again(frame_len) else { break };
                if !land(&record, done, memory, to, (done - skip) as u64..(end - skip) as u64) {
                    break;
                }
                done = end;
            }
            if there_len == frame_len && !input.ring.is_empty() {
                return true;
            }
            if ticks().wrapping_sub(since) > HALT_TICKS {
                break;
            }
            std::hint::spin_loop();
        }
        input.halted_at = Some(input.ring.taken());
        false
    }

    /// Takes the frame that is still there behind a look: its payload goes from the ring to its place.
    pub(super) fn take_seen(
        &mut self,
        skip: usize,
        to: MemoryId,
        len: usize,
        memory: &mut Table,
    ) -> bool {
        let (index, frame_len) = self.seen;
        // Its length is what it was found to be then: what its writer has put there since changes nothing.
        let record = self.inputs.get_mut(index).and_then(|input| input.ring.again(frame_len));
        let Some(record) = record else { return true };
        land(&record, skip, memory, to, 0..len as u64);
        let must_wake = record.take();
        self.after_one(index, frame_len, must_wake)
    }

    /// A frame was taken by itself. True: there is another, behind it or from somebody else.
    #[inline]
    fn after_one(&mut self, index: usize, len: usize, must_wake: bool) -> bool {
        self.inputs[index].active_at = self.turn;
        let has_more = self.inputs.iter().take(HOT_COUNT).any(|input| !input.ring.is_empty());
        self.counters.frames_in += 1;
        self.counters.bytes_in += len as u64;
        if must_wake {
            self.look_after(index, None, must_wake);
        }
        has_more
    }

    /// A call took as much as it may: the next begins with another ring, so that none is always the one that is left.
    #[cold]
    fn turn_inputs(&mut self) {
        let count = 1.min(self.inputs.len());
        self.inputs.rotate_left(count);
    }

    /// A few of the rings that nothing came through lately.
    fn look_further(&mut self, memory: &mut Table) {
        for _ in 0..COLD_COUNT {
            self.input_cold += 1;
            let index = match self.inputs.get(self.input_cold) {
                Some(input) if !input.ring.has_begun() => continue,
                Some(_) => self.promote(self.input_cold),
                None => {
                    self.input_cold = HOT_COUNT - 1;
                    continue;
                }
            };
            self.take_from(index, memory);
        }
    }

    /// Puts a ring among those that every call looks at, in place of the one that was quiet for longest.
    fn promote(&mut self, index: usize) -> usize {
        let hot = self.inputs[..HOT_COUNT].iter().enumerate();
        let quietest = hot.min_by_key(|(_, input)| input.active_at);
        match quietest {
            Some((at, input)) if self.turn - input.active_at > QUIET_TURNS => {
                self.inputs.swap(at, index);
                at
            }
            _ => index,
        }
    }

    /// Takes what a ring has, as much as a call may.
    fn take_from(&mut self, index: usize, memory: &mut Table) {
        let Self { inputs, intake, counters, .. } = self;
        if intake.is_full() {
            return; // its room is measured for one record more than that, not for one of each
        }
        let input = &mut inputs[index];
        input.active_at = self.turn;
        let mut must_wake = false;
        for _ in 0..RECORD_COUNT_MAX {
            let record = match input.ring.peek() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(Broken) => return self.look_after(index, Some(Trouble::Broken), false),
            };
            let len = record.len();
            if record.mark != MARK_FRAME || len == 0 {
                return self.take_train(index, must_wake, memory);
            }
            counters.frames_in += 1;
            counters.bytes_in += len as u64;
            let may_land = intake.may_land(len);
            if !may_land || !intake.land_frame(&record, &input.from, memory) {
                intake.take_whole(&record, &input.from);
            }
            must_wake |= record.take();
            if input.ring.is_empty() || intake.is_full() {
                break;
            }
        }
        if must_wake {
            self.look_after(index, None, must_wake);
        }
    }

    /// The next record is a train. What is behind it is for the next call.
    #[inline(never)]
    fn take_train(&mut self, index: usize, must_wake: bool, memory: &mut Table) {
        let Self { inputs, intake, counters, scratch, .. } = self;
        let input = &mut inputs[index];
        let (mut trouble, mut must_wake) = (Some(Trouble::Broken), must_wake);
        if let Ok(Some(record)) = input.ring.peek()
            && record.mark == MARK_TRAIN
            && let Some(bytes) = scratch.get_mut(..record.len())
        {
            record.copy(0, bytes);
            must_wake |= record.take();
            trouble = read_train(input, bytes, intake, counters, memory);
        }
        if must_wake || trouble.is_some() {
            self.look_after(index, trouble, must_wake);
        }
    }

    /// What reading a ring gave cause for.
    #[cold]
    pub(super) fn look_after(&mut self, index: usize, trouble: Option<Trouble>, must_wake: bool) {
        let Input { name, from, .. } = self.inputs[index];
        match trouble {
            Some(Trouble::Broken) => return self.ban(name),
            Some(Trouble::Unreadable(error)) => {
                self.inputs[index].set_source(None);
                self.say(|| {
                    let show = crate::show(&from);
                    format!(
                        "memory of {show} cannot be read ({error}): payload goes through its ring"
                    )
                });
            }
            None => {}
        }
        if must_wake {
            self.knock_at(name);
        }
    }

    /// A peer offers a ring. What is not as it must be is refused, without a word.
    pub(super) fn on_offer(&mut self, letter: Letter, memory: &mut Table) {
        self.counters.offers_in += 1;
        if self.accept(letter, memory).is_none() {
            self.counters.offers_refused += 1;
        }
    }

    fn accept(&mut self, letter: Letter, memory: &mut Table) -> Option<()> {
        let name = letter.from.as_ref().and_then(locate::name_of)?;
        let offer = Offer::from_bytes(letter.bytes());
        let offer = offer.filter(|offer| config::is_ring_len(offer.ring_len))?;
        let may_be_read = self.config.cma == Use::Auto && trust::may_be_read(&letter);
        let (pid, is_foreign) = (letter.pid, trust::is_foreign(&letter));
        // One descriptor, that of the memory. Who sends more wants something else.
        let [memory_gift] = <[Gift; 1]>::try_from(letter.gifts).ok()?;
        if self.banned.contains(&name) || !self.has_place_for(name, is_foreign) {
            return None;
        }
        if is_foreign && !self.foreign_offers.take(Instant::now()) {
            return None;
        }
        let mapping = match Mapping::of_stranger(memory_gift, offer.ring_len) {
            Ok(mapping) => mapping,
            Err(error) => {
                let show = crate::show(&locate::to_locator(self.host, name));
                self.say(|| format!("memory offered by {show} is refused: {error}"));
                return None;
            }
        };
        let mut input = Input {
            name,
            from: locate::to_locator(self.host, name),
            ring: mapping.into_consumer(),
            pid,
            source: None,
            is_foreign,
            ending: None,
            active_at: self.turn,
            halted_at: None,
        };
        let source = may_be_read
            .then(|| input.try_source(offer.proof_at, memory, self.intake.room()))
            .flatten();
        input.set_source(source);
        // A ring offered anew takes the place of the one before: its owner has forgotten that.
        self.inputs.retain(|input| input.name != name);
        self.inputs.push(input);
        Some(())
    }

    /// Whether there is place for a ring of that name, beside those of others.
    fn has_place_for(&self, name: u64, is_foreign: bool) -> bool {
        let others = self.inputs.iter().filter(|input| input.name != name);
        let (count, foreign_count) = others.fold((0, 0), |(all, foreign), input| {
            (all + 1, foreign + usize::from(input.is_foreign))
        });
        count < PEER_COUNT_MAX && (!is_foreign || foreign_count < FOREIGN_COUNT_MAX)
    }
}
