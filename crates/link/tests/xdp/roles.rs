//! What a process in a namespace does.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use packhorse_link::mem::Table;
use packhorse_link::xdp::{BusyPoll, Mode, Require, Xdp, XdpConfig, XdpError, XdpParts};
use packhorse_link::{Burst, Link, Locator, handover};

use super::raw::{self, PacketSocket};

const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a frame that are not in the application's memory.
const HEAD_LEN: usize = 40;
/// Bytes over TCP.
const STREAM_LEN: usize = 3_000_000;

pub(crate) fn play(role: &str) {
    let words: Vec<&str> = role.split_whitespace().collect();
    match words[..] {
        ["echo", ref options @ ..] => echo(open(&config(options)), options),
        ["exchange", to, ref options @ ..] => exchange(to, options),
        ["refused", ref options @ ..] => {
            // A test program has lines of its own, not always ended.
            println!("\nrefused {}", Xdp::open(&config(options)).unwrap_err());
        }
        ["tcp-server"] => tcp_server(),
        ["tcp-client", to] => tcp_client(to),
        ["packet", to, other] => packet(to, other.parse().unwrap()),
        ["overhear", number] => overhear(number.parse().unwrap()),
        ["foreign"] => {
            let _program = raw::attach_foreign("eth0");
            println!("\nready");
            wait_for_end();
        }
        ["opener", name] => opener(name),
        ["user"] => user(),
        ["flood", to] => flood(to),
        ["sleeper"] => sleeper(),
        ["down", to, host] => down(to, host),
        _ => panic!("no role {role:?}"),
    }
}

/// What a user may pin is counted for all his processes: those of another test may have it for a moment.
fn open(config: &XdpConfig) -> Xdp {
    let began = Instant::now();
    loop {
        match Xdp::open(config) {
            Err(XdpError::Pinned { .. }) if began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => return opened.unwrap(),
        }
    }
}

fn config(options: &[&str]) -> XdpConfig {
    let mut config = XdpConfig::on("eth0");
    for option in options {
        match option.split_once('=') {
            None => match *option {
                "generic" => config.mode = Mode::Generic,
                "native" => config.require = Require::Native,
                "zerocopy" => config.require = Require::Zerocopy,
                "busy" => config.busy_poll = Some(BusyPoll { time_us: 20, packet_count: 64 }),
                "short" | "sleepy" => {}
                _ => panic!("no option {option}"),
            },
            Some(("number", number)) => config.number = Some(number.parse().unwrap()),
            Some(("interface", name)) => config.interface = name.to_string(),
            Some(_) => panic!("no option {option}"),
        }
    }
    config
}

fn wait_for_end() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn to_text(locator: &Locator) -> String {
    locator.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_text(text: &str) -> Locator {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    std::array::from_fn(byte)
}

fn pattern(at: usize, len: usize) -> u8 {
    (at * 31 + (at >> 8) * 7 + len) as u8
}

/// Sends every frame back to where it came from, until standard input ends.
fn echo(mut link: Xdp, options: &[&str]) {
    assert_eq!(link.about().kind, "xdp");
    println!("\nstate {}", link.state());
    println!("\nready {}", to_text(&link.locator()));
    let is_over = Arc::new(AtomicBool::new(false));
    let is_ending = Arc::clone(&is_over);
    std::thread::spawn(move || {
        wait_for_end();
        is_ending.store(true, Ordering::Relaxed);
    });
    let (mut memory, mut burst) = (Table::default(), Burst::default());
    while !is_over.load(Ordering::Relaxed) {
        let count = link.receive(None, &mut memory).unwrap();
        if count == 0 && options.contains(&"sleepy") {
            sleep_on(&mut link);
            continue;
        }
        burst.clear();
        for index in 0..count {
            let arrived = link.arrived(index);
            burst.begin(arrived.from);
            burst.head(arrived.bytes);
        }
        send_all(&mut link, &burst, &mut memory);
        if count == 0 {
            std::thread::yield_now();
        }
    }
}

/// Sleeps until the link's descriptor says that there is something, or for a tenth of a second.
fn sleep_on(link: &mut Xdp) {
    if !link.arm() {
        return;
    }
    raw::sleep_on(link.wake_fd().unwrap(), 100);
    link.disarm();
}

fn send_all(link: &mut Xdp, burst: &Burst, memory: &mut Table) {
    let (mut at, until) = (0, Instant::now() + PATIENCE);
    while at < burst.len() {
        assert!(Instant::now() < until, "not sent: {at} of {}", burst.len());
        at += link.send(burst, at, memory).unwrap();
    }
}

/// Sends a frame of each length, some at a time, and wants each back.
fn exchange(to: &str, options: &[&str]) {
    let mut link = Xdp::open(&config(options)).unwrap();
    let to = from_text(to);
    assert!(link.may_reach(&to));
    let own = link.locator();
    assert!(!link.may_reach(&own) && !link.may_reach(&[0; 24]));
    let mut memory = Table::default();
    let len_max = link.about().frame_len_max;
    let is_short = options.contains(&"short") || options.contains(&"sleepy");
    let lens: Vec<usize> = (1..=if is_short { 200 } else { len_max }).collect();
    for lens in lens.chunks(17) {
        exchange_some(&mut link, to, lens, &mut memory, options);
    }
    assert_eq!((link.poll_remark(), link.poll_notice()), (None, None));
    println!("\nexchanged {} lengths{} .", lens.len(), counters(&link));
}

fn exchange_some(
    link: &mut Xdp,
    to: Locator,
    lens: &[usize],
    memory: &mut Table,
    options: &[&str],
) {
    let mut burst = Burst::default();
    let mut ids = Vec::new();
    for &len in lens {
        let bytes: Vec<u8> = (0..len).map(|at| pattern(at, len)).collect();
        let (head, payload) = bytes.split_at(HEAD_LEN.min(len));
        burst.begin(to);
        burst.head(head);
        if !payload.is_empty() {
            // In two pieces of memory, to be gathered.
            let (first, second) = payload.split_at(payload.len() / 3);
            let id = memory.insert(vec![first.to_vec(), second.to_vec()].into());
            burst.user(id, 0, payload.len() as u32);
            ids.push(id);
        }
    }
    send_all(link, &burst, memory);
    let (mut back, until) = (0, Instant::now() + PATIENCE);
    while back < lens.len() {
        assert!(Instant::now() < until, "only {back} of {lens:?} came back");
        let count = link.receive(None, memory).unwrap();
        for index in 0..count {
            let arrived = link.arrived(index);
            let len = lens[back];
            assert_eq!((arrived.from, arrived.stride), (to, len));
            let is_right = |(at, &byte): (usize, &u8)| byte == pattern(at, len);
            assert!(arrived.bytes.len() == len && arrived.bytes.iter().enumerate().all(is_right));
            back += 1;
        }
        if count == 0 && options.contains(&"sleepy") {
            sleep_on(link);
        } else if count == 0 {
            std::thread::yield_now();
        }
    }
    for id in ids {
        memory.remove(id);
    }
}

fn tcp_server() {
    let listener = TcpListener::bind("[::]:0").unwrap();
    println!("\nready {}", listener.local_addr().unwrap().port());
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let is_right = |(at, &byte): (usize, &u8)| byte == pattern(at, 0);
    assert!(bytes.len() == STREAM_LEN && bytes.iter().enumerate().all(is_right));
    stream.write_all(&bytes).unwrap();
}

fn tcp_client(to: &str) {
    let mut stream = TcpStream::connect_timeout(&to.parse().unwrap(), PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let bytes: Vec<u8> = (0..STREAM_LEN).map(|at| pattern(at, 0)).collect();
    stream.write_all(&bytes).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == bytes);
}

/// A packet as it is on the wire, written here once more.
fn packet_of(to: &Locator, to_number: u32, from_number: u32, body: &[u8]) -> Vec<u8> {
    let mut packet = to[4..10].to_vec();
    packet.extend_from_slice(&[2, 9, 9, 9, 9, 9]);
    packet.extend_from_slice(&[0x88, 0xB5]);
    packet.extend_from_slice(&to_number.to_le_bytes());
    packet.extend_from_slice(&from_number.to_le_bytes());
    packet.extend_from_slice(&(body.len() as u16).to_le_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(body);
    packet.resize(packet.len().max(60), 0xEE); // Ethernet's padding may be anything
    packet
}

/// Talks to the link at `to` by AF_PACKET, and past it to an endpoint of another number at the same interface.
fn packet(to: &str, other: u32) {
    let socket = PacketSocket::open("eth0");
    let to = from_text(to);
    let number = u32::from_le_bytes(to[12..16].try_into().unwrap());
    for len in [1, 33, 34, 35, 500, 1488] {
        let body: Vec<u8> = (0..len).map(|at| pattern(at, len)).collect();
        socket.send(&packet_of(&to, number, 77, &body));
        // The answer goes to the MAC address in the question, which is nobody's: a veth brings it all the same.
        let back = socket.receive().expect("an answer");
        assert_eq!(back[..6], [2, 9, 9, 9, 9, 9]);
        assert_eq!(back[6..12], to[4..10]);
        assert_eq!(back[14..18], 77_u32.to_le_bytes());
        assert_eq!(back[18..22], number.to_le_bytes());
        assert_eq!(back[22..26], [len as u8, (len >> 8) as u8, 0, 0]);
        assert_eq!(back[26..26 + len], body);
        assert!(back[26 + len..].iter().all(|&byte| byte == 0), "padding tells nothing");
        assert_eq!(back.len(), (26 + len).max(60));
    }
    // Not ours, or nonsense: none is answered.
    for _ in 0..3 {
        socket.send(&packet_of(&to, other, 77, b"for another"));
    }
    let mut tagged = packet_of(&to, number, 77, b"tagged");
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    socket.send(&tagged);
    let mut lying = packet_of(&to, number, 77, b"long?");
    lying[22..24].copy_from_slice(&1000_u16.to_le_bytes());
    socket.send(&lying);
    assert_eq!(socket.receive(), None);
    println!("\nexchanged .");
}

/// Counts the packets for an endpoint number that reach an AF_PACKET socket.
fn overhear(number: u32) {
    let (ours, tagged) = (PacketSocket::open("eth0"), PacketSocket::open_tagged("eth0"));
    println!("\nready");
    let (mut heard, mut heard_tagged) = (0, 0);
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until && (heard < 3 || heard_tagged < 1) {
        if let Some(packet) = ours.receive()
            && packet[6..12] == [2, 9, 9, 9, 9, 9]
        {
            assert_eq!(packet[14..18], number.to_le_bytes(), "the link's own was heard");
            heard += 1;
        }
        while let Some(packet) = tagged.receive() {
            heard_tagged += usize::from(packet.windows(6).any(|bytes| bytes == b"tagged"));
        }
    }
    println!("\nheard {heard} for {number}, {heard_tagged} tagged");
}

fn abstract_name(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(name).unwrap()
}

fn opener(name: &str) {
    let socket = UnixDatagram::unbound().unwrap();
    socket.connect_addr(&abstract_name(name)).unwrap();
    let (text, fds) = XdpParts::open(&config(&[])).unwrap().into_fds();
    handover::give(&socket, &text, &fds).unwrap();
}

fn user() {
    let name = format!("packhorse-xdp-test-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&abstract_name(&name)).unwrap();
    assert!(Xdp::open(&config(&[])).is_err(), "has no rights");
    println!("\nlistens {name}");
    let (text, fds) = handover::take(&socket).unwrap();
    // What is not complete is refused.
    assert!(XdpParts::from_fds(&text, Vec::new()).is_err());
    echo(Xdp::from_parts(XdpParts::from_fds(&text, fds).unwrap()).unwrap(), &[]);
}

/// Sends more than any ring holds, faster than anybody takes it.
fn flood(to: &str) {
    let mut link = Xdp::open(&config(&[])).unwrap();
    let (to, mut memory, mut burst) = (from_text(to), Table::default(), Burst::default());
    let bytes = vec![7; link.about().frame_len_max];
    for _ in 0..64 {
        burst.begin(to);
        burst.head(&bytes);
    }
    let mut count = 0;
    while count < FLOOD_COUNT {
        send_all(&mut link, &burst, &mut memory);
        count += burst.len();
    }
    println!("\nflooded {}", counters(&link));
    burst.clear();
    burst.begin(to);
    burst.head(b"over");
    // One of these finds room when the other side takes frames again, and one that comes later is sent back.
    let until = Instant::now() + PATIENCE;
    while link.receive(None, &mut memory).unwrap() == 0 {
        assert!(Instant::now() < until, "nothing comes back");
        send_all(&mut link, &burst, &mut memory);
        std::thread::sleep(Duration::from_millis(2));
    }
    println!("\nover {}", counters(&link));
}

/// Some times what the rings of both sides hold.
const FLOOD_COUNT: usize = 100_000;

/// Does not receive until told to; then takes all there is and is an echo.
fn sleeper() {
    let mut link = Xdp::open(&config(&[])).unwrap();
    println!("\nready {}", to_text(&link.locator()));
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let (mut memory, until) = (Table::default(), Instant::now() + PATIENCE);
    let mut is_over = false;
    while !is_over {
        assert!(Instant::now() < until, "no end of the flood");
        let count = link.receive(None, &mut memory).unwrap();
        is_over = (0..count).any(|index| link.arrived(index).bytes == b"over");
    }
    println!("\nwoke {}", counters(&link));
    echo(link, &[]);
}

fn counters(link: &Xdp) -> String {
    let mut report = String::new();
    link.each_counter(&mut |name, value| report += &format!(" {name} {value}"));
    report
}

/// Goes on sending while the interface is down for a while.
fn down(to: &str, host: &str) {
    let mut link = Xdp::open(&config(&[])).unwrap();
    let (to, mut memory) = (from_text(to), Table::default());
    exchange_some(&mut link, to, &[10], &mut memory, &[]);
    let set = |state: &str| {
        let words = ["link", "set", "eth0", state];
        assert!(Command::new("ip").args(words).status().unwrap().success(), "{host}");
    };
    set("down");
    let mut burst = Burst::default();
    for _ in 0..2000 {
        burst.clear();
        burst.begin(to);
        burst.head(b"lost");
        send_all(&mut link, &burst, &mut memory);
        link.receive(None, &mut memory).unwrap();
    }
    let remark = link.poll_remark().expect("a remark");
    assert!(remark.contains("eth0 is down"), "{remark}");
    set("up");
    let until = Instant::now() + PATIENCE;
    let mut is_back = |link: &mut Xdp, memory: &mut Table| {
        burst.clear();
        burst.begin(to);
        burst.head(b"back");
        send_all(link, &burst, memory);
        std::thread::sleep(Duration::from_millis(10));
        let count = link.receive(None, memory).unwrap();
        (0..count).any(|index| link.arrived(index).bytes == b"back")
    };
    while !is_back(&mut link, &mut memory) {
        assert!(Instant::now() < until, "not back");
    }
    println!("\nsurvived {}", counters(&link));
}
