//! The door of a named endpoint: a thread that answers askers for its number.
//!
//! ```text
//!   askers ── Find ──▶ DoorSocket ──▶ proto's Door ── greeting ──▶ the application's word
//!          ◀── Named ──────────────── (address)     ◀── welcome, or not ──
//! ```
//!
//! A thread of its own, apart from the engine: an endpoint is found while its program computes, whatever the placement, and a crowd at the door
//! costs the endpoint's messages nothing but what the crowd is allowed (PROTOCOL §3.19). It sleeps while nobody asks. In a flood
//! it sleeps, too, and answers some hundred questions when it wakes.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use packhorse_link::door::{DoorSocket, Visit};
use packhorse_link::fork::Mark;
use packhorse_link::with_signals_blocked;
use packhorse_proto::lookup::{
    self, DoorCounters, DoorSpec, GREETING_LEN, Greeting, Number, Reception,
};
use packhorse_proto::{Address, Instant, Secret};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::drawn::draw;
use crate::helper::{EndsProcess, HelperCpus};
use crate::time::monotonic_ns;

/// In a flood the thread sleeps at least so long: what a wake-up costs is shared by many answers.
const FLOOD_PAUSE: Duration = Duration::from_millis(10);
/// What is longer than any question is none.
const ROOM_LEN: usize = 2 * lookup::LOOKUP_LEN;

/// The application's word to an asker.
pub type Receive = dyn Fn(&Greeting) -> Reception + Send + Sync;
/// What an asker is told: the address, perhaps with another place in it.
pub type Tell = dyn Fn(&Visit) -> Address + Send + Sync;

/// A door that answers.
pub struct Door {
    number: Number,
    shared: Arc<Shared>,
    handle: Mutex<Option<JoinHandle<()>>>,
    /// The thread is not there in a forked process.
    mark: Mark,
}

struct Shared {
    counters: Mutex<DoorCounters>,
    is_closing: AtomicBool,
    is_over: AtomicBool,
    /// Wakes the thread.
    bell: OwnedFd,
}

/// What the thread has.
struct Porter {
    socket: DoorSocket,
    rules: lookup::Door,
    receive: Box<Receive>,
    tell: Box<Tell>,
    shared: Arc<Shared>,
}

/// What a door is for.
#[derive(Clone, Debug)]
pub struct DoorConfig {
    /// The number it answers to.
    pub number: Number,
    /// What askers must know, too.
    pub secret: Option<Secret>,
    /// Oldest and newest version of the protocol spoken behind it.
    pub versions: (u8, u8),
    /// On which cores its thread may run.
    pub cpus: HelperCpus,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("number", &self.number).finish()
    }
}

impl Door {
    /// Answers from now on, by a socket that is open already: questions may wait there.
    ///
    /// # Errors
    /// What the system says when it starts no thread.
    pub fn open(
        socket: DoorSocket,
        config: DoorConfig,
        receive: Box<Receive>,
        tell: Box<Tell>,
    ) -> io::Result<Self> {
        let DoorConfig { number, secret, versions, cpus } = config;
        let shared = Arc::new(Shared {
            counters: Mutex::default(),
            is_closing: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let rules = lookup::Door::new(DoorSpec { number, secret, versions, entropy: draw()? });
        let mut porter = Porter { socket, rules, receive, tell, shared: Arc::clone(&shared) };
        let mark = Mark::new()?;
        let builder = thread::Builder::new().name("packhorse-door".into());
        let answer = move || {
            let _ends_process = EndsProcess;
            cpus.apply(None);
            porter.run();
        };
        // Signals are blocked before the thread begins: it inherits that.
        let handle = with_signals_blocked(|| builder.spawn(answer))?;
        Ok(Self { number, shared, handle: Mutex::new(Some(handle)), mark })
    }

    /// The number it answers to.
    pub fn number(&self) -> Number {
        self.number
    }

    /// What came so far.
    pub fn counters(&self) -> DoorCounters {
        *self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on whoever asks is told that it is closed.
    pub fn close(&self) {
        self.shared.is_closing.store(true, Ordering::Relaxed);
    }

    /// Gives the number back: on return it is free.
    pub fn end(&self) {
        if !self.mark.is_here() {
            return;
        }
        self.shared.is_over.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.shared.bell, &1_u64.to_ne_bytes());
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        // What the application says to askers may own the last handle: the thread cannot wait for itself.
        if let Some(handle) = handle.filter(|handle| handle.thread().id() != thread::current().id())
        {
            let _ = handle.join(); // one that panicked has ended the process
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.end();
    }
}

impl Porter {
    /// Until it is over: sleeps, answers what came.
    fn run(&mut self) {
        let mut room = [0; ROOM_LEN];
        while !self.shared.is_over.load(Ordering::Acquire) {
            let pause = self.answer_all(&mut room);
            self.sleep(pause);
        }
    }

    /// Answers what came, as much as may be answered now. For how long not to look then, if more than that came.
    fn answer_all(&mut self, room: &mut [u8; ROOM_LEN]) -> Option<Duration> {
        loop {
            let (now, look_at) = (Instant(monotonic_ns()), self.rules.look_at());
            if now < look_at {
                return Some(Duration::from_nanos(look_at - now).max(FLOOD_PAUSE));
            }
            let visit = self.socket.next_visit(room)?;
            let address = (self.tell)(&visit);
            let is_closing = self.shared.is_closing.load(Ordering::Relaxed);
            let receive = |greeting: &Greeting| match is_closing {
                true => Reception::Refuse([0; GREETING_LEN]),
                false => (self.receive)(greeting),
            };
            let bytes = &room[..visit.len];
            let answer = self.rules.on_question(now, bytes, &address, receive);
            // Before the answer leaves: an asker that has it may look at them.
            let mut counters = self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner);
            *counters = *self.rules.counters();
            drop(counters);
            if let Some(answer) = answer {
                self.socket.answer(&answer, &visit);
            }
        }
    }

    /// Until a question comes; in a flood, until the pause is over; or until the door is.
    fn sleep(&self, pause: Option<Duration>) {
        let bell = PollFd::new(&self.shared.bell, PollFlags::IN);
        let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
        // Interrupted, it looks once more.
        let _ = match pause {
            Some(pause) => poll(&mut [bell], Some(&pause)),
            None => poll(&mut [bell, PollFd::new(&self.socket, PollFlags::IN)], None),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use packhorse_proto::lookup::{Finding, Refusal};
    use packhorse_proto::{Identity, Locator};

    use super::*;
    use crate::seeking::{Miss, Sighting, Wish, seek};

    /// What has not happened by then does not happen, on a machine with much to do either.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn address() -> Address {
        Address {
            secret: Secret([1, 2]),
            identity: Identity { host: 3, endpoint: 4 },
            locator: Locator([5; 24]),
            has_helper: true,
        }
    }

    /// A door at some free number of this host alone.
    fn some_door(first: u16) -> Door {
        let local = Ipv4Addr::LOCALHOST.into();
        let take = |number: u16| Some((number, DoorSocket::open(local, number).ok()?));
        let (number, socket) = (first..first + 1000).find_map(take).expect("a free number");
        let (number, cpus) = (number.into(), HelperCpus::Inherit);
        let config = DoorConfig { number, secret: None, versions: (1, 1), cpus };
        let welcome = |greeting: &Greeting| Reception::Welcome(*greeting);
        Door::open(socket, config, Box::new(welcome), Box::new(|_| address())).unwrap()
    }

    fn ask(number: Number, is_unwanted: bool) -> Result<Sighting, Vec<Miss>> {
        let places = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        let (versions, greeting) = ((1, 1), [7; GREETING_LEN]);
        let wish = Wish { number, secret: None, versions, greeting, longest: PATIENCE };
        seek(&places, &wish, &AtomicBool::new(is_unwanted)).unwrap()
    }

    #[test]
    fn a_door_that_closes_says_so_and_one_that_ended_is_nobody_s() {
        let door = some_door(25_000);
        let number = door.number();
        let found = ask(number, false).expect("it is open");
        assert_eq!((found.address, found.greeting), (address(), [7; GREETING_LEN]));
        door.close();
        let finding = ask(number, false).unwrap_err()[0].finding;
        assert_eq!(finding, Finding::Refused(Refusal::Closed, [0; GREETING_LEN]));
        let counters = door.counters(); // a slow machine asks more often
        assert!(counters.answers >= 1 && counters.refusals >= 1, "{counters:?}");
        door.end();
        assert_eq!(ask(number, false).unwrap_err()[0].finding, Finding::Nobody);
        door.end(); // once more is no harm
        assert!(DoorSocket::open(Ipv4Addr::LOCALHOST.into(), number.port()).is_ok());
    }

    #[test]
    fn a_look_up_that_nobody_wants_any_more_ends() {
        let door = some_door(26_000);
        let misses = ask(door.number(), true).unwrap_err();
        assert_eq!(misses[0].finding, Finding::Silence);
    }
}
