//! Which interface has an address, and how long its packets may be.

use std::ffi::CStr;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd as _;
use std::ptr;

use super::netdev;
use super::socket::Socket;

/// The MTU of the interface that has this address. Of those that are up, the largest, if the address is a wildcard; the
/// loopback's, which is like no other's, only if there is no other. `None` where the system does not say.
pub(crate) fn mtu_of(ip: IpAddr, asked_through: &Socket) -> Option<usize> {
    if !ip.is_unspecified() {
        return largest_mtu(ip, false, asked_through);
    }
    largest_mtu(ip, false, asked_through).or_else(|| largest_mtu(ip, true, asked_through))
}

fn largest_mtu(ip: IpAddr, with_loopback: bool, asked_through: &Socket) -> Option<usize> {
    let mut found = None;
    each_interface(|name, addr, flags| {
        let is_meant = if ip.is_unspecified() {
            let is_loopback = flags & libc::IFF_LOOPBACK != 0;
            flags & libc::IFF_UP != 0 && addr.is_some() && is_loopback == with_loopback
        } else if ip.is_loopback() {
            flags & libc::IFF_LOOPBACK != 0
        } else {
            addr == Some(ip)
        };
        if is_meant {
            found = found.max(mtu_by_name(name, asked_through));
        }
    });
    found
}

/// An address of an interface that is up and not the loopback, of the wanted family; not a link-local one, which means
/// nothing to others without the name of a link. Of several, one on a card that leads to others rather than a dummy's.
pub(crate) fn addr_beyond_loopback(is_wanted: impl Fn(&IpAddr) -> bool) -> Option<IpAddr> {
    let mut found: Vec<(u8, IpAddr)> = Vec::new();
    each_interface(|name, addr, flags| {
        let is_out = flags & libc::IFF_UP != 0 && flags & libc::IFF_LOOPBACK == 0;
        let is_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        if let Some(ip) = addr.filter(|ip| is_out && is_wanted(ip) && !is_local(ip)) {
            let netdev = netdev::describe(&name.to_string_lossy()).ok();
            let rank = netdev.and_then(|netdev| netdev.card_rank()).unwrap_or(u8::MAX);
            found.push((rank, ip));
        }
    });
    found.into_iter().min_by_key(|(rank, _)| *rank).map(|(_, ip)| ip) // of equals the first
}

/// The number of the interface that has this address.
pub(crate) fn index_of(ip: IpAddr) -> Option<u32> {
    let mut found = None;
    each_entry(|name, entry| {
        if found.is_none() && ip_of(entry.ifa_addr) == Some(ip) {
            // SAFETY: the name is a string that lives as long as the list.
            found =
                Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|&index| index != 0);
        }
    });
    found
}

/// The Ethernet addresses of this host.
pub(crate) fn macs() -> Vec<[u8; 6]> {
    let mut found = Vec::new();
    each_entry(|_, entry| {
        let addr = entry.ifa_addr;
        // SAFETY: where it is not null it points to an address of the family it states.
        if addr.is_null() || libc::c_int::from(unsafe { (*addr).sa_family }) != libc::AF_PACKET {
            return;
        }
        // SAFETY: the family says that it is a `sockaddr_ll`.
        let link = unsafe { *addr.cast::<libc::sockaddr_ll>() };
        if link.sll_halen == 6 {
            found.push([0, 1, 2, 3, 4, 5].map(|at| link.sll_addr[at]));
        }
    });
    found
}

/// A network interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its addresses, each with the length of its network's prefix.
    pub addrs: Vec<(IpAddr, u8)>,
    /// Switched on.
    pub is_up: bool,
    /// Leads to this host itself.
    pub is_loopback: bool,
    /// How likely raw Ethernet by it reaches other hosts, the likeliest 0: a card of the machine, something upon one, a cable to
    /// another namespace, a bridge. `None`: not at all, for it has no carrier, is a part of another one, or leads nowhere.
    pub card_rank: Option<u8>,
    /// Its Ethernet address.
    pub mac: Option<[u8; 6]>,
}

/// The interfaces of this host, in the system's order.
pub fn interfaces() -> Vec<Interface> {
    let mut found: Vec<Interface> = Vec::new();
    each_entry(|name, entry| {
        let text = name.to_string_lossy();
        let at = found.iter().position(|known| known.name == text).unwrap_or_else(|| {
            let flags = entry.ifa_flags as libc::c_int;
            let netdev = netdev::describe(&text).ok();
            found.push(Interface {
                name: text.clone().into_owned(),
                // SAFETY: the name is a string that lives as long as the list.
                index: unsafe { libc::if_nametoindex(name.as_ptr()) },
                addrs: Vec::new(),
                is_up: flags & libc::IFF_UP != 0,
                is_loopback: flags & libc::IFF_LOOPBACK != 0,
                card_rank: netdev.as_ref().and_then(|netdev| netdev.card_rank()),
                mac: netdev.map(|netdev| netdev.mac).filter(|mac| *mac != [0; 6]),
            });
            found.len() - 1
        });
        if let Some(ip) = ip_of(entry.ifa_addr) {
            let prefix = ip_of(entry.ifa_netmask).map_or(0, |mask| match mask {
                IpAddr::V4(mask) => mask.to_bits().count_ones(),
                IpAddr::V6(mask) => mask.to_bits().count_ones(),
            });
            found[at].addrs.push((ip, prefix as u8));
        }
    });
    found
}

fn each_interface(mut f: impl FnMut(&CStr, Option<IpAddr>, libc::c_int)) {
    each_entry(|name, entry| f(name, ip_of(entry.ifa_addr), entry.ifa_flags as libc::c_int));
}

fn each_entry(mut f: impl FnMut(&CStr, &libc::ifaddrs)) {
    let mut list = ptr::null_mut();
    // SAFETY: `list` is ours to be written to; it is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return;
    }
    let mut next = list;
    while !next.is_null() {
        // SAFETY: the list is made of valid entries, ended by null, until `freeifaddrs`.
        let entry = unsafe { &*next };
        // SAFETY: the name of an entry is a string that lives as long as the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        f(name, entry);
        next = entry.ifa_next;
    }
    // SAFETY: the list came from `getifaddrs`, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(list) };
}

fn ip_of(addr: *const libc::sockaddr) -> Option<IpAddr> {
    if addr.is_null() {
        return None;
    }
    // SAFETY: not null, so it points to an address of the family it states.
    match libc::c_int::from(unsafe { (*addr).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says that it is a `sockaddr_in`.
            let v4 = unsafe { *addr.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is a `sockaddr_in6`.
            let v6 = unsafe { *addr.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

fn mtu_by_name(name: &CStr, socket: &Socket) -> Option<usize> {
    // SAFETY: `ifreq` is plain data; all zeros are a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let bytes = name.to_bytes();
    if bytes.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    // SAFETY: SIOCGIFMTU reads the name, which ends with a zero, and writes the MTU, both inside `request`.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) };
    if result != 0 {
        return None;
    }
    // SAFETY: SIOCGIFMTU wrote this field.
    usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_among_them() {
        let all = interfaces();
        let lo = all.iter().find(|interface| interface.is_loopback).unwrap();
        assert!(lo.index > 0 && !lo.name.is_empty());
        let names = all.iter().filter(|interface| interface.name == lo.name);
        assert_eq!(names.count(), 1, "each once, whatever the number of its addresses");
    }
}
