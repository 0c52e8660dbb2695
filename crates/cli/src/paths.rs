//! `packhorse paths`: which pairs of links lead to a peer, which do not, and why.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use packhorse::quantity::{self, Unit};
use packhorse::{Address, Builder, Endpoint, Path, PathState, Peer, SendOptions};

/// A tag that nobody receives: the message it is on is taken back.
const NOBODYS_TAG: u64 = u64::MAX;
/// How often the paths are looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Show which paths lead to a peer.
///
/// Opens an endpoint as the settings say, makes contact, lets every pair of a link here and a place there be asked, and shows
/// what came of it: what is used for what, with round trips, and what is not used and why.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  packhorse paths ph1:…                           with the address that `packhorse serve` printed\n  PACKHORSE_LINK='udp:eth*' packhorse paths ph1:…  by chosen interfaces"
)]
pub(crate) struct PathsArgs {
    /// The peer: its address, or HOST:NUMBER if it is found by a number.
    #[arg(value_name = "PEER", value_parser = |text: &str| packhorse::address_of(text).map_err(|error| error.to_string()))]
    peer: Address,
    /// Which links: auto, udp, udp:eth0, udp:10.0.0.0/8, … with commas between; !docker* leaves out.
    #[arg(long)]
    link: Option<String>,
    /// How long to wait for answers: in seconds, or with the unit (500ms).
    #[arg(long, value_name = "S", default_value = "3", value_parser = |text: &str| quantity::time(text, Unit::Seconds))]
    seconds: Duration,
}

/// Asks and shows.
pub(crate) fn run(args: &PathsArgs, out: &mut impl Write) -> Result<()> {
    let mut builder = Builder::new().linger(Duration::from_millis(300));
    if let Some(link) = &args.link {
        builder = builder.links(link);
    }
    let endpoint = builder.open()?;
    let peer = endpoint.peer(&args.peer)?;
    writeln!(out, "{}", endpoint.name_of(peer))?;
    let options = SendOptions { until_matched: true, ..SendOptions::default() };
    let mut knock = endpoint.send_with(peer, NOBODYS_TAG, Vec::<u8>::new(), options);
    let end = Instant::now() + args.seconds;
    let mut failed = None;
    while Instant::now() < end && !is_settled(&endpoint, peer) && failed.is_none() {
        failed = knock.test().and_then(Result::err);
        thread::sleep(LOOK_EVERY);
    }
    for path in endpoint.paths(peer) {
        writeln!(out, "  {path}")?;
    }
    for notice in endpoint.notices() {
        writeln!(out, "  notice: {notice}")?;
    }
    knock.cancel();
    match failed {
        Some(failed) => Err(failed.error.into()),
        None => Ok(()),
    }
}

fn is_main(path: &Path) -> bool {
    matches!(path.state, PathState::Main | PathState::Quick)
}

/// The peer has answered, and every pair has or was asked often enough.
fn is_settled(endpoint: &Endpoint, peer: Peer) -> bool {
    let paths = endpoint.paths(peer);
    let is_open = |path: &Path| {
        matches!(path.state, PathState::Unproven { asked_count } if asked_count < 6)
            || is_main(path) && path.round_trip.is_none()
    };
    paths.iter().any(is_main) && !paths.iter().any(is_open)
}
