//! A host: an endpoint, the application's memory, and the application.

use std::collections::{BTreeMap, VecDeque};

use packhorse_proto::{
    BufId, Criteria, Endpoint, Event, Identity, Instant, LinkTraits, List, Locator, Memory,
    Opening, Payload, PeerId, Place, PostError, RecvSpec, Reliability, Secret, SendSpec, Source,
    Space, Tag, TxFrame, Use,
};

use crate::app::{App, Inbox};
use crate::costs::{Costs, settings_of};
use crate::load::Load;
use crate::machine::Machine;
use crate::placement::{Doer, Placement};
use crate::plant::JobId;
use crate::streams::Streams;

/// A frame on its way.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) load: Load,
    /// Counts the frames of its sender.
    pub(crate) number: u32,
}

/// The application's memory: what is sent, and what was received. All sends are the same bytes, so all receives can be compared with them.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    sent: Vec<u8>,
    received: Vec<Vec<u8>>,
    /// Bytes placed.
    pub(crate) placed_len: u64,
    /// Bytes placed that were not those sent.
    pub(crate) wrong_len: u64,
}

/// Receives take turns with so many buffers.
const BUFFER_COUNT: u64 = 64;
/// The name of what is sent.
const SENT: BufId = BufId(BUFFER_COUNT);

fn pattern(at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9) >> 7) as u8
}

impl Buffers {
    /// The bytes of every send.
    pub(crate) fn sent(&self) -> &[u8] {
        &self.sent
    }

    /// Bytes of a message arrived and were read, from `at` on.
    pub(crate) fn read(&mut self, at: u64, bytes: &[u8]) {
        self.placed_len += bytes.len() as u64;
        let is_right = |(number, &byte): (usize, &u8)| byte == pattern(at + number as u64);
        if !bytes.iter().enumerate().all(is_right) {
            self.wrong_len += bytes.len() as u64;
        }
    }

    fn grow(&mut self, len: u64) {
        for at in self.sent.len() as u64..len {
            self.sent.push(pattern(at));
        }
    }

    fn ready(&mut self, buf: BufId, len: u64) {
        let at = buf.0 as usize;
        if self.received.len() <= at {
            self.received.resize(at + 1, Vec::new());
        }
        if (self.received[at].len() as u64) < len {
            self.received[at].resize(len as usize, 0);
        }
    }
}

impl Memory for Buffers {
    fn place(&mut self, to: Place, bytes: &[u8]) {
        let start = to.offset as usize;
        self.received[to.buf.0 as usize][start..start + bytes.len()].copy_from_slice(bytes);
        self.read(to.offset, bytes);
    }

    fn update(
        &mut self,
        _at: Place,
        _len: usize,
        _width: usize,
        _change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) {
    }

    fn crc32c(&self, crc: u32, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(crc, bytes)
    }
}

/// One of the two hosts.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) endpoint: Endpoint,
    pub(crate) memory: Buffers,
    pub(crate) peer: PeerId,
    pub(crate) secret: Secret,
    pub(crate) costs: Costs,
    pub(crate) placement: Placement,
    pub(crate) app: Option<Box<dyn App>>,
    pub(crate) inbox: Inbox,
    pub(crate) is_waiting: bool,
    /// The application computes: a library that needs to be called does nothing.
    pub(crate) is_away: bool,
    /// Frames that wait for the library to be called.
    pub(crate) ring: VecDeque<Frame>,
    /// Frames between the protocol and the wire.
    pub(crate) slots_used: u32,
    /// The card found work for the host, and nobody told it yet.
    pub(crate) owes_upcall: bool,
    /// The card holds an interrupt back until then.
    pub(crate) interrupt_at: Option<u64>,
    pub(crate) timer_at: u64,
    /// Frames ready for the wire that must let others go first.
    pub(crate) at_wire: BTreeMap<u32, JobId>,
    left_number: u32,
    /// Frames that were handled, while others that came before them were not.
    pub(crate) taken: BTreeMap<u32, (Frame, Doer)>,
    taken_number: u32,
    frame_count: u32,
    recv_count: u64,
    /// Messages are streams.
    streams: Option<Streams>,
    tx: TxFrame,
}

fn refused(error: PostError) -> anyhow::Error {
    anyhow::anyhow!("{error:?}")
}

fn locator(number: u64) -> Locator {
    let mut locator = Locator::default();
    locator.0[..8].copy_from_slice(&(number + 1).to_le_bytes());
    locator
}

fn secret(number: u64) -> Secret {
    Secret([number + 0x51AB, !number])
}

impl Node {
    /// Opens the endpoint of host 0 or 1 on this machine.
    pub(crate) fn open(
        number: u64,
        machine: &Machine,
        placement: Placement,
    ) -> anyhow::Result<Self> {
        let (limits, settings) = settings_of(machine);
        let mtu = settings.frame_len_max;
        let opening = |number: u64| Opening {
            secret: secret(number),
            identity: Identity { host: number + 1, endpoint: 1 },
            entropy: [number + 11, number + 22, number + 33, number + 44],
            locators: vec![locator(number)],
        };
        let open = |number: u64| {
            Endpoint::open(opening(number), limits.clone(), settings.clone(), Instant(0))
        };
        let mut endpoint = open(number)?;
        endpoint.set_link(
            0,
            LinkTraits {
                frame_len_max: mtu,
                payload_check: false,
                reliability: Reliability::Lossy,
                is_private: false,
                train_len_max: 0,
                can_fetch: false,
            },
        );
        let address = open(1 - number)?.address();
        let peer =
            endpoint.add_peer(&address).map_err(|_| anyhow::anyhow!("no room for a peer"))?;
        Ok(Self {
            endpoint,
            memory: Buffers::default(),
            peer,
            secret: secret(number),
            costs: Costs::of(machine),
            placement,
            app: None,
            inbox: Inbox::default(),
            is_waiting: false,
            is_away: false,
            ring: VecDeque::new(),
            slots_used: 0,
            owes_upcall: false,
            interrupt_at: None,
            timer_at: u64::MAX,
            at_wire: BTreeMap::new(),
            left_number: 0,
            taken: BTreeMap::new(),
            taken_number: 0,
            frame_count: 0,
            recv_count: 0,
            streams: (machine.value("proto.streams") >= 1.0).then(Streams::default),
            tx: TxFrame::default(),
        })
    }

    /// The next frame for the wire, if it is there.
    pub(crate) fn next_at_wire(&mut self) -> Option<JobId> {
        let job = self.at_wire.remove(&(self.left_number + 1))?;
        self.left_number += 1;
        Some(job)
    }

    /// The next frame for the protocol, if it was handled.
    pub(crate) fn next_taken(&mut self) -> Option<(Frame, Doer)> {
        let next = self.taken.remove(&(self.taken_number + 1))?;
        self.taken_number += 1;
        Some(next)
    }

    /// A frame from the other host is taken.
    pub(crate) fn on_frame(&mut self, now: u64, from: u64, frame: &Frame) {
        self.endpoint.on_frame(Instant(now), 0, locator(from), &frame.bytes, &mut self.memory);
    }

    /// The next frame to send to whoever has this secret.
    pub(crate) fn poll_frame(&mut self, now: u64, to: Secret) -> Option<Frame> {
        if !self.endpoint.poll_transmit(Instant(now), &mut self.tx) {
            return None;
        }
        let head_len = self.tx.head.len();
        let mut bytes = vec![0; head_len];
        for piece in &self.tx.body {
            let len = piece.len as usize;
            match piece.source {
                Source::User { offset, .. } => {
                    bytes.extend_from_slice(
                        &self.memory.sent[offset as usize..offset as usize + len],
                    );
                }
                Source::Pool { slot, offset } => {
                    let start = offset as usize;
                    bytes.extend_from_slice(&self.endpoint.pooled(slot)[start..start + len]);
                }
                // Nothing can be read at the other host, so nothing is told.
                Source::Whereabouts { .. } | Source::Zero => bytes.resize(bytes.len() + len, 0),
            }
        }
        let crc = if self.tx.wants_crc() { crc32c::crc32c(&bytes[head_len..]) } else { 0 };
        self.tx.seal(crc);
        bytes[..head_len].copy_from_slice(&self.tx.head);
        self.frame_count += 1;
        Some(Frame { load: Load::of(to, &bytes), bytes, number: self.frame_count })
    }

    /// Posts a send of `len` bytes.
    pub(crate) fn post_send(&mut self, now: u64, len: u64) -> anyhow::Result<()> {
        self.memory.grow(len);
        if let Some(streams) = &mut self.streams {
            let begun = streams.begin(&mut self.endpoint, self.peer, len);
            return begun.map_err(|error| anyhow::anyhow!("{error:?}"));
        }
        let spec = SendSpec {
            peer: self.peer,
            space: Space(0),
            tag: Tag(1),
            immediate: None,
            payload: Payload::InPlace { buf: SENT, len },
            until_matched: false,
            user: 0,
        };
        self.endpoint.post_send(Instant(now), spec).map_err(refused)?;
        Ok(())
    }

    /// Posts a receive of up to `len` bytes.
    pub(crate) fn post_recv(&mut self, now: u64, len: u64) -> anyhow::Result<()> {
        if self.streams.is_some() {
            return Ok(()); // a handler takes what comes
        }
        let buf = BufId(self.recv_count % BUFFER_COUNT);
        self.recv_count += 1;
        self.memory.ready(buf, len);
        let spec = RecvSpec {
            criteria: Criteria { space: Space(0), tag: Tag(1), ignore: 0, source: Some(self.peer) },
            buf,
            len,
            list: List::Priority,
            uses: Use::Once,
            header_only: false,
            user: 0,
        };
        self.endpoint.post_recv(Instant(now), spec, &mut self.memory).map_err(refused)?;
        Ok(())
    }

    /// What became complete.
    pub(crate) fn poll_events(&mut self, now: u64) -> Inbox {
        let mut inbox = match &mut self.streams {
            Some(streams) => streams.turn(&mut self.endpoint, &mut self.memory, Instant(now)),
            None => Inbox::default(),
        };
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Sent { .. } => inbox.sent += 1,
                Event::Received { .. } => inbox.received += 1,
                _ => {}
            }
        }
        inbox
    }
}
