//! A handler that overflows its stack is told so, before the process ends.
//!
//! Behind every stack lies a page that nobody may touch. Who touches it gets SIGSEGV, and has no stack left to be told on: so
//! the signal is taken on a stack of its own. A fault anywhere else is none of ours and goes to whoever took the signal before.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};

/// For the signal's handler.
const SIGNAL_STACK_LEN: usize = 32 << 10;

const OVERFLOWED: &str = "packhorse-fm: a handler overflowed its stack. Set FM_STACK to more bytes (128 KiB without it), or \
    keep large arrays off its stack; the process ends here.\n";

/// The guard page of the handler that runs now: one thread extracts, so there is one.
static GUARD_START: AtomicUsize = AtomicUsize::new(0);
static GUARD_LEN: AtomicUsize = AtomicUsize::new(0);

/// What took the signal before; written once, before our handler can run.
static mut BEFORE: MaybeUninit<libc::sigaction> = MaybeUninit::uninit();

/// A handler runs on a stack that ends here, from now on until `leave`.
pub(crate) fn enter(stack_limit: usize) {
    GUARD_START.store(stack_limit, Ordering::Relaxed);
}

/// No handler runs.
pub(crate) fn leave() {
    GUARD_START.store(0, Ordering::Relaxed);
}

/// Takes the signal, once for the process, and gives this thread a stack for it.
pub(crate) fn watch() {
    static TAKEN: Once = Once::new();
    TAKEN.call_once(take_signal);
    thread_local! { static HAS_STACK: Cell<bool> = const { Cell::new(false) } }
    if !HAS_STACK.replace(true) {
        give_stack();
    }
}

fn take_signal() {
    // SAFETY: plain questions and answers of the system; the structure is whole before it is read, and `BEFORE` is written
    // here only, before the handler that reads it is in force.
    unsafe {
        GUARD_LEN.store(libc::sysconf(libc::_SC_PAGESIZE) as usize, Ordering::Relaxed);
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        if libc::sigaction(libc::SIGSEGV, ptr::null(), before.as_mut_ptr()) != 0 {
            return; // without a message, then
        }
        (&raw mut BEFORE).write(before);
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut());
    }
}

fn give_stack() {
    // SAFETY: asks for this thread's stack for signals, and gives it one if it has none; that memory is never freed.
    unsafe {
        let mut stack: libc::stack_t = MaybeUninit::zeroed().assume_init();
        if libc::sigaltstack(ptr::null(), &raw mut stack) != 0
            || stack.ss_flags & libc::SS_DISABLE == 0
        {
            return;
        }
        let memory = Box::leak(vec![0_u8; SIGNAL_STACK_LEN].into_boxed_slice());
        stack = libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: SIGNAL_STACK_LEN,
        };
        libc::sigaltstack(&raw const stack, ptr::null_mut());
    }
}

/// The signal. Calls only what may be called here: `write`, `abort`, `sigaction`.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system gives a whole `siginfo_t` to handlers that asked for one.
    let address = unsafe { (*info).si_addr() } as usize;
    let start = GUARD_START.load(Ordering::Relaxed);
    let len = GUARD_LEN.load(Ordering::Relaxed);
    if start != 0 && (start..start + len).contains(&address) {
        // SAFETY: the text is as long as it says, and both calls may be made here.
        unsafe {
            libc::write(2, OVERFLOWED.as_ptr().cast(), OVERFLOWED.len());
            libc::abort();
        }
    }
    // SAFETY: `BEFORE` was written before this handler was in force; a function in it takes what its flags say it takes.
    unsafe {
        let before = (&raw const BEFORE).read().assume_init();
        if before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
            libc::sigaction(signal, &raw const before, ptr::null_mut()); // on return it faults again, as it was to
        } else if before.sa_flags & libc::SA_SIGINFO != 0 {
            let theirs: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                std::mem::transmute(before.sa_sigaction);
            theirs(signal, info, context);
        } else {
            let theirs: extern "C" fn(c_int) = std::mem::transmute(before.sa_sigaction);
            theirs(signal);
        }
    }
}
