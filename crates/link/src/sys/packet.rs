//! One packet socket: raw Ethernet frames of one interface and one EtherType.

use std::ffi::CStr;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

use super::any_socket::{self, ON, SEND_FLAGS};
use super::{answer, answer_len};

// Not in the libc crate for every target.
const PACKET_COPY_THRESH: libc::c_int = 7;

/// A raw packet socket that never waits and is not inherited.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    fd: OwnedFd,
}

/// What a packet socket is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// EtherType; 0 if it is bound to nothing.
    pub(crate) protocol: u16,
    /// Number of the interface; 0 for all of them, negative once it is gone.
    pub(crate) index: i32,
}

/// What the system says about an interface.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) index: i32,
    pub(crate) mtu: usize,
    pub(crate) mac: [u8; 6],
    /// ARPHRD_* of Linux: what kind of hardware it is, or plays.
    pub(crate) hardware: u16,
    pub(crate) is_loopback: bool,
    pub(crate) is_up: bool,
}

/// How the ring of a socket is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) slot_len: usize,
    pub(crate) block_len: usize,
    pub(crate) block_count: usize,
}

impl Layout {
    pub(crate) fn slots_per_block(&self) -> usize {
        self.block_len / self.slot_len
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.slots_per_block() * self.block_count
    }

    pub(crate) fn len(&self) -> usize {
        self.block_len * self.block_count
    }
}

impl PacketSocket {
    /// Opens a socket that receives nothing before it is bound. Needs CAP_NET_RAW.
    pub(crate) fn open() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
        Ok(Self { fd: any_socket::open(libc::AF_PACKET, kind)? })
    }

    /// A descriptor made by somebody else. `InvalidInput` if it is no raw packet socket.
    pub(crate) fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let socket = Self { fd };
        let domain = socket.option(libc::SOL_SOCKET, libc::SO_DOMAIN)?;
        let kind = socket.option(libc::SOL_SOCKET, libc::SO_TYPE)?;
        if domain != libc::AF_PACKET || kind != libc::SOCK_RAW {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        any_socket::take_over(&socket)?;
        Ok(socket)
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// From now on frames of this EtherType on this interface arrive.
    pub(crate) fn bind(&self, index: i32, protocol: u16) -> io::Result<()> {
        // SAFETY: `sockaddr_ll` is plain data; all zeros are a valid value.
        let mut name: libc::sockaddr_ll = unsafe { mem::zeroed() };
        name.sll_family = libc::AF_PACKET as libc::c_ushort;
        name.sll_protocol = protocol.to_be();
        name.sll_ifindex = index;
        let (at, len) = ((&raw const name).cast(), size_of_val(&name) as libc::socklen_t);
        // SAFETY: pointer and length are those of `name`, which outlives the call.
        answer(unsafe { libc::bind(self.as_raw_fd(), at, len) }).map(drop)
    }

    pub(crate) fn bound(&self) -> io::Result<Bound> {
        // SAFETY: `sockaddr_ll` is plain data; all zeros are a valid value.
        let mut name: libc::sockaddr_ll = unsafe { mem::zeroed() };
        let mut len = size_of_val(&name) as libc::socklen_t;
        let at = (&raw mut name).cast();
        // SAFETY: the kernel writes at most `len` bytes to `name`, both of which outlive the call.
        answer(unsafe { libc::getsockname(self.as_raw_fd(), at, &raw mut len) })?;
        Ok(Bound { protocol: u16::from_be(name.sll_protocol), index: name.sll_ifindex })
    }

    fn option(&self, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
        any_socket::option(self, level, name)
    }

    fn set_packet(&self, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        any_socket::set_option(self, libc::SOL_PACKET, name, &value)
    }

    /// Only frames that this program accepts are queued. `EPERM` if another one is locked in.
    pub(crate) fn attach_filter(&self, program: &[libc::sock_filter]) -> io::Result<()> {
        let len = program.len() as libc::c_ushort;
        // The kernel only reads it, whatever the pointer's type says.
        let whole = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
        any_socket::set_option(self, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &whole)
    }

    /// The filter that is attached; empty if there is none.
    pub(crate) fn filter(&self) -> io::Result<Vec<libc::sock_filter>> {
        let mut room = [libc::sock_filter { code: 0, jt: 0, jf: 0, k: 0 }; 64];
        let mut len = room.len() as libc::socklen_t; // counted in instructions
        let (fd, at) = (self.as_raw_fd(), room.as_mut_ptr().cast());
        let (level, name) = (libc::SOL_SOCKET, libc::SO_GET_FILTER);
        // SAFETY: the kernel writes at most `len` instructions to `room`, both of which outlive the call.
        answer(unsafe { libc::getsockopt(fd, level, name, at, &raw mut len) })?;
        Ok(room[..room.len().min(len as usize)].to_vec())
    }

    /// The filter stays for ever, whoever gets the descriptor.
    pub(crate) fn lock_filter(&self) -> io::Result<()> {
        any_socket::set_option(self, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &ON)
    }

    /// What this host sends is not to be received by it.
    pub(crate) fn ignore_outgoing(&self) -> io::Result<()> {
        self.set_packet(libc::PACKET_IGNORE_OUTGOING, 1)
    }

    /// Sends past the interface's queue.
    pub(crate) fn bypass_queue(&self) -> io::Result<()> {
        self.set_packet(libc::PACKET_QDISC_BYPASS, 1)
    }

    /// Has the kernel make a ring in which frames arrive; those longer than a slot are queued whole, as without a ring, and
    /// the slot says so. What is queued by then is thrown away.
    pub(crate) fn make_ring(&self, layout: &Layout) -> io::Result<()> {
        self.set_packet(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as _)?;
        self.set_packet(PACKET_COPY_THRESH, 1)?;
        let request = libc::tpacket_req {
            tp_block_size: layout.block_len as libc::c_uint,
            tp_block_nr: layout.block_count as libc::c_uint,
            tp_frame_size: layout.slot_len as libc::c_uint,
            tp_frame_nr: layout.slot_count() as libc::c_uint,
        };
        any_socket::set_option(self, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
    }

    /// Asks for a receive buffer; the length the kernel keeps account of. Never less than there is: a privileged opener may
    /// have given more than we could.
    pub(crate) fn set_receive_buffer(&self, len: usize, may_force: bool) -> io::Result<usize> {
        any_socket::set_receive_buffer(self, len, may_force)
    }

    /// Asks for a buffer for what is on its way out; the length the kernel keeps account of.
    pub(crate) fn set_send_buffer(&self, len: usize, may_force: bool) -> io::Result<usize> {
        any_socket::set_send_buffer(self, len, may_force)
    }

    /// Receive and send buffer as the kernel keeps account of them.
    pub(crate) fn buffer_lens(&self) -> io::Result<(usize, usize)> {
        let receive = self.option(libc::SOL_SOCKET, libc::SO_RCVBUF)?;
        Ok((receive as usize, self.option(libc::SOL_SOCKET, libc::SO_SNDBUF)? as usize))
    }

    /// What went wrong since this was asked last, for poll would tell of it again and again.
    pub(crate) fn take_error(&self) -> Option<i32> {
        self.option(libc::SOL_SOCKET, libc::SO_ERROR).ok().filter(|&errno| errno != 0)
    }

    /// Frames that had no room since this was asked last.
    pub(crate) fn take_drops(&self) -> u64 {
        let stats = any_socket::option(self, libc::SOL_PACKET, libc::PACKET_STATISTICS);
        stats.map_or(0, |stats: libc::tpacket_stats| stats.tp_drops.into())
    }

    /// Sends one whole Ethernet frame on the interface it is bound to.
    #[inline]
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let (fd, at, len) = (self.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the kernel reads `bytes`, which outlive the call.
        answer_len(unsafe { libc::send(fd, at, len, SEND_FLAGS) })
    }

    /// Throws away one queued frame; whether there was one.
    pub(crate) fn discard(&self) -> bool {
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: no byte is to be written.
        answer_len(unsafe { libc::recv(self.as_raw_fd(), ptr::null_mut(), 0, flags) }).is_ok()
    }
}

/// Interfaces, as the network namespace of the socket has them.
impl PacketSocket {
    fn ask(&self, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the questions asked below read and write nothing outside `request`.
        answer(unsafe { libc::ioctl(self.as_raw_fd(), what as _, ptr::from_mut(request)) })
            .map(drop)
    }

    /// What the interface of this name is like; `NotFound` if there is none.
    pub(crate) fn facts(&self, name: &str) -> io::Result<Facts> {
        let missing = |error: io::Error| match error.raw_os_error() {
            Some(libc::ENODEV) => io::ErrorKind::NotFound.into(),
            _ => error,
        };
        let mut request = request_for(name).ok_or(io::ErrorKind::NotFound)?;
        self.ask(libc::SIOCGIFINDEX as _, &mut request).map_err(missing)?;
        // SAFETY: SIOCGIFINDEX wrote this field.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        let mtu = self.mtu(name).map_err(missing)?;
        self.ask(libc::SIOCGIFFLAGS as _, &mut request).map_err(missing)?;
        // SAFETY: SIOCGIFFLAGS wrote this field.
        let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        self.ask(libc::SIOCGIFHWADDR as _, &mut request).map_err(missing)?;
        // SAFETY: SIOCGIFHWADDR wrote this field.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(address.sa_data) {
            *to = from as u8;
        }
        let is = |flag: libc::c_int| flags & flag != 0;
        let (is_loopback, is_up) = (is(libc::IFF_LOOPBACK), is(libc::IFF_UP));
        Ok(Facts { index, mtu, mac, hardware: address.sa_family, is_loopback, is_up })
    }

    pub(crate) fn mtu(&self, name: &str) -> io::Result<usize> {
        let mut request = request_for(name).ok_or(io::ErrorKind::NotFound)?;
        self.ask(libc::SIOCGIFMTU as _, &mut request)?;
        // SAFETY: SIOCGIFMTU wrote this field.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        usize::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// The name of an interface; interfaces are renamed, numbers stay.
    pub(crate) fn name_of(&self, index: i32) -> io::Result<String> {
        // SAFETY: `ifreq` is plain data; all zeros are a valid value.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        request.ifr_ifru.ifru_ifindex = index;
        self.ask(libc::SIOCGIFNAME as _, &mut request)?;
        let bytes: Vec<u8> = request.ifr_name.iter().map(|&byte| byte as u8).collect();
        let name = CStr::from_bytes_until_nul(&bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(name.to_string_lossy().into_owned())
    }
}

fn request_for(name: &str) -> Option<libc::ifreq> {
    // SAFETY: `ifreq` is plain data; all zeros are a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Some(request)
}

/// Names of all interfaces of this network namespace.
pub(crate) fn interface_names() -> Vec<String> {
    // SAFETY: no arguments; the list is freed below.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Vec::new();
    }
    let (mut names, mut next) = (Vec::new(), list);
    loop {
        // SAFETY: the list ends with an entry whose name is null, at which the loop ends.
        let entry = unsafe { &*next };
        if entry.if_name.is_null() {
            break;
        }
        // SAFETY: the name of an entry is a string that lives as long as the list.
        let name = unsafe { CStr::from_ptr(entry.if_name) };
        names.push(name.to_string_lossy().into_owned());
        // SAFETY: this entry was not the last, so another follows.
        next = unsafe { next.add(1) };
    }
    // SAFETY: the list came from `if_nameindex`, and nothing refers to it any more.
    unsafe { libc::if_freenameindex(list) };
    names
}

/// A number nobody can guess.
pub(crate) fn random() -> io::Result<u32> {
    let mut bytes = [0; 4];
    // SAFETY: the kernel writes at most the length of `bytes`, which outlive the call.
    let len = answer_len(unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) })?;
    if len < bytes.len() {
        return Err(io::ErrorKind::Interrupted.into());
    }
    Ok(u32::from_ne_bytes(bytes))
}

impl AsRawFd for PacketSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
