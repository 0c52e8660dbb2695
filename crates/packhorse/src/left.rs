//! Counters that endpoints leave behind in a file (`PACKHORSE_COUNTERS`).
//!
//! A process may have several endpoints (an MPI has, for its one-sided operations) and one file: it holds the sums over those
//! that have ended.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use packhorse_link::create_own;

type Sums = Vec<(String, u64)>;

/// By file.
static LEFT: LazyLock<Mutex<HashMap<PathBuf, Sums>>> = LazyLock::new(Mutex::default);

/// Adds the counters of an endpoint to the file of this process; what that is called, if it could not be written.
pub(crate) fn leave(prefix: &Path, counters: &[(String, u64)]) -> Result<(), (PathBuf, io::Error)> {
    let mut name = prefix.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let path = PathBuf::from(name);
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let sums = left.entry(path.clone()).or_default();
    for (index, (name, value)) in counters.iter().enumerate() {
        // Most endpoints of a process have the same links, hence the same counters in the same order.
        match sums.get_mut(index).filter(|sum| sum.0 == *name) {
            Some(sum) => sum.1 += value,
            None => match sums.iter_mut().find(|sum| sum.0 == *name) {
                Some(sum) => sum.1 += value,
                None => sums.push((name.clone(), *value)),
            },
        }
    }
    let written = create_own(&path).and_then(|mut file| file.write_all(json(sums).as_bytes()));
    written.map_err(|error| (path, error))
}

/// As a JSON object.
pub(crate) fn json(counters: &[(String, u64)]) -> String {
    let pairs: Vec<String> =
        counters.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_endpoints_of_one_process_leave_is_summed() {
        let folder = std::env::temp_dir();
        let prefix = folder.join(format!("packhorse-left-{}", std::process::id()));
        let of = |pairs: &[(&str, u64)]| -> Sums {
            pairs.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
        };
        leave(&prefix, &of(&[("frames", 3), ("udp0_bytes", 10)])).unwrap();
        leave(&prefix, &of(&[("frames", 0), ("shm0_bytes", 5), ("udp0_bytes", 1)])).unwrap();
        let path = folder.join(format!("packhorse-left-{0}.{0}", std::process::id()));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, r#"{"frames":3,"udp0_bytes":11,"shm0_bytes":5}"#);
        std::os::unix::fs::symlink(folder.join("elsewhere"), &path).unwrap();
        let (_, error) = leave(&prefix, &of(&[("frames", 1)])).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(error.to_string().contains("no ordinary file of yours"), "{error}");
        let nowhere = folder.join("no/such/folder/packhorse");
        assert!(leave(&nowhere, &[]).is_err());
    }
}
