//! List entries and match entries.

use packhorse::raw::List;
use packhorse::raw::portals::{EntrySpec, SearchKind, codes::entry};

use crate::abi::{Handle, Me, NID_ANY, PID_ANY, RANK_ANY, UID_ANY};
use crate::codes::{self, Code, of_core};
use crate::counters::{self, When};
use crate::handles::{Kind, handle, number};
use crate::interfaces::{Opened, node, opened};
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

impl Wish {
    /// The interface, which must be of this kind of entries, and what the core is asked; its memory is still to be named.
    fn check(&self) -> Result<(Opened, EntrySpec), Code> {
        let this = opened(self.ni)?;
        if this.is_matching() != (self.kind == Kind::MatchEntry) {
            return Err(codes::ARG_INVALID);
        }
        let me = &self.me;
        let not = |value: u32, any: u32| (value != any).then_some(value);
        let (node, process) = if this.is_logical() {
            (not(me.match_id.rank_or_nid, RANK_ANY), None)
        } else {
            (not(me.match_id.rank_or_nid, NID_ANY), not(me.match_id.pid, PID_ANY))
        };
        let spec = EntrySpec {
            start: self.memory.start() as u64,
            buf: packhorse::raw::BufId(u64::MAX),
            len: self.memory.len(),
            is_whole: self.memory.is_window(),
            options: me.options,
            counter: counters::named(me.ct_handle)?,
            uid: not(me.uid, UID_ANY),
            node,
            process,
            bits: me.match_bits,
            ignore: me.ignore_bits,
            // Programs leave it as it is where it has no meaning.
            min_free: if me.options & entry::MANAGE_LOCAL != 0 { me.min_free } else { 0 },
            user: self.user_ptr as u64,
        };
        Ok((this, spec))
    }
}

/// Now, or when a counter says so: then the handle is told now all the same.
pub(crate) fn append(wish: Wish, list: u8, when: Option<When>) -> Result<Handle, Code> {
    let list = match list {
        0 => List::Priority,
        1 => List::Overflow,
        _ => return Err(codes::ARG_INVALID),
    };
    let when = when.map(When::of_core).transpose()?;
    let (this, spec) = wish.check()?;
    if spec.is_whole {
        this.name_all();
    }
    let Wish { kind, portal, memory, .. } = wish;
    let appended = this.node.engine().try_portals_with(memory.lend(), |portals, buf| {
        let spec = EntrySpec { buf, ..spec };
        match when {
            None => portals.append(this.kind, portal, list, spec),
            Some((counter, threshold)) => {
                portals.append_at((this.kind, portal), list, spec, counter, threshold)
            }
        }
    });
    appended.map(|entry| handle(kind, entry)).map_err(of_core)
}

pub(crate) fn unlink(kind: Kind, entry: Handle, when: Option<When>) -> Result<(), Code> {
    let entry = number(kind, entry)?;
    let when = when.map(When::of_core).transpose()?;
    let unlinked = node()?.engine().with_portals(|portals| match when {
        None => portals.unlink(entry),
        Some((counter, threshold)) => portals.unlink_at(entry, counter, threshold),
    });
    unlinked.map_err(of_core)
}

pub(crate) fn search(wish: Wish, operation: u8) -> Result<(), Code> {
    let kind = match operation {
        0 => SearchKind::Only,
        1 => SearchKind::Delete,
        _ => return Err(codes::ARG_INVALID),
    };
    let (this, spec) = wish.check()?;
    let portal = wish.portal;
    let engine = this.node.engine();
    let searched = engine.with_portals(|portals| portals.search(this.kind, portal, kind, spec));
    searched.map_err(of_core)
}
