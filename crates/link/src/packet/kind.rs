//! What the table of kinds says of raw Ethernet.

use super::{OnDemand, Packet, PacketConfig, PacketError};
use crate::ether::LOCATORS;
use crate::kinds::{Auto, Ground, Kind, LinkError, Missing, Options};
use crate::{Interface, Link};

/// Raw Ethernet: `auto` adds it where that is permitted.
pub static KIND: Kind = Kind {
    name: "packet",
    locators: &LOCATORS,
    ground: Ground::Card,
    auto: Some(Auto { rank: 3, is_optional: true }),
    makes_flows: false,
    open,
    probe,
};

fn open(options: &Options) -> Result<Box<dyn Link>, LinkError> {
    let config = PacketConfig {
        buffers_unprivileged: options.buffers_unprivileged,
        known_as: if options.is_discoverable { host_name() } else { None },
        ..PacketConfig::on(options.interface())
    };
    Ok(match options.is_on_demand {
        true => Box::new(OnDemand::prepare(&config)?),
        false => Box::new(Packet::open(&config)?),
    })
}

/// The name this host goes by.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

fn probe() -> Result<(), Missing> {
    let is_card = |interface: &Interface| interface.is_up && !interface.is_loopback;
    let card = crate::interfaces().into_iter().find(is_card);
    let card = card.ok_or_else(|| Missing::because("there is no Ethernet interface that is up"))?;
    Packet::open(&PacketConfig::on(&card.name)).map(drop).map_err(|error| match error {
        PacketError::NoRight { .. } => Missing::capabilities(&["CAP_NET_RAW"]),
        error => Missing::because(error),
    })
}
