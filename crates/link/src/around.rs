//! Links around a link: they look at what passes, or stand in for a link, and are links themselves.
//!
//! ```text
//!   engine ──▶ Captured ──▶ Faulty ──▶ Box<dyn Link> ──▶ Udp
//!                 └──────────┴─ Around: what becomes of frames, and what it adds; all else is the inner link's
//! ```
//!
//! What such a link does not hand on is lost without a word: frames take a longer way, or nobody is told of something. So
//! handing on is written once, here, for all of them. [`Around`] asks each what becomes of frames, for a link that looks at frames
//! must see every one of them; and what it adds to what the link inside says. None can leave anything out.

use std::io;
use std::os::fd::BorrowedFd;

use crate::{About, Arrived, Burst, InMemory, Landing, Link, Locator, Notice, Telling};

/// What has a link inside. Apart from [`Around`], which is asked for each kind of memory: so the compiler knows that a link that is none
/// of these is no link around a link, whatever the memory.
pub trait Holds: Send {
    /// The link inside.
    type Inside: ?Sized;

    /// The link inside.
    fn inside(&self) -> &Self::Inside;

    /// The link inside, to be called.
    fn inside_mut(&mut self) -> &mut Self::Inside;
}

/// A link around a link. Whoever implements this is a [`Link`].
pub trait Around<M: ?Sized>: Holds<Inside: Link<M>> {
    /// [`Link::send`].
    fn send_around(&mut self, burst: &Burst, first: usize, memory: &mut M) -> io::Result<usize>;

    /// [`Link::send_now`].
    fn send_now_around(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool;

    /// [`Link::receive`].
    fn receive_around(&mut self, landing: Option<&Landing>, memory: &mut M) -> io::Result<usize>;

    /// [`Link::in_memory`]; none, if it must see every frame.
    fn in_memory_around(&mut self) -> Option<&mut dyn InMemory<M>>;

    /// [`Link::about`]: that of the link inside, if it takes nothing from what that can do.
    #[inline]
    fn about_around(&self) -> &About {
        self.inside().about()
    }

    /// [`Link::may_reach`]: as the link inside says, if nothing must be done before it is asked.
    #[inline]
    fn may_reach_around(&mut self, to: &Locator) -> bool {
        self.inside_mut().may_reach(to)
    }

    /// What it has to say itself, before all that the link inside has to.
    #[inline]
    fn poll_own_remark(&mut self) -> Option<String> {
        None
    }

    /// Its own counters, behind those of the link inside.
    #[inline]
    fn each_own_counter(&self, show: &mut dyn FnMut(&'static str, u64)) {
        let _ = show;
    }
}

impl<M: ?Sized, A: Holds + Around<M>> Link<M> for A {
    #[inline]
    fn about(&self) -> &About {
        self.about_around()
    }

    #[inline]
    fn locator(&self) -> Locator {
        self.inside().locator()
    }

    #[inline]
    fn may_reach(&mut self, to: &Locator) -> bool {
        self.may_reach_around(to)
    }

    #[inline]
    fn frame_len_to(&mut self, to: &Locator) -> usize {
        self.inside_mut().frame_len_to(to)
    }

    #[inline]
    fn card_to(&mut self, to: &Locator) -> u32 {
        self.inside_mut().card_to(to)
    }

    #[inline]
    fn send(&mut self, burst: &Burst, first: usize, memory: &mut M) -> io::Result<usize> {
        self.send_around(burst, first, memory)
    }

    #[inline]
    fn send_now(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool {
        self.send_now_around(to, frames, stride)
    }

    #[inline]
    fn receive(&mut self, landing: Option<&Landing>, memory: &mut M) -> io::Result<usize> {
        self.receive_around(landing, memory)
    }

    #[inline]
    fn in_memory(&mut self) -> Option<&mut dyn InMemory<M>> {
        self.in_memory_around()
    }

    #[inline]
    fn arrived(&self, index: usize) -> Arrived<'_> {
        self.inside().arrived(index)
    }

    #[inline]
    fn is_costly_to_ask(&self) -> bool {
        self.inside().is_costly_to_ask()
    }

    #[inline]
    fn lift(&mut self, index: usize, first: usize, memory: &mut M) {
        self.inside_mut().lift(index, first, memory);
    }

    #[inline]
    fn telling(&mut self) -> Option<&mut dyn Telling<M>> {
        self.inside_mut().telling()
    }

    #[inline]
    fn set_trains(&mut self, is_on: bool) {
        self.inside_mut().set_trains(is_on);
    }

    #[inline]
    fn poll_notice(&mut self) -> Option<Notice> {
        self.inside_mut().poll_notice()
    }

    #[inline]
    fn poll_remark(&mut self) -> Option<String> {
        self.poll_own_remark().or_else(|| self.inside_mut().poll_remark())
    }

    #[inline]
    fn arm(&mut self) -> bool {
        self.inside_mut().arm()
    }

    #[inline]
    fn disarm(&mut self) {
        self.inside_mut().disarm();
    }

    #[inline]
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inside().wake_fd()
    }

    #[inline]
    fn each_counter(&self, show: &mut dyn FnMut(&'static str, u64)) {
        self.inside().each_counter(show);
        self.each_own_counter(show);
    }
}

/// A box is the link in it.
impl<L: Send + ?Sized> Holds for Box<L> {
    type Inside = L;

    #[inline]
    fn inside(&self) -> &L {
        self
    }

    #[inline]
    fn inside_mut(&mut self) -> &mut L {
        self
    }
}

impl<M: ?Sized, L: Link<M> + ?Sized> Around<M> for Box<L> {
    #[inline]
    fn send_around(&mut self, burst: &Burst, first: usize, memory: &mut M) -> io::Result<usize> {
        (**self).send(burst, first, memory)
    }

    #[inline]
    fn send_now_around(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool {
        (**self).send_now(to, frames, stride)
    }

    #[inline]
    fn receive_around(&mut self, landing: Option<&Landing>, memory: &mut M) -> io::Result<usize> {
        (**self).receive(landing, memory)
    }

    #[inline]
    fn in_memory_around(&mut self) -> Option<&mut dyn InMemory<M>> {
        (**self).in_memory()
    }
}
