//! What another user of the host may do to who trusts him: for tests.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr;

use super::fork::Unforked;
use super::{answer, any_socket};

const PAGE_LEN: usize = 4096;
/// `UFFDIO_API` and `UFFDIO_REGISTER` with their structs, which are numbers of eight bytes.
const UFFDIO_API: libc::Ioctl = 0xc018_aa3f_u32 as libc::Ioctl;
const UFFDIO_REGISTER: libc::Ioctl = 0xc020_aa00_u32 as libc::Ioctl;
const MODE_MISSING: u64 = 1;

/// A page that holds up whoever touches it, as long as its process lives.
pub(crate) struct Trap {
    page: Unforked,
    faults: OwnedFd,
}

impl Trap {
    /// An error where the system has no such pages, or not for us.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = answer(
            unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_NONBLOCK) } as libc::c_int
        )?;
        // SAFETY: the kernel just made it, and nobody else has it.
        let faults = unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { libc::mmap(ptr::null_mut(), PAGE_LEN, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new mapping, nobody else's.
        let page = unsafe { Unforked::new(base, PAGE_LEN) }?;
        let mut api = [0xaa_u64, 0, 0];
        // SAFETY: the kernel reads and writes three numbers, which are ours.
        answer(unsafe { libc::ioctl(faults.as_raw_fd(), UFFDIO_API, api.as_mut_ptr()) })?;
        let mut register = [base.addr() as u64, PAGE_LEN as u64, MODE_MISSING, 0];
        // SAFETY: the kernel reads and writes four numbers, which are ours.
        answer(unsafe { libc::ioctl(faults.as_raw_fd(), UFFDIO_REGISTER, register.as_mut_ptr()) })?;
        Ok(Self { page, faults })
    }

    pub(crate) fn at(&self) -> u64 {
        self.page.base().as_ptr().expose_provenance() as u64
    }

    /// Waits until somebody touches the page, or standard input ends. Whether the former.
    pub(crate) fn is_touched(&self) -> bool {
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polls = [poll(self.faults.as_raw_fd()), poll(0)];
        // SAFETY: the kernel writes to two `pollfd`s, which are ours.
        unsafe { libc::poll(polls.as_mut_ptr(), 2, -1) };
        polls[0].revents != 0
    }
}

/// Makes this process, which root started, one of another user.
pub(crate) fn become_user(id: u32) -> io::Result<()> {
    // SAFETY: no pointers.
    answer(unsafe { libc::setgid(id) })?;
    // SAFETY: no pointers.
    answer(unsafe { libc::setuid(id) }).map(drop)
}

/// Makes `close` wait so many seconds for what was not sent yet.
pub(crate) fn linger(socket: &TcpStream, seconds: libc::c_int) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: seconds };
    any_socket::set_option(socket, libc::SOL_SOCKET, libc::SO_LINGER, &linger)
}
