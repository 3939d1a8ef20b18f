//! A universal hash of vectors at the speed of memory.
//!
//! **NH** (Black, Halevi, Krawczyk, Krovetz, Rogaway, *UMAC*, 1999) of words m and secret words k, all of 32 bits, is
//! `Σ_i (m_2i + k_2i mod 2³²) (m_2i+1 + k_2i+1 mod 2³²) mod 2⁶⁴`. Two blocks that differ have sums with any given
//! difference with probability at most 2⁻³² over the secret. **Proof.** Let a pair differ, (a, b) ≠ (a', b'), say a ≠
//! a'; the other case is symmetric. Fix all secret words but k, that of b and b'. Then a and a', each with its secret
//! word, are different numbers m and m' below 2³², and the difference is the given one if `m x - m' x' = c mod 2⁶⁴`,
//! with `x = b + k mod 2³²` and `x' = b' + k mod 2³²`. Let two k solve this, with x larger by δ in the first, 0 < δ <
//! 2³². Then x' is larger by δ or by δ - 2³². In the first case `(m - m') δ = 0 mod 2⁶⁴`, where neither factor is 0 and
//! both are below 2³²: impossible. In the second, `m δ + m' (2³² - δ) = 0 mod 2⁶⁴`. The left side is below 2⁶⁴, so it
//! is 0, and `m = m' = 0`: impossible. So at most one k of 2³² solves it. ∎
//!
//! **Two sums**, the second with the secret shifted by [`SHIFT`] words, are equal to those of another block with
//! probability at most 2⁻⁶⁴. **Proof.** Let i be the last pair that differs. Pairs after it contribute equally to both
//! blocks, so the first event depends on secret words up to pair i only, and has probability 2⁻³². The second event
//! also depends on pair `i + SHIFT / 2`, which is independent of the first event. Given all other words, it has
//! probability 2⁻³² by the argument above. ∎

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::instruction_set::{InstructionSet, Instructions};
use zeroize::ZeroizeOnDrop;

/// The words of a block.
const BLOCK: usize = 1024;
/// The shift of the secret in the second sum: the words of a cache line.
const SHIFT: usize = 16;

/// The sums of a block.
type BlockSums = [u64; 2];

/// A secret function from blocks of 1024 words to 128 bits: two blocks that differ have equal values with probability
/// at most 2⁻⁶⁴ over a random secret. It does not authenticate messages: anyone who sees values can compute the secret.
///
/// ```
/// use evertally_kernels::{InstructionSet, UniversalHash};
/// let secret = std::array::from_fn(|i| (i as u32).wrapping_mul(0x9e37_79b9)); // random in a real program
/// let hash = UniversalHash::new(&secret, InstructionSet::best());
/// let (mut block, one) = ([0; UniversalHash::BLOCK], [1; UniversalHash::BLOCK]);
/// assert_ne!(hash.block(&block), hash.block(&one));
/// block.fill(1);
/// assert_eq!(hash.block(&block), hash.block(&one));
/// ```
#[derive(ZeroizeOnDrop)]
pub struct UniversalHash {
    secret: Box<[u32; BLOCK + SHIFT]>,
    #[zeroize(skip)]
    instructions: InstructionSet,
}

impl UniversalHash {
    /// The number of words of a block.
    pub const BLOCK: usize = BLOCK;
    /// The number of words of a secret.
    pub const SECRET: usize = BLOCK + SHIFT;

    /// The function of a secret, which must be random.
    pub fn new(secret: &[u32; Self::SECRET], instructions: InstructionSet) -> Self {
        Self { secret: Box::new(*secret), instructions }
    }

    /// The instructions that it uses.
    pub fn instructions(&self) -> InstructionSet {
        self.instructions
    }

    /// The value of a block, the same on every instruction set. `O(1)`: about 0.1 ns for each word.
    #[inline]
    pub fn block(&self, words: &[u32; BLOCK]) -> BlockSums {
        match self.instructions.kind() {
            Instructions::Portable => portable(words, &self.secret),
            // SAFETY: a set exists only if the processor has its instructions.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { x86::avx2(words, &self.secret) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe { x86::avx512(words, &self.secret) },
        }
    }
}

fn portable(words: &[u32; BLOCK], secret: &[u32; BLOCK + SHIFT]) -> BlockSums {
    let (mut first, mut second) = ([0_u64; 4], [0_u64; 4]);
    let shifted = secret[SHIFT..].as_chunks::<8>().0;
    for ((words, secret), shifted) in words.as_chunks::<8>().0.iter().zip(secret.as_chunks::<8>().0).zip(shifted) {
        for lane in 0..4 {
            first[lane] = first[lane].wrapping_add(product(words, secret, lane));
            second[lane] = second[lane].wrapping_add(product(words, shifted, lane));
        }
    }
    [first, second].map(|lanes| lanes.into_iter().fold(0, u64::wrapping_add))
}

#[inline(always)]
fn product(words: &[u32; 8], secret: &[u32; 8], pair: usize) -> u64 {
    let sum = |place: usize| u64::from(words[place].wrapping_add(secret[place]));
    sum(2 * pair).wrapping_mul(sum(2 * pair + 1))
}

#[cfg(test)]
mod tests;
