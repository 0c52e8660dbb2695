//! What the shared object shows to a loader: the names of the interfaces, with their versions, and nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stage::{Running, Scratch};

/// Those that have a version, as binaries of MX ask for them.
const VERSIONED: [&str; 7] = [
    "mx__init_api@@MX_0.92",
    "mx_decompose_endpoint_addr@@MX_0.9",
    "mx_get_info@@MX_0.91",
    "mx_iprobe@@MX_0.91",
    "mx_open_endpoint@@MX_0.9",
    "mx_test@@MX_0.91",
    "mx_wait@@MX_0.91",
];
/// What is of `mx` and `omx` but for the prefix.
const OF_BOTH: &str = "finalize open_endpoint close_endpoint wakeup disable_progression reenable_progression progress cancel \
    test wait test_any wait_any ipeek peek iprobe probe ibuffered context get_info hostname_to_nic_id nic_id_to_hostname \
    board_number_to_nic_id nic_id_to_board_number connect iconnect disconnect decompose_endpoint_addr get_endpoint_addr \
    strerror register_unexp_handler forget set_endpoint_addr_context get_endpoint_addr_context set_request_timeout \
    set_error_handler isend issend irecv _init_api";
const OF_MX: &str = "buffered strstatus register_unexp_callback iput iget decompose_endpoint_addr2 open_board \
    _get_mapper_state _regcache_clean";
const OF_RAW: &str = "handle open_endpoint close_endpoint send next_event set_route_begin set_route_end clear_routes \
    set_nic_reply_info set_route set_route_mag set_peer_name set_hostname set_map_version num_ports line_speed remove_peer";
const OF_OMX: &str = "cancel_notest isendv issendv irecvv decompose_endpoint_addr_with_session";
const VARIABLES: [&str; 4] =
    ["MX_ERRORS_ARE_FATAL", "MX_ERRORS_RETURN", "OMX_ERRORS_ARE_FATAL", "OMX_ERRORS_RETURN"];

fn names(prefix: &str, of: &str) -> BTreeSet<String> {
    of.split_whitespace().map(|name| format!("{prefix}_{name}")).collect()
}

fn functions_of_mx() -> BTreeSet<String> {
    [names("mx", OF_BOTH), names("mx", OF_MX), names("mx_raw", OF_RAW)]
        .into_iter()
        .flatten()
        .collect()
}

fn functions_of_omx() -> BTreeSet<String> {
    [names("omx", OF_BOTH), names("omx", OF_OMX)].into_iter().flatten().collect()
}

/// Names and kinds of what the shared object defines.
fn shown(library: &Path) -> Vec<(String, String)> {
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    let lines = String::from_utf8(listed.stdout).unwrap();
    let read = |line: &str| {
        let mut words = line.split_whitespace().skip(1).map(str::to_owned);
        Some((words.next()?, words.next()?))
    };
    // Nodes of versions are absolute symbols.
    lines.lines().filter_map(read).filter(|(kind, _)| kind != "A").collect()
}

#[test]
fn every_name_is_there_with_its_version_and_nothing_else() {
    let scratch = Scratch::new("symbols");
    let shown = shown(&scratch.path.join("libopen-mx.so.0"));
    let bare = |name: &str| name.split('@').next().unwrap().to_owned();
    let of_kind = |wanted: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
        shown.iter().filter(|(kind, _)| wanted(kind)).map(|(_, name)| bare(name)).collect()
    };
    let functions: BTreeSet<String> =
        functions_of_mx().union(&functions_of_omx()).cloned().collect();
    assert_eq!(of_kind(&|kind| kind == "T"), functions);
    let variables = VARIABLES.map(str::to_owned).into_iter().collect();
    assert_eq!(of_kind(&|kind| "DR".contains(kind)), variables);
    assert_eq!(shown.len(), functions.len() + VARIABLES.len(), "{shown:?}");
    let versioned: BTreeSet<&str> =
        shown.iter().map(|(_, name)| &**name).filter(|name| name.contains('@')).collect();
    assert_eq!(versioned, VERSIONED.into_iter().collect());
}

#[test]
fn one_file_answers_to_the_three_names() {
    let scratch = Scratch::new("names");
    let file = scratch.path.join("libopen-mx.so.0");
    for name in ["libmyriexpress.so", "libopen-mx.so"] {
        let link = scratch.path.join(name);
        assert_eq!(link.read_link().unwrap(), Path::new("libopen-mx.so.0"));
        assert_eq!(link.canonicalize().unwrap(), file.canonicalize().unwrap());
    }
    let told = Command::new("readelf").arg("-d").arg(&file).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("Library soname: [libopen-mx.so.0]"), "{told}");
}

fn headers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// A program that takes the address of each function, and says what type each variable has.
fn source(includes: &str, functions: &BTreeSet<String>, variables: &[&str]) -> String {
    let taken: String = functions.iter().map(|name| format!("(any){name},\n")).collect();
    let kept: String = variables.iter().map(|name| format!("sum += {name} != 0;\n")).collect();
    format!(
        "{includes}\ntypedef void (*any)(void);\nstatic any all[] = {{\n{taken}}};\n\
         int main(void) {{ int sum = all[0] == 0; {kept} return !sum; }}\n"
    )
}

/// Old programs are compiled by the words of their time, and today's compilers are stricter.
#[test]
fn the_headers_declare_it_all_for_c_and_cplusplus_of_any_age() {
    let scratch = Scratch::new("headers");
    let mx = "#include <myriexpress.h>\n#include <mx_extensions.h>\n#include <mx_io.h>\n#include <mx_raw.h>\n\
        #include <mx_internals/mx__fops.h>\n#include <mx_internals/mx__driver_interface.h>";
    let of_mx = source(mx, &functions_of_mx(), &VARIABLES[..2]);
    let of_omx = source("#include <open-mx.h>", &functions_of_omx(), &VARIABLES[2..]);
    for (name, text) in [("of-mx", of_mx), ("of-omx", of_omx)] {
        for (compiler, suffix, standards) in
            [("cc", "c", ["c89", "c99", "gnu17"]), ("c++", "cc", ["c++98", "c++11", "c++17"])]
        {
            let file = scratch.write(&format!("{name}.{suffix}"), &text);
            for standard in standards {
                let program = scratch.path.join(format!("{name}-{standard}"));
                let mut compile = Command::new(compiler);
                compile.arg(format!("-std={standard}")).args(["-Wall", "-Wextra", "-Werror", "-o"]);
                compile.arg(&program).arg(&file).arg("-I").arg(headers());
                compile.arg("-L").arg(&scratch.path).arg("-lmyriexpress");
                assert!(compile.status().expect("a compiler").success(), "{name}, {standard}");
                Running::start(scratch.command(&program, None)).expect_success();
            }
        }
    }
}
