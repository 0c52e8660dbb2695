//! How addresses look to an application: 64 bytes of our own, or socket addresses where it asks for those.
//!
//! A socket address is a host and a port, and so a number (PROTOCOL §3.16): a peer that is given as one is looked up there, and an
//! endpoint whose application wants one has a number for it, its own choice or any that is free.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs as _};

use packhorse::{Address, AddressError};

use crate::abi::format;
use crate::offer::ADDRESS_FORMAT;
use crate::place::Place;

/// The longest address.
pub(crate) const LEN_MAX: usize = 64;

/// The form of an application's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// Ours: an address, or a place.
    #[default]
    Own,
    /// `sockaddr_in`.
    V4,
    /// `sockaddr_in6`.
    V6,
}

impl Form {
    /// That of a format of libfabric, if it is offered.
    pub(crate) fn of(wish: u32) -> Option<Self> {
        match wish {
            0 | ADDRESS_FORMAT => Some(Self::Own),
            format::SOCKADDR | format::SOCKADDR_IN => Some(Self::V4),
            format::SOCKADDR_IN6 => Some(Self::V6),
            _ => None,
        }
    }

    pub(crate) fn format(self) -> u32 {
        match self {
            Self::Own => ADDRESS_FORMAT,
            Self::V4 => format::SOCKADDR_IN,
            Self::V6 => format::SOCKADDR_IN6,
        }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            Self::Own => LEN_MAX,
            Self::V4 => 16,
            Self::V6 => 28,
        }
    }
}

/// An address in one of the forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    bytes: [u8; LEN_MAX],
    form: Form,
}

impl Name {
    /// These bytes; zeros behind them if they are fewer than the form has.
    pub(crate) fn new(form: Form, given: &[u8]) -> Self {
        let (mut bytes, len) = ([0; LEN_MAX], given.len().min(form.len()));
        bytes[..len].copy_from_slice(&given[..len]);
        Self { bytes, form }
    }

    /// An address of ours.
    pub(crate) fn of_address(address: &Address) -> Self {
        Self { bytes: address.encode(), form: Form::Own }
    }

    /// A place, by one of its host's addresses where the form wants that; in words why not.
    pub(crate) fn of_place(form: Form, place: &Place) -> Result<Self, String> {
        match form {
            Form::Own => Ok(Self { bytes: place.encode(), form }),
            Form::V4 | Form::V6 => Ok(Self::of_socket(form, resolve(form, place)?)),
        }
    }

    /// A socket address. By IPv6 an IPv4 address has a form, too.
    pub(crate) fn of_socket(form: Form, at: SocketAddr) -> Self {
        let port = at.port().to_be_bytes();
        match (form, at.ip()) {
            (Form::V4, IpAddr::V4(ip)) => {
                let family = (libc::AF_INET as u16).to_ne_bytes();
                Self::new(form, &[&family[..], &port, &ip.octets()].concat())
            }
            (_, ip) => {
                let ip = match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                let scope = if let SocketAddr::V6(at) = at { at.scope_id() } else { 0 };
                let family = (libc::AF_INET6 as u16).to_ne_bytes();
                let parts = [&family[..], &port, &[0; 4], &ip.octets(), &scope.to_ne_bytes()];
                Self::new(Form::V6, &parts.concat())
            }
        }
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.form.len()]
    }

    /// The place it names, if it names one: an address of ours is none.
    pub(crate) fn place(&self) -> Option<Place> {
        match self.form {
            Form::Own => Place::decode(&self.bytes),
            Form::V4 | Form::V6 => self.socket().and_then(Place::at),
        }
    }

    /// The socket address, if it is one.
    fn socket(&self) -> Option<SocketAddr> {
        let bytes = &self.bytes;
        let family = i32::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        match (self.form, family) {
            (Form::V4, libc::AF_INET) => {
                Some((Ipv4Addr::from(*bytes[4..].first_chunk::<4>()?), port).into())
            }
            (Form::V6, libc::AF_INET6) => {
                let ip = Ipv6Addr::from(*bytes[8..].first_chunk::<16>()?);
                let scope = u32::from_ne_bytes(*bytes[24..].first_chunk::<4>()?);
                Some(SocketAddrV6::new(ip, port, 0, scope).into())
            }
            _ => None,
        }
    }

    /// For people: where it is, not its secret.
    pub(crate) fn text(&self) -> String {
        match (self.form, self.socket(), self.place()) {
            (Form::V4, Some(at), _) => format!("fi_sockaddr_in://{at}"),
            (Form::V6, Some(at), _) => format!("fi_sockaddr_in6://{at}"),
            (_, _, Some(place)) => place.text(),
            _ => match self.to_address() {
                Ok(Address { identity, .. }) => {
                    format!("packhorse://{:016x}.{:016x}", identity.host, identity.endpoint)
                }
                Err(_) => "packhorse://?".to_owned(),
            },
        }
    }

    /// The address, if it is one of ours.
    pub(crate) fn to_address(self) -> Result<Address, AddressError> {
        match self.form {
            Form::Own => Address::decode(&self.bytes),
            Form::V4 | Form::V6 => Err(AddressError::Encoding),
        }
    }
}

/// An address of the place's host that fits the form; the wildcard for this host.
fn resolve(form: Form, place: &Place) -> Result<SocketAddr, String> {
    let (host, port) = (place.host(), place.number().port());
    let any: IpAddr = match form {
        Form::V6 => Ipv6Addr::UNSPECIFIED.into(),
        Form::Own | Form::V4 => Ipv4Addr::UNSPECIFIED.into(),
    };
    if host.is_empty() {
        return Ok(SocketAddr::new(any, port));
    }
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|error| format!("node `{host}`: {error}"))?;
    let fits = |at: &SocketAddr| at.is_ipv4() == any.is_ipv4();
    found.into_iter().find(fits).ok_or_else(|| {
        format!("node `{host}` has no address of the family that addr_format asks for")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_addresses_come_back() {
        for (form, text) in [(Form::V4, "10.0.0.7:7471"), (Form::V6, "[fd00::7]:7471")] {
            let at: SocketAddr = text.parse().unwrap();
            let name = Name::of_socket(form, at);
            assert_eq!((name.as_slice().len(), name.socket()), (form.len(), Some(at)));
            assert_eq!(Form::of(form.format()), Some(form));
            let place = name.place().unwrap();
            assert_eq!((place.number().port(), Name::of_place(form, &place)), (7471, Ok(name)));
            assert!(name.text().ends_with(text), "{}", name.text());
        }
        let mapped = Name::of_socket(Form::V6, "10.0.0.7:1".parse().unwrap());
        assert!(mapped.text().contains("::ffff:10.0.0.7"), "{}", mapped.text());
    }

    #[test]
    fn a_port_of_a_low_number_is_that_number() {
        let place = Name::of_socket(Form::V4, "10.0.0.7:61447".parse().unwrap()).place().unwrap();
        assert_eq!(place.number().get(), 7);
    }

    #[test]
    fn nonsense_is_nowhere() {
        assert_eq!(Name::new(Form::V4, &[0; 16]).place(), None);
        assert_eq!(Name::new(Form::V6, &[0xFF; 28]).place(), None);
        let no_port = Name::of_socket(Form::V4, "10.0.0.7:0".parse().unwrap());
        assert_eq!(no_port.place(), None);
        assert_eq!(Form::of(4), None);
        let place = Place::new(Some("127.0.0.1"), "7").unwrap();
        assert!(Name::of_place(Form::V6, &place).unwrap_err().contains("family"));
    }
}
