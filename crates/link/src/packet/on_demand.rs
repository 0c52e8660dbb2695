//! A packet link that costs next to nothing until somebody can be reached by it.
//!
//! Who opens links on every card without being asked should not take a megabyte of memory for each. So there is a socket,
//! and a locator that others can be told; what frames arrive in is made when the first peer on another host is known to
//! speak raw Ethernet too. What such a peer has sent before is lost: it asks again.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use super::config::{PacketConfig, PacketError};
use super::opening::{self, Prepared};
use super::{Packet, from_locator, to_locator};
use crate::mem::Table;
use crate::sys::interfaces::macs;
use crate::{About, Arrived, Burst, Landing, Link, Locator, Notice};

/// A packet link that opens when it is needed.
#[derive(Debug)]
pub struct OnDemand<P = Packet> {
    state: State<P>,
    about: About,
    locator: Locator,
    index: u32,
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

#[derive(Debug)]
enum State<P> {
    Closed(Prepared),
    /// Large, and moved once.
    Open(Box<P>),
    /// It could not be opened when it was needed.
    Broken,
}

/// What is opened: a packet link; for tests, one that tells what it was asked.
trait Opened: Link<Table> + Sized {
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
        Ok(Self {
            about: super::about(frame_len_max, !prepared.fits_ring(), prepared.backlog_len()),
            locator: to_locator(&prepared.own),
            index: prepared.facts.index as u32,
            state: State::Closed(prepared),
            own_macs: OwnMacs::default(),
            remark: None,
        })
    }
}

impl<P> OnDemand<P> {
    /// Whether it has been needed.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    #[cold]
    fn open(&mut self)
    where
        P: Opened,
    {
        self.state = match std::mem::replace(&mut self.state, State::Broken) {
            State::Closed(prepared) => match P::open(prepared) {
                Ok(packet) => State::Open(Box::new(packet)),
                Err(error) => {
                    self.remark = Some(format!("raw Ethernet is not used after all: {error}"));
                    State::Broken
                }
            },
            known => known,
        };
    }

    #[inline]
    fn packet(&mut self) -> Option<&mut P> {
        match &mut self.state {
            State::Open(packet) => Some(packet),
            State::Closed(_) | State::Broken => None,
        }
    }
}

impl<P: Opened> Link<Table> for OnDemand<P> {
    fn about(&self) -> &About {
        match &self.state {
            State::Open(packet) => packet.about(),
            State::Closed(_) | State::Broken => &self.about,
        }
    }

    fn locator(&self) -> Locator {
        match &self.state {
            State::Open(packet) => packet.locator(),
            State::Closed(_) | State::Broken => self.locator,
        }
    }

    /// Opens it for the first peer on another host. By raw Ethernet a host does not reach itself, whatever its cards.
    fn may_reach(&mut self, to: &Locator) -> bool {
        let Some(place) = from_locator(to) else { return false };
        if self.own_macs.contain(place.mac) {
            return false;
        }
        self.open();
        self.packet().is_some_and(|packet| packet.may_reach(to))
    }

    fn frame_len_to(&mut self, to: &Locator) -> usize {
        let len = self.about.frame_len_max;
        self.packet().map_or(len, |packet| packet.frame_len_to(to))
    }

    fn card_to(&mut self, to: &Locator) -> u32 {
        let index = self.index;
        self.packet().map_or(index, |packet| packet.card_to(to))
    }

    /// What nobody can receive is lost.
    #[inline]
    fn send(&mut self, burst: &Burst, first: usize, memory: &mut Table) -> io::Result<usize> {
        match self.packet() {
            Some(packet) => packet.send(burst, first, memory),
            None => Ok(burst.len() - first),
        }
    }

    #[inline]
    fn send_lone(&mut self, to: &Locator, frame: &[u8]) -> bool {
        self.packet().is_some_and(|packet| packet.send_lone(to, frame))
    }

    #[inline]
    fn receive(&mut self, landing: Option<&Landing>, memory: &mut Table) -> io::Result<usize> {
        self.packet().map_or(Ok(0), |packet| packet.receive(landing, memory))
    }

    #[inline]
    fn arrived(&self, index: usize) -> Arrived<'_> {
        match &self.state {
            State::Open(packet) => packet.arrived(index),
            State::Closed(_) | State::Broken => {
                unreachable!("nothing arrives where nothing is open")
            }
        }
    }

    #[inline]
    fn is_costly_to_ask(&self) -> bool {
        match &self.state {
            State::Open(packet) => packet.is_costly_to_ask(),
            State::Closed(_) | State::Broken => false,
        }
    }

    fn lift(&mut self, index: usize, first: usize, memory: &mut Table) {
        if let Some(packet) = self.packet() {
            packet.lift(index, first, memory);
        }
    }

    /// Before the link is open nobody sends by it, so nobody has learned yet whether trains pass.
    fn set_trains(&mut self, is_on: bool) {
        if let Some(packet) = self.packet() {
            packet.set_trains(is_on);
        }
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.packet().and_then(Link::poll_notice)
    }

    fn poll_remark(&mut self) -> Option<String> {
        self.remark.take().or_else(|| self.packet().and_then(Link::poll_remark))
    }

    fn arm(&mut self) -> bool {
        self.packet().is_none_or(Link::arm)
    }

    fn disarm(&mut self) {
        if let Some(packet) = self.packet() {
            packet.disarm();
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Closed(prepared) => Some(prepared.socket.as_fd()),
            State::Open(packet) => packet.wake_fd(),
            State::Broken => None,
        }
    }

    fn each_counter(&self, show: &mut dyn FnMut(&'static str, u64)) {
        if let State::Open(packet) = &self.state {
            packet.each_counter(show);
        }
    }
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
        let about = Link::<Table>::about(&witness).clone();
        let mut link = OnDemand {
            locator: [0; 24],
            about,
            index: 0,
            own_macs: OwnMacs::default(),
            remark: None,
            state: State::Open(Box::new(witness.clone())),
        };
        assert_eq!(not_reached(&witness, &mut link), [""; 0]);
    }
}
