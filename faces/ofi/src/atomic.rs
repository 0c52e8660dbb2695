//! Atomic operations on a peer's memory: not offered yet.

use std::ffi::{c_int, c_void};

use crate::abi::{AtomicOps, Desc, Descs, Ioc, MsgAtomic, Obj, absent};

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

absent! {
    write(Obj, Buf, usize, Desc, u64, u64, u64, c_int, c_int, Ctx) -> isize;
    writev(Obj, *const Ioc, Descs, usize, u64, u64, u64, c_int, c_int, Ctx) -> isize;
    writemsg(Obj, *const MsgAtomic, u64) -> isize;
    inject(Obj, Buf, usize, u64, u64, u64, c_int, c_int) -> isize;
    readwrite(Obj, Buf, usize, Desc, *mut c_void, Desc, u64, u64, u64, c_int, c_int, Ctx) -> isize;
    readwritev(Obj, *const Ioc, Descs, usize, *mut Ioc, Descs, usize, u64, u64, u64, c_int, c_int, Ctx) -> isize;
    readwritemsg(Obj, *const MsgAtomic, *mut Ioc, Descs, usize, u64) -> isize;
    compwrite(Obj, Buf, usize, Desc, Buf, Desc, *mut c_void, Desc, u64, u64, u64, c_int, c_int, Ctx) -> isize;
    compwritev(Obj, *const Ioc, Descs, usize, *const Ioc, Descs, usize, *mut Ioc, Descs, usize, u64, u64, u64, c_int, c_int, Ctx) -> isize;
    compwritemsg(Obj, *const MsgAtomic, *const Ioc, Descs, usize, *mut Ioc, Descs, usize, u64) -> isize;
    writevalid(Obj, c_int, c_int, *mut usize) -> c_int;
    readwritevalid(Obj, c_int, c_int, *mut usize) -> c_int;
    compwritevalid(Obj, c_int, c_int, *mut usize) -> c_int;
}
