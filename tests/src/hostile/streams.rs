//! Commands of the hostile world that have to do with streams.

use packhorse_proto::{StreamFront, StreamId};

use super::World;
use crate::script::Script;

/// Streams an application has under way at most.
const OUT_COUNT_MAX: usize = 12;
/// Streams it looks at, at a time.
const READ_COUNT_MAX: usize = 6;

impl World {
    /// Somebody begins, continues or ends a stream, or reads some.
    pub(super) fn stream(&mut self, at: usize, script: &mut Script<'_>) {
        match script.below(8) {
            0 | 1 => self.begin_stream(at, script),
            2 | 3 => self.continue_stream(at, script),
            4 | 5 => self.read_streams(at, script),
            6 => self.end_stream(at, script),
            _ => {
                // One that may be over, or never was.
                let id = StreamId(script.wide());
                self.parties[at].endpoint.close_stream(self.now, id);
                self.parties[at].endpoint.await_stream(id);
            }
        }
    }

    fn begin_stream(&mut self, at: usize, script: &mut Script<'_>) {
        let now = self.now;
        let party = &mut self.parties[at];
        let (peer, handler) = (party.peer(script), script.half());
        if script.flag() {
            let piece = vec![0x57; usize::from(script.half() % 3_000)];
            party.endpoint.send_short_stream(now, peer, handler, &[&piece]);
        } else if party.streams.len() < OUT_COUNT_MAX {
            party.streams.extend(party.endpoint.begin_stream(peer, handler).ok());
        }
    }

    fn continue_stream(&mut self, at: usize, script: &mut Script<'_>) {
        let now = self.now;
        let party = &mut self.parties[at];
        let Some(&id) = pick(&party.streams, script) else { return };
        let piece = vec![0x53; usize::from(script.half() % 9_000)];
        let taken = party.endpoint.write_stream(now, id, &piece);
        assert!(taken.is_ok_and(|len| len <= piece.len()) || taken.is_err(), "took too much");
        if script.flag() {
            let _ = party.endpoint.flush_stream(now, id); // it may be over
        }
    }

    fn end_stream(&mut self, at: usize, script: &mut Script<'_>) {
        let now = self.now;
        let party = &mut self.parties[at];
        let Some(&id) = pick(&party.streams, script) else { return };
        // Whether it goes or not, it is over.
        let _ = match script.flag() {
            true => party.endpoint.end_stream(now, id),
            false => party.endpoint.give_up_stream(now, id),
        };
        assert!(party.endpoint.end_stream(now, id).is_err(), "ended twice");
        party.streams.retain(|&other| other != id);
    }

    fn read_streams(&mut self, at: usize, script: &mut Script<'_>) {
        let now = self.now;
        let endpoint = &mut self.parties[at].endpoint;
        for _ in 0..READ_COUNT_MAX {
            let Some((id, _)) = endpoint.poll_ready_stream() else { break };
            match script.below(4) {
                0 => endpoint.defer_stream(id),
                1 => endpoint.close_stream(now, id),
                _ => {
                    while let StreamFront::Bytes { bytes, .. } = endpoint.stream_front(now, id) {
                        let len = bytes.len().min(1 + usize::from(script.half()));
                        endpoint.consume_stream(now, id, len);
                    }
                    match endpoint.stream_front(now, id) {
                        StreamFront::Empty => endpoint.await_stream(id),
                        StreamFront::Told(front) => match script.below(3) {
                            0 => endpoint.decline_stream_front(id),
                            1 => endpoint.decline_told_chunks(),
                            _ => endpoint.consume_stream(now, id, front.len as usize),
                        },
                        _ => endpoint.close_stream(now, id),
                    }
                }
            }
        }
    }
}

fn pick<'a, T>(of: &'a [T], script: &mut Script<'_>) -> Option<&'a T> {
    of.get(script.below(of.len().clamp(1, 256)))
}
