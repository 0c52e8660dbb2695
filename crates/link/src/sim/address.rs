//! Who is on the network, and what their addresses look like from outside.
//!
//! A locator is 24 bytes that only links understand. Ours names node and port and, because a host
//! can get a new address, a *generation*: [`SimNet::rebind`](super::SimNet::rebind) moves a port to
//! the next one, and what is sent to the former no longer arrives. It shows the *network* the port is on, as the subnet
//! does in an IP address.

use crate::Locator;
use crate::ether::Station;
use crate::kinds::{Locators, Look};
use crate::pcapng::number_of;

/// The first byte of each of our locators, so that a mangled one is likely to be noticed.
const MARK: u8 = b'V';

/// How they are read. In a capture a port is an endpoint on Ethernet.
pub(crate) static LOCATORS: Locators = Locators {
    mark: MARK,
    show: |locator| {
        let Port { node, port } = Port::from_locator(locator)?;
        Some(format!("port {port} of node {node}"))
    },
    place_of: |_| None,
    look_of: |locator| {
        let mac = Port::from_locator(locator)?.to_mac();
        Some(Look::Station(Station { mac, endpoint: number_of(mac) }))
    },
    is_silence_shared: false,
    leads_home: true,
};

/// A host on the simulated network; numbered from 0 as they are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// One of the node's ports.
    pub const fn port(self, port: u8) -> Port {
        Port { node: self.0, port }
    }
}

/// One network interface of a node: a local link, a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port {
    /// The node.
    pub node: u32,
    /// Which of its ports, from 0.
    pub port: u8,
}

impl Port {
    /// Stands in events where a frame was sent to bytes that are no locator of ours.
    pub const NOWHERE: Self = Self { node: u32::MAX, port: u8::MAX };

    /// The node this port belongs to.
    pub const fn node_id(self) -> NodeId {
        NodeId(self.node)
    }

    /// The locator a port starts with; [`SimNet::locator`](super::SimNet::locator) gives the one it
    /// has now.
    pub const fn to_locator(self) -> Locator {
        self.to_locator_at(0)
    }

    /// The locator in its n-th generation.
    pub const fn to_locator_at(self, generation: u32) -> Locator {
        let (n, g) = (self.node.to_le_bytes(), generation.to_le_bytes());
        let mut locator = [0; 24];
        (locator[0], locator[1]) = (MARK, self.port);
        let mut at = 0;
        while at < 4 {
            locator[4 + at] = n[at];
            locator[8 + at] = g[at];
            at += 1;
        }
        locator
    }

    /// The port a locator speaks of, of whichever generation; `None` if it is none of ours.
    pub fn from_locator(locator: &Locator) -> Option<Self> {
        let padding = locator[3..4].iter().chain(&locator[12..]);
        if locator[0] != MARK || padding.copied().any(|byte| byte != 0) {
            return None;
        }
        Some(Self { node: le_u32(locator, 4), port: locator[1] })
    }

    /// A locally administered Ethernet address for captures: `02:port:node`.
    pub const fn to_mac(self) -> [u8; 6] {
        let n = self.node.to_be_bytes();
        [0x02, self.port, n[0], n[1], n[2], n[3]]
    }
}

/// The network that the port of a locator is on; `None` if it is none of ours.
pub fn network(locator: &Locator) -> Option<u8> {
    Port::from_locator(locator).map(|_| locator[2])
}

/// How often the port had been rebound when this locator was made; `None` if it is none of ours.
pub fn generation(locator: &Locator) -> Option<u32> {
    Port::from_locator(locator).map(|_| le_u32(locator, 8))
}

fn le_u32(locator: &Locator, at: usize) -> u32 {
    u32::from_le_bytes([locator[at], locator[at + 1], locator[at + 2], locator[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locators_come_back_as_their_ports() {
        for port in [NodeId(0).port(0), NodeId(0x0102_0304).port(7), Port::NOWHERE] {
            for round in [0, 1, u32::MAX] {
                let locator = port.to_locator_at(round);
                assert_eq!(Port::from_locator(&locator), Some(port));
                assert_eq!(generation(&locator), Some(round));
            }
        }
    }

    #[test]
    fn foreign_bytes_are_no_locator() {
        assert_eq!(Port::from_locator(&[0; 24]), None);
        assert_eq!(crate::show(&NodeId(3).port(1).to_locator()), "port 1 of node 3");
        for at in [0, 3, 12, 23] {
            let mut locator = NodeId(1).port(1).to_locator();
            locator[at] ^= 0x10;
            assert_eq!((Port::from_locator(&locator), generation(&locator)), (None, None));
        }
    }
}
