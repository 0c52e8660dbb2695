//! What is asked of a packet link, and why it cannot be had.

use std::fmt;
use std::io;

/// What is asked of a packet link.
#[derive(Clone, Debug)]
pub struct PacketConfig {
    /// Name of the interface: `eth0`, or `eth0.5` for a VLAN on it.
    pub interface: String,
    /// Number of this endpoint, which tells it from others on the same interface; at random if there is none.
    pub endpoint: Option<u32>,
    /// Hear what is sent to everybody ([`BROADCAST`](crate::ether::BROADCAST)), too.
    pub broadcast: bool,
    /// Answer those who ask who is here ([`super::seek`]) with this name; implies `broadcast`.
    pub known_as: Option<String>,
    /// Memory that the kernel shares with us for frames that arrive. It is there as long as the link. All of it is used in
    /// turn: more than fits the cache beside everything else makes each frame slower.
    pub ring_len: usize,
    /// How much of frames too long for the ring may wait to be received, in bytes as the kernel is asked for them.
    pub receive_buffer_len: usize,
    /// How much may wait to be sent. What waits in a queue shared with others is taken from them: no more than keeps the
    /// wire busy.
    pub send_buffer_len: usize,
    /// Takes only such buffers as a user without rights gets, even with rights.
    pub buffers_unprivileged: bool,
    /// Sends past the interface's queue (qdisc). Spares a lock, but then nobody's share of the wire is kept: neither ours nor
    /// that of others.
    pub bypass_queue: bool,
}

impl Default for PacketConfig {
    fn default() -> Self {
        Self {
            interface: String::new(),
            endpoint: None,
            broadcast: false,
            known_as: None,
            ring_len: 1 << 20,
            receive_buffer_len: 8 << 20,
            send_buffer_len: 128 << 10,
            buffers_unprivileged: false,
            bypass_queue: false,
        }
    }
}

impl PacketConfig {
    /// Whether it hears what is sent to everybody.
    pub(super) fn hears_all(&self) -> bool {
        self.broadcast || self.known_as.is_some()
    }

    /// As by default, on this interface.
    pub fn on(interface: &str) -> Self {
        Self { interface: interface.into(), ..Self::default() }
    }
}

/// Why a packet link could not be opened.
#[derive(Debug)]
pub enum PacketError {
    /// Raw sockets need a right that this process does not have.
    NoRight {
        /// The program, as far as it is known.
        program: String,
    },
    /// The system has no packet sockets.
    NoPackets,
    /// There is no such interface.
    NoInterface {
        /// The name that was asked for.
        name: String,
        /// The interfaces there are.
        known: Vec<String>,
    },
    /// The loopback interface.
    Loopback {
        /// Its name.
        name: String,
    },
    /// An interface that is not Ethernet.
    NotEthernet {
        /// Its name.
        name: String,
        /// What it is, as Linux counts kinds (ARPHRD_*).
        hardware: u16,
    },
    /// An endpoint number that means nobody or everybody.
    BadEndpoint {
        /// The number.
        endpoint: u32,
    },
    /// The descriptor handed in is no raw packet socket.
    NotPacket,
    /// The descriptor handed in is not bound to one interface and our EtherType.
    NotBound,
    /// The descriptor handed in has a filter for something else, and it is locked.
    Filtered,
    /// Anything else.
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRight { program } => write!(
                f,
                "raw Ethernet needs the capability CAP_NET_RAW, which this process lacks; \
                 `sudo setcap cap_net_raw+ep {program}` gives it to the program, or use the link udp"
            ),
            Self::NoPackets => write!(
                f,
                "this system has no packet sockets (CONFIG_PACKET of Linux); use the link udp"
            ),
            Self::NoInterface { name, known } => write!(
                f,
                "there is no interface {name:?} (in this network namespace); there are: {}",
                if known.is_empty() { "none".into() } else { known.join(", ") }
            ),
            Self::Loopback { name } => write!(
                f,
                "{name} is the loopback interface: no frame of it reaches another host, and endpoints \
                 of one host do not hear each other over raw Ethernet; use shm or udp"
            ),
            Self::NotEthernet { name, hardware } => write!(
                f,
                "{name} is not an Ethernet interface ({}), so it has no Ethernet addresses to send \
                 to; use the link udp over it",
                kind_of(*hardware)
            ),
            Self::BadEndpoint { endpoint } => write!(
                f,
                "{endpoint} is no endpoint number: 0 means nobody and {} everybody; choose another, \
                 or none for a random one",
                u32::MAX
            ),
            Self::NotPacket => write!(f, "the descriptor handed in is not a raw packet socket"),
            Self::NotBound => write!(
                f,
                "the packet socket handed in is not bound to one interface and EtherType 0x88b5; \
                 `packet::open_fd` makes one that is"
            ),
            Self::Filtered => write!(
                f,
                "the packet socket handed in is locked to a filter that is not for this endpoint; \
                 `packet::open_fd` makes one that is"
            ),
            Self::System { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

/// What Linux means by a kind of hardware, of those one meets.
fn kind_of(hardware: u16) -> String {
    match hardware {
        libc::ARPHRD_INFINIBAND => "InfiniBand".into(),
        libc::ARPHRD_PPP => "a point-to-point link".into(),
        libc::ARPHRD_TUNNEL | libc::ARPHRD_TUNNEL6 | libc::ARPHRD_SIT | libc::ARPHRD_IPGRE => {
            "an IP tunnel".into()
        }
        libc::ARPHRD_NONE => "a tunnel without link-layer addresses".into(),
        other => format!("hardware type {other}"),
    }
}

impl std::error::Error for PacketError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let text = PacketError::NoRight { program: "/bin/x".into() }.to_string();
        assert!(text.contains("`sudo setcap cap_net_raw+ep /bin/x`"), "{text}");
        let known = vec!["lo".into(), "eth1".into()];
        let text = PacketError::NoInterface { name: "eth0".into(), known }.to_string();
        assert!(text.contains("\"eth0\"") && text.ends_with("lo, eth1"), "{text}");
        let text = PacketError::NotEthernet { name: "tun0".into(), hardware: 0xfffe }.to_string();
        assert!(text.contains("tun0") && text.contains("udp"), "{text}");
    }
}
