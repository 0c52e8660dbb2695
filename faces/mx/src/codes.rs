//! Codes of MX and of Open-MX, what they mean, and the one table from our own errors to them.
//!
//! Inside the face a failure is a number of Open-MX, for those tell all apart: returns and statuses are one list there. Below 90 MX's
//! return codes are the same numbers; its statuses are another list ([`mx_status`]).

use std::ffi::CStr;

use packhorse::raw::{Failure, GoneReason, PostError, Trouble};

/// A number of `omx_return_t`.
pub(crate) type Code = u32;

pub(crate) const SUCCESS: Code = 0;
/// Something that has no other number; MX calls 2 a failure.
pub(crate) const FAILURE: Code = 2;
pub(crate) const ALREADY_INITIALIZED: Code = 3;
pub(crate) const NOT_INITIALIZED: Code = 4;
pub(crate) const NO_PERM: Code = 7;
pub(crate) const BOARD_UNKNOWN: Code = 8;
pub(crate) const BAD_ENDPOINT: Code = 9;
pub(crate) const BAD_SEG_LIST: Code = 10;
pub(crate) const BAD_SEG_MEM: Code = 11;
pub(crate) const BAD_SEG_CNT: Code = 12;
pub(crate) const BAD_REQUEST: Code = 13;
pub(crate) const BAD_MATCH_MASK: Code = 14;
pub(crate) const NO_RESOURCES: Code = 15;
pub(crate) const BUSY: Code = 20;
pub(crate) const BAD_INFO_KEY: Code = 21;
pub(crate) const BAD_INFO_VAL: Code = 22;
pub(crate) const BAD_PARAM_LIST: Code = 24;
pub(crate) const BAD_PARAM_NAME: Code = 25;
pub(crate) const BAD_PARAM_VAL: Code = 26;
pub(crate) const HOST_NOT_FOUND: Code = 28;
pub(crate) const TIMEOUT: Code = 30;
pub(crate) const BAD_ENDPOINT_ID: Code = 32;
pub(crate) const CONNECTION_FAILED: Code = 33;
pub(crate) const BAD_CONNECTION_KEY: Code = 34;
pub(crate) const BAD_INFO_LENGTH: Code = 35;
pub(crate) const NIC_NOT_FOUND: Code = 36;
pub(crate) const BAD_LIB_VERSION: Code = 38;
pub(crate) const BAD_MATCHING_FOR_CONTEXT_ID_MASK: Code = 42;
pub(crate) const CANCELLED: Code = 90;
pub(crate) const UNREACHABLE: Code = 92;
pub(crate) const BAD_SESSION: Code = 93;
pub(crate) const ABORTED: Code = 94;
pub(crate) const TRUNCATED: Code = 95;
pub(crate) const IN_HANDLER: Code = 96;
pub(crate) const NOT_IMPLEMENTED: Code = 99;

/// The return code of MX. What is only a status in MX is a failure where a call returns it.
pub(crate) fn mx_return(code: Code) -> u32 {
    match code {
        0..=43 => code,
        IN_HANDLER => 41,
        _ => FAILURE,
    }
}

/// The status of MX.
pub(crate) fn mx_status(code: Code) -> u32 {
    match code {
        SUCCESS => 0,
        TIMEOUT => 4,
        TRUNCATED => 5,
        CANCELLED => 6,
        CONNECTION_FAILED => 8,
        BAD_SESSION => 10,
        BAD_CONNECTION_KEY => 11,
        BAD_ENDPOINT_ID | BAD_ENDPOINT => 12,
        91 => 13,
        ABORTED => 14,
        NO_RESOURCES => 16,
        // Who is not there, or was never found.
        _ => 9,
    }
}

/// Why a request ended badly.
pub(crate) fn of_trouble(trouble: Trouble) -> Code {
    match trouble {
        Trouble::Failed(failure) => of_failure(failure),
        Trouble::Refused(error) => of_refusal(error),
    }
}

fn of_failure(failure: Failure) -> Code {
    match failure {
        Failure::Cancelled => CANCELLED,
        // The peer closed its endpoint; or this one is closed. Nobody takes back in MX what has a message or is one, so a peer that cancels
        // its side of a long message is closing, too.
        Failure::CancelledByPeer | Failure::Closed | Failure::Closing => CONNECTION_FAILED,
        // Of a process that was killed its host speaks as of one that closed: its port is refused, its memory is free.
        Failure::Gone(GoneReason::Reset | GoneReason::Died | GoneReason::Refused) => {
            CONNECTION_FAILED
        }
        Failure::Gone(GoneReason::Restarted) => BAD_SESSION,
        Failure::Gone(
            GoneReason::Unreachable
            | GoneReason::Forgotten
            | GoneReason::Silent
            | GoneReason::Unanswered
            | GoneReason::Version,
        ) => UNREACHABLE,
        // No operation of MX is one-sided.
        Failure::Denied(_) => ABORTED,
    }
}

/// Why a post was refused.
pub(crate) fn of_refusal(error: PostError) -> Code {
    match error {
        PostError::Closing => BAD_ENDPOINT,
        PostError::UnknownPeer => BAD_ENDPOINT_ID,
        PostError::PoolFull => NO_RESOURCES,
        PostError::TooLong { .. } => BAD_SEG_LIST,
        // Handles, atomics and spaces are never the application's here.
        PostError::UnknownHandle | PostError::BadAtomic | PostError::ReservedSpace => BAD_REQUEST,
    }
}

/// What a return code of MX means, or one of Open-MX.
pub(crate) fn text(code: Code) -> &'static CStr {
    match code {
        0 => c"success",
        1 => c"internal error",
        2 => c"failure",
        3 => c"already initialized",
        4 => c"not initialized: call mx_init first",
        5 => c"no device",
        6 => c"no driver",
        7 => c"not permitted",
        8 => c"no such board: `packhorse mx info` lists them",
        9 => c"no such endpoint here",
        10 => c"bad list of segments",
        11 => c"bad memory in a segment",
        12 => c"too many segments",
        13 => c"no such request, or not one that this can be done to",
        14 => c"match bits outside of the match mask",
        15 => c"out of resources",
        16 => c"bad address list",
        17 => c"bad address count",
        18 => c"bad root",
        19 => c"not completed",
        20 => c"in use by somebody else",
        21 => c"no such key of information",
        22 => c"bad value of information",
        23 => c"bad network interface",
        24 => c"bad list of parameters",
        25 => c"no such parameter",
        26 => c"bad value of a parameter",
        27 => c"bad host name arguments",
        28 => c"no such host known here",
        29 => c"request is pending",
        30 => c"timed out",
        31 => c"no match",
        32 => c"no such endpoint index at the peer",
        33 => c"connection failed: the peer's endpoint is closed",
        34 => c"the peer wants another connection key or secret",
        35 => c"wrong length of information",
        36 => c"no host with this NIC id was found",
        37 => c"driver of another version",
        38 => c"library of another version",
        39 => c"network interface is dead",
        40 => c"cannot be cancelled",
        41 => c"not possible inside the unexpected handler",
        42 => c"match mask leaves out bits of the context id",
        43 => c"not supported with context ids",
        90 => c"cancelled",
        91 => c"bad remote window",
        92 => c"peer unreachable",
        93 => c"peer lives in another session",
        94 => c"message aborted",
        95 => c"message truncated",
        96 => c"not possible inside the unexpected handler",
        97 => c"the system is out of resources",
        99 => c"not implemented",
        _ => c"no such code",
    }
}

/// What a status of MX means.
pub(crate) fn status_text(status: u32) -> &'static CStr {
    match status {
        0 => c"success",
        1 => c"pending",
        2 => c"buffered",
        3 => c"rejected",
        4 => c"timed out",
        5 => c"truncated",
        6 => c"cancelled",
        7 => c"unknown endpoint",
        8 => c"endpoint is closed",
        9 => c"endpoint is unreachable",
        10 => c"bad session: the peer restarted",
        11 => c"bad connection key",
        12 => c"no such endpoint",
        13 => c"bad remote window",
        14 => c"aborted",
        15 => c"event queue full",
        16 => c"out of resources",
        _ => c"no such status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_ways_not_to_be_connected_stay_apart() {
        let all = [BAD_ENDPOINT_ID, CONNECTION_FAILED, BAD_CONNECTION_KEY];
        assert_eq!(all.map(mx_return), [32, 33, 34]);
        assert_eq!(all.map(mx_status), [12, 8, 11]);
    }

    #[test]
    fn a_peer_that_closes_is_closed_whatever_of_a_message_was_under_way() {
        for failure in [Failure::Closed, Failure::CancelledByPeer] {
            assert_eq!(mx_status(of_failure(failure)), 8, "{failure:?}");
        }
    }

    #[test]
    fn who_is_closed_and_who_is_not_reached_stay_apart() {
        use GoneReason::{Died, Forgotten, Refused, Reset, Restarted, Silent, Unanswered};
        for (reason, status) in [
            (Reset, 8),
            (Died, 8),
            (Refused, 8),
            (Silent, 9),
            (Unanswered, 9),
            (GoneReason::Unreachable, 9),
            (Forgotten, 9),
            (Restarted, 10),
        ] {
            assert_eq!(mx_status(of_failure(Failure::Gone(reason))), status, "{reason:?}");
        }
    }

    #[test]
    fn every_number_has_a_text_and_none_is_fatal() {
        for code in (0..=43).chain(90..=97).chain([99]) {
            assert_ne!(text(code), c"no such code", "{code}");
        }
        assert!((0..=16).all(|status| status_text(status) != c"no such status"));
        assert_eq!(text(u32::MAX), c"no such code");
        assert_eq!((mx_return(IN_HANDLER), mx_return(TRUNCATED)), (41, FAILURE));
    }
}
