//! Triggered operations as the application describes them: `struct fi_triggered_context` in place of an operation's context, and
//! `struct fi_deferred_work` for the domain. What they become is in `works`.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::abi::{
    DeferredWork, Obj, OpAtomic, OpCntr, OpCompareAtomic, OpFetchAtomic, OpMsg, OpRma, OpTagged,
    TriggeredContext, class, code, command, flag, work,
};
use crate::cntr::Cntr;
use crate::common::{self, or_return};
use crate::domain::Domain;
use crate::ep::Ep;
use crate::op::{How, Told, When};
use crate::port::Port;
use crate::works::Work;
use crate::{atomic, flags, msg, object, rma, tagged};

/// `FI_TRIGGER_THRESHOLD`: the one event there is without devices.
const THRESHOLD: u32 = 0;

/// How an operation with this context and these flags is to be.
///
/// # Safety
/// With `FI_TRIGGER` among the flags the context must be null, or a whole `struct fi_triggered_context`.
#[inline]
pub(crate) unsafe fn how(context: *mut c_void, flags: u64) -> Result<How, c_int> {
    let how = How::plain(context as usize, flags);
    if flags & flag::TRIGGER == 0 {
        return Ok(how);
    }
    // SAFETY: says the caller.
    unsafe { triggered(context, how) }
}

/// # Safety
/// As for `how`.
#[cold]
unsafe fn triggered(context: *mut c_void, how: How) -> Result<How, c_int> {
    // SAFETY: says the caller.
    let condition = unsafe { context.cast::<TriggeredContext>().as_ref() }.ok_or(libc::EINVAL)?;
    if condition.event_type != THRESHOLD {
        return Err(libc::ENOSYS);
    }
    // SAFETY: an object of this provider, or null: the application says that it is a counter.
    let counter = unsafe { counter(condition.cntr) }?;
    let when = When { counter, threshold: condition.threshold as u64, id: 0 };
    Ok(How { flags: how.flags & !flag::TRIGGER, when: Some(Box::new(when)), ..how })
}

/// # Safety
/// Null, or an object of this provider.
unsafe fn counter(obj: Obj) -> Result<Arc<Cntr>, c_int> {
    // SAFETY: says the caller.
    unsafe {
        match common::class_of(obj) {
            Some(class::CNTR) => Ok(object::shared(obj)),
            _ => Err(libc::EINVAL),
        }
    }
}

/// `fi_control` of a domain.
///
/// # Safety
/// `argument` must be null, or as the command wants it, and stay so until the work is done or cancelled.
pub(crate) unsafe fn control(domain: &Domain, what: c_int, argument: *mut c_void) -> c_int {
    match what {
        // SAFETY: says the caller.
        command::QUEUE_WORK => match unsafe { queue(domain, argument.cast()) } {
            Ok(status) => status,
            Err(code) => -code,
        },
        command::CANCEL_WORK if argument.is_null() => -libc::EINVAL,
        command::CANCEL_WORK => match domain.works.cancel(argument as usize) {
            true => 0,
            false => -libc::ENOENT, // it has been set off
        },
        command::FLUSH_WORK => {
            domain.works.flush();
            0
        }
        _ => -libc::ENOSYS,
    }
}

/// # Safety
/// As for `control`.
unsafe fn queue(domain: &Domain, argument: *const DeferredWork) -> Result<c_int, c_int> {
    // SAFETY: says the caller; so are the objects and descriptions that it names.
    let status = unsafe {
        let deferred = argument.as_ref().ok_or(libc::EINVAL)?;
        let trigger = counter(deferred.triggering_cntr)?;
        let when = When { counter: trigger, threshold: deferred.threshold, id: argument as usize };
        if deferred.op.is_null() {
            return Err(libc::EINVAL);
        }
        match deferred.op_type {
            work::CNTR_SET | work::CNTR_ADD if !deferred.completion_cntr.is_null() => {
                return Err(libc::EINVAL);
            }
            work::CNTR_SET | work::CNTR_ADD => {
                let &OpCntr { cntr, value } = &*deferred.op.cast();
                queue_count(domain, when, (counter(cntr)?, value, deferred.op_type))
            }
            _ => {
                let completion = match deferred.completion_cntr.is_null() {
                    true => None,
                    false => Some(counter(deferred.completion_cntr)?),
                };
                queue_operation(deferred, when, completion)
            }
        }
    };
    domain.works.run();
    Ok(status as c_int)
}

/// A counter's own change.
fn queue_count(
    domain: &Domain,
    when: When,
    (counter, value, op_type): (Arc<Cntr>, u64, u32),
) -> isize {
    let run = Box::new(move || match op_type {
        work::CNTR_SET => counter.set(value),
        _ => counter.add(value),
    });
    let When { counter: trigger, threshold, id } = when;
    domain.works.add(Work { id, port: 0, context: 0, kind: 0, trigger, threshold, run });
    0
}

/// An operation of an endpoint, posted as any other would be, but for when.
///
/// # Safety
/// As for `control`.
unsafe fn queue_operation(
    deferred: &DeferredWork,
    when: When,
    completion: Option<Arc<Cntr>>,
) -> isize {
    // SAFETY: says the caller: the description goes with the type, and names an endpoint of ours and memory that is the provider's
    // until the operation has completed.
    unsafe {
        let given = (deferred, when, completion);
        match deferred.op_type {
            work::RECV => {
                let (op, ep, port, how) = or_return!(parts::<OpMsg>(given, flags::RECV_ONLY));
                msg::receive_described(ep, port, &op.msg, how)
            }
            work::SEND => {
                let (op, _, port, how) = or_return!(parts::<OpMsg>(given, flags::SEND));
                msg::send_described(port, &op.msg, how)
            }
            work::TRECV => {
                let known = flags::TAGGED_RECV_ONLY;
                let (op, _, port, how) = or_return!(parts::<OpTagged>(given, known));
                tagged::receive_described(port, &op.msg, how)
            }
            work::TSEND => {
                let (op, _, port, how) = or_return!(parts::<OpTagged>(given, flags::SEND));
                tagged::send_described(port, &op.msg, how)
            }
            work::READ => {
                let (op, _, port, how) = or_return!(parts::<OpRma>(given, flags::OPERATION));
                rma::read_described(port, &op.msg, how)
            }
            work::WRITE => {
                let (op, _, port, how) = or_return!(parts::<OpRma>(given, flags::SEND));
                rma::write_described(port, &op.msg, how)
            }
            work::ATOMIC => {
                let (op, _, port, how) = or_return!(parts::<OpAtomic>(given, flags::OPERATION));
                atomic::post_described(port, &op.msg, (None, None), how)
            }
            work::FETCH_ATOMIC => {
                let known = flags::OPERATION;
                let (op, _, port, how) = or_return!(parts::<OpFetchAtomic>(given, known));
                atomic::post_described(port, &op.msg, (None, Some(&op.fetch)), how)
            }
            work::COMPARE_ATOMIC => {
                let known = flags::OPERATION;
                let (op, _, port, how) = or_return!(parts::<OpCompareAtomic>(given, known));
                atomic::post_described(port, &op.msg, (Some(&op.compare), Some(&op.fetch)), how)
            }
            _ => -(libc::ENOSYS as isize),
        }
    }
}

/// What all descriptions of operations have: the endpoint, the flags, the context.
trait Description {
    fn given(&self) -> (Obj, u64, *mut c_void);
}

macro_rules! description {
    ($($name:ident)*) => {$(
        impl Description for $name {
            fn given(&self) -> (Obj, u64, *mut c_void) {
                (self.ep, self.flags, self.msg.context)
            }
        }
    )*};
}
description! { OpMsg OpTagged OpRma OpAtomic OpFetchAtomic OpCompareAtomic }

/// A description, its endpoint, and how the operation is to be.
type Parts<'a, T> = (&'a T, &'a Ep, &'a Arc<Port>, How);

/// # Safety
/// As for `control`; the description must be of this type.
unsafe fn parts<'a, T: Description>(
    (deferred, when, counter): (&DeferredWork, When, Option<Arc<Cntr>>),
    known: u64,
) -> Result<Parts<'a, T>, c_int> {
    // SAFETY: says the caller.
    unsafe {
        let op: &T = &*deferred.op.cast();
        let (ep, flags, context) = op.given();
        let flags = flags & !flag::TRIGGER;
        flags::check(flags, known)?;
        if common::class_of(ep) != Some(class::EP) {
            return Err(libc::EINVAL);
        }
        let (ep, port) = Ep::of(ep);
        let told = Told { counter, at_endpoint: flags & flag::COMPLETION != 0 };
        let (when, told) = (Some(Box::new(when)), Some(Arc::new(told)));
        let how = How { when, told, ..How::plain(context as usize, flags) };
        Ok((op, ep, port.ok_or(code::EOPBADSTATE)?, how))
    }
}
