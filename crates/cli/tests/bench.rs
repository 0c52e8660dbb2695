//! The program itself, measuring shortly: the rivals over loopback and between two namespaces, and what it says to
//! nonsense.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use packhorse_bench::row::Findings;
use packhorse_bench::system::Pattern;

/// What has not happened by then does not happen, on a machine with much to do either.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

fn packhorse(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_packhorse")).args(args).output().expect("the program starts")
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()))
}

/// Runs a measurement of two repetitions of 50 ms and returns its rows.
fn measure(name: &str, args: &[&str]) -> Result<Findings, String> {
    let path = scratch(name);
    let file = path.to_str().expect("a plain path");
    let short = ["--seconds", "0.05", "--reps", "2", "--json", file];
    let output = packhorse(&[args, &short].concat());
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = std::fs::read_to_string(&path).expect("it was written");
    std::fs::remove_file(&path).expect("it was there");
    Ok(serde_json::from_str(&text).expect("rows as promised"))
}

fn check(findings: &Findings, pattern: Pattern, row_count: usize) {
    assert_eq!(findings.rows.len(), row_count);
    for row in &findings.rows {
        assert_eq!(row.bench, pattern);
        match pattern {
            Pattern::PingPong => assert!(row.half_rtt_ns.is_some_and(|l| l.p50 > 0), "{row:?}"),
            Pattern::Stream => assert!(row.bytes_per_s.is_some_and(|value| value > 0.0), "{row:?}"),
            _ => {
                assert!(row.messages_per_s.is_some_and(|value| value > 0.0), "{row:?}")
            }
        }
    }
}

const RIVALS: [&str; 2] = ["--systems", "bare,tcp"];

#[test]
fn rivals_play_ping_pong_over_loopback() {
    let args = [&["bench", "pingpong", "--bytes", "8,100K"][..], &RIVALS].concat();
    check(&measure("pingpong", &args).unwrap(), Pattern::PingPong, 2 * 2 * 2);
}

#[test]
fn rivals_stream_and_rate_over_loopback() {
    let args = [&["bench", "stream", "--bytes", "1000,1M"][..], &RIVALS].concat();
    check(&measure("stream", &args).unwrap(), Pattern::Stream, 2 * 2 * 2);
    let args = [&["bench", "rate", "--unprivileged-buffers"][..], &RIVALS].concat();
    check(&measure("rate", &args).unwrap(), Pattern::Rate, 2 * 2 * 2);
}

/// Where the system allows no namespaces, it must say what to do instead.
#[test]
fn rivals_stream_between_two_hosts_without_offloads() {
    let base =
        ["bench", "stream", "--bytes", "64K", "--two-hosts", "--no-offload", "--mtu", "9000"];
    match measure("hosts", &[&base[..], &RIVALS].concat()) {
        Ok(findings) => {
            check(&findings, Pattern::Stream, 2 * 2);
            let interface = findings.machine.interface.expect("it was asked");
            assert_eq!((interface.driver.as_deref(), interface.mtu), (Some("veth"), 9000));
            assert!(interface.offloads.iter().all(|(_, is_on)| !is_on), "{interface:?}");
        }
        Err(error) => assert!(error.contains("What to do") || error.contains("install"), "{error}"),
    }
}

/// All patterns, with short and with jumbo frames: the ring and the queue.
#[test]
fn raw_ethernet_is_measured_between_two_hosts_and_nowhere_else() {
    let raw = ["--systems", "packet-bare", "--two-hosts"];
    let cases = [("pingpong", Pattern::PingPong, "8,100K"), ("stream", Pattern::Stream, "64,1M")];
    for mtu in ["1500", "9000"] {
        for (name, pattern, sizes) in cases.into_iter().chain([("rate", Pattern::Rate, "8,1K")]) {
            let base = ["bench", name, "--bytes", sizes, "--mtu", mtu];
            match measure(&format!("raw-{name}"), &[&base[..], &raw].concat()) {
                Ok(findings) => check(&findings, pattern, 2 * 2),
                Err(error) => {
                    assert!(error.contains("What to do") || error.contains("install"), "{error}");
                }
            }
        }
    }
    let error = measure("raw", &["bench", "pingpong", "--systems", "packet-bare"]).unwrap_err();
    assert!(error.contains("--two-hosts"), "{error}");
}

/// Where the rights are missing, it must say so.
#[test]
fn bare_xdp_is_measured_between_two_hosts() {
    for (pattern, name, sizes, mtu) in [
        (Pattern::PingPong, "pingpong", "8,1M", "1500"),
        (Pattern::Stream, "stream", "64K", "9000"),
        (Pattern::Rate, "rate", "8", "1500"),
    ] {
        let base = ["bench", name, "--bytes", sizes, "--two-hosts", "--mtu", mtu];
        let rest = ["--systems", "xdp-bare"];
        match measure(&format!("xdp-{name}"), &[&base[..], &rest].concat()) {
            Ok(findings) => check(&findings, pattern, 2 * sizes.split(',').count()),
            Err(error) => assert!(
                ["What to do", "install", "it needs root"]
                    .iter()
                    .any(|words| error.contains(words)),
                "{error}"
            ),
        }
    }
}

/// Which is which depends on the machine; that both are told does not.
#[test]
fn quick_measures_what_a_user_has_and_says_what_is_better_and_worse() {
    let path = scratch("quick");
    let file = path.to_str().expect("a plain path");
    let output =
        packhorse(&["compare", "--quick", "--seconds", "50ms", "--reps", "1", "--json", file]);
    let (said, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{error}");
    let text = std::fs::read_to_string(&path).expect("it was written");
    std::fs::remove_file(&path).expect("it was there");
    let findings: Findings = serde_json::from_str(&text).expect("rows as promised");
    let ours: Vec<_> = findings.rows.iter().filter(|row| row.system == "packhorse").collect();
    assert_eq!(ours.len(), 5, "{ours:#?}");
    assert!(ours.iter().all(|row| row.link.as_deref() == Some("auto")), "{ours:#?}");
    let has_line = |start: &str| said.lines().any(|line| line.starts_with(start));
    let is_worse = has_line("worse than TCP: ") && !has_line("worse than TCP: nothing");
    assert!(has_line("better than TCP: ") && has_line("worse than TCP: "), "{said}");
    assert_eq!(has_line("what to do: "), is_worse, "{said}");
}

#[test]
fn nonsense_gets_a_clear_error() {
    for (args, words) in [
        (&["bench", "pingpong", "--bytes", "12q"][..], "12q"),
        (&["bench", "pingpong", "--bytes", "0"], "0 bytes"),
        (&["bench", "stream", "--bytes", "99999999999999999999"], "at most 1G"),
        (&["bench", "rate", "--bytes", "1M"], "fit one datagram"),
        (&["bench", "stream", "--seconds", "0"], "a measurement takes 10ms"),
        (&["bench", "stream", "--mtu", "9000"], "--two-hosts"),
        (&["compare", "--json", "/nosuch/folder/rows.json"], "/nosuch/folder/rows.json"),
        (&["compare", "--html", "/nosuch/folder/page.html"], "/nosuch/folder/page.html"),
        (&["compare", "--systems", "carrier-pigeon"], "carrier-pigeon"),
    ] {
        let output = packhorse(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn killed_runner_leaves_no_process_behind() {
    let mut runner = Command::new(env!("CARGO_BIN_EXE_packhorse"))
        .args(["bench", "pingpong", "--seconds", "120", "--two-hosts"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program starts");
    let parent = format!("--parent\0{}\0", runner.id());
    let peers = || {
        let folders = std::fs::read_dir("/proc").expect("procfs").flatten();
        let lines = folders.filter_map(|folder| std::fs::read(folder.path().join("cmdline")).ok());
        lines.filter(|line| String::from_utf8_lossy(line).contains(&parent)).count()
    };
    let start = Instant::now();
    // Where namespaces are not allowed there is never more than one, and soon the runner ends by itself.
    while peers() != 2 && runner.try_wait().expect("it was started").is_none() {
        assert!(start.elapsed() < PATIENCE, "{} measuring processes", peers());
        std::thread::sleep(LOOK_EVERY);
    }
    runner.kill().expect("it runs, or was not waited for");
    runner.wait().expect("it was started");
    while peers() != 0 {
        assert!(start.elapsed() < PATIENCE, "measuring processes outlive their runner");
        std::thread::sleep(LOOK_EVERY);
    }
}

#[test]
fn manual_and_completions_come_from_the_same_definition() {
    let manual = packhorse(&["man"]);
    let text = String::from_utf8_lossy(&manual.stdout);
    assert!(text.contains("PACKHORSE COMPARE") && text.contains("two\\-hosts"), "{text}");
    // `peer` is for the program itself; `peers` is not.
    assert!(!text.replace("PACKHORSE PEERS", "").contains("PACKHORSE PEER"), "{text}");
    for shell in ["bash", "zsh", "fish"] {
        let script = packhorse(&["completions", shell]);
        assert!(String::from_utf8_lossy(&script.stdout).contains("two-hosts"), "{shell}");
    }
}
