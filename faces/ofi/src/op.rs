//! Operations as libfabric wants to hear of them, and what messages say of themselves.

use std::sync::Arc;

use packhorse::raw::Space;

use crate::abi::flag;
use crate::cntr::Cntr;

/// What a queue is told of an operation.
///
/// It takes a whole word. Operations are copied, a word at a time; of a byte that was just written the processor cannot make a word until
/// the byte has left for the cache, and waits for that (5 ns a copy, 20 ns of a receive).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Telling {
    #[default]
    OnlyTrouble,
    Success,
}

impl Telling {
    pub(crate) fn of_success(is_told: bool) -> Self {
        if is_told { Self::Success } else { Self::OnlyTrouble }
    }
}

/// What libfabric wants to hear of a pending operation.
#[derive(Clone, Default)]
pub(crate) struct Op {
    pub(crate) context: usize,
    /// Where its memory begins; told of received messages.
    pub(crate) buf: usize,
    /// What kind it is, as completions tell it.
    pub(crate) flags: u64,
    pub(crate) telling: Telling,
    /// Who else is told, of one that was set off by a counter.
    pub(crate) told: Option<Arc<Told>>,
}

/// How an operation is to be.
#[derive(Clone)]
pub(crate) struct How {
    pub(crate) context: usize,
    pub(crate) flags: u64,
    /// Whether its success may be told, if the queue wants to hear it.
    pub(crate) telling: Telling,
    /// Not before this; at once if there is nothing.
    pub(crate) when: Option<Box<When>>,
    /// Who is told instead of the endpoint's counters, of deferred work.
    pub(crate) told: Option<Arc<Told>>,
}

/// What an operation waits for.
#[derive(Clone)]
pub(crate) struct When {
    pub(crate) counter: Arc<Cntr>,
    pub(crate) threshold: u64,
    /// By which it is cancelled, if it is deferred work; else 0.
    pub(crate) id: usize,
}

/// Who is told of the end of deferred work.
pub(crate) struct Told {
    /// A counter of its own,
    pub(crate) counter: Option<Arc<Cntr>>,
    /// and what the endpoint is bound to only if that was asked for (`FI_COMPLETION`).
    pub(crate) at_endpoint: bool,
}

/// What injected operations are: nobody is told of success.
pub(crate) const SILENT: How =
    How { context: 0, flags: 0, telling: Telling::OnlyTrouble, when: None, told: None };

impl How {
    /// At once, and told as usual.
    #[inline]
    pub(crate) fn plain(context: usize, flags: u64) -> Self {
        Self { context, flags, telling: Telling::Success, when: None, told: None }
    }
}

const OUR_NUMBERS: &str = "the engine returns the numbers it was given";

/// Pending operations by number. A number is a place, and how often that was used, so that nobody takes the next tenant for the one before.
#[derive(Default)]
pub(crate) struct Ops {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
}

#[derive(Default)]
struct Slot {
    use_count: u32,
    op: Option<Op>,
}

/// Uses that are told apart: the highest numbers have other meanings.
const USE_MASK: u32 = u32::MAX >> 1;

fn number_of(index: u32, use_count: u32) -> u64 {
    u64::from(use_count & USE_MASK) << 32 | u64::from(index)
}

impl Ops {
    #[inline]
    pub(crate) fn insert(&mut self, op: Op) -> u64 {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.op = Some(op);
        number_of(index, slot.use_count)
    }

    pub(crate) fn get(&mut self, number: u64) -> Op {
        self.slot(number).op.clone().expect(OUR_NUMBERS)
    }

    pub(crate) fn remove(&mut self, number: u64) -> Op {
        let slot = self.slot(number);
        slot.use_count = slot.use_count.wrapping_add(1);
        let op = slot.op.take().expect(OUR_NUMBERS);
        self.vacant.push(number as u32);
        op
    }

    /// The number of the first that is like this.
    pub(crate) fn find(&self, is_it: impl Fn(&Op) -> bool) -> Option<u64> {
        let mut slots = (0..).zip(&self.slots);
        let (index, slot) = slots.find(|(_, slot)| slot.op.as_ref().is_some_and(&is_it))?;
        Some(number_of(index, slot.use_count))
    }

    fn slot(&mut self, number: u64) -> &mut Slot {
        let slot = self.slots.get_mut(number as u32 as usize);
        let is_it = |slot: &&mut Slot| number_of(number as u32, slot.use_count) == number;
        slot.filter(is_it).expect(OUR_NUMBERS)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_one_operation_and_of_none_after_it() {
        let mut ops = Ops::default();
        let of = |context| Op { context, ..Op::default() };
        let first = ops.insert(of(1));
        assert_eq!(ops.remove(first).context, 1);
        let second = ops.insert(of(2));
        assert_ne!(first, second, "who cancels the first by its number must not hit the second");
        assert_eq!((ops.get(second).context, ops.find(|op| op.context == 2)), (2, Some(second)));
    }
}
