//! Real links for the nodes of a scenario, each with faults.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use packhorse_link::Link;
use packhorse_link::faults::{Faults, Faulty};
use packhorse_link::mem::Table;
use packhorse_link::packet::{Packet, PacketConfig};
use packhorse_link::shm::{Shm, ShmConfig};
use packhorse_link::tcp::{Tcp, TcpConfig};
use packhorse_link::udp::{Udp, UdpConfig};
use packhorse_link::xdp::{Xdp, XdpConfig};

/// Each fault happens to so many frames in a million.
const FAULT_PPM: u32 = 10_000;

/// Which links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// UDP on the loopback interface.
    Udp,
    /// TCP on the loopback interface.
    Tcp,
    /// Shared memory.
    Shm,
    /// Raw Ethernet, each node on an interface of its own; all of them are on one segment.
    Packet(Vec<String>),
    /// The same, each with its interface to itself.
    Xdp(Vec<String>),
}

impl FromStr for Over {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, names) = text.split_once(':').unwrap_or((text, ""));
        let names: Vec<String> =
            names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        match (kind, names.is_empty()) {
            ("udp", true) => Ok(Self::Udp),
            ("tcp", true) => Ok(Self::Tcp),
            ("shm", true) => Ok(Self::Shm),
            ("packet", false) => Ok(Self::Packet(names)),
            ("xdp", false) => Ok(Self::Xdp(names)),
            _ => Err(format!(
                "no link {text:?}; there are: udp, tcp, shm, packet:IF,IF,… and xdp:IF,IF,… with an interface for each node"
            )),
        }
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp => f.write_str("udp"),
            Self::Tcp => f.write_str("tcp"),
            Self::Shm => f.write_str("shm"),
            Self::Packet(names) => write!(f, "packet:{}", names.join(",")),
            Self::Xdp(names) => write!(f, "xdp:{}", names.join(",")),
        }
    }
}

fn name_of(names: &[String], node: usize) -> io::Result<&str> {
    let too_few = || {
        let why =
            format!("this scenario has more than {} nodes: name more interfaces", names.len());
        io::Error::new(io::ErrorKind::InvalidInput, why)
    };
    names.get(node).map(String::as_str).ok_or_else(too_few)
}

impl Over {
    /// The links of a node in the scenario of this seed.
    ///
    /// # Errors
    /// Of the link.
    pub fn open(&self, seed: u64, node: usize) -> io::Result<Vec<Box<dyn Link>>> {
        let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let link: Box<dyn Link> = match self {
            Self::Tcp => Box::new(Tcp::open(&TcpConfig::at(bind)).map_err(io::Error::other)?),
            Self::Udp => {
                let config = UdpConfig { bind, ..UdpConfig::default() };
                Box::new(Udp::open(&config).map_err(io::Error::other)?)
            }
            Self::Shm => Box::new(Shm::open(&ShmConfig::default()).map_err(io::Error::other)?),
            Self::Packet(names) => {
                let config = PacketConfig::on(name_of(names, node)?);
                Box::new(Packet::open(&config).map_err(io::Error::other)?)
            }
            Self::Xdp(names) => {
                let config = XdpConfig::on(name_of(names, node)?);
                Box::new(Xdp::open(&config).map_err(io::Error::other)?)
            }
        };
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
