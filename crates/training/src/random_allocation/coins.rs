//! Public coins: the output of BLAKE3 over the inputs of the accounting.

use evertally::noise::RandomBits;
use evertally_kernels::{BlockName, Cipher, InstructionSet, Normals};

/// Bytes that are generated at once.
const AT_ONCE: usize = 4096;

/// An endless stream of bytes that follows from a seed.
pub(super) struct Coins {
    source: blake3::OutputReader,
    buffer: Box<[u8; AT_ONCE]>,
    used: usize,
}

impl Coins {
    /// From a purpose and some numbers.
    pub(super) fn new(purpose: &str, seed: &[u8; 32], numbers: &[f64]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("evertally 1 coins of random allocation");
        hasher.update(seed);
        for number in numbers {
            hasher.update(&number.to_bits().to_le_bytes());
        }
        hasher.update(purpose.as_bytes());
        Self { source: hasher.finalize_xof(), buffer: Box::new([0; AT_ONCE]), used: AT_ONCE }
    }

    /// Normal variables whose key is drawn from the stream.
    pub(super) fn into_normals(mut self) -> NormalCoins {
        let mut key = [0; 32];
        key.as_chunks_mut::<16>().0.iter_mut().for_each(|half| *half = self.take());
        NormalCoins { normals: Normals::new(Cipher::ChaCha8, &key, InstructionSet::best()), used: 0 }
    }

    /// The same stream without this many [uniform](Self::uniform) numbers at its beginning, before the first use.
    pub(super) fn without_first(mut self, count: u64) -> Self {
        debug_assert!(self.used == AT_ONCE && AT_ONCE.is_multiple_of(8));
        self.source.set_position(8 * count);
        self
    }

    /// A number in [0, 1) with 53 bits.
    pub(super) fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl RandomBits for Coins {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        const { assert!(N <= 16) };
        if self.used + N > AT_ONCE {
            // The remaining bytes are discarded.
            self.source.fill(&mut *self.buffer);
            self.used = 0;
        }
        let bytes = self.buffer[self.used..self.used + N].try_into().expect("N bytes");
        self.used += N;
        bytes
    }
}

/// An endless stream of standard normal variables, with the same bits on every machine.
pub(super) struct NormalCoins {
    normals: Normals,
    /// The number of slices that were filled.
    used: u64,
}

impl NormalCoins {
    /// Leaves out this many slices.
    pub(super) fn skip(&mut self, slices: u64) {
        self.used += slices;
    }

    /// The next variables.
    pub(super) fn fill(&mut self, out: &mut [f64]) {
        self.normals.fill_f64(BlockName { level: 0, index: self.used }, 0, out);
        self.used += 1;
    }
}
