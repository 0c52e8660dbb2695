//! The owner of a UDP port, as far as the system tells: for the error of a second program that wanted it.

use std::fs;
use std::path::Path;

/// The owner of a UDP port of this host: user, and the process if it is one that we may look at.
pub(crate) fn owner_of(port: u16) -> Option<String> {
    let (user, inode) = ["/proc/self/net/udp", "/proc/self/net/udp6"].iter().find_map(|table| {
        let table = fs::read_to_string(table).ok()?;
        table.lines().skip(1).find_map(|line| entry(line, port))
    })?;
    let user = format!("user {}", user_name(user).unwrap_or_else(|| user.to_string()));
    Some(match process_of(inode) {
        Some((process, name)) => format!("{user}, process {process} ({name})"),
        None => user,
    })
}

/// User and inode of the socket of a line, if it has this port.
fn entry(line: &str, port: u16) -> Option<(u32, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (_, here) = words.get(1)?.rsplit_once(':')?;
    let is_it = u16::from_str_radix(here, 16).ok()? == port;
    let found = (words.get(7)?.parse().ok()?, words.get(9)?.parse().ok()?);
    is_it.then_some(found)
}

fn user_name(user: u32) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, id) = (fields.next()?, fields.next()?, fields.next()?);
        (id.parse() == Ok(user)).then(|| name.to_owned())
    })
}

/// The process that has a socket; others' are not shown to us.
fn process_of(inode: u64) -> Option<(u32, String)> {
    let wanted = format!("socket:[{inode}]");
    let has_it = |folder: &Path| {
        let fds = fs::read_dir(folder.join("fd")).ok()?;
        let mut links = fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
        links.any(|link| link.as_os_str() == wanted.as_str()).then_some(())
    };
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        has_it(&entry.path())?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        Some((process, name.trim().to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_port_of_this_process_is_told_with_its_number() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let owner = owner_of(port).expect("it is there");
        let process = format!("process {} (", std::process::id());
        assert!(owner.starts_with("user ") && owner.contains(&process), "{owner}");
    }

    #[test]
    fn lines_of_the_table_are_read() {
        let line = "  123: 0100007F:F007 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 54321 2 0000000000000000 0";
        assert_eq!(entry(line, 0xF007), Some((1000, 54321)));
        assert_eq!(entry(line, 0xF008), None);
        assert_eq!(entry("nonsense", 1), None);
    }
}
