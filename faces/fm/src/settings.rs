//! What the environment says, read once by `FM_initialize`. Nonsense is an error there, not a default.

use std::time::Duration;

/// Bytes of a handler's stack, unless `FM_STACK` says otherwise. Untouched pages cost nothing.
const STACK_LEN: usize = 128 << 10;
/// A handler needs so many at least.
const STACK_LEN_MIN: usize = 16 << 10;
/// Bytes of all FM 1.1 messages that are being put together, unless `FM_WHOLE_MAX` says otherwise.
const WHOLE_LEN_MAX: usize = 1 << 30;
/// Seconds that nodes wait for each other, unless `FM_WAIT` says otherwise.
const WAIT_S: usize = 60;

/// What the environment says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) stack_len: usize,
    pub(crate) whole_len_max: usize,
    pub(crate) wait: Duration,
}

impl Settings {
    pub(crate) fn from_environment() -> Result<Self, String> {
        Self::from(|name| std::env::var(name).ok())
    }

    pub(crate) fn from(value_of: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let number = |name: &str, least: usize, usual: usize, of: &str| match value_of(name) {
            None => Ok(usual),
            Some(text) => {
                let number = text.parse().ok().filter(|&number: &usize| number >= least);
                number.ok_or_else(|| {
                    format!("{name} is `{text}`; it must be a number of {of}, at least {least}")
                })
            }
        };
        let wait_s = number("FM_WAIT", 1, WAIT_S, "seconds")?;
        Ok(Self {
            stack_len: number("FM_STACK", STACK_LEN_MIN, STACK_LEN, "bytes")?,
            whole_len_max: number("FM_WHOLE_MAX", 1, WHOLE_LEN_MAX, "bytes")?,
            wait: Duration::from_secs((wait_s as u64).min(1 << 32)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_told_and_what_is_not_said_is_as_usual() {
        let usual = Settings::from(|_| None).unwrap();
        assert_eq!((usual.stack_len, usual.wait.as_secs()), (128 << 10, 60));
        let set = |name: &'static str, value: &'static str| {
            Settings::from(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(set("FM_WHOLE_MAX", "5000").unwrap().whole_len_max, 5000);
        for (name, value) in
            [("FM_STACK", "9"), ("FM_STACK", "much"), ("FM_WAIT", "0"), ("FM_WHOLE_MAX", "-1")]
        {
            let error = set(name, value).unwrap_err();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
