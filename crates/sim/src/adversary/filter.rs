//! What stands between an adversary's endpoint and the network.
//!
//! ```text
//!   endpoint ── frames ──> opened ── records left out or altered ── sealed again ──> network
//!   endpoint <── frames ── sealed again ── Refuse left out ── opened <── network
//! ```
//!
//! A numbered frame of which nothing is left goes with a Ping in it, so its packet number arrives and is acknowledged: the endpoint behind the
//! filter takes for said what was never said, and does not say it again.

use std::collections::HashMap;

use packhorse_link::Locator as LinkLocator;
use packhorse_link::sim::NodeId;
use packhorse_proto::seal::{Seal, pass_of};
use packhorse_proto::wire::{
    Action, Class, FORM_STRANGER, FrameView, HelloRepr, LOCATOR_COUNT_MAX, Lane, Record,
    WelcomeRepr, Writer, seal_high, wants_crc,
};
use packhorse_proto::{Instant, Locator, MS, Secret};

use super::Habit;

/// Locators are added to an introduction only as far as this: no frame may be longer before its receiver has joined.
const NAMED_LEN_MAX: usize = 1200;
/// An adversary that does not hear that it is refused, or of which something never arrives, sends what is behind that again and again. After so
/// many frames it does so more slowly, or a run would have no end.
const HASTY_COUNT_MAX: u64 = 3_000;
/// How slowly.
const SLOW_NS: u64 = 5 * MS;
/// Bytes of a locator.
const LOCATOR_LEN: usize = 24;

/// A frame that waits to leave.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) port: u8,
    pub(crate) to: LinkLocator,
    pub(crate) frame: Vec<u8>,
}

/// What becomes of a record.
enum Fate {
    Kept,
    LeftOut,
    /// An introduction: with these instead of its locators.
    Naming(Vec<Locator>),
}

/// Bytes between one of the others and whom the adversary named.
#[derive(Clone, Copy, Debug, Default)]
struct Strayed {
    /// What came from the adversary.
    heard_len: u64,
    /// What went, in the adversary's name, to where it is not.
    sent_len: u64,
}

/// An adversary's habit at work.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) node: NodeId,
    habit: Habit,
    secret: Secret,
    /// Where the others are.
    others: Vec<Locator>,
    /// Lengths of what is sent in pieces: whose, lane, number.
    totals: HashMap<(u32, u8, u32), u64>,
    waiting: Vec<Waiting>,
    /// When what waits leaves.
    release_at: Instant,
    strayed: Vec<Strayed>,
    sent_count: u64,
    /// How often it did what it does.
    pub(crate) acted_count: u64,
}

impl Filter {
    pub(crate) fn new(node: NodeId, habit: Habit, secret: Secret, others: Vec<Locator>) -> Self {
        Self {
            node,
            habit,
            secret,
            others,
            totals: HashMap::new(),
            waiting: Vec::new(),
            release_at: Instant::NEVER,
            strayed: vec![Strayed::default(); node.0 as usize],
            sent_count: 0,
            acted_count: 0,
        }
    }

    /// Its endpoint is another from now on.
    pub(crate) fn renew(&mut self) {
        self.totals.clear();
        self.waiting.clear();
        self.acted_count += 1;
    }

    /// A frame leaves for a node with this secret; whether it goes on now.
    pub(crate) fn on_outgoing(
        &mut self,
        now: Instant,
        port: u8,
        (to, node, secret): (&LinkLocator, u32, Secret),
        frame: &mut Vec<u8>,
    ) -> bool {
        self.sent_count += 1;
        match self.habit {
            Habit::Batches { every_ns } => {
                self.wait(now, every_ns, Waiting { port, to: *to, frame: frame.clone() });
                self.acted_count += u64::from(self.waiting.len() > 1);
                false
            }
            Habit::Renews { .. } => true,
            _ => {
                let len = frame.len();
                let is_left = self.rewrite(frame, secret, |filter, record| {
                    filter.fate(record, node, secret, len)
                });
                if is_left && self.sent_count > HASTY_COUNT_MAX {
                    self.wait(now, SLOW_NS, Waiting { port, to: *to, frame: frame.clone() });
                    return false;
                }
                is_left
            }
        }
    }

    fn wait(&mut self, now: Instant, every_ns: u64, waiting: Waiting) {
        self.release_at = self.release_at.min(Instant((now.0 / every_ns + 1) * every_ns));
        self.waiting.push(waiting);
    }

    /// A frame comes from a node; whether the endpoint sees it.
    pub(crate) fn on_incoming(&mut self, frame: &mut Vec<u8>) -> bool {
        if self.habit == Habit::IgnoresRefuse {
            let secret = self.secret;
            return self.rewrite(frame, secret, |_, record| match record {
                Record::Refuse { .. } => Fate::LeftOut,
                _ => Fate::Kept,
            });
        }
        true
    }

    /// Whether its endpoint does not hear of refusals.
    pub(crate) fn ignores_refusals(&self) -> bool {
        self.habit == Habit::IgnoresRefuse
    }

    /// When frames that wait leave.
    pub(crate) fn release_at(&self) -> Instant {
        self.release_at
    }

    /// What leaves now.
    pub(crate) fn release(&mut self, now: Instant) -> Vec<Waiting> {
        if self.release_at > now {
            return Vec::new();
        }
        self.release_at = Instant::NEVER;
        std::mem::take(&mut self.waiting)
    }

    fn fate(&mut self, record: &Record<'_>, node: u32, secret: Secret, frame_len: usize) -> Fate {
        match (self.habit, record) {
            (Habit::NeverGrants, Record::Grant { .. }) => Fate::LeftOut,
            (Habit::SendsHalf { of_messages }, _) => {
                match self.is_of_second_half(record, node, of_messages) {
                    true => Fate::LeftOut,
                    false => Fate::Kept,
                }
            }
            (Habit::NamesOthers, Record::Hello(hello)) => {
                self.named(hello.locators(secret).count(), frame_len)
            }
            (Habit::NamesOthers, Record::Welcome(welcome)) => {
                self.named(welcome.locators(secret).count(), frame_len)
            }
            _ => Fate::Kept,
        }
    }

    fn named(&self, own_count: usize, frame_len: usize) -> Fate {
        let more_count = NAMED_LEN_MAX.saturating_sub(frame_len) / LOCATOR_LEN;
        let count = (own_count + more_count).min(LOCATOR_COUNT_MAX);
        Fate::Naming(self.others.iter().copied().take(count).collect())
    }

    fn is_of_second_half(&mut self, record: &Record<'_>, node: u32, of_messages: bool) -> bool {
        let (lane, number, offset) = match *record {
            Record::Message(head) => {
                let is_piece = head.class == Class::Fragment;
                if matches!(head.class, Class::Rts | Class::Told) {
                    let key = (node, Lane::Message as u8, head.message);
                    self.totals.insert(key, head.total);
                }
                if of_messages {
                    return head.message % 2 == 1 && head.class != Class::Told;
                }
                return is_piece && u64::from(head.offset) * 2 >= head.total && head.offset > 0;
            }
            Record::Request(head) => {
                let (offset, total) = match head.action {
                    Action::Ask { total, .. } => (0, total),
                    Action::Part { offset, total, .. } => (u64::from(offset), total.into()),
                    _ => return false,
                };
                self.totals.insert((node, Lane::Put as u8, head.number), total);
                return offset > 0 && offset * 2 >= total && !of_messages;
            }
            Record::Data { lane, message, offset } => (lane, message, offset),
            _ => return false,
        };
        // How long a get is its initiator said: of that only the beginning leaves.
        let total = self.totals.get(&(node, lane as u8, number)).copied().unwrap_or(0);
        offset > 0 && offset * 2 >= total
    }

    /// Opens a frame for whoever has this secret, changes its records and seals it as it was. False: nothing of it is left.
    fn rewrite(
        &mut self,
        frame: &mut Vec<u8>,
        secret: Secret,
        judge: impl FnMut(&mut Self, &Record<'_>) -> Fate,
    ) -> bool {
        let is_strange = FrameView::form(frame).is_some_and(|form| form & FORM_STRANGER != 0);
        let key = if is_strange { Secret::PUBLIC } else { secret };
        match FrameView::open(key, frame) {
            Ok(_) => self.rewrite_sealed(frame, &key, (key, secret), judge),
            Err(_) => self.rewrite_sealed(frame, &pass_of(&secret), (key, secret), judge),
        }
    }

    fn rewrite_sealed(
        &mut self,
        frame: &mut Vec<u8>,
        seal: &impl Seal,
        (key, secret): (Secret, Secret),
        mut judge: impl FnMut(&mut Self, &Record<'_>) -> Fate,
    ) -> bool {
        let Ok(view) = FrameView::open_high(seal, 0, frame) else { return true };
        if view.validate().is_err() {
            return true;
        }
        let (mut head, mut body, mut changed, mut left) = (Vec::new(), Vec::new(), 0, 0);
        let mut writer = Writer::begin(&mut head, view.header);
        for (record, part) in view.records() {
            match judge(self, &record) {
                Fate::LeftOut => {
                    changed += 1;
                    continue;
                }
                Fate::Kept => write(&mut writer, &record, part.len(), None, (key, secret)),
                Fate::Naming(locators) => {
                    changed += 1;
                    write(&mut writer, &record, part.len(), Some(&locators), (key, secret));
                }
            }
            body.extend_from_slice(part);
            left += usize::from(!matches!(record, Record::Check { .. }));
        }
        if changed == 0 {
            return true;
        }
        self.acted_count += 1;
        if left == 0 {
            if view.header.packet == 0 {
                return false;
            }
            writer.ping();
        }
        let crc = wants_crc(&head).then(|| crc32c::crc32c(&body));
        seal_high(&mut head, body.len(), 0, seal, crc);
        head.extend_from_slice(&body);
        *frame = head;
        true
    }
}

/// Whom an adversary names (PROTOCOL §3.12).
impl Filter {
    /// One of the others got a frame from the adversary.
    pub(crate) fn on_heard(&mut self, by: NodeId, len: usize) {
        if let Some(strayed) = self.strayed.get_mut(by.0 as usize) {
            strayed.heard_len += len as u64;
        }
    }

    /// One of the others sends to where the adversary is not. What is wrong if it is the adversary's doing, and too much.
    pub(crate) fn on_astray(&mut self, by: NodeId, frame: &[u8]) -> Option<String> {
        if self.habit != Habit::NamesOthers || FrameView::open(self.secret, frame).is_err() {
            return None;
        }
        let strayed = self.strayed.get_mut(by.0 as usize)?;
        strayed.sent_len += frame.len() as u64;
        let Strayed { heard_len, sent_len } = *strayed;
        (sent_len > 3 * heard_len).then(|| {
            format!(
                "node {} sent {sent_len} bytes to whom an adversary named, for {heard_len} of the adversary's",
                by.0
            )
        })
    }
}

fn write(
    writer: &mut Writer<'_>,
    record: &Record<'_>,
    body_len: usize,
    named: Option<&[Locator]>,
    (key, secret): (Secret, Secret),
) {
    match record {
        Record::Hello(hello) => {
            let own: Vec<_> = hello.locators(key).collect();
            let address = hello.address(key).expect("of an honest endpoint");
            let locators = named.unwrap_or(&own);
            writer.hello(&HelloRepr { who: hello.who(), address, locators }, key);
        }
        Record::Welcome(welcome) => {
            let own: Vec<_> = welcome.locators(secret).collect();
            let address = welcome.address(secret).expect("of an honest endpoint");
            let locators = named.unwrap_or(&own);
            writer.welcome(&WelcomeRepr { who: welcome.who(), locators, address }, secret);
        }
        _ => {
            writer.record(record, body_len as u16);
        }
    }
}

#[cfg(test)]
mod tests {
    use packhorse_proto::wire::{Header, VERSION, seal};

    use super::*;

    const OWN: Secret = Secret([1, 2]);
    const OTHER: Secret = Secret([3, 4]);
    const TO: LinkLocator = [7; 24];

    fn filter(habit: Habit) -> Filter {
        Filter::new(NodeId(1), habit, OWN, vec![Locator([9; 24]); 3])
    }

    fn frame(packet: u64, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut frame = Vec::new();
        write(&mut Writer::begin(&mut frame, Header { to: 5, packet, path: 0, form: VERSION }));
        frame
    }

    fn out(filter: &mut Filter, frame: &mut Vec<u8>) -> bool {
        filter.on_outgoing(Instant(0), 0, (&TO, 0, OTHER), frame)
    }

    fn grant(writer: &mut Writer<'_>) {
        writer.grant(Lane::Message, 3, 0, 100);
    }

    #[test]
    fn what_is_left_of_a_frame_is_sealed_as_it_was() {
        let mut adversary = filter(Habit::NeverGrants);
        let mut both = frame(8, |writer| (grant(writer), writer.cancel(4)).1);
        seal(&mut both, 0, OTHER, None);
        assert!(out(&mut adversary, &mut both));
        let view = FrameView::open(OTHER, &both).expect("rightly sealed");
        assert_eq!((view.validate(), view.header.packet), (Ok(1), 8));
        assert!(view.records().all(|(record, _)| record == Record::Cancel { message: 4 }));
        let mut alone = frame(9, grant);
        seal_high(&mut alone, 0, 0, &pass_of(&OTHER), None);
        assert!(out(&mut adversary, &mut alone));
        let view = FrameView::open_high(&pass_of(&OTHER), 0, &alone).expect("with its pass");
        assert!(view.records().all(|(record, _)| record == Record::Ping), "so that it arrives");
        assert_eq!(adversary.acted_count, 2);
    }

    #[test]
    fn nothing_else_is_touched() {
        for habit in [Habit::NeverGrants, Habit::SendsHalf { of_messages: true }] {
            let mut other = frame(8, |writer| writer.done(3, 0, 9));
            seal(&mut other, 0, OTHER, None);
            let before = other.clone();
            assert!(out(&mut filter(habit), &mut other));
            assert_eq!(other, before);
        }
    }

    #[test]
    fn frames_wait_for_each_other() {
        let mut adversary = filter(Habit::Batches { every_ns: 100 });
        assert!(!out(&mut adversary, &mut vec![1]) && !out(&mut adversary, &mut vec![2]));
        assert_eq!(adversary.release_at(), Instant(100));
        assert!(adversary.release(Instant(99)).is_empty());
        let frames: Vec<_> =
            adversary.release(Instant(100)).into_iter().map(|it| it.frame).collect();
        assert_eq!((frames, adversary.release_at()), (vec![vec![1], vec![2]], Instant::NEVER));
    }

    #[test]
    fn whom_an_adversary_names_gets_three_times_its_bytes_at_most() {
        let mut adversary = filter(Habit::NamesOthers);
        let mut question = frame(0, |writer| writer.path_challenge(1, 77));
        seal(&mut question, 0, OWN, None);
        adversary.on_heard(NodeId(0), question.len());
        for _ in 0..3 {
            assert_eq!(adversary.on_astray(NodeId(0), &question), None);
        }
        assert!(adversary.on_astray(NodeId(0), &question).is_some());
        seal(&mut question, 0, OTHER, None);
        assert_eq!(adversary.on_astray(NodeId(0), &question), None, "not in its name");
    }
}
