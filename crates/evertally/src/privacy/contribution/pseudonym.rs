//! Pseudonyms of persons: a keyed hash of their name.

use crate::noise::{Purpose, SecretKey, StreamName, mac_key};
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A stand-in for a person's name: 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pseudonym([u64; 2]);

impl Pseudonym {
    /// The 16 bytes, in comparison order.
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.0[0]) << 64 | u128::from(self.0[1])).to_be_bytes()
    }

    /// The pseudonym with these 16 bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self([(both >> 64) as u64, both as u64])
    }

    /// Its first 8 bytes: indistinguishable from 64 random bits without the key.
    #[inline]
    pub fn leading(self) -> u64 {
        self.0[0]
    }
}

/// The keyed hash that maps names of persons to [`Pseudonym`]s, so that a name of any length takes 16 bytes of memory,
/// and the memory does not identify the person.
///
/// **Hash.** SipHash-2-4 with 128 bits of output (Aumasson and Bernstein 2012), a pseudorandom function made for short
/// inputs. Its key is the first half of the message authentication key of [`mac_key`] for [`Purpose::Persons`] under
/// the stream's name and its plan's digest: pseudonyms of different streams are unrelated.
///
/// **Why collisions do not matter.** Two persons with one pseudonym would share one bound, and events of one could
/// displace events of the other: the guarantee would fail for these two. An author of the data, who may choose names,
/// does not know the key and never sees a pseudonym, so any two names that they write collide with probability 2⁻¹²⁸.
/// Among a billion persons a collision has probability below 10⁻²⁰, once over all runs, because the hash does not
/// change. An unkeyed hash, however good, would not suffice: names that collide, or that fill one bucket of a table,
/// could be searched for offline.
///
/// The key is overwritten when this is dropped.
///
/// ```
/// use evertally::{noise::SecretKey, privacy::contribution::Pseudonyms};
/// let pseudonyms = Pseudonyms::new(&SecretKey::generate()?, &"visits".parse()?, &[0; 32]);
/// assert_eq!(pseudonyms.of("ada"), pseudonyms.of("ada"));
/// assert_ne!(pseudonyms.of("ada"), pseudonyms.of("Ada"));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Pseudonyms {
    key: [u64; 2],
}

impl Pseudonyms {
    /// The pseudonyms of a stream under the plan with this digest.
    pub fn new(key: &SecretKey, name: &StreamName, plan_digest: &[u8; 32]) -> Self {
        let subkey = mac_key(key, name, plan_digest, Purpose::Persons);
        let (words, _) = subkey.as_chunks::<8>();
        Self { key: [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])] }
    }

    /// The pseudonym of a person. About 20 ns for a short name.
    #[inline]
    pub fn of(&self, name: &str) -> Pseudonym {
        Pseudonym(siphash_2_4_128(self.key, name.as_bytes()))
    }
}

impl fmt::Debug for Pseudonyms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pseudonyms").finish_non_exhaustive()
    }
}

/// One round of SipHash.
#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

/// Fewer than eight bytes as a number, the first byte lowest.
#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    let at = |place: usize| u64::from(bytes[place]) << (8 * place);
    match (bytes.len(), bytes.first_chunk(), bytes.last_chunk()) {
        // Both halves of eight bytes; of fewer, they overlap.
        (len, Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (8 * (len - 4))
        }
        (0, ..) => 0,
        // All of three bytes; of fewer, some twice.
        (len, ..) => at(0) | at(len / 2) | at(len - 1),
    }
}

/// The two words of SipHash-2-4-128.
#[inline]
pub(super) fn siphash_2_4_128([k0, k1]: [u64; 2], bytes: &[u8]) -> [u64; 2] {
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let mut take = |word: u64| {
        v[3] ^= word;
        round(&mut v);
        round(&mut v);
        v[0] ^= word;
    };
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().for_each(|word| take(u64::from_le_bytes(*word)));
    take(word_of(rest) | (bytes.len() as u64) << 56); // modulo 256, as specified
    let mut word = |mark: (usize, u64)| {
        v[mark.0] ^= mark.1;
        (0..4).for_each(|_| round(&mut v));
        v[0] ^ v[1] ^ v[2] ^ v[3]
    };
    [word((2, 0xee)), word((1, 0xdd))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::TestSeed;

    /// The first, second, tenth and last vectors of the reference implementation (`vectors_sip128`): key 00 … 0f, input
    /// 00, 01, 02 ….
    #[test]
    fn as_the_reference() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let input: Vec<u8> = (0..64).collect();
        for (length, expected) in VECTORS {
            let [low, high] = siphash_2_4_128(key, &input[..length]);
            let bytes: Vec<u8> = [low.to_le_bytes(), high.to_le_bytes()].concat();
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected, "{length}");
        }
    }

    const VECTORS: [(usize, &str); 4] = [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (9, "264499060ad9baabc47f8b02bb6d71ed"),
        (63, "5150d1772f50834a503e069a973fbd7c"),
    ];

    #[test]
    fn a_rest_is_the_lowest_bytes_of_a_word() {
        let bytes = [1, 2, 3, 4, 5, 6, 7];
        for len in 0..=bytes.len() {
            let mut word = [0; 8];
            word[..len].copy_from_slice(&bytes[..len]);
            assert_eq!(word_of(&bytes[..len]), u64::from_le_bytes(word), "{len} bytes");
        }
    }

    /// Pseudonyms depend on key, stream and plan, and their bytes keep the order.
    #[test]
    fn pseudonyms_are_of_one_stream() {
        let [key, other] = [1, 2].map(|seed| SecretKey::insecure_from_test_seed(TestSeed(seed)));
        let [name, further] = ["a", "b"].map(|name| name.parse::<StreamName>().unwrap());
        let of = |key, name, digest: u8| Pseudonyms::new(key, name, &[digest; 32]).of("ada");
        let mut all = [of(&key, &name, 0), of(&other, &name, 0), of(&key, &further, 0), of(&key, &name, 1)];
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1] && pair[0].to_bytes() < pair[1].to_bytes()));
        assert!(all.iter().all(|pseudonym| Pseudonym::from_bytes(pseudonym.to_bytes()) == *pseudonym));
        assert!(all.iter().all(|pseudonym| pseudonym.leading().to_be_bytes() == pseudonym.to_bytes()[..8]));
    }
}
