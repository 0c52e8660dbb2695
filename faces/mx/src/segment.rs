//! Who is on this segment: asks it, and answers for this host.
//!
//! Questions go to the broadcast address of each board's network, UDP port 62207. Every process with endpoints listens there, for Linux gives a
//! broadcast to all sockets that share a port; each answers for all boards of its host, so that no service has to be started first. What
//! answers cost is bounded: one datagram for each board, no longer than its question, a thousand a second.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use packhorse::SharedSecret;
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::boards::{self, Board};
use crate::hosts::Known;
use crate::letter::{self, Nonce, Wanted};
use crate::ports;

/// Where questions go: the port of number 767, the last of those that belong to MX.
pub(crate) const PORT: u16 = 62_207;
/// Answers a second.
const ANSWER_COUNT_MAX: u32 = 1000;
/// The first question is repeated after this, then after twice the time, up to `PAUSE_MAX`.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Whether this process listens already; it does so to its end.
static IS_LISTENING: Mutex<bool> = Mutex::new(false);

/// Answers from now on, if there is a segment. That it cannot is no failure: hosts that have a table need no answers.
pub(crate) fn listen(secret: Option<SharedSecret>) {
    let mut is_listening = IS_LISTENING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let has_segment = boards::all().iter().any(|board| broadcast_of(board).is_some());
    if *is_listening || !has_segment {
        return;
    }
    if let Ok(socket) = open_shared() {
        let builder = std::thread::Builder::new().name("packhorse-mx".into());
        let started =
            packhorse::raw::with_signals_blocked(|| builder.spawn(move || answer(&socket, secret)));
        *is_listening = started.is_ok();
    }
}

/// A socket at the port, beside those of other processes.
fn open_shared() -> io::Result<UdpSocket> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)))?;
    Ok(socket.into())
}

/// The thread that answers.
fn answer(socket: &UdpSocket, secret: Option<SharedSecret>) {
    let mut bytes = [0; letter::LEN + 1];
    let (mut second, mut count) = (Instant::now(), 0);
    loop {
        let Ok((len, from)) = socket.recv_from(&mut bytes) else {
            std::thread::sleep(PAUSE); // an ICMP error of an earlier answer
            continue;
        };
        let Some((nonce, wanted)) = letter::read_question(&bytes[..len], secret) else { continue };
        if second.elapsed() >= Duration::from_secs(1) {
            (second, count) = (Instant::now(), 0);
        }
        if !ports::are_any() {
            continue; // nobody is here to be talked to
        }
        let known = boards::all().iter().filter_map(known_of).collect::<Vec<_>>();
        for known in known.iter().filter(|known| wanted.is(known)) {
            count += 1;
            if count <= ANSWER_COUNT_MAX {
                // If it does not leave, the question is repeated.
                let _ = socket.send_to(&letter::answer(nonce, known, secret), from);
            }
        }
    }
}

/// What others may know of a board of ours; loopback is nobody else's business.
fn known_of(board: &Board) -> Option<Known> {
    let Board { name, nic_id, ip, is_loopback, .. } = board.clone();
    (!is_loopback).then_some(Known { name, nic_id, ip })
}

/// The address by which all hosts of a board's network are reached.
pub(crate) fn broadcast_of(board: &Board) -> Option<Ipv4Addr> {
    let IpAddr::V4(ip) = board.ip else { return None };
    let hosts = u32::MAX.checked_shr(board.prefix.into()).filter(|&hosts| hosts > 1)?;
    (!board.is_loopback).then(|| Ipv4Addr::from_bits(ip.to_bits() | hosts))
}

/// Asks until somebody answers for what is wanted, other than with places to be avoided, for so long at most, or until nobody wants to know.
pub(crate) fn ask(
    wanted: &Wanted,
    secret: Option<SharedSecret>,
    longest: Duration,
    is_unwanted: &AtomicBool,
    avoided: &[IpAddr],
) -> Option<Known> {
    let mut found = None;
    ask_all(wanted, secret, longest, is_unwanted, |known| {
        let is_right = wanted.is(&known) && !avoided.contains(&known.ip);
        found = is_right.then_some(known);
        found.is_some()
    });
    found
}

/// Asks for what is wanted and shows each answer to `is_enough`, until that says so, or the time is over, or nobody wants to know.
pub(crate) fn ask_all(
    wanted: &Wanted,
    secret: Option<SharedSecret>,
    longest: Duration,
    is_unwanted: &AtomicBool,
    mut is_enough: impl FnMut(Known) -> bool,
) {
    let boards = boards::all();
    let places: Vec<_> = boards.iter().filter_map(broadcast_of).map(|ip| (ip, PORT)).collect();
    let Some(socket) = (!places.is_empty()).then(open_asking).and_then(Result::ok) else { return };
    let nonce = draw();
    let asked = letter::question(nonce, wanted, secret);
    let (end, mut pause, mut ask_at) = (Instant::now() + longest, PAUSE, Instant::now());
    let mut bytes = [0; letter::LEN + 1];
    while !is_unwanted.load(Ordering::Relaxed) {
        let now = Instant::now();
        if now >= end {
            return;
        }
        if now >= ask_at {
            // A board that is down does not keep the others from being asked.
            places.iter().for_each(|&place| drop(socket.send_to(&asked, place)));
            (ask_at, pause) = (now + pause, (pause * 2).min(PAUSE_MAX));
        }
        let rest = ask_at.min(end).saturating_duration_since(now).max(Duration::from_millis(1));
        if socket.set_read_timeout(Some(rest.min(Duration::from_millis(100)))).is_err() {
            return;
        }
        let Ok((len, _)) = socket.recv_from(&mut bytes) else { continue };
        if let Some(known) = letter::read_answer(&bytes[..len], nonce, secret)
            && is_enough(known)
        {
            return;
        }
    }
}

fn open_asking() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_broadcast(true)?;
    Ok(socket)
}

/// Numbers that nobody off the path can guess: std's hasher is keyed by the system's random numbers.
pub(crate) fn draw() -> Nonce {
    let mut nonce = [0; 16];
    for (at, word) in nonce.chunks_exact_mut(8).zip(0_u64..) {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(word);
        at.copy_from_slice(&hasher.finish().to_ne_bytes());
    }
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_a_broadcast_address_if_it_has_room_for_one() {
        let board = |ip: &str, prefix| Board {
            interface: "eth0".into(),
            nic_id: 1,
            ip: ip.parse().unwrap(),
            prefix,
            is_loopback: ip.starts_with("127."),
            name: "n:0".into(),
        };
        assert_eq!(broadcast_of(&board("10.1.2.3", 24)), Some(Ipv4Addr::new(10, 1, 2, 255)));
        assert_eq!(broadcast_of(&board("10.1.2.3", 20)), Some(Ipv4Addr::new(10, 1, 15, 255)));
        for (ip, prefix) in [("10.1.2.3", 32), ("10.1.2.3", 31), ("fd00::1", 64), ("127.0.0.1", 8)]
        {
            assert_eq!(broadcast_of(&board(ip, prefix)), None, "{ip}/{prefix}");
        }
    }

    #[test]
    fn no_two_draws_are_alike() {
        assert_ne!(draw(), draw());
    }
}
