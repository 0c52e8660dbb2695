//! What every room stands on: the nouns, bounds and settings, and what things are kept in. It knows nothing of frames or peers.

pub(crate) mod api;
pub(crate) mod counters;
pub(crate) mod gaps;
pub(crate) mod limits;
pub(crate) mod pool;
pub(crate) mod ring;
pub(crate) mod sabotage;
pub(crate) mod secret;
pub(crate) mod seeded;
pub(crate) mod siphash;
pub(crate) mod slab;
pub(crate) mod types;
