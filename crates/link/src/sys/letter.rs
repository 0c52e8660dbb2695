//! What comes by the socket of an endpoint that shares memory: its bytes, its descriptors, and who sent it.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr;
use std::sync::Arc;

use super::answer_len;
use super::any_socket::SEND_FLAGS;
use super::gift::{Closer, Gift};
use super::shm::SocketName;
use super::socket::each_control;

/// Descriptors of one letter, at most: the kernel's `SCM_MAX_FD`.
pub(super) const GIFT_COUNT_MAX: usize = 253;
/// Room for credentials, each header rounded up.
const CREDENTIALS_LEN: usize = 16 + size_of::<libc::ucred>() + 4;
/// Bytes of a letter. Ours are shorter, and one that is cut off here is none.
const LETTER_LEN_MAX: usize = 32;

/// What came by the socket.
#[derive(Debug)]
pub(crate) struct Letter {
    /// From which socket, if that has an abstract name.
    pub(crate) from: Option<SocketName>,
    pub(crate) bytes: [u8; LETTER_LEN_MAX],
    pub(crate) len: usize,
    /// The descriptors that came along.
    pub(crate) gifts: Vec<Gift>,
    /// Process, user and group that sent it; process 0 if it is in no process namespace that we see.
    pub(crate) pid: libc::pid_t,
    pub(crate) uid: libc::uid_t,
    pub(crate) gid: libc::gid_t,
    /// Not all of its descriptors were taken.
    pub(super) is_cut: bool,
}

impl Letter {
    /// One without descriptors, from nobody.
    pub(crate) fn new(pid: libc::pid_t, uid: libc::uid_t, gid: libc::gid_t) -> Self {
        let bytes = [0; LETTER_LEN_MAX];
        Self { from: None, bytes, len: 0, gifts: Vec::new(), pid, uid, gid, is_cut: false }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Room for what comes with a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// A look: for no descriptors, and the letter stays.
    Look,
    /// For one descriptor and for one too many. What else there is the kernel closes in this call.
    Small,
    /// For all.
    All,
}

impl Room {
    fn len(self) -> usize {
        let count = match self {
            Self::Look => return CREDENTIALS_LEN,
            Self::Small => 2,
            Self::All => GIFT_COUNT_MAX,
        };
        CREDENTIALS_LEN + (16 + 4 * count).next_multiple_of(8)
    }
}

/// Wakes who sleeps on a socket of our own. What cannot be delivered need not be: there is something to read.
pub(super) fn knock_at(fd: &OwnedFd, own: &SocketName) {
    let (raw, len) = own.to_raw();
    let (at, flags) = ((&raw const raw).cast(), SEND_FLAGS);
    // SAFETY: the kernel reads one byte, and `len` bytes of `raw`.
    unsafe { libc::sendto(fd.as_raw_fd(), [b'K'].as_ptr().cast(), 1, flags, at, len) };
}

/// The next letter of a socket; `None` if there is none.
pub(super) fn read_letter(
    fd: &OwnedFd,
    room: Room,
    closer: &Arc<Closer>,
) -> io::Result<Option<Letter>> {
    let mut letter = Letter::new(0, libc::uid_t::MAX, libc::gid_t::MAX);
    // SAFETY: plain data; all zeros are a valid value.
    let mut raw: libc::sockaddr_un = unsafe { mem::zeroed() };
    let bytes = &mut letter.bytes;
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = [0_u64; (CREDENTIALS_LEN + 24 + 4 * GIFT_COUNT_MAX).div_ceil(8)];
    // SAFETY: plain data; all zeros are a valid value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = (&raw mut raw).cast();
    message.msg_namelen = size_of_val(&raw) as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = room.len().min(size_of_val(&control)) as _;
    let look = if room == Room::Look { libc::MSG_PEEK } else { 0 };
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC | look;
    // SAFETY: `message` names room that is ours and outlives the call, with no more than its true lengths.
    let got = answer_len(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags) });
    letter.len = match got {
        Ok(len) => len,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    };
    letter.from = SocketName::from_raw(&raw, message.msg_namelen);
    letter.is_cut = message.msg_flags & libc::MSG_CTRUNC != 0;
    each_control(&message, |level, kind, value| match (level, kind) {
        (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
            for bytes in value.chunks_exact(size_of::<libc::c_int>()) {
                let number = libc::c_int::from_ne_bytes(bytes.try_into().expect("four bytes"));
                // SAFETY: the kernel made this descriptor for us in this call, and nobody else has it.
                let fd = unsafe { OwnedFd::from_raw_fd(number) };
                letter.gifts.push(Gift::new(fd, closer));
            }
        }
        (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if value.len() >= size_of::<libc::ucred>() => {
            // SAFETY: enough bytes are there, and any bytes make this plain struct.
            let ucred: libc::ucred = unsafe { ptr::read_unaligned(value.as_ptr().cast()) };
            (letter.pid, letter.uid, letter.gid) = (ucred.pid, ucred.uid, ucred.gid);
        }
        _ => {}
    });
    Ok(Some(letter))
}
