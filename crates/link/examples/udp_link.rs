//! What the UDP link alone costs: `cargo run --release -p packhorse-link --example udp_link [frame_len]`.
//!
//! One thread plays both ends over the loopback interface, so that no scheduler and no second core is in the figures:
//! each is the time of all calls on both sides, in short batches, of which the quickest and the middle one are shown.

use std::io;
use std::time::Instant;

use packhorse_link::mem::{MemoryId, Table};
use packhorse_link::udp::{Udp, UdpConfig, Use};
use packhorse_link::{Burst, Landing, Link};

/// Many short batches: on a busy machine some of them are not disturbed.
const BATCH_COUNT: usize = 301;
const HEAD_LEN: usize = 40;
/// Length of the message that is streamed again and again.
const MESSAGE_LEN: usize = 4 << 20;
/// Frames are sent in groups of about this length.
const TRAIN_LEN: usize = 65_000;
/// On its way at a time.
const WINDOW_LEN: usize = 128 << 10;

fn main() {
    let frame_len = std::env::args().nth(1).map_or(Ok(1472), |text| text.parse::<usize>());
    let Ok(frame_len @ 41..=65_507) = frame_len else {
        eprintln!("frame_len must be a number from 41 to 65507");
        std::process::exit(2);
    };
    if let Err(error) = run(frame_len) {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run(frame_len: usize) -> Result<(), Box<dyn std::error::Error>> {
    let config = UdpConfig::at("127.0.0.1:0".parse()?);
    let plain = UdpConfig { gso: Use::Off, gro: Use::Off, ..config.clone() };
    let (mut a, mut b) = (Udp::open(&config)?, Udp::open(&config)?);
    println!("{:?}", a.about());
    show("ping-pong of one 48-byte frame, there and back", ping_pong(&mut a, &mut b)?, None);
    show("empty poll", empty_poll(&mut a, None)?, None);
    let landing = Landing {
        id: MemoryId(0),
        offset: 0,
        len: MESSAGE_LEN as u64,
        head_len: HEAD_LEN,
        payload_len: frame_len - HEAD_LEN,
    };
    show("empty poll with a landing", empty_poll(&mut a, Some(landing))?, None);
    let name = format!("stream of {MESSAGE_LEN} in frames of {frame_len}");
    let times = stream(&mut a, &mut b, frame_len, true)?;
    show(&format!("{name}, trains, landed"), times, Some(MESSAGE_LEN));
    let times = stream(&mut a, &mut b, frame_len, false)?;
    show(&format!("{name}, trains, not landed"), times, Some(MESSAGE_LEN));
    b.each_counter(&mut |name, value| print!("{name} {value}  "));
    println!();
    let (mut a, mut b) = (Udp::open(&plain)?, Udp::open(&plain)?);
    let times = stream(&mut a, &mut b, frame_len, true)?;
    show(&format!("{name}, single datagrams, landed"), times, Some(MESSAGE_LEN));
    b.each_counter(&mut |name, value| print!("{name} {value}  "));
    println!();
    Ok(())
}

/// Times are of one thing each, in nanoseconds.
fn show(name: &str, mut times: Vec<f64>, len: Option<usize>) {
    times.sort_by(f64::total_cmp);
    let (least, middle) = (times[0], times[times.len() / 2]);
    match len {
        Some(len) => {
            let rate = |ns: f64| len as f64 / ns;
            println!("{name}: best {:.3} GB/s, median {:.3} GB/s", rate(least), rate(middle));
        }
        None => println!("{name}: best {least:.1} ns, median {middle:.1} ns"),
    }
}

fn timed(count: usize, mut work: impl FnMut() -> io::Result<()>) -> io::Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..BATCH_COUNT {
        let start = Instant::now();
        for _ in 0..count {
            work()?;
        }
        times.push(start.elapsed().as_nanos() as f64 / count as f64);
    }
    Ok(times)
}

fn ping_pong(a: &mut Udp, b: &mut Udp) -> io::Result<Vec<f64>> {
    let mut memory = Table::default();
    let (mut to_b, mut to_a) = (Burst::default(), Burst::default());
    let mut hop = |from: &mut Udp, to: &mut Udp, burst: &mut Burst| -> io::Result<()> {
        burst.clear();
        burst.begin(to.locator());
        burst.head(&[7; 48]);
        from.send(burst, 0, &mut memory)?;
        while to.receive(None, &mut memory)? == 0 {}
        assert_eq!(to.arrived(0).bytes.len(), 48);
        Ok(())
    };
    timed(100, || {
        hop(a, b, &mut to_b)?;
        hop(b, a, &mut to_a)
    })
}

fn empty_poll(link: &mut Udp, landing: Option<Landing>) -> io::Result<Vec<f64>> {
    let mut memory = Table::default();
    let id = memory.insert(vec![0; MESSAGE_LEN].into());
    let landing = landing.map(|landing| Landing { id, ..landing });
    timed(500, || link.receive(landing.as_ref(), &mut memory).map(drop))
}

fn stream(a: &mut Udp, b: &mut Udp, frame_len: usize, lands: bool) -> io::Result<Vec<f64>> {
    let (payload_len, to) = (frame_len - HEAD_LEN, b.locator());
    // Whole trains, so that it is they that are measured.
    let per_train = (TRAIN_LEN / frame_len).max(1);
    let mut memory = Table::default();
    let source = memory.insert(vec![1; MESSAGE_LEN].into());
    let target = memory.insert(vec![0; MESSAGE_LEN].into());
    let mut burst = Burst::default();
    timed(1, || {
        let (mut sent, mut received) = (0, 0);
        while received < MESSAGE_LEN {
            burst.clear();
            while sent < MESSAGE_LEN && sent - received < WINDOW_LEN {
                for _ in 0..per_train {
                    let len = payload_len.min(MESSAGE_LEN - sent);
                    if len > 0 {
                        burst.begin(to);
                        burst.head(&[3; HEAD_LEN]);
                        burst.user(source, sent as u64, len as u32);
                    }
                    sent += len;
                }
            }
            let mut at = 0;
            while at < burst.len() {
                at += a.send(&burst, at, &mut memory)?;
            }
            let landing = Landing {
                id: target,
                offset: received as u64,
                len: (MESSAGE_LEN - received) as u64,
                head_len: HEAD_LEN,
                payload_len,
            };
            let count = b.receive(lands.then_some(&landing), &mut memory)?;
            for index in 0..count {
                let arrived = b.arrived(index);
                if let Some(landed) = arrived.landed {
                    received += (landed.count - 1) * payload_len + landed.last_len;
                } else {
                    received += arrived.whole(0).map(|frame| frame.len() - HEAD_LEN).sum::<usize>();
                }
            }
        }
        Ok(())
    })
}
