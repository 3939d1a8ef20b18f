//! Secret keys.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::derive::derive;
use crate::{Error, ErrorKind, Result};

/// The secret from which all noise of a stream is computed: 32 bytes.
///
/// Anyone with the key and the releases can compute the exact data: store the key separately from both. One key may
/// serve many streams, each under its own [`StreamName`](super::StreamName). It must never serve **two different data
/// sets under one stream name and plan**, because the difference of two releases with equal noise is exact.
///
/// The bytes are overwritten when the key is dropped, never printed by `Debug`, and compared in constant time.
///
/// ```
/// use evertally::noise::SecretKey;
///
/// # fn main() -> evertally::Result<()> {
/// let key = SecretKey::generate()?;
/// assert_eq!(format!("{key:?}"), format!("SecretKey({})", key.id()));
/// # Ok(())
/// # }
/// ```
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct SecretKey {
    bytes: [u8; 32],
}

impl SecretKey {
    /// A new key from the operating system.
    ///
    /// # Errors
    /// [`ErrorKind::Randomness`] if the operating system provides none.
    ///
    /// ```
    /// let key = evertally::noise::SecretKey::generate()?;
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn generate() -> Result<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(bytes.as_mut_slice()).map_err(|error| {
            Error::new(ErrorKind::Randomness, format!("the operating system provided no random bytes: {error}"))
        })?;
        Self::from_bytes(*bytes)
    }

    /// The key with these bytes, as returned by [`expose_bytes`](Self::expose_bytes).
    ///
    /// The bytes must come from a cryptographic random source: never from a password, never from the data.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for 32 zero bytes: that is an empty file or a forgotten initialization, not a key.
    ///
    /// ```
    /// use evertally::noise::SecretKey;
    ///
    /// assert!(SecretKey::from_bytes([0; 32]).unwrap_err().is_invalid());
    /// let key = SecretKey::from_bytes([9; 32])?;
    /// assert_eq!(key.expose_bytes(), &[9; 32]);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn from_bytes(bytes: [u8; 32]) -> Result<Self> {
        let key = Self { bytes };
        if bool::from(key.bytes.ct_eq(&[0; 32])) {
            return Err(Error::invalid("the secret key is 32 zero bytes; generate a random one"));
        }
        Ok(key)
    }

    /// A key that **anyone can compute**: for tests, simulations and published examples, never for data.
    ///
    /// It is the BLAKE3 hash of the text `evertally 1 insecure test key`, a zero byte and the seed in 8 bytes, little
    /// endian.
    ///
    /// ```
    /// use evertally::noise::{SecretKey, TestSeed};
    ///
    /// assert_eq!(SecretKey::insecure_from_test_seed(TestSeed(1)), SecretKey::insecure_from_test_seed(TestSeed(1)));
    /// assert_ne!(SecretKey::insecure_from_test_seed(TestSeed(1)), SecretKey::insecure_from_test_seed(TestSeed(2)));
    /// ```
    pub fn insecure_from_test_seed(seed: TestSeed) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"evertally 1 insecure test key\0").update(&seed.0.to_le_bytes());
        Self { bytes: *hasher.finalize().as_bytes() }
    }

    /// The secret bytes, to be written only to a key store.
    ///
    /// ```
    /// # use evertally::noise::SecretKey;
    /// assert_eq!(SecretKey::from_bytes([9; 32])?.expose_bytes().len(), 32);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn expose_bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// The public fingerprint of this key: distinguishes keys, reveals nothing about the secret.
    ///
    /// ```
    /// # use evertally::noise::SecretKey;
    /// let key = SecretKey::from_bytes([9; 32])?;
    /// assert_eq!(key.id().to_string().len(), 32);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn id(&self) -> KeyId {
        let hash = derive(self.expose_bytes(), &[b"evertally 1 key id"]);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        KeyId { bytes }
    }
}

impl PartialEq for SecretKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes.ct_eq(&other.bytes).into()
    }
}

impl Eq for SecretKey {}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.id())
    }
}

/// A seed for a key that anyone can compute: see [`SecretKey::insecure_from_test_seed`].
///
/// A separate type, so that a seed is never mistaken for a key.
///
/// ```
/// let seed = evertally::noise::TestSeed(42);
/// assert_eq!(seed.0, 42);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TestSeed(pub u64);

/// The public fingerprint of a [`SecretKey`]: 16 bytes, written as 32 lower-case hexadecimal digits.
///
/// It is a keyed hash, so it reveals nothing about the key; two keys have equal fingerprints with probability 2⁻¹²⁸.
///
/// ```
/// use evertally::noise::{KeyId, SecretKey};
///
/// let id = SecretKey::from_bytes([9; 32])?.id();
/// let read: KeyId = id.to_string().parse()?;
/// assert_eq!(read, id);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId {
    bytes: [u8; 16],
}

impl KeyId {
    /// The 16 bytes.
    ///
    /// ```
    /// # use evertally::noise::SecretKey;
    /// assert_eq!(SecretKey::from_bytes([9; 32])?.id().as_bytes().len(), 16);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.bytes
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

impl FromStr for KeyId {
    type Err = Error;

    /// # Errors
    /// [`ErrorKind::Invalid`] unless the text is 32 lower-case hexadecimal digits.
    fn from_str(text: &str) -> Result<Self> {
        let invalid = || Error::invalid(format!("a key id is 32 lower-case hexadecimal digits, got {text:?}"));
        if text.len() != 32 || !text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(invalid());
        }
        let value = u128::from_str_radix(text, 16).map_err(|_| invalid())?;
        Ok(Self { bytes: value.to_be_bytes() })
    }
}

impl TryFrom<String> for KeyId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> Self {
        id.to_string()
    }
}
