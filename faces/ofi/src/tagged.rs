//! Messages with a tag: `fi_tsend`, `fi_trecv` and their relatives.

use std::ffi::c_void;
use std::sync::Arc;

use packhorse::raw::Use;

use crate::abi::{MsgTagged, Obj, TaggedOps, flag, iovec};
use crate::common::{or_return, port, usual};
use crate::offer::COPY_LEN_MAX;
use crate::op::{Family, How, Letter, Wanted};
use crate::port::Port;
use crate::{flags, memory, trigger};

pub(crate) static OPS: TaggedOps = TaggedOps {
    size: size_of::<TaggedOps>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};

fn letter(to: u64, tag: u64, data: Option<u64>) -> Letter {
    Letter { family: Family::Tagged, to, tag, data }
}

fn wanted(from: u64, tag: u64, ignore: u64) -> Wanted {
    Wanted { family: Family::Tagged, from, tag, ignore }
}

unsafe extern "C" fn send(
    ep: Obj,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, send_flags);
    // SAFETY: the application's bytes, ours until the operation has completed.
    unsafe { send_one(port, &letter(to, tag, None), buf, len, how) }
}

unsafe extern "C" fn senddata(
    ep: Obj,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, send_flags);
    // SAFETY: as for `send`.
    unsafe { send_one(port, &letter(to, tag, Some(data)), buf, len, how) }
}

/// Sends one piece; a short one that need not wait for anything without lending it first.
///
/// # Safety
/// `len` bytes at `buf`, the provider's until the operation has completed.
unsafe fn send_one(
    port: &Arc<Port>,
    letter: &Letter,
    buf: *const c_void,
    len: usize,
    how: How,
) -> isize {
    if how.when.is_none() && port.is_complete_at_once(letter, len as u64, how.flags) {
        // SAFETY: says the caller.
        let bytes = or_return!(unsafe { memory::bytes_up_to(buf, len, COPY_LEN_MAX) });
        if let Some(status) = port.send_copy(letter, bytes, how.context, how.flags) {
            return status;
        }
    }
    // SAFETY: says the caller.
    let memory = or_return!(unsafe { memory::readable(buf, len) });
    port.send(letter, memory, how)
}

unsafe extern "C" fn sendv(
    ep: Obj,
    pieces: *const iovec,
    _descs: *mut *mut c_void,
    count: usize,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, send_flags);
    // SAFETY: as for `send`, in `count` pieces.
    let (memory, _) = or_return!(unsafe { memory::pieces(pieces, count, false) });
    port.send(&letter(to, tag, None), memory, how)
}

unsafe extern "C" fn sendmsg(ep: Obj, msg: *const MsgTagged, flags: u64) -> isize {
    let port = port!(ep);
    // SAFETY: the application's description, and the bytes it names, as for `send`.
    unsafe {
        or_return!(flags::check(flags, flags::SEND));
        let Some(msg) = msg.as_ref() else { return -(libc::EINVAL as isize) };
        let how = or_return!(trigger::how(msg.context, flags));
        send_described(port, msg, how)
    }
}

/// Sends a message that came as a description.
///
/// # Safety
/// The bytes it names must be the provider's until the operation has completed.
pub(crate) unsafe fn send_described(port: &Arc<Port>, msg: &MsgTagged, how: How) -> isize {
    let data = (how.flags & flag::REMOTE_CQ_DATA != 0).then_some(msg.data);
    // SAFETY: says the caller.
    let memory = or_return!(unsafe { memory::described(msg.msg_iov, msg.iov_count, how.flags) });
    port.send(&letter(msg.addr, msg.tag, data), memory, how)
}

unsafe extern "C" fn inject(ep: Obj, buf: *const c_void, len: usize, to: u64, tag: u64) -> isize {
    // SAFETY: the application's bytes, for the time of the call.
    let bytes = or_return!(unsafe { memory::bytes(buf, len) });
    port!(ep).inject(&letter(to, tag, None), bytes)
}

unsafe extern "C" fn injectdata(
    ep: Obj,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: u64,
    tag: u64,
) -> isize {
    // SAFETY: as for `inject`.
    let bytes = or_return!(unsafe { memory::bytes(buf, len) });
    port!(ep).inject(&letter(to, tag, Some(data)), bytes)
}

unsafe extern "C" fn recv(
    ep: Obj,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, rx_flags);
    // SAFETY: the application's memory, ours until the operation has completed.
    let room = or_return!(unsafe { memory::writable(buf, len) });
    port.recv(&wanted(from, tag, ignore), room, how, Use::Once)
}

unsafe extern "C" fn recvv(
    ep: Obj,
    pieces: *const iovec,
    _descs: *mut *mut c_void,
    count: usize,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, rx_flags);
    // SAFETY: as for `recv`, in `count` pieces.
    let room = or_return!(unsafe { memory::pieces(pieces, count, true) });
    port.recv(&wanted(from, tag, ignore), room, how, Use::Once)
}

unsafe extern "C" fn recvmsg(ep: Obj, msg: *const MsgTagged, flags: u64) -> isize {
    let port = port!(ep);
    or_return!(flags::check_recv(flags, flags::TAGGED_RECV));
    // SAFETY: the application's description, and the memory it names, as for `recv`.
    match unsafe { msg.as_ref() } {
        // SAFETY: as above.
        Some(msg) => unsafe { receive(port, msg, flags) },
        None => -(libc::EINVAL as isize),
    }
}

/// Receives, or looks for a message, or receives one that was found so.
///
/// # Safety
/// The memory named must be the provider's until the operation has completed.
unsafe fn receive(port: &Arc<Port>, msg: &MsgTagged, flags: u64) -> isize {
    let context = msg.context as usize;
    if flags & flag::PEEK != 0 {
        return port.peek(&wanted(msg.addr, msg.tag, msg.ignore), context, flags);
    }
    if flags & flag::CLAIM != 0 {
        // SAFETY: says the caller.
        let room = or_return!(unsafe { memory::pieces(msg.msg_iov, msg.iov_count, true) });
        return port.claim(room, Family::Tagged, context, flags);
    }
    // SAFETY: says the caller.
    unsafe { receive_described(port, msg, or_return!(trigger::how(msg.context, flags))) }
}

/// Receives into what came as a description.
///
/// # Safety
/// As for `receive`.
pub(crate) unsafe fn receive_described(port: &Arc<Port>, msg: &MsgTagged, how: How) -> isize {
    // SAFETY: says the caller.
    let room = or_return!(unsafe { memory::pieces(msg.msg_iov, msg.iov_count, true) });
    port.recv(&wanted(msg.addr, msg.tag, msg.ignore), room, how, Use::Once)
}
