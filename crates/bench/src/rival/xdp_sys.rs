//! The raw calls of the AF_XDP rival: a socket on queue 0 of an interface, its memory and rings, and the program that
//! brings it the rival's packets. Shares no code with `packhorse-link`, nor its ways: all is in one struct, nothing is
//! handed around.

use std::ffi::CString;
use std::io;
use std::mem::{self, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libc::{c_int, c_long, c_void};

/// The rival's own EtherType: the second that IEEE 802 leaves to experiments.
pub(crate) const ETHER_TYPE: u16 = 0x88B6;
/// Length of a frame of the shared memory.
const CHUNK_LEN: usize = 4096;
/// Frames to receive into, and to send from; entries of the rings.
pub(crate) const RX_COUNT: usize = 4096;
pub(crate) const TX_COUNT: usize = 1024;
/// What fits a frame on its way in: the kernel keeps 256 bytes for itself.
const RX_LEN_MAX: usize = CHUNK_LEN - 256;
/// The kernel frees the interface and the queue of a port that was closed a little later.
const FREE_WITHIN: Duration = Duration::from_secs(2);

fn check(answer: c_long) -> io::Result<c_int> {
    c_int::try_from(answer).ok().filter(|&answer| answer >= 0).ok_or_else(io::Error::last_os_error)
}

fn owned(fd: c_int) -> OwnedFd {
    // SAFETY: called with descriptors that a call has just made, owned by nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// One bpf command with its attributes as words of 32 bits.
///
/// # Safety
/// Pointers among the words must be those the command wants, and live through the call.
unsafe fn bpf(command: c_int, words: &[u32]) -> io::Result<OwnedFd> {
    // SAFETY: pointer and length are those of a live slice; for what it points to the caller vouches.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command, words.as_ptr(), size_of_val(words)) };
    check(answer).map(owned)
}

/// A pointer as two words of 32 bits, in the order of the machine.
fn halves<T>(pointer: *const T) -> [u32; 2] {
    let bytes = (pointer as u64).to_ne_bytes();
    let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    [half(0), half(4)]
}

/// Whether this process may open such a port at all.
pub(crate) fn is_allowed() -> bool {
    make_map().is_ok() && open_socket().is_ok()
}

fn open_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    check(fd.into()).map(owned)
}

/// A map of one socket.
fn make_map() -> io::Result<OwnedFd> {
    const MAP_CREATE: c_int = 0;
    const XSKMAP: u32 = 17;
    // SAFETY: no pointers.
    unsafe { bpf(MAP_CREATE, &[XSKMAP, 4, 4, 1, 0]) }
}

/// One instruction of eBPF: registers are `from` and `to`, four bits each.
fn instruction(code: u8, registers: u8, offset: i16, constant: u32) -> [u8; 8] {
    let mut bytes = [code, registers, 0, 0, 0, 0, 0, 0];
    bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
    bytes[4..].copy_from_slice(&constant.to_ne_bytes());
    bytes
}

/// Packets of the rival's type go to the socket in the map, all others pass. For machines whose first byte is the lowest.
fn program(map: &OwnedFd) -> [[u8; 8]; 15] {
    const PASS: u32 = 2;
    const REDIRECT_MAP: u32 = 51;
    let wanted = u16::from_ne_bytes(ETHER_TYPE.to_be_bytes()).into();
    [
        instruction(0x61, 0x12, 0, 0),                      // r2 = data
        instruction(0x61, 0x13, 4, 0),                      // r3 = data_end
        instruction(0xbf, 0x24, 0, 0),                      // r4 = r2
        instruction(0x07, 0x04, 0, 14),                     // r4 += 14
        instruction(0x2d, 0x34, 8, 0),                      // if r4 > r3 goto pass
        instruction(0x69, 0x24, 12, 0),                     // r4 = EtherType
        instruction(0x55, 0x04, 6, wanted),                 // if r4 != wanted goto pass
        instruction(0x18, 0x11, 0, map.as_raw_fd() as u32), // r1 = map, in two parts
        instruction(0, 0, 0, 0),
        instruction(0xb7, 0x02, 0, 0),    // r2 = 0: queue
        instruction(0xb7, 0x03, 0, PASS), // r3 = what to do without a socket
        instruction(0x85, 0, 0, REDIRECT_MAP),
        instruction(0x95, 0, 0, 0),
        instruction(0xb7, 0x00, 0, PASS), // pass: r0 = PASS
        instruction(0x95, 0, 0, 0),
    ]
}

/// Loads the program and puts it on the interface, for as long as the descriptor is open.
fn attach(map: &OwnedFd, interface: u32) -> io::Result<OwnedFd> {
    const PROG_LOAD: c_int = 5;
    const LINK_CREATE: c_int = 28;
    const ATTACH_XDP: u32 = 37;
    const DRIVER_MODE: u32 = 1 << 2;
    const HAS_FRAGS: u32 = 1 << 5;
    let (code, license) = (program(map), c"MIT");
    let mut words = vec![6, code.len() as u32];
    words.extend(halves(code.as_ptr()));
    words.extend(halves(license.as_ptr()));
    words.extend([0, 0, 0, 0, 0, HAS_FRAGS]);
    let name = b"xdp_bare\0\0\0\0\0\0\0\0".chunks_exact(4);
    words.extend(name.map(|four| u32::from_ne_bytes([four[0], four[1], four[2], four[3]])));
    words.extend([0, ATTACH_XDP]);
    // SAFETY: code and license live through the call.
    let program = unsafe { bpf(PROG_LOAD, &words) }?;
    let words = [program.as_raw_fd() as u32, interface, ATTACH_XDP, DRIVER_MODE];
    // SAFETY: no pointers.
    when_free(|| unsafe { bpf(LINK_CREATE, &words) })
}

/// Tries again for a while where something is busy.
fn when_free<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let until = Instant::now() + FREE_WITHIN;
    loop {
        match attempt() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(2));
            }
            other => return other,
        }
    }
}

/// Pages that the kernel shares with us.
struct Pages {
    start: *mut u8,
    len: usize,
}

impl Pages {
    fn map(fd: c_int, offset: i64, len: usize) -> io::Result<Self> {
        let flags = match fd {
            -1 => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
            _ => libc::MAP_SHARED | libc::MAP_POPULATE,
        };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel likes touches nothing that exists.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), len })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: what `map` made; the last reference goes with `self`.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Descriptor {
    addr: u64,
    len: u32,
    options: u32,
}

/// One of the four rings: `T` by `T`, and two counts.
struct Ring<T> {
    pages: Pages,
    offsets: libc::xdp_ring_offset,
    /// Our own count, and the other side's when it was last looked at.
    mine: u32,
    theirs: u32,
    size: u32,
    kind: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn map(
        fd: c_int,
        offset: i64,
        offsets: libc::xdp_ring_offset,
        size: usize,
    ) -> io::Result<Self> {
        let len = offsets.desc as usize + size * size_of::<T>();
        let pages = Pages::map(fd, offset, len)?;
        let kind = std::marker::PhantomData;
        Ok(Self { pages, offsets, mine: 0, theirs: 0, size: size as u32, kind })
    }

    fn count(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel told these offsets of counts in pages it made for this ring.
        unsafe { &*self.pages.start.add(offset as usize).cast::<AtomicU32>() }
    }

    fn entry(&self, count: u32) -> *mut T {
        let index = (count & (self.size - 1)) as usize;
        // SAFETY: the index is below the size, for which the pages were made.
        unsafe { self.pages.start.add(self.offsets.desc as usize).cast::<T>().add(index) }
    }

    /// Puts an entry in; the caller never has more than fit. `show` lets the kernel see it.
    #[inline]
    fn put(&mut self, entry: T) {
        // SAFETY: an entry between the counts is ours to write.
        unsafe { self.entry(self.mine).write(entry) };
        self.mine = self.mine.wrapping_add(1);
    }

    #[inline]
    fn show(&self) {
        self.count(self.offsets.producer).store(self.mine, Ordering::Release);
    }

    /// Takes an entry out, and gives its room back.
    #[inline]
    fn take(&mut self) -> Option<T> {
        if self.mine == self.theirs {
            self.theirs = self.count(self.offsets.producer).load(Ordering::Acquire);
            if self.mine == self.theirs {
                return None;
            }
        }
        // SAFETY: the kernel wrote this entry before it counted it, and writes it again only after ours is counted.
        let entry = unsafe { self.entry(self.mine).read() };
        self.mine = self.mine.wrapping_add(1);
        self.count(self.offsets.consumer).store(self.mine, Ordering::Release);
        Some(entry)
    }
}

/// A socket on queue 0 of an interface.
pub(crate) struct Port {
    socket: OwnedFd,
    memory: Pages,
    fill: Ring<u64>,
    completion: Ring<u64>,
    rx: Ring<Descriptor>,
    tx: Ring<Descriptor>,
    /// Frames to send from, by their address.
    free: Vec<u64>,
    _attachment: OwnedFd,
}

impl Port {
    pub(crate) fn open(interface: &str, mtu: usize) -> io::Result<Self> {
        let name = CString::new(interface)?;
        // SAFETY: reads a string that ends with a zero.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let (socket, map) = (open_socket()?, make_map()?);
        let memory = Pages::map(-1, 0, (RX_COUNT + TX_COUNT) * CHUNK_LEN)?;
        // SAFETY: all zeroes is a valid value of these plain structs.
        let mut registration: libc::xdp_umem_reg = unsafe { mem::zeroed() };
        registration.addr = memory.start as u64;
        registration.len = memory.len as u64;
        registration.chunk_size = CHUNK_LEN as u32;
        set(&socket, libc::XDP_UMEM_REG, &registration)?;
        let sizes = [
            (libc::XDP_UMEM_FILL_RING, RX_COUNT),
            (libc::XDP_UMEM_COMPLETION_RING, TX_COUNT),
            (libc::XDP_RX_RING, RX_COUNT),
            (libc::XDP_TX_RING, TX_COUNT),
        ];
        for (ring, size) in sizes {
            set(&socket, ring, &(size as u32))?;
        }
        const MAX_TX_SKB_BUDGET: c_int = 9;
        let _ = set(&socket, MAX_TX_SKB_BUDGET, &(TX_COUNT as u32)); // not in older kernels
        let fd = socket.as_raw_fd();
        let offsets = ring_offsets(fd)?;
        let (fill_at, completion_at) =
            (libc::XDP_UMEM_PGOFF_FILL_RING as i64, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64);
        let mut port = Self {
            fill: Ring::map(fd, fill_at, offsets.fr, RX_COUNT)?,
            completion: Ring::map(fd, completion_at, offsets.cr, TX_COUNT)?,
            rx: Ring::map(fd, libc::XDP_PGOFF_RX_RING, offsets.rx, RX_COUNT)?,
            tx: Ring::map(fd, libc::XDP_PGOFF_TX_RING, offsets.tx, TX_COUNT)?,
            free: (RX_COUNT..RX_COUNT + TX_COUNT).map(|n| (n * CHUNK_LEN) as u64).collect(),
            _attachment: attach(&map, index)?,
            socket,
            memory,
        };
        (0..RX_COUNT).for_each(|number| port.fill.put((number * CHUNK_LEN) as u64));
        port.fill.show();
        port.bind(index, mtu)?;
        put_into(&map, &port.socket)?;
        Ok(port)
    }

    fn bind(&self, index: u32, mtu: usize) -> io::Result<()> {
        let scattered = if mtu + 18 > RX_LEN_MAX { libc::XDP_USE_SG } else { 0 };
        // Without a word about copies the kernel does without them where it can.
        let name = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: scattered | libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: index,
            sxdp_queue_id: 0,
            sxdp_shared_umem_fd: 0,
        };
        let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        when_free(|| {
            let (fd, at) = (self.socket.as_raw_fd(), ptr::from_ref(&name).cast());
            // SAFETY: pointer and length are those of a live struct.
            check(unsafe { libc::bind(fd, at, len) }.into()).map(drop)
        })
    }

    /// Bytes of the shared memory.
    fn bytes(&mut self, addr: u64, len: usize) -> &mut [u8] {
        let start = addr as usize;
        assert!(start <= self.memory.len && len <= self.memory.len - start);
        // SAFETY: inside the pages (asserted), which live as long as `self`. Callers ask only for frames that the kernel has
        // given up: those in `free`, and those just taken from the receive ring.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start.add(start), len) }
    }

    /// Copies a packet into frames and puts them into the ring. False if there is no room.
    #[inline]
    pub(crate) fn push(&mut self, head: &[u8], body: &[u8]) -> bool {
        while let Some(addr) = self.completion.take() {
            self.free.push(addr);
        }
        let count = (head.len() + body.len()).div_ceil(CHUNK_LEN);
        if self.free.len() < count {
            return false;
        }
        let mut rest = body;
        for number in 0..count {
            let addr = self.free.pop().expect("counted");
            let head = if number == 0 { head } else { &[] };
            let (now, later) = rest.split_at(rest.len().min(CHUNK_LEN - head.len()));
            let len = head.len() + now.len();
            let frame = self.bytes(addr, len);
            frame[..head.len()].copy_from_slice(head);
            frame[head.len()..].copy_from_slice(now);
            rest = later;
            let options = if number + 1 < count { libc::XDP_PKT_CONTD } else { 0 };
            self.tx.put(Descriptor { addr, len: len as u32, options });
        }
        true
    }

    /// Has the kernel send what was put in.
    #[inline]
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.tx.show();
        let flags = self.tx.count(self.tx.offsets.flags).load(Ordering::Relaxed);
        if flags & libc::XDP_RING_NEED_WAKEUP == 0 {
            return Ok(());
        }
        loop {
            let (fd, none) = (self.socket.as_raw_fd(), ptr::null::<c_void>());
            // SAFETY: no bytes and no address are given.
            let sent = unsafe { libc::sendto(fd, none, 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
            if sent >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // Only so many are sent in one call.
                Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => {}
                _ => return Err(error),
            }
            while let Some(addr) = self.completion.take() {
                self.free.push(addr);
            }
        }
    }

    /// Takes the next packet, if there is one: its head, and as much of its body as `out` holds. How long the body was.
    #[inline]
    pub(crate) fn take(&mut self, head: &mut [u8], out: &mut [u8]) -> Option<usize> {
        let (mut head_len, mut body_len) = (0, 0);
        loop {
            let Some(descriptor) = self.rx.take() else {
                // A packet's frames come together.
                assert!(head_len == 0, "a packet without its end");
                return None;
            };
            let bytes = self.bytes(descriptor.addr, descriptor.len as usize);
            let part = if head_len == 0 { head.len().min(bytes.len()) } else { 0 };
            head[..part].copy_from_slice(&bytes[..part]);
            head_len += part;
            let body = &bytes[part..];
            let room = out.get_mut(body_len..).unwrap_or(&mut []);
            let fits = body.len().min(room.len());
            room[..fits].copy_from_slice(&body[..fits]);
            body_len += body.len();
            self.fill.put(descriptor.addr / CHUNK_LEN as u64 * CHUNK_LEN as u64);
            if descriptor.options & libc::XDP_PKT_CONTD == 0 {
                self.fill.show();
                return Some(body_len);
            }
        }
    }
}

fn set<T>(socket: &OwnedFd, name: c_int, value: &T) -> io::Result<()> {
    let (at, len) = (ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: pointer and length are those of a live value.
    let answer = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, name, at, len) };
    check(answer.into()).map(drop)
}

fn ring_offsets(fd: c_int) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: all zeroes is a valid value of this plain struct.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { mem::zeroed() };
    let mut len = size_of::<libc::xdp_mmap_offsets>() as libc::socklen_t;
    let at = ptr::from_mut(&mut offsets).cast();
    // SAFETY: the kernel writes at most `len` bytes into a live struct of that size.
    let answer =
        unsafe { libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, at, &mut len) };
    check(answer.into()).map(|_| offsets)
}

/// Puts the socket into the map, for queue 0.
fn put_into(map: &OwnedFd, socket: &OwnedFd) -> io::Result<()> {
    const MAP_UPDATE: c_int = 2;
    let (key, value) = (0_u32, socket.as_raw_fd());
    let mut words = vec![map.as_raw_fd() as u32, 0];
    words.extend(halves(&raw const key));
    words.extend(halves(&raw const value));
    words.extend([0, 0]);
    let len = size_of_val(&words[..]);
    // SAFETY: key and value, four bytes each as the map was made, live through the call.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, MAP_UPDATE, words.as_ptr(), len) };
    check(answer).map(drop)
}

/// The MAC address of an interface.
pub(crate) fn mac_of(interface: &str) -> io::Result<[u8; 6]> {
    let name = CString::new(interface)?;
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    let socket = check(fd.into()).map(owned)?;
    // SAFETY: all zeroes is a valid ifreq.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, &from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.as_bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: reads the name and writes the address of a live ifreq.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &mut request) };
    check(answer.into())?;
    // SAFETY: the call above wrote this member.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
    Ok(std::array::from_fn(|at| address[at] as u8))
}
