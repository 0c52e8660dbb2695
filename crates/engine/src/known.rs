//! What this process has found out about ways between hosts.
//!
//! Endpoints come and go; cards and cables stay. What one endpoint learned by asking (raw Ethernet does not lead from this
//! card to that one; datagrams carry more than raw frames there) holds for the others of the process too, and for its
//! other peers on the same host: they need not ask again. It is forgotten after a while, for cables are moved. What time it is the caller
//! says, in nanoseconds of the clock that all endpoints of the process share.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use packhorse_link::kinds::is_silence_shared;
use packhorse_link::{Locator, place_of};

/// So long it is believed.
const AGE_NS_MAX: u64 = 60_000_000_000;
/// Ways remembered; beyond, the old ones go, and if all are young none is added.
const WAY_COUNT_MAX: usize = 4096;

/// What is known of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nobody there answered, however often the question was sent.
    Unheard,
    /// The way leads there, and carried so many bytes per second; 0: not measured.
    Carried { rate: u64 },
}

/// A host, the card here, and the place there as far as all endpoints of that host share it.
type Way = (u64, u16, Locator);

fn ways() -> MutexGuard<'static, HashMap<Way, (u64, Known)>> {
    static WAYS: OnceLock<Mutex<HashMap<Way, (u64, Known)>>> = OnceLock::new();
    WAYS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of the way to a host by this card to there.
pub(crate) fn about(host: u64, card: u16, to: &Locator, now_ns: u64) -> Option<Known> {
    let way = (host, card, place_of(to)?);
    let ways = ways();
    let (at, known) = ways.get(&way)?;
    is_young(*at, now_ns).then_some(*known)
}

/// The way leads there, and carried so many bytes per second; 0: not measured.
pub(crate) fn carried(host: u64, card: u16, to: &Locator, rate: u64, now_ns: u64) {
    remember(host, card, to, Known::Carried { rate }, now_ns);
}

/// Nobody answered. Datagrams may be stopped for one port and not for another: that says nothing.
pub(crate) fn unheard(host: u64, card: u16, to: &Locator, now_ns: u64) {
    if is_silence_shared(to) {
        remember(host, card, to, Known::Unheard, now_ns);
    }
}

fn is_young(at_ns: u64, now_ns: u64) -> bool {
    now_ns.saturating_sub(at_ns) < AGE_NS_MAX
}

fn remember(host: u64, card: u16, to: &Locator, known: Known, now_ns: u64) {
    let Some(place) = place_of(to).filter(|_| card != 0) else { return };
    let mut ways = ways();
    if ways.len() >= WAY_COUNT_MAX {
        ways.retain(|_, (at, _)| is_young(*at, now_ns));
    }
    if ways.len() < WAY_COUNT_MAX {
        ways.insert((host, card, place), (now_ns, known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_link::ether::{self, Station};
    use packhorse_link::udp;

    #[test]
    fn what_one_endpoint_learned_holds_for_others_of_its_host() {
        let host = 0x1234_5678; // nobody else's
        let at = |endpoint| ether::to_locator(&Station { mac: [2, 9, 9, 9, 9, 1], endpoint });
        unheard(host, 3, &at(1), 5);
        assert_eq!(about(host, 3, &at(2), 6), Some(Known::Unheard));
        assert_eq!((about(host, 4, &at(2), 6), about(host + 1, 3, &at(2), 6)), (None, None));
        carried(host, 3, &at(1), 7, 5);
        assert_eq!(about(host, 3, &at(2), 6), Some(Known::Carried { rate: 7 }), "it answers now");
        assert_eq!(about(host, 3, &at(2), 6 + AGE_NS_MAX), None, "cables are moved");
        let blocked = udp::to_locator("10.9.9.9:1".parse().unwrap());
        unheard(host, 3, &blocked, 5);
        assert_eq!(about(host, 3, &blocked, 6), None, "another port may be open");
        carried(host, 3, &blocked, 8, 5);
        let other = udp::to_locator("10.9.9.9:2".parse().unwrap());
        assert_eq!(about(host, 3, &other, 6), Some(Known::Carried { rate: 8 }));
        carried(host, 0, &[7; 24], 9, 5);
        assert_eq!(about(host, 0, &[7; 24], 6), None, "nothing is known of such places");
    }
}
