//! What peers do with registered memory is counted, where an endpoint was opened for that (`FI_RMA_EVENT`); shared contexts.

use std::ptr::null_mut;

use packhorse_fi::abi::*;

use crate::application::{Hints, Loaded, Node, bind, close, counted, wait_counted};
use crate::one_sided::{Leaked, one_sided};

const READ: u64 = flag::REMOTE_READ;
const WRITE: u64 = flag::REMOTE_WRITE;
const KEY: u64 = 77;

fn counting(hints: &mut Hints) {
    one_sided(hints);
    hints.caps |= flag::RMA_EVENT;
}

/// A counter of nobody's yet.
fn counter(node: &Node) -> Obj {
    let mut counter = null_mut();
    // SAFETY: objects with their own tables.
    unsafe {
        let ops = &*(*node.domain.cast::<DomainFid>()).ops;
        assert_eq!((ops.cntr_open)(node.domain, null_mut(), &raw mut counter, null_mut()), 0);
    }
    counter
}

fn bind_with(object: Obj, other: Obj, flags: u64) -> i32 {
    // SAFETY: objects with their own tables.
    unsafe { ((*(*object).ops).bind)(object, other, flags) }
}

#[test]
fn what_peers_do_is_counted() {
    let loaded = Loaded::new();
    let mut target = loaded.disabled_node(loaded.getinfo(version(1, 17), Some(&counting)).unwrap());
    let (reads, writes) =
        (target.counter(READ, kind::WAIT_UNSPEC), target.counter(WRITE, kind::WAIT_UNSPEC));
    target.enable();
    let peer = loaded.node(&one_sided);
    let (to, _) = (peer.insert(&target.name).unwrap(), target.insert(&peer.name).unwrap());
    let (window, other) = (Leaked::new(&[0; 1 << 20]), Leaked::new(&[0; 8]));
    let mr = target.register(&window, READ | WRITE, KEY).unwrap();
    let other_mr = target.register(&other, READ | WRITE, KEY + 1).unwrap();
    // One counts what is done to one registration only.
    let of_memory = counter(&target);
    assert_eq!(bind_with(mr, of_memory, flag::SEND), -code::EBADFLAGS);
    assert_eq!(bind(mr, target.cq), -libc::EINVAL);
    assert_eq!(bind_with(mr, of_memory, READ | WRITE), 0);
    let data = Leaked::new(&[7; 1 << 20]);
    for (count, len) in (1..).zip([8, 5000, 1 << 20]) {
        let part = data.first(len);
        peer.write(&part, (to, 0, KEY), 1);
        peer.wait_done();
        assert_eq!(wait_counted(writes, count, 10_000), 0);
        peer.read_from(&part, (to, 0, KEY), 2);
        peer.wait_done();
        assert_eq!(wait_counted(reads, count, 10_000), 0);
    }
    peer.write(&data.first(8), (to, 0, KEY + 1), 1);
    peer.wait_done();
    assert_eq!(wait_counted(writes, 4, 10_000), 0);
    // What is refused counts for nothing, and nothing of all this is an entry of the queue.
    peer.write(&data.first(8), (to, 0, KEY + 2), 1);
    assert!(peer.fails_with() > 0);
    assert_eq!((counted(of_memory), counted(writes), counted(reads)), (6, 4, 3));
    assert!(target.read().is_none());
    // Neither order of closing leaves anything busy.
    assert_eq!(close(of_memory), -libc::EBUSY, "the registration counts with it");
    assert_eq!((close(mr), close(of_memory)), (0, 0));
    let late = counter(&target);
    assert_eq!(bind_with(other_mr, late, WRITE), 0);
    assert_eq!((close(target.ep), close(target.cq)), (0, 0));
    assert_eq!([other_mr, late, reads, writes, target.av, target.domain].map(close), [0; 6]);
    peer.close();
}

#[test]
fn who_did_not_ask_is_not_told() {
    let loaded = Loaded::new();
    let mut target =
        loaded.disabled_node(loaded.getinfo(version(1, 17), Some(&one_sided)).unwrap());
    let writes = target.counter(WRITE, kind::WAIT_NONE);
    target.enable();
    let peer = loaded.node(&one_sided);
    let (to, _) = (peer.insert(&target.name).unwrap(), target.insert(&peer.name).unwrap());
    let window = Leaked::new(&[0; 8]);
    let mr = target.register(&window, READ | WRITE, KEY).unwrap();
    peer.write(&Leaked::new(&[7; 8]), (to, 0, KEY), 1);
    peer.wait_done();
    assert_eq!(counted(writes), 0);
    assert_eq!([mr, target.ep, writes].map(close), [0; 3]);
    peer.close();
}

#[test]
fn contexts_are_shared_by_name() {
    let loaded = Loaded::new();
    let sharing = |hints: &mut Hints| {
        one_sided(hints);
        hints.ep.tx_ctx_cnt = SHARED_CONTEXT;
    };
    let info = loaded.getinfo(version(1, 17), Some(&sharing)).unwrap();
    // SAFETY: the answer has all its parts.
    unsafe {
        assert_eq!((*info.ep_attr).tx_ctx_cnt, SHARED_CONTEXT);
        assert!((*info.domain_attr).max_ep_stx_ctx > 0 && (*info.domain_attr).max_ep_srx_ctx == 0);
    }
    let mut node = loaded.disabled_node(info);
    let (mut stx, mut none) = (null_mut(), null_mut());
    // SAFETY: objects with their own tables.
    let refused = unsafe {
        let ops = &*(*node.domain.cast::<DomainFid>()).ops;
        assert_eq!((ops.stx_ctx)(node.domain, null_mut(), &raw mut stx, null_mut()), 0);
        (ops.srx_ctx)(node.domain, null_mut(), &raw mut none, null_mut())
    };
    assert_eq!(refused, -libc::ENOSYS, "receives are not shared");
    assert_eq!(bind(node.ep, stx), 0);
    node.enable();
    let to_itself = node.insert(&node.name).unwrap();
    node.tsend(b"through it", None, to_itself, 7, 1);
    node.trecv(20, u64::MAX, crate::TAG, 2);
    let done = [node.wait_done().op_context as usize, node.wait_done().op_context as usize];
    assert!(done == [1, 2] || done == [2, 1], "{done:?}");
    assert_eq!((close(stx), close(node.ep), close(stx)), (-libc::EBUSY, 0, 0));
}
