//! Nodes tell each other their addresses, under the secret of their job.
//!
//! ```text
//!   node 0                                            node n
//!          ◀────────────── connects ───────────────
//!   greeting: mark 16 bytes, nonce 16 ─────────────▶
//!          ◀─ call, sealed for that nonce ──────────  own nonce 16, n u32, nodes u32, address
//!   when all have called, or the time is up:
//!   answer, sealed for both nonces ────────────────▶  0 and all addresses, one per line; or 1 and why not
//!   or nothing in an answer ───────────────────────▶  the call did not open: the secret is another
//! ```
//!
//! Call and answer have their length (u32, little-endian) in front. The nonces make both of today: who recorded a meeting cannot play it again, to either side.
//! Whoever does not know the secret learns a nonce. Node 0 waits for nobody in particular: it listens to all callers at once, to so many at most (the
//! oldest makes way), and all of it ends at a time that is known beforehand.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::secret::{SEAL_LEN, Secret, random};

const MARK: [u8; 16] = *b"packhorse fm 1\r\n";
const GREETING_LEN: usize = 32;
const NONCE_LEN: usize = 16;
/// The longest text of an address.
const ADDRESS_LEN_MAX: usize = 256;
/// Bytes of a call before its address.
const CALL_HEAD_LEN: usize = NONCE_LEN + 8;
const CALL_LEN_MAX: usize = SEAL_LEN + CALL_HEAD_LEN + ADDRESS_LEN_MAX;
/// The longest "why not".
const WHY_LEN_MAX: usize = 1024;
/// Callers that have not said yet who they are.
const CALLER_COUNT_MAX: usize = 256;
/// Between two looks, and two calls.
const PAUSE: Duration = Duration::from_millis(5);
const CALL_AGAIN: Duration = Duration::from_millis(50);
/// An answer is in the system's hands within this time, or its caller is gone.
const ANSWER_LONGEST: Duration = Duration::from_secs(10);
/// Numbers of missing nodes that an error names.
const NAMED_COUNT_MAX: usize = 16;

const IS_ALL: u8 = 0;
const IS_WHY: u8 = 1;

/// Who meets where, until when.
pub(crate) struct Job<'a> {
    pub(crate) place: &'a str,
    pub(crate) count: usize,
    pub(crate) secret: &'a Secret,
    pub(crate) until: Instant,
}

impl Job<'_> {
    fn answer_len_max(&self) -> usize {
        SEAL_LEN + 1 + (self.count * (ADDRESS_LEN_MAX + 1)).max(WHY_LEN_MAX)
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}

type Nonce = [u8; NONCE_LEN];

fn call_purpose(of_host: &Nonce) -> Vec<u8> {
    [&b"call"[..], of_host].concat()
}

fn answer_purpose(of_host: &Nonce, of_caller: &Nonce) -> Vec<u8> {
    [&b"answer"[..], of_host, of_caller].concat()
}

/// What a node says of itself.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    nonce: Nonce,
    id: usize,
    count: usize,
    address: String,
}

impl Call {
    fn to_bytes(&self) -> Vec<u8> {
        let (id, count) = (self.id as u32, self.count as u32);
        [&self.nonce[..], &id.to_le_bytes(), &count.to_le_bytes(), self.address.as_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (nonce, rest) = bytes.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (count, address) = rest.split_first_chunk()?;
        let address = std::str::from_utf8(address).ok().filter(|text| is_address(text))?;
        let (id, count) = (u32::from_le_bytes(*id) as usize, u32::from_le_bytes(*count) as usize);
        Some(Self { nonce: *nonce, id, count, address: address.to_owned() })
    }
}

/// Whether it may be an address: one line.
fn is_address(text: &str) -> bool {
    (1..=ADDRESS_LEN_MAX).contains(&text.len()) && !text.contains(['\n', '\r'])
}

/// A connection whose caller has not said yet who that is.
struct Caller {
    stream: TcpStream,
    nonce: Nonce,
    heard: Vec<u8>,
}

/// What a caller's bytes are so far.
#[derive(Debug)]
enum Heard {
    NotAll,
    Call(Vec<u8>),
    /// It hung up, or says too much.
    Over,
}

impl Caller {
    fn greet(mut stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let nonce = random()?;
        // It fits into the room that every new connection has.
        stream.write_all(&[MARK, nonce].concat())?;
        Ok(Self { stream, nonce, heard: Vec::new() })
    }

    fn listen(&mut self) -> Heard {
        let mut piece = [0; 4 + CALL_LEN_MAX + 1];
        match self.stream.read(&mut piece) {
            Ok(0) => return Heard::Over,
            Ok(len) => self.heard.extend_from_slice(&piece[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::NotAll,
            Err(_) => return Heard::Over,
        }
        let Some((len, rest)) = self.heard.split_first_chunk() else { return Heard::NotAll };
        let len = u32::from_le_bytes(*len) as usize;
        match rest.len().cmp(&len) {
            _ if len > CALL_LEN_MAX => Heard::Over,
            std::cmp::Ordering::Less => Heard::NotAll,
            std::cmp::Ordering::Equal => Heard::Call(rest.to_vec()),
            std::cmp::Ordering::Greater => Heard::Over,
        }
    }
}

/// A node that said who it is, and waits for the others.
struct Seat {
    caller: Caller,
    call: Call,
}

impl Seat {
    fn answer(&mut self, secret: &Secret, kind: u8, text: &str) -> io::Result<()> {
        let purpose = answer_purpose(&self.caller.nonce, &self.call.nonce);
        let sealed = secret.seal(&purpose, &[&[kind], text.as_bytes()].concat())?;
        send_frame(&mut self.caller.stream, &sealed)
    }
}

fn send_frame(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(ANSWER_LONGEST))?;
    stream.write_all(&[&(bytes.len() as u32).to_le_bytes(), bytes].concat())
}

/// Node 0: all others call.
pub(crate) fn host(job: &Job<'_>, address: &str) -> Result<Vec<String>, String> {
    let listener = TcpListener::bind(job.place).map_err(|error| error.to_string())?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let mut table = Table::new(job);
    while !table.is_full() {
        if job.is_over() {
            return Err(table.give_up());
        }
        if !table.look(&listener) {
            sleep(PAUSE);
        }
    }
    let calls = table.seats.iter().flatten().map(|seat| seat.call.address.as_str());
    let all: Vec<String> = std::iter::once(address).chain(calls).map(str::to_owned).collect();
    let text = all.join("\n");
    for seat in table.seats.iter_mut().flatten() {
        let id = seat.call.id;
        seat.answer(job.secret, IS_ALL, &text).map_err(|error| {
            format!("node {id} called and did not wait for the answer: {error}")
        })?;
    }
    Ok(all)
}

/// Where node 0 seats those that called.
struct Table<'a> {
    job: &'a Job<'a>,
    callers: VecDeque<Caller>,
    /// Of nodes 1, 2 …
    seats: Vec<Option<Seat>>,
    /// Calls that did not open.
    stranger_count: usize,
}

impl<'a> Table<'a> {
    fn new(job: &'a Job<'a>) -> Self {
        let seats = (1..job.count).map(|_| None).collect();
        Self { job, callers: VecDeque::new(), seats, stranger_count: 0 }
    }

    fn is_full(&self) -> bool {
        self.seats.iter().all(Option::is_some)
    }

    /// Tells those that are here who is missing.
    fn give_up(&mut self) -> String {
        let why = self.who_is_missing();
        for seat in self.seats.iter_mut().flatten() {
            let _ = seat.answer(self.job.secret, IS_WHY, &why); // it may be gone, too
        }
        why
    }

    fn who_is_missing(&self) -> String {
        let missing = (1..).zip(&self.seats).filter(|(_, seat)| seat.is_none());
        let missing: Vec<String> = missing.map(|(id, _): (usize, _)| id.to_string()).collect();
        let named = missing.iter().take(NAMED_COUNT_MAX).map(String::as_str);
        let mut text =
            format!("in time there came no call of node {}", named.collect::<Vec<_>>().join(", "));
        if missing.len() > NAMED_COUNT_MAX {
            text += &format!(" and {} more", missing.len() - NAMED_COUNT_MAX);
        }
        if self.stranger_count > 0 {
            text += &format!("; {} calls came with another secret", self.stranger_count);
        }
        text
    }

    /// Takes new callers, and what callers say. Whether there was anything.
    fn look(&mut self, listener: &TcpListener) -> bool {
        let mut is_new = false;
        // What else `accept` may say is about one caller, or passes.
        while let Ok((stream, _)) = listener.accept() {
            is_new = true;
            self.callers.extend(Caller::greet(stream).ok());
            if self.callers.len() > CALLER_COUNT_MAX {
                self.callers.pop_front();
                break; // those that are here have their turn
            }
        }
        for _ in 0..self.callers.len() {
            let Some(mut caller) = self.callers.pop_front() else { break };
            match caller.listen() {
                Heard::NotAll => self.callers.push_back(caller),
                Heard::Over => is_new = true,
                Heard::Call(sealed) => {
                    is_new = true;
                    self.on_call(caller, &sealed);
                }
            }
        }
        is_new
    }

    fn on_call(&mut self, mut caller: Caller, sealed: &[u8]) {
        let Job { secret, count, .. } = *self.job;
        let opened = secret.open(&call_purpose(&caller.nonce), sealed);
        let Some(call) = opened.as_deref().and_then(Call::from_bytes) else {
            self.stranger_count += 1;
            let _ = send_frame(&mut caller.stream, &[]); // who is a stranger need not listen
            return;
        };
        let (id, their_count) = (call.id, call.count);
        let mut seat = Seat { caller, call };
        let place = id.checked_sub(1).and_then(|at| self.seats.get_mut(at));
        let why = match place {
            _ if their_count != count => {
                format!("the file of node {id} names {their_count} nodes, that of node 0 {count}")
            }
            None => format!("there is no node {id} to be met"),
            Some(Some(_)) => {
                format!("node {id} has called already: two programs have FM_NODE={id}")
            }
            Some(place) => {
                *place = Some(seat);
                return;
            }
        };
        let _ = seat.answer(secret, IS_WHY, &why); // it may be gone
    }
}

/// How one call of node 0 ended.
enum Called {
    Met(Vec<String>),
    /// Node 0 is not there yet, or had to let us go: we may call again.
    Again(io::Error),
    Refused(String),
}

impl From<io::Error> for Called {
    fn from(error: io::Error) -> Self {
        Self::Again(error)
    }
}

/// Another node: calls node 0, which may not be there yet.
pub(crate) fn join(job: &Job<'_>, id: usize, address: &str) -> Result<Vec<String>, String> {
    loop {
        match call(job, id, address).unwrap_or_else(|end| end) {
            Called::Met(addresses) => return Ok(addresses),
            Called::Refused(why) => return Err(why),
            Called::Again(error) if job.is_over() => {
                return Err(format!("node 0 did not answer in time: {error}"));
            }
            Called::Again(_) => sleep(CALL_AGAIN),
        }
    }
}

fn call(job: &Job<'_>, id: usize, address: &str) -> Result<Called, Called> {
    let mut stream = connect(job)?;
    let mut greeting = [0; GREETING_LEN];
    read_until(&mut stream, &mut greeting, job.until)?;
    let (mark, of_host) = greeting.split_first_chunk::<NONCE_LEN>().expect("two halves");
    let Some(of_host) = of_host.first_chunk().filter(|_| *mark == MARK) else {
        return Err(Called::Refused("what answers there is not node 0 of such a job".into()));
    };
    let call = Call { nonce: random()?, id, count: job.count, address: address.to_owned() };
    let sealed = job.secret.seal(&call_purpose(of_host), &call.to_bytes())?;
    send_frame(&mut stream, &sealed)?;
    let mut len = [0; 4];
    read_until(&mut stream, &mut len, job.until)?;
    let len = u32::from_le_bytes(len) as usize;
    if len == 0 {
        let why = "node 0 has another secret: FM_SECRET must name the same digits on all nodes";
        return Err(Called::Refused(why.into()));
    }
    if len > job.answer_len_max() {
        return Err(Called::Refused(format!("an answer of {len} bytes makes no sense")));
    }
    let mut answer = vec![0; len];
    read_until(&mut stream, &mut answer, job.until)?;
    let opened = job.secret.open(&answer_purpose(of_host, &call.nonce), &answer);
    Ok(conclude(job, opened.as_deref()))
}

/// What an answer says.
fn conclude(job: &Job<'_>, opened: Option<&[u8]>) -> Called {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match opened.and_then(<[u8]>::split_first) {
        Some((&IS_ALL, all)) => {
            let all: Vec<String> = text(all).lines().map(str::to_owned).collect();
            match all.len() == job.count {
                true => Called::Met(all),
                false => Called::Refused(format!("{} of {} addresses came", all.len(), job.count)),
            }
        }
        Some((&IS_WHY, why)) => Called::Refused(text(why)),
        _ => Called::Refused("an answer came that node 0 did not seal".into()),
    }
}

fn connect(job: &Job<'_>) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for place in job.place.to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, left(job.until)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The time until then, never nothing: the system takes that for "for ever".
fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

fn read_until(stream: &mut TcpStream, bytes: &mut [u8], until: Instant) -> io::Result<()> {
    let mut at = 0;
    while at < bytes.len() {
        if Instant::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left(until)))?;
        match stream.read(&mut bytes[at..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => at += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
