//! Frames and records as bytes: the only folder that knows byte offsets (PROTOCOL §1, §2).
//!
//! ```text
//!  header, 24 bytes                              heads of records           bodies, in the order of their heads
//! ┌──────────┬────┬────────┬──────┬──────┬──────┬────────┬────────┬────┬────────┬────────┬────┐
//! │ check u64│ to │ packet │ heads│ path │ form │ head 0 │ head 1 │ …  │ body 0 │ body 1 │ …  │
//! └──────────┴────┴────────┴──────┴──────┴──────┴────────┴────────┴────┴────────┴────────┴────┘
//!             └───────────── checked, with the frame's length ─────────┘
//! ```
//!
//! Heads are whole 8-byte words, and the first word of every head has one shape: kind u8, `a` u8, `b` u16, `c` u32.
//! So a head is read and written as words, never field by field, and a lone small message is two loads and a compare.
//! Where there is a body, its length is `b`.
//!
//! Reading goes in steps, each believing a little more. `FrameView::open` believes the keyed check and nothing else.
//! `FrameView::validate` cuts the frame into records by the shapes of their kinds and asks whether each makes sense.
//! `FrameView::records` cuts in the same way and decodes. Nothing is allocated and nothing panics, whatever the bytes are.
//!
//! `layout` has the offsets and lengths, `record`, `request` and `contact` what records say, `read` and `write` the general way from
//! bytes to records and back, `usual` the straight way for the commonest frames, `given` that for those without payload that are given to a link, `train` the one for large messages, `fragments` the one for messages of some frames; `lookup` has
//! the two frames that never come to an endpoint.

mod contact;
mod fragments;
mod given;
mod layout;
mod lookup;
mod matched;
mod quote;
mod read;
mod record;
mod request;

/// Where the bytes of an announced message are, as the driver of its sender says it.
pub type Whereabouts = [u8; WHEREABOUTS_LEN];

#[cfg(test)]
mod tests;
mod train;
mod usual;
mod write;

pub use contact::{HelloRepr, HelloView, Introduction, WelcomeRepr, WelcomeView};
pub use fragments::{
    FragmentsRepr, agreeing_fragments, lone_fragment, whole_message, write_fragments,
};
pub use given::{NOTE_HEAD_LEN_MAX, NoteRepr, NoteView};
pub use layout::*;
pub use lookup::{FindRepr, FindView, GREETING_LEN, LOOKUP_LEN, LookupFrame, NamedRepr, NamedView};
pub use matched::{
    Matched, MatchedKind, OPERAND_WORDS, OUTCOME_HEAD_LEN, OutcomeRepr, matched_head_len,
};
pub use quote::QuoteView;
pub use read::{Audience, FrameError, FrameView, Records, audience, numbered_header};
pub use record::{
    AHEAD_UNIT, AckRepr, AckView, Class, EagerRepr, FoundRepr, MessageHead, Record, TOTAL_MAX,
};
pub use request::{Action, RequestHead};
pub use train::{DATA_FRAME_HEAD_LEN, TrainRepr, agreeing_count, first_header, write_train};
pub use usual::{
    ACKED, ACKED_IMMEDIATE, EagerWords, LONE, LONE_IMMEDIATE, LoneMessage, LoneView, PlainView,
    is_ack_alone,
};
pub use write::{
    Writer, seal, seal_high, wants_crc, write_acked_eager, write_lone_at, write_lone_eager,
};
