//! Frames out of the rings of peers.
//!
//! Each call looks at the rings that something came through lately, and at a few of the others in turn: with tens of peers
//! nothing there is still a handful of loads.

use std::io;

use super::letters::{MARK_FRAME, MARK_TRAIN, Offer, TrainRecord};
use super::outputs::{NOTE_CAN_READ, NOTE_CANNOT_READ};
use super::{FOREIGN_COUNT_MAX, PEER_COUNT_MAX, Shm, Use, config, locate};
use crate::mem::Table;
use crate::ring::{Consumer, Lines as _, Record, Word};
use crate::sys::region::Region;
use crate::sys::shm::{Letter, Mapping, Places, Process, Token, own_uid, read_from};
use crate::{Landing, Locator};

/// Rings that every call looks at.
const HOT_COUNT: usize = 8;
/// Others that a call looks at.
const COLD_COUNT: usize = 2;
/// A ring that nothing came through for so many calls makes way for one that something came through.
const QUIET_TURNS: u64 = 64;
/// Records of one ring in a call.
const RECORD_COUNT_MAX: usize = 32;

/// A peer to receive from.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) name: u64,
    pub(super) from: Locator,
    pub(super) ring: Consumer<Mapping>,
    pub(super) pid: libc::pid_t,
    pub(super) token: Token,
    is_foreign: bool,
    /// Its process has ended; what it left is still to be read.
    pub(super) is_ending: bool,
    /// The call in which something came last.
    active_at: u64,
}

/// What came of reading a ring.
enum Outcome {
    /// As much as there was, or as one call takes.
    Read,
    /// It cannot be read on.
    Broken,
}

impl Input {
    /// Leaves word for the sender whether its memory can be read from here.
    fn note(&self, can_read: bool) {
        let note = if can_read { NOTE_CAN_READ } else { NOTE_CANNOT_READ };
        self.ring.store().set_word(Word::Note, note);
    }

    /// Tries to read its process's memory: the token is there, and the process, whose number may have been given to another
    /// meanwhile, is the same before and after.
    fn can_read(&self, memory: &mut Table, room: &mut Region) -> bool {
        let Ok(process) = Process::open(self.pid) else { return false };
        let read = read_from(self.pid, &self.token, &[], &Places::default(), memory, room);
        read.is_ok() && process.is_alive()
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
        let count = self.inputs.len();
        for index in 0..count.min(HOT_COUNT) {
            if !self.inputs[index].ring.is_empty() {
                return Ok(self.receive_from(index, memory));
            }
        }
        if count > HOT_COUNT {
            return Ok(self.look_further(memory));
        }
        Ok(0)
    }

    /// Something is there: takes it, and what the others have.
    fn receive_from(&mut self, first: usize, memory: &mut Table) -> usize {
        // From another one each time, so that none is always served when the call has taken as much as it may.
        let hot_count = self.inputs.len().min(HOT_COUNT);
        self.input_start = if self.input_start + 1 < hot_count { self.input_start + 1 } else { 0 };
        let start = if hot_count == 1 { first } else { self.input_start };
        for step in 0..hot_count {
            let index =
                if start + step < hot_count { start + step } else { start + step - hot_count };
            // A peer that is cut off on the way leaves fewer.
            if index < self.inputs.len() {
                self.take_from(index, memory);
            }
        }
        if self.inputs.len() > HOT_COUNT {
            self.look_further(memory);
        }
        self.intake.count()
    }

    /// A few of the rings that nothing came through lately.
    fn look_further(&mut self, memory: &mut Table) -> usize {
        for _ in 0..COLD_COUNT {
            let at = self.input_cold + 1;
            self.input_cold = if at < self.inputs.len() { at.max(HOT_COUNT) } else { HOT_COUNT };
            let index = self.input_cold;
            if index < self.inputs.len() && !self.inputs[index].ring.is_empty() {
                let index = self.promote(index);
                self.take_from(index, memory);
            }
        }
        self.intake.count()
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

    #[inline]
    fn take_from(&mut self, index: usize, memory: &mut Table) {
        let input = &mut self.inputs[index];
        if input.ring.is_empty() {
            return;
        }
        input.active_at = self.turn;
        if let Outcome::Broken = self.take_records(index, memory) {
            let name = self.inputs[index].name;
            self.ban(name);
            return;
        }
        let input = &mut self.inputs[index];
        if input.ring.release() {
            let name = input.name;
            self.knock_at(name);
        }
    }

    fn take_records(&mut self, index: usize, memory: &mut Table) -> Outcome {
        for _ in 0..RECORD_COUNT_MAX {
            if self.intake.is_full() {
                break;
            }
            let input = &mut self.inputs[index];
            let record = match input.ring.peek() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(_) => return Outcome::Broken,
            };
            match record.mark {
                MARK_FRAME if record.len > 0 => {
                    self.counters.frames_in += 1;
                    self.counters.bytes_in += record.len as u64;
                    self.intake.take_frame(&input.ring, &input.from, record.len, memory);
                }
                MARK_TRAIN => {
                    if let Outcome::Broken = self.take_train(index, record, memory) {
                        return Outcome::Broken;
                    }
                }
                _ => return Outcome::Broken,
            }
            self.inputs[index].ring.advance();
        }
        Outcome::Read
    }

    /// A train whose payload is in its sender's memory. What cannot be read from there is lost, and the sender told so.
    fn take_train(&mut self, index: usize, record: Record, memory: &mut Table) -> Outcome {
        let input = &self.inputs[index];
        let Some(bytes) = self.scratch.get_mut(..record.len) else { return Outcome::Broken };
        input.ring.copy(0, bytes);
        let Some(train) = TrainRecord::from_bytes(bytes) else { return Outcome::Broken };
        self.counters.trains_in += 1;
        let read = match self.config.cma {
            Use::Auto => {
                self.intake.take_train(input.pid, &input.token, &input.from, &train, memory)
            }
            // It was told not to.
            Use::Off => Err(io::ErrorKind::PermissionDenied.into()),
        };
        match read {
            Ok(()) => {
                self.counters.frames_in += train.count as u64;
                self.counters.bytes_in += (train.len + train.heads.len()) as u64;
            }
            Err(error) => {
                self.counters.trains_lost += 1;
                // Memory that is not there any more is the fate of one train; all else will happen again.
                let is_once = error.raw_os_error() == Some(libc::EFAULT)
                    || error.kind() == io::ErrorKind::UnexpectedEof;
                if !is_once {
                    input.note(false);
                    let from = input.from;
                    let show = locate::show(&from);
                    self.say(|| format!("memory of {show} cannot be read from here any more ({error}): payload goes through the ring"));
                }
            }
        }
        Outcome::Read
    }

    /// A peer offers a ring. What is not as it must be is refused, without a word.
    pub(super) fn on_offer(&mut self, letter: Letter, bytes: &[u8], memory: &mut Table) {
        self.counters.offers_in += 1;
        if self.accept(letter, bytes, memory).is_none() {
            self.counters.offers_refused += 1;
        }
    }

    fn accept(&mut self, letter: Letter, bytes: &[u8], memory: &mut Table) -> Option<()> {
        let name = letter.from.as_ref().and_then(locate::name_of)?;
        let offer = Offer::from_bytes(bytes).filter(|offer| config::is_ring_len(offer.ring_len))?;
        let fd = letter.fd?;
        let is_foreign = letter.uid != own_uid();
        // A ring offered anew takes the place of the one before: its owner has forgotten that.
        self.inputs.retain(|input| input.name != name);
        let foreign_count = self.inputs.iter().filter(|input| input.is_foreign).count();
        let is_full = self.inputs.len() >= PEER_COUNT_MAX
            || (is_foreign && foreign_count >= FOREIGN_COUNT_MAX);
        if is_full || self.banned.contains(&name) {
            return None;
        }
        let mapping = match Mapping::of_stranger(&fd, offer.ring_len) {
            Ok(mapping) => mapping,
            Err(error) => {
                let show = locate::show(&locate::to_locator(self.host, name));
                self.say(|| format!("memory offered by {show} is refused: {error}"));
                return None;
            }
        };
        let input = Input {
            name,
            from: locate::to_locator(self.host, name),
            ring: mapping.into_consumer(),
            pid: letter.pid,
            token: offer.token,
            is_foreign,
            is_ending: false,
            active_at: self.turn,
        };
        let may_read = self.config.cma == Use::Auto && input.pid > 0;
        input.note(may_read && input.can_read(memory, self.intake.room()));
        self.inputs.push(input);
        Some(())
    }
}
