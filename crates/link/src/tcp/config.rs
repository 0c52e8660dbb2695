//! What is asked of a TCP link, and why it cannot be had.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use crate::udp::UdpError;

/// What is asked of a TCP link.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// The address to listen on; port 0 is any free one. `[::]` takes IPv4 and IPv6.
    pub bind: SocketAddr,
    /// Streams to other hosts leave by the interface of this number (not its address) only.
    pub interface: Option<u32>,
    /// Instead of the port in `bind`: the first free one of these.
    pub ports: Option<RangeInclusive<u16>>,
    /// Streams that we opened, at most; at least one.
    pub outgoing_count_max: usize,
    /// Streams of others that said who they are, at most; at least one.
    pub incoming_count_max: usize,
    /// What else leaves by its card does not stand in its stead: said of all but the first of several TCP links over one card. The
    /// protocol takes links over one card for alternatives, and those over cards that it does not know for rails (PROTOCOL §10.4).
    pub is_beside: bool,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            interface: None,
            ports: None,
            outgoing_count_max: 64,
            incoming_count_max: 64,
            is_beside: false,
        }
    }
}

impl TcpConfig {
    /// As by default, at this address.
    pub fn at(bind: SocketAddr) -> Self {
        Self { bind, ..Self::default() }
    }
}

/// Why a TCP link could not be opened: for one of the reasons for which a UDP link cannot.
#[derive(Debug)]
pub struct TcpError(pub(super) UdpError);

impl TcpError {
    /// The reason, as UDP has it.
    pub fn reason(&self) -> &UdpError {
        &self.0
    }
}

impl From<UdpError> for TcpError {
    fn from(reason: UdpError) -> Self {
        Self(reason)
    }
}

impl fmt::Display for TcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.explain(f, "TCP", 't')
    }
}

impl std::error::Error for TcpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
