//! Kernel TCP as a courier: one stream that does not block, written and read whenever there is a call, as an MPI over TCP
//! does. While nobody calls, only the kernel's own buffers move anything.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

use anyhow::{Result, bail};

use super::sys::{self, Readiness};
use super::tcp::is_hang_up;
use crate::courier::Courier;
use crate::system::Patience;

/// One direction: messages under way, how far the first of them is, and those that are over.
#[derive(Default)]
struct Way {
    under_way: VecDeque<Vec<u8>>,
    done_len: usize,
    over: VecDeque<Vec<u8>>,
}

impl Way {
    /// The first message moved on by so much.
    fn advance(&mut self, len: usize) {
        self.done_len += len;
        if self.under_way.front().is_some_and(|first| self.done_len == first.len()) {
            self.done_len = 0;
            self.over.extend(self.under_way.pop_front());
        }
    }
}

/// Kernel TCP.
pub(super) struct TcpCourier {
    stream: TcpStream,
    out: Way,
    back: Way,
    /// Whether who waits sleeps; otherwise it spins.
    sleeps: bool,
    is_hung_up: bool,
}

impl TcpCourier {
    pub(super) fn new(stream: TcpStream, sleeps: bool) -> Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, out: Way::default(), back: Way::default(), sleeps, is_hung_up: false })
    }

    /// Writes and reads what can be without waiting. Whether anything moved.
    fn progress(&mut self) -> Result<bool> {
        let mut is_moved = false;
        while let Some(first) = self.out.under_way.front() {
            match self.stream.write(&first[self.out.done_len..]) {
                Ok(len) => self.out.advance(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
            is_moved = true;
        }
        while let Some(first) = self.back.under_way.front_mut() {
            match self.stream.read(&mut first[self.back.done_len..]) {
                Ok(0) => self.is_hung_up = true,
                Ok(len) => self.back.advance(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if is_hang_up(&error) => self.is_hung_up = true,
                Err(error) => return Err(error.into()),
            }
            if self.is_hung_up {
                break; // what came before it can still be had
            }
            is_moved = true;
        }
        Ok(is_moved)
    }

    fn wait_for(&mut self, over: impl Fn(&mut Self) -> Option<Vec<u8>>) -> Result<Vec<u8>> {
        let mut patience = Patience::default();
        loop {
            if let Some(buffer) = over(self) {
                return Ok(buffer);
            }
            if self.progress()? {
                patience.refresh();
            } else if self.is_hung_up && self.back.over.is_empty() {
                bail!("the other side hung up");
            } else if self.sleeps {
                let wanted = Readiness { read: true, write: !self.out.under_way.is_empty() };
                sys::wait_ready(&[(self.stream.as_fd(), wanted)], None)?;
            } else {
                patience.spend()?;
            }
        }
    }
}

impl Courier for TcpCourier {
    fn send(&mut self, buffer: Vec<u8>) -> Result<()> {
        self.out.under_way.push_back(buffer);
        self.progress().map(drop)
    }

    fn recv(&mut self, buffer: Vec<u8>) -> Result<()> {
        self.back.under_way.push_back(buffer);
        Ok(())
    }

    fn try_sent(&mut self) -> Result<Option<Vec<u8>>> {
        if self.out.over.is_empty() {
            self.progress()?;
        }
        Ok(self.out.over.pop_front())
    }

    fn try_received(&mut self) -> Result<Option<Vec<u8>>> {
        if self.back.over.is_empty() {
            self.progress()?;
        }
        Ok(self.back.over.pop_front())
    }

    fn wait_sent(&mut self) -> Result<Vec<u8>> {
        self.wait_for(|this| this.out.over.pop_front())
    }

    fn wait_received(&mut self) -> Result<Vec<u8>> {
        self.wait_for(|this| this.back.over.pop_front())
    }
}
