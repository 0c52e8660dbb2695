//! Host and number, where libfabric wants an address: as long as our addresses, told from them by how it begins.
//!
//! ```text
//!  0  "packhorse place1"   16  number u16   18  length of the host's name u8   19  name, then zeros   64
//! ```
//!
//! `fi_getinfo` makes one of node and service: for a server (`FI_SOURCE`) the place where it wants to be found, for a client the one where
//! it looks. An endpoint that is opened with the first gets that number; `fi_av_insert` of the second looks there. Both are
//! PROTOCOL §3.16 and what follows it. No address of ours begins so: one that did would be another secret than was drawn.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use packhorse::{Address, Builder, Endpoint, Error, LookUp, Number};

use crate::form::OWN_LEN as ADDRESS_LEN;

/// Numbers that nobody chose are from here on: below those that Linux gives to a socket that asks for any port.
const FIRST_FREE: u16 = 28_000;
/// Places that are entered at once at most.
const COUNT_MAX: usize = 1 << 16;
const MARK: &[u8; 16] = b"packhorse place1";
/// Instead of the mark: the source of an endpoint that wants to be found nowhere. It has an address once it is enabled.
const NOWHERE: &[u8; 16] = b"packhorse nowhr1";
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

    /// At a socket address; none without a port. The wildcard is this host.
    pub(crate) fn at(at: SocketAddr) -> Option<Self> {
        let host = if at.ip().is_unspecified() { String::new() } else { host_of(at) };
        (at.port() > 0).then(|| Self { host, number: at.port().into() })
    }

    /// What stands for a source where none was asked for: libfabric's programs expect one before an endpoint has an address.
    pub(crate) fn nowhere() -> [u8; ADDRESS_LEN] {
        let mut bytes = [0; ADDRESS_LEN];
        bytes[..16].copy_from_slice(NOWHERE);
        bytes
    }

    /// Whether its host's name stands for an address; in words why not.
    pub(crate) fn resolve(&self) -> Result<(), String> {
        let (host, port) = (self.host.as_str(), self.number.port());
        if host.is_empty() {
            return Ok(());
        }
        let found = (host, port).to_socket_addrs();
        found.map(drop).map_err(|error| format!("node `{host}`: no such host ({error})"))
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn number(&self) -> Number {
        self.number
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

/// Places of hosts and numbers that follow each other: names of hosts differ in the number they end with, as do IPv4 addresses.
pub(crate) fn row(
    node: &str,
    node_count: usize,
    service: &str,
    service_count: usize,
) -> Result<Vec<Place>, String> {
    let digits = node.len() - node.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (stem, first) = node.split_at(node.len() - digits);
    let first_number = first.parse::<usize>();
    if (node_count > 1 && first_number.is_err())
        || node_count.saturating_mul(service_count) > COUNT_MAX
    {
        return Err(format!(
            "{node_count} nodes from `{node}` on: a name must end with a number, and {COUNT_MAX} places are the most"
        ));
    }
    let first_number = first_number.unwrap_or(0); // of one host alone no number is needed
    let base = Place::new(Some(node), service)?.number.get();
    let hosts = (0..node_count).map(|count| match count {
        0 => node.to_owned(),
        _ => format!("{stem}{:0digits$}", first_number.saturating_add(count)),
    });
    let place = |host: &str, count: usize| {
        let number = usize::from(base) + count;
        Place::new(Some(host), &number.to_string())
    };
    let all = hosts.flat_map(|host| (0..service_count).map(move |count| place(&host, count)));
    all.collect()
}

/// The host of a socket address as text; one of a single cable with the number of its interface.
fn host_of(at: SocketAddr) -> String {
    match at {
        SocketAddr::V6(v6) if v6.scope_id() > 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
        _ => at.ip().to_canonical().to_string(),
    }
}

/// An endpoint with any number that is free: its application wants socket addresses.
pub(crate) fn open_anywhere() -> Result<Endpoint, Error> {
    // Processes start at different numbers, so that two that open at the same time seldom meet.
    let start = (std::process::id() as u16 % 500) * 8;
    let numbers = (0..4_000_u16).map(|count| FIRST_FREE + (start + count) % 4_000);
    Builder::new().named_one_of(numbers).open()
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
    fn rows_of_places_count_hosts_and_numbers() {
        let texts = |node, nodes, service, services| -> Vec<String> {
            let row = row(node, nodes, service, services).unwrap();
            row.iter().map(|place| format!("{}:{}", place.host, place.number)).collect()
        };
        assert_eq!(texts("n09", 2, "70", 2), ["n09:70", "n09:71", "n10:70", "n10:71"]);
        assert_eq!(texts("10.0.0.8", 3, "7", 1), ["10.0.0.8:7", "10.0.0.9:7", "10.0.0.10:7"]);
        assert_eq!(texts("server", 1, "7", 1), ["server:7"]);
        assert!(texts("server", 0, "7", 3).is_empty());
        assert!(row("server", 2, "7", 1).unwrap_err().contains("end with a number"));
        let long = format!("n{}", "9".repeat(30));
        assert!(row(&long, 2, "7", 1).is_err(), "no number that can be counted on from");
        assert!(row("n1", 1, "65535", 2).unwrap_err().contains("0 to 65535"));
        assert!(row("n1", usize::MAX, "1", 2).is_err());
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
