//! Operations as libfabric wants to hear of them, and what messages say of themselves.

use packhorse::raw::Space;

use crate::abi::flag;

/// What libfabric wants to hear of a pending operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Op {
    pub(crate) context: usize,
    /// Where its memory begins; told of received messages.
    pub(crate) buf: usize,
    /// What kind it is, as completions tell it.
    pub(crate) flags: u64,
    pub(crate) wants_entry: bool,
}

/// Pending operations by number.
#[derive(Default)]
pub(crate) struct Ops {
    pub(crate) slots: Vec<Option<Op>>,
    vacant: Vec<u32>,
}

impl Ops {
    pub(crate) fn insert(&mut self, op: Op) -> u64 {
        if let Some(number) = self.vacant.pop() {
            self.slots[number as usize] = Some(op);
            return u64::from(number);
        }
        self.slots.push(Some(op));
        self.slots.len() as u64 - 1
    }

    pub(crate) fn get(&self, number: u64) -> Op {
        let slot = usize::try_from(number).ok().and_then(|index| *self.slots.get(index)?);
        slot.expect("the engine returns the numbers it was given")
    }

    pub(crate) fn remove(&mut self, number: u64) -> Op {
        let op = self.get(number);
        self.slots[number as usize] = None;
        self.vacant.push(number as u32);
        op
    }
}

/// Tagged or untagged: a matching space, and the flag that tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Tagged,
    Untagged,
}

impl Family {
    pub(crate) fn space(self) -> Space {
        match self {
            Self::Tagged => Space(0),
            Self::Untagged => Space(1),
        }
    }

    pub(crate) fn flag(self) -> u64 {
        match self {
            Self::Tagged => flag::TAGGED,
            Self::Untagged => flag::MSG,
        }
    }
}

/// Where a message goes, and what it says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter {
    pub(crate) family: Family,
    pub(crate) to: u64,
    pub(crate) tag: u64,
    pub(crate) data: Option<u64>,
}

/// Which messages a receive takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) family: Family,
    pub(crate) from: u64,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
}
