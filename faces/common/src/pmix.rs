//! The processes of a job, from a launcher that speaks PMIx: Open MPI's `mpirun`, `srun`.
//!
//! Each process puts texts under keys, all meet at a fence, and each gets what the others put. `libpmix` is opened at run time.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null;

use crate::library::Library;

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone)]
struct Proc {
    namespace: [c_char; 256],
    rank: u32,
}

/// `pmix_value_t`, with room for the longest there may be.
#[repr(C)]
struct Value {
    kind: u16,
    data: [u64; 7],
}

const KIND_STRING: u16 = 3;
const KIND_UINT32: u16 = 14;
const SCOPE_GLOBAL: u8 = 3;
const ANY_RANK: u32 = u32::MAX - 1;

type Init = unsafe extern "C" fn(*mut Proc, *mut c_void, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const c_void, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const c_void, usize) -> c_int;
type Get = unsafe extern "C" fn(
    *const Proc,
    *const c_char,
    *const c_void,
    usize,
    *mut *mut Value,
) -> c_int;

/// The functions that are used.
#[derive(Clone, Copy)]
struct Functions {
    finalize: Finalize,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
}

/// Our part of the job; the launcher is told of its end when this is dropped.
pub struct Job {
    functions: Functions,
    this: Proc,
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: PMIx was initialised when this was made, and nothing of it is used behind this.
        unsafe { (self.functions.finalize)(null(), 0) };
    }
}

fn check(what: &str, status: c_int) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{what} failed with PMIx status {status}")) }
}

/// A function of PMIx.
///
/// # Safety
/// `F` is the type that the PMIx standard gives the function of this name.
unsafe fn function<F: Copy>(library: Library, name: &CStr) -> Result<F, String> {
    // SAFETY: says the caller.
    unsafe { library.function(name) }
        .ok_or_else(|| format!("libpmix has no {}", name.to_string_lossy()))
}

impl Job {
    /// Whether a launcher that speaks PMIx started this process.
    pub fn is_there() -> bool {
        std::env::var_os("PMIX_NAMESPACE").is_some()
    }

    /// Joins the job that this process was started in.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn join() -> Result<Self, String> {
        let library = Library::open(&[c"libpmix.so.2", c"libpmix.so"]).ok_or(
            "the launcher speaks PMIx, but libpmix.so.2 cannot be opened; install libpmix2",
        )?;
        // SAFETY: the types above are those of the PMIx standard.
        let (init, functions): (Init, _) = unsafe {
            let functions = Functions {
                finalize: function(library, c"PMIx_Finalize")?,
                put: function(library, c"PMIx_Put")?,
                commit: function(library, c"PMIx_Commit")?,
                fence: function(library, c"PMIx_Fence")?,
                get: function(library, c"PMIx_Get")?,
            };
            (function(library, c"PMIx_Init")?, functions)
        };
        let mut this = Proc { namespace: [0; 256], rank: 0 };
        // SAFETY: `this` is a process to be filled in; no further wishes.
        check("PMIx_Init", unsafe { init(&raw mut this, std::ptr::null_mut(), 0) })?;
        Ok(Self { functions, this })
    }

    /// Our number in the job.
    pub fn rank(&self) -> u32 {
        self.this.rank
    }

    /// How many processes the job has.
    ///
    /// # Errors
    /// What the launcher says instead.
    pub fn count(&self) -> Result<u32, String> {
        let value = self.value(ANY_RANK, c"pmix.job.size")?;
        if value.kind == KIND_UINT32 {
            Ok(value.data[0] as u32)
        } else {
            Err("pmix.job.size is no number".into())
        }
    }

    /// The job's name, the same in all its processes and in no other job of the launcher.
    pub fn name(&self) -> String {
        let bytes = self.this.namespace.iter().map(|&byte| byte as u8);
        let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Puts a text under a key. The others get it after the next [`Self::fence`].
    ///
    /// # Errors
    /// What the launcher says instead; a text with a zero in it.
    pub fn put(&self, key: &CStr, text: &str) -> Result<(), String> {
        let text =
            CString::new(text).map_err(|_| "what is put must be without zeros".to_owned())?;
        let mut value = Value { kind: KIND_STRING, data: [0; 7] };
        value.data[0] = text.as_ptr().expose_provenance() as u64;
        // SAFETY: key and value are as the call wants them, and copied by it; the text outlives it.
        let status = unsafe { (self.functions.put)(SCOPE_GLOBAL, key.as_ptr(), &raw mut value) };
        check("PMIx_Put", status)
    }

    /// Waits until all processes of the job are here, with what they put.
    ///
    /// # Errors
    /// What the launcher says instead.
    pub fn fence(&self) -> Result<(), String> {
        // SAFETY: PMIx is initialised.
        check("PMIx_Commit", unsafe { (self.functions.commit)() })?;
        let all = Proc { rank: ANY_RANK, ..self.this.clone() };
        // SAFETY: one process that stands for all of the job; no further wishes.
        let status = unsafe { (self.functions.fence)(&raw const all, 1, null(), 0) };
        check("PMIx_Fence", status)
    }

    /// What a process of the job put under a key.
    ///
    /// # Errors
    /// What the launcher says instead; a value that is no text.
    pub fn get(&self, rank: u32, key: &CStr) -> Result<String, String> {
        let value = self.value(rank, key)?;
        if value.kind != KIND_STRING || value.data[0] == 0 {
            return Err(format!("{} of process {rank} is no text", key.to_string_lossy()));
        }
        let start = std::ptr::with_exposed_provenance::<c_char>(value.data[0] as usize);
        // SAFETY: a value of this kind holds a pointer to text that ends with zero.
        Ok(unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned())
    }

    /// A value the library has; it stays with us until the process ends, it is few bytes.
    fn value(&self, rank: u32, key: &CStr) -> Result<&Value, String> {
        let of = Proc { rank, ..self.this.clone() };
        let mut value = std::ptr::null_mut();
        let (get, of, key_at) = (self.functions.get, &raw const of, key.as_ptr());
        // SAFETY: process and key are as the call wants them; `value` is filled in on success.
        let status = unsafe { get(of, key_at, null(), 0, &raw mut value) };
        check(&format!("PMIx_Get of {}", key.to_string_lossy()), status)?;
        // SAFETY: on success it points to a value that is ours to free, which we never do. Only the parts its kind has are read.
        unsafe { value.as_ref() }.ok_or_else(|| "PMIx_Get gave nothing".to_owned())
    }
}
