//! A run as a person reads it: one line per frame and per call, in order of time.
//!
//! ```text
//!    12.300 µs  A → B  packet 7: Rts #3 tag 0x5 1048576 B; lost (random loss)
//! ```
//!
//! Frames are decoded with the receiver's key, which nobody on a real network could. Lines go to a writer, to a capture,
//! and into a ring of the last ones for reports.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use packhorse_link::pcapng;
use packhorse_link::sim::{Event, Port, What};
use packhorse_proto::seal::pass_of;
use packhorse_proto::wire::{
    Class, DONE_CANCELLED, DONE_MATCHED, DONE_OK, FrameView, MessageHead, Record, RequestHead,
};
use packhorse_proto::{Instant, Secret};

use crate::scenario::Scenario;
use crate::world::World;

/// Writes down what happens.
pub struct Tracer {
    letters: Vec<char>,
    secrets: Vec<Secret>,
    out: Option<Box<dyn Write>>,
    capture: Option<pcapng::Writer<BufWriter<File>>>,
    error: Option<io::Error>,
    last: VecDeque<String>,
    last_count_max: usize,
    /// The frame whose line is not finished: what befalls it as it leaves belongs to it.
    open: Option<Open>,
}

struct Open {
    number: u64,
    line: String,
    fate: String,
    at_ns: u64,
    from: Port,
    to: Port,
    /// Kept only for a capture.
    bytes: Vec<u8>,
}

impl Tracer {
    /// Lines go to `out`, the last `last_count_max` are kept.
    pub fn new(out: Option<Box<dyn Write>>, last_count_max: usize) -> Self {
        Self {
            letters: Vec::new(),
            secrets: Vec::new(),
            out,
            capture: None,
            error: None,
            last: VecDeque::new(),
            last_count_max,
            open: None,
        }
    }

    /// All frames go to this file too.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn capture_to(&mut self, file: File) -> io::Result<()> {
        self.capture = Some(pcapng::Writer::new(BufWriter::new(file), pcapng::LinkType::ETHERNET)?);
        Ok(())
    }

    /// Learns who is who.
    pub(crate) fn meet(&mut self, world: &World, scenario: &Scenario) {
        self.letters = scenario.nodes.iter().map(|node| node.letter()).collect();
        self.secrets = world.node_ids().map(|node| world.address(node).secret).collect();
    }

    /// The name of a node.
    pub fn letter(&self, node: u32) -> char {
        self.letters.get(node as usize).copied().unwrap_or('?')
    }

    /// Something an application did or saw.
    pub fn note(&mut self, at: Instant, text: String) {
        self.close_line();
        self.line(format!("{}  {text}", time(at.0)));
    }

    /// Something happened to a frame.
    pub fn on_frame(&mut self, event: &Event, bytes: &[u8]) {
        let frame = &event.frame;
        if event.what == What::Sent {
            self.close_line();
            let line = self.sent_line(event, bytes);
            let bytes = if self.capture.is_some() { bytes.to_vec() } else { Vec::new() };
            let (number, at_ns, from, to) = (frame.number, frame.at_ns, frame.from, frame.to);
            self.open = Some(Open { number, line, fate: String::new(), at_ns, from, to, bytes });
            return;
        }
        let fate = match event.what {
            What::Sent | What::Delivered if !frame.is_copy => return self.arrived(event),
            What::Sent | What::Delivered => return,
            What::Dropped(reason) => format!("lost ({reason})"),
            other => other.to_string(),
        };
        match &mut self.open {
            Some(open) if open.number == frame.number && open.at_ns == frame.at_ns => {
                write!(open.fate, "; {fate}").expect("strings take all");
            }
            _ => {
                self.close_line();
                let (from, to) = (self.letter(frame.from.node), self.letter(frame.to.node));
                self.line(format!(
                    "{}  {from} → {to}  frame {}: {fate}",
                    time(frame.at_ns),
                    frame.number
                ));
            }
        }
    }

    fn arrived(&mut self, event: &Event) {
        self.close_line();
        let frame = &event.frame;
        let (from, to) = (self.letter(frame.from.node), self.letter(frame.to.node));
        self.line(format!("{}  {to} ← {from}  frame {} arrives", time(frame.at_ns), frame.number));
    }

    fn sent_line(&self, event: &Event, bytes: &[u8]) -> String {
        let frame = &event.frame;
        let (from, to) = (self.letter(frame.from.node), self.letter(frame.to.node));
        let rail = match (frame.from.port, frame.to.port) {
            (0, 0) => String::new(),
            (a, b) => format!(" (port {a} to {b})"),
        };
        let secret = self.secrets.get(frame.to.node as usize).copied().unwrap_or(Secret::PUBLIC);
        let what = describe_frame(secret, bytes);
        format!("{}  {from} → {to}{rail}  frame {}, {what}", time(frame.at_ns), frame.number)
    }

    /// Finishes the line of the frame last sent.
    pub fn close_line(&mut self) {
        let Some(open) = self.open.take() else { return };
        if let Some(capture) = &mut self.capture {
            let comment = open.fate.trim_start_matches("; ");
            let result = capture.ethernet(
                open.at_ns,
                open.from.to_mac(),
                open.to.to_mac(),
                &open.bytes,
                comment,
            );
            self.error = self.error.take().or(result.err());
        }
        self.line(open.line + &open.fate);
    }

    fn line(&mut self, line: String) {
        if let Some(out) = &mut self.out {
            let result = writeln!(out, "{line}");
            self.error = self.error.take().or(result.err());
        }
        if self.last_count_max > 0 {
            if self.last.len() == self.last_count_max {
                self.last.pop_front();
            }
            self.last.push_back(line);
        }
    }

    /// The last lines.
    pub fn last(&self) -> impl Iterator<Item = &str> {
        self.last.iter().map(String::as_str)
    }

    /// Ends trace and capture.
    ///
    /// # Errors
    /// The first that occurred in writing.
    pub fn finish(&mut self) -> io::Result<()> {
        self.close_line();
        if let Some(capture) = self.capture.take() {
            capture.finish()?;
        }
        if let Some(out) = &mut self.out {
            out.flush()?;
        }
        self.error.take().map_or(Ok(()), Err)
    }
}

/// A time with a unit that suits it.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{:>9.3} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:>9.3} ms", ns as f64 / 1e6),
        _ => format!("{:>9.5} s ", ns as f64 / 1e9),
    }
}

/// A frame in words.
pub fn describe_frame(secret: Secret, bytes: &[u8]) -> String {
    let keyed = FrameView::open(secret, bytes).or_else(|_| FrameView::open(Secret::PUBLIC, bytes));
    let frame = keyed.ok().or_else(|| FrameView::open_passed(pass_of(&secret), 0, bytes));
    let Some(frame) = frame else { return format!("unreadable, {} bytes", bytes.len()) };
    let mut text = format!("packet {}", frame.header.packet);
    if frame.header.path > 0 {
        write!(text, " on path {}", frame.header.path).expect("strings take all");
    }
    let mut between = ": ";
    for (record, body) in frame.records() {
        if matches!(record, Record::Check { .. }) {
            continue;
        }
        text.push_str(between);
        text.push_str(&describe_record(&record, body.len()));
        between = ", ";
    }
    text
}

fn describe_record(record: &Record<'_>, body_len: usize) -> String {
    match record {
        Record::Check { .. } => String::new(),
        Record::Ack(ack) => {
            let (path, largest, credit) = (ack.path(), ack.largest(), ack.credit_len());
            let mut text = format!("Ack path {path}");
            for (first, last) in ack.ranges(largest.into()) {
                write!(text, " {first}-{last}").expect("strings take all");
            }
            text + &format!(" credit {credit}")
        }
        Record::Ping => "Ping".into(),
        Record::Pad => format!("Pad {body_len} B"),
        Record::Message(head) => describe_message(head),
        Record::Grant { lane, message, offset, len } => {
            format!("Grant {lane:?} #{message} {offset}+{len}")
        }
        Record::Data { lane, message, offset } => {
            format!("Data {lane:?} #{message} {offset}+{body_len}")
        }
        Record::Done { message, status, placed_len } => {
            let how = match *status {
                DONE_OK => "ok",
                DONE_MATCHED => "matched",
                DONE_CANCELLED => "cancelled",
                _ => "unknown",
            };
            format!("Done #{message} {how}, {placed_len} taken")
        }
        Record::Cancel { message } => format!("Cancel #{message}"),
        Record::Refuse { message, order } => format!("Refuse from #{message} (order {order})"),
        Record::Recall { message, order } => format!("Recall from #{message} (order {order})"),
        Record::StreamCredit { limit } => format!("StreamCredit up to {limit}"),
        Record::Query { query, space, tag, ignore } => {
            format!("Query {query} space {} tag {:#x} ignoring {ignore:#x}", space.0, tag.0)
        }
        Record::Found(found) if found.none => format!("Found {} nothing", found.query),
        Record::Found(found) => {
            format!("Found {} #{} {} B", found.query, found.message, found.total)
        }
        Record::Request(head) => describe_request(head),
        Record::Reply { number, status } => format!("Reply {number} status {status} {body_len} B"),
        Record::Replied { first, count } => format!("Replied {first}+{count}"),
        Record::Outcome { number, answer } => format!("Outcome {number} {answer:?} {body_len} B"),
        Record::End { number } => format!("End {number}"),
        Record::Hello(hello) => {
            format!("Hello id {:x} life {:x}", hello.who().id >> 40, hello.who().incarnation >> 40)
        }
        Record::Challenge { cookie, .. } => format!("Challenge {:x}", cookie >> 40),
        Record::Echo { cookie } => format!("Echo {:x}", cookie >> 40),
        Record::Welcome(welcome) => format!("Welcome id {:x}", welcome.who().id >> 40),
        Record::Reset { id } => format!("Reset {:x}", id >> 40),
        Record::Goodbye { message } => format!("Goodbye below #{message}"),
        Record::Versions { min, max, .. } => format!("Versions {min} to {max}"),
        Record::PathChallenge { path, .. } => format!("PathChallenge {path}"),
        Record::PathResponse { path, .. } => format!("PathResponse {path}"),
    }
}

fn describe_request(head: &RequestHead) -> String {
    let RequestHead { number, key, target, action } = head;
    format!("Request {number} key {key:#x} at {target}: {action:?}")
}

fn describe_message(head: &MessageHead) -> String {
    let MessageHead { message, total, len, .. } = head;
    let mut text = match head.class {
        Class::Eager => format!("Eager #{message} {total} B"),
        Class::Fragment => format!("Fragment #{message} {}+{len} of {total}", head.offset),
        Class::Rts if head.ahead > 0 => {
            format!("Rts #{message} {total} B ({len} here, {} KiB ahead)", head.ahead)
        }
        Class::Rts => format!("Rts #{message} {total} B ({len} here)"),
        Class::Told => format!("Told #{message} {total} B"),
    };
    write!(text, " tag {:#x}", head.tag.0).expect("strings take all");
    if head.space.0 > 0 {
        write!(text, " space {}", head.space.0).expect("as above");
    }
    if head.wants_match {
        text.push_str(" until matched");
    }
    text
}
