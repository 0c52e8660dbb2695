//! The library, its interfaces, and who is who.
//!
//! A process has one endpoint, named by its pid at the IPv4 address that is its nid; the four interfaces share it. It opens with the first
//! of them and stays until the last `PtlFini`: until then others may still ask it for what it has told them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use packhorse::raw::portals::{Portals, codes::interface};
use packhorse::raw::{self, Engine, PeerId};
use packhorse::{Endpoint, Error, LookUp, SharedSecret};
use packhorse_common::complain;

use crate::abi::{Handle, IFACE_DEFAULT, Limits, PID_ANY, Process, feature, ni};
use crate::codes::{self, Code};
use crate::handles::{self, Kind, handle, number};
use crate::limits;

/// A process that says no number takes one of these: no service has them by custom, and `Number` writes those above otherwise.
const ANY_PIDS: std::ops::Range<u16> = 49152..61440;
/// Closing waits so long at most for what was sent to be accepted, unless `PACKHORSE_LINGER_S` says otherwise.
const LINGER: Duration = Duration::from_secs(5);
/// An interface closes when what was begun from it is over, but waits no longer than this.
const QUIET_AFTER: Duration = Duration::from_secs(2);
/// A process that does not answer is asked so long before what is sent to it cannot be delivered.
const FIND_FOR: Duration = Duration::from_secs(5);
/// The secret that Open MPI's launchers give all processes of a job, and those that a job starts later: 128 random bits, as two times 16 digits.
const LAUNCHER_SECRET: &str = "OMPI_MCA_orte_precondition_transports";
/// A look-up that took so long in vain is not tried again for a while: each operation would wait as long.
const SLOW_AFTER: Duration = Duration::from_secs(1);
const ABSENT_FOR: Duration = Duration::from_secs(5);
/// A peer that nobody is.
const NOBODY: PeerId = PeerId((1 << PeerId::BITS) - 1);

/// What a process is to others, and whom it knows.
pub(crate) struct Presence {
    endpoint: Endpoint,
    pub(crate) own: Process,
    uid: u32,
    /// Of the job, where the environment names no file with one.
    secret: Option<SharedSecret>,
    peers: Mutex<Known>,
}

/// Peers that were found, and the one that was asked for last: most programs ask for the same again.
#[derive(Default)]
struct Known {
    last: Option<(Process, PeerId)>,
    all: HashMap<Process, PeerId>,
    /// Who did not answer, and when that was found.
    absent: HashMap<Process, Instant>,
}

impl Known {
    fn get(&mut self, process: Process) -> Option<PeerId> {
        match self.last {
            Some((last, peer)) if last == process => Some(peer),
            _ => {
                let peer = *self.all.get(&process)?;
                self.last = Some((process, peer));
                Some(peer)
            }
        }
    }

    /// Numbers of peers that were parted with may be others' by now.
    fn forget(&mut self, parted: &[PeerId]) {
        self.last = None;
        self.all.retain(|_, peer| !parted.contains(peer));
    }

    fn is_absent(&mut self, process: Process) -> bool {
        let since = self.absent.get(&process).copied();
        let is_absent = since.is_some_and(|since| since.elapsed() < ABSENT_FOR);
        if since.is_some() && !is_absent {
            self.absent.remove(&process);
        }
        is_absent
    }
}

/// One of the four.
#[derive(Clone)]
struct Interface {
    open_count: u32,
    limits: Limits,
    map: Option<Arc<[Process]>>,
}

#[derive(Default)]
struct Library {
    init_count: u32,
    node: Option<Arc<Presence>>,
    interfaces: [Option<Interface>; interface::COUNT],
}

static LIBRARY: RwLock<Option<Library>> = RwLock::new(None);
/// There is one: what every call asks first, without its lock.
static IS_READY: AtomicBool = AtomicBool::new(false);
/// `PtlAbort` was called: whoever waits is to go, and does not wait again.
static IS_ABORTED: AtomicBool = AtomicBool::new(false);

fn seen() -> RwLockReadGuard<'static, Option<Library>> {
    LIBRARY.read().unwrap_or_else(PoisonError::into_inner)
}

fn changed() -> RwLockWriteGuard<'static, Option<Library>> {
    LIBRARY.write().unwrap_or_else(PoisonError::into_inner)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `PTL_NO_INIT` before `PtlInit`.
pub(crate) fn check_init() -> Result<(), Code> {
    if IS_READY.load(Ordering::Acquire) { Ok(()) } else { Err(codes::NO_INIT) }
}

pub(crate) fn init() -> Result<(), Code> {
    raw::set_long_numbers(crate::long::compute);
    let mut library = changed();
    library.get_or_insert_default().init_count += 1;
    IS_READY.store(true, Ordering::Release);
    Ok(())
}

pub(crate) fn fini() {
    let mut library = changed();
    let Some(this) = library.as_mut() else { return };
    this.init_count -= 1;
    if this.init_count > 0 {
        return;
    }
    let ended = library.take();
    IS_READY.store(false, Ordering::Release);
    drop(library);
    IS_ABORTED.store(false, Ordering::Release);
    if let Some(node) = ended.and_then(|ended| ended.node) {
        raw::close(&node.endpoint);
    }
}

pub(crate) fn abort() {
    IS_ABORTED.store(true, Ordering::Release);
    if let Ok(node) = node() {
        node.engine().wake_portals();
    }
}

/// `PTL_ABORTED` after `PtlAbort`.
pub(crate) fn check_aborted() -> Result<(), Code> {
    if IS_ABORTED.load(Ordering::Acquire) { Err(codes::ABORTED) } else { Ok(()) }
}

/// The endpoint, once an interface is open.
pub(crate) fn node() -> Result<Arc<Presence>, Code> {
    let library = seen();
    let node = library.as_ref().and_then(|library| library.node.clone());
    node.ok_or(codes::ARG_INVALID)
}

impl Presence {
    pub(crate) fn engine(&self) -> Engine<'_> {
        raw::engine(&self.endpoint)
    }

    /// The peer that has this nid and pid. Whoever is not known yet is looked for; one that is not there is nobody, to whom nothing can
    /// be delivered.
    fn peer(&self, process: Process) -> PeerId {
        let parted = self.engine().look_at_portals(Portals::take_parted);
        {
            let mut peers = lock(&self.peers);
            if !parted.is_empty() {
                peers.forget(&parted);
            }
            match peers.get(process) {
                Some(peer) => return peer,
                None if peers.is_absent(process) => return NOBODY,
                None => {}
            }
        }
        let asked_at = Instant::now();
        let found = if process == self.own {
            self.endpoint.peer(&self.endpoint.address()).ok()
        } else {
            self.find(process)
        };
        let mut peers = lock(&self.peers);
        match found.map(raw::peer_id) {
            Some(peer) => *peers.all.entry(process).or_insert(peer),
            None => {
                if asked_at.elapsed() > SLOW_AFTER {
                    peers.absent.insert(process, Instant::now());
                }
                NOBODY
            }
        }
    }

    fn find(&self, process: Process) -> Option<packhorse::Peer> {
        let host = Ipv4Addr::from(process.rank_or_nid).to_string();
        let pid = u16::try_from(process.pid).ok()?;
        let asked = match self.secret {
            Some(secret) => Ok(LookUp::new(&host, pid).secret(Some(secret))),
            None => LookUp::from_environment(&host, pid),
        };
        let found = asked.and_then(|asked| asked.timeout(FIND_FOR).wait());
        match found.and_then(|answer| self.endpoint.peer(&answer.address)) {
            Ok(peer) => Some(peer),
            Err(error) => {
                complain("portals4", format_args!("{error}"));
                None
            }
        }
    }
}

/// Which of the four a handle names.
fn kind_of(ni: Handle) -> Result<u8, Code> {
    let number = number(Kind::Interface, ni)?;
    match number.checked_sub(1) {
        Some(kind) if (kind as usize) < interface::COUNT => Ok(kind as u8),
        _ => Err(codes::ARG_INVALID),
    }
}

fn handle_of(kind: u8) -> Handle {
    handle(Kind::Interface, u32::from(kind) + 1)
}

/// All interfaces, none of which opens or closes while somebody has this in hand. The engine may be called meanwhile; nobody is looked for.
pub(crate) struct Held<'a> {
    library: &'a Library,
    pub(crate) node: &'a Presence,
}

/// Does something with all interfaces in hand.
pub(crate) fn hold<R>(work: impl FnOnce(Held<'_>) -> Result<R, Code>) -> Result<R, Code> {
    let library = seen();
    let library = library.as_ref().ok_or(codes::ARG_INVALID)?;
    let node = library.node.as_deref().ok_or(codes::ARG_INVALID)?;
    work(Held { library, node })
}

impl Held<'_> {
    fn interface(&self, kind: u8) -> Result<&Interface, Code> {
        self.library.interfaces[usize::from(kind)].as_ref().ok_or(codes::ARG_INVALID)
    }

    pub(crate) fn limits(&self, kind: u8) -> Result<&Limits, Code> {
        self.interface(kind).map(|this| &this.limits)
    }

    /// The peer that a target names; `None` if it is not known yet.
    pub(crate) fn target(&self, kind: u8, target: Process) -> Result<Option<PeerId>, Code> {
        let process = if kind & interface::LOGICAL == 0 {
            target
        } else {
            let map = self.interface(kind)?.map.as_ref();
            let process = map.and_then(|map| map.get(target.rank_or_nid as usize));
            *process.ok_or(codes::ARG_INVALID)?
        };
        Ok(lock(&self.node.peers).get(process))
    }
}

/// An open interface.
pub(crate) struct Opened {
    pub(crate) node: Arc<Presence>,
    pub(crate) kind: u8,
    pub(crate) limits: Limits,
    map: Option<Arc<[Process]>>,
}

/// The interface that a handle names, if it is open.
pub(crate) fn opened(ni: Handle) -> Result<Opened, Code> {
    opened_kind(kind_of(ni)?)
}

pub(crate) fn opened_kind(kind: u8) -> Result<Opened, Code> {
    let library = seen();
    let library = library.as_ref().ok_or(codes::NO_INIT)?;
    let this = library.interfaces[usize::from(kind)].as_ref().ok_or(codes::ARG_INVALID)?;
    let node = library.node.clone().ok_or(codes::ARG_INVALID)?;
    Ok(Opened { node, kind, limits: this.limits, map: this.map.clone() })
}

impl Opened {
    pub(crate) fn is_logical(&self) -> bool {
        self.kind & interface::LOGICAL != 0
    }

    pub(crate) fn is_matching(&self) -> bool {
        self.kind & interface::MATCHING != 0
    }

    /// The peer that a target names.
    pub(crate) fn target(&self, target: Process) -> Result<PeerId, Code> {
        if !self.is_logical() {
            return Ok(self.node.peer(target));
        }
        let process = self.map.as_ref().and_then(|map| map.get(target.rank_or_nid as usize));
        process.map(|&process| self.node.peer(process)).ok_or(codes::ARG_INVALID)
    }

    /// All memory is about to be opened: to those of the map, who are known by that, and to no strangers.
    pub(crate) fn name_all(&self) {
        for &process in self.map.iter().flat_map(|map| map.iter()) {
            self.node.peer(process);
        }
    }
}

/// `pid` may be `PID_ANY`; options are checked here.
pub(crate) fn open(
    iface: u32,
    options: u32,
    pid: u32,
    desired: Option<Limits>,
) -> Result<(Handle, Limits), Code> {
    let kind = kind_chosen(options)?;
    if iface != IFACE_DEFAULT && iface != 0 {
        return Err(codes::ARG_INVALID);
    }
    let mut library = changed();
    let library = library.as_mut().ok_or(codes::NO_INIT)?;
    if let Some(this) = &mut library.interfaces[usize::from(kind)] {
        this.open_count += 1;
        return Ok((handle_of(kind), this.limits));
    }
    let limits = limits::granted(desired).map_err(|error| {
        complain("portals4", format_args!("{error}"));
        codes::FAIL
    })?;
    let node = match &library.node {
        Some(node) if pid != PID_ANY && pid != node.own.pid => return Err(codes::PID_IN_USE),
        Some(node) => Arc::clone(node),
        None => Arc::clone(library.node.insert(Arc::new(open_node(pid)?))),
    };
    let own = if kind & interface::LOGICAL == 0 { word_of(node.own) } else { u64::from(u32::MAX) };
    node.engine().with_portals(|portals| {
        portals.open(kind, limits::of_core(&limits), own, node.uid);
    });
    library.interfaces[usize::from(kind)] = Some(Interface { open_count: 1, limits, map: None });
    Ok((handle_of(kind), limits))
}

/// How requests say who they come from.
pub(crate) fn word_of(process: Process) -> u64 {
    u64::from(process.pid) << 32 | u64::from(process.rank_or_nid)
}

fn kind_chosen(options: u32) -> Result<u8, Code> {
    let one_of = |first: u32, second: u32| match options & (first | second) {
        chosen if chosen == first => Ok(true),
        chosen if chosen == second => Ok(false),
        _ => Err(codes::ARG_INVALID),
    };
    if options & !ni::MASK != 0 {
        return Err(codes::ARG_INVALID);
    }
    let matching = if one_of(ni::MATCHING, ni::NO_MATCHING)? { interface::MATCHING } else { 0 };
    let logical = if one_of(ni::LOGICAL, ni::PHYSICAL)? { interface::LOGICAL } else { 0 };
    Ok(matching | logical)
}

fn open_node(pid: u32) -> Result<Presence, Code> {
    let ip = address_chosen()?;
    let mut builder = Endpoint::builder().bind(IpAddr::V4(ip));
    builder = if pid == PID_ANY {
        builder.named_one_of(ANY_PIDS)
    } else {
        let pid = u16::try_from(pid).ok().filter(|&pid| pid != 0).ok_or(codes::ARG_INVALID)?;
        builder.named(pid)
    };
    if std::env::var_os("PACKHORSE_LINGER_S").is_none() {
        builder = builder.linger(LINGER);
    }
    let secret = secret_of_job();
    if let Some(secret) = secret {
        builder = builder.secret(secret);
    }
    let endpoint = builder.open().map_err(|error| match error {
        Error::NumberInUse { .. } => codes::PID_IN_USE,
        error => {
            complain("portals4", format_args!("{error}"));
            codes::FAIL
        }
    })?;
    let pid = endpoint.number().map_or(0, u32::from);
    let own = Process { rank_or_nid: ip.to_bits(), pid };
    let uid = std::fs::metadata("/proc/self").map_or(0, |of| of.uid());
    Ok(Presence { endpoint, own, uid, secret, peers: Mutex::default() })
}

/// What closes this process to those outside of its job, if its launcher gave it something; a file that the user names comes first.
fn secret_of_job() -> Option<SharedSecret> {
    let is_named = std::env::var_os("PACKHORSE_SECRET_FILE").is_some();
    let given = std::env::var(LAUNCHER_SECRET).ok().filter(|_| !is_named)?;
    secret_in(&given)
}

/// What else may stand there is of no launcher that we know, and no secret.
fn secret_in(given: &str) -> Option<SharedSecret> {
    let (first, second) = given.split_once('-')?;
    let is_whole = first.len() == 16 && second.len() == 16;
    format!("{first}{second}").parse().ok().filter(|_| is_whole)
}

/// The IPv4 address of the interface that `PTL_IFACE_NAME` names; else of the first that leads to others, else of the host itself.
fn address_chosen() -> Result<Ipv4Addr, Code> {
    let wanted = std::env::var("PTL_IFACE_NAME").ok().filter(|name| !name.is_empty());
    let interfaces = raw::interfaces();
    let address = |of: &raw::Interface| {
        of.addrs.iter().find_map(|&(ip, _)| match ip {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        })
    };
    if let Some(wanted) = wanted {
        let found = interfaces.iter().find(|of| of.name == wanted).and_then(address);
        return found.ok_or_else(|| {
            let what = "PTL_IFACE_NAME names no interface with an IPv4 address";
            complain("portals4", format_args!("{what}: {wanted}"));
            codes::FAIL
        });
    }
    let first = interfaces.iter().filter(|of| of.is_up && !of.is_loopback).find_map(address);
    Ok(first.unwrap_or(Ipv4Addr::LOCALHOST))
}

pub(crate) fn close(ni: Handle) -> Result<(), Code> {
    let this = opened(ni)?;
    let slot = usize::from(this.kind);
    {
        let mut library = changed();
        let library = library.as_mut().ok_or(codes::NO_INIT)?;
        let open = library.interfaces[slot].as_mut().ok_or(codes::ARG_INVALID)?;
        open.open_count -= 1;
        if open.open_count > 0 {
            return Ok(());
        }
        library.interfaces[slot] = None;
    }
    let engine = this.node.engine();
    engine.wait_portals(Some(QUIET_AFTER), |portals| {
        (portals.busy_count(this.kind) == 0).then_some(())
    });
    engine.close_portals(this.kind);
    Ok(())
}

/// How many pieces memory may have on this interface.
pub(crate) fn piece_count_max(ni: Handle) -> Result<u64, Code> {
    Ok(opened(ni)?.limits.max_iovecs.max(0) as u64)
}

pub(crate) fn register(ni: Handle, register: u32) -> Result<i32, Code> {
    let this = opened(ni)?;
    let registers = this.node.engine().look_at_portals(|portals| portals.registers(this.kind));
    let value = registers.and_then(|all| all.get(register as usize).copied());
    value.map(|value| value.min(i32::MAX as u64) as i32).ok_or(codes::ARG_INVALID)
}

/// The interface of anything.
pub(crate) fn of(any: Handle) -> Result<Handle, Code> {
    let kind = handles::kind(any)?;
    if kind == Kind::Interface {
        return opened(any).map(|_| any);
    }
    let number = number(kind, any)?;
    let found = node()?.engine().look_at_portals(|portals| match kind {
        Kind::Queue => portals.queue_interface(number),
        Kind::Counter => portals.counter_interface(number),
        Kind::Descriptor => portals.descriptor_interface(number),
        Kind::ListEntry | Kind::MatchEntry => portals.entry_interface(number),
        Kind::Interface => None,
    });
    found.map(handle_of).ok_or(codes::ARG_INVALID)
}

pub(crate) fn set_map(ni: Handle, map: &[Process]) -> Result<(), Code> {
    let this = opened(ni)?;
    if !this.is_logical() || map.is_empty() {
        return Err(codes::ARG_INVALID);
    }
    if let Some(known) = this.map {
        return if *known == *map { Ok(()) } else { Err(codes::IGNORED) };
    }
    let own = this.node.own;
    let rank = map.iter().position(|&process| process == own).ok_or(codes::ARG_INVALID)?;
    let mut library = changed();
    let slot =
        library.as_mut().and_then(|library| library.interfaces[usize::from(this.kind)].as_mut());
    slot.ok_or(codes::ARG_INVALID)?.map = Some(map.into());
    this.node.engine().with_portals(|portals| portals.set_own(this.kind, rank as u64));
    Ok(())
}

pub(crate) fn map(ni: Handle) -> Result<Vec<Process>, Code> {
    let this = opened(ni)?;
    if !this.is_logical() {
        return Err(codes::ARG_INVALID);
    }
    this.map.map(|map| map.to_vec()).ok_or(codes::NO_SPACE)
}

pub(crate) fn uid(ni: Handle) -> Result<u32, Code> {
    Ok(opened(ni)?.node.uid)
}

pub(crate) fn id(ni: Handle) -> Result<Process, Code> {
    let this = opened(ni)?;
    if !this.is_logical() {
        return Ok(this.node.own);
    }
    let own = this.node.own;
    let rank = this.map.and_then(|map| map.iter().position(|&process| process == own));
    rank.map(|rank| Process { rank_or_nid: rank as u32, pid: 0 }).ok_or(codes::ARG_INVALID)
}

pub(crate) fn physical_id(ni: Handle) -> Result<Process, Code> {
    Ok(opened(ni)?.node.own)
}

/// What is between is not held back: each operation leaves with its call, which every end of a bundle allows.
pub(crate) fn start_bundle(ni: Handle) -> Result<(), Code> {
    opened(ni).map(|_| ())
}

pub(crate) fn end_bundle(ni: Handle) -> Result<(), Code> {
    opened(ni).map(|_| ())
}

const _: () = assert!(feature::MASK == 7);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launchers_secret_is_two_times_sixteen_digits() {
        let (one, other) =
            ("0123456789abcdef-00112233445566ff", "0123456789abcdef-00112233445566fe");
        assert!(secret_in(one).is_some() && secret_in(one) != secret_in(other));
        let zeros = "0000000000000000-0000000000000000";
        for nonsense in ["", "-", "0123456789abcdef", &one[1..], &one.replace('-', "+"), zeros] {
            assert!(secret_in(nonsense).is_none(), "{nonsense}");
        }
    }
}
