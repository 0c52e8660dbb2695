//! Exposed memory under the lock: what peers did with it is told, and it is withdrawn.

use packhorse_link::mem::Memory;
use packhorse_proto::{Instant, RegionId};

use super::Inner;
use crate::entry::Kind;
use crate::regions::{WRITTEN_COUNT_MAX, Written};

impl Inner {
    /// Peers may use memory that is exposed here.
    pub(crate) fn has_regions(&self) -> bool {
        !self.regions.regions.is_empty()
    }

    pub(crate) fn on_written(&mut self, region: RegionId, written: Written, now: Instant) {
        self.on_used(region, Kind::Written);
        let Some(this) = self.regions.regions.get_mut(&region) else { return };
        if let Some(notify) = this.notify {
            return self.tell_written(&notify, &written, now);
        }
        this.written.push_back(written);
        self.has_news = true;
        if this.written.len() >= WRITTEN_COUNT_MAX {
            self.set_notices_held(true);
        }
    }

    /// A peer did something with a region, of which nobody is told but who watches it.
    pub(crate) fn on_used(&mut self, region: RegionId, kind: Kind) {
        let this = self.regions.regions.get(&region);
        if let Some(watcher) = this.and_then(|this| this.watcher.as_ref()) {
            (watcher.0)(kind);
            self.regions.used_count += 1;
            self.has_news = true;
        }
    }

    /// The next write to a region that tells no queue; `None` within: there is none yet.
    pub(crate) fn take_written(&mut self, region: RegionId) -> Option<Option<Written>> {
        let written = self.regions.regions.get_mut(&region)?.written.pop_front();
        if self.are_notices_held {
            self.look_for_room();
        }
        Some(written)
    }

    pub(crate) fn withdraw(&mut self, region: RegionId) -> Option<Memory> {
        let this = self.regions.regions.remove(&region)?;
        self.look_for_room();
        self.core.endpoint().withdraw(region);
        self.core.memory().remove(this.memory_id)
    }

    /// The engine ends: nothing is exposed any more.
    pub(crate) fn drop_regions(&mut self) {
        let all: Vec<RegionId> = self.regions.regions.keys().copied().collect();
        all.into_iter().for_each(|region| drop(self.withdraw(region)));
    }
}
