//! Functions of the application that are called from here: its error handler, and its handler of unexpected messages.

use std::ffi::{CStr, c_char, c_void};
use std::sync::{PoisonError, RwLock};

use crate::abi::{Addr, ErrorHandler, UnexpHandler};
use crate::codes::{self, Code};
use crate::settings;

/// Whose words a code is told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Mx,
    Omx,
}

/// Prints and ends the process: what MX does with errors by default.
unsafe extern "C" fn fatal(text: *mut c_char, code: u32) -> u32 {
    let what = match text.is_null() {
        true => c"MX",
        // SAFETY: not null, so it is a string of ours, or of an application that passes its own to the handler it was given.
        false => unsafe { CStr::from_ptr(text) },
    };
    let (what, why) = (what.to_string_lossy(), codes::text(code).to_string_lossy());
    eprintln!(
        "packhorse-mx: {what}: {why} (code {code}); errors are fatal, says the error handler"
    );
    std::process::exit(-1);
}

/// Gives the code back.
unsafe extern "C" fn pass_on(_text: *mut c_char, code: u32) -> u32 {
    code
}

/// The handlers that come with the interface, as variables: programs pass their values around.
#[unsafe(no_mangle)]
pub static MX_ERRORS_ARE_FATAL: ErrorHandler = fatal;
/// See above.
#[unsafe(no_mangle)]
pub static MX_ERRORS_RETURN: ErrorHandler = pass_on;
/// See above.
#[unsafe(no_mangle)]
pub static OMX_ERRORS_ARE_FATAL: ErrorHandler = fatal;
/// See above.
#[unsafe(no_mangle)]
pub static OMX_ERRORS_RETURN: ErrorHandler = pass_on;

/// The process's handler, once one was set.
static OF_PROCESS: RwLock<Option<ErrorHandler>> = RwLock::new(None);

fn by_default() -> ErrorHandler {
    if settings::are_errors_fatal() { fatal } else { pass_on }
}

/// Sets the process's handler; null is the default one. The one before.
pub(crate) fn set_of_process(handler: Option<ErrorHandler>) -> ErrorHandler {
    let mut of_process = OF_PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *of_process, handler).unwrap_or_else(by_default)
}

/// Tells the handler in force of a failure, and returns what it makes of it.
#[cold]
pub(crate) fn report(own: Option<ErrorHandler>, api: Api, call: &'static CStr, code: Code) -> Code {
    let of_process = *OF_PROCESS.read().unwrap_or_else(PoisonError::into_inner);
    let handler = own.or(of_process).unwrap_or_else(by_default);
    let told = match api {
        Api::Mx if code == codes::IN_HANDLER => codes::mx_return(code),
        _ => code,
    };
    // That the type lets the handler write to the text is history: one that does so is wrong with every MX.
    // SAFETY: the application gave this function as its error handler, or it is one of the two above; the text lives for ever.
    let answer = unsafe { handler(call.as_ptr().cast_mut(), told) };
    if answer == told { code } else { answer }
}

/// A handler of unexpected messages, with its context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unexpected {
    pub(crate) handler: UnexpHandler,
    pub(crate) context: usize,
}

impl Unexpected {
    /// Asks whether the message is finished with. Bytes are shown for the time of the call.
    pub(crate) fn is_finished(
        &self,
        from: Addr,
        info: u64,
        len: u32,
        bytes: Option<&[u8]>,
    ) -> bool {
        // Not null where there are bytes to see, though they are none.
        let shown = bytes.map_or(std::ptr::null_mut(), |bytes| bytes.as_ptr().cast_mut());
        let context = self.context as *mut c_void;
        // SAFETY: the application registered this function for this; what it is shown is ours and lives until it returns.
        let answer = unsafe { (self.handler)(context, from, info, len, shown.cast()) };
        assert!(
            answer <= 1,
            "the unexpected handler returned {answer}: it must return MX_RECV_CONTINUE (0) or MX_RECV_FINISHED (1)"
        );
        answer == 1
    }
}
