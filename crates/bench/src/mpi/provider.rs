//! Where our libfabric provider is: where `cargo xtask install` puts it, or in the build tree.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// Its names: as it is installed, and as cargo calls it. libfabric loads either.
const NAMES: [&str; 2] = ["libpackhorse-fi.so", "libpackhorse_fi.so"];

/// Folders to look in, seen from the program's own.
const PLACES: [&str; 6] = [
    "../lib/libfabric",                  // `cargo xtask install`
    "../lib64/libfabric",                // distributions of the other half
    "../lib/x86_64-linux-gnu/libfabric", // Debian's
    ".",                                 // the build tree, or everything in one folder
    "deps",                              // where cargo leaves it if it builds nothing but tests
    "../release", // a program built for debugging beside a provider that is not
];

/// Of an ELF file, what says which machines it is for: magic, class and order of bytes, kind, processor.
const ELF_HEAD_LEN: usize = 20;

/// Our provider, as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// The object itself.
    pub object: PathBuf,
}

impl Provider {
    /// For `FI_PROVIDER_PATH`.
    pub fn folder(&self) -> &Path {
        self.object.parent().unwrap_or(Path::new("/"))
    }
}

/// Finds it: in the folder (or as the file) that was named, or around this program.
pub fn find(named: Option<&Path>) -> Result<Provider> {
    let program = std::env::current_exe().context("cannot tell where this program lies")?;
    let folders = match named {
        Some(path) => vec![path.to_owned()],
        None => around(program.parent().unwrap_or(Path::new("/"))),
    };
    let provider = find_in(&folders)?;
    if head_of(&provider.object)? != head_of(&program)?.map(as_object) {
        bail!(
            "{} is not for this kind of machine; build it here (cargo build --release -p packhorse-fi)",
            provider.object.display()
        );
    }
    Ok(provider)
}

fn around(program: &Path) -> Vec<PathBuf> {
    PLACES.iter().map(|place| program.join(place)).collect()
}

fn find_in(folders: &[PathBuf]) -> Result<Provider> {
    for folder in folders {
        let candidates = NAMES.iter().map(|name| folder.join(name));
        let is_file_itself = folder.is_file().then(|| folder.clone());
        if let Some(object) = candidates.chain(is_file_itself).find(|path| path.is_file()) {
            // Ranks start in other folders, perhaps.
            let object = object.canonicalize().context("the provider's folder")?;
            return Ok(Provider { object });
        }
    }
    let looked: Vec<String> =
        folders.iter().map(|folder| format!("  {}", folder.display())).collect();
    bail!(
        "the libfabric provider ({}) is not there. Looked in\n{}\n\
         Build it (cargo build --release -p packhorse-fi), or install everything (cargo xtask install --prefix ~/.local), \
         or say where it is (--provider FOLDER)",
        NAMES[0],
        looked.join("\n")
    )
}

fn head_of(path: &Path) -> Result<Option<[u8; ELF_HEAD_LEN]>> {
    let mut head = [0; ELF_HEAD_LEN];
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    match file.read_exact(&mut head) {
        Ok(()) => Ok(Some(head)),
        Err(_) => Ok(None), // shorter than any object
    }
}

/// A program's head, as that of a shared object made for the same machine.
fn as_object(mut head: [u8; ELF_HEAD_LEN]) -> [u8; ELF_HEAD_LEN] {
    const KIND_SHARED: u8 = 3;
    head[16] = KIND_SHARED; // programs are shared objects today, but need not be
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn it_is_found_installed_and_in_the_build_tree() {
        let base = std::env::temp_dir().join(format!("packhorse-provider-{}", std::process::id()));
        for (folder, name) in [("lib/libfabric", NAMES[0]), ("release", NAMES[1])] {
            let prefix = base.join(folder.replace('/', "-"));
            fs::create_dir_all(prefix.join("bin")).unwrap();
            fs::create_dir_all(prefix.join(folder)).unwrap();
            fs::write(prefix.join(folder).join(name), "").unwrap();
            let found = find_in(&around(&prefix.join("bin"))).unwrap();
            assert!(found.folder().ends_with(folder), "{found:?}");
            let named = find_in(std::slice::from_ref(&found.object)).unwrap();
            assert_eq!(named, found, "the file itself may be named, too");
        }
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn its_absence_says_where_it_was_sought_and_what_to_do() {
        let text = find(Some(Path::new("/nowhere"))).unwrap_err().to_string();
        for word in ["/nowhere", "cargo build", "cargo xtask install", "--provider"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn an_object_for_another_machine_is_refused() {
        let path = std::env::temp_dir().join(format!("packhorse-{}-fi.so", std::process::id()));
        fs::write(&path, "#!/bin/sh\necho not an object at all\n").unwrap();
        let text = find(Some(&path)).unwrap_err().to_string();
        fs::remove_file(path).unwrap();
        assert!(text.contains("not for this kind of machine"), "{text}");
    }
}
