//! Key files: one secret key, readable by its owner only.
//!
//! Three lines of text: a header with the version, the key in hexadecimal, and its public id, which doubles as a
//! checksum.

use crate::error::{Context, Error, Result, usage};
use crate::problem::{Piece, sentence};
use evertally::noise::SecretKey;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use zeroize::Zeroizing;

const HEADER: &str = "evertally key 1 - SECRET: whoever reads this can remove the noise of its releases";

/// Writes a key to a new file with mode 0600.
pub fn write(path: &Path, key: &SecretKey) -> Result<()> {
    let mut hex = Zeroizing::new(String::with_capacity(64));
    for byte in key.expose_bytes() {
        use std::fmt::Write;
        write!(hex, "{byte:02x}").expect("a String accepts every write");
    }
    let text = Zeroizing::new(format!("{HEADER}\n{}\nid {}\n", *hex, key.id()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => usage(format!("{} exists already; a key is never replaced", path.display())),
        _ => Error::from(e).context(format_args!("cannot create the key file {}", path.display())),
    })?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if let Err(error) = written {
        let _ = std::fs::remove_file(path); // half a key is of no use
        return Err(error).context(format_args!("cannot write the key file {}", path.display()));
    }
    Ok(())
}

/// Reads a key file.
pub fn read(path: &Path) -> Result<SecretKey> {
    let shown = path.display();
    let file = File::open(path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => {
            usage(sentence![format!("there is no key file {shown}; make one with "), Piece::NewKey(shown.to_string())])
        }
        _ => usage(format!("the key file {shown} cannot be read: {e}")),
    })?;
    check_mode(&file, path)?;
    let mut text = Zeroizing::new(String::new());
    let whole = (&file).take(4096).read_to_string(&mut text);
    whole.map_err(|e| usage(format!("the key file {shown} cannot be read: {e}")))?;
    parse(&text).map_err(|problem| usage(format!("{shown} is not a usable key file: {problem}")))
}

/// A key that others can read protects nothing.
#[cfg(unix)]
fn check_mode(file: &File, path: &Path) -> Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let shown = path.display();
    let meta = file.metadata()?;
    if meta.nlink() > 1 {
        // Each name would have a ledger of its own beside it.
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
        return Err("its id does not fit the key; the file is damaged".into());
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_are_private_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.key");
        let key = SecretKey::generate().unwrap();
        write(&path, &key).unwrap();
        assert_eq!(read(&path).unwrap().id(), key.id());
        assert!(write(&path, &key).unwrap_err().to_string().contains("never replaced"));
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.key");
        write(&path, &SecretKey::generate().unwrap()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let digit = text.find('\n').unwrap() + 5;
        let mut flipped = text.clone();
        flipped.replace_range(digit..=digit, if &text[digit..=digit] == "0" { "1" } else { "0" });
        for bad in ["", "hello", HEADER, &flipped, &text[..digit]] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert!(read(&folder.path().join("none")).unwrap_err().to_string().contains("key new"));
    }
}
