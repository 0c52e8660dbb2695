//! One lossy transfer, told to a person.
//!
//! Two endpoints, a wire that loses two frames in a hundred, a few small messages and one of a megabyte. What is met for
//! the first time is explained; frames of the same kind in a row are told as one.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{self, Write};
use std::rc::Rc;

use packhorse_link::sim::{Conditions, Event as NetEvent, FrameInfo, Line, What, Who};
use packhorse_proto::wire::{Class, FrameView, Record};
use packhorse_proto::{Event, MS, SECOND, Secret, Tag};

use crate::trace::{describe_frame, time};
use crate::world::{Spec, World};

const LARGE_LEN: u64 = 1_000_000;
const LOSS_PPM: u32 = 20_000;
const RATE_GBPS: u64 = 10;
const DELAY_NS: u64 = 10_000;
/// Frames of data told in one line.
const STRETCH_FRAME_COUNT: u64 = 64;

/// What a record is about, for explaining and folding; the weightiest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Topic {
    Goodbye,
    Probe,
    Contact,
    Answer,
    Proof,
    Welcome,
    Done,
    Announcement,
    Small,
    Data,
    Grant,
    Ack,
    Other,
}

impl Topic {
    /// Whether frames about it come in such numbers that they are told together.
    fn folds(self) -> bool {
        matches!(self, Self::Data | Self::Ack | Self::Grant)
    }

    /// What a reader should know when it is met first.
    fn explanation(self) -> Option<&'static str> {
        Some(match self {
            Self::Contact => {
                "A knows B's address and nothing else: it introduces itself, and keeps no message on the way yet."
            }
            Self::Answer => {
                "B keeps nothing of a stranger. It hands out a cookie and waits for its return."
            }
            Self::Proof => {
                "A returns the cookie: it is alive now and where it says. Messages travel with it."
            }
            Self::Welcome => {
                "B believes it, and names the number under which it wants to hear from A."
            }
            Self::Small => "Small messages travel whole; several may share a frame.",
            Self::Announcement => {
                "A large message is announced with its first bytes; the rest waits for B's permission."
            }
            Self::Grant => {
                "B found the receive it belongs to and grants ranges of it, further ones before A runs dry."
            }
            Self::Data => {
                "Granted bytes go straight to their place in the receiver's memory, in any order."
            }
            Self::Ack => {
                "B says which frames came. What is missing is sent again: its content, in another frame."
            }
            Self::Done => "The last byte is in place: the large message is done.",
            Self::Goodbye => "Nothing is owed any more: goodbye.",
            Self::Probe => "Silence. A small frame asks what arrived.",
            Self::Other => return None,
        })
    }
}

/// A stretch of the large transfer, told in one line.
#[derive(Debug, Default)]
struct Stretch {
    at_ns: u64,
    data_count: u64,
    again_count: u64,
    ack_count: u64,
    grant_count: u64,
    lost_count: u64,
}

struct Teller {
    out: Box<dyn Write>,
    secrets: Vec<Secret>,
    explained: HashSet<Topic>,
    stretch: Option<Stretch>,
    /// A frame told on a line of its own, which waits to hear whether it is lost.
    single: Option<(u64, String)>,
    /// Bytes of the large message sent so far.
    sent_to: u64,
    lost_count: u64,
    result: io::Result<()>,
}

impl Teller {
    fn new(out: Box<dyn Write>, secrets: Vec<Secret>) -> Self {
        Self {
            out,
            secrets,
            explained: HashSet::new(),
            stretch: None,
            single: None,
            sent_to: 0,
            lost_count: 0,
            result: Ok(()),
        }
    }

    fn say(&mut self, text: &str) {
        if self.result.is_ok() {
            self.result = writeln!(self.out, "{text}");
        }
    }

    fn on_frame(&mut self, event: &NetEvent, bytes: &[u8]) {
        match event.what {
            What::Sent => self.on_sent(event, bytes),
            What::Dropped(reason) => self.on_lost(event.frame.number, reason.as_str()),
            _ => {}
        }
    }

    fn on_lost(&mut self, number: u64, reason: &str) {
        self.lost_count += 1;
        match (&mut self.single, &mut self.stretch) {
            (Some((single, line)), _) if *single == number => {
                *line += &format!("; lost ({reason})")
            }
            (_, Some(stretch)) => stretch.lost_count += 1,
            _ => {}
        }
    }

    fn on_sent(&mut self, event: &NetEvent, bytes: &[u8]) {
        let secret = self.secrets[event.frame.to.node as usize];
        let topics = topics_of(secret, bytes);
        let fresh: Vec<_> = topics.iter().filter(|topic| self.explained.insert(**topic)).collect();
        let explained: Vec<_> = fresh.into_iter().filter_map(|topic| topic.explanation()).collect();
        if !explained.is_empty() {
            self.flush();
            self.say("");
            explained.into_iter().for_each(|text| self.say(&format!("  {text}")));
        }
        let topic = topics[0];
        if topic.folds() {
            self.add_to_stretch(&event.frame, topic, secret, bytes);
        } else {
            self.flush();
            let way = if event.frame.from.node == 0 { "A → B" } else { "B → A" };
            let what = describe_frame(secret, bytes);
            self.single =
                Some((event.frame.number, format!("{}  {way}  {what}", time(event.frame.at_ns))));
        }
    }

    fn add_to_stretch(&mut self, frame: &FrameInfo, topic: Topic, secret: Secret, bytes: &[u8]) {
        self.flush_single();
        if self.stretch.as_ref().is_some_and(|stretch| stretch.data_count >= STRETCH_FRAME_COUNT) {
            self.flush();
        }
        let sent_to = &mut self.sent_to;
        let at_ns = frame.at_ns;
        let stretch = self.stretch.get_or_insert_with(|| Stretch { at_ns, ..Stretch::default() });
        match topic {
            Topic::Data => stretch.data_count += 1,
            Topic::Grant => stretch.grant_count += 1,
            _ => stretch.ack_count += u64::from(frame.from.node == 1),
        }
        let Ok(frame) = FrameView::open(secret, bytes) else { return };
        for (record, body) in frame.records() {
            if let Record::Data { offset, .. } = record {
                stretch.again_count += u64::from(offset < *sent_to);
                *sent_to = (*sent_to).max(offset + body.len() as u64);
            }
        }
    }

    fn flush_single(&mut self) {
        if let Some((_, line)) = self.single.take() {
            self.say(&line);
        }
    }

    fn flush(&mut self) {
        self.flush_single();
        let Some(stretch) = self.stretch.take() else { return };
        let mut parts = Vec::new();
        if stretch.data_count > 0 {
            parts.push(format!(
                "A → B  {} frames of data, up to byte {}",
                stretch.data_count, self.sent_to
            ));
        }
        if stretch.again_count > 0 {
            parts.push(format!("{} of them again", stretch.again_count));
        }
        if stretch.ack_count + stretch.grant_count > 0 {
            parts.push(format!(
                "B → A  {} acks, {} with grants",
                stretch.ack_count + stretch.grant_count,
                stretch.grant_count
            ));
        }
        if stretch.lost_count > 0 {
            parts.push(format!("{} lost", stretch.lost_count));
        }
        if !parts.is_empty() {
            self.say(&format!("{}  {}", time(stretch.at_ns), parts.join("; ")));
        }
    }
}

/// What a frame is about, the weightiest first.
fn topics_of(secret: Secret, bytes: &[u8]) -> Vec<Topic> {
    let Ok(frame) = FrameView::open(secret, bytes) else { return vec![Topic::Other] };
    let records = || frame.records().map(|(record, _)| record);
    let is_echo = records().any(|record| matches!(record, Record::Echo { .. }));
    let is_probe = !is_echo && records().any(|record| matches!(record, Record::Ping));
    let mut topics: Vec<Topic> = records()
        .map(|record| match record {
            Record::Goodbye { .. } => Topic::Goodbye,
            Record::Echo { .. } => Topic::Proof,
            Record::Hello(_) if is_probe => Topic::Probe,
            Record::Hello(_) if is_echo => Topic::Proof,
            Record::Hello(_) => Topic::Contact,
            Record::Challenge { .. } => Topic::Answer,
            Record::Welcome(_) => Topic::Welcome,
            Record::Done { .. } => Topic::Done,
            Record::Message(head) if matches!(head.class, Class::Rts | Class::Told) => {
                Topic::Announcement
            }
            Record::Message(_) => Topic::Small,
            Record::Data { .. } => Topic::Data,
            Record::Grant { .. } => Topic::Grant,
            Record::Request(_) => Topic::Small,
            Record::Reply { .. } | Record::Replied { .. } | Record::Outcome { .. } => Topic::Done,
            Record::Ack(_) => Topic::Ack,
            _ => Topic::Other,
        })
        .collect();
    topics.sort_unstable();
    topics.dedup();
    topics
}

/// Tells the story of this seed to `out`.
///
/// # Errors
/// If it cannot be written.
pub fn tell(seed: u64, out: Box<dyn Write>) -> io::Result<()> {
    let mut world = World::new(seed);
    let (a, b) = (world.add_node(Spec::default()), world.add_node(Spec::default()));
    let conditions = Conditions { delay_ns: DELAY_NS, loss_ppm: LOSS_PPM, ..Conditions::PERFECT };
    world.net().set_conditions(Who::Any, Who::Any, conditions);
    world.net().set_all_lines(Line::gbps(RATE_GBPS, 1 << 20));
    let secrets = vec![world.address(a).secret, world.address(b).secret];
    let teller = Rc::new(RefCell::new(Teller::new(out, secrets)));
    teller.borrow_mut().say(&format!(
        "Two endpoints, A and B, on a {RATE_GBPS} Gb/s wire of {} µs that loses 2 frames in 100 (seed {seed}).\n\
         A sends three messages of 8 bytes and one of {LARGE_LEN}; B has posted receives for all.",
        DELAY_NS / 1000
    ));
    let ears = Rc::clone(&teller);
    world
        .net()
        .observe(Some(Box::new(move |event, bytes| ears.borrow_mut().on_frame(event, bytes))));
    for (tag, len) in [(1, 8), (2, 8), (3, 8), (4, LARGE_LEN)] {
        world.recv(b, Some(a), Tag(tag), len);
        world.send(a, b, Tag(tag), len);
    }
    let mut missing = 4 + 4;
    let mut done_at_ns = 0;
    let whole = world.run_until_event(10 * SECOND, |_, event| {
        missing -= i32::from(matches!(event, Event::Sent { .. } | Event::Received { .. }));
        missing == 0
    });
    if whole {
        done_at_ns = world.now().0;
    }
    for node in [a, b] {
        world.close(node);
        world.run_until_event(SECOND, |_, event| matches!(event, Event::Closed { .. }));
    }
    world.run_for(MS);
    world.net().observe(None);
    let mut teller = teller.borrow_mut();
    teller.flush();
    let (frames, resent) =
        (world.net().counters().sent_count, world.endpoint(a).counters().contents_resent);
    let gbps = LARGE_LEN as f64 * 8.0 / done_at_ns.max(1) as f64;
    let lost = teller.lost_count;
    teller.say(&if whole {
        format!(
            "\nAll four messages arrived once, whole and in order, after {} ({gbps:.2} Gb/s with first contact).\n\
             {frames} frames were sent, {lost} lost, {resent} contents sent again.",
            time(done_at_ns).trim()
        )
    } else {
        format!("\nAfter 10 s {missing} events are still missing: this is a bug; keep the seed {seed}.")
    });
    teller.say("\nNext: `packhorse sim --runs 10000` tries ten thousand worse networks, `packhorse sim --seed 1` shows one.");
    std::mem::replace(&mut teller.result, Ok(()))?;
    teller.out.flush()
}
