//! What goes on beside a rank's own thread: one that wakes and one that probes; and the handler of unexpected messages.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use packhorse_mx::abi::Addr;

use crate::calls::{self, Endpoint};
use crate::script::{CLASS_SHIFT, Dice, HANDLED, Message};

/// An endpoint that was closed meanwhile.
const BAD_ENDPOINT: u32 = 9;
/// Longest message whose bytes a handler is shown.
const SHOWN_LEN_MAX: usize = 1024;

static GAME: OnceLock<(u64, u8)> = OnceLock::new();
static HANDLED_NOW: Mutex<Vec<(u64, u32)>> = Mutex::new(Vec::new());

/// Match bits and lengths of what the handler ended since.
pub(crate) fn take_handled() -> Vec<(u64, u32)> {
    std::mem::take(&mut HANDLED_NOW.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The handler: ends what is of its class, and lets the rest be. Panics in it end the process.
pub(crate) unsafe extern "C" fn on_unexpected(
    _: *mut c_void,
    _: Addr,
    info: u64,
    len: u32,
    data: *mut c_void,
) -> u32 {
    assert!(calls::is_in_call(), "a handler outside of the application's calls");
    let &(seed, rank) = GAME.get().expect("a game");
    let message = Message::of_info(info, rank);
    let len_known = message.len(seed);
    assert_eq!((info, len as usize), (message.info(seed), len_known), "no message of this game");
    let is_shown = !message.is_announced(seed) && len_known <= SHOWN_LEN_MAX;
    assert_eq!(!data.is_null(), is_shown, "{message:?}: bytes that are shown, or not");
    if is_shown {
        // SAFETY: the library says that so many bytes are there during the call.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len_known) };
        let byte_at = message.byte_at(seed);
        assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == byte_at(at)), "{message:?}");
    }
    let is_ended = info >> CLASS_SHIFT == HANDLED;
    if is_ended {
        HANDLED_NOW.lock().unwrap_or_else(PoisonError::into_inner).push((info, len));
    }
    u32::from(is_ended)
}

/// The threads, and the endpoint that they use.
pub(crate) struct Aside {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    endpoint: RwLock<Endpoint>,
    is_over: AtomicBool,
    wake_count: AtomicU64,
}

impl Aside {
    pub(crate) fn start(seed: u64, rank: u8, endpoint: Endpoint) -> Self {
        GAME.set((seed, rank)).expect("one game in a process");
        let (is_over, wake_count) = (AtomicBool::new(false), AtomicU64::new(0));
        let shared = Arc::new(Shared { endpoint: RwLock::new(endpoint), is_over, wake_count });
        let (waker, prober) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![
            std::thread::spawn(move || waker.wake(seed)),
            std::thread::spawn(move || prober.probe(seed, rank)),
        ];
        Self { shared, threads }
    }

    /// Another endpoint from now on. Calls that are made of the closed one meanwhile are told so.
    pub(crate) fn enter(&self, endpoint: Endpoint) {
        *self.shared.endpoint.write().unwrap_or_else(PoisonError::into_inner) = endpoint;
    }

    pub(crate) fn stop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a thread beside");
        }
        assert!(self.shared.wake_count.load(Ordering::Relaxed) > 0, "nobody was woken");
    }
}

impl Shared {
    fn endpoint(&self) -> Endpoint {
        *self.endpoint.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn wake(&self, seed: u64) {
        let mut dice = Dice(seed ^ 0x77);
        loop {
            let code = self.endpoint().wake_up();
            assert!(code == calls::SUCCESS || code == BAD_ENDPOINT, "waking: {code}");
            self.wake_count.fetch_add(1, Ordering::Relaxed);
            if self.is_over() {
                return;
            }
            std::thread::sleep(Duration::from_micros(200 + dice.below(5000)));
        }
    }

    fn probe(&self, seed: u64, rank: u8) {
        let mut dice = Dice(seed ^ 0x99);
        while !self.is_over() {
            let timeout = Some(1 + dice.below(10) as u32);
            match self.endpoint().probe((0, 0), timeout) {
                Ok(None) => {}
                Ok(Some(seen)) => {
                    let message = Message::of_info(seen.info, rank);
                    let meant = (message.info(seed), message.len(seed));
                    assert_eq!((seen.info, seen.len as usize), meant, "no message of this game");
                    // What is there is there for a while: not to spin on it.
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(code) => {
                    assert_eq!(code, BAD_ENDPOINT, "probing");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
}
