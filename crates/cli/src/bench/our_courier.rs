//! Packhorse as a courier: requests in the order they were posted.

use std::collections::VecDeque;

use anyhow::{Context, Result};
use packhorse::{Endpoint, Peer, Receiving, Sending, Wanted};

use super::courier::Courier;
use super::system::Pattern;

/// The one tag there is.
const TAG: u64 = 1;
/// Who has only two short buffers has them copied, as MPI's eager sends do: they are free at once.
const COPY_LEN_MAX: usize = 1024;

/// A send that was posted.
enum Going {
    Posted(Sending<Vec<u8>>),
    /// Copied: the buffer is free.
    Copied(Vec<u8>),
}

/// Packhorse.
pub(super) struct OurCourier {
    endpoint: Endpoint,
    peer: Peer,
    copy_len_max: usize,
    going: VecDeque<Going>,
    coming: VecDeque<Receiving<Vec<u8>>>,
}

impl OurCourier {
    pub(super) fn new(endpoint: Endpoint, peer: Peer, pattern: Pattern) -> Self {
        let copy_len_max = if pattern == Pattern::DoubleBuf { COPY_LEN_MAX } else { 0 };
        let (going, coming) = (VecDeque::new(), VecDeque::new());
        Self { endpoint, peer, copy_len_max, going, coming }
    }
}

impl Courier for OurCourier {
    fn send(&mut self, buffer: Vec<u8>) -> Result<()> {
        let going = if buffer.len() <= self.copy_len_max {
            self.endpoint.send_copy(self.peer, TAG, &buffer)?;
            Going::Copied(buffer)
        } else {
            Going::Posted(self.endpoint.send(self.peer, TAG, buffer))
        };
        self.going.push_back(going);
        Ok(())
    }

    fn recv(&mut self, buffer: Vec<u8>) -> Result<()> {
        self.coming.push_back(self.endpoint.recv(Wanted::tag(TAG).from(self.peer), buffer));
        Ok(())
    }

    fn try_sent(&mut self) -> Result<Option<Vec<u8>>> {
        let buffer = match self.going.front_mut() {
            None => return Ok(None),
            Some(Going::Copied(buffer)) => std::mem::take(buffer),
            Some(Going::Posted(sending)) => match sending.test() {
                None => return Ok(None),
                Some(ended) => ended?,
            },
        };
        self.going.pop_front();
        Ok(Some(buffer))
    }

    fn try_received(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(message) = self.coming.front_mut().and_then(Receiving::test) else {
            return Ok(None);
        };
        self.coming.pop_front();
        Ok(Some(message?.buffer))
    }

    fn wait_sent(&mut self) -> Result<Vec<u8>> {
        match self.going.pop_front().context("a send is under way")? {
            Going::Copied(buffer) => Ok(buffer),
            Going::Posted(sending) => Ok(sending.wait()?),
        }
    }

    fn wait_received(&mut self) -> Result<Vec<u8>> {
        let oldest = self.coming.pop_front().context("a receive is posted")?;
        Ok(oldest.wait()?.buffer)
    }
}
