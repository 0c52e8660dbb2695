//! Peers that do what they must not.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::mpsc;

use super::*;
use crate::ring::{self, Lines as _};
use crate::shm::letters::{KNOCK, OFFER_LEN, Offer};
use crate::sys::shm::{Mapping, Post, SEALS, new_memory};
use crate::sys::trap;

const RING_LEN: usize = 64 << 10;

/// A socket like that of a peer.
fn stranger(name: u64) -> Post {
    Post::open(locate::socket_name(name)).unwrap()
}

fn offer(ring_len: usize) -> Offer {
    Offer { ring_len, proof_at: 0x1000 }
}

/// What `link` does with these bytes and this descriptor: whether it takes the ring.
fn is_taken(link: &mut Shm, post: &Post, bytes: &[u8], fd: Option<&OwnedFd>) -> bool {
    let to = locate::socket_name(locate::from_locator(&link.locator()).unwrap().1);
    // While many descriptors wait to be closed none are taken.
    wait_until(|| {
        attend(link);
        post.send(&to, bytes, fd.map(|fd| fd.as_fd())).is_ok()
    });
    let before = link.inputs.len();
    attend(link);
    link.inputs.len() > before
}

#[test]
fn memory_that_is_not_as_it_must_be_is_refused() {
    let (mut link, mut friend) = (open(), open());
    introduce(&mut link, &mut friend);
    let post = stranger(0xbad_0001);
    let good = offer(RING_LEN).to_bytes();
    let sealed = |len, seals| new_memory(len, seals).unwrap();
    let whole = sealed(RING_LEN, SEALS);
    for seals in [0, libc::F_SEAL_SHRINK, libc::F_SEAL_GROW | libc::F_SEAL_SEAL] {
        assert!(!is_taken(&mut link, &post, &good, Some(&sealed(RING_LEN, seals))), "{seals}");
    }
    let read_only = sealed(RING_LEN, SEALS | libc::F_SEAL_WRITE);
    assert!(!is_taken(&mut link, &post, &good, Some(&read_only)));
    for len in [0, 4096, RING_LEN - 4096, RING_LEN + 4096] {
        assert!(!is_taken(&mut link, &post, &good, Some(&sealed(len, SEALS))), "{len}");
    }
    for len in [0, 1, 4096, RING_LEN + 1, 2 << 20, usize::MAX] {
        let bytes = offer(len).to_bytes();
        assert!(!is_taken(&mut link, &post, &bytes, Some(&whole)), "{len}");
    }
    let file = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
    assert!(!is_taken(&mut link, &post, &good, Some(&file)));
    assert!(!is_taken(&mut link, &post, &good, None));
    assert!(!is_taken(&mut link, &post, &[0; OFFER_LEN], Some(&whole)));
    assert!(!is_taken(&mut link, &post, &[good.to_vec(), vec![0]].concat(), Some(&whole)));
    assert!(!is_taken(&mut link, &post, &KNOCK, Some(&whole)));
    assert!(!is_taken(&mut link, &post, &[], None));
    let nameless = OwnedFd::from(UnixDatagram::unbound().unwrap());
    drop(nameless);
    assert!(link.poll_remark().is_some());
    // And the same one, done right, is taken.
    assert!(is_taken(&mut link, &post, &good, Some(&whole)));
    introduce(&mut link, &mut friend);
}

/// Only the ring itself holds the proof, which the reader makes up: no memory that is there for another reason does.
#[test]
fn a_proof_that_is_not_there_forbids_reading() {
    let mut link = open();
    let post = stranger(0xbad_0002);
    let (mapping, fd) = Mapping::create(RING_LEN).unwrap();
    let own = [0_u8; 16];
    let elsewhere = own.as_ptr().expose_provenance() as u64;
    let beside = mapping.proof_at() - 16;
    for (proof_at, note) in [
        (0x1000, outputs::NOTE_CANNOT_READ),
        (u64::MAX - 4, outputs::NOTE_CANNOT_READ),
        (elsewhere, outputs::NOTE_CANNOT_READ),
        (beside, outputs::NOTE_CANNOT_READ),
        (mapping.proof_at(), outputs::NOTE_CAN_READ),
        (0x1000, outputs::NOTE_CANNOT_READ),
    ] {
        let letter = Offer { ring_len: RING_LEN, proof_at }.to_bytes();
        is_taken(&mut link, &post, &letter, Some(&fd));
        assert_eq!(link.inputs.len(), 1);
        assert_eq!(mapping.word(ring::Word::Note), note, "{proof_at:x}");
    }
}

/// A proof that was there and is not any more (its process became another program) ends reading for good.
#[test]
fn a_proof_that_vanishes_ends_reading() {
    let (mut a, mut b) = (open(), open());
    introduce(&mut a, &mut b);
    a.outputs[0].forge_proof();
    let mut stream = Stream::new(b.locator(), 40_000, false);
    send_all(&mut a, &stream.burst, &mut stream.sender);
    assert_eq!(counter(&a, "trains_out"), 1);
    assert_eq!(b.receive(None, &mut Table::default()).unwrap(), 0);
    assert_eq!((counter(&b, "trains_lost"), counter(&b, "peers_broken")), (1, 0));
    assert_eq!(b.inputs[0].source, None);
    assert_eq!(stream.pass(&mut a, &mut b, 40_000), 4, "it goes through the ring");
}

/// A socket whose `close` waits for longer than any test, and the other end, whose end ends that.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 65_536]).is_ok() {}
    trap::linger(&socket, 10_000).unwrap();
    (socket, other)
}

/// Letters with descriptors that take for ever to close, and nobody waits for them.
#[test]
fn descriptors_that_cannot_be_closed_hold_nobody_up() {
    const COUNT: usize = 24;
    let (mut link, mut friend) = (open(), open());
    introduce(&mut link, &mut friend);
    let post = stranger(0xbad_0003);
    let to = locate::socket_name(locate::from_locator(&link.locator()).unwrap().1);
    let (mut sockets, others): (Vec<_>, Vec<_>) = (0..COUNT).map(|_| lingering()).unzip();
    // Ends the closing if it holds the test up, so that it fails rather than hangs.
    let (done, is_done) = mpsc::channel();
    let watchman = std::thread::spawn(move || {
        let is_in_time = is_done.recv_timeout(PATIENCE).is_ok();
        drop(others);
        is_in_time
    });
    let send = |fd: BorrowedFd<'_>, bytes: &[u8]| post.send(&to, bytes, Some(fd));
    while let Some(socket) = sockets.pop() {
        // The letter is the last that holds the socket.
        let letter: &[u8] = if sockets.len() % 2 == 0 { &KNOCK } else { &[9; OFFER_LEN] };
        if send(socket.as_fd(), letter).is_err() {
            sockets.push(socket); // the system says that no more are taken
            break;
        }
        drop(socket);
        attend(&mut link);
    }
    assert!(sockets.len() < COUNT - 8, "letters came");
    introduce(&mut friend, &mut link);
    let _ = done.send(()); // it may have given up
    assert!(watchman.join().unwrap(), "the link waited for a descriptor to be closed");
    // When they are closed at last, rings are taken again.
    let (_, fd) = Mapping::create(RING_LEN).unwrap();
    wait_until(|| {
        attend(&mut link);
        send(fd.as_fd(), &offer(RING_LEN).to_bytes()).is_ok()
    });
    attend(&mut link);
    assert_eq!(link.inputs.len(), 2);
}

/// Another user's letters, as many as the queue holds, each with as many descriptors as it can have: nobody waits, few are taken, and what others send comes still.
#[test]
fn letters_full_of_descriptors_hold_nobody_up_and_use_up_few() {
    let (mut link, mut friend) = (open(), open());
    link.post.distrust();
    let to = locate::socket_name(locate::from_locator(&link.locator()).unwrap().1);
    let (done, is_done) = mpsc::channel();
    let post = stranger(0xbad_0004);
    let send = |_| {
        let (socket, other) = lingering();
        post.send_many(&to, &KNOCK, socket.as_fd()).unwrap();
        other // the letter is the last that holds the socket
    };
    let others: Vec<_> = (0..8).map(send).collect();
    let watchman = std::thread::spawn(move || {
        let is_in_time = is_done.recv_timeout(PATIENCE).is_ok();
        drop(others);
        is_in_time
    });
    // Kernels before 6.16 know no way to say that no more are taken.
    let mut open_count = 0;
    wait_until(|| {
        attend(&mut link);
        open_count = open_count.max(link.post.open_count());
        open_count >= 8
    });
    let _ = done.send(());
    assert!(watchman.join().unwrap(), "the link waited for a descriptor to be closed");
    assert!(open_count <= 32, "{open_count}");
    wait_until(|| {
        attend(&mut link);
        link.post.open_count() == 0
    });
    introduce(&mut friend, &mut link);
}

/// A train told of by somebody who was told not to: lost, nothing else.
#[test]
fn a_train_from_who_cannot_be_read_is_lost() {
    let (mut a, mut b) = (open(), open_without_cma());
    introduce(&mut a, &mut b);
    a.outputs[0].pretend_can_read();
    let mut stream = Stream::new(b.locator(), 40_000, false);
    send_all(&mut a, &stream.burst, &mut stream.sender);
    assert_eq!(counter(&a, "trains_out"), 1);
    assert_eq!(b.receive(None, &mut Table::default()).unwrap(), 0);
    assert_eq!((counter(&b, "trains_lost"), counter(&b, "peers_broken")), (1, 0));
    assert_eq!(
        stream.pass(&mut a, &mut b, 40_000),
        4,
        "the sender was told, and goes through the ring"
    );
}

/// Everything that can be wrong with a ring cuts its writer off, and only that.
#[test]
fn a_writer_that_scribbles_is_cut_off_alone() {
    let scribbles: [fn(&mut Shm); 5] = [
        |a| a.outputs[0].scribble_header(u64::MAX),
        |a| a.outputs[0].scribble_header(1 << 40 | 0xffff_ffff),
        |a| a.outputs[0].scribble_header(1 << 40 | 77 << 32 | 8), // an unknown mark
        |a| a.outputs[0].scribble_header(1 << 40 | 1 << 32),      // an empty frame
        |a| a.outputs[0].scribble_header(1 << 40 | 2 << 32 | 30), // a train of nothing
    ];
    for scribble in scribbles {
        let (mut a, mut b, mut friend) = (open(), open(), open());
        let mut memory = Table::default();
        introduce(&mut a, &mut b);
        introduce(&mut friend, &mut b);
        scribble(&mut a);
        send_all(&mut friend, &burst_of(b.locator(), [&b"fine"[..]]), &mut memory);
        assert_eq!(frames(&mut b, 1)[0].1, b"fine");
        b.receive(None, &mut memory).unwrap();
        assert_eq!(counter(&b, "peers_broken"), 1);
        assert_eq!(notices(&mut b), [Notice::Unreachable { to: a.locator(), cause: Cause::Void }]);
        assert!(!b.may_reach(&a.locator()));
        introduce(&mut friend, &mut b);
        // It may offer as often as it likes.
        a.outputs.clear();
        send_all(&mut a, &burst_of(b.locator(), [&b"again"[..]]), &mut memory);
        attend(&mut b);
        assert_eq!(b.inputs.len(), 1);
    }
}

#[test]
fn a_reader_that_scribbles_is_cut_off_alone() {
    let (mut a, mut b, mut friend, mut memory) = (open(), open(), open(), Table::default());
    introduce(&mut a, &mut b);
    introduce(&mut a, &mut friend);
    b.inputs[0].ring.store().set_head(u64::MAX);
    let frame = pattern(10_000, 1);
    let mut burst = burst_of(b.locator(), (0..20).map(|_| &frame[..]));
    burst.begin(friend.locator());
    burst.head(b"fine");
    send_all(&mut a, &burst, &mut memory);
    assert_eq!(counter(&a, "peers_broken"), 1);
    assert!(notices(&mut a).contains(&Notice::Unreachable { to: b.locator(), cause: Cause::Void }));
    assert_eq!(frames(&mut friend, 1)[0].1, b"fine");
}

/// A frame for `b` in the ring of `a`, or kept where that is full. How many are kept.
fn send_one_more(a: &mut Shm, b: &Shm, frame: &[u8]) -> u64 {
    a.send(&burst_of(b.locator(), [frame]), 0, &mut Table::default()).unwrap();
    counter(a, "send_spilled")
}

/// One that is cut off while a frame of its is kept is not waited for any longer.
#[test]
fn frames_kept_for_who_is_cut_off_are_forgotten() {
    let (mut a, mut b) = (open(), open());
    introduce(&mut a, &mut b);
    let frame = pattern(10_000, 1);
    wait_until(|| send_one_more(&mut a, &b, &frame) == 1);
    assert_eq!(a.spilling_count, 1);
    b.inputs[0].ring.store().set_head(u64::MAX);
    attend(&mut a);
    assert_eq!((counter(&a, "peers_broken"), a.spilling_count), (1, 0));
}

/// Nobody could sleep beside a ring that is full and whose reader writes nonsense.
#[test]
fn a_reader_that_scribbles_keeps_nobody_awake() {
    let (mut a, mut b) = (open(), open());
    introduce(&mut a, &mut b);
    let frame = pattern(10_000, 1);
    wait_until(|| send_one_more(&mut a, &b, &frame) == 1);
    assert!(a.arm(), "the reader is to knock when there is room");
    a.disarm();
    b.inputs[0].ring.store().set_head(u64::MAX);
    assert!(!a.arm(), "something happened");
    a.disarm();
    assert_eq!(notices(&mut a).len(), 1);
    assert!(a.arm() && counter(&a, "peers_broken") == 1);
}

/// A peer that filled its ring with records, none of which is the last, and ended: they are read once, not for ever.
#[test]
fn a_ring_that_leads_in_a_circle_ends_with_its_writer() {
    let (mut a, mut b, mut memory) = (open(), open(), Table::default());
    introduce(&mut a, &mut b);
    let line_count = b.inputs[0].ring.store().line_count();
    let record = (1_u64 << 40 | 1 << 32 | 8).to_le_bytes();
    (0..line_count).for_each(|line| a.outputs[0].scribble(line * ring::LINE_LEN, &record));
    let dead = Notice::Dead { to: a.locator() };
    drop(a);
    let mut frame_count = 0;
    wait_until(|| {
        frame_count += b.receive(None, &mut memory).unwrap();
        notices(&mut b).contains(&dead)
    });
    assert!(b.inputs.is_empty());
    assert!(frame_count > line_count / 2, "what it left was read: {frame_count}");
}

/// A peer that writes anything anywhere, for a while.
#[test]
fn random_scribbling_harms_nobody() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let (mut b, mut friend) = (open(), open());
    introduce(&mut b, &mut friend);
    for _ in 0..60 {
        let (mut a, mut memory) = (open(), Table::default());
        introduce(&mut a, &mut b);
        let mut stream = Stream::new(b.locator(), 40_000, true);
        for _ in 0..200 {
            if a.outputs.is_empty() {
                break;
            }
            a.send(&stream.burst, 0, &mut stream.sender).unwrap();
            let at = (random() % 600) as usize;
            let value = random() >> (random() % 64);
            a.outputs[0].scribble(at * 8, &value.to_le_bytes());
            for index in 0..b.receive(None, &mut memory).unwrap() {
                assert!(b.arrived(index).whole(0).count() > 0);
            }
        }
        notices(&mut b);
        introduce(&mut friend, &mut b);
    }
}
