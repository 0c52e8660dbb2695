//! A ring of tasks on tokio: each waits for a number, adds one, and passes it on.
//!
//! ```text
//! cargo run --release -p packhorse --example with_tokio
//! ```

use packhorse::{Endpoint, Error, Peer, Wanted};

const ROUNDS: u64 = 100;
const MEMBERS: usize = 4;

/// Passes the number on until it has gone round often enough.
async fn member(endpoint: Endpoint, next: Peer, begins: bool) -> Result<u64, Error> {
    if begins {
        endpoint.send(next, 0, 0_u64.to_le_bytes().to_vec()).await?;
    }
    let mut last = 0;
    for _ in 0..ROUNDS {
        let message = endpoint.recv(Wanted::any(), vec![0; 8]).await?;
        last = u64::from_le_bytes(message.buffer.try_into().unwrap_or_default()) + 1;
        endpoint.send(next, 0, last.to_le_bytes().to_vec()).await?;
    }
    Ok(last)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ring = (0..MEMBERS).map(|_| Endpoint::local()).collect::<Result<Vec<_>, _>>()?;
    let mut tasks = Vec::new();
    for (index, endpoint) in ring.iter().enumerate() {
        let next = endpoint.peer(&ring[(index + 1) % MEMBERS].address())?;
        tasks.push(tokio::spawn(member(endpoint.clone(), next, index == 0)));
    }
    let mut highest = 0;
    for task in tasks {
        highest = highest.max(task.await??);
    }
    println!("{highest} hops, {MEMBERS} members");
    Ok(())
}
