//! `packhorse peers`: hosts with endpoints on the local segment.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use packhorse::quantity::{self, Unit};
use packhorse::{Host, LinkChoice, Search};

/// Find hosts with endpoints on the local segment.
///
/// Asks everybody on the Ethernet segments of this host, by broadcast, who is there. Endpoints that use raw Ethernet answer with
/// the name of their host, unless told not to (PACKHORSE_DISCOVER=off); `packhorse serve` answers too. Nobody gives away an address:
/// who has one may send. Needs the right to raw Ethernet (CAP_NET_RAW).
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  packhorse peers                        on all cards\n  packhorse peers --link packet:eth1     on one\n  packhorse peers --json | jq '.[].name'"
)]
pub(crate) struct PeersArgs {
    /// On which interfaces: packet:eth0, packet:eth*, … with commas between; all cards without it.
    #[arg(long)]
    link: Option<LinkChoice>,
    /// How long to wait for answers: in seconds, or with the unit (500ms).
    #[arg(long, value_name = "S", default_value = "1", value_parser = |text: &str| quantity::time(text, Unit::Seconds))]
    seconds: Duration,
    /// Write a list in JSON, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

/// Asks and shows. What goes on meanwhile goes to `progress`.
pub(crate) fn run(args: &PeersArgs, out: &mut impl Write, progress: &mut impl Write) -> Result<()> {
    let mut search = Search::open(args.link.as_ref())?;
    let interfaces: Vec<&str> = search.interfaces().collect();
    writeln!(progress, "asking on {} for {:?} …", interfaces.join(", "), args.seconds)?;
    search.run(args.seconds, |host| {
        // Who does not listen any more will be told by the list.
        let _ = writeln!(progress, "  {} answers on {}", host.name, host.interface);
    })?;
    for remark in search.remarks() {
        writeln!(progress, "notice: {remark}")?;
    }
    let hosts = search.hosts();
    if args.json {
        let list: Vec<String> = hosts.iter().map(json).collect();
        writeln!(out, "[{}]", list.join(","))?;
    } else if hosts.is_empty() {
        writeln!(
            out,
            "nobody answered; do endpoints run there, with the right to raw Ethernet (CAP_NET_RAW)?"
        )?;
    } else {
        hosts.iter().try_for_each(|host| writeln!(out, "{}", line(host)))?;
    }
    Ok(())
}

fn mac_text(mac: &[u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn line(host: &Host) -> String {
    let endpoints = match host.endpoint_count {
        1 => "1 endpoint".to_owned(),
        count => format!("{count} endpoints"),
    };
    let (name, mac, us) = (&host.name, mac_text(&host.mac), host.round_trip.as_micros());
    format!("{name}  {mac} on {}  {endpoints}  answered within {us} µs", host.interface)
}

fn json(host: &Host) -> String {
    format!(
        r#"{{"name":{},"mac":"{}","interface":{},"endpoints":{},"answered_us":{}}}"#,
        json_string(&host.name),
        mac_text(&host.mac),
        json_string(&host.interface),
        host.endpoint_count,
        host.round_trip.as_micros()
    )
}

/// A text as JSON has it. Control characters are not in what we show.
fn json_string(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}
