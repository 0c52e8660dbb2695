//! Words that nobody can guess, and who this host is.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Words that nobody can guess.
pub(crate) fn draw<const N: usize>() -> io::Result<[u64; N]> {
    let mut words = [[0; 8]; N];
    let bytes = words.as_flattened_mut();
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(words.map(u64::from_ne_bytes))
}

/// A number that all endpoints of one boot of one host share, and no others.
pub fn host_identity() -> u64 {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = boot.chars().filter_map(|c| c.to_digit(16)).take(16);
    digits.fold(0, |number, digit| number << 4 | u64::from(digit))
}
