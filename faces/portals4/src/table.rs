//! The portal table.

use crate::abi::{EQ_NONE, Handle, PT_ANY};
use crate::codes::{Code, of_core};
use crate::handles::{Kind, number};
use crate::interfaces::opened;

/// `wanted` may be `PT_ANY`. The index.
pub(crate) fn alloc(ni: Handle, options: u32, eq: Handle, wanted: u32) -> Result<u32, Code> {
    let this = opened(ni)?;
    let queue = if eq == EQ_NONE { None } else { Some(number(Kind::Queue, eq)?) };
    let wanted = (wanted != PT_ANY).then_some(wanted);
    let engine = this.node.engine();
    let added =
        engine.with_portals(|portals| portals.add_portal(this.kind, options, queue, wanted));
    added.map_err(of_core)
}

pub(crate) fn free(ni: Handle, index: u32) -> Result<(), Code> {
    let this = opened(ni)?;
    let freed = this.node.engine().with_portals(|portals| portals.free_portal(this.kind, index));
    freed.map_err(of_core)
}

/// Returns when no message is moving there any more.
pub(crate) fn disable(ni: Handle, index: u32) -> Result<(), Code> {
    let this = opened(ni)?;
    let engine = this.node.engine();
    let disabled = engine.with_portals(|portals| portals.enable_portal(this.kind, index, false));
    disabled.map_err(of_core)?;
    engine.wait_portals(None, |portals| (!portals.is_portal_busy(this.kind, index)).then_some(()));
    Ok(())
}

pub(crate) fn enable(ni: Handle, index: u32) -> Result<(), Code> {
    let this = opened(ni)?;
    let engine = this.node.engine();
    let enabled = engine.with_portals(|portals| portals.enable_portal(this.kind, index, true));
    enabled.map_err(of_core)
}
