//! The body of the fuzz target `endpoint`: whole endpoints, random commands, a network that lies.
//!
//! ```text
//!   script ──▶ commands: post, cancel, claim, time, close, restart …
//!          ──▶ network:  deliver, lose, double, reorder, damage, join, replay
//!          ──▶ Mallory:  rightly keyed frames with heads of her own: forged acks, grants out of range,
//!                        wrong message numbers, Hellos in somebody's name, answers nobody asked for
//! ```
//!
//! Mallory knows every address, reads every frame and may send anything: what she says may end associations and lose
//! messages of the peers she plays. What she must not achieve, and what is checked here: a panic; a byte placed or
//! read outside what was posted, or after its request ended (`Ledger`); more held than `Limits` allow; a request that
//! ends twice; work without end; an endpoint that cannot be closed, or a request that never ends.
//!
//! `application.rs` and `streams.rs` have the commands, `network.rs` what befalls frames and time, `together.rs` what befalls frames that
//! arrive together, `mallory.rs` the forger.

mod application;
mod mallory;
mod network;
mod streams;
mod together;

use std::collections::VecDeque;

use packhorse_proto::{
    BufId, Claim, Endpoint, Event, GrantPolicy, Instant, Limits, Locator, MS, OutStreamId, PeerId,
    ReqId, SECOND, Settings, Source, TxFrame, TxTrain,
};

use crate::ledger::Ledger;
use crate::node::opening;
use crate::script::Script;
use mallory::Mallory;
use together::Reached;

/// Frames kept on their way to one endpoint; more are lost, as in a full queue.
const FLYING_COUNT_MAX: usize = 64;
/// Frames taken from one endpoint after one command. Mallory can open a window wide; the rest waits.
const POLL_COUNT_MAX: usize = 256;
/// Commands of one script.
const COMMAND_COUNT_MAX: usize = 400;

/// A frame on its way.
#[derive(Clone, Debug)]
struct Flying {
    from: Locator,
    bytes: Vec<u8>,
}

/// One endpoint and its distrustful application.
struct Party {
    number: u64,
    life: u64,
    endpoint: Endpoint,
    ledger: Ledger,
    peers: Vec<PeerId>,
    claims: Vec<Claim>,
    /// Streams it sends.
    streams: Vec<OutStreamId>,
    inbox: VecDeque<Flying>,
    closing: bool,
}

/// Everything.
struct World {
    now: Instant,
    limits: Limits,
    settings: Settings,
    parties: Vec<Party>,
    mallory: Mallory,
    tx: TxFrame,
    train: TxTrain,
    /// Drivers ask endpoints for trains.
    sends_trains: bool,
    /// Links hand over together what arrived together.
    joins: bool,
    reached: Reached,
    post_count: usize,
    /// Tells on standard output what happens: for the person who looks into a finding.
    is_told: bool,
}

/// Runs a script; panics if an endpoint breaks its word.
pub fn endpoints(bytes: &[u8]) {
    run(bytes, false);
}

/// The same, and tells what happens.
pub fn endpoints_told(bytes: &[u8]) {
    run(bytes, true);
}

fn run(bytes: &[u8], is_told: bool) -> Reached {
    let mut script = Script::new(bytes);
    let mut world = World::open(&mut script, is_told);
    for _ in 0..COMMAND_COUNT_MAX {
        if script.is_over() {
            break;
        }
        world.command(&mut script);
        world.drain();
    }
    world.close_all();
    world.reached
}

fn settings(script: &mut Script<'_>) -> Settings {
    Settings {
        eager_len_max: script.pick(&[0, 8, 1_000, 4_000, 32 << 10]),
        grant_packets: script.pick(&[1, 2, 16, 32]),
        grant_ahead: script.pick(&[0, 1, 15, 32]),
        grants_in_flight: script.pick(&[1, 4]),
        grant_policy: script.pick(&[GrantPolicy::SmallestFirst, GrantPolicy::RoundRobin]),
        ack_every: script.pick(&[1, 2, 8, 256]),
        ack_delay_ns: script.pick(&[0, 25_000, 10 * MS]),
        payload_check: script.flag(),
        has_helper: script.flag(),
        gone_after_ns: 2 * SECOND,
        gone_after_inline_ns: 4 * SECOND,
        linger_ns: SECOND / 10,
        open_to_strangers: script.flag(),
        versions: script.pick(&[(1, 1), (1, 3)]),
        initial_rtt_ns: MS,
        frame_len_max: script.pick(&[1_200, 1_472, 9_000]),
        ..Settings::default()
    }
}

fn limits(script: &mut Script<'_>, settings: &Settings) -> Limits {
    let least = u64::from(settings.eager_len_max).max(u64::from(settings.frame_len_max));
    let mut limits = Limits {
        held_len_max: least + script.pick(&[0, 10_000, 1 << 20]),
        envelope_count_max: script.pick(&[4, 9, 1_000]),
        peer_count_max: script.pick(&[2, 4, 64]),
        copied_len_max: script.pick(&[0, 100, 1 << 20]),
        grant_len_max: u64::from(settings.frame_len_max) * script.pick(&[1, 3, 100]),
        unasked_len_max: u64::MAX,
        request_count_max: script.pick(&[1, 5, 1_000]),
        result_len_max: script.pick(&[1 << 10, 1 << 20]),
        stream_len_max: script.pick(&[2_000, 16 << 10, 1 << 20]),
    };
    limits.unasked_len_max = limits.grant_len_max; // as links have it; and no script changes its meaning
    limits
}

impl Party {
    fn open(number: u64, life: u64, limits: &Limits, settings: &Settings, now: Instant) -> Self {
        let mut endpoint =
            Endpoint::open(opening(number, life), limits.clone(), settings.clone(), now)
                .expect("the script draws sound settings");
        let mut ledger = Ledger::default();
        application::expose(&mut endpoint, &mut ledger);
        Self {
            number,
            life,
            endpoint,
            ledger,
            peers: Vec::new(),
            claims: Vec::new(),
            streams: Vec::new(),
            inbox: VecDeque::new(),
            closing: false,
        }
    }

    fn locator(&self) -> Locator {
        opening(self.number, 0).locators[0]
    }

    /// A peer by the script's choice, known or not.
    fn peer(&self, script: &mut Script<'_>) -> PeerId {
        match script.byte() {
            255 => PeerId(u64::from(script.byte())),
            choice => self
                .peers
                .get(usize::from(choice) % self.peers.len().max(1))
                .copied()
                .unwrap_or(PeerId(0)),
        }
    }

    fn request(&self, script: &mut Script<'_>) -> Option<(BufId, ReqId)> {
        let count = self.ledger.open_requests().count().min(256);
        if count == 0 {
            return None;
        }
        self.ledger.open_requests().nth(script.below(count))
    }
}

impl World {
    fn open(script: &mut Script<'_>, is_told: bool) -> Self {
        let settings = settings(script);
        let limits = limits(script, &settings);
        if is_told {
            println!("{settings:?}\n{limits:?}");
        }
        let now = Instant(5 * SECOND);
        let count = 2 + u64::from(script.flag());
        let begin = script.byte();
        let parties =
            (0..count).map(|number| Party::open(number, 0, &limits, &settings, now)).collect();
        let mut world = Self {
            now,
            limits,
            settings,
            parties,
            mallory: Mallory::default(),
            tx: TxFrame::default(),
            train: TxTrain::default(),
            sends_trains: begin & 2 != 0,
            joins: begin & 4 != 0,
            reached: Reached::default(),
            post_count: 0,
            is_told,
        };
        for at in 0..world.parties.len() {
            world.introduce(at);
        }
        // Half of all scripts begin among friends: first contact is deep enough a place to get stuck in.
        if begin & 1 != 0 {
            world.acquaint();
        }
        if begin & 8 != 0 {
            world.begin_message(script);
        }
        world
    }

    /// Tells an endpoint of all others, itself, and Mallory.
    fn introduce(&mut self, at: usize) {
        let addresses: Vec<_> = self.parties.iter().map(|party| party.endpoint.address()).collect();
        let party = &mut self.parties[at];
        for address in addresses.iter().chain([&mallory::address()]) {
            // Few rows are a limit like any other: who does not fit is not known.
            party.peers.extend(party.endpoint.add_peer(address).ok());
        }
    }

    /// A line of the story, made only if it is told.
    fn tell(&self, line: impl FnOnce() -> String) {
        if self.is_told {
            println!("{:>14} {}", self.now.0, line());
        }
    }

    fn command(&mut self, script: &mut Script<'_>) {
        let at = script.below(self.parties.len());
        match script.below(32) {
            24..=27 => self.operate(at, script),
            28..=31 => self.stream(at, script),
            0..=2 => self.post_send(at, script),
            3..=5 => self.post_recv(at, script),
            6 => self.cancel(at, script),
            7 => self.probe_or_claim(at, script),
            8 => self.use_claim(at, script),
            9 => self.deliver(at, script),
            10 => self.deliver_misshapen(at, script),
            11 => self.deliver_all(at),
            12..=14 => self.carry(),
            15..=16 => self.pass_time(script),
            17..=19 => self.forge(at, script),
            20 => self.forge_train(at, script),
            21 => self.replay(at, script),
            22 => self.misfortune(at, script),
            _ => self.parting(at, script),
        }
    }

    /// Takes out of every endpoint what it has to say.
    fn drain(&mut self) {
        for at in 0..self.parties.len() {
            self.transmit(at);
            self.check(at);
        }
    }

    fn transmit(&mut self, at: usize) {
        for _ in 0..POLL_COUNT_MAX {
            if self.sends_trains && self.transmit_train(at) {
                continue;
            }
            let party = &mut self.parties[at];
            if !party.endpoint.poll_transmit(self.now, &mut self.tx) {
                break;
            }
            let (frame, to) = finish(&party.endpoint, &party.ledger, &mut self.tx, &self.settings);
            self.set_out(at, frame, to);
        }
    }

    /// A frame is on its way; Mallory hears it.
    fn set_out(&mut self, at: usize, frame: Vec<u8>, to: Locator) {
        let from = self.parties[at].locator();
        let records = self.mallory.overhear(from, &frame, self.is_told);
        self.tell(|| format!("party {at} sends {} bytes: {records}", frame.len()));
        let receiver = self.parties.iter_mut().find(|party| party.locator() == to);
        if let Some(receiver) = receiver.filter(|receiver| receiver.inbox.len() < FLYING_COUNT_MAX)
        {
            receiver.inbox.push_back(Flying { from, bytes: frame });
        }
    }

    /// Events, and the promises about memory.
    fn check(&mut self, at: usize) {
        let party = &mut self.parties[at];
        while let Some(event) = party.endpoint.poll_event() {
            if self.is_told {
                println!("{:>14} party {at} hears {event:?}", self.now.0);
            }
            party.ledger.on_event(&event);
            if let Event::Closed { .. } = event {
                assert!(party.closing, "closed without being asked");
            }
        }
        let (served_count, result_len) = party.endpoint.served();
        assert!(served_count <= self.limits.request_count_max, "more requests than allowed");
        assert!(result_len <= self.limits.result_len_max, "more results held than allowed");
        let counters = party.endpoint.counters();
        assert!(
            counters.held_len_peak <= self.limits.held_len_max,
            "more payload held than allowed"
        );
        let envelope_count_max = u64::from(self.limits.envelope_count_max);
        assert!(
            counters.envelope_count_peak <= envelope_count_max,
            "more envelopes held than allowed"
        );
    }

    /// Closes everything. Whatever Mallory did: within the times that were set, all is over.
    fn close_all(&mut self) {
        self.tell(|| "all close".into());
        for party in &mut self.parties {
            party.endpoint.close(self.now);
            party.closing = true;
        }
        let end = self.now + 120 * SECOND;
        while self.now < end && !self.parties.iter().all(|party| party.endpoint.is_closed()) {
            self.drain();
            self.carry();
            self.drain();
            let due = self
                .parties
                .iter()
                .map(|party| party.endpoint.next_timeout())
                .min()
                .expect("parties");
            // Coarsely: a script that moves gigabytes should end soon.
            self.now = due.max(self.now + MS);
            self.fire();
        }
        for at in 0..self.parties.len() {
            self.drain();
            let party = &self.parties[at];
            assert!(party.endpoint.is_closed(), "party {at} was asked to close and is not closed");
            assert_eq!(
                party.ledger.open_requests().next(),
                None,
                "a request of party {at} never ended"
            );
        }
    }
}

/// Gathers and seals a frame; payload is made up, but only where it may be read.
fn finish(
    endpoint: &Endpoint,
    ledger: &Ledger,
    tx: &mut TxFrame,
    settings: &Settings,
) -> (Vec<u8>, Locator) {
    let mut body = Vec::with_capacity(tx.body_len);
    for piece in &tx.body {
        let len = piece.len as usize;
        match piece.source {
            Source::User { buf, offset } => {
                ledger.check_read(buf, offset, u64::from(piece.len));
                body.resize(body.len() + len, offset as u8);
            }
            Source::Pool { slot, offset } => {
                let start = offset as usize;
                body.extend_from_slice(&endpoint.pooled(slot)[start..start + len]);
            }
            Source::Whereabouts { .. } | Source::Zero => body.resize(body.len() + len, 0),
        }
    }
    assert_eq!(body.len(), tx.body_len, "the pieces do not add up");
    let crc = if tx.wants_crc() { crc32c::crc32c(&body) } else { 0 };
    tx.seal(crc);
    let mut frame = tx.head.clone();
    frame.extend_from_slice(&body);
    assert!(frame.len() <= usize::from(settings.frame_len_max), "a frame of {} bytes", frame.len());
    (frame, tx.to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::stretched;

    #[test]
    fn random_scripts_break_nothing() {
        for seed in 0..4_000 {
            let script = stretched(seed, 600);
            let run = std::panic::catch_unwind(|| endpoints(&script));
            assert!(run.is_ok(), "the script of seed {seed} fails");
        }
    }

    #[test]
    fn scripts_go_every_way_that_takes_several_frames() {
        let mut all = Reached::default();
        for seed in 0..4_000 {
            let it = run(&stretched(seed, 600), false);
            all.sent_count += it.sent_count;
            all.together_count += it.together_count;
            all.forged_together_count += it.forged_together_count;
            all.landed_count += it.landed_count;
            all.forged_landed_count += it.forged_landed_count;
            all.lifted_count += it.lifted_count;
        }
        let counts = [
            all.sent_count,
            all.together_count,
            all.forged_together_count,
            all.landed_count,
            all.forged_landed_count,
            all.lifted_count,
        ];
        assert!(counts.iter().all(|&count| count > 0), "{all:?}");
    }
}
