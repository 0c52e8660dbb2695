//! Arithmetic on elements of exposed memory (PROTOCOL §11.6).
//!
//! An atomic operation is an array of elements, each combined with what is there, in the target's driver: nobody else
//! computes there meanwhile. Elements are little-endian, on the wire and in memory. What is combined with what is a
//! table of operations by types; who asks for a pair that is not in it hears so before anything is sent, and a target
//! asks the table again, since it does not believe its peers.

/// What elements are. The numbers are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Datatype {
    /// Signed, 8 bits.
    I8 = 0,
    /// Unsigned, 8 bits.
    U8 = 1,
    /// Signed, 16 bits.
    I16 = 2,
    /// Unsigned, 16 bits.
    U16 = 3,
    /// Signed, 32 bits.
    I32 = 4,
    /// Unsigned, 32 bits.
    U32 = 5,
    /// Signed, 64 bits.
    I64 = 6,
    /// Unsigned, 64 bits.
    U64 = 7,
    /// Real, 32 bits.
    F32 = 8,
    /// Real, 64 bits.
    F64 = 9,
    /// Complex: two reals of 32 bits.
    C32 = 10,
    /// Complex: two reals of 64 bits.
    C64 = 11,
    /// Signed, 128 bits.
    I128 = 12,
    /// Unsigned, 128 bits.
    U128 = 13,
}

/// What is done with them: `there` is what is in memory, `given` the operand. The numbers are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AtomicOp {
    /// The lesser of the two.
    Min = 0,
    /// The greater of the two.
    Max = 1,
    /// Their sum; of integers, what is left of it when it overflows.
    Sum = 2,
    /// Their product, likewise.
    Prod = 3,
    /// Whether one of them is not 0: 1 or 0.
    Lor = 4,
    /// Whether both are not 0: 1 or 0.
    Land = 5,
    /// Bits of either.
    Bor = 6,
    /// Bits of both.
    Band = 7,
    /// Whether exactly one of them is not 0: 1 or 0.
    Lxor = 8,
    /// Bits of exactly one.
    Bxor = 9,
    /// Nothing: `there` is fetched.
    Read = 10,
    /// `given`.
    Write = 11,
    /// `given` if `there` is what was compared with.
    Cswap = 12,
    /// `given` if `compare` and `there` differ.
    CswapNe = 13,
    /// `given` if `compare` ≤ `there`.
    CswapLe = 14,
    /// `given` if `compare` < `there`.
    CswapLt = 15,
    /// `given` if `compare` ≥ `there`.
    CswapGe = 16,
    /// `given` if `compare` > `there`.
    CswapGt = 17,
    /// The bits of `given` that are set in `compare`, the others as they are.
    Mswap = 18,
}

impl Datatype {
    /// Every one.
    pub const ALL: [Self; 14] = [
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F32,
        Self::F64,
        Self::C32,
        Self::C64,
        Self::I128,
        Self::U128,
    ];

    pub(crate) fn read(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// Bytes of an element.
    pub const fn width(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::C32 => 8,
            Self::C64 | Self::I128 | Self::U128 => 16,
        }
    }

    fn is_complex(self) -> bool {
        matches!(self, Self::C32 | Self::C64)
    }

    fn is_integer(self) -> bool {
        !matches!(self, Self::F32 | Self::F64 | Self::C32 | Self::C64)
    }
}

impl AtomicOp {
    /// Every one.
    pub const ALL: [Self; 19] = [
        Self::Min,
        Self::Max,
        Self::Sum,
        Self::Prod,
        Self::Lor,
        Self::Land,
        Self::Bor,
        Self::Band,
        Self::Lxor,
        Self::Bxor,
        Self::Read,
        Self::Write,
        Self::Cswap,
        Self::CswapNe,
        Self::CswapLe,
        Self::CswapLt,
        Self::CswapGe,
        Self::CswapGt,
        Self::Mswap,
    ];

    pub(crate) fn read(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// Whether it takes something to compare with.
    pub const fn compares(self) -> bool {
        self as u8 >= Self::Cswap as u8
    }

    /// Whether it changes what is there.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// Whether there is this operation on elements of this type: bits are those of integers, and complex numbers have no
    /// order.
    pub fn takes(self, datatype: Datatype) -> bool {
        match self {
            Self::Bor | Self::Band | Self::Bxor | Self::Mswap => datatype.is_integer(),
            Self::Min
            | Self::Max
            | Self::CswapLe
            | Self::CswapLt
            | Self::CswapGe
            | Self::CswapGt => !datatype.is_complex(),
            _ => true,
        }
    }
}

/// Combines elements of `there` with those of `given` and, where the operation compares, `compare`; each as long as
/// `there`. The operation takes the type.
pub(crate) fn combine(
    op: AtomicOp,
    datatype: Datatype,
    there: &mut [u8],
    given: &[u8],
    compare: &[u8],
) {
    debug_assert!(op.takes(datatype), "{op:?} of {datatype:?}");
    match datatype {
        Datatype::I8 => each::<i8, 1>(op, there, given, compare),
        Datatype::U8 => each::<u8, 1>(op, there, given, compare),
        Datatype::I16 => each::<i16, 2>(op, there, given, compare),
        Datatype::U16 => each::<u16, 2>(op, there, given, compare),
        Datatype::I32 => each::<i32, 4>(op, there, given, compare),
        Datatype::U32 => each::<u32, 4>(op, there, given, compare),
        Datatype::I64 => each::<i64, 8>(op, there, given, compare),
        Datatype::U64 => each::<u64, 8>(op, there, given, compare),
        Datatype::F32 => each::<f32, 4>(op, there, given, compare),
        Datatype::F64 => each::<f64, 8>(op, there, given, compare),
        Datatype::C32 => each::<Complex<f32>, 8>(op, there, given, compare),
        Datatype::C64 => each::<Complex<f64>, 16>(op, there, given, compare),
        Datatype::I128 => each::<i128, 16>(op, there, given, compare),
        Datatype::U128 => each::<u128, 16>(op, there, given, compare),
    }
}

fn each<T: Element<N>, const N: usize>(
    op: AtomicOp,
    there: &mut [u8],
    given: &[u8],
    compare: &[u8],
) {
    let (elements, _) = there.as_chunks_mut::<N>();
    let ((given, _), (compare, _)) = (given.as_chunks::<N>(), compare.as_chunks::<N>());
    for (at, element) in elements.iter_mut().enumerate() {
        let operand = given.get(at).map_or(T::from_bool(false), |bytes| T::read(*bytes));
        let compared = compare.get(at).map_or(operand, |bytes| T::read(*bytes));
        *element = one(op, T::read(*element), operand, compared).write();
    }
}

fn one<T: Element<N>, const N: usize>(op: AtomicOp, there: T, given: T, compare: T) -> T {
    let swapped = |is_so: bool| if is_so { given } else { there };
    let (set, given_set) = (there.is_set(), given.is_set());
    match op {
        AtomicOp::Min => swapped(given < there),
        AtomicOp::Max => swapped(given > there),
        AtomicOp::Sum => there.sum(given),
        AtomicOp::Prod => there.product(given),
        AtomicOp::Lor => T::from_bool(set || given_set),
        AtomicOp::Land => T::from_bool(set && given_set),
        AtomicOp::Lxor => T::from_bool(set != given_set),
        AtomicOp::Bor => there.bits(given, |a, b| a | b),
        AtomicOp::Band => there.bits(given, |a, b| a & b),
        AtomicOp::Bxor => there.bits(given, |a, b| a ^ b),
        AtomicOp::Read => there,
        AtomicOp::Write => given,
        AtomicOp::Cswap => swapped(compare == there),
        AtomicOp::CswapNe => swapped(compare != there),
        AtomicOp::CswapLe => swapped(compare <= there),
        AtomicOp::CswapLt => swapped(compare < there),
        AtomicOp::CswapGe => swapped(compare >= there),
        AtomicOp::CswapGt => swapped(compare > there),
        AtomicOp::Mswap => {
            let taken = given.bits(compare, |given, mask| given & mask);
            there.bits(compare, |there, mask| there & !mask).bits(taken, |a, b| a | b)
        }
    }
}

/// What all types of elements can.
trait Element<const N: usize>: Copy + PartialEq + PartialOrd {
    fn read(bytes: [u8; N]) -> Self;
    fn write(self) -> [u8; N];
    fn from_bool(is_so: bool) -> Self;
    fn is_set(self) -> bool;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;

    /// Byte by byte: for integers that is bit by bit.
    fn bits(self, other: Self, combine: impl Fn(u8, u8) -> u8) -> Self {
        let (mut bytes, other) = (self.write(), other.write());
        for (byte, other) in bytes.iter_mut().zip(other) {
            *byte = combine(*byte, other);
        }
        Self::read(bytes)
    }
}

macro_rules! integers {
    ($($name:ty: $len:literal),*) => {$(
        impl Element<$len> for $name {
            fn read(bytes: [u8; $len]) -> Self {
                Self::from_le_bytes(bytes)
            }
            fn write(self) -> [u8; $len] {
                self.to_le_bytes()
            }
            fn from_bool(is_so: bool) -> Self {
                Self::from(is_so)
            }
            fn is_set(self) -> bool {
                self != 0
            }
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
    )*};
}

integers! { i8: 1, u8: 1, i16: 2, u16: 2, i32: 4, u32: 4, i64: 8, u64: 8, i128: 16, u128: 16 }

/// A complex number: real part, imaginary part. Nobody asks it for an order.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Complex<T>(T, T);

macro_rules! reals {
    ($($name:ident: $len:literal, $pair_len:literal),*) => {$(
        impl Element<$len> for $name {
            fn read(bytes: [u8; $len]) -> Self {
                Self::from_le_bytes(bytes)
            }
            fn write(self) -> [u8; $len] {
                self.to_le_bytes()
            }
            fn from_bool(is_so: bool) -> Self {
                if is_so { 1.0 } else { 0.0 }
            }
            fn is_set(self) -> bool {
                self != 0.0
            }
            fn sum(self, other: Self) -> Self {
                self + other
            }
            fn product(self, other: Self) -> Self {
                self * other
            }
        }

        impl Element<$pair_len> for Complex<$name> {
            fn read(bytes: [u8; $pair_len]) -> Self {
                let (mut real, mut imaginary) = ([0; $len], [0; $len]);
                real.copy_from_slice(&bytes[..$len]);
                imaginary.copy_from_slice(&bytes[$len..]);
                Self($name::from_le_bytes(real), $name::from_le_bytes(imaginary))
            }
            fn write(self) -> [u8; $pair_len] {
                let mut bytes = [0; $pair_len];
                bytes[..$len].copy_from_slice(&self.0.to_le_bytes());
                bytes[$len..].copy_from_slice(&self.1.to_le_bytes());
                bytes
            }
            fn from_bool(is_so: bool) -> Self {
                Self(if is_so { 1.0 } else { 0.0 }, 0.0)
            }
            fn is_set(self) -> bool {
                self.0 != 0.0 || self.1 != 0.0
            }
            fn sum(self, other: Self) -> Self {
                Self(self.0 + other.0, self.1 + other.1)
            }
            fn product(self, other: Self) -> Self {
                let real = self.0 * other.0 - self.1 * other.1;
                Self(real, self.0 * other.1 + self.1 * other.0)
            }
        }
    )*};
}

reals! { f32: 4, 8, f64: 8, 16 }

#[cfg(test)]
mod tests {
    use super::*;

    fn i32s(op: AtomicOp, there: i32, given: i32, compare: i32) -> i32 {
        let mut bytes = there.to_le_bytes();
        let (given, compare) = (given.to_le_bytes(), compare.to_le_bytes());
        combine(op, Datatype::I32, &mut bytes, &given, &compare);
        i32::from_le_bytes(bytes)
    }

    fn f64s(op: AtomicOp, there: f64, given: f64) -> f64 {
        let mut bytes = there.to_le_bytes();
        combine(op, Datatype::F64, &mut bytes, &given.to_le_bytes(), &[]);
        f64::from_le_bytes(bytes)
    }

    #[test]
    fn integers_are_combined_as_the_table_says() {
        use AtomicOp::*;
        let table = [
            (Min, 3, -4, 0, -4),
            (Min, -4, 3, 0, -4),
            (Max, 3, -4, 0, 3),
            (Max, -4, 3, 0, 3),
            (Sum, i32::MAX, 1, 0, i32::MIN),
            (Prod, -3, 5, 0, -15),
            (Lor, 0, 7, 0, 1),
            (Lor, 0, 0, 0, 0),
            (Land, 2, 0, 0, 0),
            (Land, 2, 9, 0, 1),
            (Lxor, 2, 9, 0, 0),
            (Lxor, 2, 0, 0, 1),
            (Bor, 0b1010, 0b0110, 0, 0b1110),
            (Band, 0b1010, 0b0110, 0, 0b0010),
            (Bxor, 0b1010, 0b0110, 0, 0b1100),
            (Read, 5, 9, 0, 5),
            (Write, 5, 9, 0, 9),
            (Mswap, 0b1111_0000, 0b1010_1010, 0b0011_1100, 0b1110_1000),
        ];
        for (op, there, given, compare, expected) in table {
            assert_eq!(i32s(op, there, given, compare), expected, "{op:?}");
        }
        // What is compared with is less than, equal to and greater than what is there, which is 5.
        let table = [
            (Cswap, [5, 9, 5]),
            (CswapNe, [9, 5, 9]),
            (CswapLe, [9, 9, 5]),
            (CswapLt, [9, 5, 5]),
            (CswapGe, [5, 9, 9]),
            (CswapGt, [5, 5, 9]),
        ];
        for (op, expected) in table {
            assert_eq!([4, 5, 6].map(|compare| i32s(op, 5, 9, compare)), expected, "{op:?}");
        }
    }

    #[test]
    fn reals_and_complex_numbers_too() {
        assert_eq!(f64s(AtomicOp::Sum, 1.5, 2.25), 3.75);
        assert_eq!(f64s(AtomicOp::Min, 1.5, -2.0), -2.0);
        assert_eq!(f64s(AtomicOp::Lor, 0.0, 2.0), 1.0);
        let number = |real: f32, imaginary: f32| Complex(real, imaginary).write();
        let mut there = number(1.0, 2.0);
        combine(AtomicOp::Prod, Datatype::C32, &mut there, &number(3.0, -1.0), &[]);
        assert_eq!(there, number(5.0, 5.0));
        combine(AtomicOp::Cswap, Datatype::C32, &mut there, &number(0.0, 1.0), &number(5.0, 5.0));
        assert_eq!(there, number(0.0, 1.0));
    }

    #[test]
    fn arrays_are_combined_element_by_element() {
        let mut there = [1, 2, 250, 4];
        combine(AtomicOp::Sum, Datatype::U8, &mut there, &[1, 1, 10, 1], &[]);
        assert_eq!(there, [2, 3, 4, 5]);
    }

    #[test]
    fn every_number_of_the_wire_is_read_as_what_was_written() {
        for op in AtomicOp::ALL {
            assert_eq!(AtomicOp::read(op as u8), Some(op));
        }
        for datatype in Datatype::ALL {
            assert_eq!(Datatype::read(datatype as u8), Some(datatype));
        }
        assert_eq!((AtomicOp::read(19), Datatype::read(14)), (None, None));
        assert!(!AtomicOp::Bor.takes(Datatype::F32) && !AtomicOp::Min.takes(Datatype::C64));
    }
}
