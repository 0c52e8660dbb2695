//! Connections: who is at this NIC id and index, and does it take this key?
//!
//! The NIC id leads to an IP address (`names`), address and index to the door of a named endpoint there (PROTOCOL §3.16), which is shown
//! the key and answers by a thread of its own, whatever the application does. With the address that it tells, messages can be sent; that the peer
//! is known here takes nothing more. Threads ask, so that the endpoint goes on meanwhile: one for each connection up to a number, then each takes the next.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use packhorse::raw::{self, with_signals_blocked};
use packhorse::{Error, Greeting, LookUp, NotFound, Reception};

use crate::abi::Addr;
use crate::address::{self, ENDPOINT_COUNT_MAX};
use crate::codes::{self, Code};
use crate::info::values_of;
use crate::names;
use crate::open::complain;
use crate::port::{Port, lock};
use crate::requests::{Ended, Handle, Kind, Phase, Request};
use crate::telling::{self, NUMBER_COUNT};
use crate::waiting::Patience;

/// The number of index 0; those of the others follow, the last of MX's is where segments are asked (`segment`).
pub(crate) const FIRST_NUMBER: u16 = 512;
/// What a connection without a limit may take: as long as Open-MX repeats its requests.
const LONGEST: Duration = Duration::from_secs(500);
/// A door is asked so long in one go; then it is seen whether anybody still wants to know.
const ASK_FOR: Duration = Duration::from_millis(500);
/// One that did not answer is asked so long from then on: a host that has refused much just now refuses once a second, and three refusals count.
const ASK_AGAIN_FOR: Duration = Duration::from_secs(4);
/// A segment is asked so long for a NIC id before there is no such.
const FIND_FOR: Duration = Duration::from_secs(2);
/// So long others are asked for it when nobody answered where it was said to be.
const FIND_OTHERS_FOR: Duration = Duration::from_millis(100);
/// Places that turned out to be another board's, after which a connection gives up: somebody lies.
const WRONG_COUNT_MAX: usize = 16;
/// Threads that ask at most, of an endpoint.
const ASKER_COUNT_MAX: u32 = 32;
const MAGIC: &[u8; 4] = b"MX1\0";
/// How a door says that the key is wrong.
const WRONG_KEY: &[u8; 8] = b"MX1\0key\0";

/// What an asker shows.
fn greeting(key: u32) -> Greeting {
    let mut greeting = Greeting::default();
    greeting[..4].copy_from_slice(MAGIC);
    greeting[4..8].copy_from_slice(&key.to_be_bytes());
    greeting
}

/// What a door of MX says to an asker: to who has the key where to go, to who asks for them the numbers of its endpoint.
pub(crate) fn receive(key: u32, asker: &Greeting, of: &OnceLock<Weak<Port>>) -> Reception {
    if let Some(told) = telling::answer(asker, || numbers(of)) {
        return Reception::Refuse(told);
    }
    if *asker == greeting(key) {
        return Reception::Welcome(greeting(0));
    }
    let mut refusal = Greeting::default();
    refusal[..8].copy_from_slice(WRONG_KEY);
    Reception::Refuse(refusal)
}

/// What an endpoint tells of itself; one that is not yet there, or no longer, has counted nothing.
fn numbers(of: &OnceLock<Weak<Port>>) -> [u64; NUMBER_COUNT] {
    let mut numbers = [0; NUMBER_COUNT];
    numbers[0] = std::process::id().into();
    if let Some(port) = of.get().and_then(Weak::upgrade) {
        numbers[1..].copy_from_slice(&values_of(&port));
    }
    numbers
}

/// Whom a connection is to lead to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) nic_id: u64,
    pub(crate) index: u32,
    pub(crate) key: u32,
}

impl Port {
    /// Begins a connection; its request ends when it is made, or cannot be.
    pub(crate) fn begin_connect(
        self: &Arc<Self>,
        target: Target,
        (match_info, context): (u64, usize),
        phase: Phase,
        is_hidden: bool,
    ) -> Result<Handle, Code> {
        if target.index >= ENDPOINT_COUNT_MAX {
            return Err(codes::BAD_ENDPOINT_ID);
        }
        let peer = Addr::default();
        let ended =
            Ended { code: codes::SUCCESS, peer, match_info, len: 0, placed_len: 0, context };
        let request = Request { kind: Kind::Connect, ended, phase, is_buffered: false, is_hidden };
        let mut state = lock(&self.state);
        let handle = state.requests.insert(request);
        if state.asker_count == ASKER_COUNT_MAX {
            state.unasked.push_back((handle, target));
            return Ok(handle);
        }
        let port = Arc::clone(self);
        let builder = std::thread::Builder::new().name("packhorse-mx".into());
        let run = move || port.run_connects(handle, target);
        if with_signals_blocked(|| builder.spawn(run)).is_err() {
            state.requests.remove(handle);
            return Err(codes::NO_RESOURCES);
        }
        state.asker_count += 1;
        Ok(handle)
    }

    /// A thread that asks, for one connection after the other until there are none.
    fn run_connects(self: &Arc<Self>, handle: Handle, target: Target) {
        let mut next = Some((handle, target));
        while let Some((handle, target)) = next {
            self.run_connect(handle, target);
            let mut state = lock(&self.state);
            next = state.unasked.pop_front();
            state.asker_count -= u32::from(next.is_none());
        }
    }

    /// Connects, and waits for that.
    pub(crate) fn connect(
        self: &Arc<Self>,
        target: Target,
        patience: Patience,
    ) -> Result<Addr, Code> {
        let handle = self.begin_connect(target, (0, 0), Phase::Pending, true)?;
        let take = |port: &Self| lock(&port.state).requests.take_done(handle).transpose();
        match self.wait_for_others(patience, None, take) {
            Some(ended) => {
                let ended = ended?;
                if ended.code == codes::SUCCESS { Ok(ended.peer) } else { Err(ended.code) }
            }
            None => {
                // The thread that asks finds nobody who wants to know.
                lock(&self.state).requests.remove(handle);
                Err(codes::TIMEOUT)
            }
        }
    }

    /// Whether somebody still waits for this connection.
    fn wants(&self, handle: Handle) -> bool {
        let mut state = lock(&self.state);
        let is_open = state.requests.get_mut(handle).is_some();
        is_open && !self.is_closing.load(Ordering::Relaxed)
    }

    fn run_connect(self: &Arc<Self>, handle: Handle, target: Target) {
        let found = self.seek(handle, target);
        if !self.wants(handle) {
            return;
        }
        let mut state = lock(&self.state);
        let Some(request) = state.requests.get_mut(handle).copied() else { return };
        let ended = match found {
            Ok(peer) => Ended { peer, ..request.ended },
            Err(code) => Ended { code, ..request.ended },
        };
        let failed = self.end(&mut state, handle, request.phase, ended);
        state.failed.extend(failed);
        drop(state);
        self.wake_all();
    }

    /// Goes where the NIC id is said to be, until the endpoint that is meant answers there. Whoever says so may be wrong, or lie: another board's
    /// endpoint is not taken for it, and where nobody answers, others are asked where it is before that place is tried again. They may know
    /// nothing: if the only process there has ended, nobody answers for its host any more.
    fn seek(&self, handle: Handle, target: Target) -> Result<Addr, Code> {
        let end = Instant::now() + LONGEST;
        let (mut wrong, mut silent, mut ask_for) = (Vec::new(), None, ASK_FOR);
        loop {
            if !self.wants(handle) || Instant::now() >= end {
                return Err(codes::TIMEOUT);
            }
            let is_unwanted = AtomicBool::new(false);
            let longest = if silent.is_some() { FIND_OTHERS_FOR } else { FIND_FOR };
            let avoided: Vec<IpAddr> = wrong.iter().copied().chain(silent).collect();
            let found = names::place_of(target.nic_id, longest, &is_unwanted, &avoided);
            let Some(ip) = found.or(silent.take()) else { return Err(codes::NIC_NOT_FOUND) };
            match ask_door(ip, target, ask_for) {
                Ok(address) if is_meant(&address, target) => {
                    let peer = self.endpoint.peer(&address).map_err(|_| codes::NO_RESOURCES)?;
                    let word = address.identity.endpoint;
                    let peer = address::new(word, self.mark, raw::peer_id(peer));
                    self.on_connected(&peer);
                    return Ok(peer);
                }
                Ok(_) if wrong.len() == WRONG_COUNT_MAX => return Err(codes::NIC_NOT_FOUND),
                Ok(_) => {
                    complain(&format!("{ip} is not where NIC id {:012x} is", target.nic_id));
                    names::forget(target.nic_id);
                    wrong.push(ip);
                }
                // It may have moved, or be busy: it is asked again, wherever it is then.
                Err(codes::TIMEOUT) => {
                    names::forget(target.nic_id);
                    (silent, ask_for) = (Some(ip), ASK_AGAIN_FOR);
                }
                Err(code) => return Err(code),
            }
        }
    }
}

/// Whether the endpoint there says that it is the one that is meant.
fn is_meant(there: &packhorse::Address, target: Target) -> bool {
    address::is_word_of(there.identity.endpoint, target.nic_id, target.index)
}

fn ask_door(ip: IpAddr, target: Target, longest: Duration) -> Result<packhorse::Address, Code> {
    let number = FIRST_NUMBER + target.index as u16;
    let look_up = LookUp::new(&ip.to_string(), number)
        .secret(names::secret())
        .greeting(greeting(target.key))
        .timeout(longest);
    look_up.wait().map(|answer| answer.address).map_err(|error| match error {
        Error::NotFound { why, .. } => match why {
            NotFound::NoSuchNumber => codes::CONNECTION_FAILED,
            NotFound::Closed { greeting } if greeting.starts_with(WRONG_KEY) => {
                codes::BAD_CONNECTION_KEY
            }
            // Somebody else's endpoint has the number, or the one there is ending.
            NotFound::Closed { .. } | NotFound::Version => codes::CONNECTION_FAILED,
            NotFound::WrongSecret { .. } => codes::BAD_CONNECTION_KEY,
            NotFound::Silent { .. } => codes::TIMEOUT,
            NotFound::UnknownHost { .. } => codes::NIC_NOT_FOUND,
        },
        _ => codes::NO_RESOURCES,
    })
}
