//! How nodes find each other: by a launcher that speaks PMIx, or by a file of hosts.

use packhorse::Address;

use crate::{hosts, pmix};

/// Who there is.
pub(crate) struct Launched {
    /// This node.
    pub(crate) id: usize,
    /// All nodes.
    pub(crate) addresses: Vec<Address>,
    /// Told of the end when dropped.
    pub(crate) _job: Option<pmix::Job>,
}

/// Tells the others our address, and waits for theirs.
pub(crate) fn find_others(address: &Address) -> Result<Launched, String> {
    if let Ok(path) = std::env::var("FM_HOSTS") {
        let (id, texts) = hosts::exchange(&path, &address.to_string())?;
        return Ok(Launched { id, addresses: parse(&texts)?, _job: None });
    }
    if std::env::var_os("PMIX_NAMESPACE").is_some() {
        let (job, id, texts) = pmix::exchange(&address.to_string())?;
        return Ok(Launched { id, addresses: parse(&texts)?, _job: Some(job) });
    }
    Err("no other nodes are known: start the program by mpirun or srun, or set FM_HOSTS to a file with one \
         `host:port` per node and FM_NODE to the line of this one, from 0"
        .into())
}

fn parse(texts: &[String]) -> Result<Vec<Address>, String> {
    let parse = |(node, text): (usize, &String)| {
        text.parse()
            .map_err(|error| format!("the address of node {node} makes no sense: {error:?}"))
    };
    texts.iter().enumerate().map(parse).collect()
}
