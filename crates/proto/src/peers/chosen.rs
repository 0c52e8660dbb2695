//! The settings of an endpoint, which all rooms above read: they are chosen before it opens, and changed in this room alone.

use core::ops::Deref;

use crate::Settings;

/// What the application chose.
#[derive(Debug)]
pub(crate) struct Chosen(Settings);

impl Chosen {
    pub(super) fn new(settings: Settings) -> Self {
        Self(settings)
    }

    /// From now on one acknowledgement collects so many frames, from 1 to 256.
    pub(super) fn set_ack_every(&mut self, count: u32) {
        self.0.ack_every = count.clamp(1, 256);
    }
}

impl Deref for Chosen {
    type Target = Settings;

    #[inline(always)]
    fn deref(&self) -> &Settings {
        &self.0
    }
}
