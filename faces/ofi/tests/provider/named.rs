//! Servers that are found by node and service, as most libfabric programs expect it.

use std::ffi::{CStr, CString};

use packhorse_fi::abi::{Info, code, command, event, flag, format, kind, version};

use crate::application::{
    Hints, Loaded, Node, Read, bind, bytes_at, close, insert_told, read_failed, read_told,
};
use crate::{TAG, closing, like_mpi};

const API: u32 = version(1, 17);

/// The address in an answer.
fn bytes(at: *mut std::ffi::c_void, len: usize) -> Option<[u8; 64]> {
    // SAFETY: null, or as long as `getinfo` says.
    (!at.is_null() && len == 64).then(|| unsafe { at.cast::<[u8; 64]>().read() })
}

/// A server at the first number from `first` on that is free, not yet enabled, and its service.
fn server(loaded: &Loaded, first: u16) -> (Node, CString) {
    for number in first..first + 100 {
        let service = CString::new(number.to_string()).unwrap();
        let at = (Some(c"127.0.0.1"), Some(&*service), flag::SOURCE);
        let info = loaded.getinfo_at(API, at, Some(&like_mpi)).unwrap();
        assert!(bytes(info.src_addr, info.src_addrlen).is_some() && info.dest_addr.is_null());
        let node = loaded.disabled_node(info);
        match node.control(command::ENABLE) {
            0 => return (node, service),
            refused => assert_eq!(refused, -libc::EADDRINUSE),
        }
    }
    panic!("no number is free from {first} on");
}

fn client_of(loaded: &Loaded, node: &CStr, service: &CStr) -> (Node, [u8; 64]) {
    let info = loaded.getinfo_at(API, (Some(node), Some(service), 0), Some(&like_mpi)).unwrap();
    let destination = bytes(info.dest_addr, info.dest_addrlen).expect("a place");
    let mut client = loaded.disabled_node(info);
    client.enable();
    (client, destination)
}

fn hello(client: &Node, to: u64, server: &Node) {
    let buf = server.trecv(20, u64::MAX, TAG, 1);
    client.tsend(b"by name", None, to, 7, 2);
    // The end of an earlier send of its own may come first.
    let entry =
        std::iter::repeat_with(|| server.wait_done()).find(|it| it.op_context as usize == 1);
    assert_eq!(entry.map(|entry| entry.len), Some(7));
    assert_eq!(bytes_at(buf, 7), b"by name");
}

#[test]
fn a_server_is_found_by_node_and_service() {
    let test = "named::a_server_is_found_by_node_and_service";
    if !closing::is_run_with(test, "FI_PROVIDER", "packhorse") {
        return;
    }
    let loaded = Loaded::new();
    let (mut server, service) = server(&loaded, 23_000);
    let mut len = 64;
    assert_eq!(server.getname(&mut len), 0);
    for node in [c"127.0.0.1", c"localhost"] {
        let (client, destination) = client_of(&loaded, node, &service);
        assert_ne!(destination, server.name, "nobody was asked yet");
        let to = client.insert(&destination).expect("it is there");
        hello(&client, to, &server);
        assert_eq!(client.lookup(to, 64), destination, "as it was entered");
        let text = client.straddr(&destination);
        assert_eq!(
            text,
            format!("packhorse://{}:{}", node.to_str().unwrap(), service.to_str().unwrap())
        );
        client.close();
    }
    // The other call for the same.
    let (client, _) = client_of(&loaded, c"127.0.0.1", &service);
    let to = client.insertsvc(c"127.0.0.1", &service).expect("it is there");
    hello(&client, to, &server);
    let [first, next] = client.insertsym::<2>(c"127.0.0.1", &service);
    hello(&client, first, &server);
    client.tsend(b"nobody", None, next, 7, 9);
    assert_eq!(failure_of(&client, 9).0, libc::ECONNREFUSED);
    // And by an address as text, instead of node and service.
    let text = CString::new(format!("packhorse://127.0.0.1:{}", service.to_str().unwrap()));
    let to = client.insert_text(&text.unwrap()).expect("a place");
    hello(&client, to, &server);
    assert_eq!(client.insert_text(c"127.0.0.1"), Err(-libc::EINVAL), "no number");
    client.close();
    server.close();
}

#[test]
fn a_place_is_known_before_the_endpoint_is_enabled() {
    let test = "named::a_place_is_known_before_the_endpoint_is_enabled";
    if !closing::is_run_with(test, "FI_PROVIDER", "packhorse") {
        return;
    }
    let loaded = Loaded::new();
    let at = (None, Some(c"23150"), flag::SOURCE);
    let info = loaded.getinfo_at(API, at, Some(&like_mpi)).unwrap();
    let source = bytes(info.src_addr, info.src_addrlen).expect("a place");
    // An application may ask again with what it got.
    let again = |hints: &mut Hints| {
        like_mpi(hints);
        (hints.source, hints.source_len) = (source, 64);
    };
    let info: &mut Info = loaded.getinfo(API, Some(&again)).unwrap();
    assert_eq!(bytes(info.src_addr, info.src_addrlen), Some(source));
    let mut node = loaded.disabled_node(info);
    let mut len = 64;
    assert_eq!((node.getname(&mut len), node.name), (0, source));
    let mut unnamed = loaded.disabled_node(loaded.getinfo(API, Some(&like_mpi)).unwrap());
    assert_eq!(unnamed.getname(&mut len), -code::EOPBADSTATE);
    // Without a place there is a source nevertheless, which says that there is none: programs expect one.
    let nowhere = loaded.getinfo(API, Some(&like_mpi)).unwrap();
    let nowhere = bytes(nowhere.src_addr, nowhere.src_addrlen).expect("a source");
    let again = |hints: &mut Hints| {
        like_mpi(hints);
        (hints.source, hints.source_len) = (nowhere, 64);
    };
    let mut node = loaded.disabled_node(loaded.getinfo(API, Some(&again)).unwrap());
    node.enable();
    assert_eq!(node.insert(&nowhere), Err(u64::MAX), "nobody's address");
}

/// What the next failure says, which must be of this operation. The end of an earlier send may come first.
fn failure_of(node: &Node, context: usize) -> (i32, String) {
    let failure = std::iter::repeat_with(|| node.wait()).find_map(|read| match read {
        Read::Failed { entry, err, why, .. } => Some((entry.op_context as usize, err, why)),
        Read::Done(_) => None,
    });
    let (of, code, why) = failure.unwrap();
    assert_eq!(of, context, "{why}");
    (code, why)
}

#[test]
fn nobody_there_is_an_error_and_no_hang() {
    let test = "named::nobody_there_is_an_error_and_no_hang";
    if !closing::is_run_with(test, "FI_PROVIDER", "packhorse") {
        return;
    }
    let loaded = Loaded::new();
    let (client, nobody) = client_of(&loaded, c"127.0.0.1", c"23250");
    let to = client.insert(&nobody).expect("nobody was asked yet");
    client.tsend(b"is anybody there", None, to, 7, 3);
    let (code, why) = failure_of(&client, 3);
    assert_eq!(code, libc::ECONNREFUSED);
    assert!(why.contains("127.0.0.1") && why.contains("23250"), "{why}");
    // What had no context fails without one, and the other operations as sends do.
    client.tinject(b"nor now", to, 7);
    assert_eq!(failure_of(&client, 0).0, libc::ECONNREFUSED);
    client.trecv(8, to, TAG, 4);
    assert_eq!(failure_of(&client, 4).0, libc::ECONNREFUSED);
    // Once there is somebody it is found.
    let mut server = None;
    let at = (Some(c"127.0.0.1"), Some(c"23250"), flag::SOURCE);
    let node = loaded.disabled_node(loaded.getinfo_at(API, at, Some(&like_mpi)).unwrap());
    if node.control(command::ENABLE) == 0 {
        hello(&client, to, server.insert(node));
    }
    let unknown = client.insertsvc(c"no..such..host", c"23250").expect("nobody was asked yet");
    client.tsend(b"is anybody there", None, unknown, 7, 5);
    let (code, why) = failure_of(&client, 5);
    assert_eq!(code, libc::EHOSTUNREACH);
    assert!(why.contains("no..such..host"), "{why}");
    let refused = loaded.getinfo_at(API, (Some(c"no..such..host"), Some(c"1"), 0), Some(&like_mpi));
    assert_eq!(refused.err(), Some(-libc::ENODATA), "names are resolved where they are given");
    // A host without a number is none that could be reached; it is answered as other providers do.
    let info = loaded.getinfo_at(API, (Some(c"127.0.0.1"), None, 0), Some(&like_mpi)).unwrap();
    let nowhere = bytes(info.dest_addr, info.dest_addrlen).expect("an address");
    assert_eq!(client.insert(&nowhere), Err(u64::MAX));
    for (node, service) in [(c"127.0.0.1", c"http"), (c"127.0.0.1", c"65536")] {
        let refused = loaded.getinfo_at(API, (Some(node), Some(service), 0), Some(&like_mpi));
        assert_eq!(refused.err(), Some(-libc::ENODATA), "{service:?}");
    }
    client.close();
}

/// A host that is silent for as long as it is asked holds up nobody: neither the call that enters it, nor what goes to others.
#[test]
fn a_silent_host_holds_up_nobody() {
    let test = "named::a_silent_host_holds_up_nobody";
    if !closing::is_run_with(test, "FI_PROVIDER", "packhorse") {
        return;
    }
    let loaded = Loaded::new();
    let (server, service) = server(&loaded, 23_700);
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = CString::new(silent.local_addr().unwrap().port().to_string()).unwrap();
    let (client, nobody) = client_of(&loaded, c"127.0.0.1", &port);
    let to = client.insert(&nobody).expect("nobody was asked yet");
    client.tsend(b"is anybody there", None, to, 7, 3);
    client.tsend(b"is anybody there", None, to, 7, 4);
    client.trecv(8, to, TAG, 5);
    let (_, place) = client_of(&loaded, c"127.0.0.1", &service);
    let to_server = client.insert(&place).unwrap();
    hello(&client, to_server, &server);
    assert_eq!(client.wait_done().op_context as usize, 2, "of the send to the server");
    client.cancel(5);
    assert_eq!(failure_of(&client, 5).0, libc::ECANCELED);
    for context in [3, 4] {
        let (code, why) = failure_of(&client, context);
        assert_eq!(code, libc::EHOSTUNREACH);
        assert!(why.contains("127.0.0.1") && why.contains(port.to_str().unwrap()), "{why}");
    }
    // One that is removed while it is looked for: what waits is cancelled.
    client.tsend(b"is anybody there", None, to, 7, 6);
    assert_eq!(client.remove(to), 0);
    assert_eq!(failure_of(&client, 6).0, libc::ECANCELED);
    assert_eq!(client.sread(0), -(libc::EAGAIN as isize));
    client.close();
    server.close();
}

fn like_text(hints: &mut Hints) {
    like_mpi(hints);
    hints.address_format = format::STR;
}

#[test]
fn who_wants_text_gets_it() {
    let test = "named::who_wants_text_gets_it";
    if !closing::is_run_with(test, "FI_PROVIDER", "packhorse") {
        return;
    }
    let loaded = Loaded::new();
    let (server, service) = server(&loaded, 23_800);
    let there = format!("packhorse://127.0.0.1:{}", service.to_str().unwrap());
    let node = CString::new(there.clone()).unwrap();
    for at in [(Some(&*node), None, 0), (Some(c"127.0.0.1"), Some(&*service), 0)] {
        let info = loaded.getinfo_at(API, at, Some(&like_text)).unwrap();
        assert_eq!((info.addr_format, info.dest_addrlen), (format::STR, there.len() + 1));
        let destination = bytes_at(info.dest_addr.cast(), info.dest_addrlen);
        assert_eq!(destination, node.as_bytes_with_nul());
        let client = loaded.disabled_node(info);
        assert_eq!(client.control(command::ENABLE), 0);
        let own = client.name_as_text();
        assert!(own.to_str().unwrap().starts_with("packhorse://ph1:"), "{own:?}");
        assert_eq!(client.insert_code_of_text(&node), 0);
        hello(&client, 0, &server);
        // An address by which it is found and one that it is: both are text.
        assert_eq!(client.insert_code_of_text(&own), 0);
        client.tsend(b"to itself", None, 1, 7, 3);
        client.trecv(20, u64::MAX, TAG, 4);
        let done: Vec<_> = (0..3).map(|_| client.wait_done().op_context as usize).collect();
        assert!([2, 3, 4].iter().all(|it| done.contains(it)), "{done:?}");
        let long = CString::new("x".repeat(1000)).unwrap();
        for nonsense in [c"", c"node7", c"packhorse://ph1:x", c"fi_shm://7:7", &*long] {
            assert_eq!(client.insert_code_of_text(nonsense), libc::EINVAL, "{nonsense:?}");
        }
        client.close();
    }
    server.close();
}

/// An address vector that tells of insertions by an event queue.
#[test]
fn insertions_are_told_of_where_that_is_asked_for() {
    let test = "named::insertions_are_told_of_where_that_is_asked_for";
    if !closing::is_run_with(test, "FI_PROVIDER", "packhorse") {
        return;
    }
    let loaded = Loaded::new();
    let node = loaded.disabled_node(loaded.getinfo(API, Some(&like_sockets)).unwrap());
    let (av, eq) = (node.telling_av(), node.event_queue(kind::WAIT_UNSPEC));
    let good = sockaddr([127, 0, 0, 1], 9);
    assert_eq!(insert_told(av, &[&good[..16]], 1).0, -code::ENOEQ, "nobody to tell");
    assert_eq!(bind(av, eq), 0);
    let (status, numbers) = insert_told(av, &[&good[..16], &[0; 16]], 77);
    assert_eq!((status, numbers[1]), (0, u64::MAX));
    assert_eq!(read_failed(eq), Some((av as usize, 77, 1, libc::EINVAL)));
    assert_eq!(read_told(eq), Some((event::AV_COMPLETE, av as usize, 77, 1)));
    assert_eq!((read_failed(eq), read_told(eq)), (None, None));
    assert_eq!(insert_told(av, &[], 78).0, 0);
    assert_eq!(read_told(eq), Some((event::AV_COMPLETE, av as usize, 78, 0)));
    assert_eq!(close(eq), -libc::EBUSY, "the vector tells it");
    assert_eq!((close(av), close(eq)), (0, 0));
}

/// A socket address of IPv4 as an application has it, and zeros behind it.
fn sockaddr(ip: [u8; 4], port: u16) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4..8].copy_from_slice(&ip);
    bytes
}

fn like_sockets(hints: &mut Hints) {
    like_mpi(hints);
    hints.address_format = format::SOCKADDR_IN;
}

/// Enables it; its name, of so many bytes.
fn enable(node: &mut Node, wanted_len: usize) -> [u8; 64] {
    assert_eq!(node.control(command::ENABLE), 0);
    let mut len = 64;
    assert_eq!((node.getname(&mut len), len), (0, wanted_len));
    node.name
}

#[test]
fn who_wants_socket_addresses_gets_them() {
    let test = "named::who_wants_socket_addresses_gets_them";
    if !closing::is_run_with(test, "FI_PROVIDER", "packhorse") {
        return;
    }
    let loaded = Loaded::new();
    let (holder, service) = server(&loaded, 23_500);
    holder.close(); // its number is free now
    let port = service.to_str().unwrap().parse().unwrap();
    let at = (Some(c"127.0.0.1"), Some(&*service), flag::SOURCE);
    let info = loaded.getinfo_at(API, at, Some(&like_sockets)).unwrap();
    assert_eq!((info.addr_format, info.src_addrlen), (format::SOCKADDR_IN, 16));
    let mut server = loaded.disabled_node(info);
    let mut len = 64;
    let own = sockaddr([127, 0, 0, 1], port);
    assert_eq!((server.getname(&mut len), len, server.name), (0, 16, own), "before it is enabled");
    assert_eq!(enable(&mut server, 16), own, "and after");
    // A client that chose no number has one nevertheless: the server answers to its socket address.
    let at = (Some(c"127.0.0.1"), Some(&*service), 0);
    let info = loaded.getinfo_at(API, at, Some(&like_sockets)).unwrap();
    assert_eq!((info.src_addrlen, info.dest_addrlen), (16, 16));
    let mut client = loaded.disabled_node(info);
    let name = enable(&mut client, 16);
    let to = client.insert(&own).expect("it is there");
    assert_eq!(
        (client.lookup(to, 16), client.straddr(&own)),
        (own, format!("fi_sockaddr_in://127.0.0.1:{port}"))
    );
    hello(&client, to, &server);
    let back = server.insert(&name).expect("it is there");
    hello(&server, back, &client);
    let nobody = client.insert(&sockaddr([127, 0, 0, 1], 23_699)).expect("nobody was asked yet");
    client.tsend(b"nobody", None, nobody, 7, 9);
    let (code, why) = failure_of(&client, 9);
    assert!(code == libc::ECONNREFUSED && why.contains("23699"), "{code} {why}");
    assert_eq!(client.insert_code(&[0; 64]), libc::EINVAL, "of no family");
    client.close();
    server.close();
}

#[test]
fn two_servers_do_not_get_one_number() {
    let test = "named::two_servers_do_not_get_one_number";
    if !closing::is_run_with(test, "FI_PROVIDER", "packhorse") {
        return;
    }
    let loaded = Loaded::new();
    let (first, service) = server(&loaded, 23_300);
    let at = (Some(c"127.0.0.1"), Some(&*service), flag::SOURCE);
    let mut second = loaded.disabled_node(loaded.getinfo_at(API, at, Some(&like_mpi)).unwrap());
    assert_eq!(second.control(command::ENABLE), -libc::EADDRINUSE);
    first.close();
    second.enable();
    second.close();
}

/// Whoever asks any provider for a port of TCP does not mean a number of ours.
#[test]
fn without_our_name_a_service_is_not_a_number() {
    let loaded = Loaded::new();
    let at = (None, Some(c"23450"), flag::SOURCE);
    assert!(loaded.getinfo_at(API, at, Some(&like_mpi)).unwrap().src_addr.is_null());
    let there = (Some(c"127.0.0.1"), Some(c"23450"), 0);
    assert_eq!(loaded.getinfo_at(API, there, Some(&like_mpi)).err(), Some(-libc::ENODATA));
    assert_eq!(loaded.getinfo(API, Some(&like_sockets)).err(), Some(-libc::ENODATA));
}
