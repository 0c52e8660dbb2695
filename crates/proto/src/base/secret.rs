//! The key that a peer must know.

use core::fmt;

/// The key under which frames to an endpoint are checked. Who has it may send, and may pass for the endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u64; 2]);

impl Secret {
    /// The key of endpoints opened to strangers (PROTOCOL §3.9).
    pub const PUBLIC: Self = Self([0; 2]);
}

/// Shows nothing: secrets do not belong in logs.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
