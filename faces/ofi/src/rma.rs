//! Reads and writes of a peer's memory: `fi_read`, `fi_write` and their relatives.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::abi::{MsgRma, Obj, RmaOps, flag, iovec};
use crate::common::{or_return, port, usual};
use crate::op::How;
use crate::port::Port;
use crate::remote::There;
use crate::{flags, memory, trigger};

pub(crate) static OPS: RmaOps = RmaOps {
    size: size_of::<RmaOps>(),
    read,
    readv,
    readmsg,
    write,
    writev,
    writemsg,
    inject,
    writedata,
    injectdata,
};

unsafe extern "C" fn read(
    ep: Obj,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    peer: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, tx_flags);
    // SAFETY: the application's memory, ours until the operation has completed.
    let (memory, _) = or_return!(unsafe { memory::writable(buf, len) });
    port.get(&There { peer, key, offset }, memory, how)
}

unsafe extern "C" fn readv(
    ep: Obj,
    pieces: *const iovec,
    _descs: *mut *mut c_void,
    count: usize,
    peer: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, tx_flags);
    // SAFETY: as for `read`, in `count` pieces.
    let (memory, _) = or_return!(unsafe { memory::pieces(pieces, count, true) });
    port.get(&There { peer, key, offset }, memory, how)
}

/// The place that a description names; an error if there is none, or if it names several.
///
/// # Safety
/// The description must be whole.
unsafe fn place(msg: &MsgRma) -> Result<There, c_int> {
    // One, as `rma_iov_limit` says.
    let is_one = msg.rma_iov_count == 1;
    // SAFETY: null, or the application's, says the caller.
    let there = unsafe { msg.rma_iov.as_ref() }.filter(|_| is_one).ok_or(libc::EINVAL)?;
    Ok(There { peer: msg.addr, key: there.key, offset: there.addr })
}

unsafe extern "C" fn readmsg(ep: Obj, msg: *const MsgRma, flags: u64) -> isize {
    let port = port!(ep);
    // SAFETY: the application's description, and the memory it names, as for `read`.
    unsafe {
        or_return!(flags::check(flags, flags::OPERATION));
        let Some(msg) = msg.as_ref() else { return -(libc::EINVAL as isize) };
        let how = or_return!(trigger::how(msg.context, flags));
        read_described(port, msg, how)
    }
}

/// Reads as a description says.
///
/// # Safety
/// The description must be whole, and the memory it names the provider's until the operation has completed.
pub(crate) unsafe fn read_described(port: &Arc<Port>, msg: &MsgRma, how: How) -> isize {
    // SAFETY: says the caller.
    unsafe {
        let there = or_return!(place(msg));
        let (memory, _) = or_return!(memory::pieces(msg.msg_iov, msg.iov_count, true));
        port.get(&there, memory, how)
    }
}

unsafe extern "C" fn write(
    ep: Obj,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    peer: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, tx_flags);
    // SAFETY: the application's bytes, ours until the operation has completed.
    let memory = or_return!(unsafe { memory::readable(buf, len) });
    port.put(&There { peer, key, offset }, None, memory, how)
}

unsafe extern "C" fn writedata(
    ep: Obj,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    peer: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, tx_flags);
    // SAFETY: as for `write`.
    let memory = or_return!(unsafe { memory::readable(buf, len) });
    port.put(&There { peer, key, offset }, Some(data), memory, how)
}

unsafe extern "C" fn writev(
    ep: Obj,
    pieces: *const iovec,
    _descs: *mut *mut c_void,
    count: usize,
    peer: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, tx_flags);
    // SAFETY: as for `write`, in `count` pieces.
    let (memory, _) = or_return!(unsafe { memory::pieces(pieces, count, false) });
    port.put(&There { peer, key, offset }, None, memory, how)
}

unsafe extern "C" fn writemsg(ep: Obj, msg: *const MsgRma, flags: u64) -> isize {
    let port = port!(ep);
    // SAFETY: the application's description, and the bytes it names, as for `write`.
    unsafe {
        or_return!(flags::check(flags, flags::SEND));
        let Some(msg) = msg.as_ref() else { return -(libc::EINVAL as isize) };
        let how = or_return!(trigger::how(msg.context, flags));
        write_described(port, msg, how)
    }
}

/// Writes as a description says.
///
/// # Safety
/// As for `read_described`.
pub(crate) unsafe fn write_described(port: &Arc<Port>, msg: &MsgRma, how: How) -> isize {
    // SAFETY: says the caller.
    unsafe {
        let there = or_return!(place(msg));
        let data = (how.flags & flag::REMOTE_CQ_DATA != 0).then_some(msg.data);
        let memory = or_return!(memory::described(msg.msg_iov, msg.iov_count, how.flags));
        port.put(&there, data, memory, how)
    }
}

unsafe extern "C" fn inject(
    ep: Obj,
    buf: *const c_void,
    len: usize,
    peer: u64,
    offset: u64,
    key: u64,
) -> isize {
    // SAFETY: the application's bytes, for the time of the call.
    let bytes = or_return!(unsafe { memory::bytes(buf, len) });
    port!(ep).put_copied(&There { peer, key, offset }, None, bytes)
}

unsafe extern "C" fn injectdata(
    ep: Obj,
    buf: *const c_void,
    len: usize,
    data: u64,
    peer: u64,
    offset: u64,
    key: u64,
) -> isize {
    // SAFETY: as for `inject`.
    let bytes = or_return!(unsafe { memory::bytes(buf, len) });
    port!(ep).put_copied(&There { peer, key, offset }, Some(data), bytes)
}
