//! PROTOCOL §5.5 and §6: how much may be on its way: the window of a path, and the credit of a receiver.

use super::*;

/// Sends a large message while every `lost_every`th Data frame is lost, `lost_max` in all.
fn lossy_transfer(lost_every: u64, lost_max: usize) -> Net {
    let mut net = Net::joined();
    let recv = net.recv(B, tagged(1), 2 << 20);
    let is_lost = move |sight: &Sight| {
        sight.from == A && sight.has(Kind::Data) && sight.packet().is_multiple_of(lost_every)
    };
    net.rule(lost_max, is_lost, Fate::Drop);
    net.send(A, B, 1, 2 << 20);
    net.settle();
    net.assert_got(B, recv, 1, 2 << 20);
    net
}

#[test]
fn little_loss_shrinks_the_window_gently() {
    let net = lossy_transfer(100, 1);
    assert_eq!((net.count(A, "windows_shrunk"), net.count(A, "windows_halved")), (1, 0));
    assert_eq!(net.count(A, "packets_lost"), 1);
}

#[test]
fn much_loss_halves_the_window() {
    let net = lossy_transfer(3, 12);
    assert!(net.count(A, "windows_halved") >= 1);
}

#[test]
fn window_bounds_what_is_in_flight() {
    let mut net = Net::pair(|settings, limits| {
        settings.grants_in_flight = 64;
        settings.grant_ahead = 4096;
        limits.grant_len_max = 64 << 20;
    });
    net.join(A, B);
    net.settle();
    net.log.clear();
    net.recv(B, tagged(1), 4 << 20);
    net.send(A, B, 1, 4 << 20);
    net.drop_each(B, Kind::Ack); // grants travel, acknowledgements do not
    net.run_for(RTT_NS + DELAY_NS);
    let in_flight: usize = net.sights(A, Kind::Data).iter().map(|sight| sight.bytes.len()).sum();
    assert!(in_flight > 0 && in_flight <= 33 * 1472, "{in_flight} bytes unacknowledged");
}

#[test]
fn silence_shrinks_the_window_to_two_frames() {
    let mut net = Net::joined();
    let recv = net.recv(B, tagged(1), 4 << 20);
    net.send(A, B, 1, 4 << 20);
    net.run_for(MS);
    net.mute(B);
    net.run_for(2 * SECOND);
    net.heal();
    net.log.clear();
    let start = net.now;
    net.run_until(|net| net.seen(A, Kind::Data) > 0);
    let burst = net.sights(A, Kind::Data).iter().filter(|s| s.at - start < 2 * SECOND).count();
    assert!(burst >= 1);
    net.settle();
    net.assert_got(B, recv, 1, 4 << 20);
}

/// Messages of 1 KB that leave at once, of 60, while nothing is acknowledged.
fn burst(net: &mut Net) -> usize {
    net.log.clear();
    for tag in 0..60 {
        net.send(A, B, tag, 1000);
    }
    net.drop_each(B, Kind::Ack);
    net.run_for(RTT_NS);
    net.sights(A, Kind::Eager).len()
}

fn pair_with_credit(held_len_max: u64) -> Net {
    let tight = Plan::with(|_, limits| limits.held_len_max = held_len_max);
    Net::of(&[Plan::default(), tight])
}

#[test]
fn eager_payload_in_flight_stays_within_the_credit() {
    let mut net = pair_with_credit(40_000);
    net.send(A, B, 99, 0); // the Ack tells the credit
    net.run_for(10 * MS);
    let sent = burst(&mut net);
    assert!((30..=40).contains(&sent), "{sent} KB in flight of 60, credit 40");
    net.heal();
    let recvs: Vec<Recv> = (0..60).map(|tag| net.recv(B, tagged(tag), 1000)).collect();
    net.settle();
    for (tag, &recv) in recvs.iter().enumerate() {
        net.assert_got(B, recv, tag as u64, 1000);
    }
}

#[test]
fn row_that_woke_remembers_the_credit_for_a_while() {
    let mut net = pair_with_credit(40_000);
    net.send(A, B, 99, 0);
    net.settle(); // at rest
    net.send(A, B, 99, 0);
    net.run_for(10 * MS);
    let sent = burst(&mut net);
    assert!((30..=40).contains(&sent), "{sent} KB in flight of 60, credit 40");
}

#[test]
fn one_message_travels_whatever_the_credit() {
    let tight = Plan::with(|_, limits| limits.held_len_max = 32 << 10);
    let mut net = Net::of(&[Plan::default(), tight]);
    net.join(A, B);
    let fill = net.send(A, B, 9, 32 << 10);
    net.settle();
    assert_eq!(net.sent(A, fill), Some(Ok(())), "B holds it: no credit is left");
    let recv = net.recv(B, tagged(1), 20_000);
    net.send(A, B, 1, 20_000);
    net.settle();
    net.assert_got(B, recv, 1, 20_000);
}

#[test]
fn credit_is_shared_among_the_peers_that_are_awake() {
    for (others, share) in [(0, 1), (1, 2), (3, 4)] {
        let tight = Plan::with(|_, limits| limits.held_len_max = 40_000);
        let mut plans = vec![Plan::default(); 2 + others];
        plans[B] = tight;
        let mut net = Net::of(&plans);
        for other in 2..2 + others {
            net.send(other, B, 1, 0);
        }
        net.run_for(MS);
        net.send(A, B, 1, 0);
        net.run_for(MS);
        let mut credits = vec![];
        for sight in net.sights(B, Kind::Ack).iter().filter(|sight| sight.to == Some(A)) {
            for (record, _) in sight.view().records() {
                if let Record::Ack(ack) = record {
                    credits.push(ack.credit_len());
                }
            }
        }
        assert_eq!(credits.last(), Some(&(40_000 / share)), "{others} others");
    }
}
