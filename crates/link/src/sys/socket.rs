//! One UDP or TCP socket.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;

use super::any_socket::{self, SEND_FLAGS};
use super::name::Name;
use super::{answer, answer_len};

// Not in the libc crate for every target.
const SO_MEMINFO: libc::c_int = 55;
const MEMINFO_COUNT: usize = 9;
const MEMINFO_RMEM_ALLOC: usize = 0;
const IPV6_MTU: libc::c_int = 24;
const IP_UNICAST_IF: libc::c_int = 50;
const IPV6_UNICAST_IF: libc::c_int = 76;
const SO_BINDTOIFINDEX: libc::c_int = 62;
/// What the network quotes of a datagram at most: a message of its own must fit the least MTU of IPv6.
const QUOTE_LEN_MAX: usize = 1280;

/// A UDP or TCP socket that never waits and is not inherited.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    is_v6: bool,
}

/// What the network, or the system itself, had to say about a datagram sent earlier.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    /// Where it was sent.
    pub(crate) to: Option<SocketAddr>,
    /// What went wrong.
    pub(crate) errno: i32,
    /// A number that explains it: the MTU, where the datagram was too long.
    pub(crate) info: usize,
    /// Found by this host, so the call that sent it was told too.
    pub(crate) is_local: bool,
    /// Told by the place it was sent to, if that is to be believed.
    pub(crate) is_of_place: bool,
    /// What is quoted of it: its beginning, or nothing.
    pub(crate) quote: Vec<u8>,
}

impl Socket {
    /// A UDP socket.
    pub(crate) fn open(is_v6: bool) -> io::Result<Self> {
        Self::open_kind(is_v6, libc::SOCK_DGRAM)
    }

    /// A TCP socket.
    pub(crate) fn open_stream(is_v6: bool) -> io::Result<Self> {
        Self::open_kind(is_v6, libc::SOCK_STREAM)
    }

    fn open_kind(is_v6: bool, kind: libc::c_int) -> io::Result<Self> {
        let domain = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
        let fd = any_socket::open(domain, kind | libc::SOCK_NONBLOCK)?;
        Ok(Self { fd, is_v6 })
    }

    /// A descriptor made by somebody else. `InvalidInput` if it is no UDP socket.
    pub(crate) fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let mut socket = Self { fd, is_v6: false };
        let kind = socket.option(libc::SOL_SOCKET, libc::SO_TYPE)?;
        let protocol = socket.option(libc::SOL_SOCKET, libc::SO_PROTOCOL)?;
        let domain = socket.option(libc::SOL_SOCKET, libc::SO_DOMAIN)?;
        let is_ip = domain == libc::AF_INET || domain == libc::AF_INET6;
        if kind != libc::SOCK_DGRAM || protocol != libc::IPPROTO_UDP || !is_ip {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        socket.is_v6 = domain == libc::AF_INET6;
        any_socket::take_over(&socket)?;
        Ok(socket)
    }

    pub(crate) fn is_v6(&self) -> bool {
        self.is_v6
    }

    pub(crate) fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        let name = Name::new(addr, self.is_v6);
        // SAFETY: pointer and length are those of `name`, which outlives the call.
        answer(unsafe { libc::bind(self.as_raw_fd(), name.ptr(), name.len()) }).map(drop)
    }

    /// On a UDP socket this sends no packet: it only looks for a way. On a TCP socket it begins to connect.
    pub(crate) fn connect(&self, addr: SocketAddr) -> io::Result<()> {
        let name = Name::new(addr, self.is_v6);
        // SAFETY: pointer and length are those of `name`, which outlives the call.
        answer(unsafe { libc::connect(self.as_raw_fd(), name.ptr(), name.len()) }).map(drop)
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        let mut name = Name::ROOM;
        let mut len = name.len();
        // SAFETY: pointer and length are those of the room in `name`, which outlives the call.
        let result = unsafe { libc::getsockname(self.as_raw_fd(), name.ptr_mut(), &raw mut len) };
        answer(result)?;
        name.set_len(len);
        name.to_addr().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn option(&self, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
        any_socket::option(self, level, name)
    }

    fn set_option(
        &self,
        level: libc::c_int,
        name: libc::c_int,
        value: libc::c_int,
    ) -> io::Result<()> {
        any_socket::set_option(self, level, name, &value)
    }

    /// On an IPv6 socket: whether IPv4 is spoken on it too.
    pub(crate) fn set_dual(&self, is_dual: bool) -> io::Result<()> {
        self.set_option(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, (!is_dual).into())
    }

    /// Whether IPv4 addresses can be reached from it.
    pub(crate) fn speaks_v4(&self) -> bool {
        !self.is_v6
            || self.option(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY).is_ok_and(|only| only == 0)
    }

    /// What is sent leaves by this interface, whatever others the routes know. Needs no rights, and unlike a socket that is
    /// bound to a device takes what arrives elsewhere.
    pub(crate) fn leave_by(&self, interface: u32) -> io::Result<()> {
        let number = interface.to_be() as libc::c_int;
        if self.is_v6 {
            self.set_option(libc::IPPROTO_IPV6, IPV6_UNICAST_IF, number)
        } else {
            self.set_option(libc::IPPROTO_IP, IP_UNICAST_IF, number)
        }
    }

    /// Never fragments: what does not pass is reported.
    pub(crate) fn forbid_fragments(&self) -> io::Result<()> {
        if self.is_v6 {
            let always = libc::IPV6_PMTUDISC_DO;
            self.set_option(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, always)?;
        }
        self.set_option(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
    }

    /// Errors of the network are kept for `next_trouble`.
    pub(crate) fn keep_troubles(&self) -> io::Result<()> {
        if self.is_v6 {
            self.set_option(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
        }
        self.set_option(libc::IPPROTO_IP, libc::IP_RECVERR, 1)
    }

    /// Datagrams say which address of ours they were sent to (`next_visit`).
    pub(crate) fn tell_local(&self) -> io::Result<()> {
        match self.is_v6 {
            true => self.set_option(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
            false => self.set_option(libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        }
    }

    /// Datagrams say how many were dropped before them, if any were.
    pub(crate) fn count_overflow(&self) -> io::Result<()> {
        self.set_option(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
    }

    /// Whether trains may arrive whole.
    pub(crate) fn set_gro(&self, is_on: bool) -> io::Result<()> {
        self.set_option(libc::SOL_UDP, libc::UDP_GRO, is_on.into())
    }

    /// Whether the system knows trains at all; a path may still refuse them.
    pub(crate) fn knows_gso(&self) -> bool {
        self.option(libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
    }

    /// Sends without checksums, which trains are not sent without.
    #[cfg(test)]
    pub(crate) fn leave_out_checksums(&self) -> io::Result<()> {
        self.set_option(libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)
    }

    /// Asks for a receive buffer; the length the kernel keeps account of, which is about twice what was asked for.
    pub(crate) fn set_receive_buffer(&self, len: usize, may_force: bool) -> io::Result<usize> {
        any_socket::set_receive_buffer(self, len, may_force)
    }

    /// Asks for a buffer for what is on its way out; the length the kernel keeps account of.
    pub(crate) fn set_send_buffer(&self, len: usize, may_force: bool) -> io::Result<usize> {
        any_socket::set_send_buffer(self, len, may_force)
    }

    /// What went wrong since this was asked last, or a call last said it.
    pub(crate) fn take_error(&self) -> Option<i32> {
        self.option(libc::SOL_SOCKET, libc::SO_ERROR).ok().filter(|&errno| errno != 0)
    }

    /// Bytes the kernel charges for what waits to be received.
    pub(crate) fn charged_len(&self) -> io::Result<usize> {
        let info: [u32; MEMINFO_COUNT] = any_socket::option(self, libc::SOL_SOCKET, SO_MEMINFO)?;
        Ok(info[MEMINFO_RMEM_ALLOC] as usize)
    }

    /// The MTU of the way to where it is connected.
    pub(crate) fn path_mtu(&self, is_v6: bool) -> io::Result<usize> {
        let (level, name) = match is_v6 {
            true => (libc::IPPROTO_IPV6, IPV6_MTU),
            false => (libc::IPPROTO_IP, libc::IP_MTU),
        };
        let mtu = self.option(level, name)?;
        usize::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// The next entry of the error queue.
    pub(crate) fn next_trouble(&self) -> Option<Trouble> {
        let mut name = Name::ROOM;
        let mut control = [0_u64; 32];
        let mut quote = [0_u8; QUOTE_LEN_MAX];
        let mut part = libc::iovec { iov_base: quote.as_mut_ptr().cast(), iov_len: quote.len() };
        // SAFETY: `msghdr` is plain data; all zeros are a valid value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_name = name.ptr_mut().cast();
        message.msg_namelen = name.len();
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: `message` names room that is ours and outlives the call, with its true lengths.
        let received = unsafe { libc::recvmsg(self.as_raw_fd(), &raw mut message, flags) };
        let len = answer_len(received).ok()?;
        name.set_len(message.msg_namelen);
        let mut found = Trouble {
            to: name.to_addr(),
            errno: 0,
            info: 0,
            is_local: false,
            is_of_place: false,
            quote: quote[..len.min(QUOTE_LEN_MAX)].to_vec(),
        };
        each_control(&message, |level, kind, value| {
            let is_trouble = (level, kind) == (libc::SOL_IP, libc::IP_RECVERR)
                || (level, kind) == (libc::SOL_IPV6, libc::IPV6_RECVERR);
            if is_trouble && value.len() >= size_of::<libc::sock_extended_err>() {
                // SAFETY: enough bytes are there, and any bytes make this plain struct.
                let error: libc::sock_extended_err =
                    unsafe { ptr::read_unaligned(value.as_ptr().cast()) };
                found.errno = error.ee_errno as i32;
                found.info = error.ee_info as usize;
                found.is_local = error.ee_origin == libc::SO_EE_ORIGIN_LOCAL;
                let teller = ip_of(&value[size_of::<libc::sock_extended_err>()..]);
                found.is_of_place = teller.is_some_and(|ip| found.to.map(|to| to.ip()) == Some(ip));
            }
        });
        Some(found)
    }

    /// Sends `count` segments of `len` bytes as one train to where it is connected: does the system take it?
    pub(crate) fn try_train(&self, count: usize, len: usize) -> io::Result<()> {
        let bytes = vec![0_u8; count * len];
        let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
        let mut control = super::outbox::Control::segment(len as u16);
        // SAFETY: `msghdr` is plain data; all zeros are a valid value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        control.attach(&mut message);
        // SAFETY: `message` names `bytes`, which are only read, and `control`, with their true lengths.
        answer_len(unsafe { libc::sendmsg(self.as_raw_fd(), &raw const message, 0) }).map(drop)
    }

    /// Sends bytes somewhere.
    pub(crate) fn send_to(&self, bytes: &[u8], addr: SocketAddr) -> io::Result<usize> {
        let name = Name::new(addr, self.is_v6);
        let (fd, at, len) = (self.as_raw_fd(), bytes.as_ptr(), bytes.len());
        // Past the C library's own function, as in `Inbox::receive_one`.
        // SAFETY: the kernel reads `bytes` and `name`, which outlive the call.
        let sent = unsafe {
            libc::syscall(libc::SYS_sendto, fd, at, len, SEND_FLAGS, name.ptr(), name.len())
        };
        answer_len(sent as libc::ssize_t)
    }

    /// Sends a train somewhere: segments of this length, the last may be shorter.
    pub(crate) fn send_train_to(
        &self,
        bytes: &[u8],
        segment_len: u16,
        addr: SocketAddr,
    ) -> io::Result<usize> {
        let mut name = Name::new(addr, self.is_v6);
        let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
        let mut control = super::outbox::Control::segment(segment_len);
        // SAFETY: `msghdr` is plain data; all zeros are a valid value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_namelen = name.len();
        message.msg_name = name.ptr_mut().cast();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        control.attach(&mut message);
        // SAFETY: `message` names `bytes`, which are only read, an address and `control`, with their true lengths; all outlive the call.
        answer_len(unsafe { libc::sendmsg(self.as_raw_fd(), &raw const message, SEND_FLAGS) })
    }

    /// Sends bytes to where it is connected.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let (at, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the kernel reads `bytes`, which outlive the call.
        answer_len(unsafe { libc::send(self.as_raw_fd(), at, len, SEND_FLAGS) })
    }

    /// What is there for it, into `bytes`. 0: the other side sends no more.
    pub(crate) fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let (at, len) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: the kernel writes at most `len` bytes to `bytes`, which outlive the call.
        answer_len(unsafe { libc::recv(self.as_raw_fd(), at, len, libc::MSG_DONTWAIT) })
    }
}

/// TCP only.
impl Socket {
    /// Takes streams from now on; so many may wait to be accepted.
    pub(crate) fn listen(&self, waiting_count_max: u16) -> io::Result<()> {
        // SAFETY: changes our own descriptor, touches no memory.
        answer(unsafe { libc::listen(self.as_raw_fd(), waiting_count_max.into()) }).map(drop)
    }

    /// The next stream that waits, and where it comes from.
    pub(crate) fn accept(&self) -> io::Result<(Self, Option<SocketAddr>)> {
        let mut name = Name::ROOM;
        let mut len = name.len();
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let (raw, at) = (self.as_raw_fd(), name.ptr_mut());
        // SAFETY: pointer and length are those of the room in `name`, which outlives the call.
        let fd = answer(unsafe { libc::accept4(raw, at, &raw mut len, flags) })?;
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        name.set_len(len);
        Ok((Self { fd, is_v6: self.is_v6 }, name.to_addr()))
    }

    /// A port can be listened on though streams of an earlier listener are still dying on it.
    pub(crate) fn set_reuse(&self) -> io::Result<()> {
        self.set_option(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)
    }

    /// What is written leaves at once: who writes has put together what belongs together.
    pub(crate) fn set_no_delay(&self) -> io::Result<()> {
        self.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
    }

    /// The stream breaks if what was sent is not acknowledged for so long.
    pub(crate) fn set_patience(&self, milliseconds: u16) -> io::Result<()> {
        let name = libc::TCP_USER_TIMEOUT;
        self.set_option(libc::IPPROTO_TCP, name, milliseconds.into())
    }

    /// Uses this interface and no other. `leave_by` does nothing for streams.
    pub(crate) fn keep_to(&self, interface: u32) -> io::Result<()> {
        self.set_option(libc::SOL_SOCKET, SO_BINDTOIFINDEX, interface as libc::c_int)
    }
}

/// The address in a `sockaddr`, as bytes.
fn ip_of(name: &[u8]) -> Option<IpAddr> {
    let family = u16::from_ne_bytes(*name.first_chunk()?);
    match libc::c_int::from(family) {
        libc::AF_INET => Some(Ipv4Addr::from(*name.get(4..)?.first_chunk::<4>()?).into()),
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(*name.get(8..)?.first_chunk::<16>()?);
            Some(IpAddr::from(ip).to_canonical())
        }
        _ => None,
    }
}

/// Calls `f` with level, type and value of each control message.
pub(super) fn each_control(
    message: &libc::msghdr,
    mut f: impl FnMut(libc::c_int, libc::c_int, &[u8]),
) {
    // SAFETY: control pointer and length of `message` are those of a buffer filled by the kernel.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: not null, so a whole header is inside the control buffer, which is aligned for it.
        let header = unsafe { *next };
        let head_len = {
            // SAFETY: computes, touches nothing.
            unsafe { libc::CMSG_LEN(0) as usize }
        };
        let len = (header.cmsg_len as usize).saturating_sub(head_len);
        // SAFETY: the kernel wrote a header with that length of data behind it, inside the buffer.
        let value = unsafe { std::slice::from_raw_parts(libc::CMSG_DATA(next), len) };
        f(header.cmsg_level, header.cmsg_type, value);
        // SAFETY: `next` is a header of this message.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
