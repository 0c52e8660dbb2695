//! A library that is opened at run time, so that nothing of it is needed where it is not used.

use std::ffi::{CStr, c_void};

/// An open library. It stays open for as long as the process lives: its functions may be anywhere by then.
#[derive(Clone, Copy, Debug)]
pub struct Library(*mut c_void);

// SAFETY: a handle of `dlopen` is asked by any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Opens the first of these that can be opened, with its functions for all to see, as libraries that load others want it.
    pub fn open(names: &[&CStr]) -> Option<Self> {
        Self::first(names, libc::RTLD_NOW | libc::RTLD_GLOBAL)
    }

    /// A library that the process has already. Without it what it would have is looked for everywhere.
    pub fn loaded_or_any(name: &CStr) -> Self {
        let loaded = Self::first(&[name], libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        loaded.unwrap_or(Self(libc::RTLD_DEFAULT))
    }

    fn first(names: &[&CStr], how: std::ffi::c_int) -> Option<Self> {
        // SAFETY: the names end with zero; initialisers of the library are trusted as those of any library.
        let open = |name: &&CStr| unsafe { libc::dlopen(name.as_ptr(), how) };
        names.iter().map(open).find(|library| !library.is_null()).map(Self)
    }

    /// A function of the library.
    ///
    /// # Safety
    /// `F` is a function pointer, of the type that the function of this name has in every library of this name.
    pub unsafe fn function<F: Copy>(self, name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the library is open and the name ends with zero.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        // SAFETY: a function's address has the size of a pointer (checked above), and `F` is its type, says the caller.
        (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_name_and_missing_ones_are_missed() {
        let libc = Library::open(&[c"libnosuch.so.9", c"libc.so.6"]).expect("a libc");
        type Abs = extern "C" fn(i32) -> i32;
        // SAFETY: this is the type of `abs`.
        let abs: Option<Abs> = unsafe { libc.function(c"abs") };
        // SAFETY: there is no such function, so its type is never used.
        let none: Option<Abs> = unsafe { libc.function(c"no_such_function_at_all") };
        assert_eq!(abs.expect("in every libc")(-4), 4);
        assert!(none.is_none());
        assert!(Library::open(&[c"libnosuch.so.9"]).is_none());
        let any = Library::loaded_or_any(c"libnosuch.so.9");
        // SAFETY: as above.
        let abs: Option<Abs> = unsafe { any.function(c"abs") };
        assert!(abs.is_some());
    }
}
