//! The descriptor that a launcher gave this process.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// The stream behind a descriptor that the environment names.
pub(crate) fn stream(fd: RawFd) -> Result<UnixStream, String> {
    let complain = |why: &dyn std::fmt::Display| format!("PMI_FD={fd}: {why}");
    if fd < 0 {
        return Err(complain(&"must be a descriptor"));
    }
    // SAFETY: borrowed for one call, which fails if there is no such descriptor.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let owned: OwnedFd = borrowed.try_clone_to_owned().map_err(|error| complain(&error))?;
    Ok(owned.into())
}
