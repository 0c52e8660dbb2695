//! A put of Portals between two endpoints: 8 bytes into an entry among few or many, acknowledged.
//!
//! The entry that takes it stands behind all others of its list, which are of two shapes, as a program's are that names some sources and not
//! others. It stays. On the overflow list each message leaves a header, which a search takes out again.

use packhorse_proto::portals::codes::{ack, entry, interface, md};
use packhorse_proto::portals::{
    DescriptorSpec, EntrySpec, MoveKind, MoveSpec, PortalsLimits, SearchKind,
};
use packhorse_proto::{BufId, Limits, List, Settings};
use packhorse_tests::node::Pair;

use crate::scenarios::cross;
use crate::sides::{at_receiver, at_sender};

/// Lists, as they are called on the command line, and what a reader calls them.
pub(crate) const LISTS: [(&str, &str); 2] =
    [("priority", "priority list"), ("overflow", "overflow list, and its header found")];

const NI: u8 = interface::MATCHING;
const LEN: u64 = 8;
/// Bits of the entry that takes the message; those of others are lower.
const BITS: u64 = 1 << 40;

fn spec(buf: BufId, bits: u64, ignore: u64) -> EntrySpec {
    EntrySpec {
        start: 0,
        buf,
        len: LEN,
        is_whole: false,
        options: entry::OP_PUT | entry::EVENT_LINK_DISABLE,
        counter: None,
        uid: None,
        node: None,
        process: None,
        bits,
        ignore,
        min_free: 0,
        user: bits,
    }
}

/// So many puts, among so many entries.
pub(crate) fn run(list: &str, entry_count: u64, count: usize) {
    let list = if list == "overflow" { List::Overflow } else { List::Priority };
    let mut pair = Pair::open(&Limits::default(), &Settings::default());
    let limits = PortalsLimits {
        entry_count_max: 1 << 20,
        list_count_max: 1 << 20,
        ..PortalsLimits::default()
    };
    let bufs = [0, 1].map(|side: usize| pair.nodes[side].memory.add(LEN as usize, side as u8));
    let queues = [0, 1].map(|side: usize| {
        let portals = pair.nodes[side].endpoint.portals();
        portals.open(NI, limits, side as u64, 5);
        let queue = portals.add_queue(NI, 64).expect("room");
        portals.add_portal(NI, 0, Some(queue), None).expect("room");
        queue
    });
    let there = pair.nodes[1].endpoint.portals();
    for number in 1..entry_count {
        let ignore = if number.is_multiple_of(2) { 0 } else { 0xff << 48 };
        there.append(NI, 0, list, spec(bufs[1], number, ignore)).expect("room");
    }
    there.append(NI, 0, list, spec(bufs[1], BITS, 0)).expect("room");
    let (queue, counter) = (Some(queues[0]), None);
    let options = md::EVENT_SEND_DISABLE;
    let described = DescriptorSpec { buf: bufs[0], len: LEN, options, queue, counter, asks: None };
    let md = pair.nodes[0].endpoint.portals().add_descriptor(NI, described).expect("room");
    let put = MoveSpec {
        ni: NI,
        kind: MoveKind::Put,
        peer: pair.peers[0],
        portal: 0,
        bits: BITS,
        offset: 0,
        len: LEN,
        header: 1,
        user: 2,
        ack: ack::FULL,
        put: Some((md, 0)),
        get: None,
        op: 0,
        datatype: 0,
        operand: [0; 4],
        copy: None,
    };
    // First contact is not what is counted, but must be over.
    for number in 0..count + 256 {
        if number == 256 {
            pair.settle(1_000_000);
        }
        let now = pair.now;
        at_sender::begin_move(&mut pair.nodes[0], now, put);
        cross(&mut pair, 0, false);
        let told = at_receiver::take_told(&mut pair.nodes[1], queues[1]);
        assert!(told.is_some(), "put {number} did not arrive");
        if list == List::Overflow {
            let wanted = spec(bufs[1], BITS, 0);
            at_receiver::find_header(&mut pair.nodes[1], NI, SearchKind::Delete, wanted);
            let told = at_receiver::take_told(&mut pair.nodes[1], queues[1]);
            assert!(told.is_some(), "put {number} left no header");
        }
        let told = at_sender::take_told(&mut pair.nodes[0], queues[0]);
        assert!(told.is_some(), "put {number} was not acknowledged");
    }
}
