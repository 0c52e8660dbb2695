//! PMI-1 in C: how processes of a job find each other, for programs that expect the launcher of Portals' reference implementation.
//!
//! ```text
//!   PMI_Init, PMI_KVS_Put, PMI_Barrier, PMI_KVS_Get …
//!        ▼
//!     launcher ──▶ wire     a launcher that speaks PMI-1 (Hydra)
//!              ──▶ PMIx     mpirun, srun (packhorse_common::pmix)
//!              ──▶ alone    a job of one
//! ```
//!
//! Nothing here is about Portals, nor about Packhorse. docs/portals.md says how it is used.

mod inherited;
mod launcher;
mod wire;

use std::ffi::{c_char, c_int};
use std::sync::Mutex;

use launcher::{KEY_LEN_MAX, Member, NAME_LEN_MAX, VALUE_LEN_MAX};
use packhorse_common::pointed::{put, text};
use packhorse_common::{complain, lock};

const SUCCESS: c_int = 0;
const FAIL: c_int = -1;
const ERR_INIT: c_int = 1;
const ERR_INVALID_ARG: c_int = 3;
const ERR_INVALID_KEY: c_int = 4;
const ERR_INVALID_VAL: c_int = 6;
const ERR_INVALID_LENGTH: c_int = 8;

static MEMBER: Mutex<Option<Member>> = Mutex::new(None);

/// Does it as a member of the job; in words why it failed.
fn as_member(what: impl FnOnce(&mut Member) -> Result<c_int, String>) -> c_int {
    let mut member = lock(&MEMBER);
    let Some(member) = member.as_mut() else { return ERR_INIT };
    what(member).unwrap_or_else(|why| {
        complain("pmi", why);
        FAIL
    })
}

/// Tells a number.
///
/// # Safety
/// `out` is null, or valid for a write.
unsafe fn tell(out: *mut c_int, what: impl FnOnce(&Member) -> u32) -> c_int {
    if out.is_null() {
        return ERR_INVALID_ARG;
    }
    as_member(|member| {
        // SAFETY: says the caller.
        unsafe { put(out, what(member) as c_int) };
        Ok(SUCCESS)
    })
}

/// Tells a text, with its final zero.
///
/// # Safety
/// `out` is null, or has room for `len` bytes.
unsafe fn tell_text(out: *mut c_char, len: c_int, text: &str) -> c_int {
    let room = usize::try_from(len).unwrap_or(0);
    if out.is_null() {
        return ERR_INVALID_ARG;
    }
    if text.len() >= room {
        return ERR_INVALID_LENGTH;
    }
    // SAFETY: there is room for the text and its zero, says the line above; the text is ours.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), out.cast(), text.len());
        out.add(text.len()).write(0);
    }
    SUCCESS
}

/// `PMI_Init`.
///
/// # Safety
/// `spawned` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Init(spawned: *mut c_int) -> c_int {
    let mut member = lock(&MEMBER);
    if member.is_none() {
        match Member::join() {
            Ok(joined) => *member = Some(joined),
            Err(why) => {
                complain("pmi", why);
                return FAIL;
            }
        }
    }
    // SAFETY: as this function demands.
    unsafe { put(spawned, 0) };
    SUCCESS
}

/// `PMI_Initialized`.
///
/// # Safety
/// `out` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Initialized(out: *mut c_int) -> c_int {
    if out.is_null() {
        return ERR_INVALID_ARG;
    }
    // SAFETY: as this function demands.
    unsafe { put(out, c_int::from(lock(&MEMBER).is_some())) };
    SUCCESS
}

/// `PMI_Finalize`.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Finalize() -> c_int {
    let member = lock(&MEMBER).take();
    let Some(member) = member else { return ERR_INIT };
    match member.leave() {
        Ok(()) => SUCCESS,
        Err(why) => {
            complain("pmi", why);
            FAIL
        }
    }
}

/// `PMI_Abort`: ends this process; the launcher ends the others.
///
/// # Safety
/// `message` is a string, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Abort(code: c_int, message: *const c_char) -> c_int {
    // SAFETY: as this function demands.
    complain("pmi", unsafe { text(message) }.unwrap_or("the program gives up"));
    std::process::exit(code)
}

/// `PMI_Get_rank`.
///
/// # Safety
/// `out` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_rank(out: *mut c_int) -> c_int {
    // SAFETY: as this function demands.
    unsafe { tell(out, |member| member.rank) }
}

/// `PMI_Get_size`.
///
/// # Safety
/// `out` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_size(out: *mut c_int) -> c_int {
    // SAFETY: as this function demands.
    unsafe { tell(out, |member| member.count) }
}

/// `PMI_Get_universe_size`: nothing is ever added to a job.
///
/// # Safety
/// `out` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_universe_size(out: *mut c_int) -> c_int {
    // SAFETY: as this function demands.
    unsafe { tell(out, |member| member.count) }
}

/// `PMI_Get_appnum`: a job is one program.
///
/// # Safety
/// `out` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_appnum(out: *mut c_int) -> c_int {
    // SAFETY: as this function demands.
    unsafe { tell(out, |_| 0) }
}

/// `PMI_Barrier`. Programs that never joined a job wait for nobody; a test of Portals' reference implementation counts on that.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Barrier() -> c_int {
    as_member(|member| member.barrier().map(|()| SUCCESS))
}

/// `PMI_KVS_Get_my_name`.
///
/// # Safety
/// `out` is null, or has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_my_name(out: *mut c_char, len: c_int) -> c_int {
    // SAFETY: as this function demands.
    as_member(|member| Ok(unsafe { tell_text(out, len, &member.name) }))
}

/// `PMI_KVS_Get_name_length_max`.
///
/// # Safety
/// `out` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_name_length_max(out: *mut c_int) -> c_int {
    // SAFETY: as this function demands.
    unsafe { tell(out, |_| NAME_LEN_MAX as u32) }
}

/// `PMI_KVS_Get_key_length_max`.
///
/// # Safety
/// `out` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_key_length_max(out: *mut c_int) -> c_int {
    // SAFETY: as this function demands.
    unsafe { tell(out, |_| KEY_LEN_MAX as u32) }
}

/// `PMI_KVS_Get_value_length_max`.
///
/// # Safety
/// `out` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_value_length_max(out: *mut c_int) -> c_int {
    // SAFETY: as this function demands.
    unsafe { tell(out, |_| VALUE_LEN_MAX as u32) }
}

/// `PMI_KVS_Put`.
///
/// # Safety
/// Each is a string, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Put(
    name: *const c_char,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    // SAFETY: as this function demands.
    let (name, key, value) = unsafe { (text(name), text(key), text(value)) };
    as_member(|member| {
        let Some(key) = key.filter(|key| is_key(key)) else { return Ok(ERR_INVALID_KEY) };
        let is_value = |value: &&str| value.len() < VALUE_LEN_MAX && !value.contains('\n');
        let Some(value) = value.filter(is_value) else { return Ok(ERR_INVALID_VAL) };
        match name {
            Some(name) if name == member.name => member.put(key, value).map(|()| SUCCESS),
            _ => Ok(ERR_INVALID_ARG),
        }
    })
}

/// Keys are one word: a blank would end it on its way.
fn is_key(key: &str) -> bool {
    !key.is_empty() && key.len() < KEY_LEN_MAX && !key.contains(|c: char| c.is_whitespace())
}

/// `PMI_KVS_Commit`: what was put is on its way already, or leaves with the barrier.
///
/// # Safety
/// A string, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Commit(name: *const c_char) -> c_int {
    // SAFETY: as this function demands.
    let name = unsafe { text(name) };
    as_member(|member| Ok(if name == Some(&member.name) { SUCCESS } else { ERR_INVALID_ARG }))
}

/// `PMI_KVS_Get`.
///
/// # Safety
/// Names are strings or null; `out` is null, or has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get(
    name: *const c_char,
    key: *const c_char,
    out: *mut c_char,
    len: c_int,
) -> c_int {
    // SAFETY: as this function demands.
    let (name, key) = unsafe { (text(name), text(key)) };
    as_member(|member| {
        let Some(key) = key.filter(|key| is_key(key)) else { return Ok(ERR_INVALID_KEY) };
        if name != Some(&member.name) {
            return Ok(ERR_INVALID_ARG);
        }
        match member.get(key)? {
            // SAFETY: as this function demands.
            Some(value) => Ok(unsafe { tell_text(out, len, &value) }),
            None => Ok(FAIL),
        }
    })
}
