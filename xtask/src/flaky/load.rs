//! A load on all cores: processes that only compute, and that no end of ours leaves behind.
//!
//! Each holds the reading end of a pipe whose writing end only this program has. However this program ends, by itself, by a
//! signal or by `kill -9`, the system closes the pipe, and the reader ends its process.

use std::fmt;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

/// The word by which this program is told to be one of them.
const WORD: &str = "compute-until-orphaned";

/// One process for each core; they end when this is dropped.
pub(crate) struct Load(Vec<Child>);

impl Load {
    pub(crate) fn start() -> Result<Self> {
        let core_count = std::thread::available_parallelism()?.get();
        let mut load = Self(Vec::new());
        for _ in 0..core_count {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg(WORD).stdin(Stdio::piped());
            load.0.push(command.spawn().context("the load could not be started")?);
        }
        Ok(load)
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} processes that only compute", self.0.len())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill(); // it may have ended
            let _ = child.wait();
        }
    }
}

/// What such a process does.
pub(crate) fn compute_until_orphaned() -> ! {
    std::thread::spawn(|| {
        let mut nothing = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut nothing); // however it ends, it is the end
        std::process::exit(0);
    });
    let mut number = 1_u64;
    loop {
        number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005) + 1);
    }
}
