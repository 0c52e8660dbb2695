//! The `packhorse` program, as a library for its tests, fuzz targets and benches.
//!
//! So far it has one command, [`sim`]: whole endpoints on a simulated network, from a seed.

#![forbid(unsafe_code)]

pub mod sim;
