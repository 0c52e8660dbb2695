//! Mallory: knows every address, hears every frame, says what she likes.
//!
//! She collects the numbers that open doors (association ids, cookies, nonces, incarnations) as they pass, and puts
//! them, or numbers near them, where the protocol would believe them most.

mod trains;

use packhorse_proto::wire::{
    AckRepr, Action, Class, FORM_STRANGER, FoundRepr, FrameView, HEADER_LEN, Header, HelloRepr,
    Introduction, Lane, MessageHead, Record, RequestHead, TOTAL_MAX, VERSION, WHEREABOUTS_LEN,
    WelcomeRepr, Writer, base_of, seal_high, wants_crc,
};
use packhorse_proto::{Address, Locator, Secret, Space, Tag};

use crate::node::opening;
use crate::script::Script;
use trains::{Heard, Piece};

/// Her number among endpoints.
const NUMBER: u64 = 666;
/// Where she is.
pub(super) const LOCATOR: Locator = Locator([0x66; 24]);
/// Numbers remembered.
const NUMBER_COUNT_MAX: usize = 24;
/// Frames remembered.
const FRAME_COUNT_MAX: usize = 16;
/// Associations remembered of each receiver.
const ROAD_COUNT_MAX: usize = 4;
/// Keys there are.
const KEY_COUNT: usize = 5;
/// Records in a forged frame.
const RECORD_COUNT_MAX: usize = 6;

/// Her own address: she also plays by the rules, up to a point.
pub(super) fn address() -> Address {
    let own = opening(NUMBER, 0);
    Address { secret: own.secret, identity: own.identity, locator: LOCATOR, has_helper: true }
}

/// What she has heard.
#[derive(Debug, Default)]
pub(super) struct Mallory {
    numbers: Vec<u64>,
    frames: Vec<Vec<u8>>,
    /// By receiver: associations it was addressed by, and the last packet number there.
    roads: [Vec<(u64, u64)>; KEY_COUNT],
    /// By receiver: the piece of a message of several frames that was last on its way there.
    pieces: [Option<Heard>; KEY_COUNT],
    heard_count: usize,
}

impl Mallory {
    /// Reads a frame on its way: what it says, if somebody wants to know. She tries all keys she knows.
    pub(super) fn overhear(&mut self, from: Locator, frame: &[u8], is_told: bool) -> String {
        self.heard_count += 1;
        let slot = self.heard_count % FRAME_COUNT_MAX;
        if slot < self.frames.len() {
            self.frames[slot] = frame.to_vec();
        } else {
            self.frames.push(frame.to_vec());
        }
        let opened = |(at, key)| Some((at, FrameView::open(key, frame).ok()?));
        let Some((receiver, view)) = keys().enumerate().find_map(opened) else {
            return "unreadable".into();
        };
        self.note_road(receiver, view.header.to, view.header.packet);
        self.remember(view.header.to);
        for (record, body) in view.records() {
            if let Some(piece) = Piece::of(&record, body) {
                let (to, packet) = (view.header.to, view.header.packet);
                self.pieces[receiver] = Some(Heard { from, to, packet, piece });
            }
            let heard = match record {
                Record::Challenge { nonce, cookie, incarnation, .. } => {
                    [nonce, cookie, incarnation]
                }
                Record::Echo { cookie } => [cookie, 0, 0],
                Record::Hello(hello) => numbers(hello.who()),
                Record::Welcome(welcome) => numbers(welcome.who()),
                Record::PathChallenge { nonce, .. } => [nonce, 0, 0],
                _ => [0; 3],
            };
            for number in heard {
                self.remember(number);
            }
        }
        if is_told { said(&view) } else { String::new() }
    }

    /// A frame in words, whoever it is for.
    pub(super) fn read(&self, frame: &[u8]) -> String {
        keys()
            .find_map(|key| FrameView::open(key, frame).ok())
            .map_or("nothing readable".into(), |view| said(&view))
    }

    fn note_road(&mut self, receiver: usize, to: u64, packet: u64) {
        let roads = &mut self.roads[receiver];
        roads.retain(|road| road.0 != to);
        if roads.len() == ROAD_COUNT_MAX {
            roads.remove(0);
        }
        roads.push((to, packet));
    }

    fn remember(&mut self, number: u64) {
        if number == 0 || self.numbers.contains(&number) {
            return;
        }
        if self.numbers.len() == NUMBER_COUNT_MAX {
            self.numbers.remove(0);
        }
        self.numbers.push(number);
    }

    /// A frame heard before.
    pub(super) fn remembered(&self, script: &mut Script<'_>) -> Option<Vec<u8>> {
        (!self.frames.is_empty()).then(|| self.frames[script.below(self.frames.len())].clone())
    }

    /// A number that matters, newest first; sometimes none or any.
    fn number(&self, script: &mut Script<'_>) -> u64 {
        let choice = usize::from(script.byte()) % (self.numbers.len() + 3);
        match self.numbers.iter().rev().nth(choice) {
            Some(&number) => number,
            None if choice == self.numbers.len() => 0,
            None => script.wide(),
        }
    }

    /// Where she keeps what she knows of a victim.
    fn receiver(&self, victim: &Address) -> usize {
        keys().position(|key| key == victim.secret).expect("a victim she knows")
    }

    /// An association of the victim, newest first, and the next packet there or a later one; sometimes any.
    fn road(&mut self, victim: &Address, script: &mut Script<'_>) -> (u64, u64) {
        let (choice, ahead) = (usize::from(script.byte()), u64::from(script.byte() & 3));
        let receiver = self.receiver(victim);
        let roads = &mut self.roads[receiver];
        let count = roads.len();
        if choice % (count + 1) == count {
            return (self.number(script), ahead);
        }
        let (to, packet) = &mut roads[count - 1 - choice % (count + 1)];
        *packet += ahead;
        (*to, *packet)
    }

    /// A frame to `victim`, rightly keyed.
    pub(super) fn forge(&mut self, victim: &Address, script: &mut Script<'_>) -> Vec<u8> {
        let shape = script.byte();
        let stranger = shape & 0xC0 == 0xC0;
        let secret = if stranger { Secret::PUBLIC } else { victim.secret };
        let form = if stranger { VERSION | FORM_STRANGER } else { VERSION };
        let form = if shape & 0x3F == 0x3F { script.byte() } else { form };
        let (to, packet) = self.road(victim, script);
        let path = script.pick(&[0, 0, 0, 0, 0, 0, 1, 255]);
        let mut head = Vec::new();
        let mut body = Vec::new();
        let mut writer = Writer::begin(&mut head, Header { to, packet, path, form });
        if shape & 1 == 1 {
            writer.check();
        }
        for _ in 0..1 + script.below(RECORD_COUNT_MAX) {
            self.write_record(&mut writer, &mut body, secret, script);
        }
        if shape & 0x38 == 0x38 {
            scribble(&mut head[HEADER_LEN..], script);
        }
        let crc = wants_crc(&head).then(|| crc32c::crc32c(&body));
        seal_high(&mut head, body.len(), base_of(packet), &secret, crc);
        head.extend_from_slice(&body);
        head
    }

    fn write_record(
        &self,
        writer: &mut Writer<'_>,
        body: &mut Vec<u8>,
        secret: Secret,
        script: &mut Script<'_>,
    ) {
        let kind = script.below(27);
        match kind {
            0..=2 => write_ack(writer, script),
            3..=6 => write_message(writer, body, script),
            7..=8 => writer.grant(
                lane(script),
                message(script),
                script.wide(),
                script.wide().min(1 << 40),
            ),
            9..=10 => {
                let len = script.half() % 1_000;
                body.resize(body.len() + usize::from(len), 0xEE);
                writer.data(lane(script), message(script), len, script.wide());
            }
            11 => writer.done(message(script), script.byte() & 3, script.wide()),
            12 => writer.cancel(message(script)),
            13 => writer.refuse(message(script), script.half()),
            14 => writer.recall(message(script), script.half()),
            15 => writer.query(
                message(script),
                Space(script.byte() & 1),
                Tag(script.wide()),
                script.wide(),
            ),
            16 => writer.found(&found(script)),
            17..=18 => self.write_hello(writer, secret, script),
            19 => writer.challenge(
                script.byte(),
                0x11,
                self.number(script),
                self.number(script),
                self.number(script),
            ),
            20 => self.write_welcome(writer, secret, script),
            21 => writer.reset(self.number(script)),
            22 => writer.goodbye(message(script)),
            23..=24 => write_request(writer, body, script),
            _ => self.write_rest(writer, body, script),
        }
    }

    fn write_rest(&self, writer: &mut Writer<'_>, body: &mut Vec<u8>, script: &mut Script<'_>) {
        match script.below(10) {
            9 => writer.stream_credit(script.wide()),
            5 => write_request(writer, body, script),
            6 => {
                let len = script.half() % 1_100;
                body.resize(body.len() + usize::from(len), 0xCC);
                writer.reply(message(script), script.byte() & 7, len);
            }
            7 => writer.replied(message(script), script.half().max(1)),
            8 => writer.end(message(script)),
            0 => writer.versions(script.byte() & 15, script.byte() & 15, self.number(script)),
            1 => writer.path_challenge(script.byte(), self.number(script)),
            2 => writer.path_response(script.byte(), self.number(script)),
            3 => writer.ping(),
            _ => {
                let len = script.half() % 600;
                body.resize(body.len() + usize::from(len), 0);
                writer.pad(len);
            }
        }
    }

    /// In somebody's name, perhaps with a cookie she heard.
    fn write_hello(&self, writer: &mut Writer<'_>, secret: Secret, script: &mut Script<'_>) {
        let hello = HelloRepr {
            who: Introduction {
                flags: script.byte() & 3,
                versions: script.pick(&[0x11, 0x11, 0x13, 0x00, 0xF1]),
                frame_len_max: script.pick(&[1_472, 1_200, 0, u16::MAX]),
                incarnation: self.number(script),
                id: self.number(script),
                nonce: self.number(script),
            },
            address: somebody(script),
            locators: &[LOCATOR; 2][..script.below(3)],
        };
        writer.hello(&hello, secret);
        if script.flag() {
            writer.echo(self.number(script));
        }
    }

    fn write_welcome(&self, writer: &mut Writer<'_>, secret: Secret, script: &mut Script<'_>) {
        let welcome = WelcomeRepr {
            who: Introduction {
                flags: script.byte() & 1,
                versions: 0x11,
                frame_len_max: script.pick(&[1_472, 1_200, 0, u16::MAX]),
                id: self.number(script),
                nonce: self.number(script),
                incarnation: self.number(script),
            },
            locators: &[LOCATOR; 2][..script.below(3)],
            address: script.flag().then(address),
        };
        writer.welcome(&welcome, secret);
    }
}

/// What an introduction has that may serve again.
fn numbers(who: Introduction) -> [u64; 3] {
    [who.id, who.nonce, who.incarnation]
}

/// All keys there are.
fn keys() -> impl Iterator<Item = Secret> {
    (0..3).map(|number| opening(number, 0).secret).chain([address().secret, Secret::PUBLIC])
}

/// A frame in words.
fn said(view: &FrameView<'_>) -> String {
    let records: Vec<String> = view.records().map(|(record, _)| format!("{record:?}")).collect();
    format!("{:?} {}", view.header, records.join(", "))
}

/// A message number: among the first, or about to wrap.
fn message(script: &mut Script<'_>) -> u32 {
    match script.byte() {
        near @ 0..=199 => u32::from(near & 15),
        far => u32::MAX - u32::from(far - 200),
    }
}

/// Any lane there is.
fn lane(script: &mut Script<'_>) -> Lane {
    script.pick(&[Lane::Message, Lane::Message, Lane::Put, Lane::Get])
}

fn write_request(writer: &mut Writer<'_>, body: &mut Vec<u8>, script: &mut Script<'_>) {
    let (which, len, flags) = (script.below(5), script.half() % 1_100, script.byte());
    let immediate = (flags & 1 != 0).then_some(9);
    let (action, body_len) = match which {
        0 => (Action::Put { immediate, len }, len),
        1 => {
            let total = (script.wide() as u32).max(u32::from(len)).max(1);
            let room = total - u32::from(len);
            let offset = (script.wide() as u32) % room.saturating_add(1).max(1);
            (Action::Part { offset, total, immediate, len }, len)
        }
        2 => (Action::Ask { total: script.wide(), immediate }, 0),
        3 => (Action::Get { total: script.wide() }, 0),
        _ => {
            let (op, datatype, fetch) = (script.byte() % 20, flags >> 1 & 15, flags & 1 != 0);
            let total = if flags & 0x80 == 0 { 8 } else { script.wide() as u32 };
            let len = if script.flag() { 8 } else { len };
            (Action::Atomic { op, datatype, fetch, total, len }, len)
        }
    };
    body.resize(body.len() + usize::from(body_len), 0xBB);
    let key = super::application::KEYS[usize::from(flags >> 5) % 3];
    writer.request(&RequestHead { number: message(script), key, target: script.wide(), action });
}

fn somebody(script: &mut Script<'_>) -> Address {
    let number = script.below(5) as u64;
    if number == 3 {
        return address();
    }
    if number == 4 {
        // Another's name with her own secret.
        return Address { identity: opening(script.below(3) as u64, 0).identity, ..address() };
    }
    let named = opening(number, 0);
    let locator = named.locators[0];
    Address { secret: named.secret, identity: named.identity, locator, has_helper: true }
}

fn write_ack(writer: &mut Writer<'_>, script: &mut Script<'_>) {
    let pairs: Vec<(u32, u32)> = (0..script.below(4))
        .map(|_| (u32::from(script.byte()).max(1), (script.wide() as u32).max(1)))
        .collect();
    let ack = AckRepr {
        path: script.pick(&[0, 0, 0, 1, 200]),
        largest: script.wide() as u32,
        first_len: (script.wide() as u32).max(1),
        delay_ns: script.wide() as u32,
        credit_len: script.wide() as u32,
    };
    writer.ack(&ack, &pairs);
}

fn write_message(writer: &mut Writer<'_>, body: &mut Vec<u8>, script: &mut Script<'_>) {
    let class = script.pick(&[Class::Eager, Class::Fragment, Class::Rts]);
    let (len, flags) = (script.half() % 800, script.byte());
    let (class, len) = match class {
        Class::Rts if flags & 8 != 0 => (Class::Told, WHEREABOUTS_LEN as u16),
        class => (class, len),
    };
    let (offset, total) = match class {
        Class::Eager => (0, u64::from(len)),
        Class::Fragment => {
            let total = (script.wide() as u32).max(u32::from(len)).max(1);
            let room = total - u32::from(len);
            ((script.wide() as u32) % room.saturating_add(1).max(1), u64::from(total))
        }
        Class::Rts => (0, (script.wide() & TOTAL_MAX).max(u64::from(len))),
        Class::Told => (0, script.wide() & TOTAL_MAX),
    };
    body.resize(body.len() + usize::from(len), 0xDD);
    // Half of all are chunks of streams: one of a few streams, with any flags.
    let (space, tag) = match flags & 0x80 {
        0 => (Space(flags & 1), Tag(u64::from(script.byte() & 1))),
        _ => {
            let (number, marks) = (script.byte() & 3, script.byte());
            (Space::STREAMS, Tag(u64::from(marks) << 48 | u64::from(number)))
        }
    };
    writer.message(&MessageHead {
        class,
        space,
        message: message(script),
        tag,
        offset,
        total,
        immediate: (flags & 2 != 0).then_some(7),
        wants_match: flags & 4 != 0,
        len,
        ahead: if class == Class::Rts { u16::from(flags >> 4) } else { 0 },
    });
}

fn found(script: &mut Script<'_>) -> FoundRepr {
    FoundRepr {
        query: message(script),
        space: Space(script.byte() & 1),
        tag: Tag(u64::from(script.byte() & 1)),
        message: message(script),
        total: script.wide(),
        immediate: script.flag().then_some(1),
        none: script.flag(),
    }
}

/// Overwrites a few bytes of the heads.
fn scribble(heads: &mut [u8], script: &mut Script<'_>) {
    for _ in 0..1 + script.below(4) {
        if !heads.is_empty() {
            let at = usize::from(script.half()) % heads.len();
            heads[at] = script.byte();
        }
    }
}
