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

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn words_are_those_of_the_kind_and_the_source_is_behind_them() {
        let in_use = UdpError::PortInUse { bind: "10.0.0.1:7".parse().unwrap() };
        let words = in_use.to_string();
        let error = LinkError::from(TcpError::from(in_use));
        assert_eq!(error.to_string(), words.replace("UDP", "TCP").replace("-ulpn", "-tlpn"));
        assert!(error.source().is_none());
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = LinkError::from(ShmError::System { doing: "opening", error: refused });
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::PermissionDenied));
    }
}
