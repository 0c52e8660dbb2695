//! MPI's order, checked after the fact.
//!
//! The oracle cannot see when a message was matched, only when it was reported, and large ones are reported long after.
//! But who took what fixes the order enough. Let every receive have a place: list, then time of post (a claim is a
//! receive posted and served at once). For messages of one source to one receiver:
//!
//! 1. If receive r took message m, every earlier message that r admits was taken at an earlier place: had it been
//!    taken later, it was there for r, or r for it.
//! 2. A receive that stayed posted and free to the end was passed over by no message it admits.
//!
//! The first needs, per stream and kind of message (space and tag without number), only the highest place so far.

use std::collections::HashMap;

use super::{Message, Oracle, Receive, Taken};
use crate::scenario::NAME_MASK;

/// Where a receive stands: overflow list behind priority, then by post; within an entry for many, by offset.
type Position = (bool, u64, u64);

/// Messages alike in all a receive can ask for.
#[derive(Debug)]
struct Kind {
    space: u8,
    tag: u64,
    highest: Position,
    label: u32,
}

/// Whether `a` is behind `b`. Within one entry for many only offsets tell, where there are any.
fn is_behind(a: Position, b: Position) -> bool {
    let unknown = (a.0, a.1) == (b.0, b.1) && [a.2, b.2].contains(&Taken::NO_OFFSET);
    a > b && !unknown
}

/// A message that broke off may have lain in an overflow entry when an entry for many matched it: then it had no place in
/// that one's memory, and its event says 0 as if it were the first.
fn place(receive: &Receive, taken: &Taken) -> Position {
    let may_be_elsewhere = receive.is_many && !taken.is_whole && taken.offset == 0;
    let offset = if may_be_elsewhere { Taken::NO_OFFSET } else { taken.offset };
    (receive.is_overflow, receive.posted, offset)
}

/// Sentences about each breach.
pub(super) fn check(oracle: &Oracle) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut streams: HashMap<(u8, u8, u32), Vec<Kind>> = HashMap::new();
    for &label in &oracle.post_order {
        let message = oracle.messages[label as usize].as_ref().expect("posted");
        // A cancelled send that is received all the same (its Cancel was behind it) may come late: the sender's answer to a
        // query has left it out.
        let Some(taken) = message.taken.filter(|_| !message.cancelled) else { continue };
        let kinds = streams.entry((message.from, message.to, taken.life)).or_default();
        check_message(oracle, message, &taken, kinds, &mut wrong);
    }
    check_free_receives(oracle, &mut wrong);
    wrong
}

fn check_message(
    oracle: &Oracle,
    message: &Message,
    taken: &Taken,
    kinds: &mut Vec<Kind>,
    wrong: &mut Vec<String>,
) {
    let receive = oracle.receive(taken.receive);
    let here = place(receive, taken);
    for kind in kinds.iter() {
        if is_behind(kind.highest, here)
            && receive.wanted.admits(kind.space, kind.tag | message.tag & NAME_MASK, message.from)
        {
            wrong.push(format!(
                "message #{} overtook #{}: receive #{} admits both, but #{} was taken by #{}, posted later",
                message.label,
                kind.label,
                receive.label,
                kind.label,
                oracle.messages[kind.label as usize].as_ref().and_then(|m| m.taken).map_or(0, |t| t.receive),
            ));
        }
    }
    let tag = message.tag & !NAME_MASK;
    match kinds.iter_mut().find(|kind| (kind.space, kind.tag) == (message.space, tag)) {
        // An offset that is known is not given up for one that is not.
        Some(kind) if is_behind(here, kind.highest) => {
            (kind.highest, kind.label) = (here, message.label);
        }
        Some(_) => {}
        None => kinds.push(Kind { space: message.space, tag, highest: here, label: message.label }),
    }
}

/// Receives for one message that were cancelled at the very end had been free all the time.
fn check_free_receives(oracle: &Oracle, wrong: &mut Vec<String>) {
    let free = oracle.receives.iter().flatten().filter(|receive| {
        !receive.is_many
            && receive.took_count == 0
            && receive.cancelled.is_some_and(|at| at > oracle.quiet_since)
    });
    for passed in free {
        let overtaken = oracle.post_order.iter().find(|&&label| {
            let message = oracle.messages[label as usize].as_ref().expect("posted");
            let Some(taken) = message.taken else { return false };
            let by = oracle.receive(taken.receive);
            message.to == passed.node
                && taken.life == passed.life
                && (passed.is_overflow, passed.posted) < (by.is_overflow, by.posted)
                && passed.posted < message.posted.max(by.posted)
                && passed.wanted.admits(message.space, message.tag, message.from)
        });
        if let Some(label) = overtaken {
            wrong.push(format!("message #{label} passed over the free receive #{}", passed.label));
        }
    }
}

#[cfg(test)]
mod tests {
    use packhorse_proto::{BufId, ReqId};

    use super::*;
    use crate::scenario::{How, Wanted};

    /// Books of one stream, node 0 to node 1, filled by hand.
    fn books() -> Oracle {
        Oracle::new(2, 16, false, false)
    }

    fn send(oracle: &mut Oracle, label: u32, tag: u64) {
        oracle.on_send(Message {
            label,
            from: 0,
            from_life: 0,
            to: 1,
            to_life: 0,
            space: 0,
            tag,
            immediate: None,
            len: 8,
            how: How::Accepted,
            buf: None,
            req: ReqId(0),
            posted: 0,
            cancelled: false,
            result: None,
            told_len: 0,
            taken: None,
        });
    }

    fn post(oracle: &mut Oracle, label: u32, wanted: Wanted, is_many: bool) {
        oracle.on_post(Receive {
            label,
            node: 1,
            life: 0,
            wanted,
            cap: 8,
            is_overflow: false,
            is_many,
            is_header_only: false,
            is_claim: false,
            buf: BufId(0),
            req: ReqId(0),
            posted: 0,
            cancelled: None,
            ended: None,
            took_count: 0,
        });
    }

    fn take(oracle: &mut Oracle, message: u32, receive: u32, offset: u64) {
        let taken = Taken { receive, offset, placed_len: 0, life: 0, is_whole: true };
        oracle.messages[message as usize].as_mut().unwrap().taken = Some(taken);
        oracle.receives[receive as usize].as_mut().unwrap().took_count += 1;
    }

    fn tag(tag: u64) -> Wanted {
        Wanted { space: 0, tag, ignore: 0, source: Some(0) }
    }

    #[test]
    fn order_of_posts_is_fine_whatever_came_first() {
        let mut oracle = books();
        post(&mut oracle, 10, tag(1), false);
        send(&mut oracle, 0, 1);
        send(&mut oracle, 1, 1);
        post(&mut oracle, 11, Wanted::anything(0), false);
        take(&mut oracle, 0, 10, 0);
        take(&mut oracle, 1, 11, 0);
        assert_eq!(check(&oracle), Vec::<String>::new());
    }

    #[test]
    fn overtaking_is_seen_only_where_the_receive_admits_both() {
        let mut oracle = books();
        post(&mut oracle, 10, tag(1), false);
        post(&mut oracle, 11, Wanted::anything(0), false);
        send(&mut oracle, 0, 2);
        send(&mut oracle, 1, 1);
        take(&mut oracle, 0, 11, 0);
        take(&mut oracle, 1, 10, 0);
        assert!(check(&oracle).is_empty(), "receive 10 does not want message 0");
        oracle.messages[0].as_mut().unwrap().tag = 1;
        assert!(check(&oracle)[0].contains("message #1 overtook #0"));
    }

    #[test]
    fn entries_for_many_are_filled_in_order() {
        let mut oracle = books();
        post(&mut oracle, 10, Wanted::anything(0), true);
        send(&mut oracle, 0, 1);
        send(&mut oracle, 1, 1);
        take(&mut oracle, 0, 10, 0);
        take(&mut oracle, 1, 10, 8);
        assert!(check(&oracle).is_empty());
        take(&mut oracle, 0, 10, 16);
        assert_eq!(check(&oracle).len(), 1);
    }

    #[test]
    fn a_message_that_broke_off_in_an_overflow_entry_has_no_offset() {
        let mut oracle = books();
        post(&mut oracle, 10, Wanted::anything(0), true);
        for label in 0..3 {
            send(&mut oracle, label, 1);
        }
        take(&mut oracle, 0, 10, 193);
        take(&mut oracle, 1, 10, 0);
        take(&mut oracle, 2, 10, 445);
        assert!(check(&oracle)[0].contains("message #1 overtook #0"));
        oracle.messages[1].as_mut().unwrap().taken.as_mut().unwrap().is_whole = false;
        assert_eq!(check(&oracle), Vec::<String>::new());
        // The others are still held against each other.
        take(&mut oracle, 2, 10, 100);
        assert!(check(&oracle)[0].contains("message #2 overtook #0"));
    }

    #[test]
    fn a_free_receive_may_not_be_passed_over() {
        let mut oracle = books();
        post(&mut oracle, 10, tag(1), false);
        post(&mut oracle, 11, Wanted::anything(0), false);
        send(&mut oracle, 0, 1);
        take(&mut oracle, 0, 11, 0);
        assert!(check(&oracle).is_empty(), "receive 10 may have been bound when message 0 came");
        oracle.on_quiet();
        let at = oracle.tick();
        oracle.receives[10].as_mut().unwrap().cancelled = Some(at);
        assert!(check(&oracle)[0].contains("passed over the free receive #10"));
    }
}
