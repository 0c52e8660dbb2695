//! Opening links, and fitting the protocol's settings to them.

use std::net::SocketAddr;

use packhorse_engine::Config;
use packhorse_link::Link;
use packhorse_link::capture::Captured;
use packhorse_link::faults::{Faults, Faulty};
use packhorse_link::mem::Table;
use packhorse_link::udp::{self, Udp, UdpConfig, Use};
use packhorse_proto::Settings;

use crate::builder::Builder;
use crate::error::Error;

/// Where something is, as people write it.
pub(crate) fn locator_text(locator: &packhorse_link::Locator) -> String {
    udp::show(locator)
}

/// The protocol's knobs as they are for real links.
pub(crate) fn settings() -> Settings {
    Settings::default()
}

/// Opens what the builder asks for: one link for each path.
pub(crate) fn open(builder: &Builder) -> Result<Vec<Box<dyn Link>>, Error> {
    (0..builder.path_count).map(|number| open_one(builder, number)).collect()
}

fn open_one(builder: &Builder, number: u8) -> Result<Box<dyn Link>, Error> {
    let trains = if builder.trains { Use::Auto } else { Use::Off };
    let config = UdpConfig {
        bind: SocketAddr::new(builder.bind, 0),
        ports: (*builder.ports.end() > 0).then(|| builder.ports.clone()),
        gso: trains,
        gro: trains,
        buffers_unprivileged: builder.small_socket_buffers,
        ..UdpConfig::default()
    };
    let udp = Udp::open(&config).map_err(|error| Error::Link(error.to_string()))?;
    let mut link: Box<dyn Link> = Box::new(udp);
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
        let why = |error| Error::Link(format!("cannot capture to {}: {error}", file.display()));
        link = Box::new(captured.map_err(why)?);
    }
    Ok(link)
}

/// What the links can do decides frame length, check and grants.
pub(crate) fn fit(config: &mut Config, links: &[Box<dyn Link>], payload_check: Option<bool>) {
    let abouts = || links.iter().map(|link| link.about());
    let frame_len_max = abouts().map(|about| about.frame_len_max).min().unwrap_or(0);
    config.settings.frame_len_max = frame_len_max.min(usize::from(u16::MAX)) as u16;
    let is_checked = abouts().all(|about| about.is_checked);
    config.settings.payload_check = payload_check.unwrap_or(!is_checked);
    // A quarter of what a socket holds is left for control and small messages (DESIGN §5).
    let backlog = abouts().map(|about| about.backlog_len_max).min().unwrap_or(0);
    config.limits.grant_len_max = (backlog / 4 * 3).max(u64::from(config.settings.frame_len_max));
}
