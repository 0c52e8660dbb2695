//! Messages as streams of the protocol (PROTOCOL §12): what Fast Messages are in this stack.
//!
//! A send is written to a stream, as far as the receiver's credit goes, and goes on when credit comes. It is over for the application when its
//! last byte was taken, as `FM_end_message` is. Nothing is posted for what arrives: a handler reads it as it comes and compares it with what was
//! sent.

use std::collections::{BTreeMap, VecDeque};

use packhorse_proto::{Endpoint, Instant, OutStreamId, PeerId, StreamError, StreamFront, StreamId};

use crate::app::Inbox;
use crate::node::Buffers;

/// Whoever a message is for.
const HANDLER: u16 = 1;

/// The streams of a host.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    leaving: VecDeque<(OutStreamId, u64, u64)>,
    /// How much of each was read.
    arriving: BTreeMap<StreamId, u64>,
}

impl Streams {
    /// A message of `len` bytes is to be sent.
    pub(crate) fn begin(
        &mut self,
        endpoint: &mut Endpoint,
        peer: PeerId,
        len: u64,
    ) -> Result<(), StreamError> {
        let id = endpoint.begin_stream(peer, HANDLER)?;
        self.leaving.push_back((id, 0, len));
        Ok(())
    }

    /// Writes what there is credit for, and reads what is here.
    pub(crate) fn turn(
        &mut self,
        endpoint: &mut Endpoint,
        memory: &mut Buffers,
        now: Instant,
    ) -> Inbox {
        let sent = self.write(endpoint, memory, now);
        Inbox { sent, received: self.read(endpoint, memory, now) }
    }

    fn write(&mut self, endpoint: &mut Endpoint, memory: &Buffers, now: Instant) -> u64 {
        let mut sent = 0;
        while let Some((id, at, len)) = self.leaving.front_mut() {
            let rest = &memory.sent()[*at as usize..*len as usize];
            let taken = endpoint.write_stream(now, *id, rest).expect("nobody goes away");
            *at += taken as u64;
            if *at < *len {
                break;
            }
            endpoint.end_stream(now, *id).expect("it is open");
            self.leaving.pop_front();
            sent += 1;
        }
        sent
    }

    fn read(&mut self, endpoint: &mut Endpoint, memory: &mut Buffers, now: Instant) -> u64 {
        let mut received = 0;
        while let Some((id, _)) = endpoint.poll_ready_stream() {
            let at = self.arriving.entry(id).or_default();
            loop {
                let len = match endpoint.stream_front(now, id) {
                    StreamFront::Bytes { bytes, .. } => {
                        memory.read(*at, bytes);
                        bytes.len()
                    }
                    StreamFront::End => {
                        endpoint.close_stream(now, id);
                        self.arriving.remove(&id);
                        received += 1;
                        break;
                    }
                    // No link of the lab tells where bytes are.
                    StreamFront::Told(_)
                    | StreamFront::Empty
                    | StreamFront::Broken(_)
                    | StreamFront::Void => break,
                };
                *at += len as u64;
                endpoint.consume_stream(now, id, len);
            }
        }
        received
    }
}
