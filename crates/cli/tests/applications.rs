//! `compare --mpi --applications`, shortly and on one host: every program ends with the right result over every transport, and has
//! its line. Times are not asserted, for they depend on what else the machine does.

use std::path::PathBuf;
use std::process::{Command, Output};

use packhorse_bench::mpi::row::MpiRow;
use packhorse_bench::row::Findings;

const KERNELS: [&str; 4] = ["cg", "mg", "ft", "is"];
/// Lengths of work, times lengths of messages.
const LOOP_ROWS: usize = 6 * 2;

fn packhorse(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
    command.args(["compare", "--mpi", "--applications"]).args(args);
    // Beside other tests each wait would take a slice of time of whoever spins.
    command.env("OMPI_MCA_mpi_yield_when_idle", "1").output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Needs the provider beside the program: `cargo build -p packhorse-fi`, or a build of the workspace, or of all its tests.
#[test]
#[ignore = "needs Open MPI; `cargo xtask test` runs it"]
fn every_program_has_its_right_result_and_its_line() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("applications-{}", std::process::id()));
    let file = path.to_str().expect("a plain path");
    let short = ["--seconds", "0.01", "--reps", "1", "--mpi-link", "udp", "--ranks", "2"];
    let output = packhorse(&[&short[..], &["--json", file]].concat());
    let (said, complaint) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{complaint}");
    assert!(!complaint.contains("result is wrong"), "{complaint}");
    let findings: Findings =
        serde_json::from_str(&std::fs::read_to_string(&path).expect("it was written"))
            .expect("rows as promised");
    std::fs::remove_file(&path).expect("it was there");
    let of = |end: &str| -> Vec<&MpiRow> {
        findings.mpi.iter().filter(|row| row.system.ends_with(end)).collect()
    };
    for end in ["-tcp", "-shm", "-packhorse-udp-thread", "-packhorse-udp-inline"] {
        let rows = of(end);
        assert_eq!(rows.len(), 2 * KERNELS.len() + LOOP_ROWS, "{end}: {complaint}");
        assert!(rows.iter().all(|row| row.value > 0.0 && row.ranks == 2), "{rows:#?}");
        for kernel in KERNELS {
            assert!(rows.iter().any(|row| row.bench == kernel), "{kernel} of {end}");
            let inside = rows.iter().find(|row| row.bench == format!("{kernel}/mpi"));
            let whole = rows.iter().find(|row| row.bench == kernel);
            assert!(inside.zip(whole).is_some_and(|(a, b)| a.value < b.value), "{rows:#?}");
            let is_line = |line: &&str| line.starts_with(kernel) && line.contains(end);
            assert_eq!(said.lines().filter(is_line).count(), 2, "{kernel} of {end}: {said}");
        }
    }
    assert!(said.contains("rmpp 32K") && said.contains("rmpp 1M"), "{said}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_measured() {
    for (args, words) in [
        (&["--bytes", "8"][..], "leave --bytes out"),
        (&["--ranks", "3"], "2, 4, 8"),
        (&["--polling"], "--polling"),
    ] {
        let output = packhorse(args);
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {complaint}");
        assert!(complaint.contains(words), "{args:?}: {complaint}");
    }
}
