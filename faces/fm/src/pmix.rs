//! Nodes from a launcher that speaks PMIx: Open MPI's `mpirun`, `srun`.
//!
//! `libpmix` is opened at run time, so nothing of it is needed where it is not used. Each node puts its address, all meet at a fence,
//! and each gets those of the others.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

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
const KEY: &CStr = c"packhorse.fm.address";

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

/// Our part of the job; told of its end when dropped.
pub(crate) struct Job {
    finalize: Finalize,
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: PMIx was initialised when this was made, and nothing of it is used behind this.
        unsafe { (self.finalize)(std::ptr::null(), 0) };
    }
}

/// A function of the library.
fn symbol<F: Copy>(library: *mut c_void, name: &CStr) -> Result<F, String> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the library is open and the name ends with zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        return Err(format!("libpmix has no {}", name.to_string_lossy()));
    }
    // SAFETY: a function's address has the size of a pointer (checked above), and `F` is the type that the PMIx standard gives
    // the function of this name.
    Ok(unsafe { std::mem::transmute_copy(&found) })
}

fn check(what: &str, status: c_int) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{what} failed with PMIx status {status}")) }
}

/// Our part of the job, our number in it, and the addresses of all.
pub(crate) fn exchange(address: &str) -> Result<(Job, usize, Vec<String>), String> {
    // SAFETY: the names end with zero; initialisers of the library are trusted as those of any library.
    let library = [c"libpmix.so.2", c"libpmix.so"]
        .iter()
        .map(|name| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) })
        .find(|library| !library.is_null())
        .ok_or("the launcher speaks PMIx, but libpmix.so.2 cannot be opened; install libpmix2")?;
    let init: Init = symbol(library, c"PMIx_Init")?;
    let (put, commit): (Put, Commit) =
        (symbol(library, c"PMIx_Put")?, symbol(library, c"PMIx_Commit")?);
    let (fence, get): (Fence, Get) =
        (symbol(library, c"PMIx_Fence")?, symbol(library, c"PMIx_Get")?);
    let mut this = Proc { namespace: [0; 256], rank: 0 };
    // SAFETY: `this` is a process to be filled in; no further wishes.
    check("PMIx_Init", unsafe { init(&raw mut this, std::ptr::null_mut(), 0) })?;
    let job = Job { finalize: symbol(library, c"PMIx_Finalize")? };
    let text = CString::new(address).map_err(|_| "an address without zeros".to_owned())?;
    let mut value = Value { kind: KIND_STRING, data: [0; 7] };
    value.data[0] = text.as_ptr().addr() as u64;
    // SAFETY: key and value are as the call wants them, and copied by it; the text outlives it.
    check("PMIx_Put", unsafe { put(SCOPE_GLOBAL, KEY.as_ptr(), &raw mut value) })?;
    // SAFETY: PMIx is initialised.
    check("PMIx_Commit", unsafe { commit() })?;
    let all = Proc { rank: ANY_RANK, ..this.clone() };
    // SAFETY: one process that stands for all of the job; no further wishes.
    check("PMIx_Fence", unsafe { fence(&raw const all, 1, std::ptr::null(), 0) })?;
    let count = get_number(get, &all, c"pmix.job.size")?;
    let addresses: Result<Vec<String>, String> =
        (0..count).map(|rank| get_text(get, &Proc { rank, ..this.clone() }, KEY)).collect();
    Ok((job, this.rank as usize, addresses?))
}

/// A value the library has; it stays with us until the process ends, it is few bytes.
fn get_value<'a>(get: Get, of: &Proc, key: &CStr) -> Result<&'a Value, String> {
    let mut value = std::ptr::null_mut();
    // SAFETY: process and key are as the call wants them; `value` is filled in on success.
    let status = unsafe { get(of, key.as_ptr(), std::ptr::null(), 0, &raw mut value) };
    check(&format!("PMIx_Get of {}", key.to_string_lossy()), status)?;
    // SAFETY: on success it points to a value that is ours to free, which we never do. Only the parts its kind has are read.
    unsafe { value.as_ref() }.ok_or_else(|| "PMIx_Get gave nothing".to_owned())
}

fn get_number(get: Get, of: &Proc, key: &CStr) -> Result<u32, String> {
    let value = get_value(get, of, key)?;
    if value.kind == KIND_UINT32 {
        Ok(value.data[0] as u32)
    } else {
        Err(format!("{} is no number", key.to_string_lossy()))
    }
}

fn get_text(get: Get, of: &Proc, key: &CStr) -> Result<String, String> {
    let value = get_value(get, of, key)?;
    if value.kind != KIND_STRING || value.data[0] == 0 {
        return Err(format!("the address of node {} is no text", of.rank));
    }
    let start = std::ptr::with_exposed_provenance::<c_char>(value.data[0] as usize);
    // SAFETY: a value of this kind holds a pointer to text that ends with zero.
    Ok(unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned())
}
