//! Names of ciphers.

use std::fmt;
use std::str::FromStr;

/// The cipher that derives keystreams from a key. Part of a plan: another cipher gives different noise under the same
/// key.
///
/// ```
/// use evertally_kernels::Cipher;
/// assert_eq!(Cipher::default().name(), "aes-128-ctr");
/// assert_eq!("chacha20".parse(), Ok(Cipher::ChaCha20));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cipher {
    /// AES-128 (FIPS 197) in counter mode: the fastest if the processor has instructions for it.
    ///
    /// Blocks of 128 bits under one key are all different, while ideal random blocks would not be: from N blocks the
    /// two can be distinguished with an advantage of at most N² / 2¹²⁹, which is 2⁻³³ after 2⁴⁸ blocks (2⁵⁰ words).
    #[default]
    Aes128Ctr,
    /// ChaCha with 8 rounds: half as fast, but needs no special instructions. The margin is small: the best known
    /// attacks reach 7 rounds, at a cost far out of reach.
    ChaCha8,
    /// ChaCha with 20 rounds, as in RFC 8439: the widest margin.
    ChaCha20,
}

impl Cipher {
    /// All ciphers.
    pub const ALL: [Cipher; 3] = [Cipher::Aes128Ctr, Cipher::ChaCha8, Cipher::ChaCha20];

    /// `aes-128-ctr`, `chacha8` or `chacha20`.
    pub fn name(self) -> &'static str {
        match self {
            Cipher::Aes128Ctr => "aes-128-ctr",
            Cipher::ChaCha8 => "chacha8",
            Cipher::ChaCha20 => "chacha20",
        }
    }

    /// Number of 32-bit words in a block.
    pub(super) fn words_per_block(self) -> usize {
        match self {
            Cipher::Aes128Ctr => 4,
            Cipher::ChaCha8 | Cipher::ChaCha20 => 16,
        }
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Cipher {
    type Err = UnknownCipher;

    fn from_str(name: &str) -> Result<Self, UnknownCipher> {
        Self::ALL.into_iter().find(|cipher| cipher.name() == name).ok_or_else(|| UnknownCipher(name.to_owned()))
    }
}

/// No cipher has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCipher(String);

impl fmt::Display for UnknownCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown cipher {:?}: use one of {}", self.0, Cipher::ALL.map(Cipher::name).join(", "))
    }
}

impl std::error::Error for UnknownCipher {}
