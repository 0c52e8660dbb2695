//! A launcher's side of PMI-1, for processes of one host: who is who, a table of keys, and a barrier.
//!
//! The tests of PMI and of Portals start programs with it, and so does `cargo xtask portals`.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// One job. Its threads end with the processes' connections.
pub(crate) struct Server {
    at: String,
    job: Arc<Job>,
}

#[derive(Default)]
struct State {
    keys: HashMap<String, String>,
    /// Processes in the barrier, and how many barriers were passed.
    waiting: u32,
    passed: u64,
}

struct Job {
    count: u32,
    state: Mutex<State>,
    all_here: Condvar,
}

impl Server {
    /// For a job of so many.
    pub(crate) fn start(count: u32) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let at = listener.local_addr()?.to_string();
        let job = Arc::new(Job { count, state: Mutex::default(), all_here: Condvar::new() });
        let theirs = Arc::clone(&job);
        std::thread::spawn(move || {
            // A test may end without joining; then its thread waits here until this program ends.
            for stream in listener.incoming().take(count as usize).flatten() {
                let (job, out) = (Arc::clone(&theirs), stream.try_clone());
                std::thread::spawn(move || out.map(|out| job.serve(stream, out)));
            }
        });
        Ok(Self { at, job })
    }

    /// Where it listens (`PMI_PORT`).
    pub(crate) fn at(&self) -> &str {
        &self.at
    }

    /// A connection that a process is given when it starts (`PMI_FD`).
    #[allow(dead_code, reason = "not all who start programs hand connections over")]
    pub(crate) fn connection(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let (job, out) = (Arc::clone(&self.job), ours.try_clone()?);
        std::thread::spawn(move || job.serve(ours, out));
        Ok(theirs)
    }
}

impl Job {
    /// Answers one process until it leaves; what it does wrong is its own test's failure.
    fn serve(&self, stream: impl Read, mut out: impl Write) {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let answer = self.answer(&line);
            if out.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, line: &str) -> String {
        let word = |name: &str| {
            let mut words = line.split(' ').filter_map(|word| word.split_once('='));
            words.find(|(key, _)| *key == name).map_or("", |(_, value)| value)
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match word("cmd") {
            "initack" => {
                let (rank, count) = (word("pmiid"), self.count);
                format!(
                    "cmd=initack rc=0\ncmd=set size={count}\ncmd=set rank={rank}\ncmd=set debug=0\n"
                )
            }
            "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n".into(),
            "get_my_kvsname" => "cmd=my_kvsname kvsname=packhorse\n".into(),
            "put" => {
                state.keys.insert(word("key").into(), word("value").into());
                "cmd=put_result rc=0 msg=success\n".into()
            }
            "get" => match state.keys.get(word("key")) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}\n"),
                None => "cmd=get_result rc=-1 msg=no_such_key value=unknown\n".into(),
            },
            "barrier_in" => {
                state.waiting += 1;
                if state.waiting == self.count {
                    (state.waiting, state.passed) = (0, state.passed + 1);
                    self.all_here.notify_all();
                } else {
                    let passed = state.passed;
                    let is_over = |state: &mut State| state.passed == passed;
                    drop(self.all_here.wait_while(state, is_over));
                }
                "cmd=barrier_out\n".into()
            }
            "finalize" => "cmd=finalize_ack\n".into(),
            _ => "cmd=error rc=-1\n".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shared_and_a_barrier_waits_for_all() {
        let job = Arc::new(Job { count: 2, state: Mutex::default(), all_here: Condvar::new() });
        assert!(job.answer("cmd=initack pmiid=1").contains("cmd=set rank=1\n"));
        assert!(job.answer("cmd=get kvsname=packhorse key=a").contains("rc=-1"));
        let other = Arc::clone(&job);
        let waiter = std::thread::spawn(move || {
            other.answer("cmd=put kvsname=packhorse key=a value=5");
            other.answer("cmd=barrier_in")
        });
        assert_eq!(job.answer("cmd=barrier_in"), "cmd=barrier_out\n");
        assert!(job.answer("cmd=get kvsname=packhorse key=a").ends_with("value=5\n"));
        assert_eq!(waiter.join().unwrap(), "cmd=barrier_out\n");
    }
}
