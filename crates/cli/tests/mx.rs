//! `packhorse mx`: boards and endpoints as they are, and what is wrong with the settings.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Output};

use packhorse::Endpoint;

/// The number of index 0 (docs/mx.md), and an index that other tests leave alone.
const FIRST_NUMBER: u16 = 512;
const INDEX: u16 = 251;

fn mx(words: &[&str], settings: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
    command.arg("mx").args(words).env("PACKHORSE_MX_BOARDS", "lo");
    command.env_remove("PACKHORSE_MX_HOSTS").env_remove("PACKHORSE_SECRET_FILE");
    command.envs(settings.iter().copied()).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn boards_and_whoever_has_an_index_are_listed() {
    let table = std::env::temp_dir().join(format!("packhorse-mx-info-{}", std::process::id()));
    std::fs::write(&table, "far 0 02:00:00:00:99:01 10.97.0.1\n").unwrap();
    let number = FIRST_NUMBER + INDEX;
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let _taken = Endpoint::builder().bind(local).named(number).open().expect("nobody has it");
    let output = mx(&["info"], &[("PACKHORSE_MX_HOSTS", table.to_str().unwrap())]);
    std::fs::remove_file(&table).unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    for part in [
        "0  localhost  00:00:00:00:00:00  127.0.0.1/8  lo",
        "endpoint 251: the number is taken by something that is no endpoint of MX",
        "far:0  02:00:00:00:99:01  10.97.0.1",
        "no board has a network with broadcast",
        "LD_LIBRARY_PATH",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let output = mx(&["counters"], &[]);
    assert!(output.status.success() && text(&output.stdout).contains("endpoint 251"));
}

#[test]
fn what_makes_no_sense_is_explained() {
    let none = "/nowhere/at/all";
    for (words, setting, said) in [
        (&["info"][..], ("PACKHORSE_MX_BOARDS", "eth77"), "there are"),
        (&["info"], ("PACKHORSE_MX_HOSTS", none), "PACKHORSE_MX_HOSTS"),
        (&["info"], ("PACKHORSE_SECRET_FILE", none), "PACKHORSE_SECRET_FILE"),
        (&["counters", "--board", "7"], ("PACKHORSE_MX_BOARDS", "lo"), "there are 1, from 0"),
        (&["info", "--seconds", "long"], ("PACKHORSE_MX_BOARDS", "lo"), "--seconds"),
    ] {
        let output = mx(words, &[setting]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?} {setting:?}: {error}");
        assert!(error.contains(said), "{words:?} {setting:?}: {error}");
    }
}
