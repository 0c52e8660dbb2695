//! What both ways of message passing share: a header, and receives that wait for messages or messages for receives.

use std::collections::VecDeque;

use packhorse::Peer;

/// Length of a header.
pub(crate) const HEADER_LEN: usize = 16;

/// What is in front of each payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) tag: u64,
    pub(crate) len: u64,
}

impl Header {
    pub(crate) fn encode(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// The header, and what is behind it; nothing if it is too short for one.
    pub(crate) fn split(message: &[u8]) -> Option<(Self, &[u8])> {
        let (tag, rest) = message.split_first_chunk()?;
        let (len, payload) = rest.split_first_chunk()?;
        Some((Self { tag: u64::from_le_bytes(*tag), len: u64::from_le_bytes(*len) }, payload))
    }
}

/// A receive that is over.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// Whose message it was.
    pub sender: Peer,
    /// Its tag.
    pub tag: u64,
    /// The buffer that was posted, as long as it was.
    pub buffer: Vec<u8>,
    /// So much of it was filled: the rest of a longer message is lost.
    pub len: usize,
}

/// A message that came before its receive.
#[derive(Debug)]
struct Early {
    number: u64,
    sender: Peer,
    tag: u64,
    /// None while it arrives.
    payload: Option<Vec<u8>>,
    /// The receive that was posted meanwhile.
    wanted: Option<Vec<u8>>,
}

/// Receives and messages of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    posted: VecDeque<(u64, Vec<u8>)>,
    early: VecDeque<Early>,
    early_count: u64,
    over: VecDeque<Received>,
}

impl Matching {
    /// A receive. True: a message was copied to it that had come before.
    pub(crate) fn post(&mut self, tag: u64, buffer: Vec<u8>) -> bool {
        let fits = |early: &Early| early.tag == tag && early.wanted.is_none();
        let Some(at) = self.early.iter().position(fits) else {
            self.posted.push_back((tag, buffer));
            return false;
        };
        self.early[at].wanted = Some(buffer);
        self.conclude(at)
    }

    /// The buffer for a message that arrives.
    pub(crate) fn claim(&mut self, tag: u64) -> Option<Vec<u8>> {
        let at = self.posted.iter().position(|(posted, _)| *posted == tag)?;
        self.posted.remove(at).map(|(_, buffer)| buffer)
    }

    /// A claimed buffer has been filled.
    pub(crate) fn finish(&mut self, received: Received) {
        self.over.push_back(received);
    }

    /// Nobody wants this message yet: it keeps its place. Its number, for `arrived`.
    pub(crate) fn keep_place(&mut self, sender: Peer, tag: u64) -> u64 {
        self.early_count += 1;
        let number = self.early_count;
        self.early.push_back(Early { number, sender, tag, payload: None, wanted: None });
        number
    }

    /// The message is here. True: it was copied to a receive that was posted meanwhile.
    pub(crate) fn arrived(&mut self, number: u64, payload: Vec<u8>) -> bool {
        let Some(at) = self.early.iter().position(|early| early.number == number) else {
            return false;
        };
        self.early[at].payload = Some(payload);
        self.conclude(at)
    }

    fn conclude(&mut self, at: usize) -> bool {
        let is_whole = self.early[at].payload.is_some() && self.early[at].wanted.is_some();
        let Some(early) = is_whole.then(|| self.early.remove(at)).flatten() else { return false };
        let (payload, mut buffer) =
            (early.payload.unwrap_or_default(), early.wanted.unwrap_or_default());
        let len = payload.len().min(buffer.len());
        buffer[..len].copy_from_slice(&payload[..len]);
        self.over.push_back(Received { sender: early.sender, tag: early.tag, buffer, len });
        true
    }

    pub(crate) fn take(&mut self) -> Option<Received> {
        self.over.pop_front()
    }
}
