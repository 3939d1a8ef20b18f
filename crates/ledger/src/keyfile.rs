//! Key files: one secret key, readable only by its owner.
//!
//! Three lines of text: a header with the version, the key in hexadecimal, and its public id, which doubles as a
//! checksum.

#![expect(clippy::disallowed_methods, reason = "the folder of a new key")]

use crate::disk::{Access, RealDisk, folder_of, replace};
use crate::platform;
use evertally::noise::SecretKey;
use evertally_declare::error::{Context, PipelineError, Result, usage};
use evertally_declare::problem::{SentencePart, sentence};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use zeroize::Zeroizing;

const HEADER: &str = "evertally key 1 - SECRET: whoever reads this can remove the noise of its releases";

/// The largest size of a key file, in bytes.
const MAX_KEY_FILE_BYTES: u64 = 4096;

/// The text of a key file.
pub(crate) fn text(key: &SecretKey) -> Zeroizing<String> {
    let mut hex = Zeroizing::new(String::with_capacity(64));
    for byte in key.expose_bytes() {
        use std::fmt::Write;
        write!(hex, "{byte:02x}").expect("a String accepts every write");
    }
    Zeroizing::new(format!("{HEADER}\n{}\nid {}\n", *hex, key.id()))
}

/// Writes a key to a new file that only its owner may read. The caller keeps the key's ledger elsewhere: no run
/// publishes with a key that has no ledger next to it.
///
/// # Errors
/// If the file exists, or cannot be written.
pub fn write_new(path: &Path, key: &SecretKey) -> Result<()> {
    platform::check()?;
    if path.exists() {
        return Err(key_exists_error(path));
    }
    std::fs::create_dir_all(folder_of(path))?;
    let text = text(key);
    replace(&RealDisk, path, &Access::Private, &mut text.as_bytes())
        .context(format_args!("cannot write the key {}", path.display()))
}

/// The error for an attempt to replace a key.
pub(crate) fn key_exists_error(path: &Path) -> PipelineError {
    usage(format!("{} already exists; a key is never replaced", path.display()))
}

/// Reads a key file.
///
/// # Errors
/// If it does not exist, others can read it, or it is not a key; and on a [system](platform) where it is not protected.
pub fn read(path: &Path) -> Result<SecretKey> {
    platform::check()?;
    let shown = path.display();
    // Only files are opened: a pipe without a writer would block forever.
    let meta = std::fs::metadata(path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => usage(sentence![
            format!("there is no key file {shown}; make one with "),
            SentencePart::NewKey(shown.to_string())
        ]),
        _ => unreadable(path, &e),
    })?;
    if meta.is_dir() {
        return Err(usage(format!("the key file {shown} is a directory; name the file in it that holds the key")));
    }
    if !meta.is_file() {
        return Err(usage(format!(
            "the key file {shown} is not a regular file; a key is kept in a regular file, with its ledger next to it"
        )));
    }
    let file = File::open(path).map_err(|e| unreadable(path, &e))?;
    check_mode(&file, path)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_KEY_FILE_BYTES as usize));
    (&file).take(MAX_KEY_FILE_BYTES).read_to_end(&mut bytes).map_err(|e| unreadable(path, &e))?;
    parse_bytes(&bytes).map_err(|problem| usage(format!("{shown} is not a usable key file: {problem}")))
}

fn unreadable(path: &Path, error: &std::io::Error) -> PipelineError {
    let shown = path.display();
    match error.kind() {
        ErrorKind::PermissionDenied => usage(format!(
            "you may not read the key file {shown}: only its owner may; run as that user, or make your own key"
        )),
        ErrorKind::NotADirectory => usage(format!("the key file {shown} cannot exist: part of its path is a file")),
        _ => usage(format!("the key file {shown} cannot be read: {error}")),
    }
}

/// A key that other users can read protects nothing.
#[cfg(unix)]
fn check_mode(file: &File, path: &Path) -> Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let shown = path.display();
    let meta = file.metadata()?;
    if meta.nlink() > 1 {
        // Each name would have its own ledger next to it.
        return Err(usage(format!(
            "the key file {shown} has several names (hard links); keep one and remove the others"
        )));
    }
    let mode = meta.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(usage(format!("the key file {shown} can be read by others (mode {:o}); run `chmod 600 {shown}`", mode & 0o777)))
}

#[cfg(not(unix))]
fn check_mode(_: &File, _: &Path) -> Result<()> {
    Ok(())
}

/// Parses the bytes of a key file.
pub(crate) fn parse_bytes(bytes: &[u8]) -> Result<SecretKey, String> {
    parse(std::str::from_utf8(bytes).map_err(|_| "it is not text")?)
}

fn parse(text: &str) -> Result<SecretKey, String> {
    let mut lines = text.lines();
    if !lines.next().is_some_and(|line| line.starts_with("evertally key 1")) {
        return Err("it does not start with `evertally key 1`".into());
    }
    let hex = lines.next().unwrap_or_default().trim();
    let mut bytes = Zeroizing::new([0u8; 32]);
    if hex.len() != 64 || !hex.bytes().all(|c| c.is_ascii_hexdigit()) {
        return Err("its second line is not 64 hexadecimal digits".into());
    }
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&hex[at..at + 2], 16).map_err(|e| e.to_string())?;
    }
    let key = SecretKey::from_bytes(*bytes).map_err(|e| e.to_string())?;
    let id = lines.next().unwrap_or_default().strip_prefix("id ").unwrap_or_default().trim();
    if id != key.id().to_string() {
        return Err("its id does not match the key; the file is damaged".into());
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::new_key;

    #[test]
    fn keys_round_trip_are_private_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.key");
        let key = new_key(&path).unwrap();
        assert_eq!(read(&path).unwrap().id(), key.id());
        assert!(new_key(&path).unwrap_err().to_string().contains("never replaced"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains("chmod 600"));
        }
    }

    #[test]
    fn damaged_key_files_are_refused() {
        let text = text(&SecretKey::generate().unwrap());
        let digit = text.find('\n').unwrap() + 5;
        let mut flipped = text.to_string();
        flipped.replace_range(digit..=digit, if &text[digit..=digit] == "0" { "1" } else { "0" });
        for bad in ["", "hello", HEADER, &flipped, &text[..digit]] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert!(parse_bytes(b"\xff").unwrap_err().contains("not text"));
    }

    #[test]
    fn what_is_no_file_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let error_text = |path: &Path| read(path).unwrap_err().to_string();
        assert!(error_text(&folder.path().join("none")).contains("key new"));
        assert!(error_text(folder.path()).contains("is a directory; name the file in it"));
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(error_text(&file.join("my.key")).contains("part of its path is a file"));
        #[cfg(unix)]
        assert!(error_text(Path::new("/dev/null")).contains("not a regular file"));
    }
}
