//! May a message leave, and whose is a frame that came: rules that the general ways ask, and the quick ones.
//!
//! PROTOCOL §5.1, §7.4, §7.5. Each rule stands once, here or in `delivery`, and is inlined where a quick way calls it.

use crate::base::types::Locator;
use crate::delivery::credit::{Credit, eager_cost};
use crate::delivery::path::Path;
use crate::peers::Peers;
use crate::peers::rows::{Phase, Row, row_of_id};
use crate::wire::Header;

impl Row {
    /// The peer refused this message or one before it: it stays here until it is recalled or asked for (PROTOCOL §7.5).
    #[inline(always)]
    pub(crate) fn holds_back(&self, message: u64) -> bool {
        message >= self.numbers.held_from
    }

    /// What a message costs of the peer's credit, if the peer has room for it and did not refuse it.
    #[inline(always)]
    pub(crate) fn cost_of(&self, message: u64, len: u32, credit: Credit) -> Option<u64> {
        let cost = eager_cost(len);
        (credit.allows(cost) && !self.holds_back(message)).then_some(cost)
    }

    /// Whether a frame with this header is of the living association. A row keeps no version that we do not speak.
    #[inline(always)]
    pub(crate) fn is_of(&self, header: &Header) -> bool {
        self.local_id == header.to && self.phase == Phase::Joined && self.version == header.form
    }
}

impl Peers {
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
        let packet = path.received.expand(header.packet as u32);
        path.comes_from(link, from).then_some((this, path, packet))
    }
}
