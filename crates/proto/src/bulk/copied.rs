//! Copies of what was posted.
//!
//! PROTOCOL §7.3. Whoever posts a short message, a piece of a stream or an operand has his memory back at once: what was copied is kept here, within a
//! budget, until the peer has accepted it.

use crate::PostError;
use crate::bulk::Bulk;
use crate::bulk::outgoing::Bytes;

impl Bulk {
    /// Copies a payload that is sent from its copy.
    #[inline(never)]
    pub(crate) fn copy_payload(&mut self, bytes: &[u8]) -> Result<Bytes, PostError> {
        self.copy_pieces(bytes.len(), &[bytes]).map(Bytes::Pool).ok_or(PostError::PoolFull)
    }

    /// Copies pieces, which are `len` bytes in all, one behind the other. `None`: there is no room.
    #[inline]
    pub(crate) fn copy_pieces(&mut self, len: usize, pieces: &[&[u8]]) -> Option<u32> {
        let pool = self.copied.try_reserve(len)?;
        let mut rest = self.copied.bytes_mut(pool);
        for piece in pieces {
            let (here, behind) = rest.split_at_mut(piece.len());
            here.copy_from_slice(piece);
            rest = behind;
        }
        Some(pool)
    }

    /// Room for a copy that is filled bit by bit. `None`: there is none.
    pub(crate) fn begin_copy(&mut self, room_len: usize) -> Option<u32> {
        self.copied.try_reserve(room_len)
    }

    /// More bytes go into such a copy, behind `start` others.
    pub(crate) fn fill_copy(&mut self, pool: u32, start: usize, bytes: &[u8]) {
        self.copied.bytes_mut(pool)[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Nothing more goes into a copy, which has so many bytes.
    pub(crate) fn end_copy(&mut self, pool: u32, len: usize) {
        self.copied.truncate(pool, len);
    }

    /// Nobody needs a copy any more.
    pub(crate) fn drop_copy(&mut self, pool: u32) {
        self.copied.release(pool);
    }

    /// The bytes of a copy, for the driver to gather.
    #[inline]
    pub(crate) fn copied_bytes(&self, pool: u32) -> &[u8] {
        self.copied.bytes(pool)
    }
}
