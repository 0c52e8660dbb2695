//! Who offers a ring: whose memory is read, and how often the offers of other users are looked at (PROTOCOL §14).
//!
//! To read a page of another process is to wait for whoever owns that page: a process can keep a reader in the system call for ever (userfaultfd, a mapped file
//! of a file system in user space), and the reader holds its engine's lock. So only a process of the same user is read, which may stop or end this one
//! anyway. That it is the process which offered the ring, no number tells: numbers of processes are given again, and a process may become another
//! program. So the reader leaves a proof of its own making in the ring, and reads it together with the payload.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use super::FOREIGN_COUNT_MAX;
use crate::sys::shm::{Letter, own_gid, own_uid};

/// What a user of no number in this user namespace is shown as, unless the system was told otherwise.
const OVERFLOW_ID: u32 = 65_534;
/// An allowance is filled again in this time.
const REFILL: Duration = Duration::from_secs(1);

/// Whether a letter came from another user.
pub(super) fn is_foreign(letter: &Letter) -> bool {
    letter.uid != own_uid()
}

/// Whether the memory of the process that sent a letter may be read at an address of its choice: it is a process of the same user and group, and of
/// the same namespaces of processes and users. (A container's root may have the number of the host's, and is somebody else.)
pub(super) fn may_be_read(letter: &Letter) -> bool {
    let is_same_user =
        !is_foreign(letter) && letter.gid == own_gid() && letter.uid != overflow_uid();
    let is_same = |kind| is_same_namespace(letter.pid, kind).unwrap_or(false);
    letter.pid > 0 && is_same_user && is_same("pid") && is_same("user")
}

fn is_same_namespace(pid: libc::pid_t, kind: &str) -> io::Result<bool> {
    let own = fs::metadata(format!("/proc/self/ns/{kind}"))?;
    let other = fs::metadata(format!("/proc/{pid}/ns/{kind}"))?;
    Ok((own.dev(), own.ino()) == (other.dev(), other.ino()))
}

/// All users of other user namespaces are shown as this one.
fn overflow_uid() -> u32 {
    let text = fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(OVERFLOW_ID)
}

/// How many offers of other users are looked at: as many at once as they may have rings, and as many each second. To map and refuse memory
/// costs us more than a letter costs its sender.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    used: usize,
    since: Option<Instant>,
}

impl Allowance {
    /// Counts an offer. False: it is refused unseen.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.duration_since(since) >= REFILL) {
            (self.used, self.since) = (0, Some(now));
        }
        self.used += 1;
        self.used <= FOREIGN_COUNT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(pid: libc::pid_t, uid: u32, gid: u32) -> Letter {
        Letter::new(pid, uid, gid)
    }

    #[test]
    fn only_processes_of_the_same_user_and_namespaces_are_read() {
        let pid = std::process::id() as libc::pid_t;
        let (uid, gid) = (own_uid(), own_gid());
        // Whoever runs the tests as the user that stands for all unknown ones is nobody in particular.
        assert_eq!(may_be_read(&letter(pid, uid, gid)), uid != overflow_uid());
        assert!(!may_be_read(&letter(0, uid, gid)), "a process that is not seen from here");
        assert!(
            !may_be_read(&letter(pid, uid ^ 1, gid)) && !may_be_read(&letter(pid, uid, gid ^ 1))
        );
        assert!(!may_be_read(&letter(pid, overflow_uid(), gid)), "it stands for many");
        assert!(is_same_namespace(pid, "pid").unwrap());
        assert!(is_same_namespace(libc::pid_t::MAX, "pid").is_err());
    }

    #[test]
    fn an_allowance_is_used_up_and_comes_back() {
        let (mut allowance, now) = (Allowance::default(), Instant::now());
        assert!((0..FOREIGN_COUNT_MAX).all(|_| allowance.take(now)));
        assert!(!allowance.take(now) && !allowance.take(now + REFILL / 2));
        assert!(allowance.take(now + REFILL));
    }
}
