//! Message passing on streams: the header is a piece, the payload another, and neither is copied to be beside the other.
//!
//! The handler receives the header first; then it knows where the payload belongs, and receives it there.

use std::sync::{Arc, Mutex};

use packhorse::stream::{Stream, Streams};
use packhorse::{Endpoint, Error, Peer};

use crate::matching::{HEADER_LEN, Header, Matching, Received};
use crate::{Copies, Shim, lock};

/// The handler of the shim's messages.
const MESSAGES: u16 = 0x102;
/// Room for a message that nobody waits for is made as it comes, so much at a time: its header may promise anything.
const EARLY_STEP_LEN: usize = 1 << 20;

/// Message passing on streams.
#[derive(Debug)]
pub struct StreamShim {
    streams: Streams,
    matching: Arc<Mutex<Matching>>,
    copies: Arc<Copies>,
}

impl StreamShim {
    /// On an endpoint.
    pub fn new(endpoint: &Endpoint) -> Self {
        let (streams, matching) = (endpoint.streams(), Arc::<Mutex<Matching>>::default());
        let copies = Arc::<Copies>::default();
        let (theirs, counted) = (Arc::clone(&matching), Arc::clone(&copies));
        streams.register(MESSAGES, move |sender, stream| {
            let (matching, copies) = (Arc::clone(&theirs), Arc::clone(&counted));
            async move {
                // A message that broke off is nobody's: its sender is gone.
                let _ = receive(sender, stream, &matching, &copies).await;
            }
        });
        Self { streams, matching, copies }
    }
}

async fn receive(
    sender: Peer,
    mut stream: Stream,
    matching: &Mutex<Matching>,
    copies: &Copies,
) -> Result<(), Error> {
    let mut head = [0; HEADER_LEN];
    stream.receive(&mut head).await?;
    let Some((Header { tag, len }, _)) = Header::split(&head) else { return Ok(()) };
    let claimed = lock(matching).claim(tag);
    if let Some(mut buffer) = claimed {
        let wanted_len = buffer.len().min(usize::try_from(len).unwrap_or(usize::MAX));
        let len = stream.receive(&mut buffer[..wanted_len]).await?;
        lock(matching).finish(Received { sender, tag, buffer, len });
        return Ok(());
    }
    let number = lock(matching).keep_place(sender, tag);
    let payload = receive_early(&mut stream, len).await?;
    if lock(matching).arrived(number, payload) {
        copies.count_staging();
    }
    Ok(())
}

async fn receive_early(stream: &mut Stream, promised_len: u64) -> Result<Vec<u8>, Error> {
    let mut payload = Vec::new();
    while (payload.len() as u64) < promised_len {
        let (start, left) = (payload.len(), promised_len - payload.len() as u64);
        payload.resize(start + EARLY_STEP_LEN.min(usize::try_from(left).unwrap_or(usize::MAX)), 0);
        let got_len = stream.receive(&mut payload[start..]).await?;
        if start + got_len < payload.len() {
            payload.truncate(start + got_len); // it ended before
            break;
        }
    }
    Ok(payload)
}

impl Shim for StreamShim {
    fn send(&self, peer: Peer, tag: u64, payload: &[u8]) -> Result<(), Error> {
        let header = Header { tag, len: payload.len() as u64 }.encode();
        self.streams.send(peer, MESSAGES, &[&header, payload])
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
