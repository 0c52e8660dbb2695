//! List entries and match entries.

use crate::abi::{Handle, Me};
use crate::codes::{Code, missing};
use crate::counters::When;
use crate::handles::Kind;
use crate::memory::Named;

/// What is asked for an entry: which kind (`ListEntry` or `MatchEntry`), where, and what it is.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) kind: Kind,
    pub(crate) ni: Handle,
    pub(crate) portal: u32,
    /// Of a list entry, one that matches everything.
    pub(crate) me: Me,
    pub(crate) memory: Named,
    pub(crate) user_ptr: usize,
}

/// Now, or when a counter says so: then the handle is told now all the same.
pub(crate) fn append(_wish: Wish, _list: u8, _when: Option<When>) -> Result<Handle, Code> {
    missing("PtlMEAppend")
}

pub(crate) fn unlink(_kind: Kind, _entry: Handle, _when: Option<When>) -> Result<(), Code> {
    missing("PtlMEUnlink")
}

pub(crate) fn search(_wish: Wish, _operation: u8) -> Result<(), Code> {
    missing("PtlMESearch")
}
