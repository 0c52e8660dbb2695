//! The links of this endpoint, as far as the protocol must know them: what the driver said of each.

use alloc::boxed::Box;

use crate::base::api::LinkTraits;

/// All links of an endpoint: one at least, eight at most.
#[derive(Debug)]
pub(crate) struct Links {
    traits: Box<[LinkTraits]>,
    /// A bit for each of those that only their two ends can write to.
    private: u64,
    /// How frames to oneself go, where they take no link.
    home: Option<LinkTraits>,
}

impl Links {
    /// So many, of which nothing else is known yet.
    pub(super) fn new(count: usize, traits: LinkTraits) -> Self {
        Self { traits: alloc::vec![traits; count].into_boxed_slice(), private: 0, home: None }
    }

    pub(crate) fn count(&self) -> usize {
        self.traits.len()
    }

    /// What is known of a link; `None` if there is no such link.
    pub(crate) fn get(&self, link: u8) -> Option<&LinkTraits> {
        self.traits.get(usize::from(link))
    }

    /// What is known of a link; of the first one, where nobody knows yet which it will be.
    #[inline]
    pub(crate) fn of(&self, link: u8) -> &LinkTraits {
        self.get(link).unwrap_or(&self.traits[0])
    }

    /// What is known of the way to oneself: that of the first link, unless the driver says that frames turn around before it.
    pub(super) fn home(&self) -> &LinkTraits {
        self.home.as_ref().unwrap_or(&self.traits[0])
    }

    /// Frames to oneself take no link, but go as the driver says.
    pub(super) fn set_home(&mut self, traits: LinkTraits) {
        self.home = Some(traits);
    }

    /// Only the two ends of this link can write to it.
    #[inline(always)]
    pub(crate) fn is_private(&self, link: u8) -> bool {
        self.private >> (link & 63) & 1 != 0
    }

    /// There is one that only its two ends can write to.
    pub(crate) fn has_private(&self) -> bool {
        self.private != 0
    }

    /// The driver says what a link is like.
    pub(super) fn set(&mut self, link: u8, traits: LinkTraits) {
        if let Some(own) = self.traits.get_mut(usize::from(link)) {
            *own = traits;
            let bit = 1 << (link & 63);
            self.private &= !bit;
            self.private |= if traits.is_private { bit } else { 0 };
        }
    }
}
