//! Initialising, and opening endpoints: which board, which index, with what.

use std::ffi::c_int;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use packhorse::{Builder, Endpoint, Error};

use crate::abi::{ANY, ErrorHandler};
use crate::address::{self, ENDPOINT_COUNT_MAX};
use crate::boards::{self, BOARD_COUNT_MAX, Board};
use crate::codes::{self, Code};
use crate::connect::{FIRST_NUMBER, receive};
use crate::port::{Opening, Port};
use crate::settings::{self, Settings};
use crate::{names, ports, segment};

static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);
/// Closing waits so long at most for what was sent to be accepted, unless `PACKHORSE_LINGER_S` says otherwise: MX did not wait at all.
const LINGER: Duration = Duration::from_secs(5);

/// Tells a person what is wrong.
pub(crate) fn complain(what: &str) {
    packhorse_common::complain("mx", what);
}

pub(crate) fn initialize(api: c_int) -> Result<(), Code> {
    if api >> 8 != crate::abi::API >> 8 {
        return Err(codes::BAD_LIB_VERSION);
    }
    if IS_INITIALIZED.load(Ordering::Acquire) {
        return Err(codes::ALREADY_INITIALIZED);
    }
    let ready = boards::refresh().map_err(|why| (codes::BOARD_UNKNOWN, why));
    let ready = ready.and_then(|()| names::refresh().map_err(|why| (codes::FAILURE, why)));
    if let Err((code, why)) = ready {
        complain(&why);
        return Err(code);
    }
    IS_INITIALIZED.store(true, Ordering::Release);
    Ok(())
}

pub(crate) fn finalize() -> Result<(), Code> {
    match IS_INITIALIZED.swap(false, Ordering::AcqRel) {
        true => Ok(()),
        false => Err(codes::NOT_INITIALIZED),
    }
}

pub(crate) fn check_initialized() -> Result<(), Code> {
    if IS_INITIALIZED.load(Ordering::Acquire) { Ok(()) } else { Err(codes::NOT_INITIALIZED) }
}

/// What the application says of its endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) board: u32,
    pub(crate) index: u32,
    pub(crate) key: u32,
    /// Bits and shift.
    pub(crate) context_ids: Option<(u8, u8)>,
    pub(crate) error_handler: Option<ErrorHandler>,
}

pub(crate) fn open(wish: Wish) -> Result<ports::Handle, Code> {
    check_initialized()?;
    let settings = settings::read().map_err(|why| {
        complain(&why);
        codes::BAD_PARAM_VAL
    })?;
    let index = match wish.index {
        ANY => settings.any_endpoint.unwrap_or(ANY),
        index => index,
    };
    let is_index = index == ANY || index < ENDPOINT_COUNT_MAX;
    let is_board = wish.board == ANY || wish.board < BOARD_COUNT_MAX;
    if !is_index || !is_board {
        return Err(codes::BAD_ENDPOINT);
    }
    let handle = search(Wish { index, ..wish }, &settings, &|| usual(&settings))?;
    segment::listen(names::secret());
    Ok(handle)
}

/// Opens the first index that is free on the interface with this address, which becomes the only board, as `builder` says: how
/// `packhorse bench` has links and placement from its own command line.
pub(crate) fn open_on(
    ip: IpAddr,
    key: u32,
    builder: &dyn Fn() -> Builder,
) -> Result<ports::Handle, Code> {
    boards::refresh_for(ip).map_err(|why| {
        complain(&why);
        codes::BOARD_UNKNOWN
    })?;
    IS_INITIALIZED.store(true, Ordering::Release);
    let settings = settings::read().map_err(|_| codes::BAD_PARAM_VAL)?;
    let wish = Wish { board: ANY, index: ANY, key, ..Wish::default() };
    let handle = search(wish, &settings, builder)?;
    segment::listen(names::secret());
    Ok(handle)
}

/// What an endpoint is made from where nobody says otherwise: the environment.
fn usual(settings: &Settings) -> Builder {
    let mut builder = Endpoint::builder();
    if std::env::var_os("PACKHORSE_LINGER_S").is_none() {
        builder = builder.linger(LINGER);
    }
    if settings.without_shared && std::env::var_os("PACKHORSE_LINK").is_none() {
        builder = builder.links("udp");
    }
    builder
}

/// Tries what is possible, indices outside and boards inside: endpoints spread over the boards. Where any board will do, one on which nothing can be
/// opened, as an interface that has lost its address since MX was initialised, is left out, and its failure told only if no other has room.
fn search(
    wish: Wish,
    settings: &Settings,
    builder: &dyn Fn() -> Builder,
) -> Result<ports::Handle, Code> {
    let boards = boards::all();
    let indices =
        if wish.index == ANY { 0..ENDPOINT_COUNT_MAX } else { wish.index..wish.index + 1 };
    let mut code = codes::BOARD_UNKNOWN;
    let mut lost = Vec::new();
    for index in indices {
        for (board, number) in boards.iter().zip(0..) {
            if wish.board != ANY && wish.board != number || lost.contains(&number) {
                continue;
            }
            match open_at(Wish { index, board: number, ..wish }, board, settings, builder()) {
                Ok(handle) => return Ok(handle),
                Err(codes::BUSY) => code = codes::BUSY,
                Err(why) if wish.board == ANY => {
                    lost.push(number);
                    code = if code == codes::BUSY { code } else { why };
                }
                Err(why) => return Err(why),
            }
        }
    }
    Err(code)
}

fn open_at(
    wish: Wish,
    board: &Board,
    settings: &Settings,
    builder: Builder,
) -> Result<ports::Handle, Code> {
    let word = address::word(board.nic_id, wish.index, segment::draw()[0]);
    let key = wish.key;
    // The door is there before the endpoint, and asks it for its counters.
    let port = Arc::new(OnceLock::new());
    let of_door = Arc::clone(&port);
    let builder = builder
        .bind(board.ip)
        // Programs made for a wire that keeps order take a later message's end for the word that an earlier one is there.
        .settings(|settings| settings.ends_in_order = true)
        .named(FIRST_NUMBER + wish.index as u16)
        .known_as(word)
        .greeter(move |asker| receive(key, asker, &of_door));
    let endpoint = builder.open().map_err(|error| match error {
        Error::NumberInUse { .. } => codes::BUSY,
        error => {
            complain(&format!("opening endpoint {} of {}: {error}", wish.index, board.name));
            codes::NO_RESOURCES
        }
    })?;
    let context_mask = wish.context_ids.or(settings.context_ids).map_or(0, mask_of);
    let opening = Opening {
        board: wish.board,
        word,
        context_mask,
        copy_len_max: settings.copy_len_max,
        error_handler: wish.error_handler,
    };
    ports::insert(|place, serial| {
        let made = Port::new(endpoint, &opening, (place, serial))?;
        let _ = port.set(Arc::downgrade(&made)); // nobody else does
        Ok(made)
    })
}

fn mask_of((bits, shift): (u8, u8)) -> u64 {
    if bits == 0 { 0 } else { ((1 << bits) - 1) << shift }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_ids_are_bits_of_the_match_information() {
        assert_eq!(mask_of((1, 63)), 1 << 63);
        assert_eq!(mask_of((16, 48)), 0xffff << 48);
        assert_eq!(mask_of((0, 64)), 0);
    }
}
