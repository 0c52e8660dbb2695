//! Opening: the socket, its filter, the ring in which frames arrive.

use std::io;
use std::os::fd::OwnedFd;

use super::config::{PacketConfig, PacketError};
use super::filter;
use crate::ether::{ETHERTYPE, EVERYBODY, HEADER_LEN, OVERHEAD_LEN, Station};
use crate::sys::packet::{self, Facts, Layout, PacketSocket};
use crate::sys::packet_ring::Ring;

/// What the kernel keeps before a frame in a slot: its header, the sender's address, room to align.
const SLOT_HEAD_LEN: usize = 66;
/// Frames up to this, headers included, arrive whole in the ring: with usual Ethernet all of them, which costs less than a
/// system call for some of them. Copying long ones out of the ring would cost more than that.
const RING_FRAME_LEN_MAX: usize = 2048 - SLOT_HEAD_LEN;
/// The length of a slot where longer ones are usual, which it shows the beginning of only.
const SHORT_SLOT_LEN: usize = 512;
/// The kernel wants slots aligned to 16 bytes; so two of them share no line of the cache.
const SLOT_ALIGN: usize = 64;
/// A block is one allocation of the kernel; it holds whole slots.
const BLOCK_LEN: usize = 1 << 16;
const BLOCK_COUNT_MAX: usize = 1 << 12;
/// The 16 bits of the length.
const FRAME_LEN_MAX: usize = u16::MAX as usize;

/// An open socket and what was found out about it.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) socket: PacketSocket,
    pub(super) name: String,
    pub(super) facts: Facts,
    pub(super) own: Station,
    pub(super) hears_all: bool,
    /// The name it answers seekers with.
    pub(super) known_as: Option<String>,
    pub(super) ring: Ring,
    /// Whether frames of the longest kind arrive whole in the ring.
    pub(super) is_all_in_ring: bool,
    /// As the kernel keeps account of them.
    pub(super) receive_buffer_len: usize,
    pub(super) send_buffer_len: usize,
}

fn doing(doing: &'static str) -> impl Fn(io::Error) -> PacketError {
    move |error| PacketError::System { doing, error }
}

/// The longest frame in packets of that length.
pub(super) fn frame_len_of(mtu: usize) -> usize {
    mtu.saturating_sub(OVERHEAD_LEN).min(FRAME_LEN_MAX)
}

pub(super) fn open(config: &PacketConfig) -> Result<Opened, PacketError> {
    prepare(config)?.finish()
}

/// A socket with its filter that receives nothing yet, and has no memory for it.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) socket: PacketSocket,
    pub(super) facts: Facts,
    pub(super) own: Station,
    config: PacketConfig,
}

pub(super) fn prepare(config: &PacketConfig) -> Result<Prepared, PacketError> {
    let (socket, facts) = open_socket(config)?;
    let endpoint = endpoint_of(config)?;
    attach(&socket, endpoint, config.hears_all())?;
    set_buffers(&socket, config)?;
    let own = Station { mac: facts.mac, endpoint };
    Ok(Prepared { socket, facts, own, config: config.clone() })
}

impl Prepared {
    pub(super) fn finish(self) -> Result<Opened, PacketError> {
        let Self { socket, own, config, .. } = self;
        let facts = checked_facts(&socket, &config.interface)?; // it may have changed meanwhile
        let ring = make_ring(&socket, &config, &facts)?;
        // Last: from here on frames arrive.
        bind(&socket, &facts)?;
        let made_for = (own.endpoint, config.hears_all());
        let known_as = config.known_as;
        Ok(Opened { known_as, ..finish(socket, config.interface, facts, made_for, ring)? })
    }

    /// As it will be.
    pub(super) fn backlog_len(&self) -> u64 {
        let slot_count = layout_of(&self.config, &self.facts).slot_count();
        let (receive_len, _) = self.socket.buffer_lens().unwrap_or((0, 0));
        backlog_len_of(&self.facts, slot_count, receive_len)
    }

    pub(super) fn fits_ring(&self) -> bool {
        fits_ring(&self.facts)
    }
}

pub(super) fn open_fd(fd: OwnedFd, config: &PacketConfig) -> Result<Opened, PacketError> {
    let socket = PacketSocket::from_fd(fd).map_err(|_| PacketError::NotPacket)?;
    let bound = socket.bound().map_err(doing("asking the socket what it is bound to"))?;
    if bound.protocol != ETHERTYPE || bound.index <= 0 {
        return Err(PacketError::NotBound);
    }
    let name = socket.name_of(bound.index).map_err(|_| PacketError::NotBound)?;
    let facts = checked_facts(&socket, &name)?;
    let found = socket.filter().map_err(doing("asking the socket for its filter"))?;
    let made_for = match filter::made_for(&found) {
        Some(made_for) if config.endpoint.is_none_or(|wanted| wanted == made_for.0) => made_for,
        _ => {
            let endpoint = endpoint_of(config)?;
            attach(&socket, endpoint, config.hears_all())?;
            (endpoint, config.hears_all())
        }
    };
    let (receive_len, send_len) =
        socket.buffer_lens().map_err(doing("asking the socket for its buffers"))?;
    // Its opener may have had the right to give more than we may.
    let config = PacketConfig {
        receive_buffer_len: config.receive_buffer_len.max(receive_len / 2),
        send_buffer_len: config.send_buffer_len.max(send_len / 2),
        ..config.clone()
    };
    if receive_len / 2 < config.receive_buffer_len || send_len / 2 < config.send_buffer_len {
        set_buffers(&socket, &config)?;
    }
    let ring = make_ring(&socket, &config, &facts)?;
    Ok(Opened { known_as: config.known_as, ..finish(socket, name, facts, made_for, ring)? })
}

/// For somebody without the right to open it himself: see [`super::open_fd`].
pub(super) fn open_for_others(config: &PacketConfig) -> Result<OwnedFd, PacketError> {
    let (socket, facts) = open_socket(config)?;
    attach(&socket, endpoint_of(config)?, config.hears_all())?;
    socket.lock_filter().map_err(doing("locking the filter"))?;
    set_buffers(&socket, config)?;
    bind(&socket, &facts)?;
    Ok(socket.into_fd())
}

fn open_socket(config: &PacketConfig) -> Result<(PacketSocket, Facts), PacketError> {
    let socket = PacketSocket::open().map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => PacketError::NoRight { program: program_name() },
        Some(libc::EAFNOSUPPORT) => PacketError::NoPackets,
        _ => PacketError::System { doing: "opening a packet socket", error },
    })?;
    let facts = checked_facts(&socket, &config.interface)?;
    if config.bypass_queue {
        socket.bypass_queue().map_err(doing("leaving the interface's queue out"))?;
    }
    Ok((socket, facts))
}

fn program_name() -> String {
    let path = std::env::current_exe().ok();
    path.map_or_else(|| "<program>".into(), |path| path.display().to_string())
}

fn checked_facts(socket: &PacketSocket, name: &str) -> Result<Facts, PacketError> {
    let facts = socket.facts(name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            PacketError::NoInterface { name: name.into(), known: packet::interface_names() }
        }
        _ => PacketError::System { doing: "asking about the interface", error },
    })?;
    if facts.is_loopback {
        return Err(PacketError::Loopback { name: name.into() });
    }
    if facts.hardware != libc::ARPHRD_ETHER {
        return Err(PacketError::NotEthernet { name: name.into(), hardware: facts.hardware });
    }
    Ok(facts)
}

fn endpoint_of(config: &PacketConfig) -> Result<u32, PacketError> {
    match config.endpoint {
        Some(endpoint @ (0 | EVERYBODY)) => Err(PacketError::BadEndpoint { endpoint }),
        Some(endpoint) => Ok(endpoint),
        None => loop {
            match packet::random().map_err(doing("drawing an endpoint number"))? {
                0 | EVERYBODY => {}
                endpoint => return Ok(endpoint),
            }
        },
    }
}

fn attach(socket: &PacketSocket, endpoint: u32, broadcast: bool) -> Result<(), PacketError> {
    // Older systems do not know it; then the filter, by PACKET_OUTGOING, does the same.
    socket.ignore_outgoing().ok();
    let program = filter::program(endpoint, broadcast);
    socket.attach_filter(&program).map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => PacketError::Filtered,
        _ => PacketError::System { doing: "attaching the filter", error },
    })
}

fn set_buffers(socket: &PacketSocket, config: &PacketConfig) -> Result<(), PacketError> {
    let may_force = !config.buffers_unprivileged;
    socket
        .set_receive_buffer(config.receive_buffer_len, may_force)
        .map_err(doing("setting the receive buffer"))?;
    socket
        .set_send_buffer(config.send_buffer_len, may_force)
        .map_err(doing("setting the send buffer"))?;
    Ok(())
}

pub(super) fn bind(socket: &PacketSocket, facts: &Facts) -> Result<(), PacketError> {
    socket.bind(facts.index, ETHERTYPE).map_err(doing("binding to the interface"))
}

fn fits_ring(facts: &Facts) -> bool {
    HEADER_LEN + frame_len_of(facts.mtu) <= RING_FRAME_LEN_MAX
}

/// Slots that hold a whole frame of usual Ethernet, or the beginning of a long one.
fn layout_of(config: &PacketConfig, facts: &Facts) -> Layout {
    let slot_len = match fits_ring(facts) {
        true => SLOT_HEAD_LEN + HEADER_LEN + frame_len_of(facts.mtu),
        false => SHORT_SLOT_LEN,
    };
    let slot_len = slot_len.max(SHORT_SLOT_LEN).next_multiple_of(SLOT_ALIGN);
    let block_count = config.ring_len.div_ceil(BLOCK_LEN).clamp(1, BLOCK_COUNT_MAX);
    Layout { slot_len, block_len: BLOCK_LEN, block_count }
}

fn make_ring(
    socket: &PacketSocket,
    config: &PacketConfig,
    facts: &Facts,
) -> Result<Ring, PacketError> {
    let layout = layout_of(config, facts);
    socket.make_ring(&layout).map_err(doing("making the ring in which frames arrive"))?;
    Ring::map(socket, layout).map_err(doing("mapping the ring in which frames arrive"))
}

fn finish(
    socket: PacketSocket,
    name: String,
    facts: Facts,
    (endpoint, hears_all): (u32, bool),
    ring: Ring,
) -> Result<Opened, PacketError> {
    let (receive_buffer_len, send_buffer_len) =
        socket.buffer_lens().map_err(doing("asking the socket for its buffers"))?;
    let (own, is_all_in_ring) = (Station { mac: facts.mac, endpoint }, fits_ring(&facts));
    Ok(Opened {
        socket,
        name,
        facts,
        own,
        hears_all,
        known_as: None,
        ring,
        is_all_in_ring,
        receive_buffer_len,
        send_buffer_len,
    })
}

/// Bytes of full-size frames that can wait: as many as the ring has slots; of those that wait in the queue, as many as fit
/// there. The kernel charges a frame with the memory it occupies, which its allocator rounds up.
pub(super) fn backlog_len_of(facts: &Facts, slot_count: usize, receive_buffer_len: usize) -> u64 {
    /// What the kernel keeps about a frame, and leaves free before and behind it.
    const KEPT_LEN: usize = 512;
    let frame_len = frame_len_of(facts.mtu);
    let count = if fits_ring(facts) {
        slot_count
    } else {
        let charge = (frame_len + KEPT_LEN).next_power_of_two() + KEPT_LEN;
        slot_count.min(receive_buffer_len / charge)
    };
    // A quarter is for short ones, of which each takes a slot, too.
    (count * frame_len) as u64 / 4 * 3
}
