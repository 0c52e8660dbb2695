//! A machine is a file: one cost a line, with where it comes from.
//!
//! ```text
//! title  Two 500 MHz Pentium III with Alteon cards
//! host.interrupt   10 us      stated   rmpp 593: "Interrupt host processor 10"
//! bus.setup         4 us      fitted   on Figure 7
//! wire.mtu       1500 B       stated   rmpp 448: "Standard (1500 Byte) Frames"
//! ```
//!
//! A line `like open-mx` takes all costs of a machine that is known; lines behind it change some.
//!
//! *Stated* costs stand in the paper, *fitted* ones were found by `packhorse_lab::fit` on one experiment and left alone for all others,
//! *assumed* ones are the hardware's data sheets, or do not matter much. Every cost that the model knows has a row in [`KEYS`]; a
//! machine that says nothing of a cost has the default.

use anyhow::{Context as _, Result, bail};

/// How the value of a cost is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The paper says so.
    Stated,
    /// Found by fitting one experiment.
    Fitted,
    /// From a data sheet, or a guess that matters little.
    Assumed,
    /// Given on the command line.
    Set,
    /// The machine's file does not speak of it.
    Default,
}

impl How {
    /// As the file has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stated => "stated",
            Self::Fitted => "fitted",
            Self::Assumed => "assumed",
            Self::Set => "set",
            Self::Default => "default",
        }
    }
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Kept in nanoseconds.
    Time,
    /// Kept in bytes per second.
    Rate,
    /// Kept in bytes.
    Bytes,
    /// A plain number.
    Count,
}

/// A cost the model knows: its name, what it counts, what it is where a machine does not say, what it means.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// As in the files.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// In the unit's own measure.
    pub default: f64,
    /// What is charged.
    pub about: &'static str,
}

const fn key(name: &'static str, unit: Unit, default: f64, about: &'static str) -> Key {
    Key { name, unit, default, about }
}

/// All costs.
pub const KEYS: &[Key] = &[
    key("host.post_send", Unit::Time, 1_000.0, "the application's call that posts a send"),
    key("host.post_recv", Unit::Time, 1_000.0, "the application's call that posts a receive"),
    key("host.post_page", Unit::Time, 0.0, "the same, for each page of the memory"),
    key("host.poll", Unit::Time, 500.0, "the application looks whether something is complete"),
    key(
        "host.event",
        Unit::Time,
        0.0,
        "the system tells the application that something is complete",
    ),
    key("host.interrupt", Unit::Time, 5_000.0, "an interrupt, whatever is done in it"),
    key("host.interrupt_merged", Unit::Count, 0.0, "1: no interrupt while the handler runs anyway"),
    key("host.interrupt_delay", Unit::Time, 0.0, "the card holds an interrupt back for so long"),
    key("host.frame_in", Unit::Time, 1_000.0, "a frame of data arrives, the protocol on the host"),
    key("host.frame_out", Unit::Time, 1_000.0, "a frame of data leaves, the protocol on the host"),
    key("host.page_in", Unit::Time, 0.0, "each page of a frame of data that arrives"),
    key(
        "host.control",
        Unit::Time,
        1_000.0,
        "an announcement, grant, end or acknowledgement, arriving or leaving",
    ),
    key("host.copy", Unit::Rate, 0.0, "copies by the host; 0: they cost nothing"),
    key("host.copies_in", Unit::Count, 1.0, "copies of what arrives by way of the host"),
    key("host.copies_out", Unit::Count, 1.0, "copies of what leaves by way of the host"),
    key("host.short_copies_in", Unit::Count, 1.0, "copies of messages that were not announced"),
    key("host.short_copies_out", Unit::Count, 1.0, "the same at their sender"),
    key("host.cores", Unit::Count, 1.0, "2: interrupts have a core of their own"),
    key("engine.copy", Unit::Rate, 0.0, "the copy engine; 0: there is none"),
    key("engine.submit", Unit::Time, 0.0, "the host gives the engine a page to copy"),
    key("engine.least", Unit::Bytes, 0.0, "shorter payload is copied by the host"),
    key("card.processors", Unit::Count, 1.0, "2: one for what arrives, one for what leaves"),
    key("card.frame", Unit::Time, 0.0, "the card relays a frame that the host handles or made"),
    key("card.data_in", Unit::Time, 0.0, "a frame of data arrives, the protocol on the card"),
    key("card.data_out", Unit::Time, 0.0, "a frame of data leaves, the protocol on the card"),
    key(
        "card.control",
        Unit::Time,
        0.0,
        "an announcement, grant, end or acknowledgement on the card",
    ),
    key("card.ack", Unit::Time, 0.0, "an acknowledgement and nothing else, on the card"),
    key(
        "card.first",
        Unit::Time,
        0.0,
        "more than that for the first frame of a message: match, look up",
    ),
    key("card.post", Unit::Time, 0.0, "the card reads a descriptor that the host posted"),
    key("card.slots", Unit::Count, 4.0, "frames between the protocol and the wire"),
    key("card.cut_through", Unit::Count, 0.0, "1: a frame leaves while it is still fetched"),
    key("bus.setup", Unit::Time, 0.0, "a transaction begins"),
    key("bus.rate", Unit::Rate, 0.0, "bytes over the bus, both directions together"),
    key("bus.pages", Unit::Count, 0.0, "1: every page of 4096 bytes is a transaction"),
    key("wire.rate", Unit::Rate, 125e6, "bytes over the wire, each direction"),
    key("wire.extra", Unit::Bytes, 38.0, "bytes around a frame: preamble, header, check, gap"),
    key("wire.least", Unit::Bytes, 46.0, "shorter frames are filled up"),
    key("wire.delay", Unit::Time, 0.0, "from end to end"),
    key("wire.mtu", Unit::Bytes, 1500.0, "the longest frame"),
    key("proto.eager", Unit::Bytes, 1024.0, "longer messages are announced"),
    key("proto.streams", Unit::Count, 0.0, "1: messages are streams, as Fast Messages are"),
    key("proto.grant", Unit::Count, 16.0, "frames of a grant"),
    key("proto.ahead", Unit::Count, 0.0, "granted frames missing when the next grant leaves"),
    key("proto.grants", Unit::Count, 4.0, "grants open at a time"),
    key("proto.ack_every", Unit::Count, 256.0, "frames per acknowledgement"),
    key("proto.ack_delay", Unit::Time, 1e7, "an acknowledgement waits no longer"),
];

/// A cost with where it comes from.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Nanoseconds, bytes per second, bytes or a number.
    pub value: f64,
    /// How it is known.
    pub how: How,
    /// The sentence.
    pub why: String,
}

/// A machine: the costs of two hosts that are alike, their cards and the wire between them.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its name on the command line.
    pub name: String,
    /// What it is.
    pub title: String,
    costs: Vec<Cost>,
}

impl Machine {
    /// Reads a machine's file.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let costs = KEYS
            .iter()
            .map(|key| Cost { value: key.default, how: How::Default, why: String::new() })
            .collect();
        let mut machine = Self { name: name.to_owned(), title: name.to_owned(), costs };
        for (number, line) in text.lines().enumerate() {
            machine
                .read_line(line)
                .with_context(|| format!("machine {name}, line {}", number + 1))?;
        }
        Ok(machine)
    }

    fn read_line(&mut self, line: &str) -> Result<()> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        if name == "like" {
            let title = std::mem::take(&mut self.title);
            self.costs = crate::machines::Bench::default().machine(rest)?.costs;
            self.title = title;
            return Ok(());
        }
        if name == "title" {
            self.title = rest.to_owned();
            return Ok(());
        }
        let mut words = rest.split_whitespace();
        let number = words.next().unwrap_or_default();
        let mut how = words.next().unwrap_or_default();
        let mut unit = "";
        if !["stated", "fitted", "assumed"].contains(&how) {
            (unit, how) = (how, words.next().unwrap_or_default());
        }
        let how = match how {
            "stated" => How::Stated,
            "fitted" => How::Fitted,
            "assumed" => How::Assumed,
            _ => bail!("{name}: say how it is known, `stated`, `fitted` or `assumed`, and why"),
        };
        let why: Vec<_> = words.collect();
        let at = index_of(name)?;
        self.costs[at] = Cost { value: value_of(KEYS[at], number, unit)?, how, why: why.join(" ") };
        Ok(())
    }

    /// Changes a cost as the command line says: `host.interrupt=5us`.
    pub fn set(&mut self, text: &str) -> Result<()> {
        let (name, value) = text
            .split_once('=')
            .context("say it as NAME=VALUE, host.interrupt=5us for instance")?;
        let value = value.trim();
        let split = value.find(|c: char| c.is_alphabetic()).unwrap_or(value.len());
        let at = index_of(name.trim())?;
        let value = value_of(KEYS[at], value[..split].trim(), &value[split..])?;
        self.costs[at] = Cost { value, how: How::Set, why: "--set".to_owned() };
        Ok(())
    }

    /// A copy of this machine with one cost changed, in the unit's own measure: experiments that turn a knob.
    pub fn with(&self, name: &str, value: f64) -> Self {
        let mut machine = self.clone();
        let at = index_of(name).expect("experiments name costs that there are");
        machine.costs[at].value = value;
        machine
    }

    /// A cost, in the unit's own measure.
    pub fn value(&self, name: &str) -> f64 {
        self.costs[index_of(name).expect("the model names costs that there are")].value
    }

    /// All costs that the file speaks of.
    pub fn said(&self) -> impl Iterator<Item = (Key, &Cost)> {
        KEYS.iter().copied().zip(&self.costs).filter(|(_, cost)| cost.how != How::Default)
    }
}

fn index_of(name: &str) -> Result<usize> {
    KEYS.iter().position(|key| key.name == name).with_context(|| {
        let group = name.split('.').next().unwrap_or_default();
        let near: Vec<_> =
            KEYS.iter().map(|key| key.name).filter(|key| key.starts_with(group)).collect();
        match near.is_empty() {
            true => {
                format!("no cost {name:?}; they begin with host, engine, card, bus, wire or proto")
            }
            false => format!("no cost {name:?}; there are {}", near.join(", ")),
        }
    })
}

fn value_of(key: Key, number: &str, unit: &str) -> Result<f64> {
    let name = key.name;
    let value: f64 =
        number.parse().ok().with_context(|| format!("{name}: {number:?} is no number"))?;
    if !value.is_finite() || value < 0.0 {
        bail!("{name}: {number} must be 0 or more");
    }
    let scale = match (key.unit, unit) {
        (Unit::Time, "ns") | (Unit::Rate, "B/s") | (Unit::Bytes, "B") | (Unit::Count, "") => 1.0,
        (Unit::Time, "us" | "µs") => 1e3,
        (Unit::Time, "ms") => 1e6,
        (Unit::Rate, "MB/s") => 1e6,
        (Unit::Rate, "GB/s") => 1e9,
        (Unit::Rate, "Mb/s") => 1e6 / 8.0,
        (Unit::Rate, "Gb/s") => 1e9 / 8.0,
        (Unit::Bytes, "KB") => 1024.0,
        (Unit::Time, _) => bail!("{name} is a time: give it in ns, us or ms"),
        (Unit::Rate, _) => bail!("{name} is a rate: give it in MB/s, GB/s, Mb/s or Gb/s"),
        (Unit::Bytes, _) => bail!("{name} is a length: give it in B or KB"),
        (Unit::Count, _) => bail!("{name} is a plain number: it has no unit"),
    };
    Ok(value * scale)
}

/// A value as people read it.
pub fn shown(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Time if value >= 1e6 => format!("{} ms", value / 1e6),
        Unit::Time if value >= 1e3 => format!("{} µs", (value / 10.0).round() / 100.0),
        Unit::Time => format!("{value} ns"),
        Unit::Rate if value >= 1e9 => format!("{} GB/s", (value / 1e6).round() / 1e3),
        Unit::Rate => format!("{} MB/s", (value / 1e4).round() / 1e2),
        Unit::Bytes => format!("{value} B"),
        Unit::Count => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_with_their_reasons() {
        let text = "title A host\n# nothing\nhost.interrupt 10 us stated rmpp 593: \"Interrupt\"\nhost.cores 2 assumed they had two\n";
        let machine = Machine::parse("a", text).unwrap();
        assert_eq!(machine.title, "A host");
        assert_eq!(machine.value("host.interrupt"), 10_000.0);
        let said: Vec<_> = machine.said().map(|(key, cost)| (key.name, cost.how)).collect();
        assert_eq!(said, [("host.interrupt", How::Stated), ("host.cores", How::Assumed)]);
    }

    #[test]
    fn mistakes_are_named() {
        let mistake = |text: &str| format!("{:#}", Machine::parse("m", text).unwrap_err());
        assert!(mistake("host.interupt 1 us stated x").contains("host.interrupt"));
        assert!(mistake("host.interrupt 1 MB/s stated x").contains("give it in ns, us or ms"));
        assert!(mistake("host.interrupt 1 us").contains("say how it is known"));
        assert!(mistake("\nhost.interrupt x us stated y").contains("line 2"));
        assert!(
            mistake("nonsense").contains("they begin with")
                || mistake("nonsense").contains("say how")
        );
    }

    #[test]
    fn a_cost_may_be_set() {
        let mut machine = Machine::parse("m", "").unwrap();
        machine.set("host.interrupt=5us").unwrap();
        assert_eq!(machine.value("host.interrupt"), 5_000.0);
        assert!(machine.set("host.interrupt").is_err());
        assert!(machine.set("host.interrupt=-5us").is_err());
        machine.set("bus.rate=1GB/s").unwrap();
        assert_eq!(machine.value("bus.rate"), 1e9);
    }
}
