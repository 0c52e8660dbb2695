//! What is asked of a UDP link, and why it cannot be had.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

/// Whether to use something that not every system or path has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Use {
    /// Where it works.
    #[default]
    Auto,
    /// Not at all.
    Off,
}

/// What is asked of a UDP link.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// The address to listen on; port 0 is any free one. `[::]` takes IPv4 and IPv6.
    pub bind: SocketAddr,
    /// Frames leave by the interface of this number (not its address) only: two cards on one subnet are two ways then.
    pub interface: Option<u32>,
    /// Instead of the port in `bind`: the first free one of these.
    pub ports: Option<RangeInclusive<u16>>,
    /// How much may wait to be received, in bytes as the kernel is asked for them.
    pub receive_buffer_len: usize,
    /// How much may wait to be sent.
    pub send_buffer_len: usize,
    /// Trains out.
    pub gso: Use,
    /// Trains in.
    pub gro: Use,
    /// Takes only such buffers as a user without rights gets, even with rights.
    pub buffers_unprivileged: bool,
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            interface: None,
            ports: None,
            receive_buffer_len: 8 << 20,
            send_buffer_len: 4 << 20,
            gso: Use::Auto,
            gro: Use::Auto,
            buffers_unprivileged: false,
        }
    }
}

impl UdpConfig {
    /// As by default, at this address.
    pub fn at(bind: SocketAddr) -> Self {
        Self { bind, ..Self::default() }
    }
}

/// Why a UDP link could not be opened.
#[derive(Debug)]
pub enum UdpError {
    /// Somebody else has the port.
    PortInUse {
        /// Address and port.
        bind: SocketAddr,
    },
    /// Somebody else has each port of the range.
    PortsInUse {
        /// The address.
        ip: IpAddr,
        /// The ports.
        ports: RangeInclusive<u16>,
    },
    /// A range without a port in it, or with port 0.
    NoPorts {
        /// The range.
        ports: RangeInclusive<u16>,
    },
    /// No interface of this host has the address.
    NotOurs {
        /// The address.
        ip: IpAddr,
    },
    /// The system does not let us.
    NotPermitted {
        /// Address and port.
        bind: SocketAddr,
    },
    /// The system speaks no IPv6 (or no IPv4).
    NoFamily {
        /// The address.
        ip: IpAddr,
    },
    /// The descriptor handed in is no UDP socket.
    NotUdp,
    /// The descriptor handed in has no port.
    NotBound,
    /// Anything else.
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl fmt::Display for UdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.explain(f, "UDP", 'u')
    }
}

impl UdpError {
    /// Says what is wrong with a port of this protocol, which `ss` lists with this letter, and what to do.
    pub(crate) fn explain(
        &self,
        f: &mut fmt::Formatter<'_>,
        protocol: &str,
        letter: char,
    ) -> fmt::Result {
        match self {
            Self::PortInUse { bind } => write!(
                f,
                "{protocol} port {} of {} is in use by another socket; choose another port, or 0 \
                 for any (`ss -{letter}lpn sport = {}` shows whose it is)",
                bind.port(),
                bind.ip(),
                bind.port()
            ),
            Self::PortsInUse { ip, ports } => write!(
                f,
                "all {protocol} ports from {} to {} of {ip} are in use; widen the range",
                ports.start(),
                ports.end()
            ),
            Self::NoPorts { ports } => write!(
                f,
                "the port range {}-{} has no usable port; give two numbers from 1 to 65535, the \
                 smaller first",
                ports.start(),
                ports.end()
            ),
            Self::NotOurs { ip } => write!(
                f,
                "{ip} is not an address of this host (in this network namespace); `ip address` \
                 lists those it has"
            ),
            Self::NotPermitted { bind } => write!(
                f,
                "no permission for {protocol} port {} of {}; ports below 1024 need \
                 CAP_NET_BIND_SERVICE, choose a higher one",
                bind.port(),
                bind.ip()
            ),
            Self::NoFamily { ip: IpAddr::V6(ip) } => {
                write!(
                    f,
                    "this system speaks no IPv6, so {ip} cannot be used; bind to an IPv4 address"
                )
            }
            Self::NoFamily { ip } => {
                write!(
                    f,
                    "this system speaks no IPv4, so {ip} cannot be used; bind to an IPv6 address"
                )
            }
            Self::NotUdp => write!(f, "the descriptor handed in is not a UDP socket"),
            Self::NotBound => {
                write!(f, "the UDP socket handed in has no port; bind it before handing it over")
            }
            Self::System { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for UdpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}
