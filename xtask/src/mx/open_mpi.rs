//! Open MPI 1.8 over MX, from a source tree that the caller provides: built against our headers and library as it is, and run.
//!
//! Its own examples, a program of ours that verifies every byte (point to point and collectives), on one host and on two namespaces, 2 and 4
//! ranks; then half round trips beside its own TCP, by turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::install::{link_mx, target};
use crate::mpi::hosts::Hosts;
use crate::steps::{command, output, root, run};

/// What is left out cannot be built by today's compilers, or has nothing to do with messages. Tracking of dependencies stays on: it makes the folders
/// that flex writes to, which one job at a time else misses.
const CONFIGURE: &str = "--disable-mpi-fortran --disable-mpi-cxx --disable-java --disable-oshmem --disable-vt --disable-io-romio --disable-man-pages \
    --disable-debug --disable-mem-debug --with-hwloc=internal --enable-contrib-no-build=vt,libompitrace \
    --without-verbs --without-psm --without-mxm --without-slurm --without-cuda --without-memory-manager --without-udreg --without-xpmem --without-knem \
    --without-tm --without-lsf --without-sge --without-valgrind \
    --enable-mca-no-build=btl-openib,btl-usnic,btl-vader,coll-fca,coll-ml,coll-hcoll,coll-hierarch,coll-inter,bcol,sbgp,io,fs,fcoll,fbtl,sharedfp,topo-treematch,\
crs,snapc,sstore,vprotocol,pml-v,pml-bfo,pml-yalla,crcp";
/// Code of its time: common symbols, functions without declarations. A tree from which VampirTrace was taken away leaves one word undefined.
const CFLAGS: &str = "CFLAGS=-O2 -fcommon -w -std=gnu11 -Wno-implicit-function-declaration -Wno-int-conversion \
    -Wno-incompatible-pointer-types -DOMPI_ENABLE_CONTRIB_vt=0";
const EXAMPLES: [&str; 3] = ["hello_c", "ring_c", "connectivity_c"];
const PATIENCE_S: &str = "120";
const TURN_COUNT: usize = 5;

/// What carries its messages.
#[derive(Clone, Copy)]
enum Way {
    Mx,
    Tcp,
}

impl Way {
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Mx => &["--mca", "pml", "cm", "--mca", "mtl", "mx"],
            Self::Tcp => &["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"],
        }
    }
}

/// The library as it was built, and what was compiled with it.
struct Built {
    prefix: PathBuf,
    mx: PathBuf,
    programs: PathBuf,
}

/// Builds and runs it all, or (`is_measured`) only what is measured; how many runs failed.
pub(super) fn try_all(sources: &Path, is_measured: bool) -> Result<usize> {
    let built = build(sources)?;
    let hosts = Hosts::new()?;
    let failed = if is_measured { 0 } else { built.try_programs(&hosts) };
    for place in [None, Some(&hosts)] {
        built.measure(place)?;
    }
    Ok(failed)
}

/// Configures, makes and installs it, unless that was done before.
fn build(sources: &Path) -> Result<Built> {
    let folder = target().join("mx");
    let (mx, prefix) = (folder.join("prefix"), folder.join("openmpi"));
    let (work, programs) = (folder.join("openmpi-build"), folder.join("programs"));
    for folder in [mx.join("lib"), mx.join("include"), work.clone(), programs.clone()] {
        fs::create_dir_all(folder)?;
    }
    link_mx(&target().join("release"), &mx.join("lib"))?;
    let mut copy = command("cp", ["-r", "-T"]);
    copy.arg(root().join("faces/mx/include")).arg(mx.join("include"));
    run(copy)?;
    // Who interrupts this may go on later.
    let is_configured = work.join("configured");
    if !prefix.join("bin/mpicc").exists() && !is_configured.exists() {
        let configure = sources.canonicalize()?.join("configure");
        ensure!(
            configure.exists(),
            "{} is not there: run Open MPI's autogen.pl first, with autoconf 2.69",
            configure.display()
        );
        let mut configuring = Command::new(configure);
        configuring.current_dir(&work).args(CONFIGURE.split_whitespace()).arg(CFLAGS);
        configuring.arg(format!("--prefix={}", prefix.display()));
        configuring.arg(format!("--with-mx={}", mx.display()));
        configuring.stdout(Stdio::null());
        run(configuring)?;
        fs::write(is_configured, "")?;
    }
    if !prefix.join("bin/mpicc").exists() {
        let jobs = format!("-j{}", std::thread::available_parallelism().map_or(1, usize::from));
        for word in [&*jobs, "install"] {
            let mut make = command("make", [word]);
            // It prints thousands of lines; errors are shown.
            make.current_dir(&work).stdout(Stdio::null());
            run(make)?;
        }
    }
    let built = Built { prefix, mx, programs };
    for example in EXAMPLES {
        built.compile(&sources.join(format!("examples/{example}.c")), example)?;
    }
    built.compile(&root().join("faces/ofi/tests/mpi/smoke.c"), "smoke")?;
    built.compile(&root().join("crates/bench/src/rival/mpi.c"), "rival")?;
    Ok(built)
}

impl Built {
    fn compile(&self, from: &Path, name: &str) -> Result<()> {
        let mut cc = Command::new(self.prefix.join("bin/mpicc"));
        cc.args(["-w", "-O2", "-DWITHOUT_MPROBE"]).arg(from);
        cc.arg("-o").arg(self.programs.join(name));
        run(cc)
    }

    /// Examples and verified bytes, everywhere; how many runs failed.
    fn try_programs(&self, hosts: &Hosts) -> usize {
        let mut failed = 0;
        for (rank_count, place) in [(2, None), (2, Some(hosts)), (4, None), (4, Some(hosts))] {
            for program in EXAMPLES.into_iter().chain(["smoke"]) {
                let ended = self.run(Way::Mx, rank_count, place, &[program]);
                let word = if ended.is_ok() { "passed" } else { "FAILED" };
                failed += usize::from(ended.is_err());
                let where_to = if place.is_some() { "two namespaces" } else { "one host" };
                println!("{word}  Open MPI over MX, {rank_count} ranks, {where_to}: {program}");
                if let Err(why) = ended {
                    eprintln!("{why:#}");
                }
            }
        }
        failed
    }

    /// Runs a program to its end; what it said.
    fn run(
        &self,
        way: Way,
        rank_count: usize,
        hosts: Option<&Hosts>,
        words: &[&str],
    ) -> Result<String> {
        let mut launch = command("timeout", ["-k", "5", PATIENCE_S]);
        if let Some(hosts) = hosts {
            hosts.enter(&mut launch);
        }
        launch.arg(self.prefix.join("bin/mpirun")).args(["-n", &rank_count.to_string()]);
        launch.args(["--allow-run-as-root", "--bind-to", "none"]).args(way.words());
        match hosts {
            Some(_) => Hosts::tell_old_open_mpi(&mut launch, rank_count),
            // Whoever is on this host's cards is not disturbed.
            None => _ = launch.args(["-x", "PACKHORSE_MX_BOARDS"]).env("PACKHORSE_MX_BOARDS", "lo"),
        }
        launch.args(["--oversubscribe", "-x", "LD_LIBRARY_PATH"]);
        launch.env("LD_LIBRARY_PATH", self.mx.join("lib"));
        launch.arg(self.programs.join(words[0])).args(&words[1..]);
        output(launch)
    }

    /// Medians of half round trips in ns, MX and TCP by turns.
    fn measure(&self, hosts: Option<&Hosts>) -> Result<()> {
        for bytes in ["8", "1048576"] {
            let mut times = [Vec::new(), Vec::new()];
            for _ in 0..TURN_COUNT {
                for (way, times) in [Way::Mx, Way::Tcp].into_iter().zip(&mut times) {
                    let said =
                        self.run(way, 2, hosts, &["rival", "pingpong", bytes, "0.5", "1"])?;
                    let median = said.split_whitespace().nth(1).and_then(|word| word.parse().ok());
                    times.push(median.with_context(|| format!("no figure in {said:?}"))?);
                }
            }
            let [mx, tcp] = times.map(|mut times: Vec<u64>| {
                times.sort_unstable();
                (times[TURN_COUNT / 2], times[0], times[TURN_COUNT - 1])
            });
            println!(
                "Open MPI, {}, half round trip of {bytes} bytes in ns: MX {} ({}..{}), its own TCP {} ({}..{}), ratio {:.2}",
                if hosts.is_some() { "two namespaces" } else { "one host" },
                mx.0,
                mx.1,
                mx.2,
                tcp.0,
                tcp.1,
                tcp.2,
                mx.0 as f64 / tcp.0 as f64
            );
        }
        Ok(())
    }
}
