//! What we have to say, said through libfabric's own log: `FI_LOG_LEVEL`, `FI_LOG_PROV` and `FI_LOG_SUBSYS` rule it.
//!
//! The library is not linked: it is found at run time, in whatever scope the MPI loaded it. Without it nothing is said.

use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;

use packhorse_common::library as dl;

use crate::abi::Provider;

/// How much it matters; libfabric's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Warn = 0,
    Info = 2,
}

/// Where it belongs; libfabric's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subsystem {
    Fabric = 1,
    Domain = 2,
    Endpoint = 3,
    Data = 4,
    Addresses = 5,
}

type Enabled = unsafe extern "C" fn(*const Provider, c_int, c_int) -> c_int;
type Log =
    unsafe extern "C" fn(*const Provider, c_int, c_int, *const c_char, c_int, *const c_char, ...);
type Version = unsafe extern "C" fn() -> u32;

/// The library's functions.
#[derive(Clone, Copy)]
struct Library {
    enabled: Enabled,
    log: Log,
}

/// The library that loaded us, whatever scope it is in.
fn libfabric() -> dl::Library {
    dl::Library::loaded_or_any(c"libfabric.so.1")
}

/// The version of the library that loaded us, if it tells.
pub(crate) fn library_version() -> Option<u32> {
    // SAFETY: `fi_version` takes nothing and returns its version, in every release of the library.
    unsafe { libfabric().function::<Version>(c"fi_version").map(|version| version()) }
}

fn library() -> Option<Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: these have been the signatures of the two functions since version 1.0 of the library.
    *LIBRARY.get_or_init(|| unsafe {
        let enabled: Enabled = libfabric().function(c"fi_log_enabled")?;
        let log: Log = libfabric().function(c"fi_log")?;
        Some(Library { enabled, log })
    })
}

/// Says it, if anybody listens; the text is made only then.
pub(crate) fn say(level: Level, subsystem: Subsystem, text: impl FnOnce() -> String) {
    let Some(library) = library() else { return };
    let (provider, level, subsystem) = (crate::provider(), level as c_int, subsystem as c_int);
    // SAFETY: the provider is the structure we registered; the rest are numbers.
    if unsafe { (library.enabled)(provider, level, subsystem) } == 0 {
        return;
    }
    let Ok(text) = CString::new(text()) else { return };
    let (place, line) = (c"packhorse".as_ptr(), 0);
    // SAFETY: as above; the format takes one string, and there is one.
    unsafe {
        (library.log)(provider, level, subsystem, place, line, c"%s\n".as_ptr(), text.as_ptr())
    };
}
