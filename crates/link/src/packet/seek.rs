//! Who else is on this segment: a question to everybody, and answers that give nothing away but a name.
//!
//! ```text
//!   question   0  "packhorse seek 1"   16  nonce u64   24  zeros, so that no answer is longer
//!   answer     0  "packhorse here 1"   16  nonce u64   24  length of the name u8   25  name
//! ```
//!
//! Both are frames as `ether.rs` has them, the question to [`EVERYBODY`](crate::ether::EVERYBODY). They are no frames of the
//! protocol: an address is a capability, and whoever asks into the dark gets none. The link answers by itself, whatever its
//! endpoint does with other frames. PROTOCOL §3.14.

use std::io;
use std::time::{Duration, Instant};

use super::{Packet, PacketConfig, PacketError};
use crate::ether::{BROADCAST, Station, from_locator};
use crate::mem::Table;
use crate::{Burst, Link as _};

const QUESTION: &[u8; 16] = b"packhorse seek 1";
const ANSWER: &[u8; 16] = b"packhorse here 1";
const NAME_AT: usize = 25;
/// The longest name that is told.
pub const NAME_LEN_MAX: usize = 64;
/// Length of a question, and of the longest answer.
const QUESTION_LEN: usize = NAME_AT + NAME_LEN_MAX;
/// Answers in one receive at most: one asks, not hundreds.
pub(super) const ANSWER_COUNT_MAX: usize = 8;

fn question(nonce: u64) -> [u8; QUESTION_LEN] {
    let mut bytes = [0; QUESTION_LEN];
    bytes[..16].copy_from_slice(QUESTION);
    bytes[16..24].copy_from_slice(&nonce.to_le_bytes());
    bytes
}

/// The answer to a frame that everybody got, if it is a question.
pub(super) fn answer(asked: &[u8], name: &str) -> Option<Vec<u8>> {
    if asked.len() != QUESTION_LEN || !asked.starts_with(QUESTION) {
        return None;
    }
    let mut bytes = asked[..NAME_AT].to_vec();
    bytes[..16].copy_from_slice(ANSWER);
    // Cut between characters.
    let len = (0..=NAME_LEN_MAX.min(name.len())).rev().find(|&len| name.is_char_boundary(len))?;
    bytes[NAME_AT - 1] = len as u8;
    bytes.extend_from_slice(&name.as_bytes()[..len]);
    Some(bytes)
}

/// The name in an answer to the question with this nonce. What is in it is shown to people: nothing but text.
fn name_in(answer: &[u8], nonce: u64) -> Option<String> {
    let (head, name) = answer.split_at_checked(NAME_AT)?;
    let is_ours = head.starts_with(ANSWER) && head[16..24] == nonce.to_le_bytes();
    if !is_ours || name.len() != usize::from(head[NAME_AT - 1]) || name.len() > NAME_LEN_MAX {
        return None;
    }
    let name = std::str::from_utf8(name).ok()?;
    (!name.chars().any(char::is_control)).then(|| name.to_owned())
}

/// Somebody who answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The name its host goes by.
    pub name: String,
    /// Its interface and its number there.
    pub station: Station,
    /// How long the answer took.
    pub after: Duration,
}

/// Asks everybody on the segment of one interface.
#[derive(Debug)]
pub struct Seeker {
    packet: Packet,
    memory: Table,
    nonce: u64,
    asked_at: Instant,
}

impl Seeker {
    /// Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// As for [`Packet::open`].
    pub fn open(interface: &str) -> Result<Self, PacketError> {
        let packet = Packet::open(&PacketConfig::on(interface))?;
        // Random, as endpoint numbers are: who did not hear the question cannot answer it.
        let nonce = from_locator(&packet.locator()).map_or(0, |own| u64::from(own.endpoint));
        Ok(Self { packet, memory: Table::default(), nonce, asked_at: Instant::now() })
    }

    /// Name of the interface.
    pub fn interface(&self) -> &str {
        self.packet.interface()
    }

    /// Asks, or asks again.
    ///
    /// # Errors
    /// What the system says of a socket that does not work any more.
    pub fn ask(&mut self) -> io::Result<()> {
        let mut burst = Burst::default();
        burst.begin(BROADCAST);
        burst.head(&question(self.nonce));
        self.asked_at = Instant::now();
        self.packet.send(&burst, 0, &mut self.memory).map(drop)
    }

    /// Those who have answered since the last call.
    ///
    /// # Errors
    /// What the system says of a socket that does not work any more.
    pub fn poll(&mut self) -> io::Result<Vec<Found>> {
        let count = self.packet.receive(None, &mut self.memory)?;
        let after = self.asked_at.elapsed();
        let found = (0..count).filter_map(|index| {
            let arrived = self.packet.arrived(index);
            let station = from_locator(&arrived.from)?;
            Some(Found { name: name_in(arrived.bytes, self.nonce)?, station, after })
        });
        Ok(found.collect())
    }

    /// What should be said about the interface.
    pub fn poll_remark(&mut self) -> Option<String> {
        self.packet.poll_remark()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_answered_with_a_name_and_nothing_else() {
        let asked = question(77);
        let told = answer(&asked, "host-ä").unwrap();
        assert_eq!(name_in(&told, 77).as_deref(), Some("host-ä"));
        assert_eq!(name_in(&told, 78), None, "somebody else's question");
        let long = "ä".repeat(40);
        let told = answer(&asked, &long).unwrap();
        assert!(told.len() <= asked.len(), "an answer is no longer than its question");
        assert_eq!(name_in(&told, 77).unwrap(), "ä".repeat(32));
        assert_eq!(name_in(&answer(&asked, "").unwrap(), 77).as_deref(), Some(""));
    }

    #[test]
    fn nothing_else_is_answered_or_believed() {
        let asked = question(1);
        assert_eq!(answer(&asked[..asked.len() - 1], "a"), None, "too short to be answered");
        let told = answer(&asked, "a").unwrap();
        assert_eq!(answer(&told, "a"), None, "answers are not answered");
        for broken in [&told[..told.len() - 1], &[told.as_slice(), b"x"].concat(), &[]] {
            assert_eq!(name_in(broken, 1), None);
        }
        for name in [&b"a\x1b[2J"[..], &[0xff, 0xfe]] {
            let mut bytes = told[..NAME_AT].to_vec();
            bytes[NAME_AT - 1] = name.len() as u8;
            bytes.extend_from_slice(name);
            assert_eq!(name_in(&bytes, 1), None, "not for a terminal");
        }
    }
}
