//! What the environment says: the names of Open-MX, those of MX where the former are silent, and our own.

use std::path::PathBuf;

use packhorse_common::settings::Variable;

/// Longest message that is complete with its post.
pub(crate) const COPY_LEN_MAX: u32 = 32_768;

/// What an endpoint is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Messages within a host go through the network, too.
    pub(crate) without_shared: bool,
    /// Longest message that is complete with its post.
    pub(crate) copy_len_max: u32,
    /// Context ids (bits, shift) of endpoints that do not ask for some.
    pub(crate) context_ids: Option<(u8, u8)>,
    /// The index that is meant by any.
    pub(crate) any_endpoint: Option<u32>,
}

/// Whether a switch is on: the variable of Open-MX, or the one of MX if that is not set and not to be ignored.
fn is_on(of_omx: &'static str, of_mx: &'static str) -> Option<bool> {
    let ignores_mx = Variable::of("OMX_IGNORE_MX_ENV").is_on() == Some(true);
    let of_mx = || (!ignores_mx).then(|| Variable::of(of_mx).is_on()).flatten();
    Variable::of(of_omx).is_on().or_else(of_mx)
}

/// Whether the default error handler ends the process.
pub(crate) fn are_errors_fatal() -> bool {
    is_on("OMX_FATAL_ERRORS", "MX_ERRORS_ARE_FATAL").unwrap_or(true)
}

/// Whether to say on standard error what goes wrong.
pub(crate) fn is_verbose() -> bool {
    is_on("OMX_VERBOSE", "MX_VERBOSE").unwrap_or(false)
}

/// The interfaces that are boards, in the boards' order, if somebody says so.
pub(crate) fn boards() -> Option<String> {
    std::env::var("PACKHORSE_MX_BOARDS").ok().filter(|list| !list.trim().is_empty())
}

/// The table of hosts, if there is one.
pub(crate) fn hosts() -> Option<PathBuf> {
    std::env::var_os("PACKHORSE_MX_HOSTS").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// What the environment says now; in words what makes no sense.
pub(crate) fn read() -> Result<Settings, String> {
    let number = |name| Variable::of(name).number::<u32>();
    Ok(Settings {
        without_shared: is_on("OMX_DISABLE_SHARED", "MX_DISABLE_SHMEM").unwrap_or(false),
        copy_len_max: number("OMX_RNDV_THRESHOLD")?
            .unwrap_or(COPY_LEN_MAX)
            .clamp(128, COPY_LEN_MAX),
        context_ids: context_ids(std::env::var("OMX_CTXIDS").ok().as_deref())?,
        any_endpoint: number("OMX_ANY_ENDPOINT")?,
    })
}

/// `bits,shift`.
fn context_ids(text: Option<&str>) -> Result<Option<(u8, u8)>, String> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let pair = text.split_once(',').and_then(|(bits, shift)| {
        Some((bits.trim().parse::<u8>().ok()?, shift.trim().parse::<u8>().ok()?))
    });
    let wrong = || {
        format!("OMX_CTXIDS={text}: must be BITS,SHIFT with at most 16 bits inside of 64, as 10,10")
    };
    let pair = pair.filter(|&(bits, shift)| are_context_ids(bits, shift)).ok_or_else(wrong)?;
    Ok((pair.0 > 0).then_some(pair))
}

/// Whether so many bits at such a place can be context ids.
pub(crate) fn are_context_ids(bits: u8, shift: u8) -> bool {
    bits <= crate::abi::CONTEXT_ID_BITS_MAX && u32::from(bits) + u32::from(shift) <= 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_ids_are_understood_or_explained() {
        assert_eq!(context_ids(Some("10,10")), Ok(Some((10, 10))));
        assert_eq!(context_ids(Some("0,0")), Ok(None));
        assert_eq!(context_ids(None), Ok(None));
        for wrong in ["17,0", "16,49", "x", "3", "-1,2"] {
            assert!(context_ids(Some(wrong)).unwrap_err().contains("BITS,SHIFT"), "{wrong}");
        }
    }
}
