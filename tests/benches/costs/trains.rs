//! Data as trains: what a driver does around the calls that count.

use packhorse_proto::{Instant, Landing, Locator, Memory as _, Place, Source};
use packhorse_tests::node::{Node, Wire};

use crate::sides::{train_at_receiver as at_receiver, train_at_sender as at_sender};

/// A UDP train: 64 KB, 64 segments.
const COUNT_MAX: usize = 64;
const LEN_MAX: usize = 65_000;

/// Puts the next train of node 0 on the wire, if it has one.
pub(crate) fn transmit(node: &mut Node, now: Instant, wire: &mut Wire) -> bool {
    if !at_sender::poll_train(node, now, COUNT_MAX, LEN_MAX) {
        return false;
    }
    let train = &node.train;
    let Source::User { buf, offset } = train.source else { panic!("nothing was copied") };
    for (head, payload) in train.frames() {
        let mut frame = wire.blank();
        frame.extend_from_slice(head);
        frame.extend_from_slice(&node.memory.bytes(buf)[offset as usize..][payload]);
        wire.push(frame);
    }
    true
}

/// Lands what is on the wire to node 1, as far as it was predicted; how many frames.
pub(crate) fn land(node: &mut Node, now: Instant, from: Locator, wire: &mut Wire) -> usize {
    let Some(landing) = at_receiver::predict(node) else { return 0 };
    let (mut heads, mut frames) = (wire.blank(), Vec::new());
    let last_len = scatter(node, &landing, wire, &mut heads, &mut frames);
    let count = frames.len();
    let taken = at_receiver::on_landed(node, now, from, &landing, &heads, count, last_len);
    wire.recycle(heads);
    for frame in frames.drain(taken..).rev() {
        wire.push_front(frame);
    }
    frames.into_iter().for_each(|frame| wire.recycle(frame));
    taken
}

/// Hands what is on the wire to node 1 as the system joins it, as far as it is fragments that are awaited; how many frames.
pub(crate) fn join(node: &mut Node, now: Instant, from: Locator, wire: &mut Wire) -> usize {
    let (mut joined, mut frames) = (wire.blank(), Vec::<Vec<u8>>::new());
    while let Some(frame) = wire.pop() {
        let stride = frames.first().map_or(frame.len(), Vec::len);
        let is_last = frame.len() < stride;
        if frame.len() > stride || frames.len() == COUNT_MAX {
            wire.push_front(frame);
            break;
        }
        joined.extend_from_slice(&frame);
        frames.push(frame);
        if is_last {
            break;
        }
    }
    let stride = frames.first().map_or(0, Vec::len);
    let taken = at_receiver::on_fragments(node, now, from, &joined, stride);
    wire.recycle(joined);
    for frame in frames.drain(taken..).rev() {
        wire.push_front(frame);
    }
    frames.into_iter().for_each(|frame| wire.recycle(frame));
    taken
}

fn scatter(
    node: &mut Node,
    landing: &Landing,
    wire: &mut Wire,
    heads: &mut Vec<u8>,
    frames: &mut Vec<Vec<u8>>,
) -> u32 {
    let (mut offset, end) = (landing.offset, landing.offset + landing.len);
    let frame_len = landing.head_len + landing.payload_len as usize;
    let mut last_len = 0;
    while frames.len() < COUNT_MAX
        && let Some(frame) = wire.pop()
    {
        let len = frame.len().saturating_sub(landing.head_len);
        if len == 0 || frame.len() > frame_len || offset + len as u64 > end {
            wire.push_front(frame);
            break;
        }
        heads.extend_from_slice(&frame[..landing.head_len]);
        node.memory.place(Place { buf: landing.buf, offset }, &frame[landing.head_len..]);
        (offset, last_len) = (offset + len as u64, len as u32);
        let is_short = frame.len() < frame_len;
        frames.push(frame);
        if is_short {
            break;
        }
    }
    last_len
}
