//! Locators of shared memory: which host, and the name of a socket there.
//!
//! ```text
//!  0  mark 'S'   1  zeros   8  host u64: a hash of boot and network namespace   16  name u64, random
//! ```
//!
//! Two namespaces of a machine are two hosts: abstract names belong to a network namespace.
//!
//! **Named after a card.** By raw Ethernet a host does not reach itself, and an address has one locator. So where that is one of raw Ethernet,
//! the socket's name is made of it: who has the address finds the socket, if he is on the same host.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use crate::Locator;
use crate::kinds::{self, Locators};
use crate::sys::shm::SocketName;

/// The first byte of each of our locators.
const MARK: u8 = b'S';

/// How they are read. Frames through memory are on no wire, and there is nothing to learn of a way that is in one host.
pub(super) static LOCATORS: Locators = Locators {
    mark: MARK,
    show: |locator| from_locator(locator).map(|(host, name)| show(host, name)),
    place_of: |_| None,
    look_of: |_| None,
    is_silence_shared: false,
    leads_home: true,
};

/// What the names of our sockets begin with.
const STEM: &[u8] = b"packhorse-shm-";

/// The locator of a socket on a host.
pub(super) fn to_locator(host: u64, name: u64) -> Locator {
    let mut locator = [0; 24];
    locator[0] = MARK;
    locator[8..16].copy_from_slice(&host.to_le_bytes());
    locator[16..].copy_from_slice(&name.to_le_bytes());
    locator
}

/// Host and name in a locator; `None` if it is none of ours.
pub(super) fn from_locator(locator: &Locator) -> Option<(u64, u64)> {
    if locator[0] != MARK || locator[1..8] != [0; 7] {
        return None;
    }
    let word = |at: usize| locator[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    Some((word(8)?, word(16)?)).filter(|&(_, name)| name != 0)
}

/// The name of the socket of an endpoint whose address has this locator, if that is one by which a host does not reach itself;
/// `None` for other locators.
pub(super) fn name_after(locator: &Locator) -> Option<u64> {
    kinds::is_foreign_only(locator).then(|| hash_of(locator.iter().copied()).max(1))
}

/// What a person is shown.
fn show(host: u64, name: u64) -> String {
    format!("shm {name:016x} on host {host:016x}")
}

/// The socket of that name.
pub(super) fn socket_name(name: u64) -> SocketName {
    let mut text = [0; STEM.len() + 16];
    text[..STEM.len()].copy_from_slice(STEM);
    for (digit, at) in text[STEM.len()..].iter_mut().zip((0..16).rev()) {
        *digit = b"0123456789abcdef"[(name >> (4 * at)) as usize & 15];
    }
    SocketName::new(&text)
}

/// The name of such a socket; `None` if it is none of ours.
pub(super) fn name_of(socket: &SocketName) -> Option<u64> {
    let digits = socket.bytes().strip_prefix(STEM).filter(|digits| digits.len() == 16)?;
    let is_ours = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let text = std::str::from_utf8(digits).ok().filter(|_| is_ours)?;
    u64::from_str_radix(text, 16).ok().filter(|&name| name != 0)
}

/// Which host this is: the same number wherever boot and network namespace are the same.
pub(super) fn host() -> io::Result<u64> {
    let boot = fs::read("/proc/sys/kernel/random/boot_id")?;
    // The namespace of the calling thread, for a thread may be in another than its process.
    let namespace = fs::metadata("/proc/thread-self/ns/net")?;
    Ok(host_of(&boot, namespace.dev(), namespace.ino()))
}

fn host_of(boot: &[u8], device: u64, inode: u64) -> u64 {
    hash_of(boot.iter().copied().chain(device.to_le_bytes()).chain(inode.to_le_bytes()))
}

/// FNV-1a: the same in every build, which the standard library's hash need not be.
fn hash_of(bytes: impl Iterator<Item = u8>) -> u64 {
    const START: u64 = 0xcbf2_9ce4_8422_2325;
    bytes.fold(START, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show;

    #[test]
    fn names_come_back_and_others_are_nowhere() {
        for name in [1, 0x0123_4567_89ab_cdef, u64::MAX] {
            assert_eq!(from_locator(&to_locator(7, name)), Some((7, name)));
            assert_eq!(name_of(&socket_name(name)), Some(name));
        }
        assert_eq!(from_locator(&to_locator(7, 0)), None);
        assert_eq!(from_locator(&[0; 24]), None);
        let mut mangled = to_locator(7, 7);
        mangled[3] = 1;
        assert_eq!(from_locator(&mangled), None);
        assert!(show(&mangled).starts_with("locator 53"));
        assert_eq!(show(&to_locator(1, 2)), "shm 0000000000000002 on host 0000000000000001");
        for text in [
            "",
            "packhorse-shm-",
            "packhorse-shm-00000000000000zz",
            "packhorse-shm-+000000000000001",
        ] {
            assert_eq!(name_of(&SocketName::new(text.as_bytes())), None, "{text}");
        }
    }

    #[test]
    fn boot_and_namespace_make_a_host() {
        assert_eq!(host().unwrap(), host().unwrap());
        let one = host_of(b"boot", 4, 100);
        assert!(one != host_of(b"toob", 4, 100) && one != host_of(b"boot", 4, 101));
    }
}
