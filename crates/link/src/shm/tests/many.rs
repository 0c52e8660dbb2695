//! Many peers at once: all are heard, each in its turn.

use super::*;

/// Until all offers were delivered.
fn attend_all(hub: &mut Shm, others: &mut [Shm]) {
    let until = Instant::now() + PATIENCE;
    while others.iter().any(|link| counter(link, "offers_out") == 0) {
        assert!(Instant::now() < until);
        hub.attend(&mut Table::default());
        others.iter_mut().for_each(attend);
    }
}

#[test]
fn many_peers_are_all_heard_and_cost_few_descriptors() {
    let ring_fd_count = || {
        let fds = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let names = fds.filter_map(|fd| std::fs::read_link(fd.path()).ok());
        names.filter(|name| name.to_string_lossy().contains("memfd:packhorse")).count()
    };
    let mut links: Vec<Shm> = (0..33).map(|_| open()).collect();
    let mut memory = Table::default();
    let mut all: Vec<Locator> = links.iter().map(Shm::locator).collect();
    let to = all.remove(0);
    for round in 0..40_u8 {
        for link in &mut links[1..] {
            send_all(link, &burst_of(to, [&[round][..]]), &mut memory);
        }
        let (hub, others) = links.split_first_mut().unwrap();
        if round == 0 {
            // Not all offers found room at once.
            attend_all(hub, others);
        }
        let mut heard = frames(hub, others.len());
        heard.sort();
        let mut expected: Vec<_> = all.iter().map(|from| (*from, vec![round])).collect();
        expected.sort();
        assert_eq!(heard, expected);
        for from in &all {
            send_all(hub, &burst_of(*from, [&[round][..]]), &mut memory);
        }
        for link in others {
            assert_eq!(frames(link, 1), [(to, vec![round])]);
        }
    }
    // Other tests run beside this one, with a few of them; 32 pairs would be seen.
    assert!(ring_fd_count() < 40, "descriptors of rings are closed");
    let hub = &mut links[0];
    assert_eq!(hub.inputs.len(), 32);
    for _ in 0..100 {
        assert_eq!(hub.receive(None, &mut memory).unwrap(), 0);
    }
}

/// All at once, and as much as they can: a call takes a part, and each gets its turn.
#[test]
fn many_peers_that_send_much_are_served_in_turn() {
    let config = ShmConfig { ring_len: 1 << 20, ..ShmConfig::default() };
    let mut links: Vec<Shm> = (0..14).map(|_| Shm::open(&config).unwrap()).collect();
    let mut hub = open();
    for link in &mut links {
        introduce(link, &mut hub);
    }
    let frame = pattern(links[0].about().frame_len_max, 1);
    let mut streams: Vec<_> =
        links.iter().map(|_| Stream::new(hub.locator(), 250_000, false)).collect();
    let mut count = 0;
    for (link, stream) in links.iter_mut().zip(&mut streams) {
        send_all(link, &burst_of(hub.locator(), [&frame[..]]), &mut Table::default());
        send_all(link, &stream.burst, &mut stream.sender);
        count += 1 + stream.count;
    }
    let mut firsts: Vec<_> = frames(&mut hub, count).into_iter().map(|(from, _)| from).collect();
    firsts.dedup();
    assert!(firsts.len() > links.len(), "none had to wait for all of another");
}

/// Ten that never stop, and one with a single frame, which was not heard of lately.
#[test]
fn who_says_little_is_heard_among_those_who_say_much() {
    let mut links: Vec<Shm> = (0..11).map(|_| open_without_cma()).collect();
    let (mut hub, mut memory) = (open(), Table::default());
    for link in &mut links {
        introduce(link, &mut hub);
    }
    let frame = pattern(16_000, 1);
    let much = burst_of(hub.locator(), (0..4).map(|_| &frame[..]));
    let (quiet, loud) = links.split_last_mut().unwrap();
    let mut is_heard = false;
    for round in 0..200 {
        for link in loud.iter_mut() {
            link.send(&much, 0, &mut memory).unwrap();
        }
        if round == 100 {
            send_all(quiet, &burst_of(hub.locator(), [&b"psst"[..]]), &mut memory);
        }
        for index in 0..hub.receive(None, &mut memory).unwrap() {
            is_heard |= hub.arrived(index).bytes == b"psst";
        }
    }
    assert!(is_heard);
}

#[test]
fn an_offer_that_finds_no_room_is_repeated() {
    let mut hub = open();
    let mut links: Vec<Shm> = (0..24).map(|_| open()).collect();
    let mut memory = Table::default();
    for link in &mut links {
        send_all(link, &burst_of(hub.locator(), [&b"hello"[..]]), &mut memory);
    }
    assert!(links.iter().any(|link| counter(link, "offers_out") == 0), "the queue holds fewer");
    attend_all(&mut hub, &mut links);
    assert_eq!(frames(&mut hub, links.len()).len(), links.len());
    assert!(links.iter().all(|link| counter(link, "offers_out") == 1));
}

/// A look tells whether something waits behind what it took: also if somebody else sent that.
#[test]
fn a_look_tells_of_what_others_sent() {
    let mut b = open_as_usual();
    let mut senders = [open_as_usual(), open_as_usual()];
    for sender in &mut senders {
        introduce(sender, &mut b);
    }
    let mut shown = [0; SHORT_LEN_MAX];
    for _ in 0..3 {
        for sender in &mut senders {
            assert!(sender.put(&b.locator(), b"head", b"and more"));
        }
        let found = [0, 1].map(|_| b.look(&mut shown).expect("it is there"));
        assert_ne!(found[0].from, found[1].from);
        assert_eq!(found.map(|front| front.has_more), [true, false]);
    }
}
