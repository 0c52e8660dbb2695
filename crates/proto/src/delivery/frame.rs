//! A frame that is being filled: where it goes, its head so far, and the pieces of its body.

use crate::wire::Writer;
use crate::{Locator, Piece, Secret, Source, TxFrame};

/// A frame being filled.
pub(crate) struct Frame<'a> {
    pub(crate) writer: Writer<'a>,
    pub(crate) body: &'a mut alloc::vec::Vec<Piece>,
    pub(crate) body_len: usize,
    pub(crate) frame_len: usize,
    /// Of a frame that holds nothing yet.
    pub(crate) bare_len: usize,
}

impl Frame<'_> {
    pub(crate) fn len(&self) -> usize {
        self.writer.len() + self.body_len
    }

    pub(crate) fn room(&self) -> usize {
        self.frame_len.saturating_sub(self.len())
    }

    /// Room of a frame that holds nothing yet.
    pub(crate) fn fresh_room(&self) -> usize {
        self.frame_len.saturating_sub(self.bare_len)
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.writer.len() <= self.bare_len
    }

    pub(crate) fn push_body(&mut self, source: Source, len: usize) {
        if len > 0 {
            self.body.push(Piece { source, len: len as u32 });
            self.body_len += len;
        }
    }
}

/// Begins a frame that is sealed as it is written: its key is not needed any more.
#[inline(always)]
pub(crate) fn start_sealed(tx: &mut TxFrame, link: u8, to: &Locator) {
    tx.link = link;
    tx.to = *to;
    tx.secret = None;
    tx.body.clear();
    tx.is_sealed = true;
}

#[inline]
pub(crate) fn start(tx: &mut TxFrame, link: u8, to: &Locator, secret: Secret, packet: u64) {
    tx.link = link;
    tx.to = *to;
    tx.secret = Some(secret);
    tx.packet = packet;
    tx.body.clear();
    tx.body_len = 0;
    tx.is_sealed = false;
}
