//! A machine's costs as the model uses them: whole nanoseconds, and the sums that steps are made of.

use packhorse_proto::{Limits, Settings};

use crate::load::{PAGE_LEN, pages};
use crate::machine::Machine;

/// Nanoseconds per step, and rates.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    pub(crate) post_send: u64,
    pub(crate) post_recv: u64,
    pub(crate) post_page: u64,
    pub(crate) poll: u64,
    pub(crate) event: u64,
    pub(crate) interrupt: u64,
    pub(crate) interrupt_merged: bool,
    pub(crate) interrupt_delay: u64,
    pub(crate) frame_in: u64,
    pub(crate) frame_out: u64,
    pub(crate) page_in: u64,
    pub(crate) control: u64,
    copy: f64,
    pub(crate) copies_in: f64,
    pub(crate) copies_out: f64,
    pub(crate) short_copies_in: f64,
    pub(crate) short_copies_out: f64,
    pub(crate) has_two_cores: bool,
    engine: f64,
    pub(crate) submit: u64,
    pub(crate) engine_least: u64,
    pub(crate) has_two_processors: bool,
    pub(crate) card_frame: u64,
    pub(crate) card_data_in: u64,
    pub(crate) card_data_out: u64,
    pub(crate) card_control: u64,
    pub(crate) card_ack: u64,
    pub(crate) card_first: u64,
    pub(crate) card_post: u64,
    pub(crate) slots: u32,
    pub(crate) cuts_through: bool,
    pub(crate) bus_setup: u64,
    bus_rate: f64,
    bus_by_pages: bool,
    wire_rate: f64,
    wire_extra: u64,
    wire_least: u64,
    pub(crate) wire_delay: u64,
    pub(crate) mtu: u16,
}

impl Costs {
    pub(crate) fn of(machine: &Machine) -> Self {
        let ns = |name: &str| machine.value(name).round() as u64;
        let is = |name: &str| machine.value(name) >= 1.0;
        Self {
            post_send: ns("host.post_send"),
            post_recv: ns("host.post_recv"),
            post_page: ns("host.post_page"),
            poll: ns("host.poll"),
            event: ns("host.event"),
            interrupt: ns("host.interrupt"),
            interrupt_merged: is("host.interrupt_merged"),
            interrupt_delay: ns("host.interrupt_delay"),
            frame_in: ns("host.frame_in"),
            frame_out: ns("host.frame_out"),
            page_in: ns("host.page_in"),
            control: ns("host.control"),
            copy: machine.value("host.copy"),
            copies_in: machine.value("host.copies_in"),
            copies_out: machine.value("host.copies_out"),
            short_copies_in: machine.value("host.short_copies_in"),
            short_copies_out: machine.value("host.short_copies_out"),
            has_two_cores: machine.value("host.cores") >= 2.0,
            engine: machine.value("engine.copy"),
            submit: ns("engine.submit"),
            engine_least: ns("engine.least"),
            has_two_processors: machine.value("card.processors") >= 2.0,
            card_frame: ns("card.frame"),
            card_data_in: ns("card.data_in"),
            card_data_out: ns("card.data_out"),
            card_control: ns("card.control"),
            card_ack: ns("card.ack"),
            card_first: ns("card.first"),
            card_post: ns("card.post"),
            slots: machine.value("card.slots").max(1.0) as u32,
            cuts_through: is("card.cut_through"),
            bus_setup: ns("bus.setup"),
            bus_rate: machine.value("bus.rate"),
            bus_by_pages: is("bus.pages"),
            wire_rate: machine.value("wire.rate").max(1.0),
            wire_extra: ns("wire.extra"),
            wire_least: ns("wire.least"),
            wire_delay: ns("wire.delay"),
            mtu: machine.value("wire.mtu").clamp(1200.0, 65_000.0) as u16,
        }
    }

    /// The host copies `len` bytes so many times.
    pub(crate) fn copies(&self, count: f64, len: u64) -> u64 {
        took(len as f64 * count, self.copy)
    }

    /// Whether there is an engine and it takes so much at a time.
    pub(crate) fn has_engine_for(&self, len: u64) -> bool {
        self.engine > 0.0 && len >= self.engine_least.max(1)
    }

    pub(crate) fn engine(&self, len: u64) -> u64 {
        took(len as f64, self.engine)
    }

    /// `frame_len` bytes over the bus, of which the payload lies at `offset` of the application's memory.
    pub(crate) fn bus(&self, frame_len: u64, offset: u64) -> u64 {
        let transactions = if self.bus_by_pages { pages(offset, frame_len).max(1) } else { 1 };
        transactions * self.bus_setup + took(frame_len as f64, self.bus_rate)
    }

    /// A few words over the bus.
    pub(crate) fn bus_words(&self) -> u64 {
        self.bus_setup + took(32.0, self.bus_rate)
    }

    /// A frame on the wire, with all that is around it.
    pub(crate) fn wire(&self, frame_len: u64) -> u64 {
        took((frame_len.max(self.wire_least) + self.wire_extra) as f64, self.wire_rate)
    }

    /// A post of so many bytes.
    pub(crate) fn post(&self, base: u64, len: u64) -> u64 {
        base + len.div_ceil(PAGE_LEN) * self.post_page
    }
}

/// Nothing where there is no rate.
fn took(len: f64, rate: f64) -> u64 {
    if rate > 0.0 { (len / rate * 1e9).round() as u64 } else { 0 }
}

/// The protocol's settings on a machine, and what it may hold.
pub(crate) fn settings_of(machine: &Machine) -> (Limits, Settings) {
    let count = |name: &str| machine.value(name).round().max(0.0) as u32;
    let limits = Limits { grant_len_max: 1 << 30, ..Limits::default() };
    let settings = Settings {
        eager_len_max: count("proto.eager").min(1 << 20),
        grant_packets: count("proto.grant").clamp(1, 4096),
        grant_ahead: count("proto.ahead"),
        grants_in_flight: count("proto.grants").clamp(1, 64),
        ack_every: count("proto.ack_every").clamp(1, 256),
        ack_delay_ns: u64::from(count("proto.ack_delay")),
        payload_check: false,
        initial_rtt_ns: 2_000_000,
        frame_len_max: Costs::of(machine).mtu,
        ..Settings::default()
    };
    (limits, settings)
}
