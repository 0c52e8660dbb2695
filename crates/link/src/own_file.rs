//! Files that are written because the environment says so, perhaps where everybody may write (`/tmp`) and with all rights.
//!
//! No link that somebody laid there is followed, nobody else's file is written to, and nobody else reads what is in ours: frames have payload, and
//! the addresses by which peers are reached.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::sys::shm::own_uid;

/// Its owner reads and writes it.
const MODE: u32 = 0o600;

/// A new file, or an old one of this user's that is written over.
///
/// # Errors
/// What the system says; `AlreadyExists` where something is there that is no ordinary file of this user's under this name alone.
pub fn create_own(path: &Path) -> io::Result<File> {
    let new = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
    match new {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        new => return new,
    }
    // Not blocking: it may be a pipe that nobody reads.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let strange = || {
        let why = "something is there already that is no ordinary file of yours; name another place, or remove it";
        io::Error::new(io::ErrorKind::AlreadyExists, why)
    };
    let file =
        OpenOptions::new().write(true).custom_flags(flags).open(path).map_err(|_| strange())?;
    let about = file.metadata()?;
    if !about.is_file() || about.uid() != own_uid() || about.nlink() != 1 {
        return Err(strange());
    }
    file.set_permissions(Permissions::from_mode(MODE))?;
    file.set_len(0)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_written_where_somebody_else_leads() {
        let folder = std::env::temp_dir().join(format!("packhorse-own-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (treasure, path) = (folder.join("treasure"), folder.join("capture"));
        std::fs::write(&treasure, "gold").unwrap();
        symlink(&treasure, &path).unwrap();
        assert_eq!(create_own(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        std::fs::remove_file(&path).unwrap();
        std::fs::hard_link(&treasure, &path).unwrap();
        assert!(create_own(&path).unwrap_err().to_string().contains("name another place"));
        assert_eq!(std::fs::read_to_string(&treasure).unwrap(), "gold");
        assert!(create_own(Path::new("/dev/null")).is_err() && create_own(&folder).is_err());
        std::fs::remove_file(&path).unwrap();
        for words in ["first and long", "second"] {
            create_own(&path).unwrap().write_all(words.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), words);
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, MODE);
            std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
