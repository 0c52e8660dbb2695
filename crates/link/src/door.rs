//! The socket behind a number: by it an endpoint is found, and nothing else passes (PROTOCOL §3.16).
//!
//! The socket that has the port has the number. The kernel gives a port to one socket only, and takes it back with the process, however that
//! ends: so no other authority need say whose a number is. The socket stands beside the links, with a buffer of its own: what crowds
//! there delays no frame.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use crate::sys::socket::Socket;
pub use crate::sys::visit::Visit;

/// Room for some thousand questions: what a flood fills is dropped by the kernel.
const BUFFER_LEN: usize = 1 << 20;

/// An open door.
#[derive(Debug)]
pub struct DoorSocket {
    socket: Socket,
}

/// Why a door cannot be opened.
#[derive(Debug)]
pub enum DoorError {
    /// Another socket has that port.
    InUse {
        /// Where.
        at: SocketAddr,
    },
    /// The system refused.
    System {
        /// What was tried.
        doing: &'static str,
        /// Where.
        at: SocketAddr,
        /// Its answer.
        error: io::Error,
    },
}

impl fmt::Display for DoorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { at } => write!(f, "UDP port {} of {} is in use", at.port(), at.ip()),
            Self::System { doing, at, error } => write!(f, "{doing} at {at}: {error}"),
        }
    }
}

impl std::error::Error for DoorError {}

impl DoorSocket {
    /// Takes this port: of one address, or of all of the host's, IPv4 and IPv6, if it is a wildcard.
    ///
    /// # Errors
    /// The port is in use, or the system refuses.
    pub fn open(ip: IpAddr, port: u16) -> Result<Self, DoorError> {
        if !ip.is_unspecified() {
            return Self::open_at(SocketAddr::new(ip, port));
        }
        match Self::open_at(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)) {
            // A host without IPv6 has IPv4.
            Err(DoorError::System { .. }) => {
                Self::open_at(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))
            }
            other => other,
        }
    }

    fn open_at(at: SocketAddr) -> Result<Self, DoorError> {
        let doing = |doing| move |error| DoorError::System { doing, at, error };
        let socket = Socket::open(at.is_ipv6()).map_err(doing("opening a UDP socket"))?;
        if at.is_ipv6() {
            let is_dual = at.ip().is_unspecified();
            socket.set_dual(is_dual).map_err(doing("choosing IPv4 beside IPv6"))?;
        }
        socket.tell_local().map_err(doing("asking for the address that is asked"))?;
        // Less is no harm: questions are repeated.
        let _ = socket.set_receive_buffer(BUFFER_LEN, false);
        socket.bind(at).map_err(|error| match error.raw_os_error() {
            Some(libc::EADDRINUSE) => DoorError::InUse { at },
            _ => DoorError::System { doing: "binding a UDP socket", at, error },
        })?;
        Ok(Self { socket })
    }

    /// The next question, into `room`; never waits. What the network says about answers is nobody's business: it is passed over.
    pub fn next_visit(&self, room: &mut [u8]) -> Option<Visit> {
        self.socket.next_visit(room).ok().flatten()
    }

    /// Sends an answer to where the question came from, from where it was sent to. One that cannot leave is dropped: the question
    /// will come again.
    pub fn answer(&self, bytes: &[u8], visit: &Visit) {
        let _ = self.socket.answer_visit(bytes, visit);
    }
}

impl AsFd for DoorSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A door at some free port from `first` on: tests that free theirs share none with others.
    fn some_door(ip: IpAddr, first: u16) -> (DoorSocket, u16) {
        (first..first + 2_000)
            .find_map(|port| Some((DoorSocket::open(ip, port).ok()?, port)))
            .expect("a free port")
    }

    fn wait_for(door: &DoorSocket) -> (Visit, Vec<u8>) {
        let (start, mut room) = (Instant::now(), [0; 64]);
        loop {
            if let Some(visit) = door.next_visit(&mut room) {
                return (visit, room[..visit.len].to_vec());
            }
            assert!(start.elapsed() < PATIENCE, "nothing came");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_door_at_all_addresses_answers_from_the_one_that_was_asked() {
        let (door, port) = some_door(Ipv4Addr::UNSPECIFIED.into(), 20_000);
        // All of 127/8 is this host; ::1 if there is IPv6.
        for ip in ["127.0.0.1", "127.0.0.9", "::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            let own = SocketAddr::new(if ip.is_ipv6() { ip } else { [127, 0, 0, 1].into() }, 0);
            let Ok(asker) = UdpSocket::bind(own) else { continue };
            asker.set_read_timeout(Some(PATIENCE)).unwrap();
            asker.connect((ip, port)).unwrap(); // takes nothing from elsewhere
            asker.send(b"who?").unwrap();
            let (visit, bytes) = wait_for(&door);
            assert_eq!((visit.to, visit.from), (Some(ip), asker.local_addr().unwrap()));
            assert_eq!(bytes, b"who?");
            door.answer(b"I.", &visit);
            let mut room = [0; 10];
            assert_eq!(asker.recv(&mut room).unwrap(), 2, "{ip}");
        }
    }

    #[test]
    fn a_port_has_one_owner_until_its_socket_goes() {
        let local = Ipv4Addr::LOCALHOST.into();
        let (door, port) = some_door(local, 22_000);
        for ip in [local, Ipv4Addr::UNSPECIFIED.into()] {
            let second = DoorSocket::open(ip, port);
            assert!(matches!(second, Err(DoorError::InUse { at }) if at.port() == port), "{ip}");
        }
        drop(door);
        assert!(DoorSocket::open(local, port).is_ok());
    }

    #[test]
    fn an_answer_that_nobody_takes_does_no_harm() {
        let (door, port) = some_door(Ipv4Addr::LOCALHOST.into(), 24_000);
        let asker = UdpSocket::bind("127.0.0.1:0").unwrap();
        asker.send_to(b"who?", ("127.0.0.1", port)).unwrap();
        let (visit, _) = wait_for(&door);
        drop(asker);
        door.answer(b"I.", &visit); // its host refuses it
        let asker = UdpSocket::bind("127.0.0.1:0").unwrap();
        asker.send_to(b"again?", ("127.0.0.1", port)).unwrap();
        assert_eq!(wait_for(&door).1, b"again?");
    }
}
