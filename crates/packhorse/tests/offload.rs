//! What goes on while the application computes: messages match, move and complete; and nothing of the helper's shows.

use std::time::{Duration, Instant};

use std::sync::atomic::{AtomicBool, Ordering};

use packhorse::queue::Queue;
use packhorse::{Builder, CopyOffload, Endpoint, HelperCpus, Offload, Peer, Placement, Wanted};

/// What has not happened by then does not happen: a machine with other things to do is slow, not that slow.
const PATIENCE: Duration = Duration::from_secs(60);

fn pair(placement: Placement, link: &str) -> (Endpoint, Endpoint, Peer) {
    let open = || {
        let builder = Builder::plain().bind([127, 0, 0, 1]).placement(placement).links(link);
        builder.linger(Duration::from_millis(200)).open().unwrap()
    };
    let (a, b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    (a, b, to_b)
}

fn count(endpoint: &Endpoint, name: &str) -> u64 {
    endpoint.counters().iter().find(|(known, _)| known == name).unwrap().1
}

/// Both counters in one look: the helper turns meanwhile.
fn turns_of_application(endpoint: &Endpoint) -> u64 {
    let counters = endpoint.counters();
    let count = |name| counters.iter().find(|(known, _)| known == name).unwrap().1;
    count("turns") - count("turns_of_helper")
}

/// Computes, and does nothing else: no call of ours, none of the system's (the clock is read from memory).
fn compute(time: Duration) -> u64 {
    let (start, mut number) = (Instant::now(), 1_u64);
    while start.elapsed() < time {
        for step in 0..10_000 {
            number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005) + step);
        }
    }
    number
}

/// What the system says of a thread: how often it gave up its core by itself, and where it is.
struct Watched {
    folder: std::path::PathBuf,
}

impl Watched {
    fn this() -> Self {
        Self {
            folder: std::fs::read_link("/proc/thread-self")
                .map(|it| std::path::Path::new("/proc").join(it))
                .unwrap(),
        }
    }

    fn sleeps(&self) -> u64 {
        let status = std::fs::read_to_string(self.folder.join("status")).unwrap();
        let line =
            status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:")).unwrap();
        line.split_whitespace().last().unwrap().parse().unwrap()
    }

    /// `running`, or the number of the call it is in.
    fn call(&self) -> String {
        std::fs::read_to_string(self.folder.join("syscall")).unwrap_or_else(|_| "running".into())
    }
}

/// Computes in rounds, with no call between, until the queue has something: how long the last round was, and what it was
/// that ended. One side of a message that both sides compute through.
fn compute_until_told(
    endpoint: &Endpoint,
    queue: &mut Queue,
) -> (Duration, packhorse::queue::Ended) {
    let started = endpoint.clock();
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        compute(Duration::from_millis(100));
        if let Some(ended) = queue.poll() {
            assert!(ended.at >= started, "stamped before it was begun");
            return (endpoint.clock(), ended);
        }
    }
    panic!("not complete after {PATIENCE:?} of computing");
}

#[test]
fn sixteen_megabytes_arrive_while_both_sides_compute_and_call_nothing() {
    const LEN: usize = 16 << 20;
    for link in ["udp", "shm"] {
        let (a, b, to_b) = pair(Placement::Thread, link);
        // Contact is made before.
        let coming = b.recv(Wanted::tag(1), vec![0; 1]);
        a.send(to_b, 1, vec![1]).wait().unwrap();
        coming.wait().unwrap();
        let (mut sends, mut recvs) = (a.queue(8), b.queue(8));
        let turns = [&a, &b].map(turns_of_application);
        let bytes: Vec<u8> = (0..LEN).map(|at| (at * 7 + at / 4096) as u8).collect();
        let (sent, received) = std::thread::scope(|threads| {
            let receiver = threads.spawn(|| {
                recvs.recv(Wanted::tag(2), vec![0; LEN], 2).unwrap();
                compute_until_told(&b, &mut recvs)
            });
            sends.send(to_b, 2, bytes.clone(), 1).unwrap();
            (compute_until_told(&a, &mut sends), receiver.join().unwrap())
        });
        for (until, ended) in [&sent, &received] {
            ended.result.as_ref().unwrap();
            assert!(ended.at < *until, "it ended at {:?}, computing until {until:?}", ended.at);
        }
        let buffer: Vec<u8> = recvs.buffer(&received.1).unwrap();
        assert!(buffer == bytes, "{link}: the bytes differ");
        let turns_after = [&a, &b].map(turns_of_application);
        assert_eq!(turns, turns_after, "{link}: only helpers turned");
    }
}

#[test]
fn a_computing_thread_makes_no_system_call_while_its_message_moves() {
    const LOOK_COUNT: usize = 50;
    let (a, b, to_b) = pair(Placement::Thread, "udp");
    let mut queue = a.queue(8);
    let coming = b.recv(Wanted::tag(1), vec![0; 8 << 20]);
    let (is_computing, is_seen) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|threads| {
        let (say, hear) = std::sync::mpsc::channel();
        let (is_computing, is_seen) = (&is_computing, &is_seen);
        let computing = threads.spawn(move || {
            let this = Watched::this();
            say.send(Watched { folder: this.folder.clone() }).unwrap();
            drop(say);
            let before = this.sleeps();
            is_computing.store(true, Ordering::SeqCst);
            while !is_seen.load(Ordering::SeqCst) {
                compute(Duration::from_millis(1));
            }
            assert_eq!(this.sleeps(), before, "it slept while it computed");
        });
        let watched = hear.recv().unwrap();
        while !is_computing.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        queue.send(to_b, 1, vec![1; 8 << 20], 1).unwrap();
        let (start, mut looks) = (Instant::now(), 0);
        while looks < LOOK_COUNT || queue.is_empty() {
            let call = watched.call();
            assert!(call.starts_with("running"), "in a call: {call}");
            assert!(start.elapsed() < PATIENCE, "it does not move while a thread computes");
            looks += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        is_seen.store(true, Ordering::SeqCst);
        computing.join().unwrap();
    });
    assert!(queue.poll().is_some_and(|ended| ended.result.is_ok()), "and it has moved");
    coming.wait().unwrap();
}

/// How soon it does is the baton's to say, in its own tests: `a_program_that_computes_is_relieved_when_a_fuse_has_burnt`.
#[test]
fn a_helper_relieves_a_program_that_stops_asking() {
    let (a, b, to_b) = pair(Placement::Thread, "udp");
    let mut queue = b.queue(8);
    let mut delays = Vec::new();
    for round in 0..40 {
        queue.recv(Wanted::tag(round), vec![0; 8], round).unwrap();
        // The program drives for a moment: the helper stands aside.
        for _ in 0..300 {
            assert!(queue.test().is_none());
        }
        let (left, turns) = (b.clock(), turns_of_application(&b));
        a.send_copy(to_b, round, &[1; 8]).unwrap();
        let start = Instant::now();
        while queue.is_empty() {
            compute(Duration::from_micros(100)); // and looks at the ring, which turns nothing
            assert!(start.elapsed() < PATIENCE, "nobody drives");
        }
        assert_eq!(turns_of_application(&b), turns, "round {round}: the helper alone turned");
        let ended = queue.poll().unwrap();
        ended.result.unwrap();
        delays.push(ended.at.saturating_sub(left));
    }
    delays.sort_unstable();
    println!("from leaving to completion by the helper: median {:?}, all {delays:?}", delays[20]);
}

/// Two that have met, each with its peer.
fn acquainted() -> (Endpoint, Endpoint, Peer, Peer) {
    let (a, b, to_b) = pair(Placement::Thread, "udp");
    let to_a = b.peer(&a.address()).unwrap();
    let coming = b.recv(Wanted::tag(0), vec![0; 1]);
    a.send(to_b, 0, vec![1]).wait().unwrap();
    coming.wait().unwrap();
    (a, b, to_b, to_a)
}

/// One side of exchanges of so many bytes, both ways at once, as ranks of a program make them: post, compute for so long, wait. Ends
/// after the round of which either side's `goes_on`, which is told how long the last one took, says that it is the last.
fn exchange(
    (side, to): (&Endpoint, Peer),
    len: usize,
    work: Duration,
    mut goes_on: impl FnMut(Duration) -> bool,
) {
    let mut took = Duration::ZERO;
    loop {
        let begin = Instant::now();
        let is_last = !goes_on(took);
        let receiving = side.recv(Wanted::tag(7), vec![0; len]);
        let sending = side.send(to, 7, vec![u8::from(is_last); len]);
        while begin.elapsed() < work {
            std::hint::spin_loop();
        }
        let is_over = receiving.wait().unwrap().buffer[0] == 1;
        sending.wait().unwrap();
        if is_last || is_over {
            return;
        }
        took = begin.elapsed();
    }
}

/// What the sockets hold until the application comes for it is no reason to take a core from anybody.
#[test]
fn no_helper_turns_while_a_program_computes_beside_messages_that_sockets_hold() {
    const ROUNDS: u64 = 60;
    const WORK: Duration = Duration::from_micros(300);
    for len in [16 << 10, 56 << 10] {
        let (a, b, to_b, to_a) = acquainted();
        let turns = || count(&a, "turns_of_helper");
        let (mut round, mut quick, mut helped, start) = (0, 0, 0, Instant::now());
        let (mut before, mut is_left_alone) = (0, false);
        std::thread::scope(|threads| {
            threads.spawn(|| exchange((&b, to_a), len, WORK, |_| true));
            exchange((&a, to_b), len, WORK, |took| {
                let now = turns();
                // The path learns first what it can carry. On a busy machine a round may be long, and then a helper is right to come.
                round += 1;
                if round > 20 && took < Duration::from_millis(2) {
                    quick += 1;
                    helped += u64::from(now != before);
                }
                before = now;
                is_left_alone = quick == ROUNDS && helped < ROUNDS / 4;
                let goes_on = !is_left_alone && start.elapsed() < PATIENCE;
                if goes_on && quick == ROUNDS {
                    (quick, helped) = (0, 0); // the other side was kept from its core, and a helper came for that: once more
                }
                goes_on
            });
        });
        assert!(is_left_alone, "{len} bytes: a helper turned in {helped} of {quick} quick rounds");
    }
}

/// Each look takes some microseconds from a program that has all cores: one in a quarter of a millisecond was 2 % of its time.
#[test]
fn beside_exchanges_that_sockets_hold_the_helper_looks_every_few_milliseconds() {
    const SPAN: Duration = Duration::from_millis(500);
    let (a, b, to_b, to_a) = acquainted();
    let start = Instant::now();
    let (mut before, mut since, mut is_away) = (0, start, false);
    std::thread::scope(|threads| {
        threads.spawn(|| exchange((&b, to_a), 16 << 10, Duration::ZERO, |_| true));
        exchange((&a, to_b), 16 << 10, Duration::ZERO, |_| {
            let time = since.elapsed();
            if time < SPAN {
                return true;
            }
            // Span by span: what it was near for at first is over after a moment; and where others want the cores, exchanges take their
            // time, and it is right to come.
            let looks = count(&a, "looks_of_helper");
            println!("{} looks in {time:?}", looks - before);
            is_away = u128::from(looks - before) < time.as_millis();
            (before, since) = (looks, Instant::now());
            !is_away && start.elapsed() < PATIENCE
        });
    });
    assert!(is_away, "it looks more often than once in a millisecond, all the time");
}

#[test]
fn the_placement_can_be_changed_while_messages_move() {
    let (a, b, to_b) = pair(Placement::Inline, "udp");
    let mut queue = b.queue(8);
    queue.recv(Wanted::tag(1), vec![0; 8], 1).unwrap();
    a.set_placement(Placement::Thread).unwrap();
    a.send_copy(to_b, 1, &[1; 8]).unwrap();
    compute(Duration::from_millis(100));
    assert!(queue.is_empty(), "nobody turns it");
    b.set_placement(Placement::Thread).unwrap();
    assert_eq!(b.placement(), Placement::Thread);
    let start = Instant::now();
    while queue.is_empty() {
        assert!(start.elapsed() < PATIENCE, "the helper does not turn it");
    }
    assert!(queue.poll().unwrap().result.is_ok());
    for round in 0..20 {
        queue.recv(Wanted::tag(2), vec![0; 100_000], round).unwrap();
        let going = a.send(to_b, 2, vec![2; 100_000]);
        b.set_placement([Placement::Inline, Placement::Thread][round as usize % 2]).unwrap();
        let ended = queue.wait(Some(PATIENCE)).expect("an end");
        assert!(ended.result.is_ok());
        // Its sender has to be told, by a turn of the other side.
        b.set_placement(Placement::Thread).unwrap();
        going.wait().unwrap();
    }
    // It pauses when it has seen that it is to: from some message on nobody takes what comes until the program does.
    b.set_placement(Placement::Inline).unwrap();
    let start = Instant::now();
    loop {
        queue.recv(Wanted::tag(3), vec![0; 8], 3).unwrap();
        let turns = count(&b, "turns_of_helper");
        a.send_copy(to_b, 3, &[3; 8]).unwrap();
        compute(Duration::from_millis(100));
        let is_paused = queue.is_empty() && count(&b, "turns_of_helper") == turns;
        assert!(queue.wait(Some(PATIENCE)).expect("an end").result.is_ok());
        if is_paused {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "a helper that pauses does nothing");
    }
}

/// Frames that arrive whole, of large and small messages mixed, copied by two threads.
#[test]
fn what_two_threads_copy_arrives_whole() {
    let open = || {
        let builder = Builder::plain().bind([127, 0, 0, 1]).links("udp");
        // What is not announced is not expected anywhere, and so not scattered by the system.
        let builder = builder.set("PACKHORSE_TRAINS", "off").set("PACKHORSE_EAGER", "1000000");
        let builder = builder.copy_offload(CopyOffload::From(1));
        builder.linger(Duration::from_millis(200)).open().unwrap()
    };
    let (a, b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    let start = Instant::now();
    // On a busy machine the second thread may come too late, not for ever.
    let is_helped = || count(&b, "bytes_copied_beside") > 0;
    let rounds =
        (0_usize..).take_while(|&it| it < 20 || !is_helped() && start.elapsed() < PATIENCE);
    for round in rounds {
        let lens = [3_000_000 / (round + 1), 8, 20_000, 1 + round * 977, 600_000];
        let bytes = |len: usize| -> Vec<u8> {
            (0..len).map(|at| (at * 13 + at / 997 + round) as u8).collect()
        };
        let coming = lens.map(|len| b.recv(Wanted::tag(1), vec![0; len]));
        let going = lens.map(|len| a.send(to_b, 1, bytes(len)));
        std::thread::scope(|threads| {
            threads.spawn(|| going.into_iter().for_each(|it| _ = it.wait().unwrap()));
            for (len, receiving) in lens.into_iter().zip(coming) {
                assert!(
                    receiving.wait().unwrap().buffer == bytes(len),
                    "{len} bytes of round {round}"
                );
            }
        });
    }
    let (all, beside) = (count(&b, "bytes_copied_in"), count(&b, "bytes_copied_beside"));
    println!("{beside} of {all} bytes were copied by the second thread");
    assert!(is_helped(), "the second thread never copied");
}

/// Plain posts that meet somebody in a turn are left for him, as those to queues are: in order, and none is lost.
#[test]
fn plain_posts_beside_a_driver_keep_their_order() {
    const COUNT: u64 = 3000;
    for link in ["udp", "shm"] {
        let (a, b, to_b) = pair(Placement::Thread, link);
        let (going, sent) = std::sync::mpsc::channel();
        let (coming, wanted) = std::sync::mpsc::channel();
        std::thread::scope(|threads| {
            let (a, b) = (&a, &b);
            threads.spawn(move || {
                for number in 0..COUNT {
                    coming.send(b.recv(Wanted::tag(1), vec![0; 20_000])).unwrap();
                    let len = if number % 16 == 0 { 20_000 } else { 8 };
                    going.send(a.send(to_b, 1, vec![number as u8; len])).unwrap();
                }
            });
            threads.spawn(move || {
                sent.into_iter().for_each(|sending| {
                    sending.wait().unwrap();
                });
            });
            for (number, receiving) in wanted.into_iter().enumerate() {
                let buffer = receiving.wait().unwrap().buffer;
                assert!(buffer.iter().all(|&byte| byte == number as u8), "message {number}");
            }
        });
        let left = [&a, &b].map(|endpoint| count(endpoint, "posts_left"));
        println!("{link}: {left:?} posts were left for others");
    }
}

/// Whether this process runs one test only, which then is to do its work; otherwise such a process is started for it, and
/// this says how that ended. For tests that look at all threads of their process.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "PACKHORSE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", test]).env(ALONE, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    false
}

/// The helper of the endpoint that was opened last: what the system says of its thread.
fn helper_status(before: &[std::ffi::OsString]) -> String {
    let new = tasks().into_iter().filter(|task| !before.contains(task));
    let folders = new.map(|task| std::path::Path::new("/proc/self/task").join(task));
    let statuses = folders.filter_map(|it| std::fs::read_to_string(it.join("status")).ok());
    let mut helpers = statuses.filter(|it| it.starts_with("Name:\tpackhorse\n"));
    helpers.next().expect("a thread called packhorse")
}

fn tasks() -> Vec<std::ffi::OsString> {
    std::fs::read_dir("/proc/self/task").unwrap().map(|it| it.unwrap().file_name()).collect()
}

fn field(status: &str, name: &str) -> String {
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().last().unwrap().to_owned()
}

/// What a list such as "0-2,5" names.
fn cpus_in(list: &str) -> Vec<usize> {
    let number = |text: &str| text.trim().parse::<usize>().unwrap();
    let ranges = list.split(',').map(|range| range.split_once('-').unwrap_or((range, range)));
    ranges.flat_map(|(first, last)| number(first)..=number(last)).collect()
}

#[test]
fn the_helper_takes_no_signals_and_is_not_bound_as_its_opener_is() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    if !is_alone("the_helper_takes_no_signals_and_is_not_bound_as_its_opener_is") {
        return;
    }
    let all = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    let this = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let free = field(&this(), "Cpus_allowed_list:");
    let open = |cpus: HelperCpus| {
        let before = tasks();
        let endpoint = Builder::plain().bind([127, 0, 0, 1]).helper_cpus(cpus).open().unwrap();
        // It has named and bound itself before it turns for the first time.
        let start = Instant::now();
        while count(&endpoint, "turns_of_helper") == 0 {
            assert!(start.elapsed() < PATIENCE, "the helper never turned");
            std::thread::sleep(Duration::from_millis(1));
        }
        (helper_status(&before), endpoint)
    };
    sched_setaffinity(None, &one).unwrap();
    let (status, _endpoint) = open(HelperCpus::All);
    // As the process was; without the core of its opener, if it took over there.
    let mut others = cpus_in(&free);
    others.retain(|&cpu| cpu != first);
    let list = cpus_in(&field(&status, "Cpus_allowed_list:"));
    assert!(list == cpus_in(&free) || (list == others && !others.is_empty()), "{status}");
    assert!(field(&status, "SigBlk:").starts_with("fffffff"), "{status}");
    assert!(!field(&this(), "SigBlk:").starts_with("fffffff"), "the opener takes signals");
    let (status, _endpoint) = open(HelperCpus::Inherit);
    assert_eq!(field(&status, "Cpus_allowed_list:"), first.to_string());
    let (status, _endpoint) = open(HelperCpus::Only(vec![first]));
    assert_eq!(field(&status, "Cpus_allowed_list:"), first.to_string());
}

#[test]
fn a_message_leaves_at_once_and_a_burst_leaves_together() {
    // Alone: it is there without another call of its sender.
    let (a, b, to_b) = pair(Placement::Inline, "udp");
    let coming = b.recv(Wanted::tag(0), vec![0; 8]);
    let contact = a.send(to_b, 0, vec![0; 8]);
    std::thread::scope(|threads| {
        threads.spawn(|| coming.wait().unwrap());
        contact.wait().unwrap();
    });
    let coming = b.recv(Wanted::tag(1), vec![0; 8]);
    a.send_copy(to_b, 1, &[1; 8]).unwrap();
    coming.wait().unwrap(); // and nobody turned the sender since
    // A burst, posted while something is on its way: in far fewer frames than messages, and again without another call. On a
    // machine that is busy, or slow, it may have gaps; not each time.
    let best = (0..20).map(|_| frames_of_a_burst()).find(|&count| count < BURST_COUNT / 2);
    assert!(best.is_some(), "{BURST_COUNT} messages never left in less than half as many frames");
}

const BURST_COUNT: u64 = 400;

/// The least of some bursts between two that have met.
fn frames_of_a_burst() -> u64 {
    let (a, b, to_b) = pair(Placement::Thread, "udp");
    let meeting = b.recv(Wanted::tag(3), vec![0; 8]);
    a.send(to_b, 3, vec![0; 8]).wait().unwrap();
    meeting.wait().unwrap();
    let burst = |_| {
        let mut coming: Vec<_> =
            (0..BURST_COUNT).map(|_| b.recv(Wanted::tag(2), vec![0; 8])).collect();
        let before = count(&a, "frames_out");
        for _ in 0..BURST_COUNT {
            a.send_copy(to_b, 2, &[2; 8]).unwrap();
        }
        coming.drain(..).for_each(|it| _ = it.wait().unwrap());
        count(&a, "frames_out") - before
    };
    (0..5).map(burst).min().expect("five")
}

/// Whether a large message ends at both sides while both compute, by what their helpers may do: `must_end` says what to wait for.
fn is_moved_while_computing(at_sender: Offload, at_receiver: Offload, must_end: bool) -> bool {
    let open = |offload| {
        let builder = Builder::plain().bind([127, 0, 0, 1]).links("udp").offload(offload);
        builder.linger(Duration::from_millis(200)).open().unwrap()
    };
    let (a, b) = (open(at_sender), open(at_receiver));
    let to_b = a.peer(&b.address()).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| b.recv(Wanted::tag(1), vec![0; 1]).wait().unwrap());
        a.send(to_b, 1, vec![1]).wait().unwrap();
    });
    let (mut sends, mut recvs) = (a.queue(8), b.queue(8));
    recvs.recv(Wanted::tag(2), vec![0; 1 << 20], 1).unwrap();
    sends.send(to_b, 2, vec![2; 1 << 20], 1).unwrap();
    // What must not happen does not happen sooner on a machine that is busy: for that a moment is enough.
    let longest = if must_end { PATIENCE } else { Duration::from_millis(600) };
    let start = Instant::now();
    while start.elapsed() < longest && (sends.is_empty() || recvs.is_empty()) {
        compute(Duration::from_millis(20));
    }
    let ended = [!sends.is_empty(), !recvs.is_empty()];
    assert_eq!(ended[0], ended[1], "{at_sender:?}, {at_receiver:?}: one side has ended");
    // And when both come back, all ends.
    std::thread::scope(|threads| {
        threads.spawn(|| assert!(recvs.wait(Some(PATIENCE)).unwrap().result.is_ok()));
        assert!(sends.wait(Some(PATIENCE)).unwrap().result.is_ok());
    });
    ended[0]
}

#[test]
fn each_half_of_offload_does_its_half() {
    use Offload::{Both, None, Receive, Send};
    assert!(is_moved_while_computing(Both, Both, true));
    assert!(!is_moved_while_computing(None, None, false));
    // The sender's half is enough at the sender, the receiver's at the receiver.
    assert!(is_moved_while_computing(Send, Receive, true));
    assert!(!is_moved_while_computing(Receive, Both, false), "nobody answers grants");
    assert!(!is_moved_while_computing(Both, Send, false), "nobody grants");
}

const ECHO_LEN: usize = 32 << 10;
const ECHO_DEPTH: usize = 8;
const ECHO_COUNT: usize = 160;

/// Sends back whatever comes.
fn echo(endpoint: &Endpoint, to: Peer) {
    let mut queue = endpoint.queue(64);
    for _ in 0..2 * ECHO_DEPTH {
        queue.recv(Wanted::tag(1), vec![0; ECHO_LEN], 1).unwrap();
    }
    let mut back_count = 0;
    while back_count < ECHO_COUNT {
        let ended = queue.wait(Some(PATIENCE)).expect("more comes, or is taken");
        ended.result.as_ref().unwrap();
        let buffer: Vec<u8> = queue.buffer(&ended).unwrap();
        if ended.context == 1 {
            queue.send(to, 1, buffer, 2).unwrap();
        } else {
            back_count += 1;
            queue.recv(Wanted::tag(1), buffer, 1).unwrap();
        }
    }
}

/// A helper with half of the duties keeps the frames of the other half while its application computes. Nobody may take them for
/// lost: what was sent again was kept as well, and in the end nothing moved at all.
#[test]
fn what_half_a_helper_keeps_is_not_sent_again() {
    for offload in [Offload::Receive, Offload::Send] {
        let open = |offload| {
            let builder = Builder::plain().bind([127, 0, 0, 1]).links("udp").offload(offload);
            builder.linger(Duration::from_millis(200)).open().unwrap()
        };
        let (a, b) = (open(offload), open(Offload::Both));
        let (to_a, to_b) = (b.peer(&a.address()).unwrap(), a.peer(&b.address()).unwrap());
        std::thread::scope(|threads| {
            threads.spawn(|| echo(&b, to_a));
            let mut queue = a.queue(64);
            let post = |queue: &Queue| {
                queue.recv(Wanted::tag(1), vec![0; ECHO_LEN], 1).unwrap();
                queue.send(to_b, 1, vec![7; ECHO_LEN], 2).unwrap();
            };
            (0..ECHO_DEPTH).for_each(|_| post(&queue));
            let (mut posted, mut came, start) = (ECHO_DEPTH, 0, Instant::now());
            while came < ECHO_COUNT {
                compute(Duration::from_millis(1));
                while let Some(ended) = queue.test() {
                    ended.result.as_ref().unwrap();
                    came += usize::from(ended.context == 1);
                    if ended.context == 1 && posted < ECHO_COUNT {
                        post(&queue);
                        posted += 1;
                    }
                }
                assert!(start.elapsed() < PATIENCE, "{offload:?}: {came} came");
            }
        });
        // Some 3700 frames each way; a few may look late on a busy machine.
        for (endpoint, name) in [(&a, "a"), (&b, "b")] {
            let resent = count(endpoint, "contents_resent");
            assert!(resent < 100, "{offload:?}: {name} sent {resent} contents again");
        }
    }
}
