//! The bare helper: a thread that moves UDP trains beside the application's, with no protocol.
//!
//! ```text
//!   application ── posts ──▶ helper ══ trains, credits ══ helper ◀── posts ── application
//!        ▲                     │                             │                     ▲
//!        └───── buffers ───────┘                             └────── buffers ──────┘
//! ```
//!
//! What offload can be at best with these system calls: nothing is matched, checked or repeated. Bytes are a stream, cut
//! into messages by the lengths that were posted. What is lost is an error; the window keeps it from happening. The helper
//! spins while there is work and sleeps on its sockets when there is none; whoever posts wakes it.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::bare::{MERGED_LEN_MAX, STOP, Wire};
use super::sys::{self, Readiness};
use crate::courier::Courier;

/// Rounds without work after which the helper sleeps: some 20 µs.
const IDLE_ROUND_COUNT: u32 = 100;
/// It sleeps no longer than this.
const SLEEP_MS: u16 = 100;
/// Silence about what is on its way, after which it is lost.
const LOST_AFTER: Duration = Duration::from_secs(2);
/// For those who wait.
const SILENCE_MAX: Duration = Duration::from_secs(10);

enum Post {
    Send(Vec<u8>),
    Recv(Vec<u8>),
}

/// The application's side.
pub(super) struct BareCourier {
    /// None once it is over; the helper ends when it is gone.
    posts: Option<Sender<Post>>,
    sent: Receiver<Vec<u8>>,
    received: Receiver<Vec<u8>>,
    is_asleep: Arc<AtomicBool>,
    bell: UnixStream,
    helper: Option<JoinHandle<Result<()>>>,
}

impl BareCourier {
    pub(super) fn new(wire: Wire) -> Result<Self> {
        let (posts, orders) = mpsc::channel();
        let ((to_sent, sent), (to_received, received)) = (mpsc::channel(), mpsc::channel());
        let (bell, ear) = UnixStream::pair().context("cannot make a bell for the helper")?;
        bell.set_nonblocking(true)?;
        ear.set_nonblocking(true)?;
        let is_asleep = Arc::new(AtomicBool::new(false));
        let mut helper = Helper {
            wire,
            orders,
            sent: to_sent,
            received: to_received,
            is_asleep: Arc::clone(&is_asleep),
            ear,
            out: VecDeque::new(),
            out_len: 0,
            back: VecDeque::new(),
            back_len: 0,
            taken: 0,
            credited: 0,
            spare: vec![0; MERGED_LEN_MAX],
            spare_range: 0..0,
            waits_since: None,
            is_over: false,
        };
        let helper = Some(thread::spawn(move || helper.run()));
        Ok(Self { posts: Some(posts), sent, received, is_asleep, bell, helper })
    }

    fn post(&mut self, post: Post) -> Result<()> {
        let is_posted = self.posts.as_ref().is_some_and(|posts| posts.send(post).is_ok());
        if !is_posted {
            return Err(self.why());
        }
        self.ring();
        Ok(())
    }

    fn ring(&mut self) {
        // SeqCst, as at the sleeper: either it sees the post before it sleeps, or its flag is seen here.
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            self.bell.write_all(&[1]).ok(); // a full pipe rings, too
        }
    }

    /// Why the helper is gone.
    fn why(&mut self) -> anyhow::Error {
        match self.helper.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => error,
            _ => anyhow!("the bare helper is gone"),
        }
    }

    fn look(&mut self, which: fn(&Self) -> &Receiver<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        match which(self).try_recv() {
            Ok(buffer) => Ok(Some(buffer)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.why()),
        }
    }

    fn wait(&mut self, which: fn(&Self) -> &Receiver<Vec<u8>>) -> Result<Vec<u8>> {
        match which(self).recv_timeout(SILENCE_MAX) {
            Ok(buffer) => Ok(buffer),
            Err(RecvTimeoutError::Timeout) => bail!("nothing came from the other side"),
            Err(RecvTimeoutError::Disconnected) => Err(self.why()),
        }
    }
}

impl Drop for BareCourier {
    fn drop(&mut self) {
        self.posts = None;
        self.ring();
        self.helper.take().map(JoinHandle::join);
    }
}

impl Courier for BareCourier {
    fn send(&mut self, buffer: Vec<u8>) -> Result<()> {
        self.post(Post::Send(buffer))
    }

    fn recv(&mut self, buffer: Vec<u8>) -> Result<()> {
        self.post(Post::Recv(buffer))
    }

    fn try_sent(&mut self) -> Result<Option<Vec<u8>>> {
        self.look(|this| &this.sent)
    }

    fn try_received(&mut self) -> Result<Option<Vec<u8>>> {
        self.look(|this| &this.received)
    }

    fn wait_sent(&mut self) -> Result<Vec<u8>> {
        self.wait(|this| &this.sent)
    }

    fn wait_received(&mut self) -> Result<Vec<u8>> {
        self.wait(|this| &this.received)
    }
}

/// The helper's side.
struct Helper {
    wire: Wire,
    orders: Receiver<Post>,
    sent: Sender<Vec<u8>>,
    received: Sender<Vec<u8>>,
    is_asleep: Arc<AtomicBool>,
    ear: UnixStream,
    out: VecDeque<Vec<u8>>,
    /// Of the first of them, sent.
    out_len: usize,
    back: VecDeque<Vec<u8>>,
    /// Of the first of them, filled.
    back_len: usize,
    taken: u64,
    credited: u64,
    /// What was taken off the socket and has no message to go to yet.
    spare: Vec<u8>,
    spare_range: std::ops::Range<usize>,
    waits_since: Option<Instant>,
    is_over: bool,
}

impl Helper {
    fn run(&mut self) -> Result<()> {
        let mut idle_rounds = 0;
        while !(self.is_over && self.out.is_empty()) {
            let did = self.take_orders() | self.hear_credits()? | self.push()? | self.pull()?;
            idle_rounds = if did { 0 } else { idle_rounds + 1 };
            if idle_rounds > IDLE_ROUND_COUNT {
                idle_rounds = 0;
                self.sleep()?;
            }
        }
        Ok(())
    }

    fn take_orders(&mut self) -> bool {
        let mut did = false;
        loop {
            match self.orders.try_recv() {
                Ok(Post::Send(buffer)) => self.out.push_back(buffer),
                Ok(Post::Recv(buffer)) => self.back.push_back(buffer),
                Err(TryRecvError::Empty) => return did,
                Err(TryRecvError::Disconnected) => {
                    self.is_over = true;
                    return did;
                }
            }
            did = true;
        }
    }

    fn on_its_way(&self) -> u64 {
        self.wire.sent.saturating_sub(self.wire.credited)
    }

    /// Hears what the other side has taken, once it matters.
    fn hear_credits(&mut self) -> Result<bool> {
        if self.on_its_way() < self.wire.window as u64 / 2 {
            return Ok(false);
        }
        let mut did = false;
        while let Some(credit) = self.wire.poll_credit()? {
            match credit {
                // It has all and is gone.
                STOP if self.out.is_empty() => self.wire.credited = self.wire.sent,
                STOP => bail!("the other side is gone"),
                credit => self.wire.credited = self.wire.credited.max(credit),
            }
            self.waits_since = None;
            did = true;
        }
        Ok(did)
    }

    /// Sends one train, if the window allows.
    fn push(&mut self) -> Result<bool> {
        let Some(first) = self.out.front() else { return Ok(false) };
        let train = &first[self.out_len..first.len().min(self.out_len + self.wire.train)];
        if self.on_its_way() + train.len() as u64 > self.wire.window as u64 && self.on_its_way() > 0
        {
            let now = Instant::now();
            if now - *self.waits_since.get_or_insert(now) > LOST_AFTER {
                bail!("the bare link lost something, and it repairs nothing");
            }
            return Ok(false);
        }
        match sys::send_train(&self.wire.data, train, self.wire.segment) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let len = train.len();
        self.wire.sent += len as u64;
        self.out_len += len;
        if self.out_len == first.len() {
            self.out_len = 0;
            self.sent.send(self.out.pop_front().unwrap_or_default()).ok(); // nobody waits once it is over
        }
        Ok(true)
    }

    /// Takes one train, if there is a message for it to go to.
    fn pull(&mut self) -> Result<bool> {
        if self.back.is_empty() {
            return Ok(false);
        }
        if !self.spare_range.is_empty() {
            self.unpack();
            return Ok(true);
        }
        let Some(first) = self.back.front_mut() else { return Ok(false) };
        // What may be longer than the message's rest is taken aside first.
        let is_direct = first.len() - self.back_len >= MERGED_LEN_MAX;
        let room = if is_direct { &mut first[self.back_len..] } else { &mut self.spare[..] };
        let Some(train) = sys::recv_train(&self.wire.data, room)? else { return Ok(false) };
        self.taken += train.len as u64;
        if is_direct {
            self.fill(train.len);
        } else {
            self.spare_range = 0..train.len;
            self.unpack();
        }
        // A train is half a window at most, so with a quarter of it unsaid the other side is never stuck.
        if self.taken - self.credited >= self.wire.window as u64 / 4 {
            self.wire.send_credit(self.taken)?;
            self.credited = self.taken;
        }
        Ok(true)
    }

    /// Gives what was taken aside to the messages it belongs to.
    fn unpack(&mut self) {
        while !self.spare_range.is_empty() {
            let Some(first) = self.back.front_mut() else { return };
            let len = self.spare_range.len().min(first.len() - self.back_len);
            let (from, to) = (self.spare_range.start, self.back_len);
            first[to..to + len].copy_from_slice(&self.spare[from..from + len]);
            self.spare_range.start += len;
            self.fill(len);
        }
    }

    /// So much more of the first message is there.
    fn fill(&mut self, len: usize) {
        self.back_len += len;
        if self.back.front().is_some_and(|first| first.len() == self.back_len) {
            self.back_len = 0;
            self.received.send(self.back.pop_front().unwrap_or_default()).ok(); // as above
        }
    }

    /// Until a socket or the bell has something.
    fn sleep(&mut self) -> Result<()> {
        self.is_asleep.store(true, Ordering::SeqCst);
        // What was posted before the flag was up rang no bell.
        if self.take_orders() || self.is_over {
            self.is_asleep.store(false, Ordering::SeqCst);
            return Ok(());
        }
        let read = Readiness { read: true, write: false };
        let data = Readiness { read: !self.back.is_empty(), write: false };
        let wanted = [
            (self.ear.as_fd(), read),
            (self.wire.data.as_fd(), data),
            (self.wire.credits.as_fd(), Readiness { read: !self.out.is_empty(), write: false }),
        ];
        sys::wait_ready(&wanted, Some(SLEEP_MS))?;
        self.is_asleep.store(false, Ordering::SeqCst);
        while self.ear.read(&mut [0; 64]).is_ok_and(|len| len > 0) {}
        Ok(())
    }
}
