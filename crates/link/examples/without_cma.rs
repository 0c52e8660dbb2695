//! Runs a command that may not read other processes' memory: `without_cma packhorse bench pingpong --link shm`.
//!
//! That is how it is in many containers. Large messages then go through the shared rings.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("usage: without_cma COMMAND [WORD …]");
        return ExitCode::from(2);
    };
    let error = match packhorse_link::shm::forbid_reading() {
        Ok(()) => Command::new(program).args(words).exec(),
        Err(error) => error,
    };
    eprintln!("error: {error}");
    ExitCode::FAILURE
}
