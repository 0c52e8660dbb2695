//! What can be asked of a link by somebody who does not know its kind.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::ops::RangeInclusive;

use crate::Locator;
use crate::udp::Use;

/// What is asked of a link. Each kind takes what concerns it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The interface it is on, where one was chosen.
    pub on: Option<On>,
    /// The local address, where no interface was chosen.
    pub bind: IpAddr,
    /// Its port is one of these; any, if nothing is said.
    pub ports: Option<RangeInclusive<u16>>,
    /// Trains, out and in.
    pub trains: Use,
    /// Reading large payload straight from the memory of its sender.
    pub cma: Use,
    /// How many links like this one were opened over the same card before it. There may be several, so that a network which caps each flow carries more.
    pub flow: u8,
    /// Takes only such buffers as a user without rights gets, even with rights.
    pub buffers_unprivileged: bool,
    /// Answers those who ask who is here with the host's name.
    pub is_discoverable: bool,
    /// Nobody asked for it by name: it may wait with what costs something until it is used.
    pub is_on_demand: bool,
    /// The locator in the endpoint's address, which is that of its first link; `None` for the first link itself.
    pub address: Option<Locator>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            on: None,
            bind: Ipv4Addr::UNSPECIFIED.into(),
            ports: None,
            trains: Use::Auto,
            cma: Use::Auto,
            flow: 0,
            buffers_unprivileged: false,
            is_discoverable: false,
            is_on_demand: false,
            address: None,
        }
    }
}

/// An interface, and the address it was chosen by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct On {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// The address, if there is one.
    pub ip: Option<IpAddr>,
}

impl Options {
    /// The name of the interface; empty if none was chosen.
    pub(crate) fn interface(&self) -> &str {
        self.on.as_ref().map_or("", |on| on.name.as_str())
    }

    /// The address a socket is bound to, and the interface its frames leave by.
    pub fn socket(&self) -> (SocketAddr, Option<u32>) {
        let bind = match self.on.as_ref().and_then(|on| Some((on.ip?, on.index))) {
            Some((IpAddr::V6(ip), index)) if ip.is_unicast_link_local() => {
                SocketAddr::V6(SocketAddrV6::new(ip, 0, 0, index))
            }
            Some((ip, _)) => SocketAddr::new(ip, 0),
            None => SocketAddr::new(self.bind, 0),
        };
        // What goes to the host itself does not leave by a card.
        let by = self.on.as_ref().filter(|_| !bind.ip().is_loopback());
        (bind, by.map(|on| on.index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_bound_where_the_interface_says() {
        let on = |ip: &str| Some(On { name: "eth0".into(), index: 3, ip: ip.parse().ok() });
        for (on, bind, interface) in [
            (None, "10.0.0.1:0", None),
            (on("10.9.9.9"), "10.9.9.9:0", Some(3)),
            (on("fe80::1"), "[fe80::1%3]:0", Some(3)),
            (on("127.0.0.1"), "127.0.0.1:0", None),
            (on(""), "10.0.0.1:0", Some(3)),
        ] {
            let options = Options { on, bind: "10.0.0.1".parse().unwrap(), ..Options::default() };
            assert_eq!(options.socket(), (bind.parse().unwrap(), interface));
        }
    }
}
