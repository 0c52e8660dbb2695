//! Questions to a segment and their answers: who has this NIC id, or this name?
//!
//! ```text
//!   0 "PhMX1\0"   6 kind (1 question, 2 answer)   7 what is asked (0 all, 1 NIC id, 2 name)
//!   8 nonce (16)   24 NIC id   32 board (4) and zeros   40 IP address (IPv4 as IPv6)   56 name (80)   136 keyed check   144
//! ```
//!
//! Both have one length, so that no answer is longer than its question. The check is keyed with the shared secret, if there is one:
//! then neither questions nor answers of others count. Numbers are big-endian. An answer says where to look, and nothing follows from it but a
//! look-up there (PROTOCOL §3.17), which tells whether it was true.

use std::net::{IpAddr, Ipv6Addr};

use packhorse::SharedSecret;

use crate::abi::HOSTNAME_LEN;
use crate::hosts::Known;

pub(crate) const LEN: usize = 144;
const MAGIC: &[u8; 6] = b"PhMX1\0";
const QUESTION: u8 = 1;
const ANSWER: u8 = 2;
const CHECK_AT: usize = 136;
const _: () = assert!(56 + HOSTNAME_LEN == CHECK_AT && CHECK_AT + 8 == LEN);

pub(crate) type Nonce = [u8; 16];

/// What a question asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    NicId(u64),
    Name(String),
}

impl Wanted {
    pub(crate) fn is(&self, known: &Known) -> bool {
        match self {
            Self::All => true,
            Self::NicId(nic_id) => known.nic_id == *nic_id,
            Self::Name(name) => known.is_called(name),
        }
    }
}

/// The bytes of a question.
pub(crate) fn question(nonce: Nonce, wanted: &Wanted, secret: Option<SharedSecret>) -> [u8; LEN] {
    let mut letter = blank(QUESTION, nonce);
    match wanted {
        Wanted::All => {}
        Wanted::NicId(nic_id) => {
            letter[7] = 1;
            letter[24..32].copy_from_slice(&nic_id.to_be_bytes());
        }
        Wanted::Name(name) => {
            letter[7] = 2;
            put_name(&mut letter, name);
        }
    }
    sealed(letter, secret)
}

/// The bytes of an answer.
pub(crate) fn answer(nonce: Nonce, known: &Known, secret: Option<SharedSecret>) -> [u8; LEN] {
    let mut letter = blank(ANSWER, nonce);
    letter[24..32].copy_from_slice(&known.nic_id.to_be_bytes());
    let ip = match known.ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    letter[40..56].copy_from_slice(&ip.octets());
    put_name(&mut letter, &known.name);
    sealed(letter, secret)
}

/// Nonce and wish of a question; `None` if it is none, or of somebody without the secret.
pub(crate) fn read_question(bytes: &[u8], secret: Option<SharedSecret>) -> Option<(Nonce, Wanted)> {
    let letter = checked(bytes, QUESTION, secret)?;
    let wanted = match letter[7] {
        0 => Wanted::All,
        1 => Wanted::NicId(u64::from_be_bytes(*letter[24..].first_chunk()?)),
        2 => Wanted::Name(name_of(letter)?),
        _ => return None,
    };
    Some((*letter[8..].first_chunk()?, wanted))
}

/// What an answer to this question says; `None` if it is none.
pub(crate) fn read_answer(
    bytes: &[u8],
    nonce: Nonce,
    secret: Option<SharedSecret>,
) -> Option<Known> {
    let letter = checked(bytes, ANSWER, secret)?;
    if letter[8..24] != nonce {
        return None;
    }
    let nic_id = u64::from_be_bytes(*letter[24..].first_chunk()?);
    let ip = Ipv6Addr::from(*letter[40..].first_chunk::<16>()?).to_canonical();
    let is_possible = nic_id != 0 && nic_id >> 48 == 0 && !ip.is_unspecified() && !ip.is_loopback();
    is_possible.then_some(Known { name: name_of(letter)?, nic_id, ip })
}

fn blank(kind: u8, nonce: Nonce) -> [u8; LEN] {
    let mut letter = [0; LEN];
    letter[..6].copy_from_slice(MAGIC);
    letter[6] = kind;
    letter[8..24].copy_from_slice(&nonce);
    letter
}

fn put_name(letter: &mut [u8; LEN], name: &str) {
    let len = name.len().min(HOSTNAME_LEN - 1);
    letter[56..56 + len].copy_from_slice(&name.as_bytes()[..len]);
}

fn name_of(letter: &[u8; LEN]) -> Option<String> {
    let name = letter[56..CHECK_AT].split(|&byte| byte == 0).next()?;
    let is_text = |byte: &u8| byte.is_ascii_graphic();
    let is_name = name.len() < HOSTNAME_LEN && name.iter().all(is_text);
    is_name.then(|| String::from_utf8_lossy(name).into_owned())
}

/// Keyed with a secret of 16 zeros where there is none: a sum against chance, then.
fn check_of(bytes: &[u8], secret: Option<SharedSecret>) -> u64 {
    secret.unwrap_or_else(|| [0; 16].into()).check(bytes)
}

fn sealed(mut letter: [u8; LEN], secret: Option<SharedSecret>) -> [u8; LEN] {
    let check = check_of(&letter[..CHECK_AT], secret);
    letter[CHECK_AT..].copy_from_slice(&check.to_be_bytes());
    letter
}

fn checked(bytes: &[u8], kind: u8, secret: Option<SharedSecret>) -> Option<&[u8; LEN]> {
    let letter: &[u8; LEN] = bytes.try_into().ok()?;
    let is_whole = letter[..6] == *MAGIC
        && letter[6] == kind
        && letter[CHECK_AT..] == check_of(&letter[..CHECK_AT], secret).to_be_bytes();
    is_whole.then_some(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        Known { name: "node1:0".into(), nic_id: 0x0200_0000_0001, ip: "10.0.0.1".parse().unwrap() }
    }

    #[test]
    fn questions_and_answers_come_through() {
        for wanted in [Wanted::All, Wanted::NicId(7), Wanted::Name("node1:0".into())] {
            let asked = question([3; 16], &wanted, None);
            assert_eq!(read_question(&asked, None), Some(([3; 16], wanted)));
        }
        let told = answer([4; 16], &known(), None);
        assert_eq!(read_answer(&told, [4; 16], None), Some(known()));
        assert_eq!(read_answer(&told, [5; 16], None), None, "an answer to somebody else");
    }

    #[test]
    fn with_a_secret_nobody_else_counts() {
        let (ours, theirs) = (SharedSecret::from([1; 16]), SharedSecret::from([2; 16]));
        let asked = question([3; 16], &Wanted::All, Some(ours));
        assert!(read_question(&asked, Some(ours)).is_some());
        assert_eq!(read_question(&asked, Some(theirs)), None);
        assert_eq!(read_question(&asked, None), None);
        let told = answer([4; 16], &known(), None);
        assert_eq!(read_answer(&told, [4; 16], Some(ours)), None);
    }

    #[test]
    fn what_is_damaged_or_impossible_is_nothing() {
        let told = answer([4; 16], &known(), None);
        for at in 0..LEN {
            let mut broken = told;
            broken[at] ^= 0x40;
            assert_eq!(read_answer(&broken, [4; 16], None), None, "byte {at}");
        }
        assert_eq!(read_answer(&told[1..], [4; 16], None), None);
        let nobody = Known { nic_id: 0, ..known() };
        assert_eq!(read_answer(&answer([4; 16], &nobody, None), [4; 16], None), None);
        let local = Known { ip: "127.0.0.1".parse().unwrap(), ..known() };
        assert_eq!(read_answer(&answer([4; 16], &local, None), [4; 16], None), None);
    }
}
