//! PROTOCOL §17: operations that are matched at the target, over a wire that loses and doubles.

use packhorse_proto::portals::codes::{ack, entry, event, fail, interface, md};
use packhorse_proto::portals::{
    Count, DescriptorSpec, EntrySpec, MoveKind, MoveSpec, PortalsEvent, PortalsLimits, SearchKind,
};
use packhorse_proto::wire::{Action, Lane, Matched, MatchedKind, OutcomeRepr, Record, RequestHead};
use packhorse_proto::*;

use crate::net::*;

const NI: u8 = interface::MATCHING;
/// Beside the request, at its limit, and by grants.
const LENS: [usize; 7] = [0, 1, 8, 960, 961, 10_000, 300_000];

/// Two nodes with an interface, and at each a queue, a counter and a portal.
struct Pair {
    net: Net,
    queues: [u32; 2],
    counters: [u32; 2],
}

impl Pair {
    fn new() -> Self {
        let mut net = Net::joined();
        let (mut queues, mut counters) = ([0; 2], [0; 2]);
        for node in [A, B] {
            let portals = net.ep(node).portals();
            portals.open(NI, PortalsLimits::default(), node as u64, 5);
            queues[node] = portals.add_queue(NI, 1000).expect("room");
            counters[node] = portals.add_counter(NI).expect("room");
            portals.add_portal(NI, 0, Some(queues[node]), Some(3)).expect("free");
        }
        Self { net, queues, counters }
    }

    fn append(&mut self, list: List, len: usize, options: u32, bits: u64) -> BufId {
        let buf = self.net.lend(B, vec![0xEE; len]);
        let spec = EntrySpec {
            start: 0,
            buf,
            len: len as u64,
            is_whole: false,
            options,
            counter: Some(self.counters[B]),
            uid: Some(5),
            node: Some(A as u32),
            process: None,
            bits,
            ignore: 0,
            min_free: 0,
            user: bits,
        };
        self.net.ep(B).portals().append(NI, 3, list, spec).expect("room");
        buf
    }

    fn descriptor(&mut self, bytes: Vec<u8>, options: u32) -> (u32, BufId) {
        let len = bytes.len() as u64;
        let buf = self.net.lend(A, bytes);
        let (queue, counter) = (Some(self.queues[A]), Some(self.counters[A]));
        let spec = DescriptorSpec { buf, len, options, queue, counter, asks: None };
        (self.net.ep(A).portals().add_descriptor(NI, spec).expect("room"), buf)
    }

    fn spec(&mut self, kind: MoveKind, bits: u64, len: usize) -> MoveSpec {
        MoveSpec {
            ni: NI,
            kind,
            peer: self.net.peer(A, B),
            portal: 3,
            bits,
            offset: 0,
            len: len as u64,
            header: bits + 1,
            user: bits,
            ack: ack::NONE,
            put: None,
            get: None,
            op: 0,
            datatype: 0,
            operand: [0; 4],
            copy: None,
        }
    }

    fn begin(&mut self, spec: MoveSpec) {
        self.net.ep(A).portals().begin(spec, None).expect("room");
        self.net.run_portals(A);
    }

    fn told(&mut self, node: usize) -> Vec<PortalsEvent> {
        let mut told = Vec::new();
        let queue = self.queues[node];
        while let Some(taken) = self.net.ep(node).portals().take_event(queue).expect("a queue") {
            told.push(taken.event);
        }
        told
    }

    fn kinds(&mut self, node: usize) -> Vec<(u8, u8, u64)> {
        self.told(node).iter().map(|it| (it.kind, it.fail, it.moved_len)).collect()
    }
}

#[test]
fn puts_and_gets_of_any_length_are_told_once_at_both_ends() {
    for is_lossy in [false, true] {
        for len in LENS {
            let mut pair = Pair::new();
            if is_lossy {
                pair.net.drop_next(A, Kind::Request);
                pair.net.double_next(A, Kind::Request);
                pair.net.drop_next(B, Kind::Reply);
            }
            let open = entry::OP_PUT | entry::OP_GET | entry::EVENT_CT_COMM;
            let there = pair.append(List::Priority, len, open, 7);
            let (md, _) = pair.descriptor(pattern(1, len), md::EVENT_CT_ACK);
            let spec = pair.spec(MoveKind::Put, 7, len);
            pair.begin(MoveSpec { put: Some((md, 0)), ack: ack::FULL, ..spec });
            pair.net.settle();
            assert!(pair.net.bytes(B, there) == pattern(1, len), "{len}");
            let moved = len as u64;
            let ends = [(event::SEND, 0, moved), (event::ACK, 0, moved)];
            assert_eq!(pair.kinds(A), ends, "{len}");
            assert_eq!(pair.kinds(B), [(event::LINK, 0, 0), (event::PUT, 0, moved)], "{len}");
            let (md, back) = pair.descriptor(vec![0; len], 0);
            let spec = pair.spec(MoveKind::Get, 7, len);
            pair.begin(MoveSpec { get: Some((md, 0)), ..spec });
            pair.net.settle();
            assert!(pair.net.bytes(A, back) == pattern(1, len), "{len}");
            assert_eq!(pair.kinds(A), [(event::REPLY, 0, moved)], "{len}");
            assert_eq!(pair.kinds(B), [(event::GET, 0, moved)], "{len}");
            let came_as_data = pair.net.seen(B, Kind::Data) > 0;
            assert_eq!(came_as_data, len > 960, "short ones come with the answer");
            let counter = pair.counters[B];
            let count = pair.net.ep(B).portals().count(counter);
            assert_eq!(count, Ok(Count { success: 2, failure: 0 }));
        }
    }
}

#[test]
fn of_a_put_that_went_as_asked_the_target_says_only_that_it_is_over() {
    const ROOM: usize = 100;
    let local = entry::OP_PUT | entry::MANAGE_LOCAL;
    // Options of the entry and its list; where the put is to go, and how much; what is told of it: bytes, offset, list.
    for (list, options, (offset, len), told) in [
        (List::Priority, entry::OP_PUT, (20, 80), (80, 20, 0)),
        (List::Priority, entry::OP_PUT, (20, 81), (80, 20, 0)),
        (List::Priority, entry::OP_PUT, (200, 1), (0, 200, 0)),
        (List::Priority, local, (20, 8), (8, 0, 0)),
        (List::Overflow, entry::OP_PUT, (20, 8), (8, 20, 1)),
    ] {
        let mut pair = Pair::new();
        pair.append(list, ROOM, options, 7);
        let (md, _) = pair.descriptor(vec![1; len as usize], md::EVENT_CT_ACK | md::EVENT_CT_BYTES);
        let spec = pair.spec(MoveKind::Put, 7, len as usize);
        pair.begin(MoveSpec { put: Some((md, 0)), ack: ack::FULL, offset, ..spec });
        pair.net.settle();
        let acked = pair.told(A)[1];
        let of_it = (acked.moved_len, acked.offset, acked.list);
        assert_eq!((acked.kind, acked.fail, of_it), (event::ACK, 0, told), "{offset} {len}");
        let is_as_asked = told == (len, offset, 0);
        let answers = pair.net.sights(B, Kind::Reply).into_iter();
        let mut answers = answers.flat_map(|sight| sight.view().records());
        let says_more = answers.any(|(record, _)| matches!(record, Record::Outcome { .. }));
        assert_eq!(says_more, !is_as_asked, "{offset} {len}");
        let counter = pair.counters[A];
        let count = Count { success: told.0, failure: 0 };
        assert_eq!(pair.net.ep(A).portals().count(counter), Ok(count), "{offset} {len}");
    }
}

#[test]
fn what_is_longer_than_its_entry_is_cut_whichever_way_it_goes() {
    for (len, room) in [(100, 10), (5000, 10), (5000, 3000), (5000, 0), (900, 0)] {
        let mut pair = Pair::new();
        let there = pair.append(List::Priority, room, entry::OP_PUT | entry::OP_GET, 7);
        let (md, _) = pair.descriptor(pattern(1, len), 0);
        let spec = pair.spec(MoveKind::Put, 7, len);
        pair.begin(MoveSpec { put: Some((md, 0)), ack: ack::FULL, ..spec });
        pair.net.settle();
        assert!(pair.net.bytes(B, there) == &pattern(1, len)[..room]);
        assert_eq!(pair.kinds(A)[1], (event::ACK, 0, room as u64), "{len}");
        let (md, back) = pair.descriptor(vec![0xDD; len], 0);
        let spec = pair.spec(MoveKind::Get, 7, len);
        pair.begin(MoveSpec { get: Some((md, 0)), ..spec });
        pair.net.settle();
        assert_eq!(pair.kinds(A), [(event::REPLY, 0, room as u64)], "{len}");
        let back = pair.net.bytes(A, back);
        assert!(back[..room] == pattern(1, len)[..room]);
        assert!(back[room..].iter().all(|&byte| byte == 0xDD), "nothing beyond what was moved");
    }
}

#[test]
fn messages_are_matched_in_the_order_in_which_they_were_begun() {
    let mut pair = Pair::new();
    let options = entry::OP_PUT | entry::MANAGE_LOCAL;
    let there = pair.append(List::Overflow, 100_000, options, 7);
    for nth in 0..8 {
        pair.net.drop_next(A, Kind::Request);
        let len = if nth % 2 == 0 { 100 } else { 2000 };
        let (md, _) = pair.descriptor(vec![nth; len], 0);
        let spec = pair.spec(MoveKind::Put, 7, len);
        pair.begin(MoveSpec { put: Some((md, 0)), header: nth.into(), ..spec });
    }
    pair.net.settle();
    let laid: Vec<u8> = pair.net.bytes(B, there)[..8400].to_vec();
    let expected: Vec<u8> =
        (0..8).flat_map(|nth| vec![nth; if nth % 2 == 0 { 100 } else { 2000 }]).collect();
    assert!(laid == expected, "one behind another, in their order");
    let _ = pair.told(B);
    let search = EntrySpec {
        start: 0,
        buf: BufId(0),
        len: 0,
        is_whole: false,
        options: 0,
        counter: None,
        uid: None,
        node: None,
        process: None,
        bits: 0,
        ignore: u64::MAX,
        min_free: 0,
        user: 1,
    };
    pair.net.ep(B).portals().search(NI, 3, SearchKind::Delete, search).expect("a portal");
    let headers: Vec<u64> = pair.told(B).iter().map(|it| it.header).collect();
    assert_eq!(headers, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn refusals_are_told_at_the_initiator_and_nowhere_else() {
    let mut pair = Pair::new();
    let _ = pair.append(List::Priority, 100, entry::OP_GET, 7);
    let (md, _) = pair.descriptor(vec![1; 5000], 0);
    let _ = pair.told(B);
    for (bits, portal, len, answer) in [
        (7, 3, 8, fail::OP_VIOLATION),
        (7, 3, 5000, fail::OP_VIOLATION),
        (8, 3, 8, fail::DROPPED),
        (7, 4, 5000, fail::DROPPED),
    ] {
        let spec = MoveSpec { portal, ..pair.spec(MoveKind::Put, bits, len) };
        pair.begin(MoveSpec { put: Some((md, 0)), ack: ack::FULL, ..spec });
        pair.net.settle();
        let told: Vec<_> = pair.told(A).iter().map(|it| (it.kind, it.fail)).collect();
        assert_eq!(told, [(event::SEND, fail::OK), (event::ACK, answer)]);
    }
    assert_eq!(pair.told(B), []);
    assert_eq!(pair.net.ep(B).portals().registers(NI), Some([2, 0, 2]));
}

#[test]
fn atomic_operations_compute_at_the_target_and_bring_back_what_was_there() {
    let mut pair = Pair::new();
    let there = pair.append(List::Priority, 16, entry::OP_PUT | entry::OP_GET, 7);
    let (from, _) = pair.descriptor(5_u64.to_le_bytes().repeat(2), 0);
    let (to, back) = pair.descriptor(vec![0; 16], 0);
    // 8 is UINT64_T, 10 SWAP, 2 SUM, 11 CSWAP.
    let both = |pair: &mut Pair, kind, op, len| {
        let spec = MoveSpec { op, datatype: 8, ..pair.spec(kind, 7, len) };
        MoveSpec { put: Some((from, 0)), get: Some((to, 0)), ..spec }
    };
    let swap = both(&mut pair, MoveKind::Swap, 10, 16);
    pair.begin(swap);
    let add = both(&mut pair, MoveKind::FetchAtomic, 2, 8);
    pair.net.drop_next(A, Kind::Request);
    pair.begin(add);
    pair.net.settle();
    assert_eq!(pair.net.number_at(B, there, 0), 10);
    assert_eq!(pair.net.number_at(B, there, 8), 5);
    assert_eq!(pair.net.number_at(A, back, 0), 5);
    for (operand, expected) in [(9, 10), (10, 5)] {
        let spec = both(&mut pair, MoveKind::Swap, 11, 8);
        pair.begin(MoveSpec { operand: [operand, 0, 0, 0], ..spec });
        pair.net.settle();
        assert_eq!(pair.net.number_at(A, back, 0), 10);
        assert_eq!(pair.net.number_at(B, there, 0), expected, "{operand}");
    }
}

#[test]
fn a_target_is_told_what_the_initiator_is_called_by_now() {
    let mut pair = Pair::new();
    pair.append(List::Priority, 8, entry::OP_PUT, 7);
    pair.told(B);
    let (md, _) = pair.descriptor(vec![1; 8], 0);
    for process in [0, 6, 4] {
        let own = A as u64 | process << 32;
        if process > 0 {
            pair.net.ep(A).portals().set_own(NI, own);
        }
        let spec = pair.spec(MoveKind::Put, 7, 8);
        pair.begin(MoveSpec { put: Some((md, 0)), ..spec });
        pair.net.settle();
        let told: Vec<_> = pair.told(B).iter().map(|it| (it.kind, it.initiator)).collect();
        assert_eq!(told, [(event::PUT, own)]);
    }
}

#[test]
fn a_trigger_fires_at_the_far_end_without_anybody_calling() {
    let mut pair = Pair::new();
    // At B: what arrives is counted, and the count sends an answer to A.
    let _ = pair.append(List::Priority, 8, entry::OP_PUT | entry::EVENT_CT_COMM, 7);
    let answer = pair.net.lend(B, vec![9; 8]);
    let (options, queue, counter) = (0, None, None);
    let spec = DescriptorSpec { buf: answer, len: 8, options, queue, counter, asks: None };
    let md = pair.net.ep(B).portals().add_descriptor(NI, spec).expect("room");
    let peer = pair.net.peer(B, A);
    let spec = MoveSpec { peer, put: Some((md, 0)), ..pair.spec(MoveKind::Put, 1, 8) };
    let counter = pair.counters[B];
    pair.net.ep(B).portals().begin(spec, Some((counter, 2))).expect("room");
    let landing = pair.net.lend(A, vec![0; 8]);
    let at_a = EntrySpec {
        start: 0,
        buf: landing,
        len: 8,
        is_whole: false,
        options: entry::OP_PUT,
        counter: None,
        uid: None,
        node: None,
        process: None,
        bits: 1,
        ignore: 0,
        min_free: 0,
        user: 1,
    };
    pair.net.ep(A).portals().append(NI, 3, List::Priority, at_a).expect("room");
    let (md, _) = pair.descriptor(vec![1; 8], 0);
    for nth in 1..=2 {
        let spec = pair.spec(MoveKind::Put, 7, 8);
        pair.begin(MoveSpec { put: Some((md, 0)), ..spec });
        pair.net.settle();
        let has_come = pair.net.bytes(A, landing) == [9; 8];
        assert_eq!(has_come, nth == 2, "{nth}");
    }
}

#[test]
fn when_the_peer_is_gone_everything_ends() {
    let mut pair = Pair::new();
    let _ = pair.append(List::Priority, 300_000, entry::OP_PUT | entry::OP_GET, 7);
    let (md, _) = pair.descriptor(vec![1; 300_000], 0);
    let (to, _) = pair.descriptor(vec![0; 300_000], 0);
    pair.net.drop_each(A, Kind::Data);
    pair.net.drop_each(B, Kind::Data);
    let spec = pair.spec(MoveKind::Put, 7, 300_000);
    pair.begin(MoveSpec { put: Some((md, 0)), ack: ack::FULL, ..spec });
    let spec = pair.spec(MoveKind::Get, 7, 300_000);
    pair.begin(MoveSpec { get: Some((to, 0)), ..spec });
    pair.net.run_for(2 * MS);
    pair.net.ep(A).portals().release_descriptor(md).expect("a descriptor");
    pair.net.kill(B);
    pair.net.run_for(200 * SECOND);
    let told: Vec<_> = pair.told(A).iter().map(|it| (it.kind, it.fail)).collect();
    let gone = fail::UNDELIVERABLE;
    assert_eq!(told, [(event::SEND, gone), (event::ACK, gone), (event::REPLY, gone)]);
    assert!(pair.net.ep(A).portals().take_freed().is_some(), "released, and not used any more");
}

#[test]
fn an_interface_that_closes_ends_what_is_under_way() {
    let mut pair = Pair::new();
    let _ = pair.append(List::Priority, 300_000, entry::OP_PUT | entry::OP_GET, 7);
    let (md, _) = pair.descriptor(vec![1; 300_000], 0);
    let (to, _) = pair.descriptor(vec![0; 300_000], 0);
    pair.net.drop_each(A, Kind::Data);
    pair.net.drop_each(B, Kind::Data);
    let spec = pair.spec(MoveKind::Put, 7, 300_000);
    pair.begin(MoveSpec { put: Some((md, 0)), ack: ack::FULL, ..spec });
    let spec = pair.spec(MoveKind::Get, 7, 300_000);
    pair.begin(MoveSpec { get: Some((to, 0)), ..spec });
    pair.net.run_for(2 * MS);
    pair.net.close_portals(B, NI);
    pair.net.heal();
    pair.net.settle();
    let told: Vec<_> = pair.told(A).iter().map(|it| (it.kind, it.fail)).collect();
    let dropped = fail::DROPPED;
    assert_eq!(told, [(event::SEND, fail::OK), (event::ACK, dropped), (event::REPLY, dropped)]);
    assert!(pair.net.ep(B).portals().take_freed().is_some());
}

/// A program may end as soon as it has what it asked for: whoever gave it hears of it all the same.
#[test]
fn a_get_whose_initiator_leaves_at_once_is_told_at_the_target() {
    let mut pair = Pair::new();
    let _ = pair.append(List::Priority, 10_000, entry::OP_GET | entry::EVENT_CT_COMM, 7);
    let (md, _) = pair.descriptor(vec![0; 10_000], 0);
    pair.net.drop_each(A, Kind::End);
    let spec = pair.spec(MoveKind::Get, 7, 10_000);
    pair.begin(MoveSpec { get: Some((md, 0)), ..spec });
    let queue = pair.queues[A];
    pair.net.run_until(|net| net.ep(A).portals().take_event(queue).expect("a queue").is_some());
    let now = pair.net.now;
    pair.net.ep(A).close(now);
    pair.net.run_for(100 * MS);
    pair.net.heal();
    pair.net.settle();
    assert_eq!(pair.kinds(B), [(event::LINK, 0, 0), (event::GET, 0, 10_000)]);
    let counter = pair.counters[B];
    let count = pair.net.ep(B).portals().count(counter);
    assert_eq!(count, Ok(Count { success: 1, failure: 0 }));
}

/// A peer that says what it likes in its requests: lengths that are not, places beyond the end, interfaces, portals and operations that
/// there are none of.
#[test]
fn lies_in_requests_move_nothing_where_it_does_not_belong() {
    let mut pair = Pair::new();
    let there = pair.append(List::Priority, 64, entry::OP_PUT | entry::OP_GET, 7);
    let behind = pair.append(List::Priority, 64, entry::OP_PUT | entry::OP_GET, 8);
    let (md, _) = pair.descriptor(pattern(1, 8), 0);
    let spec = pair.spec(MoveKind::Put, 7, 8);
    pair.begin(MoveSpec { put: Some((md, 0)), ack: ack::FULL, ..spec });
    pair.net.settle();
    let usual = Matched {
        kind: MatchedKind::Put,
        ni: NI,
        ack: ack::FULL,
        op: 0,
        datatype: 0,
        len: 8,
        portal: 3,
        uid: 5,
        total: 8,
        header: 0,
        initiator: A as u64,
        operand: None,
    };
    let nothing = Matched { len: 0, ..usual };
    let atomic = Matched { kind: MatchedKind::Atomic, ..usual };
    let fetch = Matched { kind: MatchedKind::Fetch, ..usual };
    let lies = [
        (7, 60, usual),           // cut to four bytes
        (7, u64::MAX - 3, usual), // past the end: nothing
        (7, 0, Matched { portal: u32::MAX, ..usual }),
        (7, 0, Matched { ni: 3, ..usual }),
        (7, 0, Matched { uid: 6, ..usual }),
        (7, 0, Matched { initiator: u64::MAX, ..usual }),
        (7, 0, Matched { op: 200, ..atomic }),
        (7, 0, Matched { datatype: 99, ..atomic }),
        (7, 0, Matched { op: 12, ..fetch }), // compares, and has nothing to compare with
        (7, 0, Matched { op: 11, datatype: 8, ..fetch }),
        (7, 0, Matched { kind: MatchedKind::Get, total: u64::MAX, ..nothing }),
        (7, u64::MAX, Matched { kind: MatchedKind::Get, total: u64::MAX, ..nothing }),
        (7, 0, Matched { kind: MatchedKind::Ask, total: u64::MAX, ..nothing }),
    ];
    for (number, (key, target, matched)) in (1..).zip(lies) {
        let head = RequestHead { number, key, target, action: Action::Matched(matched) };
        let body: &[u8] = if matched.len == 0 { &[] } else { &[9; 8] };
        pair.net.forge(A, B, |writer| writer.request(&head), body);
        pair.net.pump();
    }
    // What was asked for is granted as far as the entry goes; bytes for beyond that have no place.
    for offset in [64, 1 << 40, u64::MAX - 7] {
        pair.net.forge(A, B, |writer| writer.data(Lane::Put, 13, 8, offset), &[9; 8]);
        pair.net.pump();
    }
    let found = pair.net.bytes(B, there);
    assert!(found[..8] == pattern(1, 8) && found[60..] == [9; 4], "{found:?}");
    assert!(found[8..60].iter().all(|byte| *byte == 0xEE), "{found:?}");
    assert!(pair.net.bytes(B, behind).iter().all(|byte| *byte == 0xEE));
    let told = pair.told(B);
    assert!(told.iter().all(|event| event.moved_len <= 64), "{told:?}");
}

/// A target that answers what it likes: more than was asked for, or to what nobody asked.
#[test]
fn lies_in_answers_move_nothing_where_it_does_not_belong() {
    let mut pair = Pair::new();
    let (md, room) = pair.descriptor(vec![0xEE; 64], 0);
    let spec = pair.spec(MoveKind::Get, 7, 8);
    pair.net.drop_next(A, Kind::Request);
    pair.begin(MoveSpec { get: Some((md, 8)), ..spec });
    pair.net.pump();
    let usual = OutcomeRepr { fail: fail::OK, list: 0, moved_len: 8, offset: 0, follows: false };
    let lies = [
        (0, OutcomeRepr { moved_len: 64, ..usual }, 64), // more than was asked for
        (0, OutcomeRepr { moved_len: 4, ..usual }, 8),   // more than it says
        (0, OutcomeRepr { moved_len: u64::MAX, follows: true, ..usual }, 0),
        (7, usual, 8), // to what nobody asked
        (u32::MAX, usual, 8),
    ];
    for (number, answer, len) in lies {
        pair.net.forge(B, A, |writer| writer.outcome(number, &answer, len), &vec![9; len.into()]);
    }
    let found = pair.net.bytes(A, room);
    assert!(found.iter().all(|byte| *byte == 0xEE), "{found:?}");
    pair.append(List::Priority, 64, entry::OP_GET, 7);
    pair.net.settle();
    assert_eq!(pair.kinds(A).last(), Some(&(event::REPLY, fail::OK, 8)), "the true answer counts");
}

/// A put to B is on its way while the association ends like this, and sets off another to B: how both ended at A.
fn ends_of_one_and_what_it_sets_off(end: fn(&mut Endpoint, Instant, PeerId)) -> Vec<(u64, u8)> {
    let mut pair = Pair::new();
    pair.net.settle();
    let (md, _) = pair.descriptor(pattern(1, 8), md::EVENT_CT_SEND);
    let spec = pair.spec(MoveKind::Put, 7, 8);
    let put = MoveSpec { put: Some((md, 0)), ack: ack::NONE, ..spec };
    let trigger = Some((pair.counters[A], 1));
    let later = MoveSpec { user: 99, ..put };
    pair.net.ep(A).portals().begin(later, trigger).expect("room");
    pair.begin(put);
    let (now, peer) = (pair.net.now, pair.net.peer(A, B));
    end(pair.net.ep(A), now, peer);
    pair.net.settle();
    pair.told(A).iter().map(|event| (event.user, event.fail)).collect()
}

/// What a lost operation sets off, to the same peer, is an operation like others: it is told how it ended.
#[test]
fn what_the_end_of_an_association_sets_off_comes_to_an_end() {
    let ends = ends_of_one_and_what_it_sets_off(Endpoint::on_peer_died);
    assert_eq!(ends, [(7, fail::UNDELIVERABLE), (99, fail::OK)]);
    // There is no next association with one that was forgotten.
    let ends = ends_of_one_and_what_it_sets_off(Endpoint::forget_peer);
    assert_eq!(ends, [(7, fail::UNDELIVERABLE), (99, fail::UNDELIVERABLE)]);
}

/// An interface closes with an operation under way, whose end sets off another from there: that one never begins.
#[test]
fn what_the_end_of_an_interface_sets_off_there_is_dropped_with_it() {
    let mut pair = Pair::new();
    pair.net.settle();
    let (md, buf) = pair.descriptor(pattern(1, 8), md::EVENT_CT_SEND);
    let spec = pair.spec(MoveKind::Put, 7, 8);
    let put = MoveSpec { put: Some((md, 0)), ack: ack::NONE, ..spec };
    let trigger = Some((pair.counters[A], 1));
    pair.net.ep(A).portals().begin(put, trigger).expect("room");
    pair.begin(put);
    let now = pair.net.now;
    pair.net.ep(A).close_portals(now, NI);
    let freed: Vec<BufId> = core::iter::from_fn(|| pair.net.ep(A).portals().take_freed()).collect();
    assert_eq!(freed, [buf]);
    pair.net.settle();
}
