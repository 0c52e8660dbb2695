//! Active records: what the rows that are awake have in addition.
//!
//! A record is made when a row wakes, and taken away when it rests or its association ends; both only in this room. Some are kept for the next row that
//! wakes.

use core::ops::{Index, IndexMut};

use crate::base::slab::Slab;
use crate::delivery::path::Path;
use crate::peers::rows::{Active, Row, Rows, row_of_id};
use crate::wire::Header;
use crate::{Instant, Locator};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// So many records are kept for those that wake.
const SPARE_COUNT_MAX: usize = 64;

/// The active records of all rows that are awake.
#[derive(Debug, Default)]
pub(crate) struct Actives {
    table: Slab<Box<Active>>,
    #[expect(clippy::vec_box, reason = "boxes move between here and the table as they are")]
    spare: Vec<Box<Active>>,
}

impl Actives {
    /// A record for a row that wakes; it is `enter`ed when it is filled.
    pub(super) fn begin(&mut self, row: u32) -> Box<Active> {
        let mut active = self.spare.pop().unwrap_or_else(|| Box::new(Active::new(row)));
        active.row = row;
        active
    }

    /// A row is awake.
    pub(super) fn enter(&mut self, active: Box<Active>) -> u32 {
        self.table.insert(active)
    }

    /// A row rests, or its association is over.
    pub(super) fn leave(&mut self, slot: u32) -> Box<Active> {
        self.table.remove(slot)
    }

    /// A record that is empty again may be kept for another row.
    pub(super) fn keep(&mut self, cleared: Box<Active>) {
        if self.spare.len() < SPARE_COUNT_MAX {
            self.spare.push(cleared);
        }
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Active> {
        self.table.iter().map(|(_, active)| &**active)
    }

    /// How many rows are awake.
    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        self.table.len()
    }

    /// The record of this row, if it is awake.
    #[inline(always)]
    pub(crate) fn of(&self, row: &Row) -> Option<&Active> {
        self.get(row.active())
    }

    /// As [`Actives::of`].
    #[inline(always)]
    pub(crate) fn of_mut(&mut self, row: &Row) -> Option<&mut Active> {
        self.get_mut(row.active())
    }

    /// The record in a slot; NONE is that of a row that rests.
    #[inline(always)]
    pub(crate) fn get(&self, slot: u32) -> Option<&Active> {
        self.table.get(slot).map(|active| &**active)
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Active> {
        self.table.get_mut(slot).map(|active| &mut **active)
    }
}

/// The record of a row that is awake.
impl Index<u32> for Actives {
    type Output = Active;

    #[inline(always)]
    fn index(&self, slot: u32) -> &Active {
        &self.table[slot]
    }
}

impl IndexMut<u32> for Actives {
    #[inline(always)]
    fn index_mut(&mut self, slot: u32) -> &mut Active {
        &mut self.table[slot]
    }
}

/// The row a frame is for and the path it came over, if the row is joined and awake and the frame is the next of that path.
/// Then the peer was heard.
#[inline(always)]
pub(crate) fn hear<'a>(
    now: Instant,
    rows: &'a mut Rows,
    actives: &'a mut Actives,
    header: Header,
    link: u8,
    from: &Locator,
) -> Option<(&'a mut Row, &'a mut Path)> {
    let this = rows.get_any_mut(row_of_id(header.to))?;
    if !this.is_of(&header) {
        return None;
    }
    let active = actives.get_mut(this.active)?;
    let path = active.paths.get_mut(usize::from(header.path))?;
    // The whole number: the check was verified with this high half, which may not be the next packet's. An unnumbered frame's
    // is 0, which is never next.
    if header.packet != path.received().largest() + 1 || !path.comes_from(link, from) {
        return None;
    }
    this.on_heard(now);
    active.welcome = false; // the peer has joined
    Some((this, path))
}
