//! The provider's own settings, one of two words each. All others are the endpoint's (`PACKHORSE_*`, see `packhorse info`).

use packhorse_common::settings::Variable;

/// A setting of the environment.
pub(crate) struct Setting {
    name: &'static str,
    /// What it is without a word, and the other one.
    words: [&'static str; 2],
}

/// When a short message is complete: as the application says, mostly when the peer accepted it; or with its post, unless a call says otherwise.
pub(crate) const COMPLETE: Setting =
    Setting { name: "FI_PACKHORSE_COMPLETE", words: ["accepted", "post"] };
/// Who may use registered memory: peers of the address vector, or whoever has the endpoint's address.
pub(crate) const RMA: Setting = Setting { name: "FI_PACKHORSE_RMA", words: ["named", "any"] };

impl Setting {
    /// Whether it is the second word; an error says what it must be.
    pub(crate) fn is_other(&self) -> Result<bool, String> {
        self.read(Variable::of(self.name))
    }

    fn read(&self, variable: Variable) -> Result<bool, String> {
        Ok(variable.word(&self.words)? == Some(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_hears_what_would_be_right() {
        let read = |setting: &Setting, value: &str| {
            setting.read(Variable::given(setting.name, Some(value.into())))
        };
        assert_eq!(read(&COMPLETE, "accepted"), Ok(false));
        assert_eq!(read(&COMPLETE, "post"), Ok(true));
        assert_eq!(read(&RMA, "any"), Ok(true));
        let wrong = read(&RMA, "all").unwrap_err();
        assert_eq!(wrong, "FI_PACKHORSE_RMA=all: must be named or any");
    }
}
