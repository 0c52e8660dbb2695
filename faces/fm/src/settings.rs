//! What the environment says, read once by `FM_initialize`. Nonsense is an error there, not a default.

use std::ffi::OsString;
use std::time::Duration;

use packhorse_common::settings::Variable;

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
        Self::from(|name| std::env::var_os(name))
    }

    pub(crate) fn from(value_of: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        let variable = |name| Variable::given(name, value_of(name));
        Ok(Self {
            stack_len: variable("FM_STACK").len(STACK_LEN_MIN)?.unwrap_or(STACK_LEN),
            whole_len_max: variable("FM_WHOLE_MAX").len(1)?.unwrap_or(WHOLE_LEN_MAX),
            wait: variable("FM_WAIT").time(WAIT_MAX)?.unwrap_or(WAIT),
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
            Settings::from(move |asked| (asked == name).then(|| value.into()))
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
