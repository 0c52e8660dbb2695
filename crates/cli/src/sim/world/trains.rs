//! A driver that sends granted data as trains, and lets it land before anybody has looked at it.
//!
//! Frames that arrive in one moment from one place come together, as a system hands over a train. Whatever they are,
//! they are scattered as the endpoint predicted (now and then as it did not), so that wrong landings are as common
//! here as right ones: what the endpoint does not take is moved out and goes the general way.

use packhorse_link::sim::Delivery;
use packhorse_proto::{Landing, Locator, Memory, Place, TxTrain};

use super::{Node, World};

/// How a node's driver treats trains. By default it knows none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trains {
    /// Most frames of a train it sends; 0: none.
    pub count_max: usize,
    /// Heads and payload of a train it sends, in bytes.
    pub len_max: usize,
    /// It lands what arrives.
    pub lands: bool,
}

/// So many landings in a million are not where the endpoint said.
const ASTRAY_PPM: u32 = 60_000;

impl World {
    /// A train leaves node `index`, if data may.
    pub(super) fn pump_train(&mut self, index: usize) -> bool {
        let node = &mut self.nodes[index];
        let Trains { count_max, len_max, .. } = node.spec.trains;
        let train = &mut self.train;
        if count_max == 0 || !node.endpoint.poll_train(self.now, count_max, len_max, train) {
            return false;
        }
        let len = train.heads.len() as u64
            + (train.count as u64 - 1) * u64::from(train.payload_len)
            + u64::from(train.last_len);
        if train.count > count_max || len > len_max as u64 {
            self.faults.push(format!("a train of {} frames, {len} bytes", train.count));
        }
        for at in 0..train.count {
            self.frame.clear();
            cut(train, at, node, &mut self.frame);
            self.net.send(self.now.0, node.id.port(train.link), &train.to.0, &self.frame);
            if self.frame.len() > usize::from(node.spec.settings.frame_len_max) {
                self.faults.push(format!("a frame of {} bytes in a train", self.frame.len()));
            }
        }
        true
    }

    /// Frames that came together.
    pub(super) fn land(&mut self, mut batch: &[Delivery]) {
        while let [first, ..] = batch {
            let node = &mut self.nodes[first.to.node as usize];
            let (link, from) = (first.to.port, Locator(first.from));
            let mut landing = node.endpoint.predict(link);
            if self.landing_rng.chance(ASTRAY_PPM) {
                landing = landing.map(|landing| landing.behind(landing.payload_len.into()));
            }
            let Some(landing) = landing else {
                node.endpoint.on_frame(self.now, link, from, &first.bytes, &mut node.memory);
                batch = &batch[1..];
                continue;
            };
            let (count, last_len) = node.scatter(&landing, batch, &mut self.frame);
            let taken = node.endpoint.on_landed(
                self.now,
                link,
                &from,
                &landing,
                &self.frame,
                count,
                last_len,
                &mut node.memory,
            );
            let count = count.max(1);
            for delivery in &batch[taken..count] {
                node.endpoint.on_frame(self.now, link, from, &delivery.bytes, &mut node.memory);
            }
            batch = &batch[count..];
        }
    }
}

impl Node {
    /// Puts the payload of frames where the landing says and their heads into `heads`: how many frames, and the last one's
    /// payload.
    fn scatter(
        &mut self,
        landing: &Landing,
        batch: &[Delivery],
        heads: &mut Vec<u8>,
    ) -> (usize, u32) {
        heads.clear();
        let (mut place, mut left) = (landing.offset, landing.len);
        let (mut count, mut last_len) = (0, 0);
        for delivery in batch {
            let Some((head, payload)) = delivery.bytes.split_at_checked(landing.head_len) else {
                break; // shorter than a head: it is all in there
            };
            let len = payload.len() as u64;
            if len > left.min(landing.payload_len.into()) {
                break; // its end is in the spill
            }
            heads.extend_from_slice(head);
            self.memory.place(Place { buf: landing.buf, offset: place }, payload);
            (place, left, count, last_len) = (place + len, left - len, count + 1, len as u32);
            if last_len < landing.payload_len {
                break;
            }
        }
        (count, last_len)
    }
}

/// One frame of a train.
fn cut(train: &TxTrain, at: usize, node: &mut Node, frame: &mut Vec<u8>) {
    frame.extend_from_slice(&train.heads[at * train.head_len..][..train.head_len]);
    let len = if at + 1 == train.count { train.last_len } else { train.payload_len } as usize;
    let offset = train.offset + at as u64 * u64::from(train.payload_len);
    node.memory.gather(train.buf, offset, len, frame);
}
