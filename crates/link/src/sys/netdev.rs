//! What the system knows of a network interface: asked by netlink, and by ethtool what netlink does not tell.

use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use super::{answer, answer_len, any_socket};

/// Header of a netlink message, and of a link's description behind it.
const NETLINK_HEAD_LEN: usize = 16;
const LINK_HEAD_LEN: usize = 16;
const NLMSG_ERROR: u16 = 2;
const RTM_NEWLINK: u16 = 16;
/// Marks an attribute that holds others.
const NESTED: u16 = 1 << 15;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
/// Of the modes' own numbers, where several programs are attached: driver, generic, hardware.
const IFLA_XDP_MODE_IDS: std::ops::RangeInclusive<u16> = 5..=7;
const ETHTOOL_GDRVINFO: u32 = 3;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
/// An answer about one link; descriptions of links with many parts are long.
const ANSWER_LEN: usize = 64 << 10;

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Netdev {
    pub(crate) index: u32,
    pub(crate) is_ethernet: bool,
    pub(crate) is_up: bool,
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: usize,
    has_carrier: bool,
    /// The interface has no neighbours: nothing that is sent by it gets anywhere.
    is_noarp: bool,
    /// Part of a bridge, bond or team, which takes what arrives.
    is_part: bool,
    /// What it was made as (`veth`, `bridge`, …); empty for the machine's own cards.
    kind: String,
    /// The interface it is upon, or joined to, if that is here.
    below: Option<u32>,
    /// That interface is in another namespace.
    is_below_elsewhere: bool,
    /// The number of the XDP program attached, if there is one.
    pub(crate) program_id: Option<u32>,
    /// Queues it was made with.
    rx_queue_count: u32,
    tx_queue_count: u32,
}

/// The names of all interfaces.
pub(crate) fn names() -> Vec<String> {
    // SAFETY: answers an array made for us, ended by an entry of zeros, or null.
    let list = unsafe { libc::if_nameindex() };
    let mut names = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: not null and not behind the last entry, which is the one without a name.
        let entry = unsafe { &*next };
        if entry.if_name.is_null() {
            break;
        }
        // SAFETY: the name of an entry is a string that lives as long as the array.
        names.push(unsafe { CStr::from_ptr(entry.if_name) }.to_string_lossy().into_owned());
        // SAFETY: this was not the last entry, so there is another one behind it.
        next = unsafe { next.add(1) };
    }
    if !list.is_null() {
        // SAFETY: the array came from `if_nameindex`, and nothing refers to it any more.
        unsafe { libc::if_freenameindex(list) };
    }
    names
}

/// Asks for an interface by its name; `NotFound` if there is none.
pub(crate) fn describe(name: &str) -> io::Result<Netdev> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let c_name = CString::new(name).map_err(|_| missing())?;
    // SAFETY: reads the name, which ends with a zero and outlives the call.
    let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
    if index == 0 {
        return Err(missing());
    }
    let answer = ask_for_link(index)?;
    read_link(&answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn ask_for_link(index: u32) -> io::Result<Vec<u8>> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: creates a descriptor, touches no memory.
    let fd = answer(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) })?;
    // SAFETY: the descriptor is new and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    let mut request = [0_u8; NETLINK_HEAD_LEN + LINK_HEAD_LEN];
    let len = request.len() as u32;
    request[..4].copy_from_slice(&len.to_ne_bytes());
    request[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request[NETLINK_HEAD_LEN + 4..][..4].copy_from_slice(&index.to_ne_bytes());
    let (raw, at) = (fd.as_raw_fd(), request.as_ptr().cast());
    // SAFETY: the kernel reads `request`, which outlives the call.
    answer_len(unsafe { libc::send(raw, at, request.len(), 0) })?;
    let mut bytes = vec![0; ANSWER_LEN];
    // SAFETY: the kernel writes at most as much as `bytes` holds.
    let len = answer_len(unsafe { libc::recv(raw, bytes.as_mut_ptr().cast(), ANSWER_LEN, 0) })?;
    bytes.truncate(len);
    match read_u16(&bytes, 4) {
        Some(RTM_NEWLINK) => Ok(bytes),
        Some(NLMSG_ERROR) => {
            let code = read_u32(&bytes, NETLINK_HEAD_LEN).unwrap_or(0) as i32;
            Err(io::Error::from_raw_os_error(-code))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Kind and value of each attribute.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(read_u16(bytes, 0)?);
        let kind = read_u16(bytes, 2)? & !NESTED;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

fn read_link(message: &[u8]) -> Option<Netdev> {
    let head = NETLINK_HEAD_LEN;
    let flags = read_u32(message, head + 8)?;
    let mut found = Netdev {
        index: read_u32(message, head + 4)?,
        is_ethernet: read_u16(message, head + 2)? == libc::ARPHRD_ETHER,
        is_up: flags & libc::IFF_UP as u32 != 0,
        has_carrier: flags & libc::IFF_LOWER_UP as u32 != 0,
        is_noarp: flags & libc::IFF_NOARP as u32 != 0,
        ..Netdev::default()
    };
    for (kind, value) in attributes(message.get(head + LINK_HEAD_LEN..)?) {
        match kind {
            libc::IFLA_ADDRESS => found.mac = value.try_into().unwrap_or_default(),
            libc::IFLA_MTU => found.mtu = read_u32(value, 0)? as usize,
            libc::IFLA_NUM_RX_QUEUES => found.rx_queue_count = read_u32(value, 0)?,
            libc::IFLA_NUM_TX_QUEUES => found.tx_queue_count = read_u32(value, 0)?,
            libc::IFLA_MASTER => found.is_part = true,
            libc::IFLA_LINK => found.below = read_u32(value, 0),
            libc::IFLA_LINK_NETNSID => found.is_below_elsewhere = true,
            libc::IFLA_LINKINFO => found.kind = read_kind(value),
            libc::IFLA_XDP => found.program_id = read_program(value),
            _ => {}
        }
    }
    Some(found)
}

fn read_kind(nest: &[u8]) -> String {
    let kind = attributes(nest).find(|(kind, _)| *kind == libc::IFLA_INFO_KIND);
    let text = kind.map_or(&[][..], |(_, value)| value);
    String::from_utf8_lossy(text).trim_end_matches('\0').to_owned()
}

/// The first program of those that are attached. Where something is attached without a number that we understand: 0.
fn read_program(nest: &[u8]) -> Option<u32> {
    let (mut is_attached, mut id) = (false, None);
    for (kind, value) in attributes(nest) {
        match kind {
            IFLA_XDP_ATTACHED => is_attached = value.first().is_some_and(|&mode| mode != 0),
            IFLA_XDP_PROG_ID => id = read_u32(value, 0),
            kind if IFLA_XDP_MODE_IDS.contains(&kind) => id = id.or(read_u32(value, 0)),
            _ => {}
        }
    }
    is_attached.then_some(id.unwrap_or(0))
}

impl Netdev {
    /// As `Interface::card_rank` has it.
    pub(crate) fn card_rank(&self) -> Option<u8> {
        let leads_on = self.is_ethernet
            && self.is_up
            && self.has_carrier
            && !(self.is_noarp || self.is_part)
            && self.mac != [0; 6];
        match self.kind.as_str() {
            _ if !leads_on => None,
            "" => Some(0),
            // Both its ends are here.
            "veth" if self.below.is_some() && !self.is_below_elsewhere => None,
            "veth" => Some(2),
            "bridge" | "openvswitch" => Some(3),
            "dummy" | "ifb" | "nlmon" | "vcan" => None,
            "tun" | "tap" => Some(4),
            // VLANs, bonds, macvlans and the like.
            _ => Some(1),
        }
    }

    /// Queues that packets can arrive in now, and queues they can leave by.
    pub(crate) fn queue_counts(&self, name: &str) -> (u32, u32) {
        #[derive(Default)]
        #[repr(C)]
        struct Channels {
            command: u32,
            max: [u32; 4],
            rx: u32,
            tx: u32,
            other: u32,
            combined: u32,
        }
        let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
        // SAFETY: the struct of this command, all plain numbers.
        let is_told = unsafe { ethtool(name, &mut channels) }.is_ok();
        let (rx, tx) = (channels.rx, channels.tx);
        let more = channels.combined;
        if is_told && rx + more > 0 && tx + more > 0 {
            return (rx + more, tx + more);
        }
        (self.rx_queue_count.max(1), self.tx_queue_count.max(1))
    }
}

/// The name of the driver.
pub(crate) fn driver_of(name: &str) -> Option<String> {
    #[repr(C)]
    struct Info {
        command: u32,
        driver: [u8; 32],
        rest: [u8; 160],
    }
    let mut info = Info { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
    // SAFETY: as long as the struct of this command, all plain bytes.
    unsafe { ethtool(name, &mut info) }.ok()?;
    let end = info.driver.iter().position(|&byte| byte == 0)?;
    let driver = String::from_utf8_lossy(&info.driver[..end]).into_owned();
    (!driver.is_empty()).then_some(driver)
}

/// # Safety
/// `value` must be the struct that the kernel has for the command in its first field.
unsafe fn ethtool<T>(name: &str, value: &mut T) -> io::Result<()> {
    let fd = any_socket::open(libc::AF_INET, libc::SOCK_DGRAM)?;
    // SAFETY: `ifreq` is plain data; all zeros are a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::NotFound.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(value).cast();
    // SAFETY: the name ends with a zero, and `value` is what the caller promises.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    answer(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_described_and_nobody_is_not() {
        let loopback = describe("lo").unwrap();
        assert!(!loopback.is_ethernet && loopback.index > 0 && loopback.mtu >= 1500);
        assert_eq!((loopback.program_id, loopback.mac), (None, [0; 6]));
        assert!(names().contains(&"lo".to_string()));
        for nobody in ["no-such-thing", "", "a\0b", "a name that is far too long for one"] {
            let error = describe(nobody).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{nobody:?}");
        }
    }

    #[test]
    fn attributes_that_lie_about_their_length_end_the_list() {
        let mut bytes = vec![];
        for (len, kind, value) in [(8_u16, 4_u16, [1; 4]), (40, 5, [2; 4])] {
            bytes.extend_from_slice(&len.to_ne_bytes());
            bytes.extend_from_slice(&kind.to_ne_bytes());
            bytes.extend_from_slice(&value);
        }
        assert_eq!(attributes(&bytes).collect::<Vec<_>>(), [(4, &[1; 4][..])]);
        assert_eq!(attributes(&[0; 4]).count(), 0, "no progress, no end");
        assert_eq!(read_link(&[0; 20]), None);
    }
}
