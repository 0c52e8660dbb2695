//! The `packhorse` program, as a library for its tests, fuzz targets and benches.
//!
//! [`sim`] proves the protocol: whole endpoints on a simulated network, from a seed. [`mod@bench`] and [`compare`] measure
//! Packhorse beside its rivals on a real one. [`mpi`] puts it under MPI libraries.
//!
//! Reading order: `main` (each command is a file or a folder), [`sim`] and its `scenario`, `world` and `oracle`; [`mod@bench`] and its
//! `system`, the seam that Packhorse and its [`rival`]s fill alike.

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
pub mod sim;
pub mod soak;
