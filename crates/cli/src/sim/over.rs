//! Real links for the nodes of a scenario, each with faults.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use packhorse_link::Link;
use packhorse_link::faults::{Faults, Faulty};
use packhorse_link::mem::Table;
use packhorse_link::shm::{Shm, ShmConfig};
use packhorse_link::udp::{Udp, UdpConfig};

/// Each fault happens to so many frames in a million.
const FAULT_PPM: u32 = 10_000;

/// Which links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// UDP on the loopback interface.
    Udp,
    /// Shared memory.
    Shm,
}

impl FromStr for Over {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "udp" => Ok(Self::Udp),
            "shm" => Ok(Self::Shm),
            other => Err(format!("no link {other:?}; there are: udp, shm")),
        }
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp => f.write_str("udp"),
            Self::Shm => f.write_str("shm"),
        }
    }
}

impl Over {
    /// The links of a node in the scenario of this seed.
    ///
    /// # Errors
    /// Of the link.
    pub fn open(&self, seed: u64, node: usize) -> io::Result<Vec<Box<dyn Link>>> {
        let link: Box<dyn Link> = match self {
            Self::Udp => {
                let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                let config = UdpConfig { bind, ..UdpConfig::default() };
                Box::new(Udp::open(&config).map_err(io::Error::other)?)
            }
            Self::Shm => Box::new(Shm::open(&ShmConfig::default()).map_err(io::Error::other)?),
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
