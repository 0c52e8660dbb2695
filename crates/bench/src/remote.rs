//! The talk between a client and `packhorse serve` on another machine: the orders and answers of [`crate::peer`], as
//! Packhorse messages.
//!
//! ```text
//!   client: runner ── orders ──▶ server ── pipe ──▶ measuring process, the passive side
//!              ▲ ◀── answers ───    │ ◀── pipe ───
//!              └── a beat a second ─┘
//! ```
//!
//! The beat keeps both honest: a client that does not hear it knows that the server is dead, a server whose beat is not
//! accepted knows the same of its client.

use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use packhorse::raw::GoneReason;
use packhorse::{Address, Builder, Endpoint, Error, Peer, Placement, Wanted};
use serde::{Deserialize, Serialize};

use crate::offload;
use crate::peer::{Order, Report};
use crate::process::Heard;
use crate::system::{Job, Pattern};

/// Tag of orders, from the client.
pub const ORDER: u64 = 1;
/// Tag of answers, from the server.
pub const ANSWER: u64 = 2;
/// Neither orders nor answers are longer.
pub const WORD_LEN_MAX: usize = 4096;
/// How often the server lets its client hear from it.
pub const BEAT_EVERY: Duration = Duration::from_secs(1);
/// A side that was not heard for so long is taken for dead.
pub const SILENCE_MAX: Duration = Duration::from_secs(4);
/// A side that was not heard for so long is asked: the network may know that nobody is there.
const POKE_AFTER: Duration = Duration::from_secs(2);
/// Both must speak the same orders and answers.
const VERSION: u32 = 2;
/// What a server does for one order, at most; a slice is in units of work.
const SLICE_MAX: u64 = 1_000_000_000;
const SECONDS_MAX: f64 = 60.0;
const BYTES_MAX: usize = 64 << 20;
const IN_FLIGHT_MAX: usize = 256 << 20;
const LINE_LEN_MAX: usize = 200;
/// Closing the talk takes no longer.
const LINGER: Duration = Duration::from_millis(500);

/// What a client says first, and again after a measurement that failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Of orders and answers.
    pub version: u32,
    /// Where the client stands, for the server's log.
    pub from: IpAddr,
}

impl Hello {
    /// Whether the two understand each other.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.version == VERSION,
            "the client speaks version {} of the measuring orders, this server {VERSION}; use the same packhorse on both",
            self.version
        );
        Ok(())
    }
}

/// Whether a server would do this; otherwise why not.
pub fn check_job(job: &Job) -> Result<()> {
    ensure!(
        job.seconds.is_finite() && (0.0..=SECONDS_MAX).contains(&job.seconds),
        "a server measures for {SECONDS_MAX} s at most at a time; ask for fewer --seconds and more --reps"
    );
    ensure!(
        (1..=BYTES_MAX).contains(&job.bytes),
        "a server measures messages of up to {} MB; ask for fewer --bytes",
        BYTES_MAX >> 20
    );
    let in_flight = match job.pattern {
        Pattern::Rate => job.window * job.bytes,
        Pattern::Availability => 2 * offload::depth(job) * job.bytes,
        _ => 0,
    };
    ensure!(
        (1..=usize::from(u16::MAX)).contains(&job.window) && in_flight <= IN_FLIGHT_MAX,
        "a server holds {} MB at most; ask for a smaller --window or fewer --bytes",
        IN_FLIGHT_MAX >> 20
    );
    let slice = job.variant.slice.unwrap_or(0);
    ensure!(
        slice <= SLICE_MAX,
        "a server does not wait for slices of {slice}; ask for shorter --slices"
    );
    ensure!((500..=65_536).contains(&job.mtu), "no network has packets of {} bytes", job.mtu);
    Ok(())
}

/// Whether this can be a line of an exchange.
pub fn check_line(line: &str) -> Result<()> {
    ensure!(line.len() <= LINE_LEN_MAX, "a line of {} bytes is no address", line.len());
    Ok(())
}

/// Where an endpoint is reached, and by which protocol of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Host and number.
    pub at: SocketAddr,
    /// Of TCP, not of UDP.
    is_tcp: bool,
}

impl Port {
    /// The address of its host.
    pub fn ip(self) -> IpAddr {
        self.at.ip()
    }

    /// The protocol, as people write it.
    pub fn protocol(self) -> &'static str {
        if self.is_tcp { "TCP" } else { "UDP" }
    }
}

/// As a firewall is told of it: `UDP port 7000`.
impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.protocol(), self.at.port())
    }
}

/// Where an address says its endpoint is. The talk needs an address of IP: the rivals are measured at that, too.
pub fn port_of(address: &Address) -> Result<Port> {
    let locator = &address.locator.0;
    let at = packhorse_link::port_of(locator).with_context(|| {
        format!(
            "the address names no port of IP, but {}: the two sides of a measurement talk by UDP or TCP, so put one of these \
             first in PACKHORSE_LINK (`udp,packet`, `tcp,shm`), or leave it unset; --link says which link is measured",
            packhorse_link::show(locator)
        )
    })?;
    Ok(Port { at, is_tcp: packhorse_link::tcp::from_locator(locator).is_some() })
}

/// The address of this machine that the other one sees.
fn local_ip_towards(place: SocketAddr) -> Result<IpAddr> {
    let any: IpAddr = match place {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let probe = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(place)?; // sends nothing, but asks for the route
        socket.local_addr()
    });
    let why = || {
        format!(
            "no way from this machine to {}; is it the server's address, and is the network up?",
            place.ip()
        )
    };
    probe.map(|local| local.ip()).with_context(why)
}

/// A server on another machine, from its client's side.
pub struct Remote {
    endpoint: Endpoint,
    peer: Peer,
    server: Port,
    local: Port,
    /// Known to be dead: there is nothing to say good-bye to.
    is_lost: Arc<AtomicBool>,
}

impl Remote {
    /// Finds the server; what it says goes to `hear`. Nothing is sent yet.
    pub fn connect(address: &Address, hear: impl Fn(Heard) + Send + 'static) -> Result<Self> {
        let server = port_of(address)?;
        let endpoint = Builder::new()
            .bind(local_ip_towards(server.at)?)
            .placement(Placement::Thread)
            .linger(LINGER)
            .open()?;
        let peer = endpoint.peer(address)?;
        let local = port_of(&endpoint.address())?;
        let is_lost = Arc::new(AtomicBool::new(false));
        let remote = Self { endpoint, peer, server, local, is_lost };
        remote.listen(hear);
        Ok(remote)
    }

    fn listen(&self, hear: impl Fn(Heard) + Send + 'static) {
        let (endpoint, peer) = (self.endpoint.clone(), self.peer);
        let (server, local) = (self.server, self.local);
        let is_lost = Arc::clone(&self.is_lost);
        thread::spawn(move || {
            let mut is_first = true;
            let reason = loop {
                match next_answer(&endpoint, peer) {
                    Ok(Some(Report::Beat)) => {}
                    Ok(Some(answer)) => hear(Heard::Report(answer)),
                    Ok(None) if is_first => break no_answer(server, local),
                    Ok(None) => break fell_silent(server.at),
                    Err(Error::Closed) => return,
                    Err(error) if is_first => break not_there(server, local, &error),
                    Err(error) => {
                        break format!("lost the server at {} in the middle: {error}", server.at);
                    }
                }
                is_first = false;
            };
            // Before it is told: who hears of it may end the talk at once.
            is_lost.store(true, Ordering::Release);
            hear(Heard::Ended(reason));
        });
    }

    /// Where this side stands.
    pub fn local_ip(&self) -> IpAddr {
        self.local.ip()
    }

    /// Where the server stands.
    pub fn server(&self) -> SocketAddr {
        self.server.at
    }

    /// Whether it was found to be dead.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Begins the talk, or begins it anew after a measurement that failed.
    pub fn hello(&self) -> Result<()> {
        if self.is_lost() {
            bail!("{}", fell_silent(self.server.at));
        }
        self.order(&Order::Begin(Hello { version: VERSION, from: self.local.ip() }))
    }

    /// Sends an order. Whether it arrives will be heard.
    pub fn order(&self, order: &Order) -> Result<()> {
        let text = serde_json::to_vec(order)?;
        self.endpoint.send_copy(self.peer, ORDER, &text).map_err(|error| anyhow!(error))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if !self.is_lost() {
            self.order(&Order::End).ok(); // otherwise the server finds out by itself
        }
        // The listener holds the endpoint too, so that it would not close by being dropped.
        self.endpoint.clone().close(LINGER);
    }
}

fn next_answer(endpoint: &Endpoint, peer: Peer) -> Result<Option<Report>, Error> {
    let wanted = Wanted::tag(ANSWER).from(peer);
    let mut coming = endpoint.recv(wanted, vec![0; WORD_LEN_MAX]);
    let heard = coming.wait_timeout(POKE_AFTER).or_else(|| {
        let poke = serde_json::to_vec(&Order::Poke).unwrap_or_default();
        endpoint.send_copy(peer, ORDER, &poke).ok(); // what comes of it will be heard
        coming.wait_timeout(SILENCE_MAX - POKE_AFTER)
    });
    match heard {
        None => Ok(None),
        Some(Ok(message)) => {
            Ok(Some(serde_json::from_slice(&message.buffer).unwrap_or_else(|_| {
                Report::Failed(
                    "the server's answer makes no sense; use the same packhorse on both".into(),
                )
            })))
        }
        Some(Err(failed)) => Err(failed.error),
    }
}

fn no_answer(server: Port, local: Port) -> String {
    format!(
        "no answer from {} within {} s: nothing that was sent from here to its {server} came back\n{}",
        server.ip(),
        SILENCE_MAX.as_secs(),
        what_to_check(server, local)
    )
}

fn not_there(server: Port, local: Port, error: &Error) -> String {
    let why = match error {
        Error::Gone { reason: GoneReason::Unreachable | GoneReason::Refused, .. } => {
            "the network says nobody is there".into()
        }
        other => other.to_string(),
    };
    format!("no server at {server} of {}: {why}\n{}", server.ip(), what_to_check(server, local))
}

fn what_to_check(server: Port, local: Port) -> String {
    let (host, here) = (server.ip(), local.ip());
    // Answers come back by the stream that was opened, or to the port of this side's link.
    let back = if server.is_tcp { String::new() } else { format!(" in to {local}") };
    format!(
        "What to check:\n\
         - `packhorse serve` runs on {host}, and this is the address it printed last (a new start, a new address);\n\
         - in:  {host} lets {server} in from {here} (a firewall there, or the cloud's rules);\n\
         - out: {here} lets {} to port {} of {host} out, and the answers back{back}.",
        server.protocol(),
        server.at.port()
    )
}

fn fell_silent(server: SocketAddr) -> String {
    format!(
        "lost the server at {server} in the middle: nothing heard from it for {} s; is `packhorse serve` still running there?",
        SILENCE_MAX.as_secs()
    )
}

/// What an exchanged line says about ports, for people: addresses without the secret that is in ours.
fn show_line(line: &str) -> String {
    match line.parse::<Address>() {
        Ok(address) => packhorse_link::show(&address.locator.0),
        Err(_) => line.to_owned(),
    }
}

/// Why a measurement between two machines may have failed although the talk goes on: its own ports are blocked.
pub fn about_ports(system: &str, near: &str, far: &str) -> String {
    let kind = if system == "tcp" { "TCP" } else { "UDP" };
    let (near, far) = (show_line(near), show_line(far));
    let back = if system == "tcp" { String::new() } else { format!(", and back to {near}") };
    format!(
        "Between the two machines this went by {kind} from here to {far}{back}. \
         If a firewall is in the way, start the server with --ports LO-HI and open these (UDP and TCP)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::example_job;

    #[test]
    fn jobs_without_bounds_are_refused() {
        let job = || example_job(Pattern::Rate, 1.0);
        check_job(&job()).unwrap();
        for (job, word) in [
            (Job { seconds: 1e9, ..job() }, "--seconds"),
            (Job { seconds: f64::NAN, ..job() }, "--seconds"),
            (Job { bytes: 1 << 30, ..job() }, "--bytes"),
            (Job { bytes: 0, ..job() }, "--bytes"),
            (Job { window: 65_535, bytes: 60_000, ..job() }, "--window"),
            (Job { mtu: 0, ..job() }, "packets"),
        ] {
            let error = check_job(&job).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        assert!(check_line(&"x".repeat(5000)).is_err());
    }

    #[test]
    fn silence_names_port_direction_and_host() {
        let port = |at: &str, is_tcp| Port { at: at.parse().unwrap(), is_tcp };
        let text = no_answer(port("10.0.0.2:7000", false), port("10.0.0.1:4444", false));
        for words in ["10.0.0.2", "UDP port 7000", "in:  ", "out: ", "UDP port 4444", "10.0.0.1"] {
            assert!(text.contains(words), "{words:?}: {text}");
        }
        let text = no_answer(port("10.0.0.2:7000", true), port("10.0.0.1:4444", true));
        assert!(text.contains("TCP port 7000") && !text.contains("UDP"), "{text}");
        assert!(about_ports("tcp", "", "10.0.0.2:7001").contains("TCP from here to 10.0.0.2:7001"));
    }
}
