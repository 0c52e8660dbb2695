//! May a message leave, and whose is a frame that came: rules that the general ways ask, and the quick ones.
//!
//! PROTOCOL §5.1, §7.4, §7.5. Each rule stands once, here or in `delivery`, and is inlined where a quick way calls it.

use crate::base::types::{Instant, Locator};
use crate::delivery::credit::{Credit, eager_cost};
use crate::delivery::path::Path;
use crate::peers::Peers;
use crate::peers::rows::{Phase, Row, row_of_id};
use crate::wire::Header;

impl Row {
    /// It is this message's turn, it is not refused, and no other message of the peer is under way: nobody has to ask for more.
    #[inline(always)]
    pub(crate) fn is_next(&self, message: u32) -> bool {
        self.numbers.is_next(message) && !self.ties.has_numbered()
    }

    /// A refusal or a recall is to be sent: its order.
    pub(crate) fn order_turn(&mut self) -> u16 {
        self.turn_sent = self.turn_sent.wrapping_add(1);
        self.turn_sent
    }

    /// The order of the newest refusal or recall that was sent.
    pub(crate) fn turn_order(&self) -> u16 {
        self.turn_sent
    }

    /// The peer refuses or recalls: how many words on that matter it has said since the last that was heard. 0: this one is older.
    pub(crate) fn hear_turn(&mut self, order: u16) -> u16 {
        let since = order.wrapping_sub(self.turn_heard);
        if (since as i16) <= 0 {
            return 0;
        }
        self.turn_heard = order;
        since
    }

    /// So far in both directions, for tests of what happens there.
    #[cfg(test)]
    pub(crate) fn move_turns_to(&mut self, order: u16) {
        (self.turn_sent, self.turn_heard) = (order, order);
    }

    /// What a message costs of the peer's credit, if the peer has room for it and did not refuse it.
    #[inline(always)]
    pub(crate) fn cost_of(&self, message: u64, len: u32, credit: Credit) -> Option<u64> {
        let cost = eager_cost(len);
        (credit.allows(cost) && !self.numbers.holds_back(message)).then_some(cost)
    }

    /// Whether a frame with this header is of the living association. A row keeps no version that we do not speak.
    #[inline(always)]
    pub(crate) fn is_of(&self, header: &Header) -> bool {
        self.local_id == header.to && self.phase == Phase::Joined && self.version == header.form
    }
}

impl Peers {
    /// The row of a frame without a number that came on `link` from `from`: its association lives, and there is where its peer's frames of this path
    /// come from. `None` also where others could write to the link.
    #[inline(always)]
    pub(crate) fn giver_of(&self, link: u8, from: &Locator, header: &Header) -> Option<u32> {
        let row = row_of_id(header.to);
        let this = self.rows.get_any(row).filter(|this| this.is_of(header))?;
        let path = self.actives.get(this.active)?.paths.get(usize::from(header.path))?;
        (self.links.is_private(link) && path.comes_from(link, from)).then_some(row)
    }

    /// A peer is refused: so much room is needed before a recall makes sense.
    pub(crate) fn note_need(&mut self, row: u32, need: u64) {
        let active = self.activate(row);
        self.actives[active].refused_need = need;
    }

    /// The room that a refused peer needs.
    pub(crate) fn need_of(&mut self, row: u32) -> u64 {
        let active = self.activate(row);
        self.actives[active].refused_need
    }

    /// A frame of this row's peer came that only a peer can send who has joined.
    #[inline(always)]
    pub(crate) fn note_heard(&mut self, now: Instant, row: u32) {
        let this = &mut self.rows[row];
        this.on_heard(now);
        self.actives[this.active].welcome = false;
    }

    /// Such a frame states a sum of its body, or does not.
    pub(crate) fn note_checked(&mut self, row: u32, is_checked: bool) {
        let active = self.active_of_mut(row);
        active.welcome = false;
        active.is_checked = Some(is_checked);
    }

    /// The row and the path of a numbered frame that came on `link` from `from`, and the whole number of its packet. Nothing is verified yet. `None` if its
    /// association does not live or rests, or the path's frames come from elsewhere.
    #[inline(always)]
    pub(crate) fn path_of(
        &self,
        header: &Header,
        link: u8,
        from: &Locator,
    ) -> Option<(&Row, &Path, u64)> {
        let this = self.rows.get(row_of_id(header.to)).filter(|this| this.is_of(header))?;
        let path = self.actives.get(this.active)?.paths.get(usize::from(header.path))?;
        let packet = path.received().expand(header.packet as u32);
        path.comes_from(link, from).then_some((this, path, packet))
    }
}
