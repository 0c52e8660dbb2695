//! Ports of a world: of the simulated network, or of the system under a simulated application.
//!
//! A link of the system moves memory of a `Table`; a simulated application has [`AppMemory`], which notices misuse. [`Real`]
//! stands between them: what leaves is lent to its table, what lands goes into memory of that table first and is
//! then placed, as the link said. So the same scenarios and the same oracle judge real links.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use packhorse_link::around::Holds;
use packhorse_link::burst::{Piece, Train};
use packhorse_link::mem::{Memory, MemoryId, Table, UserMemory as _};
use packhorse_link::sim::SimPort;
use packhorse_link::{
    About, Around, Arrived, Burst, Front, InMemory, Landed, Landing, Link, Locator, Notice,
    SHORT_LEN_MAX, Telling,
};

use crate::memory::AppMemory;

/// What was lent for sending stays so long: a link may read it after the call, until the peer has it.
const LENT_LEN_MAX: usize = 64 << 20;

/// A link of the system.
pub(crate) struct Real {
    inner: Box<dyn Link>,
    table: Table,
    burst: Burst,
    /// Names and lengths of what was lent, oldest first.
    lent: VecDeque<(MemoryId, usize)>,
    lent_len: usize,
    /// Where payload lands.
    scratch: Option<(MemoryId, u64)>,
    /// What was expected in the last call.
    landing: Option<Landing>,
}

impl Real {
    /// Around a link.
    pub(crate) fn new(inner: Box<dyn Link>) -> Self {
        Self {
            inner,
            table: Table::default(),
            burst: Burst::default(),
            lent: VecDeque::new(),
            lent_len: 0,
            scratch: None,
            landing: None,
        }
    }

    fn lend(&mut self, memory: &mut AppMemory, id: MemoryId, offset: u64, len: usize) -> MemoryId {
        let mut bytes = Vec::with_capacity(len);
        memory.gather(packhorse_proto::BufId(id.0), offset, len, &mut bytes);
        let id = self.table.insert(bytes.into());
        self.lent.push_back((id, len));
        self.lent_len += len;
        while self.lent_len > LENT_LEN_MAX
            && let Some((old, len)) = self.lent.pop_front()
        {
            self.table.remove(old);
            self.lent_len -= len;
        }
        id
    }

    /// Copies frames of a burst whose payload lies in memory of the table.
    fn copy_burst(&mut self, from: &Burst, first: usize, memory: &mut AppMemory) {
        self.burst.clear();
        let mut number = first;
        while number < from.len() {
            if let Some((to, heads, train)) = from.train_at(number) {
                let len = train.payload_of(train.count as usize) as usize;
                let id = self.lend(memory, train.id, train.offset, len);
                self.burst.train(*to, heads, Train { id, offset: 0, ..train });
                number += train.count as usize;
                continue;
            }
            let frame = from.frame(number);
            self.burst.begin(frame.to);
            for piece in from.pieces(&frame) {
                match *piece {
                    Piece::Head { .. } => self.burst.head(from.head_bytes(piece)),
                    Piece::User { id, offset, len } => {
                        let id = self.lend(memory, id, offset, len as usize);
                        self.burst.user(id, 0, len);
                    }
                }
            }
            number += 1;
        }
    }

    /// Room for as much as may land, and the landing there.
    fn prepare(&mut self, landing: &Landing) -> Landing {
        let scratch = match self.scratch {
            Some((id, len)) if len >= landing.len => id,
            _ => {
                if let Some((old, _)) = self.scratch.take() {
                    self.table.remove(old);
                }
                let id = self.table.insert(vec![0; landing.len as usize].into());
                self.scratch = Some((id, landing.len));
                id
            }
        };
        Landing { id: scratch, offset: 0, ..*landing }
    }

    /// Places what landed in the table where the application expects it.
    fn place_landed(&mut self, count: usize, memory: &mut AppMemory) {
        let (Some(landing), Some((scratch, _))) = (self.landing, self.scratch) else { return };
        for number in 0..count {
            let Some(landed) = self.inner.arrived(number).landed else { continue };
            let len = (landed.count - 1) * landing.payload_len + landed.last_len;
            let mut bytes = Vec::with_capacity(len);
            self.table.copy_out(scratch, landed.offset, len, &mut bytes);
            memory.place(landing.id, landing.offset + landed.offset, &bytes);
        }
    }
}

impl Link<AppMemory> for Real {
    fn about(&self) -> &About {
        self.inner.about()
    }

    fn locator(&self) -> Locator {
        self.inner.locator()
    }

    fn may_reach(&mut self, to: &Locator) -> bool {
        self.inner.may_reach(to)
    }

    fn frame_len_to(&mut self, to: &Locator) -> usize {
        self.inner.frame_len_to(to)
    }

    fn card_to(&mut self, to: &Locator) -> u32 {
        self.inner.card_to(to)
    }

    fn send(&mut self, burst: &Burst, first: usize, memory: &mut AppMemory) -> io::Result<usize> {
        self.copy_burst(burst, first, memory);
        self.inner.send(&self.burst, 0, &mut self.table)
    }

    fn send_now(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool {
        self.inner.send_now(to, frames, stride)
    }

    fn receive(&mut self, landing: Option<&Landing>, memory: &mut AppMemory) -> io::Result<usize> {
        self.landing = landing.copied();
        let here = landing.map(|landing| self.prepare(landing));
        let count = self.inner.receive(here.as_ref(), &mut self.table)?;
        self.place_landed(count, memory);
        Ok(count)
    }

    fn in_memory(&mut self) -> Option<&mut dyn InMemory<AppMemory>> {
        self.inner.in_memory().is_some().then_some(self as _)
    }

    fn arrived(&self, index: usize) -> Arrived<'_> {
        let arrived = self.inner.arrived(index);
        let base = self.landing.map_or(0, |landing| landing.offset);
        let landed = arrived.landed.map(|landed| Landed { offset: base + landed.offset, ..landed });
        Arrived { landed, ..arrived }
    }

    fn is_costly_to_ask(&self) -> bool {
        self.inner.is_costly_to_ask()
    }

    fn lift(&mut self, index: usize, first: usize, _memory: &mut AppMemory) {
        // What was placed stays: these bytes are missing still, and will be written again.
        self.inner.lift(index, first, &mut self.table);
    }

    /// The memory of its nodes is made up: nobody could fetch from there.
    fn telling(&mut self) -> Option<&mut dyn Telling<AppMemory>> {
        None
    }

    fn set_trains(&mut self, is_on: bool) {
        self.inner.set_trains(is_on);
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.inner.poll_notice()
    }

    fn poll_remark(&mut self) -> Option<String> {
        self.inner.poll_remark()
    }

    fn arm(&mut self) -> bool {
        self.inner.arm()
    }

    fn disarm(&mut self) {
        self.inner.disarm();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wake_fd()
    }

    fn each_counter(&self, show: &mut dyn FnMut(&'static str, u64)) {
        self.inner.each_counter(show);
    }
}

/// A port of a node.
pub(crate) enum Port {
    Sim(SimPort),
    Real(Real),
}

impl Port {
    /// The simulated one, if it is.
    pub(crate) fn sim(&mut self) -> Option<&mut SimPort> {
        match self {
            Self::Sim(port) => Some(port),
            Self::Real(_) => None,
        }
    }
}

impl InMemory<AppMemory> for Real {
    fn put(&mut self, to: &Locator, head: &[u8], payload: &[u8]) -> bool {
        self.inner.in_memory().is_some_and(|ring| ring.put(to, head, payload))
    }

    fn look(&mut self, out: &mut [u8; SHORT_LEN_MAX]) -> Option<Front> {
        self.inner.in_memory()?.look(out)
    }

    fn follow(&mut self, skip: usize, to: MemoryId, len: usize, memory: &mut AppMemory) -> bool {
        let room = self.table.insert(vec![0; len].into());
        let ring = self.inner.in_memory();
        let is_whole = ring.is_some_and(|ring| ring.follow(skip, room, len, &mut self.table));
        let bytes = self.table.remove(room).map(Memory::into_vec);
        if is_whole {
            memory.place(to, 0, &bytes.unwrap_or_default());
        }
        is_whole
    }

    fn take(&mut self, skip: usize, to: MemoryId, len: usize, memory: &mut AppMemory) -> bool {
        let room = self.table.insert(vec![0; len].into());
        let ring = self.inner.in_memory();
        let has_more = ring.is_some_and(|ring| ring.take(skip, room, len, &mut self.table));
        let bytes = self.table.remove(room).map(Memory::into_vec);
        memory.place(to, 0, &bytes.unwrap_or_default());
        has_more
    }
}

impl Holds for Port {
    type Inside = dyn Link<AppMemory>;

    fn inside(&self) -> &Self::Inside {
        match self {
            Self::Sim(port) => port,
            Self::Real(port) => port,
        }
    }

    fn inside_mut(&mut self) -> &mut Self::Inside {
        match self {
            Self::Sim(port) => port,
            Self::Real(port) => port,
        }
    }
}

impl Around<AppMemory> for Port {
    fn send_around(
        &mut self,
        burst: &Burst,
        first: usize,
        memory: &mut AppMemory,
    ) -> io::Result<usize> {
        self.inside_mut().send(burst, first, memory)
    }

    fn send_now_around(&mut self, to: &Locator, frames: &[u8], stride: usize) -> bool {
        self.inside_mut().send_now(to, frames, stride)
    }

    fn receive_around(
        &mut self,
        landing: Option<&Landing>,
        memory: &mut AppMemory,
    ) -> io::Result<usize> {
        self.inside_mut().receive(landing, memory)
    }

    fn in_memory_around(&mut self) -> Option<&mut dyn InMemory<AppMemory>> {
        self.inside_mut().in_memory()
    }
}
