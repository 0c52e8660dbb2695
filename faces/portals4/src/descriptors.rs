//! Memory descriptors.

use packhorse::raw::is_there;
use packhorse::raw::portals::{DescriptorSpec, IsThere};

use crate::abi::{EQ_NONE, Handle, Md};
use crate::codes::{Code, of_core};
use crate::counters;
use crate::handles::{Kind, handle, number};
use crate::interfaces::{node, opened};
use crate::memory::Named;

pub(crate) fn bind(ni: Handle, md: &Md, memory: Named) -> Result<Handle, Code> {
    let this = opened(ni)?;
    let queue =
        if md.eq_handle == EQ_NONE { None } else { Some(number(Kind::Queue, md.eq_handle)?) };
    let counter = counters::named(md.ct_handle)?;
    let (len, options) = (memory.len(), md.options);
    let asks = memory.is_window().then_some(is_there as IsThere);
    let bound = this.node.engine().try_portals_with(memory.lend(), |portals, buf| {
        let spec = DescriptorSpec { buf, len, options, queue, counter, asks };
        portals.add_descriptor(this.kind, spec)
    });
    bound.map(|bound| handle(Kind::Descriptor, bound)).map_err(of_core)
}

pub(crate) fn release(md: Handle) -> Result<(), Code> {
    let md = number(Kind::Descriptor, md)?;
    node()?.engine().with_portals(|portals| portals.release_descriptor(md)).map_err(of_core)
}
