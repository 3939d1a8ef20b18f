//! Keystreams: for every node of a mechanism an endless row of random 32-bit words, readable at any position.
//!
//! A block cipher in counter mode (or ChaCha, which is one by construction) turns a secret key and the 128-bit *name*
//! of a block into the block's bits. Without the key, the bits of different names look independent and uniform. So the
//! noise of a coordinate need not be stored: it is recomputed when needed.
//!
//! [`Keystream`] defines how blocks are named and how their words are laid out. All work is done in groups of 256
//! words: 64 blocks of AES or 16 of ChaCha. A group's first counter is a multiple of 64 or 16, and 2³² and 2⁵⁶ are
//! multiples of both, so counting inside a group carries neither over 32 bits nor into the level.

mod aes;
mod chacha;
mod cipher;
#[cfg(test)]
mod tests;

pub use chacha::FirstBlocks;
pub use cipher::{Cipher, UnknownCipher};

use std::fmt;

use crate::InstructionSet;

/// Words that are computed together.
const GROUP: usize = 256;
/// 2⁵⁶: counters are smaller.
const COUNTERS: u64 = 1 << 56;
/// The bit of a level that marks tail blocks.
const TAIL: u8 = 0x80;

/// Names a node: the noise variables of one level and index have one keystream, a word or two per coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockName {
    /// Below 128.
    pub level: u8,
    /// Any.
    pub index: u64,
}

impl BlockName {
    /// The upper half of the name of this node's block 0; its counter is added to it.
    fn upper(self) -> u64 {
        u64::from(self.level) << 56
    }
}

/// The keystreams of all nodes under one key.
///
/// **Names.** A block's name is the number `index | counter << 64 | level << 120`, with `index` of 64 bits, `counter`
/// of 56 and `level` of 8. Index and level name the node; bit 7 of the level marks tail blocks ([`Self::tail`]). So no
/// block is ever used for two purposes.
///
/// **Layout** (frozen). Word `w` of a node is
/// - for AES-128 in counter mode: word `w % 4` of the block with counter `w / 4`, little endian. The cipher's input is
///   the name in little-endian bytes, its key the first 16 of the 32 bytes;
/// - for ChaCha: with the group `g = w / 256`, the row `r = w % 256 / 16` and the lane `l = w % 16`, word `r` of the
///   block with counter `16 g + l`. A processor computes 16 blocks side by side, one in each lane of its vectors; in
///   this order they are stored without transposition. The words 12 and 13 of ChaCha's state are the lower and upper
///   half of `counter | level << 56`, 14 and 15 those of `index`: ChaCha as Bernstein defined it, with a block counter
///   and a nonce of 64 bits each.
///
/// The words depend on cipher, key, node and position only, never on the [`InstructionSet`] or on how a range is split.
///
/// **Secrets.** The values derived from the key are overwritten when this is dropped. The words are as secret as the
/// noise made of them; the caller must overwrite them if that matters. Copies of some of them remain on the stack.
///
/// ```
/// use evertally_kernels::{BlockName, Cipher, Keystream, InstructionSet};
///
/// let stream = Keystream::new(Cipher::Aes128Ctr, &[7; 32], InstructionSet::best());
/// let node = BlockName { level: 3, index: 5 };
/// let mut all = [0; 1000];
/// stream.fill(node, 0, &mut all);
/// let mut some = [0; 10];
/// stream.fill(node, 123, &mut some);
/// assert_eq!(some, all[123..133]);
/// ```
pub struct Keystream {
    cipher: Cipher,
    instructions: InstructionSet,
    key: ExpandedKey,
}

/// The expanded key.
enum ExpandedKey {
    Aes(aes::RoundKeys),
    ChaCha(chacha::ChaChaKey),
}

impl Keystream {
    /// The keystreams under this key. Expands it, in less than 0.1 µs.
    pub fn new(cipher: Cipher, key: &[u8; 32], instructions: InstructionSet) -> Self {
        let expanded = match cipher {
            Cipher::Aes128Ctr => {
                let (first, _) = key.split_first_chunk::<16>().expect("32 bytes are more than 16");
                ExpandedKey::Aes(aes::RoundKeys::new(first, instructions))
            }
            Cipher::ChaCha8 => ExpandedKey::ChaCha(chacha::ChaChaKey::new(key, chacha::Rounds::Eight)),
            Cipher::ChaCha20 => ExpandedKey::ChaCha(chacha::ChaChaKey::new(key, chacha::Rounds::Twenty)),
        };
        Self { cipher, instructions, key: expanded }
    }

    /// The cipher that makes the words.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The instructions that compute them.
    pub fn instructions(&self) -> InstructionSet {
        self.instructions
    }

    /// Writes the words `first .. first + words.len()` of the node's keystream, in the layout described at
    /// [`Keystream`].
    ///
    /// Whole groups of 256 words, counted from word 0, are written directly into `words`. A group at either end that is
    /// needed only in part is computed as a whole: ranges that start and end at multiples of 256 waste nothing.
    ///
    /// # Panics
    /// If the level is 128 or more, or if the range needs a block counter of 2⁵⁶ or more: for AES that is from word 2⁵⁸
    /// on, for ChaCha from word 2⁶⁰ on.
    pub fn fill(&self, node: BlockName, first: u64, words: &mut [u32]) {
        assert!(node.level < TAIL, "levels of nodes are below 128");
        let end = first.checked_add(words.len() as u64);
        assert!(
            end.is_some_and(|end| end <= COUNTERS * self.cipher.words_per_block() as u64),
            "block counters are below 2^56"
        );

        let group = first / GROUP as u64;
        let offset = (first % GROUP as u64) as usize;
        if offset > 0 {
            let (head, rest) = words.split_at_mut(words.len().min(GROUP - offset));
            self.part(node, group, offset, head);
            self.whole_and_rest(node, group + 1, rest);
        } else {
            self.whole_and_rest(node, group, words);
        }
    }

    /// 128 more bits for a coordinate, for the few normal variables whose word is not enough: the first 128 of the
    /// block with the coordinate as its counter and bit 7 of the level set, little endian. Costs a group of 256 words.
    ///
    /// # Panics
    /// If the level is 128 or more, or the coordinate 2⁵⁶ or more.
    pub fn tail(&self, node: BlockName, coordinate: u64) -> u128 {
        assert!(node.level < TAIL, "levels of nodes are below 128");
        assert!(coordinate < COUNTERS, "coordinates are below 2^56");
        let blocks = (GROUP / self.cipher.words_per_block()) as u64;
        let mut words = [[0; GROUP]];
        // A level that no caller can pass.
        self.groups(BlockName { level: node.level | TAIL, ..node }, coordinate / blocks, &mut words);

        let block = (coordinate % blocks) as usize;
        let word = |i: usize| match self.key {
            ExpandedKey::Aes(_) => words[0][4 * block + i],
            ExpandedKey::ChaCha(_) => words[0][chacha::LANES * i + block],
        };
        (0..4).fold(0, |bits, i| bits | u128::from(word(i)) << (32 * i))
    }

    /// The words from the start of a group on.
    fn whole_and_rest(&self, node: BlockName, group: u64, words: &mut [u32]) {
        let (whole, rest) = words.as_chunks_mut::<GROUP>();
        let next = group + whole.len() as u64;
        self.groups(node, group, whole);
        if !rest.is_empty() {
            self.part(node, next, 0, rest);
        }
    }

    /// The words of one group from `offset` on.
    fn part(&self, node: BlockName, group: u64, offset: usize, words: &mut [u32]) {
        let mut whole = [[0; GROUP]];
        self.groups(node, group, &mut whole);
        words.copy_from_slice(&whole[0][offset..offset + words.len()]);
    }

    /// Whole groups; `first` is the number of the first one.
    fn groups(&self, node: BlockName, group: u64, words: &mut [[u32; GROUP]]) {
        let block = group * (GROUP / self.cipher.words_per_block()) as u64;
        match &self.key {
            ExpandedKey::Aes(keys) => keys.groups(node.index, node.upper() | block, words),
            ExpandedKey::ChaCha(key) => key.groups(self.instructions, node.index, node.upper() | block, words),
        }
    }
}

impl fmt::Debug for Keystream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keystream")
            .field("cipher", &self.cipher)
            .field("instructions", &self.instructions)
            .finish_non_exhaustive()
    }
}
