//! Objects as C sees them: a pointer to something that begins with a `Fid`, counted by an `Arc`.
//!
//! The application holds one count through the pointer it was given; objects that use each other hold counts of their own.
//! `fi_close` succeeds when the application's is the last: what libfabric calls busy is a count above one.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::Arc;

use crate::abi::{Fid, Obj, Out};
use crate::form::{Form, LEN_MAX, Name};

/// The part of an object that C reads, and for a fabric also writes.
#[repr(transparent)]
pub(crate) struct Head<T>(UnsafeCell<T>);

// SAFETY: heads are made of integers and pointers to static tables (or to the application's context, which we only hand back).
// They are written once before anybody else sees them; the one field the library writes is read through `get` only.
unsafe impl<T> Send for Head<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Head<T> {}

impl<T> Head<T> {
    pub(crate) fn new(head: T) -> Self {
        Self(UnsafeCell::new(head))
    }

    pub(crate) fn get(&self) -> *mut T {
        self.0.get()
    }
}

/// Something C holds a pointer to.
///
/// # Safety
/// The type must be `repr(C)` and its first field a [`Head`] of a structure that begins with a `Fid`.
pub(crate) unsafe trait Object: Sized + Send + Sync {}

/// Gives the application an object; it has one count from now on.
///
/// # Safety
/// `out` must be null, or valid for a write.
pub(crate) unsafe fn hand_out<T: Object>(object: Arc<T>, out: Out) -> c_int {
    if out.is_null() {
        return -libc::EINVAL;
    }
    let pointer = Arc::into_raw(object).cast_mut().cast::<Fid>();
    // SAFETY: `out` is where the application wants it, says the caller.
    unsafe { out.write(pointer) };
    0
}

/// The object behind a pointer.
///
/// # Safety
/// `obj` must have come from `hand_out::<T>`, and must not have been closed. The reference must not outlive the call of C in
/// which it was made.
pub(crate) unsafe fn object<'a, T: Object>(obj: Obj) -> &'a T {
    debug_assert!(!obj.is_null());
    // SAFETY: the pointer was made of an `Arc<T>` whose count the application holds until it closes the object.
    unsafe { &*obj.cast_const().cast::<T>() }
}

/// One more count of the object behind a pointer.
///
/// # Safety
/// As for `object`.
pub(crate) unsafe fn shared<T: Object>(obj: Obj) -> Arc<T> {
    let pointer = obj.cast_const().cast::<T>();
    // SAFETY: the pointer came from `Arc::into_raw` of an `Arc<T>` that the application still holds; the count taken here is
    // the one the returned `Arc` gives back.
    unsafe {
        Arc::increment_strong_count(pointer);
        Arc::from_raw(pointer)
    }
}

/// Takes the application's count back, unless others hold some. The object goes then.
///
/// # Safety
/// As for `object`; on success the pointer is void.
pub(crate) unsafe fn close<T: Object>(obj: Obj) -> c_int {
    // SAFETY: says the caller.
    unsafe { close_by(obj, |_: &mut T| Ok(())) }
}

/// Takes the application's count back if `shut` succeeds, unless others hold some; else the application keeps its count, and the object is its own still.
///
/// # Safety
/// As for `close`; no other thread may use the object meanwhile.
pub(crate) unsafe fn close_by<T: Object>(
    obj: Obj,
    shut: impl FnOnce(&mut T) -> Result<(), c_int>,
) -> c_int {
    // SAFETY: as for `shared`; ownership of the application's count comes back to us.
    let mut object = unsafe { Arc::from_raw(obj.cast_const().cast::<T>()) };
    let shut = Arc::get_mut(&mut object).ok_or(libc::EBUSY).and_then(shut);
    match shut {
        Ok(()) => 0,
        Err(code) => {
            std::mem::forget(object);
            -code
        }
    }
}

/// The address at a pointer; `None` without one, or if fewer bytes than the form has are there. Text ends by itself, and may do so
/// before `len` says.
///
/// # Safety
/// Null, or valid for `len` bytes, if that is said; else for as many as the form has, or up to the end of the text.
pub(crate) unsafe fn name_at(
    form: Form,
    at: *const std::ffi::c_void,
    len: Option<usize>,
) -> Option<Name> {
    let count = match form.len() {
        Some(own) if len.is_none_or(|len| len >= own) => own,
        Some(_) => return None,
        None if at.is_null() => return None,
        // SAFETY: says the caller; not looked at beyond what an address can have.
        None => unsafe { libc::strnlen(at.cast(), len.unwrap_or(LEN_MAX).min(LEN_MAX)) },
    };
    if at.is_null() {
        return None;
    }
    // SAFETY: so many bytes are there, says the caller, or were just looked at.
    Some(Name::new(form, unsafe { std::slice::from_raw_parts(at.cast::<u8>(), count) }))
}

/// Copies as much of `bytes` as there is room for, and says how much there is of it.
///
/// # Safety
/// Each null, or `len` valid for reads and writes, and `out` for as many bytes as it says.
pub(crate) unsafe fn copy_out(bytes: &[u8], out: *mut std::ffi::c_void, len: *mut usize) -> c_int {
    if len.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: `len` is the caller's, and tells how many bytes `out` has room for.
    let room = unsafe { len.replace(bytes.len()) };
    let count = if out.is_null() { 0 } else { room.min(bytes.len()) };
    // SAFETY: `count` bytes are inside both; the application's buffer is not part of ours.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), count) };
    if count < bytes.len() { -crate::abi::code::ETOOSMALL } else { 0 }
}
