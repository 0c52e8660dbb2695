//! Peers: who they are, how they become peers, which ways lead to them, and how they are forgotten.

pub(crate) mod acks;
pub(crate) mod allowance;
pub(crate) mod choice;
pub(crate) mod contact;
pub(crate) mod contest;
pub(crate) mod farewell;
pub(crate) mod obstacle;
pub(crate) mod pairs;
pub(crate) mod rows;
pub(crate) mod side;
pub(crate) mod strangers;
