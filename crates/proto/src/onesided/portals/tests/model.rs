//! The lists of one portal as one would write them down: vectors that are looked through. Whatever is done, both tell the same.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::string::String;
use std::vec::Vec;

use super::super::codes::{entry, event, fail, portal};
use super::super::*;
use super::{Bench, put, spec};
use crate::base::api::List;
use crate::base::sabotage::Sabotage;

/// What is done.
#[derive(Clone, Debug)]
enum Step {
    Append(List, Wish),
    Arrive { bits: u64, node: u32, process: u32, len: u64, offset: u64 },
    Unlink(usize),
    Search(SearchKind, Wish),
    Enable,
}

#[derive(Clone, Copy, Debug)]
struct Wish {
    options: u32,
    bits: u64,
    ignore: u64,
    node: Option<u32>,
    process: Option<u32>,
    len: u64,
    min_free: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    user: u64,
    wish: Wish,
    list: List,
    local: u64,
    is_linked: bool,
}

#[derive(Clone, Debug)]
struct Header {
    bits: u64,
    node: u32,
    process: u32,
    len: u64,
    moved: u64,
    offset: u64,
    entry: usize,
}

/// What is told: kind, for whom, bytes moved, how.
type Told = (u8, u64, u64, u8);

struct Model {
    entries: Vec<Entry>,
    headers: Vec<Header>,
    header_count_max: usize,
    is_enabled: bool,
    has_flow_control: bool,
    told: Vec<Told>,
}

impl Wish {
    fn has(&self, option: u32) -> bool {
        self.options & option != 0
    }

    fn takes(&self, bits: u64, node: u32, process: u32) -> bool {
        (self.bits ^ bits) & !self.ignore == 0
            && self.node.is_none_or(|wanted| wanted == node)
            && self.process.is_none_or(|wanted| wanted == process)
    }

    fn fits(&self, local: u64, offset: u64, len: u64) -> bool {
        let at = if self.has(entry::MANAGE_LOCAL) { local } else { offset };
        !self.has(entry::NO_TRUNCATE) || at + len <= self.len
    }
}

impl Model {
    fn tell(&mut self, kind: u8, user: u64, moved: u64, fail: u8) {
        self.told.push((kind, user, moved, fail));
    }

    fn stop(&mut self) {
        if self.is_enabled {
            self.is_enabled = false;
            self.tell(event::PT_DISABLED, 0, 0, fail::PT_DISABLED);
        }
    }

    fn arrive(&mut self, bits: u64, (node, process): (u32, u32), len: u64, offset: u64) -> u8 {
        if !self.is_enabled {
            return fail::PT_DISABLED;
        }
        let of_list = |list: List| {
            self.entries.iter().position(|it| {
                it.is_linked
                    && it.list == list
                    && it.wish.takes(bits, node, process)
                    && it.wish.fits(it.local, offset, len)
            })
        };
        let Some(at) = of_list(List::Priority).or_else(|| of_list(List::Overflow)) else {
            return self.cannot();
        };
        let it = &self.entries[at];
        let (wish, user) = (it.wish, it.user);
        if !wish.has(entry::OP_PUT) {
            return fail::OP_VIOLATION;
        }
        let keeps = it.list == List::Overflow && !wish.has(entry::UNEXPECTED_HDR_DISABLE);
        if keeps && self.headers.len() >= self.header_count_max {
            return self.cannot();
        }
        let it = &mut self.entries[at];
        let where_to = if wish.has(entry::MANAGE_LOCAL) { it.local } else { offset };
        let moved = len.min(wish.len.saturating_sub(where_to));
        if wish.has(entry::MANAGE_LOCAL) {
            it.local += moved;
        }
        let is_short = wish.has(entry::MANAGE_LOCAL)
            && wish.min_free > 0
            && wish.len - it.local < wish.min_free;
        let is_over = wish.has(entry::USE_ONCE) || is_short;
        it.is_linked = !is_over;
        let list = it.list;
        if keeps {
            self.headers.push(Header { bits, node, process, len, moved, offset, entry: at });
        }
        self.tell(event::PUT, user, moved, 0);
        if is_over {
            self.tell(event::AUTO_UNLINK, user, 0, 0);
            if list == List::Overflow && !keeps {
                self.free(at);
            }
        }
        fail::OK
    }

    fn cannot(&mut self) -> u8 {
        if self.has_flow_control {
            self.stop();
            return fail::PT_DISABLED;
        }
        fail::DROPPED
    }

    /// The memory of an overflow entry is free when no header lies in it.
    fn free(&mut self, at: usize) {
        let is_free = self.headers.iter().all(|header| header.entry != at);
        if !self.entries[at].is_linked && is_free {
            let user = self.entries[at].user;
            self.tell(event::AUTO_FREE, user, 0, 0);
        }
    }

    fn find(&self, wish: &Wish, local: u64, from: usize) -> Option<usize> {
        (from..self.headers.len()).find(|&at| {
            let it = &self.headers[at];
            wish.takes(it.bits, it.node, it.process) && wish.fits(local, it.offset, it.len)
        })
    }

    fn append(&mut self, list: List, wish: Wish, user: u64) {
        let mut local = 0;
        let mut is_over = false;
        while list == List::Priority
            && !is_over
            && let Some(at) = self.find(&wish, local, 0)
        {
            let it = self.headers.remove(at);
            is_over = wish.has(entry::USE_ONCE);
            if wish.has(entry::LOCAL_INC_UH_RLENGTH) {
                local = (local + it.len).min(wish.len);
                is_over |= wish.has(entry::MANAGE_LOCAL)
                    && wish.min_free > 0
                    && wish.len - local < wish.min_free;
            }
            self.tell(event::PUT + event::OVERFLOW, user, it.moved, 0);
            self.free(it.entry);
            if is_over {
                self.tell(event::AUTO_UNLINK, user, 0, 0);
            }
        }
        if !is_over {
            self.tell(event::LINK, user, 0, 0);
        }
        self.entries.push(Entry { user, wish, list, local, is_linked: !is_over });
    }

    fn search(&mut self, kind: SearchKind, wish: Wish, user: u64) {
        let mut found = 0;
        let mut at = 0;
        while let Some(next) = self.find(&wish, 0, at) {
            found += 1;
            match kind {
                SearchKind::Only => {
                    let moved = self.headers[next].moved;
                    self.tell(event::SEARCH, user, moved, 0);
                    at = next + 1;
                }
                SearchKind::Delete => {
                    let it = self.headers.remove(next);
                    self.tell(event::PUT + event::OVERFLOW, user, it.moved, 0);
                    self.free(it.entry);
                    at = 0;
                }
            }
            if wish.has(entry::USE_ONCE) {
                break;
            }
        }
        if found == 0 {
            self.tell(event::SEARCH, user, 0, fail::NO_MATCH);
        }
    }

    fn unlink(&mut self, at: usize) -> Result<(), PortalsError> {
        if !self.entries[at].is_linked {
            return Err(PortalsError::Invalid);
        }
        if self.headers.iter().any(|header| header.entry == at) {
            return Err(PortalsError::InUse);
        }
        self.entries[at].is_linked = false;
        Ok(())
    }
}

fn any_wish() -> impl Strategy<Value = Wish> {
    let options = prop::sample::subsequence(
        std::vec![
            entry::USE_ONCE,
            entry::UNEXPECTED_HDR_DISABLE,
            entry::MANAGE_LOCAL,
            entry::NO_TRUNCATE,
            entry::LOCAL_INC_UH_RLENGTH,
        ],
        0..4,
    );
    let source = (prop::option::of(0..3_u32), prop::option::of(0..3_u32));
    let numbers =
        (0..4_u64, prop::sample::select(std::vec![0, 1, 3, u64::MAX]), 0..64_u64, 0..16_u64);
    (options, source, numbers, 0..20_u8).prop_map(|(options, (node, process), numbers, rare)| {
        let (bits, ignore, len, min_free) = numbers;
        let allowed = if rare == 0 { entry::OP_GET } else { entry::OP_PUT };
        let options = options.into_iter().fold(allowed, |all, one| all | one);
        Wish { options, bits, ignore, node, process, len, min_free }
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let list = prop::sample::select(std::vec![List::Priority, List::Overflow]);
    let kind = prop::sample::select(std::vec![SearchKind::Only, SearchKind::Delete]);
    let arrive = (0..4_u64, 0..3_u32, 0..3_u32, 0..32_u64, 0..32_u64);
    prop_oneof![
        4 => (list, any_wish()).prop_map(|(list, wish)| Step::Append(list, wish)),
        6 => arrive.prop_map(|(bits, node, process, len, offset)| {
            Step::Arrive { bits, node, process, len, offset }
        }),
        1 => any::<usize>().prop_map(Step::Unlink),
        1 => (kind, any_wish()).prop_map(|(kind, wish)| Step::Search(kind, wish)),
        1 => Just(Step::Enable),
    ]
}

fn spec_of(wish: &Wish, user: u64) -> EntrySpec {
    let Wish { options, bits, ignore, node, process, len, min_free } = *wish;
    EntrySpec { bits, ignore, node, process, min_free, ..spec(options, len, user) }
}

/// Whether both did and told the same; else what they did not.
fn run(
    steps: &[Step],
    has_flow_control: bool,
    header_count_max: usize,
    fault: Option<Sabotage>,
) -> Result<(), String> {
    let same = |is_same: bool, step: &Step| {
        if is_same { Ok(()) } else { Err(std::format!("{step:?}")) }
    };
    let limits = PortalsLimits {
        header_count_max: header_count_max as u32,
        entry_count_max: 100_000,
        list_count_max: 100_000,
        ..PortalsLimits::default()
    };
    let options = if has_flow_control { portal::FLOWCTRL } else { 0 };
    let mut bench = Bench::new(options, limits, 1 << 20);
    if let Some(fault) = fault {
        bench.portals.saboteur.set(fault);
    }
    let (entries, headers, told) = (Vec::new(), Vec::new(), Vec::new());
    let is_enabled = true;
    let mut model =
        Model { entries, headers, header_count_max, is_enabled, has_flow_control, told };
    let mut handles = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let user = at as u64 + 1;
        match step {
            Step::Append(list, wish) => {
                handles.push(bench.append(*list, spec_of(wish, user)).expect("room"));
                model.append(*list, *wish, user);
            }
            &Step::Arrive { bits, node, process, len, offset } => {
                let initiator = u64::from(node) | u64::from(process) << 32;
                let taken = bench.arrive(Incoming { initiator, offset, ..put(bits, len) });
                let expected = model.arrive(bits, (node, process), len, offset);
                same(taken.err().unwrap_or(fail::OK) == expected, step)?;
            }
            Step::Unlink(which) => {
                if let Some(which) = which.checked_rem(handles.len()) {
                    same(bench.portals.unlink(handles[which]) == model.unlink(which), step)?;
                }
            }
            Step::Search(kind, wish) => {
                let spec = spec_of(wish, user);
                bench.portals.search(bench.ni, bench.portal, *kind, spec).expect("a portal");
                model.search(*kind, *wish, user);
            }
            Step::Enable => {
                let enabled = bench.portals.enable_portal(bench.ni, bench.portal, true);
                enabled.expect("a portal");
                model.is_enabled = true;
            }
        }
        let told = bench.events().into_iter();
        let told: Vec<Told> = told.map(|it| (it.kind, it.user, it.moved_len, it.fail)).collect();
        same(told == core::mem::take(&mut model.told), step)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn lists_do_what_plain_lists_do(
        steps in prop::collection::vec(any_step(), 1..80),
        has_flow_control in any::<bool>(),
        header_count_max in 0..6_usize,
    ) {
        let run = run(&steps, has_flow_control, header_count_max, None);
        prop_assert!(run.is_ok(), "{run:?}");
    }
}

/// A model that never failed proves nothing: it finds each of these faults within ten thousand runs.
#[test]
fn deliberate_faults_are_found() {
    let faults = [
        Sabotage::OverflowListFirst,
        Sabotage::HeaderForgotten,
        Sabotage::LocalOffsetStays,
        Sabotage::PortalNotStopped,
        Sabotage::EntryUsedTwice,
        Sabotage::FreeNotTold,
        Sabotage::CutAllTheSame,
    ];
    let scenario = (prop::collection::vec(any_step(), 1..80), any::<bool>(), 0..6_usize);
    for fault in faults {
        let mut runner = TestRunner::deterministic();
        let found = (1..=10_000).find(|_| {
            let (steps, has_flow_control, header_count_max) =
                scenario.new_tree(&mut runner).expect("a scenario").current();
            run(&steps, has_flow_control, header_count_max, Some(fault)).is_err()
        });
        std::println!("{fault:?} found in run {found:?}");
        assert!(found.is_some(), "{fault:?}");
    }
}
