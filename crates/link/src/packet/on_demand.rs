//! A packet link that costs next to nothing until somebody can be reached by it.
//!
//! `auto` opens links on every card without being asked, and should not take a megabyte of memory for each. So there is a socket,
//! and a locator that others can be told; what frames arrive in is made when the first peer on another host is known to
//! speak raw Ethernet too. What is sent to and fro before that is lost: both sides ask again.
//!
//! The kernel takes some 10 ms to make it: it waits until every core has come to rest once. So a thread does that; whoever
//! drives this link is in the midst of a program's communication, and another link carries that meanwhile.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Packet;
use super::config::{PacketConfig, PacketError};
use super::opening::{self, Prepared};
use crate::around::Holds;
use crate::ether::{from_locator, to_locator};
use crate::mem::Table;
use crate::sys::interfaces::macs;
use crate::sys::signals::with_signals_blocked;
use crate::{About, Around, Arrived, Burst, InMemory, Landing, Link, Locator, Notice, Telling};

/// A packet link that opens when it is needed.
#[derive(Debug)]
pub struct OnDemand<P = Packet> {
    /// Large, and moved once.
    open: Option<Box<P>>,
    /// Stands in for it until it is open.
    shut: Shut,
    opening: Option<JoinHandle<Result<P, PacketError>>>,
    own_macs: OwnMacs,
    remark: Option<String>,
}

/// The Ethernet addresses of this host, looked up again after a while: to ask for each place of each peer would take longer than
/// all the rest of making its acquaintance.
#[derive(Debug, Default)]
struct OwnMacs {
    known: Vec<[u8; 6]>,
    looked_at: Option<Instant>,
}

impl OwnMacs {
    fn contain(&mut self, mac: [u8; 6]) -> bool {
        if self.looked_at.is_none_or(|at| at.elapsed() >= MACS_AGE_MAX) {
            (self.known, self.looked_at) = (macs(), Some(Instant::now()));
        }
        self.known.contains(&mac)
    }
}

const MACS_AGE_MAX: Duration = Duration::from_secs(1);

/// What is opened: a packet link; for tests, one that tells what it was asked.
trait Opened: Link<Table> + Send + Sized {
    fn open(prepared: Prepared) -> Result<Self, PacketError>;
}

impl Opened for Packet {
    fn open(prepared: Prepared) -> Result<Self, PacketError> {
        prepared.finish().and_then(Self::new)
    }
}

impl OnDemand {
    /// Prepares a link. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// As for [`Packet::open`].
    pub fn prepare(config: &PacketConfig) -> Result<Self, PacketError> {
        let prepared = opening::prepare(config)?;
        let frame_len_max = opening::frame_len_of(prepared.facts.mtu);
        let shut = Shut {
            about: super::about(frame_len_max, !prepared.fits_ring(), prepared.backlog_len()),
            locator: to_locator(&prepared.own),
            index: prepared.facts.index as u32,
            prepared: Some(prepared),
        };
        Ok(Self { open: None, shut, opening: None, own_macs: OwnMacs::default(), remark: None })
    }
}

impl<P> OnDemand<P> {
    /// Whether it has been needed.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Has a thread open it, unless that was begun before.
    #[cold]
    fn begin_to_open(&mut self)
    where
        P: Opened + 'static,
    {
        let Some(prepared) = self.shut.prepared.take() else { return };
        let thread = thread::Builder::new().name("packhorse".into());
        match with_signals_blocked(|| thread.spawn(|| P::open(prepared))) {
            Ok(opening) => self.opening = Some(opening),
            Err(error) => self.give_up(&error),
        }
    }

    /// Takes it over once it is open.
    #[cold]
    fn look_if_open(&mut self) {
        let Some(opening) = self.opening.take_if(|opening| opening.is_finished()) else { return };
        match opening.join() {
            Ok(Ok(packet)) => self.open = Some(Box::new(packet)),
            Ok(Err(error)) => self.give_up(&error),
            Err(_) => self.give_up(&"the thread that opened it panicked"),
        }
    }

    fn give_up(&mut self, why: &dyn fmt::Display) {
        self.remark = Some(format!("raw Ethernet is not used after all: {why}"));
    }
}

impl<P: Opened + 'static> Holds for OnDemand<P> {
    type Inside = dyn Link<Table>;

    #[inline]
    fn inside(&self) -> &Self::Inside {
        match &self.open {
            Some(packet) => &**packet,
            None => &self.shut,
        }
    }

    #[inline]
    fn inside_mut(&mut self) -> &mut Self::Inside {
        match &mut self.open {
            Some(packet) => &mut **packet,
            None => &mut self.shut,
        }
    }
}

impl<P: Opened + 'static> Around<Table> for OnDemand<P> {
    /// Has it opened for the first peer on another host. By raw Ethernet a host does not reach itself, whatever its cards.
    fn may_reach_around(&mut self, to: &Locator) -> bool {
        let Some(place) = from_locator(to) else { return false };
        if self.own_macs.contain(place.mac) {
            return false;
        }
        self.begin_to_open();
        match &mut self.open {
            Some(packet) => packet.may_reach(to),
            None => self.opening.is_some(),
        }
    }

    #[inline]
    fn send_around(
        &mut self,
        burst: &Burst,
        first: usize,
        memory: &mut Table,
    ) -> io::Result<usize> {
        match &mut self.open {
            Some(packet) => packet.send(burst, first, memory),
            None => self.shut.send(burst, first, memory),
        }
    }

    #[inline]
    fn send_now_around(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool {
        match &mut self.open {
            Some(packet) => packet.send_now(to, frames, stride),
            None => self.shut.send_now(to, frames, stride),
        }
    }

    #[inline]
    fn receive_around(
        &mut self,
        landing: Option<&Landing>,
        memory: &mut Table,
    ) -> io::Result<usize> {
        if let Some(packet) = &mut self.open {
            return packet.receive(landing, memory);
        }
        self.look_if_open();
        self.inside_mut().receive(landing, memory)
    }

    fn in_memory_around(&mut self) -> Option<&mut dyn InMemory<Table>> {
        self.inside_mut().in_memory()
    }

    fn poll_own_remark(&mut self) -> Option<String> {
        self.remark.take()
    }
}

/// What stands in for a packet link that is not open: it has a place, and reaches nobody.
#[derive(Debug)]
struct Shut {
    about: About,
    locator: Locator,
    index: u32,
    /// `None`: a thread has it, or it could not be opened when it was needed.
    prepared: Option<Prepared>,
}

impl Link<Table> for Shut {
    fn about(&self) -> &About {
        &self.about
    }

    fn locator(&self) -> Locator {
        self.locator
    }

    fn may_reach(&mut self, _: &Locator) -> bool {
        false
    }

    fn frame_len_to(&mut self, _: &Locator) -> usize {
        self.about.frame_len_max
    }

    fn card_to(&mut self, _: &Locator) -> u32 {
        self.index
    }

    /// What nobody can receive is lost.
    fn send(&mut self, burst: &Burst, first: usize, _: &mut Table) -> io::Result<usize> {
        Ok(burst.len() - first)
    }

    fn send_now(&mut self, _: &Locator, _: &[u8], _: usize) -> bool {
        false
    }

    fn receive(&mut self, _: Option<&Landing>, _: &mut Table) -> io::Result<usize> {
        Ok(0)
    }

    fn arrived(&self, index: usize) -> Arrived<'_> {
        unreachable!("nothing arrives where nothing is open, and number {index} was asked for")
    }

    fn is_costly_to_ask(&self) -> bool {
        false
    }

    fn lift(&mut self, _: usize, _: usize, _: &mut Table) {}

    fn telling(&mut self) -> Option<&mut dyn Telling<Table>> {
        None
    }

    /// Before the link is open nobody sends by it, so nobody has learned yet whether trains pass.
    fn set_trains(&mut self, _: bool) {}

    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }

    fn poll_remark(&mut self) -> Option<String> {
        None
    }

    fn arm(&mut self) -> bool {
        true
    }

    fn disarm(&mut self) {}

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.prepared.as_ref().map(|prepared| prepared.socket.as_fd())
    }

    fn each_counter(&self, _: &mut dyn FnMut(&'static str, u64)) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::{Witness, not_reached};

    impl Opened for Witness {
        fn open(_: Prepared) -> Result<Self, PacketError> {
            unreachable!("it is open")
        }
    }

    #[test]
    fn once_open_every_method_reaches_the_packet_link() {
        let witness = Witness::default();
        let about = super::super::about(1488, false, 0);
        let mut link = OnDemand {
            open: Some(Box::new(witness.clone())),
            shut: Shut { about, locator: [0; 24], index: 1, prepared: None },
            opening: None,
            own_macs: OwnMacs::default(),
            remark: None,
        };
        assert_eq!(not_reached(&witness, &mut link), [""; 0]);
    }
}
