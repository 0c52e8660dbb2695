//! Messages: how they are posted, matched, held, refused, filled and given up.

pub(crate) mod abandon;
pub(crate) mod arrive;
pub(crate) mod fill;
pub(crate) mod fragments;
pub(crate) mod output;
pub(crate) mod overflow;
pub(crate) mod post;
pub(crate) mod take;
pub(crate) mod turns;
