//! The bare AF_XDP socket: an interface without a protocol.
//!
//! Packets of an EtherType of its own go past the system's network, by a ring each way. Messages lie in buffers of the
//! application, as they do for all systems, and are copied into shared frames and out of them, once each; nothing is
//! checked, ordered, matched or repeated. As with the bare UDP socket, the receiver tells the sender now and then how many
//! packets it has taken, since otherwise only the length of a ring would be measured.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::sys;
use super::xdp_sys::{self, ETHER_TYPE, Port, RX_COUNT, TX_COUNT};
use crate::system::{Control, Job, Outcome, Patience, Pattern, Role, Rounds, System, Tally};

/// Ethernet's header and what kind of packet it is.
const HEAD_LEN: usize = 16;
const DATA: u8 = 0;
const CREDIT: u8 = 1;
/// The sender has no more to say, or the receiver has had enough.
const STOP: u8 = 2;
/// What a frame holds on its way in.
const RX_LEN: usize = 3840;
/// Packets put in before the kernel is called.
const BATCH_COUNT: usize = 32;
/// More packets than this on their way do not help, and fall out of the cache.
const WINDOW_COUNT_MAX: usize = 128;
/// Silence after which the sender takes what is on its way for lost.
const LOST_AFTER: Duration = Duration::from_millis(20);

/// The AF_XDP socket without a protocol.
#[derive(Clone, Copy, Debug)]
pub struct XdpBare;

impl System for XdpBare {
    fn name(&self) -> &'static str {
        "xdp-bare"
    }

    fn is_usual(&self, two_hosts: bool) -> bool {
        two_hosts && xdp_sys::is_allowed()
    }

    fn run(&self, job: &Job, control: &mut dyn Control) -> Result<Outcome> {
        let wire = Wire::open(job, control)?;
        match (job.pattern, job.role) {
            (Pattern::PingPong, Role::Active) => ping(wire, job),
            (Pattern::PingPong, Role::Passive) => pong(wire, job),
            (Pattern::Stream | Pattern::Rate, Role::Active) => send(wire, job),
            (Pattern::Stream | Pattern::Rate, Role::Passive) => take(wire, job),
            (pattern, _) => bail!("xdp-bare does not play {}", pattern.name()),
        }
    }
}

struct Wire {
    port: Port,
    /// Of a data packet.
    head: [u8; HEAD_LEN],
    /// Payload of a full packet of this job.
    segment: usize,
    /// Packets that may be on their way.
    window: u64,
    sent: u64,
    written_off: u64,
    credited: u64,
    /// Packets taken, and how many of them the other side knows of.
    taken: u64,
    told: u64,
    is_stopped: bool,
    silent_since: Option<Instant>,
    patience: Patience,
}

impl Wire {
    fn open(job: &Job, control: &mut dyn Control) -> Result<Self> {
        let found = sys::addresses().into_iter().find(|(_, address)| *address == job.bind);
        let (interface, _) = found.with_context(|| format!("no interface has {}", job.bind))?;
        if interface == "lo" {
            bail!("xdp-bare needs an Ethernet interface: measure it with --two-hosts");
        }
        let port = Port::open(&interface, job.mtu).with_context(|| {
            let is_allowed = xdp_sys::is_allowed();
            let why = if is_allowed { "" } else { "; it needs root, outside of user namespaces" };
            format!("cannot open AF_XDP on {interface}{why}")
        })?;
        let mine = xdp_sys::mac_of(&interface)?;
        let text = mine.map(|byte| format!("{byte:02x}")).join(":");
        let theirs = control.exchange(&text)?;
        let theirs: Option<Vec<u8>> =
            theirs.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        let theirs = theirs.filter(|mac| mac.len() == 6).context("no MAC address")?;
        // Nothing may be sent to a port that is not yet open.
        control.exchange("open")?;
        let mut head = [0; HEAD_LEN];
        head[..6].copy_from_slice(&theirs);
        head[6..12].copy_from_slice(&mine);
        head[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
        let segment = job.bytes.min(job.mtu - (HEAD_LEN - 14));
        // Half of what the rings hold, at both ends.
        let pieces = (segment + HEAD_LEN).div_ceil(RX_LEN);
        let held = (RX_COUNT / 2 / pieces).min(TX_COUNT / pieces).min(WINDOW_COUNT_MAX);
        let window = if job.pattern == Pattern::Rate { job.window.min(held) } else { held };
        Ok(Self {
            port,
            head,
            segment,
            window: window.max(1) as u64,
            sent: 0,
            written_off: 0,
            credited: 0,
            taken: 0,
            told: 0,
            is_stopped: false,
            silent_since: None,
            patience: Patience::default(),
        })
    }

    /// Takes a packet, if there is one; of data, how long it was. Credits are only noted.
    #[inline]
    fn poll(&mut self, out: &mut [u8]) -> Option<usize> {
        let mut head = [0; HEAD_LEN];
        let len = self.port.take(&mut head, out)?;
        match head[14] {
            DATA => {
                self.taken += 1;
                return Some(len);
            }
            CREDIT => {
                let count = out.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                self.credited = self.credited.max(count);
                self.silent_since = None;
                self.patience.refresh();
            }
            _ => self.is_stopped = true,
        }
        None
    }

    fn tell(&mut self, kind: u8) -> Result<()> {
        let mut head = self.head;
        head[14] = kind;
        self.told = self.taken;
        // Without room the next one says it.
        if self.port.push(&head, &self.taken.to_le_bytes()) {
            self.port.flush()?;
        }
        Ok(())
    }

    /// Tells the other side that it is over, for as long as it might not have heard.
    fn stop(&mut self) -> Result<()> {
        for _ in 0..5 {
            self.tell(STOP)?;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// How many packets may be sent now; waits until it is one. None if the receiver wants no more.
    #[inline]
    fn wait_for_room(&mut self) -> Result<Option<u64>> {
        let mut room = [0; 8];
        loop {
            let on_way = (self.sent - self.written_off).saturating_sub(self.credited);
            if self.is_stopped {
                return Ok(None);
            }
            if on_way < self.window {
                return Ok(Some(self.window - on_way));
            }
            if self.poll(&mut room).is_none() && self.credited < self.sent {
                self.on_silence()?;
            }
        }
    }

    fn on_silence(&mut self) -> Result<()> {
        let now = Instant::now();
        if now - *self.silent_since.get_or_insert(now) > LOST_AFTER {
            self.written_off = self.sent - self.credited.min(self.sent);
            self.silent_since = None;
        }
        self.patience.spend()
    }

    /// Puts one packet in; it is sent by the next flush at the latest.
    #[inline]
    fn put(&mut self, body: &[u8]) -> Result<()> {
        while !self.port.push(&self.head, body) {
            self.port.flush()?;
            self.patience.spend()?;
        }
        self.sent += 1;
        Ok(())
    }

    /// Sends a message. Whether the other side still listens.
    #[inline]
    fn send_message(&mut self, message: &[u8]) -> Result<bool> {
        if message.len() <= self.segment {
            self.put(message)?;
            self.port.flush()?;
            return Ok(true);
        }
        let mut room = 0;
        for (number, segment) in message.chunks(self.segment).enumerate() {
            if room == 0 {
                self.port.flush()?;
                let Some(more) = self.wait_for_room()? else { return Ok(false) };
                room = more;
            }
            room -= 1;
            self.put(segment)?;
            if number % BATCH_COUNT == BATCH_COUNT - 1 {
                self.port.flush()?;
            }
        }
        self.port.flush()?;
        Ok(true)
    }

    /// Takes a whole message. Whether the other side has more to say.
    #[inline]
    fn recv_message(&mut self, message: &mut [u8]) -> Result<bool> {
        let (mut filled, mut patience) = (0, Patience::default());
        let is_long = message.len() > self.segment;
        // Long enough for a credit too, which may come in between.
        let mut small = [0; 8];
        while filled < message.len() {
            let is_tiny = message.len() - filled < small.len();
            let room = if is_tiny { &mut small[..] } else { &mut message[filled..] };
            let Some(len) = self.poll(room) else {
                if self.is_stopped {
                    return Ok(false);
                }
                patience.spend()?;
                continue;
            };
            if is_tiny {
                let rest = message.len() - filled;
                message[filled..].copy_from_slice(&small[..rest]);
            }
            filled += len;
            if is_long && self.taken - self.told >= self.window / 4 {
                self.tell(CREDIT)?;
            }
        }
        // What the sender counts as on its way must not outlive the message.
        if is_long && self.told < self.taken {
            self.tell(CREDIT)?;
        }
        Ok(true)
    }
}

fn ping(mut wire: Wire, job: &Job) -> Result<Outcome> {
    let mut message = vec![1; job.bytes];
    let mut rounds = Rounds::begin(job);
    loop {
        if !(wire.send_message(&message)? && wire.recv_message(&mut message)?) {
            bail!("the other side stopped before its time");
        }
        if !rounds.lap() {
            break;
        }
    }
    wire.stop()?;
    Ok(rounds.finish())
}

fn pong(mut wire: Wire, job: &Job) -> Result<Outcome> {
    let mut message = vec![0; job.bytes];
    while wire.recv_message(&mut message)? {
        wire.send_message(&message)?;
    }
    Ok(Outcome::default())
}

/// Sends packets from a buffer as long as a message, round and round, until the receiver has had enough.
fn send(mut wire: Wire, job: &Job) -> Result<Outcome> {
    if job.pattern == Pattern::Rate && job.bytes > wire.segment {
        bail!("rate is for messages that fit a packet ({} bytes here)", wire.segment);
    }
    let message = vec![1; job.bytes];
    let mut segments = message.chunks(wire.segment).cycle();
    let batch = (wire.window / 2).clamp(1, BATCH_COUNT as u64);
    while let Some(room) = wire.wait_for_room()? {
        for _ in 0..room.min(batch) {
            let segment = segments.next().expect("a message has at least one byte");
            wire.put(segment)?;
        }
        wire.port.flush()?;
    }
    let note = (wire.written_off > 0).then(|| format!("{} taken for lost", wire.written_off));
    Ok(Outcome { note, ..Outcome::default() })
}

/// Takes packets into a buffer as long as a message, round and round.
fn take(mut wire: Wire, job: &Job) -> Result<Outcome> {
    let mut buffer = vec![0; job.bytes.max(wire.segment).max(8)];
    let (mut tally, mut at, mut all) = (Tally::new(job), 0, 0);
    let bytes = job.bytes as u64;
    loop {
        let room = &mut buffer[at..];
        let Some(len) = wire.poll(room) else {
            tally.idle()?;
            continue;
        };
        at = if at + len + wire.segment > buffer.len() { 0 } else { at + len };
        let message_count = (all + len as u64) / bytes - all / bytes;
        all += len as u64;
        if wire.taken - wire.told >= (wire.window / 4).max(1) {
            wire.tell(CREDIT)?;
        }
        if !tally.add(len as u64, message_count) {
            wire.stop()?;
            return tally.finish();
        }
    }
}
