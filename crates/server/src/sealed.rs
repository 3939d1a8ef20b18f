//! A key under a passphrase: Argon2id, then XChaCha20-Poly1305.
//!
//! The file has four lines of text: a header with the version, the parameters of Argon2id with its salt, the nonce, and
//! the sealed key. The parameters must be within bounds, so that a file can neither occupy a reader for hours nor
//! weaken the stretching of the passphrase. They are authenticated with the key.

#![expect(clippy::disallowed_methods, reason = "the folder of a new key")]

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use evertally::noise::SecretKey;
use evertally_declare::error::{Context, Result, failure, usage};
use evertally_ledger::disk::{Access, RealDisk, replace};
use evertally_ledger::platform;
use std::io::Cursor;
use std::path::Path;
use zeroize::Zeroizing;

const HEADER: &str = "evertally sealed key 1";

/// Memory in KiB, passes, lanes.
const COST: (u32, u32, u32) = (64 << 10, 3, 1);
/// The bounds of these in a file.
const MAX_COST: (u32, u32, u32) = (1 << 20, 16, 4);
const MIN_COST: (u32, u32, u32) = (16 << 10, 2, 1);

/// The minimum length of a passphrase in bytes: shorter ones can be guessed.
const MIN_PASSPHRASE_BYTES: usize = 12;

/// The passphrase in a one-line file, such as a credential of the service manager.
fn passphrase_of(path: &Path) -> Result<Zeroizing<String>> {
    let text = Zeroizing::new(
        // A name without a file may be the passphrase: it is not shown.
        std::fs::read_to_string(path).context("the file that `passphrase` names cannot be read")?,
    );
    let line = Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned());
    if line.len() < MIN_PASSPHRASE_BYTES {
        return Err(usage(format!(
            "the passphrase in {} is shorter than {MIN_PASSPHRASE_BYTES} bytes",
            path.display()
        )));
    }
    Ok(line)
}

/// Seals a key into a new file.
///
/// # Errors
/// If the file exists, or cannot be written, or the passphrase cannot be read or is too short.
pub fn write(path: &Path, key: &SecretKey, passphrase: &Path) -> Result<()> {
    platform::check()?;
    if path.exists() {
        return Err(usage(format!("{} exists already; a key is never replaced", path.display())));
    }
    let text = sealed(key, &passphrase_of(passphrase)?, COST)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    replace(&RealDisk, path, &Access::Private, &mut Cursor::new(text))
        .context(format_args!("cannot write the key {}", path.display()))
}

/// Opens a sealed key.
///
/// # Errors
/// If it cannot be read, the passphrase is wrong, the file was changed, or on a [system](platform) where keys are not
/// protected.
pub fn read(path: &Path, passphrase: &Path) -> Result<SecretKey> {
    platform::check()?;
    let text = std::fs::read_to_string(path).context(format_args!("cannot read the key {}", path.display()))?;
    let shown = path.display();
    opened(&text, &passphrase_of(passphrase)?).map_err(|why| usage(format!("the key {shown} cannot be opened: {why}")))
}

fn cipher(passphrase: &str, salt: &[u8], (memory, passes, lanes): (u32, u32, u32)) -> Result<XChaCha20Poly1305> {
    let params = Params::new(memory, passes, lanes, Some(32)).map_err(failure)?;
    let mut stretched = Zeroizing::new([0; 32]);
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon.hash_password_into(passphrase.as_bytes(), salt, stretched.as_mut_slice()).map_err(failure)?;
    Ok(XChaCha20Poly1305::new(&Key::from(*stretched)))
}

fn sealed(key: &SecretKey, passphrase: &str, cost: (u32, u32, u32)) -> Result<String> {
    let (mut salt, mut nonce) = ([0; 16], [0; 24]);
    getrandom::fill(&mut salt).map_err(failure)?;
    getrandom::fill(&mut nonce).map_err(failure)?;
    let head = format!("{HEADER}\nargon2id {} {} {} {}", cost.0, cost.1, cost.2, STANDARD_NO_PAD.encode(salt));
    let payload = Payload { msg: key.expose_bytes(), aad: head.as_bytes() };
    let sealed = cipher(passphrase, &salt, cost)?
        .encrypt(&XNonce::from(nonce), payload)
        .map_err(|_| failure("sealing failed"))?;
    Ok(format!("{head}\n{}\n{}\n", STANDARD_NO_PAD.encode(nonce), STANDARD_NO_PAD.encode(sealed)))
}

fn opened(text: &str, passphrase: &str) -> std::result::Result<SecretKey, &'static str> {
    const NONE: &str = "this is not a sealed key of this version; omit `passphrase` if the key is not sealed, or seal \
                        it with `evertally key seal`";
    let lines: Vec<&str> = text.lines().collect();
    let [header, stretching, nonce, sealed] = lines.as_slice() else { return Err(NONE) };
    let words: Vec<&str> = stretching.split(' ').collect();
    let (HEADER, ["argon2id", memory, passes, lanes, salt]) = (*header, words.as_slice()) else { return Err(NONE) };
    let number = |text: &str| text.parse::<u32>().map_err(|_| NONE);
    let cost = (number(memory)?, number(passes)?, number(lanes)?);
    let is_within = |cost: u32, least: u32, most: u32| (least..=most).contains(&cost);
    if !(is_within(cost.0, MIN_COST.0, MAX_COST.0)
        && is_within(cost.1, MIN_COST.1, MAX_COST.1)
        && is_within(cost.2, MIN_COST.2, MAX_COST.2))
    {
        return Err("the parameters that stretch the passphrase are out of bounds");
    }
    let decode = |text: &str| STANDARD_NO_PAD.decode(text).map_err(|_| NONE);
    let nonce: [u8; 24] = decode(nonce)?.try_into().map_err(|_| NONE)?;
    let cipher = cipher(passphrase, &decode(salt)?, cost).map_err(|_| NONE)?;
    let head = format!("{header}\n{stretching}");
    let payload = Payload { msg: &decode(sealed)?, aad: head.as_bytes() };
    let bytes = cipher.decrypt(&XNonce::from(nonce), payload).map(Zeroizing::new);
    let bytes = bytes.map_err(|_| "wrong passphrase, or the file was changed")?;
    let bytes: [u8; 32] = bytes.as_slice().try_into().map_err(|_| NONE)?;
    SecretKey::from_bytes(bytes).map_err(|_| NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_opened_by_its_passphrase_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("right"), "correct horse battery\n").unwrap();
        std::fs::write(at("wrong"), "correct horse batterz\n").unwrap();
        std::fs::write(at("short"), "horse\n").unwrap();
        let key = SecretKey::generate().unwrap();
        assert!(write(&at("key"), &key, &at("short")).unwrap_err().to_string().contains("shorter"));
        write(&at("key"), &key, &at("right")).unwrap();
        assert!(write(&at("key"), &key, &at("right")).is_err(), "never replaced");
        assert_eq!(read(&at("key"), &at("right")).unwrap().id(), key.id());
        assert!(read(&at("key"), &at("wrong")).unwrap_err().to_string().contains("wrong passphrase"));
        let hidden = read(&at("key"), Path::new("correct horse battery")).unwrap_err().to_string();
        assert!(hidden.contains("`passphrase`") && !hidden.contains("horse"), "{hidden}");
        let text = std::fs::read_to_string(at("key")).unwrap();
        for (from, to) in
            [("65536 3 1", "16384 2 1"), ("65536 3 1", "4294967295 3 1"), ("65536 3 1", "1 1 1"), ("key 1", "key 2")]
        {
            std::fs::write(at("changed"), text.replace(from, to)).unwrap();
            assert!(read(&at("changed"), &at("right")).is_err(), "{to}");
        }
        for cut in [0, 10, text.len() - 3] {
            std::fs::write(at("cut"), &text[..cut]).unwrap();
            assert!(read(&at("cut"), &at("right")).is_err(), "{cut}");
        }
    }
}
