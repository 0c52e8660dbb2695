//! One look-up, on the asker's side: questions that are repeated until something is known.
//!
//! PROTOCOL §3.17, §3.18. Each question has a nonce of its own, made from the look-up's randomness and its count, so nothing is
//! kept of them. What anybody could have said (that the port is closed, that the secret is wrong) is believed when three
//! questions met with it; a right answer ends the look-up whatever was said before.

use super::{FOUND, Greeting, NO_SECRET, Number, Refusal, versions_byte};
use crate::base::limits::{MS, SECOND};
use crate::base::secret::Secret;
use crate::base::siphash::siphash13_words;
use crate::base::types::{Address, Instant};
use crate::wire::{FindRepr, LookupFrame, NamedView};

/// Pause after the first question; each further one is twice as long, up to a second.
const PAUSE_NS: u64 = 20 * MS;
const PAUSE_NS_MAX: u64 = SECOND;
/// So many questions must have met with a refusal that anybody could have made.
pub const REFUSAL_COUNT_MIN: u32 = 3;
/// Answers to questions older than that are late.
const NONCE_COUNT_MAX: u32 = 16;

/// What to ask.
#[derive(Clone, Debug)]
pub struct AskingSpec {
    /// The number.
    pub number: Number,
    /// What the door must know, too; without one, nothing.
    pub secret: Option<Secret>,
    /// Oldest and newest version of the protocol spoken here.
    pub versions: (u8, u8),
    /// What this application says to that one.
    pub greeting: Greeting,
    /// Fresh randomness; never the same twice.
    pub entropy: [u64; 2],
    /// When to give up.
    pub until: Instant,
}

/// How a look-up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The address, and what the application there says.
    Found(Address, Greeting),
    /// Somebody is there and does not tell; what the application there says, where it was asked (`Refusal::Closed`).
    Refused(Refusal, Greeting),
    /// The host says that nobody has that port.
    Nobody,
    /// Nothing came in time.
    Silence,
}

/// A look-up at one place.
#[derive(Debug)]
pub struct Asking {
    spec: AskingSpec,
    key: Secret,
    /// Questions asked; each is known by its count.
    count: u32,
    next_at: Instant,
    /// The last question that met with a refusal anybody could have made, and how many did.
    doubted: u32,
    doubt_count: u32,
    /// How often the network said that nobody is there.
    unreached_count: u32,
}

impl Asking {
    /// Asks from now on.
    pub fn new(spec: AskingSpec, now: Instant) -> Self {
        let key = spec.secret.unwrap_or(NO_SECRET);
        Self { spec, key, count: 0, next_at: now, doubted: 0, doubt_count: 0, unreached_count: 0 }
    }

    /// When to call `poll_question` or `on_timeout` again.
    pub fn next_timeout(&self) -> Instant {
        self.next_at.min(self.spec.until)
    }

    /// The next question, if one is due.
    pub fn poll_question(&mut self, now: Instant) -> Option<LookupFrame> {
        if now < self.next_at || now >= self.spec.until {
            return None;
        }
        let pause_ns = (PAUSE_NS << self.count.min(16)).min(PAUSE_NS_MAX);
        self.count += 1;
        self.next_at = now + pause_ns;
        let question = FindRepr {
            versions: versions_byte(self.spec.versions),
            number: self.spec.number.get(),
            nonce: self.nonce(self.count),
            greeting: self.spec.greeting,
        };
        Some(question.write(self.key))
    }

    /// Time has passed: perhaps all of it.
    pub fn on_timeout(&self, now: Instant) -> Option<Finding> {
        (now >= self.spec.until).then_some(Finding::Silence)
    }

    /// Bytes came from where questions go.
    pub fn on_answer(&mut self, bytes: &[u8]) -> Option<Finding> {
        let answer = NamedView::read(bytes)?;
        let question = self.question_of(answer.nonce())?;
        if answer.number() != self.spec.number.get() {
            return None;
        }
        if answer.is_keyed(self.key) {
            let (address, greeting) = answer.content(self.key);
            return match (answer.code(), address) {
                (FOUND, Some(address)) => Some(Finding::Found(address, greeting)),
                (FOUND, None) => None, // nobody who knows the rules wrote that
                (code, _) => Refusal::of_code(code).map(|why| Finding::Refused(why, greeting)),
            };
        }
        let is_wrong_key = Refusal::of_code(answer.code()) == Some(Refusal::WrongKey);
        if is_wrong_key && answer.is_keyed(NO_SECRET) && question > self.doubted {
            self.doubted = question;
            self.doubt_count += 1;
        }
        let is_believed = self.doubt_count >= REFUSAL_COUNT_MIN;
        is_believed.then_some(Finding::Refused(Refusal::WrongKey, Greeting::default()))
    }

    /// The network says that nobody has that port; told at most once for each question.
    pub fn on_unreached(&mut self) -> Option<Finding> {
        self.unreached_count = (self.unreached_count + 1).min(self.count);
        (self.unreached_count >= REFUSAL_COUNT_MIN).then_some(Finding::Nobody)
    }

    fn nonce(&self, count: u32) -> [u64; 2] {
        let half = |half| siphash13_words(Secret(self.spec.entropy), &[count.into(), half]);
        [half(0), half(1)]
    }

    /// Which of the latest questions this answers.
    fn question_of(&self, nonce: [u64; 2]) -> Option<u32> {
        let oldest = self.count.saturating_sub(NONCE_COUNT_MAX) + 1;
        (oldest..=self.count).rev().find(|&count| self.nonce(count) == nonce)
    }
}
