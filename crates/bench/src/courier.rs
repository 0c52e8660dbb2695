//! The seam of the offload patterns: posts, polls and waits, as every message passing library has them.

use anyhow::Result;

/// Messages both ways, several under way at once, each way in order: what the patterns of offload are written against.
///
/// A buffer belongs to the courier from post to completion. Receives are posted with the length of what will come.
pub trait Courier {
    /// Begins to send.
    fn send(&mut self, buffer: Vec<u8>) -> Result<()>;
    /// Posts a receive.
    fn recv(&mut self, buffer: Vec<u8>) -> Result<()>;
    /// The buffer of the oldest send, if it is over. One look, no waiting.
    fn try_sent(&mut self) -> Result<Option<Vec<u8>>>;
    /// The oldest receive, if its message is there. One look, no waiting.
    fn try_received(&mut self) -> Result<Option<Vec<u8>>>;
    /// Waits for the oldest send.
    fn wait_sent(&mut self) -> Result<Vec<u8>>;
    /// Waits for the oldest receive.
    fn wait_received(&mut self) -> Result<Vec<u8>>;
}
