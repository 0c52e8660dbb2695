//! What the packet link alone costs: `cargo run --release -p packhorse-link --example packet_link NAME NAME`.
//!
//! The names are those of two interfaces on one wire, such as both ends of a veth pair (`ip link add NAME type veth peer name
//! NAME`, both up). One thread plays both ends, so that no scheduler and no second core is in the figures: each is the time
//! of all calls on both sides, in short batches, of which the quickest and the middle one are shown.

use std::io;
use std::time::Instant;

use packhorse_link::mem::Table;
use packhorse_link::packet::{Packet, PacketConfig};
use packhorse_link::{Burst, Landing, Link};

/// Many short batches: on a busy machine some of them are not disturbed.
const BATCH_COUNT: usize = 1001;
const HEAD_LEN: usize = 40;
/// Length of the message that is streamed again and again.
const MESSAGE_LEN: usize = 1 << 20;
/// On its way at a time.
const WINDOW_LEN: usize = 128 << 10;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [a, b] = &names[..] else {
        eprintln!("give the names of two interfaces on one wire");
        std::process::exit(2);
    };
    if let Err(error) = run(a, b) {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run(a: &str, b: &str) -> Result<(), Box<dyn std::error::Error>> {
    for bypass_queue in [false, true] {
        let open =
            |name: &str| Packet::open(&PacketConfig { bypass_queue, ..PacketConfig::on(name) });
        let (mut a, mut b) = (open(a)?, open(b)?);
        println!("{:?}{}", a.about(), if bypass_queue { ", past the queue" } else { "" });
        show("ping-pong of one 48-byte frame, there and back", ping_pong(&mut a, &mut b)?, None);
        show("empty poll", empty_poll(&mut a)?, None);
        let times = stream(&mut a, &mut b)?;
        show(&format!("stream of {MESSAGE_LEN}"), times, Some(MESSAGE_LEN));
        b.each_counter(&mut |name, value| print!("{name} {value}  "));
        println!();
    }
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

fn ping_pong(a: &mut Packet, b: &mut Packet) -> io::Result<Vec<f64>> {
    let mut memory = Table::default();
    let (mut to_b, mut to_a) = (Burst::default(), Burst::default());
    let mut hop = |from: &mut Packet, to: &mut Packet, burst: &mut Burst| -> io::Result<()> {
        burst.clear();
        burst.begin(to.locator());
        burst.head(&[7; 48]);
        from.send(burst, 0, &mut memory)?;
        while to.receive(None, &mut memory)? == 0 {}
        assert_eq!(to.arrived(0).bytes.len(), 48);
        Ok(())
    };
    timed(20, || {
        hop(a, b, &mut to_b)?;
        hop(b, a, &mut to_a)
    })
}

fn empty_poll(link: &mut Packet) -> io::Result<Vec<f64>> {
    let mut memory = Table::default();
    timed(500, || link.receive(None, &mut memory).map(drop))
}

fn stream(a: &mut Packet, b: &mut Packet) -> io::Result<Vec<f64>> {
    let (payload_len, to) = (a.about().frame_len_max - HEAD_LEN, b.locator());
    let mut memory = Table::default();
    let source = memory.insert(vec![1; MESSAGE_LEN].into());
    let target = memory.insert(vec![0; MESSAGE_LEN].into());
    let mut burst = Burst::default();
    timed(1, || {
        let (mut sent, mut received) = (0, 0);
        while received < MESSAGE_LEN {
            burst.clear();
            while sent < MESSAGE_LEN && sent - received < WINDOW_LEN {
                let len = payload_len.min(MESSAGE_LEN - sent);
                burst.begin(to);
                burst.head(&[3; HEAD_LEN]);
                burst.user(source, sent as u64, len as u32);
                sent += len;
            }
            let mut at = 0;
            while at < burst.len() {
                at += a.send(&burst, at, &mut memory)?;
            }
            let (offset, len) = (received as u64, (MESSAGE_LEN - received) as u64);
            let landing = Landing { id: target, offset, len, head_len: HEAD_LEN, payload_len };
            let landing = b.about().can_land.then_some(landing);
            for index in 0..b.receive(landing.as_ref(), &mut memory)? {
                let arrived = b.arrived(index);
                if let Some(landed) = arrived.landed {
                    received += landed.last_len;
                }
                for frame in arrived.whole(payload_len) {
                    memory.copy_in(target, received as u64, &frame[HEAD_LEN..]);
                    received += frame.len() - HEAD_LEN;
                }
            }
        }
        Ok(())
    })
}
