//! The parts of a link as text and descriptors, on their way from a process with rights to one without.

use std::fmt::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};

use super::config::{FRAME_COUNT_MAX, FRAME_COUNT_MIN, Require, XdpError};
use super::opening::{Plan, XdpParts};
use crate::ether::{Station, is_somebody};
use crate::sys::xdp::is_shared_memory;

/// The first line; another version of it would be another format.
const TITLE: &str = "packhorse-xdp 1";
/// Descriptors before those of the sockets: what keeps the program attached, and the memory.
const OTHER_COUNT: usize = 2;

impl XdpParts {
    /// All there is to hand to another process: a text, and descriptors in the order they are to arrive in
    /// ([`crate::handover`]). Whoever has them has the link; it is gone from the interface when the last of them is closed.
    pub fn into_fds(self) -> (String, Vec<OwnedFd>) {
        let mut fds = vec![self.attachment, self.memory];
        fds.extend(self.sockets);
        (to_text(&self.plan), fds)
    }

    /// Puts together again what `into_fds` took apart.
    ///
    /// # Errors
    /// [`XdpError::BadParts`] says what is wrong.
    pub fn from_fds(text: &str, fds: Vec<OwnedFd>) -> Result<Self, XdpError> {
        let bad = |reason: &str| XdpError::BadParts { reason: reason.to_string() };
        let plan = from_text(text).map_err(|reason| XdpError::BadParts { reason })?;
        let mut fds = fds.into_iter();
        let (Some(attachment), Some(memory)) = (fds.next(), fds.next()) else {
            return Err(bad(&format!("fewer than {OTHER_COUNT} descriptors")));
        };
        let sockets: Vec<OwnedFd> = fds.collect();
        if sockets.is_empty() {
            return Err(bad("no socket"));
        }
        let memory_len = plan.memory_len() * sockets.len() as u64;
        if !is_shared_memory(memory.as_fd(), memory_len) {
            return Err(bad("the second descriptor is not memory that is long enough and sealed"));
        }
        Ok(Self { plan, attachment, memory, sockets })
    }
}

fn to_text(plan: &Plan) -> String {
    let mac: Vec<_> = plan.station.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut text = format!("{TITLE}\n");
    let mut line = |name: &str, value: &str| {
        writeln!(text, "{name} {value}").expect("a String takes all");
    };
    line("interface", &plan.interface);
    line("index", &plan.index.to_string());
    line("mac", &mac.join(":"));
    line("number", &plan.station.endpoint.to_string());
    line("mtu", &plan.mtu.to_string());
    line("native", &plan.is_native.to_string());
    line("busy-polled", &plan.is_busy_polled.to_string());
    line("require", name_of(plan.require));
    line("rx-frames", &plan.rx_frame_count.to_string());
    line("tx-frames", &plan.tx_frame_count.to_string());
    line("tx-queues", &plan.tx_queue_count.to_string());
    if let Some(driver) = &plan.driver {
        line("driver", driver);
    }
    for reason in &plan.downgrades {
        line("downgrade", &reason.replace('\n', " "));
    }
    text
}

fn name_of(require: Require) -> &'static str {
    match require {
        Require::Nothing => "nothing",
        Require::Native => "native",
        Require::Zerocopy => "zerocopy",
    }
}

fn from_text(text: &str) -> Result<Plan, String> {
    if text.lines().next() != Some(TITLE) {
        return Err(format!("the text does not begin with {TITLE:?}"));
    }
    let all = |name: &'static str| {
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.filter(move |(found, _)| *found == name).map(|(_, value)| value)
    };
    let one = |name: &'static str| all(name).next().ok_or(format!("no {name}"));
    fn parsed<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
        value.parse().map_err(|_| format!("{value:?} is no {name}"))
    }
    let number = |name: &'static str| parsed::<u32>(name, one(name)?);
    let truth = |name: &'static str| parsed::<bool>(name, one(name)?);
    let frames = |name: &'static str| {
        let is_sound = |count: &u32| {
            count.is_power_of_two() && (FRAME_COUNT_MIN..=FRAME_COUNT_MAX).contains(count)
        };
        number(name).and_then(|count| Some(count).filter(is_sound).ok_or(format!("bad {name}")))
    };
    let bytes: Option<Vec<u8>> =
        one("mac")?.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    let mac = bytes.and_then(|bytes| bytes.try_into().ok()).ok_or("no MAC address")?;
    let require = [Require::Nothing, Require::Native, Require::Zerocopy]
        .into_iter()
        .find(|&require| one("require") == Ok(name_of(require)))
        .ok_or("no requirement")?;
    let station = Station { mac, endpoint: number("number")? };
    if !is_somebody(&station) {
        return Err("nobody has this MAC address or number".to_string());
    }
    Ok(Plan {
        interface: one("interface")?.to_string(),
        index: number("index")?,
        station,
        mtu: number("mtu")? as usize,
        driver: all("driver").next().map(str::to_string),
        is_native: truth("native")?,
        is_busy_polled: truth("busy-polled")?,
        require,
        rx_frame_count: frames("rx-frames")?,
        tx_frame_count: frames("tx-frames")?,
        tx_queue_count: number("tx-queues")?,
        downgrades: all("downgrade").map(str::to_string).collect(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::xdp) fn example() -> Plan {
        Plan {
            interface: "eth0".into(),
            index: 3,
            station: Station { mac: [2, 0, 0, 0xab, 0, 1], endpoint: 77 },
            mtu: 9000,
            driver: Some("a driver".into()),
            is_native: true,
            is_busy_polled: false,
            require: Require::Native,
            rx_frame_count: 2048,
            tx_frame_count: 512,
            tx_queue_count: 4,
            downgrades: vec!["not this: no".into(), "nor that".into()],
        }
    }

    #[test]
    fn plans_come_back_from_text() {
        let plan = example();
        assert_eq!(from_text(&to_text(&plan)), Ok(plan.clone()));
        let other = Plan { driver: None, downgrades: vec![], require: Require::Zerocopy, ..plan };
        assert_eq!(from_text(&to_text(&other)), Ok(other));
    }

    #[test]
    fn texts_that_are_not_ours_are_refused_with_a_reason() {
        let text = to_text(&example());
        assert!(from_text("hello").unwrap_err().contains("does not begin"));
        for (line, reason) in [
            ("index 3\n", "no index"),
            ("mac 02:00:00:ab:00:01\n", "no mac"),
            ("require native\n", "no requirement"),
        ] {
            assert_eq!(from_text(&text.replace(line, "")), Err(reason.to_string()));
        }
        let odd = text.replace("rx-frames 2048", "rx-frames 2000");
        assert_eq!(from_text(&odd), Err("bad rx-frames".to_string()));
        let huge = text.replace("rx-frames 2048", "rx-frames 4000000000");
        assert!(from_text(&huge).is_err());
        assert!(from_text(&text.replace("mtu 9000", "mtu long")).unwrap_err().contains("mtu"));
    }
}
