//! What sockets of every kind have in common: how they are opened or taken over, their options, their buffers.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;

use super::{Plain, answer};

/// The value of an option that is on.
pub(super) const ON: libc::c_int = 1;
/// A full socket wakes its owner; nothing is to be raised for it.
pub(super) const SEND_FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
/// Linux doubles what it is asked for, and doubling must not overflow an int.
const BUFFER_LEN_MAX: usize = 1 << 29;

/// A new socket that is not inherited, with what else `kind` says.
pub(super) fn open(domain: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: creates a descriptor, touches no memory.
    let fd = answer(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// A descriptor made by somebody else becomes one as ours are: it never waits and is not inherited.
pub(super) fn take_over(fd: impl AsFd) -> io::Result<()> {
    let raw = fd.as_fd().as_raw_fd();
    // SAFETY: changes flags of our own descriptor, touches no memory.
    let flags = answer(unsafe { libc::fcntl(raw, libc::F_GETFL) })? as libc::c_int;
    // SAFETY: as above.
    answer(unsafe { libc::fcntl(raw, libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    // SAFETY: as above.
    answer(unsafe { libc::fcntl(raw, libc::F_SETFD, libc::FD_CLOEXEC) }).map(drop)
}

/// An option. What the kernel does not write is zero.
pub(super) fn option<T: Plain>(
    fd: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<T> {
    // SAFETY: any bytes make a `Plain`, and so do zeros.
    let mut value: T = unsafe { mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    let (raw, at) = (fd.as_fd().as_raw_fd(), (&raw mut value).cast());
    // SAFETY: the kernel writes at most `len` bytes to `value`, any of which make one; both outlive the call.
    answer(unsafe { libc::getsockopt(raw, level, name, at, &raw mut len) })?;
    Ok(value)
}

/// Sets an option.
pub(super) fn set_option<T>(
    fd: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let (at, len) = (ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel reads `len` bytes of `value`, which outlives the call.
    answer(unsafe { libc::setsockopt(fd.as_fd().as_raw_fd(), level, name, at, len) }).map(drop)
}

/// Asks for a receive buffer; the length the kernel keeps account of, which is about twice what was asked for.
pub(super) fn set_receive_buffer(fd: impl AsFd, len: usize, may_force: bool) -> io::Result<usize> {
    set_buffer(fd, [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE], len, may_force)
}

/// Asks for a buffer for what is on its way out; the length the kernel keeps account of.
pub(super) fn set_send_buffer(fd: impl AsFd, len: usize, may_force: bool) -> io::Result<usize> {
    set_buffer(fd, [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE], len, may_force)
}

/// With rights (`force`), if there are any and they may be used, the system's maximum does not hold.
fn set_buffer(
    fd: impl AsFd,
    [plain, force]: [libc::c_int; 2],
    len: usize,
    may_force: bool,
) -> io::Result<usize> {
    let (fd, wanted) = (fd.as_fd(), len.min(BUFFER_LEN_MAX) as libc::c_int);
    let is_forced = may_force && set_option(fd, libc::SOL_SOCKET, force, &wanted).is_ok();
    if !is_forced {
        set_option(fd, libc::SOL_SOCKET, plain, &wanted)?;
    }
    let len: libc::c_int = option(fd, libc::SOL_SOCKET, plain)?;
    Ok(len as usize)
}
