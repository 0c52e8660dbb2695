//! C handlers on stacks of their own: the paper's logical thread for each message.
//!
//! An async handler resumes the C function; inside `FM_receive` that one says what it wants and is set aside, and the async handler
//! awaits just that. Stacks are guarded by a page that nobody may touch (`overflow`), and are used again.

use std::cell::Cell;
use std::ffi::{c_int, c_uint};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use packhorse::stream::Stream;

use crate::FmStream;
use crate::errors;
use crate::overflow;

/// A handler as C has it.
pub(crate) type Handler = unsafe extern "C" fn(*mut FmStream, c_uint) -> c_int;

/// Stacks that are kept for the next handlers.
const SPARE_COUNT_MAX: usize = 1024;

/// What a handler wants.
struct Want {
    buffer: *mut u8,
    len: usize,
}

// SAFETY: only carries the pointer from the handler's stack to the future that runs it; whoever polls that holds both.
unsafe impl Send for Want {}

type Ways = Yielder<isize, Want>;

thread_local! {
    /// The handler that runs on this thread now.
    static RUNNING: Cell<*const Ways> = const { Cell::new(ptr::null()) };
    /// Whether this thread is inside `FM_extract`, where every handler runs.
    static IS_EXTRACTING: Cell<bool> = const { Cell::new(false) };
}

/// Bytes of a stack.
static STACK_LEN: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn set_stack_len(len: usize) {
    STACK_LEN.store(len, Ordering::Relaxed);
}

/// A message as its handler sees it.
pub(crate) struct Inbound {
    yielder: *const Ways,
}

impl Inbound {
    /// Sets the handler aside until so much has arrived.
    pub(crate) fn receive(&self, buffer: *mut u8, len: usize) -> isize {
        let running = RUNNING.get();
        if running != self.yielder {
            return errors::ARGUMENT as isize; // not inside its handler
        }
        // SAFETY: it is the handler that runs now, so its yielder lives on the stack we are on.
        let yielder = unsafe { &*self.yielder };
        yielder.suspend(Want { buffer, len })
    }
}

/// Whether this thread is inside `FM_extract`, in a handler that is.
pub(crate) fn is_extracting() -> bool {
    IS_EXTRACTING.get()
}

/// Calls `f`, in which handlers run on this thread.
pub(crate) fn extracting<R>(f: impl FnOnce() -> R) -> R {
    IS_EXTRACTING.set(true);
    let result = f(); // a panic ends the process: it cannot cross into C
    IS_EXTRACTING.set(false);
    result
}

/// Calls `f` on the stack of who extracts, if this is that of a handler: small stacks are for handlers, not for the engine.
pub(crate) fn on_main_stack<R>(f: impl FnOnce() -> R + Send) -> R {
    // SAFETY: not null only while that handler runs, on this thread.
    match unsafe { RUNNING.get().as_ref() } {
        Some(yielder) => yielder.on_parent_stack(f),
        None => f(),
    }
}

/// A handler under way.
struct Logical {
    coroutine: Option<Coroutine<isize, Want, (), DefaultStack>>,
    yielder: Box<Cell<*const Ways>>,
    /// The lowest address of its stack: that of the guard page.
    stack_limit: usize,
}

// SAFETY: it is resumed by one thread at a time, that which extracts; `<packhorse/fm.h>` asks that it be always the same.
unsafe impl Send for Logical {}

static SPARE: Mutex<Vec<DefaultStack>> = Mutex::new(Vec::new());

impl Logical {
    fn new(handler: Handler, sender: c_uint) -> Option<Self> {
        let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let stack = match spare {
            Some(stack) => stack,
            None => DefaultStack::new(STACK_LEN.load(Ordering::Relaxed)).ok()?,
        };
        let stack_limit = stack.limit().get();
        overflow::watch();
        let yielder = Box::new(Cell::new(ptr::null()));
        let told = ptr::from_ref(&*yielder);
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Ways, _| {
            // SAFETY: the box lives as long as the coroutine, in the same value.
            unsafe { &*told }.set(yielder);
            RUNNING.set(yielder);
            let mut stream = FmStream::inbound(Inbound { yielder });
            // SAFETY: the application gave this function as a handler; the stream lives for the time of the call.
            unsafe { handler(&raw mut stream, sender) };
        });
        Some(Self { coroutine: Some(coroutine), yielder, stack_limit })
    }

    /// Lets the handler go on until it wants something, or is over.
    fn resume(&mut self, answer: isize) -> Option<Want> {
        let coroutine = self.coroutine.as_mut()?;
        RUNNING.set(self.yielder.get());
        overflow::enter(self.stack_limit);
        let result = coroutine.resume(answer);
        overflow::leave();
        RUNNING.set(ptr::null());
        match result {
            CoroutineResult::Yield(want) => Some(want),
            CoroutineResult::Return(()) => {
                let stack = self.coroutine.take()?.into_stack();
                let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
                if spare.len() < SPARE_COUNT_MAX {
                    spare.push(stack);
                }
                None
            }
        }
    }
}

impl Drop for Logical {
    fn drop(&mut self) {
        if let Some(coroutine) = &mut self.coroutine {
            // SAFETY: frames of C own nothing that must be dropped, and nobody points to this stack any more. They cannot be
            // unwound: C has no tables for that.
            unsafe { coroutine.force_reset() };
        }
    }
}

/// Runs a handler with its message.
pub(crate) async fn run(handler: Handler, sender: c_uint, mut stream: Stream) {
    let Some(mut logical) = Logical::new(handler, sender) else {
        eprintln!("packhorse-fm: no memory for the stack of a handler; its message is thrown away");
        return;
    };
    let mut answer = 0;
    while let Some(want) = logical.resume(answer) {
        answer = receive(&mut stream, want).await;
    }
}

async fn receive(stream: &mut Stream, want: Want) -> isize {
    let received = if want.buffer.is_null() {
        stream.skip(want.len).await
    } else {
        // SAFETY: the handler gave room for so many bytes and is set aside until we answer; only we touch it meanwhile.
        let buffer = unsafe { slice::from_raw_parts_mut(want.buffer, want.len) };
        stream.receive(buffer).await
    };
    received.map_or(errors::GONE as isize, |len| len as isize)
}
