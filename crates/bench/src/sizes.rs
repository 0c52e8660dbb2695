//! Message lengths on the command line: `8`, `64K`, `1M`, or a list of them.

use packhorse::quantity;

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
    match quantity::len(word, BYTES_MAX as u64) {
        Ok(0) => Err("a message of 0 bytes measures nothing; the least is 1".into()),
        Ok(bytes) => Ok(bytes as usize),
        Err(must) => Err(format!("{word:?} {must}; or a list of lengths: 8,1K,64K")),
    }
}

/// A length as one would type it.
pub fn show_bytes(bytes: usize) -> String {
    quantity::show_len(bytes as u64)
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
            ("", "\"\" must be a length"),
            ("8,,9", "\"\" must be a length"),
            ("-1", "-1"),
            ("1.5M", "1.5M"),
            ("K", "\"K\""),
            ("0", "least is 1"),
            ("0K", "least is 1"),
            ("2G", "at most 1G"),
            ("99999999999999999999", "at most 1G"),
            ("18446744073709551615K", "at most 1G"),
            ("8µ", "8µ"),
        ] {
            let error = text.parse::<Sizes>().unwrap_err();
            assert!(error.contains(word), "{text:?}: {error}");
        }
    }
}
