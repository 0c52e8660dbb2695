//! One-sided operations: memory that peers read and write by themselves.
//!
//! ```
//! use packhorse::{Access, AtomicOp, Datatype, Endpoint};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (a, b) = (Endpoint::local()?, Endpoint::local()?);
//! let region = b.expose(vec![0; 100], 7, Access::ALL)?; // key 7: both sides must know it
//! let there = a.peer(&b.address())?.memory(7);
//!
//! a.put(there.at(10), b"hello".to_vec()).wait()?;
//! assert_eq!(a.get(there.at(10), vec![0; 5]).wait()?, b"hello");
//!
//! let before = a.fetch(there, AtomicOp::Sum, Datatype::U64, &3_u64.to_le_bytes()).wait()?;
//! assert_eq!(before, [0; 8]);
//! assert_eq!(region.read(0, 8)?, 3_u64.to_le_bytes());
//! # Ok(())
//! # }
//! ```
//!
//! The other side need not do anything: its engine does, whoever turns it. An operation that ended well is done: its bytes are
//! in their place. Operations of one endpoint on the memory of one peer begin in the order in which they were posted, and those
//! of up to [`Settings::put_parts_len_max`](crate::Settings) bytes are carried out in that order; between operations and messages there is no
//! order. Atomic operations are atomic towards each other, not towards the program's own use of the memory.
//!
//! A region owns its buffer, and gives it back when it is withdrawn; until then it can be read and written through it.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use packhorse_engine::{Atomic, Exposure, Put};
use packhorse_link::mem::Memory;
use packhorse_proto::{Access, AtomicOp, Datatype, Permitted, PostError, RegionId};

use crate::buffer::Buffer;
use crate::endpoint::{Endpoint, Peer, Shared, check_segments, check_writable};
use crate::error::{Error, Failed};
use crate::request::{Getting, Putting};

/// A place in a peer's exposed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Whose.
    pub peer: Peer,
    /// Which of its regions.
    pub key: u64,
    /// Bytes from the region's start.
    pub offset: u64,
}

impl Peer {
    /// The start of the memory this peer exposes under `key`.
    pub fn memory(self, key: u64) -> Remote {
        Remote { peer: self, key, offset: 0 }
    }
}

impl Remote {
    /// So many bytes from the region's start.
    pub fn at(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    pub(crate) fn to_proto(self) -> packhorse_proto::Remote {
        packhorse_proto::Remote { peer: self.peer.id, key: self.key, offset: self.offset }
    }
}

/// Which peers may use a region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Peers {
    /// Every peer: whoever has this endpoint's address. At an endpoint that is found by its number ([`Builder::named`](crate::Builder::named))
    /// anybody may have that, so there it means those this endpoint was told of, as [`Named`](Self::Named) does.
    #[default]
    Any,
    /// Every peer, also those that found this endpoint by its number.
    Everybody,
    /// Those this endpoint was told of ([`Endpoint::peer`]), before or after. A peer that comes under the name of one of them must show
    /// the secret in its address, too. Whoever holds that address can.
    Named,
    /// These peers.
    Only(Vec<Peer>),
}

/// A peer put bytes into a region, with an immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Who.
    pub peer: Peer,
    /// Where.
    pub offset: u64,
    /// How many; they are there.
    pub len: u64,
    /// 64 bits beside them.
    pub immediate: u64,
}

/// Memory exposed to peers. Dropped, it is withdrawn.
pub struct Region<B: Buffer> {
    shared: Arc<Shared>,
    id: RegionId,
    key: u64,
    buffer: PhantomData<fn() -> B>,
}

impl<B: Buffer> std::fmt::Debug for Region<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").field("key", &self.key).finish()
    }
}

impl<B: Buffer> Region<B> {
    /// Its name among peers.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// A copy of what is there now.
    pub fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let is_there = self.shared.engine.read_region(self.id, offset, len, &mut bytes);
        if is_there { Ok(bytes) } else { Err(Error::NoSuchRange) }
    }

    /// Puts bytes there. A shared buffer cannot be written.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let is_there = self.shared.engine.write_region(self.id, offset, bytes);
        if is_there { Ok(()) } else { Err(Error::NoSuchRange) }
    }

    /// The next put with an immediate, if there was one; the endpoint is turned once.
    pub fn written(&self) -> Option<Written> {
        self.shared.engine.poll_written(self.id).map(Into::into)
    }

    /// Waits for the next put with an immediate, so long at most, driving the endpoint meanwhile.
    pub fn wait_written(&self, longest: Option<Duration>) -> Option<Written> {
        self.shared.engine.wait_written(self.id, longest).map(Into::into)
    }

    /// Gives the buffer back; operations of peers that are not complete end with an error there. `None` if the endpoint was
    /// closed before, and the buffer with it.
    pub fn withdraw(self) -> Option<B> {
        self.shared.engine.withdraw(self.id).map(B::from_memory)
    }
}

impl<B: Buffer> Drop for Region<B> {
    fn drop(&mut self) {
        drop(self.shared.engine.withdraw(self.id));
    }
}

impl From<packhorse_engine::Written> for Written {
    fn from(written: packhorse_engine::Written) -> Self {
        let packhorse_engine::Written { peer, offset, len, immediate } = written;
        Self { peer: Peer { id: peer }, offset, len, immediate }
    }
}

impl Endpoint {
    /// Exposes a buffer to every peer, under a key that no other region of this endpoint has.
    pub fn expose<B: Buffer>(
        &self,
        buffer: B,
        key: u64,
        access: Access,
    ) -> Result<Region<B>, Failed<B>> {
        self.expose_to(Peers::Any, buffer, key, access)
    }

    /// Exposes a buffer to some peers.
    pub fn expose_to<B: Buffer>(
        &self,
        peers: Peers,
        buffer: B,
        key: u64,
        access: Access,
    ) -> Result<Region<B>, Failed<B>> {
        let memory = buffer.into_memory();
        let writable = if access.write { check_writable(&memory) } else { Ok(()) };
        if let Err(error) = check_segments(&memory).and(writable) {
            return Err(Failed { error, buffer: Some(B::from_memory(memory)) });
        }
        let permitted = match peers {
            Peers::Any => Permitted::Any,
            Peers::Everybody => Permitted::Everybody,
            Peers::Named => Permitted::Named,
            Peers::Only(peers) => Permitted::Only(peers.iter().map(|peer| peer.id).collect()),
        };
        let exposure = Exposure { key, access, permitted, notify: None, watcher: None };
        match self.shared.engine.expose(exposure, memory) {
            Ok(id) => Ok(Region { shared: Arc::clone(&self.shared), id, key, buffer: PhantomData }),
            Err(refused) => Err(Failed {
                error: refused.error.into(),
                buffer: refused.memory.map(B::from_memory),
            }),
        }
    }

    /// Puts bytes into a peer's memory.
    pub fn put<B: Buffer>(&self, to: Remote, buffer: B) -> Putting<B> {
        self.put_memory(to, None, buffer)
    }

    /// Puts bytes into a peer's memory and tells its owner when they are there ([`Region::written`]).
    pub fn put_with_immediate<B: Buffer>(
        &self,
        to: Remote,
        buffer: B,
        immediate: u64,
    ) -> Putting<B> {
        self.put_memory(to, Some(immediate), buffer)
    }

    fn put_memory<B: Buffer>(&self, to: Remote, immediate: Option<u64>, buffer: B) -> Putting<B> {
        let memory = buffer.into_memory();
        if let Err(error) = check_segments(&memory) {
            return Putting::refused(error, Some(memory));
        }
        let put = Put { to: to.to_proto(), immediate };
        match self.shared.engine.put(put, memory, None) {
            Ok(id) => Putting::open(&self.shared, id),
            Err(refused) => Putting::refused(refused.error.into(), refused.memory),
        }
    }

    /// Gets bytes out of a peer's memory: as many as the buffer has.
    pub fn get<B: Buffer>(&self, from: Remote, buffer: B) -> Getting<B> {
        let memory = buffer.into_memory();
        if let Err(error) = check_segments(&memory).and_then(|()| check_writable(&memory)) {
            return Getting::refused(error, Some(memory));
        }
        match self.shared.engine.get(from.to_proto(), memory, None) {
            Ok(id) => Getting::open(&self.shared, id),
            Err(refused) => Getting::refused(refused.error.into(), refused.memory),
        }
    }

    /// Combines elements in a peer's memory with these operands (little-endian, one behind the other).
    pub fn atomic(
        &self,
        at: Remote,
        op: AtomicOp,
        datatype: Datatype,
        operands: &[u8],
    ) -> Putting<Vec<u8>> {
        match self.post_atomic(at, (op, datatype), operands, &[], None) {
            Ok(id) => Putting::open(&self.shared, id),
            Err((error, memory)) => Putting::refused(error, memory),
        }
    }

    /// Combines elements in a peer's memory with these operands, and fetches what was there before. For [`AtomicOp::Read`] the operands only say how much.
    pub fn fetch(
        &self,
        at: Remote,
        op: AtomicOp,
        datatype: Datatype,
        operands: &[u8],
    ) -> Getting<Vec<u8>> {
        self.compare(at, op, datatype, operands, &[])
    }

    /// Fetches and combines by operations that compare ([`AtomicOp::Cswap`] and its kin, [`AtomicOp::Mswap`]): `compare` is as long as
    /// the operands.
    pub fn compare(
        &self,
        at: Remote,
        op: AtomicOp,
        datatype: Datatype,
        operands: &[u8],
        compare: &[u8],
    ) -> Getting<Vec<u8>> {
        let result = Memory::from(vec![0; operands.len()]);
        match self.post_atomic(at, (op, datatype), operands, compare, Some(result)) {
            Ok(id) => Getting::open(&self.shared, id),
            Err((error, memory)) => Getting::refused(error, memory),
        }
    }

    fn post_atomic(
        &self,
        at: Remote,
        (op, datatype): (AtomicOp, Datatype),
        operands: &[u8],
        compare: &[u8],
        mut result: Option<Memory>,
    ) -> Result<packhorse_engine::RequestId, (Error, Option<Memory>)> {
        let len = u32::try_from(operands.len()).unwrap_or(u32::MAX);
        let operand = if op.writes() { operands } else { &[] };
        let atomic = Atomic { at: at.to_proto(), op, datatype, len, operand, compare };
        loop {
            match self.shared.engine.atomic(atomic, result, None) {
                Ok(id) => return Ok(id),
                // Operands are copied; operations that end make room.
                Err(refused) if refused.error == PostError::PoolFull => {
                    result = refused.memory;
                    if self.shared.engine.turn() == 0 {
                        std::thread::yield_now();
                    }
                }
                Err(refused) => return Err((refused.error.into(), refused.memory)),
            }
        }
    }
}
