//! Which atomic operations Portals has on which elements, and what they are to `atomic`.
//!
//! The numbers are those of Portals, as they travel and as events tell them.

use super::moves::MoveKind;
use crate::onesided::atomic::{AtomicOp, Datatype};

/// The first operation that replaces.
const SWAP: u8 = 10;
/// The first that replaces under a condition, the last that compares for equality only, and the one that replaces bits.
const CSWAP: u8 = 11;
const CSWAP_NE: u8 = 12;
const MSWAP: u8 = 17;
/// The real and the complex number of the host's C that Rust has not.
const LONG_DOUBLE: u8 = 12;
const LONG_DOUBLE_COMPLEX: u8 = 13;
/// Bytes of elements at most.
pub const ATOMIC_LEN_MAX: u64 = 512;

/// What elements are, to the rules of what is allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Integer,
    Real,
    Complex,
}

fn class(datatype: u8) -> Option<Class> {
    match datatype {
        0..=5 | 7 | 8 => Some(Class::Integer),
        6 | 9 | LONG_DOUBLE => Some(Class::Real),
        10 | 11 | LONG_DOUBLE_COMPLEX => Some(Class::Complex),
        _ => None,
    }
}

/// Bytes of an element.
pub(crate) fn width(datatype: u8) -> Option<u64> {
    Some(match datatype {
        LONG_DOUBLE => 16,
        LONG_DOUBLE_COMPLEX => 32,
        _ => datatype_of(datatype)?.width() as u64,
    })
}

/// What the core calls these elements; `None` for those that only the driver can compute with.
pub(crate) fn datatype_of(datatype: u8) -> Option<Datatype> {
    const TYPES: [Datatype; 12] = [
        Datatype::I8,
        Datatype::U8,
        Datatype::I16,
        Datatype::U16,
        Datatype::I32,
        Datatype::U32,
        Datatype::F32,
        Datatype::I64,
        Datatype::U64,
        Datatype::F64,
        Datatype::C32,
        Datatype::C64,
    ];
    TYPES.get(usize::from(datatype)).copied()
}

/// What the core calls this operation: it has one more, which only reads.
pub(crate) fn op_of(op: u8) -> Option<AtomicOp> {
    AtomicOp::read(if op < SWAP { op } else { op + 1 })
}

/// Whether there is such an operation on such elements, so many bytes of them.
pub(crate) fn makes_sense(kind: MoveKind, op: u8, datatype: u8, len: u64) -> bool {
    let (Some(class), Some(width)) = (class(datatype), width(datatype)) else { return false };
    let is_for_them = match op {
        0 | 1 => class != Class::Complex,
        2 | 3 => true,
        4..SWAP => class == Class::Integer,
        SWAP..=CSWAP_NE => true,
        MSWAP => class == Class::Integer,
        ..MSWAP => class != Class::Complex,
        _ => return false,
    };
    let swaps = op >= SWAP;
    // Conditional and masked swaps are of one element.
    // What is left of others behind their last whole element is not computed with.
    let len_is_right = op < CSWAP || len == width;
    is_for_them && swaps == (kind == MoveKind::Swap) && len_is_right && len <= ATOMIC_LEN_MAX
}

/// Whether it replaces.
pub(crate) fn swaps(op: u8) -> bool {
    op >= SWAP
}

/// Whether it compares, or masks, with an operand.
pub(crate) fn compares(op: u8) -> bool {
    op >= CSWAP
}
