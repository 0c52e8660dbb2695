//! The bare socket: UDP with the system calls that our own stack uses, and no protocol.
//!
//! Nothing is checked, ordered, matched or repeated. Only one thing is added, without which nothing would be measured
//! but a full socket buffer: the receiver tells the sender now and then how much it has taken (a *credit*, eight
//! bytes, on a socket of its own), and the sender keeps no more than a window on its way.
//!
//! Messages longer than a datagram go as trains (`UDP_SEGMENT`) and are taken as trains (`UDP_GRO`), without regard to
//! where one message ends and the next begins; where nothing arrives merged, many datagrams are taken in one call.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::UNPRIVILEGED_BUFFER_LEN;
use super::bare_helper::BareCourier;
use super::sys::{self, Batch, Buffer};
use crate::courier::Courier;
use crate::system::{Control, Job, Outcome, Patience, Pattern, Role, Rounds, System, Tally};

/// Socket buffers that are asked for.
const BUFFER_LEN: usize = 4 << 20;
/// IPv4 and UDP headers.
const HEADERS_LEN: usize = 28;
/// What one send call can carry, and how many datagrams it can make of it.
const TRAIN_LEN_MAX: usize = 65_507;
const TRAIN_COUNT_MAX: usize = 64;
/// Largest buffer a merged train can fill.
pub(super) const MERGED_LEN_MAX: usize = 65_536;
/// What the kernel charges a receive buffer for a datagram beyond its payload.
const CHARGE_LEN: usize = 832;
/// More than this on its way does not help, and falls out of the cache.
const WINDOW_LEN_MAX: usize = 512 << 10;
/// Datagrams taken in one call where nothing is merged.
const BATCH_COUNT: usize = 64;
/// A credit that says: enough.
pub(super) const STOP: u64 = u64::MAX;
/// Silence after which the sender takes what is on its way for lost.
const LOST_AFTER: Duration = Duration::from_millis(20);
/// Receives in a row that were not merged, before merging is no longer hoped for.
const UNMERGED_COUNT_MAX: u32 = 32;

/// The UDP socket without a protocol.
#[derive(Clone, Copy, Debug)]
pub struct Bare;

impl System for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }

    fn can_play(&self, pattern: Pattern, _: bool) -> bool {
        Pattern::FLOWS.contains(&pattern) || pattern.is_by_courier() && pattern != Pattern::Idle
    }

    fn courier(&self, job: &Job, control: &mut dyn Control) -> Result<Option<Box<dyn Courier>>> {
        Ok(Some(Box::new(BareCourier::new(Wire::open(job, control)?)?)))
    }

    fn run(&self, job: &Job, control: &mut dyn Control) -> Result<Outcome> {
        let wire = Wire::open(job, control)?;
        match (job.pattern, job.role) {
            (Pattern::PingPong, Role::Active) => ping(wire, job),
            (Pattern::PingPong, Role::Passive) => pong(wire, job),
            (Pattern::Stream, Role::Active) => send_trains(wire, job),
            (Pattern::Stream, Role::Passive) => take_trains(wire, job),
            (Pattern::Rate, Role::Active) => send_singles(wire, job),
            (Pattern::Rate, Role::Passive) => take_singles(wire, job),
            (pattern, _) => bail!("the bare socket does not play {}", pattern.name()),
        }
    }
}

/// Two connected sockets, one for data and one for credits, and what fits through them.
pub(super) struct Wire {
    pub(super) data: UdpSocket,
    pub(super) credits: UdpSocket,
    /// Payload of a full datagram of this job.
    pub(super) segment: usize,
    /// Payload of a full train.
    pub(super) train: usize,
    /// What may be on its way, in bytes.
    pub(super) window: usize,
    pub(super) sent: u64,
    written_off: u64,
    pub(super) credited: u64,
    silent_since: Option<Instant>,
    patience: Patience,
}

impl Wire {
    fn open(job: &Job, control: &mut dyn Control) -> Result<Self> {
        let bind = || job.bind_with(UdpSocket::bind);
        let (data, credits) = (bind()?, bind()?);
        let len = if job.unprivileged_buffers { UNPRIVILEGED_BUFFER_LEN } else { BUFFER_LEN };
        let may_force = !job.unprivileged_buffers;
        let fd = std::os::fd::AsFd::as_fd(&data);
        // Before anything can arrive: what is in the socket by then is not merged afterwards.
        let is_train = job.pattern != Pattern::Rate && job.bytes + HEADERS_LEN > job.mtu;
        let may_be_train =
            is_train || job.pattern == Pattern::Stream || job.pattern.is_by_courier();
        sys::set_gro(&data, may_be_train)?;
        let receive_len = sys::set_buffer(fd, Buffer::Receive, len, may_force)?;
        sys::set_buffer(fd, Buffer::Send, len, may_force)?;
        let mine = format!("{} {}", data.local_addr()?, credits.local_addr()?);
        let theirs = control.exchange(&mine)?;
        let (their_data, their_credits) = parse_pair(&theirs)?;
        data.connect(their_data)?;
        credits.connect(their_credits)?;
        // Nothing may be sent to a socket that is not yet connected: it could come from anywhere.
        control.exchange("connected")?;
        let segment = job.bytes.min(job.mtu - HEADERS_LEN).min(TRAIN_LEN_MAX);
        let train = (TRAIN_LEN_MAX / segment).min(TRAIN_COUNT_MAX) * segment;
        let held = receive_len / 2 * segment / (segment + CHARGE_LEN);
        let window = held.min(WINDOW_LEN_MAX).max(segment);
        let train = train.min((window / segment / 2).max(1) * segment);
        Ok(Self {
            data,
            credits,
            segment,
            train,
            window,
            sent: 0,
            written_off: 0,
            credited: 0,
            silent_since: None,
            patience: Patience::default(),
        })
    }

    /// Waits until `len` more may be sent, in whatever is counted. Whether the receiver wants more at all.
    fn wait_for_room(&mut self, len: u64, window: u64) -> Result<bool> {
        while (self.sent - self.written_off).saturating_sub(self.credited) + len > window {
            match self.poll_credit()? {
                Some(STOP) => return Ok(false),
                Some(credit) => {
                    self.credited = self.credited.max(credit);
                    self.silent_since = None;
                    self.patience.refresh();
                }
                None => self.on_silence()?,
            }
        }
        Ok(true)
    }

    fn on_silence(&mut self) -> Result<()> {
        let now = Instant::now();
        if now - *self.silent_since.get_or_insert(now) > LOST_AFTER {
            self.written_off = self.sent - self.credited.min(self.sent);
            self.silent_since = None;
        }
        self.patience.spend()
    }

    pub(super) fn poll_credit(&self) -> Result<Option<u64>> {
        let mut credit = [0; 8];
        match sys::recv(&self.credits, &mut credit) {
            Ok(Some(_)) => Ok(Some(u64::from_le_bytes(credit))),
            Ok(None) => Ok(None),
            Err(error) if is_gone(&error) => Ok(Some(STOP)),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn send_credit(&self, credit: u64) -> Result<()> {
        match sys::send(&self.credits, &credit.to_le_bytes()) {
            Err(error) if !is_gone(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Tells the sender that it is enough, for as long as it might not have heard.
    fn stop_sender(&self) -> Result<()> {
        for _ in 0..5 {
            self.send_credit(STOP)?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Sends a message in as few calls as it takes. Whether the receiver wants more.
    fn send_message(&mut self, message: &[u8]) -> Result<bool> {
        if message.len() <= self.segment {
            sys::send(&self.data, message)?;
            return Ok(true);
        }
        for train in message.chunks(self.train) {
            if message.len() > self.window
                && !self.wait_for_room(train.len() as u64, self.window as u64)?
            {
                return Ok(false);
            }
            sys::send_train(&self.data, train, self.segment)?;
            self.sent += train.len() as u64;
        }
        Ok(true)
    }

    /// Takes a whole message, spinning; `taken` counts over all messages. Whether the other side has more to say.
    fn recv_message(&self, message: &mut [u8], taken: &mut u64) -> Result<bool> {
        let (mut filled, mut patience) = (0, Patience::default());
        let (len_all, mut credited) = (message.len(), 0);
        while filled < len_all {
            let room = &mut message[filled..];
            let Some(train) = sys::recv_train(&self.data, room)? else {
                patience.spend()?;
                continue;
            };
            if train.len == 0 {
                return Ok(false);
            }
            filled += train.len;
            *taken += train.len as u64;
            credited += train.len;
            if len_all > self.window && (credited > self.window / 4 || filled == len_all) {
                self.send_credit(*taken)?;
                credited = 0;
            }
        }
        Ok(true)
    }
}

fn parse_pair(text: &str) -> Result<(SocketAddr, SocketAddr)> {
    let pair = text.split_once(' ').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    pair.with_context(|| format!("{text:?} is no pair of addresses"))
}

/// A socket that is connected hears that nobody listens on the other side any more.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionRefused
}

fn ping(mut wire: Wire, job: &Job) -> Result<Outcome> {
    let (mut message, mut taken) = (vec![1; job.bytes], 0);
    let mut rounds = Rounds::begin(job);
    loop {
        wire.send_message(&message)?;
        if job.bytes <= wire.segment {
            recv_single(&wire.data, &mut message)?;
        } else if !wire.recv_message(&mut message, &mut taken)? {
            bail!("the other side stopped before its time");
        }
        if !rounds.lap() {
            break;
        }
    }
    for _ in 0..3 {
        sys::send(&wire.data, &[]).ok(); // empty: the end; the other side may be gone after the first
    }
    Ok(rounds.finish())
}

fn pong(mut wire: Wire, job: &Job) -> Result<Outcome> {
    let (mut message, mut taken) = (vec![0; job.bytes], 0);
    loop {
        let is_next = if job.bytes <= wire.segment {
            recv_single(&wire.data, &mut message)? > 0
        } else {
            wire.recv_message(&mut message, &mut taken)?
        };
        if !is_next {
            return Ok(Outcome::default());
        }
        wire.send_message(&message)?;
    }
}

#[inline]
fn recv_single(socket: &UdpSocket, message: &mut [u8]) -> Result<usize> {
    let mut patience = Patience::default();
    loop {
        match sys::recv(socket, message)? {
            Some(len) => return Ok(len),
            None => patience.spend()?,
        }
    }
}

/// Sends trains from a buffer as long as a message, round and round, until the receiver has had enough.
fn send_trains(mut wire: Wire, job: &Job) -> Result<Outcome> {
    let buffer = vec![1; job.bytes.max(wire.train)];
    let mut at = 0;
    while wire.wait_for_room(wire.train as u64, wire.window as u64)? {
        match sys::send_train(&wire.data, &buffer[at..at + wire.train], wire.segment) {
            Ok(len) => wire.sent += len as u64,
            Err(error) if is_gone(&error) => break,
            Err(error) => return Err(error.into()),
        }
        at = if at + 2 * wire.train > buffer.len() { 0 } else { at + wire.train };
    }
    let note = (wire.written_off > 0).then(|| format!("{} bytes taken for lost", wire.written_off));
    Ok(Outcome { note, ..Outcome::default() })
}

/// Takes trains into a buffer as long as a message, round and round.
fn take_trains(wire: Wire, job: &Job) -> Result<Outcome> {
    let mut buffer = vec![0; job.bytes.max(MERGED_LEN_MAX)];
    let mut counter = Counter::new(&wire, job);
    let (mut at, mut unmerged_count) = (0, 0);
    // A train of one is as merged as it can be.
    let can_merge = wire.train > wire.segment;
    while !can_merge || unmerged_count < UNMERGED_COUNT_MAX {
        let Some(train) = sys::recv_train(&wire.data, &mut buffer[at..at + MERGED_LEN_MAX])? else {
            counter.tally.idle()?;
            continue;
        };
        unmerged_count = if train.is_merged { 0 } else { unmerged_count + 1 };
        at = if at + train.len + MERGED_LEN_MAX > buffer.len() { 0 } else { at + train.len };
        if !counter.add(train.len as u64)? {
            return counter.finish();
        }
    }
    sys::set_gro(&wire.data, false)?; // a train would not fit a slot
    let mut batch = Batch::new(BATCH_COUNT, wire.segment);
    loop {
        let Some((_, len)) = batch.recv(&wire.data)? else {
            counter.tally.idle()?;
            continue;
        };
        if !counter.add(len as u64)? {
            return counter.finish();
        }
    }
}

/// The receiver's books: what counts, and what the sender has been told.
struct Counter<'a> {
    wire: &'a Wire,
    tally: Tally,
    bytes: u64,
    taken: u64,
    credited: u64,
}

impl<'a> Counter<'a> {
    fn new(wire: &'a Wire, job: &Job) -> Self {
        Self { wire, tally: Tally::new(job), bytes: job.bytes as u64, taken: 0, credited: 0 }
    }

    fn add(&mut self, len: u64) -> Result<bool> {
        let message_count = (self.taken + len) / self.bytes - self.taken / self.bytes;
        self.taken += len;
        if self.taken - self.credited >= self.wire.window as u64 / 4 {
            self.wire.send_credit(self.taken)?;
            self.credited = self.taken;
        }
        Ok(self.tally.add(len, message_count))
    }

    fn finish(self) -> Result<Outcome> {
        self.wire.stop_sender()?;
        self.tally.finish()
    }
}

/// Sends single datagrams, many in a call, with at most a window of them on their way.
fn send_singles(mut wire: Wire, job: &Job) -> Result<Outcome> {
    let burst = (job.window / 2).clamp(1, BATCH_COUNT);
    let mut batch = Batch::new(burst, datagram_len(&wire, job)?);
    while wire.wait_for_room(burst as u64, job.window as u64)? {
        match batch.send(&wire.data, burst) {
            Ok(count) => wire.sent += count as u64,
            Err(error) if is_gone(&error) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let note = (wire.written_off > 0).then(|| format!("{} taken for lost", wire.written_off));
    Ok(Outcome { note, ..Outcome::default() })
}

fn take_singles(wire: Wire, job: &Job) -> Result<Outcome> {
    let len = datagram_len(&wire, job)?;
    let mut batch = Batch::new(job.window.clamp(1, BATCH_COUNT), len);
    let mut tally = Tally::new(job);
    let (mut taken, mut credited) = (0, 0);
    let credit_every = (job.window as u64 / 4).max(1);
    loop {
        let Some((count, len)) = batch.recv(&wire.data)? else {
            tally.idle()?;
            continue;
        };
        taken += count as u64;
        if taken - credited >= credit_every {
            wire.send_credit(taken)?;
            credited = taken;
        }
        if !tally.add(len as u64, count as u64) {
            wire.stop_sender()?;
            return tally.finish();
        }
    }
}

fn datagram_len(wire: &Wire, job: &Job) -> Result<usize> {
    if job.bytes > wire.segment {
        bail!("rate is for messages that fit a datagram ({} bytes here)", wire.segment);
    }
    Ok(job.bytes)
}
