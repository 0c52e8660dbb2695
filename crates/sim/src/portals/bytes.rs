//! What is in the memory of an entry, as far as that can be known, and arithmetic on it.
//!
//! Bytes of operations that go beside their request are in place when it was matched. Longer ones arrive in pieces: until all are
//! there nobody knows what is where they go, and where two of them meet nobody ever knows.

use packhorse_proto::portals::MoveKind;

/// Where nobody wrote; the application's memory begins as this.
pub(super) const BLANK: u8 = 0xA5;

/// The bytes of a piece of memory; `None` where they are not known.
#[derive(Clone, Debug)]
pub(super) struct Image(Vec<Option<u8>>);

/// A range of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: u64,
    pub(super) len: u64,
}

impl Span {
    /// Whether two have a byte in common.
    pub(super) fn meets(self, other: Self) -> bool {
        let ends = |it: Self| it.at.saturating_add(it.len);
        self.len > 0 && other.len > 0 && self.at < ends(other) && other.at < ends(self)
    }

    fn range(self) -> std::ops::Range<usize> {
        self.at as usize..(self.at + self.len) as usize
    }
}

impl Image {
    pub(super) fn blank(len: u64) -> Self {
        Self(vec![Some(BLANK); len as usize])
    }

    pub(super) fn read(&self, span: Span) -> Vec<Option<u8>> {
        if span.len == 0 { Vec::new() } else { self.0[span.range()].to_vec() }
    }

    pub(super) fn write(&mut self, span: Span, bytes: &[Option<u8>]) {
        if span.len > 0 {
            self.0[span.range()].copy_from_slice(bytes);
        }
    }

    pub(super) fn forget(&mut self, span: Span) {
        if span.len > 0 {
            self.0[span.range()].fill(None);
        }
    }

    /// The first byte that is not what it must be.
    pub(super) fn differs(&self, found: &[u8]) -> Option<usize> {
        if self.0.len() != found.len() {
            return Some(self.0.len().min(found.len()));
        }
        let mut pairs = self.0.iter().zip(found);
        pairs.position(|(known, found)| known.is_some_and(|byte| byte != *found))
    }
}

/// Bytes that are known.
pub(super) fn known(bytes: &[u8]) -> Vec<Option<u8>> {
    bytes.iter().copied().map(Some).collect()
}

/// Elements of the runs: integers, for they have one right answer.
pub(super) const DATATYPES: [(u8, u64); 8] =
    [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (7, 8), (8, 8)];

/// Bytes of an element.
pub(super) fn width_of(datatype: u8) -> u64 {
    DATATYPES.iter().find(|(number, _)| *number == datatype).map_or(1, |(_, width)| *width)
}

/// What an atomic operation leaves of what was there. B.10, in words: sums and products wrap around; a conditional swap stores what
/// was sent if `operand x there` holds; a masked one, the bits that the operand has.
pub(super) fn computed(
    kind: MoveKind,
    (op, datatype): (u8, u8),
    there: &[Option<u8>],
    given: &[u8],
    operand: [u64; 4],
) -> Vec<Option<u8>> {
    let width = width_of(datatype) as usize;
    let is_signed = matches!(datatype, 0 | 2 | 4 | 7);
    let mut result = there.to_vec();
    for (at, element) in result.chunks_exact_mut(width).enumerate() {
        let Some(old) = element.iter().copied().collect::<Option<Vec<u8>>>() else {
            element.fill(None);
            continue;
        };
        let new = &given[at * width..(at + 1) * width];
        let (old, new) = (number(&old, is_signed), number(new, is_signed));
        let operand = number(&operand[0].to_le_bytes()[..width], is_signed);
        let after = one(kind, op, old, new, operand);
        let bytes = &after.to_le_bytes()[..width];
        element.iter_mut().zip(bytes).for_each(|(byte, new)| *byte = Some(*new));
    }
    result
}

fn number(bytes: &[u8], is_signed: bool) -> i128 {
    let is_negative = is_signed && bytes.last().is_some_and(|byte| *byte >= 0x80);
    let mut all = if is_negative { [0xff; 16] } else { [0; 16] };
    all[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(all)
}

fn one(kind: MoveKind, op: u8, there: i128, given: i128, operand: i128) -> i128 {
    let if_so = |is_so: bool| if is_so { given } else { there };
    match (kind, op) {
        (_, 0) => there.min(given),
        (_, 1) => there.max(given),
        (_, 2) => there.wrapping_add(given),
        (_, 3) => there.wrapping_mul(given),
        (_, 4) => i128::from(there != 0 || given != 0),
        (_, 5) => i128::from(there != 0 && given != 0),
        (_, 6) => there | given,
        (_, 7) => there & given,
        (_, 8) => i128::from((there != 0) != (given != 0)),
        (_, 9) => there ^ given,
        (MoveKind::Swap, 10) => given,
        (MoveKind::Swap, 11) => if_so(operand == there),
        (MoveKind::Swap, 12) => if_so(operand != there),
        (MoveKind::Swap, 13) => if_so(operand <= there),
        (MoveKind::Swap, 14) => if_so(operand < there),
        (MoveKind::Swap, 15) => if_so(operand >= there),
        (MoveKind::Swap, 16) => if_so(operand > there),
        (MoveKind::Swap, 17) => (given & operand) | (there & !operand),
        _ => there,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_that_of_the_elements() {
        let sum = computed(MoveKind::Atomic, (2, 1), &known(&[250, 3]), &[10, 4], [0; 4]);
        assert_eq!(sum, known(&[4, 7]));
        let least = computed(MoveKind::Atomic, (0, 0), &known(&[0xff]), &[1], [0; 4]);
        assert_eq!(least, known(&[0xff]), "-1 is less than 1");
        let masked = computed(MoveKind::Swap, (17, 1), &known(&[0xf0]), &[0x0f], [0x3c, 0, 0, 0]);
        assert_eq!(masked, known(&[0xcc]));
        let cut = computed(MoveKind::Atomic, (2, 3), &known(&[1, 0, 9]), &[1, 0, 9], [0; 4]);
        assert_eq!(cut, known(&[2, 0, 9]), "only whole elements");
    }
}
