//! The bare packet socket: raw Ethernet with the system calls that our own link uses, and no protocol.
//!
//! As in `bare`, nothing is checked, ordered, matched or repeated, and only credits are added: eight bytes, under an
//! EtherType of their own. Frames are as long as the interface takes them. Those of usual Ethernet are taken from a ring,
//! which is quickest; so are jumbo frames of a message that fits one, while many of them are taken by recvmmsg, which spares
//! a copy.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::UNPRIVILEGED_BUFFER_LEN;
use super::sys::{self, Buffer, ETHERNET_LEN, FRAME_COUNT_MAX, Interface, RawSocket};
use crate::system::{Control, Job, Outcome, Patience, Pattern, Role, Rounds, System, Tally};

/// The two EtherTypes that anybody may use for experiments.
const DATA: u16 = 0x88b6;
const CREDITS: u16 = 0x88b5;
/// Socket buffers that are asked for.
const BUFFER_LEN: usize = 4 << 20;
/// What the kernel charges a receive buffer for, at most, beyond twice the length of a frame.
const CHARGE_LEN: usize = 1024;
/// More than this on its way does not help, and falls out of the cache.
const WINDOW_LEN_MAX: usize = 512 << 10;
/// Bytes in one send call.
const CALL_LEN_MAX: usize = 64 << 10;
/// Longer frames are jumbo frames.
const USUAL_LEN_MAX: usize = 2000;
/// The longest that go through a ring.
const RING_LEN_MAX: usize = 16 << 10;
/// A credit that says: enough.
const STOP: u64 = u64::MAX;
/// Silence after which the sender takes what is on its way for lost.
const LOST_AFTER: Duration = Duration::from_millis(20);

/// The packet socket without a protocol.
#[derive(Clone, Copy, Debug)]
pub struct BarePacket;

/// As it is called.
const NAME: &str = "packet-bare";

impl System for BarePacket {
    fn name(&self) -> &'static str {
        NAME
    }

    fn is_usual(&self, is_two_hosts: bool) -> bool {
        is_two_hosts
    }

    fn run(&self, job: &Job, control: &mut dyn Control) -> Result<Outcome> {
        let wire = Wire::open(job, control)?;
        match (job.pattern, job.role) {
            (Pattern::PingPong, Role::Active) => ping(wire, job),
            (Pattern::PingPong, Role::Passive) => pong(wire, job),
            (Pattern::Stream, Role::Active) => send_stream(wire, job),
            (Pattern::Stream, Role::Passive) => take_stream(wire, job),
            (Pattern::Rate, Role::Active) => send_singles(wire, job),
            (Pattern::Rate, Role::Passive) => take_singles(wire, job),
            (pattern, _) => bail!("{NAME} does not play {}", pattern.name()),
        }
    }
}

/// Two sockets, one for data and one for credits, and what fits through them.
struct Wire {
    data: RawSocket,
    credits: RawSocket,
    data_header: [u8; ETHERNET_LEN],
    credit_header: [u8; ETHERNET_LEN],
    /// Payload of a full frame of this job.
    segment: usize,
    /// What may be on its way, in bytes.
    window: usize,
    sent: u64,
    written_off: u64,
    credited: u64,
    silent_since: Option<Instant>,
    patience: Patience,
}

impl Wire {
    fn open(job: &Job, control: &mut dyn Control) -> Result<Self> {
        ensure!(
            !job.bind.is_loopback(),
            "{NAME} needs a network that is not the loopback interface; measure with --two-hosts"
        );
        let name = sys::addresses().into_iter().find(|(_, ip)| *ip == job.bind);
        let (name, _) = name.with_context(|| format!("no interface has {}", job.bind))?;
        let interface = Interface::named(&name)?;
        let segment = job.bytes.min(job.mtu);
        let is_ring = job.mtu <= USUAL_LEN_MAX || job.bytes <= segment.min(RING_LEN_MAX);
        let ring_frame_len = is_ring.then_some(ETHERNET_LEN + segment.max(64));
        let data = open(&interface, DATA, ring_frame_len)?;
        let credits = open(&interface, CREDITS, Some(128))?;
        let len = if job.unprivileged_buffers { UNPRIVILEGED_BUFFER_LEN } else { BUFFER_LEN };
        let may_force = !job.unprivileged_buffers;
        let receive_len = data.set_buffer(Buffer::Receive, len, may_force)?;
        data.set_buffer(Buffer::Send, len, may_force)?;
        let theirs = control.exchange(&show_mac(&data.mac))?;
        let theirs = parse_mac(&theirs).with_context(|| format!("{theirs:?} is no MAC"))?;
        let header = |ethertype: u16| {
            let mut header = [0; ETHERNET_LEN];
            header[..6].copy_from_slice(&theirs);
            header[6..12].copy_from_slice(&data.mac);
            header[12..].copy_from_slice(&ethertype.to_be_bytes());
            header
        };
        let held = match data.slot_count() {
            Some(count) => count * segment,
            None => receive_len / (2 * segment + CHARGE_LEN) * segment,
        };
        Ok(Self {
            data_header: header(DATA),
            credit_header: header(CREDITS),
            data,
            credits,
            segment,
            window: (held / 2).min(WINDOW_LEN_MAX).max(segment),
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

    fn poll_credit(&mut self) -> Result<Option<u64>> {
        let mut credit = [0; 8];
        let is_there = self.credits.recv(&mut credit, 8)?.is_some();
        Ok(is_there.then(|| u64::from_le_bytes(credit)))
    }

    fn send_credit(&self, credit: u64) -> Result<()> {
        let mut frame = [0; ETHERNET_LEN + 8];
        frame[..ETHERNET_LEN].copy_from_slice(&self.credit_header);
        frame[ETHERNET_LEN..].copy_from_slice(&credit.to_le_bytes());
        self.credits.send(&frame)?;
        Ok(())
    }

    /// Tells the sender that it is enough, for as long as it might not have heard.
    fn stop_sender(&self) -> Result<()> {
        for _ in 0..5 {
            self.send_credit(STOP)?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Bytes to give to one call.
    fn call_len(&self) -> usize {
        let count = (CALL_LEN_MAX / self.segment).clamp(1, FRAME_COUNT_MAX);
        (count * self.segment).min((self.window / self.segment / 2).max(1) * self.segment)
    }

    /// Sends a message of more than one frame. Whether the receiver wants more.
    fn send_message(&mut self, message: &[u8]) -> Result<bool> {
        for part in message.chunks(self.call_len()) {
            if message.len() > self.window
                && !self.wait_for_room(part.len() as u64, self.window as u64)?
            {
                return Ok(false);
            }
            let len = self.data.send_frames(&self.data_header, part, self.segment)?;
            ensure!(len == part.len(), "not all frames were taken");
            self.sent += len as u64;
        }
        Ok(true)
    }

    /// Takes a whole message, spinning; `taken` counts over all messages. Whether the other side has more to say.
    fn recv_message(&mut self, message: &mut [u8], taken: &mut u64) -> Result<bool> {
        let (mut filled, mut credited, mut patience) = (0, 0, Patience::default());
        let len_all = message.len();
        while filled < len_all {
            let Some((len, _)) = self.data.recv(&mut message[filled..], self.segment)? else {
                if filled == 0 && self.poll_credit()? == Some(STOP) {
                    return Ok(false);
                }
                patience.spend()?;
                continue;
            };
            filled += len;
            *taken += len as u64;
            credited += len;
            if len_all > self.window && (credited > self.window / 4 || filled == len_all) {
                self.send_credit(*taken)?;
                credited = 0;
            }
        }
        Ok(true)
    }
}

fn open(interface: &Interface, ethertype: u16, frame_len: Option<usize>) -> Result<RawSocket> {
    RawSocket::open(interface, ethertype, frame_len).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => anyhow!(
            "{NAME} needs the capability CAP_NET_RAW; run it with sudo, or leave {NAME} out of \
             --systems"
        ),
        _ => anyhow!("cannot open a packet socket: {error}"),
    })
}

fn show_mac(mac: &[u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

fn ping(mut wire: Wire, job: &Job) -> Result<Outcome> {
    let (mut message, mut taken) = (vec![1; job.bytes], 0);
    let mut frame = [&wire.data_header[..], &message[..wire.segment]].concat();
    let is_single = job.bytes <= wire.segment;
    let mut rounds = Rounds::begin(job);
    loop {
        if is_single {
            wire.data.send(&frame)?;
            recv_single(&mut wire, &mut frame[ETHERNET_LEN..])?;
        } else {
            wire.send_message(&message)?;
            if !wire.recv_message(&mut message, &mut taken)? {
                bail!("the other side stopped before its time");
            }
        }
        if !rounds.lap() {
            break;
        }
    }
    wire.stop_sender()?;
    Ok(rounds.finish())
}

fn pong(mut wire: Wire, job: &Job) -> Result<Outcome> {
    let (mut message, mut taken) = (vec![0; job.bytes], 0);
    let mut frame = [&wire.data_header[..], &message[..wire.segment]].concat();
    let is_single = job.bytes <= wire.segment;
    loop {
        if is_single {
            if !recv_single(&mut wire, &mut frame[ETHERNET_LEN..])? {
                return Ok(Outcome::default());
            }
            wire.data.send(&frame)?;
        } else {
            if !wire.recv_message(&mut message, &mut taken)? {
                return Ok(Outcome::default());
            }
            wire.send_message(&message)?;
        }
    }
}

/// Takes a message of one frame, spinning. Whether there will be more.
#[inline]
fn recv_single(wire: &mut Wire, message: &mut [u8]) -> Result<bool> {
    let mut patience = Patience::default();
    while wire.data.recv(message, wire.segment)?.is_none() {
        if wire.poll_credit()? == Some(STOP) {
            return Ok(false);
        }
        patience.spend()?;
    }
    Ok(true)
}

fn lost_note(wire: &Wire) -> Option<String> {
    (wire.written_off > 0).then(|| format!("{} taken for lost", wire.written_off))
}

/// Sends frames from a buffer as long as a message, round and round, until the receiver has had enough.
fn send_stream(mut wire: Wire, job: &Job) -> Result<Outcome> {
    let call_len = wire.call_len();
    let buffer = vec![1; job.bytes.max(call_len)];
    let mut at = 0;
    while wire.wait_for_room(call_len as u64, wire.window as u64)? {
        let part = &buffer[at..at + call_len];
        wire.sent += wire.data.send_frames(&wire.data_header, part, wire.segment)? as u64;
        at = if at + 2 * call_len > buffer.len() { 0 } else { at + call_len };
    }
    Ok(Outcome { note: lost_note(&wire), ..Outcome::default() })
}

/// Takes frames into a buffer as long as a message, round and round.
fn take_stream(mut wire: Wire, job: &Job) -> Result<Outcome> {
    let call_len = wire.call_len();
    let mut buffer = vec![0; job.bytes.max(call_len)];
    let (mut tally, bytes) = (Tally::new(job), job.bytes as u64);
    let (mut at, mut taken, mut credited) = (0, 0, 0);
    loop {
        let room = &mut buffer[at..at + call_len];
        let Some((len, _)) = wire.data.recv(room, wire.segment)? else {
            tally.idle()?;
            continue;
        };
        let message_count = (taken + len as u64) / bytes - taken / bytes;
        taken += len as u64;
        if taken - credited >= wire.window as u64 / 4 {
            wire.send_credit(taken)?;
            credited = taken;
        }
        if !tally.add(len as u64, message_count) {
            wire.stop_sender()?;
            return tally.finish();
        }
        at = if at + len + call_len > buffer.len() { 0 } else { at + len };
    }
}

/// Sends single frames, many in a call, with at most a window of them on their way.
fn send_singles(mut wire: Wire, job: &Job) -> Result<Outcome> {
    let burst = (job.window / 2).clamp(1, FRAME_COUNT_MAX);
    let bytes = vec![1; burst * single_len(&wire, job)?];
    while wire.wait_for_room(burst as u64, job.window as u64)? {
        let len = wire.data.send_frames(&wire.data_header, &bytes, wire.segment)?;
        wire.sent += (len / wire.segment) as u64;
    }
    Ok(Outcome { note: lost_note(&wire), ..Outcome::default() })
}

fn take_singles(mut wire: Wire, job: &Job) -> Result<Outcome> {
    let len = single_len(&wire, job)?;
    let mut room = vec![0; job.window.clamp(1, FRAME_COUNT_MAX) * len];
    let mut tally = Tally::new(job);
    let (mut taken, mut credited) = (0, 0);
    let credit_every = (job.window as u64 / 4).max(1);
    loop {
        let Some((len, count)) = wire.data.recv(&mut room, wire.segment)? else {
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

fn single_len(wire: &Wire, job: &Job) -> Result<usize> {
    if job.bytes > wire.segment {
        bail!("rate is for messages that fit a frame ({} bytes here)", wire.segment);
    }
    Ok(job.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let mac = [2, 0, 0xab, 0, 0xff, 9];
        assert_eq!(parse_mac(&show_mac(&mac)), Some(mac));
        for text in ["", "02:00", "02:00:00:00:00:0g", "02:00:00:00:00:01:02"] {
            assert_eq!(parse_mac(text), None, "{text}");
        }
    }
}
