//! Nodes from a file: one `host:port` per line, the first of which all others call (`meeting`).

use std::time::Instant;

use crate::meeting::{self, Job};
use crate::secret::Secret;
use crate::settings::Settings;

/// Nodes of one job. Their addresses fit into one answer.
const NODE_COUNT_MAX: usize = 1 << 16;

/// This node's number and the addresses of all.
pub(crate) fn exchange(
    path: &str,
    address: &str,
    settings: &Settings,
) -> Result<(usize, Vec<String>), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let places = places_in(&text);
    let node = std::env::var("FM_NODE").map_err(|_| {
        format!("FM_NODE is not set: it says which line of {path} this node is, from 0")
    })?;
    let count = places.len();
    if count > NODE_COUNT_MAX {
        return Err(format!("{path} names {count} nodes, and a job has {NODE_COUNT_MAX} at most"));
    }
    let id = node.parse().ok().filter(|&id: &usize| id < count);
    let id = id.ok_or_else(|| format!("FM_NODE is `{node}`, and {path} names {count} nodes"))?;
    if count == 1 {
        return Ok((id, vec![address.to_owned()])); // there is nobody to meet
    }
    let secret = Secret::from_environment()?;
    let job =
        Job { place: places[0], count, secret: &secret, until: Instant::now() + settings.wait };
    let addresses =
        if id == 0 { meeting::host(&job, address) } else { meeting::join(&job, id, address) };
    let addresses =
        addresses.map_err(|why| format!("meeting the other nodes at {}: {why}", places[0]))?;
    Ok((id, addresses))
}

fn places_in(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}
