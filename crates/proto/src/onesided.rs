//! One-sided operations: as who asks for them, and as who is asked.

pub(crate) mod atomic;
pub(crate) mod operate;
pub(crate) mod region;
pub(crate) mod serve;
