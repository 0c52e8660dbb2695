//! What the table of kinds says of TCP.

use super::locate::LOCATORS;
use super::{Tcp, TcpConfig};
use crate::Link;
use crate::kinds::{Auto, Ground, Kind, LinkError, Missing, Options};

/// TCP: `auto` has it for what is long.
pub static KIND: Kind = Kind {
    name: "tcp",
    locators: &LOCATORS,
    ground: Ground::Address,
    auto: Some(Auto { rank: 2, is_optional: true }),
    makes_flows: false,
    open,
    probe,
};

fn open(options: &Options) -> Result<Box<dyn Link>, LinkError> {
    let (bind, interface) = options.socket();
    let ports = options.ports.clone();
    let is_beside = options.flow > 0;
    let config = TcpConfig { bind, interface, ports, is_beside, ..TcpConfig::default() };
    Ok(Box::new(Tcp::open(&config)?))
}

fn probe() -> Result<(), Missing> {
    Tcp::open(&TcpConfig::default()).map(drop).map_err(Missing::because)
}
