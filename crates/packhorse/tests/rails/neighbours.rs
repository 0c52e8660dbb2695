//! What Packhorse does to others on the same wire: a session, questions and answers, a flow, all of the kernel's own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use packhorse::{Address, Builder};

use crate::hosts::Hosts;
use crate::{TAG, meet, pour};

/// Between two lines of the session, or two questions.
const PAUSE: Duration = Duration::from_millis(5);

/// Takes what comes; prints how much it was when it ends.
pub(crate) fn tcp_receive(on: &str) {
    let listener = TcpListener::bind(on).unwrap();
    println!("listening");
    let (mut stream, _) = listener.accept().unwrap();
    let (mut buffer, mut len) = (vec![0; 1 << 18], 0);
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            more => len += more as u64,
        }
    }
    println!("received {len}");
}

/// Sends for as many seconds as it is told; prints how much.
pub(crate) fn tcp_send(to: &str) {
    let mut stream = TcpStream::connect(to).unwrap();
    println!("connected");
    let seconds: f64 = one_order().parse().unwrap();
    let (end, buffer, mut len) =
        (Instant::now() + Duration::from_secs_f64(seconds), vec![7; 1 << 16], 0);
    while Instant::now() < end {
        stream.write_all(&buffer).unwrap();
        len += buffer.len();
    }
    println!("sent {len}");
}

fn one_order() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// Sends each line back.
pub(crate) fn tcp_echo(on: &str) {
    let listener = TcpListener::bind(on).unwrap();
    println!("listening");
    let (stream, _) = listener.accept().unwrap();
    let mut back = stream.try_clone().unwrap();
    back.set_nodelay(true).unwrap();
    for line in BufReader::new(stream).lines() {
        back.write_all(format!("{}\n", line.unwrap()).as_bytes()).unwrap();
    }
}

/// A session: one line after the other, each answered, until told to stop. Prints how many, and the longest wait.
pub(crate) fn tcp_talk(to: &str) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    println!("connected");
    let stop = until_ordered();
    let (mut count, mut longest) = (0_u64, Duration::ZERO);
    while !stop.is_finished() {
        let began = Instant::now();
        stream.write_all(format!("line {count}\n").as_bytes()).unwrap();
        assert_eq!(answers.next().unwrap().unwrap(), format!("line {count}"));
        longest = longest.max(began.elapsed());
        count += 1;
        std::thread::sleep(PAUSE);
    }
    println!("talked {count} {}", longest.as_micros());
}

/// Ends when an order comes.
fn until_ordered() -> std::thread::JoinHandle<String> {
    std::thread::spawn(one_order)
}

/// Answers each datagram.
pub(crate) fn pong(on: &str) {
    let socket = UdpSocket::bind(on).unwrap();
    println!("listening");
    let mut buffer = [0; 64];
    loop {
        let (len, from) = socket.recv_from(&mut buffer).unwrap();
        socket.send_to(&buffer[..len], from).unwrap();
    }
}

/// Asks again and again until told to stop; prints how often, how often without an answer, and the longest wait.
pub(crate) fn ping(to: &str) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    println!("connected");
    let stop = until_ordered();
    let (mut count, mut lost, mut longest) = (0_u64, 0_u64, Duration::ZERO);
    while !stop.is_finished() {
        let began = Instant::now();
        socket.send(&count.to_le_bytes()).unwrap();
        let mut answer = [0; 8];
        let is_answered = socket.recv(&mut answer).is_ok() && answer == count.to_le_bytes();
        lost += u64::from(!is_answered);
        longest = longest.max(began.elapsed());
        count += 1;
        std::thread::sleep(PAUSE);
    }
    println!("asked {count} {lost} {}", longest.as_micros());
}

/// Sends messages of 1 MB for so long, two at a time; prints how many bytes were accepted.
pub(crate) fn pour_for(links: &str, address: &Address, seconds: f64) {
    let endpoint = Builder::plain().links(links).open().unwrap();
    let peer = endpoint.peer(address).unwrap();
    endpoint.send(peer, TAG, vec![0; 8]).wait().unwrap();
    println!("ready");
    one_order();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let (mut len, mut before) = (0, None);
    for number in 0_u64.. {
        if Instant::now() >= end {
            break;
        }
        let next = endpoint.send(peer, TAG, vec![number as u8; 1_000_000]); // as `receive` expects
        if let Some(sent) = before.replace(next) {
            sent.wait().unwrap();
            len += 1_000_000;
        }
    }
    println!("poured {len}");
    before.map(|sent| sent.wait());
}

/// Numbers behind a word.
fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

#[test]
#[ignore = "needs root and iproute2"]
fn neighbours_lose_nothing_across_attach_run_kill_and_detach() {
    let hosts = Hosts::new(&[0], false);
    let mut servers = [
        hosts.start(1, "tcp-echo 10.98.0.2:7001"),
        hosts.start(1, "pong 10.98.0.2:7002"),
        hosts.start(1, "tcp-receive 10.98.0.2:7003"),
    ];
    servers.iter_mut().for_each(|server| drop(server.hear("listening")));
    let mut talk = hosts.start(0, "tcp-talk 10.98.0.2:7001");
    let mut ping = hosts.start(0, "ping 10.98.0.2:7002");
    let mut flow = hosts.start(0, "tcp-send 10.98.0.2:7003");
    for end in [&mut talk, &mut ping, &mut flow] {
        end.hear("connected");
    }
    flow.order("6");
    for _ in 0..2 {
        let mut ends = meet(&hosts, "packet:r0");
        pour(&mut ends, 1_000_000, 20);
        ends[1].order("1000000 500");
        ends[0].order("1000000 500");
        std::thread::sleep(Duration::from_millis(200));
        ends[0].child.kill().unwrap(); // SIGKILL, in the middle
        ends[0].child.wait().unwrap();
    } // here the other ends, too
    let mut ends = meet(&hosts, "packet:r0,udp:r0");
    pour(&mut ends, 100_000, 50);
    drop(ends);
    talk.order("stop");
    ping.order("stop");
    let [talked, talk_us] = numbers(&talk.hear("talked "))[..] else { panic!("talked") };
    let [asked, lost, ping_us] = numbers(&ping.hear("asked "))[..] else { panic!("asked") };
    let sent: u64 = flow.hear("sent ").parse().unwrap();
    drop(flow);
    let received: u64 = servers[2].hear("received ").parse().unwrap();
    println!(
        "session: {talked} lines, longest wait {talk_us} µs; asked {asked} times, {lost} lost, longest wait {ping_us} µs; flow: {sent} bytes sent, {received} received"
    );
    assert!(talked > 20 && asked > 20, "they were at it");
    assert_eq!(lost, 0);
    assert_eq!(sent, received);
}

#[test]
#[ignore = "needs root and iproute2"]
fn one_wire_is_shared_with_a_flow_of_tcp() {
    for links in ["udp:r0", "packet:r0"] {
        let hosts = Hosts::new(&[1000], false);
        let mut server = hosts.start(1, "tcp-receive 10.98.0.2:7003");
        server.hear("listening");
        let mut receiver = hosts.start(1, &format!("receive {links}"));
        let address = receiver.hear("address ");
        let mut pourer = hosts.start(0, &format!("pour {links} {address} 4"));
        pourer.hear("ready");
        receiver.order("1000000 1000000");
        let mut flow = hosts.start(0, "tcp-send 10.98.0.2:7003");
        flow.hear("connected");
        pourer.order("go");
        flow.order("4");
        let poured: f64 = pourer.hear("poured ").parse().unwrap();
        let sent: f64 = flow.hear("sent ").parse().unwrap();
        let share = poured / (poured + sent);
        println!(
            "{links}: Packhorse {:.0} Mb/s, TCP {:.0} Mb/s: {:.0} % to {:.0} %",
            poured * 8e-6 / 4.0,
            sent * 8e-6 / 4.0,
            share * 100.0,
            (1.0 - share) * 100.0
        );
        // Promised are 30 % for each; on a machine with other things to do less is seen.
        assert!((0.01..0.99).contains(&share), "{share}");
    }
}
