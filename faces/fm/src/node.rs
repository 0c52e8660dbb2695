//! This node: its endpoint, and the others.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use packhorse::stream::{Stream, Streams};
use packhorse::{Address, Endpoint, Error, Peer};
use packhorse_common::pmix::Job;

use crate::dropped::{self, Why};
use crate::settings::Settings;
use crate::whole::Room;
use crate::{errors, launch, thread};

/// So long `FM_finalize` waits for what was sent.
const CLOSE_LONGEST: Duration = Duration::from_secs(30);

/// How often `FM_finalize` looks whether other threads have left.
const LEAVE_LOOK: Duration = Duration::from_millis(1);

/// This node.
pub(crate) struct Node {
    pub(crate) id: usize,
    pub(crate) peers: Vec<Peer>,
    pub(crate) streams: Streams,
    endpoint: Endpoint,
    /// Numbers of the nodes.
    numbers: Arc<HashMap<Peer, c_uint>>,
    /// For FM 1.1 messages that are not whole yet.
    pub(crate) room: Arc<Room>,
    /// Told of the end when dropped.
    job: Mutex<Option<Job>>,
}

impl Node {
    fn open() -> Result<Self, String> {
        let settings = Settings::from_environment()?;
        let endpoint = Endpoint::open().map_err(|error| error.to_string())?;
        let launched = launch::find_others(&endpoint.address(), &settings)?;
        let mut node = Self::new(endpoint, launched.id, &launched.addresses, &settings)?;
        node.job = Mutex::new(launched.job);
        Ok(node)
    }

    fn new(
        endpoint: Endpoint,
        id: usize,
        all: &[Address],
        settings: &Settings,
    ) -> Result<Self, String> {
        let peers: Result<Vec<Peer>, Error> =
            all.iter().map(|address| endpoint.peer(address)).collect();
        let peers = peers.map_err(|error| error.to_string())?;
        let numbers = Arc::new(peers.iter().copied().zip(0..).collect());
        let room = Arc::new(Room::new(settings.whole_len_max));
        thread::set_stack_len(settings.stack_len);
        let streams = endpoint.streams();
        Ok(Self { id, peers, streams, endpoint, numbers, room, job: Mutex::default() })
    }

    /// The handler with this number, of a node's number and its message. Messages of others than nodes are dropped: whoever has an address can
    /// send, and a handler knows nodes only.
    pub(crate) fn register<F, Fut>(&self, number: u16, mut handler: F)
    where
        F: FnMut(c_uint, Stream) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let numbers = Arc::clone(&self.numbers);
        self.streams.register(number, move |sender, stream| {
            let handled = numbers.get(&sender).map(|&node| handler(node, stream));
            async move {
                match handled {
                    Some(handled) => handled.await,
                    None => dropped::count(Why::Outside, || {
                        format!("a message for handler {number} is dropped: its sender is no node of this job")
                    }),
                }
            }
        });
    }
}

/// Whoever calls holds the node for the time of the call, not the lock: a handler may run in it, and call in turn.
static NODE: RwLock<Option<Arc<Node>>> = RwLock::new(None);

/// Calls `f` with the node, if there is one.
pub(crate) fn with_node<R>(f: impl FnOnce(&Node) -> R) -> Option<R> {
    let node = NODE.read().unwrap_or_else(PoisonError::into_inner).clone();
    node.as_deref().map(f)
}

pub(crate) fn initialize() -> c_int {
    // The node is open, and one that is being closed waits for this very handler.
    if thread::is_extracting() {
        return errors::IN_HANDLER;
    }
    let mut node = NODE.write().unwrap_or_else(PoisonError::into_inner);
    if node.is_some() {
        return 0;
    }
    match Node::open() {
        Ok(opened) => {
            *node = Some(Arc::new(opened));
            0
        }
        Err(why) => {
            packhorse_common::complain("fm", why);
            errors::LAUNCH
        }
    }
}

pub(crate) fn finalize() {
    if thread::is_extracting() {
        // There is no error to return, and to go on would be to wait for the handler that waits here.
        eprintln!(
            "packhorse-fm: FM_finalize was called inside a handler, which runs inside FM_extract; call it after FM_extract has returned. The process ends here."
        );
        std::process::abort();
    }
    let node = NODE.write().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut node) = node else { return };
    // Calls of other threads that began before come to their end.
    let node = loop {
        match Arc::try_unwrap(node) {
            Ok(node) => break node,
            Err(shared) => node = shared,
        }
        std::thread::sleep(LEAVE_LOOK);
    };
    let Node { streams, endpoint, job, .. } = node;
    streams.drain(CLOSE_LONGEST);
    drop(streams);
    endpoint.close(CLOSE_LONGEST);
    drop(job);
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Instant;

    use super::*;

    /// Whoever has a node's address can send to it. Handlers hear of nodes only.
    #[test]
    fn messages_from_outside_of_the_job_are_dropped_and_counted() {
        let [here, member, outsider] = std::array::from_fn(|_| Endpoint::local().unwrap());
        let (address, all) = (here.address(), [here.address(), member.address()]);
        let settings = Settings::from(|_| None).unwrap();
        let node = Node::new(here, 0, &all, &settings).unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&heard);
        node.register(1, move |sender, _stream| {
            told.lock().unwrap().push(sender);
            async {}
        });
        for sender in [&outsider, &member, &outsider] {
            let peer = sender.peer(&address).unwrap();
            sender.streams().send(peer, 1, &[b"let me in"]).unwrap();
        }
        let (dropped, until) = (Why::Outside as usize, Instant::now() + Duration::from_secs(60));
        while dropped::count_of(dropped) < 2 || heard.lock().unwrap().is_empty() {
            assert!(Instant::now() < until, "{heard:?}");
            node.streams.extract(usize::MAX).unwrap();
        }
        assert_eq!(*heard.lock().unwrap(), [1]);
    }
}
