//! Operations that a counter sets off: `FI_TRIGGER`, deferred work, aliases.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use packhorse_fi::abi::*;

use crate::application::{
    Hints, Loaded, Node, Read, add_to_counter, bytes_at, close, counted, set_counter, wait_counted,
};
use crate::one_sided::{Leaked, one_sided};

const KEY: u64 = 77;
const ALL: u64 = flag::REMOTE_READ | flag::REMOTE_WRITE;
const U64: u32 = 7;
const SUM: u32 = 2;
const CSWAP: u32 = 12;

fn triggered(hints: &mut Hints) {
    one_sided(hints);
    hints.caps |= flag::TRIGGER | flag::RMA_EVENT;
}

/// Two nodes that know each other, the first with a counter of receives and one of nobody's; what each calls the other.
struct Pair {
    a: Node,
    b: Node,
    received: Obj,
    free: Obj,
    to_b: u64,
    to_a: u64,
}

impl Pair {
    fn new() -> Self {
        let loaded = Loaded::new();
        let mut a = loaded.disabled_node(loaded.getinfo(version(1, 17), Some(&triggered)).unwrap());
        let received = a.counter(flag::RECV, kind::WAIT_UNSPEC);
        a.enable();
        let b = loaded.node(&triggered);
        let (to_b, to_a) = (a.insert(&b.name).unwrap(), b.insert(&a.name).unwrap());
        let free = counter(&a);
        Self { a, b, received, free, to_b, to_a }
    }

    fn close(self) {
        assert_eq!((close(self.a.ep), close(self.free), close(self.received)), (0, 0, 0));
        for object in [self.a.av, self.a.cq, self.a.domain, self.a.fabric] {
            assert_eq!(close(object), 0);
        }
        self.b.close();
    }
}

/// A counter of nobody's.
fn counter(node: &Node) -> Obj {
    let mut counter = null_mut();
    // SAFETY: objects with their own tables.
    unsafe {
        let ops = &*(*node.domain.cast::<DomainFid>()).ops;
        assert_eq!((ops.cntr_open)(node.domain, null_mut(), &raw mut counter, null_mut()), 0);
    }
    counter
}

/// What stays until the end of the program, as descriptions and lists of works must until their end.
fn leak<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

fn control(object: Obj, what: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: an object with its own table, and what goes with the command.
    unsafe { ((*(*object).ops).control)(object, what, argument) }
}

/// A description of work.
fn deferred<T>(
    op_type: u32,
    op: T,
    (trigger, threshold): (Obj, u64),
    done: Obj,
) -> *mut DeferredWork {
    leak(DeferredWork {
        context: [null_mut(); 8],
        threshold,
        triggering_cntr: trigger,
        completion_cntr: done,
        op_type,
        op: leak(op).cast(),
    })
}

fn queue(node: &Node, work: *mut DeferredWork) -> c_int {
    control(node.domain, command::QUEUE_WORK, work.cast())
}

fn piece(memory: &Leaked) -> *const iovec {
    leak(iovec { iov_base: memory.0.cast(), iov_len: memory.len() })
}

fn elements(memory: &Leaked) -> *const Ioc {
    leak(Ioc { addr: memory.0.cast(), count: memory.len() / 8 })
}

fn tagged(node: &Node, memory: &Leaked, addr: u64, tag: u64, flags: u64) -> OpTagged {
    let (msg_iov, desc, context) = (piece(memory), null_mut(), tag as *mut c_void);
    let msg = MsgTagged { msg_iov, desc, iov_count: 1, addr, tag, ignore: 0, context, data: 0 };
    OpTagged { ep: node.ep, msg, flags }
}

fn rma(node: &Node, memory: &Leaked, addr: u64, offset: u64) -> OpRma {
    let (msg_iov, desc, context) = (piece(memory), null_mut(), null_mut());
    let rma_iov = leak(RmaIov { addr: offset, len: memory.len(), key: KEY });
    let msg =
        MsgRma { msg_iov, desc, iov_count: 1, addr, rma_iov, rma_iov_count: 1, context, data: 0 };
    OpRma { ep: node.ep, msg, flags: 0 }
}

fn atomic(memory: &Leaked, addr: u64, op: u32) -> MsgAtomic {
    MsgAtomic {
        msg_iov: elements(memory),
        desc: null_mut(),
        iov_count: 1,
        addr,
        rma_iov: leak(RmaIoc { addr: 0, count: memory.len() / 8, key: KEY }),
        rma_iov_count: 1,
        datatype: U64,
        op,
        context: null_mut(),
        data: 0,
    }
}

fn beside(memory: &Leaked) -> MsgElements {
    MsgElements { msg_iov: elements(memory), desc: null_mut(), iov_count: 1 }
}

/// Waits until something is so, without a call of the provider.
fn until(is_so: impl Fn() -> bool) {
    let longest = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < longest, "it does not come to be");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The first node is not called after its works are queued: what it received sets off a send, that sets off another.
#[test]
fn a_send_is_set_off_while_the_application_is_elsewhere() {
    let pair = Pair::new();
    let (a, b) = (&pair.a, &pair.b);
    a.trecv(8, ADDR_UNSPEC, (1, 0), 1);
    let echo = Leaked::new(b"echoed..");
    let first = tagged(a, &echo, pair.to_b, 2, 0);
    assert_eq!(queue(a, deferred(work::TSEND, first, (pair.received, 1), pair.free)), 0);
    let second = tagged(a, &echo, pair.to_b, 3, 0);
    assert_eq!(queue(a, deferred(work::TSEND, second, (pair.free, 1), null_mut())), 0);
    let echoed = [2, 3].map(|tag| b.trecv(8, pair.to_a, (tag, 0), tag as usize));
    assert!(b.read().is_none(), "before anything was sent");
    b.tinject(b"question", pair.to_a, 1);
    let contexts = [b.wait_done(), b.wait_done()].map(|entry| entry.op_context as usize);
    assert_eq!(contexts, [2, 3]);
    assert_eq!(echoed.map(|at| bytes_at(at, 8)), [&b"echoed.."[..]; 2]);
    // Its receive is told as any other; of works only their counter is.
    assert_eq!(a.wait_done().op_context as usize, 1);
    assert_eq!(wait_counted(pair.free, 1, 10_000), 0);
    assert!(a.read().is_none());
    pair.close();
}

/// A peer's put sets off a put of ours, with nobody of us awake.
#[test]
fn what_a_peer_does_to_memory_sets_off_an_operation() {
    let loaded = Loaded::new();
    let mut a = loaded.disabled_node(loaded.getinfo(version(1, 17), Some(&triggered)).unwrap());
    let written = a.counter(flag::REMOTE_WRITE, kind::WAIT_NONE);
    a.enable();
    let b = loaded.node(&triggered);
    let (to_b, to_a) = (a.insert(&b.name).unwrap(), b.insert(&a.name).unwrap());
    let (window, answer) = (Leaked::new(&[0; 64]), Leaked::new(&[0; 8]));
    let (of_a, of_b) =
        (a.register(&window, ALL, KEY).unwrap(), b.register(&answer, ALL, KEY).unwrap());
    let back = rma(&a, &Leaked::new(b"put back"), to_b, 0);
    assert_eq!(queue(&a, deferred(work::WRITE, back, (written, 3), null_mut())), 0);
    for count in 1..=3 {
        assert_eq!(answer.bytes(), [0; 8], "after {} writes", count - 1);
        b.write(&Leaked::new(&[7; 8]), (to_a, 0, KEY), count);
        b.wait_done();
    }
    until(|| answer.bytes() == b"put back");
    assert_eq!([of_a, of_b, a.ep, written, a.av, a.cq, a.domain, a.fabric].map(close), [0; 8]);
    b.close();
}

#[test]
fn works_of_all_kinds_follow_each_other_and_read_their_memory_when_they_are_set_off() {
    let pair = Pair::new();
    let (a, b, done) = (&pair.a, &pair.b, pair.free);
    let there = Leaked::new(&[0; 8]);
    let mr = b.register(&there, ALL, KEY).unwrap();
    let number = |number: u64| Leaked::new(&number.to_le_bytes());
    let (written, added, operand, compare) = (number(5), number(4), number(40), number(9));
    let (fetched, swapped, read) = (number(0), number(0), number(0));
    let sum = OpAtomic { ep: a.ep, msg: atomic(&added, pair.to_b, SUM), flags: 0 };
    let swap = OpCompareAtomic {
        ep: a.ep,
        msg: atomic(&operand, pair.to_b, CSWAP),
        fetch: beside(&swapped),
        compare: beside(&compare),
        flags: 0,
    };
    let fetch = OpFetchAtomic {
        ep: a.ep,
        msg: atomic(&added, pair.to_b, SUM),
        fetch: beside(&fetched),
        flags: 0,
    };
    // Queued in no order; each waits for the one before it.
    assert_eq!(queue(a, deferred(work::READ, rma(a, &read, pair.to_b, 0), (done, 5), done)), 0);
    assert_eq!(queue(a, deferred(work::FETCH_ATOMIC, fetch, (done, 4), done)), 0);
    assert_eq!(queue(a, deferred(work::COMPARE_ATOMIC, swap, (done, 3), done)), 0);
    assert_eq!(queue(a, deferred(work::ATOMIC, sum, (done, 2), done)), 0);
    assert_eq!(queue(a, deferred(work::WRITE, rma(a, &written, pair.to_b, 0), (done, 1), done)), 0);
    // Nothing of it has been looked at: what is changed now is what counts.
    operand.put(&41_u64.to_le_bytes());
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(there.bytes(), [0; 8], "nothing was set off yet");
    add_to_counter(done, 1);
    assert_eq!(wait_counted(done, 6, 10_000), 0);
    // 5, + 4 = 9, which is what is compared with: 41, + 4 = 45.
    let value = |memory: &Leaked| u64::from_le_bytes(memory.bytes().try_into().unwrap());
    assert_eq!([&swapped, &fetched, &read, &there].map(value), [9, 41, 45, 45]);
    assert!(a.read().is_none(), "of works the queue is not told");
    assert_eq!(close(mr), 0);
    pair.close();
}

#[test]
fn receives_counters_and_untagged_messages_are_works_too_and_entries_are_made_on_request() {
    let pair = Pair::new();
    let (a, b) = (&pair.a, &pair.b);
    let (room, hello) = (Leaked::new(&[0; 5]), Leaked::new(b"hello"));
    let msg = |memory: &Leaked, addr, context: usize| Msg {
        msg_iov: piece(memory),
        desc: null_mut(),
        iov_count: 1,
        addr,
        context: context as *mut c_void,
        data: 0,
    };
    let recv = OpMsg { ep: a.ep, msg: msg(&room, ADDR_UNSPEC, 11), flags: flag::COMPLETION };
    let send = OpMsg { ep: a.ep, msg: msg(&hello, pair.to_b, 12), flags: 0 };
    assert_eq!(queue(a, deferred(work::RECV, recv, (pair.free, 1), null_mut())), 0);
    assert_eq!(queue(a, deferred(work::SEND, send, (pair.received, 1), pair.free)), 0);
    // Sets the counter off, and then adds to it: 1, 8, and the send.
    let set = OpCntr { cntr: pair.free, value: 7 };
    let add = OpCntr { cntr: pair.free, value: 1 };
    assert_eq!(queue(a, deferred(work::CNTR_SET, set, (pair.free, 1), null_mut())), 0);
    assert_eq!(queue(a, deferred(work::CNTR_ADD, add, (pair.free, 7), null_mut())), 0);
    let answered = b.recvmsg(5, 3, flag::COMPLETION);
    add_to_counter(pair.free, 1);
    assert_eq!(counted(pair.free), 8);
    b.send(b"there", pair.to_a, 4);
    let told = [b.wait_done(), b.wait_done()].map(|entry| entry.op_context as usize);
    assert!(told.contains(&3) && told.contains(&4), "{told:?}");
    assert_eq!((bytes_at(answered, 5), &room.bytes()[..]), (&b"hello"[..], &b"there"[..]));
    assert_eq!(a.wait_done().op_context as usize, 11, "asked for");
    assert_eq!(wait_counted(pair.free, 9, 10_000), 0);
    assert_eq!(counted(pair.received), 1);
    pair.close();
}

#[test]
fn thresholds_are_passed_in_their_order_whatever_the_counter_leaps() {
    let pair = Pair::new();
    let (a, b) = (&pair.a, &pair.b);
    let order = [5_u64, 2, 9, 2, 7];
    for (tag, &threshold) in (10..).zip(&order) {
        let op = tagged(a, &Leaked::new(&[tag as u8]), pair.to_b, 1, 0);
        assert_eq!(queue(a, deferred(work::TSEND, op, (pair.free, threshold), null_mut())), 0);
    }
    set_counter(pair.free, 8);
    let taken = |count: usize| -> Vec<u8> {
        let all: Vec<_> = (0..count).map(|_| b.trecv(1, pair.to_a, (1, 0), 1)).collect();
        for _ in &all {
            b.wait_done();
        }
        all.into_iter().map(|at| bytes_at(at, 1)[0]).collect()
    };
    assert_eq!(taken(4), [11, 13, 10, 14]);
    add_to_counter(pair.free, 1);
    assert_eq!(taken(1), [12]);
    pair.close();
}

#[test]
fn works_are_cancelled_and_flushed_and_go_with_their_endpoint() {
    let pair = Pair::new();
    let a = &pair.a;
    let later = |threshold| {
        let op = tagged(a, &Leaked::new(b"never"), pair.to_b, 1, 0);
        deferred(work::TSEND, op, (pair.free, threshold), null_mut())
    };
    let (first, second) = (later(1), later(1));
    assert_eq!((queue(a, first), queue(a, second)), (0, 0));
    assert_eq!(close(pair.free), -libc::EBUSY, "works wait for it");
    assert_eq!(control(a.domain, command::CANCEL_WORK, first.cast()), 0);
    assert_eq!(control(a.domain, command::CANCEL_WORK, first.cast()), -libc::ENOENT);
    assert_eq!(control(a.domain, command::FLUSH_WORK, null_mut()), 0);
    assert_eq!(control(a.domain, command::CANCEL_WORK, second.cast()), -libc::ENOENT);
    add_to_counter(pair.free, 1);
    // One that was posted with a condition ends as cancelled operations do.
    let condition = |threshold| {
        leak(TriggeredContext { event_type: 0, cntr: pair.free, threshold, reserved: null_mut() })
    };
    let context = condition(5);
    assert_eq!(tsend_triggered(a, pair.to_b, context, flag::COMPLETION), 0);
    a.cancel(context as usize);
    match a.wait() {
        Read::Failed { entry, err, .. } => {
            assert_eq!((entry.op_context as usize, err), (context as usize, libc::ECANCELED));
        }
        Read::Done(entry) => panic!("{entry:?} was cancelled"),
    }
    // What is left goes with the endpoint, and holds nothing back.
    assert_eq!((queue(a, later(9)), tsend_triggered(a, pair.to_b, condition(9), 0)), (0, 0));
    pair.close();
}

/// `fi_tsendmsg` with `FI_TRIGGER`.
fn tsend_triggered(node: &Node, to: u64, context: *mut TriggeredContext, flags: u64) -> isize {
    let mut op = tagged(node, &Leaked::new(b"now"), to, 6, 0);
    op.msg.context = context.cast();
    // SAFETY: an object with its own table, and what stays.
    unsafe { (node.tagged().sendmsg)(node.ep, &raw const op.msg, flags | flag::TRIGGER) }
}

#[test]
fn an_alias_posts_with_flags_of_its_own_for_instance_triggered_ones() {
    let pair = Pair::new();
    let (a, b) = (&pair.a, &pair.b);
    let there = Leaked::new(&[0; 8]);
    let mr = b.register(&there, ALL, KEY).unwrap();
    let mut alias = null_mut();
    let ask = |flags, out: *mut Obj| {
        control(a.ep, command::ALIAS, leak(Alias { fid: out, flags }).cast())
    };
    assert_eq!(ask(flag::TRIGGER, &raw mut alias), -code::EBADFLAGS, "for which side?");
    assert_eq!(ask(flag::SEND | flag::FENCE, &raw mut alias), -code::EBADFLAGS);
    assert_eq!(ask(flag::SEND | flag::TRIGGER | flag::COMPLETION, &raw mut alias), 0);
    let condition = leak(TriggeredContext {
        event_type: 0,
        cntr: pair.free,
        threshold: 2,
        reserved: null_mut(),
    });
    let data = Leaked::new(b"at last!");
    // SAFETY: an endpoint with its own table, memory and a context that stay.
    let status = unsafe {
        let (buf, len) = (data.0.cast(), data.len());
        (a.rma().write)(alias, buf, len, null_mut(), pair.to_b, 0, KEY, condition.cast())
    };
    assert_eq!(status, 0);
    add_to_counter(pair.free, 1);
    assert!(a.read().is_none() && there.bytes() == [0; 8]);
    add_to_counter(pair.free, 1);
    assert_eq!(a.wait_done().op_context as usize, condition as usize);
    assert_eq!(there.bytes(), b"at last!");
    assert_eq!(close(a.ep), -libc::EBUSY, "it has an alias");
    assert_eq!((close(alias), close(mr)), (0, 0));
    pair.close();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let pair = Pair::new();
    let (a, free) = (&pair.a, pair.free);
    let op = || tagged(a, &Leaked::new(b"x"), pair.to_b, 1, 0);
    assert_eq!(control(a.domain, command::QUEUE_WORK, null_mut()), -libc::EINVAL);
    assert_eq!(control(a.domain, command::CANCEL_WORK, null_mut()), -libc::EINVAL);
    assert_eq!(control(a.domain, 99, null_mut()), -libc::ENOSYS);
    let no_counter = deferred(work::TSEND, op(), (null_mut(), 1), null_mut());
    assert_eq!(queue(a, no_counter), -libc::EINVAL);
    let no_such_op = deferred(99, op(), (free, 1), null_mut());
    assert_eq!(queue(a, no_such_op), -libc::ENOSYS);
    let no_endpoint = OpTagged { ep: null_mut(), ..op() };
    assert_eq!(queue(a, deferred(work::TSEND, no_endpoint, (free, 1), null_mut())), -libc::EINVAL);
    let no_flag = OpTagged { flags: flag::PEEK, ..op() };
    assert_eq!(queue(a, deferred(work::TRECV, no_flag, (free, 1), null_mut())), -code::EBADFLAGS);
    let count = OpCntr { cntr: free, value: 1 };
    assert_eq!(queue(a, deferred(work::CNTR_ADD, count, (free, 1), free)), -libc::EINVAL);
    let of_devices =
        leak(TriggeredContext { event_type: 1, cntr: free, threshold: 1, reserved: null_mut() });
    assert_eq!(tsend_triggered(a, pair.to_b, of_devices, 0), -libc::ENOSYS as isize);
    assert_eq!(tsend_triggered(a, pair.to_b, null_mut(), 0), -libc::EINVAL as isize);
    // One that turns out to be wrong when it is set off fails then, and counts as a failure.
    let nobody = tagged(a, &Leaked::new(b"x"), 1234, 1, flag::COMPLETION);
    let done = counter(a);
    assert_eq!(queue(a, deferred(work::TSEND, nobody, (free, 1), done)), 0);
    add_to_counter(free, 1);
    assert!(matches!(a.wait(), Read::Failed { .. }));
    assert_eq!(wait_counted(done, 1, 0), -libc::ETIMEDOUT);
    assert_eq!(close(done), 0);
    pair.close();
}

#[test]
fn an_endpoint_that_did_not_ask_for_it_has_no_triggered_operations() {
    let loaded = Loaded::new();
    let a = loaded.node(&one_sided);
    let to = a.insert(&a.name.clone()).unwrap();
    let free = counter(&a);
    let op = tagged(&a, &Leaked::new(b"x"), to, 1, 0);
    assert_eq!(queue(&a, deferred(work::TSEND, op, (free, 1), null_mut())), -libc::EINVAL);
    assert_eq!(close(free), 0);
    a.close();
}
