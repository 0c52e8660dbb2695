//! The boards of this host: its network interfaces, in a fixed order.
//!
//! A board is an interface that is up and has a MAC and an IP address; cards before what is built upon them. `PACKHORSE_MX_BOARDS` names
//! interfaces instead, in the order of their numbers. Loopback is a board where it is named there, or where there is no other: as in
//! Open-MX its NIC id is 0 and its name `localhost`, and nobody but this host reaches it.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use packhorse::raw::{Interface, interfaces};

use crate::settings;

/// Boards at most, as in Open-MX.
pub(crate) const BOARD_COUNT_MAX: u32 = 32;

/// An interface as MX sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Board {
    /// The interface's name.
    pub interface: String,
    /// Its MAC as a number; 0 for loopback.
    pub nic_id: u64,
    /// Where it is reached.
    pub ip: IpAddr,
    /// Length of its network's prefix.
    pub prefix: u8,
    /// Only this host reaches it.
    pub is_loopback: bool,
    /// `host:board`, or `localhost`.
    pub name: String,
}

static BOARDS: RwLock<Option<Arc<[Board]>>> = RwLock::new(None);

/// Looks at the interfaces anew.
pub(crate) fn refresh() -> Result<(), String> {
    let found = choose(&interfaces(), settings::boards().as_deref(), &host_name())?;
    *BOARDS.write().unwrap_or_else(PoisonError::into_inner) = Some(found.into());
    Ok(())
}

/// The interface with this address is the only board from now on.
pub(crate) fn refresh_for(ip: IpAddr) -> Result<(), String> {
    let there = interfaces();
    let with_it = there.iter().find(|it| it.addrs.iter().any(|(addr, _)| *addr == ip));
    let name = &with_it.ok_or_else(|| format!("no interface has the address {ip}"))?.name;
    let found = choose(&there, Some(name), &host_name())?;
    *BOARDS.write().unwrap_or_else(PoisonError::into_inner) = Some(found.into());
    Ok(())
}

/// The boards as they were when MX was initialised.
pub(crate) fn all() -> Arc<[Board]> {
    let known = BOARDS.read().unwrap_or_else(PoisonError::into_inner).clone();
    known.unwrap_or_else(|| Arc::from([]))
}

/// The name this host goes by.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "unknown".into() } else { name.trim().into() }
}

/// A MAC as a number, its first byte highest.
pub(crate) fn number_of(mac: [u8; 6]) -> u64 {
    mac.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A MAC as people write it.
pub(crate) fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut bytes = text.trim().split(':');
    for byte in &mut mac {
        *byte = u8::from_str_radix(bytes.next().filter(|digits| digits.len() == 2)?, 16).ok()?;
    }
    bytes.next().is_none().then_some(mac)
}

/// The NUMA node of a board's card.
pub(crate) fn numa_node(board: &Board) -> Option<u32> {
    let path = format!("/sys/class/net/{}/device/numa_node", board.interface);
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn choose(there: &[Interface], wish: Option<&str>, host: &str) -> Result<Vec<Board>, String> {
    let chosen: Vec<&Interface> = match wish {
        Some(wish) => named(there, wish)?,
        None => {
            let mut cards: Vec<_> =
                there.iter().filter(|it| it.is_up && it.card_rank.is_some()).collect();
            cards.sort_by_key(|it| (it.card_rank, it.index));
            cards
        }
    };
    let mut boards = Vec::new();
    let mut loopback = None;
    let usable = chosen.iter().copied().filter(|it| address_of(it).is_some());
    for interface in usable.take(BOARD_COUNT_MAX as usize) {
        boards.extend(board_of(interface, boards.len(), host));
    }
    if boards.is_empty() && wish.is_none() {
        loopback = there.iter().find(|it| it.is_loopback && it.is_up);
    }
    boards.extend(loopback.and_then(|interface| board_of(interface, 0, host)));
    Ok(boards)
}

/// The interfaces of a list of names.
fn named<'a>(there: &'a [Interface], wish: &str) -> Result<Vec<&'a Interface>, String> {
    let find = |name: &str| {
        let found = there.iter().find(|it| it.name == name);
        let found = found.filter(|it| it.is_up && address_of(it).is_some());
        found.ok_or_else(|| {
            let names: Vec<&str> = there.iter().map(|it| it.name.as_str()).collect();
            format!(
                "PACKHORSE_MX_BOARDS={wish}: {name} is no interface that is up and has an IP address; there are {}",
                names.join(", ")
            )
        })
    };
    wish.split(',').map(|name| find(name.trim())).collect()
}

/// The address of an interface by which its board is reached: IPv4, for that has broadcast, or else what is not bound to its link.
fn address_of(interface: &Interface) -> Option<(IpAddr, u8)> {
    let is_routed = |ip: &IpAddr| match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    };
    let addrs = || interface.addrs.iter().copied();
    addrs().find(|(ip, _)| ip.is_ipv4()).or_else(|| addrs().find(|(ip, _)| is_routed(ip)))
}

fn board_of(interface: &Interface, number: usize, host: &str) -> Option<Board> {
    let (ip, prefix) = address_of(interface)?;
    let is_loopback = interface.is_loopback;
    let mac = if is_loopback { [0; 6] } else { interface.mac? };
    let name = if is_loopback { "localhost".into() } else { format!("{host}:{number}") };
    let interface = interface.name.clone();
    Some(Board { interface, nic_id: number_of(mac), ip, prefix, is_loopback, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, index: u32, ip: &str, rank: Option<u8>) -> Interface {
        Interface {
            name: name.into(),
            index,
            addrs: ip.parse().map(|ip| vec![(ip, 24)]).unwrap_or_default(),
            is_up: true,
            is_loopback: name == "lo",
            card_rank: rank,
            mac: Some([2, 0, 0, 0, 0, name.len() as u8]),
        }
    }

    fn names(boards: &[Board]) -> Vec<&str> {
        boards.iter().map(|board| board.interface.as_str()).collect()
    }

    #[test]
    fn cards_with_an_address_are_boards_and_loopback_only_where_there_is_no_other() {
        let there = [
            interface("lo", 1, "127.0.0.1", None),
            interface("veth1", 2, "10.0.0.1", Some(2)),
            interface("bare0", 3, "", Some(0)),
            interface("eth0", 4, "10.1.0.1", Some(0)),
        ];
        let boards = choose(&there, None, "node").unwrap();
        assert_eq!(names(&boards), ["eth0", "veth1"]);
        assert_eq!((boards[1].name.as_str(), boards[1].nic_id), ("node:1", 0x0200_0000_0005));
        let alone = choose(&there[..1], None, "node").unwrap();
        assert_eq!((alone[0].name.as_str(), alone[0].nic_id), ("localhost", 0));
        let wished = choose(&there, Some("lo, eth0"), "node").unwrap();
        assert_eq!(names(&wished), ["lo", "eth0"]);
    }

    #[test]
    fn interfaces_that_cannot_be_boards_are_named() {
        let there = [interface("lo", 1, "127.0.0.1", None), interface("bare0", 3, "", Some(0))];
        for wish in ["eth9", "bare0", "lo,"] {
            let why = choose(&there, Some(wish), "node").unwrap_err();
            assert!(why.contains("there are lo, bare0"), "{why}");
        }
    }

    #[test]
    fn macs_are_read_as_they_are_written() {
        let mac = parse_mac("02:00:00:00:ab:01").unwrap();
        assert_eq!(number_of(mac), 0x0200_0000_ab01);
        for wrong in
            ["", "02:00:00:00:ab", "02:00:00:00:ab:01:02", "2:0:0:0:0:1", "zz:00:00:00:00:00"]
        {
            assert_eq!(parse_mac(wrong), None, "{wrong}");
        }
    }
}
