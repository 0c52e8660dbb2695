//! What the table of kinds says of shared memory.

use super::locate::LOCATORS;
use super::{Shm, ShmConfig};
use crate::Link;
use crate::kinds::{Auto, Ground, Kind, LinkError, Missing, Options};

/// Shared memory: `auto` adds it, for the peers of this host.
pub static KIND: Kind = Kind {
    name: "shm",
    locators: &LOCATORS,
    ground: Ground::Host,
    auto: Some(Auto { rank: 1, is_optional: true }),
    makes_flows: false,
    open,
    probe,
};

fn open(options: &Options) -> Result<Box<dyn Link>, LinkError> {
    let (cma, named_after) = (options.cma, options.address);
    Ok(Box::new(Shm::open(&ShmConfig { cma, named_after, ..ShmConfig::default() })?))
}

fn probe() -> Result<(), Missing> {
    Shm::open(&ShmConfig::default()).map(drop).map_err(Missing::because)
}
