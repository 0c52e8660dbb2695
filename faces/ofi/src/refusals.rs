//! Requests that were refused, and when that deserves a warning.
//!
//! Applications ask for more than they need, and for less when they are refused: Open MPI 5 first wants memory of accelerators (`FI_HMEM`), and
//! does without if nobody has that. A refusal is therefore no news while another form of the request may follow: each is said at
//! level `info` as it happens. It becomes a warning only if the request asked for us by name (`FI_PROVIDER`, or its hints) and the
//! application has opened no fabric of ours, and then
//!
//! - at once, if a setting or a word of the user's is in the way, for no lesser form of the request would be met;
//! - otherwise when the library goes, at the end of the process, if no later request was answered. (Processes that end by `_exit`, as those of
//!   Open MPI do on failure, never come to that: `FI_LOG_LEVEL=info` is left.)

use std::sync::{Mutex, PoisonError};

use crate::log::{Level, Subsystem, say};
use crate::offer::Refusal;

/// What a process has asked for so far.
#[derive(Debug, Default)]
struct Asked {
    /// Why the last request that named us was refused, if none was answered since and nothing was said.
    refusal: Option<String>,
    /// The last that was said, which is not said twice.
    said: Option<String>,
    /// Whether the application uses us.
    is_used: bool,
}

static ASKED: Mutex<Asked> = Mutex::new(Asked { refusal: None, said: None, is_used: false });

fn with<R>(change: impl FnOnce(&mut Asked) -> R) -> R {
    change(&mut ASKED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A request cannot be met.
pub(crate) fn on_refused(refusal: Refusal, is_named: bool) {
    say(Level::Info, Subsystem::Fabric, || format!("not what was asked for: {}", refusal.text));
    let due = with(|asked| asked.on_refused(refusal, is_named));
    due.into_iter().for_each(warn);
}

fn warn(refusal: String) {
    say(Level::Warn, Subsystem::Fabric, || format!("nothing was found for a request: {refusal}"));
}

impl Asked {
    /// What is to be said of it at once.
    fn on_refused(&mut self, refusal: Refusal, is_named: bool) -> Option<String> {
        if !is_named || self.is_used {
            return None;
        }
        if !refusal.is_users {
            self.refusal = Some(refusal.text);
            return None;
        }
        self.refusal = None; // what is said now is why nothing was found
        let is_new = self.said.as_ref() != Some(&refusal.text);
        self.said = Some(refusal.text.clone());
        is_new.then_some(refusal.text)
    }
}

/// A request is met.
pub(crate) fn on_answered() {
    with(|asked| asked.refusal = None);
}

/// The application opens a fabric of ours.
pub(crate) fn on_opened() {
    with(|asked| (asked.refusal, asked.is_used) = (None, true));
}

/// The library goes.
pub(crate) fn on_end() {
    with(|asked| asked.refusal.take()).into_iter().for_each(warn);
}
