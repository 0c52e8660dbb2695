//! Host and number, where libfabric wants an address: as long as our addresses, told from them by how it begins.
//!
//! ```text
//!  0  "packhorse place1"   16  number u16   18  length of the host's name u8   19  name, then zeros   64
//! ```
//!
//! `fi_getinfo` makes one of node and service: for a server (`FI_SOURCE`) the place where it wants to be found, for a client the one where
//! it looks. An endpoint that is opened with the first gets that number; `fi_av_insert` of the second looks there. Both are
//! PROTOCOL §3.16 and what follows it. No address of ours begins so: one that did would be another secret than was drawn.

use std::net::{IpAddr, ToSocketAddrs as _};

use packhorse::{Address, Builder, Endpoint, Error, LookUp, Number};

use crate::av::ADDRESS_LEN;

const MARK: &[u8; 16] = b"packhorse place1";
const NAME_AT: usize = 19;
/// Longest name of a host: what is left of an address. An IPv6 address as text fits.
const NAME_LEN_MAX: usize = ADDRESS_LEN - NAME_AT;

/// A host and a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Empty: this host.
    host: String,
    number: Number,
}

impl Place {
    /// Of `fi_getinfo`'s node and service; in words why not.
    pub(crate) fn new(node: Option<&str>, service: &str) -> Result<Self, String> {
        let number = service.trim().parse::<u16>().map_err(|_| {
            format!("service `{service}`: an endpoint is found by a number, 0 to 65535")
        })?;
        let host = node.unwrap_or_default();
        if host.len() > NAME_LEN_MAX {
            return Err(format!(
                "node `{host}`: a host's name has {NAME_LEN_MAX} letters here at most; give its IP address"
            ));
        }
        Ok(Self { host: host.to_owned(), number: number.into() })
    }

    pub(crate) fn encode(&self) -> [u8; ADDRESS_LEN] {
        let mut bytes = [0; ADDRESS_LEN];
        bytes[..16].copy_from_slice(MARK);
        bytes[16..18].copy_from_slice(&self.number.get().to_le_bytes());
        bytes[18] = self.host.len() as u8;
        bytes[NAME_AT..][..self.host.len()].copy_from_slice(self.host.as_bytes());
        bytes
    }

    /// What these bytes name, if they are a place.
    pub(crate) fn decode(bytes: &[u8; ADDRESS_LEN]) -> Option<Self> {
        let number = u16::from_le_bytes([bytes[16], bytes[17]]);
        let name = bytes[NAME_AT..].get(..usize::from(bytes[18]))?;
        let host = std::str::from_utf8(name).ok().filter(|_| bytes.starts_with(MARK))?;
        Some(Self { host: host.to_owned(), number: number.into() })
    }

    /// As people write it.
    pub(crate) fn text(&self) -> String {
        format!("packhorse://{}:{}", self.host, self.number)
    }

    /// The address of the endpoint there. Waits for it, 5 s at most.
    pub(crate) fn look_up(&self) -> Result<Address, Error> {
        let host = if self.host.is_empty() { "localhost" } else { &self.host };
        Ok(LookUp::from_environment(host, self.number)?.wait()?.address)
    }

    /// An endpoint that is found here, as the environment says otherwise.
    pub(crate) fn open(&self) -> Result<Endpoint, Error> {
        let builder = Builder::new().named(self.number);
        match self.local_ip()? {
            Some(ip) => builder.bind(ip).open(),
            None => builder.open(),
        }
    }

    /// The address of this host to be found at; without one all.
    fn local_ip(&self) -> Result<Option<IpAddr>, Error> {
        if self.host.is_empty() {
            return Ok(None);
        }
        let what = "resolving the source node";
        let found = (self.host.as_str(), 0).to_socket_addrs();
        let mut found = found.map_err(|error| Error::System { what, error })?;
        // The endpoint's sockets are IPv4 without a word; where the name has both, so is this.
        let all: Vec<IpAddr> = found.by_ref().map(|place| place.ip()).collect();
        let ip = all.iter().find(|ip| ip.is_ipv4()).or(all.first());
        Ok(ip.copied().filter(|ip| !ip.is_unspecified()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_and_addresses_are_none() {
        for node in [None, Some("node7"), Some("2001:db8:1234:5678:9abc:def0:1234:5678")] {
            let place = Place::new(node, "7471").unwrap();
            assert_eq!(Place::decode(&place.encode()), Some(place.clone()));
            assert!(Address::decode(&place.encode()).is_err(), "no address looks so");
            assert_eq!(place.text(), format!("packhorse://{}:7471", node.unwrap_or_default()));
        }
        let address = Endpoint::local().unwrap().address();
        assert_eq!(Place::decode(&address.encode()), None);
        let mut torn = Place::new(Some("node7"), "1").unwrap().encode();
        torn[18] = 46;
        assert_eq!(Place::decode(&torn), None, "longer than there is room");
        torn[18] = 1;
        torn[NAME_AT] = 0xFF;
        assert_eq!(Place::decode(&torn), None, "no text");
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        for service in ["http", "65536", "-1", ""] {
            assert!(Place::new(None, service).unwrap_err().contains("0 to 65535"), "{service}");
        }
        let long = "n".repeat(NAME_LEN_MAX + 1);
        assert!(Place::new(Some(&long), "1").unwrap_err().contains("IP address"));
    }
}
