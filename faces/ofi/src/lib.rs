//! Packhorse under libfabric: the provider `packhorse`.
//!
//! MPI libraries that speak libfabric (Open MPI, MPICH, Intel MPI) load this object as it is, and run over Packhorse without being
//! rebuilt:
//!
//! ```text
//!   MPI ──▶ libfabric ── dlopen ──▶ libpackhorse-fi.so: fi_prov_ini ──▶ getinfo, fabric ──▶ domain ──▶ av, cq, cntr, ep, mr
//!      │                                                                                              │
//!      └── fi_tsend, fi_cq_read … straight through the tables (`abi`) of each object ────────────────▶ port ──▶ packhorse
//! ```
//!
//! A thin translation: one file per object of libfabric, `abi` for what things look like, `errors` for codes, `offer` for what is offered and
//! asked for, `port` for an enabled endpoint. Nothing of libfabric is linked; one binary serves version 1.17 and all later ones. What is `unsafe`
//! here is the C boundary: pointers come from the application, and what may be relied on is what libfabric's manual pages promise.
//!
//! Panics end the process with their message: they cannot cross into C.

pub mod abi;
mod atomic;
mod av;
mod cntr;
mod common;
mod cq;
mod domain;
mod ep;
mod eq;
mod errors;
mod fabric;
mod flags;
mod form;
mod fresh;
mod info;
mod later;
mod log;
mod memory;
mod mr;
mod msg;
mod object;
mod offer;
mod op;
mod peers;
mod place;
mod port;
mod ports;
mod refusals;
mod remote;
mod rma;
mod setting;
mod stx;
mod tagged;
mod trigger;
mod works;

use std::cell::UnsafeCell;

use abi::{Provider, version};

/// The version of the interface that we know; the library's own, if it is newer: it would pass us over otherwise.
const API_VERSION: u32 = version(2, 6);
/// A flag of the library's own in its part of the structure: nothing is to be layered over us.
const NO_LAYERING_AT: usize = 5;

/// What the library registers. It writes into it, so it must not lie in read-only memory.
struct Registered(UnsafeCell<Provider>);

// SAFETY: we write it under the library's lock, before the library knows it; from then on it is the library's.
unsafe impl Sync for Registered {}

static PROVIDER: Registered = Registered(UnsafeCell::new(Provider {
    version: version(0, 1),
    fi_version: API_VERSION,
    context: [0; 32],
    name: offer::NAME.as_ptr(),
    getinfo: info::getinfo,
    fabric: fabric::open,
    cleanup,
}));

/// The registered structure, for the library's log.
fn provider() -> *const Provider {
    PROVIDER.0.get()
}

/// What libfabric calls when it has loaded this object.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut Provider {
    let provider = PROVIDER.0.get();
    // SAFETY: the library calls this once, under its lock, and knows the structure only when we return it.
    unsafe {
        (*provider).fi_version = API_VERSION.max(log::library_version().unwrap_or(0));
        (*provider).context[NO_LAYERING_AT] = 1;
    }
    provider
}

/// The library goes. Endpoints that were closed have no threads any more; those that were not end with the process, and the
/// object stays mapped (`-z nodelete`) until then.
unsafe extern "C" fn cleanup() {
    refusals::on_end();
}
