//! How nodes find each other: by a launcher that speaks PMIx, or by a file of hosts.

use packhorse::Address;

pub(crate) use crate::pmix::Job;
use crate::settings::Settings;
use crate::{hosts, pmix};

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
    if std::env::var_os("PMIX_NAMESPACE").is_some() {
        let (job, id, texts) = pmix::exchange(&address.to_string())?;
        return Ok(Launched { id, addresses: parse(&texts)?, job: Some(job) });
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
