//! Do the arrows between the rooms of `proto` point downward?
//!
//! The folders of `crates/proto/src` are rooms, one above the other (ARCHITECTURE.md). A file may name what stands in its own room and in
//! those below it, and nobody below `endpoint` knows the `Endpoint`. Files of one room may name each other, but not in a circle. What `lib.rs` shows to
//! other crates may be named by its short path within the crate, too: that counts as naming the file it is from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use crate::purity::{code_of, rust_files};
use crate::steps::root;

/// The rooms, lowest first. Those of one line do not know each other.
const FLOORS: &[&[&str]] = &[
    &["base"],
    &["seal"],
    &["wire"],
    &["lookup"],
    &["delivery"],
    &["peers"],
    &["matching"],
    &["bulk"],
    &["messages", "onesided"],
    &["streams"],
    &["endpoint"],
];

/// The room that knows the whole.
const TOP: &str = "endpoint";
/// What only that room names.
const WHOLE: &str = "Endpoint";

/// What was found, as lines for a reader.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    /// Files that name a room above their own, or the whole.
    upward: BTreeSet<String>,
    /// Files that name each other.
    circles: Vec<Vec<String>>,
}

/// Checks the rooms of `proto`.
pub(crate) fn check() -> Result<()> {
    let folder = root().join("crates/proto/src");
    let mut files = BTreeMap::new();
    for file in rust_files(&folder)? {
        let short = file.strip_prefix(&folder)?.with_extension("");
        let name = short.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "::");
        if !is_of_tests(&short) && name != "lib" {
            files.insert(name, without_tests(&code_of(&fs::read_to_string(&file)?)));
        }
    }
    let shown = shown(&code_of(&fs::read_to_string(folder.join("lib.rs"))?));
    let findings = find(&files, &shown)?;
    let Findings { upward, circles } = &findings;
    if findings != Findings::default() {
        let upward_lines: Vec<_> = upward.iter().map(|line| format!("  {line}")).collect();
        let circle_lines: Vec<_> =
            circles.iter().map(|it| format!("  circle: {}", it.join(", "))).collect();
        bail!(
            "crates/proto/src: {} arrows upward, {} circles (FLOORS in xtask/src/rooms.rs):\n{}\n{}",
            upward.len(),
            circles.len(),
            upward_lines.join("\n"),
            circle_lines.join("\n"),
        );
    }
    Ok(())
}

/// Files with nothing but tests.
pub(crate) fn is_of_tests(file: &Path) -> bool {
    file.iter().any(|part| part == "tests" || part == "wraps")
}

/// The code before its tests, which stand last.
pub(crate) fn without_tests(code: &str) -> String {
    match code.find("#[cfg(test)]\nmod tests {") {
        Some(at) => code[..at].to_owned(),
        None => code.to_owned(),
    }
}

/// What `lib.rs` shows to other crates: each name, and the path that it stands for.
fn shown(lib: &str) -> BTreeMap<String, String> {
    let uses = lib.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    uses.flat_map(items_of)
        .filter_map(|path| Some((path.rsplit("::").next()?.to_owned(), path.clone())))
        .collect()
}

/// The paths that a `use` names: one, or as many as stand in braces.
fn items_of(used: &str) -> Vec<String> {
    let without_blanks: String = used.split_whitespace().collect();
    let Some((head, list)) = without_blanks.split_once('{') else { return vec![without_blanks] };
    let (mut items, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                items.push(&list[from..at]);
                from = at + 1;
            }
            '}' => depth -= 1,
            _ => {}
        }
        if c == '}' && depth < 0 {
            break;
        }
    }
    let paths = items.into_iter().filter(|item| !item.is_empty());
    paths.flat_map(|item| items_of(&format!("{head}{item}"))).collect()
}

/// Looks through all files: their names as paths of modules, and their code.
fn find(files: &BTreeMap<String, String>, shown: &BTreeMap<String, String>) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, code) in files {
        let room = room_of(name);
        let Some(floor) = floor_of(room) else { bail!("{room} is no room: see FLOORS") };
        if room != TOP && words(code).any(|word| word == WHOLE) {
            findings.upward.insert(format!("{name} names {WHOLE}"));
        }
        for target in targets(code) {
            let target = shown.get(room_of(&target)).cloned().unwrap_or(target);
            let Some(to) = floor_of(room_of(&target)) else { continue };
            if to > floor || to == floor && room_of(&target) != room {
                findings.upward.insert(format!("{name} -> {}", room_of(&target)));
            }
            if let Some((module, _)) = module_of(files, &target).filter(|it| it.0 != name) {
                arrows.entry(name).or_default().insert(module);
            }
        }
    }
    findings.circles = circles(&arrows);
    Ok(findings)
}

/// The first word of a path.
fn room_of(path: &str) -> &str {
    path.split("::").next().unwrap_or(path)
}

fn floor_of(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// The paths behind `crate::`; of names in braces, one for each.
pub(crate) fn targets(code: &str) -> Vec<String> {
    let is_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let behind = code.split("crate::").skip(1);
    let paths = behind.flat_map(|rest| {
        let head = rest.split(|c| !is_of_path(c)).next().unwrap_or("");
        match rest[head.len()..].starts_with('{') {
            true => items_of(rest.split(';').next().unwrap_or(rest)),
            false => vec![head.trim_end_matches(':').to_owned()],
        }
    });
    paths.collect()
}

/// The file that a path leads to: the longest module it begins with.
fn module_of<'a>(files: &'a BTreeMap<String, String>, path: &str) -> Option<(&'a str, &'a String)> {
    let mut path = path;
    loop {
        if let Some((name, code)) = files.get_key_value(path) {
            return Some((name, code));
        }
        path = path.rsplit_once("::")?.0;
    }
}

/// Sets of modules each of which leads to all others of its set.
fn circles(arrows: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<Vec<String>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|&from| (from, reached(arrows, from))).collect();
    let leads = |from: &str, to: &str| reach.get(from).is_some_and(|it| it.contains(to));
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for &from in arrows.keys() {
        let circle: Vec<String> =
            reach[from].iter().filter(|&&to| leads(to, from)).map(|&to| to.to_owned()).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

fn reached<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = arrows.get(from).into_iter().flatten().copied().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(arrows.get(next).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Findings {
        let files = files.iter().map(|&(name, code)| (name.to_owned(), code.to_owned()));
        let shown = [("Whole".to_owned(), "messages::take::Whole".to_owned())];
        find(&files.collect(), &shown.into()).expect("rooms")
    }

    #[test]
    fn what_the_crate_shows_is_of_the_file_it_is_from() {
        let lib = "pub use base::api::{\n    A, B,\n};\npub use onesided::portals;\npub use wire::{C, read::{D, E}};";
        let shown = shown(lib);
        let paths: Vec<_> = shown.values().map(String::as_str).collect();
        let wanted = ["base::api::A", "base::api::B", "wire::C", "wire::read::D", "wire::read::E"];
        assert_eq!(paths, [&wanted[..], &["onesided::portals"]].concat());
        let findings = found(&[
            ("peers::rows", "use crate::{A, wire, Whole};"),
            ("endpoint::input", "use crate::Whole;"),
        ]);
        assert_eq!(findings.upward, ["peers::rows -> messages".to_owned()].into());
    }

    #[test]
    fn the_protocol_is_in_order() {
        check().unwrap();
    }

    #[test]
    fn arrows_upward_and_names_of_the_whole_are_found() {
        let findings = found(&[
            ("peers::rows", "use crate::base::types::A;\nuse crate::messages::post::B;"),
            ("messages::post", "use crate::onesided::serve::C;\nuse crate::messages::turns::D;"),
            ("bulk::large", "impl Endpoint { fn endpoint() {} }"),
            ("endpoint::input", "use crate::bulk::large::E;\nimpl Endpoint {}"),
        ]);
        let wanted =
            ["bulk::large names Endpoint", "messages::post -> onesided", "peers::rows -> messages"];
        assert_eq!(findings.upward, wanted.map(str::to_owned).into());
        assert!(findings.circles.is_empty());
    }

    #[test]
    fn circles_of_files_are_found() {
        let findings = found(&[
            ("peers::rows", "use crate::peers::pairs::{A, B};"),
            ("peers::pairs", "fn f() -> crate::peers::strangers::C {}"),
            ("peers::strangers", "use crate::peers::rows::D;"),
            ("peers::choice", "use crate::peers::rows::D;"),
        ]);
        let circle = ["peers::pairs", "peers::rows", "peers::strangers"].map(str::to_owned);
        assert_eq!(findings.circles, [circle.to_vec()]);
    }

    #[test]
    fn tests_may_name_anything() {
        let code = "use crate::base::A;\n#[cfg(test)]\nmod tests {\n    use crate::endpoint::B;\n}";
        assert_eq!(targets(&without_tests(code)), ["base::A"]);
    }
}
