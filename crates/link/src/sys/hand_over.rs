//! Descriptors from one process to another, over a Unix socket (SCM_RIGHTS): so that one with rights can open links for one
//! without.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use super::answer_len;
use super::socket::each_control;

const FD_LEN: u32 = size_of::<RawFd>() as u32;

/// Room for a control message with one descriptor, aligned as its header must be.
#[repr(C, align(8))]
struct Control([u8; CONTROL_LEN]);

const CONTROL_LEN: usize = {
    // SAFETY: computes, touches nothing.
    (unsafe { libc::CMSG_SPACE(FD_LEN) }) as usize
};

/// Gives a copy of the descriptor to whoever takes it at the other end.
///
/// # Errors
/// What the system says about the socket.
pub fn give(to: &UnixStream, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut control = Control([0; CONTROL_LEN]);
    // A descriptor rides on at least one byte.
    let mut byte = [0_u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let message = message(&mut part, &mut control);
    // SAFETY: the control buffer is aligned and has room for a header and a descriptor, all of which stays inside it.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(FD_LEN) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd.as_raw_fd());
    }
    let socket = to.as_raw_fd();
    // SAFETY: `message` names `byte` and `control`, with their true lengths, which outlive the call.
    answer_len(unsafe { libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL) }).map(drop)
}

/// Waits for a descriptor and takes it.
///
/// # Errors
/// `UnexpectedEof` if the other end is gone, `InvalidData` if something else came, and what the system says.
pub fn take(from: &UnixStream) -> io::Result<OwnedFd> {
    let mut control = Control([0; CONTROL_LEN]);
    let mut byte = [0_u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut message = message(&mut part, &mut control);
    let (socket, flags) = (from.as_raw_fd(), libc::MSG_CMSG_CLOEXEC);
    // SAFETY: `message` names `byte` and `control`, with their true lengths, which outlive the call.
    let len = answer_len(unsafe { libc::recvmsg(socket, &raw mut message, flags) })?;
    let mut found = None;
    each_control(&message, |level, kind, value| {
        if let (libc::SOL_SOCKET, libc::SCM_RIGHTS, Some(bytes)) =
            (level, kind, value.first_chunk())
        {
            // SAFETY: the kernel made this descriptor for us, and nobody else knows it.
            found = Some(unsafe { OwnedFd::from_raw_fd(RawFd::from_ne_bytes(*bytes)) });
        }
    });
    let missing = if len == 0 { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData };
    found.ok_or_else(|| missing.into())
}

fn message(part: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: `msghdr` is plain data; all zeros are a valid value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_LEN as _;
    message
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_descriptor_arrives_as_one_of_the_same_thing() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        give(&near, writer.as_fd()).unwrap();
        drop(writer);
        let mut taken = File::from(take(&far).unwrap());
        taken.write_all(b"through it").unwrap();
        drop(taken);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through it");
    }

    #[test]
    fn what_is_no_descriptor_is_an_error() {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"x").unwrap();
        assert_eq!(take(&far).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(near);
        assert_eq!(take(&far).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
