//! Frames on their way out: heads as bytes, payload as places in the application's memory.
//!
//! A burst is made once and used again. The engine fills it, a link sends it; what is next to each other, goes to the
//! same place and has the same length a link may send as a train.

use crate::{Locator, mem::UserMemory};

/// A piece of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// In the burst itself.
    Head {
        /// From where.
        at: u32,
        /// How many bytes.
        len: u32,
    },
    /// In the application's memory.
    User {
        /// Which.
        id: u64,
        /// From where.
        offset: u64,
        /// How many bytes.
        len: u32,
    },
}

/// A frame of a burst.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Where to.
    pub to: Locator,
    /// Its length.
    pub len: u32,
    /// Where its pieces begin among all.
    piece_start: u32,
    piece_end: u32,
}

/// Frames to send.
#[derive(Debug, Default)]
pub struct Burst {
    heads: Vec<u8>,
    pieces: Vec<Piece>,
    frames: Vec<Frame>,
}

impl Burst {
    /// Forgets everything, keeps the room.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.pieces.clear();
        self.frames.clear();
    }

    /// Starts the next frame.
    pub fn begin(&mut self, to: Locator) {
        let start = self.pieces.len() as u32;
        self.frames.push(Frame { to, len: 0, piece_start: start, piece_end: start });
    }

    /// Adds bytes to the frame begun last.
    pub fn head(&mut self, bytes: &[u8]) {
        let at = self.heads.len() as u32;
        self.heads.extend_from_slice(bytes);
        self.add_head(at, bytes.len() as u32);
    }

    /// Adds bytes of the application's memory to the frame begun last, by copying them now.
    pub fn copied(&mut self, memory: &mut impl UserMemory, id: u64, offset: u64, len: usize) {
        let at = self.heads.len() as u32;
        memory.gather(id, offset, len, &mut self.heads);
        self.add_head(at, len as u32);
    }

    /// Adds zeros to the frame begun last.
    pub fn zeros(&mut self, len: usize) {
        let at = self.heads.len() as u32;
        self.heads.resize(self.heads.len() + len, 0);
        self.add_head(at, len as u32);
    }

    /// Adds bytes of the application's memory to the frame begun last, by name.
    pub fn user(&mut self, id: u64, offset: u64, len: u32) {
        self.pieces.push(Piece::User { id, offset, len });
        self.grow(len);
    }

    fn add_head(&mut self, at: u32, more: u32) {
        let Some(frame) = self.frames.last_mut() else { return };
        frame.len += more;
        let is_first = frame.piece_start == frame.piece_end;
        if let Some(Piece::Head { at: start, len }) = self.pieces.last_mut()
            && !is_first
            && *start + *len == at
        {
            *len += more;
            return;
        }
        self.pieces.push(Piece::Head { at, len: more });
        frame.piece_end += 1;
    }

    fn grow(&mut self, more: u32) {
        if let Some(frame) = self.frames.last_mut() {
            frame.len += more;
            frame.piece_end += 1;
        }
    }

    /// The frames, in order.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The pieces of a frame.
    pub fn pieces(&self, frame: &Frame) -> &[Piece] {
        &self.pieces[frame.piece_start as usize..frame.piece_end as usize]
    }

    /// The bytes of a head piece; none for another.
    pub fn head_bytes(&self, piece: &Piece) -> &[u8] {
        match *piece {
            Piece::Head { at, len } => &self.heads[at as usize..(at + len) as usize],
            Piece::User { .. } => &[],
        }
    }

    /// Appends the whole frame to `out`.
    pub fn gather(&self, frame: &Frame, memory: &mut impl UserMemory, out: &mut Vec<u8>) {
        for piece in self.pieces(frame) {
            match *piece {
                Piece::Head { .. } => out.extend_from_slice(self.head_bytes(piece)),
                Piece::User { id, offset, len } => memory.gather(id, offset, len as usize, out),
            }
        }
    }

    /// How many frames there are.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Table;

    #[test]
    fn frames_are_gathered_piece_by_piece() {
        let mut table = Table::default();
        let id = table.insert(vec![1, 2, 3, 4, 5].into());
        let mut burst = Burst::default();
        burst.begin([1; 24]);
        burst.head(b"ab");
        burst.head(b"c");
        burst.user(id, 1, 2);
        burst.begin([2; 24]);
        burst.head(b"d");
        burst.copied(&mut table, id, 3, 2);
        let frames = burst.frames().to_vec();
        assert_eq!((frames[0].len, frames[1].len), (5, 3));
        assert_eq!(burst.pieces(&frames[0]).len(), 2, "neighbouring heads are one piece");
        let mut out = Vec::new();
        burst.gather(&frames[0], &mut table, &mut out);
        burst.gather(&frames[1], &mut table, &mut out);
        assert_eq!(out, [b'a', b'b', b'c', 2, 3, b'd', 4, 5]);
        burst.clear();
        assert!(burst.is_empty());
    }
}
