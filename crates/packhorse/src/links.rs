//! Opening links, and fitting the protocol's settings to them.

use std::net::IpAddr;

use packhorse_engine::Config;
use packhorse_link::capture::Captured;
use packhorse_link::faults::{Faults, Faulty};
use packhorse_link::kinds::{Ground, KINDS, Options};
use packhorse_link::mem::Table;
use packhorse_link::udp::Use;
use packhorse_link::{About, Interface, Kind, Link, Locator};
use packhorse_proto::Settings;

use crate::builder::Builder;
use crate::error::Error;
use crate::select::{KindInfo, Wish};

/// Grants nobody asked for in numbers: [`fit`] sizes them for the links.
const FIT: u32 = u32::MAX;
/// Bytes of a grant, about: some trains. Shorter ones cost more frames (each takes as long as a third of a train), longer ones leave
/// less for others.
const GRANT_LEN: u64 = 512 << 10;
/// Bytes of a grant where nothing is lost: a message in one or few, for each costs the sender a turn. What is granted waits in
/// the sender's memory, not in a socket.
const FREE_GRANT_LEN: u32 = 1 << 20;
/// Grants in flight beside the newest. What is on its way should stay in the processor's cache.
const GRANTS_AHEAD: u64 = 2;
/// Up to here a message leaves unasked, as a train or two: a round trip costs more than the copy.
const EAGER_LEN: u32 = 64 << 10;
/// Up to here it does so through memory, too, where copies are what it costs, and to peers on the way to whom frames were lost.
const EAGER_SURE_LEN: u32 = 24 << 10;
/// From here on a message is announced to a peer that can fetch it, which copies once: below, a system call takes longer than to copy three times.
const FETCH_LEN: u32 = 14 << 10;
/// Bytes of a large message that do not wait for a grant: a train of usual frames, in whole kilobytes. What is granted behind one, or
/// behind several, begins with another full train.
const AHEAD_LEN: u32 = 61 << 10;
/// What a link sends in one go, where it sends trains.
const TRAIN_LEN: u64 = 65_000;

/// The protocol's knobs as they are for real links.
pub(crate) fn settings() -> Settings {
    let (grant_packets, grant_ahead) = (FIT, FIT);
    Settings {
        eager_len_max: EAGER_LEN,
        eager_sure_len_max: EAGER_SURE_LEN,
        fetch_len_min: FETCH_LEN,
        ahead_len: AHEAD_LEN,
        grant_packets,
        grant_ahead,
        ..Settings::default()
    }
}

/// Opens what the builder asks for: one link for each that was chosen, of the only one that makes flows (a UDP
/// socket) as many as there shall be paths, and of the first TCP link as many as there shall be streams to a peer.
pub(crate) fn open(builder: &Builder) -> Result<Vec<Box<dyn Link>>, Error> {
    let interfaces = packhorse_link::interfaces();
    let mut wishes = builder.link.resolve(&interfaces).map_err(Error::Setting)?;
    wishes.retain(|wish| is_where_bound(builder.bind, wish, &interfaces));
    let flows: Vec<usize> =
        (0..wishes.len()).filter(|&index| wishes[index].kind.makes_flows).collect();
    if let [only] = flows[..] {
        let more = vec![wishes[only].clone(); usize::from(builder.path_count).saturating_sub(1)];
        wishes.splice(only..only, more);
    }
    let mut flows = vec![0; wishes.len()];
    if let Some(at) = wishes.iter().position(|wish| *wish.kind == packhorse_link::tcp::KIND) {
        // Behind all others, which keep their numbers.
        for flow in 1..builder.tcp_stream_count {
            wishes.push(wishes[at].clone());
            flows.push(flow);
        }
    }
    let mut links: Vec<Box<dyn Link>> = Vec::new();
    for ((wish, flow), number) in wishes.iter().zip(flows).zip(0..) {
        let first = links.first().map(|link| link.locator()); // the address has it
        match open_one(builder, (wish, flow), number, first) {
            Ok(link) => links.push(link),
            Err(_) if wish.is_optional && !links.is_empty() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(links)
}

/// Whether the link whose locator is in the address listens at all addresses of this host.
pub(crate) fn is_everywhere(builder: &Builder) -> bool {
    let wishes = builder.link.resolve(&packhorse_link::interfaces()).unwrap_or_default();
    let is_unbound = |wish: &Wish| {
        let (bind, _) = options(builder, wish, None).socket();
        wish.kind.ground == Ground::Address && bind.ip().is_unspecified()
    };
    wishes.first().is_some_and(is_unbound)
}

/// An endpoint that is bound to an address is not to be reached by other cards, unless they are named.
fn is_where_bound(bind: IpAddr, wish: &Wish, interfaces: &[Interface]) -> bool {
    let Some(on) = wish.on.as_ref().filter(|_| wish.is_optional) else { return true };
    let has_it = |interface: &Interface| interface.addrs.iter().any(|&(ip, _)| ip == bind);
    bind.is_unspecified() || interfaces.iter().any(|it| it.index == on.index && has_it(it))
}

/// All kinds of links: whether they can be used here, and what it takes if not.
pub fn kinds() -> Vec<KindInfo> {
    let info = |kind: &&Kind| {
        let missing = (kind.probe)().err();
        let remedy = missing.as_ref().and_then(|missing| missing.remedy.clone());
        KindInfo { name: kind.name, missing: missing.map(|missing| missing.what), remedy }
    };
    KINDS.iter().map(info).collect()
}

/// What the builder asks of a link. `address`: the locator of the first one, which the endpoint's address has.
fn options(builder: &Builder, wish: &Wish, address: Option<Locator>) -> Options {
    let use_of = |is_on: bool| if is_on { Use::Auto } else { Use::Off };
    Options {
        on: wish.on.clone(),
        bind: builder.bind,
        ports: (*builder.ports.end() > 0).then(|| builder.ports.clone()),
        flow: 0,
        trains: use_of(builder.trains),
        cma: use_of(builder.shm_cma),
        buffers_unprivileged: builder.small_socket_buffers,
        is_discoverable: builder.discoverable != Some(false),
        is_on_demand: wish.is_optional && builder.discoverable != Some(true),
        address,
    }
}

fn open_one(
    builder: &Builder,
    (wish, flow): (&Wish, u8),
    number: u8,
    first: Option<Locator>,
) -> Result<Box<dyn Link>, Error> {
    let mut link = (wish.kind.open)(&Options { flow, ..options(builder, wish, first) })?;
    if let Some(faults) = &builder.faults {
        let faults = Faults { seed: faults.seed.wrapping_add(u64::from(number)), ..*faults };
        link = Box::new(Faulty::new::<Table>(link, faults));
    }
    if let Some(file) = &builder.capture {
        let file = match number {
            0 => file.clone(),
            number => file.with_extension(format!("{number}.pcapng")),
        };
        let captured = Captured::create(link, &file);
        link = Box::new(captured.map_err(|error| Error::Capture { file, error })?);
    }
    Ok(link)
}

/// What the links can do decides frame length, check and grants.
pub(crate) fn fit(config: &mut Config, links: &[Box<dyn Link>], payload_check: Option<bool>) {
    let abouts = || links.iter().map(|link| link.about());
    // Each path has a limit of its own; this is what the longest may have.
    let frame_len_max = abouts().map(|about| about.frame_len_max).max().unwrap_or(0);
    config.settings.frame_len_max = frame_len_max.min(usize::from(u16::MAX)) as u16;
    let is_checked = abouts().all(|about| about.is_checked);
    config.settings.payload_check = payload_check.unwrap_or(!is_checked);
    config.check_all = payload_check == Some(true);
    // A quarter of what a socket holds is left for control and small messages (docs/design.md §5).
    let backlog = backlog_len_of_data(&abouts().collect::<Vec<_>>());
    config.limits.grant_len_max = (backlog / 4 * 3).max(u64::from(config.settings.frame_len_max));
    config.limits.unasked_len_max = config.limits.grant_len_max;
    fit_grants(&mut config.settings, config.limits.grant_len_max);
}

/// How much data may be on its way to us at once: what the smallest backlog holds of the links that data comes by. A link that never
/// loses a frame has no backlog to overrun. Beside links that send trains the others carry no data (PROTOCOL §10.4): the ring of
/// `packet`, which is a tenth of a socket's buffer, must not bound what comes through the socket.
fn backlog_len_of_data(abouts: &[&About]) -> u64 {
    let lossy = || abouts.iter().filter(|about| !about.reliability.never_loses());
    let with_trains =
        lossy().filter(|about| about.train_len_max > 0).map(|about| about.backlog_len_max).min();
    with_trains.or_else(|| lossy().map(|about| about.backlog_len_max).min()).unwrap_or(u64::MAX)
}

/// Grants of some trains, or of what the links can hold: in bytes, for frames may differ in length from path to path; in
/// frames where somebody asked for frames.
fn fit_grants(settings: &mut Settings, open_len_max: u64) {
    let frame_len = u64::from(settings.frame_len_max).max(1);
    let len = GRANT_LEN.min(open_len_max / (GRANTS_AHEAD + 1)).max(frame_len);
    let packets = (len / frame_len).max(1) as u32;
    if settings.grant_packets == FIT && settings.grant_ahead == FIT {
        settings.grant_len = len as u32;
        settings.grant_ahead_len = (len * GRANTS_AHEAD) as u32;
        settings.grant_train_len = TRAIN_LEN as u32;
        settings.grant_free_len = FREE_GRANT_LEN;
    }
    if settings.grant_packets == FIT {
        settings.grant_packets = packets;
    }
    if settings.grant_ahead == FIT {
        settings.grant_ahead = settings.grant_packets.saturating_mul(GRANTS_AHEAD as u32);
    }
}

#[cfg(test)]
mod tests {
    use packhorse_link::Reliability;

    use super::*;

    fn about(kind: &'static str, train_len_max: usize, backlog_len_max: u64) -> About {
        About {
            kind,
            frame_len_max: 1472,
            train_len_max,
            train_count_max: train_len_max / 1472,
            reliability: match kind {
                "shm" => Reliability::Ordered { may_break: false },
                "tcp" => Reliability::Ordered { may_break: true },
                _ => Reliability::Lossy,
            },
            is_checked: true,
            is_private: kind == "shm",
            can_land: true,
            backlog_len_max,
        }
    }

    /// By it askers for a number are told the address that they asked, so it must hold for every kind of link that has ports of IP.
    #[test]
    fn a_socket_of_any_kind_listens_everywhere_unless_it_is_bound() {
        for kind in ["udp", "tcp"] {
            let by_kind = || Builder::new().link(kind.parse().expect("a kind"));
            assert!(is_everywhere(&by_kind()), "{kind}");
            assert!(!is_everywhere(&by_kind().bind([127, 0, 0, 1])), "{kind}");
        }
        assert!(!is_everywhere(&Builder::new().link("shm".parse().expect("a kind"))));
    }

    #[test]
    fn links_that_data_comes_by_decide_how_much_of_it_may_be_on_its_way() {
        let udp = about("udp", 65_000, 8 << 20);
        let packet = about("packet", 0, 700 << 10);
        let slow_packet = about("packet", 0, 100 << 10);
        let shm = about("shm", 0, 64 << 20);
        let tcp = about("tcp", 1 << 20, 4 << 20);
        assert_eq!(backlog_len_of_data(&[&udp, &shm, &packet]), 8 << 20, "the ring decided");
        assert_eq!(backlog_len_of_data(&[&udp, &tcp]), 4 << 20, "the smaller decides");
        assert_eq!(backlog_len_of_data(&[&packet, &slow_packet]), 100 << 10);
        assert_eq!(backlog_len_of_data(&[&shm]), u64::MAX, "nothing is lost");
    }
}
