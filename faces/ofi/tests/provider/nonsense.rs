//! What makes no sense: null pointers, counts and lengths that nobody can have, flags that nobody knows. Each call of the interface says
//! so, and nothing else happens.

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

use packhorse_fi::abi::*;

use crate::application::{Loaded, Node, close};
use crate::one_sided::one_sided;

/// A flag that no call knows.
const UNKNOWN: u64 = 1 << 47;
/// Longer than any message can be, and than all bytes of it together.
const TOO_LONG: usize = 1 << 48;
const FAULT: isize = -(libc::EFAULT as isize);
const INVALID: isize = -(libc::EINVAL as isize);
const TOO_BIG: isize = -(libc::EMSGSIZE as isize);
const BAD_FLAGS: isize = -(code::EBADFLAGS as isize);
const AGAIN: isize = -(libc::EAGAIN as isize);
const U64: c_int = 7;
const SUM: c_int = 2;
const READ: c_int = 10;
const CSWAP: c_int = 12;

/// A call, what it said, and what it should have said.
type Row = (&'static str, isize, isize);

fn check(rows: &[Row]) {
    let wrong: Vec<_> = rows.iter().filter(|(_, said, expected)| said != expected).collect();
    assert!(wrong.is_empty(), "(call, said, expected): {wrong:#?}");
}

fn node() -> (Node, u64) {
    let node = Loaded::new().node(&one_sided);
    let to_itself = node.insert(&node.name).unwrap();
    (node, to_itself)
}

/// Eight bytes that stay.
fn bytes() -> *mut c_void {
    vec![0_u8; 8].leak().as_mut_ptr().cast()
}

fn piece(iov_base: *mut c_void, iov_len: usize) -> iovec {
    iovec { iov_base, iov_len }
}

/// Lists of pieces that no operation takes, with what is wrong with each: a null one, one too long, several that are so together, and
/// more than there may be.
fn bad_lists() -> [(&'static str, Vec<iovec>, isize); 5] {
    let good = piece(bytes(), 8);
    let long = piece(bytes(), TOO_LONG - 1);
    [
        ("a null piece", vec![good, piece(null_mut(), 8)], FAULT),
        ("a long piece", vec![good, piece(bytes(), TOO_LONG)], TOO_BIG),
        ("an endless piece", vec![piece(bytes(), usize::MAX), good], TOO_BIG),
        ("long together", vec![long, long, good], TOO_BIG),
        ("many pieces", vec![good; 17], INVALID),
    ]
}

#[test]
fn messages() {
    let (a, to) = node();
    let (ep, msg, none, buf) = (a.ep, a.msg(), null_mut(), bytes());
    let mut rows: Vec<Row> = Vec::new();
    // SAFETY: an open endpoint with its own table. What is named either is there and stays, or must not be looked at.
    unsafe {
        rows.extend([
            ("send null", (msg.send)(ep, null(), 8, none, to, none), FAULT),
            ("send long", (msg.send)(ep, buf, TOO_LONG, none, to, none), TOO_BIG),
            ("send endless", (msg.send)(ep, buf, usize::MAX, none, to, none), TOO_BIG),
            ("send to nobody", (msg.send)(ep, buf, 8, none, 77, none), INVALID),
            ("senddata null", (msg.senddata)(ep, null(), 8, none, 1, to, none), FAULT),
            ("senddata long", (msg.senddata)(ep, buf, TOO_LONG, none, 1, to, none), TOO_BIG),
            ("inject null", (msg.inject)(ep, null(), 8, to), FAULT),
            ("inject long", (msg.inject)(ep, buf, TOO_LONG, to), TOO_BIG),
            ("injectdata null", (msg.injectdata)(ep, null(), 8, 1, to), FAULT),
            ("recv null", (msg.recv)(ep, null_mut(), 8, none, to, none), FAULT),
            ("recv long", (msg.recv)(ep, buf, TOO_LONG, none, to, none), TOO_BIG),
            ("sendv null", (msg.sendv)(ep, null(), null_mut(), 1, to, none), FAULT),
            ("recvv null", (msg.recvv)(ep, null(), null_mut(), 1, to, none), FAULT),
            ("sendmsg null", (msg.sendmsg)(ep, null(), 0), INVALID),
            ("recvmsg null", (msg.recvmsg)(ep, null(), 0), INVALID),
        ]);
        let msg_of = |list: &[iovec]| Msg {
            msg_iov: list.as_ptr(),
            desc: null_mut(),
            iov_count: list.len(),
            addr: to,
            context: null_mut(),
            data: 0,
        };
        for (what, list, expected) in bad_lists() {
            let (at, count, described) = (list.as_ptr(), list.len(), msg_of(&list));
            let described = &raw const described;
            rows.extend([
                (what, (msg.sendv)(ep, at, null_mut(), count, to, none), expected),
                (what, (msg.recvv)(ep, at, null_mut(), count, to, none), expected),
                (what, (msg.sendmsg)(ep, described, 0), expected),
                (what, (msg.sendmsg)(ep, described, flag::INJECT), expected),
                (what, (msg.recvmsg)(ep, described, 0), expected),
            ]);
        }
        // Both lists outlive what describes them.
        let (short, long) = ([piece(buf, 8)], [piece(buf, 32 << 10)]);
        let (good, many) = (msg_of(&short), msg_of(&long));
        let good = &raw const good;
        rows.extend([
            ("sendmsg flags", (msg.sendmsg)(ep, good, UNKNOWN), BAD_FLAGS),
            ("sendmsg fence", (msg.sendmsg)(ep, good, flag::FENCE), BAD_FLAGS),
            ("sendmsg inject", (msg.sendmsg)(ep, &raw const many, flag::INJECT), TOO_BIG),
            ("recvmsg flags", (msg.recvmsg)(ep, good, UNKNOWN), BAD_FLAGS),
            ("recvmsg discard", (msg.recvmsg)(ep, good, flag::DISCARD), BAD_FLAGS),
            ("recvmsg claim", (msg.recvmsg)(ep, good, flag::CLAIM), INVALID),
        ]);
    }
    check(&rows);
    a.close();
}

#[test]
fn tagged_messages() {
    let (a, to) = node();
    let (ep, msg, none, buf) = (a.ep, a.tagged(), null_mut(), bytes());
    let mut rows: Vec<Row> = Vec::new();
    // SAFETY: as in `messages`.
    unsafe {
        rows.extend([
            ("send null", (msg.send)(ep, null(), 8, none, to, 1, none), FAULT),
            ("send long", (msg.send)(ep, buf, TOO_LONG, none, to, 1, none), TOO_BIG),
            ("senddata null", (msg.senddata)(ep, null(), 8, none, 1, to, 1, none), FAULT),
            ("senddata long", (msg.senddata)(ep, buf, TOO_LONG, none, 1, to, 1, none), TOO_BIG),
            ("inject null", (msg.inject)(ep, null(), 8, to, 1), FAULT),
            ("inject long", (msg.inject)(ep, buf, usize::MAX, to, 1), TOO_BIG),
            ("injectdata null", (msg.injectdata)(ep, null(), 8, 1, to, 1), FAULT),
            ("recv null", (msg.recv)(ep, null_mut(), 8, none, to, 1, 0, none), FAULT),
            ("recv long", (msg.recv)(ep, buf, TOO_LONG, none, to, 1, 0, none), TOO_BIG),
            ("sendv null", (msg.sendv)(ep, null(), null_mut(), 1, to, 1, none), FAULT),
            ("recvv null", (msg.recvv)(ep, null(), null_mut(), 1, to, 1, 0, none), FAULT),
            ("sendmsg null", (msg.sendmsg)(ep, null(), 0), INVALID),
            ("recvmsg null", (msg.recvmsg)(ep, null(), 0), INVALID),
        ]);
        let msg_of = |list: &[iovec]| MsgTagged {
            msg_iov: list.as_ptr(),
            desc: null_mut(),
            iov_count: list.len(),
            addr: to,
            tag: 1,
            ignore: 0,
            context: null_mut(),
            data: 0,
        };
        for (what, list, expected) in bad_lists() {
            let (at, count, described) = (list.as_ptr(), list.len(), msg_of(&list));
            let described = &raw const described;
            rows.extend([
                (what, (msg.sendv)(ep, at, null_mut(), count, to, 1, none), expected),
                (what, (msg.recvv)(ep, at, null_mut(), count, to, 1, 0, none), expected),
                (what, (msg.sendmsg)(ep, described, 0), expected),
                (what, (msg.sendmsg)(ep, described, flag::INJECT), expected),
                (what, (msg.recvmsg)(ep, described, 0), expected),
            ]);
        }
        let good = [piece(buf, 8)];
        let good = &raw const *Box::leak(Box::new(msg_of(&good)));
        rows.extend([
            ("sendmsg flags", (msg.sendmsg)(ep, good, UNKNOWN), BAD_FLAGS),
            ("recvmsg flags", (msg.recvmsg)(ep, good, UNKNOWN), BAD_FLAGS),
            ("recvmsg many", (msg.recvmsg)(ep, good, flag::MULTI_RECV), BAD_FLAGS),
            ("recvmsg discard", (msg.recvmsg)(ep, good, flag::DISCARD), BAD_FLAGS),
        ]);
    }
    check(&rows);
    a.close();
}

#[test]
fn reads_and_writes_of_memory() {
    let (a, to) = node();
    let (ep, rma, none, buf) = (a.ep, a.rma(), null_mut(), bytes());
    let mut rows: Vec<Row> = Vec::new();
    // SAFETY: as in `messages`.
    unsafe {
        rows.extend([
            ("read null", (rma.read)(ep, null_mut(), 8, none, to, 0, 1, none), FAULT),
            ("read long", (rma.read)(ep, buf, TOO_LONG, none, to, 0, 1, none), TOO_BIG),
            ("write null", (rma.write)(ep, null(), 8, none, to, 0, 1, none), FAULT),
            ("write long", (rma.write)(ep, buf, TOO_LONG, none, to, 0, 1, none), TOO_BIG),
            ("writedata null", (rma.writedata)(ep, null(), 8, none, 1, to, 0, 1, none), FAULT),
            ("inject null", (rma.inject)(ep, null(), 8, to, 0, 1), FAULT),
            ("inject long", (rma.inject)(ep, buf, TOO_LONG, to, 0, 1), TOO_BIG),
            ("injectdata null", (rma.injectdata)(ep, null(), 8, 1, to, 0, 1), FAULT),
            ("readv null", (rma.readv)(ep, null(), null_mut(), 1, to, 0, 1, none), FAULT),
            ("writev null", (rma.writev)(ep, null(), null_mut(), 1, to, 0, 1, none), FAULT),
            ("readmsg null", (rma.readmsg)(ep, null(), 0), INVALID),
            ("writemsg null", (rma.writemsg)(ep, null(), 0), INVALID),
        ]);
        let place = RmaIov { addr: 0, len: 8, key: 1 };
        let msg_of = |list: &[iovec], rma_iov: *const RmaIov, rma_iov_count: usize| MsgRma {
            msg_iov: list.as_ptr(),
            desc: null_mut(),
            iov_count: list.len(),
            addr: to,
            rma_iov,
            rma_iov_count,
            context: null_mut(),
            data: 0,
        };
        for (what, list, expected) in bad_lists() {
            let (at, count) = (list.as_ptr(), list.len());
            let described = msg_of(&list, &raw const place, 1);
            let described = &raw const described;
            rows.extend([
                (what, (rma.readv)(ep, at, null_mut(), count, to, 0, 1, none), expected),
                (what, (rma.writev)(ep, at, null_mut(), count, to, 0, 1, none), expected),
                (what, (rma.readmsg)(ep, described, 0), expected),
                (what, (rma.writemsg)(ep, described, 0), expected),
                (what, (rma.writemsg)(ep, described, flag::INJECT), expected),
            ]);
        }
        let list = [piece(buf, 8)];
        let good = msg_of(&list, &raw const place, 1);
        let (nowhere, everywhere) = (msg_of(&list, null(), 1), msg_of(&list, &raw const place, 2));
        let good = &raw const good;
        rows.extend([
            ("readmsg flags", (rma.readmsg)(ep, good, UNKNOWN), BAD_FLAGS),
            ("readmsg data", (rma.readmsg)(ep, good, flag::REMOTE_CQ_DATA), BAD_FLAGS),
            ("writemsg flags", (rma.writemsg)(ep, good, UNKNOWN), BAD_FLAGS),
            ("readmsg nowhere", (rma.readmsg)(ep, &raw const nowhere, 0), INVALID),
            ("writemsg nowhere", (rma.writemsg)(ep, &raw const nowhere, 0), INVALID),
            ("writemsg places", (rma.writemsg)(ep, &raw const everywhere, 0), INVALID),
        ]);
    }
    check(&rows);
    a.close();
}

#[test]
fn atomic_operations() {
    let (a, to) = node();
    let (ep, ops, none, buf) = (a.ep, a.atomic(), null_mut(), bytes());
    let mut rows: Vec<Row> = Vec::new();
    // SAFETY: as in `messages`.
    unsafe {
        let write = |buf: *const c_void, count, datatype, op| {
            (ops.write)(ep, buf, count, none, to, 0, 1, datatype, op, none)
        };
        let fetch = |buf: *const c_void, result, op| {
            (ops.readwrite)(ep, buf, 1, none, result, none, to, 0, 1, U64, op, none)
        };
        let swap = |buf: *const c_void, compare: *const c_void, result| {
            let swap = ops.compwrite;
            swap(ep, buf, 1, none, compare, none, result, none, to, 0, 1, U64, CSWAP, none)
        };
        let unsupported = -(libc::EOPNOTSUPP as isize);
        rows.extend([
            ("write null", write(null(), 1, U64, SUM), FAULT),
            ("write nothing", write(buf, 0, U64, SUM), INVALID),
            ("write many", write(buf, 1 << 20, U64, SUM), INVALID),
            // As bytes these wrap around to eight.
            ("write endless", write(buf, (1 << 61) + 1, U64, SUM), INVALID),
            ("write what", write(buf, 1, 99, SUM), unsupported),
            ("write how", write(buf, 1, U64, -1), unsupported),
            ("inject null", (ops.inject)(ep, null(), 1, to, 0, 1, U64, SUM), FAULT),
            ("fetch null", fetch(null(), buf, SUM), FAULT),
            ("fetch to null", fetch(buf, null_mut(), SUM), FAULT),
            ("read to null", fetch(null(), null_mut(), READ), FAULT),
            ("swap null", swap(null(), buf, buf), FAULT),
            ("swap with null", swap(buf, null(), buf), FAULT),
            ("swap to null", swap(buf, buf, null_mut()), FAULT),
            ("writemsg null", (ops.writemsg)(ep, null(), 0), INVALID),
        ]);
        let (one, two) = (Ioc { addr: buf, count: 1 }, Ioc { addr: buf, count: 2 });
        let (one, two) = (&raw const one, (&raw const two).cast_mut());
        let writev =
            |list, count| (ops.writev)(ep, list, null_mut(), count, to, 0, 1, U64, SUM, none);
        let fetchv = |list, count, results, result_count| {
            let (fetch, descs) = (ops.readwritev, null_mut());
            fetch(ep, list, descs, count, results, descs, result_count, to, 0, 1, U64, SUM, none)
        };
        rows.extend([
            ("writev null", writev(null(), 1), FAULT),
            ("writev many", writev(one, 17), INVALID),
            ("readwritev null", fetchv(null(), 1, one.cast_mut(), 1), FAULT),
            ("readwritev to null", fetchv(one, 1, null_mut(), 1), FAULT),
            ("readwritev to many", fetchv(one, 1, one.cast_mut(), 17), INVALID),
            ("readwritev to more", fetchv(one, 1, two, 1), INVALID),
        ]);
        let mut count = 0;
        let mut attr = AtomicAttr { count: 0, size: 0 };
        let query = (*(*a.domain.cast::<DomainFid>()).ops).query_atomic;
        let asked = |what, how, flags, place: *mut AtomicAttr| {
            query(a.domain, what, how, place, flags) as isize
        };
        rows.extend([
            ("valid what", (ops.writevalid)(ep, 99, SUM, &raw mut count) as isize, unsupported),
            ("query nowhere", asked(U64, SUM, 0, null_mut()), INVALID),
            ("query what", asked(99, SUM, 0, &raw mut attr), unsupported),
            ("query flags", asked(U64, SUM, UNKNOWN, &raw mut attr), BAD_FLAGS),
        ]);
    }
    check(&rows);
    a.close();
}

#[test]
fn registrations() {
    let (a, _) = node();
    let mut rows: Vec<Row> = Vec::new();
    let (mut mr, buf) = (null_mut(), bytes());
    // SAFETY: an open domain with its own table; memory either is there and stays, or must not be looked at.
    unsafe {
        let ops = &*(*a.domain.cast::<DomainFid>()).mr;
        let access = flag::REMOTE_READ | flag::REMOTE_WRITE;
        let mut reg = |buf: *mut c_void, len, access, flags| {
            let buf = buf.cast_const();
            (ops.reg)(a.domain, buf, len, access, 0, 1, flags, &raw mut mr, null_mut()) as isize
        };
        rows.extend([
            ("reg null", reg(null_mut(), 8, access, 0), INVALID),
            ("reg all", reg(null_mut(), usize::MAX, access, 0), INVALID),
            ("reg around", reg(buf, usize::MAX, access, 0), INVALID),
            ("reg access", reg(buf, 8, UNKNOWN, 0), BAD_FLAGS),
            ("reg flags", reg(buf, 8, access, UNKNOWN), BAD_FLAGS),
        ]);
        let half = piece(8 as *mut c_void, isize::MAX as usize - 8);
        let (many, halves) = ([piece(buf, 8); 17], [half; 3]);
        let lists = [
            ("regv null", null(), 1),
            ("regv many", many.as_ptr(), many.len()),
            // Each could be, and all together could not: their sum is what a number has no room for.
            ("regv endless", halves.as_ptr(), halves.len()),
        ];
        for (what, list, count) in lists {
            let out = &raw mut mr;
            let said = (ops.regv)(a.domain, list, count, access, 0, 1, 0, out, null_mut());
            rows.push((what, said as isize, INVALID));
        }
        let nowhere = (ops.reg)(a.domain, buf, 8, access, 0, 1, 0, null_mut(), null_mut()) as isize;
        rows.push(("reg nowhere", nowhere, INVALID));
        let said = (ops.regattr)(a.domain, null(), 0, &raw mut mr) as isize;
        rows.push(("regattr null", said, INVALID));
        let mut attr: MrAttr = std::mem::zeroed();
        attr.iov_count = 1;
        let said = (ops.regattr)(a.domain, &raw const attr, 0, &raw mut mr) as isize;
        rows.push(("regattr list", said, INVALID));
    }
    check(&rows);
    assert!(mr.is_null(), "nothing was registered, and no key taken");
    a.close();
}

#[test]
fn queues_counters_and_events() {
    let (a, _) = node();
    let eq = a.event_queue(kind::WAIT_FD);
    let mut rows: Vec<Row> = Vec::new();
    // SAFETY: open objects with their own tables; what is named is there, or must not be looked at.
    unsafe {
        let cq = &*(*a.cq.cast::<PlainFid<CqOps>>()).ops;
        let control =
            |object: Obj, what| ((*(*object).ops).control)(object, what, null_mut()) as isize;
        rows.extend([
            ("cq_read nowhere", (cq.read)(a.cq, null_mut(), 1), INVALID),
            ("cq_read none", (cq.read)(a.cq, null_mut(), 0), AGAIN),
            ("cq_readfrom nowhere", (cq.readfrom)(a.cq, null_mut(), 1, null_mut()), INVALID),
            ("cq_sread nowhere", (cq.sread)(a.cq, null_mut(), 1, null(), -1), INVALID),
            ("cq_readerr nowhere", (cq.readerr)(a.cq, null_mut(), 0), INVALID),
            ("cq GETWAIT", control(a.cq, command::GETWAIT), INVALID),
            ("cq GETWAITOBJ", control(a.cq, command::GETWAITOBJ), INVALID),
            ("eq GETWAIT", control(eq, command::GETWAIT), INVALID),
            ("eq GETWAITOBJ", control(eq, command::GETWAITOBJ), INVALID),
            ("ep GETOPSFLAG", control(a.ep, command::GETOPSFLAG), INVALID),
        ]);
        let ops = &*(*eq.cast::<PlainFid<EqOps>>()).ops;
        let (mut number, some) = (0, [7_u8; 8]);
        let (number, some) = (&raw mut number, some.as_ptr().cast());
        let too_small = -(code::ETOOSMALL as isize);
        rows.extend([
            ("eq_write null", (ops.write)(eq, 1, null(), 8, 0), FAULT),
            ("eq_write long", (ops.write)(eq, 1, some, usize::MAX, 0), TOO_BIG),
            ("eq_write flags", (ops.write)(eq, 1, some, 8, UNKNOWN), BAD_FLAGS),
            ("eq_write nothing", (ops.write)(eq, 1, null(), 0, 0), 0),
            ("eq_read nothing", (ops.read)(eq, number, null_mut(), 0, 0), 0),
            ("eq_write", (ops.write)(eq, 2, some, 8, 0), 8),
            ("eq_read no number", (ops.read)(eq, null_mut(), null_mut(), 0, 0), INVALID),
            ("eq_read flags", (ops.read)(eq, number, null_mut(), 0, UNKNOWN), BAD_FLAGS),
            ("eq_read nowhere", (ops.read)(eq, number, null_mut(), 8, 0), too_small),
            ("eq_read short", (ops.read)(eq, number, bytes(), 7, 0), too_small),
            ("eq_read", (ops.read)(eq, number, bytes(), 8, 0), 8),
        ]);
    }
    check(&rows);
    assert_eq!(close(eq), 0);
    a.close();
}

#[test]
fn endpoints_and_their_options() {
    let loaded = Loaded::new();
    let info = loaded.getinfo(version(1, 17), Some(&one_sided)).unwrap();
    let mut a = loaded.disabled_node(info);
    let counter = a.counter(flag::RECV, kind::WAIT_NONE);
    let mut rows: Vec<Row> = Vec::new();
    // SAFETY: open objects with their own tables; what is named is there, or must not be looked at.
    unsafe {
        let bind = |other: Obj, flags: u64| ((*(*a.ep).ops).bind)(a.ep, other, flags) as isize;
        let ep = &*(*a.ep.cast::<EpFid>()).ops;
        let (level, name) = (kind::OPT_ENDPOINT, kind::OPT_MIN_MULTI_RECV);
        rows.extend([
            ("bind null", bind(null_mut(), 0), INVALID),
            ("bind cq flags", bind(a.cq, flag::SEND | UNKNOWN), BAD_FLAGS),
            ("bind cq for nothing", bind(a.cq, 0), BAD_FLAGS),
            ("bind counter flags", bind(counter, UNKNOWN), BAD_FLAGS),
            ("bind domain", bind(a.domain, 0), INVALID),
            ("domain bind", ((*(*a.domain).ops).bind)(a.domain, null_mut(), 0) as isize, INVALID),
            ("av bind", ((*(*a.av).ops).bind)(a.av, null_mut(), 0) as isize, INVALID),
            ("setopt null", (ep.setopt)(a.ep, level, name, null(), 8) as isize, INVALID),
            ("setopt short", (ep.setopt)(a.ep, level, name, bytes(), 4) as isize, INVALID),
            ("getopt", (ep.getopt)(a.ep, level, name, bytes(), null_mut()) as isize, INVALID),
        ]);
        let ops = &*(*a.domain.cast::<DomainFid>()).ops;
        let fabric = &*(*a.fabric.cast::<FabricFid>()).ops;
        let (domain, none, nowhere) = (a.domain, null_mut(), null_mut());
        let mut no_object: Obj = null_mut();
        let calls = [
            ("cq nowhere", (ops.cq_open)(domain, null_mut(), nowhere, none)),
            ("av nowhere", (ops.av_open)(domain, null_mut(), nowhere, none)),
            ("cntr nowhere", (ops.cntr_open)(domain, null_mut(), nowhere, none)),
            ("ep nowhere", (ops.endpoint)(domain, info, nowhere, none)),
            ("ep of nothing", (ops.endpoint)(domain, null_mut(), nowhere, none)),
            ("eq nowhere", (fabric.eq_open)(a.fabric, null_mut(), nowhere, none)),
            ("domain nowhere", (fabric.domain)(a.fabric, info, nowhere, none)),
            ("trywait null", (fabric.trywait)(a.fabric, null_mut(), 1)),
            ("trywait less", (fabric.trywait)(a.fabric, null_mut(), -1)),
            ("trywait a null", (fabric.trywait)(a.fabric, &raw mut no_object, 1)),
        ];
        rows.extend(calls.map(|(what, said)| (what, said as isize, INVALID)));
        let getinfo = loaded.provider().getinfo;
        let said = getinfo(version(1, 17), null(), null(), 0, null(), null_mut());
        rows.push(("getinfo nowhere", said as isize, INVALID));
    }
    check(&rows);
    a.enable();
    // SAFETY: as above.
    let said = unsafe { ((*(*a.ep.cast::<EpFid>()).cm).getname)(a.ep, bytes(), null_mut()) };
    assert_eq!(said, -libc::EINVAL);
    assert_eq!((close(a.ep), close(counter)), (0, 0));
    for object in [a.av, a.cq, a.domain, a.fabric] {
        assert_eq!(close(object), 0);
    }
}

#[test]
fn addresses() {
    let (a, to) = node();
    let (ops, name) = (a.av_ops(), a.name.as_ptr().cast::<c_void>());
    let (mut number, mut len, mut text) = (0, 64, [0_i8; 64]);
    let (number, len) = (&raw mut number, &raw mut len);
    let mut rows: Vec<Row> = Vec::new();
    // SAFETY: an open address vector with its own table; what is named is there, or must not be looked at.
    unsafe {
        let insert = |name, count, flags| {
            (ops.insert)(a.av, name, count, number, flags, null_mut()) as isize
        };
        rows.extend([
            ("insert null", insert(null(), 1, 0), INVALID),
            ("insert nothing", insert(null(), 0, 0), 0),
            ("insert endless", insert(name, usize::MAX, 0), INVALID),
            ("insert flags", insert(name, 1, UNKNOWN), BAD_FLAGS),
            ("insert codes", insert(name, 1, flag::SYNC_ERR), INVALID),
            ("remove null", (ops.remove)(a.av, null_mut(), 1, 0) as isize, INVALID),
            ("remove flags", (ops.remove)(a.av, number, 1, UNKNOWN) as isize, BAD_FLAGS),
            ("lookup", (ops.lookup)(a.av, to, bytes(), null_mut()) as isize, INVALID),
            ("lookup nobody", (ops.lookup)(a.av, 77, bytes(), len) as isize, INVALID),
        ]);
        assert!((ops.straddr)(a.av, null(), text.as_mut_ptr(), len).is_null());
        assert!((ops.straddr)(a.av, name, text.as_mut_ptr(), null_mut()).is_null());
        assert!((ops.straddr)(a.av, name, null_mut(), len).is_null());
    }
    check(&rows);
    a.close();
}

#[test]
fn the_length_that_is_offered_is_the_length_that_is_taken() {
    let loaded = Loaded::new();
    let info = loaded.getinfo(version(1, 17), Some(&one_sided)).unwrap();
    // SAFETY: whole, as `getinfo` made it.
    assert_eq!(unsafe { (*info.ep_attr).max_msg_size }, TOO_LONG - 1);
}
