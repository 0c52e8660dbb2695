//! Opening: the socket that others connect to.

use std::net::SocketAddr;

use super::config::{TcpConfig, TcpError};
use crate::sys::socket::Socket;
use crate::udp::UdpError;
use crate::udp::opening::{bind, bind_first_free, doing};

/// Streams that wait to be accepted: a burst of strangers must not crowd out a peer between two looks.
const WAITING_COUNT_MAX: u16 = 256;

/// A socket that listens, and its address: may be a wildcard.
pub(super) fn open(config: &TcpConfig) -> Result<(Socket, SocketAddr), TcpError> {
    let listener = bind_first_free(config.bind, config.ports.as_ref(), listen_at)?;
    let bound = listener.local_addr().map_err(doing("asking the socket for its address"))?;
    Ok((listener, bound))
}

/// A new socket for each try: two that are bound and do not listen yet may have the same port, and the second fails at listening.
fn listen_at(addr: SocketAddr) -> Result<Socket, UdpError> {
    let ip = addr.ip();
    let socket = Socket::open_stream(ip.is_ipv6()).map_err(|error| match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => UdpError::NoFamily { ip },
        _ => UdpError::System { doing: "opening a TCP socket", error },
    })?;
    if ip.is_ipv6() {
        socket.set_dual(ip.is_unspecified()).map_err(doing("choosing IPv4 beside IPv6"))?;
    }
    socket.set_reuse().map_err(doing("asking for a port that was in use before"))?;
    bind(&socket, addr)?;
    socket.listen(WAITING_COUNT_MAX).map_err(|error| match error.raw_os_error() {
        Some(libc::EADDRINUSE) => UdpError::PortInUse { bind: addr },
        _ => UdpError::System { doing: "listening for streams", error },
    })?;
    Ok(socket)
}
