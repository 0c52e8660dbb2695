//! A program of MX, for who measures: owns its buffers and calls the functions of `mx` by their addresses, as a foreign binary does.
//!
//! `packhorse bench --face mx` plays its patterns with it beside the native interface, so that what the face costs is a number. Links and
//! placement come from the measurement, so the endpoint is opened past `mx_open_endpoint`; all else goes through MX.

use std::ffi::{CStr, c_void};
use std::hint::black_box;
use std::net::IpAddr;
use std::ptr::null_mut;

use packhorse::Builder;

use crate::abi::{Addr, Segment, Status};
use crate::codes::{self, Code};
use crate::{mx, open};

/// Of endpoints that measure.
const KEY: u32 = 0x7061_636b;
/// A blocking call gives up after this: nothing that is measured takes so long.
const PATIENCE_MS: u32 = 10_000;

/// The functions by their addresses, which the compiler cannot see through.
#[derive(Clone, Copy)]
struct Calls {
    isend: unsafe extern "C" fn(u64, *mut Segment, u32, Addr, u64, *mut c_void, *mut u64) -> u32,
    irecv: unsafe extern "C" fn(u64, *mut Segment, u32, u64, u64, *mut c_void, *mut u64) -> u32,
    wait: unsafe extern "C" fn(u64, *mut u64, u32, *mut Status, *mut u32) -> u32,
    test: unsafe extern "C" fn(u64, *mut u64, *mut Status, *mut u32) -> u32,
    cancel: unsafe extern "C" fn(u64, *mut u64, *mut u32) -> u32,
}

/// A buffer and what is under way with it.
struct Buffer {
    bytes: Box<[u8]>,
    /// 0: nothing.
    request: u64,
}

/// A message that arrived, or a send that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Match bits.
    pub tag: u64,
    /// Bytes stored.
    pub len: u32,
}

/// An endpoint with one peer and some buffers.
pub struct Caller {
    calls: Calls,
    endpoint: u64,
    peer: Addr,
    slots: Vec<Buffer>,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

fn check(what: &str, code: Code) -> Result<(), String> {
    if code == codes::SUCCESS {
        return Ok(());
    }
    let text: &CStr = codes::text(code);
    Err(format!("{what}: {} ({code})", text.to_string_lossy()))
}

/// Errors are told to the caller, and do not end the process.
unsafe extern "C" fn errors_return(_: *mut std::ffi::c_char, code: u32) -> u32 {
    code
}

impl Caller {
    /// Opens an endpoint on the interface with this address, as `builder` says, with so many buffers of so many bytes.
    pub fn open(
        ip: IpAddr,
        builder: &dyn Fn() -> Builder,
        (slot_count, len): (usize, usize),
    ) -> Result<Self, String> {
        mx::mx_set_error_handler(Some(errors_return));
        let opened = open::open_on(ip, KEY, builder);
        let endpoint = opened.map_err(|code| check("opening an endpoint", code).unwrap_err())?;
        // Not zeros: pages that nobody wrote to are all one page, and cost nothing to read.
        let slot = || Buffer { bytes: vec![1; len].into(), request: 0 };
        let calls = black_box(Calls {
            isend: mx::mx_isend,
            irecv: mx::mx_irecv,
            wait: mx::mx_wait,
            test: mx::mx_test,
            cancel: mx::mx_cancel,
        });
        let slots = std::iter::repeat_with(slot).take(slot_count).collect();
        Ok(Self { calls, endpoint, peer: Addr::default(), slots })
    }

    /// NIC id and index, by which the other side connects.
    pub fn place(&self) -> Result<(u64, u32), String> {
        let (mut own, mut nic_id, mut index) = (Addr::default(), 0, 0);
        // SAFETY: the pointers are to values of this function.
        let codes = unsafe {
            let got = mx::mx_get_endpoint_addr(self.endpoint, &raw mut own);
            (got, mx::mx_decompose_endpoint_addr(own, &raw mut nic_id, &raw mut index))
        };
        check("mx_get_endpoint_addr", codes.0)?;
        check("mx_decompose_endpoint_addr", codes.1)?;
        Ok((nic_id, index))
    }

    /// Connects to the only peer there is to be.
    pub fn connect(&mut self, (nic_id, index): (u64, u32)) -> Result<(), String> {
        let to = &raw mut self.peer;
        // SAFETY: the pointer is to a value of ours.
        let code = unsafe { mx::mx_connect(self.endpoint, nic_id, index, KEY, PATIENCE_MS, to) };
        check("mx_connect", code)
    }

    /// A segment of a buffer that nothing is under way with.
    fn segment(&mut self, slot: usize, len: usize) -> Segment {
        let slot = &mut self.slots[slot];
        assert!(slot.request == 0 && len <= slot.bytes.len(), "a buffer in use, or too short");
        Segment { ptr: slot.bytes.as_mut_ptr().cast(), len: len as u32 }
    }

    /// Sends the first `len` bytes of a buffer.
    #[inline]
    pub fn send(&mut self, slot: usize, len: usize, tag: u64) -> Result<(), String> {
        let mut segment = self.segment(slot, len);
        let (list, out) = (&raw mut segment, &raw mut self.slots[slot].request);
        let (isend, from, to) = (self.calls.isend, self.endpoint, self.peer);
        // The list is looked at during the call only.
        // SAFETY: the segment's buffer is ours, neither moved nor used until its request ended or the endpoint is closed (`drop`).
        let code = unsafe { isend(from, list, 1, to, tag, null_mut(), out) };
        check("mx_isend", code)
    }

    /// Receives into a buffer what has these bits where the mask has ones.
    #[inline]
    pub fn recv(&mut self, slot: usize, tag: u64, mask: u64) -> Result<(), String> {
        let len = self.slots[slot].bytes.len();
        let mut segment = self.segment(slot, len);
        let (list, out) = (&raw mut segment, &raw mut self.slots[slot].request);
        let (irecv, at) = (self.calls.irecv, self.endpoint);
        // SAFETY: as in `send`.
        let code = unsafe { irecv(at, list, 1, tag, mask, null_mut(), out) };
        check("mx_irecv", code)
    }

    /// Waits for what is under way with a buffer; `None` after so many milliseconds.
    #[inline]
    pub fn wait(&mut self, slot: usize, timeout_ms: u32) -> Result<Option<Ended>, String> {
        let (mut status, mut result) = (blank(), 0);
        let request = &raw mut self.slots[slot].request;
        // SAFETY: the pointers are to values of this function and of ours.
        let code = unsafe {
            (self.calls.wait)(self.endpoint, request, timeout_ms, &raw mut status, &raw mut result)
        };
        check("mx_wait", code)?;
        told(&status, result)
    }

    /// Looks whether what is under way with a buffer has ended.
    #[inline]
    pub fn test(&mut self, slot: usize) -> Result<Option<Ended>, String> {
        let (mut status, mut result) = (blank(), 0);
        let request = &raw mut self.slots[slot].request;
        let (test, at) = (self.calls.test, self.endpoint);
        // SAFETY: as in `wait`.
        let code = unsafe { test(at, request, &raw mut status, &raw mut result) };
        check("mx_test", code)?;
        told(&status, result)
    }

    /// Takes a receive back, if no message has been bound to it.
    pub fn cancel(&mut self, slot: usize) -> Result<bool, String> {
        let mut result = 0;
        let request = &raw mut self.slots[slot].request;
        // SAFETY: as in `wait`.
        let code = unsafe { (self.calls.cancel)(self.endpoint, request, &raw mut result) };
        check("mx_cancel", code)?;
        Ok(result != 0)
    }
}

fn blank() -> Status {
    let (source, context) = (Addr::default(), null_mut());
    Status { code: 0, source, match_info: 0, msg_length: 0, xfer_length: 0, context }
}

fn told(status: &Status, result: u32) -> Result<Option<Ended>, String> {
    if result == 0 {
        return Ok(None);
    }
    if status.code != codes::SUCCESS {
        return Err(format!("a request ended with status {}", status.code));
    }
    Ok(Some(Ended { tag: status.match_info, len: status.xfer_length }))
}

impl Drop for Caller {
    /// Closes the endpoint; the buffers go after that.
    fn drop(&mut self) {
        mx::mx_close_endpoint(self.endpoint);
    }
}
