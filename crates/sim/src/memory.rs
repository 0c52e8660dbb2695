//! The memory of a simulated application, which notices every misuse.
//!
//! A buffer is one piece or several segments, each between guard bytes that nobody may change. It exists from its
//! post to the end of its request; a byte placed into it or read from it before or after is a fault, and so is one
//! outside its range. Faults are kept as sentences for the oracle.
//!
//! Payload to send is mostly not stored at all: a `Pattern` buffer makes its bytes when they are gathered, so that
//! a message of gigabytes costs nothing.

use packhorse_link::mem::{MemoryId, UserMemory};
use packhorse_proto::{BufId, Memory, Place};

use crate::pattern;

/// Guard bytes before, between and after segments.
const GUARD_LEN: usize = 16;
/// What untouched memory holds.
const BLANK: u8 = 0xA5;
/// Faults kept; more say nothing new.
const FAULT_COUNT_MAX: usize = 8;

/// What stands behind a `BufId`.
#[derive(Clone, Debug)]
enum Buffer {
    /// Real bytes: segments with guards around them.
    Stored { bytes: Vec<u8>, cuts: Cuts, purpose: Purpose },
    /// The payload of a message, made when it is read.
    Pattern { id: u32, len: u64 },
    /// Takes everything, keeps nothing: counts the bytes placed.
    Sink { len: u64, placed_len: u64 },
    /// Its request ended.
    Ended,
}

/// What real memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To be read.
    Send,
    /// To be written.
    Receive,
    /// To be read and written by peers.
    Exposed,
}

/// How a buffer is cut into segments.
#[derive(Clone, Copy, Debug)]
struct Cuts {
    len: u64,
    count: u64,
}

impl Cuts {
    /// Where segment `index` ends in the whole; the last is the longest.
    fn end(self, index: u64) -> u64 {
        if index + 1 == self.count { self.len } else { self.len * (index + 1) / (self.count + 1) }
    }

    /// Calls `piece(raw, offset, len)` for each part of `len` bytes from `from` that lies in one segment; `raw` counts
    /// the guards too.
    fn for_each_piece(self, from: u64, len: u64, mut piece: impl FnMut(usize, u64, usize)) {
        let (mut at, stop) = (from, from + len);
        for index in 0..self.count {
            if at >= stop {
                return;
            }
            let end = self.end(index);
            if at < end {
                let until = end.min(stop);
                piece(at as usize + GUARD_LEN * (index as usize + 1), at, (until - at) as usize);
                at = until;
            }
        }
    }
}

/// All buffers of one application.
#[derive(Debug, Default)]
pub struct AppMemory {
    buffers: Vec<Buffer>,
    faults: Vec<String>,
}

impl AppMemory {
    fn add(&mut self, buffer: Buffer) -> BufId {
        self.buffers.push(buffer);
        BufId(self.buffers.len() as u64 - 1)
    }

    /// Payload of message `id`, made on the fly.
    pub fn add_pattern(&mut self, id: u32, len: u64) -> BufId {
        self.add(Buffer::Pattern { id, len })
    }

    /// Payload of message `id` in real memory of `segments` pieces.
    pub fn add_payload(&mut self, id: u32, len: u64, segments: usize) -> BufId {
        let mut buffer = stored(len, segments, Purpose::Send);
        if let Buffer::Stored { bytes, cuts, .. } = &mut buffer {
            cuts.for_each_piece(0, len, |raw, offset, piece_len| {
                pattern::fill(id, offset, &mut bytes[raw..raw + piece_len]);
            });
        }
        self.add(buffer)
    }

    /// These bytes, in real memory of one piece.
    pub fn add_bytes(&mut self, these: &[u8]) -> BufId {
        let mut buffer = stored(these.len() as u64, 1, Purpose::Send);
        if let Buffer::Stored { bytes, cuts, .. } = &mut buffer {
            cuts.for_each_piece(0, these.len() as u64, |raw, offset, len| {
                let from = offset as usize;
                bytes[raw..raw + len].copy_from_slice(&these[from..from + len]);
            });
        }
        self.add(buffer)
    }

    /// Room for a receive, in `segments` pieces.
    pub fn add_room(&mut self, len: u64, segments: usize) -> BufId {
        self.add(stored(len, segments, Purpose::Receive))
    }

    /// The regions that were added, in order.
    pub fn regions(&self) -> Vec<BufId> {
        let is_region =
            |buffer: &Buffer| matches!(buffer, Buffer::Stored { purpose: Purpose::Exposed, .. });
        let all = self.buffers.iter().zip(0..);
        all.filter(|(buffer, _)| is_region(buffer)).map(|(_, number)| BufId(number)).collect()
    }

    /// A region that holds message `id`.
    pub fn add_library(&mut self, id: u32, len: u64) -> BufId {
        let mut buffer = stored(len, 1, Purpose::Exposed);
        if let Buffer::Stored { bytes, cuts, .. } = &mut buffer {
            cuts.for_each_piece(0, len, |raw, offset, piece_len| {
                pattern::fill(id, offset, &mut bytes[raw..raw + piece_len]);
            });
        }
        self.add(buffer)
    }

    /// The number in the first eight bytes of real memory of one piece.
    pub fn number(&self, buf: BufId) -> Option<u64> {
        let Some(Buffer::Stored { bytes, .. }) = self.buffers.get(buf.0 as usize) else {
            return None;
        };
        let first = bytes.get(GUARD_LEN..GUARD_LEN + 8)?;
        Some(u64::from_le_bytes(first.try_into().ok()?))
    }

    /// That number where nobody wrote.
    pub fn blank_number(&self) -> u64 {
        u64::from_le_bytes([BLANK; 8])
    }

    /// Checks that each of `len` bytes from `at` is that of message `id`, or was never written.
    pub fn verify_perhaps(&self, buf: BufId, at: u64, len: u64, id: u32) -> Result<(), String> {
        let Some(Buffer::Stored { bytes, .. }) = self.buffers.get(buf.0 as usize) else {
            return Ok(());
        };
        let start = GUARD_LEN + at as usize;
        let mut expected = vec![0; len as usize];
        pattern::fill(id, 0, &mut expected);
        let found = bytes[start..start + len as usize].iter().zip(expected);
        match found.enumerate().find(|(_, (byte, it))| **byte != BLANK && *byte != it) {
            None => Ok(()),
            Some((wrong, _)) => Err(format!("byte {wrong} is neither blank nor that of {id}")),
        }
    }

    /// A region for peers to use.
    pub fn add_region(&mut self, len: u64) -> BufId {
        self.add(stored(len, 1, Purpose::Exposed))
    }

    /// A region in `segments` pieces.
    pub fn add_region_of(&mut self, len: u64, segments: usize) -> BufId {
        self.add(stored(len, segments, Purpose::Exposed))
    }

    /// All bytes of real memory whose request has not ended, piece after piece.
    pub fn bytes_of(&self, buf: BufId) -> Option<Vec<u8>> {
        let Some(Buffer::Stored { bytes, cuts, .. }) = self.buffers.get(buf.0 as usize) else {
            return None;
        };
        let mut all = Vec::with_capacity(cuts.len as usize);
        cuts.for_each_piece(0, cuts.len, |raw, _, len| {
            all.extend_from_slice(&bytes[raw..raw + len])
        });
        Some(all)
    }

    /// Room that counts what is placed and forgets it.
    pub fn add_sink(&mut self, len: u64) -> BufId {
        self.add(Buffer::Sink { len, placed_len: 0 })
    }

    /// Bytes placed so far into a sink.
    pub fn sunk_len(&self, buf: BufId) -> u64 {
        match self.buffers.get(buf.0 as usize) {
            Some(Buffer::Sink { placed_len, .. }) => *placed_len,
            _ => 0,
        }
    }

    /// The request ended: from now on nobody may touch the buffer.
    pub fn end(&mut self, buf: BufId) {
        if let Some(buffer) = self.buffers.get_mut(buf.0 as usize) {
            let last = std::mem::replace(buffer, Buffer::Ended);
            if let Buffer::Stored { bytes, cuts, .. } = last {
                self.check_guards(buf, &bytes, cuts);
            }
        }
    }

    fn check_guards(&mut self, buf: BufId, bytes: &[u8], cuts: Cuts) {
        let mut start = 0;
        for index in 0..cuts.count {
            let raw = start as usize + GUARD_LEN * index as usize;
            if !is_blank(&bytes[raw..raw + GUARD_LEN]) {
                self.fault(format!(
                    "guard before segment {index} of buffer {} was overwritten",
                    buf.0
                ));
            }
            start = cuts.end(index);
        }
        if !is_blank(&bytes[bytes.len() - GUARD_LEN..]) {
            self.fault(format!("guard behind buffer {} was overwritten", buf.0));
        }
    }

    /// Checks that `len` bytes from `at` of a receive buffer are the message `id` from its start.
    pub fn verify(&self, buf: BufId, at: u64, len: u64, id: u32) -> Result<(), String> {
        self.verify_from(buf, at, len, (id, 0))
    }

    /// Checks that `len` bytes from `at` of a receive buffer are the message `id` from `start` on.
    pub fn verify_from(
        &self,
        buf: BufId,
        at: u64,
        len: u64,
        (id, start): (u32, u64),
    ) -> Result<(), String> {
        let Some(Buffer::Stored { bytes, cuts, .. }) = self.buffers.get(buf.0 as usize) else {
            return Ok(());
        };
        if at + len > cuts.len {
            return Err(format!("{len} bytes reported at {at}, beyond the buffer's end"));
        }
        let mut result = Ok(());
        cuts.for_each_piece(at, len, |raw, offset, piece_len| {
            let found = pattern::verify(id, start + offset - at, &bytes[raw..raw + piece_len]);
            result = std::mem::replace(&mut result, Ok(())).and(found);
        });
        result.map_err(|wrong| format!("byte {wrong} of message {id} is wrong"))
    }

    /// Checks that nothing was placed in `len` bytes from `at`.
    pub fn verify_blank(&self, buf: BufId, at: u64, len: u64) -> Result<(), String> {
        let Some(Buffer::Stored { bytes, cuts, .. }) = self.buffers.get(buf.0 as usize) else {
            return Ok(());
        };
        let mut clean = true;
        cuts.for_each_piece(at, len, |raw, _, piece_len| {
            clean &= is_blank(&bytes[raw..raw + piece_len]);
        });
        if clean {
            Ok(())
        } else {
            Err(format!("bytes outside the placed range {at}+{len} were written"))
        }
    }

    /// The first bytes at `at`, to see which message they name.
    pub fn named(&self, buf: BufId, at: u64, len: u64) -> Option<u32> {
        let Some(Buffer::Stored { bytes, cuts, .. }) = self.buffers.get(buf.0 as usize) else {
            return None;
        };
        if len < pattern::NAME_LEN || at + pattern::NAME_LEN > cuts.len {
            return None;
        }
        let mut name = [0; pattern::NAME_LEN as usize];
        cuts.for_each_piece(at, pattern::NAME_LEN, |raw, offset, piece_len| {
            let start = (offset - at) as usize;
            name[start..start + piece_len].copy_from_slice(&bytes[raw..raw + piece_len]);
        });
        pattern::named(&name)
    }

    /// Appends `len` bytes from `offset` of a send buffer to `out`.
    pub fn gather(&mut self, buf: BufId, offset: u64, len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + len, 0);
        let out = &mut out[start..];
        let fits = |whole: u64| offset.checked_add(len as u64).is_some_and(|end| end <= whole);
        match self.buffers.get(buf.0 as usize) {
            Some(Buffer::Pattern { id, len: whole }) if fits(*whole) => {
                pattern::fill(*id, offset, out)
            }
            Some(Buffer::Stored { bytes, cuts, purpose })
                if fits(cuts.len) && *purpose != Purpose::Receive =>
            {
                cuts.for_each_piece(offset, len as u64, |raw, at, piece_len| {
                    let to = (at - offset) as usize;
                    out[to..to + piece_len].copy_from_slice(&bytes[raw..raw + piece_len]);
                });
            }
            other => {
                let what = describe(other);
                self.fault(format!(
                    "read of {len} bytes at {offset} from buffer {}, {what}",
                    buf.0
                ));
            }
        }
    }

    /// The faults seen since the last call.
    pub fn take_faults(&mut self) -> Vec<String> {
        std::mem::take(&mut self.faults)
    }

    /// Whether a fault waits to be taken.
    pub fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    fn fault(&mut self, what: String) {
        if self.faults.len() < FAULT_COUNT_MAX {
            self.faults.push(what);
        }
    }
}

impl Memory for AppMemory {
    fn place(&mut self, to: Place, new: &[u8]) {
        let fits =
            |whole: u64| to.offset.checked_add(new.len() as u64).is_some_and(|end| end <= whole);
        match self.buffers.get_mut(to.buf.0 as usize) {
            Some(Buffer::Stored { bytes, cuts, purpose })
                if fits(cuts.len) && *purpose != Purpose::Send =>
            {
                cuts.for_each_piece(to.offset, new.len() as u64, |raw, at, piece_len| {
                    let from = (at - to.offset) as usize;
                    bytes[raw..raw + piece_len].copy_from_slice(&new[from..from + piece_len]);
                });
            }
            Some(Buffer::Sink { len, placed_len }) if fits(*len) => *placed_len += new.len() as u64,
            other => {
                let what = describe(other.map(|b| &*b));
                let text = format!(
                    "{} bytes placed at {} of buffer {}, {what}",
                    new.len(),
                    to.offset,
                    to.buf.0
                );
                self.fault(text);
            }
        }
    }

    fn update(
        &mut self,
        at: Place,
        len: usize,
        width: usize,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) {
        UserMemory::update(self, MemoryId(at.buf.0), at.offset, len, width, change);
    }

    fn crc32c(&self, crc: u32, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(crc, bytes)
    }
}

impl UserMemory for AppMemory {
    fn gather(&mut self, id: MemoryId, offset: u64, len: usize, out: &mut Vec<u8>) {
        Self::gather(self, BufId(id.0), offset, len, out);
    }

    fn place(&mut self, id: MemoryId, offset: u64, bytes: &[u8]) {
        Memory::place(self, Place { buf: BufId(id.0), offset }, bytes);
    }
}

/// Whether nobody wrote here. In blocks, for compilers make vector code of a loop without early exit.
fn is_blank(bytes: &[u8]) -> bool {
    bytes.chunks(128).all(|block| block.iter().fold(0, |seen, &byte| seen | (byte ^ BLANK)) == 0)
}

fn describe(buffer: Option<&Buffer>) -> String {
    match buffer {
        None => "which never was".into(),
        Some(Buffer::Ended) => "whose request has ended".into(),
        Some(Buffer::Stored { cuts, purpose, .. }) => {
            let kind = match purpose {
                Purpose::Send => "a send",
                Purpose::Receive => "a receive",
                Purpose::Exposed => "a region",
            };
            format!("{kind} of {} bytes", cuts.len)
        }
        Some(Buffer::Pattern { len, .. }) => format!("a send of {len} bytes"),
        Some(Buffer::Sink { len, .. }) => format!("a receive of {len} bytes"),
    }
}

fn stored(len: u64, segments: usize, purpose: Purpose) -> Buffer {
    let cuts = Cuts { len, count: segments.max(1) as u64 };
    let bytes = vec![BLANK; len as usize + GUARD_LEN * (cuts.count as usize + 1)];
    Buffer::Stored { bytes, cuts, purpose }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_bytes_come_back_in_order() {
        let mut memory = AppMemory::default();
        let from = memory.add_payload(9, 1000, 4);
        let to = memory.add_room(1000, 3);
        for start in (0..1000).step_by(100) {
            let mut bytes = Vec::new();
            memory.gather(from, start, 100, &mut bytes);
            Memory::place(&mut memory, Place { buf: to, offset: start }, &bytes);
        }
        assert_eq!(memory.named(to, 0, 1000), Some(9));
        assert_eq!(memory.verify(to, 0, 1000, 9), Ok(()));
        memory.end(to);
        memory.end(from);
        assert!(!memory.has_faults());
    }

    #[test]
    fn every_misuse_is_a_fault() {
        let mut memory = AppMemory::default();
        let room = memory.add_room(10, 2);
        let mut out = Vec::new();
        Memory::place(&mut memory, Place { buf: room, offset: 8 }, &[0; 3]);
        Memory::place(&mut memory, Place { buf: BufId(99), offset: 0 }, &[0]);
        memory.gather(room, 0, 1, &mut out);
        memory.end(room);
        Memory::place(&mut memory, Place { buf: room, offset: 0 }, &[0]);
        assert_eq!(memory.take_faults().len(), 4);
    }

    #[test]
    fn a_stray_byte_is_seen() {
        let mut memory = AppMemory::default();
        let room = memory.add_room(100, 1);
        assert_eq!(memory.verify_blank(room, 0, 100), Ok(()));
        Memory::place(&mut memory, Place { buf: room, offset: 50 }, &[1]);
        assert_eq!(memory.verify_blank(room, 0, 50), Ok(()));
        assert!(memory.verify_blank(room, 50, 50).is_err());
    }
}
