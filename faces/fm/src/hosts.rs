//! Nodes from a file: one `host:port` per line, the first of which all others call.
//!
//! Node 0 listens at its line; each other node calls it, says its number and its address, and gets all addresses when all have
//! called. An address is a capability: this belongs on a network one trusts.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// So long nodes wait for each other.
const LONGEST: Duration = Duration::from_secs(60);

/// This node's number and the addresses of all.
pub(crate) fn exchange(path: &str, address: &str) -> Result<(usize, Vec<String>), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let lines = text.lines().map(str::trim);
    let places: Vec<&str> =
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let node = std::env::var("FM_NODE").map_err(|_| {
        format!("FM_NODE is not set: it says which line of {path} this node is, from 0")
    })?;
    let id =
        node.parse().ok().filter(|&id: &usize| id < places.len()).ok_or_else(|| {
            format!("FM_NODE is `{node}`, and {path} names {} nodes", places.len())
        })?;
    let failed = |error| format!("exchanging addresses at {}: {error}", places[0]);
    let addresses = if id == 0 {
        collect(places[0], places.len(), address).map_err(failed)?
    } else {
        call(places[0], id, address).map_err(failed)?
    };
    if addresses.len() == places.len() {
        Ok((id, addresses))
    } else {
        Err(format!("node 0 knows {} nodes, and {path} names {}", addresses.len(), places.len()))
    }
}

/// Node 0: all others call.
fn collect(place: &str, count: usize, address: &str) -> std::io::Result<Vec<String>> {
    let mut addresses = vec![String::new(); count];
    addresses[0] = address.to_owned();
    let listener = TcpListener::bind(place)?;
    let mut callers = Vec::new();
    while addresses.iter().any(String::is_empty) {
        let (caller, _) = listener.accept()?;
        caller.set_read_timeout(Some(LONGEST))?;
        let mut line = String::new();
        BufReader::new(&caller).read_line(&mut line)?;
        // Whoever calls and is not one of us is not answered.
        let Some((id, text)) = line.trim().split_once(' ') else { continue };
        let Some(slot) = id.parse().ok().and_then(|id: usize| addresses.get_mut(id)) else {
            continue;
        };
        *slot = text.to_owned();
        callers.push(caller);
    }
    let all = addresses.join("\n") + "\n\n";
    for mut caller in callers {
        caller.write_all(all.as_bytes())?;
    }
    Ok(addresses)
}

/// Another node calls node 0, which may not be there yet.
fn call(place: &str, id: usize, address: &str) -> std::io::Result<Vec<String>> {
    let began = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(place) {
            Ok(stream) => break stream,
            Err(error) if began.elapsed() > LONGEST => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    stream.set_read_timeout(Some(LONGEST))?;
    writeln!(stream, "{id} {address}")?;
    let lines = BufReader::new(stream).lines();
    lines.take_while(|line| !line.as_ref().is_ok_and(String::is_empty)).collect()
}
