//! What the table of kinds says of XDP.

use super::{Xdp, XdpConfig, missing_capabilities};
use crate::Link;
use crate::kinds::{Ground, Kind, LinkError, Missing, Options};

/// XDP: takes an interface for itself, so it is used by name only. Its frames and locators are those of `packet`.
pub static KIND: Kind = Kind {
    name: "xdp",
    locators: &crate::ether::LOCATORS,
    ground: Ground::Card,
    auto: None,
    makes_flows: false,
    open,
    probe,
};

fn open(options: &Options) -> Result<Box<dyn Link>, LinkError> {
    Ok(Box::new(Xdp::open(&XdpConfig::on(options.interface()))?))
}

/// Nothing is attached to find out: only rights are looked at.
fn probe() -> Result<(), Missing> {
    let missing = missing_capabilities();
    if missing.is_empty() { Ok(()) } else { Err(Missing::capabilities(&missing)) }
}
