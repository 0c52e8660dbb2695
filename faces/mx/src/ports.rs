//! The endpoints of this process by their handles.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::codes::{self, Code};
use crate::port::Port;

/// Endpoints of a process at most: a place has 8 bits in addresses and handles of requests.
pub(crate) const PORT_COUNT_MAX: usize = 256;

/// `mx_endpoint_t`: how many were opened before it, from 1 on, and its place.
pub(crate) type Handle = u64;

type PortCell = RwLock<Option<(Handle, Arc<Port>)>>;

static PORTS: [PortCell; PORT_COUNT_MAX] = [const { RwLock::new(None) }; PORT_COUNT_MAX];
static OPENED: AtomicU32 = AtomicU32::new(0);
static OPEN: AtomicU32 = AtomicU32::new(0);

/// A place for an endpoint that is made with it and its serial number.
pub(crate) fn insert(
    make: impl FnOnce(u8, u32) -> Result<Arc<Port>, Code>,
) -> Result<Handle, Code> {
    for (place, number) in PORTS.iter().zip(0..=u8::MAX) {
        // Whoever else looks for a place goes on to the next while this one is being filled.
        let Ok(mut place) = place.try_write() else { continue };
        if place.is_none() {
            let serial = OPENED.fetch_add(1, Ordering::Relaxed) + 1;
            let port = make(number, serial)?;
            let handle = u64::from(serial) << 8 | u64::from(number);
            *place = Some((handle, port));
            OPEN.fetch_add(1, Ordering::Relaxed);
            return Ok(handle);
        }
    }
    Err(codes::NO_RESOURCES)
}

/// The endpoint with this handle.
#[inline]
pub(crate) fn get(handle: Handle) -> Result<Arc<Port>, Code> {
    let place = PORTS[handle as usize & 0xff].read().unwrap_or_else(PoisonError::into_inner);
    match &*place {
        Some((own, port)) if *own == handle => Ok(Arc::clone(port)),
        _ => Err(codes::BAD_ENDPOINT),
    }
}

/// The endpoint at a place, which an address or the handle of a request names.
pub(crate) fn at(place: u8) -> Result<Arc<Port>, Code> {
    let place = PORTS[usize::from(place)].read().unwrap_or_else(PoisonError::into_inner);
    place.as_ref().map(|(_, port)| Arc::clone(port)).ok_or(codes::BAD_ENDPOINT)
}

/// Takes an endpoint out: its handle is void.
pub(crate) fn remove(handle: Handle) -> Result<Arc<Port>, Code> {
    let mut place = PORTS[handle as usize & 0xff].write().unwrap_or_else(PoisonError::into_inner);
    match place.take() {
        Some((own, port)) if own == handle => {
            OPEN.fetch_sub(1, Ordering::Relaxed);
            Ok(port)
        }
        other => {
            *place = other;
            Err(codes::BAD_ENDPOINT)
        }
    }
}

/// Whether there are endpoints.
pub(crate) fn are_any() -> bool {
    OPEN.load(Ordering::Relaxed) > 0
}

/// All of a board, or of all boards.
pub(crate) fn all() -> Vec<Arc<Port>> {
    let ports = PORTS.iter().filter_map(|place| {
        let place = place.read().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().map(|(_, port)| Arc::clone(port))
    });
    ports.collect()
}
