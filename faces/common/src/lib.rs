//! What the C faces share: how a foreign interface is met, whichever interface it is.
//!
//! ```text
//!   faces/ofi, faces/fm, faces/mx …
//!     │ handles   objects by number: a stale or invented number is nobody's
//!     │ pointed   what a pointer of the application points to: bytes, text, a place for an answer
//!     │ settings  variables of the environment: what they say, or in words what they must say
//!     │ library   functions of a library that is opened at run time
//!     │ pmix      the other processes of a job, from a launcher that speaks PMIx
//!     ▼ lock      a mutex that nobody leaves poisoned
//! ```
//!
//! No rule of any interface is here, and nothing of the protocol: a rule that two faces need belongs in `proto`.
//!
//! Panics need no code at the boundary: a function that is `extern "C"` ends the process when a panic reaches its edge, after the panic said what was
//! wrong. So a face catches none, and no state that a panic left behind is ever seen by C.

pub mod handles;
pub mod library;
pub mod pmix;
pub mod pointed;
pub mod settings;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A panic at the C boundary ends the process, so what a panic in a thread of ours left is as whole as it was.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells a person what is wrong, on standard error; the face says its own name.
pub fn complain(face: &str, what: impl std::fmt::Display) {
    eprintln!("packhorse-{face}: {what}");
}
