//! The system, behind functions that are safe to call.
//!
//! ```text
//!   any_socket.rs   what sockets of every kind have in common: opening, options, buffers
//!   name.rs         socket addresses as the kernel has them
//!   socket.rs       one UDP or TCP socket: options, errors, what it may hold
//!   visit.rs        datagrams with the address of ours that they were sent to
//!   poll.rs         many descriptors behind one
//!   interfaces.rs   which interface has an address, and its MTU
//!   region.rs       memory that exists once it is touched
//!   fork.rs         which process this is, and memory that its children do not have
//!   parts.rs        frames of a burst as parts of messages: bytes of its own, and the application's memory
//!   outbox.rs       frames of a burst ──▶ one system call
//!   inbox.rs        one system call ──▶ datagrams, in our memory or scattered into the application's
//!   stream_out.rs   frames of a burst ──▶ one system call ──▶ records of a stream
//!   stream_in.rs    one system call ──▶ bytes of a stream, in our memory or scattered into the application's
//!   packet.rs       one packet socket: options, its filter, interfaces
//!   packet_out.rs   frames of a burst behind Ethernet headers ──▶ one system call
//!   packet_ring.rs  frames that arrive in memory shared with the kernel
//!   packet_queue.rs frames too long for that, in our memory or scattered into the application's
//!   shm.rs          memory and letters between processes of one host
//!   gift.rs         descriptors that came with letters, closed by a thread apart
//!   letter.rs       one such letter
//!   taker.rs        letters of other users that bring some, taken by threads apart
//!   netdev.rs       a network interface: what it is, its driver, its queues
//!   bpf.rs          bpf(2): a map, a program, its attachment
//!   xdp.rs          AF_XDP sockets and the rings they share with the kernel
//!   handover.rs     descriptors from one process to another
//!   signals.rs      threads that take no signals
//!   copier.rs       copies that a second thread helps with
//!   wide.rs         loops with the machine's widest registers
//!   ticks.rs        a counter that is cheaper to read than the clock
//! ```
//!
//! Every pointer given to the kernel is made in the call that gives it, from something that call borrows. What the
//! kernel writes is a number until it was compared with what it was given.

mod any_socket;
pub(crate) mod bpf;
pub(crate) mod copier;
pub mod fork;
pub(crate) mod gift;
pub mod handover;
pub(crate) mod inbox;
pub(crate) mod interfaces;
mod letter;
pub(crate) mod name;
pub(crate) mod netdev;
pub(crate) mod outbox;
pub(crate) mod packet;
pub(crate) mod packet_out;
pub(crate) mod packet_queue;
pub(crate) mod packet_ring;
mod parts;
pub(crate) mod poll;
pub(crate) mod reach;
pub(crate) mod region;
pub(crate) mod shm;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod stream_in;
pub(crate) mod stream_out;
mod taker;
pub(crate) mod ticks;
#[cfg(test)]
pub(crate) mod trap;
pub(crate) mod visit;
pub mod wide;
pub(crate) mod xdp;

use std::io;

/// The answer of a system call that says -1 where it failed.
fn answer(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// The answer of a system call that returns a length.
fn answer_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// The number of the error a system call has just told of.
#[inline]
fn last_errno() -> i32 {
    // SAFETY: the place is the thread's own.
    unsafe { *libc::__errno_location() }
}

/// Numbers, and structs and arrays of them: what the kernel may write into our memory.
///
/// # Safety
/// Any bytes make a value.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: a number.
unsafe impl Plain for i32 {}
// SAFETY: a number.
unsafe impl Plain for u32 {}
// SAFETY: a number.
unsafe impl Plain for u64 {}
// SAFETY: numbers.
unsafe impl<const N: usize> Plain for [u32; N] {}
// SAFETY: numbers.
unsafe impl Plain for libc::tpacket_stats {}
