//! Opening an endpoint over its links: what is drawn once, the core, the descriptors to sleep on, the helper.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Condvar, Mutex};

use packhorse_link::fork::Mark;
use packhorse_link::mem::Table;
use packhorse_link::{Copier, Link};
use packhorse_proto::{Identity, Instant, Opening, Secret};

use crate::attend::Attendance;
use crate::bell::Bell;
use crate::commands::Commands;
use crate::core::{Core, OpenError};
use crate::crowd::Crowd;
use crate::doze::Doze;
use crate::drawn::{draw, host_identity};
use crate::duties::Offload;
use crate::engine::{Config, Engine, Placement};
use crate::helper::Helper;
use crate::inner::Inner;
use crate::looks::Looks;
use crate::time::monotonic_ns;

impl Engine {
    /// Opens an endpoint over these links; the first one's locator goes into its address.
    pub fn open(config: Config, links: Vec<Box<dyn Link>>) -> Result<Arc<Self>, OpenError> {
        let system = |what| move |error: io::Error| OpenError::System { what, error };
        let mut settings = config.settings;
        let has_helper = config.placement == Placement::Thread && config.offload != Offload::None;
        settings.has_helper = has_helper;
        let fds = links.iter().filter_map(|link| link.wake_fd()).map(|fd| fd.try_clone_to_owned());
        let fds = fds.collect::<io::Result<Vec<OwnedFd>>>();
        let doze = fds.and_then(Doze::new).map_err(system("making a wake descriptor"))?;
        let helper_doze = doze.twin().map_err(system("making a wake descriptor"))?;
        let bell = doze.with_links(Bell::new).map_err(system("making a wake descriptor"))?;
        let opening = draw_opening(config.identity, &links).map_err(system("getrandom"))?;
        let origin_ns = monotonic_ns();
        let payload_check = settings.payload_check;
        let mut core =
            Core::open(settings, config.limits, opening, links, Table::default(), Instant(0))?;
        for number in 0..core.links().len() {
            let is_checked = core.links()[number].about().is_checked;
            core.set_payload_check(
                number as u8,
                payload_check && (config.check_all || !is_checked),
            );
        }
        if let Some(len_min) = config.copy_offload.len_min() {
            let cpus = config.helper_cpus.clone();
            let copier = Copier::start(len_min, move || cpus.apply(None));
            core.set_copier(copier.map_err(system("starting the thread that copies"))?);
        }
        core.set_origin(origin_ns);
        core.set_clock(Box::new(move || Instant(monotonic_ns() - origin_ns)));
        let address = core.rules().address();
        let commands = Arc::new(Commands::default());
        let inner = Inner::new(core, Arc::clone(&commands));
        let ended = inner.requests.ended();
        let engine = Arc::new(Self {
            mark: Mark::new().map_err(system("getting memory that a fork wipes"))?,
            inner: Mutex::new(inner),
            wanted: AtomicU32::new(0),
            commands,
            ended,
            changed: Condvar::new(),
            doze,
            helper_doze,
            bell,
            helper: Helper::default(),
            helper_cpus: config.helper_cpus,
            offload: config.offload,
            crowd: Crowd::default(),
            looks: Looks::default(),
            is_watched: AtomicBool::new(false),
            attendance: Attendance::default(),
            spin_ns: config.spin_ns,
            asked_at_ns: AtomicU64::new(0),
            origin_ns,
            address,
        });
        if has_helper {
            engine.start_helper().map_err(system("starting the helper thread"))?;
        }
        Ok(engine)
    }
}

/// Everything that is drawn once per life of an endpoint.
fn draw_opening(identity: Option<Identity>, links: &[Box<dyn Link>]) -> io::Result<Opening> {
    let [secret, more, endpoint, entropy @ ..] = draw::<7>()?;
    Ok(Opening {
        secret: Secret([secret, more]),
        identity: identity.unwrap_or(Identity { host: host_identity(), endpoint }),
        entropy,
        locators: links.iter().map(|link| packhorse_proto::Locator(link.locator())).collect(),
    })
}
