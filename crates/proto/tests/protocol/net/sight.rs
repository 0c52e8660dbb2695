//! A frame as it left, and what it says.

use packhorse_proto::seal::pass_of;
use packhorse_proto::wire::{Class, FrameView, Record};
use packhorse_proto::{Instant, Locator, Secret};

/// What kind of record a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Check,
    Ack,
    Ping,
    Pad,
    Eager,
    Fragment,
    Rts,
    Grant,
    Data,
    Done,
    Cancel,
    Refuse,
    Recall,
    Query,
    Found,
    StreamCredit,
    Hello,
    Challenge,
    Echo,
    Welcome,
    Reset,
    Goodbye,
    Versions,
    Request,
    Reply,
    End,
    PathChallenge,
    PathResponse,
}

fn kind_of(record: &Record<'_>) -> Kind {
    match record {
        Record::Check { .. } => Kind::Check,
        Record::Ack(_) => Kind::Ack,
        Record::Ping => Kind::Ping,
        Record::Pad => Kind::Pad,
        Record::Message(head) => match head.class {
            Class::Eager => Kind::Eager,
            Class::Fragment => Kind::Fragment,
            Class::Rts | Class::Told => Kind::Rts,
        },
        Record::Grant { .. } => Kind::Grant,
        Record::Data { .. } => Kind::Data,
        Record::Done { .. } => Kind::Done,
        Record::Cancel { .. } => Kind::Cancel,
        Record::Refuse { .. } => Kind::Refuse,
        Record::Recall { .. } => Kind::Recall,
        Record::Query { .. } => Kind::Query,
        Record::Found(_) => Kind::Found,
        Record::Request(_) => Kind::Request,
        Record::Reply { .. } | Record::Replied { .. } | Record::Outcome { .. } => Kind::Reply,
        Record::End { .. } => Kind::End,
        Record::StreamCredit { .. } => Kind::StreamCredit,
        Record::Hello(_) => Kind::Hello,
        Record::Challenge { .. } => Kind::Challenge,
        Record::Echo { .. } => Kind::Echo,
        Record::Welcome(_) => Kind::Welcome,
        Record::Reset { .. } => Kind::Reset,
        Record::Goodbye { .. } => Kind::Goodbye,
        Record::Versions { .. } => Kind::Versions,
        Record::PathChallenge { .. } => Kind::PathChallenge,
        Record::PathResponse { .. } => Kind::PathResponse,
    }
}

/// A frame as it left.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    pub(crate) at: Instant,
    pub(crate) from: usize,
    /// Where its locator leads; `None`: nowhere.
    pub(crate) to: Option<usize>,
    pub(crate) link: u8,
    /// The sender's locator, as the receiver sees it.
    pub(crate) source: Locator,
    pub(crate) target: Locator,
    pub(crate) bytes: Vec<u8>,
    pub(crate) key: Secret,
}

/// A frame whose check is right under this key, or that has its pass (PROTOCOL §14.6).
pub(crate) fn opened(key: Secret, bytes: &[u8]) -> Option<FrameView<'_>> {
    FrameView::open(key, bytes).ok().or_else(|| FrameView::open_passed(pass_of(&key), 0, bytes))
}

impl Sight {
    pub(crate) fn view(&self) -> FrameView<'_> {
        opened(self.key, &self.bytes).expect("sealed by an endpoint of ours")
    }

    pub(crate) fn kinds(&self) -> Vec<Kind> {
        self.view().records().map(|(record, _)| kind_of(&record)).collect()
    }

    /// The kinds, without the payload check that stands in front of all.
    pub(crate) fn says(&self) -> Vec<Kind> {
        self.kinds().into_iter().filter(|&kind| kind != Kind::Check).collect()
    }

    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.kinds().contains(&kind)
    }

    pub(crate) fn packet(&self) -> u64 {
        self.view().header.packet
    }
}
