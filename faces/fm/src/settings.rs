//! What the environment says, read once by `FM_initialize`. Nonsense is an error there, not a default.

use std::time::Duration;

use packhorse::quantity::{self, Unit};

/// Bytes of a handler's stack, unless `FM_STACK` says otherwise. Untouched pages cost nothing.
const STACK_LEN: usize = 128 << 10;
/// A handler needs so many at least.
const STACK_LEN_MIN: usize = 16 << 10;
/// Bytes of all FM 1.1 messages that are being put together, unless `FM_WHOLE_MAX` says otherwise.
const WHOLE_LEN_MAX: usize = 1 << 30;
/// So long nodes wait for each other, unless `FM_WAIT` says otherwise.
const WAIT: Duration = Duration::from_secs(60);
/// No clock ends before that.
const WAIT_MAX: Duration = Duration::from_secs(1 << 32);

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
        let len = |name: &str, least: usize, usual: usize| match value_of(name) {
            None => Ok(usual),
            Some(text) => {
                let len = quantity::len(&text, isize::MAX as u64).map(|len| len as usize);
                let len = len.map_err(|must| format!("{name}={text}: {must}"))?;
                let is_enough = len >= least;
                is_enough.then_some(len).ok_or_else(|| {
                    format!(
                        "{name}={text}: must be a length of at least {}",
                        quantity::show_len(least as u64)
                    )
                })
            }
        };
        Ok(Self {
            stack_len: len("FM_STACK", STACK_LEN_MIN, STACK_LEN)?,
            whole_len_max: len("FM_WHOLE_MAX", 1, WHOLE_LEN_MAX)?,
            wait: value_of("FM_WAIT").map_or(Ok(WAIT), |text| wait_of(&text))?,
        })
    }
}

fn wait_of(text: &str) -> Result<Duration, String> {
    let complain = |must: String| format!("FM_WAIT={text}: {must}");
    let time = quantity::time(text, Unit::Seconds).map_err(complain)?;
    if time.is_zero() {
        return Err(complain("must be a time of more than nothing".into()));
    }
    Ok(time.min(WAIT_MAX))
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
        assert_eq!(set("FM_STACK", "256K").unwrap().stack_len, 256 << 10);
        assert_eq!(set("FM_WAIT", "5").unwrap().wait, Duration::from_secs(5));
        assert_eq!(set("FM_WAIT", "500ms").unwrap().wait, Duration::from_millis(500));
        for (name, value) in
            [("FM_STACK", "9"), ("FM_STACK", "much"), ("FM_WAIT", "0"), ("FM_WHOLE_MAX", "-1")]
        {
            let error = set(name, value).unwrap_err();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
