//! Which of several paths the next frame takes.
//!
//! PROTOCOL §10.2. Control and small messages take the quickest path (*main*), with some reluctance to change. Data is
//! shared out so that all that is granted arrives at the same moment:
//!
//! ```text
//!   fast  ████████████████████│   what is in flight and what may still leave, each path by its rate:
//!   slow  ██                  │   a path gets a frame only if it would arrive before this line
//! ```
//!
//! A path both ends of which have another, earlier one is *spare*: two cards on each side make four pairs, of which two
//! carry all there is to carry. Where a link never loses a frame, it is used and nothing else. Links over one card are no
//! rails: which of them carries data is `contest`'s business.

use crate::base::limits::MS;
use crate::base::types::Instant;
use crate::delivery::path::Path;
use crate::peers::rows::Active;

/// A path that is in nobody's way may take so many frames beyond its share.
const FRAMES_BEYOND: u64 = 8;
/// Messages that go unasked and are as long as this take a stream, where there is one: by Open MPI between two hosts exchanges of
/// 32 KB took 0.85 of the time that they took by trains, of 64 KB 0.70; shorter ones gained nothing.
pub(crate) const STREAMED_LEN_MIN: u64 = 32 << 10;
/// Round trips of paths in use that carry nothing are asked for at most so often: in time, and in acknowledgements of what is
/// carried elsewhere. So it costs a hundredth of the frames at most, and nothing while nobody sends.
const REFRESH_NS: u64 = MS / 2;
const REFRESH_COUNT: u32 = 64;
/// That time doubles so often while the quickest path stays the quickest: about half a second. Each answer also makes a driver ask
/// the link that it came by more often for a while (`engine/costly`), which slows down what comes by the others.
const REFRESH_DOUBLINGS_MAX: u8 = 10;

/// A path that is asked may look this much slower than it is, beside twice the other's time: a question is a rare frame, and
/// takes longer than the messages that come and go all the time.
const NEAR_NS: u64 = 20_000;
/// So many messages go by a path that is tried.
const TRIAL_COUNT: u8 = 8;

/// The time between trials doubles so often while nothing comes of them: about a second.
const TRIAL_DOUBLINGS_MAX: u8 = 11;

/// The message whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// In one frame; or there is none.
    Short,
    /// In several, all of which leave unasked.
    Fragments,
    /// Announced first.
    Announcement,
}

impl Active {
    /// Something that elicits an acknowledgement is waiting.
    #[inline]
    pub(crate) fn has_content(&self) -> bool {
        self.has_content_beside_unsent() || self.line.has_unsent()
    }

    /// And not only messages that were never sent.
    #[inline]
    pub(crate) fn has_content_beside_unsent(&self) -> bool {
        !self.control.is_empty() || self.line.has_lost() || self.ping
    }

    /// A path that would carry everything has been asked lately whether it leads to the peer. An announced message waits for the
    /// answer, since it goes to its end by the link it began on (PROTOCOL §10.2).
    pub(crate) fn awaits_better_path(&self) -> bool {
        self.paths.iter().any(|path| path.makes_others_spare() && path.is_newly_asked())
    }

    /// The peer can be asked at little cost (`Path::grants_soon`).
    pub(crate) fn grants_soon(&self) -> bool {
        self.paths.iter().any(|path| path.is_usable() && path.grants_soon())
    }

    /// A message of this length, which is not short, is announced and not just sent: a copy would cost more than a question, or the
    /// peer has no room for it (PROTOCOL §7.9). What was copied already, and cannot be given to its link, gains nothing by a question.
    pub(crate) fn must_ask(&self, len: u64, is_copied: bool) -> bool {
        let is_copied_for_all = is_copied && self.paths.iter().all(|path| path.pass() == 0);
        self.grants_soon() && !is_copied_for_all || !self.credit.has_room_for(len)
    }

    /// A path was proven, left, moved or measured: which are spare, which is the main one.
    pub(crate) fn weigh_paths(&mut self) {
        let is_best = |path: &Path| path.is_usable() && path.makes_others_spare();
        let has_best = self.paths.iter().any(is_best);
        for index in 0..self.paths.len() {
            let (before, rest) = self.paths.split_at_mut(index);
            let this = &mut rest[0];
            let serves = |path: &Path| path.is_usable() && !path.is_spare();
            let has_link = before.iter().any(|path| serves(path) && path.link() == this.link());
            let has_end =
                before.iter().any(|path| serves(path) && *path.locator() == *this.locator());
            this.set_spare(has_link && has_end || has_best && !this.makes_others_spare());
        }
        self.weigh_streams();
        self.weigh_cards();
        if self.trials.left_count > 0 {
            (self.main, self.trials.left_count) = (self.trials.home, 0); // what was compared is no more
        }
        self.choose_main();
    }

    /// Beside a path that sends trains and is open without ado, a stream is for bulk only.
    fn weigh_streams(&mut self) {
        let has_other = self.in_use().any(|(_, path)| path.is_open_to_all());
        for path in self.paths.iter_mut() {
            path.set_beside_open(has_other);
        }
    }

    /// There is something for streams, or no other path answers: those that were never needed are opened. True if there are any.
    pub(crate) fn wake_streams(&mut self) -> bool {
        let mut is_any = false;
        for path in self.paths.iter_mut().filter(|path| path.is_dormant()) {
            path.challenge_by(Instant(0));
            is_any = true;
        }
        is_any
    }

    /// One of several paths was acknowledged something, so its round trip is known anew: which is the quickest now? True: the
    /// others are to be asked for theirs, for one that carries little has only an old one to compare with.
    #[inline]
    pub(crate) fn on_measured(&mut self, now: Instant, index: usize) -> bool {
        if self.trials.left_count > 0 {
            self.trials.left_count -= u8::from(index == usize::from(self.main));
            if self.trials.left_count == 0 {
                self.end_trial(now);
            }
            return false;
        }
        self.choose_main();
        self.refresh.countdown = self.refresh.countdown.saturating_sub(1);
        if self.refresh.countdown > 0 || now < self.refresh.at {
            return false;
        }
        let pause_ns = REFRESH_NS << self.refresh.doublings;
        (self.refresh.countdown, self.refresh.at) = (REFRESH_COUNT, now + pause_ns);
        self.refresh.doublings = (self.refresh.doublings + 1).min(REFRESH_DOUBLINGS_MAX);
        self.refresh(now)
    }

    /// Paths in use that carry nothing are asked for their round trips; of those that may be as quick as the main one, one is
    /// tried with what is sent. True: there is somebody to ask.
    #[cold]
    fn refresh(&mut self, now: Instant) -> bool {
        let main = usize::from(self.main);
        let near_ns = self.paths[main].rtt().usual_ns() * 2 + NEAR_NS;
        let is_idle = |path: &Path| {
            let is_used = path.is_usable() && !path.is_spare() && !path.is_for_bulk();
            is_used && !path.is_probe_due() && path.flight().is_empty()
        };
        let is_near = |path: &Path| path.rtt().has_sample() && path.rtt().usual_ns() < near_ns;
        let count = self.paths.len();
        let next = usize::from(self.trials.last) + 1;
        let mut behind = (next..next + count).map(|index| index % count);
        let is_worth = |index: &usize| {
            *index != main && is_idle(&self.paths[*index]) && is_near(&self.paths[*index])
        };
        let tried = behind.find(is_worth).filter(|_| now >= self.trials.next_at);
        let mut is_any = false;
        for (index, path) in self.paths.iter_mut().enumerate() {
            if index != main && Some(index) != tried && is_idle(path) {
                path.ask_for_round_trip();
                is_any = true;
            }
        }
        if let Some(tried) = tried {
            (self.trials.home, self.trials.left_count) = (self.main, TRIAL_COUNT);
            (self.trials.last, self.main) = (tried as u8, tried as u8);
        }
        is_any
    }

    /// What was tried has shown how quick it is. The next trial is sooner if this one found something.
    #[cold]
    fn end_trial(&mut self, now: Instant) {
        let home = self.trials.home;
        self.main = home;
        self.choose_main();
        let lost_count = &mut self.trials.lost_count;
        *lost_count =
            if self.main == home { (*lost_count + 1).min(TRIAL_DOUBLINGS_MAX) } else { 0 };
        self.trials.next_at = now + (REFRESH_NS << *lost_count);
    }

    /// The quickest path, unless the main one is nearly as quick: whoever changes for nothing changes back.
    pub(crate) fn choose_main(&mut self) {
        let Some((best, best_ns)) = self
            .for_messages()
            .map(|(index, path)| (index, path.rtt().usual_ns()))
            .min_by_key(|it| it.1)
        else {
            return;
        };
        let main = &self.paths[usize::from(self.main)];
        let main_ns = main.rtt().usual_ns();
        let is_out = !main.is_usable() || main.is_spare() || main.is_for_bulk();
        if is_out || best_ns * 10 < main_ns * 9 {
            self.main = best as u8;
            (self.refresh.doublings, self.refresh.at) = (0, Instant(0));
        }
    }

    /// Paths that carry something as long as all goes well.
    fn in_use(&self) -> impl Iterator<Item = (usize, &Path)> {
        self.paths.iter().enumerate().filter(|(_, path)| path.is_usable() && !path.is_spare())
    }

    /// Of these, the ones that messages take which were not announced.
    fn for_messages(&self) -> impl Iterator<Item = (usize, &Path)> {
        self.in_use().filter(|(_, path)| !path.is_for_bulk())
    }

    /// Whether a message of several frames goes as a train.
    pub(crate) fn has_trains_for_messages(&self) -> bool {
        self.for_messages().any(|(_, path)| path.cuts_into_trains())
    }

    /// Of these, the one with the longest frames.
    pub(crate) fn path_of_longest(&self) -> Option<u8> {
        longest_frames(self.for_messages()).map(|(index, _)| index as u8)
    }

    /// Of those in use, the ones that data takes.
    fn for_data(&self) -> impl Iterator<Item = (usize, &Path)> {
        self.in_use().filter(|(_, path)| !path.yields_data())
    }

    /// The path for the next frame: one with a probe due, or a longer frame to try; for control the main one, window or not;
    /// an acknowledgement that is due goes back the way its packet came; messages take the quickest with window, but those of
    /// several frames one that sends trains, if there is any. They wait for its window rather than go by another link over the same card: that
    /// leads to the same wire, and what overtakes others is held until its turn. `unsent_len` is what may leave of these, or of the data that is granted.
    pub(crate) fn choose_path(&self, now: Instant, unsent_len: u64, next: Next) -> Option<usize> {
        if self.paths.len() == 1 {
            return Some(0);
        }
        let main = usize::from(self.main);
        let is_asking = |path: &Path| path.is_usable() && path.is_probe_due();
        let wants_longer = |path: &Path| path.is_usable() && path.frame_probe_due(now).is_some();
        if let Some(index) = self.paths.iter().position(is_asking) {
            return Some(index);
        }
        if let Some(index) = self.paths.iter().position(wants_longer) {
            return Some(index);
        }
        if !self.control.is_empty() {
            return Some(main);
        }
        // What is to be acknowledged goes with a message for a stream, which will be acknowledged itself.
        if let (Next::Fragments, Some(index)) = (next, self.choose_stream(unsent_len)) {
            return Some(index);
        }
        // Nothing would tell us that another way is dead.
        if let Some(path) = self.paths.iter().find(|path| path.is_ack_urgent()) {
            let back = self.paths.get(usize::from(path.back()));
            let back = back.filter(|back| back.is_usable() && !back.is_for_bulk());
            return Some(if back.is_some() { usize::from(path.back()) } else { main });
        }
        if !self.line.has_lost() && !self.line.has_unsent() && self.line.has_granted() {
            return self.choose_for_data(unsent_len).map(|(index, _)| index);
        }
        if let Some(index) = self.choose_for_long(unsent_len, next) {
            return Some(index);
        }
        if self.paths[main].has_window() {
            return Some(main);
        }
        let open = self.for_messages().filter(|(_, path)| path.has_window());
        let elsewhere = open.filter(|(_, path)| !self.paths[main].shares_card(path));
        let quickest = elsewhere.min_by_key(|(_, path)| path.rtt().usual_ns());
        Some(quickest.map_or(main, |(index, _)| index))
    }

    /// The path for a message of several frames, if that is another than the main one.
    fn choose_for_long(&self, unsent_len: u64, next: Next) -> Option<usize> {
        let main = &self.paths[usize::from(self.main)];
        let has_trains = |path: &Path| path.sends_trains() && path.has_window();
        match next {
            Next::Short => None,
            Next::Fragments => {
                self.choose_stream(unsent_len).or_else(|| self.choose_for_fragments())
            }
            Next::Announcement if has_trains(main) && !main.yields_data() => None,
            // What follows an announcement by another link would overtake it.
            Next::Announcement => {
                let by_train = self.for_data().filter(|(_, path)| has_trains(path));
                let for_data = || self.choose_for_data(unsent_len).filter(|_| main.yields_data());
                longest_frames(by_train).map(|it| it.0).or_else(|| for_data().map(|it| it.0))
            }
        }
    }

    /// The stream for a message of this length that goes unasked, if there is one and the length is worth it (PROTOCOL §16.6).
    pub(crate) fn choose_stream(&self, len: u64) -> Option<usize> {
        let is_open = |path: &Path| path.is_for_bulk() && path.has_window();
        let mut streams = self.for_data().filter(|(_, path)| is_open(path));
        if len < STREAMED_LEN_MIN { None } else { streams.next().map(|(index, _)| index) }
    }

    /// The path for a train of fragments, if that is another than the main one.
    fn choose_for_fragments(&self) -> Option<usize> {
        let main = &self.paths[usize::from(self.main)];
        if main.sends_trains() {
            return None;
        }
        let by_train = || self.for_messages().filter(|(_, path)| path.sends_trains());
        let open = by_train().filter(|(_, path)| path.has_window());
        let beside = || by_train().filter(|(_, path)| main.shares_card(path));
        longest_frames(open).or_else(|| longest_frames(beside())).map(|it| it.0)
    }

    /// The path for granted data, and how many bytes it should take at most; `None`: better to wait than to go by one that
    /// has window.
    pub(crate) fn choose_for_data(&self, unsent_len: u64) -> Option<(usize, u64)> {
        if let [path] = &self.paths[..] {
            return path.has_window().then_some((0, u64::MAX));
        }
        let (mut len, mut rate, mut count) = (unsent_len, 0_u64, 0);
        for (_, path) in self.for_data() {
            len += path.flight().bytes_in_flight();
            rate = rate.saturating_add(path.rate());
            count += 1;
        }
        let arrival_ns = |path: &Path| {
            let ahead_len = path.flight().bytes_in_flight() + u64::from(path.frame_len());
            time_ns(ahead_len, path.rate()) + path.rtt().min_ns() / 2
        };
        let soonest = |path: &(usize, &Path)| arrival_ns(path.1);
        let (index, path) =
            self.for_data().filter(|(_, path)| path.has_window()).min_by_key(soonest)?;
        if count == 1 {
            return Some((index, u64::MAX));
        }
        let (best, best_path) = self.for_data().min_by_key(soonest)?;
        let together_ns = time_ns(len, rate) + best_path.rtt().min_ns() / 2;
        let frame_len = u64::from(path.frame_len());
        let share = (u128::from(len) * u128::from(path.rate()) / u128::from(rate)) as u64;
        let share = share.saturating_sub(path.flight().bytes_in_flight());
        if index == best {
            Some((index, share.max(FRAMES_BEYOND * frame_len)))
        } else {
            (arrival_ns(path) <= together_ns).then_some((index, share.max(frame_len)))
        }
    }
}

/// The path with the longest frames; of equals the first.
fn longest_frames<'a>(paths: impl Iterator<Item = (usize, &'a Path)>) -> Option<(usize, &'a Path)> {
    paths.reduce(|best, path| if path.1.frame_len() > best.1.frame_len() { path } else { best })
}

fn time_ns(len: u64, rate: u64) -> u64 {
    (u128::from(len) * 1_000_000_000 / u128::from(rate.max(1))).min(u128::from(u64::MAX >> 1))
        as u64
}

impl Active {
    /// No path has anything to say for itself, but perhaps that packets arrived.
    pub(crate) fn are_paths_calm_but_for_acks(&self, now: Instant) -> bool {
        let is_calm = |path: &Path| !path.is_probe_due() && path.frame_probe_due(now).is_none();
        match &self.paths[..] {
            [path] => is_calm(path),
            paths => paths.iter().all(|path| is_calm(path) && !path.wants_challenge(now)),
        }
    }

    /// Whether an acknowledgement is due that waits for nobody.
    pub(crate) fn must_acknowledge(&self) -> bool {
        self.paths.iter().any(|path| path.is_ack_urgent())
    }

    /// The path the next data takes and how many bytes by it, if no path wants anything else first.
    pub(crate) fn path_of_train(&self, now: Instant, unsent_len: u64) -> Option<(usize, u64)> {
        let is_calm = !self.must_acknowledge() && self.are_paths_calm_but_for_acks(now);
        if is_calm { self.choose_for_data(unsent_len) } else { None }
    }
}

impl Active {
    /// One of several paths was acknowledged something. True: there is more to send than there was.
    #[inline(never)]
    pub(crate) fn learn_rate(&mut self, now: Instant, index: usize, len: u64) -> bool {
        let path = &mut self.paths[index];
        path.measure_rate(now, len);
        self.on_stint_acked(now, index, len) | self.on_measured(now, index)
    }
}
