use super::*;

fn traits() -> LinkTraits {
    LinkTraits::unknown(&Settings::default())
}

fn fresh() -> Path {
    Path::new(0, Locator::default(), Standing::Proven, &traits(), MS)
}

/// What tests of other rooms bring about at once.
impl Path {
    pub(crate) fn set_standing(&mut self, standing: Standing) {
        self.standing = standing;
    }

    pub(crate) fn progress_at(&self) -> Instant {
        self.progress_at
    }

    pub(crate) fn set_progress_at(&mut self, now: Instant) {
        self.progress_at = now;
    }

    /// The next packet has this number, in both directions.
    pub(crate) fn begin_at(&mut self, packet: u64) {
        self.flight = Flight::new(packet);
        self.begin_receiving_at(packet);
    }

    /// The next packet of the peer has this number.
    pub(crate) fn begin_receiving_at(&mut self, packet: u64) {
        self.received = Received::new(packet - 1);
    }
}

#[test]
fn three_full_losses_without_an_arrival_shorten_the_frame_and_probes_lengthen_it() {
    let mut path = fresh();
    assert!(!path.on_frames_lost(1472, Instant(0)));
    assert!(!path.on_frames_lost(1472, Instant(0)));
    path.on_frames_acked(1300);
    assert!(path.on_frames_lost(1472, Instant(0)), "an arrival of 1300 bytes is no comfort");
    let mut path = fresh();
    path.on_frames_lost(1472, Instant(0));
    path.on_frames_lost(1472, Instant(0));
    path.on_frames_acked(1472);
    assert!(!path.on_frames_lost(1472, Instant(0)), "one arrived in between");
    assert!(!path.on_frames_lost(1472, Instant(0)));
    assert!(!path.on_frames_lost(900, Instant(0)), "short frames prove nothing");
    assert!(path.on_frames_lost(1472, Instant(0)));
    assert_eq!(path.frame_len, FRAME_LEN_FLOOR);
    assert_eq!(path.frame_probe_due(Instant(1)), None);
    let due = path.frame_probe_at();
    assert_eq!(path.frame_probe_due(due), Some(1472));
    path.on_frame_probe_sent(due, 1472);
    assert_eq!(
        path.frame_probe_due(path.frame_probe_at()),
        Some(1336),
        "the whole way failed: half of it"
    );
    path.on_frame_probe_acked(due, 1336);
    assert_eq!((path.frame_len, path.frame_probe_at()), (1336, due + FRAME_PROBE_NS));
    path.on_frame_probe_acked(due, 1472);
    assert_eq!((path.frame_len, path.frame_probe_at()), (1472, Instant::NEVER));
}

#[test]
fn whether_long_frames_pass_is_asked_where_single_ones_are_lost() {
    for (reliability, asked) in [
        (Reliability::Lossy, Some(1472)),
        (Reliability::Ordered { may_break: true }, None),
        (Reliability::Ordered { may_break: false }, None),
    ] {
        let traits = LinkTraits { reliability, ..traits() };
        let mut path = Path::new(0, Locator::default(), Standing::Unproven, &traits, MS);
        path.on_proven(Instant(1));
        assert_eq!(path.frame_probe_due(Instant(1)), asked, "{reliability:?}");
        let frame_len = if asked.is_some() { FRAME_LEN_FLOOR } else { 1472 };
        assert_eq!(path.frame_len, frame_len, "{reliability:?}");
    }
}

#[test]
fn rest_keeps_the_numbers() {
    let mut busy = fresh();
    busy.flight.add(Content::Ping);
    assert_eq!(busy.flight.on_sent(Instant(5), 40), 1);
    busy.received.record(9, Instant(5));
    let again = Path::from_rest(&busy.rest(), &traits(), MS);
    assert_eq!(again.flight.next_packet(), 2, "numbers are never reused");
    assert!(!again.received.is_new(9) && again.received.is_new(10));
}

#[test]
fn probes_back_off_to_a_second() {
    let mut path = fresh();
    let first = path.probe_ns(0);
    path.probe_count = 1;
    assert_eq!(path.probe_ns(0), 2 * first);
    path.probe_count = 40;
    assert_eq!(path.probe_ns(0), PROBE_NS_MAX);
}

/// What was learned about the window is of use by another link of the same kind, and by no other.
#[test]
fn a_window_goes_with_its_path_to_links_of_its_kind_only() {
    let mut path = fresh();
    path.window.on_probe_timeout_repeated();
    let learned = path.window.len();
    assert!(learned < fresh().window.len());
    path.set_traits(&traits());
    assert_eq!(path.window.len(), learned, "frames may be lost there, too");
    let lossless =
        LinkTraits { reliability: Reliability::Ordered { may_break: false }, ..traits() };
    path.set_traits(&lossless);
    assert_eq!(path.window.len(), Window::of_link(path.frame_len, true).len());
    path.set_traits(&traits());
    assert_eq!(path.window.len(), fresh().window.len(), "it begins anew");
}

#[test]
fn the_ack_of_a_train_waits_for_company_longer_by_a_stream() {
    let settings = Settings::default();
    let by = |reliability: Reliability| {
        let traits = LinkTraits { reliability, ..traits() };
        Path::new(0, Locator::default(), Standing::Proven, &traits, MS)
    };
    let due_in = |mut path: Path| match path.owe_train_ack(Instant(MS), 2, false, &settings) {
        AckDue::At(at) => at - Instant(MS),
        _ => panic!("it is due some time"),
    };
    let (lossy, stream) = (Reliability::Lossy, Reliability::Ordered { may_break: true });
    assert!(due_in(by(lossy)) < due_in(by(stream)));
    for reliability in [lossy, stream] {
        let probe_ns = by(reliability).probe_ns(settings.ack_delay_ns);
        assert!(due_in(by(reliability)) < probe_ns, "{reliability:?}: the sender would ask");
    }
    // One that is due already may be of a message, whose sender waits for it.
    let mut path = by(stream);
    path.owe_ack(Instant(MS), 1, false, &settings);
    assert_eq!(due_in(path), settings.ack_delay_ns);
}

#[test]
fn a_shorter_frame_tells_how_long_frames_are_when_another_follows_it() {
    let mut path = fresh();
    let mut len_after = |len| {
        path.note_data_len(len);
        path.data_len_in
    };
    assert_eq!([1432, 1000, 1432, 1000].map(&mut len_after), [1432; 4], "two were cut");
    assert_eq!([1000, 1200, 1200].map(&mut len_after), [1000, 1200, 1200]);
}

#[test]
fn who_never_answers_is_given_up_and_a_stream_that_was_never_asked_is_not() {
    let unproven = |reliability: Reliability| {
        let traits = LinkTraits { reliability, ..traits() };
        Path::new(0, Locator::default(), Standing::Unproven, &traits, MS)
    };
    let mut path = unproven(Reliability::Lossy);
    for _ in 0..UNPROVEN_HOPE_COUNT {
        assert!(!path.is_hopeless());
        path.on_challenge_sent(Instant(0), 1, MS);
    }
    assert!(path.is_hopeless());
    let stream = unproven(Reliability::Ordered { may_break: true });
    assert!(stream.is_dormant() && !stream.is_hopeless());
}

#[test]
fn links_are_over_one_card_if_both_are_known_to_be() {
    let over = |card| {
        let mut path = fresh();
        path.set_card(&Way { card, ..Way::default() });
        path
    };
    let shares = |one, other| over(one).shares_card(&over(other));
    assert!(shares(7, 7));
    assert!(!shares(7, 8) && !shares(7, 0) && !shares(0, 7) && !shares(0, 0));
}
