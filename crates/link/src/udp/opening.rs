//! Opening: the socket, what it may hold, which trains the system knows, how long frames may be.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::config::{UdpConfig, UdpError, Use};
use crate::sys::interfaces;
use crate::sys::socket::Socket;

/// UDP and IPv4 headers.
const OVERHEAD_V4_LEN: usize = 28;
/// UDP and IPv6 headers.
const OVERHEAD_V6_LEN: usize = 48;
/// What the 16 bits of IPv4's total length leave.
const FRAME_V4_LEN_MAX: usize = 65_535 - OVERHEAD_V4_LEN;
/// What the 16 bits of UDP's length leave; IPv6 does not count its own header.
const FRAME_V6_LEN_MAX: usize = 65_535 - 8;
/// Where the system says nothing: plain Ethernet.
const MTU_USUAL: usize = 1500;
/// A train with all its headers must stay below 64 KiB (the usual `gso_max_size`), else it is cut up in software before it
/// reaches the driver: Ethernet, a VLAN tag, IPv6, UDP.
pub(super) const TRAIN_LEN_MAX: usize = 65_535 - 14 - 4 - OVERHEAD_V6_LEN;
/// UDP_MAX_SEGMENTS of Linux: 64 at first, 128 in later versions.
const TRAIN_COUNTS: [usize; 2] = [128, 64];
/// Lengths of datagrams of which is kept what the kernel charges: interfaces of a process have few.
const KNOWN_COUNT_MAX: usize = 64;

/// An open socket and what was found out about it.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) socket: Socket,
    /// As bound: may be a wildcard.
    pub(super) bound: SocketAddr,
    /// Frames leave by it only.
    pub(super) interface: Option<u32>,
    /// Segments in a train out; 0 if the system knows none.
    pub(super) train_count_max: usize,
    /// Whether trains may arrive whole.
    pub(super) is_gro: bool,
    pub(super) frame_len_max: usize,
    /// As the kernel keeps account of them.
    pub(super) receive_buffer_len: usize,
    pub(super) send_buffer_len: usize,
}

pub(super) fn open(config: &UdpConfig) -> Result<Opened, UdpError> {
    let ip = config.bind.ip();
    let socket = Socket::open(ip.is_ipv6()).map_err(|error| match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => UdpError::NoFamily { ip },
        _ => UdpError::System { doing: "opening a UDP socket", error },
    })?;
    if ip.is_ipv6() {
        let is_dual = ip.is_unspecified();
        socket.set_dual(is_dual).map_err(doing("choosing IPv4 beside IPv6"))?;
    }
    if let Some(interface) = config.interface {
        socket.leave_by(interface).map_err(doing("choosing the interface"))?;
    }
    bind_first_free(config.bind, config.ports.as_ref(), |addr| bind(&socket, addr))?;
    prepare(socket, config)
}

pub(super) fn open_fd(fd: OwnedFd, config: &UdpConfig) -> Result<Opened, UdpError> {
    let socket = Socket::from_fd(fd).map_err(|_| UdpError::NotUdp)?;
    if local_addr(&socket)?.port() == 0 {
        return Err(UdpError::NotBound);
    }
    prepare(socket, config)
}

fn local_addr(socket: &Socket) -> Result<SocketAddr, UdpError> {
    socket.local_addr().map_err(doing("asking the socket for its address"))
}

pub(crate) fn doing(doing: &'static str) -> impl Fn(io::Error) -> UdpError {
    move |error| UdpError::System { doing, error }
}

pub(crate) fn bind(socket: &Socket, bind: SocketAddr) -> Result<(), UdpError> {
    socket.bind(bind).map_err(|error| match error.raw_os_error() {
        Some(libc::EADDRINUSE) => UdpError::PortInUse { bind },
        Some(libc::EADDRNOTAVAIL | libc::EINVAL) => UdpError::NotOurs { ip: bind.ip() },
        Some(libc::EACCES | libc::EPERM) => UdpError::NotPermitted { bind },
        Some(libc::EAFNOSUPPORT) => UdpError::NoFamily { ip: bind.ip() },
        _ => UdpError::System { doing: "binding the socket", error },
    })
}

/// What `bind` makes of the address with the first of these ports that is free; without any, with its own port.
pub(crate) fn bind_first_free<T>(
    addr: SocketAddr,
    ports: Option<&RangeInclusive<u16>>,
    bind: impl Fn(SocketAddr) -> Result<T, UdpError>,
) -> Result<T, UdpError> {
    let Some(ports) = ports else { return bind(addr) };
    if ports.is_empty() || *ports.start() == 0 {
        return Err(UdpError::NoPorts { ports: ports.clone() });
    }
    for port in ports.clone() {
        let mut addr = addr;
        addr.set_port(port);
        match bind(addr) {
            Err(UdpError::PortInUse { .. }) => {}
            other => return other,
        }
    }
    Err(UdpError::PortsInUse { ip: addr.ip(), ports: ports.clone() })
}

fn prepare(socket: Socket, config: &UdpConfig) -> Result<Opened, UdpError> {
    socket.forbid_fragments().map_err(doing("forbidding fragments"))?;
    socket.keep_troubles().map_err(doing("asking for errors of the network"))?;
    socket.count_overflow().map_err(doing("asking for the count of lost datagrams"))?;
    let may_force = !config.buffers_unprivileged;
    let receive_buffer_len = socket
        .set_receive_buffer(config.receive_buffer_len, may_force)
        .map_err(doing("setting the receive buffer"))?;
    let send_buffer_len = socket
        .set_send_buffer(config.send_buffer_len, may_force)
        .map_err(doing("setting the send buffer"))?;
    let bound = local_addr(&socket)?;
    let is_gro = config.gro == Use::Auto && socket.set_gro(true).is_ok();
    let is_gso = config.gso == Use::Auto && socket.knows_gso();
    let mtu = interfaces::mtu_of(bound.ip(), &socket).unwrap_or(MTU_USUAL);
    let frame_len_max = frame_len_of(mtu, socket.is_v6() && !socket.speaks_v4());
    let train_count_max = if is_gso { probe_train_count() } else { 0 };
    Ok(Opened {
        socket,
        bound,
        interface: config.interface,
        train_count_max,
        is_gro,
        frame_len_max,
        receive_buffer_len,
        send_buffer_len,
    })
}

/// The longest frame in packets of that length.
pub(super) fn frame_len_of(mtu: usize, is_v6: bool) -> usize {
    match is_v6 {
        true => mtu.saturating_sub(OVERHEAD_V6_LEN).min(FRAME_V6_LEN_MAX),
        false => mtu.saturating_sub(OVERHEAD_V4_LEN).min(FRAME_V4_LEN_MAX),
    }
}

/// A socket that talks to itself on the loopback interface.
fn loopback() -> io::Result<Socket> {
    let loopback = |ip: IpAddr| -> io::Result<Socket> {
        let socket = Socket::open(ip.is_ipv6())?;
        socket.bind(SocketAddr::new(ip, 0))?;
        socket.connect(socket.local_addr()?)?;
        Ok(socket)
    };
    loopback(Ipv4Addr::LOCALHOST.into()).or_else(|_| loopback(Ipv6Addr::LOCALHOST.into()))
}

/// How many segments the system takes in one train. Where there is no loopback to try it on, what all versions take. What was found
/// out holds for as long as the process lives.
fn probe_train_count() -> usize {
    static KNOWN: OnceLock<usize> = OnceLock::new();
    let takes = |count: &usize| loopback().and_then(|socket| socket.try_train(*count, 1)).is_ok();
    let tried = || TRAIN_COUNTS.into_iter().find(takes).map(|count| *KNOWN.get_or_init(|| count));
    KNOWN.get().copied().or_else(tried).unwrap_or(TRAIN_COUNTS[1])
}

/// What `measure_charge` found out: endpoints that come and go by the thousand need not ask the kernel again, which does not change.
pub(super) fn charge_of(len: usize, train_count: usize) -> Option<usize> {
    static KNOWN: Mutex<Vec<(usize, usize, usize)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |it: &&(usize, usize, usize)| (it.0, it.1) == (len, train_count);
    if let Some(&(_, _, charge)) = known.iter().find(is_it) {
        return Some(charge);
    }
    let charge = measure_charge(len, train_count)?;
    if known.len() < KNOWN_COUNT_MAX {
        known.push((len, train_count, charge));
    }
    Some(charge)
}

/// What the kernel charges for a datagram of each length while it waits, found out on the loopback interface, where it is
/// the memory that the sender's side of the kernel allocated, as on a veth. Drivers of real interfaces allocate in their own
/// ways; the count of overflows tells where they take more.
fn measure_charge(len: usize, train_count: usize) -> Option<usize> {
    let socket = loopback().ok()?;
    socket.set_receive_buffer(1 << 20, false).ok()?;
    if train_count > 1 {
        socket.set_gro(true).ok()?;
        socket.try_train(train_count, len).ok()?;
    } else {
        socket.send(&vec![0; len]).ok()?;
    }
    socket.charged_len().ok().filter(|&charged| charged > 0)
}

/// An address others can send to, for a socket bound to a wildcard: the source address of the default route; without one,
/// that of any interface but the loopback.
pub(crate) fn usable_addr(bound: SocketAddr) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        return bound;
    }
    // Addresses for documentation: nobody has them, and connecting sends nothing.
    let far_v6 = SocketAddr::from((Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9));
    let far_v4 = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9));
    let source_for = |far: SocketAddr| -> Option<IpAddr> {
        let socket = Socket::open(far.is_ipv6()).ok()?;
        socket.connect(far).ok()?;
        let ip = socket.local_addr().ok()?.ip();
        (!ip.is_unspecified()).then_some(ip)
    };
    let any_v4 = || interfaces::addr_beyond_loopback(IpAddr::is_ipv4);
    let any_v6 = || interfaces::addr_beyond_loopback(IpAddr::is_ipv6);
    let ip = match bound {
        SocketAddr::V4(_) => {
            source_for(far_v4).or_else(any_v4).unwrap_or(Ipv4Addr::LOCALHOST.into())
        }
        SocketAddr::V6(_) => source_for(far_v6)
            .or_else(|| source_for(far_v4))
            .or_else(any_v6)
            .or_else(any_v4)
            .unwrap_or(Ipv6Addr::LOCALHOST.into()),
    };
    SocketAddr::new(ip, bound.port())
}

/// The longest frame on the way from `local` to `to`, as the system knows it now; `None` if it knows no way.
pub(super) fn frame_len_between(
    local: IpAddr,
    interface: Option<u32>,
    to: SocketAddr,
) -> Option<usize> {
    let socket = connected(local, interface, to).ok()?;
    Some(frame_len_of(socket.path_mtu(to.is_ipv6()).ok()?, to.is_ipv6()))
}

/// The address that what goes there comes from.
pub(super) fn source_towards(to: SocketAddr) -> Option<IpAddr> {
    let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
    Some(connected(any, None, to).ok()?.local_addr().ok()?.ip())
}

/// A socket that has looked up the way.
fn connected(local: IpAddr, interface: Option<u32>, to: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::open(to.is_ipv6())?;
    if let Some(interface) = interface {
        socket.leave_by(interface)?;
    }
    let needs_scope = matches!(local, IpAddr::V6(ip) if ip.is_unicast_link_local());
    if !local.is_unspecified() && !needs_scope && local.is_ipv6() == to.is_ipv6() {
        socket.bind(SocketAddr::new(local, 0))?;
    }
    socket.connect(to)?;
    Ok(socket)
}
