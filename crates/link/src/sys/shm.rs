//! Memory and messages between processes of one host: what the system must do for `shm`.
//!
//! ```text
//!   Post       one abstract Unix datagram socket: letters with a descriptor and the sender's process
//!   Mapping    a ring's memory, sealed, in this process
//!   put_user   the application's memory ──▶ ring          land   ring ──▶ the application's memory
//!   read_from  another process's memory ──▶ the application's, and ours
//! ```

use std::io;
use std::mem::{self, MaybeUninit};
use std::ops::{Deref, Range};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;
use std::sync::Arc;

use super::any_socket::{self, ON, SEND_FLAGS};
use super::fork::Unforked;
use super::gift::{Closer, Gift};
#[cfg(test)]
use super::letter::GIFT_COUNT_MAX;
pub(crate) use super::letter::Letter;
use super::letter::{Room, read_letter};
use super::region::Region;
use super::taker::Takers;
use super::{answer, answer_len};
use crate::mem::{MemoryId, Table};
use crate::ring::{Block, Consumer, Record, Reserved};

/// Memory behind a descriptor cannot shrink under who has mapped it, and nobody can change that.
pub(crate) const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
/// Parts of one read, on each side. The kernel takes more (UIO_MAXIOV), but who has so many may have them copied.
const PART_COUNT_MAX: usize = 160;

/// The longest name of a socket that is of interest.
pub(crate) const NAME_LEN_MAX: usize = 64;

/// The name of an abstract socket, without the zero in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketName {
    bytes: [u8; NAME_LEN_MAX],
    len: usize,
}

impl SocketName {
    /// This name; cut off where it is too long.
    pub(crate) fn new(name: &[u8]) -> Self {
        let len = name.len().min(NAME_LEN_MAX);
        let mut bytes = [0; NAME_LEN_MAX];
        bytes[..len].copy_from_slice(&name[..len]);
        Self { bytes, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn to_raw(self) -> (libc::sockaddr_un, libc::socklen_t) {
        // SAFETY: plain data; all zeros are a valid value.
        let mut raw: libc::sockaddr_un = unsafe { mem::zeroed() };
        raw.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (to, &from) in raw.sun_path[1..].iter_mut().zip(self.bytes()) {
            *to = from as libc::c_char;
        }
        (raw, (PATH_AT + 1 + self.len) as libc::socklen_t)
    }

    pub(super) fn from_raw(raw: &libc::sockaddr_un, len: libc::socklen_t) -> Option<Self> {
        let path_len = (len as usize).checked_sub(PATH_AT)?.min(raw.sun_path.len());
        let is_unix = raw.sun_family == libc::AF_UNIX as libc::sa_family_t;
        if !is_unix || !(2..=NAME_LEN_MAX).contains(&path_len) || raw.sun_path[0] != 0 {
            return None;
        }
        let mut bytes = [0; NAME_LEN_MAX];
        for (to, &from) in bytes.iter_mut().zip(&raw.sun_path[1..path_len]) {
            *to = from as u8;
        }
        Some(Self { bytes, len: path_len - 1 })
    }
}

/// While so many gifts are not closed, or so many threads wait with letters of other users, no more descriptors are taken.
const UNCLOSED_COUNT_MAX: usize = 16;
const TAKER_COUNT_MAX: usize = 4;
/// And so many of both there are at most, with what was in the socket's queue by then (ten letters, unless the system was told otherwise). What
/// then waits in front of the queue waits there.
const OPEN_COUNT_MAX: usize = 32;
/// Whether a socket takes descriptors (Linux 6.16); `libc` does not have it.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Where in its struct the name of a socket starts.
const PATH_AT: usize = mem::offset_of!(libc::sockaddr_un, sun_path);

/// A Unix datagram socket with an abstract name.
#[derive(Debug)]
pub(crate) struct Post {
    fd: Arc<OwnedFd>,
    name: SocketName,
    /// Never bound: only to ask whether somebody is there.
    asker: OwnedFd,
    closer: Arc<Closer>,
    takers: Takers,
    takes_gifts: bool,
    /// Whose letters are taken with whatever they bring.
    trusted: libc::uid_t,
}

fn new_socket() -> io::Result<OwnedFd> {
    any_socket::open(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK)
}

impl Post {
    /// A new socket with this name.
    pub(crate) fn open(name: SocketName) -> io::Result<Self> {
        let fd = new_socket()?;
        let (raw, len) = name.to_raw();
        // SAFETY: the kernel reads `len` bytes of `raw`.
        answer(unsafe { libc::bind(fd.as_raw_fd(), (&raw const raw).cast(), len) })?;
        Self::new(fd, name)
    }

    /// Somebody else's socket; an error of kind `InvalidInput` if it is not of this kind.
    pub(crate) fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
        let kind = any_socket::option(&fd, libc::SOL_SOCKET, libc::SO_TYPE);
        let kind: libc::c_int = kind.map_err(|_| wrong())?;
        // SAFETY: plain data; all zeros are a valid value.
        let mut raw: libc::sockaddr_un = unsafe { mem::zeroed() };
        let mut len = size_of_val(&raw) as libc::socklen_t;
        let at = (&raw mut raw).cast();
        // SAFETY: the kernel writes at most `len` bytes to `raw`.
        answer(unsafe { libc::getsockname(fd.as_raw_fd(), at, &raw mut len) })
            .map_err(|_| wrong())?;
        let name = SocketName::from_raw(&raw, len).filter(|_| kind == libc::SOCK_DGRAM);
        let name = name.ok_or_else(wrong)?;
        any_socket::take_over(&fd)?;
        Self::new(fd, name)
    }

    fn new(fd: OwnedFd, name: SocketName) -> io::Result<Self> {
        any_socket::set_option(&fd, libc::SOL_SOCKET, libc::SO_PASSCRED, &ON)?;
        let (asker, closer, takers) = (new_socket()?, Arc::default(), Takers::new());
        let (fd, trusted) = (Arc::new(fd), own_uid());
        Ok(Self { fd, name, asker, closer, takers, takes_gifts: true, trusted })
    }

    /// Takes no descriptors while many of those before them cannot be closed: who offers a ring then is told by the kernel, and offers again. (Kernels before 6.16
    /// take them still.)
    pub(crate) fn mind_gifts(&mut self) {
        let takes_gifts = self.closer.unclosed_count() <= UNCLOSED_COUNT_MAX
            && self.takers.count() <= TAKER_COUNT_MAX;
        if takes_gifts != self.takes_gifts {
            self.takes_gifts = takes_gifts;
            let takes_gifts = libc::c_int::from(takes_gifts);
            let level = libc::SOL_SOCKET;
            let _ = any_socket::set_option(&self.fd, level, SO_PASSRIGHTS, &takes_gifts);
        }
    }

    pub(crate) fn name(&self) -> &SocketName {
        &self.name
    }

    /// Whether a socket has that name now. `ECONNREFUSED` is the usual error.
    pub(crate) fn ask(&self, name: &SocketName) -> io::Result<()> {
        let (raw, len) = name.to_raw();
        let fd = self.asker.as_raw_fd();
        // SAFETY: the kernel reads `len` bytes of `raw`.
        answer(unsafe { libc::connect(fd, (&raw const raw).cast(), len) }).map(drop)
    }

    /// Sends a letter, with a descriptor if there is one.
    pub(crate) fn send(
        &self,
        to: &SocketName,
        bytes: &[u8],
        fd: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        match fd {
            // Room for a header and one descriptor, aligned for the header.
            Some(fd) => self.send_with(to, bytes, &[fd], &mut [0; 4]),
            None => self.send_with(to, bytes, &[], &mut []),
        }
    }

    /// With as many copies of a descriptor as a letter can have.
    #[cfg(test)]
    pub(crate) fn send_many(
        &self,
        to: &SocketName,
        bytes: &[u8],
        fd: BorrowedFd<'_>,
    ) -> io::Result<()> {
        self.send_with(to, bytes, &[fd; GIFT_COUNT_MAX], &mut [0; GIFT_COUNT_MAX])
    }

    fn send_with(
        &self,
        to: &SocketName,
        bytes: &[u8],
        fds: &[BorrowedFd<'_>],
        control: &mut [u64],
    ) -> io::Result<()> {
        let (mut raw, name_len) = to.to_raw();
        let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
        // SAFETY: plain data; all zeros are a valid value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_name = (&raw mut raw).cast();
        message.msg_namelen = name_len;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if !fds.is_empty() {
            let fds_len = size_of_val(fds) as libc::c_uint;
            // SAFETY: computes, touches nothing.
            let len = unsafe { libc::CMSG_SPACE(fds_len) } as usize;
            assert!(len <= size_of_val(control));
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = len as _;
            // SAFETY: the control buffer is longer than a header and these descriptors (asserted), and aligned for it. A borrowed descriptor is its
            // number, and nothing else.
            unsafe {
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(fds_len) as _;
                let from = fds.as_ptr().cast::<u8>();
                ptr::copy_nonoverlapping(from, libc::CMSG_DATA(header), size_of_val(fds));
            }
        }
        // SAFETY: `message` names `raw`, `bytes` and `control` with their true lengths; all outlive the call.
        answer_len(unsafe { libc::sendmsg(self.fd.as_raw_fd(), &raw const message, SEND_FLAGS) })
            .map(drop)
    }

    /// The next letter; `None` if there is none, or none yet.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Letter>> {
        if let Some(letter) = self.takers.bring() {
            return Ok(Some(letter));
        }
        let is_anybody_out = self.takers.count() > 0;
        if is_anybody_out && !self.takers.is_late() {
            return Ok(None);
        }
        let Some(seen) = read_letter(&self.fd, Room::Look, &self.closer)? else { return Ok(None) };
        if !is_anybody_out && (!seen.is_cut || seen.uid == self.trusted) {
            return read_letter(&self.fd, Room::All, &self.closer);
        }
        if self.open_count() < OPEN_COUNT_MAX {
            self.takers.send(&self.fd, self.name, &self.closer);
        }
        Ok(None)
    }

    /// Descriptors that wait to be closed, and letters of other users that wait for theirs.
    pub(crate) fn open_count(&self) -> usize {
        self.closer.unclosed_count() + self.takers.count()
    }

    /// From now on letters of this process come from another user.
    #[cfg(test)]
    pub(crate) fn distrust(&mut self) {
        self.trusted = !own_uid();
    }
}

impl AsFd for Post {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The user this process is.
pub(crate) fn own_uid() -> u32 {
    // SAFETY: no pointers; never fails.
    unsafe { libc::geteuid() }
}

/// The group this process is.
pub(crate) fn own_gid() -> u32 {
    // SAFETY: no pointers; never fails.
    unsafe { libc::getegid() }
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    const { assert!(N <= 256, "more may be cut off") };
    let mut bytes = [0; N];
    // SAFETY: the kernel writes at most `N` bytes to `bytes`.
    let len = answer_len(unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) })?;
    if len < N { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}

/// A ring's memory in this process.
#[derive(Debug)]
pub(crate) struct Mapping {
    block: Block,
    _pages: Unforked,
}

// SAFETY: a `Mapping` owns its place in the address space, which belongs to no thread.
unsafe impl Send for Mapping {}

impl Deref for Mapping {
    type Target = Block;

    #[inline]
    fn deref(&self) -> &Block {
        &self.block
    }
}

/// Memory without a name, with these seals.
pub(crate) fn new_memory(len: usize, seals: libc::c_int) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the kernel reads a string that ends with a zero.
    let fd = answer(unsafe { libc::memfd_create(c"packhorse".as_ptr(), flags) })?;
    // SAFETY: the kernel just made it, and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) };
    // SAFETY: no pointers.
    answer(unsafe { libc::ftruncate(fd.as_raw_fd(), len as libc::off_t) })?;
    // SAFETY: no pointers.
    answer(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
    Ok(fd)
}

impl Mapping {
    /// New memory without a name, sealed, and its descriptor, to be given to whom it is shared with.
    pub(crate) fn create(len: usize) -> io::Result<(Self, OwnedFd)> {
        let fd = new_memory(len, SEALS)?;
        let mapping = Self::new(&fd, len)?;
        Ok((mapping, fd))
    }

    /// Memory that another process made. It must be sealed, of this length, and not of a kind that can run out of
    /// pages when it is touched.
    pub(crate) fn of_stranger(fd: Gift, len: usize) -> io::Result<Self> {
        let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        // SAFETY: no pointers.
        let seals = answer(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) })?;
        if seals as libc::c_int & SEALS != SEALS {
            return refuse("not sealed");
        }
        // SAFETY: plain data; all zeros are a valid value.
        let mut stat: libc::stat = unsafe { mem::zeroed() };
        // SAFETY: the kernel writes to `stat`, which is ours.
        answer(unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) })?;
        if usize::try_from(stat.st_size) != Ok(len) {
            return refuse("of another length");
        }
        // SAFETY: plain data; all zeros are a valid value.
        let mut system: libc::statfs = unsafe { mem::zeroed() };
        // SAFETY: the kernel writes to `system`, which is ours.
        answer(unsafe { libc::fstatfs(fd.as_raw_fd(), &raw mut system) })?;
        if system.f_type != libc::TMPFS_MAGIC {
            return refuse("in huge pages");
        }
        // Memory it is: closing it takes no time.
        Self::new(&fd.open(), len)
    }

    fn new(fd: &OwnedFd, len: usize) -> io::Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base =
            unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, fd.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new mapping, nobody else's.
        let pages = unsafe { Unforked::new(base, len) }?;
        // SAFETY: `len` bytes from the base on are mapped until `drop`, initialised (pages of a file are) and aligned to a
        // page. They cannot shrink: the file is sealed.
        let block = unsafe { Block::new(pages.base(), len) };
        Ok(Self { block, _pages: pages })
    }

    /// The writing end of a ring that was just created.
    pub(crate) fn into_producer(self) -> crate::ring::Producer<Self> {
        // SAFETY: the memory is new, and this mapping of it, which is consumed, is the only one that is written to as a
        // producer. The reader has a mapping of its own; where it is in this process, that is another place in memory.
        unsafe { crate::ring::Producer::new(self) }
    }

    /// The reading end of a ring of another process.
    pub(crate) fn into_consumer(self) -> Consumer<Self> {
        // SAFETY: as for `into_producer`.
        unsafe { Consumer::new(self) }
    }
}

/// Appends the application's memory to a record; false, if name or range is void, with nothing or less than all appended.
#[inline]
pub(crate) fn put_user<S>(
    slot: &mut Reserved<'_, S>,
    memory: &Table,
    id: MemoryId,
    offset: u64,
    len: u32,
) -> bool
where
    S: Deref<Target: crate::ring::Lines>,
{
    let Some(lent) = memory.get(id) else { return false };
    lent.for_each(offset, len.into(), |part| {
        // SAFETY: `part` is inside memory this table holds, readable as long as it does.
        unsafe { slot.put_raw(part.ptr(), part.len()) };
    })
}

/// Copies bytes of a record to the application's memory; false, with nothing copied, if there is no such place.
pub(crate) fn land(
    record: &Record<'_, Mapping>,
    at: usize,
    memory: &mut Table,
    id: MemoryId,
    range: Range<u64>,
) -> bool {
    memory.note_written();
    let Some(lent) = memory.get(id).filter(|lent| lent.is_writable()) else { return false };
    let mut at = at;
    lent.for_each(range.start, range.end - range.start, |part| {
        // SAFETY: `part` is inside memory this table holds and may write (checked above), and the table is borrowed by us
        // alone.
        unsafe { record.copy_raw(at, part.ptr(), part.len()) };
        at += part.len();
    })
}

/// Where what is read from another process goes, in this order.
#[derive(Debug, Default)]
pub(crate) struct Places<'a> {
    /// The application's memory: which, and the range in it.
    pub(crate) user: Option<(MemoryId, Range<u64>)>,
    /// Ranges of our own; they must not overlap.
    pub(crate) own: &'a [Range<usize>],
    /// A word of its owner's, read behind all bytes, and what it must be: they were lent still when they were read. Nobody else has such a word, so it
    /// stands for the proof.
    pub(crate) still: Option<(u64, u64)>,
}

/// A process whose memory is read, and what shows that it is the right one: bytes of our making in a ring that it has, at the place where it says
/// that it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) pid: libc::pid_t,
    pub(crate) proof_at: u64,
    pub(crate) proof: [u8; 16],
}

/// Places for the kernel, without an allocation. Those beyond `count` are not written to: zeros for all of them took a tenth of a microsecond.
struct Parts {
    parts: [MaybeUninit<libc::iovec>; PART_COUNT_MAX],
    count: usize,
    /// Bytes in all.
    len: usize,
    /// There were more than fit.
    is_over: bool,
}

impl Parts {
    fn new() -> Self {
        let parts = [const { MaybeUninit::uninit() }; PART_COUNT_MAX];
        Self { parts, count: 0, len: 0, is_over: false }
    }

    fn push(&mut self, iov_base: *mut libc::c_void, iov_len: usize) {
        let len = self.len.checked_add(iov_len);
        match (self.parts.get_mut(self.count), len) {
            (Some(part), Some(len)) => {
                part.write(libc::iovec { iov_base, iov_len });
                (self.count, self.len) = (self.count + 1, len);
            }
            _ => self.is_over = true,
        }
    }
}

/// Reads ranges (address, length) of another process's memory, all or nothing, in one call.
///
/// The proof is read by the same call, which looks the address space up once: if it is right, so was the process for all of it,
/// whatever became of its number before or after; and another program in the same process has not got the ring. (A descriptor of the process says less, for
/// it stays when the program becomes another one.) An error of kind `InvalidData` says that it was wrong or not there. Where a word is read that is its
/// owner's alone, that shows the same, and the proof is not read: each range costs a quarter of a microsecond.
pub(crate) fn read_from(
    source: &Source,
    from: &[(u64, u64)],
    places: &Places<'_>,
    memory: &mut Table,
    room: &mut Region,
) -> io::Result<()> {
    let (mut seen, mut word) = ([0_u8; 16], [0_u8; 8]);
    let (mut local, mut remote) = (Parts::new(), Parts::new());
    let wants_proof = places.still.is_none();
    if wants_proof {
        local.push(seen.as_mut_ptr().cast(), seen.len());
        remote.push(ptr::without_provenance_mut(source.proof_at as usize), seen.len());
    }
    if let Some((id, range)) = &places.user {
        memory.note_written();
        let lent = memory.get(*id).filter(|lent| lent.is_writable());
        let is_inside = lent.is_some_and(|lent| {
            let len = range.end - range.start;
            lent.for_each(range.start, len, |part| local.push(part.ptr().cast(), part.len()))
        });
        if !is_inside {
            return Err(io::ErrorKind::NotFound.into());
        }
    }
    for range in places.own {
        local.push(room.ptr_at(range.start, range.len()), range.len());
    }
    for &(at, len) in from {
        remote.push(ptr::without_provenance_mut(at as usize), len as usize);
    }
    if let Some((at, _)) = places.still {
        local.push(word.as_mut_ptr().cast(), word.len());
        remote.push(ptr::without_provenance_mut(at as usize), word.len());
    }
    if local.is_over || remote.is_over || local.len != remote.len {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let wanted_len = remote.len;
    let (local_at, local_count) = (local.parts.as_ptr().cast(), local.count as libc::c_ulong);
    let (remote_at, remote_count) = (remote.parts.as_ptr().cast(), remote.count as libc::c_ulong);
    // SAFETY: both lists are written up to their count. The local parts are `seen` and `word`, places in memory of the table, which `memory` borrows and lets us write, and ranges
    // of `room`, which we borrow alone. The remote parts are addresses in another process, which the kernel checks.
    let read = answer_len(unsafe {
        libc::process_vm_readv(source.pid, local_at, local_count, remote_at, remote_count, 0)
    });
    let len = match read {
        Ok(len) => len,
        // Nothing at all could be read.
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => 0,
        Err(error) => return Err(error),
    };
    if wants_proof && (len < seen.len() || seen != source.proof) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let is_lent = places.still.is_none_or(|(_, name)| u64::from_ne_bytes(word) == name);
    if len < wanted_len || !is_lent { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Whether a process has ended. Also of one that nobody has waited for, whose number is still its own.
pub(crate) fn is_over(pid: libc::pid_t) -> bool {
    // SAFETY: no pointers.
    let opened =
        answer_len(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::ssize_t);
    let Ok(number) = opened else {
        // There is none of this number; or the system does not tell, and then the number has to do.
        // SAFETY: no pointers; signal 0 is none.
        let asked = answer(unsafe { libc::kill(pid, 0) });
        return asked.is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH));
    };
    // SAFETY: the kernel just made it, and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(number as libc::c_int) };
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel writes to one `pollfd`, which is ours.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

/// Forbids this thread for good, and the threads and programs it starts, to read other processes' memory, as the filters of
/// containers do: for tests and measurements.
///
/// # Errors
/// What the system says; there are kernels without filters.
pub fn forbid_reading() -> io::Result<()> {
    let code =
        |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let is_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let end = libc::BPF_RET | libc::BPF_K;
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = [
        code(load, 0, 0, 0), // the number of the call
        code(is_equal, libc::SYS_process_vm_readv as u32, 0, 1),
        code(end, refuse, 0, 0),
        code(end, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: no pointers.
    answer(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    let at = &raw const program;
    // SAFETY: the kernel reads `program` and the filter it names, which outlive the call.
    answer(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, at) }).map(drop)
}

/// Whether a descriptor is readable now, or becomes so.
#[cfg(test)]
pub(crate) fn is_readable(fd: BorrowedFd<'_>, patience_ms: libc::c_int) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel writes to one `pollfd`, which is ours.
    unsafe { libc::poll(&raw mut poll, 1, patience_ms) == 1 }
}
