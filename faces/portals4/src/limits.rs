//! What an interface may have: as asked for, within what there can be.

use packhorse::raw::MESSAGE_LEN_MAX;
use packhorse::raw::portals::{ATOMIC_LEN_MAX, ORDERED_LEN_MAX, PortalsLimits, THING_COUNT_MAX};

use crate::abi::{Limits, feature};

/// Where nothing is said.
const USUAL: Limits = Limits {
    max_entries: 1 << 15,
    max_unexpected_headers: 1 << 15,
    max_mds: 1 << 12,
    max_cts: 1 << 12,
    max_eqs: 1 << 10,
    max_pt_index: 63,
    max_iovecs: 1 << 10,
    max_list_size: 1 << 15,
    max_triggered_ops: 1 << 15,
    max_msg_size: 1 << 32,
    max_atomic_size: ATOMIC_LEN_MAX,
    max_fetch_atomic_size: ATOMIC_LEN_MAX,
    max_waw_ordered_size: ORDERED_LEN_MAX,
    max_war_ordered_size: ORDERED_LEN_MAX,
    max_volatile_size: 64,
    features: feature::TARGET_BIND_INACCESSIBLE,
};

/// The last index that a table may have.
const PORTAL_MAX: i32 = 511;
/// Memory of more pieces is refused.
const PIECE_COUNT_MAX: i32 = 1 << 16;
/// Copied with the call at most.
const VOLATILE_LEN_MAX: u64 = 4096;

/// What is granted.
pub(crate) fn granted(desired: Option<Limits>) -> Limits {
    let Some(wish) = desired else { return USUAL };
    let count = |wish: i32| wish.clamp(0, THING_COUNT_MAX as i32);
    Limits {
        max_entries: count(wish.max_entries),
        max_unexpected_headers: count(wish.max_unexpected_headers),
        max_mds: count(wish.max_mds),
        max_cts: count(wish.max_cts),
        max_eqs: count(wish.max_eqs),
        max_pt_index: wish.max_pt_index.clamp(1, PORTAL_MAX),
        max_iovecs: wish.max_iovecs.clamp(0, PIECE_COUNT_MAX),
        max_list_size: count(wish.max_list_size),
        // Younger than the others: programs that do not know it leave a zero there, and trigger all the same.
        max_triggered_ops: match count(wish.max_triggered_ops) {
            0 => USUAL.max_triggered_ops,
            asked => asked,
        },
        max_msg_size: wish.max_msg_size.min(MESSAGE_LEN_MAX),
        max_atomic_size: wish.max_atomic_size.min(ATOMIC_LEN_MAX),
        max_fetch_atomic_size: wish.max_fetch_atomic_size.clamp(8, ATOMIC_LEN_MAX),
        max_waw_ordered_size: wish.max_waw_ordered_size.clamp(8, ORDERED_LEN_MAX),
        max_war_ordered_size: wish.max_war_ordered_size.clamp(8, ORDERED_LEN_MAX),
        max_volatile_size: wish.max_volatile_size.min(VOLATILE_LEN_MAX),
        // Long messages are not ordered with others, and the application's own atomic operations are not seen between load and store.
        features: wish.features & feature::TARGET_BIND_INACCESSIBLE,
    }
}

/// The same for the core.
pub(crate) fn of_core(limits: &Limits) -> PortalsLimits {
    let count = |limit: i32| limit.max(0) as u32;
    PortalsLimits {
        entry_count_max: count(limits.max_entries),
        header_count_max: count(limits.max_unexpected_headers),
        descriptor_count_max: count(limits.max_mds),
        counter_count_max: count(limits.max_cts),
        queue_count_max: count(limits.max_eqs),
        portal_max: count(limits.max_pt_index),
        list_count_max: count(limits.max_list_size),
        trigger_count_max: count(limits.max_triggered_ops),
    }
}
