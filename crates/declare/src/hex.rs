//! Digests as text.

/// A digest of 32 bytes in hexadecimal.
pub fn hex(digest: [u8; 32]) -> String {
    blake3::Hash::from_bytes(digest).to_hex().to_string()
}
