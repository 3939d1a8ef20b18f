//! Keyed normal variables: a keystream and a transform together.

use crate::{BlockName, Cipher, InstructionSet, Keystream, normals_f32, normals_f64};

/// Words that are produced at once: 8 KiB of them, which stay in the first-level cache next to the resulting normals.
const CHUNK: usize = 2048;
/// The same for short slices: clearing memory of that size would take longer than using it.
const SHORT: usize = 256;
/// Words of a group, within which a cipher has its own order.
const GROUP: u64 = 256;
/// Blocks of ChaCha in a group: the lanes of its rows.
const LANES: usize = 16;

/// The standard normal variables of all nodes and coordinates under one key: pure functions of all these, and of the
/// cipher.
///
/// A variable in single precision uses the keystream's word with the coordinate's number. One in double precision uses
/// two words, as one number of 64 bits: of AES the words `2c` (the lower half) and `2c + 1` of coordinate `c`; of
/// ChaCha, in the group of 256 words that has the coordinates `128 g ..`, the rows `2j` (lower) and `2j + 1` of lane
/// `l` for coordinate `128 g + 16 j + l`. About one word in 2^14 is not enough for the tail of the normal law, and uses
/// 128 more bits ([`Keystream::tail`]). Variables of both precisions come from the same bits: use one key for one of
/// them.
///
/// ```
/// use evertally_kernels::{BlockName, Cipher, Normals, InstructionSet};
/// let normals = Normals::new(Cipher::Aes128Ctr, &[7; 32], InstructionSet::best());
/// let node = BlockName { level: 0, index: 1 };
/// let (mut all, mut some) = ([0.0f32; 1000], [0.0f32; 10]);
/// normals.fill_f32(node, 0, &mut all);
/// normals.fill_f32(node, 123, &mut some);
/// assert_eq!(some, all[123..133]);
/// ```
#[derive(Debug)]
pub struct Normals {
    keystream: Keystream,
}

impl Normals {
    /// The variables under this key.
    pub fn new(cipher: Cipher, key: &[u8; 32], instructions: InstructionSet) -> Self {
        Self { keystream: Keystream::new(cipher, key, instructions) }
    }

    /// The instructions that compute them.
    pub fn instructions(&self) -> InstructionSet {
        self.keystream.instructions()
    }

    /// The variables of the coordinates `first ..` of a node. Fastest if `first` is a multiple of 256.
    ///
    /// # Panics
    /// If the node's level is 128 or more, or a coordinate 2^56 or more.
    pub fn fill_f32(&self, node: BlockName, first: u64, out: &mut [f32]) {
        if out.len() <= SHORT {
            self.fill_f32_by::<SHORT>(node, first, out);
        } else {
            self.fill_f32_by::<CHUNK>(node, first, out);
        }
    }

    fn fill_f32_by<const WORDS: usize>(&self, node: BlockName, first: u64, out: &mut [f32]) {
        let mut words = [0; WORDS];
        self.in_chunks(first, out, WORDS as u64, |first, out| {
            let words = &mut words[..out.len()];
            self.keystream.fill(node, first, words);
            normals_f32(self.instructions(), words, out, &mut |i| self.keystream.tail(node, first + i as u64));
        });
    }

    /// The same in double precision. Fastest if `first` is a multiple of 128.
    ///
    /// # Panics
    /// If the node's level is 128 or more, or a coordinate 2^56 or more.
    pub fn fill_f64(&self, node: BlockName, first: u64, out: &mut [f64]) {
        if out.len() <= SHORT / 2 {
            self.fill_f64_by::<SHORT, { SHORT / 2 }>(node, first, out);
        } else {
            self.fill_f64_by::<CHUNK, { CHUNK / 2 }>(node, first, out);
        }
    }

    fn fill_f64_by<const WORDS: usize, const PAIRS: usize>(&self, node: BlockName, first: u64, out: &mut [f64]) {
        let (mut words, mut pairs) = ([0; WORDS], [0; PAIRS]);
        self.in_chunks(first, out, PAIRS as u64, |first, out| {
            // Whole groups of words, so that pairs are complete.
            let start = 2 * first / GROUP * GROUP;
            let end = (2 * (first + out.len() as u64)).next_multiple_of(GROUP);
            let words = &mut words[..(end - start) as usize];
            self.keystream.fill(node, start, words);
            let pairs = &mut pairs[..words.len() / 2];
            pair(self.keystream.cipher(), words, pairs);
            let skipped = (first - start / 2) as usize;
            let pairs = &pairs[skipped..skipped + out.len()];
            normals_f64(self.instructions(), pairs, out, &mut |i| self.keystream.tail(node, first + i as u64));
        });
    }

    /// Splits coordinates at multiples of `length`.
    fn in_chunks<F>(&self, first: u64, out: &mut [F], length: u64, mut fill: impl FnMut(u64, &mut [F])) {
        assert!(first.checked_add(out.len() as u64).is_some_and(|end| end <= 1 << 56), "coordinates are below 2^56");
        let (mut first, mut rest) = (first, out);
        while !rest.is_empty() {
            let here = rest.len().min((length - first % length) as usize);
            let (chunk, more) = rest.split_at_mut(here);
            fill(first, chunk);
            (first, rest) = (first + here as u64, more);
        }
    }
}

/// Words to numbers of 64 bits.
fn pair(cipher: Cipher, words: &[u32], pairs: &mut [u64]) {
    let joined = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    match cipher {
        Cipher::Aes128Ctr => {
            for (pair, [low, high]) in pairs.iter_mut().zip(words.as_chunks().0) {
                *pair = joined(*low, *high);
            }
        }
        Cipher::ChaCha8 | Cipher::ChaCha20 => {
            for (pairs, rows) in pairs.as_chunks_mut::<LANES>().0.iter_mut().zip(words.as_chunks::<{ 2 * LANES }>().0) {
                let (lows, highs) = rows.split_at(LANES);
                for ((pair, low), high) in pairs.iter_mut().zip(lows).zip(highs) {
                    *pair = joined(*low, *high);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: BlockName = BlockName { level: 5, index: 1 << 40 | 9 };

    fn normals(cipher: Cipher, instructions: InstructionSet) -> Normals {
        Normals::new(cipher, &std::array::from_fn(|i| i as u8), instructions)
    }

    /// One variable at a time, from the words at the documented positions.
    #[test]
    fn variables_take_the_words_of_their_coordinates() {
        for cipher in Cipher::ALL {
            let normals = normals(cipher, InstructionSet::PORTABLE);
            let mut words = vec![0; 1 << 13];
            normals.keystream.fill(NODE, 0, &mut words);
            let (mut singles, mut doubles) = (vec![0.0; 1 << 12], vec![0.0; 1 << 12]);
            normals.fill_f32(NODE, 0, &mut singles);
            normals.fill_f64(NODE, 0, &mut doubles);
            for c in 0..1 << 12 {
                let mut single = [0.0];
                normals_f32(InstructionSet::PORTABLE, &words[c..=c], &mut single, &mut |_| {
                    normals.keystream.tail(NODE, c as u64)
                });
                assert_eq!(singles[c], single[0]);
                let (low, high) = match cipher {
                    Cipher::Aes128Ctr => (2 * c, 2 * c + 1),
                    _ => {
                        let (group, row, lane) = (c / 128, c % 128 / 16, c % 16);
                        (256 * group + 32 * row + lane, 256 * group + 32 * row + 16 + lane)
                    }
                };
                let word = u64::from(words[low]) | u64::from(words[high]) << 32;
                let mut double = [0.0];
                normals_f64(InstructionSet::PORTABLE, &[word], &mut double, &mut |_| {
                    normals.keystream.tail(NODE, c as u64)
                });
                assert_eq!(doubles[c], double[0]);
            }
        }
    }

    #[test]
    fn pieces_and_paths_give_the_same_bits() {
        const LENGTH: usize = 300_000; // about twenty rare words
        for cipher in Cipher::ALL {
            let whole = normals(cipher, InstructionSet::PORTABLE);
            let (mut singles, mut doubles) = (vec![0.0f32; LENGTH], vec![0.0f64; LENGTH]);
            whole.fill_f32(NODE, 77, &mut singles);
            whole.fill_f64(NODE, 77, &mut doubles);
            assert!(singles.iter().filter(|x| x.abs() > 4.17).count() > 3, "tails are drawn");
            for instructions in InstructionSet::available() {
                let normals = normals(cipher, instructions);
                let (mut first, mut length) = (0, 1);
                while first < LENGTH {
                    let end = (first + length).min(LENGTH);
                    let (mut some, mut double) = (vec![0.0f32; end - first], vec![0.0f64; end - first]);
                    normals.fill_f32(NODE, 77 + first as u64, &mut some);
                    normals.fill_f64(NODE, 77 + first as u64, &mut double);
                    let same = some.iter().zip(&singles[first..end]).all(|(a, b)| a.to_bits() == b.to_bits());
                    let same_doubles = double.iter().zip(&doubles[first..end]).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same && same_doubles, "{cipher}, {instructions:?}: coordinates {first} .. {end}");
                    (first, length) = (end, (length * 5 + 3) % 9001);
                }
            }
        }
    }

    /// PyTorch sets these bits for a thread at its user's request.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn taking_subnormal_numbers_for_zero_changes_nothing() {
        const FLUSH: u32 = 0x8040;
        let control = |to: Option<u32>| {
            let mut bits = 0u32;
            // SAFETY: reads and writes a word of this function, and the control word of this thread, which the caller
            // restores.
            unsafe {
                std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack));
                if let Some(to) = to {
                    std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const to, options(nostack));
                }
            }
            bits
        };
        let tiny = || std::hint::black_box(f32::MIN_POSITIVE) * std::hint::black_box(0.5);
        for cipher in Cipher::ALL {
            for instructions in InstructionSet::available() {
                let (mut singles, mut doubles) =
                    ([vec![0.0f32; 1 << 18], vec![0.0f32; 1 << 18]], [[0.0f64; 1 << 14]; 2]);
                for flushed in [false, true] {
                    let before = control(None);
                    control(flushed.then_some(before | FLUSH));
                    assert_eq!(tiny() == 0.0, flushed);
                    let normals = normals(cipher, instructions);
                    normals.fill_f32(NODE, 0, &mut singles[usize::from(flushed)]);
                    normals.fill_f64(NODE, 0, &mut doubles[usize::from(flushed)]);
                    control(Some(before));
                }
                assert!(singles[0].iter().any(|x| x.abs() > 4.17), "tails are drawn");
                assert!(singles[0] == singles[1] && doubles[0] == doubles[1], "{cipher}, {instructions:?}");
            }
        }
    }

    /// Frozen: states saved by one version are continued by the next.
    #[test]
    fn variables_are_frozen() {
        let mut seen = Vec::new();
        for cipher in Cipher::ALL {
            let normals = normals(cipher, InstructionSet::best());
            let (mut singles, mut doubles) = ([0.0f32; 2], [0.0f64; 2]);
            normals.fill_f32(NODE, 1000, &mut singles);
            normals.fill_f64(NODE, 1000, &mut doubles);
            seen.push((singles.map(f32::to_bits), doubles.map(f64::to_bits)));
        }
        assert_eq!(seen, FROZEN);
    }

    const FROZEN: [([u32; 2], [u64; 2]); 3] = [
        ([1041261753, 3217060970], [13829979439871940896, 13821692894083296087]),
        ([1061305268, 3205497305], [4609457615051315189, 4609110176044629136]),
        ([1060012135, 3184238123], [4602473492019793716, 4600730334093932958]),
    ];
}
