//! Open MPI 4.1 over Portals 4, from a source tree that the caller provides: built against our header and library as it is, and mpi4py's suite over it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::install::target;
use crate::mpi::library::Library;
use crate::mpi::portals;
use crate::steps::{command, root, run};

/// Of Portals only `mtl` is built: the other components choose themselves. What else is left out has nothing to do with messages, or is another way for them.
const CONFIGURE: &str = "--disable-mpi-fortran --disable-oshmem --disable-mpi-java --disable-io-romio --disable-man-pages \
    --without-verbs --without-ucx --without-ofi --without-psm --without-psm2 --without-cuda --without-slurm --without-lustre --without-cma \
    --enable-mca-no-build=btl-portals4,osc-portals4,coll-portals4,btl-usnic,btl-uct,btl-openib,btl-vader,btl-sm,btl-smcuda,coll-adapt,coll-han,coll-sm,coll-cuda,\
coll-hcoll,coll-monitoring,osc-monitoring,pml-monitoring,common-monitoring,topo-treematch,vprotocol,pml-v,crs,snapc,sstore,dfs,rcache-gpusm";
/// It is tried, not measured.
const CFLAGS: &str = "CFLAGS=-O1 -w";
const RANK_COUNT: usize = 2;

/// Builds it and runs the suite; the table, and how many tests failed over Portals and not over TCP.
pub(super) fn try_suite(
    sources: &Path,
    folder: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(String, usize)> {
    let prefix = build(sources, folder)?;
    let status = folder.join("status.so");
    let mut mpicc = Command::new(prefix.join("bin/mpicc"));
    mpicc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&status);
    mpicc.arg(root().join("faces/portals4/tests/mpi/status.c"));
    run(mpicc)?;
    let library = Library::built("openmpi-portals4", prefix, folder.to_path_buf(), status);
    portals::suite(&library, RANK_COUNT, is_wanted)
}

/// Configures, makes and installs it, unless that was done before; where it is. Who interrupts that may go on later.
fn build(sources: &Path, folder: &Path) -> Result<PathBuf> {
    let home = target().join("portals-openmpi");
    let (prefix, work) = (home.join("prefix"), home.join("build"));
    let is_ready = home.join("ready");
    if is_ready.exists() {
        return Ok(prefix);
    }
    let is_configured = work.join("configured");
    if !is_configured.exists() {
        configure(sources, folder, &home)?;
        fs::write(is_configured, "")?;
    }
    let jobs = format!("-j{}", std::thread::available_parallelism().map_or(1, usize::from));
    for words in [&["-s", &*jobs][..], &["-s", "install"]] {
        let mut make = command("make", words.iter().copied());
        // It prints thousands of lines; errors are shown.
        make.current_dir(&work).stdout(Stdio::null());
        run(make)?;
    }
    let component = prefix.join("lib/openmpi/mca_mtl_portals4.so");
    ensure!(component.exists(), "Open MPI was built without {}", component.display());
    fs::write(is_ready, "")?;
    Ok(prefix)
}

fn configure(sources: &Path, folder: &Path, home: &Path) -> Result<()> {
    let portals = home.join("portals");
    for made in [home.join("build"), portals.join("include"), portals.join("lib")] {
        fs::create_dir_all(made)?;
    }
    fs::copy(root().join("faces/portals4/include/portals4.h"), portals.join("include/portals4.h"))?;
    for name in ["libportals.so.4", "libportals.so"] {
        fs::copy(folder.join(name), portals.join("lib").join(name))?;
    }
    let configure = sources.canonicalize()?.join("configure");
    ensure!(
        configure.exists(),
        "{} is not there: take a release of Open MPI 4.1, or run its autogen.pl first",
        configure.display()
    );
    let mut configuring = Command::new(configure);
    configuring.current_dir(home.join("build")).args(CONFIGURE.split_whitespace());
    configuring.args([CFLAGS, "--quiet"]);
    configuring.arg(format!("--prefix={}", home.join("prefix").display()));
    configuring.arg(format!("--with-portals4={}", portals.display())).stdout(Stdio::null());
    // Its test of the library starts a program.
    configuring.env("LD_LIBRARY_PATH", folder);
    run(configuring)
}
