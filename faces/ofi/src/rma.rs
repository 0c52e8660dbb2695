//! Reads and writes of a peer's memory: not offered yet.

use std::ffi::c_void;

use crate::abi::{MsgRma, Obj, RmaOps, absent, iovec};

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

absent! {
    read(Obj, *mut c_void, usize, *mut c_void, u64, u64, u64, *mut c_void) -> isize;
    readv(Obj, *const iovec, *mut *mut c_void, usize, u64, u64, u64, *mut c_void) -> isize;
    readmsg(Obj, *const MsgRma, u64) -> isize;
    write(Obj, *const c_void, usize, *mut c_void, u64, u64, u64, *mut c_void) -> isize;
    writev(Obj, *const iovec, *mut *mut c_void, usize, u64, u64, u64, *mut c_void) -> isize;
    writemsg(Obj, *const MsgRma, u64) -> isize;
    inject(Obj, *const c_void, usize, u64, u64, u64) -> isize;
    writedata(Obj, *const c_void, usize, *mut c_void, u64, u64, u64, u64, *mut c_void) -> isize;
    injectdata(Obj, *const c_void, usize, u64, u64, u64, u64) -> isize;
}
