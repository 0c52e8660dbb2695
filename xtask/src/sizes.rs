//! Is every file short enough to be one idea, and every function short enough to be read at once?
//!
//! Counted are all lines of a file, and of a function those from `fn` to the brace that ends it; what a trait only declares has no such lines.
//! Tests count as all else does.

use std::fs;

use anyhow::{Result, bail};

use crate::purity::{code_of, rust_files};
use crate::steps::root;

/// The most lines of a file, and of a function.
const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 80;

/// Where there is code of ours.
const FOLDERS: [&str; 6] = ["crates", "faces", "examples", "tests", "fuzz", "xtask"];

/// Looks at all files.
pub(crate) fn check() -> Result<()> {
    let mut long = Vec::new();
    for folder in FOLDERS {
        for file in rust_files(&root().join(folder))? {
            let text = fs::read_to_string(&file)?;
            let name = file.strip_prefix(root())?.display().to_string();
            let line_count = text.lines().count();
            if line_count > FILE_LINES_MAX {
                long.push(format!("{name} has {line_count} lines"));
            }
            let functions = functions(&text).into_iter();
            for Function { line, name: function, len } in
                functions.filter(|it| it.len > FUNCTION_LINES_MAX)
            {
                long.push(format!("{name}:{line} {function} has {len} lines"));
            }
        }
    }
    if !long.is_empty() {
        bail!(
            "longer than {FILE_LINES_MAX} lines of a file or {FUNCTION_LINES_MAX} of a function:\n  {}",
            long.join("\n  ")
        );
    }
    Ok(())
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    line: usize,
    name: String,
    len: usize,
}

/// All functions of a file that have a body, those inside of others among them.
fn functions(text: &str) -> Vec<Function> {
    let code = code_of(&text.replace("'{'", "' '").replace("'}'", "' '"));
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].ends_with(is_of_word) {
            continue;
        }
        let name: String = code[at + 3..].chars().take_while(|&c| is_of_word(c)).collect();
        if let Some(end) = body_end(&code[at..]).filter(|_| !name.is_empty()) {
            let line = code[..at].matches('\n').count() + 1;
            let len = code[at..at + end].matches('\n').count() + 1;
            found.push(Function { line, name, len });
        }
    }
    found
}

/// Where the body of the function that the code begins with ends; `None` if it has none.
fn body_end(code: &str) -> Option<usize> {
    let (mut braces, mut others) = (0, 0);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => others += 1,
            ')' | ']' => others -= 1,
            ';' if braces == 0 && others == 0 => return None,
            '{' => braces += 1,
            '}' if braces == 1 => return Some(at),
            '}' => braces -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_ours_is_longer() {
        check().unwrap();
    }

    #[test]
    fn functions_are_measured_from_their_name_to_their_last_brace() {
        let text = "trait A {\n    fn declared(\n        it: [u8; 4],\n    );\n}\n\n/// fn in words {\nconst fn one() -> [u8; 2] { [0; 2] }\n\
                    fn outer(c: char) -> bool {\n    fn inner() {\n    }\n    c == '{' || \"}\".is_empty()\n}\nlet f: fn (u8) = g;\n";
        let found = functions(text);
        let found: Vec<_> = found.iter().map(|it| (it.line, &*it.name, it.len)).collect();
        assert_eq!(found, [(8, "one", 1), (9, "outer", 5), (10, "inner", 2)]);
    }
}
