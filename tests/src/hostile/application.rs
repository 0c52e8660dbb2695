//! What the application does, as the script says: posts, cancels, probes, claims, parts.

use packhorse_proto::{
    Access, AtomicOp, AtomicSpec, Claim, Criteria, Datatype, Endpoint, GetSpec, List, Payload,
    Permitted, PostError, PutSpec, RecvSpec, RegionSpec, Remote, ReqId, SendSpec, Space, Tag, Use,
};

use super::{Party, World};
use crate::ledger::{Ledger, Purpose};
use crate::script::Script;

/// Requests a script may post; posts are the application's own and unbounded, but a script should end.
const REQUEST_COUNT_MAX: usize = 128;
/// Lengths of messages and receives: around the edges of one frame, of eager, and beyond counting.
const LENS: [u64; 12] =
    [0, 1, 8, 100, 1_400, 1_450, 3_000, 5_000, 20_000, 70_000, 1 << 33, u64::MAX];
/// Ignore bits: none, Open MPI's, MPICH's, a wildcard.
const IGNORES: [u64; 5] = [0, 1 << 32, 3 << 54, 0x7FFF_FFFF, u64::MAX];

/// Keys of what everybody exposes; the last is nobody's.
pub(super) const KEYS: [u64; 3] = [7, 8, 9];

/// Memory for peers: some for everything, and more than anybody has, to be read by those who are named.
pub(super) fn expose(endpoint: &mut Endpoint, ledger: &mut Ledger) {
    let regions =
        [(70_000, Access::ALL, Permitted::Any), (u64::MAX, Access::READ, Permitted::Named)];
    for (key, (len, access, permitted)) in KEYS.into_iter().zip(regions) {
        let buf = ledger.lend(Purpose::Exposed, len);
        let spec = RegionSpec { key, buf, len, access, permitted, user: buf.0, tells_all: true };
        endpoint.expose(spec).expect("keys differ");
    }
}

/// Mostly the same space, or hardly anything would match.
fn space(script: &mut Script<'_>) -> Space {
    Space(u8::from(script.byte() & 7 == 7))
}

/// Mostly the same tag.
fn tag(script: &mut Script<'_>) -> Tag {
    Tag(u64::from(script.byte() & 3 == 3))
}

impl World {
    /// Each endpoint says a word to each, and takes what it hears: all are joined before the script begins.
    pub(super) fn acquaint(&mut self) {
        for at in 0..self.parties.len() {
            let now = self.now;
            let Party { endpoint, ledger, peers, .. } = &mut self.parties[at];
            for &peer in &*peers {
                let buf = ledger.lend(Purpose::Send, 0);
                let payload = Payload::InPlace { buf, len: 0 };
                let (space, tag, user) = (Space(0), Tag(0), buf.0);
                let spec = SendSpec {
                    peer,
                    space,
                    tag,
                    immediate: None,
                    payload,
                    until_matched: false,
                    user,
                };
                ledger.posted(buf, endpoint.post_send(now, spec).ok());
            }
        }
        for _ in 0..6 {
            self.drain();
            self.carry();
        }
        let anything = Criteria { space: Space(0), tag: Tag(0), ignore: !0, source: None };
        for Party { endpoint, .. } in &mut self.parties {
            while let Some((claim, _)) = endpoint.claim(self.now, &anything) {
                endpoint.discard(self.now, claim).expect("just claimed");
            }
        }
    }

    /// A message of several frames is on its way to one that wants it, and the first of them has arrived.
    pub(super) fn begin_message(&mut self, script: &mut Script<'_>) {
        let len = script.pick(&[3_000, 5_000, 20_000, 70_000]);
        let (now, [from, to, ..]) = (self.now, &mut self.parties[..]) else { return };
        let buf = to.ledger.lend(Purpose::Receive, len);
        let criteria = Criteria { space: Space(0), tag: Tag(0), ignore: !0, source: None };
        let (list, uses) = (List::Priority, Use::Once);
        let spec = RecvSpec { criteria, buf, len, list, uses, header_only: false, user: buf.0 };
        let req = to.endpoint.post_recv(now, spec, &mut to.ledger);
        to.ledger.posted(buf, req.ok());
        // Of its peers the first is itself.
        let Some(&peer) = from.peers.get(1) else { return };
        let buf = from.ledger.lend(Purpose::Send, len);
        let payload = Payload::InPlace { buf, len };
        let (space, tag, user) = (Space(0), Tag(0), buf.0);
        let spec =
            SendSpec { peer, space, tag, immediate: None, payload, until_matched: false, user };
        from.ledger.posted(buf, from.endpoint.post_send(now, spec).ok());
        self.drain();
        if let Some(first) = self.parties[1].inbox.pop_front() {
            self.hand_over(1, &first);
        }
    }

    pub(super) fn criteria(&self, at: usize, script: &mut Script<'_>) -> Criteria {
        Criteria {
            space: space(script),
            tag: tag(script),
            ignore: script.pick(&IGNORES),
            source: script.flag().then(|| self.parties[at].peer(script)),
        }
    }

    pub(super) fn post_send(&mut self, at: usize, script: &mut Script<'_>) {
        if self.post_count > REQUEST_COUNT_MAX {
            return;
        }
        let now = self.now;
        let party = &mut self.parties[at];
        let copied = [0x5A; 2_000];
        let len = script.pick(&LENS);
        let (peer, flags, space, tag) =
            (party.peer(script), script.byte(), space(script), tag(script));
        let in_place = flags & 1 == 0;
        let buf = party.ledger.lend(Purpose::Send, if in_place { len } else { 0 });
        let payload = match in_place {
            true => Payload::InPlace { buf, len },
            false => Payload::Copied(&copied[..len.min(2_000) as usize]),
        };
        let spec = SendSpec {
            peer,
            space,
            tag,
            immediate: (flags & 4 != 0).then_some(u64::from(flags)),
            payload,
            until_matched: flags & 8 != 0,
            user: buf.0,
        };
        let req = party.endpoint.post_send(now, spec);
        // Copied sends have no event: nothing stays lent.
        party.ledger.posted(buf, req.ok().filter(|_| in_place));
        self.tell(|| {
            format!("party {at} posts a send to {peer:?}, {tag:?}, {len} bytes, {buf:?}: {req:?}")
        });
        self.post_count += 1;
    }

    /// A one-sided operation.
    pub(super) fn operate(&mut self, at: usize, script: &mut Script<'_>) {
        if self.post_count > REQUEST_COUNT_MAX {
            return;
        }
        let now = self.now;
        let party = &mut self.parties[at];
        let (len, flags) = (script.pick(&LENS), script.byte());
        let (key, offset) = (script.pick(&KEYS), script.pick(&[0, 3, 69_000, 70_000, u64::MAX]));
        let remote = Remote { peer: party.peer(script), key, offset };
        let copied = [0x5A; 2_000];
        let copied = &copied[..len.min(2_000) as usize];
        let (purpose, lent_len) = match flags & 3 {
            0 => (Purpose::Send, len),
            1 => (Purpose::Receive, len),
            2 => (Purpose::Send, 0),
            _ => (Purpose::Receive, 8),
        };
        let buf = party.ledger.lend(purpose, lent_len);
        let immediate = (flags & 4 != 0).then_some(5);
        let user = buf.0;
        let endpoint = &mut party.endpoint;
        let req = match flags & 3 {
            0 | 2 => {
                let payload = match flags & 3 {
                    0 => Payload::InPlace { buf, len },
                    _ => Payload::Copied(copied),
                };
                endpoint.put(now, PutSpec { to: remote, payload, immediate, user })
            }
            1 => endpoint.get(now, GetSpec { from: remote, buf, len, user }),
            _ => {
                let op = script.pick(&AtomicOp::ALL);
                let operands = [1; 8];
                let (operand, compare) = (
                    if op.writes() { &operands[..] } else { &[] },
                    if op.compares() { &operands[..] } else { &[] },
                );
                let (datatype, result) = (Datatype::U64, (flags & 8 != 0).then_some(buf));
                let at = remote;
                let spec = AtomicSpec { at, op, datatype, len: 8, operand, compare, result, user };
                endpoint.atomic(now, spec)
            }
        };
        party.ledger.posted(buf, req.ok());
        self.tell(|| format!("party {at} operates on {remote:?}, {len} bytes, {buf:?}: {req:?}"));
        self.post_count += 1;
    }

    pub(super) fn post_recv(&mut self, at: usize, script: &mut Script<'_>) {
        if self.post_count > REQUEST_COUNT_MAX {
            return;
        }
        let criteria = self.criteria(at, script);
        let (len, flags) = (script.pick(&LENS), script.byte());
        let (many, header_only) = (flags & 3 == 3, flags & 0x0C == 0x0C);
        let now = self.now;
        let party = &mut self.parties[at];
        let purpose = if many { Purpose::Collect } else { Purpose::Receive };
        // A header-only receive has memory of no length: nothing may be placed.
        let buf = party.ledger.lend(purpose, if header_only { 0 } else { len });
        let spec = RecvSpec {
            criteria,
            buf,
            len: if header_only { 0 } else { len },
            list: if flags & 0x10 != 0 { List::Overflow } else { List::Priority },
            uses: if many {
                Use::Many { free_len_min: u64::from(script.byte()) * 16 }
            } else {
                Use::Once
            },
            header_only,
            user: buf.0,
        };
        let req = party.endpoint.post_recv(now, spec, &mut party.ledger);
        party.ledger.posted(buf, req.ok());
        self.tell(|| format!("party {at} posts {spec:?}: {req:?}"));
        self.post_count += 1;
    }

    pub(super) fn cancel(&mut self, at: usize, script: &mut Script<'_>) {
        let now = self.now;
        let party = &mut self.parties[at];
        if script.byte() == 255 {
            party.endpoint.cancel(now, ReqId(script.wide()));
        } else if let Some((buf, req)) = party.request(script) {
            let yes = party.endpoint.cancel(now, req);
            if yes {
                party.ledger.cancelled(buf);
            }
            self.tell(|| format!("party {at} cancels {buf:?}: {yes}"));
        }
    }

    pub(super) fn probe_or_claim(&mut self, at: usize, script: &mut Script<'_>) {
        let criteria = self.criteria(at, script);
        let now = self.now;
        let party = &mut self.parties[at];
        let seen = party.endpoint.probe(&criteria);
        if script.flag() {
            let claimed = party.endpoint.claim(now, &criteria);
            // What lies in an overflow entry is seen but not claimed: it has its place already.
            let taken = claimed.map(|(_, envelope)| envelope);
            assert!(taken.is_none() || taken == seen, "claimed another message than probe saw");
            party.claims.extend(claimed.map(|(claim, _)| claim));
            self.tell(|| format!("party {at} claims {criteria:?}: {claimed:?}"));
        }
    }

    pub(super) fn use_claim(&mut self, at: usize, script: &mut Script<'_>) {
        let (discard, len) = (script.flag(), script.pick(&LENS));
        let now = self.now;
        let party = &mut self.parties[at];
        let claim = party.claims.pop().unwrap_or_else(|| Claim(script.wide()));
        if discard {
            let _ = party.endpoint.discard(now, claim);
            return;
        }
        let buf = party.ledger.lend(Purpose::Receive, len);
        let req = party.endpoint.recv_claimed(now, claim, buf, len, buf.0, &mut party.ledger);
        if self.is_told {
            println!(
                "{:>14} party {at} receives {claim:?} into {buf:?}, {len} bytes: {req:?}",
                now.0
            );
        }
        party.ledger.posted(buf, req.ok());
        let again = party.endpoint.recv_claimed(now, claim, buf, len, buf.0, &mut party.ledger);
        assert!(
            matches!(again, Err(PostError::UnknownHandle | PostError::Closing)),
            "a claim was used twice"
        );
    }

    pub(super) fn parting(&mut self, at: usize, script: &mut Script<'_>) {
        // Rarely, or most scripts would be over before they began.
        if script.below(8) == 0 {
            self.tell(|| format!("party {at} closes"));
            self.parties[at].endpoint.close(self.now);
            self.parties[at].closing = true;
        } else {
            self.introduce(at);
        }
    }
}
