//! The rivals: what Packhorse is measured against, each as good as we can make it.
//!
//! [`Bare`] is the socket without a protocol, [`BarePacket`] the same of raw Ethernet, [`Tcp`] the kernel's own. They share no code with Packhorse, so that a
//! mistake of ours cannot slow them too.

mod bare;
pub mod packet;
#[allow(unsafe_code)]
pub(crate) mod sys;
mod tcp;

pub use bare::Bare;
pub use packet::BarePacket;
pub use tcp::Tcp;

/// The largest socket buffer that a user without rights gets on an untuned system.
const UNPRIVILEGED_BUFFER_LEN: usize = 212_992;
