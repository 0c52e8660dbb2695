//! Endpoints that are found by host and number: how one gets its number.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use packhorse_engine::door::{Door, DoorConfig};
use packhorse_engine::{HelperCpus, host_identity};
use packhorse_link::at_address;
use packhorse_link::door::{DoorError, DoorSocket, Visit};
use packhorse_proto::lookup::{Greeting, Number, Reception};
use packhorse_proto::{Address, Identity, Locator};

use crate::builder::Builder;
use crate::error::Error;
use crate::owner::owner_of;
use crate::secret::SharedSecret;

impl Builder {
    /// What this endpoint says of itself to those it speaks to, instead of a number that is drawn: 64 bits by which an interface on top
    /// tells its endpoints apart ([`raw`](crate::raw)). No two endpoints of a host may say the same at a time.
    #[must_use]
    pub fn known_as(mut self, endpoint: u64) -> Self {
        let host = host_identity();
        self.config.identity = Some(Identity { host, endpoint });
        self
    }
}

/// What a builder was told of its endpoint's number.
#[derive(Clone, Default)]
pub(crate) struct Naming {
    /// The first that is free is taken; none is wanted if there are none.
    pub(crate) numbers: Vec<Number>,
    pub(crate) secret: Option<SharedSecret>,
    pub(crate) greeter: Option<Arc<Greeter>>,
}

/// The application's word to an asker.
pub(crate) type Greeter = dyn Fn(&Greeting) -> Reception + Send + Sync;

impl fmt::Debug for Naming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Naming");
        shown.field("numbers", &self.numbers).field("secret", &self.secret).finish_non_exhaustive()
    }
}

/// A number that was taken, and nobody is answered yet.
pub(crate) struct Taken {
    number: Number,
    socket: DoorSocket,
}

impl Naming {
    /// Takes a number, if one is wanted: before anything else is opened, for it may be somebody else's.
    pub(crate) fn take(&self, bind: IpAddr) -> Result<Option<Taken>, Error> {
        for &number in &self.numbers {
            match DoorSocket::open(bind, number.port()) {
                Ok(socket) => return Ok(Some(Taken { number, socket })),
                Err(DoorError::InUse { .. }) => {}
                Err(error) => return Err(Error::Number { number: number.get(), error }),
            }
        }
        match self.numbers.last() {
            Some(last) => {
                let (number, port) = (last.get(), last.port());
                Err(Error::NumberInUse { number, port, owner: owner_of(port) })
            }
            None => Ok(None),
        }
    }

    /// Answers askers from now on.
    pub(crate) fn open(
        &self,
        taken: Taken,
        address: Address,
        is_everywhere: bool,
        versions: (u8, u8),
        cpus: HelperCpus,
    ) -> Result<Door, Error> {
        let Taken { number, socket } = taken;
        let secret = self.secret.map(SharedSecret::key);
        let config = DoorConfig { number, secret, versions, cpus };
        let receive: Box<packhorse_engine::door::Receive> = match &self.greeter {
            Some(greeter) => {
                let greeter = Arc::clone(greeter);
                Box::new(move |greeting| greeter(greeting))
            }
            None => Box::new(|_| Reception::Welcome(Greeting::default())),
        };
        let tell = move |visit: &Visit| told(address, visit, is_everywhere);
        let door = Door::open(socket, config, receive, Box::new(tell));
        door.map_err(|error| Error::System { what: "answering askers for the number", error })
    }
}

/// The address as an asker is told it: an endpoint that listens at all addresses of its host is surely reached by the
/// one that was asked, and perhaps not by the one of the default route. On this host all do.
fn told(address: Address, visit: &Visit, is_everywhere: bool) -> Address {
    let asked = visit.to.filter(|ip| is_everywhere && !ip.is_loopback());
    let there = asked.and_then(|ip| at_address(&address.locator.0, ip));
    Address { locator: there.map_or(address.locator, Locator), ..address }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_link::{tcp, udp};
    use packhorse_proto::Secret;

    #[test]
    fn who_asks_one_address_of_several_is_told_that_one() {
        let with = |locator| Address {
            secret: Secret([1, 2]),
            identity: Identity { host: 3, endpoint: 4 },
            locator: Locator(locator),
            has_helper: true,
        };
        let at = |place: &str| with(udp::to_locator(place.parse().unwrap()));
        let from = "10.0.1.7:999".parse().unwrap();
        let visit = |to: &str| Visit { len: 0, from, to: to.parse().ok() };
        let address = at("10.0.0.1:500");
        assert_eq!(told(address, &visit("10.0.1.1"), true), at("10.0.1.1:500"));
        assert_eq!(told(address, &visit("10.0.1.1"), false), address, "it is bound to one");
        assert_eq!(told(address, &visit("127.0.0.1"), true), address, "on this host");
        assert_eq!(told(address, &visit("fd00::1"), true), address, "another family");
        assert_eq!(told(address, &visit("nowhere"), true), address);
        let by_tcp = |place: &str| with(tcp::to_locator(place.parse().unwrap()));
        let address = by_tcp("10.0.0.1:500");
        assert_eq!(told(address, &visit("10.0.1.1"), true), by_tcp("10.0.1.1:500"));
        let nowhere = with([0xab; 24]);
        assert_eq!(told(nowhere, &visit("10.0.1.1"), true), nowhere, "no port of IP");
    }
}
