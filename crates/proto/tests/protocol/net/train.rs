//! What a driver does that sends and receives trains.

use std::collections::VecDeque;
use std::ops::Range;

use packhorse_proto::{Landing, SendSpec, Source, TxFrame, TxTrain, wire};

use super::{Flying, Net, Node, Ram};

impl Net {
    /// Granted data and fragments leave as a train.
    pub(super) fn pump_train(&mut self, from: usize) -> bool {
        let (count_max, mut train) = (self.train_count_max, TxTrain::default());
        let this = &mut self.nodes[from];
        if count_max == 0 || !this.ep.poll_train(self.now, count_max, 64_000, &mut train) {
            return false;
        }
        assert!(train.count <= count_max && train.heads.len() >= train.count * train.head_len);
        self.transmit_train(from, &train);
        true
    }

    /// Posts bytes that are copied as the frames that leave now; false if they do not leave now.
    pub(crate) fn post_copied(&mut self, from: usize, spec: SendSpec<'_>) -> bool {
        let mut train = TxTrain::default();
        let max = (self.train_count_max, 64_000);
        let ep = &mut self.nodes[from].ep;
        let (req, is_written) = ep.post_copied(self.now, spec, max, &mut train).expect("posted");
        if is_written {
            let kept = ep.copied_frames(req).expect("there is room");
            let frames = kept.chunks(train.head_len + train.payload_len as usize);
            let frames = frames.map(<[u8]>::to_vec).collect();
            self.transmit_frames(from, &train, frames);
        }
        is_written
    }

    /// Posts bytes that are copied as the one frame that leaves now; the link by which, or nothing was done.
    pub(crate) fn post_lone(&mut self, from: usize, spec: &SendSpec<'_>) -> Option<u8> {
        let ep = &mut self.nodes[from].ep;
        let lone = ep.post_lone(self.now, spec, &mut [0; wire::LONE_HEAD_LEN_MAX])?;
        let frame = ep.lone_frame(&lone).expect("it is kept").to_vec();
        let mut tx = TxFrame::default();
        (tx.link, tx.to) = (lone.link, lone.to);
        self.transmit(from, &tx, frame);
        Some(lone.link)
    }

    fn transmit_train(&mut self, from: usize, train: &TxTrain) {
        let this = &self.nodes[from];
        let frames = train.frames().map(|(head, payload)| this.cut(train, head, payload)).collect();
        self.transmit_frames(from, train, frames);
    }

    fn transmit_frames(&mut self, from: usize, train: &TxTrain, frames: Vec<Vec<u8>>) {
        let mut tx = TxFrame::default();
        (tx.link, tx.to) = (train.link, train.to);
        for bytes in frames {
            self.transmit(from, &tx, bytes);
        }
    }

    /// Frames that came together to one place from another: scattered as predicted, then looked at.
    pub(super) fn deliver_together(&mut self, mut batch: VecDeque<Flying>) {
        while let Some(first) = batch.front() {
            let (to, link, source) = (first.to, first.link, first.source);
            let this = &mut self.nodes[to];
            let landing = this.ep.predict(link).filter(|_| !this.is_frozen && !this.is_dead);
            let landed = landing.map_or(0, |landing| this.ram.land(&landing, &batch));
            if landed > 0 {
                let landing = landing.expect("landed");
                let head_len = landing.head_len;
                let heads = batch.iter().take(landed).flat_map(|flying| &flying.bytes[..head_len]);
                let heads: Vec<u8> = heads.copied().collect();
                let last_len = (batch[landed - 1].bytes.len() - head_len) as u32;
                let taken = this.ep.on_landed(
                    self.now,
                    link,
                    &source,
                    &landing,
                    &heads,
                    landed,
                    last_len,
                    &mut this.ram,
                );
                for flying in batch.drain(..taken) {
                    self.arrived.push((self.now, flying.sight));
                }
                // The others are moved out and go the general way.
                for flying in batch.drain(..landed - taken).collect::<Vec<_>>() {
                    self.deliver(flying);
                }
            } else if !self.deliver_fragments(&mut batch)
                && let Some(flying) = batch.pop_front()
            {
                self.deliver(flying);
            }
        }
    }
}

impl Net {
    /// The first frames of a batch, as one thing if they are fragments of a message that is awaited. False: they are not.
    fn deliver_fragments(&mut self, batch: &mut VecDeque<Flying>) -> bool {
        let (to, link, source) = (batch[0].to, batch[0].link, batch[0].source);
        let this = &mut self.nodes[to];
        if this.is_frozen || this.is_dead {
            return false;
        }
        // As the system joins them: of equal length, but for the last.
        let stride = batch[0].bytes.len();
        let mut joined = Vec::new();
        for flying in batch.iter().take_while(|flying| flying.bytes.len() <= stride) {
            joined.extend_from_slice(&flying.bytes);
            if flying.bytes.len() < stride {
                break;
            }
        }
        let taken = this.ep.on_fragments(self.now, link, &source, &joined, stride, &mut this.ram);
        for flying in batch.drain(..taken) {
            self.arrived.push((self.now, flying.sight));
        }
        taken > 0
    }
}

impl Ram {
    /// What the system does with frames that came together and a scatter list: they must be of equal length but for the
    /// last. How many it took.
    fn land(&mut self, landing: &Landing, batch: &VecDeque<Flying>) -> usize {
        let (head_len, payload_len) = (landing.head_len, landing.payload_len as usize);
        let buffer = self.buffers[landing.buf.0 as usize].as_mut().expect("predicted is posted");
        let (mut at, mut left, mut count) = (landing.offset as usize, landing.len as usize, 0);
        for flying in batch {
            let Some(len) = flying.bytes.len().checked_sub(head_len).filter(|&len| len > 0) else {
                break;
            };
            if len > payload_len.min(left) {
                break;
            }
            buffer[at..at + len].copy_from_slice(&flying.bytes[head_len..]);
            (at, left, count) = (at + len, left - len, count + 1);
            if len < payload_len {
                break;
            }
        }
        count
    }
}

impl Node {
    /// One frame of a train: its head, and which bytes of the train's payload it has.
    fn cut(&self, train: &TxTrain, head: &[u8], payload: Range<usize>) -> Vec<u8> {
        let mut bytes = head.to_vec();
        bytes.extend_from_slice(match train.source {
            Source::User { buf, offset } => {
                self.ram.slice(buf, offset + payload.start as u64, payload.len())
            }
            Source::Pool { slot, offset } => {
                &self.ep.pooled(slot)[offset as usize + payload.start..][..payload.len()]
            }
            Source::Whereabouts { .. } | Source::Zero => panic!("a train of nothing"),
        });
        bytes
    }
}
