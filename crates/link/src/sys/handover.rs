//! Descriptors from one process to another (SCM_RIGHTS), with a text that says what they are.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;

use super::answer_len;
use super::socket::each_control;

/// Descriptors the kernel passes in one message.
const FD_COUNT_MAX: usize = 253;
/// The longest text.
const TEXT_LEN_MAX: usize = 16 << 10;
/// Room for so many descriptors and the head of the control message, in words that are aligned for it.
const CONTROL_COUNT: usize = (FD_COUNT_MAX * size_of::<RawFd>() + 64) / size_of::<u64>();

/// Sends a text and copies of descriptors to a connected socket.
///
/// # Errors
/// What the system says; `InvalidInput` if it is more than one message takes.
pub fn give(socket: &UnixDatagram, text: &str, fds: &[OwnedFd]) -> io::Result<()> {
    if fds.len() > FD_COUNT_MAX || text.is_empty() || text.len() > TEXT_LEN_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let raw: Vec<RawFd> = fds.iter().map(|fd| fd.as_fd().as_raw_fd()).collect();
    let raw_len = size_of_val(&raw[..]);
    let mut control = [0_u64; CONTROL_COUNT];
    let mut part = libc::iovec { iov_base: text.as_ptr() as *mut _, iov_len: text.len() };
    // SAFETY: `msghdr` is plain data; all zeros are a valid value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if !raw.is_empty() {
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: computes, touches nothing.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(raw_len as u32) } as _;
        // SAFETY: the control buffer is ours, aligned, and longer than head and descriptors.
        unsafe {
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(raw_len as u32) as _;
            std::ptr::copy_nonoverlapping(raw.as_ptr().cast(), libc::CMSG_DATA(head), raw_len);
        }
    }
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `message` names `text`, which is only read, and `control`, with their true lengths.
    let sent = answer_len(unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL) })?;
    if sent == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives what `give` sent.
///
/// # Errors
/// What the system says; `InvalidData` if it was cut off or is no text.
pub fn take(socket: &UnixDatagram) -> io::Result<(String, Vec<OwnedFd>)> {
    let (mut bytes, mut control) = (vec![0_u8; TEXT_LEN_MAX], [0_u64; CONTROL_COUNT]);
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: `msghdr` is plain data; all zeros are a valid value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `message` names room that is ours and outlives the call, with its true lengths.
    let len = answer_len(unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_CMSG_CLOEXEC) })?;
    let mut fds = Vec::new();
    each_control(&message, |level, kind, value| {
        if (level, kind) != (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            return;
        }
        for bytes in value.chunks_exact(size_of::<RawFd>()) {
            let number = RawFd::from_ne_bytes(bytes.try_into().expect("as long as a number"));
            // SAFETY: the kernel made this descriptor for us with the message, and says so once.
            fds.push(unsafe { OwnedFd::from_raw_fd(number) });
        }
    });
    bytes.truncate(len);
    let is_cut = message.msg_flags & (libc::MSG_CTRUNC | libc::MSG_TRUNC) != 0;
    match String::from_utf8(bytes) {
        Ok(text) if !is_cut => Ok((text, fds)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn descriptors_arrive_in_order_with_their_text() {
        let (a, b) = UnixDatagram::pair().unwrap();
        let pipes: Vec<_> = (0..3).map(|_| io::pipe().unwrap()).collect();
        let (readers, writers): (Vec<_>, Vec<_>) = pipes.into_iter().unzip();
        let fds: Vec<OwnedFd> = writers.into_iter().map(OwnedFd::from).collect();
        give(&a, "three", &fds).unwrap();
        drop(fds);
        let (text, fds) = take(&b).unwrap();
        assert_eq!((text.as_str(), fds.len()), ("three", 3));
        for (number, fd) in (0..).zip(fds) {
            std::fs::File::from(fd).write_all(&[number]).unwrap();
        }
        for (number, mut reader) in (0..).zip(readers) {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, [number]);
        }
        give(&a, "none", &[]).unwrap();
        assert_eq!(take(&b).unwrap().1.len(), 0);
        assert!(give(&a, "", &[]).is_err());
    }
}
