//! Kernel TCP: `TCP_NODELAY`; non-blocking reads that spin where latency counts, large plain writes and reads where
//! bandwidth does.
//!
//! As much of the user's memory is sent from and received to as by Packhorse beside it: a buffer for what goes and one for what comes in a
//! ping-pong, as in OSU's, and as many by turns in a stream. One buffer for all stays in a core's cache, and a copy from there is no copy that a program makes.
//!
//! Tried for streams between two namespaces, on a busy machine: reads that spin, reads of 32 to 512 KB, send buffers from
//! 256 KB to what the kernel chooses. What is here is a compromise over 64 KB, 1 MB and 4 MB: a send buffer of 256 KB was
//! some 15 % faster at 1 MB but as much slower at 64 KB; with the kernel's own choice (up to 4 MB) 4 MB messages lose a third.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::UNPRIVILEGED_BUFFER_LEN;
use super::sys;
use super::tcp_courier::TcpCourier;
use crate::courier::Courier;
use crate::ours;
use crate::system::{Control, Job, Outcome, Patience, Pattern, Role, Rounds, System, Tally};

/// Reads of a stream take at most so much at once.
const READ_LEN: usize = 64 << 10;
/// Send buffer of a stream.
const STREAM_BUFFER_LEN: usize = 512 << 10;

/// Kernel TCP.
#[derive(Clone, Copy, Debug)]
pub struct Tcp;

impl System for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn can_play(&self, _: Pattern, _: bool) -> bool {
        true
    }

    fn can_sleep(&self) -> bool {
        true
    }

    fn run(&self, job: &Job, control: &mut dyn Control) -> Result<Outcome> {
        let stream = connect(job, control)?;
        match (job.pattern.is_ping_pong(), job.role) {
            (true, Role::Active) => ping(stream, job),
            (true, Role::Passive) => pong(stream, job),
            (false, Role::Active) => write_all_day(stream, job),
            (false, Role::Passive) => count(stream, job),
        }
    }

    fn courier(&self, job: &Job, control: &mut dyn Control) -> Result<Option<Box<dyn Courier>>> {
        let sleeps = job.manner.asleep || job.pattern == Pattern::Idle;
        Ok(Some(Box::new(TcpCourier::new(connect(job, control)?, sleeps)?)))
    }
}

fn connect(job: &Job, control: &mut dyn Control) -> Result<TcpStream> {
    let stream = match job.role {
        Role::Passive => {
            let listener = job.bind_with(TcpListener::bind)?;
            control.exchange(&listener.local_addr()?.to_string())?;
            listener.accept()?.0
        }
        Role::Active => {
            let text = control.exchange("")?;
            let address: SocketAddr =
                text.parse().with_context(|| format!("{text:?} is no address"))?;
            TcpStream::connect_timeout(&address, Duration::from_secs(5))
                .with_context(|| format!("cannot connect to {address}"))?
        }
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads a whole message, spinning where the stream does not block. Whether the other side has more to say.
fn read_spinning(stream: &mut TcpStream, message: &mut [u8]) -> Result<bool> {
    let (mut filled, mut patience) = (0, Patience::default());
    while filled < message.len() {
        match stream.read(&mut message[filled..]) {
            Ok(0) => return Ok(false),
            Ok(len) => filled += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => patience.spend()?,
            Err(error) if is_hang_up(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

fn write_spinning(stream: &mut TcpStream, mut message: &[u8]) -> Result<()> {
    let mut patience = Patience::default();
    while !message.is_empty() {
        match stream.write(message) {
            Ok(len) => message = &message[len..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => patience.spend()?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

fn ping(mut stream: TcpStream, job: &Job) -> Result<Outcome> {
    stream.set_nonblocking(!job.manner.asleep)?;
    let (out, mut back) = (vec![1; job.bytes], vec![0; job.bytes]);
    let mut rounds = Rounds::begin(job);
    loop {
        write_spinning(&mut stream, &out)?;
        ensure!(read_spinning(&mut stream, &mut back)?, "the other side hung up");
        if !rounds.lap() {
            return Ok(rounds.finish());
        }
    }
}

fn pong(mut stream: TcpStream, job: &Job) -> Result<Outcome> {
    stream.set_nonblocking(!job.manner.asleep)?;
    let (mut message, out) = (vec![0; job.bytes], vec![1; job.bytes]);
    while read_spinning(&mut stream, &mut message)? {
        write_spinning(&mut stream, &out)?;
    }
    Ok(Outcome::default())
}

/// One write a message until the receiver hangs up.
fn write_all_day(mut stream: TcpStream, job: &Job) -> Result<Outcome> {
    let messages = vec![vec![1; job.bytes]; ours::depth(job)];
    if job.pattern == Pattern::Stream {
        // The kernel caps it at wmem_max for those without rights; that is part of their lot.
        let is_small = job.unprivileged_buffers;
        let len = if is_small { UNPRIVILEGED_BUFFER_LEN } else { STREAM_BUFFER_LEN };
        sys::set_buffer(stream.as_fd(), sys::Buffer::Send, len, false)?;
    }
    for message in messages.iter().cycle() {
        match stream.write_all(message) {
            Ok(()) => {}
            Err(error) if is_hang_up(&error) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Outcome::default())
}

/// Walks through buffers as long as a message, as one who wants the messages would.
fn count(mut stream: TcpStream, job: &Job) -> Result<Outcome> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut buffer = vec![0; (job.bytes * (ours::depth(job) + 1)).max(READ_LEN)];
    let mut tally = Tally::new(job);
    let (mut at, mut total, mut message_count) = (0, 0, 0);
    loop {
        let end = buffer.len().min(at + READ_LEN);
        let len = stream.read(&mut buffer[at..end])?;
        ensure!(len > 0, "the sender hung up before its time");
        at = if at + len == buffer.len() { 0 } else { at + len };
        total += len as u64;
        let complete = total / job.bytes as u64;
        if !tally.add(len as u64, complete - message_count) {
            return tally.finish();
        }
        message_count = complete;
    }
}
