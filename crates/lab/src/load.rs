//! What a frame carries, as far as the cost of its handling depends on it.

use packhorse_proto::Secret;
use packhorse_proto::wire::{Class, FrameView, Record};

/// The most telling thing in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Granted bytes.
    Data,
    /// A message that was not announced, or a part of one.
    Message,
    /// The announcement of a message, with its first bytes.
    Announcement,
    /// A grant.
    Grant,
    /// The end of a message.
    Done,
    /// An acknowledgement, or a question for one.
    Ack,
    /// First contact and the like.
    Other,
}

/// What is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) kind: Kind,
    /// Bytes of payload.
    pub(crate) len: u64,
    /// Where in its message they begin.
    pub(crate) offset: u64,
}

impl Load {
    /// Looks into a frame to the endpoint with this secret.
    pub(crate) fn of(secret: Secret, bytes: &[u8]) -> Self {
        let mut load = Self { kind: Kind::Other, len: 0, offset: 0 };
        let Ok(view) = FrameView::open(secret, bytes) else { return load };
        load.len = view.body.len() as u64;
        for (record, _) in view.records() {
            let kind = match record {
                Record::Data { offset, .. } => {
                    load.offset = offset;
                    Kind::Data
                }
                Record::Message(head) => {
                    load.offset = head.offset.into();
                    if head.class == Class::Rts { Kind::Announcement } else { Kind::Message }
                }
                Record::Grant { .. } => Kind::Grant,
                Record::Done { .. } => Kind::Done,
                Record::Ack(_) | Record::Ping => Kind::Ack,
                _ => Kind::Other,
            };
            if load.kind == Kind::Other || rank(kind) < rank(load.kind) {
                load.kind = kind;
            }
        }
        load
    }

    /// The first frame of its message.
    pub(crate) fn is_first(&self) -> bool {
        matches!(self.kind, Kind::Message | Kind::Announcement) && self.offset == 0
    }

    /// Pages of the application's memory that the payload lies in.
    pub(crate) fn pages(&self) -> u64 {
        pages(self.offset, self.len)
    }
}

/// Bytes of a page.
pub(crate) const PAGE_LEN: u64 = 4096;

/// Pages that a range lies in, of memory that begins with a page.
pub(crate) fn pages(offset: u64, len: u64) -> u64 {
    match len {
        0 => 0,
        _ => (offset + len - 1) / PAGE_LEN - offset / PAGE_LEN + 1,
    }
}

fn rank(kind: Kind) -> u8 {
    match kind {
        Kind::Data => 0,
        Kind::Message => 1,
        Kind::Announcement => 2,
        Kind::Done => 3,
        Kind::Grant => 4,
        Kind::Ack => 5,
        Kind::Other => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_where_they_begin() {
        assert_eq!(pages(0, 0), 0);
        assert_eq!(pages(0, 4096), 1);
        assert_eq!(pages(4000, 200), 2);
        assert_eq!(pages(0, 9000), 3);
    }
}
