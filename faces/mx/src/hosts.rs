//! The table of hosts (`PACKHORSE_MX_HOSTS`), for networks without broadcast: clouds, routers.
//!
//! ```text
//! # name   board  MAC                IP address
//! node1    0      02:00:00:00:00:01  10.0.0.1
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use crate::abi::HOSTNAME_LEN;
use crate::boards::{BOARD_COUNT_MAX, number_of, parse_mac};

/// A board of some host, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// `host:board`.
    pub name: String,
    /// Its MAC as a number.
    pub nic_id: u64,
    /// Where it is reached.
    pub ip: IpAddr,
}

impl Known {
    /// Whether it is meant by a name; that of the host alone means its first board.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.name.strip_suffix(":0") == Some(name)
    }
}

/// Reads the table; in words what is wrong with it, and where.
pub(crate) fn read(path: &Path) -> Result<Vec<Known>, String> {
    let complain = |error| format!("PACKHORSE_MX_HOSTS: {}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(complain)?;
    parse(&text).map_err(|(line, why)| {
        format!(
            "{}, line {line}: {why}; a line is NAME BOARD MAC ADDRESS, as `node1 0 02:00:00:00:00:01 10.0.0.1`",
            path.display()
        )
    })
}

fn parse(text: &str) -> Result<Vec<Known>, (usize, String)> {
    let mut table: Vec<Known> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let known = entry(&words).map_err(|why| (number, why))?;
        if table.iter().any(|other| other.nic_id == known.nic_id) {
            return Err((number, format!("{} is the MAC of another line, too", words[2])));
        }
        if table.iter().any(|other| other.name == known.name) {
            return Err((number, format!("{} is on another line, too", known.name)));
        }
        table.push(known);
    }
    Ok(table)
}

fn entry(words: &[&str]) -> Result<Known, String> {
    let &[host, board, mac, ip] = words else {
        return Err(format!("{} words", words.len()));
    };
    let number = board.parse::<u32>().ok().filter(|&number| number < BOARD_COUNT_MAX);
    let number = number.ok_or_else(|| {
        format!("`{board}` is no number of a board: 0 to {}", BOARD_COUNT_MAX - 1)
    })?;
    let name = format!("{host}:{number}");
    if name.len() >= HOSTNAME_LEN {
        return Err(format!("`{host}` is longer than MX lets names be"));
    }
    let bytes = parse_mac(mac).ok_or_else(|| format!("`{mac}` is no MAC"))?;
    let nic_id = number_of(bytes);
    if nic_id == 0 {
        return Err("the MAC with nothing but zeros is every host's own".into());
    }
    if bytes[0] & 1 != 0 {
        return Err(format!("`{mac}` is a MAC of many"));
    }
    let place: IpAddr = ip.parse().map_err(|_| format!("`{ip}` is no IP address"))?;
    let is_broadcast = place == IpAddr::V4(Ipv4Addr::BROADCAST);
    if place.is_unspecified() || place.is_multicast() || is_broadcast {
        return Err(format!("`{ip}` is no address of one host"));
    }
    Ok(Known { name, nic_id, ip: place })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read() {
        let text = "# the lab\nnode1 0 02:00:00:00:00:01 10.0.0.1\n\nnode2\t1 02:00:00:00:00:02 fd00::2 # far\n";
        let table = parse(text).unwrap();
        assert_eq!(table.len(), 2);
        assert!(table[0].is_called("node1") && table[0].is_called("node1:0"));
        assert!(table[1].is_called("node2:1") && !table[1].is_called("node2"));
        assert_eq!(table[1].nic_id, 0x0200_0000_0002);
    }

    #[test]
    fn nonsense_is_told_with_its_line() {
        for (text, word) in [
            ("\nnode1 0 02:00:00:00:00:01", "3 words"),
            ("\nnode1 x 02:00:00:00:00:01 10.0.0.1", "`x`"),
            ("\nnode1 0 02:00:00:00:00 10.0.0.1", "no MAC"),
            ("\nnode1 0 00:00:00:00:00:00 10.0.0.1", "every host's own"),
            ("\nnode1 0 02:00:00:00:00:01 ten.zero", "no IP address"),
            ("\nnode1 32 02:00:00:00:00:01 10.0.0.1", "0 to 31"),
            ("\nnode1 -1 02:00:00:00:00:01 10.0.0.1", "`-1`"),
            ("\nnode1 0 01:00:5e:00:00:01 10.0.0.1", "of many"),
            ("\nnode1 0 02:00:00:00:00:01 0.0.0.0", "of one host"),
            ("\nnode1 0 02:00:00:00:00:01 255.255.255.255", "of one host"),
            ("\nnode1 0 02:00:00:00:00:01 ff02::1", "of one host"),
            ("a 0 02:00:00:00:00:01 10.0.0.1\nb 0 02:00:00:00:00:01 10.0.0.2", "MAC of another"),
            ("a 0 02:00:00:00:00:01 10.0.0.1\na 0 02:00:00:00:00:02 10.0.0.2", "a:0 is on"),
        ] {
            let (line, why) = parse(text).unwrap_err();
            assert!(line == 2 && why.contains(word), "{line}: {why}");
        }
        let long = format!("{} 0 02:00:00:00:00:01 10.0.0.1", "n".repeat(90));
        assert!(parse(&long).unwrap_err().1.contains("longer"));
        assert!(read(Path::new("/nowhere/hosts")).unwrap_err().contains("PACKHORSE_MX_HOSTS"));
    }
}
