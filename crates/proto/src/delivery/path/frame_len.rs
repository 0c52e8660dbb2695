//! How long frames of a path may be: shorter when only the long ones are lost, longer again by padded probes (PROTOCOL §6.6).

use super::*;

impl Path {
    /// Packets were lost: is it only the long ones? True if the path fell back (PROTOCOL §6.6).
    pub(crate) fn on_frames_lost(&mut self, frame_len_max: u16, now: Instant) -> bool {
        if frame_len_max <= FRAME_LEN_FLOOR || self.frame_len <= FRAME_LEN_FLOOR {
            return false;
        }
        self.full_lost_count = self.full_lost_count.saturating_add(1);
        self.lost_len_min = self.lost_len_min.min(frame_len_max);
        if self.full_lost_count < BLACK_HOLE_COUNT {
            return false;
        }
        self.full_lost_count = 0;
        self.lost_len_min = u16::MAX;
        self.frame_len = FRAME_LEN_FLOOR;
        self.frame_probe_ns = FRAME_PROBE_NS;
        self.frame_probe_at = now + self.frame_probe_ns;
        true
    }

    pub(crate) fn on_frames_acked(&mut self, frame_len_max: u16) {
        // Shorter ones prove nothing: the hole may begin anywhere above them.
        if frame_len_max >= self.lost_len_min {
            self.full_lost_count = 0;
            self.lost_len_min = u16::MAX;
        }
    }

    /// The length a padded probe should have now, if one is due.
    pub(crate) fn frame_probe_due(&self, now: Instant) -> Option<u16> {
        if now < self.frame_probe_at || self.frame_len >= self.frame_len_max {
            return None;
        }
        // First the whole way: most black holes heal. Then half the way.
        let halfway = self.frame_len + (self.frame_len_max - self.frame_len).div_ceil(2);
        let whole_failed = self.frame_probe_len == self.frame_len_max;
        Some(if whole_failed { halfway } else { self.frame_len_max })
    }

    /// A probe is due, or longer frames are to be tried some day.
    #[inline(always)]
    pub(crate) fn wants_ping(&self) -> bool {
        self.probe_now || self.frame_probe_at != Instant::NEVER
    }

    pub(crate) fn frame_probe_at(&self) -> Instant {
        self.frame_probe_at
    }

    pub(crate) fn on_frame_probe_sent(&mut self, now: Instant, frame_len: u16) {
        self.frame_probe_len = frame_len;
        self.frame_probe_at = now + self.frame_probe_ns;
        self.frame_probe_ns = (2 * self.frame_probe_ns).min(FRAME_PROBE_NS_MAX);
    }

    pub(crate) fn on_frame_probe_acked(&mut self, now: Instant, frame_len: u16) {
        self.frame_len = self.frame_len.max(frame_len.min(self.frame_len_max));
        self.window.on_frame_len(self.frame_len);
        self.frame_probe_ns = FRAME_PROBE_NS;
        self.frame_probe_len = 0;
        self.frame_probe_at =
            if self.frame_len < self.frame_len_max { now + FRAME_PROBE_NS } else { Instant::NEVER };
    }
}
