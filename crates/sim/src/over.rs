//! Real links for the nodes of a scenario, each with faults.

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::str::FromStr;

use packhorse_link::Link;
use packhorse_link::faults::{Faults, Faulty};
use packhorse_link::kinds::{self, Ground, KINDS, Kind, On, Options};
use packhorse_link::mem::Table;

/// Each fault happens to so many frames in a million.
const FAULT_PPM: u32 = 10_000;

/// Which links: all of one kind, on the loopback interface or in memory; those of a kind that needs a card have an interface
/// for each node, all of them on one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    kind: &'static Kind,
    interfaces: Vec<String>,
}

impl FromStr for Over {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, names) = text.split_once(':').unwrap_or((text, ""));
        let interfaces: Vec<String> =
            names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        kinds::by_name(name)
            .filter(|kind| (kind.ground == Ground::Card) != interfaces.is_empty())
            .map(|kind| Self { kind, interfaces })
            .ok_or_else(|| {
                let known = KINDS.map(|kind| match kind.ground {
                    Ground::Card => {
                        format!("{}:IF,IF,… with an interface for each node", kind.name)
                    }
                    Ground::Address | Ground::Host => kind.name.to_owned(),
                });
                format!("no link {text:?}; there are: {}", known.join("; "))
            })
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name)?;
        if self.interfaces.is_empty() {
            return Ok(());
        }
        write!(f, ":{}", self.interfaces.join(","))
    }
}

impl Over {
    /// The interface of a node, if this kind needs one.
    fn interface(&self, node: usize) -> io::Result<Option<On>> {
        if self.kind.ground != Ground::Card {
            return Ok(None);
        }
        let too_few = || {
            let count = self.interfaces.len();
            let why = format!("this scenario has more than {count} nodes: name more interfaces");
            io::Error::new(io::ErrorKind::InvalidInput, why)
        };
        let name = self.interfaces.get(node).ok_or_else(too_few)?;
        Ok(Some(On { name: name.clone(), index: 0, ip: None }))
    }

    /// The links of a node in the scenario of this seed.
    ///
    /// # Errors
    /// Of the link.
    pub fn open(&self, seed: u64, node: usize) -> io::Result<Vec<Box<dyn Link>>> {
        let on = self.interface(node)?;
        let options = Options { on, bind: Ipv4Addr::LOCALHOST.into(), ..Options::default() };
        let link = (self.kind.open)(&options).map_err(io::Error::other)?;
        let faults = Faults {
            seed: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(node as u64),
            loss_ppm: FAULT_PPM,
            duplicate_ppm: FAULT_PPM,
            reorder_ppm: FAULT_PPM,
            corrupt_ppm: FAULT_PPM,
            ..Faults::default()
        };
        Ok(vec![Box::new(Faulty::new::<Table>(link, faults))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_named_with_interfaces_where_they_need_them() {
        for name in ["udp", "tcp", "shm", "packet:a,b", "xdp:a,b"] {
            assert_eq!(name.parse::<Over>().unwrap().to_string(), name);
        }
        for name in ["packet", "udp:a", "token-ring", ""] {
            let error = name.parse::<Over>().unwrap_err();
            assert!(error.contains("udp; tcp; packet:IF"), "{error}");
        }
        let few: Over = "packet:a".parse().unwrap();
        let error = few.open(1, 1).err().expect("the second node has no interface").to_string();
        assert!(error.contains("name more interfaces"), "{error}");
    }
}
