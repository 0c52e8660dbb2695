//! What is in flight on a path (PROTOCOL §5.1, §6.2): the packets that elicit acks, and what each of them carried.
//!
//! ```text
//! packets   | 7 a | 8 b | 11 d | 12 e | 13 g |     numbers ascend; 9 and 10 were only Acks and are not kept
//!                   |____      |____    \
//!                        v          v    v
//! more                 | c        | f  |           a packet has its first content itself, most have no other
//! ```
//!
//! The packets of a train (PROTOCOL §10.1) are one entry, a *run*: numbers that follow each other, equal frames but for
//! the last, one range of one message. It is cut where an Ack or a loss ends within it, which is rare.
//!
//! Both are rings, emptied at the front by acks and losses, which mostly concern the oldest. A packet that is settled
//! in the middle keeps its place, marked, until it gets to the front. The front is always outstanding: an Ack that
//! repeats what is known is dismissed with one comparison, and the next packet to be lost is at hand.

use crate::base::ring::Ring;
use crate::base::types::Instant;
use crate::delivery::content::Content;

/// A packet is lost when one sent this many numbers later is acknowledged (PROTOCOL §6.2).
const REORDER_COUNT: u64 = 3;

/// An Ack of a packet that was never sent: it is no honest peer's, nothing of it is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forged;

/// A listener that is told which contents are settled. Any closure will do; a type of its own can insist on being inlined.
pub(crate) trait Hear {
    fn hear(&mut self, content: Content);
}

impl<F: FnMut(Content)> Hear for F {
    #[inline(always)]
    fn hear(&mut self, content: Content) {
        self(content);
    }
}

/// What an Ack settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Bytes that left the flight.
    pub(crate) bytes: u64,
    /// Packets newly acknowledged.
    pub(crate) count: u32,
    /// Number and time of sending of the largest packet the Ack speaks of, if that is newly acknowledged: only then a
    /// round trip can be measured (PROTOCOL §6.1).
    pub(crate) largest_newly: Option<(u64, Instant)>,
    /// The longest frame newly acknowledged.
    pub(crate) frame_len_max: u16,
}

/// Packets that an Ack settled, by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// What is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Bytes that left the flight.
    pub(crate) bytes: u64,
    /// Packets lost.
    pub(crate) count: u32,
    /// The longest frame lost.
    pub(crate) frame_len_max: u16,
    /// When the newest of the lost packets was sent.
    pub(crate) newest_sent_at: Instant,
    /// Packets of about one round trip, lost ones included: those settled since the oldest lost one was sent, or
    /// those in flight until now, whichever are more. The first fails at the start of a burst (few are settled yet),
    /// the second at its end (few are left).
    pub(crate) round_count: u32,
}

/// A packet that elicits an ack, or a run of them.
#[derive(Clone, Copy, Debug)]
struct Packet {
    /// Of a run: the first.
    number: u64,
    sent_at: Instant,
    /// What it carried, or the first of that.
    content: Content,
    /// Position of its further contents.
    more_start: u32,
    /// `Flight::settled_count` when it was sent.
    settled_count: u32,
    more_count: u16,
    /// Of a run: of each but the last, whose length follows from the content's.
    frame_len: u16,
    /// Packets: one, or those of a run. 0: acked, lost or void.
    count: u16,
    /// Of a run: bytes of each frame before its payload.
    head_len: u16,
}

impl Packet {
    const NONE: Self = Self {
        number: 0,
        sent_at: Instant::NEVER,
        content: Content::Void,
        more_start: 0,
        settled_count: 0,
        more_count: 0,
        frame_len: 0,
        count: 0,
        head_len: 0,
    };

    #[inline(always)]
    fn is_outstanding(&self) -> bool {
        self.count > 0
    }

    /// The number of its last packet, while outstanding.
    #[inline(always)]
    fn last(&self) -> u64 {
        self.number + u64::from(self.count) - 1
    }

    /// The frames' lengths.
    #[inline(always)]
    fn len(&self) -> u64 {
        if self.count > 1 { self.run_len() } else { u64::from(self.frame_len) }
    }

    fn run_len(&self) -> u64 {
        u64::from(self.content.run_len()) + u64::from(self.count) * u64::from(self.head_len)
    }

    /// Cuts a run: its first `count` packets, and the others.
    fn cut(&self, count: u16) -> (Self, Self) {
        let first_len = u32::from(count) * u32::from(self.frame_len - self.head_len);
        let (first, rest) = self.content.cut(first_len);
        let rest_count = self.count - count;
        let rest_len = rest.run_len() as u16; // if it is one frame
        let frame_len = if rest_count == 1 { self.head_len + rest_len } else { self.frame_len };
        let number = self.number + u64::from(count);
        (
            Self { count, content: first, ..*self },
            Self { number, count: rest_count, content: rest, frame_len, ..*self },
        )
    }
}

/// The packets in flight on one path.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    /// Ascending by number and by time; the front is outstanding. Behind the end, the packet being built: its first
    /// content is put where it will stay.
    packets: Ring<Packet>,
    /// All contents of packets but the first of each, in the order of the packets; at the back those of the packet
    /// being built.
    more: Ring<Content>,
    /// Contents of the packet being built; `heads_len` leaves room for 8191 (PROTOCOL §1.1).
    building_count: u16,
    /// Packets outstanding.
    packet_count: u32,
    /// Packets ever acked or lost, wrapping.
    settled_count: u32,
    bytes_in_flight: u64,
    next_packet: u64,
    /// 0: none yet.
    largest_acked: u64,
    last_sent_at: Instant,
}

impl Flight {
    /// Nothing in flight; the next packet has the number `next_packet`, at least 1.
    pub(crate) fn new(next_packet: u64) -> Self {
        Self {
            packets: Ring::new(),
            more: Ring::new(),
            building_count: 0,
            packet_count: 0,
            settled_count: 0,
            bytes_in_flight: 0,
            next_packet,
            largest_acked: 0,
            last_sent_at: Instant::NEVER,
        }
    }

    /// The number of the packet being built.
    pub(crate) fn next_packet(&self) -> u64 {
        self.next_packet
    }

    /// The frames' lengths of all packets outstanding.
    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Packets outstanding. Those that elicit no ack never are.
    #[cfg(test)]
    pub(crate) fn packet_count(&self) -> u32 {
        self.packet_count
    }

    /// Whether this packet is outstanding.
    pub(crate) fn holds(&self, packet: u64) -> bool {
        let mut at = self.packets.start;
        while at != self.packets.end {
            let of = self.packets.get(at);
            if (of.number..of.number + u64::from(of.count)).contains(&packet) {
                return true;
            }
            at = at.wrapping_add(1);
        }
        false
    }

    /// Whether no packet is outstanding.
    pub(crate) fn is_empty(&self) -> bool {
        self.packet_count == 0
    }

    /// When the newest ack-eliciting packet was sent; `NEVER` if nothing is outstanding. Probes count from here.
    #[cfg(test)]
    pub(crate) fn last_sent_at(&self) -> Instant {
        if self.is_empty() { Instant::NEVER } else { self.last_sent_at }
    }

    /// Whether any packet was acknowledged yet.
    pub(crate) fn has_acked(&self) -> bool {
        self.largest_acked > 0
    }

    /// When the oldest packet outstanding was sent; `NEVER` if there is none.
    pub(crate) fn oldest_sent_at(&self) -> Instant {
        self.packets.front().map_or(Instant::NEVER, |packet| packet.sent_at)
    }

    /// Something that must arrive goes into the packet being built.
    #[inline]
    pub(crate) fn add(&mut self, content: Content) {
        if self.building_count == 0 {
            self.packets.behind_end(&Packet::NONE).content = content;
        } else {
            *self.more.behind_end(&Content::Void) = content;
            self.more.end = self.more.end.wrapping_add(1);
        }
        self.building_count += 1;
    }

    /// Contents of the packet being built.
    pub(crate) fn building_count(&self) -> usize {
        usize::from(self.building_count)
    }

    /// Further contents of the packet being built.
    fn building_more_count(&self) -> u16 {
        self.building_count.saturating_sub(1)
    }

    /// Position of the first of them.
    fn building_more_start(&self) -> u32 {
        self.more.end.wrapping_sub(u32::from(self.building_more_count()))
    }

    /// The packet being built leaves, in a frame of `frame_len` bytes. Returns its number. Without contents it elicits
    /// no ack and nothing of it is kept.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Instant, frame_len: u16) -> u64 {
        let number = self.next_packet;
        self.next_packet += 1;
        if self.building_count == 0 {
            return number;
        }
        let (more_start, more_count) = (self.building_more_start(), self.building_more_count());
        let settled_count = self.settled_count;
        let packet = self.packets.get_mut(self.packets.end);
        // All but `content`, which is there since `add`.
        packet.number = number;
        packet.sent_at = now;
        packet.more_start = more_start;
        packet.settled_count = settled_count;
        packet.more_count = more_count;
        packet.frame_len = frame_len;
        packet.count = 1;
        self.packets.end = self.packets.end.wrapping_add(1);
        self.building_count = 0;
        self.packet_count += 1;
        self.bytes_in_flight += u64::from(frame_len);
        self.last_sent_at = now;
        number
    }

    /// A packet with one content leaves: `add` and `on_sent` in one.
    #[inline(always)]
    pub(crate) fn on_sent_one(&mut self, now: Instant, content: Content, frame_len: u16) {
        self.push_run(now, content, (0, frame_len), 1);
        self.next_packet += 1;
        self.packet_count += 1;
        self.bytes_in_flight += u64::from(frame_len);
    }

    /// A train leaves: `count` packets, at least one, whose frames have heads of `head_len` bytes and this length but for the last. The
    /// content is all they carried.
    pub(crate) fn on_sent_run(
        &mut self,
        now: Instant,
        content: Content,
        (head_len, frame_len): (u16, u16),
        count: u16,
    ) {
        let at = self.packets.end;
        self.push_run(now, content, (head_len, frame_len), count);
        self.next_packet += u64::from(count);
        self.packet_count += u32::from(count);
        self.bytes_in_flight += self.packets.get(at).len();
    }

    #[inline(always)]
    fn push_run(
        &mut self,
        now: Instant,
        content: Content,
        (head_len, frame_len): (u16, u16),
        count: u16,
    ) {
        debug_assert!(self.building_count == 0, "another packet is being built");
        let packet = Packet {
            number: self.next_packet,
            sent_at: now,
            content,
            more_start: self.more.end,
            settled_count: self.settled_count,
            more_count: 0,
            frame_len,
            count,
            head_len,
        };
        self.packets.push_back(packet);
        self.last_sent_at = now;
    }

    /// Cuts the run at a position so that its other part, behind it now, begins with this packet.
    #[cold]
    #[inline(never)]
    fn split(&mut self, at: u32, number: u64) {
        let run = *self.packets.get(at);
        let (first, rest) = run.cut((number - run.number) as u16);
        // Behind the end stands the first content of the packet being built.
        let building =
            (self.building_count > 0).then(|| self.packets.get(self.packets.end).content);
        *self.packets.get_mut(at) = first;
        self.packets.insert(at.wrapping_add(1), rest);
        if let Some(content) = building {
            self.packets.behind_end(&Packet::NONE).content = content;
        }
    }

    /// An Ack arrived: `ranges` are (first, last), descending, so the first of them has the largest number. The
    /// contents of newly acknowledged packets go to `acked`.
    ///
    /// A range is walked over as far as it is above the oldest packet outstanding. That it is not walked over again
    /// with each Ack is the doing of `detect_lost`, which soon ends the wait for what is before it.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        mut ranges: impl Iterator<Item = (u64, u64)>,
        acked: &mut impl Hear,
    ) -> Result<Acked, Forged> {
        let mut sum = Acked::default();
        let Some(newest) = ranges.next() else { return Ok(sum) };
        let largest = newest.1;
        if largest >= self.next_packet {
            return Err(Forged);
        }
        self.largest_acked = self.largest_acked.max(largest);
        let mut range = Some(newest);
        while let Some((first, last)) = range {
            let Some(front) = self.packets.front() else { break };
            if last < front.number {
                break; // told before, and so are all further ranges
            }
            if first <= front.number {
                self.ack_front(last, largest, &mut sum, acked);
            } else {
                self.ack_middle((first, last), largest, &mut sum, acked);
            }
            range = ranges.next();
        }
        self.packet_count -= sum.count;
        self.bytes_in_flight -= sum.bytes;
        self.settled_count = self.settled_count.wrapping_add(sum.count);
        Ok(sum)
    }

    /// Whether one packet with one content is in flight and this range has it.
    #[inline(always)]
    pub(crate) fn has_only(&self, first: u64, last: u64) -> bool {
        let Ring { start, end, .. } = self.packets;
        if end.wrapping_sub(start) != 1 || last >= self.next_packet {
            return false;
        }
        let packet = self.packets.get(start);
        (first..=last).contains(&packet.number) && packet.more_count == 0 && packet.count == 1
    }

    /// Its content.
    #[inline(always)]
    pub(crate) fn only_content(&self) -> Option<Content> {
        self.packets.front().map(|packet| packet.content)
    }

    /// It is acknowledged by an Ack up to `last`.
    #[inline(always)]
    pub(crate) fn take_only(&mut self, last: u64) -> Acked {
        let packet = self.packets.get(self.packets.start);
        let acked = Acked {
            bytes: self.bytes_in_flight,
            count: 1,
            largest_newly: (packet.number == last).then_some((last, packet.sent_at)),
            frame_len_max: packet.frame_len,
        };
        self.packets.start = self.packets.end;
        self.packet_count = 0;
        self.bytes_in_flight = 0;
        self.settled_count = self.settled_count.wrapping_add(1);
        self.largest_acked = self.largest_acked.max(last);
        acked
    }

    /// Takes an Ack of one range that begins at the front or before it: the usual one. Where the contents stand is
    /// returned instead, for `content` and `more`: they leave the flight but keep their places until the next packet is
    /// added. `None`, and nothing changed, if the Ack is not like that.
    #[inline(always)]
    pub(crate) fn on_ack_of_front(&mut self, first: u64, last: u64) -> Option<(Acked, Run)> {
        let Ring { start, end, .. } = self.packets;
        if last >= self.next_packet || start == end || first > self.packets.get(start).number {
            return None;
        }
        let mut sum = Acked::default();
        let mut at = start;
        while at != end {
            let packet = self.packets.get(at);
            if packet.is_outstanding() {
                if packet.number > last {
                    break;
                }
                match packet.count {
                    1 => sum.add_one(packet, last),
                    _ if packet.last() > last => return None, // a train must be cut
                    _ => sum.add(packet, last),
                }
            }
            at = at.wrapping_add(1);
        }
        self.largest_acked = self.largest_acked.max(last);
        self.packets.start = at;
        self.drop_more();
        self.packet_count -= sum.count;
        self.bytes_in_flight -= sum.bytes;
        self.settled_count = self.settled_count.wrapping_add(sum.count);
        Some((sum, Run { start, end: at }))
    }

    /// The first content of a packet of a run, and where its others stand; nothing if it was settled before.
    #[inline(always)]
    pub(crate) fn content(&self, at: u32) -> (&Content, u32, u16) {
        let packet = self.packets.get(at);
        match packet.is_outstanding() {
            true => (&packet.content, packet.more_start, packet.more_count),
            false => (&Content::Void, 0, 0),
        }
    }

    /// A further content of a packet of a run.
    #[inline(always)]
    pub(crate) fn more(&self, at: u32) -> &Content {
        self.more.get(at)
    }

    /// Packets from the front up to `last` are acknowledged: the usual Ack. They leave the ring as they are settled.
    #[inline(always)]
    fn ack_front(&mut self, last: u64, largest: u64, sum: &mut Acked, acked: &mut impl Hear) {
        let Ring { mut start, end, .. } = self.packets;
        while start != end {
            let packet = self.packets.get(start);
            // Those before the next outstanding one leave too, so that the front is outstanding again.
            if packet.is_outstanding() {
                if packet.number > last {
                    break;
                }
                if packet.count > 1 {
                    self.ack_run(start, last, largest, sum, acked);
                } else {
                    sum.add_one(packet, largest);
                    self.hand_over(packet, acked);
                }
            }
            start = start.wrapping_add(1);
        }
        self.packets.start = start;
        self.drop_more();
    }

    /// The packets of a run up to `last` are acknowledged. Apart: a lone packet needs none of it.
    #[inline(never)]
    fn ack_run(
        &mut self,
        at: u32,
        last: u64,
        largest: u64,
        sum: &mut Acked,
        acked: &mut impl Hear,
    ) {
        if self.packets.get(at).last() > last {
            self.split(at, last + 1);
        }
        let packet = self.packets.get(at);
        sum.add(packet, largest);
        self.hand_over(packet, acked);
    }

    /// Packets behind the front are acknowledged; they keep their places until it leaves.
    #[inline(never)]
    fn ack_middle(
        &mut self,
        (first, last): (u64, u64),
        largest: u64,
        sum: &mut Acked,
        acked: &mut impl Hear,
    ) {
        let mut at = self.position(first);
        let before = at.wrapping_sub(1);
        if at != self.packets.start
            && self.packets.get(before).is_outstanding()
            && self.packets.get(before).last() >= first
        {
            self.split(before, first);
        }
        while at != self.packets.end && self.packets.get(at).number <= last {
            if self.packets.get(at).is_outstanding() {
                if self.packets.get(at).last() > last {
                    self.split(at, last + 1);
                }
                let packet = *self.packets.get(at);
                self.packets.get_mut(at).count = 0;
                sum.add(&packet, largest);
                self.hand_over(&packet, acked);
            }
            at = at.wrapping_add(1);
        }
    }

    /// The position of the first packet with this number or a larger one.
    fn position(&self, number: u64) -> u32 {
        let Ring { start, end, .. } = self.packets;
        let (mut low, mut high) = (0, end.wrapping_sub(start));
        while low < high {
            let middle = low.midpoint(high);
            if self.packets.get(start.wrapping_add(middle)).number < number {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        start.wrapping_add(low)
    }

    /// The contents of a packet that is acked or lost go where the caller says.
    #[inline(always)]
    fn hand_over(&self, packet: &Packet, to: &mut impl Hear) {
        if !matches!(packet.content, Content::Void) {
            to.hear(packet.content);
        }
        if packet.more_count > 0 {
            self.hand_over_more(packet, to);
        }
    }

    /// Apart: few packets have more, and the loop over packets needs the registers.
    #[inline(never)]
    fn hand_over_more(&self, packet: &Packet, to: &mut impl Hear) {
        for n in 0..u32::from(packet.more_count) {
            let content = *self.more.get(packet.more_start.wrapping_add(n));
            if !matches!(content, Content::Void) {
                to.hear(content);
            }
        }
    }

    /// The front is lost.
    fn lose_front(&mut self, to: &mut impl Hear) -> Packet {
        let packet = *self.packets.get(self.packets.start);
        self.leave(self.packets.start, packet.len());
        self.settled_count = self.settled_count.wrapping_add(u32::from(packet.count));
        self.hand_over(&packet, to);
        self.drop_settled();
        packet
    }

    /// The packet, or a run whose frames have so many bytes, is outstanding no longer; `drop_settled` must follow.
    fn leave(&mut self, at: u32, len: u64) {
        let packet = self.packets.get_mut(at);
        self.packet_count -= u32::from(packet.count);
        self.bytes_in_flight -= len;
        packet.count = 0;
    }

    /// Makes the front outstanding again.
    fn drop_settled(&mut self) {
        while self.packets.front().is_some_and(|packet| !packet.is_outstanding()) {
            self.packets.start = self.packets.start.wrapping_add(1);
        }
        self.drop_more();
    }

    /// Further contents leave with their packets.
    #[inline(always)]
    fn drop_more(&mut self) {
        if self.more.start != self.more.end {
            self.more.start = match self.packets.front() {
                Some(packet) => packet.more_start,
                None => self.building_more_start(),
            };
        }
    }
}

impl Acked {
    /// A packet that is no run.
    #[inline(always)]
    fn add_one(&mut self, packet: &Packet, largest: u64) {
        self.bytes += u64::from(packet.frame_len);
        self.count += 1;
        self.frame_len_max = self.frame_len_max.max(packet.frame_len);
        if packet.number == largest {
            self.largest_newly = Some((largest, packet.sent_at));
        }
    }

    fn add(&mut self, packet: &Packet, largest: u64) {
        self.bytes += packet.len();
        self.count += u32::from(packet.count);
        self.frame_len_max = self.frame_len_max.max(packet.frame_len);
        // The largest number an Ack speaks of: whatever of a run is acked with it ends there.
        if packet.last() == largest {
            self.largest_newly = Some((largest, packet.sent_at));
        }
    }
}

mod loss;
#[cfg(test)]
mod tests;
