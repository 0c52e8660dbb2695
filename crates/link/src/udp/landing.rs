//! Where the bytes of a datagram went, and getting those back that went wrong.
//!
//! ```text
//!   datagram   H P P P H P P P H P P P H P P P H P        five frames, the last short
//!   slot       H place H place H place [spill …           three were expected
//!   shown as   ├── landed: 3 heads ──┤ ├ plain: 2 frames
//! ```
//!
//! What is wrong is put together in front of the spill, so that it and the spill are one range. Everything is found by
//! name in the table, not by pointer: between a receive and a lift the memory may have been given back.

use std::ops::Range;

use crate::mem::Table;
use crate::sys::inbox::{Datagram, Expected, Inbox};
use crate::{Arrived, Landed, Landing, Locator};

/// Which frames of a datagram lie where they were expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fit {
    /// Frames from the first on.
    count: usize,
    /// Payload of the last of them.
    last_len: usize,
}

impl Fit {
    fn of(datagram: &Datagram, expected: &Expected, landing: &Landing) -> Self {
        const NONE: Fit = Fit { count: 0, last_len: 0 };
        let (head_len, payload_len) = (landing.head_len, landing.payload_len);
        let frame_len = head_len + payload_len;
        let is_alike = match datagram.segment_len {
            Some(len) => len == frame_len,
            None => datagram.len <= frame_len,
        };
        if !is_alike || expected.count == 0 || datagram.len == 0 {
            return NONE;
        }
        let frame_count = datagram.len.div_ceil(frame_len);
        let count = frame_count.min(expected.count);
        let is_last_here = count == frame_count;
        let last_frame_len = datagram.len - (frame_count - 1) * frame_len;
        let last_len = match is_last_here {
            true => last_frame_len.saturating_sub(head_len),
            false => payload_len,
        };
        let place_len = if count == expected.count { expected.last_len } else { payload_len };
        if last_len > 0 && last_len <= place_len {
            return Self { count, last_len };
        }
        // The last one has no payload, or more than its place: it is shown whole, those before it fit.
        if count == 1 { NONE } else { Self { count: count - 1, last_len: payload_len } }
    }
}

/// Frames to show.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    from: Locator,
    slot: usize,
    stride: usize,
    landed: Option<Landed>,
    /// Where heads of landed frames are.
    heads_at: usize,
    /// Where whole frames are, in the room of the slots.
    whole: Range<usize>,
    /// Where copies of the heads are, right before the whole frames, if there are both.
    copies_at: Option<usize>,
}

impl Arrival {
    pub(super) fn plain(from: Locator, slot: usize, whole: Range<usize>, stride: usize) -> Self {
        let stride = stride.max(1);
        Self { from, slot, stride, landed: None, heads_at: 0, whole, copies_at: None }
    }

    pub(super) fn show<'a>(&self, inbox: &'a Inbox) -> Arrived<'a> {
        let bytes = match (self.landed, self.copies_at) {
            (None, _) => inbox.room(self.whole.clone()),
            (Some(_), Some(at)) => inbox.room(at..self.whole.end),
            (Some(landed), None) => {
                inbox.heads(self.heads_at..self.heads_at + landed.count * self.stride)
            }
        };
        Arrived { from: self.from, bytes, stride: self.stride, landed: self.landed }
    }
}

/// Bytes of payload.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sorted {
    /// That are where they were expected.
    pub(super) landed_len: usize,
    /// That were moved out of the application's memory.
    pub(super) lifted_len: usize,
}

/// Shows a datagram as arrivals.
pub(super) fn sort_out(
    slot: usize,
    datagram: &Datagram,
    from: Locator,
    landing: &Landing,
    inbox: &mut Inbox,
    memory: &Table,
    arrivals: &mut Vec<Arrival>,
) -> Sorted {
    let expected = inbox.expected(slot);
    let fit = Fit::of(datagram, &expected, landing);
    let spill_at = Inbox::spill_of(slot).start;
    if fit.count > 0 {
        arrivals.push(Arrival {
            from,
            slot,
            stride: landing.head_len,
            landed: Some(Landed {
                offset: expected.offset,
                count: fit.count,
                last_len: fit.last_len,
            }),
            heads_at: expected.heads_at,
            whole: spill_at..spill_at,
            copies_at: None,
        });
    }
    let frame_len = landing.head_len + landing.payload_len;
    let start = match fit.count {
        0 => 0,
        count => (count - 1) * frame_len + landing.head_len + fit.last_len,
    };
    let landed_len = start - fit.count * landing.head_len;
    if start == datagram.len {
        return Sorted { landed_len, lifted_len: 0 };
    }
    let expected_len = (expected.count - 1) * frame_len + landing.head_len + expected.last_len;
    let wrong_end = datagram.len.min(expected_len);
    let whole = spill_at - (wrong_end - start)..spill_at + (datagram.len - wrong_end);
    let lifted_len = gather(start..wrong_end, &expected, landing, inbox, memory, whole.start);
    let stride = datagram.segment_len.unwrap_or(datagram.len);
    if fit.count > 0
        && let Some(landed) = arrivals.last_mut()
    {
        landed.whole = whole.start..whole.start; // a later lift goes below
    }
    arrivals.push(Arrival::plain(from, slot, whole, stride));
    Sorted { landed_len, lifted_len }
}

/// Copies a range of the bytes expected in a slot to `to` in the room; how many of them were payload.
fn gather(
    range: Range<usize>,
    expected: &Expected,
    landing: &Landing,
    inbox: &mut Inbox,
    memory: &Table,
    to: usize,
) -> usize {
    let (head_len, payload_len) = (landing.head_len, landing.payload_len);
    let frame_len = head_len + payload_len;
    let (mut at, mut lifted_len) = (range.start, 0);
    while at < range.end {
        let (frame, inner) = (at / frame_len, at % frame_len);
        let until = match inner < head_len {
            true => frame * frame_len + head_len,
            false => (frame + 1) * frame_len,
        };
        let len = until.min(range.end) - at;
        let here = to + (at - range.start);
        if inner < head_len {
            let head_at = expected.heads_at + frame * head_len + inner;
            let (room, head) = inbox.room_and_heads(here..here + len, head_at..head_at + len);
            room.copy_from_slice(head);
        } else {
            let offset = expected.offset + (frame * payload_len + inner - head_len) as u64;
            let (room, _) = inbox.room_and_heads(here..here + len, 0..0);
            if !memory.copy_to(landing.id, offset, room) {
                room.fill(0); // given back meanwhile: the check of the frame, or nobody, will miss it
            }
            lifted_len += len;
        }
        at += len;
    }
    lifted_len
}

/// Moves the payload of landed frames from number `first` on; how many bytes that were.
pub(super) fn lift(
    arrival: &mut Arrival,
    first: usize,
    landing: &Landing,
    inbox: &mut Inbox,
    memory: &Table,
) -> usize {
    let Some(landed) = arrival.landed.filter(|landed| first < landed.count) else { return 0 };
    let frame_len = landing.head_len + landing.payload_len;
    let end = (landed.count - 1) * frame_len + landing.head_len + landed.last_len;
    let start = first * frame_len;
    let to = arrival.whole.start - (end - start);
    let expected = inbox.expected(arrival.slot);
    let lifted_len = gather(start..end, &expected, landing, inbox, memory, to);
    arrival.whole.start = to;
    if first == 0 {
        (arrival.landed, arrival.copies_at) = (None, None);
        arrival.stride = frame_len.min(arrival.whole.len());
        return lifted_len;
    }
    let heads_len = first * landing.head_len;
    let (at, from) = (to - heads_len, arrival.heads_at);
    let (room, heads) = inbox.room_and_heads(at..to, from..from + heads_len);
    room.copy_from_slice(heads);
    arrival.copies_at = Some(at);
    arrival.landed = Some(Landed { count: first, last_len: landing.payload_len, ..landed });
    lifted_len
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::MemoryId;
    use crate::sys::name::Name;

    fn fit(
        len: usize,
        segment_len: Option<usize>,
        count: usize,
        last_len: usize,
    ) -> (usize, usize) {
        let landing =
            Landing { id: MemoryId(0), offset: 0, len: 1 << 20, head_len: 40, payload_len: 1000 };
        let datagram = Datagram { from: Name::ROOM, len, segment_len, dropped: None };
        let mut expected = Expected::default();
        (expected.count, expected.last_len) = (count, last_len);
        let fit = Fit::of(&datagram, &expected, &landing);
        (fit.count, fit.last_len)
    }

    #[test]
    fn frames_fit_as_far_as_they_are_alike() {
        assert_eq!(fit(1040, None, 8, 1000), (1, 1000));
        assert_eq!(fit(3 * 1040, Some(1040), 8, 1000), (3, 1000));
        assert_eq!(fit(2 * 1040 + 41, Some(1040), 8, 1000), (3, 1), "a short last one");
        assert_eq!(fit(9 * 1040, Some(1040), 8, 1000), (8, 1000), "one more than expected");
        assert_eq!(fit(8 * 1040, Some(1040), 8, 999), (7, 1000), "the last place is shorter");
        assert_eq!(fit(7 * 1040 + 40 + 999, Some(1040), 8, 999), (8, 999), "and is filled");
        assert_eq!(fit(2 * 1040 + 40, Some(1040), 8, 1000), (2, 1000), "a head without payload");
        assert_eq!(fit(2 * 1040 + 7, Some(1040), 8, 1000), (2, 1000), "less than a head");
    }

    #[test]
    fn other_frames_do_not_fit() {
        assert_eq!(fit(1041, None, 8, 1000), (0, 0));
        assert_eq!(fit(3 * 1041, Some(1041), 8, 1000), (0, 0));
        assert_eq!(fit(40, None, 8, 1000), (0, 0));
        assert_eq!(fit(7, None, 8, 1000), (0, 0));
        assert_eq!(fit(1040, None, 1, 999), (0, 0));
        assert_eq!(fit(1040, None, 0, 0), (0, 0));
    }
}
