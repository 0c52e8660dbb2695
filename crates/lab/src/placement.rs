//! Which step of the protocol runs where.

/// Who does a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doer {
    /// By the host: the system, or the library in the application.
    Host,
    /// By the card.
    Card,
}

/// A map from steps to who does them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its name.
    pub name: &'static str,
    /// Messages are matched, granted and ended here.
    pub matching: Doer,
    /// Data is taken here.
    pub receive: Doer,
    /// Data is sent, and grants are obeyed, here.
    pub send: Doer,
    /// Payload is copied by the copy engine, where there is one.
    pub engine: bool,
    /// On the host: the library does it all, and only while the application is in a call.
    pub in_library: bool,
}

impl Placement {
    /// Everything on the host, by the system: RMPP's step 0, Open-MX.
    pub const HOST: Self = Self {
        name: "host",
        matching: Doer::Host,
        receive: Doer::Host,
        send: Doer::Host,
        engine: false,
        in_library: false,
    };
    /// The host does all but copying, which a copy engine does: Open-MX with I/O AT.
    pub const ENGINE: Self = Self { name: "host+engine", engine: true, ..Self::HOST };
    /// Data is received on the card: RMPP's step 1.
    pub const RECEIVE: Self = Self { name: "receive", receive: Doer::Card, ..Self::HOST };
    /// Data is received and sent on the card; the host matches and grants: RMPP's steps 2 and 3.
    pub const DATA: Self = Self { name: "receive+send", send: Doer::Card, ..Self::RECEIVE };
    /// Everything on the card: EMP, and where Portals was to go.
    pub const CARD: Self = Self { name: "card", matching: Doer::Card, ..Self::DATA };
    /// The card moves data, the library matches when it is called: an OS bypass such as GM.
    pub const LIBRARY: Self = Self { name: "library", in_library: true, ..Self::DATA };
    /// Everything in the library, on top of a card that relays frames: Fast Messages.
    pub const ALL_LIBRARY: Self = Self { name: "all in library", in_library: true, ..Self::HOST };

    /// All that a machine may be asked about.
    pub const ALL: [Self; 6] =
        [Self::HOST, Self::ENGINE, Self::RECEIVE, Self::DATA, Self::CARD, Self::LIBRARY];
}
