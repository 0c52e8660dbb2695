//! What all objects have in common: the functions nobody offers, what `fi_control` answers, and how a call finds its port.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{AsRawFd as _, OwnedFd};

use crate::abi::{Obj, Ops, absent, command, flag, kind};

absent! {
    close(Obj) -> c_int;
    bind(Obj, Obj, u64) -> c_int;
    control(Obj, c_int, *mut c_void) -> c_int;
    ops_open(Obj, *const c_char, u64, *mut *mut c_void, *mut c_void) -> c_int;
    tostr(Obj, *mut c_char, usize) -> c_int;
    ops_set(Obj, *const c_char, u64, *mut c_void, *mut c_void) -> c_int;
}

/// A table in which nothing works; each kind of object puts in what it has.
pub(crate) const OPS: Ops =
    Ops { size: size_of::<Ops>(), close, bind, control, ops_open, tostr, ops_set };

/// Puts a value where a command's argument says.
///
/// # Safety
/// `argument` must be null, or valid for a write of this type.
unsafe fn put<T>(argument: *mut c_void, value: T) -> c_int {
    if argument.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: says the caller; not null, says the line above.
    unsafe { argument.cast::<T>().write_unaligned(value) };
    0
}

/// `fi_control` of what can be waited for: its descriptor, and whether it has one.
///
/// # Safety
/// `argument` must be null, or as the command wants it.
pub(crate) unsafe fn control_wait(
    bell: Option<&OwnedFd>,
    what: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: a place for a descriptor, or for an enumeration, says the caller.
    unsafe {
        match (what, bell) {
            (command::GETWAIT, Some(bell)) => put(argument, bell.as_raw_fd()),
            (command::GETWAITOBJ, Some(_)) => put(argument, kind::WAIT_FD),
            (command::GETWAITOBJ, None) => put(argument, kind::WAIT_NONE),
            _ => -libc::ENOSYS,
        }
    }
}

/// `fi_control` that asks for an endpoint's default flags: the argument says of which side, and learns them.
///
/// # Safety
/// `argument` must be null, or valid for reads and writes of flags.
pub(crate) unsafe fn control_flags(argument: *mut c_void, tx: u64, rx: u64) -> c_int {
    if argument.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: says the caller; not null, says the line above.
    unsafe {
        let is_send = argument.cast::<u64>().read_unaligned() & flag::SEND != 0;
        put(argument, if is_send { tx } else { rx })
    }
}

/// The class of an object that is to be bound, which may be none.
///
/// # Safety
/// Null, or an object of this provider.
pub(crate) unsafe fn class_of(other: Obj) -> Option<usize> {
    // SAFETY: says the caller.
    unsafe { other.as_ref() }.map(|fid| fid.fclass)
}

/// The value, or a return of the function with the code there is instead.
macro_rules! or_return {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(code) => return -(code as isize),
        }
    };
}

pub(crate) use or_return;

/// The endpoint's port, and how an operation with its default flags is to be; or a return of the function with what is wrong.
macro_rules! usual {
    ($ep:expr, $context:expr, $side:ident) => {
        // SAFETY: the table is that of endpoints; where these flags make a condition of the context, it is the application's.
        match unsafe { $crate::ep::Ep::of($ep) } {
            (ep, Some(port)) => {
                // SAFETY: as above.
                let how = unsafe { $crate::trigger::how($context, ep.$side) };
                (port, $crate::common::or_return!(how))
            }
            (_, None) => return -($crate::abi::code::EOPBADSTATE as isize),
        }
    };
}

pub(crate) use usual;

/// The endpoint's port, or a return of the function with what an endpoint says that was not enabled.
macro_rules! port {
    ($ep:expr) => {
        // SAFETY: the table is that of endpoints.
        match unsafe { $crate::ep::Ep::of($ep) }.1 {
            Some(port) => port,
            None => return -($crate::abi::code::EOPBADSTATE as isize),
        }
    };
}

pub(crate) use port;
