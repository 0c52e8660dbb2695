//! The bpf(2) system call, as far as the XDP link needs it: a map of sockets, a program, its attachment to an interface.
//!
//! Each attribute is a struct as the kernel's `union bpf_attr` has it for that command, up to the last field we use; the
//! kernel takes what is missing for zero.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use super::answer_len;

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const PROG_GET_FD_BY_ID: libc::c_int = 13;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const LINK_CREATE: libc::c_int = 28;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
/// The attach type of XDP programs.
const ATTACH_XDP: u32 = 37;
/// The program takes packets in several buffers.
const F_XDP_HAS_FRAGS: u32 = 1 << 5;

/// Names of programs and maps, with the zero that ends them.
const NAME_LEN: usize = 16;
/// What the verifier may say at most.
const LOG_LEN: usize = 16 << 10;

/// One instruction as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    /// What to do.
    pub(crate) code: u8,
    /// Destination register in the lower four bits, source in the upper.
    pub(crate) registers: u8,
    /// For jumps and memory.
    pub(crate) offset: i16,
    /// A constant.
    pub(crate) constant: i32,
}

/// Where in the kernel the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// In the driver, before a packet becomes an skb.
    Native,
    /// Behind it: works with every driver.
    Generic,
}

#[derive(Default)]
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; NAME_LEN],
}

#[derive(Default)]
#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Default)]
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; NAME_LEN],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[derive(Default)]
#[repr(C)]
struct ById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

#[derive(Default)]
#[repr(C)]
struct InfoByFd {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// The start of `struct bpf_prog_info`.
#[derive(Default)]
#[repr(C)]
struct ProgInfo {
    prog_type: u32,
    id: u32,
    tag: [u8; 8],
    jited_prog_len: u32,
    xlated_prog_len: u32,
    jited_prog_insns: u64,
    xlated_prog_insns: u64,
    load_time: u64,
    created_by_uid: u32,
    nr_map_ids: u32,
    map_ids: u64,
    name: [u8; NAME_LEN],
}

#[derive(Default)]
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// What the call answers.
///
/// # Safety
/// `attr` must be the struct that the kernel has for this command, and each pointer in it must name memory that is valid,
/// for as many bytes as the command reads or writes there, until this returns.
unsafe fn bpf<T>(command: libc::c_int, attr: &mut T) -> io::Result<usize> {
    let (at, len) = (std::ptr::from_mut(attr), size_of::<T>());
    // SAFETY: `at` and `len` are those of `attr`, borrowed for the call; what it points to, the caller vouches for.
    answer_len(unsafe { libc::syscall(libc::SYS_bpf, command, at, len) } as libc::ssize_t)
}

fn owned(fd: usize) -> OwnedFd {
    // SAFETY: called with what a bpf command that makes a descriptor has just answered: it is new and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd as RawFd) }
}

fn name_of(name: &str) -> [u8; NAME_LEN] {
    let mut bytes = [0; NAME_LEN];
    for (to, from) in bytes[..NAME_LEN - 1].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd() as u32
}

/// Queue number to AF_XDP socket.
#[derive(Debug)]
pub(crate) struct SocketMap(OwnedFd);

impl SocketMap {
    pub(crate) fn new(name: &str, queue_count: u32) -> io::Result<Self> {
        let mut attr = MapCreate {
            map_type: MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            max_entries: queue_count,
            map_name: name_of(name),
            ..MapCreate::default()
        };
        // SAFETY: the attribute of this command, without pointers.
        unsafe { bpf(MAP_CREATE, &mut attr) }.map(|fd| Self(owned(fd)))
    }

    pub(crate) fn set(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let (key, value) = (queue, raw(socket));
        let mut attr = MapUpdate {
            map_fd: raw(self.0.as_fd()),
            key: (&raw const key) as u64,
            value: (&raw const value) as u64,
            ..MapUpdate::default()
        };
        // SAFETY: the attribute of this command; key and value are four bytes each, as the map was made, and outlive it.
        unsafe { bpf(MAP_UPDATE_ELEM, &mut attr) }.map(drop)
    }

    /// Its descriptor, as instructions name it.
    pub(crate) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// A program in the kernel.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// Loads it; where the verifier refuses it, its reasons are in the error.
    pub(crate) fn load(name: &str, instructions: &[Instruction]) -> io::Result<Self> {
        Self::try_load(name, instructions, &mut []).or_else(|error| {
            let is_verdict = matches!(error.raw_os_error(), Some(libc::EACCES | libc::EINVAL));
            if !is_verdict {
                return Err(error);
            }
            let mut log = vec![0; LOG_LEN];
            Self::try_load(name, instructions, &mut log).map_err(|error| {
                let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
                let words = String::from_utf8_lossy(&log[..end]).trim().to_string();
                if words.is_empty() { error } else { io::Error::new(error.kind(), words) }
            })
        })
    }

    fn try_load(name: &str, instructions: &[Instruction], log: &mut [u8]) -> io::Result<Self> {
        let license = c"Dual MIT/GPL";
        let mut attr = ProgLoad {
            prog_type: PROG_TYPE_XDP,
            insn_cnt: instructions.len() as u32,
            insns: instructions.as_ptr() as u64,
            license: license.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_size: log.len() as u32,
            log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            prog_flags: F_XDP_HAS_FRAGS,
            prog_name: name_of(name),
            expected_attach_type: ATTACH_XDP,
            ..ProgLoad::default()
        };
        // SAFETY: the attribute of this command; instructions, license and log outlive it, with their true lengths.
        unsafe { bpf(PROG_LOAD, &mut attr) }.map(|fd| Self(owned(fd)))
    }

    /// Attaches it to an interface for as long as the descriptor is open anywhere: the kernel detaches it when the last
    /// process that has it ends, however that ends.
    pub(crate) fn attach(&self, interface: u32, mode: Mode) -> io::Result<OwnedFd> {
        const SKB_MODE: u32 = 1 << 1;
        const DRIVER_MODE: u32 = 1 << 2;
        let flags = match mode {
            Mode::Native => DRIVER_MODE,
            Mode::Generic => SKB_MODE,
        };
        let prog_fd = raw(self.0.as_fd());
        let target_ifindex = interface;
        let mut attr = LinkCreate { prog_fd, target_ifindex, attach_type: ATTACH_XDP, flags };
        // SAFETY: the attribute of this command, without pointers.
        unsafe { bpf(LINK_CREATE, &mut attr) }.map(owned)
    }
}

/// The name of a program by its number; asking needs CAP_SYS_ADMIN.
pub(crate) fn program_name(id: u32) -> io::Result<String> {
    let mut attr = ById { id, ..ById::default() };
    // SAFETY: the attribute of this command, without pointers.
    let fd = owned(unsafe { bpf(PROG_GET_FD_BY_ID, &mut attr) }?);
    let mut info = ProgInfo::default();
    let mut attr = InfoByFd {
        bpf_fd: raw(fd.as_fd()),
        info_len: size_of::<ProgInfo>() as u32,
        info: (&raw mut info) as u64,
    };
    // SAFETY: the attribute of this command; `info` outlives it, and all pointers in it are null with counts of zero.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attr) }?;
    let end = info.name.iter().position(|&byte| byte == 0).unwrap_or(NAME_LEN);
    Ok(String::from_utf8_lossy(&info.name[..end]).into_owned())
}
