//! Atomic operations on a peer's memory: plain, fetching, comparing.
//!
//! Every call, in whatever form its operands come, becomes one `Call`: lists of elements, the place, the operation. Operands are copied
//! when the operation is posted; results go to the application's memory when they come.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use packhorse::raw::Memory;

use crate::abi::{
    AtomicAttr, AtomicOps, Desc, Descs, Ioc, MsgAtomic, MsgElements, Obj, code, flag, iovec,
};
use crate::common::or_return;
use crate::ep::Ep;
use crate::offer::PIECE_COUNT_MAX;
use crate::op::{How, SILENT};
use crate::port::Port;
use crate::remote::{Sum, There};
use crate::{flags, memory, trigger};

pub(crate) static OPS: AtomicOps = AtomicOps {
    size: size_of::<AtomicOps>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev,
    readwritemsg,
    compwrite,
    compwritev,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

type Ctx = *mut c_void;
type Buf = *const c_void;

/// A list of elements in the application's memory.
#[derive(Clone, Copy)]
struct Elements {
    list: *const Ioc,
    count: usize,
}

const NO_ELEMENTS: Elements = Elements { list: std::ptr::null(), count: 0 };

/// One piece of elements as a list of one.
fn piece(buf: *const c_void, count: usize) -> Ioc {
    Ioc { addr: buf.cast_mut(), count }
}

fn list(piece: &Ioc) -> Elements {
    Elements { list: &raw const *piece, count: 1 }
}

impl Elements {
    /// The pieces in bytes, and how many elements there are in all.
    ///
    /// # Safety
    /// The list must be null, or as long as it says.
    unsafe fn pieces(self, width: usize) -> Result<([iovec; PIECE_COUNT_MAX], usize), c_int> {
        let mut pieces = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PIECE_COUNT_MAX];
        if self.count > PIECE_COUNT_MAX {
            return Err(libc::EINVAL);
        }
        if self.list.is_null() && self.count > 0 {
            return Err(libc::EFAULT);
        }
        let mut total: usize = 0;
        for (index, piece) in pieces.iter_mut().enumerate().take(self.count) {
            // SAFETY: `index` is below `count`, and the list is there.
            let ioc = unsafe { self.list.add(index).read() };
            let len = ioc.count.checked_mul(width).ok_or(libc::EINVAL)?;
            total = total.checked_add(ioc.count).ok_or(libc::EINVAL)?;
            *piece = iovec { iov_base: ioc.addr, iov_len: len };
        }
        Ok((pieces, total))
    }

    /// A copy of the elements, of which there must be so many.
    ///
    /// # Safety
    /// The list must be null, or as long as it says, and its elements valid for reads.
    unsafe fn copied(self, width: usize, count: usize) -> Result<Vec<u8>, c_int> {
        // SAFETY: says the caller.
        unsafe {
            match self.pieces(width)? {
                (pieces, total) if total == count => memory::copied(pieces.as_ptr(), self.count),
                _ => Err(libc::EINVAL),
            }
        }
    }

    /// The elements as they are, a place for results perhaps, of which there must be so many.
    ///
    /// # Safety
    /// The list must be null, or as long as it says, and its elements the provider's until the operation has completed.
    unsafe fn lent(self, width: usize, count: usize, is_writable: bool) -> Result<Memory, c_int> {
        // SAFETY: says the caller.
        unsafe {
            let (pieces, total) = self.pieces(width)?;
            let room = memory::pieces(pieces.as_ptr(), self.count, is_writable);
            room.and_then(|(memory, _)| if total == count { Ok(memory) } else { Err(libc::EINVAL) })
        }
    }
}

/// Operands, what to compare with, and the place of results with its length.
type Given = (Vec<u8>, Vec<u8>, Option<(Memory, u32)>);

/// Where the operands and what to compare with lie, neither of them read yet, and the place of results with its length.
type Lent = (Memory, Memory, Option<(Memory, u32)>);

/// An operation, whatever form it came in.
struct Call {
    ep: Obj,
    there: There,
    datatype: c_int,
    op: c_int,
    operands: Elements,
    compare: Elements,
    /// Where what was there before goes, if that is wanted.
    result: Option<Elements>,
    how: How,
}

impl Call {
    /// What a description says.
    ///
    /// # Safety
    /// The description must be whole.
    unsafe fn described(
        ep: Obj,
        msg: &MsgAtomic,
        compare: Elements,
        result: Option<Elements>,
        how: How,
    ) -> Result<Self, c_int> {
        // SAFETY: null, or one place, as `rma_iov_limit` says; the application's, says the caller.
        let place = unsafe { msg.rma_iov.as_ref() }.filter(|_| msg.rma_iov_count == 1);
        let place = place.ok_or(libc::EINVAL)?;
        let there = There { peer: msg.addr, key: place.key, offset: place.addr };
        let operands = Elements { list: msg.msg_iov, count: msg.iov_count };
        let (datatype, op) = (msg.datatype as c_int, msg.op as c_int);
        Ok(Self { ep, there, datatype, op, operands, compare, result, how })
    }

    /// # Safety
    /// `ep` must be an open endpoint of ours, and the lists as `Elements` says.
    unsafe fn post(self) -> isize {
        // SAFETY: says the caller.
        let Some(port) = (unsafe { Ep::of(self.ep) }).1 else {
            return -(code::EOPBADSTATE as isize);
        };
        // SAFETY: says the caller.
        unsafe { self.post_by(port) }
    }

    /// # Safety
    /// As for `post`.
    unsafe fn post_by(self, port: &Arc<Port>) -> isize {
        let Some(sum) = Sum::of(self.datatype, self.op) else {
            return -(libc::EOPNOTSUPP as isize);
        };
        if sum.op.compares() == (self.compare.count == 0) || self.is_idle(&sum) {
            return -(libc::EOPNOTSUPP as isize);
        }
        if self.how.when.is_some() {
            // SAFETY: says the caller.
            let (operands, compare, result) = or_return!(unsafe { self.lent_elements(sum) });
            return port.atomic_later(&self.there, sum, (operands, compare), result, self.how);
        }
        // SAFETY: says the caller.
        let (operands, compare, result) = or_return!(unsafe { self.elements(sum) });
        port.atomic(&self.there, sum, (&operands, &compare), result, self.how)
    }

    /// Operands, what to compare with, and the place of results with its length: all of as many elements, and not of too many.
    ///
    /// # Safety
    /// As for `post`.
    unsafe fn elements(&self, sum: Sum) -> Result<Given, c_int> {
        let width = sum.datatype.width();
        // SAFETY: says the caller.
        unsafe {
            let (count, len) = self.count(sum)?;
            let operands =
                if sum.op.writes() { self.operands.copied(width, count)? } else { Vec::new() };
            let compare =
                if sum.op.compares() { self.compare.copied(width, count)? } else { Vec::new() };
            let result = match self.result {
                Some(result) => Some((result.lent(width, count, true)?, len)),
                None => None,
            };
            Ok((operands, compare, result))
        }
    }

    /// Where the operands and what to compare with lie, neither of them read yet, and the place of results with its length.
    ///
    /// # Safety
    /// As for `post`; the elements must be the provider's until the operation has completed.
    unsafe fn lent_elements(&self, sum: Sum) -> Result<Lent, c_int> {
        let width = sum.datatype.width();
        // SAFETY: says the caller.
        unsafe {
            let (count, len) = self.count(sum)?;
            let lent = |elements: Elements, is_there: bool| match is_there {
                true => elements.lent(width, count, false),
                false => Ok(Memory::from(Vec::<u8>::new())),
            };
            let operands = lent(self.operands, sum.op.writes())?;
            let compare = lent(self.compare, sum.op.compares())?;
            let result = match self.result {
                Some(result) => Some((result.lent(width, count, true)?, len)),
                None => None,
            };
            Ok((operands, compare, result))
        }
    }

    /// How many elements there are, and their bytes.
    ///
    /// # Safety
    /// As for `post`.
    unsafe fn count(&self, sum: Sum) -> Result<(usize, u32), c_int> {
        // An operation that only fetches has no operands: the place of its results says how many.
        let counted = self.result.filter(|_| !sum.op.writes()).unwrap_or(self.operands);
        // SAFETY: says the caller.
        let (_, count) = unsafe { counted.pieces(sum.datatype.width()) }?;
        Ok((count, sum.len(count).ok_or(libc::EINVAL)?))
    }

    /// Neither changes nor fetches anything.
    fn is_idle(&self, sum: &Sum) -> bool {
        !sum.op.writes() && self.result.is_none()
    }
}

/// With the endpoint's default flags.
///
/// # Safety
/// `ep` must be an open endpoint of ours.
unsafe fn as_usual(ep: Obj, context: Ctx) -> Result<How, c_int> {
    // SAFETY: says the caller; where the flags make a condition of the context, it is the application's.
    unsafe { trigger::how(context, Ep::of(ep).0.tx_flags) }
}

unsafe extern "C" fn write(
    ep: Obj,
    buf: Buf,
    count: usize,
    _desc: Desc,
    peer: u64,
    offset: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: Ctx,
) -> isize {
    let (there, operands) = (There { peer, key, offset }, piece(buf, count));
    // SAFETY: an endpoint of ours; so many elements of the application, for the time of the call.
    unsafe {
        let (operands, how) = (list(&operands), or_return!(as_usual(ep, context)));
        Call { ep, there, datatype, op, operands, compare: NO_ELEMENTS, result: None, how }.post()
    }
}

unsafe extern "C" fn writev(
    ep: Obj,
    iocs: *const Ioc,
    _descs: Descs,
    count: usize,
    peer: u64,
    offset: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: Ctx,
) -> isize {
    let (there, operands) = (There { peer, key, offset }, Elements { list: iocs, count });
    // SAFETY: as for `write`, in `count` pieces.
    unsafe {
        let how = or_return!(as_usual(ep, context));
        Call { ep, there, datatype, op, operands, compare: NO_ELEMENTS, result: None, how }.post()
    }
}

unsafe extern "C" fn inject(
    ep: Obj,
    buf: Buf,
    count: usize,
    peer: u64,
    offset: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
) -> isize {
    let (there, operands, how) = (There { peer, key, offset }, piece(buf, count), SILENT);
    let (operands, compare, result) = (list(&operands), NO_ELEMENTS, None);
    // SAFETY: as for `write`.
    unsafe { Call { ep, there, datatype, op, operands, compare, result, how }.post() }
}

unsafe extern "C" fn readwrite(
    ep: Obj,
    buf: Buf,
    count: usize,
    _desc: Desc,
    result: *mut c_void,
    _result_desc: Desc,
    peer: u64,
    offset: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: Ctx,
) -> isize {
    let there = There { peer, key, offset };
    let (operands, result) = (piece(buf, count), piece(result, count));
    // SAFETY: as for `write`; room for so many elements, ours until the operation has completed.
    unsafe {
        let (operands, result, how) =
            (list(&operands), Some(list(&result)), or_return!(as_usual(ep, context)));
        Call { ep, there, datatype, op, operands, compare: NO_ELEMENTS, result, how }.post()
    }
}

unsafe extern "C" fn readwritev(
    ep: Obj,
    iocs: *const Ioc,
    _descs: Descs,
    count: usize,
    results: *mut Ioc,
    _result_descs: Descs,
    result_count: usize,
    peer: u64,
    offset: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: Ctx,
) -> isize {
    let (there, operands) = (There { peer, key, offset }, Elements { list: iocs, count });
    let result = Some(Elements { list: results, count: result_count });
    // SAFETY: as for `readwrite`, in pieces.
    unsafe {
        let how = or_return!(as_usual(ep, context));
        Call { ep, there, datatype, op, operands, compare: NO_ELEMENTS, result, how }.post()
    }
}

unsafe extern "C" fn compwrite(
    ep: Obj,
    buf: Buf,
    count: usize,
    _desc: Desc,
    compare: Buf,
    _compare_desc: Desc,
    result: *mut c_void,
    _result_desc: Desc,
    peer: u64,
    offset: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: Ctx,
) -> isize {
    let there = There { peer, key, offset };
    let pieces = (piece(buf, count), piece(compare, count), piece(result, count));
    // SAFETY: as for `readwrite`, with as many elements to compare with.
    unsafe {
        let (operands, compare, result) = (list(&pieces.0), list(&pieces.1), Some(list(&pieces.2)));
        let how = or_return!(as_usual(ep, context));
        Call { ep, there, datatype, op, operands, compare, result, how }.post()
    }
}

unsafe extern "C" fn compwritev(
    ep: Obj,
    iocs: *const Ioc,
    _descs: Descs,
    count: usize,
    compares: *const Ioc,
    _compare_descs: Descs,
    compare_count: usize,
    results: *mut Ioc,
    _result_descs: Descs,
    result_count: usize,
    peer: u64,
    offset: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: Ctx,
) -> isize {
    let (there, operands) = (There { peer, key, offset }, Elements { list: iocs, count });
    let compare = Elements { list: compares, count: compare_count };
    let result = Some(Elements { list: results, count: result_count });
    // SAFETY: as for `compwrite`, in pieces.
    unsafe {
        let how = or_return!(as_usual(ep, context));
        Call { ep, there, datatype, op, operands, compare, result, how }.post()
    }
}

/// A call that came as a description.
///
/// # Safety
/// As for `Call::post`; the description must be whole.
unsafe fn post_flagged(
    ep: Obj,
    msg: *const MsgAtomic,
    compare: Elements,
    result: Option<Elements>,
    flags: u64,
) -> isize {
    // SAFETY: says the caller.
    unsafe {
        or_return!(flags::check(flags, flags::OPERATION));
        let Some(msg) = msg.as_ref() else { return -(libc::EINVAL as isize) };
        let how = or_return!(trigger::how(msg.context, flags));
        or_return!(Call::described(ep, msg, compare, result, how)).post()
    }
}

/// A deferred call: elements to compare with, and a place for results, if there are some.
///
/// # Safety
/// As for `Call::post`; the descriptions must be whole.
pub(crate) unsafe fn post_described(
    port: &Arc<Port>,
    msg: &MsgAtomic,
    (compare, result): (Option<&MsgElements>, Option<&MsgElements>),
    how: How,
) -> isize {
    let elements = |it: &MsgElements| Elements { list: it.msg_iov, count: it.iov_count };
    let (compare, result) = (compare.map_or(NO_ELEMENTS, elements), result.map(elements));
    // SAFETY: says the caller. The endpoint is known already.
    unsafe {
        or_return!(Call::described(std::ptr::null_mut(), msg, compare, result, how)).post_by(port)
    }
}

unsafe extern "C" fn writemsg(ep: Obj, msg: *const MsgAtomic, flags: u64) -> isize {
    // SAFETY: an endpoint of ours, and the application's description.
    unsafe { post_flagged(ep, msg, NO_ELEMENTS, None, flags) }
}

unsafe extern "C" fn readwritemsg(
    ep: Obj,
    msg: *const MsgAtomic,
    results: *mut Ioc,
    _result_descs: Descs,
    result_count: usize,
    flags: u64,
) -> isize {
    let result = Some(Elements { list: results, count: result_count });
    // SAFETY: as for `writemsg`; room for results, ours until the operation has completed.
    unsafe { post_flagged(ep, msg, NO_ELEMENTS, result, flags) }
}

unsafe extern "C" fn compwritemsg(
    ep: Obj,
    msg: *const MsgAtomic,
    compares: *const Ioc,
    _compare_descs: Descs,
    compare_count: usize,
    results: *mut Ioc,
    _result_descs: Descs,
    result_count: usize,
    flags: u64,
) -> isize {
    let compare = Elements { list: compares, count: compare_count };
    let result = Some(Elements { list: results, count: result_count });
    // SAFETY: as for `readwritemsg`, with elements to compare with.
    unsafe { post_flagged(ep, msg, compare, result, flags) }
}

/// The three families of operations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Fetching,
    Comparing,
}

/// How many elements an operation takes at once, if there is such an operation.
fn valid(way: Way, datatype: c_int, op: c_int) -> Option<(usize, Sum)> {
    let sum = Sum::of(datatype, op)?;
    let is_there = match way {
        Way::Plain => sum.op.writes() && !sum.op.compares(),
        Way::Fetching => !sum.op.compares(),
        Way::Comparing => sum.op.compares(),
    };
    is_there.then(|| (sum.count_max(), sum))
}

/// # Safety
/// `count` must be null or valid for a write.
unsafe fn tell_valid(way: Way, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
    let Some((most, _)) = valid(way, datatype, op) else { return -libc::EOPNOTSUPP };
    if !count.is_null() {
        // SAFETY: says the caller.
        unsafe { count.write(most) };
    }
    0
}

unsafe extern "C" fn writevalid(_: Obj, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
    // SAFETY: the application's place, here and in the next two.
    unsafe { tell_valid(Way::Plain, datatype, op, count) }
}

unsafe extern "C" fn readwritevalid(
    _: Obj,
    datatype: c_int,
    op: c_int,
    count: *mut usize,
) -> c_int {
    // SAFETY: as for `writevalid`.
    unsafe { tell_valid(Way::Fetching, datatype, op, count) }
}

unsafe extern "C" fn compwritevalid(
    _: Obj,
    datatype: c_int,
    op: c_int,
    count: *mut usize,
) -> c_int {
    // SAFETY: as for `writevalid`.
    unsafe { tell_valid(Way::Comparing, datatype, op, count) }
}

/// `fi_query_atomic`: the same question to the domain.
pub(crate) unsafe extern "C" fn query(
    _domain: Obj,
    datatype: c_int,
    op: c_int,
    attr: *mut AtomicAttr,
    flags: u64,
) -> c_int {
    let way = match flags {
        0 => Way::Plain,
        flag::FETCH_ATOMIC => Way::Fetching,
        flag::COMPARE_ATOMIC => Way::Comparing,
        _ => return -code::EBADFLAGS,
    };
    let Some((count, sum)) = valid(way, datatype, op) else { return -libc::EOPNOTSUPP };
    if attr.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: the application's place.
    unsafe { attr.write(AtomicAttr { count, size: sum.datatype.width() }) };
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datatype_but_the_long_doubles_can_be_summed() {
        for datatype in 0..12 {
            assert!(valid(Way::Plain, datatype, 2).is_some_and(|(count, _)| count >= 32));
        }
        assert!(valid(Way::Plain, 12, 2).is_none() && valid(Way::Plain, 13, 2).is_none());
        assert!(valid(Way::Plain, -1, 2).is_none() && valid(Way::Plain, 0, 19).is_none());
    }

    #[test]
    fn operations_belong_to_their_families() {
        let (read, cswap, sum) = (10, 12, 2);
        assert!(valid(Way::Plain, 7, read).is_none() && valid(Way::Fetching, 7, read).is_some());
        assert!(valid(Way::Plain, 7, cswap).is_none() && valid(Way::Comparing, 7, cswap).is_some());
        assert!(valid(Way::Comparing, 7, sum).is_none() && valid(Way::Fetching, 7, sum).is_some());
    }
}
