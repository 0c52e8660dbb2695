//! What can be asked of boards and endpoints: `mx_get_info`, `omx_get_info`.

use crate::abi::STRING_LEN;
use crate::address::ENDPOINT_COUNT_MAX;
use crate::boards::{self, BOARD_COUNT_MAX, Board};
use crate::codes::{self, Code};
use crate::port::Port;
use crate::{ports, settings};

/// One of the two lists of questions below.
pub(crate) type Answers = fn(u32, Option<u32>) -> Result<(Vec<u8>, bool), Code>;

/// What answers a question: its bytes as they lie in memory.
type Value = Result<Vec<u8>, Code>;

/// Counters that are told, of the many that an endpoint has; each the sum over the endpoints of a board.
pub(crate) const COUNTERS: [&str; 16] = [
    "messages_out",
    "messages_in",
    "bytes_placed",
    "frames_out",
    "frames_in",
    "acks_out",
    "acks_in",
    "packets_lost",
    "contents_resent",
    "probes",
    "packets_duplicate",
    "messages_unexpected",
    "refusals",
    "frames_unkeyed",
    "frames_malformed",
    "requests_pending",
];

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn word(number: u32) -> Value {
    Ok(words(&[number]))
}

/// A string with its final zero.
fn string(text: &str) -> Value {
    Ok(text.bytes().chain([0]).collect())
}

fn board_of(number: Option<u32>) -> Result<Board, Code> {
    let number = number.ok_or(codes::BAD_INFO_VAL)? as usize;
    boards::all().get(number).cloned().ok_or(codes::BOARD_UNKNOWN)
}

/// NIC ids of all boards and a final zero.
fn nic_ids() -> Value {
    let ids = boards::all().iter().map(|board| board.nic_id).chain([0]).collect::<Vec<_>>();
    Ok(ids.iter().flat_map(|id| id.to_ne_bytes()).collect())
}

/// The counters of an endpoint.
pub(crate) fn values_of(port: &Port) -> [u64; COUNTERS.len()] {
    let mut values = [0; COUNTERS.len()];
    for (name, value) in port.endpoint.counters() {
        if let Some(at) = COUNTERS.iter().position(|known| *known == name) {
            values[at] += value;
        }
    }
    values
}

fn counter_values(board: Option<u32>) -> Value {
    board_of(board)?;
    let mut sums = [0_u64; COUNTERS.len()];
    for port in ports::all().iter().filter(|port| Some(port.board) == board) {
        for (sum, value) in sums.iter_mut().zip(values_of(port)) {
            *sum += value;
        }
    }
    // 32 bits each, as they were: what is more wraps.
    Ok(words(&sums.map(|sum| sum as u32)))
}

fn labels() -> Value {
    let mut all = vec![0; COUNTERS.len() * STRING_LEN];
    for (at, name) in all.chunks_exact_mut(STRING_LEN).zip(COUNTERS) {
        at[..name.len()].copy_from_slice(name.as_bytes());
    }
    Ok(all)
}

fn numa_node(board: Option<u32>) -> Value {
    word(boards::numa_node(&board_of(board)?).unwrap_or(u32::MAX))
}

/// `mx_get_info_key_t`. `board`: that of the endpoint, or the one asked for. Whether the answer may be cut.
pub(crate) fn of_mx(key: u32, board: Option<u32>) -> Result<(Vec<u8>, bool), Code> {
    let board_count = boards::all().len() as u32;
    let answer = match key {
        1 => word(board_count),
        2 => nic_ids(),
        3 => word(ENDPOINT_COUNT_MAX),
        4 => word(u32::MAX),
        5 => word(COUNTERS.len() as u32),
        6 => labels(),
        7 => counter_values(board),
        8..=10 => return Ok((string("N/A (Packhorse)")?, true)),
        11 => word(1),
        12 => word(128),
        13 => word(settings::read().map_or(settings::COPY_LEN_MAX, |it| it.copy_len_max)),
        14 => numa_node(board),
        15 => word(1), // Ethernet
        16 => word(2), // as Open-MX says it, whatever the cards are
        _ => Err(codes::BAD_INFO_KEY),
    };
    Ok((answer?, false))
}

/// `omx_info_key_t`.
pub(crate) fn of_omx(key: u32, board: Option<u32>) -> Result<(Vec<u8>, bool), Code> {
    let board_count = boards::all().len() as u32;
    let answer = match key {
        0 => word(BOARD_COUNT_MAX),
        1 => word(ENDPOINT_COUNT_MAX),
        2 => word(board_count),
        3 => nic_ids(),
        4 => return Ok((string(&board_of(board)?.name)?, true)),
        5 => return Ok((string(&board_of(board)?.interface)?, true)),
        6 => numa_node(board),
        7 => word(COUNTERS.len() as u32),
        8 => counter_values(board),
        9 => {
            let name = board.and_then(|at| COUNTERS.get(at as usize)).ok_or(codes::BAD_INFO_VAL)?;
            return Ok((string(name)?, true));
        }
        _ => Err(codes::BAD_INFO_KEY),
    };
    Ok((answer?, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_one_of_an_endpoint() {
        let there = packhorse::Endpoint::local().unwrap().counters();
        for name in COUNTERS {
            assert!(there.iter().any(|(known, _)| known == name), "{name}");
        }
    }

    #[test]
    fn keys_have_answers_or_codes() {
        assert_eq!(of_mx(12, None), Ok((words(&[128]), false)));
        assert_eq!(of_mx(99, None), Err(codes::BAD_INFO_KEY));
        assert_eq!(of_mx(0, None), Err(codes::BAD_INFO_KEY));
        assert_eq!(of_mx(14, None), Err(codes::BAD_INFO_VAL));
        assert_eq!(of_mx(14, Some(77)), Err(codes::BOARD_UNKNOWN));
        assert_eq!(of_omx(10, None), Err(codes::BAD_INFO_KEY));
        assert_eq!(of_omx(9, Some(1)).unwrap().0, b"messages_in\0");
        assert_eq!(of_mx(6, None).unwrap().0.len(), COUNTERS.len() * STRING_LEN);
    }
}
