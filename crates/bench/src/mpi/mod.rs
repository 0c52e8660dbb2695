//! MPI libraries as they are, over Packhorse: `packhorse run`, `packhorse env`, `packhorse check`.
//!
//! ```text
//!  packhorse run mpirun -n 2 ./program
//!       │ launcher.rs   which MPI is this mpirun of? (family.rs reads its answer)
//!       │ provider.rs   where is our libfabric provider?
//!       │ settings.rs   what does that MPI need to be told, and how does it reach the other hosts?
//!       ▼
//!  exec mpirun -x FI_PROVIDER_PATH … -n 2 ./program
//! ```
//!
//! `packhorse compare --mpi` (measure.rs) sets an MPI over Packhorse beside the same MPI over its own transports (contender.rs),
//! between two hosts made for the purpose (two_hosts.rs) if wanted; and programs that look for messages between two pieces of work
//! (polling.rs) beside themselves with looks that never sleep. Whether a whole program gets quicker or slower is measured by inner
//! loops of some (applications.rs).
//!
//! Nothing of ours stays behind: the launcher takes the place of this process, so signals and exit status are its own.

pub mod applications;
pub mod check;
mod contender;
pub mod env;
mod family;
mod launcher;
pub mod measure;
pub mod polling;
mod provider;
pub mod row;
pub mod run;
mod settings;
mod two_hosts;

pub use family::Family;
pub use launcher::Launcher;
pub use provider::{Provider, find as find_provider};
pub use settings::{Locally, Settings};
