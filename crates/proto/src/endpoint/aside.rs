//! Frames put aside: they have arrived, but who turns the endpoint now may not work on them (PROTOCOL §5.6).
//!
//! A driver whose helper does only half of the work (the offload switches) takes all frames from the links and keeps those of
//! the other half for the application. The endpoint is told of them as they come, for three reasons:
//!
//! - *Nothing beyond them may be acknowledged* as long as they are not accepted: the peer would take them for lost, send them
//!   again, halve its window, and what it sends again would be put aside as well.
//! - *Their numbers are known to have come.* A path remembers only so many holes; of hundreds of frames that were not recorded it
//!   would take most for older than it knows.
//! - *What can be used at once is*: the Acks in them, so that nothing looks lost that was acknowledged. And where nothing can be
//!   refused, as of grants, the frame is acknowledged though it waits: data that is taken meanwhile could not be acknowledged
//!   either, and the peer's window would close behind a grant.

use alloc::vec::Vec;

use crate::base::api::Verdict;
use crate::base::types::{Instant, Locator, Memory};
use crate::endpoint::{Aside, Endpoint};
use crate::peers::acks::Urgency;
use crate::peers::rows::row_of_id;
use crate::wire::{FrameView, Lane, Record};

/// What becomes of a frame's records, as far as can be said before they are worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prospect {
    /// All will be accepted.
    Sure(Urgency),
    /// Something may be refused, and is not acknowledged then.
    Open,
}

impl Endpoint {
    /// A frame arrived that the driver wants to keep for later. True: it is to be handed in with `on_aside`, before `end_aside`.
    /// False: it is of a kind that cannot wait, or void; it is to be handed in at once, as any other.
    #[must_use]
    pub fn put_aside(&mut self, now: Instant, link: u8, from: &Locator, bytes: &[u8]) -> bool {
        if self.peers().is_closed() || self.peers().is_closing() {
            return false;
        }
        let Some(view) = self.open_aside(link, bytes) else { return false };
        self.peers_mut().expect_high(view.header.packet & 1 << 31 != 0); // as for a pass in `input`
        let Some(row) = self.row_of_aside(&view).filter(|_| view.validate().is_ok()) else {
            return false;
        };
        let (header, active) = (view.header, self.peers_mut().activate(row));
        let path_index = usize::from(header.path);
        let Some(path) = self.messages.bulk.peers.actives[active].paths.get_mut(path_index) else {
            return false;
        };
        let packet = path.received().expand(header.packet as u32);
        let is_known = path.can_answer(link, from);
        // What has no number was given to its link, and is taken as it comes.
        let is_numbered = header.packet != 0 && header.packet == packet;
        if !is_numbered || !is_known || !path.received().is_new(packet) {
            return false;
        }
        path.note_check(view.crc().is_some());
        self.messages.bulk.peers.rows[row].on_heard(now);
        match prospect(&view) {
            Prospect::Sure(answer) => {
                self.peers_mut().note_received(now, row, path_index, packet, 0, answer)
            }
            Prospect::Open => {
                path.put_aside(packet, now);
                let aside = Aside { local_id: header.to, path_index: header.path };
                if !self.aside.contains(&aside) {
                    self.aside.push(aside);
                }
            }
        }
        for (record, _) in view.records() {
            if let Record::Ack(ack) = record {
                self.on_ack(now, row, &ack);
            }
        }
        true
    }

    /// The living association of a frame that is put aside. Those of first contact are not: they are answered at once.
    fn row_of_aside(&self, view: &FrameView<'_>) -> Option<u32> {
        let row = row_of_id(view.header.to);
        let this = self.peers().rows.get(row)?;
        let is_version = view.header.version() == this.version();
        (is_version && this.is_joined_as(view.header.to)).then_some(row)
    }

    /// A frame that was put aside is worked on now. In the order in which they came; when all are, `end_aside`.
    pub fn on_aside(&mut self, now: Instant, link: u8, bytes: &[u8], memory: &mut impl Memory) {
        let Some(view) = self.open_aside(link, bytes) else { return };
        if self.messages.has_orphans() {
            self.messages.deliver_orphans(now, memory);
        }
        // Its association may have ended meanwhile, and with it what the frame speaks of.
        let Some(row) = self.row_of_aside(&view) else { return };
        if let Some(crc) = view.crc()
            && memory.crc32c(0, view.body) != crc
        {
            self.peers_mut().counters.frames_damaged += 1;
            return self.reject_aside(row, &view);
        }
        self.peers_mut().counters.frames_in += 1;
        self.peers_mut().activate(row);
        self.peers_mut().note_checked(row, view.crc().is_some());
        let (verdict, ..) = self.on_records(now, (row, link), &view, true, memory);
        if verdict == Verdict::Refused {
            self.reject_aside(row, &view);
        }
        if self.peers().is_closing() {
            self.tend_closing_row(now, row);
        }
    }

    fn open_aside<'a>(&self, link: u8, bytes: &'a [u8]) -> Option<FrameView<'a>> {
        let base = self.peers().base_of(bytes);
        let passed = match self.peers().links.is_private(link) {
            true => FrameView::open_passed(*self.peers().own_pass(), base, bytes),
            false => None,
        };
        let view =
            passed.or_else(|| FrameView::open_high(&self.peers().own_seal(), base, bytes).ok());
        view.filter(|_| !self.peers().is_closed())
    }

    /// A frame that was put aside is not accepted: it counts as not received.
    fn reject_aside(&mut self, row: u32, view: &FrameView<'_>) {
        let peers = self.peers_mut();
        let this = &peers.rows[row];
        if this.association() != view.header.to {
            return; // it ended the association itself
        }
        let Some(active) = peers.actives.of_mut(this) else { return };
        if let Some(path) = active.paths.get_mut(usize::from(view.header.path)) {
            path.reject_aside(view.header.packet);
        }
    }

    /// All that was put aside was worked on: it may be acknowledged.
    pub fn end_aside(&mut self) {
        let mut aside: Vec<Aside> = core::mem::take(&mut self.aside);
        for Aside { local_id, path_index } in aside.drain(..) {
            let row = row_of_id(local_id);
            let peers = &mut self.messages.bulk.peers;
            let this = peers.rows.get(row).filter(|this| this.association() == local_id);
            let Some(active) = this.and_then(|this| peers.actives.of_mut(this)) else { continue };
            let Some(path) = active.paths.get_mut(usize::from(path_index)) else { continue };
            path.end_aside();
            peers.make_ready(row);
        }
        self.aside = aside; // its memory is used again
    }
}

/// Whether all of a frame will be accepted, whatever happens before it is worked on. Not if it is damaged, and that is not
/// known: whoever sums bodies is told nothing before.
fn prospect(view: &FrameView<'_>) -> Prospect {
    let mut answer = Urgency::None;
    for (record, body) in view.records() {
        match record {
            Record::Ack(_) | Record::Pad | Record::Check { .. } if body.is_empty() => {}
            Record::Grant { lane: Lane::Message, .. }
            | Record::Done { .. }
            | Record::Refuse { .. }
            | Record::Recall { .. }
            | Record::Query { .. } => answer = Urgency::Soon,
            _ => return Prospect::Open,
        }
    }
    Prospect::Sure(answer)
}
