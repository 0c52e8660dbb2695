//! The provider's own settings, one of two words each. All others are the endpoint's (`PACKHORSE_*`, see `packhorse info`).

/// A setting of the environment.
pub(crate) struct Setting {
    name: &'static str,
    /// What it is without a word, and the other one.
    words: [&'static str; 2],
}

/// When a short send is complete: when the peer accepted it, or with its post.
pub(crate) const COMPLETE: Setting =
    Setting { name: "FI_PACKHORSE_COMPLETE", words: ["accepted", "post"] };
/// Who may use registered memory: peers of the address vector, or whoever has the endpoint's address.
pub(crate) const RMA: Setting = Setting { name: "FI_PACKHORSE_RMA", words: ["named", "any"] };

impl Setting {
    /// Whether it is the second word; an error says what it must be.
    pub(crate) fn is_other(&self) -> Result<bool, String> {
        match std::env::var_os(self.name) {
            None => Ok(false),
            Some(value) => self.read(&value.to_string_lossy()),
        }
    }

    fn read(&self, value: &str) -> Result<bool, String> {
        let [usual, other] = self.words;
        match value {
            _ if value == usual => Ok(false),
            _ if value == other => Ok(true),
            _ => Err(format!("{}={value}: must be {usual} or {other}", self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_hears_what_would_be_right() {
        assert_eq!(COMPLETE.read("accepted"), Ok(false));
        assert_eq!(COMPLETE.read("post"), Ok(true));
        assert_eq!(RMA.read("any"), Ok(true));
        let wrong = RMA.read("all").unwrap_err();
        assert_eq!(wrong, "FI_PACKHORSE_RMA=all: must be named or any");
    }
}
