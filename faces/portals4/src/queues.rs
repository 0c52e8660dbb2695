//! Event queues.

use std::time::Duration;

use packhorse::raw::portals::{Portals, PortalsEvent, codes::interface};

use crate::abi::{Event, Handle, Process};
use crate::codes::{self, Code, of_core};
use crate::handles::{Kind, handle, number};
use crate::interfaces::{check_aborted, node, opened};

/// An event, and whether some before it are lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) event: Event,
    pub(crate) which: usize,
    pub(crate) are_some_lost: bool,
}

pub(crate) fn alloc(ni: Handle, count: u64) -> Result<Handle, Code> {
    let this = opened(ni)?;
    let added = this.node.engine().with_portals(|portals| portals.add_queue(this.kind, count));
    added.map(|queue| handle(Kind::Queue, queue)).map_err(of_core)
}

pub(crate) fn free(eq: Handle) -> Result<(), Code> {
    let eq = number(Kind::Queue, eq)?;
    node()?.engine().with_portals(|portals| portals.free_queue(eq)).map_err(of_core)
}

/// The first event of the first queue that has one.
fn take(portals: &mut Portals, queues: &[u32]) -> Option<Result<Told, Code>> {
    for (which, &queue) in queues.iter().enumerate() {
        let taken = match portals.take_event(queue) {
            Ok(Some(taken)) => taken,
            Ok(None) => continue,
            Err(error) => return Some(Err(of_core(error))),
        };
        let ni = portals.queue_interface(queue).unwrap_or(0);
        let event = event_of(&taken.event, ni);
        return Some(Ok(Told { event, which, are_some_lost: taken.has_lost }));
    }
    None
}

fn event_of(event: &PortalsEvent, ni: u8) -> Event {
    let pid = if ni & interface::LOGICAL == 0 { (event.initiator >> 32) as u32 } else { 0 };
    Event {
        start: std::ptr::with_exposed_provenance_mut(event.start as usize),
        user_ptr: std::ptr::with_exposed_provenance_mut(event.user as usize),
        hdr_data: event.header,
        match_bits: event.bits,
        rlength: event.asked_len,
        mlength: event.moved_len,
        remote_offset: event.offset,
        initiator: Process { rank_or_nid: event.initiator as u32, pid },
        uid: event.uid,
        pt_index: event.portal,
        kind: event.kind,
        list: event.list,
        ni_fail_type: event.fail,
        atomic_operation: event.op,
        atomic_type: event.datatype,
    }
}

/// Does not wait: `PTL_EQ_EMPTY` if there is none.
pub(crate) fn get(eq: Handle) -> Result<Told, Code> {
    let queues = [number(Kind::Queue, eq)?];
    let found = node()?.engine().poll_portals(|portals| take(portals, &queues));
    found.unwrap_or(Err(codes::EQ_EMPTY))
}

/// Waits for an event of any of these; `None` waits for ever.
pub(crate) fn wait(queues: &[Handle], longest_ms: Option<u32>) -> Result<Told, Code> {
    check_aborted()?;
    if queues.is_empty() {
        return Err(codes::ARG_INVALID);
    }
    let queues = queues.iter().map(|&eq| number(Kind::Queue, eq));
    let queues: Vec<u32> = queues.collect::<Result<_, Code>>()?;
    let node = node()?;
    let ready = |portals: &mut Portals| match check_aborted() {
        Err(code) => Some(Err(code)),
        Ok(()) => take(portals, &queues),
    };
    let found = match longest_ms {
        Some(0) => node.engine().poll_portals(ready),
        longest => {
            let longest = longest.map(|ms| Duration::from_millis(ms.into()));
            node.engine().wait_portals(longest, ready)
        }
    };
    found.unwrap_or(Err(codes::EQ_EMPTY))
}
