//! An array that peers put to and get from (Shmem on Fast Messages).
//!
//! Each endpoint has as much of it as any other. A put is a message: where, then what. Its handler takes the page it
//! belongs to out of the array, receives straight into it and puts it back; another that wants the same page waits
//! meanwhile. A get is a message that asks, and one that answers.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use packhorse::stream::{Stream, Streams};
use packhorse::{Endpoint, Error, Peer};

use crate::lock;

/// Handlers of puts, gets and their answers.
const PUT: u16 = 0x110;
const GET: u16 = 0x111;
const GOT: u16 = 0x112;
/// Length of a page: what one handler can have for itself.
const PAGE_LEN: usize = 4 << 10;

/// What is here of the array.
#[derive(Debug)]
struct Pages {
    /// None while a handler has it.
    pages: Vec<Option<Box<[u8]>>>,
    /// Puts that came to their end.
    put_count: u64,
}

/// Gets that wait for their answer, and answers.
#[derive(Debug, Default)]
struct Gets {
    next_number: u64,
    answers: HashMap<u64, Vec<u8>>,
}

/// An endpoint's view of the array.
#[derive(Debug)]
pub struct SharedArray {
    streams: Streams,
    pages: Arc<Mutex<Pages>>,
    gets: Arc<Mutex<Gets>>,
    len: usize,
}

impl SharedArray {
    /// So many bytes at this endpoint, zeros at first.
    pub fn new(endpoint: &Endpoint, len: usize) -> Self {
        let pages = vec![Some(vec![0; PAGE_LEN].into_boxed_slice()); len.div_ceil(PAGE_LEN)];
        let pages = Arc::new(Mutex::new(Pages { pages, put_count: 0 }));
        let (streams, gets) = (endpoint.streams(), Arc::<Mutex<Gets>>::default());
        let (to_put, to_get, to_tell) = (Arc::clone(&pages), Arc::clone(&pages), Arc::clone(&gets));
        // A message that breaks off, or asks for what is not there, has no effect beyond what came of it.
        streams.register(PUT, move |_, mut stream| {
            let pages = Arc::clone(&to_put);
            async move { _ = on_put(&mut stream, &pages, len).await }
        });
        streams.register(GET, move |sender, mut stream| {
            let pages = Arc::clone(&to_get);
            async move { _ = on_get(&mut stream, sender, &pages, len).await }
        });
        streams.register(GOT, move |_, mut stream| {
            let gets = Arc::clone(&to_tell);
            async move { _ = on_got(&mut stream, &gets, len).await }
        });
        Self { streams, pages, gets, len }
    }

    /// Puts bytes to a peer's part of the array.
    pub fn put(&self, peer: Peer, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let head = words([offset as u64, bytes.len() as u64]);
        self.streams.send(peer, PUT, &[&head, bytes])
    }

    /// Asks for bytes of a peer's part; [`Self::try_got`] has them when they are here.
    pub fn get(&self, peer: Peer, offset: usize, len: usize) -> Result<u64, Error> {
        let number = {
            let mut gets = lock(&self.gets);
            gets.next_number += 1;
            gets.next_number
        };
        let [offset, len] = [offset, len].map(|word| word as u64);
        self.streams.send(peer, GET, &[&words([offset, len]), &number.to_le_bytes()])?;
        Ok(number)
    }

    /// What a get brought, if it is here.
    pub fn try_got(&self, number: u64) -> Option<Vec<u8>> {
        lock(&self.gets).answers.remove(&number)
    }

    /// Puts that came to their end here.
    pub fn put_count(&self) -> u64 {
        lock(&self.pages).put_count
    }

    /// Bytes of the own part; nothing while a put is arriving there, or if it is not that long.
    pub fn load(&self, offset: usize, len: usize) -> Option<Vec<u8>> {
        let pages = lock(&self.pages);
        let mut bytes = Vec::with_capacity(len);
        for (page, range) in pieces(offset, len, self.len)? {
            bytes.extend_from_slice(&pages.pages[page].as_ref()?[range]);
        }
        Some(bytes)
    }
}

fn words(words: [u64; 2]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&words[0].to_le_bytes());
    bytes[8..].copy_from_slice(&words[1].to_le_bytes());
    bytes
}

async fn receive_word(stream: &mut Stream) -> Result<u64, Error> {
    let mut word = [0; 8];
    stream.receive(&mut word).await?;
    Ok(u64::from_le_bytes(word))
}

async fn receive_place(stream: &mut Stream) -> Result<(usize, usize), Error> {
    let (offset, len) = (receive_word(stream).await?, receive_word(stream).await?);
    let word = |word| usize::try_from(word).unwrap_or(usize::MAX);
    Ok((word(offset), word(len)))
}

/// A range of the array, by pages; nothing if it does not lie in it.
fn pieces(
    offset: usize,
    len: usize,
    array_len: usize,
) -> Option<impl Iterator<Item = (usize, std::ops::Range<usize>)>> {
    let end = offset.checked_add(len).filter(|&end| end <= array_len)?;
    let first = offset / PAGE_LEN;
    Some((first..end.div_ceil(PAGE_LEN)).map(move |page| {
        let start = page * PAGE_LEN;
        (page, offset.max(start) - start..end.min(start + PAGE_LEN) - start)
    }))
}

/// Takes a page out of the array, when nobody else has it.
async fn take_page(pages: &Mutex<Pages>, page: usize) -> Box<[u8]> {
    poll_fn(|context| match lock(pages).pages[page].take() {
        Some(taken) => Poll::Ready(taken),
        None => {
            context.waker().wake_by_ref(); // at the next extraction
            Poll::Pending
        }
    })
    .await
}

async fn on_put(stream: &mut Stream, pages: &Mutex<Pages>, array_len: usize) -> Result<(), Error> {
    let (offset, len) = receive_place(stream).await?;
    let Some(pieces) = pieces(offset, len, array_len) else { return Ok(()) };
    for (page, range) in pieces {
        let mut taken = take_page(pages, page).await;
        let received = stream.receive(&mut taken[range]).await;
        lock(pages).pages[page] = Some(taken);
        received?;
    }
    lock(pages).put_count += 1;
    Ok(())
}

async fn on_get(
    stream: &mut Stream,
    sender: Peer,
    pages: &Mutex<Pages>,
    array_len: usize,
) -> Result<(), Error> {
    let (offset, len) = receive_place(stream).await?;
    let number = receive_word(stream).await?;
    let Some(pieces) = pieces(offset, len, array_len) else { return Ok(()) };
    let mut answer = stream.begin(sender, GOT)?;
    answer.send_async(&words([number, len as u64])).await?;
    for (page, range) in pieces {
        let taken = take_page(pages, page).await;
        let sent = answer.send_async(&taken[range]).await;
        lock(pages).pages[page] = Some(taken);
        sent?;
    }
    answer.end()
}

async fn on_got(stream: &mut Stream, gets: &Mutex<Gets>, array_len: usize) -> Result<(), Error> {
    let (number, len) = receive_place(stream).await?;
    let mut answer = vec![0; len.min(array_len)];
    stream.receive(&mut answer).await?;
    let mut gets = lock(gets);
    if number as u64 <= gets.next_number {
        gets.answers.insert(number as u64, answer);
    }
    Ok(())
}
