//! Entries and headers of Portals: the same lists and indices, with a source of two parts that are wild each for itself.
//!
//! Each index of a portal table has a matcher of its own, so the bits of the space are free for the source.

use super::*;

/// Where a message of Portals comes from: a nid and a pid, or a rank and 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortalSource {
    /// The nid, or the rank.
    pub node: u32,
    /// The pid: 20 bits of it.
    pub process: u32,
}

/// What an entry of Portals asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortalWanted {
    /// The bits wanted,
    pub bits: u64,
    /// but for those that are set here.
    pub ignore: u64,
    /// Only from this nid or rank.
    pub node: Option<u32>,
    /// Only from this pid.
    pub process: Option<u32>,
}

const PROCESS_SHIFT: u32 = 32;

impl Words {
    fn portal(bits: u64, source: PortalSource) -> Self {
        let process = u64::from(source.process) << PROCESS_SHIFT & PORTAL_PROCESS_BITS;
        Self { bits, from: u64::from(source.node) | process }
    }

    fn portal_wanted(wanted: &PortalWanted) -> Self {
        let PortalWanted { bits, node, process, .. } = *wanted;
        let source = PortalSource { node: node.unwrap_or(0), process: process.unwrap_or(0) };
        let named = |is_named: bool, bit: u64| if is_named { bit } else { 0 };
        let flags = PORTAL_BIT
            | named(node.is_some(), NAMED_BIT)
            | named(process.is_some(), PROCESS_NAMED_BIT);
        let words = Self::portal(bits, source);
        Self { from: words.from | flags, ..words }
    }
}

impl Matcher {
    /// Appends an entry of Portals to a list.
    pub(crate) fn post_portal(&mut self, list: List, wanted: &PortalWanted, token: u32) -> EntryId {
        let words = Words::portal_wanted(wanted).in_list(list);
        EntryId(self.posted.post_words(words, wanted.ignore, token))
    }

    /// The first entry of a list that takes a message.
    pub(crate) fn find_portal(
        &mut self,
        list: List,
        bits: u64,
        source: PortalSource,
    ) -> Option<(EntryId, u32)> {
        let slot = self.posted.find_in(list, Words::portal(bits, source).in_list(list));
        self.posted.found(slot)
    }

    /// The tokens of the entries of a list behind this one that take a message, in their order.
    pub(crate) fn posted_portals(
        &self,
        after: EntryId,
        list: List,
        bits: u64,
        source: PortalSource,
    ) -> impl Iterator<Item = u32> {
        let envelope = Words::portal(bits, source).in_list(list);
        let slab = &self.posted.slab;
        let first = slab.slot(after.0).and_then(|slot| slab.next(slot));
        core::iter::successors(first, |&slot| slab.next(slot)).filter_map(move |slot| {
            let item = &slab.items[slot as usize];
            item.admits(envelope).then_some(item.token)
        })
    }

    /// Appends an unexpected header.
    pub(crate) fn hold_portal(&mut self, bits: u64, source: PortalSource, token: u32) -> HeldId {
        HeldId(self.held.hold(Words::portal(bits, source), token))
    }

    /// The token of the oldest header that an entry would take.
    pub(crate) fn search_portal(&mut self, wanted: &PortalWanted) -> Option<u32> {
        let words = Words::portal_wanted(wanted);
        let (_, token) = self.held.search(words, words.shape_ignoring(wanted.ignore))?;
        Some(token)
    }

    /// The tokens of all that it would take, oldest first.
    pub(crate) fn held_portals(&self, wanted: &PortalWanted) -> impl Iterator<Item = u32> {
        let words = Words::portal_wanted(wanted);
        let shape = words.shape_ignoring(wanted.ignore);
        let slab = &self.held.slab;
        let first = slab.after(None);
        core::iter::successors(first, |&slot| slab.next(slot)).filter_map(move |slot| {
            let item = &slab.items[slot as usize];
            item.words.agrees(words, shape).then_some(item.token)
        })
    }
}
