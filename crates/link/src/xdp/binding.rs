//! How a socket is bound: the best that the driver takes.
//!
//! Zero-copy before copies; packets in several frames, where the MTU is longer than a frame, before short packets. What
//! one queue does not get, the next ones are not asked for.

use std::io;
use std::time::{Duration, Instant};

use super::config::{Require, XdpError};
use super::opening::Plan;
use crate::ether::HEADER_LEN;
use crate::sys::xdp::{Binding, Xsk};
use crate::umem::RX_LEN_MAX;

/// A queue that is not free after so long is somebody else's.
const BIND_WITHIN: Duration = Duration::from_secs(1);
/// The longest frame of ours that arrives in one frame of the memory.
pub(super) const WHOLE_LEN_MAX: usize = RX_LEN_MAX - HEADER_LEN;

/// What is asked of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) is_zerocopy: bool,
    /// Packets in several frames.
    pub(super) is_scattered: bool,
}

impl Terms {
    /// This one and all that ask for less, the best first.
    fn and_worse(self) -> impl Iterator<Item = Self> {
        let all = [(true, true), (true, false), (false, true), (false, false)];
        all.into_iter()
            .map(|(is_zerocopy, is_scattered)| Self { is_zerocopy, is_scattered })
            .filter(move |terms| terms.is_zerocopy <= self.is_zerocopy)
            .filter(move |terms| terms.is_scattered <= self.is_scattered)
    }
}

/// Binds the socket of a queue as well as it can be; says in the plan what it did not get.
pub(super) fn bind(
    plan: &mut Plan,
    socket: &Xsk,
    queue: u32,
    wanted: Terms,
) -> Result<Terms, XdpError> {
    let interface = plan.index;
    choose(plan, queue, wanted, |Terms { is_zerocopy, is_scattered }| {
        bind_free(socket, Binding { interface, queue, is_zerocopy, is_scattered })
    })
}

/// The kernel frees the queue of a socket that was closed a little after it was closed.
fn bind_free(socket: &Xsk, binding: Binding) -> io::Result<()> {
    let until = Instant::now() + BIND_WITHIN;
    loop {
        match socket.bind(binding) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(2));
            }
            other => return other,
        }
    }
}

fn choose(
    plan: &mut Plan,
    queue: u32,
    wanted: Terms,
    mut bind: impl FnMut(Terms) -> io::Result<()>,
) -> Result<Terms, XdpError> {
    let driver = plan.driver.as_deref().unwrap_or("this driver");
    let why = |error: &io::Error| format!("{driver} cannot do it in queue {queue} ({error})");
    let is_enough = |terms: &Terms| terms.is_zerocopy || plan.require != Require::Zerocopy;
    // Why there is no zero-copy, and no packet in several frames: of the best terms without which it might have been had.
    let (mut no_zerocopy, mut no_scatter) = (None, None);
    for terms in wanted.and_worse().filter(is_enough) {
        let error = match bind(terms) {
            Ok(()) => {
                let no_zerocopy = no_zerocopy.filter(|_| !terms.is_zerocopy);
                let no_scatter = no_scatter.filter(|_| !terms.is_scattered);
                plan.downgrades.extend(no_zerocopy.map(|reason| format!("no zero-copy: {reason}")));
                plan.downgrades.extend(no_scatter.map(|reason| {
                    format!("frames of up to {WHOLE_LEN_MAX} bytes, not {}: {reason}", plan.mtu)
                }));
                return Ok(terms);
            }
            Err(error) => error,
        };
        if error.raw_os_error() == Some(libc::EBUSY) {
            return Err(XdpError::QueueInUse { interface: plan.interface.clone(), queue });
        }
        if terms.is_zerocopy {
            no_zerocopy = Some(why(&error));
        } else if !terms.is_scattered {
            return Err(XdpError::System { doing: "binding an AF_XDP socket", error });
        }
        if terms.is_scattered {
            no_scatter = Some(why(&error));
        }
    }
    let (interface, require) = (plan.interface.clone(), plan.require);
    let reason = no_zerocopy.unwrap_or_else(|| "generic mode always copies".to_string());
    Err(XdpError::Required { interface, require, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEST: Terms = Terms { is_zerocopy: true, is_scattered: true };

    fn plan(require: Require) -> Plan {
        Plan { require, driver: Some("d".into()), ..super::super::handing::tests::example() }
    }

    /// Binds where the driver takes zero-copy, and packets in several frames with and without.
    fn chosen(plan: &mut Plan, wanted: Terms, takes: [bool; 4]) -> Result<Terms, XdpError> {
        choose(plan, 2, wanted, |terms| {
            let index = usize::from(!terms.is_zerocopy) * 2 + usize::from(!terms.is_scattered);
            takes[index].then_some(()).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
        })
    }

    #[test]
    fn the_best_way_is_taken_and_the_rest_explained() {
        for (takes, got, reasons) in [
            ([true; 4], (true, true), &[][..]),
            ([false, true, true, true], (true, false), &["frames of up to 3814"]),
            ([false, false, true, true], (false, true), &["no zero-copy: d cannot"]),
            ([false, false, false, true], (false, false), &["no zero-copy", "frames of up to"]),
        ] {
            let mut plan = plan(Require::Nothing);
            plan.downgrades.clear();
            let terms = chosen(&mut plan, BEST, takes).unwrap();
            assert_eq!((terms.is_zerocopy, terms.is_scattered), got, "{takes:?}");
            assert_eq!(plan.downgrades.len(), reasons.len(), "{:?}", plan.downgrades);
            for (said, wanted) in plan.downgrades.iter().zip(reasons) {
                assert!(said.starts_with(wanted) && said.contains("queue 2"), "{said}");
            }
        }
    }

    #[test]
    fn what_was_not_wanted_is_not_asked_for() {
        let least = Terms { is_zerocopy: false, is_scattered: false };
        let mut plan = plan(Require::Nothing);
        plan.downgrades.clear();
        assert_eq!(chosen(&mut plan, least, [true; 4]).unwrap(), least);
        assert!(plan.downgrades.is_empty());
        let error = chosen(&mut plan, least, [false; 4]).unwrap_err();
        assert!(error.to_string().starts_with("binding an AF_XDP socket: "), "{error}");
    }

    #[test]
    fn required_zerocopy_is_got_or_an_error() {
        let mut plan = plan(Require::Zerocopy);
        let terms = chosen(&mut plan, BEST, [false, true, true, true]).unwrap();
        assert!(terms.is_zerocopy && !terms.is_scattered);
        let error = chosen(&mut plan, BEST, [false, false, true, true]).unwrap_err();
        assert!(matches!(error, XdpError::Required { .. }), "{error}");
        let busy = choose(&mut plan, 2, BEST, |_| Err(io::Error::from_raw_os_error(libc::EBUSY)));
        assert!(busy.unwrap_err().to_string().contains("another AF_XDP socket has queue 2"));
    }
}
