//! The tables from our errors to libfabric's codes. Exhaustive: a new way to fail must get a code.

use std::ffi::{CStr, CString, c_int};
use std::sync::{Mutex, PoisonError};

use packhorse::raw::{Denial, ExposeError, Failure, GoneReason, PostError, Trouble};
use packhorse::{Error, NotFound};

use crate::abi::code;

/// The code of an error, positive; functions return it negated.
pub(crate) fn code_of(error: &Error) -> c_int {
    match error {
        Error::Link(_) | Error::NoLink | Error::Capture { .. } => libc::ENODEV,
        Error::Setting(_) | Error::OutOfRange(_) | Error::UnknownPeer => libc::EINVAL,
        Error::ReservedSpace => libc::EINVAL,
        Error::System { error, .. } => error.raw_os_error().unwrap_or(libc::EIO),
        Error::NumberInUse { .. } => libc::EADDRINUSE,
        Error::Number { .. } => libc::EADDRNOTAVAIL,
        Error::NotFound { why, .. } => match why {
            NotFound::NoSuchNumber => libc::ECONNREFUSED,
            NotFound::WrongSecret { .. } | NotFound::Closed { .. } => libc::EACCES,
            NotFound::Version => libc::EPROTO,
            NotFound::UnknownHost { .. } | NotFound::Silent { .. } => libc::EHOSTUNREACH,
        },
        Error::TooManyPeers { .. } => libc::ENOMEM,
        Error::Closed => code::EOPBADSTATE,
        Error::Cancelled => libc::ECANCELED,
        Error::CancelledByPeer { .. } => libc::ECONNABORTED,
        Error::Gone { .. } => libc::EHOSTUNREACH,
        Error::PeerClosed { .. } => libc::ECONNRESET,
        Error::Truncated { .. } => code::ETRUNC,
        Error::TooManySegments { .. } | Error::TooLongToCopy { .. } => libc::EMSGSIZE,
        Error::PoolFull => libc::EAGAIN,
        Error::ReadOnly => libc::EACCES,
        Error::TimedOut { .. } => libc::ETIMEDOUT,
        Error::Denied { .. } => libc::EACCES,
        Error::BadAtomic => libc::EOPNOTSUPP,
        Error::KeyInUse => code::ENOKEY,
        Error::NoSuchRange => libc::EINVAL,
        // No code fits: the endpoint is the parent's, or a stream's, of which this face has none.
        Error::Inherited | Error::BrokenOff { .. } | Error::InHandler => libc::EIO,
    }
}

/// The code of memory that was not exposed, positive.
pub(crate) fn exposure_code(error: ExposeError) -> c_int {
    match error {
        ExposeError::KeyInUse => code::ENOKEY,
        ExposeError::Closing => code::EOPBADSTATE,
    }
}

/// The code of a refused post, positive.
pub(crate) fn refusal_code(error: PostError) -> c_int {
    match error {
        PostError::Closing => code::EOPBADSTATE,
        PostError::UnknownPeer | PostError::UnknownHandle | PostError::ReservedSpace => {
            libc::EINVAL
        }
        PostError::PoolFull => libc::EAGAIN,
        PostError::TooLong { .. } => libc::EMSGSIZE,
        PostError::BadAtomic => libc::EOPNOTSUPP,
    }
}

/// The code of an operation that failed, and our own number for the reason.
pub(crate) fn trouble_code(trouble: Trouble) -> (c_int, c_int) {
    match trouble {
        Trouble::Refused(error) => (refusal_code(error), REFUSED),
        Trouble::Failed(failure) => match failure {
            Failure::Cancelled => (libc::ECANCELED, CANCELLED),
            Failure::CancelledByPeer => (libc::ECONNABORTED, 3),
            Failure::Closed => (libc::ECONNRESET, 4),
            Failure::Closing => (code::EOPBADSTATE, 5),
            Failure::Gone(reason) => match reason {
                GoneReason::Unreachable => (libc::EHOSTUNREACH, 6),
                GoneReason::Reset => (libc::ECONNRESET, 7),
                GoneReason::Restarted => (libc::ECONNRESET, 8),
                GoneReason::Died => (libc::ECONNRESET, 9),
                GoneReason::Silent => (libc::ETIMEDOUT, 10),
                GoneReason::Version => (libc::EPROTO, 11),
                GoneReason::Unanswered => (libc::EHOSTUNREACH, 19),
                GoneReason::Refused => (libc::EHOSTUNREACH, 21),
                GoneReason::Forgotten => (libc::ECONNRESET, 22),
            },
            Failure::Denied(denial) => match denial {
                Denial::NoKey => (code::ENOKEY, 14),
                Denial::Range => (libc::EINVAL, 15),
                Denial::Access => (libc::EACCES, 16),
                Denial::Operation => (libc::EOPNOTSUPP, 17),
                Denial::Withdrawn => (code::ENOKEY, 18),
            },
        },
    }
}

/// Our number for an operation that was refused after its post.
pub(crate) const REFUSED: c_int = 1;
/// Our number for an operation that was cancelled.
pub(crate) const CANCELLED: c_int = 2;
/// Our number for a message that was longer than its buffer.
pub(crate) const TRUNCATED: c_int = 12;
/// Our number for a peek that found nothing.
pub(crate) const NO_MESSAGE: c_int = 13;

/// Reasons with words of their own, which name a host: they are numbered from here on, as they come.
const FIRST_WORDED: c_int = 1000;
/// So many different ones are kept, for as long as the process lives; beyond that one that names nobody stands for all.
const WORDED_COUNT_MAX: usize = 1024;
static WORDED: Mutex<Vec<&CStr>> = Mutex::new(Vec::new());

/// The code of a peer that was not found, and our own number for the reason, which `explanation` knows.
pub(crate) fn not_found(error: &Error) -> (c_int, c_int) {
    let number_of = |index: usize| FIRST_WORDED + index as c_int;
    let words = CString::new(error.to_string()).unwrap_or_default();
    let mut all = WORDED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = all.iter().position(|&it| it == &*words);
    let index = known.or_else(|| {
        (all.len() < WORDED_COUNT_MAX).then(|| {
            all.push(Box::leak(words.into_boxed_c_str()));
            all.len() - 1
        })
    });
    (code_of(error), index.map_or(20, number_of))
}

fn worded(reason: c_int) -> Option<&'static CStr> {
    let index = usize::try_from(reason.checked_sub(FIRST_WORDED)?).ok()?;
    WORDED.lock().unwrap_or_else(PoisonError::into_inner).get(index).copied()
}

/// What our numbers mean.
pub(crate) fn explanation(reason: c_int) -> &'static CStr {
    match reason {
        0 => c"no error",
        REFUSED => c"the operation was refused when its turn came: the endpoint closes, or the peer is not known to it",
        CANCELLED => c"cancelled here",
        3 => c"the peer cancelled its side of the message",
        4 => c"the peer closed its endpoint before it accepted the message",
        5 => c"this endpoint was closed",
        6 => c"the peer is gone: no way leads there",
        7 => c"the peer is gone: it does not know this association any more, it was restarted or closed",
        8 => c"the peer is gone: it was restarted",
        9 => c"the peer is gone: its process died",
        10 => c"the peer is gone: it did not answer for too long; is it stopped, or does a firewall block its UDP port?",
        11 => c"the peer speaks no version of the protocol that this one speaks",
        TRUNCATED => c"the message was longer than the buffer; what fits was received",
        NO_MESSAGE => c"no such message has arrived",
        14 => c"the peer has registered no memory under this key, or does not have this endpoint in its address vector",
        15 => c"the range is not inside the memory the peer registered under this key",
        16 => c"the peer did not register this memory for such an operation",
        17 => c"the peer knows no such operation",
        18 => c"the peer closed the registration meanwhile; some of it may have been written",
        19 => c"the peer is gone: nothing of it ever came; is it running, and does a firewall block its UDP port?",
        20 => c"the peer was not found at its host and number; which these are is in the log",
        21 => c"the peer is gone: its host says that nobody is there, it was closed or its process has ended",
        22 => c"the peer was removed from the address vector",
        _ => worded(reason).unwrap_or(c"unknown reason"),
    }
}
