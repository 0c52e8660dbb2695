//! Closing while other threads wait: once `fi_close` has returned, nothing of the application's memory is touched.

use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use packhorse_fi::abi::{ADDR_UNSPEC, Obj, code, command, flag, kind, version};

use crate::application::{
    Loaded, Node, Read, add_to_counter, bytes_at, close, signal, sread, wait_counted,
};
use crate::{TAG, like_mpi};

/// An object that another thread waits on.
#[derive(Clone, Copy)]
struct Awaited(Obj);

// SAFETY: objects of the provider may be used by any thread; these stay open until the thread was joined.
unsafe impl Send for Awaited {}

/// How a thread waits, without a limit, and how it is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Queue,
    Counter,
}

impl Way {
    const ALL: [Self; 2] = [Self::Queue, Self::Counter];

    fn wait(self, Awaited(object): Awaited) -> isize {
        match self {
            Self::Queue => sread(object, -1),
            Self::Counter => wait_counted(object, 1000, -1) as isize,
        }
    }

    fn wake(self, Awaited(object): Awaited) {
        match self {
            Self::Queue => signal(object),
            Self::Counter => add_to_counter(object, 1000),
        }
    }

    /// What a thread that was woken returns with.
    fn woken(self) -> isize {
        match self {
            Self::Queue => -(libc::EAGAIN as isize),
            Self::Counter => 0,
        }
    }
}

/// Whether a thread of this process sleeps: one that has nothing to do but wait is in its wait then.
fn is_asleep(thread: libc::pid_t) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    state == Some('S')
}

/// A node, and a thread that waits on its queue or its counter.
struct Waited {
    node: Node,
    counter: Obj,
    way: Way,
    object: Awaited,
    thread: JoinHandle<()>,
    returned: Receiver<isize>,
}

impl Waited {
    fn new(way: Way) -> Self {
        let loaded = Loaded::new();
        let info = loaded.getinfo(version(1, 17), Some(&like_mpi)).unwrap();
        let mut node = loaded.disabled_node(info);
        let counter = node.counter(flag::RECV, kind::WAIT_UNSPEC);
        node.enable();
        let object = Awaited(if way == Way::Queue { node.cq } else { counter });
        let (tell, returned) = mpsc::channel();
        let (tell_begun, begun) = mpsc::channel();
        let thread = thread::spawn(move || {
            // SAFETY: asks the system for a number.
            tell_begun.send(unsafe { libc::gettid() }).unwrap();
            tell.send(way.wait(object)).unwrap();
        });
        let waiter = begun.recv().unwrap();
        while !is_asleep(waiter) {
            thread::yield_now();
        }
        Self { node, counter, way, object, thread, returned }
    }

    fn is_waiting(&self) -> bool {
        self.returned.try_recv().is_err()
    }

    /// Wakes the thread, and closes what is left but the endpoint.
    fn end(self) {
        self.way.wake(self.object);
        let returned = self.returned.recv_timeout(Duration::from_secs(60)).expect("it was woken");
        assert_eq!(returned, self.way.woken());
        self.thread.join().unwrap();
        let Node { av, cq, domain, fabric, .. } = self.node;
        for object in [self.counter, av, cq, domain, fabric] {
            assert_eq!(close(object), 0);
        }
    }
}

/// Sends to an endpoint that has been closed until the send failed, as it must.
fn fails_to_send(a: &Node, to: u64) {
    a.tsend(&[0xEE; 100], None, to, TAG.0, 5);
    assert!(matches!(a.wait(), Read::Failed { .. }), "nobody is there to accept it");
}

#[test]
fn a_closed_endpoint_writes_nothing_though_a_thread_waits_on_what_it_was_bound_to() {
    for way in Way::ALL {
        let a = Loaded::new().node(&like_mpi);
        let b = Waited::new(way);
        let to_b = a.insert(&b.node.name).unwrap();
        // Both know each other before the close: a message that follows it needs no first contact.
        // Its receive asks for no entry, so the waiting thread does not return with one.
        assert_eq!(b.node.trecvmsg(100, 1, 1, 0).0, 0);
        a.tsend(b"hello", None, to_b, 1, 1);
        a.wait_done();
        let buf = b.node.trecv(100, ADDR_UNSPEC, TAG, 2);
        assert_eq!(close(b.node.ep), 0, "{way:?}");
        fails_to_send(&a, to_b);
        assert_eq!(bytes_at(buf, 100), [0; 100], "{way:?}: written after fi_close");
        assert!(b.is_waiting(), "{way:?}: its object is open, and nobody woke it");
        b.end();
        a.close();
    }
}

#[test]
fn what_a_thread_waits_on_cannot_be_closed() {
    for way in Way::ALL {
        let b = Waited::new(way);
        assert_eq!(close(b.node.ep), 0);
        // Nothing but the waiting thread uses it now.
        assert_eq!(close(b.object.0), -libc::EBUSY, "{way:?}");
        b.end();
    }
}

#[test]
fn a_receive_is_cancelled_beside_a_thread_that_waits() {
    let b = Waited::new(Way::Queue);
    b.node.trecv(100, ADDR_UNSPEC, TAG, 9);
    b.node.cancel(9);
    // Before the endpoint is closed: what was not read by then is not told any more.
    let returned = b.returned.recv_timeout(Duration::from_secs(60)).expect("it was told");
    assert_eq!(returned, -(code::EAVAIL as isize));
    b.thread.join().unwrap();
    assert_eq!(close(b.counter), -libc::EBUSY, "bound");
    assert_eq!((close(b.node.ep), close(b.counter)), (0, 0));
    for object in [b.node.av, b.node.cq, b.node.domain, b.node.fabric] {
        assert_eq!(close(object), 0);
    }
}

/// Runs a test of this program again with a variable of the environment set. True: that is the process we are in.
pub(crate) fn is_run_with(test: &str, name: &str, value: &str) -> bool {
    if std::env::var(name).as_deref() == Ok(value) {
        return true;
    }
    let here = std::env::current_exe().unwrap();
    let ran = Command::new(here).args(["--exact", test]).env(name, value).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    false
}

#[test]
fn what_was_not_accepted_in_time_is_an_error_of_close() {
    let test = "closing::what_was_not_accepted_in_time_is_an_error_of_close";
    if !is_run_with(test, "PACKHORSE_LINGER_S", "1") {
        return;
    }
    let loaded = Loaded::new();
    let (a, b) = (loaded.node(&like_mpi), loaded.node(&like_mpi));
    let to_b = a.insert(&b.name).unwrap();
    // So long a message is accepted when it is received, and nobody receives it.
    a.tsend(vec![7; 1 << 20].leak(), None, to_b, 7, 1);
    assert_eq!(close(a.ep), -libc::ETIMEDOUT);
    // It is closed nevertheless: nothing can be done with it, and nothing of its is busy.
    assert_eq!(a.control(command::ENABLE), -code::EOPBADSTATE);
    for object in [a.av, a.cq, a.domain, a.fabric] {
        assert_eq!(close(object), 0);
    }
    assert_eq!(close(a.ep), 0, "closed once more");
    b.close();
}
