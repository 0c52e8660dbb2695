//! Objects and their tables of functions.
//!
//! Every object begins with a `Fid`. Applications call most slots without looking whether they are there, so none is ever empty;
//! `size` tells them which of the later ones exist. All objects are passed as `*mut Fid`: each begins with one.

use std::ffi::{c_char, c_int, c_void};

use super::data::*;
use super::info::{FabricAttr, Info, RxAttr, TxAttr};

/// What every object begins with.
#[repr(C)]
pub struct Fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *const Ops,
}

/// A pointer to any object.
pub type Obj = *mut Fid;
/// Where a new object is put.
pub type Out = *mut *mut Fid;
/// The application's context of an operation or object.
pub type Ctx = *mut c_void;
/// A memory descriptor, which this provider does not look at.
pub type Desc = *mut c_void;
/// A list of them.
pub type Descs = *mut *mut c_void;

/// `fi_provider`: what the library is given when it loads us.
#[repr(C)]
pub struct Provider {
    pub version: u32,
    pub fi_version: u32,
    /// The library's own: it writes there.
    pub context: [u8; 32],
    pub name: *const c_char,
    pub getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        *const Info,
        *mut *mut Info,
    ) -> c_int,
    pub fabric: unsafe extern "C" fn(*mut FabricAttr, Out, Ctx) -> c_int,
    pub cleanup: unsafe extern "C" fn(),
}

/// Declares tables: `size` first, then slots in libfabric's order; and checks how long they are.
macro_rules! tables {
    ($($(#[$about:meta])* $name:ident: $len:literal {
        $($slot:ident($($arg:ty),* $(,)?) $(-> $ret:ty)?;)*
    })*) => {$(
        $(#[$about])*
        #[repr(C)]
        pub struct $name {
            pub size: usize,
            $(pub $slot: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }
        const _: () = assert!(size_of::<$name>() == $len);
    )*};
}

tables! {
    /// `fi_ops`: what all objects can do.
    Ops: 56 {
        close(Obj) -> c_int;
        bind(Obj, Obj, u64) -> c_int;
        control(Obj, c_int, *mut c_void) -> c_int;
        ops_open(Obj, *const c_char, u64, *mut *mut c_void, Ctx) -> c_int;
        tostr(Obj, *mut c_char, usize) -> c_int;
        ops_set(Obj, *const c_char, u64, *mut c_void, Ctx) -> c_int;
    }
    /// `fi_ops_fabric`.
    FabricOps: 56 {
        domain(Obj, *mut Info, Out, Ctx) -> c_int;
        passive_ep(Obj, *mut Info, Out, Ctx) -> c_int;
        eq_open(Obj, *mut EqAttr, Out, Ctx) -> c_int;
        wait_open(Obj, *mut c_void, Out) -> c_int;
        trywait(Obj, *mut Obj, c_int) -> c_int;
        domain2(Obj, *mut Info, Out, u64, Ctx) -> c_int;
    }
    /// `fi_ops_domain`.
    DomainOps: 96 {
        av_open(Obj, *mut AvAttr, Out, Ctx) -> c_int;
        cq_open(Obj, *mut CqAttr, Out, Ctx) -> c_int;
        endpoint(Obj, *mut Info, Out, Ctx) -> c_int;
        scalable_ep(Obj, *mut Info, Out, Ctx) -> c_int;
        cntr_open(Obj, *mut CntrAttr, Out, Ctx) -> c_int;
        poll_open(Obj, *mut c_void, Out) -> c_int;
        stx_ctx(Obj, *mut TxAttr, Out, Ctx) -> c_int;
        srx_ctx(Obj, *mut RxAttr, Out, Ctx) -> c_int;
        query_atomic(Obj, c_int, c_int, *mut AtomicAttr, u64) -> c_int;
        query_collective(Obj, c_int, *mut c_void, u64) -> c_int;
        endpoint2(Obj, *mut Info, Out, u64, Ctx) -> c_int;
    }
    /// `fi_ops_mr`.
    MrOps: 32 {
        reg(Obj, *const c_void, usize, u64, u64, u64, u64, Out, Ctx) -> c_int;
        regv(Obj, *const iovec, usize, u64, u64, u64, u64, Out, Ctx) -> c_int;
        regattr(Obj, *const MrAttr, u64, Out) -> c_int;
    }
    /// `fi_ops_ep`.
    EpOps: 64 {
        cancel(Obj, Ctx) -> isize;
        getopt(Obj, c_int, c_int, *mut c_void, *mut usize) -> c_int;
        setopt(Obj, c_int, c_int, *const c_void, usize) -> c_int;
        tx_ctx(Obj, c_int, *mut TxAttr, Out, Ctx) -> c_int;
        rx_ctx(Obj, c_int, *mut RxAttr, Out, Ctx) -> c_int;
        rx_size_left(Obj) -> isize;
        tx_size_left(Obj) -> isize;
    }
    /// `fi_ops_cm`.
    CmOps: 80 {
        setname(Obj, *mut c_void, usize) -> c_int;
        getname(Obj, *mut c_void, *mut usize) -> c_int;
        getpeer(Obj, *mut c_void, *mut usize) -> c_int;
        connect(Obj, *const c_void, *const c_void, usize) -> c_int;
        listen(Obj) -> c_int;
        accept(Obj, *const c_void, usize) -> c_int;
        reject(Obj, Obj, *const c_void, usize) -> c_int;
        shutdown(Obj, u64) -> c_int;
        join(Obj, *const c_void, u64, Out, Ctx) -> c_int;
    }
    /// `fi_ops_msg`.
    MsgOps: 80 {
        recv(Obj, *mut c_void, usize, Desc, u64, Ctx) -> isize;
        recvv(Obj, *const iovec, Descs, usize, u64, Ctx) -> isize;
        recvmsg(Obj, *const Msg, u64) -> isize;
        send(Obj, *const c_void, usize, Desc, u64, Ctx) -> isize;
        sendv(Obj, *const iovec, Descs, usize, u64, Ctx) -> isize;
        sendmsg(Obj, *const Msg, u64) -> isize;
        inject(Obj, *const c_void, usize, u64) -> isize;
        senddata(Obj, *const c_void, usize, Desc, u64, u64, Ctx) -> isize;
        injectdata(Obj, *const c_void, usize, u64, u64) -> isize;
    }
    /// `fi_ops_tagged`.
    TaggedOps: 80 {
        recv(Obj, *mut c_void, usize, Desc, u64, u64, u64, Ctx) -> isize;
        recvv(Obj, *const iovec, Descs, usize, u64, u64, u64, Ctx) -> isize;
        recvmsg(Obj, *const MsgTagged, u64) -> isize;
        send(Obj, *const c_void, usize, Desc, u64, u64, Ctx) -> isize;
        sendv(Obj, *const iovec, Descs, usize, u64, u64, Ctx) -> isize;
        sendmsg(Obj, *const MsgTagged, u64) -> isize;
        inject(Obj, *const c_void, usize, u64, u64) -> isize;
        senddata(Obj, *const c_void, usize, Desc, u64, u64, u64, Ctx) -> isize;
        injectdata(Obj, *const c_void, usize, u64, u64, u64) -> isize;
    }
    /// `fi_ops_rma`.
    RmaOps: 80 {
        read(Obj, *mut c_void, usize, Desc, u64, u64, u64, Ctx) -> isize;
        readv(Obj, *const iovec, Descs, usize, u64, u64, u64, Ctx) -> isize;
        readmsg(Obj, *const MsgRma, u64) -> isize;
        write(Obj, *const c_void, usize, Desc, u64, u64, u64, Ctx) -> isize;
        writev(Obj, *const iovec, Descs, usize, u64, u64, u64, Ctx) -> isize;
        writemsg(Obj, *const MsgRma, u64) -> isize;
        inject(Obj, *const c_void, usize, u64, u64, u64) -> isize;
        writedata(Obj, *const c_void, usize, Desc, u64, u64, u64, u64, Ctx) -> isize;
        injectdata(Obj, *const c_void, usize, u64, u64, u64, u64) -> isize;
    }
    /// `fi_ops_atomic`.
    AtomicOps: 112 {
        write(Obj, *const c_void, usize, Desc, u64, u64, u64, c_int, c_int, Ctx) -> isize;
        writev(Obj, *const Ioc, Descs, usize, u64, u64, u64, c_int, c_int, Ctx) -> isize;
        writemsg(Obj, *const MsgAtomic, u64) -> isize;
        inject(Obj, *const c_void, usize, u64, u64, u64, c_int, c_int) -> isize;
        readwrite(Obj, *const c_void, usize, Desc, *mut c_void, Desc, u64, u64, u64, c_int, c_int, Ctx) -> isize;
        readwritev(Obj, *const Ioc, Descs, usize, *mut Ioc, Descs, usize, u64, u64, u64, c_int, c_int, Ctx) -> isize;
        readwritemsg(Obj, *const MsgAtomic, *mut Ioc, Descs, usize, u64) -> isize;
        compwrite(Obj, *const c_void, usize, Desc, *const c_void, Desc, *mut c_void, Desc, u64, u64, u64, c_int, c_int, Ctx) -> isize;
        compwritev(Obj, *const Ioc, Descs, usize, *const Ioc, Descs, usize, *mut Ioc, Descs, usize, u64, u64, u64, c_int, c_int, Ctx) -> isize;
        compwritemsg(Obj, *const MsgAtomic, *const Ioc, Descs, usize, *mut Ioc, Descs, usize, u64) -> isize;
        writevalid(Obj, c_int, c_int, *mut usize) -> c_int;
        readwritevalid(Obj, c_int, c_int, *mut usize) -> c_int;
        compwritevalid(Obj, c_int, c_int, *mut usize) -> c_int;
    }
    /// `fi_ops_cq`.
    CqOps: 64 {
        read(Obj, *mut c_void, usize) -> isize;
        readfrom(Obj, *mut c_void, usize, *mut u64) -> isize;
        readerr(Obj, *mut CqErrEntry, u64) -> isize;
        sread(Obj, *mut c_void, usize, *const c_void, c_int) -> isize;
        sreadfrom(Obj, *mut c_void, usize, *mut u64, *const c_void, c_int) -> isize;
        signal(Obj) -> c_int;
        strerror(Obj, c_int, *const c_void, *mut c_char, usize) -> *const c_char;
    }
    /// `fi_ops_cntr`.
    CntrOps: 64 {
        read(Obj) -> u64;
        readerr(Obj) -> u64;
        add(Obj, u64) -> c_int;
        set(Obj, u64) -> c_int;
        wait(Obj, u64, c_int) -> c_int;
        adderr(Obj, u64) -> c_int;
        seterr(Obj, u64) -> c_int;
    }
    /// `fi_ops_eq`.
    EqOps: 48 {
        read(Obj, *mut u32, *mut c_void, usize, u64) -> isize;
        readerr(Obj, *mut EqErrEntry, u64) -> isize;
        write(Obj, u32, *const c_void, usize, u64) -> isize;
        sread(Obj, *mut u32, *mut c_void, usize, c_int, u64) -> isize;
        strerror(Obj, c_int, *const c_void, *mut c_char, usize) -> *const c_char;
    }
    /// `fi_ops_av`, with the slots that 1.20 added.
    AvOps: 88 {
        insert(Obj, *const c_void, usize, *mut u64, u64, Ctx) -> c_int;
        insertsvc(Obj, *const c_char, *const c_char, *mut u64, u64, Ctx) -> c_int;
        insertsym(Obj, *const c_char, usize, *const c_char, usize, *mut u64, u64, Ctx) -> c_int;
        remove(Obj, *mut u64, usize, u64) -> c_int;
        lookup(Obj, u64, *mut c_void, *mut usize) -> c_int;
        straddr(Obj, *const c_void, *mut c_char, *mut usize) -> *const c_char;
        av_set(Obj, *mut c_void, Out, Ctx) -> c_int;
        insert_auth_key(Obj, *const c_void, usize, *mut u64, u64) -> c_int;
        lookup_auth_key(Obj, u64, *mut c_void, *mut usize) -> c_int;
        set_user_id(Obj, u64, u64, u64) -> c_int;
    }
}

/// `fid_fabric`.
#[repr(C)]
pub struct FabricFid {
    pub fid: Fid,
    pub ops: *const FabricOps,
    /// Written by the library: the application's version.
    pub api_version: u32,
}

/// `fid_domain`.
#[repr(C)]
pub struct DomainFid {
    pub fid: Fid,
    pub ops: *const DomainOps,
    pub mr: *const MrOps,
}

/// `fid_ep`.
#[repr(C)]
pub struct EpFid {
    pub fid: Fid,
    pub ops: *const EpOps,
    pub cm: *const CmOps,
    pub msg: *const MsgOps,
    pub rma: *const RmaOps,
    pub tagged: *const TaggedOps,
    pub atomic: *const AtomicOps,
    pub collective: *const c_void,
}

/// `fid_av`, `fid_cq`, `fid_cntr`, `fid_eq`: a `Fid` and one table.
#[repr(C)]
pub struct PlainFid<T> {
    pub fid: Fid,
    pub ops: *const T,
}

/// `fid_mr`.
#[repr(C)]
pub struct MrFid {
    pub fid: Fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Fid>() == 24);
    assert!(size_of::<Provider>() == 72 && offset_of!(Provider, name) == 40);
    assert!(size_of::<FabricFid>() == 40 && offset_of!(FabricFid, api_version) == 32);
    assert!(size_of::<DomainFid>() == 40 && size_of::<MrFid>() == 40);
    assert!(size_of::<EpFid>() == 80 && offset_of!(EpFid, tagged) == 56);
    assert!(offset_of!(EpFid, msg) == 40 && offset_of!(EpFid, rma) == 48);
    assert!(size_of::<PlainFid<CqOps>>() == 32);
};

/// Functions that say `-FI_ENOSYS`: slots must not be empty, applications call them unseen.
macro_rules! absent {
    ($($name:ident($($arg:ty),* $(,)?) -> $ret:ty;)*) => {$(
        unsafe extern "C" fn $name($(_: $arg),*) -> $ret {
            -(libc::ENOSYS as $ret)
        }
    )*};
}
pub(crate) use absent;
