//! What is asked of an XDP link, what was got, and why it cannot be had.

use std::fmt;
use std::io;

use super::owner::Owner;

/// What must be got; anything less is an error instead of a downgrade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Require {
    /// Takes what there is.
    #[default]
    Nothing,
    /// The program runs in the driver.
    Native,
    /// And the card reads and writes our memory itself.
    Zerocopy,
}

/// Where the program is to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the driver if it can, else behind it.
    #[default]
    Auto,
    /// Behind the driver: slow, and works with all of them.
    Generic,
}

/// The driver is polled by the link's own calls instead of by interrupts; see the kernel's documentation of AF_XDP for what
/// to set on the interface (`napi_defer_hard_irqs`, `gro_flush_timeout`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// For so long a call that sleeps polls first, in microseconds.
    pub time_us: u32,
    /// Packets taken in one call.
    pub packet_count: u32,
}

/// What is asked of an XDP link.
#[derive(Clone, Debug)]
pub struct XdpConfig {
    /// The name of the interface. One link at a time can have it.
    pub interface: String,
    /// What must be got.
    pub require: Require,
    /// Where the program is to run.
    pub mode: Mode,
    /// Whether to poll the driver.
    pub busy_poll: Option<BusyPoll>,
    /// The endpoint's number on its Ethernet, not 0; without one, a random one.
    pub number: Option<u32>,
    /// Frames of 4 KiB that can wait to be received in each queue: a power of two.
    pub frame_count: u32,
}

impl XdpConfig {
    /// As by default, on this interface.
    pub fn on(interface: &str) -> Self {
        Self {
            interface: interface.to_string(),
            require: Require::default(),
            mode: Mode::default(),
            busy_poll: None,
            number: None,
            frame_count: 2048,
        }
    }
}

/// What was got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpState {
    /// The interface.
    pub interface: String,
    /// Its driver, where the system says.
    pub driver: Option<String>,
    /// The program runs in the driver, not behind it.
    pub is_native: bool,
    /// The card reads and writes our memory itself.
    pub is_zerocopy: bool,
    /// The driver is polled by our own calls.
    pub is_busy_polled: bool,
    /// Sockets, one for each queue that packets arrive in.
    pub queue_count: usize,
    /// Why it is not more.
    pub downgrades: Vec<String>,
}

impl fmt::Display for XdpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = if self.is_native { "native" } else { "generic" };
        let copying = if self.is_zerocopy { "zero-copy" } else { "copy" };
        let queues = if self.queue_count == 1 { "queue" } else { "queues" };
        let driver = self.driver.as_deref().unwrap_or("unknown");
        write!(f, "xdp on {} (driver {driver}): {mode}, {copying}", self.interface)?;
        write!(f, ", {} {queues}", self.queue_count)?;
        if self.is_busy_polled {
            write!(f, ", busy-polled")?;
        }
        self.downgrades.iter().try_for_each(|reason| write!(f, "; {reason}"))
    }
}

/// Why an XDP link could not be opened.
#[derive(Debug)]
pub enum XdpError {
    /// There is no such interface.
    NoInterface {
        /// What was asked for.
        interface: String,
        /// What there is.
        existing: Vec<String>,
    },
    /// The interface is not an Ethernet.
    NotEthernet {
        /// Its name.
        interface: String,
    },
    /// The interface is down.
    Down {
        /// Its name.
        interface: String,
    },
    /// Somebody else has a program on the interface.
    Owned {
        /// Its name.
        interface: String,
        /// The program there, and the processes that hold it.
        owner: Owner,
    },
    /// Somebody else has an AF_XDP socket on a queue of the interface.
    QueueInUse {
        /// Its name.
        interface: String,
        /// Which queue.
        queue: u32,
    },
    /// The system does not let us.
    NotPermitted {
        /// The interface.
        interface: String,
        /// What was being done.
        doing: &'static str,
        /// Capabilities that this process lacks.
        missing: Vec<&'static str>,
        /// The program that should have them.
        program: String,
    },
    /// What was required cannot be had.
    Required {
        /// The interface.
        interface: String,
        /// What was required.
        require: Require,
        /// Why it cannot be had.
        reason: String,
    },
    /// More memory than this process may pin.
    Pinned {
        /// Bytes that are needed at least.
        len: u64,
    },
    /// The number of frames is of no use.
    FrameCount {
        /// What was asked for.
        count: u32,
    },
    /// What was handed in does not make a link.
    BadParts {
        /// What is wrong with it.
        reason: String,
    },
    /// Anything else.
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl fmt::Display for XdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInterface { interface, existing } => write!(
                f,
                "there is no interface {interface:?} in this network namespace; there are: {}",
                existing.join(", ")
            ),
            Self::NotEthernet { interface } => {
                write!(f, "{interface} is not an Ethernet interface; use `udp` on it")
            }
            Self::Down { interface } => {
                write!(f, "{interface} is down; bring it up: `ip link set {interface} up`")
            }
            Self::Owned { interface, owner } => write!(
                f,
                "{interface} has an XDP program already: {owner}; only one can have it, use `packet` or `udp` on \
                 {interface}, or end the other first"
            ),
            Self::QueueInUse { interface, queue } => write!(
                f,
                "another AF_XDP socket has queue {queue} of {interface}; use `packet` or `udp` on {interface}, or end \
                 the other first"
            ),
            Self::NotPermitted { interface, doing, missing, program } => {
                write!(f, "no permission for xdp on {interface} ({doing}): ")?;
                if missing.is_empty() {
                    return write!(
                        f,
                        "this process has the capabilities, but not in the first user namespace, where bpf(2) wants \
                         them; start it outside of the container, or use `udp`"
                    );
                }
                write!(f, "this process lacks {}; ", missing.join(", "))?;
                let list = missing.join(",").to_lowercase();
                write!(f, "give it to the program: `sudo setcap {list}+ep {program}`")
            }
            Self::Required { interface, require, reason } => {
                let what = match require {
                    Require::Nothing => "xdp",
                    Require::Native => "native XDP",
                    Require::Zerocopy => "zero-copy",
                };
                write!(
                    f,
                    "{what} is required on {interface} and cannot be had: {reason}; leave the requirement out to \
                     take what there is"
                )
            }
            Self::Pinned { len } => write!(
                f,
                "this process may not pin {} KiB of memory; raise the limit (`ulimit -l {}`) or give the program \
                 CAP_IPC_LOCK",
                len / 1024,
                len / 1024
            ),
            Self::FrameCount { count } => write!(
                f,
                "{count} frames cannot be used; give a power of two from {FRAME_COUNT_MIN} to {FRAME_COUNT_MAX}"
            ),
            Self::BadParts { reason } => {
                write!(f, "what was handed in does not make an XDP link: {reason}")
            }
            Self::System { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for XdpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Fewer could not hold what arrives during a pause of the scheduler.
pub(super) const FRAME_COUNT_MIN: u32 = 64;
/// Rings of more entries are nobody's wish.
pub(super) const FRAME_COUNT_MAX: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let missing = vec!["CAP_NET_ADMIN", "CAP_BPF"];
        let (interface, program) = ("eth0".to_string(), "/bin/x".to_string());
        let doing = "loading the program";
        let error =
            XdpError::NotPermitted { interface: interface.clone(), doing, missing, program };
        let text = error.to_string();
        assert!(text.contains("lacks CAP_NET_ADMIN, CAP_BPF"), "{text}");
        assert!(text.contains("`sudo setcap cap_net_admin,cap_bpf+ep /bin/x`"), "{text}");
        let owner = Owner { id: 7, name: Some("firewall".into()), holders: vec![] };
        let text = XdpError::Owned { interface, owner }.to_string();
        assert!(text.contains("\"firewall\"") && text.contains("use `packet` or `udp`"), "{text}");
    }

    #[test]
    fn state_tells_what_was_got_and_why_not_more() {
        let mut state = XdpState {
            interface: "eth0".into(),
            driver: Some("veth".into()),
            is_native: true,
            is_zerocopy: false,
            is_busy_polled: false,
            queue_count: 4,
            downgrades: vec!["no zero-copy: tired".into()],
        };
        assert_eq!(
            state.to_string(),
            "xdp on eth0 (driver veth): native, copy, 4 queues; no zero-copy: tired"
        );
        state = XdpState { queue_count: 1, is_busy_polled: true, downgrades: vec![], ..state };
        assert!(state.to_string().ends_with("1 queue, busy-polled"));
    }
}
