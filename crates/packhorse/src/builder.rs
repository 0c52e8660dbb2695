//! How an endpoint is opened.

mod words;

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use packhorse_engine::{Config, CopyOffload, Engine, HelperCpus, Offload, Placement};
use packhorse_link::faults::Faults;
use packhorse_proto::lookup::{Greeting, Number, Reception};
use packhorse_proto::{Limits, Settings};

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::links;
use crate::named::Naming;
use crate::quantity::{self, Unit};
use crate::secret::SharedSecret;
use crate::select::LinkChoice;
use words::{
    as_ns, file_of_this_process, parse_copies, parse_cpus, parse_offload, parse_placement,
    parse_ports, parse_switch, unknown,
};

/// Settings of an endpoint. What is not said here is as the environment says (`PACKHORSE_*`, see [`Builder::ENVIRONMENT`]), or by default.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) link: LinkChoice,
    pub(crate) bind: IpAddr,
    pub(crate) ports: RangeInclusive<u16>,
    pub(crate) path_count: u8,
    pub(crate) tcp_stream_count: u8,
    pub(crate) trains: bool,
    pub(crate) shm_cma: bool,
    pub(crate) small_socket_buffers: bool,
    pub(crate) faults: Option<Faults>,
    pub(crate) capture: Option<PathBuf>,
    pub(crate) payload_check: Option<bool>,
    pub(crate) discoverable: Option<bool>,
    counters: Option<PathBuf>,
    log: bool,
    pub(crate) config: Config,
    naming: Naming,
    linger: Duration,
    /// A variable of the environment that made no sense.
    complaint: Option<String>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            link: LinkChoice::default(),
            bind: Ipv4Addr::UNSPECIFIED.into(),
            ports: 0..=0,
            path_count: 1,
            tcp_stream_count: 1,
            trains: true,
            shm_cma: true,
            small_socket_buffers: false,
            faults: None,
            capture: None,
            payload_check: None,
            discoverable: None,
            counters: None,
            log: false,
            config: Config { settings: links::settings(), ..Config::default() },
            naming: Naming::default(),
            linger: Duration::from_secs(30),
            complaint: None,
        }
    }
}

impl Builder {
    /// The environment's variables, each with what it says.
    pub const ENVIRONMENT: &'static [(&'static str, &'static str)] = &[
        (
            "PACKHORSE_LINK",
            "auto, udp, udp:eth0, udp:10.0.0.0/8, … with commas between; !docker* leaves out",
        ),
        ("PACKHORSE_PLACEMENT", "thread or inline"),
        (
            "PACKHORSE_HELPER_CPUS",
            "cores of the helper thread: all, inherit, or a list such as 0-3,6",
        ),
        (
            "PACKHORSE_OFFLOAD",
            "what the helper does while the application computes: none, receive, send or both",
        ),
        (
            "PACKHORSE_COPY_OFFLOAD",
            "off, auto, or the length (128K) of a burst from which on a second thread helps to copy what arrives in whole frames",
        ),
        ("PACKHORSE_BIND", "the local IP address"),
        ("PACKHORSE_PORTS", "LO-HI: UDP and TCP ports are taken from this range"),
        ("PACKHORSE_PATHS", "source ports used side by side, 1 to 4"),
        ("PACKHORSE_TCP_STREAMS", "TCP streams to each peer, 1 to 4, where one flow is capped"),
        ("PACKHORSE_TRAINS", "on or off: segmentation and receive offload of UDP"),
        (
            "PACKHORSE_SHM_CMA",
            "on or off: large messages on one host are read from the sender's memory, where the system lets us",
        ),
        ("PACKHORSE_CHECK", "on or off: payload check"),
        (
            "PACKHORSE_SPIN_US",
            "time (50us; bare: microseconds) a waiting thread spins before it sleeps; looks in a loop spin for half a second at least",
        ),
        ("PACKHORSE_EAGER", "length (64K) up to which a message goes without announcement"),
        (
            "PACKHORSE_AHEAD",
            "length (64K) of that part of a longer message that follows its announcement before it is asked for",
        ),
        (
            "PACKHORSE_FETCH",
            "length (14K) from which on a message is read from its sender's memory",
        ),
        ("PACKHORSE_ACK_EVERY", "frames per acknowledgement"),
        ("PACKHORSE_GRANT_PACKETS", "frames per grant"),
        ("PACKHORSE_GRANT_AHEAD", "granted frames still missing when the next grant goes out"),
        (
            "PACKHORSE_DISCOVER",
            "on or off: answer `packhorse peers` with the host's name, where there is raw Ethernet",
        ),
        (
            "PACKHORSE_SECRET_FILE",
            "file with 32 hexadecimal digits that its owner alone can read: endpoints with a number are found by holders of the same",
        ),
        (
            "PACKHORSE_CONTACT_S",
            "time (8s; bare: seconds) after which a peer that never answered is not there",
        ),
        (
            "PACKHORSE_LINGER_S",
            "time (30s; bare: seconds) for which closing waits at most until what was sent is accepted",
        ),
        (
            "PACKHORSE_CAPTURE",
            "pcapng file that every frame is written to; the process id stands before its extension",
        ),
        ("PACKHORSE_LOG", "on or off: remarks of an endpoint go to standard error when it closes"),
        (
            "PACKHORSE_FAULTS",
            "for tests: loss=10000,reorder=20000,duplicate=…,corrupt=…,seed=… frames of a million go wrong on their way out",
        ),
        (
            "PACKHORSE_COUNTERS",
            "counters are written there as JSON when an endpoint ends, the sums over those of the process; the process id is appended",
        ),
    ];

    /// As the environment says.
    pub fn new() -> Self {
        let mut builder = Self::default();
        for (name, value) in std::env::vars_os() {
            // Those of the MX face are its own.
            let is_ours =
                |name: &&str| name.starts_with("PACKHORSE_") && !name.starts_with("PACKHORSE_MX_");
            let Some(name) = name.to_str().filter(is_ours) else { continue };
            let done = match value.to_str() {
                Some(value) => builder.apply(name, value),
                None => Err(format!("{name}: not text")),
            };
            if let Err(complaint) = done {
                builder.complaint = Some(complaint);
            }
        }
        builder
    }

    /// Without a look at the environment.
    pub fn plain() -> Self {
        Self::default()
    }

    /// Sets what one variable of the environment would set ([`Self::ENVIRONMENT`]). What makes no sense is an error when the
    /// endpoint is opened.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        if let Err(complaint) = self.apply(name, value) {
            self.complaint = Some(complaint);
        }
        self
    }

    fn apply(&mut self, name: &str, value: &str) -> Result<(), String> {
        let complain = |must: String| format!("{name}={value}: {must}");
        let wrong = |must: &str| complain(format!("must be {must}"));
        let time_ns = |bare| quantity::time(value, bare).map(as_ns).map_err(complain);
        match name {
            "PACKHORSE_LINK" => self.link = value.parse().map_err(|e| format!("{name}: {e}"))?,
            "PACKHORSE_PLACEMENT" => {
                self.config.placement =
                    parse_placement(value).ok_or_else(|| wrong("thread or inline"))?;
            }
            "PACKHORSE_OFFLOAD" => {
                let must = "none, receive, send or both";
                self.config.offload = parse_offload(value).ok_or_else(|| wrong(must))?;
            }
            "PACKHORSE_COPY_OFFLOAD" => {
                self.config.copy_offload = match value {
                    "off" => CopyOffload::Off,
                    "auto" => CopyOffload::Auto,
                    len => CopyOffload::From(parse_copies(len).map_err(complain)?),
                };
            }
            "PACKHORSE_HELPER_CPUS" => {
                let must = "all, inherit, or a list of cores such as 0-3,6";
                self.config.helper_cpus = parse_cpus(value).ok_or_else(|| wrong(must))?;
            }
            "PACKHORSE_BIND" => self.bind = value.parse().map_err(|_| wrong("an IP address"))?,
            "PACKHORSE_PORTS" => {
                self.ports =
                    parse_ports(value).ok_or_else(|| wrong("a range such as 7000-7099"))?;
            }
            "PACKHORSE_PATHS" => {
                let count = value.parse().ok().filter(|count| (1..=4).contains(count));
                self.path_count = count.ok_or_else(|| wrong("1 to 4"))?;
            }
            "PACKHORSE_TCP_STREAMS" => {
                let count = value.parse().ok().filter(|count| (1..=4).contains(count));
                self.tcp_stream_count = count.ok_or_else(|| wrong("1 to 4"))?;
            }
            "PACKHORSE_TRAINS" => {
                self.trains = parse_switch(value).ok_or_else(|| wrong("on or off"))?;
            }
            "PACKHORSE_SHM_CMA" => {
                self.shm_cma = parse_switch(value).ok_or_else(|| wrong("on or off"))?;
            }
            "PACKHORSE_CHECK" => {
                let switch = parse_switch(value).ok_or_else(|| wrong("on or off"))?;
                self.payload_check = Some(switch);
            }
            "PACKHORSE_SPIN_US" => self.config.spin_ns = time_ns(Unit::Microseconds)?,
            "PACKHORSE_DISCOVER" => {
                let switch = parse_switch(value).ok_or_else(|| wrong("on or off"))?;
                self.discoverable = Some(switch);
            }
            "PACKHORSE_SECRET_FILE" => {
                let secret = SharedSecret::from_file(value);
                self.naming.secret = Some(secret.map_err(|error| format!("{name}: {error}"))?);
            }
            "PACKHORSE_LINGER_S" => {
                let time = quantity::time(value, Unit::Seconds).map_err(complain)?;
                *self = std::mem::take(self).linger(time);
            }
            "PACKHORSE_CAPTURE" => self.capture = Some(file_of_this_process(value)),
            "PACKHORSE_FAULTS" => {
                self.faults = Some(value.parse().map_err(|e| format!("{name}: {e}"))?);
            }
            "PACKHORSE_COUNTERS" => self.counters = Some(value.into()),
            "PACKHORSE_LOG" => self.log = parse_switch(value).ok_or_else(|| wrong("on or off"))?,
            _ => return self.apply_to_protocol(name, value),
        }
        Ok(())
    }

    /// Applies a setting of the protocol itself.
    fn apply_to_protocol(&mut self, name: &str, value: &str) -> Result<(), String> {
        let complain = |must: String| format!("{name}={value}: {must}");
        let short =
            || quantity::len(value, u32::MAX.into()).map(|len| len as u32).map_err(complain);
        let count = || value.parse().map_err(|_| complain("must be a number of frames".into()));
        let settings = &mut self.config.settings;
        match name {
            "PACKHORSE_EAGER" => settings.eager_len_max = short()?,
            "PACKHORSE_AHEAD" => settings.ahead_len = short()?,
            "PACKHORSE_FETCH" => settings.fetch_len_min = short()?,
            "PACKHORSE_ACK_EVERY" => settings.ack_every = count()?,
            "PACKHORSE_GRANT_PACKETS" => settings.grant_packets = count()?,
            "PACKHORSE_GRANT_AHEAD" => settings.grant_ahead = count()?,
            "PACKHORSE_CONTACT_S" => {
                let time = quantity::time(value, Unit::Seconds).map_err(complain)?;
                settings.contact_after_ns = as_ns(time);
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// Who turns the endpoint when nobody waits, as chosen so far.
    pub fn placement_chosen(&self) -> Placement {
        self.config.placement
    }

    /// Chooses the links.
    #[must_use]
    pub fn link(mut self, link: LinkChoice) -> Self {
        self.link = link;
        self
    }

    /// Chooses the links by a text such as `udp:eth*,!docker*`, as [`LinkChoice`] explains it. What makes no sense is told by
    /// [`Builder::open`].
    #[must_use]
    pub fn links(mut self, text: &str) -> Self {
        match text.parse() {
            Ok(link) => self.link = link,
            Err(complaint) => self.complaint = Some(complaint),
        }
        self
    }

    /// The local address. By default all, and the one of the default route goes into the endpoint's address.
    #[must_use]
    pub fn bind(mut self, ip: impl Into<IpAddr>) -> Self {
        self.bind = ip.into();
        self
    }

    /// Takes its port from this range.
    #[must_use]
    pub fn ports(mut self, ports: RangeInclusive<u16>) -> Self {
        self.ports = ports;
        self
    }

    /// So many source ports side by side, where one flow is capped.
    #[must_use]
    pub fn paths(mut self, count: u8) -> Self {
        self.path_count = count.clamp(1, 4);
        self
    }

    /// So many TCP streams to each peer, 1 to 4, where the network caps each flow: long messages are shared out among them. Both sides
    /// must say so; there are as many as the one that says less has.
    #[must_use]
    pub fn tcp_streams(mut self, count: u8) -> Self {
        self.tcp_stream_count = count.clamp(1, 4);
        self
    }

    /// Whether large messages between processes of one host and one user may be read from the sender's memory. On by default, where the
    /// system lets us; otherwise, and when off, they go through the shared rings.
    #[must_use]
    pub fn shm_cma(mut self, on: bool) -> Self {
        self.shm_cma = on;
        self
    }

    /// Whether UDP may send and receive trains of frames in one system call. On by default; probed, never assumed.
    #[must_use]
    pub fn trains(mut self, on: bool) -> Self {
        self.trains = on;
        self
    }

    /// Asks for no larger socket buffers than an unprivileged user gets, even if this one could.
    #[must_use]
    pub fn small_socket_buffers(mut self, on: bool) -> Self {
        self.small_socket_buffers = on;
        self
    }

    /// Who turns the endpoint when nobody waits.
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        self.config.placement = placement;
        self
    }

    /// What the helper thread may do while the program computes; all, by default. For experiments: [`Offload`] says what each means.
    #[must_use]
    pub fn offload(mut self, offload: Offload) -> Self {
        self.config.offload = offload;
        self
    }

    /// Whether a second thread helps to copy payload of large messages that arrives in whole frames; not, by default.
    #[must_use]
    pub fn copy_offload(mut self, copies: CopyOffload) -> Self {
        self.config.copy_offload = copies;
        self
    }

    /// So many granted frames are still missing when more is granted: 0 asks for each block when the one before is complete
    /// (RMPP's 0 to 15). By default fitted to the links.
    #[must_use]
    pub fn grant_ahead(self, frames: u32) -> Self {
        self.settings(|settings| settings.grant_ahead = frames)
    }

    /// On which cores the helper thread may run. By default on all that the process's group has, even if the thread that opens
    /// the endpoint is bound to one.
    #[must_use]
    pub fn helper_cpus(mut self, cpus: HelperCpus) -> Self {
        self.config.helper_cpus = cpus;
        self
    }

    /// What the network can make it hold.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.config.limits = limits;
        self
    }

    /// Changes settings of the protocol.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.config.settings);
        self
    }

    /// Sums payload with CRC32C. By default only where the link has no check of its own, and under faults.
    #[must_use]
    pub fn payload_check(mut self, on: bool) -> Self {
        self.payload_check = Some(on);
        self
    }

    /// How long a waiting thread spins before it sleeps.
    #[must_use]
    pub fn spin(mut self, time: Duration) -> Self {
        self.config.spin_ns = as_ns(time);
        self
    }

    /// Silence after which a peer with a helper is gone; 60 s by default.
    #[must_use]
    pub fn gone_after(mut self, time: Duration) -> Self {
        self.config.settings.gone_after_ns = as_ns(time);
        self
    }

    /// How long a peer whose address announces a helper may leave first contact without any answer; 8 s by default. One without
    /// (placement `inline`) may compute for long: for it, and if that is less, [`Builder::gone_after`] counts.
    #[must_use]
    pub fn contact_after(mut self, time: Duration) -> Self {
        self.config.settings.contact_after_ns = as_ns(time);
        self
    }

    /// How long closing waits for acceptance; 30 s by default.
    #[must_use]
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = time;
        self.config.settings.linger_ns = as_ns(time);
        self
    }

    /// Loses, doubles, reorders and damages what is sent, from a seed. For tests; payload is summed then.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = Some(faults);
        self
    }

    /// Whether those who ask into a segment of raw Ethernet who is there (`packhorse peers`) get this host's name for an answer, and
    /// nothing else. Without a word, an endpoint that uses raw Ethernet anyway answers; with `true`, `auto` opens it for that; with
    /// `false`, nobody is answered.
    #[must_use]
    pub fn discoverable(mut self, on: bool) -> Self {
        self.discoverable = Some(on);
        self
    }

    /// To be found by this number at this host ([`Endpoint::find`]), beside being reached by its address. The number is a UDP port: from
    /// 1024 on that which is written the same, below that 61440 + number. Who has the port has the number, of the address that the
    /// endpoint is bound to or of all of the host's; [`Builder::open`] says who has it if it is in use. It is free again when the
    /// endpoint or its process ends, however it ends; a forked child that lives on has it, too.
    ///
    /// Whoever asks gets the address, unless there is a [`secret`](Self::secret). So memory that is exposed to
    /// [`Peers::Any`](crate::Peers::Any) is not exposed to them.
    #[must_use]
    pub fn named(self, number: impl Into<Number>) -> Self {
        self.named_one_of([number])
    }

    /// To be found, as by [`Builder::named`], by the first of these numbers that is free; [`Endpoint::number`] says which that is.
    #[must_use]
    pub fn named_one_of<N: Into<Number>>(mut self, numbers: impl IntoIterator<Item = N>) -> Self {
        self.naming.numbers = numbers.into_iter().map(Into::into).collect();
        self
    }

    /// Only holders of the same secret find this endpoint by its number, and it finds others by this one. It protects the
    /// address and nothing else: what is sent is as readable as ever.
    #[must_use]
    pub fn secret(mut self, secret: SharedSecret) -> Self {
        self.naming.secret = Some(secret);
        self
    }

    /// The secret chosen so far.
    pub(crate) fn secret_chosen(&self) -> Result<Option<SharedSecret>, Error> {
        match &self.complaint {
            Some(complaint) => Err(Error::Setting(complaint.clone())),
            None => Ok(self.naming.secret),
        }
    }

    /// What peers are told that find this endpoint by its number: its version, say.
    #[must_use]
    pub fn greeting(self, greeting: Greeting) -> Self {
        self.greeter(move |_| Reception::Welcome(greeting))
    }

    /// Asks the application about each asker for this endpoint's number that has the secret, if there is one: it sees the 32 bytes that
    /// the asker's application sent and says 32 of its own, with the address or instead of it. Nothing is known of the asker but
    /// these bytes, and the same one may ask again. Called by a thread of its own; if it panics the process ends.
    #[must_use]
    pub fn greeter(
        mut self,
        greeter: impl Fn(&Greeting) -> Reception + Send + Sync + 'static,
    ) -> Self {
        self.naming.greeter = Some(Arc::new(greeter));
        self
    }

    /// Writes every frame to a pcapng file.
    #[must_use]
    pub fn capture(mut self, file: impl Into<PathBuf>) -> Self {
        self.capture = Some(file.into());
        self
    }

    /// Opens the endpoint.
    pub fn open(mut self) -> Result<Endpoint, Error> {
        if let Some(complaint) = self.complaint.take() {
            return Err(Error::Setting(complaint));
        }
        let taken = self.naming.take(self.bind)?;
        let links = links::open(&self)?;
        links::fit(&mut self.config, &links, self.payload_check);
        self.config.settings.is_found |= taken.is_some();
        let (versions, cpus) = (self.config.settings.versions, self.config.helper_cpus.clone());
        let is_everywhere = links::is_everywhere(&self);
        let engine = Engine::open(self.config, links)?;
        let address = *engine.address();
        let open = |taken| self.naming.open(taken, address, is_everywhere, versions, cpus);
        let naming = (taken.map(open).transpose()?, self.naming.secret);
        Ok(Endpoint::new(engine, naming, self.linger, self.counters, self.log))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_understood() {
        let mut builder = Builder::plain();
        builder.apply("PACKHORSE_PORTS", "7000-7010").unwrap();
        builder.apply("PACKHORSE_PLACEMENT", "inline").unwrap();
        builder.apply("PACKHORSE_SPIN_US", "5").unwrap();
        builder.apply("PACKHORSE_TCP_STREAMS", "4").unwrap();
        assert_eq!(builder.tcp_stream_count, 4);
        assert_eq!(builder.ports, 7000..=7010);
        assert_eq!(builder.config.placement, Placement::Inline);
        assert_eq!(builder.config.spin_ns, 5000);
        builder.apply("PACKHORSE_OFFLOAD", "receive").unwrap();
        assert_eq!(builder.config.offload, Offload::Receive);
        assert!(builder.apply("PACKHORSE_OFFLOAD", "all").is_err());
        for (text, meant) in [
            ("off", CopyOffload::Off),
            ("auto", CopyOffload::Auto),
            ("65536", CopyOffload::From(65536)),
            ("64K", CopyOffload::From(65536)),
        ] {
            builder.apply("PACKHORSE_COPY_OFFLOAD", text).unwrap();
            assert_eq!(builder.config.copy_offload, meant);
        }
        assert!(builder.apply("PACKHORSE_COPY_OFFLOAD", "on").is_err());
        builder.apply("PACKHORSE_HELPER_CPUS", "0-2,7").unwrap();
        assert_eq!(builder.config.helper_cpus, HelperCpus::Only(vec![0, 1, 2, 7]));
        assert!(builder.apply("PACKHORSE_HELPER_CPUS", "3-1").is_err());
        builder.apply("PACKHORSE_FAULTS", "loss=10000,seed=7").unwrap();
        builder.apply("PACKHORSE_LINGER_S", "2").unwrap();
        let linger_ns = builder.config.settings.linger_ns;
        assert_eq!((builder.linger, linger_ns), (Duration::from_secs(2), 2_000_000_000));
        assert_eq!(builder.faults, Some(Faults { seed: 7, loss_ppm: 10_000, ..Faults::default() }));
    }

    #[test]
    fn lengths_and_times_are_written_as_on_the_command_line() {
        let mut builder = Builder::plain();
        for (text, len) in [("65536", 65536), ("64K", 65536), ("0", 0), ("1m", 1 << 20)] {
            builder.apply("PACKHORSE_EAGER", text).unwrap();
            builder.apply("PACKHORSE_AHEAD", text).unwrap();
            let settings = &builder.config.settings;
            assert_eq!((settings.eager_len_max, settings.ahead_len), (len, len), "{text}");
        }
        for (text, ns) in
            [("50", 50_000), ("50us", 50_000), ("1ms", 1_000_000), ("2s", 2_000_000_000)]
        {
            builder.apply("PACKHORSE_SPIN_US", text).unwrap();
            assert_eq!(builder.config.spin_ns, ns, "{text}");
        }
        for (text, ns) in [("8", 8_000_000_000), ("2s", 2_000_000_000), ("500ms", 500_000_000)] {
            builder.apply("PACKHORSE_CONTACT_S", text).unwrap();
            assert_eq!(builder.config.settings.contact_after_ns, ns, "{text}");
            builder.apply("PACKHORSE_LINGER_S", text).unwrap();
            assert_eq!(builder.config.settings.linger_ns, ns, "{text}");
        }
    }

    #[test]
    fn what_is_no_length_or_time_hears_what_would_be_right() {
        for (name, value, complaint) in [
            (
                "PACKHORSE_EAGER",
                "12q",
                "PACKHORSE_EAGER=12q: must be a length: a number of bytes, or",
            ),
            ("PACKHORSE_AHEAD", "5G", "PACKHORSE_AHEAD=5G: must be a length of at most 4294967295"),
            (
                "PACKHORSE_COPY_OFFLOAD",
                "on",
                "PACKHORSE_COPY_OFFLOAD=on: must be off, auto, or a length",
            ),
            (
                "PACKHORSE_SPIN_US",
                "5m",
                "PACKHORSE_SPIN_US=5m: must be a time: a number of microseconds",
            ),
            (
                "PACKHORSE_CONTACT_S",
                "",
                "PACKHORSE_CONTACT_S=: must be a time: a number of seconds, or",
            ),
        ] {
            let said = Builder::plain().apply(name, value).unwrap_err();
            assert!(said.starts_with(complaint), "{said}");
        }
    }

    #[test]
    fn nonsense_names_the_variable_and_what_it_must_be() {
        let mut builder = Builder::plain();
        let wrong = builder.apply("PACKHORSE_PORTS", "9-1").unwrap_err();
        assert!(wrong.contains("PACKHORSE_PORTS=9-1: must be a range"), "{wrong}");
        let unknown = builder.apply("PACKHORSE_PLACEMNT", "inline").unwrap_err();
        assert!(unknown.contains("did you mean PACKHORSE_PLACEMENT?"), "{unknown}");
        assert!(builder.apply("PACKHORSE_PATHS", "9").is_err());
        for count in ["0", "5", "-1", "many"] {
            let wrong = builder.apply("PACKHORSE_TCP_STREAMS", count).unwrap_err();
            assert!(wrong.ends_with("must be 1 to 4"), "{wrong}");
        }
        assert!(builder.apply("PACKHORSE_LINK", "token-ring").unwrap_err().contains("auto, udp"));
        let complaint = Builder::plain().links("udp:").complaint;
        assert!(complaint.is_some_and(|complaint| complaint.contains("no interface")));
    }
}
