//! libfabric's binary interface, as the provider needs it, written by hand.
//!
//! Layouts are those of x86-64 and the like (LP64). They have hardly changed from version 1.17 to 2.x; structures that grew have their
//! later fields at the end, marked with the version, and are touched only if the application is that new. Sizes and offsets are
//! asserted at compile time beside each group. Fields are named as in libfabric's manual pages, which explain them.
#![allow(missing_docs)] // the manual pages fi_getinfo(3), fi_endpoint(3), fi_cq(3) … document each field

mod bits;
mod data;
mod deferred;
mod info;
mod ops;

pub use bits::*;
pub use data::*;
pub use deferred::*;
pub use info::*;
pub use ops::*;
