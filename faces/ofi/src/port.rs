//! An enabled endpoint: operations go in, what comes of them goes to the queues and counters it is bound to.
//!
//! ```text
//!   fi_tsend, fi_trecv … ──▶ Op in `ops`, its number as context ──▶ engine ──▶ Completions ──▶ on_entry ──▶ Cq, Cntr
//! ```
//!
//! libfabric's tagged and untagged messages are two matching spaces of ours. The engine's entries say what happened; what only
//! libfabric wants to know of an operation (context, flags, whether success is told) waits in `ops`.

mod copied;

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use packhorse::raw::{
    Claim, Completions, Criteria, Engine, Entry, Envelope, Failure, Kind, List, Memory, Notify,
    PeerId, PostError, Recv, RegionId, Send, Tag, Unaccepted, Use,
};
use packhorse::{Address, Endpoint, Error, raw};

use crate::abi::{ADDR_UNSPEC, code, flag};
use crate::cntr::Cntr;
use crate::cq::{Cq, Done, Reader, Trouble};
use crate::errors;
use crate::form::{Form, Name};
use crate::later::Search;
use crate::log::{Level, Subsystem, say};
use crate::op::{Family, How, Letter, Op, Ops, Telling, Wanted};
use crate::peers::Peers;
use crate::place::{self, Place};
use crate::remote::WRITTEN;
use crate::works::Works;

/// The flags of an operation by which counters are chosen.
pub(crate) const COUNTED: u64 = flag::SEND | flag::RECV | flag::READ | flag::WRITE;
/// The context of entries about messages that were complete when they were posted, and failed later: no operation has this number.
const LOST: u64 = u64::MAX - 1;
/// Entries the engine's ring has room for; beyond it asking costs a little more.
const RING_LEN: usize = 1024;

/// A completion queue an endpoint is bound to.
#[derive(Clone)]
pub(crate) struct Binding {
    pub(crate) cq: Arc<Cq>,
    /// Success is told only of operations that ask for it.
    pub(crate) is_selective: bool,
}

/// All that an endpoint is bound to, with the flags that chose what each is told.
#[derive(Clone, Default)]
pub(crate) struct Bindings {
    pub(crate) tx: Option<Binding>,
    pub(crate) rx: Option<Binding>,
    pub(crate) counters: Vec<(u64, Arc<Cntr>)>,
}

/// An enabled endpoint.
pub(crate) struct Port {
    caps: u64,
    pub(crate) bindings: Bindings,
    /// What waits for counters of its domain.
    pub(crate) works: Arc<Works>,
    peers: Peers,
    /// Places among them that are not found yet.
    pub(crate) search: Search,
    /// The endpoint's own number among its peers.
    own_number: AtomicU64,
    ops: Mutex<Ops>,
    /// Messages set aside, by the context that asked for them, and what was told of each.
    claims: Mutex<HashMap<usize, (Claim, Done)>>,
    /// Registered memory that peers can use, by key.
    pub(crate) regions: Mutex<HashMap<u64, RegionId>>,
    pub(crate) notify: Notify,
    /// Peers' writes are refused, for nobody reads of those that came before.
    is_holding: AtomicBool,
    /// Shared with whoever waits for them, who does not keep the endpoint, nor what it is bound to.
    completions: Arc<Mutex<Completions>>,
    endpoint: Endpoint,
}

pub(crate) use packhorse_common::lock;

/// What a call of C returns.
pub(crate) fn status(result: Result<(), c_int>) -> isize {
    result.map_or_else(|code| -(code as isize), |()| 0)
}

/// Which messages a receive takes, in the engine's words.
fn criteria(wanted: &Wanted, source: Option<PeerId>) -> Criteria {
    let (space, tag) = (wanted.family.space(), Tag(wanted.tag));
    Criteria { space, tag, ignore: wanted.ignore, source }
}

/// A message in the engine's words.
fn sending(peer: PeerId, letter: &Letter, flags: u64) -> Send {
    Send {
        peer,
        space: letter.family.space(),
        tag: Tag(letter.tag),
        immediate: letter.data,
        until_matched: flags & flag::MATCH_COMPLETE != 0,
    }
}

impl Port {
    /// Opens an endpoint, as the environment says; to be found there, if a place is given.
    pub(crate) fn open(
        caps: u64,
        works: &Arc<Works>,
        bindings: Bindings,
        (place, form): (Option<&Place>, Form),
    ) -> Result<Arc<Self>, Error> {
        let endpoint = match (place, form) {
            (Some(place), _) => place.open()?,
            (None, Form::Own | Form::Text) => Endpoint::open()?,
            (None, Form::V4 | Form::V6) => place::open_anywhere()?,
        };
        let completions = raw::engine(&endpoint).completions(RING_LEN);
        let notify = Notify { queue: completions.id(), context: 0, only_errors: false };
        raw::engine(&endpoint).tell_lost(Notify { context: LOST, ..notify });
        let port = Arc::new(Self {
            caps,
            works: Arc::clone(works),
            bindings,
            peers: Peers::default(),
            search: Search::default(),
            own_number: AtomicU64::new(ADDR_UNSPEC),
            ops: Mutex::default(),
            claims: Mutex::default(),
            regions: Mutex::default(),
            notify,
            is_holding: AtomicBool::new(false),
            completions: Arc::new(Mutex::new(completions)),
            endpoint,
        });
        port.search.begin(&port);
        if caps & flag::TRIGGER != 0 {
            port.have_attended();
        }
        port.each_reader(|ports| ports.add(&port));
        Ok(port)
    }

    /// Closes: nobody is told any more, what was sent is waited for, and on return nothing of the application's memory is touched
    /// any more, whoever waits for what the endpoint was bound to. A code if peers did not accept all in time.
    pub(crate) fn close(self: &Arc<Self>) -> Result<(), c_int> {
        let unposted_count = self.end_search();
        // What has ended is told: a thread that was woken for it finds no endpoint to ask any more. Such a thread has the entries for as
        // long as a wait looks away at most.
        self.tell_all(&mut lock(&self.completions), &mut Reader::nobody());
        self.each_reader(|ports| ports.remove(self));
        let unaccepted = raw::close(&self.endpoint);
        for &Unaccepted { peer, count, len } in unaccepted {
            say(Level::Warn, Subsystem::Endpoint, || {
                let name = self.endpoint.name_of(raw::peer(peer));
                format!(
                    "fi_close: {name} did not accept {count} messages and operations of {len} bytes in time"
                )
            });
        }
        if unaccepted.is_empty() && unposted_count == 0 { Ok(()) } else { Err(libc::ETIMEDOUT) }
    }

    /// What peers do with registered memory is counted.
    pub(crate) fn counts_peers(&self) -> bool {
        self.caps & flag::RMA_EVENT != 0
    }

    /// Operations may wait for counters.
    pub(crate) fn may_defer(&self) -> bool {
        self.caps & flag::TRIGGER != 0
    }

    /// A registration's counter counts for it no more; it may be bound to the endpoint itself.
    pub(crate) fn leave(self: &Arc<Self>, counter: &Arc<Cntr>) {
        if !self.bindings.counters.iter().any(|(_, own)| Arc::ptr_eq(own, counter)) {
            counter.ports.remove(self);
        }
    }

    fn each_reader(&self, mut act: impl FnMut(&crate::ports::Ports)) {
        for binding in [&self.bindings.tx, &self.bindings.rx].into_iter().flatten() {
            act(&binding.cq.ports);
        }
        self.bindings.counters.iter().for_each(|(_, counter)| act(&counter.ports));
        if self.may_defer() {
            act(&self.works.ports);
        }
    }

    pub(crate) fn engine(&self) -> Engine<'_> {
        raw::engine(&self.endpoint)
    }

    pub(crate) fn address(&self) -> Address {
        self.endpoint.address()
    }

    /// What others know it by; `None` if no socket address leads to it.
    pub(crate) fn name(&self, form: Form) -> Option<Name> {
        match form {
            Form::Own | Form::Text => Some(Name::of_address(form, &self.address())),
            Form::V4 | Form::V6 => {
                let name = Name::of_socket(form, self.endpoint.found_at()?);
                (name.form() == form).then_some(name)
            }
        }
    }

    /// A peer got a number.
    pub(crate) fn add_peer(&self, number: u64, address: &Address) -> Result<(), Error> {
        let id = self.name_peer(number, address)?;
        self.enter_peer(number, id);
        Ok(())
    }

    /// The engine's name for a peer that gets a number.
    pub(crate) fn name_peer(&self, number: u64, address: &Address) -> Result<PeerId, Error> {
        let id = raw::peer_id(self.endpoint.peer(address)?);
        if *address == self.address() {
            self.own_number.store(number, Ordering::Relaxed);
        }
        Ok(id)
    }

    pub(crate) fn enter_peer(&self, number: u64, id: PeerId) {
        self.peers.insert(number, id);
    }

    /// A number is free again. The peer is not forgotten: what was sent to it may still be on its way.
    pub(crate) fn remove_peer(&self, number: u64) {
        self.forget_place(number);
        self.peers.remove(number);
        if self.own_number.load(Ordering::Relaxed) == number {
            self.own_number.store(ADDR_UNSPEC, Ordering::Relaxed);
        }
    }

    pub(crate) fn peer(&self, number: u64) -> Result<PeerId, c_int> {
        self.peers.id(number).ok_or(libc::EINVAL)
    }

    /// The number of a message's sender, if the application wants to know.
    pub(crate) fn number_of(&self, peer: Option<PeerId>) -> Option<u64> {
        if self.caps & flag::SOURCE == 0 {
            return None;
        }
        self.peers.number(peer?)
    }

    /// Whose messages a receive takes, if only one peer's.
    fn source(&self, wanted: &Wanted) -> Result<Option<PeerId>, c_int> {
        let is_directed = self.caps & flag::DIRECTED_RECV != 0 && wanted.from != ADDR_UNSPEC;
        if is_directed { self.peer(wanted.from).map(Some) } else { Ok(None) }
    }

    /// What is to be told of an operation, by a queue it may be bound to.
    pub(crate) fn operation(binding: Option<&Binding>, how: How, flags: u64, buf: usize) -> Op {
        let wants_entry = match &how.told {
            Some(told) => told.at_endpoint && binding.is_some(),
            None => how.telling == Telling::Success && Self::wants_entry(binding, how.flags),
        };
        let telling = Telling::of_success(wants_entry);
        Op { context: how.context, buf, flags, telling, told: how.told }
    }

    pub(crate) fn wants_entry(binding: Option<&Binding>, flags: u64) -> bool {
        binding.is_some_and(|it| !it.is_selective || flags & flag::COMPLETION != 0)
    }

    /// Enters an operation, and takes it back if it is refused.
    pub(crate) fn post(
        &self,
        op: Op,
        post: impl FnOnce(Engine<'_>, Notify) -> Result<(), PostError>,
    ) -> Result<(), c_int> {
        let number = lock(&self.ops).insert(op);
        let posted = post(self.engine(), Notify { context: number, ..self.notify });
        posted.map_err(|refused| {
            lock(&self.ops).remove(number);
            errors::refusal_code(refused)
        })
    }

    /// Sends a message from the application's memory.
    pub(crate) fn send(self: &Arc<Self>, letter: &Letter, memory: Memory, how: How) -> isize {
        let kind = letter.family.flag() | flag::SEND;
        if how.when.is_some() {
            let letter = *letter;
            return self.defer(how, kind, move |port, how| port.send(&letter, memory, how));
        }
        let flags = how.flags;
        if how.told.is_none() && self.is_complete_at_once(letter, memory.len(), flags) {
            let sent = match memory.as_one() {
                Some(bytes) => self.send_copy(letter, bytes, how.context, flags),
                None if self.is_fetched(letter.to, memory.len()) => None,
                None => self.send_copy(letter, &memory.copied(), how.context, flags),
            };
            if let Some(status) = sent {
                return status;
            }
        } else if how.told.is_none()
            && how.telling == Telling::Success
            && self.give(letter, &memory, how.context, flags)
        {
            return 0;
        }
        let op = Self::operation(self.bindings.tx.as_ref(), how, kind, 0);
        let letter = *letter;
        self.to_peer(letter.to, op, move |port, peer, op| {
            port.send_to(sending(peer, &letter, flags), memory, op)
        })
    }

    fn send_to(&self, send: Send, memory: Memory, op: Op) -> isize {
        status(self.post(op, |engine, notify| {
            engine.send_queued(notify, send, memory).map_err(|refused| refused.error)
        }))
    }

    /// Receives a message into the application's memory, which begins at `buf`.
    pub(crate) fn recv(
        self: &Arc<Self>,
        wanted: &Wanted,
        (memory, buf): (Memory, usize),
        how: How,
        uses: Use,
    ) -> isize {
        let kind = wanted.family.flag() | flag::RECV;
        if how.when.is_some() {
            let wanted = *wanted;
            let post = move |port: &Arc<Self>, how| port.recv(&wanted, (memory, buf), how, uses);
            return self.defer(how, kind, post);
        }
        let op = Self::operation(self.bindings.rx.as_ref(), how, kind, buf);
        match self.source(wanted) {
            Ok(source) => self.recv_from(criteria(wanted, source), memory, op, uses),
            Err(code) => {
                let wanted = *wanted;
                self.put_off(wanted.from, op, code, move |port, peer, op| {
                    port.recv_from(criteria(&wanted, Some(peer)), memory, op, uses)
                })
            }
        }
    }

    fn recv_from(&self, criteria: Criteria, memory: Memory, op: Op, uses: Use) -> isize {
        let recv = Recv { criteria, list: List::Priority, uses, header_only: false };
        status(self.post(op, |engine, notify| {
            engine.recv_queued(notify, recv, memory).map_err(|refused| refused.error)
        }))
    }

    /// Looks for a message that no receive has taken: tells of it, sets it aside for `context`, or throws it away.
    pub(crate) fn peek(&self, wanted: &Wanted, context: usize, flags: u64) -> isize {
        let criteria = match self.source(wanted) {
            Ok(source) => criteria(wanted, source),
            Err(_) if self.is_sought(wanted.from) => return -(libc::EAGAIN as isize),
            Err(code) => return -(code as isize),
        };
        let base = Done { context, flags: wanted.family.flag() | flag::RECV, ..Done::default() };
        let found = if flags & (flag::CLAIM | flag::DISCARD) == 0 {
            self.engine().probe(&criteria)
        } else {
            self.engine().claim(&criteria).map(|(claim, envelope)| {
                if flags & flag::DISCARD != 0 {
                    self.throw_away(claim);
                } else {
                    let told = self.described(base, &envelope);
                    lock(&self.claims).insert(context, (claim, told));
                }
                envelope
            })
        };
        if let Some(binding) = &self.bindings.rx {
            binding.cq.on_peeked();
        }
        match found {
            Some(envelope) if Self::wants_entry(self.bindings.rx.as_ref(), flags) => {
                self.tell(self.described(base, &envelope));
            }
            Some(_) => {}
            None => {
                let trouble =
                    Trouble { code: code::ENOMSG, reason: errors::NO_MESSAGE, excess_len: 0 };
                self.tell(Done { tag: wanted.tag, trouble: Some(trouble), ..base });
            }
        }
        0
    }

    /// What a peek says of a message it found.
    fn described(&self, base: Done, envelope: &Envelope) -> Done {
        Done {
            flags: base.flags | envelope.immediate.map_or(0, |_| flag::REMOTE_CQ_DATA),
            len: envelope.len as usize,
            data: envelope.immediate.unwrap_or(0),
            tag: envelope.tag.0,
            source: self.number_of(Some(envelope.source)),
            ..base
        }
    }

    /// Receives, or throws away, the message that was set aside for `context`.
    pub(crate) fn claim(
        &self,
        (memory, buf): (Memory, usize),
        family: Family,
        context: usize,
        flags: u64,
    ) -> isize {
        let Some((claim, told)) = lock(&self.claims).remove(&context) else {
            return -(libc::EINVAL as isize);
        };
        let wants_entry = Self::wants_entry(self.bindings.rx.as_ref(), flags);
        let kind = family.flag() | flag::RECV;
        if flags & flag::DISCARD != 0 {
            self.throw_away(claim);
            if wants_entry {
                self.tell(told);
            }
            return 0;
        }
        let telling = Telling::of_success(wants_entry);
        let op = Op { context, buf, flags: kind, telling, told: None };
        status(self.post(op, |engine, notify| {
            let posted = engine.recv_claimed_queued(notify, claim, memory);
            posted.map_err(|refused| refused.error)
        }))
    }

    fn throw_away(&self, claim: Claim) {
        // Refused if its association ended meanwhile, and the message with it: gone either way.
        let _ = self.engine().discard(claim);
    }

    /// Cancels one operation that was posted with this context; its entry says so, or that it was too late.
    pub(crate) fn cancel(self: &Arc<Self>, context: usize) {
        if self.cancel_put_off(context) || self.cancel_deferred(context) {
            return;
        }
        let number = {
            let is_it = |op: &Op| op.context == context && op.flags & flag::RECV != 0;
            lock(&self.ops).find(is_it)
        };
        // It may have ended since: then nothing has this number any more.
        if let Some(number) = number {
            self.engine().cancel_queued(self.notify.queue, number);
        }
    }

    /// Turns the engine once, unless somebody does, and tells of what ended. A rank that waits in MPI asks without pause, and after a
    /// long time in vain may be put to sleep for moments; one that works between its questions never is.
    pub(crate) fn progress(&self, reader: &mut Reader<'_>) {
        if let Ok(mut completions) = self.completions.try_lock() {
            if self.is_holding.load(Ordering::Relaxed) {
                self.mind_crowd(&mut Vec::new());
            }
            if completions.drive_or_doze() {
                reader.mind_order();
                self.tell_all(&mut completions, reader);
            }
        }
        self.works.run();
    }

    /// Tells of what ended and sets off what waited for it. For the helper, while the application is elsewhere.
    pub(crate) fn attend(&self) {
        self.tell_all(&mut lock(&self.completions), &mut Reader::nobody());
        self.works.run();
    }

    /// Tells of all that ended.
    fn tell_all(&self, completions: &mut Completions, reader: &mut Reader<'_>) {
        let mut ops = lock(&self.ops);
        let mut many = Vec::new();
        completions.drain(|entry| {
            if !entry.is_last && self.is_crowded() {
                many.push(entry.context);
            }
            self.on_entry(&mut ops, entry, reader);
        });
        drop(ops);
        if !many.is_empty() {
            self.mind_crowd(&mut many);
        }
    }

    fn is_crowded(&self) -> bool {
        self.bindings.rx.as_ref().is_some_and(|binding| binding.cq.is_crowded())
    }

    /// Peers fill the queue faster than it is read: buffers for many messages are given back, so that what comes waits for the
    /// next one, and writes that are told of are refused. Both until the application reads on: nothing is lost. `many`: the operations
    /// that told of peers' doings.
    #[cold]
    fn mind_crowd(&self, many: &mut Vec<u64>) {
        let is_crowded = self.is_crowded();
        // Only ever changed with the completions in hand.
        if self.is_holding.swap(is_crowded, Ordering::Relaxed) != is_crowded {
            self.engine().hold_notices(is_crowded);
        }
        many.sort_unstable();
        many.dedup();
        for &number in many.iter().filter(|&&number| number != WRITTEN) {
            self.engine().unlink_queued(self.notify.queue, number);
        }
    }

    /// Readable when something ended, if it was armed before.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.endpoint.wake_fd()
    }

    /// Before somebody sleeps on `wake_fd`. False: there is something to be told already.
    pub(crate) fn arm(&self) -> bool {
        lock(&self.completions).arm()
    }

    /// For who waits until there are some; `progress` tells of them.
    pub(crate) fn completions(&self) -> Arc<Mutex<Completions>> {
        Arc::clone(&self.completions)
    }

    /// An operation ended, or a buffer for many messages took one.
    fn on_entry(&self, ops: &mut Ops, entry: &Entry, reader: &mut Reader<'_>) {
        match entry.context {
            WRITTEN => return self.on_written(entry, reader),
            LOST => return self.on_lost(entry),
            _ => {}
        }
        let op = if entry.is_last { ops.remove(entry.context) } else { ops.get(entry.context) };
        if entry.has_memory {
            drop(self.engine().take_memory(entry.request)); // a copy of ours, which nobody wants back
        }
        let done = self.done(&op, entry);
        let is_release = entry.kind == Kind::Unlinked && done.trouble.is_none();
        if !is_release {
            self.count_operation(&op, done.trouble.is_none());
        }
        if op.telling == Telling::Success || is_release || done.trouble.is_some() {
            self.tell_first(done, reader);
        }
    }

    /// A message that was complete when it was posted was not accepted. As libfabric's own providers do, that is told without a
    /// context: the operation's own was told of already, or it had none. Not told, but in the log, is what a peer left behind that
    /// went its way: MPI programs end so, and take an error for the end of the job.
    #[cold]
    fn on_lost(&self, entry: &Entry) {
        let Err(trouble) = entry.result else { return };
        let (code, reason) = errors::trouble_code(trouble);
        self.lament(entry, reason);
        if !matches!(trouble, raw::Trouble::Failed(Failure::Gone(_))) {
            return;
        }
        self.count(flag::SEND, false);
        let family = if entry.space == Family::Tagged.space() { flag::TAGGED } else { flag::MSG };
        let trouble = Some(Trouble { code, reason, excess_len: 0 });
        let (flags, tag) = (family | flag::SEND, entry.tag.0);
        self.tell(Done { flags, tag, trouble, ..Done::default() });
    }

    /// An entry of the engine in libfabric's words.
    fn done(&self, op: &Op, entry: &Entry) -> Done {
        let base = Done { context: op.context, flags: op.flags, ..Done::default() };
        let trouble = entry.result.err().map(|trouble| {
            let (code, reason) = errors::trouble_code(trouble);
            if code != libc::ECANCELED {
                self.lament(entry, reason);
            }
            Trouble { code, reason, excess_len: 0 }
        });
        match entry.kind {
            Kind::Received | Kind::Overflowed => {
                let excess_len = (entry.len - entry.placed_len) as usize;
                let cut = Trouble { code: code::ETRUNC, reason: errors::TRUNCATED, excess_len };
                Done {
                    flags: op.flags | entry.immediate.map_or(0, |_| flag::REMOTE_CQ_DATA),
                    len: entry.placed_len as usize,
                    buf: op.buf + entry.offset as usize,
                    data: entry.immediate.unwrap_or(0),
                    tag: entry.tag.0,
                    source: self.number_of(entry.peer),
                    trouble: trouble.or((excess_len > 0).then_some(cut)),
                    is_unasked: !entry.is_last,
                    ..base
                }
            }
            // A buffer for many messages is full, and the application's again: said in an entry of its own.
            Kind::Unlinked if trouble.is_none() => Done { flags: flag::MULTI_RECV, ..base },
            Kind::Sent | Kind::Unlinked | Kind::Put | Kind::Got | Kind::Atomic | Kind::Written => {
                Done { trouble, ..base }
            }
        }
    }

    fn lament(&self, entry: &Entry, reason: c_int) {
        say(Level::Warn, Subsystem::Data, || {
            let peer = entry.peer.map(|id| self.endpoint.name_of(raw::peer(id)));
            let why = errors::explanation(reason).to_string_lossy();
            format!("{}: {why}", peer.as_deref().unwrap_or("an operation without a peer"))
        });
    }

    pub(crate) fn count(&self, what: u64, is_success: bool) {
        for (flags, counter) in &self.bindings.counters {
            if flags & what != 0 {
                counter.count(is_success);
            }
        }
        self.mind_works();
    }

    pub(crate) fn tell(&self, done: Done) {
        self.tell_first(done, &mut Reader::nobody());
    }

    /// Tells `reader` of an end if it reads the queue concerned, else the queue itself.
    #[inline]
    pub(crate) fn tell_first(&self, done: Done, reader: &mut Reader<'_>) {
        let is_tx = done.flags & (flag::SEND | flag::READ | flag::WRITE) != 0;
        let binding = if is_tx { &self.bindings.tx } else { &self.bindings.rx };
        if let Some(binding) = binding
            && !reader.take(&binding.cq, &done)
        {
            binding.cq.deliver(done);
        }
    }
}
