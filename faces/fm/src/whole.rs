//! FM 1.1 messages, put together before their handler is called: whole, or not at all.
//!
//! Nobody says beforehand how long a message will be, so what bounds them is the receiver's room, for all of them together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use packhorse::Error;
use packhorse::stream::Stream;

use crate::dropped::{self, Why};

/// Bytes that are received at once.
const PIECE_LEN: usize = 4096;

/// Room for all messages that are being put together. Relaxed: a sum, which orders nothing.
#[derive(Debug)]
pub(crate) struct Room {
    used_len: AtomicUsize,
    len_max: usize,
}

impl Room {
    pub(crate) fn new(len_max: usize) -> Self {
        Self { used_len: AtomicUsize::new(0), len_max }
    }

    fn take(&self, len: usize) -> bool {
        let more = |used: usize| used.checked_add(len).filter(|&used| used <= self.len_max);
        self.used_len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// A message as far as it came. Gives its room back when dropped.
struct Part {
    bytes: Vec<u8>,
    taken_len: usize,
    room: Arc<Room>,
}

impl Part {
    /// Makes room for so many bytes more: for twice as many as there are, or just for these. False: there is none.
    fn grow(&mut self, missing_len: usize) -> bool {
        let wanted = [self.taken_len.max(PIECE_LEN), missing_len];
        let Some(more) = wanted.into_iter().find(|&len| self.room.take(len)) else { return false };
        self.taken_len += more;
        self.bytes.try_reserve_exact(self.taken_len - self.bytes.len()).is_ok()
    }

    fn add(&mut self, piece: &[u8]) -> bool {
        let free_len = self.taken_len - self.bytes.len();
        if free_len < piece.len() && !self.grow(piece.len() - free_len) {
            return false;
        }
        self.bytes.extend_from_slice(piece);
        true
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.room.used_len.fetch_sub(self.taken_len, Ordering::Relaxed);
    }
}

/// Receives a message and calls `handler` with it, if it is whole.
pub(crate) async fn run(
    mut handler: impl FnMut(&mut [u8], u32),
    sender: u32,
    mut stream: Stream,
    room: Arc<Room>,
) {
    let mut part = Part { bytes: Vec::new(), taken_len: 0, room };
    let mut piece = [0; PIECE_LEN];
    loop {
        match stream.receive(&mut piece).await {
            Ok(0) => return handler(&mut part.bytes, sender),
            Ok(len) if part.add(&piece[..len]) => {}
            Ok(_) => return too_long(sender, &part),
            Err(error) => return broken(sender, &part, &error),
        }
    }
}

#[cold]
fn too_long(sender: u32, part: &Part) {
    dropped::count(Why::Long, || {
        format!(
            "a message of node {sender} is dropped after {} bytes: all messages that wait to be whole may have {} bytes together. \
             Set FM_WHOLE_MAX to more, or take it apart with FM_receive",
            part.bytes.len(),
            part.room.len_max
        )
    });
}

#[cold]
fn broken(sender: u32, part: &Part, error: &Error) {
    dropped::count(Why::Broken, || {
        let len = part.bytes.len();
        format!("a message of node {sender} is dropped after {len} bytes, it has no end: {error}")
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(room: &Arc<Room>) -> Part {
        Part { bytes: Vec::new(), taken_len: 0, room: Arc::clone(room) }
    }

    #[test]
    fn all_messages_share_one_room_and_give_it_back() {
        let room = Arc::new(Room::new(100_000));
        let (mut one, mut two) = (part(&room), part(&room));
        let piece = [7; PIECE_LEN];
        let count = (0..100).take_while(|_| one.add(&piece) && two.add(&piece)).count();
        assert_eq!(count, 8, "what one has taken ahead the other cannot have");
        assert!(room.used_len.load(Ordering::Relaxed) <= 100_000);
        assert!(one.bytes.capacity() + two.bytes.capacity() <= 100_000);
        drop(one);
        assert!(two.add(&piece), "there is room again");
        drop(two);
        assert_eq!(room.used_len.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_room_smaller_than_a_piece_holds_what_fits() {
        let mut part = part(&Arc::new(Room::new(10)));
        assert!(part.add(&[1; 6]) && part.add(&[2; 4]) && !part.add(&[3]));
    }
}
