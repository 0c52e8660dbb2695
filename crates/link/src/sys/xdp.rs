//! AF_XDP sockets and the rings they share with the kernel.
//!
//! ```text
//!   opener                                       user (may be another process, without rights)
//!   Xsk::open ─ register ─ set_rings ──fd──▶ Xsk::from_fd ─ map_rings ─ bind
//! ```
//!
//! The kernel maps rings only for a socket that is not bound yet, so whoever uses the rings is the one who binds; that
//! needs no rights. Which frame of the memory is whose, is the business of `umem`: a ring moves numbers.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use super::fork::Unforked;
use super::{Plain, answer, answer_len, any_socket};

/// The packet goes on in the next descriptor.
pub(crate) const CONTINUED: u32 = libc::XDP_PKT_CONTD;

/// Memory that is shared with the kernel, and perhaps with another process.
#[derive(Debug)]
pub(crate) struct Mapping(Unforked);

// SAFETY: a `Mapping` owns its pages, which belong to no thread.
unsafe impl Send for Mapping {}

impl Mapping {
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let offset = offset as libc::off_t;
        let fd = fd.as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new mapping, nobody else's.
        Ok(Self(unsafe { Unforked::new(base, len) }?))
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.0.base()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Pages without a name that other processes can be given: cannot shrink under whoever maps them.
pub(crate) fn shared_memory(len: u64) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: reads the name, a string that ends with a zero.
    let fd = answer(unsafe { libc::memfd_create(c"packhorse-xdp".as_ptr(), flags) })?;
    // SAFETY: the descriptor is new and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    // SAFETY: changes the length of our own file, touches no memory.
    answer(unsafe { libc::ftruncate(fd.as_raw_fd(), len as libc::off_t) })?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: changes our own file, touches no memory.
    answer(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
    Ok(fd)
}

/// Whether the memory is of this length at least, and will stay so: else reading it could end the process.
pub(crate) fn is_shared_memory(fd: BorrowedFd<'_>, len: u64) -> bool {
    // SAFETY: asks about a descriptor, touches no memory.
    let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
    // SAFETY: asks about a descriptor, touches no memory.
    let end = unsafe { libc::lseek(fd.as_raw_fd(), 0, libc::SEEK_END) };
    seals >= 0 && seals & libc::F_SEAL_SHRINK != 0 && u64::try_from(end).is_ok_and(|end| end >= len)
}

/// A descriptor of the receive and transmit rings, as the kernel has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Descriptor {
    /// From the start of the memory.
    pub(crate) addr: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// `CONTINUED` or nothing.
    pub(crate) options: u32,
}

// SAFETY: numbers.
unsafe impl Plain for Descriptor {}

/// A ring shared with the kernel: entries and two counts that only grow. One side writes the one, the other the other.
#[derive(Debug)]
struct Ring<T> {
    /// Keeps the pages.
    _map: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    /// A power of two.
    size: u32,
}

// SAFETY: the pointers lead into the mapping that the ring owns; all use of them is through `&self` on atomics or
// through `&mut self`.
unsafe impl<T: Plain> Send for Ring<T> {}

impl<T: Plain> Ring<T> {
    fn map(fd: BorrowedFd<'_>, at: u64, size: u32, offsets: Offsets) -> io::Result<Self> {
        let len = offsets.entries as usize + size as usize * size_of::<T>();
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        let inside = |at: u64| at.is_multiple_of(4) && at as usize + 4 <= len;
        let counts = [offsets.producer, offsets.consumer, offsets.flags];
        let is_sound = size.is_power_of_two() && offsets.entries.is_multiple_of(8);
        if !is_sound || !counts.into_iter().all(inside) {
            return Err(bad());
        }
        let map = Mapping::new(fd, at, len)?;
        let base = map.base();
        // SAFETY: all four offsets are inside the mapping (checked above, and by how long it was made).
        let (producer, consumer, flags, entries) = unsafe {
            (
                base.add(offsets.producer as usize).cast(),
                base.add(offsets.consumer as usize).cast(),
                base.add(offsets.flags as usize).cast(),
                base.add(offsets.entries as usize).cast(),
            )
        };
        Ok(Self { _map: map, producer, consumer, flags, entries, size })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping, aligned (checked in `map`), and shared as an atomic by all who use it.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    /// Whether the kernel sleeps and wants to be called. Relaxed: missed once, it is seen at the next call.
    fn wants_call(&self) -> bool {
        // SAFETY: as for `producer`.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn entry(&self, count: u32) -> *mut T {
        // SAFETY: the remainder is less than `size`, and so many entries are in the mapping.
        unsafe { self.entries.as_ptr().add((count & (self.size - 1)) as usize) }
    }
}

/// A ring that we fill.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    ring: Ring<T>,
    /// Entries written, published or not.
    written: u32,
    /// Of these, how many the kernel had taken when we last looked.
    taken: u32,
}

impl<T: Plain> Producer<T> {
    fn new(ring: Ring<T>) -> Self {
        let written = ring.producer().load(Ordering::Relaxed);
        let taken = ring.consumer().load(Ordering::Relaxed);
        Self { ring, written, taken }
    }

    /// Writes an entry; `publish` shows it. False if there is no room.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> bool {
        if self.written.wrapping_sub(self.taken) >= self.ring.size {
            // Acquire: what the kernel did with the entry happened before it counted it, and before we write it again.
            self.taken = self.ring.consumer().load(Ordering::Acquire);
            if self.written.wrapping_sub(self.taken) >= self.ring.size {
                return false; // full; or a count that makes no sense, which gets no more entries
            }
        }
        // SAFETY: inside the ring; between the counts it is ours to write.
        unsafe { self.ring.entry(self.written).write(value) };
        self.written = self.written.wrapping_add(1);
        true
    }

    /// Shows the kernel what was written.
    #[inline]
    pub(crate) fn publish(&self) {
        // Release: entries, and the bytes of the frames they name, are written before they are counted.
        self.ring.producer().store(self.written, Ordering::Release);
    }

    /// Entries that the kernel has not taken yet.
    pub(crate) fn waiting(&mut self) -> u32 {
        self.taken = self.ring.consumer().load(Ordering::Acquire); // as in `push`
        self.written.wrapping_sub(self.taken)
    }

    pub(crate) fn wants_call(&self) -> bool {
        self.ring.wants_call()
    }
}

/// A ring that the kernel fills.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    ring: Ring<T>,
    /// Entries read, given back or not.
    read: u32,
    /// Entries that were there when we last looked.
    there: u32,
}

impl<T: Plain> Consumer<T> {
    fn new(ring: Ring<T>) -> Self {
        let read = ring.consumer().load(Ordering::Relaxed);
        Self { ring, read, there: read }
    }

    /// The next entry; `release` gives its room back.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.read == self.there {
            // Acquire: entries, and the bytes of the frames they name, were written before they were counted.
            let there = self.ring.producer().load(Ordering::Acquire);
            if there.wrapping_sub(self.read) > self.ring.size {
                return None; // more than the ring holds: not a count
            }
            self.there = there;
            if self.read == self.there {
                return None;
            }
        }
        // SAFETY: inside the ring; any bytes make a `Plain`, and the kernel writes it again only after `release`.
        let value = unsafe { self.ring.entry(self.read).read() };
        self.read = self.read.wrapping_add(1);
        Some(value)
    }

    /// Gives the room of what was read back to the kernel.
    #[inline]
    pub(crate) fn release(&self) {
        // Release: entries were read before they are counted as free.
        self.ring.consumer().store(self.read, Ordering::Release);
    }
}

/// The four rings of a socket.
#[derive(Debug)]
pub(crate) struct Rings {
    /// Frames for the kernel to receive into.
    pub(crate) fill: Producer<u64>,
    /// Frames that were sent.
    pub(crate) completion: Consumer<u64>,
    /// Frames that arrived.
    pub(crate) rx: Consumer<Descriptor>,
    /// Frames to send.
    pub(crate) tx: Producer<Descriptor>,
}

/// How many entries the rings have: powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingSizes {
    /// Receive and fill.
    pub(crate) rx: u32,
    /// Transmit and completion.
    pub(crate) tx: u32,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Offsets {
    producer: u64,
    consumer: u64,
    entries: u64,
    flags: u64,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct AllOffsets {
    rx: Offsets,
    tx: Offsets,
    fill: Offsets,
    completion: Offsets,
}

// SAFETY: numbers.
unsafe impl Plain for AllOffsets {}

/// What the kernel counts.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Statistics {
    pub(crate) rx_dropped: u64,
    pub(crate) rx_invalid: u64,
    pub(crate) tx_invalid: u64,
    pub(crate) rx_ring_full: u64,
    pub(crate) fill_empty: u64,
    pub(crate) tx_empty: u64,
}

// SAFETY: numbers.
unsafe impl Plain for Statistics {}

/// How a socket is bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) interface: u32,
    pub(crate) queue: u32,
    pub(crate) is_zerocopy: bool,
    /// Packets in several frames.
    pub(crate) is_scattered: bool,
}

/// An AF_XDP socket.
#[derive(Debug)]
pub(crate) struct Xsk {
    fd: OwnedFd,
}

impl Xsk {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self { fd: any_socket::open(libc::AF_XDP, libc::SOCK_RAW)? })
    }

    /// A socket that somebody else opened; `InvalidInput` if it is of another family.
    pub(crate) fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let socket = Self { fd };
        let domain: libc::c_int = any_socket::option(&socket, libc::SOL_SOCKET, libc::SO_DOMAIN)?;
        if domain != libc::AF_XDP {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(socket)
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Gives the kernel the memory that frames live in. Its pages stay pinned while the socket is open; the mapping may go.
    pub(crate) fn register(&self, memory: &Mapping, frame_len: u32) -> io::Result<()> {
        #[repr(C)]
        struct Registration {
            addr: u64,
            len: u64,
            chunk_size: u32,
            headroom: u32,
            flags: u32,
            /// Unknown to kernels before 6.8, which do not look at it.
            tx_metadata_len: u32,
        }
        let registration = Registration {
            addr: memory.base().as_ptr() as u64,
            len: memory.len() as u64,
            chunk_size: frame_len,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        any_socket::set_option(self, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
    }

    pub(crate) fn set_rings(&self, sizes: RingSizes) -> io::Result<()> {
        any_socket::set_option(self, libc::SOL_XDP, libc::XDP_UMEM_FILL_RING, &sizes.rx)?;
        any_socket::set_option(self, libc::SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, &sizes.tx)?;
        any_socket::set_option(self, libc::SOL_XDP, libc::XDP_RX_RING, &sizes.rx)?;
        any_socket::set_option(self, libc::SOL_XDP, libc::XDP_TX_RING, &sizes.tx)
    }

    /// Only before it is bound; `sizes` as given to `set_rings`.
    pub(crate) fn map_rings(&self, sizes: RingSizes) -> io::Result<Rings> {
        let all: AllOffsets = any_socket::option(self, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let fd = self.fd.as_fd();
        let (fill_at, completion_at) =
            (libc::XDP_UMEM_PGOFF_FILL_RING, libc::XDP_UMEM_PGOFF_COMPLETION_RING);
        let (rx_at, tx_at) = (libc::XDP_PGOFF_RX_RING as u64, libc::XDP_PGOFF_TX_RING as u64);
        Ok(Rings {
            fill: Producer::new(Ring::map(fd, fill_at, sizes.rx, all.fill)?),
            completion: Consumer::new(Ring::map(fd, completion_at, sizes.tx, all.completion)?),
            rx: Consumer::new(Ring::map(fd, rx_at, sizes.rx, all.rx)?),
            tx: Producer::new(Ring::map(fd, tx_at, sizes.tx, all.tx)?),
        })
    }

    pub(crate) fn bind(&self, binding: Binding) -> io::Result<()> {
        let copying = if binding.is_zerocopy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
        let scattered = if binding.is_scattered { libc::XDP_USE_SG } else { 0 };
        let name = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as libc::sa_family_t,
            sxdp_flags: copying | scattered | libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: binding.interface,
            sxdp_queue_id: binding.queue,
            sxdp_shared_umem_fd: 0,
        };
        let len = size_of_val(&name) as libc::socklen_t;
        // SAFETY: pointer and length are those of `name`, which outlives the call.
        answer(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const name).cast(), len) }).map(drop)
    }

    /// The kernel may hold so many bytes of ours on their way out; less where we have no right to ask for more.
    pub(crate) fn set_send_buffer(&self, len: usize) -> io::Result<()> {
        any_socket::set_send_buffer(self, len, true).map(drop)
    }

    /// One call sends so many packets; kernels before 6.17 send 32, whatever they are told.
    pub(crate) fn set_call_budget(&self, packet_count: u32) {
        const MAX_TX_SKB_BUDGET: libc::c_int = 9;
        let _ = any_socket::set_option(self, libc::SOL_XDP, MAX_TX_SKB_BUDGET, &packet_count);
    }

    /// The driver is polled by our own calls, for so long and so many packets in each.
    pub(crate) fn set_busy_poll(&self, time_us: u32, packet_count: u32) -> io::Result<()> {
        let one: libc::c_int = 1;
        any_socket::set_option(self, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &one)?;
        any_socket::set_option(self, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &time_us)?;
        any_socket::set_option(self, libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, &packet_count)
    }

    pub(crate) fn is_zerocopy(&self) -> io::Result<bool> {
        let options: u32 = any_socket::option(self, libc::SOL_XDP, libc::XDP_OPTIONS)?;
        Ok(options & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    pub(crate) fn statistics(&self) -> io::Result<Statistics> {
        any_socket::option(self, libc::SOL_XDP, libc::XDP_STATISTICS)
    }

    /// Has the kernel send what is in the transmit ring.
    #[inline]
    pub(crate) fn call_to_send(&self) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: no bytes and no address are given.
        let result =
            unsafe { libc::sendto(fd, ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
        answer_len(result).map(drop)
    }

    /// Has the kernel look for packets and for frames in the fill ring.
    #[inline]
    pub(crate) fn call_to_receive(&self) -> io::Result<()> {
        let (fd, none) = (self.fd.as_raw_fd(), ptr::null_mut());
        // SAFETY: no room is given and none is written.
        let result = unsafe {
            libc::recvfrom(fd, none, 0, libc::MSG_DONTWAIT, ptr::null_mut(), ptr::null_mut())
        };
        answer_len(result).map(drop)
    }
}

impl AsFd for Xsk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// One descriptor that is readable while any of these is.
pub(crate) fn any_of<'fd>(fds: impl Iterator<Item = BorrowedFd<'fd>>) -> io::Result<OwnedFd> {
    // SAFETY: creates a descriptor, touches no memory.
    let fd = answer(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the descriptor is new and nobody else's.
    let all = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    for fd in fds {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        let (epoll, add) = (all.as_raw_fd(), libc::EPOLL_CTL_ADD);
        // SAFETY: the kernel reads `event`, which outlives the call.
        answer(unsafe { libc::epoll_ctl(epoll, add, fd.as_raw_fd(), &raw mut event) })?;
    }
    Ok(all)
}

/// Both ends of four rings in memory of our own: a kernel that tests can be.
#[cfg(test)]
pub(crate) mod pretended {
    use super::*;

    /// The kernel's ends.
    pub(crate) struct Kernel {
        pub(crate) fill: Consumer<u64>,
        pub(crate) completion: Producer<u64>,
        pub(crate) rx: Producer<Descriptor>,
        pub(crate) tx: Consumer<Descriptor>,
    }

    pub(crate) fn rings(sizes: RingSizes) -> (Rings, Kernel) {
        const APART: u64 = 1 << 16;
        let memory = shared_memory(4 * APART).unwrap();
        let offsets = Offsets { producer: 0, consumer: 64, flags: 128, entries: 192 };
        let place = |number: u64| (memory.as_fd(), number * APART);
        fn map<T: Plain>(place: (BorrowedFd<'_>, u64), size: u32, offsets: Offsets) -> Ring<T> {
            Ring::map(place.0, place.1, size, offsets).unwrap()
        }
        let rings = Rings {
            fill: Producer::new(map(place(0), sizes.rx, offsets)),
            completion: Consumer::new(map(place(1), sizes.tx, offsets)),
            rx: Consumer::new(map(place(2), sizes.rx, offsets)),
            tx: Producer::new(map(place(3), sizes.tx, offsets)),
        };
        let kernel = Kernel {
            fill: Consumer::new(map(place(0), sizes.rx, offsets)),
            completion: Producer::new(map(place(1), sizes.tx, offsets)),
            rx: Producer::new(map(place(2), sizes.rx, offsets)),
            tx: Consumer::new(map(place(3), sizes.tx, offsets)),
        };
        (rings, kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_carry_what_they_hold_and_no_more_in_order() {
        let (mut rings, mut kernel) = pretended::rings(RingSizes { rx: 4, tx: 2 });
        let mut next_in = 0;
        for next_out in (0_u64..).step_by(3).take(100) {
            for number in next_out..next_out + 3 {
                assert!(rings.fill.push(number));
            }
            assert_eq!(kernel.fill.pop(), None, "not shown yet");
            rings.fill.publish();
            assert_eq!(rings.fill.waiting(), 3);
            while let Some(number) = kernel.fill.pop() {
                assert_eq!(number, next_in);
                next_in += 1;
            }
            assert_eq!(next_in, next_out + 3);
            kernel.fill.release();
        }
        assert!((0..4).all(|number| rings.fill.push(number)));
        assert!(!rings.fill.push(4), "full");
    }

    #[test]
    fn counts_that_make_no_sense_give_nothing() {
        let (mut rings, kernel) = pretended::rings(RingSizes { rx: 4, tx: 2 });
        kernel.rx.ring.producer().store(5, Ordering::Release);
        assert_eq!(rings.rx.pop(), None);
        kernel.rx.ring.producer().store(u32::MAX, Ordering::Release);
        assert_eq!(rings.rx.pop(), None);
        kernel.tx.ring.consumer().store(7, Ordering::Release);
        assert!(rings.tx.push(Descriptor::default()) && rings.tx.push(Descriptor::default()));
        assert!(!rings.tx.push(Descriptor::default()), "more taken than was given");
    }

    #[test]
    fn memory_that_could_shrink_is_not_shared() {
        let memory = shared_memory(8192).unwrap();
        assert!(is_shared_memory(memory.as_fd(), 8192));
        assert!(!is_shared_memory(memory.as_fd(), 8193));
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(!is_shared_memory(file.as_fd(), 1));
    }
}
