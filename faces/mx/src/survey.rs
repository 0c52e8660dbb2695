//! What there is of MX on this host and around it, for people: `packhorse mx`. The same boards, table and questions that programs get.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use packhorse::{Error, LookUp, NotFound, SharedSecret};

use crate::address::ENDPOINT_COUNT_MAX;
use crate::connect::FIRST_NUMBER;
use crate::info::COUNTERS;
use crate::letter::Wanted;
use crate::telling::{self, NUMBER_COUNT, PAGE_COUNT};
use crate::{boards, hosts, segment, settings};

pub use crate::boards::Board;
pub use crate::hosts::Known;

/// A door of this host is asked so long: the thread behind it answers at once, unless its process is stopped.
const ASK_FOR: Duration = Duration::from_millis(300);

/// Threads that ask: a number that nobody has is asked for some times, with pauses, before that is believed.
const ASKER_COUNT: u32 = 64;

/// An endpoint that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Its index.
    pub index: u32,
    /// What it tells of itself.
    pub state: State,
}

/// What an endpoint tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The process that has it, and its counters with their names.
    Told {
        /// The process, by the number that it has for itself.
        process: u64,
        /// All of them, or none if only the process was asked for.
        counters: Vec<(&'static str, u64)>,
    },
    /// Nothing, for it has another shared secret, or there is one and none was given, or the other way round.
    Locked,
    /// Nothing, for its process is stopped.
    Silent,
    /// Nothing: something else than an endpoint of this MX has its number.
    Strange,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Who has the endpoint.
    Process,
    /// Who has the endpoint, and its counters.
    Counters,
}

/// The boards of this host as a program of MX gets them; in words what is wrong with the settings.
pub fn boards() -> Result<Vec<Board>, String> {
    boards::refresh()?;
    Ok(boards::all().to_vec())
}

/// The table of hosts and what is in it, if there is one.
pub fn table() -> Result<Option<(PathBuf, Vec<Known>)>, String> {
    let Some(path) = settings::hosts() else { return Ok(None) };
    let table = hosts::read(&path)?;
    Ok(Some((path, table)))
}

/// Whether some board leads to a segment that can be asked.
pub fn has_segment(boards: &[Board]) -> bool {
    boards.iter().any(|board| segment::broadcast_of(board).is_some())
}

/// Boards of other hosts whose processes answer on the segments of these boards within this time.
pub fn neighbours(boards: &[Board], longest: Duration) -> Result<Vec<Known>, String> {
    let secret = secret()?;
    let mut found = BTreeMap::new();
    segment::ask_all(&Wanted::All, secret, longest, &AtomicBool::new(false), |known| {
        if boards.iter().all(|board| board.nic_id != known.nic_id) {
            found.insert((known.name.clone(), known.nic_id), known);
        }
        false
    });
    Ok(found.into_values().collect())
}

/// The endpoints that are open on a board of this host, whoever has them.
pub fn endpoints(board: &Board, ask: Ask) -> Result<Vec<Open>, String> {
    let secret = secret()?;
    let ask_all = |first| {
        let indices = (first..ENDPOINT_COUNT_MAX).step_by(ASKER_COUNT as usize);
        indices.map(|index| Ok((index, state_of(board.ip, index, secret, ask)?))).collect()
    };
    let found: Vec<Result<Vec<_>, String>> = std::thread::scope(|scope| {
        let ask_all = &ask_all;
        let askers: Vec<_> =
            (0..ASKER_COUNT).map(|first| scope.spawn(move || ask_all(first))).collect();
        let died = |_| Err("a thread that asked died".to_owned());
        askers.into_iter().map(|asker| asker.join().unwrap_or_else(died)).collect()
    });
    let mut open = Vec::new();
    for (index, state) in found.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        open.extend(state.map(|state| Open { index, state }));
    }
    open.sort_by_key(|open| open.index);
    Ok(open)
}

fn secret() -> Result<Option<SharedSecret>, String> {
    let Some(path) = std::env::var_os("PACKHORSE_SECRET_FILE") else { return Ok(None) };
    let secret = SharedSecret::from_file(path);
    secret.map(Some).map_err(|error| format!("PACKHORSE_SECRET_FILE: {error}"))
}

/// What an endpoint tells; `None` if nobody has the index.
fn state_of(
    ip: IpAddr,
    index: u32,
    secret: Option<SharedSecret>,
    ask: Ask,
) -> Result<Option<State>, String> {
    let pages = if ask == Ask::Process { 1 } else { PAGE_COUNT };
    let mut numbers = Vec::new();
    for page in 0..pages {
        let number = FIRST_NUMBER + index as u16;
        let look_up = LookUp::new(&ip.to_string(), number)
            .secret(secret)
            .greeting(telling::question(page))
            .timeout(ASK_FOR);
        let told = match look_up.wait() {
            Err(Error::NotFound { why: NotFound::Closed { greeting }, .. }) => {
                telling::read(&greeting, page)
            }
            Err(Error::NotFound { why: NotFound::NoSuchNumber, .. }) => return Ok(None),
            Err(Error::NotFound { why: NotFound::WrongSecret { .. }, .. }) => {
                return Ok(Some(State::Locked));
            }
            Err(Error::NotFound { why: NotFound::Silent { error: None, .. }, .. }) => {
                return Ok(Some(State::Silent));
            }
            Ok(_) | Err(Error::NotFound { why: NotFound::Version, .. }) => None,
            Err(error) => return Err(format!("asking for endpoint {index} at {ip}: {error}")),
        };
        let Some(told) = told else { return Ok(Some(State::Strange)) };
        numbers.extend(told);
    }
    Ok(Some(state_with(&numbers)))
}

fn state_with(numbers: &[u64]) -> State {
    let process = numbers.first().copied().unwrap_or_default();
    let counters = match numbers.get(1..NUMBER_COUNT) {
        Some(values) => COUNTERS.into_iter().zip(values.iter().copied()).collect(),
        None => Vec::new(),
    };
    State::Told { process, counters }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_by_name() {
        let numbers: Vec<u64> = (0..PAGE_COUNT as u64 * 3).collect();
        let State::Told { process, counters } = state_with(&numbers) else { panic!("not told") };
        assert_eq!((process, counters.len()), (0, COUNTERS.len()));
        assert_eq!(counters[0], ("messages_out", 1));
        assert_eq!(
            state_with(&[7, 1, 1]),
            State::Told { process: 7, counters: Vec::new() },
            "only the process was asked for"
        );
    }
}
