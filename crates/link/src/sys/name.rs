//! Socket addresses as the kernel reads and writes them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

#[derive(Clone, Copy)]
#[repr(C)]
union Raw {
    any: libc::sockaddr,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

/// An address for the kernel, or room for one.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Name {
    raw: Raw,
    len: libc::socklen_t,
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_addr().fmt(f)
    }
}

const V4_LEN: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;
const V6_LEN: libc::socklen_t = size_of::<libc::sockaddr_in6>() as libc::socklen_t;

impl Name {
    /// Room for any address.
    pub(crate) const ROOM: Self = Self {
        raw: Raw {
            v6: libc::sockaddr_in6 {
                sin6_family: libc::AF_UNSPEC as libc::sa_family_t,
                sin6_port: 0,
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
                sin6_scope_id: 0,
            },
        },
        len: V6_LEN,
    };

    /// This address; on an IPv6 socket every IPv4 address has an IPv6 form.
    pub(crate) fn new(addr: SocketAddr, is_socket_v6: bool) -> Self {
        match addr {
            SocketAddr::V4(addr) if is_socket_v6 => {
                Self::new_v6(SocketAddrV6::new(addr.ip().to_ipv6_mapped(), addr.port(), 0, 0))
            }
            SocketAddr::V4(addr) => Self::new_v4(addr),
            SocketAddr::V6(addr) => Self::new_v6(addr),
        }
    }

    fn new_v4(addr: SocketAddrV4) -> Self {
        let v4 = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: addr.port().to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(addr.ip().octets()) },
            sin_zero: [0; 8],
        };
        let mut name = Self { len: V4_LEN, ..Self::ROOM };
        name.raw.v4 = v4;
        name
    }

    fn new_v6(addr: SocketAddrV6) -> Self {
        let v6 = libc::sockaddr_in6 {
            sin6_family: libc::AF_INET6 as libc::sa_family_t,
            sin6_port: addr.port().to_be(),
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: addr.ip().octets() },
            sin6_scope_id: addr.scope_id(),
        };
        Self { raw: Raw { v6 }, len: V6_LEN }
    }

    /// What it says, an IPv4 address in IPv6 form as the IPv4 address it is; `None` if the kernel wrote nothing known.
    pub(crate) fn to_addr(self) -> Option<SocketAddr> {
        // SAFETY: every variant begins with the family, and all bytes are initialised (`ROOM` fills the largest).
        let family = libc::c_int::from(unsafe { self.raw.any }.sa_family);
        match family {
            libc::AF_INET if self.len >= V4_LEN => {
                // SAFETY: all bytes are initialised and any bytes make a `sockaddr_in`.
                let v4 = unsafe { self.raw.v4 };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddr::from((ip, u16::from_be(v4.sin_port))))
            }
            libc::AF_INET6 if self.len >= V6_LEN => {
                // SAFETY: as above, for a `sockaddr_in6`.
                let v6 = unsafe { self.raw.v6 };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(match ip.to_ipv4_mapped() {
                    Some(ip) => SocketAddr::from((ip, port)),
                    None => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id)),
                })
            }
            _ => None,
        }
    }

    pub(super) const fn len(&self) -> libc::socklen_t {
        self.len
    }

    /// What the kernel said it wrote; it may claim more than there is room.
    pub(super) fn set_len(&mut self, len: libc::socklen_t) {
        self.len = len.min(V6_LEN);
    }

    pub(super) fn ptr(&self) -> *const libc::sockaddr {
        (&raw const self.raw).cast()
    }

    pub(super) fn ptr_mut(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.raw).cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for text in ["10.1.2.3:4", "[2001:db8::1]:65535", "0.0.0.0:0"] {
            let addr: SocketAddr = text.parse().unwrap();
            assert_eq!(Name::new(addr, false).to_addr(), Some(addr));
            assert_eq!(Name::new(addr, true).to_addr(), Some(addr), "in IPv6 form");
        }
        let scoped = SocketAddr::V6(SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 0, 3));
        assert_eq!(Name::new(scoped, true).to_addr(), Some(scoped));
        assert_eq!(Name::ROOM.to_addr(), None);
    }
}
