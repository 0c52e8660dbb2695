//! A server of keys and values that is found by host and number, and clients that come and go.
//!
//! The server knows nobody before: whoever finds it may ask. Greetings say which version of the talk each side speaks, before the
//! first message. `crowd` is many clients, each with an endpoint and a short life of its own, some at once.
//!
//! ```text
//! cargo run --release -p packhorse --example kv -- serve 7
//! cargo run --release -p packhorse --example kv -- put localhost 7 colour chestnut
//! cargo run --release -p packhorse --example kv -- get localhost 7 colour
//! cargo run --release -p packhorse --example kv -- crowd localhost 7 10000
//! PACKHORSE_LINK=udp PACKHORSE_PLACEMENT=inline cargo run --release -p packhorse --example kv -- crowd localhost 7 10000 10000
//! ```
//!
//! With `PACKHORSE_SECRET_FILE` on both sides only those who have that file find the server.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use packhorse::{Endpoint, Greeting, Peer, Reception, Wanted};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const ASK: u64 = 1;
const ANSWER: u64 = 2;
const LEN_MAX: usize = 4096;
/// Values kept at most: clients come from anywhere.
const VALUE_COUNT_MAX: usize = 10_000;
/// Threads of a crowd; clients that are there at the same time, if nobody says.
const THREAD_COUNT: usize = 8;
const USAGE: &str = "serve NUMBER | put HOST NUMBER KEY VALUE | get HOST NUMBER KEY | crowd HOST NUMBER COUNT [AT_ONCE]";

/// What both sides say when they meet.
fn version() -> Greeting {
    let mut greeting = Greeting::default();
    greeting[..4].copy_from_slice(b"kv 1");
    greeting
}

/// One answer, to whoever asks next. A question is a key, or `KEY=VALUE`; the answer is the value, or nothing.
fn answer_next(server: &Endpoint, values: &mut HashMap<String, String>) -> Result<()> {
    let question = match server.recv(Wanted::tag(ASK), vec![0; LEN_MAX]).wait() {
        Ok(question) => question,
        Err(failed) if matches!(failed.error, packhorse::Error::Truncated { .. }) => return Ok(()),
        Err(failed) => return Err(failed.error.into()),
    };
    let text = String::from_utf8_lossy(&question.buffer).into_owned();
    let answer = match text.split_once('=') {
        Some((key, value)) => {
            if values.len() < VALUE_COUNT_MAX || values.contains_key(key) {
                values.insert(key.to_owned(), value.to_owned());
            }
            value.to_owned()
        }
        None => values.get(&text).cloned().unwrap_or_default(),
    };
    // A client that is gone by now wants no answer; a send that is dropped goes on by itself.
    drop(server.send(question.envelope.source, ANSWER, answer.into_bytes()));
    Ok(())
}

fn serve(number: u16) -> Result<()> {
    let receive = |asker: &Greeting| match *asker == version() {
        true => Reception::Welcome(version()),
        false => Reception::Refuse(version()),
    };
    let server = Endpoint::builder().named(number).greeter(receive).open()?;
    println!("serving number {number}; ctrl-C ends it");
    let mut values = HashMap::new();
    loop {
        answer_next(&server, &mut values)?;
    }
}

fn ask(client: &Endpoint, server: Peer, question: &str) -> Result<String> {
    let answer = client.recv(Wanted::tag(ANSWER).from(server), vec![0; LEN_MAX]);
    client.send(server, ASK, question.as_bytes().to_vec()).wait()?;
    Ok(String::from_utf8(answer.wait()?.buffer)?)
}

/// A client that has found the server.
fn arrive(host: &str, number: u16) -> Result<(Endpoint, Peer)> {
    let client = Endpoint::open()?;
    let server = client.find(host, number).greeting(version()).wait()?.peer;
    Ok((client, server))
}

/// The whole life of a client.
fn visit(host: &str, number: u16, questions: &[&str]) -> Result<Vec<String>> {
    let (client, server) = arrive(host, number)?;
    questions.iter().map(|question| ask(&client, server, question)).collect()
}

/// Clients that the server has answered and that have not left yet: now, and at most.
#[derive(Default)]
struct Here {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Here {
    fn come(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
    }

    fn leave(&self, count: usize) {
        self.now.fetch_sub(count, Ordering::Relaxed);
    }
}

/// So many clients that are there together: all have come before the first of them leaves.
fn visit_together(
    host: &str,
    number: u16,
    clients: std::ops::Range<usize>,
    all: &Here,
) -> Result<()> {
    let key = |client: usize| format!("client {}", client % 1000);
    let mut here = Vec::new();
    for client in clients {
        let (endpoint, server) = arrive(host, number)?;
        let value = format!("was {client}");
        assert_eq!(ask(&endpoint, server, &format!("{}={value}", key(client)))?, value);
        here.push((client, endpoint, server));
        all.come();
    }
    for (client, endpoint, server) in &here {
        let answer = ask(endpoint, *server, &key(*client))?;
        assert!(answer.starts_with("was "), "{answer:?}");
    }
    all.leave(here.len());
    Ok(())
}

/// How long it took, and how many were there at the same time at most.
fn crowd(host: &str, number: u16, count: usize, at_once: usize) -> Result<(Duration, usize)> {
    let (next, here, start) = (AtomicUsize::new(0), Here::default(), Instant::now());
    let thread_count = at_once.clamp(1, THREAD_COUNT);
    let together = at_once.div_ceil(thread_count);
    std::thread::scope(|scope| {
        let clients = || -> Result<()> {
            loop {
                let first = next.fetch_add(together, Ordering::Relaxed);
                if first >= count {
                    return Ok(());
                }
                visit_together(host, number, first..count.min(first + together), &here)?;
            }
        };
        let all: Vec<_> = (0..thread_count).map(|_| scope.spawn(clients)).collect();
        all.into_iter().try_for_each(|one| one.join().expect("no client panics"))
    })?;
    Ok((start.elapsed(), here.most.into_inner()))
}

fn tell_crowd(host: &str, number: &str, count: &str, at_once: &str) -> Result<()> {
    let (count, at_once): (usize, usize) = (count.parse()?, at_once.parse()?);
    let (time, most) = crowd(host, number.parse()?, count, at_once)?;
    let rate = count as f64 / time.as_secs_f64();
    println!("{count} clients, {most} at once: {time:.1?}, {rate:.0} a second");
    Ok(())
}

fn run(words: &[&str]) -> Result<()> {
    match *words {
        ["serve", number] => serve(number.parse()?)?,
        ["put", host, number, key, value] => {
            visit(host, number.parse()?, &[&format!("{key}={value}")])?;
        }
        ["get", host, number, key] => {
            println!("{}", visit(host, number.parse()?, &[key])?[0]);
        }
        ["crowd", host, number, count] => tell_crowd(host, number, count, "8")?,
        ["crowd", host, number, count, at_once] => tell_crowd(host, number, count, at_once)?,
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

/// Errors are for people: what Packhorse says of one is more than its name.
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kv: {error}");
            ExitCode::FAILURE
        }
    }
}
