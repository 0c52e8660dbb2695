//! Why a link could not be opened, whatever its kind.

use std::error::Error;
use std::fmt;

use crate::packet::PacketError;
use crate::shm::ShmError;
use crate::tcp::TcpError;
use crate::udp::UdpError;
use crate::xdp::XdpError;

/// Why a link could not be opened; each says what to do.
#[derive(Debug)]
pub enum LinkError {
    /// By UDP.
    Udp(UdpError),
    /// By TCP.
    Tcp(TcpError),
    /// On raw Ethernet.
    Packet(PacketError),
    /// On an Ethernet interface of its own.
    Xdp(XdpError),
    /// In shared memory.
    Shm(ShmError),
}

impl LinkError {
    /// The kind's own error.
    fn inner(&self) -> &(dyn Error + 'static) {
        match self {
            Self::Udp(error) => error,
            Self::Tcp(error) => error,
            Self::Packet(error) => error,
            Self::Xdp(error) => error,
            Self::Shm(error) => error,
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.inner(), f)
    }
}

/// It says what the kind's own error says, so what is behind it is what is behind that one.
impl Error for LinkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.inner().source()
    }
}

impl From<UdpError> for LinkError {
    fn from(error: UdpError) -> Self {
        Self::Udp(error)
    }
}

impl From<TcpError> for LinkError {
    fn from(error: TcpError) -> Self {
        Self::Tcp(error)
    }
}

impl From<PacketError> for LinkError {
    fn from(error: PacketError) -> Self {
        Self::Packet(error)
    }
}

impl From<XdpError> for LinkError {
    fn from(error: XdpError) -> Self {
        Self::Xdp(error)
    }
}

impl From<ShmError> for LinkError {
    fn from(error: ShmError) -> Self {
        Self::Shm(error)
    }
}
