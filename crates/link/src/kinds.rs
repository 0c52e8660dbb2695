//! The kinds of links there are: the one table that everything asks.
//!
//! ```text
//!   udp:eth0 ──by_name──▶ Kind ──open──▶ Link           24 bytes ──locators_of──▶ Locators ──▶ show, place_of, look_of
//!                          │  probe, auto, ground                 (first byte: the mark)
//!                          └──▶ Locators: kinds that reach each other share them (packet, xdp)
//! ```
//!
//! A kind says in a file of its own (`udp/kind.rs`) how it is opened, what it lacks here and whether `auto` takes it; beside
//! its locators (`udp/locate.rs`) stands how they are read. Nobody else matches on marks, and on kinds only who
//! means one of them by name (raw Ethernet for a segment's neighbours, say): a further link is a line in [`KINDS`] and a variant of
//! [`LinkError`].

mod error;
mod options;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

pub use error::LinkError;
pub use options::{On, Options};

use crate::ether::Station;
use crate::{Link, Locator, packet, shm, sim, tcp, udp, xdp};

/// All kinds that can be chosen, in the order in which people are told of them.
pub static KINDS: [&Kind; 5] = [&udp::KIND, &tcp::KIND, &packet::KIND, &xdp::KIND, &shm::KIND];

/// What there is to know of a kind of link before one is open.
pub struct Kind {
    /// Its name, as in `PACKHORSE_LINK`.
    pub name: &'static str,
    /// Its locators.
    pub locators: &'static Locators,
    /// What one of its links is bound to.
    pub ground: Ground,
    /// Whether `auto` takes it, and how.
    pub auto: Option<Auto>,
    /// Several of them in one endpoint are several flows to the network between: one may be opened as often as there shall be
    /// paths.
    pub makes_flows: bool,
    /// Opens one.
    pub open: fn(&Options) -> Result<Box<dyn Link>, LinkError>,
    /// Whether it can be used here, found out without disturbing others.
    pub probe: fn() -> Result<(), Missing>,
}

/// Names tell kinds apart.
impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Kind {}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What links of a kind are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// An address of the host: that of an interface, or all of them, and then the system's routes choose.
    Address,
    /// An Ethernet interface, which needs no address.
    Card,
    /// The host itself: there is one, and it is on no interface.
    Host,
}

/// How `auto` takes a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auto {
    /// Kinds of a lower rank come first; the locator of the first link goes into the endpoint's address.
    pub rank: u8,
    /// Where it cannot be opened the endpoint does without it.
    pub is_optional: bool,
}

/// Why a kind of link cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What it lacks.
    pub what: String,
    /// The one command that would change that, if there is one.
    pub remedy: Option<String>,
}

impl Missing {
    /// Something that no single command mends.
    pub(crate) fn because(what: impl ToString) -> Self {
        Self { what: what.to_string(), remedy: None }
    }

    /// The right to something, and the command that gives it to this program.
    pub(crate) fn capabilities(names: &[&str]) -> Self {
        let list = names.join(",").to_lowercase();
        let remedy = std::env::current_exe().ok();
        let remedy = remedy.map(|path| format!("sudo setcap {list}+ep {}", path.display()));
        Self { what: format!("needs {}", names.join(", ")), remedy }
    }
}

/// How the locators of one mark are read. The bytes may be a stranger's: what only has the mark is `None` to each of these.
pub struct Locators {
    /// The first byte of each of them, and of no others.
    pub mark: u8,
    /// What a person is shown.
    pub show: fn(&Locator) -> Option<String>,
    /// The locator without what tells endpoints of one host apart; `None` also where there is no such thing.
    pub place_of: fn(&Locator) -> Option<Locator>,
    /// What frames to there look like in a capture; `None` also where they never are on a wire.
    pub look_of: fn(&Locator) -> Option<Look>,
    /// What one endpoint finds silent is silent to all of that host. So it is with cards that no cable joins; not with ports,
    /// of which a firewall may close one and leave another open.
    pub is_silence_shared: bool,
    /// Whether a host reaches its own endpoints there.
    pub leads_home: bool,
}

/// What a place looks like in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A port of IP.
    Port(SocketAddr),
    /// An endpoint on Ethernet.
    Station(Station),
}

/// The kind of this name.
pub fn by_name(name: &str) -> Option<&'static Kind> {
    KINDS.into_iter().find(|kind| kind.name == name)
}

/// All locators there are: those of kinds that can be chosen, and the simulator's.
fn all_locators() -> impl Iterator<Item = &'static Locators> {
    KINDS.iter().map(|kind| kind.locators).chain([&sim::LOCATORS])
}

/// How a locator is read; `None` if its mark is none of ours.
fn locators_of(locator: &Locator) -> Option<&'static Locators> {
    all_locators().find(|locators| locators.mark == locator[0])
}

/// A locator as a person is shown it: its bytes, if it is none of ours.
pub fn show(locator: &Locator) -> String {
    let known = locators_of(locator).and_then(|locators| (locators.show)(locator));
    known.unwrap_or_else(|| {
        let hex: String = locator.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("locator {hex}")
    })
}

/// A locator without what tells endpoints of one host apart; `None` where links know no such thing.
pub fn place_of(locator: &Locator) -> Option<Locator> {
    locators_of(locator).and_then(|locators| (locators.place_of)(locator))
}

/// The port of IP that a locator names; `None` if its link is reached in another way.
pub fn port_of(locator: &Locator) -> Option<SocketAddr> {
    match look_of(locator)? {
        Look::Port(port) => Some(port),
        Look::Station(_) => None,
    }
}

/// The locator of this port at another address of its host; `None` if the locator is of no port of IP, or the address is of another family.
pub fn at_address(locator: &Locator, ip: IpAddr) -> Option<Locator> {
    let mut port = port_of(locator).filter(|port| port.is_ipv4() == ip.is_ipv4())?;
    port.set_ip(ip);
    Some(udp::locate::marked(locator[0], port))
}

/// What frames to a place look like in a capture; `None` where that must be made up.
pub(crate) fn look_of(locator: &Locator) -> Option<Look> {
    locators_of(locator).and_then(|locators| (locators.look_of)(locator))
}

/// Whether silence there says something about other endpoints of that host.
pub fn is_silence_shared(locator: &Locator) -> bool {
    locators_of(locator).is_some_and(|locators| locators.is_silence_shared)
}

/// Whether this is a place that no endpoint of the same host reaches by a link of its kind.
pub(crate) fn is_foreign_only(locator: &Locator) -> bool {
    locators_of(locator)
        .is_some_and(|locators| !locators.leads_home && (locators.place_of)(locator).is_some())
}

/// Whether links of one kind made both: then it is a surprise if the one does not lead to the other.
pub fn are_alike(one: &Locator, other: &Locator) -> bool {
    one[0] == other[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_marks_tell_kinds_apart() {
        for (at, kind) in KINDS.iter().enumerate() {
            assert_eq!(by_name(kind.name), Some(*kind));
            for other in &KINDS[..at] {
                assert_ne!(kind, other);
            }
        }
        for (one, other) in all_locators().flat_map(|one| all_locators().map(move |two| (one, two)))
        {
            let are_same = std::ptr::eq(one, other);
            assert_eq!(one.mark == other.mark, are_same, "mark {}", char::from(one.mark));
        }
        assert_eq!(by_name("token-ring"), None);
    }

    #[test]
    fn ranks_in_auto_leave_no_doubt() {
        let mut ranks: Vec<Auto> = KINDS.iter().filter_map(|kind| kind.auto).collect();
        ranks.sort_by_key(|auto| auto.rank);
        assert!(!ranks[0].is_optional, "the first goes into the address");
        assert!(ranks.windows(2).all(|two| two[0].rank < two[1].rank), "{ranks:?}");
    }

    #[test]
    fn bytes_with_nothing_but_a_mark_are_nowhere() {
        let marks = all_locators().map(|locators| locators.mark);
        for mark in marks.chain([0, 0xab]) {
            let mut locator = [0xab; 24];
            locator[0] = mark;
            assert_eq!(show(&locator), format!("locator {mark:02x}{}", "ab".repeat(23)));
            assert_eq!((place_of(&locator), look_of(&locator)), (None, None));
            assert_eq!(at_address(&locator, IpAddr::from([127, 0, 0, 1])), None);
            assert!(!is_foreign_only(&locator));
        }
    }

    #[test]
    fn a_port_is_moved_to_another_address_of_its_family() {
        let at: SocketAddr = "10.0.0.1:500".parse().unwrap();
        for (here, to) in [
            (udp::to_locator(at), udp::to_locator as fn(SocketAddr) -> Locator),
            (tcp::to_locator(at), tcp::to_locator),
        ] {
            assert_eq!(port_of(&here), Some(at));
            let there = at_address(&here, "10.0.1.1".parse().unwrap());
            assert_eq!(there, Some(to("10.0.1.1:500".parse().unwrap())));
            assert_eq!(at_address(&here, "fd00::1".parse().unwrap()), None);
        }
    }

    #[test]
    fn what_opens_by_default_is_of_its_kind_and_reads_its_own_locator() {
        let bind = std::net::Ipv4Addr::LOCALHOST.into();
        for kind in KINDS.iter().filter(|kind| kind.ground != Ground::Card) {
            (kind.probe)().unwrap();
            let link = (kind.open)(&Options { bind, ..Options::default() }).unwrap();
            assert_eq!(link.about().kind, kind.name);
            assert_eq!(link.locator()[0], kind.locators.mark);
            assert!(!show(&link.locator()).starts_with("locator"), "{}", show(&link.locator()));
        }
    }
}
