//! Keys derived from the secret key.

use zeroize::{Zeroize, Zeroizing};

/// A field, preceded by its length.
pub(super) fn absorb(hasher: &mut blake3::Hasher, field: &[u8]) {
    hasher.update(&(field.len() as u64).to_le_bytes()).update(field);
}

/// BLAKE3 keyed hash of the fields, each preceded by its length in 8 bytes, little endian: an injective encoding.
///
/// The first field is the domain string. Domains start with "evertally 1 ", the version of this derivation.
pub(super) fn derive(key: &[u8; 32], fields: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut hasher = blake3::Hasher::new_keyed(key);
    fields.iter().for_each(|field| absorb(&mut hasher, field));
    let derived = Zeroizing::new(*hasher.finalize().as_bytes());
    hasher.zeroize(); // it contains the key
    derived
}
