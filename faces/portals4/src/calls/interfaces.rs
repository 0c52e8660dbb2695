//! The library, interfaces, the portal table, descriptors, bundles.

use std::ffi::{c_int, c_uint};

use packhorse_common::pointed::put;

use super::{done, list, read, told};
use crate::abi::{Handle, Limits, Md, Process};
use crate::codes;
use crate::memory::Named;
use crate::{descriptors, interfaces, table};

/// `PtlInit`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlInit() -> c_int {
    codes::of(interfaces::init())
}

/// `PtlFini`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlFini() {
    interfaces::fini();
}

/// `PtlAbort`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlAbort() {
    interfaces::abort();
}

/// `PtlNIInit`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlNIInit(
    interface: c_uint,
    options: c_uint,
    pid: u32,
    desired: *const Limits,
    actual: *mut Limits,
    ni: *mut Handle,
) -> c_int {
    let opened = || {
        // SAFETY: as this function demands.
        let desired = unsafe { desired.as_ref() }.copied();
        let (handle, limits) = interfaces::open(interface, options, pid, desired)?;
        // SAFETY: as this function demands.
        unsafe { put(actual, limits) };
        Ok(handle)
    };
    // SAFETY: as this function demands.
    unsafe { told(ni, opened) }
}

/// `PtlNIFini`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlNIFini(ni: Handle) -> c_int {
    done(|| interfaces::close(ni))
}

/// `PtlNIStatus`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlNIStatus(ni: Handle, register: c_uint, status: *mut c_int) -> c_int {
    // SAFETY: as this function demands.
    unsafe { told(status, || interfaces::register(ni, register)) }
}

/// `PtlNIHandle`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlNIHandle(any: Handle, ni: *mut Handle) -> c_int {
    // SAFETY: as this function demands.
    unsafe { told(ni, || interfaces::of(any)) }
}

/// `PtlSetMap`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlSetMap(ni: Handle, count: u64, map: *const Process) -> c_int {
    done(|| {
        // SAFETY: as this function demands.
        let map = unsafe { list(map, count as usize) }?;
        interfaces::set_map(ni, map)
    })
}

/// `PtlGetMap`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGetMap(
    ni: Handle,
    room: u64,
    map: *mut Process,
    count: *mut u64,
) -> c_int {
    let copied = || {
        let known = interfaces::map(ni)?;
        let wanted = known.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if wanted > 0 && map.is_null() {
            return Err(codes::ARG_INVALID);
        }
        for (index, &process) in known[..wanted].iter().enumerate() {
            // SAFETY: there is room for so many, says the caller.
            unsafe { map.add(index).write(process) };
        }
        Ok(known.len() as u64)
    };
    // SAFETY: as this function demands.
    unsafe { told(count, copied) }
}

/// `PtlGetUid`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGetUid(ni: Handle, out: *mut u32) -> c_int {
    // SAFETY: as this function demands.
    unsafe { told(out, || interfaces::uid(ni)) }
}

/// `PtlGetId`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGetId(ni: Handle, out: *mut Process) -> c_int {
    // SAFETY: as this function demands.
    unsafe { told(out, || interfaces::id(ni)) }
}

/// `PtlGetPhysId`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGetPhysId(ni: Handle, out: *mut Process) -> c_int {
    // SAFETY: as this function demands.
    unsafe { told(out, || interfaces::physical_id(ni)) }
}

/// `PtlHandleIsEqual`. A truth value, not a code.
#[unsafe(no_mangle)]
pub extern "C" fn PtlHandleIsEqual(one: Handle, other: Handle) -> c_int {
    c_int::from(one == other)
}

/// `PtlPTAlloc`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlPTAlloc(
    ni: Handle,
    options: c_uint,
    eq: Handle,
    wanted: u32,
    index: *mut u32,
) -> c_int {
    // SAFETY: as this function demands.
    unsafe { told(index, || table::alloc(ni, options, eq, wanted)) }
}

/// `PtlPTFree`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlPTFree(ni: Handle, index: u32) -> c_int {
    done(|| table::free(ni, index))
}

/// `PtlPTDisable`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlPTDisable(ni: Handle, index: u32) -> c_int {
    done(|| table::disable(ni, index))
}

/// `PtlPTEnable`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlPTEnable(ni: Handle, index: u32) -> c_int {
    done(|| table::enable(ni, index))
}

/// `PtlMDBind`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlMDBind(ni: Handle, md: *const Md, out: *mut Handle) -> c_int {
    let bound = || {
        // SAFETY: as this function demands.
        let md = unsafe { read(md) }?;
        let most = interfaces::piece_count_max(ni)?;
        // SAFETY: as this function demands.
        let memory = unsafe { Named::read(md.start, md.length, md.options, most) }?;
        descriptors::bind(ni, &md, memory)
    };
    // SAFETY: as this function demands.
    unsafe { told(out, bound) }
}

/// `PtlMDRelease`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlMDRelease(md: Handle) -> c_int {
    done(|| descriptors::release(md))
}

/// `PtlStartBundle`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlStartBundle(ni: Handle) -> c_int {
    done(|| interfaces::start_bundle(ni))
}

/// `PtlEndBundle`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlEndBundle(ni: Handle) -> c_int {
    done(|| interfaces::end_bundle(ni))
}
