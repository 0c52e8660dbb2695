//! `cargo xtask install`: the program and all that belongs to it, under one prefix.
//!
//! ```text
//! PREFIX/bin/packhorse
//!        lib/libfabric/libpackhorse-fi.so        found from bin by `packhorse run`
//!        lib/libpackhorse-fm.so, lib/pkgconfig/packhorse-fm.pc, include/packhorse/
//!        lib/libopen-mx.so.0 and its other names, lib/pkgconfig/packhorse-mx.pc, include/myriexpress.h and the others of MX
//!        lib/libportals.so.4, lib/pkgconfig/portals.pc, include/portals4.h; lib/portals4/libpmi.so, include/portals4/pmi.h
//!        share/man/man1/packhorse.1
//!        share/bash-completion/completions/packhorse, zsh's and fish's likewise
//!        share/doc/packhorse/                    licences, README, CHANGELOG
//! ```
//!
//! Everything is where the systems look for it by themselves (Open MPI's `--with-mx=PREFIX` and `--with-portals4=PREFIX`, too), and the same list serves `--remove`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use crate::steps::{cargo, command, output, root, run as run_command};

/// Where to.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to put everything; ~/.local has its bin in PATH on many systems
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// Remove what was installed there
    #[arg(long)]
    remove: bool,
}

/// A file, and where it goes.
struct Item {
    /// Seen from the prefix.
    place: &'static str,
    from: From,
}

/// What a file is made of.
enum From {
    /// A product of the build, by its name among cargo's.
    Built(&'static str),
    /// What the program says when it is asked this.
    Said(&'static str),
    /// A file of the workspace.
    File(&'static str),
    /// The same, with the prefix and the version put in.
    Template(&'static str),
    /// The shared object of MX, and its other names: made by a script, for its symbols have versions.
    Mx,
    /// The same of Portals, of which only the interface is shown; and the PMI that its programs may need.
    Portals,
}

const ITEMS: [Item; 33] = [
    Item { place: "bin/packhorse", from: From::Built("packhorse") },
    // libfabric loads what ends in `fi.so`; cargo cannot write the hyphen that is the custom.
    Item { place: "lib/libfabric/libpackhorse-fi.so", from: From::Built("libpackhorse_fi.so") },
    Item { place: "lib/libpackhorse-fm.so", from: From::Built("libpackhorse_fm.so") },
    Item {
        place: "lib/pkgconfig/packhorse-fm.pc",
        from: From::Template("faces/fm/packhorse-fm.pc.in"),
    },
    Item { place: "include/packhorse/fm.h", from: From::File("faces/fm/include/packhorse/fm.h") },
    Item { place: "include/packhorse/fm1.h", from: From::File("faces/fm/include/packhorse/fm1.h") },
    Item { place: "lib/libopen-mx.so.0", from: From::Mx },
    Item { place: "lib/libopen-mx.so", from: From::Mx },
    Item { place: "lib/libmyriexpress.so", from: From::Mx },
    Item { place: "lib/libmx.so", from: From::Mx },
    Item {
        place: "lib/pkgconfig/packhorse-mx.pc",
        from: From::Template("faces/mx/packhorse-mx.pc.in"),
    },
    Item { place: "include/myriexpress.h", from: From::File("faces/mx/include/myriexpress.h") },
    Item { place: "include/mx_extensions.h", from: From::File("faces/mx/include/mx_extensions.h") },
    Item { place: "include/mx_io.h", from: From::File("faces/mx/include/mx_io.h") },
    Item { place: "include/mx_raw.h", from: From::File("faces/mx/include/mx_raw.h") },
    Item { place: "include/open-mx.h", from: From::File("faces/mx/include/open-mx.h") },
    Item {
        place: "include/mx_internals/mx__fops.h",
        from: From::File("faces/mx/include/mx_internals/mx__fops.h"),
    },
    Item {
        place: "include/mx_internals/mx__driver_interface.h",
        from: From::File("faces/mx/include/mx_internals/mx__driver_interface.h"),
    },
    Item { place: "lib/libportals.so.4", from: From::Portals },
    Item { place: "lib/libportals.so", from: From::Portals },
    // In a folder of its own: another PMI may be there, and is not to be hidden.
    Item { place: "lib/portals4/libpmi.so.0", from: From::Built("libpackhorse_pmi.so") },
    Item { place: "lib/portals4/libpmi.so", from: From::Built("libpackhorse_pmi.so") },
    Item {
        place: "lib/pkgconfig/portals.pc",
        from: From::Template("faces/portals4/portals.pc.in"),
    },
    Item { place: "include/portals4.h", from: From::File("faces/portals4/include/portals4.h") },
    Item { place: "include/portals4/pmi.h", from: From::File("faces/pmi/include/pmi.h") },
    Item { place: "share/man/man1/packhorse.1", from: From::Said("man") },
    Item {
        place: "share/bash-completion/completions/packhorse",
        from: From::Said("completions bash"),
    },
    Item { place: "share/zsh/site-functions/_packhorse", from: From::Said("completions zsh") },
    Item {
        place: "share/fish/vendor_completions.d/packhorse.fish",
        from: From::Said("completions fish"),
    },
    Item { place: "share/doc/packhorse/LICENSE-MIT", from: From::File("LICENSE-MIT") },
    Item { place: "share/doc/packhorse/LICENSE-APACHE", from: From::File("LICENSE-APACHE") },
    Item { place: "share/doc/packhorse/README.md", from: From::File("README.md") },
    Item { place: "share/doc/packhorse/CHANGELOG.md", from: From::File("CHANGELOG.md") },
];

/// Installs or removes.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.remove {
        remove_from(&args.prefix)?;
        return Ok(ExitCode::SUCCESS);
    }
    into(&args.prefix)?;
    println!("installed under {}", args.prefix.display());
    println!("next: {} check", args.prefix.join("bin/packhorse").display());
    Ok(ExitCode::SUCCESS)
}

/// Builds everything and puts it in place.
pub(crate) fn into(prefix: &Path) -> Result<()> {
    let packages = ["cli", "fi", "fm", "mx", "pmi", "portals4"];
    let packages = packages.map(|name| format!(" --package packhorse-{name}")).concat();
    run_command(cargo(&format!("build --release --quiet{packages}")))?;
    let built = target().join("release");
    link_mx(&built, &prefix.join("lib"))?;
    link("portals4", &built, &prefix.join("lib"))?;
    for item in &ITEMS {
        let to = prefix.join(item.place);
        let folder = to.parent().context("no place at all")?;
        fs::create_dir_all(folder).with_context(|| refused(folder))?;
        match item.from {
            From::Built(name) => replace(&built.join(name), &to)?,
            From::File(name) => replace(&root().join(name), &to)?,
            From::Mx | From::Portals => {} // all are there since `link`
            From::Template(name) => {
                let text = filled(&fs::read_to_string(root().join(name))?, prefix)?;
                fs::write(&to, text).with_context(|| refused(&to))?;
            }
            From::Said(words) => {
                let program = built.join("packhorse");
                let program = program.to_str().context("a path that is not text")?;
                let text = output(command(program, words.split_whitespace()))?;
                ensure!(!text.is_empty(), "`packhorse {words}` said nothing");
                fs::write(&to, text).with_context(|| refused(&to))?;
            }
        }
    }
    Ok(())
}

/// Makes the shared object of MX from its archive, under all its names.
pub(crate) fn link_mx(built: &Path, folder: &Path) -> Result<()> {
    link("mx", built, folder)
}

/// The same of Portals, with the PMI that its programs may need beside it.
pub(crate) fn link_portals(built: &Path, folder: &Path) -> Result<()> {
    link("portals4", built, folder)?;
    for name in ["libpmi.so.0", "libpmi.so"] {
        replace(&built.join("libpackhorse_pmi.so"), &folder.join(name))?;
    }
    Ok(())
}

/// Makes the shared object of a face from its archive, by the face's own script.
fn link(face: &str, built: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| refused(folder))?;
    let script = root().join(format!("faces/{face}/link.sh"));
    let mut link = std::process::Command::new("sh");
    link.arg(script).arg(built.join(format!("libpackhorse_{face}.a"))).arg(folder);
    run_command(link)
}

/// A template as it is for this prefix, which is named in full: whoever reads it stands anywhere.
fn filled(template: &str, prefix: &Path) -> Result<String> {
    let prefix = std::path::absolute(prefix)?;
    let prefix = prefix.to_str().context("a prefix that is not text")?;
    Ok(template.replace("@prefix@", prefix).replace("@version@", env!("CARGO_PKG_VERSION")))
}

/// A program that runs keeps the file it began with: the new one takes the name, not the place.
fn replace(from: &Path, to: &Path) -> Result<()> {
    let fresh = to.with_extension("new");
    fs::copy(from, &fresh).with_context(|| refused(&fresh))?;
    fs::rename(&fresh, to).with_context(|| refused(to))
}

fn refused(path: &Path) -> String {
    format!(
        "cannot write {}; choose a --prefix of your own (~/.local), or use sudo",
        path.display()
    )
}

/// Takes the files away, and the folders that nobody else has anything in.
fn remove_from(prefix: &Path) -> Result<()> {
    let items: Vec<&str> = ITEMS.iter().map(|item| item.place).collect();
    for place in items {
        let path = prefix.join(place);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
        let folders = path.ancestors().skip(1).take_while(|folder| *folder != prefix);
        for folder in folders {
            if fs::remove_dir(folder).is_err() {
                break; // not empty: not only ours
            }
        }
    }
    Ok(())
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from)
}

/// Into a fresh prefix and out again: everything is there, finds its parts, and nothing stays.
pub(crate) fn try_out() -> Result<()> {
    let prefix = target().join("prefix");
    if prefix.exists() {
        fs::remove_dir_all(&prefix)?;
    }
    into(&prefix)?;
    for item in &ITEMS {
        let len = fs::metadata(prefix.join(item.place)).with_context(|| item.place)?.len();
        ensure!(len > 0, "{} is empty", item.place);
    }
    let program = prefix.join("bin/packhorse");
    let program = program.to_str().context("a path that is not text")?;
    let exports = output(command(program, ["env"]))?;
    let folder = prefix.join("lib/libfabric").canonicalize()?;
    ensure!(
        exports.contains(&format!("FI_PROVIDER_PATH={}", folder.display())),
        "the installed program does not find the installed provider:\n{exports}"
    );
    remove_from(&prefix)?;
    let left = fs::read_dir(&prefix)?.count();
    ensure!(left == 0, "{left} things were left behind in {}", prefix.display());
    Ok(())
}
