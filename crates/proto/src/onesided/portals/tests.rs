//! The rules one by one; against a plain model in `model`.

mod model;

use std::vec;
use std::vec::Vec;

use super::codes::{ack, entry, event, fail, md, portal};
use super::*;
use crate::base::api::List;
use crate::base::types::PeerId;

/// A matching, physical interface with one portal and its queue.
pub(super) struct Bench {
    pub(super) portals: Portals,
    pub(super) ni: u8,
    pub(super) queue: u32,
    pub(super) portal: u32,
}

const NI: u8 = interface::MATCHING;

pub(super) fn spec(options: u32, len: u64, user: u64) -> EntrySpec {
    EntrySpec {
        start: 0x1000 * user,
        buf: BufId(user),
        len,
        is_whole: false,
        options,
        counter: None,
        uid: None,
        node: None,
        process: None,
        bits: 0,
        ignore: 0,
        min_free: 0,
        user,
    }
}

pub(super) fn put(bits: u64, len: u64) -> Incoming {
    Incoming {
        ni: NI,
        portal: 0,
        asked: Asked::Put,
        bits,
        initiator: 7 | 9 << 32,
        uid: 5,
        len,
        offset: 0,
        header: 77,
        op: 0,
        datatype: 0,
        is_trusted: true,
    }
}

impl Bench {
    pub(super) fn new(options: u32, limits: PortalsLimits, queue_len: u64) -> Self {
        let mut portals = Portals::new(1);
        portals.open(NI, limits, 1, 5);
        let queue = portals.add_queue(NI, queue_len).expect("room");
        let portal = portals.add_portal(NI, options, Some(queue), None).expect("room");
        Self { portals, ni: NI, queue, portal }
    }

    fn usual() -> Self {
        Self::new(0, PortalsLimits::default(), 1000)
    }

    pub(super) fn append(&mut self, list: List, spec: EntrySpec) -> Result<u32, PortalsError> {
        self.portals.append(self.ni, self.portal, list, spec)
    }

    pub(super) fn arrive(&mut self, incoming: Incoming) -> Result<Taken, u8> {
        let taken = self.portals.arrive(&incoming)?;
        self.portals.delivered(taken.delivery, fail::OK);
        Ok(taken)
    }

    pub(super) fn events(&mut self) -> Vec<PortalsEvent> {
        let mut events = Vec::new();
        while let Some(taken) = self.portals.take_event(self.queue).expect("a queue") {
            events.push(taken.event);
        }
        events
    }

    fn kinds(&mut self) -> Vec<(u8, u64)> {
        self.events().into_iter().map(|event| (event.kind, event.user)).collect()
    }
}

const PUT: u32 = entry::OP_PUT;

#[test]
fn a_message_before_its_receive_is_told_in_the_order_that_programs_rely_on() {
    let mut bench = Bench::usual();
    let _ = bench.append(List::Overflow, spec(PUT | entry::USE_ONCE, 64, 1));
    let taken = bench.arrive(put(0, 10)).expect("taken");
    assert_eq!((taken.list, taken.len), (1, 10));
    assert_eq!(bench.kinds(), [(event::LINK, 1), (event::PUT, 1), (event::AUTO_UNLINK, 1)]);
    let handle = bench.append(List::Priority, spec(PUT | entry::USE_ONCE, 64, 2)).expect("room");
    let told = bench.events();
    let kinds: Vec<_> = told.iter().map(|event| (event.kind, event.user)).collect();
    let overflow = event::PUT + event::OVERFLOW;
    assert_eq!(kinds, [(overflow, 2), (event::AUTO_FREE, 1), (event::AUTO_UNLINK, 2)]);
    assert_eq!((told[0].start, told[0].header, told[0].moved_len), (0x1000, 77, 10));
    assert_eq!(bench.portals.unlink(handle), Err(PortalsError::Invalid), "it never was linked");
}

#[test]
fn what_was_found_before_its_bytes_were_there_is_told_when_they_are() {
    let mut bench = Bench::usual();
    let _ = bench.append(List::Overflow, spec(PUT | entry::USE_ONCE, 64, 1));
    let taken = bench.portals.arrive(&put(0, 10)).expect("taken");
    let _ = bench.append(List::Priority, spec(PUT | entry::USE_ONCE, 64, 2));
    assert_eq!(bench.kinds(), [(event::LINK, 1)]);
    bench.portals.delivered(taken.delivery, fail::OK);
    let overflow = event::PUT + event::OVERFLOW;
    let expected = [
        (event::PUT, 1),
        (event::AUTO_UNLINK, 1),
        (overflow, 2),
        (event::AUTO_FREE, 1),
        (event::AUTO_UNLINK, 2),
    ];
    assert_eq!(bench.kinds(), expected);
}

#[test]
fn entries_in_use_are_not_unlinked_and_used_up_ones_are_gone() {
    let mut bench = Bench::usual();
    let first = bench.append(List::Priority, spec(PUT | entry::USE_ONCE, 64, 1)).expect("room");
    let second = bench.append(List::Overflow, spec(PUT, 64, 2)).expect("room");
    let taken = bench.portals.arrive(&put(0, 1)).expect("taken");
    assert_eq!(bench.portals.unlink(first), Err(PortalsError::InUse));
    bench.portals.delivered(taken.delivery, fail::OK);
    assert_eq!(bench.portals.unlink(first), Err(PortalsError::Invalid));
    bench.arrive(put(0, 1)).expect("into the overflow");
    assert_eq!(bench.portals.unlink(second), Err(PortalsError::InUse), "a header refers to it");
    bench.append(List::Priority, spec(PUT | entry::USE_ONCE, 64, 3)).expect("room");
    assert_eq!(bench.portals.unlink(second), Ok(()));
    assert_eq!(bench.portals.free_portal(NI, 0), Ok(()));
}

#[test]
fn nid_and_pid_are_wild_each_for_itself() {
    let from = |node, process| {
        let mut bench = Bench::usual();
        let this = EntrySpec { node, process, ..spec(PUT, 64, 1) };
        let _ = bench.append(List::Priority, this);
        // More entries than are looked at one by one.
        for user in 2..20 {
            let other = EntrySpec { node: Some(user as u32 + 100), ..spec(PUT, 64, user) };
            let _ = bench.append(List::Priority, other);
        }
        bench.arrive(put(0, 1)).is_ok()
    };
    assert!(
        from(None, None) && from(Some(7), None) && from(None, Some(9)) && from(Some(7), Some(9))
    );
    assert!(!from(Some(8), None) && !from(None, Some(8)) && !from(Some(7), Some(8)));
}

#[test]
fn permissions_end_the_search() {
    let mut bench = Bench::usual();
    let _ = bench.append(List::Priority, EntrySpec { uid: Some(6), ..spec(PUT, 64, 1) });
    let _ = bench.append(List::Priority, spec(PUT, 64, 2));
    assert_eq!(bench.arrive(put(0, 1)), Err(fail::PERM_VIOLATION));
    let get = Incoming { asked: Asked::Get, uid: 6, ..put(0, 1) };
    assert_eq!(bench.arrive(get), Err(fail::OP_VIOLATION));
    assert_eq!(bench.portals.registers(NI), Some([0, 1, 1]));
    let whole = EntrySpec { is_whole: true, ..spec(PUT, u64::MAX, 3) };
    let mut bench = Bench::usual();
    let _ = bench.append(List::Priority, whole);
    let stranger = Incoming { is_trusted: false, ..put(0, 1) };
    assert_eq!(bench.arrive(stranger), Err(fail::PERM_VIOLATION), "never open to strangers");
}

#[test]
fn flow_control_disables_and_tells_once() {
    let mut bench = Bench::new(portal::FLOWCTRL, PortalsLimits::default(), 100);
    assert_eq!(bench.arrive(put(0, 1)), Err(fail::PT_DISABLED));
    let _ = bench.append(List::Priority, spec(PUT, 64, 1));
    assert_eq!(bench.arrive(put(0, 1)), Err(fail::PT_DISABLED), "none slips in between");
    assert_eq!(bench.kinds(), [(event::PT_DISABLED, 0), (event::LINK, 1)]);
    bench.portals.enable_portal(NI, 0, true).expect("a portal");
    assert!(bench.arrive(put(0, 1)).is_ok());
}

#[test]
fn a_full_queue_stops_its_portals_and_loses_nothing() {
    let mut bench = Bench::new(portal::FLOWCTRL, PortalsLimits::default(), 4);
    let _ = bench.append(List::Priority, spec(PUT, 64, 1));
    let taken: Vec<_> = (0..6).map(|_| bench.arrive(put(0, 1)).err()).collect();
    let refused = Some(fail::PT_DISABLED);
    assert_eq!(taken, [None, None, None, refused, refused, refused]);
    let kinds: Vec<u8> = bench.kinds().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [event::LINK, event::PUT, event::PUT, event::PUT, event::PT_DISABLED]);
}

#[test]
fn a_full_queue_without_flow_control_loses_its_oldest() {
    let mut bench = Bench::new(0, PortalsLimits::default(), 2);
    let _ = bench.append(List::Priority, spec(PUT, 64, 1));
    for header in 0..5 {
        bench.arrive(Incoming { header, ..put(0, 1) }).expect("taken");
    }
    let taken = bench.portals.take_event(bench.queue).expect("a queue").expect("an event");
    assert_eq!((taken.event.header, taken.has_lost), (3, true));
    let taken = bench.portals.take_event(bench.queue).expect("a queue").expect("an event");
    assert_eq!((taken.event.header, taken.has_lost), (4, false));
}

#[test]
fn headers_are_limited() {
    let limits = PortalsLimits { header_count_max: 1, ..PortalsLimits::default() };
    let mut bench = Bench::new(0, limits, 100);
    let _ = bench.append(List::Overflow, spec(PUT, 64, 1));
    assert!(bench.arrive(put(0, 1)).is_ok());
    assert_eq!(bench.arrive(put(0, 1)), Err(fail::DROPPED));
    let sink = spec(PUT | entry::UNEXPECTED_HDR_DISABLE, 64, 2);
    let mut bench = Bench::new(0, limits, 100);
    let _ = bench.append(List::Overflow, sink);
    assert!((0..5).all(|_| bench.arrive(put(0, 1)).is_ok()));
}

#[test]
fn triggers_go_in_the_order_in_which_they_were_posted_and_chain_without_a_stack() {
    let mut portals = Portals::new(1);
    portals.open(
        NI,
        PortalsLimits { trigger_count_max: 200_000, ..PortalsLimits::default() },
        1,
        5,
    );
    let [first, second] = [(); 2].map(|()| portals.add_counter(NI).expect("room"));
    let one = Count { success: 1, failure: 0 };
    // A chain on one counter: each step sets off the next.
    for threshold in 1..100_000 {
        portals.add_count_at(first, one, first, threshold).expect("room");
    }
    portals.set_count_at(second, Count { success: 3, failure: 2 }, first, 50_000).expect("room");
    portals.add_count(first, one).expect("a counter");
    assert!(portals.next_due().is_none());
    assert_eq!(portals.count(first), Ok(Count { success: 100_000, failure: 0 }));
    assert_eq!(portals.count(second), Ok(Count { success: 3, failure: 2 }));
    // Thresholds in any order, released by one step: as they were posted. The last one set wins.
    for (threshold, success) in [(100_005, 1), (100_002, 2), (100_004, 4)] {
        let count = Count { success, failure: 0 };
        portals.set_count_at(second, count, first, threshold).expect("room");
    }
    portals.add_count(first, Count { success: 0, failure: 9 }).expect("a counter");
    assert!(portals.next_due().is_none());
    assert_eq!(portals.count(second), Ok(Count { success: 4, failure: 0 }));
}

/// A put of 8 bytes to somebody.
fn sending(md: u32, ack: u8) -> MoveSpec {
    MoveSpec {
        ni: NI,
        kind: MoveKind::Put,
        peer: PeerId(0),
        portal: 0,
        bits: 0,
        offset: 0,
        len: 8,
        header: 0,
        user: 4,
        ack,
        put: Some((md, 0)),
        get: None,
        op: 0,
        datatype: 0,
        operand: [0; 4],
        copy: None,
    }
}

/// Each that is refused is wrong in one respect only.
#[test]
fn atomic_operations_are_for_their_elements_and_lengths() {
    use super::arithmetic::{ATOMIC_LEN_MAX, makes_sense};
    let [min, sum, and, swap, swap_if_equal, swap_bits] = [0, 2, 4, 10, 11, 17];
    let [real, complex, integer] = [6, 10, 8];
    let operates = |op, datatype, len| makes_sense(MoveKind::Atomic, op, datatype, len);
    assert!(operates(min, real, 16) && !operates(min, complex, 16));
    assert!(operates(sum, complex, 16) && !operates(sum, 14, 16), "no such elements");
    assert!(operates(and, integer, 16) && !operates(and, real, 16));
    assert!(operates(sum, integer, ATOMIC_LEN_MAX) && !operates(sum, integer, ATOMIC_LEN_MAX + 8));
    assert!(!operates(swap, integer, 8), "it swaps");
    let swaps = |op, datatype, len| makes_sense(MoveKind::Swap, op, datatype, len);
    assert!(swaps(swap, complex, 16) && !swaps(sum, complex, 16));
    assert!(swaps(swap_if_equal, integer, 8) && !swaps(swap_if_equal, integer, 16));
    assert!(swaps(swap_bits, integer, 8) && !swaps(swap_bits, real, 4));
    assert!(!swaps(swap_bits + 1, integer, 8), "no such operation");
}

#[test]
fn what_goes_by_grants_is_work_left_for_whoever_drives() {
    let mut bench = Bench::usual();
    let len = 2 * ORDERED_LEN_MAX;
    let spec =
        DescriptorSpec { buf: BufId(9), len, options: 0, queue: None, counter: None, asks: None };
    let md = bench.portals.add_descriptor(NI, spec).expect("room");
    bench.portals.take_work_left();
    for (len, is_left) in [(8, false), (ORDERED_LEN_MAX, false), (ORDERED_LEN_MAX + 1, true)] {
        bench.portals.begin(MoveSpec { len, ..sending(md, ack::NONE) }, None).expect("room");
        assert_eq!(bench.portals.take_work_left(), is_left, "{len} bytes");
    }
}

#[test]
fn a_released_descriptor_lives_as_long_as_it_is_used() {
    let mut bench = Bench::usual();
    let counter = bench.portals.add_counter(NI).expect("room");
    let options = md::EVENT_CT_SEND | md::EVENT_CT_ACK;
    let (queue, counter_of) = (Some(bench.queue), Some(counter));
    let spec =
        DescriptorSpec { buf: BufId(9), len: 8, options, queue, counter: counter_of, asks: None };
    let md = bench.portals.add_descriptor(NI, spec).expect("room");
    bench.portals.begin(sending(md, ack::FULL), Some((counter, 1))).expect("room");
    assert!(bench.portals.next_due().is_none());
    bench.portals.release_descriptor(md).expect("a descriptor");
    assert_eq!(bench.portals.begin(sending(md, ack::FULL), None), Err(PortalsError::Invalid));
    assert_eq!(bench.portals.take_freed(), None, "a trigger uses it");
    bench.portals.add_count(counter, Count { success: 1, failure: 0 }).expect("a counter");
    assert_eq!(bench.portals.busy_count(NI), 0, "it has not begun");
    let launch = bench.portals.next_due().expect("fired");
    bench.portals.launch(launch);
    assert_eq!(bench.portals.busy_count(NI), 1);
    let outcome = Outcome { fail: fail::DROPPED, len: 0, offset: 0, list: 0 };
    bench.portals.set_outcome(launch, outcome);
    bench.portals.completed(launch, None);
    let told: Vec<_> = bench.events().iter().map(|event| (event.kind, event.fail)).collect();
    assert_eq!(told, [(event::SEND, fail::OK), (event::ACK, fail::DROPPED)]);
    assert_eq!(bench.portals.count(counter), Ok(Count { success: 2, failure: 1 }));
    assert_eq!(bench.portals.take_freed(), Some(BufId(9)));
}

#[test]
fn what_waits_for_a_counter_in_vain_lets_go_of_its_descriptor() {
    for is_closed in [false, true] {
        let mut bench = Bench::usual();
        let counter = bench.portals.add_counter(NI).expect("room");
        let bare = DescriptorSpec {
            buf: BufId(9),
            len: 8,
            options: 0,
            queue: None,
            counter: None,
            asks: None,
        };
        let md = bench.portals.add_descriptor(NI, bare).expect("room");
        bench.portals.begin(sending(md, ack::NONE), Some((counter, 1))).expect("room");
        bench.portals.release_descriptor(md).expect("a descriptor");
        if is_closed {
            bench.portals.close(NI);
        } else {
            bench.portals.cancel_triggers(counter).expect("a counter");
        }
        let freed: Vec<_> = core::iter::from_fn(|| bench.portals.take_freed()).collect();
        assert!(freed.contains(&BufId(9)), "{freed:?}");
        assert_eq!(bench.portals.launches.iter().count(), 0, "nobody would take it from there");
    }
}

#[test]
fn acknowledgements_need_what_they_are_told_to() {
    let mut bench = Bench::usual();
    let bare = DescriptorSpec {
        buf: BufId(9),
        len: 8,
        options: 0,
        queue: None,
        counter: None,
        asks: None,
    };
    let md = bench.portals.add_descriptor(NI, bare).expect("room");
    let refused = vec![ack::FULL, ack::COUNTED, 4];
    for kind in refused {
        let begun = bench.portals.begin(sending(md, kind), None);
        assert_eq!(begun, Err(PortalsError::Invalid), "{kind}");
    }
    for kind in [ack::NONE, ack::OVER] {
        assert_eq!(bench.portals.begin(sending(md, kind), None), Ok(()));
    }
    let beyond = MoveSpec { put: Some((md, 1)), ..sending(md, ack::NONE) };
    assert_eq!(bench.portals.begin(beyond, None), Err(PortalsError::Invalid));
    let stale = md ^ 1 << SLOT_BITS;
    assert_eq!(bench.portals.begin(sending(stale, 0), None), Err(PortalsError::Invalid));
}

#[test]
fn that_it_is_over_is_counted_where_the_descriptor_asks_for_it() {
    for (options, count) in [(md::EVENT_CT_ACK, 1), (md::EVENT_CT_SEND, 8), (0, 0)] {
        let mut bench = Bench::usual();
        let counter = bench.portals.add_counter(NI).expect("room");
        let options = options | md::EVENT_CT_BYTES;
        let (queue, counts) = (Some(bench.queue), Some(counter));
        let spec =
            DescriptorSpec { buf: BufId(9), len: 8, options, queue, counter: counts, asks: None };
        let md = bench.portals.add_descriptor(NI, spec).expect("room");
        bench.portals.begin(sending(md, ack::OVER), None).expect("room");
        let launch = bench.portals.next_due().expect("begun");
        bench.portals.launch(launch);
        bench.portals.set_outcome(launch, Outcome { fail: 0, len: 8, offset: 0, list: 0 });
        bench.portals.completed(launch, None);
        assert_eq!(bench.kinds(), [(event::SEND, 4)], "nobody is told that it is over");
        let count = Count { success: count, failure: 0 };
        assert_eq!(bench.portals.count(counter), Ok(count), "{options:x}");
    }
}

#[test]
fn who_is_not_trusted_is_kept_from_entries_for_all_memory_only() {
    for (is_whole, is_trusted) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut bench = Bench::usual();
        bench.append(List::Priority, EntrySpec { is_whole, ..spec(PUT, 64, 1) }).expect("room");
        let taken = bench.arrive(Incoming { is_trusted, ..put(0, 8) }).map(|taken| taken.len);
        let expected = if is_whole && !is_trusted { Err(fail::PERM_VIOLATION) } else { Ok(8) };
        assert_eq!(taken, expected, "{is_whole} {is_trusted}");
    }
}

#[test]
fn entries_are_linked_and_unlinked_when_a_counter_says_so() {
    let mut bench = Bench::usual();
    let counter = bench.portals.add_counter(NI).expect("room");
    let step = |bench: &mut Bench| {
        bench.portals.add_count(counter, Count { success: 1, failure: 0 }).expect("a counter");
        assert!(bench.portals.next_due().is_none());
    };
    let place = (NI, 0);
    let appended = bench.portals.append_at(place, List::Priority, spec(PUT, 64, 1), counter, 1);
    let handle = appended.expect("room");
    bench.portals.unlink_at(handle, counter, 2).expect("an entry");
    assert_eq!(bench.arrive(put(0, 1)), Err(fail::DROPPED));
    step(&mut bench);
    assert!(bench.arrive(put(0, 1)).is_ok());
    step(&mut bench);
    assert_eq!(bench.arrive(put(0, 1)), Err(fail::DROPPED));
    assert_eq!(bench.portals.unlink(handle), Err(PortalsError::Invalid));
    // What is cancelled never comes, and its memory is free.
    while bench.portals.take_freed().is_some() {}
    let appended = bench.portals.append_at(place, List::Priority, spec(PUT, 64, 5), counter, 9);
    assert!(appended.is_ok());
    bench.portals.cancel_triggers(counter).expect("a counter");
    assert_eq!(bench.portals.take_freed(), Some(BufId(5)));
    assert_eq!(bench.portals.free_portal(NI, 0), Ok(()));
}

#[test]
fn closing_gives_back_the_copies_of_operations_that_never_began() {
    let mut bench = Bench::usual();
    let counter = bench.portals.add_counter(NI).expect("room");
    let bare = DescriptorSpec {
        buf: BufId(9),
        len: 8,
        options: 0,
        queue: None,
        counter: None,
        asks: None,
    };
    let md = bench.portals.add_descriptor(NI, bare).expect("room");
    let copied = |copy| MoveSpec { copy: Some(BufId(copy)), ..sending(md, ack::NONE) };
    bench.portals.begin(copied(20), Some((counter, 1))).expect("room");
    bench.portals.begin(copied(21), None).expect("room");
    bench.portals.release_descriptor(md).expect("a descriptor");
    bench.portals.close(NI);
    let mut freed: Vec<u64> =
        core::iter::from_fn(|| bench.portals.take_freed()).map(|buf| buf.0).collect();
    freed.sort_unstable();
    assert_eq!(freed, [9, 20, 21]);
    assert!(bench.portals.next_due().is_none());
}

#[test]
fn a_message_that_broke_off_and_is_found_counts_as_a_failure() {
    let mut bench = Bench::usual();
    let counter = bench.portals.add_counter(NI).expect("room");
    let _ = bench.append(List::Overflow, spec(PUT, 64, 1));
    let taken = bench.portals.arrive(&put(0, 10)).expect("taken");
    bench.portals.delivered(taken.delivery, fail::UNDELIVERABLE);
    let options = PUT | entry::EVENT_CT_OVERFLOW | entry::EVENT_CT_BYTES;
    let _ =
        bench.append(List::Priority, EntrySpec { counter: Some(counter), ..spec(options, 64, 2) });
    assert_eq!(bench.portals.count(counter), Ok(Count { success: 0, failure: 1 }));
}

#[test]
fn that_a_portal_was_stopped_is_told_when_nothing_moves_there_any_more() {
    let mut bench = Bench::new(portal::FLOWCTRL, PortalsLimits::default(), 100);
    let _ = bench.append(List::Priority, spec(PUT | entry::USE_ONCE, 64, 1));
    let taken = bench.portals.arrive(&put(0, 10)).expect("taken");
    assert_eq!(bench.arrive(put(0, 1)), Err(fail::PT_DISABLED), "nobody is left");
    assert_eq!(bench.kinds(), [(event::LINK, 1)], "the first is still on its way");
    bench.portals.delivered(taken.delivery, fail::OK);
    let told = [(event::PUT, 1), (event::AUTO_UNLINK, 1), (event::PT_DISABLED, 0)];
    assert_eq!(bench.kinds(), told);
}

#[test]
fn who_may_be_nowhere_is_asked_for_before_it_is_used_and_no_one_else() {
    fn is_there(at: u64, len: u64, writes: bool) -> bool {
        (at, len, writes) == (100, 8, false) || (at, len, writes) == (200, 8, true)
    }
    let mut bench = Bench::usual();
    let all = DescriptorSpec {
        buf: BufId(9),
        len: u64::MAX,
        options: 0,
        queue: None,
        counter: None,
        asks: Some(is_there),
    };
    let mut bind = |spec| bench.portals.add_descriptor(NI, spec).expect("room");
    let (whole, bound) = (bind(all), bind(DescriptorSpec { asks: None, ..all }));
    let mut has_memory = |spec: MoveSpec| {
        bench.portals.begin(spec, None).expect("room");
        let launch = bench.portals.next_due().expect("begun");
        bench.portals.has_memory(launch)
    };
    let from = |md, at| MoveSpec { put: Some((md, at)), ..sending(md, ack::NONE) };
    let to = |at| MoveSpec { kind: MoveKind::Get, put: None, get: Some((whole, at)), ..from(0, 0) };
    assert!(has_memory(from(whole, 100)) && has_memory(to(200)));
    assert!(!has_memory(from(whole, 200)) && !has_memory(to(100)));
    assert!(has_memory(from(bound, 7)), "what was bound is there");
    assert!(has_memory(MoveSpec { len: 0, ..from(whole, 7) }), "no bytes are nowhere");
    assert!(has_memory(MoveSpec { copy: Some(BufId(4)), ..from(whole, 7) }), "it was copied");
}

#[test]
fn who_was_parted_with_is_told_once_while_an_interface_is_open() {
    let mut bench = Bench::usual();
    assert!(!bench.portals.has_parted());
    for peer in [3, 4, 3] {
        bench.portals.part_with(PeerId(peer));
    }
    assert!(bench.portals.has_parted());
    assert_eq!(bench.portals.take_parted(), [PeerId(3), PeerId(4)]);
    assert!(bench.portals.take_parted().is_empty());
    bench.portals.close(NI);
    bench.portals.part_with(PeerId(5));
    assert!(!bench.portals.has_parted(), "nobody would ask");
}
