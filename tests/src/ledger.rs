//! The memory of a distrustful application: whose is it now, and may it be touched?
//!
//! Memory belongs to the endpoint from post to completion, and a cancelled request gives it back at once. The ledger
//! holds no bytes, only who owns what, so that a buffer may be as long as a hostile peer can count. It panics at the
//! first breach: a byte placed outside a posted range, or after the end of its request, or read from a send that is
//! over; a request that ends twice.

use packhorse_proto::{BufId, Event, Memory, Place, ReqId};

/// What a buffer was posted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be read until the send ends.
    Send,
    /// To be written until the receive ends.
    Receive,
    /// To be written until the entry, used many times, is unlinked and all it took is complete.
    Collect,
    /// To be read and written by peers until it is withdrawn.
    Exposed,
}

/// A buffer's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The endpoint's.
    Lent,
    /// Full: no longer in the list, but what it took may still be arriving.
    Full,
    /// Given back by cancel; its event is still to come.
    Cancelled,
    /// The application's again.
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    purpose: Purpose,
    len: u64,
    state: State,
    req: Option<ReqId>,
}

/// All buffers of one application. A `BufId` is an index, and the request's `user` is the same number.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
}

impl Ledger {
    /// Lends memory to the endpoint, before the post: a receive may be filled while it is posted.
    pub fn lend(&mut self, purpose: Purpose, len: u64) -> BufId {
        self.entries.push(Entry { purpose, len, state: State::Lent, req: None });
        BufId(self.entries.len() as u64 - 1)
    }

    /// The post succeeded or was refused; a refused one has no memory.
    pub fn posted(&mut self, buf: BufId, req: Option<ReqId>) {
        let entry = &mut self.entries[buf.0 as usize];
        entry.req = req;
        if req.is_none() {
            entry.state = State::Ended;
        }
    }

    /// The requests that have not ended.
    pub fn open_requests(&self) -> impl Iterator<Item = (BufId, ReqId)> {
        let is_open = |state| matches!(state, State::Lent | State::Cancelled);
        let open = self.entries.iter().enumerate().filter(move |(_, entry)| is_open(entry.state));
        open.filter_map(|(index, entry)| Some((BufId(index as u64), entry.req?)))
    }

    /// Cancel said yes: the memory is the application's at once.
    pub fn cancelled(&mut self, buf: BufId) {
        let entry = &mut self.entries[buf.0 as usize];
        if entry.state == State::Lent {
            entry.state = State::Cancelled;
        }
    }

    /// Takes an event that ends a request, or part of one.
    pub fn on_event(&mut self, event: &Event) {
        match *event {
            Event::Sent { user, .. } => self.end(user, event),
            Event::Received { user, offset, placed_len, envelope, .. } => {
                let entry = self.entries[user as usize];
                assert!(placed_len <= envelope.len, "more placed than came: {event:?}");
                let end = offset.checked_add(placed_len).expect("an offset within memory");
                assert!(
                    end <= entry.len,
                    "reported beyond the {} bytes posted: {event:?}",
                    entry.len
                );
                if entry.purpose == Purpose::Receive {
                    self.end(user, event);
                }
            }
            Event::Overflowed { user, .. } => {
                if self.entries[user as usize].purpose == Purpose::Receive {
                    self.end(user, event);
                }
            }
            Event::Unlinked { user, failure: None, .. } => {
                let entry = &mut self.entries[user as usize];
                assert_eq!(entry.state, State::Lent, "{event:?}");
                // Used up. An entry that collects may still have messages arriving.
                let collects = entry.purpose == Purpose::Collect;
                entry.state = if collects { State::Full } else { State::Ended };
            }
            Event::Unlinked { user, .. } => self.end(user, event),
            Event::Operated { user, .. } => self.end(user, event),
            Event::Written { user, offset, len, .. } | Event::Used { user, offset, len, .. } => {
                let entry = self.entries[user as usize];
                let end = offset.checked_add(len).expect("an offset within memory");
                assert!(end <= entry.len, "written beyond {} bytes: {event:?}", entry.len);
            }
            Event::Lost { .. }
            | Event::Joined { .. }
            | Event::Left { .. }
            | Event::Closed { .. } => {}
        }
    }

    fn end(&mut self, user: u64, event: &Event) {
        let entry = &mut self.entries[user as usize];
        assert_ne!(entry.state, State::Ended, "ended twice: {event:?}");
        entry.state = State::Ended;
    }

    /// Checks that the endpoint may read this range.
    pub fn check_read(&self, buf: BufId, offset: u64, len: u64) {
        let is_read = |purpose| matches!(purpose, Purpose::Send | Purpose::Exposed);
        self.check(buf, offset, len, is_read);
    }

    /// Checks that bytes nobody has looked at may come to lie here: not where peers could read them.
    pub fn check_landing(&self, buf: BufId, offset: u64, len: u64) {
        let is_received = |purpose| matches!(purpose, Purpose::Receive | Purpose::Collect);
        self.check(buf, offset, len, is_received);
    }

    fn check(&self, buf: BufId, offset: u64, len: u64, fits: impl Fn(Purpose) -> bool) {
        let entry = self.entries.get(buf.0 as usize).expect("a buffer that was posted");
        assert!(fits(entry.purpose), "{buf:?} was posted to {:?}", entry.purpose);
        assert!(
            matches!(entry.state, State::Lent | State::Full),
            "{buf:?} is the application's: touched at {offset}, {len} bytes"
        );
        let end = offset.checked_add(len).expect("a range within memory");
        assert!(
            end <= entry.len,
            "{buf:?} has {} bytes: touched at {offset}, {len} bytes",
            entry.len
        );
    }
}

impl Memory for Ledger {
    fn place(&mut self, to: Place, bytes: &[u8]) {
        self.check(to.buf, to.offset, bytes.len() as u64, |purpose| purpose != Purpose::Send);
    }

    fn update(
        &mut self,
        at: Place,
        len: usize,
        _width: usize,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) {
        let is_exposed = |purpose| purpose == Purpose::Exposed;
        self.check(at.buf, at.offset, len as u64, is_exposed);
        change(&mut vec![0; len]);
    }

    fn crc32c(&self, crc: u32, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(crc, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn breaches(mut ledger: Ledger, to: Place, len: usize) -> bool {
        catch_unwind(AssertUnwindSafe(|| ledger.place(to, &vec![0; len]))).is_err()
    }

    #[test]
    fn every_breach_is_seen() {
        let lent = |purpose| {
            let mut ledger = Ledger::default();
            let buf = ledger.lend(purpose, 10);
            ledger.posted(buf, Some(ReqId(1)));
            (ledger, Place { buf, offset: 4 })
        };
        let (ledger, place) = lent(Purpose::Receive);
        assert!(!breaches(ledger, place, 6));
        let (ledger, place) = lent(Purpose::Receive);
        assert!(breaches(ledger, place, 7), "beyond the end");
        let (ledger, place) = lent(Purpose::Send);
        assert!(breaches(ledger, place, 1), "into a send");
        let (mut ledger, place) = lent(Purpose::Receive);
        ledger.cancelled(place.buf);
        assert!(breaches(ledger, place, 1), "after cancel");
    }
}
