//! The calls, once for both interfaces: handles and pointers in, codes out. What differs between MX and Open-MX (order of arguments, numbers of
//! statuses, what stands for no limit) is in `mx` and `omx`.
//!
//! All functions here take pointers of the application's as their headers demand: to one value each, or null where that is looked after.

use std::ffi::{CStr, c_char, c_void};

use packhorse_common::pointed::{self, put};

use crate::abi::{Addr, HOSTNAME_LEN, Param, Status, UnexpHandler};
use crate::address::{self, Mark};
use crate::calls::{self, Api, Unexpected};
use crate::codes::{self, Code};
use crate::connect::Target;
use crate::memory::Room;
use crate::open::{self, Wish};
use crate::port::{Port, lock};
use crate::requests::{self, Ended, Phase};
use crate::settings;
use crate::waiting::Patience;
use crate::{boards, info, names, ports};

/// A call of one of the interfaces.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) api: Api,
    pub(crate) name: &'static CStr,
}

impl Call {
    /// The number that the application gets.
    fn number(self, code: Code) -> u32 {
        match self.api {
            Api::Mx => codes::mx_return(code),
            Api::Omx => code,
        }
    }

    /// What a call without an endpoint returns.
    pub(crate) fn end(self, result: Result<(), Code>) -> u32 {
        self.end_at(None, result)
    }

    fn end_at(self, port: Option<&Port>, result: Result<(), Code>) -> u32 {
        match result {
            Ok(()) => codes::SUCCESS,
            Err(code) => {
                if settings::is_verbose() {
                    let why = codes::text(code).to_string_lossy();
                    open::complain(&format!("{}: {why} ({code})", self.name.to_string_lossy()));
                }
                let own = port.and_then(Port::error_handler);
                self.number(calls::report(own, self.api, self.name, code))
            }
        }
    }

    /// Does something with an open endpoint.
    #[inline]
    pub(crate) fn at(
        self,
        endpoint: u64,
        act: impl FnOnce(&std::sync::Arc<Port>) -> Result<(), Code>,
    ) -> u32 {
        match ports::get(endpoint) {
            Ok(port) => match act(&port) {
                Ok(()) => codes::SUCCESS,
                error => self.end_at(Some(&port), error),
            },
            Err(code) => self.end(Err(code)),
        }
    }

    /// A status as the application sees it; a bad one is told to the error handler first.
    ///
    /// # Safety
    /// `status` points to one, or is null.
    unsafe fn put_status(self, port: &Port, status: *mut Status, ended: &Ended) {
        let code = match ended.code {
            // That it was cancelled is what the application asked for.
            code @ (codes::SUCCESS | codes::CANCELLED) => code,
            code => calls::report(port.error_handler(), self.api, self.name, code),
        };
        let code = if self.api == Api::Mx { codes::mx_status(code) } else { code };
        let told = Status {
            code,
            source: ended.peer,
            match_info: ended.match_info,
            msg_length: ended.len,
            xfer_length: ended.placed_len,
            context: ended.context as *mut c_void,
        };
        // SAFETY: says the caller.
        unsafe { put(status, told) };
    }
}

/// Reads a handle.
///
/// # Safety
/// `at` points to one, or is null.
unsafe fn handle_at(at: *const u64) -> Result<u64, Code> {
    // SAFETY: says the caller.
    if at.is_null() { Err(codes::BAD_REQUEST) } else { Ok(unsafe { at.read() }) }
}

/// What the parameters of an endpoint say.
///
/// # Safety
/// `count` parameters at `params`, or null.
unsafe fn wish_of(params: *const Param, count: u32) -> Result<Wish, Code> {
    let mut wish = Wish::default();
    if params.is_null() && count > 0 {
        return Err(codes::BAD_PARAM_LIST);
    }
    for index in 0..count as usize {
        // SAFETY: there are `count`.
        let param = unsafe { params.add(index).read() };
        match param.key {
            // SAFETY: the key says that it is a handler.
            0 => wish.error_handler = unsafe { param.val.error_handler },
            1 => {} // accepted for old times' sake: what may be held is bounded by budgets
            2 => {
                // SAFETY: the key says that they are two bytes.
                let [bits, shift] = unsafe { param.val.context_id };
                if !settings::are_context_ids(bits, shift) {
                    return Err(codes::BAD_PARAM_VAL);
                }
                wish.context_ids = Some((bits, shift));
            }
            _ => return Err(codes::BAD_PARAM_NAME),
        }
    }
    Ok(wish)
}

/// # Safety
/// As all here.
pub(crate) unsafe fn open_endpoint(
    call: Call,
    (board, index, key): (u32, u32, u32),
    (params, count): (*const Param, u32),
    out: *mut u64,
) -> u32 {
    let opened = || {
        if out.is_null() {
            return Err(codes::BAD_ENDPOINT);
        }
        // SAFETY: says the caller.
        let wish = unsafe { wish_of(params, count) }?;
        let handle = open::open(Wish { board, index, key, ..wish })?;
        // SAFETY: says the caller; not null.
        unsafe { put(out, handle) };
        Ok(())
    };
    call.end(opened())
}

pub(crate) fn close_endpoint(call: Call, endpoint: u64) -> u32 {
    call.at(endpoint, |port| {
        port.check_close()?;
        ports::remove(endpoint)?.close();
        Ok(())
    })
}

/// # Safety
/// As all here; the room is the library's until the request ended.
pub(crate) unsafe fn send(
    call: Call,
    endpoint: u64,
    room: Result<Room, Code>,
    (to, info, context): (Addr, u64, *mut c_void),
    (is_synchronous, out): (bool, *mut u64),
) -> u32 {
    call.at(endpoint, |port| {
        let is_told = !out.is_null();
        let handle = port.send(&room?, (to, info), context as usize, is_synchronous, is_told)?;
        // SAFETY: says the caller.
        unsafe { put(out, handle) };
        Ok(())
    })
}

/// # Safety
/// As for `send`.
pub(crate) unsafe fn recv(
    call: Call,
    endpoint: u64,
    room: Result<Room, Code>,
    (info, mask, context): (u64, u64, *mut c_void),
    out: *mut u64,
) -> u32 {
    call.at(endpoint, |port| {
        let handle = port.recv(room?, (info, mask), context as usize, !out.is_null())?;
        // SAFETY: says the caller.
        unsafe { put(out, handle) };
        Ok(())
    })
}

/// # Safety
/// As all here.
pub(crate) unsafe fn cancel(
    call: Call,
    endpoint: u64,
    (request, result): (*mut u64, *mut u32),
    is_reported: bool,
) -> u32 {
    call.at(endpoint, |port| {
        // SAFETY: says the caller.
        let handle = unsafe { handle_at(request) }?;
        let is_cancelled = port.cancel(handle, is_reported)?;
        if is_cancelled && !is_reported {
            // SAFETY: it was read just now.
            unsafe { put(request, 0) };
        }
        // SAFETY: says the caller.
        unsafe { put(result, is_cancelled.into()) };
        Ok(())
    })
}

/// Completes one request: at once, or when it ended.
///
/// # Safety
/// As all here.
pub(crate) unsafe fn complete(
    call: Call,
    endpoint: u64,
    (request, status, result): (*mut u64, *mut Status, *mut u32),
    patience: Option<Patience>,
) -> u32 {
    call.at(endpoint, |port| {
        // SAFETY: says the caller.
        let handle = unsafe { handle_at(request) }?;
        let take = |port: &Port| lock(&port.state).requests.take_done(handle).transpose();
        let ended = match patience {
            Some(patience) => port.wait(patience, None, take)?,
            None => port.test(take),
        };
        let ended = ended.transpose()?;
        if let Some(ended) = &ended {
            // SAFETY: says the caller.
            unsafe {
                put(request, 0);
                call.put_status(port, status, ended);
            }
        }
        // SAFETY: says the caller.
        unsafe { put(result, ended.is_some().into()) };
        Ok(())
    })
}

/// Completes the oldest that ended with such match bits.
///
/// # Safety
/// As all here.
pub(crate) unsafe fn complete_any(
    call: Call,
    endpoint: u64,
    (info, mask): (u64, u64),
    (status, result): (*mut Status, *mut u32),
    patience: Option<Patience>,
) -> u32 {
    call.at(endpoint, |port| {
        port.check_mask(info, mask)?;
        let take = |port: &Port| lock(&port.state).requests.take_any(info, mask);
        let ended = match patience {
            Some(patience) => port.wait(patience, None, take)?,
            None => port.test(take),
        };
        if let Some(ended) = &ended {
            // SAFETY: says the caller.
            unsafe { call.put_status(port, status, ended) };
        }
        // SAFETY: says the caller.
        unsafe { put(result, ended.is_some().into()) };
        Ok(())
    })
}

/// Names the oldest that ended.
///
/// # Safety
/// As all here.
pub(crate) unsafe fn peek(
    call: Call,
    endpoint: u64,
    (request, result): (*mut u64, *mut u32),
    patience: Option<Patience>,
) -> u32 {
    call.at(endpoint, |port| {
        let first = |port: &Port| lock(&port.state).requests.first_done();
        let found = match patience {
            Some(patience) => port.wait(patience, None, first)?,
            None => port.test(first),
        };
        // SAFETY: says the caller.
        unsafe {
            if let Some(handle) = found {
                put(request, handle);
            }
            put(result, found.is_some().into());
        }
        Ok(())
    })
}

/// Tells of a message that no receive took.
///
/// # Safety
/// As all here.
pub(crate) unsafe fn probe(
    call: Call,
    endpoint: u64,
    (info, mask): (u64, u64),
    (status, result): (*mut Status, *mut u32),
    patience: Option<Patience>,
) -> u32 {
    call.at(endpoint, |port| {
        let criteria = port.check_mask(info, mask)?;
        let look = |port: &Port| port.probe(&criteria);
        let found = match patience {
            Some(patience) => port.wait(patience, Some(&criteria), look)?,
            None => port.test(look),
        };
        if let Some(found) = &found {
            // SAFETY: says the caller.
            unsafe { call.put_status(port, status, found) };
        }
        // SAFETY: says the caller.
        unsafe { put(result, found.is_some().into()) };
        Ok(())
    })
}

/// Whether a send's bytes are the application's again. That a request is no send is told without the error handler, as in Open-MX.
///
/// # Safety
/// As all here.
pub(crate) unsafe fn buffered(
    call: Call,
    endpoint: u64,
    (request, result): (*mut u64, *mut u32),
    patience: Option<Patience>,
) -> u32 {
    let mut wrong = None;
    let code = call.at(endpoint, |port| {
        // SAFETY: says the caller.
        let handle = unsafe { handle_at(request) }?;
        let look = |port: &Port| match port.is_buffered(handle) {
            Ok(false) => None,
            other => Some(other),
        };
        let found = match patience {
            Some(patience) => port.wait(patience, None, look)?,
            None => port.test(look),
        };
        match found {
            Some(Err(code)) => wrong = Some(code),
            // SAFETY: says the caller.
            found => unsafe { put(result, found.is_some().into()) },
        }
        Ok(())
    });
    wrong.map_or(code, |wrong| call.number(wrong))
}

/// # Safety
/// As all here.
pub(crate) unsafe fn context(call: Call, request: *const u64, out: *mut *mut c_void) -> u32 {
    let found = || {
        // SAFETY: says the caller.
        let handle = unsafe { handle_at(request) }?;
        let port = ports::at(requests::place_of(handle)).map_err(|_| codes::BAD_REQUEST)?;
        let context = port.context_of(handle)?;
        // SAFETY: says the caller.
        unsafe { put(out, context as *mut c_void) };
        Ok(())
    };
    call.end(found())
}

/// # Safety
/// As all here.
pub(crate) unsafe fn forget(call: Call, endpoint: u64, request: *mut u64) -> u32 {
    call.at(endpoint, |port| {
        // SAFETY: says the caller.
        port.forget(unsafe { handle_at(request) }?)?;
        // SAFETY: it was read just now.
        unsafe { put(request, 0) };
        Ok(())
    })
}

/// # Safety
/// As all here.
pub(crate) unsafe fn connect(
    call: Call,
    endpoint: u64,
    target: Target,
    patience: Patience,
    out: *mut Addr,
) -> u32 {
    call.at(endpoint, |port| {
        let address = port.connect(target, patience)?;
        // SAFETY: says the caller.
        unsafe { put(out, address) };
        Ok(())
    })
}

/// # Safety
/// As all here.
pub(crate) unsafe fn begin_connect(
    call: Call,
    endpoint: u64,
    target: Target,
    (info, context): (u64, *mut c_void),
    out: *mut u64,
) -> u32 {
    call.at(endpoint, |port| {
        let phase = if out.is_null() { Phase::Forgotten } else { Phase::Pending };
        let handle = port.begin_connect(target, (info, context as usize), phase, false)?;
        // SAFETY: says the caller.
        unsafe { put(out, handle) };
        Ok(())
    })
}

/// # Safety
/// As all here.
pub(crate) unsafe fn own_address(call: Call, endpoint: u64, out: *mut Addr) -> u32 {
    // SAFETY: says the caller.
    call.at(endpoint, |port| unsafe {
        put(out, port.own_address());
        Ok(())
    })
}

/// # Safety
/// As all here.
pub(crate) unsafe fn decompose(
    address: Addr,
    nic_id: *mut u64,
    index: *mut u32,
    session: *mut u32,
) -> u32 {
    // SAFETY: says the caller.
    unsafe {
        put(nic_id, address::nic_id(&address));
        put(index, address::index(&address));
        put(session, address::session(&address));
    }
    codes::SUCCESS
}

pub(crate) fn set_peer_context(call: Call, of: Addr, context: *mut c_void) -> u32 {
    let found = ports::at(Mark::of(&of).place()).map_err(|_| codes::BAD_ENDPOINT_ID);
    call.end(found.and_then(|port| port.set_peer_context(&of, context as usize)))
}

/// # Safety
/// As all here.
pub(crate) unsafe fn peer_context(call: Call, of: Addr, out: *mut *mut c_void) -> u32 {
    let found = ports::at(Mark::of(&of).place()).map_err(|_| codes::BAD_ENDPOINT_ID);
    let context = found.and_then(|port| port.peer_context(&of));
    // SAFETY: says the caller.
    call.end(context.map(|context| unsafe { put(out, context as *mut c_void) }))
}

pub(crate) fn register_handler(
    call: Call,
    endpoint: u64,
    handler: Option<UnexpHandler>,
    context: *mut c_void,
) -> u32 {
    call.at(endpoint, |port| {
        let context = context as usize;
        port.set_handler(handler.map(|handler| Unexpected { handler, context }));
        Ok(())
    })
}

/// Answers a question of `info`, which `answer` knows.
///
/// # Safety
/// `input_len` bytes at `input`, `out_len` bytes of room at `out`; or null.
pub(crate) unsafe fn get_info(
    call: Call,
    endpoint: u64,
    answer: info::Answers,
    (key, input, input_len): (u32, *const c_void, u32),
    (out, out_len): (*mut c_void, u32),
) -> u32 {
    let told = || {
        open::check_initialized()?;
        let mut board = if endpoint == 0 { None } else { Some(ports::get(endpoint)?.board) };
        if board.is_none() && !input.is_null() && input_len >= 4 {
            // SAFETY: there are four bytes; they need not be aligned.
            board = Some(unsafe { input.cast::<u32>().read_unaligned() });
        }
        let (bytes, may_cut) = answer(key, board)?;
        if out.is_null() {
            return Err(codes::BAD_INFO_VAL);
        }
        let room = out_len as usize;
        if room < bytes.len() && !(may_cut && room > 0) {
            return Err(codes::BAD_INFO_LENGTH);
        }
        let len = bytes.len().min(room);
        // SAFETY: there is room for so many bytes, says the caller.
        unsafe {
            out.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), len);
            if may_cut {
                out.cast::<u8>().add(len - 1).write(0);
            }
        }
        Ok(())
    };
    call.end(told())
}

/// # Safety
/// As all here; `name` is a string.
pub(crate) unsafe fn name_to_nic_id(call: Call, name: *const c_char, out: *mut u64) -> u32 {
    let found = || {
        open::check_initialized()?;
        // SAFETY: a string or null, says the caller.
        let name = unsafe { pointed::text(name) }.ok_or(codes::HOST_NOT_FOUND)?;
        let nic_id = names::nic_id_of(name).ok_or(codes::HOST_NOT_FOUND)?;
        // SAFETY: says the caller.
        unsafe { put(out, nic_id) };
        Ok(())
    };
    call.end(found())
}

/// # Safety
/// As all here; there is room for 80 bytes at `out`.
pub(crate) unsafe fn nic_id_to_name(call: Call, nic_id: u64, out: *mut c_char) -> u32 {
    let found = || {
        open::check_initialized()?;
        let name = names::name_of(nic_id).ok_or(codes::HOST_NOT_FOUND)?;
        let mut bytes = [0; HOSTNAME_LEN];
        let len = name.len().min(HOSTNAME_LEN - 1);
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        if !out.is_null() {
            // SAFETY: there is room for so many, says the caller.
            unsafe { out.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), len + 1) };
        }
        Ok(())
    };
    call.end(found())
}

/// # Safety
/// As all here.
pub(crate) unsafe fn board_to_nic_id(call: Call, board: u32, out: *mut u64) -> u32 {
    let boards = boards::all();
    let found = boards.get(board as usize).ok_or(codes::BOARD_UNKNOWN);
    let found = open::check_initialized().and(found);
    // SAFETY: says the caller.
    call.end(found.map(|board| unsafe { put(out, board.nic_id) }))
}

/// # Safety
/// As all here.
pub(crate) unsafe fn nic_id_to_board(call: Call, nic_id: u64, out: *mut u32) -> u32 {
    let boards = boards::all();
    let found = boards.iter().position(|board| board.nic_id == nic_id).ok_or(codes::BOARD_UNKNOWN);
    let found = open::check_initialized().and(found);
    // SAFETY: says the caller.
    call.end(found.map(|board| unsafe { put(out, board as u32) }))
}
