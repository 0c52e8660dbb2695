//! Which places a socket can send to, and by which interface. UDP and TCP ask here alike.

use std::net::{IpAddr, SocketAddr};

use super::{locate, opening};
use crate::sys::interfaces::index_of;
use crate::sys::socket::Socket;
use crate::{Cause, Locator};

/// Addresses of ours whose interface is remembered.
const CARD_COUNT_MAX: usize = 16;

/// What a socket can send to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The address in a locator of its kind.
    read: fn(&Locator) -> Option<SocketAddr>,
    is_v6: bool,
    speaks_v4: bool,
    /// The interface that link-local addresses are on; 0: not known.
    scope: u32,
}

impl Span {
    /// Where a locator leads from here.
    pub(crate) fn place_of(self, locator: &Locator) -> Option<SocketAddr> {
        let addr = (self.read)(locator)?;
        let is_spoken = if addr.is_ipv4() { self.speaks_v4 } else { self.is_v6 };
        locate::with_scope(addr, self.scope).filter(|_| is_spoken)
    }
}

/// The scope of a link-local address.
fn scope_of(addr: SocketAddr) -> Option<u32> {
    match addr {
        SocketAddr::V6(v6) => Some(v6.scope_id()).filter(|&scope| scope != 0),
        SocketAddr::V4(_) => None,
    }
}

/// What a link over a socket can send to, and what it knows of the ways.
#[derive(Debug)]
pub(crate) struct Reach {
    pub(crate) span: Span,
    /// As bound: may be a wildcard.
    pub(crate) local_ip: IpAddr,
    /// Frames leave by it only.
    pub(crate) interface: Option<u32>,
    /// Our addresses, and the interfaces that have them.
    cards: Vec<(IpAddr, u32)>,
}

impl Reach {
    pub(crate) fn new(
        read: fn(&Locator) -> Option<SocketAddr>,
        socket: &Socket,
        bound: SocketAddr,
        interface: Option<u32>,
    ) -> Self {
        let scope = scope_of(bound).or(interface).unwrap_or(0);
        let span = Span { read, is_v6: socket.is_v6(), speaks_v4: socket.speaks_v4(), scope };
        Self { span, local_ip: bound.ip(), interface, cards: Vec::new() }
    }

    /// As [`crate::Link::may_reach`].
    pub(crate) fn may_reach(&self, to: &Locator) -> bool {
        let Some(addr) = self.span.place_of(to) else { return false };
        if self.local_ip.is_unspecified() {
            return true; // it has all routes there are
        }
        // From the loopback interface nobody else is reached.
        if self.local_ip.is_loopback() && !addr.ip().is_loopback() {
            let is_it = |&(ip, _): &(IpAddr, u8)| ip == addr.ip();
            return crate::interfaces().iter().any(|interface| interface.addrs.iter().any(is_it));
        }
        self.frame_len_to(addr).is_some()
    }

    /// The longest datagram on the way there, as the system knows it now; `None` if it knows no way.
    pub(crate) fn frame_len_to(&self, addr: SocketAddr) -> Option<usize> {
        opening::frame_len_between(self.local_ip, self.interface, addr)
    }

    /// As [`crate::Link::card_to`].
    pub(crate) fn card_to(&mut self, to: &Locator) -> u32 {
        let Some(addr) = self.span.place_of(to) else { return 0 };
        let source = match self.local_ip.is_unspecified() {
            true => opening::source_towards(addr),
            false => Some(self.local_ip),
        };
        self.interface.or_else(|| Some(self.card_with(source?))).unwrap_or(0)
    }

    /// The interface that has an address of ours. Asked once: all interfaces are gone through for it.
    fn card_with(&mut self, ip: IpAddr) -> u32 {
        if let Some(&(_, card)) = self.cards.iter().find(|(known, _)| *known == ip) {
            return card;
        }
        let card = index_of(ip).unwrap_or(0);
        if self.cards.len() < CARD_COUNT_MAX {
            self.cards.push((ip, card));
        }
        card
    }
}

/// Whether an error says that nobody is reached there.
pub(super) fn is_unreachable(errno: i32) -> bool {
    use libc::{EACCES, ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ENETUNREACH, ENOPROTOOPT};
    matches!(
        errno,
        ECONNREFUSED | EHOSTUNREACH | ENETUNREACH | EHOSTDOWN | ENETDOWN | ENOPROTOOPT | EACCES
    )
}

/// What an error of the network says. Only the host itself knows who has its ports: a firewall on the way that says so may do
/// that for a while.
pub(super) fn cause_of(errno: i32, is_of_place: bool, quote: Vec<u8>) -> Cause {
    match errno {
        libc::ECONNREFUSED | libc::ENOPROTOOPT if is_of_place => Cause::Refused(quote),
        _ => Cause::Way(quote),
    }
}
