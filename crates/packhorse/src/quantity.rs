//! Lengths and times as people write them, for settings and command lines alike: `8`, `64K`, `1M`; `50us`, `1ms`, `2s`.
//!
//! ```
//! use packhorse::quantity::{self, Unit};
//! use std::time::Duration;
//!
//! assert_eq!(quantity::len("64K", u64::MAX), Ok(65_536));
//! assert_eq!(quantity::time("50", Unit::Microseconds), Ok(Duration::from_micros(50)));
//! assert_eq!(quantity::time("1.5ms", Unit::Microseconds), Ok(Duration::from_micros(1500)));
//! assert!(quantity::len("64Q", u64::MAX).unwrap_err().starts_with("must be a length"));
//! ```
//!
//! An error says what the text must be, and begins with those words: whoever asks puts before it which setting it is and what was written.

use std::time::Duration;

/// Letters behind a length, the largest first: powers of 1024.
const LEN_UNITS: [(char, u64); 3] = [('G', 1 << 30), ('M', 1 << 20), ('K', 1 << 10)];

/// The unit of a time that is a bare number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// As in `PACKHORSE_SPIN_US`.
    Microseconds,
    /// As in `PACKHORSE_CONTACT_S` and `--seconds`.
    Seconds,
}

impl Unit {
    fn word(self) -> &'static str {
        match self {
            Self::Microseconds => "microseconds",
            Self::Seconds => "seconds",
        }
    }

    fn ns(self) -> u64 {
        match self {
            Self::Microseconds => 1_000,
            Self::Seconds => 1_000_000_000,
        }
    }
}

/// Reads a length: bytes, or K, M or G of them.
pub fn len(text: &str, most: u64) -> Result<u64, String> {
    let last = text.chars().next_back().map(|letter| letter.to_ascii_uppercase());
    let unit = LEN_UNITS.iter().find(|(letter, _)| Some(*letter) == last);
    let (digits, factor) = unit.map_or((text, 1), |&(_, factor)| (&text[..text.len() - 1], factor));
    if !is_digits(digits) {
        return Err("must be a length: a number of bytes, or of K, M or G such as 64K".into());
    }
    // All digits: what does not fit is too large.
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes
        .filter(|&bytes| bytes <= most)
        .ok_or_else(|| format!("must be a length of at most {}", show_len(most)))
}

/// A length as one would type it.
pub fn show_len(bytes: u64) -> String {
    for (letter, factor) in LEN_UNITS {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{letter}", bytes / factor);
        }
    }
    bytes.to_string()
}

/// Reads a time: a number with `ns`, `us`, `ms` or `s` behind it, or a bare one in this unit. Parts of a unit may follow a point.
pub fn time(text: &str, bare: Unit) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit_ns = match unit {
        "" => Some(bare.ns()),
        "ns" => Some(1),
        "us" | "µs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        _ => None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let Some(unit_ns) = unit_ns.filter(|_| is_digits(whole) && is_digits(part)) else {
        return Err(format!(
            "must be a time: a number of {}, or one with its unit such as 50us, 1.5ms or 2s",
            bare.word()
        ));
    };
    // All digits: what does not fit is too large. Parts of a nanosecond are rounded.
    let whole_ns = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(unit_ns));
    let part_ns = format!("0.{part}").parse::<f64>().map_or(0.0, |part| part * unit_ns as f64);
    let ns = whole_ns.and_then(|ns| ns.checked_add(part_ns.round() as u64));
    ns.map(Duration::from_nanos).ok_or_else(|| "must be a time of less than 500 years".into())
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read() {
        for (text, bytes) in [
            ("0", 0),
            ("8", 8),
            ("1500", 1500),
            ("1K", 1 << 10),
            ("64K", 64 << 10),
            ("64k", 64 << 10),
            ("1M", 1 << 20),
            ("3m", 3 << 20),
            ("1G", 1 << 30),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(len(text, u64::MAX), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_length_hears_what_is() {
        for text in ["", "K", "12q", "64KB", "1.5M", "-1", "+1", " 8", "8 K", "8µ", "0x10"] {
            let wrong = len(text, u64::MAX).unwrap_err();
            assert!(wrong.starts_with("must be a length: ") && wrong.contains("64K"), "{text}");
        }
        for text in ["1025K", "2G", "99999999999999999999", "18446744073709551615K"] {
            assert_eq!(len(text, 1 << 20).unwrap_err(), "must be a length of at most 1M", "{text}");
        }
    }

    #[test]
    fn lengths_are_shown_as_typed() {
        for text in ["0", "8", "1500", "1K", "64K", "1M", "1G"] {
            assert_eq!(show_len(len(text, u64::MAX).unwrap()), text);
        }
    }

    #[test]
    fn times_are_read() {
        for (text, bare, ns) in [
            ("50", Unit::Microseconds, 50_000),
            ("50us", Unit::Seconds, 50_000),
            ("50µs", Unit::Seconds, 50_000),
            ("7ns", Unit::Seconds, 7),
            ("1ms", Unit::Microseconds, 1_000_000),
            ("1.5ms", Unit::Microseconds, 1_500_000),
            ("2s", Unit::Microseconds, 2_000_000_000),
            ("8", Unit::Seconds, 8_000_000_000),
            ("0.25", Unit::Seconds, 250_000_000),
            ("0", Unit::Seconds, 0),
            ("0.0000000004", Unit::Seconds, 0),
        ] {
            assert_eq!(time(text, bare), Ok(Duration::from_nanos(ns)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_hears_what_is() {
        for text in ["", "s", "5m", "5 s", "-1", "1e9", "inf", "NaN", ".5", "5.", "1.2.3", "2S"] {
            let wrong = time(text, Unit::Seconds).unwrap_err();
            assert!(wrong.starts_with("must be a time: a number of seconds"), "{text}: {wrong}");
        }
        for text in ["99999999999s", "99999999999999999999", "18446744073709551615.9ns"] {
            let wrong = time(text, Unit::Seconds).unwrap_err();
            assert!(wrong.contains("less than 500 years"), "{text}: {wrong}");
        }
    }
}
