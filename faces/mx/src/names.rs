//! Where a NIC id or a name is: a board of this host, a line of the table, an answer of the segment.

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use packhorse::SharedSecret;

use crate::boards;
use crate::hosts::{self, Known};
use crate::letter::Wanted;
use crate::{segment, settings};

/// The table, as it was when MX was initialised.
static TABLE: RwLock<Vec<Known>> = RwLock::new(Vec::new());
/// What the segment answered. Bounded by what was asked for here.
static HEARD: Mutex<Vec<Known>> = Mutex::new(Vec::new());
/// So long a segment is asked for a name or a NIC id outside of a connection, which has a time of its own.
const ASK_FOR: Duration = Duration::from_millis(500);
const HEARD_COUNT_MAX: usize = 4096;

/// Reads the table anew.
pub(crate) fn refresh() -> Result<(), String> {
    let table = settings::hosts().map_or(Ok(Vec::new()), |path| hosts::read(&path))?;
    *TABLE.write().unwrap_or_else(PoisonError::into_inner) = table;
    HEARD.lock().unwrap_or_else(PoisonError::into_inner).clear();
    Ok(())
}

/// The secret of this host's processes, if there is one. A file that is none is told when an endpoint is opened.
pub(crate) fn secret() -> Option<SharedSecret> {
    SharedSecret::from_file(std::env::var_os("PACKHORSE_SECRET_FILE")?).ok()
}

fn local(wanted: &Wanted) -> Option<Known> {
    let boards = boards::all();
    let known = boards.iter().map(|board| Known {
        name: board.name.clone(),
        nic_id: board.nic_id,
        ip: board.ip,
    });
    known.into_iter().find(|known| wanted.is(known))
}

/// What is known without asking anybody.
fn known(wanted: &Wanted, avoided: &[IpAddr]) -> Option<Known> {
    let is_right = |known: &&Known| wanted.is(known) && !avoided.contains(&known.ip);
    let in_table = || {
        let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
        table.iter().find(is_right).cloned()
    };
    let heard = || {
        let heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
        heard.iter().find(is_right).cloned()
    };
    local(wanted).filter(|known| is_right(&known)).or_else(in_table).or_else(heard)
}

/// Asks the segment for what is not known, or only at places where it is not.
fn look_for(
    wanted: &Wanted,
    longest: Duration,
    is_unwanted: &AtomicBool,
    avoided: &[IpAddr],
) -> Option<Known> {
    if let Some(known) = known(wanted, avoided) {
        return Some(known);
    }
    let found = segment::ask(wanted, secret(), longest, is_unwanted, avoided)?;
    let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
    heard.retain(|known| known.nic_id != found.nic_id);
    if heard.len() < HEARD_COUNT_MAX {
        heard.push(found.clone());
    }
    Some(found)
}

/// Where the board with this NIC id is, other than at the places where it was looked for.
pub(crate) fn place_of(
    nic_id: u64,
    longest: Duration,
    is_unwanted: &AtomicBool,
    avoided: &[IpAddr],
) -> Option<IpAddr> {
    look_for(&Wanted::NicId(nic_id), longest, is_unwanted, avoided).map(|known| known.ip)
}

/// An answer that led nowhere is forgotten: the host may have another address now.
pub(crate) fn forget(nic_id: u64) {
    let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
    heard.retain(|known| known.nic_id != nic_id);
}

/// The NIC id of a board by its name.
pub(crate) fn nic_id_of(name: &str) -> Option<u64> {
    let wanted = Wanted::Name(name.to_owned());
    look_for(&wanted, ASK_FOR, &AtomicBool::new(false), &[]).map(|known| known.nic_id)
}

/// The name of a board.
pub(crate) fn name_of(nic_id: u64) -> Option<String> {
    let wanted = Wanted::NicId(nic_id);
    look_for(&wanted, ASK_FOR, &AtomicBool::new(false), &[]).map(|known| known.name)
}
