//! Message passing on calls that know only whole messages (Fast Messages 1.x).
//!
//! Such a call takes one buffer and hands up one: so a header has to be put in front of a payload by copying both, and a
//! message is received before anybody can ask where it belongs. That is one copy more at each side.

use std::sync::{Arc, Mutex};

use packhorse::stream::{Stream, Streams};
use packhorse::{Endpoint, Error, Peer};

use crate::matching::{HEADER_LEN, Header, Matching, Received};
use crate::{Copies, Shim, lock};

/// The handler of the shim's messages.
const MESSAGES: u16 = 0x101;
/// The first buffer for a message of unknown length.
const FIRST_LEN: usize = 4 << 10;

/// Calls that know only whole messages.
#[derive(Clone, Debug)]
pub struct Calls {
    streams: Streams,
}

impl Calls {
    /// On an endpoint.
    pub fn new(endpoint: &Endpoint) -> Self {
        Self { streams: endpoint.streams() }
    }

    /// Sends a message.
    pub fn send(&self, peer: Peer, handler: u16, message: &[u8]) -> Result<(), Error> {
        self.streams.send(peer, handler, &[message])
    }

    /// Registers a handler, which is called with whole messages.
    pub fn register(&self, number: u16, handler: impl FnMut(Peer, &[u8]) + Send + 'static) {
        let handler = Arc::new(Mutex::new(handler));
        // Buffers are used again: in the steady state none is made, and none grows.
        let buffers: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        self.streams.register(number, move |sender, mut stream| {
            let (handler, buffers) = (Arc::clone(&handler), Arc::clone(&buffers));
            async move {
                let mut buffer = lock(&buffers).pop().unwrap_or_default();
                if let Ok(len) = receive_whole(&mut stream, &mut buffer).await {
                    lock(&handler)(sender, &buffer[..len]);
                }
                lock(&buffers).push(buffer);
            }
        });
    }
}

/// Receives a message of whatever length.
async fn receive_whole(stream: &mut Stream, buffer: &mut Vec<u8>) -> Result<usize, Error> {
    let mut len = 0;
    loop {
        if len == buffer.len() {
            buffer.resize((2 * len).max(FIRST_LEN), 0);
        }
        len += stream.receive(&mut buffer[len..]).await?;
        if len < buffer.len() {
            return Ok(len);
        }
    }
}

/// Message passing on [`Calls`].
#[derive(Debug)]
pub struct ContiguousShim {
    calls: Calls,
    matching: Arc<Mutex<Matching>>,
    copies: Arc<Copies>,
    /// Where messages are assembled.
    assembled: Mutex<Vec<u8>>,
}

impl ContiguousShim {
    /// On an endpoint.
    pub fn new(endpoint: &Endpoint) -> Self {
        let (calls, matching) = (Calls::new(endpoint), Arc::<Mutex<Matching>>::default());
        let copies = Arc::<Copies>::default();
        let (theirs, counted) = (Arc::clone(&matching), Arc::clone(&copies));
        calls.register(MESSAGES, move |sender, message| {
            if let Some((header, payload)) = Header::split(message) {
                counted.count_staging();
                deliver(&mut lock(&theirs), sender, header, payload);
            }
        });
        Self { calls, matching, copies, assembled: Mutex::default() }
    }
}

/// Copies a message to where it is wanted, or aside until it is.
fn deliver(matching: &mut Matching, sender: Peer, header: Header, payload: &[u8]) {
    match matching.claim(header.tag) {
        Some(mut buffer) => {
            let len = payload.len().min(buffer.len());
            buffer[..len].copy_from_slice(&payload[..len]);
            matching.finish(Received { sender, tag: header.tag, buffer, len });
        }
        None => {
            let number = matching.keep_place(sender, header.tag);
            matching.arrived(number, payload.to_vec());
        }
    }
}

impl Shim for ContiguousShim {
    fn send(&self, peer: Peer, tag: u64, payload: &[u8]) -> Result<(), Error> {
        let mut message = lock(&self.assembled);
        message.clear();
        message.reserve(HEADER_LEN + payload.len());
        message.extend_from_slice(&Header { tag, len: payload.len() as u64 }.encode());
        message.extend_from_slice(payload);
        self.copies.count_assembling();
        self.calls.send(peer, MESSAGES, &message)
    }

    fn post(&self, tag: u64, buffer: Vec<u8>) {
        if lock(&self.matching).post(tag, buffer) {
            self.copies.count_staging();
        }
    }

    fn try_take(&self) -> Option<Received> {
        lock(&self.matching).take()
    }

    fn copies(&self) -> &Copies {
        &self.copies
    }
}
