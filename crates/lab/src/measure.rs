//! Runs a program on a machine and reads its marks.

use anyhow::{Context as _, Result};

use crate::apps::{Batch, Consumer, Ping, Pong, Producer, Receiver, Sender, Worker};
use crate::machine::Machine;
use crate::placement::Placement;
use crate::trace::Span;
use crate::world::{Noted, World};

/// What a stream of messages made of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// Bytes per second.
    pub(crate) rate: f64,
    /// How busy each part of sender and receiver was, 0 to 1.
    pub(crate) used: [[f64; 7]; 2],
}

fn used(from: &Noted, to: &Noted) -> [[f64; 7]; 2] {
    let ns = (to.at - from.at).max(1) as f64;
    [0, 1].map(|node: usize| {
        let mut all = [0.0; 7];
        for (part, share) in all.iter_mut().enumerate() {
            *share = (to.busy[node][part] - from.busy[node][part]) as f64 / ns;
        }
        all
    })
}

/// Messages of `len` bytes one way, `window` of them under way.
pub(crate) fn stream(
    machine: &Machine,
    placement: Placement,
    len: u64,
    window: u64,
) -> Result<Flow> {
    stream_of([machine; 2], [placement; 2], len, window)
}

/// Messages of `len` bytes one way between two hosts that differ, `window` of them under way.
pub(crate) fn stream_of(
    machines: [&Machine; 2],
    placements: [Placement; 2],
    len: u64,
    window: u64,
) -> Result<Flow> {
    let (warm, count) = counts(len);
    let mut world = World::of(machines, placements)?;
    let total = warm + count;
    world.noted_at = vec![warm, total];
    world.run([
        Box::new(Sender::new(len, total, window)),
        Box::new(Receiver::new(len, total, window + 1)),
    ])?;
    let [from, to] = world.notes[..] else { anyhow::bail!("a stream has two marks") };
    Ok(Flow { rate: (count * len) as f64 * 1e9 / (to.at - from.at) as f64, used: used(&from, &to) })
}

/// Messages of warm-up and of measurement: about two megabytes, four at least.
fn counts(len: u64) -> (u64, u64) {
    let count = ((2 << 20) / len.max(1)).clamp(4, 200);
    ((count / 2).clamp(2, 40), count)
}

/// Half of a round trip, in nanoseconds.
pub(crate) fn pingpong(machine: &Machine, placement: Placement, len: u64) -> Result<f64> {
    pingpong_of([machine; 2], [placement; 2], len)
}

/// Half of a round trip between two hosts that differ, in nanoseconds.
pub(crate) fn pingpong_of(
    machines: [&Machine; 2],
    placements: [Placement; 2],
    len: u64,
) -> Result<f64> {
    let (warm, count) = if len > 1 << 20 { (2, 4) } else { (4, 10) };
    let mut world = World::of(machines, placements)?;
    world.run([Box::new(Ping::new(len, warm, count)), Box::new(Pong::new(len, warm + count))])?;
    let [from, to] = world.notes[..] else { anyhow::bail!("a ping-pong has two marks") };
    Ok((to.at - from.at) as f64 / (2 * count) as f64)
}

/// A point of RMPP's Figure 10.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Working {
    /// Bytes per second, as the paper counts them: a message by half the time of a round.
    pub(crate) rate: f64,
    /// The share of the processor that was left for work.
    pub(crate) availability: f64,
}

/// Ping-pong beside work in pieces of `piece_ns`.
pub(crate) fn work(
    machine: &Machine,
    placement: Placement,
    len: u64,
    piece_ns: u64,
) -> Result<Working> {
    let (warm, count) = (3, 12);
    let worker = Worker::new(len, warm, count, piece_ns);
    let piece_count = worker.piece_count.clone();
    let mut world = World::new(machine, placement)?;
    world.run([Box::new(worker), Box::new(Pong::new(len, warm + count))])?;
    let [from, to] = world.notes[..] else { anyhow::bail!("work has two marks") };
    let took_ns = (to.at - from.at) as f64;
    // Without communication: the same pieces and looks.
    let alone_ns = (piece_count.get() * (piece_ns + world.nodes[0].costs.poll)) as f64;
    Ok(Working { rate: (2 * count * len) as f64 * 1e9 / took_ns, availability: alone_ns / took_ns })
}

/// What EMP's loop took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Nanoseconds per call: post of a receive, of a send; the wait, per message.
    pub(crate) post_recv: f64,
    /// See `post_recv`.
    pub(crate) post_send: f64,
    /// See `post_recv`.
    pub(crate) wait: f64,
    /// The share of the processor that was for work.
    pub(crate) work_share: f64,
    /// Bytes sent and received per second.
    pub(crate) rate: f64,
}

/// Batches both ways, with work between posts and wait.
pub(crate) fn batch(
    machine: &Machine,
    placement: Placement,
    len: u64,
    size: u64,
    work_ns: u64,
) -> Result<Round> {
    let rounds = 12;
    let mut world = World::new(machine, placement)?;
    let app = || Box::new(Batch::new(len, size, rounds, work_ns));
    world.run([app(), app()])?;
    let marks: Vec<u64> =
        world.notes.iter().filter(|note| note.node == 0).map(|note| note.at).collect();
    let late: Vec<_> = marks.chunks_exact(5).skip(4).collect();
    let (first, last) = (late.first().context("rounds")?, late.last().context("rounds")?);
    let spent = |from: usize| {
        let sum: u64 = late.iter().map(|marks| marks[from + 1] - marks[from]).sum();
        sum as f64 / late.len() as f64
    };
    let took_ns = (last[4] - first[0]) as f64;
    let (messages, all) = (size as f64, late.len() as f64);
    Ok(Round {
        post_recv: spent(0) / messages,
        post_send: spent(1) / messages,
        wait: spent(3) / messages,
        work_share: work_ns as f64 * all / took_ns,
        rate: 2.0 * len as f64 * messages * all * 1e9 / took_ns,
    })
}

/// What the double buffer made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffered {
    /// Bytes per second in all.
    pub(crate) rate: f64,
    /// Bytes per second of the consumer while it sums.
    pub(crate) consumer_rate: f64,
}

/// Producer and consumer at these rates (bytes per second), with buffers of `len` bytes.
pub(crate) fn double_buffer(
    machine: &Machine,
    placement: Placement,
    len: u64,
    rates: (f64, f64),
) -> Result<Buffered> {
    let count = 40;
    let ns = |rate: f64| (len as f64 / rate * 1e9) as u64;
    let mut world = World::new(machine, placement)?;
    world.run([
        Box::new(Producer::new(len, count, ns(rates.0))),
        Box::new(Consumer::new(len, count, ns(rates.1))),
    ])?;
    let marks: Vec<u64> = world.notes.iter().map(|note| note.at).collect();
    let late: Vec<_> = marks.chunks_exact(2).skip(count as usize / 4).collect();
    let (first, last) = (late.first().context("sums")?, late.last().context("sums")?);
    let summing: u64 = late.iter().map(|marks| marks[1] - marks[0]).sum();
    let bytes = |count: usize| (count as u64 * len) as f64 * 1e9;
    Ok(Buffered {
        rate: bytes(late.len() - 1) / (last[1] - first[1]) as f64,
        consumer_rate: bytes(late.len()) / summing as f64,
    })
}

/// What every part did during a stream, from the receive of message `warm` on.
pub(crate) fn traced_stream(
    machine: &Machine,
    placement: Placement,
    len: u64,
) -> Result<Vec<Span>> {
    let mut world = World::new(machine, placement)?;
    world.spans = Some(Vec::new());
    world.noted_at = vec![2, 3];
    world.run([Box::new(Sender::new(len, 3, 1)), Box::new(Receiver::new(len, 3, 2))])?;
    let [from, to] = world.notes[..] else { anyhow::bail!("a stream has two marks") };
    let mut spans = world.spans.take().unwrap_or_default();
    spans.sort_by_key(|span| (span.start_ns, span.node, span.part));
    // From the last post on: before it the sender may wait for an acknowledgement of the message before.
    let posted = spans.iter().rposition(|span| span.what == "post send");
    let start_ns = posted.map_or(from.at, |at| spans[at].start_ns);
    spans.retain(|span| span.start_ns >= start_ns && span.start_ns < to.at);
    Ok(spans)
}

/// What every part did during the last two buffers of the double buffer.
pub(crate) fn traced_double_buffer(
    machine: &Machine,
    placement: Placement,
    len: u64,
    rates: (f64, f64),
) -> Result<Vec<Span>> {
    let count = 8;
    let ns = |rate: f64| (len as f64 / rate * 1e9) as u64;
    let mut world = World::new(machine, placement)?;
    world.spans = Some(Vec::new());
    world.run([
        Box::new(Producer::new(len, count, ns(rates.0))),
        Box::new(Consumer::new(len, count, ns(rates.1))),
    ])?;
    let marks: Vec<u64> = world.notes.iter().map(|note| note.at).collect();
    let (from, to) = (marks[marks.len() - 7], marks[marks.len() - 1]);
    let mut spans = world.spans.take().unwrap_or_default();
    spans.retain(|span| span.end_ns > from && span.start_ns < to);
    spans.sort_by_key(|span| (span.start_ns, span.node, span.part));
    Ok(spans)
}
