//! Counters.

use std::time::Duration;

use packhorse::raw::portals::Count;

use crate::abi::{CT_NONE, CtEvent, Handle};
use crate::codes::{self, Code, of_core};
use crate::handles::{Kind, handle, number};
use crate::interfaces::{check_aborted, node, opened};

/// When a triggered operation goes: as soon as that counter reaches that threshold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When {
    pub(crate) counter: Handle,
    pub(crate) threshold: u64,
}

impl When {
    /// Counter and threshold as the core names them.
    pub(crate) fn of_core(self) -> Result<(u32, u64), Code> {
        Ok((number(Kind::Counter, self.counter)?, self.threshold))
    }
}

/// A counter that is named with something, or none.
pub(crate) fn named(ct: Handle) -> Result<Option<u32>, Code> {
    match ct {
        CT_NONE => Ok(None),
        ct => number(Kind::Counter, ct).map(Some),
    }
}

fn event_of(count: Count) -> CtEvent {
    CtEvent { success: count.success, failure: count.failure }
}

fn count_of(event: CtEvent) -> Count {
    Count { success: event.success, failure: event.failure }
}

pub(crate) fn alloc(ni: Handle) -> Result<Handle, Code> {
    let this = opened(ni)?;
    let added = this.node.engine().with_portals(|portals| portals.add_counter(this.kind));
    added.map(|counter| handle(Kind::Counter, counter)).map_err(of_core)
}

pub(crate) fn free(ct: Handle) -> Result<(), Code> {
    let ct = number(Kind::Counter, ct)?;
    node()?.engine().with_portals(|portals| portals.free_counter(ct)).map_err(of_core)
}

pub(crate) fn cancel_triggered(ct: Handle) -> Result<(), Code> {
    let ct = number(Kind::Counter, ct)?;
    node()?.engine().with_portals(|portals| portals.cancel_triggers(ct)).map_err(of_core)
}

/// Who asks again and again moves it on, as one who waits does.
pub(crate) fn get(ct: Handle) -> Result<CtEvent, Code> {
    let ct = number(Kind::Counter, ct)?;
    let node = node()?;
    let mut asked_count = 0;
    let seen = node.engine().poll_portals(|portals| {
        asked_count += 1;
        let count = portals.count(ct);
        (asked_count > 1 || count.is_err()).then_some(count)
    });
    let seen = seen.unwrap_or_else(|| node.engine().look_at_portals(|portals| portals.count(ct)));
    seen.map(event_of).map_err(of_core)
}

/// Waits for the first of these, each with what it is to reach; `None` waits for ever. What it has, and which it is.
pub(crate) fn wait(
    counters: &[(Handle, u64)],
    longest_ms: Option<u32>,
) -> Result<(CtEvent, usize), Code> {
    check_aborted()?;
    if counters.is_empty() {
        return Err(codes::ARG_INVALID);
    }
    counters.iter().try_for_each(|&(ct, _)| number(Kind::Counter, ct).map(|_| ()))?;
    let node = node()?;
    let ready = |portals: &mut packhorse::raw::portals::Portals| {
        if let Err(code) = check_aborted() {
            return Some(Err(code));
        }
        for (which, &(ct, test)) in counters.iter().enumerate() {
            let count = number(Kind::Counter, ct).and_then(|ct| portals.count(ct).map_err(of_core));
            match count {
                Err(code) => return Some(Err(code)),
                Ok(count) if count.success >= test || count.failure != 0 => {
                    return Some(Ok((event_of(count), which)));
                }
                Ok(_) => {}
            }
        }
        None
    };
    let found = match longest_ms {
        Some(0) => node.engine().poll_portals(ready),
        longest => {
            let longest = longest.map(|ms| Duration::from_millis(ms.into()));
            node.engine().wait_portals(longest, ready)
        }
    };
    found.unwrap_or(Err(codes::CT_NONE_REACHED))
}

pub(crate) fn set(ct: Handle, to: CtEvent, when: Option<When>) -> Result<(), Code> {
    let ct = number(Kind::Counter, ct)?;
    let when = when.map(When::of_core).transpose()?;
    let set = node()?.engine().with_portals(|portals| match when {
        None => portals.set_count(ct, count_of(to)),
        Some((trigger, threshold)) => portals.set_count_at(ct, count_of(to), trigger, threshold),
    });
    set.map_err(of_core)
}

pub(crate) fn add(ct: Handle, more: CtEvent, when: Option<When>) -> Result<(), Code> {
    let ct = number(Kind::Counter, ct)?;
    if more.success != 0 && more.failure != 0 {
        return Err(codes::ARG_INVALID);
    }
    let when = when.map(When::of_core).transpose()?;
    let added = node()?.engine().with_portals(|portals| match when {
        None => portals.add_count(ct, count_of(more)),
        Some((trigger, threshold)) => portals.add_count_at(ct, count_of(more), trigger, threshold),
    });
    added.map_err(of_core)
}
