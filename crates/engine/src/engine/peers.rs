//! Peers, made known and forgotten; and what can be asked of an endpoint: its paths, links, counters and remarks.

use packhorse_proto::{Address, Identity, PathInfo, PeerError, PeerId};

use super::Engine;
use crate::pairs::{Asked, Rejected};

impl Engine {
    /// Makes a peer known.
    pub fn add_peer(&self, address: &Address) -> Result<PeerId, PeerError> {
        self.lock().core.endpoint().add_peer(address)
    }

    /// Who a peer is.
    pub fn identity_of(&self, peer: PeerId) -> Option<Identity> {
        self.lock().core.rules().identity_of(peer)
    }

    /// Where a peer said it is, in its address.
    pub fn first_locator_of(&self, peer: PeerId) -> Option<packhorse_proto::Locator> {
        self.lock().core.rules().first_locator_of(peer)
    }

    /// Whether this peer would fetch a message of this length from where it is, if it is lent and not copied.
    pub fn is_fetched(&self, peer: PeerId, len: u64) -> bool {
        self.lock().core.rules().is_fetched(peer, len)
    }

    /// Ends what there is with a peer and forgets it.
    pub fn forget_peer(&self, peer: PeerId) {
        let mut inner = self.lock_in_order();
        let now = self.now();
        inner.core.endpoint().forget_peer(now, peer);
        self.after_post(inner, now, false);
    }

    /// Shows all counters: the protocol's, the engine's, the links' (by the number of the link).
    pub fn each_counter(&self, mut show: impl FnMut(&str, u64)) {
        let mut inner = self.lock();
        inner.core.rules().counters().each().for_each(|(name, value)| show(name, value));
        inner.core.counters().each().for_each(|(name, value)| show(name, value));
        show("looks_of_helper", self.helper.look_count());
        let (held_len, envelope_count) = inner.core.rules().held();
        show("held_len", held_len);
        show("envelope_count", u64::from(envelope_count));
        show("requests_pending", inner.requests.pending_count() as u64);
        show("memory_lent", inner.core.memory().len() as u64);
        for (index, link) in inner.core.links().iter().enumerate() {
            let kind = link.about().kind;
            link.each_counter(&mut |name, value| show(&format!("{kind}{index}_{name}"), value));
        }
    }

    /// What a person should know, oldest first.
    pub fn remarks(&self) -> Vec<String> {
        self.lock().core.remarks().map(str::to_owned).collect()
    }

    /// The paths to a peer, and the pairs that are not tried.
    pub fn paths(&self, peer: PeerId) -> (Vec<PathInfo>, Vec<Rejected>) {
        let inner = self.lock();
        (inner.core.rules().paths(peer), inner.core.rejected(peer).copied().collect())
    }

    /// How first contact with a peer was tried last.
    pub fn asked(&self, peer: PeerId) -> Vec<Asked> {
        self.lock().core.asked(peer).copied().collect()
    }

    /// The links: what they say of themselves, and where they are.
    pub fn links(&self) -> Vec<(packhorse_link::About, packhorse_link::Locator)> {
        let mut inner = self.lock();
        inner.core.links().iter().map(|link| (link.about().clone(), link.locator())).collect()
    }

    /// What the links say of themselves.
    pub fn about_links(&self) -> Vec<packhorse_link::About> {
        self.lock().core.links().iter().map(|link| link.about().clone()).collect()
    }
}
