//! What an application may do.
//!
//! An application is a machine of its own: asked for its next act whenever the last is over. Its acts take the time of its host's core, which
//! the system may interrupt.

/// The next thing an application does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Posts a send.
    Send {
        /// Bytes.
        len: u64,
    },
    /// Posts a receive.
    Recv {
        /// Bytes.
        len: u64,
    },
    /// Computes for so long, by its own clock: interrupted it takes longer.
    Compute {
        /// Nanoseconds.
        ns: u64,
    },
    /// Looks whether something is complete.
    Poll,
    /// Waits until something is, in the library.
    Wait,
    /// Notes the time and how busy everything was so far; takes none.
    Mark,
    /// The program is over.
    End,
}

/// What is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inbox {
    /// Sends.
    pub(crate) sent: u64,
    /// Receives.
    pub(crate) received: u64,
}

/// A program.
pub(crate) trait App: std::fmt::Debug {
    /// What next, now that this is complete.
    fn next(&mut self, now: u64, inbox: Inbox) -> Act;
}
