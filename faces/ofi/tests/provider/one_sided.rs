//! Registered memory, and operations on it.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use packhorse_fi::abi::*;

use crate::application::{Hints, Loaded, Node, Read, close};
use crate::like_mpi;

/// What Open MPI's `btl/ofi` asks for, beside messages.
pub(crate) fn one_sided(hints: &mut Hints) {
    like_mpi(hints);
    hints.caps |= flag::RMA | flag::ATOMIC;
    hints.domain.mr_mode = mr_mode::VIRT_ADDR | mr_mode::ALLOCATED | mr_mode::PROV_KEY;
    hints.tx.op_flags = flag::COMPLETION | flag::DELIVERY_COMPLETE;
}

/// Two nodes that know each other; and what the first calls the second.
fn pair() -> (Node, Node, u64) {
    let loaded = Loaded::new();
    let (a, b) = (loaded.node(&one_sided), loaded.node(&one_sided));
    let to_b = a.insert(&b.name).unwrap();
    b.insert(&a.name).unwrap();
    (a, b, to_b)
}

const U64: c_int = 7;
const SUM: c_int = 2;
const CSWAP: c_int = 12;
const ALL: u64 = flag::REMOTE_READ | flag::REMOTE_WRITE;

/// Memory of a test: leaked, looked at only when nothing is under way.
pub(crate) struct Leaked(pub(crate) *mut u8, usize);

impl Leaked {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let leaked = bytes.to_vec().leak();
        Self(leaked.as_mut_ptr(), leaked.len())
    }

    /// The first `len` bytes of this memory.
    pub(crate) fn first(&self, len: usize) -> Self {
        assert!(len <= self.1);
        Self(self.0, len)
    }

    pub(crate) fn len(&self) -> usize {
        self.1
    }

    /// Other bytes, before any operation looks at them.
    pub(crate) fn put(&self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.1);
        // SAFETY: leaked, and as long; what is lent of it is not being read.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0, bytes.len()) };
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        // SAFETY: leaked, and no operation on it is under way when a test looks.
        unsafe { std::slice::from_raw_parts(self.0, self.1) }.to_vec()
    }

    fn numbers(&self) -> Vec<u64> {
        let bytes = self.bytes();
        bytes.chunks(8).map(|it| u64::from_le_bytes(it.try_into().unwrap())).collect()
    }
}

fn numbers(numbers: &[u64]) -> Leaked {
    Leaked::new(&numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>())
}

impl Node {
    pub(crate) fn register(&self, memory: &Leaked, access: u64, key: u64) -> Result<Obj, c_int> {
        let mut mr = null_mut();
        // SAFETY: an open domain with its own table, and memory that stays.
        let status = unsafe {
            let ops = &*(*self.domain.cast::<DomainFid>()).mr;
            let buf = memory.0.cast();
            (ops.reg)(self.domain, buf, memory.1, access, 0, key, 0, &raw mut mr, null_mut())
        };
        if status == 0 { Ok(mr) } else { Err(status) }
    }

    pub(crate) fn rma(&self) -> &'static RmaOps {
        // SAFETY: a static table of an open endpoint.
        unsafe { &*(*self.ep.cast::<EpFid>()).rma }
    }

    pub(crate) fn atomic(&self) -> &'static AtomicOps {
        // SAFETY: a static table of an open endpoint.
        unsafe { &*(*self.ep.cast::<EpFid>()).atomic }
    }

    pub(crate) fn write(
        &self,
        from: &Leaked,
        (peer, offset, key): (u64, u64, u64),
        context: usize,
    ) {
        let (buf, context) = (from.0.cast_const().cast(), context as *mut c_void);
        // SAFETY: an open endpoint with its own table, and memory that stays.
        let status = unsafe {
            (self.rma().write)(self.ep, buf, from.1, null_mut(), peer, offset, key, context)
        };
        assert_eq!(status, 0);
    }

    pub(crate) fn read_from(
        &self,
        to: &Leaked,
        (peer, offset, key): (u64, u64, u64),
        context: usize,
    ) {
        let context = context as *mut c_void;
        // SAFETY: as for `write`.
        let status = unsafe {
            (self.rma().read)(self.ep, to.0.cast(), to.1, null_mut(), peer, offset, key, context)
        };
        assert_eq!(status, 0);
    }

    pub(crate) fn fails_with(&self) -> c_int {
        match self.wait() {
            Read::Failed { err, why, .. } => {
                assert!(!why.contains("unknown"), "{why}");
                err
            }
            done => panic!("{done:?}"),
        }
    }
}

#[test]
fn bytes_are_written_and_read_back() {
    let (a, b, to_b) = pair();
    let window = Leaked::new(&[0; 1 << 20]);
    let mr = b.register(&window, ALL, 0xFEED_0000_0001).unwrap();
    for len in [1, 1000, 40_000, 1 << 20] {
        let out = Leaked::new(&(0..len).map(|it| (it % 251) as u8 + 1).collect::<Vec<_>>());
        let there = (to_b, ((1 << 20) - len) as u64, 0xFEED_0000_0001);
        a.write(&out, there, 1);
        let done = a.wait_done();
        assert_eq!((done.op_context as usize, done.flags), (1, flag::RMA | flag::WRITE));
        assert_eq!(window.bytes()[(1 << 20) - len..], out.bytes());
        let back = Leaked::new(&vec![0; len]);
        a.read_from(&back, there, 2);
        let done = a.wait_done();
        assert_eq!((done.op_context as usize, done.flags), (2, flag::RMA | flag::READ));
        assert_eq!(back.bytes(), out.bytes());
    }
    assert!(b.read().is_none(), "the target hears nothing");
    assert_eq!(close(mr), 0);
    a.write(&Leaked::new(b"late"), (to_b, 0, 0xFEED_0000_0001), 3);
    assert_eq!(a.fails_with(), code::ENOKEY);
    [a, b].into_iter().for_each(Node::close);
}

#[test]
fn data_beside_a_write_is_told_to_the_target() {
    let (a, b, to_b) = pair();
    let (window, out) = (Leaked::new(&[0; 16]), Leaked::new(b"news"));
    let mr = b.register(&window, ALL, 5).unwrap();
    // SAFETY: an open endpoint with its own table, and memory that stays.
    let status = unsafe {
        let write = a.rma().writedata;
        write(a.ep, out.0.cast(), 4, null_mut(), 0xDA7A, to_b, 2, 5, null_mut())
    };
    assert_eq!(status, 0);
    let told = b.wait_done();
    assert_eq!(told.flags, flag::RMA | flag::REMOTE_WRITE | flag::REMOTE_CQ_DATA);
    assert_eq!((told.data, told.len), (0xDA7A, 4));
    assert_eq!(window.bytes()[2..6], *b"news");
    a.wait_done();
    assert_eq!(close(mr), 0);
    [a, b].into_iter().for_each(Node::close);
}

#[test]
fn what_is_not_permitted_fails_here_and_touches_nothing_there() {
    let (a, b, to_b) = pair();
    let (open, closed) = (Leaked::new(&[7; 100]), Leaked::new(&[7; 100]));
    let mrs =
        [b.register(&open, ALL, 1).unwrap(), b.register(&closed, flag::REMOTE_READ, 2).unwrap()];
    assert_eq!(b.register(&open, ALL, 1).err(), Some(-code::ENOKEY), "a key is used once");
    let out = Leaked::new(&[1; 10]);
    for (offset, key, expected) in [
        (0, 3, code::ENOKEY),
        (91, 1, libc::EINVAL),
        (u64::MAX, 1, libc::EINVAL),
        (0, 2, libc::EACCES),
    ] {
        a.write(&out, (to_b, offset, key), 1);
        assert_eq!(a.fails_with(), expected, "offset {offset}, key {key}");
    }
    // A stranger: it knows the address, but is in nobody's address vector there.
    let stranger = Loaded::new().node(&one_sided);
    let its_b = stranger.insert(&b.name).unwrap();
    stranger.write(&out, (its_b, 0, 1), 1);
    assert_eq!(stranger.fails_with(), code::ENOKEY);
    assert_eq!((open.bytes(), closed.bytes()), (vec![7; 100], vec![7; 100]));
    mrs.into_iter().for_each(|mr| assert_eq!(close(mr), 0));
    [a, b, stranger].into_iter().for_each(Node::close);
}

#[test]
fn peers_compute_with_registered_memory() {
    let (a, b, to_b) = pair();
    let window = numbers(&[10, 20, 30]);
    let mr = b.register(&window, ALL, 9).unwrap();
    let (two, was) = (numbers(&[1, 2]), numbers(&[0, 0]));
    let (buf, ops) = (two.0.cast_const().cast(), a.atomic());
    // SAFETY: an open endpoint with its own table, and memory that stays.
    unsafe {
        let status = (ops.write)(a.ep, buf, 2, null_mut(), to_b, 8, 9, U64, SUM, null_mut());
        assert_eq!(status, 0);
        assert_eq!(a.wait_done().flags, flag::ATOMIC | flag::WRITE);
        assert_eq!(window.numbers(), [10, 21, 32]);
        let to = was.0.cast();
        let fetch = ops.readwrite;
        let status =
            fetch(a.ep, buf, 2, null_mut(), to, null_mut(), to_b, 0, 9, U64, SUM, null_mut());
        assert_eq!(status, 0);
        a.wait_done();
        assert_eq!((was.numbers(), window.numbers()), (vec![10, 21], vec![11, 23, 32]));
        let compare = numbers(&[11]);
        let (compare, none) = (compare.0.cast_const().cast(), null_mut());
        let swap = ops.compwrite;
        let status =
            swap(a.ep, buf, 1, none, compare, none, to, none, to_b, 0, 9, U64, CSWAP, null_mut());
        assert_eq!(status, 0);
        a.wait_done();
        assert_eq!((was.numbers()[0], window.numbers()[0]), (11, 1));
        let mut count = 0;
        assert_eq!((ops.writevalid)(a.ep, U64, SUM, &raw mut count), 0);
        assert!(count >= 64);
        assert_eq!((ops.writevalid)(a.ep, 12, SUM, &raw mut count), -libc::EOPNOTSUPP);
    }
    assert_eq!(close(mr), 0);
    [a, b].into_iter().for_each(Node::close);
}

#[test]
fn a_closed_registration_is_not_written_though_puts_are_under_way() {
    const LEN: usize = 4 << 20;
    let (a, b, to_b) = pair();
    let window = Leaked::new(&vec![0; LEN]);
    let mr = b.register(&window, ALL, 5).unwrap();
    for context in 1..=8 {
        a.write(&Leaked::new(&vec![context as u8; LEN]), (to_b, 0, 5), context);
    }
    a.wait_done(); // others are under way
    assert_eq!(close(mr), 0);
    let left = window.bytes();
    (2..=8).for_each(|_| drop(a.wait()));
    assert!(window.bytes() == left, "written after fi_close");
    [a, b].into_iter().for_each(Node::close);
}
