//! The body of the fuzz target `lookup`: a door and an asker, and everything that can come to them.
//!
//! The input is a script: honest questions and answers, late, lost, doubled, altered, cut, sent to the wrong side; bytes of anybody's,
//! raw, keyed with what everybody knows, and keyed by a holder of another secret. The oracle knows what must never happen: an
//! address told to an asker that does not show the secret, an answer that is longer than its question, a look-up that ends with
//! anything that the door did not say.

use packhorse_proto::lookup::{
    Asking, AskingSpec, Door, DoorSpec, Finding, Greeting, LOOKUP_LEN, LookupFrame, Number,
    REFUSAL_COUNT_MIN, Reception, Refusal,
};
use packhorse_proto::wire::{FindView, HEADER_LEN, NamedView, seal};
use packhorse_proto::{Address, Identity, Instant, Locator, MS, Secret};

use crate::script::Script;

const SECRET: Secret = Secret([0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210]);
const OTHER: Secret = Secret([1, 2]);
/// Whoever forges has this one.
const FORGED: Secret = Secret([3, 4]);
const NUMBER: Number = Number::new(7);
const WELCOME: Greeting = [0x77; 32];

fn address() -> Address {
    Address {
        secret: Secret([0xADD, 0x2E55]),
        identity: Identity { host: 1, endpoint: 2 },
        locator: Locator([3; 24]),
        has_helper: false,
    }
}

struct Town {
    door: Door,
    at_door: Option<Secret>,
    asking: Asking,
    at_asker: Option<Secret>,
    now: Instant,
    /// All that was ever sent, for whoever sends it again.
    air: Vec<Vec<u8>>,
    question_count: u32,
    found: Option<Finding>,
}

/// Runs a script; panics if a door or an asker does what it must not.
pub fn look_ups(bytes: &[u8]) {
    run(bytes);
}

/// How the look-up of a script ends, if it does.
fn run(bytes: &[u8]) -> Option<Finding> {
    let mut script = Script::new(bytes);
    let secrets = [None, Some(SECRET), Some(OTHER)];
    let (at_door, at_asker) = (secrets[script.below(2)], secrets[script.below(3)]);
    let number = if script.below(8) == 0 { Number::new(8) } else { NUMBER };
    let (versions, entropy) = ((1, 1 + script.below(2) as u8), [5, 6]);
    let spec = AskingSpec {
        number,
        secret: at_asker,
        versions,
        greeting: [script.byte(); 32],
        entropy,
        until: Instant(2_000 * MS),
    };
    let mut town = Town {
        door: Door::new(DoorSpec {
            number: NUMBER,
            secret: at_door,
            versions: (1, 1),
            entropy: [7, 8],
        }),
        at_door,
        asking: Asking::new(spec, Instant(0)),
        at_asker,
        now: Instant(0),
        air: Vec::new(),
        question_count: 0,
        found: None,
    };
    while !script.is_over() && town.found.is_none() {
        town.step(&mut script);
    }
    town.found
}

impl Town {
    fn step(&mut self, script: &mut Script<'_>) {
        match script.below(8) {
            0 | 1 => {
                self.now = self.now + u64::from(script.byte()) * MS;
                self.found = self.asking.on_timeout(self.now);
            }
            2 => {
                if let Some(question) = self.asking.poll_question(self.now) {
                    self.air.push(question.to_vec());
                    self.question_count += 1;
                }
            }
            3 => {
                self.found = self.asking.on_unreached();
                let is_sure = self.question_count >= REFUSAL_COUNT_MIN;
                assert!(self.found.is_none() || is_sure && self.found == Some(Finding::Nobody));
            }
            kind => {
                let bytes = self.pick(script);
                let bytes = distort(bytes, script);
                if kind < 6 { self.tell_door(&bytes) } else { self.tell_asker(&bytes) }
            }
        }
    }

    /// Something that was sent before, or is made up.
    fn pick(&self, script: &mut Script<'_>) -> Vec<u8> {
        let back = script.below(16);
        match self.air.len() {
            count if back < 14 && count > 0 => self.air[count - 1 - back % count].clone(),
            _ => (0..script.below(256)).map(|_| script.byte()).collect(),
        }
    }

    fn tell_door(&mut self, bytes: &[u8]) {
        let key = self.at_door.unwrap_or(Secret::PUBLIC);
        let mut is_asked = false;
        let answer = self.door.on_question(self.now, bytes, &address(), |_| {
            is_asked = true;
            Reception::Welcome(WELCOME)
        });
        let Some(answer) = answer else { return };
        assert_eq!(answer.len(), bytes.len(), "an answer as long as its question");
        let question = FindView::read(bytes).expect("only questions are answered");
        let view = NamedView::read(&answer).expect("an answer has the shape of one");
        assert_eq!(view.nonce(), question.nonce());
        let may_ask = question.is_keyed(key) && question.number() == NUMBER.get();
        assert!(may_ask || !is_asked, "the application was asked about a stranger");
        let told = view.content(key).0.or(view.content(Secret::PUBLIC).0);
        assert_eq!(
            told,
            is_asked.then(address),
            "whom the application let in is told, nobody else"
        );
        if key != Secret::PUBLIC {
            assert_eq!(view.content(Secret::PUBLIC).0, None, "read without the secret");
        }
        self.air.push(answer.to_vec());
    }

    fn tell_asker(&mut self, bytes: &[u8]) {
        self.found = self.asking.on_answer(bytes);
        let Some(found) = self.found else { return };
        if self.at_asker.is_none() {
            // Without a secret whoever has seen the question can say anything.
            assert!(matches!(found, Finding::Found(..) | Finding::Refused(..)));
            return;
        }
        let are_same = self.at_asker == self.at_door;
        match found {
            // Nobody but the door has the asker's secret in this town.
            Finding::Found(found, greeting) => {
                assert!(are_same && (found, greeting) == (address(), WELCOME));
            }
            Finding::Refused(Refusal::WrongKey, _) => {
                assert!(self.question_count >= REFUSAL_COUNT_MIN, "anybody may have said so");
            }
            Finding::Refused(refusal, _) => assert!(are_same, "{refusal:?}"),
            other => panic!("an answer says {other:?}"),
        }
    }
}

/// What the network, or somebody who has another secret, makes of bytes.
fn distort(mut bytes: Vec<u8>, script: &mut Script<'_>) -> Vec<u8> {
    match script.below(8) {
        0 => {
            let at = script.byte();
            let len = bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(usize::from(at) % len) {
                *byte ^= script.byte();
            }
        }
        1 => bytes.truncate(script.below(256)),
        2 => bytes.push(script.byte()),
        3 => reseal(&mut bytes, Secret::PUBLIC, script),
        4 => reseal(&mut bytes, FORGED, script),
        _ => {}
    }
    bytes
}

/// Alters a byte and keys the frame anew.
fn reseal(bytes: &mut [u8], key: Secret, script: &mut Script<'_>) {
    let Ok(frame) = <&mut LookupFrame>::try_from(bytes) else { return };
    frame[HEADER_LEN + script.below(LOOKUP_LEN - HEADER_LEN)] ^= script.byte();
    seal(frame, 0, key, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a seed, without end.
    fn random(seed: u64) -> impl Iterator<Item = u8> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        std::iter::repeat_with(move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
    }

    #[test]
    fn random_look_ups_break_nothing_and_end_in_every_way() {
        let mut ends = [0; 6];
        for seed in 0..20_000 {
            let script: Vec<u8> = random(seed).take(400).collect();
            let end = match run(&script) {
                None => 0,
                Some(Finding::Found(..)) => 1,
                Some(Finding::Refused(Refusal::WrongKey, _)) => 2,
                Some(Finding::Refused(..)) => 3,
                Some(Finding::Nobody) => 4,
                Some(Finding::Silence) => 5,
            };
            ends[end] += 1;
        }
        assert!(ends[1..].iter().all(|&count| count > 50), "{ends:?}");
    }
}
