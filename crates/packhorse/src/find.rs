//! Finding an endpoint by host and number.
//!
//! ```
//! use packhorse::{Endpoint, Wanted};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let number = 32_000 + (std::process::id() % 700) as u16;
//! let server = Endpoint::builder().bind([127, 0, 0, 1]).named(number).open()?;
//! let client = Endpoint::local()?;
//! let found = client.find("localhost", number).wait()?;
//! client.send(found.peer, 1, b"hello".to_vec()).wait()?;
//! assert_eq!(server.recv(Wanted::tag(1), vec![0; 10]).wait()?.buffer, b"hello");
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use packhorse_engine::seeking::{Miss, Sighting, Wish, seek};
use packhorse_proto::Address;
use packhorse_proto::lookup::{Finding, Greeting, Number, Refusal};

use crate::builder::Builder;
use crate::endpoint::{Endpoint, Peer};
use crate::error::{Error, NotFound};
use crate::secret::SharedSecret;

/// So long a host that does not answer is asked.
const PATIENCE: Duration = Duration::from_secs(5);
/// Versions of the protocol spoken here.
const VERSIONS: (u8, u8) = (1, 1);

/// An endpoint that was found.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Found {
    /// To send to it.
    pub peer: Peer,
    /// What its application says.
    pub greeting: Greeting,
    /// Its address: whoever has it need not look.
    pub address: Address,
}

/// What answered at a host's number.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The address of the endpoint there.
    pub address: Address,
    /// What its application says.
    pub greeting: Greeting,
    /// Where the answer came from.
    pub from: SocketAddr,
    /// How long it took, from the first question on.
    pub after: Duration,
}

/// A question, without an endpoint of one's own: [`Endpoint::find`] has one.
#[derive(Clone, Debug)]
pub struct LookUp {
    host: String,
    number: Number,
    secret: Option<SharedSecret>,
    greeting: Greeting,
    longest: Duration,
}

impl LookUp {
    /// Who has this number at this host? A name, or an IPv4 or IPv6 address.
    pub fn new(host: &str, number: impl Into<Number>) -> Self {
        let (host, number) = (host.to_owned(), number.into());
        Self { host, number, secret: None, greeting: Greeting::default(), longest: PATIENCE }
    }

    /// Who has this number at this host? With the secret that the environment names (`PACKHORSE_SECRET_FILE`).
    ///
    /// # Errors
    /// Settings of the environment that make no sense.
    pub fn from_environment(host: &str, number: impl Into<Number>) -> Result<Self, Error> {
        Ok(Self::new(host, number).secret(Builder::new().secret_chosen()?))
    }

    /// With the secret that is asked for there.
    #[must_use]
    pub fn secret(mut self, secret: Option<SharedSecret>) -> Self {
        self.secret = secret;
        self
    }

    /// What the application there is shown.
    #[must_use]
    pub fn greeting(mut self, greeting: Greeting) -> Self {
        self.greeting = greeting;
        self
    }

    /// How long a host that does not answer is asked; 5 s without a word. The resolver of names has a time of its own.
    #[must_use]
    pub fn timeout(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// [`Error::NotFound`] says whether the host, the number or the secret was wrong.
    pub fn wait(&self) -> Result<Answer, Error> {
        self.run(&AtomicBool::new(false))
    }

    fn run(&self, is_unwanted: &AtomicBool) -> Result<Answer, Error> {
        let places = self.places().map_err(|why| self.error(why))?;
        let wish = Wish {
            number: self.number,
            secret: self.secret.map(SharedSecret::key),
            versions: VERSIONS,
            greeting: self.greeting,
            longest: self.longest,
        };
        match seek(&places, &wish, is_unwanted) {
            Ok(Ok(Sighting { address, greeting, from, after })) => {
                Ok(Answer { address, greeting, from, after })
            }
            Ok(Err(misses)) => Err(self.error(self.conclude(misses))),
            Err(error) => Err(Error::System { what: "asking for a number", error }),
        }
    }

    /// The addresses that the host's name stands for.
    fn places(&self) -> Result<Vec<SocketAddr>, NotFound> {
        let host = self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let unknown = |error| NotFound::UnknownHost { error };
        let found = (host.unwrap_or(&self.host), self.number.port()).to_socket_addrs();
        let mut places: Vec<SocketAddr> = Vec::new();
        for place in found.map_err(unknown)? {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        match places.is_empty() {
            true => Err(unknown(std::io::Error::other("its name stands for no address"))),
            false => Ok(places),
        }
    }

    /// What tells most, of all addresses that were asked.
    fn conclude(&self, misses: Vec<Miss>) -> NotFound {
        let has = |wanted: fn(&Finding) -> bool| misses.iter().any(|miss| wanted(&miss.finding));
        let closed = misses.iter().find_map(|miss| match miss.finding {
            Finding::Refused(Refusal::Closed, greeting) => Some(greeting),
            _ => None,
        });
        if let Some(greeting) = closed {
            return NotFound::Closed { greeting };
        }
        if has(|it| matches!(it, Finding::Refused(Refusal::WrongKey, _))) {
            return NotFound::WrongSecret { is_given: self.secret.is_some() };
        }
        if has(|it| matches!(it, Finding::Refused(Refusal::Version, _))) {
            return NotFound::Version;
        }
        if has(|it| matches!(it, Finding::Nobody | Finding::Refused(Refusal::NoSuchNumber, _))) {
            return NotFound::NoSuchNumber;
        }
        let error = misses.into_iter().find_map(|miss| miss.error);
        NotFound::Silent { after: self.longest, port: self.number.port(), error }
    }

    fn error(&self, why: NotFound) -> Error {
        Error::NotFound { host: self.host.clone(), number: self.number.get(), why }
    }
}

/// An address, from what a person writes: the address itself (`ph1:…`), or `HOST:NUMBER`, which is looked up now, with the secret that the
/// environment names (`PACKHORSE_SECRET_FILE`).
///
/// # Errors
/// The text is neither, or nothing is found there.
pub fn address_of(text: &str) -> Result<Address, Error> {
    let text = text.trim();
    match place_of(text) {
        Some((host, number)) => Ok(LookUp::from_environment(host, number)?.wait()?.address),
        None => text.parse().map_err(|error| {
            Error::Setting(format!("{text:?}: {error}; or HOST:NUMBER, as node7:42"))
        }),
    }
}

/// Host and number of `HOST:NUMBER`. An address has base64 behind its colon, of 86 digits.
fn place_of(text: &str) -> Option<(&str, u16)> {
    let (host, number) = text.rsplit_once(':')?;
    Some((host, number.parse().ok()?)).filter(|(host, _)| !host.is_empty())
}

/// A look-up under way: to be waited for, or awaited. Dropped, it ends.
///
/// Waiting is done by this thread, apart from the endpoint: one with [`Placement::Inline`](crate::Placement::Inline) makes no progress
/// meanwhile. Awaited, it is done by a thread of its own, for names are resolved by the C library, which waits.
#[derive(Debug)]
#[must_use = "nothing is asked until it is waited for or awaited"]
pub struct Find {
    endpoint: Endpoint,
    look_up: LookUp,
    running: Option<Arc<Mailbox>>,
}

/// Where the thread of a look-up leaves what it found.
#[derive(Debug, Default)]
struct Mailbox {
    end: Mutex<End>,
    is_unwanted: AtomicBool,
}

#[derive(Debug, Default)]
struct End {
    found: Option<Result<Answer, Error>>,
    waker: Option<Waker>,
}

impl Find {
    /// What the application there is shown.
    pub fn greeting(mut self, greeting: Greeting) -> Self {
        self.look_up.greeting = greeting;
        self
    }

    /// With another secret than the endpoint was opened with.
    pub fn secret(mut self, secret: Option<SharedSecret>) -> Self {
        self.look_up.secret = secret;
        self
    }

    /// How long a host that does not answer is asked; 5 s without a word. The resolver of names has a time of its own.
    pub fn timeout(mut self, longest: Duration) -> Self {
        self.look_up.longest = longest;
        self
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// [`Error::NotFound`] says whether the host, the number or the secret was wrong.
    pub fn wait(self) -> Result<Found, Error> {
        let answer = self.look_up.wait()?;
        self.take(answer)
    }

    fn take(&self, Answer { address, greeting, .. }: Answer) -> Result<Found, Error> {
        let peer = self.endpoint.peer(&address)?;
        let LookUp { host, number, .. } = &self.look_up;
        self.endpoint.shared.name_more(peer.id, &format!("number {number} at {host}"));
        Ok(Found { peer, greeting, address })
    }

    fn start(&self) -> Result<Arc<Mailbox>, Error> {
        let slot = Arc::new(Mailbox::default());
        let (theirs, look_up) = (Arc::clone(&slot), self.look_up.clone());
        let ask = move || theirs.fill(look_up.run(&theirs.is_unwanted));
        let builder = std::thread::Builder::new().name("packhorse-find".into());
        let started = packhorse_link::with_signals_blocked(|| builder.spawn(ask));
        started.map_err(|error| Error::System { what: "starting a thread that asks", error })?;
        Ok(slot)
    }
}

impl Mailbox {
    fn fill(&self, found: Result<Answer, Error>) {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.found = Some(found);
        let waker = end.waker.take();
        drop(end);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Future for Find {
    type Output = Result<Found, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = match &self.running {
            Some(slot) => Arc::clone(slot),
            None => match self.start() {
                Ok(slot) => Arc::clone(self.running.insert(slot)),
                Err(error) => return Poll::Ready(Err(error)),
            },
        };
        let mut end = slot.end.lock().unwrap_or_else(PoisonError::into_inner);
        match end.found.take() {
            Some(found) => Poll::Ready(found.and_then(|answer| self.take(answer))),
            None => {
                end.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Find {
    fn drop(&mut self) {
        if let Some(slot) = &self.running {
            slot.is_unwanted.store(true, Ordering::Relaxed);
        }
    }
}

impl Endpoint {
    /// Looks for the endpoint that has this number at that host: a name, or an IPv4 or IPv6 address. With the secret that this endpoint
    /// was opened with, if any ([`Builder::secret`](crate::Builder::secret)).
    pub fn find(&self, host: &str, number: impl Into<Number>) -> Find {
        let look_up = LookUp::new(host, number).secret(self.shared.secret);
        Find { endpoint: self.clone(), look_up, running: None }
    }

    /// Where it is found: an IP address that it is reached by, and its number's UDP port. `None` without a number, or if no IP address is
    /// in its own address.
    pub fn found_at(&self) -> Option<SocketAddr> {
        let port = self.shared.door.as_ref()?.number().port();
        let place = packhorse_link::port_of(&self.address().locator.0)?;
        Some(SocketAddr::new(place.ip(), port))
    }

    /// The number it is found by, if it was opened with one ([`Builder::named`](crate::Builder::named)).
    pub fn number(&self) -> Option<u16> {
        self.shared.door.as_ref().map(|door| door.number().get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_from_addresses() {
        assert_eq!(place_of("node7:42"), Some(("node7", 42)));
        assert_eq!(place_of("10.0.0.1:65535"), Some(("10.0.0.1", 65535)));
        assert_eq!(place_of("[fd00::1]:7"), Some(("[fd00::1]", 7)));
        for text in ["ph1:AAAA", ":7", "node7", "node7:65536", "node7:-1", ""] {
            assert_eq!(place_of(text), None, "{text}");
        }
        let error = address_of("nonsense").unwrap_err().to_string();
        assert!(error.contains("ph1:") && error.contains("HOST:NUMBER"), "{error}");
    }
}
