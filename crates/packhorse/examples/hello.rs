//! Two terminals, two machines, one message. No runtime.
//!
//! ```text
//! here$  cargo run --release -p packhorse --example hello
//! there$ cargo run --release -p packhorse --example hello -- ph1:…
//! ```

use packhorse::{Endpoint, Wanted};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = Endpoint::open()?;
    match std::env::args().nth(1) {
        None => {
            println!("{}", endpoint.address());
            let message = endpoint.recv(Wanted::any(), vec![0; 1000]).wait()?;
            println!("{}", String::from_utf8_lossy(&message.buffer));
            endpoint.send(message.envelope.source, 2, b"and hello to you".to_vec()).wait()?;
        }
        Some(address) => {
            let peer = endpoint.peer(&address.parse()?)?;
            let answer = endpoint.recv(Wanted::tag(2).from(peer), vec![0; 1000]);
            endpoint.send(peer, 1, b"hello".to_vec()).wait()?;
            println!("{}", String::from_utf8_lossy(&answer.wait()?.buffer));
        }
    }
    Ok(())
}
