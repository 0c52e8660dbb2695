//! What all objects have in common: the functions nobody offers, and how a call finds its port.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::{Obj, Ops, absent};

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
