//! PROTOCOL §3.2: who a peer is. Whoever holds an address may introduce himself under any identity; what the application gave
//! to the peer it named stays that peer's.

use packhorse_proto::*;

use crate::net::*;

const KEY: u64 = 7;
/// Comes with A's identity and a secret of its own.
const IMPOSTOR: usize = C;

const REFUSED: Option<Result<(), Failure>> = Some(Err(Failure::Denied(Denial::NoKey)));

/// A, B, and an impostor of A; B exposes memory to the peers it named.
fn with_impostor() -> (Net, BufId) {
    let impostor = Plan { identity_of: Some(A), ..Plan::default() };
    let mut net = Net::of(&[Plan::default(), Plan::default(), impostor]);
    let (_, buf) = net.expose_as(B, KEY, 64, Access::ALL, Permitted::Named);
    (net, buf)
}

/// The impostor tries, and B is as it was.
fn try_in_vain(net: &mut Net, buf: BufId) {
    let put = net.put((IMPOSTOR, B), KEY, 0, (9, 8), None);
    let get = net.get((IMPOSTOR, B), KEY, 0, 8);
    net.settle();
    assert_eq!(
        (net.operated(IMPOSTOR, put.req), net.operated(IMPOSTOR, get.req)),
        (REFUSED, REFUSED)
    );
    assert_eq!(net.bytes(B, buf), [0xEE; 64], "nothing was written");
    let told = net.left(B);
    assert_eq!(told, [], "nobody left because of it");
}

#[test]
fn another_s_identity_without_its_secret_is_a_stranger() {
    let (mut net, buf) = with_impostor();
    let named = net.peer(B, A);
    try_in_vain(&mut net, buf);
    let put = net.put((A, B), KEY, 0, (1, 8), None);
    net.settle();
    assert_eq!(net.operated(A, put.req), Some(Ok(())), "the one that was named may");
    assert!(net.ep(B).is_joined(named));
    assert_eq!(net.joins(B), 2, "two peers, two associations");
}

#[test]
fn an_impostor_does_not_disturb_the_peer_it_claims_to_be() {
    let (mut net, buf) = with_impostor();
    net.peer(B, A);
    net.join(A, B);
    let unmatched = net.send_matched(B, A, 1, 8);
    let large = net.send(B, A, 2, 100_000);
    let directed = net.recv_from(B, A, 3, 8);
    net.run_for(MS);
    let lie = net.send(IMPOSTOR, B, 3, 8);
    try_in_vain(&mut net, buf);
    assert_eq!(net.sent(IMPOSTOR, lie), Some(Ok(())), "a stranger may send as any stranger may");
    assert_eq!(net.got(B, directed), None, "but not as the peer it claims to be");
    assert_eq!((net.sent(B, unmatched), net.sent(B, large)), (None, None), "still under way");
    net.send(A, B, 3, 8);
    let (first, second) = (net.recv(A, tagged(1), 8), net.recv(A, tagged(2), 100_000));
    net.settle();
    net.assert_got(B, directed, 3, 8);
    net.assert_got(A, first, 1, 8);
    net.assert_got(A, second, 2, 100_000);
    assert_eq!((net.sent(B, unmatched), net.sent(B, large)), (Some(Ok(())), Some(Ok(()))));
    assert_eq!(net.count(B, "renewed"), 0);
}

#[test]
fn who_came_first_under_an_identity_is_not_named_by_another_s_address() {
    let (mut net, buf) = with_impostor();
    net.join(IMPOSTOR, B);
    let early = net.ep(B).find_peer(&identity_of(A)).expect("it introduced itself");
    let named = net.peer(B, A);
    assert_ne!(early, named);
    try_in_vain(&mut net, buf);
    let put = net.put((A, B), KEY, 0, (1, 8), None);
    net.settle();
    assert_eq!(net.operated(A, put.req), Some(Ok(())));
}

#[test]
fn strangers_cannot_take_each_other_s_rows() {
    let (mut net, _) = with_impostor();
    net.join(A, B);
    let a = net.ep(B).find_peer(&identity_of(A)).expect("it introduced itself");
    net.join(IMPOSTOR, B);
    assert!(net.ep(B).is_joined(a));
    let answer = net.recv(A, tagged(5), 8);
    let spec = SendSpec { peer: a, ..net.spec(B, A, 5, 8) };
    net.post(B, spec);
    net.settle();
    net.assert_got(A, answer, 5, 8);
}

#[test]
fn new_secret_under_an_old_identity_is_another_peer_for_who_named_the_old_one() {
    let (mut net, buf) = with_impostor();
    let old = net.peer(B, A);
    net.join(A, B);
    net.kill(A);
    try_in_vain(&mut net, buf);
    let new = net.peer(B, IMPOSTOR);
    assert_ne!(old, new, "a new secret is a new address, which the application gives");
    let put = net.put((IMPOSTOR, B), KEY, 0, (1, 8), None);
    net.settle();
    assert_eq!(net.operated(IMPOSTOR, put.req), Some(Ok(())));
}

#[test]
fn who_holds_a_peer_s_own_address_can_pass_for_it() {
    // Not a virtue: the secret is one for all who hold the address. SECURITY.md says so.
    let thief = Plan { identity_of: Some(A), secret_of: Some(A), ..Plan::default() };
    let mut net = Net::of(&[Plan::default(), Plan::default(), thief]);
    net.expose_as(B, KEY, 64, Access::ALL, Permitted::Named);
    net.peer(B, A);
    let put = net.put((C, B), KEY, 0, (1, 8), None);
    net.settle();
    assert_eq!(net.operated(C, put.req), Some(Ok(())));
}

#[test]
fn nobody_else_is_we() {
    // Whoever holds B's address knows B's identity and B's secret.
    let double = Plan { identity_of: Some(B), secret_of: Some(B), ..Plan::default() };
    let mut net = Net::of(&[Plan::default(), Plan::default(), double]);
    net.expose_as(B, KEY, 64, Access::ALL, Permitted::Named);
    let own = net.peer(B, B);
    let address = net.nodes[B].ep.address();
    let hello = wire::HelloRepr {
        who: wire::Introduction {
            flags: 0,
            versions: 0x11,
            frame_len_max: 1472,
            incarnation: 5,
            id: 6,
            nonce: 7,
        },
        address,
        locators: &[],
    };
    let first = wire::Header { to: 0, packet: 0, path: 0, form: 1 };
    net.forge_as(C, B, first, |writer| writer.hello(&hello, address.secret), &[]);
    let nobody =
        wire::HelloRepr { address: Address { secret: Secret::PUBLIC, ..address }, ..hello };
    net.forge_as(C, B, first, |writer| writer.hello(&nobody, address.secret), &[]);
    assert_eq!(net.count(B, "identities_refused"), 2);
    net.pump();
    assert_eq!(net.count(B, "frames_out"), 0, "unanswered");
    assert!(net.ep(B).is_joined(own));
}

#[test]
fn who_is_named_without_a_secret_is_whoever_says_so_first() {
    // The application gave no secret to be proven (PROTOCOL §3.9).
    let (mut net, _) = with_impostor();
    let address = Address { secret: Secret::PUBLIC, ..net.nodes[A].ep.address() };
    let named = net.ep(B).add_peer(&address).unwrap();
    let first = net.put((IMPOSTOR, B), KEY, 0, (1, 8), None);
    net.settle();
    assert_eq!(net.operated(IMPOSTOR, first.req), Some(Ok(())));
    assert!(net.ep(B).is_joined(named));
    let second = net.put((A, B), KEY, 0, (1, 8), None);
    net.settle();
    assert_eq!(net.operated(A, second.req), REFUSED);
    assert_eq!(net.left(B), [], "and takes nothing from the first");
}
