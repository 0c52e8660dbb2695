//! Two endpoints joined by a queue and a made-up clock.

use packhorse_proto::*;

#[derive(Default)]
struct Ram(Vec<Vec<u8>>);

impl Memory for Ram {
    fn place(&mut self, to: Place, bytes: &[u8]) {
        let at = to.offset as usize;
        self.0[to.buf.0 as usize][at..at + bytes.len()].copy_from_slice(bytes);
    }
    fn crc32c(&self, crc: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(crc, |crc, &byte| crc.rotate_left(5) ^ u32::from(byte))
    }
}

struct Side {
    ep: Endpoint,
    ram: Ram,
}

fn side(n: u64) -> Side {
    let opening = Opening {
        secret: Secret([n, n + 1]),
        identity: Identity { host: n, endpoint: n },
        entropy: [n, 2, 3, 4],
        locators: vec![Locator([n as u8; 24])],
    };
    let ep = Endpoint::open(opening, Limits::default(), Settings::default(), Instant(0)).unwrap();
    Side { ep, ram: Ram::default() }
}

fn gather(side: &Side, tx: &TxFrame) -> Vec<u8> {
    let mut body = vec![];
    for piece in &tx.body {
        let len = piece.len as usize;
        match piece.source {
            Source::User { buf, offset } => body.extend_from_slice(
                &side.ram.0[buf.0 as usize][offset as usize..offset as usize + len],
            ),
            Source::Pool { slot, offset } => body
                .extend_from_slice(&side.ep.pooled(slot)[offset as usize..offset as usize + len]),
            Source::Zero => body.resize(body.len() + len, 0),
        }
    }
    body
}

fn run(sides: &mut [Side; 2], now: &mut u64) {
    let mut tx = TxFrame::default();
    for _ in 0..100_000 {
        let mut moved = false;
        for from in 0..2 {
            while sides[from].ep.poll_transmit(Instant(*now), &mut tx) {
                moved = true;
                let body = gather(&sides[from], &tx);
                let crc = if tx.wants_crc() { sides[from].ram.crc32c(0, &body) } else { 0 };
                tx.seal(crc);
                let mut frame = tx.head.clone();
                frame.extend_from_slice(&body);
                let to = if tx.to.0[0] == 1 { 0 } else { 1 };
                let Side { ep, ram } = &mut sides[to];
                ep.on_frame(Instant(*now), 0, Locator([from as u8 + 1; 24]), &frame, ram);
            }
        }
        if moved {
            continue;
        }
        let next = sides[0].ep.next_timeout().min(sides[1].ep.next_timeout());
        if next.0 > *now + 2_000_000_000 {
            return;
        }
        *now = (*now).max(next.0);
        for Side { ep, ram } in sides.iter_mut() {
            ep.on_timeout(Instant(*now), ram);
        }
    }
    panic!("does not come to rest");
}

#[test]
fn messages_of_every_class_arrive() {
    let mut sides = [side(1), side(2)];
    let mut now = 0;
    let peer = {
        let a = sides[1].ep.address();
        sides[0].ep.add_peer(&a).unwrap()
    };
    for (n, len) in [0usize, 8, 1000, 1400, 5000, 32 << 10, 1 << 20].into_iter().enumerate() {
        let data: Vec<u8> = (0..len).map(|i| (i * 7 + n) as u8).collect();
        sides[0].ram.0.push(data.clone());
        sides[1].ram.0.push(vec![0; len]);
        let criteria = Criteria { space: Space(0), tag: Tag(n as u64), ignore: 0, source: None };
        let Side { ep, ram } = &mut sides[1];
        let spec = RecvSpec {
            criteria,
            buf: BufId(n as u64),
            len: len as u64,
            list: List::Priority,
            uses: Use::Once,
            header_only: false,
            user: 0,
        };
        if n % 2 == 0 {
            ep.post_recv(Instant(now), spec, ram).unwrap();
        }
        let send = SendSpec {
            peer,
            space: Space(0),
            tag: Tag(n as u64),
            immediate: None,
            payload: Payload::InPlace { buf: BufId(n as u64), len: len as u64 },
            until_matched: false,
            user: 0,
        };
        sides[0].ep.post_send(Instant(now), send).unwrap();
        run(&mut sides, &mut now);
        if n % 2 == 1 {
            let Side { ep, ram } = &mut sides[1];
            ep.post_recv(Instant(now), spec, ram).unwrap();
            run(&mut sides, &mut now);
        }
        assert!(sides[1].ram.0[n] == data, "message {n} of {len}");
        let mut events = vec![];
        while let Some(event) = sides[1].ep.poll_event() {
            events.push(event);
        }
        assert!(
            events.iter().any(|e| matches!(e, Event::Received { result: Ok(()), .. })),
            "{events:?}"
        );
        let mut events = vec![];
        while let Some(event) = sides[0].ep.poll_event() {
            events.push(event);
        }
        assert!(
            events.iter().any(|e| matches!(e, Event::Sent { result: Ok(()), .. })),
            "{n} {len}: {events:?} {:?}",
            sides[0].ep
        );
    }
    sides[0].ep.close(Instant(now));
    run(&mut sides, &mut now);
    assert!(sides[0].ep.is_closed());
}
