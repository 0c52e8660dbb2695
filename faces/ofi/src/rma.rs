//! Reads and writes of a peer's memory: `fi_read`, `fi_write` and their relatives.

use std::ffi::c_void;

use crate::abi::{MsgRma, Obj, RmaOps, flag, iovec};
use crate::common::port;
use crate::memory;
use crate::port::Port;
use crate::remote::{How, There};

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

/// An operation with the endpoint's default flags.
fn as_usual(port: &Port, context: *mut c_void) -> How {
    How { context: context as usize, flags: port.tx_flags, is_silent: false }
}

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
    let port = port!(ep);
    // SAFETY: the application's memory, ours until the operation has completed.
    let (memory, _) = unsafe { memory::writable(buf, len) };
    port.get(&There { peer, key, offset }, memory, as_usual(port, context))
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
    let port = port!(ep);
    // SAFETY: as for `read`, in `count` pieces.
    let Some((memory, _)) = (unsafe { memory::pieces(pieces, count, true) }) else {
        return -(libc::EINVAL as isize);
    };
    port.get(&There { peer, key, offset }, memory, as_usual(port, context))
}

/// The place a description names, and how the operation is to be; `None` if it names several.
///
/// # Safety
/// The description must be whole.
unsafe fn described(msg: &MsgRma, flags: u64) -> Option<(There, How)> {
    if msg.rma_iov_count != 1 {
        return None; // as `rma_iov_limit` says
    }
    // SAFETY: there is one, says the line above; the application's, says the caller.
    let there = unsafe { &*msg.rma_iov };
    let how = How { context: msg.context as usize, flags, is_silent: false };
    Some((There { peer: msg.addr, key: there.key, offset: there.addr }, how))
}

unsafe extern "C" fn readmsg(ep: Obj, msg: *const MsgRma, flags: u64) -> isize {
    let port = port!(ep);
    // SAFETY: the application's description, and the memory it names, as for `read`.
    unsafe {
        let msg = &*msg;
        let room = memory::pieces(msg.msg_iov, msg.iov_count, true);
        match (described(msg, flags), room) {
            (Some((there, how)), Some((memory, _))) => port.get(&there, memory, how),
            _ => -(libc::EINVAL as isize),
        }
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
    let port = port!(ep);
    // SAFETY: the application's bytes, ours until the operation has completed.
    let Some(memory) = (unsafe { memory::readable(buf, len) }) else {
        return -(libc::EFAULT as isize);
    };
    port.put(&There { peer, key, offset }, None, memory, as_usual(port, context))
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
    let port = port!(ep);
    // SAFETY: as for `write`.
    let Some(memory) = (unsafe { memory::readable(buf, len) }) else {
        return -(libc::EFAULT as isize);
    };
    port.put(&There { peer, key, offset }, Some(data), memory, as_usual(port, context))
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
    let port = port!(ep);
    // SAFETY: as for `write`, in `count` pieces.
    let Some((memory, _)) = (unsafe { memory::pieces(pieces, count, false) }) else {
        return -(libc::EINVAL as isize);
    };
    port.put(&There { peer, key, offset }, None, memory, as_usual(port, context))
}

unsafe extern "C" fn writemsg(ep: Obj, msg: *const MsgRma, flags: u64) -> isize {
    let port = port!(ep);
    // SAFETY: the application's description, and the bytes it names, as for `write`.
    unsafe {
        let msg = &*msg;
        let Some((there, how)) = described(msg, flags) else { return -(libc::EINVAL as isize) };
        let data = (flags & flag::REMOTE_CQ_DATA != 0).then_some(msg.data);
        let memory = if flags & flag::INJECT != 0 {
            memory::copied(msg.msg_iov, msg.iov_count).into()
        } else {
            match memory::pieces(msg.msg_iov, msg.iov_count, false) {
                Some((memory, _)) => memory,
                None => return -(libc::EINVAL as isize),
            }
        };
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
    let bytes = unsafe { memory::bytes(buf, len) };
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
    let bytes = unsafe { memory::bytes(buf, len) };
    port!(ep).put_copied(&There { peer, key, offset }, Some(data), bytes)
}
