//! Which steps a frame goes through, and what each costs: the placement map applied.
//!
//! ```text
//!   arrives, host    card: relay ─▶ bus: frame ─▶ [interrupt] ─▶ host: handle, copy ─▶ on_frame
//!   arrives, card    card: handle ─▶ bus: payload to its place ─▶ on_frame
//!   leaves, host     host: make, copy ─▶ card: relay ─▶ bus: frame ─▶ wire
//!   leaves, card     card: make ─▶ bus: payload ─▶ wire
//!   leaves, host, because of what the card handled:
//!                    bus: header ─▶ interrupt ─▶ host: make ─▶ bus: addresses ─▶ card: relay ─▶ bus: frame ─▶ wire
//! ```

use std::collections::VecDeque;

use crate::app::Inbox;
use crate::load::{Kind, Load};
use crate::node::{Frame, Node};
use crate::placement::Doer;
use crate::plant::Part;

/// What happens when a stage is over.
#[derive(Debug)]
pub(crate) enum Hook {
    Nothing,
    /// The frame lies in the host's memory.
    Arrived(Box<Frame>),
    /// The protocol takes the frame, and whatever comes of it begins here.
    Take(Box<Frame>, Doer),
    /// The frame is at the other end of the wire.
    Left(Box<Frame>),
    /// The application is told.
    Tell(Inbox),
    /// The protocol is given a post.
    Post {
        is_send: bool,
        len: u64,
    },
    /// The card has read it.
    PostNow {
        is_send: bool,
        len: u64,
    },
    /// The application goes on.
    Step,
}

/// One step of a job.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) part: Part,
    pub(crate) ns: u64,
    /// The next stage may begin so soon after this one began.
    pub(crate) early_ns: Option<u64>,
    pub(crate) what: &'static str,
    pub(crate) hook: Hook,
    /// The stage lets the system go first, which interrupts it: the application, and a library in it.
    pub(crate) is_calm: bool,
    /// The stage is the application's own time.
    pub(crate) is_own: bool,
}

/// The stages still to come.
pub(crate) type Stages = VecDeque<Stage>;

pub(crate) fn stage(part: Part, ns: u64, what: &'static str) -> Stage {
    Stage { part, ns, early_ns: None, what, hook: Hook::Nothing, is_calm: false, is_own: false }
}

impl Stage {
    pub(crate) fn then(mut self, hook: Hook) -> Self {
        self.hook = hook;
        self
    }

    pub(crate) fn by_app(mut self) -> Self {
        (self.is_calm, self.is_own) = (true, true);
        self
    }
}

/// Why the protocol has something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The application posted.
    Post,
    /// A frame was handled, or time passed.
    Taken(Doer),
}

impl Node {
    /// Who handles a frame that arrives.
    pub(crate) fn taker(&self, load: &Load) -> Doer {
        match load.kind {
            Kind::Data => self.placement.receive,
            // A library that matches must see the word that data may go, though the card sends it.
            Kind::Grant if self.placement.in_library => Doer::Host,
            Kind::Grant | Kind::Ack => self.placement.send,
            Kind::Message | Kind::Announcement | Kind::Done | Kind::Other => {
                self.placement.matching
            }
        }
    }

    /// Who makes a frame that leaves.
    pub(crate) fn maker(&self, load: &Load) -> Doer {
        match load.kind {
            Kind::Data => self.placement.send,
            Kind::Ack => self.placement.receive,
            Kind::Message | Kind::Announcement | Kind::Grant | Kind::Done | Kind::Other => {
                self.placement.matching
            }
        }
    }

    /// The core that works for the network.
    pub(crate) fn system_core(&self) -> Part {
        match self.costs.has_two_cores && !self.placement.in_library {
            true => Part::Irq,
            false => Part::Host,
        }
    }

    fn card_out(&self) -> Part {
        if self.costs.has_two_processors { Part::CardOut } else { Part::CardIn }
    }

    /// What the card does with a frame that arrives for the host: it lies in the host's memory then.
    pub(crate) fn relayed_in(&self, frame: Frame) -> Stages {
        let len = frame.bytes.len() as u64;
        Stages::from([
            stage(Part::CardIn, self.costs.card_frame, "relay frame"),
            stage(Part::Bus, self.costs.bus(len, 0), "frame to the host")
                .then(Hook::Arrived(Box::new(frame))),
        ])
    }

    /// A frame that the card handles.
    pub(crate) fn taken_by_card(&self, frame: Frame) -> Stages {
        let (costs, load) = (&self.costs, frame.load);
        let first = if load.is_first() { costs.card_first } else { 0 };
        let (ns, what) = match load.kind {
            Kind::Data | Kind::Message => (costs.card_data_in, "receive data"),
            Kind::Ack => (costs.card_ack, "handle acknowledgement"),
            Kind::Grant => (costs.card_control, "handle grant"),
            _ => (costs.card_control, "handle control frame"),
        };
        let mut stages = Stages::from([stage(Part::CardIn, ns + first, what)]);
        if load.len > 0 {
            let ns = costs.bus(load.len, load.offset);
            stages.push_back(stage(Part::Bus, ns, "data to its place"));
        }
        let last = stages.back_mut().expect("there is one");
        last.hook = Hook::Take(Box::new(frame), Doer::Card);
        stages
    }

    /// A frame that the host handles. With it what the engine copies.
    pub(crate) fn taken_by_host(&self, frame: Frame) -> (Stage, u64) {
        let (costs, load, core) = (&self.costs, frame.load, self.system_core());
        let mut engine_ns = 0;
        let (ns, what) = match load.kind {
            Kind::Data if self.placement.engine && costs.has_engine_for(load.len) => {
                engine_ns = costs.engine(load.len);
                let pages = costs.page_in + costs.submit;
                (costs.frame_in + load.pages() * pages, "receive, submit copy")
            }
            Kind::Data => {
                let copies = costs.copies(costs.copies_in, load.len);
                (costs.frame_in + load.pages() * costs.page_in + copies, "receive, copy")
            }
            Kind::Message => {
                let copies = costs.copies(costs.short_copies_in, load.len);
                (costs.frame_in + load.pages() * costs.page_in + copies, "receive, copy")
            }
            _ => {
                let copies = costs.copies(costs.short_copies_in, load.len);
                (costs.control + copies, "handle control frame")
            }
        };
        let mut handled = stage(core, ns, what).then(Hook::Take(Box::new(frame), Doer::Host));
        handled.is_calm = self.placement.in_library;
        (handled, engine_ns)
    }

    /// The card has work for the host: what the host must do first.
    pub(crate) fn upcall(&self) -> Stages {
        let mut stages =
            Stages::from([stage(Part::Bus, self.costs.bus_words(), "header to the host")]);
        if !self.placement.in_library {
            stages.push_back(stage(self.system_core(), self.costs.interrupt, "interrupt"));
        }
        stages
    }

    /// A frame leaves. `upcall` if the host must be told by the card first; the application is told `told` on the way.
    pub(crate) fn sent(&self, frame: Frame, cause: Cause, told: Option<Inbox>) -> Stages {
        let mut stages = match self.maker(&frame.load) {
            Doer::Card => self.made_by_card(&frame),
            Doer::Host => self.made_by_host(&frame, cause, told),
        };
        let wire_ns = self.costs.wire(frame.bytes.len() as u64);
        stages.push_back(stage(Part::Wire, wire_ns, "frame").then(Hook::Left(Box::new(frame))));
        stages
    }

    fn made_by_card(&self, frame: &Frame) -> Stages {
        let (costs, load) = (&self.costs, frame.load);
        let first = if load.is_first() { costs.card_first } else { 0 };
        let (ns, what) = match load.kind {
            Kind::Data | Kind::Message => (costs.card_data_out, "send data"),
            Kind::Ack => (costs.card_ack, "make acknowledgement"),
            _ => (costs.card_control, "make control frame"),
        };
        let mut stages = Stages::from([stage(self.card_out(), ns + first, what)]);
        if load.len > 0 {
            stages.push_back(self.fetched(load.len, load.offset, "data to the card"));
        }
        stages
    }

    fn made_by_host(&self, frame: &Frame, cause: Cause, told: Option<Inbox>) -> Stages {
        let (costs, load) = (&self.costs, frame.load);
        let core = match cause {
            Cause::Post => Part::Host,
            Cause::Taken(_) => self.system_core(),
        };
        let mut stages = match cause {
            Cause::Taken(Doer::Card) => self.upcall(),
            _ => Stages::new(),
        };
        let (ns, what) = match load.kind {
            Kind::Data => {
                (costs.frame_out + costs.copies(costs.copies_out, load.len), "send, copy")
            }
            Kind::Message => {
                (costs.frame_out + costs.copies(costs.short_copies_out, load.len), "send, copy")
            }
            Kind::Announcement => {
                (costs.control + costs.copies(costs.short_copies_out, load.len), "announce")
            }
            Kind::Grant => (costs.control, "make grant"),
            _ => (costs.control, "make control frame"),
        };
        let mut made = stage(core, ns, what);
        made.is_calm = self.placement.in_library;
        if let Some(told) = told {
            made.ns += costs.event;
            made.hook = Hook::Tell(told);
        }
        stages.push_back(made);
        // The card is told where granted data goes, and where announced data lies.
        let is_told = match load.kind {
            Kind::Grant => self.placement.receive == Doer::Card,
            Kind::Announcement => self.placement.send == Doer::Card,
            _ => false,
        };
        if is_told {
            stages.push_back(stage(Part::Bus, costs.bus_words(), "addresses to the card"));
        }
        stages.push_back(stage(self.card_out(), costs.card_frame, "relay frame"));
        stages.push_back(self.fetched(frame.bytes.len() as u64, 0, "frame to the card"));
        stages
    }

    /// The card fetches something; it may leave before all of it is there.
    fn fetched(&self, len: u64, offset: u64, what: &'static str) -> Stage {
        let mut fetch = stage(Part::Bus, self.costs.bus(len, offset), what);
        if self.costs.cuts_through {
            fetch.early_ns = Some(self.costs.bus_words().min(fetch.ns));
        }
        fetch
    }
}
