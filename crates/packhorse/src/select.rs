//! Which links an endpoint opens, as people say it: `auto`, `udp:eth0`, `packet:eth*,!docker*`.
//!
//! ```text
//!   selection := part { "," part }
//!   part      := [ "!" ] ( kind [ ":" place ] | place )       without a kind only to exclude
//!   kind      := auto | a name in the table of kinds (`packhorse_link::kinds`)
//!   place     := name, with * and ?  |  address  |  address / prefix length
//! ```
//!
//! Parts add up in their order; what any part with `!` names is left out. A part that names nothing is an error that says
//! what there is, for the commonest complaint about every such system is the wrong interface and no word about it. All
//! of this is text and lists: nothing is opened here.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use packhorse_link::kinds::{self, Ground, KINDS, On};
use packhorse_link::{Interface, Kind};

/// Links of an endpoint at most.
const LINK_COUNT_MAX: usize = 8;
/// Cards on which `auto` uses raw Ethernet at most: each costs a descriptor, and every pair with one of the peer's is asked.
const AUTO_CARD_COUNT_MAX: usize = 4;

/// Where a kind of link is wanted, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Where {
    Anywhere,
    Name(String),
    Net(IpAddr, u8),
}

impl Where {
    fn parse(text: &str) -> Result<Self, String> {
        let (addr, prefix) = text.split_once('/').unwrap_or((text, ""));
        if let Ok(ip) = addr.parse::<IpAddr>() {
            let most = if ip.is_ipv4() { 32 } else { 128 };
            let prefix = if prefix.is_empty() { Ok(most) } else { prefix.parse() };
            let prefix = prefix.ok().filter(|&prefix| prefix <= most);
            let wrong = || format!("`{text}`: the prefix length must be 0 to {most}");
            return Ok(Self::Net(ip, prefix.ok_or_else(wrong)?));
        }
        let is_name = |c: char| !c.is_whitespace() && !"/!:,".contains(c);
        if text.is_empty() || !text.chars().all(is_name) {
            return Err(format!("`{text}` is no interface, address or network"));
        }
        Ok(Self::Name(text.into()))
    }

    /// The address by which it names an interface; `None` if it does not.
    fn names(&self, interface: &Interface, addr: Option<IpAddr>) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Name(pattern) => is_like(pattern, &interface.name),
            Self::Net(net, prefix) => addr.is_some_and(|ip| is_within(ip, *net, *prefix)),
        }
    }

    /// Whether it may name the loopback interface: only when that is meant.
    fn means_loopback(&self) -> bool {
        match self {
            Self::Anywhere => false,
            Self::Name(pattern) => !pattern.contains(['*', '?']),
            Self::Net(net, _) => net.is_loopback(),
        }
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anywhere => f.write_str("*"),
            Self::Name(name) => f.write_str(name),
            Self::Net(ip, prefix) => write!(f, "{ip}/{prefix}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    is_excluded: bool,
    /// `None`: auto; to exclude: any.
    kind: Option<&'static Kind>,
    place: Where,
    text: String,
}

impl Part {
    fn parse(text: &str) -> Result<Self, String> {
        let (is_excluded, rest) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let (word, place) = match rest.split_once(':') {
            // An IPv6 address has colons, too.
            Some((word, place)) if kind_of(word).is_some() => (word, Some(place)),
            _ => (rest, None),
        };
        let (kind, place) = match (kind_of(word), place) {
            (Some(None), Some(_)) => return Err(format!("`{text}`: auto chooses by itself")),
            (Some(None), None) if is_excluded => return Err(format!("`{text}` leaves nothing")),
            (Some(Some(kind)), Some(_)) if kind.ground == Ground::Host => {
                return Err(format!("`{text}`: {word} is on no interface"));
            }
            (Some(kind), Some(place)) => (kind, Where::parse(place)?),
            (Some(kind), None) => (kind, Where::Anywhere),
            (None, _) if is_excluded => (None, Where::parse(rest)?),
            (None, _) => {
                return Err(format!(
                    "there is no kind of link `{word}`; there are: {}; an interface is chosen by udp:{word}",
                    kind_names()
                ));
            }
        };
        Ok(Self { is_excluded, kind, place, text: text.into() })
    }
}

/// All that can be chosen, for people.
fn kind_names() -> String {
    KINDS.iter().fold("auto".to_owned(), |names, kind| names + ", " + kind.name)
}

/// `Some(None)`: auto.
fn kind_of(word: &str) -> Option<Option<&'static Kind>> {
    if word == "auto" { Some(None) } else { kinds::by_name(word).map(Some) }
}

/// Which links an endpoint uses: `auto`, a kind, a kind on some interfaces (`udp:eth0`, `udp:10.0.0.0/8`, `packet:eth*`), several
/// of these with commas between them, and with `!` what is left out (`!docker*`, `!udp:10.1.0.0/16`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkChoice {
    parts: Vec<Part>,
}

impl Default for LinkChoice {
    fn default() -> Self {
        let text = "auto".into();
        let auto = Part { is_excluded: false, kind: None, place: Where::Anywhere, text };
        Self { parts: vec![auto] }
    }
}

impl FromStr for LinkChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(|part| Part::parse(part.trim()));
        let mut parts: Vec<Part> = parts.collect::<Result<_, _>>()?;
        if parts.iter().all(|part| part.is_excluded) {
            parts.splice(0..0, Self::default().parts);
        }
        Ok(Self { parts })
    }
}

impl fmt::Display for LinkChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<&str> = self.parts.iter().map(|part| part.text.as_str()).collect();
        f.write_str(&parts.join(","))
    }
}

/// A link to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) kind: &'static Kind,
    /// On which interface, where that was chosen.
    pub(crate) on: Option<On>,
    /// Nobody asked for it by name: without it the endpoint opens all the same.
    pub(crate) is_optional: bool,
}

impl LinkChoice {
    /// The links that are meant on a host with these interfaces.
    pub(crate) fn resolve(&self, interfaces: &[Interface]) -> Result<Vec<Wish>, String> {
        let mut wishes: Vec<Wish> = Vec::new();
        for part in self.parts.iter().filter(|part| !part.is_excluded) {
            let found = self.resolve_part(part, interfaces);
            if found.is_empty() {
                let why = if part.place == Where::Anywhere {
                    "all is left out"
                } else {
                    "matches nothing"
                };
                return Err(format!("{}: {why}; {}", part.text, what_there_is(interfaces)));
            }
            for wish in found {
                let same = |other: &&mut Wish| (other.kind, &other.on) == (wish.kind, &wish.on);
                match wishes.iter_mut().find(same) {
                    Some(known) => known.is_optional &= wish.is_optional,
                    None => wishes.push(wish),
                }
            }
        }
        if wishes.len() > LINK_COUNT_MAX {
            return Err(format!(
                "{self} names {} links; an endpoint has at most {LINK_COUNT_MAX}: name fewer, or leave some out with !",
                wishes.len()
            ));
        }
        // The first one's locator goes into the address, and memory reaches nobody elsewhere.
        if let Some(away) = wishes.iter().position(|wish| wish.kind.ground != Ground::Host) {
            wishes[..=away].rotate_right(1);
        }
        Ok(wishes)
    }

    fn resolve_part(&self, part: &Part, interfaces: &[Interface]) -> Vec<Wish> {
        match part.kind {
            Some(kind) => self.resolve_kind(part, kind, interfaces.iter()),
            None => self.resolve_auto(part, interfaces),
        }
    }

    /// What `auto` is: the kinds that have a rank in it, as far as there is room. Today a socket that uses all routes, whose locator
    /// goes into the address; shared memory; streams for bulk; and raw Ethernet on the likeliest cards, where that is permitted.
    fn resolve_auto(&self, part: &Part, interfaces: &[Interface]) -> Vec<Wish> {
        let mut cards: Vec<&Interface> =
            interfaces.iter().filter(|interface| interface.card_rank.is_some()).collect();
        cards.sort_by_key(|interface| interface.card_rank); // stable: otherwise in the system's order
        let ranked = KINDS.iter().filter_map(|kind| Some((kind.auto?, *kind)));
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_by_key(|(auto, _)| auto.rank);
        let mut wishes: Vec<Wish> = Vec::new();
        for (auto, kind) in ranked {
            let is_optional = auto.is_optional;
            let room = LINK_COUNT_MAX.saturating_sub(wishes.len());
            let (found, room) = match kind.ground {
                Ground::Card => {
                    let found = self.resolve_kind(part, kind, cards.iter().copied());
                    (found, room.min(AUTO_CARD_COUNT_MAX))
                }
                Ground::Address | Ground::Host => {
                    let room = if is_optional { room } else { usize::MAX };
                    (self.resolve_kind(part, kind, interfaces.iter()), room)
                }
            };
            wishes.extend(found.into_iter().take(room).map(|wish| Wish { is_optional, ..wish }));
        }
        wishes
    }

    fn resolve_kind<'a>(
        &self,
        part: &Part,
        kind: &'static Kind,
        interfaces: impl Iterator<Item = &'a Interface>,
    ) -> Vec<Wish> {
        let wish = |on| Wish { kind, on, is_optional: false };
        let is_everywhere = match kind.ground {
            Ground::Host => {
                let is_out = self.excludes(kind).any(|excluded| excluded.place == Where::Anywhere);
                return if is_out { Vec::new() } else { vec![wish(None)] };
            }
            Ground::Address => {
                part.place == Where::Anywhere && self.excludes(kind).next().is_none()
            }
            Ground::Card => false,
        };
        if is_everywhere {
            return vec![wish(None)];
        }
        let on = interfaces.filter_map(|interface| self.on(part, kind, interface));
        on.map(|on| wish(Some(on))).collect()
    }

    /// The interface with the first of its addresses that is meant, IPv4 before IPv6.
    fn on(&self, part: &Part, kind: &Kind, interface: &Interface) -> Option<On> {
        if !interface.is_up || interface.is_loopback && !part.place.means_loopback() {
            return None;
        }
        let is_meant = |ip: Option<IpAddr>| {
            let is_out = |part: &Part| part.place.names(interface, ip);
            part.place.names(interface, ip) && !self.excludes(kind).any(is_out)
        };
        let mut ips: Vec<IpAddr> = interface.addrs.iter().map(|&(ip, _)| ip).collect();
        ips.sort_by_key(rank_of); // stable: otherwise in the system's order
        let ip = ips.into_iter().find(|&ip| is_meant(Some(ip)));
        let is_chosen = match kind.ground {
            Ground::Address => ip.is_some(),
            // Ethernet needs no address, but may be chosen by one.
            Ground::Card => ip.is_some() || is_meant(None),
            Ground::Host => false,
        };
        is_chosen.then(|| On { name: interface.name.clone(), index: interface.index, ip })
    }

    fn excludes<'a>(&'a self, kind: &'a Kind) -> impl Iterator<Item = &'a Part> {
        let is_about = move |part: &&Part| part.kind.is_none_or(|excluded| excluded == kind);
        self.parts.iter().filter(|part| part.is_excluded).filter(is_about)
    }
}

/// IPv4 first; link-local addresses last, for they mean something on one wire only.
fn rank_of(ip: &IpAddr) -> u8 {
    match ip {
        IpAddr::V4(ip) => u8::from(ip.is_link_local()) * 2,
        IpAddr::V6(ip) => 1 + u8::from(ip.is_unicast_link_local()) * 2,
    }
}

/// What a kind of link needs here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindInfo {
    /// Its name, as in `PACKHORSE_LINK`.
    pub name: &'static str,
    /// Why it cannot be used here; `None`: it can.
    pub missing: Option<String>,
    /// The one command that would change that, if there is one.
    pub remedy: Option<String>,
}

/// The interfaces and kinds, for people.
pub(crate) fn what_there_is(interfaces: &[Interface]) -> String {
    let show = |interface: &Interface| {
        let addrs = interface.addrs.iter().map(|(ip, prefix)| format!(" {ip}/{prefix}"));
        let addrs: String = addrs.collect();
        let addrs = if addrs.is_empty() { " (no address)".into() } else { addrs };
        let down = if interface.is_up { "" } else { " (down)" };
        format!("{}{addrs}{down}", interface.name)
    };
    let interfaces: Vec<String> = interfaces.iter().map(show).collect();
    format!("interfaces: {}; kinds: {}", interfaces.join(", "), kind_names())
}

/// `*` stands for any letters, `?` for one.
fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n, mut back) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p + 1, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match back {
                // The last star takes one letter more.
                Some((after, from)) => {
                    (p, n) = (after, from + 1);
                    back = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

fn is_within(ip: IpAddr, net: IpAddr, prefix: u8) -> bool {
    let same = |a: u128, b: u128, width: u32| {
        let rest = width - u32::from(prefix);
        rest >= 128 || a >> rest == b >> rest
    };
    match (ip, net) {
        (IpAddr::V4(ip), IpAddr::V4(net)) => same(ip.to_bits().into(), net.to_bits().into(), 32),
        (IpAddr::V6(ip), IpAddr::V6(net)) => same(ip.to_bits(), net.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Vec<Interface> {
        let of = |name: &str, index, addrs: &[&str], is_up| Interface {
            name: name.into(),
            index,
            addrs: addrs
                .iter()
                .map(|text| {
                    let (ip, prefix) = text.split_once('/').unwrap();
                    (ip.parse().unwrap(), prefix.parse().unwrap())
                })
                .collect(),
            is_up,
            is_loopback: name == "lo",
            mac: None,
            card_rank: match name {
                "eth1" | "eth3" => Some(0),
                "docker0" => Some(3),
                "wan" => Some(1),
                _ => None, // a bridge has eth0, eth2 is down
            },
        };
        vec![
            of("lo", 1, &["127.0.0.1/8", "::1/128"], true),
            of("eth0", 2, &["fe80::1/64", "10.0.0.5/24", "2001:db8::5/64"], true),
            of("eth1", 3, &["10.0.1.5/24"], true),
            of("eth2", 4, &["10.0.2.5/24"], false),
            of("eth3", 5, &[], true),
            of("docker0", 6, &["172.17.0.1/16"], true),
            of("wan", 7, &["2001:db8:1::5/64", "fe80::7/64"], true),
        ]
    }

    /// What a selection comes to: `udp`, `udp@eth0=10.0.0.5`.
    fn resolved(text: &str) -> Result<String, String> {
        let wishes = text.parse::<LinkChoice>()?.resolve(&host())?;
        let show = |wish: &Wish| match &wish.on {
            None => wish.kind.name.to_owned(),
            Some(On { name, ip: None, .. }) => format!("{}@{name}", wish.kind.name),
            Some(On { name, ip: Some(ip), .. }) => format!("{}@{name}={ip}", wish.kind.name),
        };
        Ok(wishes.iter().map(show).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn selections_mean_what_they_say() {
        for (text, meaning) in [
            (
                "auto",
                "udp shm tcp packet@eth1=10.0.1.5 packet@eth3 packet@wan=2001:db8:1::5 packet@docker0=172.17.0.1",
            ),
            ("auto,!shm,!packet", "udp tcp"),
            ("shm,tcp", "tcp shm"),
            ("shm,udp:eth0,tcp", "udp@eth0=10.0.0.5 shm tcp"),
            ("auto,!shm,!packet,!tcp", "udp"),
            ("udp", "udp"),
            ("udp,shm", "udp shm"),
            ("udp, udp ,udp", "udp"),
            ("udp:eth0", "udp@eth0=10.0.0.5"),
            ("udp:eth?", "udp@eth0=10.0.0.5 udp@eth1=10.0.1.5"),
            ("udp:eth1,udp:eth*", "udp@eth1=10.0.1.5 udp@eth0=10.0.0.5"),
            ("udp:10.0.0.0/8", "udp@eth0=10.0.0.5 udp@eth1=10.0.1.5"),
            ("udp:10.0.1.5", "udp@eth1=10.0.1.5"),
            ("udp:10.0.1.0/24,!eth0", "udp@eth1=10.0.1.5"),
            ("udp:2001:db8::/32", "udp@eth0=2001:db8::5 udp@wan=2001:db8:1::5"),
            ("udp:wan", "udp@wan=2001:db8:1::5"),
            ("udp:fe80::/10", "udp@eth0=fe80::1 udp@wan=fe80::7"),
            ("udp:lo", "udp@lo=127.0.0.1"),
            ("udp:127.0.0.0/8", "udp@lo=127.0.0.1"),
            (
                "!docker*",
                "udp@eth0=10.0.0.5 udp@eth1=10.0.1.5 udp@wan=2001:db8:1::5 shm tcp@eth0=10.0.0.5 tcp@eth1=10.0.1.5 tcp@wan=2001:db8:1::5 packet@eth1=10.0.1.5",
            ),
            ("udp:e*,!udp:10.0.1.0/24", "udp@eth0=10.0.0.5"),
            ("udp:eth0,!10.0.0.0/8", "udp@eth0=2001:db8::5"),
            ("udp:eth0,!packet", "udp@eth0=10.0.0.5"),
            ("packet:eth*", "packet@eth0=10.0.0.5 packet@eth1=10.0.1.5 packet@eth3"),
            ("xdp:eth1", "xdp@eth1=10.0.1.5"),
            (
                "auto,packet:eth0,!packet:*n,!packet:docker0,!packet:eth3",
                "udp shm tcp packet@eth1=10.0.1.5 packet@eth0=10.0.0.5",
            ),
        ] {
            assert_eq!(resolved(text).as_deref(), Ok(meaning), "{text}");
        }
    }

    #[test]
    fn what_matches_nothing_says_what_there_is() {
        for text in
            ["udp:eth9", "udp:192.168.0.0/16", "udp:eth2", "udp:eth3", "udp:eth0,!eth*", "shm,!shm"]
        {
            let error = resolved(text).unwrap_err();
            assert!(
                error.contains("eth1 10.0.1.5/24, eth2 10.0.2.5/24 (down), eth3 (no address)"),
                "{error}"
            );
            assert!(error.contains("kinds: auto, udp, tcp, packet, xdp, shm"), "{error}");
        }
        assert!(
            resolved("udp:eth9")
                .unwrap_err()
                .starts_with("udp:eth9: matches nothing; interfaces: lo ")
        );
    }

    #[test]
    fn nonsense_is_named() {
        for (text, says) in [
            ("token-ring", "no kind of link `token-ring`; there are: auto, udp"),
            ("eth0", "an interface is chosen by udp:eth0"),
            ("", "no kind of link ``"),
            ("udp:", "`` is no interface"),
            ("udp:10.0.0.0/33", "0 to 32"),
            ("auto:eth0", "auto chooses by itself"),
            ("shm:eth0", "shm is on no interface"),
            ("!auto", "leaves nothing"),
            ("udp:a b", "`a b` is no interface"),
        ] {
            let error = resolved(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn eight_links_at_most() {
        let many = |n: u32| Interface { name: format!("r{n}"), index: n, ..host()[1].clone() };
        let many: Vec<Interface> = (1..=9).map(many).collect();
        let choice: LinkChoice = "udp:r*".parse().unwrap();
        assert!(choice.resolve(&many).unwrap_err().contains("names 9 links"));
        assert_eq!(choice.resolve(&many[1..]).unwrap().len(), 8);
    }

    #[test]
    fn selections_are_shown_as_they_were_written() {
        for text in ["auto", "udp:eth0,!docker*"] {
            assert_eq!(text.parse::<LinkChoice>().unwrap().to_string(), text);
        }
        assert_eq!("!docker*".parse::<LinkChoice>().unwrap().to_string(), "auto,!docker*");
    }

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name, fits) in [
            ("*", "eth0", true),
            ("*", "", true),
            ("eth*", "eth", true),
            ("e*0", "eth10", true),
            ("e*0", "eth1", false),
            ("?th0", "eth0", true),
            ("eth?", "eth", false),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xbxxa", false),
            ("eth0", "eth01", false),
        ] {
            assert_eq!(is_like(pattern, name), fits, "{pattern} {name}");
        }
    }
}
