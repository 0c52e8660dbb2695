//! Receivers that do not receive: bounded memory, and no deadlock of a correct program.

use packhorse_proto::{Criteria, Event, Limits, List, RecvSpec, SECOND, Settings, Space, Tag, Use};

use crate::stage::Stage;
use crate::{Bound, Figure};

/// 64 senders; nothing is received for 30 s; then everything, in order.
pub(crate) fn flood() -> Vec<Figure> {
    const EACH: u64 = 2_000;
    let limits = Limits { held_len_max: 1 << 20, envelope_count_max: 10_000, ..Limits::default() };
    let mut stage = Stage::new(65, 0, &limits, &Settings::default());
    let (receiver, senders) = (stage.nodes[0], stage.nodes[1..].to_vec());
    for number in 0..EACH {
        for &sender in &senders {
            stage.world.send(sender, receiver, Tag(number), 8);
        }
        // The same flood, spread over the first two seconds.
        stage.world.run_for(1_000_000);
    }
    stage.world.run_for(28 * SECOND);
    let held = stage.world.endpoint(receiver).held();
    let peers: Vec<_> = senders.iter().map(|&sender| stage.world.peer(receiver, sender)).collect();
    let out_of_order = receive_all(&mut stage, EACH * 64, &peers);
    let counters = stage.world.endpoint(receiver).counters().clone();
    vec![
        Figure::new("envelopes held after 30 s", f64::from(held.1), "", Bound::Most(10_000.0)),
        Figure::new(
            "most envelopes held",
            counters.envelope_count_peak as f64,
            "",
            Bound::Most(10_000.0),
        ),
        Figure::new(
            "most bytes held",
            counters.held_len_peak as f64,
            "bytes",
            Bound::Most(1048576.0),
        ),
        Figure::new("messages delivered", (EACH * 64) as f64, "", Bound::Least((EACH * 64) as f64)),
        Figure::new("of these out of order", out_of_order as f64, "", Bound::Most(0.0)),
    ]
}

/// Receives `count` messages of any tag from anybody, one after the other; how many were not their sender's next.
fn receive_all(stage: &mut Stage, count: u64, peers: &[packhorse_proto::PeerId]) -> u64 {
    let receiver = stage.nodes[0];
    let mut expected = vec![0; peers.len()];
    let mut wrong = 0;
    let mut got = 0;
    let end = stage.world.now() + 600 * SECOND;
    while got < count {
        for _ in 0..64.min(count - got) {
            post_any(stage);
        }
        let goal = got + 64.min(count - got);
        while got < goal {
            let Some((node, event)) = stage.world.next_event() else {
                assert!(stage.world.turn(end), "{got} of {count} messages came in time");
                continue;
            };
            if let Event::Received { envelope, result: Ok(()), .. } = event
                && node == receiver
            {
                let at =
                    peers.iter().position(|&peer| peer == envelope.source).expect("a known sender");
                wrong += u64::from(envelope.tag.0 != expected[at]);
                expected[at] = envelope.tag.0 + 1;
                got += 1;
            }
        }
    }
    wrong
}

fn post_any(stage: &mut Stage) {
    let receiver = stage.nodes[0];
    let buf = stage.world.memory(receiver).add_sink(8);
    let spec = RecvSpec {
        criteria: Criteria { space: Space(0), tag: Tag(0), ignore: !0, source: None },
        buf,
        len: 8,
        list: List::Priority,
        uses: Use::Once,
        header_only: false,
        user: buf.0,
    };
    stage.world.post_recv(receiver, spec).expect("receive posted");
}

/// Legal MPI: the message that is waited for stands behind a million that nobody receives yet.
pub(crate) fn b_first() -> Vec<Figure> {
    const COUNT: u64 = 1_000_000;
    const TAG_A: u64 = 1;
    const TAG_B: u64 = 2;
    let limits = Limits { envelope_count_max: 10_000, ..Limits::default() };
    let mut stage = Stage::new(2, 0, &limits, &Settings::default());
    let (receiver, sender) = (stage.nodes[0], stage.nodes[1]);
    for _ in 0..COUNT {
        stage.world.send(sender, receiver, Tag(TAG_A), 8);
    }
    stage.world.send(sender, receiver, Tag(TAG_B), 8);
    let started = stage.world.now();
    stage.sink(receiver, Some(sender), TAG_B, 8);
    stage.receive(1, 60 * SECOND);
    let b_after = (stage.world.now() - started) as f64 / 1e6;
    let mut done = 0;
    while done < COUNT {
        let batch = 1_000.min(COUNT - done);
        for _ in 0..batch {
            stage.sink(receiver, Some(sender), TAG_A, 8);
        }
        stage.receive(batch as usize, 60 * SECOND);
        done += batch;
    }
    let counters = stage.world.endpoint(receiver).counters();
    vec![
        Figure::new("B arrived after", b_after, "ms", Bound::Free),
        Figure::new("found by query", counters.queries_found as f64, "", Bound::Least(1.0)),
        Figure::new(
            "messages of tag A received after it",
            done as f64,
            "",
            Bound::Least(COUNT as f64),
        ),
        Figure::new(
            "most envelopes held",
            counters.envelope_count_peak as f64,
            "",
            Bound::Most(10_000.0),
        ),
    ]
}
