//! The door of a named endpoint: it answers questions and keeps nothing of them.
//!
//! PROTOCOL §3.17 to §3.19. What a question costs is bounded before it is looked at: whoever drives the door asks
//! [`Door::look_at`] and reads no sooner, so a flood waits in the kernel's buffer and is dropped there.

use super::{FOUND, Greeting, NO_SECRET, Number, Refusal, versions_byte};
use crate::base::limits::SECOND;
use crate::base::secret::Secret;
use crate::base::siphash::siphash13_words;
use crate::base::types::{Address, Instant};
use crate::wire::{FindView, GREETING_LEN, LookupFrame, NamedRepr};

/// Questions looked at in a second, and at once after a pause.
const LOOK_RATE: u64 = 20_000;
const LOOK_BURST: u64 = 1_000;
/// Refusals of askers that did not show the secret: anybody can ask for those.
const REFUSAL_RATE: u64 = 1_000;
const REFUSAL_BURST: u64 = 100;

/// What a door knows.
#[derive(Clone, Debug)]
pub struct DoorSpec {
    /// The number it answers to.
    pub number: Number,
    /// What askers must know, too; without one, nothing.
    pub secret: Option<Secret>,
    /// Oldest and newest version of the protocol spoken behind it.
    pub versions: (u8, u8),
    /// Fresh randomness; never the same twice.
    pub entropy: [u64; 2],
}

/// What the application says to an asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// The address may be told, and this with it.
    Welcome(Greeting),
    /// The asker may not come in; this says why.
    Refuse(Greeting),
}

/// What came to a door, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorCounters {
    /// Frames that were looked at.
    pub questions: u64,
    /// Addresses told.
    pub answers: u64,
    /// Refusals of askers that showed the secret, or needed none.
    pub refusals: u64,
    /// Questions that were keyed with another secret; not all were answered.
    pub wrong_keys: u64,
    /// Frames that are no questions.
    pub malformed: u64,
    /// Frames that came too fast, and were dropped.
    pub dropped: u64,
}

/// How often something may be done: so much a second, and some at once after a pause. All it keeps is until when it is paid for.
#[derive(Clone, Copy, Debug)]
struct Pace {
    paid_until: Instant,
    each_ns: u64,
    burst_ns: u64,
}

impl Pace {
    const fn new(rate: u64, burst: u64) -> Self {
        let each_ns = SECOND / rate;
        Self { paid_until: Instant(0), each_ns, burst_ns: each_ns * burst }
    }

    /// From when on it may be done again.
    fn open_at(&self) -> Instant {
        Instant((self.paid_until + self.each_ns).0.saturating_sub(self.burst_ns))
    }

    /// Whether it may be done now; if so, it is.
    fn take(&mut self, now: Instant) -> bool {
        let may = now >= self.open_at();
        if may {
            self.paid_until = self.paid_until.max(now) + self.each_ns;
        }
        may
    }
}

/// Answers askers for a number.
#[derive(Debug)]
pub struct Door {
    number: Number,
    key: Secret,
    versions: (u8, u8),
    entropy: Secret,
    salt_count: u64,
    looks: Pace,
    refusals: Pace,
    counters: DoorCounters,
}

impl Door {
    /// A door for this number.
    pub fn new(spec: DoorSpec) -> Self {
        Self {
            number: spec.number,
            key: spec.secret.unwrap_or(NO_SECRET),
            versions: spec.versions,
            entropy: Secret(spec.entropy),
            salt_count: 0,
            looks: Pace::new(LOOK_RATE, LOOK_BURST),
            refusals: Pace::new(REFUSAL_RATE, REFUSAL_BURST),
            counters: DoorCounters::default(),
        }
    }

    /// The number it answers to.
    pub fn number(&self) -> Number {
        self.number
    }

    /// What came so far.
    pub fn counters(&self) -> &DoorCounters {
        &self.counters
    }

    /// From when on the next question will be looked at: until then it may as well stay in the kernel's buffer.
    pub fn look_at(&self) -> Instant {
        self.looks.open_at()
    }

    /// Bytes came; what goes back to where they came from, if anything. `receive` is shown what the asker's application says, once it
    /// is known that the asker may ask; `address` is what an answer tells.
    pub fn on_question(
        &mut self,
        now: Instant,
        bytes: &[u8],
        address: &Address,
        receive: impl FnOnce(&Greeting) -> Reception,
    ) -> Option<LookupFrame> {
        if !self.looks.take(now) {
            self.counters.dropped += 1;
            return None;
        }
        self.counters.questions += 1;
        let Some(question) = FindView::read(bytes) else {
            self.counters.malformed += 1;
            return None;
        };
        if !question.is_keyed(self.key) {
            self.counters.wrong_keys += 1;
            let may_answer = self.refusals.take(now);
            let refusal = (Refusal::WrongKey.code(), None, [0; GREETING_LEN]);
            return may_answer.then(|| self.write(&question, refusal, NO_SECRET));
        }
        let refuse = |refusal: Refusal, greeting| (refusal.code(), None, greeting);
        let said = if !self.has_common_version(question.versions()) {
            refuse(Refusal::Version, [0; GREETING_LEN])
        } else if question.number() != self.number.get() {
            refuse(Refusal::NoSuchNumber, [0; GREETING_LEN])
        } else {
            match receive(&question.greeting(self.key)) {
                Reception::Welcome(greeting) => (FOUND, Some(*address), greeting),
                Reception::Refuse(greeting) => refuse(Refusal::Closed, greeting),
            }
        };
        let is_found = said.0 == FOUND;
        self.counters.answers += u64::from(is_found);
        self.counters.refusals += u64::from(!is_found);
        Some(self.write(&question, said, self.key))
    }

    fn has_common_version(&self, versions: u8) -> bool {
        let (min, max) = (versions >> 4, versions & 0x0F);
        min.max(self.versions.0) <= max.min(self.versions.1)
    }

    fn write(
        &mut self,
        question: &FindView<'_>,
        (code, address, greeting): (u8, Option<Address>, Greeting),
        key: Secret,
    ) -> LookupFrame {
        self.salt_count += 1;
        let salt = siphash13_words(self.entropy, &[self.salt_count]);
        let (number, nonce) = (question.number(), question.nonce());
        let versions = versions_byte(self.versions);
        NamedRepr { code, number, versions, nonce, salt, address, greeting }.write(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_lets_so_many_through_whatever_comes() {
        let mut pace = Pace::new(1_000, 100);
        let mut count_in = |from_ns: u64, to_ns: u64| {
            (from_ns..to_ns).step_by(10_000).filter(|&now| pace.take(Instant(now))).count()
        };
        assert_eq!(
            count_in(5 * SECOND, 6 * SECOND),
            100 + 999,
            "the burst, then one a millisecond"
        );
        assert_eq!(count_in(6 * SECOND, 7 * SECOND), 1_000);
        assert_eq!(count_in(9 * SECOND, 9 * SECOND + 10_000), 1, "the rest of the burst is kept");
        assert_eq!(count_in(9 * SECOND + 10_000, 10 * SECOND), 100 + 998);
    }

    #[test]
    fn a_pace_says_when_it_opens_and_no_sooner() {
        let mut pace = Pace::new(1_000, 2);
        assert!(pace.take(Instant(0)) && pace.take(Instant(0)) && !pace.take(Instant(0)));
        let open_at = pace.open_at();
        assert!(open_at > Instant(0) && !pace.take(Instant(open_at.0 - 1)) && pace.take(open_at));
    }
}
