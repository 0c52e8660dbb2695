//! How nodes find each other: by a launcher that speaks PMIx, or by a file of hosts.

use std::ffi::CStr;

use packhorse::Address;
use packhorse_common::pmix::Job;

use crate::hosts;
use crate::settings::Settings;

/// What nodes put their addresses under.
const KEY: &CStr = c"packhorse.fm.address";

/// Who there is.
pub(crate) struct Launched {
    /// This node.
    pub(crate) id: usize,
    /// All nodes.
    pub(crate) addresses: Vec<Address>,
    /// Told of the end when dropped.
    pub(crate) job: Option<Job>,
}

/// Tells the others our address, and waits for theirs.
pub(crate) fn find_others(address: &Address, settings: &Settings) -> Result<Launched, String> {
    if let Ok(path) = std::env::var("FM_HOSTS") {
        let (id, texts) = hosts::exchange(&path, &address.to_string(), settings)?;
        return Ok(Launched { id, addresses: parse(&texts)?, job: None });
    }
    if Job::is_there() {
        let job = Job::join()?;
        job.put(KEY, &address.to_string())?;
        job.fence()?;
        let texts: Result<Vec<String>, String> =
            (0..job.count()?).map(|rank| job.get(rank, KEY)).collect();
        let (id, addresses) = (job.rank() as usize, parse(&texts?)?);
        return Ok(Launched { id, addresses, job: Some(job) });
    }
    Err("no other nodes are known: start the program by mpirun or srun, or set FM_HOSTS to a file with one \
         `host:port` per node, FM_NODE to the line of this one, from 0, and FM_SECRET to a file that only you can read"
        .into())
}

fn parse(texts: &[String]) -> Result<Vec<Address>, String> {
    let parse = |(node, text): (usize, &String)| {
        text.parse()
            .map_err(|error| format!("the address of node {node} makes no sense: {error:?}"))
    };
    texts.iter().enumerate().map(parse).collect()
}
