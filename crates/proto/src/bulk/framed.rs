//! The copy of a message as it left.
//!
//! What is copied at its post, and leaves with it as a train, is copied once: behind its heads, frame by frame, as the link sends it. So the
//! train is at the same time what is kept for sending again. Mostly it is accepted, and given back; only if some of it must be sent again its
//! bytes are put together, and then it is as any other copy.
//!
//! ```text
//!   left:       head │ bytes │ head │ bytes │ … │ head, ack │ bytes
//!   unframed:   bytes │ bytes │ … │ bytes
//! ```

use crate::base::types::ReqId;
use crate::bulk::Bulk;
use crate::bulk::outgoing::Bytes;
use crate::bulk::train::TxTrain;
use crate::wire::LONE_HEAD_LEN_MAX;

impl Bulk {
    /// Keeps a message as the frames of its train. False: there is no room for their heads.
    pub(super) fn keep_frames(
        &mut self,
        slot: u32,
        pool: u32,
        bytes: &[u8],
        train: &TxTrain,
    ) -> bool {
        if !self.copied.try_resize(pool, train.heads.len() + bytes.len()) {
            return false;
        }
        let mut rest = self.copied.bytes_mut(pool);
        for (head, payload) in train.frames() {
            let (frame, behind) = rest.split_at_mut(head.len() + payload.len());
            let (to_head, to_payload) = frame.split_at_mut(head.len());
            to_head.copy_from_slice(head);
            to_payload.copy_from_slice(&bytes[payload]);
            rest = behind;
        }
        let (head_len, payload_len) = (train.head_len as u16, train.payload_len as u16);
        self.outgoing[slot].bytes = Bytes::Frames { pool, head_len, payload_len };
        true
    }

    pub(crate) fn copied_frames(&self, req: ReqId) -> Option<&[u8]> {
        match self.outgoing.get(req.0 as u32)?.bytes {
            Bytes::Frames { pool, .. } => Some(self.copied.bytes(pool)),
            _ => None,
        }
    }

    /// Copies a message that leaves as one frame, with room before it for its head. `None`: there is no room.
    pub(super) fn copy_framed(&mut self, bytes: &[u8]) -> Option<Bytes> {
        let pool = self.copied.try_reserve(LONE_HEAD_LEN_MAX + bytes.len())?;
        self.copied.bytes_mut(pool)[LONE_HEAD_LEN_MAX..].copy_from_slice(bytes);
        let (head_len, payload_len) = (LONE_HEAD_LEN_MAX as u16, bytes.len() as u16);
        Some(Bytes::Frames { pool, head_len, payload_len })
    }

    /// The frame of a copied message that left with its post, by its request and the length of its head.
    #[inline]
    pub(crate) fn framed(&self, req: ReqId, head_len: usize) -> Option<&[u8]> {
        match self.outgoing.get(req.0 as u32)?.bytes {
            Bytes::Frames { pool, .. } => {
                Some(&self.copied.bytes(pool)[LONE_HEAD_LEN_MAX - head_len..])
            }
            _ => None,
        }
    }

    /// Some of a message is to be sent again: its bytes stand together from now on.
    #[cold]
    pub(super) fn unframe(&mut self, slot: u32) {
        let send = &mut self.outgoing[slot];
        let Bytes::Frames { pool, head_len, payload_len } = send.bytes else { return };
        let (head_len, payload_len) = (usize::from(head_len), usize::from(payload_len));
        let total = send.total as usize;
        let piece = self.copied.bytes_mut(pool);
        // Of all frames but the last. An empty message has none.
        let full_len = total.saturating_sub(1) / payload_len.max(1) * payload_len;
        for at in (0..full_len).step_by(payload_len.max(1)) {
            let from = at / payload_len * (head_len + payload_len) + head_len;
            piece.copy_within(from..from + payload_len, at);
        }
        // The head of the last one may be longer.
        piece.copy_within(piece.len() - (total - full_len).., full_len);
        self.copied.truncate(pool, total);
        send.bytes = Bytes::Pool(pool);
    }
}
