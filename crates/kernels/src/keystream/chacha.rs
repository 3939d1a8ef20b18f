//! ChaCha with 8 or 20 rounds, 16 blocks side by side.
//!
//! This is Bernstein's ChaCha: a block counter of 64 bits in the words 12 and 13 of the state and a nonce of 64 bits in
//! 14 and 15. Here the counter is the upper half of a block's name (level and counter) and the nonce its lower half
//! (the index). Read as in RFC 8439, the 32-bit counter is word 12 and the 96-bit nonce the other three.
//!
//! For x86-64 the rounds are written with intrinsics. A vector has one word of every block ("lane"), and with AVX-512
//! the whole state is in 16 registers. The plain twin is written as loops over the lanes. Whether compilers turn them
//! into vectors depends on their version and on the code around them, and without vectors it takes ten times as long:
//! check any change with the bench `kernels`. Only additions, exclusive ors and rotations by fixed amounts: constant
//! time.

#[cfg(target_arch = "x86_64")]
mod x86;

use zeroize::ZeroizeOnDrop;

use super::GROUP;
use crate::InstructionSet;
use crate::instruction_set::Instructions;

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
        let mut counter = counter;
        for group in rows.as_chunks_mut().0 {
            let mut start = start(&self.words, nonce, counter);
            start[12].iter_mut().zip(0..).for_each(|(word, lane)| *word |= lane); // the last four bits of the counter
            mix(instructions, &start, self.rounds, group);
            counter = counter.wrapping_add(LANES as u64); // past 2^64 only after the very last group
        }
    }
}

/// One word of the state, for every lane.
type StateWord = [u32; LANES];

/// The state of 16 blocks: a block is a column.
type BlockState = [StateWord; 16];

/// A quarter round of every column, then of every diagonal.
macro_rules! double_round {
    ($quarter_round:ident, $x:expr) => {
        $quarter_round($x, 0, 4, 8, 12);
        $quarter_round($x, 1, 5, 9, 13);
        $quarter_round($x, 2, 6, 10, 14);
        $quarter_round($x, 3, 7, 11, 15);
        $quarter_round($x, 0, 5, 10, 15);
        $quarter_round($x, 1, 6, 11, 12);
        $quarter_round($x, 2, 7, 8, 13);
        $quarter_round($x, 3, 4, 9, 14);
    };
}
#[cfg(target_arch = "x86_64")]
use double_round;

/// The blocks of these starting states: the state after the rounds, plus the state before them.
fn mix(instructions: InstructionSet, start: &BlockState, rounds: Rounds, blocks: &mut BlockState) {
    match instructions.kind() {
        Instructions::Portable => mix_portable(start, rounds, blocks),
        // SAFETY: a set exists only if the processor has its instructions.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { x86::mix_avx2(start, rounds, blocks) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { x86::mix_avx512(start, rounds, blocks) },
    }
}

fn mix_portable(start: &BlockState, rounds: Rounds, blocks: &mut BlockState) {
    let mut state = *start;
    for _ in 0..rounds as u32 {
        for lane in 0..LANES {
            let mut words = state.each_ref().map(|row| row[lane]);
            double_round!(quarter_round, &mut words);
            state.iter_mut().zip(words).for_each(|(row, word)| row[lane] = word);
        }
    }
    for ((block, row), start) in blocks.iter_mut().zip(state).zip(start) {
        *block = std::array::from_fn(|lane| row[lane].wrapping_add(start[lane]));
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
    /// A block is a column: storing block after block would take longer than mixing them does.
    rows: BlockState,
    descents: [u32; LANES],
}

impl FirstBlocks {
    /// Numbers at the start of a block whose order [`descents`](Self::descents) states.
    pub const COMPARED: usize = 12;

    /// Computes the blocks side by side, for successive draws: a single block takes several times as long. A name is
    /// level and index, little endian, used as the nonce.
    pub fn compute(&mut self, instructions: InstructionSet, key: &[u32; 8], names: &[(u32, u64); LANES]) {
        let mut start = start(key, 0, 0);
        for (lane, (level, index)) in names.iter().enumerate() {
            (start[13][lane], start[14][lane], start[15][lane]) = (*level, *index as u32, (*index >> 32) as u32);
        }
        mix(instructions, &start, Rounds::Twenty, &mut self.rows);
        order(instructions, &self.rows, &mut self.descents);
    }

    /// The block of a name, from 0.
    ///
    /// # Panics
    /// If the number is 16 or more.
    #[inline]
    pub fn block(&self, number: usize) -> [u8; 64] {
        let mut block = [0; 64];
        let (words, _) = block.as_chunks_mut::<4>();
        for (word, row) in words.iter_mut().zip(&self.rows) {
            *word = row[number].to_le_bytes();
        }
        block
    }

    /// Bytes `2 place` and `2 place + 1` of a block, little endian.
    ///
    /// # Panics
    /// If the number of the block is 16 or more, or the place 32 or more.
    #[inline]
    pub fn half_word(&self, number: usize, place: usize) -> u16 {
        (self.rows[place / 2][number] >> (16 * (place % 2))) as u16
    }

    /// The order of the first 12 half-words of a block: bit `i` is set if half-word `i + 1` is less than half-word `i`,
    /// for `i` from 0 to 10, and bit 11 if any two neighbours are equal.
    ///
    /// ```
    /// # use evertally_kernels::{FirstBlocks, InstructionSet};
    /// let mut blocks = FirstBlocks::default();
    /// blocks.compute(InstructionSet::best(), &[7; 8], &std::array::from_fn(|i| (3, i as u64)));
    /// assert_eq!(blocks.descents(5) >> 4 & 1 == 1, blocks.half_word(5, 5) < blocks.half_word(5, 4));
    /// ```
    ///
    /// # Panics
    /// If the number of the block is 16 or more.
    #[inline]
    pub fn descents(&self, number: usize) -> u32 {
        self.descents[number]
    }
}

for_every_instruction_set! {
    /// The descents of all blocks.
    fn order(instructions: InstructionSet, rows: &BlockState, descents: &mut [u32; LANES]) {
        for (lane, descents) in descents.iter_mut().enumerate() {
            *descents = descents_of(std::array::from_fn(|row| rows[row][lane]));
        }
    }
}

/// [`FirstBlocks::descents`] of a block that starts with these words.
#[inline(always)]
pub(super) fn descents_of(words: [u32; FirstBlocks::COMPARED / 2]) -> u32 {
    let half = |i: usize| if i.is_multiple_of(2) { words[i / 2] & 0xffff } else { words[i / 2] >> 16 };
    let (mut falls, mut least) = (0, u32::MAX);
    for i in 0..FirstBlocks::COMPARED - 1 {
        // Both are below 2^16: the highest bit of the difference is its sign.
        falls |= half(i + 1).wrapping_sub(half(i)) >> 31 << i;
        least = least.min(half(i + 1) ^ half(i));
    }
    falls | u32::from(least == 0) << (FirstBlocks::COMPARED - 1)
}

/// The state of 16 equal blocks before mixing.
fn start(key: &[u32; 8], nonce: u64, counter: u64) -> BlockState {
    let [c0, c1, c2, c3] = CONSTANTS;
    let [k0, k1, k2, k3, k4, k5, k6, k7] = *key;
    let halves = |number: u64| (number as u32, (number >> 32) as u32);
    let ((b0, b1), (n0, n1)) = (halves(counter), halves(nonce));
    [c0, c1, c2, c3, k0, k1, k2, k3, k4, k5, k6, k7, b0, b1, n0, n1].map(|word| [word; LANES])
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
