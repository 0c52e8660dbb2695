//! Opening, in two halves: what needs rights, and what does not.
//!
//! ```text
//!   XdpParts::open(config)                                Xdp::from_parts(parts)
//!   interface, sockets, memory, map, program, attachment  rings mapped, frames given to the kernel, sockets bound
//!        └──── XdpParts: text and descriptors ── SCM_RIGHTS, if it is another process ────▲
//! ```
//!
//! Of another process the sockets must come unbound: the kernel maps the rings of a bound one for nobody. And each has
//! memory of its own, since sockets that share one can be put into the program's map only when they are bound.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use super::config::{FRAME_COUNT_MAX, FRAME_COUNT_MIN, Mode, Require, XdpConfig, XdpError};
use super::owner::{Owner, PROGRAM_NAME, missing_capabilities};
use super::program;
use crate::ether::{ETHERNET_LEN, EVERYBODY, Station};
use crate::sys::bpf::{self, Program, SocketMap};
use crate::sys::netdev::{self, Netdev};
use crate::sys::xdp::{Mapping, RingSizes, Xsk, shared_memory};
use crate::umem::{FRAME_LEN, RX_LEN_MAX};

/// Frames on their way out, in each queue.
const TX_FRAME_COUNT: u32 = 512;
/// What may be on its way out as the kernel counts it, which is about twice the bytes.
const SEND_BUFFER_LEN: usize = 8 << 20;
/// How long, at most, the program of an owner that has ended is on its interface, and how often to look.
const FREE_WITHIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// More sockets than this would be polled in vain.
const QUEUE_COUNT_MAX: u32 = 64;

/// What the two halves of opening tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) interface: String,
    pub(super) index: u32,
    pub(super) station: Station,
    pub(super) mtu: usize,
    pub(super) driver: Option<String>,
    pub(super) is_native: bool,
    pub(super) is_busy_polled: bool,
    pub(super) require: Require,
    /// Frames to receive into, in each queue; as many to send.
    pub(super) rx_frame_count: u32,
    pub(super) tx_frame_count: u32,
    /// Of the queues that packets arrive in, so many can send too.
    pub(super) tx_queue_count: u32,
    pub(super) downgrades: Vec<String>,
}

impl Plan {
    pub(super) fn frame_count(&self) -> u32 {
        self.rx_frame_count + self.tx_frame_count
    }

    pub(super) fn ring_sizes(&self) -> RingSizes {
        RingSizes { rx: self.rx_frame_count, tx: self.tx_frame_count }
    }

    /// Bytes of memory of each queue.
    pub(super) fn memory_len(&self) -> u64 {
        u64::from(self.frame_count()) * FRAME_LEN as u64
    }

    /// Whether packets may need several frames. With a tag that the card took off and the kernel puts back.
    pub(super) fn is_scattered(&self) -> bool {
        self.mtu + ETHERNET_LEN + 4 > RX_LEN_MAX
    }
}

/// Everything an XDP link is made of that takes rights to get: for this process, or for another ([`XdpParts::into_fds`]).
#[derive(Debug)]
pub struct XdpParts {
    pub(super) plan: Plan,
    /// Keeps the program attached.
    pub(super) attachment: OwnedFd,
    /// Memory of all queues, one behind the other.
    pub(super) memory: OwnedFd,
    pub(super) sockets: Vec<OwnedFd>,
}

impl XdpParts {
    /// Does what needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF. Frames to the endpoint are lost until a link was made of it.
    ///
    /// # Errors
    /// [`XdpError`] says what to do.
    pub fn open(config: &XdpConfig) -> Result<Self, XdpError> {
        let interface = &config.interface;
        let is_sound = config.frame_count.is_power_of_two()
            && (FRAME_COUNT_MIN..=FRAME_COUNT_MAX).contains(&config.frame_count);
        if !is_sound {
            return Err(XdpError::FrameCount { count: config.frame_count });
        }
        let netdev = look_at(interface)?;
        wait_until_free(interface)?;
        let is_one = |&endpoint: &u32| !matches!(endpoint, 0 | EVERYBODY);
        let endpoint = config.number.filter(is_one).unwrap_or_else(random_number);
        let station = Station { mac: netdev.mac, endpoint };
        let (rx_queue_count, tx_queue_count) = netdev.queue_counts(interface);
        let queue_count = rx_queue_count.min(QUEUE_COUNT_MAX);
        let mut plan = Plan {
            interface: interface.clone(),
            index: netdev.index,
            station,
            mtu: netdev.mtu,
            driver: netdev::driver_of(interface),
            is_native: true,
            is_busy_polled: false,
            require: config.require,
            rx_frame_count: config.frame_count,
            tx_frame_count: TX_FRAME_COUNT.min(config.frame_count),
            tx_queue_count: tx_queue_count.min(queue_count),
            downgrades: Vec::new(),
        };
        let (memory, sockets) = open_sockets(&mut plan, queue_count)?;
        set_busy_poll(&mut plan, &sockets, config);
        let attachment = attach(&mut plan, &sockets, config)?;
        let sockets = sockets.into_iter().map(Xsk::into_fd).collect();
        Ok(Self { plan, attachment, memory, sockets })
    }
}

/// The interface, if it can be used at all.
fn look_at(interface: &str) -> Result<Netdev, XdpError> {
    let netdev = netdev::describe(interface).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            XdpError::NoInterface { interface: interface.to_string(), existing: netdev::names() }
        }
        _ => XdpError::System { doing: "asking for the interface", error },
    })?;
    if !netdev.is_ethernet {
        return Err(XdpError::NotEthernet { interface: interface.to_string() });
    }
    if !netdev.is_up {
        return Err(XdpError::Down { interface: interface.to_string() });
    }
    Ok(netdev)
}

/// Waits until no program is on the interface that is about to go: one of ours that nobody holds any more, because its
/// owner has just ended. Any other is an error at once.
fn wait_until_free(interface: &str) -> Result<(), XdpError> {
    let until = Instant::now() + FREE_WITHIN;
    loop {
        let netdev = netdev::describe(interface);
        let Some(id) = netdev.ok().and_then(|netdev| netdev.program_id) else { return Ok(()) };
        let owner = Owner::find(id);
        let is_going = owner.is_packhorse() && owner.holders.is_empty();
        if !is_going || Instant::now() >= until {
            return Err(XdpError::Owned { interface: interface.to_string(), owner });
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Never 0, which is no number.
fn random_number() -> u32 {
    use std::hash::{BuildHasher as _, RandomState};
    loop {
        let number = RandomState::new().hash_one(std::process::id()) as u32;
        if !matches!(number, 0 | EVERYBODY) {
            return number;
        }
    }
}

/// An error of a call that needs rights.
fn doing<'a>(doing: &'static str, plan: &'a Plan) -> impl Fn(io::Error) -> XdpError + use<'a> {
    move |error| match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => XdpError::NotPermitted {
            interface: plan.interface.clone(),
            doing,
            missing: missing_capabilities(),
            program: std::env::current_exe()
                .map_or_else(|_| "PROGRAM".to_string(), |path| path.display().to_string()),
        },
        _ => XdpError::System { doing, error },
    }
}

/// One socket for each queue, with memory and rings. Where so much cannot be pinned, with less.
fn open_sockets(plan: &mut Plan, queue_count: u32) -> Result<(OwnedFd, Vec<Xsk>), XdpError> {
    let wanted = plan.rx_frame_count;
    loop {
        match try_sockets(plan, queue_count) {
            Err(XdpError::System { error, .. }) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                if plan.rx_frame_count <= FRAME_COUNT_MIN {
                    return Err(XdpError::Pinned {
                        len: plan.memory_len() * u64::from(queue_count),
                    });
                }
                plan.rx_frame_count /= 2;
                plan.tx_frame_count = plan.tx_frame_count.min(plan.rx_frame_count);
            }
            Err(error) => return Err(error),
            Ok(opened) => {
                if plan.rx_frame_count < wanted {
                    plan.downgrades.push(format!(
                        "{} frames instead of {wanted}: no more memory may be pinned (`ulimit -l`)",
                        plan.rx_frame_count
                    ));
                }
                return Ok(opened);
            }
        }
    }
}

fn try_sockets(plan: &Plan, queue_count: u32) -> Result<(OwnedFd, Vec<Xsk>), XdpError> {
    let len = plan.memory_len();
    let memory = shared_memory(len * u64::from(queue_count))
        .map_err(doing("getting memory for frames", plan))?;
    let open = |queue: u32| {
        let socket = Xsk::open().map_err(doing("opening an AF_XDP socket", plan))?;
        let part = Mapping::new(memory.as_fd(), u64::from(queue) * len, len as usize)
            .map_err(doing("mapping memory for frames", plan))?;
        socket
            .register(&part, FRAME_LEN as u32)
            .map_err(doing("registering memory for frames", plan))?;
        socket.set_rings(plan.ring_sizes()).map_err(doing("making the rings", plan))?;
        socket.set_call_budget(plan.tx_frame_count);
        socket.set_send_buffer(SEND_BUFFER_LEN).map_err(doing("setting the send buffer", plan))?;
        Ok(socket)
    };
    let sockets: Result<Vec<Xsk>, XdpError> = (0..queue_count).map(open).collect();
    Ok((memory, sockets?))
}

fn set_busy_poll(plan: &mut Plan, sockets: &[Xsk], config: &XdpConfig) {
    let Some(wanted) = config.busy_poll else { return };
    let set = |socket: &Xsk| socket.set_busy_poll(wanted.time_us, wanted.packet_count);
    match sockets.iter().try_for_each(set) {
        Ok(()) => plan.is_busy_polled = true,
        Err(error) => plan.downgrades.push(format!("no busy-polling: {error}")),
    }
}

/// The program, with all sockets in its map, on the interface: in the driver, or if that cannot be, behind it.
fn attach(plan: &mut Plan, sockets: &[Xsk], config: &XdpConfig) -> Result<OwnedFd, XdpError> {
    let map = SocketMap::new(PROGRAM_NAME, sockets.len() as u32)
        .map_err(doing("making the map of sockets", plan))?;
    for (queue, socket) in (0..).zip(sockets) {
        map.set(queue, socket.as_fd()).map_err(doing("filling the map of sockets", plan))?;
    }
    let code = program::assemble(plan.station.endpoint, map.number());
    let program = Program::load(PROGRAM_NAME, &code).map_err(doing("loading the program", plan))?;
    let reason = match config.mode {
        Mode::Generic => "generic mode was asked for".to_string(),
        Mode::Auto => match attach_free(plan, &program, bpf::Mode::Native)? {
            Ok(attachment) => return Ok(attachment),
            Err(error) => {
                let driver = plan.driver.as_deref().unwrap_or("this driver");
                format!("{driver} does not take the program ({error})")
            }
        },
    };
    if config.require != Require::Nothing {
        let (interface, require) = (plan.interface.clone(), config.require);
        return Err(XdpError::Required { interface, require, reason });
    }
    plan.is_native = false;
    plan.downgrades.push(format!("not native: {reason}"));
    attach_free(plan, &program, bpf::Mode::Generic)?.map_err(doing("attaching the program", plan))
}

/// Attaches the program; the outer error if somebody was quicker, the inner one if it cannot be.
fn attach_free(
    plan: &Plan,
    program: &Program,
    mode: bpf::Mode,
) -> Result<io::Result<OwnedFd>, XdpError> {
    let until = Instant::now() + FREE_WITHIN;
    loop {
        match program.attach(plan.index, mode) {
            Err(error) if is_taken(&error) && Instant::now() < until => {
                wait_until_free(&plan.interface)?;
                std::thread::sleep(LOOK_EVERY);
            }
            other => return Ok(other),
        }
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}
