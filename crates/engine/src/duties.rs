//! What the helper may do while the application is not in a call: the switches of RMPP's experiments.
//!
//! ```text
//!                    frames with messages, data            frames with grants, ends, replies
//!   none       wait for the application (no helper)        wait
//!   receive    match, place, acknowledge, grant            wait
//!   send       wait                                        answer grants with data, complete
//!   both       taken                                       taken
//! ```
//!
//! Acknowledgements are read, and what is lost is sent again, by whoever is there: that is the link's business, not the message's.
//!
//! A helper with half the duties still takes all frames from the links, for nobody else does and their memory is small, but
//! keeps those of the other half for the application's next turn. What is kept is bounded; beyond that the links hold the
//! rest, or lose it, as a card would. The protocol is told of each (PROTOCOL §5.6), so that the peer does not take it for lost.
//!
//! For experiments, and to see what offload brings. Whoever wants none opens the endpoint `inline`.

use std::collections::VecDeque;

use packhorse_proto::wire::Audience;

/// Which work the helper may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// None: as without a helper.
    None,
    /// What messages for this endpoint want: matching, placing, acknowledgements, grants.
    Receive,
    /// What its own messages want: data for grants, repetition, completion.
    Send,
    /// All.
    #[default]
    Both,
}

impl Offload {
    /// Whether a frame may be taken, or must wait.
    pub(crate) fn takes(self, audience: Audience) -> bool {
        match (self, audience) {
            (Self::Both, _) | (_, Audience::Both) => true,
            (Self::Receive, Audience::Receiver) | (Self::Send, Audience::Sender) => true,
            (Self::None | Self::Receive | Self::Send, _) => false,
        }
    }

    /// Whether granted data may land in its place.
    pub(crate) fn takes_data(self) -> bool {
        matches!(self, Self::Both | Self::Receive)
    }
}

/// Bytes kept at most.
const KEPT_LEN_MAX: usize = 16 << 20;

/// Frames that wait for the application.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Each with the link it came by.
    frames: VecDeque<(u8, Vec<u8>)>,
    len: usize,
    /// Memory to be used again.
    spare: Vec<Vec<u8>>,
}

impl Kept {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len >= KEPT_LEN_MAX
    }

    pub(crate) fn push(&mut self, link: u8, bytes: &[u8]) {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_from_slice(bytes);
        self.len += bytes.len();
        self.frames.push_back((link, copy));
    }

    pub(crate) fn pop(&mut self) -> Option<(u8, Vec<u8>)> {
        let frame = self.frames.pop_front()?;
        self.len -= frame.1.len();
        Some(frame)
    }

    pub(crate) fn reuse(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < 64 {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_half_takes_its_own_and_what_is_for_both() {
        use Audience::{Both, Receiver, Sender};
        let takes = |offload: Offload| [Receiver, Sender, Both].map(|it| offload.takes(it));
        assert_eq!(takes(Offload::None), [false, false, true]);
        assert_eq!(takes(Offload::Receive), [true, false, true]);
        assert_eq!(takes(Offload::Send), [false, true, true]);
        assert_eq!(takes(Offload::Both), [true; 3]);
    }

    #[test]
    fn what_is_kept_comes_back_in_order_and_is_bounded() {
        let mut kept = Kept::default();
        let frame = [7; 1 << 20];
        for link in 0..16 {
            assert!(!kept.is_full());
            kept.push(link, &frame);
        }
        assert!(kept.is_full());
        for link in 0..16 {
            let (number, bytes) = kept.pop().unwrap();
            assert_eq!((number, bytes.len()), (link, frame.len()));
            kept.reuse(bytes);
        }
        assert!(kept.is_empty() && kept.pop().is_none());
    }
}
