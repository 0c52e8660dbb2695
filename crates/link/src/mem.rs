//! Memory of the application, lent to the engine from post to completion.
//!
//! ```text
//!   Vec, Arc, list of Vecs ──▶ Memory ──▶ Table::insert ──▶ id ──▶ proto names (id, offset), links move the bytes
//!                              Memory ◀── Table::remove ◀── id       (completion, cancel, close)
//! ```
//!
//! A [`Table`] owns what it was lent, so a name that is no longer in it names nothing: a late frame for a cancelled
//! receive finds no memory to write to. Pointers stay inside this file and `sys`: everybody else speaks of ids
//! and offsets, and every range is checked here, in release builds too. Memory the caller merely borrows out (a C
//! caller's buffer, a scope's slice) can be lent as well; only that is unsafe, for only there could it go away first.

mod elements;
mod notes;

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::copier::{Copier, Piece};
use crate::sys::reach::reaches;
use elements::Elements;
use notes::Notes;

/// The name of memory that was lent, as the owner of the memory gives it: of a [`Table`], a slot and its serial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryId(pub u64);

impl MemoryId {
    fn new(index: u32, serial: u32) -> Self {
        Self(u64::from(serial) << 32 | u64::from(index))
    }

    fn index(self) -> usize {
        self.0 as u32 as usize
    }

    fn serial(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The driver's memory, as links see it.
pub trait UserMemory {
    /// Appends `len` bytes from `offset` of memory `id` to `out`.
    fn gather(&mut self, id: MemoryId, offset: u64, len: usize, out: &mut Vec<u8>);

    /// Puts `bytes` at `offset` of memory `id`.
    fn place(&mut self, id: MemoryId, offset: u64, bytes: &[u8]);

    /// Puts all of these in their places, one after the other or, where that makes no difference, together with the copier.
    fn place_all(&mut self, copies: &[Copy<'_>], copier: &mut Copier) {
        let _ = copier;
        copies.iter().for_each(|copy| self.place(copy.id, copy.offset, copy.bytes));
    }

    /// Shows `change` the `len` bytes at `offset` of memory `id`, which are elements of `width` bytes, and puts back what it
    /// makes of them if it says so.
    fn update(
        &mut self,
        id: MemoryId,
        offset: u64,
        len: usize,
        _width: usize,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) {
        let mut bytes = Vec::with_capacity(len);
        self.gather(id, offset, len, &mut bytes);
        if change(&mut bytes) {
            self.place(id, offset, &bytes);
        }
    }

    /// Copies `len` bytes from one place, a name and an offset, to another. False: they are not both there.
    fn copy_between(&mut self, from: (MemoryId, u64), to: (MemoryId, u64), len: usize) -> bool {
        let mut bytes = Vec::with_capacity(len);
        self.gather(from.0, from.1, len, &mut bytes);
        self.place(to.0, to.1, &bytes);
        true
    }

    /// Whether so many bytes are there, to be read or to be written.
    fn reaches(&mut self, id: MemoryId, offset: u64, len: u64, writes: bool) -> bool {
        let _ = (id, offset, len, writes);
        true
    }
}

/// Bytes and where they go.
#[derive(Clone, Copy, Debug)]
pub struct Copy<'a> {
    /// Into which memory.
    pub id: MemoryId,
    /// From where on.
    pub offset: u64,
    /// What.
    pub bytes: &'a [u8],
}

/// A contiguous piece of the application's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    ptr: NonNull<u8>,
    len: usize,
}

impl Part {
    pub(crate) fn ptr(self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// The piece from `start` on, `len` long. Both were checked by the caller.
    #[inline]
    fn cut(self, start: usize, len: usize) -> Self {
        assert!(start <= self.len && len <= self.len - start);
        // SAFETY: `start` is inside this piece or one past its end (asserted above), so the sum stays in the allocation.
        Self { ptr: unsafe { self.ptr.add(start) }, len }
    }
}

/// Whether the process has memory at an address: asked of the system, not by touching it.
pub fn is_there(at: u64, len: u64, writes: bool) -> bool {
    let range = usize::try_from(at).ok().zip(usize::try_from(len).ok());
    range.is_some_and(|(at, len)| reaches(at, len, writes))
}

/// One piece, or several that count as one.
#[derive(Debug)]
enum Parts {
    One(Part),
    /// With the offset in the whole at which each ends.
    Many(Box<[(Part, u64)]>),
    /// All of the address space: an offset is an address.
    Whole,
}

/// What to do with the memory when it is given back.
#[derive(Debug)]
enum Owner {
    /// A `Vec` of this capacity, or several.
    Vecs(Capacities),
    /// One count of an `Arc<[u8]>`.
    Shared,
    /// Somebody else's; he promised that it stays.
    Borrowed { is_writable: bool },
}

#[derive(Debug)]
enum Capacities {
    One(usize),
    Many(Box<[usize]>),
}

/// Memory on its way into a [`Table`] or out of it.
#[derive(Debug)]
pub struct Memory {
    parts: Parts,
    owner: Owner,
}

// SAFETY: `Memory` owns what it points to (a `Vec`, a count of an `Arc<[u8]>`: both `Send`), or was made by `borrowed`,
// whose caller promises that the bytes may be used from any thread.
unsafe impl Send for Memory {}

// SAFETY: through `&Memory` bytes are only read, and nobody writes them without `&mut Table`.
unsafe impl Sync for Memory {}

impl From<Vec<u8>> for Memory {
    fn from(bytes: Vec<u8>) -> Self {
        let mut bytes = ManuallyDrop::new(bytes);
        let parts = Parts::One(part_of(&mut bytes));
        Self { parts, owner: Owner::Vecs(Capacities::One(bytes.capacity())) }
    }
}

impl From<Vec<Vec<u8>>> for Memory {
    fn from(segments: Vec<Vec<u8>>) -> Self {
        let mut segments: Vec<_> = segments.into_iter().map(ManuallyDrop::new).collect();
        let capacities = segments.iter().map(|segment| segment.capacity()).collect();
        let parts = many(segments.iter_mut().map(|segment| part_of(segment)));
        Self { parts, owner: Owner::Vecs(Capacities::Many(capacities)) }
    }
}

impl From<Arc<[u8]>> for Memory {
    fn from(bytes: Arc<[u8]>) -> Self {
        let len = bytes.len();
        let ptr = Arc::into_raw(bytes).cast::<u8>().cast_mut();
        let ptr = NonNull::new(ptr).expect("an Arc's contents have an address");
        Self { parts: Parts::One(Part { ptr, len }), owner: Owner::Shared }
    }
}

fn part_of(bytes: &mut Vec<u8>) -> Part {
    let ptr = NonNull::new(bytes.as_mut_ptr()).expect("a Vec's pointer is never null");
    Part { ptr, len: bytes.len() }
}

/// Bytes at an address, if they are there now: a program may unmap them while they are under way. Nothing is at 0.
fn part_at(address: u64, len: usize) -> Option<Part> {
    let address = usize::try_from(address).ok().filter(|&address| reaches(address, len, false))?;
    NonNull::new(std::ptr::with_exposed_provenance_mut(address)).map(|ptr| Part { ptr, len })
}

fn many(parts: impl Iterator<Item = Part>) -> Parts {
    let mut end = 0;
    let with_ends = parts.map(|part| {
        end += part.len as u64;
        (part, end)
    });
    Parts::Many(with_ends.collect())
}

impl Memory {
    /// Memory that stays the caller's, in pieces of address and length.
    ///
    /// # Safety
    /// Until the table has given it back (`Table::remove`, or the table's end) every piece must be valid for reads, and
    /// for writes if `is_writable`, from any thread; nobody else may write to it, nor read it if `is_writable`.
    #[inline]
    pub unsafe fn borrowed(pieces: &[(*mut u8, usize)], is_writable: bool) -> Self {
        let part = |&(ptr, len): &(*mut u8, usize)| Part {
            ptr: NonNull::new(ptr).unwrap_or(NonNull::dangling()),
            // A null pointer names no bytes, whatever its length says.
            len: if ptr.is_null() { 0 } else { len },
        };
        let parts = match pieces {
            [piece] => Parts::One(part(piece)),
            pieces => many(pieces.iter().map(part)),
        };
        Self { parts, owner: Owner::Borrowed { is_writable } }
    }

    /// All memory of this process, of which offsets are addresses.
    ///
    /// # Safety
    /// As of `borrowed`, for each range that is then used: whoever names one has asked `Table::reaches`, or says himself that it is there.
    pub unsafe fn whole() -> Self {
        Self { parts: Parts::Whole, owner: Owner::Borrowed { is_writable: true } }
    }

    /// Bytes in all.
    #[inline]
    pub fn len(&self) -> u64 {
        match &self.parts {
            Parts::One(part) => part.len as u64,
            Parts::Whole => u64::MAX,
            Parts::Many(parts) => parts.last().map_or(0, |&(_, end)| end),
        }
    }

    /// Whether there is not a byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a receive may fill it.
    pub fn is_writable(&self) -> bool {
        match self.owner {
            Owner::Vecs(_) => true,
            Owner::Shared => false,
            Owner::Borrowed { is_writable } => is_writable,
        }
    }

    /// Whether it was given, and somebody waits for it to be given back; not merely borrowed.
    #[inline]
    pub fn is_owned(&self) -> bool {
        !matches!(self.owner, Owner::Borrowed { .. })
    }

    /// How many pieces it is made of.
    pub fn segment_count(&self) -> usize {
        match &self.parts {
            Parts::One(_) | Parts::Whole => 1,
            Parts::Many(parts) => parts.len(),
        }
    }

    /// Its bytes, if they are one piece.
    pub fn as_one(&self) -> Option<&[u8]> {
        match &self.parts {
            // SAFETY: `part` is this memory, which is readable for as long as it lives; nobody writes it while it is not in a table.
            Parts::One(part) => Some(unsafe { std::slice::from_raw_parts(part.ptr(), part.len()) }),
            Parts::Many(_) | Parts::Whole => None,
        }
    }

    /// A copy of its bytes.
    pub fn copied(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len() as usize);
        self.for_each(0, self.len(), |part| {
            // SAFETY: `part` is inside this memory, which is readable for as long as it lives; `bytes` is our own.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(part.ptr(), part.len()) });
        });
        bytes
    }

    /// The `Vec` it was made from; empty if it was made from something else.
    #[inline]
    pub fn into_vec(mut self) -> Vec<u8> {
        if let (Parts::One(part), Owner::Vecs(Capacities::One(capacity))) =
            (&self.parts, &self.owner)
        {
            let (part, capacity) = (*part, *capacity);
            std::mem::forget(self); // it owns nothing else
            // SAFETY: pointer, length and capacity are those of a `Vec<u8>` that was taken apart in `From` without being
            // dropped; `self` is forgotten, so this happens once.
            return unsafe { Vec::from_raw_parts(part.ptr(), part.len(), capacity) };
        }
        let mut whole = Vec::new();
        self.give_back(|vec| whole = vec);
        whole
    }

    /// The `Vec`s it was made from; none if it was made from something else.
    pub fn into_vecs(mut self) -> Vec<Vec<u8>> {
        let mut segments = Vec::new();
        self.give_back(|vec| segments.push(vec));
        segments
    }

    /// The `Arc` it was made from; a copy if it was made from something else.
    pub fn into_shared(mut self) -> Arc<[u8]> {
        if let (Owner::Shared, Parts::One(part)) = (&self.owner, &self.parts) {
            let bytes = std::ptr::slice_from_raw_parts(part.ptr().cast_const(), part.len());
            self.owner = Owner::Borrowed { is_writable: false };
            // SAFETY: the pointer came from `Arc::into_raw` of an `Arc<[u8]>` of this length; the owner was replaced, so
            // its count is given back once.
            return unsafe { Arc::from_raw(bytes) };
        }
        self.into_vecs().concat().into()
    }

    /// Puts the `Vec`s together again.
    fn give_back(&mut self, mut take: impl FnMut(Vec<u8>)) {
        let owner = std::mem::replace(&mut self.owner, Owner::Borrowed { is_writable: false });
        let mut rebuild = |part: Part, capacity: usize| {
            // SAFETY: pointer, length and capacity are those of a `Vec<u8>` that was taken apart in `From` without
            // being dropped; the owner was replaced above, so this happens once.
            take(unsafe { Vec::from_raw_parts(part.ptr(), part.len(), capacity) });
        };
        match (owner, &self.parts) {
            (Owner::Vecs(Capacities::One(capacity)), Parts::One(part)) => rebuild(*part, capacity),
            (Owner::Vecs(Capacities::Many(capacities)), Parts::Many(parts)) => {
                for (&(part, _), capacity) in parts.iter().zip(capacities) {
                    rebuild(part, capacity);
                }
            }
            (owner, _) => self.owner = owner,
        }
    }

    /// `len` bytes from `offset`, if they are inside and all memory is one piece.
    #[inline]
    pub(crate) fn one_part(&self, offset: u64, len: usize) -> Option<Part> {
        let part = match &self.parts {
            Parts::One(part) => part,
            Parts::Whole => return part_at(offset, len),
            Parts::Many(_) => return None,
        };
        let offset = usize::try_from(offset).ok().filter(|&offset| offset <= part.len)?;
        (len <= part.len - offset).then(|| part.cut(offset, len))
    }

    /// Calls `f` for each piece of `len` bytes from `offset`; false if they are not all inside.
    #[inline]
    pub(crate) fn for_each(&self, offset: u64, len: u64, mut f: impl FnMut(Part)) -> bool {
        if offset.checked_add(len).is_none_or(|end| end > self.len()) {
            return false;
        }
        match &self.parts {
            Parts::One(part) => f(part.cut(offset as usize, len as usize)),
            Parts::Whole => match part_at(offset, len as usize) {
                Some(part) => f(part),
                None => return len == 0,
            },
            Parts::Many(parts) => {
                let (mut at, stop) = (offset, offset + len);
                let first = parts.partition_point(|&(_, end)| end <= at);
                for &(part, end) in &parts[first..] {
                    if at >= stop {
                        break;
                    }
                    let start = end - part.len as u64;
                    let until = end.min(stop);
                    f(part.cut((at - start) as usize, (until - at) as usize));
                    at = until;
                }
            }
        }
        true
    }
}

impl Drop for Memory {
    #[inline]
    fn drop(&mut self) {
        if self.is_owned() {
            self.drop_owned();
        }
    }
}

impl Memory {
    fn drop_owned(&mut self) {
        if let (Owner::Shared, Parts::One(part)) = (&self.owner, &self.parts) {
            let bytes = std::ptr::slice_from_raw_parts(part.ptr().cast_const(), part.len());
            // SAFETY: the pointer came from `Arc::into_raw` of an `Arc<[u8]>` of this length; its count is given back once.
            drop(unsafe { Arc::from_raw(bytes) });
        }
        self.give_back(drop);
    }
}

#[derive(Debug)]
enum Slot {
    /// The next vacant slot.
    Vacant(u32),
    Taken(Memory),
}

const NONE: u32 = u32::MAX;

/// All memory lent to one engine, by id. Ids are not used again soon: a slot's serial is part of them.
#[derive(Debug)]
pub struct Table {
    slots: Vec<(Slot, u32)>,
    vacant: u32,
    count: usize,
    stamp: Stamp,
    written_count: u64,
    notes: Notes,
}

/// While a table has the same stamp, nobody wrote to any memory in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    table: u64,
    count: u64,
}

/// While a table has the same stamp, all that was in it still is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    table: u64,
    removed_count: u64,
}

impl Default for Table {
    fn default() -> Self {
        static TABLE_COUNT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: numbers need only differ.
        let table = TABLE_COUNT.fetch_add(1, Ordering::Relaxed);
        let stamp = Stamp { table, removed_count: 0 };
        let notes = Notes::default();
        Self { slots: Vec::new(), vacant: NONE, count: 0, stamp, written_count: 0, notes }
    }
}

impl Table {
    /// Takes memory; its name from now on.
    pub fn insert(&mut self, memory: Memory) -> MemoryId {
        self.count += 1;
        if let Some((slot, serial)) = self.slots.get_mut(self.vacant as usize) {
            let index = self.vacant;
            if let Slot::Vacant(next) = *slot {
                self.vacant = next;
            }
            *slot = Slot::Taken(memory);
            return MemoryId::new(index, *serial);
        }
        let index = u32::try_from(self.slots.len()).expect("four thousand million buffers");
        self.slots.push((Slot::Taken(memory), 0));
        MemoryId::new(index, 0)
    }

    /// Gives memory back. Its name is void.
    pub fn remove(&mut self, id: MemoryId) -> Option<Memory> {
        let (slot, serial) = self.slots.get_mut(id.index())?;
        if *serial != id.serial() || matches!(slot, Slot::Vacant(_)) {
            return None;
        }
        *serial = serial.wrapping_add(1);
        self.notes.withdraw(id);
        self.count -= 1;
        self.stamp.removed_count += 1;
        let last = std::mem::replace(slot, Slot::Vacant(self.vacant));
        self.vacant = id.index() as u32;
        match last {
            Slot::Taken(memory) => Some(memory),
            Slot::Vacant(_) => None,
        }
    }

    /// What is lent under this name.
    pub fn get(&self, id: MemoryId) -> Option<&Memory> {
        match self.slots.get(id.index())? {
            (Slot::Taken(memory), serial) if *serial == id.serial() => Some(memory),
            _ => None,
        }
    }

    /// How many pieces of memory are lent.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nothing is lent.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Copies `bytes` in; false if the name or the range is void, or the memory is not to be written.
    pub fn copy_in(&mut self, id: MemoryId, offset: u64, bytes: &[u8]) -> bool {
        self.note_written();
        let Some(memory) = self.get(id).filter(|memory| memory.is_writable()) else { return false };
        let mut rest = bytes;
        memory.for_each(offset, bytes.len() as u64, |part| {
            let (now, later) = rest.split_at(part.len());
            // SAFETY: `part` is inside memory this table holds (checked by `for_each`) and may write (checked above);
            // `bytes` is borrowed by the caller, who cannot at the same time borrow what he lent to the table.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), part.ptr(), part.len()) };
            rest = later;
        })
    }

    /// Appends `len` bytes to `out`; false, with nothing appended, if the name or the range is void.
    pub fn copy_out(&self, id: MemoryId, offset: u64, len: usize, out: &mut Vec<u8>) -> bool {
        let Some(memory) = self.get(id) else { return false };
        memory.for_each(offset, len as u64, |part| {
            // SAFETY: `part` is inside memory this table holds, readable as long as it does; `out` is the caller's own.
            out.extend_from_slice(unsafe { std::slice::from_raw_parts(part.ptr(), part.len()) });
        })
    }
}

impl Table {
    /// Another process is told where this memory is. Returned are the address of a word that it reads after the bytes, and what stands in that word as
    /// long as the memory is lent.
    pub(crate) fn note_told(&mut self, id: MemoryId) -> Option<(usize, u64)> {
        self.get(id)?;
        self.notes.tell(id)
    }

    /// Which table this is, and how much was taken out of it.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Somebody writes, or has just written, to memory in it: each link that has bytes put there must say so.
    #[inline]
    pub(crate) fn note_written(&mut self) {
        self.written_count += 1;
    }

    /// Whether that is all of the address space, of which anything may be gone.
    fn is_all(&self, id: MemoryId) -> bool {
        self.get(id).is_some_and(|memory| matches!(memory.parts, Parts::Whole))
    }

    /// What was written so far.
    pub(crate) fn written(&self) -> Written {
        Written { table: self.stamp.table, count: self.written_count }
    }

    /// Copies bytes to fill `out`; false, with `out` as it was, if the name or the range is void.
    pub(crate) fn copy_to(&self, id: MemoryId, offset: u64, out: &mut [u8]) -> bool {
        let Some(memory) = self.get(id) else { return false };
        let (len, mut rest) = (out.len() as u64, out);
        memory.for_each(offset, len, |part| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(part.len());
            // SAFETY: `part` is inside memory this table holds, readable as long as it does, and not what `out` borrows.
            unsafe { std::ptr::copy_nonoverlapping(part.ptr(), now.as_mut_ptr(), part.len()) };
            rest = later;
        })
    }
}

impl UserMemory for Table {
    fn gather(&mut self, id: MemoryId, offset: u64, len: usize, out: &mut Vec<u8>) {
        let is_whole = self.copy_out(id, offset, len, out);
        debug_assert!(
            is_whole || self.is_all(id),
            "{len} bytes at {offset} of {id:?} are not there"
        );
        if !is_whole {
            out.resize(out.len() + len, 0);
        }
    }

    fn place(&mut self, id: MemoryId, offset: u64, bytes: &[u8]) {
        let is_whole = self.copy_in(id, offset, bytes);
        debug_assert!(is_whole || self.is_all(id), "{offset} of {id:?} has no place");
    }

    fn copy_between(&mut self, from: (MemoryId, u64), to: (MemoryId, u64), len: usize) -> bool {
        self.note_written();
        let target = self.get(to.0).filter(|memory| memory.is_writable());
        let (Some(source), Some(target)) = (self.get(from.0), target) else { return false };
        let (len, mut done, mut is_there) = (len as u64, 0, true);
        let is_whole = source.for_each(from.1, len, |part| {
            let mut at = part.ptr();
            is_there &= target.for_each(to.1 + done, part.len() as u64, |room| {
                // SAFETY: both are inside memory this table holds (checked by `for_each`), the one readable, the other to be written (checked above), and
                // nobody takes either back while the table is borrowed. Who sends to itself may have lent the same bytes twice: `copy` minds that. `at` stays
                // inside `part`, for the rooms are as long as it together.
                unsafe {
                    std::ptr::copy(at, room.ptr(), room.len());
                    at = at.add(room.len());
                }
            });
            done += part.len() as u64;
        });
        is_whole && is_there
    }

    fn place_all(&mut self, copies: &[Copy<'_>], copier: &mut Copier) {
        copier.batch.clear();
        self.note_written();
        for &Copy { id, offset, bytes } in copies {
            let lent = self.get(id).filter(|memory| memory.is_writable());
            let mut rest = bytes;
            let is_whole = lent.is_some_and(|memory| {
                memory.for_each(offset, bytes.len() as u64, |part| {
                    let (now, later) = rest.split_at(part.len());
                    copier.batch.push(Piece {
                        from: now.as_ptr(),
                        to: part.ptr(),
                        len: part.len(),
                    });
                    rest = later;
                })
            });
            debug_assert!(is_whole || self.is_all(id), "{offset} of {id:?} has no place");
        }
        // SAFETY: `from` is borrowed by the caller until this returns. `to` is inside memory this table holds (checked by
        // `for_each`) and may write; we borrow the table alone, so nobody takes it back meanwhile, and who lent it touches it
        // no more. The caller cannot borrow what he lent to the table, so the two have no byte in common.
        unsafe { copier.run() };
    }

    fn update(
        &mut self,
        id: MemoryId,
        offset: u64,
        len: usize,
        width: usize,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) {
        self.note_written();
        let mut room = [0; UPDATE_LEN_MAX];
        let mut more = Vec::new();
        let bytes = match room.get_mut(..len) {
            Some(bytes) => bytes,
            None => {
                more.resize(len, 0);
                &mut more[..]
            }
        };
        let memory = self.get(id);
        let whole = memory.and_then(|memory| memory.one_part(offset, len));
        let Some(elements) = whole.and_then(|part| Elements::new(part, width)) else {
            let is_there = self.copy_to(id, offset, bytes);
            debug_assert!(
                is_there || self.is_all(id),
                "{len} bytes at {offset} of {id:?} are not there"
            );
            if is_there && change(bytes) {
                self.place(id, offset, bytes);
            }
            return;
        };
        elements.load(bytes);
        if change(bytes) && memory.is_some_and(Memory::is_writable) {
            elements.store(bytes);
        }
    }

    fn reaches(&mut self, id: MemoryId, offset: u64, len: u64, writes: bool) -> bool {
        match self.get(id).map(|memory| &memory.parts) {
            Some(Parts::Whole) => is_there(offset, len, writes),
            Some(_) => true,
            None => false,
        }
    }
}

/// Bytes that are updated at once without asking for memory: what one request holds.
const UPDATE_LEN_MAX: usize = 1024;

#[cfg(test)]
mod tests;
