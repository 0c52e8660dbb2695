//! What to do about what is worse than TCP: what this machine lacks first, then what can be tried.

use crate::machine::{InterfaceFacts, Machine};
use crate::row::{Findings, OURS};
use crate::system::Pattern;

use super::verdict::Summary;

/// Messages up to here are a matter of latency; from `LONG_LEN_MIN` on, of moving many frames at once.
const SHORT_LEN_MAX: usize = 1 << 10;
const LONG_LEN_MIN: usize = 64 << 10;
/// A socket buffer that holds several long messages.
const BUFFER_LEN: u64 = 4 << 20;
const JUMBO_MTU: usize = 9000;
/// More would not be read; what concerns programs comes beside them.
const ADVICE_COUNT_MAX: usize = 2;
/// A wire between two namespaces is gone after the measurement, and passes trains on as they are.
const WIRE_DRIVER: &str = "veth";
/// Of the offloads, those by which trains of our frames pass through the kernel as one; as ethtool calls them.
const TRAIN_OFFLOADS: [(&str, &str); 3] =
    [("udp-gso", "tx-udp-segmentation"), ("gso", "gso"), ("gro", "gro")];

/// Nothing where nothing is worse.
pub(super) fn advice(findings: &Findings, worse: &[&Summary]) -> Vec<String> {
    if worse.is_empty() {
        return Vec::new();
    }
    let kinds = packhorse::kinds();
    let packet = kinds.iter().find(|kind| kind.name == "packet").and_then(|kind| {
        let remedy = kind.remedy.as_ref().map(|command| format!("; try: {command}"));
        Some(kind.missing.clone()? + &remedy.unwrap_or_default())
    });
    let mut all = lacking(&findings.machine, worse, packet.as_deref());
    all.extend(without_helper(findings));
    all.truncate(ADVICE_COUNT_MAX);
    all.push(
        "what counts is a program; try: packhorse compare --mpi --applications --two-hosts; where yours is slower, let it stay with TCP"
            .to_owned(),
    );
    all
}

/// What this machine lacks for these cases; `packet` says why raw Ethernet cannot be used, if it cannot.
fn lacking(machine: &Machine, worse: &[&Summary], packet: Option<&str>) -> Vec<String> {
    let has_short = worse.iter().any(|one| one.case.bytes <= SHORT_LEN_MAX);
    let is_long =
        |one: &&&Summary| one.case.bytes >= LONG_LEN_MIN || one.case.pattern == Pattern::Stream;
    let has_long = worse.iter().any(|one| is_long(&one));
    let mut all = Vec::new();
    if let Some(missing) = packet.filter(|_| has_short) {
        all.push(format!(
            "short messages go quicker over raw Ethernet, not usable here: {missing}"
        ));
    }
    if !has_long {
        return all;
    }
    let buffers = [machine.rmem_max, machine.wmem_max];
    if let Some(least) = buffers.into_iter().flatten().min().filter(|&least| least < BUFFER_LEN) {
        all.push(format!(
            "sockets may hold no more than {least} bytes; \
             try: sudo sysctl -w net.core.rmem_max={BUFFER_LEN} net.core.wmem_max={BUFFER_LEN}"
        ));
    }
    all.extend(machine.interface.as_ref().and_then(lacking_offloads));
    let is_small = |interface: &&InterfaceFacts| interface.mtu < JUMBO_MTU;
    if let Some(interface) = machine.interface.as_ref().filter(is_small) {
        all.push(format!(
            "packets of {} bytes are short for long messages; try: --mtu {JUMBO_MTU}, and the same on your network if it can carry them",
            interface.mtu
        ));
    }
    all
}

/// What would let trains of frames pass the kernel as one.
fn lacking_offloads(interface: &InterfaceFacts) -> Option<String> {
    if interface.driver.as_deref() == Some(WIRE_DRIVER) {
        return None;
    }
    let is_off =
        |name: &str| interface.offloads.iter().any(|(there, is_on)| there == name && !is_on);
    let off = TRAIN_OFFLOADS.iter().filter(|(name, _)| is_off(name));
    let words: Vec<String> = off.map(|(_, feature)| format!("{feature} on")).collect();
    let name = &interface.name;
    let command = format!("try: sudo ethtool -K {name} {}", words.join(" "));
    (!words.is_empty()).then(|| format!("{name} takes each frame for itself; {command}"))
}

fn without_helper(findings: &Findings) -> Option<String> {
    let is_helped = findings
        .rows
        .iter()
        .any(|row| row.system == OURS && row.placement.as_deref() == Some("thread"));
    let advice = "a helper shares the cores with the program; try: --placement inline (PACKHORSE_PLACEMENT=inline for programs)";
    is_helped.then(|| advice.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Case;
    use crate::ratio::Metric;

    fn case(pattern: Pattern, bytes: usize) -> Summary {
        Summary {
            name: "latency",
            case: Case::plain(pattern, bytes),
            metric: Metric::P50,
            cells: [None; 3],
            to_tcp: None,
            to_bare: None,
            doubt: None,
        }
    }

    fn machine(buffer: u64, mtu: usize, is_on: bool) -> Machine {
        let offloads = vec![("udp-gso".to_owned(), is_on), ("tso".to_owned(), false)];
        let interface = InterfaceFacts { name: "eth7".into(), driver: None, mtu, offloads };
        Machine {
            rmem_max: Some(buffer),
            wmem_max: Some(64 << 20),
            interface: Some(interface),
            ..Machine::default()
        }
    }

    #[test]
    fn each_lack_is_named_for_the_cases_it_concerns() {
        let (short, long) = (case(Pattern::PingPong, 8), case(Pattern::Stream, 1 << 20));
        let poor = machine(212_992, 1500, false);
        let of_short = lacking(&poor, &[&short], Some("no right; try: setcap")).join("\n");
        assert!(
            of_short.contains("raw Ethernet") && of_short.contains("try: setcap"),
            "{of_short}"
        );
        assert!(!of_short.contains("sysctl"), "{of_short}");
        let of_long = lacking(&poor, &[&long], Some("no right")).join("\n");
        for word in
            ["212992", "net.core.rmem_max=4194304", "-K eth7 tx-udp-segmentation on", "--mtu 9000"]
        {
            assert!(of_long.contains(word), "{word}: {of_long}");
        }
        assert!(!of_long.contains("raw Ethernet"), "{of_long}");
        let mut wire = poor.clone();
        wire.interface.as_mut().unwrap().driver = Some(WIRE_DRIVER.into());
        assert!(!lacking(&wire, &[&long], None).join("\n").contains("ethtool"));
        let rich = machine(64 << 20, 9000, true);
        assert_eq!(lacking(&rich, &[&short, &long], None), Vec::<String>::new());
    }

    #[test]
    fn where_nothing_is_worse_nothing_is_advised_and_else_not_too_much() {
        let findings = Findings { machine: machine(1, 1500, false), ..Findings::default() };
        assert!(advice(&findings, &[]).is_empty());
        let (short, long) = (case(Pattern::PingPong, 8), case(Pattern::Stream, 1 << 20));
        assert_eq!(advice(&findings, &[&short, &long]).len(), ADVICE_COUNT_MAX + 1);
        let last = advice(&Findings::default(), &[&long]);
        assert!(last.last().is_some_and(|text| text.contains("--applications")), "{last:?}");
    }
}
