//! Which call of MPI a look comes from.
//!
//! `fi_cq_read` does not say whether it is called by `MPI_Recv`, which has nothing else to do, or by `MPI_Test`, whose caller has. The stack
//! does: above us stands a function of the MPI library that everybody knows by name.
//!
//! ```text
//!   drive_or_doze ◀─ Cq::read ◀─ fi_cq_read ◀─ progress of the MPI, by whatever name ◀─ MPI_Recv: waits
//!                                                                                     ◀─ MPI_Test: tests
//!                                                                                     ◀─ nothing of that kind: unknown
//! ```
//!
//! A walk up the stack takes some microseconds, and a look that finds nothing a tenth of one. So what a walk found is kept for as long as it can
//! be seen to hold: *where* on the stack the address lies to which the MPI's call is returned to, and that address. Who comes from the same depth
//! and finds the same address in that place comes through the same call.
//!
//! On processors that do not push that address onto the stack nobody can say, and the time between looks tells as for any other program.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};

use packhorse::raw::Call;

/// The MPI's own functions between its call and ours are fewer.
const FRAME_COUNT_MAX: usize = 32;
/// Calls that are known of a thread; a program waits and tests in few places, as deep on its stack as each other.
const SITE_COUNT: usize = 8;
/// After as many walks, or where no MPI was found last, one in so many looks from elsewhere is worth another.
const LOOKS_PER_WALK: u32 = 256;
/// Goes on to the caller's caller, or stops. (The values that the unwinding interface, part of the platform's C++ ABI, gives them.)
const GO_ON: c_int = 0;
const STOP: c_int = 4;

/// A frame of the stack, as the unwinder knows it.
#[repr(C)]
struct Frame {
    _private: [u8; 0],
}

// From the unwinder that Rust's own library links.
unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut Frame, *mut c_void) -> c_int,
        walk: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut Frame) -> usize;
    fn _Unwind_GetCFA(frame: *mut Frame) -> usize;
}

/// A way through the MPI to us.
#[derive(Clone, Copy)]
struct Site {
    /// How deep on the stack we are called; 0 if nothing is known.
    depth: usize,
    /// Where the address lies to which its function is returned to, and that address.
    slot: usize,
    returns_to: usize,
    kind: Call,
}

impl Site {
    const NONE: Self = Self { depth: 0, slot: 0, returns_to: 0, kind: Call::Unknown };

    /// Whether who is called at this depth comes through it.
    fn is_at(&self, depth: usize) -> bool {
        // SAFETY: only if the depth is the same, and then the slot lies a few frames above it on the same stack (`Walk::site`), where every
        // word can be read. Volatile, since what is read belongs to frames that the compiler knows nothing of.
        self.depth == depth
            && unsafe { (self.slot as *const usize).read_volatile() } == self.returns_to
    }
}

/// What one thread knows.
struct Sites {
    known: [Cell<Site>; SITE_COUNT],
    /// Where the next is noted, looks that came from elsewhere, and walks.
    next: Cell<usize>,
    missed: Cell<u32>,
    walk_count: Cell<usize>,
    /// Where no MPI was found last.
    unknown_depth: Cell<usize>,
}

thread_local! {
    static SITES: Sites = const {
        Sites {
            known: [const { Cell::new(Site::NONE) }; SITE_COUNT],
            next: Cell::new(0),
            missed: Cell::new(0),
            walk_count: Cell::new(0),
            unknown_depth: Cell::new(0),
        }
    };
}

/// The call of MPI that the caller of this was called from.
#[inline(never)] // its own place on the stack is the depth
pub(crate) fn call() -> Call {
    let Some(depth) = depth() else { return Call::Unknown };
    SITES.with(|sites| {
        let site = sites.known.iter().map(Cell::get).find(|site| site.is_at(depth));
        site.map_or_else(|| sites.learn(depth), |site| site.kind)
    })
}

/// Where the stack of the caller ends. (The address of something on it would not do: sanitizers put that elsewhere.)
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn depth() -> Option<usize> {
    let depth;
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mov {}, rsp", out(reg) depth, options(nomem, nostack, preserves_flags))
    };
    Some(depth)
}

#[cfg(not(target_arch = "x86_64"))]
fn depth() -> Option<usize> {
    None
}

impl Sites {
    fn learn(&self, depth: usize) -> Call {
        let (next, missed) = (self.next.get(), self.missed.get().wrapping_add(1));
        self.missed.set(missed);
        // Walks that found nothing count, too: a program without an MPI would walk at every look else.
        let is_new = self.walk_count.get() < SITE_COUNT && self.unknown_depth.get() != depth;
        if !is_new && !missed.is_multiple_of(LOOKS_PER_WALK) {
            return Call::Unknown;
        }
        self.walk_count.set(self.walk_count.get() + 1);
        let Some(site) = Walk::begin(depth).site() else {
            self.unknown_depth.set(depth);
            return Call::Unknown;
        };
        self.known[next % SITE_COUNT].set(site);
        self.next.set(next + 1);
        site.kind
    }
}

/// A walk up the stack.
struct Walk {
    depth: usize,
    frame_count: usize,
    slot: usize,
    returns_to: usize,
    kind: Call,
}

impl Walk {
    /// From here to a function whose name says what it does.
    fn begin(depth: usize) -> Self {
        let mut walk = Self { depth, frame_count: 0, slot: 0, returns_to: 0, kind: Call::Unknown };
        // SAFETY: `each_frame` gets what is passed here, a `Walk` that lives until the end of the call. The unwinder reads the stack by the
        // tables that compilers write for it; where there are none it ends.
        unsafe { _Unwind_Backtrace(each_frame, (&raw mut walk).cast()) };
        walk
    }

    /// What it found, if anything.
    fn site(&self) -> Option<Site> {
        let Self { depth, slot, returns_to, kind, .. } = *self;
        let site = Site { depth, slot, returns_to, kind };
        // The slot must lie where a word of this thread's stack can be read, and hold what it is said to hold.
        let is_sound = kind != Call::Unknown
            && slot > depth
            && slot.is_multiple_of(align_of::<usize>())
            && site.is_at(depth);
        is_sound.then_some(site)
    }
}

extern "C" fn each_frame(frame: *mut Frame, walk: *mut c_void) -> c_int {
    // SAFETY: what `Walk::begin` passed; nobody else has it meanwhile.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    // SAFETY: a frame of the walk under way.
    let (returns_to, stack_at) = unsafe { (_Unwind_GetIP(frame), _Unwind_GetCFA(frame)) };
    // The call itself stands before the address that it returns to, which may be the next function's if it never returns.
    walk.kind = symbol_at(returns_to.wrapping_sub(1)).map_or(Call::Unknown, kind_of);
    walk.frame_count += 1;
    if walk.kind == Call::Unknown && walk.frame_count < FRAME_COUNT_MAX {
        return GO_ON;
    }
    // It was pushed last by that function, and lies under where its stack is after the return.
    (walk.slot, walk.returns_to) = (stack_at.wrapping_sub(size_of::<usize>()), returns_to);
    STOP
}

/// The name of the exported function in which an address lies.
fn symbol_at(at: usize) -> Option<&'static CStr> {
    // SAFETY: plain numbers and addresses, for which zero is a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; `info` is written to.
    let is_found = unsafe { libc::dladdr(at as *const c_void, &raw mut info) } != 0;
    if !is_found || info.dli_sname.is_null() {
        return None;
    }
    // SAFETY: a symbol's name in the tables of a loaded object, ended by a zero. It is only looked at before `each_frame` returns: the object
    // has a frame on this very stack, and stays loaded for as long.
    Some(unsafe { CStr::from_ptr(info.dli_sname) })
}

/// What a function of that name does: `MPI_…` and the names under which profilers call them, `PMPI_…`.
fn kind_of(name: &CStr) -> Call {
    let name = name.to_bytes();
    let Some(name) = name.strip_prefix(b"P").unwrap_or(name).strip_prefix(b"MPI_") else {
        return Call::Unknown;
    };
    let starts = |begin: &[u8]| name.starts_with(begin);
    // Isend, Irecv, Iprobe, Ibarrier …, but not Init, which waits, nor Intercomm_create.
    let is_immediate = starts(b"I") && !starts(b"Init") && !starts(b"Inter");
    let returns_at_once = is_immediate
        || starts(b"Test")
        || starts(b"Start")
        || starts(b"Request_get_status")
        || starts(b"Parrived")
        || starts(b"Pready")
        || starts(b"Win_test")
        || starts(b"T_");
    if returns_at_once { Call::Tests } else { Call::Waits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_who_waits() {
        for (name, kind) in [
            (c"MPI_Recv", Call::Waits),
            (c"PMPI_Recv", Call::Waits),
            (c"MPI_Waitall", Call::Waits),
            (c"MPI_Probe", Call::Waits),
            (c"MPI_Init_thread", Call::Waits),
            (c"MPI_Intercomm_create", Call::Waits),
            (c"MPI_Win_wait", Call::Waits),
            (c"MPI_Test", Call::Tests),
            (c"MPI_Testsome", Call::Tests),
            (c"PMPI_Iprobe", Call::Tests),
            (c"MPI_Improbe", Call::Tests),
            (c"MPI_Iallreduce", Call::Tests),
            (c"MPI_Request_get_status_all", Call::Tests),
            (c"MPI_Win_test", Call::Tests),
            (c"opal_progress", Call::Unknown),
            (c"MPIR_Wait", Call::Unknown),
            (c"main", Call::Unknown),
            (c"", Call::Unknown),
        ] {
            assert_eq!(kind_of(name), kind, "{name:?}");
        }
    }

    #[test]
    fn who_is_called_by_no_mpi_is_unknown_and_stays_so() {
        assert_eq!(call(), Call::Unknown);
        assert_eq!(call(), Call::Unknown);
    }

    #[test]
    fn a_function_of_another_object_is_found_by_name() {
        let at = libc::getpid as *const () as usize;
        assert!(symbol_at(at + 1).is_some_and(|name| name.to_bytes().ends_with(b"getpid")));
        assert_eq!(symbol_at(1), None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn who_is_called_by_no_mpi_from_here_and_there_walks_seldom() {
        let walk_count = || SITES.with(|sites| sites.walk_count.get());
        let look_count = 8 * LOOKS_PER_WALK as usize;
        let before = walk_count();
        for _ in 0..look_count / 2 {
            assert_eq!((call(), deeper()), (Call::Unknown, Call::Unknown));
        }
        let walks = walk_count() - before;
        assert!(walks <= SITE_COUNT + look_count / LOOKS_PER_WALK as usize, "{walks}");
    }

    /// Asks for the caller as `call` does, from another depth of the stack.
    #[inline(never)]
    fn deeper() -> Call {
        let call = call();
        std::hint::black_box([0_u64; 16]);
        call
    }

    /// Functions that have an MPI's names, and call what they are given.
    const MPI: &str = "
        static volatile int after; /* else they would jump, not call */
        int MPI_Recv(int (*look)(void)) { int kind = look(); after++; return kind; }
        int MPI_Test(int (*look)(void)) { int kind = look(); after++; return kind; }
        int by_itself(int (*look)(void)) { int kind = look(); after++; return kind; }";

    type Function = unsafe extern "C" fn(extern "C" fn() -> c_int) -> c_int;

    /// The three of them, from an object of their own.
    fn functions() -> [Function; 3] {
        let base = std::env::temp_dir().join(format!("packhorse-caller-{}", std::process::id()));
        let (source, object) = (base.with_extension("c"), base.with_extension("so"));
        std::fs::write(&source, MPI).expect("a file in the folder for such files");
        let status = std::process::Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .args([&object, &source])
            .status()
            .expect("cc is needed");
        assert!(status.success(), "cc: {status}");
        let path = std::ffi::CString::new(object.to_str().unwrap()).unwrap();
        // SAFETY: a name; the object has nothing to run when it is loaded.
        let loaded = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!loaded.is_null(), "{object:?} is not loaded");
        [&source, &object].into_iter().for_each(|path| std::fs::remove_file(path).unwrap());
        [c"MPI_Recv", c"MPI_Test", c"by_itself"].map(|name| {
            // SAFETY: loaded above, and never taken away; all three have this type.
            unsafe { std::mem::transmute(libc::dlsym(loaded, name.as_ptr())) }
        })
    }

    extern "C" fn look() -> c_int {
        code_of(call())
    }

    fn code_of(call: Call) -> c_int {
        match call {
            Call::Waits => 1,
            Call::Tests => 2,
            Call::Unknown => 3,
        }
    }

    /// Calls `function` from deeper and deeper on the stack.
    #[inline(never)]
    fn from_below(depth: usize, function: Function) -> c_int {
        let said = match depth.checked_sub(1) {
            // SAFETY: it calls `look` and returns what that does.
            None => unsafe { function(look) },
            Some(below) => from_below(below, function),
        };
        std::hint::black_box(said)
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_are_told_apart_at_every_depth_however_they_take_turns() {
        let [recv, test, by_itself] = functions();
        for _ in 0..3 {
            for (function, kind) in [(recv, 1), (test, 2), (by_itself, 3), (test, 2), (recv, 1)] {
                assert_eq!(from_below(2, function), kind);
            }
        }
        // Who was not known at a depth does not hide who is.
        let knows = |depth, function, kind| {
            (0..2 * LOOKS_PER_WALK).any(|_| from_below(depth, function) == kind)
        };
        assert_eq!(from_below(0, by_itself), 3);
        assert!(knows(0, recv, 1));
        // More of them than are kept: none is taken for another, and who comes often is known again.
        for depth in 0..4 * SITE_COUNT {
            for (function, kind) in [(recv, 1), (test, 2)] {
                let said = from_below(depth, function);
                assert!(said == kind || said == 3, "{said} at depth {depth} for {kind}");
            }
        }
        assert!(knows(1, recv, 1) && knows(1, test, 2));
    }
}
