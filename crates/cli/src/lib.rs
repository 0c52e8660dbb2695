//! The `packhorse` program, as a library for its tests.
//!
//! [`mod@bench`] and [`compare`] measure Packhorse beside its rivals. [`mpi`] puts it under MPI libraries. `packhorse sim` is only a
//! command line here; the simulator is a crate of its own, `packhorse-sim`.
//!
//! Reading order: `main` (each command is a file or a folder); [`mod@bench`] and its `system`, the seam that Packhorse and its
//! [`rival`]s fill alike.

#![deny(unsafe_code)] // not `forbid`: `rival::sys` and `rival::xdp_sys` make the raw calls

pub mod bench;
pub mod compare;
pub mod hosts;
pub mod machine;
pub mod manual;
pub mod mpi;
pub mod paths;
pub mod peers;
pub mod report;
pub mod rival;
pub mod serve;
pub mod soak;
