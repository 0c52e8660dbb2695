//! Datagrams with the address of ours that they were sent to, and answers that leave from there.
//!
//! A host has several addresses, and a socket bound to none of them takes what comes to any. Its answer would leave from the address
//! that the routes prefer; whoever asked another one would not take it for an answer.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::ptr;

use super::answer_len;
use super::name::Name;
use super::socket::{Socket, each_control};

/// A datagram that came.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    /// Its length; longer ones are cut to the room there was.
    pub len: usize,
    /// Where it came from.
    pub from: SocketAddr,
    /// The address of ours that it was sent to, if the system told.
    pub to: Option<IpAddr>,
}

/// Room for the control messages of one datagram, aligned as their heads must be.
type Control = [u64; 16];

impl Socket {
    /// The next datagram; `None` if there is none, or the network had something to say about an answer.
    pub(crate) fn next_visit(&self, room: &mut [u8]) -> io::Result<Option<Visit>> {
        let mut name = Name::ROOM;
        let mut control: Control = [0; 16];
        let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        // SAFETY: `msghdr` is plain data; all zeros are a valid value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_name = name.ptr_mut().cast();
        message.msg_namelen = name.len();
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        // SAFETY: `message` names room that is ours and outlives the call, with its true lengths.
        let got = unsafe { libc::recvmsg(self.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        let len = match answer_len(got) {
            Ok(len) => len.min(room.len()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        name.set_len(message.msg_namelen);
        let mut to = None;
        each_control(&message, |level, kind, value| {
            to = to.or_else(|| local_of(level, kind, value));
        });
        Ok(name.to_addr().map(|from| Visit { len, from, to }))
    }

    /// Answers a visit, from the address it was sent to.
    pub(crate) fn answer_visit(&self, bytes: &[u8], visit: &Visit) -> io::Result<usize> {
        let Some(from) = visit.to else { return self.send_to(bytes, visit.from) };
        let mut name = Name::new(visit.from, self.is_v6());
        let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
        let mut control: Control = [0; 16];
        // SAFETY: `msghdr` is plain data; all zeros are a valid value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_namelen = name.len();
        message.msg_name = name.ptr_mut().cast();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = put_local(&mut control, from, self.is_v6()) as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: `message` names `bytes`, which are only read, an address and `control`, with their true lengths; all outlive the call.
        answer_len(unsafe { libc::sendmsg(self.as_raw_fd(), &raw const message, flags) })
    }
}

/// The address that a control message says a datagram was sent to.
fn local_of(level: libc::c_int, kind: libc::c_int, value: &[u8]) -> Option<IpAddr> {
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) if value.len() >= size_of::<libc::in_pktinfo>() => {
            // SAFETY: enough bytes are there, and any bytes make this plain struct.
            let info: libc::in_pktinfo = unsafe { ptr::read_unaligned(value.as_ptr().cast()) };
            Some(Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()).into())
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)
            if value.len() >= size_of::<libc::in6_pktinfo>() =>
        {
            // SAFETY: as above.
            let info: libc::in6_pktinfo = unsafe { ptr::read_unaligned(value.as_ptr().cast()) };
            Some(IpAddr::from(Ipv6Addr::from(info.ipi6_addr.s6_addr)).to_canonical())
        }
        _ => None,
    }
}

/// Writes the control message that has a datagram leave from this address; its length. On an IPv6 socket IPv4 addresses have
/// their IPv6 form here, too.
fn put_local(control: &mut Control, from: IpAddr, is_socket_v6: bool) -> usize {
    match from {
        IpAddr::V4(ip) if !is_socket_v6 => {
            let spec = libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
            let any = libc::in_addr { s_addr: 0 };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: spec, ipi_addr: any };
            put(control, (libc::IPPROTO_IP, libc::IP_PKTINFO), info)
        }
        ip => {
            let ip = match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            let ipi6_addr = libc::in6_addr { s6_addr: ip.octets() };
            let info = libc::in6_pktinfo { ipi6_addr, ipi6_ifindex: 0 };
            put(control, (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), info)
        }
    }
}

fn put<T: Copy>(
    control: &mut Control,
    (level, kind): (libc::c_int, libc::c_int),
    value: T,
) -> usize {
    let value_len = size_of::<T>() as libc::c_uint;
    // SAFETY: both compute, touching nothing.
    let (head_len, len) = unsafe { (libc::CMSG_LEN(0), libc::CMSG_SPACE(value_len)) };
    let (head_len, len) = (head_len as usize, len as usize);
    assert!(len <= size_of_val(control) && align_of::<libc::cmsghdr>() <= align_of_val(control));
    // SAFETY: `cmsghdr` is plain data; all zeros are a valid value.
    let mut head: libc::cmsghdr = unsafe { mem::zeroed() };
    head.cmsg_len = head_len + size_of::<T>();
    (head.cmsg_level, head.cmsg_type) = (level, kind);
    let at = control.as_mut_ptr().cast::<u8>();
    // SAFETY: `len` bytes fit into `control` (asserted), which is aligned for a head; the value may stand anywhere.
    unsafe {
        ptr::write(at.cast(), head);
        ptr::write_unaligned(at.add(head_len).cast(), value);
    }
    len
}
