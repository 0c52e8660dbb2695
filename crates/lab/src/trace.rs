//! What each part did when: the papers' Gantt charts, and the reasons behind a figure.

use crate::plant::Part;

/// A part was busy with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which host.
    pub node: usize,
    /// Which part of it.
    pub part: Part,
    /// From then, in nanoseconds,
    pub start_ns: u64,
    /// to then.
    pub end_ns: u64,
    /// With what.
    pub what: &'static str,
    /// The frame it was for, counted by its sender; 0: none.
    pub frame: u32,
}
