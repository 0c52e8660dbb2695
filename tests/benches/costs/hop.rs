//! A whole hop between two endpoints of one host: from the post of a message to the entry that tells its receiver of it.
//!
//! Both endpoints are in this process, without helpers, over shared memory, and speak as a face does: receives and sends posted to
//! completion queues, looks that drive. Messages of 8 bytes go there and back, so each frame but the first has an acknowledgement on board.
//! They live by the real clock, which runs fifty times as fast for a program under callgrind, so more timers go off than in life, and the
//! count differs a little from run to run.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use packhorse::raw::{
    self, Completions, Criteria, Entry, Kind, List, Memory, Notify, PeerId, Recv, Send, Space, Tag,
    Use,
};
use packhorse::stream::Streams;
use packhorse::{Builder, Endpoint, Peer, Placement};

/// What a hop is made of, as the functions below are named.
pub(crate) const STEPS: [(&str, &str); 3] = [
    ("hop_posts_receive", "the receive is posted"),
    ("hop_sends", "the send is posted, its frame leaves"),
    ("hop_looks", "the look that finds the message"),
];

/// What it is made of where the receiver fetches the message from its sender's memory (PROTOCOL §8.10).
pub(crate) const FETCHED: [(&str, &str); 4] = [
    ("hop_posts_receive", "the receive is posted"),
    ("hop_tells", "the send is posted, its announcement leaves"),
    ("hop_fetches", "the look that finds it, and reads the message"),
    ("hop_ends", "the look of the sender that finds its end"),
];
const FETCHED_LEN: usize = 64 << 10;

/// What it is made of where the message is a whole short stream, and its receiver extracts.
pub(crate) const STREAMED: [(&str, &str); 2] = [
    ("hop_streams", "the stream is sent, its frame leaves"),
    ("hop_extracts", "the extraction that finds it, its handler runs"),
];
const HANDLER: u16 = 7;

/// One end.
struct End {
    endpoint: Endpoint,
    queue: Completions,
    streams: Streams,
    to: Peer,
    peer: PeerId,
    /// What it receives into, while nobody else has it.
    memory: Option<Memory>,
}

const TAG: Tag = Tag(7);
const SPACE: Space = Space(0);

/// So many messages, there and back by turns.
pub(crate) fn run(count: usize) -> Result<()> {
    let mut ends = open(8)?;
    for number in 0..count {
        let (from, to) = (number % 2, (number + 1) % 2);
        hop_posts_receive(&mut ends[to]);
        hop_sends(&ends[from]);
        // First contact takes a few turns of both; from then on one look finds it.
        let entry = loop {
            match hop_looks(&mut ends[to]) {
                Some(entry) => break entry,
                None => raw::engine(&ends[from].endpoint).turn(),
            };
        };
        anyhow::ensure!(entry.kind == Kind::Received, "{entry:?}");
        // Memory that is the caller's, as a face has it, is not given back: not counted.
        ends[to].memory = raw::engine(&ends[to].endpoint).take_memory(entry.request);
    }
    Ok(())
}

/// So many messages that are fetched, there and back by turns.
pub(crate) fn run_fetched(count: usize) -> Result<()> {
    let mut ends = open(FETCHED_LEN)?;
    let mut sent: Option<Memory> = Some(vec![3; FETCHED_LEN].into());
    for number in 0..count {
        let (from, to) = (number % 2, (number + 1) % 2);
        hop_posts_receive(&mut ends[to]);
        hop_tells(&ends[from], sent.take().expect("what was sent was taken"));
        let entry = loop {
            match hop_fetches(&mut ends[to]) {
                Some(entry) => break entry,
                None => raw::engine(&ends[from].endpoint).turn(),
            };
        };
        anyhow::ensure!(entry.kind == Kind::Received, "{entry:?}");
        ends[to].memory = raw::engine(&ends[to].endpoint).take_memory(entry.request);
        let entry = loop {
            match hop_ends(&mut ends[from]) {
                Some(entry) => break entry,
                None => raw::engine(&ends[to].endpoint).turn(),
            };
        };
        anyhow::ensure!(entry.kind == Kind::Sent, "{entry:?}");
        sent = raw::engine(&ends[from].endpoint).take_memory(entry.request);
    }
    Ok(())
}

/// So many streams of 8 bytes, there and back by turns.
pub(crate) fn run_streamed(count: usize) -> Result<()> {
    let ends = open(8)?;
    let arrived = Arc::<AtomicUsize>::default();
    for end in &ends {
        let counted = Arc::clone(&arrived);
        end.endpoint.streams().register(HANDLER, move |_, mut stream| {
            let counted = Arc::clone(&counted);
            async move {
                let mut bytes = [0; 8];
                let got = stream.receive(&mut bytes).await;
                assert!(got.is_ok_and(|len| len == 8) && bytes == [3; 8], "{bytes:?}");
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    for number in 0..count {
        let (from, to) = (number % 2, (number + 1) % 2);
        hop_streams(&ends[from]);
        while arrived.load(Ordering::Relaxed) == number {
            hop_extracts(&ends[to]);
            if arrived.load(Ordering::Relaxed) == number {
                raw::engine(&ends[from].endpoint).turn(); // first contact takes a few turns of both
            }
        }
    }
    Ok(())
}

/// Two ends, whose receives have so many bytes.
fn open(len: usize) -> Result<[End; 2]> {
    // Nobody turns the one while the other closes, so that would wait in vain for the last acknowledgement.
    let open =
        || Builder::plain().links("shm").placement(Placement::Inline).linger(Duration::ZERO).open();
    let (a, b) = (open()?, open()?);
    Ok([end(&a, &b, len)?, end(&b, &a, len)?])
}

fn end(own: &Endpoint, other: &Endpoint, len: usize) -> Result<End> {
    let to = own.peer(&other.address()).context("a peer")?;
    let (peer, queue) = (raw::peer_id(to), raw::engine(own).completions(64));
    let memory = Some(vec![0; len].into());
    Ok(End { endpoint: own.clone(), queue, streams: own.streams(), to, peer, memory })
}

#[inline(never)]
fn hop_posts_receive(end: &mut End) {
    black_box(1_u8);
    let criteria = Criteria { source: Some(end.peer), space: SPACE, tag: TAG, ignore: 0 };
    let recv = Recv { criteria, list: List::Priority, uses: Use::Once, header_only: false };
    let notify = Notify { queue: end.queue.id(), context: 1, only_errors: false };
    let memory = end.memory.take().expect("what was received was taken");
    let posted = raw::engine(&end.endpoint).recv_queued(notify, recv, memory);
    posted.map_err(|refused| refused.error).expect("a receive");
}

#[inline(never)]
fn hop_sends(end: &End) {
    black_box(2_u8);
    let send =
        Send { peer: end.peer, space: SPACE, tag: TAG, immediate: None, until_matched: false };
    raw::engine(&end.endpoint).send_copied(send, &[3; 8]).expect("a send");
}

#[inline(never)]
fn hop_tells(end: &End, memory: Memory) {
    black_box(4_u8);
    let send =
        Send { peer: end.peer, space: SPACE, tag: TAG, immediate: None, until_matched: false };
    let notify = Notify { queue: end.queue.id(), context: 2, only_errors: false };
    let posted = raw::engine(&end.endpoint).send_queued(notify, send, memory);
    posted.map_err(|refused| refused.error).expect("a send");
}

#[inline(never)]
fn hop_fetches(end: &mut End) -> Option<Entry> {
    black_box(5_u8);
    end.queue.poll_or_doze()
}

#[inline(never)]
fn hop_ends(end: &mut End) -> Option<Entry> {
    black_box(6_u8);
    end.queue.poll_or_doze()
}

#[inline(never)]
fn hop_streams(end: &End) {
    black_box(7_u8);
    end.streams.send(end.to, HANDLER, &[&[3; 8]]).expect("a stream");
}

#[inline(never)]
fn hop_extracts(end: &End) {
    black_box(8_u8);
    end.streams.extract_wait(1 << 10, Duration::ZERO).expect("no handler");
}

#[inline(never)]
fn hop_looks(end: &mut End) -> Option<Entry> {
    black_box(3_u8);
    end.queue.poll_or_doze()
}
