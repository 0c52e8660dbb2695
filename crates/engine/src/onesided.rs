//! One-sided operations: memory exposed to peers, and what is asked of theirs.
//!
//! A region's memory is lent like that of a request, until it is withdrawn: peers read and write it while the engine is
//! turned, whoever turns it. Operations are requests like any other; they can be waited for, or told to a queue.

use std::collections::VecDeque;
use std::time::Duration;

use packhorse_link::mem::{Memory, MemoryId};
use packhorse_proto::{
    Access, AtomicOp, AtomicSpec, Datatype, ExposeError, GetSpec, Instant, Payload, Permitted,
    PostError, PutSpec, RegionId, RegionSpec, Remote, ReqId,
};

use crate::engine::Engine;
use crate::inner::Inner;
use crate::names::{Notify, RequestId};
use crate::post::Refused;
use crate::regions::{Region, Watcher, Written};
use crate::translate::buf_of;

/// How memory is exposed.
#[derive(Clone, Debug)]
pub struct Exposure {
    /// Its name among peers.
    pub key: u64,
    /// What they may do with it.
    pub access: Access,
    /// Which peers.
    pub permitted: Permitted,
    /// The queue that is told of writes with an immediate; `None`: [`Engine::poll_written`] tells.
    pub notify: Option<Notify>,
    /// A function that is told of all that peers do, with an immediate or without.
    pub watcher: Option<Watcher>,
}

/// Memory that was not exposed, and why.
#[derive(Debug)]
pub struct Unexposed {
    /// Why.
    pub error: ExposeError,
    /// Given back.
    pub memory: Option<Memory>,
}

/// A put to post.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    /// Where to.
    pub to: Remote,
    /// 64 bits for whoever owns the region, who is told then.
    pub immediate: Option<u64>,
}

/// An atomic operation to post; operands are copied.
#[derive(Clone, Copy, Debug)]
pub struct Atomic<'a> {
    /// Where the elements are.
    pub at: Remote,
    /// What is done.
    pub op: AtomicOp,
    /// What they are.
    pub datatype: Datatype,
    /// Bytes of all elements.
    pub len: u32,
    /// So many bytes for the operation; none for a read.
    pub operand: &'a [u8],
    /// So many bytes to compare with, if the operation compares; else none.
    pub compare: &'a [u8],
}

/// Memory for peers.
impl Engine {
    /// Exposes memory to peers, until it is withdrawn.
    pub fn expose(&self, exposure: Exposure, memory: Memory) -> Result<RegionId, Unexposed> {
        let Exposure { key, access, permitted, notify, watcher } = exposure;
        let mut inner = self.lock();
        let access = Access { write: access.write && memory.is_writable(), ..access };
        let len = memory.len();
        let memory_id = inner.core.memory().insert(memory);
        let (buf, tells_all) = (buf_of(memory_id), watcher.is_some());
        let spec = RegionSpec { key, buf, len, access, permitted, user: 0, tells_all };
        match inner.core.endpoint().expose(spec) {
            Ok(region) => {
                let this = Region { memory_id, notify, watcher, written: VecDeque::new() };
                inner.regions.regions.insert(region, this);
                self.release(inner);
                self.run_errand(self.helper.baton.on_pending(true));
                Ok(region)
            }
            Err(error) => Err(Unexposed { error, memory: inner.core.memory().remove(memory_id) }),
        }
    }

    /// Withdraws a region: its memory is the caller's again, whatever peers were doing with it. `None` if it was withdrawn
    /// before, or the engine ended.
    pub fn withdraw(&self, region: RegionId) -> Option<Memory> {
        let mut inner = self.lock();
        let now = self.now();
        let memory = inner.withdraw(region);
        self.after_post(inner, now, false);
        memory
    }

    /// Copies bytes out of a region. False if there is no such region or range.
    pub fn read_region(
        &self,
        region: RegionId,
        offset: u64,
        len: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut inner = self.lock();
        let memory_id = inner.regions.regions.get(&region).map(|this| this.memory_id);
        memory_id.is_some_and(|id| inner.core.memory().copy_out(id, offset, len, out))
    }

    /// Copies bytes into a region. False if there is no such region or range, or it cannot be written.
    pub fn write_region(&self, region: RegionId, offset: u64, bytes: &[u8]) -> bool {
        let mut inner = self.lock();
        let memory_id = inner.regions.regions.get(&region).map(|this| this.memory_id);
        memory_id.is_some_and(|id| inner.core.memory().copy_in(id, offset, bytes))
    }

    /// The next write with an immediate to a region that tells no queue.
    pub fn poll_written(&self, region: RegionId) -> Option<Written> {
        self.poll_once(|inner| inner.take_written(region)?)
    }

    /// Waits for it; `None` if the time is over first, or the region is withdrawn.
    pub fn wait_written(&self, region: RegionId, longest: Option<Duration>) -> Option<Written> {
        self.drive_until(longest, |inner| match inner.take_written(region) {
            Some(written) => written.map(Some),
            None => Some(None),
        })?
    }
}

/// Memory of peers. With `notify` a queue is told of the end, and the request need not be asked for.
impl Engine {
    /// Puts lent memory into a peer's.
    pub fn put(
        &self,
        put: Put,
        memory: Memory,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        let mut inner = self.lock_in_order();
        let (now, may_wait) = self.send_time(&mut inner, put.to.peer);
        let len = memory.len();
        inner.posted_len = inner.posted_len.max(len);
        let id = inner.core.memory().insert(memory);
        let user = inner.requests.next_id().0;
        let payload = Payload::InPlace { buf: buf_of(id), len };
        let spec = PutSpec { to: put.to, payload, immediate: put.immediate, user };
        let posted = inner.core.endpoint().put(now, spec);
        self.posted(inner, posted, (Some(id), len), notify, (now, may_wait, false))
    }

    /// Puts a copy of these bytes into a peer's memory. Refused if the resend pool is full or they are too long for it.
    pub fn put_copied(
        &self,
        put: Put,
        bytes: &[u8],
        notify: Option<Notify>,
    ) -> Result<RequestId, PostError> {
        let mut inner = self.lock_in_order();
        let (now, may_wait) = self.send_time(&mut inner, put.to.peer);
        let user = inner.requests.next_id().0;
        let payload = Payload::Copied(bytes);
        let spec = PutSpec { to: put.to, payload, immediate: put.immediate, user };
        let posted = inner.core.endpoint().put(now, spec);
        let posted = self.posted(inner, posted, (None, 0), notify, (now, may_wait, false));
        posted.map_err(|refused| refused.error)
    }

    /// Gets bytes out of a peer's memory, as many as the lent memory has.
    pub fn get(
        &self,
        from: Remote,
        memory: Memory,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        debug_assert!(memory.is_writable());
        let mut inner = self.lock_in_order();
        let (now, may_wait) = self.send_time(&mut inner, from.peer);
        let len = memory.len();
        inner.posted_len = inner.posted_len.max(len);
        let id = inner.core.memory().insert(memory);
        let user = inner.requests.next_id().0;
        let posted = inner.core.endpoint().get(now, GetSpec { from, buf: buf_of(id), len, user });
        self.posted(inner, posted, (Some(id), len), notify, (now, may_wait, true))
    }

    /// Computes with elements in a peer's memory. What was there before goes to `result`, which has their length.
    pub fn atomic(
        &self,
        atomic: Atomic<'_>,
        result: Option<Memory>,
        notify: Option<Notify>,
    ) -> Result<RequestId, Refused> {
        let Atomic { at, op, datatype, len, operand, compare } = atomic;
        if result.as_ref().is_some_and(|memory| memory.len() != u64::from(len)) {
            return Err(Refused { error: PostError::BadAtomic, memory: result });
        }
        let mut inner = self.lock_in_order();
        let (now, may_wait) = self.send_time(&mut inner, at.peer);
        let is_receive = result.is_some();
        let id = result.map(|memory| inner.core.memory().insert(memory));
        let (result, user) = (id.map(buf_of), inner.requests.next_id().0);
        let spec = AtomicSpec { at, op, datatype, len, operand, compare, result, user };
        let posted = inner.core.endpoint().atomic(now, spec);
        self.posted(inner, posted, (id, len.into()), notify, (now, may_wait, is_receive))
    }

    /// What follows a post.
    fn posted(
        &self,
        mut inner: std::sync::MutexGuard<'_, Inner>,
        posted: Result<ReqId, PostError>,
        (memory_id, len): (Option<MemoryId>, u64),
        notify: Option<Notify>,
        (now, may_wait, is_receive): (Instant, bool, bool),
    ) -> Result<RequestId, Refused> {
        match posted {
            Ok(req) => {
                let request = inner.requests.next_id();
                let slot = inner.requests.put(req, memory_id, len);
                (slot.notify, slot.is_receive) = (notify, is_receive);
                self.after_post(inner, now, may_wait);
                Ok(request)
            }
            Err(error) => {
                let memory = memory_id.and_then(|id| inner.core.memory().remove(id));
                Err(Refused { error, memory })
            }
        }
    }
}
