//! The ciphers that noise can be drawn from.

use serde::{Deserialize, Serialize};

/// A keystream generator: every one gives noise of its own.
///
/// ```
/// use evertally::vector::Cipher;
/// assert_eq!(Cipher::default(), Cipher::Aes128Ctr);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cipher {
    /// AES-128 in counter mode: the fastest where the processor has instructions for it.
    #[default]
    #[serde(rename = "aes128-ctr")]
    Aes128Ctr,
    /// ChaCha with 8 rounds: the fastest in software.
    #[serde(rename = "chacha8")]
    ChaCha8,
    /// ChaCha with 20 rounds, as in the counting lane.
    #[serde(rename = "chacha20")]
    ChaCha20,
}
