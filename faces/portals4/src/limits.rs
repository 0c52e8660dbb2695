//! What an interface may have: as asked for, or as `PTL_LIM_MAX_…` say where nothing is asked for, within what there can be.

use packhorse::raw::MESSAGE_LEN_MAX;
use packhorse::raw::portals::{ATOMIC_LEN_MAX, ORDERED_LEN_MAX, PortalsLimits, THING_COUNT_MAX};

use packhorse_common::settings::Variable;

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
/// What is granted.
///
/// # Errors
/// A variable that is no number, in words.
pub(crate) fn granted(desired: Option<Limits>) -> Result<Limits, String> {
    Ok(cut(&match desired {
        Some(wish) => wish,
        None => of_environment(Variable::of)?,
    }))
}

/// What is usual, but for what variables say, which are called as in the reference.
fn of_environment(variable: impl Fn(&'static str) -> Variable) -> Result<Limits, String> {
    let mut limits = USUAL;
    let counts = [
        ("PTL_LIM_MAX_ENTRIES", &mut limits.max_entries),
        ("PTL_LIM_MAX_UNEXPECTED_HEADERS", &mut limits.max_unexpected_headers),
        ("PTL_LIM_MAX_MDS", &mut limits.max_mds),
        ("PTL_LIM_MAX_CTS", &mut limits.max_cts),
        ("PTL_LIM_MAX_EQS", &mut limits.max_eqs),
        ("PTL_LIM_MAX_PT_INDEX", &mut limits.max_pt_index),
        ("PTL_LIM_MAX_IOVECS", &mut limits.max_iovecs),
        ("PTL_LIM_MAX_LIST_SIZE", &mut limits.max_list_size),
        ("PTL_LIM_MAX_TRIGGERED_OPS", &mut limits.max_triggered_ops),
    ];
    for (name, limit) in counts {
        // More than a C program could ask for is as much as it could.
        let asked = variable(name).number::<u64>()?;
        *limit = asked.map_or(*limit, |asked| i32::try_from(asked).unwrap_or(i32::MAX));
    }
    let sizes = [
        ("PTL_LIM_MAX_MSG_SIZE", &mut limits.max_msg_size),
        ("PTL_LIM_MAX_ATOMIC_SIZE", &mut limits.max_atomic_size),
        ("PTL_LIM_MAX_FETCH_ATOMIC_SIZE", &mut limits.max_fetch_atomic_size),
        ("PTL_LIM_MAX_WAW_ORDERED_SIZE", &mut limits.max_waw_ordered_size),
        ("PTL_LIM_MAX_WAR_ORDERED_SIZE", &mut limits.max_war_ordered_size),
        ("PTL_LIM_MAX_VOLATILE_SIZE", &mut limits.max_volatile_size),
    ];
    for (name, limit) in sizes {
        *limit = variable(name).number()?.unwrap_or(*limit);
    }
    limits.features = variable("PTL_LIM_FEATURES").number()?.unwrap_or(limits.features);
    Ok(limits)
}

/// A wish, within what there can be.
fn cut(wish: &Limits) -> Limits {
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
        max_volatile_size: wish.max_volatile_size.min(ATOMIC_LEN_MAX),
        // Long messages are not ordered with others, and the application's own atomic operations are not seen between load and store.
        features: wish.features & feature::TARGET_BIND_INACCESSIBLE,
    }
}

/// The limits of an interface as the core has them.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &str) -> Result<Limits, String> {
        let of = |asked| Variable::given(asked, (asked == name).then(|| value.into()));
        of_environment(of).map(|wish| cut(&wish))
    }

    #[test]
    fn variables_say_what_is_usual_and_are_cut_as_wishes_are() {
        assert_eq!(with("PTL_LIM_MAX_LIST_SIZE", "12").unwrap().max_list_size, 12);
        assert_eq!(with("PTL_LIM_MAX_MSG_SIZE", "4096").unwrap().max_msg_size, 4096);
        assert_eq!(with("PTL_LIM_MAX_PT_INDEX", "999999999999").unwrap().max_pt_index, PORTAL_MAX);
        assert_eq!(with("PTL_LIM_FEATURES", "0").unwrap().features, 0);
        assert_eq!(with("PTL_LIM_MAX_MDS", " 7 ").unwrap().max_mds, 7);
        let others = with("PTL_LIM_MAX_MDS", "7").unwrap();
        assert_eq!(others.max_entries, USUAL.max_entries);
    }

    /// A program may make atomic operations on whatever it may put from volatile memory: Sandia OpenSHMEM does.
    #[test]
    fn what_is_volatile_is_no_longer_than_what_is_atomic() {
        let wish = Limits { max_volatile_size: 1 << 20, max_atomic_size: 1 << 20, ..USUAL };
        let granted = granted(Some(wish)).unwrap();
        assert!(granted.max_volatile_size <= granted.max_atomic_size, "{granted:?}");
    }

    #[test]
    fn nonsense_is_told_by_its_name() {
        let told = with("PTL_LIM_MAX_CTS", "many").unwrap_err();
        assert!(told.contains("PTL_LIM_MAX_CTS=many"), "{told}");
        assert!(with("PTL_LIM_MAX_CTS", "-1").is_err());
    }
}
