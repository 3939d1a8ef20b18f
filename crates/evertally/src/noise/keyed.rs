//! From a secret key to the bits of one noise variable.

use std::fmt;
use std::ops::RangeInclusive;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::chacha::{self, DoubleRounds};
use super::derive::{absorb, derive};
use super::{Node, RandomBits, SecretKey, StreamName};

/// The use of a subkey of a stream. Different purposes have independent subkeys.
///
/// ```
/// use evertally::noise::Purpose;
///
/// assert_ne!(Purpose::Total, Purpose::Group(b""));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose<'a> {
    /// The noise of the running sum of a stream without groups. Tag 0.
    Total,
    /// The noise of one group's running sum. The bytes name the group; the caller's encoding of groups must be
    /// injective. Tag 1.
    Group(&'a [u8]),
    /// Authenticates saved states. Tag 2.
    State,
    /// Authenticates a ledger of released steps. Tag 3.
    Ledger,
    /// The noise of a vector of running sums, each drawn from its nodes: see [`KeyedNoise::for_sum`]. Tag 4.
    Sums,
    /// The noise of a vector of running sums, drawn from one read to the next: see [`KeyedNoise::bits_of_read`]. The
    /// byte names the sampling method. Tag 5.
    Reads(u8),
    /// Hashes the keys of a sketch. Tag 6.
    Hashing,
    /// The noise of vectors in floating point (`VectorNoise` of `evertally-training`). The byte is the precision
    /// in bits, 32 or 64: different precisions have independent noise. Tag 7.
    Vector(u8),
    /// Hashes people's identifiers ([`Pseudonyms`](crate::privacy::contribution::Pseudonyms)). Tag 8.
    Persons,
    /// Orders events of one person at one instant. Tag 9.
    Order,
    /// Digests of sums that may be added up in any order. Tag 10.
    Digests,
    /// Draws the batches of a training run (`Batches` of `evertally-training`). Tag 11.
    Batches,
    /// The noise of a table's rows, drawn when the rows are used (`RowNoise` of `evertally-training`). The byte is
    /// as for `Vector`. Tag 12.
    Rows(u8),
    /// The noise that is common to all groups of a stream, if their noise is correlated. Tag 13.
    AllGroups,
}

impl<'a> Purpose<'a> {
    /// The tag and the bytes that enter the hash. Tags are frozen: a new purpose gets a new tag.
    pub(super) fn encoding(&'a self) -> (u8, &'a [u8]) {
        match self {
            Purpose::Total => (0, &[]),
            Purpose::Group(bytes) => (1, bytes),
            Purpose::State => (2, &[]),
            Purpose::Ledger => (3, &[]),
            Purpose::Sums => (4, &[]),
            Purpose::Reads(way) => (5, std::slice::from_ref(way)),
            Purpose::Hashing => (6, &[]),
            Purpose::Vector(bits) => (7, std::slice::from_ref(bits)),
            Purpose::Persons => (8, &[]),
            Purpose::Order => (9, &[]),
            Purpose::Digests => (10, &[]),
            Purpose::Batches => (11, &[]),
            Purpose::Rows(bits) => (12, std::slice::from_ref(bits)),
            Purpose::AllGroups => (13, &[]),
        }
    }
}

/// The domain of subkeys.
const SUBKEY: &[u8] = b"evertally 1 subkey";

fn derive_for(
    domain: &[u8],
    key: &SecretKey,
    name: &StreamName,
    plan_digest: &[u8; 32],
    purpose: Purpose<'_>,
) -> Zeroizing<[u8; 32]> {
    let (tag, bytes) = purpose.encoding();
    derive(key.expose_bytes(), &[domain, name.as_str().as_bytes(), plan_digest, &[tag], bytes])
}

/// The key of a message authentication code for the saved state or the ledger of a stream.
///
/// It is derived like the subkey of [`KeyedNoise`], with the domain string `evertally 1 mac`, and is overwritten when
/// dropped.
///
/// ```
/// use evertally::noise::{Purpose, SecretKey, StreamName, mac_key};
///
/// let key = SecretKey::generate()?;
/// let name: StreamName = "visits".parse()?;
/// assert_ne!(*mac_key(&key, &name, &[0; 32], Purpose::State), *mac_key(&key, &name, &[0; 32], Purpose::Ledger));
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn mac_key(
    key: &SecretKey,
    name: &StreamName,
    plan_digest: &[u8; 32],
    purpose: Purpose<'_>,
) -> Zeroizing<[u8; 32]> {
    derive_for(b"evertally 1 mac", key, name, plan_digest, purpose)
}

/// The subkey of a stream for a purpose, derived as that of [`KeyedNoise`]: for other kinds of noise than its own.
///
/// A caller that draws noise from it must first [claim](crate::noise::GuardedKey::claim) that noise.
pub fn subkey(key: &SecretKey, name: &StreamName, plan_digest: &[u8; 32], purpose: Purpose<'_>) -> Zeroizing<[u8; 32]> {
    derive_for(SUBKEY, key, name, plan_digest, purpose)
}

/// The noise of one stream (or of one group of it): maps every [`Node`] to its own endless random bits.
///
/// **Subkey.** BLAKE3 in keyed mode, key = the secret key, over five fields, each preceded by its length in 8 bytes,
/// little endian: the text `evertally 1 subkey`; the stream name; the plan digest (32 bytes); the purpose's tag
/// (1 byte); the purpose's bytes. The digest makes noise under one plan independent of noise under any other: no
/// variable is ever reused with another scale.
///
/// **Bits of a node.** The ChaCha20 keystream of RFC 8439: key = subkey, nonce = level in 4 bytes and index in 8 bytes,
/// both little endian, block counter from 0.
///
/// The subkey is overwritten when this is dropped.
///
/// ```
/// use evertally::noise::{KeyedNoise, Node, Purpose, RandomBits, SecretKey, StreamName};
///
/// let key = SecretKey::generate()?;
/// let name: StreamName = "visits".parse()?;
/// let noise = KeyedNoise::unrecorded(&key, &name, &[0; 32], Purpose::Total);
/// let node = Node { level: 3, index: 5 };
/// assert_eq!(noise.bits(node).next_u64(), noise.bits(node).next_u64());
/// assert_ne!(noise.bits(node).next_u64(), noise.bits(Node { level: 3, index: 6 }).next_u64());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct KeyedNoise {
    /// The subkey as ChaCha20's eight key words.
    key: [u32; 8],
}

impl KeyedNoise {
    /// The noise of the named stream under the plan with this digest, **without any record of it**: the caller ensures
    /// that it is never used for two data sets. Types that issue noise for data take a
    /// [`GuardedKey`](super::GuardedKey).
    ///
    /// Costs one or two BLAKE3 compressions (about 0.2 µs).
    ///
    /// ```
    /// # use evertally::noise::{KeyedNoise, Purpose, SecretKey, StreamName};
    /// let (key, name) = (SecretKey::generate()?, "visits".parse()?);
    /// let noise = KeyedNoise::unrecorded(&key, &name, &[0; 32], Purpose::Group(b"north"));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn unrecorded(key: &SecretKey, name: &StreamName, plan_digest: &[u8; 32], purpose: Purpose<'_>) -> Self {
        Self::from_subkey(&subkey(key, name, plan_digest, purpose))
    }

    fn from_subkey(subkey: &[u8; 32]) -> Self {
        let (words, _) = subkey.as_chunks::<4>();
        Self { key: std::array::from_fn(|i| u32::from_le_bytes(words[i])) }
    }

    /// The bits of the noise variable `node`, from the start. Costs one ChaCha20 block.
    ///
    /// ```
    /// # use evertally::noise::{KeyedNoise, Node, Purpose, RandomBits, SecretKey, StreamName};
    /// # let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Total);
    /// let mut bits = noise.bits(Node { level: 0, index: 0 });
    /// assert_ne!(bits.next_u64(), bits.next_u64());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    #[inline]
    pub fn bits(&self, node: Node) -> NodeBits<'_> {
        NodeBits::from(&self.key, node, 0..=u32::MAX, DoubleRounds::Twenty)
    }

    /// The same if the node's first block is already available.
    #[inline]
    pub(super) fn bits_from(&self, node: Node, block: [u8; BLOCK]) -> NodeBits<'_> {
        NodeBits { key: &self.key, node, block, number: 0, last: u32::MAX, rounds: DoubleRounds::Twenty, position: 0 }
    }

    /// ChaCha20's key words.
    pub(super) fn words(&self) -> &[u32; 8] {
        &self.key
    }

    /// The noise of one running sum of a vector, as if it were a separate stream. Its key is the first half of a
    /// ChaCha20 block of this key with the sum's number as its nonce: the nodes of [`Purpose::Sums`] have no other use.
    /// Costs one block.
    ///
    /// ```
    /// # use evertally::noise::{KeyedNoise, Node, Purpose, RandomBits, SecretKey, StreamName};
    /// # let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Sums);
    /// let node = Node { level: 0, index: 0 };
    /// assert_ne!(noise.for_sum(0).bits(node).next_u64(), noise.for_sum(1).bits(node).next_u64());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn for_sum(&self, sum: u64) -> KeyedNoise {
        let mut block = chacha::block(&self.key, 0, Node { level: 0, index: sum });
        let derived = Self::from_subkey(block[..32].try_into().expect("half a block"));
        block.zeroize();
        derived
    }

    /// The bits of a read of one of a vector's running sums (below 2⁴⁸) at a step: ChaCha20 with the 16 bits of a block
    /// counter, the 48 of the sum and the 64 of the step, little endian, instead of counter and nonce. Only
    /// [`Purpose::Reads`] uses them, under separate keys. Costs one block.
    ///
    /// ```
    /// # use evertally::noise::{KeyedNoise, Purpose, RandomBits, SecretKey, StreamName};
    /// # let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Reads(1));
    /// assert_ne!(noise.bits_of_read(1, 5).next_u64(), noise.bits_of_read(1, 6).next_u64());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the number of the sum is 2⁴⁸ or more.
    #[inline]
    pub fn bits_of_read(&self, sum: u64, step: u64) -> NodeBits<'_> {
        self.read(sum, step, DoubleRounds::Twenty)
    }

    /// The same with ChaCha12, for noise in floating point, whose law is not exact anyway: takes three fifths of the
    /// time, with a smaller security margin (7 of its 12 rounds can be attacked faster than by trying all keys).
    ///
    /// ```
    /// # use evertally::noise::{KeyedNoise, Purpose, RandomBits, SecretKey, StreamName};
    /// # let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Reads(2));
    /// assert_ne!(noise.quick_bits_of_read(1, 5).next_u64(), noise.bits_of_read(1, 5).next_u64());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the number of the sum is 2⁴⁸ or more.
    #[inline]
    pub fn quick_bits_of_read(&self, sum: u64, step: u64) -> NodeBits<'_> {
        self.read(sum, step, DoubleRounds::Twelve)
    }

    #[inline]
    fn read(&self, sum: u64, step: u64, rounds: DoubleRounds) -> NodeBits<'_> {
        assert!(sum < 1 << 48, "sums are numbered below 2^48");
        let first = (sum as u32) << 16;
        NodeBits::from(&self.key, Node { level: (sum >> 16) as u32, index: step }, first..=first | 0xffff, rounds)
    }
}

impl fmt::Debug for KeyedNoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedNoise").finish_non_exhaustive()
    }
}

/// The noise of the groups of a stream, as returned by [`KeyedNoise::unrecorded`] for [`Purpose::Group`], for very many
/// groups: the common prefix is hashed once.
pub(crate) struct GroupNoise {
    common: blake3::Hasher,
}

impl GroupNoise {
    pub(crate) fn new(key: &SecretKey, name: &StreamName, plan_digest: &[u8; 32]) -> Self {
        let (tag, _) = Purpose::Group(&[]).encoding();
        let mut common = blake3::Hasher::new_keyed(key.expose_bytes());
        let fields: [&[u8]; 4] = [SUBKEY, name.as_str().as_bytes(), plan_digest, &[tag]];
        fields.iter().for_each(|field| absorb(&mut common, field));
        Self { common }
    }

    /// The noise of the group of this name.
    pub(crate) fn of(&self, group: &[u8]) -> KeyedNoise {
        let mut hasher = self.common.clone();
        absorb(&mut hasher, group);
        let subkey = Zeroizing::new(*hasher.finalize().as_bytes());
        hasher.zeroize();
        KeyedNoise::from_subkey(&subkey)
    }
}

impl Drop for GroupNoise {
    fn drop(&mut self) {
        self.common.zeroize();
    }
}

/// The random bits of one noise variable: see [`KeyedNoise`].
///
/// The bytes are not overwritten when this is dropped: they are as secret as the value drawn from them, which remains.
///
/// A node has 2³² blocks of 64 bytes, a read 2¹⁶; a draw reads 64 bytes with a probability of a few percent, and the
/// exhaustion of all blocks, which panics, has probability less than 2⁻¹⁰⁰⁰.
///
/// ```
/// use evertally::noise::{KeyedNoise, Node, NodeBits, Purpose, RandomBits, SecretKey};
///
/// let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Total);
/// let mut bits: NodeBits<'_> = noise.bits(Node { level: 0, index: 0 });
/// let block: [u8; 64] = bits.take();
/// assert_ne!(block, bits.take());
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct NodeBits<'a> {
    key: &'a [u32; 8],
    node: Node,
    block: [u8; BLOCK],
    /// Counter of `block`, and the last possible counter.
    number: u32,
    last: u32,
    rounds: DoubleRounds,
    /// How many bytes of `block` have been read, at most 64.
    position: usize,
}

const BLOCK: usize = 64;

impl<'a> NodeBits<'a> {
    #[inline]
    fn from(key: &'a [u32; 8], node: Node, blocks: RangeInclusive<u32>, rounds: DoubleRounds) -> Self {
        let (number, last) = blocks.into_inner();
        NodeBits { key, node, block: chacha::mixed(key, number, node, rounds), number, last, rounds, position: 0 }
    }

    #[cfg(test)]
    pub(super) fn skip_to_last_block(&mut self) {
        self.number = u32::MAX;
        self.position = 0;
    }

    #[cold]
    #[inline(never)]
    fn take_across<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| {
            if self.position == BLOCK {
                assert!(self.number < self.last, "a draw never reads all blocks of its name");
                self.number += 1;
                self.block = chacha::mixed(self.key, self.number, self.node, self.rounds);
                self.position = 0;
            }
            let byte = self.block[self.position];
            self.position += 1;
            byte
        })
    }
}

impl RandomBits for NodeBits<'_> {
    #[inline]
    fn take<const N: usize>(&mut self) -> [u8; N] {
        // `position` is at most 64, so the sum cannot overflow for any N that fits in memory.
        match self.block.get(self.position..self.position + N) {
            Some(bytes) => {
                self.position += N;
                bytes.try_into().expect("the slice has N bytes")
            }
            None => self.take_across(),
        }
    }

    #[inline]
    fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        let bytes = self.block.get(self.position..self.position + N)?;
        bytes.try_into().ok()
    }

    #[inline]
    fn skip(&mut self, count: usize) {
        if count <= BLOCK - self.position {
            self.position += count;
        } else {
            for _ in 0..count {
                self.next_u8();
            }
        }
    }
}

impl fmt::Debug for NodeBits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeBits").field("node", &self.node).finish_non_exhaustive()
    }
}
