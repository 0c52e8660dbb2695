//! Variables of the environment. Nonsense is told with its name, its value and what it must be; it is never a default.

use std::ffi::{OsStr, OsString};
use std::str::FromStr;
use std::time::Duration;

use packhorse::quantity::{self, Unit};

/// A variable and what it says, if it says anything.
#[derive(Clone, Debug)]
pub struct Variable {
    name: &'static str,
    value: Option<OsString>,
}

impl Variable {
    /// As the environment has it.
    pub fn of(name: &'static str) -> Self {
        Self { name, value: std::env::var_os(name) }
    }

    /// With a value from elsewhere.
    pub fn given(name: &'static str, value: Option<OsString>) -> Self {
        Self { name, value }
    }

    /// What it says, as it stands there.
    pub fn value(&self) -> Option<&OsStr> {
        self.value.as_deref()
    }

    /// Its error, for whoever set it.
    fn wrong(&self, must: impl std::fmt::Display) -> String {
        let value = self.value.as_deref().unwrap_or_default().to_string_lossy();
        format!("{}={value}: {must}", self.name)
    }

    fn read<T>(&self, read: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, String> {
        let Some(value) = &self.value else { return Ok(None) };
        let text = value.to_str().ok_or_else(|| self.wrong("must be text"))?;
        read(text.trim()).map(Some).map_err(|must| self.wrong(must))
    }

    /// Whether a switch is on: set, and not 0.
    pub fn is_on(&self) -> Option<bool> {
        self.value.as_ref().map(|value| value.to_str().is_none_or(|text| text.trim() != "0"))
    }

    /// A number.
    ///
    /// # Errors
    /// What is no number, in words.
    pub fn number<T: FromStr>(&self) -> Result<Option<T>, String> {
        self.read(|text| text.parse().map_err(|_| "must be a number".into()))
    }

    /// Which of these words it is, from 0.
    ///
    /// # Errors
    /// Another word, in words.
    pub fn word(&self, words: &[&str]) -> Result<Option<usize>, String> {
        self.read(|text| {
            let found = words.iter().position(|&word| word == text);
            found.ok_or_else(|| format!("must be {}", words.join(" or ")))
        })
    }

    /// A length in bytes, as `128K`, of so many at least.
    ///
    /// # Errors
    /// What is no such length, in words.
    pub fn len(&self, least: usize) -> Result<Option<usize>, String> {
        let usual = isize::MAX as u64;
        self.read(|text| match quantity::len(text, usual)? as usize {
            len if len >= least => Ok(len),
            _ => {
                let least = quantity::show_len(least as u64);
                Err(format!("must be a length of at least {least}"))
            }
        })
    }

    /// A time of more than nothing, in seconds where no unit is said; no more than `most`.
    ///
    /// # Errors
    /// What is no such time, in words.
    pub fn time(&self, most: Duration) -> Result<Option<Duration>, String> {
        self.read(|text| {
            let time = quantity::time(text, Unit::Seconds)?;
            let is_some = !time.is_zero();
            is_some.then(|| time.min(most)).ok_or("must be a time of more than nothing".into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt as _;

    fn set(value: &str) -> Variable {
        Variable::given("X", Some(value.into()))
    }

    #[test]
    fn what_is_set_is_read_and_what_is_not_set_says_nothing() {
        assert_eq!(set(" 7 ").number::<u8>(), Ok(Some(7)));
        assert_eq!(set("b").word(&["a", "b"]), Ok(Some(1)));
        assert_eq!(set("256K").len(1), Ok(Some(256 << 10)));
        assert_eq!(set("500ms").time(Duration::MAX), Ok(Some(Duration::from_millis(500))));
        assert_eq!(set("5").time(Duration::from_secs(2)), Ok(Some(Duration::from_secs(2))));
        assert_eq!((set("0").is_on(), set("").is_on()), (Some(false), Some(true)));
        let unset = Variable::given("X", None);
        assert_eq!((unset.number::<u8>(), unset.len(1), unset.is_on()), (Ok(None), Ok(None), None));
    }

    #[test]
    fn nonsense_is_told_with_name_value_and_what_would_be_right() {
        assert_eq!(set("300").number::<u8>().unwrap_err(), "X=300: must be a number");
        assert_eq!(set("c").word(&["a", "b"]).unwrap_err(), "X=c: must be a or b");
        assert!(set("9").len(1024).unwrap_err().starts_with("X=9: must be a length of at least"));
        assert!(set("0").time(Duration::MAX).unwrap_err().contains("more than nothing"));
        let no_text = Variable::given("X", Some(OsString::from_vec(vec![0xff])));
        assert!(no_text.number::<u8>().unwrap_err().contains("must be text"));
    }
}
