//! What an endpoint tells of itself to who asks at its door: the process that has it, and its counters.
//!
//! ```text
//!   question   "MX1?"   page (4)                    the door of a named endpoint (PROTOCOL §3.16) is shown this instead of a key
//!   answer     "MX1!"   page (4)   3 numbers (8 each)   with its refusal: nobody gets an address for it
//! ```
//!
//! Numbers are big-endian; the first is the process id, the counters follow in the order of `info::COUNTERS`. So `packhorse mx` can see the
//! endpoints of all processes of a host, and needs no service for it. Where there is a shared secret, only its holders come so far.

use packhorse::Greeting;

use crate::info::COUNTERS;

const QUESTION: &[u8; 4] = b"MX1?";
const ANSWER: &[u8; 4] = b"MX1!";
const PER_PAGE: usize = 3;
/// The process and its counters.
pub(crate) const NUMBER_COUNT: usize = 1 + COUNTERS.len();
pub(crate) const PAGE_COUNT: u32 = NUMBER_COUNT.div_ceil(PER_PAGE) as u32;

fn page(magic: &[u8; 4], number: u32) -> Greeting {
    let mut greeting = Greeting::default();
    greeting[..4].copy_from_slice(magic);
    greeting[4..8].copy_from_slice(&number.to_be_bytes());
    greeting
}

/// What is shown to a door to be told this page.
pub(crate) fn question(number: u32) -> Greeting {
    page(QUESTION, number)
}

/// What a door says to that; `None` if it is not asked for a page. Pages beyond the last are empty.
pub(crate) fn answer(
    asker: &Greeting,
    numbers: impl FnOnce() -> [u64; NUMBER_COUNT],
) -> Option<Greeting> {
    let rest = asker.strip_prefix(QUESTION)?;
    let number = u32::from_be_bytes(*rest.first_chunk()?);
    let mut told = page(ANSWER, number);
    if number < PAGE_COUNT {
        let numbers = numbers();
        let of_page = numbers.iter().skip(number as usize * PER_PAGE);
        for (room, number) in told[8..].chunks_exact_mut(8).zip(of_page) {
            room.copy_from_slice(&number.to_be_bytes());
        }
    }
    Some(told)
}

/// The numbers of a page; `None` if it is another page, or nothing of this kind.
pub(crate) fn read(told: &Greeting, number: u32) -> Option<[u64; PER_PAGE]> {
    if told[..8] != page(ANSWER, number)[..8] {
        return None;
    }
    let mut numbers = [0; PER_PAGE];
    for (number, bytes) in numbers.iter_mut().zip(told[8..].chunks_exact(8)) {
        *number = u64::from_be_bytes(*bytes.first_chunk()?);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_are_told_page_by_page() {
        let numbers: [u64; NUMBER_COUNT] = std::array::from_fn(|at| u64::MAX - at as u64);
        let mut told = Vec::new();
        for page in 0..PAGE_COUNT {
            told.extend(read(&answer(&question(page), || numbers).unwrap(), page).unwrap());
        }
        assert_eq!(told[..NUMBER_COUNT], numbers);
        assert!(told[NUMBER_COUNT..].iter().all(|&number| number == 0));
    }

    #[test]
    fn other_questions_and_answers_are_none() {
        let nobody = || -> [u64; NUMBER_COUNT] { unreachable!("nobody asked") };
        assert_eq!(answer(&Greeting::default(), nobody), None);
        let beyond = answer(&question(u32::MAX), nobody).unwrap();
        assert_eq!(read(&beyond, u32::MAX), Some([0; PER_PAGE]));
        assert_eq!((read(&beyond, 0), read(&Greeting::default(), 0)), (None, None));
    }
}
