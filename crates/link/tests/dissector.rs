//! Does Wireshark read what we write? Every kind of record, captured and read back by tshark with our dissector.
//!
//! Needs tshark; `cargo xtask test` runs it where it is installed and says so where it is not.

use std::path::{Path, PathBuf};
use std::process::Command;

use packhorse_link::capture::Captured;
use packhorse_link::mem::Table;
use packhorse_link::pcapng::{LinkType, Writer as Capture};
use packhorse_link::udp::{Udp, UdpConfig};
use packhorse_link::{Burst, Link};
use packhorse_proto::wire::{
    AckRepr, Action, Class, FindRepr, FoundRepr, Header, HelloRepr, Introduction, Lane,
    LookupFrame, MessageHead, NamedRepr, RequestHead, WelcomeRepr, Writer, seal,
};
use packhorse_proto::{Address, Identity, Locator, Secret, Space, Tag};

const SECRET: Secret = Secret([1, 2]);

/// A frame and what a reader shall find in it: fields of tshark with their values, in order of appearance.
struct Case {
    bytes: Vec<u8>,
    found: Vec<(&'static str, String)>,
}

fn case(
    packet: u64,
    body: &[u8],
    write: impl FnOnce(&mut Writer<'_>),
    found: &[(&'static str, &str)],
) -> Case {
    let mut bytes = Vec::new();
    let header = Header { to: 0x1122_3344_5566_7788, packet, path: 3, form: 1 };
    write(&mut Writer::begin(&mut bytes, header));
    seal(&mut bytes, body.len(), SECRET, Some(0xdead_beef));
    bytes.extend_from_slice(body);
    let mut all = vec![("packhorse.packet", packet.to_string())];
    all.extend(found.iter().map(|&(name, value)| (name, value.to_string())));
    Case { bytes, found: all }
}

fn message(class: Class, immediate: Option<u64>, wants_match: bool, len: u16) -> MessageHead {
    let (offset, total) = match class {
        Class::Eager => (0, u64::from(len)),
        Class::Fragment => (4000, 9000),
        Class::Rts | Class::Told => (0, (2 << 32) + 5),
    };
    MessageHead {
        class,
        space: Space(7),
        message: 77,
        tag: Tag(0xabcd),
        offset,
        total,
        immediate,
        wants_match,
        len,
        ahead: if class == Class::Rts { 64 } else { 0 },
    }
}

fn messages() -> Vec<Case> {
    vec![
        case(
            1,
            b"hello",
            |w| w.message(&message(Class::Eager, None, false, 5)),
            &[
                ("packhorse.record", "Eager"),
                ("packhorse.eager.message", "77"),
                ("packhorse.eager.space", "7"),
                ("packhorse.eager.bits", "0x000000000000abcd"),
                ("packhorse.record.body", "68656c6c6f"),
            ],
        ),
        case(
            2,
            b"abc",
            |w| w.message(&message(Class::Fragment, Some(0x99), true, 3)),
            &[
                ("packhorse.record", "Fragment"),
                ("packhorse.fragment.offset", "4000"),
                ("packhorse.fragment.total", "9000"),
                ("packhorse.fragment.immediate", "0x0000000000000099"),
                ("packhorse.record.kind", "0x17"),
            ],
        ),
        case(
            3,
            b"x",
            |w| {
                w.check();
                w.message(&message(Class::Rts, None, true, 1));
            },
            &[
                ("packhorse.record", "Check,Rts"),
                ("packhorse.check.crc", "0xdeadbeef"),
                ("packhorse.rts.total", "5"),
                ("packhorse.rts.total_high", "2"),
                ("packhorse.rts.ahead", "64"),
            ],
        ),
        case(
            4,
            b"0123456789",
            |w| w.data(Lane::Message, 5, 10, 1 << 40),
            &[
                ("packhorse.record", "Data"),
                ("packhorse.data.offset", "1099511627776"),
                ("packhorse.data.len", "10"),
                ("packhorse.data.message", "5"),
            ],
        ),
    ]
}

fn control() -> Case {
    let ack = AckRepr { path: 2, largest: 900, first_len: 10, delay_ns: 1234, credit_len: 65_536 };
    let found = FoundRepr {
        query: 6,
        space: Space(1),
        tag: Tag(2),
        message: 8,
        total: 4096,
        immediate: None,
        none: false,
    };
    case(
        5,
        &[0; 12],
        |w| {
            w.ack(&ack, &[(3, 4), (5, 6)]);
            w.grant(Lane::Message, 9, 8192, 65_536);
            w.done(10, 1, 700);
            w.cancel(11);
            w.refuse(12, 500);
            w.recall(13, 501);
            w.query(6, Space(1), Tag(2), 0xff);
            w.found(&found);
            w.ping();
            w.pad(12);
            w.goodbye(14);
        },
        &[
            (
                "packhorse.record",
                "Ack,Grant,Done,Cancel,Refuse,Recall,Query,Found,Ping,Pad,Goodbye",
            ),
            ("packhorse.ack.largest", "900"),
            ("packhorse.ack.skip", "3,5"),
            ("packhorse.ack.take", "4,6"),
            ("packhorse.ack.delay_ns", "1234"),
            ("packhorse.ack.credit_len", "65536"),
            ("packhorse.grant.offset", "8192"),
            ("packhorse.grant.len", "65536"),
            ("packhorse.done.status", "1"),
            ("packhorse.done.placed_len", "700"),
            ("packhorse.refuse.order", "500"),
            ("packhorse.recall.message", "13"),
            ("packhorse.query.ignore", "0x00000000000000ff"),
            ("packhorse.found.total", "4096"),
            ("packhorse.pad.len", "12"),
            ("packhorse.goodbye.message", "14"),
        ],
    )
}

fn one_sided() -> Case {
    let request = |number, action| RequestHead { number, key: 0xCAFE, target: 64, action };
    let (immediate, total) = (Some(0x99), 9000);
    let atomic = Action::Atomic { op: 2, datatype: 7, fetch: true, total: 8, len: 8 };
    case(
        6,
        b"put.part.atomic..res",
        |w| {
            w.request(&request(1, Action::Put { immediate, len: 4 }));
            w.request(&request(
                2,
                Action::Part { offset: 100, total: 200, immediate: None, len: 5 },
            ));
            w.request(&request(3, Action::Ask { total, immediate }));
            w.request(&request(4, Action::Get { total }));
            w.request(&request(5, atomic));
            w.reply(6, 2, 3);
            w.replied(7, 8);
            w.end(9);
        },
        &[
            ("packhorse.record", "Put,PutPart,PutAsk,Get,Atomic,Reply,Replied,End"),
            ("packhorse.put.immediate", "0x0000000000000099"),
            ("packhorse.putpart.offset", "100"),
            ("packhorse.putask.total", "9000"),
            ("packhorse.get.target", "64"),
            ("packhorse.atomic.datatype", "7"),
            ("packhorse.reply.status", "2"),
            ("packhorse.replied.count", "8"),
            ("packhorse.end.number", "9"),
        ],
    )
}

fn contact() -> Case {
    let address = Address {
        secret: SECRET,
        identity: Identity { host: 1, endpoint: 2 },
        locator: Locator([9; 24]),
        has_helper: true,
    };
    let locators = [Locator([1; 24]), Locator([2; 24])];
    let hello = HelloRepr {
        who: Introduction {
            flags: 1,
            versions: 0x11,
            frame_len_max: 1472,
            incarnation: 0x10,
            id: 0x20,
            nonce: 0x30,
        },
        address,
        locators: &locators,
    };
    let welcome = WelcomeRepr {
        who: Introduction {
            flags: 0,
            versions: 0x11,
            frame_len_max: 8972,
            id: 0x40,
            nonce: 0x50,
            incarnation: 0x60,
        },
        locators: &locators[..1],
        address: Some(address),
    };
    case(
        0,
        &[],
        |w| {
            w.hello(&hello, SECRET);
            w.echo(0x70);
            w.challenge(0, 0x11, 0x80, 0x90, 0xa0);
            w.welcome(&welcome, SECRET);
            w.reset(0xb0);
            w.versions(1, 2, 0xc0);
            w.path_challenge(1, 0xd0);
            w.path_response(2, 0xe0);
        },
        &[
            (
                "packhorse.record",
                "Hello,Echo,Challenge,Welcome,Reset,Versions,PathChallenge,PathResponse",
            ),
            ("packhorse.hello.locator_count", "2"),
            ("packhorse.hello.frame_len_max", "1472"),
            ("packhorse.hello.id", "0x0000000000000020"),
            ("packhorse.echo.cookie", "0x0000000000000070"),
            ("packhorse.challenge.incarnation", "0x00000000000000a0"),
            ("packhorse.welcome.frame_len_max", "8972"),
            ("packhorse.welcome.incarnation", "0x0000000000000060"),
            ("packhorse.reset.id", "0x00000000000000b0"),
            ("packhorse.versions.max", "2"),
            ("packhorse.pathchallenge.nonce", "0x00000000000000d0"),
            ("packhorse.pathresponse.path", "2"),
        ],
    )
}

/// Look-ups have no packet number; a reader does not mind one, and cases are told apart by it.
fn look_ups() -> Vec<Case> {
    let (number, nonce, greeting) = (7, [0xf1, 0xf2], [9; 32]);
    let find = FindRepr { versions: 0x12, number, nonce, greeting }.write(SECRET);
    let (code, versions, salt, address) = (2, 0x11, 0xf3, None);
    let named = NamedRepr { code, number, versions, nonce, salt, address, greeting }.write(SECRET);
    let case = |packet: u8, mut frame: LookupFrame, found: &[(&'static str, &str)]| {
        frame[16] = packet;
        let mut all = vec![("packhorse.packet", packet.to_string())];
        all.extend(found.iter().map(|&(name, value)| (name, value.to_string())));
        Case { bytes: frame.to_vec(), found: all }
    };
    vec![
        case(
            200,
            find,
            &[
                ("packhorse.record", "Find"),
                ("packhorse.find.versions", "0x12"),
                ("packhorse.find.number", "7"),
                ("packhorse.find.nonce", "0x00000000000000f1"),
                ("packhorse.find.nonce_more", "0x00000000000000f2"),
            ],
        ),
        case(
            201,
            named,
            &[
                ("packhorse.record", "Named"),
                ("packhorse.named.code", "2"),
                ("packhorse.named.number", "7"),
                ("packhorse.named.versions", "0x11"),
                ("packhorse.named.salt", "0x00000000000000f3"),
            ],
        ),
    ]
}

fn cases() -> Vec<Case> {
    let mut cases = messages();
    cases.extend(look_ups());
    cases.push(control());
    cases.push(one_sided());
    cases.push(contact());
    cases
}

/// Fields of each packet, as tshark tells them.
fn read(capture: &Path, filter: &str, names: &[&str], more: &[&str]) -> Vec<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = root.join("tools/wireshark/packhorse.lua");
    let mut tshark = Command::new("tshark");
    tshark.arg("-X").arg(format!("lua_script:{}", script.display()));
    tshark.arg("-r").arg(capture).args(["-Y", filter, "-T", "fields", "-E", "separator=|"]);
    tshark.args(more);
    for name in names {
        tshark.args(["-e", name]);
    }
    let output = tshark.output().expect("tshark is installed");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    assert!(!complaints.contains("Lua"), "{complaints}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('|').map(str::to_string).collect()).collect()
}

/// One run for all frames, as starting tshark is what takes time. `wrong` are the numbers of frames that shall be malformed.
fn check(capture: &Path, cases: &[Case], wrong: &[&str], more: &[&str]) {
    let mut names = vec!["packhorse.packet", "packhorse.malformed"];
    for (name, _) in cases.iter().flat_map(|case| &case.found) {
        if !names.contains(name) {
            names.push(name); // asked for twice, a field is shown once
        }
    }
    let lines = read(capture, "packhorse", &names, more);
    assert_eq!(lines.len(), cases.len() + wrong.len(), "frames that are ours");
    let is_wrong = |line: &&Vec<String>| !line[1].is_empty();
    let found_wrong: Vec<&String> = lines.iter().filter(is_wrong).map(|line| &line[0]).collect();
    assert_eq!(found_wrong, wrong);
    for case in cases {
        let packet = &case.found[0].1;
        let line = lines.iter().find(|line| line[0] == *packet).expect("no such packet");
        for (name, value) in &case.found {
            let column = names.iter().position(|known| known == name).expect("asked for");
            assert_eq!(&line[column], value, "{name} of packet {packet}");
        }
    }
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("packhorse-{}-{name}.pcapng", std::process::id()))
}

#[test]
#[ignore = "needs tshark"]
fn captures_of_raw_frames_are_read() {
    let path = temporary("raw");
    let file = std::fs::File::create(&path).unwrap();
    let mut capture = Capture::new(file, LinkType::ETHERNET).unwrap();
    let cases = cases();
    for (n, case) in cases.iter().enumerate() {
        capture.ethernet(n as u64, [2; 6], [4; 6], &case.bytes, "").unwrap();
    }
    let mut damaged = cases[1].bytes.clone();
    damaged[16] = 99; // its number
    damaged[24] = 0x7f; // its kind
    capture.ethernet(9, [2; 6], [4; 6], &damaged, "").unwrap();
    capture.finish().unwrap();
    check(&path, &cases, &["99"], &[]);
    std::fs::remove_file(path).unwrap();
}

#[test]
#[ignore = "needs tshark"]
fn captures_of_udp_are_read_by_shape_and_by_port() {
    let path = temporary("udp");
    let config = UdpConfig::at("127.0.0.1:0".parse().unwrap());
    let mut from = Captured::create(Udp::open(&config).unwrap(), &path).unwrap();
    let to = Udp::open(&config).unwrap();
    let (mut burst, mut memory) = (Burst::default(), Table::default());
    let cases = cases();
    for case in &cases {
        burst.begin(to.locator());
        burst.head(&case.bytes);
    }
    assert_eq!(from.send(&burst, 0, &mut memory).unwrap(), cases.len());
    from.finish().unwrap();
    check(&path, &cases, &[], &[]);
    let port = packhorse_link::udp::from_locator(&to.locator()).unwrap().port();
    let by_port = format!("udp.port=={port},packhorse");
    check(&path, &cases, &[], &["-d", &by_port]);
    let ports = read(&path, "packhorse", &["udp.dstport"], &[]);
    assert!(ports.iter().all(|line| line[0] == port.to_string()));
    std::fs::remove_file(path).unwrap();
}
