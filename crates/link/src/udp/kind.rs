//! What the table of kinds says of UDP.

use super::locate::LOCATORS;
use super::{Udp, UdpConfig};
use crate::Link;
use crate::kinds::{Auto, Ground, Kind, LinkError, Missing, Options};

/// UDP: needs no rights and leads to every host, so `auto` begins with it.
pub static KIND: Kind = Kind {
    name: "udp",
    locators: &LOCATORS,
    ground: Ground::Address,
    auto: Some(Auto { rank: 0, is_optional: false }),
    makes_flows: true,
    open,
    probe,
};

fn open(options: &Options) -> Result<Box<dyn Link>, LinkError> {
    let (bind, interface) = options.socket();
    let config = UdpConfig {
        bind,
        interface,
        ports: options.ports.clone(),
        gso: options.trains,
        gro: options.trains,
        buffers_unprivileged: options.buffers_unprivileged,
        ..UdpConfig::default()
    };
    Ok(Box::new(Udp::open(&config)?))
}

fn probe() -> Result<(), Missing> {
    Udp::open(&UdpConfig::default()).map(drop).map_err(Missing::because)
}
