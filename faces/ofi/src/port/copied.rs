//! Messages that are complete with their post: a copy is kept of them, or was given to their receiver.

use std::sync::atomic::Ordering;

use packhorse::raw::{Memory, PeerId};

use super::{Port, sending, status};
use crate::abi::flag;
use crate::cq::Done;
use crate::errors;
use crate::op::{Letter, Op};

impl Port {
    /// Sends a copy, with which the send is complete. `None`: there is no room for one, or it is longer than what goes without announcement
    /// (`PACKHORSE_EAGER`); it is to be sent from where it is and completes later.
    pub(crate) fn send_copy(
        &self,
        letter: &Letter,
        bytes: &[u8],
        context: usize,
        flags: u64,
    ) -> Option<isize> {
        // One that is not known is sent to from where it is, too: it may have to be found first.
        let sent = self.put_copy(self.peer(letter.to).ok()?, letter, bytes);
        if sent == 0 {
            self.tell_sent(letter, context, flags);
        }
        let is_no_copy =
            [libc::EAGAIN, libc::EMSGSIZE].map(|code| -(code as isize)).contains(&sent);
        (!is_no_copy).then_some(sent)
    }

    /// Gives a message that is long enough for that to be worth a question to its peer on this host, through memory that both share. It is out of our
    /// hands then, whatever becomes of this process: more than `FI_TRANSMIT_COMPLETE` asks for. False: nothing was done.
    pub(super) fn give(
        &self,
        letter: &Letter,
        memory: &Memory,
        context: usize,
        flags: u64,
    ) -> bool {
        let at_peer = flag::DELIVERY_COMPLETE | flag::MATCH_COMPLETE;
        let lens = crate::offer::FETCHED_LEN_MIN as u64..=crate::offer::COPY_LEN_MAX as u64;
        if flags & at_peer != 0 || !lens.contains(&memory.len()) {
            return false;
        }
        let (Some(bytes), Ok(peer)) = (memory.as_one(), self.peer(letter.to)) else { return false };
        let is_given = self.engine().give(sending(peer, letter, 0), bytes);
        if is_given {
            self.count(flag::SEND, true);
            self.tell_sent(letter, context, flags);
        }
        is_given
    }

    /// Tells that a send is complete with its post, if anybody wants to know.
    fn tell_sent(&self, letter: &Letter, context: usize, flags: u64) {
        if Self::wants_entry(self.bindings.tx.as_ref(), flags) {
            let flags = letter.family.flag() | flag::SEND;
            self.tell(Done { context, flags, ..Done::default() });
        }
    }

    /// Whether a send is complete with the post. A short message for which a copy is enough is; and one to the endpoint itself,
    /// which is accepted by its peer when there is a copy: MPI programs ask whether it is without giving time to anything else.
    pub(crate) fn is_complete_at_once(&self, letter: &Letter, len: u64, flags: u64) -> bool {
        let is_own = letter.to == self.own_number.load(Ordering::Relaxed);
        let at_peer = flag::TRANSMIT_COMPLETE | flag::DELIVERY_COMPLETE | flag::MATCH_COMPLETE;
        let is_copy_enough = flags & flag::INJECT_COMPLETE != 0 && flags & at_peer == 0;
        (is_copy_enough || is_own && flags & (flag::DELIVERY_COMPLETE | flag::MATCH_COMPLETE) == 0)
            && len <= crate::offer::COPY_LEN_MAX as u64
    }

    /// Whether a message of this length is better lent than copied, though that would be enough: its receiver, on this host, reads it from where it is.
    /// Better still it is given, if there is room for it.
    pub(super) fn is_fetched(&self, to: u64, len: u64) -> bool {
        // The engine is asked about those only of which it may be so.
        len >= crate::offer::FETCHED_LEN_MIN as u64
            && to != self.own_number.load(Ordering::Relaxed)
            && self.peer(to).is_ok_and(|peer| self.engine().is_fetched(peer, len))
    }

    /// Sends a copy; there is nothing to wait for, and success is not told.
    pub(crate) fn inject(&self, letter: &Letter, bytes: &[u8]) -> isize {
        let too_long = -(libc::EMSGSIZE as isize);
        if bytes.len() > crate::offer::INJECT_LEN_MAX {
            return too_long;
        }
        let copied = self.peer(letter.to).map(|peer| self.put_copy(peer, letter, bytes));
        match copied {
            Ok(code) if code != too_long => code,
            // Longer than what goes without announcement (`PACKHORSE_EAGER`), or to somebody who is to be found first: from memory of its own.
            _ => {
                let flags = letter.family.flag() | flag::SEND;
                let op = Op { flags, ..Op::default() };
                let (memory, letter) = (Memory::from(bytes.to_vec()), *letter);
                self.to_peer(letter.to, op, move |port, peer, op| {
                    port.send_to(sending(peer, &letter, 0), memory, op)
                })
            }
        }
    }

    #[inline(always)]
    fn put_copy(&self, peer: PeerId, letter: &Letter, bytes: &[u8]) -> isize {
        let send = sending(peer, letter, 0);
        // A long one is given, or fetched from where it is. Only where neither can be is another copy kept of it.
        let is_long = bytes.len() >= crate::offer::FETCHED_LEN_MIN;
        let sent = if is_long && self.engine().give(send, bytes) {
            Ok(())
        } else if is_long && self.is_fetched(letter.to, bytes.len() as u64) {
            Err(libc::EMSGSIZE)
        } else {
            self.engine().send_copied(send, bytes).map_err(errors::refusal_code)
        };
        if sent.is_ok() {
            self.count(flag::SEND, true);
        }
        status(sent)
    }
}
