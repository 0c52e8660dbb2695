//! The rivals: what Packhorse is measured against, each as good as we can make it.
//!
//! [`Bare`] is the socket without a protocol, [`BarePacket`] the same of raw Ethernet, [`XdpBare`] a whole interface without
//! one, [`Tcp`] the kernel's own, [`OpenMpi`] what users have today. They share no code with Packhorse, so that a mistake of
//! ours cannot slow them too.

mod bare;
mod bare_helper;
mod mpi;
mod packet;
#[allow(unsafe_code)]
pub(crate) mod sys;
mod tcp;
mod tcp_courier;
mod xdp;
#[allow(unsafe_code)]
mod xdp_sys;

pub use bare::Bare;
pub use mpi::OpenMpi;
pub use packet::BarePacket;
pub use tcp::Tcp;
pub use xdp::XdpBare;

/// The largest socket buffer that a user without rights gets on an untuned system.
const UNPRIVILEGED_BUFFER_LEN: usize = 212_992;
