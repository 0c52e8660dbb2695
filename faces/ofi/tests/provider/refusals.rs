//! What is said of requests that cannot be met, heard through a library that only listens, in processes of their own: what a process has
//! asked for counts as a whole.

use std::path::{Path, PathBuf};
use std::process::Command;

use packhorse_fi::abi::{Obj, kind, version};

use super::application::{Hints, Loaded};
use super::like_mpi;

/// The requests that a process is to make.
const REQUESTS: &str = "PACKHORSE_FI_TEST_REQUESTS";
/// The library it is to hear what is said with.
const LIBRARY: &str = "PACKHORSE_FI_TEST_LIBRARY";
/// Memory of accelerators, which we do not have and Open MPI 5 asks everybody for first.
const HMEM: u64 = 1 << 47;

/// libfabric's log, and nothing else of it.
const LISTENER: &str = "
#include <stdarg.h>
#include <stdio.h>
int fi_log_enabled(const void *prov, int level, int subsys) { return 1; }
void fi_log(const void *prov, int level, int subsys, const char *func, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs(level == 0 ? \"warn: \" : \"info: \", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
}
";

fn listener(folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let (source, library) = (folder.join("listener.c"), folder.join("libfabric.so.1"));
    std::fs::write(&source, LISTENER).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wl,-soname,libfabric.so.1", "-o"]);
    assert!(compiler.arg(&library).arg(&source).status().unwrap().success());
    library
}

/// Makes the requests, as a process that ends afterwards.
fn ask(requests: &str, library: &str) {
    let library = std::ffi::CString::new(library).unwrap();
    // SAFETY: a library without constructors, which stays.
    assert!(!unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW) }.is_null());
    let loaded = Loaded::new();
    let too_much = |hints: &mut Hints| {
        like_mpi(hints);
        hints.caps |= HMEM;
    };
    let driven = |hints: &mut Hints| {
        like_mpi(hints);
        hints.domain.data_progress = kind::PROGRESS_AUTO;
    };
    for request in requests.split_whitespace() {
        let (wide, plain) = (Some(&too_much as _), Some(&like_mpi as _));
        match request {
            "wide" => assert!(loaded.getinfo(version(1, 17), wide).is_err()),
            "driven" => assert!(loaded.getinfo(version(1, 17), Some(&driven as _)).is_err()),
            "plain" => assert!(loaded.getinfo(version(1, 17), plain).is_ok()),
            "open" => {
                let info = loaded.getinfo(version(1, 17), plain).unwrap();
                let mut fabric: Obj = std::ptr::null_mut();
                let open = loaded.provider().fabric;
                // SAFETY: attributes as `getinfo` made them, and a place for the fabric, which is leaked.
                let status =
                    unsafe { open(info.fabric_attr, &raw mut fabric, std::ptr::null_mut()) };
                assert_eq!(status, 0);
            }
            other => panic!("no such request: {other}"),
        }
    }
    // SAFETY: as the library does when it goes; nothing is asked for afterwards.
    unsafe { (loaded.provider().cleanup)() };
}

#[test]
fn refusals_are_warned_of_only_if_nothing_was_found() {
    if let (Ok(requests), Ok(library)) = (std::env::var(REQUESTS), std::env::var(LIBRARY)) {
        return ask(&requests, &library);
    }
    let folder = std::env::temp_dir().join(format!("packhorse-refusals-{}", std::process::id()));
    let library = listener(&folder);
    for (provider, requests, refused_count, warning_count) in [
        ("packhorse", "plain open", 0, 0),
        ("packhorse", "wide", 1, 1),
        ("packhorse", "wide wide", 2, 1),
        ("packhorse", "wide plain", 1, 0),
        ("packhorse", "wide plain open wide wide plain", 3, 0), // Open MPI 5
        ("packhorse", "plain wide", 1, 1),
        // Nobody makes progress here, so that is the user's to change: said at once, and once.
        ("packhorse", "wide driven driven", 3, 1),
        ("packhorse", "plain open driven", 1, 0),
        ("tcp", "wide driven", 2, 0),
    ] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "refusals::refusals_are_warned_of_only_if_nothing_was_found"]);
        child.arg("--nocapture").env("FI_PROVIDER", provider).env("PACKHORSE_PLACEMENT", "inline");
        let output = child.env(REQUESTS, requests).env(LIBRARY, &library).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{requests}: {said}");
        let count = |beginning| said.lines().filter(|line| line.starts_with(beginning)).count();
        assert_eq!(count("info: not what was asked for: "), refused_count, "{requests}: {said}");
        assert_eq!(count("warn: "), warning_count, "{requests}: {said}");
        if warning_count > 0 {
            let why = if requests.contains("driven") { "PACKHORSE_PLACEMENT" } else { "caps: " };
            let warning = said.lines().find(|line| line.starts_with("warn: ")).unwrap();
            assert!(warning.contains(why), "{requests}: {said}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
