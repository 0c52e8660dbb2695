//! The functions of MX in safe words: handles, lists of segments, and memory that lives until its request ended.

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

use packhorse_mx::abi::{Addr, Segment, Status, UnexpHandler};
use packhorse_mx::mx;

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const BAD_REQUEST: u32 = 13;
pub(crate) const BAD_MATCH_MASK: u32 = 14;
pub(crate) const TRUNCATED: u32 = 5;
pub(crate) const TIMEOUT: u32 = 30;
pub(crate) const ANY: u32 = 0xffff_ffff;
pub(crate) const EXACT: u64 = u64::MAX;
const KEY: u32 = 77;
/// A byte that no call writes by itself.
const POISON: u8 = 0xa5;

thread_local! {
    static IN_CALL: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a call of the library: a handler that runs elsewhere breaks MX's promise.
pub(crate) fn is_in_call() -> bool {
    IN_CALL.with(Cell::get)
}

fn during<T>(call: impl FnOnce() -> T) -> T {
    IN_CALL.with(|flag| flag.set(true));
    let result = call();
    IN_CALL.with(|flag| flag.set(false));
    result
}

/// How a request ended, or what a probe saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) code: u32,
    pub(crate) source: Addr,
    pub(crate) info: u64,
    pub(crate) len: u32,
    pub(crate) placed_len: u32,
    pub(crate) context: usize,
}

/// Memory in pieces that a request may use. Each piece is an allocation of its own, so that a sanitizer sees what goes past its end.
#[derive(Debug)]
pub(crate) struct Memory(Vec<Box<[u8]>>);

impl Memory {
    pub(crate) fn new(lens: &[usize]) -> Self {
        Self(lens.iter().map(|&len| vec![POISON; len].into()).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|piece| piece.len()).sum()
    }

    pub(crate) fn fill(&mut self, byte_at: impl Fn(usize) -> u8) {
        self.0.iter_mut().flat_map(|piece| piece.iter_mut()).enumerate().for_each(|(at, byte)| {
            *byte = byte_at(at);
        });
    }

    /// Where it first differs from `len` bytes as said and nothing behind them.
    pub(crate) fn differs(&self, len: usize, byte_at: impl Fn(usize) -> u8) -> Option<(usize, u8)> {
        let bytes = self.0.iter().flat_map(|piece| piece.iter().copied());
        let meant = |at| if at < len { byte_at(at) } else { POISON };
        bytes.enumerate().find(|&(at, byte)| byte != meant(at))
    }

    /// The lengths of its pieces.
    pub(crate) fn lens(&self) -> Vec<usize> {
        self.0.iter().map(|piece| piece.len()).collect()
    }

    /// Of memory that the library may be writing to: the first bytes, read one by one.
    pub(crate) fn first_word(&self) -> u64 {
        let mut word = [0; 8];
        for (to, byte) in word.iter_mut().zip(self.0.iter().flat_map(|piece| piece.iter())) {
            // SAFETY: a byte of ours. The library may write it meanwhile, so the compiler may not assume what it is; a word that is
            // half written is taken for one that is not there yet.
            *to = unsafe { std::ptr::from_ref(byte).read_volatile() };
        }
        u64::from_le_bytes(word)
    }

    fn segments(&mut self) -> Vec<Segment> {
        let segment = |piece: &mut Box<[u8]>| Segment {
            ptr: piece.as_mut_ptr().cast(),
            len: piece.len() as u32,
        };
        self.0.iter_mut().map(segment).collect()
    }
}

/// Errors are told to the caller.
unsafe extern "C" fn errors_return(_: *mut c_char, code: u32) -> u32 {
    code
}

pub(crate) fn initialize() {
    mx::mx_set_error_handler(Some(errors_return));
    assert_eq!(mx::mx__init_api(0x301), SUCCESS);
}

/// An open endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint(u64);

/// What a blocking call is given; `None`: it does not block.
pub(crate) type Timeout = Option<u32>;

impl Endpoint {
    pub(crate) fn open() -> Self {
        let mut endpoint = 0;
        // SAFETY: no parameters; the pointer is to a value of this function.
        let code = during(|| unsafe {
            mx::mx_open_endpoint(ANY, ANY, KEY, null_mut(), 0, &raw mut endpoint)
        });
        assert_eq!(code, SUCCESS, "opening");
        Self(endpoint)
    }

    pub(crate) fn close(self) {
        assert_eq!(during(|| mx::mx_close_endpoint(self.0)), SUCCESS);
    }

    pub(crate) fn wake_up(self) -> u32 {
        mx::mx_wakeup(self.0)
    }

    pub(crate) fn freeze_and_thaw(self) {
        assert_eq!(during(|| mx::mx_disable_progression(self.0)), SUCCESS);
        assert_eq!(during(|| mx::mx_reenable_progression(self.0)), SUCCESS);
    }

    pub(crate) fn set_handler(self, handler: Option<UnexpHandler>) {
        let code = during(|| mx::mx_register_unexp_handler(self.0, handler, null_mut()));
        assert_eq!(code, SUCCESS);
    }

    pub(crate) fn place(self) -> (u64, u32) {
        let (mut own, mut nic_id, mut index) = (Addr::default(), 0, 0);
        // SAFETY: the pointers are to values of this function.
        unsafe {
            assert_eq!(mx::mx_get_endpoint_addr(self.0, &raw mut own), SUCCESS);
            let code = mx::mx_decompose_endpoint_addr(own, &raw mut nic_id, &raw mut index);
            assert_eq!(code, SUCCESS);
        }
        (nic_id, index)
    }

    /// Begins a connection, which a wake-up does not end.
    pub(crate) fn begin_connect(self, (nic_id, index): (u64, u32)) -> u64 {
        let mut request = 0;
        let out = &raw mut request;
        // SAFETY: the pointer is to a value of this function.
        let code =
            during(|| unsafe { mx::mx_iconnect(self.0, nic_id, index, KEY, 0, null_mut(), out) });
        assert_eq!(code, SUCCESS, "beginning to connect");
        request
    }

    /// The address, or the code.
    pub(crate) fn connect(self, (nic_id, index): (u64, u32)) -> Result<Addr, u32> {
        let mut to = Addr::default();
        let at = &raw mut to;
        // SAFETY: the pointer is to a value of this function.
        let code = during(|| unsafe { mx::mx_connect(self.0, nic_id, index, KEY, 20_000, at) });
        if code == SUCCESS { Ok(to) } else { Err(code) }
    }

    /// Posts a send; the memory must live until it ended. Without `is_told` there is no handle.
    pub(crate) fn send(
        self,
        memory: &mut Memory,
        (to, info): (Addr, u64),
        context: usize,
        (is_synchronous, is_told): (bool, bool),
    ) -> Result<u64, u32> {
        let (mut list, mut request) = (memory.segments(), 0);
        let out = if is_told { &raw mut request } else { null_mut() };
        let (at, count) = (list.as_mut_ptr(), list.len() as u32);
        let context = context as *mut c_void;
        // SAFETY: the list describes memory that the caller keeps until the request ended.
        let code = during(|| unsafe {
            match is_synchronous {
                true => mx::mx_issend(self.0, at, count, to, info, context, out),
                false => mx::mx_isend(self.0, at, count, to, info, context, out),
            }
        });
        if code == SUCCESS { Ok(request) } else { Err(code) }
    }

    /// Posts a receive, likewise.
    pub(crate) fn recv(
        self,
        memory: &mut Memory,
        (info, mask): (u64, u64),
        context: usize,
        is_told: bool,
    ) -> Result<u64, u32> {
        let (mut list, mut request) = (memory.segments(), 0);
        let out = if is_told { &raw mut request } else { null_mut() };
        let (at, count) = (list.as_mut_ptr(), list.len() as u32);
        let context = context as *mut c_void;
        // SAFETY: as in `send`.
        let code = during(|| unsafe { mx::mx_irecv(self.0, at, count, info, mask, context, out) });
        if code == SUCCESS { Ok(request) } else { Err(code) }
    }

    /// `mx_test` or `mx_wait`. The handle is gone if the request ended.
    pub(crate) fn complete(self, request: u64, timeout: Timeout) -> Result<Option<Told>, u32> {
        let mut handle = request;
        let told = told(|status, result| {
            let handle = &raw mut handle;
            // SAFETY: the pointers are to values of this function and of its caller.
            unsafe {
                match timeout {
                    None => mx::mx_test(self.0, handle, status, result),
                    Some(ms) => mx::mx_wait(self.0, handle, ms, status, result),
                }
            }
        })?;
        assert_eq!(handle, if told.is_some() { 0 } else { request }, "the handle of a request");
        Ok(told)
    }

    /// `mx_test_any` or `mx_wait_any`.
    pub(crate) fn complete_any(
        self,
        (info, mask): (u64, u64),
        timeout: Timeout,
    ) -> Result<Option<Told>, u32> {
        // SAFETY: the pointers are to values of `told`.
        told(|status, result| unsafe {
            match timeout {
                None => mx::mx_test_any(self.0, info, mask, status, result),
                Some(ms) => mx::mx_wait_any(self.0, ms, info, mask, status, result),
            }
        })
    }

    /// `mx_iprobe` or `mx_probe`.
    pub(crate) fn probe(
        self,
        (info, mask): (u64, u64),
        timeout: Timeout,
    ) -> Result<Option<Told>, u32> {
        // SAFETY: as in `complete_any`.
        told(|status, result| unsafe {
            match timeout {
                None => mx::mx_iprobe(self.0, info, mask, status, result),
                Some(ms) => mx::mx_probe(self.0, ms, info, mask, status, result),
            }
        })
    }

    /// `mx_ipeek` or `mx_peek`: the context of the oldest request that ended, and its handle.
    pub(crate) fn peek(self, timeout: Timeout) -> Option<(usize, u64)> {
        let (mut request, mut result, mut context) = (0, 0, null_mut());
        // SAFETY: the pointers are to values of this function.
        during(|| unsafe {
            let code = match timeout {
                None => mx::mx_ipeek(self.0, &raw mut request, &raw mut result),
                Some(ms) => mx::mx_peek(self.0, ms, &raw mut request, &raw mut result),
            };
            assert_eq!(code, SUCCESS);
            if result != 0 {
                assert_eq!(mx::mx_context(&raw mut request, &raw mut context), SUCCESS);
            }
        });
        (result != 0).then_some((context as usize, request))
    }

    /// Whether it was taken back.
    pub(crate) fn cancel(self, request: u64) -> Result<bool, u32> {
        let (mut handle, mut result) = (request, 9);
        // SAFETY: the pointers are to values of this function.
        let code = during(|| unsafe { mx::mx_cancel(self.0, &raw mut handle, &raw mut result) });
        if code != SUCCESS {
            return Err(code);
        }
        assert_eq!(handle, if result == 1 { 0 } else { request }, "the handle of a receive");
        Ok(result == 1)
    }

    pub(crate) fn forget(self, request: u64) -> u32 {
        let mut handle = request;
        // SAFETY: the pointer is to a value of this function.
        during(|| unsafe { mx::mx_forget(self.0, &raw mut handle) })
    }

    pub(crate) fn is_buffered(self, request: u64) -> Result<bool, u32> {
        let (mut handle, mut result) = (request, 9);
        // SAFETY: the pointers are to values of this function.
        let code = during(|| unsafe { mx::mx_ibuffered(self.0, &raw mut handle, &raw mut result) });
        if code == SUCCESS { Ok(result == 1) } else { Err(code) }
    }
}

/// Makes a call that fills a status if it says so, and leaves it alone if not.
fn told(call: impl FnOnce(*mut Status, *mut u32) -> u32) -> Result<Option<Told>, u32> {
    let untouched = Status {
        code: 99,
        source: Addr { stuff: [1, 2] },
        match_info: 3,
        msg_length: 4,
        xfer_length: 5,
        context: 6 as *mut c_void,
    };
    let (mut status, mut result) = (untouched, 9);
    let code = during(|| call(&raw mut status, &raw mut result));
    let Status { code: how, source, match_info, msg_length, xfer_length, context } = status;
    if code != SUCCESS || result == 0 {
        assert_eq!((how, match_info, xfer_length), (99, 3, 5), "a status that was not asked for");
    }
    if code != SUCCESS {
        return Err(code);
    }
    assert!(result < 2, "neither yes nor no: {result}");
    let context = context as usize;
    let told = Told {
        code: how,
        source,
        info: match_info,
        len: msg_length,
        placed_len: xfer_length,
        context,
    };
    Ok((result == 1).then_some(told))
}

/// NIC id and index of an address.
pub(crate) fn place_of(address: Addr) -> (u64, u32) {
    let (mut nic_id, mut index) = (0, 0);
    // SAFETY: the pointers are to values of this function.
    let code = unsafe { mx::mx_decompose_endpoint_addr(address, &raw mut nic_id, &raw mut index) };
    assert_eq!(code, SUCCESS);
    (nic_id, index)
}
