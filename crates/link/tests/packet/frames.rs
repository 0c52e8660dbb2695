//! Sending, receiving, counting.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use packhorse_link::mem::Table;
use packhorse_link::packet::Packet;
use packhorse_link::{Burst, Link, Locator};

use crate::{A_WHILE, PATIENCE};

pub(crate) fn counter(link: &impl Link<Table>, name: &str) -> u64 {
    let mut found = None;
    link.each_counter(&mut |known, value| {
        if known == name {
            found = Some(value);
        }
    });
    found.unwrap_or_else(|| panic!("no counter {name}"))
}

pub(crate) fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 31 + seed * 7 + (at >> 8)) & 0xff) as u8).collect()
}

pub(crate) fn burst_of<'a>(to: Locator, frames: impl IntoIterator<Item = &'a [u8]>) -> Burst {
    let mut burst = Burst::default();
    for frame in frames {
        burst.begin(to);
        burst.head(frame);
    }
    burst
}

pub(crate) fn send_all(link: &mut impl Link<Table>, burst: &Burst, memory: &mut Table) {
    let (mut at, until) = (0, Instant::now() + PATIENCE);
    while at < burst.len() {
        assert!(Instant::now() < until, "{at} of {} frames sent", burst.len());
        at += link.send(burst, at, memory).unwrap();
    }
}

pub(crate) fn send(link: &mut impl Link<Table>, to: Locator, frame: &[u8]) {
    send_all(link, &burst_of(to, [frame]), &mut Table::default());
}

/// What arrives until there are so many or it was quiet for long enough, whole, with who sent it.
pub(crate) fn frames_within(
    link: &mut impl Link<Table>,
    count: usize,
    within: Duration,
) -> Vec<(Locator, Vec<u8>)> {
    let (mut found, mut until) = (Vec::new(), Instant::now() + within);
    while found.len() < count && Instant::now() < until {
        for index in 0..link.receive(None, &mut Table::default()).unwrap() {
            let arrived = link.arrived(index);
            assert_eq!(arrived.landed, None);
            until = Instant::now() + within;
            found.extend(arrived.whole(0).map(|frame| (arrived.from, frame.to_vec())));
        }
    }
    found
}

pub(crate) fn frames(link: &mut impl Link<Table>, count: usize) -> Vec<(Locator, Vec<u8>)> {
    let found = frames_within(link, count, PATIENCE);
    assert_eq!(found.len(), count);
    found
}

/// A frame each way. A wire that was just plugged in, or is crowded by others, may lose some: then another is tried.
pub(crate) fn exchange(a: &mut Packet, b: &mut Packet) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    for is_back in [false, true] {
        let (from, to) = if is_back { (&mut *b, &mut *a) } else { (&mut *a, &mut *b) };
        let until = Instant::now() + PATIENCE;
        let is_found = std::iter::repeat_with(|| {
            let text = format!("frame {}", COUNT.fetch_add(1, Ordering::Relaxed)).into_bytes();
            send(from, to.locator(), &text);
            let wanted = (from.locator(), text);
            frames_within(to, 1, 4 * A_WHILE).contains(&wanted)
        });
        assert!(is_found.take_while(|_| Instant::now() < until).any(|is_found| is_found));
    }
}

/// Sends a frame until the other side has sent it back.
pub(crate) fn echoed(link: &mut impl Link<Table>, to: Locator, frame: &[u8]) {
    let (until, wanted) = (Instant::now() + PATIENCE, (to, frame.to_vec()));
    loop {
        assert!(Instant::now() < until, "{} bytes did not come back", frame.len());
        send(link, to, frame);
        // The one before may have been late, and come twice.
        let mut found = frames_within(link, 1, 4 * A_WHILE);
        while !found.is_empty() {
            if found.contains(&wanted) {
                return;
            }
            found = frames_within(link, 1, 4 * A_WHILE);
        }
    }
}
