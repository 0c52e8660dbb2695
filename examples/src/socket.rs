//! A byte stream between two endpoints (Socket-FM): each direction is one message that does not end until it is shut down.
//!
//! Reads are posted with their buffers. A read that waits when bytes arrive gets them straight from the frame: this layer
//! stages nothing, ever. Bytes that nobody reads yet wait below, and their writer with them once its credit is used up.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use packhorse::stream::{Message, Stream, Streams};
use packhorse::{Endpoint, Error, Peer};

use crate::lock;

/// What a read came to.
#[derive(Debug)]
pub struct Read {
    /// The buffer that was posted.
    pub buffer: Vec<u8>,
    /// So much of it was filled; 0 at the end of the stream.
    pub len: usize,
}

/// Reads of one socket.
#[derive(Debug, Default)]
struct Reads {
    posted: VecDeque<Vec<u8>>,
    over: VecDeque<Read>,
    /// The handler, while it waits for a read.
    waiting: Option<Waker>,
    /// Nothing more will come.
    has_ended: bool,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Socket {
    streams: Streams,
    reads: Arc<Mutex<Reads>>,
    peer: Peer,
    port: u16,
    /// What is written; begun with the first byte.
    outbound: Option<Message>,
}

impl Socket {
    /// The end of a connection to a peer. Both ends use the same port: a number that no other handler of theirs has.
    pub fn new(endpoint: &Endpoint, peer: Peer, port: u16) -> Self {
        let (streams, reads) = (endpoint.streams(), Arc::<Mutex<Reads>>::default());
        let theirs = Arc::clone(&reads);
        streams.register(port, move |sender, stream| {
            let reads = Arc::clone(&theirs);
            async move {
                if sender == peer {
                    serve(stream, &reads).await;
                }
            }
        });
        Self { streams, reads, peer, port, outbound: None }
    }

    /// Writes bytes; they leave at once.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let outbound = match &mut self.outbound {
            Some(outbound) => outbound,
            none => none.insert(self.streams.begin(self.peer, self.port)?),
        };
        outbound.send(bytes)?;
        outbound.flush().map(drop)
    }

    /// Posts a read: it is over as soon as there is any byte for it.
    pub fn read(&self, buffer: Vec<u8>) {
        let mut reads = lock(&self.reads);
        if reads.has_ended {
            reads.over.push_back(Read { buffer, len: 0 });
            return;
        }
        reads.posted.push_back(buffer);
        if let Some(waker) = reads.waiting.take() {
            drop(reads);
            waker.wake();
        }
    }

    /// The oldest read that is over. Extracting is what moves bytes.
    pub fn try_take(&self) -> Option<Read> {
        lock(&self.reads).over.pop_front()
    }

    /// Nothing more will be written.
    pub fn shut_down(&mut self) -> Result<(), Error> {
        match self.outbound.take() {
            Some(outbound) => outbound.end(),
            None => self.streams.begin(self.peer, self.port)?.end(),
        }
    }
}

/// The handler: reads as they are posted, until the stream ends, well or not.
async fn serve(mut stream: Stream, reads: &Mutex<Reads>) {
    loop {
        let mut buffer = next_read(reads).await;
        let len = stream.receive_some(&mut buffer).await.unwrap_or(0);
        let is_end = len == 0 && !buffer.is_empty();
        let mut reads = lock(reads);
        reads.over.push_back(Read { buffer, len });
        if is_end {
            reads.has_ended = true;
            let left: Vec<_> = reads.posted.drain(..).collect();
            reads.over.extend(left.into_iter().map(|buffer| Read { buffer, len: 0 }));
            return;
        }
    }
}

async fn next_read(reads: &Mutex<Reads>) -> Vec<u8> {
    poll_fn(|context| {
        let mut reads = lock(reads);
        match reads.posted.pop_front() {
            Some(buffer) => Poll::Ready(buffer),
            None => {
                reads.waiting = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}
