//! A look-up over sockets: asks all places that a name stands for, and takes the first that is found.
//!
//! PROTOCOL §3.17. Each place has a socket of its own, connected to it: the system then takes answers from there only, and tells when
//! that host says that nobody has the port. The sockets are nobody else's, so a look-up holds up no endpoint, and an endpoint no
//! look-up.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use packhorse_proto::lookup::{Asking, AskingSpec, Finding, Greeting, LOOKUP_LEN, Number};
use packhorse_proto::{Address, Instant, Secret};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::drawn::draw;
use crate::time::monotonic_ns;

/// Whoever does not want the answer any more waits no longer than this for the look-up to end.
const LOOK_AROUND: Duration = Duration::from_millis(250);

/// Answers taken before the next question is looked at: others may send what is none.
const ANSWER_COUNT_MAX: usize = 64;

/// What to look for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The number.
    pub number: Number,
    /// What the door must know, too.
    pub secret: Option<Secret>,
    /// Oldest and newest version of the protocol spoken here.
    pub versions: (u8, u8),
    /// What this application says to that one.
    pub greeting: Greeting,
    /// How long to ask.
    pub longest: Duration,
}

/// What was found.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    /// The address.
    pub address: Address,
    /// What the application there says.
    pub greeting: Greeting,
    /// Where the answer came from.
    pub from: SocketAddr,
    /// How long after the first question.
    pub after: Duration,
}

/// Why nothing was found at one place.
#[derive(Debug)]
pub struct Miss {
    /// Where.
    pub place: SocketAddr,
    /// What came of it; never `Finding::Found`.
    pub finding: Finding,
    /// What the system last said when a question could not leave.
    pub error: Option<io::Error>,
}

struct Questioned {
    at: SocketAddr,
    socket: Option<UdpSocket>,
    asking: Asking,
    error: Option<io::Error>,
    end: Option<Finding>,
}

/// Asks all these addresses of a host until one answers, all have refused or the time is over.
///
/// # Errors
/// What came of each, if nothing was found; all `Silence` if `is_unwanted` became true.
pub fn seek(
    ips: &[SocketAddr],
    wish: &Wish,
    is_unwanted: &AtomicBool,
) -> io::Result<Result<Sighting, Vec<Miss>>> {
    let start = Instant(monotonic_ns());
    let longest_ns = wish.longest.as_nanos().min(u64::MAX.into()) as u64;
    let mut places = Vec::new();
    for &ip in ips {
        let at = SocketAddr::new(ip.ip(), wish.number.port());
        let at = with_scope_of(at, ip);
        let spec = AskingSpec {
            number: wish.number,
            secret: wish.secret,
            versions: wish.versions,
            greeting: wish.greeting,
            entropy: draw()?,
            until: start + longest_ns,
        };
        places.push(Questioned::new(at, Asking::new(spec, start)));
    }
    while !is_unwanted.load(Ordering::Relaxed) {
        let now = Instant(monotonic_ns());
        for place in &mut places {
            if let Some((address, greeting)) = place.turn(now) {
                let after = Duration::from_nanos(Instant(monotonic_ns()) - start);
                return Ok(Ok(Sighting { address, greeting, from: place.at, after }));
            }
        }
        if places.iter().all(|place| place.end.is_some()) {
            break;
        }
        sleep(&places, now);
    }
    let miss = |place: Questioned| Miss {
        place: place.at,
        finding: place.end.unwrap_or(Finding::Silence),
        error: place.error,
    };
    Ok(Err(places.into_iter().map(miss).collect()))
}

/// A link-local address is one on some interface.
fn with_scope_of(mut at: SocketAddr, of: SocketAddr) -> SocketAddr {
    if let (SocketAddr::V6(at), SocketAddr::V6(of)) = (&mut at, of) {
        at.set_scope_id(of.scope_id());
    }
    at
}

/// Until something came, or a question is due.
fn sleep(places: &[Questioned], now: Instant) {
    let open = || places.iter().filter(|place| place.end.is_none());
    let sockets = open().filter_map(|place| place.socket.as_ref());
    let mut fds: Vec<_> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    let next = open().map(|place| place.asking.next_timeout()).min().unwrap_or(now);
    let pause = Duration::from_nanos(next - now).min(LOOK_AROUND);
    let _ = poll(&mut fds, Timespec::try_from(pause).ok().as_ref()); // interrupted: looks once more
}

impl Questioned {
    fn new(at: SocketAddr, asking: Asking) -> Self {
        let any: IpAddr = match at {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind((any, 0))?;
            socket.set_nonblocking(true)?;
            socket.connect(at)?;
            Ok(socket)
        };
        match open() {
            Ok(socket) => Self { at, socket: Some(socket), asking, error: None, end: None },
            // There is no way there, and no socket to ask by.
            Err(error) => {
                let (error, end) = (Some(error), Some(Finding::Silence));
                Self { at, socket: None, asking, error, end }
            }
        }
    }

    /// Takes what came and asks if that is due. The address, if that came.
    fn turn(&mut self, now: Instant) -> Option<(Address, Greeting)> {
        if self.end.is_none() {
            self.end = self.take_answers();
        }
        if self.end.is_none() {
            self.end = self.ask(now).or_else(|| self.asking.on_timeout(now));
        }
        match self.end {
            Some(Finding::Found(address, greeting)) => Some((address, greeting)),
            _ => None,
        }
    }

    fn take_answers(&mut self) -> Option<Finding> {
        let mut room = [0; 2 * LOOKUP_LEN];
        for _ in 0..ANSWER_COUNT_MAX {
            let found = match self.socket.as_ref()?.recv(&mut room) {
                Ok(len) => self.asking.on_answer(&room[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => self.on_error(error),
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn ask(&mut self, now: Instant) -> Option<Finding> {
        let question = self.asking.poll_question(now)?;
        let socket = self.socket.as_ref()?;
        let Err(error) = socket.send(&question) else { return None };
        // What is told here is about an earlier question, as a rule; this one has not left.
        let again = socket.send(&question);
        let found = self.on_error(error);
        match again {
            Err(error) if found.is_none() => self.on_error(error),
            _ => found,
        }
    }

    /// What the system says of the place, or of what left for it.
    fn on_error(&mut self, error: io::Error) -> Option<Finding> {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => self.asking.on_unreached(),
            _ => {
                self.error = Some(error);
                None
            }
        }
    }
}
