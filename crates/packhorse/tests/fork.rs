//! After a fork the child has a copy of an endpoint that does nothing (docs/design.md §8), and the parent's goes on.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use packhorse::{Builder, Endpoint, Error, Peer, Placement, Wanted};

/// What has not happened by then does not happen, on a machine with much to do either.
const PATIENCE: Duration = Duration::from_secs(60);

const TAG: u64 = 5;
/// The flag of descriptors that a program does not inherit, as `/proc/self/fdinfo` has it.
const CLOSE_ON_EXEC: u32 = 0o2_000_000;

/// Held by a test as long as it runs. A fork takes all of a process with it: also what another test's thread has mapped
/// and not yet said to be left behind, for which the system has no single call.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `look` in a forked process; what it returned there.
fn in_child(look: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls `look` and ends without running anything of this process to its end: no unwinding, no exit
    // handlers, no other test. Other threads may have held locks of the allocator, which the C library sees to.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).unwrap_or(99);
        // SAFETY: ends the process.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the kernel writes to `status`, which is ours.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "it was killed: {status:#x}");
    libc::WEXITSTATUS(status)
}

/// Two endpoints over shared memory that have exchanged something, the first's name for the second.
fn pair(placement: Placement) -> (Endpoint, Endpoint, Peer) {
    let open = || Builder::plain().links("shm").placement(placement).open().unwrap();
    let (a, b) = (open(), open());
    let peer = a.peer(&b.address()).unwrap();
    exchange(&a, &b, peer);
    (a, b, peer)
}

fn exchange(a: &Endpoint, b: &Endpoint, peer: Peer) {
    for len in [8, 300_000] {
        let mut coming = b.recv(Wanted::tag(TAG), vec![0; len]);
        let mut going = a.send(peer, TAG, vec![3; len]);
        let (mut is_there, mut is_gone) = (false, false);
        while !(is_there && is_gone) {
            a.turn(); // without a helper nobody else does
            b.turn();
            is_gone = is_gone || going.test().is_some_and(|sent| sent.is_ok());
            is_there =
                is_there || coming.test().is_some_and(|got| got.unwrap().buffer == vec![3; len]);
        }
    }
}

fn maps(what: &str) -> bool {
    std::fs::read_to_string("/proc/self/maps").unwrap().contains(what)
}

fn is_inherited<T: std::fmt::Debug>(result: Result<T, Error>) -> bool {
    matches!(result, Err(error) if matches!(error, Error::Inherited) && error.to_string().contains("forked"))
}

#[test]
fn a_copy_in_a_child_does_nothing() {
    let _alone = alone();
    for placement in [Placement::Thread, Placement::Inline] {
        let (a, b, peer) = pair(placement);
        let pending = b.recv(Wanted::tag(99), vec![0; 8]);
        assert!(maps("memfd:packhorse"));
        let address = b.address();
        let code = in_child(|| {
            let send = a.send(peer, TAG, vec![1; 8]).wait().map_err(|failed| failed.error);
            let recv = b.recv(Wanted::any(), vec![0; 8]).wait().map_err(|failed| failed.error);
            let wait = pending.wait().map_err(|failed| failed.error);
            let all = [
                !maps("memfd:packhorse"),
                is_inherited(send),
                is_inherited(recv),
                is_inherited(wait),
                is_inherited(a.peer(&address)),
                is_inherited(a.send_copy(peer, TAG, &[1])),
            ];
            drop((a.clone(), b.clone()));
            // Its own are as good as any.
            let (own, other, peer) = pair(placement);
            exchange(&own, &other, peer);
            drop((own, other));
            all.iter().zip(1..).find(|(is_so, _)| !**is_so).map_or(0, |(_, number)| number)
        });
        assert_eq!(code, 0, "the number of what was not so");
        // Neither of them noticed.
        exchange(&a, &b, peer);
        exchange(&a, &b, peer);
        assert!(a.close(PATIENCE));
    }
}

#[test]
fn dropping_the_copy_in_a_child_sends_nothing() {
    let _alone = alone();
    let (a, b, peer) = pair(Placement::Thread);
    let counters = |endpoint: &Endpoint| {
        let counters = endpoint.counters();
        let all = counters.iter().filter(|(name, _)| name.ends_with("peers_dead"));
        all.map(|(_, value)| *value).sum::<u64>()
    };
    let handles = Some((a.clone(), b.clone()));
    // The last handle that the child has.
    let mut inside = Some((handles, a, b));
    let code = in_child(|| {
        drop(inside.take());
        0
    });
    assert_eq!(code, 0);
    let (_, a, b) = inside.unwrap();
    exchange(&a, &b, peer);
    assert_eq!((counters(&a), counters(&b)), (0, 0));
}

/// Ends a process.
fn kill(pid: libc::pid_t) {
    // SAFETY: no pointers.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Takes note of the end of a child of this process, which has its number until then.
fn bury(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: the kernel writes to `status`, which is ours.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
}

/// A process that meets the endpoint of this address, forks one that lives on, tells its number, and waits for its end.
fn forking_process(address: packhorse::Address) -> libc::pid_t {
    // SAFETY: as in `in_child`.
    let pid = unsafe { libc::fork() };
    if pid != 0 {
        return pid;
    }
    let own = Builder::plain().links("shm").open().unwrap();
    let peer = own.peer(&address).unwrap();
    own.send(peer, TAG, vec![0; 8]).wait().unwrap();
    // SAFETY: as in `in_child`; the grandchild does nothing at all.
    let child = unsafe { libc::fork() };
    if child != 0 {
        own.send(peer, TAG, u64::from(child as u32).to_le_bytes().to_vec()).wait().unwrap();
    }
    std::thread::sleep(10 * PATIENCE); // it is killed
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

#[test]
fn a_child_that_lives_on_does_not_hide_the_death_of_its_parent() {
    let _alone = alone();
    for is_buried in [true, false] {
        let survivor = Builder::plain().links("shm").open().unwrap();
        let parent = forking_process(survivor.address());
        survivor.recv(Wanted::tag(TAG), vec![0; 8]).wait().unwrap();
        let word = survivor.recv(Wanted::tag(TAG), vec![0; 8]).wait().unwrap();
        let child = u64::from_le_bytes(word.buffer.try_into().unwrap()) as libc::pid_t;
        let mut never = survivor.recv(Wanted::tag(99).from(word.envelope.source), vec![0; 8]);
        kill(parent);
        if is_buried {
            bury(parent);
        }
        let end = never.wait_timeout(PATIENCE);
        kill(child);
        bury(parent);
        let error = end.expect("its death is noticed").unwrap_err().error;
        assert!(error.to_string().contains("process died"), "{error}");
    }
}

#[test]
fn no_program_inherits_a_descriptor() {
    let _alone = alone();
    let before = |fd: &str| fd.parse::<u32>().is_ok_and(|number| number <= 2);
    let (a, b, peer) = pair(Placement::Thread);
    exchange(&a, &b, peer);
    for fd in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let name = fd.file_name().into_string().unwrap();
        let (Ok(target), false) = (std::fs::read_link(fd.path()), before(&name)) else { continue };
        let target = target.to_string_lossy().into_owned();
        let is_kind = ["socket:", "anon_inode:", "memfd:"].iter().any(|kind| target.contains(kind));
        let Ok(info) = std::fs::read_to_string(format!("/proc/self/fdinfo/{name}")) else {
            continue;
        };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        let flags = u32::from_str_radix(flags.trim(), 8).unwrap();
        assert!(!is_kind || flags & CLOSE_ON_EXEC != 0, "{name} ({target}) would be inherited");
    }
}
