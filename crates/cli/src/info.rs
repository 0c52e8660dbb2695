//! `packhorse info`: what this machine has to measure with, what an endpoint that is opened here is like, and the settings.

use std::io::Write;

use anyhow::Result;
use packhorse::{About, Builder, KindInfo, LinkChoice, Placement};
use packhorse_bench::SYSTEMS;
use packhorse_bench::machine::{InterfaceFacts, Machine};

/// Settings that write files.
const RECORDINGS: &[&str] = &["PACKHORSE_CAPTURE", "PACKHORSE_COUNTERS"];

/// Shows it all.
pub(crate) fn run(out: &mut impl Write) -> Result<()> {
    writeln!(out, "packhorse {}", env!("CARGO_PKG_VERSION"))?;
    for line in Machine::here().lines() {
        writeln!(out, "{line}")?;
    }
    for interface in InterfaceFacts::all() {
        writeln!(out, "{}", interface.line())?;
    }
    let systems: Vec<_> = SYSTEMS.iter().map(|system| system.name()).collect();
    writeln!(out, "can measure: {}", systems.join(", "))?;
    endpoints(out)?;
    settings(out, |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
}

/// What an endpoint that is opened here is like.
fn endpoints(out: &mut impl Write) -> Result<()> {
    let (link, placement) = (LinkChoice::default(), format!("{:?}", Placement::default()));
    writeln!(out, "by default: link {link} (today udp), placement {}", placement.to_lowercase())?;
    for kind in packhorse::kinds() {
        writeln!(out, "{}", kind_line(&kind))?;
    }
    // A look must not write over a capture or leave counters behind.
    let is_recorded = RECORDINGS.iter().any(|name| std::env::var_os(name).is_some());
    let builder = if is_recorded { Builder::plain() } else { Builder::new() };
    match builder.open() {
        Ok(endpoint) => {
            for link in endpoint.about_links() {
                writeln!(out, "{}", about(&link))?;
            }
            for notice in endpoint.notices() {
                writeln!(out, "notice: {notice}")?;
            }
        }
        Err(error) => writeln!(out, "an endpoint cannot be opened here: {error}")?,
    }
    Ok(())
}

/// Whether a kind of link can be used here, and what would make it so.
fn kind_line(kind: &KindInfo) -> String {
    let remedy = kind.remedy.iter().map(|command| format!("; try: {command}")).collect::<String>();
    match &kind.missing {
        None => format!("kind of link {}: usable", kind.name),
        Some(missing) => format!("kind of link {}: not usable: {missing}{remedy}", kind.name),
    }
}

/// What a link can do, in a line.
fn about(link: &About) -> String {
    let trains = match link.train_count_max {
        0 | 1 => "one frame a call".into(),
        count => format!("trains of up to {count} frames ({} bytes)", link.train_len_max),
    };
    let check = if link.is_checked { "checks them itself" } else { "does not check them" };
    let landing = if link.can_land { "straight into its place" } else { "by a copy" };
    format!(
        "link {}: frames of up to {} bytes, {trains}, {check}; payload arrives {landing}; \
         {} bytes can wait in it",
        link.kind, link.frame_len_max, link.backlog_len_max
    )
}

/// The variables there are, and those that there are not.
fn settings(out: &mut impl Write, value: impl Fn(&str) -> Option<String>) -> Result<()> {
    writeln!(out, "settings from the environment (lengths: 8, 64K, 1M; times: 50us, 1ms, 2s):")?;
    for &(name, meaning) in Builder::ENVIRONMENT {
        let value = value(name).unwrap_or_else(|| "-".into());
        writeln!(out, "  {name:<24} {value:<10} {meaning}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_shown_with_their_values() {
        let mut text = Vec::new();
        let value = |name: &str| (name == "PACKHORSE_PORTS").then(|| "7000-7009".to_owned());
        settings(&mut text, value).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("PACKHORSE_PORTS          7000-7009"), "{text}");
        assert_eq!(text.lines().count(), 1 + Builder::ENVIRONMENT.len());
    }
}
