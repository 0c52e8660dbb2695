//! List entries and match entries.

use std::ffi::{c_int, c_void};

use super::{done, read, told};
use crate::abi::{Handle, Le, Me};
use crate::codes::Code;
use crate::counters::When;
use crate::entries::{self, Wish};
use crate::handles::Kind;
use crate::interfaces;
use crate::memory::Named;

/// An entry with its memory.
///
/// # Safety
/// With `PTL_IOVEC` among its options its `start` points to `length` pieces, or is null.
unsafe fn wish(
    (kind, ni, portal): (Kind, Handle, u32),
    me: Me,
    user_ptr: *mut c_void,
) -> Result<Wish, Code> {
    let most = interfaces::piece_count_max(ni)?;
    // SAFETY: says the caller.
    let memory = unsafe { Named::read(me.start, me.length, me.options, most) }?;
    Ok(Wish { kind, ni, portal, me, memory, user_ptr: user_ptr as usize })
}

/// Appends a match entry, now or when a counter says so.
///
/// # Safety
/// As said above.
pub(super) unsafe fn append_me(
    (ni, portal): (Handle, u32),
    (me, list): (*const Me, u8),
    user_ptr: *mut c_void,
    out: *mut Handle,
    when: Option<When>,
) -> c_int {
    let appended = || {
        // SAFETY: as this function demands.
        let me = unsafe { read(me) }?;
        // SAFETY: as this function demands.
        let wish = unsafe { wish((Kind::MatchEntry, ni, portal), me, user_ptr) }?;
        entries::append(wish, list, when)
    };
    // SAFETY: as this function demands.
    unsafe { told(out, appended) }
}

/// `PtlLEAppend`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlLEAppend(
    ni: Handle,
    portal: u32,
    le: *const Le,
    list: u8,
    user_ptr: *mut c_void,
    out: *mut Handle,
) -> c_int {
    let appended = || {
        // SAFETY: as this function demands.
        let le = unsafe { read(le) }?;
        // SAFETY: as this function demands.
        let wish = unsafe { wish((Kind::ListEntry, ni, portal), le.into(), user_ptr) }?;
        entries::append(wish, list, None)
    };
    // SAFETY: as this function demands.
    unsafe { told(out, appended) }
}

/// `PtlLEUnlink`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlLEUnlink(entry: Handle) -> c_int {
    done(|| entries::unlink(Kind::ListEntry, entry, None))
}

/// `PtlLESearch`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlLESearch(
    ni: Handle,
    portal: u32,
    le: *const Le,
    operation: u8,
    user_ptr: *mut c_void,
) -> c_int {
    done(|| {
        // SAFETY: as this function demands.
        let le = unsafe { read(le) }?;
        // SAFETY: as this function demands.
        let wish = unsafe { wish((Kind::ListEntry, ni, portal), le.into(), user_ptr) }?;
        entries::search(wish, operation)
    })
}

/// `PtlMEAppend`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlMEAppend(
    ni: Handle,
    portal: u32,
    me: *const Me,
    list: u8,
    user_ptr: *mut c_void,
    out: *mut Handle,
) -> c_int {
    // SAFETY: as this function demands.
    unsafe { append_me((ni, portal), (me, list), user_ptr, out, None) }
}

/// `PtlMEUnlink`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlMEUnlink(entry: Handle) -> c_int {
    done(|| entries::unlink(Kind::MatchEntry, entry, None))
}

/// `PtlMESearch`.
///
/// # Safety
/// As said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlMESearch(
    ni: Handle,
    portal: u32,
    me: *const Me,
    operation: u8,
    user_ptr: *mut c_void,
) -> c_int {
    done(|| {
        // SAFETY: as this function demands.
        let me = unsafe { read(me) }?;
        // SAFETY: as this function demands.
        let wish = unsafe { wish((Kind::MatchEntry, ni, portal), me, user_ptr) }?;
        entries::search(wish, operation)
    })
}
