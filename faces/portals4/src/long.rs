//! Arithmetic on `long double`, which this language has not: 80 bits of the old arithmetic unit in 16 bytes.
//!
//! The core hands over whole elements (`packhorse::raw::set_long_numbers`); complex numbers are two of them. Where the machine has no such
//! numbers nothing is computed, and the target says that it knows no such operation.

/// Bytes of a number.
const LEN: usize = 16;

/// Operations, as Portals numbers them.
const MIN: u8 = 0;
const MAX: u8 = 1;
const SUM: u8 = 2;
const PROD: u8 = 3;
const SWAP: u8 = 10;
const CSWAP: u8 = 11;
const CSWAP_NE: u8 = 12;
const CSWAP_LE: u8 = 13;
const CSWAP_LT: u8 = 14;
const CSWAP_GE: u8 = 15;
const CSWAP_GT: u8 = 16;

type Number = [u8; LEN];

/// Combines what is there with what is given.
pub(crate) fn compute(op: u8, is_complex: bool, there: &mut [u8], given: &[u8], compare: &[u8]) {
    let width = if is_complex { 2 * LEN } else { LEN };
    for (element, given) in there.chunks_exact_mut(width).zip(given.chunks_exact(width)) {
        if is_complex {
            complex(op, element, given, compare)
        } else {
            real(op, element, given, compare)
        }
    }
}

fn number(bytes: &[u8]) -> Number {
    let mut number = [0; LEN];
    number.copy_from_slice(&bytes[..LEN]);
    number
}

fn real(op: u8, there: &mut [u8], given: &[u8], compare: &[u8]) {
    let (old, new) = (number(there), number(given));
    let holds = |test: fn(std::cmp::Ordering) -> bool| {
        compare.len() >= LEN && order(&number(compare), &old).is_some_and(test)
    };
    let result = match op {
        MIN if order(&new, &old).is_some_and(|is| is.is_lt()) => new,
        MAX if order(&new, &old).is_some_and(|is| is.is_gt()) => new,
        SUM => sum(&old, &new),
        PROD => product(&old, &new),
        SWAP => new,
        CSWAP if holds(|is| is.is_eq()) => new,
        CSWAP_NE if !holds(|is| is.is_eq()) => new,
        CSWAP_LE if holds(|is| is.is_le()) => new,
        CSWAP_LT if holds(|is| is.is_lt()) => new,
        CSWAP_GE if holds(|is| is.is_ge()) => new,
        CSWAP_GT if holds(|is| is.is_gt()) => new,
        _ => old,
    };
    there.copy_from_slice(&result);
}

fn complex(op: u8, there: &mut [u8], given: &[u8], compare: &[u8]) {
    let parts = |bytes: &[u8]| (number(bytes), number(&bytes[LEN..]));
    let ((real, imaginary), (by_real, by_imaginary)) = (parts(there), parts(given));
    let is_same = || {
        compare.len() >= 2 * LEN && {
            let (first, second) = parts(compare);
            let same = |a: &Number, b: &Number| order(a, b).is_some_and(|is| is.is_eq());
            same(&first, &real) && same(&second, &imaginary)
        }
    };
    let result = match op {
        SUM => (sum(&real, &by_real), sum(&imaginary, &by_imaginary)),
        PROD => {
            let minus = negative(&product(&imaginary, &by_imaginary));
            let crossed = (product(&real, &by_imaginary), product(&imaginary, &by_real));
            (sum(&product(&real, &by_real), &minus), sum(&crossed.0, &crossed.1))
        }
        SWAP => (by_real, by_imaginary),
        CSWAP if is_same() => (by_real, by_imaginary),
        CSWAP_NE if !is_same() => (by_real, by_imaginary),
        _ => (real, imaginary),
    };
    there[..LEN].copy_from_slice(&result.0);
    there[LEN..].copy_from_slice(&result.1);
}

/// The sign is the highest of the 80 bits.
fn negative(of: &Number) -> Number {
    let mut number = *of;
    number[9] ^= 0x80;
    number
}

#[cfg(target_arch = "x86_64")]
mod unit {
    use super::{LEN, Number};
    use std::arch::asm;
    use std::cmp::Ordering;

    pub(super) fn sum(a: &Number, b: &Number) -> Number {
        let mut out = [0; LEN];
        // SAFETY: reads ten bytes of `a` and of `b`, writes ten of `out`; the unit's stack is left as it was found.
        unsafe {
            asm!(
                "fld tbyte ptr [{a}]", "fld tbyte ptr [{b}]", "faddp st(1), st", "fstp tbyte ptr [{out}]",
                a = in(reg) a.as_ptr(), b = in(reg) b.as_ptr(), out = in(reg) out.as_mut_ptr(),
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            );
        }
        out
    }

    pub(super) fn product(a: &Number, b: &Number) -> Number {
        let mut out = [0; LEN];
        // SAFETY: as of `sum`.
        unsafe {
            asm!(
                "fld tbyte ptr [{a}]", "fld tbyte ptr [{b}]", "fmulp st(1), st", "fstp tbyte ptr [{out}]",
                a = in(reg) a.as_ptr(), b = in(reg) b.as_ptr(), out = in(reg) out.as_mut_ptr(),
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            );
        }
        out
    }

    /// `None` if one of them is no number.
    pub(super) fn order(a: &Number, b: &Number) -> Option<Ordering> {
        let (below, same, odd): (u8, u8, u8);
        // SAFETY: reads ten bytes of `a` and of `b`; the unit's stack is left as it was found.
        unsafe {
            asm!(
                "fld tbyte ptr [{b}]", "fld tbyte ptr [{a}]", "fucomip st, st(1)",
                "setb {below}", "sete {same}", "setp {odd}", "fstp st(0)",
                a = in(reg) a.as_ptr(), b = in(reg) b.as_ptr(),
                below = out(reg_byte) below, same = out(reg_byte) same, odd = out(reg_byte) odd,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            );
        }
        match (odd, same, below) {
            (1, ..) => None,
            (_, 1, _) => Some(Ordering::Equal),
            (_, _, 1) => Some(Ordering::Less),
            _ => Some(Ordering::Greater),
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
compile_error!("long double of this machine is not known here");

use unit::{order, product, sum};

#[cfg(test)]
mod tests {
    use super::*;

    /// Small whole numbers: 64 bits of mantissa, the leading one among them, and an exponent.
    fn of(value: i64) -> Number {
        let mut number = [0; LEN];
        if value != 0 {
            let shift = value.unsigned_abs().leading_zeros();
            number[..8].copy_from_slice(&(value.unsigned_abs() << shift).to_le_bytes());
            let exponent = (16383 + 63 - shift) as u16 | if value < 0 { 0x8000 } else { 0 };
            number[8..10].copy_from_slice(&exponent.to_le_bytes());
        }
        number
    }

    #[test]
    fn numbers_are_added_multiplied_and_compared() {
        assert_eq!(sum(&of(3), &of(-5)), of(-2));
        assert_eq!(product(&of(3), &of(-5)), of(-15));
        assert!(order(&of(-3), &of(2)).is_some_and(|is| is.is_lt()));
        assert!(order(&of(7), &of(7)).is_some_and(|is| is.is_eq()));
        // More than a double holds.
        assert_eq!(sum(&of(1 << 60), &of(1)), of((1 << 60) + 1));
    }

    #[test]
    fn operations_are_those_of_portals() {
        let table = [
            (MIN, 3, -4, 0, -4),
            (MAX, 3, -4, 0, 3),
            (SUM, 3, 4, 0, 7),
            (SWAP, 3, 9, 0, 9),
            (CSWAP, 5, 9, 5, 9),
            (CSWAP, 5, 9, 6, 5),
            (CSWAP_NE, 5, 9, 6, 9),
            (CSWAP_LE, 5, 9, 5, 9),
            (CSWAP_LT, 5, 9, 5, 5),
            (CSWAP_GE, 5, 9, 4, 5),
            (CSWAP_GT, 5, 9, 6, 9),
        ];
        for (op, there, given, compare, expected) in table {
            let mut bytes = of(there);
            compute(op, false, &mut bytes, &of(given), &of(compare));
            assert_eq!(bytes, of(expected), "{op}");
        }
        let pair = |real, imaginary| [of(real), of(imaginary)].concat();
        let mut bytes = pair(1, 2);
        compute(PROD, true, &mut bytes, &pair(3, -1), &[]);
        assert_eq!(bytes, pair(5, 5));
    }
}
