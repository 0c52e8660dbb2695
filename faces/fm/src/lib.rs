//! Fast Messages 2.x in C, over `packhorse::stream`.
//!
//! ```text
//!   FM_begin_message, FM_send_piece, FM_end_message ──▶ stream::Message
//!   FM_extract ──▶ stream::Streams::extract ──▶ async handler (`thread`) ⇄ C handler on a stack of its own: FM_receive
//!   FM_initialize ──▶ `launch`: PMIx, or `hosts` and a `meeting` under the job's `secret`
//!   FM 1.1 handlers ◀── `whole`: messages put together
//! ```
//!
//! A thin translation: what a message is, its order and its credit are `packhorse::stream`'s. What is `unsafe` here is the C
//! boundary: pointers come from the application, and what is relied on is what `<packhorse/fm.h>` asks of it. Panics end the
//! process with their message: they cannot cross into C.

mod dropped;
mod errors;
mod hosts;
mod launch;
mod meeting;
mod node;
mod overflow;
mod secret;
mod settings;
mod thread;
mod whole;

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::slice;
use std::sync::Arc;

use node::{Node, with_node};
use packhorse::stream::Message;
use packhorse_common::pointed::bytes;
use thread::{Handler, Inbound};

/// A handler of whole messages (FM 1.1).
type WholeHandler = unsafe extern "C" fn(*mut c_void, usize, c_uint);

/// What `FM_stream` points to: a message being sent, or one being received.
pub struct FmStream(Side);

enum Side {
    Out(Message),
    In(Inbound),
}

impl FmStream {
    pub(crate) fn inbound(inbound: Inbound) -> Self {
        Self(Side::In(inbound))
    }
}

/// Opens this node and waits until all others are there.
#[unsafe(no_mangle)]
pub extern "C" fn FM_initialize() -> c_int {
    node::initialize()
}

/// Waits until what was sent was accepted, and closes.
#[unsafe(no_mangle)]
pub extern "C" fn FM_finalize() {
    node::finalize();
}

/// This node, from 0.
#[unsafe(no_mangle)]
pub extern "C" fn FM_node_id() -> c_uint {
    with_node(|node| node.id as c_uint).unwrap_or(0)
}

/// How many nodes there are.
#[unsafe(no_mangle)]
pub extern "C" fn FM_node_count() -> c_uint {
    with_node(|node| node.peers.len() as c_uint).unwrap_or(0)
}

/// The handler with this number.
#[unsafe(no_mangle)]
pub extern "C" fn FM_set_handler(number: c_uint, handler: Option<Handler>) -> c_int {
    let (Ok(number), Some(handler)) = (u16::try_from(number), handler) else {
        return errors::ARGUMENT;
    };
    on_node(|node| {
        node.register(number, move |sender, stream| thread::run(handler, sender, stream));
        0
    })
}

/// The FM 1.1 handler with this number: it is given whole messages.
#[unsafe(no_mangle)]
pub extern "C" fn FM_set_handler_1(number: c_uint, handler: Option<WholeHandler>) -> c_int {
    let (Ok(number), Some(handler)) = (u16::try_from(number), handler) else {
        return errors::ARGUMENT;
    };
    on_node(|node| {
        let room = Arc::clone(&node.room);
        node.register(number, move |sender, stream| {
            let call = move |whole: &mut [u8], sender| {
                // SAFETY: the application gave this function for messages, which it gets for the time of the call.
                unsafe { handler(whole.as_mut_ptr().cast(), whole.len(), sender) };
            };
            whole::run(call, sender, stream, Arc::clone(&room))
        });
        0
    })
}

/// Handlers 0 to `count` - 1.
///
/// # Safety
/// `table` points to `count` handlers or nulls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FM_set_handlers(table: *const Option<Handler>, count: c_uint) -> c_int {
    if table.is_null() {
        return errors::ARGUMENT;
    }
    // SAFETY: as this function demands.
    let table = unsafe { slice::from_raw_parts(table, count as usize) };
    for (number, handler) in (0..).zip(table) {
        if handler.is_some() {
            match FM_set_handler(number, *handler) {
                0 => {}
                error => return error,
            }
        }
    }
    0
}

/// Begins a message; null if there is no such node or handler.
#[unsafe(no_mangle)]
pub extern "C" fn FM_begin_message(node: c_uint, _size: usize, handler: c_uint) -> *mut FmStream {
    let begun = with_node(|this| {
        let peer = *this.peers.get(node as usize)?;
        this.streams.begin(peer, u16::try_from(handler).ok()?).ok()
    });
    match begun.flatten() {
        Some(message) => Box::into_raw(Box::new(FmStream(Side::Out(message)))),
        None => std::ptr::null_mut(),
    }
}

/// Sends a piece.
///
/// # Safety
/// `stream` is what `FM_begin_message` gave and not ended; `piece` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FM_send_piece(
    stream: *mut FmStream,
    piece: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: as this function demands; null is looked after.
    let Some(FmStream(Side::Out(message))) = (unsafe { stream.as_mut() }) else {
        return errors::ARGUMENT;
    };
    // SAFETY: as above; an empty piece may be null.
    let piece = unsafe { bytes(piece, size) };
    thread::on_main_stack(|| errors::code_of(message.send(piece)))
}

/// Ends a message.
///
/// # Safety
/// `stream` is what `FM_begin_message` gave and not ended. It is void then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FM_end_message(stream: *mut FmStream) -> c_int {
    // SAFETY: as this function demands; null, and a stream that is received, are looked after.
    if !matches!(unsafe { stream.as_ref() }, Some(FmStream(Side::Out(_)))) {
        return errors::ARGUMENT;
    }
    // SAFETY: it came from `Box::into_raw` in `FM_begin_message`, and is given back once.
    let stream = unsafe { Box::from_raw(stream) };
    match stream.0 {
        Side::Out(message) => thread::on_main_stack(|| errors::code_of(message.end())),
        Side::In(_) => errors::ARGUMENT,
    }
}

/// Inside a handler: receives bytes of its message.
///
/// # Safety
/// `stream` is the one its handler was given; `buffer` points to room for `size` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FM_receive(
    buffer: *mut c_void,
    stream: *mut FmStream,
    size: usize,
) -> c_long {
    // SAFETY: as this function demands; null is looked after.
    match unsafe { stream.as_ref() } {
        Some(FmStream(Side::In(inbound))) => inbound.receive(buffer.cast(), size) as c_long,
        _ => c_long::from(errors::ARGUMENT),
    }
}

/// Runs handlers, with so many bytes at most.
#[unsafe(no_mangle)]
pub extern "C" fn FM_extract(size: usize) -> c_long {
    if thread::is_extracting() {
        return c_long::from(errors::IN_HANDLER);
    }
    let extracted = with_node(|node| match thread::extracting(|| node.streams.extract(size)) {
        Ok(extracted) => extracted.bytes as c_long,
        Err(error) => c_long::from(errors::code_of(Err(error))),
    });
    extracted.unwrap_or_else(|| c_long::from(errors::NOT_READY))
}

/// Runs handlers with all that has arrived.
#[unsafe(no_mangle)]
pub extern "C" fn FM_extract_all() -> c_long {
    FM_extract(usize::MAX)
}

/// FM 1.1: sends a whole message.
///
/// # Safety
/// `buffer` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FM_send(
    node: c_uint,
    handler: c_uint,
    buffer: *const c_void,
    size: usize,
) -> c_int {
    let stream = FM_begin_message(node, size, handler);
    if stream.is_null() {
        return if with_node(|_| ()).is_some() { errors::ARGUMENT } else { errors::NOT_READY };
    }
    // SAFETY: it was begun just now, and the buffer is as this function demands.
    let sent = unsafe { FM_send_piece(stream, buffer, size) };
    // SAFETY: begun above, and not ended.
    let ended = unsafe { FM_end_message(stream) };
    if sent == 0 { ended } else { sent }
}

/// FM 1.1: sends four words.
#[unsafe(no_mangle)]
pub extern "C" fn FM_send_4(
    node: c_uint,
    handler: c_uint,
    i0: c_uint,
    i1: c_uint,
    i2: c_uint,
    i3: c_uint,
) -> c_int {
    let words = [i0, i1, i2, i3];
    // SAFETY: these are our own words.
    unsafe { FM_send(node, handler, words.as_ptr().cast(), size_of_val(&words)) }
}

/// Messages that no handler saw, by why.
#[unsafe(no_mangle)]
pub extern "C" fn FM_dropped(why: c_int) -> c_ulong {
    usize::try_from(why).map_or(0, |why| dropped::count_of(why) as c_ulong)
}

/// What an error means.
#[unsafe(no_mangle)]
pub extern "C" fn FM_error_text(error: c_int) -> *const c_char {
    errors::text_of(error).as_ptr()
}

fn on_node(call: impl FnOnce(&Node) -> c_int) -> c_int {
    with_node(call).unwrap_or(errors::NOT_READY)
}
