//! A secret that askers and named endpoints share.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::str::FromStr;

use packhorse_proto::Secret;

use crate::error::Error;

const KEY_LEN: usize = 16;
/// A file with 32 digits has no more bytes than that.
const FILE_LEN_MAX: u64 = 256;
const HOW_TO: &str = "make one with `(umask 077; od -An -tx1 -N16 /dev/urandom | tr -d ' \\n' > secret)` and give both sides the same";

/// What both must know for the one to be found by the other ([`Builder::secret`](crate::Builder::secret)): 128 random bits, written as
/// 32 hexadecimal digits. Nothing is made from a word that people remember: whoever records one look-up could try all such words.
///
/// ```
/// let secret: packhorse::SharedSecret = "00112233445566778899aabbccddeeff".parse()?;
/// assert_eq!(format!("{secret:?}"), "SharedSecret(…)");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SharedSecret(Secret);

impl SharedSecret {
    /// From a file that only its owner can read or write.
    ///
    /// # Errors
    /// The file cannot be read, others may use it, or it holds something else; with what to do about it.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let complain = |text: String| Error::Setting(format!("{}: {text}", path.display()));
        let failed = |error: std::io::Error| complain(format!("{error}; {HOW_TO}"));
        // The file that is asked is the one that is read, whatever its name stands for by then.
        let file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode();
        if mode & 0o077 != 0 {
            return Err(complain(format!(
                "others than its owner may use this secret (mode {:o}); `chmod 600` it, and make a new one if others may have read it",
                mode & 0o777
            )));
        }
        let mut text = String::new();
        file.take(FILE_LEN_MAX).read_to_string(&mut text).map_err(failed)?;
        text.trim().parse().map_err(complain)
    }

    /// A keyed check of these bytes, for datagrams of an interface on top: only holders of the secret can make it, or tell that it is right.
    /// The bytes must begin with a word of their own, by which they are not taken for anything else that is checked so.
    pub fn check(self, bytes: &[u8]) -> u64 {
        packhorse_proto::lookup::check(self.0, bytes)
    }

    pub(crate) fn key(self) -> Secret {
        self.0
    }
}

impl From<[u8; KEY_LEN]> for SharedSecret {
    fn from(bytes: [u8; KEY_LEN]) -> Self {
        let (words, _) = bytes.as_chunks();
        Self(Secret([u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]))
    }
}

impl FromStr for SharedSecret {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("a secret is 32 hexadecimal digits and nothing else; {HOW_TO}");
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(wrong()) };
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let byte = |pair: &[u8; 2]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        let key: [u8; KEY_LEN] = bytes.and_then(|it| it.try_into().ok()).ok_or_else(wrong)?;
        if key == [0; KEY_LEN] {
            return Err(format!("32 zeros are what everybody knows; {HOW_TO}"));
        }
        Ok(key.into())
    }
}

/// Shows nothing: secrets do not belong in logs.
impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    const DIGITS: &str = "00112233445566778899aabbccddeeff";

    #[test]
    fn only_32_digits_that_are_not_all_zero_are_a_secret() {
        let bytes: [u8; 16] = std::array::from_fn(|at| at as u8 * 0x11);
        assert_eq!(DIGITS.parse(), Ok(SharedSecret::from(bytes)));
        assert_eq!(DIGITS.to_uppercase().parse(), Ok(SharedSecret::from(bytes)));
        for text in [
            "",
            "swordfish",
            &DIGITS[2..],
            &format!("{DIGITS}00"),
            &DIGITS.replace('a', "g"),
            &"0".repeat(32),
        ] {
            let why = text.parse::<SharedSecret>().unwrap_err();
            assert!(why.contains("/dev/urandom"), "{text}: {why}");
        }
    }

    #[test]
    fn a_shared_secret_that_others_can_read_is_none() {
        let path = std::env::temp_dir().join(format!("packhorse-secret-{}", std::process::id()));
        fs::write(&path, format!("{DIGITS}\n")).unwrap();
        for (mode, is_good) in
            [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)]
        {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            match SharedSecret::from_file(&path) {
                Ok(secret) => assert!(is_good && Ok(secret) == DIGITS.parse(), "{mode:o}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(
                        !is_good && text.contains("chmod 600") && !text.contains("0011"),
                        "{text}"
                    );
                }
            }
        }
        fs::remove_file(&path).unwrap();
        let error = SharedSecret::from_file(&path).unwrap_err().to_string();
        assert!(error.contains("od -An") && error.contains("packhorse-secret"), "{error}");
    }
}
