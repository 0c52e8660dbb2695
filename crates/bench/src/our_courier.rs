//! Packhorse as a courier: requests in the order they were posted.

use std::collections::VecDeque;

use anyhow::{Context, Result};
use packhorse::{Endpoint, Peer, Receiving, Sending, Wanted};

use crate::courier::Courier;

/// The one tag there is.
const TAG: u64 = 1;

/// Packhorse.
pub(crate) struct OurCourier {
    endpoint: Endpoint,
    peer: Peer,
    going: VecDeque<Sending<Vec<u8>>>,
    coming: VecDeque<Receiving<Vec<u8>>>,
}

impl OurCourier {
    pub(crate) fn new(endpoint: Endpoint, peer: Peer) -> Self {
        Self { endpoint, peer, going: VecDeque::new(), coming: VecDeque::new() }
    }
}

impl Courier for OurCourier {
    fn send(&mut self, buffer: Vec<u8>) -> Result<()> {
        self.going.push_back(self.endpoint.send(self.peer, TAG, buffer));
        Ok(())
    }

    fn recv(&mut self, buffer: Vec<u8>) -> Result<()> {
        self.coming.push_back(self.endpoint.recv(Wanted::tag(TAG).from(self.peer), buffer));
        Ok(())
    }

    fn try_sent(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(ended) = self.going.front_mut().and_then(Sending::test) else { return Ok(None) };
        self.going.pop_front();
        Ok(Some(ended?))
    }

    fn try_received(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(message) = self.coming.front_mut().and_then(Receiving::test) else {
            return Ok(None);
        };
        self.coming.pop_front();
        Ok(Some(message?.buffer))
    }

    fn wait_sent(&mut self) -> Result<Vec<u8>> {
        let oldest = self.going.pop_front().context("a send is under way")?;
        Ok(oldest.wait()?)
    }

    fn wait_received(&mut self) -> Result<Vec<u8>> {
        let oldest = self.coming.pop_front().context("a receive is posted")?;
        Ok(oldest.wait()?.buffer)
    }
}
