//! How addresses look to an application: 64 bytes of our own, or socket addresses or text where it asks for those.
//!
//! A socket address is a host and a port, and so a number (PROTOCOL §3.16): a peer that is given as one is looked up there, and an
//! endpoint whose application wants one has a number for it, its own choice or any that is free. Text is one of
//!
//! ```text
//!   packhorse://ph1:…   packhorse://host:number   fi_sockaddr_in://10.0.0.7:7471   fi_sockaddr_in6://[fd00::7]:7471
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs as _};

use packhorse::{Address, AddressError};

use crate::abi::format;
use crate::offer::ADDRESS_FORMAT;
use crate::place::Place;

/// The length of an address in our own form.
pub(crate) const OWN_LEN: usize = 64;
/// The longest address: as text, with the zero behind it.
pub(crate) const LEN_MAX: usize = 128;
/// What stands before an address as text, and what before a socket address.
const SCHEME: &str = "packhorse://";
const SOCKET_SCHEMES: [&str; 2] = ["fi_sockaddr_in://", "fi_sockaddr_in6://"];

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
    /// Text.
    Text,
}

impl Form {
    /// That of a format of libfabric, if it is offered.
    pub(crate) fn of(wish: u32) -> Option<Self> {
        match wish {
            0 | ADDRESS_FORMAT => Some(Self::Own),
            format::SOCKADDR | format::SOCKADDR_IN => Some(Self::V4),
            format::SOCKADDR_IN6 => Some(Self::V6),
            format::STR => Some(Self::Text),
            _ => None,
        }
    }

    pub(crate) fn format(self) -> u32 {
        match self {
            Self::Own => ADDRESS_FORMAT,
            Self::V4 => format::SOCKADDR_IN,
            Self::V6 => format::SOCKADDR_IN6,
            Self::Text => format::STR,
        }
    }

    /// Bytes of an address; text has as many as it has.
    pub(crate) fn len(self) -> Option<usize> {
        match self {
            Self::Own => Some(OWN_LEN),
            Self::V4 => Some(16),
            Self::V6 => Some(28),
            Self::Text => None,
        }
    }
}

/// An address in one of the forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    bytes: [u8; LEN_MAX],
    len: u8,
    form: Form,
}

/// What an address as text means.
enum Meaning {
    Address(Address),
    Place(Place),
}

fn read(text: &str) -> Option<Meaning> {
    let own = text.strip_prefix(SCHEME).or((!text.contains("://")).then_some(text));
    if let Some(Ok(address)) = own.map(str::parse) {
        return Some(Meaning::Address(address));
    }
    let socket = || SOCKET_SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
    let (host, number) = own.or_else(socket)?.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let place = Place::new(Some(bare.unwrap_or(host)), number).ok()?;
    Some(Meaning::Place(place))
}

impl Name {
    /// These bytes; zeros behind them if they are fewer than the form has. What is too long for text is cut, and no address.
    pub(crate) fn new(form: Form, given: &[u8]) -> Self {
        let given = &given[..given.len().min(form.len().unwrap_or(LEN_MAX - 1))];
        let mut bytes = [0; LEN_MAX];
        bytes[..given.len()].copy_from_slice(given);
        Self { bytes, len: form.len().unwrap_or(given.len() + 1) as u8, form }
    }

    /// An address of ours, in our form or as text.
    pub(crate) fn of_address(form: Form, address: &Address) -> Self {
        match form {
            Form::Text => Self::new(form, format!("{SCHEME}{address}").as_bytes()),
            _ => Self::new(Form::Own, &address.encode()),
        }
    }

    /// A place, by one of its host's addresses where the form wants that; in words why not.
    pub(crate) fn of_place(form: Form, place: &Place) -> Result<Self, String> {
        match form {
            Form::Own => Ok(Self::new(form, &place.encode())),
            Form::Text => Ok(Self::new(form, place.text().as_bytes())),
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
        &self.bytes[..usize::from(self.len)]
    }

    /// The place it names, if it names one: an address of ours is none.
    pub(crate) fn place(&self) -> Option<Place> {
        match self.form {
            Form::Own => Place::decode(self.bytes.first_chunk()?),
            Form::V4 | Form::V6 => self.socket().and_then(Place::at),
            Form::Text => match read(self.as_text()?)? {
                Meaning::Place(place) => Some(place),
                Meaning::Address(_) => None,
            },
        }
    }

    /// Without the zero behind it.
    fn as_text(&self) -> Option<&str> {
        std::str::from_utf8(self.as_slice().strip_suffix(&[0])?).ok()
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
            Form::Own => {
                self.bytes.first_chunk().map_or(Err(AddressError::Encoding), Address::decode)
            }
            Form::V4 | Form::V6 => Err(AddressError::Encoding),
            Form::Text => match self.as_text().and_then(read) {
                Some(Meaning::Address(address)) => Ok(address),
                _ => Err(AddressError::Encoding),
            },
        }
    }
}

/// An address of the place's host that fits the form; the wildcard for this host.
fn resolve(form: Form, place: &Place) -> Result<SocketAddr, String> {
    let (host, port) = (place.host(), place.number().port());
    let any: IpAddr = match form {
        Form::V6 => Ipv6Addr::UNSPECIFIED.into(),
        Form::Own | Form::V4 | Form::Text => Ipv4Addr::UNSPECIFIED.into(),
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
            assert_eq!((Some(name.as_slice().len()), name.socket()), (form.len(), Some(at)));
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
    fn text_is_an_address_or_a_place() {
        let place = |text: &str| Name::new(Form::Text, text.as_bytes()).place();
        let there = Place::new(Some("node7"), "42").ok();
        assert_eq!((place("packhorse://node7:42"), place("node7:42")), (there.clone(), there));
        let socket = Place::new(Some("fd00::7"), "7471").ok();
        assert_eq!(place("fi_sockaddr_in6://[fd00::7]:7471"), socket);
        for nonsense in ["", ":", "node7", "node7:http", "fi_shm://7:7", "node7:70000"] {
            assert_eq!(place(nonsense), None, "{nonsense}");
        }
        assert_eq!(place(&"x".repeat(1000)), None);
        let name = Name::of_place(Form::Text, &Place::new(Some("node7"), "42").unwrap()).unwrap();
        assert_eq!(name.as_slice(), b"packhorse://node7:42\0");
        assert!(name.to_address().is_err());
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
