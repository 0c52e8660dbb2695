//! What a pointer of the application points to. Each function takes null for "nothing there"; all else is the application's word.

use std::ffi::{CStr, c_char, c_void};

/// Bytes that the application names.
///
/// # Safety
/// `start` points to `len` bytes that nobody writes for as long as they are looked at; or it is null, or `len` is 0.
#[inline]
pub unsafe fn bytes<'a>(start: *const c_void, len: usize) -> &'a [u8] {
    if len == 0 || start.is_null() {
        return &[];
    }
    // SAFETY: not null and not empty, say the lines above; the rest says the caller.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}

/// What a C string says; `None` for null and for what is not text.
///
/// # Safety
/// Null, or a string that ends, valid for as long as it is looked at.
pub unsafe fn text<'a>(string: *const c_char) -> Option<&'a str> {
    if string.is_null() {
        return None;
    }
    // SAFETY: not null, says the line above; a string, says the caller.
    unsafe { CStr::from_ptr(string) }.to_str().ok()
}

/// Puts a value where the application wants it, if it wants it at all.
///
/// # Safety
/// Null, or valid for a write of this type.
#[inline]
pub unsafe fn put<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: not null, says the line above; valid, says the caller.
        unsafe { out.write(value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_nothing() {
        let (word, mut number) = ([7_u8, 8], 1);
        // SAFETY: our own values, or null.
        unsafe {
            assert_eq!(bytes(word.as_ptr().cast(), 2), [7, 8]);
            assert_eq!(
                (bytes(std::ptr::null(), 5), bytes(word.as_ptr().cast(), 0)),
                (&[][..], &[][..])
            );
            assert_eq!((text(c"lo".as_ptr()), text(std::ptr::null())), (Some("lo"), None));
            assert_eq!(text(c"\xff".as_ptr()), None);
            put(&raw mut number, 5);
            put(std::ptr::null_mut(), 6);
        }
        assert_eq!(number, 5);
    }
}
