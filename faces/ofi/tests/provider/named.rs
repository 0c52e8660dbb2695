//! Servers that are found by node and service, as most libfabric programs expect it.

use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use packhorse_fi::abi::{Info, code, command, flag, format, version};

use crate::application::{Hints, Loaded, Node, bytes_at};
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
        // What stands in the vector is the address that was found.
        assert_eq!(client.lookup(to, 64), server.name);
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
    let numbers = client.insertsym::<2>(c"127.0.0.1", &service);
    assert_eq!(
        (client.lookup(numbers[0], 64), numbers[1]),
        (server.name, u64::MAX),
        "one is there"
    );
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
    assert_eq!(null_mut(), loaded.getinfo(API, Some(&like_mpi)).unwrap().src_addr);
}

#[test]
fn nobody_there_is_an_error_and_no_hang() {
    let test = "named::nobody_there_is_an_error_and_no_hang";
    if !closing::is_run_with(test, "FI_PROVIDER", "packhorse") {
        return;
    }
    let loaded = Loaded::new();
    let (client, nobody) = client_of(&loaded, c"127.0.0.1", c"23250");
    assert_eq!(client.insert(&nobody), Err(u64::MAX));
    assert_eq!(client.insert_code(&nobody), libc::ECONNREFUSED);
    let (_, unknown) = client_of(&loaded, c"no..such..host", c"23250");
    assert_eq!(client.insert_code(&unknown), libc::EHOSTUNREACH);
    for (node, service) in [(c"127.0.0.1", c"http"), (c"127.0.0.1", c"65536")] {
        let refused = loaded.getinfo_at(API, (Some(node), Some(service), 0), Some(&like_mpi));
        assert_eq!(refused.err(), Some(-libc::ENODATA), "{service:?}");
    }
    client.close();
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
    assert!(info.src_addr.is_null() && info.dest_addrlen == 16);
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
    assert_eq!(client.insert_code(&sockaddr([127, 0, 0, 1], 23_699)), libc::ECONNREFUSED);
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
