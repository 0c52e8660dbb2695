//! The launcher, whichever there is: PMI-1's own wire, PMIx, or none.
//!
//! What a process puts is seen by the others after the next barrier, at the latest. That is all that PMI-1 promises, so over PMIx a barrier is where
//! everything travels: each process puts what is new since the last one under a key of that barrier, and takes what all others put there.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;

use packhorse_common::pmix::Job;

use crate::wire::Wire;

/// Longest names, keys and values, with their final zero.
pub(crate) const NAME_LEN_MAX: usize = 256;
pub(crate) const KEY_LEN_MAX: usize = 256;
pub(crate) const VALUE_LEN_MAX: usize = 1024;

/// Who we are, and what we know.
pub(crate) struct Member {
    pub(crate) rank: u32,
    pub(crate) count: u32,
    pub(crate) name: String,
    launcher: Launcher,
}

enum Launcher {
    /// Nobody but this process.
    Alone(HashMap<String, String>),
    /// A launcher that speaks PMI-1 (`PMI_FD`, `PMI_PORT`).
    Wire(Wire),
    Pmix(Box<Exchange>),
}

/// What travels by PMIx.
struct Exchange {
    job: Job,
    /// Put since the last barrier.
    fresh: BTreeMap<String, String>,
    known: HashMap<String, String>,
    barrier_count: u32,
}

impl Member {
    /// Finds the launcher that started this process.
    pub(crate) fn join() -> Result<Self, String> {
        if let Some(mut wire) = Wire::open()? {
            let (rank, count) = wire.place()?;
            let name = wire.name()?;
            return Ok(Self { rank, count, name, launcher: Launcher::Wire(wire) });
        }
        if Job::is_there() {
            let job = Job::join()?;
            let (rank, count, name) = (job.rank(), job.count()?, job.name());
            let (fresh, known) = (BTreeMap::new(), HashMap::new());
            let exchange = Exchange { job, fresh, known, barrier_count: 0 };
            return Ok(Self { rank, count, name, launcher: Launcher::Pmix(Box::new(exchange)) });
        }
        let launcher = Launcher::Alone(HashMap::new());
        Ok(Self { rank: 0, count: 1, name: "alone".into(), launcher })
    }

    /// Waits until all are here. What was put before is known to all then.
    pub(crate) fn barrier(&mut self) -> Result<(), String> {
        match &mut self.launcher {
            Launcher::Alone(_) => Ok(()),
            Launcher::Wire(wire) => wire.barrier(),
            Launcher::Pmix(exchange) => exchange.barrier(self.count),
        }
    }

    pub(crate) fn put(&mut self, key: &str, value: &str) -> Result<(), String> {
        match &mut self.launcher {
            Launcher::Alone(known) => {
                known.insert(key.into(), value.into());
                Ok(())
            }
            Launcher::Wire(wire) => wire.put(&self.name, key, value),
            Launcher::Pmix(exchange) => {
                exchange.fresh.insert(key.into(), value.into());
                exchange.known.insert(key.into(), value.into());
                Ok(())
            }
        }
    }

    /// `None` if nobody put such a key.
    pub(crate) fn get(&mut self, key: &str) -> Result<Option<String>, String> {
        match &mut self.launcher {
            Launcher::Alone(known) => Ok(known.get(key).cloned()),
            Launcher::Wire(wire) => wire.get(&self.name, key),
            Launcher::Pmix(exchange) => Ok(exchange.known.get(key).cloned()),
        }
    }

    /// Tells the launcher that this process is done.
    pub(crate) fn leave(mut self) -> Result<(), String> {
        match &mut self.launcher {
            Launcher::Wire(wire) => wire.finalize(),
            // PMIx is told when its part of the job is dropped.
            Launcher::Alone(_) | Launcher::Pmix(_) => Ok(()),
        }
    }
}

impl Exchange {
    fn barrier(&mut self, count: u32) -> Result<(), String> {
        self.barrier_count += 1;
        let key = CString::new(format!("packhorse.pmi.{}", self.barrier_count))
            .map_err(|_| "a key without zeros".to_owned())?;
        self.job.put(&key, &packed(&std::mem::take(&mut self.fresh)))?;
        self.job.fence()?;
        for rank in (0..count).filter(|&rank| rank != self.job.rank()) {
            self.known.extend(unpacked(&self.job.get(rank, &key)?)?);
        }
        Ok(())
    }
}

/// Pairs as one text. Lengths stand before the words, for keys and values may be any text; never empty, for PMIx may take that for nothing.
fn packed(pairs: &BTreeMap<String, String>) -> String {
    let words = pairs.iter().flat_map(|(key, value)| [key, value]);
    words.fold(String::from("pmi "), |text, word| text + &format!("{}:{word}", word.len()))
}

fn unpacked(text: &str) -> Result<Vec<(String, String)>, String> {
    let nonsense = || format!("what another process put makes no sense: `{text}`");
    let mut rest = text.strip_prefix("pmi ").ok_or_else(nonsense)?;
    let mut words = Vec::new();
    while !rest.is_empty() {
        let (len, behind) = rest.split_once(':').ok_or_else(nonsense)?;
        let len: usize = len.parse().map_err(|_| nonsense())?;
        let (word, behind) = behind.split_at_checked(len).ok_or_else(nonsense)?;
        words.push(word.to_owned());
        rest = behind;
    }
    let pairs = words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    if words.len() % 2 == 0 { Ok(pairs.collect()) } else { Err(nonsense()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_travel_whatever_is_in_them() {
        let pairs = [("a key", "1:2 3"), ("empty", ""), ("ü", "=\n")];
        let pairs: BTreeMap<String, String> =
            pairs.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        assert_eq!(unpacked(&packed(&pairs)).unwrap(), pairs.into_iter().collect::<Vec<_>>());
        assert_eq!(unpacked(&packed(&BTreeMap::new())), Ok(Vec::new()));
        for wrong in ["", "pmi 3:ab", "pmi x:ab", "pmi 2:ab", "pmi 1:ü1:a"] {
            assert!(unpacked(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn alone_is_a_job_of_one() {
        let launcher = Launcher::Alone(HashMap::new());
        let mut member = Member { rank: 0, count: 1, name: "alone".into(), launcher };
        assert_eq!(member.get("k"), Ok(None));
        member.put("k", "v").unwrap();
        member.barrier().unwrap();
        assert_eq!(member.get("k"), Ok(Some("v".into())));
        member.leave().unwrap();
    }
}
