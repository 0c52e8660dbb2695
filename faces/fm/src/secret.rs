//! The secret of a job, and what is sealed with it.
//!
//! An address is a capability, so addresses travel sealed: XChaCha20-Poly1305 under the secret, each under a random nonce (24 bytes, long enough to be
//! drawn by lot). What a seal is for stands in its label and context; it opens nowhere else.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;

use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

const NONCE_LEN: usize = 24;
const TAG_LEN: usize = 16;
/// What a seal adds to what is sealed.
pub(crate) const SEAL_LEN: usize = NONCE_LEN + TAG_LEN;
const KEY_LEN: usize = 32;
/// A file with 64 digits has no more bytes than that.
const FILE_LEN_MAX: u64 = 256;

const HOW_TO: &str = "make one with `(umask 077; od -An -tx1 -N32 /dev/urandom | tr -d ' \\n' > secret)`, give every node the same, and set FM_SECRET to its path";

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// What all nodes of a job know and nobody else.
pub(crate) struct Secret(XChaCha20Poly1305);

impl Secret {
    /// From the file that `FM_SECRET` names.
    pub(crate) fn from_environment() -> Result<Self, String> {
        match std::env::var("FM_SECRET") {
            Ok(path) => Self::from_file(&path),
            Err(_) => Err(format!(
                "FM_SECRET is not set: it names a file with 64 hexadecimal digits that only you can read; {HOW_TO}"
            )),
        }
    }

    /// From a file that only its owner can read.
    pub(crate) fn from_file(path: &str) -> Result<Self, String> {
        let failed = |error: io::Error| format!("FM_SECRET, {path}: {error}; {HOW_TO}");
        let file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode();
        if mode & 0o077 != 0 {
            return Err(format!(
                "FM_SECRET, {path}: others than its owner may use it (mode {:o}); `chmod 600 {path}`, and make a new one if others may have read it",
                mode & 0o777
            ));
        }
        let mut text = String::new();
        file.take(FILE_LEN_MAX).read_to_string(&mut text).map_err(failed)?;
        let key = key_of(text.trim()).ok_or_else(|| {
            format!(
                "FM_SECRET, {path}: it must hold 64 hexadecimal digits and nothing else; {HOW_TO}"
            )
        })?;
        Ok(Self::new(key))
    }

    pub(crate) fn new(key: [u8; KEY_LEN]) -> Self {
        Self(XChaCha20Poly1305::new(&key.into()))
    }

    /// Seals a text for this purpose.
    pub(crate) fn seal(&self, purpose: &[u8], text: &[u8]) -> io::Result<Vec<u8>> {
        let nonce: [u8; NONCE_LEN] = random()?;
        let sealed = self.0.encrypt(&XNonce::from(nonce), Payload { msg: text, aad: purpose });
        let sealed = sealed.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok([&nonce[..], &sealed].concat())
    }

    /// What was sealed for this purpose; `None` if it was not, or not with this secret.
    pub(crate) fn open(&self, purpose: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        self.0.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: purpose }).ok()
    }
}

fn key_of(text: &str) -> Option<[u8; KEY_LEN]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * KEY_LEN {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut key = [0; KEY_LEN];
    for (to, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *to = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_seal_opens_with_its_secret_for_its_purpose_only() {
        let (ours, theirs) = (Secret::new([1; 32]), Secret::new([2; 32]));
        let sealed = ours.seal(b"call", b"an address").unwrap();
        assert!(!sealed.windows(7).any(|bytes| bytes == b"address"));
        assert_eq!(sealed.len(), 10 + SEAL_LEN);
        assert_eq!(ours.open(b"call", &sealed).as_deref(), Some(&b"an address"[..]));
        assert_eq!(ours.open(b"answer", &sealed), None);
        assert_eq!(theirs.open(b"call", &sealed), None);
        for at in 0..sealed.len() {
            let mut other = sealed.clone();
            other[at] ^= 1;
            assert_eq!(ours.open(b"call", &other), None, "byte {at}");
            assert_eq!(ours.open(b"call", &sealed[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn a_secret_that_others_can_read_is_none() {
        let path = std::env::temp_dir().join(format!("packhorse-fm-secret-{}", std::process::id()));
        let error_of = |text: &str, mode: u32| {
            let _ = std::fs::remove_file(&path); // the one before
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Secret::from_file(path.to_str().unwrap()).err()
        };
        let good = "0123456789abcdefABCDEF0123456789".repeat(2) + "\n";
        assert_eq!(error_of(&good, 0o600), None);
        assert_eq!(error_of(&good, 0o400), None);
        assert!(error_of(&good, 0o640).unwrap().contains("mode 640"));
        for text in ["", "0123", &good.replace('a', "g"), &format!("{good}00")] {
            assert!(error_of(text, 0o600).unwrap().contains("64 hexadecimal digits"), "{text}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(error_of_missing().contains("umask 077"));
    }

    fn error_of_missing() -> String {
        Secret::from_file("/nowhere/secret").err().unwrap()
    }
}
