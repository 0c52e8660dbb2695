//! What the shared memory link alone costs: `cargo run --release -p packhorse-link --example shm_link [count]`.
//!
//! The other end is a second process. Each spins, so each wants a core of its own: the second is started by `taskset` on core 1,
//! the first is best started by `taskset -c 0`. Times are of short batches, of which the quickest and the middle one are shown.
//!
//! With `count` one process plays both ends, for a tool that counts instructions in `send_one`, `receive_one`, …:
//! `valgrind --tool=callgrind --toggle-collect='shm_link::send_one' …/shm_link count`.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use packhorse_link::burst::Train;
use packhorse_link::mem::Table;
use packhorse_link::shm::{Shm, ShmConfig, Use};
use packhorse_link::{Burst, Landing, Link, Locator};

/// Many short batches: on a busy machine some of them are not disturbed.
const BATCH_COUNT: usize = 301;
/// Round trips of a batch.
const ROUND_COUNT: usize = 200;
/// Frames counted.
const COUNTED: usize = 1000;
/// Peers of an endpoint that is asked for nothing.
const CROWD_COUNT: usize = 31;
/// Frames that begin so are answered together.
const COUNTED_MARK: u8 = b'w';
const WINDOW_COUNT: usize = 64;
const HEAD_LEN: usize = 48;
const PAYLOAD_LEN: usize = 16_000;
/// Frames of a train.
const TRAIN_COUNT: usize = 4;
const MESSAGE_LEN: usize = 1 << 20;
const MESSAGE_COUNT: usize = 300;
/// An end that hears nothing for so long gives up.
const PATIENCE: Duration = Duration::from_secs(20);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        [] => run(),
        ["count"] => count(),
        ["echo"] => echo(),
        _ => Err("usage: shm_link [count]".into()),
    };
    if let Err(error) = done {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

/// The process at the other end.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start() -> Result<(Other, Locator)> {
    let program = std::env::current_exe()?;
    let mut child = Command::new("taskset");
    child.args(["-c", "1"]).arg(program).arg("echo").stdout(Stdio::piped());
    let mut child = child.spawn()?;
    let out = child.stdout.take().ok_or("no output")?;
    let other = Other(child);
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    let mut locator = [0; 24];
    for (n, byte) in locator.iter_mut().enumerate() {
        *byte = u8::from_str_radix(line.get(2 * n..2 * n + 2).ok_or("no locator")?, 16)?;
    }
    Ok((other, locator))
}

fn run() -> Result<()> {
    let mut link = Shm::open(&ShmConfig::default())?;
    println!("{:?}", link.about());
    let (_other, to) = start()?;
    for len in [8, 48, 64, 1024] {
        let times = ping_pong(&mut link, to, len)?;
        show(&format!("half round trip of {len} bytes"), times, None);
    }
    show("one of 64 frames of 64 bytes, sent together", many(&mut link, to)?, None);
    for (cma, what) in [(Use::Auto, "read from the sender's memory"), (Use::Off, "by the ring")] {
        let mut link = Shm::open(&ShmConfig { cma, ..ShmConfig::default() })?;
        let times = stream(&mut link, to)?;
        show(&format!("messages of {MESSAGE_LEN} bytes, {what}"), times, Some(MESSAGE_LEN));
    }
    let (mut idle, mut memory) = (Shm::open(&ShmConfig::default())?, Table::default());
    let start = Instant::now();
    for _ in 0..1_000_000 {
        idle.receive(None, &mut memory)?;
    }
    println!("receive with nothing there: {:.1} ns", start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

/// Times are of one thing each, in nanoseconds.
fn show(name: &str, mut times: Vec<f64>, len: Option<usize>) {
    times.sort_by(f64::total_cmp);
    let (least, middle) = (times[0], times[times.len() / 2]);
    match len {
        Some(len) => {
            let rate = |ns: f64| len as f64 / ns;
            println!("{name}: best {:.2} GB/s, median {:.2} GB/s", rate(least), rate(middle));
        }
        None => println!("{name}: best {least:.0} ns, median {middle:.0} ns"),
    }
}

fn one(to: Locator, bytes: &[u8]) -> Burst {
    let mut burst = Burst::default();
    burst.begin(to);
    burst.head(bytes);
    burst
}

fn ping_pong(link: &mut Shm, to: Locator, len: usize) -> Result<Vec<f64>> {
    let (burst, mut memory) = (one(to, &vec![1; len]), Table::default());
    let mut times = Vec::new();
    for _ in 0..BATCH_COUNT {
        let start = Instant::now();
        for _ in 0..ROUND_COUNT {
            while link.send(&burst, 0, &mut memory)? == 0 {}
            while link.receive(None, &mut memory)? == 0 {
                std::hint::spin_loop();
            }
            if start.elapsed() > PATIENCE {
                return Err("no answer".into());
            }
        }
        times.push(start.elapsed().as_nanos() as f64 / ROUND_COUNT as f64 / 2.0);
    }
    Ok(times)
}

/// Bursts of short frames, each when the other end has said that it has the one before.
fn many(link: &mut Shm, to: Locator) -> Result<Vec<f64>> {
    let (mut burst, mut memory) = (Burst::default(), Table::default());
    for _ in 0..WINDOW_COUNT {
        burst.begin(to);
        burst.head(&[COUNTED_MARK; 64]);
    }
    let mut times = Vec::new();
    for _ in 0..BATCH_COUNT {
        let start = Instant::now();
        for _ in 0..ROUND_COUNT / 10 {
            let mut sent = 0;
            while sent < burst.len() {
                sent += link.send(&burst, sent, &mut memory)?;
            }
            while link.receive(None, &mut memory)? == 0 {
                std::hint::spin_loop();
            }
            if start.elapsed() > PATIENCE {
                return Err("no answer".into());
            }
        }
        times.push(start.elapsed().as_nanos() as f64 / (ROUND_COUNT / 10 * WINDOW_COUNT) as f64);
    }
    Ok(times)
}

/// One message after the other, each when the other end has said that it has the one before.
fn stream(link: &mut Shm, to: Locator) -> Result<Vec<f64>> {
    let mut memory = Table::default();
    let id = memory.insert(vec![7; MESSAGE_LEN].into());
    let mut burst = Burst::default();
    let mut at = 0;
    while at < MESSAGE_LEN {
        let len = (MESSAGE_LEN - at).min(TRAIN_COUNT * PAYLOAD_LEN);
        let count = len.div_ceil(PAYLOAD_LEN);
        let last_len = (len - (count - 1) * PAYLOAD_LEN) as u32;
        let (head_len, payload_len) = (HEAD_LEN as u32, PAYLOAD_LEN as u32);
        let offset = at as u64;
        let train = Train { count: count as u32, head_len, payload_len, last_len, id, offset };
        burst.train(to, &vec![7; HEAD_LEN * count], train);
        at += len;
    }
    while link.send(&one(to, b"again"), 0, &mut memory)? == 0 {}
    let mut times = Vec::new();
    for _ in 0..MESSAGE_COUNT {
        let start = Instant::now();
        let (mut sent, mut is_done) = (0, false);
        while !is_done {
            if sent < burst.len() {
                sent += link.send(&burst, sent, &mut memory)?;
            }
            is_done = link.receive(None, &mut memory)? > 0;
            if start.elapsed() > PATIENCE {
                return Err("no answer".into());
            }
        }
        times.push(start.elapsed().as_nanos() as f64);
    }
    Ok(times)
}

/// Sends short frames back; takes long ones where they belong and says when a message is complete.
fn echo() -> Result<()> {
    let mut link = Shm::open(&ShmConfig::default())?;
    let hex: String = link.locator().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{hex}");
    std::io::stdout().flush()?;
    let mut memory = Table::default();
    let id = memory.insert(vec![0; MESSAGE_LEN].into());
    let (mut got, mut is_streaming, mut burst) = (0, false, Burst::default());
    let mut counted = 0;
    loop {
        let landing = Landing {
            id,
            offset: got as u64,
            len: (MESSAGE_LEN - got) as u64,
            head_len: HEAD_LEN,
            payload_len: PAYLOAD_LEN,
        };
        let count = link.receive(is_streaming.then_some(&landing), &mut memory)?;
        burst.clear();
        for index in 0..count {
            let arrived = link.arrived(index);
            for frame in arrived.whole(PAYLOAD_LEN) {
                match frame {
                    b"again" => (is_streaming, got) = (true, 0),
                    frame if is_streaming => got += frame.len() - HEAD_LEN,
                    [COUNTED_MARK, ..] => {
                        counted += 1;
                        if counted % WINDOW_COUNT == 0 {
                            burst.begin(arrived.from);
                            burst.head(frame);
                        }
                    }
                    frame => {
                        burst.begin(arrived.from);
                        burst.head(frame);
                    }
                }
            }
            if let Some(landed) = arrived.landed {
                got += (landed.count - 1) * PAYLOAD_LEN + landed.last_len;
            }
            if got == MESSAGE_LEN {
                got = 0;
                burst.begin(arrived.from);
                burst.head(b"done");
            }
        }
        let mut sent = 0;
        while sent < burst.len() {
            sent += link.send(&burst, sent, &mut memory)?;
        }
        if count == 0 {
            std::hint::spin_loop();
        }
    }
}

#[inline(never)]
fn send_one(link: &mut Shm, burst: &Burst, memory: &mut Table) -> usize {
    link.send(burst, 0, memory).unwrap_or(0)
}

#[inline(never)]
fn receive_one(link: &mut Shm, memory: &mut Table) -> usize {
    let count = link.receive(None, memory).unwrap_or(0);
    (0..count).map(|index| link.arrived(index).bytes.len()).sum()
}

#[inline(never)]
fn receive_none(link: &mut Shm, memory: &mut Table) -> usize {
    link.receive(None, memory).unwrap_or(0)
}

/// A look for frames with many peers, of whom none has anything to say: a function of its own, so that a profile names it.
#[inline(never)]
fn receive_crowd(link: &mut Shm, memory: &mut Table) -> bool {
    link.receive(None, memory).is_ok_and(|count| count == 0)
}

/// Both ends in one process, one frame at a time.
fn count() -> Result<()> {
    let (mut a, mut b) = (Shm::open(&ShmConfig::default())?, Shm::open(&ShmConfig::default())?);
    let (burst, mut memory) = (one(b.locator(), &[1; 64]), Table::default());
    // The first of each makes the ring.
    a.send(&burst, 0, &mut memory)?;
    while b.receive(None, &mut memory)? == 0 {}
    let mut len = 0;
    for _ in 0..COUNTED {
        send_one(&mut a, &burst, &mut memory);
        len += receive_one(&mut b, &mut memory);
        receive_none(&mut b, &mut memory);
    }
    println!("{COUNTED} frames, {len} bytes");
    let mut crowd = Vec::new();
    for _ in 0..CROWD_COUNT {
        let mut peer = Shm::open(&ShmConfig::default())?;
        peer.send(&burst, 0, &mut memory)?;
        while b.receive(None, &mut memory)? == 0 {}
        crowd.push(peer);
    }
    let quiet = (0..COUNTED).filter(|_| receive_crowd(&mut b, &mut memory)).count();
    println!("nothing {quiet} times from {} peers", crowd.len() + 1);
    Ok(())
}
