//! Bytes of messages and transfers under way, in both directions: what is granted, sent, landed and fetched.

pub(crate) mod ahead;
pub(crate) mod arrival;
pub(crate) mod fetch;
pub(crate) mod framed;
pub(crate) mod grants;
pub(crate) mod landing;
pub(crate) mod large;
pub(crate) mod outgoing;
pub(crate) mod train;
pub(crate) mod transfer;
