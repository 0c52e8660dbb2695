//! Handles: three bits of kind above 29 bits of the core's own number.
//!
//! The kinds of queues and counters are those of `PTL_EQ_NONE` and `PTL_CT_NONE`, which have all other bits set, as the core's numbers never have.
//! No kind is 0 and none is 7: 0 is never a handle, nor is `PTL_INVALID_HANDLE`.

use crate::abi::{CT_NONE, EQ_NONE, Handle, INVALID_HANDLE};
use crate::codes::{self, Code};

/// What a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Queue = 1,
    Counter = 2,
    Interface = 3,
    Descriptor = 4,
    ListEntry = 5,
    MatchEntry = 6,
}

const NUMBER_BITS: u32 = 29;
const NUMBER_MASK: u32 = (1 << NUMBER_BITS) - 1;

const _: () = {
    assert!(EQ_NONE == (Kind::Queue as u32) << NUMBER_BITS | NUMBER_MASK);
    assert!(CT_NONE == (Kind::Counter as u32) << NUMBER_BITS | NUMBER_MASK);
    assert!(INVALID_HANDLE >> NUMBER_BITS == 7);
};

/// The handle of what the core calls by this number.
pub(crate) fn handle(kind: Kind, number: u32) -> Handle {
    assert!(number < NUMBER_MASK, "the core has no such number: {number:x}");
    (kind as u32) << NUMBER_BITS | number
}

/// What the core calls by this handle, if it is one of this kind.
pub(crate) fn number(kind: Kind, handle: Handle) -> Result<u32, Code> {
    let number = handle & NUMBER_MASK;
    let is_it = handle >> NUMBER_BITS == kind as u32 && number != NUMBER_MASK;
    is_it.then_some(number).ok_or(codes::ARG_INVALID)
}

/// What kind of thing a handle names.
pub(crate) fn kind(handle: Handle) -> Result<Kind, Code> {
    use Kind::{Counter, Descriptor, Interface, ListEntry, MatchEntry, Queue};
    let kinds = [Queue, Counter, Interface, Descriptor, ListEntry, MatchEntry];
    let found = kinds.into_iter().find(|&kind| number(kind, handle).is_ok());
    found.ok_or(codes::ARG_INVALID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_of_its_kind_only_and_special_values_are_of_none() {
        let queue = handle(Kind::Queue, 5);
        assert_eq!((number(Kind::Queue, queue), kind(queue)), (Ok(5), Ok(Kind::Queue)));
        assert_eq!(number(Kind::Counter, queue), Err(codes::ARG_INVALID));
        assert_ne!(handle(Kind::Queue, 0), 0);
        for none in [0, EQ_NONE, CT_NONE, INVALID_HANDLE] {
            assert_eq!(kind(none), Err(codes::ARG_INVALID), "{none:x}");
        }
    }
}
