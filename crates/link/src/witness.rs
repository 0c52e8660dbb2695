//! For tests of links around a link: a link that writes down which of its methods were called.
//!
//! Handing on is written once for all links around a link (`around`), and the compiler sees to it that nothing is missing
//! there. What it cannot see is whether each method is handed on to its own counterpart, and whether links that look at frames look
//! at every one: so each such link is asked everything here, and what did not reach the link inside is named.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use crate::mem::Table;
use crate::script::Script;
use crate::{About, Arrived, Burst, InMemory, Landing, Link, Locator, Notice, Telling};

/// Remembers in what its copies share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness {
    script: Arc<Script>,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

impl Witness {
    fn note(&self, name: &'static str) {
        self.calls.lock().unwrap().push(name);
    }
}

impl Link<Table> for Witness {
    fn about(&self) -> &About {
        self.note("about");
        &self.script.about
    }

    fn locator(&self) -> Locator {
        self.note("locator");
        self.script.locator
    }

    fn may_reach(&mut self, _: &Locator) -> bool {
        self.note("may_reach");
        true
    }

    fn frame_len_to(&mut self, _: &Locator) -> usize {
        self.note("frame_len_to");
        self.script.about.frame_len_max
    }

    fn card_to(&mut self, _: &Locator) -> u32 {
        self.note("card_to");
        7
    }

    fn send(&mut self, burst: &Burst, first: usize, _: &mut Table) -> io::Result<usize> {
        self.note("send");
        Ok(burst.len() - first)
    }

    fn send_now(&mut self, _: &Locator, _: &[u8], _: usize) -> bool {
        self.note("send_now");
        true
    }

    fn receive(&mut self, _: Option<&Landing>, _: &mut Table) -> io::Result<usize> {
        self.note("receive");
        Ok(0)
    }

    fn in_memory(&mut self) -> Option<&mut dyn InMemory<Table>> {
        self.note("in_memory");
        None
    }

    fn arrived(&self, _: usize) -> Arrived<'_> {
        self.note("arrived");
        Arrived { from: [9; 24], bytes: &[0; 8], stride: 8, landed: None }
    }

    fn is_costly_to_ask(&self) -> bool {
        self.note("is_costly_to_ask");
        true
    }

    fn lift(&mut self, _: usize, _: usize, _: &mut Table) {
        self.note("lift");
    }

    fn telling(&mut self) -> Option<&mut dyn Telling<Table>> {
        self.note("telling");
        None
    }

    fn set_trains(&mut self, _: bool) {
        self.note("set_trains");
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.note("poll_notice");
        None
    }

    fn poll_remark(&mut self) -> Option<String> {
        self.note("poll_remark");
        None
    }

    fn arm(&mut self) -> bool {
        self.note("arm");
        true
    }

    fn disarm(&mut self) {
        self.note("disarm");
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.note("wake_fd");
        None
    }

    fn each_counter(&self, _: &mut dyn FnMut(&'static str, u64)) {
        self.note("each_counter");
    }
}

/// Every method of the trait, as its source says.
fn methods() -> Vec<&'static str> {
    let source = include_str!("lib.rs");
    let body = source.split("pub trait Link").nth(1).and_then(|rest| rest.split("\n}\n").next());
    let lines = body.expect("the trait stands there").lines();
    let name = |line: &'static str| line.strip_prefix("    fn ")?.split('(').next();
    lines.filter_map(name).collect()
}

/// Calls every method of a link around `witness`; those of the trait that did not reach it.
pub(crate) fn not_reached(witness: &Witness, link: &mut impl Link<Table>) -> Vec<&'static str> {
    witness.calls.lock().unwrap().clear();
    // A place on another host, of the kind that every link here knows.
    let to = crate::ether::to_locator(&crate::ether::Station { mac: [2; 6], endpoint: 1 });
    let (mut burst, mut memory) = (Burst::default(), Table::default());
    burst.begin(to);
    burst.head(&[0; 64]);
    link.about();
    link.locator();
    link.may_reach(&to);
    link.frame_len_to(&to);
    link.card_to(&to);
    link.send(&burst, 0, &mut memory).unwrap();
    link.send_now(&to, &[0; 64], 64);
    link.receive(None, &mut memory).unwrap();
    link.in_memory();
    link.arrived(0);
    link.is_costly_to_ask();
    link.lift(0, 0, &mut memory);
    link.telling();
    link.set_trains(true);
    link.poll_notice();
    link.poll_remark();
    link.arm();
    link.disarm();
    link.wake_fd();
    link.each_counter(&mut |_, _| ());
    let calls = witness.calls.lock().unwrap();
    methods().into_iter().filter(|name| !calls.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Captured;
    use crate::faults::{Faults, Faulty};

    #[test]
    fn every_method_of_the_trait_is_called_here() {
        let witness = Witness::default();
        assert!(methods().len() > 15, "{:?}", methods());
        assert_eq!(not_reached(&witness, &mut witness.clone()), [""; 0]);
    }

    #[test]
    fn a_box_hands_on_everything() {
        let witness = Witness::default();
        let mut link: Box<dyn Link<Table>> = Box::new(witness.clone());
        assert_eq!(not_reached(&witness, &mut link), [""; 0]);
    }

    #[test]
    fn links_that_look_at_every_frame_hand_on_all_but_the_short_way() {
        let witness = Witness::default();
        let mut faulty = Faulty::new(witness.clone(), Faults::default());
        assert_eq!(not_reached(&witness, &mut faulty), ["send_now", "in_memory"]);
        let mut captured = Captured::new(witness.clone(), Box::new(Vec::new())).unwrap();
        assert_eq!(not_reached(&witness, &mut captured), ["send_now", "in_memory"]);
    }
}
