//! What the words mean that settings are written in.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use packhorse_engine::{HelperCpus, Offload, Placement};

use super::Builder;
use crate::quantity;

pub(super) fn parse_placement(text: &str) -> Option<Placement> {
    match text {
        "thread" => Some(Placement::Thread),
        "inline" => Some(Placement::Inline),
        _ => None,
    }
}

pub(super) fn parse_offload(text: &str) -> Option<Offload> {
    match text {
        "none" => Some(Offload::None),
        "receive" => Some(Offload::Receive),
        "send" => Some(Offload::Send),
        "both" => Some(Offload::Both),
        _ => None,
    }
}

/// A length, where words are possible as well.
pub(super) fn parse_copies(text: &str) -> Result<usize, String> {
    let len = quantity::len(text, isize::MAX as u64).map(|len| len as usize);
    len.map_err(|must| must.replacen("must be", "must be off, auto, or", 1))
}

/// A file that several processes are told alike, as all ranks of a job are, and this one's endpoints one after the other: each has its own.
pub(super) fn file_of_this_process(value: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let path = Path::new(value);
    let extension = path.extension().map_or_else(Default::default, |text| text.to_string_lossy());
    let number = match COUNT.fetch_add(1, Ordering::Relaxed) {
        0 => std::process::id().to_string(),
        count => format!("{}-{count}", std::process::id()),
    };
    path.with_extension(format!("{number}.{extension}").trim_end_matches('.'))
}

pub(super) fn as_ns(time: Duration) -> u64 {
    time.as_nanos().min(u64::MAX.into()) as u64
}

pub(super) fn parse_cpus(text: &str) -> Option<HelperCpus> {
    match text {
        "all" => return Some(HelperCpus::All),
        "inherit" => return Some(HelperCpus::Inherit),
        _ => {}
    }
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let cpu = |text: &str| text.trim().parse::<u16>().ok().map(usize::from);
        let (first, last) = (cpu(first)?, cpu(last)?);
        cpus.extend(first..=last);
    }
    (!cpus.is_empty()).then_some(HelperCpus::Only(cpus))
}

pub(super) fn parse_switch(text: &str) -> Option<bool> {
    match text {
        "on" | "1" | "yes" => Some(true),
        "off" | "0" | "no" => Some(false),
        _ => None,
    }
}

pub(super) fn parse_ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some(low..=high)
}

/// Names the nearest variable there is.
pub(super) fn unknown(name: &str) -> String {
    let nearest = Builder::ENVIRONMENT.iter().map(|&(known, _)| known);
    let nearest = nearest.min_by_key(|known| distance(known, name)).unwrap_or_default();
    format!("{name}: there is no such setting; did you mean {nearest}?")
}

/// Letters to add, drop or change to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_ranks_are_told_alike_is_a_file_for_each_endpoint() {
        let pid = std::process::id();
        let names = ["/tmp/f.pcapng", "/tmp/f.pcapng", "plain"].map(file_of_this_process);
        let names = names.map(|name| name.to_string_lossy().into_owned());
        assert!(names[0] != names[1] && names.iter().all(|name| name.contains(&pid.to_string())));
        assert!(names[0].starts_with("/tmp/f.") && names[0].ends_with(".pcapng"), "{names:?}");
        assert!(names[2].starts_with("plain.") && !names[2].ends_with('.'), "{names:?}");
    }
}
