//! Looks that do not wait, and when one of them may sleep all the same.
//!
//! `fi_cq_read` and its like are called by two kinds of programs, and no call says which of them it comes from. An MPI library that waits
//! in `MPI_Recv` calls without pause until something comes: there a core is burnt for nothing. A program that tests between two pieces of
//! work calls as well, and each sleep is time taken from its work. A sleep in the second case costs a factor, one left out in the first
//! costs electricity; so a look sleeps only if everything says that nothing but waiting goes on:
//!
//! ```text
//!   look │ outside │ look │ outside │ look …        a window: some hundred looks, at least 320 µs
//!        └ sampled: now and then the clock is read as a look ends and as the next begins
//!
//!   a window is calm:   looks found nothing, nobody posted, nothing ended
//!                       outside is short: hardly longer than the shortest that was ever sampled, in a wait of a few microseconds
//!                       if the program ever made one; who tests takes longer than who waits
//!                       and looks and what lies between them, as sampled, make up the whole window: nothing else was done, now and then
//!   calm windows of half a second, and few others between them ──▶ one doze of 1.25 ms, then a window must show again that it was right
//! ```
//!
//! Whatever breaks the calm costs twenty times its own length: a program that computes for a twentieth of its time, in pieces that can be
//! seen, never dozes. Where others want the core a look steps aside (`sched_yield`) instead of sleeping, and `crowd` learns from that; but not
//! if the last sample was longer than a wait's, and not before it had the core for half as long as the others did the time before: on a busy
//! machine each step aside costs a program that works as much as a sleep. That is one way to wait; the other is to step aside after every few
//! looks, as the MPI's own transports do, and `sharing` finds out which is the quicker here. Then each step needs a sample of its own, taken
//! since the step before, that may be a wait's, and others have a tenth of a second at most before something is found.
//!
//! Time in which others had the core was not spent working: the thread's own processor time tells, which is read once a window.
//!
//! Pure: times are told ([`Clocks`]). Reading the clock costs as much as a look at a link in memory, so that is done in every fourth look, and twice for
//! each sample.

use packhorse_proto::Instant;

use crate::crowd::Crowd;
use crate::sharing::{Sharing, Way};

/// A program that asks again within this time is waiting, in its own way.
pub(crate) const ASKS_OFTEN_NS: u64 = 20_000;
/// The clock is read once in so many looks.
pub(crate) const LOOKS_PER_TIME: u32 = 4;
/// One of so many looks is sampled; the first is that after eight in vain, so that short waits need not pay for it. `begin` has read the
/// clock for each of these.
const LOOKS_PER_SAMPLE: u32 = 16;
const FIRST_SAMPLED: u32 = 8;
const _: () = assert!(
    LOOKS_PER_SAMPLE.is_multiple_of(LOOKS_PER_TIME) && FIRST_SAMPLED.is_multiple_of(LOOKS_PER_TIME)
);
/// A window lasts so long at least, and has so many samples. One stands between two dozes, so that a wrong guess leaves a program a fifth of its
/// core: it becomes slower by a factor of five, and no more.
const WINDOW_NS: u64 = 320_000;
const SAMPLE_COUNT_MIN: u64 = 8;
/// The loop of an MPI library around its look takes 50 to 250 ns, with one reading of the clock.
const OUTSIDE_NS_MAX: u64 = 300;
/// A window of nothing but waiting: its shortest sample, and what they take on average, are longer by so many percent at most than the
/// shortest ever. (Open MPI 4.1: 120 ns the shortest that waits, 140 on average; with `MPI_Test` and 20 ns of work 180.)
const SHORTEST_PERCENT: u64 = 112;
const AVERAGE_PERCENT: u64 = 130;
/// So much of a window, in percent, may be neither look nor what was sampled between looks: interrupts.
const UNSEEN_PERCENT: u64 = 10;
/// An interrupt is over after so long. It may have been work instead.
const INTERRUPT_NS_MAX: u64 = 80_000;
/// Calm for so long, it waits; or for as long as a wait is to spin, if that is longer.
const CALM_NS: u64 = 500_000_000;
/// What is not calm counts so many times.
const UNREST_FACTOR: u64 = 20;
/// After it stepped aside a thread keeps the core for the time that it was away, divided by this: a wrong guess costs a third of what is due to it beside one other, and nothing beside two.
const ASIDE_TO_OWN: u64 = 2;
/// A thread that shares its core takes its first sample early, for each step aside needs a sample; ...
const FIRST_SHARED: u32 = 4;
const _: () = assert!(FIRST_SHARED.is_multiple_of(LOOKS_PER_TIME));
/// ... and steps aside when it has been idle for so long, if others want the core.
const STEP_SHARED_NS: u64 = 1_500;
/// A step aside takes a few hundred nanoseconds where nobody wants the core. A thread that is away for longer has let somebody run.
const ALONE_NS_MAX: u64 = 2_500;
/// So many times in a row back at once, and nobody wants the core any more. Once or twice says little: who stepped aside before others did may
/// be the next again.
const SOON_COUNT: u32 = 4;
/// On a shared core caches are cold, and cores that share their parts slow each other down: a sample may be a wait's that is longer by so many
/// percent at most than the shortest ever.
const SHARED_PERCENT: u64 = 300;
/// Others have the core for so long at most before something is found.
const SHARED_NS_MAX: u64 = 100_000_000;
/// One doze.
pub(crate) const DOZE_NS: u64 = 1_250_000;

/// The clocks of a thread that looks.
pub(crate) trait Clocks {
    fn now(&self) -> Instant;
    /// What the thread has had of a core so far. It costs more to read than the time.
    fn own_ns(&self) -> u64;
}

/// What somebody who looked in vain is to do before the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Nothing.
    GoOn,
    /// Give the core to whoever wants it, then [`Asking::on_back`].
    StepAside,
    /// Sleep on the links for [`DOZE_NS`] at most, if [`Asking::may_doze`], then [`Asking::on_woken`].
    Doze,
}

/// How somebody who asks in a loop of its own has fared.
#[derive(Debug)]
pub(crate) struct Asking {
    /// Since when it has heard nothing; `None` if it has just begun.
    quiet_since: Option<Instant>,
    /// The clock as it was read last, as a look began.
    asked_at: Instant,
    /// When it last gave its core to others, and after how long it may again.
    stepped_at: Instant,
    step_after_ns: u64,
    /// How waits fared, how this one is done, and since when.
    sharing: Sharing,
    way: Way,
    waits_since: Option<Instant>,
    /// For how long others had the core in this wait.
    aside_ns: u64,
    /// Somebody ran when it gave its core to others, and since then it was back at once so often in a row.
    is_crowded: bool,
    soon_count: u32,
    /// What follows a look was sampled since it stepped aside, and may be a wait's.
    may_share: bool,
    /// Looks since something happened, or since it stepped aside to share its core.
    look_count: u32,
    /// Looks since then that did not ask the links, and all looks since the clock was read.
    unasked_count: u32,
    gap_count: u64,
    /// When the last look ended, if that was read to sample what follows.
    left_at: Option<Instant>,
    /// None until something is sampled.
    window: Option<Window>,
    /// The shortest time between two looks that was ever sampled.
    outside_ns_min: u64,
    /// What was sampled last is what a waiting program takes.
    seems_to_wait: bool,
    /// So much calm there was.
    calm: Calm,
    /// What the engine had posted and ended when a doze was considered last.
    stir: Stir,
}

/// Numbers of which one differs when something was posted or has ended.
pub(crate) type Stir = [u64; 4];

/// Looks in vain, one after the other.
#[derive(Clone, Copy, Debug)]
struct Window {
    began_at: Instant,
    /// What the thread had had of a core then, if that was read: the first window of a wait does without, since waits are mostly short.
    own_ns_before: Option<u64>,
    look_count: u64,
    /// Looks, together with those that did not ask the links.
    gap_count: u64,
    inside: Samples,
    outside: Samples,
}

impl Window {
    fn new(began_at: Instant, own_ns_before: Option<u64>) -> Self {
        let (inside, outside) = (Samples::default(), Samples::default());
        Self { began_at, own_ns_before, look_count: 0, gap_count: 0, inside, outside }
    }

    fn is_whole(&self, now: Instant) -> bool {
        now - self.began_at >= WINDOW_NS && self.outside.count >= SAMPLE_COUNT_MIN
    }

    /// What the thread had of a core since it began, as far as can be told.
    fn own_ns(&self, now: Instant, own_ns: u64) -> u64 {
        let len_ns = now - self.began_at;
        self.own_ns_before.map_or(len_ns, |before| own_ns.saturating_sub(before).min(len_ns))
    }

    /// What of `own_ns` was neither looks nor what lies between them, as sampled; nothing, if that is little.
    fn unseen_ns(&self, own_ns: u64) -> u64 {
        let inside_ns = self.look_count * self.inside.mean_ns();
        let seen_ns = inside_ns + self.gap_count * self.outside.mean_ns();
        let unseen_ns = own_ns.saturating_sub(seen_ns);
        if unseen_ns * 100 <= own_ns * UNSEEN_PERCENT { 0 } else { unseen_ns }
    }
}

/// Lengths of time of one kind.
#[derive(Clone, Copy, Debug)]
struct Samples {
    count: u64,
    sum_ns: u64,
    shortest_ns: u64,
    longest_ns: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self { count: 0, sum_ns: 0, shortest_ns: u64::MAX, longest_ns: 0 }
    }
}

impl Samples {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns += ns;
        self.shortest_ns = self.shortest_ns.min(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Without the longest: in that an interrupt may have come, which the length of the window tells of.
    fn mean_ns(&self) -> u64 {
        (self.sum_ns - self.longest_ns) / (self.count.max(2) - 1)
    }
}

fn is_within(ns: u64, shortest_ns: u64, percent: u64) -> bool {
    ns.saturating_mul(100) <= shortest_ns * percent
}

/// From one reading of the clock to the next.
struct Away {
    ns: u64,
    /// A longer absence than this is no part of a wait in which every look asks.
    ns_max: u64,
    /// Looks meanwhile, whether they asked or not.
    gap_count: u64,
}

/// Time in which nothing but waiting went on.
#[derive(Debug)]
struct Calm {
    ns: u64,
    /// So much is enough.
    enough_ns: u64,
}

impl Calm {
    fn new(enough_ns: u64) -> Self {
        Self { ns: 0, enough_ns }
    }

    fn grow(&mut self, ns: u64) {
        self.ns = (self.ns + ns).min(self.enough_ns);
    }

    /// Something else was done for so long, or may have been.
    fn shrink(&mut self, ns: u64) {
        self.ns = self.ns.saturating_sub(ns.saturating_mul(UNREST_FACTOR));
    }

    fn is_enough(&self) -> bool {
        self.ns == self.enough_ns
    }
}

impl Asking {
    /// `spin_ns`: so long a wait spins before it sleeps. `origin_ns`: what the system's clock said when the engine's was 0.
    pub(crate) fn new(spin_ns: u64, origin_ns: u64) -> Self {
        Self {
            quiet_since: None,
            asked_at: Instant(0),
            stepped_at: Instant(0),
            step_after_ns: 0,
            sharing: Sharing::new(origin_ns),
            way: Way::Keep,
            waits_since: None,
            aside_ns: 0,
            is_crowded: false,
            soon_count: 0,
            may_share: false,
            look_count: 0,
            unasked_count: 0,
            gap_count: 0,
            left_at: None,
            window: None,
            outside_ns_min: OUTSIDE_NS_MAX,
            seems_to_wait: true,
            calm: Calm::new(spin_ns.max(CALM_NS)),
            stir: Stir::default(),
        }
    }

    /// A look did not ask the links (`looks`).
    #[inline]
    pub(crate) fn on_unasked(&mut self) {
        self.unasked_count += 1;
    }

    /// A look begins: the time for it, and whether that is an earlier look's.
    #[inline]
    pub(crate) fn begin(&mut self, clocks: &impl Clocks) -> (Instant, bool) {
        let is_due = self.look_count.is_multiple_of(LOOKS_PER_TIME) || self.left_at.is_some();
        self.look_count = self.look_count.wrapping_add(1);
        let gap_count = 1 + u64::from(std::mem::take(&mut self.unasked_count));
        self.gap_count += gap_count;
        if let Some(window) = &mut self.window {
            window.gap_count += gap_count;
        }
        if !is_due {
            return (self.asked_at, true);
        }
        let now = clocks.now();
        let mut away_ns_max = ASKS_OFTEN_NS;
        if let Some(left_at) = self.left_at.take() {
            away_ns_max /= u64::from(LOOKS_PER_TIME); // since the look before
            let outside_ns = now - left_at;
            self.outside_ns_min = self.outside_ns_min.min(outside_ns);
            self.seems_to_wait = is_within(outside_ns, self.outside_ns_min, AVERAGE_PERCENT);
            self.may_share = is_within(outside_ns, self.outside_ns_min, SHARED_PERCENT);
            let of_each_ns = outside_ns / gap_count;
            if let Some(window) = &mut self.window
                && of_each_ns <= away_ns_max
            {
                window.outside.add(of_each_ns); // of what is longer the window's length tells
            }
        }
        let away_ns = now - self.asked_at;
        self.asked_at = now;
        let gap_count = std::mem::take(&mut self.gap_count);
        if away_ns > away_ns_max {
            self.on_away(Away { ns: away_ns, ns_max: away_ns_max, gap_count }, now, clocks);
        }
        (now, false)
    }

    /// The program was away for long: others had the core, or an interrupt came, or it looked without asking, or it did something else, and has not
    /// been waiting.
    #[cold]
    fn on_away(&mut self, away: Away, now: Instant, clocks: &impl Clocks) {
        if away.ns <= away.gap_count * (ASKS_OFTEN_NS / u64::from(LOOKS_PER_TIME)) {
            self.calm.shrink(away.ns);
            (self.quiet_since, self.waits_since) = (None, None);
            return; // it has looked often: the window's samples tell
        }
        let mut lost_ns = 0;
        if let Some(window) = &mut self.window
            && let Some(before) = window.own_ns_before
        {
            if away.ns <= INTERRUPT_NS_MAX {
                self.calm.shrink(away.ns);
                return; // the window's length tells
            }
            let own_ns = clocks.own_ns();
            lost_ns = (now - window.began_at).saturating_sub(own_ns.saturating_sub(before));
            *window = Window::new(now, Some(own_ns));
        }
        if away.ns > lost_ns + away.ns_max {
            self.calm.shrink(away.ns - lost_ns);
            (self.quiet_since, self.waits_since) = (None, None);
            let is_calm = self.calm.ns > 0;
            self.window = is_calm.then(|| Window::new(now, Some(clocks.own_ns())));
        }
    }

    /// The look found nothing. `now` is what `begin` said.
    #[inline]
    pub(crate) fn on_nothing(&mut self, now: Instant, clocks: &impl Clocks) -> Advice {
        let quiet_ns = now - *self.quiet_since.get_or_insert(now);
        if self.waits_since.is_none() {
            (self.waits_since, self.way, self.aside_ns) = (Some(now), self.sharing.choose(now), 0);
        }
        if let Some(window) = &mut self.window {
            window.look_count += 1;
        }
        // `begin` has counted this look.
        let first = if self.shares() { FIRST_SHARED } else { FIRST_SAMPLED };
        if self.look_count % LOOKS_PER_SAMPLE == first + 1 {
            return self.sample(clocks);
        }
        if self.is_step_due(quiet_ns, now - self.stepped_at) {
            Advice::StepAside
        } else {
            Advice::GoOn
        }
    }

    /// Whether it shares its core with others, who want it.
    fn shares(&self) -> bool {
        self.way == Way::Share && self.is_crowded && self.aside_ns <= SHARED_NS_MAX
    }

    fn is_step_due(&self, quiet_ns: u64, stepped_ago_ns: u64) -> bool {
        if self.shares() {
            return self.may_share
                && quiet_ns >= STEP_SHARED_NS
                && stepped_ago_ns >= STEP_SHARED_NS;
        }
        // Who is to share finds out whether there is anybody.
        let may_step = match self.way {
            Way::Share if self.aside_ns == 0 => self.may_share,
            _ => self.seems_to_wait && stepped_ago_ns >= self.step_after_ns,
        };
        may_step && Crowd::is_due(quiet_ns, stepped_ago_ns)
    }

    /// A look to be sampled ends now.
    fn sample(&mut self, clocks: &impl Clocks) -> Advice {
        let (now, began_at) = (clocks.now(), self.asked_at);
        let window = self.window.get_or_insert_with(|| Window::new(began_at, None));
        if window.is_whole(now) {
            let (window, own_ns) = (*window, clocks.own_ns());
            self.window = Some(Window::new(now, Some(own_ns)));
            return self.judge(&window, window.own_ns(now, own_ns));
        }
        window.inside.add(now - began_at);
        self.left_at = Some(now);
        Advice::GoOn
    }

    /// A window has ended, of which so much was the thread's own.
    fn judge(&mut self, window: &Window, own_ns: u64) -> Advice {
        let (shortest_ns, mean_ns) = (window.outside.shortest_ns, window.outside.mean_ns());
        let is_usual = is_within(shortest_ns, self.outside_ns_min, SHORTEST_PERCENT)
            && is_within(mean_ns, self.outside_ns_min, AVERAGE_PERCENT);
        let unrest_ns = if is_usual { window.unseen_ns(own_ns) } else { own_ns };
        if unrest_ns > 0 {
            self.calm.shrink(unrest_ns);
            return Advice::GoOn;
        }
        self.calm.grow(own_ns);
        if self.calm.is_enough() { Advice::Doze } else { Advice::GoOn }
    }

    /// The look did something of which the application is not told: the answer to a peer's sign of life, a timer.
    pub(crate) fn on_work(&mut self) {
        (self.quiet_since, self.look_count) = (None, 0);
        (self.window, self.left_at) = (None, None);
    }

    /// The look found what the application is told of: the wait, if it was one, is over.
    #[inline]
    pub(crate) fn on_something(&mut self) {
        self.on_work();
        self.calm.ns = 0;
        if let Some(since) = self.waits_since.take() {
            self.sharing.on_waited(self.way, self.asked_at - since);
        }
    }

    /// The thread had stepped aside, from then till now.
    pub(crate) fn on_back(&mut self, from: Instant, now: Instant) {
        let away_ns = now - from;
        (self.asked_at, self.stepped_at) = (now, now);
        self.step_after_ns = away_ns / ASIDE_TO_OWN;
        self.may_share = false;
        if away_ns > ALONE_NS_MAX {
            (self.is_crowded, self.soon_count) = (true, 0);
            self.aside_ns += away_ns;
        } else {
            self.soon_count = self.soon_count.saturating_add(1);
            self.is_crowded &= self.soon_count < SOON_COUNT;
        }
        if self.shares() {
            self.look_count = 0; // the next sample is near
        }
    }

    /// The thread is about to doze. False: it must not, because some thread has posted something since the last time, or something has ended. Then
    /// the question comes again after some calm.
    pub(crate) fn may_doze(&mut self, stir: Stir) -> bool {
        let is_still = stir == std::mem::replace(&mut self.stir, stir);
        if !is_still {
            self.calm.ns = 0;
        }
        is_still
    }

    /// The thread has dozed and asks on: the time it slept was not spent elsewhere.
    pub(crate) fn on_woken(&mut self, clocks: &impl Clocks) {
        let now = clocks.now();
        (self.asked_at, self.look_count, self.left_at) = (now, 0, None);
        self.window = Some(Window::new(now, Some(clocks.own_ns())));
    }

    /// For tests: one that has waited for long.
    #[cfg(test)]
    pub(crate) fn be_calm(&mut self) {
        self.calm.ns = self.calm.enough_ns;
    }
}

#[cfg(test)]
impl Default for Asking {
    fn default() -> Self {
        Self::new(0, 0)
    }
}

#[cfg(test)]
mod tests;
