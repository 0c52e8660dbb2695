//! The raw system calls of the rivals and of the stage they run on: the only file of this crate with `unsafe`.
//!
//! Everything here is a thin, safe wrapper: one call, its pointers made from borrowed slices on the spot, its answer
//! turned into an `io::Result`. The rivals must not share code with `packhorse-link`, so they have their own.

mod features;

use std::ffi::{CStr, CString};
use std::io;
use std::mem::{self, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_uint, c_void};

/// Room for one control message with an `int` or smaller in it, aligned as `cmsghdr` wants.
#[repr(C, align(8))]
struct ControlSpace([u8; 64]);

/// What the kernel said, or its error.
fn check(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// "Not now" is an ordinary answer to one that spins.
fn unless_would_block(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

fn set_int(fd: BorrowedFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` lives through the call and `len` is its size.
    let answer =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), len) };
    check(answer as isize).map(drop)
}

fn get_int(fd: BorrowedFd, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` and `len` live through the call; the kernel writes at most `len` bytes.
    let answer = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, ptr::from_mut(&mut value).cast(), &mut len)
    };
    check(answer as isize).map(|_| value)
}

/// Which of a socket's two buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Buffer {
    Receive,
    Send,
}

/// Asks for a socket buffer, beyond the system's limit where `may_force` and the rights are there. Returns what the
/// kernel accounts against: twice what it granted.
pub(crate) fn set_buffer(
    fd: BorrowedFd,
    buffer: Buffer,
    len: usize,
    may_force: bool,
) -> io::Result<usize> {
    let (plain, forced) = match buffer {
        Buffer::Receive => (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE),
        Buffer::Send => (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE),
    };
    let wish = c_int::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let is_forced = may_force && set_int(fd, libc::SOL_SOCKET, forced, wish).is_ok();
    if !is_forced {
        set_int(fd, libc::SOL_SOCKET, plain, wish)?;
    }
    Ok(usize::try_from(get_int(fd, libc::SOL_SOCKET, plain)?).unwrap_or(0))
}

/// Whether arriving datagrams of one flow are handed over as merged trains.
pub(crate) fn set_gro(socket: &UdpSocket, is_wanted: bool) -> io::Result<()> {
    set_int(borrow(socket), libc::SOL_UDP, libc::UDP_GRO, is_wanted.into())
}

fn borrow(socket: &UdpSocket) -> BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(socket)
}

/// Sends `bytes` to the connected peer as datagrams of `segment` bytes each (the last may be shorter), in one call.
pub(crate) fn send_train(socket: &UdpSocket, bytes: &[u8], segment: usize) -> io::Result<usize> {
    let mut iov = libc::iovec { iov_base: bytes.as_ptr() as *mut c_void, iov_len: bytes.len() };
    let mut space = ControlSpace([0; 64]);
    let segment = u16::try_from(segment).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: all zeroes is a valid msghdr.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &mut iov;
    header.msg_iovlen = 1;
    if bytes.len() > usize::from(segment) {
        header.msg_control = ptr::from_mut(&mut space).cast();
        // SAFETY: CMSG_SPACE only computes; CMSG_FIRSTHDR and CMSG_DATA point into `space`, which is aligned and, at
        // 64 bytes, larger than CMSG_SPACE(2).
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as c_uint) as usize;
            let control = libc::CMSG_FIRSTHDR(&header);
            (*control).cmsg_level = libc::SOL_UDP;
            (*control).cmsg_type = libc::UDP_SEGMENT;
            (*control).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as c_uint) as usize;
            libc::CMSG_DATA(control).cast::<u16>().write_unaligned(segment);
        }
    }
    // SAFETY: header, iovec, control space and `bytes` live through the call, and sendmsg only reads them.
    check(unsafe { libc::sendmsg(socket.as_raw_fd(), &header, 0) })
}

/// A train as it was taken off the socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Train {
    /// Bytes of all its datagrams.
    pub(crate) len: usize,
    /// Whether the kernel merged several datagrams.
    pub(crate) is_merged: bool,
}

/// Takes one datagram or merged train off the socket, if there is one.
pub(crate) fn recv_train(socket: &UdpSocket, bytes: &mut [u8]) -> io::Result<Option<Train>> {
    let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut space = ControlSpace([0; 64]);
    // SAFETY: all zeroes is a valid msghdr.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &mut iov;
    header.msg_iovlen = 1;
    header.msg_control = ptr::from_mut(&mut space).cast();
    header.msg_controllen = size_of::<ControlSpace>();
    // SAFETY: all that the header points to lives through the call and is borrowed mutably here.
    let answer = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_DONTWAIT) };
    let Some(len) = unless_would_block(check(answer))? else { return Ok(None) };
    // SAFETY: the kernel filled `space` and set msg_controllen; the macro stays within it and CMSG_DATA of a UDP_GRO
    // message holds an int.
    let segment = unsafe {
        let control = libc::CMSG_FIRSTHDR(&header);
        let is_gro = !control.is_null()
            && (*control).cmsg_level == libc::SOL_UDP
            && (*control).cmsg_type == libc::UDP_GRO;
        is_gro.then(|| libc::CMSG_DATA(control).cast::<c_int>().read_unaligned())
    };
    let is_merged = segment.is_some_and(|segment| len > usize::try_from(segment).unwrap_or(0));
    Ok(Some(Train { len, is_merged }))
}

/// Sends one datagram to the connected peer.
pub(crate) fn send(socket: &UdpSocket, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length are those of a live slice, which send only reads.
    check(unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) })
}

/// Takes one datagram off the socket, if there is one.
pub(crate) fn recv(socket: &UdpSocket, bytes: &mut [u8]) -> io::Result<Option<usize>> {
    let (start, len) = (bytes.as_mut_ptr().cast(), bytes.len());
    // SAFETY: the pointer and length are those of a live slice, borrowed mutably.
    let answer = unsafe { libc::recv(socket.as_raw_fd(), start, len, libc::MSG_DONTWAIT) };
    unless_would_block(check(answer))
}

/// Slots for many datagrams to go or come in one call, each of the same size.
pub(crate) struct Batch {
    headers: Vec<libc::mmsghdr>,
    // Pointed to by `headers`. None of the three vectors ever grows, so their heap blocks stay where they are.
    _iovecs: Vec<libc::iovec>,
    _slots: Vec<u8>,
}

impl Batch {
    /// `count` slots of `slot_len` bytes.
    pub(crate) fn new(count: usize, slot_len: usize) -> Self {
        let mut slots = vec![0_u8; count * slot_len];
        let start = slots.as_mut_ptr();
        let mut iovecs: Vec<_> = (0..count)
            .map(|index| libc::iovec {
                // SAFETY: `index < count`, so the offset is within the vector.
                iov_base: unsafe { start.add(index * slot_len) }.cast(),
                iov_len: slot_len,
            })
            .collect();
        let first = iovecs.as_mut_ptr();
        let headers = (0..count)
            .map(|index| {
                // SAFETY: all zeroes is a valid mmsghdr.
                let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
                // SAFETY: `index < count`, the length of `iovecs`.
                header.msg_hdr.msg_iov = unsafe { first.add(index) };
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        Self { headers, _iovecs: iovecs, _slots: slots }
    }

    /// Sends the first `count` slots; returns how many went.
    pub(crate) fn send(&mut self, socket: &UdpSocket, count: usize) -> io::Result<usize> {
        let count = count.min(self.headers.len()) as c_uint;
        let headers = self.headers.as_mut_ptr();
        // SAFETY: `count` headers are there, and what they point to is owned by `self` and unmoved since `new`.
        check(unsafe { libc::sendmmsg(socket.as_raw_fd(), headers, count, 0) } as isize)
    }

    /// Fills slots with what has arrived; returns how many datagrams and bytes, if any.
    pub(crate) fn recv(&mut self, socket: &UdpSocket) -> io::Result<Option<(usize, usize)>> {
        let count = self.headers.len() as c_uint;
        let (headers, no_timeout) = (self.headers.as_mut_ptr(), ptr::null_mut());
        // SAFETY: as for `send`, and `self` is borrowed mutably while the kernel writes.
        let answer = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), headers, count, libc::MSG_DONTWAIT, no_timeout)
        };
        let Some(count) = unless_would_block(check(answer as isize))? else { return Ok(None) };
        let len = self.headers[..count].iter().map(|header| header.msg_len as usize).sum();
        Ok(Some((count, len)))
    }
}

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// Sleeps until one of the descriptors is ready for what is wanted of it, `longest_ms` at most.
pub(crate) fn wait_ready(
    wanted: &[(BorrowedFd, Readiness)],
    longest_ms: Option<u16>,
) -> io::Result<()> {
    let event = |is_wanted: bool, event| if is_wanted { event } else { 0 };
    let mut fds: Vec<libc::pollfd> = wanted
        .iter()
        .map(|(fd, ready)| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: event(ready.read, libc::POLLIN) | event(ready.write, libc::POLLOUT),
            revents: 0,
        })
        .collect();
    let longest = longest_ms.map_or(-1, c_int::from);
    // SAFETY: the pointer and count are those of a live vector, borrowed mutably.
    let answer = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, longest) };
    match check(answer as isize) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// Asks that this process be killed when its parent dies, and finds out whether it is too late to ask.
pub fn die_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } as isize)?;
    // SAFETY: cannot fail, no pointers.
    let now = unsafe { libc::getppid() };
    if u32::try_from(now) != Ok(parent) {
        return Err(io::Error::other("the process that started this one is gone"));
    }
    Ok(())
}

/// Effective user and group of this process.
pub(crate) fn user_and_group() -> (u32, u32) {
    // SAFETY: cannot fail, no pointers.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Leaves the network namespace for a new, empty one; with `and_user` in a new user namespace that owns it.
pub(crate) fn unshare_network(and_user: bool) -> io::Result<()> {
    let user = if and_user { libc::CLONE_NEWUSER } else { 0 };
    // SAFETY: no pointers; namespaces do not affect memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET | user) } as isize).map(drop)
}

/// Enters the user namespace that another process made.
pub(crate) fn join_user_namespace(namespace: BorrowedFd) -> io::Result<()> {
    // SAFETY: no pointers; a live descriptor.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWUSER) } as isize).map(drop)
}

/// Keeps this process (this thread, and those it will start) on one core.
pub(crate) fn pin_to(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: all zeroes is an empty set, and `core` is below its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(core, &mut set);
        set
    };
    set_cores(&set)
}

fn set_cores(set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: `set` lives through the call and the size is its own.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) } as isize)
        .map(drop)
}

/// Keeps this thread on one core until it is dropped.
pub(crate) struct Pinned(libc::cpu_set_t);

impl Pinned {
    pub(crate) fn to(core: usize) -> io::Result<Self> {
        // SAFETY: all zeroes is an empty set.
        let mut before: libc::cpu_set_t = unsafe { mem::zeroed() };
        let len = size_of::<libc::cpu_set_t>();
        // SAFETY: `before` lives through the call, is borrowed mutably, and the size is its own.
        check(unsafe { libc::sched_getaffinity(0, len, &mut before) } as isize)?;
        pin_to(core)?;
        Ok(Self(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        set_cores(&self.0).ok(); // what was allowed a moment ago
    }
}

/// The addresses of this machine, each with the name of its interface.
pub(crate) fn addresses() -> Vec<(String, IpAddr)> {
    let mut list = ptr::null_mut();
    // SAFETY: `list` lives through the call, which fills it; it is freed below.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Vec::new();
    }
    let (mut next, mut found) = (list, Vec::new());
    while !next.is_null() {
        // SAFETY: entries are valid until `freeifaddrs`, and the last one's `ifa_next` is null.
        let entry = unsafe { &*next };
        if let Some(address) = address_in(entry.ifa_addr) {
            // SAFETY: an entry's name is a string that ends with a zero, valid as long as the entry.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.push((name.to_string_lossy().into_owned(), address));
        }
        next = entry.ifa_next;
    }
    // SAFETY: from `getifaddrs`, and no reference to it is left.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// The IP address in one, if that is what it holds.
fn address_in(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None; // an interface without one
    }
    // SAFETY: not null, from `getifaddrs`: an address of the family that it names.
    unsafe {
        match c_int::from((*address).sa_family) {
            libc::AF_INET => {
                let v4 = (*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr;
                Some(Ipv4Addr::from(u32::from_be(v4)).into())
            }
            libc::AF_INET6 => {
                let v6 = (*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr;
                Some(Ipv6Addr::from(v6).into())
            }
            _ => None,
        }
    }
}

/// The questions one can ask about a network interface, in the namespace the process is in.
pub(crate) struct Interface {
    socket: OwnedFd,
    name: CString,
}

impl Interface {
    /// Nothing is asked yet: a wrong name shows at the first question.
    pub(crate) fn named(name: &str) -> io::Result<Self> {
        let name = CString::new(name)?;
        if name.as_bytes().len() >= libc::IFNAMSIZ {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        check(fd as isize)?;
        // SAFETY: just opened, and owned by nobody else.
        Ok(Self { socket: unsafe { OwnedFd::from_raw_fd(fd) }, name })
    }

    fn request(&self) -> libc::ifreq {
        // SAFETY: all zeroes is a valid ifreq.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        for (to, &from) in request.ifr_name.iter_mut().zip(self.name.as_bytes()) {
            *to = from as libc::c_char;
        }
        request
    }

    /// Largest packet of the interface.
    pub(crate) fn mtu(&self) -> io::Result<usize> {
        let mut request = self.request();
        // SAFETY: SIOCGIFMTU reads the name and writes the int member of a live ifreq.
        let answer =
            unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFMTU, &mut request) };
        check(answer as isize)?;
        // SAFETY: the call above wrote this member.
        Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    /// One ethtool question: `words` begins with the command and is as long as the kernel's answer to it.
    fn ethtool(&self, words: &mut [u32]) -> io::Result<usize> {
        const SIOCETHTOOL: libc::Ioctl = 0x8946;
        let mut request = self.request();
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: callers size `words` for the command in it; it and the ifreq live through the call.
        check(unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &mut request) } as isize)
    }
}

/// Destination, source, type.
pub(crate) const ETHERNET_LEN: usize = 14;
/// Frames in one call.
pub(crate) const FRAME_COUNT_MAX: usize = 64;
/// A ring is made of blocks, a block of whole slots.
const BLOCK_LEN: usize = 1 << 16;
const BLOCK_COUNT_MAX: usize = 16;
/// More slots than needed make each frame slower, for all are used in turn and must be fetched into the cache.
const SLOT_COUNT: usize = 640;
/// In a slot before the frame: the kernel's header and address, and room to align.
const SLOT_HEAD_LEN: usize = 66;

/// Memory in which the kernel puts frames (TPACKET_V2), mapped as long as this lives.
struct Ring {
    base: *mut u8,
    len: usize,
    slot_len: usize,
    slot_count: usize,
    next: usize,
}

impl Ring {
    fn new(fd: BorrowedFd, frame_len: usize) -> io::Result<Self> {
        let slot_len = (SLOT_HEAD_LEN + frame_len).next_multiple_of(64);
        let per_block = BLOCK_LEN / slot_len;
        let block_count = SLOT_COUNT.div_ceil(per_block).min(BLOCK_COUNT_MAX);
        let (slot_count, len) = (per_block * block_count, BLOCK_LEN * block_count);
        let version = libc::tpacket_versions::TPACKET_V2 as c_int;
        set_int(fd, libc::SOL_PACKET, libc::PACKET_VERSION, version)?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_LEN as c_uint,
            tp_block_nr: block_count as c_uint,
            tp_frame_size: slot_len as c_uint,
            tp_frame_nr: slot_count as c_uint,
        };
        let (at, size) = (ptr::from_ref(&request).cast(), size_of_val(&request) as c_uint);
        let (level, name) = (libc::SOL_PACKET, libc::PACKET_RX_RING);
        // SAFETY: `request` lives through the call and `size` is its own.
        check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, at, size) } as isize)?;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let raw = fd.as_raw_fd();
        // SAFETY: a new mapping where the kernel likes it.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, raw, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), len, slot_len, slot_count, next: 0 })
    }

    /// The next frame, if there is one, is shown and given back.
    #[inline]
    fn take(&mut self, show: impl FnOnce(&[u8])) -> bool {
        let per_block = BLOCK_LEN / self.slot_len;
        let at = self.next / per_block * BLOCK_LEN + self.next % per_block * self.slot_len;
        // SAFETY: `next` is below `slot_count`, so the slot is inside the mapping; it is aligned to 64 bytes.
        let slot = unsafe { self.base.add(at) };
        // SAFETY: a slot begins with its status, which both sides change as a whole.
        let status = unsafe { &*slot.cast::<AtomicU32>() };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the slot is ours until its status is written, and begins with this header.
        let header = unsafe { slot.cast::<libc::tpacket2_hdr>().read() };
        let start = usize::from(header.tp_mac).min(self.slot_len);
        let len = (header.tp_snaplen as usize).min(self.slot_len - start);
        // SAFETY: from `start`, `len` bytes are inside the slot (both were bounded), which is ours.
        show(unsafe { std::slice::from_raw_parts(slot.add(start), len) });
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = if self.next + 1 == self.slot_count { 0 } else { self.next + 1 };
        true
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; nothing refers to it any more.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// A packet socket on one interface, for frames of one EtherType.
pub(crate) struct RawSocket {
    fd: OwnedFd,
    /// Address of the interface.
    pub(crate) mac: [u8; 6],
    ring: Option<Ring>,
}

impl RawSocket {
    /// Frames arrive in a ring if `ring_frame_len` is given, which none may exceed; else in the socket's queue.
    pub(crate) fn open(
        interface: &Interface,
        ethertype: u16,
        ring_frame_len: Option<usize>,
    ) -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        check(fd as isize)?;
        // SAFETY: just opened, and owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let borrowed = std::os::fd::AsFd::as_fd(&fd);
        let ring = ring_frame_len.map(|len| Ring::new(borrowed, len)).transpose()?;
        let mut request = interface.request();
        // SAFETY: SIOCGIFHWADDR reads the name and writes the address member of a live ifreq.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFHWADDR, &mut request) } as isize)?;
        // SAFETY: the call above wrote this member.
        let mac = unsafe { request.ifr_ifru.ifru_hwaddr }.sa_data;
        let mac = [0, 1, 2, 3, 4, 5].map(|at| mac[at] as u8);
        // SAFETY: as above, for the number of the interface.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFINDEX, &mut request) } as isize)?;
        // SAFETY: all zeroes is a valid sockaddr_ll.
        let mut name: libc::sockaddr_ll = unsafe { mem::zeroed() };
        name.sll_family = libc::AF_PACKET as u16;
        name.sll_protocol = ethertype.to_be();
        // SAFETY: the call above wrote this member.
        name.sll_ifindex = unsafe { request.ifr_ifru.ifru_ifindex };
        let (at, len) = (ptr::from_ref(&name).cast(), size_of_val(&name) as c_uint);
        // SAFETY: `name` lives through the call and `len` is its size.
        check(unsafe { libc::bind(fd.as_raw_fd(), at, len) } as isize)?;
        Ok(Self { fd, mac, ring })
    }

    /// As [`set_buffer`].
    pub(crate) fn set_buffer(&self, which: Buffer, len: usize, force: bool) -> io::Result<usize> {
        set_buffer(std::os::fd::AsFd::as_fd(&self.fd), which, len, force)
    }

    /// Frames that can wait in the ring, if there is one.
    pub(crate) fn slot_count(&self) -> Option<usize> {
        self.ring.as_ref().map(|ring| ring.slot_count)
    }

    /// Sends one frame.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<usize> {
        // SAFETY: the pointer and length are those of a live slice, which send only reads.
        check(unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) })
    }

    /// Sends up to [`FRAME_COUNT_MAX`] frames of `segment` bytes behind the header (the last may be shorter), in one call.
    /// How many bytes went, without headers.
    pub(crate) fn send_frames(
        &self,
        header: &[u8; ETHERNET_LEN],
        bytes: &[u8],
        segment: usize,
    ) -> io::Result<usize> {
        let mut iovecs = [[EMPTY; 2]; FRAME_COUNT_MAX];
        // SAFETY: all zeroes is a valid mmsghdr.
        let mut headers: [libc::mmsghdr; FRAME_COUNT_MAX] = unsafe { mem::zeroed() };
        let mut count = 0;
        for (payload, parts) in bytes.chunks(segment).zip(&mut iovecs) {
            let part = |bytes: &[u8]| libc::iovec {
                iov_base: bytes.as_ptr() as *mut c_void,
                iov_len: bytes.len(),
            };
            *parts = [part(header), part(payload)];
            headers[count].msg_hdr.msg_iov = parts.as_mut_ptr();
            headers[count].msg_hdr.msg_iovlen = 2;
            count += 1;
        }
        let (fd, at) = (self.fd.as_raw_fd(), headers.as_mut_ptr());
        // SAFETY: `count` headers are there, and all they point to lives through the call, which only reads it.
        let count = check(unsafe { libc::sendmmsg(fd, at, count as c_uint, 0) } as isize)?;
        Ok((count * segment).min(bytes.len()))
    }

    /// Takes frames, the payload of each behind that of the one before, as far as `bytes` has room for whole segments. How many
    /// bytes and frames, if any came.
    pub(crate) fn recv(
        &mut self,
        bytes: &mut [u8],
        segment: usize,
    ) -> io::Result<Option<(usize, usize)>> {
        if self.ring.is_none() {
            return self.recv_queued(bytes, segment);
        }
        let Some(ring) = &mut self.ring else { return Ok(None) };
        let (mut at, mut count) = (0, 0);
        while at < bytes.len() && count < FRAME_COUNT_MAX {
            let room = (bytes.len() - at).min(segment);
            let target = &mut bytes[at..at + room];
            let mut len = 0;
            let is_there = ring.take(|frame| {
                let payload = frame.get(ETHERNET_LEN..).unwrap_or(&[]);
                len = payload.len().min(room); // what is short was padded
                target[..len].copy_from_slice(&payload[..len]);
            });
            if !is_there {
                break;
            }
            (at, count) = (at + len, count + 1);
        }
        Ok((count > 0).then_some((at, count)))
    }

    fn recv_queued(
        &mut self,
        bytes: &mut [u8],
        segment: usize,
    ) -> io::Result<Option<(usize, usize)>> {
        let mut room = [[0_u8; ETHERNET_LEN]; FRAME_COUNT_MAX];
        let mut iovecs = [[EMPTY; 2]; FRAME_COUNT_MAX];
        // SAFETY: all zeroes is a valid mmsghdr.
        let mut headers: [libc::mmsghdr; FRAME_COUNT_MAX] = unsafe { mem::zeroed() };
        let mut count = 0;
        for ((payload, parts), header) in bytes.chunks_mut(segment).zip(&mut iovecs).zip(&mut room)
        {
            let part = |bytes: &mut [u8]| libc::iovec {
                iov_base: bytes.as_mut_ptr().cast(),
                iov_len: bytes.len(),
            };
            *parts = [part(header), part(payload)];
            headers[count].msg_hdr.msg_iov = parts.as_mut_ptr();
            headers[count].msg_hdr.msg_iovlen = 2;
            count += 1;
        }
        let (fd, at) = (self.fd.as_raw_fd(), headers.as_mut_ptr());
        let (flags, no_timeout) = (libc::MSG_DONTWAIT, ptr::null_mut());
        // SAFETY: `count` headers are there, and all they point to lives through the call and is borrowed mutably.
        let answer = unsafe { libc::recvmmsg(fd, at, count as c_uint, flags, no_timeout) };
        let Some(count) = unless_would_block(check(answer as isize))? else { return Ok(None) };
        let len = headers[..count].iter().map(|header| header.msg_len as usize);
        Ok(Some((len.map(|len| len.saturating_sub(ETHERNET_LEN)).sum(), count)))
    }
}

const EMPTY: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
