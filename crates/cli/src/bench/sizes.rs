//! Message lengths on the command line: `8`, `64K`, `1M`, or a list of them.

/// Longest message that can be asked for.
pub const BYTES_MAX: usize = 1 << 30;

/// A list of lengths: `8,1K,64K`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<usize>);

impl std::str::FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(|word| parse_bytes(word.trim())).collect::<Result<_, _>>().map(Self)
    }
}

/// One length.
fn parse_bytes(word: &str) -> Result<usize, String> {
    let form = "a length is a number of bytes such as 8, 64K or 1M, or a list: 8,1K,64K";
    let (digits, factor) = match word.char_indices().last() {
        Some((at, 'k' | 'K')) => (&word[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&word[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&word[..at], 1 << 30),
        _ => (word, 1),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(format!("{word:?} is no length; {form}"));
    }
    // All digits: what does not fit is too large.
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(factor));
    match bytes {
        Some(0) => Err("a message of 0 bytes measures nothing; the least is 1".into()),
        Some(bytes) if bytes <= BYTES_MAX => Ok(bytes),
        _ => Err(format!("{word} is too large; the most is {}", show_bytes(BYTES_MAX))),
    }
}

/// A length as one would type it.
pub fn show_bytes(bytes: usize) -> String {
    for (factor, letter) in [(1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{letter}", bytes / factor);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_lists_are_read() {
        assert_eq!("8".parse(), Ok(Sizes(vec![8])));
        assert_eq!("8,1K, 64k,1M,1g".parse(), Ok(Sizes(vec![8, 1024, 65536, 1 << 20, 1 << 30])));
    }

    #[test]
    fn nonsense_gets_an_answer() {
        for (text, word) in [
            ("12q", "12q"),
            ("", "no length"),
            ("8,,9", "no length"),
            ("-1", "-1"),
            ("1.5M", "1.5M"),
            ("K", "\"K\""),
            ("0", "least is 1"),
            ("0K", "least is 1"),
            ("2G", "the most is 1G"),
            ("99999999999999999999", "too large"),
            ("18446744073709551615K", "too large"),
            ("8µ", "8µ"),
        ] {
            let error = text.parse::<Sizes>().unwrap_err();
            assert!(error.contains(word), "{text:?}: {error}");
        }
    }

    #[test]
    fn lengths_are_shown_as_typed() {
        for text in ["8", "1500", "1K", "64K", "1M", "1G"] {
            assert_eq!(show_bytes(parse_bytes(text).unwrap()), text);
        }
    }
}
