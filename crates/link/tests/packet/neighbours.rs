//! Others on the same interface.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::frames::{echoed, pattern, send};
use crate::hosts::{Hosts, finished};
use crate::{PATIENCE, hex, locator_of};

/// Echoes what comes by TCP, and takes a bulk flow beside it.
pub(crate) fn serve() {
    let listener = TcpListener::bind("10.98.0.2:7001").unwrap();
    println!("\nlocator {}", hex(&[0; 24]));
    let mut all = Vec::new();
    for _ in 0..2 {
        let (mut stream, _) = listener.accept().unwrap();
        all.push(std::thread::spawn(move || {
            let mut kind = [0];
            stream.read_exact(&mut kind).unwrap();
            let mut bytes = vec![0; 1 << 16];
            while let Ok(len @ 1..) = stream.read(&mut bytes) {
                if kind[0] == b'e' {
                    stream.write_all(&bytes[..len]).unwrap();
                }
            }
        }));
    }
    all.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A session that types and waits, and a bulk flow, until told to end.
pub(crate) fn neighbour() {
    let connect = |kind: u8| {
        let mut stream = TcpStream::connect("10.98.0.2:7001").unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&[kind]).unwrap();
        stream
    };
    let (mut session, mut bulk) = (connect(b'e'), connect(b'b'));
    println!("\nlocator {}", hex(&[0; 24]));
    let end = std::thread::spawn(|| std::io::stdin().read_line(&mut String::new()));
    let (mut keys, mut bulk_len, block) = (0_u64, 0, vec![7; 1 << 16]);
    let (mut worst, mut last) = (Duration::ZERO, Instant::now());
    while !end.is_finished() {
        bulk.write_all(&block).unwrap();
        bulk_len += block.len();
        session.write_all(&keys.to_le_bytes()).unwrap();
        let mut back = [0; 8];
        session.read_exact(&mut back).unwrap();
        assert_eq!(back, keys.to_le_bytes());
        keys += 1;
        worst = worst.max(last.elapsed());
        last = Instant::now();
    }
    println!("\nneighbour keys {keys} bulk {bulk_len} worst {worst:?}");
}

/// TCP beside us: opening, traffic, the end of our process by force. Nothing of it may be lost, which is what it would wait for: the
/// longest wait is printed, and every answer comes.
#[test]
#[ignore = "needs root and iproute2"]
fn neighbours_are_not_disturbed() {
    let hosts = Hosts::new(1500);
    let mut server = hosts.start(1, "serve", Stdio::null());
    locator_of(&mut server);
    let mut near = hosts.start(0, "neighbour", Stdio::piped());
    locator_of(&mut near);
    for _ in 0..3 {
        let mut far = hosts.start(1, "echo eth0", Stdio::null());
        let to = locator_of(&mut far);
        let mut link = hosts.open(0, "eth0", 1);
        for n in 0..2000 {
            echoed(&mut link, to, &pattern(1 + n % 1488, n));
        }
        far.kill().unwrap(); // SIGKILL
        far.wait().unwrap();
        send(&mut link, to, b"to nobody");
    }
    // Frames of ours for nobody are counted as dropped by the host that got them; there is nothing else.
    for (host, name, count) in [(0, "tx", 0), (0, "rx", 0), (1, "tx", 0), (1, "rx", 3)] {
        assert_eq!(hosts.dropped(host, name), count, "{name} on host {host}");
    }
    writeln!(near.stdin.as_mut().unwrap()).unwrap();
    let report = finished(near);
    let line = report.lines().find(|line| line.starts_with("neighbour")).unwrap();
    println!("{line}");
    finished(server);
}
