//! Who else is here: hosts with endpoints on the segments this one is on.

use std::time::{Duration, Instant};

use packhorse_link::LinkError;
use packhorse_link::packet::{self, seek::Seeker};

use crate::error::Error;
use crate::select::LinkChoice;

/// Questions go out so often: frames get lost, and who is asked may be busy.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// How often answers are looked for meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A host that answered: what is known of it without its leave.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Host {
    /// The name it goes by.
    pub name: String,
    /// The interface here by which it was found.
    pub interface: String,
    /// Its Ethernet address there.
    pub mac: [u8; 6],
    /// Endpoints of it that answered there.
    pub endpoint_count: usize,
    /// The quickest answer.
    pub round_trip: Duration,
}

/// A search under way.
#[derive(Debug)]
pub struct Search {
    seekers: Vec<Seeker>,
    /// Each endpoint once: the host it is of, and its number.
    found: Vec<(Host, u32)>,
    remarks: Vec<String>,
}

impl Search {
    /// On the interfaces of a choice of links such as `packet:eth*`, or without one on all cards. Needs the right to raw
    /// Ethernet (CAP_NET_RAW).
    ///
    /// # Errors
    /// A name that matches nothing, a link that is not raw Ethernet, or a right that is missing, with what to do about it.
    pub fn open(choice: Option<&LinkChoice>) -> Result<Self, Error> {
        let interfaces = packhorse_link::interfaces();
        let names: Vec<String> = match choice {
            Some(choice) => {
                let wishes = choice.resolve(&interfaces).map_err(Error::Setting)?;
                let wishes = wishes.into_iter().filter(|wish| *wish.kind == packet::KIND);
                wishes.filter_map(|wish| wish.on).map(|on| on.name).collect()
            }
            None => {
                let cards = interfaces.iter().filter(|interface| interface.card_rank.is_some());
                cards.map(|interface| interface.name.clone()).collect()
            }
        };
        if names.is_empty() {
            let why = "peers are looked for on Ethernet, and no such interface is chosen";
            let there = crate::select::what_there_is(&interfaces);
            return Err(Error::Setting(format!("{why}: name one as packet:NAME; {there}")));
        }
        let seekers = names.iter().map(|name| Seeker::open(name)).collect::<Result<_, _>>();
        let seekers = seekers.map_err(LinkError::Packet)?;
        Ok(Self { seekers, found: Vec::new(), remarks: Vec::new() })
    }

    /// The interfaces it asks on.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        self.seekers.iter().map(Seeker::interface)
    }

    /// Asks for so long. `on_host` hears of each host when its first answer comes.
    ///
    /// # Errors
    /// What the system says of a socket that does not work any more.
    pub fn run(&mut self, time: Duration, mut on_host: impl FnMut(&Host)) -> Result<(), Error> {
        let failed = |error| Error::System { what: "asking for peers", error };
        let end = Instant::now() + time;
        let mut ask_at = Instant::now();
        while Instant::now() < end {
            for number in 0..self.seekers.len() {
                if Instant::now() >= ask_at {
                    self.seekers[number].ask().map_err(failed)?;
                }
                for found in self.seekers[number].poll().map_err(failed)? {
                    let host = Host {
                        name: found.name,
                        interface: self.seekers[number].interface().to_owned(),
                        mac: found.station.mac,
                        endpoint_count: 1,
                        round_trip: found.after,
                    };
                    self.take(host, found.station.endpoint, &mut on_host);
                }
                let seeker = &mut self.seekers[number];
                self.remarks.extend(std::iter::from_fn(|| seeker.poll_remark()));
            }
            if Instant::now() >= ask_at {
                ask_at = Instant::now() + ASK_EVERY;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn take(&mut self, host: Host, endpoint: u32, on_host: &mut impl FnMut(&Host)) {
        let is_same =
            |a: &Host| (&a.name, &a.interface, a.mac) == (&host.name, &host.interface, host.mac);
        match self.found.iter_mut().find(|(known, number)| is_same(known) && *number == endpoint) {
            Some((known, _)) => known.round_trip = known.round_trip.min(host.round_trip),
            None => {
                if !self.found.iter().any(|(known, _)| is_same(known)) {
                    on_host(&host);
                }
                self.found.push((host, endpoint));
            }
        }
    }

    /// The hosts that answered, by name.
    pub fn hosts(&self) -> Vec<Host> {
        let mut hosts: Vec<Host> = Vec::new();
        for (found, _) in &self.found {
            let is_same = |host: &&mut Host| {
                (&host.name, &host.interface, host.mac)
                    == (&found.name, &found.interface, found.mac)
            };
            match hosts.iter_mut().find(is_same) {
                Some(host) => {
                    host.endpoint_count += 1;
                    host.round_trip = host.round_trip.min(found.round_trip);
                }
                None => hosts.push(found.clone()),
            }
        }
        hosts.sort_by(|a, b| (&a.name, &a.interface, a.mac).cmp(&(&b.name, &b.interface, b.mac)));
        hosts
    }

    /// What went wrong without being fatal: an interface that is down, say.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }
}
