//! One process: rounds of random operations, and what has to be so when everything has come to rest.

use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

use packhorse_mx::abi::Addr;

use crate::MARK;
use crate::aside::{self, Aside};
use crate::calls::{
    self, BAD_MATCH_MASK, BAD_REQUEST, EXACT, Endpoint, Memory, SUCCESS, TIMEOUT, TRUNCATED, Told,
};
use crate::oracle::Book;
use crate::script::{
    CLASS_MASK, CLASS_SHIFT, Dice, EAGER_LEN_MAX, FORGOTTEN, FORGOTTEN_LEN_MAX, HANDLED, LEN_MAX,
    Message, PLAIN_COUNT, PLAIN_MASK, RANK_COUNT, SOURCE_MASK, SOURCE_SHIFT, mix,
};

/// Operations of a process in a round.
const ROUND_LEN: u64 = 250;
/// Requests of a kind that are open at once.
const OPEN_COUNT_MAX: usize = 48;
/// Longer than repair ever takes with these faults.
const REST_WITHIN: Duration = Duration::from_secs(120);
/// Forgotten receives that wait at once.
const FORGOTTEN_COUNT: usize = 3;

#[derive(Debug)]
enum What {
    Send(Message),
    /// By its number in the books.
    Recv(usize, (u64, u64)),
}

#[derive(Debug)]
struct Open {
    handle: u64,
    what: What,
    memory: Memory,
}

struct Rank {
    rank: u8,
    seed: u64,
    dice: Dice,
    aside: Aside,
    endpoint: Endpoint,
    life: u8,
    /// Of every rank, in this round.
    lives: [u8; RANK_COUNT],
    places: [(u64, u32); RANK_COUNT],
    addresses: [Addr; RANK_COUNT],
    /// The first of this round, and the next.
    numbers: [(u32, u32); RANK_COUNT],
    /// Requests by their context, from 1 on.
    open: Vec<Option<Open>>,
    /// Memory of receives that nobody has a handle of and that took nothing yet.
    forgotten: Vec<Memory>,
    /// Memory of such receives and sends that may have ended: nobody says when, so it is the library's until the endpoint is closed.
    kept: Vec<Memory>,
    book: Book,
    /// Of what is told at both ends: by whom I was told what I sent, and what I took from whom.
    told: [u64; RANK_COUNT],
    took: [u64; RANK_COUNT],
    /// Closes in the middle of this round.
    victim: Option<usize>,
    stale: u64,
}

/// Plays a rank to its end.
pub(crate) fn play(rank: u8, seed: u64, operation_count: u64) {
    calls::initialize();
    let endpoint = Endpoint::open();
    let mut this = Rank {
        rank,
        seed,
        dice: Dice(mix(seed) ^ u64::from(rank)),
        aside: Aside::start(seed, rank, endpoint),
        endpoint,
        life: 0,
        lives: [0; RANK_COUNT],
        places: [(0, 0); RANK_COUNT],
        addresses: [Addr::default(); RANK_COUNT],
        numbers: [(0, 0); RANK_COUNT],
        open: Vec::new(),
        forgotten: Vec::new(),
        kept: Vec::new(),
        book: Book::default(),
        told: [0; RANK_COUNT],
        took: [0; RANK_COUNT],
        victim: None,
        stale: 0,
    };
    let round_count = operation_count.div_ceil(ROUND_LEN).max(3);
    for round in 0..round_count {
        this.round(round);
    }
    this.aside.stop();
    this.endpoint.close();
}

/// Says a line, and hears those of all.
fn exchange(line: &str) -> Vec<String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{MARK}{line}").unwrap();
    out.flush().unwrap();
    let mut all = String::new();
    std::io::stdin().lock().read_line(&mut all).unwrap();
    all.trim().split(';').map(str::to_owned).collect()
}

fn numbers(line: &str) -> Vec<u64> {
    line.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

impl Rank {
    fn round(&mut self, round: u64) {
        self.victim = (round % 3 == 2).then_some((round / 3) as usize % RANK_COUNT);
        self.meet();
        let has_handler = (round + u64::from(self.rank)).is_multiple_of(3);
        self.endpoint.set_handler(has_handler.then_some(aside::on_unexpected));
        let is_victim = self.victim == Some(self.rank.into());
        for _ in 0..if is_victim { ROUND_LEN / 2 } else { ROUND_LEN } {
            self.operate();
        }
        if is_victim {
            return self.die();
        }
        self.rest();
        self.endpoint.set_handler(None);
        self.compare();
        if self.dice.below(4) == 0 {
            self.reopen();
        }
    }

    /// Who is where; everybody connects to everybody.
    fn meet(&mut self) {
        let (nic_id, index) = self.endpoint.place();
        let all = exchange(&format!("{nic_id} {index} {}", self.life));
        for (other, line) in all.iter().enumerate() {
            let words = numbers(line);
            self.places[other] = (words[0], words[1] as u32);
            self.lives[other] = words[2] as u8;
            self.addresses[other] = self.connect(self.places[other]);
            self.numbers[other].0 = self.numbers[other].1;
        }
        (self.told, self.took) = ([0; RANK_COUNT], [0; RANK_COUNT]);
    }

    /// A wake-up from beside ends a call that connects, and on a slow machine each: then it goes on beside, and only the wait for it is ended.
    fn connect(&self, place: (u64, u32)) -> Addr {
        match self.endpoint.connect(place) {
            Ok(address) => return address,
            Err(code) => assert_eq!(code, TIMEOUT, "connecting"),
        }
        let request = self.endpoint.begin_connect(place);
        let end = Instant::now() + REST_WITHIN;
        loop {
            if let Some(told) = self.endpoint.complete(request, Some(20_000)).expect("a request") {
                assert_eq!(told.code, SUCCESS, "connecting");
                return told.source;
            }
            assert!(Instant::now() < end, "a connection that is never made");
        }
    }

    /// Closes its endpoint with everything under way, and takes no part in what the others do until all is at rest.
    fn die(&mut self) {
        self.reopen();
        let all_sent = [0; 2 * RANK_COUNT];
        exchange(&words(&all_sent));
        exchange("");
        exchange(&words(&all_sent));
    }

    fn reopen(&mut self) {
        self.endpoint.close();
        // No request has an end any more; its memory is ours with the return of the close.
        self.open.clear();
        self.forgotten.clear();
        self.kept.clear();
        aside::take_handled();
        self.book = Book::default();
        self.endpoint = Endpoint::open();
        self.aside.enter(self.endpoint);
        self.life += 1;
        self.numbers = [(0, 0); RANK_COUNT];
    }

    fn operate(&mut self) {
        match self.dice.below(100) {
            0..32 => self.send(),
            32..60 => self.recv(),
            60..63 => self.recv_forgotten(),
            63..72 => self.ask_one(),
            72..78 => self.ask_any(),
            78..84 => self.ask_oldest(),
            84..90 => self.probe(),
            90..95 => self.cancel(),
            95..97 => self.look(),
            97..99 => self.nonsense(),
            _ => self.endpoint.freeze_and_thaw(),
        }
        self.harvest();
    }

    fn enter(&mut self, open: Open) {
        match self.open.iter().position(Option::is_none) {
            Some(at) => self.open[at] = Some(open),
            None => self.open.push(Some(open)),
        }
    }

    /// The context that the next request gets.
    fn next_context(&self) -> usize {
        self.open.iter().position(Option::is_none).unwrap_or(self.open.len()) + 1
    }

    fn open_count(&self, is_wanted: impl Fn(&What) -> bool) -> usize {
        self.open.iter().flatten().filter(|open| is_wanted(&open.what)).count()
    }

    /// Lengths of some pieces that are `len` together.
    fn pieces(&mut self, len: usize) -> Vec<usize> {
        let mut rest = len;
        let mut lens: Vec<usize> = (0..self.dice.below(4))
            .map(|_| {
                let piece = self.dice.below(rest as u64 + 1) as usize;
                rest -= piece;
                piece
            })
            .collect();
        lens.push(rest);
        lens
    }

    fn send(&mut self) {
        if self.open_count(|what| matches!(what, What::Send(_))) >= OPEN_COUNT_MAX {
            return;
        }
        let to = self.dice.below(RANK_COUNT as u64) as usize;
        let (source, life, number) = (self.rank, self.life, self.numbers[to].1);
        let message = Message { source, life, number, to: to as u8 };
        let (seed, len) = (self.seed, message.len(self.seed));
        let pieces = self.pieces(len);
        let mut memory = Memory::new(&pieces);
        memory.fill(message.byte_at(seed));
        let is_told = message.is_told(seed);
        // With a null pointer, or by a call behind it.
        let has_handle = is_told || self.dice.below(2) == 0;
        let posted = self.endpoint.send(
            &mut memory,
            (self.addresses[to], message.info(seed)),
            self.next_context(),
            (message.is_synchronous(seed), has_handle),
        );
        let handle = match posted {
            Ok(handle) => handle,
            Err(code) => {
                assert_eq!(self.victim, Some(to), "sending: {code}");
                return;
            }
        };
        self.numbers[to].1 += 1;
        if is_told {
            return self.enter(Open { handle, what: What::Send(message), memory });
        }
        // An eager one has been copied if it is said so, or if there is no handle by which it could be asked.
        let is_copied = !message.is_announced(seed)
            && (!has_handle || self.endpoint.is_buffered(handle) == Ok(true));
        if has_handle {
            assert_eq!(self.endpoint.forget(handle), SUCCESS);
        }
        if !is_copied {
            self.kept.push(memory);
        }
    }

    fn recv(&mut self) {
        if self.open_count(|what| matches!(what, What::Recv(..))) >= OPEN_COUNT_MAX {
            return;
        }
        let class = self.dice.below(PLAIN_COUNT) << CLASS_SHIFT;
        let source = self.dice.below(RANK_COUNT as u64) << SOURCE_SHIFT;
        let criteria = match self.dice.below(4) {
            0 => (0, PLAIN_MASK),
            1 => (source, PLAIN_MASK | SOURCE_MASK),
            2 => (class, CLASS_MASK),
            _ => (class | source, CLASS_MASK | SOURCE_MASK),
        };
        let len = self.dice.pick(&[0, 100, 2000, EAGER_LEN_MAX, 70_000, LEN_MAX, LEN_MAX]);
        self.post_recv(criteria, len);
    }

    fn post_recv(&mut self, criteria: (u64, u64), len: usize) {
        let pieces = self.pieces(len);
        let mut memory = Memory::new(&pieces);
        let context = self.next_context();
        let handle = self.endpoint.recv(&mut memory, criteria, context, true).expect("receiving");
        let what = What::Recv(self.book.on_posted(criteria), criteria);
        self.enter(Open { handle, what, memory });
    }

    fn recv_forgotten(&mut self) {
        if self.forgotten.len() >= FORGOTTEN_COUNT {
            return;
        }
        let mut memory = Memory::new(&[FORGOTTEN_LEN_MAX]);
        let criteria = (FORGOTTEN << CLASS_SHIFT, CLASS_MASK);
        self.endpoint.recv(&mut memory, criteria, 0, false).expect("receiving");
        self.forgotten.push(memory);
    }

    /// A request that is open, by its context.
    fn any_open(&mut self) -> Option<usize> {
        let open: Vec<usize> =
            (1..=self.open.len()).filter(|context| self.open[context - 1].is_some()).collect();
        (!open.is_empty()).then(|| self.dice.pick(&open))
    }

    fn handle(&self, context: usize) -> u64 {
        self.open[context - 1].as_ref().expect("open").handle
    }

    fn timeout(&mut self) -> calls::Timeout {
        (self.dice.below(3) == 0).then(|| 1 + self.dice.below(4) as u32)
    }

    fn ask_one(&mut self) {
        let Some(context) = self.any_open() else { return };
        let timeout = self.timeout();
        let told = self.endpoint.complete(self.handle(context), timeout).expect("asking");
        if let Some(told) = told {
            assert_eq!(told.context, context, "the end of another request");
            self.finish(&told);
        }
    }

    fn ask_any(&mut self) {
        let criteria = self.dice.pick(&[(0, 0), (0, PLAIN_MASK), (1 << CLASS_SHIFT, CLASS_MASK)]);
        let timeout = self.timeout();
        let told = self.endpoint.complete_any(criteria, timeout).expect("asking for any");
        if let Some(told) = told {
            assert_eq!(told.info & criteria.1, criteria.0, "the end of another request");
            self.finish(&told);
        }
    }

    /// The oldest is shown until it is completed, and is what a call for any gets.
    fn ask_oldest(&mut self) {
        let timeout = self.timeout();
        let Some((context, handle)) = self.endpoint.peek(timeout) else { return };
        assert_eq!(self.handle(context), handle, "the handle and the context of two requests");
        assert_eq!(self.endpoint.peek(None), Some((context, handle)), "shown once only");
        let told = match self.dice.below(2) {
            0 => self.endpoint.complete(handle, None),
            _ => self.endpoint.complete_any((0, 0), None),
        };
        let told = told.expect("asking for the oldest").expect("it had ended");
        assert_eq!(told.context, context, "not the oldest");
        self.finish(&told);
    }

    /// What a probe sees is there for a receive that asks for just that.
    fn probe(&mut self) {
        let criteria = self.dice.pick(&[(0, PLAIN_MASK), (2 << CLASS_SHIFT, CLASS_MASK)]);
        let timeout = self.timeout();
        let Some(seen) = self.endpoint.probe(criteria, timeout).expect("probing") else { return };
        assert_eq!(seen.info & criteria.1, criteria.0, "another message");
        self.check_seen(&seen);
        if self.dice.below(2) == 0 {
            self.post_recv((seen.info, EXACT), seen.len as usize);
        }
    }

    fn check_seen(&self, seen: &Told) {
        let message = Message::of_info(seen.info, self.rank);
        assert_eq!(seen.info, message.info(self.seed), "no message of this game");
        assert_eq!((seen.len as usize, seen.placed_len), (message.len(self.seed), seen.len));
        assert!(!self.book.is_taken(message), "{message:?} was taken, and is seen again");
    }

    fn cancel(&mut self) {
        let Some(context) = self.any_open() else { return };
        let cancelled = self.endpoint.cancel(self.handle(context));
        match self.open[context - 1].as_ref().expect("open").what {
            What::Send(_) => assert_eq!(cancelled, Err(BAD_REQUEST), "a send taken back"),
            What::Recv(receive, _) if cancelled == Ok(true) => {
                self.book.on_cancelled(receive);
                // Its memory is ours again, at once.
                self.open[context - 1] = None;
            }
            What::Recv(..) => assert_eq!(cancelled, Ok(false)),
        }
    }

    fn look(&mut self) {
        let Some(context) = self.any_open() else { return };
        let is_buffered = self.endpoint.is_buffered(self.handle(context));
        match self.open[context - 1].as_ref().expect("open").what {
            What::Send(_) => assert!(is_buffered.is_ok()),
            What::Recv(..) => assert_eq!(is_buffered, Err(BAD_REQUEST)),
        }
    }

    fn nonsense(&mut self) {
        let mut memory = Memory::new(&[10]);
        let bad_mask = self.endpoint.recv(&mut memory, (3, 1), 0, true);
        assert_eq!(bad_mask, Err(BAD_MATCH_MASK));
        let mut many = Memory::new(&[1; 257]);
        assert_eq!(self.endpoint.recv(&mut many, (0, 0), 0, true), Err(12));
        if self.stale != 0 {
            assert_eq!(self.endpoint.complete(self.stale, None), Err(BAD_REQUEST), "stale");
            assert_eq!(self.endpoint.forget(self.stale), BAD_REQUEST);
        }
        assert_eq!(self.endpoint.complete(0, None), Err(BAD_REQUEST), "null");
    }

    /// A request ended: rightly, and as its kind does?
    fn finish(&mut self, told: &Told) {
        let open = self.open[told.context - 1].take().expect("a request that ended twice");
        self.stale = open.handle;
        match open.what {
            What::Send(message) => self.check_sent(message, told),
            What::Recv(receive, criteria) => {
                self.check_received(receive, criteria, &open.memory, told);
            }
        }
    }

    fn check_sent(&mut self, message: Message, told: &Told) {
        let (seed, to) = (self.seed, usize::from(message.to));
        let len = message.len(seed) as u32;
        assert_eq!((told.info, told.len), (message.info(seed), len), "{message:?}");
        assert_eq!(told.source, self.addresses[to], "{message:?}");
        match told.code {
            SUCCESS => assert_eq!(told.placed_len, len, "{message:?}"),
            TRUNCATED => {
                assert!(
                    message.is_announced(seed) && told.placed_len < len,
                    "{message:?} {told:?}"
                );
            }
            _ => {
                assert_eq!(self.victim, Some(to), "{message:?} failed: {told:?}");
                assert_eq!(told.placed_len, 0);
                return;
            }
        }
        if message.is_announced(seed) {
            self.told[to] = self.told[to].wrapping_add(sum_of(message, told.placed_len));
        }
    }

    fn check_received(
        &mut self,
        receive: usize,
        criteria: (u64, u64),
        memory: &Memory,
        told: &Told,
    ) {
        let message = Message::of_info(told.info, self.rank);
        if !matches!(told.code, SUCCESS | TRUNCATED) {
            let is_from_victim = self.victim == Some(message.source.into());
            let is_of_another_life =
                self.lives.get(usize::from(message.source)) != Some(&message.life);
            assert!(is_from_victim || is_of_another_life, "receive {criteria:x?} failed: {told:?}");
            return self.book.on_failed(receive);
        }
        let len = message.len(self.seed);
        assert_eq!(told.info, message.info(self.seed), "no message of this game");
        let placed_len = len.min(memory.len());
        assert_eq!((told.len as usize, told.placed_len as usize), (len, placed_len), "{message:?}");
        assert_eq!(told.code, if placed_len < len { TRUNCATED } else { SUCCESS }, "{message:?}");
        let wrong = memory.differs(placed_len, message.byte_at(self.seed));
        assert_eq!(wrong, None, "{message:?}, {told:?}: other bytes in {:?}", memory.lens());
        let source = usize::from(message.source);
        if self.lives[source] == message.life {
            assert_eq!(calls::place_of(told.source), self.places[source], "{message:?}");
        }
        self.on_taken(message, Some(receive), told.placed_len);
    }

    fn on_taken(&mut self, message: Message, by: Option<usize>, placed_len: u32) {
        let seed = self.seed;
        self.book.on_taken(message, message.info(seed), by);
        let source = usize::from(message.source);
        if message.is_announced(seed) && message.is_told(seed) && self.lives[source] == message.life
        {
            self.took[source] = self.took[source].wrapping_add(sum_of(message, placed_len));
        }
    }

    /// What was taken without a request that could say so.
    fn harvest(&mut self) {
        for (info, len) in aside::take_handled() {
            let message = Message::of_info(info, self.rank);
            // Of an eager one its sender hears nothing.
            self.on_taken(message, None, if message.is_announced(self.seed) { 0 } else { len });
        }
        let mut at = 0;
        while at < self.forgotten.len() {
            let info = self.forgotten[at].first_word();
            let message = Message::of_info(info, self.rank);
            let is_there = info == message.info(self.seed) && info >> CLASS_SHIFT == FORGOTTEN;
            let len = message.len(self.seed);
            if is_there && self.forgotten[at].differs(len, message.byte_at(self.seed)).is_none() {
                self.on_taken(message, None, len as u32);
                let memory = self.forgotten.swap_remove(at);
                self.kept.push(memory);
            } else {
                at += 1;
            }
        }
    }

    /// All that was sent to this rank in this round arrives, all that it sent ends.
    fn rest(&mut self) {
        let mut sent = [0; 2 * RANK_COUNT];
        for (to, (first, next)) in self.numbers.iter().enumerate() {
            (sent[2 * to], sent[2 * to + 1]) = (u64::from(*first), u64::from(*next));
        }
        let all = exchange(&words(&sent));
        let mut missing: Vec<Message> = Vec::new();
        for (source, line) in all.iter().enumerate().filter(|(it, _)| self.victim != Some(*it)) {
            let sent = numbers(line);
            let own = usize::from(self.rank);
            let (source, life) = (source as u8, self.lives[source]);
            missing.extend((sent[2 * own]..sent[2 * own + 1]).map(|number| Message {
                source,
                life,
                number: number as u32,
                to: self.rank,
            }));
        }
        let end = Instant::now() + REST_WITHIN;
        loop {
            missing.retain(|&message| !self.book.is_taken(message));
            let is_sending = self.open_count(|what| matches!(what, What::Send(_))) > 0;
            let is_seen = self.endpoint.probe((0, 0), None).expect("probing").is_some();
            if missing.is_empty() && !is_sending && !is_seen {
                break;
            }
            assert!(
                Instant::now() < end,
                "rank {}: {} messages are missing, the first {:?}; open: {:?}",
                self.rank,
                missing.len(),
                missing.first(),
                self.open.iter().flatten().map(|open| &open.what).collect::<Vec<_>>()
            );
            self.take_all();
        }
        exchange("");
        self.take_back();
    }

    /// Receives for whatever comes, and the end of whatever ended.
    fn take_all(&mut self) {
        let wild = (0, PLAIN_MASK);
        let handled = (HANDLED << CLASS_SHIFT, CLASS_MASK);
        for criteria in [wild, handled] {
            let is_such = |what: &What| matches!(what, What::Recv(_, other) if *other == criteria);
            if self.open_count(is_such) < 4 {
                self.post_recv(criteria, LEN_MAX);
            }
        }
        self.recv_forgotten();
        let told = self.endpoint.complete_any((0, 0), Some(2)).expect("asking for any");
        if let Some(told) = told {
            self.finish(&told);
        }
        self.harvest();
    }

    /// Everything has arrived everywhere: no receive has a message, and none is left.
    fn take_back(&mut self) {
        let end = Instant::now() + REST_WITHIN;
        for context in 1..=self.open.len() {
            while self.open[context - 1].is_some() {
                let handle = self.handle(context);
                let What::Recv(receive, _) = self.open[context - 1].as_ref().expect("open").what
                else {
                    unreachable!("sends have ended");
                };
                if self.endpoint.cancel(handle) == Ok(true) {
                    self.book.on_cancelled(receive);
                    self.open[context - 1] = None;
                    continue;
                }
                // What the one that closed had begun to send.
                assert!(Instant::now() < end, "a receive that neither ends nor is free");
                if let Some(told) = self.endpoint.complete(handle, Some(10)).expect("asking") {
                    self.finish(&told);
                }
            }
        }
        assert_eq!(self.endpoint.peek(None), None, "an end of nobody's request");
        self.open.clear();
        self.book.check_order();
    }

    /// What each sender was told is what its receiver took.
    fn compare(&mut self) {
        let mut sums = [0; 2 * RANK_COUNT];
        for other in 0..RANK_COUNT {
            (sums[2 * other], sums[2 * other + 1]) = (self.told[other], self.took[other]);
        }
        let all = exchange(&words(&sums));
        let own = usize::from(self.rank);
        for (other, line) in all.iter().enumerate().filter(|(it, _)| self.victim != Some(*it)) {
            let took = numbers(line)[2 * own + 1];
            assert_eq!(
                self.told[other], took,
                "rank {other} took something else than {own} was told"
            );
        }
    }
}

fn sum_of(message: Message, placed_len: u32) -> u64 {
    mix(u64::from(message.number) << 32 | u64::from(placed_len))
}

fn words(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}
