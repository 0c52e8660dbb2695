//! Which seal a frame bears: of those to us, and of those to a peer.
//!
//! The only place that knows which kinds of seal there are. Whoever opens or seals frames takes what is handed out here, and sees the trait alone.

use crate::base::secret::Secret;
use crate::delivery::path::Path;
use crate::peers::Peers;
use crate::peers::rows::Row;
use crate::seal::{Keyed, Pass, Proof, Seal, TrainChecks};

impl Peers {
    /// The seal of frames to us.
    #[inline(always)]
    pub(crate) fn own_seal(&self) -> impl Seal {
        Keyed { secret: &self.secret, checks: self.train_checks }
    }

    /// What small messages to us may bear instead, by links that only their two ends can write to (PROTOCOL §14.6).
    #[inline(always)]
    pub(crate) fn own_pass(&self) -> &Pass {
        &self.pass
    }

    /// The seal of a frame to us that says it is a stranger's, or does not: strangers have the public key, if we are open to them.
    #[inline(always)]
    pub(crate) fn seal_of_form(&self, is_strangers: bool) -> impl Seal {
        let is_public = is_strangers && self.settings.open_to_strangers;
        if is_public { Secret::PUBLIC } else { self.secret }
    }

    /// The seal of a train to this peer.
    #[inline(always)]
    pub(crate) fn train_seal(&self, to: &Row) -> impl Seal {
        Keyed { secret: &to.secret, checks: self.train_checks }
    }

    /// The marks of trains are computed by this function from now on.
    pub(crate) fn set_train_checks(&mut self, checks: TrainChecks) {
        self.train_checks = checks;
    }
}

impl Row {
    /// The seal of a numbered frame with one message to this peer, by this path.
    #[inline(always)]
    pub(crate) fn seal(&self, path: &Path) -> impl Seal {
        match path.pass() {
            0 => Proof::Keyed(&self.secret),
            pass => Proof::Passed(Pass(pass), &self.secret),
        }
    }

    /// The seal of a message that is given to the link of this path, which has a pass.
    #[inline(always)]
    pub(crate) fn seal_of_given(path: &Path) -> impl Seal {
        Pass(path.pass())
    }
}
