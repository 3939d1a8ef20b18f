//! ChaCha with 8 or 20 rounds, 16 blocks side by side.
//!
//! This is Bernstein's ChaCha: a block counter of 64 bits in the words 12 and 13 of the state and a nonce of 64 bits in
//! 14 and 15. Here the counter is the upper half of a block's name (level and counter) and the nonce its lower half
//! (the index). Read as in RFC 8439, the 32-bit counter is word 12 and the 96-bit nonce the other three.
//!
//! One body of plain Rust serves all instruction sets. It is written as loops over the blocks ("lanes"), each of which
//! processes one block: compilers turn such a loop into vectors with one block in every lane. With AVX-512 the whole
//! state then stays in 16 registers and the time is that of intrinsics; operations on rows of 16 words, or quarter
//! rounds in a loop, are *not* vectorised and take 20 to 35 times as long, so check any change here with the bench
//! `kernels`. Only additions, exclusive ors and rotations by fixed amounts: constant time.

use zeroize::ZeroizeOnDrop;

use super::GROUP;
use crate::InstructionSet;

/// Blocks that are computed side by side.
pub(super) const LANES: usize = 16;

/// "expand 32-byte k".
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Number of double rounds: each mixes all words by columns and by diagonals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounds {
    /// ChaCha8.
    Eight = 4,
    /// ChaCha20.
    Twenty = 10,
}

/// A key, and the number of rounds it is used with.
#[derive(ZeroizeOnDrop)]
pub(super) struct ChaChaKey {
    words: [u32; 8],
    #[zeroize(skip)]
    rounds: Rounds,
}

impl ChaChaKey {
    pub(super) fn new(key: &[u8; 32], rounds: Rounds) -> Self {
        let (words, _) = key.as_chunks::<4>();
        Self { words: std::array::from_fn(|i| u32::from_le_bytes(words[i])), rounds }
    }

    /// Whole groups; nonce and counter are those of the first block, and the counter is a multiple of 16.
    pub(super) fn groups(&self, instructions: InstructionSet, nonce: u64, counter: u64, groups: &mut [[u32; GROUP]]) {
        debug_assert!(counter.is_multiple_of(LANES as u64), "groups are aligned");
        let (rows, _) = groups.as_flattened_mut().as_chunks_mut();
        interleaved(instructions, &self.words, self.rounds, nonce, counter, rows.as_chunks_mut().0);
    }
}

/// One word of the state, for every lane.
type StateWord = [u32; LANES];

/// The state of 16 blocks: a block is a column.
type BlockState = [StateWord; 16];

for_every_instruction_set! {
    /// Row after row of 16 blocks, then the next 16.
    fn interleaved(
        instructions: InstructionSet,
        key: &[u32; 8],
        rounds: Rounds,
        nonce: u64,
        counter: u64,
        groups: &mut [BlockState],
    ) {
        let mut counter = counter;
        for group in groups {
            let words = words(key, nonce, counter);
            counter = counter.wrapping_add(LANES as u64); // past 2^64 only after the very last group
            let mut state = [[0; LANES]; 16];
            for lane in 0..LANES {
                set_column(&mut state, lane, in_lane(words, lane));
            }
            for _ in 0..rounds as u32 {
                for lane in 0..LANES {
                    let mixed = double_round(column(&state, lane));
                    set_column(&mut state, lane, mixed);
                }
            }
            for lane in 0..LANES {
                let mut sums = column(&state, lane);
                for (sum, start) in sums.iter_mut().zip(in_lane(words, lane)) {
                    *sum = sum.wrapping_add(start);
                }
                set_column(group, lane, sums);
            }
        }
    }
}

/// The first blocks of 16 nodes of a keystream of RFC 8439.
///
/// ```
/// use evertally_kernels::{FirstBlocks, InstructionSet};
/// let names = std::array::from_fn(|i| (3, i as u64));
/// let (mut blocks, mut others) = (FirstBlocks::default(), FirstBlocks::default());
/// blocks.compute(InstructionSet::best(), &[7; 8], &names);
/// others.compute(InstructionSet::PORTABLE, &[7; 8], &names);
/// assert_eq!(blocks.block(5), others.block(5));
/// assert_ne!(blocks.block(0), blocks.block(1));
/// ```
#[derive(Default, ZeroizeOnDrop)]
pub struct FirstBlocks {
    /// Pairs of words, the first one lower, of all blocks: storing block after block would take longer than mixing them
    /// does.
    pairs: [[u64; LANES]; 8],
}

impl FirstBlocks {
    /// Computes the blocks side by side, for successive draws: a single block takes several times as long. A name is
    /// level and index, little endian, used as the nonce.
    pub fn compute(&mut self, instructions: InstructionSet, key: &[u32; 8], names: &[(u32, u64); LANES]) {
        named(instructions, key, names, &mut self.pairs);
    }

    /// The block of a name, from 0.
    ///
    /// # Panics
    /// If the number is 16 or more.
    #[inline]
    pub fn block(&self, number: usize) -> [u8; 64] {
        let mut block = [0; 64];
        let (words, _) = block.as_chunks_mut::<8>();
        for (pair, all) in words.iter_mut().zip(&self.pairs) {
            *pair = all[number].to_le_bytes();
        }
        block
    }
}

for_every_instruction_set! {
    /// A block of ChaCha20 for every name.
    #[allow(clippy::needless_range_loop)] // see above: plain loops over lanes
    fn named(
        instructions: InstructionSet,
        key: &[u32; 8],
        names: &[(u32, u64); LANES],
        pairs: &mut [[u64; LANES]; 8],
    ) {
        let mut start = [[0; LANES]; 16];
        for lane in 0..LANES {
            set_column(&mut start, lane, words(key, names[lane].1, u64::from(names[lane].0) << 32));
        }
        let mut state = start;
        for _ in 0..Rounds::Twenty as u32 {
            for lane in 0..LANES {
                let mixed = double_round(column(&state, lane));
                set_column(&mut state, lane, mixed);
            }
        }
        for pair in 0..8 {
            for lane in 0..LANES {
                let lower = state[2 * pair][lane].wrapping_add(start[2 * pair][lane]);
                let upper = state[2 * pair + 1][lane].wrapping_add(start[2 * pair + 1][lane]);
                pairs[pair][lane] = u64::from(lower) | u64::from(upper) << 32;
            }
        }
    }
}

/// A block before mixing.
#[inline(always)]
fn words(key: &[u32; 8], nonce: u64, counter: u64) -> [u32; 16] {
    let [c0, c1, c2, c3] = CONSTANTS;
    let [k0, k1, k2, k3, k4, k5, k6, k7] = *key;
    let halves = |number: u64| (number as u32, (number >> 32) as u32);
    let ((b0, b1), (n0, n1)) = (halves(counter), halves(nonce));
    [c0, c1, c2, c3, k0, k1, k2, k3, k4, k5, k6, k7, b0, b1, n0, n1]
}

/// The same in this lane: its number is the last four bits of the counter.
#[inline(always)]
fn in_lane(mut words: [u32; 16], lane: usize) -> [u32; 16] {
    words[12] |= lane as u32;
    words
}

#[inline(always)]
fn column(state: &BlockState, lane: usize) -> [u32; 16] {
    state.each_ref().map(|row| row[lane])
}

#[inline(always)]
fn set_column(state: &mut BlockState, lane: usize, words: [u32; 16]) {
    for (row, word) in state.iter_mut().zip(words) {
        row[lane] = word;
    }
}

/// Mixes a block by columns and by diagonals.
#[inline(always)]
fn double_round(mut x: [u32; 16]) -> [u32; 16] {
    quarter_round(&mut x, 0, 4, 8, 12);
    quarter_round(&mut x, 1, 5, 9, 13);
    quarter_round(&mut x, 2, 6, 10, 14);
    quarter_round(&mut x, 3, 7, 11, 15);
    quarter_round(&mut x, 0, 5, 10, 15);
    quarter_round(&mut x, 1, 6, 11, 12);
    quarter_round(&mut x, 2, 7, 8, 13);
    quarter_round(&mut x, 3, 4, 9, 14);
    x
}

#[inline(always)]
fn quarter_round(x: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    x[a] = x[a].wrapping_add(x[b]);
    x[d] = (x[d] ^ x[a]).rotate_left(16);
    x[c] = x[c].wrapping_add(x[d]);
    x[b] = (x[b] ^ x[c]).rotate_left(12);
    x[a] = x[a].wrapping_add(x[b]);
    x[d] = (x[d] ^ x[a]).rotate_left(8);
    x[c] = x[c].wrapping_add(x[d]);
    x[b] = (x[b] ^ x[c]).rotate_left(7);
}
