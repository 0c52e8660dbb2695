//! Messages without a tag: `fi_send`, `fi_recv` and their relatives.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use packhorse::raw::Use;

use crate::abi::{Msg, MsgOps, Obj, code, flag, iovec};
use crate::common::{or_return, port, usual};
use crate::ep::Ep;
use crate::op::{Family, How, Letter, Wanted};
use crate::port::Port;
use crate::{flags, memory, trigger};

pub(crate) static OPS: MsgOps = MsgOps {
    size: size_of::<MsgOps>(),
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

fn letter(to: u64, data: Option<u64>) -> Letter {
    Letter { family: Family::Untagged, to, tag: 0, data }
}

/// Anything in the space of untagged messages.
fn wanted(from: u64) -> Wanted {
    Wanted { family: Family::Untagged, from, tag: 0, ignore: u64::MAX }
}

unsafe extern "C" fn send(
    ep: Obj,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, send_flags);
    // SAFETY: the application's bytes, ours until the operation has completed.
    let memory = or_return!(unsafe { memory::readable(buf, len) });
    port.send(&letter(to, None), memory, how)
}

unsafe extern "C" fn senddata(
    ep: Obj,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, send_flags);
    // SAFETY: as for `send`.
    let memory = or_return!(unsafe { memory::readable(buf, len) });
    port.send(&letter(to, Some(data)), memory, how)
}

unsafe extern "C" fn sendv(
    ep: Obj,
    pieces: *const iovec,
    _descs: *mut *mut c_void,
    count: usize,
    to: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, send_flags);
    // SAFETY: as for `send`, in `count` pieces.
    let (memory, _) = or_return!(unsafe { memory::pieces(pieces, count, false) });
    port.send(&letter(to, None), memory, how)
}

unsafe extern "C" fn sendmsg(ep: Obj, msg: *const Msg, flags: u64) -> isize {
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
pub(crate) unsafe fn send_described(port: &Arc<Port>, msg: &Msg, how: How) -> isize {
    let data = (how.flags & flag::REMOTE_CQ_DATA != 0).then_some(msg.data);
    // SAFETY: says the caller.
    let memory = or_return!(unsafe { memory::described(msg.msg_iov, msg.iov_count, how.flags) });
    port.send(&letter(msg.addr, data), memory, how)
}

unsafe extern "C" fn inject(ep: Obj, buf: *const c_void, len: usize, to: u64) -> isize {
    // SAFETY: the application's bytes, for the time of the call.
    let bytes = or_return!(unsafe { memory::bytes(buf, len) });
    port!(ep).inject(&letter(to, None), bytes)
}

unsafe extern "C" fn injectdata(
    ep: Obj,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: u64,
) -> isize {
    // SAFETY: as for `inject`.
    let bytes = or_return!(unsafe { memory::bytes(buf, len) });
    port!(ep).inject(&letter(to, Some(data)), bytes)
}

unsafe extern "C" fn recv(
    ep: Obj,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: an endpoint of ours; the application's memory, ours until the operation has completed.
    unsafe {
        let (ep, Some(port)) = Ep::of(ep) else { return -(code::EOPBADSTATE as isize) };
        let (room, uses) = (or_return!(memory::writable(buf, len)), uses(ep, ep.rx_flags));
        let how = or_return!(trigger::how(context, ep.rx_flags));
        port.recv(&wanted(from), room, how, uses)
    }
}

unsafe extern "C" fn recvv(
    ep: Obj,
    pieces: *const iovec,
    _descs: *mut *mut c_void,
    count: usize,
    from: u64,
    context: *mut c_void,
) -> isize {
    let (port, how) = usual!(ep, context, rx_flags);
    // SAFETY: as for `recv`, in `count` pieces.
    let room = or_return!(unsafe { memory::pieces(pieces, count, true) });
    port.recv(&wanted(from), room, how, Use::Once)
}

unsafe extern "C" fn recvmsg(ep: Obj, msg: *const Msg, flags: u64) -> isize {
    // SAFETY: an endpoint of ours; the application's description, and the memory it names, as for `recv`.
    unsafe {
        let (ep, Some(port)) = Ep::of(ep) else { return -(code::EOPBADSTATE as isize) };
        or_return!(flags::check_recv(flags, flags::RECV));
        let Some(msg) = msg.as_ref() else { return -(libc::EINVAL as isize) };
        receive(ep, port, msg, flags)
    }
}

/// Receives, or looks for a message, or receives one that was found so.
///
/// # Safety
/// The memory named must be the provider's until the operation has completed.
unsafe fn receive(ep: &Ep, port: &Arc<Port>, msg: &Msg, flags: u64) -> isize {
    let context = msg.context as usize;
    if flags & flag::PEEK != 0 {
        return port.peek(&wanted(msg.addr), context, flags);
    }
    if flags & flag::CLAIM != 0 {
        // SAFETY: says the caller.
        let room = or_return!(unsafe { memory::pieces(msg.msg_iov, msg.iov_count, true) });
        return port.claim(room, Family::Untagged, context, flags);
    }
    // SAFETY: says the caller.
    unsafe { receive_described(ep, port, msg, or_return!(trigger::how(msg.context, flags))) }
}

/// Receives into what came as a description.
///
/// # Safety
/// As for `receive`.
pub(crate) unsafe fn receive_described(ep: &Ep, port: &Arc<Port>, msg: &Msg, how: How) -> isize {
    // SAFETY: says the caller.
    let room = or_return!(unsafe { memory::pieces(msg.msg_iov, msg.iov_count, true) });
    let uses = uses(ep, how.flags);
    port.recv(&wanted(msg.addr), room, how, uses)
}

/// Whether a buffer is for one message or for many.
fn uses(ep: &Ep, flags: u64) -> Use {
    if flags & flag::MULTI_RECV == 0 {
        return Use::Once;
    }
    Use::Many { free_len_min: ep.free_len_min.load(Ordering::Relaxed) as u64 }
}
