//! Raw calls of the test itself, so that nothing of the link is tested with its own help: an AF_PACKET socket, and a
//! program of somebody else.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// The EtherType of our frames.
const ETHER_TYPE: u16 = 0x88B5;

fn answer(result: libc::c_long) -> i32 {
    assert!(result >= 0, "{}", io::Error::last_os_error());
    result as i32
}

pub(crate) fn index_of(interface: &str) -> u32 {
    let name = std::ffi::CString::new(interface).unwrap();
    // SAFETY: reads the name, which outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert!(index > 0, "no {interface}");
    index
}

/// All packets of our EtherType on an interface.
pub(crate) struct PacketSocket(OwnedFd);

impl PacketSocket {
    pub(crate) fn open(interface: &str) -> Self {
        Self::of_type(interface, ETHER_TYPE)
    }

    /// All packets of VLANs.
    pub(crate) fn open_tagged(interface: &str) -> Self {
        Self::of_type(interface, libc::ETH_P_ALL as u16)
    }

    fn of_type(interface: &str, ether_type: u16) -> Self {
        let protocol = i32::from(ether_type.to_be());
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: creates a descriptor, touches no memory.
        let fd = answer(unsafe { libc::socket(libc::AF_PACKET, kind, protocol) }.into());
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: plain data; all zeros are a valid value.
        let mut name: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        name.sll_family = libc::AF_PACKET as u16;
        name.sll_protocol = ether_type.to_be();
        name.sll_ifindex = index_of(interface) as i32;
        let len = size_of_val(&name) as libc::socklen_t;
        // SAFETY: pointer and length are those of `name`, which outlives the call.
        answer(unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), len) }.into());
        let time = libc::timeval { tv_sec: 0, tv_usec: 200_000 };
        let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
        let len = size_of_val(&time) as libc::socklen_t;
        let at = (&raw const time).cast();
        // SAFETY: pointer and length are those of `time`, which outlives the call.
        answer(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, at, len) }.into());
        Self(fd)
    }

    pub(crate) fn send(&self, packet: &[u8]) {
        let (fd, at) = (self.0.as_raw_fd(), packet.as_ptr().cast());
        // SAFETY: the kernel reads `packet`, which outlives the call.
        let sent = unsafe { libc::send(fd, at, packet.len(), 0) };
        assert_eq!(answer(sent as libc::c_long) as usize, packet.len());
    }

    /// The next packet; `None` if there is none for a while.
    pub(crate) fn receive(&self) -> Option<Vec<u8>> {
        let mut packet = vec![0; 65_536];
        let (fd, at) = (self.0.as_raw_fd(), packet.as_mut_ptr().cast());
        // SAFETY: the kernel writes at most as much as `packet` holds.
        let len = unsafe { libc::recv(fd, at, packet.len(), 0) };
        packet.truncate(usize::try_from(len).ok()?);
        Some(packet)
    }
}

/// Waits until a descriptor is readable.
pub(crate) fn sleep_on(fd: BorrowedFd<'_>, time_ms: i32) {
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    unsafe { libc::poll(&raw mut entry, 1, time_ms) };
}

/// Puts a program named `foreign` on an interface, which lets everything pass. It is there as long as the descriptor.
pub(crate) fn attach_foreign(interface: &str) -> OwnedFd {
    // r0 = XDP_PASS; exit
    let code: [u64; 2] = [0x0000_0002_0000_00b7, 0x95];
    let license = c"MIT";
    #[repr(C)]
    struct Load {
        numbers: [u32; 2],
        pointers: [u64; 2],
        log: [u64; 2],
        more: [u32; 2],
        name: [u8; 16],
        end: [u32; 2],
    }
    let mut name = [0; 16];
    name[..7].copy_from_slice(b"foreign");
    let pointers = [code.as_ptr() as u64, license.as_ptr() as u64];
    let numbers = [6, code.len() as u32];
    let load = Load { numbers, pointers, log: [0; 2], more: [0; 2], name, end: [0, 37] };
    let (at, len) = (&raw const load, size_of::<Load>());
    // SAFETY: BPF_PROG_LOAD with its attributes; what they point to outlives the call.
    let program = answer(unsafe { libc::syscall(libc::SYS_bpf, 5, at, len) });
    // SAFETY: the descriptor is new and nobody else's.
    let program = unsafe { OwnedFd::from_raw_fd(program) };
    let link = [program.as_raw_fd() as u32, index_of(interface), 37, 0];
    // SAFETY: BPF_LINK_CREATE with its attributes, which are numbers.
    let link = answer(unsafe { libc::syscall(libc::SYS_bpf, 28, link.as_ptr(), 16) });
    // SAFETY: the descriptor is new and nobody else's.
    unsafe { OwnedFd::from_raw_fd(link) }
}
